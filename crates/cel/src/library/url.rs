//! The type `net.URL`.

use std::sync::Arc;

use sternpost_golang::url;

use crate::{
    estimate,
    evaluate::EvalError,
    functions::{Call, Function, function},
    library::{cost, strings::of_text},
    value::Value,
};

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "url",
        "23 (string):url",
        |call, _| match call.operands {
            [Value::String(text)] => {
                let why =
                    |why| EvalError::new(format!("URL parse error during conversion from string: {why}"));
                Some(Url::parse(text.as_str()).map(|url| Value::Url(Arc::new(url))).map_err(why))
            }
            _ => None,
        },
        estimate::tenth_and_size,
        cost::tenth,
    ),
    function(
        "isURL",
        "23 (string):bool",
        |call, _| of_text(call, |text| Value::Bool(Url::parse(text).is_ok())),
        estimate::one,
        cost::one,
    ),
    function(
        "getScheme",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(url.parts.scheme.as_str())),
        estimate::one,
        cost::one,
    ),
    function(
        "getHost",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(url.parts.host.as_str())),
        estimate::one,
        cost::one,
    ),
    function(
        "getHostname",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(url.parts.hostname())),
        estimate::one,
        cost::one,
    ),
    function(
        "getPort",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(url.parts.port())),
        estimate::one,
        cost::one,
    ),
    function(
        "getEscapedPath",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(url.parts.escaped_path())),
        estimate::one,
        cost::one,
    ),
    function(
        "getQuery",
        "23 url.():map(string,list(string))",
        |call, _| of_url(call, query),
        estimate::one,
        cost::one,
    ),
];

fn of_url<'a>(
    call: &Call<'_, 'a>,
    answer: fn(&Url) -> Value<'static>,
) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::Url(url)] => Some(Ok(answer(url))),
        _ => None,
    }
}

#[derive(Debug)]
pub struct Url {
    pub(crate) text: String,
    parts: url::Url,
}

impl Url {
    /// `Err` is Go's message.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // Only what a request could be for; but a request knows no fragments, so it is read again.
        url::parse_request_uri(text)?;
        Ok(Self { text: text.to_owned(), parts: url::parse(text)? })
    }
}

fn query(url: &Url) -> Value<'static> {
    let list = |values: Vec<String>| Value::list(values.into_iter().map(Value::text).collect());
    Value::map(url.parts.query_values().into_iter().map(|(key, values)| (key.into(), list(values))))
}
