// Elements, made of text alone: nothing that was sent is ever parsed as HTML.

import { measured } from "./words.js";

export function element(tag, { kind, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Leaves the page alone where nothing has changed: a selection and the focus stay.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function list(evidence) {
  const made = element("dl", { kind: "evidence" });
  for (const item of evidence) {
    made.append(element("div", {}, element("dt", {}, item.name), element("dd", {}, measured(item))));
  }
  return made;
}

// A table for reading: no sorting, no opening. It scrolls by itself where it is too wide.
export function plainTable(caption, headings, rows) {
  const head = element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)));
  const body = element("tbody");
  for (const row of rows) body.append(element("tr", {}, ...row.map((text) => element("td", {}, text))));
  const table = element("table", { kind: "plain" }, element("caption", {}, caption), element("thead", {}, head), body);
  return element("div", { kind: "wide", tabindex: "0", role: "region", "aria-label": caption }, table);
}
