'use strict';
// The package for require(); index.mjs has the same names for import.

const { Client } = require('./src/client');
const { Box } = require('./src/box');
const { Job, JobEnd } = require('./src/job');
const { Result } = require('./src/result');
const { Terminal } = require('./src/terminal');
const { Forward } = require('./src/ports');
const { Watcher } = require('./src/watch');
const { Sandbox, sandboxIdOf } = require('./src/sandbox');
const { Snapshot } = require('./src/snapshot');
const errors = require('./src/errors');

module.exports = {
  Client, Box, Job, JobEnd, Result, Terminal, Forward, Watcher, Sandbox, Snapshot, sandboxIdOf,
  SandpoolError: errors.SandpoolError,
  ConnectionFailed: errors.ConnectionFailed,
  DeadlineExceeded: errors.DeadlineExceeded,
  ProtocolError: errors.ProtocolError,
  NotFound: errors.NotFound,
  SandboxLost: errors.SandboxLost,
  TransportLost: errors.TransportLost,
  FileError: errors.FileError,
  FileNotFound: errors.FileNotFound,
  CommandFailed: errors.CommandFailed,
};
