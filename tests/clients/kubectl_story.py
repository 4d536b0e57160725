#!/usr/bin/env python3
"""Suites kubectl-STORY and kubectl-old-STORY: the story of kubectl_STORY.txt,
told to a server step by step, goes as it goes on a real kube-apiserver.

    kubectl_story.py SUITE KUBECTL KUBECONFIG [--record]

Compares with recorded/SUITE.txt; with ORACLE_KUBECONFIG set, with that server
itself. Steps marked `later` need what the server does not do yet: they are run,
and a difference is shown but no failure, unless CLIENTS_STRICT=true. Of steps marked
`differs` only the exit code is compared: docs/differences.md says why; of steps marked
`unordered` the order of lines is not. The story plays in a namespace of its own,
which is removed afterwards.
"""

import difflib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import normalise
from namespace import random_suffix

HERE = pathlib.Path(__file__).parent
STEP_SECONDS = 60
# A watch is read until it has been silent for so long.
QUIET_SECONDS = 1.0
MOST_WATCH_SECONDS = 20
# How long a step `until` repeats its command, and how often.
MOST_UNTIL_SECONDS = 30
UNTIL_PAUSE_SECONDS = 0.2
DIFF_LINES = 40
# As long as the real name, so that the columns of a table stay where they are.
MASKED_NAMESPACE = "objects-namespace"


def main():
    suite, kubectl, kubeconfig = sys.argv[1:4]
    recorded = HERE / "recorded" / f"{suite}.txt"
    flavour = "old" if "old" in suite else "current"
    story = suite.rsplit("-", 1)[-1]
    steps, later, differing, unordered = read_steps(story, flavour)
    oracle_kubeconfig = os.environ.get("ORACLE_KUBECONFIG")
    if "--record" in sys.argv[4:]:
        recorded.write_text("".join(section(*answer) for answer in Story(story, kubectl, kubeconfig).tell(steps)))
        print(f"checks {len(steps)} failed 0")
        return 0
    if oracle_kubeconfig:
        expected = Story(story, kubectl, oracle_kubeconfig).tell(steps)
    else:
        expected = read_recorded(recorded)
    got = Story(story, kubectl, kubeconfig).tell(steps)
    if os.environ.get("CLIENTS_STRICT") == "true":
        later = set()
    failed = count = 0
    for number, (a, b) in enumerate(zip(got, expected)):
        if number in later:
            if a[1] != b[1]:
                print(f"LATER kubectl {a[0]}: not yet as upstream")
            continue
        count += 1
        if number in unordered:
            a, b = (a[0], sorted(a[1])), (b[0], sorted(b[1]))
        if number in differing:
            a, b = (a[0], a[1][:1]), (b[0], b[1][:1])
        failed += not same(a, b)
    if [step for step, _ in got] != [step for step, _ in expected]:
        print(f"FAIL {recorded.name} is not a recording of kubectl_{story}.txt")
        failed += 1
    print(f"checks {max(count, failed)} failed {failed}")
    return 1 if failed else 0


