#!/usr/bin/env python3
"""Suite protocol: what HTTP promises on /openapi and discovery, asked with curl
over HTTP/1.1 and HTTP/2.

    protocol.py KUBECTL KUBECONFIG

For sternpost only: kube-apiserver answers several of these differently (no
gzip, no max-age, empty error bodies).
"""

import base64
import datetime
import email.utils
import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from checks import check, equal, finish, part

DOCUMENT = "/openapi/v3/apis/apps/v1"
V2 = "/openapi/v2"
IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache, private"
STALE = "0" * 128
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def protobuf(version):
    """The old and the new name of the media type."""
    stem = f"application/com.github.proto-openapi.spec.{version}"
    return f"{stem}@v1.0+protobuf", f"{stem}.v1.0+protobuf"


def main(kubectl, kubeconfig):
    with tempfile.TemporaryDirectory() as folder:
        for http in ("--http1.1", "--http2"):
            curl = Curl(kubectl, kubeconfig, pathlib.Path(folder), http)
            equal(f"{http}: version spoken", curl.get("/version").http, http.removeprefix("--http"))
            hashes = part(root_document, curl)
            part(hashed_urls, curl, hashes)
            for path, names in ((DOCUMENT, protobuf("v3")), (V2, protobuf("v2"))):
                part(negotiation, curl, path, *names)
                part(conditions, curl, path)
                part(conditions, curl, path, "Accept: " + names[1])
                part(conditions, curl, path, "Accept-Encoding: gzip")
                part(compression, curl, path)
                part(ranges, curl, path)
                part(head, curl, path)
            part(errors, curl)
            part(credentials, curl)
            part(group_documents, curl)
            part(discovery, curl)
            part(forms, curl)
            part(large_objects, curl)
        part(oversized, Curl(kubectl, kubeconfig, pathlib.Path(folder), "--http1.1"))
    finish()


def root_document(curl):
    """The root names every document with the SHA-512 of its JSON."""
    answer = curl.get("/openapi/v3")
    equal("root: code", answer.code, 200)
    equal("root: type", answer["content-type"], "application/json")
    equal("root: caching", answer["cache-control"], REVALIDATE)
    root = json.loads(answer.body)
    equal("root: keys", list(root), ["paths"])
    hashes = {}
    for key, entry in root["paths"].items():
        equal(f"root: keys of {key}", list(entry), ["serverRelativeURL"])
        url = re.fullmatch(r"/openapi/v3/(.+)\?hash=([0-9A-F]{128})", entry["serverRelativeURL"])
        if check(url and url.group(1) == key, f"root: {key} has the URL {entry['serverRelativeURL']}"):
            hashes[key] = url.group(2)
            document = curl.get(entry["serverRelativeURL"]).body
            equal(f"hash of {key}", hashlib.sha512(document).hexdigest().upper(), hashes[key])
    conditions(curl, "/openapi/v3")
    head(curl, "/openapi/v3")
    return hashes


def hashed_urls(curl, hashes):
    """A right hash makes an answer immutable, a wrong one redirects to the right."""
    current = hashes[DOCUMENT.removeprefix("/openapi/v3/")]
    for parameter in ("hash", "etag"):
        for accept in ("application/json", *protobuf("v3")):
            right = curl.get(f"{DOCUMENT}?{parameter}={current}", "Accept: " + accept)
            what = f"{parameter}=CURRENT as {accept}"
            equal(f"{what}: code", right.code, 200)
            equal(f"{what}: caching", right["cache-control"], IMMUTABLE)
            in_a_year(f"{what}: expires", right["expires"])
        for wrong in (STALE, "zzz", current.lower()[:-1], "%22", "%FF", current * 8):
            stale = curl.get(f"{DOCUMENT}?{parameter}={wrong}")
            what = f"{parameter}={wrong[:9]}"
            equal(f"{what}: code", stale.code, 301)
            location = stale["location"] or ""
            check(re.fullmatch(re.escape(DOCUMENT) + rf"\?(hash|etag)={current}", location), f"{what}: to {location}")
            check("immutable" not in (stale["cache-control"] or ""), f"{what}: the redirect is cached for ever")
            equal(f"{what}: expires", stale["expires"], None)
    followed = curl.get(f"{DOCUMENT}?hash={STALE}", options=["--location"])
    equal("redirect followed: code", followed.code, 200)
    equal("redirect followed: hash", hashlib.sha512(followed.body).hexdigest().upper(), current)
    for query in ("", "?hash=", "?etag="):
        plain = curl.get(DOCUMENT + query)
        equal(f"no hash {query!r}: code", plain.code, 200)
        equal(f"no hash {query!r}: caching", plain["cache-control"], REVALIDATE)
    equal("unknown key with a hash", curl.get(f"/openapi/v3/apis/nope/v1?hash={current}").code, 404)


