#!/usr/bin/env python3
"""Records the corpus, or checks a server against it.

    record.py --server URL --token TOKEN [--check] [--pause SECONDS] FILE.jsonl ...

Every file is a scenario: one step per line, in order. Without --check the
answers of the server replace what the steps expect: it should be a fresh
kube-apiserver 1.36.4 with a fresh etcd, default admission plugins but without
ServiceAccount (no controller makes the accounts; admission_service_account* are
recorded with it, and admission_optional with the plugins that tests/corpus.rs
names), and no controllers. With
--check its answers are compared, which also shows whether a step is steady:
what Go takes from a map comes in a new order every time.
The users of authorization_* are those of users.csv (--token-auth-file), and it
authorizes by RBAC; other scenarios have the token that is given, of an admin.
Admission plugins of kube-apiserver and its authorizer read caches that follow: the
scenarios named admission_* and authorization_* want --pause 0.15. So do its handlers of custom resources: custom_*
and definitions_* want --settle 0.7, a pause behind every write of a definition and
every wait. Policies are noticed later still: *_policies* and admission_mutations* want
--pause 0.1 --settle 1.2.

A step is an object with
  name      what it shows
  method    and path (with query); `${x}` stands for a captured value
  headers   of the request, if any
  body      a JSON value, or a string that is sent as it is
  base64    a body of bytes, instead
  capture   {"x": "/pointer/into/the/answer"} for later steps
  ignore    [{"at": "/body/pointer/with/*", "why": "..."}]: not compared
  compare   "text": YAML is compared to the byte, but for what is masked;
            "sha256": nothing is masked
  keep      {"/pointer": {...}}: of the list there, only what matches is looked at
  sorted    {"/pointer": "key"}: the list there comes in any order
  pause     seconds to let pass before, for what depends on whether a second has
            passed since
  until     {"code": 200, "body": {...}}, instead of expect: the step is repeated
            until the answer matches, and nothing is compared. For what a server
            does later; see `matches`
  expect    {"code", "headers", "body" or "events" or "text", "pretty"}; bodies in
            YAML and protobuf are not compared
  ours      {"why": "...", "expect": ...} where sternpost answers differently on
            purpose; only tests/corpus.rs looks at it. What upstream has no symbol
            for is called <version ours 1>, <uid ours 1> and so on

Scenarios named change_* or *_owners are about who owns which field; elsewhere
managedFields are left out, also of objects that a text quotes. Of objects with
several owners they come in an order that depends on the second.

tests/corpus.rs masks and compares in the same way; change both together.
"""
import argparse
import base64
import copy
import hashlib
import http.client
import json
import re
import ssl
import sys
import time
import urllib.parse

HEADERS = ("allow", "content-type", "location", "retry-after", "warning")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
NUMBER = re.compile(r"(?<![0-9A-Za-z])\d+(?![0-9A-Za-z])")
GENERATED = "[bcdfghjklmnpqrstvwxz2456789]{5}"
# Seconds for what a server does later.
STEP_SECONDS = 40
RETRIES = 8
AGE = re.compile(r"^(\d+[smhdy])+$|^<invalid>$")


def without_owners(text):
    """An object that is quoted, as the others without managedFields."""
    key = '\\"managedFields\\":['
    while key in text:
        start = text.index(key)
        end, depth = start + len(key), 1
        while depth and end < len(text):
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            end += 1
        before, behind = text[:start], text[end:]
        text = before + behind[1:] if behind.startswith(",") else before.rstrip(",") + behind
    return text


