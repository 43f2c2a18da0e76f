'use strict';
// The output of a job as it is written, from an offset on and over broken connections: no byte is lost or seen twice.

const { ConnectionFailed, SandboxLost, TransportLost } = require('./errors');
const { target, segment } = require('./address');
const { Patience, readEvents } = require('./events');

const ACCEPT = { Accept: 'application/x-ndjson' };

/**
 * @typedef {object} Place where a reader is
 * @property {string | null} job null: not known yet
 * @property {number | null} pid
 * @property {string | null} tag
 * @property {string | null} startedAt
 * @property {Record<'stdout' | 'stderr', number>} at
 */

/**
 * A job's number may be another job's after the sandbox was replaced by a new one.
 * @param {Place} place
 * @param {any} view
 */
function isSame(place, view) {
  return (place.pid === null || view.pid === place.pid) && (place.tag === null || view.tag === place.tag)
    && (place.startedAt === null || view.started_at === place.startedAt);
}

/**
 * @param {import('./box').Box} box
 * @param {Place} place
 * @param {{stream: string, follow: boolean, signal: AbortSignal | null, isAgain: boolean}} how
 */
async function open(box, place, how) {
  const job = `jobs/${segment(String(place.job))}`;
  if (how.isAgain) {
    const view = await box.json('GET', job, { signal: how.signal });
    if (!isSame(place, view)) throw new SandboxLost('sandbox_lost', 'the sandbox was replaced by a new one');
  }
  const both = how.stream === 'both';
  const query = {
    stream: how.stream,
    offset: how.stream === 'stderr' ? place.at.stderr : place.at.stdout,
    stderr_offset: both ? place.at.stderr : undefined,
    follow: how.follow ? 1 : undefined,
  };
  return box.request('GET', target(`${job}/output`, query), { headers: ACCEPT, signal: how.signal });
}

/**
 * Yields {stream, offset, data} of what comes next, {stream, offset, gap} of what is not kept any more, and last
 * {end: view}. Throws when the stream cannot be continued.
 * @param {import('./box').Box} box
 * @param {Place} place advanced as events are yielded
 * @param {{first?: import('node:http').IncomingMessage | null, stream?: string, follow?: boolean, isAgain?: boolean,
 *   signal?: AbortSignal | null, reconnectMs: number}} options
 * @returns {AsyncGenerator<any, void, void>}
 */
async function* followJob(box, place, options) {
  const { stream = 'both', follow = true, signal = null, reconnectMs } = options;
  const patience = new Patience(reconnectMs, signal);
  let answer = options.first ?? null;
  let isAgain = options.isAgain ?? false;
  for (;;) {
    let isOver = false;
    try {
      answer ??= await open(box, place, { stream, follow, signal, isAgain });
      for await (const event of readEvents(answer, signal, box.silenceMs)) {
        if (event.event === 'end' && event.outcome === 'transport_lost') {
          throw new TransportLost('transport_lost', event.message || 'the connection to the sandbox broke');
        }
        patience.reset();
        for (const step of advance(place, event)) {
          isOver = 'end' in step;
          yield step;
        }
        if (isOver) return;
      }
      throw new ConnectionFailed('connect_failed', 'the stream stopped before its end');
    } catch (error) {
      if (place.job === null) throw error; // whoever asked must find the job first
      await patience.pause(error);
    }
    answer = null;
    isAgain = true;
  }
}

/**
 * What an event means for a reader at this place.
 * @param {Place} place
 * @param {any} event
 * @returns {any[]}
 */
function advance(place, event) {
  switch (event.event) {
    case 'start':
      place.job = String(event.job);
      place.pid = typeof event.pid === 'number' ? event.pid : place.pid;
      return [{ start: place.job }];
    case 'stdout':
    case 'stderr':
      return advanceBy(place, event.event, Number(event.offset), Buffer.from(String(event.data ?? ''), 'base64'));
    case 'gap': {
      const stream = event.stream === 'stderr' ? 'stderr' : 'stdout';
      return advanceTo(place, stream, Number(event.to));
    }
    case 'end':
      return [{ end: event }];
    default: // keepalive, and what later versions may add
      return [];
  }
}

/**
 * @param {Place} place
 * @param {'stdout' | 'stderr'} stream
 * @param {number} to
 */
function advanceTo(place, stream, to) {
  const from = place.at[stream];
  if (!(to > from)) return [];
  place.at[stream] = to;
  return [{ stream, offset: from, gap: to - from }];
}

/**
 * @param {Place} place
 * @param {'stdout' | 'stderr'} stream
 * @param {number} offset
 * @param {Buffer} data
 * @returns {any[]}
 */
function advanceBy(place, stream, offset, data) {
  const steps = advanceTo(place, stream, offset);
  const known = place.at[stream] - offset; // seen before the connection broke
  if (known < data.length) {
    steps.push(/** @type {any} */ ({ stream, offset: place.at[stream], data: known > 0 ? data.subarray(known) : data }));
    place.at[stream] = offset + data.length;
  }
  return steps;
}

module.exports = { followJob, isSame, advanceBy, advanceTo, ACCEPT };
