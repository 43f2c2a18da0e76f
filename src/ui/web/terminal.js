/* terminal.js - a shell in a sandbox: a job with a terminal of its own, attached by a WebSocket (docs/agent.md). */

import { base, boxPath, call, esc, post, tokenProtocols } from "./api.js";
import { say, sayProblem } from "./dialog.js";
import { el } from "./dom.js";

const OUTPUT = 1;
const INPUT = 0;
const TAG = "ui";
const dark = { background: "#0d1117", foreground: "#e6edf3", cursor: "#e6edf3" };

/* xterm.js puts style sheets and style attributes into the page, which the page's policy forbids: nothing inline. The same is
 * allowed to scripts by other calls, so that is what becomes of its own. */
function adoptStyles() {
  const create = document.createElement.bind(document);
  const setAttribute = Element.prototype.setAttribute;
  document.createElement = (tag, options) => (tag.toLowerCase() === "style" ? styleElement(create("span")) : create(tag, options));
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}

/* An element whose text is a style sheet as long as it is there. */
function styleElement(node) {
  const sheet = new CSSStyleSheet();
  node.hidden = true;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(node, "textContent", { set: (text) => sheet.replaceSync(text), get: () => "" });
  node.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
    Element.prototype.remove.call(node);
  };
  return node;
}

/* Once, when the first terminal is wanted. */
let loading = null;

async function load() {
  const sheet = el("link", { rel: "stylesheet", href: "./ui/xterm.css" });
  const isThere = new Promise((resolve, reject) => {
    sheet.addEventListener("load", resolve);
    sheet.addEventListener("error", () => reject(new Error("its style sheet could not be loaded")));
  });
  document.head.append(sheet);
  await isThere;
  adoptStyles();
  return (await import("./xterm.js")).Terminal;
}

export class Terminal {
  constructor(id) {
    this.id = id;
    this.screen = el("div", { class: "terminal", "aria-label": "Terminal" });
    this.button = el("button", { type: "button", onclick: () => this.start() }, "New shell");
    this.state = el("span", { class: "faint", role: "status" });
    this.reader = el("input", { type: "checkbox", id: "reader", onchange: () => this.term && (this.term.options.screenReaderMode = this.reader.checked) });
    const reader = el("span", { class: "check" }, this.reader, el("label", { for: "reader" }, "For screen readers"));
    this.node = el("div", {}, el("p", { class: "buttons start" }, this.button, reader, this.state), this.screen);
    this.job = null;
    this.socket = null;
    this.term = null;
    this.observer = new ResizeObserver(() => this.fit());
  }

  open() {
    if (this.socket === null) this.start();
    else this.term.focus();
  }

  async start() {
    try {
      await this.end();
      this.state.textContent = "starting";
      await this.makeScreen();
      const { cols, rows } = this.term;
      const job = await post(`${boxPath(this.id)}/jobs`, { command: "exec ${SHELL:-/bin/sh} -l", pty: { cols, rows }, tag: TAG, env: { TERM: "xterm-256color" } });
      this.job = job.job;
      this.attach();
    } catch (problem) {
      this.state.textContent = "";
      sayProblem("Terminal", problem);
    }
  }

  async makeScreen() {
    if (this.term !== null) {
      this.term.reset();
      return;
    }
    loading ??= load();
    const Xterm = await loading;
    this.term = new Xterm({
      fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
      fontSize: 13,
      theme: dark,
      scrollback: 5000,
      screenReaderMode: this.reader.checked,
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    });
    this.term.open(this.screen);
    this.term.onData((text) => this.send(new TextEncoder().encode(text)));
    this.term.onBinary((text) => this.send(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    this.term.onResize(({ cols, rows }) => this.control({ resize: { cols, rows } }));
    this.observer.observe(this.screen);
    this.fit();
  }

  /* As many cells as there is room for; the size of one is that of a row on the screen. */
  fit() {
    const screen = this.term?.element?.querySelector(".xterm-screen");
    if (!screen || this.screen.clientWidth === 0) return;
    const cell = { width: screen.clientWidth / this.term.cols, height: screen.clientHeight / this.term.rows };
    const cols = Math.floor((this.screen.clientWidth - 28) / cell.width);
    const rows = Math.floor((this.screen.clientHeight - 16) / cell.height);
    if (Number.isFinite(cols) && Number.isFinite(rows)) this.term.resize(Math.min(Math.max(cols, 20), 500), Math.min(Math.max(rows, 5), 200));
  }

  attach() {
    const url = new URL(`${boxPath(this.id)}/jobs/${esc(this.job)}/attach?offset=0&kill=1`, base);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url, ["sandpool.v1", ...tokenProtocols()]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.state.textContent = "connected";
      this.term.focus();
    };
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.event(JSON.parse(data)) : this.output(new Uint8Array(data)));
    socket.onclose = ({ code }) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.job = null;
      this.state.textContent = code === 1000 ? "the shell has ended" : "the connection has ended";
    };
    this.socket = socket;
  }

  output(data) {
    if (data[0] === OUTPUT || data[0] === OUTPUT + 1) this.term.write(data.subarray(1));
  }

  event({ event, code, message }) {
    if (event === "error") say(`Terminal: ${message ?? code}`, true);
    else if (event === "gap") this.term.write("\r\n[output that is not kept any more]\r\n");
  }

  send(data) {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const message = new Uint8Array(data.length + 1);
    message[0] = INPUT;
    message.set(data, 1);
    this.socket.send(message);
  }

  control(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  /* The shell ends with its connection (kill=1); a job without one is ended by name. */
  async end() {
    const { socket, job } = this;
    this.socket = null;
    this.job = null;
    if (socket !== null) socket.close();
    else if (job !== null) await call("DELETE", `${boxPath(this.id)}/jobs/${esc(job)}`).catch(() => {});
  }

  close() {
    this.observer.disconnect();
    this.end();
    this.term?.dispose();
    this.term = null;
  }
}
