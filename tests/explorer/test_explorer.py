"""The explorer in a real browser. What the environment says:

  EXPLORER_SERVER       the sternpost program
  EXPLORER_SCREENSHOTS  a folder to put screenshots for the documentation into; none without it
  EXPLORER_ROWS         how many rows the large table has [50000]
"""
import http.server
import json
import os
import threading
import time
import unittest

import cluster
from webdriver import Browser, Driver, programs, until

SERVER = os.environ.get("EXPLORER_SERVER", "")
SCREENSHOTS = os.environ.get("EXPLORER_SCREENSHOTS")
ROWS = int(os.environ.get("EXPLORER_ROWS", "50000"))

# What would run if any text of an object were taken for markup or a script.
HOSTILE = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>javascript:window.hacked=1 ${window.hacked=1}"

READY = "return document.documentElement.dataset.ready === 'yes'"
DRIVER = None


def setUpModule():
    global DRIVER
    DRIVER = Driver(programs()[1])


def tearDownModule():
    DRIVER.end()


class Page(unittest.TestCase):
    """One server, one explorer and one browser for all tests of a class."""

    server_flags = ()
    explorer_flags = ()
    dark = False
    fill = staticmethod(cluster.fill)

    @classmethod
    def setUpClass(cls):
        cls.server = cluster.start(SERVER, *cls.server_flags)
        cls.addClassCleanup(cls.server.end)
        cls.api = cls.server.api
        cls.fill(cls.api)
        cls.explorer = cluster.Explorer(SERVER, cls.server.kubeconfig, *cls.explorer_flags)
        cls.addClassCleanup(cls.explorer.end)
        cls.browser = Browser(DRIVER, programs()[0], dark=cls.dark)
        cls.addClassCleanup(cls.browser.end)
        cls.browser.open(cls.explorer.link)
        cls.browser.wait("the page is ready", READY)
        cls.base = cls.browser.url().split("#")[0]

    def go(self, hash):
        self.browser.run("location.hash = arguments[0]", hash)

    def no_errors(self):
        self.assertEqual(self.browser.errors(), [])

    def screenshot(self, name):
        if SCREENSHOTS:
            self.browser.screenshot(os.path.join(SCREENSHOTS, f"explorer-{name}.png"))

    def rows(self):
        return self.browser.run("return [...document.querySelectorAll('.grid .rows .row')].map((row) => [...row.children].map((cell) => cell.innerText))")

    def wait_for_row(self, *texts):
        script = "return [...document.querySelectorAll('.grid .rows .row')].some((row) => arguments[0].every((text) => row.innerText.includes(text)))"
        self.browser.wait(f"a row with {texts}", script, list(texts))


