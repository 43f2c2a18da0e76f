'use strict';
// Where the daemon listens, and how the targets of requests are written.

const DEFAULT_SOCKET = '/run/sandpool/sandpool.sock';

/**
 * @typedef {object} Address
 * @property {string | null} socketPath
 * @property {string} host
 * @property {number} port
 * @property {boolean} isTls
 * @property {string} text for messages
 */

/**
 * `/path`, `unix:/path`, `http://host:port` or `https://host:port`; undefined: $SANDPOOL_SOCKET, else the usual socket.
 * @param {string | undefined | null} given
 * @returns {Address}
 */
function parseAddress(given) {
  const text = given ?? (process.env.SANDPOOL_SOCKET || DEFAULT_SOCKET);
  for (const prefix of ['unix://', 'unix:']) {
    if (text.startsWith(prefix)) return unix(text.slice(prefix.length));
  }
  if (!text.includes('://')) return unix(text);
  let url;
  try {
    url = new URL(text);
  } catch {
    url = null;
  }
  const isTls = url?.protocol === 'https:';
  if (!url || !(isTls || url.protocol === 'http:') || !url.hostname || url.pathname !== '/' || url.search || url.username) {
    throw new TypeError(`'${text}' is not an address: use /path, unix:/path or http://host:port`);
  }
  const port = url.port ? Number(url.port) : isTls ? 443 : 80;
  return { socketPath: null, host: url.hostname.replace(/^\[|\]$/g, ''), port, isTls, text: url.origin };
}

/**
 * @param {string} path
 * @returns {Address}
 */
function unix(path) {
  if (path === '' || path.includes('\0')) throw new TypeError('the path of the socket is empty or malformed');
  return { socketPath: path, host: 'localhost', port: 0, isTls: false, text: path };
}

/**
 * A path and its query; members of the query that are undefined or null are left out.
 * @param {string} path
 * @param {Record<string, unknown>} [query]
 */
function target(path, query = {}) {
  const parts = [];
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    const text = value === true ? '1' : value === false ? '0' : String(value);
    parts.push(`${key}=${encodeURIComponent(text)}`);
  }
  return parts.length ? `${path}?${parts.join('&')}` : path;
}

/**
 * One segment of a path.
 * @param {string} text
 */
function segment(text) {
  if (text === '' || text === '.' || text === '..') throw new TypeError(`'${text}' is not an id`);
  return encodeURIComponent(text).replace(/%3A/g, ':');
}

module.exports = { parseAddress, target, segment, DEFAULT_SOCKET };
