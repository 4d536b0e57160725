// Objects: the tree of kinds, and a table of one kind as the server itself draws it, kept current by a watch.
//
// Rows are Table rows with metadata only. Only those on screen are in the page; pages of the list are fetched one after
// the other, and what changes later comes by one watch from where the list was taken.

import { h, replace } from "../dom.js";
import * as format from "../format.js";
import { apiPath, hash, objectHash, objectsHash } from "../routes.js";
import { strings } from "../strings.js";
import { complete } from "../lib/completion.js";
import { virtualRows } from "../lib/rows.js";
import { openCreate } from "../create.js";

const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
const PAGE = 1000;
const ROW_HEIGHT = 28;
const MARKED_FOR = 3_000;

const words = strings.objects;

export function title({ parts }) {
  return parts[1] ?? strings.app.views.objects;
}

export async function show(root, params, context) {
  const ended = new AbortController();
  const tree = drawTree(params, context, ended.signal);
  const content = h("section", { class: "content", "aria-label": words.table });
  replace(root, tree, content);
  const resource = params.parts.length >= 2 && context.discovery.find(params.group, params.version, params.parts[1]);
  if (params.parts.length >= 2 && !resource) {
    replace(content, h("div", { class: "problem", role: "alert" }, h("h1", {}, words.notServed(params.parts[1])), h("p", { class: "quiet" }, words.notServedHint)));
    // It may be defined in a moment.
    const stop = context.discovery.onChange(() => {
      if (context.discovery.find(params.group, params.version, params.parts[1])) show(root, params, context);
    });
    ended.signal.addEventListener("abort", stop);
  } else if (resource) {
    await drawTable(content, resource, params, context, ended.signal);
  } else {
    replace(content, h("div", { class: "empty" }, h("h1", {}, words.choose), h("p", {}, words.chooseHint)));
  }
  return () => ended.abort();
}

// ---- the tree -------------------------------------------------------------------------------------------------------

function drawTree(params, context, signal) {
  const filter = h("input", { type: "search", placeholder: words.filterKinds, "aria-label": words.filterKinds, spellcheck: "false", autocomplete: "off" });
  const list = h("div", { class: "groups" });
  const tree = h("nav", { class: "tree", "aria-label": words.kinds },
    h("details", { open: matchMedia("(min-width: 800px)").matches }, h("summary", {}, words.kinds), filter, list));
  let known;
  const draw = () => {
    const wanted = filter.value.trim().toLowerCase();
    const shown = context.discovery.resources.filter((one) => one.verbs.includes("list") && (one.preferred || isCurrent(one, params)))
      .filter((one) => !wanted || `${one.kind} ${one.resource} ${one.shortNames.join(" ")} ${one.group}`.toLowerCase().includes(wanted));
    const groups = Map.groupBy ? Map.groupBy(shown, (one) => one.group) : grouped(shown);
    const now = new Set(context.discovery.resources.map((one) => `${one.group}/${one.resource}`));
    const item = (one) => h("li", {}, h("a", {
      href: objectsHash(one, { namespace: one.namespaced ? context.namespace.value : "" }),
      "aria-current": isCurrent(one, params) ? "page" : null,
      class: known && !known.has(`${one.group}/${one.resource}`) ? "new" : null,
      title: `${one.resource}${one.group ? `.${one.group}` : ""}/${one.version}${one.shortNames.length ? ` (${one.shortNames.join(", ")})` : ""}`,
    }, one.kind));
    replace(list, [...groups].sort(byGroup).map(([group, items]) => h("section", {},
      h("h2", {}, group || words.core), h("ul", {}, items.sort((a, b) => a.kind.localeCompare(b.kind)).map(item)))));
    known = now;
    list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  };
  filter.addEventListener("input", draw);
  const stop = context.discovery.onChange(draw);
  signal.addEventListener("abort", stop);
  draw();
  return tree;
}

function isCurrent(one, params) {
  return one.group === params.group && one.version === params.version && one.resource === params.parts[1];
}

