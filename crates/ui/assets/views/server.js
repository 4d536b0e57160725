// The server as it works: what /metrics, /readyz and /version say, asked for again and again while the page is seen, and
// the objects that configure what is measured.

import { h, replace, svg } from "../dom.js";
import * as format from "../format.js";
import * as metrics from "../lib/metrics.js";
import { apiPath, hash, objectHash, objectsHash } from "../routes.js";
import { strings } from "../strings.js";

const text = strings.server;
const INTERVALS = [2, 5, 15, 60];
const FIRST_INTERVAL = 5;
// Rates and latencies are those of this many seconds.
const WINDOW = 60;
// What a window has at the shortest interval.
const MAX_STEPS = WINDOW / INTERVALS[0];
// Points of a sparkline.
const MAX_POINTS = 120;
const MAX_ROWS = 200;
// Objects change less often than figures.
const OBJECTS_EVERY = 15_000;
// Each look asks every aggregated server for its discovery, to see how long it takes.
const MAX_PROBES = 20;

const SPARK = { width: 120, height: 24 };

const APISERVICES = { group: "apiregistration.k8s.io", version: "v1", resource: "apiservices" };
const LEVELS = { group: "flowcontrol.apiserver.k8s.io", version: "v1", resource: "prioritylevelconfigurations" };
const MUTATING = { group: "admissionregistration.k8s.io", version: "v1", resource: "mutatingwebhookconfigurations" };
const VALIDATING = { group: "admissionregistration.k8s.io", version: "v1", resource: "validatingwebhookconfigurations" };

export const title = () => strings.app.views.server;

export async function show(root, params, context) {
  const ended = new AbortController();
  const state = {
    context,
    signal: ended.signal,
    observer: metrics.observer(),
    steps: [],
    points: { rate: [], failures: [], p99: [], inflight: [], watches: [], memory: [] },
    snapshot: null,
    figures: null,
    readyz: null,
    version: null,
    objects: {},
    objectsAt: -Infinity,
    probes: new Map(),
    probing: new Set(),
    began: null,
    paused: params.query.pause === "1",
    interval: INTERVALS.includes(Number(params.query.every)) ? Number(params.query.every) : FIRST_INTERVAL,
    filter: params.query.filter ?? "",
    sort: "rate",
    timer: null,
  };
  const parts = frame(root, state);
  state.look = () => look(state, parts);
  await state.look();
  const seen = () => { if (!document.hidden) schedule(state, 0); };
  document.addEventListener("visibilitychange", seen);
  return () => {
    ended.abort();
    clearTimeout(state.timer);
    document.removeEventListener("visibilitychange", seen);
  };
}

// -- looking --

function schedule(state, delay = state.interval * 1000) {
  clearTimeout(state.timer);
  if (state.paused || state.signal.aborted) return;
  // A page that nobody sees asks for nothing; it goes on when it is seen.
  state.timer = setTimeout(() => { if (!document.hidden) state.look(); }, delay);
}

async function look(state, parts) {
  const objectsAreDue = performance.now() - state.objectsAt >= OBJECTS_EVERY;
  try {
    const [figures, readyz] = await Promise.all([ask(state, "/metrics"), ask(state, "/readyz?verbose")]);
    state.readyz = readyz;
    take(state, figures);
    if (!state.version) state.version = await ask(state, "/version");
    if (objectsAreDue) await lookAtObjects(state);
    state.away = false;
  } catch (problem) {
    if (state.signal.aborted) return;
    state.away = true;
    state.readyz = null;
  }
  if (state.signal.aborted) return;
  draw(state, parts);
  schedule(state);
}

async function ask(state, path) {
  const began = performance.now();
  const answer = await state.context.api.request(path, { headers: { Accept: "*/*" }, signal: state.signal });
  const took = performance.now() - began;
  // What the program says in the place of a server that does not answer.
  if (answer.headers.get("X-Sternpost-Away")) throw new Error(answer.text);
  return { status: answer.status, text: answer.text, took, time: Date.now() };
}

