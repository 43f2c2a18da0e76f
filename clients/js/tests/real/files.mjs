import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { boxOf, clientOf, control, sandpool, temporary, until } from './case.mjs';

for (const isTcp of [false, true]) {
  test(`files, over ${isTcp ? 'TCP' : 'a Unix socket'}`, async (t) => {
    const { files } = await boxOf(t, { isTcp });
    const put = await files.write('d/ä b', 'text', { mode: 0o750 });
    assert.deepEqual([put.path, put.size, put.created], ['/workspace/d/ä b', 4, true]);
    assert.equal((await files.write('d/ä b', 'text2')).created, false);
    assert.equal(await files.readText('d/ä b'), 'text2');
    assert.equal((await files.read('d/ä b', { offset: 1, length: 3 })).toString(), 'ext');
    const entry = await files.stat('d/ä b');
    assert.deepEqual([entry.name, entry.type, entry.size], ['ä b', 'file', 5]);
    assert.ok(Math.abs(entry.mtime.getTime() - Date.now()) < 3600_000);
    assert.deepEqual([await files.exists('d'), await files.exists('none'), await files.exists('d/ä b/x')], [true, false, false]);
    assert.equal((await files.mkdir('e/f/g')).type, 'directory');
    await files.copy('d', 'e/copy');
    await files.move('e/copy/ä b', 'e/moved');
    const names = (await files.list('e', { recursive: true })).map((e) => e.path.replace('/workspace/', '')).sort();
    assert.deepEqual(names, ['e/copy', 'e/f', 'e/f/g', 'e/moved']);
    assert.equal((await files.list('.')).truncated, false);
    await files.write('/root/x', 'r', { user: 'root' });
    assert.equal(await files.readText('/root/x', { user: 'root' }), 'r');
    await assert.rejects(files.read('/root/x'), { code: 'permission_denied' });
    await assert.rejects(files.read('none'), (error) => error instanceof sandpool.FileNotFound && error.path !== null);
    await assert.rejects(files.read('e'), { code: 'is_directory' });
    await assert.rejects(files.remove('e'), { code: /not_empty|is_directory/ });
    assert.ok((await files.remove('e', { recursive: true })).removed >= 4);
    assert.equal(await files.exists('e'), false);
    assert.equal((await files.write('empty', '')).size, 0);
    assert.equal((await files.read('empty')).length, 0);
  });
}

test('a body of any size that is refused: the reason arrives', async (t) => {
  const box = await boxOf(t);
  const endless = (async function* endless() { for (;;) { yield Buffer.alloc(65536); await new Promise(setImmediate); } }());
  await assert.rejects(box.files.write('/root/x', endless), { code: 'permission_denied' });
});

test('big files and trees there and back', async (t) => {
  const box = await boxOf(t);
  const home = temporary(t);
  const big = path.join(home, 'tree', 'big');
  fs.mkdirSync(path.join(home, 'tree', 'sub', 'n'.repeat(150)), { recursive: true });
  const data = randomBytes(8 * 1024 * 1024 + 17);
  fs.writeFileSync(big, data, { mode: 0o755 });
  fs.writeFileSync(path.join(home, 'tree', 'sub', 'n'.repeat(150), 'ü'), 'deep');
  fs.symlinkSync('../big', path.join(home, 'tree', 'sub', 'link'));
  const sum = createHash('sha256').update(data).digest('hex');
  await box.files.upload(big, 'one/big');
  assert.equal((await box.run('sha256sum one/big; stat -c %a one/big')).stdout, `${sum}  one/big\n755\n`);
  await box.files.download('one/big', path.join(home, 'back'));
  assert.ok(fs.readFileSync(path.join(home, 'back')).equals(data));
  assert.equal(fs.statSync(path.join(home, 'back')).mode & 0o777, 0o755);
  await box.files.upload(path.join(home, 'tree'), 'tree');
  assert.equal((await box.run('sha256sum < tree/sub/link; cat tree/sub/n*/*')).stdout, `${sum}  -\ndeep`);
  await box.run('ln -s /etc/passwd tree/out').then((r) => r.check());
  const done = await box.files.download('tree', path.join(home, 'tree2'));
  assert.deepEqual([done.files, done.skipped], [2, ['out']]);
  assert.ok(fs.readFileSync(path.join(home, 'tree2', 'sub', 'link')).equals(data));
});

