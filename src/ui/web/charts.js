/* charts.js - the last hour, which the daemon keeps: boxes, hit rate, and how long acquires take. */

import { ApiError, get } from "./api.js";
import { Chart } from "./chart.js";
import { el } from "./dom.js";
import { count, ms, percent } from "./format.js";

const SLOTS = 360;
const states = ["leased", "blank", "parked", "starting", "deleting"];

/* Two neighbours of the same source become one number: the worst of a source is what somebody waits for. */
function slowest(acquires, key, n) {
  let most = null;
  for (const source of Object.values(acquires)) {
    if (source.count[n] === 0) continue;
    most = Math.max(most ?? 0, source[key][n] ?? 60000);
  }
  return most;
}

function merge(old, page) {
  if (old === null || page.first === 0 || page.first !== old.steps) return page;
  const join = (a, b) => {
    if (Array.isArray(a)) return [...a, ...b].slice(-SLOTS);
    if (typeof a !== "object" || a === null) return b;
    return Object.fromEntries(Object.keys(b).map((key) => [key, join(a[key], b[key])]));
  };
  return join(old, page);
}

export class Charts {
  constructor() {
    const color = (name) => ({ name, title: name, color: `c-${name}` });
    this.boxes = new Chart({ title: "Boxes", series: states.map(color), format: (v) => (v === null ? "-" : count(Math.round(v * 10) / 10)), isStacked: true, least: 4 });
    this.hits = new Chart({ title: "Hit rate", series: [{ name: "hit", title: "acquires served from a blank box", color: "c-blank" }], format: percent, max: 1 });
    this.times = new Chart({
      title: "Time to acquire",
      series: [
        { name: "p99", title: "p99", color: "c-starting" },
        { name: "p50", title: "p50", color: "c-leased" },
      ],
      format: (v) => ms(v),
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
    const scale = { slots: SLOTS, stepS: step_s };
    const all = (n) => acquires.warm.count[n] + acquires.cold.count[n];
    const hits = waiting.map((_, n) => (all(n) > 0 ? acquires.warm.count[n] / all(n) : null));
    const column = (key) => waiting.map((_, n) => slowest(acquires, key, n));
    this.boxes.show(states.map((s) => boxes[s]), scale);
    this.hits.show([hits], scale);
    this.times.show([column("p99_ms"), column("p50_ms")], scale);
    this.waits.show([waiting, refused], scale);
  }

  close() {
    this.isClosed = true;
  }
}
