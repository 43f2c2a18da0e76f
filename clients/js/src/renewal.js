'use strict';
// A lease renews itself while it is held. The timer does not keep the program alive.

const { mayReturn } = require('./events');

const DELAY_MIN_MS = 100;
const DELAY_MAX_MS = 10 * 60_000;
const AGAIN_MS = 5000;
const CALL_MS = 20_000;

class Renewal {
  /**
   * @param {import('./box').Box} box
   * @param {number | undefined} ttlS as it was acquired; undefined: the profile's
   */
  constructor(box, ttlS) {
    this.box = box;
    this.ttlS = ttlS;
    /** @type {Error | null} */
    this.error = null;
    /** @type {NodeJS.Timeout | null} */
    this.timer = null;
    /** @type {Promise<void> | null} */
    this.underWay = null;
    this.isStopped = true;
  }

  start() {
    const { expiresAt } = this.box.sandbox;
    if (expiresAt === null) return; // it does not expire
    this.isStopped = false;
    this.schedule(this.delay(expiresAt));
  }

  /** A third of the time that is left: two more tries before it is over. @param {Date} expiresAt */
  delay(expiresAt) {
    const left = this.ttlS === undefined ? expiresAt.getTime() - Date.now() : this.ttlS * 1000;
    return Math.min(Math.max(left / 3, DELAY_MIN_MS), DELAY_MAX_MS);
  }

  /** @param {number} delayMs */
  schedule(delayMs) {
    if (this.isStopped) return;
    this.timer = setTimeout(() => {
      this.underWay = this.renew(delayMs).finally(() => {
        this.underWay = null;
      });
    }, delayMs);
    this.timer.unref();
  }

  /** @param {number} delayMs */
  async renew(delayMs) {
    const { box } = this;
    try {
      const call = { generation: box.sandbox.generation, ttlS: this.ttlS, timeoutMs: CALL_MS };
      const fresh = await box.client.renew(box.id, call);
      box.sandbox.expiresAt = fresh.expiresAt;
      if (fresh.expiresAt !== null) this.schedule(this.delay(fresh.expiresAt));
    } catch (error) {
      if (mayReturn(error)) return this.schedule(Math.min(delayMs, AGAIN_MS));
      this.error = /** @type {Error} */ (error); // lost, released or taken over by another holder
      this.isStopped = true;
    }
    return undefined;
  }

  async stop() {
    this.isStopped = true;
    if (this.timer) clearTimeout(this.timer);
    await this.underWay;
  }
}

module.exports = { Renewal };
