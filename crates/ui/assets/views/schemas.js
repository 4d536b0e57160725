// The schemas that this very cluster serves, as documentation: kinds by group, fields with all that the schema says
// of them, a search over the fields of all kinds, and the difference between two versions of a kind.

import { h, replace } from "../dom.js";
import { bytes } from "../format.js";
import { hash, schemaHash } from "../routes.js";
import { strings } from "../strings.js";
import { addDocument, newIndex, search } from "../lib/fieldindex.js";
import { compact, parseExact } from "../lib/json.js";
import { documentsOfDefinition, fieldsAlong, fieldsOf, kindsOf, rootField, schemaDiff } from "../lib/openapi.js";
import { documentOf, groupVersionText, listDocuments, loadedBytes } from "../lib/schemas.js";

const say = strings.schemas;
const AT_ONCE = 3;
const MAX_FOUND = 200;
const PAUSE = 150;

// Kept for the page: documents are large, and the same for every visit.
const everything = { index: null, added: new Set(), failed: new Set(), all: 0, running: null, listeners: new Set(), discovery: null };

export function title({ parts }) {
  return parts[1] ? `${parts[1]} · ${say.title}` : say.title;
}

export async function show(root, params, context) {
  const content = h("section", { class: "schema", "aria-live": "off" });
  const box = h("input", { type: "search", class: "schema-search", placeholder: say.searchHint, "aria-label": say.search, value: params.query.q ?? "" });
  const progress = h("p", { class: "quiet", role: "status" });
  const view = { context, params, content, box, progress, ended: false, timer: null };
  replace(root, h("div", { class: "schemas" },
    h("nav", { class: "kinds", "aria-label": say.kinds }, kindList(context, params)),
    h("div", { class: "schema-main" }, h("div", { class: "bar" }, box, progress), content)));
  const draw = () => { if (!view.ended) drawSearch(view); };
  box.addEventListener("keydown", (event) => { if (event.key !== "Escape") event.stopPropagation(); });
  box.addEventListener("input", () => {
    clearTimeout(view.timer);
    view.timer = setTimeout(() => begin(view, draw), PAUSE);
  });
  if (params.query.q) begin(view, draw);
  else await drawKind(view);
  return () => {
    view.ended = true;
    clearTimeout(view.timer);
    everything.listeners.delete(draw);
  };
}

// -- kinds --

function kindList(context, params) {
  const groups = new Map();
  for (const one of context.discovery.resources) {
    const key = groupVersionText(one.group, one.version);
    if (!groups.has(key)) groups.set(key, new Map());
    groups.get(key).set(one.kind, one);
  }
  const filter = h("input", { type: "search", placeholder: say.filter, "aria-label": say.filter });
  const lists = [...groups].map(([name, kinds]) => {
    const isHere = name === groupVersionText(params.group, params.version);
    const links = [...kinds.values()].sort((a, b) => (a.kind < b.kind ? -1 : 1)).map((one) => h("a", {
      href: schemaHash(one), "aria-current": isHere && one.kind === params.parts[1] ? "page" : null, dataset: { kind: one.kind.toLowerCase() },
    }, one.kind));
    return h("details", { open: isHere || name === "v1" || name === "apps/v1" }, h("summary", {}, name), links);
  });
  const opened = lists.map((list) => list.open);
  filter.addEventListener("keydown", (event) => { if (event.key !== "Escape") event.stopPropagation(); });
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    lists.forEach((list, index) => {
      let any = false;
      for (const link of list.querySelectorAll("a")) {
        link.hidden = !link.dataset.kind.includes(wanted);
        any ||= !link.hidden;
      }
      list.hidden = !any;
      list.open = wanted ? any : opened[index];
    });
  });
  return [filter, lists];
}

async function drawKind(view) {
  const { context, params, content } = view;
  const [groupVersion, kind, path = ""] = params.parts;
  if (!kind) {
    replace(content, h("p", { class: "empty" }, say.choose), h("p", { class: "empty quiet" }, say.start));
    return;
  }
  const { group, version } = params;
  const document = await documentOf(context.api, groupVersionText(group, version));
  if (view.ended) return;
  const found = document && kindsOf(document).find((one) => one.kind === kind && one.group === group);
  const root = found && rootField(document, found.name);
  if (!root) {
    replace(content, h("p", { class: "empty", role: "alert" }, document ? say.noKind(kind) : say.noDocument(groupVersion ?? "")));
    return;
  }
  const schema = { document, root, group, version, kind };
  const names = path.split(".").filter(Boolean);
  const along = fieldsAlong(document, root, names);
  const isThere = along.length === names.length + 1;
  replace(content,
    crumbs(schema, names),
    !isThere && h("p", { class: "notice", role: "alert" }, say.noField(path)),
    fieldBody(schema, along.at(-1), names.slice(0, along.length - 1)),
    names.length === 0 && comparison(view, schema));
}

function crumbs(schema, names) {
  const link = (at) => schemaHash(schema, names.slice(0, at).join("."));
  return h("p", { class: "crumbs", "aria-label": say.path },
    h("span", { class: "quiet" }, `${groupVersionText(schema.group, schema.version)} `),
    h("a", { href: link(0) }, schema.kind),
    names.map((name, index) => [" . ", h("a", { href: link(index + 1) }, name)]));
}

