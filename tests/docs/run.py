#!/usr/bin/env python3
"""Runs what the documentation shows, and compares what it prints.

    tests/docs/run.py BINARY [PAGE...]

Every ```console block of README.md, the pages beside it and docs/**/*.md is run, pages in a folder of their own with
the files of examples, the blocks of a page one after the other in one environment:

  $ COMMAND       is run by bash; a backslash at its end continues it. What it prints, on stdout
                  and stderr, must be what stands below it, to the line.
  ...             as a line: any lines.
  …               within a line: any text.

`sternpost` (also as `cargo run --release --bin sternpost --`) is BINARY. `sternpost serve` goes on
in the background until the page ends; only its ready line is compared, and it gets a free port.
A page that uses kubectl without a server of its own has one in memory. Ports, durations and the
home directory are masked on both sides.

Links to files of the repository must lead somewhere.

A block that is not run says why in the line before it: <!-- not run: REASON -->

Prints `docs PAGE: N commands` a page. Environment: CLIENT_RESULTS as in tests/clients/run.
"""
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "examples"
CARGO_RUN = "cargo run --release --bin sternpost --"
# Hang-guards.
READY_SECONDS = 60
COMMAND_SECONDS = 120
HOME_SHOWN = "/home/you"


class Block:
    def __init__(self, line, reason):
        self.line = line
        self.reason = reason
        self.commands = []  # [text, [lines shown]]


def blocks(path):
    """The console blocks of a page."""
    found, block, before = [], None, ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if block is None:
            if line.startswith("$ ") and before.startswith("```"):
                raise SystemExit("%s:%d: a block with commands is a ```console block" % (path, number))
            if line.strip() == "```console":
                reason = re.fullmatch(r"<!-- not run: (.+) -->", before.strip())
                block = Block(number, reason and reason[1])
            elif line.strip().startswith("```console"):
                raise SystemExit("%s:%d: a console block has no further words" % (path, number))
        elif line.strip() == "```":
            found.append(block)
            block = None
        elif block.commands and block.commands[-1][0].endswith("\\") and not block.commands[-1][1]:
            block.commands[-1][0] += "\n" + line
        elif line.startswith("$ "):
            block.commands.append([line[2:], []])
        elif block.commands:
            block.commands[-1][1].append(line)
        else:
            raise SystemExit("%s:%d: what prints this?" % (path, number))
        before = line
    return found


def broken_links(path):
    """Relative links that lead nowhere."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    targets = (link[1] for link in re.finditer(r"\]\(([^)#\s]+)", text))
    return [target for target in targets if "://" not in target and not (path.parent / target).exists()]


class Page:
    """A folder, an environment, and the servers that were started in it."""

    def __init__(self, binary, kubectl):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sternpost-docs-"))
        self.home = self.folder / "home"
        self.work = self.folder / "work"
        shutil.copytree(FILES, self.work)
        tools = self.folder / "bin"
        for folder in (self.home, tools):
            folder.mkdir()
        (tools / "sternpost").symlink_to(binary)
        if kubectl:
            (tools / "kubectl").symlink_to(kubectl)
        self.environment = {
            "HOME": str(self.home),
            "PATH": "%s:%s" % (tools, os.environ.get("PATH", "/usr/bin:/bin")),
            "LANG": "C.UTF-8",
        }
        self.servers = []

    def run(self, command):
        """What it prints."""
        command = command.replace(CARGO_RUN, "sternpost")
        if re.match(r"sternpost serve\b", command):
            return self.serve(command)
        if re.search(r"\bkubectl\b", command) and not self.servers:
            self.serve("sternpost serve --in-memory --kubeconfig %s/kubeconfig" % self.folder)
            self.environment["KUBECONFIG"] = "%s/kubeconfig" % self.folder
        kept = self.folder / "environment"
        done = subprocess.run(
            ["bash", "-c", "set -a\n%s\ncode=$?; env -0 >%s; exit $code" % (command, kept)],
            cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=COMMAND_SECONDS,
        )
        if kept.exists():
            self.environment = dict(pair.split("=", 1) for pair in kept.read_text().split("\0") if "=" in pair)
            kept.unlink()
        return done.stdout

    def serve(self, command):
        if "--listen" not in command:
            command += " --listen 127.0.0.1:0"
        log = self.folder / ("server-%d.log" % len(self.servers))
        with open(log, "w") as file:
            server = subprocess.Popen(
                ["bash", "-c", "exec " + command], cwd=self.work, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )
        self.servers.append(server)
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and server.poll() is None:
            ready = [line for line in log.read_text().splitlines(True) if " is ready on " in line]
            if ready:
                return ready[0]
            time.sleep(0.05)
        return log.read_text() + "the server is not ready\n"

    def mask(self, line):
        line = line.rstrip().replace(str(self.home), HOME_SHOWN).replace(str(self.work), ".")
        line = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:<port>", line)
        masked = re.sub(r"\b\d+(\.\d+)? ?m?s\b", "<time>", line)
        # Columns follow the width of ages.
        return re.sub(" +", " ", masked) if masked != line else line

    def close(self):
        for server in self.servers:
            server.terminate()
            try:
                server.wait(READY_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def matches(shown, printed):
    """Whether lines are what is shown, `...` standing for any."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    if not printed:
        return False
    pattern = ".*".join(re.escape(part) for part in shown[0].split("…"))
    return re.fullmatch(pattern, printed[0]) is not None and matches(shown[1:], printed[1:])


