// The types: a program that uses all of them compiles, the sources pass the same compiler, and what they name is there.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { require, sandpool } from './fake.mjs';

const PACKAGE = path.resolve(fileURLToPath(import.meta.url), '../..');
const TSC = path.join(PACKAGE, 'node_modules/typescript/bin/tsc');
const skip = !fs.existsSync(TSC) && 'typescript is not installed: npm ci';

test('tsc, strict, over the types, a program that uses all of them, and the sources', { skip, timeout: 300_000 }, async () => {
  const done = await promisify(execFile)(process.execPath, [TSC, '--project', '.'], { cwd: PACKAGE }).catch((error) => error);
  assert.equal(done.stdout, '');
  assert.equal(done.code ?? 0, 0, done.stderr);
});

test('every member that the types name is there, and every name that is exported has types', () => {
  const text = ['index.d.ts', 'content.d.ts'].map((name) => fs.readFileSync(path.join(PACKAGE, name), 'utf8')).join('\n');
  const inner = {
    Files: require('../src/files.js').Files, Ports: require('../src/ports.js').Ports,
    WebSocketConnection: require('../src/websocket.js').WebSocketConnection,
  };
  let checked = 0;
  for (const [, kind, name, body] of text.matchAll(/^export (class|interface) (\w+)[^{]*\{\n(.*?)^\}/gms)) {
    const type = inner[name] ?? (kind === 'class' ? sandpool[name] : null);
    if (!type) {
      assert.equal(kind, 'interface', name);
      continue;
    }
    for (const [, member] of body.matchAll(/^ {2}(\w+)\(/gm)) {
      if (member === 'constructor') continue;
      assert.equal(typeof type.prototype[member], 'function', `${name}.${member}`);
      checked += 1;
    }
  }
  assert.ok(checked > 60, `${checked}`);
  for (const name of Object.keys(sandpool)) assert.match(text, new RegExp(`^export (class|function) ${name}\\b`, 'm'));
});
