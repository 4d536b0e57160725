#!/usr/bin/env python3
"""What an operation costs by stage of the pipeline: instructions, allocations, bytes copied and system calls,
counted; CPU and context switches by thread, measured; or whether what is counted rose beyond its budget.

    profile.py --sternpost BINARY [OPERATION...]            a table for each
    profile.py --sternpost BINARY --check [OPERATION...]    compares with budgets.tsv, fails on a rise
    profile.py --sternpost BINARY --write [OPERATION...]    writes budgets.tsv

callgrind counts instructions and allocations, DHAT the bytes that memcpy and memmove copy, strace system calls
by name. The binary needs the names of its functions: the profiles `release` and `profile` keep them. Linux only;
needs Python 3.9, valgrind, and the client of benches/floor beside the binary. Where there is no strace, or it may
not trace, system calls by name are left out, and that is said.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import kustomize
import objects

BUDGETS = pathlib.Path(__file__).with_name("budgets.tsv")
NAMESPACE = "bench"
MAX_RISE = 0.05

# What is sent so often under valgrind, and what has to be there before: by which operation it is made.
OPERATIONS = {
    "get": (200, "create"),
    "list": (4, "create"),
    "page": (4, "create"),
    "create": (200, None),
    "update": (200, "create"),
    "merge": (200, "create"),
    "json": (200, "create"),
    "deploy": (60, None),
    "apply": (60, "deploy"),
    "strategic": (60, "deploy"),
    "define": (10, None),
    "watch": (40, None),
    "build": (1, None),
}
MADE = {"list": 500, "page": 1000}
WATCHERS = 20  # on one connection; what one event to one of them costs is told
# Calls by which threads wait for each other or for the network, and those of the allocator: when it gives memory
# back is a matter of time.
WAITING = {"futex", "epoll_wait", "epoll_pwait", "ppoll", "poll", "sched_yield", "nanosleep", "clock_nanosleep",
           "restart_syscall"}
MEMORY = {"madvise", "mmap", "munmap", "mprotect", "brk", "mremap"}
BUILT_OBJECTS = 100
BUILT_PATCHES = 10  # of either kind
# CPU of so few requests as above would be the clock's noise.
TIMES_WITHOUT_VALGRIND = 5

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
    "delivery": "sternpost_http::objects::watch::WatchBody::poll_next",
    "connection": "hyper::proto::h2::server::Server",
    "background": "sternpost_tasks::",
    "building": "sternpost_kustomize::build::build",
    "reading": "sternpost_kustomize::documents::read_from",
    "transforming": "sternpost_kustomize::transform::",
    "references": "sternpost_kustomize::name_reference::fix",
    "writing": "sternpost_kustomize::output::write",
}
# Stages that other tasks go through, too, such as controllers that write: only what a request does is its own.
# (Of instructions all is counted; what is written in the background meanwhile is little beside so many requests.)
WITHIN_REQUEST = ("authentication", "authorization", "routing", "body", "managed fields", "mutating admission",
                  "validating admission", "validation", "encoding")
# What is made when it is first needed is no cost of a request, and not always made by one.
ONCE = "::Once::call"
# By their name in Rust, or, where that is inlined, in the allocator.
ALLOCATIONS = re.compile(r"__rust_(alloc|alloc_zeroed|realloc)$"), re.compile(r"^mi_(malloc|zalloc|realloc)_aligned$")
ALLOCATING = ("*__rust_alloc", "*__rust_alloc_zeroed", "*__rust_realloc",
              "mi_malloc_aligned", "mi_zalloc_aligned", "mi_realloc_aligned")
# Under valgrind a call of the kernel, without it a read of shared memory: not counted among system calls.
CLOCK = "clock_gettime"
COPYING = re.compile(r"\b__?mem(cpy|move)_\w+")
MOST_CALLERS = 400  # of an allocation or a copy; more than any has


def main():
    arguments = parse_arguments()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed")
    chosen = arguments.operations or list(OPERATIONS)
    unknown = [name for name in chosen if name not in OPERATIONS]
    if unknown:
        sys.exit(f"there is no operation {unknown[0]}, but {', '.join(OPERATIONS)}")
    measured = count(arguments.sternpost, chosen)
    if arguments.write:
        known = read_budgets()
        known.update(measured)
        write_budgets(known)
    elif arguments.check:
        sys.exit(check(read_budgets(), measured, lambda operations: count(arguments.sternpost, operations)))
    else:
        for operation, figures in measured.items():
            show(operation, figures | without_valgrind(arguments.sternpost, operation))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--check", action="store_true", help="fail on what costs more than its budget")
    parser.add_argument("--write", action="store_true", help="what is measured is the budget from now on")
    parser.add_argument("operations", nargs="*", metavar="OPERATION")
    return parser.parse_args()


def count(binary, operations):
    """Figures by operation. What is counted does not depend on what runs beside it, so all cores are used."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = {operation: [pool.submit(counter, binary, operation) for counter in (callgrind, dhat, strace)]
                 for operation in operations}
        return {operation: {name: value for task in those for name, value in task.result().items()}
                for operation, those in tasks.items()}


