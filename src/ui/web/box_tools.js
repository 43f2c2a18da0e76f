/* box_tools.js - processes, files and a terminal of a sandbox, behind tabs. Asking for them counts as use of it and wakes it
 * when it is paused, so nothing is asked before somebody opens a tab, and nothing again by itself. */

import { boxPath, call, esc, get } from "./api.js";
import { hasTerminal } from "./build.js";
import { ask, say, sayProblem } from "./dialog.js";
import { el, setText, Table } from "./dom.js";
import { Files } from "./files.js";
import { count, duration } from "./format.js";
import { Terminal } from "./terminal.js";

const jobColumns = [{ title: "Job" }, { title: "Command", class: "wide" }, { title: "State" }, { title: "Runs", class: "right" }, { title: "Output", class: "right" }, { title: "Actions" }];
const portColumns = [{ title: "Port" }, { title: "Address" }, { title: "Process", class: "wide" }];

/* --- processes --- */

class Processes {
  constructor(id) {
    this.id = id;
    this.jobs = new Table("Jobs", jobColumns, { empty: "No job that runs or whose output is kept." });
    this.ports = new Table("Ports", portColumns, { empty: "Nothing listens." });
    this.node = el(
      "div",
      {},
      el("p", { class: "buttons start" }, el("button", { type: "button", onclick: () => this.open() }, "Refresh")),
      el("h3", {}, "Jobs"),
      this.jobs.node,
      el("h3", {}, "Servers"),
      this.ports.node,
    );
  }

  async open() {
    try {
      const [jobs, ports] = await Promise.all([get(`${boxPath(this.id)}/jobs`), get(`${boxPath(this.id)}/ports`)]);
      this.jobs.show(jobs.jobs ?? [], { key: (j) => String(j.job), fill: (job, cells) => this.fillJob(job, cells) });
      this.ports.show(ports.ports ?? [], { key: (p) => `${p.address} ${p.port}`, fill: (port, cells) => this.fillPort(port, cells) });
    } catch (problem) {
      sayProblem("Processes", problem);
    }
  }

  fillJob(job, cells) {
    const end = job.outcome === "exited" ? `exited ${job.exit_code}` : job.signal ? `${job.outcome} ${job.signal}` : job.outcome;
    [job.job, job.command, end, duration(job.duration_ms / 1000), count((job.stdout_bytes ?? 0) + (job.stderr_bytes ?? 0))].forEach((text, i) => setText(cells[i], text ?? "-"));
    if (job.outcome !== "running") cells[5].replaceChildren();
    else if (cells[5].childElementCount === 0)
      cells[5].append(el("button", { type: "button", "aria-label": `End job ${job.job}`, onclick: () => this.end(job) }, "End"));
  }

  fillPort(port, cells) {
    [port.port, port.address, port.command ? `${port.command} (${port.pid})` : "-"].forEach((text, i) => setText(cells[i], text));
  }

  async end(job) {
    const answer = await ask({ title: `End job ${job.job}?`, text: `TERM, then KILL after two seconds: ${job.command}`, verb: "End", isDangerous: true });
    if (answer === null) return;
    try {
      await call("DELETE", `${boxPath(this.id)}/jobs/${esc(job.job)}`);
      say(`Job ${job.job} has ended.`);
    } catch (problem) {
      sayProblem(`End job ${job.job}`, problem);
    }
    this.open();
  }

  close() {}
}

/* --- the tabs --- */

const why = "Looking inside counts as use of the sandbox, and wakes it when it is paused.";

export class BoxTools {
  constructor(id) {
    this.parts = { Processes: new Processes(id), Files: new Files(id), Terminal: hasTerminal ? new Terminal(id) : null };
    this.tabs = Object.keys(this.parts).map((name) =>
      el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "inside", "aria-selected": "false", tabindex: "-1", onclick: () => this.select(name) }, name),
    );
    this.tabs[0].tabIndex = 0;
    this.list = el("div", { role: "tablist", "aria-label": "Inside", class: "tabs", onkeydown: (event) => this.key(event) }, ...this.tabs);
    this.panel = el("div", { role: "tabpanel", id: "inside", tabindex: "0" }, el("p", { class: "faint pad" }, why));
    this.node = el("section", { class: "card", "aria-labelledby": "h-inside" }, el("h2", { id: "h-inside" }, "Inside"), this.list, this.panel);
    this.selected = null;
    this.state = undefined; /* not known yet; null: it is gone */
  }

  /* Arrows move between tabs, as everywhere. */
  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = this.tabs.indexOf(document.activeElement);
    this.tabs[(at + step + this.tabs.length) % this.tabs.length].focus();
  }

  select(name) {
    this.selected = name;
    for (const tab of this.tabs) {
      const is = tab.textContent === name;
      tab.setAttribute("aria-selected", is);
      tab.tabIndex = is ? 0 : -1;
      if (is) this.panel.setAttribute("aria-labelledby", tab.id);
    }
    const part = this.parts[name];
    if (part === null) this.panel.replaceChildren(el("p", { class: "faint pad" }, "This daemon was built without a terminal: xterm.js could not be had. Use 'sandpool shell'."));
    else if (this.state === undefined) this.panel.replaceChildren(el("p", { class: "faint pad" }, "Asking for the sandbox."));
    else if (this.state !== "leased") this.panel.replaceChildren(el("p", { class: "faint pad" }, `The sandbox is ${this.state ?? "gone"}: only a leased one can be looked into.`));
    else {
      this.panel.replaceChildren(part.node);
      part.open();
    }
  }

  onBox(box) {
    const state = box?.state ?? null;
    if (state === this.state) return;
    this.state = state;
    if (this.selected !== null) this.select(this.selected);
  }

  close() {
    for (const part of Object.values(this.parts)) part?.close();
  }
}
