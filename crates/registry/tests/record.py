#!/usr/bin/env python3
"""Records the answers of kube-apiserver to the cases beside this file, or compares them.

    record.py --server URL --token TOKEN --store URL [--check] [NAME...]

NAMEs are beginnings of files (`kinds/pods`). What a case holds is told at the head of the files in
recorded; a new case has no answer yet (but an empty list of `warnings` if they are to be recorded, and a
job its uid). An object that is there before a request (`old`, `object`, `parent`, `items`) is put into
etcd as it is, so that no requests need to lead to it, and is taken out behind it. Times are moved so that the request comes at the second `now`, and moved back in the answer.
"""
import argparse
import base64
import contextlib
import copy
import datetime
import http.client
import json
import pathlib
import re
import ssl
import sys
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[2] / "tests"))
import recording  # noqa: E402

# Namespaces that cases write into.
NAMESPACES = ("default", "kinds-b", "kinds-d", "kube-system", "place")
# Where upstream stores what it does not store by the name of its resource.
STORED = {
    "apiservices": "apiregistration.k8s.io/apiservices",
    "customresourcedefinitions": "apiextensions.k8s.io/customresourcedefinitions",
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
# Upstream walks maps in any order, and a second may end before an answer comes: what is recorded is one
# of its answers, and stays if it comes again in as many tries.
TRIES = 20
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Who asks, of a CertificateSigningRequest.
ASKS = ("spec.groups", "spec.uid", "spec.username")
# A hang-guard.
SECONDS = 60


class Server:
    def __init__(self, url, token, store):
        self.host = urllib.parse.urlsplit(url).netloc
        self.etcd = http.client.HTTPConnection(urllib.parse.urlsplit(store).netloc, timeout=SECONDS)
        self.token = token
        self.api = self.connect()
        self.resources = {}
        self.discover()

    def connect(self):
        return http.client.HTTPSConnection(self.host, context=ssl._create_unverified_context(), timeout=SECONDS)

    def send(self, connection, method, path, body=None, accept="application/json"):
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json", "Accept": accept}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()

    def request(self, *request, **more):
        """The code, the texts of warnings, and the answer."""
        response = self.send(self.api, *request, **more)
        value = json.loads(response.read())
        warnings = response.headers.get_all("Warning", [])
        return response.status, [json.loads(warning.removeprefix("299 - ")) for warning in warnings], value

    def get(self, path, accept="application/json"):
        code, _, value = self.request("GET", path, accept=accept)
        if code != 200:
            raise SystemExit("GET %s: %s" % (path, value["message"]))
        return value

    def discover(self):
        """What is served, by group and kind, the preferred version first."""
        versions = [("v1", "/api/v1")]
        for group in self.get("/apis")["groups"]:
            versions += [(one["groupVersion"], "/apis/" + one["groupVersion"]) for one in group["versions"]]
        for version, path in versions:
            for resource in self.get(path)["resources"]:
                subject = resource.get("group", version.rpartition("/")[0]), resource["kind"]
                served = {"path": path, "name": resource["name"], "namespaced": resource["namespaced"]}
                self.resources.setdefault(subject, []).append(served)

    def served(self, group, kind, version=""):
        versions = self.resources[group, kind]
        return next((one for one in versions if one["path"].endswith("/" + version)), versions[0])

    def served_of(self, object):
        group, _, version = object["apiVersion"].rpartition("/")
        return self.served(group, object["kind"], version)

    def collection(self, object, namespace="default"):
        served = self.served_of(object)
        namespace = object.get("metadata", {}).get("namespace", namespace)
        inside = "/namespaces/" + namespace if served["namespaced"] else ""
        return "%s%s/%s" % (served["path"], inside, served["name"])

    @contextlib.contextmanager
    def holding(self, object):
        """Stores an object for a while, and gives its resource version."""
        served = self.served_of(object)
        place = [STORED.get(served["name"], served["name"]), object["metadata"]["name"]]
        if served["namespaced"]:
            place.insert(1, object["metadata"].get("namespace", "default"))
        key = encoded("/registry/" + "/".join(place))
        told = self.stored("put", key=key, value=encoded(json.dumps(object)), prev_kv=True)
        yield told["header"]["revision"]
        if "prev_kv" in told:
            self.stored("put", key=key, value=told["prev_kv"]["value"])
        else:
            self.stored("deleterange", key=key)

    def stored(self, call, **fields):
        self.etcd.request("POST", "/v3/kv/" + call, json.dumps(fields))
        response = self.etcd.getresponse()
        text = response.read()
        if response.status != 200:
            raise SystemExit("etcd: %s: %s" % (call, text.decode()))
        return json.loads(text)


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def written(server, case):
    """What is answered to a create, or to an update of `old`."""
    new, old = copy.deepcopy(case["new"]), case.get("old")
    metadata = new.setdefault("metadata", {})
    # Given by the server.
    for name in ("uid", "resourceVersion"):
        metadata.pop(name, None)
    # Warnings are those of the kind, not of the decoder. In a dry run a service gets any address.
    query = "?fieldValidation=Ignore" + ("" if new["kind"] == "Service" else "&dryRun=All")
    if old is not None:
        with server.holding(old) as metadata["resourceVersion"]:
            path = [server.collection(new, old["metadata"].get("namespace", "default")), metadata["name"]]
            path += [case["subresource"]] if "subresource" in case else []
            code, warnings, value = server.request("PUT", "/".join(path) + query, new)
            deallocate(server, code, value)
    elif new["kind"] == "TokenRequest":
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x", "uid": "x"}}
        with server.holding(account):
            code, warnings, value = server.request("POST", server.collection(account) + "/x/token" + query, new)
    else:
        code, warnings, value = server.request("POST", server.collection(new) + query, new)
        deallocate(server, code, value)
    if code < 300:
        metadata = value["metadata"]
        value["metadata"] = {name: metadata[name] for name in ("annotations", "labels") if name in metadata}
        if value["kind"] == "CertificateSigningRequest":
            for name in ASKS:
                drop(value, name.split("."))
        answer = {"object": value}
    elif code == 422:
        answer = {"causes": value["details"]["causes"]}
    else:
        answer = {"error": value["message"]}
    answer = with_uid(case, answer)
    if "warnings" in case:
        answer["warnings"] = warnings
    return answer


def deallocate(server, code, value):
    """Frees what a service was given."""
    if code < 300 and value["kind"] == "Service":
        server.request("DELETE", server.collection(value) + "/" + value["metadata"]["name"])


def with_uid(case, answer):
    """The answer, with the uid that the server has given replaced by that of the case."""
    sent = json.dumps([case["new"], case.get("old")])
    own = case["new"].get("metadata", {}).get("uid")
    replaced = lambda found: found[0] if found[0] in sent else own or found[0]
    return json.loads(UID.sub(replaced, json.dumps(answer)))


def warned(server, case):
    return {"warnings": written(server, {**case, "warnings": []})["warnings"]}


def converted(server, case):
    """An autoscaler in the other version."""
    object = copy.deepcopy(case["object"])
    object["metadata"]["name"] = "x"
    with server.holding(object):
        value = server.get(server.collection({**object, "apiVersion": case["to"]}) + "/x")
    for name in ("name", "namespace", "resourceVersion"):
        value["metadata"].pop(name, None)
    return {"expected": value}


def scaled(server, case):
    parent = case["parent"]
    with server.holding(parent):
        value = server.get("%s/%s/scale" % (server.collection(parent), parent["metadata"]["name"]))
    value["metadata"]["resourceVersion"] = parent["metadata"]["resourceVersion"]
    return {"scale": value}


def selected(server, case):
    """Whether a field selector is understood, and takes the object."""
    served = server.served(case["group"], case["kind"])
    path = "%s/%s?%s" % (served["path"], served["name"], urllib.parse.urlencode({"fieldSelector": case["selector"]}))
    if "object" not in case:
        code, _, value = server.request("GET", path)
        return {} if code == 200 else {"error": value["message"]}
    with server.holding(case["object"]):
        value = server.get(path)
    name = case["object"]["metadata"]["name"]
    return {"matches": any(item["metadata"]["name"] == name for item in value["items"])}


def columns(server, case):
    if case["kind"] == "Scale":
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}}
        table = table_of(server, scale, scale)
    else:
        served = server.served(case["group"], case["kind"], case["version"])
        table = server.get(served["path"] + "/" + served["name"], TABLE)
    for column in table["columnDefinitions"]:
        del column["description"]
    return {"columns": table["columnDefinitions"]}


