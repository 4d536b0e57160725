import { test } from "node:test";
import assert from "node:assert/strict";
import { lineDiff, withContext, objectDiff } from "../../assets/lib/diff.js";

// Both sides can be had from the rows again, whatever they are.
function check(before, after) {
  const rows = lineDiff(before, after);
  const side = (left) => rows.filter((row) => row.op !== (left ? "added" : "removed"));
  assert.deepEqual(side(true).map((row) => before[row.a]), before);
  assert.deepEqual(side(false).map((row) => after[row.b]), after);
  for (const row of rows) if (row.op === "same") assert.equal(before[row.a], after[row.b]);
  return rows;
}

const marks = { same: " ", removed: "-", added: "+" };
const shown = (rows) => rows.map((row) => marks[row.op] + row.text).join("");

test("lines", () => {
  assert.equal(shown(check([..."abc"], [..."axc"])), " a-b+x c");
  assert.equal(shown(check([], [..."ab"])), "+a+b");
  assert.equal(shown(check([..."ab"], [])), "-a-b");
  assert.equal(shown(check([..."aabba"], [..."abbaa"])).replace(/[-+]./g, "").length >= 8, true);
});

test("random lines rebuild both sides, with the fewest edits where lines repeat", () => {
  let seed = 3;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 300; round += 1) {
    const make = () => Array.from({ length: random(30) }, () => "abcd"[random(4)]);
    check(make(), make());
  }
});

test("two large texts with nothing in common end soon", () => {
  const make = (letter) => Array.from({ length: 20_000 }, (_, at) => `${letter}${at % 7000}`);
  const rows = check(make("a"), make("b"));
  assert.equal(rows.length, 40_000);
});

test("context leaves out what is far from a change", () => {
  const before = Array.from({ length: 100 }, (_, at) => `l${at}`);
  const after = before.with(50, "new");
  const rows = withContext(lineDiff(before, after), 2);
  assert.deepEqual(rows.map((row) => row.op), ["gap", "same", "same", "removed", "added", "same", "same", "gap"]);
  assert.equal(rows[0].count, 48);
});

test("objects differ by field, items of lists by key", () => {
  const before = { metadata: { resourceVersion: "1" }, spec: { replicas: 1, list: [{ name: "a", v: 1 }, { name: "b" }], args: ["x"], old: {} } };
  const after = { metadata: { resourceVersion: "2" }, spec: { replicas: 2, list: [{ name: "c" }, { name: "a", v: 2 }], args: ["x", "y"], new: null } };
  const rows = objectDiff(before, after, { keysAt: (pointer) => (pointer === "/spec/list" ? ["name"] : null) });
  assert.deepEqual(rows.map(({ op, path, from, to }) => [op, path, from, to]).sort(), [
    ["added", '.spec.list[name="c"]', "/spec/list/0", "/spec/list/0"],
    ["added", ".spec.new", "/spec/new", "/spec/new"],
    ["changed", ".spec.args", "/spec/args", "/spec/args"],
    ["changed", '.spec.list[name="a"].v', "/spec/list/0/v", "/spec/list/1/v"],
    ["changed", ".spec.replicas", "/spec/replicas", "/spec/replicas"],
    ["removed", '.spec.list[name="b"]', "/spec/list/1", "/spec/list/1"],
    ["removed", ".spec.old", "/spec/old", "/spec/old"],
  ].sort());
});

test("deep objects are compared without the stack", () => {
  const deep = (end) => {
    let value = end;
    for (let count = 0; count < 50_000; count += 1) value = [value];
    return { value };
  };
  assert.equal(objectDiff(deep(1), deep(2)).length, 1);
  assert.equal(objectDiff(JSON.parse('{"__proto__":1}'), {}).length, 1);
});
