'use strict';
// A directory of this machine as a tar archive, piece by piece. Names and sizes that the old header cannot hold are in
// records of their own (pax).

const fs = require('node:fs');
const path = require('node:path');

const BLOCK = 512;
const ZEROS = Buffer.alloc(BLOCK);
const SIZE_MAX = 0o77777777777;

/**
 * One header.
 * @param {{name: string, mode: number, size: number, mtime: number, type: string, link?: string}} entry
 */
function header(entry) {
  const block = Buffer.alloc(BLOCK);
  const octal = (/** @type {number} */ value, /** @type {number} */ at, /** @type {number} */ size) => {
    block.write(value.toString(8).padStart(size - 1, '0'), at, size - 1, 'latin1');
  };
  Buffer.from(entry.name).copy(block, 0, 0, 100);
  octal(entry.mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(Math.min(entry.size, SIZE_MAX), 124, 12);
  octal(Math.max(0, Math.floor(entry.mtime)), 136, 12);
  block.fill(' ', 148, 156);
  block.write(entry.type, 156, 1, 'latin1');
  Buffer.from(entry.link ?? '').copy(block, 157, 0, 100);
  block.write('ustar\x0000', 257, 8, 'latin1');
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 8, 'latin1');
  return block;
}

/**
 * The records that must stand before a header.
 * @param {{name: string, size: number, link?: string}} entry
 */
function records(entry) {
  const given = [];
  if (needsRecord(entry.name)) given.push(record('path', entry.name));
  if (entry.link !== undefined && needsRecord(entry.link)) given.push(record('linkpath', entry.link));
  if (entry.size > SIZE_MAX) given.push(record('size', String(entry.size)));
  if (given.length === 0) return [];
  const data = Buffer.concat(given);
  const head = header({ name: 'PaxHeaders/entry', mode: 0o644, size: data.length, mtime: 0, type: 'x' });
  return [head, data, padding(data.length)];
}

/** @param {string} text */
function needsRecord(text) {
  return Buffer.byteLength(text) > 100 || /[^\x20-\x7e]/.test(text);
}

/**
 * "LENGTH KEY=VALUE\n", where the length counts itself.
 * @param {string} key
 * @param {string} value
 */
function record(key, value) {
  const rest = Buffer.from(` ${key}=${value}\n`);
  let size = rest.length + 1;
  while (String(size).length + rest.length !== size) size = String(size).length + rest.length;
  return Buffer.concat([Buffer.from(String(size)), rest]);
}

/** @param {number} size */
function padding(size) {
  return ZEROS.subarray(0, (BLOCK - (size % BLOCK)) % BLOCK);
}

/**
 * The tree below `root`, without `root` itself. Sockets, pipes and devices are left out.
 * @param {string} root
 * @returns {AsyncGenerator<Buffer, void, void>}
 */
async function* pack(root) {
  yield* packDirectory(root, '');
  yield Buffer.alloc(2 * BLOCK);
}

/**
 * @param {string} root
 * @param {string} below
 * @returns {AsyncGenerator<Buffer, void, void>}
 */
async function* packDirectory(root, below) {
  for (const found of (await fs.promises.readdir(path.join(root, below))).sort()) {
    const name = below === '' ? found : `${below}/${found}`;
    const full = path.join(root, name);
    const info = await fs.promises.lstat(full);
    const entry = { name, mode: info.mode & 0o777, size: 0, mtime: info.mtimeMs / 1000, type: '0' };
    if (info.isDirectory()) {
      yield* entryBlocks({ ...entry, name: `${name}/`, type: '5' });
      yield* packDirectory(root, name);
    } else if (info.isSymbolicLink()) {
      yield* entryBlocks({ ...entry, type: '2', link: await fs.promises.readlink(full) });
    } else if (info.isFile()) {
      yield* packFile(full, entry);
    }
  }
}

/** @param {{name: string, mode: number, size: number, mtime: number, type: string, link?: string}} entry */
function* entryBlocks(entry) {
  yield* records(entry);
  yield header(entry);
}

/**
 * @param {string} full
 * @param {any} entry
 */
async function* packFile(full, entry) {
  const handle = await fs.promises.open(full, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
  try {
    const { size } = await handle.stat();
    yield* entryBlocks({ ...entry, size });
    let left = size;
    while (left > 0) {
      const room = Math.min(left, 256 * 1024);
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(room), 0, room, null);
      if (bytesRead === 0) throw new Error(`'${full}' became shorter while it was read`);
      left -= bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
    yield padding(size);
  } finally {
    await handle.close();
  }
}

module.exports = { pack, BLOCK };
