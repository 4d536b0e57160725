#!/usr/bin/env python3
"""Records anew what kube-apiserver answers to the cases in recorded.jsonl, and what it tells webhooks.

    record.py HOST:PORT [CASE...]

Needs kube-apiserver with a token file of the two users below, `--authorization-mode AlwaysAllow` and
`--disable-admission-plugins ServiceAccount`, and openssl for the certificates of the webhook:

    oracle,admin,1,"system:masters"
    ana,ana,ana-uid,"devs"

A case is its namespace, what is set up in it, webhook configurations in short form, what the webhooks do
(`hooks`, by name; a list is for one call after the other) and the steps, each with what came of it.
"""
import base64, http.client, http.server, json, os, re, ssl, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "recorded.jsonl")
# How long a configuration takes to be in effect, and to be gone.
INFORMED = 0.6

lock, calls, scripts, seen = threading.Lock(), [], {}, {}


def certificates(directory):
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out",
                f"{name}.crt", "-days", "2", "-subj", f"/CN={name}")
    with open(os.path.join(directory, "ext"), "w") as file:
        file.write("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "hook.key", "-out", "hook.csr", "-subj", "/CN=hook")
    openssl("x509", "-req", "-in", "hook.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "hook.crt", "-days", "2", "-extfile", "ext")


def answer(script, review):
    uid = review["request"]["uid"]
    if "raw" in script:
        raw = script["raw"]
        headers = {"content-type": raw.get("media", "application/json"), **raw.get("headers", {})}
        return raw.get("code", 200), headers, raw.get("body", "").replace("$UID", uid)
    given = dict(script.get("response", {}))
    text = given.pop("patchText", None)
    if text is None and "patch" in given and not isinstance(given["patch"], str):
        text = json.dumps(given["patch"], separators=(",", ":"), sort_keys=True)
    if text is not None:
        given["patch"] = base64.b64encode(text.encode()).decode()
        given.setdefault("patchType", "JSONPatch")
    response = {name: value for name, value in {"uid": uid, "allowed": True, **given}.items() if value is not None}
    out = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
    out.update(script.get("review", {}))
    out = {name: value for name, value in out.items() if value is not None}
    return 200, {"content-type": "application/json"}, json.dumps(out)


class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        path, _, query = self.path.partition("?")
        name = path.rsplit("/", 1)[-1]
        review = json.loads(body)
        with lock:
            calls.append({"hook": name, "query": query, "review": json.loads(body)})
            turn = seen.get(name, 0)
            seen[name] = turn + 1
            script = scripts.get(name, {})
        if isinstance(script, list):
            script = script[min(turn, len(script) - 1)]
        if script.get("hang") or script.get("drop"):
            time.sleep(script.get("seconds", 8) if script.get("hang") else 0)
            self.close_connection = True
            return
        time.sleep(script.get("sleep", 0))
        code, headers, text = answer(script, review)
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key, value.replace("$HOOK", f"https://127.0.0.1:{self.server.server_address[1]}"))
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST


class Hooks(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


class Names:
    """Gives what differs from run to run names in the order of its appearance."""
    UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
    TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
    GENERATED = re.compile(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}")

    def __init__(self, port):
        self.ids, self.versions, self.hook = {}, {}, f"127.0.0.1:{port}"

    def text(self, text, key):
        if self.TIME.match(text):
            return "$T"
        if key == "resourceVersion" and text.isdigit() and text != "0":
            return self.versions.setdefault(text, f"$V{len(self.versions) + 1}")
        text = self.UUID.sub(lambda found: self.ids.setdefault(found.group(0), f"$U{len(self.ids) + 1}"), text)
        return self.GENERATED.sub("gen-$G", text).replace(self.hook, "$HOOK")

    def value(self, value, key=""):
        if isinstance(value, str):
            return self.text(value, key)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {name: self.value(value[name], name) for name in sorted(value)}
        return value


def send(server, step, case):
    connection = http.client.HTTPSConnection(server, context=ssl._create_unverified_context(), timeout=60)
    headers = {"Authorization": f"Bearer {step.get('user', 'oracle')}", "User-Agent": "recorder/1"}
    body = step.get("body")
    if body is not None:
        body = json.dumps(body).replace("$NS", case)
        headers["Content-Type"] = step.get("media", "application/json")
    connection.request(step["method"], step["path"].replace("$NS", case), body, headers)
    response = connection.getresponse()
    text = response.read().decode()
    try:
        text = json.loads(text)
    except ValueError:
        pass
    warnings = [value.encode("latin-1").decode() for key, value in response.getheaders() if key.lower() == "warning"]
    connection.close()
    return response.status, text, warnings


def configuration(case, index, short, port, bundles):
    webhooks = []
    for webhook in short["webhooks"]:
        webhook = dict(webhook)
        if "hook" in webhook:
            bundle = bundles["other" if webhook.pop("otherCA", False) else "ca"]
            url = f"https://127.0.0.1:{port}/{webhook.pop('hook')}"
            webhook.setdefault("clientConfig", {"url": url, "caBundle": bundle})
        webhook.setdefault("sideEffects", "None")
        webhook.setdefault("admissionReviewVersions", ["v1"])
        webhook.setdefault("namespaceSelector", {"matchLabels": {"case": case}})
        webhooks.append(webhook)
    path = f"/apis/admissionregistration.k8s.io/v1/{short['kind'].lower()}webhookconfigurations"
    return path, {"metadata": {"name": short.get("name", f"{case}-{index}")}, "webhooks": webhooks}


def record(server, case, port, bundles):
    name = case["name"]
    ask = lambda step: send(server, step, name)
    labels = {"case": name, **case.get("labels", {})}
    ask({"method": "POST", "path": "/api/v1/namespaces", "body": {"metadata": {"name": name, "labels": labels}}})
    gone = []
    for step in case.get("setup", []):
        code, made, _ = ask(step)
        if code >= 300:
            print(f"{name}: setup: {code} {made}", file=sys.stderr)
        if step["path"].endswith("/customresourcedefinitions"):
            gone.append(f"{step['path']}/{made['metadata']['name']}")
            time.sleep(1.5)
    with lock:
        scripts.clear()
        scripts.update(case.get("hooks", {}))
        seen.clear()
    for index, short in enumerate(case["configurations"]):
        path, body = configuration(name, index, short, port, bundles)
        code, made, _ = ask({"method": "POST", "path": path, "body": body})
        if code != 201:
            print(f"{name}: configuration: {code} {made}", file=sys.stderr)
        gone.append(f"{path}/{body['metadata']['name']}")
    time.sleep(INFORMED)
    names, case["expected"] = Names(port), []
    with lock:
        calls.clear()
    for step in case["steps"]:
        code, body, warnings = ask(step)
        time.sleep(0.02)
        with lock:
            told = list(calls)
            calls.clear()
        # Those that change come in their order, the others all at once.
        told = [call for call in told if call["hook"].startswith("m")] + sorted(
            (call for call in told if not call["hook"].startswith("m")), key=lambda call: call["hook"])
        for call in told:
            call["review"]["request"]["uid"] = "$uid"
        expected = {"code": code, "reviews": names.value(told), "body": names.value(body)}
        if warnings:
            expected["warnings"] = names.value(warnings)
        case["expected"].append(expected)
    for path in gone:
        ask({"method": "DELETE", "path": path})


def main():
    server, only = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as directory:
        certificates(directory)
        bundles = {name: base64.b64encode(open(os.path.join(directory, f"{name}.crt"), "rb").read()).decode()
                   for name in ("ca", "other")}
        hooks = Hooks(("127.0.0.1", 0), Hook)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(directory, "hook.crt"), os.path.join(directory, "hook.key"))
        hooks.socket = context.wrap_socket(hooks.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=hooks.serve_forever, daemon=True).start()
        with open(RECORDED) as file:
            cases = [json.loads(line) for line in file]
        for case in cases:
            if not only or case["name"] in only:
                record(server, case, hooks.server_address[1], bundles)
                print(case["name"], [expected["code"] for expected in case["expected"]])
    with open(RECORDED, "w") as file:
        for case in cases:
            file.write(json.dumps(case, separators=(",", ":"), sort_keys=True) + "\n")


main()
