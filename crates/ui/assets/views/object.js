// One object: its header, what can be done with it, and its tabs. A watch keeps it current; each version goes into
// the history. Tabs share one state: { resource, namespace, name, object, owners, schema(), history, context, signal }.

import { h, replace } from "../dom.js";
import { age } from "../format.js";
import { apiPath, objectHash, objectsHash, schemaHash } from "../routes.js";
import { strings } from "../strings.js";
import { newHistory, record } from "../lib/history.js";
import { parseExact } from "../lib/json.js";
import { ownersOf } from "../lib/owners.js";
import { groupVersionText, schemaOf } from "../lib/schemas.js";
import * as create from "./object/create.js";
import * as edit from "./object/edit.js";
import * as events from "./object/events.js";
import * as fields from "./object/fields.js";
import * as graph from "./object/graph.js";
import * as history from "./object/history.js";
import * as logs from "./object/logs.js";
import { newSecrets } from "./object/secrets.js";
import { actions } from "./object/write.js";
import * as yaml from "./object/yaml.js";

const say = strings.object;
const tabs = { yaml, fields, owners: graph, history, events, edit, logs };

// In an address, the name of an object that is not there yet. No object can be called so.
const NEW = "-";

export function title({ parts }) {
  const [, resource = "", , name = ""] = parts;
  return `${name} · ${resource}`;
}

export async function show(root, params, context) {
  const state = stateOf(params, context);
  if (!state) {
    const [groupVersion = "", resource = ""] = params.parts;
    replace(root, h("p", { class: "empty", role: "alert" }, say.notServed(resource, groupVersion)));
    return () => {};
  }
  const ended = new AbortController();
  state.signal = ended.signal;
  if (state.name === NEW) {
    await create.show(root, state);
    return () => ended.abort();
  }
  const text = await textOf(state);
  // The user may have gone elsewhere meanwhile.
  if (!root.isConnected) return () => {};
  take(state, parseExact(text), "SEEN", null, text.length);
  const head = h("div", { class: "object-head" });
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": say.tabList });
  const panel = h("section", { class: "object-panel", role: "tabpanel", id: "object-panel", tabindex: "-1" });
  replace(root, head, list, panel);
  drawHead(head, state);
  const shown = { name: null, tab: null };
  const open = (name) => openTab(shown, name, { list, panel, state });
  drawTabs(list, state, open);
  await open(tabsOf(state).includes(params.query.tab) ? params.query.tab : "yaml");
  if (!root.isConnected) {
    shown.tab?.end?.();
    return () => {};
  }
  follow(state, () => {
    drawHead(head, state);
    shown.tab?.update?.();
  });
  return () => {
    ended.abort();
    shown.tab?.end?.();
  };
}

function stateOf({ group, version, parts }, context) {
  const [, resourceName, space, name] = parts;
  const resource = context.discovery.find(group, version, resourceName);
  if (!resource || !name) return null;
  const namespace = space === "-" ? "" : space;
  let schema;
  const state = {
    context, resource, namespace, name,
    path: apiPath(resource, { namespace, name }),
    object: null, owners: null, deleted: false,
    history: newHistory(),
    opened: new Date(),
    secrets: newSecrets(resource),
    // Asked for when a tab first needs it; without one, tabs do with less.
    schema: () => (schema ??= schemaOf(context.api, resource).catch(() => null)),
  };
  return state;
}

// The object's JSON, whole numbers of any size included.
export async function textOf(state, accept = "application/json") {
  const { api } = state.context;
  const answer = await api.request(state.path, { headers: { Accept: accept }, signal: state.signal });
  if (answer.status !== 200) throw api.failure(answer.status, answer.text);
  return answer.text;
}

function take(state, object, type, seen = null, size = JSON.stringify(object).length) {
  state.object = object;
  state.owners = ownersOf(object);
  state.deleted = type === "DELETED";
  record(state.history, { type, object, seen, size });
}

