// What can be done with an object besides editing it: scale and delete.

import { h, replace } from "../../dom.js";
import { strings } from "../../strings.js";
import { MANAGER } from "../../lib/edit.js";
import { createSimilar } from "./create.js";

const say = strings.object.actions;

export function actions(state) {
  const scales = state.resource.subresources.some(({ name, verbs }) => name === "scale" && verbs.includes("patch"));
  const deletes = state.resource.verbs.includes("delete");
  const creates = state.resource.verbs.includes("create") && !state.secrets.active;
  if (!scales && !deletes && !creates) return null;
  return h("div", { class: "actions" },
    creates && h("button", { onclick: () => createSimilar(state) }, strings.object.create.similar),
    scales && h("button", { onclick: () => openScale(state) }, say.scale),
    deletes && h("button", { class: "danger", onclick: () => openDelete(state) }, say.delete));
}

// A dialog that is closed by Escape, by Cancel, or when `act` has succeeded.
function openDialog(title, body, label, className, act) {
  const problem = h("p", { class: "notice bad", role: "alert", hidden: true });
  const go = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await act();
      dialog.close();
    } catch (error) {
      problem.hidden = false;
      replace(problem, error.message);
    } finally {
      button.disabled = false;
    }
  };
  const button = h("button", { type: "submit", class: className }, label);
  const heading = h("h2", { id: "dialog-title" }, title);
  const dialog = h("dialog", { class: "ask", "aria-labelledby": "dialog-title" },
    h("form", { onsubmit: go }, heading, body, problem,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, say.cancel), button)));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  document.body.append(dialog);
  dialog.showModal();
}

async function openScale(state) {
  const { api, announce, tell } = state.context;
  const path = `${state.path}/scale`;
  let scale;
  try {
    scale = await api.getJSON(path);
  } catch (problem) {
    tell(problem.message, "warning");
    return;
  }
  const wanted = Number(scale.spec?.replicas ?? 0);
  const input = h("input", { type: "number", min: "0", required: true, value: String(wanted), class: "short" });
  const body = [
    h("p", { class: "quiet" }, say.scaleNow(wanted, Number(scale.status?.replicas ?? 0))),
    h("label", {}, `${say.replicas} `, input),
  ];
  openDialog(say.scaleTitle(state.name), body, say.scale, "primary", async () => {
    await api.getJSON(`${path}?fieldManager=${MANAGER}`, {
      method: "PATCH",
      headers: { "Content-Type": "application/merge-patch+json" },
      body: JSON.stringify({ spec: { replicas: Number(input.value) } }),
    });
    announce(say.scaled(Number(input.value)));
  });
}

function openDelete(state) {
  const { api, tell } = state.context;
  const { uid, resourceVersion } = state.object.metadata;
  const propagation = h("select", {}, Object.entries(say.propagations).map(([value, text]) => h("option", { value }, text)));
  const any = h("input", { type: "checkbox" });
  const body = [
    h("p", { class: "quiet" }, say.deleteHint),
    h("label", {}, `${say.propagation} `, propagation),
    h("label", {}, any, ` ${say.deleteAny}`),
  ];
  openDialog(say.deleteTitle(state.object.kind, state.name), body, say.delete, "danger", async () => {
    const preconditions = any.checked ? { uid } : { uid, resourceVersion };
    const options = { kind: "DeleteOptions", apiVersion: "v1", preconditions };
    if (propagation.value) options.propagationPolicy = propagation.value;
    const answer = await api.getJSON(state.path, {
      method: "DELETE", headers: { "Content-Type": "application/json" }, body: JSON.stringify(options),
    });
    tell(answer.kind === "Status" ? say.deleted : answer.metadata?.finalizers?.length ? say.deletionBegun : say.deleted, "good");
  });
}
