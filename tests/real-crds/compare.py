#!/usr/bin/env python3
"""Real definitions on a server: each is created, its samples too, explained and
deleted; every answer must be what a real kube-apiserver answers.

    compare.py KUBECTL KUBECONFIG FOLDER [--record] [SET...]

FOLDER is what fetch.py filled. Answers are compared with recorded/SET.tsv, or with
the server of ORACLE_KUBECONFIG, asked at the same time; --record writes the file
from KUBECONFIG. Recorded are codes and hashes, never other people's text.
"""

import base64
import concurrent.futures
import difflib
import hashlib
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

import yaml

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "clients"))

import checks  # noqa: E402
import normalise  # noqa: E402

DIGITS = 12
DIFF_LINES = 20
ESTABLISHED_SECONDS, PUBLISHED_SECONDS, DELETED_SECONDS, RETRY_SECONDS = 30, 120, 60, 10
REQUEST_SECONDS, KUBECTL_SECONDS = 60, 60
EXPLAINERS = 2
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUERY = "?fieldManager=real&fieldValidation=Warn"


def main():
    kubectl, kubeconfig, folder, *rest = sys.argv[1:]
    record = "--record" in rest
    wanted = [word for word in rest if word != "--record"]
    found = sorted(path.parent for path in pathlib.Path(folder).glob("*/complete"))
    sets = [path for path in found if not wanted or path.name in wanted]
    if not sets or len(sets) < len(wanted):
        sys.exit(f"sets are {', '.join(path.name for path in found)}")
    server, oracle = Server(kubeconfig), os.environ.get("ORACLE_KUBECONFIG")
    for path in sets:
        checks.part(record_set if record else compare_set, path, kubectl, server, oracle and Server(oracle))
    checks.finish()


def record_set(path, kubectl, server, _):
    answers = Round(path, kubectl, server).run()
    lines = ["\t".join((*key, answers[key].short())) for key in sorted(answers)]
    target = HERE / "recorded" / f"{path.name}.tsv"
    target.write_text("".join(f"{line}\n" for line in lines))
    refused = sum(answers[key].code >= 300 for key in answers)
    checks.check(answers, f"{path.name}: nothing was answered")
    print(f"{path.name}: {len(lines)} answers, {refused} of them refusals")


def compare_set(path, kubectl, server, oracle):
    start = time.monotonic()
    if oracle:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            rounds = [pool.submit(Round(path, kubectl, one).run) for one in (server, oracle)]
            answers, expected = [done.result() for done in rounds]
        same = {key: Both(answers.get(key), expected.get(key)) for key in answers | expected}
    else:
        answers = Round(path, kubectl, server).run()
        rows = (line.split("\t") for line in (HERE / "recorded" / f"{path.name}.tsv").read_text().splitlines())
        expected = {tuple(row[:-1]): row[-1] for row in rows}
        same = {key: Recorded(answers.get(key), expected.get(key)) for key in answers | expected}
    for key in sorted(same):
        checks.check(same[key].equal(), f"{path.name} {' '.join(key)}: {same[key].difference()}")
    print(f"{path.name}: {len(same)} answers in {time.monotonic() - start:.0f} s")


class Answer:
    """A code and what was said, in a form that two servers must agree on."""

    def __init__(self, code, text):
        self.code, self.text = code, text

    def short(self):
        return f"{self.code}:{hashlib.sha256(self.text.encode()).hexdigest()[:DIGITS]}"


class Both:
    def __init__(self, server, oracle):
        self.server, self.oracle = server, oracle

    def equal(self):
        return bool(self.server and self.oracle) and self.server.short() == self.oracle.short()

    def difference(self):
        if not self.server or not self.oracle:
            return "only one server was asked"
        texts = [f"{answer.code}\n{answer.text}".splitlines() for answer in (self.oracle, self.server)]
        lines = list(difflib.unified_diff(*texts, "oracle", "server", lineterm="", n=1))
        shown = [line[:400] for line in lines[:DIFF_LINES]] + ["..."] * (len(lines) > DIFF_LINES)
        return "".join(f"\n  {line}" for line in shown)


class Recorded:
    def __init__(self, server, recorded):
        self.server, self.recorded = server, recorded

    def equal(self):
        return bool(self.server) and self.server.short() == self.recorded

    def difference(self):
        if not self.server or not self.recorded:
            return "asked, but not recorded" if self.server else "recorded, but not asked"
        text = f": {self.server.text[:1000]}" if self.server.code >= 300 else ""
        return f"{self.server.short()}, expected {self.recorded}{text}"