class Story:
    """One kubectl on one server, with a namespace and a cache of its own."""

    def __init__(self, story, binary, kubeconfig):
        self.files, self.binary, self.kubeconfig = HERE / story, binary, kubeconfig
        self.namespace = "objects-" + random_suffix(len(MASKED_NAMESPACE) - len("objects-"))
        self.running = None

    def tell(self, steps):
        """Every step with the lines it printed."""
        with tempfile.TemporaryDirectory() as folder:
            self.folder = pathlib.Path(folder)
            for source in self.files.rglob("*.yaml"):
                target = self.folder / source.relative_to(self.files)
                target.parent.mkdir(exist_ok=True)
                target.write_text(self.with_namespace(source.read_text()))
            try:
                return [(step, self.step(step)) for step in steps]
            finally:
                self.clean_up()

    def step(self, step):
        verb, _, rest = step.partition(" ")
        if verb == "start":
            return self.start(rest)
        if verb in ("join", "stop"):
            return self.end(verb)
        if verb == "until":
            return self.until(*re.match(r"'([^']*)' (.*)", rest).groups())
        if verb == "token":
            account, step = re.match(r"'([^']*)' (.*)", rest).groups()
            # Without one, the step must not be done by the administrator.
            step = f"--token={self.run(f'create token {account}')[1].strip() or 'none'} {step}"
        piped, code, errors, editor = None, 0, "", None
        if verb == "editor":
            editor, step = re.match(r"'([^']*)' (.*)", rest).groups()
        for command in step.split(" | "):
            code, piped, error = self.run(command, piped, editor)
            errors += error
            if code:
                break
        return self.lines(step, code, piped, errors)

    def arguments(self, command):
        common = [self.binary, "--kubeconfig", self.kubeconfig, "--cache-dir", f"{self.folder}/cache"]
        return common + ["-n", self.namespace] + shlex.split(self.with_namespace(command))

    def run(self, command, text=None, editor=None):
        environment = dict(os.environ, KUBE_EDITOR=f"sed -i {editor}") if editor else None
        try:
            done = subprocess.run(
                self.arguments(command), input=text or "", capture_output=True, text=True,
                timeout=STEP_SECONDS, cwd=self.folder, env=environment,
            )
        except subprocess.TimeoutExpired:
            return 124, "", f"no answer in {STEP_SECONDS} s"
        return done.returncode, done.stdout, done.stderr

    def until(self, text, command):
        """Repeats a command until it says a text; what else it says is not compared."""
        text, begin = self.with_namespace(text), time.monotonic()
        while time.monotonic() - begin < MOST_UNTIL_SECONDS:
            _, output, error = self.run(command)
            if text in output + error:
                return ["said"]
            time.sleep(UNTIL_PAUSE_SECONDS)
        return [f"not said in {MOST_UNTIL_SECONDS} s"]

    def start(self, command):
        """A command that goes on while the next steps run, until `join` or `stop`."""
        self.output = open(self.folder / "running.txt", "w+")
        self.running = subprocess.Popen(
            self.arguments(command), stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
            cwd=self.folder,
        )
        self.command = command
        self.quiet()
        return []

    def end(self, how):
        """`join` waits for the command's own end; `stop` ends a watch that has said all."""
        if how == "stop":
            self.quiet()
            self.running.send_signal(signal.SIGTERM)
        try:
            code = self.running.wait(MOST_WATCH_SECONDS)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()
            code = "none: it did not end"
        self.running = None
        self.output.seek(0)
        return self.lines(self.command, 0 if how == "stop" else code, self.output.read(), "")

    def quiet(self):
        size, since, begin = -1, time.monotonic(), time.monotonic()
        while time.monotonic() - begin < MOST_WATCH_SECONDS and self.running.poll() is None:
            now = os.fstat(self.output.fileno()).st_size
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > QUIET_SECONDS:
                return
            time.sleep(0.05)

    def lines(self, command, code, output, error):
        lines = [f"exit {code}"]
        lines += [f"stderr: {line}" for line in error.splitlines() if not is_log_line(line)]
        if command.startswith("explain "):
            lines += normalise.explain(output or "")
        else:
            lines += sorted_json(output) or without_managed_fields(output).splitlines()
        return [line for line in (self.masked(line) for line in lines) if line]

    def masked(self, line):
        line = line.replace(self.namespace, MASKED_NAMESPACE).replace(str(self.folder) + "/", "")
        for pattern, mask in MASKS:
            line = pattern.sub(mask, line)
        return line.rstrip()

    def with_namespace(self, text):
        return text.replace("NAMESPACE", self.namespace)

    def clean_up(self):
        """Leaves nothing, even on a server that runs no namespace controller."""
        if self.running:
            self.running.kill()
            self.running.wait()
        self.remove_definitions()
        for kind in "clusterroles", "clusterrolebindings", "priorityclasses", "persistentvolumes", "csr":
            self.run(f"delete {kind} -l origin=NAMESPACE --wait=false --ignore-not-found")
        # What kubectl makes from flags has no labels, but the namespace in its name.
        for name in self.run("get clusterroles,clusterrolebindings -o name")[1].split():
            if self.namespace in name:
                self.run(f"delete {name} --wait=false --ignore-not-found")
        listing = json.loads(self.run("get KINDS -o json".replace("KINDS", NAMESPACED_KINDS))[1] or '{"items": []}')
        for item in listing["items"]:
            if item["metadata"].pop("finalizers", None):
                self.run("replace -f -", json.dumps(item))
        self.run(f"delete {NAMESPACED_KINDS} --all --wait=false --grace-period=0 --force")
        self.run("delete namespace NAMESPACE --wait=false --ignore-not-found")
        code, text, _ = self.run("get namespace NAMESPACE -o json")
        if code == 0:
            namespace = json.loads(text)
            namespace["spec"]["finalizers"] = []
            self.run("replace --raw /api/v1/namespaces/NAMESPACE/finalize -f -", json.dumps(namespace))

    def remove_definitions(self):
        """Custom objects go with their definitions if no finalizer holds them."""
        definitions = self.run("get crd -l origin=NAMESPACE -o name")[1].split()
        for definition in definitions:
            name = definition.partition("/")[2]
            listing = json.loads(self.run(f"get {name} -o json")[1] or '{"items": []}')
            for item in listing["items"]:
                if item["metadata"].get("finalizers"):
                    patch = ["--type=merge", "-p", '{"metadata":{"finalizers":null}}']
                    self.run(shlex.join(["patch", name, item["metadata"]["name"], *patch]))
            self.run(f"delete crd {name} --wait=false --ignore-not-found")


