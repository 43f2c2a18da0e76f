'use strict';
// The client of one daemon.

const fs = require('node:fs');
const { parseAddress, segment, target } = require('./address');
const { Box } = require('./box');
const { ProtocolError } = require('./errors');
const { Sandbox } = require('./sandbox');
const { save } = require('./save');
const { Snapshot } = require('./snapshot');
const { chunks, Transport } = require('./transport');

const DEFAULT_TIMEOUT_S = 60;
const RECONNECT_S = 30;
const MARGIN_S = 10; // for the answer, beyond what the daemon was asked to wait
const PAGE = 1000;

class Client {
  /**
   * @param {string | {address?: string, token?: string, timeoutS?: number, reconnectS?: number, ca?: string | Buffer}} [address]
   * @param {{token?: string, timeoutS?: number, reconnectS?: number, ca?: string | Buffer}} [options]
   */
  constructor(address, options = {}) {
    const given = typeof address === 'object' && address !== null ? address : { address, ...options };
    const { token = null, timeoutS = DEFAULT_TIMEOUT_S, reconnectS = RECONNECT_S, ca } = given;
    this.transport = new Transport(parseAddress(given.address), token, positive(timeoutS, 'timeoutS') * 1000, ca);
    this.reconnectMs = positive(reconnectS, 'reconnectS') * 1000;
    /** @type {number | undefined} */
    this.silenceMs = undefined; // the usual
    /** @type {number | undefined} */
    this.graceMs = undefined; // likewise
  }

  /** Closes the connections that are kept; calls under way end by themselves. */
  close() {
    this.transport.close();
  }

  // --- sandboxes ---

  /**
   * A sandbox for the thread: its own again if it has one, else a warm one, else a new one. Without a thread: one that
   * nobody finds again.
   * @param {string | null} [threadId]
   * @param {any} [options]
   */
  async acquire(threadId, options = {}) {
    const { waitS, signal, ttlS, autoRenew = true } = options;
    const view = await this.transport.json({
      method: 'POST',
      path: '/v1/acquire',
      json: {
        thread_id: threadId ?? undefined,
        user_id: options.userId,
        profile: options.profile,
        sandbox_id: options.sandboxId,
        wait_ms: waitS === undefined ? undefined : Math.round(waitS * 1000),
        ttl_s: ttlS,
        idle_timeout_s: options.idleTimeoutS,
        envs: options.envs,
        mounts: options.mounts?.map(mountOf),
        limits: options.limits,
        metadata: options.metadata,
        snapshot_id: options.snapshotId,
        network: options.network,
        labels: options.labels,
      },
      signal,
      timeoutMs: waitS === undefined ? undefined : (waitS + MARGIN_S) * 1000,
      // A thread gets the same box again; an anonymous caller would get a second one.
      isSafe: Boolean(threadId || options.sandboxId),
    });
    return new Box(this, new Sandbox(view), { ttlS, autoRenew });
  }

  /**
   * A sandbox that is leased already, by its id or `thread:USER/THREAD`. It is not renewed unless asked for.
   * @param {string} id
   * @param {{autoRenew?: boolean, ttlS?: number}} [options]
   */
  async open(id, options = {}) {
    return new Box(this, await this.get(id), { autoRenew: options.autoRenew ?? false, ttlS: options.ttlS });
  }

  /**
   * @param {string} id
   * @param {{askBackend?: boolean, stats?: boolean}} [options]
   */
  get(id, options = {}) {
    const query = { alive: options.askBackend ? 1 : undefined, stats: options.stats ? 1 : undefined };
    return this.view('GET', target(idPath(id), query));
  }

  /**
   * @param {string} id
   * @param {{generation?: number, ttlS?: number, timeoutMs?: number}} [options]
   */
  renew(id, options = {}) {
    return this.view('POST', `${idPath(id)}/renew`, { generation: options.generation, ttl_s: options.ttlS }, options.timeoutMs);
  }

  /**
   * @param {string} id
   * @param {{generation?: number, destroy?: boolean}} [options]
   */
  release(id, options = {}) {
    return this.view('POST', `${idPath(id)}/release`, { generation: options.generation, destroy: options.destroy });
  }

