// The band on top: how many findings there are, and how many connectors are well or cannot be seen.

import { element } from "./dom.js";
import { amount, counted } from "./words.js";

const WELL = new Set(["ok", "idle"]);
const UNSEEN = new Set([null, "unknown"]);

export function band(root, overview) {
  const { findings, findings_left_out: leftOut, connectors } = overview;
  const severe = (severity) => findings.filter((finding) => finding.severity === severity).length;
  const unseen = connectors.filter((row) => row.worst_state === null || (row.worst_state === "running" && UNSEEN.has(row.verdict))).length;
  const well = connectors.filter((row) => row.worst_state === "running" && WELL.has(row.verdict)).length;
  const critical = severe("critical");
  const warning = severe("warning");
  const parts = [
    ["critical", critical, `${amount(critical)} critical`],
    ["warning", warning, counted(warning, "warning", "warnings")],
    ["ok", well, `${amount(well)} ok`],
    ["unavailable", unseen, `${amount(unseen)} cannot be seen`],
  ];
  if (leftOut) parts.push(["warning", leftOut, counted(leftOut, "more finding", "more findings")]);
  if (overview.inputs_down.length) parts.push(["warning", 1, `${counted(overview.inputs_down.length, "input", "inputs")} down`]);
  if (!overview.ready) parts.push(["unavailable", 1, "not everything has been read yet"]);
  const text = JSON.stringify(parts);
  if (root.dataset.seen === text) return;
  root.dataset.seen = text;
  root.replaceChildren(...parts.map(([kind, count, words]) => element("li", { kind: count ? kind : "none" }, words)));
}
