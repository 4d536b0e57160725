// Differences: of two lists of lines, and of two objects field by field.

import { child, readable } from "./pointer.js";
import { compact } from "./json.js";

// More edits than this between two anchors count as one replacement.
const MAX_EDITS = 300;

// Rows { op: 'same' | 'removed' | 'added', a, b, text } in order; `a` and `b`
// are the numbers of the lines, from 0, on the sides that have them. Lines
// that are unique on both sides are anchors; between them Myers' search.
export function lineDiff(before, after) {
  const rows = [];
  const ids = new Map();
  const number = (line) => {
    if (!ids.has(line)) ids.set(line, ids.size);
    return ids.get(line);
  };
  const a = before.map(number);
  const b = after.map(number);
  let [fromA, fromB] = [0, 0];
  for (const [atA, atB] of [...anchors(a, b), [a.length, b.length]]) {
    between(a, fromA, atA, b, fromB, atB, rows);
    if (atA < a.length && atB < b.length) rows.push({ op: "same", a: atA, b: atB });
    [fromA, fromB] = [atA + 1, atB + 1];
  }
  for (const row of rows) row.text = row.b === undefined ? before[row.a] : after[row.b];
  return rows;
}

// Pairs of lines that stand once on each side, the longest chain that goes up on both.
function anchors(a, b) {
  const count = (list) => list.reduce((counts, id) => counts.set(id, (counts.get(id) ?? 0) + 1), new Map());
  const [inA, inB] = [count(a), count(b)];
  const placeInB = new Map(b.map((id, at) => [id, at]));
  const pairs = [];
  a.forEach((id, at) => {
    if (inA.get(id) === 1 && inB.get(id) === 1) pairs.push([at, placeInB.get(id)]);
  });
  const tails = [];
  const previous = new Array(pairs.length).fill(-1);
  pairs.forEach(([, place], index) => {
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tails[middle]][1] < place) low = middle + 1;
      else high = middle;
    }
    if (low > 0) previous[index] = tails[low - 1];
    tails[low] = index;
  });
  const chain = [];
  for (let index = tails.length ? tails[tails.length - 1] : -1; index >= 0; index = previous[index]) {
    chain.push(pairs[index]);
  }
  return chain.reverse();
}

function between(a, fromA, toA, b, fromB, toB, rows) {
  while (fromA < toA && fromB < toB && a[fromA] === b[fromB]) {
    rows.push({ op: "same", a: fromA, b: fromB });
    fromA += 1;
    fromB += 1;
  }
  let [endA, endB] = [toA, toB];
  while (endA > fromA && endB > fromB && a[endA - 1] === b[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  if (endA > fromA || endB > fromB) {
    const same = myers(a, fromA, endA, b, fromB, endB);
    let [atA, atB] = [fromA, fromB];
    for (const [x, y] of [...same, [endA, endB]]) {
      while (atA < x) rows.push({ op: "removed", a: atA++ });
      while (atB < y) rows.push({ op: "added", b: atB++ });
      if (x < endA && y < endB) rows.push({ op: "same", a: atA++, b: atB++ });
    }
  }
  for (; endA < toA; endA += 1, endB += 1) rows.push({ op: "same", a: endA, b: endB });
}

// The pairs of equal lines on a shortest way of edits; none if it takes too many.
function myers(a, fromA, toA, b, fromB, toB) {
  const [n, m] = [toA - fromA, toB - fromB];
  if (!n || !m) return [];
  const bound = Math.min(n + m, MAX_EDITS);
  const reach = new Int32Array(2 * bound + 3);
  const trace = [];
  for (let edits = 0; edits <= bound; edits += 1) {
    trace.push(reach.slice(bound + 1 - edits - 1, bound + 1 + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reach[bound + k] < reach[bound + k + 2]);
      let x = down ? reach[bound + k + 2] : reach[bound + k] + 1;
      while (x < n && x - k < m && x - k >= 0 && a[fromA + x] === b[fromB + x - k]) x += 1;
      reach[bound + 1 + k] = x;
      if (x >= n && x - k >= m) return wayBack(trace, edits, n, m).map(([x, y]) => [fromA + x, fromB + y]);
    }
  }
  return [];
}

function wayBack(trace, edits, n, m) {
  const pairs = [];
  let [x, y] = [n, m];
  for (let left = edits; left > 0; left -= 1) {
    const row = trace[left];
    const at = (k) => row[k + left + 1];
    const k = x - y;
    const down = k === -left || (k !== left && at(k - 1) < at(k + 1));
    const previousK = down ? k + 1 : k - 1;
    const previousX = at(previousK);
    const previousY = previousX - previousK;
    const startX = down ? previousX : previousX + 1;
    while (x > startX) pairs.push([--x, --y]);
    [x, y] = [previousX, previousY];
  }
  while (x > 0 && y > 0) pairs.push([--x, --y]);
  return pairs.reverse();
}

// The rows near a change, with { op: 'gap', count } for those left out.
export function withContext(rows, context = 3) {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (row.op !== "same") near.fill(1, Math.max(0, at - context), at + context + 1);
  });
  const shown = [];
  for (let at = 0; at < rows.length; at += 1) {
    if (near[at]) shown.push(rows[at]);
    else if (shown[shown.length - 1]?.op === "gap") shown[shown.length - 1].count += 1;
    else shown.push({ op: "gap", count: 1 });
  }
  return shown;
}

