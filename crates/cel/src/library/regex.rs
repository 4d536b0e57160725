//! Regular expressions of the language.

use regex::Regex;
use sternpost_golang::regexp;

use crate::{
    ast::{Expr, Kind, Literal},
    estimate,
    evaluate::EvalError,
    functions::{Call, Function, function, plain_mismatch},
    library::cost,
    value::Value,
};

/// The most memory a compiled expression may take.
pub const MAX_COMPILED_BYTES: usize = 1 << 20;

pub(crate) const FUNCTIONS: &[Function] =
    &[
        function(
            "matches",
            "23 string.(string):bool (string,string):bool",
            |call, _| match call.operands {
                [Value::String(text), Value::String(pattern)] => {
                    let regex = compiled(call, pattern.as_str());
                    Some(regex.map(|regex| Value::Bool(regex.is_match(text.as_str()))))
                }
                _ => None,
            },
            |of| if of.method { estimate::pattern(of) } else { of.price(1) },
            |call, result| if call.method { cost::pattern(call, result) } else { 1 },
        )
        .with_pattern()
        .literals(|operands, _| match operands {
            [_, operand @ Expr { kind: Kind::Literal(Literal::String(pattern)), .. }]
                if compile(pattern).is_err() =>
            {
                Some((Some(operand), "invalid matches argument".to_owned()))
            }
            _ => None,
        })
        .mismatch(plain_mismatch),
        function(
            "find",
            "23 string.(string):string",
            |call, _| match call.operands {
                [Value::String(text), Value::String(pattern)] => {
                    let regex = compiled(call, pattern.as_str()).map_err(|error| illegal(&error));
                    Some(regex.map(|regex| {
                        Value::text(regex.find(text.as_str()).map_or("", |found| found.as_str()))
                    }))
                }
                _ => None,
            },
            |of| estimate::pattern(of).at_most(of.max(0)),
            cost::pattern,
        )
        .with_pattern()
        .mismatch(plain_mismatch),
        function(
            "findAll",
            "23 string.(string):list(string) string.(string,int):list(string)",
            |call, _| {
                let (text, pattern, most) = match call.operands {
                    [Value::String(text), Value::String(pattern)] => (text, pattern, usize::MAX),
                    [Value::String(text), Value::String(pattern), Value::Int(limit)] => {
                        (text, pattern, usize::try_from(*limit).unwrap_or(usize::MAX))
                    }
                    _ => return None,
                };
                let regex = compiled(call, pattern.as_str()).map_err(|error| illegal(&error));
                Some(regex.map(|regex| {
                    let found = regex.find_iter(text.as_str()).take(most);
                    Value::list(found.map(|found| Value::text(found.as_str())).collect())
                }))
            },
            |of| estimate::pattern(of).at_most(of.max(0)),
            cost::pattern,
        )
        .with_pattern()
        .mismatch(plain_mismatch),
    ];

fn compiled(call: &Call<'_, '_>, pattern: &str) -> Result<Regex, EvalError> {
    match call.pattern {
        Some(compiled) => Ok(compiled.clone()),
        None => compile(pattern),
    }
}

fn illegal(error: &EvalError) -> EvalError {
    EvalError::new(format!("Illegal regex: {}", error.message()))
}

pub(crate) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    regexp::compile(pattern, MAX_COMPILED_BYTES).map_err(|error| EvalError::new(error.to_string()))
}
