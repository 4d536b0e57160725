// From differences to a write: a dry run of server-side apply shows the result, conflicts are decided field by field,
// and only then something is written.

import { h, replace } from "../../dom.js";
import { strings } from "../../strings.js";
import { diffNode } from "./history.js";
import { applyConfig, conflictsOf, MANAGER, removalPatch, without } from "../../lib/edit.js";
import { objectDiff } from "../../lib/diff.js";
import { compact, parseExact } from "../../lib/json.js";
import { fieldAt } from "../../lib/openapi.js";
import { keysFrom, managerText, ownersAt } from "../../lib/owners.js";
import { put, resolve, steps, valueAt } from "../../lib/pointer.js";
import { toYaml, yamlLines } from "../../lib/yaml.js";

const say = strings.object.apply;

// Asks the server what the rows of a difference would do, and lets the user decide. `done` is called after a write.
export async function review(root, state, { base, wanted, rows, done }) {
  const schema = await state.schema();
  const plan = {
    root, state, base, wanted, done,
    listAt: listTypes(schema, state),
    sets: rows.filter(({ op }) => op !== "removed").map(({ to }) => to),
    removals: rows.filter(({ op }) => op === "removed"),
    // By the field of a conflict: "take" or "leave".
    decisions: new Map(),
    keep: new Set(),
  };
  plan.kept = applied(state, wanted);
  await dryRun(plan);
}

// How a list merges: as the schema says, else as managers have named its items.
function listTypes(schema, state) {
  return (pointer) => {
    const found = schema ? fieldAt(schema.document, schema.root, steps(pointer)) : null;
    if (found && found.inside === 0) {
      const { listType, mapKeys } = found.field;
      if (listType === "map") return { keys: mapKeys };
      if (listType === "set") return { set: true };
      if (listType) return null;
    }
    const keys = state.owners.keys.get(pointer);
    return keys ? { keys } : null;
  };
}

// What this page applied before: left out, it would be removed.
function applied(state, wanted) {
  const own = state.owners.managers.find(({ manager, operation, subresource }) => manager === MANAGER && operation === "Apply" && !subresource);
  if (!own) return [];
  return [...state.owners.at].filter(([pointer, { owners }]) => owners.includes(own.id) && valueAt(wanted, pointer) !== undefined)
    .map(([pointer]) => pointer);
}

// The fields that are left to others by a decision, as pointers.
function left(plan) {
  return [...plan.decisions].filter(([, decision]) => decision === "leave").map(([field]) => resolve(plan.wanted, field)).filter(Boolean);
}

async function send(plan, { dry, force }) {
  const { api } = plan.state.context;
  const pointers = without([...plan.kept, ...plan.sets], left(plan));
  const query = new URLSearchParams({ fieldManager: MANAGER, fieldValidation: "Strict" });
  if (dry) query.set("dryRun", "All");
  if (force) query.set("force", "true");
  const config = applyConfig(plan.wanted, pointers, plan.listAt);
  // What is taken over is what was decided on: not what others may have come to own since.
  if (force && !dry) put(config.metadata, "resourceVersion", plan.version);
  return api.request(`${plan.state.path}?${query}`, {
    method: "PATCH",
    headers: { "Content-Type": "application/apply-patch+yaml", Accept: "application/json" },
    body: toYaml(config),
  });
}

function takesOver(plan) {
  return [...plan.decisions.values()].includes("take");
}

async function dryRun(plan) {
  const { api } = plan.state.context;
  const hasSets = without(plan.sets, left(plan)).length > 0;
  if (!hasSets) {
    drawPlan(plan, { result: null, conflicts: [], warnings: [] });
    return;
  }
  plan.version = plan.state.object.metadata.resourceVersion;
  const answer = await send(plan, { dry: true, force: takesOver(plan) });
  if (answer.status === 200 || answer.status === 201) {
    drawPlan(plan, { result: parseExact(answer.text), conflicts: [], warnings: answer.warnings });
    return;
  }
  const problem = api.failure(answer.status, answer.text);
  const all = answer.status === 409 ? conflictsOf(problem.details) : [];
  // What this page wrote in another way, such as by creating or scaling, is its own already.
  const own = all.filter(({ field, managers }) => !plan.decisions.has(field) && managers.every((name) => name.startsWith(`"${MANAGER}" `)));
  for (const { field } of own) plan.decisions.set(field, "take");
  const conflicts = all.filter(({ field }) => plan.decisions.get(field) !== "take");
  if (own.length && !conflicts.length) await dryRun(plan);
  else if (conflicts.length) drawPlan(plan, { result: null, conflicts, warnings: answer.warnings });
  else drawRefusal(plan, problem, answer.warnings);
}

function drawRefusal(plan, problem, warnings) {
  const causes = Array.isArray(problem.details?.causes) ? problem.details.causes : [];
  replace(plan.root, h("div", { class: "notice bad", role: "alert" }, h("h2", {}, say.refused), h("p", {}, problem.message),
    causes.length > 1 && h("ul", {}, causes.map((cause) => h("li", {}, `${cause?.field ?? ""}: ${cause?.message ?? ""}`)))), warningList(warnings));
}

function warningList(warnings) {
  return warnings?.length ? h("div", { class: "notice" }, h("h2", {}, say.warnings), h("ul", {}, warnings.map((text) => h("li", {}, text)))) : null;
}

