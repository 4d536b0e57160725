#!/usr/bin/env python3
"""Suite python-objects: the `kubernetes` package writes, reads and watches.

    python_objects.py KUBECONFIG
"""

import json
import ssl
import sys
import threading

import websocket
from checks import check, equal, finish, part
from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError
from namespace import random_suffix

WATCH_SECONDS = 20
LISTED = 7


def main(kubeconfig):
    api = config.new_client_from_config(kubeconfig)
    core = client.CoreV1Api(api)
    name = "python-" + random_suffix(8)
    try:
        part(namespaces, core, name)
        part(config_maps, core, name)
        part(other_kinds, api, name)
        part(subresources, api, name)
        part(pages, core, name)
        part(selectors, core, name)
        part(errors, api, name)
        part(delete_options, api, name)
        part(watches, core, name)
        part(expired, core, name)
        part(websockets, api, name)
        part(changes, api, name)
        part(dynamic_client, api, name)
        part(dynamic_watch, api, name)
    finally:
        part(remove, core, name)
    finish()


def config_map(name, labels=None, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data or None)


def fails(what, code, reason, call, *arguments, **options):
    """The Status of a call that must fail, checked for its code and reason."""
    try:
        call(*arguments, **options)
    except ApiException as problem:
        status = json.loads(problem.body)
        equal(f"{what}: code", (problem.status, status.get("code")), (code, code))
        equal(f"{what}: kind", (status.get("kind"), status.get("apiVersion")), ("Status", "v1"))
        equal(f"{what}: status", (status.get("status"), status.get("reason")), ("Failure", reason))
        return status
    check(False, f"{what}: did not fail")
    return {}


def namespaces(core, name):
    made = core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    equal("namespace: phase", made.status.phase, "Active")
    equal("namespace: label", made.metadata.labels, {"kubernetes.io/metadata.name": name})
    check(name in [item.metadata.name for item in core.list_namespace().items], "namespace: listed")


def config_maps(core, name):
    made = core.create_namespaced_config_map(name, config_map("crud", a="1"))
    equal("create: data", made.data, {"a": "1"})
    check(made.metadata.uid and made.metadata.creation_timestamp, "create: uid and time")
    read = core.read_namespaced_config_map("crud", name)
    equal("read: same as made", read.metadata.resource_version, made.metadata.resource_version)
    read.data["b"] = "2"
    changed = core.replace_namespaced_config_map("crud", name, read)
    check(int(changed.metadata.resource_version) > int(made.metadata.resource_version), "replace: version grows")
    equal("replace: uid stays", changed.metadata.uid, made.metadata.uid)
    # The same content again is no write.
    same = core.replace_namespaced_config_map("crud", name, changed)
    equal("replace: nothing new", same.metadata.resource_version, changed.metadata.resource_version)
    fails("replace: stale", 409, "Conflict", core.replace_namespaced_config_map, "crud", name, made)
    changed.metadata.resource_version = None
    changed.data = {"c": "3"}
    blind = core.replace_namespaced_config_map("crud", name, changed)
    equal("replace: unconditional", blind.data, {"c": "3"})
    core.create_namespaced_config_map(name, config_map("dry", a="1"), dry_run="All")
    fails("dry run leaves nothing", 404, "NotFound", core.read_namespaced_config_map, "dry", name)
    named = core.create_namespaced_config_map(name, client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="gen-")))
    check(named.metadata.name.startswith("gen-") and len(named.metadata.name) == 9, f"generated {named.metadata.name}")
    # The generated method leaves a Status that has details as a dictionary.
    status = core.delete_namespaced_config_map("crud", name)
    equal("delete: answer", (status["kind"], status["status"]), ("Status", "Success"))
    equal("delete: details", status["details"], {"name": "crud", "kind": "configmaps", "uid": made.metadata.uid})
    fails("read: deleted", 404, "NotFound", core.read_namespaced_config_map, "crud", name)