def moved(value, seconds):
    """With all times later by some seconds."""
    if isinstance(value, dict):
        return {key: moved(field, seconds) for key, field in value.items()}
    if isinstance(value, list):
        return [moved(item, seconds) for item in value]
    if isinstance(value, str) and TIME.fullmatch(value):
        then = datetime.datetime.fromisoformat(value[:19]) + datetime.timedelta(seconds=seconds)
        return then.isoformat() + value[19:]
    return value


def lateness(case):
    """The second `now`, if the case has none yet, and the seconds that have passed since."""
    now = int(time.time())
    return {} if "now" in case else {"now": now}, now - case.get("now", now)


def cells(server, case):
    """The row of an object at the second `now`."""
    given, late = lateness(case)
    object, stored = moved(case["object"], late), moved(case.get("stored", case["object"]), late)
    row = moved(table_of(server, object, stored)["rows"][0], -late)
    return {**given, **{name: row[name] for name in ("cells", "conditions") if name in row}}


def table_of(server, object, stored):
    subresource = ""
    if object["kind"] == "Scale":
        object = stored = {**object, "apiVersion": "apps/v1", "kind": "Deployment"}
        subresource = "/scale"
    path = "%s/%s%s?includeObject=None" % (server.collection(object), object["metadata"]["name"], subresource)
    with server.holding(stored):
        return server.get(path, TABLE)


