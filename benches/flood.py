#!/usr/bin/env python3
"""What one user who floods the server costs the others.

    benches/flood.py --sternpost target/dist/sternpost [--seconds 15] [--rounds 3] [--pin]

500 connections: 100 of ten quiet users, who read, list, create, patch and delete at a
steady pace, and 400 of one user who lists and creates as fast as he is answered. The
latency of the quiet ones is measured alone; with the flood on another server of the same
machine, which is what the clients and the processors cost; beside the flood; and beside
the flood with flow control off. The rows take turns for so many rounds, and the medians
of the rounds are shown. Clients of the flood run at a lower priority than the server and
than the quiet ones, since all share one machine; `--pin` gives servers the first
processor and clients the others.

With KUBE_APISERVER and ETCD, the paths of these programs, in the environment the same is
done to them.
"""

import argparse
import asyncio
import json
import os
import random
import re
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

QUIET_USERS = 10
QUIET_CONNECTIONS = 100
FLOOD_CONNECTIONS = 400
FLOOD_PROCESSES = 2
# Between two requests of a quiet connection.
PAUSE = 0.5

# One for all: making one reads every authority the machine knows.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TLS.check_hostname = False
TLS.verify_mode = ssl.CERT_NONE


class Connection:
    """One TLS connection with keep-alive."""

    def __init__(self, address, token):
        self.address = address
        self.token = token

    async def open(self):
        host, port = self.address.rsplit(":", 1)
        self.reader, self.writer = await asyncio.open_connection(
            host, int(port), ssl=TLS, ssl_handshake_timeout=60
        )

    async def ask(self, method, path, body=None, media="application/json"):
        body = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        await self.writer.drain()
        head = await self.reader.readuntil(b"\r\n\r\n")
        code = int(head.split(b" ", 2)[1])
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
        if length:
            await self.reader.readexactly(int(length.group(1)))
        elif re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                await self.reader.readexactly(size + 2)
            await self.reader.readexactly(2)
        return code


async def quiet(address, number, seconds, latencies, wrong):
    connection = Connection(address, f"quiet-{number % QUIET_USERS}-token")
    await connection.open()
    maps = "/api/v1/namespaces/default/configmaps"
    own = f"quiet-{number}-{os.getpid()}-{random.randrange(1 << 30)}"
    made = False
    end = time.monotonic() + seconds
    await asyncio.sleep(random.random() * PAUSE)
    while time.monotonic() < end:
        choice = random.randrange(4)
        if not made:
            step = ("POST", maps, {"metadata": {"name": own}, "data": {"k": "v"}})
            made = True
        elif choice == 0:
            step = ("GET", f"{maps}/{own}", None)
        elif choice == 1:
            step = ("GET", f"{maps}?limit=20", None)
        elif choice == 2:
            step = ("PATCH", f"{maps}/{own}", {"data": {"k": str(random.random())}})
        else:
            step = ("DELETE", f"{maps}/{own}", None)
            made = False
        media = "application/merge-patch+json" if step[0] == "PATCH" else "application/json"
        begun = time.perf_counter()
        code = await connection.ask(*step, media=media)
        latencies.append(time.perf_counter() - begun)
        if code >= 400:
            wrong[code] = wrong.get(code, 0) + 1
        await asyncio.sleep(PAUSE * (0.5 + random.random()))


async def flood(address, connections, seconds):
    done = 0

    async def one(number, connection):
        nonlocal done
        maps = "/api/v1/namespaces/flood/configmaps"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if random.randrange(4):
                await connection.ask("GET", f"{maps}?limit=50")
            else:
                name = f"f-{os.getpid()}-{number}-{done}"
                await connection.ask("POST", maps, {"metadata": {"name": name}, "data": {"k": "v" * 200}})
            done += 1

    opened = [Connection(address, "flood-token") for _ in range(connections)]
    for connection in opened:
        await connection.open()
    print("ready", flush=True)
    await asyncio.gather(*(one(number, connection) for number, connection in enumerate(opened)))
    return done


def users_file(scratch):
    path = os.path.join(scratch, "users.csv")
    with open(path, "w") as file:
        file.write('admin-token,admin,1,"system:masters"\nflood-token,flood,2,"users"\n')
        for number in range(QUIET_USERS):
            file.write(f'quiet-{number}-token,quiet-{number},{number + 3},"users"\n')
    return path


class Sternpost:
    def __init__(self, binary, flags, processors):
        scratch = tempfile.mkdtemp()
        command = [binary, "serve", "--in-memory", "--listen", "127.0.0.1:0"]
        command += ["--token-auth-file", users_file(scratch)]
        command += ["--kubeconfig", os.path.join(scratch, "kubeconfig"), *flags]
        self.processes = [launch(command, processors, stderr=subprocess.PIPE, text=True)]
        for line in self.processes[0].stderr:
            found = re.search(r"ready on https://(\S+)", line)
            if found:
                self.address = found.group(1)
                return
        raise SystemExit("the server did not start")