// What most people look for first; the rest by name.
function byGroup([a], [b]) {
  const first = ["", "apps", "batch", "networking.k8s.io"];
  const place = (group) => (first.includes(group) ? first.indexOf(group) : first.length);
  return place(a) - place(b) || a.localeCompare(b);
}

function grouped(items) {
  const groups = new Map();
  for (const item of items) groups.set(item.group, [...(groups.get(item.group) ?? []), item]);
  return groups;
}

// ---- the table ------------------------------------------------------------------------------------------------------

async function drawTable(content, resource, params, context, signal) {
  const { query } = params;
  const namespace = resource.namespaced ? query.namespace ?? "" : "";
  if (resource.namespaced) context.namespace.set(namespace);
  const state = {
    columns: [], rows: [], byUid: new Map(), shown: [], filter: query.filter ?? "", sort: query.sort ?? "", selected: 0, selectedUid: null,
    loaded: 0, remaining: 0, complete: false, version: null, wide: query.wide === "1",
  };
  const go = (changes) => context.navigate(objectsHash(resource, { ...query, ...changes }));
  const status = h("span", { class: "count", role: "status" }, strings.app.loading);
  const grid = virtualRows({
    label: words.objectsOf(resource.kind), rowHeight: ROW_HEIGHT,
    draw: (index) => drawRow(state, index, resource, namespace),
    count: () => state.shown.length,
    selected: () => state.selected,
    select: (index) => select(index),
    open: (index) => openRow(index),
  });
  const problem = h("div", { class: "notice", role: "alert", hidden: true });
  replace(content, toolbar(), problem, grid.element, h("footer", { class: "status" }, status));

  function toolbar() {
    const filter = h("input", {
      type: "search", class: "filter", dataset: { key: "/" }, placeholder: words.filter, "aria-label": words.filterLabel, value: state.filter,
      spellcheck: "false", autocomplete: "off",
      oninput: () => { state.filter = filter.value; arrange(); },
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== "Escape" && event.key !== "ArrowDown") return;
        if (event.key === "Escape") { filter.value = ""; state.filter = ""; arrange(); }
        event.preventDefault();
        grid.focus();
      },
    });
    const selectors = h("input", {
      type: "text", class: "selectors", dataset: { key: "l" }, placeholder: words.selectors, "aria-label": words.selectorsLabel, spellcheck: "false", autocomplete: "off",
      value: selectorText(query),
      onkeydown: (event) => {
        if (event.key === "Escape") grid.focus();
        if (event.key === "Enter" && !event.defaultPrevented) go({ ...splitSelectors(selectors.value), filter: state.filter });
      },
    });
    complete(selectors, (text) => suggestions(text, state));
    return h("div", { class: "toolbar" },
      h("h1", {}, resource.kind, h("span", { class: "quiet" }, ` ${resource.group || "core"}/${resource.version}`)),
      resource.namespaced && namespaceChooser(),
      filter, selectors,
      h("a", { class: "button", href: hash(["schemas", `${resource.group || "core"}~${resource.version}`, resource.kind]) }, words.schema),
      !context.readOnly && resource.verbs.includes("create") && h("button", { onclick: () => openCreate(resource, namespace, context) }, words.create),
      !context.readOnly && resource.verbs.includes("delete") && h("button", { class: "danger", dataset: { act: "delete" }, onclick: () => remove() }, words.remove));
  }

  function namespaceChooser() {
    const chooser = h("select", { dataset: { key: "n" }, "aria-label": strings.app.namespace, onchange: () => go({ namespace: chooser.value }) },
      h("option", { value: "" }, strings.app.allNamespaces),
      namespace && h("option", { value: namespace }, namespace));
    chooser.value = namespace;
    context.namespace.list(signal).then((names) => {
      replace(chooser, h("option", { value: "" }, strings.app.allNamespaces), names.map((name) => h("option", { value: name }, name)));
      if (namespace && !names.includes(namespace)) chooser.append(h("option", { value: namespace }, namespace));
      chooser.value = namespace;
    }).catch(() => {});
    return chooser;
  }

  function select(index) {
    state.selected = Math.max(0, Math.min(state.shown.length - 1, index));
    state.selectedUid = state.shown[state.selected]?.uid ?? null;
    grid.update();
  }

  function openRow(index) {
    const row = state.shown[index];
    if (row) context.navigate(objectHash(resource, row.namespace, row.name));
  }

  async function remove() {
    const row = state.shown[state.selected];
    if (!row || !await confirmed(words.removeOne(resource.kind, row.namespace ? `${row.namespace}/${row.name}` : row.name))) return;
    try {
      // Of this very object, not of one that has its name by then.
      const body = JSON.stringify({ kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid: row.uid } });
      await context.api.getJSON(apiPath(resource, { namespace: row.namespace, name: row.name }), { method: "DELETE", body, headers: { "Content-Type": "application/json" } });
      context.announce(words.removed(row.name));
    } catch (error) {
      context.tell(error.message, "bad");
    }
    grid.focus();
  }

  // What is shown of what is known.
  function arrange() {
    const parts = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    state.shown = parts.length ? state.rows.filter((row) => parts.every((part) => row.text.includes(part))) : state.rows.slice();
    if (state.sort) {
      const name = state.sort.replace(/^-/, "");
      const at = state.columns.findIndex((column) => column.name === name);
      const sign = state.sort.startsWith("-") ? -1 : 1;
      if (at >= 0) state.shown.sort((a, b) => sign * compare(a, b, at, state.columns[at]));
    }
    const found = state.selectedUid ? state.shown.findIndex((row) => row.uid === state.selectedUid) : -1;
    state.selected = found >= 0 ? found : Math.min(state.selected, Math.max(0, state.shown.length - 1));
    tellCount();
    grid.update();
  }

  let arranging = false;
  function arrangeSoon() {
    if (arranging) return;
    arranging = true;
    requestAnimationFrame(() => { arranging = false; if (!signal.aborted) arrange(); });
  }

  function tellCount() {
    const { shown, rows, remaining } = state;
    replace(status, state.complete
      ? (shown.length === rows.length ? words.count(format.count(rows.length)) : words.countOf(format.count(shown.length), format.count(rows.length)))
      : words.loadingCount(format.count(rows.length), format.count(rows.length + remaining)));
  }

  function drawHead() {
    const heads = visibleColumns(state, resource, namespace).map(({ column, at }) => h("span", {
      role: "columnheader", class: `cell ${columnClass(column)}`, title: column.description ?? "", tabindex: "-1",
      "aria-sort": state.sort === column.name ? "ascending" : state.sort === `-${column.name}` ? "descending" : "none",
      onclick: () => { state.sort = state.sort === column.name ? `-${column.name}` : column.name; state.sortAt = at; drawHead(); arrange(); },
    }, column.name));
    grid.head(heads, template(state, resource, namespace));
  }

  function put(row, mark) {
    const before = state.byUid.get(row.uid);
    if (before) {
      if (mark) {
        row.changed = row.cells.map((cell, at) => (cell !== before.cells[at] && !isAge(state.columns[at]) ? Date.now() : 0));
        if (!row.changed.some(Boolean)) row.changed = null;
      }
      state.rows[before.place] = row;
      row.place = before.place;
    } else {
      row.place = state.rows.length;
      if (mark) row.appeared = Date.now();
      state.rows.push(row);
    }
    state.byUid.set(row.uid, row);
  }

  function take(uid) {
    const row = state.byUid.get(uid);
    if (!row) return;
    state.byUid.delete(uid);
    state.rows.splice(row.place, 1);
    for (let at = row.place; at < state.rows.length; at += 1) state.rows[at].place = at;
  }

  const base = apiPath(resource, { namespace });
  const selection = new URLSearchParams();
  if (query.labelSelector) selection.set("labelSelector", query.labelSelector);
  if (query.fieldSelector) selection.set("fieldSelector", query.fieldSelector);

  // Lists page by page, and shows each when it is there.
  async function list() {
    state.complete = false;
    const fresh = new Map();
    let next = "";
    let version = null;
    do {
      const asked = new URLSearchParams(selection);
      asked.set("limit", PAGE);
      asked.set("includeObject", "Metadata");
      if (next) asked.set("continue", next);
      const table = await context.api.getJSON(`${base}?${asked}`, { headers: { Accept: TABLE }, signal });
      if (table.columnDefinitions?.length || !state.columns.length) {
        state.columns = table.columnDefinitions ?? [];
        drawHead();
      }
      version = table.metadata?.resourceVersion ?? version;
      for (const row of table.rows ?? []) {
        const made = makeRow(row);
        fresh.set(made.uid, true);
        put(made, false);
      }
      next = table.metadata?.continue ?? "";
      state.remaining = table.metadata?.remainingItemCount ?? 0;
      arrange();
    } while (next && !signal.aborted);
    // What is no more, when this is not the first list.
    for (const uid of [...state.byUid.keys()]) if (!fresh.has(uid)) take(uid);
    state.complete = true;
    state.remaining = 0;
    arrange();
    return version;
  }

  try {
    const version = await list();
    if (resource.verbs.includes("watch")) follow(version);
  } catch (error) {
    if (signal.aborted) return;
    problem.hidden = false;
    replace(problem, error.status === 403 ? h("p", {}, words.forbidden) : null, h("p", { class: error.status === 403 ? "quiet" : "" }, error.message));
    replace(status, "");
  }

  function follow(version) {
    const asked = new URLSearchParams(selection);
    asked.set("includeObject", "Metadata");
    context.api.watch(`${base}?${asked}`, (event) => {
      if (event.type === "BOOKMARK") return;
      for (const row of event.object.rows ?? []) {
        if (event.type === "DELETED") take(row.object.metadata.uid);
        else put(makeRow(row), true);
      }
      arrangeSoon();
    }, { signal, accept: TABLE, resourceVersion: version, relist: list }).catch((error) => {
      if (!signal.aborted) context.tell(error.message, "bad");
    });
  }

  // Marks fade, and ages go on.
  const timer = setInterval(() => grid.update(), 1_000);
  signal.addEventListener("abort", () => { clearInterval(timer); grid.end(); });
  grid.focus();
}

