#!/usr/bin/env python3
"""What servers on one etcd cost: sternpost and kube-apiserver side by side on the same etcd, measured one after the
other; CPU of the server and of etcd for each request, memory, and how long a replica takes that begins with everything
in etcd; a Markdown table.

    scale.py --sternpost BINARY --programs DIR [--sizes N,N] [--replicas N] [--rounds N]

DIR holds `etcd` and `kube-apiserver`. See README.md in this folder. Linux only; needs Python 3.9, and the programs of
benches/floor beside the binary.
"""

import argparse
import contextlib
import pathlib
import statistics
import sys
import tempfile
import time

import cluster
import objects
import serving

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from peer import Peer  # noqa: E402

COUNT, LISTED, LISTS = 4_000, 4_000, 16
ROWS = (
    ("create", COUNT, "create a 1 KB ConfigMap"),
    ("get", COUNT, "get one"),
    ("list", LISTS, f"list {LISTED:,}"),
    ("update", COUNT, "update"),
)
NAMES = ("sternpost", "kube-apiserver")
# Watchers of the row of many, and how they come: on so many streams of a connection.
MANY_WATCHERS, STREAMS, MANY_EVENTS = 10_000, 100, 64
# What a machine of its own would give each server and each member of etcd, in what is computed.
CORES, REPLICAS = 4, (1, 2, 3, 5, 10)


def main():
    arguments = parse_arguments()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.scratch)))
        text = Scale(arguments, folder, stack).run()
    print(text)
    if arguments.docs:
        page = pathlib.Path(arguments.docs) / "scale.md"
        objects.replace_part(page, "figures", f"{objects.machine()}\n\n{text}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY", help="what to start and measure")
    parser.add_argument("--programs", required=True, type=pathlib.Path, metavar="DIR", help="where etcd and kube-apiserver are")
    parser.add_argument("--sizes", default="10000,100000", metavar="N,...", help="objects of 1 KB for the figures of memory and start")
    parser.add_argument("--replicas", type=int, default=3, metavar="N", help="at most so many servers write together")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measure requests so often, take the median")
    parser.add_argument("--docs", metavar="DIR", help="write the table into scale.md there")
    parser.add_argument("--scratch", metavar="DIR", help="where to keep data; should be a real disk")
    return parser.parse_args()


