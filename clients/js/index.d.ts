/// <reference types="node" />
import type { Files, Ports } from './content.js';
import type { BudgetCalls, Quote, Usage, UsageOptions } from './usage.js';

export * from './content.js';
export type { Budget, BudgetCalls, Quote, Usage, UsageOptions, UsageRow } from './usage.js';

export interface ClientOptions {
  /** Of a daemon on TCP. */
  token?: string;
  /** PEM: who may sign the certificate of a daemon at https://; else those that Node.js trusts. */
  ca?: string | Buffer;
  /** Until a call is answered; 60 by default. */
  timeoutS?: number;
  /** How long a broken stream is opened again without a sign of life; 30 by default. */
  reconnectS?: number;
}

export interface Mount {
  hostPath: string;
  containerPath: string;
  readOnly?: boolean;
}

export interface Limits {
  memory?: string | number;
  cpus?: number;
  pids?: number;
}

export interface AcquireOptions {
  userId?: string;
  profile?: string;
  sandboxId?: string;
  /** How long the daemon may look for a sandbox. */
  waitS?: number;
  /** Life of the lease without a renewal. */
  ttlS?: number;
  idleTimeoutS?: number;
  envs?: Record<string, string>;
  mounts?: Mount[];
  limits?: Limits;
  metadata?: Record<string, unknown>;
  /** Make it from this snapshot. */
  snapshotId?: string;
  /** What the profile must have; with `profile: 'auto'` one that has it is chosen. */
  network?: 'none' | 'host' | 'nat';
  labels?: Record<string, string>;
  /** true by default: the lease is renewed while it is held. */
  autoRenew?: boolean;
  signal?: AbortSignal;
}

export interface ForkOptions {
  /** One box for each; without it they have no thread. */
  threads?: string[];
  /** Default: that of the source. */
  userId?: string;
  waitS?: number;
  ttlS?: number;
  idleTimeoutS?: number;
  envs?: Record<string, string>;
  /** Default: that of the source. */
  metadata?: Record<string, unknown>;
  autoRenew?: boolean;
  signal?: AbortSignal;
}

/** The files of a sandbox, kept. Memory and processes are not part of it. */
export class Snapshot {
  private constructor();
  readonly snapshotId: string;
  readonly name: string;
  readonly profile: string;
  readonly parent: string | null; // the snapshot that its sandbox was made from
  readonly sandboxId: string | null; readonly userId: string | null; readonly threadId: string | null;
  readonly createdAt: Date | null; readonly lastUsedAt: Date | null;
  readonly sizeBytes: number; readonly digest: string;
  readonly metadata: Record<string, unknown>;
  readonly layers: number | null; // that lie on each other in it
}

/** What the end of a box has released; null: not known. */
export type Report = { readonly text: string } & Readonly<Record<'processes' | 'mounts' | 'layers' | 'bytes' | 'livedS' | 'costMicros', number | null>>
  & Readonly<Record<'currency' | 'cost', string | null>>
  & { readonly usage: Readonly<Record<'leasedMs' | 'parkedMs' | 'pausedMs' | 'memoryMbS' | Counted, number | null>> | null };
/** What the kernel counts of a box; null: nobody does. */
type Counted = 'cpuMs' | 'netInBytes' | 'netOutBytes' | 'diskReadBytes' | 'diskWriteBytes';

/** One sandbox as the daemon saw it at one moment. */
export class Sandbox {
  private constructor();
  readonly sandboxId: string | null;
  readonly generation: number;
  readonly boxId: string;
  readonly state: string;
  readonly profile: string;
  readonly userId: string | null;
  readonly threadId: string | null;
  readonly sandboxUrl: string | null;
  readonly createdAt: Date | null;
  readonly expiresAt: Date | null;
  readonly paused: boolean;
  readonly source: string | null;
  /** What the backend says; null: not asked, or it cannot say. */
  readonly alive: boolean | null;
  /** Of `get()` with `stats`: what it has used so far. */
  readonly stats: Readonly<Record<'memoryBytes' | Counted, number | null>> | null;
  readonly why: string | null;
  readonly report: Report | null;
  readonly metadata: Record<string, unknown>;
  /** Not shown when the sandbox is printed. */
  readonly token: string | null;
  /** What a request to `sandboxUrl` must carry. */
  readonly headers: Record<string, string>;
}

