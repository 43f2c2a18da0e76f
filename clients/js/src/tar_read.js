'use strict';
// A tar archive from a sandbox, unpacked below one directory of this machine. The archive is not trusted: nothing is written
// outside the directory, and no link that was there or came with it is followed.

const fs = require('node:fs');
const path = require('node:path');
const { FileError, ProtocolError, SandpoolError } = require('./errors');

const BLOCK = 512;
const RECORD_MAX = 1024 * 1024;
const ENTRIES_MAX = 1_000_000;

/** Reads exact counts of bytes from pieces of any size. */
class Reader {
  /** @param {AsyncIterable<Buffer>} source */
  constructor(source) {
    this.source = source[Symbol.asyncIterator]();
    /** @type {Buffer} */
    this.rest = Buffer.alloc(0);
  }

  /** What comes next, at most `max` bytes. @param {number} max */
  async some(max) {
    while (this.rest.length === 0) {
      const { value, done } = await this.source.next();
      if (done) throw new ProtocolError('protocol', 'the archive ended in the middle');
      this.rest = value;
    }
    const part = this.rest.subarray(0, max);
    this.rest = this.rest.subarray(part.length);
    return part;
  }

  /** @param {number} count */
  async exactly(count) {
    const parts = [];
    for (let left = count; left > 0;) {
      const part = await this.some(left);
      parts.push(part);
      left -= part.length;
    }
    return Buffer.concat(parts);
  }

  /** @param {number} count */
  async skip(count) {
    for (let left = count; left > 0;) left -= (await this.some(left)).length;
  }
}

/**
 * @param {Buffer} block
 * @param {number} at
 * @param {number} size
 */
function number(block, at, size) {
  if (block[at] & 0x80) { // base 256
    let value = BigInt(block[at] & 0x7f);
    for (let i = at + 1; i < at + size; i += 1) value = value * 256n + BigInt(block[i]);
    return safe(Number(value));
  }
  const text = block.toString('latin1', at, at + size).replace(/[\0 ]+$/, '').trim();
  return text === '' ? 0 : safe(/^[0-7]+$/.test(text) ? parseInt(text, 8) : NaN);
}

/** @param {number} value */
function safe(value) {
  if (!Number.isSafeInteger(value) || value < 0) throw new ProtocolError('protocol', 'the archive has a malformed number');
  return value;
}

/**
 * @param {Buffer} block
 * @param {number} at
 * @param {number} size
 */
function string(block, at, size) {
  const end = block.indexOf(0, at);
  return block.toString('utf8', at, end < 0 || end > at + size ? at + size : end);
}

/** @param {Buffer} block */
function readHeader(block) {
  let sum = 8 * 32;
  for (let i = 0; i < BLOCK; i += 1) sum += i >= 148 && i < 156 ? 0 : block[i];
  if (number(block, 148, 8) !== sum) throw new ProtocolError('protocol', 'the archive is damaged');
  const prefix = string(block, 257, 5) === 'ustar' && block[262] === 0 ? string(block, 345, 155) : '';
  const name = string(block, 0, 100);
  return {
    name: prefix ? `${prefix}/${name}` : name,
    mode: number(block, 100, 8) & 0o777,
    size: number(block, 124, 12),
    mtime: number(block, 136, 12),
    type: String.fromCharCode(block[156] || 48),
    link: string(block, 157, 100),
  };
}

/** @param {Buffer} data */
function readRecords(data) {
  /** @type {Record<string, string>} */
  const found = {};
  for (let at = 0; at < data.length;) {
    const space = data.indexOf(32, at);
    const size = Number(data.toString('latin1', at, space));
    const equals = data.indexOf(61, space);
    if (space < 0 || !(size > 0) || at + size > data.length || equals < 0 || equals >= at + size) {
      throw new ProtocolError('protocol', 'the archive has a malformed record');
    }
    found[data.toString('utf8', space + 1, equals)] = data.toString('utf8', equals + 1, at + size - 1);
    at += size;
  }
  return found;
}

/**
 * The entries, one after the other; the reader stands at the data of the entry.
 * @param {Reader} reader
 */
async function* entries(reader) {
  /** @type {Record<string, string>} */
  let more = {};
  for (let count = 0; ; ) {
    const block = await reader.exactly(BLOCK);
    if (block.every((byte) => byte === 0)) return;
    const entry = readHeader(block);
    if ('xgLK'.includes(entry.type)) {
      if (entry.size > RECORD_MAX) throw new ProtocolError('protocol', 'the archive has a record that is too long');
      const data = (await reader.exactly(entry.size + pad(entry.size))).subarray(0, entry.size);
      if (entry.type === 'x') more = { ...more, ...readRecords(data) };
      if (entry.type === 'L') more.path = string(data, 0, data.length);
      if (entry.type === 'K') more.linkpath = string(data, 0, data.length);
      continue;
    }
    count += 1;
    if (count > ENTRIES_MAX) throw new SandpoolError('too_big', `the archive has more than ${ENTRIES_MAX} entries`);
    if (more.path !== undefined) entry.name = more.path;
    if (more.linkpath !== undefined) entry.link = more.linkpath;
    if (more.size !== undefined) entry.size = safe(Number(more.size));
    more = {};
    yield entry;
  }
}

