// The last hour of one row as a line, from an hour ago to now, above its axis: from 0 to the greatest
// value, which stands under it. A minute that was not seen or not known is a gap.

import { element } from "./dom.js";
import { amount, duration, seconds } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120;
const HEIGHT = 24;
const EDGE = 2;
const MEASURES = [
  ["lag_seconds", "lag", duration],
  ["lag_records", "lag", (records) => `${amount(records)} records`],
  ["quiet_seconds", "unchanged", duration],
];

export function sparkline(trend, trends) {
  const found = MEASURES.find(([measure]) => trend && trend[measure] !== null);
  if (!found) return null;
  const [measure, what, said] = found;
  const marks = trends.minutes.map((at, n) => [seconds(at), trend[measure][n]]);
  const known = marks.filter(([, value]) => value !== null).map(([, value]) => value);
  const least = said(Math.min(...known));
  const most = said(Math.max(...known));
  const between = least === most ? most : `${least} to ${most}`;
  const label = `${what}: ${between}, ${known.length} of the last 60 minutes known`;
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: `spark ${measure}` });
  const title = drawn("title", {});
  title.textContent = label;
  const axis = drawn("line", { class: "axis", x1: EDGE, x2: WIDTH - EDGE, y1: HEIGHT - 1, y2: HEIGHT - 1 });
  svg.append(title, axis, drawn("path", { class: "line", d: path(marks, trends, Math.max(...known)) }));
  const scale = Math.max(...known) > 0 ? `${what} 0 to ${most}` : `${what} ${most}`;
  return element("div", {}, svg, element("span", { kind: "scale", "aria-hidden": "true" }, scale));
}

function path(marks, trends, most) {
  const span = 60 * trends.every_s;
  const begin = seconds(trends.at) - span;
  const x = (at) => (EDGE + ((at - begin) / span) * (WIDTH - 2 * EDGE)).toFixed(1);
  const y = (value) => (HEIGHT - EDGE - (most > 0 ? value / most : 0) * (HEIGHT - 2 * EDGE)).toFixed(1);
  let d = "";
  let before = null;
  for (const [at, value] of marks) {
    const joined = before !== null && at - before < 2 * trends.every_s;
    if (value === null) {
      before = null;
      continue;
    }
    // A point alone is a line of no length, which a round cap makes visible.
    d += joined ? `L${x(at)} ${y(value)}` : `M${x(at)} ${y(value)}h0`;
    before = at;
  }
  return d;
}

function drawn(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
