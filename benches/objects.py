#!/usr/bin/env python3
"""What objects cost: CPU of sternpost for each request, as a multiple of a server that does nothing
and as a fraction of a kube-apiserver, by the same client in one run; a Markdown table.

    objects.py --sternpost BINARY [--peer-kubeconfig FILE [--peer-store-pid N]] [--rounds N] [--many N]

See README.md in this folder for what the rows mean. Linux only; needs Python 3.9, and the programs of
benches/floor beside the binary.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import serving

CONNECTIONS = 32
OBJECTS = 5_000
GETS = 20_000
DEPLOYMENTS = 1_000  # for patches by key and for apply
DEFINITIONS = 100
LISTS, PAGES, SELECTIONS = 64, 320, 640
WATCHERS = 200
EVENTS = 320
IDLE_WATCHERS = 2_000
SETTLE_SECONDS = 3
# What a server does on its own account after it answered, it has done when it uses no more of a core than this beyond
# what it uses when idle, or does not come to it in so long.
SETTLED_SHARE, SETTLED_AFTER_SECONDS, SETTLED_BY_SECONDS = 0.02, 0.5, 60
IDLE_SECONDS = 5

# What is sent, how often, what it is called, and the targets: at most so many times the floor, and so
# many times cheaper than the peer. The floor answers as if it were a ConfigMap.
ROWS = (
    ("create", OBJECTS, "create a 1 KB ConfigMap, durable", 2.0, 15),
    ("get", GETS, "get one", 1.4, 15),
    ("list", LISTS, f"list {OBJECTS:,}", 1.3, 10),
    ("page", PAGES, "page of 500", 1.6, 8),
    ("select", SELECTIONS, f"1 % of {OBJECTS:,} by label", None, 25),
    ("update", OBJECTS, "update", 2.0, 15),
    ("merge", OBJECTS, "merge patch", 2.0, 15),
    ("deploy", DEPLOYMENTS, "server-side apply that creates a Deployment", None, None),
    ("apply", DEPLOYMENTS, "server-side apply of a Deployment", None, 15),
    ("strategic", DEPLOYMENTS, "strategic merge patch of a Deployment", None, 15),
    ("define", DEFINITIONS, "define a resource, until it is served", None, 40),
)
NOT_OF_THE_FLOOR = {"select", "deploy", "apply", "strategic", "define"}
WATCH_TARGETS = (1.3, 4.5)


def main():
    arguments = parse_arguments()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.scratch)))
        programs = pathlib.Path(arguments.sternpost).parent
        bench = Bench(arguments, programs / "load", folder, stack)
        servers = {"floor": start_floor(programs / "floor", folder, stack)}
        servers["sternpost"] = start(arguments.sternpost, folder / "data", stack)
        if arguments.peer_kubeconfig:
            peer = serving.Server("kube-apiserver", arguments.peer_kubeconfig)
            servers["peer"] = Process(peer, arguments.peer_store_pid)
        bench.measure(servers)
        servers["sternpost"].stop()
        if arguments.many:
            bench.memory(arguments.many)
        print(bench)
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(bench.rows, indent=1) + "\n")
        if arguments.docs:
            write_page(pathlib.Path(arguments.docs), bench)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY", help="what to start and measure")
    parser.add_argument("--peer-kubeconfig", metavar="FILE", help="how to reach a kube-apiserver on this machine")
    parser.add_argument("--peer-store-pid", type=int, metavar="N", help="its etcd, whose CPU counts as its own")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measure so often, take the median")
    parser.add_argument("--many", type=int, default=100_000, metavar="N", help="objects for the memory figure (0: none)")
    parser.add_argument("--only", metavar="ROWS", help="only these, separated by commas, and what they need")
    parser.add_argument("--http1", action="store_true", help="measure all over HTTP/1.1, not get alone")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--docs", metavar="DIR", help="write benchmarks.md and its plot there")
    parser.add_argument("--scratch", metavar="DIR", help="where to keep data; should be a real disk")
    return parser.parse_args()


class Process:
    """A server and, if its store is another process, that one."""

    def __init__(self, server, store_pid=None, process=None):
        self.server, self.process = server, process
        self.parts = [server, *([process_of(server.name, server.address, store_pid)] if store_pid else [])]

    def cpu(self):
        return sum(part.cpu() for part in self.parts)

    def memory(self, field="VmRSS"):
        return sum(part.memory(field) for part in self.parts)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def process_of(name, address, pid):
    """A server of which nothing is asked but what it uses."""
    server = object.__new__(serving.Server)
    server.name, server.address, server.pid, server.token = name, address, pid, ""
    return server


def start(binary, data, stack, *flags):
    kubeconfig = data.with_suffix(".kubeconfig")
    command = [binary, "serve", "--data-dir", str(data), "--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig), *flags]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = []
    while not said or "is ready on" not in said[-1]:
        said.append(process.stderr.readline().decode())
        if not said[-1]:
            sys.exit(f"sternpost did not start: {''.join(said)}")
    started = Process(serving.Server("sternpost", kubeconfig, process.pid), process=process)
    stack.callback(started.stop)
    return started


def start_floor(binary, folder, stack):
    command = [str(binary), "--log", str(folder / "floor.log"), "--objects", str(OBJECTS)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    host, port = process.stdout.readline().decode().split()[-1].rsplit(":", 1)
    started = Process(process_of("floor", (host, int(port)), process.pid), process=process)
    stack.callback(started.stop)
    return started


def idle_cpu(server):
    """CPU seconds of a second in which nothing is asked of it."""
    before = server.cpu()
    time.sleep(IDLE_SECONDS)
    return (server.cpu() - before) / IDLE_SECONDS


def settle(server, idle=0):
    """Waits until what the server does on its own account is done."""
    quiet = 0
    for _ in range(int(SETTLED_BY_SECONDS / SETTLED_AFTER_SECONDS)):
        before = server.cpu()
        time.sleep(SETTLED_AFTER_SECONDS)
        # Twice: it may have waited for the disk.
        quiet = quiet + 1 if server.cpu() - before < (idle + SETTLED_SHARE) * SETTLED_AFTER_SECONDS else 0
        if quiet == 2:
            return


def make_namespace(server, name):
    send(server, "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, 201)


def send(server, method, path, body, expected):
    """One request over a connection of its own."""
    connection = server.connect()
    text = json.dumps(body).encode() if body else b""
    length = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n" if body else ""
    connection.socket.sendall(f"{method} {path} HTTP/1.1\r\n{connection.head}{length}\r\n".encode() + text)
    serving.expect(connection.answer(), expected)


class Client:
    """The program that sends requests: connected when it is there, and waiting for a word."""

    def __init__(self, program, server, operation, count, namespace, connections=CONNECTIONS, streams=1, http2=True, **more):
        address, token = "{}:{}".format(*server.server.address), server.server.token
        command = [str(program), "--address", address, "--token", token, "--operation", operation,
                   "--count", str(count), "--namespace", namespace, "--connections", str(connections),
                   "--streams", str(streams), *(["--http2"] if http2 else []),
                   *(word for name, value in more.items() for word in (f"--{name}", str(value)))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.expect("ready")

    def begin(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        """Seconds that it took."""
        took = float(self.expect("done"))
        self.process.stdin.close()
        self.process.wait()
        return took

    def expect(self, word):
        found, _, rest = self.process.stdout.readline().strip().partition(" ")
        if found != word:
            sys.exit(f"the client failed: {found or 'it ended'} {rest}")
        return rest


class Bench:
    def __init__(self, arguments, load, folder, stack):
        self.arguments, self.load, self.folder, self.stack = arguments, load, folder, stack
        self.rows, self.notes = [], []

    def wants(self, operation):
        only = self.arguments.only
        return not only or operation in only.split(",")

    def run(self, server, operation, count, namespace, **options):
        """CPU seconds of the server and wall seconds."""
        client = Client(self.load, server, operation, count, namespace, **options)
        before = server.cpu()
        client.begin()
        took = client.end()
        return server.cpu() - before, took

    def run_until_quiet(self, server, operation, count, namespace, **options):
        """The same, with what the server does after it answered, and without what it does anyway."""
        idle = idle_cpu(server)
        before, begun = server.cpu(), time.perf_counter()
        _, took = self.run(server, operation, count, namespace, **options)
        settle(server, idle)
        return server.cpu() - before - idle * (time.perf_counter() - begun), took

    def measure(self, servers):
        namespaces = [f"bench-{number}" for number in range(self.arguments.rounds)]
        for name, server in servers.items():
            for namespace in ["bench-watch", *namespaces]:
                if name != "floor":
                    make_namespace(server.server, namespace)
        for operation, count, label, floor, peer in ROWS:
            needed = self.wants(operation) or operation in ("create", "deploy")
            for http2 in (True, False) if operation == "get" else (not self.arguments.http1,):
                if needed:
                    protocol = "HTTP/2" if http2 else "HTTP/1.1"
                    self.row(servers, namespaces, operation, count, f"{label}, {protocol}", (floor, peer), http2)
        for writers in (1, CONNECTIONS):
            if self.wants("watch"):
                written = "one writer" if writers == 1 else f"{writers} writers"
                label = f"deliver one event to one of {WATCHERS} watchers, {written}"
                runs = [{name: (self.watch(server, writers), 0) for name, server in servers.items()} for _ in namespaces]
                self.add("watch", label, runs, 1, WATCH_TARGETS)
        if self.wants("idle"):
            for name, server in servers.items():
                self.notes.append(f"An idle watcher over HTTP/2 takes {self.idle(server) / 1e3:.0f} KB of {name}.")

    def row(self, servers, namespaces, operation, count, label, targets, http2):
        time.sleep(SETTLE_SECONDS)
        measured = [name for name in servers if name != "floor" or operation not in NOT_OF_THE_FLOOR]
        run = self.run_until_quiet if operation == "define" else self.run
        runs = [
            {name: run(servers[name], operation, count, namespace, http2=http2) for name in measured}
            for namespace in namespaces
        ]
        if self.wants(operation):
            self.add(operation, label, runs, count, targets)

    def add(self, operation, label, runs, count, targets):
        median = lambda name, index: statistics.median(run[name][index] for run in runs)
        cpu = {name: median(name, 0) / count for name in runs[0]}
        rate = {name: count / median(name, 1) for name in runs[0] if median(name, 1)}
        self.rows.append({"operation": operation, "label": label, "cpu": cpu, "rate": rate, "targets": targets})
        print(f"measured: {label}: {cpu}", file=sys.stderr)

    def watch(self, server, writers, watchers=WATCHERS, events=EVENTS, streams=1):
        """CPU seconds of one delivery: what events cost more when many watch."""
        self.clear(server)
        alone, _ = self.run(server, "create", events, "bench-watch", connections=writers)
        self.clear(server)
        watching = Client(self.load, server, "watch", events, "bench-watch", connections=watchers // streams, streams=streams)
        time.sleep(1)
        watching.begin()
        before = server.cpu()
        self.run(server, "create", events, "bench-watch", connections=writers)
        watching.end()
        # Two handshakes of the writer differ by nothing that shows here.
        return (server.cpu() - before - alone) / (events * watchers)

    def idle(self, server, watchers=IDLE_WATCHERS, streams=1):
        """Bytes of memory for each of many watchers that nothing happens to."""
        before = server.memory()
        client = Client(self.load, server, "idle", 0, "bench-idle", connections=watchers // streams, streams=streams)
        time.sleep(SETTLE_SECONDS)
        grown = server.memory() - before
        client.begin()
        client.begin()
        client.end()
        return grown / watchers

    def clear(self, server):
        if server.server.token:
            send(server.server, "DELETE", "/api/v1/namespaces/bench-watch/configmaps", None, 200)

    def memory(self, many):
        data = self.folder / "many"
        server = start(self.arguments.sternpost, data, self.stack)
        make_namespace(server.server, "bench")
        self.run(server, "create", many, "bench")
        time.sleep(SETTLE_SECONDS)
        after, peak = server.memory() / 1e6, server.memory("VmHWM") / 1e6
        server.stop()
        server = start(self.arguments.sternpost, data, self.stack)
        time.sleep(SETTLE_SECONDS)
        self.notes.append(f"Resident memory of sternpost with {many:,} objects of 1 KB: {after:.0f} MB after they were "
                          f"created (peak {peak:.0f}), {server.memory() / 1e6:.0f} MB after a restart.")
        server.stop()

    def __str__(self):
        lines = ["| server CPU each | sternpost | floor | × floor | at most | kube-apiserver | × cheaper | at least | per s |",
                 "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
        for row in self.rows:
            cpu, (floor, peer) = row["cpu"], row["targets"]
            own = cpu["sternpost"]
            ratio = lambda name, turned: f"{cpu[name] / own if turned else own / cpu[name]:.1f}" if name in cpu else "–"
            cells = [row["label"], microseconds(own), microseconds(cpu.get("floor")), ratio("floor", False), floor or "–",
                     microseconds(cpu.get("peer")), ratio("peer", True), peer or "–",
                     f"{row['rate']['sternpost']:.0f}" if row["rate"] else "–"]
            lines.append(f"| {' | '.join(map(str, cells))} |")
        return "\n".join(lines + ["", *self.notes])


# The page


def write_page(folder, bench):
    measured = f"{machine()}\n\n{bench}\n\n![server CPU for each operation](benchmarks.svg)"
    replace_part(folder / "benchmarks.md", "measured", measured)
    (folder / "benchmarks.svg").write_text(plot(bench.rows))


def replace_part(page, name, text):
    """Replaces what was measured before; the rest of the page stays."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def machine():
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, {time.strftime('%Y-%m-%d')}."


