"""The rules (x-kubernetes-validations) for record.py: definitions with them, and objects under them."""
import copy, json, random, re, time

from record import *

RULES = "x-kubernetes-validations"
GROUP = "ru.sternpost.example"
LISTMAP = xkey(x_list_type="map", x_list_map_keys=["k"])
SET = xkey(x_list_type="set")


def text(maxLength=None, **more):
    return {"type": "string", **({"maxLength": maxLength} if maxLength else {}), **more}


def apart(value):
    """A copy that shares nothing with itself."""
    return json.loads(json.dumps(value))


def spec_schema():
    item = lambda: {"type": "object", "required": ["k"], "properties": {"k": text(8), "v": INT, "w": text(8)}}
    return apart({"type": "object", "properties": {
        "s": text(10), "t": text(20), "u": text(), "i": INT, "j": INT, "d": NUM, "b": BOOL, "n": text(10, nullable=True), "e": text(enum=["one", "three"]),
        "li": arr(INT, maxItems=7), "ls": arr(text(5), maxItems=4), "lu": arr(text()), "lo": arr(obj(a=text(), b=INT)), "ll": arr(arr(INT)), "lln": arr(arr(item(), **LISTMAP), maxItems=3),
        "set": arr(text(6), maxItems=5, **SET), "lm": arr(item(), maxItems=5, **LISTMAP), "lmu": arr(item(), **LISTMAP), "lmd": arr(merge(item(), {"properties": {"in": arr(obj(a=INT)), "lm": arr(item(), **LISTMAP)}}), **LISTMAP),
        "m": {"type": "object", "maxProperties": 6, "additionalProperties": INT}, "mu": {"type": "object", "additionalProperties": text()}, "mo": {"type": "object", "maxProperties": 4, "additionalProperties": obj(a=INT, b=text(5))}, "ml": {"type": "object", "additionalProperties": arr(INT)}, "ma": {"type": "object", "additionalProperties": INT, **xkey(x_map_type="atomic")},
        "o": obj(a=text(10), b=INT, p=obj(q=text(5), r=INT)), "oa": {"type": "object", "properties": {"a": INT}, **xkey(x_map_type="atomic")}, "o2": obj(a=text(10), b=INT),
        "ios": xkey(x_int_or_string=True), "by": {"type": "string", "format": "byte"}, "dt": {"type": "string", "format": "date-time"}, "da": {"type": "string", "format": "date"}, "du": {"type": "string", "format": "duration"},
        "emb": {"type": "object", "properties": {"spec": obj(a=INT), "metadata": obj(labels={"type": "object", "additionalProperties": STR})}, **xkey(x_embedded_resource=True)}, "pre": {"type": "object", "properties": {"a": INT}, **xkey(x_preserve_unknown_fields=True)}, "bare": xkey(x_preserve_unknown_fields=True), "barel": arr(xkey(x_preserve_unknown_fields=True)), "barep": {"properties": {"a": INT}, **xkey(x_preserve_unknown_fields=True)}, "any": OBJ, "ap": {"type": "object", "additionalProperties": True},
        "a-b": INT, "a.b": INT, "a/b": INT, "namespace": text(), "if": INT, "1x": INT, "__x": INT, "a b": INT, "x__y": obj(c=INT), "self": INT, "true": BOOL,
    }})


def node_at(schema, place):
    for step in place:
        schema = schema[step] if step in ("items", "additionalProperties") else schema["properties"][step]
    return schema


def crd_of(schema, **more):
    return definition(GROUP, "tries", "Try", {"type": "object", "properties": {"spec": schema}}, **more)


def masked(value):
    return json.loads(re.sub(r"selfType\d+", "selfType", json.dumps(value)))


def told(case, *answer):
    """Causes say it all."""
    case = outcome(case, *answer, lambda a: None)
    if case.get("causes"):
        del case["message"]
    case.pop("result", None)
    return case


def rule(text, **more):
    return {"rule": text, **more}


PLACES = [[], ["o"], ["o", "p"], ["o", "p", "q"], ["s"], ["u"], ["i"], ["d"], ["b"], ["n"], ["e"], ["li"], ["li", "items"], ["ls", "items"], ["lu"], ["lu", "items"], ["lo"], ["lo", "items"], ["lo", "items", "a"], ["ll", "items", "items"], ["lln", "items"], ["lln", "items", "items"], ["lln", "items", "items", "v"], ["set"], ["set", "items"], ["lm"], ["lm", "items"], ["lm", "items", "v"], ["lmu", "items"], ["lmd", "items", "in", "items"], ["lmd", "items", "in", "items", "a"], ["lmd", "items", "lm", "items", "v"], ["m"], ["m", "additionalProperties"], ["mu", "additionalProperties"], ["mo", "additionalProperties"], ["mo", "additionalProperties", "b"], ["ml", "additionalProperties"], ["ml", "additionalProperties", "items"], ["ma", "additionalProperties"], ["oa", "a"], ["ios"], ["by"], ["dt"], ["da"], ["du"], ["emb"], ["emb", "spec"], ["emb", "metadata"], ["pre"], ["bare"], ["barel"], ["barel", "items"], ["barep"], ["barep", "a"], ["any"], ["ap"], ["a-b"], ["1x"], ["a b"], ["x__y"], ["x__y", "c"], ["namespace"]]
GENERAL = ["true", "self == self", "self == oldSelf", "oldSelf != self", "size(self) < 5", "has(self.a)", "self", "1", "'x'", "self.zz > 1", "self > 3", "self > 'a'", "foo", "self.", "self ==", "dyn(self) == 1", "type(self) == int", "self.all(x, x == x)", "self.all(x, x > 1)", "self.exists(k, k == 'a')", "self.matches('^a+$')", "self.matches('(')", "self.contains(self)", "self.a == self.a", "string(self) == 'x'", "duration(self) > duration('1h')", "self + self == self", "self.filter(x, true).size() > 0", "1/0 == 1", "int('x') == 1", "self.map(x, x).size() > 1", "oldSelf.hasValue() || self == self", "self == oldSelf || true", "'a' in self", "self['a'] == 1", "self[0] == self[0]", "self.?a.hasValue()", "sets.contains(self, self)", "[1, 2].all(x, x > self)", "quantity(self).isLessThan(quantity('1k'))", "self.find('a') == 'a'", "self.split(',').size() < 3", "ip(self).family() == 4", "url(self).getHost() == 'x'", "self.replace('a', 'b') == self", "lists.range(3).all(i, i < self)", "self.k == 'x'", "self.v < 10", "self.spec.a > 1", "self.metadata.name == 'x'", "self.kind == 'Pod'", "self.join(',') == 'x'", "format.dns1123Label().validate(self).hasValue()", "self.sum() > 3", "self.lowerAscii() == self", "self.trim() == self", "self.isSorted()"]
SPECIFIC = ["self.s == self.t", "self.u == self.u", "self.s.contains(self.t)", "self.u.contains(self.u)", "self.i in [1, 2, 3]", "self.li.all(x, x > 0)", "self.lu.all(x, x == 'a')", "self.lu.all(x, self.lu.all(y, x == y))", "self.lo.all(x, x.a == 'a')", "self.lo.all(x, self.lo.exists(y, y.b == x.b))", "self.mu.all(k, self.mu[k] == 'x')", "self.ml.all(k, self.ml[k].all(x, x > 1))", "self.?s.orValue('abc') == 'abc'", "self.o == self.o2", "self.o.a == self.o2.a", "self.m == {'a': 1}", "self.set == ['a']", "self.lm == self.lm", "self.ios == 1", "self.by == b'x'", "self.dt < timestamp('2020-01-01T00:00:00Z')", "self.du < duration('1h')", "self.n == null", "self.bare == 1", "self.barep == 1", "self.pre.a == 1", "self.pre.zz == 1", "self.emb.metadata.name == 'x'", "self.emb.metadata.labels == {}", "self.emb.spec.a == 1", "self.a__dash__b == 1", "self.a__dot__b == 1", "self.a__slash__b == 1", "self.namespace == 'x'", "self.__namespace__ == 'x'", "self.if == 1", "self.__if__ == 1", "self.1x == 1", "self.__x == 1", "self.__underscores__x == 1", "self.x__underscores__y.c == 1", "self.self == 1", "self.__true__", "self.true", "self.lu.map(x, x + x).size() > 0", "self.u.split(',').all(x, x == 'a')", "self.li.sort()[0] == 1", "self.e == 'two'", "self.d > 1", "self.i > 1.5", "self.i == self.d", "self.any == self.any", "self.ap.a == 1"]
MORE = [{}, {"message": "m"}, {"messageExpression": "'x'"}, {"messageExpression": "self"}, {"messageExpression": "'a' + string(self)"}, {"messageExpression": "'%s'.format([self])"}, {"messageExpression": "self.zz"}, {"messageExpression": "'is ' + self.u"}, {"messageExpression": "oldSelf == self ? 'a' : 'b'"}, {"optionalOldSelf": True}, {"optionalOldSelf": False}, {"reason": "FieldValueForbidden", "fieldPath": ".o.a"}, {"message": " "}, {"message": "a\nb"}, {"reason": "Bad"}, {"fieldPath": ".zz"}, {"messageExpression": ""}, {"messageExpression": " "}]