def in_a_year(what, expires):
    if not check(expires and expires.endswith(" GMT"), f"{what}: {expires!r}"):
        return
    ahead = email.utils.parsedate_to_datetime(expires) - datetime.datetime.now(datetime.timezone.utc)
    check(datetime.timedelta(days=364) < ahead < datetime.timedelta(days=367), f"{what}: {expires!r}")


def negotiation(curl, path, old_name, new_name):
    table = [
        ("Accept:", "application/json"),
        ("Accept: */*", "application/json"),
        ("Accept: application/*", "application/json"),
        ("Accept: application/json", "application/json"),
        ("Accept: application/json;charset=utf-8", "application/json"),
        ("Accept: application/xml, application/json;q=0.1", "application/json"),
        (f"Accept: application/json;q=0.5, {new_name}", new_name),
        (f"Accept: {old_name};q=0.5, application/json", "application/json"),
        (f"Accept: {old_name}", new_name),
        (f"Accept: {new_name}", new_name),
        ("Accept: application/xml", None),
        ("Accept: text/html", None),
        ("Accept: text/*;q=0.3, image/png", None),
        ("Accept: no-media-type", None),
        ("Accept: ;;;,,,", None),
    ]
    for header, expected in table:
        answer = curl.get(path, header)
        what = f"{path} {header}"
        check("accept" in answer.list("vary"), f"{what}: Vary is {answer['vary']}")
        if expected is None:
            is_status(what, answer, 406, "NotAcceptable")
            continue
        equal(f"{what}: code", answer.code, 200)
        equal(f"{what}: type", answer["content-type"], expected)
        check(answer.body.startswith(b"{") == (expected == "application/json"), f"{what}: body {answer.body[:20]!r}")
    check(curl.get(path, f"Accept: {old_name}").body == curl.get(path, f"Accept: {new_name}").body,
          f"{path}: the two protobuf names have different bodies")


def conditions(curl, path, header="Accept: application/json"):
    what = f"{path} {header}"
    first = curl.get(path, header)
    tag = first["etag"] or ""
    check(re.fullmatch(r'"[^"]+"', tag), f"{what}: no strong ETag but {tag!r}")
    for match in (tag, "*", f'"other", {tag}', f"W/{tag}"):
        answer = curl.get(path, header, f"If-None-Match: {match}")
        equal(f"{what}: If-None-Match {match[:12]}: code", answer.code, 304)
        equal(f"{what}: If-None-Match {match[:12]}: body", answer.body, b"")
        equal(f"{what}: If-None-Match {match[:12]}: ETag", answer["etag"], tag)
    for match in ('"other"', tag.strip('"'), 'W/"other"'):
        answer = curl.get(path, header, f"If-None-Match: {match}")
        equal(f"{what}: If-None-Match {match[:12]}: code", answer.code, 200)
        check(answer.body == first.body, f"{what}: If-None-Match {match[:12]}: another body")


