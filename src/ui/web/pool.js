/* pool.js - the pool live: the words and numbers of `sandpool top`. */

import { changeMode, verbTitle } from "./actions.js";
import { Charts } from "./charts.js";
import { el, section, setClass, setText, Table } from "./dom.js";
import { EventList } from "./events.js";
import { bytes, count, ms, percent } from "./format.js";

/* --- the first lines --- */

const tiles = ["Mode", "Boxes", "Waiting", "Hit rate", "Acquires", "Creating", "Store", "Disk free"];

class Summary {
  constructor() {
    this.values = new Map();
    const items = tiles.map((title) => {
      const value = el("dd", { class: "value" }, "-");
      const more = el("dd", { class: "faint" });
      this.values.set(title, [value, more]);
      return el("div", { class: "tile" }, el("dt", {}, title), value, more);
    });
    this.trouble = el("p", { class: "alarm", role: "alert", hidden: true });
    this.node = el("div", {}, this.trouble, el("dl", { class: "tiles" }, ...items));
    this.rates = [];
  }

  set(title, text, more = "", kind = "") {
    const [value, second] = this.values.get(title);
    setText(value, text);
    setText(second, more);
    setClass(value, "warn-text", kind === "warn");
    setClass(value, "bad-text", kind === "bad");
  }

  /* Acquires per second, of the last ten looks. */
  rate(acquires, at) {
    this.rates.push([at, acquires.reduce((sum, a) => sum + a.count, 0)]);
    if (this.rates.length > 11) this.rates.shift();
    const [[then, before], [now, after]] = [this.rates[0], this.rates.at(-1)];
    return now - then > 500 ? ((after - before) * 1000) / (now - then) : null;
  }

  show({ pool, acquires, hit_rate, hit_rate_last_minute, at }) {
    const oldest = Math.max(0, ...pool.profiles.map((p) => p.oldest_wait_ms));
    const rate = this.rate(acquires, at);
    const disk = pool.disk;
    const trouble = disk?.trouble ?? pool.store.trouble ?? pool.backend_trouble;
    setText(this.trouble, trouble ?? "");
    this.trouble.hidden = !trouble;
    this.set("Mode", pool.mode, pool.message ?? "", pool.mode === "running" ? "" : "warn");
    this.set("Boxes", `${count(pool.total)}/${count(pool.max_boxes)}`, pool.hibernated > 0 ? `${count(pool.hibernated)} hibernated` : "");
    this.set("Waiting", count(pool.waiting), pool.waiting > 0 ? `oldest ${ms(oldest)}` : "", pool.waiting > 0 ? "warn" : "");
    this.set("Hit rate", percent(hit_rate), `last minute ${percent(hit_rate_last_minute)}`);
    this.set("Acquires", rate === null || rate < 0 ? "-" : `${rate.toFixed(1)}/s`, `${count(pool.acquires.refused)} refused`);
    this.set("Creating", count(pool.by_state.starting), pool.boxes.create_failures > 0 ? `${count(pool.boxes.create_failures)} failed so far` : "");
    this.set("Store", pool.store.state, "", pool.store.state === "up" ? "" : "bad");
    this.set("Disk free", bytes(disk?.free_bytes), disk ? `of ${bytes(disk.total_bytes)}` : "", disk?.trouble ? "bad" : "");
  }
}

/* --- profiles --- */

const profileColumns = ["Profile", "Mode", "Blank", "Leased", "Parked", "Starting", "Failing", "Waiting", "Oldest", "Hits", "Breaker", "Actions"].map(
  (title, i) => ({ title, class: i >= 2 && i <= 9 ? "right" : i === 10 ? "wide" : "" }),
);

