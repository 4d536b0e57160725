#!/usr/bin/env python3
"""Records suites anew from the real programs, or compares them with what is recorded.

    tests/record.py                                        the suites
    tests/record.py SUITE --peer DIR [--check] [NAME...]   the same as cargo xtask record

DIR holds the programs: kube-apiserver and etcd, kustomize. Suites of MODULES have none: Go builds their
recorder from the modules that kube-apiserver is made of. Every recording has a fresh etcd and
kube-apiserver, which end with it. --check records nothing and fails if an answer is another one.
NAMEs are beginnings of scenarios (corpus) or words that the suite's own recorder takes.
Needs Linux, Python 3.9 and openssl.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

from peer import TOKEN, Peer

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORPUS = ROOT / "crates/sternpost/tests/corpus"
CRD = ROOT / "crates/crd/tests/recorded"
CEL = ROOT / "crates/cel/tests/recorder"
PATCH = ROOT / "crates/patch/tests/recorded"
WEBHOOKS = ROOT / "crates/sternpost/tests/webhooks"
REGISTRY = ROOT / "crates/registry/tests"
WIRE = ROOT / "crates/wire"
APPLY = ROOT / "crates/apply/tests/recorded"
METRICS = ROOT / "crates/sternpost/tests/metrics"
# What tests/corpus.rs starts sternpost with for the same scenario.
OPTIONAL = "AlwaysAdmit,AlwaysPullImages,DenyServiceExternalIPs,NamespaceExists,OwnerReferencesPermissionEnforcement"


def without_accounts():
    """No controller makes the accounts that pods would need."""
    return ["--disable-admission-plugins=ServiceAccount"]


def pauses(name):
    """What record.py says of caches that follow."""
    if name.startswith("admission_mutations") or "_policies" in name:
        return ["--pause", "0.1", "--settle", "1.2"]
    if name.startswith(("custom_", "definitions_")):
        return ["--settle", "0.7"]
    if name.startswith(("admission_", "authorization_")):
        return ["--pause", "0.15"]
    return []


def corpus(options):
    scenarios = [path for path in sorted(CORPUS.glob("*.jsonl")) if path.name.startswith(tuple(options.names or [""]))]
    if not scenarios:
        raise SystemExit("no scenario begins with " + " or ".join(options.names))
    failed = 0
    for path in scenarios:
        flags = [] if path.stem.startswith("admission_service_account") else without_accounts()
        if path.stem == "admission_optional":
            flags.append("--enable-admission-plugins=" + OPTIONAL)
        with Peer(options.peer, flags) as peer:
            command = [CORPUS / "record.py", "--server", peer.url, "--token", TOKEN, *pauses(path.stem)]
            command += ["--check"] if options.check else []
            print("%s: " % path.stem, end="", flush=True)
            failed += subprocess.run([sys.executable, *command, path]).returncode != 0
    return failed


def cel(options):
    command = [sys.executable, CEL / "record.py", *(["--check"] if options.check else []), *options.names]
    return subprocess.run(command).returncode


def crd(options):
    failed = 0
    for part in options.names or ["definitions", "objects", "names", "rule-definitions", "rule-objects"]:
        with Peer(options.peer, without_accounts()) as peer:
            environment = {**os.environ, "SERVER": peer.url, "TOKEN": TOKEN}
            command = [sys.executable, CRD / "record.py", *(["--check"] if options.check else []), part]
            failed += subprocess.run(command, env=environment).returncode != 0
    return failed


def patch(options):
    with Peer(options.peer, without_accounts()) as peer:
        command = [sys.executable, PATCH / "server.py", "--server", peer.url, "--token", TOKEN, "--request", certificate_request()]
        recorded = subprocess.run(command, stdout=subprocess.PIPE)
    if recorded.returncode != 0:
        return recorded.returncode
    if not options.check:
        (PATCH / "server.jsonl").write_bytes(recorded.stdout)
        return 0
    # The objects differ in ids and times; what patches did to them must not.
    answers = lambda text: [line for line in text.splitlines() if "object" not in json.loads(line)]
    before, now = answers((PATCH / "server.jsonl").read_text()), answers(recorded.stdout.decode())
    different = sum(one != other for one, other in zip(before, now)) + abs(len(before) - len(now))
    print("%d of %d answers differ" % (different, len(before)))
    return different


def metrics(options):
    with Peer(options.peer, without_accounts()) as peer:
        command = [sys.executable, METRICS / "record.py", "--server", peer.url, "--token", TOKEN]
        command += ["--check"] if options.check else []
        return subprocess.run([*command, METRICS / "requests.jsonl"]).returncode


def registry(options):
    with Peer(options.peer, without_accounts()) as peer:
        command = [sys.executable, REGISTRY / "record.py", "--server", peer.url, "--token", TOKEN, "--store", peer.store]
        command += ["--check"] if options.check else []
        return subprocess.run([*command, *options.names]).returncode


def certificate_request():
    """The one that was recorded, so that recording again does not change it."""
    for line in (PATCH / "server.jsonl").read_text().splitlines():
        recorded = json.loads(line)
        if recorded.get("type", "").endswith(".CertificateSigningRequest"):
            return recorded["object"]["spec"]["request"]
    raise SystemExit("server.jsonl has no CertificateSigningRequest")


def kustomize(options):
    command = [sys.executable, ROOT / "tests/kustomize/record.py", *(["--check"] if options.check else [])]
    for name in options.names[:1]:
        command += ["--only", name]
    return subprocess.run(command, env={**os.environ, "KUSTOMIZE": str(options.peer / "kustomize")}).returncode


def webhooks(options):
    refuse_check(options)
    users = 'oracle,admin,1,"system:masters"\nana,ana,ana-uid,"devs"\n'
    with Peer(options.peer, without_accounts(), users, "AlwaysAllow") as peer:
        command = [sys.executable, WEBHOOKS / "record.py", peer.url.removeprefix("https://"), *options.names]
        return subprocess.run(command).returncode


def library(name):
    """What Go's libraries answer; the modules are downloaded."""

    def record(options):
        command = [sys.executable, ROOT / "tests/libraries/record.py", *(["--check"] if options.check else [])]
        return subprocess.run([*command, *(options.names or [name])]).returncode

    return record


