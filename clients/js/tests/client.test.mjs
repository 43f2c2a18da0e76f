import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import * as esm from '../index.mjs';
import { Fake, require, sandpool, until, view } from './fake.mjs';

const ROOT = path.resolve(fileURLToPath(import.meta.url), '../../../..');
const { parseAddress, segment, target } = require('../src/address.js');
const { RETRYABLE } = require('../src/errors.js');

test('import and require have the same classes', () => {
  assert.deepEqual(Object.keys({ ...esm }).sort(), Object.keys(sandpool).sort());
  for (const name of Object.keys(sandpool)) assert.equal(esm[name], sandpool[name], name);
});

test('the version is that of the project', () => {
  const cmake = fs.readFileSync(path.join(ROOT, 'CMakeLists.txt'), 'utf8');
  assert.equal(require('../package.json').version, /project\(sandpool VERSION ([0-9.]+)/.exec(cmake)[1]);
});

test('what may be retried agrees with errors.h', () => {
  const text = fs.readFileSync(path.join(ROOT, 'include/sandpool/errors.h'), 'utf8');
  const rows = [...text.matchAll(/X\([A-Z_]+,\s*"([a-z_]+)",\s*\d+,\s*(true|false)/g)];
  assert.ok(rows.length > 30);
  for (const [, code, retry] of rows) assert.equal(RETRYABLE.has(code), retry === 'true', code);
  const known = new Set(rows.map((row) => row[1]));
  for (const code of RETRYABLE) assert.ok(known.has(code), code);
});

test('addresses', () => {
  assert.equal(parseAddress('/a b').socketPath, '/a b');
  assert.equal(parseAddress('unix:/x').socketPath, '/x');
  assert.equal(parseAddress('unix:///x').socketPath, '/x');
  const tcp = parseAddress('http://[::1]:99');
  assert.deepEqual([tcp.host, tcp.port, tcp.isTls], ['::1', 99, false]);
  assert.deepEqual([parseAddress('https://h').port, parseAddress('https://h').isTls], [443, true]);
  for (const wrong of ['', 'ftp://x', 'http://', 'http://x/path', 'http://u:p@x', 'unix:', 'a\0b']) {
    assert.throws(() => parseAddress(wrong), TypeError, wrong);
  }
  assert.equal(segment('thread:ana/chat 17'), 'thread:ana%2Fchat%2017');
  for (const wrong of ['', '.', '..']) assert.throws(() => segment(wrong), TypeError);
  assert.equal(target('p', { a: undefined, b: null, c: true, d: 'x&y' }), 'p?c=1&d=x%26y');
});

test('a lease', async (t) => {
  const fake = await Fake.start(t);
  const pool = fake.client(t);
  const box = await pool.acquire('thread-1', {
    userId: 'ana', waitS: 1.5, ttlS: 7, envs: { A: '1' }, metadata: { a: 1 }, limits: { memory: '1G' },
    mounts: [{ hostPath: '/a', containerPath: '/b', readOnly: true }],
  });
  assert.deepEqual(fake.seen[0].body, {
    thread_id: 'thread-1', user_id: 'ana', wait_ms: 1500, ttl_s: 7, envs: { A: '1' }, metadata: { a: 1 },
    limits: { memory: '1G' }, mounts: [{ host_path: '/a', container_path: '/b', read_only: true }],
  });
  assert.equal(box.id, sandpool.sandboxIdOf(null, 'thread-1'));
  assert.deepEqual(box.headers, { Authorization: 'Bearer box-secret' });
  assert.ok(!inspect(box, { depth: 9 }).includes('box-secret'));
  assert.ok(!JSON.stringify(box.sandbox).includes('box-secret'));
  await box.renew();
  assert.deepEqual(fake.seen.at(-1).body, { generation: 3, ttl_s: 7 });
  await box.release({ destroy: true });
  assert.deepEqual(fake.seen.at(-1).body, { generation: 3, destroy: true });
  assert.deepEqual((await box.destroy({ quick: true })).report,
    { text: 'gone', processes: 2, mounts: null, layers: null, bytes: null, livedS: 1.5,
      usage: { leasedMs: 9, parkedMs: 1, pausedMs: 0, cpuMs: 20, memoryMbS: null, netInBytes: null, netOutBytes: null,
        diskReadBytes: null, diskWriteBytes: null }, currency: 'EUR', cost: '0.5', costMicros: 500000 });
  assert.equal(fake.seen.at(-1).url, `/v1/sandboxes/${box.id}?generation=3&quick=1`);
});

test('profiles and what they cost', async (t) => {
  const fake = await Fake.start(t);
  const pool = fake.client(t);
  fake.route('GET', /^\/v1\/profiles$/, (call) => call.json({ profiles: [{ name: 'a' }] }));
  fake.route('GET', /^\/v1\/profiles\/a%2Fb$/, (call) => call.json({ name: 'a/b' }));
  fake.route('GET', /^\/v1\/quote/, (call) => call.json({ profile: 'a', total: '0.15' }));
  assert.deepEqual(await pool.profiles(), [{ name: 'a' }]);
  assert.deepEqual(await pool.profile('a/b'), { name: 'a/b' });
  assert.equal((await pool.quote({ profile: 'a', durationS: 7200 })).total, '0.15');
  assert.equal(fake.seen.at(-1).url, '/v1/quote?profile=a&duration_s=7200');
  await pool.quote();
  assert.equal(fake.seen.at(-1).url, '/v1/quote');
  fake.route('GET', /^\/v1\/usage/, (call) => call.json({ since: null, until: 'x', usage: [{ user_id: 'ana', leased_ms: 5 }] }));
  assert.equal((await pool.usage({ groupBy: ['user', 'profile'], sinceMs: 7 })).usage[0].leased_ms, 5);
  assert.equal(fake.seen.at(-1).url, '/v1/usage?group_by=user%2Cprofile&since_ms=7');
  await pool.usage({ intervals: true, userId: 'ana', limit: 3, cursor: 'open:00' });
  assert.equal(fake.seen.at(-1).url, '/v1/usage?intervals=1&user_id=ana&limit=3&cursor=open%3A00');
  for (const method of ['GET', 'PUT', 'POST']) fake.route(method, /^\/v1\/budgets/, (call) => call.json({ limit: '5.05' }));
  const urls = ['GET /v1/budgets?limit=2&cursor=a', 'GET /v1/budgets/a%2Fb', 'PUT /v1/budgets/ana', 'POST /v1/budgets/ana/credit'];
  const calls = [() => pool.budgets({ limit: 2, cursor: 'a' }), () => pool.budget('a/b'), () => pool.setBudget('ana', null),
    () => pool.creditBudget('ana', '7.50')];
  for (const [i, call] of calls.entries()) {
    assert.equal((await call()).limit, '5.05');
    assert.equal(`${fake.seen.at(-1).method} ${fake.seen.at(-1).url}`, urls[i]);
  }
  fake.route('GET', /^\/v1\/profiles$/, (call) => call.json({}));
  await assert.rejects(pool.profiles(), sandpool.ProtocolError);
});

test('over TCP every request has the token, and nobody else sees it', async (t) => {
  const fake = await Fake.start(t, { tcp: true });
  const pool = fake.client(t, { token: 'my-secret' });
  await pool.acquire('a');
  await pool.acquire();
  assert.deepEqual(fake.seen.map((call) => call.headers.authorization), ['Bearer my-secret', 'Bearer my-secret']);
  assert.ok(!inspect(pool, { depth: 9 }).includes('my-secret'));
  assert.throws(() => fake.client(t, { token: 'a\r\nb' }), TypeError);
});

test('errors are classes with the code of the daemon', async (t) => {
  const fake = await Fake.start(t);
  const pool = fake.client(t);
  const cases = [
    [404, 'not_found', sandpool.NotFound, false], [410, 'sandbox_lost', sandpool.SandboxLost, false],
    [502, 'transport_lost', sandpool.TransportLost, false], [429, 'pool_exhausted', sandpool.SandpoolError, true],
    [504, 'timeout', sandpool.DeadlineExceeded, true], [404, 'file_not_found', sandpool.FileNotFound, false],
    [403, 'permission_denied', sandpool.FileError, false],
  ];
  for (const [status, code, Type, isRetryable] of cases) {
    fake.route('GET', /sandboxes/, (call) => call.error(status, code, { retry_after_ms: 42, path: code.startsWith('file') ? '/x' : undefined }));
    const error = await pool.get('x').catch((e) => e);
    assert.ok(error instanceof Type, code);
    assert.deepEqual([error.code, error.status, error.isRetryable, error.retryAfterMs], [code, status, isRetryable, 42]);
  }
  for (const [status, body] of [[500, 'x'], [500, '{}'], [500, 'null'], [500, '{"error":null}'], [200, 'x']]) {
    fake.route('GET', /sandboxes/, (call) => call.res.writeHead(status).end(body));
    const error = await pool.get('x').catch((e) => e);
    assert.ok(error instanceof sandpool.ProtocolError, body);
  }
});

test('nobody answers', async (t) => {
  const fake = await Fake.start(t);
  const pool = fake.client(t, { timeoutS: 0.05 });
  fake.route('GET', /./, () => {});
  await assert.rejects(pool.pool(), { code: 'timeout', name: 'DeadlineExceeded' });
  await fake.stop();
  await assert.rejects(pool.pool(), { code: 'connect_failed', name: 'ConnectionFailed', isRetryable: true });
  await assert.rejects(new sandpool.Client({ address: `${fake.directory}/none` }).pool(), { code: 'connect_failed' });
});

test('a kept connection that died is replaced, but an anonymous acquire is never sent twice', async (t) => {
  const fake = await Fake.start(t);
  const pool = fake.client(t);
  fake.route('GET', /pool/, (call) => call.json({ mode: 'running' }));
  await pool.pool();
  await until(() => Object.keys(pool.transport.agent.freeSockets).length > 0, 'the connection is kept');
  // The next answer on the kept connection is its end.
  let served = 0;
  fake.route('GET', /pool/, (call) => {
    served += 1;
    if (served === 1) call.req.socket.destroy();
    else call.json({ mode: 'again' });
  });
  assert.equal((await pool.pool()).mode, 'again');
  assert.equal(served, 2);
  fake.route('POST', /acquire/, (call) => call.req.socket.destroy());
  await assert.rejects(pool.acquire(), { code: 'connect_failed' });
  assert.equal(fake.count('POST', /acquire/), 1);
});

test('an acquire that is aborted closes its connection', async (t) => {
  const fake = await Fake.start(t);
  const pool = fake.client(t);
  let isGone = false;
  const asked = new Promise((resolve) => {
    fake.route('POST', /acquire/, (call) => {
      call.req.socket.on('close', () => { isGone = true; });
      resolve();
    });
  });
  const stop = new AbortController();
  const acquire = pool.acquire('a', { signal: stop.signal });
  await asked;
  stop.abort(new Error('enough'));
  await assert.rejects(acquire, { message: 'enough' });
  await until(() => isGone, 'the daemon sees it');
  await assert.rejects(pool.acquire('a', { signal: stop.signal }), { message: 'enough' });
  assert.equal(fake.count('POST', /acquire/), 1);
});

test('a lease renews itself until it is released', async (t) => {
  const fake = await Fake.start(t);
  const soon = () => new Date(Date.now() + 400).toISOString();
  fake.route('POST', /acquire/, (call) => call.json(view({ expires_at: soon() })));
  let renewed = 0;
  fake.route('POST', /renew/, (call) => {
    renewed += 1;
    if (renewed === 2) call.req.socket.destroy(); // a failure in between is no end
    else call.json(view({ expires_at: soon() }));
  });
  const pool = fake.client(t);
  const box = await pool.acquire('a');
  await until(() => renewed >= 4, 'four renewals');
  assert.deepEqual(fake.seen.at(-1).body, { generation: 3 });
  assert.equal(box.leaseError, null);
  await box.release();
  assert.ok(box.renewal.timer === null || box.renewal.isStopped);
  const before = renewed;
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.equal(renewed, before);
  fake.route('POST', /renew/, (call) => call.error(410, 'sandbox_lost'));
  const lost = await pool.acquire('a');
  await until(() => lost.leaseError, 'the loss is noticed');
  assert.equal(lost.leaseError.code, 'sandbox_lost');
  assert.ok(lost.renewal.isStopped);
});

test('a held lease does not keep the program alive', async (t) => {
  const fake = await Fake.start(t);
  fake.route('POST', /acquire/, (call) => call.json(view({ expires_at: new Date(Date.now() + 3600_000).toISOString() })));
  const { spawn } = await import('node:child_process');
  const code = `const { Client } = require(${JSON.stringify(path.resolve(ROOT, 'clients/js'))});
    new Client(${JSON.stringify(fake.path)}).acquire('a').then((box) => console.log(box.id));`;
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const timer = setTimeout(() => child.kill('SIGKILL'), 60_000);
  const status = await new Promise((resolve) => child.on('close', resolve));
  clearTimeout(timer);
  assert.equal(status, 0);
});

test('await using', { skip: !Symbol.asyncDispose && 'this Node has no Symbol.asyncDispose' }, async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('POST', /release/, (call) => call.error(410, 'sandbox_lost'));
  await box[Symbol.asyncDispose]();
  fake.route('POST', /release/, (call) => call.error(503, 'draining'));
  await assert.rejects(box[Symbol.asyncDispose](), { code: 'draining' });
  await box.client[Symbol.asyncDispose]();
});

test('pages', async (t) => {
  const fake = await Fake.start(t);
  fake.route('GET', /sandboxes/, (call) => call.json(call.query.get('cursor')
    ? { sandboxes: [view({ thread_id: 'b' })], next_cursor: null }
    : { sandboxes: [view({ thread_id: 'a' })], next_cursor: 'next' }));
  const found = [];
  for await (const sandbox of fake.client(t).list({ state: 'leased', userId: 'u' })) found.push(sandbox.threadId);
  assert.deepEqual(found, ['a', 'b']);
  assert.deepEqual([fake.seen[1].query.get('state'), fake.seen[1].query.get('user_id')], ['leased', 'u']);
});

test('an answer that is cut is never a whole one', async (t) => {
  const whole = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"mode":"running"}');
  const chunked = Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n12\r\n{"mode":"running"}\r\n0\r\n\r\n');
  let data;
  const server = net.createServer((socket) => socket.on('error', () => {}).once('data', () => socket.end(data)));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const pool = new sandpool.Client(`http://127.0.0.1:${server.address().port}`);
  t.after(() => pool.close());
  for (const answer of [whole, chunked]) {
    for (let size = 0; size < answer.length; size += 1) {
      data = answer.subarray(0, size);
      const error = await pool.pool().then(() => null, (e) => e);
      assert.ok(error instanceof sandpool.SandpoolError, `${size} ${error}`);
    }
    data = answer;
    assert.equal((await pool.pool()).mode, 'running');
  }
});

test('the package has what it names, and no dependency', () => {
  const pack = require('../package.json');
  assert.equal(pack.dependencies, undefined);
  for (const file of pack.files) assert.ok(fs.existsSync(path.join(ROOT, 'clients/js', file)), file);
  for (const name of fs.readdirSync(path.join(ROOT, 'clients/js/src'))) {
    const text = fs.readFileSync(path.join(ROOT, 'clients/js/src', name), 'utf8');
    for (const [, what] of text.matchAll(/require\('([^']+)'\)/g)) assert.match(what, /^(node:|\.\/)/, name);
  }
  const done = spawnSync(process.execPath, ['--input-type=module', '-e',
    "import { Client } from 'sandpool'; import { createRequire } from 'node:module';"
    + "const c = createRequire(process.cwd() + '/x.js')('sandpool').Client; if (c !== Client) process.exit(1);"],
  { cwd: path.join(ROOT, 'clients/js'), timeout: 60_000, encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
});
