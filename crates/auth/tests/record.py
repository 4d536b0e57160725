#!/usr/bin/env python3
"""Records in recorded/ whom kube-apiserver believes to be who, or compares it with what is recorded.

    record.py --peer DIR [--check] [NAME...]

NAMEs are those of PARTS. Private keys are not kept, so certificates and tokens are made anew like the
recorded ones; unless the answers differ, the recorded files stay. Needs Go and openssl.
"""
import argparse
import base64
import concurrent.futures
import http.client
import http.server
import json
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

RECORDED = pathlib.Path(__file__).resolve().parent / "recorded"
sys.path.append(str(RECORDED.parents[3] / "tests"))
import recording
from peer import TOKEN, Peer, free_port

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
CREDENTIAL = "authentication.kubernetes.io/credential-id"
# They wait more than they work.
AT_ONCE = 16
# Its address is in the recorded tokens.
ISSUER = "https://127.0.0.1:18543"
# A hang-guard.
FETCHED_SECONDS = 60


def ask(url, body, path="/apis/authentication.k8s.io/v1/selfsubjectreviews", headers=(), certificate=None, method="POST"):
    context = ssl._create_unverified_context()
    if certificate:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(certificate["chain"] + certificate["key"])
            file.flush()
            context.load_cert_chain(file.name)
    connection = http.client.HTTPSConnection(urllib.parse.urlsplit(url).netloc, context=context, timeout=60)
    connection.putrequest(method, path)
    text = json.dumps(body).encode() if body else b""
    for name, value in [("Content-Type", "application/json"), ("Content-Length", str(len(text))), *headers]:
        connection.putheader(name, value)
    connection.endheaders(text)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def who(url, **credentials):
    code, answer = ask(url, REVIEW, **credentials)
    return {"code": code, **({"user": answer["status"]["userInfo"]} if code == 201 else {})}


def bearer(token):
    return [("Authorization", "Bearer " + token)] if token else []


def without_credential(case):
    """The id of a certificate is its digest."""
    return {"user": None, **json.loads(re.sub(r'"X509SHA256=[0-9a-f]{64}"', '"digest"', json.dumps(case)))}


def compare(name, before, now, comparable=lambda case: case):
    """How many cases differ, by their names."""
    different = 0
    for one, other in zip(before, now):
        if comparable(one) != comparable(other):
            different += 1
            print("%s: %s: %s" % (name, one["name"], recording.first_difference(comparable(one), comparable(other))))
    print("%s: %d cases, %d differ" % (name, len(now), different), flush=True)
    return different


def write(name, value, indent):
    (RECORDED / name).write_text(json.dumps(value, indent=indent, ensure_ascii=False) + "\n")


def clients(options, answers, name="clients.json", text="certificate"):
    before = json.loads((RECORDED / name).read_text())
    at = int(time.time())
    chains = {client["name"]: client[text] for client in before["clients"]}
    [made] = answers("certificates", [{"authorities": {"": before["authority"]}, "chains": chains, "shift": at - before["at"]}])
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as authority:
        authority.write(made["authorities"][""])
        authority.flush()
        with Peer(options.peer, ["--client-ca-file=" + authority.name]) as peer:
            found = [(client, who(peer.url, certificate=made["chains"][client["name"]])) for client in before["clients"]]
    now = [{"name": client["name"], text: made["chains"][client["name"]]["chain"], **answer} for client, answer in found]
    if text == "chain":
        now = [{key: value for key, value in case.items() if key != "user"} for case in now]
    comparable = lambda case: without_credential({**case, text: ""})
    different = compare(name, before["clients"], now, comparable)
    if different and not options.check:
        write(name, {**before, "at": at, "authority": made["authorities"][""], "clients": now}, 1)
    return different


def usages(options, answers):
    return clients(options, answers, "client_usages.json", "chain")


def proxies(options, answers):
    name = "front_proxies.json"
    before = json.loads((RECORDED / name).read_text())
    at = int(time.time())
    authorities = {key: before[key] for key in ("client_authority", "proxy_authority")}
    [made] = answers("certificates", [{"authorities": authorities, "chains": before["certificates"], "shift": at - before["at"]}])
    with tempfile.TemporaryDirectory() as folder:
        for key, text in made["authorities"].items():
            pathlib.Path(folder, key).write_text(text)
        flags = [
            "--client-ca-file=%s/client_authority" % folder, "--requestheader-client-ca-file=%s/proxy_authority" % folder,
            "--requestheader-allowed-names=front,second", "--requestheader-username-headers=x-remote-user,x-user",
            "--requestheader-uid-headers=x-remote-uid", "--requestheader-group-headers=x-remote-group",
            "--requestheader-extra-headers-prefix=x-remote-extra-", "--anonymous-auth=false",
        ]
        with Peer(options.peer, flags, 'oracle,admin,1,"system:masters"\n', "AlwaysAllow") as peer:
            now = []
            for case in before["cases"]:
                certificate = made["chains"].get(case["certificate"])
                headers = [*case["headers"], *bearer(case["token"])]
                answer = who(peer.url, certificate=certificate, headers=headers)
                now.append({**{key: case[key] for key in ("certificate", "headers", "name", "token")}, **answer})
    different = compare(name, before["cases"], now, without_credential)
    if different and not options.check:
        certificates = {key: each["chain"] for key, each in made["chains"].items()}
        write(name, {**before, **made["authorities"], "at": at, "certificates": certificates, "cases": now}, 0)
    return different


