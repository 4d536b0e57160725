#!/usr/bin/env python3
"""What objects cost: CPU of sternpost beside that of a kube-apiserver for the
same requests by the same client, in one run; a Markdown table.

    objects.py --sternpost BINARY [--peer-kubeconfig FILE [--peer-store-pid N]] [--rounds N] [--many N]

See README.md in this folder for what the rows mean. Linux only; needs nothing
but Python 3.9.
"""

import argparse
import contextlib
import json
import multiprocessing
import pathlib
import selectors
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

import serving

CONNECTIONS = 32
PROCESSES = 4  # of the client; each has its part of the connections
OBJECTS = 5_000
LABELLED = 100  # every so many-th object carries the label that is selected by
WATCHERS = 200
WATCHER_PROCESSES = 2
EVENTS = 320
SETTLE_SECONDS = 3
# For one measurement; a slow server gets fewer rounds, not a wrong figure.
LISTS, SELECTIONS = 64, 640

DEPLOYMENTS = 1_000  # for patches by key and for apply

CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
DEPLOYMENT = "/apis/apps/v1/namespaces/{}/deployments/object-{:06}"
# Named as in the design, with the most CPU that sternpost may use of the peer's.
TARGETS = {
    "create": 15, "get": 20, "list": 30, "select": 30, "update": 15, "merge": 15, "strategic": 15, "apply": 15, "watch": 10,
}


def main():
    arguments = parse_arguments()
    multiprocessing.set_start_method("fork")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.scratch))
        servers = [start(arguments.sternpost, pathlib.Path(folder) / "data", stack)]
        if arguments.peer_kubeconfig:
            peer = serving.Server("kube-apiserver", arguments.peer_kubeconfig)
            servers.append(Process(peer, arguments.peer_store_pid))
        table = Table(len(servers) > 1)
        measure(table, servers, arguments.rounds)
        if arguments.many:
            servers[0].stop()
            memory(table, arguments, pathlib.Path(folder) / "many", stack)
        print(table)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY", help="release build to start and measure")
    parser.add_argument("--peer-kubeconfig", metavar="FILE", help="how to reach a kube-apiserver on this machine")
    parser.add_argument("--peer-store-pid", type=int, metavar="N", help="its etcd, whose CPU counts as its own")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measure so often, take the median")
    parser.add_argument("--many", type=int, default=100_000, metavar="N", help="objects for the memory figure (0: none)")
    parser.add_argument("--scratch", metavar="DIR", help="where to keep data; should be a real disk")
    return parser.parse_args()


class Process:
    """A server and, if its store is another process, that one."""

    def __init__(self, server, store_pid=None, process=None):
        self.server, self.process = server, process
        self.store = store_pid and copy_with_pid(server, store_pid)

    def cpu(self):
        return self.server.cpu() + (self.store.cpu() if self.store else 0)

    def memory(self):
        return self.server.memory("VmRSS") + (self.store.memory("VmRSS") if self.store else 0)

    def stop(self):
        if self.process and self.process.poll() is None:
            serving.stop(self.process)


def copy_with_pid(server, pid):
    other = object.__new__(serving.Server)
    other.__dict__.update(server.__dict__, pid=pid)
    return other


def start(binary, data, stack):
    kubeconfig = data.with_suffix(".kubeconfig")
    command = [binary, "serve", "--data-dir", str(data), "--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    line = process.stderr.readline().decode()
    if "is ready on" not in line:
        sys.exit(f"sternpost did not start: {line}")
    started = Process(serving.Server("sternpost", kubeconfig, process.pid), process=process)
    stack.callback(started.stop)
    return started


# The load


def config_map(namespace, number, fill="x"):
    labels = {"pick": "yes"} if number % LABELLED == 0 else {"pick": "no"}
    return json.dumps({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"object-{number:06}", "namespace": namespace, "labels": labels},
        "data": {"value": fill * 1000},
    }).encode()


def create_request(namespace, number):
    return "POST", CONFIG_MAPS.format(namespace), config_map(namespace, number), 201


def update_request(namespace, number):
    path = CONFIG_MAPS.format(namespace) + f"/object-{number:06}"
    return "PUT", path, config_map(namespace, number, "y"), 200


def get_request(namespace, number):
    return "GET", CONFIG_MAPS.format(namespace) + f"/object-{number:06}", b"", 200


def list_request(namespace, _):
    return "GET", CONFIG_MAPS.format(namespace), b"", 200


def select_request(namespace, _):
    return "GET", CONFIG_MAPS.format(namespace) + "?labelSelector=pick%3Dyes", b"", 200


def merge_request(namespace, number):
    path = CONFIG_MAPS.format(namespace) + f"/object-{number:06}"
    body = json.dumps({"data": {"value": "z" * 1000}}).encode()
    return "PATCH", path, body, 200, "application/merge-patch+json"


