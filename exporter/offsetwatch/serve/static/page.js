// Asks, and shows what was answered. While the tab is hidden nothing is asked. When there is no
// answer the page says so at once, and how old is what it still shows.

import { band } from "./band.js";
import { Board } from "./board.js";
import { boardUrl } from "./boards.js";
import { condition, needsAttention } from "./condition.js";
import { detail } from "./detail.js";
import { element, write } from "./dom.js";
import { sparkline } from "./spark.js";
import { findings, inputs, remedies } from "./told.js";
import { UNKNOWN, amount, clock, counted, duration, parsed, positioned, seconds, since, size, waitingLine } from "./words.js";

const POLL_MS = 5000;
const AGAIN_MS = 2000; // after no answer
const TRENDS_MS = 30000;
const ANSWER_MS = 10000;
const WAITING_MAX = 10;

const at = Object.fromEntries(
  ["band", "freshness", "boards", "alarm", "waiting", "findings", "inputs", "remedies", "search", "verdict", "flows", "connectors", "announced", "trend-note"].map((id) => [id, document.getElementById(id)]),
);
let shown = null; // the newest overview
let shownAge = 0; // its age when it came, in seconds
let shownCame = 0; // when that was, by the page's own clock
let silentSince = null; // Unix seconds; null while the daemon answers
let trends = { etag: null, of: new Map(), minutes: [], at: null, every_s: 60, since: null, left_out: 0 };
let trendsAsked = -Infinity;
let timer = 0;
let asking = false;

class NoAnswer extends Error {}

async function answer(path) {
  // Not the address as it was typed: with a password in it, nothing may be fetched by it.
  const url = new URL(path, location.origin + location.pathname);
  let found;
  try {
    found = await fetch(url, { cache: "no-cache", signal: AbortSignal.timeout(ANSWER_MS) });
  } catch (error) {
    throw new NoAnswer(error.name === "TimeoutError" ? "it took too long" : "it cannot be reached");
  }
  if (!found.ok) {
    const said = (await found.text().catch(() => "")).trim().slice(0, 200);
    throw new NoAnswer(`it answers ${found.status}${said ? `: ${said}` : ""}`);
  }
  return found;
}

async function ask(path) {
  try {
    return await (await answer(path)).text();
  } catch (error) {
    if (error instanceof NoAnswer) throw error;
    throw new NoAnswer("its answer was cut off");
  }
}

// --- the rows -------------------------------------------------------------------------------------

const keyOf = (row) => JSON.stringify([row.connect_cluster, row.name ?? row.connector, row.source ?? null, row.target ?? null]);
const text = (value, unknown = UNKNOWN) => (cell) => {
  write(cell, value ?? unknown);
  cell.classList.toggle("unknown", value === null || value === undefined || value === UNKNOWN);
};
const place = (cell, row) => {
  const known = positioned(row.position) ?? (row.partitions > 1 ? counted(row.partitions, "partition", "partitions") : null);
  text(known !== null && row.from ? `${known} (${row.from})` : known)(cell);
  if (row.position !== null && known !== row.position) cell.title = row.position;
  else cell.removeAttribute("title");
};
const lag = (row, value, words) => (value === null && row.has_lag === false ? "-" : words(value));
const together = [
  { id: "records", name: "Lag, records", down: true, order: (row) => size(row.lag_records), fill: (cell, row) => text(row.kind === "source" ? "-" : lag(row, row.lag_records, amount))(cell) },
  { id: "age", name: "Lag, age", down: true, order: (row) => row.lag_seconds, fill: (cell, row) => text(lag(row, row.lag_seconds, duration))(cell) },
  { id: "hour", name: "Last hour", fill: hour },
  { id: "position", name: "Position", fill: place },
  { id: "commit", name: "Last commit", down: true, order: (row) => (row.committed_at === null ? null : -seconds(row.committed_at)), fill: (cell, row) => text(row.kind === "sink" ? "-" : since(row.committed_at, shown.at))(cell) },
];
const verdict = {
  id: "verdict",
  name: "State",
  order: (row) => [row.urgency, -(row.lag_seconds ?? -1), -(size(row.lag_records) ?? -1)],
  fill: (cell, row) => {
    if (!cell.firstChild) cell.append(element("span", { kind: "badge" }), element("span", { kind: "beside" }));
    const shownWord = condition(row);
    const verdictWord = row.verdict ?? "no verdict yet";
    write(cell.firstChild, shownWord);
    write(cell.lastChild, verdictWord === shownWord.toLowerCase() ? "" : ` ${verdictWord}`);
  },
};