def trimmed(lines):
    """Without the empty lines at the end."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def check(path, page_blocks, binary, kubectl):
    """Commands that were as shown, and those that were not."""
    passed = failed = 0
    page = Page(binary, kubectl)
    try:
        for block in page_blocks:
            for command, shown in block.commands:
                try:
                    printed = page.run(command)
                except subprocess.TimeoutExpired:
                    printed = "it does not end\n"
                shown = trimmed([page.mask(line) for line in shown])
                printed = trimmed([page.mask(line) for line in printed.splitlines()])
                if matches(shown, printed):
                    passed += 1
                    continue
                failed += 1
                print("%s:%d: $ %s" % (path, block.line, command))
                for line in difflib.unified_diff(shown, printed, "shown", "printed", lineterm="", n=1):
                    print("    " + line)
    finally:
        page.close()
    return passed, failed


def find_kubectl():
    """Its path, or why there is none."""
    script = '. tests/clients/install.sh; if install_kubectl >&2; then echo "$kubectl"; else echo "$reason" >&2; exit 1; fi'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return (done.stdout.strip(), None) if done.returncode == 0 else (None, done.stderr.strip().split("\n")[-1])


def report(name, passed, failed, skipped, start, note):
    results = os.environ.get("CLIENT_RESULTS")
    if results:
        with open(results, "a") as file:
            row = (name, passed, failed, skipped, int(time.monotonic() - start), note)
            print(*row, sep="\t", file=file)


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: tests/docs/run.py BINARY [PAGE...]")
    binary = pathlib.Path(sys.argv[1]).resolve()
    pages = [pathlib.Path(page).resolve() for page in sys.argv[2:]]
    pages = pages or [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    start = time.monotonic()
    kubectl = reason = None
    asked = False
    total, wrong, skips = 0, 0, []
    for path in pages:
        name = path.relative_to(ROOT)
        found = blocks(path)
        for target in broken_links(path):
            wrong += 1
            print("%s: there is no %s" % (name, target))
        run = [block for block in found if block.reason is None]
        skips += ["%s:%d: %s" % (name, block.line, block.reason) for block in found if block.reason]
        if not run:
            continue
        if any(re.search(r"\bkubectl\b", command) for block in run for command, _ in block.commands):
            if not asked:
                (kubectl, reason), asked = find_kubectl(), True
            if reason:
                skips.append("%s: no kubectl: %s" % (name, reason))
                continue
        passed, failed = check(name, run, binary, kubectl)
        total, wrong = total + passed, wrong + failed
        print("docs %s: %d commands, %d FAILED" % (name, passed + failed, failed) if failed
              else "docs %s: %d commands" % (name, passed))
    for skip in skips:
        print("docs SKIPPED: " + skip)
    if not total + wrong:
        wrong = 1
        print("docs: no command was run")
    report("docs", total, wrong, len(skips), start, "; ".join(skips))
    sys.exit(1 if wrong else 0)


main()