def patch_of(base, new):
    """A merge patch that makes `new` of `base`, or nothing where there is none."""
    if not (isinstance(base, dict) and isinstance(new, dict)):
        return new
    patch = {key: None for key in base if key not in new}
    for key, value in new.items():
        if key not in base:
            patch[key] = value
        elif base[key] != value:
            patch[key] = patch_of(base[key], value)
    return patch


def removing(patch):
    """A merge patch as `merge` takes it."""
    if not isinstance(patch, dict):
        return patch
    return {key: ... if value is None else removing(value) for key, value in patch.items()}


def compact(crd):
    """The definition as a patch to `rule_schema.json`, where that says it all."""
    versions = crd["spec"]["versions"]
    schema = versions[0]["schema"]["openAPIV3Schema"]
    spec = schema.get("properties", {}).get("spec")
    if crd == crd_of(spec) and len(spec.get("properties", {})) > 20:
        patch = patch_of(spec_schema(), spec)
        patched = spec_schema()
        if merge(patched, removing(patch)) == spec:
            return {"patch": patch}
    return {"input": crd}


def definition_cases():
    done = []
    write_document("rule_schema.json", spec_schema())

    def attempt(name, schema, **more):
        crd = copy.deepcopy(schema if "spec" in schema else crd_of(schema, **more))
        code, answer, warnings = call("POST", CRDS + "?dryRun=All", crd)
        done.append(told({"name": name, "op": "create", **compact(crd)}, code, masked(answer), warnings))

    def at(name, place, *rules, change=None):
        schema = spec_schema()
        node_at(schema, place)[RULES] = list(rules)
        if change:
            change(schema)
        attempt(name, schema)

    for place in PLACES:
        at(f"true at {place}", place, rule("true"))
        at(f"old at {place}", place, rule("self == oldSelf"))
        if place:
            at(f"true at {place} and above", place, rule("true"), change=lambda s: s.update({RULES: [rule("true")]}))
            at(f"wrong at {place} and next above", place, rule("self.zz"), change=lambda s: node_at(s, place[:-1]).update({RULES: [rule("true")]}))
    for text in SPECIFIC:
        at(f"spec {text}", [], rule(text))
    rng = random.Random(5)
    for n in range(400):
        schema, names = spec_schema(), []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            place = rng.choice(PLACES)
            text = rng.choice(GENERAL + SPECIFIC if not place else GENERAL)
            node_at(schema, place).setdefault(RULES, []).append(rule(text, **rng.choice(MORE)))
        attempt(f"random #{n}", schema)

    # one rule's own fields
    for label, r in {
        "empty rule": rule(""), "blank rule": rule("  "), "spaces around": rule("  self.zz  "), "two lines": rule("self.i > 1 &&\nself.zz", message="m"), "two lines bare": rule("self.i > 1 &&\nself.j > 1"), "trailing newline": rule("self.i > 1\n"), "tab": rule("self.i >\tself.zz"), "unicode": rule("self.s == 'é😀' && self.zz"), "many errors": rule("self.zz && self.yy || foo(1) && bar"), "html": rule("self.i < 1 && self.zz > '<&>'", message="<m>"), "comment": rule("true // yes"),
        "reason empty": rule("true", reason=""), "reasons": rule("true", reason="FieldValueNotSupported"), "message break": rule("true", message="a\rb"), "message and expression": rule("true", message="m", messageExpression="1"), "expression instantiation": rule("true", messageExpression="string(int('x'))"), "expression dyn": rule("true", messageExpression="dyn('x')"), "expression uses unknown": rule("true", messageExpression="foo"), "expression dear": rule("true", messageExpression="self.lu.map(x, self.lu.map(y, x + y).join()).join()"), "expression dear 2": rule("true", messageExpression="self.u + self.u"), "expression very dear": rule("true", messageExpression="self.lu.all(x, self.lu.all(y, self.lu.all(z, x == y))) ? 'a' : 'b'"),
        "fieldPath empty": rule("true", fieldPath=""), "fieldPath blank": rule("true", fieldPath=" "), "fieldPath dot": rule("true", fieldPath="."), "fieldPath no dot": rule("true", fieldPath="s"), "fieldPath ok": rule("true", fieldPath=".o.p.q"), "fieldPath map": rule("true", fieldPath=".m.foo"), "fieldPath map quoted": rule("true", fieldPath=".m['foo bar']"), "fieldPath quoted": rule("true", fieldPath="['o']['p']"), "fieldPath index": rule("true", fieldPath=".lo[0].a"), "fieldPath list": rule("true", fieldPath=".lo.a"), "fieldPath dollar": rule("true", fieldPath="$.s"), "fieldPath double": rule("true", fieldPath=".o..p"), "fieldPath end dot": rule("true", fieldPath=".o."), "fieldPath double quoted": rule("true", fieldPath=".m[\"a\"]"), "fieldPath escape": rule("true", fieldPath=".m['a\\'b']"), "fieldPath bad escape": rule("true", fieldPath=".m['a\\qb']"), "fieldPath open": rule("true", fieldPath=".m['a"), "fieldPath dashed": rule("true", fieldPath=".a-b"), "fieldPath space": rule("true", fieldPath=".a b"), "fieldPath newline": rule("true", fieldPath=".o\n.a"), "fieldPath digits": rule("true", fieldPath=".1x"), "fieldPath ap": rule("true", fieldPath=".ap.zz"), "fieldPath any": rule("true", fieldPath=".any.zz"), "fieldPath pre": rule("true", fieldPath=".pre.zz"), "fieldPath in map value": rule("true", fieldPath=".mo.key.b"), "fieldPath dotted": rule("true", fieldPath=".a.b"), "fieldPath dotted quoted": rule("true", fieldPath="['a.b']"), "fieldPath metadata": rule("true", fieldPath=".emb.metadata"), "fieldPath quoted empty": rule("true", fieldPath="['']"), "fieldPath unicode": rule("true", fieldPath=".m['é']"), "fieldPath quote word": rule("true", fieldPath=".m.a'b"),
        "optional unused": rule("true", optionalOldSelf=True), "optional false unused": rule("true", optionalOldSelf=False), "optional used": rule("oldSelf.hasValue()", optionalOldSelf=True), "optional false used": rule("self == oldSelf", optionalOldSelf=False), "optional compared": rule("self == oldSelf", optionalOldSelf=True), "optional in message": rule("oldSelf.hasValue()", optionalOldSelf=True, messageExpression="oldSelf.s"), "optional select": rule("oldSelf.?s.orValue('') == self.s", optionalOldSelf=True), "old only in message": rule("true", messageExpression="oldSelf.s"), "optional bad rule": rule("foo", optionalOldSelf=True), "authorizer": rule("authorizer.path('/x').check('get').allowed()"), "jsonpatch": rule("jsonpatch.escapeKey('a') == 'a'"), "variables": rule("variables.x"),
        "bad literal": rule("duration('x') == duration('1h')"), "bad timestamp": rule("timestamp('x') == timestamp('y')"), "bad format": rule("'%z'.format([1]) == ''"), "fold": rule("int('x') == 1"), "fold find": rule("'a'.find('(') == 'a'"), "mixed list": rule("[1, 'a'].size() == 1"), "reserved": rule("for == 1"), "deep": rule("(" * 60 + "true" + ")" * 60), "dynamic": rule("dyn(true)"), "optional result": rule("self.?b"), "null result": rule("null"),
    }.items():
        at(f"rule {label}", [], r)
    # costs
    for label, (place, *rules) in {
        "per rule": ([], rule("self.lu.all(x, self.lu.all(y, x == y))")), "just over": ([], rule("self.lu.all(x, x.contains('abcdefghij'))")), "five dear": ([], *[rule(f"self.lu.all(x, x == '{n}')") for n in range(5)]), "many dear": ([], *[rule(f"self.lu.all(x, x == '{n}') && self.lu.exists(x, x == 'a')") for n in range(15)]), "under list": (["lu", "items"], rule("self == 'a'")), "under list dear": (["lu", "items"], rule("self.contains('abcdefghijklmnopqrstuvwxyz')")), "under map": (["mu", "additionalProperties"], rule("self.size() < 5 && self.contains('a')")), "under both": (["ml", "additionalProperties", "items"], rule("self > 1 && self < 10 && self != 5 && self != 7")), "bounded": (["mo", "additionalProperties", "b"], rule("self == self")), "message under list": (["lo", "items"], rule("self.a == 'x'", messageExpression="'bad ' + self.a")), "many messages": ([], *[rule("true", messageExpression="self.lu.all(x, x == 'a') ? 'a' : 'b'") for n in range(18)]), "broken and dear": ([], rule("foo"), rule("self.lu.all(x, self.lu.all(y, x == y))"), rule("bar")), "total twice": ([], rule("self.lu.all(x, self.lu.all(y, x == y))"), rule("self.mu.all(x, self.mu.all(y, x == y))", messageExpression="self.lu.map(x, x + x).join()")), "cheap and dear": ([], *[rule(f"self.i > {n}") for n in range(3)], *[rule("self.lu.all(x, x == 'a' || x == 'b' || x == 'c')") for n in range(30)]),
        "exact million": ([], *[rule("self.u.matches('^a$')") for n in range(40)]), "deeper": (["lln", "items", "items", "v"], rule("self > 1")), "deep dear": (["ll", "items", "items"], rule("self in [1, 2, 3, 4, 5, 6]")),
    }.items():
        at(f"cost {label}", place, *rules)
    for n in (3, 20, 100, 1000, 3000, 10000):
        at(f"cost of maxItems {n}", [], rule("self.lu.all(x, self.lu.all(y, x == y))"), change=lambda s: merge(s["properties"]["lu"], {"maxItems": n, "items": {"maxLength": 50}}))
        at(f"cost below maxItems {n}", ["lu", "items"], rule("self.contains('abcdefghijk')"), change=lambda s: merge(s["properties"]["lu"], {"maxItems": n}))
        at(f"cost below maxProperties {n}", ["mu", "additionalProperties"], rule("self.contains('abcdefghijk')"), change=lambda s: merge(s["properties"]["mu"], {"maxProperties": n, "additionalProperties": {"maxLength": 64}}))
    # several places at once, and wrong schemas around rules
    at("places: child and parent broken", ["o"], rule("foo"), change=lambda s: (node_at(s, ["o", "p"]).update({RULES: [rule("bar")]}), s.update({RULES: [rule("baz")]})))
    at("schema error below", ["o"], rule("foo"), change=lambda s: (node_at(s, ["o", "a"]).update(pattern="("), node_at(s, ["i"]).update({RULES: [rule("bar")]})))
    at("schema error beside", ["o"], rule("foo"), change=lambda s: node_at(s, ["s"]).update(pattern="("))
    at("rule error below", ["o"], rule("foo"), change=lambda s: node_at(s, ["o", "p"]).update({RULES: [rule("")]}))
    at("rule error beside", ["o"], rule("foo"), rule(""), change=lambda s: node_at(s, ["o", "p"]).update({RULES: [rule("bar")]}))
    at("list type error", ["o"], rule("foo"), change=lambda s: node_at(s, ["lo"]).update(xkey(x_list_type="zz")))
    at("structural error", ["o"], rule("foo"), change=lambda s: node_at(s, ["s"]).pop("type"))
    at("in logic", ["o"], rule("foo"), change=lambda s: node_at(s, ["o"]).update(allOf=[{RULES: [rule("true")]}], anyOf=[{"properties": {"a": {RULES: [rule("true")]}}}]))
    for label, root in {"root rule": {"type": "object", RULES: [rule("self.metadata.name == 'x'")], "properties": {"spec": obj(a=INT)}}, "root bad": {"type": "object", RULES: [rule("self.metadata.labels == {}"), rule("self.spec.a == oldSelf.spec.a"), rule("self.zz")], "properties": {"spec": obj(a=INT)}}, "root nullable": {"type": "object", "nullable": True, RULES: [rule("foo")], "properties": {"spec": obj(a=INT)}}, "root metadata rule": obj(metadata={"type": "object", RULES: [rule("true")]}), "root metadata name rule": obj(metadata=obj(name={"type": "string", RULES: [rule("self.startsWith('x')")]})), "root metadata name bad": obj(metadata=obj(name={"type": "string", RULES: [rule("self.zz")]})), "root apiVersion": obj(apiVersion={"type": "string", RULES: [rule("self.zz")]}), "root status": {"type": "object", RULES: [rule("self.status.a == 1")], "properties": {"status": obj(a=INT)}}, "root preserve": {"type": "object", RULES: [rule("self.zz == 1")], **xkey(x_preserve_unknown_fields=True)}, "root fieldPath": {"type": "object", RULES: [rule("true", fieldPath=".metadata.name"), rule("true", fieldPath=".spec.a"), rule("true", fieldPath=".kind")], "properties": {"spec": obj(a=INT)}}, "root untyped": {RULES: [rule("true")], "type": "object"}, "root dear": {"type": "object", RULES: [rule("self.metadata.name.contains(self.metadata.generateName)")]}}.items():
        attempt(label, definition(GROUP, "tries", "Try", root))
    attempt("root status subresource", definition(GROUP, "tries", "Try", versions=[version("v1", storage=True, schema={"type": "object", RULES: [rule("self.zz")], "properties": {"spec": obj(a=INT)}}, subresources={"status": {}})]))
    two = lambda a, b: definition(GROUP, "tries", "Try", versions=[version("v1", storage=True, schema=obj(spec=obj(a={"type": "integer", RULES: [rule(a)]}))), version("v2", schema=obj(spec=obj(a={"type": "integer", RULES: [rule(b)]})))])
    attempt("versions alike", two("foo", "foo"))
    attempt("versions differ", two("foo", "bar"))
    # defaults
    for label, (schema, default) in {"good": ({"type": "integer", RULES: [rule("self > 3")]}, 5), "fails": ({"type": "integer", RULES: [rule("self > 3")]}, 1), "message": ({"type": "integer", RULES: [rule("self > 3", message="too few", reason="FieldValueForbidden")]}, 1), "object": ({"type": "object", "properties": {"a": {"type": "integer", RULES: [rule("self > 3")]}}, RULES: [rule("self.a > 5", fieldPath=".a")]}, {"a": 1}), "transition": ({"type": "object", "properties": {"a": INT}, RULES: [rule("self.a > oldSelf.a")]}, {"a": 1}), "transition good": ({"type": "object", "properties": {"a": INT}, RULES: [rule("self.a == oldSelf.a")]}, {"a": 1}), "uncompilable": ({"type": "integer", RULES: [rule("foo")]}, 1), "uncompilable below": ({"type": "object", "properties": {"a": {"type": "integer", RULES: [rule("foo")]}}}, {"a": 1}), "not below": ({"type": "object", "properties": {"a": {"type": "integer", RULES: [rule("foo")]}}}, {}), "error": ({"type": "integer", RULES: [rule("1 / self > 3")]}, 0), "list": (arr({"type": "integer", RULES: [rule("self > 3")]}), [1, 5, 2]), "map": ({"type": "object", "additionalProperties": {"type": "integer", RULES: [rule("self > 3")]}}, {"a": 1}), "wrong type too": ({"type": "integer", RULES: [rule("self > 3")]}, "x"), "null": ({"type": "integer", "nullable": True, RULES: [rule("self > 3")]}, None), "optional": ({"type": "integer", RULES: [rule("oldSelf.hasValue()", optionalOldSelf=True)]}, 1), "optional none": ({"type": "integer", RULES: [rule("!oldSelf.hasValue()", optionalOldSelf=True)]}, 1), "minimum": ({"type": "integer", "minimum": 9, RULES: [rule("self > 3")]}, 1), "expression": ({"type": "integer", RULES: [rule("self > 3", messageExpression="'got %d'.format([self])")]}, 1), "dear": ({"type": "string", RULES: [rule("self.contains(self)")]}, "x")}.items():
        attempt(f"default {label}", crd_of(obj(x={**schema, "default": default})))
    attempt("default in parent", crd_of(obj(x={"type": "object", RULES: [rule("self.y > 3")], "properties": {"y": {"type": "integer", "default": 1}}, "default": {}})))
    attempt("default within rule list", crd_of(obj(x=arr(obj(y={"type": "integer", "default": 1, RULES: [rule("self > 3")]})))))
    # updates
    old = crd_of(obj(a={"type": "integer", RULES: [rule("self > 3")]}))
    call("DELETE", f"{CRDS}/{old['metadata']['name']}")
    time.sleep(3)
    code, answer, _ = call("POST", CRDS, old)
    assert code == 201, answer
    time.sleep(2)
    for label, new in {"same": old, "other rule": crd_of(obj(a={"type": "integer", RULES: [rule("self > 4")]})), "bad rule": crd_of(obj(a={"type": "integer", RULES: [rule("self > 3"), rule("foo")]})), "dear": crd_of(obj(a=arr({"type": "string", RULES: [rule("self.contains(self)")]})))}.items():
        _, stored, _ = call("GET", f"{CRDS}/{old['metadata']['name']}")
        body = copy.deepcopy(stored)
        body["spec"]["versions"] = copy.deepcopy(new["spec"]["versions"])
        code, answer, warnings = call("PUT", f"{CRDS}/{old['metadata']['name']}?dryRun=All", body)
        for crd in (stored, body):
            crd["metadata"] = {"name": crd["metadata"]["name"]}
            for condition in crd["status"].get("conditions") or []:
                condition.pop("lastTransitionTime", None)
        done.append(told({"name": f"update {label}", "op": "update", "old": stored, "input": body}, code, masked(answer), warnings))
    call("DELETE", f"{CRDS}/{old['metadata']['name']}")
    write("rule_definitions.jsonl", done)


