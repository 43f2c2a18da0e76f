export interface Quote {
  profile: string;
  duration_s: number;
  currency: string | null;
  /** `amount` is null where the price is for what is used: nobody knows it before, and it is not in the total. */
  parts: { name: string; rate: string; rate_micros: number; amount: string | null; amount_micros: number | null }[] | null;
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

/** What a user may spend in this period: `limit` is `amount` and `credit` together. Texts are decimal numbers, `*_micros` millionths. */
export interface Budget {
  user_id: string; is_default: boolean; currency: string; ends_at: string | null;
  amount: string; amount_micros: number; credit: string; credit_micros: number;
  limit: string; limit_micros: number; spent: string; spent_micros: number;
}
/** For operators. */
export interface BudgetCalls {
  budgets(options?: { limit?: number; cursor?: string }): Promise<{ budgets: Budget[]; next_cursor: string | null }>;
  budget(userId: string): Promise<Budget>;
  /** For each period; null: the default of the configuration. */
  setBudget(userId: string, amount: string | null): Promise<Budget>;
  /** More for this period. */
  creditBudget(userId: string, amount: string): Promise<Budget>;
}
