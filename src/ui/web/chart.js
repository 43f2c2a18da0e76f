/* chart.js - one chart over time, as SVG made by code: lines, or areas on top of each other. */

import { el, setText } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 190;
const LEFT = 46;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/* The next number that is easy to read. */
function roundUp(n) {
  const size = 10 ** Math.floor(Math.log10(n));
  return size * [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => n <= step * size);
}

export class Chart {
  /* `series`: {name, title, color}; `format` of a value, `axis` of one beside the axis; `max` of the axis, if it is always the same. */
  constructor({ title, series, format, axis = format, isStacked = false, max = null, least = 1 }) {
    Object.assign(this, { title, series, format, axis, isStacked, max, least });
    this.svg = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "chart", tabindex: "0" });
    this.cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    this.values = series.map(() => el("b", {}, "-"));
    this.when = el("span", { class: "faint" }, "now");
    const legend = series.map((s, i) => el("li", {}, el("i", { class: `key ${s.color}` }), `${s.title} `, this.values[i]));
    this.node = el("figure", {}, el("figcaption", {}, el("h3", {}, title), this.when, el("ul", { class: "legend" }, ...legend)), this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.select(null));
    this.svg.addEventListener("blur", () => this.select(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.data = null;
    this.at = null;
  }

  /* `columns`: for each series a list of numbers or nulls, all as long; the newest is the last. */
  show(columns, { slots, stepS }) {
    columns = columns.map((column) => column.slice(-slots));
    this.data = { columns, slots, stepS, length: columns[0].length };
    this.tops = this.isStacked ? this.stack(columns) : columns;
    const most = Math.max(this.least, ...this.tops.flat().filter((v) => v !== null));
    this.top = this.max ?? roundUp(most);
    const shapes = this.series.map((s, i) => this.shape(s, i));
    if (this.isStacked) shapes.reverse();
    this.svg.replaceChildren(...this.axes(), ...shapes, this.cursor);
    this.select(this.at !== null && this.at < this.data.length ? this.at : null);
  }

  stack(columns) {
    const sum = columns[0].map(() => 0);
    return columns.map((column) => column.map((v, i) => (sum[i] += v ?? 0)));
  }

  x(i) {
    const { slots, length } = this.data;
    return LEFT + ((slots - length + i + 1) / slots) * (WIDTH - LEFT - RIGHT);
  }

  y(v) {
    return HEIGHT - BOTTOM - (Math.min(v, this.top) / this.top) * (HEIGHT - TOP - BOTTOM);
  }

  axes() {
    const marks = [0, 0.5, 1].map((part) => {
      const y = this.y(part * this.top);
      return svg("g", {}, svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }), this.label(LEFT - 6, y + 4, "end", this.axis(part * this.top)));
    });
    const minutes = (this.data.slots * this.data.stepS) / 60;
    const times = [0, 0.25, 0.5, 0.75, 1].map((part) => {
      const x = LEFT + part * (WIDTH - LEFT - RIGHT);
      const text = part === 1 ? "now" : `-${Math.round(minutes * (1 - part))} min`;
      return this.label(x, HEIGHT - 5, part === 0 ? "start" : part === 1 ? "end" : "middle", text);
    });
    return [...marks, ...times];
  }

  label(x, y, anchor, text) {
    return svg("text", { x, y, "text-anchor": anchor }, text);
  }

  /* Lines end where there is no value. */
  shape(s, i) {
    const tops = this.tops[i];
    const points = tops.map((v, n) => (v === null ? null : `${this.x(n).toFixed(1)} ${this.y(v).toFixed(1)}`));
    if (this.isStacked) {
      const below = i > 0 ? this.tops[i - 1] : tops.map(() => 0);
      const back = below.map((v, n) => `${this.x(n).toFixed(1)} ${this.y(v).toFixed(1)}`).reverse();
      return svg("path", { class: `area ${s.color}`, d: points.length ? `M${[...points, ...back].join("L")}Z` : "" });
    }
    const d = points.map((p, n) => (p === null ? "" : `${n === 0 || points[n - 1] === null ? "M" : "L"}${p}`)).join("");
    const dots = points.filter((p, n) => p !== null && (n === 0 || points[n - 1] === null) && (n + 1 === points.length || points[n + 1] === null));
    return svg("path", { class: `line ${s.color}`, d: `${d}${dots.map((p) => `M${p}h0`).join("")}` });
  }

  /* --- one moment --- */

  point(event) {
    if (this.data === null) return;
    const box = this.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const { slots, length } = this.data;
    const at = Math.round(((x - LEFT) / (WIDTH - LEFT - RIGHT)) * slots) - 1 - (slots - length);
    this.select(at >= 0 && at < length ? at : null);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || this.data === null) return;
    event.preventDefault();
    this.select(Math.min(Math.max((this.at ?? this.data.length - 1) + step, 0), this.data.length - 1));
  }

  select(at) {
    if (this.data === null) return;
    const { columns, length, stepS } = this.data;
    const n = at ?? length - 1;
    this.at = at;
    this.series.forEach((s, i) => setText(this.values[i], this.format(columns[i][n] ?? null)));
    setText(this.when, at === null ? "now" : `${Math.round(((length - 1 - at) * stepS) / 60)} min ago`);
    this.cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) for (const x of ["x1", "x2"]) this.cursor.setAttribute(x, this.x(at));
    const texts = this.series.map((s, i) => `${s.title} ${this.format(columns[i][n] ?? null)}`);
    this.svg.setAttribute("aria-label", `${this.title}, ${this.when.textContent}: ${texts.join(", ")}`);
  }
}
