import { test } from "node:test";
import assert from "node:assert/strict";
import { kindsOf, rootField, fieldsOf, fieldsAlong, fieldAt, resolved, schemaDiff, walkFields, documentsOfDefinition } from "../../assets/lib/openapi.js";
import { newIndex, addDocument, search } from "../../assets/lib/fieldindex.js";

const gvk = (kind) => ({ "x-kubernetes-group-version-kind": [{ group: "g", version: "v1", kind }] });
const document = {
  components: {
    schemas: {
      "g.v1.Boat": {
        type: "object", description: "A boat.", ...gvk("Boat"), required: ["spec"],
        properties: {
          spec: { default: {}, description: "Wanted.", allOf: [{ $ref: "#/components/schemas/g.v1.Spec" }] },
          metadata: { $ref: "#/components/schemas/ObjectMeta" },
        },
      },
      "g.v1.BoatList": { ...gvk("BoatList"), properties: { items: {}, metadata: { $ref: "#/components/schemas/meta.ListMeta" } } },
      "DeleteOptions": { "x-kubernetes-group-version-kind": [{ kind: "A" }, { kind: "B" }] },
      "g.v1.Spec": {
        type: "object", required: ["hull"],
        "x-kubernetes-validations": [{ rule: "self.replicas < 9", message: "too many" }],
        properties: {
          hull: { type: "string", enum: ["wood", "steel"] },
          replicas: { type: "integer", format: "int32", default: 1, minimum: 0 },
          crew: { type: "array", items: { $ref: "#/components/schemas/g.v1.Sailor" }, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] },
          labels: { type: "object", additionalProperties: { type: "string" } },
          port: { "x-kubernetes-int-or-string": true },
          loop: { $ref: "#/components/schemas/g.v1.Spec" },
        },
      },
      "g.v1.Sailor": { type: "object", properties: { name: { type: "string", description: "Called so by the others." } } },
      "Self": { $ref: "#/components/schemas/Self" },
    },
  },
};
const root = rootField(document, "g.v1.Boat");

test("kinds are those with documentation of their own", () => {
  assert.deepEqual(kindsOf(document).map(({ kind }) => kind), ["Boat"]);
  assert.deepEqual(kindsOf(null), []);
});

test("fields say what they are", () => {
  const [, spec] = fieldsOf(document, root);
  assert.equal(spec.type, "Spec");
  assert.equal(spec.description, "Wanted.");
  assert.equal(spec.required, true);
  assert.deepEqual(spec.default, {});
  assert.equal(spec.rules[0].rule, "self.replicas < 9");
  const fields = Object.fromEntries(fieldsOf(document, spec).map((field) => [field.name, field]));
  assert.equal(fields.crew.type, "[]Sailor");
  assert.deepEqual(fields.crew.mapKeys, ["name"]);
  assert.equal(fields.crew.listType, "map");
  assert.equal(fields.labels.type, "map[string]string");
  assert.equal(fields.port.type, "IntOrString");
  assert.deepEqual(fields.hull.enum, ["wood", "steel"]);
  assert.equal(fields.replicas.default, 1);
  assert.deepEqual(fields.replicas.limits, [{ name: "minimum", value: 0 }]);
});

test("paths go through lists and maps", () => {
  assert.deepEqual(fieldsAlong(document, root, ["spec", "crew", "name"]).map(({ name }) => name), ["", "spec", "crew", "name"]);
  assert.equal(fieldAt(document, root, ["spec", "crew", "0", "name"]).field.name, "name");
  assert.equal(fieldAt(document, root, ["spec", "labels", "x"]).field.name, "labels");
  assert.equal(fieldAt(document, root, ["spec", "labels", "x"]).inside, 1);
  assert.equal(fieldAt(document, root, ["spec", "none"]), null);
  assert.equal(fieldsAlong(document, root, ["spec", "__proto__"]).length, 2);
});

test("schemas that contain themselves end", () => {
  assert.deepEqual(resolved(document, { $ref: "#/components/schemas/Self" }).schema, {});
  let count = 0;
  walkFields(document, root, () => (count += 1));
  assert.equal(count, 9);
  const wide = { components: { schemas: { A: { properties: {} } } } };
  let inner = { type: "string" };
  for (let level = 0; level < 5000; level += 1) inner = { properties: { a: inner } };
  wide.components.schemas.A.properties.a = inner;
  walkFields(wide, rootField(wide, "A"), () => 0);
});

test("search finds names first, then words", () => {
  const index = newIndex();
  addDocument(index, document);
  const found = search(index, "replicas");
  assert.deepEqual(found.fields[0], { group: "g", version: "v1", kind: "Boat", rank: 0, path: ["spec", "replicas"], type: "integer", description: "" });
  assert.deepEqual(search(index, "REPL").fields[0].path, ["spec", "replicas"]);
  assert.deepEqual(search(index, "called others").fields.map(({ path, rank }) => [path.join("."), rank]), [["spec.crew.name", 3]]);
  assert.deepEqual(search(index, "crew.name").fields.map(({ path }) => path.join(".")), ["spec.crew.name"]);
  assert.equal(search(index, "boat").kinds[0].kind, "Boat");
  assert.equal(search(index, "(((").total, 0);
  assert.equal(search(index, "  ").total, 0);
});

test("schemas differ field by field", () => {
  const definition = (properties) => ({ spec: { versions: [{ name: "v1", served: true, schema: { openAPIV3Schema: { type: "object", properties } } }] } });
  const [before] = documentsOfDefinition(definition({ a: { type: "string" }, b: { type: "integer" } }));
  const [after] = documentsOfDefinition(definition({ b: { type: "integer", default: 3, enum: [3] }, c: { type: "object", properties: { d: {} } } }));
  assert.deepEqual(schemaDiff(before, after).map(({ op, path, details }) => [op, path, details.map(([what]) => what).join()]), [
    ["removed", "a", ""], ["changed", "b", "enum,default"], ["added", "c", ""],
  ]);
  assert.deepEqual(schemaDiff({ document, root }, { document, root }), []);
  assert.deepEqual(documentsOfDefinition("x"), []);
});
