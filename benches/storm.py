#!/usr/bin/env python3
"""What definitions cost: many CustomResourceDefinitions are created, served,
explained and deleted while other traffic runs, on sternpost and on a
kube-apiserver in one run; a Markdown table.

    storm.py --sternpost BINARY [--peer-kubeconfig FILE [--peer-store-pid N]] [--definitions N] [--alone N]

See README.md in this folder for what the rows mean. Linux only; needs nothing
but Python 3.9.
"""

import argparse
import collections
import contextlib
import json
import multiprocessing
import pathlib
import selectors
import ssl
import statistics
import sys
import tempfile
import time

import objects
import serving

CONNECTIONS = 4  # that definitions come by
FIELDS = 40
SINGLES, TOGETHER = 20, 100  # for the time until they are published
RATE = 50  # of the other traffic: requests per second, creates and gets in turn
BASELINE_SECONDS = 10
# A server has settled when a second costs hardly more than one without a storm.
SETTLED_CPU, SETTLE_SECONDS = 0.05, 300
POLL_SECONDS = 0.005
WAIT_SECONDS = 1_200

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG_MAPS = "/api/v1/namespaces/storm/configmaps"
# Of the peer's CPU; seconds; bytes.
CPU_TARGET, PUBLISHED_TARGET, MEMORY_TARGET = 50, 0.1, 100_000


def main():
    arguments = parse_arguments()
    multiprocessing.set_start_method("fork")
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.scratch)))
        results = []
        if arguments.sternpost and not arguments.only_alone:
            measured = objects.start(arguments.sternpost, folder / "data", stack)
            results.append(storm(measured, arguments.definitions, arguments.per_group))
            measured.stop()
        if arguments.peer_kubeconfig and not arguments.only_alone:
            measured = objects.Process(serving.Server("kube-apiserver", arguments.peer_kubeconfig), arguments.peer_store_pid)
            results.append(storm(measured, arguments.definitions, arguments.per_group))
        if results:
            print(table(results, arguments))
        if arguments.alone:
            measured = objects.start(arguments.sternpost, folder / "alone", stack)
            print()
            print(table([storm(measured, arguments.alone, arguments.per_group)], arguments, arguments.alone))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", metavar="BINARY", help="release build to start and measure")
    parser.add_argument("--peer-kubeconfig", metavar="FILE", help="how to reach a kube-apiserver on this machine")
    parser.add_argument("--peer-store-pid", type=int, metavar="N", help="its etcd, whose CPU counts as its own")
    parser.add_argument("--definitions", type=int, default=1_000, metavar="N")
    parser.add_argument("--per-group", type=int, default=1, metavar="N", help="definitions that share a group")
    parser.add_argument("--alone", type=int, default=0, metavar="N", help="then so many on sternpost alone")
    parser.add_argument("--only-alone", action="store_true", help="only that")
    parser.add_argument("--scratch", metavar="DIR", help="where to keep data; should be a real disk")
    arguments = parser.parse_args()
    if not (arguments.sternpost or arguments.peer_kubeconfig) or arguments.alone and not arguments.sternpost:
        parser.error("nothing to measure")
    return arguments


# The storm


