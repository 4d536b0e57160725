// Kustomizations that the command line named: the build with who wrote each field, and two builds beside each other.
// The page names a directory by its number only.

import { h, replace } from "../dom.js";
import { lineDiff, withContext } from "../lib/diff.js";
import { compact } from "../lib/json.js";
import * as overlays from "../lib/overlays.js";
import { hash } from "../routes.js";
import { strings } from "../strings.js";

const text = strings.kustomize;
// Files that have a colour of their own; the others share the last.
const COLOURS = 8;
const CONTEXT_LINES = 5;
const MAX_VALUE = 200;
// More differing lines than this are shown when asked for.
const MAX_LINES = 5_000;

// Builds outlive the view, so that going from object to object builds nothing.
const builds = new Map();

export const title = () => strings.app.views.kustomize;

export async function show(root, params, context) {
  const ended = new AbortController();
  const directories = context.features.kustomize ?? [];
  if (directories.length === 0) {
    replace(root, h("p", { class: "empty" }, text.noDirectories));
    return () => {};
  }
  const number = (value) => (/^\d+$/.test(value ?? "") && Number(value) < directories.length ? Number(value) : null);
  const state = {
    context, directories, signal: ended.signal,
    left: params.query.left === undefined ? 0 : number(params.query.left),
    right: number(params.query.right),
    object: params.query.object ?? "",
    filter: "",
    onlyChanged: true,
    secrets: false,
    colours: new Map(),
  };
  if (state.left === null) {
    replace(root, h("p", { class: "empty", role: "alert" }, text.noSuch(params.query.left)));
    return () => {};
  }
  const parts = frame(root, state);
  load(state, parts).catch((problem) => {
    if (!ended.signal.aborted) replace(parts.body, h("p", { class: "problem", role: "alert" }, problem.message));
  });
  return () => ended.abort();
}

// -- building --

async function load(state, parts, again = false) {
  const wanted = [state.left, state.right].filter((number) => number !== null);
  if (again) for (const number of wanted) builds.delete(number);
  if (wanted.some((number) => !builds.has(number))) {
    replace(parts.said, text.building);
    parts.build.disabled = true;
  }
  try {
    for (const number of new Set(wanted)) {
      if (builds.has(number)) continue;
      const built = await state.context.api.own(`kustomize?directory=${number}`, { signal: state.signal });
      builds.set(number, { ...built, time: Date.now() });
    }
  } finally {
    parts.build.disabled = false;
  }
  if (state.signal.aborted) return;
  draw(state, parts);
}

// -- drawing --

function frame(root, state) {
  const parts = {
    said: h("span", { class: "quiet", role: "status" }),
    build: h("button", { onclick: () => load(state, parts, true).catch((problem) => state.context.tell(problem.message, "warning")) }, text.build),
    body: h("div", { class: "kustomize-body" }),
  };
  const choose = (label, chosen, none, change) => {
    const options = state.directories.map((directory, at) => h("option", { value: String(at), selected: at === chosen }, directory));
    const select = h("select", { "aria-label": label }, none && h("option", { value: "", selected: chosen === null }, none), options);
    select.addEventListener("change", () => change(select.value));
    return h("label", {}, label, " ", select);
  };
  const go = (left, right) => state.context.navigate(hash(["kustomize"], { left, right }));
  const rest = state.right === null ? "" : String(state.right);
  replace(root,
    h("div", { class: "kustomize-head" },
      h("h1", {}, title()),
      choose(text.left, state.left, null, (value) => go(value, rest)),
      state.directories.length > 1 && choose(text.right, state.right, text.nothingBeside, (value) => go(String(state.left), value)),
      h("span", { class: "space" }), parts.said, parts.build),
    parts.body);
  return parts;
}