def compression(curl, path):
    plain = curl.get(path)
    equal(f"{path}: encoding unasked", plain["content-encoding"], None)
    packed = curl.get(path, "Accept-Encoding: gzip")
    equal(f"{path}: encoding asked for", packed["content-encoding"], "gzip")
    if packed["content-encoding"] == "gzip":
        check(gzip.decompress(packed.body) == plain.body, f"{path}: gzip holds another document")
        check(len(packed.body) * 4 < len(plain.body), f"{path}: gzip of {len(packed.body)} bytes")
    for answer in (plain, packed):
        check("accept-encoding" in answer.list("vary"), f"{path}: Vary is {answer['vary']}")
    check(plain["etag"] != packed["etag"], f"{path}: a strong ETag shared with gzip")
    names = protobuf("v2" if path == V2 else "v3")
    binary = curl.get(path, f"Accept: {names[1]}")
    check(binary["etag"] != plain["etag"], f"{path}: a strong ETag shared with protobuf")
    binary_packed = curl.get(path, f"Accept: {names[0]}", "Accept-Encoding: gzip")
    equal(f"{path}: protobuf encoding", binary_packed["content-encoding"], "gzip")
    if binary_packed["content-encoding"] == "gzip":
        check(gzip.decompress(binary_packed.body) == binary.body, f"{path}: protobuf gzip holds another document")
    for refused in ("gzip;q=0", "identity", "br", "gzip;q=0, *;q=0.5"):
        answer = curl.get(path, f"Accept-Encoding: {refused}")
        equal(f"{path}: Accept-Encoding {refused}", answer["content-encoding"], None)
    for wanted in ("deflate, gzip;q=0.5", "GZIP", "br;q=1.0, gzip;q=0.8, *;q=0.1"):
        answer = curl.get(path, f"Accept-Encoding: {wanted}")
        equal(f"{path}: Accept-Encoding {wanted}", answer["content-encoding"], "gzip")


def ranges(curl, path):
    full = curl.get(path)
    size = len(full.body)
    equal(f"{path}: accept-ranges", full["accept-ranges"], "bytes")
    for asked, first, last in (("0-99", 0, 99), ("100-100", 100, 100), (f"{size - 5}-", size - 5, size - 1),
                               ("-10", size - 10, size - 1), (f"10-{size * 2}", 10, size - 1)):
        answer = curl.get(path, f"Range: bytes={asked}")
        equal(f"{path} bytes={asked}: code", answer.code, 206)
        equal(f"{path} bytes={asked}: range", answer["content-range"], f"bytes {first}-{last}/{size}")
        check(answer.body == full.body[first:last + 1], f"{path} bytes={asked}: {len(answer.body)} other bytes")
    beyond = curl.get(path, f"Range: bytes={size}-")
    equal(f"{path} beyond: code", beyond.code, 416)
    equal(f"{path} beyond: range", beyond["content-range"], f"bytes */{size}")
    for ignored in ("lines=1-2", "bytes=5-2", "bytes=x"):
        answer = curl.get(path, f"Range: {ignored}")
        check(answer.code in (200, 416), f"{path} Range: {ignored}: {answer.code}")
    same = curl.get(path, "Range: bytes=0-9", f"If-Range: {full['etag']}")
    equal(f"{path} If-Range, same: code", same.code, 206)
    other = curl.get(path, "Range: bytes=0-9", 'If-Range: "other"')
    equal(f"{path} If-Range, other: code", other.code, 200)
    check(other.body == full.body, f"{path} If-Range, other: not the whole body")


def head(curl, path):
    got, headed = curl.get(path), curl.head(path)
    equal(f"HEAD {path}: code", headed.code, 200)
    equal(f"HEAD {path}: length", headed["content-length"], str(len(got.body)))
    for name in ("content-type", "etag", "vary", "cache-control"):
        equal(f"HEAD {path}: {name}", headed[name], got[name])


def errors(curl):
    for path in ("/openapi/v3/apis/nope/v1", "/openapi/v3/nope", "/openapi/v3/api/v2", "/openapi/v3/..%2fversion",
                 "/openapi/v3/apis/apps/v1/deployments"):
        is_status(path, curl.get(path), 404, "NotFound")
    for path in ("/openapi/v4", "/apis/nope/openapi/v3"):
        equal(path, curl.get(path).code, 404)
    for path in ("/openapi/v3", DOCUMENT, V2):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            is_status(f"{method} {path}", curl.get(path, options=["-X", method]), 405, "MethodNotAllowed")
    # Nothing wrong was remembered by any of this.
    equal("after errors", curl.get(DOCUMENT).code, 200)


