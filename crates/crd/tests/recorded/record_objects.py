"""The custom objects and the names for record.py."""
import copy, json, time

from record import *

GROUP = "o.sternpost.example"
THINGS = obj(
    metadata=obj(name={"type": "string", "maxLength": 20}),
    spec={"type": "object", "properties": {
        "s": {"type": "string"}, "smin": {"type": "string", "minLength": 3}, "smax": {"type": "string", "maxLength": 3}, "sbad": {"type": "string", "maxLength": 1, "minLength": 5, "pattern": "^z", "enum": ["q"]},
        "pat": {"type": "string", "pattern": "^a[0-9]+$"}, "pati": {"type": "string", "pattern": "(?i)^ab|\\z"}, "patu": {"type": "string", "pattern": "^\\w\\d\\s\\b.$"}, "unan": {"type": "string", "pattern": "b"},
        "en": {"type": "string", "enum": ["a", "b"]}, "eni": {"type": "integer", "enum": [1, 2]}, "eno": {"type": "object", "enum": [{"a": 1}], **xkey(x_preserve_unknown_fields=True)}, "enn": {"type": "string", "nullable": True, "enum": ["a", None]},
        "i": INT, "i32": {"type": "integer", "format": "int32"}, "i64": {"type": "integer", "format": "int64"}, "imin": {"type": "integer", "minimum": 3}, "imax": {"type": "integer", "maximum": 3},
        "iemin": {"type": "integer", "minimum": 3, "exclusiveMinimum": True}, "iemax": {"type": "integer", "maximum": 3, "exclusiveMaximum": True}, "imul": {"type": "integer", "multipleOf": 3}, "irange": {"type": "integer", "minimum": 3, "maximum": 5, "multipleOf": 2},
        "n": NUM, "nmin": {"type": "number", "minimum": 1.5}, "nmul": {"type": "number", "multipleOf": 0.1}, "nmax": {"type": "number", "maximum": 2.5}, "nf": {"type": "number", "format": "float"}, "nd": {"type": "number", "format": "double"},
        "b": BOOL, "o": obj(a=STR, r={"type": "object", "required": ["x", "y"], "properties": {"x": STR, "y": STR}}),
        "mp": {"type": "object", "additionalProperties": INT}, "mpo": {"type": "object", "additionalProperties": obj(a=INT)}, "mpt": {"type": "object", "additionalProperties": True}, "mpf": {"type": "object", "additionalProperties": False}, "mpmin": {"type": "object", "additionalProperties": STR, "minProperties": 2}, "mpmax": {"type": "object", "additionalProperties": STR, "maxProperties": 1},
        "bare": OBJ, "l": arr(STR), "lo": arr(obj(a=INT)), "ll": arr(arr(INT)), "lmin": arr(STR, minItems=2), "lmax": arr(STR, maxItems=1),
        "set": arr(STR, **xkey(x_list_type="set")), "seti": arr(NUM, **xkey(x_list_type="set")), "seto": arr({"type": "object", "properties": {"a": INT}, **xkey(x_map_type="atomic")}, **xkey(x_list_type="set")),
        "map": arr({"type": "object", "properties": {"k": STR, "p": {"type": "integer", "default": 7}, "v": STR}, "required": ["k"]}, **xkey(x_list_type="map", x_list_map_keys=["k", "p"])),
        "ios": xkey(x_int_or_string=True), "iosp": {"anyOf": [INT, STR], "pattern": "^[0-9]+%$", **xkey(x_int_or_string=True)}, "iosa": {"allOf": [{"anyOf": [INT, STR]}, {"anyOf": [{"minimum": 3}, {"minLength": 2}]}], **xkey(x_int_or_string=True)},
        "nul": {"type": "string", "nullable": True}, "nulo": {"type": "object", "nullable": True, "properties": {"a": STR}}, "nuld": {"type": "string", "nullable": True, "default": "d"}, "def": {"type": "string", "default": "d"}, "defo": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": STR}, "default": {"b": "y"}}, "defin": obj(a={"type": "integer", "default": 3}), "defl": arr(obj(a={"type": "integer", "default": 3}, b=STR)), "defm": {"type": "object", "additionalProperties": obj(a={"type": "integer", "default": 3})}, "defi": arr({"type": "string", "default": "it"}), "defmi": {"type": "object", "additionalProperties": {"type": "string", "default": "it"}}, "defli": arr({"type": "string", "nullable": True, "default": "it"}),
        "pre": {"type": "object", "properties": {"a": STR, "o": obj(x=INT)}, **xkey(x_preserve_unknown_fields=True)}, "prea": xkey(x_preserve_unknown_fields=True), "prel": arr(xkey(x_preserve_unknown_fields=True)),
        "emb": {"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True)}, "embp": {"type": "object", "properties": {"spec": obj(a=INT)}, **xkey(x_embedded_resource=True)}, "embl": arr({"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True)}),
        "any": {"type": "object", "properties": {"a": STR, "b": STR, "c": INT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "one": {"type": "object", "properties": {"a": STR, "b": STR, "c": INT}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "all": {"type": "object", "properties": {"a": STR, "b": STR}, "allOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "not": {"type": "object", "properties": {"a": STR, "b": STR}, "not": {"required": ["a"]}},
        "anyv": {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 3, "multipleOf": 2}]}, "onev": {"type": "string", "oneOf": [{"pattern": "^a"}, {"maxLength": 2}, {"enum": ["zz"]}]}, "allv": {"type": "string", "allOf": [{"minLength": 3}, {"pattern": "^a"}]}, "notv": {"type": "string", "not": {"enum": ["x"]}},
        "deep": {"type": "object", "properties": {"p": obj(q=STR)}, "anyOf": [{"properties": {"p": {"required": ["q"], "properties": {"q": {"minLength": 2}}}}}]},
        **{"f" + f.replace("-", ""): {"type": "string", "format": f} for f in ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uri", "uuid", "uuid3", "uuid4", "uuid5", "byte", "password", "bsonobjectid", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "k8s-short-name", "k8s-long-name", "strange"]},
        "iosl": arr({"anyOf": [INT, STR], **xkey(x_int_or_string=True)}), "listmap": {"type": "object", "additionalProperties": arr(STR, **xkey(x_list_type="set"))}, "embm": {"type": "object", "additionalProperties": {"type": "object", **xkey(x_embedded_resource=True, x_preserve_unknown_fields=True)}},
        "quot\"ed.key": STR, "key with space": obj(a=INT),
    }},
    status=obj(s=STR),
)
REQUIRED = {"type": "object", "required": ["spec", "other"], "properties": {"spec": {"type": "object", "required": ["a"], "properties": {"a": INT, "l": arr({"type": "object", "required": ["n"], "properties": {"n": STR}})}}, "other": STR, "kind": {"type": "string", "pattern": "^N"}}}
LAX = under_spec({"type": "object", "properties": {"s": STR, "i": INT, "o": obj(a=STR, b=STR), "l": arr(STR), "set": arr(STR, **xkey(x_list_type="set")), "m": arr({"type": "object", "properties": {"k": STR, "v": STR}, "required": ["k"]}, **xkey(x_list_type="map", x_list_map_keys=["k"])), "mp": {"type": "object", "additionalProperties": STR}, "any": obj(a=STR), "lo": arr(obj(a=STR)), "pre": {"type": "object", "properties": {"a": STR}, **xkey(x_preserve_unknown_fields=True)}, "t": STR, "r": obj(a=STR, b=STR)}})


def tight():
    schema = json.loads(json.dumps(LAX))  # nothing shared
    p = schema["properties"]["spec"]["properties"]
    merge(p, {"s": {"maxLength": 3}, "i": {"minimum": 5}, "o": {"properties": {"a": {"pattern": "^x"}}}, "m": {"items": {"properties": {"v": {"enum": ["ok"]}}}}, "mp": {"additionalProperties": {"maxLength": 2}},
              "any": {"anyOf": [{"properties": {"a": {"minLength": 5}}}]}, "lo": {"items": {"properties": {"a": {"minLength": 5}}}}, "pre": {"properties": {"a": {"minLength": 5}}}, "t": {"type": "integer"}, "r": {"required": ["b"]}, "l": {"maxItems": 1, "items": {"minLength": 5}}})
    p["d"] = {"type": "string", "default": "new"}
    schema["properties"]["other"] = {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 4}}}
    return schema


