'use strict';
// Streams of events (one JSON object per line), and the patience with which broken ones are opened again.

const { setTimeout: sleep } = require('node:timers/promises');
const { ProtocolError, SandpoolError } = require('./errors');
const { broken } = require('./transport');

const LINE_MAX = 16 * 1024 * 1024;
const SILENCE_MS = 60_000; // the server sends something every 15 s
const TRIES_MAX = 200;

/**
 * The events of an answer. A silence that the server's keepalives rule out is a broken connection.
 * @param {import('node:http').IncomingMessage} answer
 * @param {AbortSignal | null} signal
 * @param {number} [silenceMs]
 * @returns {AsyncGenerator<any, void, void>}
 */
async function* readEvents(answer, signal, silenceMs = SILENCE_MS) {
  const timer = setTimeout(() => answer.destroy(broken(undefined)), silenceMs);
  /** @type {Buffer[]} */
  let parts = []; // of a line that has not ended
  let size = 0;
  try {
    for await (const part of answer) {
      timer.refresh();
      let from = 0;
      for (let end = part.indexOf(10); end >= 0; end = part.indexOf(10, from)) {
        parts.push(part.subarray(from, end));
        const line = Buffer.concat(parts).toString('utf8').trim();
        parts = [];
        size = 0;
        from = end + 1;
        if (line !== '') yield parse(line);
        timer.refresh(); // whoever takes long with an event is not the server
      }
      parts.push(part.subarray(from));
      size += part.length - from;
      if (size > LINE_MAX) throw new ProtocolError('protocol', 'an event has no end');
    }
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw error instanceof SandpoolError ? error : broken(error);
  } finally {
    clearTimeout(timer);
    answer.destroy();
  }
}

/** @param {string} line */
function parse(line) {
  let event;
  try {
    event = JSON.parse(line);
  } catch {
    throw new ProtocolError('protocol', 'an event is not JSON');
  }
  if (event === null || typeof event !== 'object') throw new ProtocolError('protocol', 'an event must be an object');
  return event;
}

/** Whether to try again what broke: the daemon may be back soon. @param {unknown} error */
function mayReturn(error) {
  return error instanceof SandpoolError && (error.isRetryable || error.code === 'transport_lost');
}

/** How often and how long a broken stream is opened again: until `limitMs` without a sign of life have passed. */
class Patience {
  /**
   * @param {number} limitMs
   * @param {AbortSignal | null} signal
   */
  constructor(limitMs, signal) {
    this.limitMs = limitMs;
    this.signal = signal;
    this.since = 0;
    this.tries = 0;
  }

  /** Something came: the next failure is a first one. */
  reset() {
    this.tries = 0;
  }

  /**
   * Waits before the next try, or throws the error when it was the last.
   * @param {unknown} error
   */
  async pause(error) {
    if (this.signal?.aborted) throw this.signal.reason;
    if (!mayReturn(error)) throw error;
    if (this.tries === 0) this.since = performance.now();
    this.tries += 1;
    if (this.tries > TRIES_MAX || performance.now() - this.since >= this.limitMs) throw error;
    const delay = Math.min(1000, 25 * 2 ** Math.min(this.tries, 10)) * (0.5 + Math.random() / 2);
    try {
      await sleep(delay, undefined, this.signal ? { signal: this.signal } : {});
    } catch {
      throw this.signal?.reason;
    }
  }
}

module.exports = { readEvents, Patience, mayReturn };