def deployment(number, image):
    labels = {"app": f"object-{number:06}"}
    container = {"name": "web", "image": image, "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container, {"name": "side", "image": "side"}]}}
    return json.dumps({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"object-{number:06}", "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }).encode()


def apply_request(namespace, number, image="nginx:2", expected=200):
    path = DEPLOYMENT.format(namespace, number) + "?fieldManager=bench&force=true"
    return "PATCH", path, deployment(number, image), expected, "application/apply-patch+yaml"


def deploy_request(namespace, number):
    return apply_request(namespace, number, "nginx:1", 201)


def strategic_request(namespace, number):
    containers = [{"name": "web", "image": "nginx:3"}]
    body = json.dumps({"spec": {"template": {"spec": {"containers": containers}}}}).encode()
    return "PATCH", DEPLOYMENT.format(namespace, number), body, 200, "application/strategic-merge-patch+json"


class Load:
    """Requests numbered 0 to `count`, over `connections` connections.

    Each process writes a request on each of its connections, then reads the
    answers: no thread waits for another, and all connections are busy."""

    def __init__(self, server, request, namespace, count, connections=CONNECTIONS):
        self.server, self.request, self.namespace = server, request, namespace
        self.count, self.connections = count, connections

    def run(self, measured):
        """CPU seconds of `measured` and wall seconds for the whole load."""
        processes = min(PROCESSES, self.connections)
        context = multiprocessing.get_context()
        ready, done = context.Barrier(processes + 1), context.Barrier(processes + 1)
        failed = context.Event()
        children = [
            context.Process(target=self.child, args=(index, processes, ready, done, failed)) for index in range(processes)
        ]
        for child in children:
            child.start()
        ready.wait()
        cpu, begin = measured.cpu(), time.perf_counter()
        done.wait()
        took = time.perf_counter() - begin
        cpu = measured.cpu() - cpu
        for child in children:
            child.join()
        if failed.is_set():
            sys.exit(f"{self.server.name}: {self.request.__name__} failed")
        return cpu, took

    def child(self, index, processes, ready, done, failed):
        connections = [self.server.connect() for _ in range(self.connections // processes)]
        numbers = iter(range(index, self.count, processes))
        ready.wait()
        try:
            busy = True
            while busy:
                busy = [
                    (connection, self.send(connection, number)) for connection, number in zip(connections, numbers)
                ]
                for connection, expected in busy:
                    serving.expect(connection.answer(), expected)
        except BaseException:
            failed.set()
            raise
        finally:
            done.wait()

    def send(self, connection, number):
        method, path, body, expected, *media = self.request(self.namespace, number)
        media = media[0] if media else "application/json"
        length = f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n" if body else ""
        connection.socket.sendall(f"{method} {path} HTTP/1.1\r\n{connection.head}{length}\r\n".encode() + body)
        return expected


def make_namespace(server, name):
    connection = server.connect()
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
    head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    connection.socket.sendall(f"POST /api/v1/namespaces HTTP/1.1\r\n{connection.head}{head}\r\n".encode() + body)
    serving.expect(connection.answer(), 201)


# Measurements


def measure(table, servers, rounds):
    namespaces = [f"bench-{number}" for number in range(rounds)]
    for measured in servers:
        for namespace in ["bench-watch", *namespaces]:
            make_namespace(measured.server, namespace)
    for label, row, request, count in (
        ("create", f"create a 1 KB ConfigMap, durable, {CONNECTIONS} connections", create_request, OBJECTS),
        ("get", "get one", get_request, OBJECTS),
        ("list", f"list {OBJECTS:,} × 1 KB", list_request, LISTS),
        ("select", f"list by label, {100 // LABELLED} % of {OBJECTS:,}", select_request, SELECTIONS),
        ("update", "update", update_request, OBJECTS),
        ("merge", "merge patch", merge_request, OBJECTS),
        (None, None, deploy_request, DEPLOYMENTS),
        ("apply", "server-side apply of a Deployment", apply_request, DEPLOYMENTS),
        ("strategic", "strategic merge patch of a Deployment", strategic_request, DEPLOYMENTS),
    ):
        time.sleep(SETTLE_SECONDS)
        runs = [
            [Load(measured.server, request, namespace, count).run(measured) for measured in servers]
            for namespace in namespaces
        ]
        if label is None:
            continue
        cpu = [statistics.median(cpu for cpu, _ in own) / count for own in zip(*runs)]
        rate = [count / statistics.median(took for _, took in own) for own in zip(*runs)]
        table.add(row, cpu, TARGETS[label], rate)
    time.sleep(SETTLE_SECONDS)
    for writers in (1, CONNECTIONS):
        runs = [[watch(measured, writers) for measured in servers] for _ in range(rounds)]
        deliveries = [statistics.median(own) for own in zip(*runs)]
        written = "one writer" if writers == 1 else f"{writers} writers"
        table.add(f"deliver one event to one of {WATCHERS} watchers, {written}", deliveries, TARGETS["watch"])


def watch(measured, writers):
    """CPU of one delivery: what events cost more when many watch."""
    server = measured.server
    clear(server)
    load = Load(server, create_request, "bench-watch", EVENTS, connections=writers)
    alone, _ = load.run(measured)
    clear(server)
    context = multiprocessing.get_context()
    ready, done = context.Barrier(WATCHER_PROCESSES + 1), context.Barrier(WATCHER_PROCESSES + 1)
    children = [context.Process(target=watchers, args=(server, ready, done)) for _ in range(WATCHER_PROCESSES)]
    for child in children:
        child.start()
    ready.wait()
    time.sleep(1)
    before = measured.cpu()
    load.run(measured)
    done.wait()
    together = measured.cpu() - before
    for child in children:
        child.join()
    # Two handshakes of the writer differ by nothing that shows here.
    return (together - alone) / (EVENTS * WATCHERS)


def clear(server):
    connection = server.connect()
    path = CONFIG_MAPS.format("bench-watch")
    connection.socket.sendall(f"DELETE {path} HTTP/1.1\r\n{connection.head}\r\n".encode())
    serving.expect(connection.answer(), 200)


def watchers(server, ready, done):
    """Watches until every event has come to every one of this process's connections."""
    version = json.loads(server.connect().get(CONFIG_MAPS.format("bench-watch")).body)["metadata"]["resourceVersion"]
    waiting = selectors.DefaultSelector()
    for _ in range(WATCHERS // WATCHER_PROCESSES):
        connection = server.connect()
        path = CONFIG_MAPS.format("bench-watch") + f"?watch=1&resourceVersion={version}"
        connection.socket.sendall(f"GET {path} HTTP/1.1\r\n{connection.head}\r\n".encode())
        connection.socket.setblocking(False)
        waiting.register(connection.socket, selectors.EVENT_READ, Seen())
    ready.wait()
    while waiting.get_map():
        events = waiting.select(timeout=60)
        if not events:
            sys.exit(f"{server.name}: events are missing")
        for key, _ in events:
            if key.data.read(key.fileobj):
                waiting.unregister(key.fileobj)
    done.wait()


class Seen:
    MARK = b'"type":"ADDED"'

    def __init__(self):
        self.count, self.rest = 0, b""

    def read(self, socket):
        """Whether all has come."""
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := socket.recv(1 << 16):
                text = self.rest + data
                self.count += text.count(self.MARK)
                self.rest = text[-len(self.MARK) + 1 :]
        return self.count >= EVENTS


def memory(table, arguments, data, stack):
    measured = start(arguments.sternpost, data, stack)
    make_namespace(measured.server, "bench")
    Load(measured.server, create_request, "bench", arguments.many).run(measured)
    time.sleep(SETTLE_SECONDS)
    after, peak = (measured.server.memory(field) / 1e6 for field in ("VmRSS", "VmHWM"))
    measured.stop()
    restarted = start(arguments.sternpost, data, stack)
    time.sleep(SETTLE_SECONDS)
    table.note(f"Resident memory of sternpost with {arguments.many:,} objects of 1 KB: {after:.0f} MB after they were "
               f"created (peak {peak:.0f}), {restarted.server.memory('VmRSS') / 1e6:.0f} MB after a restart.")
    restarted.stop()


# Output


class Table:
    def __init__(self, with_peer):
        self.rows, self.notes, self.with_peer = [], [], with_peer

    def add(self, label, cpu, target, rate=None):
        self.rows.append((label, cpu, target, rate))
        print(f"measured: {label}", file=sys.stderr)

    def note(self, text):
        self.notes.append(text)

    def __str__(self):
        lines = ["| server CPU each | sternpost | per s |", "|---|--:|--:|"]
        if self.with_peer:
            lines = ["| server CPU each | sternpost | kube-apiserver | ratio | target | per s | its per s |",
                     "|---|--:|--:|--:|--:|--:|--:|"]
        for label, cpu, target, rate in self.rows:
            own, *peer = map(microseconds, cpu)
            per_second = [f"{value:.0f}" for value in rate or []] or ["-"] * len(cpu)
            cells = [label, own]
            if self.with_peer:
                cells += [*peer, f"1/{cpu[1] / cpu[0]:.1f}" if cpu[0] > 0 else "-", f"≤ 1/{target}"]
            lines.append(f"| {' | '.join(cells + per_second)} |")
        return "\n".join(lines + [""] + self.notes)


def microseconds(seconds):
    value = seconds * 1e6
    return f"{value / 1000:.1f} ms" if value >= 10_000 else f"{value:.0f} µs" if value >= 100 else f"{value:.1f} µs"


if __name__ == "__main__":
    main()
