#!/usr/bin/env python3
"""What a build costs: `sternpost build` beside `kustomize build` on the same
kustomizations, in one run; a Markdown table.

    kustomize.py --sternpost BINARY [--kustomize BINARY] [--rounds N] [--many N]

Both must give the same bytes. Wall and CPU time are the least of the rounds,
memory is the peak. Linux only; needs nothing but Python 3.9.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time

LIMIT_SECONDS = 120  # what takes longer for the peer is left out

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


def cases(many):
    """Names and files; each has a kustomization.yaml at its top."""
    def one(objects, kustomization):
        return {"kustomization.yaml": "resources: [all.yaml]\n" + kustomization, "all.yaml": objects}

    yield "1 Deployment with a patch (cold start)", one(DEPLOYMENT.format(n=0, m=0), "patches:\n" + strategic([0]))
    images = "images: [{name: image1, newTag: '2'}]\n"
    for count in (901, 3001):
        yield f"{count} objects: prefix, namespace, labels, images, 30 patches", one(
            mixed(count), ALL + images + "patches:\n" + strategic(range(30)))
    for count in (1000, 5000):
        yield f"{count} objects, plain", one(mixed(count), "")
    diamond = {"kustomization.yaml": "resources:\n" + "".join(f"- o{n}\n" for n in range(200))}
    for n in range(200):
        diamond[f"o{n}/kustomization.yaml"] = f"resources: [../base]\nnameSuffix: '-x{n}'\n"
    diamond["base/kustomization.yaml"] = "resources: [a.yaml]\nnamePrefix: b-\n"
    diamond["base/a.yaml"] = mixed(3)
    yield "200 overlays of one base", diamond
    yield "1,000 objects, 200 strategic and 200 JSON patches", one(
        mixed(1000), "patches:\n" + strategic(range(200)) + json_patches(200))
    many_images = "images:\n" + "".join(f"- {{name: image{n}, newTag: '2'}}\n" for n in range(50))
    yield "1,000 objects, 50 images", one(mixed(1000), many_images)
    yield "1,000 objects, 200 replacements", one(mixed(1000), "replacements:\n" + replacements(200))
    large = {"kustomization.yaml": "configMapGenerator: [{name: large, files: [data.txt]}]\n"}
    large["data.txt"] = "0123456789abcdef line of text\n" * 35_000
    yield "1 MB ConfigMap", large
    if many:
        yield f"{many:,} objects: prefix, namespace, labels", one(mixed(many), ALL)


def run(program, folder, output):
    """Wall seconds, CPU seconds, peak memory in MB."""
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
        if wall > LIMIT_SECONDS:
            os.kill(pid, 9)
            os.wait4(pid, 0)
            return None
        time.sleep(0.0005)
    if status:
        sys.exit(f"{program} build {folder}: status {status}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def least(program, folder, output, rounds):
    best = None
    for _ in range(rounds):
        measured = run(program, folder, output)
        if measured is None:
            return None
        best = measured if best is None else tuple(map(min, best, measured))
        if best[0] > 5:
            break
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sternpost", required=True)
    parser.add_argument("--kustomize")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=0)
    arguments = parser.parse_args()
    print("| build | sternpost: wall s | CPU s | MB | kustomize: wall s | CPU s | MB | wall | CPU |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, files) in enumerate(cases(arguments.many)):
            root = pathlib.Path(folder) / str(number)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            outputs = [str(pathlib.Path(folder) / program) for program in ("ours", "theirs")]
            ours = least(os.path.abspath(arguments.sternpost), str(root), outputs[0], arguments.rounds)
            if ours is None:
                sys.exit(f"{name}: no answer in {LIMIT_SECONDS} s")
            row = [name, *(f"{value:.3f}" for value in ours[:2]), f"{ours[2]:.0f}"]
            if arguments.kustomize:
                theirs = least(os.path.abspath(arguments.kustomize), str(root), outputs[1], arguments.rounds)
                if theirs is None:
                    row += [f"> {LIMIT_SECONDS}", "", "", "", ""]
                else:
                    row += [*(f"{value:.3f}" for value in theirs[:2]), f"{theirs[2]:.0f}"]
                    row += [f"{theirs[0] / ours[0]:.0f}×", f"{theirs[1] / ours[1]:.0f}×"]
                    if pathlib.Path(outputs[0]).read_bytes() != pathlib.Path(outputs[1]).read_bytes():
                        sys.exit(f"{name}: the bytes differ")
            else:
                row += [""] * 5
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