def storm(measured, count, per_group):
    """Figures by row, of one server."""
    server = measured.server
    figures = {"name": server.name}
    objects.make_namespace(server, "storm")
    wave = Wave(server, count, per_group)
    time.sleep(2)
    with Traffic(server, measured) as traffic:
        clock = Clock(measured, traffic)
        with clock.phase("quiet"):
            time.sleep(BASELINE_SECONDS)
        idle = measured.memory()
        with clock.phase("create"):
            wave.create()
        figures["memory, created"] = (measured.memory() - idle) / count
        with clock.phase("serve"):
            wave.serve()
        with clock.phase("explain"):
            wave.explain()
        figures["memory, served and explained"] = (measured.memory() - idle) / count
        # Not part of the above: these ask as often as they can.
        one, last = Wave(server, SINGLES, per_group, "single"), Wave(server, TOGETHER, per_group, "together")
        with clock.phase("publish"):
            figures["published, one"] = one.published_one_by_one()
            figures["published, last of many"] = last.published_together()
        with clock.phase("v2"):
            figures["v2 status"] = server.connect().get("/openapi/v2").status
        with clock.phase("delete others"):
            one.delete()
            last.delete()
        with clock.phase("delete"):
            wave.delete()
        figures["memory, deleted"] = (measured.memory() - idle) / count
    figures["peak"] = server.memory("VmHWM")
    for name, phase in clock.phases.items():
        figures[name] = phase | {"traffic": traffic.between(phase["start"], phase["end"])}
    return figures


class Wave:
    """Definitions, numbered, each with one object."""

    def __init__(self, server, count, per_group, name="storm"):
        self.server, self.count, self.per_group, self.name = server, count, per_group, name
        self.connections = []

    def connect(self):
        """At the start of each part: a server may close what was idle."""
        self.connections = [self.server.connect() for _ in range(CONNECTIONS)]

    def group(self, number):
        return f"{self.name}-{number // self.per_group}.example.com"

    def plural(self, number):
        return f"{self.name}widget{number}s"

    def kind(self, number):
        return f"{self.name.capitalize()}Widget{number}"

    def objects_path(self, number):
        return f"/apis/{self.group(number)}/v1/namespaces/storm/{self.plural(number)}"

    def create(self):
        self.connect()
        self.send("POST", lambda _: DEFINITIONS, self.definition, 201)
        wait_for(lambda: self.unpublished() == 0)

    def serve(self):
        self.connect()
        self.send("POST", self.objects_path, self.object, 201)
        self.send("GET", lambda number: f"{self.objects_path(number)}/one", None, 200)

    def explain(self):
        """What kubectl asks for when it explains a kind: the list of documents, then the one."""
        self.connect()
        connection = self.connections[0]
        for number in range(self.count):
            paths = json.loads(serving.expect(connection.get("/openapi/v3"), 200).body)["paths"]
            document = serving.expect(connection.get(paths[f"apis/{self.group(number)}/v1"]["serverRelativeURL"]), 200)
            if f'"{self.kind(number)}"'.encode() not in document.body:
                sys.exit(f"{self.server.name}: {self.kind(number)} is not in its document")

    def delete(self):
        self.connect()
        self.send("DELETE", lambda number: f"{DEFINITIONS}/{self.plural(number)}.{self.group(number)}", None, 200)
        wait_for(lambda: self.unpublished() == self.count)
        wait_for(lambda: not self.still_there())

    def send(self, method, path, body, expected):
        """One request for each, over all connections at a time."""
        waiting = collections.deque(range(self.count))
        tries = collections.Counter()
        while waiting:
            busy = [(connection, waiting.popleft()) for connection in self.connections if waiting]
            for connection, number in busy:
                write(connection, method, path(number), body and body(number))
            for connection, number in busy:
                answer = connection.answer()
                # The peer serves a definition some time after it says so.
                if answer.status in (404, 429) and method != "DELETE" and tries[number] < 1_000:
                    tries[number] += 1
                    waiting.append(number)
                    time.sleep(0.01)
                else:
                    serving.expect(answer, expected)

    def unpublished(self):
        """How many are not in the list of documents, nor in a document that several share."""
        paths = json.loads(self.connections[0].get("/openapi/v3").body)["paths"]
        missing = [number for number in range(self.count) if f"apis/{self.group(number)}/v1" not in paths]
        if self.per_group == 1 or missing:
            return len(missing)
        by_group = {}
        for number in range(self.count):
            by_group.setdefault(self.group(number), []).append(number)
        for group, numbers in by_group.items():
            body = self.connections[0].get(paths[f"apis/{group}/v1"]["serverRelativeURL"]).body
            missing += [number for number in numbers if f'"{self.kind(number)}"'.encode() not in body]
        return len(missing)

    def still_there(self):
        body = self.connections[0].get(f"{DEFINITIONS}?limit=500").body
        return f'"{self.name}widget'.encode() in body

    def published_one_by_one(self):
        """Seconds from the answer to a creation until /openapi/v3 has it."""
        self.connect()
        took, connection = [], self.connections[0]
        for number in range(self.count):
            write(connection, "POST", DEFINITIONS, self.definition(number))
            serving.expect(connection.answer(), 201)
            begin = time.perf_counter()
            wait_for(lambda: self.is_published(number), POLL_SECONDS)
            took.append(time.perf_counter() - begin)
        return took

    def published_together(self):
        self.connect()
        self.send("POST", lambda _: DEFINITIONS, self.definition, 201)
        begin = time.perf_counter()
        wait_for(lambda: self.unpublished() == 0, POLL_SECONDS)
        return time.perf_counter() - begin

    def is_published(self, number):
        paths = json.loads(self.connections[0].get("/openapi/v3").body)["paths"]
        path = paths.get(f"apis/{self.group(number)}/v1")
        if path is None:
            return False
        return self.per_group == 1 or f'"{self.kind(number)}"'.encode() in self.connections[0].get(path["serverRelativeURL"]).body

    def definition(self, number):
        names = {"plural": self.plural(number), "singular": self.plural(number)[:-1], "kind": self.kind(number)}
        version = {
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size0"}],
            "schema": {"openAPIV3Schema": schema()},
        }
        return json.dumps({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural(number)}.{self.group(number)}"},
            "spec": {"group": self.group(number), "scope": "Namespaced", "names": names, "versions": [version]},
        }).encode()

    def object(self, number):
        return json.dumps({
            "apiVersion": f"{self.group(number)}/v1", "kind": self.kind(number), "metadata": {"name": "one"},
            "spec": {"text0": "a", "size0": 1, "list0": [{"name": "x", "port": 80}], "mode0": "Fast"},
        }).encode()


