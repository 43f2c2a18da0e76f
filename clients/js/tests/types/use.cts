// The types for require().
import sandpool = require('sandpool');

const pool: sandpool.Client = new sandpool.Client('unix:/run/x', { token: 'a', timeoutS: 1, reconnectS: 2 });
export const id: string = sandpool.sandboxIdOf(null, 'thread');
export async function main(): Promise<number | null> {
  const box = await pool.acquire();
  return (await box.run('true')).exitCode;
}