  /**
   * @param {string} id
   * @param {{generation?: number, quick?: boolean}} [options]
   */
  destroy(id, options = {}) {
    const query = { generation: options.generation, quick: options.quick ? 1 : undefined };
    return this.view('DELETE', target(idPath(id), query));
  }

  /**
   * All sandboxes that this caller may see, read page by page.
   * @param {{state?: string, profile?: string, userId?: string, threadId?: string}} [filters]
   */
  async* list(filters = {}) {
    const { state, profile, userId, threadId } = filters;
    let cursor;
    do {
      const query = { limit: PAGE, cursor, state, profile, user_id: userId, thread_id: threadId };
      const page = await this.transport.json({ method: 'GET', path: target('/v1/sandboxes', query) });
      if (!Array.isArray(page.sandboxes)) throw new ProtocolError('protocol', 'a page of sandboxes must have a list');
      for (const view of page.sandboxes) yield new Sandbox(view);
      cursor = page.next_cursor;
    } while (cursor);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [json]
   * @param {number} [timeoutMs]
   */
  async view(method, path, json, timeoutMs) {
    return new Sandbox(await this.transport.json({ method, path, json, timeoutMs, isSafe: true }));
  }

  // --- snapshots ---

  /**
   * A new sandbox with the files of a snapshot; the options are those of acquire().
   * @param {string} snapshotId
   * @param {string | null} [threadId]
   * @param {any} [options]
   */
  restore(snapshotId, threadId, options = {}) {
    return this.acquire(threadId, { ...options, snapshotId });
  }

  /** Those of this caller, the oldest first, read page by page. */
  async* snapshots() {
    let after;
    do {
      const page = await this.transport.json({ method: 'GET', path: target('/v1/snapshots', { after }) });
      if (!Array.isArray(page.snapshots)) throw new ProtocolError('protocol', 'a page of snapshots must have a list');
      for (const view of page.snapshots) yield new Snapshot(view);
      after = page.next;
    } while (after);
  }

  /** @param {string} snapshotId */
  async snapshot(snapshotId) {
    return new Snapshot(await this.transport.json({ method: 'GET', path: `/v1/snapshots/${segment(snapshotId)}` }));
  }

  /**
   * Sandboxes that were made from it are not affected.
   * @param {string} snapshotId
   */
  async deleteSnapshot(snapshotId) {
    const path = `/v1/snapshots/${segment(snapshotId)}`;
    return new Snapshot(await this.transport.json({ method: 'DELETE', path, isSafe: true }));
  }

  /**
   * To one file of this machine, which appears when it is complete. `format`: 'oci' for a container image, which
   * engines load and importSnapshot() does not take.
   * @param {string} snapshotId
   * @param {string} local
   * @param {{format?: string, signal?: AbortSignal | null}} [options]
   */
  async exportSnapshot(snapshotId, local, { format, signal = null } = {}) {
    const path = target(`/v1/snapshots/${segment(snapshotId)}/export`, { format });
    const answer = await this.transport.request({ method: 'GET', path, signal, timeoutMs: null });
    await save(chunks(answer, signal), local, () => 0o600);
  }

  /**
   * A new snapshot of this caller from such a file.
   * @param {string} local
   * @param {{name?: string, profile?: string, anyBase?: boolean, signal?: AbortSignal | null}} [options]
   */
  async importSnapshot(local, { name, profile, anyBase = false, signal = null } = {}) {
    const path = target('/v1/snapshots/import', { name, profile, any_base: anyBase ? 1 : undefined });
    const file = await fs.promises.open(local, 'r'); // a file that is missing is said now
    const body = file.createReadStream();
    try {
      return new Snapshot(await this.transport.json({ method: 'POST', path, body, signal, timeoutMs: null, isSafe: false }));
    } finally {
      body.destroy();
    }
  }

  // --- the pool ---

  pool() {
    return this.transport.json({ method: 'GET', path: '/v1/pool' });
  }

  /** What profiles there are: what their boxes are like, and how each is doing. */
  async profiles() {
    const answer = await this.transport.json({ method: 'GET', path: '/v1/profiles' });
    if (!Array.isArray(answer.profiles)) throw new ProtocolError('protocol', 'the answer must have a list of profiles');
    return answer.profiles;
  }

  /** @param {string} name */
  profile(name) {
    return this.transport.json({ method: 'GET', path: `/v1/profiles/${segment(name)}` });
  }

  /**
   * What a lease of `durationS` (an hour) would cost; null where the profile has no price.
   * @param {{profile?: string, durationS?: number}} [options]
   */
  quote(options = {}) {
    const query = { profile: options.profile, duration_s: options.durationS };
    return this.transport.json({ method: 'GET', path: target('/v1/quote', query) });
  }

  /**
   * Metered time and what it cost: sums in `usage`, or with `intervals` single intervals, a page at a time.
   * @param {{groupBy?: string[], intervals?: boolean, userId?: string, threadId?: string, sandboxId?: string, profile?: string, principal?: string, sinceMs?: number, untilMs?: number, limit?: number, cursor?: string}} [options]
   */
  usage(options = {}) {
    const query = {
      group_by: options.groupBy?.join(','),
      intervals: options.intervals ? 1 : undefined,
      user_id: options.userId,
      thread_id: options.threadId,
      sandbox_id: options.sandboxId,
      profile: options.profile,
      principal: options.principal,
      since_ms: options.sinceMs,
      until_ms: options.untilMs,
      limit: options.limit,
      cursor: options.cursor,
    };
    return this.transport.json({ method: 'GET', path: target('/v1/usage', query) });
  }

  /**
   * What users may spend, a page at a time. For operators, as the next three are.
   * @param {{limit?: number, cursor?: string}} [options]
   */
  budgets(options = {}) {
    const query = { limit: options.limit, cursor: options.cursor };
    return this.transport.json({ method: 'GET', path: target('/v1/budgets', query) });
  }

  /** @param {string} userId */
  budget(userId) {
    return this.transport.json({ method: 'GET', path: `/v1/budgets/${encodeURIComponent(userId)}` });
  }

  /**
   * @param {string} userId
   * @param {string | null} amount for each period, a decimal number like '12.50'; null: the default of the configuration
   */
  setBudget(userId, amount) {
    return this.transport.json({ method: 'PUT', path: `/v1/budgets/${encodeURIComponent(userId)}`, json: { amount }, isSafe: true });
  }

  /**
   * More for this period, on top of the amount.
   * @param {string} userId
   * @param {string} amount
   */
  creditBudget(userId, amount) {
    return this.transport.json({ method: 'POST', path: `/v1/budgets/${encodeURIComponent(userId)}/credit`, json: { amount } });
  }

  version() {
    return this.transport.json({ method: 'GET', path: '/v1/version' });
  }

  doctor() {
    return this.transport.json({ method: 'GET', path: '/v1/doctor' });
  }

  pause() {
    return this.operate('pause');
  }

  resume() {
    return this.operate('resume');
  }

  /** @param {{evictParked?: boolean}} [options] */
  drain(options = {}) {
    return this.operate('drain', { evict_parked: options.evictParked ?? false });
  }

  reconcile() {
    return this.operate('reconcile');
  }

  reload() {
    return this.operate('reload');
  }

  /**
   * @param {string} what
   * @param {object} [json]
   */
  operate(what, json) {
    return this.transport.json({ method: 'POST', path: `/v1/pool/${what}`, json, isSafe: true });
  }
}

if (Symbol.asyncDispose) {
  Object.defineProperty(Client.prototype, Symbol.asyncDispose, {
    async value() {
      this.close();
    },
  });
}

/** @param {string} id */
function idPath(id) {
  return `/v1/sandboxes/${segment(id)}`;
}

/** @param {any} mount */
function mountOf(mount) {
  return { host_path: mount.hostPath, container_path: mount.containerPath, read_only: mount.readOnly };
}

/**
 * @param {number} value
 * @param {string} name
 */
function positive(value, name) {
  if (typeof value !== 'number' || !(value > 0)) throw new TypeError(`${name} must be a number above 0`);
  return Math.min(value, 2_000_000); // timers know no more
}

module.exports = { Client };
