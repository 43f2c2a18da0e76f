/* boxes.js - the table of sandboxes: filtered by the daemon, searched here, a page at a time. */

import { actOnBox, verbsOf, verbTitle } from "./actions.js";
import { esc, get } from "./api.js";
import { sayProblem } from "./dialog.js";
import { el, setClass, setText, Table } from "./dom.js";
import { clock, duration, nameOf, owner } from "./format.js";

const PAGE = 50;
const WALK_PAGE = 1000;
const WALK_MAX = 5000; /* boxes that a search looks at */
const REFRESH_MS = 3000;
const states = ["starting", "blank", "leased", "parked", "deleting", "hibernated"];

const columns = [
  { title: "ID" },
  { title: "State" },
  { title: "Profile" },
  { title: "Owner" },
  { title: "Held by" },
  { title: "Lease", class: "right" },
  { title: "Age", class: "right" },
  { title: "Idle", class: "right" },
  { title: "Ends", class: "right" },
  { title: "Actions" },
];

export const stateOf = (box) => (box.leaking ? "leaking" : `${box.state}${box.paused ? " paused" : ""}`);

function fill(box, cells, row, onChange) {
  const id = nameOf(box);
  if (cells[0].childElementCount === 0) cells[0].append(el("a", { href: `#/box/${esc(id)}`, class: "id" }, id));
  setText(cells[1], stateOf(box));
  setText(cells[2], box.profile ?? "-");
  setText(cells[3], owner(box));
  setClass(cells[1], "warn-text", box.leaking);
  setText(cells[4], box.principal_name ?? "-");
  setText(cells[5], duration(box.leased_s));
  setText(cells[6], duration(box.age_s));
  setText(cells[7], duration(box.idle_s ?? box.parked_s));
  setText(cells[8], box.ends_in_s === undefined ? "-" : `in ${duration(box.ends_in_s)}`);
  cells[8].title = box.ends_at ? `${clock(box.ends_at)}, by ${box.ends_by}` : "";
  const verbs = verbsOf(box).filter((verb) => verb === "destroy" || verb === "release");
  if (row.dataset.verbs === verbs.join(" ")) return;
  row.dataset.verbs = verbs.join(" ");
  cells[9].replaceChildren(
    el(
      "span",
      { class: "row-buttons" },
      ...verbs.map((verb) =>
        el("button", { type: "button", "aria-label": `${verbTitle(verb)} ${id}`, onclick: async () => (await actOnBox(verb, row.box)) && onChange() }, verbTitle(verb)),
      ),
    ),
  );
}

const matches = (box, text) =>
  [box.sandbox_id, box.box_id, box.user_id, box.thread_id, box.profile, box.principal_name, JSON.stringify(box.metadata ?? "")].some((v) =>
    String(v ?? "").toLowerCase().includes(text),
  );

/* Where the reader is, and what it looks for. */
class Listing {
  constructor(rest) {
    const params = new URLSearchParams(rest);
    this.state = params.get("state") ?? "";
    this.profile = params.get("profile") ?? "";
    this.text = params.get("text") ?? "";
    this.cursors = [""]; /* of the pages up to this one */
    this.found = null; /* of a search: all of it */
    this.page = 0;
    this.hasMore = false;
    this.isCut = false;
  }

  path(limit, cursor) {
    const params = new URLSearchParams({ limit });
    for (const key of ["state", "profile"]) if (this[key] !== "") params.set(key, this[key]);
    if (cursor !== "") params.set("cursor", cursor);
    return `v1/sandboxes?${params}`;
  }

  async search(text) {
    const found = [];
    let cursor = "";
    let seen = 0;
    do {
      const page = await get(this.path(WALK_PAGE, cursor));
      found.push(...page.sandboxes.filter((box) => matches(box, text)));
      seen += page.sandboxes.length;
      cursor = page.next_cursor ?? "";
    } while (cursor !== "" && seen < WALK_MAX);
    this.isCut = cursor !== "";
    return found;
  }

