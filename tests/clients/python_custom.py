#!/usr/bin/env python3
"""Suite python-custom: the `kubernetes` package defines custom resources and
uses them, with its generated CustomObjectsApi and its dynamic client.

    python_custom.py KUBECONFIG
"""

import json
import pathlib
import sys
import threading
import time

import yaml
from checks import check, equal, finish, part
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError
from namespace import random_suffix
from python_objects import fails, remove

DEFINITIONS = pathlib.Path(__file__).parent / "custom"
PATIENCE_SECONDS = 20
JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def main(kubeconfig):
    api = config.new_client_from_config(kubeconfig)
    core = client.CoreV1Api(api)
    name = "python-" + random_suffix(8)
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    sails = Sails(api, name)
    try:
        part(definitions, api, name)
        part(crud, sails)
        part(values, sails)
        part(lists, sails)
        part(patches, sails)
        part(apply, sails)
        part(subresources, sails)
        part(versions, sails)
        part(deletes, sails)
        part(watches, sails)
        part(cluster_objects, api, name)
        part(dynamic_client, api, name)
        part(dynamic_watch, api, name)
        part(changed_definition, sails)
    finally:
        part(remove_definitions, api, name)
        part(remove, core, name)
    finish()


class Sails:
    """CustomObjectsApi on the sails of one namespace."""

    def __init__(self, api, namespace):
        self.api, self.namespace = api, namespace
        self.group = f"{namespace}.example.com"
        self.objects = client.CustomObjectsApi(api)
        self.path = (self.group, "v1", namespace, "sails")

    def body(self, name, labels=None, version="v1", **spec):
        metadata = {"name": name, "labels": labels} if labels else {"name": name}
        return {"apiVersion": f"{self.group}/{version}", "kind": "Sail", "metadata": metadata, "spec": spec}

    def create(self, name, labels=None, **spec):
        return self.objects.create_namespaced_custom_object(*self.path, self.body(name, labels, **spec))

    def get(self, name):
        return self.objects.get_namespaced_custom_object(*self.path, name)

    def replace(self, body, **options):
        return self.objects.replace_namespaced_custom_object(*self.path, body["metadata"]["name"], body, **options)

    def patch(self, name, body, **options):
        return self.objects.patch_namespaced_custom_object(*self.path, name, body, **options)

    def list(self, **options):
        return self.objects.list_namespaced_custom_object(*self.path, **options)

    def names(self, **options):
        return [item["metadata"]["name"] for item in self.list(**options)["items"]]

    def delete(self, name, **options):
        return self.objects.delete_namespaced_custom_object(*self.path, name, **options)


def definition(file, name):
    return yaml.safe_load((DEFINITIONS / file).read_text().replace("NAMESPACE", name))


def eventually(what, condition):
    begin = time.monotonic()
    while time.monotonic() - begin < PATIENCE_SECONDS:
        if condition():
            return check(True, what)
        time.sleep(0.05)
    return check(False, f"{what}: not in {PATIENCE_SECONDS} s")


def unknown_path(what, call, *arguments):
    """What is at no path of the API is answered in plain text, without a Status."""
    try:
        call(*arguments)
        check(False, f"{what}: did not fail")
    except ApiException as problem:
        equal(what, (problem.status, problem.body), (404, "404 page not found\n"))


def served(sails, version, plural="sails"):
    """Whether discovery knows a resource; a real server is a moment late."""
    try:
        listed = sails.objects.get_api_resources(sails.group, version)
    except ApiException:
        return False
    return plural in [resource.name for resource in listed.resources]


