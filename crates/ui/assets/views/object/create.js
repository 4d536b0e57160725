// A new object: a text to begin with, a dry run, and then the write.

import { h, replace } from "../../dom.js";
import { apiPath, objectHash } from "../../routes.js";
import { strings } from "../../strings.js";
import { MANAGER } from "../../lib/edit.js";
import { parseExact } from "../../lib/json.js";
import { similar, skeleton } from "../../lib/skeleton.js";
import { toYaml } from "../../lib/yaml.js";

const say = strings.object.create;

// The text that the next new object begins with, if it is to be like another.
let begin = null;

export function createSimilar(state) {
  begin = toYaml(similar(state.object));
  state.context.navigate(objectHash(state.resource, state.namespace, "-"));
}

export async function show(root, state) {
  const { resource, context } = state;
  if (context.readOnly || !resource.verbs.includes("create")) {
    replace(root, h("p", { class: "empty", role: "alert" }, strings.app.readOnlyTitle));
    return;
  }
  const namespace = state.namespace || context.namespace.value;
  const text = h("textarea", { class: "editor", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": say.label });
  text.value = begin ?? toYaml(skeleton(resource, namespace, await state.schema()));
  begin = null;
  text.addEventListener("keydown", (event) => event.stopPropagation());
  const below = h("div", { class: "review" });
  const press = (act) => async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    await act().catch((problem) => replace(below, h("div", { class: "notice bad", role: "alert" }, h("p", {}, problem.message))));
    button.disabled = false;
  };
  const post = async (query) => {
    const path = apiPath(resource, { namespace: namespaceIn(text.value) ?? namespace });
    const answer = await context.api.request(`${path}?fieldManager=${MANAGER}&fieldValidation=Strict${query}`, {
      method: "POST", headers: { "Content-Type": "application/yaml", Accept: "application/json" }, body: text.value,
    });
    if (answer.status !== 201 && answer.status !== 200) throw context.api.failure(answer.status, answer.text);
    return { object: parseExact(answer.text), warnings: answer.warnings };
  };
  const check = async () => {
    const { object, warnings } = await post("&dryRun=All");
    const { managedFields: _, ...metadata } = object.metadata;
    replace(below,
      warnings.length > 0 && h("div", { class: "notice" }, h("h2", {}, strings.object.apply.warnings), h("ul", {}, warnings.map((one) => h("li", {}, one)))),
      h("h2", {}, say.result), h("pre", { class: "code" }, toYaml({ ...object, metadata })),
      h("div", { class: "bar" }, h("button", { class: "primary", onclick: press(create) }, say.create)));
  };
  const create = async () => {
    const { object } = await post("");
    context.announce(say.created(object.metadata.name));
    context.navigate(objectHash(resource, object.metadata.namespace ?? "", object.metadata.name));
  };
  replace(root, h("h1", {}, say.title(resource.kind)),
    h("div", { class: "bar" }, h("button", { class: "primary", onclick: press(check) }, say.check), h("span", { class: "quiet" }, say.hint)), text, below);
}

// The namespace that the text names: the request has to go there. The server says so if this reads it wrongly.
function namespaceIn(text) {
  const found = /^metadata:\n(?:[ ]+.*\n)*?[ ]+namespace: *["']?([a-z0-9.-]+)["']? *$/m.exec(text);
  return found?.[1];
}