# ---------------------------------------------------------------------------------------------- objects

def ruled(schema, *rules):
    return {**copy.deepcopy(schema), RULES: [r if isinstance(r, dict) else rule(r) for r in rules]}


def item(*rules, v=INT, **more):
    return ruled({"type": "object", "required": ["k"], "properties": {"k": text(8), "v": v, "w": text(8)}}, *rules)


PLAIN = {"type": "object", "properties": {
    "i": ruled(INT, "self > 3"), "i2": ruled(INT, rule("self > 3", message="too small"), rule("self < 1", message=" spaced "), rule("self % 2 == 0", messageExpression="'odd: %d'.format([self])")),
    "s": ruled(text(10), "self.startsWith('a')"), "sd": ruled(text(10), rule("self == 'x'", reason="FieldValueDuplicate", message="m")), "sf": ruled(text(10), rule("self == 'x'", reason="FieldValueForbidden", message="m")), "sr": ruled(text(10), rule("self == 'x'", reason="FieldValueRequired")), "si": ruled(text(10), rule("self == 'x'", reason="FieldValueInvalid")),
    "d": ruled(NUM, "self > 1.5"), "b": ruled(BOOL, "self"), "n": ruled(text(10, nullable=True), "self.size() > 1"), "ios": ruled(xkey(x_int_or_string=True), "type(self) == int ? self > 3 : self == 'x'", "self == 5 || self == 'x'"), "ios2": ruled(xkey(x_int_or_string=True), "1 / 0 == self"),
    "by": ruled({"type": "string", "format": "byte"}, "self.size() > 2"), "dt": ruled({"type": "string", "format": "date-time"}, "self > timestamp('2020-01-01T00:00:00Z')"), "da": ruled({"type": "string", "format": "date"}, "self.getFullYear() == 2020"), "du": ruled({"type": "string", "format": "duration"}, "self < duration('1h')", "self.getSeconds() > 10"),
    "o": ruled(obj(a=ruled(INT, "self > 3"), b=text(10), p=ruled(obj(q=INT, r=INT), "!has(self.q) || self.q > 3")), rule("self.a > 5", fieldPath=".a"), rule("self.b == 'x'", fieldPath=".p.q", reason="FieldValueForbidden", message="b and q"), "has(self.b)", "self.p.q == self.p.r"),
    "od": ruled(obj(a=INT), rule("self.a > 5", reason="FieldValueDuplicate"), rule("self.a > 6", reason="FieldValueRequired", message="need"), rule("self.a > 7", reason="FieldValueForbidden", fieldPath=".a")),
    "li": ruled(arr(ruled(INT, "self > 3")), "self.size() < 4", "self.all(x, x < 10)", "self.exists_one(x, x == 5)"), "lo": arr(ruled(obj(a=INT, b=text(5)), rule("self.a > 1", fieldPath=".b"))), "set": ruled(arr(text(6), **SET), "self == ['b', 'a']", "self + ['a'] == self"), "lm": ruled(arr(item("self.v > 3", rule("self.k != 'x'", fieldPath=".k")), **LISTMAP), "self.all(x, x.v < 10)", "self.exists(x, x.k == 'a')"), "lmk": ruled(arr({"type": "object", "required": ["namespace"], "properties": {"namespace": text(5), "v": INT}}, **xkey(x_list_type="map", x_list_map_keys=["namespace"])), "self == self"),
    "ap": ruled({"type": "object", "additionalProperties": True}, rule("false", fieldPath=".x")), "mf": ruled(obj(m={"type": "object", "additionalProperties": INT}, mo={"type": "object", "additionalProperties": obj(a=INT)}), rule("has(self.m)", fieldPath=".m['x y']"), rule("has(self.mo)", fieldPath=".mo.k.a"), rule("has(self.mo)", fieldPath="['mo']['a b']['a']")), "m": ruled({"type": "object", "additionalProperties": ruled(INT, "self > 3"), "maxProperties": 9}, "self.all(k, k.startsWith('a'))", "has(self.ab)", rule("'a b' in self", fieldPath="['a b']")), "mn": ruled({"type": "object", "additionalProperties": ruled({"type": "string", "nullable": True}, "self == 'x'")}, "has(self.a)", "dyn(self.a) == null"), "mo": {"type": "object", "additionalProperties": ruled(obj(a=INT), "self.a > 1", rule("has(self.a)", fieldPath=".a"))},
    "emb": ruled({"type": "object", "properties": {"spec": obj(a=ruled(INT, "self > 1"))}, **xkey(x_embedded_resource=True)}, "self.metadata.name == 'x'", "self.kind == 'Pod'", "has(self.metadata.generateName)", "self.spec.a > 2"), "pre": ruled({"type": "object", "properties": {"a": INT}, **xkey(x_preserve_unknown_fields=True)}, "self.a > 1", "self == self"), "nul": ruled({"type": "object", "nullable": True, "properties": {"a": text(5, nullable=True)}}, "has(self.a)"),
    "barep": {"properties": {"a": ruled(INT, "self > 3"), "o": obj(b=ruled(INT, "self > 3"))}, **xkey(x_preserve_unknown_fields=True)}, "emb2": {"type": "object", "properties": {"metadata": ruled(obj(labels={"type": "object", "additionalProperties": ruled(STR, "self == 'x'")}), "self.labels.size() < 2"), "kind": ruled(STR, "self == 'Pod'")}, **xkey(x_embedded_resource=True)}, "2x": ruled(obj(a=ruled(INT, "self > 3"), **{"3x": ruled(INT, "self > 4")}), "self.a > 4"), "pl": arr({"properties": {"a": ruled(INT, "self > 3")}, **xkey(x_preserve_unknown_fields=True)}),
    "a-b": ruled(INT, "self > 3"), "1x": ruled(INT, "self > 3"), "esc": ruled({"type": "object", "properties": {"a-b": INT, "namespace": text(5), "if": INT, "__x": INT, "a.b": INT}}, "!has(self.a__dash__b) || self.a__dash__b > 3", "!has(self.namespace) || self.namespace == 'x'", "!has(self.__if__) || self.if > 1", "self.__underscores__x > 1 || self.a__dot__b > 1"),
    "err": ruled(obj(a=INT, l=arr(INT), m={"type": "object", "additionalProperties": INT}, s=text(10)), "self.a / (self.a - 1) > 0", rule("self.l[1] > 0", message="an item"), rule("self.m.x > 0", fieldPath=".m", reason="FieldValueForbidden", messageExpression="'no'"), "self.s.matches(self.s)", "dyn(self.a) + dyn('x') == 1", "int(self.s) > 1"),
    "msg": ruled(obj(a=INT, s=text(), l=arr(text(), maxItems=10)), rule("self.a != 1", messageExpression="self.s"), rule("self.a != 1", messageExpression="self.s", message="plain"), rule("self.a != 2", messageExpression="string(10 / (self.a - 2)) == '' ? 'a' : 'b'", message="from message"), rule("self.a != 2", messageExpression="self.l[9]"), rule("self.a != 3", messageExpression="self.l.join(', ')"), rule("self.a != 4", messageExpression="'%s'.format([self.l.map(x, x + x).map(x, x.upperAscii())])"), rule("self.a != 5", messageExpression="  'x ' + self.s ")),
    "opt": ruled(obj(a=INT, s=text(10)), "self.?a.orValue(5) > 3", "self.?s.optMap(x, x.size() > 1).orValue(true)"), "req": {"type": "object", "required": ["x"], "properties": {"x": ruled(INT, "self > 3"), "y": ruled({"type": "integer", "minimum": 10}, "self > 3"), "e": ruled(text(enum=["a", "b"]), "self == 'a'")}}, "def": ruled({"type": "integer", "default": 5}, "self > 3"), "trim": ruled(INT, rule("  self > 3 \n", message=" lines ")), "trim2": ruled(INT, "  self > 3  "),
    "q": ruled(text(20), "isQuantity(self) && quantity(self).isLessThan(quantity('10'))"), "ip": ruled(text(40), "isIP(self)", "ip(self).family() == 4"), "url": ruled(text(40), "url(self).getHost() == 'x'"), "fmt": ruled(text(40), "!format.dns1123Label().validate(self).hasValue()"), "sem": ruled(text(40), "semver(self).isGreaterThan(semver('1.2.3'))"),
}}
OLD = {"type": "object", "properties": {
    "i": ruled(INT, "self >= oldSelf"), "im": ruled(INT, rule("self == oldSelf", message="immutable", reason="FieldValueForbidden")), "io": ruled(INT, rule("!oldSelf.hasValue() || oldSelf.value() <= self", optionalOldSelf=True)), "io2": ruled(INT, rule("oldSelf.hasValue()", optionalOldSelf=True, message="must exist")), "ie": ruled(INT, rule("self == oldSelf", messageExpression="'was %d, is %d'.format([oldSelf, self])")), "ioe": ruled(INT, rule("oldSelf.orValue(self) == self", optionalOldSelf=True, messageExpression="oldSelf.hasValue() ? 'had' : 'new'", message="fallback")), "mix": ruled(INT, "self > 3", "self > oldSelf"), "mm": ruled(INT, rule("self > 3", messageExpression="'from %d'.format([oldSelf])")), "mm2": ruled(INT, rule("self > 3", messageExpression="'from %d'.format([oldSelf])"), "self > oldSelf || true"),
    "s": ruled(text(10), "self > 'b'"), "n": ruled(text(10, nullable=True), "self == oldSelf"),
    "o": ruled(obj(a=ruled(INT, "self > 3"), b=ruled(text(10), "self == oldSelf"), c=obj(d=ruled(INT, "self > 3"), e=INT)), "has(self.b) == has(oldSelf.b)", "self.a > 4"), "lm": ruled(arr(item("self.v > 3", rule("self.v >= oldSelf.v", fieldPath=".v"), v=ruled(INT, "self != 7", "self <= oldSelf + 5")), **LISTMAP), "self.size() >= oldSelf.size()"), "la": ruled(arr(ruled(INT, "self > 3")), "self == oldSelf || self.size() > 1"), "lo": arr(ruled(obj(a=ruled(INT, "self > 3"), b=INT), "self.a > 4")), "set": ruled(arr(ruled(text(5), "self != 'z'"), **SET), "self == oldSelf"), "m": ruled({"type": "object", "additionalProperties": ruled(INT, "self > 3", "self >= oldSelf")}, "oldSelf.all(k, k in self)"), "ma": {"type": "object", "additionalProperties": ruled(INT, "self > 3", "self >= oldSelf"), **xkey(x_map_type="atomic")},
    "pre": ruled({"type": "object", "properties": {"a": ruled(INT, "self > 3")}, **xkey(x_preserve_unknown_fields=True)}, "self.a > 4"), "e": ruled(obj(x=INT, y=INT), "self.x / self.y > 3"), "min": ruled({"type": "integer", "minimum": 10}, "self > 20"), "bad": {"type": "integer", "maximum": 5}, "long": ruled(text(), "self.size() > 3"), "def": ruled({"type": "integer", "default": 5}, "self == oldSelf"), "lln": arr(arr(item(v=ruled(INT, "self > 3")), **LISTMAP)), "emb": ruled({"type": "object", "properties": {"spec": obj(a=ruled(INT, "self > 3", "self >= oldSelf"))}, **xkey(x_embedded_resource=True)}, "self.metadata.name == oldSelf.metadata.name"), "two": arr({"type": "object", "required": ["k", "p"], "properties": {"k": text(4), "p": INT, "v": ruled(INT, "self > 3", "self >= oldSelf")}}, **xkey(x_list_type="map", x_list_map_keys=["k", "p"])),
}}
ROOT = {"type": "object", RULES: [rule("self.spec.a > 3", fieldPath=".spec.a"), rule("self.metadata.name.startsWith('x')", fieldPath=".metadata.name"), rule("self.spec.a > 3"), rule("!has(self.status) || self.status.b >= oldSelf.status.b"), rule("self.kind == 'Root'")], "properties": {"metadata": obj(name={"type": "string", RULES: [rule("self.size() < 4")]}), "spec": obj(a=INT), "status": ruled(obj(b=ruled(INT, "self > 3")), "self.b > 4")}}
COSTS = {"type": "object", "properties": {"l": ruled(arr(INT), rule("self.all(x, self.all(y, x == x))", message="square"), "self.size() < 5"), "s": arr(ruled(text(1000), "self.split('').all(x, x.size() == 1)"), maxItems=100), "me": ruled(obj(l=arr(INT)), rule("self.l.size() < 2", messageExpression="self.l.all(x, self.l.all(y, x == x)) ? 'a' : 'b'"))}}
for ruled_list, most in (("l", 1400),):
    COSTS["properties"][ruled_list]["maxItems"] = most
