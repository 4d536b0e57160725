"""Kustomizations in the explorer, in a real browser."""
import json
import os
import pathlib
import tempfile
import unittest
import urllib.error
import urllib.request

import cluster
from test_explorer import HOSTILE, READY, SCREENSHOTS, SERVER
from webdriver import Browser, Driver, programs

FILES = {
    "base/kustomization.yaml": "resources: [deploy.yaml]\nconfigMapGenerator:\n- name: settings\n  literals: [LOG_LEVEL=info, REGION=eu]\n"
                               "secretGenerator:\n- name: login\n  literals: [password=correct-horse]\n",
    "base/deploy.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n"
                        "  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: app\n        image: app:v1\n"
                        "        envFrom: [{configMapRef: {name: settings}}]\n",
    "overlays/staging/kustomization.yaml": "namespace: staging\nnamePrefix: staging-\nresources: [../../base]\nimages: [{name: app, newTag: v2-rc1}]\n",
    "overlays/production/kustomization.yaml": "namespace: production\nnamePrefix: prod-\nresources: [../../base, budget.yaml]\nimages: [{name: app, newTag: v2}]\n"
                                             "patches:\n- path: patch.yaml\n",
    "overlays/production/patch.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 5\n",
    "overlays/production/budget.yaml": "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: web\nspec:\n  minAvailable: 2\n  selector: {matchLabels: {app: web}}\n",
    "overlays/broken/kustomization.yaml": "resources: [config.yaml]\n",
    "overlays/broken/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [a\n",
    "overlays/hostile/kustomization.yaml": "resources: [config.yaml]\n",
    "overlays/hostile/config.yaml": json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hostile", "annotations": {HOSTILE: HOSTILE}}, "data": {"x": HOSTILE}}),
}
OVERLAYS = ["staging", "production", "broken", "hostile"]
DRIVER = None


def setUpModule():
    global DRIVER
    DRIVER = Driver(programs()[1])


def tearDownModule():
    DRIVER.end()