function take(state, figures) {
  const { text: document, ...rest } = figures;
  state.figures = { ...rest, size: document.length, said: figures.status === 200 ? "" : said(figures) };
  if (figures.status !== 200) return;
  const { snapshot, step, began } = state.observer.look(document, performance.now());
  state.snapshot = snapshot;
  if (began) {
    state.began = { what: began, at: figures.time };
    if (began === "restart") state.context.announce(text.restarted(clock(figures.time)));
    if (began === "restart") state.steps = [];
  }
  if (step) state.steps = [...state.steps, step].slice(-MAX_STEPS);
  const bounds = metrics.boundsOf(snapshot, "apiserver_request_duration_seconds");
  const last = step ? metrics.requestTotals([step], bounds) : { rate: null, failures: null, p99: null };
  point(state, "rate", last.rate);
  point(state, "failures", last.failures);
  point(state, "p99", last.p99);
  point(state, "inflight", metrics.gaugeSum(snapshot, "apiserver_current_inflight_requests"));
  point(state, "watches", openWatches(snapshot));
  point(state, "memory", metrics.gaugeSum(snapshot, "process_resident_memory_bytes"));
}

function point(state, name, value) {
  state.points[name] = [...state.points[name], value].slice(-MAX_POINTS);
}

function openWatches(snapshot) {
  return metrics.gaugeSum(snapshot, "apiserver_longrunning_requests", ({ verb }) => verb === "WATCH") ?? 0;
}

async function lookAtObjects(state) {
  state.objectsAt = performance.now();
  const all = { services: APISERVICES, levels: LEVELS, mutating: MUTATING, validating: VALIDATING };
  const lists = await Promise.all(Object.entries(all).map(async ([name, resource]) => [name, await list(state, resource)]));
  state.objects = Object.fromEntries(lists);
  const remote = (state.objects.services.items ?? []).filter((one) => one.spec?.service).slice(0, MAX_PROBES);
  for (const service of remote) probe(state, service);
}

// How long an aggregated server takes for its discovery. Nothing waits for it: it may hang.
async function probe(state, { metadata, spec }) {
  if (state.probing.has(metadata.name)) return;
  state.probing.add(metadata.name);
  try {
    const answer = await ask(state, `/apis/${encodeURIComponent(spec.group)}/${encodeURIComponent(spec.version)}`);
    state.probes.set(metadata.name, { status: answer.status, took: answer.took / 1000 });
  } catch {
    state.probes.delete(metadata.name);
  } finally {
    state.probing.delete(metadata.name);
  }
}

// {items} or {problem}: what a user may not list is said in the place of it.
async function list(state, resource) {
  const known = state.context.discovery.find(resource.group, undefined, resource.resource);
  if (!known) return { problem: text.notServed(`${resource.resource}.${resource.group}`) };
  const answer = await ask(state, apiPath({ ...resource, version: known.version }));
  if (answer.status !== 200) return { problem: said(answer) };
  const { items } = JSON.parse(answer.text);
  return { items: items ?? [], resource: { ...resource, version: known.version } };
}

// What an answer that is no success says, in one line.
function said({ status, text: body }) {
  try {
    const found = JSON.parse(body);
    return found.message ? `${found.message} (${status})` : String(status);
  } catch {
    return `${body.trim().slice(0, 200)} (${status})`;
  }
}

// The address of what is shown, without a new view.
function link({ interval, paused, filter }) {
  history.replaceState(null, "", hash(["server"], { every: String(interval), pause: paused ? "1" : "", filter }));
}

// -- drawing --

