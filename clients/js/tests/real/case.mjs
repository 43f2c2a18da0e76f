// What the tests with real boxes share; ../run_real.py starts the daemon.
import net from 'node:net';
import { sandpool } from '../fake.mjs';

export { sandpool, temporary, until } from '../fake.mjs';

/** Has something done to the daemon: 'kill' (and start), 'takeover'. Resolves when it answers again. */
export function control(what) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(process.env.SANDPOOL_TEST_CONTROL, () => socket.write(`${what}\n`));
    let answer = '';
    socket.setEncoding('utf8').on('data', (data) => { answer += data; }).on('error', reject);
    socket.on('end', () => (answer === 'done\n' ? resolve() : reject(new Error(answer))));
  });
}

export function clientOf(t, isTcp = false) {
  const { SANDPOOL_TEST_TCP, SANDPOOL_TEST_TOKEN } = process.env;
  const pool = isTcp ? new sandpool.Client(SANDPOOL_TEST_TCP, { token: SANDPOOL_TEST_TOKEN, reconnectS: 120 })
    : new sandpool.Client({ reconnectS: 120 });
  t.after(() => pool.close());
  return pool;
}

let count = 0;
/** A box that goes at the end of the test. */
export async function boxOf(t, { isTcp = false, ...options } = {}) {
  count += 1;
  const box = await clientOf(t, isTcp).acquire(`js-${process.pid}-${count}`, options);
  t.after(() => box.destroy({ quick: true }).catch(() => {}));
  return box;
}
