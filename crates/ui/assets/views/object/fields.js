// The object as a form: each field with its value, its type, its owner and what the schema says of it. Scalars can
// be changed; the changes go through the same review as those of the editor.

import { h, replace } from "../../dom.js";
import { schemaHash } from "../../routes.js";
import { strings } from "../../strings.js";
import { colours } from "./yaml.js";
import { review } from "./apply.js";
import { isServerField } from "../../lib/edit.js";
import { compact } from "../../lib/json.js";
import { fieldNamed, fieldsOf } from "../../lib/openapi.js";
import { keysFrom, managerText, ownerLookup } from "../../lib/owners.js";
import { child, put, readable, steps } from "../../lib/pointer.js";
import { sortedKeys } from "../../lib/yaml.js";

const say = strings.object.fields;

// Items of a list or members of a map that are drawn before more are asked for.
const MAX_MEMBERS = 100;
const OPEN_DEPTH = 3;
const MAX_DEPTH = 60;

export async function show(root, state) {
  const schema = await state.schema();
  const view = { state, schema, edits: new Map(), open: new Map() };
  const bar = h("div", { class: "bar edits", hidden: true });
  const tree = h("div", { class: "fields", role: "tree", "aria-label": say.label });
  const below = h("div", { class: "review" });
  Object.assign(view, { bar, tree, below });
  replace(root, !schema && h("p", { class: "quiet" }, say.noSchema), bar, below, tree);
  draw(view);
  // A change from elsewhere does not take away what is being typed.
  return { update: () => { if (!view.edits.size) draw(view); } };
}

function draw(view) {
  view.lookup = ownerLookup(view.state.owners);
  const { managedFields: _, ...metadata } = view.state.object.metadata ?? {};
  view.object = { ...view.state.object, metadata };
  replace(view.tree, members(view, view.object, "", place(view.schema?.root, 0, []), 0));
}

// Where in the schema something stands: in `field`, `inside` of its lists and maps entered, by these names.
function place(field, inside, names) {
  return field ? { field, inside, names } : null;
}

function below(view, at, step) {
  if (!at) return null;
  if (at.inside < at.field.wraps.length) return place(at.field, at.inside + 1, at.names);
  return place(fieldNamed(view.schema.document, at.field, step), 0, [...at.names, step]);
}

function members(view, value, pointer, at, depth) {
  const isList = Array.isArray(value);
  const names = isList ? [...value.keys()] : sortedKeys(value);
  const row = (name) => fieldRow(view, name, value[name], child(pointer, name), below(view, at, String(name)), depth, isList);
  const rest = names.slice(MAX_MEMBERS);
  const more = rest.length ? lazy(say.more(rest.length), () => rest.map(row)) : null;
  const unset = !isList && at && at.inside >= at.field.wraps.length ? unsetFields(view, at, value, pointer) : null;
  return [names.slice(0, MAX_MEMBERS).map(row), more, unset];
}

// A part that is built when it is first opened.
function lazy(label, build) {
  const details = h("details", { class: "lazy" }, h("summary", {}, label));
  details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(...build()); });
  return details;
}

function unsetFields(view, { field, names }, value, pointer) {
  const unset = fieldsOf(view.schema.document, field).filter(({ name }) => !Object.hasOwn(value, name));
  if (!unset.length) return null;
  return lazy(say.unset(unset.length), () => unset.map((one) => {
    const at = child(pointer, one.name);
    const scalar = !one.wraps.length && ["string", "integer", "number", "boolean", "IntOrString"].includes(one.type);
    return h("div", { class: "field unset", role: "treeitem" },
      nameNode(view, one.name, one, [...names, one.name]), scalar ? valueNode(view, at, undefined, one) : h("span", { class: "quiet" }, say.notSet), noteNode(one));
  }));
}

function fieldRow(view, name, value, pointer, at, depth, isItem) {
  const field = at && at.inside === 0 ? at.field : null;
  const isCollection = value !== null && typeof value === "object" && Object.keys(value).length > 0;
  const label = isItem ? itemLabel(value, name) : String(name);
  const owners = view.lookup(pointer);
  const managers = owners.map((id) => managerText(view.state.owners.managers[id])).join(", ");
  const classes = ["field", ...colours(owners)].join(" ");
  if (!isCollection || depth > MAX_DEPTH) {
    return h("div", { class: classes, role: "treeitem", title: managers || null, dataset: { pointer } },
      nameNode(view, label, field, at?.names),
      isCollection ? h("span", {}, compact(value, 200)) : valueNode(view, pointer, value, at && at.inside === at.field.wraps.length ? at.field : null),
      noteNode(field));
  }
  const details = h("details", { class: "group", open: view.open.get(pointer) ?? depth < OPEN_DEPTH },
    h("summary", { class: classes, title: managers || null }, nameNode(view, label, field, at?.names), h("span", {}), noteNode(field)));
  const fill = () => { if (details.children.length === 1) details.append(h("div", { class: "members", role: "group" }, members(view, value, pointer, at, depth + 1))); };
  if (details.open) fill();
  details.addEventListener("toggle", () => {
    view.open.set(pointer, details.open);
    if (details.open) fill();
  });
  return h("div", { role: "treeitem", "aria-label": label }, details);
}

