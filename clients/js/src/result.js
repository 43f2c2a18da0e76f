'use strict';
// What a command came to, and the output that is kept of it.

const { StringDecoder } = require('node:string_decoder');
const { CommandFailed, SandboxLost, TransportLost } = require('./errors');

/**
 * The first and the last bytes of a stream of any length.
 */
class HeadTail {
  /** @param {number} max */
  constructor(max) {
    this.headMax = Math.ceil(max / 2);
    this.tailMax = max - this.headMax;
    /** @type {Buffer[]} */
    this.head = [];
    /** @type {Buffer[]} */
    this.tail = [];
    this.headSize = 0;
    this.tailSize = 0;
    this.isCut = false;
  }

  /** @param {Buffer} data */
  add(data) {
    const room = this.isCut ? 0 : Math.min(data.length, this.headMax - this.headSize);
    if (room > 0) {
      this.head.push(data.subarray(0, room));
      this.headSize += room;
    }
    if (data.length === room) return;
    this.tail.push(data.subarray(room));
    this.tailSize += data.length - room;
    if (this.tail.length > 1024) this.join(); // many small pieces
    while (this.tail.length > 0 && this.tailSize - this.tail[0].length >= this.tailMax && this.tailSize > this.tailMax) {
      this.tailSize -= /** @type {Buffer} */ (this.tail.shift()).length;
      this.isCut = true;
    }
  }

  join() {
    const whole = Buffer.concat(this.tail);
    if (whole.length > this.tailMax) this.isCut = true;
    const last = whole.subarray(Math.max(0, whole.length - this.tailMax));
    this.tail = last.length > 0 ? [last] : [];
    this.tailSize = last.length;
  }

  /** Bytes are missing here: what follows belongs to the end. */
  skip() {
    this.isCut = true;
  }

  /** @returns {[Buffer, Buffer]} */
  parts() {
    this.join();
    return [Buffer.concat(this.head), this.tail[0] ?? Buffer.alloc(0)];
  }

  bytes() {
    return Buffer.concat(this.parts());
  }

  text() {
    const [head, tail] = this.parts();
    if (!this.isCut) return Buffer.concat([head, tail]).toString('utf8');
    // A character that the cut went through is left out.
    let at = 0;
    while (at < 3 && at < tail.length && (tail[at] & 0xc0) === 0x80) at += 1;
    return new StringDecoder('utf8').write(head) + tail.subarray(at).toString('utf8');
  }
}

/** What a command came to. `stdout` and `stderr` are text, or bytes with `encoding: 'buffer'`. */
class Result {
  /** @param {any} fields */
  constructor(fields) {
    this.outcome = String(fields.outcome);
    this.exitCode = typeof fields.exitCode === 'number' ? fields.exitCode : null;
    this.signal = typeof fields.signal === 'string' ? fields.signal : null;
    this.stdout = fields.stdout;
    this.stderr = fields.stderr;
    this.truncated = Boolean(fields.truncated);
    this.spill = fields.spill ?? null;
    this.durationMs = Number(fields.durationMs ?? 0);
    this.job = fields.job ?? null;
    this.message = fields.message ?? null;
  }

  /** Whether it ended by itself with status 0. */
  get ok() {
    return this.outcome === 'exited' && this.exitCode === 0;
  }

  /** Returns the result of a success; throws otherwise. */
  check() {
    if (!this.ok) throw failureOf(this, lastLine(this.stderr));
    return this;
  }
}

/**
 * @param {{outcome: string, exitCode: number | null, signal: string | null, message?: string | null}} end
 * @param {string} detail
 */
function failureOf(end, detail) {
  if (end.outcome === 'sandbox_lost') return new SandboxLost('sandbox_lost', end.message || 'the sandbox died or was removed');
  if (end.outcome === 'transport_lost') {
    return new TransportLost('transport_lost', end.message || 'the connection to the sandbox broke');
  }
  return new CommandFailed(`${phrase(end)}${detail ? `: ${detail}` : ''}`, end);
}

/** @param {{outcome: string, exitCode: number | null, signal: string | null}} end */
function phrase(end) {
  switch (end.outcome) {
    case 'exited': return `the command exited with status ${end.exitCode}`;
    case 'signalled': return `the command was ended by ${end.signal}`;
    case 'timed_out': return 'the command did not end in time';
    case 'killed': return 'the command was killed';
    case 'oom': return 'the sandbox ran out of memory';
    default: return `the command ended as '${end.outcome}'`;
  }
}

/** @param {unknown} output */
function lastLine(output) {
  const text = Buffer.isBuffer(output) ? output.subarray(-2000).toString('utf8') : String(output ?? '').slice(-2000);
  return text.trimEnd().split('\n').pop()?.slice(0, 300) ?? '';
}

module.exports = { HeadTail, Result, failureOf };
