// What the cluster serves, kept current: aggregated discovery, asked for again every few seconds with its ETag while
// the page is seen. An answer that says "not modified" costs the server next to nothing, and unlike a watch of
// definitions it needs no permission that ordinary users lack.

import * as api from "./api.js";

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const AGAIN_AFTER = 5_000;

// {groups, resources, find, byKind, onChange, refresh, end}
//   groups: [{name, versions: [{version, fresh}]}], the preferred version first
//   resources: [{group, version, resource, kind, singular, namespaced, verbs, shortNames, categories, preferred, subresources: [{name, kind, verbs}]}]
export async function follow() {
  const ended = new AbortController();
  const listeners = new Set();
  const answers = { "/api": {}, "/apis": {} };
  const model = {
    groups: [],
    resources: [],
    find: (group, version, resource) =>
      model.resources.find((one) => one.group === group && one.resource === resource && (!version || one.version === version)),
    // The resource of a kind: of that version if it is named and served, else of the preferred one.
    byKind: (group, kind, version) => {
      const found = model.resources.filter((one) => one.group === group && one.kind === kind);
      return found.find((one) => one.version === version) ?? found.find((one) => one.preferred) ?? found[0];
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    refresh: async () => {
      const changed = await Promise.all(Object.entries(answers).map(([path, kept]) => ask(path, kept, ended.signal)));
      if (!changed.includes(true)) return false;
      Object.assign(model, read(Object.values(answers).flatMap((kept) => kept.items ?? [])));
      for (const listener of listeners) listener(model);
      return true;
    },
    end: () => ended.abort(),
  };
  await model.refresh();
  again(model, ended.signal);
  return model;
}

async function again(model, signal) {
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER));
    if (document.hidden) continue;
    await model.refresh().catch(() => {});
  }
}

async function ask(path, kept, signal) {
  const headers = { Accept: AGGREGATED };
  if (kept.etag) headers["If-None-Match"] = kept.etag;
  const answer = await api.request(path, { headers, signal });
  if (answer.status === 304) return false;
  if (answer.status !== 200) throw api.failure(answer.status, answer.text);
  const document = answer.json();
  const text = answer.text;
  if (!kept.etag && kept.text === text) return false;
  kept.etag = answer.headers.get("ETag");
  kept.text = text;
  kept.items = document.kind === "APIGroupDiscoveryList" ? document.items : await legacy(path, document, signal);
  return true;
}

// Servers before 1.26: a document for each group-version.
async function legacy(path, document, signal) {
  const groups = document.kind === "APIVersions"
    ? [{ name: "", versions: document.versions.map((version) => ({ version, groupVersion: version })) }]
    : document.groups ?? [];
  return Promise.all(groups.map(async (group) => ({
    metadata: { name: group.name },
    versions: await Promise.all(group.versions.map(async ({ version, groupVersion }) => {
      const list = await api.getJSON(`${path}/${groupVersion}`, { signal }).catch(() => null);
      return { version, freshness: list ? "Current" : "Stale", resources: fold(list?.resources ?? []) };
    })),
  })));
}

// The flat list of legacy discovery, subresources below their resources.
function fold(list) {
  const resources = list.filter((one) => !one.name.includes("/")).map((one) => ({
    resource: one.name, responseKind: { kind: one.kind }, singularResource: one.singularName, verbs: one.verbs,
    scope: one.namespaced ? "Namespaced" : "Cluster", shortNames: one.shortNames, categories: one.categories, subresources: [],
  }));
  for (const one of list.filter((one) => one.name.includes("/"))) {
    const [owner, subresource] = one.name.split("/");
    resources.find((found) => found.resource === owner)?.subresources
      .push({ subresource, verbs: one.verbs, responseKind: { kind: one.kind } });
  }
  return resources;
}

export function read(items) {
  const groups = [];
  const resources = [];
  for (const item of items) {
    const group = item.metadata?.name ?? "";
    const seen = new Set();
    groups.push({ name: group, versions: item.versions.map(({ version, freshness }) => ({ version, fresh: freshness !== "Stale" })) });
    for (const { version, resources: served = [] } of item.versions) {
      for (const one of served) {
        resources.push({
          group, version, resource: one.resource, kind: one.responseKind?.kind ?? one.resource,
          singular: one.singularResource, namespaced: one.scope === "Namespaced", verbs: one.verbs ?? [],
          shortNames: one.shortNames ?? [], categories: one.categories ?? [], preferred: !seen.has(one.resource),
          subresources: (one.subresources ?? []).map((sub) => ({ name: sub.subresource, kind: sub.responseKind?.kind, group: sub.responseKind?.group, version: sub.responseKind?.version, verbs: sub.verbs ?? [] })),
        });
        seen.add(one.resource);
      }
    }
  }
  return { groups, resources };
}
