// Everything of the types, used as a program would; compiled, never run. Lines marked as errors must be errors.
import {
  Box, Client, CommandFailed, ConnectionFailed, DeadlineExceeded, FileError, FileNotFound, Forward, Job, JobEnd, NotFound,
  ProtocolError, Result, Sandbox, SandboxLost, SandpoolError, Terminal, TransportLost, Watcher, sandboxIdOf,
} from 'sandpool';
import type { AcquireOptions, FileEntry, FileEvent, ListeningPort, Outcome, OutputPart, Quote, RunOptions, Spill } from 'sandpool';
import { createReadStream } from 'node:fs';
import type { Socket } from 'node:net';

const given: AcquireOptions = {
  userId: 'ana', profile: 'p', sandboxId: 's', waitS: 1, ttlS: 2, idleTimeoutS: 3, envs: { A: '1' }, limits: { memory: '1G', cpus: 1, pids: 9 },
  mounts: [{ hostPath: '/a', containerPath: '/b', readOnly: true }], metadata: { any: [1] }, autoRenew: false,
  signal: new AbortController().signal,
};

export async function leases(): Promise<void> {
  await using pool = new Client({ address: 'http://127.0.0.1:1', token: 't' });
  await using box: Box = await pool.acquire('chat-17', given);
  const sandbox: Sandbox = box.sandbox;
  const expires: Date | null = sandbox.expiresAt;
  const token: string | null = sandbox.token;
  const headers: Record<string, string> = box.headers;
  for await (const found of pool.list({ state: 'leased' })) console.log(found.boxId, expires, token, headers);
  await box.renew(5);
  await box.release({ destroy: true });
  await box.destroy({ quick: true });
  await box.detach();
  const open: Box = await pool.open('thread:ana/chat-17', { autoRenew: true });
  console.log(open.leaseError?.message, sandboxIdOf('ana', 'chat-17'), (await pool.get('x', { askBackend: true })).alive);
  await pool.renew('x', { generation: 1, ttlS: 2 });
  await pool.release('x', { generation: 1 });
  await pool.destroy('x', { quick: true });
  for (const call of [pool.pool, pool.version, pool.doctor, pool.pause, pool.resume, pool.reconcile, pool.reload]) {
    console.log((await call.call(pool)).mode);
  }
  await pool.drain({ evictParked: true });
  console.log((await pool.usage({ groupBy: ['user'] })).usage?.[0]?.cost);
  const { budgets, next_cursor: next } = await pool.budgets({ limit: 10 });
  console.log(budgets[0]?.limit, next, (await pool.setBudget('ana', null)).is_default, (await pool.creditBudget('ana', '5')).credit_micros);
  const quote: Quote = await pool.quote({ profile: 'p', durationS: 60 });
  console.log(quote.total, quote.parts?.[0]?.amount, (await pool.profiles()).length, (await pool.profile('p')).name);
  pool.close();
}

export async function commands(box: Box): Promise<void> {
  const result: Result = await box.run('python3 job.py', { onStdout: (s) => process.stdout.write(s), env: { A: '1' }, stdin: 'x' });
  const text: string = result.stdout;
  const bytes = await box.run(['ls', '-l'], { encoding: 'buffer', onStderr: (b) => b.readUInt8(0), stdin: Buffer.alloc(1) });
  const raw: Buffer = bytes.check().stdout;
  const spill: Spill | null = result.spill;
  const options: RunOptions = { cwd: '/', user: 'root', tag: 't', timeoutS: 1, maxOutput: 5, killOnDisconnect: true };
  console.log(text, raw, spill?.stdoutBytes, await box.run('x', options), result.truncated, result.durationMs, result.job, result.message);
  switch (result.outcome) {
    case 'exited': case 'signalled': case 'timed_out': case 'killed': case 'oom': case 'sandbox_lost': case 'transport_lost': break;
    default: { const never: never = result.outcome; console.log(never); }
  }
  // @ts-expect-error: a result is never still running
  console.log(result.outcome === 'running');
  // @ts-expect-error: text is not bytes
  const wrong: Buffer = (await box.run('x')).stdout;
  // @ts-expect-error: no such option
  await box.run('x', { timeout: 5 });
  console.log(wrong);
}