function draw(state, parts) {
  const left = builds.get(state.left);
  const right = state.right === null ? null : builds.get(state.right);
  replace(parts.said, left.objects ? text.built(new Date(left.time).toLocaleTimeString("en-GB"), left.objects.length) : "");
  const broken = [left, right].filter((build) => build?.problem);
  if (broken.length > 0) {
    replace(parts.body, broken.map(problem));
    return;
  }
  state.colours = colours([left, right].filter(Boolean));
  const entries = right
    ? overlays.pairs(left, right)
    : left.objects.map((object) => ({ name: overlays.nameOf(object), left: object, right: null, state: "" }));
  const list = h("ul", { class: "objects" });
  const main = h("div", { class: "kustomize-main" });
  const filter = h("input", { type: "search", placeholder: text.filter, "aria-label": text.filter, dataset: { key: "/" }, value: state.filter });
  const only = h("input", { type: "checkbox", checked: state.onlyChanged });
  const counts = { changed: 0, left: 0, right: 0, same: 0 };
  for (const entry of entries) if (entry.state) counts[entry.state] += 1;
  const redraw = () => {
    const shown = entries.filter((entry) => entry.name.toLowerCase().includes(state.filter.trim().toLowerCase()) && (!right || !state.onlyChanged || entry.state !== "same"));
    const chosen = shown.find((entry) => entry.name === state.object) ?? shown[0];
    replace(list, shown.map((entry) => item(entry, entry === chosen)), shown.length === 0 && h("li", { class: "empty" }, entries.length === 0 ? text.none : text.noneShown));
    if (chosen) drawObject(state, main, chosen, left, right);
    else replace(main, h("p", { class: "empty" }, right && entries.length > 0 ? text.equal : text.choose));
  };
  const item = (entry, isChosen) => h("li", {}, h("button", {
    class: "plain object", "aria-current": isChosen ? "true" : null, dataset: { object: entry.name, state: entry.state },
    onclick: () => {
      state.object = entry.name;
      const beside = state.right === null ? "" : String(state.right);
      history.replaceState(null, "", hash(["kustomize"], { left: String(state.left), right: beside, object: entry.name }));
      redraw();
      list.querySelector("[aria-current]")?.focus();
    },
  }, h("span", { class: "kind" }, (entry.left ?? entry.right).kind), " ", h("span", { class: "name" }, named(entry)), entry.state && h("span", { class: `state ${entry.state}` }, text.states[entry.state])));
  filter.addEventListener("input", () => { state.filter = filter.value; redraw(); });
  only.addEventListener("change", () => { state.onlyChanged = only.checked; redraw(); });
  list.addEventListener("keydown", (event) => arrows(event, list));
  replace(parts.body,
    [left, right].filter((build) => build && (build.warnings?.length || build.hints?.length)).map(warnings),
    h("div", { class: "kustomize-columns" },
      h("nav", { class: "kustomize-list", "aria-label": text.objects },
        filter,
        right && h("label", { class: "only" }, only, " ", text.onlyChanged),
        right && h("p", { class: "quiet summary" }, text.summary(counts)),
        list,
        legend(state)),
      main));
  redraw();
}

function named({ left, right }) {
  const name = ({ name: own, namespace }) => (namespace ? `${own} · ${namespace}` : own);
  const [a, b] = [left && name(left), right && name(right)];
  return a && b && a !== b ? `${a} → ${b}` : a ?? b;
}

function arrows(event, list) {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!step) return;
  const buttons = [...list.querySelectorAll("button")];
  const next = buttons[buttons.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  event.stopPropagation();
  next.focus();
}

function problem(build) {
  const { message, hint, place } = build.problem.message ? build.problem : { message: String(build.problem) };
  return h("div", { class: "kustomize-problem", role: "alert" },
    h("h2", {}, text.failed(build.directory ?? "")),
    h("pre", {}, message),
    place && h("p", {}, h("code", { class: "place" }, `${place.file}:${place.line}:${place.column}`), place.said && ` ${place.said}`),
    hint && !place && h("p", { class: "quiet" }, hint),
    build.warnings?.length > 0 && warnings(build));
}

function warnings(build) {
  return h("details", { class: "kustomize-warnings", open: true },
    h("summary", {}, `${text.warnings}: ${build.directory}`),
    h("ul", {}, [...build.warnings ?? [], ...build.hints ?? []].map((one) => h("li", {}, one))));
}

// -- colours of files --

function colours(shown) {
  const counts = new Map();
  for (const { file, count } of shown.flatMap((build) => overlays.filesOf(build))) counts.set(file, (counts.get(file) ?? 0) + count);
  const files = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  return new Map(files.map(([file], at) => [file, Math.min(at, COLOURS - 1)]));
}

function legend(state) {
  return h("div", { class: "files" },
    h("h2", {}, text.files),
    h("ul", {}, [...state.colours].map(([file, colour]) => h("li", {}, dot(colour), " ", h("code", {}, file)))));
}

function dot(colour) {
  return h("span", { class: `dot file-${colour ?? "none"}`, "aria-hidden": "true" });
}

// -- one object --

