// A grid of any number of rows, of which only those on screen are in the page.
//
// Browsers cannot lay out more than some millions of pixels; 50,000 rows of 28 are within that.

import { h, replace } from "../dom.js";

const MARGIN = 8;

// {label, rowHeight, count(), draw(index) → {cells, class}, selected(), select(index), open(index)} →
// {element, head(cells, template), update(), focus(), end()}
export function virtualRows({ label, rowHeight, count, draw, selected, select, open }) {
  const header = h("div", { class: "row head", role: "row" });
  const body = h("div", { class: "rows", role: "rowgroup" });
  const element = h("div", {
    class: "grid", role: "grid", "aria-label": label, tabindex: "0", "aria-readonly": "true",
    onscroll: () => schedule(),
    onkeydown: (event) => keys(event),
    onclick: (event) => {
      const row = event.target.closest("[data-index]");
      if (!row) return;
      select(Number(row.dataset.index));
      // A click opens; the name is what people aim at.
      if (event.target.classList.contains("name")) open(Number(row.dataset.index));
    },
    ondblclick: (event) => {
      const row = event.target.closest("[data-index]");
      if (row) open(Number(row.dataset.index));
    },
  }, header, body);
  // The rows in the page, by their index.
  const placed = new Map();
  let template = "1fr";
  let scheduled = false;

  function schedule() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; update(); });
  }

  function update() {
    const rows = count();
    body.style.setProperty("height", `${rows * rowHeight}px`);
    element.setAttribute("aria-rowcount", String(rows + 1));
    const first = Math.max(0, Math.floor(element.scrollTop / rowHeight) - MARGIN);
    const last = Math.min(rows, Math.ceil((element.scrollTop + element.clientHeight) / rowHeight) + MARGIN);
    const chosen = selected();
    for (const [index, { node }] of placed) {
      if (index >= first && index < last) continue;
      node.remove();
      placed.delete(index);
    }
    for (let index = first; index < last; index += 1) place(index, chosen);
    if (rows) element.setAttribute("aria-activedescendant", `row-${chosen}`);
    else element.removeAttribute("aria-activedescendant");
  }

  // A row that is as it was stays the node it was: one that is replaced between the press and the release of a button
  // is not clicked.
  function place(index, chosen) {
    const { cells, class: extra } = draw(index);
    const signature = [template, extra, index === chosen, ...cells.map((cell) => `${cell.className}\0${cell.textContent}`)].join("\0");
    const before = placed.get(index);
    if (before?.signature === signature) return;
    const node = h("div", {
      class: `row ${extra}${index === chosen ? " selected" : ""}`, role: "row", id: `row-${index}`, "aria-rowindex": String(index + 2),
      "aria-selected": String(index === chosen), dataset: { index: String(index) },
      style: { transform: `translateY(${index * rowHeight}px)`, "grid-template-columns": template },
    }, cells);
    if (before) before.node.replaceWith(node);
    else body.append(node);
    placed.set(index, { node, signature });
  }

  function reveal(index) {
    const top = index * rowHeight;
    const room = element.clientHeight - header.offsetHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + room) element.scrollTop = top + rowHeight - room;
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(element.clientHeight / rowHeight) - 2);
    const moves = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === "Enter") {
      event.preventDefault();
      open(selected());
    } else if (event.key in moves) {
      event.preventDefault();
      event.stopPropagation();
      const index = Math.max(0, Math.min(count() - 1, selected() + moves[event.key]));
      reveal(index);
      select(index);
    }
  }

  const resized = new ResizeObserver(schedule);
  resized.observe(element);

  return {
    element,
    head(cells, columns) {
      template = columns;
      header.style.setProperty("grid-template-columns", columns);
      replace(header, cells);
    },
    update,
    focus: () => element.focus({ preventScroll: true }),
    end: () => resized.disconnect(),
  };
}