# What is run


class Run:
    """A server, with what an operation needs in it, under a program that counts."""

    def __init__(self, binary, operation, stack, wrapper=None, times=1, restart=False):
        self.load, self.operation = binary.parent / "load", operation
        self.count, before = OPERATIONS[operation]
        self.count *= times
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        wrapped = wrap(binary, self.folder, wrapper) if wrapper else binary
        self.server = objects.start(str(binary if restart else wrapped), self.folder / "data", stack)
        objects.make_namespace(self.server.server, NAMESPACE)
        if before:
            self.send(before, MADE.get(operation, self.count))
        if restart:
            self.server.stop()
            self.server = objects.start(str(wrapped), self.folder / "data", stack)
        self.pid = self.server.server.pid

    @property
    def each(self):
        """What a figure is divided by."""
        return self.count * WATCHERS if self.operation == "watch" else self.count

    def client(self, operation, count):
        """Connected, and ready to begin."""
        streams = WATCHERS if operation == "deliver" else 1
        return objects.Client(self.load, self.server, operation, count, NAMESPACE, connections=1, streams=streams)

    def send(self, operation, count):
        exchange(self.client(operation, count))

    def client_of_all(self):
        return self.client({"watch": "deliver"}.get(self.operation, self.operation), self.count)

    def settle(self):
        """Until what the server does on its own account is done. Before anybody connects: a connection on which
        nothing is asked is closed after a while, and on a busy machine valgrind is slow."""
        objects.settle(self.server)


def exchange(client):
    client.begin()
    client.end()


def wrap(binary, folder, wrapper):
    """A program that is the binary under another one, with the same process id."""
    script = folder / "wrapped"
    script.write_text(f'#!/bin/sh\nexec {wrapper} {binary} "$@"\n'.replace("FOLDER", str(folder)))
    script.chmod(0o755)
    return script