function frame(root, state) {
  const parts = {
    about: h("span", { class: "about quiet" }),
    looked: h("span", { class: "looked quiet" }),
    pause: h("button", { "aria-pressed": String(state.paused) }, state.paused ? text.go : text.pause),
    notes: h("div", { class: "notes" }),
    tiles: h("div", { class: "tiles" }),
    requests: h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text.requests.title }),
    filter: h("input", { type: "search", placeholder: text.requests.filter, "aria-label": text.requests.filter, dataset: { key: "/" }, value: state.filter }),
    flow: h("div", { class: "scroll" }),
    watches: h("div", { class: "scroll" }),
    webhooks: h("div", { class: "scroll" }),
    services: h("div", { class: "scroll" }),
    checks: h("div", {}),
  };
  const every = h("select", { "aria-label": text.every }, INTERVALS.map((seconds) =>
    h("option", { value: String(seconds), selected: seconds === state.interval }, text.seconds(seconds))));
  every.addEventListener("change", () => {
    state.interval = Number(every.value);
    schedule(state);
    link(state);
  });
  parts.pause.addEventListener("click", () => {
    state.paused = !state.paused;
    parts.pause.setAttribute("aria-pressed", String(state.paused));
    replace(parts.pause, state.paused ? text.go : text.pause);
    schedule(state, 0);
    drawLooked(state, parts);
    link(state);
  });
  parts.filter.addEventListener("input", () => {
    state.filter = parts.filter.value;
    drawRequests(state, parts);
    link(state);
  });
  const section = (name, heading, body, ...tools) =>
    h("section", { class: `panel panel-${name}`, "aria-labelledby": `server-${name}` },
      h("div", { class: "panel-head" }, h("h2", { id: `server-${name}` }, heading), tools), body);
  replace(root,
    h("div", { class: "server-head" },
      h("h1", {}, title()), parts.about, h("span", { class: "space" }), parts.looked,
      h("label", { class: "every" }, text.every, " ", every), parts.pause),
    parts.notes,
    parts.tiles,
    section("requests", text.requests.title, parts.requests, h("span", { class: "quiet" }, text.window(WINDOW)), h("span", { class: "space" }), parts.filter),
    h("div", { class: "panels" },
      section("flow", text.flow.title, parts.flow),
      section("watches", text.watches.title, parts.watches),
      section("webhooks", text.webhooks.title, parts.webhooks),
      section("services", text.services.title, parts.services),
      section("checks", text.checks.title, parts.checks)));
  return parts;
}

function draw(state, parts) {
  drawAbout(state, parts);
  drawLooked(state, parts);
  drawNotes(state, parts);
  drawTiles(state, parts);
  drawRequests(state, parts);
  drawFlow(state, parts);
  drawWatches(state, parts);
  drawWebhooks(state, parts);
  drawServices(state, parts);
  drawChecks(state, parts);
}

function drawAbout(state, parts) {
  if (!state.version) return;
  if (state.version.status !== 200) {
    replace(parts.about, text.versionRefused(said(state.version)));
    return;
  }
  const version = JSON.parse(state.version.text);
  const since = state.snapshot?.start ? text.up(format.age(state.snapshot.start * 1000)) : null;
  replace(parts.about, [version.gitVersion, version.platform, since].filter(Boolean).join(" · "));
}

function drawLooked(state, parts) {
  const { figures } = state;
  parts.looked.classList.toggle("down", state.away === true);
  if (state.away) replace(parts.looked, text.away);
  else if (state.paused) replace(parts.looked, text.paused);
  else if (figures) replace(parts.looked, text.looked(clock(figures.time), format.bytes(figures.size), format.seconds(figures.took / 1000)));
}

function drawNotes(state, parts) {
  const notes = [];
  if (state.figures?.said) notes.push([h("p", { class: "warning" }, text.metricsRefused(state.figures.said)), h("p", { class: "quiet" }, text.metricsHint)]);
  if (state.began?.what === "restart") notes.push(h("p", {}, text.restarted(clock(state.began.at))));
  if (state.observer.processes > 1) notes.push(h("p", {}, text.replicas(state.observer.processes)));
  replace(parts.notes, notes);
}

