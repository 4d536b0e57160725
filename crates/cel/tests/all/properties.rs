//! Whatever the text and whatever the data, there is an answer.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use sternpost_cel::{Activation, Budget, Declaration, Environment, SchemaPosition};

fn data() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "\\PC{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

/// Expressions that mostly parse, of operands and functions of every library.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "x",
        "x.a",
        "x.a.b",
        "self",
        "self.s",
        "self.l",
        "self.m",
        "self.i",
        "1",
        "-1",
        "2u",
        "1.5",
        "'a'",
        "'é%s'",
        "b'a'",
        "true",
        "null",
        "[]",
        "{}",
        "[1, 2]",
        "{'a': 1}",
        "'1.2.3.4'",
        "'10.0.0.0/8'",
        "'1h'",
        "'2024-01-01T00:00:00Z'",
        "9223372036854775807",
        "optional.none()",
        "int",
        "'1.2.3'",
        "'https://[::1]:80/a?b=c'",
        "'1Ki'",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let binary =
            prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||"]);
        let method = prop::sample::select(vec![
            "size",
            "contains",
            "startsWith",
            "matches",
            "charAt",
            "indexOf",
            "lastIndexOf",
            "substring",
            "replace",
            "split",
            "join",
            "format",
            "find",
            "findAll",
            "sum",
            "min",
            "max",
            "isSorted",
            "slice",
            "flatten",
            "distinct",
            "sort",
            "reverse",
            "first",
            "last",
            "value",
            "hasValue",
            "orValue",
            "getHours",
            "getFullYear",
            "containsIP",
            "add",
            "validate",
            "trim",
            "lowerAscii",
        ]);
        let function = prop::sample::select(vec![
            "size",
            "string",
            "int",
            "uint",
            "double",
            "bool",
            "bytes",
            "duration",
            "timestamp",
            "type",
            "dyn",
            "ip",
            "cidr",
            "url",
            "quantity",
            "semver",
            "isIP",
            "strings.quote",
            "optional.of",
            "lists.range",
            "!",
            "-",
            "format.named",
        ]);
        let comprehension =
            prop::sample::select(vec!["all", "exists", "exists_one", "map", "filter", "sortBy", "optMap"]);
        prop_oneof![
            (inner.clone(), binary, inner.clone())
                .prop_map(|(one, with, other)| format!("({one}) {with} ({other})")),
            (inner.clone(), method, prop::collection::vec(inner.clone(), 0..3))
                .prop_map(|(target, name, args)| format!("dyn({target}).{name}({})", args.join(", "))),
            (function, inner.clone()).prop_map(|(name, arg)| format!("{name}(dyn({arg}))")),
            (inner.clone(), comprehension, inner.clone())
                .prop_map(|(range, name, body)| format!("dyn({range}).{name}(x, dyn({body}))")),
            (inner.clone(), inner.clone()).prop_map(|(of, index)| format!("dyn({of})[dyn({index})]")),
            (inner.clone(), inner.clone()).prop_map(|(of, index)| format!("dyn({of})[?{index}]")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(one, two, three)| format!("dyn({one}) ? {two} : {three}")),
        ]
    })
}

fn environment() -> (Environment, Arc<Declaration>) {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string"}, "i": {"type": "integer"}, "d": {"type": "string", "format": "date-time"},
        "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
    }});
    let schema = sternpost_schema::read::schema(&schema, sternpost_schema::write::Dialect::V3).unwrap();
    let declaration =
        Arc::new(Declaration::from_schema(&schema, SchemaPosition::Within, "selfType").unwrap());
    let environment = Environment::new()
        .variable("self", declaration.clone())
        .variable("x", Arc::new(Declaration::dynamic()))
        .sizes_from(declaration.clone());
    (environment, declaration)
}

fn answer(text: &str, data: &Json) {
    let (environment, declaration) = environment();
    let Ok(program) = environment.compile(text) else { return };
    let activation = Activation::new().bind("x", sternpost_cel::Value::from_json(data)).bind_json(
        "self",
        data,
        &declaration,
    );
    let _ = program.evaluate(&activation, &mut Budget::new(u64::MAX));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn expressions_of_any_shape_have_an_answer(text in expression(), data in data()) {
        answer(&text, &data);
    }

    #[test]
    fn any_text_compiles_or_is_refused(text in "\\PC{0,40}", data in data()) {
        answer(&text, &data);
    }

    #[test]
    fn tokens_in_any_order_compile_or_are_refused(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "x", "self", ".", "a", "(", ")", "[", "]", "{", "}", ",", ":", "?", "1", "'s'", "b'", "\\", "-", "!", "+", "in",
            "&&", "==", "all", "has", "map", "`", "0x", "1e", "\"\"\"", "//", "\n", "@", "é",
        ]), 0..14),
    ) {
        answer(&tokens.concat(), &Json::Null);
        answer(&tokens.join(" "), &Json::Null);
    }

    #[test]
    fn any_pattern_compiles_or_is_refused(pattern in "[a-c(){}\\[\\]^$*+?.|\\\\dwsbBAzQEpPx0-9,:=!<>&~-]{0,14}", text in "[a-c ]{0,6}") {
        let (environment, _) = environment();
        let program = environment.compile("x.a.matches(x.b)").unwrap();
        let data = json!({"a": text, "b": pattern});
        let activation = Activation::new().bind("x", sternpost_cel::Value::from_json(&data));
        let _ = program.evaluate(&activation, &mut Budget::new(u64::MAX));
    }
}
