// What of an object is hidden until it is asked for: the values of Secrets, key by key, and the copy of them that
// `kubectl apply` leaves in an annotation.

import { h } from "../../dom.js";
import { bytes } from "../../format.js";
import { strings } from "../../strings.js";
import { asText } from "../../lib/json.js";
import { steps } from "../../lib/pointer.js";

const say = strings.object.secret;
const COPY = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

// `mask(pointer, value)` gives what to show; `shown` are the pointers that were asked for.
export function newSecrets({ group, resource }) {
  const active = group === "" && resource === "secrets";
  const shown = new Set();
  const numbers = new Map();
  const isHidden = (pointer) => active && !shown.has(pointer)
    && (pointer === COPY || /^\/(data|stringData)\/[^/]*$/.test(pointer));
  return {
    active,
    shown,
    isHidden,
    mask: (pointer, value) => (isHidden(pointer) ? say.hidden(bytes(sizeOf(pointer, value))) : value),
    // Two values that differ are told apart, and nothing else of them.
    maskForDiff: (pointer, value) => {
      if (!isHidden(pointer)) return value;
      const text = asText(value);
      if (!numbers.has(text)) numbers.set(text, numbers.size + 1);
      return say.number(numbers.get(text));
    },
  };
}

function sizeOf(pointer, value) {
  const text = asText(value);
  return pointer.startsWith("/data/") ? Math.max(0, Math.floor((text.replace(/=+$/, "").length * 3) / 4)) : text.length;
}

// A list of the keys with a button for each, and the text of those that are shown.
export function secretKeys(state, changed) {
  const data = state.object.data;
  const keys = data !== null && typeof data === "object" ? Object.keys(data) : [];
  if (!state.secrets.active || !keys.length) return null;
  return h("section", { class: "secret-keys", "aria-label": say.title },
    h("h2", {}, say.title),
    h("p", { class: "quiet" }, say.note),
    h("ul", {}, keys.map((key) => {
      const pointer = pointerOf(key);
      const isHidden = state.secrets.isHidden(pointer);
      const toggle = () => {
        if (isHidden) state.secrets.shown.add(pointer);
        else state.secrets.shown.delete(pointer);
        changed();
      };
      return h("li", {},
        h("button", { onclick: toggle, "aria-pressed": String(!isHidden), dataset: { key } }, isHidden ? say.show(key) : say.hide(key)),
        !isHidden && h("pre", { class: "secret-value" }, decoded(data[key])));
    })));
}

function pointerOf(key) {
  return `/data/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function decoded(value) {
  try {
    const raw = Uint8Array.from(atob(asText(value)), (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(raw);
  } catch {
    return say.binary;
  }
}

// The name of the key that a pointer is about.
export function keyOf(pointer) {
  return steps(pointer).at(-1);
}
