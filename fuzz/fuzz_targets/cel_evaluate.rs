//! Expressions put together from the input's bytes, so that most compile, run to an end on typed data, and give
//! the same value and cost each time.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use sternpost_cel::{Activation, Budget, CALL_LIMIT, Declaration, Environment, SchemaPosition};

static DECLARATION: LazyLock<Arc<Declaration>> = LazyLock::new(|| {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string"}, "i": {"type": "integer"}, "d": {"type": "number"}, "b": {"type": "boolean"},
        "l": {"type": "array", "items": {"type": "integer"}}, "ls": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "lm": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}}, "x": {"x-kubernetes-int-or-string": true},
        "t": {"type": "string", "format": "date-time"}, "u": {"type": "string", "format": "duration"}, "y": {"type": "string", "format": "byte"},
    }});
    let schema = sternpost_schema::read::schema(&schema, sternpost_schema::write::Dialect::V3).unwrap();
    Arc::new(Declaration::from_schema(&schema, SchemaPosition::Within, "selfType").unwrap())
});

const VALUES: [&str; 40] = [
    "self.s",
    "self.i",
    "self.d",
    "self.b",
    "self.l",
    "self.ls",
    "self.set",
    "self.lm",
    "self.m",
    "self.x",
    "self.t",
    "self.u",
    "self.y",
    "1",
    "-9223372036854775808",
    "2u",
    "1.5",
    "'a'",
    "'é\\n'",
    "b'x'",
    "[]",
    "[1, 2]",
    "{'a': 1}",
    "null",
    "true",
    "self.?s",
    "self.zz",
    "dyn(self)",
    "duration('1h')",
    "timestamp('2020-01-01T00:00:00Z')",
    "x",
    "y",
    "quantity('1Ki')",
    "ip('::1')",
    "cidr('10.0.0.0/8')",
    "url('http://x/y?z')",
    "semver('1.2.3')",
    "optional.none()",
    "9223372036854775807",
    "'%s %d'",
];
const JOINS: [&str; 48] = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "&&",
    "||",
    ".contains",
    ".startsWith",
    ".matches",
    ".split",
    ".join",
    ".replace",
    ".indexOf",
    ".substring",
    ".find",
    ".findAll",
    ".format",
    ".charAt",
    ".slice",
    ".flatten",
    ".sort",
    ".distinct",
    ".reverse",
    ".map",
    ".filter",
    ".all",
    ".exists",
    ".transformMap",
    ".sum",
    ".min",
    ".isSorted",
    ".orValue",
    ".optMap",
    ".size",
    ".getFullYear",
    ".add",
    ".containsIP",
    ".compareTo",
    "[",
    "?",
];

/// An expression made of the bytes, and how many were used.
fn expression(bytes: &[u8], depth: usize, out: &mut String) -> usize {
    let Some((&first, rest)) = bytes.split_first() else {
        out.push_str("true");
        return 0;
    };
    if depth == 0 || first & 1 == 0 {
        out.push_str(VALUES[usize::from(first >> 1) % VALUES.len()]);
        return 1;
    }
    let join = JOINS[usize::from(first >> 1) % JOINS.len()];
    out.push('(');
    let mut used = 1 + expression(rest, depth - 1, out);
    out.push_str(") ");
    out.push_str(join);
    let operand = |used: usize, out: &mut String| {
        used + expression(bytes.get(used..).unwrap_or_default(), depth - 1, out)
    };
    match join {
        "?" => {
            used = operand(used, out);
            out.push_str(" : ");
            used = operand(used, out);
        }
        "[" => {
            used = operand(used, out);
            out.push(']');
        }
        ".map" | ".filter" | ".all" | ".exists" | ".optMap" | ".transformMap" => {
            out.push_str(if join == ".transformMap" { "(x, y, " } else { "(x, " });
            used = operand(used, out);
            out.push(')');
        }
        ".flatten" | ".sort" | ".distinct" | ".reverse" | ".sum" | ".min" | ".isSorted" | ".size"
        | ".getFullYear" => out.push_str("()"),
        ".replace" | ".slice" => {
            out.push('(');
            used = operand(used, out);
            out.push_str(", ");
            used = operand(used, out);
            out.push(')');
        }
        ".format" => {
            out.push_str("([");
            used = operand(used, out);
            out.push_str("])");
        }
        _ => {
            let call = join.starts_with('.');
            out.push_str(if call { "(" } else { " (" });
            used = operand(used, out);
            out.push(')');
        }
    }
    used
}

fuzz_target!(|bytes: &[u8]| {
    let mut text = String::new();
    expression(bytes, 12, &mut text);
    let environment = Environment::new()
        .variable("self", DECLARATION.clone())
        .variable("x", Arc::new(Declaration::dynamic()))
        .variable("y", Arc::new(Declaration::dynamic()))
        .sizes_from(DECLARATION.clone());
    let Ok(program) = environment.compile(&text) else { return };
    let data = json!({
        "s": "some text, é", "i": 7, "d": 2.5, "b": true, "l": [3, 1, 2], "ls": ["b", "a", ""], "set": ["x", "y"],
        "lm": [{"k": "a", "v": 1}, {"k": "b"}], "m": {"a": 1, "b": 2}, "x": "5%", "t": "2020-02-29T12:00:00Z", "u": "90s", "y": "AAEC",
    });
    let other = json!({"a": [1, "b", null, 2.5], "s": "text"});
    let run = || {
        let activation = Activation::new()
            .bind_json("self", &data, &DECLARATION)
            .bind("x", sternpost_cel::Value::from_json(&other))
            .bind("y", sternpost_cel::Value::Int(3));
        let mut budget = Budget::new(u64::MAX);
        let outcome = program.evaluate(&activation, &mut budget).map(|value| format!("{value:?}"));
        (outcome, budget.last_cost())
    };
    let (outcome, cost) = run();
    assert!(outcome.is_err() || cost <= CALL_LIMIT, "{text}");
    assert_eq!((outcome, cost), run(), "{text}");
});