function drawTiles(state, parts) {
  const { snapshot, points } = state;
  const bounds = snapshot ? metrics.boundsOf(snapshot, "apiserver_request_duration_seconds") : [];
  const steps = windowSteps(state);
  const now = steps.length > 0 ? metrics.requestTotals(steps, bounds) : { rate: null, failures: null, p50: null, p99: null };
  const inflight = (kind) => (snapshot ? metrics.gaugeSum(snapshot, "apiserver_current_inflight_requests", (labels) => labels.request_kind === kind) : null);
  const memory = points.memory.at(-1) ?? null;
  const reads = inflight("readOnly");
  replace(parts.tiles,
    tile("rate", text.tiles.rate, now.rate === null ? null : rate(now.rate), points.rate),
    tile("failures", text.tiles.failures, now.failures === null ? null : rate(now.failures), points.failures, now.failures > 0 ? "bad" : ""),
    tile("latency", text.tiles.latency, now.p99 === null ? null : format.seconds(now.p99), points.p99, "", now.p50 === null ? "" : text.tiles.median(format.seconds(now.p50))),
    tile("inflight", text.tiles.inflight, reads === null ? null : format.count(reads + (inflight("mutating") ?? 0)), points.inflight, "", reads === null ? "" : text.tiles.split(reads, inflight("mutating") ?? 0)),
    tile("watches", text.tiles.watches, snapshot ? format.count(openWatches(snapshot)) : null, points.watches),
    memory !== null && tile("memory", text.tiles.memory, format.bytes(memory), points.memory));
}

function tile(name, label, value, values, tone = "", detail = "") {
  return h("div", { class: `tile ${tone}`, dataset: { tile: name } },
    h("span", { class: "label" }, label),
    h("span", { class: "value" }, value ?? "–"),
    h("span", { class: "tile-detail quiet" }, detail),
    spark(values, label));
}

function spark(values, label) {
  const { width, height } = SPARK;
  const known = values.filter((value) => value !== null);
  return svg("svg", { class: "spark", viewBox: `0 -2 ${width} ${height + 4}`, preserveAspectRatio: "none", role: "img", "aria-label": text.spark(label, known.length) },
    svg("path", { d: metrics.sparkline(values, width, height) || `M0 ${height}`, "vector-effect": "non-scaling-stroke" }));
}

function drawRequests(state, parts) {
  const steps = windowSteps(state);
  if (steps.length === 0) {
    replace(parts.requests, h("p", { class: "empty" }, state.figures?.said ? text.nothing : text.requests.first));
    return;
  }
  const bounds = metrics.boundsOf(state.snapshot, "apiserver_request_duration_seconds");
  const wanted = state.filter.trim().toLowerCase();
  const all = metrics.requestRows(steps, bounds).filter((row) => row.key.toLowerCase().includes(wanted));
  all.sort((a, b) => (b[state.sort] ?? -1) - (a[state.sort] ?? -1) || b.rate - a.rate);
  const columns = text.requests.columns;
  const sortable = (name) => h("th", { scope: "col", class: "number", "aria-sort": state.sort === name ? "descending" : "none" },
    h("button", { class: "plain", onclick: () => { state.sort = name; drawRequests(state, parts); parts.requests.querySelector(`[data-sort=${name}]`)?.focus(); }, dataset: { sort: name } }, columns[name], state.sort === name ? " ↓" : ""));
  replace(parts.requests,
    h("table", {},
      h("thead", {}, h("tr", {},
        h("th", { scope: "col" }, columns.verb), h("th", { scope: "col" }, columns.resource),
        ["rate", "refusals", "failures", "p50", "p99"].map(sortable))),
      h("tbody", {}, all.slice(0, MAX_ROWS).map((row) => h("tr", { dataset: { request: row.key } },
        h("td", { class: "verb" }, row.verb),
        h("td", {}, resourceName(state, row)),
        h("td", { class: "number" }, rate(row.rate)),
        h("td", { class: "number" }, row.refusals > 0 ? rate(row.refusals) : ""),
        h("td", { class: row.failures > 0 ? "number bad" : "number" }, row.failures > 0 ? rate(row.failures) : ""),
        h("td", { class: "number" }, row.p50 === null ? "" : format.seconds(row.p50)),
        h("td", { class: "number" }, row.p99 === null ? "" : format.seconds(row.p99)))))),
    all.length === 0 && h("p", { class: "empty" }, text.requests.none),
    all.length > MAX_ROWS && h("p", { class: "quiet" }, text.more(all.length - MAX_ROWS)));
}

