// Who owns which field: `metadata.managedFields` laid over the object.

import { child, parent, readable } from "./pointer.js";
import { compact } from "./json.js";

// What managedFields say of an object:
// `managers`: { id, manager, operation, subresource, apiVersion, time, fields } in the order of the object;
// `at`: Map from pointer to { owners: [id], covers: whether all below belongs to them too };
// `keys`: Map from the pointer of a list to the names of its items' keys;
// `absent`: fields that a manager owns and that the object does not have.
export function ownersOf(object) {
  const result = { managers: [], at: new Map(), keys: new Map(), absent: [] };
  const entries = object?.metadata?.managedFields;
  if (!Array.isArray(entries)) return result;
  const lists = new Map();
  for (const entry of entries) {
    if (entry === null || typeof entry !== "object") continue;
    const manager = {
      id: result.managers.length,
      manager: word(entry.manager),
      operation: word(entry.operation),
      subresource: word(entry.subresource),
      apiVersion: word(entry.apiVersion),
      time: word(entry.time),
      fields: 0,
    };
    result.managers.push(manager);
    layOver(object, entry.fieldsV1, manager, result, lists);
  }
  return result;
}

function word(value) {
  return typeof value === "string" ? value : "";
}

// One manager's fields, without recursion: their depth is the client's choice.
function layOver(object, fields, manager, result, lists) {
  const stack = [{ fields, value: object, pointer: "" }];
  while (stack.length) {
    const { fields: node, value, pointer } = stack.pop();
    if (node === null || typeof node !== "object") continue;
    for (const key of Object.keys(node)) {
      if (key === ".") continue;
      const below = node[key];
      const step = find(key, value, pointer, result, lists);
      if (step === undefined) {
        result.absent.push({ manager: manager.id, pointer, key });
        continue;
      }
      const at = child(pointer, step);
      const isLeaf = below === null || typeof below !== "object" || !Object.keys(below).some((name) => name !== ".");
      if (isLeaf || Object.hasOwn(below, ".")) own(result, at, manager, isLeaf);
      if (!isLeaf) stack.push({ fields: below, value: value[step], pointer: at });
    }
  }
}

function own(result, pointer, manager, covers) {
  const known = result.at.get(pointer);
  manager.fields += 1;
  if (!known) {
    result.at.set(pointer, { owners: [manager.id], covering: covers ? [manager.id] : [] });
    return;
  }
  if (known.owners[known.owners.length - 1] !== manager.id) known.owners.push(manager.id);
  if (covers) known.covering.push(manager.id);
}

// The member or index that a key of `FieldsV1` means in `value`.
function find(key, value, pointer, result, lists) {
  if (value === null || typeof value !== "object") return undefined;
  const rest = key.slice(2);
  switch (key.slice(0, 2)) {
    case "f:":
      return !Array.isArray(value) && Object.hasOwn(value, rest) ? rest : undefined;
    case "i:": {
      const index = Number(rest);
      return Array.isArray(value) && Number.isInteger(index) && index >= 0 && index < value.length ? index : undefined;
    }
    case "k:":
    case "v:": {
      if (!Array.isArray(value)) return undefined;
      const wanted = parsed(rest);
      if (wanted === undefined) return undefined;
      if (key[0] === "v") return indexOf(lists, value, null).get(compact(wanted));
      if (wanted === null || typeof wanted !== "object" || Array.isArray(wanted)) return undefined;
      const names = Object.keys(wanted).sort();
      if (!result.keys.has(pointer)) result.keys.set(pointer, names);
      return indexOf(lists, value, names).get(keyText(wanted, names));
    }
    default:
      return undefined;
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Where each item of a list is, by its keys or its value: made once for each list and set of keys.
function indexOf(lists, list, names) {
  let known = lists.get(list);
  if (!known) lists.set(list, known = new Map());
  const name = names === null ? "" : JSON.stringify(names);
  let index = known.get(name);
  if (!index) {
    index = new Map();
    list.forEach((item, at) => {
      const text = names === null ? compact(item) : keyText(item, names);
      if (text !== null && !index.has(text)) index.set(text, at);
    });
    known.set(name, index);
  }
  return index;
}

function keyText(item, names) {
  if (item === null || typeof item !== "object") return null;
  return compact(names.map((name) => (Object.hasOwn(item, name) ? item[name] : null)));
}

// The ids of the managers that own the field at `pointer`, itself or by owning what it is in.
export function ownersAt(result, pointer) {
  const ids = new Set(result.at.get(pointer)?.owners);
  for (let above = parent(pointer); above !== null; above = parent(above)) {
    for (const id of result.at.get(above)?.covering ?? []) ids.add(id);
  }
  return [...ids].sort((a, b) => a - b);
}

// As `ownersAt`, for many pointers of one object: what is above is looked up once.
export function ownerLookup(result) {
  const covering = new Map([["", new Set()]]);
  const above = (pointer) => {
    const missing = [];
    let at = pointer;
    while (!covering.has(at)) {
      missing.push(at);
      at = parent(at);
    }
    let ids = covering.get(at);
    for (const next of missing.reverse()) {
      const own = result.at.get(next)?.covering;
      if (own?.length) ids = new Set([...ids, ...own]);
      covering.set(next, ids);
    }
    return ids;
  };
  return (pointer) => {
    const ids = above(pointer);
    const own = result.at.get(pointer)?.owners;
    if (!own) return [...ids];
    return [...new Set([...own, ...ids])].sort((a, b) => a - b);
  };
}

// The names of a list's keys, for `readable`. Lists that no manager names items of have none.
export function keysFrom(result) {
  return (pointer) => result.keys.get(pointer) ?? null;
}

// Every leaf of the object in the order of its members: { pointer, path,
// value, owners }, an empty map or list being a leaf. At most `limit` rows.
export function leafRows(object, result, limit = 20000) {
  const rows = [];
  const lookup = ownerLookup(result);
  const keys = keysFrom(result);
  const stack = [{ value: object, pointer: "" }];
  while (stack.length && rows.length < limit) {
    const { value, pointer } = stack.pop();
    const names = value !== null && typeof value === "object" ? Object.keys(value) : [];
    if (!names.length) {
      rows.push({ pointer, path: readable(object, pointer, keys), value, owners: lookup(pointer) });
      continue;
    }
    for (const name of names.reverse()) {
      const at = child(pointer, name);
      if (at !== "/metadata/managedFields") stack.push({ value: value[name], pointer: at });
    }
  }
  return rows;
}

// A manager in one line: `kubectl (Update, scale)`.
export function managerText(manager) {
  const details = [manager.operation, manager.subresource].filter(Boolean).join(", ");
  return details ? `${manager.manager} (${details})` : manager.manager;
}
