// Numbers and times in words. What is not known is said to be so, and is never 0.

export const UNKNOWN = "not known";

const GROUPED = new Intl.NumberFormat("en");
// In the reader's time zone, with its name: the command line and logs are in UTC.
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" });
const DAY = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" });
const A_DAY_S = 86400;
const POSITION_CHARS_MAX = 48; // in a table

// Integers beyond 2^53 would be rounded by the parser: they stay the text that was sent, or are
// said to be too large where the browser does not show that text.
export function parsed(text) {
  return JSON.parse(text, (_key, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)
      ? (context?.source ?? "beyond 2^53")
      : value,
  );
}

export function amount(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return typeof value === "number" ? GROUPED.format(value) : grouped(String(value));
}

// Of text, which may be beyond what a number holds: every digit stays.
function grouped(text) {
  return /^-?\d+$/.test(text) ? text.replace(/\B(?=(\d{3})+$)/g, ",") : text;
}

// A position for a table: fields by name with digits grouped, without nulls, as many as fit.
export function positioned(text) {
  if (text === null || text === undefined) return null;
  const found = fieldsOf(text);
  if (found === null) return shortened(grouped(text));
  const known = Object.entries(found.fields).filter(([, value]) => value !== null);
  if (!known.length) return shortened(text);
  let shown = shortened(field(known[0]));
  let count = 1;
  while (count < known.length && `${shown}, ${field(known[count])}`.length <= POSITION_CHARS_MAX) shown += `, ${field(known[count++])}`;
  if (found.cut) return `${shown}, …`;
  return count < known.length ? `${shown}, ${known.length - count} more` : shown;
}

// One field of a position, whole.
export function field([name, value]) {
  if (typeof value === "number" ? Number.isInteger(value) : typeof value === "string") return `${name} ${amount(value)}`;
  return `${name} ${JSON.stringify(value)}`;
}

// The fields of a JSON object; those before the end where the daemon cut it off.
function fieldsOf(text) {
  const cut = text.endsWith("…");
  for (let end = text.length; end > 0; end = text.lastIndexOf(",", end - 1)) {
    try {
      const fields = parsed(end === text.length ? text : `${text.slice(0, end)}}`);
      return fields !== null && typeof fields === "object" && !Array.isArray(fields) ? { fields, cut } : null;
    } catch {
      if (!cut) return null;
    }
  }
  return null;
}

function shortened(text) {
  return text.length <= POSITION_CHARS_MAX ? text : `${text.slice(0, POSITION_CHARS_MAX)}…`;
}

// For sorting and drawing only; null if it is not known.
export function size(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "number") return value;
  const found = Number(value);
  return Number.isNaN(found) ? Number.MAX_VALUE : found;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole >= 600 && whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < A_DAY_S) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / A_DAY_S)} d ${Math.floor((whole % A_DAY_S) / 3600)} h`;
}

// A moment of a document, which is RFC 3339, in Unix seconds; null if it is not known.
export function seconds(at) {
  return at === null || at === undefined ? null : Date.parse(at) / 1000;
}

export function since(at, now) {
  return at === null || at === undefined ? UNKNOWN : duration(seconds(now) - seconds(at));
}

export function clock(at) {
  if (at === null || at === undefined) return UNKNOWN;
  const then = new Date(at);
  return Math.abs(Date.now() - then.getTime()) < A_DAY_S * 1000 ? TIME.format(then) : DAY.format(then);
}

// A text of the daemon with the moments in it as on the rest of the page: those are RFC 3339 in UTC.
export function local(text) {
  return text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (at) => clock(at));
}

// The value of a piece of evidence with its unit.
export function measured({ value, unit }) {
  if (value === null) return "none";
  if (unit === "time") return clock(value);
  if (unit === null) return String(value);
  return unit === "offset" ? amount(value) : `${amount(value)} ${value === 1 ? unit.replace(/s$/, "") : unit}`;
}

const INPUTS = {
  connect_rest: "Connect cluster",
  groups: "consumer groups of Connect cluster",
  log_ends: "log ends of Kafka cluster",
  rest_offsets: "offsets over REST of",
  source_end: "end of source",
  tail: "offsets topic of Connect cluster",
};

// An input as an operator names it: `log ends of Kafka cluster east`.
export function inputName(kind, name) {
  const slash = name.indexOf("/");
  if (kind === "tail" && slash > 0) return `topic ${name}`;
  if (kind === "groups" && slash > 0) return `consumer groups of flow ${name.slice(slash + 1)} of Connect cluster ${name.slice(0, slash)}`;
  return `${INPUTS[kind] ?? kind} ${name}`;
}

// A line of `waiting_for`: KIND INPUT: waiting for WHAT.
export function waitingLine(line) {
  const found = line.match(/^(\w+) (.+?): (waiting for .*)$/);
  return found && found[1] in INPUTS ? `${inputName(found[1], found[2])}: ${found[3]}` : line;
}

export function counted(count, one, many) {
  return `${GROUPED.format(count)} ${count === 1 ? one : many}`;
}
