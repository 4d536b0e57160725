// Objects and documents that no server should send: the libraries answer, whatever comes.

import { test } from "node:test";
import assert from "node:assert/strict";
import { lineDiff, objectDiff, withContext } from "../../assets/lib/diff.js";
import { applyConfig, conflictsOf, editable, removalPatch } from "../../assets/lib/edit.js";
import { addDocument, newIndex, search } from "../../assets/lib/fieldindex.js";
import { eventsOf, newHistory, record } from "../../assets/lib/history.js";
import { compact, parseExact } from "../../assets/lib/json.js";
import { documentsOfDefinition, fieldAt, fieldsOf, kindsOf, rootField, schemaDiff } from "../../assets/lib/openapi.js";
import { leafRows, ownersOf } from "../../assets/lib/owners.js";
import { resolve, steps, valueAt } from "../../assets/lib/pointer.js";
import { newPolicy, rulesOf, ruleText, whoCan } from "../../assets/lib/rbac.js";
import { similar, skeleton } from "../../assets/lib/skeleton.js";
import { toYaml, yamlLines } from "../../assets/lib/yaml.js";

const NAMES = ["metadata", "managedFields", "fieldsV1", "f:spec", "f:a", "k:{\"name\":\"a\"}", "v:1", "i:0", ".", "spec", "a", "name", "manager",
  "components", "schemas", "A", "B", "properties", "items", "additionalProperties", "$ref", "allOf", "oneOf", "anyOf", "type", "enum", "default", "required", "description",
  "x-kubernetes-group-version-kind", "kind", "group", "version", "x-kubernetes-validations", "rule", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
  "rules", "verbs", "apiGroups", "resources", "subjects", "roleRef", "aggregationRule", "clusterRoleSelectors", "matchLabels", "matchExpressions", "labels",
  "__proto__", "constructor", "toString", "versions", "schema", "openAPIV3Schema", "causes", "field", "message", "reason", "resourceVersion", "namespace", ""];
const VALUES = [null, true, 0, -1, 1e300, "", "a", "*", "get", "#/components/schemas/A", "#/components/schemas/B", "FieldManagerConflict", "map", "object", "array", "\u2028\n x", "12", "__proto__"];

// The same on every run.
function generator(seed) {
  let state = seed;
  const random = (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
  const value = (depth) => {
    const kind = depth > 7 ? 0 : random(5);
    if (kind < 1) return VALUES[random(VALUES.length)];
    if (kind === 1) return Array.from({ length: random(4) }, () => value(depth + 1));
    // By way of JSON, where `__proto__` is a member like any other.
    const members = Array.from({ length: random(6) }, () => `${JSON.stringify(NAMES[random(NAMES.length)])}:${JSON.stringify(value(depth + 1))}`);
    return JSON.parse(`{${members.join(",")}}`);
  };
  return value;
}

// What is looked at of a value is where a server would put it.
const uses = [
  (a, b) => {
    const object = { ...(a ?? {}), metadata: { managedFields: b } };
    return leafRows(object, ownersOf(object)).map(({ pointer }) => valueAt(object, pointer));
  },
  (a, b) => ownersOf({ spec: a, metadata: { managedFields: [{ manager: "m", fieldsV1: { "f:spec": b } }] } }),
  (a) => yamlLines(a).map(({ pointer }) => steps(pointer)),
  (a, b) => objectDiff(a, b),
  (a, b) => withContext(lineDiff(toYaml(a).split("\n"), toYaml(b).split("\n"))),
  (a, b) => {
    const document = { components: { schemas: { A: a, B: b, C: { "x-kubernetes-group-version-kind": [{ kind: "C" }], properties: a } } } };
    const index = newIndex();
    addDocument(index, document);
    search(index, "a");
    search(index, "spec.a");
    for (const { name } of kindsOf(document)) fieldsOf(document, rootField(document, name));
    const [root, other] = [rootField(document, "A"), rootField(document, "B")];
    fieldAt(document, root, ["spec", "a", "0"]);
    skeleton({ group: "", version: "v1", kind: "A", namespaced: true }, "n", { document, root });
    return schemaDiff({ document, root }, { document, root: other });
  },
  (a, b) => kindsOf({ components: { schemas: { A: { "x-kubernetes-group-version-kind": a, properties: b } } } }),
  (a) => kindsOf(a),
  (a) => documentsOfDefinition({ spec: { versions: a } }),
  (a, b) => {
    const role = { metadata: { name: "a" }, rules: a };
    const policy = newPolicy({
      clusterRoles: [role, b, null], roles: [role, a, null],
      clusterRoleBindings: [{ roleRef: { name: "a" }, subjects: b }, { roleRef: b, subjects: a }, null],
      roleBindings: [{ metadata: { namespace: "a" }, roleRef: { kind: "Role", name: "a" }, subjects: b }, null],
    });
    whoCan(policy, { verb: "get", group: "", resource: "a", namespace: "a" });
    whoCan(policy, { verb: "get", path: "/a" });
    return rulesOf(policy, { user: "a", groups: ["a"] }).map(({ rule }) => ruleText(rule));
  },
  (a) => record(newHistory(), { type: "ADDED", object: { metadata: a } }),
  (a, b) => eventsOf(`${JSON.stringify(a)}\n${JSON.stringify(b)}\n{`),
  (a) => conflictsOf({ causes: a }),
  (a, b) => applyConfig({ kind: "K", metadata: b, spec: a }, ["/spec/a", "/spec/0/name", "/metadata/labels/a", "/spec/__proto__/a"], () => ({ keys: ["name"] })),
  (a) => removalPatch({ metadata: {}, spec: a }, ["/spec/a", "/spec/0", "/spec/__proto__"]),
  (a) => editable(toYaml(a)),
  (a, b) => similar({ spec: a, metadata: b }),
  (a) => resolve(a, ".spec.a[name=\"a\"][0][=1].metadata"),
];

test("whatever comes is answered, and leaves no trace on prototypes", () => {
  for (let seed = 1; seed <= 1500; seed += 1) {
    const value = generator(seed * 7919);
    const [a, b] = [value(0), value(0)];
    const before = compact([a, b]);
    uses.forEach((use, number) => {
      try {
        use(a, b);
      } catch (problem) {
        assert.fail(`use ${number} with seed ${seed}: ${problem.stack}\n${before}`);
      }
    });
    assert.equal(compact([a, b]), before, `seed ${seed} changed what it was given`);
  }
  assert.deepEqual(Object.keys(Object.prototype), []);
  assert.equal({}.a, undefined);
});

test("JSON in one line is JSON, and reads back the same", () => {
  for (let seed = 1; seed <= 500; seed += 1) {
    const value = generator(seed * 104729)(0);
    assert.deepEqual(JSON.parse(compact(value)), value);
    assert.deepEqual(parseExact(`[12345678901234567890,${compact(value)}]`)[1], value);
  }
});
