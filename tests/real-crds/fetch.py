#!/usr/bin/env python3
"""Fetches the definitions and samples that pins.tsv names, by `go mod download`,
into a folder: SET/crds/NAME.{yaml,json} and SET/samples/DIGEST.{yaml,json}.

    fetch.py FOLDER [SET...]

What is there already is left alone. Needs Go and PyYAML. The files are other
people's: they stay in the folder and are not committed.
"""

import csv
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import yaml

PINS = pathlib.Path(__file__).parent / "pins.tsv"
COLUMNS = ("set", "module", "version", "sum", "crds", "samples")
MAX_FILE_BYTES = 30_000_000
# Of one kind and of one set, chosen by the hash of their text.
MAX_SAMPLES_OF_KIND, MAX_SAMPLES = 60, 250
DIGITS = 12  # of a sample's SHA-256, its name
DOWNLOAD_SECONDS = 300

DOCUMENT_END = re.compile(r"^---.*$", re.MULTILINE)
# Files for programs that fill something in first.
TEMPLATE = re.compile(r"\{\{|\$\{|^\s*#@", re.MULTILINE)


def main():
    folder, *wanted = sys.argv[1:]
    folder = pathlib.Path(folder)
    pins = [pin for pin in read_pins() if not wanted or pin["set"] in wanted]
    modules = {}
    for pin in pins:
        if not (folder / pin["set"] / "complete").exists():
            modules.setdefault((pin["module"], pin["version"], pin["sum"]), []).append(pin)
    for (module, version, expected), sets in modules.items():
        with tempfile.TemporaryDirectory() as cache, zipfile.ZipFile(download(module, version, expected, cache)) as archive:
            files = read_files(archive)
            for pin in sets:
                write_set(folder / pin["set"], pin, files)
    for pin in pins:
        counts = [len(list((folder / pin["set"] / part).glob("*.json"))) for part in ("crds", "samples")]
        print(f"{pin['set']}: {counts[0]} definitions, {counts[1]} samples")


def read_pins():
    with PINS.open(newline="") as lines:
        return [dict(zip(COLUMNS, row, strict=True)) for row in csv.reader(lines, delimiter="\t")]


def download(module, version, expected, cache):
    # The sum stands in pins.tsv; a module may ask for a newer Go than ours, which its files do not need.
    settings = {"GOMODCACHE": cache, "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "GONOSUMDB": "*", "GOWORK": "off"}
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@{version}"], env=os.environ | settings, cwd=cache,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS,
    )
    answer = json.loads(done.stdout or "{}")
    if "Zip" not in answer:
        sys.exit(f"{module}@{version}: {answer.get('Error') or done.stderr}")
    if answer["Sum"] != expected:
        sys.exit(f"{module}@{version}: sum is {answer['Sum']}, expected {expected}")
    return answer["Zip"]


def read_files(archive):
    """Path within the module to text, of all YAML files."""
    files = {}
    for entry in archive.infolist():
        if entry.filename.endswith((".yaml", ".yml")) and entry.file_size <= MAX_FILE_BYTES:
            path = entry.filename.split("@", 1)[1].split("/", 1)[1]
            files[path] = archive.read(entry).decode("utf-8", "replace")
    return dict(sorted(files.items()))


def write_set(folder, pin, files):
    shutil.rmtree(folder, ignore_errors=True)
    definitions = {}
    for text, document in documents(files, pin["crds"]):
        if document.get("kind") == "CustomResourceDefinition" and document.get("apiVersion") == "apiextensions.k8s.io/v1":
            name = (document.get("metadata") or {}).get("name")
            # Patches of definitions look like definitions.
            if name and (document.get("spec") or {}).get("group") and document["spec"].get("versions"):
                definitions.setdefault(name, (text, document))
    if not definitions:
        sys.exit(f"{pin['set']}: no definitions in {pin['crds']}")
    for name, (text, document) in definitions.items():
        if (document["spec"].get("conversion") or {}).get("strategy") == "Webhook":
            # Nobody answers its webhook here.
            document["spec"]["conversion"] = {"strategy": "None"}
            text = json.dumps(document, indent=1)
        write(folder / "crds", name, text, document)
    for digest, (text, document) in samples(pin, files, definitions).items():
        write(folder / "samples", digest[:DIGITS], text, document)
    (folder / "complete").touch()


def samples(pin, files, definitions):
    known = {
        (f"{document['spec']['group']}/{version['name']}", document["spec"]["names"]["kind"])
        for _, document in definitions.values()
        for version in document["spec"]["versions"]
        if version.get("served")
    }
    found = {}
    for text, document in documents(files, pin["samples"]):
        if (document.get("apiVersion"), document.get("kind")) in known:
            found.setdefault(hashlib.sha256(text.encode()).hexdigest(), (text, document))
    counts, chosen = {}, {}
    for digest in sorted(found):
        kind = found[digest][1]["kind"]
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= MAX_SAMPLES_OF_KIND and len(chosen) < MAX_SAMPLES:
            chosen[digest] = found[digest]
    return chosen


def documents(files, folders):
    """Texts and values of all documents below some folders that are objects."""
    prefixes = tuple("" if folder == "." else f"{folder}/" for folder in folders.split(","))
    for path, text in files.items():
        if not path.startswith(prefixes):
            continue
        for part in DOCUMENT_END.split(text):
            if "kind:" not in part or "apiVersion:" not in part or TEMPLATE.search(part) and "CustomResourceDefinition" not in part:
                continue
            try:
                value = yaml.load(part, Loader)
            except yaml.YAMLError:
                continue
            if isinstance(value, dict) and hashable(value.get("kind")) and hashable(value.get("apiVersion")):
                yield part.strip() + "\n", value


def hashable(value):
    return isinstance(value, str)


def write(folder, name, text, document):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)
    (folder / f"{name}.json").write_text(json.dumps(document))


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Scalars as Kubernetes reads them: no dates, no numbers to base 60, 1e3 is a number, = a text."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":value", ":int", ":float"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(0b[01]+|0x[0-9a-fA-F]+|0o?[0-7]*|[1-9][0-9]*)$"), list("-+0123456789"))
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?([0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"),
    list("-+.0123456789"))


if __name__ == "__main__":
    main()
