/* format.js - numbers as the short texts that `sandpool top` has for them. */

/* As the command line prints durations. */
export function duration(s) {
  if (!(s >= 0)) return "-";
  const steps = [[120, 1, "s"], [120 * 60, 60, "m"], [48 * 3600, 3600, "h"], [Infinity, 86400, "d"]];
  const [, size, unit] = steps.find(([below]) => s < below);
  return `${Math.floor(s / size)}${unit}`;
}

/* `count`: there were some, so an unknown time is one above all bounds. */
export function seconds(s, count = 0) {
  if (s === null || s === undefined || !(s >= 0)) return count > 0 ? "longer" : "-";
  if (s < 0.00995) return `${(s * 1000).toFixed(1)}ms`;
  if (s < 0.9995) return `${(s * 1000).toFixed(0)}ms`;
  return s < 99.95 ? `${s.toFixed(1)}s` : duration(s);
}

export const ms = (value, count = 0) => seconds(value === null || value === undefined ? null : value / 1000, count);

export function bytes(n) {
  if (typeof n !== "number") return "-";
  const units = "BKMGTP";
  let at = 0;
  while (n >= 999.5 && at + 1 < units.length) {
    n /= 1024;
    at++;
  }
  return `${at > 0 && n < 9.95 ? n.toFixed(1) : n.toFixed(0)}${units[at]}`;
}

export function percent(part) {
  if (typeof part !== "number" || !(part >= 0)) return "-";
  return part < 9.995 ? `${(part * 100).toFixed(1)}%` : `${(Math.min(part, 999) * 100).toFixed(0)}%`;
}

export const count = (n) => (typeof n === "number" ? n.toLocaleString("en-US") : "-");

export const clock = (text) => (text ? new Date(text).toLocaleTimeString([], { hour12: false }) : "-");

export const owner = (box) => (box.user_id || box.thread_id ? `${box.user_id ?? ""}/${box.thread_id ?? ""}` : "-");

/* How calls name it. */
export const nameOf = (box) => box.sandbox_id || `box:${box.box_id}`;
