import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boxOf, clientOf, control, sandpool, until } from './case.mjs';

for (const isTcp of [false, true]) {
  const kind = isTcp ? 'TCP' : 'a Unix socket';
  test(`commands and their outcomes, over ${kind}`, async (t) => {
    const box = await boxOf(t, { isTcp, envs: { FROM_LEASE: 'yes' } });
    const result = await box.run('echo $FROM_LEASE $A; echo bad >&2; pwd; exit 3', { env: { A: '1' }, cwd: '/tmp' });
    assert.deepEqual([result.outcome, result.exitCode, result.stdout, result.stderr], ['exited', 3, 'yes 1\n/tmp\n', 'bad\n']);
    assert.deepEqual([result.truncated, result.spill], [false, null]);
    assert.throws(() => result.check(), { code: 'command_failed' });
    assert.equal((await box.run(['printf', '%s|', 'a b', '$A'])).check().stdout, 'a b|$A|');
    assert.equal((await box.run('cat', { stdin: 'hällo' })).stdout, 'hällo');
    const bytes = await box.run('cat', { stdin: Buffer.from([0, 255, 10]), encoding: 'buffer' });
    assert.deepEqual(bytes.stdout, Buffer.from([0, 255, 10]));
    assert.equal((await box.run('id -u', { user: 'root' })).stdout, '0\n');
    const signalled = await box.run('kill -SEGV $$');
    assert.deepEqual([signalled.outcome, signalled.exitCode, signalled.signal], ['signalled', null, 'SIGSEGV']);
    const late = await box.run('trap "" TERM; echo part; sleep 600', { timeoutS: 0.5 });
    assert.deepEqual([late.outcome, late.exitCode, late.stdout], ['timed_out', null, 'part\n']);
    assert.equal((await box.run('true')).check().ok, true);
    await assert.rejects(box.run('true', { timeoutS: -1 }), { code: 'invalid_field' });
  });
}

test('a long output: both ends, and the whole from the job', async (t) => {
  const box = await boxOf(t);
  for (const options of [{}, { onStdout() {} }]) {
    const result = await box.run('seq 100000', { maxOutput: 1000, ...options });
    assert.ok(result.ok && result.truncated);
    assert.ok(result.stdout.startsWith('1\n2\n') && result.stdout.endsWith('99999\n100000\n'));
    assert.ok(result.stdout.length <= 1000);
    assert.equal(result.spill.stdoutBytes, 588895);
    let whole = '';
    for await (const part of (await box.job(result.spill.job)).output({ stream: 'stdout' })) whole += part.data;
    assert.equal(whole.length, 588895);
  }
});

test('output as it is written', async (t) => {
  const box = await boxOf(t);
  // Each line is written only when the one before was seen: a file in the box says so.
  const seen = [];
  const result = await box.run('for i in 1 2 3; do echo $i; while [ ! -e seen-$i ]; do sleep 0.02; done; done; echo end >&2', {
    timeoutS: 120,
    async onStdout(text) {
      seen.push(text);
      await box.files.write(`seen-${text.trim()}`, '');
    },
  });
  assert.deepEqual([seen, result.stderr, result.ok], [['1\n', '2\n', '3\n'], 'end\n', true]);
});

test('an abort kills the command and what it started', async (t) => {
  const box = await boxOf(t);
  const stop = new AbortController();
  const run = box.run('(sleep 1001 & sleep 1002 & wait) & echo up; wait', {
    timeoutS: 0, signal: stop.signal, onStdout: () => stop.abort(new Error('enough')),
  });
  await assert.rejects(run, { message: 'enough' });
  await until(async () => (await box.run('cat /proc/[0-9]*/cmdline | tr "\\0" " " | grep -c "slee[p] 100" || true')).stdout === '0\n', 'all are gone');
});