def definitions(api, name):
    extensions = client.ApiextensionsV1Api(api)
    sails = Sails(api, name)
    made = extensions.create_custom_resource_definition(definition("sails.yaml", name))
    equal("definition: generation", made.metadata.generation, 1)
    equal("definition: conversion", made.spec.conversion.strategy, "None")
    equal("definition: stored versions", made.status.stored_versions, ["v1"])
    # A helper for manifests, which asks discovery for nothing but the group.
    utils.create_from_dict(api, definition("harbours.yaml", name))
    for plural in "sails", "harbours":
        def conditions():
            read = extensions.read_custom_resource_definition(f"{plural}.{sails.group}")
            return {c.type: (c.status, c.reason) for c in read.status.conditions or []}
        eventually(f"{plural}: established", lambda: conditions().get("Established") == ("True", "InitialNamesAccepted"))
        equal(f"{plural}: names", conditions().get("NamesAccepted"), ("True", "NoConflicts"))
        eventually(f"{plural}: served", lambda: served(sails, "v1", plural))
    listed = sails.objects.get_api_resources(sails.group, "v1")
    equal("resources", sorted(resource.name for resource in listed.resources),
          ["harbours", "sails", "sails/scale", "sails/status"])
    found = {resource.name: resource for resource in listed.resources}
    equal("resources: names", (found["sails"].short_names, found["sails"].categories, found["sails"].singular_name),
          (["sl", "cloth"], ["rigging", "all"], "sail"))
    equal("resources: scale", (found["sails/scale"].group, found["sails/scale"].version, found["sails/scale"].kind),
          ("autoscaling", "v1", "Scale"))
    status = fails("definition: again", 409, "AlreadyExists",
                   extensions.create_custom_resource_definition, definition("sails.yaml", name))
    equal("definition: again text", status.get("message"),
          f'customresourcedefinitions.apiextensions.k8s.io "sails.{sails.group}" already exists')
    status = fails("definition: broken", 422, "Invalid",
                   extensions.create_custom_resource_definition, definition("broken.yaml", name))
    causes = sorted((c["reason"], c["field"]) for c in status.get("details", {}).get("causes", []))
    check(("FieldValueInvalid", "metadata.name") in causes, f"definition: causes {causes}")
    read = extensions.read_custom_resource_definition(f"sails.{sails.group}")
    schema = read.spec.versions[0].schema.open_apiv3_schema
    equal("definition: schema", (schema.properties["spec"].properties["colour"].default,
                                 schema.properties["spec"].properties["area"].minimum), ("white", 1))
    equal("definition: rules", schema.properties["spec"].x_kubernetes_validations[0].reason, "FieldValueForbidden")


def crud(sails):
    made = sails.create("crud", area=5)
    equal("create: defaults", made["spec"], {"area": 5, "colour": "white", "replicas": 1})
    equal("create: generation", made["metadata"]["generation"], 1)
    equal("read", sails.get("crud"), made)
    made["spec"]["area"] = 6
    changed = sails.replace(made)
    equal("replace: generation", (changed["spec"]["area"], changed["metadata"]["generation"]), (6, 2))
    same = sails.replace(changed)
    equal("replace: nothing new", same["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"])
    status = fails("replace: stale", 409, "Conflict", sails.replace, made)
    equal("replace: stale details", (status["details"]["group"], status["details"]["kind"]), (sails.group, "sails"))
    # Unlike most built-in kinds, custom resources are not replaced blindly.
    body = sails.body("crud", area=7)
    status = fails("replace: no version", 422, "Invalid", sails.replace, body)
    equal("replace: no version field", [c["field"] for c in status["details"]["causes"]], ["metadata.resourceVersion"])
    status = fails("create: again", 409, "AlreadyExists", sails.create, "crud", area=1)
    equal("create: again text", status["message"], f'sails.{sails.group} "crud" already exists')
    status = fails("read: missing", 404, "NotFound", sails.get, "missing")
    equal("read: missing details", status["details"], {"name": "missing", "group": sails.group, "kind": "sails"})
    fails("replace: missing", 404, "NotFound", sails.replace, dict(sails.body("missing", area=1)))
    sails.objects.create_namespaced_custom_object(*sails.path, sails.body("dry", area=1), dry_run="All")
    fails("dry run leaves nothing", 404, "NotFound", sails.get, "dry")
    named = sails.objects.create_namespaced_custom_object(
        *sails.path, {**sails.body("x", area=1), "metadata": {"generateName": "gen-"}})
    check(named["metadata"]["name"].startswith("gen-"), f"generated {named['metadata']['name']}")
    answer = sails.delete("crud")
    equal("delete", (answer["status"], answer["details"]),
          ("Success", {"name": "crud", "group": sails.group, "kind": "sails", "uid": made["metadata"]["uid"]}))


