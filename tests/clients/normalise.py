"""Turns what kubectl prints into lines that two servers must agree on.

`explain` prints the descriptions of a schema. They are upstream's prose and
are not kept: each paragraph becomes `#` and the start of its SHA-256, taken
after all white space was made one blank. Names, types, markers, enums and
indentation stay.

One difference is declared: a description that lists the values of an enum says
at upstream what each value means, and there is no public source for those
sentences but upstream's own. The values stay, the sentences go, on both sides.
"""

import hashlib
import json
import re

HASH_DIGITS = 12

HEADER = re.compile(r"^[A-Z]+:")
FIELD = re.compile(r"^\s+\S+\t<")
INLINE_ENUM = re.compile(r"^\s+enum: ")
ENUM_LIST = "Possible enum values:"
ENUM_VALUE = re.compile(r'^- `("[^`]*")`')


def explain(text):
    """The lines of `kubectl explain` with prose replaced by hashes."""
    result = []
    paragraph = []
    enum_values = None  # a list while inside a list of enum values
    verbatim = False  # inside the ENUM section, which has no prose

    def close():
        nonlocal enum_values
        if enum_values is not None:
            result.append(f"    {ENUM_LIST} {' '.join(enum_values)}")
            enum_values = None
        if paragraph:
            result.append(f"    #{digest(' '.join(paragraph))}")
            paragraph.clear()

    for line in text.splitlines():
        words = line.strip()
        if HEADER.match(line) or FIELD.match(line) or INLINE_ENUM.match(line):
            close()
            verbatim = line.startswith("ENUM:")
            result.append(line.rstrip())
        elif not words:
            verbatim = False
            if enum_values is None:
                close()
        elif verbatim or words == "<empty>":
            result.append(line.rstrip())
        elif words.startswith(ENUM_LIST):
            close()
            enum_values = []
        elif enum_values is not None:
            value = ENUM_VALUE.match(words)
            if value:
                enum_values.append(value.group(1))
        else:
            paragraph.append(words)
    close()
    return result


def digest(text):
    """The short hash of a text whose white space does not count."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:HASH_DIGITS]


def version(text):
    """`kubectl version -o json`: only what a server must be to pass as 1.36."""
    server = json.loads(text)["serverVersion"]
    return [server_version(server)]


def server_version(info):
    patch_level = re.match(r"^v1\.36\.\d+([+-].*)?$", info["gitVersion"])
    return f"server {info['major']}.{info['minor']} git version {'fits' if patch_level else info['gitVersion']}"


def raw(path, text):
    """`kubectl get --raw PATH`; JSON with sorted keys, one line per leaf list."""
    if path == "/version":
        return [server_version(json.loads(text))]
    if path == "/openapi/v3":
        return sorted(json.loads(text)["paths"])
    if path == "/":
        # Health checks and metrics differ between any two servers by design.
        shared = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz", "/metrics")
        paths = json.loads(text)["paths"]
        return [p for p in paths if p in shared or re.match(r"^/(api|apis|openapi)/[^/]+(/[^/]+)?$", p)]
    if not text.lstrip().startswith("{"):
        return text.splitlines()
    answer = json.loads(text)
    # An address of the server itself.
    answer.pop("serverAddressByClientCIDRs", None)
    if "resources" in answer:
        resources = answer.pop("resources")
        return [json.dumps(answer, sort_keys=True)] + [json.dumps(r, sort_keys=True) for r in resources]
    if "groups" in answer:
        groups = answer.pop("groups")
        return [json.dumps(answer, sort_keys=True)] + [json.dumps(g, sort_keys=True) for g in groups]
    return [json.dumps(answer, sort_keys=True)]
