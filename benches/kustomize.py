#!/usr/bin/env python3
"""What a build costs: `sternpost build` beside `kustomize build` on the same
kustomizations, in one run; a Markdown table.

    kustomize.py --sternpost BINARY [--kustomize BINARY] [--rounds N] [--limit SECONDS] [--only TEXT]

Both must give the same bytes. Wall and CPU time are the least of the rounds,
memory is the peak. A build of kustomize that takes longer than the limit is cut,
and so are its larger ones. A second table shows how the cost of sternpost grows
with the number of objects. Linux only; needs nothing but Python 3.9.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

OWN_LIMIT_SECONDS = 300
GROWTH = (1_000, 10_000, 100_000)

DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: d{n}
spec:
  selector:
    matchLabels:
      app: d{n}
  template:
    metadata:
      labels:
        app: d{n}
    spec:
      containers:
      - name: main
        image: image{m}:1.20
        env:
        - name: A
          valueFrom:
            configMapKeyRef:
              name: c{n}
              key: k
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{n}\ndata:\n  k: v{n}\n  l: some longer text that goes on\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata:\n  name: s{n}\nspec:\n  ports:\n  - port: 80\n  selector:\n    app: d{n}\n"
ALL = "namePrefix: p-\nnamespace: prod\nlabels:\n- pairs: {team: x}\n  includeSelectors: true\n"


def mixed(count):
    kinds = [DEPLOYMENT, CONFIG_MAP, SERVICE]
    return "---\n".join(kinds[n % 3].format(n=n // 3, m=n % 50) for n in range(count))


def strategic(numbers):
    entry = "- patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {{name: d{n}}}\n    spec: {{replicas: 3}}\n"
    return "".join(entry.format(n=n) for n in numbers)


def json_patches(count):
    entry = '- target: {{kind: Deployment, name: d{n}}}\n  patch: \'[{{"op": "add", "path": "/spec/paused", "value": true}}]\'\n'
    return "".join(entry.format(n=n) for n in range(count))


def replacements(count):
    entry = "- source: {{kind: ConfigMap, name: c{n}, fieldPath: data.k}}\n  targets:\n  - select: {{kind: Deployment, name: d{n}}}\n    fieldPaths: [spec.template.metadata.labels.app]\n"
    return "".join(entry.format(n=n) for n in range(count))


def definitions(count, fields, description):
    """An OpenAPI document as large as a cluster's with many custom resources, and the type of one of them."""
    described = {"description": description} if description else {}
    found = {}
    for n in range(count):
        held = {f"field{m}": {"type": "string", **described} for m in range(fields)}
        # A list of objects, a map and a reference, as real ones have beside their texts.
        held["list"] = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
        held["map"] = {"type": "object", "additionalProperties": {"type": "string"}}
        held["other"] = {"$ref": f"#/definitions/com.example.v1.Kind{n // 2}", **described}
        kind = [{"group": "example.com", "version": "v1", "kind": f"Kind{n}"}]
        found[f"com.example.v1.Kind{n}"] = {"type": "object", "properties": held, "x-kubernetes-group-version-kind": kind}
    keys = {"x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}
    items = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}, **keys}
    found["com.example.v1.Kind0"]["properties"]["items"] = items
    return json.dumps({"swagger": "2.0", "info": {"title": "all", "version": "v1"}, "paths": {}, "definitions": found})


DESCRIPTION = "what this field is for and what it does if it is not set, at some length. " * 4
CUSTOM = "apiVersion: example.com/v1\nkind: Kind0\nmetadata:\n  name: k\nitems:\n- name: a\n  value: x\n- name: b\n  value: y\n"
CUSTOM_PATCH = "apiVersion: example.com/v1\nkind: Kind0\nmetadata: {name: k}\nitems:\n- name: b\n  value: z\n"


def one(objects, kustomization):
    return {"kustomization.yaml": "resources: [all.yaml]\n" + kustomization, "all.yaml": objects}


