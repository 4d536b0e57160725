#!/usr/bin/env python3
"""What extension servers that hang cost everybody else: many remote APIServices, some
of which stop answering, on sternpost and on a kube-apiserver in one run; a Markdown
table.

    aggregation.py --sternpost BINARY [--peer-kubeconfig FILE] [--remotes N] [--hanging N]

The extension servers are one process of this program with a port per group. See
README.md in this folder for what the rows mean. Linux only; needs Python 3.9 and
openssl.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import objects
import serving

REMOTES, HANGING = 100, 10
# Longer than 60 s, so that every poller has met the servers that hang.
CALM_SECONDS, HANGING_SECONDS = 30, 90
PAUSE_SECONDS = 0.002  # between requests: latency, not throughput
AVAILABLE_SECONDS = 120
ANSWER_SECONDS = 120
TARGET = 2  # times the median without any that hang

GROUP = "g{:03d}.bench.example.com"
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
FIELDS = 40  # of the kind that each remote has


def main():
    arguments = parse_arguments()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hanging = multiprocessing.Value("i", 0)
        ports = extension_servers(arguments.remotes, hanging, folder, stack)
        results = []
        fronts = [objects.start(arguments.sternpost, folder / "data", stack).server]
        if arguments.peer_kubeconfig:
            fronts.append(serving.Server("kube-apiserver", arguments.peer_kubeconfig))
        # Whatever became of a second server, the first one's figures are worth showing.
        stack.callback(lambda: results and print(table(results, arguments)))
        for front in fronts:
            register(front, ports, stack)
            wait_available(front, arguments.remotes)
            hanging.value = 0
            calm, calm_stall = measure(front, arguments, arguments.calm_seconds)
            hanging.value = arguments.hanging
            late, late_stall = measure(front, arguments, arguments.hanging_seconds)
            results.append((front, calm, late, (calm_stall, late_stall)))
            hanging.value = 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY", help="a release build")
    parser.add_argument("--peer-kubeconfig", metavar="FILE", help="a kube-apiserver without --enable-aggregator-routing")
    parser.add_argument("--remotes", type=int, default=REMOTES, metavar="N")
    parser.add_argument("--hanging", type=int, default=HANGING, metavar="N")
    parser.add_argument("--calm-seconds", type=int, default=CALM_SECONDS, metavar="N")
    parser.add_argument("--hanging-seconds", type=int, default=HANGING_SECONDS, metavar="N")
    return parser.parse_args()


# The extension servers


def extension_servers(count, hanging, folder, stack):
    """Starts them; the first `hanging` of them do not answer. Returns their ports."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=bench",
                    "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(count, hanging, certificate, key, theirs), daemon=True)
    process.start()
    stack.callback(process.terminate)
    return ours.recv()


def serve(count, hanging, certificate, key, ready):
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def run():
        ports = []
        for number in range(count):
            answers = answers_of(number)

            async def connected(reader, writer, number=number, answers=answers):
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await converse(reader, writer, answers, lambda: number < hanging.value)
                writer.close()

            listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
            ports.append(listening.sockets[0].getsockname()[1])
        ready.send(ports)
        await asyncio.Event().wait()

    asyncio.run(run())


async def converse(reader, writer, answers, hangs):
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        while hangs():
            await asyncio.sleep(0.1)
        path = head.split(b" ", 2)[1].decode().split("?")[0]
        status, body = ("200 OK", answers[path]) if path in answers else ("404 Not Found", b"{}")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


def answers_of(number):
    """By path: discovery, OpenAPI and one object of a group with one kind."""
    group = GROUP.format(number)
    kind = {"kind": "Widget", "group": group, "version": "v1"}
    schema = {"type": "object", "x-kubernetes-group-version-kind": [kind],
              "properties": {f"field{n}": {"type": "string", "description": "One of many fields."} for n in range(FIELDS)}}
    name = f"com.example.bench.g{number:03d}.v1.Widget"
    path = f"/apis/{group}/v1/widgets/{{name}}"

    def operation(reference):
        return {"operationId": f"readWidget{number}", "x-kubernetes-action": "get", "x-kubernetes-group-version-kind": kind,
                "responses": {"200": {"description": "OK", **reference}}}

    v3 = {"openapi": "3.0.0", "info": {"title": group, "version": "1"}, "components": {"schemas": {name: schema}},
          "paths": {path: {"get": operation({"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}})}}}
    v2 = {"swagger": "2.0", "info": {"title": group, "version": "1"}, "definitions": {name: schema},
          "paths": {path: {"get": operation({"schema": {"$ref": f"#/definitions/{name}"}})}}}
    answers = {
        f"/apis/{group}/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/v1", "resources": [
            {"name": "widgets", "singularName": "widget", "namespaced": False, "kind": "Widget", "verbs": ["get", "list"]}]},
        f"/apis/{group}/v1/widgets/one": {"kind": "Widget", "apiVersion": f"{group}/v1", "metadata": {"name": "one"}},
        "/openapi/v3": {"paths": {f"apis/{group}/v1": {"serverRelativeURL": f"/openapi/v3/apis/{group}/v1?hash=ABC{number}"}}},
        f"/openapi/v3/apis/{group}/v1": v3,
        "/openapi/v2": v2,
    }
    return {path: json.dumps(answer).encode() for path, answer in answers.items()}


# The fronts


def register(front, ports, stack):
    connection = front.connect()
    create(connection, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}})
    # A Service of this type needs neither a network of the cluster nor endpoints.
    create(connection, "/api/v1/namespaces/bench/services", {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "widgets", "namespace": "bench"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}})
    stack.callback(deregister, front, len(ports))
    for number, port in enumerate(ports):
        group = GROUP.format(number)
        create(connection, API_SERVICES, {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"v1.{group}"},
            "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
                     "insecureSkipTLSVerify": True, "service": {"namespace": "bench", "name": "widgets", "port": port}}})


