// OpenAPI v3 documents as documentation: kinds, their fields, and what differs
// between two versions. Schemas may point at themselves, so that fields are
// made one level at a time, on demand.

import { asText } from "./json.js";

// A chain of references and wrappers longer than this is taken for a loop.
const MAX_CHAIN = 50;

// Fields compared or walked at most for one kind.
const MAX_FIELDS = 20_000;
const MAX_DEPTH = 40;

// The kinds that a document describes: { group, version, kind, name }, `name` of the schema, by kind.
export function kindsOf(document) {
  const kinds = [];
  for (const [name, schema] of Object.entries(schemasOf(document))) {
    const given = schema?.["x-kubernetes-group-version-kind"];
    // Options and events belong to every group; they are nobody's documentation.
    if (!Array.isArray(given) || given.length !== 1) continue;
    const { group = "", version = "", kind = "" } = given[0] ?? {};
    if (typeof kind !== "string" || kind === "" || isList(document, schema, kind)) continue;
    kinds.push({ group, version, kind, name });
  }
  return kinds.sort((a, b) => (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : 0));
}

function isList(document, schema, kind) {
  return kind.endsWith("List") && schema.properties?.items !== undefined
    && /ListMeta$/.test(refOf(schema.properties.metadata) ?? "");
}

function schemasOf(document) {
  const schemas = document?.components?.schemas;
  return schemas !== null && typeof schemas === "object" ? schemas : {};
}

// The name that a schema points at, itself or as the only member of `allOf`.
function refOf(schema) {
  const direct = schema?.$ref ?? (schema?.allOf?.length === 1 ? schema.allOf[0]?.$ref : undefined);
  return typeof direct === "string" ? direct : undefined;
}

// A schema without references at its top: { schema, ref }. What stands beside
// a reference (its description, its default) goes before what it points at.
export function resolved(document, given) {
  let schema = given;
  let ref;
  const beside = [];
  for (let count = 0; count < MAX_CHAIN; count += 1) {
    const next = refOf(schema);
    if (next === undefined) return { schema: beside.length ? merged([...beside, schema ?? {}]) : schema ?? {}, ref };
    ref = next.slice(next.lastIndexOf("/") + 1);
    const { $ref: _, allOf: __, ...rest } = schema;
    if (Object.keys(rest).length) beside.push(rest);
    const schemas = schemasOf(document);
    schema = Object.hasOwn(schemas, ref) ? schemas[ref] : {};
  }
  return { schema: {}, ref };
}

function merged(parts) {
  const all = Object.create(null);
  for (const part of parts) {
    for (const [name, value] of Object.entries(part)) if (!(name in all)) all[name] = value;
  }
  return all;
}

// The whole of a kind as a field without a name.
export function rootField(document, schemaName) {
  const schemas = schemasOf(document);
  return Object.hasOwn(schemas, schemaName)
    ? fieldOf(document, "", { $ref: `#/components/schemas/${schemaName}` }, false) : null;
}

// The fields of a field: of an object its properties, of a list or a map those of what it holds.
export function fieldsOf(document, field) {
  const { inner } = field;
  const properties = inner?.properties;
  if (properties === null || typeof properties !== "object") return [];
  const required = new Set(Array.isArray(inner.required) ? inner.required : []);
  return Object.keys(properties).sort().map((name) => fieldOf(document, name, properties[name], required.has(name)));
}

// One field by its name, `null` if there is none.
export function fieldNamed(document, field, name) {
  const properties = field.inner?.properties;
  if (properties === null || typeof properties !== "object" || !Object.hasOwn(properties, name)) return null;
  const isRequired = Array.isArray(field.inner.required) && field.inner.required.includes(name);
  return fieldOf(document, name, properties[name], isRequired);
}

// The fields along a path of names, the root first; ends where a name is not there.
export function fieldsAlong(document, root, names) {
  const along = [root];
  for (const name of names) {
    const next = fieldNamed(document, along[along.length - 1], name);
    if (!next) break;
    along.push(next);
  }
  return along;
}

// The field of an object's pointer: { field, inside, names }. Indexes of lists and keys of maps stand for what they
// hold; `inside` counts how many of them the pointer has entered, `names` are those of the fields on the way.
export function fieldAt(document, root, steps) {
  let field = root;
  // Lists and maps around the fields of `field` that are still to be entered.
  let inside = 0;
  const names = [];
  for (const step of steps) {
    if (inside < field.wraps.length) {
      inside += 1;
      continue;
    }
    field = fieldNamed(document, field, step);
    if (!field) return null;
    inside = 0;
    names.push(step);
  }
  return { field, inside, names };
}

function fieldOf(document, name, given, required) {
  const { schema, ref } = resolved(document, given);
  const wraps = [];
  let inner = schema;
  let innerRef = ref;
  for (let count = 0; count < MAX_CHAIN; count += 1) {
    const below = inner?.items ?? (isMap(inner?.additionalProperties) ? inner.additionalProperties : undefined);
    if (!isMap(below) || inner.properties) break;
    wraps.push(inner.items ? "[]" : "map[string]");
    const next = resolved(document, below);
    inner = next.schema;
    innerRef = next.ref;
  }
  const text = (value) => (typeof value === "string" ? value : "");
  const list = (value) => (Array.isArray(value) ? value : []);
  return {
    name,
    required,
    inner,
    wraps,
    ref: innerRef,
    type: wraps.join("") + typeText(inner, innerRef),
    description: text(schema.description) || (name === "" ? "" : text(inner?.description)),
    format: text(schema.format) || text(inner?.format),
    enum: list(schema.enum).length ? list(schema.enum) : list(inner?.enum),
    default: schema.default,
    nullable: schema.nullable === true,
    listType: text(schema["x-kubernetes-list-type"]),
    mapType: text(schema["x-kubernetes-map-type"]),
    mapKeys: list(schema["x-kubernetes-list-map-keys"]).filter((key) => typeof key === "string"),
    patchStrategy: text(schema["x-kubernetes-patch-strategy"]),
    patchMergeKey: text(schema["x-kubernetes-patch-merge-key"]),
    rules: rulesOf(schema).concat(inner === schema ? [] : rulesOf(inner)),
    preserves: schema["x-kubernetes-preserve-unknown-fields"] === true,
    embedded: schema["x-kubernetes-embedded-resource"] === true,
    limits: limitsOf(schema).concat(inner === schema ? [] : limitsOf(inner)),
  };
}