def changes(api, name):
    """Every kind of patch, and apply with its conflicts."""
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(name, config_map("changes", a="1"))
    patched = core.patch_namespaced_config_map("changes", name, {"data": {"b": "2"}})
    equal("patch: strategic", patched.data, {"a": "1", "b": "2"})
    patched = core.patch_namespaced_config_map("changes", name, [{"op": "remove", "path": "/data/a"}])
    equal("patch: JSON", patched.data, {"b": "2"})
    maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    merged = maps.patch({"data": {"c": "3"}}, "changes", name, content_type="application/merge-patch+json")
    equal("patch: merge", merged.data.to_dict(), {"b": "2", "c": "3"})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    made = maps.server_side_apply(body, "applied", name, field_manager="one")
    again = maps.server_side_apply(body, "applied", name, field_manager="one")
    equal("apply: again", again.metadata.resourceVersion, made.metadata.resourceVersion)
    body["data"]["a"] = "2"
    try:
        maps.server_side_apply(body, "applied", name, field_manager="two")
        check(False, "apply: no conflict")
    except ConflictError as error:
        check("conflict with" in str(error.body), f"apply: {error.body}")
    forced = maps.server_side_apply(body, "applied", name, field_manager="two", force_conflicts=True)
    equal("apply: force", forced.data.a, "2")


def other_kinds(api, name):
    """Create, read, list and delete of kinds from several groups."""
    labels = {"app": "web"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")]),
    )
    selector = client.V1LabelSelector(match_labels=labels)
    meta = client.V1ObjectMeta(name="one")
    apps, core, batch = client.AppsV1Api(api), client.CoreV1Api(api), client.BatchV1Api(api)
    job_template = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=template.spec.containers, restart_policy="Never"))
    cases = [
        (apps, "deployment", client.V1Deployment(metadata=meta, spec=client.V1DeploymentSpec(selector=selector, template=template))),
        (apps, "replica_set", client.V1ReplicaSet(metadata=meta, spec=client.V1ReplicaSetSpec(selector=selector, template=template))),
        (apps, "daemon_set", client.V1DaemonSet(metadata=meta, spec=client.V1DaemonSetSpec(selector=selector, template=template))),
        (apps, "stateful_set", client.V1StatefulSet(metadata=meta, spec=client.V1StatefulSetSpec(selector=selector, template=template, service_name="s"))),
        (batch, "job", client.V1Job(metadata=meta, spec=client.V1JobSpec(template=job_template))),
        (core, "secret", client.V1Secret(metadata=meta, string_data={"a": "b"})),
        (core, "service_account", client.V1ServiceAccount(metadata=meta)),
        (core, "service", client.V1Service(metadata=meta, spec=client.V1ServiceSpec(selector=labels, ports=[client.V1ServicePort(port=80)]))),
        (client.NetworkingV1Api(api), "network_policy", client.V1NetworkPolicy(metadata=meta, spec=client.V1NetworkPolicySpec(pod_selector=selector))),
        (client.RbacAuthorizationV1Api(api), "role", client.V1Role(metadata=meta, rules=[client.V1PolicyRule(verbs=["get"], api_groups=[""], resources=["pods"])])),
        (client.PolicyV1Api(api), "pod_disruption_budget", client.V1PodDisruptionBudget(metadata=meta, spec=client.V1PodDisruptionBudgetSpec(min_available="50%", selector=selector))),
        (client.CoordinationV1Api(api), "lease", client.V1Lease(metadata=meta, spec=client.V1LeaseSpec(holder_identity="me"))),
    ]
    for group, kind, body in cases:
        made = getattr(group, f"create_namespaced_{kind}")(name, body)
        read = getattr(group, f"read_namespaced_{kind}")("one", name)
        equal(f"{kind}: read what was made", read.to_dict(), made.to_dict())
        listed = getattr(group, f"list_namespaced_{kind}")(name).items
        check(read.metadata.uid in [item.metadata.uid for item in listed], f"{kind}: listed")
        made.metadata.annotations = {"example.com/changed": "yes"}
        changed = getattr(group, f"replace_namespaced_{kind}")("one", name, made)
        equal(f"{kind}: replaced", changed.metadata.annotations.get("example.com/changed"), "yes")
        everywhere = getattr(group, f"list_{kind}_for_all_namespaces")(field_selector=f"metadata.namespace={name}").items
        check(read.metadata.uid in [item.metadata.uid for item in everywhere], f"{kind}: listed everywhere")
        getattr(group, f"delete_namespaced_{kind}")("one", name, propagation_policy="Background")
        fails(f"{kind}: deleted", 404, "NotFound", getattr(group, f"read_namespaced_{kind}"), "one", name)
    equal("secret: stringData", core.create_namespaced_secret(name, client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"a": "b"})).data, {"a": "Yg=="})


