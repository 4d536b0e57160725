// The least of an object that a schema asks for, to begin a new one with.

import { isServerField } from "./edit.js";
import { asText } from "./json.js";
import { fieldsOf } from "./openapi.js";
import { put } from "./pointer.js";

const MAX_DEPTH = 8;

// An object of a kind with its required fields, and `spec` if it has one.
export function skeleton({ group, version, kind, namespaced }, namespace, schema) {
  const object = { apiVersion: group ? `${group}/${version}` : version, kind, metadata: { name: "" } };
  if (namespaced) object.metadata.namespace = namespace || "default";
  if (!schema) return object;
  for (const field of fieldsOf(schema.document, schema.root)) {
    if (["apiVersion", "kind", "metadata", "status"].includes(field.name)) continue;
    if (field.required || field.name === "spec" || field.name === "data") put(object, field.name, example(schema.document, field, 0));
  }
  return object;
}

function example(document, field, depth) {
  if (field.default !== undefined) return field.default;
  if (field.enum.length) return field.enum[0];
  const required = depth < MAX_DEPTH ? fieldsOf(document, field).filter((one) => one.required) : [];
  const inner = {};
  for (const one of required) put(inner, one.name, example(document, one, depth + 1));
  if (field.wraps[0] === "[]") return required.length ? [inner] : [];
  if (field.wraps.length) return {};
  switch (field.type) {
    case "string": return "";
    case "integer": case "number": case "IntOrString": return 0;
    case "boolean": return false;
    default: return inner;
  }
}

// A copy of an object without what belongs to it alone.
export function similar(object) {
  const copy = {};
  for (const [name, value] of Object.entries(object)) if (name !== "status" && name !== "metadata") put(copy, name, value);
  const metadata = {};
  for (const [name, value] of Object.entries(object.metadata ?? {})) {
    if (!isServerField(`/metadata/${name}`) && name !== "ownerReferences") put(metadata, name, value);
  }
  metadata.name = `${asText(object.metadata?.name)}-copy`;
  if (object.metadata?.namespace) metadata.namespace = object.metadata.namespace;
  put(copy, "metadata", metadata);
  return copy;
}
