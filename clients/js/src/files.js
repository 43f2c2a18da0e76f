'use strict';
// Files of a sandbox. Bytes are streamed; only read(), readText() and list() hold a whole answer.

const fs = require('node:fs');
const { Readable } = require('node:stream');
const { target } = require('./address');
const { FileError, FileNotFound, SandpoolError, listOf } = require('./errors');
const { Patience } = require('./events');
const { save } = require('./save');
const { pack } = require('./tar_write');
const { unpack } = require('./tar_read');
const { chunks } = require('./transport');
const { Watcher } = require('./watch');

const READ_MAX = 256 * 1024 * 1024;
const BYTES = { 'Content-Type': 'application/octet-stream' };

class Files {
  /** @param {import('./box').Box} box */
  constructor(box) {
    this.box = box;
  }

  /**
   * Writes a file as a whole: readers see the old one or the new one.
   * @param {string} file
   * @param {string | Uint8Array | NodeJS.ReadableStream | AsyncIterable<string | Uint8Array>} data
   * @param {any} [options]
   */
  write(file, data, options = {}) {
    const { mode, owner, parents, user, signal } = options;
    const query = { path: file, mode: modeText(mode), owner, parents, user };
    const isWhole = typeof data === 'string' || data instanceof Uint8Array;
    const body = isWhole ? data : data instanceof Readable ? data : Readable.from(/** @type {any} */ (data), { objectMode: false });
    return this.box.json('PUT', target('files', query), {
      body, signal, headers: BYTES, isSafe: isWhole, timeoutMs: isWhole ? undefined : null,
    });
  }

  /**
   * The bytes of a file.
   * @param {string} file
   * @param {any} [options]
   */
  async read(file, options = {}) {
    const max = options.maxBytes ?? READ_MAX;
    const parts = [];
    let size = 0;
    for await (const part of this.stream(file, options)) {
      size += part.length;
      if (size > max) throw new SandpoolError('too_big', `'${file}' has more than ${max} bytes: use stream() or download()`);
      parts.push(part);
    }
    return Buffer.concat(parts, size);
  }

  /**
   * @param {string} file
   * @param {any} [options]
   */
  async readText(file, options = {}) {
    return (await this.read(file, options)).toString('utf8');
  }

  /**
   * The bytes of a file as they come. A connection that breaks is continued where it broke; a file that was changed meanwhile
   * is an error, never a mixture.
   * @param {string} file
   * @param {{offset?: number, length?: number, user?: string, signal?: AbortSignal, onHeaders?: (h: any) => void}} [options]
   * @returns {AsyncGenerator<Buffer, void, void>}
   */
  async* stream(file, options = {}) {
    const { offset = 0, length, user, signal = null } = options;
    if (length === 0) return;
    const end = length === undefined ? '' : offset + length - 1;
    const patience = new Patience(this.box.reconnectMs, signal);
    let at = offset;
    let etag = null;
    for (let isFirst = true; ;) {
      try {
        const isPart = at > 0 || length !== undefined;
        const answer = await this.box.request('GET', target('files', { path: file, user }), {
          signal, headers: isPart ? { Range: `bytes=${at}-${end}` } : {},
        });
        checkPart(file, answer, { etag: isFirst ? null : etag, isPart, isFirst });
        if (isFirst) options.onHeaders?.(answer.headers);
        etag = answer.headers.etag ?? null;
        isFirst = false;
        for await (const part of chunks(answer, signal)) {
          at += part.length;
          patience.reset();
          yield part;
        }
        return;
      } catch (error) {
        if (etag === null && !isFirst) throw error; // nothing says whether it is still the same file
        await patience.pause(error);
      }
    }
  }

  /**
   * @param {string} [directory]
   * @param {any} [options]
   */
  async list(directory = '.', options = {}) {
    const { recursive, depth, limit, user, signal } = options;
    const query = { path: directory, recursive: recursive ? 1 : undefined, depth, limit, user };
    const answer = await this.box.json('GET', target('files/list', query), { signal });
    return Object.assign(listOf(answer, 'entries').map(entryOf), { truncated: Boolean(answer.truncated) });
  }

  /**
   * @param {string} file
   * @param {{follow?: boolean, user?: string, signal?: AbortSignal}} [options]
   */
  async stat(file, options = {}) {
    const query = { path: file, follow: options.follow ? 1 : undefined, user: options.user };
    return entryOf(await this.box.json('GET', target('files/stat', query), { signal: options.signal }));
  }

  /**
   * @param {string} file
   * @param {any} [options]
   */
  async exists(file, options = {}) {
    try {
      await this.stat(file, options);
      return true;
    } catch (error) {
      if (error instanceof FileNotFound || /** @type {any} */ (error)?.code === 'not_directory') return false;
      throw error;
    }
  }