def subresources(api, name):
    apps = client.AppsV1Api(api)
    labels = {"app": "sub"}
    body = client.V1Deployment(
        metadata=client.V1ObjectMeta(name="sub"),
        spec=client.V1DeploymentSpec(
            replicas=3,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels),
                spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")]),
            ),
        ),
    )
    made = apps.create_namespaced_deployment(name, body)
    equal("generation: new", made.metadata.generation, 1)
    made.status = client.V1DeploymentStatus(replicas=3, observed_generation=1)
    made.spec.replicas = 9
    status = apps.replace_namespaced_deployment_status("sub", name, made)
    equal("status: only the status", (status.status.replicas, status.spec.replicas, status.metadata.generation), (3, 3, 1))
    scale = apps.read_namespaced_deployment_scale("sub", name)
    equal("scale: read", (scale.spec.replicas, scale.status.replicas, scale.status.selector), (3, 3, "app=sub"))
    scale.spec.replicas = 5
    equal("scale: replace", apps.replace_namespaced_deployment_scale("sub", name, scale).spec.replicas, 5)
    read = apps.read_namespaced_deployment("sub", name)
    equal("scale: changed the deployment", (read.spec.replicas, read.status.replicas, read.metadata.generation), (5, 3, 2))
    apps.delete_namespaced_deployment("sub", name)


def pages(core, name):
    for number in range(LISTED):
        core.create_namespaced_config_map(name, config_map(f"page-{number}", labels={"paged": "yes"}))
    chosen = {"label_selector": "paged=yes"}
    whole = core.list_namespaced_config_map(name, **chosen)
    names = [item.metadata.name for item in whole.items]
    equal("list: sorted by name", names, [f"page-{number}" for number in range(LISTED)])
    seen, token, remaining, versions = [], None, [], set()
    while True:
        page = core.list_namespaced_config_map(name, limit=3, _continue=token)
        seen += [item.metadata.name for item in page.items]
        remaining.append(page.metadata.remaining_item_count)
        versions.add(page.metadata.resource_version)
        token = page.metadata._continue
        if not token:
            break
    check(set(names) <= set(seen) and len(seen) == len(set(seen)), f"pages: {seen}")
    equal("pages: one snapshot", len(versions), 1)
    check(remaining[-1] is None and remaining[0] == len(seen) - 3, f"pages: remaining {remaining}")
    page = core.list_namespaced_config_map(name, limit=3, **chosen)
    equal("pages with a selector count nothing", page.metadata.remaining_item_count, None)
    # What changes between two pages is not seen by the second.
    page = core.list_namespaced_config_map(name, limit=1)
    core.create_namespaced_config_map(name, config_map("page-late"))
    rest = core.list_namespaced_config_map(name, limit=500, _continue=page.metadata._continue)
    check("page-late" not in [item.metadata.name for item in rest.items], "pages: a later object is seen")
    fails("pages: bad token", 400, "BadRequest", core.list_namespaced_config_map, name, limit=1, _continue="nonsense")
    exact = core.list_namespaced_config_map(
        name, resource_version=whole.metadata.resource_version, resource_version_match="Exact", **chosen)
    equal("list: exact version", [item.metadata.name for item in exact.items], names)
    newer = core.list_namespaced_config_map(
        name, resource_version="0", resource_version_match="NotOlderThan", **chosen)
    equal("list: not older than 0", len(newer.items), LISTED)
    fails("list: match without version", 422, "Invalid", core.list_namespaced_config_map, name, resource_version_match="Exact")


def selectors(core, name):
    for colour, size in (("red", "s"), ("red", "l"), ("blue", "s")):
        core.create_namespaced_config_map(name, config_map(f"{colour}-{size}", labels={"colour": colour, "size": size}))

    def found(**options):
        return [item.metadata.name for item in core.list_namespaced_config_map(name, **options).items]

    equal("selector: equals", found(label_selector="colour=red"), ["red-l", "red-s"])
    equal("selector: in", found(label_selector="colour in (red, blue), size=s"), ["blue-s", "red-s"])
    equal("selector: not", found(label_selector="colour,size!=s"), ["red-l"])
    equal("selector: name", found(field_selector="metadata.name=red-s"), ["red-s"])
    fails("selector: syntax", 400, "BadRequest", core.list_namespaced_config_map, name, label_selector="a in")
    fails("selector: unknown field", 400, "BadRequest", core.list_namespaced_config_map, name, field_selector="data.a=b")