/** @param {number} size */
function pad(size) {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

/** The parts of a name that stays below the directory. @param {string} name */
function partsOf(name) {
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  if (name.startsWith('/') || name.includes('\0') || parts.includes('..')) {
    throw new FileError('forbidden', `'${name}' of the archive leads out of the directory`, { path: name });
  }
  return parts;
}

/** One directory of this machine that is written to. */
class Tree {
  /** @param {string} root */
  constructor(root) {
    this.root = root;
    this.known = new Set(['']);
  }

  /** Makes a directory and those above it; a link among them is refused. @param {string[]} parts */
  async directory(parts) {
    for (let i = 1; i <= parts.length; i += 1) {
      const below = parts.slice(0, i).join('/');
      if (this.known.has(below)) continue;
      const full = path.join(this.root, below);
      const info = await fs.promises.lstat(full).catch(() => null);
      if (info === null) await fs.promises.mkdir(full, 0o755);
      else if (!info.isDirectory()) throw new FileError('not_directory', `'${full}' is not a directory`, { path: full });
      this.known.add(below);
    }
    return path.join(this.root, ...parts);
  }

  /** A place for a new file or link: what has the name goes, unless it is a directory. @param {string[]} parts */
  async place(parts) {
    const directory = await this.directory(parts.slice(0, -1));
    const full = path.join(directory, parts[parts.length - 1]);
    await fs.promises.rm(full, { force: true });
    return full;
  }
}

/** Whether a link stays below the directory whatever its parts are. @param {string[]} parts @param {string} link */
function staysInside(parts, link) {
  if (link === '' || link.startsWith('/') || link.includes('\0')) return false;
  const steps = link.split('/').filter((step) => step !== '' && step !== '.');
  const up = steps.findIndex((step) => step !== '..');
  const ups = up < 0 ? steps.length : up;
  return ups <= parts.length - 1 && !steps.slice(ups).includes('..'); // 'a/..' may lead anywhere when 'a' is a link
}

/** A name of the archive as it is written here. @param {string} name */
function plain(name) {
  return name.split('/').filter((part) => part !== '' && part !== '.').join('/');
}

/**
 * Another name of a file that came with this archive.
 * @param {Tree} tree
 * @param {string[]} parts
 * @param {string} first
 */
async function nameAgain(tree, parts, first) {
  if (parts.join('/') === first) return;
  await fs.promises.link(path.join(tree.root, first), await tree.place(parts));
}

/**
 * @param {Reader} reader
 * @param {string} full
 * @param {{size: number, mode: number}} entry
 */
async function writeFile(reader, full, entry) {
  const handle = await fs.promises.open(full, 'wx', 0o600);
  try {
    for (let left = entry.size; left > 0;) {
      const part = await reader.some(left);
      await handle.writeFile(part);
      left -= part.length;
    }
    await handle.chmod(entry.mode);
  } finally {
    await handle.close();
  }
}

/**
 * @param {AsyncIterable<Buffer>} source
 * @param {string} directory made if it is missing
 * @param {number} maxBytes
 */
async function unpack(source, directory, maxBytes) {
  await fs.promises.mkdir(directory, { recursive: true });
  const tree = new Tree(await fs.promises.realpath(directory));
  const reader = new Reader(source);
  const done = { files: 0, bytes: 0, skipped: /** @type {string[]} */ ([]) };
  /** @type {{parts: string[], link: string}[]} */
  const links = []; // made last: nothing is written through them
  const names = new Set(); // of the files that came with this archive
  try {
    for await (const entry of entries(reader)) {
      const parts = partsOf(entry.name);
      const isFile = '07'.includes(entry.type);
      if (isFile && parts.length > 0) {
        done.bytes += entry.size;
        if (done.bytes > maxBytes) throw new SandpoolError('too_big', `the tree has more than ${maxBytes} bytes`);
        await writeFile(reader, await tree.place(parts), entry);
        await reader.skip(pad(entry.size));
        names.add(parts.join('/'));
        done.files += 1;
        continue;
      }
      if (entry.type === '5') await tree.directory(parts);
      else if (entry.type === '2' && staysInside(parts, entry.link)) links.push({ parts, link: entry.link });
      else if (entry.type === '1' && parts.length > 0 && names.has(plain(entry.link))) {
        await nameAgain(tree, parts, plain(entry.link));
        names.add(parts.join('/'));
        done.files += 1;
      }
      else done.skipped.push(entry.name);
      if (entry.type !== '2' && entry.type !== '1' && entry.type !== '5') await reader.skip(entry.size + pad(entry.size));
    }
    for (const { parts, link } of links) await fs.promises.symlink(link, await tree.place(parts));
  } finally {
    await reader.source.return?.();
  }
  return done;
}

module.exports = { unpack };
