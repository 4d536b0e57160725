#!/usr/bin/env python3
"""What an operation costs by stage of the pipeline: instructions and allocations, counted by callgrind,
and system calls, counted by strace; or whether any of them rose beyond its budget.

    profile.py --sternpost BINARY [OPERATION...]            a table for each
    profile.py --sternpost BINARY --check [OPERATION...]    compares with budgets.tsv, fails on a rise
    profile.py --sternpost BINARY --write [OPERATION...]    writes budgets.tsv

The binary needs the names of its functions: the profiles `release` and `profile` keep them. Linux only; needs
Python 3.9, valgrind, and the client of benches/floor beside the binary. Without strace system calls are left
out, and the table says so.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import objects

BUDGETS = pathlib.Path(__file__).with_name("budgets.tsv")
NAMESPACE = "bench"
SETTLE_SECONDS = 15  # under valgrind; until what the server does on its own account is done
MAX_RISE = 0.05

# What is sent so often under callgrind, and what has to be there before: by which operation it is made.
OPERATIONS = {
    "get": (200, "create"),
    "list": (4, "create"),
    "page": (4, "create"),
    "create": (200, None),
    "update": (200, "create"),
    "merge": (200, "create"),
    "deploy": (60, None),
    "apply": (60, "deploy"),
    "strategic": (60, "deploy"),
    "define": (10, None),
}
MADE = {"list": 500, "page": 1000}

# The stages, by the function that is all of one, with what it calls. A stage within another one counts
# in both. Closures are what async functions become.
STAGES = {
    "all": None,
    "request": "sternpost_http::pipeline::answer::{{closure}}",
    "authentication": "sternpost_auth::authenticate::Authenticator::authenticate",
    "authorization": "sternpost_http::authorization::Rbac as sternpost_meta::authorize::Authorizer>::authorize",
    "routing": "sternpost_http::objects::handler::route",
    "handler": "sternpost_http::objects::respond::{{closure}}",
    "body": "sternpost_http::objects::body_in::object",
    "managed fields": "sternpost_verbs::ownership::",
    "mutating admission": "sternpost_verbs::admission::mutate",
    "validating admission": "sternpost_verbs::admission::validate",
    "validation": "sternpost_verbs::form::<impl sternpost_verbs::served::Served>::check",
    "encoding": "sternpost_cache::encoding::encode",
    "store": "sternpost_store_log::writer::run",
    "cache": "sternpost_cache::cache::Cache::apply",
    "connection": "hyper::proto::h2::server::Server",
    "background": "sternpost_tasks::",
}
# By their name in Rust, or, where that is inlined, in the allocator.
ALLOCATIONS = re.compile(r"__rust_(alloc|alloc_zeroed|realloc)$"), re.compile(r"^mi_(malloc|zalloc|realloc)_aligned$")
COPYING = re.compile(r"\b__?mem(cpy|move)_\w+")


def main():
    arguments = parse_arguments()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed")
    chosen = arguments.operations or list(OPERATIONS)
    unknown = [name for name in chosen if name not in OPERATIONS]
    if unknown:
        sys.exit(f"there is no operation {unknown[0]}, but {', '.join(OPERATIONS)}")
    known = read_budgets()
    risen = []
    for operation in chosen:
        figures = measure(arguments, operation)
        if arguments.write:
            known[operation] = figures
        elif arguments.check:
            risen += compare(operation, known.get(operation, {}), figures)
        else:
            show(operation, figures)
    if arguments.write:
        write_budgets(known)
    for line in risen:
        print(f"profile: FAILED {line}")
    if arguments.check:
        print(f"profile: {len(chosen)} operations, {len(risen)} figures above budget")
    sys.exit(1 if risen else 0)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY")
    parser.add_argument("--check", action="store_true", help="fail on what costs more than its budget")
    parser.add_argument("--write", action="store_true", help="what is measured is the budget from now on")
    parser.add_argument("operations", nargs="*", metavar="OPERATION")
    return parser.parse_args()


def measure(arguments, operation):
    figures = count_instructions(arguments.sternpost, operation)
    calls = count_system_calls(arguments.sternpost, operation)
    if calls is not None:
        figures["system calls"] = calls
    return figures


class Run:
    """A server, with what an operation needs in it, under a program that counts."""

    def __init__(self, binary, operation, stack, wrapper=None):
        self.load, self.operation = pathlib.Path(binary).parent / "load", operation
        self.count, before = OPERATIONS[operation]
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        program = str(binary)
        if wrapper:
            script = self.folder / "wrapped"
            script.write_text(f'#!/bin/sh\nexec {wrapper.format(folder=self.folder)} {binary} "$@"\n')
            script.chmod(0o755)
            program = str(script)
        self.server = objects.start(program, self.folder / "data", stack)
        self.pid = self.server.server.pid
        objects.make_namespace(self.server.server, NAMESPACE)
        if before:
            self.send(before, MADE.get(operation, self.count))

    def client(self, operation, count):
        return objects.Client(self.load, self.server, operation, count, NAMESPACE, connections=1)

    def send(self, operation, count):
        client = self.client(operation, count)
        client.begin()
        client.end()


def count_instructions(binary, operation):
    """Of each stage, for one request."""
    with contextlib.ExitStack() as stack:
        wrapper = "valgrind --quiet --tool=callgrind --instr-atstart=no --callgrind-out-file={folder}/counts"
        run = Run(binary, operation, stack, wrapper)
        client = run.client(operation, run.count)
        time.sleep(SETTLE_SECONDS)
        control = lambda *words: subprocess.run(["callgrind_control", *words, str(run.pid)], check=True,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        control("-i", "on")
        control("-z")
        client.begin()
        client.end()
        control("-d")
        control("-i", "off")
        dump = max(run.folder.glob("counts*"), key=lambda path: path.stat().st_size)
        inclusive, own, calls = Dump(dump).sums()
    figures = {"instructions: all": sum(own.values()) / run.count}
    for stage, name in STAGES.items():
        found = [cost for function, cost in inclusive.items() if name and name in function]
        if found:
            figures[f"instructions: {stage}"] = max(found) / run.count
    figures["instructions: copying"] = sum(cost for name, cost in own.items() if COPYING.search(name)) / run.count
    allocations = [sum(count for name, count in calls.items() if form.search(name)) for form in ALLOCATIONS]
    figures["allocations"] = max(allocations) / run.count
    return figures


class Dump:
    """What callgrind wrote: by function, what it cost with and without what it called, and how often it was."""

    def __init__(self, path):
        self.path = path

    def sums(self):
        own, calls, edges = collections.Counter(), collections.Counter(), collections.Counter()
        names, function, called, count = {}, None, None, 0
        with open(self.path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(("fn=", "cfn=")):
                    number, _, text = line.split("=", 1)[1].strip().partition(" ")
                    if text:
                        names[number] = text
                    if line.startswith("fn="):
                        function = names.get(number, number)
                    else:
                        called = names.get(number, number)
                elif line.startswith("calls="):
                    count = int(line[6:].split()[0])
                elif line[:1].isdigit() or line[:1] in "+-*":
                    cost = int(line.split()[1]) if len(line.split()) > 1 else 0
                    if called is None:
                        own[function] += cost
                    else:
                        calls[called] += count
                        edges[function, called] += cost
                        called = None
        inclusive = collections.Counter(own)
        for (caller, callee), cost in edges.items():
            # Of a function that calls itself only the outermost call counts.
            if caller.split("'")[0] != callee.split("'")[0]:
                inclusive[caller] += cost
        return inclusive, own, calls


def count_system_calls(binary, operation):
    """Of one request; `None` without strace."""
    if not shutil.which("strace"):
        return None
    with contextlib.ExitStack() as stack:
        run = Run(binary, operation, stack)
        client = run.client(operation, run.count)
        time.sleep(2)
        counts = run.folder / "calls"
        tracer = subprocess.Popen(["strace", "-f", "-c", "-p", str(run.pid), "-o", str(counts)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        client.begin()
        client.end()
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        total = re.search(r"^\s*100\.00\s+\S+\s+\S+\s+(\d+)", counts.read_text(), re.MULTILINE)
        return int(total[1]) / run.count if total else None


def show(operation, figures):
    print(f"\n{operation}, one request over HTTP/2:")
    for name, value in figures.items():
        print(f"  {name:<36} {value:>12,.0f}")
    if "system calls" not in figures:
        print("  system calls: strace is not installed")


def compare(operation, budget, figures):
    """What rose. Where threads happen to meet decides how often the kernel is called: only what a request
    does itself has a budget."""
    if not budget:
        return [f"{operation} has no budget: --write makes one"]
    risen = []
    for name, allowed in budget.items():
        now = figures.get(name, 0)
        if now > allowed * (1 + MAX_RISE) and now - allowed > 1:
            risen.append(f"{operation}: {name}: {now:,.0f}, more than {MAX_RISE:.0%} above {allowed:,.0f}")
    return risen


# What is held to a budget: what threads, timers and the disk do besides differs from run to run.
HELD = ("instructions: request", "instructions: handler", "instructions: body", "instructions: managed fields",
        "instructions: mutating admission", "instructions: validation", "instructions: encoding")


def read_budgets():
    known = collections.defaultdict(dict)
    if BUDGETS.exists():
        for line in BUDGETS.read_text().splitlines()[1:]:
            operation, name, value = line.split("\t")
            known[operation][name] = float(value)
    return known


def write_budgets(known):
    rows = [f"{operation}\t{name}\t{value:.0f}" for operation, figures in sorted(known.items())
            for name, value in figures.items() if name in HELD]
    BUDGETS.write_text("\n".join(["operation\tfigure\tbudget", *rows]) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("RUST_BACKTRACE", "0")
    main()
