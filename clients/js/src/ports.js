'use strict';
// Servers inside a sandbox, reached through the daemon: HTTP, WebSocket and plain TCP. The sandbox needs no network for it.

const net = require('node:net');
const { Readable } = require('node:stream');
const { ProtocolError, listOf } = require('./errors');
const { WebSocketConnection } = require('./websocket');

const FORWARD_MAX = 128; // connections of one forwarded port
const NO_BODY = new Set([101, 204, 205, 304]);

class Ports {
  /** @param {import('./box').Box} box */
  constructor(box) {
    this.box = box;
    /** @type {Map<number, Promise<Forward>>} what url() has opened */
    this.forwards = new Map();
  }

  /** What listens in the sandbox. @returns {Promise<any[]>} */
  async list() {
    return listOf(await this.box.json('GET', 'ports'), 'ports');
  }

  /**
   * The path of a port on the daemon.
   * @param {number} port
   * @param {string} [rest]
   */
  path(port, rest = '') {
    if (!Number.isInteger(port) || port < 1 || port > 65535) throw new TypeError(`${port} is not a port`);
    return this.box.path(`ports/${port}${rest}`);
  }

  /**
   * The URL of a port, for other programs. Of a daemon on TCP: they need the daemon's token. On a Unix socket the port is made
   * one of this machine (forward()) until the box is released: everybody on this machine can use it.
   * @param {number} port
   * @param {string} [path]
   */
  async url(port, path = '/') {
    const { address } = this.box.client.transport;
    const there = this.path(port, checkPath(path));
    return address.socketPath === null ? `${address.text}${there}` : `${(await this.kept(port)).url}${path}`;
  }

  /** @param {number} port */
  async kept(port) {
    const forward = this.forwards.get(port) ?? this.forward(port);
    this.forwards.set(port, forward);
    try {
      const found = await forward;
      found.server.unref(); // it does not keep the program alive
      return found;
    } catch (error) {
      this.forwards.delete(port);
      throw error;
    }
  }

  /** Ends what url() has opened. */
  async close() {
    const forwards = [...this.forwards.values()];
    this.forwards.clear();
    await Promise.allSettled(forwards.map(async (forward) => (await forward).close()));
  }

  /**
   * One request to an HTTP server in the sandbox, as the fetch() of the platform. Redirects are not followed.
   * @param {number} port
   * @param {string} [path] with the query
   * @param {any} [init] method, headers, body, signal, timeoutS
   * @returns {Promise<Response>}
   */
  async fetch(port, path = '/', init = {}) {
    const { method = 'GET', body, signal, timeoutS } = init;
    /** @type {Record<string, string>} */
    const headers = {};
    new Headers(init.headers).forEach((value, name) => {
      headers[name] = value;
    });
    delete headers.authorization; // the daemon's own goes there; the server never gets it
    const answer = await this.box.client.transport.request({
      method, path: this.path(port, checkPath(path)), headers, body: bodyOf(body), signal, anyStatus: true,
      timeoutMs: timeoutS === undefined ? undefined : timeoutS * 1000,
    });
    // It may be the daemon's own: it has no such box any more.
    if (answer.statusCode === 404 && answer.headers['content-type'] === 'application/json') await this.box.checkLost();
    return responseOf(answer, method);
  }

  /**
   * A WebSocket of a server in the sandbox.
   * @param {number} port
   * @param {string} [path]
   * @param {{protocols?: string[], headers?: Record<string, string>, signal?: AbortSignal}} [options]
   */
  webSocket(port, path = '/', options = {}) {
    return this.box.explained(WebSocketConnection.connect(this.box.client.transport, {
      ...options, path: this.path(port, checkPath(path)), silenceMs: null,
    }));
  }

