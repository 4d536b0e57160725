#!/usr/bin/env python3
"""Suites kubectl-current and kubectl-old: every command of kubectl_commands.txt
says what it says against a real kube-apiserver.

    kubectl.py SUITE KUBECTL KUBECONFIG [--record]

Compares with recorded/SUITE.txt; with ORACLE_KUBECONFIG set, with that server
itself, and then also explains every kind it serves.
"""

import difflib
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import normalise

HERE = pathlib.Path(__file__).parent
TIMEOUT_SECONDS = 60
DIFF_LINES = 30


def main():
    suite, kubectl, kubeconfig = sys.argv[1:4]
    recorded = HERE / "recorded" / f"{suite}.txt"
    commands = read_commands(suite)
    oracle_kubeconfig = os.environ.get("ORACLE_KUBECONFIG")
    with tempfile.TemporaryDirectory() as cache:
        server = Kubectl(kubectl, kubeconfig, f"{cache}/server")
        if "--record" in sys.argv[4:]:
            recorded.write_text("".join(section(c, server.answer(c)) for c in commands))
            print(f"checks {len(commands)} failed 0")
            return 0
        if oracle_kubeconfig:
            oracle = Kubectl(kubectl, oracle_kubeconfig, f"{cache}/oracle")
            commands += explain_every_kind(oracle)
            expected = {c: oracle.answer(c) for c in commands}
        else:
            expected = read_recorded(recorded)
        failed = sum(not same(c, server.answer(c), expected.get(c)) for c in commands)
        # A recorded answer that nothing asks for any more is a check lost.
        forgotten = sorted(set(expected) - set(commands))
        for command in forgotten:
            print(f"FAIL kubectl {command}: recorded, but not run")
    checks = len(commands) + len(forgotten)
    failed += len(forgotten)
    print(f"checks {checks} failed {failed}")
    return 1 if failed else 0


class Kubectl:
    """One kubectl on one server, with a cache of its own."""

    def __init__(self, binary, kubeconfig, cache):
        self.binary, self.kubeconfig, self.cache = binary, kubeconfig, cache

    def answer(self, command):
        """The lines to compare: exit code, output, and the error if it failed."""
        code, output, error = self.run(command)
        lines = [f"exit {code}"]
        if code:
            # Logged lines (E1115 ...) carry times; the message comes last.
            lines += [f"error: {line}".rstrip() for line in error.splitlines() if not is_log_line(line)]
        try:
            lines += normalised(shlex.split(command), output) if output else []
        except (KeyError, ValueError) as problem:
            lines += [f"cannot be read: {problem!r}"]
        return lines

    def run(self, command):
        arguments = [self.binary, "--kubeconfig", self.kubeconfig, "--cache-dir", self.cache]
        try:
            done = subprocess.run(
                arguments + shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return 124, "", f"no answer in {TIMEOUT_SECONDS} s"
        return done.returncode, done.stdout, done.stderr


def normalised(words, output):
    if words[0] == "explain":
        return normalise.explain(output)
    if words[0] == "version":
        return normalise.version(output)
    if words[:2] == ["get", "--raw"]:
        return normalise.raw(words[2], output)
    return [line.rstrip() for line in output.splitlines()]


def is_log_line(line):
    return len(line) > 5 and line[0] in "EWI" and line[1:5].isdigit()


def read_commands(suite):
    flavour = suite.removeprefix("kubectl-")
    commands = []
    for line in (HERE / "kubectl_commands.txt").read_text().splitlines():
        line = line.strip()
        first, _, rest = line.partition(" ")
        if first in ("current", "old"):
            if first != flavour:
                continue
            line = rest
        if line and not line.startswith("#"):
            commands.append(line)
    return commands


def explain_every_kind(oracle):
    """Commands for all resources of all versions: by hand twenty kinds, here the rest."""
    commands = []
    for version in oracle.run("api-versions")[1].split():
        group = version.rpartition("/")[0]
        _, names, _ = oracle.run(f"api-resources -o name --api-group={group}")
        for name in names.split():
            plural = name.split(".")[0]
            commands += [f"explain {plural} --api-version={version}{flag}" for flag in ("", " --recursive")]
    return commands


def section(command, lines):
    return f"$ kubectl {command}\n" + "".join(f"{line}\n" for line in lines) + "\n"


def read_recorded(path):
    answers = {}
    lines = None
    for line in path.read_text().splitlines():
        if line.startswith("$ kubectl "):
            lines = answers.setdefault(line.removeprefix("$ kubectl "), [])
        elif line:
            lines.append(line)
    return answers


def same(command, got, expected):
    if expected is None:
        print(f"FAIL kubectl {command}: nothing recorded")
        return False
    got, expected = [[line for line in lines if line] for lines in (got, expected)]
    if got == expected:
        return True
    print(f"FAIL kubectl {command}:")
    diff = list(difflib.unified_diff(expected, got, "expected", "server", lineterm="", n=2))
    for line in diff[:DIFF_LINES]:
        print(f"  {line}")
    if len(diff) > DIFF_LINES:
        print(f"  ... {len(diff) - DIFF_LINES} lines more")
    return False


if __name__ == "__main__":
    sys.exit(main())
