// From an edited object to requests: what is set goes into an apply
// configuration with only those fields, so that the page owns no more than it
// was asked to change; what is taken away is a JSON patch, since apply removes
// only what the applier owns alone.

import { asText } from "./json.js";
import { child, parent, put, steps, valueAt } from "./pointer.js";

export const MANAGER = "sternpost-explorer";

// Fields that identify an object, or that only the server writes.
const SERVER_FIELDS = ["/apiVersion", "/kind", "/status", "/metadata/name", "/metadata/namespace", "/metadata/uid",
  "/metadata/resourceVersion", "/metadata/generation", "/metadata/creationTimestamp", "/metadata/deletionTimestamp",
  "/metadata/managedFields", "/metadata/selfLink", "/metadata/generateName", "/metadata/deletionGracePeriodSeconds"];

// Whether a change there is the server's business.
export function isServerField(pointer) {
  return SERVER_FIELDS.some((field) => pointer === field || pointer.startsWith(`${field}/`));
}

// The apply configuration that sets the fields at `pointers` to what `wanted` has there. `listAt(pointer)` tells
// how a list merges: { keys } for one whose items have keys, { set: true }, or null for one that is a single value.
export function applyConfig(wanted, pointers, listAt) {
  const { apiVersion, kind, metadata } = wanted;
  const config = { apiVersion, kind, metadata: { name: metadata?.name } };
  if (metadata?.namespace) config.metadata.namespace = metadata.namespace;
  const items = new Map();
  for (const pointer of pointers) if (!isServerField(pointer)) copy(wanted, config, pointer, listAt, items);
  return config;
}

function copy(wanted, config, pointer, listAt, items) {
  let [source, target, at] = [wanted, config, ""];
  const path = steps(pointer);
  for (const [index, step] of path.entries()) {
    if (source === null || typeof source !== "object" || !Object.hasOwn(source, step)) return;
    const next = child(at, step);
    const isLast = index === path.length - 1;
    if (Array.isArray(source)) {
      const found = itemOf(source, target, Number(step), next, listAt(at), items, isLast);
      if (found === null) return;
      target = found;
    } else {
      const value = source[step];
      const whole = isLast || value === null || typeof value !== "object" || (Array.isArray(value) && listAt(next) === null);
      if (whole) {
        put(target, step, value);
        return;
      }
      if (!Object.hasOwn(target, step)) put(target, step, Array.isArray(value) ? [] : {});
      // What an earlier pointer copied whole is not taken apart.
      else if (target[step] === value) return;
      target = target[step];
    }
    source = source[step];
    at = next;
  }
}

// The item of a merged list in the configuration, made with its keys on first need; `null` when it is complete.
function itemOf(source, target, index, pointer, list, items, isLast) {
  const item = source[index];
  if (list?.set || isLast || item === null || typeof item !== "object") {
    if (!items.has(pointer)) {
      items.set(pointer, item);
      target.push(item);
    }
    return null;
  }
  if (!items.has(pointer)) {
    const made = {};
    for (const key of list?.keys ?? []) if (Object.hasOwn(item, key)) put(made, key, item[key]);
    items.set(pointer, made);
    target.push(made);
  }
  const made = items.get(pointer);
  return made === item ? null : made;
}

// A JSON patch that takes away what stands at `pointers`, later items of lists first. It holds only for the version that it was made for.
export function removalPatch(object, pointers) {
  const present = pointers.filter((pointer) => pointer !== "" && valueAt(object, pointer) !== undefined);
  const sorted = [...present].sort((a, b) => comparePlaces(steps(b), steps(a)));
  return [
    { op: "test", path: "/metadata/resourceVersion", value: object.metadata?.resourceVersion },
    ...sorted.map((path) => ({ op: "remove", path })),
  ];
}

function comparePlaces(a, b) {
  for (let at = 0; at < Math.min(a.length, b.length); at += 1) {
    if (a[at] === b[at]) continue;
    const [x, y] = [Number(a[at]), Number(b[at])];
    if (Number.isInteger(x) && Number.isInteger(y)) return x - y;
    return a[at] < b[at] ? -1 : 1;
  }
  return a.length - b.length;
}

// The conflicts of a refused apply: [{ field, managers: [text] }], one for each field.
export function conflictsOf(details) {
  const byField = new Map();
  for (const cause of Array.isArray(details?.causes) ? details.causes : []) {
    if (cause?.reason !== "FieldManagerConflict") continue;
    const field = asText(cause.field);
    const manager = asText(cause.message).replace(/^conflict with /, "");
    if (byField.has(field)) byField.get(field).push(manager);
    else byField.set(field, [manager]);
  }
  return [...byField].map(([field, managers]) => ({ field, managers }));
}

// Fields that were left to their owners, taken from what is applied: with a field goes all that is below it.
export function without(pointers, left) {
  const gone = new Set(left);
  return pointers.filter((pointer) => {
    for (let at = pointer; at !== null; at = parent(at)) if (gone.has(at)) return false;
    return true;
  });
}

// YAML as the server writes it, without `metadata.managedFields` and `status`, by lines: the text is for an editor.
export function editable(text) {
  const kept = [];
  let block = null;
  let skipped = null;
  for (const line of text.split("\n")) {
    const column = line.search(/\S/);
    if (skipped !== null && (column < 0 || column > skipped || (column === skipped && line[column] === "-"))) continue;
    skipped = null;
    if (column === 0) block = line.split(":")[0];
    const noise = (column === 0 && line.startsWith("status:")) || (block === "metadata" && column === 2 && line.startsWith("  managedFields:"));
    if (noise) skipped = column;
    else kept.push(line);
  }
  return `${kept.join("\n").trimEnd()}\n`;
}
