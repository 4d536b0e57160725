#!/usr/bin/env python3
"""Replays server.jsonl on kube-apiserver: writes, and the objects and owners they leave.

    server.py --server URL --token TOKEN [--check]

A step says who writes what (op, manager, body, subresource, force); `after` or `error` is recorded. A
step without a body was too long to write down: what it changes is what `after` has. `found` is an
object that was written under another schema.
"""
import argparse
import copy
import http.client
import itertools
import json
import pathlib
import re
import ssl
import sys
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[3] / "tests"))
import recording

NAMESPACE = "applyrec"
GROUP = "applyrec.example.com"
TYPES = {
    "create": "application/json", "put": "application/json", "merge": "application/merge-patch+json",
    "json": "application/json-patch+json", "apply": "application/apply-patch+yaml",
}
# Under which schema an object was written that is then found.
BEFORE = {"granular_becomes_atomic": "custom_resource_in_two_versions", "atomic_becomes_granular": "granular_becomes_atomic"}
PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "Pod": "pods", "Deployment": "deployments", "X": "widgets"}
# A hang-guard.
READY_SECONDS = 60
TRIES = 10


class Server:
    def __init__(self, url, token):
        self.connection = http.client.HTTPSConnection(urllib.parse.urlsplit(url).netloc, context=ssl._create_unverified_context(), timeout=60)
        self.token = token

    def send(self, method, path, body=None, media="application/json"):
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": media}
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self.connection.getresponse()
        answer = response.read()
        # A path that is not served yet is answered in plain words.
        return response.status, json.loads(answer) if response.headers.get_content_type() == "application/json" else {}

    def until(self, wanted, *request):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            code, answer = self.send(*request)
            if wanted(code, answer):
                return answer
            time.sleep(0.2)
        raise SystemExit("%s: %s" % (request, answer))


def place(case, step):
    version = step.get("apiVersion", case["apiVersion"])
    plural = PLURALS[case["definition"].split(".")[-1]]
    return "/%s/%s/namespaces/%s/%s" % ("apis" if "/" in version else "api", version, NAMESPACE, plural)


def replay(server, case, schemas):
    """Owners are sorted by time, so what was written in one second must be again."""
    for _ in range(TRIES):
        if "schema" in case:
            define(server, schemas[BEFORE.get(case["case"], case["case"])])
        found = steps_of(server, case)
        server.send("DELETE", place(case, {}) + "/x?gracePeriodSeconds=0")
        if seconds(found) == seconds(case):
            break
    return found


def seconds(case):
    """The second of every step, counted from the first."""
    owners = [step.get("after", {"metadata": {}})["metadata"].get("managedFields", []) for step in case["steps"]]
    latest = [max((owner["time"] for owner in each if "time" in owner), default="") for each in owners]
    latest = list(itertools.accumulate(latest, max))
    times = sorted(set(latest))
    return [times.index(time) for time in latest]


def steps_of(server, case):
    live, steps, second = None, [], None
    for step, wanted in zip(case["steps"], seconds(case)):
        if wanted != second:
            second = wanted
            time.sleep(1 - time.time() % 1)
        if step["op"] == "found":
            put_in_place(server, case, step["after"])
            define(server, case["schema"])
            code, answer = server.send("GET", place(case, step) + "/x")
        else:
            code, answer = write(server, case, step, live)
        step = {key: value for key, value in step.items() if key not in ("after", "error")}
        if code >= 400:
            details = answer.get("details") or {}
            step["error"] = {"message": answer["message"], "causes": details.get("causes")}
        else:
            # What a subresource answers is not always the object.
            _, live = server.send("GET", place(case, {}) + "/x")
            step["after"] = kept(live)
        steps.append(step)
    return {**case, "steps": steps}


