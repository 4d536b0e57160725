#!/usr/bin/env python3
"""What hostile clients cost everybody else.

    benches/attacks.py --sternpost target/dist/sternpost [--before BINARY] [--seconds 20] [NAME...]

Each attack gets a fresh server. While it runs, another process asks `/readyz` on a new
connection each time, and a second user reads and writes ConfigMaps on a connection that
is kept. The table has, for each attack and server, the slowest `/readyz`, the second user's
p99, how often nobody answered within five seconds, the highest memory of the server above
where it began, how long the attacker waited for an answer, and how long SIGTERM took.

`--before` adds another build of sternpost; with KUBE_APISERVER and ETCD, the paths of these
programs, in the environment the same is done to them. All of it stays on 127.0.0.1, and
every attack ends by itself.
"""

import argparse
import asyncio
import json
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import sys
import time

import flood
from flood import Connection, Peer, Sternpost

GIVE_UP_SECONDS = 5
# Between two questions of the one who looks on.
PAUSE = 0.05
# Longer than any server here takes to stop in order.
STOP_SECONDS = 60
MAPS = "/api/v1/namespaces/default/configmaps"


def labels(count):
    return {f"-bad-{number}-": "!" for number in range(count)}


def owners(count):
    owner = {"apiVersion": "v1", "kind": "ConfigMap"}
    return [{**owner, "name": f"o{number}", "uid": f"u{number}"} for number in range(count)]


def unknown_fields():
    fields = ",".join(f'"{number:x}":0' for number in range(290_000))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return path, ('{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}},' + fields + "}").encode()


def config_map(metadata=None, **fields):
    return MAPS, json.dumps({"metadata": {"name": "hostile", **(metadata or {})}, **fields}).encode()


# name → (how many at once, who asks, path and body)
BODIES = {
    "290,000 unknown fields, twice": (2, "nobody-token", unknown_fields),
    "4,000 ownerReferences": (2, "flood-token", lambda: config_map({"ownerReferences": owners(4_000)})),
    "16,000 invalid finalizers": (
        2, "flood-token", lambda: config_map({"finalizers": [f"-{n}" for n in range(16_000)]})),
    "8,000 invalid labels": (2, "flood-token", lambda: config_map({"labels": labels(8_000)})),
    "16,000 bad ConfigMap keys": (
        2, "flood-token", lambda: config_map(data={f"/{n}": "" for n in range(16_000)})),
    "30,000 bad labels and 30,000 ownerReferences": (
        2, "flood-token", lambda: config_map({"labels": labels(30_000), "ownerReferences": owners(30_000)})),
}


async def post_bodies(server, seconds, at_once, token, make):
    """Sends a body as often at once as is said, and waits for the answers. The time the last one took."""
    path, body = make()

    async def one():
        connection = Connection(server.address, token)
        await connection.open()
        head = (f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
        begun = time.monotonic()
        connection.writer.write(head.encode() + body)
        await connection.writer.drain()
        line = await connection.reader.readuntil(b"\r\n")
        return time.monotonic() - begun, line.split(b" ")[1].decode()

    tasks = [asyncio.create_task(one()) for _ in range(at_once)]
    done, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    if late:
        return f"none in {seconds:.0f} s"
    waited, code = max(task.result() for task in done)
    return f"{code} in {waited:.2f} s"


async def idle_connections(server, seconds):
    """Connections that shake hands and then say nothing."""
    count, opened, refused = 9_000, [], 0
    gate = asyncio.Semaphore(200)

    async def one():
        nonlocal refused
        async with gate:
            connection = Connection(server.address, "")
            try:
                await asyncio.wait_for(connection.open(), GIVE_UP_SECONDS)
                opened.append(connection)
            except (OSError, asyncio.TimeoutError):
                refused += 1

    await asyncio.wait([asyncio.create_task(one()) for _ in range(count)], timeout=seconds)
    left = seconds / 2
    await asyncio.sleep(left)
    closed = sum(connection.reader.at_eof() for connection in opened)
    return f"{len(opened)} open, {refused} refused, {closed} closed again"


def literal(name, value):
    """A header field without indexing or Huffman codes (RFC 7541, 6.2.2)."""

    def text(value):
        value = value.encode()
        if len(value) < 127:
            return bytes([len(value)]) + value
        rest, out = len(value) - 127, [127]
        while rest >= 128:
            out.append(rest % 128 + 128)
            rest //= 128
        return bytes([*out, rest]) + value

    return b"\x00" + text(name) + text(value)


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


async def closed_windows(server, seconds):
    """A hundred streams, each a list of 20 MB as protobuf, of a client that reads nothing."""
    admin = Connection(server.address, "admin-token")
    await admin.open()
    for number in range(40):
        body = {"metadata": {"name": f"big-{number}"}, "data": {"k": "x" * 500_000}}
        assert await admin.ask("POST", "/api/v1/namespaces/flood/configmaps", body) == 201
    server.mark()
    host, port = server.address.rsplit(":", 1)
    tls = flood.ssl.SSLContext(flood.ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, flood.ssl.CERT_NONE
    tls.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    # SETTINGS_INITIAL_WINDOW_SIZE 0: nothing of any body may be sent.
    out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, 0)) + frame(4, 1, 0, b"")
    fields = literal(":method", "GET") + literal(":scheme", "https") + literal(":authority", "x")
    fields += literal(":path", "/api/v1/namespaces/flood/configmaps")
    fields += literal("authorization", "Bearer flood-token")
    fields += literal("accept", "application/vnd.kubernetes.protobuf")
    for stream in range(100):
        out += frame(1, 5, 2 * stream + 1, fields)
    writer.write(out)
    end = time.monotonic() + seconds
    ended = "held to the end"
    try:
        while (left := end - time.monotonic()) > 0:
            header = await asyncio.wait_for(reader.readexactly(9), left)
            size, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
            payload = await asyncio.wait_for(reader.readexactly(size), left)
            if kind == 6 and not flags & 1:  # PING
                writer.write(frame(6, 1, 0, payload))
            elif kind == 7:
                ended = "GOAWAY"
    except asyncio.TimeoutError:
        pass
    except (asyncio.IncompleteReadError, OSError):
        ended = f"cut off after {seconds - (end - time.monotonic()):.0f} s"
    return ended


