#!/usr/bin/env python3
"""Records what a real kube-apiserver 1.36 answers to custom resource definitions and custom objects.

    SERVER=https://127.0.0.1:6443 TOKEN=... ./record.py [--check] definitions|objects|names|rule-definitions|rule-objects

Writes the .jsonl files beside this script, or with --check compares them. Definitions are only tried (dryRun) except where the
server must know them; what is created stands in groups under `sternpost.example` and is deleted.
"""
import copy, http.client, json, os, re, ssl, sys, time, urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../../../tests"))
import recording

CHECK = "--check" in sys.argv
URL = urllib.parse.urlparse(os.environ.get("SERVER", "https://127.0.0.1:6443"))
TOKEN = os.environ.get("TOKEN", "")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
conn = None


def call(method, path, body=None, accept="application/json", ctype="application/json"):
    global conn
    for attempt in range(3):
        try:
            if conn is None:
                conn = http.client.HTTPSConnection(URL.hostname, URL.port, context=ssl._create_unverified_context(), timeout=60)
            data = body if isinstance(body, (str, type(None))) else json.dumps(body)
            conn.request(method, path, data.encode() if data is not None else None,
                         {"Authorization": "Bearer " + TOKEN, "Accept": accept, "Content-Type": ctype})
            answer = conn.getresponse()
            text = answer.read().decode()
            warnings = [w[len('299 - "'):-1].replace('\\"', '"').replace("\\\\", "\\") for k, w in answer.getheaders() if k.lower() == "warning"]
            return answer.status, json.loads(text), warnings
        except (http.client.HTTPException, OSError):
            conn = None
            if attempt == 2:
                raise


def outcome(case, code, answer, warnings, keep):
    case["code"] = code
    if warnings:
        case["warnings"] = warnings
    if code < 300:
        case["result"] = keep(answer)
    else:
        case["message"] = answer["message"]
        case["causes"] = answer.get("details", {}).get("causes", [])
    return case


def comparable(case):
    """A case without times, ids and random endings. Upstream walks fields in no order; what stands at one field has one."""
    text = re.sub(r'"(lastTransitionTime|creationTimestamp|uid|resourceVersion|now)": ("[^"]*"|\d+)', r'"\1": 0', json.dumps(case))
    case = json.loads(re.sub(r"\bBad_[a-z0-9]{5}\b", "Bad_RANDOM", text))
    if case.get("causes"):
        case["causes"].sort(key=lambda cause: (cause["field"].split(".x-kubernetes-validations")[0], cause["field"] == "<nil>" and cause["message"]))
        # The message repeats the causes in their order.
        case["message"] = sorted(re.split(", | is invalid: ", re.sub(r"[\[\]]", "", case.get("message", ""))))
    if "warnings" in case:
        case["warnings"].sort(key=lambda text: text.split(": ")[0])
    for definition in (case.get("old"), case.get("input"), case.get("result")):
        # By several controllers, whichever is first.
        if isinstance(definition, dict) and (definition.get("status") or {}).get("conditions"):
            definition["status"]["conditions"].sort(key=lambda condition: condition["type"])
    for other in case.get("others", []):
        # Two wait for the same name, and either gets it when it is free.
        other.pop("status")
    if case.get("op") == "table":
        is_age = lambda cell, column: column["type"] == "date" and re.fullmatch(r"(\d+[ydhms])+", cell or "")
        result = case["result"]
        result["cells"] = ["age" if is_age(*each) else each[0] for each in zip(result["cells"], result["columns"])]
    return case


def write(name, cases):
    failed.append(recording.settle(os.path.join(HERE, name), cases, CHECK, comparable))


def write_document(name, value, **form):
    """What the cases of another file refer to."""
    path, text = os.path.join(HERE, name), json.dumps(value, sort_keys=True, **form)
    failed.append(open(path).read() != text)
    print("%s: %s" % (name, "differs" if failed[-1] else "the same"))
    if not CHECK:
        with open(path, "w") as out:
            out.write(text)


failed = []


def merge(target, patch):
    """A merge patch; `...` removes."""
    for key, value in patch.items():
        if value is ...:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
    return target


def definition(group="g.sternpost.example", plural="widgets", kind="Widget", schema=None, **spec):
    base = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": plural + "." + group},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                 "versions": [{"name": "v1", "served": True, "storage": True,
                               "schema": {"openAPIV3Schema": schema if schema is not None else {"type": "object"}}}]},
    }
    merge(base["spec"], spec)
    return base


STR, INT, NUM, BOOL, OBJ = ({"type": t} for t in ("string", "integer", "number", "boolean", "object"))


def obj(**properties):
    return {"type": "object", "properties": properties}


def arr(items, **more):
    return {"type": "array", "items": items, **more}


def under_spec(schema):
    return obj(spec=schema)


def version(name="v1", served=True, storage=False, schema=None, **more):
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema or {"type": "object"}}, **more}


def xkey(**more):
    return {k.replace("x_", "x-kubernetes-").replace("_", "-"): v for k, v in more.items()}


# ---------------------------------------------------------------------------------------------- definitions

def all_nodes(schema, found):
    found.append(schema)
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            all_nodes(schema[key], found)
    for child in [*schema.get("properties", {}).values(), *schema.get("anyOf", []), *schema.get("allOf", []), *schema.get("oneOf", [])]:
        all_nodes(child, found)
    return found


MUTATIONS = [
    ("type", "string"), ("type", "array"), ("type", "object"), ("type", ""), ("type", "null"), ("nullable", True), ("default", "x"), ("default", {}), ("default", {"a": 1}), ("default", [1]), ("default", 3), ("description", "d"),
    ("format", "date"), ("format", "zz"), ("items", {}), ("items", {"type": "string"}), ("properties", {"a": {"type": "string"}}), ("properties", {"q": {}}), ("additionalProperties", True), ("additionalProperties", False), ("additionalProperties", {"type": "integer"}),
    ("required", ["a", "zz"]), ("enum", ["a", 1]), ("pattern", "("), ("pattern", "^a"), ("uniqueItems", True), ("$ref", "x"), ("anyOf", [{"type": "string"}]), ("anyOf", [{"properties": {"zz": {"type": "string"}}}]), ("oneOf", [{"required": ["a"]}, {"minimum": 1}]), ("allOf", [{"default": 1}]), ("not", {"required": ["b"]}),
    ("x-kubernetes-preserve-unknown-fields", True), ("x-kubernetes-preserve-unknown-fields", False), ("x-kubernetes-embedded-resource", True), ("x-kubernetes-int-or-string", True), ("x-kubernetes-list-type", "set"), ("x-kubernetes-list-type", "map"), ("x-kubernetes-list-type", "atomic"), ("x-kubernetes-list-map-keys", ["a"]), ("x-kubernetes-map-type", "atomic"),
]