def bookmarked(server, case):
    """The row of a bookmark."""
    path = server.collection(case["object"]) + "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
    connection = server.connect()
    response = server.send(connection, "GET", path + "&resourceVersionMatch=NotOlderThan", accept=TABLE)
    event = {}
    while event.get("type") != "BOOKMARK":
        event = json.loads(response.readline())
    connection.close()
    return {"cells": event["object"]["rows"][0]["cells"]}


def listed(server, case):
    """The table of a list of these items, with as many more behind it as remain."""
    given, late = lateness(case)
    served = server.served(case["group"], case["kind"])
    about = {"apiVersion": served["path"].split("/", 2)[2], "kind": case["kind"]}
    items = [moved({**about, **item}, late) for item in case["items"]]
    query = {"includeObject": case["include"]}
    remaining = case.get("table", {}).get("metadata", {}).get("remainingItemCount", 0)
    if remaining:
        query["limit"] = len(items)
    last = copy.deepcopy(items[-1])
    with contextlib.ExitStack() as held:
        for number in range(remaining):
            last["metadata"]["name"] = "zzz-%d" % number
            held.enter_context(server.holding(last))
        for item in items:
            held.enter_context(server.holding(item))
        path = "%s?%s" % (server.collection(items[0]), urllib.parse.urlencode(query))
        table = server.get(path, TABLE)
    table = moved(table, -late)
    table["columnDefinitions"] = len(table["columnDefinitions"])
    table["metadata"] = {name: "x" if isinstance(value, str) else value for name, value in table["metadata"].items()}
    for row in table["rows"]:
        if row["object"]:
            row["object"]["metadata"].pop("resourceVersion", None)
    return {**given, "table": table}


# What is asked of the cases of a file, by the beginning of its name; the first that fits.
ASKED = {
    "field_selectors": selected,
    "tables/bookmarks": bookmarked,
    "tables/columns": columns,
    "tables/lists": listed,
    "tables/": cells,
    "workloads/horizontal": converted,
    "workloads/scale": scaled,
    "workloads/warnings": warned,
    "": written,
}
# What a case has of its answer.
ANSWERS = ("causes", "cells", "columns", "conditions", "error", "expected", "matches", "scale", "table", "warnings")


def comparable(name, case, answer):
    """What is left of an answer without what rules do not decide."""
    answer = copy.deepcopy(answer)
    if "object" in answer:
        object = answer["object"]
        metadata = object.pop("metadata", {})
        if name == "kinds/workloads":
            object["metadata"] = [metadata.get("annotations"), metadata.get("labels")]
        for path in [*case.get("ignore", []), *(ASKS if object["kind"] == "CertificateSigningRequest" else [])]:
            drop(object, path.split("."))
        if not object.get("status"):
            object.pop("status", None)
    if case.get("unordered") and "causes" in answer:
        answer["causes"].sort(key=json.dumps)
    return answer


def drop(value, steps):
    fields = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    if len(steps) == 1:
        fields.pop(steps[0], None)
    elif steps[0] == "*":
        for field in fields.values():
            drop(field, steps[1:])
    elif steps[0] in fields:
        drop(fields[steps[0]], steps[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    server = Server(options.server, options.token, options.store)
    for name in NAMESPACES:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        server.request("POST", server.collection(namespace), namespace)
    files = {str(path.relative_to(HERE).with_suffix("")): path for path in sorted(HERE.rglob("*.jsonl"))}
    differences = 0
    for name, path in files.items():
        if name.startswith(tuple(options.names or [""])):
            differences += record(server, name, path, options.check)
    sys.exit(1 if options.check and differences else 0)


def record(server, name, path, check):
    """Gives the number of cases that are answered differently."""
    ask = next(ask for beginning, ask in ASKED.items() if name.startswith(beginning))
    keys = [*ANSWERS, "object"] if ask is written else ANSWERS
    lines, differences = path.read_text().splitlines(), 0
    cases = [json.loads(line) for line in lines]
    # Autoscalers that autoscaling/v1 shows are stored as autoscaling/v2 shows them.
    objects = [case["object"] for case in cases] if name == "tables/hpa" else []
    stored = {object["metadata"]["name"]: object for object in objects if object["apiVersion"] == "autoscaling/v2"}
    for at, case in enumerate(cases):
        asked = {**case, "stored": stored[case["object"]["metadata"]["name"]]} if stored else case
        recorded = {key: case[key] for key in keys if key in case}
        for _ in range(TRIES if recorded else 1):
            answer = ask(server, asked)
            before, now = comparable(name, case, recorded), comparable(name, case, answer)
            if before == now:
                break
        else:
            differences += 1
            print("%s: %s: %s" % (name, lines[at][:100], recording.first_difference(before, now)))
            case = {**{key: value for key, value in case.items() if key not in recorded}, **answer}
            separators = (", ", ": ") if lines[at].startswith('{"%s": ' % next(iter(case))) else (",", ":")
            lines[at] = json.dumps(case, separators=separators, ensure_ascii=False)
    if not check:
        path.write_text("".join(line + "\n" for line in lines))
    print("%s: %d cases, %d differ" % (name, len(lines), differences), flush=True)
    return differences


main()
