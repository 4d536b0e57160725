#!/usr/bin/env python3
"""A kube-apiserver and a sternpost on one etcd, behind one address; kube-controller-manager, kube-scheduler and kwok
work through it and roll out a Deployment while one server is killed, and then the other.

    failover.py --sternpost BINARY --programs DIR [--nodes N] [--pods N] [--logs DIR]

DIR holds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok. Needs Python 3.9 and openssl; everything
listens on loopback. Says what happens, and ends with 0 if every roll-out was finished and both servers show the same.
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from peer import TOKEN, etcd_command, free_port, write_kubeconfig  # noqa: E402

# A hang-guard of every step.
STEP_SECONDS = 300
POLL_SECONDS = 0.2
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEPLOYMENT = DEPLOYMENTS + "/fleet"
PODS = "/api/v1/namespaces/default/pods"
# All that rests when a roll-out is over.
COMPARED = (DEPLOYMENTS, "/apis/apps/v1/namespaces/default/replicasets", PODS, "/api/v1/services", "/api/v1/serviceaccounts",
            "/api/v1/configmaps")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
LEADERS = ("kube-controller-manager", "kube-scheduler")


def main():
    arguments = parse_arguments()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if arguments.logs:
            stack.callback(keep_logs, folder, arguments.logs)
        show = Show(arguments, folder, stack)
        show.begin()
        show.roll_out("1")
        show.roll_out("2", then=lambda: show.kill("sternpost"))
        show.start_sternpost()
        show.roll_out("3", then=lambda: show.kill("kube-apiserver"))
        show.start_kube_apiserver()
        show.compare()
    say("done")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, type=pathlib.Path, metavar="BINARY")
    parser.add_argument("--programs", required=True, type=pathlib.Path, metavar="DIR", help="where the other programs are")
    parser.add_argument("--nodes", type=int, default=10, metavar="N")
    parser.add_argument("--pods", type=int, default=60, metavar="N")
    parser.add_argument("--logs", type=pathlib.Path, metavar="DIR", help="keep what the programs say there")
    return parser.parse_args()


class Show:
    def __init__(self, arguments, folder, stack):
        self.arguments, self.folder, self.stack = arguments, folder, stack
        self.processes, self.ports = {}, {}
        command, self.etcd = etcd_command(arguments.programs, folder / "etcd")
        self.start("etcd", command)
        self.key = folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        self.users = folder / "users.csv"
        self.users.write_text(f'{TOKEN},admin,admin-uid,"system:masters"\n')
        # Who is asked first: the sternpost, as long as it is there.
        self.ports = {name: free_port() for name in ("sternpost", "kube-apiserver")}
        self.balancer = Balancer(self.ports)
        stack.callback(self.balancer.close)
        self.url = f"https://127.0.0.1:{self.balancer.port}"

    def begin(self):
        self.start_kube_apiserver()
        self.start_sternpost()
        kubeconfig = self.folder / "kubeconfig"
        write_kubeconfig(kubeconfig, self.url)
        configuration = self.folder / "scheduler.yaml"
        configuration.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {kubeconfig}}}\n")
        for name, *flags in (
            ("kube-controller-manager", f"--kubeconfig={kubeconfig}", "--secure-port=0", f"--service-account-private-key-file={self.key}"),
            ("kube-scheduler", f"--config={configuration}", "--secure-port=0"),
            ("kwok", f"--kubeconfig={kubeconfig}", "--manage-all-nodes=true", "--node-lease-duration-seconds=40"),
        ):
            self.start(name, [self.arguments.programs / name, *flags])
        for number in range(self.arguments.nodes):
            self.request("POST", "/api/v1/nodes", node(number))
        self.wait_for(f"{self.arguments.nodes} nodes are ready", lambda: self.ready_nodes() == self.arguments.nodes)

    def start_kube_apiserver(self):
        self.start("kube-apiserver", [
            self.arguments.programs / "kube-apiserver", *self.shared(), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={self.ports['kube-apiserver']}", f"--cert-dir={self.folder / 'certs'}", "--authorization-mode=RBAC",
        ])
        self.wait_for("kube-apiserver is ready", lambda: self.is_ready("kube-apiserver"))

    def start_sternpost(self):
        self.start("sternpost", [
            self.arguments.sternpost, "serve", *self.shared(), f"--listen=127.0.0.1:{self.ports['sternpost']}",
            f"--data-dir={self.folder / 'sternpost'}",
        ])
        self.wait_for("sternpost is ready", lambda: self.is_ready("sternpost"))

    def shared(self):
        """Flags that all servers of a cluster have alike."""
        return [
            f"--etcd-servers={self.etcd}", "--service-cluster-ip-range=10.0.0.0/24", f"--token-auth-file={self.users}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.key}", f"--service-account-signing-key-file={self.key}",
        ]

    def start(self, name, command):
        log = self.stack.enter_context(open(self.folder / f"{name}.log", "a"))
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes[name] = process
        self.stack.callback(end, process)

    def kill(self, name):
        end(self.processes.pop(name))
        say(f"kill -9 of {name}")

    def roll_out(self, version, then=lambda: None):
        """Another template; `then` is done when a third of the pods have it."""
        pods, begun, before = self.arguments.pods, time.monotonic(), dict(self.balancer.accepted)
        if version == "1":
            self.request("POST", DEPLOYMENTS, deployment(pods, version))
        else:
            self.request("PATCH", DEPLOYMENT, {"spec": deployment(pods, version)["spec"]})
        updated = lambda: self.status().get("updatedReplicas", 0)
        self.wait_for(None, lambda: updated() >= pods // 3)
        then()
        is_done = lambda status: all(
            status.get(field, 0) == pods for field in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"))
        self.wait_for(None, lambda: is_done(self.status()))
        connections = ", ".join(f"{count - before[name]} to {name}" for name, count in self.balancer.accepted.items())
        say(f"roll-out {version}: {pods} pods available after {time.monotonic() - begun:.1f} s; new connections: {connections}")

    def compare(self):
        """Both servers show the same, and nobody has lost a lead."""
        count = lambda state: sum(path == PODS for path, _ in state)
        at_rest = lambda: count(self.state("sternpost")) == self.arguments.pods and self.state("sternpost") == self.state("kube-apiserver")
        self.wait_for("both servers show the same objects in the same versions", at_rest)
        for name in LEADERS:
            lease = self.request("GET", LEASES + name)["spec"]
            say(f"{name}: lost its lead {lease.get('leaseTransitions', 0)} times")
            if lease.get("leaseTransitions", 0):
                sys.exit(1)

    def state(self, server):
        url = f"https://127.0.0.1:{self.ports[server]}"
        return {
            (path, item["metadata"]["namespace"] + "/" + item["metadata"]["name"]): (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
            for path in COMPARED for item in request("GET", url + path)["items"]
        }

    def status(self):
        """Of the Deployment, once its controller has seen its newest form."""
        # The server that is asked may end meanwhile.
        with contextlib.suppress(OSError, http.client.HTTPException):
            deployment = self.request("GET", DEPLOYMENT)
            status = deployment.get("status", {})
            if status.get("observedGeneration") == deployment["metadata"]["generation"]:
                return status
        return {}

    def ready_nodes(self):
        is_ready = lambda node: any(
            condition["type"] == "Ready" and condition["status"] == "True" for condition in node["status"].get("conditions", []))
        return sum(map(is_ready, self.request("GET", "/api/v1/nodes")["items"]))

    def is_ready(self, server):
        with contextlib.suppress(OSError):
            return request("GET", f"https://127.0.0.1:{self.ports[server]}/readyz") == "ok"

    def request(self, method, path, body=None):
        return request(method, self.url + path, body)

    def wait_for(self, what, is_so):
        begun = time.monotonic()
        while not is_so():
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended:
                sys.exit(f"{ended} ended by itself:\n" + (self.folder / f"{ended[0]}.log").read_text()[-3000:])
            if time.monotonic() - begun > STEP_SECONDS:
                sys.exit(f"waited {STEP_SECONDS} s: {what or self.status()}")
            time.sleep(POLL_SECONDS)
        if what:
            say(f"{what} ({time.monotonic() - begun:.1f} s)")


class Balancer:
    """One address; each connection goes to the first server that takes it, and ends when that one does."""

    def __init__(self, ports):
        self.ports, self.accepted = ports, dict.fromkeys(ports, 0)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        for name, port in self.ports.items():
            with contextlib.suppress(OSError):
                far = socket.create_connection(("127.0.0.1", port))
                self.accepted[name] += 1
                threading.Thread(target=pump, args=(far, near), daemon=True).start()
                return pump(near, far)
        near.close()

    def close(self):
        self.listener.close()


def pump(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def request(method, url, body=None):
    headers = {"Authorization": "Bearer " + TOKEN}
    headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
    asked = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers, method=method)
    with urllib.request.urlopen(asked, context=ssl._create_unverified_context(), timeout=30) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith("{") else text


def node(number):
    resources = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    name = f"node-{number:03}"
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "type": "kwok"}, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": resources, "capacity": resources}}


def deployment(pods, version):
    template = {"metadata": {"labels": {"app": "fleet"}}, "spec": {"containers": [{"name": "main", "image": "image:" + version}]}}
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": "fleet"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fleet"}, "spec": spec}


def end(process):
    process.kill()
    process.wait()


def keep_logs(folder, logs):
    logs.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, logs)


BEGUN = time.monotonic()


def say(text):
    print(f"{time.monotonic() - BEGUN:6.1f} s  {text}", flush=True)


if __name__ == "__main__":
    main()
