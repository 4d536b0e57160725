#!/usr/bin/env python3
"""Writes the answers that tests/explain.rs compares with, by asking kubectl.

    record.py odd                 odd.txt: kubectl on odd.json, served as a cluster would
    record.py crd KUBECONFIG      crd.txt: kubectl on ships.yaml, applied to a real kube-apiserver
    record.py kinds KUBECONFIG    kinds.txt: every kind of that server, and fields of each
    record.py custom KUBECONFIG   custom.txt: the same of ../custom/definitions.yaml

Upstream's prose is not kept: crd.txt has hashes in its place, kinds.txt and custom.txt
one hash an answer. odd.txt is verbatim; every word in it is ours.
"""

import hashlib
import http.server
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[3] / "tests" / "clients"))
import normalise  # noqa: E402

FIELDS_A_KIND = 5


def main():
    what = sys.argv[1]
    with tempfile.TemporaryDirectory() as cache:
        base = ["kubectl", "--cache-dir", cache]
        if what == "odd":
            odd(base)
        else:
            base += ["--kubeconfig", sys.argv[2]]
            {"crd": crd, "kinds": kinds, "custom": custom}[what](base)


def odd(base):
    document = json.loads((HERE / "odd.json").read_text())
    address = serve(document)
    base = base + ["--kubeconfig", "/dev/null", "--server", address]
    names = sorted(document["components"]["schemas"]["com.example.v1.Odd"]["properties"])
    commands = ["odds", "odds --recursive", "odds.nowhere", "odds.map.nowhere"]
    for name in names:
        commands += [f"odds.{name}", f"odds.{name} --recursive"]
    write("odd.txt", commands, lambda command: verbatim(*ask(base, command)))


def crd(base):
    subprocess.run(base + ["apply", "-f", str(HERE / "ships.yaml")], check=True)
    time.sleep(5)
    paths = ["", ".metadata", ".spec", ".spec.rig", ".spec.cargo", ".spec.crew", ".spec.log", ".spec.draught", ".spec.nope"]
    commands = [f"{name}{path}" for name in ("ships", "shp") for path in paths]
    commands += ["Ship --recursive", "ship.spec --recursive"]
    commands += [f"ships{path} --api-version=sea.example.com/v1beta1" for path in ("", " --recursive")]
    try:
        write("crd.txt", commands, lambda command: hashed(*ask(base, command)))
    finally:
        subprocess.run(base + ["delete", "-f", str(HERE / "ships.yaml")], check=True)


def kinds(base):
    random.seed(36)
    lines = []
    for version in run(base + ["api-versions"])[1].split():
        group = version.rpartition("/")[0]
        for name in run(base + ["api-resources", "-o", "name", f"--api-group={group}"])[1].split():
            plural = name.split(".")[0]
            flag = f" --api-version={version}"
            recursive = ask(base, f"{plural}{flag} --recursive")[1]
            paths = random.sample(paths_of(recursive), min(FIELDS_A_KIND, len(paths_of(recursive))))
            commands = [plural + flag, f"{plural}{flag} --recursive"]
            commands += [".".join([plural, *path]) + flag for path in paths]
            for command in commands:
                text = "\n".join(normalise.explain(ask(base, command)[1]))
                lines.append(f"{command}\t{hashlib.sha256(text.encode()).hexdigest()[:16]}\n")
    (HERE / "kinds.txt").write_text("".join(lines))


def custom(base):
    random.seed(36)
    file = str(HERE.parent / "custom" / "definitions.yaml")
    applied = run(base + ["apply", "--server-side", "-f", file, "-o", "json"])[1]
    time.sleep(5)
    lines = []
    try:
        for crd in json.loads(applied)["items"]:
            spec = crd["spec"]
            for version in (version["name"] for version in spec["versions"] if version["served"]):
                plural, flag = spec["names"]["plural"], f" --api-version={spec['group']}/{version}"
                recursive = ask(base, f"{plural}{flag} --recursive")[1]
                # kubectl splits at dots and blanks.
                paths = [path for path in paths_of(recursive) if all(name and not set(name) & set(" ./") for name in path)]
                own = [path for path in paths if path[0] not in ("apiVersion", "kind", "metadata")]
                asked = random.sample(own, min(FIELDS_A_KIND, len(own)))
                # Where authors have rules about the fields of every object.
                asked += [path for path in paths if plural == "authors" and path[-1] in ("metadata", "kind", "name")]
                asked += [path for path in paths if path[0] == "restricted" and len(path) == 2]
                commands = [plural + flag, f"{plural}{flag} --recursive"]
                commands += [".".join([plural, *path]) + flag for path in asked]
                for command in commands:
                    text = "\n".join(normalise.explain(ask(base, command)[1]))
                    lines.append(f"{command}\t{hashlib.sha256(text.encode()).hexdigest()[:16]}\n")
    finally:
        subprocess.run(base + ["delete", "-f", file], check=True)
    (HERE / "custom.txt").write_text("".join(lines))


def paths_of(recursive):
    """All fields of a recursive answer, each with those above it."""
    paths, above = [], []
    for line in recursive.splitlines():
        name, tab, _ = line.partition("\t<")
        if tab:
            level = (len(name) - len(name.lstrip())) // 2
            above = above[: level - 1] + [name.strip()]
            # kubectl cannot be asked for `$ref`.
            if not any(part.startswith("$") for part in above):
                paths.append(above)
    return paths


def serve(document):
    """The little of a server that kubectl needs to explain the document's one kind."""
    answers = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [{
            "name": "example.com",
            "versions": [{"groupVersion": "example.com/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"}}]},
        "/apis/example.com/v1": {
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.com/v1",
            "resources": [{"name": "odds", "singularName": "odd", "kind": "Odd", "namespaced": False, "verbs": ["list"]}]},
        "/openapi/v3": {"paths": {"apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1"}}},
        "/openapi/v3/apis/example.com/v1": document,
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            answer = answers.get(self.path.split("?")[0])
            body = json.dumps(answer or {"kind": "Status"}).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def ask(base, command):
    code, output, error = run(base + ["explain", *command.split()])
    return code, output, [line for line in error.splitlines() if line.startswith("error: ")]


def run(arguments):
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    # Decoded by hand: text mode would turn "\r\n" into "\n".
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def verbatim(code, output, errors):
    return output + "".join(f"{line}\n" for line in errors)


def hashed(code, output, errors):
    return "".join(f"{line}\n" for line in normalise.explain(output) + errors)


def write(name, commands, answer):
    text = "".join(f"$ kubectl explain {command}\n{answer(command)}" for command in commands)
    (HERE / name).write_bytes(text.encode())


if __name__ == "__main__":
    main()
