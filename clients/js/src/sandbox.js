'use strict';
// What the daemon reports of a sandbox.

const { createHash } = require('node:crypto');
const { ProtocolError } = require('./errors');

/** One sandbox as the daemon saw it at one moment. */
class Sandbox {
  /** @param {any} view the daemon's object */
  constructor(view) {
    if (view === null || typeof view !== 'object' || typeof view.box_id !== 'string') {
      throw new ProtocolError('protocol', 'a sandbox must be an object with a box_id');
    }
    this.sandboxId = text(view.sandbox_id);
    this.generation = Number(view.generation ?? 0);
    this.boxId = view.box_id;
    this.state = String(view.state);
    this.profile = String(view.profile);
    this.userId = text(view.user_id);
    this.threadId = text(view.thread_id);
    this.sandboxUrl = text(view.sandbox_url);
    this.createdAt = time(view.created_at);
    this.expiresAt = time(view.expires_at);
    this.source = text(view.source);
    this.alive = typeof view.alive === 'boolean' ? view.alive : null;
    this.paused = view.paused === true;
    this.why = text(view.why);
    this.report = report(view.report);
    this.stats = stats(view.stats);
    this.metadata = view.metadata ?? {};
    // Not enumerable: a sandbox that is printed or logged does not show its secret.
    Object.defineProperty(this, 'token', { value: text(view.token), enumerable: false });
  }

  /** What a request to `sandboxUrl` must carry. @returns {Record<string, string>} */
  get headers() {
    const token = /** @type {any} */ (this).token;
    return token ? { Authorization: `Bearer ${token}` } : {};
  }
}

/** @param {unknown} value */
function text(value) {
  return typeof value === 'string' ? value : null;
}

/** What the end of a box has released and what it has used; null: not known. @param {any} value */
function report(value) {
  if (value === null || typeof value !== 'object') return null;
  return {
    text: String(value.text),
    processes: number(value.processes),
    mounts: number(value.mounts),
    layers: number(value.layers),
    bytes: number(value.bytes),
    livedS: number(value.lived_s),
    usage: value.usage === null || typeof value.usage !== 'object' ? null : {
      leasedMs: number(value.usage.leased_ms),
      parkedMs: number(value.usage.parked_ms),
      pausedMs: number(value.usage.paused_ms),
      cpuMs: number(value.usage.cpu_ms),
      memoryMbS: number(value.usage.memory_mb_s),
      ...bytes(value.usage),
    },
    currency: text(value.currency),
    cost: text(value.cost),
    costMicros: number(value.cost_micros),
  };
}

/** What a box has used so far; null: not asked for, or not known. @param {any} value */
function stats(value) {
  if (value === null || typeof value !== 'object') return null;
  return { cpuMs: number(value.cpu_ms), memoryBytes: number(value.memory_bytes), ...bytes(value) };
}

/** @param {any} value */
function bytes(value) {
  return {
    netInBytes: number(value.net_in_bytes),
    netOutBytes: number(value.net_out_bytes),
    diskReadBytes: number(value.disk_read_bytes),
    diskWriteBytes: number(value.disk_write_bytes),
  };
}

/** @param {unknown} value */
function number(value) {
  return typeof value === 'number' ? value : null;
}

/** @param {unknown} value */
function time(value) {
  if (typeof value !== 'string') return null;
  const at = new Date(value);
  return Number.isNaN(at.getTime()) ? null : at;
}

/**
 * The public id of a thread, as the daemon computes it.
 * @param {string | null | undefined} userId
 * @param {string} threadId
 */
function sandboxIdOf(userId, threadId) {
  return createHash('sha256').update(`${userId || 'default'}:${threadId}`).digest('hex').slice(0, 16);
}

module.exports = { Sandbox, sandboxIdOf, text, time };