class Views(Page):
    def test_every_view_opens_without_errors(self):
        for hash, css in [
            ("#/objects", ".tree a"),
            ("#/objects/apps~v1/deployments", ".grid .rows .row"),
            ("#/object/apps~v1/deployments/shop/web", ".view-object"),
            ("#/object/apps~v1/deployments/shop/web?tab=fields", ".view-object"),
            ("#/object/apps~v1/deployments/shop/web?tab=owners", ".view-object"),
            ("#/object/apps~v1/deployments/shop/web?tab=history", ".view-object"),
            ("#/object/apps~v1/deployments/shop/web?tab=events", ".view-object"),
            ("#/object/apps~v1/deployments/shop/web?tab=edit", ".view-object"),
            ("#/schemas", ".view-schemas"),
            ("#/schemas/apps~v1/Deployment", ".view-schemas"),
            ("#/access", ".view-access"),
            ("#/server", ".view-server"),
        ]:
            with self.subTest(hash):
                self.go(hash)
                self.browser.wait_for(css)
                self.browser.wait(f"{hash} says something", "return document.querySelector('main').innerText.length > 40")
                self.assertEqual(self.browser.find(".problem"), [], self.browser.text("main"))
                self.no_errors()

    def test_nothing_is_asked_of_other_hosts(self):
        self.go("#/objects/~v1/pods")
        addresses = self.browser.requests()
        self.assertTrue(addresses)
        self.assertEqual([address for address in addresses if not address.startswith((self.explorer.origin, "data:", "chrome"))], [])

    def test_a_table_has_the_columns_of_the_server(self):
        self.go("#/objects/apps~v1/deployments?namespace=shop")
        self.wait_for_row("web")
        heads = self.browser.text(".grid .head .cell")
        self.assertEqual(heads, ["Name", "Ready", "Up-to-date", "Available", "Age"])
        self.go("#/objects/apps~v1/deployments")
        self.browser.wait("all namespaces", "return document.querySelector('.grid .head .cell')?.innerText === 'Namespace'")
        self.wait_for_row("payments", "ledger")
        self.screenshot("objects")
        self.no_errors()

    def test_a_change_appears_by_itself_and_is_marked(self):
        self.go("#/objects/core~v1/configmaps?namespace=payments")
        self.browser.wait("the list is whole", "return /objects$/.test(document.querySelector('.status')?.innerText ?? '')")
        self.api.create("/api/v1/namespaces/payments/configmaps", cluster.config_map("live", "payments"))
        self.wait_for_row("live", "0")
        self.api.merge("/api/v1/namespaces/payments/configmaps/live", {"data": {"a": "1", "b": "2"}})
        self.browser.wait("the changed cell is marked", "return document.querySelector('.grid .cell.changed')?.innerText === '2'")
        self.screenshot("live")
        self.api.call("DELETE", "/api/v1/namespaces/payments/configmaps/live")
        self.browser.wait("the row is gone", "return ![...document.querySelectorAll('.grid .cell.name')].some((cell) => cell.innerText === 'live')")
        self.no_errors()

    def test_kinds_appear_when_they_are_defined(self):
        self.go("#/objects")
        self.browser.wait_for(".tree a")
        self.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", cluster.definition("boats", "Boat"))
        self.browser.wait("the kind is in the tree", "return [...document.querySelectorAll('.tree a')].some((link) => link.innerText === 'Boat')")
        self.no_errors()

    def test_selectors_are_those_of_the_server_and_are_completed(self):
        self.go("#/objects/apps~v1/deployments")
        self.wait_for_row("ledger")
        self.browser.keys("l")
        self.browser.type("team=pay")
        self.browser.wait("a value is suggested", "return [...document.querySelectorAll('.suggestions li')].some((one) => one.innerText === 'team=payments')")
        self.browser.keys("ArrowDown", "Enter", "Enter")
        self.browser.wait("the link has the selector", "return location.hash.includes('labelSelector=team%3Dpayments')")
        self.browser.wait("only those are there", "return document.querySelector('.status')?.innerText === '2 objects'")
        self.go("#/objects/apps~v1/deployments?fieldSelector=metadata.name%3Dcart")
        self.browser.wait("one by its field", "return document.querySelector('.status')?.innerText === '1 objects'")
        self.assertEqual(self.browser.run("return document.querySelector('.selectors').value"), "field:metadata.name=cart")
        self.no_errors()

    def test_keys_alone_are_enough(self):
        self.go("#/objects")
        self.browser.wait_for(".tree a")
        self.browser.run("document.activeElement.blur()")
        self.browser.keys("g")
        self.browser.wait_for("dialog.palette input")
        self.browser.type("deploy")
        self.browser.wait("it is found", "return document.querySelector('dialog.palette li')?.innerText.startsWith('Deployment')")
        self.browser.keys("Enter")
        self.wait_for_row("cart")
        self.browser.keys("/")
        self.browser.type("shop")
        self.browser.wait("rows are filtered", "return /^3 of/.test(document.querySelector('.status').innerText)")
        self.browser.keys("Enter", "j", "j", "k")
        self.browser.wait("the second row is chosen", "return document.querySelector('.row.selected')?.dataset.index === '1'")
        name = self.browser.run("return document.querySelector('.row.selected .name').innerText")
        self.browser.keys("Enter")
        self.browser.wait("the object is open", "return location.hash.startsWith('#/object/apps~v1/deployments/shop/' + arguments[0])", name)
        self.browser.wait_for(".view-object")
        self.browser.run("document.activeElement.blur()")
        self.browser.keys("?")
        self.browser.wait_for("dialog.keys")
        self.browser.keys("Escape")
        self.browser.wait("the help is closed", "return document.querySelector('dialog.keys') === null")
        self.browser.keys("1")
        self.browser.wait("back at the objects", "return location.hash === '#/objects'")
        self.no_errors()

    def test_screen_readers_are_told_what_is_where(self):
        self.go("#/objects/apps~v1/deployments")
        self.wait_for_row("cart")
        unnamed = self.browser.run("""
            const named = (one) => one.getAttribute('aria-label') || one.title || one.innerText.trim() || one.labels?.length || one.closest('label');
            return [...document.querySelectorAll('button, input, select, a[href], [role=grid], nav')].filter((one) => !named(one)).map((one) => one.outerHTML)""")
        self.assertEqual(unnamed, [])
        grid = self.browser.run("""
            const grid = document.querySelector('[role=grid]');
            const active = document.getElementById(grid.getAttribute('aria-activedescendant'));
            return [grid.getAttribute('aria-rowcount'), active.getAttribute('aria-selected'), grid.querySelectorAll('[role=columnheader]').length > 2]""")
        self.assertEqual(grid, ["7", "true", True])

    def test_phones_have_room(self):
        self.browser.size(390, 780)
        try:
            self.go("#/objects/apps~v1/deployments?namespace=shop")
            self.wait_for_row("cart")
            self.browser.wait("no sideways scrolling", "return document.documentElement.scrollWidth <= 390")
            self.screenshot("phone")
        finally:
            self.browser.devtools("Emulation.clearDeviceMetricsOverride")

    def test_the_load_is_told(self):
        self.go("#/objects/apps~v1/deployments")
        self.wait_for_row("cart")
        self.browser.wait("one watch", "return /requests\\/s · 1 watch$/.test(document.querySelector('.load').innerText)")

    def test_an_object_is_made_and_deleted(self):
        self.go("#/objects/core~v1/configmaps?namespace=monitoring")
        self.browser.wait_for(".toolbar button")
        self.browser.run("[...document.querySelectorAll('.toolbar button')].find((one) => one.innerText === 'New').click()")
        self.browser.wait_for("dialog.create textarea")
        self.browser.type("made-here")
        self.browser.run("[...document.querySelectorAll('dialog.create button')].find((one) => one.innerText === 'Create').click()")
        self.browser.wait("the object is shown", "return location.hash.startsWith('#/object/core~v1/configmaps/monitoring/made-here')")
        self.assertEqual(self.api.call("GET", "/api/v1/namespaces/monitoring/configmaps/made-here")["metadata"]["name"], "made-here")
        self.go("#/objects/core~v1/configmaps?namespace=monitoring&fieldSelector=metadata.name%3Dmade-here")
        self.wait_for_row("made-here")
        self.browser.click("[data-act=delete]")
        self.browser.wait_for("dialog.confirm")
        self.browser.run("document.querySelector('dialog.confirm button.danger').click()")
        self.browser.wait("it is gone", "return document.querySelector('.status')?.innerText === '0 objects'")
        self.no_errors()

    def test_the_page_is_there_at_once(self):
        self.browser.open(self.base + "#/objects/apps~v1/deployments")
        self.browser.call("POST", "/refresh", {})
        self.browser.wait("the page is ready", READY)
        mark = self.browser.run("return performance.getEntriesByName('interactive')[0].startTime")
        # A report: how fast a machine is that others use is nobody's fault.
        print(f"note: interactive after {mark:.0f} ms")