class Peer:
    def __init__(self, kube_apiserver, etcd, flags, processors):
        scratch = tempfile.mkdtemp()
        store, friends, port = (free_port() for _ in range(3))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        url, friends = f"http://127.0.0.1:{store}", f"http://127.0.0.1:{friends}"
        command = [etcd, "--data-dir", os.path.join(scratch, "etcd"), "--listen-client-urls", url]
        command += ["--advertise-client-urls", url, "--listen-peer-urls", friends]
        command += ["--initial-advertise-peer-urls", friends, "--initial-cluster", f"default={friends}"]
        self.processes = [launch(command, processors, **quiet)]
        key = os.path.join(scratch, "key")
        make_key = ["openssl", "genpkey", "-algorithm", "RSA", "-out", key]
        subprocess.run(make_key, check=True, capture_output=True)
        command = [kube_apiserver, "--etcd-servers", url, "--secure-port", str(port)]
        command += ["--bind-address", "127.0.0.1", "--cert-dir", os.path.join(scratch, "certs")]
        command += ["--token-auth-file", users_file(scratch), "--authorization-mode", "RBAC"]
        command += ["--service-account-key-file", key, "--service-account-signing-key-file", key]
        command += ["--service-account-issuer", "https://kubernetes.default.svc"]
        command += ["--service-cluster-ip-range", "10.0.0.0/24", *flags]
        self.processes.append(launch(command, processors, **quiet))
        self.address = f"127.0.0.1:{port}"
        end = time.monotonic() + 120
        while time.monotonic() < end:
            time.sleep(0.5)
            try:
                if asyncio.run(is_ready(self.address)):
                    return
            except OSError:
                pass
        stop(self)
        raise SystemExit("kube-apiserver did not start")


async def is_ready(address):
    admin = Connection(address, "admin-token")
    await admin.open()
    return await admin.ask("GET", "/readyz") == 200


def launch(command, processors, **options):
    pin = (lambda: os.sched_setaffinity(0, processors)) if processors else None
    return subprocess.Popen(command, preexec_fn=pin, **options)


def stop(server):
    for process in reversed(server.processes):
        process.kill()
        process.wait()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


async def prepare(address):
    admin = Connection(address, "admin-token")
    await admin.open()
    binding = {
        "metadata": {"name": "users"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "users"}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    assert await admin.ask("POST", path, binding) == 201
    assert await admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "flood"}}) == 201
    # What kube-apiserver knows of roles is a moment behind, and so is the namespace `default`.
    for token in ["flood-token"] + [f"quiet-{number}-token" for number in range(QUIET_USERS)]:
        user = Connection(address, token)
        await user.open()
        path = "/api/v1/namespaces/default"
        for _ in range(100):
            if await user.ask("GET", path) == 200:
                break
            await asyncio.sleep(0.1)


async def measure(address, seconds):
    latencies, wrong = [], {}
    await asyncio.gather(*(quiet(address, n, seconds, latencies, wrong) for n in range(QUIET_CONNECTIONS)))
    latencies.sort()
    return latencies, wrong


def run(make, seconds, flags, flooded, pinned):
    """`flooded`: nothing, the same server, or another one."""
    servers = [make(flags, {0} if pinned else None) for _ in range(2 if flooded == "another" else 1)]
    floods = []
    try:
        for server in servers:
            asyncio.run(prepare(server.address))
        if flooded:
            for _ in range(FLOOD_PROCESSES):
                command = [sys.executable, __file__, "--flood", servers[-1].address]
                command += ["--seconds", str(seconds + 3)]
                floods.append(subprocess.Popen(["nice", "-n", "10", *command], stdout=subprocess.PIPE, text=True))
            for process in floods:
                assert process.stdout.readline() == "ready\n"
            time.sleep(1)
        latencies, wrong = asyncio.run(measure(servers[0].address, seconds))
        asked = sum(int(process.communicate()[0]) for process in floods)
        at = lambda part: latencies[min(int(len(latencies) * part), len(latencies) - 1)] * 1000
        return at(0.5), at(0.99), wrong, asked / (seconds + 3)
    finally:
        for process in floods:
            process.kill()
        for server in servers:
            stop(server)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sternpost")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pin", action="store_true", help="servers and clients on different processors")
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.flood:
        connections = FLOOD_CONNECTIONS // FLOOD_PROCESSES
        print(asyncio.run(flood(args.flood, connections, args.seconds)))
        return
    servers = []
    if args.sternpost:
        servers.append(("", lambda flags, processors: Sternpost(args.sternpost, flags, processors)))
    programs = os.environ.get("KUBE_APISERVER"), os.environ.get("ETCD")
    if all(programs):
        servers.append(("kube-apiserver, ", lambda flags, processors: Peer(*programs, flags, processors)))
    if not servers:
        parser.error("--sternpost is required")
    if args.pin:
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {0})
    print("| quiet users | p50 ms | p99 ms | p99 ratio | refused | flood, requests/s |")
    print("|---|--:|--:|--:|---|--:|")
    for server, make in servers:
        rows = [
            ("alone", [], None),
            ("beside a flood of another server", [], "another"),
            ("beside a flood", [], "this"),
            ("beside a flood, flow control off", ["--enable-priority-and-fairness=false"], "this"),
        ]
        results = {}
        for _ in range(args.rounds):
            for name, flags, flooded in rows:
                results.setdefault(name, []).append(run(make, args.seconds, flags, flooded, args.pin))
        middle = lambda name, column: statistics.median(result[column] for result in results[name])
        for name, _, _ in rows:
            refused = {}
            for result in results[name]:
                for code, times in result[2].items():
                    refused[code] = refused.get(code, 0) + times
            print(
                f"| {server}{name} | {middle(name, 0):.2f} | {middle(name, 1):.2f} "
                f"| {middle(name, 1) / middle('alone', 1):.1f} | {refused or 'none'} | {middle(name, 3):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