class Round:
    """One set on one server, from the first definition to the last deletion."""

    def __init__(self, path, kubectl, server):
        self.kubectl, self.server = kubectl, server
        self.definitions = {file.stem: json.loads(file.read_text()) for file in sorted((path / "crds").glob("*.json"))}
        self.bodies = {name: (path / "crds" / f"{name}.yaml").read_bytes() for name in self.definitions}
        self.samples = sorted((path / "samples").glob("*.json"))
        self.answers, self.namespaces = {}, set()

    def run(self):
        self.remove()
        try:
            for name, body in self.bodies.items():
                self.create_definition(name, body)
            served = [name for name in self.definitions if self.established(name)]
            self.wait_until_published(served)
            for file in self.samples:
                self.create_sample(file)
            self.explain(served)
        finally:
            self.remove()
        return self.answers

    # Definitions

    def create_definition(self, name, body):
        answer = self.server.send("POST", DEFINITIONS + QUERY, body, "application/yaml")
        self.answers["crd", name] = answer_of(answer)

    def established(self, name):
        """Waits, and takes the definition as it is then."""
        if self.answers["crd", name].code >= 300:
            return False
        # Another controller says whether a protected group was approved, when it comes to it.
        protected = self.definitions[name]["spec"]["group"].endswith((".k8s.io", ".kubernetes.io"))
        wanted = {"Established"} | ({"KubernetesAPIApprovalPolicyConformant"} if protected else set())
        for _ in until(ESTABLISHED_SECONDS):
            answer = self.server.send("GET", f"{DEFINITIONS}/{name}")
            conditions = answer.json().get("status", {}).get("conditions") or []
            if wanted <= {one["type"] for one in conditions if one["type"] != "Established" or one["status"] == "True"}:
                self.answers["established", name] = answer_of(answer)
                return True
        self.answers["established", name] = Answer(504, "")
        return False

    def versions(self, names):
        for name in names:
            spec = self.definitions[name]["spec"]
            for version in spec["versions"]:
                if version.get("served"):
                    yield name, spec, version

    def wait_until_published(self, names):
        kinds = {}
        for _, spec, version in self.versions(names):
            kinds.setdefault((spec["group"], version["name"]), set()).add(spec["names"]["kind"])
        for (group, version), wanted in kinds.items():
            for _ in until(PUBLISHED_SECONDS):
                # Upstream's spelling; it does not know the parameter itself.
                answer = self.server.send("GET", f"/openapi/v3/apis/{group}/{version}?names=upstream")
                if answer.code == 200 and wanted <= own_kinds(answer.json(), group, version):
                    break
            text = document(answer.json(), group, version) if answer.code == 200 else ""
            self.answers["v3", f"{group}/{version}"] = Answer(answer.code, text)

    # Samples

    def create_sample(self, file):
        value = json.loads(file.read_text())
        body = file.with_suffix(".yaml").read_bytes()
        path = self.path_of(value)
        if path is None:
            return
        rehearsal = self.send_when_served(path + QUERY + "&dryRun=All", body)
        answer = self.send_when_served(path + QUERY, body)
        self.answers["sample", file.stem] = answer_of(answer)
        self.differing("dry-run", file.stem, rehearsal)
        if answer.code == 201:
            metadata = answer.json()["metadata"]
            one = f"{path}/{metadata['name']}"
            self.differing("get", file.stem, self.server.send("GET", one))
            if metadata.get("finalizers"):
                self.server.send("PATCH", one, b'{"metadata":{"finalizers":null}}', "application/merge-patch+json")
            self.server.send("DELETE", one)

    def differing(self, what, sample, response):
        """Takes an answer that is not that of creating; hardly any is, at upstream."""
        answer = answer_of(response)
        if answer.text != self.answers["sample", sample].text:
            self.answers[what, sample] = answer

    def path_of(self, value):
        group, _, version = value["apiVersion"].rpartition("/")
        for spec in (definition["spec"] for definition in self.definitions.values()):
            if (spec["group"], spec["names"]["kind"]) == (group, value["kind"]):
                metadata = value.get("metadata") or {}
                namespace = isinstance(metadata, dict) and metadata.get("namespace") or "default"
                if spec["scope"] == "Namespaced":
                    self.make_namespace(namespace)
                    return f"/apis/{group}/{version}/namespaces/{namespace}/{spec['names']['plural']}"
                return f"/apis/{group}/{version}/{spec['names']['plural']}"
        return None

    def make_namespace(self, name):
        if name != "default" and name not in self.namespaces:
            body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
            if self.server.send("POST", "/api/v1/namespaces", body).code == 201:
                self.namespaces.add(name)

    def send_when_served(self, path, body):
        """Upstream starts to serve a definition some time after it says so."""
        for _ in until(RETRY_SECONDS):
            answer = self.server.send("POST", path, body, "application/yaml")
            if answer.code not in (404, 429):
                break
        return answer

    # Explaining

    def explain(self, names):
        with tempfile.TemporaryDirectory() as cache, concurrent.futures.ThreadPoolExecutor(EXPLAINERS) as pool:
            jobs = {}
            for name, spec, version in self.versions(names):
                schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
                for path in ("", *explained_paths(schema)):
                    words = [f"{spec['names']['plural']}{path}", f"--api-version={spec['group']}/{version['name']}"]
                    words += ["--recursive"] * (path == "")
                    jobs["explain", name, version["name"], path or "."] = pool.submit(self.explain_one, cache, words)
            for key, job in jobs.items():
                self.answers[key] = job.result()

    def explain_one(self, cache, words):
        command = [self.kubectl, "--kubeconfig", self.server.kubeconfig, "--cache-dir", cache, "explain", *words]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=KUBECTL_SECONDS)
        except subprocess.TimeoutExpired:
            return Answer(504, "")
        if done.returncode:
            return Answer(500, done.stderr)
        return Answer(200, "\n".join(normalise.explain(done.stdout)))

    def remove(self):
        for name in self.definitions:
            self.server.send("DELETE", f"{DEFINITIONS}/{name}")
        for name in self.definitions:
            for _ in until(DELETED_SECONDS):
                if self.server.send("GET", f"{DEFINITIONS}/{name}").code == 404:
                    break
        for name in self.namespaces:
            self.server.send("DELETE", f"/api/v1/namespaces/{name}")
            # A lone kube-apiserver has nobody who would finalize it.
            left = self.server.send("GET", f"/api/v1/namespaces/{name}")
            if left.code == 200:
                body = left.json() | {"spec": {"finalizers": []}}
                self.server.send("PUT", f"/api/v1/namespaces/{name}/finalize", json.dumps(body).encode())
        self.namespaces.clear()


