//! JSON as `encoding/json` writes it, and what it calls the values that it finds.

pub mod syntax;
pub mod unmarshal;

use std::borrow::Cow;

use serde_json::Value;

/// As Go's decoder names what it found: `cannot unmarshal number into …`.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Compact JSON as Go's encoder writes it.
pub fn go_json(value: &Value) -> String {
    let json = value.to_string();
    match html_escaped(&json) {
        Cow::Borrowed(_) => json,
        Cow::Owned(escaped) => escaped,
    }
}

/// JSON with what could mean something in a web page escaped, as Go's encoder does. None of it stands in JSON
/// but in its strings.
pub fn html_escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            char => escaped.push(char),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_escaped_as_go_does() {
        assert_eq!(html_escaped("{\"a\": \"<b>&\u{2028}é\"}"), "{\"a\": \"\\u003cb\\u003e\\u0026\\u2028é\"}");
        assert!(matches!(html_escaped("{\"a\": \"é\"}"), Cow::Borrowed(_)));
    }
}