def values(sails):
    """Pruning, defaulting, nullable, rules; what is not taken and why."""
    made = sails.create("pruned", area=5, weight=3, reefs=[{"name": "a", "knots": 1}], settings={"deep": {"any": [1]}},
                        note=None, template={"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}, "metadata": {"name": "p", "odd": 1}})
    equal("pruned", "weight" in made["spec"], False)
    equal("pruned in lists, with defaults", made["spec"]["reefs"], [{"name": "a", "depth": 1}])
    equal("unknown fields kept", made["spec"]["settings"], {"deep": {"any": [1]}})
    equal("null kept", ("note" in made["spec"], made["spec"].get("note")), (True, None))
    equal("embedded", made["spec"]["template"], {"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}, "metadata": {"name": "p"}})
    # A null for a field with a default that is not nullable is as if it were not there.
    equal("null pruned", sails.create("nulled", area=5, colour=None)["spec"]["colour"], "white")

    def refused(what, expected, **spec):
        status = fails(what, 422, "Invalid", sails.create, "refused", **spec)
        causes = [(c["reason"], c["field"]) for c in status.get("details", {}).get("causes", []) if c["field"] != "<nil>"]
        equal(f"{what}: causes", sorted(causes), sorted(expected))
        return status

    refused("required", [("FieldValueRequired", "spec.area")], colour="red")
    refused("type", [("FieldValueTypeInvalid", "spec.area")], area="big")
    refused("enum", [("FieldValueNotSupported", "spec.colour")], area=1, colour="blue")
    refused("range", [("FieldValueInvalid", "spec.area")], area=5001)
    refused("pattern", [("FieldValueInvalid", "spec.material")], area=1, material="A")
    refused("length", [("FieldValueTooLong", "spec.material")], area=1, material="a" * 21)
    refused("format", [("FieldValueTypeInvalid", "spec.raisedAt")], area=1, raisedAt="noon")
    refused("set", [("FieldValueDuplicate", "spec.tags[1]")], area=1, tags=["a", "a"])
    refused("map", [("FieldValueDuplicate", "spec.reefs[1]")], area=1, reefs=[{"name": "a"}, {"name": "a"}])
    refused("items", [("FieldValueTooMany", "spec.reefs")], area=1, reefs=[{"name": str(n)} for n in range(9)])
    status = refused("rule", [("FieldValueForbidden", "spec.colour")], area=2000, colour="red")
    equal("rule: text", status["message"],
          f'Sail.{sails.group} "refused" is invalid: spec.colour: Forbidden: no red sail is larger than 1000')
    status = refused("rule with expression", [("FieldValueInvalid", "spec")], area=1, reefs=[{"name": "a", "depth": 2}])
    check("a reef is too deep for a white sail" in status["message"], status["message"])
    made = sails.create("ruled", area=5, serial="one")
    made["spec"]["serial"] = "two"
    status = fails("transition rule", 422, "Invalid", sails.replace, made)
    check("a serial number is for life" in status["message"], status["message"])
    status = fails("strict", 400, "BadRequest", sails.objects.create_namespaced_custom_object,
                   *sails.path, sails.body("strict", area=1, weight=2), field_validation="Strict")
    check('unknown field "spec.weight"' in status["message"], status["message"])
    fails("namespace of the path", 400, "BadRequest", sails.objects.create_namespaced_custom_object,
          *sails.path, {**sails.body("other", area=1), "metadata": {"name": "other", "namespace": "default"}})
    fails("kind of the path", 422, "Invalid", sails.objects.create_namespaced_custom_object,
          *sails.path, {**sails.body("other", area=1), "kind": "Oar"})
    for name in "pruned", "nulled", "ruled":
        sails.delete(name)


def lists(sails):
    for number, (colour, mast) in enumerate((("red", "main"), ("white", "main"), ("red", "fore"), ("tanned", "fore"), ("white", "fore"))):
        sails.create(f"list-{number}", {"mast": mast}, area=10 + number, colour=colour, reefed=number == 3)
    everything = sails.list(label_selector="mast")
    equal("list: kind", (everything["kind"], everything["apiVersion"]), ("SailList", f"{sails.group}/v1"))
    equal("list: names", [item["metadata"]["name"] for item in everything["items"]], [f"list-{n}" for n in range(5)])
    check(everything["metadata"]["resourceVersion"], "list: version")
    equal("label selector", sails.names(label_selector="mast=main"), ["list-0", "list-1"])
    equal("label selector: set", sails.names(label_selector="mast in (fore),mast!=main"), ["list-2", "list-3", "list-4"])
    equal("field selector", sails.names(field_selector="spec.colour=red"), ["list-0", "list-2"])
    equal("field selector: number", sails.names(field_selector="spec.area=12"), ["list-2"])
    equal("field selector: boolean", sails.names(field_selector="spec.reefed=true"), ["list-3"])
    equal("both selectors", sails.names(field_selector="spec.colour!=red", label_selector="mast=main"), ["list-1"])
    equal("field selector: name", sails.names(field_selector="metadata.name=list-4"), ["list-4"])
    status = fails("field selector: other", 400, "BadRequest", sails.list, field_selector="spec.material=flax")
    equal("field selector: other text", status["message"], "field label not supported: spec.material")
    pages, token = [], None
    while True:
        page = sails.list(label_selector="mast", limit=2, _continue=token)
        pages.append([item["metadata"]["name"] for item in page["items"]])
        token = page["metadata"].get("continue")
        if not token:
            break
    equal("pages", pages, [["list-0", "list-1"], ["list-2", "list-3"], ["list-4"]])
    everywhere = sails.objects.list_cluster_custom_object(sails.group, "v1", "sails", label_selector="mast=main")
    equal("all namespaces", [item["metadata"]["name"] for item in everywhere["items"]], ["list-0", "list-1"])
    version = everything["metadata"]["resourceVersion"]
    sails.delete("list-4")
    equal("list: exact version", sails.names(label_selector="mast", resource_version=version, resource_version_match="Exact"),
          [f"list-{n}" for n in range(5)])
    sails.objects.delete_collection_namespaced_custom_object(*sails.path, label_selector="mast=fore")
    equal("delete collection", sails.names(label_selector="mast"), ["list-0", "list-1"])
    sails.objects.delete_collection_namespaced_custom_object(*sails.path, field_selector="spec.colour=red")
    equal("delete collection by field", sails.names(label_selector="mast"), ["list-1"])
    sails.delete("list-1")


def patches(sails):
    sails.create("patched", area=5, tags=["a", "b"], marks={"x": "1", "y": "2"})
    patched = sails.patch("patched", {"spec": {"marks": {"x": None, "z": "3"}, "tags": ["c"]}}, _content_type=MERGE)
    equal("merge patch", (patched["spec"]["marks"], patched["spec"]["tags"]), ({"y": "2", "z": "3"}, ["c"]))
    patched = sails.patch("patched", [{"op": "add", "path": "/spec/tags/-", "value": "d"}, {"op": "remove", "path": "/spec/marks"}], _content_type=JSON)
    equal("JSON patch", (patched["spec"]["tags"], "marks" in patched["spec"]), (["c", "d"], False))
    before = patched["metadata"]
    same = sails.patch("patched", {"spec": {"area": 5}}, _content_type=MERGE)["metadata"]
    equal("empty patch", (same["resourceVersion"], same["generation"]), (before["resourceVersion"], before["generation"]))
    status = fails("strategic patch", 415, "UnsupportedMediaType", sails.patch, "patched", {"spec": {"area": 6}}, _content_type=STRATEGIC)
    equal("strategic patch text", status["message"],
          "the body of the request was in an unknown format - accepted media types include: "
          "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
    fails("patch: invalid", 422, "Invalid", sails.patch, "patched", {"spec": {"area": 0}}, _content_type=MERGE)
    fails("patch: failed test", 422, "Invalid", sails.patch, "patched", [{"op": "test", "path": "/spec/area", "value": 9}], _content_type=JSON)
    fails("patch: stale", 409, "Conflict", sails.patch, "patched", {"metadata": {"resourceVersion": "1"}}, _content_type=MERGE)
    fails("patch: missing", 404, "NotFound", sails.patch, "missing", {}, _content_type=MERGE)
    defaulted = sails.patch("patched", {"spec": {"colour": None}}, _content_type=MERGE)
    equal("patch: default comes back", defaulted["spec"]["colour"], "white")
    sails.delete("patched")


def apply(sails):
    def applied(manager, force=None, **spec):
        # The package does not read the answer 201.
        sails.patch("applied", sails.body("applied", **spec), field_manager=manager, force=force, _content_type=APPLY)
        return sails.get("applied")

    made = applied("one", area=5, reefs=[{"name": "a", "depth": 2}], tags=["x"])
    equal("apply: made", made["spec"]["reefs"], [{"name": "a", "depth": 2}])
    again = applied("one", area=5, reefs=[{"name": "a", "depth": 2}], tags=["x"])
    equal("apply: again", again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"])
    both = applied("two", reefs=[{"name": "b"}], tags=["y"], area=5)
    equal("apply: merged by key", both["spec"]["reefs"], [{"name": "a", "depth": 2}, {"name": "b", "depth": 1}])
    equal("apply: merged set", both["spec"]["tags"], ["x", "y"])
    status = fails("apply: conflict", 409, "Conflict", applied, "three", area=6)
    equal("apply: causes", sorted((c["reason"], c["field"], c["message"]) for c in status["details"]["causes"]), [
        ("FieldManagerConflict", ".spec.area", 'conflict with "one"'),
        ("FieldManagerConflict", ".spec.area", 'conflict with "two"'),
    ])
    forced = applied("three", force=True, area=6)
    owners = {entry["manager"]: entry["fieldsV1"] for entry in forced["metadata"]["managedFields"]}
    equal("apply: owner", owners["three"], {"f:spec": {"f:area": {}}})
    left = applied("one", tags=["x"])
    equal("apply: what is left out goes", left["spec"]["reefs"], [{"name": "b", "depth": 1}])
    # kube-apiserver says 500 without a reason; sternpost's difference is a declared one.
    try:
        applied("one", weight=1)
        status = {"message": "did not fail"}
    except ApiException as problem:
        status = json.loads(problem.body)
        answer = (problem.status, status.get("reason"))
        check(answer in [(400, "BadRequest"), (500, None)], f"apply: unknown field: {answer}")
    check("field not declared in schema" in status["message"], status["message"])
    fails("apply: no manager", 422, "Invalid", sails.patch, "applied", sails.body("applied"), _content_type=APPLY)
    sails.delete("applied")


def subresources(sails):
    objects = sails.objects
    made = sails.create("sub", area=5, replicas=3)
    # What is created has no status, whatever was sent.
    made["status"] = {"replicas": 2, "selector": "mast=sub", "conditions": [{"type": "Ready", "status": "True"}], "odd": 1}
    made["spec"]["area"] = 9
    status = objects.replace_namespaced_custom_object_status(*sails.path, "sub", made)
    equal("status: only the status", (status["spec"]["area"], status["status"]["replicas"], status["metadata"]["generation"]), (5, 2, 1))
    equal("status: pruned", "odd" in status["status"], False)
    equal("status: read", objects.get_namespaced_custom_object_status(*sails.path, "sub")["status"], status["status"])
    status["status"] = {"replicas": 0}
    ignored = sails.replace(status)
    equal("status: not by the object", ignored["status"]["replicas"], 2)
    patched = objects.patch_namespaced_custom_object_status(
        *sails.path, "sub", {"status": {"observedGeneration": 1}}, _content_type=MERGE)
    equal("status: patched", (patched["status"]["observedGeneration"], patched["status"]["replicas"]), (1, 2))
    fails("status: invalid", 422, "Invalid", objects.patch_namespaced_custom_object_status, *sails.path, "sub",
          {"status": {"conditions": [{"type": "Ready"}]}}, _content_type=MERGE)
    scale = objects.get_namespaced_custom_object_scale(*sails.path, "sub")
    equal("scale: read", (scale["kind"], scale["apiVersion"], scale["spec"], scale["status"]),
          ("Scale", "autoscaling/v1", {"replicas": 3}, {"replicas": 2, "selector": "mast=sub"}))
    scale["spec"]["replicas"] = 4
    scaled = objects.replace_namespaced_custom_object_scale(*sails.path, "sub", scale)
    equal("scale: replaced", scaled["spec"], {"replicas": 4})
    fails("scale: stale", 409, "Conflict", objects.replace_namespaced_custom_object_scale, *sails.path, "sub", scale)
    scaled = objects.patch_namespaced_custom_object_scale(*sails.path, "sub", {"spec": {"replicas": 6}}, _content_type=MERGE)
    equal("scale: patched", scaled["spec"], {"replicas": 6})
    fails("scale: negative", 422, "Invalid", objects.patch_namespaced_custom_object_scale, *sails.path, "sub",
          {"spec": {"replicas": -1}}, _content_type=MERGE)
    read = sails.get("sub")
    equal("scale: object", (read["spec"]["replicas"], read["metadata"]["generation"]), (6, 3))
    fails("scale: no such", 404, "NotFound", objects.get_cluster_custom_object_scale, sails.group, "v1", "harbours", "x")
    sails.delete("sub")


def versions(sails):
    """A deprecated version warns, and shows the same objects."""
    old = (sails.group, "v1beta1", sails.namespace, "sails")
    body = sails.body("old", version="v1beta1", area=5, anything="lost")
    made, code, headers = sails.objects.create_namespaced_custom_object_with_http_info(*old, body)
    equal("old version: code", code, 201)
    equal("old version: warning", headers.get("Warning"), '299 - "v1beta1 sails are torn; take v1"')
    # What is stored has the fields and defaults of the stored version.
    equal("old version: answer", (made["apiVersion"], made["spec"]),
          (f"{sails.group}/v1beta1", {"area": 5, "colour": "white", "replicas": 1}))
    read = sails.get("old")
    equal("new version: pruned and defaulted", (read["apiVersion"], read["spec"]),
          (f"{sails.group}/v1", {"area": 5, "colour": "white", "replicas": 1}))
    equal("one object", read["metadata"]["uid"], made["metadata"]["uid"])
    unknown_path("version: not served", sails.objects.list_namespaced_custom_object,
          sails.group, "v1alpha1", sails.namespace, "sails")
    fails("version: of the path", 400, "BadRequest", sails.objects.create_namespaced_custom_object, *old, sails.body("x", area=1))
    sails.delete("old")


def deletes(sails):
    made = sails.create("held", area=1)
    made["metadata"]["finalizers"] = ["example.com/hold"]
    made = sails.replace(made)
    fails("delete: other uid", 409, "Conflict", sails.delete, "held",
          body=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="00000000-0000-0000-0000-000000000000")))
    going = sails.delete("held")
    check(going["metadata"].get("deletionTimestamp"), "delete: time")
    equal("delete: grace", going["metadata"].get("deletionGracePeriodSeconds"), 0)
    equal("delete: kind", going["kind"], "Sail")
    going["metadata"]["finalizers"] = []
    sails.replace(going)
    fails("delete: let go", 404, "NotFound", sails.get, "held")
    for policy, finalizer in (("Orphan", "orphan"), ("Foreground", "foregroundDeletion")):
        sails.create("policy", area=1)
        left = sails.delete("policy", propagation_policy=policy)
        equal(f"delete: {policy}", left["metadata"].get("finalizers"), [finalizer])
        sails.patch("policy", {"metadata": {"finalizers": None}}, _content_type=MERGE)
        fails(f"delete: after {policy}", 404, "NotFound", sails.get, "policy")
    fails("delete: missing", 404, "NotFound", sails.delete, "missing")


def watches(sails):
    begin = sails.list()["metadata"]["resourceVersion"]

    def life():
        made = sails.create("watched", {"life": "yes"}, area=1, colour="red")
        made["spec"]["area"] = 2
        sails.replace(made)
        sails.patch("watched", {"spec": {"colour": "white"}}, _content_type=MERGE)
        sails.delete("watched")

    def collect(count, **options):
        stream, seen = watch.Watch(), []
        for event in stream.stream(sails.objects.list_namespaced_custom_object, *sails.path,
                                   resource_version=begin, timeout_seconds=PATIENCE_SECONDS, **options):
            seen.append((event["type"], event["object"]["metadata"]["name"], event["object"]["spec"]["area"]))
            if len(seen) == count:
                stream.stop()
        return seen

    actor = threading.Thread(target=life)
    actor.start()
    equal("watch", collect(4, label_selector="life=yes"), [
        ("ADDED", "watched", 1), ("MODIFIED", "watched", 2), ("MODIFIED", "watched", 2), ("DELETED", "watched", 2)])
    actor.join()
    # To a watcher of red sails, one that turns white is gone.
    equal("watch: field selector", collect(3, field_selector="spec.colour=red"), [
        ("ADDED", "watched", 1), ("MODIFIED", "watched", 2), ("DELETED", "watched", 2)])


def cluster_objects(api, name):
    objects, group = client.CustomObjectsApi(api), f"{name}.example.com"
    body = {"apiVersion": f"{group}/v1", "kind": "Harbour", "metadata": {"name": name}, "depth": 12, "piers": [{"length": 1.5}]}
    made = objects.create_cluster_custom_object(group, "v1", "harbours", body)
    equal("cluster: unknown fields kept", (made["depth"], made["piers"]), (12, [{"length": 1.5}]))
    check("namespace" not in made["metadata"], "cluster: has a namespace")
    made["depth"] = 13
    equal("cluster: replace", objects.replace_cluster_custom_object(group, "v1", "harbours", name, made)["depth"], 13)
    patched = objects.patch_cluster_custom_object(group, "v1", "harbours", name, {"depth": 14}, _content_type=MERGE)
    equal("cluster: patch", (patched["depth"], patched["metadata"]["generation"]), (14, 3))
    listed = objects.list_cluster_custom_object(group, "v1", "harbours")
    equal("cluster: list", [item["metadata"]["name"] for item in listed["items"]], [name])
    unknown_path("cluster: in a namespace", objects.get_namespaced_custom_object, group, "v1", name, "harbours", name)
    objects.delete_cluster_custom_object(group, "v1", "harbours", name)
    fails("cluster: deleted", 404, "NotFound", objects.get_cluster_custom_object, group, "v1", "harbours", name)


def dynamic_client(api, name):
    group = f"{name}.example.com"
    for kind, discoverer in (("lazy", dynamic.LazyDiscoverer), ("eager", dynamic.EagerDiscoverer)):
        resources = dynamic.DynamicClient(api, discoverer=discoverer).resources
        sails = resources.get(api_version=f"{group}/v1", kind="Sail")
        equal(f"{kind}: names", (sails.name, sails.namespaced, sails.singular_name, sails.short_names),
              ("sails", True, "sail", ["sl", "cloth"]))
        equal(f"{kind}: subresources", sorted(sails.subresources), ["scale", "status"])
        equal(f"{kind}: preferred", resources.get(group=group, kind="Sail", preferred=True).api_version, "v1")
        equal(f"{kind}: by short name", resources.get(api_version=f"{group}/v1", short_names=["sl", "cloth"]).kind, "Sail")
        check(not resources.get(api_version=f"{group}/v1", kind="Harbour").namespaced, f"{kind}: harbours are namespaced")
        try:
            resources.get(api_version=f"{group}/v1", kind="Oar")
            check(False, f"{kind}: found what is not there")
        except ResourceNotFoundError:
            check(True, kind)
    body = {"apiVersion": f"{group}/v1", "kind": "Sail", "metadata": {"name": "dyn", "labels": {"dyn": "yes"}}, "spec": {"area": 3}}
    made = sails.create(body=body, namespace=name)
    equal("dynamic: create", made.spec.to_dict(), {"area": 3, "colour": "white", "replicas": 1})
    changed = made.to_dict()
    changed["spec"]["area"] = 4
    equal("dynamic: replace", sails.replace(body=changed, namespace=name).spec.area, 4)
    try:
        sails.replace(body=changed, namespace=name)
        check(False, "dynamic: a stale replace was taken")
    except ConflictError as problem:
        equal("dynamic: conflict", problem.status, 409)
    patched = sails.patch(name="dyn", namespace=name, body={"spec": {"marks": {"a": "b"}}}, content_type=MERGE)
    equal("dynamic: merge patch", patched.spec.marks.to_dict(), {"a": "b"})
    patched = sails.patch(name="dyn", namespace=name, body=[{"op": "remove", "path": "/spec/marks/a"}],
                          content_type="application/json-patch+json")
    equal("dynamic: JSON patch", patched.spec.marks.to_dict(), {})
    try:
        # What the client sends if it is told nothing.
        sails.patch(name="dyn", namespace=name, body={"spec": {"area": 5}})
        check(False, "dynamic: a strategic patch was taken")
    except ApiException as problem:
        equal("dynamic: strategic patch", problem.status, 415)
    applied = sails.server_side_apply({**body, "spec": {"tags": ["t"]}}, "dyn", name, field_manager="dyn")
    equal("dynamic: apply", (applied.spec.tags, applied.spec.area), (["t"], 4))
    listed = sails.get(namespace=name, label_selector="dyn=yes")
    equal("dynamic: list", (listed.kind, [item.metadata.name for item in listed.items]), ("SailList", ["dyn"]))
    # The package knows `status` of any resource as an attribute.
    shown = sails.status.patch(name="dyn", namespace=name, body={"status": {"replicas": 1}}, content_type=MERGE)
    equal("dynamic: status", shown.status.replicas, 1)
    scaled = sails.scale.patch(name="dyn", namespace=name, body={"spec": {"replicas": 2}}, content_type=MERGE)
    equal("dynamic: scale", (scaled.kind, scaled.spec.replicas, scaled.status.replicas), ("Scale", 2, 1))
    sails.delete(name="dyn", namespace=name)
    try:
        sails.get(name="dyn", namespace=name)
        check(False, "dynamic: deleted is still there")
    except NotFoundError as problem:
        equal("dynamic: not found", json.loads(problem.body)["message"], f'sails.{group} "dyn" not found')


def dynamic_watch(api, name):
    group = f"{name}.example.com"
    sails = dynamic.DynamicClient(api).resources.get(api_version=f"{group}/v1", kind="Sail")
    begin = sails.get(namespace=name).metadata.resourceVersion
    for number in range(3):
        sails.create(namespace=name, body={
            "apiVersion": f"{group}/v1", "kind": "Sail", "metadata": {"name": f"dynwatch-{number}"}, "spec": {"area": 1}})
    seen = []
    for event in sails.watch(namespace=name, resource_version=begin, timeout=PATIENCE_SECONDS):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 3:
            break
    equal("dynamic: watch", seen, [("ADDED", f"dynwatch-{number}") for number in range(3)])


def changed_definition(sails):
    extensions = client.ApiextensionsV1Api(sails.api)
    name = f"sails.{sails.group}"
    sails.create("early", area=5)
    changed = definition("sails-changed.yaml", sails.namespace)
    changed["metadata"]["resourceVersion"] = extensions.read_custom_resource_definition(name).metadata.resource_version
    replaced = extensions.replace_custom_resource_definition(name, changed)
    equal("changed: generation", replaced.metadata.generation, 2)
    eventually("changed: new version", lambda: served(sails, "v2"))
    eventually("changed: old version gone", lambda: not served(sails, "v1beta1"))

    def keeps_weight():
        body = sails.body("weighed", area=5, weight=7)
        made = sails.objects.create_namespaced_custom_object(*sails.path, body, dry_run="All")
        return made["spec"].get("weight") == 7

    eventually("changed: new field", keeps_weight)
    read = sails.objects.get_namespaced_custom_object(sails.group, "v2", sails.namespace, "sails", "early")
    equal("changed: the other schema prunes", (read["apiVersion"], read["spec"]), (f"{sails.group}/v2", {"area": 5}))
    made = sails.objects.create_namespaced_custom_object(
        sails.group, "v2", sails.namespace, "sails", sails.body("late", version="v2", area=6))
    equal("changed: the other schema defaults", made["spec"], {"area": 6, "shape": "triangle"})
    patched = extensions.patch_custom_resource_definition(name, {"metadata": {"labels": {"seen": "yes"}}})
    equal("changed: strategic patch of a definition", patched.metadata.labels.get("seen"), "yes")
    status = fails("changed: scope", 422, "Invalid", extensions.patch_custom_resource_definition, name, {"spec": {"scope": "Cluster"}})
    equal("changed: scope field", [c["field"] for c in status["details"]["causes"]], ["spec.scope"])


def remove_definitions(api, name):
    extensions, sails = client.ApiextensionsV1Api(api), Sails(api, name)
    for plural in "sails", "harbours":
        full = f"{plural}.{sails.group}"
        extensions.delete_custom_resource_definition(full)

        def gone():
            try:
                extensions.read_custom_resource_definition(full)
            except ApiException as problem:
                return problem.status == 404
            return False

        eventually(f"{plural}: definition gone", gone)
        eventually(f"{plural}: no longer served", lambda: not served(sails, "v1", plural))
    unknown_path("objects went with it", sails.list)


if __name__ == "__main__":
    main(sys.argv[1])