// The resource as a link to its objects, if it is one that is served.
function resourceName(state, { group, resource, subresource }) {
  if (!resource) return subresource || text.requests.other;
  const name = [group ? `${resource}.${group}` : resource, subresource].filter(Boolean).join("/");
  const known = state.context.discovery.find(group, undefined, resource);
  return known && !subresource ? h("a", { href: objectsHash(known) }, name) : name;
}

function drawFlow(state, parts) {
  const { items = [], problem, resource } = state.objects.levels ?? {};
  const rows = state.snapshot ? metrics.flowRows(state.snapshot, windowSteps(state)) : [];
  const measured = new Map(rows.map((row) => [row.name, row]));
  const configured = new Map(items.map((item) => [item.metadata.name, item]));
  const names = [...new Set([...measured.keys(), ...configured.keys()])].sort();
  const isTold = state.snapshot && metrics.has(state.snapshot, "apiserver_flowcontrol_");
  const columns = text.flow.columns;
  replace(parts.flow,
    problem && h("p", { class: "quiet" }, text.unread(problem)),
    state.snapshot && !isTold && h("p", { class: "quiet" }, text.flow.untold),
    names.length > 0 && h("table", {},
      h("thead", {}, h("tr", {}, [["level"], ["seats", "number"], ["use"], ["waiting", "number"], ["dispatched", "number"], ["rejected", "number"], ["wait", "number"]]
        .filter(([name]) => isTold || name === "level" || name === "seats")
        .map(([name, align]) => h("th", { scope: "col", class: align }, columns[name])))),
      h("tbody", {}, names.map((name) => {
        const row = measured.get(name);
        const item = configured.get(name);
        const label = item ? h("a", { href: objectHash(resource, "", name) }, name) : name;
        if (!isTold) return h("tr", { dataset: { level: name } }, h("td", {}, label), h("td", { class: "number" }, shares(item)));
        const { limit = null, seats = 0, waiting = 0, dispatched = 0, rejected = 0, reasons = [], wait = null } = row ?? {};
        const isExempt = item?.spec?.type === "Exempt" || name === "exempt";
        return h("tr", { dataset: { level: name } },
          h("td", {}, label),
          h("td", { class: "number" }, isExempt || limit === null ? format.count(seats) : `${format.count(seats)} / ${format.count(limit)}`),
          h("td", {}, isExempt ? h("span", { class: "quiet" }, text.flow.exempt) : bar(limit ? seats / limit : 0)),
          h("td", { class: waiting > 0 ? "number warn" : "number" }, waiting > 0 ? format.count(waiting) : ""),
          h("td", { class: "number" }, dispatched > 0 ? rate(dispatched) : ""),
          h("td", { class: rejected > 0 ? "number bad" : "number", title: reasons.join(", ") }, rejected > 0 ? rate(rejected) : ""),
          h("td", { class: "number" }, wait === null ? "" : format.seconds(wait)));
      }))));
}

function shares(item) {
  const spec = item?.spec ?? {};
  if (spec.type === "Exempt") return text.flow.exempt;
  const count = spec.limited?.nominalConcurrencyShares;
  return count === undefined ? "" : text.flow.shares(count);
}

