'use strict';
// Requests to one daemon. Every failure is a SandpoolError; every wait has a limit or ends with its signal.

const http = require('node:http');
const https = require('node:https');
const { ConnectionFailed, DeadlineExceeded, ProtocolError, SandpoolError, fromAnswer } = require('./errors');

const BODY_MAX = 256 * 1024 * 1024; // of a JSON answer: a list of 100,000 files
const ERROR_MAX = 1024 * 1024;
const KEEPALIVE_MS = 30_000; // how soon TCP finds out that the other machine is gone
const IDLE_SOCKETS = 8;
const SILENCE_MS = 300_000; // of a body that has begun: a file is flushed to its disk before the answer

/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {Record<string, string | string[]>} [headers]
 * @property {unknown} [json] sent as JSON; members that are undefined are left out
 * @property {string | Uint8Array | import('node:stream').Readable} [body]
 * @property {AbortSignal | null} [signal]
 * @property {number | null} [timeoutMs] until the answer begins; null: none; undefined: the client's
 * @property {boolean} [isSafe] sent twice it does what it does once
 * @property {boolean} [anyStatus] every answer is returned, none is thrown
 */

/** @typedef {http.IncomingMessage} Answer */

class Transport {
  /**
   * @param {import('./address').Address} address
   * @param {string | null} token
   * @param {number} timeoutMs
   * @param {string | Buffer} [ca] PEM: who may sign the daemon's certificate
   */
  constructor(address, token, timeoutMs, ca) {
    if (ca !== undefined && !address.isTls) throw new TypeError(`'ca' is for https://, not for ${address.text}`);
    if (token !== null && /[^\x21-\x7e]/.test(token)) throw new TypeError('the token has characters that no header can have');
    this.address = address;
    this.timeoutMs = timeoutMs;
    this.module = address.isTls ? https : http;
    this.tls = ca === undefined ? {} : { ca };
    this.agent = new this.module.Agent({ keepAlive: true, maxFreeSockets: IDLE_SOCKETS, ...this.tls });
    // Not enumerable: not shown when a client is printed.
    Object.defineProperty(this, 'token', { value: token, enumerable: false });
  }

  close() {
    this.agent.destroy();
  }

  /** @returns {Record<string, string>} */
  authorization() {
    const token = /** @type {any} */ (this).token;
    return token === null ? {} : { Authorization: `Bearer ${token}` };
  }

  /**
   * The answer of a call, as JSON.
   * @param {Request} request
   * @returns {Promise<any>}
   */
  async json(request) {
    const text = await readText(await this.request(request), BODY_MAX, request.signal ?? null);
    if (text === '') return {};
    let value;
    try {
      value = JSON.parse(text);
    } catch {
      throw new ProtocolError('protocol', 'the answer is not JSON');
    }
    if (value === null || typeof value !== 'object') throw new ProtocolError('protocol', 'the answer is not an object');
    return value;
  }

  /**
   * The answer when its body begins. One that is not a success is thrown.
   * @param {Request} request
   * @returns {Promise<Answer>}
   */
  async request(request) {
    const isSafe = request.isSafe ?? (request.method === 'GET' || request.method === 'HEAD');
    /** @type {Answer} */
    let answer;
    try {
      answer = await this.send(request, isSafe);
    } catch (error) {
      // A kept connection that the daemon had closed before it saw the request: once more, on a new one.
      if (!isSafe || !(error instanceof ConnectionFailed) || !(/** @type {any} */ (error).wasKept)) throw error;
      answer = await this.send(request, false);
    }
    const status = answer.statusCode ?? 0;
    if (request.anyStatus || (status >= 200 && status < 300)) return answer;
    const text = await readText(answer, ERROR_MAX, request.signal ?? null);
    throw fromAnswer(status, text);
  }