class Scale:
    def __init__(self, arguments, folder, stack):
        self.arguments, self.folder, self.stack = arguments, folder, stack
        arguments.only, arguments.http1 = None, False
        self.bench = objects.Bench(arguments, pathlib.Path(arguments.sternpost).parent / "load", folder, stack)
        self.store = cluster.start_etcd(arguments.programs, folder, stack)
        self.etcd = objects.process_of("etcd", None, self.store.pid)
        self.peer = self.start_peer()
        self.key = self.peer_folder / "sa.key"
        self.started, self.medians = 0, {}
        self.servers = {"sternpost": self.start_sternpost(), "kube-apiserver": self.peer}
        for server in self.servers.values():
            objects.settle(server)
        self.idle = {name: objects.idle_cpu(server) for name, server in self.servers.items()}

    def start_peer(self):
        peer = self.stack.enter_context(Peer(self.arguments.programs, [], store=self.store.url))
        self.peer_folder = peer.folder
        kubeconfig = peer.kubeconfig(self.folder / "peer.kubeconfig")
        return objects.Process(serving.Server("kube-apiserver", kubeconfig, peer.processes[0].pid))

    def start_sternpost(self):
        self.started += 1
        flags = ["--etcd-servers=" + self.store.url, "--service-account-issuer=https://kubernetes.default.svc",
                 f"--service-account-key-file={self.key}", f"--service-account-signing-key-file={self.key}"]
        return objects.start(self.arguments.sternpost, self.folder / f"data-{self.started}", self.stack, *flags)

    def run(self):
        lines = ["| CPU each, of the server and of etcd | sternpost | etcd | kube-apiserver | etcd | × cheaper | … with etcd | sternpost, per s | kube-apiserver, per s |",
                 "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
        lines += self.requests()
        lines += ["", *self.growth(), "", *self.together(), "", *self.model()]
        return "\n".join(lines)

    def requests(self):
        rounds = range(self.arguments.rounds)
        for number in rounds:
            for index, name in enumerate(NAMES):
                objects.make_namespace(self.servers[name].server, f"scale-{index}-{number}")
        objects.make_namespace(self.servers["sternpost"].server, "bench-watch")
        for operation, count, label in ROWS:
            measured = {name: [] for name in NAMES}
            for number in rounds:
                for index, name in enumerate(NAMES):
                    measured[name].append(self.measure(self.servers[name], operation, count, f"scale-{index}-{number}"))
            self.medians[operation] = medians(measured)
            yield self.row(label, count, measured)
        for number, few in ((objects.WATCHERS, {}), (MANY_WATCHERS, {"streams": STREAMS, "events": MANY_EVENTS})):
            measured = {name: [(self.bench.watch(self.servers[name], objects.CONNECTIONS, watchers=number, **few), 0, 0)
                               for _ in rounds] for name in NAMES}
            yield self.row(f"deliver one event to one of {number:,} watchers", 1, measured)
        measured = {name: [(self.follow(index, number), 0, 0) for number in rounds] for index, name in enumerate(NAMES)}
        self.medians["follow"] = medians(measured)
        yield self.row("take note of a create by another server", COUNT, measured)

    def settle(self):
        for name, server in self.servers.items():
            objects.settle(server, self.idle[name])

    def measure(self, server, operation, count, namespace):
        """CPU seconds of the server and of etcd, and wall seconds."""
        self.settle()
        before = self.etcd.cpu()
        cpu, took = self.bench.run(server, operation, count, namespace)
        return cpu, self.etcd.cpu() - before, took

    def follow(self, index, number):
        """CPU seconds of a server while the other one creates, without what it does anyway."""
        name, other = NAMES[index], self.servers[NAMES[1 - index]]
        server, namespace = self.servers[name], f"scale-followed-{index}-{number}"
        objects.make_namespace(other.server, namespace)
        self.settle()
        before, begun = server.cpu(), time.perf_counter()
        self.bench.run(other, "create", COUNT, namespace)
        self.settle()
        return server.cpu() - before - self.idle[name] * (time.perf_counter() - begun)

    def row(self, label, count, measured):
        median = medians(measured)
        own, peer = median["sternpost"], median["kube-apiserver"]
        each = lambda seconds: objects.microseconds(seconds / count) if seconds else "–"
        per_second = lambda of: f"{count / of[2]:.0f}" if of[2] else "–"
        cells = [label, each(own[0]), each(own[1]), each(peer[0]), each(peer[1]), f"{peer[0] / own[0]:.1f}",
                 f"{(peer[0] + peer[1]) / (own[0] + own[1]):.1f}", per_second(own), per_second(peer)]
        print(f"measured: {cells}", file=sys.stderr)
        return f"| {' | '.join(cells)} |"

    def growth(self):
        """What is there after so many objects, and how a replica begins that finds them."""
        yield "| objects of 1 KB | sternpost | kube-apiserver | etcd | a new sternpost is ready in | with CPU of | a new kube-apiserver |"
        yield "|--:|--:|--:|--:|--:|--:|--:|"
        made = 0
        for size in map(int, self.arguments.sizes.split(",")):
            while made < size:
                # Names begin anew in each namespace.
                namespace = f"scale-many-{made}"
                objects.make_namespace(self.servers["sternpost"].server, namespace)
                count = min(size - made, 100_000)
                self.bench.run(self.servers["sternpost"], "create", count, namespace)
                made += count
            self.settle()
            memory = [f"{of.memory('VmRSS') / 1e6:.0f} MB" for of in (*self.servers.values(), self.etcd)]
            begun = time.monotonic()
            replica = self.start_sternpost()
            took, cpu = time.monotonic() - begun, replica.cpu()
            replica.stop()
            peer = self.peer_start()
            cells = [f"{size:,}", *memory, f"{took:.2f} s", f"{cpu:.2f} s", f"{peer:.2f} s"]
            print(f"measured: {cells}", file=sys.stderr)
            yield f"| {' | '.join(cells)} |"

    def peer_start(self):
        begun = time.monotonic()
        with Peer(self.arguments.programs, [], store=self.store.url):
            return time.monotonic() - begun

    def together(self):
        """Creates by several servers at a time: all of them, and etcd, share this machine."""
        yield "| sternposts that write together | creates per s | CPU each, of all and etcd |"
        yield "|--:|--:|--:|"
        servers = [self.servers["sternpost"]]
        for count in range(1, self.arguments.replicas + 1):
            while len(servers) < count:
                servers.append(self.start_sternpost())
            namespaces = [f"scale-together-{count}-{number}" for number in range(count)]
            for namespace in namespaces:
                objects.make_namespace(servers[0].server, namespace)
            clients = [objects.Client(self.bench.load, server, "create", COUNT, namespace)
                       for server, namespace in zip(servers, namespaces)]
            before, begun = self.etcd.cpu() + sum(server.cpu() for server in servers), time.monotonic()
            for client in clients:
                client.begin()
            for client in clients:
                client.end()
            took = time.monotonic() - begun
            cpu = self.etcd.cpu() + sum(server.cpu() for server in servers) - before
            yield f"| {count} | {count * COUNT / took:.0f} | {objects.microseconds(cpu / (count * COUNT))} |"

    def model(self):
        """What the costs above allow where every program has a machine of its own: a server takes note of all creates and
        makes its share of them; etcd's members do theirs."""
        create, follow = ({name: self.medians[what][name][0] / COUNT for name in NAMES} for what in ("create", "follow"))
        etcd = {name: CORES * COUNT / self.medians["create"][name][1] for name in NAMES}
        yield (f"| servers of {CORES} cores each: creates per s that their CPU allows, computed | sternpost | kube-apiserver |")
        yield "|---|--:|--:|"
        for count in REPLICAS:
            allowed = [CORES / (follow[name] + (create[name] - follow[name]) / count) for name in NAMES]
            yield f"| {count} | {' | '.join(f'{each:,.0f}' for each in allowed)} |"
        yield f"| one etcd with {CORES} cores, by its CPU | {' | '.join(f'{etcd[name]:,.0f}' for name in NAMES)} |"


def medians(measured):
    """Of each column of what was measured of each server."""
    return {name: [statistics.median(column) for column in zip(*runs)] for name, runs in measured.items()}


if __name__ == "__main__":
    main()
