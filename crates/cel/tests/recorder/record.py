#!/usr/bin/env python3
"""Records expressions anew from the libraries of kube-apiserver, or compares them.

    record.py [--check] [NAME...]

NAMEs are files of ../recorded, without .jsonl; otherwise it is all of them. A new case is a line with
`expr` and `schema`. Needs Go, and the modules of go.mod or a way to them.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[3] / "tests"))
import recording  # noqa: E402

RECORDED = HERE.parent / "recorded"
# Upstream takes the keys of a map in any order, and costs and lists follow it: what is recorded is one of
# its answers, and stays if it comes again in as many tries.
TRIES = 40


def answers(recorder, cases):
    asked = "".join(json.dumps(case) + "\n" for case in cases)
    told = subprocess.run([recorder, RECORDED / "schemas.json"], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in told.stdout.splitlines()]


def changed(recorder, cases):
    """The places of cases that are answered differently in every try, each with its last answer."""
    found = dict.fromkeys(range(len(cases)))
    for _ in range(TRIES):
        if not found:
            break
        told = answers(recorder, [cases[at] for at in found])
        found = {at: answer for at, answer in zip(found, told) if answer != cases[at]}
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    differences = 0
    with tempfile.TemporaryDirectory() as folder:
        recorder = pathlib.Path(folder) / "recorder"
        subprocess.run(["go", "-C", HERE, "build", "-mod=readonly", "-buildvcs=false", "-o", recorder, "."], check=True)
        for name in options.names or sorted(path.stem for path in RECORDED.glob("*.jsonl")):
            path = RECORDED / (name + ".jsonl")
            cases = recording.read_lines(path)
            found = changed(recorder, cases)
            print("%s: %d cases, %d differ" % (name, len(cases), len(found)))
            for at, answer in found.items():
                print("%s: %s" % (cases[at]["expr"], recording.first_difference(cases[at], answer)))
                cases[at] = answer
            if not options.check:
                lines = (json.dumps(case, ensure_ascii=False, sort_keys=True) + "\n" for case in cases)
                path.write_text("".join(lines))
            differences += len(found)
    sys.exit(1 if options.check and differences else 0)


main()