  /**
   * @param {Request} request
   * @param {boolean} mayUseKept
   * @returns {Promise<Answer>}
   */
  send(request, mayUseKept) {
    const { signal = null, body } = request;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const call = this.open(request, mayUseKept && !isStream(body));
      /** @type {Answer | null} */
      let answer = null;
      const limit = request.timeoutMs === undefined ? this.timeoutMs : request.timeoutMs;
      const timer = limit === null ? null : setTimeout(() => {
        call.destroy(new DeadlineExceeded('timeout', `no answer from ${this.address.text} in time`));
      }, limit);
      const onAbort = () => (answer ?? call).destroy(signal?.reason);
      const settle = () => {
        if (timer) clearTimeout(timer);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      call.on('response', (res) => {
        answer = res;
        settle();
        res.on('error', () => {}); // whoever reads it gets the error; nobody may be reading
        res.once('close', () => signal?.removeEventListener('abort', onAbort));
        resolve(res);
      });
      call.on('error', (error) => {
        settle();
        if (answer) return;
        signal?.removeEventListener('abort', onAbort);
        reject(signal?.aborted ? signal.reason : this.failure(error, call.reusedSocket));
      });
      sendBody(call, request, reject);
      return undefined;
    });
  }

  /**
   * @param {Request} request
   * @param {boolean} mayUseKept
   */
  open(request, mayUseKept) {
    const { address } = this;
    const headers = { ...this.authorization(), ...request.headers };
    const call = this.module.request({
      method: request.method,
      path: request.path,
      ...(address.socketPath === null ? { host: address.host, port: address.port } : { socketPath: address.socketPath }),
      ...this.tls,
      headers: { Host: hostHeader(address), ...headers },
      agent: mayUseKept ? this.agent : false,
      setHost: false,
    });
    call.on('socket', (socket) => socket.setKeepAlive?.(true, KEEPALIVE_MS));
    call.setNoDelay(true);
    return call;
  }

  /**
   * A connection that has changed its protocol.
   * @param {Request} request with the headers of the upgrade
   * @returns {Promise<{answer: Answer, socket: import('node:net').Socket, head: Buffer}>}
   */
  upgrade(request) {
    const { signal = null } = request;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const call = this.open(request, false);
      const timer = setTimeout(() => {
        call.destroy(new DeadlineExceeded('timeout', `no answer from ${this.address.text} in time`));
      }, request.timeoutMs ?? this.timeoutMs);
      const onAbort = () => call.destroy(signal?.reason);
      const settle = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      call.on('upgrade', (answer, socket, head) => {
        settle();
        resolve({ answer, socket: /** @type {import('node:net').Socket} */ (socket), head });
      });
      call.on('response', (answer) => {
        readText(answer, ERROR_MAX, signal).then((text) => reject(refusal(answer.statusCode ?? 0, text)), reject).finally(settle);
      });
      call.on('error', (error) => {
        settle();
        reject(signal?.aborted ? signal.reason : this.failure(error, false));
      });
      call.end();
      return undefined;
    });
  }

  /**
   * @param {any} error
   * @param {boolean} wasKept
   */
  failure(error, wasKept) {
    if (error instanceof SandpoolError) return error;
    if (typeof error?.code === 'string' && error.code.startsWith('HPE_')) {
      return new ProtocolError('protocol', `the answer is not HTTP: ${error.message}`, { cause: error });
    }
    const isRefused = error?.syscall === 'connect' || error?.code === 'ENOTFOUND' || error?.code === 'EAI_AGAIN';
    const text = isRefused ? `no daemon at ${this.address.text}` : `${this.address.text} closed the connection`;
    const failed = new ConnectionFailed('connect_failed', `${text}: ${error?.message}`, { cause: error });
    return Object.assign(failed, { wasKept, wasSent: !isRefused });
  }
}

/** @param {import('./address').Address} address */
function hostHeader(address) {
  if (address.socketPath !== null) return 'localhost';
  return `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`;
}

/** @param {unknown} body @returns {body is import('node:stream').Readable} */
function isStream(body) {
  return body !== null && typeof body === 'object' && typeof /** @type {any} */ (body).pipe === 'function';
}

/**
 * @param {http.ClientRequest} call
 * @param {Request} request
 * @param {(error: unknown) => void} reject
 */
function sendBody(call, request, reject) {
  const { body, json } = request;
  if (json !== undefined) {
    const data = Buffer.from(JSON.stringify(json));
    call.setHeader('Content-Type', 'application/json');
    call.setHeader('Content-Length', data.length);
    call.end(data);
  } else if (isStream(body)) {
    pump(body, call).catch((error) => { // an error of the source is the caller's own: it is thrown as it is
      call.destroy();
      reject(error);
    });
  } else if (body !== undefined) {
    call.setHeader('Content-Length', Buffer.byteLength(body));
    call.end(body);
  } else {
    if (request.method === 'POST' || request.method === 'PUT') call.setHeader('Content-Length', 0);
    call.end();
  }
}

/**
 * Sends a body piece by piece. An answer before its end, such as "no space left", ends it.
 * @param {import('node:stream').Readable} body
 * @param {http.ClientRequest} call
 */
async function pump(body, call) {
  let isOver = false;
  let wake = () => {};
  const stop = () => {
    isOver = true;
    wake();
  };
  call.once('response', stop).once('close', stop).once('error', stop).on('drain', () => wake());
  for await (const part of body) {
    if (isOver) return; // and the source is destroyed
    if (call.write(part)) continue;
    await new Promise((resolve) => {
      wake = () => resolve(undefined);
      if (isOver) wake();
    });
  }
  call.end();
}

/**
 * @param {number} status
 * @param {string} text
 */
function refusal(status, text) {
  if (status >= 200 && status < 300) return new ProtocolError('protocol', `answered ${status} to an upgrade`, { status });
  return fromAnswer(status, text);
}

/**
 * The whole body, at most `max` bytes of it.
 * @param {Answer} answer
 * @param {number} max
 * @param {AbortSignal | null} signal
 */
async function readText(answer, max, signal) {
  const parts = [];
  let size = 0;
  for await (const part of chunks(answer, signal)) {
    size += part.length;
    if (size > max) throw new ProtocolError('protocol', 'the answer is too long');
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/**
 * The bytes of a body; one that is cut off, or does not go on, ends with ConnectionFailed.
 * @param {Answer} answer
 * @param {AbortSignal | null} [signal]
 * @param {number} [silenceMs]
 * @returns {AsyncGenerator<Buffer, void, void>}
 */
async function* chunks(answer, signal = null, silenceMs = SILENCE_MS) {
  const wait = () => setTimeout(() => answer.destroy(broken(new Error(`nothing came for ${silenceMs / 1000} s`))), silenceMs);
  let timer = wait();
  try {
    for await (const part of answer) {
      clearTimeout(timer); // whoever takes long with a part is not the server
      yield part;
      timer = wait();
    }
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (error instanceof SandpoolError) throw error;
    throw broken(error);
  } finally {
    clearTimeout(timer);
  }
  if (!answer.complete) throw broken(undefined);
}

/** @param {any} error */
function broken(error) {
  const failed = new ConnectionFailed('connect_failed', 'the connection broke in the middle of the answer', { cause: error });
  return Object.assign(failed, { wasKept: false, wasSent: true });
}

module.exports = { Transport, chunks, readText, broken };
