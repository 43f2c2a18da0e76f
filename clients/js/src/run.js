'use strict';
// box.run(): a command and its result. The command runs once: a request whose answer is missing is never sent again; the
// job is looked up by a tag of its own, and its output is read on.

const { randomBytes } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { StringDecoder } = require('node:string_decoder');
const { ConnectionFailed, SandpoolError, TransportLost, listOf } = require('./errors');
const { Patience } = require('./events');
const { HeadTail, Result } = require('./result');
const { ACCEPT, followJob } = require('./follow');
const { segment } = require('./address');

const DEFAULT_TIMEOUT_S = 60;
const DEFAULT_MAX_OUTPUT = 1024 * 1024;
const MARGIN_MS = 30_000; // for the answer, beyond the time of the command
const GRACE_MS = 60_000; // for the end of a stream, likewise
const RATE_MIN = 512; // bytes in a millisecond, at which output that was kept is read after that
const READ_MS = 1024_000; // which takes no longer: a box keeps 256 MiB of each stream
const LOOKS = 4; // for a job whose start was not confirmed
const LOOK_MS = 10_000;
const AMBIGUOUS = ['connect_failed', 'transport_lost', 'timeout', 'protocol'];

/**
 * The members that exec and jobs share.
 * @param {string | string[]} command
 * @param {any} options
 */
function commandBody(command, options) {
  return {
    ...(Array.isArray(command) ? { argv: command } : { command }),
    cwd: options.cwd,
    env: options.env,
    user: options.user,
    tag: options.tag,
    timeout_s: options.timeoutS,
  };
}

/** @param {unknown} stdin */
function stdinBody(stdin) {
  if (stdin === undefined || stdin === null) return {};
  if (typeof stdin === 'string') return { stdin };
  if (stdin instanceof Uint8Array) return { stdin_base64: Buffer.from(stdin.buffer, stdin.byteOffset, stdin.length).toString('base64') };
  throw new TypeError('stdin must be a string or bytes; box.start() takes more with job.send()');
}

/**
 * How long we wait for a command that its box ends by itself when its time is over. A box that does not, and says that all is
 * well, keeps nobody waiting. Only waiting counts: not what the caller does with the output.
 */
class Limit {
  /**
   * @param {number} timeoutS 0: none
   * @param {AbortSignal | null} signal
   * @param {number} [graceMs]
   */
  constructor(timeoutS, signal, graceMs = GRACE_MS) {
    this.leftMs = timeoutS > 0 ? timeoutS * 1000 + graceMs : Infinity;
    this.bonusMs = READ_MS;
    this.since = performance.now();
    this.stopper = new AbortController();
    this.outer = signal;
    this.onAbort = () => this.stopper.abort(signal?.reason);
    signal?.addEventListener('abort', this.onAbort, { once: true });
    if (signal?.aborted) this.onAbort();
    /** @type {NodeJS.Timeout | null} */
    this.timer = null;
    this.goOn(0);
  }

  get signal() {
    return this.stopper.signal;
  }

  pause() {
    if (this.timer) clearTimeout(this.timer);
    this.leftMs -= performance.now() - this.since;
  }

  /** @param {number} count of bytes that have come */
  goOn(count) {
    const bonus = Math.min(count / RATE_MIN, this.bonusMs);
    this.bonusMs -= bonus;
    this.leftMs += bonus;
    this.since = performance.now();
    if (this.leftMs === Infinity) return;
    this.timer = setTimeout(() => this.stopper.abort(new TransportLost(
      'transport_lost', 'the time of the command is over, and the sandbox does not end it')), Math.min(Math.max(this.leftMs, 0), 0x7fffffff));
  }

  end() {
    if (this.timer) clearTimeout(this.timer);
    this.outer?.removeEventListener('abort', this.onAbort);
  }
}

