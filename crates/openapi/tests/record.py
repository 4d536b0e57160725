#!/usr/bin/env python3
"""Records the documents of kube-apiserver and what kubectl explains of them, or compares them.

    record.py --peer DIR [--check] [NAME...]

NAMEs are those of PARTS. The tests take documents apart and write them down (all/upstream.rs), so they are
run with the server's documents; what they say of ours is not looked at here. Needs cargo, and kubectl in DIR.
"""
import argparse
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.append(str(TESTS.parents[2] / "tests"))
from peer import TOKEN, Peer

DEFINITIONS = TESTS / "custom/definitions.yaml"
# A hang-guard.
PUBLISHED_SECONDS = 120


def documents(options, folder):
    with Peer(options.peer, []) as peer:
        fetch(peer, folder, lambda key: True)
    write_down("STERNPOST_ORACLE_OPENAPI", folder, "upstream::")


def custom(options, folder):
    with Peer(options.peer, []) as peer:
        kubectl = [options.peer.resolve() / "kubectl", "--kubeconfig", kubeconfig(peer, folder)]
        applied = subprocess.run([*kubectl, "apply", "--server-side", "-o", "json", "-f", DEFINITIONS], stdout=subprocess.PIPE, check=True)
        specs = [definition["spec"] for definition in json.loads(applied.stdout)["items"]]
        wanted = {"apis/%s/%s" % (spec["group"], version["name"]) for spec in specs for version in spec["versions"] if version["served"]}
        end = time.monotonic() + PUBLISHED_SECONDS
        while not wanted <= set(get(peer, "/openapi/v3")["paths"]) and time.monotonic() < end:
            time.sleep(0.5)
        # The other document follows; all that is to come has come when it stays the same.
        before = None
        while before != (now := get(peer, "/openapi/v2")) and time.monotonic() < end:
            before = now
            time.sleep(5)
        fetch(peer, folder, lambda key: "docs" in key)
    write_down("STERNPOST_ORACLE_CUSTOM", folder, "custom::")


def explained(part):
    def record(options, folder):
        environment = {**os.environ, "PATH": "%s:%s" % (options.peer.resolve(), os.environ["PATH"])}
        command = [sys.executable, TESTS / "explain/record.py", part]
        if part == "odd":
            subprocess.run(command, env=environment, check=True)
            return
        with Peer(options.peer, []) as peer:
            subprocess.run([*command, kubeconfig(peer, folder)], env=environment, check=True, stdout=subprocess.DEVNULL)

    return record


def get(peer, path):
    request = urllib.request.Request(peer.url + path, headers={"Authorization": "Bearer " + TOKEN, "Accept": "application/json"})
    with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=60) as response:
        return json.load(response)


def fetch(peer, folder, is_wanted):
    pathlib.Path(folder, "v2.json").write_text(json.dumps(get(peer, "/openapi/v2")))
    pathlib.Path(folder, "v3").mkdir()
    for key, document in get(peer, "/openapi/v3")["paths"].items():
        if is_wanted(key):
            text = json.dumps(get(peer, document["serverRelativeURL"]))
            pathlib.Path(folder, "v3", key.replace("/", "__") + ".json").write_text(text)


def write_down(variable, folder, tests):
    environment = {**os.environ, variable: folder, "STERNPOST_RECORD": "1"}
    command = ["cargo", "test", "--locked", "--package", "sternpost-openapi", "--test", "all", "--", tests]
    subprocess.run(command, cwd=TESTS, env=environment, stdout=subprocess.DEVNULL)


def kubeconfig(peer, folder):
    cluster = {"server": peer.url, "insecure-skip-tls-verify": True}
    path = pathlib.Path(folder, "kubeconfig")
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "peer",
        "clusters": [{"name": "peer", "cluster": cluster}], "users": [{"name": "peer", "user": {"token": TOKEN}}],
        "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": "peer"}}],
    }))
    return path


# How each is recorded, and which files that writes.
PARTS = {
    "documents": (documents, ["recorded/v2.txt", "recorded/v3.txt"]),
    "custom": (custom, ["recorded/custom-v2.txt", "recorded/custom-v3.txt"]),
    **{"explain-" + part: (explained(part), ["explain/%s.txt" % part]) for part in ("odd", "crd", "kinds", "custom")},
}


def lines_that_differ(before, now):
    recorded, found = set(before.splitlines()), set(now.splitlines())
    return sorted("recorded " + line for line in recorded - found) + sorted("now      " + line for line in found - recorded)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True, type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    different = 0
    for name in options.names or PARTS:
        record, files = PARTS[name]
        before = {file: (TESTS / file).read_bytes() for file in files}
        for file in files:
            # So that what is not written is not taken for the same.
            (TESTS / file).unlink()
        try:
            with tempfile.TemporaryDirectory() as folder:
                record(options, folder)
            for file in files:
                now = (TESTS / file).read_bytes()
                if now != before[file]:
                    different += 1
                    for line in lines_that_differ(before[file].decode(), now.decode())[:20]:
                        print("  " + line)
                print("%s: %d lines, %s" % (file, now.count(b"\n"), "the same" if now == before[file] else "differs"), flush=True)
        finally:
            for file, text in before.items():
                if options.check or not (TESTS / file).exists():
                    (TESTS / file).write_bytes(text)
    sys.exit(1 if options.check and different else 0)


main()