function drawPlan(plan, { result, conflicts, warnings }) {
  const nothing = !result && !conflicts.length && !plan.removals.length;
  const write = h("button", { class: "primary", onclick: () => act(plan, write) }, say.apply);
  replace(plan.root,
    warningList(warnings),
    nothing && h("p", { class: "empty" }, say.nothingLeft),
    conflicts.length ? conflictList(plan, conflicts) : null,
    result && h("section", {}, h("h2", {}, say.title), diffNode(linesOf(plan, plan.base), linesOf(plan, result), strings.object.edit.nothing)),
    !conflicts.length && plan.removals.length ? removalList(plan) : null,
    !conflicts.length && !nothing && h("div", { class: "bar" }, write));
  plan.root.scrollIntoView({ block: "nearest" });
}

function linesOf(plan, object) {
  const { managedFields: _, resourceVersion: __, generation: ___, ...metadata } = object.metadata ?? {};
  const mask = plan.state.secrets.editing ? undefined : plan.state.secrets.maskForDiff;
  return yamlLines({ ...object, metadata }, mask).map(({ text }) => text);
}

function conflictList(plan, conflicts) {
  const undecided = () => conflicts.filter(({ field }) => !plan.decisions.has(field)).length;
  const again = h("button", { class: "primary", disabled: true, onclick: () => dryRun(plan).catch((problem) => drawRefusal(plan, problem)) }, say.again);
  const count = h("span", { class: "quiet", role: "status" }, say.undecided(undecided()));
  const decide = (field, decision) => {
    plan.decisions.set(field, decision);
    again.disabled = undecided() > 0;
    replace(count, undecided() ? say.undecided(undecided()) : "");
  };
  const shown = (object, field) => {
    const pointer = resolve(object, field);
    const value = pointer === null ? undefined : valueAt(object, pointer);
    return value === undefined ? strings.object.none : compact(plan.state.secrets.maskForDiff(pointer, value), 200);
  };
  const row = ({ field, managers }, index) => h("li", { class: "conflict", dataset: { field } },
    h("p", { class: "path" }, field, h("span", { class: "quiet" }, ` ${say.ownedBy(managers.join(", "))}`)),
    h("p", { class: "values" }, h("span", {}, `${say.current} `, h("del", {}, shown(plan.base, field))), " ", h("span", {}, `${say.yours} `, h("ins", {}, shown(plan.wanted, field)))),
    h("fieldset", {}, h("legend", { class: "unseen" }, say.decide(field)),
      ["take", "leave"].map((decision) => h("label", {}, h("input", {
        type: "radio", name: `conflict-${index}`, value: decision, onchange: () => decide(field, decision),
      }), ` ${say[decision]}`))));
  return h("section", { class: "conflicts" }, h("h2", {}, say.conflicts(conflicts.length)), h("p", { class: "quiet" }, say.conflictHint),
    h("ul", {}, conflicts.map(row)), h("div", { class: "bar" }, again, count));
}

function removalList(plan) {
  const { owners } = plan.state;
  const row = ({ path, from }) => {
    const managers = ownersAt(owners, from).map((id) => managerText(owners.managers[id]));
    const toggle = (event) => {
      if (event.target.checked) plan.keep.delete(from);
      else plan.keep.add(from);
    };
    return h("li", {}, h("label", {}, h("input", { type: "checkbox", checked: !plan.keep.has(from), onchange: toggle }), ` ${say.remove} `, h("span", { class: "path" }, path)),
      h("span", { class: "quiet" }, ` ${say.ownedBy(managers.join(", ") || say.unowned)}`));
  };
  return h("section", { class: "removals" }, h("h2", {}, say.removals), h("p", { class: "quiet" }, say.removalHint), h("ul", {}, plan.removals.map(row)));
}

// The apply first, then what is left to remove of its result.
async function act(plan, button) {
  const { api, announce } = plan.state.context;
  button.disabled = true;
  try {
    let current = plan.base;
    const warnings = [];
    if (without(plan.sets, left(plan)).length) {
      const answer = await send(plan, { dry: false, force: takesOver(plan) });
      const conflicts = answer.status === 409 ? conflictsOf(api.failure(409, answer.text).details) : [];
      if (conflicts.length) return drawPlan(plan, { result: null, conflicts, warnings: answer.warnings });
      if (answer.status >= 300) throw api.failure(answer.status, answer.text);
      current = parseExact(answer.text);
      warnings.push(...answer.warnings);
    }
    const removed = await remove(plan, current);
    if (removed) {
      current = removed.object;
      warnings.push(...removed.warnings);
    }
    const text = say.applied(current.metadata.resourceVersion);
    announce(text);
    await plan.done?.();
    replace(plan.root, h("p", { class: "notice good", role: "status" }, text), warningList(warnings));
  } catch (problem) {
    drawRefusal(plan, problem, []);
  }
  return undefined;
}

async function remove(plan, current) {
  const { api } = plan.state.context;
  const chosen = new Set(plan.removals.filter(({ from }) => !plan.keep.has(from)).map(({ path }) => path));
  if (!chosen.size) return null;
  const keysAt = keysFrom(plan.state.owners);
  const pointers = objectDiff(current, plan.wanted, { keysAt }).filter(({ op, path }) => op === "removed" && chosen.has(path)).map(({ from }) => from);
  if (!pointers.length) return null;
  const answer = await api.request(`${plan.state.path}?fieldManager=${MANAGER}`, {
    method: "PATCH",
    headers: { "Content-Type": "application/json-patch+json", Accept: "application/json" },
    body: compact(removalPatch(current, pointers)),
  });
  if (answer.status !== 200) throw api.failure(answer.status, answer.text);
  return { object: parseExact(answer.text), warnings: answer.warnings };
}
