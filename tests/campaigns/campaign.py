#!/usr/bin/env python3
"""Long campaigns against the server and its parts. Each writes a report in Markdown.

    tests/campaigns/campaign.py fuzz  [--seconds 3600] [--targets NAME,...] [--quick]
    tests/campaigns/campaign.py kills [--rounds 10000] [--parallel 1] [--seed N]
    tests/campaigns/campaign.py load  --sternpost target/dist/sternpost [--minutes 120]

`cargo xtask campaign NAME` does the same and builds a release first where it is needed.
`--report FILE` names the report; without it, it goes to standard output.

fuzz runs every target of fuzz/ for so long. Targets are built with the toolchain that is
there: coverage needs no nightly compiler, only a C++ compiler for libFuzzer itself. With
`--quick` they are built faster, run slower and begin anew with the same choices, for runs of
seconds. seeds.py has what targets begin with.
kills runs the crash test of the whole server (docs/durability.md) for so many rounds, nine in
ten of which end with a kill, the others with a stop.
load keeps friendly and hostile clients on one server and samples its memory, descriptors
and threads, which must be flat, and what friendly clients and /readyz wait.

The exit code is 0 if nothing was found, 1 if something was, 77 if it cannot run here.
Needs Linux and Python 3.9.
"""

import argparse
import datetime
import http.client
import json
import os
import pathlib
import platform
import random
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# The tree stays as it is.
sys.dont_write_bytecode = True
import seeds

ROOT = pathlib.Path(__file__).resolve().parents[2]
CANNOT_RUN = 77

# What libFuzzer needs to see where an input leads, in flags that every compiler has.
COVERAGE = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cdebug-assertions",
    "-Coverflow-checks",
]
# Inputs that a target begins with.
QUICK_SEEDS = 200
ALL_SEEDS = 100_000
# One input: time, and memory of the whole process.
INPUT_SECONDS = 10
INPUT_MEGABYTES = 1024

# Growth between the second and the last quarter of a run that is not called flat.
GROWN_PART = 0.10
GROWN_BYTES = 32 << 20
GROWN_DESCRIPTORS = 32
GROWN_THREADS = 16
# /readyz under hostile load.
READY_SECONDS = 1.0
# Before a client gives up.
ANSWER_SECONDS = 30
FRIENDS = 8
ENEMIES = 8


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("campaign", choices=["fuzz", "kills", "load"])
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--sternpost", default=str(ROOT / "target/dist/sternpost"))
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--targets", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--minutes", type=float, default=120)
    args = parser.parse_args()
    # What was started is ended on the way out, whatever the way is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.time()
    lines, passed = {"fuzz": fuzz, "kills": kills, "load": load}[args.campaign](args)
    report = head(args.campaign, begun, passed) + lines
    text = "\n".join(report) + "\n"
    if args.report:
        args.report.write_text(text)
        print(f"{args.campaign}: {'passed' if passed else 'FAILED'}; the report is {args.report}")
    else:
        print(text)
    sys.exit(0 if passed else 1)


def head(name, begun, passed):
    revision = output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    when = datetime.datetime.fromtimestamp(begun, datetime.timezone.utc)
    return [
        f"# Campaign: {name}",
        "",
        f"- result: {'nothing found' if passed else '**something was found**'}",
        f"- begun {when:%Y-%m-%d %H:%M} UTC, took {(time.time() - begun) / 60:.1f} minutes",
        f"- revision {revision or 'unknown'}, {output(['rustc', '--version'])}",
        f"- {os.cpu_count()} processors, {platform.system()} {platform.release()} {platform.machine()}",
        "",
    ]


def output(words):
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def cannot_run(why):
    print(f"SKIPPED: {why}", file=sys.stderr)
    sys.exit(CANNOT_RUN)


# --- fuzz -------------------------------------------------------------------