DEFINITIONS = {
    "things": definition(GROUP, "things", "Thing", THINGS),
    "needs": definition(GROUP, "needs", "Need", REQUIRED),
    "opens": definition(GROUP, "opens", "Open", {"type": "object", **xkey(x_preserve_unknown_fields=True), "properties": {"spec": obj(a=STR)}}, scope="Cluster"),
    "lasts": definition(GROUP, "lasts", "Last", LAX),
    "multis": definition(GROUP, "multis", "Multi", versions=[
        version("v1", storage=True, schema=obj(spec=obj(a=STR, common=STR, d={"type": "string", "default": "one"}), status={"type": "object", **xkey(x_preserve_unknown_fields=True)}), subresources={"status": {}}),
        version("v2", schema=obj(spec=obj(b=STR, common=STR, d={"type": "string", "default": "two"}), status={"type": "object", **xkey(x_preserve_unknown_fields=True)}), deprecated=True),
        version("v3", schema=obj(spec=obj(common=STR)), deprecated=True, deprecationWarning="go away \"quoted\"")]),
    "columns": definition(GROUP, "columns", "Column", {"type": "object", **xkey(x_preserve_unknown_fields=True)}, versions=[version("v1", storage=True, schema={"type": "object", **xkey(x_preserve_unknown_fields=True)}, additionalPrinterColumns=[
        {"name": f"C{i}", "type": t, "jsonPath": p} for i, (t, p) in enumerate([
            ("string", ".spec.s"), ("integer", ".spec.i"), ("number", ".spec.n"), ("boolean", ".spec.b"), ("date", ".spec.d"), ("string", ".spec.l[0]"), ("string", ".spec.l[*]"), ("string", ".spec.o"), ("string", ".spec.l"), ("integer", ".spec.s"), ("string", ".spec.i"), ("string", ".spec.n"), ("string", ".spec.b"),
            ("string", '.spec.c[?(@.type=="Ready")].status'), ("string", ".spec['quoted key']"), ("string", ".spec.l[-1]"), ("string", ".spec.l[0:2]"), ("string", "..deep"), ("string", ".spec.zz.yy"), ("date", ".metadata.creationTimestamp"), ("string", ".metadata.annotations.a\\.b/c"), ("number", ".spec.i"), ("integer", ".spec.n"),
            ("boolean", ".spec.s"), ("date", ".spec.s"), ("string", ".spec.nul"), ("string", ".spec.c[?(@.n>1)].type"), ("string", ".spec.c[*]['type','status']"), ("string", ".spec.*.x"), ("string", ".spec.l[5]"), ("integer", ".spec.big"), ("string", ".spec.big"), ("number", ".spec.s"), ("string", '.spec.c[?(@.zz)].type'), ("string", '.spec.c[?(@.n)].n'), ("string", ".spec.o.x"), ("string", ".spec.e"), ("integer", ".spec.l"), ("string", "."), ("string", '.spec.c[?(@.type!="Ready")].type'), ("string", ".spec.l[1,0]"), ("string", ".spec.l[::2]"), ("string", ".spec.bad["), ("string", ".spec.s")])])]),
    "scales": definition(GROUP, "scales", "Scaled", versions=[version("v1", storage=True, schema={"type": "object", **xkey(x_preserve_unknown_fields=True)}, subresources={"scale": {"specReplicasPath": ".spec.a.n", "statusReplicasPath": ".status.r", "labelSelectorPath": ".status.sel"}})]),
    "plains": definition(GROUP, "plains", "Plain", {"type": "object", **xkey(x_preserve_unknown_fields=True)}),
    "selects": definition(GROUP, "selects", "Select", versions=[version("v1", storage=True, schema=under_spec(obj(s=STR, i=INT, b=BOOL)), selectableFields=[{"jsonPath": ".spec.s"}, {"jsonPath": ".spec.i"}, {"jsonPath": ".spec.b"}])]),
}


