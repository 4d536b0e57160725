// Places in an object: JSON pointers for the machine, and the form that
// server-side apply has in its messages (`.spec.containers[name="a"].image`)
// for people.

// The pointer of a member or an item below `pointer`.
export function child(pointer, step) {
  if (typeof step === "number") return `${pointer}/${step}`;
  const text = step.includes("~") || step.includes("/")
    ? step.replaceAll("~", "~0").replaceAll("/", "~1") : step;
  return `${pointer}/${text}`;
}

// The steps of a pointer, all as strings.
export function steps(pointer) {
  if (pointer === "") return [];
  return pointer.slice(1).split("/").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

// The pointer of what holds this one; `null` for the whole object.
export function parent(pointer) {
  return pointer === "" ? null : pointer.slice(0, pointer.lastIndexOf("/"));
}

// What stands there, `undefined` if nothing does. Only own members count.
export function valueAt(object, pointer) {
  let value = object;
  for (const step of steps(pointer)) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, step)) return undefined;
    value = value[step];
  }
  return value;
}

// Sets a member without ever reaching a prototype (`__proto__` is a name like any other here).
export function put(object, key, value) {
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

// A pointer as people read it. Items of lists are named by their keys where
// `keysAt(listPointer)` gives the names of key fields, else by their index.
export function readable(object, pointer, keysAt = () => null) {
  let value = object;
  let at = "";
  let text = "";
  for (const step of steps(pointer)) {
    const isList = Array.isArray(value);
    const next = value !== null && typeof value === "object" && Object.hasOwn(value, step) ? value[step] : undefined;
    if (isList) text += itemText(step, next, keysAt(at));
    else text += `.${step}`;
    value = next;
    at = child(at, step);
  }
  return text || ".";
}

function itemText(step, item, keys) {
  if (!keys || !keys.length || item === null || typeof item !== "object") return `[${step}]`;
  const named = keys.filter((key) => Object.hasOwn(item, key));
  if (!named.length) return `[${step}]`;
  return `[${named.map((key) => `${key}=${JSON.stringify(item[key])}`).join(',')}]`;
}

// The pointer that a path of a conflict's message stands for in `object`, or
// `null`. Names of fields may hold dots (`app.kubernetes.io/name`), so that
// each step takes the longest name that the object has there.
export function resolve(object, text) {
  let value = object;
  let pointer = "";
  let at = 0;
  while (at < text.length) {
    if (value === null || typeof value !== "object") return null;
    if (text[at] === ".") {
      const name = longestName(value, text, at + 1);
      if (name === null) return null;
      value = value[name];
      pointer = child(pointer, name);
      at += 1 + name.length;
    } else if (text[at] === "[") {
      const selector = readSelector(text, at);
      const index = selector && Array.isArray(value) ? indexOf(value, selector) : -1;
      if (index < 0) return null;
      value = value[index];
      pointer = child(pointer, index);
      at = selector.end;
    } else {
      return null;
    }
  }
  return pointer;
}

function longestName(value, text, at) {
  let best = null;
  for (const name of Object.keys(value)) {
    if ((best === null || name.length > best.length) && text.startsWith(name, at)) {
      const next = text[at + name.length];
      if (next === undefined || next === "." || next === "[") best = name;
    }
  }
  return best;
}

// `[0]`, `[="a"]` or `[name="a",port=80]` at `at`.
function readSelector(text, at) {
  const index = /^\[(\d+)\]/.exec(text.slice(at, at + 20));
  if (index) return { index: Number(index[1]), end: at + index[0].length };
  const fields = [];
  let position = at + 1;
  for (;;) {
    const equals = text.indexOf("=", position);
    if (equals < 0) return null;
    const end = scalarEnd(text, equals + 1);
    if (end < 0) return null;
    let value;
    try {
      value = JSON.parse(text.slice(equals + 1, end));
    } catch {
      return null;
    }
    fields.push([text.slice(position, equals), value]);
    if (text[end] === "]") return { fields, end: end + 1 };
    if (text[end] !== ",") return null;
    position = end + 1;
  }
}

function scalarEnd(text, at) {
  if (text[at] !== '"') {
    let end = at;
    while (end < text.length && text[end] !== "," && text[end] !== "]") end += 1;
    return end < text.length ? end : -1;
  }
  for (let end = at + 1; end < text.length; end += 1) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === '"') return end + 1;
  }
  return -1;
}

function indexOf(list, selector) {
  if (selector.index !== undefined) return selector.index < list.length ? selector.index : -1;
  return list.findIndex((item) => selector.fields.every(([name, value]) => {
    if (name === "") return item === value;
    return item !== null && typeof item === "object" && Object.hasOwn(item, name) && item[name] === value;
  }));
}
