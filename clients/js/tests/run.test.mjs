import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fake, chunk, end, job, require, sandpool, until } from './fake.mjs';

const { HeadTail } = require('../src/result.js');
const EXEC = /\/exec$/;
const OUTPUT = /\/jobs\/7\/output$/;
const JOBS = /\/jobs$/;
const JOB = /\/jobs\/7$/;
const start = { event: 'start', job: '7', pid: 12 };

/** A daemon with one job, whose output is `texts` and whose connection breaks after every event in turn. */
function serveJob(fake, { stdout, stderr, step, tag, last = end() }) {
  fake.route('GET', OUTPUT, (call) => {
    const at = { stdout: Number(call.query.get('offset')), stderr: Number(call.query.get('stderr_offset')) };
    const events = [];
    if (at.stdout < stdout.length) events.push(chunk('stdout', at.stdout, stdout.slice(at.stdout, at.stdout + step)));
    if (at.stderr < stderr.length) events.push(chunk('stderr', at.stderr, stderr.slice(at.stderr, at.stderr + step)));
    const isOver = at.stdout + step >= stdout.length && at.stderr + step >= stderr.length;
    return call.events(...events, isOver ? last : null);
  });
  fake.route('GET', JOB, (call) => call.json(job({ tag: tag() })));
}

test('a command in one round trip', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('POST', EXEC, (call) => call.json({
    job: '7', outcome: 'exited', exit_code: 3, signal: null, stdout: 'o\ufffd', stderr: 'first\nlast\n', truncated: true,
    spill: { job: '7', stdout_bytes: 10, stderr_bytes: 20 }, duration_ms: 12,
  }));
  const result = await box.run(['a', 'b'], { cwd: '/x', env: { A: '1' }, user: 'root', stdin: 'in', timeoutS: 5, maxOutput: 100 });
  const { tag, ...body } = fake.seen.at(-1).body;
  assert.match(tag, /^run-[0-9a-f]{16}$/);
  assert.deepEqual(body, {
    argv: ['a', 'b'], cwd: '/x', env: { A: '1' }, user: 'root', stdin: 'in', timeout_s: 5, max_output: 100, encoding: 'utf-8',
  });
  assert.deepEqual({ ...result }, {
    outcome: 'exited', exitCode: 3, signal: null, stdout: 'o\ufffd', stderr: 'first\nlast\n', truncated: true,
    spill: { job: '7', stdoutBytes: 10, stderrBytes: 20 }, durationMs: 12, job: '7', message: null,
  });
  assert.throws(() => result.check(), (error) => error instanceof sandpool.CommandFailed && error.result === result
    && /status 3: last/.test(error.message));
  fake.route('POST', EXEC, (call) => call.json({ job: '8', outcome: 'exited', exit_code: 0, stdout: '/w==', stderr: '', duration_ms: 1 }));
  const bytes = await box.run('x', { encoding: 'buffer', stdin: Buffer.from([255]) });
  assert.deepEqual(bytes.stdout, Buffer.from([255]));
  assert.equal(fake.seen.at(-1).body.stdin_base64, '/w==');
  assert.equal(bytes.check(), bytes);
  await assert.rejects(box.run('x', { stdin: 5 }), TypeError);
});

test('output as it is written, split characters included', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  const euro = Buffer.from('€');
  let goOn;
  const more = new Promise((resolve) => { goOn = resolve; });
  fake.route('POST', EXEC, (call) => call.events(
    start, { event: 'keepalive' }, chunk('stdout', 0, 'a'), () => more, chunk('stderr', 0, 'err'),
    chunk('stdout', 1, euro.subarray(0, 1)), chunk('stdout', 2, euro.subarray(1)), end({ exit_code: 4 }),
  ));
  const seen = [];
  const result = await box.run('x', {
    onStdout: async (text) => { seen.push(text); goOn(); },
    onStderr: (text) => seen.push(`2${text}`),
  });
  assert.deepEqual(seen, ['a', '2err', '€']);
  assert.deepEqual([result.stdout, result.stderr, result.exitCode, result.truncated], ['a€', 'err', 4, false]);
  assert.equal(fake.seen.at(-1).headers.accept, 'application/x-ndjson');
});