/** One run: what was asked, and how far it is. */
class Run {
  /**
   * @param {import('./box').Box} box
   * @param {string | string[]} command
   * @param {any} options
   */
  constructor(box, command, options) {
    this.box = box;
    this.options = options;
    this.signal = options.signal ?? null;
    this.isBytes = options.encoding === 'buffer';
    this.maxOutput = options.maxOutput ?? DEFAULT_MAX_OUTPUT;
    this.began = performance.now();
    this.isLookedFor = false;
    /** @type {unknown} */
    this.callbackError = undefined;
    this.isOwnTag = options.tag === undefined || options.tag === null;
    const tag = this.isOwnTag ? `run-${randomBytes(8).toString('hex')}` : options.tag;
    this.body = {
      ...commandBody(command, { ...options, tag }),
      ...stdinBody(options.stdin),
      max_output: this.maxOutput,
      kill_on_disconnect: options.killOnDisconnect,
    };
    /** @type {import('./follow').Place} */
    this.place = { job: null, pid: null, tag, startedAt: null, at: { stdout: 0, stderr: 0 } };
    this.kept = { stdout: new HeadTail(this.maxOutput), stderr: new HeadTail(this.maxOutput) };
    this.decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') };
  }

  async result() {
    this.signal?.throwIfAborted();
    try {
      return await this.attempt();
    } catch (error) {
      if (this.signal?.aborted) {
        await this.kill();
        throw this.signal.reason;
      }
      const outcome = lostOutcome(error, this.place.job !== null || this.isLookedFor);
      if (outcome === null || error === this.callbackError) throw error;
      return this.finish({ outcome, message: /** @type {Error} */ (error).message });
    }
  }

  async attempt() {
    const { onStdout, onStderr } = this.options;
    let first = null;
    try {
      if (!onStdout && !onStderr && !this.signal) return this.fromAnswer(await this.exec({}, null));
      first = await this.exec({ stream: true }, this.signal);
      return await this.follow(first);
    } catch (error) {
      // A refusal is the caller's; an answer that is missing may be that of a command which runs.
      if (this.signal?.aborted || !isAmbiguous(error) || this.place.job !== null || !this.isOwnTag) throw error;
      this.isLookedFor = true;
      if (!await this.find(this.box.reconnectMs, this.signal)) throw error;
      return this.follow(null);
    }
  }

  /**
   * Sends the command. Nothing is lost by trying again as long as nobody took the request.
   * @param {object} more
   * @param {AbortSignal | null} signal
   */
  async exec(more, signal) {
    const patience = new Patience(this.box.reconnectMs, signal);
    const timeoutS = this.options.timeoutS ?? DEFAULT_TIMEOUT_S;
    const isStream = 'stream' in more;
    for (;;) {
      try {
        const request = {
          json: { ...this.body, ...more, encoding: isStream ? undefined : this.isBytes ? 'base64' : 'utf-8' },
          headers: isStream ? ACCEPT : undefined,
          timeoutMs: isStream ? undefined : timeoutS > 0 ? timeoutS * 1000 + MARGIN_MS : null,
          signal,
        };
        return isStream ? await this.box.request('POST', 'exec', request) : await this.box.json('POST', 'exec', request);
      } catch (error) {
        if (!wasNotSent(error)) throw error;
        await patience.pause(error);
      }
    }
  }

  /**
   * Looks for the command by its tag: it may run, and it may not have begun.
   * @param {number} limitMs
   * @param {AbortSignal | null} signal
   * @returns {Promise<boolean>}
   */
  async find(limitMs, signal) {
    const patience = new Patience(limitMs, signal);
    for (let look = 0; look < LOOKS;) {
      try {
        const answer = await this.box.json('GET', 'jobs', { signal, timeoutMs: LOOK_MS });
        const view = listOf(answer, 'jobs').find((job) => job.tag === this.place.tag);
        if (view) {
          this.place.job = String(view.job);
          this.place.pid = view.pid ?? null;
          this.place.startedAt = view.started_at ?? null;
          return true;
        }
        look += 1;
        await sleep(100 * look);
      } catch (problem) {
        await patience.pause(problem);
      }
    }
    return false;
  }

  /** @param {import('node:http').IncomingMessage | null} first */
  async follow(first) {
    const limit = new Limit(this.options.timeoutS ?? DEFAULT_TIMEOUT_S, this.signal, this.box.graceMs);
    const steps = followJob(this.box, this.place, { first, signal: limit.signal, reconnectMs: this.box.reconnectMs });
    limit.signal.addEventListener('abort', () => first?.destroy(limit.signal.reason), { once: true });
    try {
      for await (const step of steps) {
        limit.pause();
        if ('end' in step) {
          await this.flush();
          return this.finish(fromView(step.end));
        }
        if ('gap' in step) this.kept[/** @type {'stdout'} */ (step.stream)].skip();
        else if ('data' in step) await this.take(step.stream, step.data);
        limit.goOn(step.data?.length ?? 0);
      }
    } finally {
      limit.end();
    }
    throw new ConnectionFailed('connect_failed', 'the stream stopped before its end');
  }