def discovery(options):
    with Peer(options.peer, without_accounts()) as peer:
        command = [sys.executable, ROOT / "crates/discovery/tests/record.py", "--server", peer.url, "--token", TOKEN]
        return subprocess.run([*command, *(["--check"] if options.check else [])]).returncode


def auth(options):
    command = [sys.executable, ROOT / "crates/auth/tests/record.py", "--peer", options.peer, *(["--check"] if options.check else [])]
    return subprocess.run([*command, *options.names]).returncode


def openapi(options):
    command = [sys.executable, ROOT / "crates/openapi/tests/record.py", "--peer", options.peer, *(["--check"] if options.check else [])]
    return subprocess.run([*command, *options.names]).returncode


def wire(options):
    """The test writes samples down, and what client-go makes of them."""
    failed = library("wire")(options)
    golden = WIRE / "tests/data/object"
    before = golden.read_bytes()
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tmp"
    test = ["cargo", "test", "--locked", "--package", "sternpost-wire", "--test", "object", "every_kind"]
    run_test = lambda what: subprocess.run(test, cwd=ROOT, env={**os.environ, "STERNPOST_RECORD": what}, stdout=subprocess.DEVNULL)
    run_test("samples")
    with open(folder / "object.samples") as samples, open(folder / "object.answers", "w") as answers:
        subprocess.run(["go", "run", "."], cwd=WIRE / "tests/record", stdin=samples, stdout=answers, check=True)
    run_test("goldens")
    now = golden.read_bytes()
    different = len(set(before.splitlines()) ^ set(now.splitlines()))
    print("%d samples, %d lines differ" % (now.count(b"\n"), different))
    if options.check:
        golden.write_bytes(before)
    return failed + (different if options.check else 0)


def apply(options):
    failed = library("apply")(options)
    with Peer(options.peer, without_accounts()) as peer:
        command = [sys.executable, APPLY / "server.py", "--server", peer.url, "--token", TOKEN]
        return failed + subprocess.run([*command, *(["--check"] if options.check else [])]).returncode


def refuse_check(options):
    if options.check:
        raise SystemExit("this suite's recorder cannot compare: record, and look at `git diff`")


SUITES = {
    "corpus": (corpus, "crates/sternpost/tests/corpus: requests and answers, a server a scenario"),
    "cel": (cel, "crates/cel/tests/recorded: expressions; needs Go, no peer"),
    "crd": (crd, "crates/crd/tests/recorded: definitions, objects, names, rules"),
    "patch": (patch, "crates/patch/tests/recorded/server.jsonl: strategic merge patches"),
    "metrics": (metrics, "crates/sternpost/tests/metrics: which series of /metrics a request adds to"),
    "registry": (registry, "crates/registry/tests: rules of kinds, tables, selectors"),
    "webhooks": (webhooks, "crates/sternpost/tests/webhooks: what webhooks are told, and what is made of it"),
    "kustomize": (kustomize, "crates/kustomize/tests/cases: builds and commands"),
    "discovery": (discovery, "crates/discovery/tests/data: documents"),
    "openapi": (openapi, "crates/openapi/tests: documents, explain; needs kubectl in DIR, and cargo"),
    "wire": (wire, "crates/wire/tests/data: protobuf of every kind and of documents; needs Go and cargo, no peer"),
    "auth": (auth, "crates/auth/tests/recorded: clients, front proxies, issuers, keys, tokens; needs Go too"),
    "apply": (apply, "crates/apply/tests/recorded: field sets, owners; needs Go too"),
    "yaml": (library("yaml"), "crates/yaml/tests/data: what is read and written; needs Go, no peer"),
    "meta": (library("meta"), "crates/meta/tests: quantities and selectors; needs Go, no peer"),
    "golang": (library("golang"), "crates/golang/tests/times.jsonl; needs Go, no peer"),
}
# Suites that need no program of --peer.
MODULES = ("cel", "golang", "meta", "wire", "yaml")


def main():
    if len(sys.argv) == 1:
        for name, (_, what) in SUITES.items():
            print("%-10s %s" % (name, what))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--peer", type=pathlib.Path, metavar="DIR", help="where the real programs are")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_intermixed_args()
    if options.peer is None and options.suite not in MODULES:
        parser.error("%s needs --peer DIR" % options.suite)
    sys.exit(1 if SUITES[options.suite][0](options) else 0)


if __name__ == "__main__":
    main()
