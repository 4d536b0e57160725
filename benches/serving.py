#!/usr/bin/env python3
"""Starting, resident memory and OpenAPI documents of sternpost beside those of a
kube-apiserver: one run, one client, a Markdown table.

    serving.py --sternpost BINARY [--peer-kubeconfig FILE [--peer-command COMMAND] [--peer-pid N]]

See README.md in this folder for what the rows mean. Linux only; needs nothing
but Python 3.9.
"""

import argparse
import base64
import contextlib
import glob
import gzip
import json
import os
import pathlib
import platform
import re
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

STARTS = 5  # of sternpost; the peer's number is an option
REQUESTS = 200  # per latency figure
BLOCK = 20  # requests before it is another server's turn
SETTLE_SECONDS = 10  # between readiness and the idle figures
AFTER_SECONDS = 5  # between the last document and the memory figure
READY_SECONDS = 120

PROTOBUF = "application/com.github.proto-openapi.spec.{}@v1.0+protobuf"
FORMS = {
    "JSON": {},
    "gzip": {"Accept-Encoding": "gzip"},
    "protobuf": {"Accept": PROTOBUF},
    "protobuf, gzip": {"Accept": PROTOBUF, "Accept-Encoding": "gzip"},
}
SPELLINGS = {"short": "", "upstream": "?names=upstream"}


def main():
    arguments = parse_arguments()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sternpost, own_starts = start_sternpost(arguments.sternpost, folder, stack)
        peer, peer_starts = find_peer(arguments)

        table = Table(peer is not None)
        table.add("start to ready line, ms", milliseconds([line for line, _ in own_starts]))
        table.add("start to `/readyz`, ms", milliseconds([ready for _, ready in own_starts]), None, milliseconds(peer_starts))

        servers = [sternpost] + ([peer] if peer else [])
        time.sleep(SETTLE_SECONDS)
        idle = [idle_cpu(server) for server in servers]
        table.add("idle CPU, ms per s", idle[0], None, *idle[1:])
        memory_and_sizes(table, sternpost, peer)
        latencies(table, sternpost, peer)

        print(environment(arguments, peer_starts))
        print(table)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY", help="release build to start and measure")
    parser.add_argument("--peer-kubeconfig", metavar="FILE", help="how to reach a kube-apiserver on this machine")
    parser.add_argument("--peer-command", metavar="COMMAND", help="shell command that starts that server and returns")
    parser.add_argument("--peer-starts", type=int, default=1, metavar="N", help="start it that often (default 1)")
    parser.add_argument("--peer-pid", type=int, metavar="N", help="its process, if not the one that has the port")
    arguments = parser.parse_args()
    if arguments.peer_command and not arguments.peer_kubeconfig:
        parser.error("--peer-command needs --peer-kubeconfig")
    return arguments


# Servers


class Server:
    def __init__(self, name, kubeconfig, pid=None):
        self.name = name
        text = pathlib.Path(kubeconfig).read_text()
        url = urlsplit(kubeconfig_value(text, "server"))
        self.address = (url.hostname, url.port or 443)
        self.token = kubeconfig_value(text, "token")
        authority = kubeconfig_value(text, "certificate-authority-data")
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if authority:
            self.tls.load_verify_locations(cadata=base64.b64decode(authority).decode())
        else:
            self.tls.check_hostname = False
            self.tls.verify_mode = ssl.CERT_NONE
        self.pid = pid or listener(self.address[1])

    def connect(self):
        return Connection(self)

    def cpu(self):
        """CPU seconds of the whole process, user and system, also of threads that ended."""
        # What clock_getcpuclockid(3) returns: the 10 ms ticks of /proc are too coarse.
        return time.clock_gettime_ns((~self.pid << 3) | 2) / 1e9

    def memory(self, field):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024


def kubeconfig_value(text, key):
    """The first `key: value`; enough for a file with one cluster and one user with a token."""
    found = re.search(rf'^[\s-]*"?{key}"?:\s*"?([^"\s,]+)"?,?\s*$', text, re.MULTILINE)
    return found and found[1]