function isMap(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

// As `kubectl explain` names types: Object for what has no name, the last part of the name for what has one.
function typeText(schema, ref) {
  if (schema?.["x-kubernetes-int-or-string"] === true || schema?.format === "int-or-string") return "IntOrString";
  if (ref) return ref.slice(ref.lastIndexOf(".") + 1);
  const type = schema?.type;
  if (typeof type === "string" && type !== "object") return type;
  const choices = [schema?.oneOf, schema?.anyOf].find(Array.isArray);
  if (choices) {
    const types = choices.map((one) => one?.type).filter((one) => typeof one === "string");
    if (types.length) return types.join(" or ");
  }
  return type === "object" || schema?.properties ? "Object" : "any";
}

// CEL rules: { rule, message, reason, fieldPath }.
function rulesOf(schema) {
  const rules = schema?.["x-kubernetes-validations"];
  if (!Array.isArray(rules)) return [];
  return rules.filter(isMap).map(({ rule, message, messageExpression, reason, fieldPath }) => ({
    rule: asText(rule),
    message: asText(message),
    messageExpression: asText(messageExpression),
    reason: asText(reason),
    fieldPath: asText(fieldPath),
  }));
}

const LIMITS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
  "pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"];

function limitsOf(schema) {
  return LIMITS.filter((name) => schema?.[name] !== undefined && schema[name] !== false)
    .map((name) => ({ name, value: schema[name] }));
}

// Calls back with every field of a kind below its root: (field, path, parent's number) → a number for its children.
// A schema inside of itself is named but not entered again.
export function walkFields(document, root, each) {
  const stack = [{ field: root, path: [], refs: root.ref ? [root.ref] : [], number: -1 }];
  let count = 0;
  while (stack.length) {
    const { field, path, refs, number } = stack.pop();
    const below = [];
    for (const next of fieldsOf(document, field)) {
      count += 1;
      if (count > MAX_FIELDS) return;
      const own = each(next, path, number);
      const again = next.ref !== undefined && refs.includes(next.ref);
      if (!again && path.length < MAX_DEPTH && next.inner?.properties) {
        below.push({ field: next, path: [...path, next.name], refs: next.ref ? [...refs, next.ref] : refs, number: own });
      }
    }
    // The last one in is the next one out: in the order of their names.
    for (const next of below.reverse()) stack.push(next);
  }
}

// What differs between two kinds' schemas: { op, path, before, after, details } with
// details of changed fields as [what, before, after], sorted by path.
export function schemaDiff(before, after) {
  const rows = [];
  const stack = [{ a: before.root, b: after.root, path: [], refs: [] }];
  const differ = (a, b, path) => {
    const details = detailsOf(a, b);
    if (details.length) rows.push({ op: "changed", path: path.join("."), before: a, after: b, details });
  };
  differ(before.root, after.root, []);
  while (stack.length && rows.length < MAX_FIELDS) {
    const { a, b, path, refs } = stack.pop();
    const here = new Map(fieldsOf(before.document, a).map((field) => [field.name, field]));
    const there = new Map(fieldsOf(after.document, b).map((field) => [field.name, field]));
    for (const name of new Set([...here.keys(), ...there.keys()])) {
      const [x, y] = [here.get(name), there.get(name)];
      const at = [...path, name];
      if (!x) rows.push({ op: "added", path: at.join("."), after: y, details: [] });
      else if (!y) rows.push({ op: "removed", path: at.join("."), before: x, details: [] });
      else {
        differ(x, y, at);
        const pair = x.ref || y.ref ? `${x.ref} ${y.ref}` : "";
        if (at.length < MAX_DEPTH && !(pair && refs.includes(pair))) {
          stack.push({ a: x, b: y, path: at, refs: pair ? [...refs, pair] : refs });
        }
      }
    }
  }
  return rows.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
}

const COMPARED = ["type", "required", "description", "format", "enum", "default", "nullable", "listType", "mapType",
  "mapKeys", "patchStrategy", "patchMergeKey", "rules", "preserves", "embedded", "limits"];

function detailsOf(a, b) {
  const text = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));
  return COMPARED.map((what) => [what, text(a[what]), text(b[what])]).filter(([, x, y]) => x !== y);
}

// The schema of each version of a CustomResourceDefinition as a document of its own: for what is not served, and for
// definitions that were pasted. [{ version, served, document, root }]
export function documentsOfDefinition(definition) {
  const versions = Array.isArray(definition?.spec?.versions) ? definition.spec.versions : [];
  return versions.filter(isMap).map((one) => {
    const schema = isMap(one.schema?.openAPIV3Schema) ? one.schema.openAPIV3Schema : {};
    const document = { components: { schemas: { definition: schema } } };
    return { version: asText(one.name), served: one.served === true, document, root: rootField(document, "definition") };
  });
}
