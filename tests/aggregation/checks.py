#!/usr/bin/env python3
"""Extension servers behind a front: registered, used with kubectl, killed, slowed, upgraded; then sternpost itself
as the extension server. One line per check.

    checks.py --kind sternpost --binary FILE --tools FOLDER --kubectl FILE [--inner STERNPOST]
        [--metrics-server FILE] [SECTION...]
    checks.py --kind kube-apiserver --binary FILE --front-etcd FILE ...

TOOLS holds `helper`, and `etcd` and `sample-apiserver` for the sections that use the sample server. `run` builds them.
Where upstream is known to do otherwise, the check says both values.
"""

import argparse
import concurrent.futures
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import manifests
import servers

GROUP, NAMESPACE, NESTED = manifests.GROUP, manifests.NAMESPACE, manifests.NESTED
FLUNDERS = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/flunders"
DOCUMENT = f"/openapi/v3/apis/{GROUP}/v1alpha1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# Upstream looks at availability every 30 s, and at roots of OpenAPI every 60 s.
AVAILABILITY_SECONDS = 45
OPENAPI_SECONDS = 75
# How slow a slow server is; one that takes 5 s counts as unavailable.
SLOW_SECONDS = 4
# What it may cost anybody else.
PROMPT_SECONDS = 2.0
KUBECTL_SECONDS = 30
# What four servers that misbehave may cost in memory, one of them with bodies that do not end.
ROGUE_BYTES = 200_000_000


class Suite:
    def __init__(self, front, kubectl, scratch):
        self.front, self.kubectl_binary, self.scratch = front, kubectl, pathlib.Path(scratch)
        self.passed = self.failed = self.skipped = 0
        self.caches = 0

    def ours(self):
        return self.front.kind == "sternpost"

    def check(self, name, holds, detail=""):
        if holds:
            self.passed += 1
            print(f"ok      {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED  {name}: {str(detail)[:600]}", flush=True)
        return holds

    def equal(self, name, value, expected, upstream=None):
        """`upstream` is what kube-apiserver does, if that is not what we want."""
        if upstream is not None and not self.ours():
            expected = upstream
        return self.check(name, value == expected, f"{value!r}, expected {expected!r}")

    def skip(self, name, reason):
        self.skipped += 1
        print(f"SKIPPED {name}: {reason}", flush=True)

    def eventually(self, name, ask, seconds):
        """`ask` returns what is true in the end, or raises; the last answer is the detail."""
        start, answer = time.monotonic(), None
        while time.monotonic() - start < seconds:
            try:
                answer = ask()
                if answer is True:
                    return self.check(f"{name}", True)
            except Exception as error:  # any answer that is not there yet
                answer = repr(error)
            time.sleep(0.2)
        return self.check(name, False, f"{answer} after {seconds} s")

    def kubectl(self, *arguments, user=None, given=None, kubeconfig=None):
        """Code, output and errors of kubectl, without anything it remembers."""
        self.caches += 1
        command = [self.kubectl_binary, "--kubeconfig", kubeconfig or (self.front.folder / user if user else self.front.kubeconfig),
                   "--cache-dir", self.scratch / f"cache-{self.caches}", *arguments]
        text = given if isinstance(given, str) or given is None else json.dumps(given)
        try:
            done = subprocess.run([str(part) for part in command], input=text, stdin=None if text is not None else subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=KUBECTL_SECONDS)
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            return 124, "", f"no answer in {KUBECTL_SECONDS} s"

    def does(self, name, *arguments, says=None, **more):
        """kubectl succeeds, and `says` is in what it prints."""
        code, out, err = self.kubectl(*arguments, **more)
        self.check(name, code == 0 and (says is None or says in out), f"code {code}: {out} {err}")
        return out

    def refused(self, name, *arguments, says, **more):
        code, out, err = self.kubectl(*arguments, **more)
        self.check(name, code != 0 and says in err, f"code {code}: {out} {err}")

    def get(self, path, **more):
        return self.front.client.get(path, **more)

    def condition(self, name):
        found = self.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}").json().get("status", {}).get("conditions", [])
        return next(((c["status"], c["reason"]) for c in found if c["type"] == "Available"), None)

    def available(self, name, service, seconds=AVAILABILITY_SECONDS):
        return self.eventually(name, lambda: self.condition(service) == ("True", "Passed") or self.condition(service), seconds)

    def discovered(self, group):
        """The versions of a group in aggregated discovery: name, freshness, resources."""
        items = self.get("/apis", Accept=AGGREGATED).json()["items"]
        return {v["version"]: (v["freshness"], sorted(r["resource"] for r in v.get("resources", [])))
                for item in items if item["metadata"]["name"] == group for v in item["versions"]}

    def root(self):
        return {key: value["serverRelativeURL"] for key, value in self.get("/openapi/v3").json()["paths"].items()}

    def others_prompt(self, name, count=3, upstream_waits=False):
        """What is not that server's is answered at once: the slowest of several requests."""
        if upstream_waits and not self.ours():
            return self.skip(name, "upstream waits for one that hangs with the lock of /openapi/v3")
        slowest = {}
        for _ in range(count):
            for path, headers in (("/openapi/v3", {}), ("/openapi/v3/apis/apps/v1", {}), ("/apis", {"Accept": AGGREGATED}),
                                  ("/apis", {}), ("/api/v1/namespaces", {}), ("/apis/apps/v1/deployments", {}),
                                  ("/apis/apiregistration.k8s.io/v1/apiservices", {})):
                with servers.Stalls() as stalls:
                    answer = self.get(path, **headers)
                key = f"{path} {'aggregated' if headers else ''}"
                late = answer.seconds - 2 * stalls.worst if answer.status == 200 else 99
                slowest[key] = max(slowest.get(key, 0), late)
        self.check(name, max(slowest.values()) < PROMPT_SECONDS, slowest)


