// Owners upward by ownerReferences, dependents downward by listing metadata, as a graph of links. Dependents are
// looked for only when asked, and the number of requests is said before.

import { h, replace, svg } from "../../dom.js";
import { apiPath, objectHash } from "../../routes.js";
import { strings } from "../../strings.js";
import { asText } from "../../lib/json.js";

const say = strings.object.owners;
const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const MAX_OWNERS = 30;
const PAGE = 500;
const MAX_PAGES = 10;
const AT_ONCE = 4;
const MAX_SHOWN = 60;
const USUAL = new Set(["pods", "replicasets.apps", "jobs.batch", "controllerrevisions.apps", "endpointslices.discovery.k8s.io",
  "persistentvolumeclaims", "statefulsets.apps", "deployments.apps", "configmaps", "secrets", "services"]);

// Events refer to objects in another way, and Endpoints only mirror EndpointSlices, with a warning for each request.
const LEFT_OUT = new Set(["events", "endpoints", "componentstatuses"]);

export async function show(root, state) {
  const ended = new AbortController();
  const view = { state, signal: ended.signal, levels: [], children: new Map(), drawing: h("div", { class: "graph" }), status: h("p", { class: "quiet", role: "status" }), controls: h("div", { class: "bar" }) };
  replace(root, view.controls, view.status, view.drawing);
  view.owners = await ownersAbove(view);
  drawControls(view);
  draw(view);
  return { end: () => ended.abort() };
}

function nodeOf(view, { apiVersion = "", kind = "", name = "", namespace = "", uid }) {
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  const resource = view.state.context.discovery.byKind(group, kind, version);
  return { kind: asText(kind), name: asText(name), namespace: resource?.namespaced ? namespace : "", uid: asText(uid), resource };
}

// Levels of owners, the nearest first.
async function ownersAbove(view) {
  const { object, namespace } = view.state;
  const levels = [];
  const seen = new Set([object.metadata.uid]);
  let below = [{ uid: object.metadata.uid, references: references(object) }];
  for (let count = 0; below.length && count < MAX_OWNERS;) {
    const level = [];
    const next = [];
    for (const { uid, references: list } of below) {
      for (const reference of list) {
        const node = { ...nodeOf(view, { ...reference, namespace }), of: uid, controller: reference.controller === true };
        level.push(node);
        if (seen.has(node.uid) || count >= MAX_OWNERS) continue;
        seen.add(node.uid);
        count += 1;
        next.push({ uid: node.uid, references: await referencesOf(view, node) });
      }
    }
    if (level.length) levels.push(level);
    below = next;
  }
  return levels;
}

function references(object) {
  const list = object?.metadata?.ownerReferences;
  return Array.isArray(list) ? list.filter((one) => one !== null && typeof one === "object") : [];
}

async function referencesOf(view, node) {
  if (!node.resource) return [];
  try {
    const object = await view.state.context.api.getJSON(apiPath(node.resource, { namespace: node.namespace, name: node.name }), { headers: { Accept: ONE }, signal: view.signal });
    if (object.metadata.uid !== node.uid) node.state = say.missing;
    return node.state ? [] : references(object);
  } catch (problem) {
    node.state = problem.status === 404 ? say.missing : say.forbidden;
    return [];
  }
}

// Kinds that can have dependents of this object: in its namespace, or anywhere if it is in none.
function candidates(view) {
  const { context, namespace } = view.state;
  const seen = new Set();
  return context.discovery.resources.filter((one) => {
    const key = one.group ? `${one.resource}.${one.group}` : one.resource;
    const fits = one.preferred && one.verbs.includes("list") && !LEFT_OUT.has(one.resource) && (!namespace || one.namespaced) && !seen.has(key);
    if (fits) seen.add(key);
    return fits;
  });
}

function drawControls(view) {
  const all = candidates(view);
  const usual = all.filter((one) => USUAL.has(one.group ? `${one.resource}.${one.group}` : one.resource));
  replace(view.controls,
    h("button", { onclick: () => look(view, usual) }, say.usual(usual.length)),
    h("button", { onclick: () => look(view, all) }, say.look(all.length)),
    h("span", { class: "quiet" }, say.explain));
}

