"""A browser that tests drive: Chromium by the W3C WebDriver protocol, with nothing but Python's own library.

`Browser` is one browser with one profile. Waiting is for conditions, never for a time.
"""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import picture

# Whatever takes longer does not happen, on however busy a machine.
LONGEST = int(os.environ.get("EXPLORER_PATIENCE", "60"))
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"

KEYS = {
    "Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Home": "\ue011", "End": "\ue010", "PageDown": "\ue00f",
    "PageUp": "\ue00e", "ArrowDown": "\ue015", "ArrowUp": "\ue013", "Backspace": "\ue003",
}


class WebDriverError(Exception):
    pass


class Driver:
    """The program that drives browsers."""

    def __init__(self, program):
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [program, f"--port={port}", "--log-level=SEVERE"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until("the driver is ready", lambda: self.call("GET", "/status")["ready"], errors=(OSError,))

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=LONGEST * 2) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise WebDriverError(f"{value['error']}: {value['message']}") from None

    def end(self):
        self.process.terminate()
        self.process.wait()


class Browser:
    def __init__(self, driver, chromium, *flags, dark=False, size=(1280, 800), languages=None):
        self.driver = driver
        self.profile = tempfile.mkdtemp(prefix="explorer-profile-")
        arguments = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
            f"--user-data-dir={self.profile}", f"--window-size={size[0]},{size[1]}", "--force-device-scale-factor=1", *flags,
        ]
        if dark:
            arguments.append("--force-dark-mode")
            arguments.append("--blink-settings=preferredColorScheme=0")
        capabilities = {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {"binary": chromium, "args": arguments},
        }
        made = driver.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.path = f"/session/{made['sessionId']}"
        self.call("POST", "/timeouts", {"script": LONGEST * 1000, "pageLoad": LONGEST * 1000})
        if dark:
            self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def call(self, method, path, body=None):
        return self.driver.call(method, self.path + path, body)

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def url(self):
        return self.call("GET", "/url")

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def find(self, css):
        """The elements there are, now."""
        return self.call("POST", "/elements", {"using": "css selector", "value": css})

    def text(self, css):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", css)

    def wait(self, what, script, *arguments):
        """Until a script answers with something true, which is returned."""
        try:
            return until(what, lambda: self.run(script, *arguments), errors=(WebDriverError,))
        except AssertionError as problem:
            shown = self.run("return document.body.innerText.slice(0, 1500)")
            raise AssertionError(f"{problem}; the page shows:\n{shown}\n{self.errors()}") from None

    def wait_for(self, css):
        return self.wait(css, "return document.querySelector(arguments[0]) !== null", css)

    def click(self, css):
        self.wait_for(css)
        element = self.find(css)[0][ELEMENT]
        self.call("POST", f"/element/{element}/click", {})

    def keys(self, *keys):
        """Presses keys, one after the other, whatever has the focus."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def type(self, text):
        self.keys(*text)

    def size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def logs(self, kind):
        return self.call("POST", "/se/log", {"type": kind})

    def errors(self):
        """What the console has complained of since the last call."""
        return [f"{line['level']}: {line['message']}" for line in self.logs("browser") if line["level"] == "SEVERE"]

    def requests(self):
        """The addresses of all requests since the last call."""
        found = []
        for line in self.logs("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(picture.small(base64.b64decode(self.call("GET", "/screenshot"))))

    def end(self):
        try:
            self.call("DELETE", "")
        finally:
            shutil.rmtree(self.profile, ignore_errors=True)


def until(what, find, longest=LONGEST, errors=()):
    """Asks again and again until the answer is true."""
    end = time.monotonic() + longest
    last = None
    while True:
        try:
            found = find()
            if found:
                return found
        except errors as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"not within {longest} s: {what}" + (f" ({last})" if last else ""))
        time.sleep(0.02)


def programs():
    """Where chromium and its driver are, or None."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None