function itemLabel(item, index) {
  const name = item !== null && typeof item === "object" ? item.name ?? item.type ?? item.key : undefined;
  return typeof name === "string" ? `[${index}] ${name}` : `[${index}]`;
}

function nameNode(view, label, field, names) {
  const link = field ? h("a", { href: schemaHash(view.state.resource, names.join(".")), class: "type" }, field.type) : null;
  return h("span", { class: "field-name" }, h("b", {}, label), link && [" ", link], field?.required && h("span", { class: "tag" }, say.required));
}

function noteNode(field) {
  return h("span", { class: "note quiet" }, field?.description ?? "");
}

function valueNode(view, pointer, value, field) {
  const { state } = view;
  const hidden = state.secrets.isHidden(pointer);
  const isEmpty = value !== null && typeof value === "object";
  const canEdit = !state.context.readOnly && state.resource.verbs.includes("patch") && !isServerField(pointer) && !hidden && !isEmpty;
  if (!canEdit) {
    const text = isEmpty ? (Array.isArray(value) ? "[]" : "{}") : String(state.secrets.mask(pointer, value) ?? "null");
    return h("span", { class: "field-value" }, text);
  }
  const edit = (next) => {
    if (next === value || (next === "" && value === undefined)) view.edits.delete(pointer);
    else view.edits.set(pointer, { next, value, type: field?.type ?? typeof value });
    drawBar(view);
  };
  const label = say.valueOf(readable(view.object, pointer, keysFrom(state.owners)));
  if (typeof value === "boolean" || field?.type === "boolean") {
    return choice(["true", "false"], value === undefined ? undefined : String(value), label, (text) => edit(text === "" ? undefined : text === "true"));
  }
  if (field?.enum.length && field.enum.every((one) => typeof one === "string")) return choice(field.enum, value, label, edit);
  const text = value === undefined || value === null ? "" : String(value);
  const input = text.includes("\n") || text.length > 200
    ? h("textarea", { class: "field-value", rows: "3", "aria-label": label, value: text })
    : h("input", { class: "field-value", value: text, "aria-label": label, placeholder: value === undefined ? say.notSet : "" });
  input.addEventListener("input", () => edit(input.value === text ? value : input.value));
  return input;
}

function choice(values, value, label, edit) {
  const options = values.includes(value) ? values : ["", ...values];
  return h("select", { class: "field-value", "aria-label": label, onchange: (event) => edit(event.target.value) },
    options.map((one) => h("option", { value: one, selected: one === (value ?? "") }, one || say.notSet)));
}

function drawBar(view) {
  const discard = () => {
    view.edits.clear();
    replace(view.below);
    drawBar(view);
    draw(view);
  };
  view.bar.hidden = view.edits.size === 0;
  replace(view.bar, h("span", { role: "status" }, say.changes(view.edits.size)),
    h("button", { class: "primary", onclick: () => start(view, discard) }, say.review), h("button", { onclick: discard }, say.discard));
}

async function start(view, done) {
  const base = view.state.object;
  const wanted = structuredClone(base);
  const rows = [];
  try {
    for (const [pointer, edit] of view.edits) {
      const path = readable(wanted, pointer, keysFrom(view.state.owners));
      set(wanted, pointer, typed(edit, path));
      rows.push({ op: edit.value === undefined ? "added" : "changed", path, from: pointer, to: pointer });
    }
    await review(view.below, view.state, { base, wanted, rows, done });
  } catch (problem) {
    replace(view.below, h("p", { class: "notice bad", role: "alert" }, problem.message));
  }
}

// What was typed as the type that the field has.
function typed({ next, value, type }, path) {
  if (typeof next !== "string") return next;
  if (type === "integer" || type === "number" || typeof value === "number" || typeof value === "bigint") {
    if (type === "IntOrString" && !/^-?\d+$/.test(next)) return next;
    if (!/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(next)) throw new Error(say.notNumber(path));
    const number = Number(next);
    return /^-?\d+$/.test(next) && !Number.isSafeInteger(number) ? BigInt(next) : number;
  }
  if (type === "IntOrString" && typeof value !== "string" && /^-?\d+$/.test(next)) return Number(next);
  return next;
}

function set(object, pointer, value) {
  const path = steps(pointer);
  const last = path.pop();
  let target = object;
  for (const step of path) target = target[step];
  put(target, last, value);
}
