// The page: starts, draws the header, and shows the view that the hash names.
//
// A view is a module with `title(params)` and `show(root, params, context)`. `show` fills `root` and answers with a
// function that ends what it began.

import * as api from "./api.js";
import * as discovery from "./discovery.js";
import { h, replace } from "./dom.js";
import * as format from "./format.js";
import * as keyboard from "./keyboard.js";
import { openPalette } from "./palette.js";
import { apiPath, parse } from "./routes.js";
import { strings } from "./strings.js";

import * as access from "./views/access.js";
import * as kustomize from "./views/kustomize.js";
import * as object from "./views/object.js";
import * as objects from "./views/objects.js";
import * as schemas from "./views/schemas.js";
import * as server from "./views/server.js";

const views = { objects, object, schemas, access, server, kustomize };
const main = document.getElementById("main");
const banner = document.getElementById("banner");
let current = { end: () => {}, sequence: 0 };

start();

async function start() {
  restoreTheme();
  let session;
  try {
    session = await api.begin();
  } catch (problem) {
    return showProblem(strings.app.expired, problem, strings.app.expiredHint);
  }
  let found;
  try {
    found = await discovery.follow();
  } catch (problem) {
    showProblem(strings.app.noAnswer, problem);
    main.append(h("p", { class: "centred" }, h("button", { onclick: () => location.reload() }, strings.app.tryAgain)));
    return undefined;
  }
  const context = makeContext(session, found);
  drawHeader(context);
  followConnection();
  api.onWarnings((texts) => tell(texts.map((text) => `${strings.app.warning}: ${text}`).join("\n"), "warning"));
  keyboard.listen(context);
  window.addEventListener("hashchange", () => show(context));
  await show(context);
  document.documentElement.dataset.ready = "yes";
  performance.mark("interactive");
  return undefined;
}

function makeContext(session, found) {
  const namespace = { value: session.namespace ?? "", listeners: new Set() };
  return {
    api,
    discovery: found,
    session,
    readOnly: session.readOnly === true,
    // {kustomize: [directories], sternpost: true if the server is one}
    features: session.features ?? {},
    namespace: {
      get value() { return namespace.value; },
      set(value) {
        if (value === namespace.value) return;
        namespace.value = value;
        for (const listener of namespace.listeners) listener(value);
      },
      onChange(listener) {
        namespace.listeners.add(listener);
        return () => namespace.listeners.delete(listener);
      },
      list: (signal) => namespaces(signal),
    },
    navigate: (hash) => { location.hash = hash; },
    announce,
    tell,
    palette: null,
  };
}

// The names of all namespaces; none where listing them is not permitted.
async function namespaces(signal) {
  const path = apiPath({ group: "", version: "v1", resource: "namespaces" });
  const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
  const list = await api.getJSON(`${path}?limit=5000`, { headers: { Accept: accept }, signal });
  return list.items.map((item) => item.metadata.name).sort();
}

async function show(context) {
  const params = parse(location.hash);
  current.end();
  const sequence = current.sequence + 1;
  current = { end: () => {}, sequence };
  const view = views[params.view];
  markCurrent(params.view);
  const root = h("div", { class: `view view-${view ? params.view : "none"}` });
  replace(main, root);
  if (!view) return showProblem(strings.app.noView(params.view));
  document.title = `${view.title(params)} · ${strings.app.name}`;
  try {
    const end = await view.show(root, params, context);
    if (current.sequence === sequence) current.end = end ?? (() => {});
    else end?.();
  } catch (problem) {
    if (current.sequence === sequence && problem.name !== "AbortError") showProblem(strings.app.failed, problem);
  }
  return undefined;
}

function showProblem(title, problem, hint) {
  replace(main, h("div", { class: "problem", role: "alert" },
    h("h1", {}, title),
    problem && h("p", {}, problem.message),
    hint && h("p", { class: "quiet" }, hint)));
}

function drawHeader(context) {
  const { session } = context;
  const shown = Object.keys(strings.app.views).filter((name) => name !== "kustomize" || context.features.kustomize?.length);
  const link = (name, index) => h("a", { href: `#/${name}`, dataset: { view: name }, "aria-keyshortcuts": String(index + 1) }, strings.app.views[name]);
  const asUser = h("button", { class: "badge as", hidden: true, title: strings.app.endTryAs, onclick: () => { api.as(null); location.reload(); } });
  const load = h("span", { class: "load", role: "status", "aria-live": "off" });
  const beat = h("span", { class: "beat", "aria-hidden": "true" });
  replace(document.getElementById("header"),
    h("a", { class: "brand", href: "#/objects" }, mark(), h("span", {}, "sternpost")),
    h("span", { class: "cluster", title: session.server ?? "" }, session.cluster ?? session.server ?? ""),
    h("nav", { "aria-label": strings.app.navigation }, shown.map(link)),
    h("span", { class: "space" }),
    asUser,
    context.readOnly && h("span", { class: "badge", title: strings.app.readOnlyTitle }, strings.app.readOnly),
    beat, load,
    h("button", { class: "icon", "aria-label": strings.palette.title, title: `${strings.palette.title} (g)`, onclick: () => openPalette(context) }, "⌕"),
    h("button", { class: "icon", "aria-label": strings.app.theme, title: strings.app.theme, onclick: toggleTheme }, "◐"),
    h("button", { class: "icon", "aria-label": strings.app.help, title: `${strings.app.help} (?)`, onclick: keyboard.openHelp }, "?"));
  api.onLoad((now) => {
    const { requests, watches, failed } = now;
    replace(load, strings.app.load(now), h("span", { class: "wide" }, ` · ${strings.app.watches(watches)}`));
    load.title = strings.app.loadTitle(format.count(requests), format.bytes(now.bytes), watches, failed);
    const as = api.impersonation();
    asUser.hidden = !as;
    if (as) replace(asUser, strings.app.tryingAs(as.user), " ✕");
  });
  api.onConnection((up) => beat.classList.toggle("down", !up));
}

function mark() {
  return h("img", { src: new URL("icon.svg", import.meta.url).pathname, alt: "", width: "18", height: "18" });
}

function markCurrent(view) {
  const shown = view === "object" ? "objects" : view;
  for (const link of document.querySelectorAll("#header nav a")) {
    if (link.dataset.view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function followConnection() {
  let was = true;
  api.onConnection((up) => {
    if (up === was) return;
    was = up;
    tell(up ? strings.app.back : strings.app.away, up ? "good" : "away");
    document.documentElement.dataset.connection = up ? "up" : "down";
  });
}

// Says something at the top of the page. What is only good to know goes away by itself.
let leaving;
function tell(text, tone = "note") {
  clearTimeout(leaving);
  banner.className = tone;
  banner.hidden = false;
  replace(banner, h("span", {}, text), h("button", { class: "icon", "aria-label": strings.app.close, onclick: () => { banner.hidden = true; } }, "✕"));
  if (tone === "good" || tone === "note") leaving = setTimeout(() => { banner.hidden = true; }, 4_000);
}

function announce(text) {
  replace(document.getElementById("announcer"), text);
}

// The choice between light and dark is no secret: it may be stored.
function restoreTheme() {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage the system's choice holds.
  }
}

function toggleTheme() {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", dataset.theme);
  } catch {
    // It holds for this page then.
  }
}
