/* box.js - one sandbox: what it is, what it uses, what happened to it, and what runs and lies in it. */

import { actOnBox, verbsOf, verbTitle } from "./actions.js";
import { boxPath, esc, get } from "./api.js";
import { stateOf } from "./boxes.js";
import { BoxTools } from "./box_tools.js";
import { el, section, setText } from "./dom.js";
import { EventList } from "./events.js";
import { bytes, count, duration, owner, percent } from "./format.js";

const EVERY_MS = 2000;
const EVENTS_MAX = 200;
const PAGES_MAX = 20;

/* What a person wants to read first; all other members of the answer follow. */
const first = [
  ["State", (b) => `${stateOf(b)}${b.why ? ` (${b.why})` : ""}`],
  ["Profile", (b) => b.profile],
  ["Owner", owner],
  ["Held by", (b) => b.principal_name],
  ["Lease", (b) => (b.leased_s === undefined ? "-" : `since ${duration(b.leased_s)}`)],
  ["Last call", (b) => (b.last ? `${b.last.verb}, ${duration(b.last.ago_s)} ago, from ${b.last.from}` : "-")],
  ["Age", (b) => duration(b.age_s)],
  ["Idle", (b) => duration(b.idle_s ?? b.parked_s)],
  ["Ends", (b) => (b.ends_in_s === undefined ? "not by time alone" : `in ${duration(b.ends_in_s)}, by ${b.ends_by}`)],
  ["Generation", (b) => count(b.generation)],
  ["Box", (b) => b.box_id],
  ["Made", (b) => b.created_at],
  ["Expires", (b) => b.expires_at],
];
const known = new Set(
  "sandbox_id generation box_id state profile user_id thread_id token created_at expires_at ends_at ends_by ends_in_s age_s idle_s parked_s paused why stats metadata principal principal_name leased_s leased_at last leaking".split(" "),
);

class Members {
  constructor() {
    this.node = el("dl", { class: "members" });
    this.values = new Map();
  }

  set(title, text) {
    let value = this.values.get(title);
    if (value === undefined) {
      value = el("dd");
      this.values.set(title, value);
      this.node.append(el("div", {}, el("dt", {}, title), value));
    }
    setText(value, text ?? "-");
  }

  show(box, use) {
    for (const [title, of] of first) this.set(title, of(box));
    for (const [title, text] of use) this.set(title, text);
    for (const [key, value] of Object.entries(box)) {
      if (!known.has(key)) this.set(key, typeof value === "object" && value !== null ? JSON.stringify(value) : value);
    }
    if (box.metadata) this.set("Metadata", JSON.stringify(box.metadata));
  }
}

/* CPU is what it was between two looks, as in `sandpool top`. */
class Use {
  constructor() {
    this.before = null;
  }

  read(stats) {
    if (!stats) return [["CPU", "-"], ["Memory", "-"]];
    const now = performance.now();
    const before = this.before;
    this.before = { now, stats };
    const rate = (key) => (before && typeof stats[key] === "number" ? Math.max(0, stats[key] - before.stats[key]) / (now - before.now) : null);
    const io = rate("disk_read_bytes") === null ? null : (rate("disk_read_bytes") + rate("disk_write_bytes")) * 1000;
    return [
      ["CPU", percent(rate("cpu_ms"))],
      ["Memory", bytes(stats.memory_bytes)],
      ["I/O/s", bytes(io)],
      ["Network in, out", `${bytes(stats.net_in_bytes)}, ${bytes(stats.net_out_bytes)}`],
    ];
  }
}

/* Of a box the newest events come last, and pages begin with the oldest. */
async function lastEvents(id) {
  let since = 0;
  let last = [];
  for (let pages = 0; since !== null && pages < PAGES_MAX; pages++) {
    const page = await get(`v1/events?format=json&limit=1000&since=${since}&id=${esc(id)}`);
    last = [...last, ...page.events].slice(-EVENTS_MAX);
    since = page.next ?? null;
  }
  return last;
}

class BoxView {
  constructor(main, id) {
    this.id = id;
    this.members = new Members();
    this.use = new Use();
    this.events = new EventList({ limit: EVENTS_MAX });
    this.tools = new BoxTools(id);
    this.buttons = el("p", { class: "buttons start" });
    this.problem = el("p", { class: "alarm", role: "alert", hidden: true });
    this.box = null;
    this.askedAt = 0;
    this.newest = null; /* event that the history was asked for at */
    this.isOver = false;
    main.append(
      el("p", { class: "faint" }, el("a", { href: "#/boxes" }, "Sandboxes"), " / "),
      el("h1", { class: "id" }, id),
      this.problem,
      this.buttons,
      section("Now", this.members.node),
      this.tools.node,
      section("History", this.events.node),
    );
    this.load();
  }

  showButtons() {
    const verbs = this.box === null ? [] : verbsOf(this.box);
    if (this.buttons.dataset.verbs === verbs.join(" ")) return;
    this.buttons.dataset.verbs = verbs.join(" ");
    const act = async (verb) => (await actOnBox(verb, this.box)) && this.load();
    this.buttons.replaceChildren(
      ...verbs.map((verb) => el("button", { type: "button", class: verb === "destroy" ? "danger" : "", onclick: () => act(verb) }, verbTitle(verb))),
    );
  }

  async load() {
    this.askedAt = Date.now();
    try {
      const found = await get(`${boxPath(this.id)}?stats=1`);
      if (this.isOver) return;
      this.box = found;
      this.members.show(found, this.use.read(found.stats));
    } catch (failed) {
      this.box = null;
      setText(this.problem, failed.message);
    }
    this.problem.hidden = this.box !== null;
    this.tools.onBox(this.box);
    this.showButtons();
  }

  async loadEvents(newest) {
    this.newest = newest;
    try {
      const events = await lastEvents(this.id);
      if (!this.isOver) this.events.show(events);
    } catch {
      this.newest = null; /* the next look may succeed */
    }
  }

  onPool({ newest_event }) {
    if (Date.now() - this.askedAt < EVERY_MS) return;
    this.load();
    if (newest_event !== this.newest) this.loadEvents(newest_event);
  }

  close() {
    this.isOver = true;
    this.tools.close();
  }
}

export function showBox(main, rest) {
  const view = new BoxView(main, decodeURIComponent(rest));
  view.loadEvents(null);
  return view;
}
