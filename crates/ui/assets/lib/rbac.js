// Who can do what, and by which binding: the RBAC objects of a cluster read as
// the authorizer reads them.

import { asText } from "./json.js";

// The roles and bindings of a cluster, ready to be asked. Each argument is a list of objects; what could not be listed is empty.
export function newPolicy({ roles = [], clusterRoles = [], roleBindings = [], clusterRoleBindings = [] }) {
  const key = (namespace, name) => JSON.stringify([namespace, name]);
  const known = new Map();
  for (const role of roles) known.set(key(role?.metadata?.namespace ?? "", role?.metadata?.name), role);
  for (const role of clusterRoles) known.set(key(null, role?.metadata?.name), role);
  const bindings = [
    ...clusterRoleBindings.map((binding) => ({ binding, namespace: null })),
    ...roleBindings.map((binding) => ({ binding, namespace: binding?.metadata?.namespace ?? "" })),
  ].map(({ binding, namespace }) => {
    const ref = binding?.roleRef ?? {};
    const role = known.get(ref.kind === "Role" ? key(namespace ?? "", ref.name) : key(null, ref.name));
    return { name: asText(binding?.metadata?.name), namespace, ref, role, subjects: listOf(binding?.subjects) };
  });
  return { bindings, clusterRoles };
}

function listOf(value) {
  return Array.isArray(value) ? value.filter((one) => one !== null && typeof one === "object") : [];
}

// Every subject that may make the request, with the binding, the role and the rule that say so:
// [{ subject, binding, role, rule, from, everywhere }]. A request is { verb, group, resource, subresource, name, namespace } or { verb, path }.
export function whoCan(policy, request) {
  const rows = [];
  for (const binding of policy.bindings) {
    if (!appliesTo(binding, request)) continue;
    const rule = ruleFor(binding.role, request);
    if (!rule) continue;
    for (const subject of binding.subjects) {
      rows.push({
        subject: subjectOf(subject, binding.namespace),
        binding,
        role: binding.role,
        rule,
        from: aggregatedFrom(policy, binding.role, request),
        everywhere: binding.namespace === null,
      });
    }
  }
  return rows.sort((a, b) => compare(a.subject.kind, b.subject.kind) || compare(a.subject.name, b.subject.name));
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

// Bindings of the cluster hold everywhere; those of a namespace only for objects in it.
function appliesTo(binding, request) {
  if (binding.namespace === null) return true;
  return request.path === undefined && Boolean(request.namespace) && binding.namespace === request.namespace;
}

function ruleFor(role, request) {
  return listOf(role?.rules).find((rule) => ruleAllows(rule, request)) ?? null;
}

// Whether a rule allows a request.
export function ruleAllows(rule, request) {
  if (!has(rule.verbs, request.verb)) return false;
  if (request.path !== undefined) return stringsOf(rule.nonResourceURLs).some((pattern) => pathMatches(pattern, request.path));
  if (!has(rule.apiGroups, request.group ?? "")) return false;
  const whole = request.subresource ? `${request.resource}/${request.subresource}` : request.resource;
  const resources = stringsOf(rule.resources);
  const covers = resources.includes("*") || resources.includes(whole)
    || (Boolean(request.subresource) && resources.includes(`*/${request.subresource}`));
  if (!covers) return false;
  const names = stringsOf(rule.resourceNames);
  return names.length === 0 || (Boolean(request.name) && names.includes(request.name));
}

function has(list, wanted) {
  const values = stringsOf(list);
  return values.includes("*") || values.includes(wanted);
}

function stringsOf(value) {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function pathMatches(pattern, path) {
  if (pattern === "*" || pattern === path) return true;
  return pattern.endsWith("*") && path.startsWith(pattern.slice(0, -1));
}

// A subject under one name: service accounts as `namespace/name`.
function subjectOf(subject, namespace) {
  const kind = asText(subject.kind);
  const name = asText(subject.name);
  if (kind !== "ServiceAccount") return { kind, name, namespace: "" };
  return { kind, name, namespace: asText(subject.namespace ?? namespace) };
}

// The cluster roles that an aggregated role has the rule from.
function aggregatedFrom(policy, role, request) {
  const selectors = listOf(role?.aggregationRule?.clusterRoleSelectors);
  if (!selectors.length) return [];
  return policy.clusterRoles
    .filter((one) => one !== role && selectors.some((selector) => selects(selector, one?.metadata?.labels)) && ruleFor(one, request))
    .map((one) => asText(one.metadata.name));
}

// A label selector. One with nothing in it selects everything, as upstream's does.
export function selects(selector, given) {
  const labels = given !== null && typeof given === "object" ? given : {};
  const value = (key) => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  const equal = Object.entries(selector?.matchLabels ?? {}).every(([key, wanted]) => value(key) === wanted);
  return equal && listOf(selector?.matchExpressions).every(({ key, operator, values }) => {
    const found = value(key);
    switch (operator) {
      case "In": return found !== undefined && stringsOf(values).includes(found);
      case "NotIn": return found === undefined || !stringsOf(values).includes(found);
      case "Exists": return found !== undefined;
      case "DoesNotExist": return found === undefined;
      default: return false;
    }
  });
}

// What a subject may do: every rule of every binding that names it. `who` is { user, groups } as the authorizer sees them.
export function rulesOf(policy, who) {
  const rows = [];
  for (const binding of policy.bindings) {
    const via = binding.subjects.find((subject) => isSubject(subject, binding.namespace, who));
    if (!via) continue;
    for (const rule of listOf(binding.role?.rules)) rows.push({ binding, role: binding.role, rule, via: subjectOf(via, binding.namespace) });
  }
  return rows;
}

function isSubject(subject, namespace, who) {
  const groups = who.groups ?? [];
  switch (subject.kind) {
    case "User": return subject.name === who.user;
    case "Group": return groups.includes(subject.name);
    case "ServiceAccount": return who.user === `system:serviceaccount:${subject.namespace ?? namespace ?? ""}:${subject.name}`;
    default: return false;
  }
}

// The groups that the server itself gives to a user of this name, besides those that it comes with.
export function groupsOf(user, groups = []) {
  const all = new Set(groups);
  const account = /^system:serviceaccount:([^:]+):[^:]+$/.exec(user);
  if (account) {
    all.add("system:serviceaccounts");
    all.add(`system:serviceaccounts:${account[1]}`);
  }
  all.add(user === "system:anonymous" ? "system:unauthenticated" : "system:authenticated");
  return [...all];
}

// A rule in one line: `get, list deployments.apps (name web)`.
export function ruleText(rule) {
  const verbs = stringsOf(rule?.verbs).join(", ");
  const paths = stringsOf(rule?.nonResourceURLs);
  if (paths.length) return `${verbs} ${paths.join(", ")}`;
  const groups = stringsOf(rule?.apiGroups);
  const resources = stringsOf(rule?.resources).flatMap((resource) =>
    groups.map((group) => (group === "" ? resource : `${resource}.${group}`)));
  const names = stringsOf(rule?.resourceNames);
  return `${verbs} ${resources.join(", ")}${names.length ? ` (${names.join(", ")})` : ""}`;
}