function makeRow(row) {
  const { metadata } = row.object;
  const cells = row.cells.map((cell) => (cell === null || cell === undefined ? "" : Array.isArray(cell) ? cell.join(",") : cell));
  return {
    uid: metadata.uid ?? `${metadata.namespace}/${metadata.name}`, name: metadata.name, namespace: metadata.namespace ?? "", labels: metadata.labels ?? {},
    created: metadata.creationTimestamp, deleting: Boolean(metadata.deletionTimestamp), cells,
    text: `${metadata.namespace ?? ""} ${cells.join(" ")}`.toLowerCase(), changed: null, appeared: 0, place: 0,
  };
}

// Columns of priority 0, as kubectl shows without -o wide; the namespace before them where there are several.
function visibleColumns(state, resource, namespace) {
  const own = state.columns.map((column, at) => ({ column, at })).filter(({ column }) => !column.priority);
  if (!resource.namespaced || namespace) return own;
  return [{ column: { name: words.namespaceColumn, type: "string" }, at: -1 }, ...own];
}

function template(state, resource, namespace) {
  return visibleColumns(state, resource, namespace).map(({ column, at }) => {
    if (at === -1) return "minmax(6rem, 12rem)";
    if (column.format === "name" || column.name === "Name") return "minmax(12rem, 3fr)";
    if (column.type === "integer" || isAge(column)) return "minmax(4rem, 6rem)";
    return "minmax(5rem, 1.5fr)";
  }).join(" ");
}