  /**
   * @param {'stdout' | 'stderr'} stream
   * @param {Buffer} data
   */
  async take(stream, data) {
    this.kept[stream].add(data);
    const call = stream === 'stdout' ? this.options.onStdout : this.options.onStderr;
    const part = this.isBytes ? data : this.decoders[stream].write(data);
    if (call && part.length > 0) await this.callback(call, part);
  }

  async flush() {
    for (const stream of /** @type {const} */ (['stdout', 'stderr'])) {
      const call = stream === 'stdout' ? this.options.onStdout : this.options.onStderr;
      const rest = this.decoders[stream].end();
      if (call && rest !== '') await this.callback(call, rest);
    }
  }

  /**
   * An error of the caller's function is the caller's: it ends the run, and is never taken for a broken connection.
   * @param {(part: any) => unknown} call
   * @param {any} part
   */
  async callback(call, part) {
    try {
      await call(part);
    } catch (error) {
      this.callbackError = error;
      await this.kill();
      throw error;
    }
  }

  /** Ends the command, as far as that can be done in a short time. */
  async kill() {
    try {
      if (this.place.job === null && !(this.isOwnTag && await this.find(LOOK_MS, null))) return;
      await this.box.json('DELETE', `jobs/${segment(String(this.place.job))}`, { timeoutMs: LOOK_MS });
    } catch {
      // the reason of the abort counts, not this
    }
  }

  /** @param {any} view of exec without a stream */
  fromAnswer(view) {
    const read = (/** @type {any} */ value) => (this.isBytes ? Buffer.from(value ?? '', 'base64') : String(value ?? ''));
    const spill = view.spill ? spillOf(view.spill.job ?? view.job, view.spill) : null;
    return new Result({
      ...fromView(view), stdout: read(view.stdout), stderr: read(view.stderr), truncated: view.truncated, spill,
    });
  }

  /** @param {any} fields */
  finish(fields) {
    const { stdout, stderr } = this.kept;
    const read = (/** @type {HeadTail} */ kept) => (this.isBytes ? kept.bytes() : kept.text());
    const output = { stdout: read(stdout), stderr: read(stderr) };
    const truncated = stdout.isCut || stderr.isCut;
    const sizes = { stdout_bytes: this.place.at.stdout, stderr_bytes: this.place.at.stderr };
    return new Result({
      durationMs: Math.round(performance.now() - this.began), job: this.place.job, ...fields, ...output, truncated,
      spill: truncated && this.place.job !== null ? spillOf(this.place.job, sizes) : null,
    });
  }
}

/** @param {any} view */
function fromView(view) {
  return {
    outcome: view.outcome,
    exitCode: view.exit_code,
    signal: view.signal,
    durationMs: view.duration_ms,
    job: view.job ?? null,
    message: view.message ?? null,
  };
}

/**
 * @param {string} job
 * @param {any} sizes
 */
function spillOf(job, sizes) {
  return { job: String(job), stdoutBytes: Number(sizes.stdout_bytes ?? 0), stderrBytes: Number(sizes.stderr_bytes ?? 0) };
}

/** Whether nobody can have seen the request. @param {any} error */
function wasNotSent(error) {
  return error instanceof ConnectionFailed && /** @type {any} */ (error).wasSent === false;
}

/** Whether the command may have begun all the same. @param {any} error */
function isAmbiguous(error) {
  return error instanceof SandpoolError && AMBIGUOUS.includes(error.code) && !wasNotSent(error);
}

/**
 * What the end of a connection means for a command; null: it is an error of the call.
 * @param {unknown} error
 * @param {boolean} hasBegun
 */
function lostOutcome(error, hasBegun) {
  if (!(error instanceof SandpoolError) || (wasNotSent(error) && !hasBegun)) return null;
  if (error.code === 'sandbox_lost') return 'sandbox_lost';
  if (error.code === 'transport_lost') return 'transport_lost';
  if (hasBegun) return error.code === 'not_found' ? 'sandbox_lost' : 'transport_lost';
  return AMBIGUOUS.includes(error.code) ? 'transport_lost' : null;
}

module.exports = { Run, commandBody, fromView, lostOutcome, wasNotSent };
