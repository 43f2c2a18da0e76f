/* chromium.mjs - a browser for tests: started with an empty profile, driven by the DevTools protocol on two pipes (so no port is
 * open and no package is needed), ended and cleaned up whatever happens. */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const WAIT_MS = 30000 * Number(process.env.SANDPOOL_TEST_SLOW ?? 1);

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions", "--disable-default-apps",
  "--mute-audio", "--hide-scrollbars", "--remote-debugging-pipe",
];

function late(what, ms = WAIT_MS) {
  let timer;
  const promise = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms / 1000} s: ${what}`)), ms);
  });
  return [promise, () => clearTimeout(timer)];
}

export class Browser {
  static async start(program = "chromium") {
    const browser = new Browser();
    browser.directory = mkdtempSync(join(tmpdir(), "sandpool-chromium-"));
    const args = [...FLAGS, `--user-data-dir=${browser.directory}`, "about:blank"];
    const env = { ...process.env, TMPDIR: browser.directory }; // what it makes there it does not remove when it is killed
    browser.child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"], detached: true, env });
    browser.errors = "";
    browser.child.stderr.on("data", (data) => (browser.errors = (browser.errors + data).slice(-4000)));
    browser.child.on("error", (problem) => browser.fail(problem));
    browser.child.on("exit", () => browser.fail(new Error(`the browser has ended: ${browser.errors}`)));
    browser.asked = new Map();
    browser.pages = new Map();
    browser.next = 1;
    let text = "";
    browser.child.stdio[4].setEncoding("utf8").on("data", (data) => {
      text += data;
      for (let end = text.indexOf("\0"); end >= 0; end = text.indexOf("\0")) {
        browser.take(JSON.parse(text.slice(0, end)));
        text = text.slice(end + 1);
      }
    });
    browser.child.stdio[3].on("error", () => {});
    await browser.send("Browser.getVersion");
    return browser;
  }

  fail(problem) {
    for (const { reject } of this.asked.values()) reject(problem);
    this.asked.clear();
  }

  take(message) {
    if (message.id === undefined) {
      this.pages.get(message.sessionId)?.onEvent(message.method, message.params);
      return;
    }
    const asked = this.asked.get(message.id);
    this.asked.delete(message.id);
    if (message.error) asked?.reject(new Error(`${asked.method}: ${message.error.message}`));
    else asked?.resolve(message.result);
  }

  async send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    const [limit, cancel] = late(method);
    const answer = new Promise((resolve, reject) => this.asked.set(id, { resolve, reject, method }));
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    try {
      return await Promise.race([answer, limit]);
    } finally {
      cancel();
    }
  }

  async page() {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    this.pages.set(sessionId, page);
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await page.send(`${domain}.enable`);
    return page;
  }

  /* All of its processes: it has a group of its own. */
  async close() {
    const isOver = new Promise((resolve) => (this.child.exitCode !== null || this.child.signalCode !== null ? resolve() : this.child.once("exit", resolve)));
    try {
      process.kill(-this.child.pid, "SIGKILL");
    } catch {
      /* it has ended */
    }
    await isOver;
    for (const stream of this.child.stdio) stream?.destroy?.();
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

export class Page {
  constructor(browser, sessionId, targetId) {
    Object.assign(this, { browser, sessionId, targetId, problems: [], requests: [], waiting: [] });
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  /* What no page of ours may ever do. */
  onEvent(method, params) {
    if (method === "Runtime.exceptionThrown") this.problems.push(`exception: ${params.exceptionDetails.exception?.description ?? params.exceptionDetails.text}`);
    else if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type))
      this.problems.push(`console.${params.type}: ${params.args.map((a) => a.value ?? a.description).join(" ")}`);
    else if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level)) this.problems.push(`log: ${params.entry.text} ${params.entry.url ?? ""}`);
    else if (method === "Page.javascriptDialogOpening") {
      this.problems.push(`a dialog of a script: ${params.message}`);
      this.send("Page.handleJavaScriptDialog", { accept: false });
    } else if (method === "Network.requestWillBeSent") this.requests.push(params.request);
    else if (method === "Network.webSocketCreated") this.requests.push({ url: params.url });
  }

  async goto(url) {
    await this.send("Page.navigate", { url });
    await this.until(() => document.readyState === "complete" && location.href !== "about:blank");
  }

  /* The value of a function that is run in the page. */
  async run(f, ...args) {
    const expression = `(${f})(${args.map((a) => JSON.stringify(a) ?? "undefined").join(",")})`;
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true, userGesture: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /* What the function in the page returns as soon as that is true. */
  async until(f, ...args) {
    const end = Date.now() + WAIT_MS;
    for (;;) {
      const value = await this.run(f, ...args);
      if (value) return value;
      if (Date.now() > end) {
        const text = await this.run(() => document.body.innerText.slice(0, 3000));
        throw new Error(`not within ${WAIT_MS / 1000} s: ${f} ${JSON.stringify(args)}\n${this.problems.join("\n")}\nthe page:\n${text}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async press(key, { text, code = key, modifiers = 0, windowsVirtualKeyCode } = {}) {
    const codes = { Tab: 9, Enter: 13, Escape: 27, ArrowLeft: 37, ArrowRight: 39, " ": 32 };
    const event = { key, code, modifiers, windowsVirtualKeyCode: windowsVirtualKeyCode ?? codes[key] ?? key.toUpperCase().charCodeAt(0), text: text ?? { Enter: "\r" }[key] };
    await this.send("Input.dispatchKeyEvent", { type: event.text ? "keyDown" : "rawKeyDown", ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event, text: undefined });
  }

  async type(text) {
    await this.send("Input.insertText", { text });
  }

  size(width, height, scale = 1) {
    return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: scale, mobile: false });
  }

  scheme(value) {
    return this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  }

  async shot(file, options = {}) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png", ...options });
    writeFileSync(file, Buffer.from(data, "base64"));
  }

  async close() {
    this.browser.pages.delete(this.sessionId);
    await this.browser.send("Target.closeTarget", { targetId: this.targetId });
  }
}