function drawRow(state, index, resource, namespace) {
  const row = state.shown[index];
  const now = Date.now();
  const cells = visibleColumns(state, resource, namespace).map(({ column, at }) => {
    const value = at === -1 ? row.namespace : isAge(column) && row.created ? format.age(row.created, now) : String(row.cells[at] ?? "");
    const changed = at >= 0 && row.changed?.[at] && now - row.changed[at] < MARKED_FOR;
    return h("span", { role: "gridcell", class: `cell ${columnClass(column)}${changed ? " changed" : ""}${tone(column, value)}`, title: value.length > 24 ? value : null }, value);
  });
  const fresh = row.appeared && now - row.appeared < MARKED_FOR;
  return { cells, key: row.uid, class: `${fresh ? "appeared" : ""}${row.deleting ? " deleting" : ""}` };
}

function isAge(column) {
  return column && (column.name === "Age" || (column.type === "date" && column.name === "Created At"));
}

function columnClass(column) {
  return column.type === "integer" || column.type === "number" ? "number" : column.name === "Name" ? "name" : "";
}

// States that people look for.
function tone(column, value) {
  if (column.name !== "Status" && column.name !== "Phase" && column.name !== "Reason" && column.name !== "Type") return "";
  if (/^(Failed|Error|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|OOMKilled|Evicted|NotReady|Warning|Lost)/.test(value)) return " bad";
  if (/^(Pending|Terminating|ContainerCreating|Unknown|Init)/.test(value)) return " wait";
  if (/^(Running|Active|Ready|Bound|Complete|Succeeded|Completed)/.test(value)) return " good";
  return "";
}