def configurations(options, _):
    name = "authentication_configurations.json"
    before = json.loads((RECORDED / name).read_text())
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = pool.map(lambda case: verdict(options.peer, case["config"]), before)
        now = [{**case, "verdict": found} for case, found in zip(before, verdicts)]
    # Some verdicts repeat the file, which need not have its keys in the same order.
    comparable = lambda case: re.sub(r" in '\{.*\}'", " in FILE", case["verdict"])
    different = compare(name, before, now, comparable)
    if different and not options.check:
        kept = [one if comparable(one) == comparable(other) else other for one, other in zip(before, now)]
        write(name, kept, 0)
    return different


def verdict(peer, configuration):
    """kube-apiserver ends with its verdict on the file or, content with it, for want of an etcd."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["openssl", "genrsa", "-out", "sa.key", "2048"], cwd=folder, check=True, capture_output=True)
        pathlib.Path(folder, "inv.json").write_text(json.dumps(configuration))
        flags = [
            "--etcd-servers=http://127.0.0.1:%d" % free_port(), "--secure-port=%d" % free_port(),
            "--bind-address=127.0.0.1", "--cert-dir=certs", "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=sa.key",
            "--service-account-signing-key-file=sa.key", "--authentication-config=inv.json",
        ]
        told = subprocess.run([peer.resolve() / "kube-apiserver", *flags], cwd=folder, capture_output=True, text=True).stderr
    # A text of several lines stands indented between angles.
    [(line, lines)] = re.findall(r'"command failed" err=(?:(".*")$|<\n((?:\t.*\n)*) >)', told, re.M)
    text = json.loads(line) if line else "\n".join(each.removeprefix("\t") for each in lines.splitlines())
    return "ok" if text.startswith("error creating storage factory: ") else text.removeprefix("invalid authentication configuration: ")


def keys(options, _):
    """What is published of public keys."""
    files = ["--service-account-key-file=%s" % (RECORDED / (name + ".pub.pem")) for name in ("rsa2048", "p256", "p384")]
    with Peer(options.peer, files) as peer:
        _, found = ask(peer.url, None, "/openid/v1/jwks", bearer(TOKEN), method="GET")
    before = json.loads((RECORDED / "jwks.json").read_text())
    by_name = lambda keys: [{"name": key["kid"], **key} for key in keys["keys"]]
    different = compare("jwks.json", by_name(before), by_name(found)) + abs(len(before["keys"]) - len(found["keys"]))
    if different and not options.check:
        write("jwks.json", found, 1)
    return different


# The key and the settings of each line of tokens.txt.
TOKENS = [
    ("rsa2048", ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], "https://kubernetes.default.svc", [], []),
    ("p256", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "https://a.example", ["https://a.example", "https://b.example"], []),
    ("p521", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"], "foo", [], ["aud1", "aud2"]),
]


def tokens(options, _):
    before = (RECORDED / "tokens.txt").read_text().splitlines()
    found, publics = [], {}
    for name, kind, issuer, audiences, asked in TOKENS:
        with tempfile.TemporaryDirectory() as folder:
            key = folder + "/key.pem"
            subprocess.run(["openssl", "genpkey", *kind, "-out", key], check=True, capture_output=True)
            public = pathlib.Path(folder, "public.pem")
            subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
            publics[name] = public.read_text()
            flags = ["--service-account-issuer=" + issuer, "--service-account-key-file=%s" % public, "--service-account-signing-key-file=" + key]
            flags += ["--api-audiences=" + ",".join(audiences)] if audiences else []
            with Peer(options.peer, flags) as peer:
                accounts = "/api/v1/namespaces/tok/serviceaccounts"
                post = lambda path, body: ask(peer.url, body, path, bearer(TOKEN))
                post("/api/v1/namespaces", {"metadata": {"name": "tok"}})
                post(accounts, {"metadata": {"name": "alice"}})
                code, answer = post(accounts + "/alice/token", {"spec": {"audiences": asked}})
                assert code == 201, answer
                found.append(answer["status"]["token"])
    shape = lambda line: {"name": claims(line, 1)["iss"], "header": masked(claims(line, 0)), "claims": masked(claims(line, 1))}
    different = compare("tokens.txt", [shape(line) for line in before], [shape(line) for line in found])
    if different and not options.check:
        (RECORDED / "tokens.txt").write_text("".join(line + "\n" for line in found))
        for name, text in publics.items():
            (RECORDED / (name + ".pub.pem")).write_text(text)
        print("the public keys are new: record keys too")
    return different


def claims(token, part):
    text = token.split(".")[part]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def masked(value):
    text = re.sub(r'"(kid|jti|uid)": "[^"]+"', r'"\1": ""', json.dumps(value, sort_keys=True))
    lasts = value.get("exp", 0) - value.get("iat", 0)
    return {**json.loads(re.sub(r'"(exp|iat|nbf)": \d+', r'"\1": 0', text)), "lasts": lasts}


class Issuer:
    """Serves the documents of issuers."""

    def __init__(self, folder):
        self.documents = {}
        self.authority = pathlib.Path(folder, "issuer.pem")
        key = pathlib.Path(folder, "issuer.key")
        made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        made += ["-subj", "/CN=issuer", "-addext", "subjectAltName=IP:127.0.0.1", "-out", self.authority, "-keyout", key]
        subprocess.run(made, check=True, capture_output=True)
        documents = self.documents

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                document = documents.get(ISSUER + self.path)
                self.send_response(200 if document else 404)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(document).encode() if document else b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", urllib.parse.urlsplit(ISSUER).port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def oidc(options, answers):
    before = json.loads((RECORDED / "oidc.json").read_text())
    runs, different = [], 0
    for number, run in enumerate(before["runs"]):
        with tempfile.TemporaryDirectory() as folder, Issuer(folder) as issuer:
            now = oidc_run(options, answers, run, issuer, folder)
        found = compare("oidc.json %d" % number, run["tokens"], now["tokens"], without_moments)
        different += found
        runs.append(now if found else run)
    if different and not options.check:
        write("oidc.json", {**before, "runs": runs}, 0)
    return different


def oidc_run(options, answers, run, issuer, folder):
    issuer.documents.update(run["documents"])
    authority = issuer.authority.read_text()
    config = json.loads(json.dumps(run["config"]))
    if config:
        for each in config["jwt"]:
            each["issuer"]["certificateAuthority"] = authority
        path = pathlib.Path(folder, "authentication.json")
        path.write_text(json.dumps(config))
        flags = ["--authentication-config=%s" % path]
    else:
        flags = ["--oidc-ca-file=%s" % issuer.authority, *("%s=%s" % flag for flag in run["flags"].items())]
    with Peer(options.peer, flags, authorization="AlwaysAllow") as peer:
        at = int(time.time())
        keys = run["documents"][ISSUER + "/keys"]["keys"]
        shifts = [at - case["at"] for case in run["tokens"]]
        [made] = answers("tokens", [{"keys": keys, "tokens": [case["token"] for case in run["tokens"]], "shifts": shifts}])
        issuer.documents[ISSUER + "/keys"] = {"keys": made["keys"]}
        tokens = [
            {"at": at, "name": case["name"], "token": token, **believed(peer.url, token, case)}
            for case, token in zip(run["tokens"], made["tokens"])
        ]
    return {**run, "config": config, "documents": dict(issuer.documents), "tokens": tokens}


def believed(url, token, recorded):
    end = time.monotonic() + FETCHED_SECONDS
    while True:
        found = who(url, headers=bearer(token))
        if found["code"] != 401:
            return found
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        _, answer = ask(url, review, "/apis/authentication.k8s.io/v1/tokenreviews", bearer(TOKEN))
        found["error"] = answer["status"]["error"]
        # Documents are fetched when the server has begun to serve.
        if found["error"] == recorded.get("error") or "not initialized" not in found["error"] or time.monotonic() > end:
            return found
        time.sleep(0.5)


def without_moments(case):
    text = re.sub(r"2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC( m=[-+.\d]+)?", "TIME", case.get("error", ""))
    return {"name": case["name"], "code": case["code"], "user": case.get("user"), "error": text}


PARTS = {"clients": clients, "usages": usages, "proxies": proxies, "configurations": configurations, "keys": keys, "tokens": tokens, "oidc": oidc}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True, type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    unknown = set(options.names) - set(PARTS)
    if unknown:
        parser.error("the parts are " + ", ".join(PARTS))
    with recording.libraries() as answers:
        different = sum(PARTS[name](options, answers) for name in options.names or PARTS)
    sys.exit(1 if options.check and different else 0)


main()
