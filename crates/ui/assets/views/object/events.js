// The events about the object, newest first, kept current by a watch.

import { h, replace } from "../../dom.js";
import { age } from "../../format.js";
import { apiPath } from "../../routes.js";
import { strings } from "../../strings.js";
import { asText } from "../../lib/json.js";

const say = strings.object.events;
const EVENTS = { group: "", version: "v1", resource: "events", namespaced: true };
const LIMIT = 500;

export async function show(root, state) {
  const { api } = state.context;
  const ended = new AbortController();
  const events = new Map();
  const selector = [
    `involvedObject.name=${state.name}`,
    `involvedObject.kind=${state.object.kind}`,
    state.object.metadata.uid && `involvedObject.uid=${state.object.metadata.uid}`,
  ].filter(Boolean).join(",");
  // Events of what is in no namespace are in "default", or anywhere.
  const path = `${apiPath(EVENTS, { namespace: state.namespace })}?fieldSelector=${encodeURIComponent(selector)}`;
  const draw = () => replace(root, table([...events.values()]));
  const relist = async () => {
    const list = await api.getJSON(`${path}&limit=${LIMIT}`, { signal: ended.signal });
    events.clear();
    for (const event of list.items ?? []) events.set(event.metadata.uid, event);
    draw();
    return list.metadata.resourceVersion;
  };
  const resourceVersion = await relist();
  const onEvent = ({ type, object }) => {
    if (type === "BOOKMARK" || !object?.metadata?.uid) return;
    if (type === "DELETED") events.delete(object.metadata.uid);
    else events.set(object.metadata.uid, object);
    draw();
  };
  api.watch(path, onEvent, { signal: ended.signal, resourceVersion, relist }).catch(() => {});
  return { end: () => ended.abort() };
}

function timeOf(event) {
  return asText(event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata?.creationTimestamp);
}

function table(events) {
  if (!events.length) return h("p", { class: "empty" }, say.none);
  const sorted = events.sort((a, b) => (timeOf(a) < timeOf(b) ? 1 : -1));
  const { columns } = say;
  return h("div", { class: "scroll" }, h("table", { class: "plain", "aria-label": say.label },
    h("thead", {}, h("tr", {}, Object.values(columns).map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, sorted.map((event) => h("tr", { class: event.type === "Warning" ? "warns" : null },
      h("td", {}, h("time", { datetime: timeOf(event), title: timeOf(event) }, age(timeOf(event)))),
      h("td", {}, asText(event.type)),
      h("td", {}, asText(event.reason)),
      h("td", {}, asText(event.series?.count ?? event.count ?? 1)),
      h("td", {}, asText(event.source?.component ?? event.reportingComponent)),
      h("td", { class: "wide-text" }, asText(event.message)))))));
}