function hour(cell, row) {
  if (cell.dataset.of === `${trends.etag}`) return;
  cell.dataset.of = `${trends.etag}`;
  const drawn = sparkline(trends.of.get(keyOf(row)), trends);
  cell.replaceChildren(drawn ?? element("span", { kind: "unknown" }, UNKNOWN));
}

// Two lines in one button: whose it is, and what.
function named(button, name, about) {
  if (!button.firstChild) button.append(element("span", { kind: "name" }), element("span", { kind: "about" }));
  write(button.firstChild, name);
  write(button.lastChild, about);
}

function tasks(row) {
  const each = Object.entries(row.tasks).map(([state, count]) => `${count} ${state}`);
  if (!each.length) return `no task; connector ${row.state}`;
  return row.state === "running" ? each.join(", ") : `${each.join(", ")}; connector ${row.state}`;
}

const boards = {
  flows: new Board(at.flows, {
    what: ["flow", "flows"],
    keyOf,
    groupOf: (row) => `into ${row.target}`,
    textOf: (row) => `${row.source} ${row.target} ${row.source}->${row.target} ${row.connector} ${row.connect_cluster}`,
    columns: [
      verdict,
      { id: "name", name: "Flow", opens: true, order: (row) => `${row.source} ${row.target}`, fill: (button, row) => named(button, `${row.source} → ${row.target}`, `${row.connect_cluster} / ${row.connector}`) },
      ...together,
    ],
    detail: (cell, row) => detail(cell, row, shown, ask),
  }),
  connectors: new Board(at.connectors, {
    what: ["connector", "connectors"],
    keyOf,
    groupOf: (row) => row.connect_cluster,
    textOf: (row) => `${row.name} ${row.connect_cluster} ${row.kind} ${row.state ?? ""}`,
    columns: [
      verdict,
      { id: "name", name: "Connector", opens: true, order: (row) => row.name, fill: (button, row) => named(button, row.name, row.kind) },
      ...together,
      { id: "state", name: "Tasks", fill: (cell, row) => text(row.state === null ? null : tasks(row))(cell) },
    ],
    detail: (cell, row) => detail(cell, row, shown, ask),
  }),
};

function filter() {
  const words = at.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = at.verdict.value;
  for (const board of Object.values(boards)) {
    board.filter((row) => {
      if (wanted && !(wanted === "attention" ? needsAttention(row) : [row.worst_state, row.verdict].includes(wanted))) return false;
      const found = board.textOf(row).toLowerCase();
      return words.every((word) => found.includes(word));
    }, words.length > 0 || wanted !== "");
  }
}

function show(overview) {
  performance.mark("offsetwatch-show");
  shown = overview;
  band(at.band, overview);
  findings(at.findings, at.announced, overview);
  inputs(at.inputs, overview);
  remedies(at.remedies, overview);
  boards.flows.update(overview.flows, overview);
  boards.connectors.update(overview.connectors, overview);
  for (const board of Object.values(boards)) board.fillOpen();
  waiting(overview);
  boardsLink(overview.boards_url);
  performance.measure("offsetwatch-show", "offsetwatch-show");
}

function boardsLink(base) {
  at.boards.hidden = !base;
  if (base) at.boards.href = boardUrl(base, "fleet");
}