def registered(suite, sample):
    """The registration itself, and what it changes."""
    config = suite.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").json().get("data", {})
    suite.equal("the ConfigMap extension servers read names its headers", {k: v for k, v in config.items() if "ca-file" not in k}, {
        "requestheader-allowed-names": '["front-proxy"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    })
    for key, file in (("client-ca-file", "client-ca.crt"), ("requestheader-client-ca-file", "front-ca.crt")):
        suite.check(f"the ConfigMap holds {key}", (suite.front.pki / file).read_text().strip() in config.get(key, ""), config.get(key))
    suite.does("a Service and its EndpointSlice", "apply", "-f", "-", given=manifests.service("sample", sample.gate.host, sample.gate.port))
    for version, priority in (("v1alpha1", 15), ("v1beta1", 10)):
        suite.does(f"APIService {version} is created", "apply", "-f", "-",
                   given=manifests.api_service(GROUP, version, "sample", sample.bundle, version_priority=priority))
    for version in manifests.VERSIONS:
        suite.available(f"APIService {version} is available", f"{version}.{GROUP}")
    code, out, _ = suite.kubectl("get", "apiservices")
    lines = {line.split()[0]: line.split()[1:3] for line in out.splitlines() if line}
    suite.equal("kubectl get apiservices: the remote one", lines.get(f"v1alpha1.{GROUP}"), [f"{NAMESPACE}/sample", "True"])
    suite.equal("kubectl get apiservices: a local one", lines.get("v1.apps"), ["Local", "True"])


def discovery(suite, _sample):
    suite.eventually("aggregated discovery has its resources", lambda: suite.discovered(GROUP) == {
        "v1alpha1": ("Current", ["fischers", "flunders"]), "v1beta1": ("Current", ["flunders"])} or suite.discovered(GROUP), 10)
    out = suite.does("kubectl api-resources", "api-resources", "--api-group", GROUP, "--no-headers")
    suite.equal("api-resources: columns", sorted(" ".join(line.split()) for line in out.splitlines()),
                [f"fischers {GROUP}/v1alpha1 false Fischer", f"flunders {GROUP}/v1alpha1 true Flunder"])
    out = suite.does("kubectl api-versions", "api-versions")
    suite.check("api-versions: both", all(f"{GROUP}/{version}" in out.split() for version in manifests.VERSIONS), out)
    group = suite.get(f"/apis/{GROUP}").json()
    suite.equal("the preferred version has the higher priority", group["preferredVersion"]["version"], "v1alpha1")
    suite.equal("versions in order of priority", [v["version"] for v in group["versions"]], ["v1alpha1", "v1beta1"])
    groups = [g["name"] for g in suite.get("/apis").json()["groups"]]
    suite.check("its priority is below those built in", groups.index(GROUP) > groups.index("apps"), groups)
    suite.equal("a version nobody registered", suite.get(f"/apis/{GROUP}/v9").status, 404)


def used(suite, _sample):
    """kubectl does to these objects what it does to others."""
    suite.does("create", "create", "-f", "-", given=manifests.flunder("one"), says="flunder.wardle.example.com/one created")
    suite.does("get: the server's table", "get", "flunders", "-n", NAMESPACE, says="NAME")
    suite.does("get by name", "get", "flunder", "one", "-n", NAMESPACE, "-o", "jsonpath={.metadata.name}", says="one")
    suite.does("get in the other version", "get", f"flunders.v1beta1.{GROUP}", "one", "-n", NAMESPACE, "-o", "jsonpath={.apiVersion}", says=f"{GROUP}/v1beta1")
    suite.does("get from all namespaces with labels shown", "get", "flunders", "-A", "--show-labels", says="one")
    suite.refused("get of what is not there", "get", "flunder", "none", "-n", NAMESPACE, says='flunders.wardle.example.com "none" not found')
    suite.does("apply", "apply", "-f", "-", given=manifests.flunder("two", "one"), says="created")
    suite.does("apply again", "apply", "-f", "-", given=manifests.flunder("two", "one"), says="unchanged")
    suite.does("apply a change", "apply", "-f", "-", given=manifests.flunder("two", "one", {"tide": "high"}), says="configured")
    suite.does("diff of nothing", "diff", "-f", "-", given=manifests.flunder("two", "one", {"tide": "high"}))
    suite.does("apply --server-side", "apply", "--server-side", "-f", "-", given=manifests.flunder("three", "one"), says="serverside-applied")
    suite.refused("another manager's field is a conflict", "apply", "--server-side", "--field-manager", "other", "-f", "-",
                  given=manifests.flunder("three", "two"), says="conflict with \"kubectl\"")
    suite.does("with force it is not", "apply", "--server-side", "--force-conflicts", "--field-manager", "other", "-f", "-",
               given=manifests.flunder("three", "two"), says="serverside-applied")
    suite.does("merge patch", "patch", "flunder", "three", "-n", NAMESPACE, "--type", "merge", "-p", '{"spec":{"reference":"four"}}', says="patched")
    suite.does("JSON patch", "patch", "flunder", "three", "-n", NAMESPACE, "--type", "json", "-p",
               '[{"op":"replace","path":"/spec/reference","value":"five"}]', says="patched")
    suite.does("it was patched", "get", "flunder", "three", "-n", NAMESPACE, "-o", "jsonpath={.spec.reference}", says="five")
    suite.does("label", "label", "flunder", "three", "-n", NAMESPACE, "tide=low", says="labeled")
    out = suite.does("label selector", "get", "flunders", "-n", NAMESPACE, "-l", "tide", "-o", "name")
    suite.equal("label selector: which", sorted(out.split()), ["flunder.wardle.example.com/three", "flunder.wardle.example.com/two"])
    suite.refused("a field that does not exist", "create", "-f", "-", given={**manifests.flunder("odd"), "spec": {"nope": 1}}, says='unknown field "spec.nope"')
    suite.does("a kind without a namespace", "apply", "-f", "-", given=manifests.fischer("ban", ["badname"]), says="created")
    suite.eventually("the extension server's own admission", lambda: "this name may not be used" in suite.kubectl(
        "create", "--dry-run=server", "-f", "-", given=manifests.flunder("badname"))[2], 10)
    suite.does("describe", "describe", "flunder", "two", "-n", NAMESPACE, says="Name:")
    watched(suite, "flunders", manifests.flunder("watched"))
    lines = [b"one\n", b"x" * 100_000 + b"\n", b"three\n"]
    suite.equal("an upgraded connection, both ways", servers.echoed(suite.front.port, f"{FLUNDERS}/one/echo", "admin-token", lines), (101, lines))
    suite.does("delete", "delete", "flunder", "two", "-n", NAMESPACE, says="deleted")
    suite.does("delete --all", "delete", "flunders", "--all", "-n", NAMESPACE, says="deleted")
    suite.equal("nothing is left", suite.get(FLUNDERS).json()["items"], [])


def watched(suite, resource, made):
    """A watch delivers each event when it happens."""
    command = [suite.kubectl_binary, "--kubeconfig", suite.front.kubeconfig, "--cache-dir", suite.scratch / "cache-watch",
               "get", resource, "-n", NAMESPACE, "--watch-only", "--output-watch-events", "--no-headers"]
    name = made["metadata"]["name"]
    with open(suite.scratch / "watch.out", "w+") as out:
        watch = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            time.sleep(2)
            suite.kubectl("create", "-f", "-", given=made)
            suite.kubectl("label", resource, name, "-n", NAMESPACE, "seen=yes")
            suite.kubectl("delete", resource, name, "-n", NAMESPACE)

            def events():
                out.seek(0)
                lines = [line.split()[:2] for line in out.read().splitlines() if name in line]
                return [line[0] for line in lines] == ["ADDED", "MODIFIED", "DELETED"] or lines

            suite.eventually(f"watch of {resource}: added, modified, deleted", events, 5)
        finally:
            watch.kill()
            watch.wait()


def documents(suite, _sample):
    """OpenAPI of both kinds, and those who read it."""
    suite.eventually("the root lists its documents", lambda: all(
        f"apis/{GROUP}/{version}" in suite.root() for version in manifests.VERSIONS) or sorted(suite.root()), 10)
    url = suite.root().get(f"apis/{GROUP}/v1alpha1", "/missing")
    answer = suite.get(url)
    suite.equal("its document, by the root's own link", answer.status, 200)
    document = answer.json() if answer.status == 200 else {}
    suite.check("the document is the server's: paths", f"/apis/{GROUP}/v1alpha1/namespaces/{{namespace}}/flunders" in document.get("paths", {}), list(document.get("paths", {}))[:5])
    suite.equal("the document has no dangling references", dangling(document), [])
    suite.equal("without a hash too", suite.get(DOCUMENT).status, 200)
    stale = suite.get(f"{DOCUMENT}?hash=STALE")
    suite.equal("a stale hash", (stale.status, stale.headers.get("Location")), (301, url), upstream=(502, None))
    tag = answer.headers.get("ETag")
    suite.equal("an ETag it gave is honoured", suite.get(url, If_None_Match=tag or "none").status, 304)
    suite.does("kubectl get --raw /openapi/v3", "get", "--raw", "/openapi/v3", says=f"apis/{GROUP}/v1beta1")
    merged = suite.get("/openapi/v2")

    def in_v2():
        nonlocal merged
        merged = suite.get("/openapi/v2")
        return f"/apis/{GROUP}/v1alpha1/namespaces/{{namespace}}/flunders" in merged.json()["paths"] or merged.status

    suite.eventually("the v2 aggregate has its paths", in_v2, 15)
    merged = merged.json()
    suite.equal("the v2 aggregate has no dangling references", dangling(merged), [])
    suite.equal("no kind of the v2 aggregate has two definitions", doubled_kinds(merged), [])
    suite.check("the v2 aggregate keeps what is built in", "/api/v1/namespaces/{namespace}/pods" in merged["paths"])
    suite.does("explain", "explain", "flunders", says="KIND:       Flunder")
    suite.does("explain a field", "explain", "flunder.spec.referenceType", says="FIELD: referenceType")
    suite.does("explain --recursive in the other version", "explain", "flunders", "--api-version", f"{GROUP}/v1beta1", "--recursive", says="spec")
    suite.does("explain by v2", "explain", "fischers", "--output", "plaintext-openapiv2", says="disallowedFlunders")


def dangling(document):
    """References of a document that lead nowhere."""
    found = set()

    def walk(value):
        if isinstance(value, dict):
            target = value.get("$ref")
            if isinstance(target, str) and not leads(target):
                found.add(target)
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    def leads(target):
        if not target.startswith("#/"):
            return False
        place = document
        for part in target[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, dict) or part not in place:
                return False
            place = place[part]
        return True

    walk(document)
    return sorted(found)


def doubled_kinds(document):
    """Kinds with a group of their own that two definitions claim, and kubectl cannot tell apart. Options of deletion
    and the like belong to every group, by one definition each."""
    claimed = {}
    for name, definition in document.get("definitions", {}).items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            claimed.setdefault((kind["group"], kind["version"], kind["kind"]), []).append(name)
    return sorted(names for names in claimed.values() if len(names) > 1)


def identity(suite, sample):
    """Who the extension server is told the user is, and what it asks the front about him."""
    suite.refused("a user without a role is refused", "get", "flunders", "-n", NAMESPACE, user="alice",
                  says='User "alice" cannot list resource "flunders" in API group "wardle.example.com"')
    suite.does("he is given one", "apply", "-f", "-", given=manifests.reader_role("flunder-reader", GROUP, "flunders", "alice"))
    suite.eventually("then he may read", lambda: suite.kubectl("get", "flunders", "-n", NAMESPACE, user="alice")[0] == 0, 15)
    suite.refused("and not write", "create", "-f", "-", user="alice", given=manifests.flunder("forbidden"), says='cannot create resource "flunders"')
    suite.does("somebody else on behalf of him", "get", "flunders", "-n", NAMESPACE, "--as", "alice")
    suite.refused("and of somebody who may not", "get", "flunders", "-n", NAMESPACE, "--as", "bob", says='User "bob" cannot list')

    # Straight to the server, past the front: it asks the front who a token is and what he may do.
    direct = sample.server.client
    suite.equal("TokenReview: a token the front does not know", direct.get(FLUNDERS, token="nobody").status, 401)
    suite.equal("SubjectAccessReview: who may read", direct.get(FLUNDERS, token="alice-token").status, 200)
    answer = direct.send("POST", FLUNDERS, manifests.flunder("forbidden"), token="alice-token")
    suite.equal("SubjectAccessReview: who may not create", answer.status, 403)
    forged = direct.get(FLUNDERS, X_Remote_User="admin", X_Remote_Group="system:masters")
    suite.check("identity headers without the front's certificate are nothing", forged.status in (401, 403), forged.status)

    sample.gate.seen()
    suite.get(FLUNDERS, token="alice-token", X_Remote_User="forged", X_Remote_Group="system:masters", X_Remote_Uid="0",
              X_Remote_Extra_Scope="all", X_Forwarded_For="198.51.100.7", Impersonate_Odd="kept", Audit_ID="audit-7")
    seen = next((s for s in sample.gate.seen() if s["URI"].startswith(FLUNDERS)), None)
    if not suite.check("the request arrives", seen is not None):
        return
    header = {name.lower(): values for name, values in seen["Header"].items()}
    suite.equal("it comes with the front's certificate", seen["Certificate"], "front-proxy")
    suite.equal("TLS is for the Service's name", seen["TLSName"], f"sample.{NAMESPACE}.svc")
    suite.equal("the protocol", seen["Protocol"], "HTTP/2.0")
    suite.equal("the user", header.get("x-remote-user"), ["alice"])
    suite.equal("his uid", header.get("x-remote-uid"), ["uid-7"])
    suite.equal("his groups, a line each", header.get("x-remote-group"), ["dev", "night shift", "system:authenticated"])
    suite.equal("no extras but his own", [name for name in header if name.startswith("x-remote-extra-")], [])
    suite.equal("no credentials", header.get("authorization"), None)
    suite.equal("where he is", header.get("x-forwarded-for"), ["198.51.100.7, 127.0.0.1"])
    suite.equal("the address asked", header.get("x-forwarded-host"), [sample.gate.address])
    suite.equal("the path asked", header.get("x-forwarded-uri"), [FLUNDERS])
    suite.equal("the scheme", header.get("x-forwarded-proto"), ["https"])
    suite.equal("the audit id", header.get("audit-id"), ["audit-7"])
    impersonated = suite.front.client.send("GET", FLUNDERS, headers={
        "Impersonate-User": "alice", "Impersonate-Group": "deck", "Impersonate-Extra-acme.com%2Fproject": "mast", "Impersonate-Uid": "9"})
    seen = next((s for s in sample.gate.seen() if s["URI"].startswith(FLUNDERS)), {"Header": {}})
    header = {name.lower(): values for name, values in seen["Header"].items()}
    suite.equal("somebody impersonated", (impersonated.status, header.get("x-remote-user"), header.get("x-remote-uid"),
                                          header.get("x-remote-group"), header.get("x-remote-extra-acme.com%2fproject")),
                (200, ["alice"], ["9"], ["deck", "system:authenticated"], ["mast"]))
    suite.equal("and no trace of who did", [name for name in header if name.startswith("impersonate-")], [])


def addresses(suite, sample):
    """The other ways to say where a server is. Each is a change of the same registrations."""
    if not suite.ours():
        suite.skip("ExternalName", "upstream takes it only without aggregator routing")
        suite.skip("direct address", "sternpost alone has it")
        return
    suite.does("a Service of type ExternalName", "apply", "-f", "-", given=manifests.external_name("sample-by-name", "localhost"))
    for title, more in (
        ("ExternalName", {"name": "sample", "service": "sample-by-name", "port": sample.gate.port}),
        ("direct address", {"name": "sample", "service": "sample", "address": sample.gate.address}),
    ):
        for version, priority in (("v1alpha1", 15), ("v1beta1", 10)):
            suite.does(f"{title}: {version}", "replace", "-f", "-", given=manifests.api_service(
                GROUP, version, more["service"], sample.bundle, port=more.get("port"), address=more.get("address"), version_priority=priority))
        sample.gate.seen()
        if title == "direct address":
            suite.kubectl("delete", "service", "sample", "-n", NAMESPACE)
        time.sleep(1)
        wanted = "sample-by-name" if title == "ExternalName" else "sample"
        if title == "ExternalName":
            # The name in the certificate is the Service's, so this one does not fit.
            suite.eventually(f"{title}: a certificate for another Service is refused", lambda: suite.condition(
                f"v1alpha1.{GROUP}") == ("False", "FailedDiscoveryCheck") or suite.condition(f"v1alpha1.{GROUP}"), AVAILABILITY_SECONDS)
            suite.kubectl("delete", "service", "sample", "-n", NAMESPACE)
            suite.does(f"{title}: under the name in the certificate", "apply", "-f", "-", given=manifests.external_name("sample", "localhost"))
            for version, priority in (("v1alpha1", 15), ("v1beta1", 10)):
                suite.kubectl("replace", "-f", "-", given=manifests.api_service(
                    GROUP, version, "sample", sample.bundle, port=sample.gate.port, version_priority=priority))
            wanted = "sample"
        suite.available(f"{title}: available", f"v1alpha1.{GROUP}")
        suite.does(f"{title}: used", "get", "flunders", "-n", NAMESPACE)
        names = {s["TLSName"] for s in sample.gate.seen() if s["Certificate"]}
        suite.check(f"{title}: TLS name", f"{wanted}.{NAMESPACE}.svc" in names, names)


def slowed(suite, sample):
    """One that is slow, and one that hangs, cost nobody else anything."""
    sample.gate.mode(Delay=SLOW_SECONDS)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        slow = [pool.submit(suite.get, FLUNDERS) for _ in range(4)]
        time.sleep(0.2)
        suite.others_prompt("slow: others are prompt")
        answers = [future.result() for future in slow]
    suite.equal("slow: it answers", [answer.status for answer in answers], [200] * 4)
    suite.check("slow: and takes its time", all(answer.seconds >= SLOW_SECONDS for answer in answers), [a.seconds for a in answers])
    suite.equal("slow: it stays available", suite.condition(f"v1alpha1.{GROUP}"), ("True", "Passed"))
    sample.gate.mode(Hang=True)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        hung = [pool.submit(suite.get, f"{FLUNDERS}?timeout=3s") for _ in range(4)]
        time.sleep(0.2)
        suite.others_prompt("hanging: others are prompt", upstream_waits=True)
        suite.equal("hanging: the request's own timeout ends it", {future.result().status for future in hung}, {504})
    suite.eventually("hanging: the condition says so", lambda: suite.condition(f"v1alpha1.{GROUP}") == ("False", "FailedDiscoveryCheck"), AVAILABILITY_SECONDS)
    suite.others_prompt("hanging and known to: others are prompt", upstream_waits=True)
    sample.gate.mode()
    suite.available("when it answers again, it is available", f"v1alpha1.{GROUP}")
    # A check of availability may meet the redirect first; then the request is not passed on at all.
    for _ in range(3):
        sample.gate.mode(Redirect=True)
        answer = suite.get(FLUNDERS)
        sample.gate.mode()
        if answer.status != 503:
            break
        servers.wait_until("it is not available", lambda: suite.condition(f"v1alpha1.{GROUP}") == ("True", "Passed"))
    suite.equal("redirecting: refused", (answer.status, answer.text()), (502, "the backend attempted to redirect this request, which is not permitted"))
    suite.available("after redirecting, it is available", f"v1alpha1.{GROUP}")
    suite.available("and its other version", f"v1beta1.{GROUP}")
    suite.eventually("and discovery is current", lambda: suite.discovered(GROUP)["v1alpha1"] == ("Current", ["fischers", "flunders"]) or suite.discovered(GROUP), 10)


def killed(suite, sample):
    suite.does("something to find again", "apply", "-f", "-", given=manifests.flunder("survivor"), says="flunder")
    sample.gate.process.kill()
    answer = suite.get(FLUNDERS)
    suite.check("killed: 503", answer.status == 503 and "error trying to reach service" in answer.text() or answer.text() == "service unavailable\n", (answer.status, answer.text()))
    suite.eventually("killed: the condition says so", lambda: suite.condition(f"v1alpha1.{GROUP}") == ("False", "FailedDiscoveryCheck"), AVAILABILITY_SECONDS)
    answer = suite.get(FLUNDERS)
    suite.equal("killed: then it is not asked", (answer.status, answer.text(), answer.headers.get("Content-Type")),
                (503, "service unavailable\n", "text/plain; charset=utf-8"))
    suite.eventually("killed: discovery calls it stale", lambda: suite.discovered(GROUP)["v1alpha1"] == ("Stale", []) or suite.discovered(GROUP), 10)
    suite.refused("killed: kubectl does not know the kind", "get", "flunders", "-n", NAMESPACE, says='doesn\'t have a resource type "flunders"')
    suite.refused("killed: nor by its full name", "get", f"flunders.v1alpha1.{GROUP}", "-n", NAMESPACE, says="doesn't have a resource type")
    suite.check("killed: the group stays listed", GROUP in [g["name"] for g in suite.get("/apis").json()["groups"]])
    suite.check("killed: the root keeps its entry", f"apis/{GROUP}/v1alpha1" in suite.root(), sorted(suite.root()))
    suite.equal("killed: its document", suite.get(DOCUMENT).status, 503)
    suite.equal("killed: somebody else's", suite.get("/openapi/v3/apis/apps/v1").status, 200)
    suite.equal("killed: the v2 aggregate", suite.get("/openapi/v2").status, 200)
    suite.does("killed: explain of others", "explain", "deployments", says="Deployment")
    suite.others_prompt("killed: others are prompt")
    out = suite.does("killed: api-resources lists the rest", "api-resources", says="deployments")
    suite.check("killed: and not its own", GROUP not in out, out)
    # The server itself too, so that what it kept is what its etcd kept.
    sample.server.kill()
    sample.server.start()
    sample.reopen()
    suite.available("restarted: available", f"v1alpha1.{GROUP}")
    suite.does("restarted: its objects are there", "get", "flunder", "survivor", "-n", NAMESPACE, "-o", "name", says="survivor")
    suite.eventually("restarted: discovery is current", lambda: suite.discovered(GROUP)["v1alpha1"] == ("Current", ["fischers", "flunders"]), 15)
    suite.equal("restarted: its document", suite.get(DOCUMENT).status, 200)


def old(suite, sample):
    """A server from before OpenAPI v3 and aggregated discovery, which is then upgraded."""
    for version in manifests.VERSIONS:
        suite.kubectl("delete", "apiservice", f"{version}.{GROUP}")
    suite.eventually("deregistered: gone from the root", lambda: f"apis/{GROUP}/v1alpha1" not in suite.root(), 10)
    suite.eventually("deregistered: gone from discovery", lambda: suite.discovered(GROUP) == {}, 10)
    suite.equal("deregistered: not found", suite.get(FLUNDERS).status, 404)
    suite.eventually("deregistered: gone from the v2 aggregate", lambda: [p for p in suite.get("/openapi/v2").json()["paths"] if GROUP in p] == [], 15)
    sample.gate.mode(HideV3=True, HideAggregated=True)
    address = sample.gate.address if suite.ours() else None
    suite.kubectl("apply", "-f", "-", given=manifests.service("sample", sample.gate.host, sample.gate.port))
    suite.does("an old server is registered", "apply", "-f", "-", given=manifests.api_service(GROUP, "v1alpha1", "sample", sample.bundle, address=address))
    suite.available("old: available", f"v1alpha1.{GROUP}")
    suite.eventually("old: discovery has its resources", lambda: suite.discovered(GROUP) == {"v1alpha1": ("Current", ["fischers", "flunders"])} or suite.discovered(GROUP), 15)
    suite.eventually("old: the root lists it", lambda: f"apis/{GROUP}/v1alpha1" in suite.root(), 30)
    url = suite.root().get(f"apis/{GROUP}/v1alpha1", "/missing")
    answer = suite.get(url)
    suite.equal("old: its document", answer.status, 200)
    document = answer.json() if answer.status == 200 else {}
    suite.check("old: OpenAPI 3.0", document.get("openapi", "").startswith("3.0"), document.get("openapi"))
    suite.equal("old: no dangling references", len(dangling(document)) > 0, False, upstream=True)
    foreign = [path for path in document.get("paths", {}) if not path.startswith(f"/apis/{GROUP}/v1alpha1")]
    suite.equal("old: nothing of other versions", bool(foreign), False, upstream=True)
    complaints = invalid(document)
    if complaints is None:
        suite.skip("old: valid", "no openapi-spec-validator")
    else:
        suite.equal("old: valid", complaints == [], True, upstream=False)
        if complaints and suite.ours():
            print("        " + "\n        ".join(complaints[:5]))
    suite.does("old: explain", "explain", "flunders", says="KIND:       Flunder")
    suite.does("old: explain a field", "explain", "flunder.spec.referenceType", says="FIELD: referenceType")
    suite.does("old: apply", "apply", "-f", "-", given=manifests.flunder("aged"), says="created")
    suite.does("old: apply --server-side", "apply", "--server-side", "-f", "-", given=manifests.flunder("aged-too"), says="serverside-applied")
    sample.gate.mode()
    if suite.ours():
        suite.eventually("upgraded: noticed", lambda: suite.root().get(f"apis/{GROUP}/v1alpha1") not in (None, url), OPENAPI_SECONDS)
        answer = suite.get(suite.root().get(f"apis/{GROUP}/v1alpha1", "/missing"))
        suite.equal("upgraded: its own document", answer.status, 200)
        suite.does("upgraded: explain", "explain", "flunders", says="KIND:       Flunder")
    else:
        suite.skip("upgraded: noticed", "upstream does not notice")


def invalid(document):
    """What openapi-spec-validator has against a document, or None without it."""
    try:
        import openapi_spec_validator
    except ImportError:
        return None
    try:
        return [error.message[:200] for error in openapi_spec_validator.OpenAPIV30SpecValidator(document).iter_errors()]
    except Exception as error:  # it gives up at the first reference that leads nowhere
        return [str(error)[:200]]


def nested(suite, inner):
    """sternpost as the extension server: a group of its definitions, through this front."""
    outer = suite.kubectl
    suite.equal("inner: the definition", outer("apply", "-f", "-", given=manifests.gadget_definition(), kubeconfig=inner.server.kubeconfig)[0], 0)
    outer("create", "namespace", NAMESPACE, kubeconfig=inner.server.kubeconfig)
    suite.kubectl("create", "namespace", NAMESPACE)
    suite.does("inner: where it is", "apply", "-f", "-", given=manifests.service("inner", inner.gate.host, inner.gate.port))
    suite.does("inner: registered", "apply", "-f", "-", given=manifests.api_service(NESTED, "v1", "inner", inner.bundle))
    suite.available("inner: available", f"v1.{NESTED}")
    suite.eventually("inner: discovered", lambda: suite.discovered(NESTED) == {"v1": ("Current", ["gadgets"])} or suite.discovered(NESTED), 10)
    suite.does("inner: api-resources", "api-resources", "--api-group", NESTED, says="gadgets")
    suite.does("inner: apply", "apply", "-f", "-", given=manifests.gadget("one", 3), says="created")
    suite.does("inner: apply again", "apply", "-f", "-", given=manifests.gadget("one", 3), says="unchanged")
    suite.does("inner: apply --server-side", "apply", "--server-side", "-f", "-", given=manifests.gadget("two", 4, colour="red"), says="serverside-applied")
    suite.refused("inner: validation", "apply", "-f", "-", given=manifests.gadget("bad", 0), says="spec.size")
    suite.does("inner: get by short name, its columns", "get", "gd", "-n", NAMESPACE, says="SIZE")
    suite.does("inner: patch", "patch", "gadget", "one", "-n", NAMESPACE, "--type", "merge", "-p", '{"spec":{"size":7}}', says="patched")
    code, out, _ = outer("get", "gadget", "one", "-n", NAMESPACE, "-o", "jsonpath={.spec.size}", kubeconfig=inner.server.kubeconfig)
    suite.equal("inner: it is stored there", (code, out), (0, "7"))
    watched(suite, "gadgets", manifests.gadget("watched", 1))
    suite.eventually("inner: the root lists it", lambda: f"apis/{NESTED}/v1" in suite.root(), 10)
    suite.equal("inner: with the inner hash", suite.root().get(f"apis/{NESTED}/v1"),
                inner.server.client.get("/openapi/v3").json()["paths"][f"apis/{NESTED}/v1"]["serverRelativeURL"])
    suite.does("inner: explain", "explain", "gadgets.spec.size", says="In inches.")
    suite.eventually("inner: the v2 aggregate", lambda: f"/apis/{NESTED}/v1/namespaces/{{namespace}}/gadgets" in suite.get("/openapi/v2").json()["paths"], 15)
    suite.equal("inner: no kind of the v2 aggregate has two definitions", doubled_kinds(suite.get("/openapi/v2").json()), [])
    suite.refused("inner: who may not", "get", "gadgets", "-n", NAMESPACE, user="alice", says='User "alice" cannot list')
    suite.does("inner: a role here", "apply", "-f", "-", given=manifests.reader_role("gadget-reader", NESTED, "gadgets", "alice"))
    suite.eventually("inner: the role here is not enough", lambda: suite.get(f"/apis/{NESTED}/v1/gadgets", token="alice-token").status == 403
                     and any("gadgets" in s["URI"] for s in inner.gate.seen()), 15)
    outer("apply", "-f", "-", given=manifests.reader_role("gadget-reader", NESTED, "gadgets", "alice"), kubeconfig=inner.server.kubeconfig)
    suite.eventually("inner: with one there too it is", lambda: suite.get(f"/apis/{NESTED}/v1/gadgets", token="alice-token").status == 200, 15)
    suite.does("inner: delete", "delete", "gadgets", "--all", "-n", NAMESPACE, says="deleted")
    suite.equal("inner: a second group of it is not taken", f"apis/apps/v1" in suite.root() and suite.get("/apis/apps/v1").status, 200)


def rogues(suite, servers_at):
    """Servers that lie, never come to an end, send garbage, or have a certificate of last year."""
    before = suite.root()
    memory = suite.front.memory()
    present = {name: port for name, port in servers_at.server.ports.items() if suite.ours() or name != "endless"}
    for name, port in present.items():
        suite.kubectl("apply", "-f", "-", given=manifests.service(name, servers_at.server.host, port))
        suite.does(f"{name}: registered", "apply", "-f", "-", given=manifests.api_service(f"{name}.example.com", "v1", name, servers_at.bundle))

    def group(name):
        return f"{name}.example.com"

    suite.available("liar: available", "v1.liar.example.com")
    suite.eventually("liar: its own version", lambda: suite.discovered(group("liar")).get("v1") == ("Current", ["widgets"]) or suite.discovered(group("liar")), 10)
    suite.eventually("liar: its own document", lambda: f"apis/{group('liar')}/v1" in suite.root(), 10)
    root = suite.root()
    changed = sorted(key for key in root if root[key] != before.get(key) and "example.com" not in key)
    if suite.ours():
        suite.equal("liar: others' documents are theirs", changed, [])
    else:
        suite.skip("liar: others' documents are theirs", "upstream decides anew on each request")
    suite.equal("liar: nor is anything new its", [key for key in root if "stolen" in key], [], upstream=["apis/stolen.example.com/v1"])
    suite.equal("liar: no version nobody registered", sorted(suite.discovered(group("liar"))), ["v1"])
    suite.equal("liar: no group nobody registered", suite.discovered("stolen.example.com"), {})
    suite.check("liar: others' discovery is theirs", "deployments" in suite.discovered("apps")["v1"][1], suite.discovered("apps"))
    suite.eventually("liar: of its v2, its own", lambda: f"/apis/{group('liar')}/v1/widgets" in suite.get("/openapi/v2").json()["paths"], 15)
    paths = suite.get("/openapi/v2").json()["paths"]
    suite.equal("liar: and nothing else", [p for p in ("/apis/apps/v1/lies", "/apis/stolen.example.com/v1/widgets") if p in paths], [])
    suite.check("liar: the path of others is theirs", paths["/version/"]["get"]["operationId"] != "lieAboutVersion")

    if suite.ours():
        suite.available("endless: available", "v1.endless.example.com")
        suite.equal("endless: its object", suite.get(f"/apis/{group('endless')}/v1/widgets/one").status, 200)
        suite.others_prompt("endless: others are prompt")
        suite.equal("endless: the v2 aggregate", suite.get("/openapi/v2").status, 200)
    else:
        suite.skip("endless", "upstream waits for it with the lock of /openapi/v3 and of later registrations")

    suite.available("garbled: available, which is a matter of the code", "v1.garbled.example.com")
    suite.equal("garbled: discovery has no resources of it", [v[1] for v in suite.discovered(group("garbled")).values()], [[]])
    suite.check("garbled: no document", f"apis/{group('garbled')}/v1" not in suite.root())
    answer = suite.get(f"/apis/{group('garbled')}/v1/widgets")
    suite.equal("garbled: passed on as it came", (answer.status, answer.text()), (200, '{"paths":[{]},"kind":7'))

    def expired():
        found = suite.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.expired.example.com").json()["status"]["conditions"][0]
        return found["reason"] == "FailedDiscoveryCheck" and "certificate has expired or is not yet valid" in found["message"] or found

    suite.eventually("expired: the condition says so", expired, AVAILABILITY_SECONDS)
    suite.equal("expired: not asked", suite.get(f"/apis/{group('expired')}/v1/widgets/one").status, 503)
    suite.others_prompt("all of them: others are prompt", upstream_waits=True)
    if suite.ours():
        grown = suite.front.memory() - memory
        suite.check("all of them: memory", grown < ROGUE_BYTES, f"{grown / 1e6:.0f} MB more")
    for name in present:
        suite.kubectl("delete", "apiservice", f"v1.{group(name)}")
    suite.eventually("deregistered: the root is as before", lambda: sorted(suite.root()) == sorted(before) or sorted(set(suite.root()) ^ set(before)), 10)


def metrics(suite, metrics_server):
    """metrics-server without nodes: what autoscalers and `kubectl top` ask is answered, and empty."""
    group = "metrics.k8s.io"
    suite.does("metrics: where it is", "apply", "-f", "-", given=manifests.service("metrics", metrics_server.gate.host, metrics_server.gate.port))
    suite.does("metrics: registered", "apply", "-f", "-", given=manifests.api_service(
        group, "v1beta1", "metrics", metrics_server.bundle, group_priority=100, version_priority=100))
    suite.available("metrics: available", f"v1beta1.{group}")
    suite.eventually("metrics: discovered", lambda: suite.discovered(group) == {"v1beta1": ("Current", ["nodes", "pods"])} or suite.discovered(group), 10)
    suite.equal("metrics: no nodes", suite.get(f"/apis/{group}/v1beta1/nodes").json().get("items"), [])
    suite.equal("metrics: no pods", suite.get(f"/apis/{group}/v1beta1/namespaces/{NAMESPACE}/pods").json().get("items"), [])
    suite.refused("metrics: kubectl top", "top", "nodes", says="metrics not available yet")
    suite.does("metrics: get", "get", f"nodes.{group}")
    suite.eventually("metrics: the root lists it", lambda: f"apis/{group}/v1beta1" in suite.root(), 10)
    suite.does("metrics: explain", "explain", "nodes", "--api-version", f"{group}/v1beta1", says="NodeMetrics")
    suite.refused("metrics: who may not", "get", f"nodes.{group}", user="alice", says='User "alice" cannot list')


class Sample:
    """The sample server and the gate before it."""

    def __init__(self, suite, tools, pki, address):
        kubeconfig = account(suite, "sample", manifests.SERVER_RULES)
        self.etcd = servers.Etcd(suite.scratch, tools / "etcd")
        self.server = servers.Sample(suite.scratch, tools / "sample-apiserver", self.etcd, pki, kubeconfig).start()
        self.gate = servers.Gate(suite.scratch, tools / "helper", pki, "sample", self.server.address, address)
        self.bundle = servers.pem(pki / "serving-ca.crt")

    def reopen(self):
        self.gate.reopen()

    def stop(self):
        self.gate.stop()
        self.server.stop()
        self.etcd.stop()


def account(suite, name, rules):
    """The kubeconfig of a service account that may do what an extension server does."""
    _, _, err = suite.kubectl("apply", "-f", "-", given=manifests.access(name, rules))
    code, token, more = suite.kubectl("create", "token", name, "-n", NAMESPACE)
    if code != 0:
        raise servers.Failed(f"no token for the service account {name}: {err} {more}")
    return suite.front.write_kubeconfig(suite.scratch / f"{name}-kubeconfig", token.strip())


class Rogues:
    def __init__(self, suite, _binary, tools, pki, address):
        self.server = servers.Rogues(suite.scratch, tools / "helper", pki, address)
        self.bundle = servers.pem(pki / "serving-ca.crt")
        suite.kubectl("create", "namespace", NAMESPACE)

    def stop(self):
        self.server.stop()


class Metrics:
    """metrics-server and the gate before it."""

    def __init__(self, suite, binary, tools, pki, address):
        self.server = servers.MetricsServer(suite.scratch, binary, pki, account(suite, "metrics", manifests.METRICS_RULES))
        self.gate = servers.Gate(suite.scratch, tools / "helper", pki, "metrics", f"127.0.0.1:{self.server.port}", address)
        self.bundle = servers.pem(pki / "serving-ca.crt")

    def stop(self):
        self.gate.stop()
        self.server.stop()


class Inner:
    """A sternpost and the gate before it."""

    def __init__(self, suite, binary, tools, pki, address):
        self.server = servers.Front(suite.scratch, "sternpost", pki, binary, name="inner", serving="inner").start()
        self.gate = servers.Gate(suite.scratch, tools / "helper", pki, "inner", f"127.0.0.1:{self.server.port}", address)
        self.bundle = servers.pem(pki / "serving-ca.crt")

    def stop(self):
        self.gate.stop()
        self.server.stop()


SECTIONS = {"registered": registered, "discovery": discovery, "used": used, "documents": documents, "identity": identity,
            "addresses": addresses, "slowed": slowed, "killed": killed, "old": old, "rogues": rogues, "metrics": metrics, "nested": nested}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=("sternpost", "kube-apiserver"), default="sternpost")
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--front-etcd", type=pathlib.Path)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--kubectl", required=True)
    parser.add_argument("--inner", type=pathlib.Path, help="the sternpost for the section `nested`")
    parser.add_argument("--metrics-server", type=pathlib.Path, help="for the section `metrics`")
    parser.add_argument("--keep", action="store_true", help="keep the logs of the servers")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=" ".join(SECTIONS))
    arguments = parser.parse_args()
    # So that the servers are stopped by whatever ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {unknown.pop()}; there are: {' '.join(SECTIONS)}")
    with tempfile.TemporaryDirectory(prefix="aggregation-") as scratch:
        if arguments.keep:
            scratch = tempfile.mkdtemp(prefix="aggregation-")
            print(f"logs are in {scratch}")
        sys.exit(run(arguments, pathlib.Path(scratch)))


