// Findings, inputs and plans.

import { boardLink } from "./boards.js";
import { element, list, write } from "./dom.js";
import { UNKNOWN, clock, counted, inputName, local, since } from "./words.js";

const CARDS_MAX = 30;
const cards = new Map();
let all = false;
let heard = null; // keys of the findings that were announced; null before the first

export function findings(root, announced, overview) {
  const found = overview.findings;
  const shown = all ? found : found.slice(0, CARDS_MAX);
  const keys = new Set();
  const nodes = shown.map((finding) => {
    const key = keyOf(finding);
    keys.add(key);
    return card(key, finding, overview);
  });
  for (const key of cards.keys()) if (!keys.has(key)) cards.delete(key);
  if (!found.length) nodes.push(element("p", { kind: "faint" }, nothing(overview)));
  if (overview.findings_left_out) nodes.push(element("p", { kind: "faint" }, `${counted(overview.findings_left_out, "more finding is", "more findings are")} not listed, none of them more severe; /metrics counts all.`));
  if (found.length > shown.length) nodes.push(rest(root, announced, overview, found.length));
  if (nodes.length !== root.childNodes.length || nodes.some((node, n) => node !== root.childNodes[n])) root.replaceChildren(...nodes);
  announce(announced, found, overview.findings_left_out);
}

function nothing(overview) {
  if (!overview.ready) return "None known so far: not everything has been read yet.";
  return overview.inputs_down.length ? "None in what can be read. Not everything can." : "The daemon finds nothing wrong.";
}

function keyOf(finding) {
  return JSON.stringify([finding.name, finding.connect_cluster, finding.connector, finding.subject]);
}

function subject({ name, subject: text }) {
  if (name !== "input_down") return text;
  const [kind, ...rest] = text.split(" ");
  return inputName(kind, rest.join(" "));
}

function card(key, finding, { at, boards_url: boards }) {
  const seen = JSON.stringify([finding, boards]);
  let known = cards.get(key);
  if (known?.seen !== seen) {
    const age = element("span");
    const whose = [finding.connect_cluster, finding.connector, subject(finding)].filter(Boolean).join(" / ");
    const node = element(
      "article",
      { kind: `finding ${finding.severity}` },
      element("h3", {}, element("span", { kind: "badge" }, finding.severity), ` ${local(finding.summary)}`),
      list(finding.evidence),
      ...advice(finding, boards),
      element("p", { kind: "faint" }, element("code", {}, finding.name), ` ${whose}, since ${clock(finding.since)} (`, age, ")"),
    );
    if (known?.node.isConnected) known.node.replaceWith(node);
    known = { seen, node, age };
    cards.set(key, known);
  }
  write(known.age, since(finding.since, at));
  return known.node;
}

function advice(finding, boards) {
  const nodes = finding.next ? [element("p", {}, "Next: ", element("code", {}, finding.next))] : [];
  const links = finding.runbook_url ? [element("a", { href: finding.runbook_url, rel: "noreferrer" }, "Runbook")] : [];
  links.push(...boardLink(boards, { connect_cluster: finding.connect_cluster, connector: finding.connector }));
  if (links.length) nodes.push(element("p", { kind: "links" }, ...links));
  return nodes;
}

function rest(root, announced, overview, count) {
  const button = element("button", { type: "button" }, `Show all ${count}`);
  button.addEventListener("click", () => {
    all = true;
    findings(root, announced, overview);
  });
  return button;
}

function announce(announced, found, leftOut) {
  const now = new Map(found.map((finding) => [keyOf(finding), finding]));
  if (heard !== null) {
    const fresh = [...now].filter(([key]) => !heard.has(key)).map(([, finding]) => `${finding.severity}: ${local(finding.summary)}`);
    const over = leftOut ? 0 : [...heard].filter((key) => !now.has(key)).length; // what is not listed may stand
    const said = [...fresh.slice(0, 3)];
    if (fresh.length > 3) said.push(`and ${counted(fresh.length - 3, "more finding", "more findings")}`);
    if (over) said.push(counted(over, "finding is over", "findings are over"));
    if (said.length) write(announced, said.join(". "));
  }
  heard = new Set(now.keys());
}

export function inputs(root, overview) {
  const down = overview.inputs_down;
  const seen = JSON.stringify(down.map((at) => [at.input, at.kind, at.up, at.live, at.last_error]));
  if (root.dataset.seen === seen) return;
  root.dataset.seen = seen;
  if (!down.length) return root.replaceChildren();
  const rows = down.slice(0, CARDS_MAX).map((at) => element("li", {}, element("b", {}, inputName(at.kind, at.input)), ` ${trouble(at)}`));
  const more = down.length > rows.length ? [element("li", {}, `and ${down.length - rows.length} more`)] : [];
  const head = `${down.length} of ${counted(overview.inputs, "input", "inputs")} fail now. Whatever depends on an unavailable input is not shown.`;
  root.replaceChildren(element("p", { kind: "warned" }, head), element("ul", {}, ...rows, ...more));
}

