"""Compares what the suites said on both sides.

    report.py RESULTS RECORDED [--record] PACKAGE...
"""
import json
import pathlib
import re
import sys

LINE = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \(", re.M)


def outcomes(folder):
    """Every test by name: passed, failed or skipped."""
    found = {}
    # Go's own tests; of those with subtests, only the innermost.
    log = (folder / "log").read_text(errors="replace")
    wrappers = suites(log)
    tests = {name: state for state, name in LINE.findall(log) if name not in wrappers}
    parents = {name.rsplit("/", 1)[0] for name in tests if "/" in name}
    words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
    for name, state in tests.items():
        if name not in parents or (state == "FAIL" and not failed_below(tests, name)):
            found[name] = words[state]
    # Ginkgo's, all of which are one test to Go.
    specs = folder / "specs.json"
    for suite in json.loads(specs.read_text()) if specs.exists() else []:
        for spec in suite.get("SpecReports") or []:
            name = " ".join([*(spec.get("ContainerHierarchyTexts") or []), spec.get("LeafNodeText") or ""])
            state = spec["State"]
            if spec["LeafNodeType"] != "It":
                # Preparations and clean-ups count only when they fail.
                if state in ("passed", "skipped", "pending"):
                    continue
                name = f"[{spec['LeafNodeType']}] {name}"
            word = {"passed": "passed", "skipped": "skipped", "pending": "skipped"}.get(state, "failed")
            while name in found:
                name += "'"
            found[name] = word
    if int((folder / "end").read_text().split()[0]) and "failed" not in found.values():
        found["the suite itself"] = "failed"
    return found


def suites(log):
    """The tests of Go that only run Ginkgo's."""
    names, running = set(), None
    for line in log.splitlines():
        if line.startswith("=== RUN "):
            running = line.split()[2]
        elif line.startswith("Running Suite:"):
            names.add(running)
    return names


def failed_below(tests, name):
    return any(state == "FAIL" and other.startswith(name + "/") for other, state in tests.items())


def counts(found):
    states = list(found.values())
    return states.count("passed"), states.count("passed") + states.count("failed")


def seconds(folder):
    return round(float((folder / "end").read_text().split()[1]))


def main(results, recorded, *packages):
    results, recorded = pathlib.Path(results), pathlib.Path(recorded)
    record = "--record" in packages
    known = {}
    if recorded.exists():
        for line in recorded.read_text().splitlines():
            if not line.startswith("#"):
                package, passed, total, took, *failing = line.split("\t")
                known[package] = (int(passed), int(total), int(took), [name for name in failing if name])
    bad, rows = 0, []
    for package in packages:
        if package == "--record":
            continue
        name = package.replace("/", "_")
        own = outcomes(results / "own" / name)
        peer_folder = results / "peer" / name
        if (peer_folder / "end").exists():
            peer = outcomes(peer_folder)
            failing = sorted(test for test, state in peer.items() if state == "failed")
            known[package] = (*counts(peer), seconds(peer_folder), failing)
        passed, total, took, failing = known.get(package, (0, 0, 0, []))
        rows.append((package, f"{passed}/{total}", took, "%d/%d" % counts(own), seconds(results / "own" / name)))
        for test, state in sorted(own.items()):
            if state == "failed" and test not in failing:
                bad += 1
                print(f"FAILED {package}: {test}")
        if sum(counts(own)) < passed + total and not any(state == "failed" for state in own.values()):
            bad += 1
            print(f"FAILED {package}: fewer tests ran than on the real one")
    print(f"{'package':36} {'real':>9} {'s':>5} {'sternpost':>10} {'s':>5}")
    for package, real, real_seconds, own, own_seconds in rows:
        print(f"{package:36} {real:>9} {real_seconds:5} {own:>10} {own_seconds:5}")
    if record:
        head = "# package, passed, total, seconds, and tests that fail, on kube-apiserver 1.36.4 and etcd 3.6\n"
        lines = ["\t".join([package, *map(str, row[:3]), *row[3]]) + "\n" for package, row in sorted(known.items())]
        recorded.write_text(head + "".join(lines))
    print(f"suite controller-runtime: {len(rows)} packages, {bad} tests FAILED that the real one passes" if bad
          else f"suite controller-runtime: {len(rows)} packages, passed")
    return 1 if bad else 0


sys.exit(main(*sys.argv[1:]))
