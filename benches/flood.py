#!/usr/bin/env python3
"""What one user who floods the server costs the others.

    benches/flood.py --sternpost target/release/sternpost [--seconds 15]

500 connections: 100 of ten quiet users, who read, list, create, patch and delete at a
steady pace, and 400 of one user who lists and creates as fast as he is answered. The
latency of the quiet ones is measured three times: alone, beside the flood, and beside
the flood with flow control off. Clients of the flood run at a lower priority than the
server and than the quiet ones, since all share one machine.
"""

import argparse
import asyncio
import json
import os
import random
import re
import ssl
import subprocess
import sys
import tempfile
import time

QUIET_USERS = 10
QUIET_CONNECTIONS = 100
FLOOD_CONNECTIONS = 400
FLOOD_PROCESSES = 4
# Between two requests of a quiet connection.
PAUSE = 0.5


class Connection:
    """One TLS connection with keep-alive."""

    def __init__(self, address, token):
        self.address = address
        self.token = token

    async def open(self):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        host, port = self.address.rsplit(":", 1)
        self.reader, self.writer = await asyncio.open_connection(host, int(port), ssl=context)

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

    async def one(number):
        nonlocal done
        connection = Connection(address, "flood-token")
        await connection.open()
        maps = "/api/v1/namespaces/flood/configmaps"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if random.randrange(4):
                await connection.ask("GET", f"{maps}?limit=50")
            else:
                name = f"f-{os.getpid()}-{number}-{done}"
                await connection.ask("POST", maps, {"metadata": {"name": name}, "data": {"k": "v" * 200}})
            done += 1

    await asyncio.gather(*(one(number) for number in range(connections)))
    return done


def start(binary, flags):
    scratch = tempfile.mkdtemp()
    users = os.path.join(scratch, "users.csv")
    with open(users, "w") as file:
        file.write('admin-token,admin,,"system:masters"\nflood-token,flood,,"users"\n')
        for number in range(QUIET_USERS):
            file.write(f'quiet-{number}-token,quiet-{number},,"users"\n')
    command = [binary, "serve", "--in-memory", "--listen", "127.0.0.1:0", "--token-auth-file", users]
    command += ["--kubeconfig", os.path.join(scratch, "kubeconfig"), *flags]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        found = re.search(r"ready on https://(\S+)", line)
        if found:
            return server, found.group(1)
    raise SystemExit("the server did not start")


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


async def measure(address, seconds):
    latencies, wrong = [], {}
    await asyncio.gather(*(quiet(address, n, seconds, latencies, wrong) for n in range(QUIET_CONNECTIONS)))
    latencies.sort()
    return latencies, wrong


def run(binary, seconds, flags, flooded):
    server, address = start(binary, flags)
    try:
        asyncio.run(prepare(address))
        floods = []
        if flooded:
            for _ in range(FLOOD_PROCESSES):
                command = [sys.executable, __file__, "--flood", address, "--seconds", str(seconds + 4)]
                floods.append(subprocess.Popen(["nice", "-n", "10", *command], stdout=subprocess.PIPE, text=True))
            time.sleep(3)
        latencies, wrong = asyncio.run(measure(address, seconds))
        asked = sum(int(process.communicate()[0]) for process in floods)
        return latencies, wrong, asked / (seconds + 4)
    finally:
        server.kill()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sternpost")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.flood:
        connections = FLOOD_CONNECTIONS // FLOOD_PROCESSES
        print(asyncio.run(flood(args.flood, connections, args.seconds)))
        return
    if not args.sternpost:
        parser.error("--sternpost is required")
    print("| quiet users | requests | p50 ms | p99 ms | p99 ratio | refused | flood, requests/s |")
    print("|---|--:|--:|--:|--:|---|--:|")
    alone = None
    for name, flags, flooded in [
        ("alone", [], False),
        ("beside a flood", [], True),
        ("beside a flood, flow control off", ["--enable-priority-and-fairness=false"], True),
    ]:
        latencies, wrong, rate = run(args.sternpost, args.seconds, flags, flooded)
        at = lambda part: latencies[min(int(len(latencies) * part), len(latencies) - 1)] * 1000
        alone = alone or at(0.99)
        print(
            f"| {name} | {len(latencies)} | {at(0.5):.2f} | {at(0.99):.2f} | {at(0.99) / alone:.1f} "
            f"| {wrong or 'none'} | {rate:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
