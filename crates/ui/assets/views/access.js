// Who may do what: the user's own rules, who can make a request and by which binding, and trying as another user.

import { h, replace } from "../dom.js";
import { apiPath, objectHash } from "../routes.js";
import { strings } from "../strings.js";
import { groupsOf, newPolicy, rulesOf, ruleText, whoCan } from "../lib/rbac.js";

const say = strings.access;
const RBAC = "rbac.authorization.k8s.io";
const PAGE = 500;
const MAX_PAGES = 20;
const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate", "bind", "use", "*"];

export function title() {
  return say.title;
}

export async function show(root, params, context) {
  const ended = new AbortController();
  const view = { context, params, signal: ended.signal, policy: null };
  const parts = [me, who, subject, tryAs].map((part) => h("section", { class: "access-part" }, part(view)));
  replace(root, h("h1", { class: "unseen" }, say.title), h("div", { class: "access" }, parts));
  return () => ended.abort();
}

// -- myself --

function me(view) {
  const { api, namespace } = view.context;
  const identity = h("p", { class: "identity", role: "status" });
  const list = h("div", {});
  const where = h("input", { value: namespace.value || "default", "aria-label": say.namespace, list: "access-namespaces" });
  const names = h("datalist", { id: "access-namespaces" });
  typing(where);
  const ask = async () => {
    try {
      const { status } = await api.getJSON("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {
        method: "POST", headers: { "Content-Type": "application/json" }, signal: view.signal,
        body: JSON.stringify({ apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace: where.value.trim() || "default" } }),
      });
      replace(list, status.incomplete && h("p", { class: "notice" }, say.incomplete, status.evaluationError ? ` ${status.evaluationError}` : ""), rulesTable(status));
    } catch (problem) {
      if (!view.signal.aborted) replace(list, bad(problem));
    }
  };
  const whoAmI = async () => {
    try {
      const { status } = await api.getJSON("/apis/authentication.k8s.io/v1/selfsubjectreviews", {
        method: "POST", headers: { "Content-Type": "application/json" }, signal: view.signal,
        body: JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" }),
      });
      const user = status.userInfo ?? {};
      replace(identity, h("b", {}, say.signedInAs(user.username ?? "")), user.groups?.length ? h("span", { class: "quiet" }, ` · ${say.groups}: ${user.groups.join(", ")}`) : "");
    } catch {
      replace(identity);
    }
  };
  namespace.list?.(view.signal).then((all) => replace(names, all.map((name) => h("option", { value: name }))), () => {});
  view.refreshMe = () => Promise.all([whoAmI(), ask()]);
  view.refreshMe();
  return [h("h2", {}, say.me), identity,
    h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); ask(); } }, h("label", {}, `${say.namespace} `, where), names, h("button", {}, say.show)), list];
}

function rulesTable({ resourceRules = [], nonResourceRules = [] }) {
  if (!resourceRules?.length && !nonResourceRules?.length) return h("p", { class: "empty" }, say.noRules);
  const { columns } = say;
  const join = (list) => (Array.isArray(list) ? list.join(", ") : "");
  const resources = ({ apiGroups = [], resources: names = [] }) =>
    (names ?? []).flatMap((name) => (apiGroups ?? []).map((group) => (group ? `${name}.${group}` : name))).join(", ");
  const sorted = [...(resourceRules ?? [])].sort((a, b) => (resources(a) < resources(b) ? -1 : 1));
  return h("div", { class: "scroll" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, [columns.resources, columns.verbs, columns.names].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, sorted.map((rule) => h("tr", {}, h("td", { class: "path" }, resources(rule)), h("td", {}, join(rule.verbs)), h("td", {}, join(rule.resourceNames) || say.any))),
      (nonResourceRules ?? []).map((rule) => h("tr", {}, h("td", { class: "path" }, join(rule.nonResourceURLs)), h("td", {}, join(rule.verbs)), h("td", {}))))));
}

function bad(problem) {
  return h("p", { class: "notice bad", role: "alert" }, problem.message);
}

// Keys that the page uses elsewhere are text here.
function typing(input) {
  input.addEventListener("keydown", (event) => { if (event.key !== "Escape") event.stopPropagation(); });
}

// -- roles and bindings --

// All of RBAC that may be listed, once for each visit: { policy, forbidden }.
async function policyOf(view) {
  if (view.policy) return view.policy;
  const kinds = { roles: "Roles", clusterRoles: "ClusterRoles", roleBindings: "RoleBindings", clusterRoleBindings: "ClusterRoleBindings" };
  const lists = {};
  const forbidden = [];
  await Promise.all(Object.entries(kinds).map(async ([key, name]) => {
    try {
      lists[key] = await listAll(view, name.toLowerCase());
    } catch (problem) {
      if (problem.status !== 403) throw problem;
      forbidden.push(name);
    }
  }));
  view.policy = { policy: newPolicy(lists), forbidden };
  return view.policy;
}

