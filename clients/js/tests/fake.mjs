// A daemon for tests: answers what a test scripts, and keeps what was asked. What the real one does is tested with the real one.
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { once } from 'node:events';
import { createRequire } from 'node:module';

export const require = createRequire(import.meta.url);
export const sandpool = require('../index.js');

/** Fails after a limit that a busy machine does not reach. */
export async function until(condition, what, limitMs = 60_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export function temporary(t) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'sandpool-js-'));
  t.after(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export const view = (more = {}) => ({
  sandbox_id: 'fe0dc8182dec7b77', generation: 3, box_id: '2f1b2ef946cb59fb', state: 'leased', profile: 'default',
  user_id: 'default', thread_id: 'thread-1', sandbox_url: 'http://127.0.0.1:1', token: 'box-secret',
  created_at: '2026-11-16T07:55:02.745Z', expires_at: null, ...more,
});

export const job = (more = {}) => ({
  job: '7', pid: 12, command: 'x', tag: null, pty: false, outcome: 'running', exit_code: null, signal: null,
  started_at: '2026-11-16T07:55:02.745Z', duration_ms: 0, stdout_bytes: 0, stderr_bytes: 0, ...more,
});

/** Requests are kept in `seen`; routes are asked in turn, the newest first. */
export class Fake {
  static async start(t, { tcp = false } = {}) {
    const fake = new Fake();
    fake.directory = temporary(t);
    fake.isTcp = tcp;
    fake.path = path.join(fake.directory, 's');
    fake.routes = [];
    fake.seen = [];
    fake.sockets = new Set();
    fake.route('POST', /^\/v1\/acquire$/, (call) => call.json({ source: 'warm', ...view() }));
    fake.route('POST', /\/(release|renew)$/, (call) => call.json(view()));
    fake.route('DELETE', /^\/v1\/sandboxes\/[^/]*$/, (call) => call.json(view({ report: { text: 'gone', processes: 2, mounts: null, lived_s: 1.5, usage: { leased_ms: 9, parked_ms: 1, paused_ms: 0, cpu_ms: 20 }, currency: 'EUR', cost: '0.5', cost_micros: 500000 } })));
    await fake.listen();
    t.after(() => fake.stop());
    return fake;
  }

  async listen() {
    this.server = http.createServer((req, res) => this.serve(req, res));
    this.server.on('upgrade', (req, socket, head) => this.serve(req, null, socket, head));
    this.server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.sockets.delete(socket));
    });
    if (this.isTcp) this.server.listen(this.port ?? 0, '127.0.0.1');
    else this.server.listen(this.path);
    await once(this.server, 'listening');
    if (this.isTcp) this.port = this.server.address().port;
    this.address = this.isTcp ? `http://127.0.0.1:${this.port}` : this.path;
  }

  /** As a daemon that is killed: every connection breaks. */
  async stop() {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    for (const socket of this.sockets) socket.destroy();
    await closed;
    fs.rmSync(this.path, { force: true });
  }

  route(method, pattern, handler) {
    this.routes.unshift({ method, pattern, handler });
  }

  count(method, pattern) {
    return this.seen.filter((call) => call.method === method && pattern.test(call.url)).length;
  }

  async serve(req, res, socket, head) {
    const parts = [];
    const call = {
      method: req.method, url: req.url, headers: req.headers, req, res, socket, head, fake: this,
      query: new URL(req.url, 'http://x').searchParams, body: null,
    };
    call.json = (body, status = 200) => {
      res.writeHead(status, { 'Content-Type': 'application/json' });
      res.end(JSON.stringify(body));
    };
    call.error = (status, code, more = {}) => call.json({ error: { code, message: `said ${code}`, ...more } }, status);
    /** Events, flushed one by one; null breaks the connection, a function is awaited. */
    call.events = async (...events) => {
      res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      for (const event of events) {
        if (event === null) return res.socket.destroy();
        if (typeof event === 'function') await event();
        else await new Promise((resolve) => res.write(`${JSON.stringify(event)}\n`, resolve));
      }
      return res.end();
    };
    this.seen.push(call);
    const route = this.routes.find((r) => r.method === req.method && r.pattern.test(req.url.split('?')[0]));
    if (res && !route?.handler.isRaw) {
      try {
        for await (const part of req) parts.push(part);
      } catch {
        return;
      }
    }
    call.bytes = Buffer.concat(parts);
    if (/json/.test(req.headers['content-type'] ?? '')) call.body = JSON.parse(call.bytes.toString());
    if (!route && res) call.error(404, 'no_route');
    else if (!route) socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    else await route.handler(call);
  }

  client(t, options = {}) {
    const client = new sandpool.Client(this.address, { reconnectS: 20, ...options });
    t.after(() => client.close());
    return client;
  }

  async box(t, options = {}) {
    return this.client(t, options).acquire('thread-1');
  }
}

export const chunk = (stream, offset, text) => ({ event: stream, offset, data: Buffer.from(text).toString('base64') });
export const end = (more = {}) => ({ event: 'end', ...job({ outcome: 'exited', exit_code: 0, duration_ms: 5, ...more }) });
