//! `fieldPath` of a rule: `.name` and `['name']` steps that lead through properties and maps.

use serde_json::Value;

/// The path as it is appended where causes print it, if the schema has such a place: `.a[key].b`. Upstream
/// puts a dot before a key too if it comes first: `.[key]`.
pub(crate) fn resolve(schema: &Value, path: &str) -> Option<String> {
    let mut out = String::new();
    let mut place = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix("['") {
            quoted(after)?
        } else {
            let after = rest.strip_prefix('.')?;
            let (name, after) = after.split_at_checked(after.find(['.', '[']).unwrap_or(after.len()))?;
            (name.to_owned(), after)
        };
        rest = after;
        if name.is_empty() || name.contains(['\n', '\r']) {
            return None;
        }
        if let Some(property) = place.get("properties").and_then(|properties| properties.get(&name)) {
            place = property;
            out.push('.');
            out.push_str(&name);
        } else {
            place = place.get("additionalProperties").filter(|values| **values != Value::Bool(false))?;
            out.push_str(if out.is_empty() { ".[" } else { "[" });
            out.push_str(&name);
            out.push(']');
        }
    }
    (!path.is_empty()).then_some(out)
}

/// A name up to `']`, its escapes resolved, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '\'' => return chars.as_str().strip_prefix(']').map(|rest| (name, rest)),
            '\\' => name.push(match chars.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                other @ ('\'' | '\\' | '"') => other,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
}