def cases():
    """Names and files; each has a kustomization.yaml at its top."""
    images = "images: [{name: image1, newTag: '2'}]\n"
    yield "small: 1 Deployment, 1 patch", one(DEPLOYMENT.format(n=0, m=0), "patches:\n" + strategic([0]))
    yield "900 objects: prefix, namespace, labels, images, 30 patches", one(
        mixed(900), ALL + images + "patches:\n" + strategic(range(30)))
    for count in (1_000, 5_000, 20_000):
        yield f"(a) {count:,} objects, plain", one(mixed(count), "")
    for count in (1_000, 5_000, 20_000):
        yield f"(b) {count:,} objects: prefix, namespace, labels", one(mixed(count), ALL)
    # Three levels: the root, 200 overlays, and the base that all of them have.
    diamond = {"kustomization.yaml": "resources:\n" + "".join(f"- o{n}\n" for n in range(200))}
    for n in range(200):
        diamond[f"o{n}/kustomization.yaml"] = f"resources: [../base]\nnameSuffix: '-x{n}'\n"
    diamond["base/kustomization.yaml"] = "resources: [a.yaml]\nnamePrefix: b-\n"
    diamond["base/a.yaml"] = mixed(3)
    yield "(c) 200 overlays of one base", diamond
    yield "(d) 1,000 objects, 200 strategic and 200 JSON patches", one(
        mixed(1000), "patches:\n" + strategic(range(200)) + json_patches(200))
    many_images = "images:\n" + "".join(f"- {{name: image{n}, newTag: '2'}}\n" for n in range(50))
    deployments = "---\n".join(DEPLOYMENT.format(n=n, m=n % 50) for n in range(2000))
    yield "(e) 2,000 Deployments, 50 images", one(deployments, many_images)
    yield "(f) 1,000 objects, 200 replacements", one(mixed(1000), "replacements:\n" + replacements(200))
    large = {"kustomization.yaml": "configMapGenerator: [{name: large, files: [data.txt]}]\n"}
    large["data.txt"] = "0123456789abcdef line of text\n" * 35_000
    yield "(g) 1 MB ConfigMap", large
    yield "(h) cold start: 1 Deployment, 1 patch in a file", one(
        DEPLOYMENT.format(n=0, m=0), "patches: [{path: patch.yaml}]\n") | {"patch.yaml": PATCH}
    for letter, description, schema in (
            ("i", "most of it descriptions", definitions(1000, 28, DESCRIPTION)),
            ("j", "without descriptions", definitions(3000, 95, ""))):
        yield f"({letter}) openapi.path of {len(schema) / 1e6:.0f} MB, {description}", one(
            CUSTOM, "openapi: {path: schema.json}\npatches: [{path: patch.yaml}]\n") | {
            "patch.yaml": CUSTOM_PATCH, "schema.json": schema}


PATCH = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d0}\nspec:\n  template:\n    spec:\n      containers:\n      - name: main\n        image: image0:2\n"


def run(program, folder, output, limit):
    """Wall seconds, CPU seconds, peak memory in MB; nothing if it takes longer than the limit."""
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
        os.execv(program, [program, "build", folder])
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        wall = time.monotonic() - started
        if done:
            break
        if wall > limit:
            os.kill(pid, 9)
            os.wait4(pid, 0)
            return None
        time.sleep(0.0005)
    if status:
        sys.exit(f"{program} build {folder}: status {status}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def least(program, folder, output, rounds, limit):
    best = None
    for _ in range(rounds):
        measured = run(program, folder, output, limit)
        if measured is None:
            return None
        best = measured if best is None else tuple(map(min, best, measured))
        if best[0] > 5:
            break
    return best


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def beside(ours, theirs, limit):
    """The peer's columns and the ratios."""
    if theirs is None:
        return [f"more than {limit}", "", "", f"> {limit / ours[0]:.0f}×", "", ""]
    times = [f"{theirs[0] / ours[0]:.0f}×", f"{theirs[1] / ours[1]:.0f}×", f"{theirs[2] / ours[2]:.1f}×"]
    return [*(f"{value:.3f}" for value in theirs[:2]), f"{theirs[2]:.0f}", *times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sternpost", required=True)
    parser.add_argument("--kustomize", default=os.environ.get("KUSTOMIZE"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=60, help="seconds that kustomize may take for a build")
    parser.add_argument("--only", default="", help="only builds whose name contains this")
    arguments = parser.parse_args()
    sternpost = os.path.abspath(arguments.sternpost)
    print("| build | sternpost: wall s | CPU s | MB | kustomize: wall s | CPU s | MB | wall | CPU | memory |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    slow = set()
    with tempfile.TemporaryDirectory() as folder:
        outputs = [str(pathlib.Path(folder) / program) for program in ("ours", "theirs")]
        for number, (name, files) in enumerate(cases()):
            if arguments.only not in name:
                continue
            root = pathlib.Path(folder) / str(number)
            write(root, files)
            ours = least(sternpost, str(root), outputs[0], arguments.rounds, OWN_LIMIT_SECONDS)
            if ours is None:
                sys.exit(f"{name}: no answer in {OWN_LIMIT_SECONDS} s")
            row = [name, *(f"{value:.3f}" for value in ours[:2]), f"{ours[2]:.0f}"]
            if not arguments.kustomize:
                row += [""] * 6
            else:
                # What was too slow for fewer objects is for more.
                letter = name.split(" ")[0]
                theirs = None
                if letter not in slow:
                    theirs = least(
                        os.path.abspath(arguments.kustomize), str(root), outputs[1], arguments.rounds, arguments.limit)
                if theirs is None:
                    slow.add(letter)
                elif pathlib.Path(outputs[0]).read_bytes() != pathlib.Path(outputs[1]).read_bytes():
                    sys.exit(f"{name}: the bytes differ")
                row += beside(ours, theirs, arguments.limit)
            print("| " + " | ".join(row) + " |", flush=True)
        if arguments.only:
            return
        print("\n| objects: prefix, namespace, labels | wall s | CPU s | MB | CPU µs an object |")
        print("|---|---|---|---|---|")
        for count in GROWTH:
            root = pathlib.Path(folder) / f"growth{count}"
            write(root, one(mixed(count), ALL))
            ours = least(sternpost, str(root), outputs[0], arguments.rounds, OWN_LIMIT_SECONDS)
            if ours is None:
                sys.exit(f"{count} objects: no answer in {OWN_LIMIT_SECONDS} s")
            print(f"| {count:,} | {ours[0]:.3f} | {ours[1]:.3f} | {ours[2]:.0f} | {ours[1] / count * 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()