def fuzz(args):
    targets = sorted(path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs"))
    if args.targets:
        chosen = args.targets.split(",")
        unknown = sorted(set(chosen) - set(targets))
        if unknown:
            sys.exit(f"there is no target {', '.join(unknown)}")
        targets = chosen
    binaries = build_targets(args.quick)
    rows, passed = [], True
    for target in targets:
        with tempfile.TemporaryDirectory(prefix="sternpost-fuzz-") as folder:
            row, good = fuzz_one(binaries / target, target, args, pathlib.Path(folder))
        rows.append(row)
        passed &= good
        print(f"fuzz: {target}: {row[-1]}", file=sys.stderr)
    titles = ["target", "inputs", "inputs a second", "slowest, s", "peak, MB", "corpus", "result"]
    return [f"{args.seconds} s a target.", "", *table(titles, rows)], passed


def build_targets(quick):
    """Where the programs are."""
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        cannot_run("there is no C++ compiler for libFuzzer")
    host = re.search(r"host: (\S+)", output(["rustc", "-vV"]))
    if not host:
        cannot_run("there is no rustc")
    host = host[1]
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "fuzz/target"))
    # A target of its own name, so that the flags stay away from build scripts and macros.
    environment = dict(os.environ, RUSTFLAGS=" ".join(COVERAGE), CARGO_TARGET_DIR=str(folder))
    command = ["cargo", "build", "--locked", "--target", host, "--manifest-path", str(ROOT / "fuzz/Cargo.toml")]
    if quick:
        environment.update(CARGO_PROFILE_DEV_OPT_LEVEL="0", CARGO_PROFILE_DEV_DEBUG="0", CARGO_INCREMENTAL="0")
    else:
        command.append("--release")
    if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL).returncode:
        sys.exit("the targets cannot be built")
    return folder / host / ("debug" if quick else "release")


def fuzz_one(binary, target, args, scratch):
    corpus, artifacts = ROOT / "fuzz/corpus" / target, ROOT / "fuzz/artifacts" / target
    if args.quick:
        # The same inputs in every run, as far as they get.
        corpus = scratch / "corpus"
    first = scratch / "seeds"
    for folder in (corpus, artifacts, first):
        folder.mkdir(parents=True, exist_ok=True)
    seeds.write(target, first, QUICK_SEEDS if args.quick else ALL_SEEDS)
    seconds = args.seconds
    command = [
        str(binary),
        str(corpus),
        str(first),
        f"-seed={1 if args.quick else random.randrange(1, 1 << 31)}",
        f"-max_total_time={seconds}",
        f"-timeout={INPUT_SECONDS}",
        f"-rss_limit_mb={INPUT_MEGABYTES}",
        f"-artifact_prefix={artifacts}/",
        "-print_final_stats=1",
        "-verbosity=0" if seconds < 60 else "-verbosity=1",
    ]
    # Beyond its own limits it is stuck.
    try:
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds * 2 + 300)
        said, code = ran.stdout + ran.stderr, ran.returncode
    except subprocess.TimeoutExpired as stuck:
        said, code = (stuck.stderr or b"").decode(errors="replace"), None
    stat = lambda name: (re.findall(rf"stat::{name}:\s+(\d+)", said) or ["–"])[-1]
    found = re.findall(r"Test unit written to (\S+)", said)
    result = "ok"
    if code != 0:
        sys.stderr.write(said[-4000:])
        place = found[-1] if found else "no artifact"
        result = f"**{'stuck' if code is None else f'exit {code}'}: {place.replace(str(ROOT) + '/', '')}**"
    row = [
        target,
        stat("number_of_executed_units"),
        stat("average_exec_per_sec"),
        stat("slowest_unit_time_sec"),
        stat("peak_rss_mb"),
        str(sum(1 for _ in corpus.iterdir())),
        result,
    ]
    return row, code == 0


# --- kills ------------------------------------------------------------------


