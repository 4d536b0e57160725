// The object as YAML, each line in the colour of the manager that owns its field.

import { h, replace } from "../../dom.js";
import { age } from "../../format.js";
import { schemaHash } from "../../routes.js";
import { strings } from "../../strings.js";
import { fieldAt } from "../../lib/openapi.js";
import { keysFrom, managerText, ownerLookup } from "../../lib/owners.js";
import { readable, steps } from "../../lib/pointer.js";
import { yamlLines } from "../../lib/yaml.js";
import { secretKeys } from "./secrets.js";

const say = strings.object.yaml;

// There are so many colours; further managers take the first ones again.
export const COLOURS = 8;

// Lines in one part of the page that the browser lays out only when it is seen.
const CHUNK = 200;

export async function show(root, state) {
  const view = { only: null, managedFields: false, line: 0, lines: [], schema: null, state, root };
  const code = h("div", { class: "code", role: "listbox", tabindex: "0", "aria-label": say.label });
  const side = h("aside", { class: "side" });
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  Object.assign(view, { code, side, detail });
  replace(root, h("div", { class: "split" }, h("div", { class: "main" }, bar(view), code), h("div", { class: "aside" }, detail, side)));
  code.addEventListener("keydown", (event) => move(view, event));
  code.addEventListener("pointerover", (event) => point(view, event.target));
  code.addEventListener("click", (event) => point(view, event.target, true));
  draw(view);
  state.schema().then((schema) => {
    view.schema = schema;
    drawDetail(view, view.line);
  });
  return { update: () => draw(view) };
}

function bar(view) {
  const copy = async () => {
    await navigator.clipboard.writeText(`${view.lines.map(({ text }) => text).join("\n")}\n`).catch(() => {});
    view.state.context.announce(say.copied);
  };
  return h("div", { class: "bar" },
    h("label", {}, h("input", { type: "checkbox", onchange: (event) => { view.managedFields = event.target.checked; draw(view); } }), ` ${say.managedFields}`),
    h("button", { onclick: copy, title: view.state.secrets.active ? say.hiddenCopy : null }, say.copy),
    h("span", { class: "quiet hint" }, say.point));
}

function draw(view) {
  const { state } = view;
  const lookup = ownerLookup(state.owners);
  view.lines = yamlLines(view.managedFields ? state.object : withoutManagedFields(state.object), state.secrets.mask);
  view.owners = view.lines.map(({ pointer }) => lookup(pointer));
  view.line = Math.min(view.line, view.lines.length - 1);
  const chunks = [];
  for (let from = 0; from < view.lines.length; from += CHUNK) {
    const part = view.lines.slice(from, from + CHUNK).map((line, index) => lineNode(view, line, from + index));
    chunks.push(h("div", { class: "chunk", role: "presentation", style: { "--lines": String(part.length) } }, part));
  }
  replace(view.code, chunks);
  drawSide(view);
  select(view, view.line, false);
}

function withoutManagedFields(object) {
  const { managedFields: _, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}

function lineNode(view, line, number) {
  const owners = view.owners[number];
  const names = owners.map((id) => managerText(view.state.owners.managers[id]));
  const dim = view.only !== null && !owners.includes(view.only);
  return h("div", {
    class: ["line", ...colours(owners), dim && "dim"].filter(Boolean).join(" "),
    role: "option", id: `line-${number}`, "aria-selected": "false", "aria-label": names.length ? `${line.text} — ${names.join(", ")}` : null,
    title: names.join("\n") || null, dataset: { number, pointer: line.pointer },
  }, parts(line));
}

// The classes of a line: the colour of its owner, or of its first two.
export function colours(owners) {
  if (!owners.length) return [];
  const [first, second] = owners;
  return second === undefined ? [`own-${first % COLOURS}`] : [`own-${first % COLOURS}`, `and-${second % COLOURS}`];
}

function parts({ text, key, value, kind }) {
  const [start, end] = key ?? [0, 0];
  const from = value ?? text.length;
  const nodes = [];
  const push = (name, part) => { if (part) nodes.push(name ? h("span", { class: name }, part) : part); };
  push("", text.slice(0, start));
  push("key", text.slice(start, end));
  push("", text.slice(end, Math.max(end, from)));
  push(kind ? `is-${kind}` : "", text.slice(Math.max(end, from)));
  return nodes.length ? nodes : [" "];
}

function drawSide(view) {
  const { managers, absent } = view.state.owners;
  const choose = (id) => {
    view.only = view.only === id ? null : id;
    draw(view);
  };
  const row = (manager) => h("li", {},
    h("button", {
      class: "manager", "aria-pressed": String(view.only === manager.id), title: say.only(managerText(manager)),
      dataset: { manager: manager.manager }, onclick: () => choose(manager.id),
    },
    h("span", { class: `swatch own-${manager.id % COLOURS}`, "aria-hidden": "true" }),
    h("span", { class: "who" }, h("b", {}, manager.manager), h("span", { class: "quiet" }, [manager.operation, manager.subresource].filter(Boolean).join(" · "))),
    h("span", { class: "when quiet" }, say.fieldCount(manager.fields), h("br"),
      manager.time ? h("time", { datetime: manager.time, title: manager.time }, age(manager.time)) : say.never)));
  replace(view.side,
    h("h2", {}, say.managers),
    managers.length ? h("ul", { class: "managers" }, managers.map(row)) : h("p", { class: "quiet" }, say.noManagers),
    absent.length ? h("p", { class: "quiet" }, say.absent(absent.length)) : null,
    secretKeys(view.state, () => draw(view)));
}

function move(view, event) {
  const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
  const step = steps[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  select(view, Math.max(0, Math.min(view.lines.length - 1, view.line + step)), true);
}

function point(view, target, keep = false) {
  const line = target instanceof Element ? target.closest(".line") : null;
  if (!line) return;
  if (keep) select(view, Number(line.dataset.number), false);
  else drawDetail(view, Number(line.dataset.number));
}

function select(view, number, scroll) {
  const before = view.code.querySelector('[aria-selected="true"]');
  before?.setAttribute("aria-selected", "false");
  view.line = number;
  const line = view.code.querySelector(`#line-${number}`);
  line?.setAttribute("aria-selected", "true");
  if (line) view.code.setAttribute("aria-activedescendant", line.id);
  if (scroll) line?.scrollIntoView({ block: "nearest" });
  drawDetail(view, number);
}

function drawDetail(view, number) {
  const line = view.lines[number];
  if (!line) return;
  const { object, owners, resource } = view.state;
  const found = view.schema ? fieldAt(view.schema.document, view.schema.root, steps(line.pointer)) : null;
  const managers = view.owners[number].map((id) => owners.managers[id]);
  replace(view.detail,
    h("p", { class: "path" }, readable(object, line.pointer, keysFrom(owners))),
    found && h("p", { class: "quiet" }, h("a", { href: schemaHash(resource, found.names.join(".")) }, found.field.type || resource.kind), found.field.required ? ` · ${strings.schemas.required}` : ""),
    found?.field.description && h("p", { class: "description" }, found.field.description),
    managers.length
      ? h("ul", { class: "owned-by" }, managers.map((manager) => h("li", {},
        h("span", { class: `swatch own-${manager.id % COLOURS}`, "aria-hidden": "true" }), " ", managerText(manager),
        manager.time && h("span", { class: "quiet" }, ` · ${age(manager.time)} · ${manager.time}`))))
      : h("p", { class: "quiet" }, say.nobody));
}
