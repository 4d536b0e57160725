import { test } from "node:test";
import assert from "node:assert/strict";
import { applyConfig, removalPatch, conflictsOf, without, editable } from "../../assets/lib/edit.js";
import { rootField } from "../../assets/lib/openapi.js";
import { similar, skeleton } from "../../assets/lib/skeleton.js";
import { toYaml } from "../../assets/lib/yaml.js";

const wanted = {
  apiVersion: "v1", kind: "Boat",
  metadata: { name: "b", namespace: "n", resourceVersion: "4", labels: { a: "1", b: "2" } },
  spec: { replicas: 3, crew: [{ name: "x", rank: 1 }, { name: "y", rank: 2, tags: ["p", "q"] }], args: [1, 2], set: ["r", "s"] },
  status: { replicas: 1 },
};
const lists = { "/spec/crew": { keys: ["name"] }, "/spec/set": { set: true } };
const listAt = (pointer) => lists[pointer] ?? null;

test("an apply configuration has what was set, with the keys of items, and no more", () => {
  const pointers = ["/metadata/labels/a", "/spec/crew/1/rank", "/spec/crew/1/tags/0", "/spec/args/1", "/spec/set/1", "/status/replicas", "/metadata/resourceVersion"];
  assert.deepEqual(applyConfig(wanted, pointers, listAt), {
    apiVersion: "v1", kind: "Boat",
    metadata: { name: "b", namespace: "n", labels: { a: "1" } },
    spec: { crew: [{ name: "y", rank: 2, tags: ["p", "q"] }], args: [1, 2], set: ["s"] },
  });
  assert.deepEqual(applyConfig(wanted, ["/spec/crew/0", "/spec/crew/0/rank", "/none/x"], listAt).spec, { crew: [{ name: "x", rank: 1 }] });
});

test("copying leaves the object itself alone", () => {
  const before = JSON.stringify(wanted);
  applyConfig(wanted, ["/spec/crew/1/name", "/spec/crew/1", "/spec", "/spec/replicas"], listAt);
  assert.equal(JSON.stringify(wanted), before);
  const hostile = JSON.parse('{"kind":"K","metadata":{"name":"n"},"__proto__":{"x":1}}');
  applyConfig(hostile, ["/__proto__/x"], listAt);
  assert.equal({}.x, undefined);
});

test("removals go from the end, for one version", () => {
  assert.deepEqual(removalPatch(wanted, ["/spec/args/0", "/spec/args/1", "/spec/none", "/spec/replicas"]), [
    { op: "test", path: "/metadata/resourceVersion", value: "4" },
    { op: "remove", path: "/spec/replicas" },
    { op: "remove", path: "/spec/args/1" },
    { op: "remove", path: "/spec/args/0" },
  ]);
});

test("conflicts are read field by field", () => {
  const cause = (message, field) => ({ reason: "FieldManagerConflict", message, field });
  assert.deepEqual(conflictsOf({ causes: [cause('conflict with "a"', ".x"), cause('conflict with "b"', ".x"), { reason: "Other" }, null] }),
    [{ field: ".x", managers: ['"a"', '"b"'] }]);
  assert.deepEqual(conflictsOf(undefined), []);
  assert.deepEqual(without(["/a/b", "/a", "/c"], ["/a"]), ["/c"]);
});

test("the text to edit is without managedFields and status", () => {
  const text = toYaml({
    apiVersion: "v1", data: { a: "x\n  managedFields:\nstatus: y\n" },
    metadata: { managedFields: [{ manager: "a", fieldsV1: { "f:x": {} } }], name: "n" }, status: { a: [1] }, z: 1,
  });
  assert.equal(editable(text), toYaml({ apiVersion: "v1", data: { a: "x\n  managedFields:\nstatus: y\n" }, metadata: { name: "n" }, z: 1 }));
});

test("a new object begins with what its schema requires, or with another's fields", () => {
  const schema = {
    type: "object", required: ["spec"],
    properties: { spec: { type: "object", required: ["hull", "crew"], properties: { hull: { type: "string", enum: ["wood"] }, crew: { type: "array", items: { type: "object", required: ["name"], properties: { name: { type: "string" } } } }, sails: { type: "integer" } } } },
  };
  const document = { components: { schemas: { Boat: schema } } };
  assert.deepEqual(skeleton({ group: "g", version: "v1", kind: "Boat", namespaced: true }, "n", { document, root: rootField(document, "Boat") }), {
    apiVersion: "g/v1", kind: "Boat", metadata: { name: "", namespace: "n" }, spec: { hull: "wood", crew: [{ name: "" }] },
  });
  assert.deepEqual(similar({ ...wanted, metadata: { ...wanted.metadata, uid: "u", managedFields: [], ownerReferences: [{}] } }), {
    apiVersion: "v1", kind: "Boat", spec: wanted.spec, metadata: { labels: wanted.metadata.labels, name: "b-copy", namespace: "n" },
  });
});