class Hostile(Page):
    @staticmethod
    def fill(api):
        annotations = {"note": HOSTILE, "kubectl.kubernetes.io/last-applied-configuration": HOSTILE}
        hostile = cluster.config_map("hostile", data={"a": HOSTILE, "<b>": "x"} if False else {"a": HOSTILE, "b.js": HOSTILE})
        hostile["metadata"]["annotations"] = annotations
        hostile["metadata"]["finalizers"] = ["example.com/kept"]
        api.create("/api/v1/namespaces/default/configmaps?fieldManager=" + "%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E", hostile)
        made = cluster.definition("hostiles", "Hostile")
        version = made["spec"]["versions"][0]
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["description"] = HOSTILE
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rig"]["enum"].append(HOSTILE)
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rig"]["description"] = HOSTILE
        version["additionalPrinterColumns"].append({"name": "<script>window.hacked=1</script>", "type": "string", "jsonPath": ".spec.rig", "description": HOSTILE})
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)
        path = "/apis/sea.example.com/v1/namespaces/default/hostiles"
        until("the kind is served", lambda: api.call("GET", path), errors=(OSError,))
        api.create(path, {"apiVersion": "sea.example.com/v1", "kind": "Hostile", "metadata": {"name": "one"}, "spec": {"rig": HOSTILE}})
        api.create("/api/v1/namespaces/default/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile.1", "namespace": "default"}, "message": HOSTILE, "reason": HOSTILE[:100], "type": "Warning",
            "involvedObject": {"kind": "ConfigMap", "name": "hostile", "namespace": "default"}, "source": {"component": HOSTILE[:60]}})

    def test_texts_of_objects_stay_texts(self):
        tabs = ["yaml", "fields", "owners", "history", "events", "edit"]
        hashes = [f"#/object/core~v1/configmaps/default/hostile?tab={tab}" for tab in tabs]
        hashes += ["#/objects/core~v1/configmaps?namespace=default", "#/objects/sea.example.com~v1/hostiles", "#/objects/core~v1/events"]
        hashes += ["#/object/sea.example.com~v1/hostiles/default/one?tab=fields", "#/schemas/sea.example.com~v1/Hostile", "#/access", "#/server"]
        hashes += ["#/schemas/%3Cimg%20src=x%20onerror=alert(1)%3E", "#/objects/%3Cscript%3E~v1/%3Cscript%3E", "#/%3Cscript%3E"]
        for hash in hashes:
            with self.subTest(hash):
                self.go(hash)
                self.browser.wait("something is shown", "return document.querySelector('main').innerText.length > 20")
                self.browser.wait("nothing is on its way", "return !/^Loading/.test(document.querySelector('main').innerText)")
                self.assertIsNone(self.browser.run("return window.hacked ?? null"))
                self.assertEqual(self.browser.run("return document.querySelectorAll('main script, main img, main iframe').length"), 0)
                links = "return [...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href')).filter((one) => !/^(#|https?:)/.test(one))"
                self.assertEqual(self.browser.run(links), [])
                violations = [line for line in self.browser.errors() if "Content Security" in line or "Trusted" in line]
                self.assertEqual(violations, [])

    def test_inline_scripts_and_styles_do_not_run(self):
        answer = self.browser.run_async("""
            const done = arguments[0];
            const seen = [];
            document.addEventListener('securitypolicyviolation', (event) => { seen.push(event.effectiveDirective); });
            const script = document.createElement('script');
            try { script.textContent = 'window.hacked = 1'; } catch { seen.push('trusted types'); }
            document.body.append(script);
            const image = document.createElement('img');
            image.src = 'http://192.0.2.1/x.png';
            document.body.append(image);
            fetch('http://192.0.2.1/').catch(() => setTimeout(() => done([window.hacked ?? null, seen]), 200));""")
        self.assertIsNone(answer[0])
        self.assertIn("connect-src", answer[1])
        self.assertIn("img-src", answer[1])
        self.browser.errors()


