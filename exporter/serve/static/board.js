// A table of many rows: sorted, filtered, opened one at a time, and made only as far as somebody
// looks. Rows are kept between updates, so that focus and selection stay where they are.

import { element, write } from "./dom.js";
import { counted } from "./words.js";

const AT_ONCE = 60; // rows made before anybody scrolls, and with each scroll to the end

export class Board {
  // columns: [{id, name, fill(cell, row), order(row): number | string | null}]; the one with
  // `opens` has the row's button. detail(row) gives what an opened row holds.
  constructor(root, { what, columns, keyOf, textOf, detail }) {
    Object.assign(this, { root, what, columns, keyOf, textOf, detail });
    this.rows = [];
    this.made = new Map();
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
    new IntersectionObserver((seen) => seen.some((at) => at.isIntersecting) && this.#more(), { rootMargin: "400px" }).observe(this.end);
    root.replaceChildren(this.said, this.table, this.end);
  }

  update(rows, { ready }) {
    this.rows = rows;
    this.ready = ready;
    this.render();
  }

  filter(wanted) {
    this.wanted = wanted;
    this.most = AT_ONCE;
    this.render();
  }

  render() {
    const found = this.rows.filter(this.wanted);
    this.found = this.#sorted(found);
    const shown = this.found.slice(0, this.most);
    const keys = new Set(shown.map(this.keyOf));
    const focused = document.activeElement;
    if (this.open !== null && !keys.has(this.open)) this.#close();
    for (const [key, made] of this.made) {
      if (!keys.has(key)) {
        made.line.remove();
        this.made.delete(key);
      }
    }
    let after = this.body.firstChild;
    for (const row of shown) {
      const made = this.#line(row);
      for (const part of made.detail ? [made.line, made.detail] : [made.line]) {
        if (part === after) after = after.nextSibling;
        else this.body.insertBefore(part, after);
      }
    }
    if (focused?.isConnected && focused !== document.activeElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
    if (!this.made.has(this.current)) this.#point(shown.length ? this.keyOf(shown[0]) : null);
    this.table.hidden = this.rows.length === 0;
    write(this.said, this.#sentence(found.length));
  }

  // The first row, for whoever comes from the search.
  enter() {
    this.made.get(this.keyOf(this.found?.[0] ?? {}))?.button.focus();
  }

  get opened() {
    return this.open;
  }

  #sentence(found) {
    if (this.rows.length === 0) return this.ready ? `There are no ${this.what[1]}.` : "Not known yet.";
    const all = counted(this.rows.length, ...this.what);
    const so = this.ready ? "" : " known so far";
    return found === this.rows.length ? `${all}${so}` : `${found.toLocaleString("en")} of ${all}${so}`;
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

  #line(row) {
    const key = this.keyOf(row);
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
    if (!this.found || this.most >= this.found.length) return false;
    this.most += AT_ONCE;
    this.render();
    return true;
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
    const line = event.target.closest("tr[data-key]");
    if (!line || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = line.dataset.key;
    const at = this.found.findIndex((row) => this.keyOf(row) === key);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.most - 1 }[event.key];
    if (to !== undefined) {
      if (to >= this.most) this.#more();
      const there = Math.max(0, Math.min(to, Math.min(this.most, this.found.length) - 1));
      this.made.get(this.keyOf(this.found[there]))?.button.focus();
    } else if ((event.key === "ArrowRight" && this.open !== key) || (event.key === "ArrowLeft" && this.open === key)) {
      this.#toggle(key);
    } else {
      return;
    }
    event.preventDefault();
  }
}

function compared(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
