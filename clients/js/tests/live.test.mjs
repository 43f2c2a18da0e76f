// WebSockets, terminals and ports: connections that change their protocol.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import net from 'node:net';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { Fake, job, until, view } from './fake.mjs';

const JOB = /\/jobs\/7$/;
const ATTACH = /\/jobs\/7\/attach$/;

/** A frame of a server. */
function frame(op, data, { isLast = true, flags = 0 } = {}) {
  const body = Buffer.from(data);
  const head = body.length < 126 ? Buffer.from([0, body.length])
    : body.length < 65536 ? Buffer.from([0, 126, body.length >> 8, body.length & 255])
      : Buffer.concat([Buffer.from([0, 127]), (() => { const b = Buffer.alloc(8); b.writeBigUInt64BE(BigInt(body.length)); return b; })()]);
  head[0] = (isLast ? 0x80 : 0) | flags | op;
  return Buffer.concat([head, body]);
}

/** The frames that a client sent, as {op, data}; those without a mask are an error. */
function reader(socket, onFrame) {
  let rest = Buffer.alloc(0);
  const take = (data) => {
    rest = Buffer.concat([rest, data]);
    for (;;) {
      if (rest.length < 2) return;
      assert.ok(rest[1] & 0x80, 'a client masks');
      const short = rest[1] & 0x7f;
      const at = short === 126 ? 4 : short === 127 ? 10 : 2;
      if (rest.length < at + 4) return;
      const size = short === 126 ? rest.readUInt16BE(2) : short === 127 ? Number(rest.readBigUInt64BE(2)) : short;
      if (rest.length < at + 4 + size) return;
      const mask = rest.subarray(at, at + 4);
      const data2 = Buffer.from(rest.subarray(at + 4, at + 4 + size)).map((byte, i) => byte ^ mask[i & 3]);
      const op = rest[0] & 15;
      rest = rest.subarray(at + 4 + size);
      onFrame({ op, data: data2 });
    }
  };
  socket.on('data', take);
}