def schema():
    """FIELDS fields of the shapes that authors use, each with a sentence."""
    fields = {}
    for number in range(FIELDS // 8):
        sentence = f"is one of the fields of which there are many, and this is the {number}th of its shape."
        fields |= {
            f"text{number}": {"type": "string", "maxLength": 100, "pattern": "^[a-z0-9.-]*$", "description": f"Text {sentence}"},
            f"size{number}": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 1000, "description": f"Size {sentence}"},
            f"mode{number}": {"type": "string", "enum": ["Fast", "Slow"], "default": "Fast", "description": f"Mode {sentence}"},
            f"limit{number}": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "description": f"Limit {sentence}"},
            f"labels{number}": {"type": "object", "additionalProperties": {"type": "string"}, "description": f"Labels {sentence}"},
            f"list{number}": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "description": f"List {sentence}",
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
            },
        }
    status = {"type": "object", "properties": {"phase": {"type": "string", "description": "Phase is where it stands."}}}
    return {"type": "object", "description": "A widget of the storm.",
            "properties": {"spec": {"type": "object", "properties": fields}, "status": status}}


def write(connection, method, path, body=None):
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    connection.socket.sendall(f"{method} {path} HTTP/1.1\r\n{connection.head}{length}\r\n".encode() + (body or b""))


def wait_for(condition, pause=0.5):
    begin = time.perf_counter()
    while not condition():
        if time.perf_counter() - begin > WAIT_SECONDS:
            sys.exit(f"waited {WAIT_SECONDS} s in vain")
        time.sleep(pause)


# Measuring