def deregister(front, count):
    with contextlib.suppress(OSError, EOFError):
        connection = front.connect()
        for number in range(count):
            send(connection, "DELETE", f"{API_SERVICES}/v1.{GROUP.format(number)}", "")


def create(connection, path, made):
    answer = send(connection, "POST", path, json.dumps(made))
    # What an earlier run left behind would point to ports of the past.
    allowed = (201, 409) if path != API_SERVICES else (201,)
    if answer.status not in allowed:
        sys.exit(f"{path}: {answer.status} {answer.body[:300]!r}")


def send(connection, method, path, body):
    connection.socket.sendall(
        f"{method} {path} HTTP/1.1\r\n{connection.head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection.answer()


def wait_available(front, count):
    """Until all are available, and the root and discovery have them."""
    begin = time.perf_counter()
    connection = front.connect()
    while True:
        root = json.loads(connection.get("/openapi/v3").body)["paths"]
        listed = sum("bench.example.com" in key for key in root)
        fresh = sum(version["freshness"] == "Current" and bool(version.get("resources"))
                    for item in json.loads(connection.get("/apis", AGGREGATED).body)["items"]
                    if "bench.example.com" in item["metadata"]["name"] for version in item["versions"])
        if listed >= count and fresh >= count:
            print(f"{front.name}: {count} remotes after {time.perf_counter() - begin:.1f} s", file=sys.stderr)
            return
        if time.perf_counter() - begin > AVAILABLE_SECONDS:
            sys.exit(f"{front.name}: {listed} in the root and {fresh} discovered of {count} remotes after {AVAILABLE_SECONDS} s")
        time.sleep(0.2)


def measure(front, arguments, seconds):
    """Times by row of requests that take turns for some seconds; and for how long, at worst, the machine kept this
    program itself waiting when it only wanted to wake up."""
    healthy = [GROUP.format(number) for number in range(arguments.hanging, arguments.remotes)]
    rows = {
        "`/openapi/v3`": lambda n: ("/openapi/v3", {}),
        "document of a local version": lambda n: ("/openapi/v3/apis/apps/v1", {}),
        "document of another remote": lambda n: (f"/openapi/v3/apis/{healthy[n % len(healthy)]}/v1", {}),
        "`/apis`, aggregated": lambda n: ("/apis", AGGREGATED),
        "`/apis`": lambda n: ("/apis", {}),
        "`/apis/GROUP/VERSION` of another remote": lambda n: (f"/apis/{healthy[n % len(healthy)]}/v1", {}),
        "get of another remote": lambda n: (f"/apis/{healthy[n % len(healthy)]}/v1/widgets/one", {}),
        "local get": lambda n: ("/api/v1/namespaces/bench", {}),
    }
    times = {row: [] for row in rows}
    connection = front.connect()
    connection.socket.settimeout(ANSWER_SECONDS)
    until, turn, stall = time.perf_counter() + seconds, 0, 0
    while time.perf_counter() < until:
        for row, request in rows.items():
            path, headers = request(turn)
            begin = time.perf_counter()
            serving.expect(connection.get(path, headers), 200)
            end = time.perf_counter()
            times[row].append(end - begin)
            time.sleep(PAUSE_SECONDS)
            stall = max(stall, time.perf_counter() - end - PAUSE_SECONDS)
        turn += 1
    return times, stall


# Output


def table(results, arguments):
    lines = [f"{arguments.remotes} remotes; milliseconds with none hanging → with {arguments.hanging} hanging; "
             f"{arguments.calm_seconds} s and {arguments.hanging_seconds} s.", ""]
    heads, marks = ["| |"], ["|---|"]
    for front, *_ in results:
        heads.append(f" {front.name}: median | ratio | 99 % | worst |")
        marks.append("--:|--:|--:|--:|")
    lines += ["".join(heads), "".join(marks)]
    for row in results[0][1]:
        cells = [row]
        for _, calm, hanging, _ in results:
            before, after = calm[row], hanging[row]
            cells += [f"{median(before)} → {median(after)}", f"{statistics.median(after) / statistics.median(before):.2f}",
                      f"{high(before)} → {high(after)}", f"{max(before) * 1000:.1f} → {max(after) * 1000:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    for front, calm, hanging, stalls in results:
        worst = max(statistics.median(hanging[row]) / statistics.median(calm[row]) for row in calm)
        lines += ["", f"{front.name}: the highest ratio of medians is {worst:.2f}; target: at most {TARGET}. The machine kept "
                      f"this program itself waiting for up to {stalls[0] * 1000:.0f} → {stalls[1] * 1000:.0f} ms."]
    return "\n".join(lines)


def median(times):
    return f"{statistics.median(times) * 1000:.2f}"


def high(times):
    return f"{sorted(times)[int(len(times) * 0.99)] * 1000:.1f}"


if __name__ == "__main__":
    main()
