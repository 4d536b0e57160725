// Search over all fields of all kinds. Fields are kept as numbers: the name,
// the parent's number and the description of each, with strings shared with
// the documents, so that half a million of them are a few megabytes.

import { kindsOf, rootField, walkFields } from "./openapi.js";

// An empty index. Documents are added one by one, as they arrive.
export function newIndex() {
  return { names: [], parents: [], kinds: [], texts: [], types: [], byName: new Map(), documents: 0, allKinds: [], known: new Set() };
}

// Adds the kinds of a document and all their fields.
export function addDocument(index, document) {
  index.documents += 1;
  for (const kind of kindsOf(document)) {
    // Scale and a few others stand in every document that uses them.
    const key = JSON.stringify([kind.group, kind.version, kind.kind]);
    const root = index.known.has(key) ? null : rootField(document, kind.name);
    if (!root) continue;
    index.known.add(key);
    const own = index.allKinds.push({ ...kind, description: root.description }) - 1;
    walkFields(document, root, (field, _, parent) => {
      const number = index.names.push(field.name) - 1;
      index.parents.push(parent);
      index.kinds.push(own);
      index.texts.push(field.description);
      index.types.push(field.type);
      const known = index.byName.get(field.name);
      if (known) known.push(number);
      else index.byName.set(field.name, [number]);
      return number;
    });
  }
}

// The path of a field, from its kind down.
export function pathOf(index, number) {
  const names = [];
  for (let at = number; at >= 0; at = index.parents[at]) names.push(index.names[at]);
  return names.reverse();
}

// Fields whose name is, begins with or has the query in it, and fields and kinds whose description has all its words:
// { kinds, fields: [{ group, version, kind, path, type, description, rank }], total }. A query with dots is the end of a path.
export function search(index, query, limit = 200) {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return { kinds: [], fields: [], total: 0 };
  const segments = wanted.split(".").filter(Boolean);
  const last = segments[segments.length - 1] ?? "";
  const ranks = [[], [], [], []];
  for (const [name, numbers] of index.byName) {
    const lower = name.toLowerCase();
    const rank = lower === last ? 0 : segments.length > 1 ? -1 : lower.startsWith(last) ? 1 : lower.includes(last) ? 2 : -1;
    if (rank < 0 || last === "") continue;
    for (const number of numbers) if (endsWith(index, number, segments)) ranks[rank].push(number);
  }
  const words = wanted.split(/\s+/).slice(0, 8);
  const found = new Set(ranks.flat());
  if (words.join("").length >= 3) {
    const tests = words.map((word) => new RegExp(word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"));
    index.texts.forEach((text, number) => {
      if (text && !found.has(number) && tests.every((test) => test.test(text))) ranks[3].push(number);
    });
  }
  const fields = [];
  ranks.forEach((numbers, rank) => {
    // What is near the top of its kind is what most people look for.
    const depths = new Map(numbers.map((number) => [number, depthOf(index, number)]));
    for (const number of numbers.sort((a, b) => depths.get(a) - depths.get(b))) {
      if (fields.length >= limit) return;
      const { group, version, kind } = index.allKinds[index.kinds[number]];
      fields.push({
        group, version, kind, rank, path: pathOf(index, number), type: index.types[number], description: index.texts[number],
      });
    }
  });
  const kinds = index.allKinds.filter(({ kind }) => kind.toLowerCase().includes(wanted)).slice(0, limit);
  return { kinds, fields, total: ranks.reduce((sum, numbers) => sum + numbers.length, 0) };
}

function depthOf(index, number) {
  let depth = 0;
  for (let at = number; at >= 0; at = index.parents[at]) depth += 1;
  return depth;
}

function endsWith(index, number, segments) {
  let at = number;
  for (let place = segments.length - 1; place >= 0; place -= 1) {
    if (at < 0 || index.names[at].toLowerCase() !== segments[place]) return segments.length === 1;
    at = index.parents[at];
  }
  return true;
}