# What is compared


def answer_of(response):
    """Code, warnings and object or Status, without what no two servers agree on."""
    value = response.json()
    if value.get("kind") == "Status" and response.code >= 300:
        causes = sorted(json.dumps(cause, sort_keys=True) for cause in (value.get("details") or {}).get("causes") or [])
        # Upstream walks properties in no order, and so does a message of several causes.
        message = value.get("message") if len(causes) < 2 else ""
        value = {"reason": value.get("reason"), "message": message, "causes": causes}
    else:
        mask(value)
    return Answer(response.code, json.dumps({"object": value, "warnings": sorted(response.warnings)}, sort_keys=True, indent=1))


def mask(value):
    metadata = value.get("metadata") or {}
    for field in ("uid", "creationTimestamp", "resourceVersion"):
        metadata.pop(field, None)
    if "generateName" in metadata:
        metadata.pop("name", None)
    for entry in metadata.get("managedFields") or []:
        entry.pop("time", None)
    if value.get("kind") == "CustomResourceDefinition":
        conditions = value.get("status", {}).get("conditions") or []
        for condition in conditions:
            condition.pop("lastTransitionTime", None)
        # The server's own writes are raced for.
        metadata["managedFields"] = [entry for entry in metadata.get("managedFields") or [] if entry["manager"] == "real"]
        value["status"] = {"conditions": sorted(conditions, key=lambda one: one["type"])} | {
            name: part for name, part in value.get("status", {}).items() if name != "conditions"
        } if any(one["type"] == "Established" for one in conditions) else None


def own_kinds(value, group, version):
    """Kinds of this group-version that a document has a schema of."""
    kinds = set()
    for schema in value.get("components", {}).get("schemas", {}).values():
        for kind in schema.get("x-kubernetes-group-version-kind") or []:
            if (kind.get("group"), kind.get("version")) == (group, version):
                kinds.add(kind.get("kind"))
    return kinds


