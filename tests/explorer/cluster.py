"""What tests put into a cluster, and the programs they start: sternpost, and the explorer on it."""
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

from webdriver import LONGEST, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import peer  # noqa: E402

# A folder with kube-apiserver and etcd, to look at these in the place of a sternpost.
PEER = os.environ.get("EXPLORER_PEER")


class Api:
    """Requests to an API server, as its administrator. `kubeconfig` has a token, as sternpost's has."""

    def __init__(self, kubeconfig):
        with open(kubeconfig) as file:
            text = file.read()
        self.server = re.search(r'server: "?(https?://[^"\s]+)', text).group(1)
        self.token = re.search(r'token: "?([^"\s]+)', text).group(1)
        context = ssl.create_default_context()
        # It is the server that the test has started, on loopback.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
        self.opener = urllib.request.build_opener(*handlers)

    def call(self, method, path, body=None, content_type="application/json"):
        data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        with self.opener.open(request, timeout=LONGEST) as answer:
            return json.load(answer)

    def create(self, path, *objects):
        for one in objects:
            try:
                self.call("POST", path, one)
            except urllib.error.HTTPError as error:
                if error.code != 409:
                    raise AssertionError(f"{path}: {error.read().decode()}") from None

    def merge(self, path, patch):
        return self.call("PATCH", path, patch, "application/merge-patch+json")


class Program:
    """A program with its stderr read line by line."""

    def __init__(self, *words, folder=None):
        self.lines = []
        environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
            cwd=folder)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def find(self, pattern, last=False):
        """What the pattern's group is in the first line that has one, when there is one."""
        def look():
            found = [match.group(1) for match in (re.search(pattern, line) for line in list(self.lines)) if match]
            if not found and self.process.poll() is not None:
                raise AssertionError(f"it has ended with {self.process.returncode}: " + "\n".join(self.lines))
            return found and found[-1 if last else 0]
        return until(pattern, look)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(LONGEST)
        self.process.stderr.close()
        return self.process.returncode


class Server(Program):
    """A sternpost that keeps nothing."""

    def __init__(self, program, *flags, listen="127.0.0.1:0"):
        self.folder = tempfile.TemporaryDirectory(prefix="explorer-")
        self.kubeconfig = os.path.join(self.folder.name, "kubeconfig")
        super().__init__(program, "serve", "--in-memory", "--listen", listen, "--kubeconfig", self.kubeconfig, *flags)
        self.address = self.find(r"is ready on https://(\S+) in")
        self.api = Api(self.kubeconfig)


class KubeApiserver:
    """A real kube-apiserver on an etcd of its own, in the place of a `Server`."""

    def __init__(self, programs, listen="127.0.0.1:0"):
        # Nothing makes service accounts here, and pods are to be had without.
        flags = ["--disable-admission-plugins=ServiceAccount"]
        port = listen.rsplit(":", 1)[1]
        if port != "0":
            flags.append(f"--secure-port={port}")
        self.peer = peer.Peer(pathlib.Path(programs), flags)
        if port != "0":
            self.peer.url = f"https://127.0.0.1:{port}"
        self.peer.__enter__()
        self.folder = tempfile.TemporaryDirectory(prefix="explorer-")
        self.kubeconfig = str(self.peer.kubeconfig(pathlib.Path(self.folder.name) / "kubeconfig"))
        self.address = self.peer.url.split("//")[1]
        self.api = Api(self.kubeconfig)

    def end(self):
        self.peer.__exit__()


def start(program, *flags, listen="127.0.0.1:0"):
    """What the page looks at: a sternpost with these flags, or the peer."""
    return KubeApiserver(PEER, listen) if PEER else Server(program, *flags, listen=listen)


class Explorer(Program):
    """`sternpost ui` on a kubeconfig."""

    def __init__(self, program, kubeconfig, *flags, folder=None):
        super().__init__(program, "ui", "--kubeconfig", kubeconfig, "--no-open", *flags, folder=folder)
        self.link = self.find(r"(http://\S+/open\?code=\w+)")
        self.origin = self.link.split("/open")[0]


def config_map(name, namespace="default", data=None, labels=None):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
            "data": data or {}}


def deployment(name, namespace="default", replicas=2, image="registry.example/web:1.4.2", labels=None):
    labels = {"app": name, **(labels or {})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                     "template": {"metadata": {"labels": labels}, "spec": {"containers": [
                         {"name": "app", "image": image, "ports": [{"containerPort": 8080, "name": "http"}],
                          "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}}}}


def pod(name, namespace="default", phase="Running", labels=None):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
            "spec": {"containers": [{"name": "app", "image": "registry.example/web:1.4.2"}]}, "status": {"phase": phase}}


def definition(plural="ships", kind="Ship", group="sea.example.com"):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "description": "What the owner wants.", "properties": {
        "rig": {"type": "string", "enum": ["sloop", "ketch"], "description": "How the masts stand."},
        "crew": {"type": "integer", "minimum": 1, "default": 2, "description": "How many sail her."}}}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
                                   "additionalPrinterColumns": [{"name": "Rig", "type": "string", "jsonPath": ".spec.rig"},
                                                                {"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"}]}]}}


def fill(api):
    """A small cluster that looks like one."""
    for name in ("shop", "payments", "monitoring"):
        api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for namespace, names in (("shop", ("web", "cart", "search")), ("payments", ("ledger", "gateway")), ("monitoring", ("prometheus",))):
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        api.create(path, *(deployment(name, namespace, labels={"team": namespace, "tier": "backend"}) for name in names))
    for index, phase in enumerate(("Running", "Running", "Pending", "Failed", "Running", "Succeeded")):
        name = f"web-6d5f7-{index}"
        try:
            api.create("/api/v1/namespaces/shop/pods", pod(name, "shop", labels={"app": "web", "team": "shop"}))
            api.call("PATCH", f"/api/v1/namespaces/shop/pods/{name}/status", {"status": {"phase": phase}}, "application/merge-patch+json")
        except AssertionError as problem:
            # Without the controllers there is no service account to run as.
            print(f"note: {problem}")
            break
    api.create("/api/v1/namespaces/shop/configmaps", config_map("settings", "shop", {"log.level": "info", "currency": "EUR"}, {"app": "web"}))
