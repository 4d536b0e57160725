"""Access: what the user may do, who can do what and by which binding, trying as another user."""
import unittest

import cluster
import test_explorer
from test_explorer import HOSTILE, Page

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SUBMIT = """
    const form = document.querySelector(`[name="${arguments[0]}"]`).form;
    for (const [name, value] of Object.entries(arguments[1])) form.querySelector(`[name="${name}"]`).value = value;
    form.requestSubmit();"""


def setUpModule():
    test_explorer.setUpModule()


def tearDownModule():
    test_explorer.tearDownModule()


def fill(api):
    cluster.fill(api)
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    api.create(f"{RBAC}/clusterroles",
               {**kind, "kind": "ClusterRole", "metadata": {"name": "charts", "labels": {"charts": "yes"}}, "rules": [rule]},
               {**kind, "kind": "ClusterRole", "metadata": {"name": "navigation"}, "rules": [rule],
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"charts": "yes"}}]}})
    api.create(f"{RBAC}/namespaces/shop/roles",
               {**kind, "kind": "Role", "metadata": {"name": "one-secret"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["till"], "verbs": ["get"]}]})
    group = "rbac.authorization.k8s.io"
    api.create(f"{RBAC}/namespaces/shop/rolebindings",
               {**kind, "kind": "RoleBinding", "metadata": {"name": "navigators"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "navigation"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}, {"kind": "ServiceAccount", "name": "helm", "namespace": "shop"}]},
               {**kind, "kind": "RoleBinding", "metadata": {"name": "cashiers"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "one-secret"},
                "subjects": [{"apiGroup": group, "kind": "Group", "name": HOSTILE}, {"apiGroup": group, "kind": "User", "name": "jane"}]})


class Access(Page):
    fill = staticmethod(fill)

    def ask(self, verb, resource, namespace, name=""):
        """The subjects and the bindings of the answer."""
        self.browser.run("document.querySelector('.who-result').replaceChildren()")
        self.browser.run(SUBMIT, "resource", {"verb": verb, "resource": resource, "namespace": namespace, "name": name})
        self.browser.wait("an answer", "return document.querySelector('.who-result table, .who-result .empty') !== null")
        return self.browser.run("return [...document.querySelectorAll('.who-result tbody tr')].map((row) => [...row.children].map((cell) => cell.innerText))")

    def open(self):
        self.go("#/objects")
        self.go("#/access")
        self.browser.wait("my rules", "return document.querySelector('.access-part table') !== null")

    def test_who_can_and_by_which_binding(self):
        self.open()
        rows = self.ask("get", "configmaps", "shop")
        jane = next(row for row in rows if row[0] == "User jane")
        self.assertEqual(jane[1:3], ["in shop", "navigators"])
        self.assertIn("navigation", jane[3])
        self.assertIn("from charts", jane[3])
        self.assertIn("configmaps", jane[4])
        self.assertIn("ServiceAccount shop/helm", [row[0] for row in rows])
        self.assertIn(["Group system:masters", "everywhere", "cluster-admin"], [row[:3] for row in rows])
        self.browser.wait("the server's own word", "return document.querySelector('.yourself')?.innerText.startsWith('You yourself: allowed')")
        self.screenshot("access")
        self.assertNotIn("User jane", [row[0] for row in self.ask("get", "configmaps", "payments")])
        self.assertNotIn("User jane", [row[0] for row in self.ask("delete", "configmaps", "shop")])
        self.assertIn("User jane", [row[0] for row in self.ask("get", "secrets", "shop", "till")])
        self.assertNotIn("User jane", [row[0] for row in self.ask("get", "secrets", "shop")])
        # Short names and kinds are understood, and links lead to the binding.
        self.assertIn("User jane", [row[0] for row in self.ask("get", "cm", "shop")])
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('.who-result a')].find((one) => one.innerText === 'navigators').getAttribute('href')"),
                         "#/object/rbac.authorization.k8s.io~v1/rolebindings/shop/navigators")
        self.assertIn("Group system:masters", [row[0] for row in self.ask("get", "/metrics", "")])
        self.assertEqual(self.browser.errors(), [])

    def test_what_a_subject_may_do(self):
        self.open()
        self.browser.run(SUBMIT, "subject", {"subject": "system:serviceaccount:shop:helm"})
        self.browser.wait("its rules", "return [...document.querySelectorAll('.access-part')][2].innerText.includes('get, list configmaps')")
        text = self.browser.text(".access-part")[2]
        self.assertIn("system:serviceaccounts:shop", text)
        self.assertNotIn("secrets", text)

    def test_hostile_names_are_only_text(self):
        self.open()
        rows = self.ask("get", "secrets", "shop", "till")
        self.assertIn(f"Group {HOSTILE}", [row[0] for row in rows])
        self.assertEqual(self.browser.run("return document.querySelectorAll('main script, main img').length"), 0)
        self.assertIsNone(self.browser.run("return window.hacked ?? null"))

    def test_try_as_another_user(self):
        self.open()
        try:
            self.browser.run(SUBMIT, "try-as", {"try-as": "jane"})
            self.browser.wait("the identity", "return document.querySelector('.identity').innerText.includes('You are jane')")
            self.browser.wait("it is said at the top of the page", "const badge = document.querySelector('.badge.as'); return badge && !badge.hidden && badge.innerText.includes('as jane')")
            self.browser.run("const where = document.querySelector('.access-part input'); where.value = 'shop'; where.form.requestSubmit()")
            self.browser.wait("her rules", "return document.querySelector('.access-part table').innerText.includes('configmaps') && !document.querySelector('.access-part table').innerText.includes('*.*')")
            # What she may not list is said, and not taken for nothing.
            self.browser.run(SUBMIT, "resource", {"resource": "pods", "namespace": "shop"})
            self.browser.wait("it is partial", "return document.querySelector('.who-result .notice')?.innerText.includes('ClusterRoleBindings')")
            self.browser.wait("the server's own word", "return document.querySelector('.yourself')?.innerText.startsWith('You yourself: denied')")
            self.go("#/object/core~v1/configmaps/shop/settings")
            self.browser.wait("she reads what she may", "return document.querySelector('.code')?.innerText.includes('currency')")
            self.go("#/object/apps~v1/deployments/shop/web")
            self.browser.wait("and not what she may not", "return document.querySelector('.problem')?.innerText.includes('jane')")
        finally:
            self.go("#/access")
            self.browser.wait("the button to stop", """
                const stop = [...document.querySelectorAll('.access-part .notice button')][0];
                stop?.click();
                return Boolean(stop);""")
        self.browser.wait("myself again", "return document.querySelector('.identity').innerText.length > 8 && !document.querySelector('.identity').innerText.includes('jane')")
        self.assertEqual([line for line in self.browser.errors() if "status of 403" not in line], [])

    def test_phones_have_room(self):
        self.browser.size(390, 780)
        try:
            self.open()
            self.ask("get", "configmaps", "shop")
            self.browser.wait("no sideways scrolling", "const main = document.querySelector('main'); return main.scrollWidth <= main.clientWidth")
        finally:
            self.browser.devtools("Emulation.clearDeviceMetricsOverride")


if __name__ == "__main__":
    unittest.main()