test('connections that break at every place: no byte lost, none twice', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  const stdout = 'abcdefghij';
  const stderr = 'ABCDE';
  for (const step of [1, 3, 100]) {
    let tag = null;
    fake.route('POST', EXEC, (call) => {
      tag = call.body.tag;
      return call.events(start, chunk('stdout', 0, 'ab'), null);
    });
    serveJob(fake, { stdout, stderr, step, tag: () => tag });
    let seen = '';
    const result = await box.run('x', { onStdout: (text) => { seen += text; } });
    assert.deepEqual([result.outcome, result.exitCode, result.stdout, result.stderr], ['exited', 0, stdout, stderr]);
    assert.equal(seen, stdout);
  }
  assert.equal(fake.count('POST', EXEC), 3);
});

test('what was seen before is cut off, what is missing is a gap', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('POST', EXEC, (call) => call.events(
    start, chunk('stdout', 0, 'abc'), chunk('stdout', 1, 'bcd'), chunk('stdout', 0, 'ab'),
    { event: 'gap', stream: 'stdout', from: 4, to: 10 }, chunk('stdout', 10, 'xyz'), chunk('stdout', 20, '!'), end(),
  ));
  const result = await box.run('x', { onStdout() {} });
  assert.deepEqual([result.stdout, result.truncated], ['abcdxyz!', true]);
  assert.deepEqual(result.spill, { job: '7', stdoutBytes: 21, stderrBytes: 0 });
});

test('a sandbox that says all is well and never ends the command', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  box.client.graceMs = 300;
  const pause = () => new Promise((resolve) => setTimeout(resolve, 30));
  const alive = Array.from({ length: 2000 }, (_, i) => (i % 2 ? pause : { event: 'keepalive' }));
  fake.route('POST', EXEC, (call) => call.events(start, chunk('stdout', 0, 'half'), ...alive));
  const began = performance.now();
  const result = await box.run('x', { timeoutS: 0.2, onStdout() {} });
  assert.deepEqual([result.outcome, result.exitCode, result.stdout], ['transport_lost', null, 'half']);
  assert.match(result.message, /does not end it/);
  assert.ok(performance.now() - began < 25_000);
  // What the caller does with the output does not count.
  fake.route('POST', EXEC, (call) => call.events(start, chunk('stdout', 0, 'a'), chunk('stdout', 1, 'b'), end()));
  const slow = await box.run('x', { timeoutS: 0.1, onStdout: () => new Promise((resolve) => setTimeout(resolve, 500)) });
  assert.deepEqual([slow.outcome, slow.stdout], ['exited', 'ab']);
});

test('answers of a sandbox that are something else', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  const calls = [() => box.jobs(), () => box.job('7'), () => box.ports.list(), () => box.files.list(), () => box.files.stat('a')];
  for (const answer of [null, 5, 'x', { jobs: [null], ports: 'x', entries: { length: 1 } }]) {
    fake.route('GET', /\/(jobs|ports|list|stat|7)$/, (call) => call.json(answer));
    for (const [i, call] of calls.entries()) {
      if (typeof answer === 'object' && answer && (i === 1 || i === 4)) continue; // any object will do
      await assert.rejects(call(), { code: 'protocol' }, `${i}: ${JSON.stringify(answer)}`);
    }
  }
  // The job of a command whose answer is missing is looked for in such a list, too.
  fake.route('POST', EXEC, (call) => call.res.socket.destroy());
  const lost = await box.run('x').catch((error) => error);
  assert.ok(['transport_lost', 'protocol', 'connect_failed'].includes(lost.outcome ?? lost.code), String(lost));
});