def kills(args):
    binary = build_crash_test()
    seed = args.seed if args.seed is not None else random.randrange(1 << 32)
    shares = [args.rounds // args.parallel + (n < args.rounds % args.parallel) for n in range(args.parallel)]
    tests = []
    try:
        for number, rounds in enumerate(shares):
            tests.append(CrashTest(binary, rounds, seed + number))
        for test in tests:
            test.wait()
    finally:
        for test in tests:
            test.end()
    lines = [f"{args.rounds} rounds of `nothing_acknowledged_is_lost_and_nothing_else_is_made_up`, "
             f"{args.parallel} at a time, each with a directory of its own.", ""]
    ended = [line for test in tests if test.passed for line in test.told]
    sums = [[name, str(sum(int(number) for line in ended for number in re.findall(pattern, line)))]
            for name, pattern in CRASH_COUNTS]
    lines += [*table(["of tests that passed", "sum"], sums), ""]
    for test in tests:
        lines += [f"{test.rounds} rounds from seed {test.seed}:", "", "```", *test.told, "```", ""]
    return lines, all(test.passed for test in tests)


def build_crash_test():
    """Where the program of the test is."""
    command = ["cargo", "test", "--release", "--locked", "-p", "sternpost", "--test", "crash", "--no-run",
               "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    found = [message["executable"] for message in messages
             if message.get("executable") and message["target"]["name"] == "crash"]
    if built.returncode or not found:
        sys.exit("the crash test cannot be built")
    return found[0]


class CrashTest:
    """One process of the test."""

    def __init__(self, binary, rounds, seed):
        self.rounds, self.seed, self.passed = rounds, seed, False
        self.told = []
        # In a group of its own, so that its server can be ended with it.
        self.process = subprocess.Popen(
            [binary, "nothing_acknowledged_is_lost", "--nocapture"], cwd=ROOT, start_new_session=True,
            env=dict(os.environ, STERNPOST_CRASH_ROUNDS=str(rounds), STERNPOST_CRASH_SEED=str(seed)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.told.append(line.rstrip())
            del self.told[:-60]
            if line.startswith("crash: "):
                print(f"seed {self.seed}: {line.rstrip()}", file=sys.stderr, flush=True)

    def wait(self):
        code = self.process.wait()
        self.reader.join()
        ended = [line for line in self.told if line.startswith("crash: ") and line.endswith(", ok")]
        self.passed = code == 0 and len(ended) == 1
        if self.passed:
            self.told = ended

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


# What the last line of the crash test counts.
CRASH_COUNTS = [
    ("kills", r"(\d+) kills"),
    ("kills while starting", r"(\d+) of them while starting"),
    ("kills after acknowledged writes with more under way", r"(\d+) after acknowledged writes"),
    ("stops", r"(\d+) stops"),
    ("writes acknowledged", r"acknowledged: (\d+)"),
    ("writes refused", r"refused: (\d+)"),
    ("writes not answered", r"lost: (\d+)"),
    ("not answered, and done", r"appeared: (\d+)"),
    ("reads compared", r"reads: (\d+)"),
    ("watch events compared", r"watched: (\d+)"),
    ("watches taken up after a restart", r"resumed: (\d+)"),
]


# --- load -------------------------------------------------------------------


class Server:
    def __init__(self, binary, folder):
        self.kubeconfig = folder / "kubeconfig"
        self.log = open(folder / "log", "w+b")
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data"),
             "--kubeconfig", str(self.kubeconfig)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.address = self.wait()
        config = self.kubeconfig.read_text()
        self.token = re.search(r"token: \"?([^\s\"]+)", config)[1]

    def wait(self):
        for _ in range(600):
            found = re.search(rb"is ready on https://(\S+)", pathlib.Path(self.log.name).read_bytes())
            if found:
                host, port = found[1].decode().rsplit(":", 1)
                return host, int(port)
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit("the server does not start:\n" + pathlib.Path(self.log.name).read_text(errors="replace"))

    def sample(self):
        """Memory, descriptors, threads; None if the process is gone."""
        try:
            folder = pathlib.Path(f"/proc/{self.process.pid}")
            status = (folder / "status").read_text()
            number = lambda name: int(re.search(rf"{name}:\s+(\d+)", status)[1])
            return number("VmRSS") * 1024, len(os.listdir(folder / "fd")), number("Threads")
        except (OSError, TypeError):
            return None


class Client:
    """One connection, opened again when it ends."""

    TLS = ssl.create_default_context()
    TLS.check_hostname = False
    TLS.verify_mode = ssl.CERT_NONE

    def __init__(self, server):
        self.server = server
        self.connection = None

    def ask(self, method, path, body=None, media="application/json", headers=()):
        """The code, and the seconds it took; a connection that ended is 0."""
        begun = time.monotonic()
        try:
            if self.connection is None:
                host, port = self.server.address
                self.connection = http.client.HTTPSConnection(host, port, timeout=ANSWER_SECONDS, context=self.TLS)
            sent = {"Authorization": f"Bearer {self.server.token}", "Content-Type": media, **dict(headers)}
            self.connection.request(method, path, body, sent)
            answer = self.connection.getresponse()
            answer.read()
            code = answer.status
        except (OSError, http.client.HTTPException):
            self.close()
            code = 0
        return code, time.monotonic() - begun

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Load:
    def __init__(self, server):
        self.server = server
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.waits = {"friends": [], "readyz": []}
        self.codes = {}
        self.attacks = {}

    def note(self, who, code, took):
        with self.lock:
            self.waits[who].append(took)
            self.codes.setdefault(who, {}).setdefault(code, 0)
            self.codes[who][code] += 1

    def friend(self, number):
        """Writes, reads, lists, changes and deletes; what is left is the same at every time."""
        client, turn = Client(self.server), 0
        maps = "/api/v1/namespaces/default/configmaps"
        while not self.stop.is_set():
            name = f"friend-{number}-{turn % 50}"
            turn += 1
            body = json.dumps({"metadata": {"name": name, "labels": {"friend": str(number)}}, "data": {"k": "v" * 500}})
            for method, path, body, media in [
                ("POST", maps, body, "application/json"),
                ("GET", f"{maps}/{name}", None, "application/json"),
                ("PATCH", f"{maps}/{name}", '{"data":{"k":"w"}}', "application/merge-patch+json"),
                ("GET", f"{maps}?labelSelector=friend%3D{number}", None, "application/json"),
                ("DELETE", f"{maps}/{name}", None, "application/json"),
            ]:
                self.note("friends", *client.ask(method, path, body, media))
                if self.stop.wait(0.05):
                    break
        client.close()

    def ready(self):
        while not self.stop.wait(0.2):
            client = Client(self.server)
            self.note("readyz", *client.ask("GET", "/readyz"))
            client.close()

    def enemy(self, number):
        chance = random.Random(number)
        while not self.stop.is_set():
            attack = chance.choice(ATTACKS)
            with self.lock:
                self.attacks[attack.__name__] = self.attacks.get(attack.__name__, 0) + 1
            try:
                attack(self, chance)
            except (OSError, http.client.HTTPException):
                pass
            self.stop.wait(chance.random() * 0.5)

    def raw(self):
        return socket.create_connection(self.server.address, timeout=10)

    def tls(self):
        return Client.TLS.wrap_socket(self.raw())


def idle_connections(load, chance):
    kept = [load.raw() for _ in range(100)]
    load.stop.wait(chance.random() * 5)
    for connection in kept:
        connection.close()


def garbage(load, chance):
    with load.raw() as connection:
        connection.sendall(chance.randbytes(chance.randrange(1, 20_000)))
        connection.recv(1000)


def half_a_handshake(load, chance):
    with load.raw() as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(40))
        load.stop.wait(1)


def slow_headers(load, chance):
    with load.tls() as connection:
        for byte in b"GET /version HTTP/1.1\r\nHost: x\r\n"[: chance.randrange(5, 30)]:
            connection.sendall(bytes([byte]))
            if load.stop.wait(0.1):
                return


def huge_headers(load, chance):
    with load.tls() as connection:
        connection.sendall(b"GET /version HTTP/1.1\r\n" + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n")
        connection.recv(1000)


def watch_and_do_not_read(load, chance):
    kept = []
    for _ in range(20):
        connection = load.tls()
        connection.sendall(
            b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n"
            % load.server.token.encode()
        )
        kept.append(connection)
    load.stop.wait(chance.random() * 10)
    for connection in kept:
        connection.close()


def body(load, media, text, path="/api/v1/namespaces/default/configmaps", method="POST"):
    client = Client(load.server)
    client.ask(method, path, text, media)
    client.close()


def deep_json(load, chance):
    body(load, "application/json", '{"data":' * 50_000 + "1" + "}" * 50_000)


def unknown_fields(load, chance):
    body(load, "application/json", json.dumps({f"f{n}": n for n in range(100_000)}))


def many_owners(load, chance):
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"n{n}", "uid": str(n)} for n in range(4_000)]
    body(load, "application/json", json.dumps({"metadata": {"name": "Bad Name", "ownerReferences": owners}}))


def yaml_aliases(load, chance):
    text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    text += "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    body(load, "application/yaml", text)


def bad_protobuf(load, chance):
    body(load, "application/vnd.kubernetes.protobuf", b"k8s\0" + chance.randbytes(5_000))


def json_patch_copies(load, chance):
    copies = [{"op": "copy", "from": "/metadata", "path": f"/metadata/annotations/{n}"} for n in range(10_000)]
    body(load, "application/json-patch+json", json.dumps(copies), "/api/v1/namespaces/default", "PATCH")


def huge_selector(load, chance):
    client = Client(load.server)
    client.ask("GET", "/api/v1/configmaps?labelSelector=" + ",".join(f"a{n}%3Db" for n in range(3_000)))
    client.close()


def wrong_tokens(load, chance):
    client = Client(load.server)
    for _ in range(50):
        token = "eyJhbGciOiJSUzI1NiJ9." + "".join(chance.choices("abcdefgh", k=200)) + ".x"
        client.ask("GET", "/api/v1/secrets", headers=[("Authorization", f"Bearer {token}")])
    client.close()


def strange_paths(load, chance):
    client = Client(load.server)
    for _ in range(50):
        text = "/".join("".join(chance.choices("abc%./;?&=:", k=chance.randrange(1, 9))) for _ in range(6))
        client.ask(chance.choice(["GET", "PUT", "DELETE", "OPTIONS"]), "/apis/" + text)
    client.close()


ATTACKS = [
    idle_connections, garbage, half_a_handshake, slow_headers, huge_headers, watch_and_do_not_read, deep_json,
    unknown_fields, many_owners, yaml_aliases, bad_protobuf, json_patch_copies, huge_selector, wrong_tokens,
    strange_paths,
]


def load(args):
    if not os.access(args.sternpost, os.X_OK):
        cannot_run(f"there is no {args.sternpost}; `cargo build --profile dist -p sternpost` makes it")
    with tempfile.TemporaryDirectory(prefix="sternpost-campaign-") as folder:
        server = Server(args.sternpost, pathlib.Path(folder))
        try:
            return load_on(server, args.minutes * 60)
        finally:
            if server.process.poll() is None:
                server.process.kill()
            server.process.wait()


def load_on(server, seconds):
    load = Load(server)
    threads = [threading.Thread(target=load.friend, args=[n], daemon=True) for n in range(FRIENDS)]
    threads += [threading.Thread(target=load.enemy, args=[n], daemon=True) for n in range(ENEMIES)]
    threads.append(threading.Thread(target=load.ready, daemon=True))
    for thread in threads:
        thread.start()
    samples, begun = [], time.monotonic()
    between = max(1.0, min(30.0, seconds / 200))
    while time.monotonic() - begun < seconds:
        time.sleep(between)
        sample = server.sample()
        if sample is None or server.process.poll() is not None:
            break
        samples.append((time.monotonic() - begun, *sample))
    alive = server.process.poll() is None
    load.stop.set()
    # Who is still waiting for an answer is not waited for: that is what is reported.
    end = time.monotonic() + ANSWER_SECONDS
    for thread in threads:
        thread.join(timeout=max(0.0, end - time.monotonic()))
    server.process.terminate()
    try:
        code = server.process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        code = None
    log = pathlib.Path(server.log.name).read_text(errors="replace")

    problems = []
    if not alive:
        problems.append("the server ended by itself")
    if code is None:
        problems.append("no end within 60 s of SIGTERM")
    elif code != 0:
        problems.append(f"exit code {code} on SIGTERM")
    if "panicked at" in log:
        problems.append("a request panicked: " + next(line for line in log.splitlines() if "panicked at" in line))
    for code, count in sorted(load.codes.get("friends", {}).items()):
        if code not in (200, 201):
            problems.append(f"{count} requests of friendly clients were answered {code or 'by nothing'}")
    slow = sum(took > READY_SECONDS for took in load.waits["readyz"])
    if slow or any(code != 200 for code in load.codes.get("readyz", {})):
        problems.append(f"/readyz: {slow} answers took more than {READY_SECONDS} s; codes {load.codes.get('readyz')}")
    rows = []
    for name, at, least, unit in [
        ("memory, MB", 1, GROWN_BYTES, 1 << 20), ("descriptors", 2, GROWN_DESCRIPTORS, 1), ("threads", 3, GROWN_THREADS, 1),
    ]:
        values = [sample[at] for sample in samples]
        quarter = max(1, len(values) // 4)
        early, late = (statistics.median(part) if part else 0 for part in (values[quarter : 2 * quarter], values[-quarter:]))
        flat = late <= early + max(least, early * GROWN_PART)
        if not flat:
            problems.append(f"{name} grew from {early / unit:.0f} to {late / unit:.0f}")
        shown = [f"{value / unit:.0f}" for value in (early, late, max(values, default=0))]
        rows.append([name, *shown, "flat" if flat else "**grown**"])
    waits = []
    for who, took in load.waits.items():
        took = sorted(took)
        at = lambda part: f"{1000 * took[min(len(took) - 1, int(len(took) * part))]:.1f}" if took else "–"
        waits.append([who, str(len(took)), at(0.5), at(0.99), at(1.0)])
    attacks = [[name.replace("_", " "), str(count)] for name, count in sorted(load.attacks.items())]
    lines = [
        f"{FRIENDS} friendly and {ENEMIES} hostile clients, {len(samples)} samples.", "",
        *table(["", "second quarter", "last quarter", "most", ""], rows), "",
        *table(["who", "requests", "median, ms", "99 %, ms", "longest, ms"], waits), "",
        *table(["attack", "times"], attacks), "",
        *[f"- {problem}" for problem in problems],
    ]
    return lines, not problems


def table(titles, rows):
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return [line(titles), line(["---"] * len(titles)), *map(line, rows)]


if __name__ == "__main__":
    main()