function bar(share) {
  const width = Math.max(0, Math.min(100, Math.round(share * 100)));
  return svg("svg", { class: `bar ${share >= 0.9 ? "bad" : share >= 0.6 ? "warn" : ""}`, viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": text.flow.used(width) },
    svg("rect", { class: "all", width: "100", height: "6" }),
    svg("rect", { class: "part", width: String(width), height: "6" }));
}

function drawWatches(state, parts) {
  const rows = state.snapshot ? metrics.longRunningRows(state.snapshot, windowSteps(state)) : [];
  const columns = text.watches.columns;
  replace(parts.watches, rows.length === 0
    ? h("p", { class: "empty" }, state.snapshot ? text.watches.none : text.nothing)
    : h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, columns.verb), h("th", { scope: "col" }, columns.resource), h("th", { scope: "col", class: "number" }, columns.open), h("th", { scope: "col", class: "number" }, columns.events))),
      h("tbody", {}, rows.slice(0, MAX_ROWS).map((row) => h("tr", { dataset: { watch: row.key } },
        h("td", { class: "verb" }, row.verb), h("td", {}, resourceName(state, row)),
        h("td", { class: "number" }, format.count(row.open)),
        h("td", { class: "number" }, row.events ? rate(row.events) : ""))))));
}

function drawWebhooks(state, parts) {
  const measured = state.snapshot ? metrics.webhookRows(state.snapshot, windowSteps(state)) : new Map();
  const configured = [["mutating", text.webhooks.mutating], ["validating", text.webhooks.validating]].flatMap(([name, type]) => {
    const { items = [], resource } = state.objects[name] ?? {};
    return items.flatMap((item) => (item.webhooks ?? []).map((webhook) => ({ type, item, webhook, resource })));
  });
  const known = new Set(configured.map(({ webhook }) => webhook.name));
  const gone = [...measured.keys()].filter((name) => !known.has(name)).sort().map((name) => ({ type: "", item: null, webhook: { name } }));
  const rows = [...configured, ...gone];
  const problems = ["mutating", "validating"].map((name) => state.objects[name]?.problem).filter(Boolean);
  const columns = text.webhooks.columns;
  const figure = (value, show, tone = "") => h("td", { class: value ? `number ${tone}` : "number" }, value ? show(value) : "");
  replace(parts.webhooks,
    problems.map((problem) => h("p", { class: "quiet" }, text.unread(problem))),
    rows.length === 0 && problems.length === 0 && h("p", { class: "empty" }, text.webhooks.none),
    rows.length > 0 && measured.size === 0 && state.snapshot && h("p", { class: "quiet" }, text.webhooks.untold),
    rows.length > 0 && h("table", {},
      h("thead", {}, h("tr", {}, ["name", "type", "target", "policy"].map((name) => h("th", { scope: "col" }, columns[name])), ["rate", "rejected", "failed", "p50", "p99"].map((name) => h("th", { scope: "col", class: "number", title: columns[`${name}Title`] }, columns[name])))),
      h("tbody", {}, rows.map(({ type, item, webhook, resource }) => {
        const row = measured.get(webhook.name) ?? {};
        return h("tr", { dataset: { webhook: webhook.name } },
          h("td", {}, item ? h("a", { href: objectHash(resource, "", item.metadata.name), title: item.metadata.name }, webhook.name) : webhook.name),
          h("td", {}, type),
          h("td", {}, target(webhook.clientConfig)),
          h("td", {}, [webhook.failurePolicy, webhook.timeoutSeconds && `${webhook.timeoutSeconds} s`].filter(Boolean).join(", ")),
          figure(row.rate, rate), figure(row.rejected, rate, "warn"),
          h("td", { class: row.failed || row.open ? "number bad" : "number", title: row.open ? text.webhooks.open(rate(row.open)) : null }, row.failed || row.open ? rate((row.failed ?? 0) + (row.open ?? 0)) : ""),
          figure(row.p50, format.seconds), figure(row.p99, format.seconds));
      }))));
}

