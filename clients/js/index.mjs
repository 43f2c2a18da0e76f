// The package for import: the names of index.js, so that both kinds of importers get the same classes.
import sandpool from './index.js';

export const {
  Client, Box, Job, JobEnd, Result, Terminal, Forward, Watcher, Sandbox, Snapshot, sandboxIdOf,
  SandpoolError, ConnectionFailed, DeadlineExceeded, ProtocolError, NotFound, SandboxLost, TransportLost, FileError,
  FileNotFound, CommandFailed,
} = sandpool;
