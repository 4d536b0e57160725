"""One object: YAML by owner, fields, graph, history, events, an edit with conflicts, scale, delete, create, logs, secrets."""
import json
import unittest

import cluster
import test_explorer
from test_explorer import HOSTILE, Page
from webdriver import until

DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
BUTTON = """
    const found = [...document.querySelectorAll(arguments[0])].find((one) => one.textContent.includes(arguments[1]) && !one.disabled);
    found?.click();
    return Boolean(found);"""


def setUpModule():
    test_explorer.setUpModule()


def tearDownModule():
    test_explorer.tearDownModule()


class ObjectPage(Page):
    def apply(self, path, manager, body, force=False):
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return self.api.call("PATCH", path + query, body, "application/apply-patch+yaml")

    def press(self, text, css="button"):
        self.browser.wait(f"a button {text}", BUTTON, css, text)

    def open(self, hash, tab):
        self.go(hash + f"?tab={tab}")
        self.browser.wait_for(f"#object-panel > .tab-{tab}")

    def errors_but(self, *statuses):
        """Complaints of the console that are not answers with these statuses, which the browser counts as errors."""
        expected = [f"status of {status}" for status in statuses]
        return [line for line in self.browser.errors() if not any(text in line for text in expected)]

    def lines(self):
        script = "return [...document.querySelectorAll('.tab-yaml .line')].map((line) => [line.textContent, line.className, line.title])"
        return self.browser.run(script)


def two_managers(test, name):
    """A deployment of `ci`, with a label of `ops`, and replicas that both of `ci` and `hpa` have set."""
    path = f"{DEPLOYMENTS}/{name}"
    body = cluster.deployment(name, "shop", replicas=2)
    test.apply(path, "ci", body)
    identity = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
    test.apply(path, "hpa", {**identity, "spec": {"replicas": 2}})
    test.apply(path, "ops", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"oncall": "mona"}}})
    return path


