'use strict';
// A client of RFC 6455 on a connection of the transport: frames, fragments, ping and pong, close; no extensions.

const { createHash, randomBytes } = require('node:crypto');
const { ProtocolError } = require('./errors');
const { broken } = require('./transport');

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const MESSAGE_MAX = 16 * 1024 * 1024;
const QUEUE_MAX = 1024 * 1024; // bytes that nobody has taken yet; then the socket waits
const MESSAGE_COST = 64; // of a message in the queue, however short it is
const PONGS_MAX = 64 * 1024; // bytes that have not been sent: then a ping is not answered
const CLOSE_MS = 5000;
const SILENCE_MS = 60_000;
const OP = { more: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 };

/** Bytes that came, taken in exact counts. */
class Bytes {
  constructor() {
    /** @type {Buffer[]} */
    this.parts = [];
    this.size = 0;
  }

  /** @param {Buffer} part */
  add(part) {
    this.parts.push(part);
    this.size += part.length;
  }

  /** null: not there yet. @param {number} count */
  take(count) {
    if (this.size < count) return null;
    const whole = this.parts.length === 1 ? this.parts[0] : Buffer.concat(this.parts);
    this.parts = whole.length > count ? [whole.subarray(count)] : [];
    this.size -= count;
    return whole.subarray(0, count);
  }
}

/**
 * One frame to the server, masked.
 * @param {number} op
 * @param {Uint8Array} data
 */
function encodeFrame(op, data) {
  const size = data.length;
  const long = size < 126 ? 0 : size < 65536 ? 2 : 8;
  const frame = Buffer.allocUnsafe(6 + long + size);
  frame[0] = 0x80 | op;
  frame[1] = 0x80 | (long === 0 ? size : long === 2 ? 126 : 127);
  if (long === 2) frame.writeUInt16BE(size, 2);
  if (long === 8) frame.writeBigUInt64BE(BigInt(size), 2);
  const mask = randomBytes(4);
  mask.copy(frame, 2 + long);
  const at = 6 + long;
  for (let i = 0; i < size; i += 1) frame[at + i] = data[i] ^ mask[i & 3];
  return frame;
}

/** An async iterator of messages: text as a string, binary as a Buffer. It ends when the server closes properly. */
class WebSocketConnection {
  /**
   * @param {import('node:net').Socket} socket
   * @param {Buffer} head what came with the answer
   * @param {{silenceMs?: number | null}} options null: the server sends no pings
   */
  constructor(socket, head, options = {}) {
    this.socket = socket;
    this.bytes = new Bytes();
    /** @type {{op: number, size: number, isLast: boolean} | null} */
    this.frame = null;
    this.message = { op: 0, parts: /** @type {Buffer[]} */ ([]), size: 0 };
    /** @type {(string | Buffer)[]} */
    this.queue = [];
    this.queued = 0;
    /** @type {{resolve: (v: any) => void, reject: (e: unknown) => void} | null} */
    this.reader = null;
    this.isClosing = false;
    this.isOver = false;
    /** @type {unknown} */
    this.error = null;
    this.closeCode = 1006;
    this.closeReason = '';
    this.silenceMs = options.silenceMs === undefined ? SILENCE_MS : options.silenceMs;
    /** @type {NodeJS.Timeout | null} */
    this.timer = null;
    this.watch();
    socket.on('data', (part) => this.onData(part));
    socket.on('error', (error) => this.finish(broken(error)));
    socket.on('close', () => this.finish(this.isClosing ? null : broken(undefined)));
    socket.on('end', () => this.finish(this.isClosing ? null : broken(undefined)));
    if (head.length > 0) this.onData(head);
  }

