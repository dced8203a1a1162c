// The condition of a row in one word, and how many rows are in which.

import { amount } from "./words.js";

const CALM = new Set(["ok", "idle", "paused", "stopped"]);

// The state as Connect reports it, where it is not simply running; else the verdict.
export function condition(row) {
  if (row.worst_state === null || row.worst_state === undefined || row.worst_state === "running") return row.verdict ?? "no verdict yet";
  return row.worst_state === "failed" ? "FAILED" : row.worst_state;
}

// A row needs attention unless all that is known of it is calm: a row without a verdict does, too.
export function needsAttention(row) {
  const words = [row.worst_state, row.verdict].filter((word) => word && word !== "running");
  return !words.length || words.some((word) => !CALM.has(word));
}

// "1 FAILED, 2 stalled, 37 ok": the most urgent first.
export function tally(rows) {
  const counts = new Map();
  for (const row of rows) {
    const word = condition(row);
    const before = counts.get(word) ?? { count: 0, urgency: row.urgency };
    counts.set(word, { count: before.count + 1, urgency: Math.min(before.urgency, row.urgency) });
  }
  const sorted = [...counts].sort(([, a], [, b]) => a.urgency - b.urgency);
  return sorted.map(([word, { count }]) => `${amount(count)} ${word}`).join(", ");
}