// The fields that the server writes with every change.
export const BOOKKEEPING = new Set(["/metadata/managedFields", "/metadata/resourceVersion", "/metadata/generation"]);

// The fields in which two objects differ: { op: 'added' | 'removed' |
// 'changed', path, from, to, before, after }, `from` and `to` being pointers
// into each side. Items of lists are the same if their keys are; keys come
// from `keysAt(pointer)`, else from a member that commonly names items.
export function objectDiff(before, after, { ignore = BOOKKEEPING, keysAt = () => null, limit = 5000 } = {}) {
  const rows = [];
  const stack = [{ before, after, from: "", to: "" }];
  while (stack.length && rows.length < limit) {
    const pair = stack.pop();
    if (ignore.has(pair.to) || ignore.has(pair.from)) continue;
    const row = (op, root, at) => rows.push({ op, path: readable(root, at, keysAt), ...pair });
    if (pair.before === undefined) row("added", after, pair.to);
    else if (pair.after === undefined) row("removed", before, pair.from);
    else if (!isMap(pair.before) || !isMap(pair.after) || Array.isArray(pair.before) !== Array.isArray(pair.after)) {
      if (!sameScalar(pair.before, pair.after)) row("changed", after, pair.to);
    } else {
      const below = Array.isArray(pair.before) ? items(pair, keysAt) : members(pair);
      if (below === null) {
        if (compact(pair.before) !== compact(pair.after)) row("changed", after, pair.to);
      } else {
        for (const next of below.reverse()) stack.push(next);
      }
    }
  }
  return rows;
}

function isMap(value) {
  return value !== null && typeof value === "object";
}

function sameScalar(a, b) {
  if (isMap(a) || isMap(b)) return compact(a) === compact(b);
  return a === b;
}

function members(pair) {
  const names = new Set([...Object.keys(pair.before), ...Object.keys(pair.after)]);
  const get = (map, name) => (Object.hasOwn(map, name) ? map[name] : undefined);
  return [...names].map((name) => ({
    before: get(pair.before, name),
    after: get(pair.after, name),
    from: child(pair.from, name),
    to: child(pair.to, name),
  }));
}

const COMMON_KEYS = [["name"], ["type"], ["key"], ["uid"], ["containerPort", "protocol"], ["port", "protocol"], ["mountPath"], ["ip"]];

// The items of two lists in pairs, or `null` where only the whole lists can be compared.
function items(pair, keysAt) {
  const given = keysAt(pair.to);
  const choices = given ? [given] : COMMON_KEYS;
  for (const keys of choices) {
    const [a, b] = [keyed(pair.before, keys), keyed(pair.after, keys)];
    if (!a || !b) continue;
    const texts = new Set([...b.keys(), ...a.keys()]);
    return [...texts].map((text) => {
      const [atA, atB] = [a.get(text), b.get(text)];
      return {
        before: atA === undefined ? undefined : pair.before[atA],
        after: atB === undefined ? undefined : pair.after[atB],
        from: child(pair.from, atA ?? atB),
        to: child(pair.to, atB ?? atA),
      };
    });
  }
  return null;
}

function keyed(list, keys) {
  const index = new Map();
  for (const [at, item] of list.entries()) {
    if (!isMap(item) || Array.isArray(item) || !Object.hasOwn(item, keys[0])) return null;
    const text = compact(keys.map((key) => (Object.hasOwn(item, key) ? item[key] : null)));
    if (index.has(text)) return null;
    index.set(text, at);
  }
  return index;
}
