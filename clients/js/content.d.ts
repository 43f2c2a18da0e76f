/// <reference types="node" />
// What is in a box and can be reached: its files and its ports. A part of index.d.ts.
import type { Readable } from 'node:stream';
import type { Socket } from 'node:net';

export interface FileOptions {
  /** 'root': as root of the sandbox. */
  user?: string;
  signal?: AbortSignal;
}

export interface WriteOptions extends FileOptions {
  mode?: number | string;
  /** "uid:gid" */
  owner?: string;
  parents?: boolean;
}

export interface ReadOptions extends FileOptions {
  offset?: number;
  length?: number;
}

export interface FileEntry {
  name: string;
  path: string;
  type: 'file' | 'directory' | 'symlink' | 'other';
  size: number;
  mode: string;
  uid: number;
  gid: number;
  mtime: Date;
  target: string | null;
}

export interface Downloaded {
  files: number;
  bytes: number;
  /** Entries of a tree that were left out: links that lead out of it, devices. */
  skipped: string[];
}

export type FileData = string | Uint8Array | Readable | NodeJS.ReadableStream | AsyncIterable<string | Uint8Array>;

export interface Files {
  write(path: string, data: FileData, options?: WriteOptions): Promise<{ path: string; size: number; created: boolean }>;
  /** At most `maxBytes` (256 MiB): stream() and download() have no limit. */
  read(path: string, options?: ReadOptions & { maxBytes?: number }): Promise<Buffer>;
  readText(path: string, options?: ReadOptions & { maxBytes?: number }): Promise<string>;
  stream(path: string, options?: ReadOptions): AsyncGenerator<Buffer, void, void>;
  list(path?: string, options?: FileOptions & { recursive?: boolean; depth?: number; limit?: number }):
    Promise<FileEntry[] & { truncated: boolean }>;
  stat(path: string, options?: FileOptions & { follow?: boolean }): Promise<FileEntry>;
  exists(path: string, options?: FileOptions): Promise<boolean>;
  mkdir(path: string, options?: FileOptions & { parents?: boolean; mode?: number | string }): Promise<FileEntry>;
  move(from: string, to: string, options?: FileOptions & { overwrite?: boolean }): Promise<FileEntry>;
  copy(from: string, to: string, options?: FileOptions & { overwrite?: boolean; recursive?: boolean }): Promise<FileEntry>;
  remove(path: string, options?: FileOptions & { recursive?: boolean }): Promise<{ path: string; removed: number }>;
  /** A file, or a whole directory. */
  upload(local: string, remote: string, options?: WriteOptions): Promise<Record<string, unknown>>;
  download(remote: string, local: string, options?: FileOptions & { maxBytes?: number }): Promise<Downloaded>;
  watch(path?: string, options?: FileOptions & { recursive?: boolean }): Watcher;
}

export interface FileEvent {
  /** 'overflow': events may be missing, look for yourself. */
  event: 'created' | 'modified' | 'deleted' | 'moved' | 'overflow';
  path: string | null;
  to: string | null;
  type: string | null;
}

export class Watcher implements AsyncIterable<FileEvent> {
  private constructor();
  /** When changes are watched for. */
  readonly ready: Promise<void>;
  [Symbol.asyncIterator](): AsyncGenerator<FileEvent, void, void>;
  close(): void;
}

export interface ListeningPort {
  port: number;
  address: string;
  pid: number | null;
  command: string | null;
}

export interface FetchInit {
  method?: string;
  headers?: Headers | Record<string, string> | [string, string][];
  body?: string | Uint8Array | ArrayBuffer | URLSearchParams | Readable | AsyncIterable<string | Uint8Array> | null;
  signal?: AbortSignal;
  timeoutS?: number;
}

/** Messages of a WebSocket: text as a string, binary as a Buffer. */
export interface WebSocketConnection extends AsyncIterableIterator<string | Buffer> {
  /** Resolves when the connection can take more. */
  send(data: string | Uint8Array): Promise<void>;
  close(code?: number): Promise<void>;
  readonly closeCode: number;
  readonly closeReason: string;
}

export interface Ports {
  list(): Promise<ListeningPort[]>;
  /**
   * For other programs. Of a daemon on TCP: requests need its token. On a Unix socket: a port of this machine, as by forward(),
   * until the box is released or detached; everybody on this machine can use it.
   */
  url(port: number, path?: string): Promise<string>;
  /** As the fetch() of the platform. Redirects are not followed. */
  fetch(port: number, path?: string, init?: FetchInit): Promise<Response>;
  webSocket(port: number, path?: string, options?: {
    protocols?: string[]; headers?: Record<string, string>; signal?: AbortSignal;
  }): Promise<WebSocketConnection>;
  /** A connection of bytes. */
  connect(port: number, options?: { signal?: AbortSignal }): Promise<Socket>;
  forward(port: number, options?: { localPort?: number; host?: string }): Promise<Forward>;
}

/** A port of this machine whose connections end at a port of a sandbox. */
export class Forward {
  private constructor();
  readonly host: string;
  readonly port: number;
  readonly remotePort: number;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