@contextlib.contextmanager
def build(binary, wrapper=None):
    """The folder of a kustomization of middle size, after it was built once; and what that used."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "kustomization").mkdir()
        patches = kustomize.strategic(range(BUILT_PATCHES)) + kustomize.json_patches(BUILT_PATCHES)
        files = kustomize.one(kustomize.mixed(BUILT_OBJECTS), f"{kustomize.ALL}patches:\n{patches}")
        for file, text in files.items():
            (folder / "kustomization" / file).write_text(text)
        program = wrap(binary, folder, wrapper) if wrapper else binary
        process = subprocess.Popen([program, "build", folder / "kustomization"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"build ended with {process.returncode}")
        yield folder, used


# Instructions and allocations


def callgrind(binary, operation):
    """Of each stage, for one request. Who called an allocation tells whose it is."""
    separate = " ".join(f"'--separate-callers{MOST_CALLERS}={name}'" for name in (*ALLOCATING, f"{CLOCK}*"))
    wrapper = f"valgrind --quiet --tool=callgrind --collect-systime=yes {separate} --callgrind-out-file=FOLDER/counts"
    if operation == "build":
        with build(binary, wrapper) as (folder, _):
            return of_callgrind(Dump(folder / "counts"), 1)
    with contextlib.ExitStack() as stack:
        run = Run(binary, operation, stack, wrapper + " --instr-atstart=no")
        run.settle()
        client = run.client_of_all()
        control = lambda *words: subprocess.run(["callgrind_control", *words, str(run.pid)], check=True,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        control("-i", "on")
        control("-z")
        exchange(client)
        control("-d")
        control("-i", "off")
        dump = max(run.folder.glob("counts*"), key=lambda path: path.stat().st_size)
        return of_callgrind(Dump(dump), run.each)


def of_callgrind(dump, each):
    figures = {"instructions: all": sum(dump.own.values()) / each}
    found = {stage: [function for function in dump.inclusive if name and name in function and "'" not in function]
             for stage, name in STAGES.items()}
    for stage, functions in found.items():
        if functions:
            figures[f"instructions: {stage}"] = max(dump.inclusive[function] for function in functions) / each
    figures["instructions: copying"] = sum(cost for name, cost in dump.own.items() if COPYING.search(name)) / each
    by_name = max(({name: calls for name, calls in dump.calls.items()
                    if form.search(name.split("'")[0]) and ONCE not in name}
                   for form in ALLOCATIONS), key=lambda counts: sum(counts.values()))
    figures["allocations: all"] = sum(by_name.values()) / each
    for stage, functions in found.items():
        if functions:
            figures[f"allocations: {stage}"] = sum(
                calls for name, calls in by_name.items()
                if all(any(one in name for one in some) for some in callers(stage))) / each
    clock = {name: calls for name, calls in dump.own_system_calls.items() if name.startswith(CLOCK)}
    figures["system calls: all"] = (sum(dump.own_system_calls.values()) - sum(clock.values())) / each
    for stage, functions in found.items():
        if functions:
            function = max(functions, key=dump.inclusive.get)
            asked = sum(calls for name, calls in clock.items() if function in name.split("'"))
            figures[f"system calls: {stage}"] = (dump.system_calls[function] - asked) / each
    return figures


def callers(stage):
    """Functions of which one of each has to be among the callers of what is of a stage. What takes long is
    handled in a task of its own, outside of its request."""
    around = ((STAGES["request"], STAGES["handler"]),) if stage in WITHIN_REQUEST else ()
    return ((STAGES[stage],), *around)


class Dump:
    """What callgrind wrote: by function, instructions and system calls with and without what it called, and how
    often it was called. The name of an allocation has those of its callers after it, each after a `'`."""

    def __init__(self, path):
        self.own, self.own_system_calls, self.calls = (collections.Counter() for _ in range(3))
        edges, names, function, called, count = {}, {}, None, None, 0
        with open(path, encoding="utf-8", errors="replace") as lines:
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
                    # Columns that are zero to the end are left out.
                    cost, system_calls = ([int(word) for word in line.split()[1:3]] + [0, 0])[:2]
                    if called is None:
                        self.own[function] += cost
                        self.own_system_calls[function] += system_calls
                    else:
                        self.calls[called] += count
                        sums = edges.setdefault((function, called), [0, 0])
                        sums[0] += cost
                        sums[1] += system_calls
                        called = None
        self.inclusive = collections.Counter(self.own)
        self.system_calls = collections.Counter(self.own_system_calls)
        for (caller, callee), (cost, system_calls) in edges.items():
            # Of a function that calls itself only the outermost call counts.
            if caller.split("'")[0] != callee.split("'")[0]:
                self.inclusive[caller] += cost
                self.system_calls[caller] += system_calls


# Bytes copied


def dhat(binary, operation):
    """Of each stage, for one request. DHAT counts from the start to the end: what an operation needs was made
    before it, so that of all stages of a request there is only what was asked for."""
    wrapper = (f"valgrind --quiet --tool=dhat --mode=copy --num-callers={MOST_CALLERS} "
               "--dhat-out-file=FOLDER/copies")
    if operation == "build":
        with build(binary, wrapper) as (folder, _):
            return of_dhat(folder / "copies", 1)
    with contextlib.ExitStack() as stack:
        run = Run(binary, operation, stack, wrapper, restart=True)
        run.settle()
        exchange(run.client_of_all())
        run.server.stop()
        return of_dhat(run.folder / "copies", run.each)


def of_dhat(path, each):
    copies = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    frames = {name: {number for number, frame in enumerate(copies["ftbl"]) if name in frame}
              for name in STAGES.values() if name}
    once = {number for number, frame in enumerate(copies["ftbl"]) if ONCE in frame}
    points = [point for point in copies["pps"] if once.isdisjoint(point["fs"])]
    figures = {}
    for stage, name in STAGES.items():
        if name and frames[name]:
            figures[f"bytes copied: {stage}"] = sum(
                point["tb"] for point in points
                if all(any(not frames[one].isdisjoint(point["fs"]) for one in some) for some in callers(stage))) / each
    return figures


# System calls by name


def strace(binary, operation):
    """By name, for one request; nothing where strace cannot be had. What threads say to each other, and waiting,
    is one figure: it depends on how they meet."""
    if not can_trace():
        return {}
    wrapper = "strace -D -f -ttt -y -s 0 -qq -o FOLDER/calls"
    if operation == "build":
        with build(binary, wrapper) as (folder, _):
            return of_strace(folder / "calls", 1)
    with contextlib.ExitStack() as stack:
        run = Run(binary, operation, stack, wrapper, restart=True)
        run.settle()
        client = run.client_of_all()
        begun = time.time()
        exchange(client)
        ended = time.time()
        run.server.stop()
        return of_strace(run.folder / "calls", run.each, begun, ended)


def can_trace():
    return bool(shutil.which("strace")) and subprocess.run(
        ["strace", "-o", os.devnull, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def of_strace(path, each, begun=0.0, ended=float("inf")):
    counts, open_calls = collections.Counter(), {}
    for line in path.read_text(errors="replace").splitlines():
        thread, at, text = line.split(None, 2)
        resumed = re.match(r"<\.\.\. (\w+) resumed>", text)
        if resumed:
            if thread in open_calls:
                counts[open_calls.pop(thread)] += succeeded(text)
            continue
        call = re.match(r"(\w+)\((\d+<anon_inode:)?", text)
        if not call or not begun <= float(at) <= ended:
            continue
        name = call[1]
        if call[2] or name in WAITING:
            name = "waits and wake-ups"
        elif name in MEMORY:
            name = "memory"
        if text.endswith("<unfinished ...>"):
            open_calls[thread] = name
        else:
            counts[name] += succeeded(text)
    itself = sum(calls for name, calls in counts.items() if name not in ("waits and wake-ups", "memory"))
    return {"system calls: work": itself / each} | {
        f"system calls: {name}": calls / each for name, calls in sorted(counts.items()) if calls}


def succeeded(text):
    """Whether a call did something: a read of what is not there yet is part of waiting."""
    return " = -1 EAGAIN" not in text


# Without valgrind


def without_valgrind(binary, operation):
    """Microseconds of CPU and context switches of one request, by thread; they depend on the machine."""
    if operation == "build":
        uses = []
        for _ in range(TIMES_WITHOUT_VALGRIND):
            with build(binary) as (_, used):
                uses.append(used)
        mean = lambda of: sum(map(of, uses)) / len(uses)
        return {"CPU: all": mean(lambda used: used.ru_utime + used.ru_stime) * 1e6,
                "voluntary switches: all": mean(lambda used: used.ru_nvcsw),
                "involuntary switches: all": mean(lambda used: used.ru_nivcsw)}
    with contextlib.ExitStack() as stack:
        run = Run(binary, operation, stack, times=TIMES_WITHOUT_VALGRIND)
        run.settle()
        client = run.client_of_all()
        before = threads(run.pid)
        exchange(client)
        after = threads(run.pid)
    figures = collections.Counter()
    for thread, (name, *values) in after.items():
        for kind, value, earlier in zip(BY_THREAD, values, before.get(thread, (name, 0, 0, 0))[1:]):
            for whose in ("all", name):
                figures[f"{kind}: {whose}"] += (value - earlier) / run.each
    return dict(figures)


BY_THREAD = ("CPU", "voluntary switches", "involuntary switches")


def threads(pid):
    """By thread its name, microseconds that it ran, and how often it gave up its core and lost it."""
    found = {}
    for folder in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            status = (folder / "status").read_text()
            switches = [int(count) for count in re.findall(r"voluntary_ctxt_switches:\s+(\d+)", status)]
            ran = int((folder / "schedstat").read_text().split()[0]) / 1000
            found[folder.name] = ((folder / "comm").read_text().strip(), ran, *switches)
    return found


# What is told


COLUMNS = ("instructions", "allocations", "bytes copied", "system calls")


def show(operation, figures):
    unit = {"watch": f"one event to one of {WATCHERS} watchers on a connection",
            "build": f"one build of {BUILT_OBJECTS} objects"}.get(operation, "one request over HTTP/2")
    print(f"\n{operation}, {unit}:")
    print(f"  {'stage':<24}" + "".join(f"{column:>14}" for column in COLUMNS))
    table(figures, COLUMNS, [*STAGES, "copying"])
    traced = {name: value for name, value in figures.items()
              if name.startswith("system calls: ") and name.split(": ")[1] not in STAGES}
    print("\n  system calls without valgrind" if traced else "\n  no system calls without valgrind: strace cannot be had")
    for name, value in traced.items():
        print(f"    {name.split(': ')[1]:<22}{told(value):>14}")
    print(f"\n  {'thread':<24}{'µs of CPU':>14}{'switches':>14}{'forced ones':>14}")
    whose = sorted({name.split(": ")[1] for name in figures if name.startswith("CPU: ")}, key=lambda name: name != "all")
    table(figures, BY_THREAD, whose)


def table(figures, columns, rows):
    for row in rows:
        cells = [figures.get(f"{column}: {row}") for column in columns]
        if any(cells):
            print(f"  {row:<24}" + "".join(f"{'' if cell is None else told(cell):>14}" for cell in cells))


def told(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


# Budgets

# What is held to a budget, by operation: what threads, timers and the disk do besides differs from run to run.
READS = ("request", "handler")
WRITES = (*READS, "mutating admission", "validation", "encoding")
HELD_STAGES = {
    "get": READS, "list": READS, "page": READS,
    "create": (*WRITES, "body", "managed fields"), "update": (*WRITES, "body", "managed fields"),
    "merge": (*WRITES, "managed fields"), "json": (*WRITES, "managed fields"), "strategic": (*WRITES, "managed fields"),
    # Owners of what is applied are found elsewhere.
    "deploy": WRITES, "apply": WRITES,
    # Of ten definitions one write in the background would be much of a small stage.
    "define": (*READS, "body", "managed fields", "validation", "encoding"),
    "watch": ("delivery",),
    "build": ("building", "reading", "transforming", "references", "writing"),
}
HELD_CALLS = ("work", "recvfrom", "writev", "pwrite64", "fdatasync", "read", "openat")
# What was found to differ between runs of the same program: which watcher makes the bytes that all share, how often a
# client asks whether a definition is served, and when it makes room for more of a list.
DIFFERS = {"watch": ("allocations: delivery", "bytes copied: delivery", "system calls: work", "system calls: recvfrom",
                     "system calls: writev"),
           # Which of its functions is a whole one is the compiler's to choose.
           "build": ("instructions: transforming",),
           "define": ("allocations: handler", "bytes copied: handler", "system calls: work", "system calls: recvfrom",
                      "system calls: writev"),
           "list": ("system calls: recvfrom",), "page": ("system calls: recvfrom",)}
# A rise of less is none, however small the budget. Of system calls half a one: a request may arrive in two pieces.
LEAST_RISE = {"instructions": 1, "allocations": 0.2, "bytes copied": 16, "system calls": 0.5}


def check(budgets, measured, count_again):
    """1 if something rose; tells what. A thread that waits in a loop for another counts what it does there, though it
    does nothing: what rose is counted once more, and a rise that is none of chance is there again."""
    traced = can_trace()

    def risen_of(operation):
        return compare(operation, budgets.get(operation, {}), measured[operation], traced)

    doubtful = [operation for operation in measured if budgets.get(operation) and risen_of(operation)]
    for operation, figures in (count_again(doubtful) if doubtful else {}).items():
        for line in risen_of(operation):
            print(f"profile: counted again: {line}")
        known = measured[operation]
        measured[operation] = {name: min(value, known.get(name, value)) for name, value in figures.items()}
    risen = [line for operation in measured for line in risen_of(operation)]
    for line in risen:
        print(f"profile: FAILED {line}")
    if not traced:
        print("profile: system calls are not compared: strace is not installed or may not trace")
    print(f"profile: {len(measured)} operations, {len(risen)} figures above budget")
    return 1 if risen else 0


def compare(operation, budget, figures, traced=True):
    """What rose, and what is not there any more: a stage that is not found would never rise."""
    if not budget:
        return [f"{operation} has no budget: --write makes one"]
    risen = []
    for name, allowed in budget.items():
        kind = name.split(":")[0]
        if kind == "system calls" and not traced:
            continue
        least = LEAST_RISE[kind] / (WATCHERS if operation == "watch" else 1)
        now = figures.get(name)
        if now is None:
            risen.append(f"{operation}: {name}: not measured; if its function has another name now, STAGES needs it")
        elif now > allowed * (1 + MAX_RISE) and now - allowed > least:
            risen.append(f"{operation}: {name}: {told(now)}, more than {MAX_RISE:.0%} above {told(allowed)}")
    return risen


def read_budgets():
    known = collections.defaultdict(dict)
    if BUDGETS.exists():
        for line in BUDGETS.read_text().splitlines()[1:]:
            operation, name, value = line.split("\t")
            known[operation][name] = float(value)
    return known


def write_budgets(known):
    rows = [f"{operation}\t{name}\t{value:.{0 if value >= 100 else 2}f}" for operation, figures in sorted(known.items())
            for name, value in figures.items() if is_held(operation, name)]
    BUDGETS.write_text("\n".join(["operation\tfigure\tbudget", *rows]) + "\n")


def is_held(operation, name):
    kind, _, stage = name.partition(": ")
    if name in DIFFERS.get(operation, ()):
        return False
    return kind in LEAST_RISE and stage in (HELD_CALLS if kind == "system calls" else HELD_STAGES[operation])


if __name__ == "__main__":
    os.environ.setdefault("RUST_BACKTRACE", "0")
    # cargo sets it, and every library would be looked for there first: system calls that are none of ours.
    os.environ.pop("LD_LIBRARY_PATH", None)
    main()