COSTS["properties"]["me"]["properties"]["l"]["maxItems"] = 1400


def object_cases():
    definitions = {
        "plains": definition(GROUP, "plains", "Plain", under_spec(PLAIN)), "olds": definition(GROUP, "olds", "Old", under_spec(OLD)), "costs": definition(GROUP, "costs", "Cost", under_spec(COSTS)),
        "roots": definition(GROUP, "roots", "Root", versions=[version("v1", storage=True, schema=ROOT, subresources={"status": {}})]),
        "laxes": definition(GROUP, "laxes", "Lax", under_spec(without_rules(OLD))),
    }
    for crd in definitions.values():
        call("DELETE", f"{CRDS}/{crd['metadata']['name']}")
    time.sleep(4)
    for name, crd in definitions.items():
        code, answer, _ = call("POST", CRDS, crd)
        assert code == 201, json.dumps(answer, indent=1)[:3000]
    time.sleep(6)
    done, olds = [], {}
    path = lambda plural: f"/apis/{GROUP}/v1/namespaces/default/{plural}"

    def kept(answer):
        for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "namespace"):
            answer["metadata"].pop(name, None)
        return answer

    def create(name, plural, body):
        crd = definitions[plural]
        full = {"apiVersion": f"{GROUP}/v1", "kind": crd["spec"]["names"]["kind"], "metadata": {"name": "xa"}, **copy.deepcopy(body)}
        code, answer, warnings = call("POST", path(plural) + "?dryRun=All", full)
        done.append(told({"name": name, "op": "create", "definition": plural, "body": full}, code, masked(answer), warnings))

    values = {
        "i": [1, 3, 4, 5.0, "x", None, 3000000000], "i2": [0, 1, 2, 3, 4, -7], "s": ["a", "b", "", "éa"], "sd": ["x", "y"], "sf": ["x", "y"], "sr": ["x", "y"], "si": ["x", "y\"z"], "d": [1, 2, 1.5, 1.6, 1e30, 0.0000001, -1e21], "b": [True, False], "n": [None, "a", "ab"], "ios": [1, 5, "x", "y", "5"], "ios2": [1, "x"],
        "by": ["YWJj", "YQ==", "", "!!"], "dt": ["2021-01-01T00:00:00Z", "2019-01-01T00:00:00.5+02:00", "x"], "da": ["2020-05-05", "2021-05-05", "nope"], "du": ["30s", "2h", "5s", "1 day", "x", "1w", "90m"],
        "o": [{}, {"a": 1}, {"a": 4, "b": "x"}, {"a": 9, "b": "x", "p": {"q": 5, "r": 5}}, {"a": 9, "b": "y", "p": {"q": 1, "r": 5}}, {"b": "x", "p": {}}, {"a": 9, "b": "x", "p": {"q": 5}}, {"a": None, "b": "x"}], "od": [{"a": 1}, {"a": 6}, {"a": 7}, {"a": 8}, {}],
        "li": [[], [5], [1, 5], [5, 5], [5, 6, 7, 8], [11, 1, 5, 2], [None]], "lo": [[{"a": 1}, {"a": 5}, {}], [{"b": "x"}], []], "set": [["a", "b"], ["b", "a"], ["a"], ["c", "d"], []], "lm": [[{"k": "a", "v": 5}], [{"k": "b", "v": 1}, {"k": "x", "v": 11}], [{"k": "a"}], []], "lmk": [[{"namespace": "a"}], [{"namespace": "a"}, {"namespace": "b"}]],
        "ap": [{}, {"x": 1}], "mf": [{}, {"m": {}}],
        "m": [{}, {"ab": 5, "a b": 5}, {"b": 1}, {"ab": 1, "a b": 9, "zz": 2}, {"ab": 9}], "mn": [{"a": None}, {"a": "x"}, {"b": None, "c": "y"}], "mo": [{"k": {"a": 1}, "l": {}, "m m": {"a": 5}}, {"k": {"a": 0}}],
        "emb": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "generateName": "y"}, "spec": {"a": 5}}, {"apiVersion": "v1", "kind": "Nod", "metadata": {"name": "y", "labels": {"a": "b"}}, "spec": {"a": 0}}, {"apiVersion": "v1", "kind": "Pod"}], "pre": [{"a": 5, "zz": {"y": 1}}, {"zz": 1}, {"a": 0}], "nul": [None, {}, {"a": None}, {"a": "x"}],
        "barep": [{"a": 1}, {"a": 9, "o": {"b": 1}}, 5], "emb2": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "x"}}}, {"apiVersion": "v1", "kind": "Nod", "metadata": {"labels": {"a": "y", "b": "x"}}}, {"apiVersion": "v1", "kind": "Nod", "metadata": {}}], "2x": [{"a": 1}, {"a": 5, "3x": 1}], "pl": [[{"a": 1}, {"a": 5}, 7]],
        "a-b": [1, 5], "1x": [1, 5], "esc": [{"a-b": 1}, {"namespace": "y", "__x": 5}, {"if": 0, "a.b": 5}, {"__x": 0}, {}],
        "err": [{"a": 1, "l": [1, 2], "m": {"x": 1}, "s": "5"}, {"a": 3, "l": [1], "m": {}, "s": "("}, {"a": 3, "l": [1, 0], "m": {"x": 0}, "s": "a*"}, {}, {"a": 5, "s": "12"}],
        "msg": [{"a": 1, "s": "hello"}, {"a": 1, "s": ""}, {"a": 1, "s": "  "}, {"a": 1, "s": "two\nlines"}, {"a": 1, "s": "cr\rhere"}, {"a": 1, "s": " trimmed "}, {"a": 1, "s": "\n"}, {"a": 1}, {"a": 1, "s": "x" * 5120}, {"a": 1, "s": "x" * 5121}, {"a": 1, "s": "é" * 2560}, {"a": 1, "s": "é" * 2561}, {"a": 1, "s": " " + "x" * 5120}, {"a": 2}, {"a": 2, "l": ["b"] * 10}, {"a": 3, "l": ["a", "b"]}, {"a": 3, "l": []}, {"a": 3}, {"a": 4, "l": ["q", "<&>"]}, {"a": 5, "s": "y"}, {"a": 5, "s": "tab\t\"q\""}],
        "opt": [{}, {"a": 1}, {"s": "a"}, {"s": "ab", "a": 9}], "req": [{}, {"x": 1}, {"x": 5, "y": 1}, {"x": 1, "e": "c"}, {"x": 1, "e": "b"}, {"x": "s"}, {"x": 9, "y": 5, "e": "a"}], "def": [None, 1, 6], "trim": [1, 9], "trim2": [1, 9],
        "q": ["1", "20", "x", "1Ki"], "ip": ["1.2.3.4", "::1", "x"], "url": ["http://x/y", "http://y", ":"], "fmt": ["ab", "A_b", ""], "sem": ["1.2.4", "1.0.0", "v1"],
    }
    for field, options in values.items():
        for n, value in enumerate(options):
            create(f"plain {field} #{n}", "plains", {"spec": {field: value}})
    rng = random.Random(11)
    for n in range(250):
        create(f"plain several #{n}", "plains", {"spec": {field: rng.choice(values[field]) for field in rng.sample(sorted(values), rng.choice([2, 3, 5, 9]))}})
    create("plain empty", "plains", {"spec": {}})
    create("plain none", "plains", {})
    for n, body in enumerate([{}, {"spec": {"a": 5}}, {"spec": {"a": 1}}, {"spec": {"a": 5}, "metadata": {"name": "yb"}}, {"spec": {"a": 5}, "metadata": {"name": "x-long-name"}}, {"spec": {"a": 5}, "status": {"b": 1}}]):
        create(f"root #{n}", "roots", body)
    for n, body in enumerate([{"l": [1] * 10}, {"l": [1] * 300, "s": []}, {"l": [1] * 480, "s": []}, {"l": [1] * 500, "s": []}, {"l": [1] * 600, "s": []}, {"s": ["a" * 10] * 3}, {"s": ["a" * 1000] * 100}, {"me": {"l": [1] * 20}}, {"me": {"l": [1] * 700}}, {"s": ["a" * 1000] * 99 + ["ab"]}, {"s": ["a" * 500] * 100}, {"s": ["a" * 700] * 100}]):
        create(f"cost #{n}", "costs", {"spec": body})

    def stored(plural, name, body):
        full = {"apiVersion": f"{GROUP}/v1", "kind": definitions[plural]["spec"]["names"]["kind"], "metadata": {"name": name}, **copy.deepcopy(body)}
        code, answer, _ = call("POST", path(plural), full)
        assert code == 201, answer["message"]

    def update(name, plural, which, new, sub=""):
        _, old, _ = call("GET", f"{path(plural)}/{which}")
        body = {**copy.deepcopy(old), **copy.deepcopy(new)}
        code, answer, warnings = call("PUT", f"{path(plural)}/{which}{sub}?dryRun=All", body)
        # What was there before is written once; so is what stays the same.
        old, body = kept(old), kept(body)
        label = next((label for label, other in olds.items() if other == old), f"{which} {len(olds)}")
        olds[label] = old
        change = patch_of(old, body)
        whole = {"patch": change} if merge(apart(old), removing(change)) == body else {"body": body}
        done.append(told({"name": name, "op": "status" if sub else "update", "definition": plural, "old": label, **whole}, code, masked(answer), warnings))

    good = {"i": 5, "im": 5, "io": 5, "io2": 5, "ie": 5, "ioe": 5, "mix": 5, "mm": 5, "mm2": 5, "s": "c", "n": "x", "o": {"a": 5, "b": "x", "c": {"d": 5, "e": 1}}, "lm": [{"k": "a", "v": 5}, {"k": "b", "v": 6}], "la": [5, 6], "lo": [{"a": 5, "b": 1}], "set": ["a", "b"], "m": {"a": 5, "b": 6}, "ma": {"a": 5}, "pre": {"a": 5, "zz": 1}, "e": {"x": 9, "y": 2}, "min": 30, "bad": 1, "long": "long", "lln": [[{"k": "a", "v": 5}]], "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"a": 5}}, "two": [{"k": "a", "p": 1, "v": 5}, {"k": "a", "p": 2, "v": 6}]}
    bad = {"i": 1, "im": 1, "io": 1, "io2": 1, "ie": 1, "ioe": 1, "mix": 1, "mm": 1, "mm2": 1, "s": "a", "n": None, "o": {"a": 1, "c": {"d": 1, "e": 1}}, "lm": [{"k": "a", "v": 1}, {"k": "b", "v": 7}], "la": [1], "lo": [{"a": 1, "b": 1}, {"a": 2}], "set": ["z"], "m": {"a": 1, "b": 2}, "ma": {"a": 1}, "pre": {"a": 1, "zz": 1}, "e": {"x": 1, "y": 0}, "min": 1, "bad": 9, "long": "a", "lln": [[{"k": "a", "v": 1}]], "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"a": 1}}, "two": [{"k": "a", "p": 1, "v": 1}, {"k": "a", "p": 2, "v": 2}]}
    create("olds good", "olds", {"spec": good})
    create("olds bad", "olds", {"spec": bad})
    for field in good:
        create(f"olds create {field}", "olds", {"spec": {field: bad[field]}})
    stored("olds", "good", {"spec": {key: value for key, value in good.items() if key != "io2"}})
    # written under the lax definition, kept under the strict one
    merge(definitions["laxes"]["spec"], {})
    stored("laxes", "bad", {"spec": bad})
    _, crd, _ = call("GET", f"{CRDS}/laxes.{GROUP}")
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = under_spec(OLD)
    code, answer, _ = call("PUT", f"{CRDS}/laxes.{GROUP}", crd)
    assert code == 200, answer
    definitions["laxes"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = under_spec(OLD)
    time.sleep(6)
    nothing = object()
    changes = {
        "i": [6, 4, nothing], "im": [6, nothing], "io": [6, 4, nothing], "io2": [5, nothing], "ie": [6], "ioe": [6], "mix": [6, 4, 1], "mm": [1, 2], "mm2": [1, 2], "s": ["b", "a", "d"], "n": ["y", None, "x"], "o": [{"a": 5}, {"a": 5, "b": "y", "c": {"d": 1}}, {"a": 1, "c": {"d": 1, "e": 2}}, {"a": 4, "b": "x"}], "lm": [[{"k": "b", "v": 6}, {"k": "a", "v": 5}], [{"k": "a", "v": 4}, {"k": "b", "v": 20}], [{"k": "a", "v": 1}, {"k": "c", "v": 1}], [{"k": "a", "v": 1, "w": "x"}, {"k": "b", "v": 7}], [{"k": "a", "v": 5}, {"k": "b", "v": 7}, {"k": "c", "v": 7}]], "la": [[5, 6], [1], [1, 2], [6, 5]], "lo": [[{"a": 5, "b": 1}], [{"a": 1, "b": 1}, {"a": 2}], [{"a": 1, "b": 1}, {"a": 2}, {"a": 5}]], "set": [["b", "a"], ["a"], ["z"], ["z", "y"]], "m": [{"a": 5, "b": 6, "c": 1}, {"a": 4}, {"a": 1, "b": 2, "c": 9}, {"a": 1, "b": 9}], "ma": [{"a": 4}, {"a": 1, "b": 1}, {"a": 1}], "pre": [{"a": 1, "zz": 1}, {"a": 1}, {"a": 4, "zz": 2}], "e": [{"x": 1, "y": 0}, {"x": 1, "y": 1}], "min": [1, 11, 2], "bad": [9, 10, 2], "long": ["a", "b"], "lln": [[[{"k": "a", "v": 1}]], [[{"k": "a", "v": 1}], []]], "emb": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "y"}, "spec": {"a": 4}}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"a": 1}}], "two": [[{"k": "a", "p": 2, "v": 6}, {"k": "a", "p": 1, "v": 4}], [{"k": "a", "p": 1, "v": 1}, {"k": "a", "p": 2, "v": 2}, {"k": "b", "p": 1, "v": 1}]], "def": [5, 6],
    }
    for which, plural, start in (("good", "olds", good), ("bad", "laxes", bad)):
        update(f"update {which} nothing", plural, which, {})
        update(f"update {which} empty", plural, which, {"spec": {}})
        for field, options in changes.items():
            for n, value in enumerate(options):
                spec = copy.deepcopy(start)
                if which == "good":
                    spec.pop("io2", None)
                    if field == "io2" and value is nothing:
                        continue
                if value is nothing:
                    spec.pop(field)
                else:
                    spec[field] = value
                update(f"update {which} {field} #{n}", plural, which, {"spec": spec})
        for field in ("i", "o", "lm", "m", "n"):
            update(f"update {which} only {field}", plural, which, {"spec": {field: start[field]}})
    for n in range(150):
        spec = copy.deepcopy(bad)
        for field in rng.sample(sorted(changes), rng.choice([2, 3, 5])):
            value = rng.choice(changes[field])
            if value is nothing:
                spec.pop(field, None)
            else:
                spec[field] = value
        update(f"update bad several #{n}", "laxes", "bad", {"spec": spec})
    stored("roots", "xr", {"spec": {"a": 5}})
    update("root nothing", "roots", "xr", {})
    update("root spec", "roots", "xr", {"spec": {"a": 1}})
    update("root status through main", "roots", "xr", {"status": {"b": 1}})
    update("root status", "roots", "xr", {"status": {"b": 1}, "spec": {"a": 1}}, "/status")
    update("root status good", "roots", "xr", {"status": {"b": 9}}, "/status")
    code, answer, _ = call("GET", path("roots") + "/xr")
    answer["status"] = {"b": 9}
    code, answer, _ = call("PUT", path("roots") + "/xr/status", answer)
    assert code == 422 or code == 200, answer
    update("root status lower", "roots", "xr", {"status": {"b": 8}}, "/status")
    update("root status same", "roots", "xr", {"spec": {"a": 6}})
    write("rule_objects.jsonl", done)
    write_document("rule_object_definitions.json", {"definitions": definitions, "olds": olds})
    for crd in definitions.values():
        call("DELETE", f"{CRDS}/{crd['metadata']['name']}")


def without_rules(schema):
    if isinstance(schema, dict):
        return {key: without_rules(value) for key, value in schema.items() if key not in (RULES, "minimum", "maximum")}
    return [without_rules(each) for each in schema] if isinstance(schema, list) else schema
