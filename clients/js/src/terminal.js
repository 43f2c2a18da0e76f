'use strict';
// A job and one connection to it, for output, input, resize and signals. Output goes on over broken connections where it
// stopped; input that was on its way when one broke may be lost.

const { target } = require('./address');
const { ProtocolError, SandboxLost, TransportLost } = require('./errors');
const { Patience } = require('./events');
const { advanceTo } = require('./follow');
const { JobEnd } = require('./job');
const { lostOutcome } = require('./run');
const { WebSocketConnection } = require('./websocket');

const PIECE = 64 * 1024;

/** An async iterator of {stream, offset, data, gap}; `wait()` has the end of the job. */
class Terminal {
  /**
   * @param {import('./job').Job} job
   * @param {{offset?: number, stderrOffset?: number, killOnDisconnect?: boolean, killOnClose?: boolean, signal?: AbortSignal}} options
   */
  constructor(job, options) {
    this.job = job;
    this.box = job.box;
    this.options = options;
    this.place = job.place({ stdout: options.offset ?? 0, stderr: options.stderrOffset ?? 0 });
    /** @type {WebSocketConnection | null} */
    this.socket = null;
    /** @type {Promise<WebSocketConnection> | null} */
    this.opening = null;
    /** @type {JobEnd | null} */
    this.end = null;
    this.isClosed = false;
    this.isRead = false;
  }

  /** Connects at the place where the reader is. @returns {Promise<WebSocketConnection>} */
  open() {
    this.opening ??= this.connect().finally(() => {
      this.opening = null;
    });
    return this.opening;
  }

  async connect() {
    const isAgain = this.socket !== null;
    const { stdout, stderr } = this.place.at;
    if (isAgain) await this.job.poll({ signal: this.options.signal }); // the same job, not another of its number
    const query = { offset: stdout, stderr_offset: stderr, kill: this.options.killOnDisconnect ? 1 : undefined };
    this.socket = await this.box.explained(WebSocketConnection.connect(this.box.client.transport, {
      path: this.box.path(target(this.job.path('/attach'), query)),
      protocols: ['sandpool.v1'],
      signal: this.options.signal,
      silenceMs: this.box.silenceMs,
    }));
    return this.socket;
  }

  /** The connection that input goes to; while it is broken, the next one. */
  async current() {
    if (this.isClosed || this.end) throw new TransportLost('transport_lost', 'the terminal is closed');
    if (this.socket && !this.socket.isOver) return this.socket;
    return this.opening ?? this.open();
  }

  // --- output ---

  async* [Symbol.asyncIterator]() {
    if (this.isRead) throw new TypeError('the output of a terminal is read once');
    this.isRead = true;
    const patience = new Patience(this.box.reconnectMs, this.options.signal ?? null);
    try {
      while (!this.end && !this.isClosed) {
        try {
          const socket = this.socket && !this.socket.isOver ? this.socket : await this.open();
          for (;;) {
            const { value, done } = await socket.next();
            if (done) break;
            patience.reset();
            for (const step of this.advance(value)) yield { data: Buffer.alloc(0), gap: 0, ...step };
          }
          if (!this.end && !this.isClosed) throw new TransportLost('transport_lost', `the terminal was closed (${socket.closeCode})`);
        } catch (error) {
          if (this.isClosed) return;
          await patience.pause(error);
        }
      }
    } catch (error) {
      const outcome = this.options.signal?.aborted ? null : lostOutcome(error, true);
      if (outcome === null) throw error;
      this.end = new JobEnd({ outcome, message: /** @type {Error} */ (error).message });
    }
  }

  /**
   * @param {string | Buffer} message
   * @returns {any[]}
   */
  advance(message) {
    if (typeof message === 'string') return this.onEvent(message);
    const stream = message[0] === 1 ? 'stdout' : message[0] === 2 ? 'stderr' : null;
    if (stream === null) return []; // of a later version
    const data = message.subarray(1);
    const offset = this.place.at[stream];
    this.place.at[stream] += data.length;
    return data.length > 0 ? [{ stream, offset, data }] : [];
  }

  /** @param {string} text */
  onEvent(text) {
    let event;
    try {
      event = JSON.parse(text);
    } catch {
      throw new ProtocolError('protocol', 'an event is not JSON');
    }
    if (event?.event === 'gap') return advanceTo(this.place, event.stream === 'stderr' ? 'stderr' : 'stdout', Number(event.to));
    if (event?.event === 'end') {
      if (event.outcome === 'transport_lost') throw new TransportLost('transport_lost', 'the connection to the sandbox broke');
      if (event.outcome === 'sandbox_lost') throw new SandboxLost('sandbox_lost', 'the sandbox died or was removed');
      this.end = JobEnd.of(event);
    }
    return [];
  }

  /** How the job ended. Output that nobody reads meanwhile is discarded. @returns {Promise<JobEnd>} */
  async wait() {
    if (!this.isRead) for await (const _ of this) { /* discarded */ } // eslint-disable-line no-unused-vars
    return this.end ?? this.job.wait({ signal: this.options.signal });
  }

  /**
   * Joins it with streams, such as process.stdin and process.stdout, until the job ends.
   * @param {NodeJS.ReadableStream | null} input
   * @param {NodeJS.WritableStream} output
   * @param {NodeJS.WritableStream} [errors] undefined: where output goes
   */
  async connectTo(input, output, errors = output) {
    const onData = (/** @type {any} */ data) => {
      input?.pause();
      this.write(data).then(() => input?.resume(), () => {});
    };
    const onEnd = () => {
      this.closeStdin().catch(() => {});
    };
    input?.on('data', onData).on('end', onEnd);
    try {
      for await (const part of this) {
        const to = part.stream === 'stderr' ? errors : output;
        if (!to.write(part.data)) await new Promise((resolve) => to.once('drain', resolve));
      }
    } finally {
      input?.off('data', onData).off('end', onEnd).pause();
    }
    return this.wait();
  }

  // --- input ---

  /** @param {string | Uint8Array} data */
  async write(data) {
    const bytes = typeof data === 'string' ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.length);
    for (let at = 0; at < bytes.length; at += PIECE) {
      const socket = await this.current();
      await socket.send(Buffer.concat([Buffer.alloc(1), bytes.subarray(at, at + PIECE)]));
    }
  }

  async closeStdin() {
    await (await this.current()).send(JSON.stringify({ eof: true }));
  }

  /** @param {string} name */
  async signal(name) {
    await (await this.current()).send(JSON.stringify({ signal: name }));
  }

  /**
   * @param {number} cols
   * @param {number} rows
   */
  async resize(cols, rows) {
    await (await this.current()).send(JSON.stringify({ resize: { cols, rows } }));
  }

  /** Closes the connection. The job goes on, unless it is the shell of box.shell() or `kill` is set. @param {{kill?: boolean}} [options] */
  async close(options = {}) {
    if (this.isClosed) return;
    this.isClosed = true;
    await this.socket?.close();
    if ((options.kill ?? this.options.killOnClose) && !this.end) this.end = await this.job.kill();
  }
}

if (Symbol.asyncDispose) {
  Object.defineProperty(Terminal.prototype, Symbol.asyncDispose, {
    value() {
      return this.close();
    },
  });
}

module.exports = { Terminal };