test('the daemon is restarted in the middle', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  let tag;
  const begun = new Promise((resolve) => {
    fake.route('POST', EXEC, (call) => {
      tag = call.body.tag;
      call.events(start, chunk('stdout', 0, 'one '), resolve, () => new Promise(() => {}));
    });
  });
  const run = box.run('x', { onStdout() {} });
  await begun;
  await fake.stop();
  fake.route('GET', JOB, (call) => call.json(job({ tag })));
  fake.route('GET', OUTPUT, (call) => call.events(chunk('stdout', 4, 'two'), end()));
  setTimeout(() => fake.listen(), 200);
  const result = await run;
  assert.deepEqual([result.stdout, result.outcome], ['one two', 'exited']);
  assert.equal(fake.seen.at(-1).query.get('offset'), '4');
});

test('an answer that is missing is looked for by the tag; the command is not sent again', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  for (const isStream of [false, true]) {
    let tag;
    fake.route('POST', EXEC, (call) => {
      tag = call.body.tag;
      call.req.socket.destroy();
    });
    fake.route('GET', JOBS, (call) => call.json({ jobs: [job({ job: '6', tag: 'other' }), job({ tag })] }));
    serveJob(fake, { stdout: 'out', stderr: 'err', step: 2, tag: () => tag });
    const result = await box.run('x', isStream ? { onStderr() {} } : {});
    assert.deepEqual([result.outcome, result.stdout, result.stderr], ['exited', 'out', 'err']);
  }
  assert.equal(fake.count('POST', EXEC), 2);
  // Never begun, or nobody knows: no command is run twice, no success is invented.
  fake.route('GET', JOBS, (call) => call.json({ jobs: [] }));
  const unknown = await box.run('x');
  assert.deepEqual([unknown.outcome, unknown.exitCode], ['transport_lost', null]);
  assert.throws(() => unknown.check(), sandpool.TransportLost);
  const named = await box.run('x', { tag: 'mine' }); // an older job may have that tag
  assert.equal(named.outcome, 'transport_lost');
  fake.route('GET', JOBS, (call) => call.error(404, 'not_found'));
  assert.equal((await box.run('x')).outcome, 'sandbox_lost');
});

test('a request that nobody took is tried again until the daemon is back', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  await fake.stop();
  fake.route('POST', EXEC, (call) => call.json({ job: '7', outcome: 'exited', exit_code: 0, stdout: 'x', stderr: '' }));
  setTimeout(() => fake.listen(), 200);
  assert.equal((await box.run('x')).stdout, 'x');
  assert.equal(fake.count('POST', EXEC), 1);
  await fake.stop();
  const short = fake.client(t, { reconnectS: 0.1 });
  box.client.reconnectMs = short.reconnectMs;
  await assert.rejects(box.run('x'), { code: 'connect_failed' });
});

test('a lost sandbox and a lost connection are outcomes', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t, { reconnectS: 0.2 });
  for (const [status, code] of [[410, 'sandbox_lost'], [502, 'transport_lost']]) {
    fake.route('POST', EXEC, (call) => call.error(status, code));
    fake.route('GET', JOBS, (call) => call.error(status, code));
    for (const options of [{}, { onStdout() {} }]) {
      const result = await box.run('x', options);
      assert.deepEqual([result.outcome, result.exitCode, result.ok], [code, null, false]);
      assert.throws(() => result.check(), { code });
    }
    // In the middle: what came is kept.
    fake.route('POST', EXEC, (call) => call.events(start, chunk('stdout', 0, 'part'), { event: 'end', outcome: code }));
    fake.route('GET', JOB, (call) => call.error(status, code));
    const result = await box.run('x', { onStdout() {} });
    assert.deepEqual([result.outcome, result.exitCode, result.stdout], [code, null, 'part']);
  }
  // Cut without an event, and nobody comes back.
  fake.route('POST', EXEC, (call) => call.events(start, chunk('stdout', 0, 'part'), () => fake.stop()));
  const result = await box.run('x', { onStdout() {} });
  assert.deepEqual([result.outcome, result.stdout], ['transport_lost', 'part']);
});