class Kustomizations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="explorer-kustomize-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for path, text in FILES.items():
            (cls.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (cls.folder / path).write_text(text)
        directories = [f"overlays/{name}" for name in OVERLAYS]
        cls.server = cluster.Server(SERVER)
        cls.addClassCleanup(cls.server.end)
        cls.explorer = cluster.Explorer(SERVER, cls.server.kubeconfig, *directories, folder=cls.folder)
        cls.addClassCleanup(cls.explorer.end)
        cls.browser = Browser(DRIVER, programs()[0])
        cls.addClassCleanup(cls.browser.end)
        cls.browser.open(cls.explorer.link)
        cls.browser.wait("the page is ready", READY)
        cls.base = cls.browser.url().split("#")[0]

    def go(self, hash):
        self.browser.run("location.hash = arguments[0]", hash)

    def choose(self, name):
        self.browser.click(f"[data-object='{name}']")
        self.browser.wait(f"{name} is shown", "return document.querySelector('.objects [aria-current]')?.dataset.object === arguments[0]", name)

    def origin(self, field):
        return self.browser.text(f"tr[data-field='{field}'] .origin")[0]

    def test_each_field_is_told_with_file_and_line(self):
        self.go("#/kustomize?left=1")
        self.choose("Deployment/prod-web.production")
        self.assertIn("overlays/production/patch.yaml:6", self.origin("spec.replicas"))
        self.assertIn("base/deploy.yaml:2", self.origin("kind"))
        self.assertIn("overlays/production/kustomization.yaml:1", self.origin("metadata.namespace"))
        self.browser.click("tr[data-field='spec.replicas'] button")
        chain = self.browser.text("tr.chain li")
        self.assertEqual(len(chain), 2, chain)
        self.assertIn("patch.yaml:6:13", chain[0])
        self.assertIn("patches[0]", chain[0])
        self.assertIn("base/deploy.yaml:6:13", chain[1])
        if SCREENSHOTS:
            self.browser.screenshot(os.path.join(SCREENSHOTS, "explorer-kustomize.png"))
        self.assertEqual(self.browser.errors(), [])

    def test_the_lines_are_those_of_sternpost_build(self):
        self.go("#/kustomize?left=1")
        self.choose("Deployment/prod-web.production")
        shown = self.browser.run("return [...document.querySelectorAll('table.explained td.yaml')].map((cell) => cell.textContent)")
        expected = ["apiVersion: apps/v1", "kind: Deployment", "metadata:", "  name: prod-web", "  namespace: production", "spec:", "  replicas: 5"]
        self.assertEqual(shown[:len(expected)], expected)

    def test_two_overlays_beside_each_other(self):
        self.go("#/kustomize?left=0&right=1")
        self.choose("Deployment/staging-web.staging")
        changes = self.browser.run("return [...document.querySelectorAll('[data-change]')].map((row) => [row.dataset.change, ...[...row.children].slice(1).map((cell) => cell.innerText)])")
        by_path = {path: sides for path, *sides in changes}
        self.assertIn("spec.replicas", by_path)
        left, right = by_path["spec.replicas"]
        self.assertRegex(left, r"^1\n[\s\S]*base/deploy.yaml:6")
        self.assertRegex(right, r"^5\n[\s\S]*patch.yaml:6")
        image = by_path["spec.template.spec.containers[name=app].image"]
        self.assertIn("v2-rc1", image[0])
        self.assertIn('"app:v2"', image[1])
        states = dict(self.browser.run("return [...document.querySelectorAll('[data-object]')].map((one) => [one.dataset.object, one.dataset.state])"))
        self.assertEqual(states["PodDisruptionBudget/prod-web.production"], "right")
        self.assertEqual(states["Deployment/staging-web.staging"], "changed")
        self.assertTrue(any(name.startswith("ConfigMap/staging-settings-") and state == "changed" for name, state in states.items()), states)
        if SCREENSHOTS:
            self.browser.screenshot(os.path.join(SCREENSHOTS, "explorer-overlays.png"))
        self.assertEqual(self.browser.errors(), [])

    def test_a_link_to_an_object_opens_it(self):
        self.go("#/kustomize?left=0")
        self.choose("Deployment/staging-web.staging")
        self.assertIn("object=Deployment", self.browser.url())
        address = self.browser.url().split("#")[1]
        self.go("#/objects")
        self.browser.wait_for(".tree")
        self.go(f"#{address}")
        self.browser.wait("the object is shown", "return document.querySelector('.objects [aria-current]')?.dataset.object === 'Deployment/staging-web.staging'")

    def test_secrets_are_hidden_until_asked_for(self):
        self.go("#/kustomize?left=0")
        self.browser.wait_for("[data-object^='Secret/']")
        name = self.browser.run("return document.querySelector(\"[data-object^='Secret/']\").dataset.object")
        self.choose(name)
        hidden = "Y29ycmVjdC1ob3JzZQ=="
        self.assertNotIn(hidden, self.browser.run("return document.body.textContent"))
        self.browser.click(".kustomize-main .panel-head button")
        self.browser.wait("the secret is shown", "return document.body.textContent.includes(arguments[0])", hidden)

    def test_what_does_not_build_says_where(self):
        self.go("#/kustomize?left=2")
        self.browser.wait_for(".kustomize-problem")
        self.assertRegex(self.browser.text(".kustomize-problem")[0], r"config\.yaml:5:1")

    def test_build_again_sees_what_was_written(self):
        patch = self.folder / "overlays/production/patch.yaml"
        self.go("#/kustomize?left=1")
        self.choose("Deployment/prod-web.production")
        try:
            patch.write_text(FILES["overlays/production/patch.yaml"].replace("5", "7"))
            self.browser.click(".kustomize-head button")
            self.browser.wait("the new value", "return document.querySelector(\"tr[data-field='spec.replicas'] .yaml\")?.textContent === '  replicas: 7'")
        finally:
            patch.write_text(FILES["overlays/production/patch.yaml"])
            self.browser.click(".kustomize-head button")
            self.browser.wait("the old value", "return document.querySelector(\"tr[data-field='spec.replicas'] .yaml\")?.textContent === '  replicas: 5'")

    def test_hostile_files_stay_text(self):
        self.go("#/kustomize?left=3")
        self.choose("ConfigMap/hostile")
        self.assertIn("onerror", self.browser.text(".kustomize-main")[0])
        self.assertIsNone(self.browser.run("return window.hacked ?? null"))
        self.assertEqual(self.browser.find(".view img"), [])
        self.assertEqual(self.browser.errors(), [])

    def test_it_works_at_phone_width(self):
        self.browser.size(390, 800)
        try:
            self.go("#/kustomize?left=0&right=1&object=Deployment/staging-web.staging")
            self.browser.wait_for("[data-change]")
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 390)
        finally:
            self.browser.devtools("Emulation.clearDeviceMetricsOverride")

    def ask(self, path, headers):
        request = urllib.request.Request(self.base + path, headers=headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_only_numbers_of_named_directories_and_only_for_the_page(self):
        self.assertEqual(self.ask("ui-api/kustomize?directory=0", {}), 401)
        self.assertEqual(self.ask("ui-api/kustomize?directory=0", {"Sec-Fetch-Site": "cross-site"}), 403)
        script = """
            const done = arguments[arguments.length - 1];
            import(document.querySelector("script[type=module]").src.replace("app.js", "api.js"))
              .then((api) => Promise.all(arguments[0].map((query) => api.own(`kustomize?${query}`).then(() => 200, (problem) => problem.status))))
              .then(done, (problem) => done(String(problem)));
        """
        queries = ["directory=0", "directory=4", "directory=-1", "directory=../base", "directory=/etc", "", "directory=0x0", "path=/etc"]
        self.assertEqual(self.browser.run_async(script, queries), [200] + [404] * 7)
        # The console tells of the refusals.
        self.browser.errors()


class WithoutDirectories(unittest.TestCase):
    def test_a_file_or_nothing_is_refused_at_start(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kustomization.yaml"
            file.write_text("resources: []\n")
            for place, said in ((file, "is a file"), (pathlib.Path(folder) / "missing", "there is no directory")):
                program = cluster.Program(SERVER, "ui", "--no-open", str(place))
                self.addCleanup(program.process.stderr.close)
                program.process.wait()
                program.reader.join()
                self.assertNotEqual(program.process.returncode, 0)
                self.assertTrue(any(said in line for line in program.lines), program.lines)


if __name__ == "__main__":
    unittest.main()