function waiting(overview) {
  const seen = overview.ready ? "" : JSON.stringify(overview.waiting_for);
  if (at.waiting.dataset.seen === seen) return;
  at.waiting.dataset.seen = seen;
  if (overview.ready) return at.waiting.replaceChildren();
  const lines = overview.waiting_for.slice(0, WAITING_MAX).map((line) => element("li", {}, waitingLine(line)));
  const more = overview.waiting_for.length - lines.length;
  if (more > 0) lines.push(element("li", {}, `and ${more} more`));
  at.waiting.replaceChildren(element("p", {}, "The daemon is not ready: not everything has been read yet. What depends on that is not shown, and what is shown is not all."), element("ul", {}, ...lines));
}

// --- how old it is --------------------------------------------------------------------------------

function age() {
  return shownAge + (performance.now() - shownCame) / 1000;
}

function freshness() {
  const held = silentSince === null ? "" : " It is not renewed.";
  write(at.freshness, shown === null ? "Nothing is shown: there was no answer yet." : `As of ${clock(shown.at)}, ${duration(age())} old.${held}`);
  const critical = shown?.findings.filter((finding) => finding.severity === "critical").length ?? 0;
  const title = silentSince !== null ? "no answer: offsetwatch" : critical ? `(${critical}) offsetwatch` : "offsetwatch";
  if (document.title !== title) document.title = title;
}

function alarm(said) {
  document.body.classList.toggle("stale", said !== "");
  write(at.alarm, said);
}

function silent(why) {
  silentSince ??= new Date().toISOString();
  const old = shown === null ? "" : ` What is shown is of ${clock(shown.at)} and may be wrong by now.`;
  alarm(`No answer from the daemon since ${clock(silentSince)}: ${why}.${old}`);
}

function answered(overview, date) {
  silentSince = null;
  const served = seconds(date ?? "");
  shownAge = Number.isNaN(served) ? 0 : Math.max(0, served - seconds(overview.at));
  shownCame = performance.now();
  show(overview);
  alarm(overview.alive ? "" : `The daemon answers, but its main loop has stopped. What is shown is of ${clock(overview.at)} and may be wrong by now.`);
}

// --- asking ---------------------------------------------------------------------------------------

async function poll() {
  clearTimeout(timer);
  if (asking || document.hidden) return;
  asking = true;
  try {
    const found = await answer("api/v1/overview");
    const body = await found.text().catch(() => null);
    if (body === null) throw new NoAnswer("its answer was cut off");
    answered(parsed(body), found.headers.get("Date"));
    await pollTrends();
  } catch (error) {
    silent(error instanceof NoAnswer ? error.message : "its answer is malformed");
    if (!(error instanceof NoAnswer)) console.error(error);
  } finally {
    asking = false;
    freshness();
    if (!document.hidden) timer = setTimeout(poll, silentSince === null ? POLL_MS : AGAIN_MS);
  }
}

async function pollTrends() {
  if (performance.now() - trendsAsked < TRENDS_MS) return;
  trendsAsked = performance.now();
  try {
    const found = await answer("api/v1/trends");
    const etag = found.headers.get("ETag");
    if (etag === trends.etag) return;
    const document_ = parsed(await found.text());
    const of = new Map([...document_.connectors, ...document_.flows].map((row) => [keyOf(row), row]));
    trends = { ...document_, etag, of };
    const cut = trends.left_out ? ` ${trends.left_out} have none: there are too many.` : "";
    write(at["trend-note"], trends.since === null ? "" : `Lines of the last hour begin at ${clock(trends.since)}. They are in memory only and start empty after a restart.${cut}`);
    for (const board of Object.values(boards)) board.render();
  } catch {
    write(at["trend-note"], "The lines of the last hour could not be read.");
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else {
    freshness();
    poll();
  }
});
setInterval(() => document.hidden || freshness(), 1000);
at.search.addEventListener("input", filter);
at.verdict.addEventListener("change", filter);
at.search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    at.search.value = "";
    filter();
  } else if (event.key === "ArrowDown" || event.key === "Enter") {
    const board = boards.flows.found.length ? boards.flows : boards.connectors;
    board.enter();
    event.preventDefault();
  }
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  at.search.focus();
  at.search.select();
});
filter();
poll();
