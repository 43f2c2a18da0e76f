/* events.js - the audit trail, as far as its reader may see it: the newest events of the pool, or those of one box. */

import { ApiError, esc, get } from "./api.js";
import { el, setText, Table } from "./dom.js";
import { clock } from "./format.js";

const EVERY_MS = 2000;
const shown = new Set(["at", "event", "id", "sandbox_id", "box_id"]);

/* What an event says beside its name and its box. */
export function detailsOf(event) {
  return Object.entries(event)
    .filter(([key, value]) => !shown.has(key) && value !== null && value !== "")
    .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}

const columns = [{ title: "Time" }, { title: "Event" }, { title: "Sandbox" }, { title: "Details", class: "wide" }];

function fill(event, cells) {
  const id = event.sandbox_id ?? (event.box_id ? `box:${event.box_id}` : "");
  setText(cells[0], clock(event.at));
  cells[0].title = event.at;
  setText(cells[1], event.event);
  if (cells[2].childElementCount === 0 && id !== "") cells[2].append(el("a", { href: `#/box/${esc(id)}` }, id));
  setText(cells[3], detailsOf(event));
}

export class EventList {
  constructor({ limit }) {
    this.limit = limit;
    this.table = new Table("Events", columns, { empty: "None yet." });
    this.node = this.table.node;
    this.newest = 0;
    this.askedAt = 0;
    this.isAsking = false;
  }

  onNewest(newest) {
    const now = Date.now();
    if (newest === this.newest || this.isAsking || now - this.askedAt < EVERY_MS) return;
    this.askedAt = now;
    this.load(newest);
  }

  async load(newest) {
    this.isAsking = true;
    try {
      const page = await get(`v1/events?format=json&limit=${this.limit}&since=${Math.max(0, newest - this.limit)}`);
      this.newest = newest;
      this.show(page.events);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem; /* else the next look may succeed */
    } finally {
      this.isAsking = false;
    }
  }

  show(events) {
    this.table.show(events.toReversed(), { key: (e) => String(e.id), fill });
  }

  close() {
    this.isAsking = true;
  }
}
