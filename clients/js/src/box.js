'use strict';
// A sandbox that is ours until it is released.

const { segment } = require('./address');
const { Files } = require('./files');
const { Job } = require('./job');
const { Ports } = require('./ports');
const { Renewal } = require('./renewal');
const { Run, commandBody } = require('./run');
const { NotFound, ProtocolError, SandboxLost, SandpoolError, fromAnswer, listOf } = require('./errors');
const { Sandbox } = require('./sandbox');
const { Snapshot } = require('./snapshot');

const SNAPSHOT_MS = 600000; // a large disk is copied
const SHELL = 'if command -v bash >/dev/null 2>&1; then exec bash -i; else exec sh -i; fi';

/** @typedef {Omit<Partial<import('./transport').Request>, 'method' | 'path'>} Call */

class Box {
  /**
   * @param {import('./client').Client} client
   * @param {import('./sandbox').Sandbox} sandbox
   * @param {{id?: string, ttlS?: number, autoRenew: boolean}} options
   */
  constructor(client, sandbox, options) {
    this.client = client;
    this.sandbox = sandbox;
    this.id = options.id ?? sandbox.sandboxId ?? '';
    this.files = new Files(this);
    this.ports = new Ports(this);
    this.renewal = new Renewal(this, options.ttlS);
    if (options.autoRenew) this.renewal.start();
  }

  /** Where the box's own API answers (docs/agent.md), for other clients. */
  get sandboxUrl() {
    return this.sandbox.sandboxUrl ?? '';
  }

  /** What a request to `sandboxUrl` must carry. */
  get headers() {
    return this.sandbox.headers;
  }

  /** Why the lease is not renewed any more, if that is so. @returns {Error | null} */
  get leaseError() {
    return this.renewal.error;
  }

  get reconnectMs() {
    return this.client.reconnectMs;
  }

  get silenceMs() {
    return this.client.silenceMs;
  }

  get graceMs() {
    return this.client.graceMs;
  }

  // --- calls to this sandbox ---