  /**
   * @param {import('./transport').Transport} transport
   * @param {{path: string, protocols?: string[], headers?: Record<string, string>, signal?: AbortSignal | null, silenceMs?: number | null}} request
   */
  static async connect(transport, request) {
    const key = randomBytes(16).toString('base64');
    /** @type {Record<string, string>} */
    const headers = {
      ...request.headers, Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key,
    };
    if (request.protocols?.length) headers['Sec-WebSocket-Protocol'] = request.protocols.join(', ');
    const { answer, socket, head } = await transport.upgrade({ method: 'GET', path: request.path, headers, signal: request.signal });
    const accept = createHash('sha1').update(key + GUID).digest('base64');
    const protocol = answer.headers['sec-websocket-protocol'];
    const isWrong = answer.headers['sec-websocket-accept'] !== accept || answer.headers['sec-websocket-extensions'] !== undefined
      || (protocol !== undefined && !request.protocols?.includes(String(protocol)));
    if (isWrong) {
      socket.destroy();
      throw new ProtocolError('protocol', 'the upgrade to WebSocket was answered wrongly');
    }
    return new WebSocketConnection(socket, head, { silenceMs: request.silenceMs });
  }

  // --- from the server ---

  /** (Re)starts the clock of silence; a reader that takes its time stops it. */
  watch() {
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
    if (this.silenceMs === null || this.isOver || this.socket.isPaused()) return;
    this.timer = setTimeout(() => this.finish(broken(undefined)), this.silenceMs);
  }

  /** @param {Buffer} part */
  onData(part) {
    if (this.isOver) return;
    this.bytes.add(part);
    try {
      while (!this.isOver && this.readFrame()) { /* as many as there are */ }
    } catch (error) {
      this.sendClose(1002);
      this.finish(error);
    }
    if (this.queued > QUEUE_MAX) this.socket.pause();
    this.watch();
  }

  /** Whether there was a whole frame. */
  readFrame() {
    this.frame ??= this.readHeader();
    if (this.frame === null) return false;
    const data = this.bytes.take(this.frame.size);
    if (data === null) return false;
    const { op, isLast } = this.frame;
    this.frame = null;
    if (op >= 8) this.onControl(op, data);
    else this.onPart(op, data, isLast);
    return true;
  }

