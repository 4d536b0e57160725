// The object's YAML in an editor. The server reads the text: a dry run of an update gives the object that is meant,
// and what differs from the object as it is becomes an apply of just those fields.

import { h, replace } from "../../dom.js";
import { strings } from "../../strings.js";
import { editable, isServerField, MANAGER } from "../../lib/edit.js";
import { objectDiff } from "../../lib/diff.js";
import { parseExact } from "../../lib/json.js";
import { keysFrom } from "../../lib/owners.js";
import { toYaml } from "../../lib/yaml.js";
import { textOf } from "../object.js";
import { review } from "./apply.js";

const say = strings.object.edit;

export async function show(root, state) {
  if (state.secrets.active && !state.secrets.editing) {
    const go = async () => {
      state.secrets.editing = true;
      await drawEditor(root, state);
    };
    replace(root, h("div", { class: "empty" }, h("p", {}, strings.object.secret.ask), h("button", { onclick: go }, strings.object.secret.askButton)));
    return { end: () => { state.secrets.editing = false; } };
  }
  return drawEditor(root, state);
}

async function drawEditor(root, state) {
  const text = h("textarea", { class: "editor", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": say.label });
  const status = h("p", { class: "quiet", role: "status" });
  const below = h("div", { class: "review" });
  const view = { state, text, status, below, loaded: null };
  const load = async () => {
    view.loaded = parseExact(await textOf(state));
    text.value = await textToEdit(state);
    replace(below);
    replace(status, say.hint);
  };
  const check = async () => {
    button.disabled = true;
    replace(status, say.checking);
    try {
      await checkText(view, load);
    } catch (problem) {
      replace(status, "");
      const rebase = problem.fresh && h("button", { onclick: () => { takeVersion(text, problem.fresh); check(); } }, say.rebase);
      replace(below, h("div", { class: "notice bad", role: "alert" }, h("p", {}, problem.fresh ? say.stale : problem.message), rebase));
    } finally {
      button.disabled = false;
    }
  };
  text.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) check();
  });
  const button = h("button", { class: "primary", onclick: check, title: "Ctrl+Enter" }, say.check);
  replace(root, h("div", { class: "bar" }, button, h("button", { onclick: load }, say.reload), status), text, below);
  await load();
  return { end: () => { state.secrets.editing = false; } };
}

// As the server writes it, so that no number is rounded on the way; servers without YAML give JSON.
async function textToEdit(state) {
  try {
    const text = await textOf(state, "application/yaml");
    if (!text.startsWith("{")) return editable(text);
  } catch (problem) {
    if (problem.status !== 406) throw problem;
  }
  return editable(toYaml(state.object));
}

async function checkText({ state, text, below, status, loaded }, load) {
  const { object: wanted, hint } = await meantNow(state, text, loaded);
  // Asked for again: what watch events bring has its large numbers rounded.
  const base = parseExact(await textOf(state));
  replace(status, hint);
  const rows = changesBetween(base, wanted, state);
  if (!rows.length) {
    replace(below, h("p", { class: "empty" }, say.nothing));
    return;
  }
  await review(below, state, { base, wanted, rows, done: load });
}

function changesBetween(before, after, state) {
  return objectDiff(before, after, { keysAt: keysFrom(state.owners) }).filter(({ to, from }) => !isServerField(to) && !isServerField(from));
}

// If the object has changed since only in what servers and controllers report, the text is about the newest version.
// Otherwise the problem has that version as `fresh`.
async function meantNow(state, text, loaded) {
  try {
    return await meant(state, text.value);
  } catch (problem) {
    if (problem.status !== 409) throw problem;
    const fresh = parseExact(await textOf(state));
    if (changesBetween(loaded, fresh, state).length) {
      problem.fresh = fresh;
      throw problem;
    }
    takeVersion(text, fresh);
    return meant(state, text.value);
  }
}

function takeVersion(text, { metadata }) {
  text.value = text.value.replace(/^  resourceVersion: .*$/m, `  resourceVersion: ${JSON.stringify(metadata.resourceVersion)}`);
}

// The object that a text means, by the server's reading. With its resourceVersion in the text, an object that has
// changed since is a conflict.
async function meant(state, text) {
  const { api } = state.context;
  const headers = { "Content-Type": "application/yaml", Accept: "application/json" };
  const answer = await api.request(`${state.path}?dryRun=All&fieldManager=${MANAGER}&fieldValidation=Strict`, { method: "PUT", headers, body: text });
  if (answer.status === 200) return { object: parseExact(answer.text), hint: "" };
  if (answer.status !== 403 && answer.status !== 405) throw api.failure(answer.status, answer.text);
  const applied = await api.request(`${state.path}?dryRun=All&fieldManager=${MANAGER}&force=true&fieldValidation=Strict`, {
    method: "PATCH", headers: { ...headers, "Content-Type": "application/apply-patch+yaml" }, body: text,
  });
  if (applied.status !== 200) throw api.failure(applied.status, applied.text);
  return { object: parseExact(applied.text), hint: say.noUpdate };
}