def errors(api, name):
    core = client.CoreV1Api(api)
    status = fails("error: not found", 404, "NotFound", core.read_namespaced_config_map, "missing", name)
    equal("error: not found text", status.get("message"), 'configmaps "missing" not found')
    equal("error: not found details", status.get("details"), {"name": "missing", "kind": "configmaps"})
    core.create_namespaced_config_map(name, config_map("twice"))
    status = fails("error: exists", 409, "AlreadyExists", core.create_namespaced_config_map, name, config_map("twice"))
    equal("error: exists text", status.get("message"), 'configmaps "twice" already exists')
    status = fails("error: invalid", 422, "Invalid", core.create_namespaced_config_map, name, config_map("Bad_Name", **{"a b": "c"}))
    equal("error: causes", [(c["reason"], c["field"]) for c in status.get("details", {}).get("causes", [])],
          [("FieldValueInvalid", "metadata.name"), ("FieldValueInvalid", "data[a b]")])
    other = config_map("twice")
    other.metadata.namespace = "default"
    status = fails("error: other namespace", 400, "BadRequest", core.create_namespaced_config_map, name, other)
    equal("error: other namespace text", status.get("message"), "the namespace of the provided object does not match the namespace sent on the request")
    status = fails("error: other name", 400, "BadRequest", core.replace_namespaced_config_map, "other", name, config_map("twice"))
    equal("error: other name text", status.get("message"), "the name of the object (twice) does not match the name on the URL (other)")
    fails("error: missing namespace", 404, "NotFound", core.create_namespaced_config_map, name + "-missing", config_map("a"))
    fails("error: replace missing", 404, "NotFound", core.replace_namespaced_config_map, "missing", name, config_map("missing"))
    # The generated classes refuse such bodies themselves; the dynamic client sends them.
    raw = dynamic.DynamicClient(api)
    path = f"/api/v1/namespaces/{name}/configmaps"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    fails("error: wrong kind", 400, "BadRequest", raw.request, "post", path, body=body)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dada": {}}
    fails("error: unknown field", 400, "BadRequest", raw.request, "post", path, body=body,
          query_params=[("fieldValidation", "Strict")])
    fails("error: bad dry run", 422, "Invalid", core.create_namespaced_config_map, name, config_map("a"), dry_run="Some")
    try:
        core.list_namespaced_config_map(name, limit=-1)
    except ApiException as problem:
        check(False, f"error: negative limit: {problem.status}")


def delete_options(api, name):
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    made = core.create_namespaced_config_map(name, config_map("careful"))
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="00000000-0000-0000-0000-000000000000"))
    fails("delete: other uid", 409, "Conflict", core.delete_namespaced_config_map, "careful", name, body=wrong)
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(resource_version="1"))
    fails("delete: other version", 409, "Conflict", core.delete_namespaced_config_map, "careful", name, body=wrong)
    core.delete_namespaced_config_map("careful", name, dry_run="All")
    right = client.V1DeleteOptions(preconditions=client.V1Preconditions(
        uid=made.metadata.uid, resource_version=made.metadata.resource_version))
    core.delete_namespaced_config_map("careful", name, body=right)
    fails("delete: preconditions", 404, "NotFound", core.read_namespaced_config_map, "careful", name)
    fails("delete: bad policy", 422, "Invalid", core.delete_namespaced_config_map, "twice", name, propagation_policy="Sideways")

    held = config_map("held")
    held.metadata.finalizers = ["example.com/hold"]
    core.create_namespaced_config_map(name, held)
    core.delete_namespaced_config_map("held", name)
    held = core.read_namespaced_config_map("held", name)
    check(held.metadata.deletion_timestamp, "delete: finalizer holds")
    equal("delete: grace of a held one", held.metadata.deletion_grace_period_seconds, 0)
    held.metadata.finalizers = None
    core.replace_namespaced_config_map("held", name, held)
    fails("delete: last finalizer", 404, "NotFound", core.read_namespaced_config_map, "held", name)

    labels = {"app": "policy"}
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        template = client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels=labels),
            spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")]))
        apps.create_namespaced_replica_set(name, client.V1ReplicaSet(
            metadata=client.V1ObjectMeta(name="policy"),
            spec=client.V1ReplicaSetSpec(selector=client.V1LabelSelector(match_labels=labels), template=template)))
        apps.delete_namespaced_replica_set("policy", name, propagation_policy=policy)
        left = apps.read_namespaced_replica_set("policy", name)
        equal(f"delete: {policy}", left.metadata.finalizers, [finalizer])
        left.metadata.finalizers = None
        apps.replace_namespaced_replica_set("policy", name, left)
        fails(f"delete: {policy} done", 404, "NotFound", apps.read_namespaced_replica_set, "policy", name)

    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="graceful"), spec=client.V1PodSpec(
        node_name="somewhere", containers=[client.V1Container(name="c", image="nginx")]))
    core.create_namespaced_pod(name, pod)
    left = core.delete_namespaced_pod("graceful", name, grace_period_seconds=7)
    equal("delete: graceful pod", left.metadata.deletion_grace_period_seconds, 7)
    core.delete_namespaced_pod("graceful", name, grace_period_seconds=0)
    fails("delete: pod at once", 404, "NotFound", core.read_namespaced_pod, "graceful", name)

    answer = core.delete_collection_namespaced_config_map(name, label_selector="colour=red")
    check(answer is not None, "delete collection: answer")
    left = [item.metadata.name for item in core.list_namespaced_config_map(name, label_selector="colour").items]
    equal("delete collection: selected only", left, ["blue-s"])


