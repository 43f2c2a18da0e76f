'use strict';
// A process that was started in a sandbox and goes on by itself: it outlives its caller and a restart of the daemon.

const { DeadlineExceeded, SandboxLost } = require('./errors');
const { segment, target } = require('./address');
const { Patience, mayReturn } = require('./events');
const { followJob, isSame } = require('./follow');
const { failureOf } = require('./result');
const { fromView, lostOutcome } = require('./run');

const WAIT_S = 30; // of one request; the next one follows
const MARGIN_MS = 30_000;

/** How a job ended, or 'running'. */
class JobEnd {
  /** @param {any} fields */
  constructor(fields) {
    this.outcome = String(fields.outcome);
    this.exitCode = typeof fields.exitCode === 'number' ? fields.exitCode : null;
    this.signal = typeof fields.signal === 'string' ? fields.signal : null;
    this.durationMs = Number(fields.durationMs ?? 0);
    this.stdoutBytes = Number(fields.stdoutBytes ?? 0);
    this.stderrBytes = Number(fields.stderrBytes ?? 0);
    this.message = fields.message ?? null;
  }

  /** @param {any} view */
  static of(view) {
    return new JobEnd({ ...fromView(view), stdoutBytes: view.stdout_bytes, stderrBytes: view.stderr_bytes });
  }

  get isRunning() {
    return this.outcome === 'running';
  }

  get ok() {
    return this.outcome === 'exited' && this.exitCode === 0;
  }

  /** Returns the end of a success; throws otherwise. */
  check() {
    if (!this.ok) throw failureOf(this, '');
    return this;
  }
}

/**
 * @param {number | {timeoutS?: number, signal?: AbortSignal}} options
 * @returns {{timeoutS?: number, signal?: AbortSignal}}
 */
function waitOptions(options) {
  const given = typeof options === 'number' ? { timeoutS: options } : options;
  if (typeof given !== 'object' || given === null) {
    throw new TypeError('job.wait() expects a number of seconds or an object such as { timeoutS: 60 }');
  }
  const time = given.timeoutS ?? undefined;
  if (time !== undefined && (typeof time !== 'number' || !(time >= 0))) {
    throw new TypeError('timeoutS of job.wait() must be a number of seconds, 0 or more');
  }
  return { ...given, timeoutS: time === Infinity ? undefined : time };
}

class Job {
  /**
   * @param {import('./box').Box} box
   * @param {any} view
   */
  constructor(box, view) {
    this.box = box;
    this.id = String(view.job);
    this.pid = typeof view.pid === 'number' ? view.pid : null;
    this.command = view.command ?? null;
    this.tag = view.tag ?? null;
    this.pty = Boolean(view.pty);
    this.startedAt = view.started_at ?? null;
  }

  /** @param {string} [more] */
  path(more = '') {
    return `jobs/${segment(this.id)}${more}`;
  }

  /** @returns {import('./follow').Place} */
  place(at = { stdout: 0, stderr: 0 }) {
    return { job: this.id, pid: this.pid, tag: this.tag, startedAt: this.startedAt, at };
  }

  /** A view of this job; the number may be another job's when the sandbox was replaced. @param {any} view */
  read(view) {
    if (!isSame(this.place(), view)) throw new SandboxLost('sandbox_lost', 'the sandbox was replaced by a new one');
    return JobEnd.of(view);
  }

  /** How it stands now: 'running', or its end. @param {{signal?: AbortSignal}} [options] */
  async poll(options = {}) {
    return this.read(await this.box.json('GET', this.path(), { signal: options.signal }));
  }

  /**
   * Its end. A sandbox that is lost meanwhile is an outcome; time that is over throws.
   * @param {number | {timeoutS?: number, signal?: AbortSignal}} [options] a number: of seconds
   * @returns {Promise<JobEnd>}
   */
  async wait(options = {}) {
    const { timeoutS, signal = null } = waitOptions(options);
    const began = performance.now();
    const patience = new Patience(this.box.reconnectMs, signal);
    for (;;) {
      const left = timeoutS === undefined ? WAIT_S : Math.max(0, timeoutS - (performance.now() - began) / 1000);
      const time = Math.min(left, WAIT_S);
      try {
        const view = await this.box.json('POST', this.path('/wait'), {
          json: { timeout_s: time }, timeoutMs: time * 1000 + MARGIN_MS, signal, isSafe: true,
        });
        patience.reset();
        if (view.outcome !== 'running') return this.read(view);
        if (timeoutS !== undefined && left <= time) throw new DeadlineExceeded('timeout', `job ${this.id} still runs`);
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (timeoutS !== undefined && left <= time && mayReturn(error)) throw error;
        try {
          await patience.pause(error);
        } catch (last) {
          const outcome = signal?.aborted ? null : lostOutcome(last, true);
          if (outcome === null) throw last;
          return new JobEnd({ outcome, message: /** @type {Error} */ (last).message });
        }
      }
    }
  }

  /** Ends it with its descendants; returns when it is dead. One that ended before stays as it is. */
  async kill() {
    try {
      return JobEnd.of(await this.box.json('DELETE', this.path(), { isSafe: true }));
    } catch (error) {
      const outcome = lostOutcome(error, true);
      if (outcome !== 'sandbox_lost') throw error;
      return new JobEnd({ outcome, message: /** @type {Error} */ (error).message });
    }
  }

  /**
   * Its output as it is written: {stream, offset, data}, or {stream, offset, gap} of bytes that are not kept any more.
   * @param {{stream?: 'stdout' | 'stderr' | 'both', offset?: number, stderrOffset?: number, follow?: boolean, signal?: AbortSignal}} [options]
   */
  async* output(options = {}) {
    const { stream = 'both', offset = 0, stderrOffset = 0, follow = true, signal } = options;
    const at = { stdout: stream === 'stderr' ? 0 : offset, stderr: stream === 'stderr' ? offset : stderrOffset };
    for await (const step of followJob(this.box, this.place(at), { stream, follow, signal, reconnectMs: this.box.reconnectMs })) {
      if ('stream' in step) yield { data: Buffer.alloc(0), gap: 0, ...step };
    }
  }

  /**
   * Writes to its input. Not repeated when the connection breaks: what was taken of it is not known then.
   * @param {string | Uint8Array} data
   * @param {{eof?: boolean, signal?: AbortSignal}} [options]
   */
  async send(data, options = {}) {
    await this.box.json('POST', target(this.path('/stdin'), { eof: options.eof ? 1 : undefined }), {
      body: data, signal: options.signal, timeoutMs: null, headers: { 'Content-Type': 'application/octet-stream' },
    });
  }

  /** Ends its input. */
  async closeStdin() {
    await this.send('', { eof: true });
  }

  /** @param {string} name such as 'INT' */
  async signal(name) {
    await this.box.json('POST', this.path('/signal'), { json: { signal: name } });
  }

  /**
   * @param {number} cols
   * @param {number} rows
   */
  async resize(cols, rows) {
    await this.box.json('POST', this.path('/resize'), { json: { cols, rows }, isSafe: true });
  }

  /**
   * One connection for output, input, resize and signals.
   * @param {{offset?: number, stderrOffset?: number, killOnDisconnect?: boolean, killOnClose?: boolean, signal?: AbortSignal}} [options]
   */
  async attach(options = {}) {
    const { Terminal } = require('./terminal'); // it needs Job's end, Job needs it: loaded when both are there
    const terminal = new Terminal(this, options);
    await terminal.open();
    return terminal;
  }
}

module.exports = { Job, JobEnd };