def random_schema(rng, depth):
    kind = rng.choice(["object", "object", "array", "string", "integer", "number", "boolean", "ios", "map", "any"] if depth else ["string", "integer", "number", "boolean", "ios"])
    some = lambda p: rng.random() < p
    if kind == "ios":
        return rng.choice([xkey(x_int_or_string=True), {"anyOf": [{"type": "integer"}, {"type": "string"}], **xkey(x_int_or_string=True)}])
    if kind == "any":
        return {"type": "object", **xkey(x_preserve_unknown_fields=True), **({"properties": {"a": random_schema(rng, depth - 1)}} if some(0.5) else {})}
    if kind == "map":
        return {"type": "object", "additionalProperties": random_schema(rng, depth - 1), **({"maxProperties": 2} if some(0.3) else {})}
    schema = {"type": kind}
    if some(0.2):
        schema["nullable"] = True
    if kind == "object":
        names = rng.sample("abcdef", rng.randint(1, 4))
        schema["properties"] = {n: random_schema(rng, depth - 1) for n in names}
        if some(0.4):
            schema["required"] = rng.sample(names, rng.randint(1, len(names)))
        if some(0.3):
            schema[rng.choice(["anyOf", "oneOf", "allOf"])] = [{"required": [rng.choice(names)]} for _ in range(rng.randint(1, 3))]
        if some(0.1):
            schema["not"] = {"required": [rng.choice(names)]}
        if some(0.1):
            schema["minProperties"] = 2
    elif kind == "array":
        schema["items"] = random_schema(rng, depth - 1)
        if some(0.3):
            schema["maxItems"] = rng.randint(0, 2)
        if some(0.2):
            schema["minItems"] = rng.randint(1, 2)
        item = schema["items"]
        if item.get("type") in ("string", "integer", "boolean", "number") and "nullable" not in item and some(0.5):
            schema["x-kubernetes-list-type"] = "set"
    elif kind == "string":
        for key, value in [("maxLength", 2), ("minLength", 2), ("pattern", rng.choice(["^a", "b$", "[0-9]+"])), ("enum", ["a", "ab", "b1"]), ("format", rng.choice(["date", "ipv4", "uuid", "byte"]))]:
            if some(0.2):
                schema[key] = value
        if some(0.2):
            schema["allOf"] = [{"minLength": 1}, {"pattern": "a|b"}]
        if some(0.2) and len(schema) == 1:
            schema["default"] = "ab"
    elif kind in ("integer", "number"):
        for key, value in [("maximum", rng.choice([3, 7, 2.5])), ("minimum", rng.choice([-1, 2, 1.5])), ("multipleOf", rng.choice([2, 3, 0.5])), ("exclusiveMinimum", True), ("enum", [1, 2, 4]), ("format", rng.choice(["int32", "int64"] if kind == "integer" else ["float", "double"]))]:
            if some(0.25):
                schema[key] = value
        if some(0.2):
            schema["anyOf"] = [{"minimum": 3}, {"maximum": 1}]
        if kind == "integer":
            schema = {k: (int(v) or 1) if isinstance(v, float) else v for k, v in schema.items()}
    return schema


def random_value(rng, schema, depth=4):
    kind = schema.get("type", rng.choice(["integer", "string"]))
    if rng.random() < 0.08 or depth == 0:
        kind = rng.choice(["null", "string", "integer", "number", "boolean", "array", "object"])
        schema = {}
    if kind == "null":
        return None
    if kind == "string":
        return rng.choice(schema.get("enum", []) + ["a", "ab", "abc", "b1", "", "2020-01-02", "1.2.3.4", "YWJj", "é"])
    if kind == "integer":
        return rng.choice([0, 1, 2, 3, 4, 6, 8, -2, 2.0, 3000000000])
    if kind == "number":
        return rng.choice([0, 1, 2.5, 1.5, 3, 0.5, 7.25, -2])
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "array":
        return [random_value(rng, schema.get("items", {}), depth - 1) for _ in range(rng.randint(0, 3))]
    value = {n: random_value(rng, s, depth - 1) for n, s in schema.get("properties", {}).items() if rng.random() < 0.8}
    for n in rng.sample("xyz", rng.randint(0, 2)) if rng.random() < (1 if "additionalProperties" in schema else 0.15) else []:
        value[n] = random_value(rng, schema.get("additionalProperties", {}), depth - 1)
    return value


def random_definitions(count=8):
    import random
    rng = random.Random(136)
    return {f"rnd{n}s": definition(GROUP, f"rnd{n}s", f"Rnd{n}", under_spec({"type": "object", "properties": {f"p{i}": random_schema(rng, 3) for i in range(4)}})) for n in range(count)}


DEFINITIONS.update(random_definitions())


def kept(answer):
    meta = answer["metadata"]
    answer["metadata"] = {k: v for k, v in meta.items() if k not in ("uid", "creationTimestamp", "resourceVersion", "managedFields")}
    return answer