function drawObject(state, main, entry, left, right) {
  const again = () => drawObject(state, main, entry, left, right);
  const holdsSecrets = [entry.left, entry.right].some((object) => object?.kind === "Secret" && object.group === "");
  const heading = h("div", { class: "panel-head" },
    h("h2", {}, h("span", { class: "kind" }, (entry.left ?? entry.right).kind), " ", named(entry)),
    h("span", { class: "space" }),
    holdsSecrets && h("button", { "aria-pressed": String(state.secrets), onclick: () => { state.secrets = !state.secrets; again(); } }, state.secrets ? text.hideSecrets : text.showSecrets),
    !right && h("button", { onclick: () => copy(state, left) }, text.copy));
  if (!right) {
    replace(main, heading, explained(state, entry.left, left));
    return;
  }
  const changes = entry.left && entry.right ? overlays.fieldChanges(entry.left, entry.right) : null;
  replace(main, heading,
    changes && changes.length > 0 && fieldTable(state, entry, changes, left, right),
    changes && changes.length === 0 && h("p", { class: "quiet" }, text.equal),
    entry.left && entry.right
      ? [h("h3", {}, text.sideBySide), sideBySide(state, entry, left, right)]
      : explained(state, entry.left ?? entry.right, entry.left ? left : right));
}

async function copy(state, build) {
  try {
    await navigator.clipboard.writeText(build.objects.map((object) => object.yaml).join("---\n"));
    state.context.tell(text.copied, "good");
  } catch {
    state.context.tell(text.notCopied, "warning");
  }
}

// The YAML with who wrote each field beside it. A line opens the whole chain.
function explained(state, object, build) {
  const lines = visible(state, object);
  if (lines.every((line) => line.pointer === null)) return unexplained(state, object, build);
  const body = h("tbody", {});
  let last = null;
  lines.forEach((line, at) => {
    const [writer] = line.field ? overlays.writersOf(build, line.field) : [];
    const place = writer ? overlays.placeText(writer) : "";
    // A value of many lines is told once.
    const isTold = line.field !== null && line.field !== last;
    last = line.field;
    const row = h("tr", { class: line.field ? "told" : "", dataset: line.field ? { field: line.field.shown } : {} },
      h("td", { class: "line" }, String(at + 1)),
      h("td", { class: "yaml" }, coloured(line)),
      h("td", { class: "origin" }, isTold && writer && h("button", {
        class: "plain", "aria-expanded": "false",
        onclick: (event) => toggle(event.currentTarget, row, line.field, build, state),
      }, dot(state.colours.get(writer.file)), " ", h("code", {}, place), " ", h("span", { class: "quiet" }, overlays.entryText(writer, "short")), line.field.writers.length > 1 && h("span", { class: "more" }, ` +${line.field.writers.length - 1}`))));
    body.append(row);
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text.lines },
    h("table", { class: "explained" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "line" }, h("span", { class: "unseen" }, text.line)), h("th", { scope: "col" }, text.yaml), h("th", { scope: "col" }, text.origin))),
      body));
}

function unexplained(state, object, build) {
  return [
    h("pre", { class: "yaml" }, object.kind === "Secret" && !state.secrets ? text.secret : object.yaml),
    h("p", { class: "quiet" }, text.unexplained),
    h("table", { class: "fields" }, h("tbody", {}, object.fields.map((field) => {
      const [writer] = overlays.writersOf(build, field);
      return h("tr", {}, h("td", {}, h("code", {}, field.shown)), h("td", { class: "origin" }, origin(state, writer)));
    }))),
  ];
}

function toggle(button, row, field, build, state) {
  const next = row.nextElementSibling;
  if (next?.classList.contains("chain")) {
    next.remove();
    button.setAttribute("aria-expanded", "false");
    return;
  }
  button.setAttribute("aria-expanded", "true");
  row.after(h("tr", { class: "chain" }, h("td", {}), h("td", { colspan: "2" },
    h("p", { class: "quiet" }, text.chain(field.shown)),
    h("ol", {}, overlays.writersOf(build, field).map((writer) => h("li", {}, origin(state, writer)))))));
}

function origin(state, writer) {
  if (!writer) return "";
  return h("span", { class: "writer" }, dot(state.colours.get(writer.file)), h("span", {},
    h("code", {}, writer.file ? `${writer.file}:${writer.line}:${writer.column}` : writer.by ?? ""),
    h("span", { class: "quiet" }, ` ${overlays.entryText(writer)}`),
    writer.removed && h("span", { class: "bad" }, ` ${text.removed}`),
    writer.from?.object && h("span", { class: "quiet" }, ` ${text.from(writer.from.object)}`)));
}