class Watched:
    """A server whose memory is looked at while it is attacked."""

    def __init__(self, made):
        self.made = made
        self.address = made.address
        self.pid = made.processes[-1].pid
        self.mark()

    def memory(self, field):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024

    def mark(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        self.began = self.memory("VmRSS")

    def grown(self):
        return self.memory("VmHWM") - self.began

    def end(self):
        """How long SIGTERM takes."""
        process = self.made.processes[-1]
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
            return f"{time.monotonic() - begun:.1f} s"
        except subprocess.TimeoutExpired:
            return f"over {STOP_SECONDS} s"


async def look_on(address, seconds):
    """Prints the slowest /readyz, the p99 of a second user, and how often there was no answer."""
    ready, user, lost = [], [], 0
    end = time.monotonic() + seconds

    async def timed(times, ask):
        nonlocal lost
        begun = time.monotonic()
        try:
            await asyncio.wait_for(ask(), GIVE_UP_SECONDS)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            lost += 1
        times.append(time.monotonic() - begun)

    async def readiness():
        while time.monotonic() < end:
            connection = Connection(address, "quiet-0-token")

            async def ask():
                await connection.open()
                await connection.ask("GET", "/readyz")

            await timed(ready, ask)
            if hasattr(connection, "writer"):
                connection.writer.close()
            await asyncio.sleep(PAUSE)

    async def second_user():
        connection = Connection(address, "quiet-1-token")
        await connection.open()
        body = {"metadata": {"name": "calm"}, "data": {"k": "v"}}
        await connection.ask("POST", MAPS, body)
        while time.monotonic() < end:
            await timed(user, lambda: connection.ask("GET", f"{MAPS}/calm"))
            await timed(user, lambda: connection.ask("PUT", f"{MAPS}/calm", body))
            await asyncio.sleep(PAUSE)

    print("ready", flush=True)
    await asyncio.gather(readiness(), second_user())
    user.sort()
    print(json.dumps([max(ready), user[int(len(user) * 0.99)], lost, len(ready) + len(user)]))


def run(make, attack, seconds):
    made = make([], None)
    try:
        asyncio.run(flood.prepare(made.address))
        server = Watched(made)
        command = [sys.executable, __file__, "--look-on", made.address, "--seconds", str(seconds)]
        looker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        looker.stdout.readline()
        answer = asyncio.run(attack(server, seconds))
        found = json.loads(looker.communicate()[0])
        grown = server.grown()
        return (*found, grown, answer, server.end())
    finally:
        flood.stop(made)


def users_file(scratch):
    path = made_users(scratch)
    with open(path, "a") as file:
        file.write("nobody-token,nobody,99\n")
    return path


made_users, flood.users_file = flood.users_file, users_file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sternpost")
    parser.add_argument("--before", metavar="BINARY", help="another build of sternpost, to compare with")
    parser.add_argument("--seconds", type=float, default=20, help="how long each attack may take (default 20)")
    parser.add_argument("--look-on", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of an attack's name; default: all")
    args = parser.parse_args()
    if args.look_on:
        asyncio.run(look_on(args.look_on, args.seconds))
        return
    if not args.sternpost:
        parser.error("--sternpost is required")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attacks = {
        name: lambda server, seconds, body=body: post_bodies(server, seconds, *body) for name, body in BODIES.items()
    }
    attacks["9,000 idle connections without a credential"] = idle_connections
    attacks["100 lists of 20 MB, nothing read"] = closed_windows
    servers = {"sternpost": lambda flags, cpus: Sternpost(args.sternpost, flags, cpus)}
    if args.before:
        servers["before"] = lambda flags, cpus: Sternpost(args.before, flags, cpus)
    programs = os.environ.get("KUBE_APISERVER"), os.environ.get("ETCD")
    if all(programs):
        servers["kube-apiserver"] = lambda flags, cpus: Peer(*programs, flags, cpus)
    print("| attack | server | slowest `/readyz` ms | second user p99 ms | unanswered | memory MB | attacker's answer | SIGTERM |")
    print("|---|---|--:|--:|--:|--:|---|--:|")
    for name, attack in attacks.items():
        if args.names and not any(part in name for part in args.names):
            continue
        for server, make in servers.items():
            ready, user, lost, asked, grown, answer, stopped = run(make, attack, args.seconds)
            print(f"| {name} | {server} | {ready * 1000:.0f} | {user * 1000:.1f} | {lost} of {asked} "
                  f"| +{grown:.0f} | {answer} | {stopped} |", flush=True)


if __name__ == "__main__":
    main()
