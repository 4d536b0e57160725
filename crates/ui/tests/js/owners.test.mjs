import { test } from "node:test";
import assert from "node:assert/strict";
import { ownersOf, ownersAt, ownerLookup, leafRows, managerText, keysFrom } from "../../assets/lib/owners.js";
import { resolve, readable, valueAt, steps } from "../../assets/lib/pointer.js";

const object = {
  metadata: {
    labels: { "app.kubernetes.io/name": "web" },
    managedFields: [
      {
        manager: "ci", operation: "Apply", apiVersion: "v1", time: "2026-01-01T00:00:00Z",
        fieldsV1: {
          "f:spec": {
            "f:selector": {},
            "f:containers": { 'k:{"name":"b"}': { ".": {}, "f:image": {}, "f:ports": { 'k:{"containerPort":80,"protocol":"TCP"}': { ".": {} } } } },
            "f:finalizers": { 'v:"x"': {} },
            "f:gone": {},
          },
        },
      },
      { manager: "kubectl", operation: "Update", subresource: "scale", fieldsV1: { "f:spec": { "f:replicas": {}, "f:containers": { 'k:{"name":"b"}': { "f:image": {} } } } } },
    ],
  },
  spec: {
    replicas: 2,
    selector: { matchLabels: { a: "b" } },
    containers: [{ name: "a", image: "1" }, { name: "b", image: "2", ports: [{ containerPort: 80, protocol: "TCP" }] }],
    finalizers: ["y", "x"],
  },
};

test("each field has its managers", () => {
  const owners = ownersOf(object);
  const rows = {
    "/spec/replicas": [1],
    "/spec/containers/1": [0],
    "/spec/containers/1/image": [0, 1],
    "/spec/containers/1/name": [],
    "/spec/containers/0/image": [],
    "/spec/containers/1/ports/0": [0],
    "/spec/finalizers/1": [0],
    "/spec/finalizers/0": [],
    // An atomic field is owned with all that is in it.
    "/spec/selector/matchLabels/a": [0],
    "/spec": [],
  };
  const lookup = ownerLookup(owners);
  for (const [pointer, expected] of Object.entries(rows)) {
    assert.deepEqual(ownersAt(owners, pointer), expected, pointer);
    assert.deepEqual(lookup(pointer), expected, pointer);
  }
  assert.deepEqual(owners.absent.map(({ key }) => key), ["f:gone"]);
  assert.equal(managerText(owners.managers[1]), "kubectl (Update, scale)");
  assert.deepEqual(owners.managers.map(({ fields }) => fields), [5, 2]);
});

test("rows are leaves with paths by key", () => {
  const rows = leafRows(object, ownersOf(object));
  assert.ok(rows.some(({ path, owners }) => path === '.spec.containers[name="b"].image' && owners.length === 2));
  assert.ok(!rows.some(({ pointer }) => pointer.startsWith("/metadata/managedFields")));
});

test("paths of conflicts are found, with dots in names", () => {
  assert.equal(resolve(object, ".metadata.labels.app.kubernetes.io/name"), "/metadata/labels/app.kubernetes.io~1name");
  assert.equal(resolve(object, '.spec.containers[name="b"].ports[containerPort=80,protocol="TCP"]'), "/spec/containers/1/ports/0");
  assert.equal(resolve(object, '.spec.finalizers[="x"]'), "/spec/finalizers/1");
  assert.equal(resolve(object, ".spec.containers[1].image"), "/spec/containers/1/image");
  for (const text of [".spec.none", ".spec[", ".spec.containers[name=", "x", '.spec.containers[name="z"]']) assert.equal(resolve(object, text), null);
  const owners = ownersOf(object);
  assert.equal(readable(object, "/spec/containers/1/image", keysFrom(owners)), '.spec.containers[name="b"].image');
  assert.deepEqual(steps("/a~1b/~0"), ["a/b", "~"]);
  assert.equal(valueAt(object, "/constructor"), undefined);
});

test("whatever managedFields hold does no harm", () => {
  let deep = {};
  let value = 1;
  for (let count = 0; count < 50_000; count += 1) {
    deep = { "f:a": deep };
    value = { a: value };
  }
  const bad = [null, 7, "x", {}, { fieldsV1: "x" }, { fieldsV1: { "k:{": {}, "v:": {}, "i:x": {}, "i:-1": {}, "f:__proto__": { "f:x": {} }, x: {}, "": {} } }, { manager: 3, fieldsV1: deep }];
  const owners = ownersOf({ ...value, metadata: { managedFields: bad } });
  assert.equal(owners.managers.length, 4);
  assert.equal({}.x, undefined);
  assert.deepEqual(ownersOf(null).managers, []);
});

test("a list of many items is looked through once", () => {
  const list = Array.from({ length: 20_000 }, (_, at) => ({ name: `n${at}` }));
  const fields = Object.fromEntries(list.map(({ name }) => [`k:{"name":"${name}"}`, { ".": {} }]));
  const owners = ownersOf({ list, metadata: { managedFields: [{ fieldsV1: { "f:list": fields } }] } });
  assert.equal(owners.managers[0].fields, 20_000);
});
