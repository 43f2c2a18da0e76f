/* terminal.js - a shell in a sandbox: a job with a terminal of its own, attached by a WebSocket (docs/agent.md). */

import { base, boxPath, call, esc, post, tokenProtocols } from "./api.js";
import { say, sayProblem } from "./dialog.js";
import { el } from "./dom.js";

const OUTPUT = 1;
const INPUT = 0;
const TAG = "ui";
const dark = { background: "#0d1117", foreground: "#e6edf3", cursor: "#e6edf3" };

/* xterm.js writes style sheets of its own into the page, which the page's policy forbids: nothing inline. It is given a
 * document whose new style elements end in sheets made by script, and whose style attributes are set property by property. */
function strictDocument() {
  const styleElement = () => {
    const node = document.createElement("span");
    const sheet = new CSSStyleSheet();
    node.hidden = true;
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    Object.defineProperty(node, "textContent", { set: (text) => sheet.replaceSync(text), get: () => "" });
    node.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
      Element.prototype.remove.call(node);
    };
    return node;
  };
  const createElement = (tag, options) => {
    if (tag.toLowerCase() === "style") return styleElement();
    const node = document.createElement(tag, options);
    node.setAttribute = (name, value) => (name === "style" ? (node.style.cssText = value) : Element.prototype.setAttribute.call(node, name, value));
    return node;
  };
  return new Proxy(document, {
    get(target, key) {
      if (key === "createElement") return createElement;
      const value = target[key];
      return typeof value === "function" ? value.bind(target) : value;
    },
    set: (target, key, value) => Reflect.set(target, key, value, target),
  });
}

export class Terminal {
  constructor(id) {
    this.id = id;
    this.screen = el("div", { class: "terminal", "aria-label": "Terminal" });
    this.button = el("button", { type: "button", onclick: () => this.start() }, "New shell");
    this.state = el("span", { class: "faint", role: "status" });
    this.node = el("div", {}, el("p", { class: "buttons start" }, this.button, this.state), this.screen);
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
    if (document.getElementById("xterm-css") === null) {
      const sheet = el("link", { id: "xterm-css", rel: "stylesheet", href: "./ui/xterm.css" });
      const isLoaded = new Promise((resolve) => sheet.addEventListener("load", resolve));
      document.head.append(sheet);
      await isLoaded;
    }
    const { Terminal: Xterm } = await import("./xterm.js");
    this.term = new Xterm({
      documentOverride: strictDocument(),
      fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
      fontSize: 13,
      theme: dark,
      scrollback: 5000,
      screenReaderMode: true,
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