test('a job of the same number in another sandbox is not taken for this one', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('POST', EXEC, (call) => call.events(start, null));
  fake.route('GET', JOB, (call) => call.json(job({ tag: 'another' })));
  fake.route('GET', OUTPUT, (call) => call.events(end()));
  assert.equal((await box.run('x', { onStdout() {} })).outcome, 'sandbox_lost');
  fake.route('POST', JOBS, (call) => call.json(job()));
  const started = await box.start('x');
  fake.route('POST', /wait$/, (call) => call.json(job({ outcome: 'exited', exit_code: 0, started_at: '2027-01-01T00:00:00Z' })));
  assert.equal((await started.wait()).outcome, 'sandbox_lost');
});

test('refusals are errors of the call', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  for (const [status, code] of [[429, 'too_many_calls'], [409, 'not_leased'], [422, 'invalid_field'], [404, 'not_found'], [501, 'unsupported']]) {
    fake.route('POST', EXEC, (call) => call.error(status, code));
    for (const options of [{}, { onStdout() {} }]) await assert.rejects(box.run('x', options), { code });
  }
  assert.equal(fake.count('GET', JOBS), 0);
});

test('an abort kills the command', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('DELETE', JOB, (call) => call.json(job({ outcome: 'killed' })));
  const stop = new AbortController();
  fake.route('GET', JOBS, (call) => call.json({ jobs: [job({ tag: fake.seen.find((c) => c.body?.tag).body.tag })] }));
  fake.route('POST', EXEC, (call) => call.events(start, () => stop.abort(new Error('enough')), () => new Promise(() => {})));
  await assert.rejects(box.run('x', { signal: stop.signal }), { message: 'enough' });
  assert.equal(fake.count('DELETE', JOB), 1);
  await assert.rejects(box.run('x', { signal: stop.signal }), { message: 'enough' });
  assert.equal(fake.count('POST', EXEC), 1);
  // Before its number is known: it is found by its tag.
  const early = new AbortController();
  let tag;
  fake.route('POST', EXEC, (call) => {
    tag = call.body.tag;
    early.abort(new Error('early'));
  });
  fake.route('GET', JOBS, (call) => call.json({ jobs: [job({ tag })] }));
  await assert.rejects(box.run('x', { signal: early.signal }), { message: 'early' });
  assert.equal(fake.count('DELETE', JOB), 2);
});

test('an error of a callback is the caller\'s, and ends the command', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('DELETE', JOB, (call) => call.json(job({ outcome: 'killed' })));
  fake.route('POST', EXEC, (call) => call.events(start, chunk('stdout', 0, 'x'), () => new Promise(() => {})));
  const mine = new sandpool.ConnectionFailed('connect_failed', 'of another daemon');
  await assert.rejects(box.run('x', { onStdout() { throw mine; } }), (error) => error === mine);
  assert.equal(fake.count('DELETE', JOB), 1);
});

test('a stream that falls silent is opened again', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  box.client.silenceMs = 100;
  fake.route('POST', EXEC, (call) => call.events(start, chunk('stdout', 0, 'a'), () => new Promise(() => {})));
  fake.route('GET', JOB, (call) => call.json(job({ tag: fake.seen.find((c) => c.body?.tag).body.tag })));
  fake.route('GET', OUTPUT, (call) => call.events(chunk('stdout', 1, 'b'), end()));
  assert.equal((await box.run('x', { onStdout() {} })).stdout, 'ab');
});

test('head and tail of a long output', () => {
  for (const [max, step, size] of [[10, 1, 100], [10, 7, 100], [11, 3, 11], [10, 100, 100], [10, 5, 11], [5000, 1, 20000]]) {
    const all = Buffer.from(Array.from({ length: size }, (_, i) => 97 + (i % 26)));
    const kept = new HeadTail(max);
    for (let at = 0; at < size; at += step) kept.add(all.subarray(at, at + step));
    const want = size <= max ? all : Buffer.concat([all.subarray(0, Math.ceil(max / 2)), all.subarray(size - Math.floor(max / 2))]);
    assert.equal(kept.bytes().toString(), want.toString(), `${max} ${step} ${size}`);
    assert.equal(kept.isCut, size > max);
    assert.ok(kept.tailSize <= 3 * max + 2048);
  }
  const text = new HeadTail(10);
  text.add(Buffer.from('€'.repeat(20)));
  assert.equal(text.text(), '€€');
});