test('a download goes on where the daemon was killed', async (t) => {
  const box = await boxOf(t);
  const size = 32 * 1024 * 1024;
  await box.run(`head -c ${size} /dev/urandom > big; sha256sum big`).then((r) => r.check());
  const want = (await box.run('sha256sum < big')).stdout.split(' ')[0];
  const hash = createHash('sha256');
  let at = 0;
  let isKilled = false;
  for await (const part of box.files.stream('big')) {
    hash.update(part);
    at += part.length;
    if (!isKilled && at > 1024 * 1024) {
      isKilled = true;
      await control('kill');
    }
  }
  assert.deepEqual([at, hash.digest('hex')], [size, want]);
});

test('watching', async (t) => {
  const box = await boxOf(t);
  await box.files.mkdir('w/sub');
  const watcher = box.files.watch('w', { recursive: true });
  await watcher.ready;
  await box.run('echo x > w/sub/new; mv w/sub/new w/sub/renamed; rm w/sub/renamed').then((r) => r.check());
  const seen = [];
  for await (const event of watcher) {
    seen.push(event);
    if (event.event === 'deleted') break;
  }
  const created = seen.find((e) => e.event === 'created');
  assert.match(created.path, /sub\/new$/);
  const moved = seen.find((e) => e.event === 'moved');
  assert.match(`${moved?.path} ${moved?.to}`, /new .*renamed$/);
  await until(() => true, 'it is closed');
});

test('a snapshot, and a box that is made from it', async (t) => {
  const pool = clientOf(t);
  const box = await boxOf(t);
  await box.files.write('a.txt', 'before');
  const snapshot = await box.snapshot({ name: 'one', metadata: { k: 1 } });
  t.after(() => pool.deleteSnapshot(snapshot.snapshotId));
  await box.files.write('a.txt', 'after');
  assert.deepEqual({ ...(await pool.snapshot(snapshot.snapshotId)) }, { ...snapshot });
  const found = [];
  for await (const one of pool.snapshots()) found.push(one.snapshotId);
  assert.ok(found.includes(snapshot.snapshotId));
  const copy = await pool.restore(snapshot.snapshotId, `copy-${process.pid}`);
  t.after(() => copy.destroy({ quick: true }).catch(() => {}));
  assert.equal(copy.sandbox.source, 'restored');
  assert.deepEqual(copy.sandbox.metadata, { k: 1 });
  assert.equal(await copy.files.readText('a.txt'), 'before');
  await assert.rejects(pool.restore('0'.repeat(16)), sandpool.NotFound);

  const dir = temporary(t);
  const file = path.join(dir, 'one.tar.zst');
  await pool.exportSnapshot(snapshot.snapshotId, file);
  const back = await pool.importSnapshot(file, { name: 'back' });
  t.after(() => pool.deleteSnapshot(back.snapshotId));
  assert.deepEqual([back.name, back.metadata, back.layers], ['back', { k: 1 }, 1]);
  fs.truncateSync(file, fs.statSync(file).size - 1);
  await assert.rejects(pool.importSnapshot(file), { code: 'invalid_field' });
  await assert.rejects(pool.importSnapshot(path.join(dir, 'none')), { code: 'ENOENT' });
  await assert.rejects(pool.exportSnapshot('0'.repeat(16), path.join(dir, 'none')), sandpool.NotFound);
  await assert.rejects(pool.exportSnapshot(snapshot.snapshotId, path.join(dir, 'none'), { format: 'zip' }), /'sandpool' or 'oci'/);
  assert.deepEqual(fs.readdirSync(dir), ['one.tar.zst']);
});

test('forks', async (t) => {
  const box = await boxOf(t);
  await box.files.write('a.txt', 'here');
  const copies = await box.fork(2);
  t.after(() => Promise.allSettled(copies.map((copy) => copy.destroy({ quick: true }))));
  assert.deepEqual(await Promise.all(copies.map((copy) => copy.files.readText('a.txt'))), ['here', 'here']);
  assert.deepEqual(copies.map((copy) => copy.sandbox.source), ['restored', 'restored']);
  const thread = box.sandbox.threadId;
  await assert.rejects(box.fork(null, { threads: [`fresh-${process.pid}`, thread] }), { code: 'spec_conflict' });
});