class OtherOrigin(Page):
    """A page of another site, in the browser that has the session."""

    def test_other_origins_reach_nothing(self):
        tries = f"""<!doctype html><title>evil</title><script>
            const base = {json.dumps(self.base)}, origin = {json.dumps(self.explorer.origin)};
            const attempt = async (what, options) => {{
              try {{ const answer = await fetch(what, options); return [answer.type, answer.status, answer.type === 'opaque' ? '' : await answer.text()]; }}
              catch (error) {{ return ['failed', 0, String(error)]; }}
            }};
            window.run = async () => ({{
              session: await attempt(base + 'ui-api/session', {{method: 'POST', credentials: 'include'}}),
              blind: await attempt(base + 'ui-api/session', {{method: 'POST', credentials: 'include', mode: 'no-cors'}}),
              list: await attempt(base + 'k8s/api/v1/secrets', {{credentials: 'include'}}),
              token: await attempt(base + 'k8s/api/v1/secrets', {{credentials: 'include', headers: {{'X-Sternpost-Token': 'x'}}}}),
              write: await attempt(base + 'k8s/api/v1/namespaces/default/configmaps', {{method: 'POST', credentials: 'include', mode: 'no-cors',
                body: JSON.stringify({{apiVersion: 'v1', kind: 'ConfigMap', metadata: {{name: 'from-elsewhere'}}}})}}),
              frame: await new Promise((resolve) => {{ const frame = document.createElement('iframe'); frame.src = base; frame.onload = () => {{
                let text; try {{ text = frame.contentDocument?.body?.innerText ?? 'blocked'; }} catch {{ text = 'blocked'; }} resolve(text); }}; document.body.append(frame); }}),
            }});</script><body></body>"""

        class Evil(http.server.BaseHTTPRequestHandler):
            seen = []

            def do_GET(self):
                Evil.seen.append(self.headers.get("Cookie"))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(tries.encode())

            def log_message(self, *_):
                pass

        evil = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        self.addCleanup(evil.server_close)
        self.addCleanup(evil.shutdown)
        # The same host on another port is the same site to cookies; another name is another site.
        for host in ("127.0.0.1", "localhost"):
            with self.subTest(host):
                self.browser.open(f"http://{host}:{evil.server_address[1]}/")
                found = self.browser.run_async("const done = arguments[0]; window.run().then(done)")
                for what in ("session", "list", "token"):
                    self.assertEqual(found[what][0], "failed", found)
                self.assertNotIn("sternpost", found["frame"])
        self.assertEqual(set(Evil.seen), {None}, "the cookie of the explorer went to another program")
        names = [one["metadata"]["name"] for one in self.api.call("GET", "/api/v1/namespaces/default/configmaps")["items"]]
        self.assertNotIn("from-elsewhere", names)
        # A name that leads here, as DNS rebinding has it.
        self.browser.errors()

    def test_another_name_for_this_address_is_refused(self):
        port = self.explorer.origin.rsplit(":", 1)[1]
        browser = Browser(DRIVER, programs()[0], "--host-resolver-rules=MAP evil.example 127.0.0.1")
        self.addCleanup(browser.end)
        path = self.base.split("/", 3)[3]
        for place in (path, "", "open?code=x"):
            browser.open(f"http://evil.example:{port}/{place}")
            self.assertEqual(browser.run("return document.body.innerText.trim()"), "this host is not served here")

    def test_a_link_opens_once(self):
        browser = Browser(DRIVER, programs()[0])
        self.addCleanup(browser.end)
        browser.open(self.explorer.link)
        self.assertIn("used before", browser.run("return document.body.innerText"))
        # The page itself is no secret; without the cookie it is empty.
        browser.open(self.base)
        browser.wait("it says so", "return document.querySelector('.problem') !== null")
        self.assertEqual(browser.run("return document.querySelectorAll('.tree, .grid').length"), 0)

    def test_scripts_cannot_read_the_cookie_and_nothing_is_stored(self):
        self.browser.open(self.base)
        self.browser.wait("the page is ready", READY)
        found = self.browser.run("return [document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), location.search]")
        self.assertEqual(found, ["", "{}", "{}", ""])


