export interface Quote {
  profile: string;
  duration_s: number;
  currency: string | null;
  parts: { name: string; rate: string; rate_micros: number; amount: string; amount_micros: number }[] | null;
  total: string | null;
  total_micros: number | null;
}

/** A sum, with the names of `groupBy`; or an interval, with its box, state and times, and `wall_ms` in place of the sums. */
export interface UsageRow {
  [name: string]: string | number | null | undefined;
  leased_ms?: number; parked_ms?: number; paused_ms?: number; wall_ms?: number; folded?: number;
  currency: string | null; cost: string | null; cost_micros: number | null;
  /** null: nobody has counted it. */
  cpu_ms?: number | null; memory_mb_s?: number | null; net_in_bytes?: number | null; net_out_bytes?: number | null;
  disk_read_bytes?: number | null; disk_write_bytes?: number | null;
}
export interface Usage { since: string | null; until: string; usage?: UsageRow[]; intervals?: UsageRow[]; next_cursor?: string | null }
export interface UsageOptions {
  groupBy?: ('user' | 'thread' | 'sandbox' | 'profile' | 'principal')[]; intervals?: boolean; limit?: number; cursor?: string;
  userId?: string; threadId?: string; sandboxId?: string; profile?: string; principal?: string; sinceMs?: number; untilMs?: number;
}