class Scenario:
    """What is remembered from step to step."""

    def __init__(self, owners):
        self.owners = owners
        self.captured = {}
        self.symbols = {}
        self.sent = ""
        self.bases = []

    def copy(self):
        return copy.deepcopy(self)

    def fill(self, text):
        for name, value in self.captured.items():
            text = text.replace("${%s}" % name, value)
        return text

    def symbol(self, kind, value):
        known = self.symbols.setdefault(kind, {})
        return "<%s %d>" % (kind, known.setdefault(value, len(known) + 1))

    def mask_text(self, text):
        for base in self.bases:
            text = re.sub(re.escape(base) + GENERATED, lambda m: base + "<generated>", text)
        for name, value in self.captured.items():
            if len(value) > 5 and not value.isdigit():
                text = text.replace(value, "${%s}" % name)
        text = UID.sub(lambda m: m[0] if m[0] in self.sent else self.symbol("uid", m[0]), text)
        text = TIME.sub(lambda m: m[0] if m[0] in self.sent else "<time>", text)
        if not self.owners:
            text = without_owners(text)
        if "esource version" in text or "esourceVersion" in text:
            text = NUMBER.sub("<n>", text)
        return text

    def mask_yaml(self, text):
        lines, skipped = [], None
        for line in text.split("\n"):
            indent = len(line) - len(line.lstrip(" "))
            if skipped is not None and (indent > skipped or line.startswith(" " * skipped + "- ")):
                continue
            skipped = indent if line.strip() == "managedFields:" else None
            if skipped is not None:
                continue
            line = re.sub(r'resourceVersion: "\d+"$', 'resourceVersion: "<version>"', line)
            line = re.sub(r"continue: \S+$", "continue: <continue>", line)
            line = UID.sub(lambda m: m[0] if m[0] in self.sent else "<uid>", line)
            lines.append(TIME.sub(lambda m: m[0] if m[0] in self.sent else "<time>", line))
        return "\n".join(lines)

    def mask(self, value):
        """Keys in order, so that symbols are numbered alike everywhere."""
        if isinstance(value, dict):
            return {
                key: self.mask_field(value, key) for key in sorted(value) if key != "managedFields" or self.owners
            }
        if isinstance(value, list):
            return [self.mask(item) for item in value]
        if isinstance(value, str):
            return self.mask_text(value)
        return value

    def mask_field(self, owner, key):
        value = owner[key]
        if key == "metadata" and isinstance(value, dict):
            return self.mask_metadata(owner, value)
        if key == "managedFields" and isinstance(value, list):
            # Their order follows the second in which a step ran.
            who = lambda entry: [entry.get(k, "") for k in ("operation", "manager", "apiVersion", "subresource")]
            return [self.mask(entry) for entry in sorted(value, key=who)]
        if key == "causes" and any(cause.get("reason") == "FieldManagerConflict" for cause in value):
            # Upstream takes the managers from a map.
            return sorted(value, key=lambda cause: (cause["field"], cause["message"]))
        if key == "cells" and isinstance(value, list):
            return ["<age>" if isinstance(c, str) and AGE.match(c) else self.mask(c) for c in value]
        if key == "columnDefinitions" and isinstance(value, list):
            # Prose is each server's own.
            return [dict(column, description="<prose>") for column in value]
        return self.mask(value)

    def mask_metadata(self, owner, metadata):
        masked = self.mask({k: v for k, v in metadata.items() if k not in ("resourceVersion", "continue", "name")})
        collection = "items" in owner or "rows" in owner or str(owner.get("kind", "")).endswith(("List", "Table"))
        bookmark = "name" not in metadata
        if "resourceVersion" in metadata:
            version = metadata["resourceVersion"]
            masked["resourceVersion"] = "<version>" if collection or bookmark else self.symbol("version", version)
        if metadata.get("continue"):
            masked["continue"] = "<continue>"
        if "name" in metadata:
            masked["name"] = self.mask_text(metadata["name"])
        return masked


def pointer(value, path):
    for part in path.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def drop(value, parts):
    head, rest = parts[0].replace("~1", "/").replace("~0", "~"), parts[1:]
    keys = range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else ()
    for key in keys:
        if head not in ("*", str(key)):
            continue
        if rest:
            drop(value[key], rest)
        elif isinstance(value, dict):
            del value[key]


