// What an opened row holds: why it is judged so, and its partitions, asked for when it is opened.

import { boardLink } from "./boards.js";
import { element, list, plainTable } from "./dom.js";
import { UNKNOWN, amount, clock, counted, duration, field, local, parsed, since, size } from "./words.js";

const PARTITIONS_MAX = 50;

export async function detail(cell, row, { at, boards_url: boards }, ask) {
  const flow = row.target !== undefined;
  const name = flow ? row.connector : row.name;
  const path = `api/v1/${flow ? "flows" : "connectors"}?${new URLSearchParams({ connect_cluster: row.connect_cluster, connector: name })}`;
  if (!cell.hasChildNodes()) cell.append(...judged(row, at));
  let parts;
  try {
    const found = parsed(await ask(path));
    parts = flow ? flowParts(row, found) : connectorParts(found.connectors[0], found.at);
  } catch {
    parts = [element("p", { kind: "warned" }, "Its partitions could not be read.")];
  }
  if (!cell.isConnected) return;
  const board = boardLink(boards, { ...row, connector: name });
  const link = element("p", { kind: "links" }, ...board, element("a", { href: path }, "all of it (JSON)"));
  const focused = focusable(cell).indexOf(document.activeElement);
  cell.replaceChildren(...judged(row, at), ...parts, link);
  focusable(cell)[focused]?.focus({ preventScroll: true });
}

function focusable(cell) {
  return [...cell.querySelectorAll("a, [tabindex]")];
}

function judged(row, at) {
  if (row.verdict === null) return [element("p", { kind: "faint" }, "There is no verdict yet.")];
  return [
    element("p", {}, local(row.reason)),
    list(row.evidence),
    element("p", { kind: "faint" }, `${row.verdict} by rule ${row.rule} since ${clock(row.since)} (${since(row.since, at)})`),
  ];
}

function worst(partitions) {
  const lag = (partition) => size(partition.lag_records) ?? -1;
  return [...partitions].sort((a, b) => lag(b) - lag(a)).slice(0, PARTITIONS_MAX);
}

function caption(partitions, what) {
  const cut = partitions.length > PARTITIONS_MAX ? `, the ${PARTITIONS_MAX} that lag most` : "";
  return `${counted(partitions.length, what, `${what}s`)}${cut}`;
}

function flowParts(row, found) {
  const own = found.flows.find((at) => at.source === row.source && at.target === row.target);
  if (!own?.partitions.length) return [element("p", { kind: "faint" }, "No partition of it is known.")];
  const headings = ["topic", "partition", "replicated", "log end", "lag", "age", "lost ever", "until retention"];
  const rows = worst(own.partitions).map((at) => [
    at.topic,
    String(at.partition),
    amount(at.lag_position ?? at.replicated),
    amount(at.log_end),
    amount(at.lag_records),
    duration(at.lag_seconds),
    lost(at.lost_records),
    at.headroom_seconds === null ? UNKNOWN : at.headroom_seconds < 0 ? "already lost" : duration(at.headroom_seconds),
  ]);
  return [plainTable(caption(own.partitions, "partition"), headings, rows)];
}

function lost(causes) {
  const found = Object.entries(causes).filter(([, count]) => count !== 0);
  if (!Object.keys(causes).length) return UNKNOWN;
  return found.length ? found.map(([cause, count]) => `${amount(count)} (${cause})`).join(", ") : "none";
}

function connectorParts(own, at) {
  if (!own) return [element("p", { kind: "faint" }, "It no longer exists.")];
  const parts = [];
  if (own.class) parts.push(element("p", { kind: "faint" }, `${own.class} ${own.version ?? ""}`));
  if (own.tasks.length) {
    parts.push(element("p", {}, own.tasks.slice(0, PARTITIONS_MAX).map(({ task, state }) => `task ${task}: ${state === "failed" ? "FAILED" : state}`).join(", ")));
  }
  if (own.source_partitions.length) {
    const ended = own.source_partitions.some((each) => each.source_end);
    const shown = own.source_partitions.slice(0, PARTITIONS_MAX).map((each) => [
      each.label,
      element("span", { kind: "long" }, offset(each.offset)),
      ...(ended ? [sourceLag(each.source_end), duration(each.source_end?.lag_seconds ?? null)] : []),
      since(each.committed_at, at),
      since(each.advanced_at, at),
      each.from,
    ]);
    const cut = own.source_partitions.length > shown.length ? `, the first ${shown.length}` : "";
    const name = `${counted(own.source_partitions.length, "source partition", "source partitions")}${cut}`;
    parts.push(plainTable(name, ["source partition", "offset", ...(ended ? ["lag", "age"] : []), "last commit", "last advance", "from"], shown));
  }
  if (own.sink_partitions.length) {
    const headings = ["topic", "partition", "committed", "log end", "lag", "age", "from"];
    const rows = worst(own.sink_partitions).map((each) => [
      each.topic,
      String(each.partition),
      amount(each.committed),
      amount(each.log_end),
      amount(each.lag_records),
      duration(each.lag_seconds),
      each.from,
    ]);
    parts.push(plainTable(caption(own.sink_partitions, "partition"), headings, rows));
  }
  return parts;
}

function sourceLag(end) {
  if (!end) return UNKNOWN;
  if (end.snapshot_in_progress) return "snapshot in progress";
  const known = ["transactions", "rows", "bytes"].find((unit) => end[`lag_${unit}`] !== null);
  if (known === undefined || end.mismatch || end.lost) return end.mismatch ?? end.lost ?? end.problem ?? UNKNOWN;
  return `${amount(end[`lag_${known}`])} ${known}`;
}

function offset(found) {
  if (found === null) return "none";
  if (typeof found !== "object") return String(found);
  return Object.entries(found).map(field).join(", ");
}
