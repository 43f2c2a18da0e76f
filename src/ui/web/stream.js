/* stream.js - server-sent events by fetch(), which can send a token, and again when they end. */

import { request } from "./api.js";

const PAUSE_MIN_MS = 500;
const PAUSE_MAX_MS = 8000;

function takeEvent(block) {
  const event = { name: "message", data: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) event.name = line.slice(7);
    else if (line.startsWith("data: ")) event.data += line.slice(6);
  }
  return event.data === "" ? null : event;
}

async function read(path, signal, onEvent) {
  const response = await request("GET", path, { signal, headers: { Accept: "text/event-stream" } });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = takeEvent(text.slice(0, end));
      text = text.slice(end + 2);
      if (event !== null) onEvent(event.name, JSON.parse(event.data));
    }
  }
}

/* Follows `path` until stop(). onState gets "live", or "away" with the reason. While nobody looks at the page nothing is asked. */
export class Stream {
  constructor(path, { onEvent, onState }) {
    Object.assign(this, { path, onEvent, onState, isOver: false, abort: null, wake: null });
    this.onVisible = () => (document.hidden ? this.abort?.abort() : this.wake?.());
    document.addEventListener("visibilitychange", this.onVisible);
    this.run();
  }

  async run() {
    let pause = PAUSE_MIN_MS;
    while (!this.isOver) {
      try {
        this.abort = new AbortController();
        await read(this.path, this.abort.signal, (name, data) => {
          pause = PAUSE_MIN_MS;
          this.onState("live");
          this.onEvent(name, data);
        });
        this.onState("away", "the daemon has ended the stream");
      } catch (problem) {
        if (this.isOver) return;
        if (problem.status === 401) return this.stop();
        if (problem.name !== "AbortError") this.onState("away", problem.message);
      }
      await this.sleep(pause);
      pause = Math.min(2 * pause, PAUSE_MAX_MS);
    }
  }

  async sleep(pause) {
    do {
      await new Promise((resolve) => {
        this.wake = resolve;
        if (!document.hidden) setTimeout(resolve, pause);
      });
    } while (document.hidden && !this.isOver);
  }

  stop() {
    this.isOver = true;
    document.removeEventListener("visibilitychange", this.onVisible);
    this.abort?.abort();
    this.wake?.();
  }
}