  /**
   * A connection of bytes to a port of the sandbox.
   * @param {number} port
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<net.Socket>}
   */
  async connect(port, options = {}) {
    const { answer, socket, head } = await this.box.explained(this.box.client.transport.upgrade({
      method: 'GET', path: this.path(port), headers: { Connection: 'Upgrade', Upgrade: 'tcp' }, signal: options.signal,
    }));
    if (String(answer.headers.upgrade).toLowerCase() !== 'tcp') {
      socket.destroy();
      throw new ProtocolError('protocol', 'the upgrade to TCP was answered wrongly');
    }
    if (head.length > 0) socket.unshift(head);
    return socket;
  }

  /**
   * Makes a port of the sandbox one of this machine.
   * @param {number} port
   * @param {{localPort?: number, host?: string}} [options]
   */
  async forward(port, options = {}) {
    this.path(port); // a wrong number is an error now, not of the first connection
    const forward = new Forward(this, port);
    await forward.listen(options.localPort ?? 0, options.host ?? '127.0.0.1');
    return forward;
  }
}

/** A port of this machine whose connections end at a port of a sandbox. */
class Forward {
  /**
   * @param {Ports} ports
   * @param {number} remotePort
   */
  constructor(ports, remotePort) {
    this.ports = ports;
    this.remotePort = remotePort;
    this.host = '';
    this.port = 0;
    /** @type {Set<net.Socket>} */
    this.sockets = new Set();
    this.stopper = new AbortController();
    this.server = net.createServer({ allowHalfOpen: true }, (socket) => {
      this.join(socket).catch(() => socket.destroy());
    });
    this.server.maxConnections = FORWARD_MAX;
  }

  /**
   * @param {number} port
   * @param {string} host
   */
  async listen(port, host) {
    await new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen({ port, host }, () => {
        this.server.off('error', reject);
        resolve(undefined);
      });
    });
    const address = /** @type {net.AddressInfo} */ (this.server.address());
    this.host = address.address;
    this.port = address.port;
  }

  get url() {
    return `http://${this.host.includes(':') ? `[${this.host}]` : this.host}:${this.port}`;
  }

  /** @param {net.Socket} local */
  async join(local) {
    this.hold(local);
    local.pause();
    const remote = await this.ports.connect(this.remotePort, { signal: this.stopper.signal });
    this.hold(remote);
    remote.allowHalfOpen = true;
    // A half that ends ends the other's half; a side that breaks takes the other along.
    remote.once('close', () => local.destroySoon());
    local.once('close', () => remote.destroySoon());
    local.pipe(remote);
    remote.pipe(local);
  }

  /** @param {net.Socket} socket */
  hold(socket) {
    this.sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.sockets.delete(socket));
  }

  /** Stops listening and ends its connections. */
  async close() {
    this.stopper.abort(new Error('the forwarded port was closed'));
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }
}

if (Symbol.asyncDispose) {
  Object.defineProperty(Forward.prototype, Symbol.asyncDispose, { value: Forward.prototype.close });
}

/** @param {string} path */
function checkPath(path) {
  if (!path.startsWith('/')) throw new TypeError(`the path '${path}' must begin with '/'`);
  return path;
}

/** @param {any} body */
function bodyOf(body) {
  if (body === undefined || body === null || typeof body === 'string' || body instanceof Uint8Array || body instanceof Readable) {
    return body ?? undefined;
  }
  if (body instanceof URLSearchParams) return String(body);
  if (body instanceof ArrayBuffer) return Buffer.from(body);
  return Readable.from(body, { objectMode: false }); // web streams are async iterators, too
}

/**
 * @param {import('node:http').IncomingMessage} answer
 * @param {string} method
 */
function responseOf(answer, method) {
  const headers = new Headers();
  for (let i = 0; i < answer.rawHeaders.length; i += 2) headers.append(answer.rawHeaders[i], answer.rawHeaders[i + 1]);
  const status = answer.statusCode ?? 0;
  const isEmpty = NO_BODY.has(status) || method === 'HEAD';
  if (isEmpty) answer.resume();
  const body = isEmpty ? null : /** @type {any} */ (Readable.toWeb(answer));
  return new Response(body, { status, statusText: answer.statusMessage, headers });
}

module.exports = { Ports, Forward };