def listener(port):
    """The process that listens on a port."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and int(columns[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(f"socket:[{columns[9]}]")
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) in inodes:
                return int(link.split("/")[2])
    sys.exit(f"no process of this machine listens on port {port}")


def start_sternpost(binary, folder, stack):
    """Starts it STARTS times on fresh state and leaves the last one running."""
    starts = []
    for number in range(STARTS):
        kubeconfig = folder / f"kubeconfig-{number}"
        command = [binary, "serve", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig)]
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        stack.callback(stop, process)
        line = process.stderr.readline().decode()
        ready_line = time.perf_counter() - begin
        if "is ready on" not in line:
            sys.exit(f"sternpost did not start: {line}")
        server = Server("sternpost", kubeconfig, process.pid)
        expect(server.connect().get("/readyz"), 200)
        starts.append((ready_line, time.perf_counter() - begin))
        if number < STARTS - 1:
            stop(process)
    return server, starts


def stop(process):
    process.terminate()
    process.wait()
    process.stderr.close()


def find_peer(arguments):
    """The peer, running, and how long each start of it took."""
    if not arguments.peer_kubeconfig:
        return None, []
    starts = []
    for number in range(arguments.peer_starts if arguments.peer_command else 0):
        if number:
            end(Server("peer", arguments.peer_kubeconfig).pid)
        begin = time.perf_counter()
        command = subprocess.Popen(arguments.peer_command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while not is_ready(arguments.peer_kubeconfig):
            if time.perf_counter() - begin > READY_SECONDS:
                sys.exit(f"the peer was not ready in {READY_SECONDS} s")
            time.sleep(0.01)
        starts.append(time.perf_counter() - begin)
        if command.wait():
            sys.exit(f"the peer's command ended with code {command.returncode}")
    return Server("kube-apiserver", arguments.peer_kubeconfig, arguments.peer_pid), starts


def is_ready(kubeconfig):
    try:
        return Server("peer", kubeconfig, pid=os.getpid()).connect().get("/readyz").status == 200
    except (OSError, EOFError):
        return False


def end(pid):
    os.kill(pid, signal.SIGTERM)
    # A zombie has ended as well; whoever started it may never ask.
    with contextlib.suppress(FileNotFoundError):
        while pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            time.sleep(0.05)


# One keep-alive connection. Not http.client, whose own work would be most of a
# small answer's time.


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


class Connection:
    def __init__(self, server):
        plain = socket.create_connection(server.address)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = server.tls.wrap_socket(plain, server_hostname=server.address[0])
        self.head = f"Host: {server.address[0]}:{server.address[1]}\r\nAuthorization: Bearer {server.token}\r\n"
        self.buffer = bytearray()

    def get(self, path, headers=None):
        extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{self.head}{extra}\r\n".encode())
        return self.answer()

    def answer(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split()[1])
        if headers.get("transfer-encoding") == "chunked":
            body = bytearray()
            while size := int(self.until(b"\r\n"), 16):
                body += self.exactly(size)
                self.exactly(2)
            self.exactly(2)
        else:
            body = self.exactly(0 if status == 304 else int(headers["content-length"]))
        return Answer(status, headers, bytes(body))

    def until(self, mark):
        while (end := self.buffer.find(mark)) < 0:
            self.fill()
        found = bytes(self.buffer[:end])
        del self.buffer[: end + len(mark)]
        return found

    def exactly(self, size):
        while len(self.buffer) < size:
            self.fill()
        found = self.buffer[:size]
        del self.buffer[:size]
        return found

    def fill(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError("the server closed the connection")
        self.buffer += data


def expect(answer, status):
    if answer.status != status:
        sys.exit(f"status {answer.status} instead of {status}: {answer.body[:200]!r}")
    return answer


# Measurements


def idle_cpu(server, seconds=5):
    before = server.cpu()
    time.sleep(seconds)
    return f"{(server.cpu() - before) * 1000 / seconds:.1f}"


def memory_and_sizes(table, sternpost, peer):
    servers = [server for server in (sternpost, peer) if server]
    idle = [server.memory("VmRSS") for server in servers]
    table.add("resident memory idle, MB", megabytes(idle[0]), None, *map(megabytes, idle[1:]))

    # The default spelling first: the other one is an extra that the peer lacks.
    own, peers = read_all(sternpost, "short"), peer and read_all(peer, "short")
    time.sleep(AFTER_SECONDS)
    default_memory = [server.memory("VmRSS") for server in servers]
    upstream = read_all(sternpost, "upstream", groups=True)
    time.sleep(AFTER_SECONDS)
    table.add("resident memory after every document in every form, MB", megabytes(default_memory[0]), None,
              *map(megabytes, default_memory[1:]))
    table.add("the same after both spellings and the group unions, MB", megabytes(sternpost.memory("VmRSS")))
    peak = [server.memory("VmHWM") for server in servers]
    table.add("peak of resident memory until then, MB", megabytes(peak[0]), None, *map(megabytes, peak[1:]))
    table.add("CPU for every document in every form, first time, s", *(f"{r.cpu:.2f}" for r in (own, upstream)),
              peers and f"{peers.cpu:.2f}")

    readings = [own, upstream, peers]
    table.add("v3 documents", *(r and str(r.documents) for r in readings))
    for form, label in (("JSON", "JSON"), ("gzip", "JSON with gzip"), ("protobuf", "protobuf"),
                        ("protobuf, gzip", "protobuf with gzip")):
        table.add(f"all v3 documents, {label}, kB", *(r and kilobytes(r.v3.get(form)) for r in readings))
    table.add("all v3 documents, JSON through `gzip -6`, kB", *(r and kilobytes(r.compressed) for r in readings))
    table.add("all v3 documents, JSON without descriptions, kB", *(r and kilobytes(r.bare) for r in readings))
    table.add("`api/v1` document, JSON, kB", *(r and kilobytes(r.core) for r in readings))
    for form, label in (("JSON", "JSON"), ("gzip", "JSON with gzip"), ("protobuf", "protobuf"),
                        ("protobuf, gzip", "protobuf with gzip")):
        table.add(f"v2 document, {label}, kB", kilobytes(own.v2.get(form)), None, peers and kilobytes(peers.v2.get(form)))


class Reading:
    """Every document of one spelling in every form that the server has."""

    def __init__(self):
        self.documents = self.compressed = self.bare = self.core = 0
        self.v3, self.v2 = {}, {}
        self.cpu = 0.0


def read_all(server, spelling, groups=False):
    reading, before = Reading(), server.cpu()
    connection = server.connect()
    paths = json.loads(expect(connection.get("/openapi/v3" + SPELLINGS[spelling]), 200).body)["paths"]
    reading.documents = len(paths)
    urls = {key: path["serverRelativeURL"] for key, path in paths.items()}
    bodies = {}
    for form, headers in FORMS.items():
        sizes = []
        for key, url in urls.items():
            answer = get_form(connection, url, headers, "v3")
            sizes.append(len(answer.body))
            if form == "JSON":
                bodies[key] = answer.body
        # Small documents may come without gzip and count as they are served. If
        # the largest does, the server has no gzip.
        if has_form(get_form(connection, urls["api/v1"], headers, "v3"), headers):
            reading.v3[form] = sum(sizes)
        if spelling == "short":
            v2 = get_form(connection, "/openapi/v2", headers, "v2")
            if has_form(v2, headers):
                reading.v2[form] = len(v2.body)
    if groups:
        read_groups(connection, urls)
    reading.cpu = server.cpu() - before
    reading.core = len(bodies["api/v1"])
    reading.bare = sum(len(json.dumps(bare(json.loads(body)), separators=(",", ":"))) for body in bodies.values())
    reading.compressed = sum(len(gzip.compress(body, 6)) for body in bodies.values())
    return reading


def bare(value):
    """Without prose: sternpost words its parameters' descriptions shorter than upstream."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if not (k == "description" and isinstance(v, str))}
    return value