function breakerText(p) {
  const state = p.breaker.open ? "open" : p.ready ? "closed" : "not ready";
  const next = p.breaker.retry_in_ms > 0 ? `, next try in ${ms(p.breaker.retry_in_ms)}` : "";
  const reason = p.reason ?? p.breaker.reason; /* what /readyz says comes first */
  const leaks = !reason && p.leaking > 0 ? `; ${p.leaking} leases leak` : "";
  return `${state}${next}${reason ? `: ${reason}` : ""}${leaks}`;
}

function profileButtons(profile) {
  return [
    el(
      "span",
      { class: "row-buttons" },
      ...["pause", "drain", "resume"].map((verb) =>
        el("button", { type: "button", "data-verb": verb, "aria-label": `${verbTitle(verb)} ${profile.name}`, onclick: () => changeMode(verb, profile.name) }, verbTitle(verb)),
      ),
    ),
  ];
}

function fillProfile(p, cells, row, isOperator) {
  const all = p.warm_hits + p.cold_starts;
  const texts = [
    p.name,
    p.mode,
    `${p.blank}/${p.target}`,
    count(p.leased),
    count(p.parked),
    count(p.starting),
    count(p.breaker.failures),
    count(p.waiting),
    p.waiting > 0 ? ms(p.oldest_wait_ms) : "-",
    percent(all > 0 ? p.warm_hits / all : null),
    breakerText(p),
  ];
  texts.forEach((text, i) => setText(cells[i], text));
  cells[1].title = p.message ?? "";
  setClass(cells[1], "warn-text", p.mode !== "running");
  setClass(cells[6], "bad-text", p.breaker.failures > 0);
  setClass(cells[7], "warn-text", p.waiting > 0);
  setClass(cells[8], "warn-text", p.waiting > 0);
  setClass(cells[10], "bad-text", p.breaker.open || !p.ready);
  for (const button of row.querySelectorAll("button")) {
    const isNow = { pause: "paused", drain: "draining", resume: "running" }[button.dataset.verb] === p.mode;
    button.disabled = isNow || !isOperator;
    button.title = isOperator ? "" : "for operators";
  }
}

/* --- acquires by source --- */

const sourceColumns = ["Acquires", "Count", "p50", "p99", "Last minute", "p50", "p99"].map((title, i) => ({ title, class: i > 0 ? "right" : "" }));

function fillSource(a, cells) {
  const last = a.last_minute;
  const texts = [a.source, count(a.count), ms(a.p50_ms, a.count), ms(a.p99_ms, a.count), count(last.count), ms(last.p50_ms, last.count), ms(last.p99_ms, last.count)];
  texts.forEach((text, i) => setText(cells[i], text));
}

/* --- the view --- */

export function showPool(main) {
  const summary = new Summary();
  const profiles = new Table("Profiles", profileColumns);
  const sources = new Table("Acquires by source", sourceColumns, { empty: "No acquire since the daemon has started." });
  const charts = new Charts();
  const events = new EventList({ limit: 12 });
  const poolButtons = ["pause", "drain", "resume"].map((verb) =>
    el("button", { type: "button", "data-verb": verb, onclick: () => changeMode(verb, null) }, `${verbTitle(verb)} the pool`),
  );
  main.append(
    el("h1", { class: "unseen" }, "Pool"),
    summary.node,
    section("Profiles", profiles.node, el("p", { class: "buttons start" }, ...poolButtons)),
    section("The last hour", charts.node),
    el("div", { class: "two" }, section("Acquires", sources.node), section("Newest events", events.node)),
  );
  return {
    onPool(data) {
      summary.show(data);
      profiles.show(data.pool.profiles, {
        key: (p) => p.name,
        fill: (p, cells, row) => fillProfile(p, cells, row, data.operator),
        make: profileButtons,
      });
      sources.show(
        data.acquires.filter((a) => a.count > 0),
        { key: (a) => a.source, fill: fillSource },
      );
      for (const button of poolButtons) button.disabled = !data.operator;
      charts.onPool(data);
      events.onNewest(data.newest_event);
    },
    close() {
      charts.close();
      events.close();
    },
  };
}