def credentials(curl):
    for path in ("/openapi/v3", DOCUMENT, V2, "/api", "/apis", "/apis/apps/v1", "/metrics", "/"):
        # Unauthorized, or Forbidden to the anonymous user: both keep strangers out.
        stranger = curl.get(path, anonymous=True)
        refusal = (403, "Forbidden") if stranger.code == 403 else (401, "Unauthorized")
        is_status(f"{path} without credential", stranger, *refusal)
        wrong = curl.get(path, "Authorization: Bearer wrong", anonymous=True)
        is_status(f"{path} with a wrong token", wrong, 401, "Unauthorized")
    for path in ("/version", "/healthz", "/livez", "/readyz", "/readyz?verbose"):
        equal(f"{path} without credential", curl.get(path, anonymous=True).code, 200)
    metrics = curl.get("/metrics").body.decode()
    check("crd_openapi_v3_aggregation_duration_seconds" in metrics, "no crd_openapi_v3_aggregation_duration_seconds")


def group_documents(curl):
    """The document of a whole group holds the paths of its versions."""
    union = curl.get("/apis/autoscaling/openapi/v3")
    equal("/apis/autoscaling/openapi/v3: code", union.code, 200)
    if union.code == 200:
        paths = set(json.loads(union.body)["paths"])
        for version in ("v1", "v2"):
            part = set(json.loads(curl.get(f"/openapi/v3/apis/autoscaling/{version}").body)["paths"])
            check(part <= paths, f"/apis/autoscaling/openapi/v3 lacks {sorted(part - paths)[:3]} of {version}")


def discovery(curl):
    for path in ("/api", "/apis"):
        answer = curl.get(path, f"Accept: {AGGREGATED},application/json")
        equal(f"{path}: aggregated type", answer["content-type"], AGGREGATED)
        check("accept" in answer.list("vary"), f"{path}: Vary is {answer['vary']}")
        conditions(curl, path, f"Accept: {AGGREGATED}")
        legacy = curl.get(path, "Accept: application/json")
        equal(f"{path}: legacy type", legacy["content-type"], "application/json")


def forms(curl):
    """Whatever has a kind is there in JSON, YAML and protobuf."""
    aggregated = AGGREGATED.removeprefix("application/json")
    for path, suffix in (("/api", ""), ("/apis", ""), ("/apis/apps", ""), ("/api/v1", ""), ("/apis", aggregated),
                         ("/api/v1/namespaces/default", ""), ("/api/v1/namespaces", "")):
        for form, start in (("json", b"{"), ("yaml", b"apiVersion: "), ("vnd.kubernetes.protobuf", b"k8s\0")):
            answer = curl.get(path, f"Accept: application/{form}{suffix}", "User-Agent: x")
            equal(f"{path} as {form}: code", answer.code, 200)
            equal(f"{path} as {form}: type", answer["content-type"], f"application/{form}{suffix}")
            # The oldest kinds do not say their version.
            begins = answer.body.startswith((start, b"kind: ", b"groupVersion: ") if form == "yaml" else start)
            check(begins, f"{path} as {form}: {answer.body[:40]!r}")
    for path, code in (("/api/v1/nope", 404), ("/api/v1/namespaces/nope", 404), ("/version", 406)):
        answer = curl.get(path, "Accept: application/yaml")
        equal(f"{path}: code", answer.code, code)
        equal(f"{path}: type", answer["content-type"], "application/yaml")
        check(answer.body.startswith(b"apiVersion: v1\ncode: "), f"{path}: {answer.body[:40]!r}")
    for method, path, code in (("OPTIONS", "/api/v1/namespaces", 405), ("OPTIONS", "/api/v1/namespaces/default", 405)):
        equal(f"{method} {path}", curl.get(path, "Origin: http://example.com", options=["-X", method]).code, code)


