import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import { boxOf, clientOf, control, sandpool, until } from './case.mjs';

const SERVER = `
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = f"{self.command} {self.path} {self.headers.get('Authorization')} {self.headers.get('X-Forwarded-Prefix')}".encode()
        self.send_response(200 if self.path != "/teapot" else 418)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))[::-1]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8123), H).serve_forever()
`;

async function serve(box) {
  await box.files.write('server.py', SERVER);
  const job = await box.start('exec python3 server.py');
  await until(async () => {
    assert.ok((await job.poll()).isRunning, 'the server runs');
    return (await box.ports.list()).some((p) => p.port === 8123);
  }, 'it listens');
}

for (const isTcp of [false, true]) {
  test(`a server in a box without a network, over ${isTcp ? 'TCP' : 'a Unix socket'}`, async (t) => {
    const box = await boxOf(t, { isTcp, profile: 'alone' });
    await serve(box);
    const response = await box.ports.fetch(8123, '/a?b=c', { headers: { Authorization: 'mine' } });
    const text = await response.text();
    assert.equal(response.status, 200);
    assert.ok(text.startsWith('GET /a?b=c None'), text); // no token of the daemon or of the box
    assert.equal((await box.ports.fetch(8123, '/teapot')).status, 418);
    assert.equal(await (await box.ports.fetch(8123, '/', { method: 'POST', body: 'abc' })).text(), 'cba');
    await assert.rejects(box.ports.fetch(8124).then(async (r) => {
      throw Object.assign(new Error(), { status: r.status, code: (await r.json()).error.code });
    }), { status: 502, code: 'port_closed' });
    await assert.rejects(box.ports.connect(8124), { code: 'port_closed' });
    const forward = await box.ports.forward(8123);
    t.after(() => forward.close());
    const answer = await fetch(`http://127.0.0.1:${forward.port}/through`);
    assert.match(await answer.text(), /^GET \/through/);
    const sockets = await Promise.all(Array.from({ length: 5 }, async () => {
      const socket = net.connect(forward.port, forward.host);
      socket.write('POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nxyz');
      let got = '';
      socket.setEncoding('utf8').on('data', (data) => { got += data; });
      await once(socket, 'end');
      return got;
    }));
    for (const got of sockets) assert.match(got, /zyx$/);
  });

  test(`a shell, over ${isTcp ? 'TCP' : 'a Unix socket'}`, async (t) => {
    const box = await boxOf(t, { isTcp });
    const shell = await box.shell({ cols: 111, rows: 22 });
    let text = '';
    const reading = (async () => { for await (const part of shell) text += part.data; })();
    await shell.write('stty size; echo mark$((1+1))\n');
    await until(() => text.includes('22 111') && text.includes('mark2'), () => text);
    await shell.resize(99, 33);
    await shell.write('stty size\n');
    await until(() => text.includes('33 99'), 'the new size');
    await shell.write('sleep 1000\n');
    await until(async () => (await box.run('cat /proc/[0-9]*/comm')).stdout.includes('sleep'), 'it sleeps');
    await shell.write('\x03');
    await shell.write('exit 6\n');
    await reading;
    assert.deepEqual([shell.end.outcome, shell.end.exitCode], ['exited', 6]);
  });
}

test('a terminal goes on where the daemon was killed', async (t) => {
  const box = await boxOf(t);
  const job = await box.start('for i in $(seq 150); do echo line $i; sleep 0.01; done; read x; echo got $x; exit 5', { stdin: true });
  const terminal = await job.attach();
  let text = '';
  let asked = null;
  for await (const part of terminal) {
    text += part.data;
    if (text.length > 300) asked ??= control('kill');
    if (text.endsWith('line 150\n')) await asked.then(() => terminal.write('input\n'));
  }
  assert.equal(text, `${Array.from({ length: 150 }, (_, i) => `line ${i + 1}\n`).join('')}got input\n`);
  assert.deepEqual([terminal.end.outcome, terminal.end.exitCode], ['exited', 5]);
});

test('a shell of a box that is destroyed ends', async (t) => {
  const box = await boxOf(t);
  const shell = await box.shell();
  await shell.write('echo up\n');
  const wait = shell.wait();
  await box.client.destroy(box.id);
  assert.equal((await wait).outcome, 'sandbox_lost');
  await assert.rejects(shell.write('x'), sandpool.SandpoolError);
});

test('paused, over a take-over, and needed again', async (t) => {
  const pool = clientOf(t);
  const box = await boxOf(t);
  await box.start('while :; do date +%s%N > now; sleep 0.01; done');
  await until(() => box.files.exists('now'), 'it works');
  assert.equal((await box.pause()).paused, true);
  await control('takeover');
  assert.equal((await pool.get(box.id)).paused, true);
  assert.equal((await box.resume()).paused, false);
  assert.equal((await pool.get(box.id)).paused, false);
  const before = await box.files.readText('now');
  await until(async () => (await box.files.readText('now')) !== before, 'it goes on');
  await box.pause();
  assert.equal((await box.run('echo needed')).stdout, 'needed\n');
  assert.equal((await pool.get(box.id)).paused, false);
  await box.destroy();
  await assert.rejects(box.pause(), { code: 'sandbox_lost' });
});

test('what replaced a box is not taken for it', async (t) => {
  const pool = clientOf(t);
  const box = await boxOf(t);
  await box.destroy();
  const other = await pool.acquire(box.sandbox.threadId);
  t.after(() => other.destroy({ quick: true }).catch(() => {}));
  assert.equal(other.id, box.id);
  const lost = { code: 'sandbox_lost' };
  assert.deepEqual(await box.run('touch here').then((r) => [r.outcome, r.exitCode]), ['sandbox_lost', null]);
  for (const call of [
    () => box.start('touch here'), () => box.files.write('here', 'x'), () => box.files.list(), () => box.ports.fetch(8000),
    () => box.ports.connect(8000), () => box.pause(), () => box.resume(), () => box.snapshot(), () => box.fork(1), () => box.shell(),
  ]) await assert.rejects(call(), lost, String(call));
  assert.equal(await other.files.exists('here'), false);
  await assert.rejects(box.release(), { code: 'stale_generation' });
});