def document(value, group, version):
    """A v3 document. Descriptions of parameters, lists and built-in types are worded differently,
    and of the groups that DeleteOptions and WatchEvent are in upstream names all."""
    value.pop("info", None)
    value.pop("openapi", None)
    own = own_kinds(value, group, version)
    for schema in value.get("components", {}).get("schemas", {}).values():
        gvks = schema.get("x-kubernetes-group-version-kind") or []
        ours = any(kind.get("kind") in own and kind.get("group") == group for kind in gvks)
        for name in ("apiVersion", "kind", "metadata"):
            # The author's rules about these are lost upstream.
            schema.get("properties", {}).get(name, {}).pop("anyOf", None)
        if not ours:
            drop_descriptions(schema)
            schema.pop("x-kubernetes-group-version-kind", None)
        elif "items" in schema.get("properties", {}) and "metadata" in schema["properties"]:
            drop_descriptions(schema)
    for operations in value.get("paths", {}).values():
        drop_parameter_descriptions(operations)
        for operation in operations.values():
            # Upstream does not say it.
            if isinstance(operation, dict):
                operation.pop("deprecated", None)
    return json.dumps(value, sort_keys=True, indent=1)


def drop_descriptions(value):
    if isinstance(value, dict):
        if isinstance(value.get("description"), str):
            del value["description"]
        for part in value.values():
            drop_descriptions(part)
    elif isinstance(value, list):
        for part in value:
            drop_descriptions(part)


def drop_parameter_descriptions(value):
    if isinstance(value, dict):
        for part in value.get("parameters") or []:
            part.pop("description", None)
        for part in value.values():
            drop_parameter_descriptions(part)


def explained_paths(schema):
    """The deepest path, and one object chosen by hash."""
    paths = sorted(walk(schema, ""))
    if not paths:
        return []
    deepest = max(paths, key=lambda path: (path[0].count("."), path[0]))[0]
    inner = [path for path, is_object in paths if is_object] or [deepest]
    chosen = min(inner, key=lambda path: hashlib.sha256(path.encode()).hexdigest())
    return sorted({deepest, chosen})


def walk(schema, path):
    while "items" in schema and isinstance(schema["items"], dict):
        schema = schema["items"]
    for name, child in (schema.get("properties") or {}).items():
        # A name with a dot has no path; metadata is not the author's.
        if "." in name or name.startswith("-") or not path and name in ("apiVersion", "kind", "metadata"):
            continue
        below = f"{path}.{name}"
        yield below, bool(child.get("properties") or isinstance(child.get("items"), dict) and child["items"].get("properties"))
        yield from walk(child, below)


# The server


def until(seconds):
    """Turns of a loop until the time is up, slower as it goes."""
    start, pause = time.monotonic(), 0.02
    while True:
        yield
        if time.monotonic() - start > seconds:
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 1)


class Response:
    def __init__(self, code, warnings, body):
        self.code, self.warnings, self.body = code, warnings, body

    def json(self):
        try:
            value = json.loads(self.body)
        except ValueError:
            value = {"text": self.body.decode("utf-8", "replace")}
        return value if isinstance(value, dict) else {"value": value}


class Server:
    """One keep-alive connection per thread of use; a set is one thread."""

    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        config = yaml.safe_load(pathlib.Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url = urllib.parse.urlsplit(cluster["server"])
        self.headers = {"Authorization": f"Bearer {user['token']}"}
        self.tls = ssl.create_default_context()
        if "certificate-authority-data" in cluster:
            self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        else:
            self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.connection = None

    def send(self, method, path, body=None, media="application/json"):
        for attempt in (1, 2):
            try:
                return self.try_send(method, path, body, media)
            except (http.client.HTTPException, ConnectionError):
                self.connection = None
                if attempt == 2:
                    raise
        return None

    def try_send(self, method, path, body, media):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(
                self.url.hostname, self.url.port or 443, context=self.tls, timeout=REQUEST_SECONDS)
        headers = self.headers | ({"Content-Type": media} if body is not None else {})
        self.connection.request(method, urllib.parse.quote(path, safe="/?&=%:"), body, headers)
        response = self.connection.getresponse()
        return Response(response.status, response.headers.get_all("Warning") or [], response.read())


if __name__ == "__main__":
    main()
