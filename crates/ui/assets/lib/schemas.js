// The server's OpenAPI v3 documents, each asked for once for every hash that the server gives it, by whatever view needs it.

import { parseExact } from "./json.js";
import { kindsOf, rootField } from "./openapi.js";

// Where it has no hash, a document is asked for again after this.
const FRESH = 60_000;

const state = { listed: null, listedAt: 0, documents: new Map(), bytes: 0, user: null };

// Where each group-version's document is: Map from "apps/v1" or "v1" to { path, hash }.
export async function listDocuments(api) {
  const user = JSON.stringify(api.impersonation?.() ?? null);
  if (state.listed && state.user === user && Date.now() - state.listedAt < FRESH) return state.listed;
  const { paths = {} } = await api.getJSON("/openapi/v3");
  const found = new Map();
  for (const [name, { serverRelativeURL } = {}] of Object.entries(paths)) {
    const match = /^(?:api\/([^/]+)|apis\/([^/]+\/[^/]+))$/.exec(name);
    // Only a path below this one: the answer of a server is no order to go elsewhere.
    if (match && typeof serverRelativeURL === "string" && serverRelativeURL.startsWith("/openapi/v3/")) {
      found.set(match[1] ?? match[2], { path: serverRelativeURL });
    }
  }
  Object.assign(state, { listed: found, listedAt: Date.now(), user });
  return found;
}

// The document of a group-version, or `null` if the server has none.
export async function documentOf(api, groupVersion) {
  const listed = await listDocuments(api);
  const place = listed.get(groupVersion);
  if (!place) return null;
  const known = state.documents.get(groupVersion);
  if (known?.path === place.path) return known.document;
  const document = load(api, place.path);
  state.documents.set(groupVersion, { path: place.path, document });
  document.catch(() => state.documents.delete(groupVersion));
  return document;
}

async function load(api, path) {
  const answer = await api.request(path, { headers: { Accept: "application/json" } });
  if (answer.status !== 200) throw api.failure(answer.status, answer.text);
  state.bytes += answer.text.length;
  return parseExact(answer.text);
}

export function loadedBytes() {
  return state.bytes;
}

export function groupVersionText(group, version) {
  return group ? `${group}/${version}` : version;
}

// { document, root } of a kind, or `null`.
export async function schemaOf(api, { group, version, kind }) {
  const document = await documentOf(api, groupVersionText(group, version));
  if (!document) return null;
  const found = kindsOf(document).find((one) => one.kind === kind && one.group === group && one.version === version);
  const root = found ? rootField(document, found.name) : null;
  return root ? { document, root } : null;
}