def run(arguments, scratch):
    address = servers.own_address()
    if address is None:
        print("SKIPPED all: this machine has no address but loopback, and endpoints may not be loopback")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    pki = scratch / "pki"
    subprocess.run([arguments.tools / "helper", "pki", pki, "sample", "metrics", "inner", *servers.Rogues.NAMES], check=True)
    front = servers.Front(scratch, arguments.kind, pki, arguments.binary, arguments.front_etcd)
    suite = Suite(front, arguments.kubectl, scratch)
    sections = arguments.sections or list(SECTIONS)
    sample, started = None, []
    try:
        front.start()
        for name in sections:
            print(f"-- {name}", flush=True)
            other = {"nested": (Inner, arguments.inner), "metrics": (Metrics, arguments.metrics_server),
                     "rogues": (Rogues, arguments.tools)}.get(name)
            if other and other[1] is None:
                suite.skip(name, "no such server given")
                continue
            if other:
                subject = other[0](suite, other[1], arguments.tools, pki, address)
                started.append(subject)
            else:
                if sample is None:
                    sample = Sample(suite, arguments.tools, pki, address)
                    started.append(sample)
                subject = sample
            try:
                SECTIONS[name](suite, subject)
            except Exception as error:  # one section's surprise is not the others'
                suite.check(f"{name} comes to its end", False, repr(error))
    except servers.Failed as error:
        suite.check("the servers start", False, error)
        print(error)
    finally:
        for one in started:
            one.stop()
        code = front.stop()
    if arguments.kind == "sternpost":
        suite.equal("the front ends in order", code, 0)
        suite.check("no request panicked", "panicked at" not in front.process.log.read_text(errors="replace"))
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    main()