def matches(pattern, value):
    """Null is what is missing; a list has something for each that is asked."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(matches(p, value.get(key)) for key, p in pattern.items())
    if isinstance(pattern, list):
        return isinstance(value, list) and all(any(matches(p, v) for v in value) for p in pattern)
    return pattern == value


def keep(step, value):
    for path, pattern in step.get("keep", {}).items():
        found = pointer(value, path)
        found[:] = [item for item in found if matches(pattern, item)]
    for path, key in step.get("sorted", {}).items():
        pointer(value, path).sort(key=lambda item: item[key])


def waited(scenario, step, connect, token):
    """Whether it came about."""
    end = time.monotonic() + STEP_SECONDS
    while True:
        # Nothing that is seen on the way counts.
        got = answer(scenario.copy(), step, connect(), token)
        if matches(step["until"], got):
            return True
        if time.monotonic() > end:
            print("%s: still %s" % (step["name"], json.dumps(got)), file=sys.stderr)
            return False
        time.sleep(0.1)


def answer(scenario, step, connection, token):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json"}
    headers.update({k: scenario.fill(v) for k, v in step.get("headers", {}).items()})
    headers = {k: v for k, v in headers.items() if v}
    body = step.get("body")
    if "base64" in step:
        body = base64.b64decode(step["base64"])
    elif body is not None:
        text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"), sort_keys=True)
        # What a client sends is not masked when it comes back.
        scenario.sent += text
        metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
        if isinstance(metadata, dict) and metadata.get("generateName") and "name" not in metadata:
            scenario.bases.append(metadata["generateName"][:58])
        body = scenario.fill(text).encode()
    connection.request(step["method"], scenario.fill(step["path"]), body, headers)
    response = connection.getresponse()
    raw = response.read()
    got = {"code": response.status}
    kept = {}
    for name in HEADERS:
        values = response.headers.get_all(name)
        if values:
            kept[name] = [scenario.mask_text(value) for value in values]
    if kept:
        got["headers"] = kept
    kind = response.headers.get("content-type", "")
    if not raw:
        return got
    if step.get("compare") == "sha256":
        got["sha256"] = hashlib.sha256(raw).hexdigest()
        return got
    if "yaml" in kind and step.get("compare") == "text":
        got["text"] = scenario.mask_yaml(raw.decode())
        return got
    if "protobuf" in kind or "yaml" in kind:
        return got
    if "json" not in kind:
        got["text"] = scenario.mask_text(raw.decode())
        return got
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(step["path"]).query, keep_blank_values=True)
    watch = any(value != "0" and value.lower() != "false" for value in query.get("watch", []))
    if (watch or "/watch/" in step["path"]) and response.status == 200:
        events = [json.loads(line) for line in raw.decode().splitlines() if line]
        capture(scenario, step, events)
        got["events"] = [scenario.mask(event) for event in events]
        return got
    value = json.loads(raw)
    if raw.startswith(b"{\n"):
        got["pretty"] = True
    capture(scenario, step, value)
    if response.status < 300:
        keep(step, value)
    got["body"] = scenario.mask(value)
    return got


def capture(scenario, step, value):
    for name, path in step.get("capture", {}).items():
        scenario.captured[name] = str(pointer(value, path))


def differences(path, expected, got):
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted(set(expected) | set(got)):
            if key not in got:
                yield "%s/%s: missing, expected %s" % (path, key, json.dumps(expected[key]))
            elif key not in expected:
                yield "%s/%s: unexpected %s" % (path, key, json.dumps(got[key]))
            else:
                yield from differences(path + "/" + key, expected[key], got[key])
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (e, g) in enumerate(zip(expected, got)):
            yield from differences("%s/%d" % (path, index), e, g)
    elif expected != got or type(expected) is not type(got):
        yield "%s:\n      expected %s\n      got      %s" % (path, json.dumps(expected), json.dumps(got))


def is_settling(step):
    return "until" in step or ("/customresourcedefinitions" in step["path"] and step["method"] != "GET")


def run(path, server, token, check, pause, settle):
    with open(path) as file:
        steps = [json.loads(line) for line in file if line.strip()]
    url = urllib.parse.urlsplit(server)
    context = ssl._create_unverified_context()
    name = path.rsplit("/", 1)[-1].removesuffix(".jsonl")
    scenario, bad = Scenario(name.startswith("change_") or name.endswith("_owners")), 0
    connect = lambda: http.client.HTTPSConnection(url.hostname, url.port, context=context, timeout=20)
    for step in steps:
        if "until" in step:
            if not waited(scenario, step, connect, token):
                print("%s: %s: waited in vain" % (name, step["name"]))
                bad += 1
            time.sleep(settle)
            continue
        time.sleep(step.get("pause", 0))
        connection = connect()
        try:
            got = answer(scenario, step, connection, token)
            for _ in range(RETRIES if settle else 0):
                # The handler of a definition that has just changed.
                if got["code"] != 429:
                    break
                time.sleep(settle)
                connection.close()
                got = answer(scenario, step, connection, token)
        except http.client.RemoteDisconnected:
            got = {"error": "the connection was closed"}
        except OSError as error:
            got = {"error": repr(error)}
            print("%s: %s: %r" % (path, step["name"], error), file=sys.stderr)
        connection.close()
        time.sleep(settle if is_settling(step) else pause)
        for ignored in step.get("ignore", []):
            drop(got, ignored["at"].split("/")[1:])
            drop(step.get("expect", {}), ignored["at"].split("/")[1:])
        if not check:
            step["expect"] = got
            continue
        found = list(differences("", step["expect"], got))
        if found:
            bad += 1
            print("%s: %s (%s %s)" % (path.rsplit("/", 1)[-1], step["name"], step["method"], step["path"]))
            for line in found:
                print("   " + line)
    if not check:
        with open(path, "w") as file:
            for step in steps:
                file.write(json.dumps(step, ensure_ascii=False) + "\n")
    return len(steps), bad


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--pause", type=float, default=0)
    arguments.add_argument("--settle", type=float, default=0)
    arguments.add_argument("files", nargs="+")
    options = arguments.parse_args()
    total = wrong = 0
    for path in options.files:
        steps, bad = run(path, options.server, options.token, options.check, options.pause, options.settle)
        total, wrong = total + steps, wrong + bad
    print("%d steps, %d with differences" % (total, wrong))
    sys.exit(1 if wrong else 0)


main()
