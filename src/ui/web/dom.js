/* dom.js - elements from code. Text is only ever set as text, so nothing that a box, a caller or a file is called can become
 * a part of the page. */

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/* Without touching what is as it should be: the focus and what a person has selected stay. */
export function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function setClass(node, name, is) {
  if (node.classList.contains(name) !== Boolean(is)) node.classList.toggle(name, Boolean(is));
}

/* A table of `columns` ({title, right, hidden}), whose rows are kept by key: show() changes only what has changed. */
export class Table {
  constructor(caption, columns, { empty = "Nothing." } = {}) {
    this.columns = columns;
    this.rows = new Map();
    this.body = el("tbody");
    const heads = columns.map((c) => el("th", { scope: "col", class: c.class }, c.title));
    this.empty = el("p", { class: "faint pad", hidden: true }, empty);
    this.table = el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.node = el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, this.table, this.empty);
  }

  /* `items` in their order; key(item) is a text; fill(item, cells, row) sets the cells; make(item) gives nodes that a new
   * row has in its last cell. */
  show(items, { key, fill, make = () => [] }) {
    const before = this.rows;
    this.rows = new Map();
    items.forEach((item, at) => {
      const id = key(item);
      const row = before.get(id) ?? this.newRow(make(item));
      before.delete(id);
      this.rows.set(id, row);
      if (this.body.children[at] !== row) this.body.insertBefore(row, this.body.children[at] ?? null);
      fill(item, row.children, row);
    });
    for (const row of before.values()) row.remove();
    this.empty.hidden = items.length > 0;
    this.table.hidden = items.length === 0;
  }

  newRow(last) {
    const cells = this.columns.map((c, i) => (i === 0 ? el("th", { scope: "row", class: c.class }) : el("td", { class: c.class })));
    cells[cells.length - 1].append(...last);
    return el("tr", {}, ...cells);
  }
}

/* The head of a part of the page. */
export function section(title, ...children) {
  const id = `h-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return el("section", { class: "card", "aria-labelledby": id }, el("h2", { id }, title), ...children);
}
