#!/usr/bin/env python3
"""Records which series of /metrics a request adds to, by asking kube-apiserver.

    record.py --server URL --token TOKEN [--check] requests.jsonl

Every line is a request: name, method, path, and if need be headers, body, token ("" for none) and
  spaces  how many are sent instead of a body
  setup   true: sent once, and answered before the next is sent; nothing is recorded of it
  held    true: it lasts until its client goes; what is recorded is what it adds to meanwhile
  expect  the series that grow by one with each such request, sorted

kube-apiserver asks itself things all the time. So each request is sent COPIES times, with {i} in path
and body counting, and what grows by as much is what it adds to.
"""
import argparse
import http.client
import json
import ssl
import sys
import time
import urllib.parse

COPIES = 7
FAMILIES = (
    "apiserver_request_total{",
    "apiserver_request_duration_seconds_count{",
    "apiserver_request_sli_duration_seconds_count{",
    "apiserver_response_sizes_count{",
)
# Of these it asks itself most, and the question for /metrics is one: what grows by as much or a little more.
ATTEMPTS = ("authentication_attempts{", "authorization_attempts_total{")
HELD_FAMILIES = ("apiserver_longrunning_requests{",)
# Long enough for what is counted behind an answer; a hang-guard for what is waited for.
SETTLE_SECONDS = 0.3
READY_SECONDS = 60


class Server:
    def __init__(self, url, token):
        self.host = urllib.parse.urlsplit(url).netloc
        self.token = token

    def open(self, step, copy):
        token = step.get("token", self.token)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers.update({"Authorization": "Bearer " + token} if token else {})
        headers.update(step.get("headers", {}))
        body = json.dumps(step["body"]).replace("{i}", str(copy)) if "body" in step else " " * step.get("spaces", 0)
        connection = http.client.HTTPSConnection(self.host, context=ssl._create_unverified_context(), timeout=60)
        connection.request(step["method"], step["path"].replace("{i}", str(copy)), body or None, headers)
        return connection, connection.getresponse()

    def send(self, step, copy=0):
        connection, response = self.open(step, copy)
        body = response.read()
        connection.close()
        return response.status, body

    def series(self, families):
        _, text = self.send({"method": "GET", "path": "/metrics", "headers": {"Accept": "text/plain"}})
        found = {}
        for line in text.decode().splitlines():
            if line.startswith(families):
                name, value = line.rsplit(" ", 1)
                found[name] = float(value)
        return found


def added(server, step):
    """The series that each copy of a request adds one to."""
    is_held = step.get("held", False)
    families = HELD_FAMILIES if is_held else FAMILIES + ATTEMPTS
    before = server.series(families)
    held = []
    for copy in range(COPIES):
        if is_held:
            held.append(server.open(step, copy))
        else:
            server.send(step, copy)
    time.sleep(SETTLE_SECONDS)
    after = server.series(families)
    for connection, response in held:
        response.close()
        connection.close()

    def is_added_to(name):
        grown = after[name] - before.get(name, 0)
        return COPIES <= grown < 2 * COPIES if name.startswith(ATTEMPTS) else grown == COPIES

    return sorted(filter(is_added_to, after))


def set_up(server, step):
    end = time.monotonic() + READY_SECONDS
    while server.send(step)[0] >= 400:
        if time.monotonic() > end:
            raise SystemExit("%s: is not answered" % step["name"])
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("file")
    options = parser.parse_args()
    server = Server(options.server, options.token)
    with open(options.file) as lines:
        steps = [json.loads(line) for line in lines]
    differences = 0
    for step in steps:
        if step.get("setup"):
            set_up(server, step)
            continue
        found = added(server, step)
        if step.get("expect") != found:
            differences += 1
            if options.check:
                print("%s: %s" % (step["name"], found))
        step["expect"] = found
    if not options.check:
        with open(options.file, "w") as out:
            out.writelines(json.dumps(step) + "\n" for step in steps)
    print("%d requests, %d with differences" % (len(steps), differences))
    sys.exit(1 if options.check and differences else 0)


main()
