"""The servers of the suite, as processes: fronts (sternpost, kube-apiserver), extension servers (sample-apiserver,
sternpost), the gate between them, and etcd for those that need it. Each is stopped by its own id."""

import base64
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

READY_SECONDS = 90
STOP_SECONDS = 15

# In a group the front lets do everything; the second may do what a role says.
TOKENS = 'admin-token,admin,admin-uid,"system:masters"\nalice-token,alice,uid-7,"dev,night shift"\n'


class Failed(Exception):
    """A server that does not start."""


class Process:
    def __init__(self, folder, name, command, environment=None):
        self.name = name
        self.log = pathlib.Path(folder) / f"{name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(environment or {})},
            )

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        self.end(signal.SIGKILL)

    def stop(self):
        return self.end(signal.SIGTERM)

    def end(self, how):
        if self.alive():
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])


def wait_until(what, check, seconds=READY_SECONDS, process=None):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if check():
            return
        if process and not process.alive():
            break
        time.sleep(0.1)
    raise Failed(f"{what}, after {seconds} s" + (f":\n{process.tail()}" if process else ""))


def free_port(host="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def listens(host, port):
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def own_address():
    """An address of this machine that is not loopback: endpoints may not have one. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return None


def pem(file):
    return base64.b64encode(pathlib.Path(file).read_bytes()).decode()


class Stalls:
    """How long the machine kept a process waiting that wanted nothing but to wake up: on a busy one, seconds. What is
    timed meanwhile was late by that much through no fault of its own."""

    STEP = 0.01

    def __enter__(self):
        self.worst, self.ended = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def watch(self):
        while not self.ended.is_set():
            start = time.monotonic()
            time.sleep(self.STEP)
            self.worst = max(self.worst, time.monotonic() - start - self.STEP)

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


class Answer:
    def __init__(self, status, headers, body, seconds):
        self.status, self.headers, self.body, self.seconds = status, headers, body, seconds

    def json(self):
        return json.loads(self.body)

    def text(self):
        return self.body.decode(errors="replace")


class Client:
    """Requests to one server, over a connection each; redirects are not followed."""

    def __init__(self, url, token=None):
        self.url, self.token = url, token
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_):
                return None

        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), Stay
        )

    def get(self, path, token=None, seconds=20, **headers):
        return self.send("GET", path, None, token, seconds, headers)

    def send(self, method, path, body=None, token=None, seconds=20, headers=None):
        request = urllib.request.Request(self.url + path, method=method)
        token = token or self.token
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        for name, value in (headers or {}).items():
            request.add_header(name.replace("_", "-"), value)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        start = time.monotonic()
        try:
            with self.opener.open(request, timeout=seconds) as answer:
                return Answer(answer.status, answer.headers, answer.read(), time.monotonic() - start)
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read(), time.monotonic() - start)
        except OSError as error:
            return Answer(0, {}, str(error).encode(), time.monotonic() - start)


def echoed(port, path, token, sent, host="127.0.0.1"):
    """Upgrades a request to the gate's `echo`, sends some lines, and returns the code and what came back."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    with context.wrap_socket(socket.create_connection((host, port), timeout=10)) as connection, connection.makefile("rb") as lines:
        connection.sendall((f"GET {path} HTTP/1.1\r\nHost: front\r\nAuthorization: Bearer {token}\r\n"
                            "Connection: Upgrade\r\nUpgrade: echo\r\n\r\n").encode())
        status = int(lines.readline().split()[1])
        while lines.readline().strip():
            pass
        back = []
        for line in sent if status == 101 else []:
            connection.sendall(line)
            back.append(lines.readline())
        return status, back


class Front:
    """A server that others are registered with; with `serving`, the name of its certificate, one that is registered
    itself. `kind` is sternpost or kube-apiserver."""

    def __init__(self, folder, kind, pki, binary, etcd=None, name="front", flags=(), serving=None):
        self.kind, self.pki, self.name = kind, pathlib.Path(pki), name
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir()
        self.binary, self.etcd_binary, self.etcd = binary, etcd, None
        self.port = free_port()
        self.kubeconfig = self.folder / "kubeconfig"
        (self.folder / "tokens.csv").write_text(TOKENS)
        self.flags, self.serving = list(flags), serving
        self.client = Client(f"https://127.0.0.1:{self.port}", "admin-token")
        self.process = None

    def start(self):
        shared = [
            "--token-auth-file", self.folder / "tokens.csv",
            "--authorization-mode", "RBAC",
            "--disable-admission-plugins", "ServiceAccount",
            "--client-ca-file", self.pki / "client-ca.crt",
            "--requestheader-client-ca-file", self.pki / "front-ca.crt",
            "--requestheader-allowed-names", "front-proxy",
            "--requestheader-username-headers", "X-Remote-User",
            "--requestheader-uid-headers", "X-Remote-Uid",
            "--requestheader-group-headers", "X-Remote-Group",
            "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
            "--service-account-key-file", self.pki / "token.pub",
            "--service-account-signing-key-file", self.pki / "token.key",
            "--service-account-issuer", "https://kubernetes.default.svc",
        ]
        if self.serving is None:
            shared += ["--proxy-client-cert-file", self.pki / "front-proxy.crt",
                       "--proxy-client-key-file", self.pki / "front-proxy.key"]
        else:
            shared += ["--tls-cert-file", self.pki / f"{self.serving}.crt",
                       "--tls-private-key-file", self.pki / f"{self.serving}.key"]
        if self.kind == "sternpost":
            command = [self.binary, "serve", "--in-memory", "--listen", f"127.0.0.1:{self.port}"] + shared
        else:
            self.etcd = Etcd(self.folder, self.etcd_binary)
            command = [self.binary, "--etcd-servers", self.etcd.url, "--bind-address", "127.0.0.1",
                       "--secure-port", str(self.port), "--cert-dir", self.folder / "certificates",
                       "--service-cluster-ip-range", "10.0.0.0/24", "--enable-aggregator-routing=true"] + shared
        self.process = Process(self.folder, self.kind, command + self.flags)
        wait_until(f"{self.name} is not ready", lambda: self.client.get("/readyz").status == 200, process=self.process)
        self.write_kubeconfig(self.kubeconfig, "admin-token")
        self.write_kubeconfig(self.folder / "alice", "alice-token")
        return self

    def write_kubeconfig(self, file, token):
        file.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.client.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }))
        return file

    def memory(self):
        """Resident bytes."""
        status = pathlib.Path(f"/proc/{self.process.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1024

    def stop(self):
        code = self.process.stop() if self.process else 0
        if self.etcd:
            self.etcd.stop()
        return code


class Etcd:
    def __init__(self, folder, binary):
        port, peers = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = Process(folder, "etcd", [
            binary, "--data-dir", pathlib.Path(folder) / "etcd", "--log-level", "error", "--unsafe-no-fsync",
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", f"http://127.0.0.1:{peers}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}",
            "--initial-cluster", f"default=http://127.0.0.1:{peers}",
        ])

    def stop(self):
        self.process.stop()


class Sample:
    """Kubernetes' sample-apiserver, which asks the front who may do what."""

    def __init__(self, folder, binary, etcd, pki, kubeconfig):
        self.folder, self.binary, self.etcd, self.pki, self.kubeconfig = folder, binary, etcd, pathlib.Path(pki), kubeconfig
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.client = Client(f"https://{self.address}")
        self.process = None

    def start(self):
        self.process = Process(self.folder, "sample-apiserver", [
            self.binary, "--etcd-servers", self.etcd.url, "--bind-address", "127.0.0.1", "--secure-port", self.port,
            "--kubeconfig", self.kubeconfig, "--authentication-kubeconfig", self.kubeconfig,
            "--authorization-kubeconfig", self.kubeconfig, "--feature-gates", "",
            "--tls-cert-file", self.pki / "sample.crt", "--tls-private-key-file", self.pki / "sample.key",
        ])
        wait_until("the sample server is not ready", lambda: self.client.get("/readyz").status == 200, process=self.process)
        return self

    def kill(self):
        self.process.kill()

    def stop(self):
        if self.process:
            self.process.stop()


class Rogues:
    """Servers that always misbehave, each in a way of its own."""

    NAMES = ("liar", "endless", "garbled", "expired")

    def __init__(self, folder, helper, pki, host):
        self.host, self.ports = host, {name: free_port(host) for name in self.NAMES}
        flags = [part for name, port in self.ports.items() for part in (f"-{name}", f"{host}:{port}")]
        self.process = Process(folder, "rogues", [helper, "rogue", "-pki", pki, *flags])
        wait_until("the rogues do not listen", lambda: all(listens(host, port) for port in self.ports.values()), process=self.process)

    def stop(self):
        self.process.stop()


class MetricsServer:
    """metrics-server, with nothing to measure."""

    def __init__(self, folder, binary, pki, kubeconfig):
        self.port = free_port()
        self.client = Client(f"https://127.0.0.1:{self.port}")
        self.process = Process(folder, "metrics-server", [
            binary, "--bind-address", "127.0.0.1", "--secure-port", self.port, "--kubelet-insecure-tls", "--kubeconfig", kubeconfig,
            "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
            "--tls-cert-file", pathlib.Path(pki) / "metrics.crt", "--tls-private-key-file", pathlib.Path(pki) / "metrics.key",
        ])
        wait_until("metrics-server is not alive", lambda: self.client.get("/livez").status == 200, process=self.process)

    def stop(self):
        self.process.stop()


class Gate:
    """Stands before an extension server; `mode` makes it misbehave, `seen` tells what came."""

    def __init__(self, folder, helper, pki, name, backend, host):
        self.port, self.control = free_port(host), free_port()
        self.host, self.address = host, f"{host}:{self.port}"
        self.folder, self.name = folder, name
        self.command = [
            helper, "gate", "-listen", f"{self.address},127.0.0.1:{self.port}", "-control", f"127.0.0.1:{self.control}",
            "-backend", backend, "-pki", pki, "-name", name,
        ]
        self.reopen()

    def reopen(self):
        self.process = Process(self.folder, f"gate-{self.name}", self.command)
        wait_until("the gate is not open", lambda: self.open(), process=self.process)

    def open(self):
        try:
            self.mode()
            return True
        except OSError:
            return False

    def mode(self, **mode):
        body = {**mode}
        if "Delay" in body:
            body["Delay"] = int(body["Delay"] * 1e9)
        request = urllib.request.Request(f"http://127.0.0.1:{self.control}/mode", method="PUT", data=json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=5):
            pass

    def seen(self):
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{self.control}/seen", timeout=5) as answer:
            return json.load(answer) or []

    def stop(self):
        self.process.stop()