// The versions that follow. Where the user may not watch, the page stays as it is.
function follow(state, changed) {
  const { api } = state.context;
  const selector = encodeURIComponent(`metadata.name=${state.name}`);
  const collection = apiPath(state.resource, { namespace: state.namespace });
  if (!state.resource.verbs.includes("watch")) return;
  const relist = async () => {
    const list = await api.getJSON(`${collection}?fieldSelector=${selector}`, { signal: state.signal });
    const [object] = list.items ?? [];
    if (object && object.metadata.resourceVersion !== state.object.metadata.resourceVersion) {
      take(state, { apiVersion: state.object.apiVersion, kind: state.object.kind, ...object }, "MODIFIED", new Date());
      changed();
    } else if (!object && !state.deleted) {
      state.deleted = true;
      changed();
    }
    return list.metadata.resourceVersion;
  };
  const onEvent = ({ type, object }) => {
    if (type === "BOOKMARK" || object?.metadata?.name !== state.name) return;
    take(state, object, type, new Date());
    changed();
  };
  const { resourceVersion } = state.object.metadata;
  api.watch(`${collection}?fieldSelector=${selector}`, onEvent, { signal: state.signal, resourceVersion, relist })
    .catch((problem) => { if (!state.signal.aborted) state.context.announce(problem.message); });
}

function drawHead(head, state) {
  const { object, resource, namespace, name } = state;
  const { creationTimestamp, resourceVersion, deletionTimestamp } = object.metadata;
  const scope = namespace && h("span", {}, `${say.namespace} `, h("a", {
    href: objectHash({ group: "", version: "v1", resource: "namespaces" }, "", namespace),
  }, namespace));
  replace(head,
    h("h1", {}, h("span", { class: "kind" }, resource.kind), " ", h("span", { class: "name" }, name)),
    h("p", { class: "facts" },
      h("span", {}, groupVersionText(resource.group, resource.version)),
      scope,
      h("time", { datetime: creationTimestamp, title: creationTimestamp }, say.age(age(creationTimestamp))),
      h("span", { class: "version" }, say.version(resourceVersion)),
      h("a", { href: objectsHash(resource) }, say.all(resource.resource)),
      h("a", { href: schemaHash(resource) }, say.documentation)),
    state.deleted && h("p", { class: "notice bad", role: "alert" }, say.gone),
    !state.deleted && deletionTimestamp && h("p", { class: "notice" }, say.deleting(deletionTimestamp)),
    state.deleted || state.context.readOnly ? null : actions(state));
}

function tabsOf(state) {
  return Object.keys(tabs).filter((name) => {
    if (name === "edit") return !state.context.readOnly && state.resource.verbs.includes("patch");
    if (name === "logs") return state.resource.group === "" && state.resource.resource === "pods";
    if (name === "events") return state.resource.resource !== "events";
    return true;
  });
}

function drawTabs(list, state, open) {
  const names = tabsOf(state);
  const go = (from, step) => {
    const next = list.children[(from + step + names.length) % names.length];
    next.focus();
    open(next.dataset.tab);
  };
  replace(list, names.map((name, index) => h("button", {
    role: "tab", id: `tab-${name}`, dataset: { tab: name }, "aria-controls": "object-panel", "aria-selected": "false", tabindex: "-1",
    onclick: () => open(name),
    onkeydown: (event) => {
      if (event.key === "ArrowRight") go(index, 1);
      else if (event.key === "ArrowLeft") go(index, -1);
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
  }, say.tabs[name])));
}

async function openTab(shown, name, { list, panel, state }) {
  shown.tab?.end?.();
  shown.tab = null;
  shown.name = name;
  for (const button of list.children) {
    const isOpen = button.dataset.tab === name;
    button.setAttribute("aria-selected", String(isOpen));
    button.tabIndex = isOpen ? 0 : -1;
  }
  panel.setAttribute("aria-labelledby", `tab-${name}`);
  replace(panel, h("p", { class: "empty" }, strings.app.loading));
  // Without a new view: what the history has seen stays.
  window.history.replaceState(null, "", objectHash(state.resource, state.namespace, state.name, { tab: name }));
  const place = h("div", { class: `tab-${name}` });
  try {
    const tab = await tabs[name].show(place, state);
    if (shown.name !== name || state.signal.aborted) tab?.end?.();
    else {
      shown.tab = tab;
      replace(panel, place);
    }
  } catch (problem) {
    if (shown.name === name && problem.name !== "AbortError") {
      replace(panel, h("p", { class: "notice bad", role: "alert" }, problem.message));
    }
  }
}
