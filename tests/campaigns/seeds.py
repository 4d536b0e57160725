"""First inputs for fuzz targets, from what the tests of the crates have recorded.

Random bytes take hours to become a kustomization or a definition. Targets without an entry
in `SEEDS` find their way from nothing.
"""

import hashlib
import json
import pathlib
import re

MANY_ALIASES = 20

CRATES = pathlib.Path(__file__).resolve().parents[2] / "crates"


def write(target, folder, most):
    """Puts the first inputs of a target into a folder, so many of them at most."""
    found = list(SEEDS.get(target, lambda: [])())
    for seed in found[:: max(1, -(-len(found) // most))]:
        content = seed.encode()
        (folder / hashlib.sha1(content).hexdigest()).write_bytes(content)


def cases():
    """The files of each case of `kustomize build` in its own folder, by name."""
    for path in sorted((CRATES / "kustomize/tests/cases").glob("build-*.case")):
        for case in path.read_text().split("\n=== ")[1:]:
            inputs = case.split("\n>> ")[0]
            # Those full of aliases are for their own tests; here they only take time.
            if not re.search(r"^\$ build$", inputs, re.M) or inputs.count("*") > MANY_ALIASES:
                continue
            parts = re.split(r"^-- (\S+) --$", inputs, flags=re.M)[1:]
            yield [(name, content.lstrip("\n")) for name, content in zip(parts[::2], parts[1::2])]


def kustomizations():
    for files in cases():
        yield "\n".join(f"-- {name}\n{content}" for name, content in files)


def yaml_texts():
    yield from (content for files in cases() for _, content in files)
    for path in sorted((CRATES / "yaml/tests/data").glob("*.txt")):
        lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
        yield from (json.loads(line.split(" => ")[0]) for line in lines)


def lines_of(path):
    return [json.loads(line) for line in (CRATES / path).read_text().splitlines() if line.startswith("{")]


def definitions():
    for case in lines_of("crd/tests/recorded/definitions.jsonl"):
        if case.get("op") == "create":
            yield json.dumps([case["input"], {}, {}])


SEEDS = {
    "cel": lambda: (case["expr"] for case in lines_of("cel/tests/recorded/expressions.jsonl")),
    "crd": definitions,
    "kustomize": kustomizations,
    "yaml": yaml_texts,
    "yaml_node": yaml_texts,
    "yaml_write": lambda: (json.dumps(case["value"]) for case in lines_of("yaml/tests/data/written.jsonl")),
}