def write(server, case, step, live):
    body = step.get("body")
    if body is None:
        body = merge_patch(kept(live), step["after"])
        if step["op"] == "json":
            body = [{"op": "add", "path": "/data/" + key, "value": value} for key, value in body["data"].items()]
    method = {"create": "POST", "put": "PUT"}.get(step["op"], "PATCH")
    query = {"fieldManager": step["manager"], **({"force": "true"} if step.get("force") else {})}
    path = place(case, step) + ("" if method == "POST" else "/x")
    path += "/" + step["subresource"] if "subresource" in step else ""
    return server.send(method, path + "?" + urllib.parse.urlencode(query), body, TYPES[step["op"]])


def merge_patch(before, after):
    """What makes the one of the other; owners are the server's."""
    patch = {key: None for key in before if key not in after}
    for key, value in after.items():
        if before.get(key, ...) != value and key != "managedFields":
            both = isinstance(value, dict) and isinstance(before.get(key), dict)
            patch[key] = merge_patch(before[key], value) if both else value
    return patch


def put_in_place(server, case, wanted):
    """An object of this generation with these owners, who need not have written it in this way."""
    base = {"apiVersion": wanted["apiVersion"], "manager": "setup"}
    sizes = range(1000, 999 + wanted["metadata"]["generation"])
    bodies = [{"spec": {"size": size}} for size in sizes] + [{"spec": {"size": None, **wanted["spec"]}}]
    bodies[0] = {**wanted, **bodies[0], "metadata": {"name": "x"}}
    bodies.append({"metadata": {"managedFields": wanted["metadata"]["managedFields"]}})
    for number, body in enumerate(bodies):
        code, answer = write(server, case, {**base, "op": "merge" if number else "create", "body": body}, None)
        assert code < 300, answer


def define(server, schema):
    """Two versions of the same schema, and waits until they are served with it."""
    schema = copy.deepcopy(schema["X"])
    schema["properties"]["metadata"] = {"type": "object"}
    names = {"plural": "widgets", "kind": "Widget"}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    versions = [
        {
            "name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale},
        }
        for name in ("v1", "v2")
    ]
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets." + GROUP},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    code, answer = server.send("POST", path, definition)
    if code == 409:
        code, answer = server.send("PATCH", "%s/widgets.%s" % (path, GROUP), definition, TYPES["merge"])
    assert code < 300, answer
    server.until(lambda code, _: code == 200, "GET", "/apis/%s/v2/widgets" % GROUP)
    # The documents follow the handlers, so what they say is served.
    wanted = schema["properties"]["spec"]["properties"]["m"]["x-kubernetes-map-type"]
    published = lambda answer: json.dumps(answer["components"]["schemas"].get("com.example.applyrec.v1.Widget")) if "components" in answer else ""
    server.until(lambda _, answer: '"x-kubernetes-map-type": "%s"' % wanted in published(answer), "GET", "/openapi/v3/apis/%s/v1" % GROUP)


def kept(live):
    live = copy.deepcopy(live)
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        live["metadata"].pop(key, None)
    return live


def comparable(case):
    """With the order of times for the times, without addresses that the server chooses."""
    times = sorted(set(re.findall(r'"time": "([^"]+)"', json.dumps(case))))
    case = json.loads(re.sub(r'"time": "([^"]+)"', lambda found: '"time": %d' % times.index(found[1]), json.dumps(case)))
    for step in case["steps"]:
        if step.get("error", {}).get("causes"):
            # Upstream goes through the other owners in no order.
            step["error"]["causes"].sort(key=lambda cause: cause["message"])
        spec = step.get("after", {}).get("spec", {})
        if "clusterIP" in spec:
            spec.update(clusterIP="", clusterIPs=[])
        for port in spec.get("ports", []):
            if "nodePort" in port:
                port["nodePort"] = 0
    return case


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    server = Server(options.server, options.token)
    server.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    cases = recording.read_lines(HERE / "server.jsonl")
    schemas = {case["case"]: case["schema"] for case in cases if "schema" in case}
    now = [replay(server, case, schemas) for case in cases]
    compact = lambda case: json.dumps(case, separators=(",", ":"), ensure_ascii=False)
    different = recording.settle(HERE / "server.jsonl", now, options.check, comparable, compact)
    sys.exit(1 if options.check and different else 0)


main()
