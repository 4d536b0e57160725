import assert from "node:assert/strict";
import test from "node:test";

import { entryText, fieldChanges, filesOf, isSecret, linesOf, nameOf, pairs, placeText, valueOf, writersOf } from "../../assets/lib/overlays.js";

const field = (path, value, ...writers) => ({
  path, value, writers, shown: path.map((step, at) => (typeof step === "number" ? `[${step}]` : at ? `.${step}` : step)).join(""),
});

function configMap(name, data, { namespace = "", names = [], kind = "ConfigMap" } = {}) {
  const entries = Object.entries(data);
  const fields = [field(["apiVersion"], "v1", 0), ...entries.map(([key, value]) => field(["data", key], value, 1, 0)), field(["kind"], kind, 0), field(["metadata", "name"], name, 0)];
  const yaml = `apiVersion: v1\ndata:\n${entries.map(([key, value]) => `  ${key}: ${value}\n`).join("")}kind: ${kind}\nmetadata:\n  name: ${name}\n`;
  return { group: "", version: "v1", kind, namespace, name, names, yaml, fields };
}

const writers = [
  { file: "base/config.yaml", line: 3, column: 1, field: "resources[0]", kustomization: "base/kustomization.yaml", by: "resources" },
  { file: "over/patch.yaml", line: 6, column: 9, field: "patches[0]", kustomization: "over/kustomization.yaml", by: "PatchTransformer" },
];
const build = (...objects) => ({ objects, writers });

test("fields make up the value again", () => {
  const fields = [field(["a", 0, "name"], "x"), field(["a", 1], []), field(["b"], null)];
  assert.deepEqual(valueOf(fields), { a: [{ name: "x" }, []], b: null });
});

test("a field called __proto__ is a field", () => {
  const value = valueOf([field(["data", "__proto__", "x"], "1"), field(["data", "y"], "2")]);
  assert.deepEqual(Object.keys(value.data), ["__proto__", "y"]);
  assert.equal({}.x, undefined);
});

test("a line has the field whose value it shows", () => {
  const object = configMap("a", { color: "red" });
  const lines = linesOf(object);
  assert.deepEqual(lines.map(({ text, field: found }) => [text, found?.shown ?? null]), [
    ["apiVersion: v1", "apiVersion"], ["data:", null], ["  color: red", "data.color"], ["kind: ConfigMap", "kind"], ["metadata:", null], ["  name: a", "metadata.name"],
  ]);
  assert.deepEqual(writersOf(build(object), lines[2].field).map(placeText), ["over/patch.yaml:6", "base/config.yaml:3"]);
});

test("a text that is written in another way is shown without fields", () => {
  const lines = linesOf({ ...configMap("a", { color: "red" }), yaml: "{}\n" });
  assert.deepEqual(lines, [{ text: "{}", pointer: null, field: null }]);
});

test("entries are told unless a file of objects says enough", () => {
  assert.deepEqual(writers.map((writer) => entryText(writer)), ["", "patches[0] of over/kustomization.yaml"]);
  assert.equal(entryText(writers[1], "short"), "patches[0]");
  assert.equal(entryText({ file: "k.yaml", kustomization: "k.yaml", field: "images[0]", by: "ImageTagTransformer" }), "images[0]");
  assert.equal(placeText({ by: "HashTransformer" }), "HashTransformer");
});

test("files are counted by the last writer", () => {
  assert.deepEqual(filesOf(build(configMap("a", { color: "red" }))), [{ file: "base/config.yaml", count: 3 }, { file: "over/patch.yaml", count: 1 }]);
});

test("objects are paired by name, then by the name they had", () => {
  const left = build(configMap("a", { x: "1" }), configMap("dev-b", { x: "1" }, { names: ["b"] }), configMap("gone", {}), configMap("moved", { x: "1" }, { namespace: "dev" }));
  const right = build(configMap("prod-b", { x: "2" }, { names: ["b"] }), configMap("a", { x: "1" }), configMap("new", {}), configMap("moved", { x: "2" }, { namespace: "prod" }));
  assert.deepEqual(pairs(left, right).map(({ name, right: partner, state }) => [name, partner?.name ?? null, state]), [
    ["ConfigMap/a", "a", "same"],
    ["ConfigMap/dev-b", "prod-b", "changed"],
    ["ConfigMap/gone", null, "left"],
    ["ConfigMap/moved.dev", "moved", "changed"],
    ["ConfigMap/new", "new", "right"],
  ]);
});

test("a name that two objects had pairs nothing", () => {
  const left = build(configMap("x-b", {}, { names: ["b"] }), configMap("y-b", {}, { names: ["b"] }));
  const right = build(configMap("z-b", {}, { names: ["b"] }));
  assert.deepEqual(pairs(left, right).map(({ state }) => state), ["left", "left", "right"]);
});

test("changes come with the fields that wrote each side", () => {
  const left = configMap("a", { color: "red", size: "small" });
  const right = configMap("a", { color: "blue", shape: "round" });
  const changes = fieldChanges(left, right).map(({ op, path, before, after, left: was, right: is }) => [op, path, before ?? null, after ?? null, was?.shown ?? null, is?.shown ?? null]);
  assert.deepEqual(changes.sort(), [
    ["added", "data.shape", null, "round", null, "data.shape"],
    ["changed", "data.color", "red", "blue", "data.color", "data.color"],
    ["removed", "data.size", "small", null, "data.size", null],
  ]);
});

test("what was added as a whole has the path of the whole", () => {
  const plain = { ...configMap("a", {}), fields: [field(["kind"], "Pod")] };
  const full = { ...plain, fields: [field(["kind"], "Pod"), { path: ["spec", "c", 0, "name"], shown: 'spec.c[name=x].name', value: "x", writers: [0] }, { path: ["spec", "c", 0, "a.b"], shown: 'spec.c[name=x]["a.b"]', value: 1, writers: [0] }] };
  const [change] = fieldChanges(plain, full);
  assert.deepEqual([change.op, change.path, change.right.shown], ["added", "spec", "spec.c[name=x].name"]);
});

test("values of Secrets are secret, their names are not", () => {
  const secret = configMap("s", {}, { kind: "Secret" });
  assert.deepEqual(["/data/password", "/stringData/x", "/metadata/name", "/data", null].map((pointer) => isSecret(secret, pointer)), [true, true, false, false, false]);
  assert.equal(isSecret(configMap("c", {}), "/data/password"), false);
  assert.equal(nameOf(secret), "Secret/s");
});
