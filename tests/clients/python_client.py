#!/usr/bin/env python3
"""Suite python: the `kubernetes` package, its generated and its dynamic client.

    python_client.py KUBECONFIG
"""

import json
import os
import sys
import tempfile

from checks import check, equal, finish, part, recorded_resources, same_set
from kubernetes import client, config, dynamic
from kubernetes.dynamic.discovery import EagerDiscoverer, LazyDiscoverer


def main(kubeconfig):
    api = config.new_client_from_config(kubeconfig)
    rows = recorded_resources()
    versions = {row["group_version"] for row in rows}

    part(versions_and_groups, api, versions)
    part(generated, api, rows)
    with tempfile.TemporaryDirectory() as folder:
        for discoverer in (EagerDiscoverer, LazyDiscoverer):
            part(discovered, api, rows, discoverer, os.path.join(folder, discoverer.__name__))
    part(documents, api, versions)
    finish()


def versions_and_groups(api, versions):
    code = client.VersionApi(api).get_code()
    equal("VersionApi", (code.major, code.minor), ("1", "36"))
    equal("CoreApi", client.CoreApi(api).get_api_versions().versions, ["v1"])
    groups = client.ApisApi(api).get_api_versions().groups
    listed = {version.group_version for group in groups for version in group.versions}
    equal("ApisApi", listed, versions - {"v1"})
    for group in groups:
        check(group.preferred_version.group_version in listed, f"preferred version of {group.name}")


def generated(api, rows):
    """Every generated class that can read a group or its resources."""
    expected = {}
    for row in rows:
        expected.setdefault(row["group_version"], set()).add((row["name"], row["kind"], row["verbs"]))
    for name in sorted(dir(client)):
        cls = getattr(client, name)
        if not is_served(name, expected):
            continue
        if hasattr(cls, "get_api_group"):
            check(cls(api).get_api_group().versions, f"{name}.get_api_group")
        if not hasattr(cls, "get_api_resources"):
            continue
        answer = cls(api).get_api_resources()
        got = {(r.name, r.kind, ",".join(r.verbs)) for r in answer.resources}
        same_set(f"{name}.get_api_resources", got, expected.get(answer.group_version, set()))


def is_served(class_name, served):
    """The package also has classes for beta versions, which are off by default."""
    known = {"CoreV1Api"}
    for version in served:
        group, _, version = version.rpartition("/")
        camel = "".join(part.capitalize() for part in group.removesuffix(".k8s.io").replace("-", ".").split("."))
        known |= {f"{camel}{version.capitalize()}Api", f"{camel}Api"}
    return class_name in known


def discovered(api, rows, discoverer, cache_file):
    what = discoverer.__name__
    dynamic_client = dynamic.DynamicClient(api, cache_file=cache_file, discoverer=discoverer)
    equal(f"{what}: version", dynamic_client.version["kubernetes"]["minor"], "36")
    found = {}
    for resource in dynamic_client.resources.search():
        # For every kind the client makes up a list kind that is not served.
        if not isinstance(resource, dynamic.resource.ResourceList):
            found[(resource.group_version, resource.name)] = resource
    expected = {(row["group_version"], row["name"]): row for row in rows if "/" not in row["name"]}
    same_set(f"{what}: resources", found, expected)
    for key in sorted(set(found) & set(expected)):
        resource, row = found[key], expected[key]
        got = (resource.kind, resource.namespaced, ",".join(resource.verbs), ",".join(resource.short_names or []))
        equal(f"{what}: {key}", got, (row["kind"], row["scope"] == "Namespaced", row["verbs"], row["short_names"]))
        subresources = {f"{row['name']}/{name}" for name in resource.subresources}
        recorded = {r["name"] for r in rows if r["group_version"] == key[0] and r["name"].startswith(row["name"] + "/")}
        equal(f"{what}: subresources of {key}", subresources, recorded)
        again = dynamic_client.resources.get(api_version=row["group_version"], kind=row["kind"])
        check(again.kind == row["kind"], f"{what}: get {key}")


def documents(api, versions):
    dynamic_client = dynamic.DynamicClient(api)

    def read(path):
        return json.loads(dynamic_client.request("get", path, serialize=False).data)

    v2 = read("/openapi/v2")
    equal("openapi v2", v2["swagger"], "2.0")
    check(len(v2["definitions"]) > 500, f"openapi v2 has {len(v2['definitions'])} definitions")
    root = read("/openapi/v3")["paths"]
    for version in sorted(versions):
        key = f"apis/{version}" if "/" in version else f"api/{version}"
        if check(key in root, f"openapi v3 has no {key}"):
            equal(f"openapi v3 {key}", read(root[key]["serverRelativeURL"])["openapi"][:2], "3.")


if __name__ == "__main__":
    main(sys.argv[1])