def watches(core, name):
    """From a list on: added, modified, deleted; then resumed in the middle."""
    chosen = {"label_selector": "watched=yes"}
    begin = core.list_namespaced_config_map(name, **chosen).metadata.resource_version
    labels = {"watched": "yes"}

    def write():
        made = core.create_namespaced_config_map(name, config_map("seen", labels=labels, a="1"))
        core.create_namespaced_config_map(name, config_map("unseen", a="1"))
        made.data = {"a": "2"}
        made = core.replace_namespaced_config_map("seen", name, made)
        made.metadata.labels = {"watched": "no"}
        made = core.replace_namespaced_config_map("seen", name, made)
        made.metadata.labels = labels
        core.replace_namespaced_config_map("seen", name, made)
        core.delete_namespaced_config_map("seen", name)

    writer = threading.Thread(target=write)
    writer.start()
    seen = collect(core, name, 5, resource_version=begin, **chosen)
    writer.join()
    equal("watch: events", [(kind, item.metadata.name) for kind, item in seen],
          [(kind, "seen") for kind in ("ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED")])
    versions = [int(item.metadata.resource_version) for _, item in seen]
    check(versions == sorted(set(versions)), f"watch: versions grow: {versions}")
    # As long as the first label was there, its last state is what a leaver shows.
    equal("watch: state of a leaver", seen[2][1].metadata.labels if len(seen) > 2 else None, labels)
    if len(seen) == 5:
        again = collect(core, name, 3, resource_version=seen[1][1].metadata.resource_version, **chosen)
        equal("watch: resumed", [kind for kind, _ in again], ["DELETED", "ADDED", "DELETED"])
        equal("watch: resumed versions", [int(i.metadata.resource_version) for _, i in again], versions[2:])
    core.create_namespaced_config_map(name, config_map("initial", labels=labels))
    first = collect(core, name, 1, **chosen)
    equal("watch: without a version it starts with what there is", [(k, i.metadata.name) for k, i in first], [("ADDED", "initial")])
    bookmarked = []
    for event in watch.Watch().stream(core.list_namespaced_config_map, name, send_initial_events=True, allow_watch_bookmarks=True,
                                      resource_version_match="NotOlderThan", timeout_seconds=WATCH_SECONDS, **chosen):
        bookmarked.append((event["type"], event["raw_object"]["metadata"].get("annotations")))
        if event["type"] == "BOOKMARK":
            break
    equal("watch: initial events end with a bookmark", bookmarked,
          [("ADDED", None), ("BOOKMARK", {"k8s.io/initial-events-end": "true"})])
    silent = list(watch.Watch().stream(core.list_namespaced_config_map, name, label_selector="watched=never", timeout_seconds=1))
    equal("watch: its time is over", silent, [])


def collect(core, name, count, **options):
    stream, seen = watch.Watch(), []
    for event in stream.stream(core.list_namespaced_config_map, name, timeout_seconds=WATCH_SECONDS, **options):
        seen.append((event["type"], event["object"]))
        if len(seen) == count:
            stream.stop()
    return seen