class ReadOnly(Page):
    explorer_flags = ("--read-only",)

    def test_nothing_can_be_changed(self):
        self.go("#/objects/apps~v1/deployments")
        self.wait_for_row("cart")
        self.assertEqual([text for text in self.browser.text(".toolbar button") if text in ("New", "Delete")], [])
        self.assertEqual(self.browser.text(".badge:not([hidden])"), ["read-only"])
        # Past the page's own buttons, with all that it has.
        answer = self.browser.run_async("""
            const done = arguments[0];
            const assets = document.querySelector('script[src]').src;
            import(new URL('api.js', assets)).then(async (api) => {
              const path = '/api/v1/namespaces/default/configmaps';
              const body = JSON.stringify({apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'refused'}});
              const headers = {'Content-Type': 'application/json'};
              const write = await api.request(path, {method: 'POST', body, headers});
              const dry = await api.request(path + '?dryRun=All', {method: 'POST', body, headers});
              const gone = await api.request('/api/v1/namespaces/shop/configmaps/settings?dryRun=All', {method: 'DELETE', body: '{}', headers});
              done([write.status, write.json().message, dry.status, gone.status]);
            }, (error) => done(String(error)));""")
        self.assertEqual(answer, [403, "the explorer was started with --read-only: it changes nothing", 201, 403])
        self.api.call("GET", "/api/v1/namespaces/shop/configmaps/settings")
        self.browser.errors()


class Dark(Page):
    dark = True

    def test_dark_is_dark(self):
        self.go("#/objects/apps~v1/deployments")
        self.wait_for_row("cart")
        light = """const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number); return (red + green + blue) / 3"""
        self.assertLess(self.browser.run(light), 60)
        self.screenshot("dark")
        self.browser.click("[aria-label='Light or dark']")
        self.assertGreater(self.browser.run(light), 200)
        self.browser.click("[aria-label='Light or dark']")
        self.assertLess(self.browser.run(light), 60)
        self.no_errors()


