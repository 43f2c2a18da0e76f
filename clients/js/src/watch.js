'use strict';
// Changes of files in a sandbox. Events that may have been missed are never passed over in silence: 'overflow' says so.

const { target } = require('./address');
const { ConnectionFailed, makeError } = require('./errors');
const { Patience, readEvents } = require('./events');
const { ACCEPT } = require('./follow');

const KINDS = new Set(['created', 'modified', 'deleted', 'moved', 'overflow']);

/** An async iterator of {event, path, to, type}. Watching begins at once; `ready` is when it has. */
class Watcher {
  /**
   * @param {import('./box').Box} box
   * @param {string} directory
   * @param {{recursive?: boolean, user?: string, signal?: AbortSignal}} options
   */
  constructor(box, directory, options) {
    this.box = box;
    this.query = { path: directory, recursive: options.recursive ? 1 : undefined, user: options.user };
    this.stopper = new AbortController();
    const { signal } = options;
    const onAbort = () => this.stopper.abort(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    this.events = this.read();
    this.isReady = false;
    /** @type {Promise<IteratorResult<any, void>> | null} */
    this.first = this.events.next(); // the event 'ready', or why there is none
    this.ready = this.first.then(() => undefined).finally(() => {
      if (!this.isReady) signal?.removeEventListener('abort', onAbort);
    });
    this.ready.catch(() => {}); // whoever iterates gets it, too
  }

  /** @returns {AsyncGenerator<any, void, void>} */
  async* read() {
    const { signal } = this.stopper;
    const patience = new Patience(this.box.reconnectMs, signal);
    for (;;) {
      try {
        const path = target('files/watch', this.query);
        const answer = await this.box.request('GET', path, { headers: ACCEPT, signal });
        for await (const event of readEvents(answer, signal, this.box.silenceMs)) {
          patience.reset();
          if (event.error) throw makeError(event.error.code, event.error.message);
          if (event.event === 'ready') yield this.begin();
          else if (KINDS.has(event.event)) yield eventOf(event);
        }
        throw new ConnectionFailed('connect_failed', 'the stream stopped');
      } catch (error) {
        if (!this.isReady) throw error;
        await patience.pause(error);
      }
    }
  }

  /** At the start nothing was missed; after a broken connection something may have been. */
  begin() {
    const event = this.isReady ? 'overflow' : 'ready';
    this.isReady = true;
    return eventOf({ event });
  }

  async* [Symbol.asyncIterator]() {
    try {
      if (this.first !== null) {
        const { first } = this;
        this.first = null;
        if ((await first).done) return;
      }
      yield* this.events;
    } catch (error) {
      if (this.stopper.signal.reason !== CLOSED) throw error;
    } finally {
      this.close();
    }
  }

  /** Ends the watching, and the iterator. */
  close() {
    this.stopper.abort(CLOSED);
  }
}

const CLOSED = new Error('closed');

/** @param {any} event */
function eventOf(event) {
  return { event: String(event.event), path: event.path ?? null, to: event.to ?? null, type: event.type ?? null };
}

module.exports = { Watcher };
