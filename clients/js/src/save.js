'use strict';
// A file of this machine that appears under its name when it is complete.

const fs = require('node:fs');
const path = require('node:path');
const { randomBytes } = require('node:crypto');
const { pipeline } = require('node:stream/promises');

/**
 * @param {AsyncIterable<Uint8Array>} source
 * @param {string} local
 * @param {() => number} modeOf asked at the end
 */
async function save(source, local, modeOf) {
  const temporary = path.join(path.dirname(local), `.${path.basename(local)}.${randomBytes(6).toString('hex')}.part`);
  try {
    await pipeline(source, fs.createWriteStream(temporary, { flags: 'wx', mode: 0o600 }));
    await fs.promises.chmod(temporary, modeOf());
    await fs.promises.rename(temporary, local);
  } catch (error) {
    await fs.promises.rm(temporary, { force: true });
    throw error;
  }
}

module.exports = { save };