// Key and value in their own colours.
function coloured({ text: line, key, value }) {
  if (!key) return h("span", { class: value === undefined ? "" : "scalar" }, line);
  const [from, to] = key;
  return [line.slice(0, from), h("span", { class: "key" }, line.slice(from, to)), value === undefined ? line.slice(to) : [line.slice(to, value), h("span", { class: "scalar" }, line.slice(value))]];
}

// The lines, without the values of secrets unless those were asked for.
function visible(state, object) {
  const lines = overlays.linesOf(object);
  if (state.secrets) return lines;
  let hidden = null;
  return lines.filter((line) => {
    const isSecret = overlays.isSecret(object, line.pointer);
    // Of a value of many lines the first stands for all.
    const isMore = isSecret && hidden === line.pointer;
    hidden = isSecret ? line.pointer : null;
    return !isMore;
  }).map((line) => (overlays.isSecret(object, line.pointer) && line.value !== undefined ? { ...line, text: `${line.text.slice(0, line.value)}${text.secret}` } : line));
}

// -- two objects --

function fieldTable(state, entry, changes, left, right) {
  const cell = (object, value, field, build, tone) => {
    if (value === undefined) return h("td", { class: "quiet" }, text.absent);
    const pointer = field ? overlays.pointerOf(field.path) : null;
    const isHidden = !state.secrets && object.kind === "Secret" && object.group === "" && (pointer === null || overlays.isSecret(object, pointer));
    const shown = isHidden ? text.secret : compact(value, MAX_VALUE);
    const [writer] = field ? overlays.writersOf(build, field) : [];
    return h("td", { class: tone }, h("code", { class: "value" }, shown), h("div", { class: "origin" }, origin(state, writer)));
  };
  return [
    h("h3", {}, text.fields),
    h("div", { class: "scroll" }, h("table", { class: "changes" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text.field), h("th", { scope: "col" }, left.directory), h("th", { scope: "col" }, right.directory))),
      h("tbody", {}, changes.map((change) => h("tr", { dataset: { change: change.path } },
        h("th", { scope: "row" }, h("code", {}, change.path)),
        cell(entry.left, change.before, change.left, left, "removed"),
        cell(entry.right, change.after, change.right, right, "added")))))),
  ];
}

function sideBySide(state, entry, left, right) {
  const [a, b] = [visible(state, entry.left), visible(state, entry.right)];
  const all = lineDiff(a.map((line) => line.text), b.map((line) => line.text));
  const rows = aligned(withContext(all, CONTEXT_LINES)).slice(0, MAX_LINES);
  const side = (lines, at, build, tone) => {
    const line = at === undefined ? null : lines[at];
    const [writer] = line?.field ? overlays.writersOf(build, line.field) : [];
    return [
      h("td", { class: `yaml ${tone}` }, line && coloured(line)),
      h("td", { class: `origin ${tone}`, title: writer ? `${overlays.placeText(writer)} ${overlays.entryText(writer)}` : null }, writer && [dot(state.colours.get(writer.file)), " ", h("code", {}, shortPlace(writer))]),
    ];
  };
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text.sideBySide },
    h("table", { class: "beside" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", colspan: "2" }, left.directory), h("th", { scope: "col", colspan: "2" }, right.directory))),
      h("tbody", {}, rows.map((row) => (row.op === "gap"
        ? h("tr", { class: "gap" }, h("td", { colspan: "4" }, `⋯ ${row.count}`))
        : h("tr", {}, side(a, row.a, left, row.op === "same" ? "" : row.a === undefined ? "void" : "removed"), side(b, row.b, right, row.op === "same" ? "" : row.b === undefined ? "void" : "added")))))));
}

// What was removed beside what was added in its place.
function aligned(rows) {
  const out = [];
  let [removed, added] = [[], []];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) out.push({ op: "changed", a: removed[at]?.a, b: added[at]?.b });
    [removed, added] = [[], []];
  };
  for (const row of rows) {
    if (row.op === "removed") removed.push(row);
    else if (row.op === "added") added.push(row);
    else {
      flush();
      out.push(row);
    }
  }
  flush();
  return out;
}

// The file without its folders: the whole stands in the title.
function shortPlace(writer) {
  return writer.file ? `${writer.file.split("/").at(-1)}:${writer.line}` : writer.by ?? "";
}
