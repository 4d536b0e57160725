#!/usr/bin/env python3
"""Records what the real kustomize answers to the cases in crates/kustomize/tests/cases.

    KUSTOMIZE=/path/to/kustomize tests/kustomize/record.py [--check] [--only NAME] [--runs N] [FILE...]

Without --check the recorded part of every case is rewritten. With --check nothing is
written and each difference is printed; KUSTOMIZE may then be any command with kustomize's
command line (it is split like a shell line). The layout of the files is described in
crates/kustomize/tests/cases/README.md.
"""

import argparse
import base64
import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile

CASES = pathlib.Path(__file__).resolve().parents[2] / "crates/kustomize/tests/cases"
# Some inputs make the real command run or grow without end.
TIMEOUT_SECONDS = 15
MEMORY_BYTES = 4 << 30

CASE = re.compile(r"^=== (.+)$")
INPUT = re.compile(r"^-- (.+?)(?: \((no newline|base64|json|link|dir|exec)\))? --$")
RECORD = re.compile(
    r"^>> (exit \d+|stdout|stderr|file .+?|link .+?|dir .+?|removed .+?)"
    r"(?: \((no newline|base64|json)\))?$"
)
ESCAPED = re.compile(r"^(\\|=== |-- |>> )")


class Case:
    """Header lines, inputs and answers of one case, each as (title, encoding, lines)."""

    def __init__(self, name):
        self.name = name
        self.header = []
        self.inputs = []
        self.answers = []

    def words(self, key):
        return [line[len(key) + 1 :] for line in self.header if line.startswith(key + " ")]


def parse(text):
    """Splits a topic file into its leading comment lines and its cases."""
    preamble, cases, section = [], [], None
    for line in text.split("\n")[:-1]:
        if match := CASE.match(line):
            cases.append(Case(match[1]))
            section = cases[-1].header
        elif not cases:
            preamble.append(line)
        elif match := INPUT.match(line):
            section = []
            cases[-1].inputs.append((match[1], match[2], section))
        elif match := RECORD.match(line):
            section = []
            cases[-1].answers.append((match[1], match[2], section))
        elif section is cases[-1].header:
            section.append(line)
        else:
            section.append(line[1:] if line.startswith("\\") else line)
    return preamble, cases


def render(preamble, cases):
    out = list(preamble)
    for case in cases:
        out.append(f"=== {case.name}")
        out += case.header
        for title, encoding, lines in case.inputs:
            out.append(f"-- {title}{f' ({encoding})' if encoding else ''} --")
            out += [escape(line) for line in lines]
        for title, encoding, lines in case.answers:
            out.append(f">> {title}{f' ({encoding})' if encoding else ''}")
            out += [escape(line) for line in lines]
    return "".join(line + "\n" for line in out)


def escape(line):
    return "\\" + line if ESCAPED.match(line) else line


def decode(encoding, lines, root):
    if encoding == "base64":
        return base64.b64decode("".join(lines))
    if encoding == "json":
        text = json.loads("".join(lines))
    else:
        text = "".join(line + "\n" for line in lines)
        if encoding == "no newline":
            text = text[:-1]
    return text.replace("$ROOT", root).encode()