def expired(core, name):
    """A version that is not there yet is refused at once or after a moment, but never served."""
    status = fails("list: far future", 504, "Timeout", core.list_namespaced_config_map, name, resource_version="999999999")
    causes = [(c.get("reason"), c.get("message")) for c in status.get("details", {}).get("causes", [])]
    check(("ResourceVersionTooLarge", "Too large resource version") in causes, f"list: far future causes {causes}")
    fails("list: no version", 400, "BadRequest", core.list_namespaced_config_map, name, resource_version="abc")


def websockets(api, name):
    """The package's own websocket library, on a watch."""
    settings = api.configuration
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(name, config_map("socket"))
    url = settings.host.replace("https://", "wss://")
    socket = websocket.create_connection(
        f"{url}/api/v1/namespaces/{name}/configmaps?watch=1&fieldSelector=metadata.name%3Dsocket&timeoutSeconds=5",
        origin="http://example.com",
        header=["authorization: " + settings.auth_settings()["BearerToken"]["value"]],
        sslopt={"ca_certs": settings.ssl_ca_cert} if settings.verify_ssl else {"cert_reqs": ssl.CERT_NONE},
        timeout=WATCH_SECONDS,
    )
    first = json.loads(socket.recv())
    equal("websocket: first event", (first["type"], first["object"]["metadata"]["name"]), ("ADDED", "socket"))
    core.delete_namespaced_config_map("socket", name)
    equal("websocket: second event", json.loads(socket.recv())["type"], "DELETED")
    opcode, data = socket.recv_data()
    equal("websocket: end", (opcode, data), (websocket.ABNF.OPCODE_CLOSE, b"\x03\xe8"))
    socket.close()


def dynamic_client(api, name):
    resources = dynamic.DynamicClient(api).resources
    maps = resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dyn", "labels": {"dyn": "yes"}}, "data": {"a": "1"}}
    made = maps.create(body=body, namespace=name)
    equal("dynamic: create", made.data.to_dict(), {"a": "1"})
    body["data"] = {"a": "2"}
    equal("dynamic: replace", maps.replace(body=body, namespace=name).data.a, "2")
    body["metadata"]["resourceVersion"] = made.metadata.resourceVersion
    try:
        maps.replace(body=body, namespace=name)
        check(False, "dynamic: a stale replace was taken")
    except ConflictError as problem:
        equal("dynamic: conflict", problem.status, 409)
    equal("dynamic: get", maps.get(name="dyn", namespace=name).metadata.uid, made.metadata.uid)
    listed = maps.get(namespace=name, label_selector="dyn=yes")
    equal("dynamic: list", (listed.kind, [item.metadata.name for item in listed.items]), ("ConfigMapList", ["dyn"]))
    maps.delete(name="dyn", namespace=name)
    try:
        maps.get(name="dyn", namespace=name)
        check(False, "dynamic: deleted is still there")
    except NotFoundError as problem:
        equal("dynamic: not found", json.loads(problem.body)["message"], 'configmaps "dyn" not found')
    leases = resources.get(api_version="coordination.k8s.io/v1", kind="Lease")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "dyn"},
             "spec": {"holderIdentity": "me", "acquireTime": "2024-01-02T03:04:05.678901Z"}}
    equal("dynamic: micro time", leases.create(body=lease, namespace=name).spec.acquireTime, "2024-01-02T03:04:05.678901Z")
    leases.delete(name="dyn", namespace=name)


def dynamic_watch(api, name):
    maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    begin = maps.get(namespace=name).metadata.resourceVersion
    for number in range(3):
        maps.create(namespace=name, body={
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"dynwatch-{number}"}})
    seen = []
    for event in maps.watch(namespace=name, resource_version=begin, timeout=WATCH_SECONDS):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 3:
            break
    equal("dynamic: watch", seen, [("ADDED", f"dynwatch-{number}") for number in range(3)])


def remove(core, name):
    """Leaves nothing, even on a server that runs no namespace controller."""
    for kind in "config_map", "secret", "pod", "service_account":
        getattr(core, f"delete_collection_namespaced_{kind}")(name)
    core.delete_namespace(name)
    namespace = core.read_namespace(name)
    equal("namespace: terminating", namespace.status.phase, "Terminating")
    fails("namespace: nothing new", 403, "Forbidden", core.create_namespaced_config_map, name, config_map("late"))
    namespace.spec.finalizers = []
    core.replace_namespace_finalize(name, namespace)
    fails("namespace: gone", 404, "NotFound", core.read_namespace, name)


if __name__ == "__main__":
    main(sys.argv[1])
