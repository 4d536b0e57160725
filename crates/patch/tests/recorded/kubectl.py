#!/usr/bin/env python3
"""Records the patches that `kubectl apply` sends.

    kubectl.py --kubeconfig FILE --server URL --token TOKEN > kubectl.jsonl

Makes an object as `kubectl apply` would, changes it as another client would,
applies an edited manifest, and takes the body of the PATCH from the log. A line
is {"type", "original", "modified", "current", "patch"}; the type is empty for a
custom resource. Recorded with kubectl 1.32 and kube-apiserver 1.36.4.
"""
import argparse
import copy
import http.client
import json
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

NAMESPACE = "kubectl-recording"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

LABELS = {"app": "x"}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "o", "labels": {"l": "1", "k": "2"}, "annotations": {"n": "1"}},
    "spec": {"replicas": 2, "selector": {"matchLabels": LABELS}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
             "template": {"metadata": {"labels": LABELS}, "spec": {
                 "containers": [
                     {"name": "a", "image": "i:1", "env": [{"name": n, "value": "1"} for n in "pqr"], "command": ["x", "y"],
                      "ports": [{"containerPort": 80}, {"containerPort": 81}], "resources": {"limits": {"cpu": "1", "memory": "1Mi"}}},
                     {"name": "b", "image": "i:1"}],
                 "initContainers": [{"name": "i", "image": "i:1"}],
                 "volumes": [{"name": "u", "emptyDir": {}}, {"name": "v", "emptyDir": {}}],
                 "tolerations": [{"key": "k", "operator": "Exists"}], "nodeSelector": {"a": "1", "b": "2"}, "imagePullSecrets": [{"name": "s"}]}}}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "o"}, "spec": {"selector": LABELS, "ports": [
    {"port": 80, "name": "a"}, {"port": 443, "name": "b"}, {"port": 9, "name": "c"}]}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "finalizers": ["example.com/a", "example.com/b"]}, "data": {"a": "1", "b": "2"}}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "o"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}}
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "o"}, "secrets": [{"name": "a"}, {"name": "b"}], "imagePullSecrets": [{"name": "p"}]}
WIDGET = {"apiVersion": "recording.example.com/v1", "kind": "Widget", "metadata": {"name": "o", "labels": {"l": "1"}},
          "spec": {"size": 1, "list": [{"name": "a"}, {"name": "b"}], "map": {"x": {"y": 1, "z": 2}, "w": {}}, "gone": {"a": 1}}}
DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.recording.example.com"},
              "spec": {"group": "recording.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [
                  {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
TYPES = {"Deployment": "io.k8s.api.apps.v1.Deployment", "Service": "io.k8s.api.core.v1.Service", "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
         "PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget", "ServiceAccount": "io.k8s.api.core.v1.ServiceAccount", "Widget": ""}


def at(value, path):
    for step in path.split("."):
        value = value[int(step) if step.isdigit() else step]
    return value


def put(path, new):
    def edit(manifest):
        parent, _, key = path.rpartition(".")
        target = at(manifest, parent) if parent else manifest
        target[int(key) if key.isdigit() else key] = new
    return edit


def drop(path):
    def edit(manifest):
        parent, _, key = path.rpartition(".")
        del (at(manifest, parent) if parent else manifest)[int(key) if key.isdigit() else key]
    return edit


def add(path, *new, first=False):
    def edit(manifest):
        found = at(manifest, path)
        found[0 if first else len(found):0 if first else len(found)] = list(new)
    return edit


def turn(path):
    return lambda manifest: at(manifest, path).reverse()


POD, FIRST = "spec.template.spec", "spec.template.spec.containers.0"
EDITS = {
    "Deployment": (DEPLOYMENT, [
        put(FIRST + ".image", "i:2"), add(POD + ".containers", {"name": "c", "image": "i:1"}), add(POD + ".containers", {"name": "c", "image": "i:1"}, first=True),
        drop(POD + ".containers.1"), turn(POD + ".containers"), add(FIRST + ".env", {"name": "s", "value": "2"}), drop(FIRST + ".env.1"), turn(FIRST + ".env"),
        put(FIRST + ".env.2", {"name": "r", "value": "9"}), drop(FIRST + ".env"), drop(FIRST + ".ports.0"), drop(FIRST + ".command"), put(FIRST + ".command", ["z"]),
        drop(FIRST + ".resources.limits.cpu"), drop("metadata.labels.k"), put("metadata.labels.m", "3"), drop("metadata.annotations"), drop("spec.replicas"),
        put("spec.strategy", {"type": "Recreate"}), put("spec.strategy.rollingUpdate", {"maxUnavailable": 1}), put(POD + ".volumes.0", {"name": "u", "hostPath": {"path": "/p"}}),
        drop(POD + ".volumes.1"), drop(POD + ".initContainers"), put(POD + ".tolerations", []), drop(POD + ".nodeSelector.a"), drop(POD + ".imagePullSecrets"),
        put(POD + ".imagePullSecrets", [{"name": "t"}]), put(POD + ".securityContext", {"runAsUser": 5}), put(POD + ".containers", [{"name": "b", "image": "i:1"}, {"name": "n", "image": "i:4"}])]),
    "Service": (SERVICE, [drop("spec.ports.1"), put("spec.ports.0", {"port": 80, "name": "a", "targetPort": 8080}), turn("spec.ports"), put("spec.ports.2", {"port": 10, "name": "c"}), put("spec.selector", {"b": "1"})]),
    "ConfigMap": (CONFIG, [drop("data.a"), put("data.c", "3"), drop("data"), add("metadata.finalizers", "example.com/c"), drop("metadata.finalizers.0")]),
    "PodDisruptionBudget": (BUDGET, [put("spec.minAvailable", 2), put("spec.selector", {"matchLabels": {"b": "1"}})]),
    "ServiceAccount": (ACCOUNT, [drop("secrets.0"), add("secrets", {"name": "c"}), turn("secrets"), put("imagePullSecrets", [{"name": "q"}])]),
    "Widget": (WIDGET, [put("spec.size", 2), drop("spec.gone"), drop("spec.map.x.y"), drop("spec.list.0"), put("spec.map.x", 5), drop("spec.map"), put("spec.map.v", {"a": [None, {"b": None}]}), drop("metadata.labels")]),
}
OTHERS = {
    "Deployment": {"metadata": {"labels": {"other": "1"}}, "spec": {"replicas": 5, "template": {"metadata": {"annotations": {"restarted": "1"}}}}},
    "Service": {"metadata": {"labels": {"other": "1"}}}, "ConfigMap": {"data": {"a": "8", "other": "1"}}, "PodDisruptionBudget": {"spec": {"minAvailable": 7}},
    "ServiceAccount": {"secrets": [{"name": "b"}, {"name": "other"}, {"name": "a"}]}, "Widget": {"spec": {"size": 9, "map": {"x": {"y": 3, "other": 1}}}},
}
SIDECAR = {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "a"}], "containers": [
    {"name": "side", "image": "i:7"}, {"name": "a", "env": [{"name": "other", "value": "1"}], "ports": [{"containerPort": 99}]}]}}}}