function compare(a, b, at, column) {
  if (at === -1) return a.namespace.localeCompare(b.namespace);
  if (isAge(column)) return new Date(b.created) - new Date(a.created);
  const [x, y] = [a.cells[at], b.cells[at]];
  if (typeof x === "number" && typeof y === "number") return x - y;
  return String(x).localeCompare(String(y), "en", { numeric: true });
}

// ---- selectors ------------------------------------------------------------------------------------------------------

// One field for both: what begins with "field:" is a field selector.
export function splitSelectors(text) {
  const fields = [];
  const labels = [];
  for (const part of outside(text)) {
    const found = /^field:\s*(.*)$/s.exec(part);
    if (found) fields.push(found[1]);
    else if (part) labels.push(part);
  }
  return { labelSelector: labels.join(","), fieldSelector: fields.join(",") };
}

export function selectorText({ labelSelector, fieldSelector }) {
  const fields = fieldSelector ? outside(fieldSelector).map((part) => `field:${part}`) : [];
  return [labelSelector, ...fields].filter(Boolean).join(", ");
}

// Parts between commas, but not those in "x in (a, b)".
function outside(text) {
  return text.split(/,(?![^(]*\))/).map((part) => part.trim()).filter(Boolean);
}

// What may follow: keys of labels that were seen, then their values; fields that all kinds have.
export function suggestions(text, state) {
  const parts = text.split(/,(?![^(]*\))/);
  const last = parts.at(-1).trimStart();
  const before = text.slice(0, text.length - last.length);
  if (last.startsWith("field:")) {
    const wanted = last.slice(6);
    return ["metadata.name=", "metadata.namespace=", "status.phase=", "spec.nodeName=", "involvedObject.name=", "type="]
      .filter((field) => field.startsWith(wanted)).map((field) => `${before}field:${field}`);
  }
  const [key, value] = last.split(/=(.*)/s);
  const seen = new Map();
  for (const row of state.rows.slice(0, 20_000)) {
    for (const [name, text] of Object.entries(row.labels)) {
      if (value !== undefined && name !== key) continue;
      const found = value === undefined ? `${name}=` : `${name}=${text}`;
      seen.set(found, (seen.get(found) ?? 0) + 1);
    }
  }
  const all = [...seen].filter(([found]) => found.startsWith(last) && found !== last).sort(([a, x], [b, y]) => y - x || a.localeCompare(b));
  const fields = value === undefined && "field:".startsWith(last) ? [`${before}field:`] : [];
  return [...all.map(([found]) => before + found), ...fields].slice(0, 12);
}

// ---- asking ---------------------------------------------------------------------------------------------------------

function confirmed(question) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { class: "confirm", "aria-label": question, onclose: () => { resolve(dialog.returnValue === "yes"); dialog.remove(); } },
      h("p", {}, question),
      h("form", { method: "dialog", class: "buttons" }, h("button", { value: "no" }, words.keep), h("button", { value: "yes", class: "danger" }, words.remove)));
    document.body.append(dialog);
    dialog.showModal();
  });
}