async function listAll(view, resource) {
  const path = apiPath({ group: RBAC, version: "v1", resource });
  const items = [];
  let token = "";
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = new URLSearchParams({ limit: String(PAGE), ...(token && { continue: token }) });
    const list = await view.context.api.getJSON(`${path}?${query}`, { signal: view.signal });
    items.push(...(list.items ?? []));
    token = list.metadata?.continue ?? "";
    if (!token) break;
  }
  return items;
}

// "pods/log", "deployments.apps", "/metrics" → what is asked for.
export function readResource(text, discovery) {
  const wanted = text.trim();
  if (wanted.startsWith("/")) return { path: wanted };
  const [whole, subresource] = wanted.split("/");
  const dot = whole.indexOf(".");
  const name = dot < 0 ? whole : whole.slice(0, dot);
  if (!name) return null;
  const group = dot < 0 ? undefined : whole.slice(dot + 1);
  const known = discovery.resources.find((one) => (one.resource === name || one.singular === name || one.shortNames.includes(name)
    || one.kind.toLowerCase() === name.toLowerCase()) && (group === undefined || one.group === group));
  return { group: known?.group ?? group ?? "", resource: known?.resource ?? name, subresource: subresource ?? "", known: Boolean(known), namespaced: known?.namespaced ?? true };
}

function who(view) {
  const { context } = view;
  const result = h("div", { class: "who-result" });
  const verb = h("select", { "aria-label": say.verb, name: "verb" }, VERBS.map((one) => h("option", { value: one }, one)));
  const resource = h("input", { required: true, placeholder: say.resourceHint, "aria-label": say.resource, name: "resource", list: "access-resources" });
  const where = h("input", { value: context.namespace.value, placeholder: say.clusterWide, "aria-label": say.namespace, name: "namespace", list: "access-namespaces" });
  const name = h("input", { placeholder: say.optional, "aria-label": say.name, name: "name" });
  for (const input of [verb, resource, where, name]) typing(input);
  const known = [...new Set(context.discovery.resources.map((one) => (one.group ? `${one.resource}.${one.group}` : one.resource)))].sort();
  const ask = async (event) => {
    event.preventDefault();
    const asked = readResource(resource.value, context.discovery);
    if (!asked) return replace(result, h("p", { class: "notice bad" }, say.badResource));
    const request = { ...asked, verb: verb.value, namespace: asked.namespaced === false ? "" : where.value.trim(), name: name.value.trim() };
    replace(result, h("p", { class: "quiet" }, strings.app.loading));
    try {
      const { policy, forbidden } = await policyOf(view);
      drawWho(result, whoCan(policy, request), request, forbidden);
      result.append(await myself(view, request));
    } catch (problem) {
      if (!view.signal.aborted) replace(result, bad(problem));
    }
    return undefined;
  };
  return [h("h2", {}, say.who), h("form", { class: "bar", onsubmit: ask },
    h("label", {}, `${say.verb} `, verb), h("label", {}, `${say.resource} `, resource), h("datalist", { id: "access-resources" }, known.map((one) => h("option", { value: one }))),
    h("label", {}, `${say.namespace} `, where), h("label", {}, `${say.name} `, name), h("button", { class: "primary" }, say.ask)), result];
}

// What all of the server's authorizers say of the user, bindings or not.
async function myself(view, { verb, path, group, resource, subresource, namespace, name }) {
  const spec = path === undefined
    ? { resourceAttributes: { verb, group, resource, subresource, namespace, name } } : { nonResourceAttributes: { verb, path } };
  const { status } = await view.context.api.getJSON("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
    method: "POST", headers: { "Content-Type": "application/json" }, signal: view.signal,
    body: JSON.stringify({ apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec }),
  });
  return h("p", { class: "yourself", role: "status" }, say.yourself(status?.allowed === true, status?.reason ?? ""));
}

function drawWho(result, rows, request, forbidden) {
  const { columns } = say;
  replace(result,
    forbidden.length ? h("p", { class: "notice", role: "alert" }, say.partial(forbidden.join(", "))) : null,
    request.known === false && h("p", { class: "notice" }, say.noSuchResource(request.resource)),
    rows.length ? h("p", { class: "quiet", role: "status" }, say.found(rows.length)) : h("p", { class: "empty" }, say.canNobody),
    rows.length > 0 && h("div", { class: "scroll" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, [columns.subject, columns.scope, columns.binding, columns.role, columns.rule].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {},
        h("td", {}, h("span", { class: "quiet" }, `${row.subject.kind} `), h("b", {}, row.subject.namespace ? `${row.subject.namespace}/${row.subject.name}` : row.subject.name)),
        h("td", {}, row.everywhere ? say.everywhere : say.inNamespace(row.binding.namespace)),
        h("td", {}, bindingLink(row.binding)),
        h("td", {}, roleLink(row.binding), row.from.length ? h("span", { class: "quiet" }, ` ${say.aggregated(row.from.join(", "))}`) : ""),
        h("td", { class: "wide-text" }, ruleText(row.rule))))))),
    h("p", { class: "quiet" }, say.masters));
}

