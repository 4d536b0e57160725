#!/usr/bin/env python3
"""Records strategic merge patches of a kube-apiserver 1.36.4.

    server.py --server URL --token TOKEN > server.jsonl

Makes a namespace, an object of each kind below in it, and sends patches to them
with dryRun=All. A line with "type" and "object" is what the lines after it change:
each has a "patch", and either "changes", what was other afterwards by JSON
pointer (null: gone), or "code" and "message" of the refusal. Refusals after
merging, by validation, are left out, and so are managedFields. Patches are made
so that defaults change nothing: what they add is complete.
"""
import argparse
import http.client
import json
import random
import ssl
import sys
import urllib.parse

NAMESPACE = "patch-recording"
ORDER, DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"


def container(name, **fields):
    return {"name": name, "image": "i:1", "imagePullPolicy": "Always", "resources": {}, "terminationMessagePath": "/t",
            "terminationMessagePolicy": "File", **fields}


def port(number, protocol="TCP", **fields):
    return {"containerPort": number, "protocol": protocol, **fields}


POD = {
    "containers": [
        container("a", env=[{"name": n, "value": "1"} for n in "pqrs"], ports=[port(80, name="web"), port(81), port(82)],
                  command=["x", "y"], volumeMounts=[{"mountPath": "/m", "name": "u"}, {"mountPath": "/n", "name": "v"}]),
        container("b", args=["z"]), container("c"), container("d"),
    ],
    "initContainers": [container("i"), container("j")],
    "volumes": [{"name": "u", "emptyDir": {}}, {"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/h", "type": ""}}],
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["one"]}, {"ip": "10.0.0.2", "hostnames": ["two"]}],
    "imagePullSecrets": [{"name": "s1"}, {"name": "s2"}],
    "nodeSelector": {"a": "1", "b": "2"},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
                                  {"maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}],
}
LABELS = {"app": "x"}
META = {"name": "o", "labels": {"app": "x", "l": "1"}, "annotations": {"n": "1"}, "finalizers": ["example.com/a", "example.com/b", "example.com/c"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": n, "uid": "uid-" + n} for n in "xyz"]}


def kinds():
    template = {"metadata": {"labels": LABELS, "annotations": {"t": "1"}}, "spec": POD}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
    return {
        "Deployment": ("io.k8s.api.apps.v1.Deployment", "apps/v1", "deployments",
                       {"metadata": META, "spec": {"selector": {"matchLabels": LABELS}, "template": template}}),
        "Pod": ("io.k8s.api.core.v1.Pod", "v1", "pods", {"metadata": META, "spec": POD}),
        "Service": ("io.k8s.api.core.v1.Service", "v1", "services", {"metadata": META, "spec": {"selector": LABELS, "ports": [
            {"port": 80, "targetPort": 80, "name": "a", "protocol": "TCP"}, {"port": 443, "targetPort": "https", "name": "b", "protocol": "TCP"},
            {"port": 53, "targetPort": 53, "name": "c", "protocol": "UDP"}]}}),
        "PodDisruptionBudget": ("io.k8s.api.policy.v1.PodDisruptionBudget", "policy/v1", "poddisruptionbudgets",
                                {"metadata": META, "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS, "matchExpressions": [
                                    {"key": "k", "operator": "Exists"}]}}}),
        "ServiceAccount": ("io.k8s.api.core.v1.ServiceAccount", "v1", "serviceaccounts",
                           {"metadata": META, "secrets": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "imagePullSecrets": [{"name": "p"}]}),
        "ConfigMap": ("io.k8s.api.core.v1.ConfigMap", "v1", "configmaps", {"metadata": META, "data": {"a": "1", "b": "2"}}),
        "CronJob": ("io.k8s.api.batch.v1.CronJob", "batch/v1", "cronjobs", {"metadata": META, "spec": {"schedule": "* * * * *", "jobTemplate": {
            "spec": {"template": {"metadata": {"labels": LABELS}, "spec": {**POD, "restartPolicy": "Never"}}}}}}),
        "StatefulSet": ("io.k8s.api.apps.v1.StatefulSet", "apps/v1", "statefulsets", {"metadata": META, "spec": {
            "serviceName": "s", "selector": {"matchLabels": LABELS}, "template": template}}),
        "Ingress": ("io.k8s.api.networking.v1.Ingress", "networking.k8s.io/v1", "ingresses", {"metadata": META, "spec": {
            "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}, "tls": [{"hosts": ["a.example"], "secretName": "t"}]}}),
        "Role": ("io.k8s.api.rbac.v1.Role", "rbac.authorization.k8s.io/v1", "roles",
                 {"metadata": META, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        "Node": ("io.k8s.api.core.v1.Node", "v1", "nodes", {"metadata": META, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        "CertificateSigningRequest": ("io.k8s.api.certificates.v1.CertificateSigningRequest", "certificates.k8s.io/v1", "certificatesigningrequests",
                                      {"metadata": META, "spec": {"request": REQUEST, "signerName": "example.com/s", "usages": ["client auth"]}}),
        "ValidatingWebhookConfiguration": ("io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1",
                                           "validatingwebhookconfigurations", {"metadata": META, "webhooks": [
                                               {"name": n + ".example.com", "clientConfig": {"url": "https://127.0.0.1:1"}, "rules": [rule], "sideEffects": "None",
                                                "failurePolicy": "Ignore", "admissionReviewVersions": ["v1"], "namespaceSelector": {"matchLabels": {"none": "none"}}}
                                               for n in "ab"]}),
        "PersistentVolume": ("io.k8s.api.core.v1.PersistentVolume", "v1", "persistentvolumes", {"metadata": META, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/h", "type": ""}}}),
    }


CLUSTER = {"Node", "CertificateSigningRequest", "ValidatingWebhookConfiguration", "PersistentVolume"}
# An empty certificate request, made once with openssl.
REQUEST = None


def names(*values, key="name"):
    return [{key: value} for value in values]


def meta(**fields):
    return {"metadata": fields}


ANY = [
    {}, meta(labels={"l": None, "m": "2"}), meta(labels=None), meta(labels={"$patch": "replace", "only": "1"}), meta(labels={"$patch": "delete"}),
    meta(labels={"$patch": "merge"}), meta(labels={"$patch": 7}), meta(annotations={"n": "2", "o": "1"}), meta(finalizers=["example.com/d"]),
    meta(finalizers=["example.com/d", "example.com/a"]), meta(finalizers=None), meta(**{DELETE + "finalizers": ["example.com/b"]}),
    meta(**{ORDER + "finalizers": ["example.com/c", "example.com/a"]}), meta(**{DELETE[:-1]: []}), meta(**{ORDER[:-1]: []}), meta(**{ORDER + "finalizers": "x"}),
    meta(**{ORDER + "finalizers": ["example.com/c"], "finalizers": ["example.com/d"]}), meta(finalizers=["example.com/a", 1]), meta(finalizers=[["x"]]),
    meta(ownerReferences=[{"uid": "uid-y", "$patch": "delete"}]), meta(ownerReferences=[{"uid": "uid-z", "controller": True}]),
    meta(ownerReferences=[{"$patch": "replace"}, {"apiVersion": "v1", "kind": "Secret", "name": "q", "uid": "uid-q"}]), meta(ownerReferences=[{"name": "q"}]),
    meta(ownerReferences=[{"$patch": "merge", "uid": "uid-x"}]), meta(ownerReferences=[{"$patch": "other", "uid": "uid-x"}]),
    meta(**{ORDER + "ownerReferences": names("uid-z", "uid-x", "uid-y", key="uid")}), meta(unknown={"a": 1}), meta(unknown=1), {"unknown": {"a": None}},
    meta(**{"$retainKeys": ["name"], "labels": {"a": "b"}}), meta(labels={"$retainKeys": ["m"], "m": "1"}), meta(labels={"$retainKeys": "m"}),
]


def pod_patches(wrap):
    return [wrap(patch) for patch in [
        {"containers": [{"name": "a", "image": "i:2"}]}, {"containers": [{"name": "b", "$patch": "delete"}]}, {"containers": [container("n")]},
        {"containers": [container("n"), {"name": "c", "image": "i:2"}]}, {"containers": [{"$patch": "replace"}, container("n")]},
        {ORDER + "containers": names("d", "c", "b", "a")}, {ORDER + "containers": names("c", "a")}, {"containers": []}, {"containers": [{"image": "i"}]},
        {ORDER + "containers": names("b", "n"), "containers": [{"name": "a", "$patch": "delete"}, container("n")]},
        {ORDER + "containers": names("a", "n", "d"), "containers": [{"name": "b", "$patch": "delete"}, {"name": "c", "$patch": "delete"}, container("n")]},
        {ORDER + "containers": names("d", "n", "a"), "containers": [container("n")]}, {ORDER + "containers": names("a"), "containers": [container("n")]},
        {"containers": [{"name": "a", "env": [{"name": "q", "value": "2"}, {"name": "n", "value": "3"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "q", "$patch": "delete"}, {"name": "r", "value": "4"}]}]},
        {"containers": [{"name": "a", ORDER + "env": names("s", "q", "p", "r")}]}, {"containers": [{"name": "a", "env": None}]},
        {"containers": [{"name": "a", "env": [{"name": "q", "value": None, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]}]},
        {"containers": [{"name": "a", "ports": [port(81, "UDP")]}]}, {"containers": [{"name": "a", "ports": [port(90), {"containerPort": 80, "$patch": "delete"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": "80", "protocol": "TCP"}]}]}, {"containers": [{"name": "a", "command": ["q"]}]},
        {"containers": [{"name": "a", DELETE + "command": ["x"]}]}, {"containers": [{"name": "a", "volumeMounts": [{"mountPath": "/n", "name": "w"}]}]},
        {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]}, {"initContainers": [{"name": "j", "$patch": "delete"}]},
        {"initContainers": None}, {"volumes": [{"name": "u", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/p", "type": ""}}]},
        {"volumes": [{"name": "u", "$retainKeys": ["name"], "hostPath": {"path": "/p", "type": ""}}]}, {"volumes": [{"name": "x", "emptyDir": {}}]},
        {"volumes": [{"name": "u", "emptyDir": None, "hostPath": {"path": "/p", "type": ""}}]}, {"tolerations": [{"key": "z", "operator": "Exists"}]},
        {"tolerations": []}, {"hostAliases": [{"ip": "10.0.0.2", "hostnames": ["three"]}, {"ip": "10.0.0.3", "hostnames": ["four"]}]},
        {"imagePullSecrets": [{"name": "s3"}, {"name": "s1", "$patch": "delete"}]}, {"nodeSelector": {"a": None, "c": "3"}}, {"nodeSelector": {"$patch": "replace", "z": "1"}},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 3}]}, {"affinity": {"nodeAffinity": {}, "podAffinity": None}},
        {"securityContext": {"runAsUser": 5, "sysctls": None}}, {"containers": [{"name": "a", "securityContext": {"capabilities": {"add": ["X"]}}}]},
        {"dnsConfig": {"nameservers": ["10.0.0.9"], "options": [{"name": "o", "value": None}]}}, {"hostAliases": [{"ip": "10.0.0.1"}, 5]}, {"containers": {"a": 1}},
        {"containers": [[]]}, {"nodeName": ["x"], "unknown": [1]}, {"containers": [None]}]]


def own_patches(kind):
    template = lambda spec: {"spec": {"template": {"spec": spec}}}
    strategy = lambda **fields: {"spec": {"strategy": fields}}
    ports = lambda *fields: {"spec": {"ports": list(fields)}}
    hooks = lambda *fields: {"webhooks": list(fields)}
    return {
        "Deployment": pod_patches(template) + [
            strategy(**{"$retainKeys": ["type"], "type": "Recreate"}), strategy(type="Recreate"), strategy(**{"type": "Recreate", "rollingUpdate": None}),
            strategy(**{"$retainKeys": ["type", "rollingUpdate"], "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}), strategy(**{"$retainKeys": [], "type": "Recreate"}),
            {"spec": {"replicas": 4, "paused": True}}, {"spec": {"selector": {"matchLabels": {"app": "x"}}}}, {"spec": {"template": {"metadata": {"annotations": {"t": None, "u": "2"}}}}},
            {"$patch": "delete"}, {"spec": None}, {"spec": {"$patch": "replace"}}],
        "CronJob": pod_patches(lambda spec: {"spec": {"jobTemplate": template(spec)}})[:12] + [{"spec": {"suspend": True}}],
        "StatefulSet": pod_patches(template)[:12] + [{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}}],
        "Pod": [{"spec": {"containers": [{"name": "b", "image": "i:3"}]}}],
        "Service": [ports({"port": 80, "targetPort": 81}), ports({"port": 90, "targetPort": 90, "name": "n", "protocol": "TCP"}), ports({"port": 443, "$patch": "delete"}),
                    {"spec": {ORDER + "ports": names(53, 80, 443, key="port")}}, {"spec": {"selector": {"app": None, "b": "1"}}}, ports({"port": 53, "protocol": "TCP"}),
                    ports({"$patch": "replace"}, {"port": 1, "targetPort": 1, "protocol": "TCP"}), ports({"targetPort": 1})],
        "PodDisruptionBudget": [{"spec": {"selector": {"matchLabels": {"b": "2"}}}}, {"spec": {"selector": {}}}, {"spec": {"selector": None}},
                                {"spec": {"selector": {"$patch": "replace", "matchLabels": {"z": "1"}}}}, {"spec": {"minAvailable": None, "maxUnavailable": "50%"}}],
        "ServiceAccount": [{"secrets": [{"name": "d"}]}, {"secrets": [{"name": "b", "$patch": "delete"}]}, {ORDER + "secrets": names("c", "b", "a")}, {"imagePullSecrets": [{"name": "q"}]},
                           {ORDER + "secrets": names("e", "a"), "secrets": [{"name": "e"}, {"name": "b", "$patch": "delete"}]}, {"automountServiceAccountToken": False}],
        "ConfigMap": [{"data": {"a": None, "c": "3"}}, {"data": {"$patch": "replace", "z": "1"}}, {"data": {"$retainKeys": ["b"]}}, {"data": None, "immutable": True}, {"binaryData": {"x": "AA=="}}, {"data": {"a": {"$patch": "delete"}}}],
        "Ingress": [{"spec": {"tls": [{"hosts": ["b.example"], "secretName": "u"}]}}, {"spec": {"defaultBackend": {"service": {"port": {"number": 81}}}}}],
        "Role": [{"rules": []}, {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]}],
        "Node": [{"spec": {"taints": [{"key": "z", "effect": "NoExecute"}]}}, {"spec": {"taints": None, "unschedulable": True}}, {"spec": {"podCIDRs": ["10.0.0.0/24"], "podCIDR": "10.0.0.0/24"}}],
        "ValidatingWebhookConfiguration": [hooks({"name": "b.example.com", "failurePolicy": "Fail"}), hooks({"name": "a.example.com", "$patch": "delete"}),
                                           {ORDER + "webhooks": names("b.example.com", "a.example.com")}, hooks({"name": "b.example.com", "namespaceSelector": {"matchLabels": {"none": None, "x": "y"}}})],
        "PersistentVolume": [{"spec": {"accessModes": ["ReadWriteMany"]}}, {"spec": {"capacity": {"storage": "2Gi"}}}, {"spec": {"mountOptions": ["ro"], "storageClassName": "x"}}],
    }.get(kind, [])


def random_patches(count):
    """Of the environment of a container: any valid patch of a merged list."""
    dice = random.Random(36)
    for _ in range(count):
        keys = [key for key in "pqrstu" if dice.random() < 0.5]
        dice.shuffle(keys)
        env = [{"name": key, "$patch": "delete"} if dice.random() < 0.35 else {"name": key, "value": dice.choice("12")} for key in keys]
        patch = {"name": "a", "env": env}
        if dice.random() < 0.6:
            order = [item["name"] for item in env if "$patch" not in item]
            for key in "pqrstu":
                if key not in order and dice.random() < 0.5:
                    order.insert(dice.randint(0, len(order)), key)
            if dice.random() < 0.1:
                dice.shuffle(order)
            patch[ORDER + "env"] = names(*order)
        if dice.random() < 0.1:
            env.insert(dice.randint(0, len(env)), {"$patch": "replace"})
        yield {"spec": {"template": {"spec": {"containers": [patch]}}}}


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
        return response.status, json.loads(response.read())


def changes(old, new, at=""):
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return {} if old == new else {at: new}
    found = {}
    for key in sorted({*old, *new}):
        place = at + "/" + key.replace("~", "~0").replace("/", "~1")
        found.update(changes(old[key], new[key], place) if key in old and key in new else {place: new.get(key)})
    return found


def bare(found):
    found["metadata"].pop("managedFields", None)
    return found


def main():
    global REQUEST
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--request", required=True, help="a certificate request, PEM in base64")
    options = parser.parse_args()
    REQUEST = options.request
    server = Server(options.server, options.token)
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for kind, (name, version, plural, body) in kinds().items():
        root = "/apis/" + version if "/" in version else "/api/" + version
        path = root + ("" if kind in CLUSTER else "/namespaces/" + NAMESPACE) + "/" + plural
        code, made = server.ask("POST", path, {"apiVersion": version, "kind": kind, **body})
        if code not in (201, 409):
            sys.exit(f"{kind}: {made['message']}")
        live = bare(server.ask("GET", path + "/o")[1])
        print(json.dumps({"type": name, "object": live}, sort_keys=True))
        patches = own_patches(kind) + (ANY if kind in ("Deployment", "ServiceAccount") else ANY[::3])
        patches += random_patches(60) if kind == "Deployment" else []
        for patch in patches:
            query = "?dryRun=All&fieldValidation=Ignore"
            code, answer = server.ask("PATCH", path + "/o" + query, patch, "application/strategic-merge-patch+json")
            if code == 200:
                print(json.dumps({"patch": patch, "changes": changes(live, bare(answer))}, sort_keys=True))
            elif "is invalid" not in answer["message"] and "based on URL" not in answer["message"]:
                print(json.dumps({"patch": patch, "code": code, "message": answer["message"]}, sort_keys=True))
        server.ask("PATCH", path + "/o", {"metadata": {"finalizers": None, "ownerReferences": None}}, "application/merge-patch+json")
        server.ask("DELETE", path + "/o")


main()