function fieldBody(schema, field, names) {
  const below = fieldsOf(schema.document, field);
  const resource = { group: schema.group, version: schema.version, kind: schema.kind };
  return [
    h("h1", {}, field.name || schema.kind, " ", h("span", { class: "type" }, field.name ? field.type : "")),
    facts(field),
    h("p", { class: "description" }, field.description || say.noDescription),
    rules(field),
    h("h2", {}, say.fields),
    below.length ? h("dl", { class: "fields-doc" }, below.map((one) => row(schema, resource, one, [...names, one.name]))) : h("p", { class: "quiet" }, say.noFields),
  ];
}

function row(schema, resource, field, names) {
  const path = names.join(".");
  const hasFields = Boolean(field.inner?.properties) && Object.keys(field.inner.properties).length > 0;
  return [
    h("dt", { id: `field-${path}` }, h("a", { href: schemaHash(resource, path) }, field.name), " ", h("span", { class: "type" }, field.type), " ", field.required && h("span", { class: "tag" }, say.required)),
    h("dd", {}, facts(field), field.description && h("p", { class: "description" }, field.description), rules(field), hasFields && nested(schema, resource, field, names)),
  ];
}

// The fields below, built when they are first opened: a schema may contain itself.
function nested(schema, resource, field, names) {
  const details = h("details", {}, h("summary", { "aria-label": say.expand(names.join(".")) }, say.fields));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    details.append(h("dl", { class: "fields-doc" }, fieldsOf(schema.document, field).map((one) => row(schema, resource, one, [...names, one.name]))));
  });
  return details;
}

function facts(field) {
  const fact = (name, value) => h("span", { class: "fact" }, h("span", { class: "quiet" }, `${name} `), value);
  const code = (value) => h("code", {}, typeof value === "string" ? value : compact(value, 300));
  const shown = [
    field.format && fact(say.format, code(field.format)),
    field.default !== undefined && fact(say.default, code(field.default)),
    field.enum.length > 0 && fact(say.enum, field.enum.map((one, index) => [index ? ", " : "", code(one)])),
    field.listType && h("span", { class: "fact" }, say.listType[field.listType] ?? field.listType),
    field.mapKeys.length > 0 && fact(say.keys, code(field.mapKeys.join(", "))),
    field.mapType && h("span", { class: "fact" }, say.mapType[field.mapType] ?? field.mapType),
    field.patchStrategy && fact(say.patch, code([field.patchStrategy, field.patchMergeKey].filter(Boolean).join(" · "))),
    field.preserves && h("span", { class: "fact" }, say.preserves),
    field.embedded && h("span", { class: "fact" }, say.embedded),
    field.nullable && h("span", { class: "fact" }, say.nullable),
    field.limits.map(({ name, value }) => fact(name, code(value))),
  ].flat().filter(Boolean);
  return shown.length ? h("p", { class: "field-facts" }, shown) : null;
}

function rules(field) {
  if (!field.rules.length) return null;
  return h("div", { class: "rules" }, h("p", { class: "quiet" }, say.rules), h("ul", {}, field.rules.map(({ rule, message, messageExpression, fieldPath }) => h("li", {},
    h("code", { class: "rule" }, rule),
    (message || messageExpression) && h("p", { class: "quiet" }, message || messageExpression, fieldPath ? ` (${fieldPath})` : "")))));
}

// -- search --

function begin(view, draw) {
  if (view.ended) return;
  const query = view.box.value.trim();
  const { parts } = view.params;
  window.history.replaceState(null, "", hash(["schemas", ...parts], { q: query }));
  if (!query) {
    drawKind(view);
    return;
  }
  everything.listeners.add(draw);
  loadAll(view.context);
  draw();
}

// Every document once, a few at a time; each is searched as soon as it is there.
function loadAll(context) {
  if (everything.discovery !== context.discovery.resources) {
    // Other kinds are served now: the index begins anew, with the documents that are known.
    Object.assign(everything, { index: newIndex(), added: new Set(), failed: new Set(), running: null, discovery: context.discovery.resources });
  }
  everything.running ??= run(context, everything.index).catch(() => { everything.running = null; });
}