def encode(title, data):
    """The most readable encoding that gives the same bytes back."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return title, "base64", re.findall(".{1,76}", base64.b64encode(data).decode())
    if re.search("[^\n\t -\\U0010ffff]|[\x7f-\x9f\u2028\u2029\ufeff]", text):
        return title, "json", [json.dumps(text)]
    if text == "":
        return title, None, []
    if text.endswith("\n"):
        return title, None, text.split("\n")[:-1]
    return title, "no newline", text.split("\n")


def snapshot(root):
    """Path -> what is there: files, links and empty directories below root."""
    found = {}
    for directory, names, files in os.walk(root):
        if ".git" in names:
            names.remove(".git")
        for name in names + files:
            path = os.path.join(directory, name)
            shown = os.path.relpath(path, root)
            if os.path.islink(path):
                found[shown] = ("link", os.readlink(path).encode())
            elif os.path.isdir(path):
                if not os.listdir(path):
                    found[shown] = ("dir", b"")
            else:
                found[shown] = ("file", pathlib.Path(path).read_bytes())
    return found


def commit(repository):
    """Makes a directory a git repository with everything in it committed on branch main."""
    identity = ["-c", "user.name=case", "-c", "user.email=case@example.com"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run(["git", *identity, *words], cwd=repository, check=True)


def mask(data, root, around, is_stderr=False):
    data = data.replace(root.encode(), b"$ROOT").replace(around.encode(), b"$TMP")
    data = re.sub(rb"(\$TMP/tmp/kustomize-(?:helm-)?)[0-9]+", rb"\1N", data)
    if not is_stderr and re.search(rb"(?m)^Usage:$", data):
        data = b"$HELP\n"
    if is_stderr:
        data = re.sub(rb"0x[0-9a-f]{6,}", b"0xPTR", data)
        data = re.sub(rb"(?ms)^Usage:\n.*", b"$USAGE\n", data)
        data = re.sub(rb"(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ", b"$TIME ", data)
    return data


def answer(command, case):
    """Runs one case in a fresh directory and returns its recorded sections."""
    around = os.path.realpath(tempfile.mkdtemp(prefix="case-"))
    try:
        root = os.path.join(around, "work")
        for name in ("work", "home", "tmp"):
            os.mkdir(os.path.join(around, name))
        stdin = b""
        for title, encoding, lines in case.inputs:
            if title == "(stdin)":
                stdin = decode(encoding, lines, root)
                continue
            path = os.path.join(root, title)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if encoding == "dir":
                os.makedirs(path, exist_ok=True)
            elif encoding == "link":
                os.symlink(lines[0].replace("$ROOT", root), path)
            else:
                pathlib.Path(path).write_bytes(decode(encoding, lines, root))
                if encoding == "exec":
                    os.chmod(path, 0o755)
        for repository in case.words("git"):
            commit(os.path.join(root, repository))
        before = snapshot(root)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.path.join(around, "home"),
            "TMPDIR": os.path.join(around, "tmp"),
        }
        for setting in case.words("env"):
            key, _, value = setting.partition("=")
            environment[key] = value.replace("$ROOT", root)
        [line] = case.words("$") or [""]
        words = [word.replace("$ROOT", root) for word in shlex.split(line)]
        [cwd] = case.words("cwd") or ["."]
        try:
            done = subprocess.run(
                command + words,
                cwd=os.path.join(root, cwd),
                env=environment,
                input=stdin,
                capture_output=True,
                timeout=TIMEOUT_SECONDS,
                preexec_fn=limit_memory,
            )
        except subprocess.TimeoutExpired:
            return [("exit 124", None, [])]
        stderr = mask(done.stderr, root, around, is_stderr=True)
        if done.returncode == 2 and re.search(b"^(panic|fatal error): ", stderr, re.M):
            stderr = re.split(b"\n+(?:goroutine|runtime stack)", stderr)[0] + b"\n"
        answers = [(f"exit {done.returncode}", None, [])]
        if done.stdout:
            answers.append(encode("stdout", mask(done.stdout, root, around)))
        if stderr:
            answers.append(encode("stderr", stderr))
        after = snapshot(root)
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) == after.get(path):
                continue
            if path in after:
                kind, data = after[path]
                answers.append(encode(f"{kind} {path}", mask(data, root, around)))
            elif not any(other.startswith(path + "/") for other in after):
                answers.append((f"removed {path}", None, []))
        return answers
    finally:
        shutil.rmtree(around, ignore_errors=True)


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--check", action="store_true", help="compare, write nothing")
    options.add_argument("--only", default="", help="only cases whose name contains this")
    options.add_argument("--missing", action="store_true", help="only cases without an answer")
    options.add_argument("--runs", type=int, default=2, help="runs per case that must agree")
    options.add_argument("files", nargs="*", type=pathlib.Path)
    options = options.parse_args()
    command = shlex.split(os.environ.get("KUSTOMIZE", ""))
    if not command:
        sys.exit("set KUSTOMIZE to the kustomize command")
    command[0] = shutil.which(command[0]) or sys.exit(f"{command[0]}: not found")

    differences = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file in options.files or sorted(CASES.glob("*.case")):
            preamble, cases = parse(file.read_text(encoding="utf-8"))
            names = [case.name for case in cases]
            for name in {name for name in names if names.count(name) > 1}:
                sys.exit(f"{file}: two cases are called {name}")
            chosen = [
                case
                for case in cases
                if options.only in case.name and not (options.missing and case.answers)
            ]
            runs = 1 if options.check else options.runs
            pending = [[pool.submit(answer, command, case) for _ in range(runs)] for case in chosen]
            for case, futures in zip(chosen, pending):
                results = [future.result() for future in futures]
                unstable = bool(case.words("unstable"))
                if any(result != results[0] for result in results) and not unstable:
                    print(f"{file.name}: {case.name}: the answer changes from run to run")
                if not options.check:
                    if not (unstable and case.answers):
                        case.answers = results[0]
                    continue
                was, now = case.answers, results[0]
                if unstable:
                    was, now = was[:1], now[:1]
                if was != now:
                    differences += 1
                    texts = [render([], [showing(case, part)]).splitlines() for part in (was, now)]
                    print(f"{file.name}: {case.name}")
                    print("\n".join(list(difflib.unified_diff(*texts, "recorded", "now", n=2, lineterm=""))[2:]))
            if not options.check:
                file.write_text(render(preamble, cases), encoding="utf-8")
            print(f"{file.name}: {len(chosen)} cases")
    sys.exit(1 if differences else 0)


def showing(case, answers):
    shown = Case(case.name)
    shown.answers = answers
    return shown


if __name__ == "__main__":
    main()
