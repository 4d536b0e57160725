// "Go to a kind": a dialog with one field, in which a few letters find a kind.

import { h, replace } from "./dom.js";
import { objectsHash } from "./routes.js";
import { strings } from "./strings.js";

const MOST = 50;

export function openPalette(context) {
  if (document.querySelector("dialog.palette")) return;
  let found = [];
  let chosen = 0;
  const list = h("ul", { role: "listbox", id: "palette-list", "aria-label": strings.palette.title });
  const input = h("input", {
    type: "search", placeholder: strings.palette.placeholder, "aria-label": strings.palette.title, role: "combobox",
    "aria-expanded": "true", "aria-controls": "palette-list", autocomplete: "off", spellcheck: "false",
    oninput: () => { chosen = 0; search(); },
    onkeydown: (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        chosen = Math.max(0, Math.min(found.length - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
        draw();
      } else if (event.key === "Enter") {
        event.preventDefault();
        if (found[chosen]) go(found[chosen]);
      }
    },
  });
  const dialog = h("dialog", { class: "palette", "aria-label": strings.palette.title, onclose: () => dialog.remove() }, input, list);

  function go(resource) {
    dialog.close();
    context.navigate(objectsHash(resource, { namespace: context.namespace.value }));
  }

  function search() {
    found = rank(context.discovery.resources, input.value).slice(0, MOST);
    draw();
  }

  function draw() {
    const option = (resource, index) => h("li", {
      role: "option", id: `palette-${index}`, "aria-selected": String(index === chosen), onclick: () => go(resource),
    }, h("span", {}, resource.kind), h("span", { class: "quiet" }, resource.group || "core", "/", resource.version));
    replace(list, found.length ? found.map(option) : h("li", { class: "quiet" }, strings.palette.none));
    input.setAttribute("aria-activedescendant", `palette-${chosen}`);
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  }

  document.body.append(dialog);
  dialog.showModal();
  search();
  input.focus();
}

// Those that are called so first, then those that begin so, then those that have the letters anywhere.
export function rank(resources, text) {
  const wanted = text.trim().toLowerCase();
  const listable = resources.filter((one) => one.verbs.includes("list"));
  const score = (one) => {
    const names = [one.resource, one.kind.toLowerCase(), one.singular ?? "", ...one.shortNames];
    const rest = one.preferred ? 0 : 0.5;
    if (!wanted) return rest;
    if (names.includes(wanted)) return rest;
    if (names.some((name) => name.startsWith(wanted))) return 1 + rest;
    if (names.some((name) => name.includes(wanted))) return 2 + rest;
    if (`${one.resource}.${one.group}`.includes(wanted) || one.group.includes(wanted)) return 3 + rest;
    return Infinity;
  };
  return listable.map((one) => [score(one), one]).filter(([points]) => points < Infinity)
    .sort(([a, first], [b, second]) => a - b || first.kind.localeCompare(second.kind)).map(([, one]) => one);
}