function accept(call, { protocol = call.headers['sec-websocket-protocol'], more = '' } = {}) {
  const key = createHash('sha1').update(`${call.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  call.socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
    + `Sec-WebSocket-Accept: ${key}\r\n${protocol ? `Sec-WebSocket-Protocol: ${protocol}\r\n` : ''}${more}\r\n`);
  call.frames = [];
  reader(call.socket, (f) => {
    call.frames.push(f);
    if (f.op === 8) call.socket.end(frame(8, f.data));
  });
  call.send = (...args) => call.socket.write(frame(...args));
}

async function socketOf(t, handler) {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('GET', /\/ports\/80\/x$/, handler);
  return { fake, box, open: (options) => box.ports.webSocket(80, '/x', options) };
}

test('messages of every size and in fragments, in pieces of every size', async (t) => {
  const big = 'b'.repeat(70_000);
  const all = Buffer.concat([
    frame(1, 'hello'), frame(2, Buffer.alloc(126, 1)), frame(1, 'fr', { isLast: false }), frame(9, 'ping'),
    frame(0, 'ag', { isLast: false }), frame(0, 'ment'), frame(1, big), frame(1, ''), frame(10, 'alone'), frame(8, [3, 232]),
  ]);
  for (const step of [1, 3, 1000, all.length]) {
    const { open } = await socketOf(t, async (call) => {
      accept(call);
      for (let at = 0; at < all.length; at += step) {
        const isWritten = call.socket.write(all.subarray(at, at + step));
        if (!isWritten) await once(call.socket, 'drain');
        if (step < 1000 && at < 300) await new Promise(setImmediate);
      }
    });
    const socket = await open();
    const seen = [];
    for await (const message of socket) seen.push(message);
    assert.deepEqual(seen.map((m) => m.length), [5, 126, 8, 70_000, 0]);
    assert.equal(seen[2], 'fragment');
    assert.ok(Buffer.isBuffer(seen[1]));
    assert.equal(socket.closeCode, 1000);
  }
});

test('what is sent is masked and whole; a ping is answered', async (t) => {
  let call;
  const { open } = await socketOf(t, (c) => { call = c; accept(c); c.send(9, 'are you there'); });
  const socket = await open();
  for (const size of [0, 125, 126, 65535, 65536, 300_000]) await socket.send(Buffer.alloc(size, 7));
  await socket.send('text');
  await until(() => call.frames.length === 8, 'all frames');
  const frames = call.frames.filter((f) => f.op !== 10);
  assert.deepEqual(frames.map((f) => [f.op, f.data.length]), [[2, 0], [2, 125], [2, 126], [2, 65535], [2, 65536], [2, 300_000], [1, 4]]);
  assert.ok(frames[5].data.every((byte) => byte === 7));
  assert.equal(String(call.frames.find((f) => f.op === 10).data), 'are you there');
  await socket.close(1000);
  assert.deepEqual(call.frames.at(-1), { op: 8, data: Buffer.from([3, 232]) });
  await assert.rejects(socket.send('x'));
  assert.equal((await socket.next()).done, true);
});

test('servers that break the rules', async (t) => {
  const wrong = [
    frame(1, 'x', { flags: 0x40 }), frame(3, 'x'), frame(0, 'x'), frame(9, 'x', { isLast: false }), frame(9, Buffer.alloc(126)),
    Buffer.concat([frame(1, 'x', { isLast: false }), frame(1, 'y')]), frame(1, [255, 254]), Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0]),
    Buffer.from([0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0]),
  ];
  for (const data of wrong) {
    const { open } = await socketOf(t, (call) => { accept(call); call.socket.write(data); });
    const socket = await open();
    await assert.rejects(socket.next(), { code: 'protocol' }, data.toString('hex'));
  }
  const { open: cut } = await socketOf(t, (call) => { accept(call); call.send(1, 'x'); call.socket.end(frame(1, 'cut').subarray(0, 3)); });
  const socket = await cut();
  assert.equal((await socket.next()).value, 'x');
  await assert.rejects(socket.next(), { code: 'connect_failed' });
  for (const options of [{ protocol: 'other' }, { more: 'Sec-WebSocket-Extensions: x\r\n' }]) {
    const { open } = await socketOf(t, (call) => accept(call, options));
    await assert.rejects(open(), { code: 'protocol' });
  }
  const { open: refused } = await socketOf(t, (call) => call.socket.end(
    'HTTP/1.1 502 x\r\nConnection: close\r\nContent-Length: 49\r\n\r\n{"error":{"code":"port_closed","message":"none"}}'));
  await assert.rejects(refused(), { code: 'port_closed', status: 502 });
});

test('a reader that is slow slows the server down', async (t) => {
  let written = 0;
  const { open } = await socketOf(t, async (call) => {
    accept(call);
    const data = frame(2, Buffer.alloc(65536));
    for (let i = 0; i < 400 && !call.socket.destroyed; i += 1) {
      const isTaken = call.socket.write(data);
      written += 1;
      if (!isTaken) await once(call.socket, 'drain');
    }
    call.socket.write(frame(8, [3, 232]));
  });
  const socket = await open();
  await until(() => socket.socket.isPaused(), 'it is paused');
  let before;
  do {
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 200));
  } while (written !== before);
  assert.ok(written < 300, `${written} messages were taken though nobody read`);
  let count = 0;
  for await (const message of socket) count += message.length > 0;
  assert.equal(count, 400);
});

test('messages and pings that cost the server nothing do not fill memory', async (t) => {
  const { open: empty } = await socketOf(t, (call) => { accept(call); call.socket.write(Buffer.concat(Array(20_000).fill(frame(1, '')))); });
  const unread = await empty();
  await until(() => unread.socket.isPaused(), 'it is paused');
  for (let i = 0; i < 20_000; i += 1) assert.equal((await unread.next()).value, '');
  const { open: parts } = await socketOf(t, (call) => {
    accept(call);
    call.socket.write(Buffer.concat([frame(1, '', { isLast: false }), ...Array(10_000).fill(frame(0, '', { isLast: false }))]));
    call.socket.write(frame(9, 'all'));
  });
  const joined = await parts();
  await until(() => joined.message.op === 1 && joined.bytes.size === 0 && joined.frame === null, 'they have come');
  assert.equal(joined.message.parts.length, 0);
  // A server that asks again and again, and reads no answer.
  const { open: asked } = await socketOf(t, async (call) => {
    accept(call);
    call.socket.pause();
    const pings = Buffer.concat(Array(1000).fill(frame(9, Buffer.alloc(125))));
    for (let i = 0; i < 100; i += 1) if (!call.socket.write(pings)) await once(call.socket, 'drain');
    call.send(1, 'over');
  });
  const socket = await asked();
  let most = 0;
  const timer = setInterval(() => { most = Math.max(most, socket.socket.writableLength); }, 1);
  assert.equal((await socket.next()).value, 'over');
  clearInterval(timer);
  most = Math.max(most, socket.socket.writableLength);
  assert.ok(most > 0 && most < 1024 * 1024, `${most} bytes wait to be sent`);
  for (const one of [unread, joined, socket]) one.socket.destroy();
});

async function terminalOf(t, fake, options) {
  const box = await fake.box(t, options);
  fake.route('POST', /\/jobs$/, (call) => call.json(job({ pty: true })));
  fake.route('GET', JOB, (call) => call.json(job({ pty: true })));
  fake.route('DELETE', JOB, (call) => call.json(job({ outcome: 'killed' })));
  return box;
}
const out = (text, stream = 1) => [2, Buffer.concat([Buffer.from([stream]), Buffer.from(text)])];
const over = (more = {}) => [1, JSON.stringify({ event: 'end', ...job({ outcome: 'exited', exit_code: 5, ...more }) })];

test('a shell: input, resize, signals, its end', async (t) => {
  const fake = await Fake.start(t);
  const box = await terminalOf(t, fake);
  let call;
  fake.route('GET', ATTACH, (c) => { call = c; accept(c); c.send(...out('$ ')); });
  const shell = await box.shell({ cols: 100, rows: 30, env: { A: '1' } });
  const { command, ...body } = fake.seen.find((c) => c.method === 'POST' && c.url.endsWith('/jobs')).body;
  assert.match(command, /bash/);
  assert.deepEqual(body, { env: { TERM: 'xterm-256color', A: '1' }, stdin: true, pty: { cols: 100, rows: 30 } });
  const input = new PassThrough();
  const output = new PassThrough();
  const ended = shell.connectTo(input, output);
  input.write('ls\n');
  await shell.resize(5, 6);
  await shell.signal('INT');
  await until(() => call.frames.length >= 3, 'frames');
  input.end();
  await until(() => call.frames.length >= 4, 'the end of the input');
  const data = call.frames.filter((f) => f.op === 2).map((f) => [f.data[0], f.data.subarray(1).toString()]);
  assert.deepEqual(data, [[0, 'ls\n']]);
  assert.deepEqual(call.frames.filter((f) => f.op === 1).map((f) => JSON.parse(f.data)), [{ resize: { cols: 5, rows: 6 } }, { signal: 'INT' }, { eof: true }]);
  call.send(...out('bye'));
  call.send(...over());
  call.send(8, [3, 232]);
  assert.deepEqual([(await ended).outcome, (await ended).exitCode], ['exited', 5]);
  assert.equal(output.read().toString(), '$ bye');
  await assert.rejects(shell.write('x'), { code: 'transport_lost' });
  const second = await box.shell();
  await second.close();
  assert.equal(fake.count('DELETE', JOB), 1);
  const kept = await box.shell({ keep: true, killOnDisconnect: true });
  assert.equal(fake.seen.at(-1).query.get('kill'), '1');
  await kept.close();
  assert.equal(fake.count('DELETE', JOB), 1);
});

test('a terminal goes on where its connection broke', async (t) => {
  const fake = await Fake.start(t);
  const box = await terminalOf(t, fake);
  const text = 'abcdefghij';
  let times = 0;
  fake.route('GET', ATTACH, async (call) => {
    accept(call);
    times += 1;
    const at = Number(call.query.get('offset'));
    call.send(...out(text.slice(at, at + 3)));
    if (times === 2) call.send(1, JSON.stringify({ event: 'end', outcome: 'transport_lost' }));
    if (at === 0) call.send(...out('ERR', 2));
    if (at + 3 < text.length) return setTimeout(() => call.socket.destroy(), 20);
    call.send(1, JSON.stringify({ event: 'gap', stream: 'stdout', from: 10, to: 15 }));
    call.send(...out('z'));
    call.send(...over());
    return call.send(8, [3, 232]);
  });
  const terminal = await box.attach('7');
  let seen = '';
  let errors = '';
  let gap = 0;
  for await (const part of terminal) {
    if (part.stream === 'stdout') seen += part.data;
    else errors += part.data;
    gap += part.gap;
  }
  assert.deepEqual([seen, errors, gap, terminal.end.exitCode], [`${text}z`, 'ERR', 5, 5]);
  assert.equal(fake.seen.at(-1).query.get('stderr_offset'), '3');
});

test('a terminal of a lost sandbox has an end', async (t) => {
  const fake = await Fake.start(t);
  const box = await terminalOf(t, fake, { reconnectS: 0.2 });
  fake.route('GET', ATTACH, (call) => {
    accept(call);
    fake.route('GET', JOB, (c) => c.error(410, 'sandbox_lost'));
    call.send(...out('x'));
    call.socket.end();
  });
  assert.equal((await (await box.attach('7')).wait()).outcome, 'sandbox_lost');
  fake.route('GET', JOB, (call) => call.json(job({ pty: true })));
  fake.route('GET', ATTACH, async (call) => { accept(call); await fake.stop(); });
  assert.equal((await (await box.attach('7')).wait()).outcome, 'transport_lost');
});

test('HTTP to a port', async (t) => {
  const fake = await Fake.start(t, { tcp: true });
  const box = await fake.box(t, { token: 'secret' });
  fake.route('GET', /\/ports$/, (call) => call.json({ ports: [{ port: 80, address: '127.0.0.1', pid: 1, command: 'x' }] }));
  assert.equal((await box.ports.list())[0].port, 80);
  fake.route('POST', /\/ports\/80\/a\/b$/, (call) => call.res.writeHead(418, { 'Set-Cookie': ['a=1', 'b=2'] }).end(call.bytes));
  const response = await box.ports.fetch(80, '/a/b?c=d', { method: 'POST', body: 'tea', headers: { 'X-A': '1', Authorization: 'mine' } });
  assert.deepEqual([response.status, await response.text(), response.ok], [418, 'tea', false]);
  assert.equal(fake.seen.at(-1).headers['x-a'], '1');
  assert.equal(fake.seen.at(-1).headers.authorization, 'Bearer secret');
  assert.match(response.headers.get('set-cookie'), /a=1, b=2/);
  fake.route('GET', /\/ports\/80\/$/, (call) => call.res.writeHead(204).end());
  assert.equal((await box.ports.fetch(80)).status, 204);
  fake.route('GET', /\/ports\/80\/cut$/, (call) => call.res.writeHead(200, { 'Content-Length': 9 }).write('x', () => call.res.socket.destroy()));
  await assert.rejects((await box.ports.fetch(80, '/cut')).text());
  assert.equal(await box.ports.url(80, '/x'), `${fake.address}/v1/sandboxes/box:${box.sandbox.boxId}/ports/80/x`);
  await assert.rejects(box.ports.url(80, 'x'), TypeError);
  for (const port of [0, 65536, 1.5, '80']) await assert.rejects(box.ports.fetch(port), TypeError);
  await assert.rejects(box.ports.fetch(80, 'x'), TypeError);
});

test('a forwarded port: bytes both ways, half-closed, many at once', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('GET', /\/ports\/81$/, (call) => {
    call.socket.write('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nhello ');
    const parts = [];
    call.socket.on('data', (part) => parts.push(part)).on('end', () => call.socket.end(Buffer.concat(parts)));
  });
  const forward = await box.ports.forward(81);
  const data = Buffer.alloc(500_000, 'q');
  const answers = await Promise.all(Array.from({ length: 10 }, () => new Promise((resolve, reject) => {
    const parts = [];
    const socket = net.connect({ port: forward.port, host: forward.host, allowHalfOpen: true });
    socket.on('data', (part) => parts.push(part)).on('error', reject).on('end', () => resolve(Buffer.concat(parts)));
    socket.end(data);
  })));
  for (const answer of answers) assert.ok(answer.equals(Buffer.concat([Buffer.from('hello '), data])), `${answer.length}`);
  // The server ends first, and still gets what comes later.
  let late = '';
  fake.route('GET', /\/ports\/83$/, (call) => {
    call.socket.end('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nbye');
    call.socket.on('data', (part) => { late += part; });
  });
  const other = await box.ports.forward(83);
  const client = net.connect({ port: other.port, host: other.host, allowHalfOpen: true });
  client.resume();
  await once(client, 'end');
  await new Promise((resolve) => setTimeout(resolve, 20));
  client.end('late');
  await until(() => late === 'late', 'the server gets it');
  await other.close();
  const held = net.connect({ port: forward.port, host: forward.host });
  await once(held, 'data');
  held.on('error', () => {});
  const closed = once(held, 'close');
  await forward.close();
  await closed;
  await assert.rejects(once(net.connect({ port: forward.port, host: forward.host }), 'connect'));
  fake.route('GET', /\/ports\/82$/, (call) => call.socket.end('HTTP/1.1 404 x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'));
  const none = await box.ports.forward(82); // nobody listens: the connection is closed, the forward goes on
  const socket = net.connect({ port: none.port, host: none.host });
  socket.on('error', () => {});
  socket.resume();
  await once(socket, 'close');
  await none.close();
  await assert.rejects(box.ports.forward(0), TypeError);
});

test('the URL of a port over a Unix socket is one of this machine, until the box is released', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('GET', /\/ports\/8[01]$/, (call) => {
    call.socket.write('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n');
    call.socket.once('data', () => call.socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi'));
  });
  const [url, again, other] = await Promise.all([box.ports.url(80, '/a?b'), box.ports.url(80, '/a?b'), box.ports.url(81)]);
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/a\?b$/);
  assert.equal(again, url);
  assert.notEqual(new URL(other).port, new URL(url).port);
  assert.equal(await (await fetch(url)).text(), 'hi');
  await assert.rejects(box.ports.url(70000), TypeError);
  await box.release();
  await assert.rejects(fetch(url));
});

test('a handle whose box is gone reaches no other box of its thread', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  const own = new RegExp(`^/v1/sandboxes/box:${box.sandbox.boxId}(/|\\?|$)`);
  for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
    fake.route(method, own, (call) => (call.res ? call.error(404, 'not_found')
      : call.socket.end('HTTP/1.1 404 x\r\nConnection: close\r\nContent-Length: 33\r\n\r\n{"error":{"code":"not_found"}}   ')));
    fake.route(method, /^\/v1\/sandboxes\/fe0dc8182dec7b77\/(?!release)/, () => assert.fail('another box was asked'));
  }
  const lost = { code: 'sandbox_lost' };
  for (const result of [box.run('x'), box.run('x', { onStdout() {} })]) assert.equal((await result).outcome, 'sandbox_lost');
  for (const call of [
    () => box.start('x'), () => box.jobs(), () => box.job('7'), () => box.shell(), () => box.pause(), () => box.resume(),
    () => box.snapshot(), () => box.fork(1), () => box.files.read('a'), () => box.files.write('a', 'b'), () => box.files.list(),
    () => box.files.exists('a'), () => box.files.watch('.').ready, () => box.ports.list(), () => box.ports.fetch(80),
    () => box.ports.connect(80), () => box.ports.webSocket(80),
  ]) await assert.rejects(call(), lost, String(call));
  // It is the job that is missing, and not the box; or nobody knows.
  fake.route('GET', /^\/v1\/sandboxes\/box:[^/]*$/, (call) => call.json(view()));
  await assert.rejects(box.job('7'), { code: 'not_found' });
  assert.equal((await box.ports.fetch(80)).status, 404);
  fake.route('GET', /^\/v1\/sandboxes\/box:[^/]*$/, (call) => call.error(503, 'starting'));
  await assert.rejects(box.job('7'), { code: 'not_found' });
  fake.route('GET', /^\/v1\/sandboxes\/box:[^/]*$/, (call) => call.json(view({ state: 'deleting' })));
  await assert.rejects(box.job('7'), lost);
});
