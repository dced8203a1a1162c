// A table of many rows in groups: sorted, filtered, opened one at a time, and made only as far as it
// is scrolled. Of a group only rows that need attention are shown until the others are unfolded. Rows
// are kept between updates, so that focus and selection stay where they are.

import { needsAttention, tally } from "./condition.js";
import { element, write } from "./dom.js";
import { amount, counted } from "./words.js";

const AT_ONCE = 60; // lines made at first, and with each scroll to the end
const WHOLE_MAX = 20; // a table of so few rows folds none of them
const GROUP_MAX = 20; // rows of a group that are shown before the others are unfolded

export class Board {
  // columns: [{id, name, fill(cell, row), order(row): number | string | null}]; the one with
  // `opens` has the row's button. groupOf(row) is the name of its group, and detail(row) gives what
  // an opened row holds.
  constructor(root, { what, columns, keyOf, groupOf, textOf, detail }) {
    Object.assign(this, { root, what, columns, keyOf, groupOf, textOf, detail });
    this.rows = [];
    this.found = [];
    this.lines = [];
    this.made = new Map();
    this.filtered = false;
    this.unfolded = new Set();
    this.most = AT_ONCE;
    this.sort = { id: columns[0].id, down: false };
    this.wanted = () => true;
    this.open = null;
    this.current = null;
    this.said = element("p", { kind: "faint" });
    this.body = element("tbody", { role: "rowgroup" });
    this.end = element("div", { kind: "end" });
    this.heads = columns.map((column) => this.#head(column));
    const head = element("tr", { role: "row" }, ...this.heads);
    this.table = element("table", { kind: "board", role: "table", "aria-label": what[1] }, element("thead", { role: "rowgroup" }, head), this.body);
    this.body.addEventListener("keydown", (event) => this.#key(event));
    this.body.addEventListener("focusin", (event) => this.#focused(event));
    this.observer = new IntersectionObserver((seen) => seen.some((at) => at.isIntersecting) && this.#more(), { rootMargin: "400px" });
    root.replaceChildren(this.said, this.table, this.end);
  }

  update(rows, { ready }) {
    this.rows = rows;
    this.ready = ready;
    this.render();
  }

  filter(wanted, filtered) {
    this.wanted = wanted;
    this.filtered = filtered;
    this.most = AT_ONCE;
    this.render();
  }

  render() {
    const focused = document.activeElement;
    this.found = this.#sorted(this.rows.filter(this.wanted));
    this.lines = this.#grouped(this.found, focused?.closest?.("tr")?.dataset.key);
    const shown = this.lines.slice(0, this.most);
    const keys = new Set(shown.map(({ key }) => key));
    if (this.open !== null && !keys.has(this.open)) this.#close();
    for (const [key, made] of this.made) {
      if (!keys.has(key)) {
        made.line.remove();
        this.made.delete(key);
      }
    }
    let after = this.body.firstChild;
    for (const line of shown) {
      const made = line.row ? this.#line(line) : line.fold ? this.#fold(line) : this.#group(line);
      for (const part of made.detail ? [made.line, made.detail] : [made.line]) {
        if (part === after) after = after.nextSibling;
        else this.body.insertBefore(part, after);
      }
    }
    if (focused?.isConnected && focused !== document.activeElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
    if (!this.made.has(this.current)) this.#point(shown.find(({ row }) => row)?.key ?? null);
    this.table.hidden = this.rows.length === 0;
    write(this.said, this.#sentence(this.found.length));
    // The observer reports changes only: asked again, it reports an end that stayed in view.
    this.observer.unobserve(this.end);
    if (this.most < this.lines.length) this.observer.observe(this.end);
  }

  // Focus the first row, from the search.
  enter() {
    this.body.querySelector("tr[data-key] button")?.focus();
  }

  // Lines of the table: of each group a heading, its rows, and a fold of its other rows. Groups come
  // in the order of their first rows. The row that is open or has the focus stays in sight.
  #grouped(rows, focused) {
    const groups = new Map();
    for (const row of rows) {
      const name = this.groupOf(row);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push({ key: this.keyOf(row), row });
    }
    const whole = this.filtered || this.rows.length <= WHOLE_MAX;
    const lines = [];
    for (const [name, members] of groups) {
      lines.push({ key: `group ${name}`, name, members });
      const rest = [];
      let count = 0;
      for (const line of members) {
        if (whole || line.key === this.open || line.key === focused || (count < GROUP_MAX && needsAttention(line.row))) {
          lines.push(line);
          count += 1;
        } else {
          rest.push(line);
        }
      }
      if (!rest.length) continue;
      lines.push({ key: `fold ${name}`, name, fold: true, members: rest });
      if (this.unfolded.has(name)) lines.push(...rest);
    }
    return lines;
  }

  get opened() {
    return this.open;
  }

  #sentence(found) {
    if (this.rows.length === 0) return this.ready ? `There are no ${this.what[1]}.` : "Not known yet.";
    const all = counted(this.rows.length, ...this.what);
    const so = this.ready ? "" : " known so far";
    if (this.filtered) return `${amount(found)} of ${all}${so}`;
    const attention = this.rows.filter(needsAttention).length;
    return `${all}${so}, ${attention ? amount(attention) : "none"} of them ${attention === 1 ? "needs" : attention ? "need" : "needing"} attention`;
  }

  #sorted(rows) {
    const { order } = this.columns.find((column) => column.id === this.sort.id);
    const sign = this.sort.down ? -1 : 1;
    const keyed = rows.map((row) => [order(row), this.keyOf(row), row]);
    keyed.sort(([a, keyA], [b, keyB]) => {
      if (a === null || b === null) return a === b ? compared(keyA, keyB) : a === null ? 1 : -1; // not known comes last
      return sign * compared(a, b) || compared(keyA, keyB);
    });
    return keyed.map(([, , row]) => row);
  }

  #head(column) {
    const head = element("th", { scope: "col", role: "columnheader", kind: column.id });
    if (!column.order) {
      head.append(column.name);
      return head;
    }
    const button = element("button", { type: "button" }, column.name);
    button.addEventListener("click", () => {
      this.sort = { id: column.id, down: this.sort.id === column.id ? !this.sort.down : Boolean(column.down) };
      this.#marks();
      this.render();
    });
    head.append(button);
    if (column.id === this.sort.id) head.setAttribute("aria-sort", "ascending");
    return head;
  }

  #marks() {
    this.columns.forEach((column, n) => {
      if (column.id === this.sort.id) this.heads[n].setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else this.heads[n].removeAttribute("aria-sort");
    });
  }

  #group({ key, name, members }) {
    let made = this.made.get(key);
    if (!made) {
      const head = element("th", { colspan: String(this.columns.length), scope: "colgroup", role: "rowheader" }, element("span", { kind: "title" }), element("span", { kind: "faint" }));
      made = { line: element("tr", { kind: "group", role: "row" }, head), head };
      this.made.set(key, made);
    }
    write(made.head.firstChild, name);
    write(made.head.lastChild, ` ${counted(members.length, ...this.what)}: ${tally(members.map(({ row }) => row))}`);
    return made;
  }