function target(config) {
  if (!config) return "";
  if (config.service) return `${config.service.namespace}/${config.service.name}${config.service.path ?? ""}`;
  return config.url ?? "";
}

function drawServices(state, parts) {
  const { items, problem, resource } = state.objects.services ?? {};
  const available = (item) => item.status?.conditions?.find((one) => one.type === "Available");
  const remote = (items ?? []).filter((item) => item.spec?.service || available(item)?.status === "False");
  const columns = text.services.columns;
  replace(parts.services,
    problem && h("p", { class: "quiet" }, text.unread(problem)),
    items && h("p", { class: "quiet" }, text.services.local(items.length - remote.length)),
    items && remote.length === 0 && h("p", { class: "empty" }, text.services.none),
    remote.length > 0 && h("table", {},
      h("thead", {}, h("tr", {}, ["name", "service", "available", "since"].map((name) => h("th", { scope: "col" }, columns[name])), h("th", { scope: "col", class: "number", title: columns.tookTitle }, columns.took))),
      h("tbody", {}, remote.map((item) => {
        const condition = available(item);
        const probe = state.probes.get(item.metadata.name);
        const isUp = condition?.status === "True";
        const { service } = item.spec;
        return h("tr", { dataset: { service: item.metadata.name } },
          h("td", {}, h("a", { href: objectHash(resource, "", item.metadata.name) }, item.metadata.name)),
          h("td", {}, service ? `${service.namespace}/${service.name}:${service.port ?? 443}` : ""),
          h("td", { class: isUp ? "good" : "bad", title: condition?.message ?? "" }, isUp ? text.services.up : text.services.down(condition?.reason ?? text.services.unknown), !isUp && condition?.message && h("span", { class: "quiet said" }, condition.message)),
          h("td", {}, condition?.lastTransitionTime ? format.age(condition.lastTransitionTime) : ""),
          h("td", { class: "number" }, probe ? (probe.status === 200 ? format.seconds(probe.took) : String(probe.status)) : ""));
      }))));
}

function drawChecks(state, parts) {
  const { readyz } = state;
  if (!readyz) {
    replace(parts.checks, h("p", { class: "empty" }, state.away ? text.away : text.nothing));
    return;
  }
  const found = metrics.checks(readyz.text);
  if (found.length === 0) {
    replace(parts.checks, h("p", { class: "quiet" }, readyz.status === 200 ? text.checks.bare : text.checks.refused(said(readyz))));
    return;
  }
  const failed = found.filter((check) => !check.ok);
  const passed = found.filter((check) => check.ok);
  const item = (check) => h("li", { class: check.ok ? "good" : "bad", dataset: { check: check.name } }, h("span", { class: "sign", "aria-hidden": "true" }, check.ok ? "✓" : "✕"), " ", check.name, !check.ok && h("span", { class: "quiet" }, ` ${check.said}`));
  replace(parts.checks,
    h("p", { class: failed.length > 0 ? "bad" : "good" }, failed.length > 0 ? text.checks.failing(failed.length, found.length) : text.checks.all(found.length)),
    failed.length > 0 && h("ul", { class: "checks" }, failed.map(item)),
    h("ul", { class: "checks" }, passed.map(item)));
}

function windowSteps(state) {
  return metrics.windowOf(state.steps, WINDOW);
}

// "12.3 /s"
function rate(value) {
  const shown = value >= 100 ? format.count(Math.round(value)) : value >= 10 ? value.toFixed(1) : value >= 0.095 ? value.toFixed(2) : value.toFixed(3);
  return value === 0 ? "0 /s" : `${shown} /s`;
}

function clock(time) {
  return new Date(time).toLocaleTimeString("en-GB");
}
