/* charts.js - the last hour, which the daemon keeps: boxes, hit rate, and how long acquires take. */

import { ApiError, get } from "./api.js";
import { Chart } from "./chart.js";
import { el } from "./dom.js";
import { count, ms, percent } from "./format.js";

const STEPS = 360; /* that the daemon keeps */
const TOGETHER = 6; /* of them are a point of a chart: a minute */
const LONGER_MS = 60000; /* what took longer than this is not known better */
const states = ["leased", "blank", "parked", "starting", "deleting"];

const sum = (column, from, to) => column.slice(from, to).reduce((all, n) => all + n, 0);
const most = (column, from, to) => Math.max(...column.slice(from, to));

/* From where to where the points go; they begin at the same steps whenever one looks. */
function pointsOf({ first, steps }) {
  const points = [];
  for (let from = first; from < steps; ) {
    const to = Math.min(from - (from % TOGETHER) + TOGETHER, steps);
    points.push([from - first, to - first]);
    from = to;
  }
  return points;
}

/* The slowest source is what somebody waits for. */
function slowest(acquires, key, from, to) {
  let time = null;
  for (const source of Object.values(acquires)) {
    for (let n = from; n < to; n++) if (source.count[n] > 0) time = Math.max(time ?? 0, source[key][n] ?? LONGER_MS);
  }
  return time;
}

/* The middle of what all sources had, by how often each was. */
function usual(acquires, from, to) {
  let all = 0;
  let time = 0;
  for (const source of Object.values(acquires)) {
    for (let n = from; n < to; n++) {
      all += source.count[n];
      time += source.count[n] * (source.p50_ms[n] ?? (source.count[n] > 0 ? LONGER_MS : 0));
    }
  }
  return all > 0 ? time / all : null;
}

function hitRate({ warm, cold }, from, to) {
  const hits = sum(warm.count, from, to);
  const all = hits + sum(cold.count, from, to);
  return all > 0 ? hits / all : null;
}

function merge(old, page) {
  if (old === null || page.first === 0 || page.first !== old.steps) return page;
  const join = (a, b) => {
    if (Array.isArray(a)) return [...a, ...b].slice(-STEPS);
    if (typeof a !== "object" || a === null) return b;
    return Object.fromEntries(Object.keys(b).map((key) => [key, join(a[key], b[key])]));
  };
  const all = join(old, page);
  return { ...all, first: all.steps - all.waiting.length };
}

export class Charts {
  constructor() {
    const color = (name) => ({ name, title: name, color: `c-${name}` });
    this.boxes = new Chart({ title: "Boxes", series: states.map(color), format: (v) => (v === null ? "-" : count(Math.round(v * 10) / 10)), isStacked: true, least: 4 });
    this.hits = new Chart({ title: "Hit rate", series: [{ name: "hit", title: "acquires served from a blank box", color: "c-blank" }], format: percent, axis: (v) => `${v * 100}%`, max: 1 });
    this.times = new Chart({
      title: "Time to acquire",
      series: [
        { name: "p99", title: "p99", color: "c-starting" },
        { name: "p50", title: "p50", color: "c-leased" },
      ],
      format: (v) => ms(v),
      axis: (v) => (v === 0 ? "0" : ms(v)),
      least: 0.5,
    });
    this.waits = new Chart({
      title: "Waiting and refused",
      series: [
        { name: "waiting", title: "waiting", color: "c-parked" },
        { name: "refused", title: "refused", color: "c-refused" },
      ],
      format: (v) => (v === null ? "-" : count(Math.round(v * 10) / 10)),
      least: 4,
    });
    this.node = el("div", { class: "charts" }, this.boxes.node, this.hits.node, this.times.node, this.waits.node);
    this.data = null;
    this.isAsking = false;
    this.isClosed = false;
  }

  onPool({ steps }) {
    if (this.isAsking || (this.data !== null && this.data.steps === steps)) return;
    this.load();
  }

  async load() {
    this.isAsking = true;
    try {
      const page = await get(`v1/pool/history${this.data === null ? "" : `?since=${this.data.steps}`}`);
      this.data = merge(this.data, page);
      if (!this.isClosed) this.show();
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem; /* else the next look may succeed */
    } finally {
      this.isAsking = false;
    }
  }

  show() {
    const { boxes, acquires, waiting, refused, step_s } = this.data;
    const points = pointsOf(this.data);
    const scale = { slots: STEPS / TOGETHER, stepS: step_s * TOGETHER };
    const column = (f) => points.map(([from, to]) => f(from, to));
    this.boxes.show(states.map((state) => column((from, to) => boxes[state][to - 1])), scale);
    this.hits.show([column((from, to) => hitRate(acquires, from, to))], scale);
    this.times.show([column((from, to) => slowest(acquires, "p99_ms", from, to)), column((from, to) => usual(acquires, from, to))], scale);
    this.waits.show([column((from, to) => most(waiting, from, to)), column((from, to) => sum(refused, from, to))], scale);
  }

  close() {
    this.isClosed = true;
  }
}