  #fold({ key, name, members }) {
    let made = this.made.get(key);
    if (!made) {
      const button = element("button", { type: "button" });
      button.addEventListener("click", () => this.#unfold(name));
      const cell = element("td", { colspan: String(this.columns.length), role: "cell" }, button);
      made = { line: element("tr", { kind: "fold", role: "row" }, cell), button };
      this.made.set(key, made);
    }
    made.name = name;
    made.button.setAttribute("aria-expanded", String(this.unfolded.has(name)));
    write(made.button, tally(members.map(({ row }) => row)));
    return made;
  }

  #unfold(name) {
    if (!this.unfolded.delete(name)) {
      this.unfolded.add(name);
      const fold = this.lines.findIndex((line) => line.fold && line.name === name);
      this.most = Math.max(this.most, fold + AT_ONCE);
    }
    this.render();
  }

  #line({ key, row }) {
    let made = this.made.get(key);
    if (!made) {
      const line = element("tr", { role: "row" });
      const cells = this.columns.map((column) => {
        const cell = column.opens ? element("th", { scope: "row", role: "rowheader" }) : element("td", { role: "cell" });
        cell.className = column.id;
        cell.dataset.name = column.name;
        line.append(cell);
        return cell;
      });
      const button = element("button", { type: "button", tabindex: "-1", "aria-expanded": "false" });
      button.addEventListener("click", () => this.#toggle(key));
      cells[this.columns.findIndex((column) => column.opens)].append(button);
      made = { line, cells, button, detail: null };
      line.dataset.key = key;
      this.made.set(key, made);
    }
    made.row = row;
    made.line.dataset.verdict = row.verdict ?? "";
    made.line.dataset.state = row.worst_state ?? "";
    this.columns.forEach((column, n) => column.fill(column.opens ? made.button : made.cells[n], row));
    return made;
  }

  #toggle(key) {
    const opening = this.open !== key;
    this.#close();
    const made = this.made.get(key);
    if (!opening || !made) return;
    this.open = key;
    made.button.setAttribute("aria-expanded", "true");
    const cell = element("td", { colspan: String(this.columns.length), role: "cell" });
    made.detail = element("tr", { kind: "detail", role: "row" }, cell);
    made.line.after(made.detail);
    this.fillOpen();
  }

  // Called again with every update: what is opened is as fresh as the rest.
  fillOpen() {
    const made = this.open === null ? null : this.made.get(this.open);
    if (made?.detail) this.detail(made.detail.firstChild, made.row);
  }

  #close() {
    const made = this.open === null ? null : this.made.get(this.open);
    if (made) {
      made.button.setAttribute("aria-expanded", "false");
      made.detail?.remove();
      made.detail = null;
    }
    this.open = null;
  }

  #more() {
    if (this.most >= this.lines.length) return;
    this.most += AT_ONCE;
    this.render();
  }

  // One row at a time is in the order of the Tab key; the arrows go from row to row.
  #point(key) {
    this.made.get(this.current)?.button.setAttribute("tabindex", "-1");
    this.current = key;
    this.made.get(key)?.button.setAttribute("tabindex", "0");
  }

  #focused(event) {
    const line = event.target.closest("tr[data-key]");
    if (line && event.target.closest("button")) this.#point(line.dataset.key);
  }

  #key(event) {
    const stops = () => [...this.body.querySelectorAll("button")];
    const at = stops().indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: stops().length - 1 }[event.key];
    const open = event.target.getAttribute("aria-expanded") === "true";
    if (to !== undefined) {
      if (to >= stops().length) this.#more();
      stops()[Math.max(0, Math.min(to, stops().length - 1))].focus();
    } else if (event.key === (open ? "ArrowLeft" : "ArrowRight")) {
      event.target.click();
    } else {
      return;
    }
    event.preventDefault();
  }
}

function compared(a, b) {
  if (Array.isArray(a)) return a.reduce((found, value, n) => found || compared(value, b[n]), 0);
  return a < b ? -1 : a > b ? 1 : 0;
}