  /* The boxes of the page that is shown. */
  async load() {
    const text = this.text.trim().toLowerCase();
    if (text !== "") {
      this.found = await this.search(text);
      this.hasMore = this.found.length > (this.page + 1) * PAGE;
      return this.found.slice(this.page * PAGE, (this.page + 1) * PAGE);
    }
    this.found = null;
    this.isCut = false;
    const page = await get(this.path(PAGE, this.cursors[this.page]));
    this.hasMore = page.next_cursor !== null && page.next_cursor !== undefined;
    this.cursors[this.page + 1] = page.next_cursor ?? "";
    return page.sandboxes;
  }

  restart() {
    this.page = 0;
    this.cursors = [""];
  }
}

function choice(id, label, values, chosen) {
  const select = el("select", { id }, el("option", { value: "" }, "all"), ...values.map((v) => el("option", { value: v, selected: v === chosen }, v)));
  return [select, el("span", { class: "field" }, el("label", { for: id }, label), select)];
}

class BoxesView {
  constructor(main, rest) {
    const listing = new Listing(rest);
    this.listing = listing;
    this.table = new Table("Sandboxes", columns, { empty: "No sandbox fits." });
    this.text = el("input", { id: "text", type: "search", value: listing.text, placeholder: "id, user, thread, holder, metadata", autocomplete: "off" });
    const [state, stateField] = choice("state", "State", states, listing.state);
    const [profile, profileField] = choice("profile", "Profile", listing.profile === "" ? [] : [listing.profile], listing.profile);
    Object.assign(this, { state, profile, askedAt: 0, run: 0, timer: null });
    this.where = el("span", { class: "faint", role: "status" });
    this.back = el("button", { type: "button", onclick: () => this.turn(-1) }, "Previous");
    this.next = el("button", { type: "button", onclick: () => this.turn(1) }, "Next");
    this.text.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.changed(), 250);
    });
    for (const select of [state, profile]) select.addEventListener("change", () => this.changed());
    main.append(
      el("h1", {}, "Sandboxes"),
      el("search", { class: "filters" }, el("span", { class: "field grow" }, el("label", { for: "text" }, "Search"), this.text), stateField, profileField),
      el("section", { class: "card", "aria-label": "Sandboxes" }, this.table.node, el("p", { class: "buttons pages" }, this.where, this.back, this.next)),
    );
    this.load();
  }

  /* Answers to older questions than the last one are dropped. */
  async load() {
    const mine = ++this.run;
    this.askedAt = Date.now();
    try {
      const boxes = await this.listing.load();
      if (mine === this.run) this.show(boxes);
    } catch (problem) {
      if (mine === this.run) sayProblem("The list of sandboxes", problem);
    }
  }

  show(boxes) {
    const { page, found, isCut, hasMore } = this.listing;
    this.table.show(boxes, {
      key: (box) => box.box_id ?? box.sandbox_id,
      fill: (box, cells, row) => {
        row.box = box;
        fill(box, cells, row, () => this.load());
      },
    });
    const of = found === null ? "" : ` of ${found.length} found${isCut ? ` among the first ${WALK_MAX}` : ""}`;
    setText(this.where, boxes.length === 0 ? "" : `${page * PAGE + 1} to ${page * PAGE + boxes.length}${of}`);
    this.back.disabled = page === 0;
    this.next.disabled = !hasMore;
  }

  turn(by) {
    this.listing.page += by;
    this.load();
  }

  changed() {
    const { listing, state, profile, text } = this;
    Object.assign(listing, { state: state.value, profile: profile.value, text: text.value });
    listing.restart();
    const params = new URLSearchParams();
    for (const key of ["state", "profile", "text"]) if (listing[key] !== "") params.set(key, listing[key]);
    history.replaceState(null, "", `#/boxes${params.size > 0 ? `?${params}` : ""}`);
    this.load();
  }

  onPool({ pool }) {
    const known = [...this.profile.options].map((o) => o.value);
    for (const p of pool.profiles) if (!known.includes(p.name)) this.profile.append(el("option", { value: p.name }, p.name));
    /* A search looks at all of them: it is made when somebody asks for it. */
    if (this.listing.found === null && Date.now() - this.askedAt >= REFRESH_MS) this.load();
  }

  close() {
    this.run++;
    clearTimeout(this.timer);
  }
}

export const showBoxes = (main, rest) => new BoxesView(main, rest);