def definition_cases():
    cases = []

    def case(name, crd, **more):
        cases.append({"name": name, "op": "create", "input": crd, **more})

    def spec(name, schema):
        case(name, definition(schema=under_spec(schema)))

    def root(name, schema, **more):
        case(name, definition(schema=schema, **more))

    def patched(name, patch, **more):
        case(name, merge(definition(**more), patch))

    # names, group, scope
    case("minimal", definition())
    patched("full names", {"spec": {"names": {"singular": "widget", "listKind": "WidgetList", "shortNames": ["wd"], "categories": ["all"]}}})
    patched("name is not plural.group", {"metadata": {"name": "other.g.sternpost.example"}})
    patched("name is no subdomain", {"metadata": {"name": "Widgets.g.sternpost.example"}})
    patched("no name", {"metadata": {"name": ...}})
    for group in ["", "nodot", "Upper.example", "a..b", "-a.b", "a" * 250 + ".example"]:
        case(f"group {group[:20]!r}", definition(group=group))
    for scope in ["", "Other", "Cluster", "namespaced"]:
        patched(f"scope {scope!r}", {"spec": {"scope": scope}})
    patched("no scope", {"spec": {"scope": ...}})
    patched("no names", {"spec": {"names": ...}})
    patched("plural empty", {"spec": {"names": {"plural": ""}}})
    patched("kind empty", {"spec": {"names": {"kind": ""}}})
    case("plural upper", definition(plural="Widgets"))
    case("plural starts with digit", definition(plural="1widgets"))
    case("plural long", definition(plural="w" * 64))
    patched("singular bad", {"spec": {"names": {"singular": "Bad_One"}}})
    patched("kind bad", {"spec": {"names": {"kind": "Bad_Kind"}}})
    patched("kind with digit first", {"spec": {"names": {"kind": "1Kind"}}})
    patched("kind long", {"spec": {"names": {"kind": "K" * 64}}})
    patched("listKind bad", {"spec": {"names": {"listKind": "Bad_List"}}})
    patched("listKind equals kind", {"spec": {"names": {"listKind": "Widget"}}})
    patched("listKind equals kind lower", {"spec": {"names": {"listKind": "widget"}}})
    patched("shortNames bad", {"spec": {"names": {"shortNames": ["ok", "Bad", "", "also_bad"]}}})
    patched("categories bad", {"spec": {"names": {"categories": ["ok", "Bad", ""]}}})
    patched("duplicate shortNames", {"spec": {"names": {"shortNames": ["a", "a"]}}})
    patched("everything wrong with names", {"spec": {"scope": "", "names": {"plural": "A_", "singular": "B_", "kind": "C_", "listKind": "C_", "shortNames": ["D_"], "categories": ["E_"]}}})
    for group in ["x.k8s.io", "x.kubernetes.io", "k8s.io", "notk8s.io"]:
        case(f"protected group {group}", definition(group=group))
    for note in ["", "unapproved, legacy", "https://github.com/a/b/pull/1", "no url", "unapproved", "ftp://x", "http://", "%zz"]:
        patched(f"approval {note!r}", {"metadata": {"annotations": {"api-approved.kubernetes.io": note}}}, group="y.k8s.io")
    patched("bad label", {"metadata": {"labels": {"a b": "c"}}})

    # versions
    patched("no versions", {"spec": {"versions": []}})
    patched("versions missing", {"spec": {"versions": ...}})
    for name in ["", "V1", "1v", "v1.0", "v1alpha1", "v" * 64, "anything"]:
        patched(f"version name {name[:10]!r}", {"spec": {"versions": [version(name, storage=True)]}})
    patched("two versions", {"spec": {"versions": [version("v1"), version("v2", storage=True)]}})
    patched("no storage version", {"spec": {"versions": [version("v1"), version("v2")]}})
    patched("two storage versions", {"spec": {"versions": [version("v1", storage=True), version("v2", storage=True)]}})
    patched("repeated version", {"spec": {"versions": [version("v1", storage=True), version("v1")]}})
    patched("unserved storage version", {"spec": {"versions": [version("v1", served=False, storage=True)]}})
    patched("no schema", {"spec": {"versions": [{"name": "v1", "served": True, "storage": True}]}})
    patched("empty schema struct", {"spec": {"versions": [{"name": "v1", "served": True, "storage": True, "schema": {}}]}})
    patched("two versions, one without schema", {"spec": {"versions": [version("v1", storage=True), {"name": "v2", "served": True, "storage": False}]}})
    patched("two versions, both without schema", {"spec": {"versions": [{"name": "v1", "served": True, "storage": True}, {"name": "v2", "served": True, "storage": False}]}})
    patched("two versions with differing schemas", {"spec": {"versions": [version("v1", storage=True, schema=under_spec(STR)), version("v2", schema=under_spec(INT))]}})
    patched("two versions with an equal bad schema", {"spec": {"versions": [version("v1", storage=True, schema=under_spec({})), version("v2", schema=under_spec({}))]}})
    patched("two versions with differing bad schemas", {"spec": {"versions": [version("v1", storage=True, schema=under_spec({})), version("v2", schema=obj(other={}))]}})
    for label, value in [("empty", ""), ("long", "x" * 257), ("max", "x" * 256), ("newline", "a\nb"), ("ok", "use v2"), ("unicode", "é\u200b")]:
        patched(f"deprecation warning {label}", {"spec": {"versions": [version(storage=True, deprecated=True, deprecationWarning=value)]}})
    patched("deprecation warning without deprecated", {"spec": {"versions": [version(storage=True, deprecationWarning="x")]}})
    patched("deprecated only", {"spec": {"versions": [version(storage=True, deprecated=True)]}})

    # preserveUnknownFields
    patched("preserveUnknownFields true", {"spec": {"preserveUnknownFields": True}})
    patched("preserveUnknownFields false", {"spec": {"preserveUnknownFields": False}})
    root("preserveUnknownFields true with default", under_spec({"type": "string", "default": "x"}), preserveUnknownFields=True)

    # conversion
    hook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"}}
    for label, conversion in {
        "none": {"strategy": "None"},
        "empty strategy": {"strategy": ""},
        "unknown strategy": {"strategy": "Other"},
        "webhook": {"strategy": "Webhook", "webhook": hook},
        "webhook without config": {"strategy": "Webhook"},
        "webhook empty": {"strategy": "Webhook", "webhook": {}},
        "webhook without clientConfig": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
        "webhook with None": {"strategy": "None", "webhook": hook},
        "webhook versions with None": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
        "no review versions": {"strategy": "Webhook", "webhook": {"clientConfig": hook["clientConfig"]}},
        "unknown review versions": {"strategy": "Webhook", "webhook": {**hook, "conversionReviewVersions": ["v3"]}},
        "repeated review versions": {"strategy": "Webhook", "webhook": {**hook, "conversionReviewVersions": ["v1", "v1"]}},
        "bad review version": {"strategy": "Webhook", "webhook": {**hook, "conversionReviewVersions": ["v1", "V_1"]}},
        "both url and service": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"url": "https://a.b", "service": {"name": "s", "namespace": "n"}}}},
        "neither url nor service": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {}}},
        "http url": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"url": "http://a.b"}}},
        "url without host": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"url": "https:///x"}}},
        "url with user, fragment, query": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"url": "https://u@a.b/?q#f"}}},
        "service": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"service": {"name": "s", "namespace": "n"}}}},
        "service without name": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"service": {"name": "", "namespace": "n"}}}},
        "service without namespace": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"service": {"name": "s", "namespace": ""}}}},
        "service port": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 70000}}}},
        "service path": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "x"}}}},
        "service path bad": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/a//b/%20"}}}},
        "bad caBundle": {"strategy": "Webhook", "webhook": {**hook, "clientConfig": {"url": "https://a.b", "caBundle": "eHg="}}},
    }.items():
        patched(f"conversion {label}", {"spec": {"conversion": conversion}})
    patched("conversion webhook while preserving", {"spec": {"preserveUnknownFields": True, "conversion": {"strategy": "Webhook", "webhook": hook}}})

    # structure
    root("root without type", {})
    root("root of another type", {"type": "string"})
    root("root nullable", {"type": "object", "nullable": True})
    root("root additionalProperties", {"type": "object", "additionalProperties": STR})
    root("root additionalProperties false", {"type": "object", "additionalProperties": False})
    root("root additionalProperties true", {"type": "object", "additionalProperties": True})
    root("root preserves", {"type": "object", **xkey(x_preserve_unknown_fields=True)})
    root("root preserves without type", xkey(x_preserve_unknown_fields=True))
    root("root default", {"type": "object", "default": {}})
    root("root embedded resource", {"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True)})
    root("root allOf", {"type": "object", "allOf": [{"required": ["spec"]}], "properties": {"spec": OBJ}})
    for keyword, value in {
        "id": "x", "$ref": "#/definitions/x", "definitions": {"a": STR}, "dependencies": {"a": ["b"]}, "patternProperties": {"^a": STR},
        "additionalItems": True, "$schema": "x", "uniqueItems": True,
    }.items():
        spec(f"forbidden {keyword}", {"type": "object", keyword: value})
    spec("uniqueItems false", arr(STR, uniqueItems=False))
    spec("uniqueItems true on a list", arr(STR, uniqueItems=True))
    spec("additionalItems false", arr(STR, additionalItems=False))
    spec("dependencies schema", {"type": "object", "dependencies": {"a": STR}})
    spec("property without type", {"type": "object", "properties": {"a": {}, "b": {"description": "x"}}})
    spec("items without type", arr({}))
    spec("additionalProperties without type", {"type": "object", "additionalProperties": {}})
    spec("array without items", {"type": "array"})
    spec("array with empty tuple", {"type": "array", "items": []})
    spec("array with tuple", {"type": "array", "items": [STR, INT]})
    spec("type null", {"type": "null"})
    spec("type unknown", {"type": "strange"})
    spec("type unknown deeper", obj(a=arr({"type": "strange"})))
    spec("properties on a string", {"type": "string", "properties": {"a": STR}})
    spec("items on an object", {"type": "object", "items": STR})
    spec("properties and additionalProperties", {"type": "object", "properties": {"a": STR}, "additionalProperties": STR})
    spec("properties and additionalProperties false", {"type": "object", "properties": {"a": STR}, "additionalProperties": False})
    spec("properties and additionalProperties true", {"type": "object", "properties": {"a": STR}, "additionalProperties": True})
    spec("empty properties and additionalProperties", {"type": "object", "properties": {}, "additionalProperties": STR})
    spec("nullable everywhere", obj(a={"type": "string", "nullable": True}, b=arr({"type": "string", "nullable": True}, nullable=True)))
    spec("preserve false", {"type": "object", **xkey(x_preserve_unknown_fields=False)})
    spec("preserve on a string", {"type": "string", **xkey(x_preserve_unknown_fields=True)})
    spec("preserve without type", xkey(x_preserve_unknown_fields=True))
    spec("preserve on an array", arr(STR, **xkey(x_preserve_unknown_fields=True)))
    spec("int-or-string", xkey(x_int_or_string=True))
    spec("int-or-string with type", {"type": "string", **xkey(x_int_or_string=True)})
    spec("int-or-string with anyOf", {"anyOf": [INT, STR], **xkey(x_int_or_string=True)})
    spec("int-or-string with anyOf in other order", {"anyOf": [STR, INT], **xkey(x_int_or_string=True)})
    spec("int-or-string with allOf", {"allOf": [{"anyOf": [INT, STR]}, {"pattern": "^a"}], **xkey(x_int_or_string=True)})
    spec("int-or-string with allOf, anyOf second", {"allOf": [{"pattern": "^a"}, {"anyOf": [INT, STR]}], **xkey(x_int_or_string=True)})
    spec("int-or-string with preserve", xkey(x_int_or_string=True, x_preserve_unknown_fields=True))
    spec("anyOf types without int-or-string", {"type": "string", "anyOf": [INT, STR]})
    spec("embedded resource", {"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True)})
    spec("embedded resource with properties", {"type": "object", "properties": {"a": STR}, **xkey(x_embedded_resource=True)})
    spec("embedded resource bare", {"type": "object", **xkey(x_embedded_resource=True)})
    spec("embedded resource without type", xkey(x_embedded_resource=True, x_preserve_unknown_fields=True))
    spec("embedded resource of strings", {"type": "string", **xkey(x_embedded_resource=True)})
    spec("embedded resource with additionalProperties", {"type": "object", "additionalProperties": STR, **xkey(x_embedded_resource=True)})
    spec("embedded resource metadata", {"type": "object", "properties": {"metadata": obj(name=STR, labels=OBJ)}, **xkey(x_embedded_resource=True)})
    spec("embedded resource metadata ok", {"type": "object", "properties": {"metadata": obj(name={"type": "string", "pattern": "^a"})}, **xkey(x_embedded_resource=True)})
    spec("embedded resource kind type", {"type": "object", "properties": {"kind": INT, "apiVersion": OBJ}, **xkey(x_embedded_resource=True)})
    root("metadata of wrong type", obj(metadata=STR, kind=INT, apiVersion=BOOL))
    root("metadata name pattern", obj(metadata=obj(name={"type": "string", "pattern": "^a", "maxLength": 3}, generateName=STR)))
    root("metadata labels", obj(metadata=obj(labels=OBJ)))
    root("metadata required", obj(metadata={"type": "object", "required": ["name"]}))
    root("metadata description", obj(metadata={"type": "object", "description": "x"}))
    root("metadata minProperties", obj(metadata={"type": "object", "minProperties": 1}))
    root("metadata preserve", obj(metadata={"type": "object", **xkey(x_preserve_unknown_fields=True)}))
    root("metadata embedded", obj(metadata=obj(name={"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True)})))
    root("metadata name of wrong type", obj(metadata=obj(name=INT)))
    root("metadata nullable", obj(metadata={"type": "object", "nullable": True}))
    root("metadata default", obj(metadata={"type": "object", "default": {}}))
    root("metadata name default", obj(metadata=obj(name={"type": "string", "default": "x"})))
    root("kind default", obj(kind={"type": "string", "default": "x"}, apiVersion={"type": "string", "default": "y"}))
    root("kind pattern", obj(kind={"type": "string", "pattern": "^W"}, apiVersion={"type": "string", "enum": ["x"]}))
    root("metadata in allOf", {"type": "object", "allOf": [{"properties": {"metadata": {"required": ["name"]}}}]})
    root("metadata name in allOf", {"type": "object", "allOf": [{"properties": {"metadata": {"properties": {"name": {"pattern": "^a"}}}}}], "properties": {"metadata": obj(name=STR)}})
    for pattern in ["^a$", "[", "(", "a)", "*a", "a**", "(?P<n>a)", "(?<n>a)", "(?=a)", "(?!a)", "\\1", "\\", "a{1001}", "a{2,1}", "[z-a]", "\\pX", "\\p{Greek}", "(?i)a", "(?i", "[[:alpha:]]", "[[:foo:]]", "\\Qa.b\\E", "\\z", "\\Z", "x{", "a{,2}", "", "(a{1000}){1000}", "\\d{3}-\\w+", "(?P<n", "(?P<n>a)(?P<n>b)", "(?P<1>a)", "(?z)", "[a", "a++", "\\x{110000}", "\\x{41}", "\\C", "(?:a", "|a", "()", "[]a]", "[^]a]", "\\_", "\\é", "(?s).", "a{1,", "(?U)a+", "(?i-s:a)", "(((((a", "\\8"]:
        spec(f"pattern {pattern}", {"type": "string", "pattern": pattern})
    for where in ("allOf", "anyOf", "oneOf"):
        spec(f"{where} with everything forbidden", {"type": "object", "properties": {"a": STR}, where: [
            {"type": "object", "title": "t", "description": "d", "nullable": True, "default": {}, "additionalProperties": STR,
             "properties": {"a": STR}, **xkey(x_preserve_unknown_fields=True, x_embedded_resource=True, x_int_or_string=True, x_list_type="set", x_map_type="atomic", x_list_map_keys=["a"], x_validations=[{"rule": "true"}])}]})
        spec(f"{where} ok", {"type": "object", "properties": {"a": STR}, where: [{"required": ["a"]}, {"properties": {"a": {"enum": ["x"], "minLength": 1, "format": "date", "example": "x"}}}]})
        spec(f"{where} undeclared", {"type": "object", "properties": {"a": STR}, where: [{"properties": {"b": {"minLength": 1}}}]})
        spec(f"{where} undeclared below", {"type": "object", "properties": {"a": obj(c=STR)}, where: [{"properties": {"a": {"properties": {"d": {"minLength": 1}}}}}]})
        spec(f"{where} items", {"type": "array", "items": STR, where: [{"items": {"minLength": 1}}]})
        spec(f"{where} items undeclared", {"type": "object", "properties": {"a": STR}, where: [{"properties": {"a": {"items": {"minLength": 1}}}}]})
        spec(f"{where} empty", {"type": "object", where: []})
        spec(f"{where} pattern bad", {"type": "string", where: [{"pattern": "["}]})
        spec(f"{where} forbidden keywords", {"type": "object", where: [{"$ref": "x", "id": "y", "uniqueItems": True, "patternProperties": {"a": {}}}]})
        spec(f"{where} nested logic", {"type": "object", "properties": {"a": STR}, where: [{"not": {"required": ["a"]}}, {"anyOf": [{"required": ["a"]}, {"oneOf": [{"type": "string"}]}]}]})
    root("root anyOf undeclared", {"type": "object", "properties": {"a": STR}, "anyOf": [{"properties": {"zz": {"minLength": 1}}}]})
    root("root anyOf undeclared below", obj(spec=obj(a=STR)) | {"anyOf": [{"properties": {"spec": {"properties": {"zz": {"minLength": 1}}}}}]})
    root("root anyOf items undeclared", obj(l=arr(STR), s=STR) | {"allOf": [{"properties": {"s": {"items": {"minLength": 1}}}}, {"not": {"properties": {"q": {}}}}]})
    root("spec items anyOf undeclared", obj(spec=arr({"type": "object", "anyOf": [{"properties": {"zz": {"minLength": 1}}}]})))
    root("root additional", obj(spec={"type": "object", "additionalProperties": {"type": "object", "anyOf": [{"properties": {"zz": {"minLength": 1}}}]}}))
    spec("not with type", {"type": "object", "not": {"type": "object", "properties": {"b": STR}}})
    spec("not ok", {"type": "object", "properties": {"a": STR}, "not": {"required": ["a"]}})
    spec("additionalProperties covers logic", {"type": "object", "additionalProperties": STR, "anyOf": [{"properties": {"b": {"minLength": 1}}}]})
    spec("preserve does not cover logic", {"type": "object", **xkey(x_preserve_unknown_fields=True), "anyOf": [{"properties": {"b": {"minLength": 1}}}]})
    spec("required undeclared", {"type": "object", "required": ["zz"]})

    # list and map types
    for value in ["", "other", "atomic", "set", "map"]:
        spec(f"list type {value!r}", arr(STR, **xkey(x_list_type=value)))
        spec(f"list type {value!r} on an object", {"type": "object", **xkey(x_list_type=value)})
    for value in ["", "other", "atomic", "granular"]:
        spec(f"map type {value!r}", {"type": "object", "additionalProperties": STR, **xkey(x_map_type=value)})
        spec(f"map type {value!r} on a list", arr(STR, **xkey(x_map_type=value)))
    spec("map type without type", xkey(x_map_type="atomic", x_preserve_unknown_fields=True))
    spec("list type without type", xkey(x_list_type="atomic", x_preserve_unknown_fields=True))
    item = {"type": "object", "properties": {"k": STR, "p": INT, "o": OBJ, "l": arr(STR)}, "required": ["k", "p", "o", "l"]}

    def keys(*names):
        return xkey(x_list_type="map", x_list_map_keys=list(names))
    spec("map list", arr(item, **keys("k", "p")))
    spec("map list without keys", arr(item, **xkey(x_list_type="map")))
    spec("keys without map", arr(item, **xkey(x_list_map_keys=["k"])))
    spec("keys with set", arr(item, **xkey(x_list_type="set", x_list_map_keys=["k"])))
    spec("map list unknown key", arr(item, **keys("zz")))
    spec("map list repeated key", arr(item, **keys("k", "k")))
    spec("map list object key", arr(item, **keys("o")))
    spec("map list list key", arr(item, **keys("l")))
    spec("map list key not required", arr(obj(k=STR), **keys("k")))
    spec("map list key with default", arr(obj(k={"type": "string", "default": "x"}), **keys("k")))
    spec("map list key nullable", arr({"type": "object", "properties": {"k": {"type": "string", "nullable": True}}, "required": ["k"]}, **keys("k")))
    spec("map list key int-or-string", arr({"type": "object", "properties": {"k": xkey(x_int_or_string=True)}, "required": ["k"]}, **keys("k")))
    spec("map list of strings", arr(STR, **keys("k")))
    spec("map list without items", {"type": "array", **keys("k")})
    spec("map list nullable items", arr({**item, "nullable": True}, **keys("k")))
    spec("set list nullable items", arr({"type": "string", "nullable": True}, **xkey(x_list_type="set")))
    spec("set of objects", arr(OBJ, **xkey(x_list_type="set")))
    spec("set of atomic objects", arr({"type": "object", **xkey(x_map_type="atomic")}, **xkey(x_list_type="set")))
    spec("set of granular objects", arr({"type": "object", **xkey(x_map_type="granular")}, **xkey(x_list_type="set")))
    spec("set of lists", arr(arr(STR), **xkey(x_list_type="set")))
    spec("set of atomic lists", arr(arr(STR, **xkey(x_list_type="atomic")), **xkey(x_list_type="set")))
    spec("set of set lists", arr(arr(STR, **xkey(x_list_type="set")), **xkey(x_list_type="set")))
    spec("set of int-or-string", arr(xkey(x_int_or_string=True), **xkey(x_list_type="set")))
    spec("set without items", {"type": "array", **xkey(x_list_type="set")})
    spec("map list of embedded", arr({"type": "object", "properties": {"k": STR}, "required": ["k"], **xkey(x_embedded_resource=True)}, **keys("k")))

    # defaults
    for label, schema in {
        "string": {"type": "string", "default": "x"},
        "of wrong type": {"type": "string", "default": 1},
        "null": {"type": "string", "default": None},
        "null nullable": {"type": "string", "nullable": True, "default": None},
        "against enum": {"type": "string", "enum": ["a", "b"], "default": "c"},
        "against pattern": {"type": "string", "pattern": "^a", "default": "c"},
        "against limits": {"type": "integer", "minimum": 3, "multipleOf": 2, "default": 1},
        "against maxLength": {"type": "string", "maxLength": 2, "default": "abc"},
        "against format": {"type": "string", "format": "date", "default": "abc"},
        "object": {"type": "object", "properties": {"a": STR}, "default": {"a": "x"}},
        "object unknown field": {"type": "object", "properties": {"a": STR}, "default": {"b": "x"}},
        "object unknown field preserved": {"type": "object", "properties": {"a": STR}, "default": {"b": "x"}, **xkey(x_preserve_unknown_fields=True)},
        "object wrong field type": {"type": "object", "properties": {"a": STR}, "default": {"a": 1}},
        "object missing required": {"type": "object", "properties": {"a": STR}, "required": ["a"], "default": {}},
        "object filled by inner default": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"], "default": {}},
        "nested unknown": obj(o={"type": "object", "properties": {"l": arr(obj(a=STR))}, "default": {"l": [{"zz": 1}]}}),
        "list": {**arr(STR), "default": ["a"]},
        "list of wrong type": {**arr(STR), "default": ["a", 1]},
        "list too long": {**arr(STR, maxItems=1), "default": ["a", "b"]},
        "set with duplicates": {**arr(STR, **xkey(x_list_type="set")), "default": ["a", "a"]},
        "map list with duplicates": {**arr(item, **keys("k")), "default": [{"k": "a", "p": 1, "o": {}, "l": []}, {"k": "a", "p": 2, "o": {}, "l": []}]},
        "number for integer": {"type": "integer", "default": 1.0},
        "float for integer": {"type": "integer", "default": 1.5},
        "integer for number": {"type": "number", "default": 1},
        "int-or-string": {**xkey(x_int_or_string=True), "default": 1},
        "int-or-string bool": {**xkey(x_int_or_string=True), "default": True},
        "embedded": {"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True), "default": {"kind": "A", "apiVersion": "v1", "metadata": {"name": "x"}}},
        "embedded without kind": {"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True), "default": {"metadata": {"name": "x"}}},
        "embedded bad metadata": {"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True), "default": {"kind": "A", "apiVersion": "v1", "metadata": {"labels": {"a": 1}}}},
        "embedded unknown metadata": {"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True), "default": {"kind": "A", "apiVersion": "v1", "metadata": {"zz": 1}}},
        "in items": arr({"type": "string", "default": "x"}),
        "in additionalProperties": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}},
        "in items of object": arr(obj(a={"type": "string", "default": "x"})),
        "with anyOf": {"type": "object", "properties": {"a": STR}, "anyOf": [{"required": ["a"]}], "default": {}},
        "bool": {"type": "boolean", "default": False},
        "map": {"type": "object", "additionalProperties": INT, "default": {"a": 1}},
        "map wrong": {"type": "object", "additionalProperties": INT, "default": {"a": "x"}},
    }.items():
        spec(f"default {label}", schema)

    # limits of the schema's own
    spec("limits", {"type": "object", "properties": {"s": {"type": "string", "minLength": 1, "maxLength": 0}, "i": {"type": "integer", "minimum": 3, "maximum": 1}, "l": arr(STR, minItems=3, maxItems=1)}})
    spec("negative limits", obj(s={"type": "string", "minLength": -1, "maxLength": -2}, l=arr(STR, minItems=-1), o={"type": "object", "maxProperties": -1}))
    spec("multipleOf zero", {"type": "integer", "multipleOf": 0})
    spec("multipleOf negative", {"type": "integer", "multipleOf": -2})
    spec("enum of wrong types", {"type": "string", "enum": [1, {"a": "b"}, None]})
    spec("enum empty", {"type": "string", "enum": []})
    spec("enum repeated", {"type": "string", "enum": ["a", "a"]})
    spec("formats", obj(**{f"f{i}": {"type": "string", "format": f} for i, f in enumerate(["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "byte", "password", "mac", "cidr", "bsonobjectid", "isbn", "creditcard", "ssn", "hexcolor", "rgbcolor", "k8s-short-name", "k8s-long-name"])}))
    spec("unknown format", {"type": "string", "format": "strange"})
    spec("unknown formats twice", obj(a={"type": "string", "format": "strange"}, b={"type": "integer", "format": "int64"}, c={"type": "integer", "format": "odd"}))
    spec("format on object", {"type": "object", "format": "strange"})
    spec("title example externalDocs", {"type": "string", "title": "t", "example": {"a": 1}, "externalDocs": {"url": "x", "description": "y"}})

    # subresources
    def sub(name, subresources, schema=None):
        patched(name, {"spec": {"versions": [version(storage=True, schema=schema, subresources=subresources)]}})
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    sub("status", {"status": {}})
    sub("scale", {"scale": scale})
    sub("scale with selector", {"scale": {**scale, "labelSelectorPath": ".status.selector"}})
    for label, change in {
        "spec path empty": {"specReplicasPath": ""}, "spec path without dot": {"specReplicasPath": "spec.replicas"}, "spec path elsewhere": {"specReplicasPath": ".status.replicas"},
        "spec path only": {"specReplicasPath": ".spec"}, "spec path with index": {"specReplicasPath": ".spec.a[0]"}, "spec path dot": {"specReplicasPath": ".spec."}, "spec path key": {"specReplicasPath": ".spec['a']"},
        "status path empty": {"statusReplicasPath": ""}, "status path elsewhere": {"statusReplicasPath": ".spec.replicas"}, "status path without dot": {"statusReplicasPath": "x"},
        "selector elsewhere": {"labelSelectorPath": ".metadata.x"}, "selector in spec": {"labelSelectorPath": ".spec.x"}, "selector without dot": {"labelSelectorPath": "x"}, "selector empty": {"labelSelectorPath": ""},
        "all bad": {"specReplicasPath": "a", "statusReplicasPath": "b", "labelSelectorPath": "c"},
    }.items():
        sub(f"scale {label}", {"scale": {**scale, **change}})
    for keyword, value in {"additionalProperties": True, "allOf": [{"required": ["a"]}], "enum": [{}], "not": {"required": ["x"]}, "minProperties": 1, "maxProperties": 3, "required": ["spec"], "description": "x", "title": "t", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "true"}], "x-kubernetes-map-type": "granular", "anyOf": [{}], "default": {}, "nullable": True, "pattern": "x", "format": "x"}.items():
        sub(f"status with root {keyword}", {"status": {}}, {"type": "object", keyword: value})
    sub("status with root array", {"status": {}}, {"type": "array", "items": STR})
    sub("status with root array and enum", {"status": {}}, {"type": "array", "items": STR, "enum": [1]})
    spec("map list of untyped items", arr(xkey(x_preserve_unknown_fields=True), **keys("k")))
    root("root anyOf undeclared with additionalProperties", {"type": "object", "additionalProperties": True, "anyOf": [{"properties": {"zz": {"minLength": 1}}}]})
    root("root anyOf undeclared below a map", obj(spec={"type": "object", "additionalProperties": STR}) | {"anyOf": [{"properties": {"spec": {"properties": {"zz": {"minLength": 1}}}}}]})
    sub("status with root without type", {"status": {}}, {"properties": {"a": STR}})

    # printer columns
    def columns(name, *columns):
        patched(name, {"spec": {"versions": [version(storage=True, additionalPrinterColumns=list(columns))]}})
    column = {"name": "A", "type": "string", "jsonPath": ".spec.a"}
    columns("column", column)
    columns("columns repeated", column, column)
    for label, change in {
        "name empty": {"name": ""}, "type empty": {"type": ""}, "type unknown": {"type": "strange"}, "type object": {"type": "object"}, "format": {"format": "int32"}, "format bad": {"format": "strange"}, "format empty": {"format": ""},
        "path empty": {"jsonPath": ""}, "path without dot": {"jsonPath": "spec.a"}, "path with braces": {"jsonPath": "{.spec.a}"}, "path index": {"jsonPath": ".spec.a[0].b"}, "path filter": {"jsonPath": '.spec.c[?(@.type=="Ready")].status'},
        "path bad": {"jsonPath": ".spec.a["}, "path star": {"jsonPath": ".spec.*"}, "path quoted": {"jsonPath": ".spec['a.b']"}, "path escaped": {"jsonPath": ".metadata.annotations.a\\.b"}, "path recursive": {"jsonPath": "..name"}, "path dot": {"jsonPath": "."},
        "path bad filter": {"jsonPath": ".spec[?(@.a==]"}, "path double dot end": {"jsonPath": ".spec."}, "path slice": {"jsonPath": ".spec.a[0:2]"}, "path union": {"jsonPath": ".spec['a','b']"}, "path bad index": {"jsonPath": ".spec.a[x]"},
        "path closing brace": {"jsonPath": ".spec}"}, "path unterminated quote": {"jsonPath": ".spec['a"}, "path space": {"jsonPath": ".spec a"}, "priority": {"priority": -1}, "description": {"description": "x"},
    }.items():
        columns(f"column {label}", {**column, **change})
    columns("column all bad", {"name": "", "type": "", "jsonPath": ""})
    patched("columns differ per version", {"spec": {"versions": [version(storage=True, additionalPrinterColumns=[{**column, "type": ""}]), version("v2", additionalPrinterColumns=[{**column, "jsonPath": "x"}])]}})
    patched("columns equal per version", {"spec": {"versions": [version(storage=True, additionalPrinterColumns=[{**column, "type": ""}]), version("v2", additionalPrinterColumns=[{**column, "type": ""}])]}})
    patched("subresources differ per version", {"spec": {"versions": [version(storage=True, subresources={"scale": {**scale, "specReplicasPath": "x"}}), version("v2")]}})

    # selectable fields
    selectable = obj(spec=obj(s=STR, e={"type": "string", "enum": ["a"]}, d={"type": "string", "format": "date"}, i=INT, b=BOOL, n=NUM, o=obj(x=STR), l=arr(STR), m={"type": "object", "additionalProperties": STR}, ios=xkey(x_int_or_string=True), nu={"type": "string", "nullable": True}, p={"type": "object", **xkey(x_preserve_unknown_fields=True)}, **{"a-b": STR, "a.b": STR}), status=obj(s=STR))
    for paths in [[".spec.s"], [".spec.e", ".spec.d", ".spec.i", ".spec.b"], [".spec.n"], [".spec.o"], [".spec.o.x"], [".spec.l"], [".spec.l[0]"], [".spec.m.x"], [".spec.m['x']"], [".spec.ios"], [".spec.nu"], [".spec.p.q"], [".spec.zz"], ["spec.s"], [""], ["."], [".metadata.name"], [".metadata.labels.x"], [".spec.s", ".spec.s"], [".status.s"], [".kind"], [".apiVersion"], [".spec['s']"], [".spec['a-b']"], [".spec.a-b"], [".spec['a.b']"], [".spec."], [".spec..s"], ["{.spec.s}"], [".spec.s."], [".spec[0]"], [".spec['s"], [".spec.s", ".zz", ".spec.n", ".spec.s"], [".spec"]]:
        patched("selectable " + " ".join(map(repr, paths)), {"spec": {"versions": [version(storage=True, schema=selectable, selectableFields=[{"jsonPath": p} for p in paths])]}})
    for n in (8, 9):
        patched(f"selectable {n}", {"spec": {"versions": [version(storage=True, schema=obj(**{f"f{i}": STR for i in range(9)}), selectableFields=[{"jsonPath": f".f{i}"} for i in range(n)])]}})
    patched("selectable without schema properties", {"spec": {"versions": [version(storage=True, selectableFields=[{"jsonPath": ".spec.s"}])]}})

    # rules, as far as they need no compiling
    def rules(name, *rules):
        spec(name, {"type": "object", "properties": {"i": INT, "a b": STR, "o": obj(x=STR), "m": {"type": "object", "additionalProperties": obj(y=STR)}, "l": arr(STR)}, **xkey(x_validations=list(rules))})
    rules("rule", {"rule": "true"})
    rules("rule empty", {"rule": ""})
    rules("rule blank", {"rule": "  "})
    rules("rule message blank", {"rule": "true", "message": " "})
    rules("rule message empty", {"rule": "true", "message": ""})
    rules("rule message with line break", {"rule": "true", "message": "a\nb"})
    rules("rule with line break", {"rule": "true\n"})
    rules("rule with inner line break", {"rule": "true &&\ntrue"})
    rules("rule with line break and message", {"rule": "true &&\ntrue", "message": "m"})
    rules("rule messageExpression blank", {"rule": "true", "messageExpression": " "})
    rules("rule messageExpression", {"rule": "true", "messageExpression": "'a'"})
    for reason in ["", "Other", "FieldValueInvalid", "FieldValueDuplicate"]:
        rules(f"rule reason {reason!r}", {"rule": "true", "reason": reason})
    for path in ["", " ", ".i", "i", ".zz", ".o.x", "['a b']", ".m.any.y", ".m['k'].y", ".l[0]", "$.i", ".i\n", ".o['x']", ".o[\"x\"]", ".o.", ".m.a.zz", "['a b"]:
        rules(f"rule fieldPath {path!r}", {"rule": "true", "fieldPath": path})
    rules("rule several wrong", {"rule": ""}, {"rule": "true", "message": "\n", "reason": "x", "fieldPath": "q"})
    spec("rule on scalar", {"type": "string", **xkey(x_validations=[{"rule": "true"}])})
    spec("rule in items", arr({"type": "string", "maxLength": 3, **xkey(x_validations=[{"rule": "true", "reason": "zz"}])}))
    spec("rule beside a shape error", {"type": "object", "properties": {"a": {}}, **xkey(x_validations=[{"rule": "true", "reason": "zz"}])})

    # the object's own JSON
    spec("unknown keyword", {"type": "object", "strange": 1, "properties": {"a": {"type": "string", "odd": True}}})
    for label, schema in {
        "maxLength text": {"type": "string", "maxLength": "1"}, "maxLength float": {"type": "string", "maxLength": 1.5}, "minimum text": {"type": "integer", "minimum": "1"}, "type list": {"type": ["string"]},
        "required text": {"type": "object", "required": "a"}, "properties list": {"type": "object", "properties": []}, "items text": {"type": "array", "items": "x"}, "additionalProperties text": {"type": "object", "additionalProperties": "x"},
        "nullable text": {"type": "string", "nullable": "x"}, "enum text": {"type": "string", "enum": "x"}, "allOf object": {"allOf": {}}, "pattern number": {"pattern": 1}, "rules text": xkey(x_validations="x"), "rule text": xkey(x_validations=["x"]), "preserve text": xkey(x_preserve_unknown_fields="x"),
        "keys text": xkey(x_list_map_keys="a"), "property text": obj(a="x"), "property null": {"type": "object", "properties": {"a": None}}, "not list": {"not": []}, "externalDocs text": {"externalDocs": "x"}, "nested maxLength text": obj(a=arr({"type": "string", "maxLength": "1"})),
        "nulls": {"type": "object", "description": None, "properties": None, "items": None, "additionalProperties": None, "default": None, "enum": None, "required": None, "nullable": None, "not": None, "maxProperties": None},
        "empties": {"type": "object", "description": "", "properties": {}, "required": [], "nullable": False, "enum": [], "allOf": [], "uniqueItems": False, "exclusiveMaximum": False, "format": "", "x-kubernetes-embedded-resource": False, "x-kubernetes-int-or-string": False, "x-kubernetes-validations": [], "x-kubernetes-list-map-keys": []},
    }.items():
        spec(f"json {label}", schema)
    case("json strict unknown", definition(schema=under_spec({"type": "object", "strange": 1, "properties": {"a": {"type": "string", "odd": True}}})), fieldValidation="Strict")

    import random
    import record_objects
    rng = random.Random(36)
    for n in range(150):
        schema = json.loads(json.dumps(obj(spec=record_objects.random_schema(rng, 2), status=record_objects.random_schema(rng, 1))))
        for _ in range(rng.randint(1, 3)):
            key, value = rng.choice(MUTATIONS)
            rng.choice(all_nodes(schema, []))[key] = copy.deepcopy(value)
        case(f"random {n}", definition(schema=schema))

    done = []
    for case in cases:
        validation = case.get("fieldValidation", "Warn")
        code, answer, warnings = call("POST", f"{CRDS}?dryRun=All&fieldValidation={validation}", case["input"])
        done.append(outcome(case, code, answer, warnings, kept_definition))
    done += update_cases()
    write("definitions.jsonl", done)


def kept_definition(answer):
    answer["metadata"] = {k: v for k, v in answer["metadata"].items() if k in ("name", "labels", "annotations", "generation")}
    return answer


def update_cases():
    group = f"u{int(time.time())}.sternpost.example"
    out = []
    stored = {
        "plain": definition(group, "plains", "Plain", under_spec(STR)),
        "two": definition(group, "twos", "Two", versions=[version("v1", storage=True), version("v2")]),
        "hook": definition(group, "hooks", "Hook", conversion={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com"}}}),
        "rich": definition(group, "riches", "Rich", under_spec({"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "l": arr(STR, **xkey(x_list_type="set"))}})),
        "approved": merge(definition("z.k8s.io", "approveds", "Approved"), {"metadata": {"annotations": {"api-approved.kubernetes.io": "unapproved, test"}}}),
    }
    for crd in stored.values():
        call("DELETE", f"{CRDS}/{crd['metadata']['name']}")
    time.sleep(3)
    for crd in stored.values():
        code, answer, _ = call("POST", CRDS, crd)
        assert code == 201, answer
    time.sleep(8)

    def case(name, which, change, sub=""):
        crd = stored[which]
        path = f"{CRDS}/{crd['metadata']['name']}"
        _, old, _ = call("GET", path)
        old["metadata"].pop("managedFields", None)
        new = copy.deepcopy(old)
        change(new)
        code, answer, warnings = call("PUT", f"{path}{sub}?dryRun=All", new)
        old["metadata"] = {k: v for k, v in old["metadata"].items() if k in ("name", "annotations", "generation")}
        new["metadata"] = {k: v for k, v in new["metadata"].items() if k in ("name", "annotations", "generation", "labels")}
        text = json.dumps(outcome({"name": "update " + name, "op": "status" if sub else "update", "old": old, "input": new}, code, answer, warnings, kept_definition))
        out.append(json.loads(text.replace(group, "u.sternpost.example")))

    def patch(**changes):
        return lambda crd: merge(crd["spec"], changes)

    case("nothing", "plain", lambda crd: None)
    case("scope", "plain", patch(scope="Cluster"))
    case("group", "plain", patch(group="other.example.com"))
    case("plural", "plain", patch(names={"plural": "others"}))
    case("kind", "plain", patch(names={"kind": "Other"}))
    case("listKind", "plain", patch(names={"listKind": "OtherList"}))
    case("singular and short names", "plain", patch(names={"singular": "other", "shortNames": ["o"], "categories": ["all"]}))
    case("singular removed", "plain", patch(names={"singular": "", "listKind": ""}))
    case("schema removed", "plain", lambda crd: crd["spec"]["versions"][0].pop("schema"))
    case("schema not structural", "plain", lambda crd: crd["spec"]["versions"][0].update(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}))
    case("schema changed", "plain", lambda crd: crd["spec"]["versions"][0].update(schema={"openAPIV3Schema": under_spec(INT)}))
    case("schema pattern bad", "plain", lambda crd: crd["spec"]["versions"][0].update(schema={"openAPIV3Schema": under_spec({"type": "string", "pattern": "["})}))
    case("preserveUnknownFields", "plain", patch(preserveUnknownFields=True))
    case("version renamed", "plain", lambda crd: crd["spec"]["versions"][0].update(name="v9"))
    case("version added as storage", "plain", lambda crd: (crd["spec"]["versions"][0].update(storage=False), crd["spec"]["versions"].append(version("v2", storage=True))))
    case("no versions", "plain", patch(versions=[]))
    case("no storage version", "plain", lambda crd: crd["spec"]["versions"][0].update(storage=False))
    case("storage moves", "two", lambda crd: (crd["spec"]["versions"][0].update(storage=False), crd["spec"]["versions"][1].update(storage=True)))
    case("stored version dropped", "two", lambda crd: (crd["spec"]["versions"].pop(0), crd["spec"]["versions"][0].update(storage=True)))
    case("unstored version dropped", "two", lambda crd: crd["spec"]["versions"].pop(1))
    case("status ignored", "plain", lambda crd: crd["status"].update(storedVersions=["v1", "v7"]))
    case("conversion removed", "hook", patch(conversion=...))
    case("conversion to none keeping hook", "hook", patch(conversion={"strategy": "None"}))
    case("conversion caBundle bad", "hook", lambda crd: crd["spec"]["conversion"]["webhook"]["clientConfig"].update(caBundle="eHg="))
    case("list type removed", "rich", lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["l"].pop("x-kubernetes-list-type"))
    case("default made wrong", "rich", lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"].update(default=1))
    case("approval removed", "approved", lambda crd: crd["metadata"].pop("annotations"))
    case("approval bad", "approved", lambda crd: crd["metadata"].update(annotations={"api-approved.kubernetes.io": "zz"}))
    case("approval url", "approved", lambda crd: crd["metadata"].update(annotations={"api-approved.kubernetes.io": "https://a.b"}))
    case("labels", "plain", lambda crd: crd["metadata"].update(labels={"a": "b"}))
    case("status stored versions extra", "two", lambda crd: crd["status"].update(storedVersions=["v1", "v2"]), "/status")
    case("status stored version unknown", "two", lambda crd: crd["status"].update(storedVersions=["v1", "v7"]), "/status")
    case("status stored versions without storage", "two", lambda crd: crd["status"].update(storedVersions=["v2"]), "/status")
    case("status stored versions empty", "two", lambda crd: crd["status"].update(storedVersions=[]), "/status")
    case("status accepted names bad", "two", lambda crd: crd["status"]["acceptedNames"].update(plural="A_", kind=""), "/status")
    case("status accepted names equal", "two", lambda crd: crd["status"]["acceptedNames"].update(listKind="Two"), "/status")
    case("status ignores spec", "two", lambda crd: crd["spec"].update(scope="Cluster"), "/status")
    case("status conditions", "two", lambda crd: crd["status"].update(conditions=[]), "/status")
    for crd in stored.values():
        call("DELETE", f"{CRDS}/{crd['metadata']['name']}")
    return out


if __name__ == "__main__":
    # The others import it by its name.
    sys.modules["record"] = sys.modules["__main__"]
    import record_objects, record_rules

    parts = {
        "definitions": definition_cases, "objects": record_objects.object_cases, "names": record_objects.name_cases,
        "rule-definitions": record_rules.definition_cases, "rule-objects": record_rules.object_cases,
    }
    part = parts.get(sys.argv[-1])
    if not part:
        sys.exit(__doc__)
    part()
    sys.exit(1 if CHECK and any(failed) else 0)