  /**
   * @param {string} method
   * @param {string} path below the sandbox
   * @param {Call} [call]
   */
  request(method, path, call = {}) {
    return this.explained(this.client.transport.request({ ...call, method, path: this.path(path) }));
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {Call} [call]
   */
  json(method, path, call = {}) {
    return this.explained(this.client.transport.json({ ...call, method, path: this.path(path) }));
  }

  /** Of this very box: one that has replaced it under its id is never used for it. */
  get ownId() {
    return `box:${this.sandbox.boxId}`;
  }

  /** @param {string} path */
  path(path) {
    return `/v1/sandboxes/${segment(this.ownId)}/${path}`;
  }

  /**
   * When there is no such box, it was lost.
   * @template T
   * @param {Promise<T>} work
   */
  async explained(work) {
    try {
      return await work;
    } catch (/** @type {any} */ error) {
      if (error instanceof NotFound) await this.checkLost(error);
      throw error;
    }
  }

  /** Throws if it is the box that is missing; a job may be, too. @param {SandpoolError} [cause] */
  async checkLost(cause) {
    let what = 'is being removed';
    try {
      if ((await this.client.get(this.ownId)).state !== 'deleting') return;
    } catch (error) {
      if (!(error instanceof NotFound) && !(error instanceof SandboxLost)) return; // it is not known
      what = 'died, was removed or was replaced by a new one';
    }
    throw new SandboxLost('sandbox_lost', `the sandbox ${what}`, { status: cause?.status, cause });
  }

  /** @param {'pause' | 'resume'} what */
  standStill(what) {
    return this.explained(this.client.view('POST', this.path(what), { generation: this.sandbox.generation }));
  }

  /** Its processes stand still and use no CPU, until resume() or the next call that needs it. The lease goes on. */
  async pause() {
    return this.standStill('pause');
  }

  /** Lets it go on. */
  async resume() {
    return this.standStill('resume');
  }

  /**
   * Keeps its files as they are now. It stands still for a moment and goes on.
   * @param {{name?: string, metadata?: object}} [options]
   */
  async snapshot(options = {}) {
    const json = { name: options.name, metadata: options.metadata };
    return new Snapshot(await this.json('POST', 'snapshots', { json, timeoutMs: SNAPSHOT_MS }));
  }

  /**
   * New boxes with the files of this one: `count` of them, or one for each of `threads`. All or none: when one cannot be
   * made, the others are destroyed and its error is thrown.
   * @param {number | null} [count]
   * @param {any} [options]
   */
  async fork(count, options = {}) {
    const { waitS, ttlS, autoRenew = true } = options;
    const json = {
      count: count ?? undefined,
      threads: options.threads,
      user_id: options.userId,
      wait_ms: waitS === undefined ? undefined : Math.round(waitS * 1000),
      ttl_s: ttlS,
      idle_timeout_s: options.idleTimeoutS,
      envs: options.envs,
      metadata: options.metadata,
    };
    const timeoutMs = SNAPSHOT_MS + (waitS ?? 0) * 1000;
    const { sandboxes } = await this.json('POST', 'fork', { json, timeoutMs, signal: options.signal });
    if (!Array.isArray(sandboxes)) throw new ProtocolError('protocol', 'the answer to a fork must have a list');
    const failed = sandboxes.find((one) => one?.error);
    const made = sandboxes.filter((one) => !one?.error)
      .map((one) => new Box(this.client, new Sandbox(one), { ttlS, autoRenew: autoRenew && !failed }));
    if (!failed) return made;
    await Promise.allSettled(made.map((box) => box.destroy({ quick: true })));
    throw fromAnswer(200, JSON.stringify(failed));
  }

  // --- commands ---

  /**
   * Runs a command to its end.
   * @param {string | string[]} command a line for the shell, or arguments
   * @param {object} [options]
   */
  async run(command, options = {}) {
    return new Run(this, command, options).result();
  }

  /**
   * Starts a command and returns at once.
   * @param {string | string[]} command
   * @param {any} [options]
   */
  async start(command, options = {}) {
    const body = { ...commandBody(command, options), stdin: options.stdin ? true : undefined, pty: options.pty };
    return new Job(this, await this.json('POST', 'jobs', { json: body, signal: options.signal }));
  }

  /** A job by its number. @param {string} id */
  async job(id) {
    return new Job(this, await this.json('GET', `jobs/${segment(String(id))}`));
  }

  /** All jobs that the sandbox knows. */
  async jobs() {
    return listOf(await this.json('GET', 'jobs'), 'jobs').map((view) => new Job(this, view));
  }

  /**
   * An interactive shell on a terminal of its own. close() ends it unless `keep` is set.
   * @param {any} [options]
   */
  async shell(options = {}) {
    const { cols = 80, rows = 24, command = SHELL, keep = false, killOnDisconnect, signal, ...rest } = options;
    const env = { TERM: 'xterm-256color', ...rest.env };
    const job = await this.start(command, { ...rest, env, stdin: true, pty: { cols, rows }, signal });
    return job.attach({ killOnClose: !keep, killOnDisconnect, signal });
  }

  /**
   * Connects to a job that runs.
   * @param {import('./job').Job | string} job
   * @param {any} [options]
   */
  async attach(job, options = {}) {
    return (typeof job === 'string' ? await this.job(job) : job).attach(options);
  }

  // --- the lease ---

  /** @param {number} [ttlS] from now; undefined: as it was acquired */
  async renew(ttlS) {
    const fresh = await this.client.renew(this.id, { generation: this.sandbox.generation, ttlS: ttlS ?? this.renewal.ttlS });
    if (ttlS !== undefined) this.renewal.ttlS = ttlS;
    this.sandbox.expiresAt = fresh.expiresAt;
    return fresh;
  }

  /** Gives it back: it is kept for its thread, or destroyed. @param {{destroy?: boolean}} [options] */
  async release(options = {}) {
    await this.letGo();
    return this.client.release(this.id, { generation: this.sandbox.generation, destroy: options.destroy });
  }

  /** Ends it; returns when it is gone. @param {{quick?: boolean}} [options] */
  async destroy(options = {}) {
    await this.letGo();
    return this.client.destroy(this.id, { generation: this.sandbox.generation, quick: options.quick });
  }

  /** Holds it no longer in this program: nothing is renewed, nothing is released. */
  detach() {
    return this.letGo();
  }

  async letGo() {
    await Promise.all([this.renewal.stop(), this.ports.close()]);
  }

  /** At the end of `await using`: released; one that is gone already is fine. */
  async dispose() {
    try {
      await this.release();
    } catch (/** @type {any} */ error) {
      if (!['not_found', 'sandbox_lost', 'not_leased', 'stale_generation'].includes(error?.code)) throw error;
    }
  }
}

if (Symbol.asyncDispose) {
  Object.defineProperty(Box.prototype, Symbol.asyncDispose, { value: Box.prototype.dispose });
}

module.exports = { Box };
