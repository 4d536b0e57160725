// A new object from YAML: sent as it is written, so that the server reads it as it reads kubectl's.

import { h, replace } from "./dom.js";
import { apiPath, objectHash } from "./routes.js";
import { strings } from "./strings.js";

const words = strings.create;

export function openCreate(resource, namespace, context) {
  const place = resource.namespaced ? namespace || context.namespace.value || "default" : "";
  const text = h("textarea", { class: "code", rows: "18", spellcheck: "false", "aria-label": words.yaml });
  text.value = [
    `apiVersion: ${resource.group ? `${resource.group}/` : ""}${resource.version}`, `kind: ${resource.kind}`, "metadata:", "  name: ",
    ...(place ? [`  namespace: ${place}`] : []), "",
  ].join("\n");
  const problem = h("p", { class: "notice", role: "alert", hidden: true });
  const send = async (dryRun) => {
    // The path has to name the namespace that the object does.
    const named = resource.namespaced ? /^ {2}namespace:\s*["']?([^\s"'#]+)/m.exec(text.value)?.[1] ?? place : "";
    const query = new URLSearchParams({ fieldManager: "sternpost-explorer", fieldValidation: "Strict", ...(dryRun ? { dryRun: "All" } : {}) });
    try {
      const made = await context.api.getJSON(`${apiPath(resource, { namespace: named })}?${query}`, {
        method: "POST", headers: { "Content-Type": "application/yaml" }, body: text.value,
      });
      if (dryRun) {
        problem.hidden = false;
        problem.className = "notice good";
        replace(problem, words.fine);
        return;
      }
      dialog.close();
      context.announce(words.made(made.metadata.name));
      context.navigate(objectHash(resource, made.metadata.namespace, made.metadata.name));
    } catch (error) {
      problem.hidden = false;
      problem.className = "notice bad";
      replace(problem, error.message);
    }
  };
  const dialog = h("dialog", { class: "create", "aria-label": words.title(resource.kind), onclose: () => dialog.remove() },
    h("h2", {}, words.title(resource.kind)), text, problem,
    h("div", { class: "buttons" },
      h("button", { onclick: () => dialog.close() }, strings.app.close),
      h("button", { onclick: () => send(true) }, words.check),
      h("button", { class: "primary", onclick: () => send(false) }, words.create)));
  document.body.append(dialog);
  dialog.showModal();
  const at = text.value.indexOf("name: ") + 6;
  text.setSelectionRange(at, at);
  text.focus();
}