NAMESPACED_KINDS = ",".join((
    "configmaps", "secrets", "serviceaccounts", "services", "pods", "replicationcontrollers", "endpoints",
    "limitranges", "resourcequotas", "persistentvolumeclaims", "deployments.apps", "replicasets.apps",
    "statefulsets.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch", "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy", "leases.coordination.k8s.io", "horizontalpodautoscalers.autoscaling",
))

# What no two servers say alike, in this order.
MASKS = [(re.compile(pattern), mask) for pattern, mask in (
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r'("?resourceVersion"?:) "\d+"', r'\1 "RV"'),
    # It is a hash of the group, which is named for the namespace.
    (r'("storageVersionHash":) "[^"]+"', r'\1 "HASH"'),
    (r"(Resource Version:\s+)\d+", r"\1RV"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} \w+", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    # Ages; kubectl writes <invalid> when its clock is a moment behind.
    (r"(?<![\w.:/-])((\d+[dhmsy])+|<invalid>)(?![\w:/-])", "AGE"),
    (r"(?<![\d.])10\.\d+\.\d+\.\d+(?![\d.])", "ADDRESS"),
    (r"(\d+:|nodePort: |NodePort:.* )3[0-2]\d{3}(?=/|$)", r"\1NODEPORT"),
    (r"(generated-)[a-z0-9]{5}\b", r"\1XXXXX"),
    # kubectl 1.34 and later name the namespace.
    (r'(" (force )?deleted) from \S+ namespace', r"\1"),
    # Up to 1.33, kubectl writes times that are not there.
    (r"^\s*creationTimestamp: null$", ""),
    # Files of kubectl's own.
    (r"(LIVE|MERGED)-\d+", r"\1-N"),
    (r"kubectl-edit-\w+", "kubectl-edit-N"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
    # A line of its own code.
    (r'(in scheme) "[^"]+"', r'\1 "SCHEME"'),
    # Its columns are as wide as what was masked.
    (r"(?<=\S) {2,}", "  "),
)]


def sorted_json(output):
    """JSON as the server wrote it, on one line: the order of keys is no promise."""
    if not re.match(r'\{"(kind|apiVersion)":', output or ""):
        return None
    answer = json.loads(output)
    answer.get("metadata", {}).pop("managedFields", None)
    return json.dumps(answer, sort_keys=True, indent=2).splitlines()


def without_managed_fields(output):
    """Old kubectl prints managedFields; which manager owns what is another suite's."""
    result, margin = [], None
    for line in (output or "").splitlines():
        indent = len(line) - len(line.lstrip())
        if margin is not None and (indent > margin or line.strip()[:1] in ("-", "]")):
            if indent >= margin:
                continue
        margin = None
        if re.match(r'\s*("managedFields": \[|managedFields:|Managed Fields:)', line):
            margin = indent
            continue
        result.append(line)
    return "\n".join(result)


def is_log_line(line):
    return len(line) > 5 and line[0] in "EWI" and line[1:5].isdigit()


def read_steps(story, flavour):
    """The steps for one kubectl, and the places of those marked."""
    steps, later, differing, unordered = [], set(), set(), set()
    for line in (HERE / f"kubectl_{story}.txt").read_text().splitlines():
        line = line.strip()
        first, _, rest = line.partition(" ")
        if first in ("current", "old"):
            if first != flavour:
                continue
            line = rest
        if line.startswith("later "):
            line = line.removeprefix("later ")
            later.add(len(steps))
        if line.startswith("differs "):
            line = line.removeprefix("differs ")
            differing.add(len(steps))
        if line.startswith("unordered "):
            line = line.removeprefix("unordered ")
            unordered.add(len(steps))
        if line and not line.startswith("#"):
            steps.append(line)
    return steps, later, differing, unordered


def section(step, lines):
    return f"$ kubectl {step}\n" + "".join(f"{line}\n" for line in lines) + "\n"


def read_recorded(path):
    answers = []
    for line in path.read_text().splitlines():
        if line.startswith("$ kubectl "):
            answers.append((line.removeprefix("$ kubectl "), []))
        elif line:
            answers[-1][1].append(line)
    return answers


def same(got, expected):
    (step, got), (_, expected) = got, expected
    if got == expected:
        return True
    print(f"FAIL kubectl {step}:")
    diff = list(difflib.unified_diff(expected, got, "expected", "server", lineterm="", n=2))
    for line in diff[:DIFF_LINES]:
        print(f"  {line}")
    if len(diff) > DIFF_LINES:
        print(f"  ... {len(diff) - DIFF_LINES} lines more")
    return False


if __name__ == "__main__":
    sys.exit(main())