async function run(context, index) {
  const queue = [...(await listDocuments(context.api)).keys()];
  everything.all = queue.length;
  const tell = () => { for (const listener of everything.listeners) listener(); };
  const work = async () => {
    for (let name = queue.shift(); name !== undefined && everything.index === index; name = queue.shift()) {
      try {
        const document = await documentOf(context.api, name);
        if (document && everything.index === index) addDocument(index, document);
        everything.added.add(name);
      } catch {
        everything.failed.add(name);
      }
      tell();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  tell();
}

function drawSearch(view) {
  const query = view.box.value.trim();
  if (!query) return;
  const { added, failed, all, index } = everything;
  const done = added.size + failed.size;
  replace(view.progress, done < all || all === 0 ? say.searching(done, all) : say.loaded(added.size, all, bytes(loadedBytes())),
    failed.size ? ` · ${say.failed(failed.size)}` : "");
  const found = search(index, query, MAX_FOUND);
  const isDone = all > 0 && done >= all;
  const section = ({ name, fields }) => h("section", {}, h("h2", {}, name), h("ul", { class: "found" }, fields.map(foundRow)));
  const groups = say.ranks.map((name, rank) => ({ name, rank, fields: found.fields.filter((one) => one.rank === rank) })).filter(({ fields }) => fields.length);
  replace(view.content,
    h("p", { class: "quiet", role: "status" }, say.found(found.fields.length, found.total)),
    groups.filter(({ rank }) => rank === 0).map(section),
    found.kinds.length ? h("section", {}, h("h2", {}, say.kindsFound), h("ul", { class: "found" }, found.kinds.slice(0, 20).map((one) => h("li", {},
      h("a", { href: schemaHash(one) }, one.kind), h("span", { class: "quiet" }, ` ${groupVersionText(one.group, one.version)}`))))) : null,
    groups.filter(({ rank }) => rank > 0).map(section),
    isDone && !found.total && !found.kinds.length && h("p", { class: "empty" }, say.nothing));
}

function foundRow(one) {
  return h("li", {},
    h("a", { href: schemaHash(one, one.path.join(".")) }, h("b", {}, one.kind), ` .${one.path.join(".")}`),
    h("span", { class: "type" }, ` ${one.type}`), h("span", { class: "quiet" }, ` ${groupVersionText(one.group, one.version)}`),
    one.description && h("p", { class: "quiet clip" }, one.description));
}

// -- two versions --

function comparison(view, schema) {
  const result = h("div", { class: "comparison" });
  const others = view.context.discovery.resources.filter((one) => one.group === schema.group && one.kind === schema.kind && one.version !== schema.version);
  const versions = [...new Set(others.map((one) => one.version))];
  const withVersion = async (version) => {
    if (!version) return replace(result);
    const document = await documentOf(view.context.api, groupVersionText(schema.group, version));
    const found = document && kindsOf(document).find((one) => one.kind === schema.kind && one.group === schema.group);
    if (!found) return replace(result, h("p", { class: "notice" }, say.noKind(schema.kind)));
    return drawDiff(result, { document, root: rootField(document, found.name), name: version }, { ...schema, name: schema.version });
  };
  const select = h("select", { "aria-label": say.compareWith, onchange: (event) => withVersion(event.target.value) },
    h("option", { value: "" }, say.versions), versions.map((version) => h("option", { value: version }, version)));
  const text = h("textarea", { class: "paste", rows: "4", "aria-label": say.paste, spellcheck: "false" });
  text.addEventListener("keydown", (event) => event.stopPropagation());
  const pasted = () => {
    const found = readPasted(text.value, schema);
    if (!found.length) return replace(result, h("p", { class: "notice bad", role: "alert" }, say.pasteBad));
    const chosen = found.find(({ version }) => version === schema.version) ?? found[0];
    return drawDiff(result, { ...chosen, name: `${chosen.version} (${say.paste.split(":")[0]})` }, { ...schema, name: schema.version });
  };
  return h("details", { class: "compare" }, h("summary", {}, say.compare),
    versions.length ? h("p", {}, h("label", {}, `${say.compareWith} `, select)) : null,
    h("p", { class: "quiet" }, say.paste), text, h("p", {}, h("button", { onclick: pasted }, say.pasteButton)), result);
}

// Versions in a definition, or the kind in a document: [{ version, document, root }].
function readPasted(text, schema) {
  let pasted;
  try {
    pasted = parseExact(text);
  } catch {
    return [];
  }
  if (pasted?.kind === "CustomResourceDefinition") return documentsOfDefinition(pasted).filter(({ root }) => root);
  return kindsOf(pasted).filter((one) => one.kind === schema.kind)
    .map((one) => ({ version: one.version, document: pasted, root: rootField(pasted, one.name) })).filter(({ root }) => root);
}

function drawDiff(result, before, after) {
  // A definition leaves to the server what every object has.
  const ours = new Set(["apiVersion", "kind", "metadata"]);
  const rows = schemaDiff(before, after).filter(({ path }) => path !== "" && !ours.has(path.split(".")[0]));
  const columns = say.diffColumns;
  replace(result, h("h2", {}, say.diff(before.name, after.name)),
    rows.length === 0 ? h("p", { class: "empty" }, say.same) : h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, Object.values(columns).map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.slice(0, 1000).map((one) => h("tr", { class: `row-${one.op}` },
        h("td", {}, say.ops[one.op]),
        h("td", { class: "path" }, one.path),
        h("td", { class: "wide-text" }, one.op === "changed"
          ? one.details.map(([what, was, is]) => h("p", {}, h("b", {}, what), " ", h("del", {}, was || strings.object.none), " ", h("ins", {}, is || strings.object.none)))
          : (one.after ?? one.before).type))))),
    rows.length > 1000 && h("p", { class: "quiet" }, say.more(rows.length - 1000)));
}

