'use strict';
// Everything a call can throw. `error.code` is the daemon's own code, or one of this package's.

// Codes that a caller may retry as they are: the fourth column of include/sandpool/errors.h.
const RETRYABLE = new Set([
  'request_timeout', 'pool_exhausted', 'queue_full', 'cancelled', 'backend_failed',
  'acquire_timeout', 'backend_unavailable', 'store_unavailable', 'too_many_connections',
  'draining', 'paused', 'starting', 'timeout', 'too_many_calls', 'port_closed', 'connect_failed', 'no_memory', 'locked',
  'io', 'quota_boxes', 'quota_waiting', 'quota_creates',
]);

/** A call failed. `code` is what to compare. */
class SandpoolError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{status?: number, retryAfterMs?: number | null, path?: string | null, cause?: unknown}} [more]
   */
  constructor(code, message, more = {}) {
    super(`${message} (${code})`, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = new.target.name;
    this.code = code;
    this.status = more.status ?? 0;
    this.retryAfterMs = more.retryAfterMs ?? null;
    this.path = more.path ?? null;
  }

  /** Whether the same call may succeed later. */
  get isRetryable() {
    return RETRYABLE.has(this.code);
  }
}

/** The daemon cannot be reached, or closed the connection before its answer. */
class ConnectionFailed extends SandpoolError {}
/** No answer within the time of the call. */
class DeadlineExceeded extends SandpoolError {}
/** What answered is not a sandpool daemon, or its answer ended in the middle. */
class ProtocolError extends SandpoolError {}
/** No such sandbox, or not the caller's. */
class NotFound extends SandpoolError {}
/** The sandbox died or was removed: acquire again. */
class SandboxLost extends SandpoolError {}
/** The connection to the sandbox broke; whether the call had an effect is not known. */
class TransportLost extends SandpoolError {}
/** A call for a file failed; `path` names it. */
class FileError extends SandpoolError {}
/** No such file, directory or program in the sandbox. */
class FileNotFound extends FileError {}

/** `check()` of a result that is no success; `result` is that result. */
class CommandFailed extends SandpoolError {
  /**
   * @param {string} message
   * @param {any} result
   */
  constructor(message, result) {
    super('command_failed', message);
    this.result = result;
  }
}

const FILE_CODES = new Set([
  'permission_denied', 'is_directory', 'not_directory', 'file_exists', 'not_empty', 'not_regular', 'no_space',
  'file_not_found', 'program_not_executable', 'read_only', 'too_many_links', 'name_too_long', 'file_changed',
]);
/** @type {Record<string, typeof SandpoolError>} */
const BY_CODE = {
  not_found: NotFound,
  sandbox_lost: SandboxLost,
  transport_lost: TransportLost,
  file_not_found: FileNotFound,
  program_not_found: FileNotFound,
  timeout: DeadlineExceeded,
  connect_failed: ConnectionFailed,
  protocol: ProtocolError,
};

/**
 * @param {string} code
 * @param {string} message
 * @param {{status?: number, retryAfterMs?: number | null, path?: string | null, cause?: unknown}} [more]
 */
function makeError(code, message, more = {}) {
  const isFile = FILE_CODES.has(code) || typeof more.path === 'string';
  const Type = BY_CODE[code] ?? (isFile ? FileError : SandpoolError);
  return new Type(code, message, more);
}

/**
 * The error that an answer other than a success stands for.
 * @param {number} status
 * @param {string} text its body
 */
function fromAnswer(status, text) {
  let error;
  try {
    error = JSON.parse(text).error;
  } catch {
    error = undefined;
  }
  if (error === null || typeof error !== 'object' || typeof error.code !== 'string') {
    return new ProtocolError('protocol', `answered ${status} without a reason`, { status });
  }
  return makeError(error.code, String(error.message ?? ''), {
    status,
    retryAfterMs: typeof error.retry_after_ms === 'number' ? error.retry_after_ms : null,
    path: typeof error.path === 'string' ? error.path : null,
  });
}

/**
 * The objects in a list of an answer. Boxes are not trusted: it may be anything.
 * @param {any} answer
 * @param {string} key
 * @returns {any[]}
 */
function listOf(answer, key) {
  const list = answer?.[key];
  if (!Array.isArray(list) || list.some((one) => one === null || typeof one !== 'object')) {
    throw new ProtocolError('protocol', `the answer must have a list of ${key}`);
  }
  return list;
}

module.exports = {
  SandpoolError, ConnectionFailed, DeadlineExceeded, ProtocolError, NotFound, SandboxLost, TransportLost, FileError,
  FileNotFound, CommandFailed, RETRYABLE, makeError, fromAnswer, listOf,
};
