#!/usr/bin/env python3
"""What judging manifests costs: `sternpost validate` beside kubeconform and kubectl-validate, which check less.

    validate.py --sternpost BINARY [--kubeconform BINARY] [--kubectl-validate BINARY] [--objects N] [--rounds N]

All judge the same files: ConfigMaps, Services and Deployments, a hundred in each file. Wall and
CPU time are the least of the rounds and include the start of the program. kubeconform gets the
schemas of these kinds as files, taken from sternpost's own OpenAPI documents; kubectl-validate has
its own. Linux only; needs nothing but Python 3.9.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

IN_A_FILE = 100
KINDS = {"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1"}
OBJECTS = (
    """apiVersion: v1
kind: ConfigMap
metadata:
  name: settings-{0}
  labels: {{app: shop-{0}}}
data:
  level: info
  address: 0.0.0.0:8080
""",
    """apiVersion: v1
kind: Service
metadata:
  name: web-{0}
  labels: {{app: shop-{0}}}
spec:
  selector: {{app: shop-{0}}}
  ports:
  - name: http
    port: 80
    targetPort: 8080
""",
    """apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{0}
  labels: {{app: shop-{0}}}
spec:
  replicas: 2
  selector:
    matchLabels: {{app: shop-{0}}}
  template:
    metadata:
      labels: {{app: shop-{0}}}
    spec:
      containers:
      - name: web
        image: registry.example/web:1.2.3
        ports:
        - containerPort: 8080
        resources:
          requests: {{cpu: 100m, memory: 64Mi}}
        envFrom:
        - configMapRef: {{name: settings-{0}}}
""",
)


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="sternpost-validate-") as name:
        folder = pathlib.Path(name)
        manifests = write_manifests(folder / "manifests", arguments.objects)
        programs = {"sternpost validate": [arguments.sternpost, "validate", "-q", str(manifests)]}
        if arguments.kubeconform:
            place = write_schemas(arguments.sternpost, folder / "schemas")
            programs["kubeconform"] = [arguments.kubeconform, "-n", str(os.cpu_count()), "-schema-location", place, str(manifests)]
        if arguments.kubectl_validate:
            programs["kubectl-validate"] = [arguments.kubectl_validate, str(manifests)]
        print("%s objects in files of %d" % (format(arguments.objects, ","), IN_A_FILE))
        print("| | wall s | CPU s | MB | objects a second | × slower |")
        print("|---|--:|--:|--:|--:|--:|")
        own = None
        for title, command in programs.items():
            wall, cpu, memory = least(command, arguments.rounds)
            own = own or wall
            print("| %s | %.2f | %.2f | %d | %s | %.1f |" % (
                title, wall, cpu, memory, format(round(arguments.objects / wall), ","), wall / own))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY")
    parser.add_argument("--kubeconform", metavar="BINARY")
    parser.add_argument("--kubectl-validate", metavar="BINARY")
    parser.add_argument("--objects", type=int, default=30_000, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    return parser.parse_args()


def write_manifests(folder, count):
    folder.mkdir()
    for start in range(0, count, IN_A_FILE):
        numbers = range(start, min(start + IN_A_FILE, count))
        texts = (OBJECTS[number % len(OBJECTS)].format(number // len(OBJECTS)) for number in numbers)
        (folder / ("%06d.yaml" % start)).write_text("---\n".join(texts))
    return folder


def write_schemas(sternpost, folder):
    """A file a kind that refers to nothing outside of it."""
    folder.mkdir()
    command = [sternpost, "run", "--", sternpost, "openapi", "fetch", "v1", "apps/v1", "--no-cache"]
    document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    schemas = document["components"]["schemas"]
    for kind, version in KINDS.items():
        group, _, number = version.rpartition("/")
        wanted = {"group": group, "version": number, "kind": kind}
        name = next(name for name, schema in schemas.items() if wanted in schema.get("x-kubernetes-group-version-kind", []))
        root = {"$ref": "#/components/schemas/" + name, "components": {"schemas": schemas}}
        (folder / (kind.lower() + ".json")).write_text(json.dumps(root))
    return str(folder) + "/{{ .ResourceKind }}.json"


def least(command, rounds):
    figures = []
    for _ in range(rounds):
        started = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit("%s failed:\n%s" % (command[0], output[-2000:].decode(errors="replace")))
        figures.append((wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024))
    return tuple(min(column) for column in zip(*figures))


if __name__ == "__main__":
    main()
