"""Schemas: documentation of what the cluster serves, search over all fields, differences between versions."""
import json
import unittest

import cluster
import test_explorer
from test_explorer import HOSTILE, Page
from webdriver import until


def setUpModule():
    test_explorer.setUpModule()


def tearDownModule():
    test_explorer.tearDownModule()


def fill(api):
    """A kind with everything that documentation has to show, in two versions."""
    text = {"type": "string"}
    definition = cluster.definition("boats", "Boat")
    first = definition["spec"]["versions"][0]
    spec = first["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["required"] = ["rig"]
    spec["x-kubernetes-validations"] = [{"rule": "self.crew <= self.bunks", "message": "more sailors than bunks"}]
    spec["properties"].update({
        "bunks": {"type": "integer", "default": 4, "maximum": 40},
        "sailors": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": text, "rank": {"type": "string", "description": HOSTILE}}}},
        "draught": {"x-kubernetes-int-or-string": True},
        "cargo": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    })
    older = json.loads(json.dumps(first))
    older.update({"name": "v1alpha1", "storage": False})
    old = older["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del old["properties"]["draught"]
    del old["x-kubernetes-validations"]
    old["properties"]["oars"] = {"type": "integer"}
    old["properties"]["bunks"]["default"] = 2
    definition["spec"]["versions"].append(older)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.create(path, definition)
    Schemas.definition = api.call("GET", f"{path}/boats.sea.example.com")
    until("the schema is served", lambda: api.call("GET", "/openapi/v3/apis/sea.example.com/v1alpha1"), errors=(Exception,))


class Schemas(Page):
    fill = staticmethod(fill)

    def section(self, name):
        """What the documentation says of a field."""
        return self.browser.wait(f"the field {name}", """
            const term = [...document.querySelectorAll('.schema > dl > dt')].find((one) => one.querySelector('a').innerText === arguments[0]);
            return term && `${term.innerText}\\n${term.nextElementSibling.innerText}`;""", name)

    def test_a_definition_is_readable(self):
        self.go("#/schemas/sea.example.com~v1/Boat/spec")
        self.browser.wait("its rule", "return document.querySelector('.schema .rule')?.innerText === 'self.crew <= self.bunks'")
        page = self.browser.text(".schema")[0]
        self.assertIn("more sailors than bunks", page)
        self.assertIn("What the owner wants.", page)
        for name, parts in {
            "rig": ("string", "required", "one of", "sloop", "ketch", "How the masts stand."),
            "bunks": ("integer", "default", "4", "maximum", "40"),
            "sailors": ("[]Object", "list with keys", "name"),
            "draught": ("IntOrString",),
            "cargo": ("keeps unknown fields",),
        }.items():
            section = self.section(name)
            for part in parts:
                self.assertIn(part, section, name)
        self.screenshot("schema")
        self.assertEqual(self.browser.errors(), [])

    def test_fields_are_links_and_open_in_place(self):
        self.go("#/schemas/apps~v1/Deployment")
        self.section("spec")
        self.browser.click(".schema a[href$='/spec']")
        self.browser.wait("the field", "return document.querySelector('.schema h1')?.innerText.startsWith('spec')")
        self.go("#/schemas/apps~v1/Deployment/spec.template.spec.containers.ports")
        self.assertIn("required", self.section("containerPort"))
        self.go("#/schemas/apps~v1/Deployment/spec.template.nothing")
        self.browser.wait("the nearest field", "return document.querySelector('.schema .notice')?.innerText.includes('spec.template.nothing') && document.querySelector('.schema h1').innerText.startsWith('template')")
        self.go("#/schemas/apiextensions.k8s.io~v1/CustomResourceDefinition/spec.versions.schema.openAPIV3Schema")
        self.section("not")
        self.browser.run("[...document.querySelectorAll('.schema > dl > dt')].find((one) => one.innerText.startsWith('not')).nextElementSibling.querySelector('details').open = true")
        self.browser.wait("a schema in itself", "return document.querySelector('.schema dl dl dt') !== null")
        self.assertEqual(self.browser.errors(), [])

    def test_search_finds_who_has_a_field(self):
        self.go("#/schemas")
        self.browser.wait_for(".schema-search")
        self.browser.run("document.querySelector('.schema-search').focus()")
        self.browser.type("replicas")
        self.browser.wait("everything is loaded", "return document.querySelector('.schema-main').innerText.includes('documents loaded')")
        links = self.browser.run("return [...document.querySelectorAll('.schema section:first-of-type .found a')].map((one) => one.innerText)")
        for kind in ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Scale"):
            self.assertIn(f"{kind} .spec.replicas", links)
        self.assertIn("q=replicas", self.browser.url())
        self.screenshot("search")
        self.browser.run("const box = document.querySelector('.schema-search'); box.value = 'masts'; box.dispatchEvent(new Event('input'))")
        self.browser.wait("by words of a description", "return document.querySelector('.found a')?.innerText === 'Boat .spec.rig'")
        self.browser.requests()
        self.browser.run("const box = document.querySelector('.schema-search'); box.value = 'crew'; box.dispatchEvent(new Event('input'))")
        self.browser.wait("the next search", "return document.querySelector('.found a')?.innerText === 'Boat .spec.crew'")
        self.assertEqual([address for address in self.browser.requests() if "openapi" in address], [])
        self.browser.run("const box = document.querySelector('.schema-search'); box.value = '(((['; box.dispatchEvent(new Event('input'))")
        self.browser.wait("nothing", "return document.querySelector('.schema .empty') !== null")
        self.assertEqual(self.browser.errors(), [])

    def test_versions_of_a_definition_are_compared(self):
        self.go("#/schemas/sea.example.com~v1/Boat")
        self.browser.wait_for(".compare select")
        self.browser.run("""
            document.querySelector('.compare').open = true;
            const select = document.querySelector('.compare select');
            select.value = 'v1alpha1';
            select.dispatchEvent(new Event('change'));""")
        self.browser.wait_for(".comparison tbody tr")
        rows = self.rows_of_comparison()
        self.assertEqual(rows["spec.draught"], "added")
        self.assertEqual(rows["spec.oars"], "removed")
        self.assertEqual(rows["spec.bunks"], "changed")
        self.assertEqual(rows["spec"], "changed")
        self.assertEqual(set(rows), {"spec", "spec.draught", "spec.oars", "spec.bunks"})
        # The same, with a definition of another server.
        other = json.loads(json.dumps(self.definition))
        del other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["cargo"]
        self.browser.run("document.querySelector('.paste').value = arguments[0]", json.dumps(other))
        self.browser.run("[...document.querySelectorAll('.compare button')].at(-1).click()")
        self.browser.wait("the pasted one", "return document.querySelector('.comparison tbody')?.innerText.includes('spec.cargo')")
        self.assertEqual(self.rows_of_comparison(), {"spec.cargo": "added"})
        self.browser.run("document.querySelector('.paste').value = '{'; [...document.querySelectorAll('.compare button')].at(-1).click()")
        self.browser.wait_for(".comparison .notice.bad")
        self.assertEqual(self.browser.errors(), [])

    def rows_of_comparison(self):
        return dict(self.browser.run("return [...document.querySelectorAll('.comparison tbody tr')].map((row) => [row.children[1].innerText, row.children[0].innerText])"))

    def test_hostile_descriptions_are_only_text(self):
        self.go("#/schemas/sea.example.com~v1/Boat/spec.sailors.rank")
        self.browser.wait("the text", "return document.querySelector('.schema .description')?.innerText.includes('<script>')")
        self.assertEqual(self.browser.run("return document.querySelectorAll('main script, main img').length"), 0)
        self.assertIsNone(self.browser.run("return window.hacked ?? null"))
        self.assertEqual(self.browser.errors(), [])

    def test_phones_have_room(self):
        self.browser.size(390, 780)
        try:
            for hash in ("#/schemas/apps~v1/Deployment/spec", "#/schemas?q=replicas"):
                self.go(hash)
                self.browser.wait_for(".schema > *")
                self.browser.wait("no sideways scrolling", "const main = document.querySelector('main'); return main.scrollWidth <= main.clientWidth")
        finally:
            self.browser.devtools("Emulation.clearDeviceMetricsOverride")


if __name__ == "__main__":
    unittest.main()
