import { test } from "node:test";
import assert from "node:assert/strict";
import { newPolicy, whoCan, rulesOf, ruleAllows, ruleText, selects, groupsOf } from "../../assets/lib/rbac.js";

const rule = (verbs, apiGroups, resources, resourceNames) => ({ verbs, apiGroups, resources, resourceNames });
const ref = (kind, name) => ({ kind, name });
const policy = newPolicy({
  clusterRoles: [
    { metadata: { name: "admin" }, rules: [rule(["*"], ["*"], ["*"]), { verbs: ["*"], nonResourceURLs: ["*"] }] },
    { metadata: { name: "view" }, aggregationRule: { clusterRoleSelectors: [{ matchLabels: { view: "true" } }] }, rules: [rule(["get"], ["apps"], ["deployments"])] },
    { metadata: { name: "view-apps", labels: { view: "true" } }, rules: [rule(["get"], ["apps"], ["deployments"])] },
    { metadata: { name: "scale" }, rules: [rule(["update"], ["apps"], ["*/scale"])] },
    { metadata: { name: "health" }, rules: [{ verbs: ["get"], nonResourceURLs: ["/healthz*"] }] },
  ],
  roles: [{ metadata: { name: "one", namespace: "n" }, rules: [rule(["get"], [""], ["secrets"], ["s"])] }],
  clusterRoleBindings: [
    { metadata: { name: "a" }, roleRef: ref("ClusterRole", "admin"), subjects: [{ kind: "Group", name: "system:masters" }] },
    { metadata: { name: "h" }, roleRef: ref("ClusterRole", "health"), subjects: [{ kind: "User", name: "eve" }] },
    { metadata: { name: "dangling" }, roleRef: ref("ClusterRole", "none"), subjects: [{ kind: "User", name: "eve" }] },
  ],
  roleBindings: [
    { metadata: { name: "v", namespace: "n" }, roleRef: ref("ClusterRole", "view"), subjects: [{ kind: "User", name: "eve" }, { kind: "ServiceAccount", name: "bot" }] },
    { metadata: { name: "o", namespace: "n" }, roleRef: ref("Role", "one"), subjects: [{ kind: "User", name: "eve" }] },
    { metadata: { name: "s", namespace: "n" }, roleRef: ref("ClusterRole", "scale"), subjects: [{ kind: "User", name: "hpa" }] },
    { metadata: { name: "broken", namespace: "n" }, subjects: "x" },
  ],
});
const names = (request) => whoCan(policy, request).map(({ subject, binding }) => `${subject.name} by ${binding.name}`);

test("who can", () => {
  const deployments = { verb: "get", group: "apps", resource: "deployments" };
  assert.deepEqual(names({ ...deployments, namespace: "n" }), ["system:masters by a", "bot by v", "eve by v"]);
  assert.deepEqual(names({ ...deployments, namespace: "other" }), ["system:masters by a"]);
  assert.deepEqual(names({ ...deployments, namespace: "" }), ["system:masters by a"]);
  assert.deepEqual(names({ verb: "get", group: "", resource: "secrets", name: "s", namespace: "n" }), ["system:masters by a", "eve by o"]);
  assert.deepEqual(names({ verb: "get", group: "", resource: "secrets", name: "t", namespace: "n" }), ["system:masters by a"]);
  assert.deepEqual(names({ verb: "get", group: "", resource: "secrets", namespace: "n" }), ["system:masters by a"]);
  assert.deepEqual(names({ verb: "update", group: "apps", resource: "deployments", subresource: "scale", namespace: "n" }), ["system:masters by a", "hpa by s"]);
  assert.deepEqual(names({ verb: "get", path: "/healthz/live" }), ["system:masters by a", "eve by h"]);
  assert.deepEqual(names({ verb: "get", path: "/metrics" }), ["system:masters by a"]);
});

test("an aggregated role names the role that brought the rule", () => {
  const [row] = whoCan(policy, { verb: "get", group: "apps", resource: "deployments", namespace: "n" }).filter(({ subject }) => subject.name === "eve");
  assert.deepEqual(row.from, ["view-apps"]);
});

test("what a subject may do", () => {
  assert.deepEqual(rulesOf(policy, { user: "eve" }).map(({ binding }) => binding.name), ["h", "v", "o"]);
  assert.deepEqual(rulesOf(policy, { user: "system:serviceaccount:n:bot" }).map(({ binding }) => binding.name), ["v"]);
  assert.equal(rulesOf(policy, { user: "x", groups: ["system:masters"] }).length, 2);
  assert.ok(groupsOf("system:serviceaccount:n:bot").includes("system:serviceaccounts:n"));
});

test("rules and selectors", () => {
  assert.equal(ruleAllows(rule(["get"], ["apps"], ["deployments"]), { verb: "get", group: "apps", resource: "deployments", subresource: "status" }), false);
  assert.equal(ruleAllows({}, { verb: "get", group: "", resource: "pods" }), false);
  assert.equal(ruleText(rule(["get"], ["", "apps"], ["x"], ["y"])), "get x, x.apps (y)");
  assert.equal(selects({ matchExpressions: [{ key: "a", operator: "In", values: ["1"] }] }, { a: "1" }), true);
  assert.equal(selects({ matchExpressions: [{ key: "a", operator: "NotIn", values: ["1"] }] }, { a: "1" }), false);
  assert.equal(selects({}, null), true);
});
