// Addresses: of views in the page (the hash, so that every view is a link) and of objects in the API.

// "#/object/apps~v1/deployments/default/web?tab=yaml" →
// {view: "object", parts: ["apps~v1", "deployments", "default", "web"], query: {tab: "yaml"}, group: "apps", version: "v1"}
export function parse(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view = "", ...parts] = path.split("/").filter((part) => part !== "").map(decoded);
  const query = Object.fromEntries(new URLSearchParams(search));
  const groupVersion = parts[0]?.includes("~") ? split(parts[0]) : {};
  return { view: view || "objects", parts, query, ...groupVersion };
}

// The core group has no name; in addresses it is called "core".
export function split(groupVersion) {
  const [group, version] = groupVersion.split("~");
  return { group: group === "core" ? "" : group, version };
}

export function groupVersionPart(group, version) {
  return `${group || "core"}~${version}`;
}

export function objectsHash({ group, version, resource }, query) {
  return hash(["objects", groupVersionPart(group, version), resource], query);
}

export function objectHash({ group, version, resource }, namespace, name, query) {
  return hash(["object", groupVersionPart(group, version), resource, namespace || "-", name], query);
}

export function schemaHash({ group, version, kind }, field, query) {
  return hash(["schemas", groupVersionPart(group, version), kind, ...(field ? [field] : [])], query);
}

export function hash(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

// The path of a collection, an object or a subresource in the API.
export function apiPath({ group, version, resource, namespaced }, { namespace, name, subresource } = {}) {
  const parts = [group ? `/apis/${encodeURIComponent(group)}` : "/api", encodeURIComponent(version)];
  if (namespaced && namespace) parts.push("namespaces", encodeURIComponent(namespace));
  parts.push(encodeURIComponent(resource));
  if (name) parts.push(encodeURIComponent(name));
  if (subresource) parts.push(subresource);
  return parts.join("/");
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