class Clock:
    """CPU and duration of phases, without what the server and the other traffic cost anyway."""

    def __init__(self, measured, traffic):
        self.measured, self.traffic, self.phases = measured, traffic, {}

    @contextlib.contextmanager
    def phase(self, name):
        cpu, start, asked = self.measured.cpu(), time.perf_counter(), self.traffic.asked.value
        yield
        end = time.perf_counter()
        if name != "quiet":
            self.settle()
        # By request, not by second: on a busy machine there are fewer of them.
        spent = self.measured.cpu() - cpu - self.traffic.cost(time.perf_counter() - start, self.traffic.asked.value - asked)
        self.phases[name] = {"cpu": spent, "start": start, "end": end}
        print(f"measured: {self.measured.server.name}: {name}: {end - start:.1f} s, CPU {spent:.2f} s", file=sys.stderr)

    def settle(self):
        """A server may work on after it answered; that belongs to the phase."""
        for _ in range(SETTLE_SECONDS):
            cpu, asked = self.measured.cpu(), self.traffic.asked.value
            time.sleep(1)
            if self.measured.cpu() - cpu < self.traffic.cost(1, self.traffic.asked.value - asked) + SETTLED_CPU:
                break


class Traffic:
    """Creates and gets ConfigMaps at a steady rate, and watches them, in two processes."""

    def __init__(self, server, measured):
        self.server, self.measured = server, measured
        self.stop = multiprocessing.Event()
        self.asked = multiprocessing.Value("q", 0)
        self.seen = []
        self.per_second = self.per_request = 0

    def cost(self, seconds, requests):
        """CPU seconds of a quiet server with so much traffic."""
        return self.per_second * seconds + self.per_request * requests

    def measure_idle(self):
        cpu = self.measured.cpu()
        time.sleep(BASELINE_SECONDS)
        self.per_second = (self.measured.cpu() - cpu) / BASELINE_SECONDS

    def measure_requests(self):
        time.sleep(1)
        cpu, asked, start = self.measured.cpu(), self.asked.value, time.perf_counter()
        time.sleep(BASELINE_SECONDS)
        spent = self.measured.cpu() - cpu - self.per_second * (time.perf_counter() - start)
        self.per_request = spent / max(1, self.asked.value - asked)

    def __enter__(self):
        self.measure_idle()
        self.processes = []
        for work in (ask, watch):
            here, there = multiprocessing.Pipe(False)
            process = multiprocessing.Process(target=work, args=(self.server, self.stop, self.asked, there))
            process.start()
            self.processes.append((process, here))
        self.measure_requests()
        return self

    def __exit__(self, *_):
        self.stop.set()
        (asked, watched) = [pipe.recv() for _, pipe in self.processes]
        for process, _ in self.processes:
            process.join()
        self.seen = [(start, what, took) for start, what, _, took in asked]
        self.seen += [(start, "watch", watched[name] - start) for start, what, name, _ in asked if what == "create" and name in watched]

    def between(self, start, end):
        latencies = {}
        for at, what, took in self.seen:
            if start <= at < end:
                latencies.setdefault(what, []).append(took)
        return {what: quantiles(values) | {"rate": len(values) / (end - start)} for what, values in latencies.items()}