def get_form(connection, url, headers, version):
    filled = {name: value.format(version) for name, value in headers.items()}
    answer = expect(connection.get(url, filled), 200)
    if "Accept" in headers and "protobuf" not in answer.headers["content-type"]:
        sys.exit(f"{url}: asked for protobuf, got {answer.headers['content-type']}")
    return answer


def has_form(answer, headers):
    return "Accept-Encoding" not in headers or answer.headers.get("content-encoding") == "gzip"


def read_groups(connection, urls):
    """The union documents of whole groups, which only sternpost has, in both spellings."""
    names = {key.split("/")[1] for key in urls if key.startswith("apis/") and key.count("/") == 2}
    for name in sorted(names):
        for query in SPELLINGS.values():
            for headers in FORMS.values():
                get_form(connection, f"/apis/{name}/openapi/v3{query}", headers, "v3")


def latencies(table, sternpost, peer):
    subjects = [Subject(sternpost, spelling) for spelling in SPELLINGS] + ([Subject(peer, "short")] if peer else [])
    for label, target, headers, status in (
        ("root", "root", {}, 200),
        ("root, If-None-Match", "root", "etag", 304),
        ("`api/v1` document", "document", {}, 200),
        ("`api/v1` document, gzip accepted", "document", {"Accept-Encoding": "gzip"}, 200),
        ("`api/v1` document, If-None-Match", "document", "etag", 304),
    ):
        for _ in range(REQUESTS // BLOCK):
            for subject in subjects:
                subject.block(label, target, headers, status)
        table.add(f"{label}: latency, µs", *(s.latency(label) for s in subjects))
        table.add(f"{label}: server CPU, µs", *(s.cpu_each(label) for s in subjects))


class Subject:
    """A server, one spelling and one connection to it."""

    def __init__(self, server, spelling):
        self.server, self.connection = server, server.connect()
        self.urls = {"root": "/openapi/v3" + SPELLINGS[spelling]}
        paths = json.loads(self.connection.get(self.urls["root"]).body)["paths"]
        self.urls["document"] = paths["api/v1"]["serverRelativeURL"]
        self.etags = {target: self.connection.get(url).headers.get("etag") for target, url in self.urls.items()}
        self.times, self.cpu = {}, {}

    def block(self, label, target, headers, status):
        url = self.urls[target]
        if headers == "etag":
            if not self.etags[target]:
                return  # nothing to ask with: kube-apiserver's root has no ETag
            headers = {"If-None-Match": self.etags[target]}
        times, before = self.times.setdefault(label, []), self.server.cpu()
        for _ in range(BLOCK):
            begin = time.perf_counter()
            answer = self.connection.get(url, headers)
            times.append(time.perf_counter() - begin)
            expect(answer, status)
        self.cpu[label] = self.cpu.get(label, 0.0) + self.server.cpu() - before

    def latency(self, label):
        return f"{statistics.median(self.times[label]) * 1e6:.0f}" if label in self.times else None

    def cpu_each(self, label):
        return f"{self.cpu[label] / REQUESTS * 1e6:.0f}" if label in self.cpu else None


# Output


class Table:
    def __init__(self, with_peer):
        self.rows, self.with_peer = [], with_peer

    def add(self, label, short, upstream=None, peer=None):
        self.rows.append((label, short, upstream, peer))
        print(f"measured: {label}", file=sys.stderr)

    def __str__(self):
        lines = ["| | sternpost | sternpost, `names=upstream` | kube-apiserver | kube-apiserver / sternpost |",
                 "|---|--:|--:|--:|--:|"]
        if not self.with_peer:
            lines = ["| | sternpost | sternpost, `names=upstream` |", "|---|--:|--:|"]
        for label, *values in self.rows:
            short, upstream, peer = values
            cells = [label, short or "-", upstream or "-"]
            if self.with_peer:
                cells += [peer or "-", ratio(peer, short or upstream)]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


def ratio(peer, own):
    try:
        value = float(peer) / float(own)
    except (TypeError, ZeroDivisionError):
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def milliseconds(times):
    return f"{statistics.median(times) * 1000:.0f}" if times else None


def megabytes(size):
    return f"{size / 1e6:.1f}"


def kilobytes(size):
    return f"{size / 1e3:.0f}" if size else None


def environment(arguments, peer_starts):
    version = subprocess.run([arguments.sternpost, "version"], capture_output=True, text=True, check=True).stdout
    starts = f"{STARTS} starts of sternpost" + (f", {len(peer_starts)} of the peer" if peer_starts else "")
    return "\n".join([
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release().split('-')[0]}, "
        f"load {os.getloadavg()[0]:.1f}; {' '.join(version.split())}.",
        f"Medians of {starts} and of {REQUESTS} requests over one TLS connection, "
        f"in turns of {BLOCK}; CPU is the mean. MB = 10^6 bytes.\n",
    ])


if __name__ == "__main__":
    main()
