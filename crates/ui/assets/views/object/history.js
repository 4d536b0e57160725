// The versions of the object that were seen, and the difference between any two.

import { h, replace } from "../../dom.js";
import { age } from "../../format.js";
import { apiPath } from "../../routes.js";
import { strings } from "../../strings.js";
import { lineDiff, objectDiff, withContext, BOOKKEEPING } from "../../lib/diff.js";
import { eventsOf, firstProbe, nextProbe, record } from "../../lib/history.js";
import { asText, compact } from "../../lib/json.js";
import { yamlLines } from "../../lib/yaml.js";

const say = strings.object.history;

// Diffs are drawn up to so many rows.
const MAX_ROWS = 4000;

export async function show(root, state) {
  const view = { state, before: null, after: null, bookkeeping: false };
  const note = h("p", { class: "quiet", role: "status" });
  const versions = h("div", { class: "versions" });
  const difference = h("div", { class: "difference" });
  Object.assign(view, { note, versions, difference });
  replace(root, note, h("div", { class: "split history" }, difference, versions));
  draw(view);
  replay(view).catch((problem) => { if (!state.signal.aborted) replace(note, problem.message); });
  return { update: () => draw(view) };
}

// Once for each object: how far back the watch window goes, and what it has.
async function replay(view) {
  const { state } = view;
  if (state.replayed === undefined) {
    replace(view.note, say.looking);
    state.replayed = await readWindow(state);
  }
  if (state.signal.aborted) return;
  draw(view);
}

async function readWindow(state) {
  const { api } = state.context;
  const query = `fieldSelector=${encodeURIComponent(`metadata.name=${state.name}`)}&watch=1&timeoutSeconds=1`;
  const path = `${apiPath(state.resource, { namespace: state.namespace })}?${query}`;
  let probe = firstProbe(String(state.object.metadata.resourceVersion));
  let count = 0;
  while (probe.at !== null && !state.signal.aborted) {
    const answer = await api.request(`${path}&resourceVersion=${probe.at}`, { signal: state.signal });
    if (answer.status !== 200 && answer.status !== 410) return 0;
    const { events, expired } = answer.status === 410 ? { events: [], expired: true } : eventsOf(answer.text);
    for (const event of events) {
      const mine = event.object?.metadata?.name === state.name;
      if (mine && record(state.history, event)) count += 1;
    }
    probe = nextProbe(probe, !expired);
  }
  return count;
}

function draw(view) {
  const { state } = view;
  const { versions, dropped } = state.history;
  if (state.replayed !== undefined) {
    replace(view.note, state.replayed > 0 ? say.replayed(state.replayed) : say.sincePage(state.opened.toLocaleTimeString("en-GB")),
      dropped ? ` ${say.dropped(dropped)}` : "");
  }
  const has = (version) => versions.some((one) => keyOf(one) === version);
  if (!view.chosen || !has(view.before) || !has(view.after)) {
    view.after = versions[0] ? keyOf(versions[0]) : null;
    view.before = versions[1] ? keyOf(versions[1]) : null;
  }
  drawVersions(view, versions);
  drawDifference(view, versions);
}

function keyOf({ version, type }) {
  return type === "DELETED" ? `${version}-deleted` : version;
}

function drawVersions(view, versions) {
  const choose = (side, one) => {
    view.chosen = true;
    view[side] = keyOf(one);
    drawDifference(view, versions);
  };
  const radio = (side, label, one) => h("input", {
    type: "radio", name: `history-${side}`, checked: view[side] === keyOf(one), "aria-label": `${label}: ${say.version} ${one.version}`,
    dataset: { side, version: keyOf(one) }, onchange: () => choose(side, one),
  });
  const focused = document.activeElement?.dataset;
  replace(view.versions, h("table", { class: "plain", "aria-label": say.label },
    h("thead", {}, h("tr", {}, [say.before, say.after, say.version, say.event, say.changed, say.managers].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, versions.map((one, index) => h("tr", {},
      h("td", {}, radio("before", say.before, one)),
      h("td", {}, radio("after", say.after, one)),
      h("td", { class: "version" }, one.version),
      h("td", {}, say.events[one.type] ?? one.type),
      h("td", {}, one.changed ? h("time", { datetime: one.changed, title: one.changed }, age(one.changed)) : "",
        one.seen && h("span", { class: "quiet" }, ` · ${say.seen} ${one.seen.toLocaleTimeString("en-GB")}`)),
      h("td", {}, changers(one, versions[index + 1])))))));
  if (focused?.side) view.versions.querySelector(`[data-side="${focused.side}"]:checked`)?.focus();
}

// The managers that wrote a version: those whose entries are not as they were before. One that only lost fields to
// another keeps its time.
function changers({ object, type }, before) {
  if (!before && type !== "ADDED") return "";
  const known = new Map(entriesOf(before?.object).map((entry) => [entryKey(entry), entry]));
  const changed = entriesOf(object).filter((entry) => compact(entry) !== compact(known.get(entryKey(entry))));
  const wrote = changed.filter((entry) => !entry.time || known.get(entryKey(entry))?.time !== entry.time);
  return [...new Set((wrote.length ? wrote : changed).map((entry) => asText(entry.manager)))].join(", ");
}

function entriesOf(object) {
  const entries = object?.metadata?.managedFields;
  return Array.isArray(entries) ? entries.filter((entry) => entry !== null && typeof entry === "object") : [];
}

function entryKey({ manager, operation, subresource, apiVersion }) {
  return compact([manager, operation, subresource ?? "", apiVersion]);
}

function drawDifference(view, versions) {
  const find = (key) => versions.find((one) => keyOf(one) === key);
  const [before, after] = [find(view.before), find(view.after)];
  if (!before || !after) {
    replace(view.difference, h("p", { class: "empty" }, say.one));
    return;
  }
  const toggle = (event) => { view.bookkeeping = event.target.checked; drawDifference(view, versions); };
  const { maskForDiff } = view.state.secrets;
  const ignore = view.bookkeeping ? new Set() : BOOKKEEPING;
  const lines = (one) => yamlLines(view.bookkeeping ? one.object : withoutBookkeeping(one.object), maskForDiff);
  const fields = objectDiff(before.object, after.object, { ignore });
  replace(view.difference,
    h("div", { class: "bar" },
      h("span", {}, say.diff(before.version, after.version), h("span", { class: "quiet" }, ` · ${say.summary(fields.length)}`)),
      h("label", {}, h("input", { type: "checkbox", checked: view.bookkeeping, onchange: toggle }), ` ${say.bookkeeping}`)),
    diffNode(lines(before).map(({ text }) => text), lines(after).map(({ text }) => text), say.same));
}

function withoutBookkeeping(object) {
  const { managedFields: _, resourceVersion: __, generation: ___, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}

// A diff as a block of lines, for screen readers, too.
export function diffNode(before, after, same) {
  const rows = withContext(lineDiff(before, after));
  if (rows.every(({ op }) => op === "gap")) return h("p", { class: "empty" }, same);
  const marks = { same: " ", removed: "−", added: "+" };
  const node = (row) => {
    if (row.op === "gap") return h("div", { class: "line gap" }, `⋯ ${row.count}`);
    const text = `${marks[row.op]} ${row.text}`;
    if (row.op === "same") return h("div", { class: "line" }, text);
    return h(row.op === "added" ? "ins" : "del", { class: `line ${row.op}` }, text);
  };
  return h("div", { class: "code diff" }, rows.slice(0, MAX_ROWS).map(node), rows.length > MAX_ROWS && h("div", { class: "line gap" }, "⋯"));
}