  readHeader() {
    const first = this.bytes.size >= 2 ? this.peek(2) : null;
    if (first === null) return null;
    const long = (first[1] & 0x7f) === 126 ? 2 : (first[1] & 0x7f) === 127 ? 8 : 0;
    if (this.bytes.size < 2 + long) return null;
    const head = /** @type {Buffer} */ (this.bytes.take(2 + long));
    const op = head[0] & 0x0f;
    const isLast = (head[0] & 0x80) !== 0;
    const size = long === 0 ? head[1] & 0x7f : long === 2 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2));
    const isControl = op >= 8;
    const isStart = op === OP.text || op === OP.binary;
    const isKnown = isStart || op === OP.more || op === OP.close || op === OP.ping || op === OP.pong;
    const inMessage = this.message.op !== 0;
    if ((head[0] & 0x70) || (head[1] & 0x80) || !isKnown || (isControl && (!isLast || size > 125))
      || (isStart && inMessage) || (op === OP.more && !inMessage)) {
      throw new ProtocolError('protocol', 'a frame of the WebSocket is malformed');
    }
    if (size + this.message.size > MESSAGE_MAX) throw new ProtocolError('protocol', 'a message of the WebSocket is too long');
    return { op, size, isLast };
  }

  /** @param {number} count */
  peek(count) {
    const { parts } = this.bytes;
    if (parts[0].length < count) this.bytes.parts = [Buffer.concat(parts)];
    return this.bytes.parts[0];
  }

  /**
   * @param {number} op
   * @param {Buffer} data
   * @param {boolean} isLast
   */
  onPart(op, data, isLast) {
    const { message } = this;
    if (op !== OP.more) message.op = op;
    if (data.length > 0) message.parts.push(data);
    message.size += data.length;
    if (!isLast) return;
    const whole = Buffer.concat(message.parts);
    const isText = message.op === OP.text;
    this.message = { op: 0, parts: [], size: 0 };
    this.deliver(isText ? decodeText(whole) : whole, whole.length);
  }

  /**
   * @param {number} op
   * @param {Buffer} data
   */
  onControl(op, data) {
    // Whoever sends pings and reads nothing does not fill our memory.
    if (op === OP.ping && this.socket.writableLength < PONGS_MAX) this.write(OP.pong, data);
    if (op !== OP.close) return;
    if (data.length >= 2) {
      this.closeCode = data.readUInt16BE(0);
      this.closeReason = data.toString('utf8', 2);
    } else {
      this.closeCode = 1005;
    }
    this.sendClose(this.closeCode === 1005 ? null : this.closeCode);
    this.finish(null);
  }

  /**
   * @param {string | Buffer} message
   * @param {number} size
   */
  deliver(message, size) {
    if (this.reader) {
      const { resolve } = this.reader;
      this.reader = null;
      resolve({ value: message, done: false });
      return;
    }
    this.queue.push(message);
    this.queued += size + MESSAGE_COST;
  }

  /** No more comes. @param {unknown} error null: it was closed properly */
  finish(error) {
    if (this.isOver) return;
    this.isOver = true;
    this.error = error;
    if (this.timer) clearTimeout(this.timer);
    this.socket.end();
    const timer = setTimeout(() => this.socket.destroy(), error === null ? CLOSE_MS : 0);
    this.socket.once('close', () => clearTimeout(timer));
    this.socket.resume();
    if (this.reader) {
      const { resolve, reject } = this.reader;
      this.reader = null;
      if (error === null) resolve({ value: undefined, done: true });
      else reject(error);
    }
  }

  /** @returns {Promise<IteratorResult<string | Buffer, undefined>>} */
  next() {
    const message = this.queue.shift();
    if (message !== undefined) {
      this.queued -= Buffer.byteLength(message) + MESSAGE_COST;
      if (this.queued <= QUEUE_MAX / 2 && this.socket.isPaused()) {
        this.socket.resume();
        this.watch();
      }
      return Promise.resolve({ value: message, done: false });
    }
    if (this.isOver) return this.error === null ? Promise.resolve({ value: undefined, done: true }) : Promise.reject(this.error);
    if (this.reader) return Promise.reject(new TypeError('two readers of one WebSocket'));
    return new Promise((resolve, reject) => {
      this.reader = { resolve, reject };
    });
  }

  /** @returns {Promise<IteratorResult<string | Buffer, undefined>>} */
  async return() {
    await this.close();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  // --- to the server ---

  /**
   * @param {number} op
   * @param {Uint8Array} data
   */
  write(op, data) {
    if (this.socket.writable) this.socket.write(encodeFrame(op, data));
  }

  /**
   * Resolves when the connection can take more.
   * @param {string | Uint8Array} data
   */
  async send(data) {
    if (this.isOver || this.isClosing || !this.socket.writable) throw this.error ?? broken(undefined);
    const isText = typeof data === 'string';
    if (this.socket.write(encodeFrame(isText ? OP.text : OP.binary, isText ? Buffer.from(data) : data))) return;
    await new Promise((resolve, reject) => {
      const settle = () => {
        this.socket.off('drain', settle).off('close', settle);
        if (this.socket.destroyed) reject(this.error ?? broken(undefined));
        else resolve(undefined);
      };
      this.socket.on('drain', settle).on('close', settle);
    });
  }

  /** @param {number | null} code */
  sendClose(code) {
    if (this.isClosing) return;
    this.isClosing = true;
    const data = Buffer.alloc(code === null ? 0 : 2);
    if (code !== null) data.writeUInt16BE(code, 0);
    this.write(OP.close, data);
  }

  /** Closes properly, in bounded time. @param {number} [code] */
  async close(code = 1000) {
    if (!this.isOver) {
      this.sendClose(code);
      this.queue = [];
      this.queued = 0;
      this.socket.resume();
      const timer = setTimeout(() => this.finish(null), CLOSE_MS);
      while (!(await this.next().catch(() => ({ done: true }))).done) { /* what was on its way */ }
      clearTimeout(timer);
    }
  }
}

/** @param {Buffer} data */
function decodeText(data) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw new ProtocolError('protocol', 'a text of the WebSocket is not UTF-8');
  }
}

module.exports = { WebSocketConnection, encodeFrame };
