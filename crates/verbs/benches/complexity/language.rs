//! Every CEL function with a text, list or map among its arguments: that one grows,
//! the others stay small, so that what is priced as their product is linear, too.
//! And every kind of expression, which grows itself.

use serde_json::{Value, json};
use sternpost_cel::{Activation, Budget, Declaration, Environment};

use crate::Case;

/// Elements of the smallest measurement. What an evaluation may cost bounds it.
const SIZE: usize = 250;

const BUDGET: u64 = 100_000_000;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, signature) in sternpost_cel::signatures() {
        let Some((call, _)) = signature.rsplit_once("):") else { continue };
        let (receiver, arguments) = match call.split_once(".(") {
            Some((receiver, arguments)) => (Some(receiver), arguments),
            None => (None, call.trim_start_matches('(')),
        };
        let mut parameters: Vec<&str> = receiver.into_iter().collect();
        parameters.extend(split(arguments));
        for (grows, parameter) in parameters.iter().enumerate() {
            let Some(large) = large(parameter) else { continue };
            let small: Option<Vec<&str>> = parameters.iter().map(|parameter| small(parameter)).collect();
            let Some(mut written) = small else { continue };
            written[grows] = if parameter == &"bytes" { "bytes(x)" } else { "x" };
            let Some(text) = expression(name, receiver.is_some(), &written) else { continue };
            let case = format!("cel {name} {signature} argument {grows}");
            cases.push(Case {
                name: case,
                size: SIZE,
                work: Box::new(move |_, size| {
                    let (text, value) = (text.clone(), large(size));
                    Box::new(move |_| evaluate(&text, &value))
                }),
            });
        }
    }
    for (name, text) in MACROS {
        cases.push(Case {
            name: format!("cel {name}"),
            size: SIZE,
            work: Box::new(move |_, size| {
                let value = list_of_texts(size);
                Box::new(move |_| evaluate(text, &value))
            }),
        });
    }
    for (name, text) in EXPRESSIONS {
        cases.push(Case {
            name: format!("cel expression: {name}"),
            size: EXPRESSION_SIZE,
            work: Box::new(move |_, size| {
                let text = text(size);
                Box::new(move |_| evaluate(&text, &Value::Null))
            }),
        });
    }
    cases
}

/// Macros are no functions; each walks a list.
const MACROS: &[(&str, &str)] = &[
    ("all", "x.all(i, i != '')"),
    ("exists", "x.exists(i, i == '')"),
    ("exists_one", "x.exists_one(i, i == '')"),
    ("map", "x.map(i, i + 'a').size() > 0"),
    ("filter", "x.filter(i, i != 'a').size() > 0"),
    ("transformMap", "x.transformMap(i, v, v).size() > 0"),
    ("sortBy", "x.sortBy(i, i).size() > 0"),
    ("transformList", "x.transformList(i, v, v).size() > 0"),
    ("all of two variables", "x.all(i, v, v != '')"),
    ("exists of two variables", "x.exists(i, v, v == '')"),
    ("existsOne of two variables", "x.existsOne(i, v, v == '')"),
    ("bind", "cel.bind(y, x, y.size() > 0)"),
];

/// Operands of the smallest expression that grows.
const EXPRESSION_SIZE: usize = 50;