PATHS = {"Deployment": "/apis/apps/v1", "PodDisruptionBudget": "/apis/policy/v1", "Widget": "/apis/recording.example.com/v1"}


class Server:
    def __init__(self, url, token):
        at = urllib.parse.urlsplit(url)
        context = ssl._create_unverified_context()
        self.connection = http.client.HTTPSConnection(at.hostname, at.port, context=context, timeout=30)
        self.token = token

    def ask(self, method, path, body=None, kind="application/json"):
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": kind}
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status >= 300:
            print(method, path, answer["message"], file=sys.stderr)
        return answer


def applied_first(manifest):
    """With the annotation of the first apply."""
    made = copy.deepcopy(manifest)
    made["metadata"]["namespace"] = NAMESPACE
    annotations = made["metadata"].setdefault("annotations", {})
    annotations[APPLIED] = json.dumps(made, sort_keys=True, separators=(",", ":")) + "\n"
    return made


def main():
    parser = argparse.ArgumentParser()
    for option in ("--kubeconfig", "--server", "--token"):
        parser.add_argument(option, required=True)
    options = parser.parse_args()
    server = Server(options.server, options.token)
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    time.sleep(3)
    for kind, (manifest, edits) in EDITS.items():
        path = f"{PATHS.get(kind, '/api/v1')}/namespaces/{NAMESPACE}/{kind.lower()}s"
        for edit in edits:
            edited = copy.deepcopy(manifest)
            edit(edited)
            changes = [None, ("merge", OTHERS[kind])] + ([("strategic-merge", SIDECAR)] if kind == "Deployment" else [])
            for change in changes:
                server.ask("POST", path, applied_first(manifest))
                if change:
                    server.ask("PATCH", path + "/o", change[1], f"application/{change[0]}-patch+json")
                current = server.ask("GET", path + "/o")
                with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                    json.dump(edited, file)
                    file.flush()
                    words = ["kubectl", "--kubeconfig", options.kubeconfig, "-n", NAMESPACE, "apply", "-v=10", "-f", file.name]
                    log = subprocess.run(words, capture_output=True, text=True, timeout=30)
                sent = re.search(r'"Request Body" body=("(?:[^"\\\n]|\\.)*")\n[^\n]*curl -v -XPATCH', log.stderr)
                modified = json.loads(server.ask("GET", path + "/o")["metadata"]["annotations"][APPLIED])
                if sent and not log.returncode:
                    original, patch = json.loads(current["metadata"]["annotations"][APPLIED]), json.loads(json.loads(sent[1]))
                    current["metadata"].pop("managedFields", None)
                    # The text of the annotation is long and only compared as a whole.
                    current["metadata"]["annotations"][APPLIED] = "before"
                    modified["metadata"]["annotations"][APPLIED] = patch["metadata"]["annotations"][APPLIED] = "after"
                    line = {"type": TYPES[kind], "original": original, "modified": modified, "current": current, "patch": patch}
                    print(json.dumps(line, sort_keys=True), flush=True)
                else:
                    print("nothing sent:", kind, log.stderr[-300:], file=sys.stderr)
                server.ask("PATCH", path + "/o", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
                server.ask("DELETE", path + "/o")


main()