def object_cases():
    for crd in DEFINITIONS.values():
        call("DELETE", f"{CRDS}/{crd['metadata']['name']}")
    time.sleep(6)
    for crd in DEFINITIONS.values():
        code, answer, _ = call("POST", CRDS, crd)
        assert code == 201, answer
    time.sleep(12)
    done = []

    def path(plural, ver="v1"):
        crd = DEFINITIONS[plural]
        middle = "" if crd["spec"]["scope"] == "Cluster" else "namespaces/default/"
        return f"/apis/{GROUP}/{ver}/{middle}{plural}"

    def create(name, plural, body, ver="v1", validation="Warn"):
        if not isinstance(body, str):
            body = merge({"apiVersion": f"{GROUP}/{ver}", "kind": DEFINITIONS[plural]["spec"]["names"]["kind"], "metadata": {"name": "a"}}, body)
        ask = lambda: call("POST", f"{path(plural, ver)}?dryRun=All&fieldValidation={validation}", body)
        # Both fields are wrong, and upstream tells of the one that it comes upon first.
        answers = [ask() for _ in range(20 if name == "emb #7" else 1)]
        code, answer, warnings = min(answers, key=lambda answer: answer[1].get("message", ""))
        body = body if isinstance(body, str) else json.dumps(body, sort_keys=True)
        done.append(outcome({"name": name, "op": "create", "definition": plural, "version": ver, "fieldValidation": validation, "body": body}, code, answer, warnings, kept))

    def thing(name, spec, **more):
        create(name, "things", {"spec": spec}, **more)

    # one field, many values
    values = {
        "s": ["x", "", 1, 1.5, True, None, {}, [], "é\u0000"], "smin": ["ab", "abc", "éé", ""], "smax": ["abcd", "abc", "éééé", "ééé"], "sbad": ["abc"], "pat": ["a1", "b", "a1\n"], "pati": ["AB", "x"], "patu": ["a1 b.", "é1 b."], "unan": ["abc", "ac"],
        "en": ["a", "c", "", 1], "eni": [1, 3, 1.0, "1"], "eno": [{"a": 1}, {"a": 2}], "enn": [None, "a", "b"],
        "i": [1, -1, 0, 1.0, 1.5, "1", 1e3, 9223372036854775807, 9223372036854775808, 1e20, None, True, {}], "i32": [True, {}, 1, 2147483648, -2147483649, 1.5, "x"], "i64": [9223372036854775807, 1e19, 1.0], "imin": [2, 3, 2.5], "imax": [4, 3], "iemin": [3, 4], "iemax": [3, 2], "imul": [4, 6, 0, -3], "irange": [1, 4, 7],
        "n": [1, 1.5, "1", None, 1e400 if False else 1e308], "nmin": [1, 1.5, 1.4], "nmul": [0.3, 0.35, 1], "nmax": [3, 2.5, 2.6], "nf": [1e39, 1.5], "nd": [1e300],
        "b": [True, False, "true", 0, None], "o": [[{"x": 1}], {"a": "x"}, {"zz": 1}, "x", [], None, {"r": {}}, {"r": {"x": "1"}}, {"a": None}],
        "mp": [{"a": 1}, {"a": "x"}, {"a": None}, {}, {"a b": "x"}], "mpo": [{"k": {"a": 1, "zz": 2}}, {"k": {"a": "x"}}, {"k": 1}, {"k": None}], "mpt": [{"a": {"b": [1]}}, 1], "mpf": [{"a": 1}, {}], "mpmin": [{"a": "x"}, {}, {"a": 1}], "mpmax": [{"a": "x", "b": "y"}, {"a": "x"}],
        "bare": [{"a": 1}, {}, []], "l": [["a"], [1], [None], "x", {}, [], None, ["a", 2, True]], "lo": [[{"a": 1, "zz": 1}], [{"a": "x"}, {"a": "y"}], [1], [None], [{}]], "ll": [[[1], [2]], [["x"]], [1]], "lmin": [["a"], []], "lmax": [["a", "b"], ["a", "b", "c"]],
        "set": [["a", "b"], ["a", "a"], ["a", "b", "a", "b", "a"]], "seti": [[1, 1.0], [1, 2], [1, 1]], "seto": [[{"a": 1}, {"a": 1}], [{"a": 1}, {"a": 2}], [{}, {}]],
        "map": [[{"k": "a"}, {"k": "b"}], [{"k": "a"}, {"k": "a"}], [{"k": "a", "p": 1}, {"k": "a", "p": 2}], [{"k": "a", "p": 1}, {"k": "a", "p": 1.0}], [{"p": 1}], [{"k": None}], [{"k": "a", "zz": 1}]],
        "ios": [1, "a", True, 1.5, {}, None], "iosp": [1, "5%", "x"], "iosa": [1, 5, "a", "ab", True],
        "nul": [None, "a", 1], "nulo": [None, {}, {"a": None}], "nuld": [None, "a"], "def": [None, "a", ""], "defo": [None, {}, {"b": None}, {"a": None}], "defin": [{}, None, {"a": None}], "defl": [[{}, {"b": "x"}], [{"a": None}], [None]], "defm": [{"k": {}}, {"k": None}], "defi": [[None, "a"]], "defmi": [{"a": None}], "defli": [[None]],
        "pre": [{"zz": {"y": 1}, "o": {"x": 1, "q": 2}}, {"a": 1, "zz": None}], "prea": [1, "x", [{"a": None}], {"a": {"b": None}}, None], "prel": [[1, None, {"a": 1}]],
        "emb": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "b"}, "zz": 1}, "spec": {"any": 1}}, {}, {"apiVersion": "v1", "kind": ""}, {"apiVersion": "a/b/c", "kind": "Bad_Kind"}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Bad_Name", "labels": {"a b": "c"}}}, {"apiVersion": "v1", "kind": "Pod", "metadata": "x"}, {"apiVersion": 1, "kind": 2}, {"apiVersion": "v1", "kind": "Pod", "metadata": None}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": None, "annotations": {"a": "b"}, "finalizers": ["x"], "ownerReferences": [{"name": "q"}], "generateName": "Z_", "namespace": "N_"}}, {"apiVersion": "", "kind": "Pod"}],
        "embp": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"a": 1, "zz": 1}, "zz": 1}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"zz": 1, "labels": {}}}], "embl": [[{"apiVersion": "v1", "kind": "Pod"}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": "P", "metadata": {"name": 3}}]],
        "any": [{"a": "x"}, {}, {"c": 1}, {"a": 1}], "one": [{"a": "x"}, {}, {"a": "x", "b": "y"}], "all": [{"a": "x", "b": "y"}, {"a": "x"}, {}], "not": [{"b": "x"}, {"a": "x"}],
        "anyv": [11, 2, 5, 4, 3], "onev": ["abc", "ab", "bc", "zz", "bcd"], "allv": ["abc", "ab", "b"], "notv": ["x", "y"], "deep": [{"p": {"q": "ab"}}, {"p": {"q": "a"}}, {"p": {}}, {}],
        "fdate": ["2020-01-02", "2020-13-02", "2020-1-2", "2020-02-30", "x", 5, True, {}, []], "fdatetime": ["2020-01-02T03:04:05Z", "2020-01-02T03:04:05.123+01:00", "2020-01-02 03:04:05", "2020-01-02", "x", "2020-01-02t03:04:05z"], "fduration": ["1h", "1h30m", "x", "1 day", "3 weeks", "1.5h", "PT1H", "1", "2d", "5 ms", "-1h"],
        "femail": ["a@b.c", "x", "A <a@b.c>", "a@b", "a@"], "fhostname": ["a.b", "a_b", "A.b", "-a", "a" * 64, "1.2.3.4", ""], "fipv4": ["1.2.3.4", "1.2.3", "::1", "01.2.3.4"], "fipv6": ["::1", "1.2.3.4", "x", "::ffff:1.2.3.4"], "fcidr": ["10.0.0.0/8", "10.0.0.0", "::/0", "10.0.0.1/8", "10.0.0.0/33"], "fmac": ["00:00:5e:00:53:01", "00-00-5e-00-53-01", "x", "0000.5e00.5301", "00:00:5e:00:53"],
        "furi": ["http://a/b", "/a", "x", "", "a b", "urn:x", "http://[::1", "mailto:a@b", "http://a b"], "fuuid": ["123e4567-e89b-12d3-a456-426614174000", "x", "123E4567E89B12D3A456426614174000", ""], "fuuid3": ["6fa459ea-ee8a-3ca4-894e-db77e160355e", "123e4567-e89b-12d3-a456-426614174000"], "fuuid4": ["16fd2706-8baf-433b-82eb-8c7fada847da", "16fd2706-8baf-433b-02eb-8c7fada847da", "6fa459ea-ee8a-3ca4-894e-db77e160355e"], "fuuid5": ["886313e1-3b8a-5372-9b90-0c9aee199e5d", "16fd2706-8baf-433b-82eb-8c7fada847da"],
        "fbyte": ["YWJj", "x", "", "YWJj\n", "YW Jj", "YWI=", "YWJ-"], "fpassword": ["x"], "fbsonobjectid": ["507f1f77bcf86cd799439011", "x"], "fisbn": ["0321751043", "978-0321751041", "x"], "fisbn10": ["0321751043", "0321751044"], "fisbn13": ["9780321751041", "9780321751042"], "fcreditcard": ["4111111111111111", "4111111111111112", "4111-1111-1111-1111"], "fssn": ["123-45-6789", "123456789", "x"], "fhexcolor": ["#FFFFFF", "#fff", "fff", "#ff", "x"], "frgbcolor": ["rgb(100,100,100)", "rgb(1, 2, 3)", "rgb(256,1,1)", "x"],
        "fk8sshortname": ["a", "A", "a.b", "a" * 64], "fk8slongname": ["a.b", "A", ""], "fstrange": ["x"],
        "iosl": [[None, 1], [True]], "listmap": [{"k": ["a", "a"]}], "embm": [{"k": {"apiVersion": "v1", "kind": "", "metadata": {"zz": 1}}}, {"k": {"apiVersion": "v1", "kind": "P", "metadata": {"name": 1}}}],
        "quot\"ed.key": [1], "key with space": [{"a": "x"}], "undeclared": [1],
    }
    for field, cases in values.items():
        for n, value in enumerate(cases):
            thing(f"{field} #{n}", {field: value})

    thing("several errors", {"s": 1, "i": "x", "en": "z"})
    create("spec of wrong type", "things", {"spec": "x"})
    create("spec null", "things", {"spec": None})
    create("spec list", "things", {"spec": []})
    create("no spec", "things", {})
    create("unknown root field", "things", {"zz": 1, "status": {"s": "x", "t": 1}})
    create("name too long by schema", "things", {"metadata": {"name": "a" * 21}})
    create("bad name", "things", {"metadata": {"name": "Bad_Name"}})
    for label, meta in {"labels number": {"labels": {"a": 1}}, "labels list": {"labels": []}, "labels null": {"labels": None}, "label null": {"labels": {"a": None}}, "annotations bool": {"annotations": {"a": True}}, "unknown": {"zz": 1}, "finalizers text": {"finalizers": "x"}, "owner wrong": {"ownerReferences": [{"name": 1}]}, "owner unknown": {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "b", "uid": "c", "zz": 1}]}, "creationTimestamp bad": {"creationTimestamp": "x"}, "generation text": {"generation": "x"}, "name number": {"name": 1}, "selfLink": {"selfLink": "x"}, "managedFields bad": {"managedFields": "x"}, "bad label": {"labels": {"a b": "c"}}, "finalizer plain": {"finalizers": ["plain"]}, "empty labels": {"labels": {}}, "two wrong": {"labels": {"a": 1}, "annotations": {"b": 2}}}.items():
        create(f"metadata {label}", "things", {"metadata": meta})
        create(f"metadata {label} strict", "things", {"metadata": meta}, validation="Strict")
    create("metadata text", "things", '{"apiVersion":"%s/v1","kind":"Thing","metadata":"x"}' % GROUP)
    create("metadata null", "things", '{"apiVersion":"%s/v1","kind":"Thing","metadata":null}' % GROUP)
    create("metadata absent", "things", '{"apiVersion":"%s/v1","kind":"Thing"}' % GROUP)
    create("generateName", "needs", {"metadata": {"name": ..., "generateName": "Bad_"}})

    head = '{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":"a"},' % GROUP
    for validation in ("Strict", "Warn", "Ignore"):
        for label, tail in {
            "duplicate": '"spec":{"s":"x","s":"y"}}', "unknown": '"spec":{"zz":1,"o":{"q":1},"lo":[{"a":1},{"b":2}],"mpo":{"k":{"z":1}}}}', "unknown and duplicate": '"spec":{"zz":1,"zz":2,"s":"x","s":"y"},"yy":1}', "duplicate in map": '"spec":{"mp":{"a":1,"a":2}}}', "duplicate object": '"spec":{"o":{"a":"x"},"o":{}}}', "duplicate spec": '"spec":{"s":"x"},"spec":{"i":1}}',
            "embedded": '"spec":{"embp":{"apiVersion":"v1","kind":"P","metadata":{"zz":1,"name":"x"},"yy":1,"spec":{"q":1}}}}', "preserved": '"spec":{"pre":{"zz":1,"zz":2,"o":{"q":1}}}}', "wrong type": '"spec":{"zz":1,"o":[1],"l":{"a":1}}}', "in list duplicate": '"spec":{"lo":[{"a":1,"a":2}]}}', "quoted key": '"spec":{"a\\"b":1,"c.d":1}}', "case": '"Spec":{"s":"x"},"SPEC":1}', "null unknown": '"spec":{"zz":null}}', "apiVersion twice": '"kind":"Thing","spec":{}}', "many": '"spec":{' + ",".join(f'"z{i}":1' for i in range(12)) + "}}"}.items():
            create(f"{label} {validation}", "things", head + tail, validation=validation)
    create("metadata duplicate Strict", "things", '{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":"a","name":"b","labels":{"a":"b","a":"c"},"qq":1},"metadata":{"name":"c"}}' % GROUP, validation="Strict")

    for label, body in {"nothing": {}, "other missing": {"spec": {"a": 1}}, "spec empty": {"spec": {}, "other": "x"}, "null required": {"spec": {"a": None}, "other": "x"}, "list item": {"spec": {"a": 1, "l": [{}, {"n": "x"}, {"n": None}]}, "other": "x"}, "good": {"spec": {"a": 1}, "other": "x"}}.items():
        create(f"needs {label}", "needs", body)
    create("kind pattern", "needs", {"kind": "Need", "spec": {"a": 1}, "other": "x"})
    create("opens", "opens", {"zz": {"a": None, "b": [1]}, "spec": {"a": "x", "zz": 1, "y": None}}, validation="Strict")
    create("opens namespace", "opens", {"metadata": {"namespace": "x"}})

    for n, body in enumerate([{}, {"spec": {"a": {"n": 3}}, "status": {"r": 2, "sel": "a=b"}}, {"spec": {"a": {"n": -1}}, "status": {"r": -2}}, {"spec": {"a": {"n": 2147483648}}, "status": {"r": 2147483648}}, {"spec": {"a": {"n": "x"}}, "status": {"r": "y", "sel": 3}}, {"spec": {"a": 3}}, {"spec": {"a": {"n": 1.5}}}, {"spec": {"a": {"n": None}}, "status": {"r": None, "sel": None}}, {"spec": {"a": {"n": 1.0}}}, {"spec": "x", "status": []}, {"status": {"sel": "not a selector,,"}}, {"spec": {"a": {"n": True}}}, {"spec": {"a": {"n": {"x": 1}}}}, {"spec": {"a": None}}]):
        create(f"scale #{n}", "scales", body)

    # versions
    create("v1", "multis", {"spec": {"a": "x", "b": "y", "common": "z"}, "status": {"r": 1}})
    create("v2", "multis", {"spec": {"a": "x", "b": "y", "common": "z"}, "status": {"r": 1}}, ver="v2")
    create("v3", "multis", {"spec": {"common": "z"}}, ver="v3")
    create("wrong kind", "multis", '{"apiVersion":"%s/v1","kind":"Other","metadata":{"name":"a"}}' % GROUP)
    create("wrong version", "multis", '{"apiVersion":"%s/v2","kind":"Multi","metadata":{"name":"a"}}' % GROUP)
    create("no kind", "multis", '{"metadata":{"name":"a"}}')
    create("no apiVersion", "multis", '{"kind":"Multi","metadata":{"name":"a"}}')
    create("kind number", "multis", '{"kind":1,"apiVersion":"%s/v1","metadata":{"name":"a"}}' % GROUP)
    create("not json", "multis", '{"kind":')
    create("a list", "multis", "[]")
    create("a text", "multis", '"x"')
    create("list kind", "multis", '{"apiVersion":"%s/v1","kind":"MultiList","items":[]}' % GROUP)
    create("big numbers", "opens", '{"apiVersion":"%s/v1","kind":"Open","metadata":{"name":"a"},"a":1e3,"b":1.0,"c":18446744073709551615,"d":12345678901234567890123,"e":1.50,"f":-0,"g":1E400}' % GROUP)
    create("numbers", "opens", '{"apiVersion":"%s/v1","kind":"Open","metadata":{"name":"a"},"a":1e3,"b":1.0,"c":18446744073709551615,"d":12345678901234567890123,"e":1.50,"f":-0,"g":-0.0,"h":1e21,"i":1e-7,"j":123456789.125}' % GROUP)
    for label, tail in {"deep": '"spec":' + '{"a":' * 90 + "1" + "}" * 90 + "}"}.items():
        create(label, "opens", '{"apiVersion":"%s/v1","kind":"Open","metadata":{"name":"a"},' % GROUP + tail)

    import random
    rng = random.Random(7)
    for plural in random_definitions():
        schema = DEFINITIONS[plural]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for n in range(25):
            create(f"{plural} #{n}", plural, {"spec": random_value(rng, {**schema, "type": "object"})})

    # read in another version, and defaults on read
    code, answer, _ = call("POST", path("multis"), {"apiVersion": f"{GROUP}/v1", "kind": "Multi", "metadata": {"name": "conv"}, "spec": {"a": "x", "common": "z"}})
    assert code == 201, answer
    _, stored, _ = call("GET", path("multis") + "/conv")
    for ver in ("v1", "v2", "v3"):
        code, answer, warnings = call("GET", path("multis", ver) + "/conv")
        done.append(outcome({"name": f"read as {ver}", "op": "read", "definition": "multis", "version": ver, "old": kept(copy.deepcopy(stored))}, code, answer, warnings, kept))

    # ratcheting
    full = {"s": "long", "i": 1, "o": {"a": "y", "b": "z"}, "l": ["a", "b"], "set": ["a", "b"], "m": [{"k": "1", "v": "bad"}, {"k": "2", "v": "bad"}], "mp": {"a": "long", "b": "x"}, "any": {"a": "y"}, "lo": [{"a": "y"}, {"a": "z"}], "pre": {"a": "y", "zz": 1}, "t": "text", "r": {"a": "x"}}
    code, answer, _ = call("POST", path("lasts"), {"apiVersion": f"{GROUP}/v1", "kind": "Last", "metadata": {"name": "r"}, "spec": full})
    assert code == 201, answer
    _, crd, _ = call("GET", f"{CRDS}/lasts.{GROUP}")
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = tight()
    code, answer, _ = call("PUT", f"{CRDS}/lasts.{GROUP}", crd)
    assert code == 200, answer
    DEFINITIONS["lasts"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = tight()
    time.sleep(5)
    _, stored, _ = call("GET", path("lasts") + "/r")
    done.append(outcome({"name": "default on read", "op": "read", "definition": "lasts", "version": "v1", "old": {"apiVersion": f"{GROUP}/v1", "kind": "Last", "metadata": {"generation": 1, "name": "r", "namespace": "default"}, "spec": full}}, 200, copy.deepcopy(stored), [], kept))

    def update(name, change, plural="lasts", which="r", ver="v1", sub=""):
        _, old, _ = call("GET", f"{path(plural, ver)}/{which}")
        old["metadata"].pop("managedFields", None)
        new = copy.deepcopy(old)
        change(new)
        code, answer, warnings = call("PUT", f"{path(plural, ver)}/{which}{sub}?dryRun=All", new)
        done.append(outcome({"name": "update " + name, "op": "status" if sub else "update", "definition": plural, "version": ver, "old": kept(old), "body": json.dumps(kept(new), sort_keys=True)}, code, answer, warnings, kept))

    def sets(**fields):
        return lambda o: merge(o["spec"], fields)

    update("nothing", lambda o: None)
    for label, change in {
        "d": {"d": "x"}, "s bad": {"s": "longer"}, "s good": {"s": "ok"}, "i bad": {"i": 2}, "o sibling": {"o": {"b": "q"}}, "o bad": {"o": {"a": "q"}}, "l item": {"l": ["a", "c"]}, "l shorter": {"l": ["a"]}, "l longer": {"l": ["a", "b", "c"]},
        "set": {"set": ["a", "a"]}, "m reorder": {"m": [{"k": "2", "v": "bad"}, {"k": "1", "v": "bad"}]}, "m value": {"m": [{"k": "1", "v": "worse"}, {"k": "2", "v": "bad"}]}, "m new": {"m": [{"k": "1", "v": "bad"}, {"k": "2", "v": "bad"}, {"k": "3", "v": "bad"}]}, "m duplicate": {"m": [{"k": "1", "v": "bad"}, {"k": "1", "v": "bad"}]},
        "mp other": {"mp": {"b": "yy"}}, "mp bad": {"mp": {"a": "longer"}}, "mp new": {"mp": {"c": "longer"}}, "any bad": {"any": {"a": "q"}}, "any gone": {"any": ...}, "lo one": {"lo": [{"a": "y"}, {"a": "q"}]}, "lo more": {"lo": [{"a": "y"}, {"a": "z"}, {"a": "longenough"}]}, "pre other": {"pre": {"zz": 2}}, "pre bad": {"pre": {"a": "q"}}, "t same type": {"t": "other"}, "t good": {"t": 3}, "r sibling": {"r": {"a": "y"}}, "r good": {"r": {"b": "y"}}, "r gone": {"r": ...},
    }.items():
        update(label, sets(**change))
    update("metadata only", lambda o: o["metadata"].update(labels={"a": "b"}))
    update("unknown field", sets(zz=1))
    call("POST", path("needs"), {"apiVersion": f"{GROUP}/v1", "kind": "Need", "metadata": {"name": "n"}, "spec": {"a": 1}, "other": "x"})
    update("needs spec", sets(a="x"), "needs", "n")
    update("needs root", lambda o: o.pop("other"), "needs", "n")
    update("multi status through main", lambda o: o.update(status={"r": 5}, spec={"a": "changed"}), "multis", "conv")
    update("multi status", lambda o: o.update(status={"r": 5}, spec={"a": "changed"}), "multis", "conv", sub="/status")
    update("multi v2", lambda o: o["spec"].update(b="q"), "multis", "conv", ver="v2")

    # tables
    bodies = {
        "full": {"metadata": {"annotations": {"a.b/c": "note"}}, "spec": {"s": "text", "i": 3, "n": 2.5, "b": True, "d": "2020-01-02T03:04:05Z", "l": ["x", "y", "z"], "o": {"x": 1, "y": [True]}, "c": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Other", "status": "False", "n": 2}], "quoted key": "q", "deep": {"deep": "d"}, "nul": None, "big": 12345678901, "e": ""}},
        "empty": {}, "wrong": {"spec": {"s": 5, "i": "x", "n": "y", "b": "z", "d": 7, "l": "notalist", "c": {}}}, "floats": {"spec": {"i": 2.9, "n": 7, "b": False, "d": "x", "l": [[1, 2], {"a": "<b>"}], "o": "plain", "s": "2020-01-02T03:04:05Z", "big": 1e21}}}
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for label, body in bodies.items():
        for plural in ("columns", "plains"):
            item = merge({"apiVersion": f"{GROUP}/v1", "kind": DEFINITIONS[plural]["spec"]["names"]["kind"], "metadata": {"name": label}}, copy.deepcopy(body))
            code, answer, _ = call("POST", path(plural), item)
            assert code == 201, answer
            _, stored, _ = call("GET", f"{path(plural)}/{label}")
            code, answer, warnings = call("GET", f"{path(plural)}/{label}", accept=table)
            stored["metadata"].pop("managedFields", None)
            now = int(time.time())
            columns = [{k: v for k, v in c.items() if k != "description"} for c in answer["columnDefinitions"]]
            done.append({"name": f"table {plural} {label}", "op": "table", "definition": plural, "version": "v1", "old": stored, "now": now, "code": code, "result": {"columns": columns, "cells": answer["rows"][0]["cells"]}})
    for n, spec in enumerate([{"s": "a", "i": 1, "b": True}, {"s": "b", "i": 10}, {}]):
        item = {"apiVersion": f"{GROUP}/v1", "kind": "Select", "metadata": {"name": f"x{n}"}, "spec": spec}
        call("POST", path("selects"), item)
    for selector in ["spec.s=a", "spec.i=10", "spec.b=true", "spec.b=", "spec.s!=a", "spec.zz=1", "metadata.name=x1", "metadata.namespace=default", "spec.i=1"]:
        code, answer, warnings = call("GET", f"{path('selects')}?fieldSelector={selector}")
        done.append(outcome({"name": f"select {selector}", "op": "select", "definition": "selects", "version": "v1", "selector": selector}, code, answer, warnings, lambda a: [i["metadata"]["name"] for i in a["items"]]))
    write("objects.jsonl", done)
    write_document("object_definitions.json", DEFINITIONS, indent=1)
    for crd in DEFINITIONS.values():
        call("DELETE", f"{CRDS}/{crd['metadata']['name']}")


def name_cases():
    """Definitions created one after the other, and the conditions each then has."""
    group = "n.sternpost.example"
    wanted = [
        ("aas", {"kind": "Aa", "shortNames": ["x"]}),
        ("bbs", {"kind": "Aa"}),
        ("ccs", {"kind": "Cc", "shortNames": ["x", "aas"], "singular": "aa", "listKind": "AaList"}),
        ("dds", {"kind": "Dd", "singular": "dds", "shortNames": ["dds", "x"]}),
        ("ees", {"kind": "AaList"}),
        ("x", {"kind": "Ff", "singular": "f"}),
        ("ggs", {"kind": "Gg", "singular": "aas", "shortNames": ["y", "y"], "categories": ["all"]}),
        ("hhs", {"kind": "Hh", "listKind": "Aa"}),
    ]
    names = [f"{plural}.{group}" for plural, _ in wanted]
    for name in names:
        call("DELETE", f"{CRDS}/{name}")
    time.sleep(5)
    out, before = [], []

    def read(name, tries=20):
        for _ in range(tries):
            _, crd, _ = call("GET", f"{CRDS}/{name}")
            if len(crd["status"].get("conditions") or []) >= 2 and crd["status"]["conditions"][-1]["reason"] != "Installing":
                break
            time.sleep(0.5)
        for c in crd["status"]["conditions"] or []:
            c.pop("lastTransitionTime")
            c.pop("observedGeneration", None)
        return {"metadata": {"name": name}, "spec": crd["spec"], "status": crd["status"]}

    for plural, more in wanted:
        crd = definition(group, plural, more["kind"], names=more)
        code, answer, _ = call("POST", CRDS, crd)
        assert code == 201, answer
        time.sleep(1)
        found = read(crd["metadata"]["name"])
        out.append({"name": f"created {plural}", "code": 201, "others": copy.deepcopy(before), "input": {"metadata": crd["metadata"], "spec": answer["spec"], "status": {}}, "result": found["status"]})
        before.append(found)
    for plural, change in [("aas", {"shortNames": ["x", "ggs"]}), ("aas", {"shortNames": []}), ("aas", {"singular": "other", "listKind": "OtherList"}), ("aas", {"listKind": "Dd"})]:
        name = f"{plural}.{group}"
        _, crd, _ = call("GET", f"{CRDS}/{name}")
        old = read(name)
        crd["spec"]["names"].update(change)
        code, answer, _ = call("PUT", f"{CRDS}/{name}", crd)
        assert code == 200, answer
        time.sleep(2)
        others = [read(n, 1) for n in names if n != name]
        out.append({"name": f"changed {plural} {json.dumps(change)}", "code": 200, "others": others, "input": {"metadata": {"name": name}, "spec": answer["spec"], "status": old["status"]}, "result": read(name)["status"]})
    write("names.jsonl", out)
    for name in names:
        call("DELETE", f"{CRDS}/{name}")
