'use strict';
// What the daemon reports of a snapshot.

const { ProtocolError } = require('./errors');
const { text, time } = require('./sandbox');

/** The files of a sandbox, kept. Memory and processes are not part of it. */
class Snapshot {
  /** @param {any} view the daemon's object */
  constructor(view) {
    if (view === null || typeof view !== 'object' || typeof view.snapshot_id !== 'string') {
      throw new ProtocolError('protocol', 'a snapshot must be an object with a snapshot_id');
    }
    this.snapshotId = view.snapshot_id;
    this.name = String(view.name ?? '');
    this.profile = String(view.profile);
    this.parent = text(view.parent);
    this.sandboxId = text(view.sandbox_id);
    this.userId = text(view.user_id);
    this.threadId = text(view.thread_id);
    this.createdAt = time(view.created_at);
    this.sizeBytes = Number(view.size_bytes ?? 0);
    this.digest = String(view.digest);
    this.metadata = view.metadata ?? {};
    this.layers = typeof view.layers === 'number' ? view.layers : null;
    this.lastUsedAt = time(view.last_used_at);
  }
}

module.exports = { Snapshot };