export async function jobs(box: Box): Promise<void> {
  const job: Job = await box.start('cat', { stdin: true, pty: { cols: 1, rows: 2 }, tag: 't' });
  await job.send('x', { eof: true });
  await job.closeStdin();
  await job.signal('INT');
  await job.resize(1, 2);
  for await (const part of job.output({ stream: 'both', offset: 1, stderrOffset: 2, follow: false })) use(part);
  const end: JobEnd = await job.wait({ timeoutS: 0 });
  const outcome: Outcome = (await job.poll()).outcome;
  console.log(end.check().exitCode, outcome, (await job.kill()).signal, (await box.jobs()).map((j) => j.id), (await box.job('1')).pid);
  await using shell: Terminal = await box.shell({ cols: 80, rows: 24, command: ['sh'], keep: true, killOnDisconnect: true });
  for await (const part of shell) use(part);
  await shell.write('exit\n');
  await shell.resize(1, 2);
  await shell.signal('INT');
  await shell.closeStdin();
  const last: JobEnd = await shell.connectTo(process.stdin, process.stdout, process.stderr);
  console.log(last.ok, shell.end?.isRunning, (await shell.wait()).stdoutBytes);
  await (await box.attach(job, { offset: 1, stderrOffset: 1, killOnClose: true })).close({ kill: true });
}

function use(part: OutputPart): void {
  console.log(part.stream, part.offset, part.data.length, part.gap);
}

export async function files({ files: f }: Box): Promise<void> {
  await f.write('a', 'text', { mode: 0o644, owner: '0:0', parents: true, user: 'root' });
  await f.write('a', createReadStream('x'));
  await f.write('a', (async function* parts() { yield 'x'; })());
  const bytes: Buffer = await f.read('a', { offset: 1, length: 2, maxBytes: 5 });
  const text: string = await f.readText('a');
  for await (const part of f.stream('a')) console.log(part.length, bytes, text);
  const list: FileEntry[] & { truncated: boolean } = await f.list('.', { recursive: true, depth: 1, limit: 2 });
  const is: boolean = await f.exists('a');
  const entry: FileEntry = await f.stat('a', { follow: true });
  console.log(list.truncated, is, entry.mtime.getTime(), (await f.mkdir('d', { mode: '0700' })).type, (await f.move('a', 'b')).path);
  console.log((await f.copy('a', 'b', { overwrite: false })).size, (await f.remove('a', { recursive: true })).removed);
  await f.upload('here', 'there');
  console.log((await f.download('there', 'here', { maxBytes: 1 })).skipped.length);
  const watcher: Watcher = f.watch('.', { recursive: true });
  await watcher.ready;
  for await (const event of watcher) seen(event);
  watcher.close();
}

function seen(event: FileEvent): void {
  console.log(event.event === 'overflow', event.path, event.to);
}

export async function ports({ ports: p }: Box): Promise<void> {
  const list: ListeningPort[] = await p.list();
  const response: Response = await p.fetch(8000, '/x', { method: 'POST', headers: { a: 'b' }, body: 'x', timeoutS: 1 });
  console.log(list, await response.json(), p.url(8000, '/'));
  const socket: Socket = await p.connect(8000);
  socket.end();
  const web = await p.webSocket(8000, '/ws', { protocols: ['x'] });
  await web.send('x');
  for await (const message of web) console.log(message.length);
  await web.close(1000);
  await using forward: Forward = await p.forward(8000, { localPort: 0, host: '127.0.0.1' });
  console.log(forward.host, forward.port, forward.remotePort, web.closeCode);
}

export function errors(error: unknown): string | null {
  if (error instanceof CommandFailed) return error.result.outcome;
  if (error instanceof FileNotFound || error instanceof FileError) return error.path;
  if (error instanceof ConnectionFailed || error instanceof DeadlineExceeded || error instanceof ProtocolError) return error.code;
  if (error instanceof NotFound || error instanceof SandboxLost || error instanceof TransportLost) return error.message;
  if (error instanceof SandpoolError && error.isRetryable) return String(error.retryAfterMs ?? error.status);
  return null;
}