/// A name, and an expression of so many operands.
type Expression = (&'static str, fn(usize) -> String);

const EXPRESSIONS: &[Expression] = &[
    ("and", |size| vec!["true"; size].join(" && ")),
    ("or", |size| vec!["false"; size].join(" || ")),
    ("sum", |size| vec!["1"; size].join(" + ")),
    ("sum of texts", |size| vec!["'a'"; size].join(" + ")),
    ("product", |size| vec!["1"; size].join(" * ")),
    ("comparisons", |size| vec!["1 < 2"; size].join(" && ")),
    ("negation", |size| format!("{}true", "!".repeat(size))),
    ("minus", |size| format!("{}1", "-".repeat(size))),
    ("conditional", |size| format!("{}1", "true ? 1 : ".repeat(size))),
    ("list", |size| format!("[{}]", vec!["1"; size].join(", "))),
    ("list of lists", |size| format!("[{}]", vec!["[1]"; size].join(", "))),
    ("map", |size| {
        format!("{{{}}}", (0..size).map(|index| format!("'k{index:05}': 1")).collect::<Vec<_>>().join(", "))
    }),
    ("text", |size| format!("'{}'", "a".repeat(10 * size))),
    ("escapes", |size| format!("'{}'", "\\n".repeat(size))),
    ("bytes", |size| format!("b'{}'", "a".repeat(10 * size))),
    ("fields", |size| format!("x{}", ".a".repeat(size))),
    ("indices", |size| format!("x{}", "[0]".repeat(size))),
    ("calls", |size| format!("'a'{}", ".lowerAscii()".repeat(size))),
    ("arguments", |size| format!("size({})", vec!["1"; size].join(", "))),
    ("unknown names", |size| (0..size).map(|index| format!("y{index:05}")).collect::<Vec<_>>().join(" && ")),
    ("wrong types", |size| vec!["1 + 'a' == 2"; size].join(" && ")),
    ("parentheses", |size| format!("{}1{}", "(".repeat(size), ")".repeat(size))),
    ("macros", |size| vec!["[1].all(i, i > 0)"; size].join(" && ")),
    ("variables", |size| {
        let mut text = "1".to_owned();
        for index in 0..size {
            text = format!("cel.bind(v{index:05}, {index}, {text})");
        }
        text
    }),
    ("blanks", |size| format!("1{}", " ".repeat(10 * size))),
    ("comments", |size| format!("1 // {}", "a".repeat(10 * size))),
];

fn evaluate(text: &str, value: &Value) {
    let declaration = Declaration::dynamic();
    let environment = Environment::new().variable("x", declaration.clone().into());
    let Ok(program) = environment.compile(text) else { return };
    let activation = Activation::new().bind_json("x", value, &declaration);
    let mut budget = Budget::new(BUDGET);
    let _ = program.evaluate(&activation, &mut budget);
}

/// The function called, if expressions can call it.
fn expression(name: &str, has_receiver: bool, arguments: &[&str]) -> Option<String> {
    if let Some(operator) = name.strip_prefix('_').and_then(|rest| rest.strip_suffix('_')) {
        let [left, right] = arguments else { return None };
        return (!operator.contains('_')).then(|| format!("{left} {operator} {right}"));
    }
    match (name, arguments) {
        ("@in", [left, right]) => Some(format!("{left} in {right}")),
        ("_[_]", [list, index]) => Some(format!("{list}[{index:05}]")),
        _ if name.contains(['@', '_', '!', '?']) => None,
        (_, [receiver, rest @ ..]) if has_receiver => Some(format!("{receiver}.{name}({})", rest.join(", "))),
        _ => Some(format!("{name}({})", arguments.join(", "))),
    }
}

fn list_of_texts(size: usize) -> Value {
    Value::Array((0..size).map(|index| format!("v{index:05}").into()).collect())
}

/// A value of a type that grows, if values of it do.
fn large(parameter: &str) -> Option<fn(usize) -> Value> {
    Some(match parameter {
        "string" | "bytes" => |size| json!("1".repeat(size)),
        "list(int)" => |size| Value::Array((0..size).map(|index| (size - index).into()).collect()),
        "list(double)" => |size| Value::Array((0..size).map(|index| (index as f64 + 0.5).into()).collect()),
        "list(string)" | "list(A)" | "list(T)" | "list(dyn)" => list_of_texts,
        "list(list(T))" => |size| Value::Array((0..size).map(|index| json!([index])).collect()),
        _ if parameter.starts_with("map(") => {
            |size| (0..size).map(|index| (format!("k{index:05}"), Value::from("v"))).collect()
        }
        _ => return None,
    })
}

/// An expression of a type.
fn small(parameter: &str) -> Option<&'static str> {
    Some(match parameter {
        "string" | "A" | "K" | "V" | "B" | "T" | "dyn" => "'a'",
        "bytes" => "b'a'",
        "int" => "1",
        "uint" => "1u",
        "double" => "1.5",
        "bool" => "true",
        "duration" => "duration('1s')",
        "timestamp" => "timestamp('2026-01-01T00:00:00Z')",
        "quantity" => "quantity('1')",
        "semver" => "semver('1.0.0')",
        "url" => "url('http://a')",
        "ip" => "ip('10.0.0.1')",
        "cidr" => "cidr('10.0.0.0/8')",
        "format" => "format.dns1123Label()",
        "list(int)" => "[1, 2]",
        "list(double)" => "[1.5, 2.5]",
        "list(list(T))" => "[['a'], ['b']]",
        _ if parameter.starts_with("list(") => "['a', 'b']",
        _ if parameter.starts_with("map(") => "{'a': 'b'}",
        _ => return None,
    })
}

/// Arguments at the commas outside parentheses.
fn split(arguments: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, char) in arguments.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&arguments[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&arguments[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}