/** What a lease would cost; null where the profile has no price. Texts are exact decimal numbers. */
/** The public id of a thread, as the daemon computes it. */
export function sandboxIdOf(userId: string | null | undefined, threadId: string): string;

/** Talks to one daemon: `/path`, `unix:/path` or `http://host:port`; by default $SANDPOOL_SOCKET, else /run/sandpool/sandpool.sock. */
export interface Client extends BudgetCalls {}
export class Client {
  constructor(address?: string, options?: ClientOptions);
  constructor(options: ClientOptions & { address?: string });
  /** A sandbox for the thread: its own again if it has one, else a warm one, else a new one. */
  acquire(threadId?: string | null, options?: AcquireOptions): Promise<Box>;
  /** A sandbox that is leased already, by its id or `thread:USER/THREAD`. Not renewed unless asked for. */
  open(id: string, options?: { autoRenew?: boolean; ttlS?: number }): Promise<Box>;
  get(id: string, options?: { askBackend?: boolean; stats?: boolean }): Promise<Sandbox>;
  renew(id: string, options?: { generation?: number; ttlS?: number }): Promise<Sandbox>;
  release(id: string, options?: { generation?: number; destroy?: boolean }): Promise<Sandbox>;
  destroy(id: string, options?: { generation?: number; quick?: boolean }): Promise<Sandbox>;
  list(filters?: { state?: string; profile?: string; userId?: string; threadId?: string }): AsyncGenerator<Sandbox, void, void>;
  /** A new sandbox with the files of a snapshot. */
  restore(snapshotId: string, threadId?: string | null, options?: AcquireOptions): Promise<Box>;
  snapshots(): AsyncGenerator<Snapshot, void, void>;
  snapshot(snapshotId: string): Promise<Snapshot>;
  /** Sandboxes that were made from it are not affected. */
  deleteSnapshot(snapshotId: string): Promise<Snapshot>;
  /** To one file of this machine, which appears when it is complete. */
  exportSnapshot(snapshotId: string, local: string, options?: { signal?: AbortSignal | null }): Promise<void>;
  /** A new snapshot of this caller from such a file; `anyBase`: also when it was made on another base. */
  importSnapshot(local: string, options?: { name?: string; profile?: string; anyBase?: boolean; signal?: AbortSignal | null }): Promise<Snapshot>;
  pool(): Promise<Record<string, unknown>>;
  profiles(): Promise<Record<string, unknown>[]>;
  profile(name: string): Promise<Record<string, unknown>>;
  quote(options?: { profile?: string; durationS?: number }): Promise<Quote>;
  usage(options?: UsageOptions): Promise<Usage>;
  version(): Promise<Record<string, unknown>>;
  doctor(): Promise<Record<string, unknown>>;
  pause(): Promise<Record<string, unknown>>;
  resume(): Promise<Record<string, unknown>>;
  drain(options?: { evictParked?: boolean }): Promise<Record<string, unknown>>;
  reconcile(): Promise<Record<string, unknown>>;
  reload(): Promise<Record<string, unknown>>;
  /** Closes the connections that are kept. */
  close(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A line for the shell, or arguments. */
export type Command = string | string[];

export type Outcome =
  | 'running' | 'exited' | 'signalled' | 'timed_out' | 'killed' | 'oom' | 'sandbox_lost' | 'transport_lost';

export interface CommandOptions {
  cwd?: string;
  env?: Record<string, string>;
  user?: string;
  tag?: string;
  /** The command is killed then, with its group; 0: never. 60 by default for run(), 0 for start(). */
  timeoutS?: number;
  signal?: AbortSignal;
}

export interface RunOptions<Data extends string | Buffer = string> extends CommandOptions {
  stdin?: string | Uint8Array;
  /** Bytes of each stream that the result keeps, half of the beginning and half of the end; 1 MiB by default. */
  maxOutput?: number;
  /** A promise that is returned is awaited before the next piece. */
  onStdout?: (data: Data) => unknown;
  onStderr?: (data: Data) => unknown;
  /** The command ends when the connection does, also that of a daemon which is restarted. */
  killOnDisconnect?: boolean;
  encoding?: Data extends string ? 'utf-8' : 'buffer';
}

export interface Spill {
  job: string;
  stdoutBytes: number;
  stderrBytes: number;
}

/** What a command came to. */
export class Result<Data extends string | Buffer = string> {
  private constructor();
  readonly outcome: Exclude<Outcome, 'running'>;
  /** null unless it exited. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: Data;
  readonly stderr: Data;
  readonly truncated: boolean;
  /** Of a truncated output: where the whole is, as far as it is kept. */
  readonly spill: Spill | null;
  readonly durationMs: number;
  readonly job: string | null;
  /** Why a sandbox or a connection was lost. */
  readonly message: string | null;
  /** Whether it exited with status 0. */
  readonly ok: boolean;
  /** Returns the result of a success; throws CommandFailed, SandboxLost or TransportLost. */
  check(): this;
}

export interface StartOptions extends CommandOptions {
  /** true: an input for send() is kept open. */
  stdin?: boolean;
  pty?: { cols: number; rows: number };
}

export interface ShellOptions extends CommandOptions {
  cols?: number;
  rows?: number;
  command?: Command;
  /** close() leaves the shell running. */
  keep?: boolean;
  /** The shell ends with the connection, whatever ended that. */
  killOnDisconnect?: boolean;
}

export interface AttachOptions {
  offset?: number;
  stderrOffset?: number;
  killOnDisconnect?: boolean;
  killOnClose?: boolean;
  signal?: AbortSignal;
}

/** A sandbox that is ours until it is released. */
export class Box {
  private constructor();
  readonly client: Client;
  readonly id: string;
  readonly sandbox: Sandbox;
  readonly sandboxUrl: string;
  readonly headers: Record<string, string>;
  readonly files: Files;
  readonly ports: Ports;
  /** Why the lease is not renewed any more, if that is so. */
  readonly leaseError: Error | null;
  run(command: Command, options?: RunOptions<string>): Promise<Result<string>>;
  run(command: Command, options: RunOptions<Buffer> & { encoding: 'buffer' }): Promise<Result<Buffer>>;
  start(command: Command, options?: StartOptions): Promise<Job>;
  job(id: string): Promise<Job>;
  jobs(): Promise<Job[]>;
  shell(options?: ShellOptions): Promise<Terminal>;
  attach(job: Job | string, options?: AttachOptions): Promise<Terminal>;
  /** Its processes stand still and use no CPU, until resume() or the next call that needs it. The lease goes on. */
  pause(): Promise<Sandbox>;
  /** Lets it go on. */
  resume(): Promise<Sandbox>;
  /** Keeps its files as they are now. It stands still for a moment and goes on. */
  snapshot(options?: { name?: string; metadata?: Record<string, unknown> }): Promise<Snapshot>;
  /** New boxes with the files of this one; all or none. */
  fork(count?: number | null, options?: ForkOptions): Promise<Box[]>;
  renew(ttlS?: number): Promise<Sandbox>;
  release(options?: { destroy?: boolean }): Promise<Sandbox>;
  destroy(options?: { quick?: boolean }): Promise<Sandbox>;
  /** Holds it no longer in this program: nothing is renewed, nothing is released. */
  detach(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** How a job ended, or that it runs. */
export class JobEnd {
  private constructor();
  readonly outcome: Outcome;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly durationMs: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly message: string | null;
  readonly isRunning: boolean;
  readonly ok: boolean;
  check(): this;
}

export interface OutputPart {
  stream: 'stdout' | 'stderr';
  offset: number;
  data: Buffer;
  /** Bytes from `offset` on that are not kept any more; `data` is empty then. */
  gap: number;
}

export interface OutputOptions {
  stream?: 'stdout' | 'stderr' | 'both';
  offset?: number;
  stderrOffset?: number;
  /** true by default: until the job ends. */
  follow?: boolean;
  signal?: AbortSignal;
}

/** A process that goes on by itself: it outlives its caller and a restart of the daemon. */
export class Job {
  private constructor();
  readonly box: Box;
  readonly id: string;
  readonly pid: number | null;
  readonly command: string | null;
  readonly tag: string | null;
  readonly pty: boolean;
  readonly startedAt: string | null;
  poll(options?: { signal?: AbortSignal }): Promise<JobEnd>;
  /** Throws DeadlineExceeded when the time is over; 0 asks once. A number is one of seconds. */
  wait(options?: number | { timeoutS?: number; signal?: AbortSignal }): Promise<JobEnd>;
  kill(): Promise<JobEnd>;
  output(options?: OutputOptions): AsyncGenerator<OutputPart, void, void>;
  send(data: string | Uint8Array, options?: { eof?: boolean; signal?: AbortSignal }): Promise<void>;
  closeStdin(): Promise<void>;
  signal(name: string): Promise<void>;
  resize(cols: number, rows: number): Promise<void>;
  attach(options?: AttachOptions): Promise<Terminal>;
}

/** A job and one connection for its output, input, resize and signals. */
export class Terminal implements AsyncIterable<OutputPart> {
  private constructor();
  readonly job: Job;
  readonly end: JobEnd | null;
  [Symbol.asyncIterator](): AsyncGenerator<OutputPart, void, void>;
  write(data: string | Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  signal(name: string): Promise<void>;
  resize(cols: number, rows: number): Promise<void>;
  /** Joins it with streams, such as process.stdin and process.stdout, until the job ends. */
  connectTo(input: NodeJS.ReadableStream | null, output: NodeJS.WritableStream, errors?: NodeJS.WritableStream): Promise<JobEnd>;
  /** How the job ended. Output that nobody reads is discarded. */
  wait(): Promise<JobEnd>;
  close(options?: { kill?: boolean }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A call failed. `code` is the daemon's own (include/sandpool/errors.h) or one of this package's. */
export class SandpoolError extends Error {
  constructor(code: string, message: string, more?: {
    status?: number; retryAfterMs?: number | null; path?: string | null; cause?: unknown;
  });
  readonly code: string;
  readonly status: number;
  readonly retryAfterMs: number | null;
  /** Of an error of a file call. */
  readonly path: string | null;
  readonly isRetryable: boolean;
}
/** The daemon cannot be reached, or closed the connection before its answer. */
export class ConnectionFailed extends SandpoolError {}
/** No answer within the time of the call. */
export class DeadlineExceeded extends SandpoolError {}
/** What answered is not a sandpool daemon. */
export class ProtocolError extends SandpoolError {}
/** No such sandbox, or not the caller's. */
export class NotFound extends SandpoolError {}
/** The sandbox died or was removed: acquire again. */
export class SandboxLost extends SandpoolError {}
/** The connection to the sandbox broke; whether the call had an effect is not known. */
export class TransportLost extends SandpoolError {}
export class FileError extends SandpoolError {}
/** No such file, directory or program in the sandbox. */
export class FileNotFound extends FileError {}
/** check() of a command that was no success. */
export class CommandFailed extends SandpoolError {
  constructor(message: string, result: Result<string> | Result<Buffer> | JobEnd);
  readonly result: Result<string> | Result<Buffer> | JobEnd;
}
