// Keys that mean the same in every view, and the page that lists them all.

import { h } from "./dom.js";
import { openPalette } from "./palette.js";
import { strings } from "./strings.js";

export function listen(context) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const act = actions(context)[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

// Whether keys are text here.
export function isTyping(target) {
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

function actions(context) {
  const views = [...document.querySelectorAll("#header nav a")];
  const numbered = views.map((link, index) => [String(index + 1), () => context.navigate(link.getAttribute("href"))]);
  return {
    ...Object.fromEntries(numbered),
    g: () => openPalette(context),
    "?": openHelp,
    "/": () => document.querySelector("main [data-key='/']")?.focus(),
    l: () => document.querySelector("main [data-key='l']")?.focus(),
    n: () => document.querySelector("main [data-key='n']")?.focus(),
  };
}

export function openHelp() {
  const dialog = h("dialog", { class: "keys", "aria-label": strings.keys.title, onclose: () => dialog.remove() },
    h("h2", {}, strings.keys.title),
    h("table", {}, h("tbody", {}, strings.keys.rows.map(([keys, meaning]) =>
      h("tr", {}, h("th", { scope: "row" }, keys.split(" ").map((key) => [h("kbd", {}, key), " "])), h("td", {}, meaning))))),
    h("form", { method: "dialog" }, h("button", {}, strings.app.close)));
  document.body.append(dialog);
  dialog.showModal();
}