test('jobs', async (t) => {
  const box = await boxOf(t);
  const job = await box.start('while read line; do echo "<$line>"; done; exit 4', { stdin: true, tag: 'reader' });
  assert.ok((await job.poll()).isRunning);
  await assert.rejects(job.wait({ timeoutS: 0 }), { code: 'timeout' });
  await job.send('one\n');
  await job.send('two\n');
  await job.closeStdin();
  let text = '';
  for await (const part of job.output()) text += part.data;
  assert.equal(text, '<one>\n<two>\n');
  const ended = await job.wait();
  assert.deepEqual([ended.outcome, ended.exitCode, ended.stdoutBytes], ['exited', 4, 12]);
  assert.equal((await job.kill()).exitCode, 4);
  const sleeper = await box.start(['sleep', '1000']);
  await sleeper.signal('INT');
  assert.deepEqual([(await sleeper.wait()).outcome, (await sleeper.wait()).signal], ['killed', 'SIGINT']); // by request
  const other = await box.start('sleep 1000');
  assert.equal((await other.kill()).outcome, 'killed');
  assert.equal((await other.kill()).outcome, 'killed');
  const tags = (await box.jobs()).map((j) => j.tag);
  assert.ok(tags.includes('reader'));
  assert.equal((await box.job(job.id)).command, job.command);
  await assert.rejects(box.job('99999'), { status: 404 });
});

test('the sandbox is destroyed in the middle', async (t) => {
  for (const options of [{}, { onStdout() {} }]) {
    const box = await boxOf(t);
    let begun;
    const isUp = new Promise((resolve) => { begun = resolve; });
    const run = box.run('echo up; touch up; sleep 1000', { timeoutS: 0, ...options, ...(options.onStdout && { onStdout: () => begun() }) });
    if (!options.onStdout) await until(() => box.files.exists('up'), 'it runs');
    else await isUp;
    await clientOf(t).destroy(box.id);
    const result = await run;
    assert.deepEqual([result.outcome, result.exitCode], ['sandbox_lost', null]);
    assert.throws(() => result.check(), sandpool.SandboxLost);
    assert.equal((await box.run('true')).outcome, 'sandbox_lost');
  }
});

const COUNT = 'for i in $(seq 150); do echo line $i; echo err $i >&2; sleep 0.01; done; exit 7';
const LINES = (word) => Array.from({ length: 150 }, (_, i) => `${word} ${i + 1}\n`).join('');

for (const [what, isTcp] of [['kill', false], ['kill', true], ['takeover', false]]) {
  test(`the daemon ends in the middle of a stream (${what}, ${isTcp ? 'TCP' : 'Unix'}): no byte lost, none twice`, async (t) => {
    const box = await boxOf(t, { isTcp });
    let out = '';
    let isAsked = null;
    const result = await box.run(COUNT, {
      timeoutS: 0,
      onStdout(text) {
        out += text;
        if (out.length > 500) isAsked ??= control(what);
      },
    });
    await isAsked;
    assert.deepEqual([result.outcome, result.exitCode, result.truncated], ['exited', 7, false]);
    assert.equal(out, LINES('line'));
    assert.equal(result.stdout, LINES('line'));
    assert.equal(result.stderr, LINES('err'));
  });
}

test('the daemon is killed while a command without a stream, a wait and a watch are under way', async (t) => {
  const box = await boxOf(t);
  const run = box.run('touch up; while [ ! -e go ]; do sleep 0.05; done; echo out; echo err >&2; exit 9', { timeoutS: 0 });
  const job = await box.start('while [ ! -e go ]; do sleep 0.05; done; exit 8');
  const wait = job.wait();
  const watcher = box.files.watch('.');
  await watcher.ready;
  await until(() => box.files.exists('up'), 'it runs');
  await control('kill');
  await box.files.write('go', '');
  const result = await run;
  assert.deepEqual([result.outcome, result.exitCode, result.stdout, result.stderr], ['exited', 9, 'out\n', 'err\n']);
  assert.equal((await wait).exitCode, 8);
  const names = [];
  for await (const event of watcher) {
    names.push(event.event);
    if (event.event === 'overflow') break;
  }
  assert.ok(names.includes('overflow'));
});

test('a lease renews itself', async (t) => {
  const box = await boxOf(t, { ttlS: 2 });
  const first = box.sandbox.expiresAt;
  await until(() => box.sandbox.expiresAt.getTime() > first.getTime() + 2200, 'it lives longer than its time');
  assert.equal((await box.run('echo alive')).stdout, 'alive\n');
  assert.equal(box.leaseError, null);
  await box.release();
  await assert.rejects(box.run('true'), { code: 'not_leased' });
});