function trouble(at) {
  const last = at.last_success_at === null ? "not read yet" : `last read at ${clock(at.last_success_at)}`;
  return `${at.live ? "its last values still apply" : "unavailable"}, ${last}${at.last_error ? `: ${at.last_error}` : ""}`;
}

export function remedies(root, overview) {
  const seen = overview.remedies && { ...overview.remedies, at: null };
  const text = JSON.stringify(seen) ?? "null";
  if (root.dataset.seen === text) return;
  root.dataset.seen = text;
  if (!seen) {
    root.replaceChildren(element("p", { kind: "faint" }, overview.ready ? "Remediation has reported nothing yet, or does not run here." : "Not known yet."));
    return;
  }
  const nodes = [element("p", { kind: "faint" }, `Mode ${seen.mode}. ${seen.plans.length ? "" : "No plan waits."}`)];
  nodes.push(...seen.plans.map(plan), ...seen.refusals.map(refusal));
  if (seen.untold) nodes.push(element("p", { kind: "faint" }, `${seen.untold} more are not shown: `, element("code", {}, "offsetwatch plan list")));
  const open = new Set([...root.querySelectorAll("details[data-key][open]")].map((node) => node.dataset.key));
  root.replaceChildren(...nodes);
  for (const node of root.querySelectorAll("details[data-key]")) node.open = open.has(node.dataset.key);
}

// One line, and all of it once it is opened; it stays open while the page is renewed.
function folded(kind, key, line, parts) {
  return element("article", { kind }, element("details", { "data-key": key, kind: "plan" }, element("summary", {}, element("h3", {}, ...line)), ...parts));
}

function plan(at) {
  const expires = at.approve && at.expires_at !== null ? `, expires ${clock(at.expires_at)}` : "";
  const ending = ` for ${at.connector}`;
  const verb = at.verb.endsWith(ending) ? at.verb.slice(0, -ending.length) : at.verb;
  const line = [element("span", { kind: "badge" }, at.state), ` ${at.connect_cluster} / ${at.connector}: ${verb}${expires}`];
  const parts = [
    element("p", { kind: "faint" }, `${at.connect_cluster} / ${at.connector}, planned ${clock(at.created_at)} by ${at.created_by}${at.said && at.said !== at.verb ? `. ${at.said}` : ""}`),
  ];
  if (at.approve) {
    const until = at.expires_at === null ? "" : ` until ${clock(at.expires_at)}`;
    parts.push(element("p", {}, `Approve it${until}, on the daemon's host:`));
    parts.push(element("pre", { tabindex: "0", "aria-label": "the command that approves it" }, element("code", {}, at.approve)));
  }
  parts.push(guards(at.guards, true));
  if (at.steps.length) {
    const steps = at.steps.map(({ step, requests }) => element("li", {}, step, ...requests.map((text) => element("pre", { tabindex: "0" }, element("code", {}, text)))));
    parts.push(element("details", {}, element("summary", {}, counted(at.steps.length, "step", "steps")), element("ol", {}, ...steps)));
  }
  return folded(`plan ${at.state}`, at.plan_id, line, parts);
}

function refusal(at) {
  const why = at.would ? "would be done, but the mode is observe" : "is not done";
  const key = JSON.stringify([at.connect_cluster, at.connector, at.action]);
  return folded("plan refused", key, [`${at.connect_cluster} / ${at.connector}: ${at.action} ${why}`], [
    element("p", { kind: "faint" }, `as of ${clock(at.at)}`),
    guards(at.guards, false),
    ...(at.recommend.length ? [element("ul", {}, ...at.recommend.map((text) => element("li", {}, text)))] : []),
  ]);
}

const WORDS = { pass: "passes", deny: "denies", unknown: `${UNKNOWN}, so it denies` };

function guards(found, open) {
  if (!found.length) return element("p", { kind: "faint" }, "No guard was evaluated.");
  const weight = (at) => (at.answer === "pass" ? 2 : at.asks ? 1 : 0);
  const sorted = [...found].sort((a, b) => weight(a) - weight(b) || a.number - b.number);
  const rows = sorted.map((at) => {
    const answer = at.answer !== "pass" && at.asks ? "asks for approval" : (WORDS[at.answer] ?? at.answer);
    const name = `${at.number ? `G${String(at.number).padStart(2, "0")} ` : ""}${at.guard}`;
    return element("li", { kind: `guard ${at.asks ? "asks" : at.answer}` }, element("b", {}, answer), " ", element("code", {}, name), at.said ? ` ${at.said}` : "");
  });
  const against = sorted.filter((at) => weight(at) === 0).length;
  const said = `${counted(found.length, "guard", "guards")}: ${against ? `${against} against it` : "none against it"}`;
  return element("details", { open: open || against > 0 }, element("summary", {}, said), element("ul", { kind: "guards" }, ...rows));
}
