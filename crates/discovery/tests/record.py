#!/usr/bin/env python3
"""Records every discovery document of kube-apiserver in data/, or compares them.

    record.py --server URL --token TOKEN [--check]

A file is named for its path with `/` as `__`; `agg_` marks the aggregated form.
"""
import argparse
import http.client
import json
import pathlib
import ssl
import sys
import urllib.parse

DATA = pathlib.Path(__file__).resolve().parent / "data"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# Of the server that is recorded; tests ask for it.
ADDRESS = "192.0.2.2:16443"


def documents(get, host):
    """Name and text of each."""
    yield "api", get("/api").replace(host, ADDRESS)
    groups = get("/apis")
    yield "apis", groups
    yield "api__v1", get("/api/v1")
    for group in json.loads(groups)["groups"]:
        yield "apis__" + group["name"], get("/apis/" + group["name"])
        for version in group["versions"]:
            path = "apis/" + version["groupVersion"]
            yield path.replace("/", "__"), get("/" + path)
    yield "agg_api", get("/api", AGGREGATED)
    yield "agg_apis", get("/apis", AGGREGATED)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    host = urllib.parse.urlsplit(options.server).netloc
    connection = http.client.HTTPSConnection(host, context=ssl._create_unverified_context(), timeout=60)

    def get(path, accept="application/json"):
        connection.request("GET", path, headers={"Authorization": "Bearer " + options.token, "Accept": accept})
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, (path, text)
        return text

    found = dict(documents(get, host))
    recorded = {path.stem: path.read_text() for path in DATA.glob("*.json")}
    different = [name for name in sorted({*found, *recorded}) if found.get(name) != recorded.get(name)]
    for name in different:
        print("%s\n  recorded %s\n  now      %s" % (name, recorded.get(name), found.get(name)))
        if not options.check and name in found:
            (DATA / (name + ".json")).write_text(found[name])
        elif not options.check:
            (DATA / (name + ".json")).unlink()
    print("%d documents, %d differ" % (len(found), len(different)))
    sys.exit(1 if options.check and different else 0)


main()
