// Builds of kustomizations as the program sends them: the lines of an object with who wrote them, and two builds beside
// each other.

import { objectDiff } from "./diff.js";
import { child, put } from "./pointer.js";
import { yamlLines } from "./yaml.js";

// The value that these fields make up. A field is a leaf, an empty list or map being one.
export function valueOf(fields) {
  let root = {};
  for (const { path, value } of fields) {
    if (path.length === 0) return value;
    let at = root;
    path.forEach((step, index) => {
      if (index === path.length - 1) {
        put(at, step, value);
        return;
      }
      if (!Object.hasOwn(at, step)) put(at, step, typeof path[index + 1] === "number" ? [] : {});
      at = at[step];
    });
  }
  return root;
}

export function pointerOf(path) {
  return path.reduce((pointer, step) => child(pointer, String(step)), "");
}

// The lines of an object's YAML: [{text, pointer, field}], `field` with its writers if the line has a value. Without
// pointers and fields should the text not be written as expected.
export function linesOf(object) {
  const texts = object.yaml.replace(/\n$/, "").split("\n");
  const fields = new Map(object.fields.map((field) => [pointerOf(field.path), field]));
  const known = yamlLines(valueOf(object.fields));
  if (known.length !== texts.length) return texts.map((text) => ({ text, pointer: null, field: null }));
  return texts.map((text, index) => {
    const { pointer, key, value } = known[index];
    return { text, pointer, key, value, field: fields.get(pointer) ?? null };
  });
}

// The writers of a field, the last first.
export function writersOf(build, field) {
  return field.writers.map((number) => build.writers[number]).filter(Boolean);
}

// "overlays/prod/patch.yaml:6", or what made the value if that is no file.
export function placeText(writer) {
  return writer.file ? `${writer.file}:${writer.line}` : writer.by ?? "";
}

// The entry of the kustomization that put the value there: "patches[0] of overlays/prod/kustomization.yaml", in short
// "patches[0]". A file of objects says enough by itself.
export function entryText(writer, length = "whole") {
  if (writer.by === "resources" || !writer.field) return writer.program ?? "";
  const isElsewhere = writer.kustomization && writer.kustomization !== writer.file;
  const entry = isElsewhere && length === "whole" ? `${writer.field} of ${writer.kustomization}` : writer.field;
  return writer.program ? `${entry} (${writer.program})` : entry;
}

// The files that wrote the build's last values, the busiest first: [{file, count}].
export function filesOf(build) {
  const counts = new Map();
  for (const object of build.objects) {
    for (const field of object.fields) {
      const [last] = writersOf(build, field);
      const file = last?.file ?? "";
      if (file) counts.set(file, (counts.get(file) ?? 0) + 1);
    }
  }
  return [...counts].map(([file, count]) => ({ file, count })).sort((a, b) => b.count - a.count || (a.file < b.file ? -1 : 1));
}

// "Deployment/web" or "Deployment/web.prod", as `sternpost build --why` calls it.
export function nameOf({ kind, name, namespace }) {
  return namespace ? `${kind}/${name}.${namespace}` : `${kind}/${name}`;
}

// Objects of two builds in pairs: [{name, left, right, state}], `state` being "same", "changed", "left" or "right" for one
// that only that side has. Overlays rename objects and move them to namespaces: those without a partner of the same name are
// paired by the first name that they had.
export function pairs(left, right) {
  const kind = ({ group, kind: name }) => `${group}/${name}`;
  const ways = [
    (object) => `${kind(object)} ${object.namespace} ${object.name}`,
    (object) => `${kind(object)} ${object.name}`,
    (object) => `${kind(object)} ${object.names[0] ?? object.name}`,
  ];
  const partners = new Map();
  let rest = [left.objects, right.objects];
  for (const way of ways) {
    const [ofLeft, ofRight] = rest.map((objects) => unique(objects, way));
    for (const [key, object] of ofLeft) if (ofRight.has(key)) partners.set(object, ofRight.get(key));
    const paired = new Set(partners.values());
    rest = [rest[0].filter((object) => !partners.has(object)), rest[1].filter((object) => !paired.has(object))];
  }
  const found = left.objects.map((object) => {
    const partner = partners.get(object) ?? null;
    const state = !partner ? "left" : partner.yaml === object.yaml ? "same" : "changed";
    return { name: nameOf(object), left: object, right: partner, state };
  });
  return [...found, ...rest[1].map((object) => ({ name: nameOf(object), left: null, right: object, state: "right" }))];
}

// By keys that stand for one object only.
function unique(objects, way) {
  const found = new Map();
  const twice = new Set();
  for (const object of objects) {
    const key = way(object);
    if (found.has(key)) twice.add(key);
    found.set(key, object);
  }
  for (const key of twice) found.delete(key);
  return found;
}

// The fields in which two objects differ: [{op, path, before, after, left, right}], `left` and `right` being the fields, with
// their writers, that stand for the change on each side.
export function fieldChanges(left, right) {
  const fieldAt = (object) => {
    const all = object.fields.map((field) => ({ field, pointer: pointerOf(field.path) }));
    // What was added as a whole is told by the first of its fields.
    return (pointer) => all.find((one) => one.pointer === pointer || one.pointer.startsWith(`${pointer}/`))?.field ?? null;
  };
  const [atLeft, atRight] = [fieldAt(left), fieldAt(right)];
  const changes = objectDiff(valueOf(left.fields), valueOf(right.fields), { ignore: new Set() });
  return changes.map(({ op, from, to, before, after }) => {
    const [was, is] = [before === undefined ? null : atLeft(from), after === undefined ? null : atRight(to)];
    return { op, path: shownPath(is ?? was, is ? to : from), before, after, left: was, right: is };
  });
}

// As the build spells it, up to the field that the pointer names.
function shownPath(field, pointer) {
  if (!field) return pointer;
  const below = field.path.length - pointer.split("/").length + 1;
  if (below === 0) return field.shown;
  // The last steps, each a key after a dot or something in brackets.
  const parts = field.shown.match(/\[(?:"(?:[^"\\]|\\.)*"|[^\]])*\]|[^.[]+/g) ?? [];
  return parts.slice(0, parts.length - below).reduce((text, part) => (part.startsWith("[") || !text ? text + part : `${text}.${part}`), "");
}

// Whether the value of a field is one that is not shown unless asked for.
export function isSecret(object, pointer) {
  return object.kind === "Secret" && object.group === "" && pointer !== null && /^\/(data|stringData)\/./.test(pointer);
}