class Objects(ObjectPage):
    def test_lines_have_the_colours_of_their_owners(self):
        two_managers(self, "colours")
        self.open("#/object/apps~v1/deployments/shop/colours", "yaml")
        lines = {text.strip(): (set(classes.split()), title) for text, classes, title in self.lines()}
        self.assertEqual(lines["oncall: mona"][1], "ops (Apply)")
        self.assertEqual(sorted(lines["replicas: 2"][1].split("\n")), ["ci (Apply)", "hpa (Apply)"])
        image = lines["- image: registry.example/web:1.4.2"]
        self.assertEqual(image[1], "ci (Apply)")
        colour = lambda classes: {name for name in classes if name.startswith(("own-", "and-"))}
        self.assertEqual(len(colour(lines["replicas: 2"][0])), 2)
        self.assertNotEqual(colour(image[0]), colour(lines["oncall: mona"][0]))
        self.assertEqual(colour(lines["schedulerName: default-scheduler"][0]), set())
        self.assertNotIn("managedFields", "".join(lines))
        painted = self.browser.run("""
            return ['ops', 'ci'].map((name) => getComputedStyle(document.querySelector(`[data-manager=${name}] .swatch`)).backgroundColor)""")
        self.assertEqual(len(set(painted)), 2, painted)
        self.press("ops", ".manager")
        self.browser.wait("others are dimmed", "return document.querySelectorAll('.line.dim').length > 10 && document.querySelectorAll('.line:not(.dim)').length === 1")
        self.press("ops", ".manager")
        self.screenshot("object")
        self.assertEqual(self.browser.errors(), [])

    def test_a_line_tells_its_owner_and_meaning_by_keys(self):
        two_managers(self, "keys")
        self.open("#/object/apps~v1/deployments/shop/keys", "yaml")
        self.browser.run("document.querySelector('.code').focus()")
        number = self.browser.run("return Number(document.querySelector('[data-pointer=\"/spec/replicas\"]').dataset.number)")
        self.browser.keys("Home", *["ArrowDown"] * number)
        self.browser.wait("the path is shown", "return document.querySelector('.detail .path').innerText === '.spec.replicas'")
        self.browser.wait("and the schema's words", "return document.querySelector('.detail .description')?.innerText.length > 10")
        detail = self.browser.text(".detail")[0]
        self.assertIn("ci (Apply)", detail)
        self.assertIn("hpa (Apply)", detail)
        active = self.browser.run("return document.getElementById(document.querySelector('.code').getAttribute('aria-activedescendant')).textContent")
        self.assertEqual(active.strip(), "replicas: 2")
        self.browser.run("document.querySelector('#tab-yaml').focus()")
        self.browser.keys("\ue014")
        self.browser.wait_for("#object-panel > .tab-fields")
        self.assertTrue(self.browser.url().endswith("?tab=fields"))
        self.assertEqual(self.browser.errors(), [])

    def test_managed_fields_are_noise_until_asked_for(self):
        two_managers(self, "noise")
        self.open("#/object/apps~v1/deployments/shop/noise", "yaml")
        self.browser.click(".tab-yaml input[type=checkbox]")
        self.browser.wait("they are there", "return document.querySelector('.code').innerText.includes('managedFields:')")
        shown = self.browser.run("return [...document.querySelectorAll('.tab-yaml .line')].map((line) => line.textContent).join('\\n') + '\\n'")
        self.assertIn('k:{"name":"app"}', shown)

    def test_fields_have_the_schema_beside_them_and_can_be_changed(self):
        path = two_managers(self, "form")
        self.open("#/object/apps~v1/deployments/shop/form", "fields")
        row = self.browser.wait("the row", "return document.querySelector('[data-pointer=\"/spec/replicas\"]')?.innerText")
        self.assertIn("integer", row)
        self.assertIn("pods", row.lower())
        self.browser.run("""
            const input = document.querySelector('[aria-label="Value of .spec.revisionHistoryLimit"]');
            input.value = '3';
            input.dispatchEvent(new Event('input'));""")
        self.press("Review")
        self.browser.wait("the difference", "return document.querySelector('.review ins')?.innerText.includes('revisionHistoryLimit: 3')")
        self.assertEqual(self.api.call("GET", path)["spec"]["revisionHistoryLimit"], 10)
        self.press("Apply", ".review button")
        until("it is written", lambda: self.api.call("GET", path)["spec"]["revisionHistoryLimit"] == 3)
        entry = [one for one in self.api.call("GET", path)["metadata"]["managedFields"] if one["manager"] == "sternpost-explorer"]
        self.assertEqual([(one["operation"], one["fieldsV1"]) for one in entry], [("Apply", {"f:spec": {"f:revisionHistoryLimit": {}}})])
        self.screenshot("fields")
        self.assertEqual(self.browser.errors(), [])

    def test_an_edit_with_conflicts_is_decided_field_by_field(self):
        path = two_managers(self, "conflict")
        self.open("#/object/apps~v1/deployments/shop/conflict", "edit")
        self.browser.wait("the text", "return document.querySelector('textarea.editor').value.includes('replicas: 2')")
        text = self.browser.run("return document.querySelector('textarea.editor').value")
        self.assertNotIn("managedFields", text)
        edited = text.replace("replicas: 2", "replicas: 9").replace("web:1.4.2", "web:2.0.0").replace("    oncall: mona\n", "")
        edited = edited.replace("restartPolicy: Always", "restartPolicy: Always\n      hostname: mine")
        self.browser.run("document.querySelector('textarea.editor').value = arguments[0]", edited)
        self.press("Check (dry run)")
        self.browser.wait("two conflicts", "return document.querySelectorAll('.conflict').length === 2")
        conflicts = {field: text for field, text in self.browser.run("return [...document.querySelectorAll('.conflict')].map((one) => [one.dataset.field, one.innerText])")}
        image = '.spec.template.spec.containers[name="app"].image'
        self.assertEqual(set(conflicts), {".spec.replicas", image})
        self.assertIn('"ci"', conflicts[".spec.replicas"])
        self.assertIn('"hpa"', conflicts[".spec.replicas"])
        self.assertIn("web:2.0.0", conflicts[image])
        self.screenshot("conflict")
        self.assertTrue(self.browser.run("return [...document.querySelectorAll('.conflicts button')].every((one) => one.disabled)"))
        self.browser.run("""
            for (const one of document.querySelectorAll('.conflict')) {
              one.querySelector(one.dataset.field === '.spec.replicas' ? '[value=leave]' : '[value=take]').click();
            }""")
        self.press("Check with these decisions")
        self.browser.wait_for(".review .diff")
        added = self.browser.text(".review ins")
        self.assertEqual(sorted(line.strip("+ ") for line in added), ["- image: registry.example/web:2.0.0", "hostname: mine"])
        self.assertIn(".metadata.labels.oncall", self.browser.text(".removals")[0])
        self.assertEqual(self.api.call("GET", path)["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/web:1.4.2")
        self.press("Apply", ".review button")
        self.browser.wait("it is applied", "return document.querySelector('.review .notice.good') !== null")
        now = self.api.call("GET", path)
        self.assertEqual(now["spec"]["replicas"], 2)
        self.assertEqual(now["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/web:2.0.0")
        self.assertEqual(now["spec"]["template"]["spec"]["hostname"], "mine")
        self.assertNotIn("oncall", now["metadata"]["labels"])
        mine = next(one for one in now["metadata"]["managedFields"] if (one["manager"], one["operation"]) == ("sternpost-explorer", "Apply"))
        self.assertNotIn("f:replicas", json.dumps(mine))
        self.assertEqual(self.errors_but(409), [])

    def test_an_invalid_edit_says_why_and_writes_nothing(self):
        path = two_managers(self, "invalid")
        before = self.api.call("GET", path)["metadata"]["resourceVersion"]
        self.open("#/object/apps~v1/deployments/shop/invalid", "edit")
        self.browser.wait("the text", "return document.querySelector('textarea.editor').value.includes('replicas: 2')")
        self.browser.run("const text = document.querySelector('textarea.editor'); text.value = text.value.replace('replicas: 2', 'replicas: -2')")
        self.press("Check (dry run)")
        self.browser.wait("the reason", "return document.querySelector('.review .notice.bad')?.innerText.includes('spec.replicas')")
        self.browser.run("const text = document.querySelector('textarea.editor'); text.value = text.value.replace('replicas: -2', 'replicsa: 2')")
        self.press("Check (dry run)")
        self.browser.wait("unknown fields too", "return document.querySelector('.review .notice.bad')?.innerText.includes('replicsa')")
        self.assertEqual(self.api.call("GET", path)["metadata"]["resourceVersion"], before)
        self.assertEqual(self.errors_but(400, 422), [])

    def test_an_edit_of_what_has_changed_since_says_so(self):
        path = two_managers(self, "stale")
        self.open("#/object/apps~v1/deployments/shop/stale", "edit")
        self.browser.wait("the text", "return document.querySelector('textarea.editor').value.includes('replicas: 2')")
        # A report of a controller is no change that matters.
        self.api.call("PATCH", f"{path}/status", {"status": {"observedGeneration": 1}}, "application/merge-patch+json")
        self.browser.run("const text = document.querySelector('textarea.editor'); text.value = text.value.replace('revisionHistoryLimit: 10', 'revisionHistoryLimit: 4')")
        self.press("Check (dry run)")
        self.browser.wait("the difference", "return document.querySelector('.review ins')?.innerText.includes('revisionHistoryLimit: 4')")
        self.api.merge(path, {"spec": {"minReadySeconds": 5}})
        self.press("Check (dry run)")
        self.browser.wait("it is said", "return document.querySelector('.review .notice.bad')?.innerText.includes('has changed on the server')")
        self.press("Check against the newest version")
        self.browser.wait("what the text takes back", "return document.querySelector('.removals')?.innerText.includes('.spec.minReadySeconds')")
        self.assertEqual(self.errors_but(409), [])

    def test_whole_numbers_of_any_size_survive_an_edit(self):
        definition = cluster.definition("tankers", "Tanker")
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["litres"] = {"type": "integer", "format": "int64"}
        self.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        tanker = {"apiVersion": "sea.example.com/v1", "kind": "Tanker", "metadata": {"name": "large"}, "spec": {"litres": 9007199254740993, "rig": "sloop"}}
        path = "/apis/sea.example.com/v1/namespaces/shop/tankers"
        until("the kind is served", lambda: self.api.call("POST", path, tanker), errors=(Exception,))
        self.go("#/objects")
        self.browser.wait("the page knows the kind", "return [...document.querySelectorAll('.tree a')].some((link) => link.innerText === 'Tanker')")
        self.open("#/object/sea.example.com~v1/tankers/shop/large", "edit")
        self.browser.wait("the text", "return document.querySelector('textarea.editor')?.value.includes('litres: 9007199254740993')")
        self.browser.run("const text = document.querySelector('textarea.editor'); text.value = text.value.replace('sloop', 'ketch').replace('740993', '740995')")
        self.press("Check (dry run)")
        self.browser.wait_for(".conflicts, .review .diff")
        if self.browser.find(".conflict"):
            self.browser.run("document.querySelectorAll('.conflict [value=take]').forEach((one) => one.click())")
            self.press("Check with these decisions")
        self.browser.wait_for(".review .diff")
        self.press("Apply", ".review button")
        until("it is exact", lambda: self.api.call("GET", f"{path}/large")["spec"] == {"litres": 9007199254740995, "rig": "ketch", "crew": 2})

    def test_history_has_the_watch_window_and_what_comes(self):
        path = two_managers(self, "past")
        self.api.merge(path, {"spec": {"minReadySeconds": 7}})
        self.open("#/object/apps~v1/deployments/shop/past", "history")
        self.browser.wait("versions from before the page", "return document.querySelectorAll('.versions tbody tr').length >= 4")
        self.browser.wait("it says where they are from", "return document.querySelector('.tab-history').innerText.includes('replayed from the server')")
        self.browser.wait("the newest change", "return [...document.querySelectorAll('.difference ins')].some((one) => one.innerText.includes('minReadySeconds: 7'))")
        count = len(self.browser.find(".versions tbody tr"))
        self.api.merge(path, {"spec": {"minReadySeconds": 8}})
        self.browser.wait("the change arrives", "return document.querySelectorAll('.versions tbody tr').length === arguments[0]", count + 1)
        self.browser.run("[...document.querySelectorAll('[data-side=before]')].at(-1).click()")
        self.browser.wait("any two can be compared", """
            const lines = [...document.querySelectorAll('.difference ins')].map((one) => one.innerText.replace(/^\\+ */, ''));
            return lines.includes('minReadySeconds: 8') && lines.includes('oncall: mona') && !lines.includes('minReadySeconds: 7');""")
        self.screenshot("history")
        self.assertEqual(self.browser.errors(), [])

    def test_owners_and_dependents_are_a_graph_of_links(self):
        path = two_managers(self, "tree")
        uid = self.api.call("GET", path)["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "tree", "uid": uid, "controller": True}
        child = cluster.config_map("branch", "shop")
        child["metadata"]["ownerReferences"] = [owner]
        self.api.create("/api/v1/namespaces/shop/configmaps", child)
        branch = self.api.call("GET", "/api/v1/namespaces/shop/configmaps/branch")["metadata"]["uid"]
        leaf = cluster.config_map("leaf", "shop")
        leaf["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "branch", "uid": branch}]
        self.api.create("/api/v1/namespaces/shop/configmaps", leaf)
        self.open("#/object/apps~v1/deployments/shop/tree", "owners")
        self.browser.requests()
        said = int(self.browser.wait("the number of requests", "return /\\((\\d+) requests\\)/.exec([...document.querySelectorAll('.tab-owners button')].at(-1).innerText)?.[1]"))
        self.press("all kinds")
        self.browser.wait("two dependents", "return document.querySelector('.tab-owners').innerText.includes('2 dependents found')")
        made = [address for address in self.browser.requests() if "limit=500" in address]
        self.assertEqual(len(made), said)
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('svg a')].map((one) => one.getAttribute('aria-label'))"), ["ConfigMap branch", "ConfigMap leaf"])
        self.screenshot("graph")
        self.open("#/object/core~v1/configmaps/shop/leaf", "owners")
        self.browser.wait("owners of owners", "return [...document.querySelectorAll('svg a')].map((one) => one.getAttribute('aria-label')).join() === 'Deployment tree,ConfigMap branch'")
        self.assertEqual(self.browser.errors(), [])

    def test_events_are_shown_and_come(self):
        path = two_managers(self, "eventful")
        uid = self.api.call("GET", path)["metadata"]["uid"]
        self.open("#/object/apps~v1/deployments/shop/eventful", "events")
        self.browser.wait("none yet", "return document.querySelector('.tab-events').innerText.includes('no events')")
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "eventful.1", "namespace": "shop"}, "type": "Warning", "reason": "Leaking",
                 "message": "water in the hold", "count": 4, "source": {"component": "bilge"}, "lastTimestamp": "2026-01-01T00:00:00Z",
                 "involvedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "eventful", "uid": uid}}
        self.api.create("/api/v1/namespaces/shop/events", event)
        self.browser.wait("it comes", "return document.querySelector('.tab-events tbody')?.innerText.includes('water in the hold')")
        self.assertEqual(self.browser.errors(), [])

    def test_secrets_are_hidden_until_asked_for_key_by_key(self):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"data":{"password":"c2hpcHNoYXBl"}}'}},
            "data": {"password": "c2hpcHNoYXBl", "user": "bW9uYQ=="}}
        self.api.create("/api/v1/namespaces/shop/secrets", secret)
        for tab in ("yaml", "fields", "history", "edit"):
            with self.subTest(tab):
                self.open("#/object/core~v1/secrets/shop/keys", tab)
                self.browser.wait("something is shown", "return document.querySelector('#object-panel').innerText.length > 20")
                page = self.browser.run("""
                    const typed = [...document.querySelectorAll('input, textarea')].map((one) => one.value).join();
                    return document.documentElement.outerHTML + typed;""")
                for text in ("c2hpcHNoYXBl", "shipshape", "bW9uYQ==", "mona<"):
                    self.assertNotIn(text, page)
        self.open("#/object/core~v1/secrets/shop/keys", "yaml")
        self.screenshot("secret")
        self.press("Show password", ".secret-keys button")
        self.browser.wait("it is shown", "return document.querySelector('.secret-value')?.innerText === 'shipshape'")
        self.assertNotIn("bW9uYQ==", self.browser.run("return document.documentElement.outerHTML"))
        self.assertIn("c2hpcHNoYXBl", "".join(text for text, _, _ in self.lines()))
        self.press("Hide password", ".secret-keys button")
        self.browser.wait("it is hidden again", "return document.querySelector('.secret-value') === null")
        self.assertEqual(self.browser.errors(), [])

    def test_scale_and_delete_ask_first_and_mean_this_object(self):
        path = two_managers(self, "short")
        self.open("#/object/apps~v1/deployments/shop/short", "yaml")
        self.press("Scale", ".actions button")
        self.browser.wait_for("dialog[open] input[type=number]")
        self.browser.run("document.querySelector('dialog input').value = '5'")
        self.press("Scale", "dialog [type=submit]")
        self.browser.wait("the page shows it", "return document.querySelector('.code').innerText.includes('replicas: 5')")
        self.press("Delete", ".actions button")
        self.browser.wait_for("dialog[open] select")
        # It changes while the dialog is open: what the user saw is not what would be deleted.
        self.api.merge(path, {"metadata": {"labels": {"changed": "yes"}}})
        self.press("Delete", "dialog [type=submit]")
        self.browser.wait("it is refused", "return document.querySelector('dialog .notice.bad')?.innerText.length > 10")
        self.assertEqual(self.api.call("GET", path)["spec"]["replicas"], 5)
        self.browser.keys("Escape")
        self.browser.wait("the label is there", "return document.querySelector('.code').innerText.includes('changed:')")
        self.press("Delete", ".actions button")
        self.browser.wait_for("dialog[open] select")
        self.press("Delete", "dialog [type=submit]")
        self.browser.wait("it is gone, and stays on the page", "return document.querySelector('.object-head').innerText.includes('was deleted') && document.querySelector('.code').innerText.includes('replicas: 5')")
        self.assertEqual(self.browser.find(".actions"), [])
        self.assertEqual(self.errors_but(409), [])

    def test_a_similar_object_is_created(self):
        two_managers(self, "first")
        self.open("#/object/apps~v1/deployments/shop/first", "yaml")
        self.press("Create a similar one")
        self.browser.wait("a text", "return document.querySelector('textarea.editor')?.value.includes('name: first-copy')")
        text = self.browser.run("return document.querySelector('textarea.editor').value")
        for field in ("uid:", "resourceVersion:", "managedFields:", "status:"):
            self.assertNotIn(field, text)
        self.press("Check (dry run)")
        self.browser.wait("what it would be", "return document.querySelector('.review pre')?.innerText.includes('name: first-copy')")
        self.press("Create", ".review button")
        self.browser.wait("it is open", "return location.hash.startsWith('#/object/apps~v1/deployments/shop/first-copy')")
        self.assertEqual(self.api.call("GET", f"{DEPLOYMENTS}/first-copy")["spec"]["replicas"], 2)
        self.assertEqual(self.browser.errors(), [])

    def test_logs_say_that_no_node_runs_the_pod(self):
        self.api.create("/api/v1/namespaces/shop/pods", cluster.pod("quiet", "shop"))
        self.open("#/object/core~v1/pods/shop/quiet", "logs")
        self.browser.wait("it says so", "return document.querySelector('.tab-logs').innerText.includes('No node runs this pod')")

    def test_logs_are_followed_until_they_are_stopped(self):
        self.api.create("/api/v1/namespaces/shop/pods", cluster.pod("talks", "shop"))
        # There is no node, so the answer of one is put in its place.
        self.browser.run("""
            const real = window.fetch;
            window.asked = [];
            window.fetch = (address, options) => {
              if (!String(address).includes('/talks/log?')) return real(address, options);
              window.asked.push(String(address));
              const body = new ReadableStream({ start: (controller) => {
                window.say = (text) => controller.enqueue(new TextEncoder().encode(text));
                options.signal.addEventListener('abort', () => { window.stopped = true; controller.error(new DOMException('', 'AbortError')); });
              } });
              return Promise.resolve(new Response(body, { status: 200 }));
            };
            window.restore = () => { window.fetch = real; };""")
        try:
            self.open("#/object/core~v1/pods/shop/talks", "logs")
            self.browser.wait("it is asked for", "return window.asked.length === 1 && typeof window.say === 'function'")
            self.assertIn("follow=true", self.browser.run("return window.asked[0]"))
            self.browser.run("say('first\\nsec')")
            self.browser.wait("what has come", "return document.querySelector('.log').textContent === 'first\\nsec'")
            self.browser.run("say('ond <script>window.hacked=1</script>\\n')")
            self.browser.wait("the rest of the line", "return document.querySelector('.log').textContent === 'first\\nsecond <script>window.hacked=1</script>\\n'")
            self.browser.run("say(Array.from({ length: 6000 }, (_, at) => `line ${at}\\n`).join(''))")
            self.browser.wait("old lines are dropped", "return document.querySelector('.log').textContent.endsWith('line 5999\\n') && !document.querySelector('.log').textContent.includes('first')")
            self.assertIn("older lines were dropped", self.browser.text(".tab-logs")[0])
            self.press("Stop")
            self.browser.wait("it is stopped", "return window.stopped === true")
            self.assertIsNone(self.browser.run("return window.hacked ?? null"))
        finally:
            self.browser.run("window.restore()")

    def test_a_hostile_object_is_only_text(self):
        hostile = cluster.config_map("hostile", "shop", {"a": HOSTILE, "b": f"{HOSTILE}\n{HOSTILE}\n", "__proto__": HOSTILE})
        hostile["metadata"]["annotations"] = {"evil.example/note": HOSTILE, "evil.example/link": "javascript:window.hacked=1"}
        path = "/api/v1/namespaces/shop/configmaps"
        self.api.call("POST", f"{path}?fieldManager=" + "%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E", hostile)
        uid = self.api.call("GET", f"{path}/hostile")["metadata"]["uid"]
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile.1", "namespace": "shop"}, "type": "Normal", "reason": HOSTILE[:100],
                 "message": HOSTILE, "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "hostile", "uid": uid}}
        self.api.create("/api/v1/namespaces/shop/events", event)
        child = cluster.config_map("hostile-child", "shop")
        child["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": HOSTILE, "uid": "1"}, {"apiVersion": "v1", "kind": "ConfigMap", "name": "hostile", "uid": uid}]
        self.api.create(path, child)
        self.api.merge(f"{path}/hostile", {"data": {"c": HOSTILE}})
        for name in ("hostile", "hostile-child"):
            for tab in ("yaml", "fields", "owners", "history", "events", "edit"):
                with self.subTest(f"{name} {tab}"):
                    self.open(f"#/object/core~v1/configmaps/shop/{name}", tab)
                    if (name, tab) == ("hostile", "history"):
                        self.browser.wait("a diff", "return [...document.querySelectorAll('.difference ins')].some((one) => one.innerText.includes('<script>'))")
                    if (name, tab) == ("hostile", "yaml"):
                        self.browser.wait("the text is there", "return document.querySelector('.code').innerText.includes('onerror')")
                    foreign = self.browser.run("return document.querySelectorAll('main script, main img, main iframe, main [onerror], main a[href^=\"javascript\"]').length")
                    self.assertEqual(foreign, 0)
                    self.assertIsNone(self.browser.run("return window.hacked ?? null"))
        # An owner that is not there is asked for, unless a garbage collector has seen the reference before.
        self.assertEqual([line for line in self.browser.errors() if "configmaps/%3Cimg" not in line], [])

    def test_phones_have_room_for_every_tab(self):
        two_managers(self, "narrow")
        self.browser.size(390, 780)
        try:
            for tab in ("yaml", "fields", "owners", "history", "events", "edit"):
                with self.subTest(tab):
                    self.open("#/object/apps~v1/deployments/shop/narrow", tab)
                    self.browser.wait("no sideways scrolling", "const main = document.querySelector('main'); return main.scrollWidth <= main.clientWidth")
        finally:
            self.browser.devtools("Emulation.clearDeviceMetricsOverride")

    def test_an_object_that_was_left_while_it_loaded_does_not_come_back(self):
        two_managers(self, "left")
        self.go("#/objects")
        self.browser.run("performance.clearResourceTimings()")
        self.browser.run("""
            location.hash = '#/object/apps~v1/deployments/shop/left';
            addEventListener('hashchange', () => { location.hash = '#/schemas'; }, { once: true });""")
        self.browser.wait_for(".view-schemas")
        self.browser.wait("the object was asked for", "return performance.getEntriesByType('resource').some(({ name }) => name.endsWith('/deployments/left'))")
        self.browser.run_async("setTimeout(arguments[0], 0)")
        self.assertTrue(self.browser.url().endswith("#/schemas"), self.browser.url())
        self.assertEqual(self.browser.find(".view-object"), [])

    def test_everything_has_a_name(self):
        two_managers(self, "named")
        for tab in ("yaml", "fields", "owners", "history", "edit"):
            with self.subTest(tab):
                self.open("#/object/apps~v1/deployments/shop/named", tab)
                unnamed = self.browser.run("""
                    const named = (one) => one.getAttribute('aria-label') || one.title || one.textContent.trim() || one.labels?.length || one.closest('label');
                    return [...document.querySelectorAll('main button, main input, main select, main textarea, main a[href], main [role=tablist]')]
                      .filter((one) => !named(one)).map((one) => one.outerHTML)""")
                self.assertEqual(unnamed, [])


class ReadOnly(ObjectPage):
    explorer_flags = ("--read-only",)

    def test_nothing_can_be_written(self):
        two_managers(self, "fixed")
        self.open("#/object/apps~v1/deployments/shop/fixed", "fields")
        self.browser.wait_for(".fields .field")
        self.assertEqual(self.browser.find("#tab-edit, .actions, .fields input, .fields select, .fields textarea"), [])
        self.go("#/object/apps~v1/deployments/shop/-")
        self.browser.wait("no new object either", "return document.querySelector('main').innerText.includes('--read-only')")
        self.assertEqual(self.browser.find("textarea"), [])
        self.assertEqual(self.browser.errors(), [])


if __name__ == "__main__":
    unittest.main()