class ManyRows(Page):
    server_flags = ("--controllers=-*",)

    @staticmethod
    def fill(api):
        """Made quickly: 50 writers, each with its own connection."""
        def write(part):
            one = cluster.Api.__new__(cluster.Api)
            one.__dict__.update(api.__dict__)
            connection = Writer(one)
            for index in range(part, ROWS, WRITERS):
                connection.create(f"object-{index:05}", {"index": str(index)})
        threads = [threading.Thread(target=write, args=(part,)) for part in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_many_rows_scroll_and_few_are_in_the_page(self):
        begun = time.monotonic()
        self.go("#/objects/core~v1/configmaps?namespace=default")
        shown = f"{ROWS:,} objects"
        until("all rows are loaded", lambda: self.browser.text(".status") == [shown], longest=300)
        loaded = time.monotonic() - begun
        self.browser.keys("End")
        self.wait_for_row(f"object-{ROWS - 1:05}")
        self.assertLess(len(self.rows()), 100)
        frames = self.browser.run_async("""
            const done = arguments[0];
            const grid = document.querySelector('.grid');
            const times = [];
            let most = 0, last = performance.now(), step = 0;
            const frame = (now) => {
              times.push(now - last);
              last = now;
              most = Math.max(most, grid.querySelectorAll('.row').length);
              step += 1;
              if (step > 120) return done([times.slice(1).sort((a, b) => a - b), most]);
              grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * step / 120;
              requestAnimationFrame(frame);
            };
            requestAnimationFrame(frame);""")
        times, most = frames
        self.assertLess(most, 100)
        memory = self.browser.devtools("Runtime.getHeapUsage")["usedSize"]
        print(f"note: {ROWS} rows loaded in {loaded:.1f} s; frames while scrolling: median {times[len(times) // 2]:.1f} ms, "
              f"99th {times[len(times) * 99 // 100]:.1f} ms; heap {memory / 2**20:.0f} MB; at most {most} rows in the page")
        self.browser.keys("/")
        self.browser.type(f"object-{ROWS - 5:05}")
        self.browser.wait("one is left", "return document.querySelector('.status').innerText.startsWith('1 of')")
        self.screenshot("many")
        self.no_errors()


WRITERS = 8


class Writer:
    """Creates ConfigMaps over one connection that is kept."""

    def __init__(self, api):
        import http.client
        import ssl
        host = api.server.split("//")[1]
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.connection = http.client.HTTPSConnection(host, context=context)
        self.headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}

    def create(self, name, labels):
        body = json.dumps(cluster.config_map(name, labels=labels))
        self.connection.request("POST", "/api/v1/namespaces/default/configmaps", body, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 201:
            raise AssertionError(text.decode())


class Away(Page):
    def test_a_server_that_comes_back_is_followed_again(self):
        self.go("#/objects/core~v1/configmaps?namespace=shop")
        self.wait_for_row("settings")
        address = self.server.address
        self.server.end()
        self.browser.wait("it says that nobody answers", "return document.documentElement.dataset.connection === 'down'")
        self.assertIn("does not answer", self.browser.text("#banner")[0])
        self.screenshot("away")
        type(self).server = cluster.start(SERVER, listen=address)
        self.addClassCleanup(self.server.end)
        self.server.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        # It has other certificates, another token and fewer versions behind it: the explorer reads its kubeconfig
        # again, and the page its lists.
        with open(self.server.kubeconfig) as file:
            text = file.read()
        with open(self.explorer_kubeconfig(), "w") as file:
            file.write(text)
        self.browser.wait("it says that it is back", "return document.documentElement.dataset.connection === 'up'")
        self.server.api.create("/api/v1/namespaces/shop/configmaps", cluster.config_map("after", "shop"))
        self.wait_for_row("after")
        self.browser.errors()

    def explorer_kubeconfig(self):
        words = self.explorer.process.args
        return words[words.index("--kubeconfig") + 1]


class WithinServer(unittest.TestCase):
    """`serve --ui`."""

    def test_the_server_has_a_page_of_its_own(self):
        server = cluster.Server(SERVER, "--ui")
        self.addCleanup(server.end)
        link = server.find(r"(http://\S+/open\?code=\w+)")
        browser = Browser(DRIVER, programs()[0], "--ignore-certificate-errors")
        self.addCleanup(browser.end)
        browser.open(f"https://{server.address}/ui")
        self.assertTrue(browser.url().startswith(link.split("/open")[0]), browser.url())
        browser.open(link)
        browser.wait("the page is ready", READY)
        browser.run("location.hash = '#/objects/core~v1/namespaces'")
        browser.wait("objects are there", "return [...document.querySelectorAll('.grid .name')].some((cell) => cell.innerText === 'kube-system')")
        # The cookie means nothing to the API.
        self.assertEqual(browser.errors(), [])


if __name__ == "__main__":
    unittest.main()