  /**
   * @param {string} directory
   * @param {any} [options]
   */
  async mkdir(directory, options = {}) {
    const { parents = true, mode, user, signal } = options;
    const json = { path: directory, parents, mode: modeText(mode) };
    return entryOf(await this.box.json('POST', target('files/mkdir', { user }), { json, signal }));
  }

  /**
   * @param {string} from
   * @param {string} to
   * @param {any} [options]
   */
  async move(from, to, options = {}) {
    const { overwrite = true, user, signal } = options;
    return entryOf(await this.box.json('POST', target('files/move', { user }), { json: { from, to, overwrite }, signal }));
  }

  /**
   * @param {string} from
   * @param {string} to
   * @param {any} [options]
   */
  async copy(from, to, options = {}) {
    const { overwrite = true, recursive = true, user, signal } = options;
    const json = { from, to, recursive, overwrite };
    return entryOf(await this.box.json('POST', target('files/copy', { user }), { json, signal, timeoutMs: null }));
  }

  /**
   * @param {string} file
   * @param {any} [options]
   */
  async remove(file, options = {}) {
    const query = { path: file, recursive: options.recursive ? 1 : undefined, user: options.user };
    return this.box.json('DELETE', target('files', query), { signal: options.signal, timeoutMs: null });
  }

  /**
   * A file or a whole directory of this machine into the sandbox.
   * @param {string} local
   * @param {string} remote
   * @param {any} [options]
   */
  async upload(local, remote, options = {}) {
    const info = await fs.promises.stat(local);
    if (!info.isDirectory()) {
      return this.write(remote, fs.createReadStream(local), { mode: info.mode & 0o777, ...options });
    }
    const { user, signal } = options;
    return this.box.json('PUT', target('files/tar', { path: remote, user }), {
      body: Readable.from(pack(local), { objectMode: false }), signal, timeoutMs: null,
      headers: { 'Content-Type': 'application/x-tar' },
    });
  }

  /**
   * A file or a whole directory of the sandbox to this machine. A file appears under its name when it is complete. Links of
   * a tree that lead out of it are left out, and named in `skipped`.
   * @param {string} remote
   * @param {string} local
   * @param {any} [options]
   */
  async download(remote, local, options = {}) {
    const { user, signal = null, maxBytes = Infinity } = options;
    const entry = await this.stat(remote, { follow: true, user, signal });
    if (entry.type !== 'directory') return this.downloadFile(remote, local, options);
    const answer = await this.box.request('GET', target('files/tar', { path: remote, user }), { signal, timeoutMs: null });
    return unpack(chunks(answer, signal), local, maxBytes);
  }

  /**
   * @param {string} remote
   * @param {string} local
   * @param {any} options
   */
  async downloadFile(remote, local, options) {
    const { maxBytes = Infinity } = options;
    let mode = 0o644;
    let bytes = 0;
    const onHeaders = (/** @type {any} */ headers) => {
      const given = parseInt(headers['x-sandpool-mode'], 8);
      if (Number.isInteger(given)) mode = given & 0o777;
    };
    const counted = async function* counted(/** @type {AsyncIterable<Buffer>} */ source) {
      for await (const part of source) {
        bytes += part.length;
        if (bytes > maxBytes) throw new SandpoolError('too_big', `'${remote}' has more than ${maxBytes} bytes`);
        yield part;
      }
    };
    await save(counted(this.stream(remote, { ...options, onHeaders })), local, () => mode);
    return { files: 1, bytes, skipped: [] };
  }

  /**
   * Changes below a directory, as they happen.
   * @param {string} [directory]
   * @param {{recursive?: boolean, user?: string, signal?: AbortSignal}} [options]
   */
  watch(directory = '.', options = {}) {
    return new Watcher(this.box, directory, options);
  }
}

/**
 * @param {string} file
 * @param {import('node:http').IncomingMessage} answer
 * @param {{etag: string | null, isPart: boolean, isFirst: boolean}} want
 */
function checkPart(file, answer, { etag, isPart, isFirst }) {
  const isWhole = answer.statusCode !== 206;
  if ((isPart && isWhole) || (!isFirst && answer.headers.etag !== etag)) {
    answer.destroy();
    throw new FileError('file_changed', `'${file}' was changed while it was read`, { path: file });
  }
}

/** @param {number | string | undefined} mode */
function modeText(mode) {
  return typeof mode === 'number' ? mode.toString(8).padStart(4, '0') : mode;
}

/** @param {any} view */
function entryOf(view) {
  return {
    name: String(view.name),
    path: String(view.path),
    type: String(view.type),
    size: Number(view.size ?? 0),
    mode: String(view.mode ?? ''),
    uid: Number(view.uid ?? 0),
    gid: Number(view.gid ?? 0),
    mtime: new Date(view.mtime ?? 0),
    target: view.target ?? null,
  };
}

module.exports = { Files };