test('jobs', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('POST', JOBS, (call) => call.json(job({ tag: 't' })));
  const started = await box.start('cat', { stdin: true, tag: 't', timeoutS: 9 });
  assert.deepEqual(fake.seen.at(-1).body, { command: 'cat', tag: 't', timeout_s: 9, stdin: true });
  let waits = 0;
  fake.route('POST', /wait$/, (call) => {
    waits += 1;
    if (waits === 2) call.req.socket.destroy();
    else call.json(job({ tag: 't', outcome: waits < 4 ? 'running' : 'signalled', signal: waits < 4 ? null : 'SIGINT' }));
  });
  const ended = await started.wait();
  assert.deepEqual([ended.outcome, ended.signal, ended.exitCode, ended.isRunning], ['signalled', 'SIGINT', null, false]);
  assert.throws(() => ended.check(), { code: 'command_failed' });
  fake.route('POST', /wait$/, (call) => call.json(job({ tag: 't' })));
  await assert.rejects(started.wait({ timeoutS: 0 }), { code: 'timeout' });
  assert.equal(fake.seen.at(-1).body.timeout_s, 0);
  fake.route('POST', /wait$/, (call) => call.json(job({ tag: 't' })));
  await assert.rejects(started.wait(0), { code: 'timeout' });
  assert.equal(fake.seen.at(-1).body.timeout_s, 0);
  const asked = fake.seen.length;
  for (const wrong of ['5', null, true, NaN, -1, { timeoutS: '5' }, { timeoutS: NaN }, { timeoutS: -1 }]) {
    await assert.rejects(started.wait(/** @type {any} */ (wrong)), { name: 'TypeError', message: /seconds/ }, String(wrong));
  }
  assert.equal(fake.seen.length, asked);
  fake.route('POST', /(stdin|signal|resize)$/, (call) => call.json({}));
  await started.send('hello');
  assert.equal(fake.seen.at(-1).bytes.toString(), 'hello');
  await started.closeStdin();
  assert.ok(fake.seen.at(-1).url.endsWith('/stdin?eof=1'));
  await started.signal('INT');
  assert.deepEqual(fake.seen.at(-1).body, { signal: 'INT' });
  await started.resize(10, 20);
  assert.deepEqual(fake.seen.at(-1).body, { cols: 10, rows: 20 });
  fake.route('GET', JOB, (call) => call.json(job({ tag: 't' })));
  assert.ok((await started.poll()).isRunning);
  fake.route('DELETE', JOB, (call) => call.json(job({ outcome: 'killed' })));
  assert.equal((await started.kill()).outcome, 'killed');
  fake.route('DELETE', JOB, (call) => call.error(410, 'sandbox_lost'));
  assert.equal((await started.kill()).outcome, 'sandbox_lost');
  fake.route('GET', JOBS, (call) => call.json({ jobs: [job(), job({ job: '9' })] }));
  assert.deepEqual((await box.jobs()).map((j) => j.id), ['7', '9']);
});

test('the output of a job, followed over broken connections', async (t) => {
  const fake = await Fake.start(t);
  const box = await fake.box(t);
  fake.route('POST', JOBS, (call) => call.json(job()));
  const started = await box.start('x');
  serveJob(fake, { stdout: 'abcdef', stderr: 'AB', step: 2, tag: () => null });
  let out = '';
  for await (const part of started.output()) if (part.stream === 'stdout') out += part.data;
  assert.equal(out, 'abcdef');
  let rest = '';
  for await (const part of started.output({ offset: 3 })) if (part.stream === 'stdout') rest += part.data;
  assert.equal(rest, 'def');
  for await (const part of started.output()) {
    assert.equal(part.offset, 0);
    break; // closes the connection
  }
  await until(() => fake.sockets.size <= 2, 'no connection is left open');
  fake.route('GET', OUTPUT, (call) => call.error(410, 'sandbox_lost'));
  await assert.rejects(async () => { for await (const _ of started.output()); }, { code: 'sandbox_lost' });
});
