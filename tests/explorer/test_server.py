"""The live server in the explorer, in a real browser: a sternpost, or with EXPLORER_PEER a kube-apiserver."""
import http.client
import os
import re
import socket
import ssl
import unittest
import urllib.error
import urllib.request

import cluster
from test_explorer import READY, SCREENSHOTS, SERVER
from webdriver import LONGEST, Browser, Driver, programs, until

DRIVER = None
LISTS = 20


def setUpModule():
    global DRIVER
    DRIVER = Driver(programs()[1])


def tearDownModule():
    DRIVER.end()


class Watch:
    """Somebody who watches, and reads nothing of it."""

    def __init__(self, api, path):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.connection = http.client.HTTPSConnection(api.server.split("//")[1], context=context, timeout=LONGEST)
        self.connection.request("GET", f"{path}?watch=1", headers={"Authorization": f"Bearer {api.token}"})
        self.socket = self.connection.sock

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Shown(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cluster.start(SERVER)
        cls.addClassCleanup(lambda: cls.server.end())
        cls.api = cls.server.api
        cls.open(cls.server.kubeconfig)

    @classmethod
    def open(cls, kubeconfig):
        cls.explorer = cluster.Explorer(SERVER, kubeconfig)
        cls.addClassCleanup(cls.explorer.end)
        cls.browser = Browser(DRIVER, programs()[0], size=(1280, 1000))
        cls.addClassCleanup(cls.browser.end)
        cls.browser.open(cls.explorer.link)
        cls.browser.wait("the page is ready", READY)

    def go(self, hash):
        """As a link that was opened anew, whatever is shown now."""
        self.browser.run("location.hash = '#/objects'")
        self.browser.wait_for(".tree")
        self.browser.run("location.hash = arguments[0]", hash)
        self.browser.wait_for(".view-server .tile")

    def list(self, path, times=LISTS):
        for _ in range(times):
            self.api.call("GET", path)

    def wait_for_row(self, key):
        """Lists are made until the page has seen some."""
        def look():
            self.list("/apis/apps/v1/deployments", 3)
            return self.cells(key)
        return until(f"a row for {key}", look)

    def cells(self, key):
        return self.browser.run("return [...document.querySelectorAll('[data-request]')].filter((row) => row.dataset.request === arguments[0]).map((row) => [...row.children].map((cell) => cell.innerText))[0] ?? null", key)

    def screenshot(self, name):
        if SCREENSHOTS:
            self.browser.screenshot(os.path.join(SCREENSHOTS, f"explorer-{name}.png"))


class LiveServer(Shown):
    def test_requests_have_rates_and_latencies(self):
        self.go("#/server?every=2")
        row = self.wait_for_row("LIST apps/deployments/")
        self.assertEqual(row[:2], ["LIST", "deployments.apps"])
        self.assertRegex(row[2], r"^[\d.,]+ /s$")
        self.assertRegex(row[5], r"^[\d.]+ (µs|ms|s)$")
        self.assertRegex(row[6], r"^[\d.]+ (µs|ms|s)$")
        self.assertRegex(self.browser.text("[data-tile=rate] .value")[0], r"^[\d.,]+ /s$")
        self.assertRegex(self.browser.text("[data-tile=latency] .value")[0], r"^[\d.]+ (µs|ms|s)$")
        self.assertEqual(self.browser.run("return document.querySelector('[data-request=\"LIST apps/deployments/\"] a').getAttribute('href')"), "#/objects/apps~v1/deployments")

        def line():
            self.list("/apis/apps/v1/deployments", 3)
            return self.browser.run("return document.querySelector('[data-tile=rate] path').getAttribute('d').split('L').length > 4")
        until("a line through some looks", line)
        self.screenshot("server")
        self.assertEqual(self.browser.errors(), [])

    def test_rows_can_be_filtered_and_sorted_by_keys_alone(self):
        self.go("#/server?every=2")
        self.wait_for_row("LIST apps/deployments/")
        self.browser.keys("/")
        self.browser.type("deployments.nothing")
        self.browser.wait("no row is left", "return document.querySelectorAll('[data-request]').length === 0")
        self.assertIn("filter=deployments.nothing", self.browser.url())
        self.browser.run("const filter = document.querySelector('.panel-requests input'); filter.value = ''; filter.dispatchEvent(new Event('input'))")
        self.browser.run("document.querySelector('[data-sort=p99]').focus()")
        self.browser.keys("Enter")
        self.browser.wait("sorted by p99", "return document.querySelector('th[aria-sort=descending]').innerText.startsWith('p99')")

    def test_a_paused_page_looks_once_and_goes_on_when_told(self):
        self.go("#/server?pause=1&every=2")
        self.browser.wait("the first look", "return document.querySelectorAll('[data-check]').length > 0")
        self.assertIn("second look", self.browser.text(".panel-requests")[0])
        self.assertEqual(self.browser.text(".looked"), ["paused"])
        self.list("/apis/apps/v1/deployments")
        self.browser.click(".server-head button")
        self.browser.wait("rates", "return document.querySelectorAll('[data-request]').length > 0")

    def test_open_watches_are_counted(self):
        self.go("#/server?every=2")
        count = "return Number(document.querySelector('[data-watch=\"WATCH /podtemplates/\"]')?.children[2].innerText ?? 0)"
        watches = [Watch(self.api, "/api/v1/podtemplates") for _ in range(3)]
        self.browser.wait("three watches", f"{count} >= 3")
        for watch in watches:
            watch.end()
        self.browser.wait("none", f"{count} === 0")

    def test_checks_are_listed(self):
        self.go("#/server?every=2")
        self.browser.wait_for("[data-check=ping]")
        self.browser.wait("all pass", "return document.querySelector('.panel-checks p').innerText.startsWith('Ready: all')")

    def test_priority_levels_are_listed(self):
        self.go("#/server?every=2")
        self.browser.wait_for("[data-level=workload-low]")
        self.assertRegex(self.browser.text("[data-level=workload-low]")[0], r"\d+ / \d+")

    def test_a_webhook_that_fails_is_told(self):
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["podtemplates"]}
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        self.api.create(path, {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "policy"},
            "webhooks": [{"name": "policy.example.com", "clientConfig": {"url": "https://127.0.0.1:9/validate"}, "rules": [rule],
                          "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 2}]})
        self.go("#/server?every=2")
        self.browser.wait_for("[data-webhook='policy.example.com']")
        self.assertIn("127.0.0.1:9/validate", self.browser.text("[data-webhook='policy.example.com']")[0])
        self.assertIn("Fail, 2 s", self.browser.text("[data-webhook='policy.example.com']")[0])
        template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"generateName": "x-"}, "template": {"metadata": {}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}

        def failed():
            try:
                self.api.call("POST", "/api/v1/namespaces/default/podtemplates", template)
            except urllib.error.HTTPError as error:
                self.assertEqual(error.code, 500)
            return self.browser.run("return document.querySelector(\"[data-webhook='policy.example.com'] .bad\")?.innerText ?? ''")
        self.assertRegex(until("its failures", failed), r"/s$")

    def test_an_aggregated_server_that_is_away_is_told(self):
        self.api.create("/apis/apiregistration.k8s.io/v1/apiservices", {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.tides.example.com"},
            "spec": {"group": "tides.example.com", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 10,
                     "insecureSkipTLSVerify": True, "service": {"namespace": "default", "name": "tides"}}})
        self.addCleanup(self.api.call, "DELETE", "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.tides.example.com")
        self.go("#/server?every=2")
        self.browser.wait("it is not available", "return document.querySelector(\"[data-service='v1beta1.tides.example.com'] .bad\")?.innerText.includes('not available: ServiceNotFound')")
        self.assertIn("default/tides:443", self.browser.text("[data-service='v1beta1.tides.example.com']")[0])
        # The page has asked it, and the console tells of the answer.
        self.browser.errors()

    def test_it_works_at_phone_width(self):
        self.browser.size(390, 800)
        try:
            self.go("#/server?every=2")
            self.wait_for_row("LIST apps/deployments/")
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 390)
            self.assertLessEqual(self.browser.run("return document.querySelector('main').scrollWidth"), 390)
        finally:
            self.browser.devtools("Emulation.clearDeviceMetricsOverride")


class WithoutPermission(Shown):
    """Somebody who may read nothing but what all may."""

    @classmethod
    def open(cls, kubeconfig):
        cls.api.create("/api/v1/namespaces/default/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "guest"}})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = cls.api.call("POST", "/api/v1/namespaces/default/serviceaccounts/guest/token", asked)
        with open(kubeconfig) as file:
            text = re.sub(r"token: .*", f"token: {made['status']['token']}", file.read())
        guest = f"{kubeconfig}-guest"
        with open(guest, "w") as file:
            file.write(text)
        super().open(guest)

    def test_what_may_not_be_read_is_said(self):
        self.go("#/server?every=2")
        self.browser.wait_for(".notes .warning")
        self.assertIn("/metrics", self.browser.text(".notes .warning")[0])
        self.assertIn("(403)", self.browser.text(".notes .warning")[0])
        for panel in ("flow", "webhooks", "services"):
            self.assertIn("Not readable", self.browser.text(f".panel-{panel}")[0])
        self.browser.wait_for("[data-check=ping]")
        self.browser.errors()


class Restarted(Shown):
    def test_a_restart_is_told_and_rates_go_on(self):
        self.go("#/server?every=2")
        self.wait_for_row("LIST apps/deployments/")
        # Its folder, with the kubeconfig, is there as long as it is known.
        first = self.server
        first.end()
        self.browser.wait("it says that nobody answers", "return document.querySelector('.looked.down') !== null")
        type(self).server = cluster.start(SERVER, listen=first.address)
        type(self).api = self.server.api
        # A new server has a new token: the explorer reads its kubeconfig again.
        with open(self.server.kubeconfig) as file:
            text = file.read()
        with open(first.kubeconfig, "w") as file:
            file.write(text)
        self.browser.wait("the restart", "return document.querySelector('.notes')?.innerText.includes('restarted')")
        self.wait_for_row("LIST apps/deployments/")
        self.browser.errors()


if __name__ == "__main__":
    unittest.main()