def quantiles(values):
    values = sorted(values)
    return {"median": statistics.median(values), "p99": values[min(len(values) - 1, len(values) * 99 // 100)], "worst": values[-1]}


def ask(server, stop, count, pipe):
    """One request at a time: those that a slow answer leaves no time for are not sent, and the rate shows it."""
    connection, asked, number = server.connect(), [], 0
    due = time.perf_counter()
    while not stop.is_set():
        time.sleep(max(0, due - time.perf_counter()))
        sent = time.perf_counter()
        due = max(due + 1 / RATE, sent)
        name = f"traffic-{number // 2}"
        what, path, body = "get", f"{CONFIG_MAPS}/{name}", None
        if number % 2 == 0:
            value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": "x" * 1000}}
            what, path, body = "create", CONFIG_MAPS, json.dumps(value).encode()
        write(connection, "POST" if body else "GET", path, body)
        serving.expect(connection.answer(), 201 if body else 200)
        asked.append((sent, what, name, time.perf_counter() - sent))
        number += 1
        count.value = number
    pipe.send(asked)


def watch(server, stop, _, pipe):
    seen, rest = {}, b""
    connection = server.connect()
    write(connection, "GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=36000")
    connection.socket.setblocking(False)
    waiting = selectors.DefaultSelector()
    waiting.register(connection.socket, selectors.EVENT_READ)
    while not stop.is_set():
        if not waiting.select(timeout=0.2):
            continue
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := connection.socket.recv(1 << 16):
                now = time.perf_counter()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    name = line.partition(b'"name":"')[2].partition(b'"')[0].decode()
                    if name:
                        seen.setdefault(name, now)
    pipe.send(seen)


# Output


def table(results, arguments, count=None):
    count = count or arguments.definitions
    peer = len(results) > 1
    head = ["", *(result["name"] for result in results), *(["ratio", "target"] if peer else ["target"])]
    lines = [f"{count:,} definitions of {FIELDS} fields, {arguments.per_group} to a group", "", row(head), row(["---", *["--:"] * (len(head) - 1)])]

    def add(label, values, shown, target):
        ratio = [f"1/{values[1] / values[0]:.1f}" if values[0] > 0 else "-"] if peer else []
        lines.append(row([label, *map(shown, values), *ratio, target]))

    for name, label in (("create", "create a definition until it is published"), ("serve", "create and get one object"),
                        ("explain", "what explaining one asks for"), ("delete", "delete a definition")):
        add(f"server CPU: {label}", [result[name]["cpu"] / count for result in results], objects.microseconds, "")
    whole = [sum(result[name]["cpu"] for name in ("create", "serve", "explain", "delete")) / count for result in results]
    add("server CPU: all of that", whole, objects.microseconds, f"≤ 1/{CPU_TARGET}" if peer else "")
    add("server CPU: `/openapi/v2` once", [result["v2"]["cpu"] for result in results], objects.microseconds, "")
    for result in results:
        if result["v2 status"] != 200:
            lines.append(row([f"{result['name']} answered {result['v2 status']} to it", *[""] * (len(head) - 1)]))
    seconds = "{:.3f} s".format
    add("in `/openapi/v3` after creation, median", [statistics.median(result["published, one"]) for result in results], seconds, "")
    add("in `/openapi/v3` after creation, worst of 20", [max(result["published, one"]) for result in results], seconds, f"≤ {PUBLISHED_TARGET} s")
    add(f"in `/openapi/v3`, last of {TOGETHER} at once", [result["published, last of many"] for result in results], seconds, f"≤ {PUBLISHED_TARGET} s")
    kilobytes = lambda value: f"{value / 1000:.1f} kB"  # noqa: E731
    for name, label, target in (("created", "after creation", f"≤ {MEMORY_TARGET // 1000} kB"), ("served and explained", "after all were served and explained", ""),
                                ("deleted", "after all were deleted", "")):
        add(f"resident memory per definition {label}", [result[f"memory, {name}"] for result in results], kilobytes, target)
    for name in ("create", "serve", "explain", "delete"):
        add(f"time: {name} all", [result[name]["end"] - result[name]["start"] for result in results], "{:.1f} s".format, "")
    for what in ("create", "get", "watch"):
        for name in ("quiet", "create", "serve", "explain", "delete"):
            cells = [latencies(result[name]["traffic"].get(what)) for result in results]
            during = "no storm" if name == "quiet" else f"during {name}"
            lines.append(row([f"ConfigMap {what}, {during}: median, p99, worst", *cells, *[""] * (1 + peer)]))
    return "\n".join(lines)


def latencies(found):
    if not found:
        return "-"
    return " ".join(f"{found[name] * 1000:.1f}" for name in ("median", "p99", "worst")) + f" ms, {found['rate']:.0f}/s"


def row(cells):
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
