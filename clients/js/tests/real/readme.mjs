// Every example of the README runs as it stands, and prints what it says.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporary } from './case.mjs';

const PACKAGE = path.resolve(fileURLToPath(import.meta.url), '../../..');
const README = fs.readFileSync(path.join(PACKAGE, 'README.md'), 'utf8');
const EXAMPLES = [...README.matchAll(/^```js\n(.*?)^```/gms)].map((match) => match[1]);

test('there are examples', () => assert.ok(EXAMPLES.length >= 7, `${EXAMPLES.length}`));

EXAMPLES.forEach((code, i) => {
  test(`example ${i + 1}`, async (t) => {
    const home = temporary(t);
    fs.mkdirSync(path.join(home, 'node_modules'));
    fs.symlinkSync(PACKAGE, path.join(home, 'node_modules/sandpool'));
    const file = path.join(home, code.includes('require(') ? 'example.cjs' : 'example.mjs');
    fs.writeFileSync(file, code);
    const env = { ...process.env, TMPDIR: home };
    delete env.NODE_TEST_CONTEXT;
    const done = await promisify(execFile)(process.execPath, [file], { cwd: home, timeout: 240_000, env });
    const wanted = [...code.matchAll(/^\/\/ prints: (.*)$/gm)].map((match) => match[1]);
    assert.ok(wanted.length > 0);
    const lines = done.stdout.split('\n');
    for (const line of wanted) assert.ok(lines.some((got) => got.startsWith(line)), `${line} is not in:\n${done.stdout}`);
  });
});