def large_objects(curl):
    """Answers of more than 128 KiB are compressed for those who ask."""
    path = "/api/v1/namespaces/default/configmaps"
    body = curl.folder / "large.json"
    for size, packed in ((1000, False), (200_000, True)):
        body.write_text(json.dumps({"metadata": {"name": "large"}, "data": {"k": "abc " * (size // 4)}}))
        post = ["-X", "POST", "-H", "Content-Type: application/json", "--data-binary", f"@{body}"]
        equal(f"{size} bytes: created", curl.get(path, options=post).code, 201)
        for place in (f"{path}/large", f"{path}?fieldSelector=metadata.name%3Dlarge"):
            plain = curl.get(place, "Accept: application/json", "User-Agent: x")
            check("content-encoding" not in plain.headers, f"{place}: compressed unasked")
            answer = curl.get(place, "Accept: application/json", "User-Agent: x", "Accept-Encoding: gzip")
            equal(f"{place} of {size}: coding", answer["content-encoding"], "gzip" if packed else None)
            if packed:
                check("accept-encoding" in answer.list("vary"), f"{place}: Vary is {answer['vary']}")
                check(gzip.decompress(answer.body) == plain.body, f"{place}: other bytes in gzip")
        equal(f"{size} bytes: deleted", curl.get(f"{path}/large", options=["-X", "DELETE"]).code, 200)


def oversized(curl):
    answer = curl.get(DOCUMENT, "X-Large: " + "x" * 70_000)
    equal("oversized headers: code", answer.code, 431)
    equal("after oversized headers", curl.get(DOCUMENT).code, 200)


def is_status(what, answer, code, reason):
    equal(f"{what}: code", answer.code, code)
    equal(f"{what}: type", answer["content-type"], "application/json")
    try:
        body = json.loads(answer.body)
        got = tuple(body.get(name) for name in ("kind", "apiVersion", "status", "code", "reason"))
        equal(f"{what}: Status", got, ("Status", "v1", "Failure", code, reason))
        check(body.get("message"), f"{what}: Status without a message")
    except ValueError:
        check(False, f"{what}: the body is no JSON: {answer.body[:80]!r}")


class Curl:
    """curl with the server and the credential of a kubeconfig."""

    def __init__(self, kubectl, kubeconfig, folder, http):
        view = [kubectl, "--kubeconfig", kubeconfig, "config", "view", "--raw", "--flatten", "--minify", "-o", "json"]
        config = json.loads(subprocess.run(view, check=True, capture_output=True).stdout)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server, self.folder = cluster["server"].rstrip("/"), folder
        self.options = ["curl", "--silent", "--show-error", "--max-time", "30", http]
        if "certificate-authority-data" in cluster:
            authority = folder / "ca.pem"
            authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
            self.options += ["--cacert", str(authority)]
        else:
            self.options += ["--insecure"]
        self.credential = ["-H", f"Authorization: Bearer {user['token']}"]

    def get(self, path, *headers, options=(), anonymous=False):
        head_file, body_file, config_file = (self.folder / name for name in ("head", "body", "headers"))
        body_file.write_bytes(b"")
        # Headers go by file: some are longer than an argument may be.
        config_file.write_text("".join(f"{header}\n" for header in headers))
        command = [*self.options, *([] if anonymous else self.credential), "-H", f"@{config_file}",
                   "-D", str(head_file), "-o", str(body_file), *options, "--path-as-is", self.server + path]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            return Answer("HTTP/0 0", b"", done.stderr)
        # After a redirect the heads of all answers follow each other.
        return Answer(head_file.read_text().strip().split("\n\n")[-1], body_file.read_bytes())

    def head(self, path):
        return self.get(path, options=["--head"])


class Answer:
    def __init__(self, head, body, trouble=""):
        first, *lines = head.splitlines()
        self.http, code = first.split()[:2]
        self.http = self.http.removeprefix("HTTP/")
        self.code, self.body = int(code), body
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        if trouble:
            print(f"  curl: {trouble.strip()}")

    def __getitem__(self, name):
        return self.headers.get(name)

    def list(self, name):
        return [item.strip().lower() for item in (self[name] or "").split(",")]


if __name__ == "__main__":
    main(*sys.argv[1:3])