COLOURS = {"floor": "#9aa5b1", "sternpost": "#1f6f8b", "peer": "#d08770"}
NAMES = {"floor": "a server that does nothing", "sternpost": "sternpost", "peer": "kube-apiserver and etcd"}


def plot(rows):
    """Bars of CPU time on a logarithmic scale, one group a row."""
    bar, gap, left, width = 14, 16, 330, 560
    shown = [(row["label"], [(name, row["cpu"][name]) for name in COLOURS if row["cpu"].get(name, 0) > 0]) for row in rows]
    values = [value for _, bars in shown for _, value in bars]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    place = lambda value: (math.log10(value) - low) / (high - low) * width
    lines, y = [], 40
    for power in range(low, high + 1):
        x = left + place(10 ** power)
        lines.append(f'<line x1="{x:.0f}" y1="30" x2="{x:.0f}" y2="HEIGHT" stroke="#ddd"/>'
                     f'<text x="{x:.0f}" y="24" text-anchor="middle">{microseconds(10 ** power)}</text>')
    for label, bars in shown:
        lines.append(f'<text x="{left - 8}" y="{y + bar * len(bars) / 2 + 4:.0f}" text-anchor="end">{label}</text>')
        for name, value in bars:
            lines.append(f'<rect x="{left}" y="{y}" width="{max(place(value), 1):.0f}" height="{bar - 2}" fill="{COLOURS[name]}"/>'
                         f'<text x="{left + place(value) + 4:.0f}" y="{y + bar - 4}">{microseconds(value)}</text>')
            y += bar
        y += gap
    for index, (name, text) in enumerate(NAMES.items()):
        x = left + index * 200
        lines.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLOURS[name]}"/><text x="{x + 14}" y="{y + 9}">{text}</text>')
    height = y + 20
    body = "\n".join(lines).replace("HEIGHT", str(y - gap))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{height}" '
            f'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')


def microseconds(seconds):
    if seconds is None:
        return "–"
    value = seconds * 1e6
    return f"{value / 1000:.1f} ms" if value >= 10_000 else f"{value:.0f} µs" if value >= 100 else f"{value:.1f} µs"


if __name__ == "__main__":
    main()