async function look(view, kinds) {
  const byOwner = new Map();
  const result = { failed: 0, cut: false };
  let done = 0;
  const queue = [...kinds];
  const stopped = new AbortController();
  view.signal.addEventListener("abort", () => stopped.abort(), { once: true });
  replace(view.controls, h("button", { onclick: () => stopped.abort() }, say.stop));
  const work = async () => {
    for (let resource = queue.shift(); resource && !stopped.signal.aborted; resource = queue.shift()) {
      await collect(view, resource, byOwner, result, stopped.signal).catch(() => { result.failed += 1; });
      done += 1;
      replace(view.status, say.looking(done, kinds.length));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (view.signal.aborted) return;
  view.children = byOwner;
  view.looked = true;
  const count = draw(view);
  replace(view.status, count ? say.found(count) : say.noDependents, result.failed ? ` ${say.failed(result.failed)}` : "", result.cut ? ` ${say.cut}` : "");
  drawControls(view);
}

async function collect(view, resource, byOwner, result, signal) {
  const path = apiPath(resource, { namespace: view.state.namespace });
  let token = "";
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = new URLSearchParams({ limit: String(PAGE), ...(token && { continue: token }) });
    const list = await view.state.context.api.getJSON(`${path}?${query}`, { headers: { Accept: METADATA }, signal });
    for (const item of list.items ?? []) {
      for (const { uid } of references(item)) {
        const node = { kind: resource.kind, name: item.metadata.name, namespace: item.metadata.namespace ?? "", uid: item.metadata.uid, resource, of: uid };
        if (byOwner.has(uid)) byOwner.get(uid).push(node);
        else byOwner.set(uid, [node]);
      }
    }
    token = list.metadata?.continue ?? "";
    if (!token) return;
  }
  result.cut = true;
}

// Levels of dependents, each object once.
function dependentsBelow(view, uid) {
  const levels = [];
  const seen = new Set([uid]);
  let above = [uid];
  let count = 0;
  while (above.length) {
    const level = [];
    for (const owner of above) {
      for (const node of view.children.get(owner) ?? []) {
        if (seen.has(node.uid)) continue;
        seen.add(node.uid);
        level.push(node);
      }
    }
    if (level.length) levels.push(level);
    count += level.length;
    above = level.map((node) => node.uid);
  }
  return { levels, count };
}

const [WIDTH, HEIGHT, GAP, RISE] = [190, 44, 16, 46];

function draw(view) {
  const { object, resource, namespace, name } = view.state;
  const own = { kind: object.kind, name, namespace, uid: object.metadata.uid, resource, self: true };
  const { levels, count } = dependentsBelow(view, own.uid);
  const rows = [...[...view.owners].reverse(), [own], ...levels].map((level) => {
    if (level.length <= MAX_SHOWN) return level;
    return [...level.slice(0, MAX_SHOWN), { more: level.length - MAX_SHOWN, uid: "" }];
  });
  const widest = Math.max(...rows.map((row) => row.length));
  const width = widest * (WIDTH + GAP) + GAP;
  const height = rows.length * (HEIGHT + RISE);
  const places = new Map();
  rows.forEach((row, level) => row.forEach((node, index) => {
    const left = (width - row.length * (WIDTH + GAP) + GAP) / 2 + index * (WIDTH + GAP);
    node.place = { x: left, y: level * (HEIGHT + RISE) + 8 };
    places.set(node.uid, node.place);
  }));
  const lines = rows.flat().filter((node) => node.of && places.has(node.of)).map((node) => edge(node.place, places.get(node.of)));
  replace(view.drawing,
    !view.owners.length && h("p", { class: "quiet" }, say.noOwners),
    h("div", { class: "scroll", tabindex: "0" }, svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": say.label }, lines, rows.flat().map(box))));
  return count;
}

// From the upper to the lower one, whichever owns.
function edge(a, b) {
  const [upper, lower] = a.y < b.y ? [a, b] : [b, a];
  const [x1, y1, x2, y2] = [upper.x + WIDTH / 2, upper.y + HEIGHT, lower.x + WIDTH / 2, lower.y];
  const middle = (y1 + y2) / 2;
  return svg("path", { class: "edge", d: `M ${x1} ${y1} C ${x1} ${middle}, ${x2} ${middle}, ${x2} ${y2}` });
}

function box(node) {
  const { x, y } = node.place;
  const short = (text) => (text.length > 26 ? `${text.slice(0, 25)}…` : text);
  if (node.more) return svg("text", { x: x + 8, y: y + 27, class: "quiet" }, say.more(node.more));
  const content = [
    svg("title", {}, `${node.kind} ${node.name}`),
    svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 6 }),
    svg("text", { x: x + 10, y: y + 18, class: "node-kind" }, short(node.kind + (node.controller ? ` · ${say.controller}` : "") + (node.state ? ` · ${node.state}` : ""))),
    svg("text", { x: x + 10, y: y + 34, class: "node-name" }, short(node.name)),
  ];
  const name = `node${node.self ? " self" : ""}${node.state ? " missing" : ""}`;
  if (node.self || !node.resource) return svg("g", { class: name }, content);
  return svg("a", { class: name, href: objectHash(node.resource, node.namespace, node.name, { tab: "owners" }), "aria-label": `${node.kind} ${node.name}` }, content);
}