function bindingLink({ name, namespace }) {
  const resource = namespace === null ? "clusterrolebindings" : "rolebindings";
  return h("a", { href: objectHash({ group: RBAC, version: "v1", resource }, namespace ?? "", name) }, name);
}

function roleLink({ ref, namespace, role }) {
  const isRole = ref.kind === "Role";
  const name = String(ref.name ?? "");
  if (!role) return [name, h("span", { class: "quiet" }, ` (${say.missingRole})`)];
  return h("a", { href: objectHash({ group: RBAC, version: "v1", resource: isRole ? "roles" : "clusterroles" }, isRole ? namespace : "", name) }, name);
}

// -- a subject --

function subject(view) {
  const result = h("div", {});
  const user = h("input", { required: true, placeholder: say.userHint, "aria-label": say.user, name: "subject" });
  const groups = h("input", { placeholder: say.groupsHint, "aria-label": say.groups });
  for (const input of [user, groups]) typing(input);
  const ask = async (event) => {
    event.preventDefault();
    try {
      const { policy, forbidden } = await policyOf(view);
      const all = groupsOf(user.value.trim(), listed(groups.value));
      const rows = rulesOf(policy, { user: user.value.trim(), groups: all });
      const { columns } = say;
      replace(result, forbidden.length ? h("p", { class: "notice", role: "alert" }, say.partial(forbidden.join(", "))) : null,
        h("p", { class: "quiet" }, `${say.groups}: ${all.join(", ")}`),
        rows.length === 0 ? h("p", { class: "empty" }, say.noRules) : h("div", { class: "scroll" }, h("table", { class: "plain" },
          h("thead", {}, h("tr", {}, [columns.rule, columns.scope, columns.binding, columns.role, columns.subject].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, rows.map((row) => h("tr", {},
            h("td", { class: "wide-text" }, ruleText(row.rule)),
            h("td", {}, row.binding.namespace === null ? say.everywhere : say.inNamespace(row.binding.namespace)),
            h("td", {}, bindingLink(row.binding)), h("td", {}, roleLink(row.binding)), h("td", {}, `${row.via.kind} ${row.via.name}`)))))));
    } catch (problem) {
      if (!view.signal.aborted) replace(result, bad(problem));
    }
  };
  return [h("h2", {}, say.subject), h("form", { class: "bar", onsubmit: ask }, h("label", {}, `${say.user} `, user), h("label", {}, `${say.groups} `, groups), h("button", {}, say.ask)), result];
}

function listed(text) {
  return text.split(",").map((part) => part.trim()).filter(Boolean);
}

// -- another user --

function tryAs(view) {
  const { api, tell } = view.context;
  const user = h("input", { required: true, placeholder: say.userHint, "aria-label": say.user, name: "try-as" });
  const groups = h("input", { placeholder: say.groupsHint, "aria-label": say.groups });
  for (const input of [user, groups]) typing(input);
  const note = h("div", { role: "status" });
  const draw = () => {
    const now = api.impersonation();
    replace(note, now && h("p", { class: "notice" }, say.trying(now.user), " ", h("button", { onclick: stop }, say.stop)));
  };
  const change = async () => {
    view.policy = null;
    draw();
    await view.refreshMe();
  };
  const stop = () => {
    api.as(null);
    tell(say.stopped, "good");
    return change();
  };
  const begin = async (event) => {
    event.preventDefault();
    const before = api.impersonation();
    api.as(user.value.trim(), listed(groups.value));
    try {
      // Before anything else is asked as somebody else: whether that is permitted.
      await api.getJSON("/apis/authentication.k8s.io/v1/selfsubjectreviews", {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" }),
      });
      tell(say.trying(user.value.trim()), "note");
    } catch (problem) {
      api.as(before?.user ?? null, before?.groups);
      replace(note, h("p", { class: "notice bad", role: "alert" }, say.refused(problem.message)));
      return;
    }
    await change();
  };
  draw();
  return [h("h2", {}, say.tryAs), h("p", { class: "quiet" }, say.tryHint),
    h("form", { class: "bar", onsubmit: begin }, h("label", {}, `${say.user} `, user), h("label", {}, `${say.groups} `, groups), h("button", {}, say.try)), note];
}
