//! Texts that cells of several kinds are made of.

use serde_json::Value;
use sternpost_meta::selector::LabelSelector;

use super::NONE;
use crate::object::Fields;

/// Hosts, ports and addresses that are shown before they are only counted.
pub(crate) const SHOWN: usize = 3;

/// `key=value` pairs by key, `<none>` if there are none.
pub(crate) fn labels(labels: &Value) -> Value {
    let labels = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or(pairs.join(","), NONE).into()
}

/// A label selector, `<none>` if it names no requirement.
pub(crate) fn selector(selector: &Value) -> Value {
    match LabelSelector::from_object(selector) {
        Ok(selector) => or(selector.to_string(), NONE).into(),
        Err(_) => "<error>".into(),
    }
}

/// One field of every item, joined by commas.
pub(crate) fn each(items: &[Value], field: &str) -> Value {
    items.iter().map(|item| item.text(field)).collect::<Vec<_>>().join(",").into()
}

/// The texts of a list, joined by commas.
pub(crate) fn join(items: &[Value]) -> String {
    items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

/// The first few texts and how many more there are.
pub(crate) fn first(shown: usize, separator: &str, texts: &[String]) -> String {
    let text = texts.iter().take(shown).map(String::as_str).collect::<Vec<_>>().join(separator);
    match texts.len().saturating_sub(shown) {
        0 => text,
        more => format!("{text} + {more} more..."),
    }
}

/// Addresses of a load balancer: each once, in order of their text.
pub(crate) fn load_balancer(object: &Value) -> String {
    let ingress = object.field("status").field("loadBalancer").items("ingress");
    let address = |point: &Value| match point.text("ip") {
        "" => point.text("hostname").to_owned(),
        ip => ip.to_owned(),
    };
    let mut addresses: Vec<String> =
        ingress.iter().map(address).filter(|address| !address.is_empty()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

/// A number or text as it stands, for quantities and int-or-strings.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The condition of a type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.field("status").items("conditions");
    conditions.iter().find(|condition| condition.text("type") == kind)
}

pub(crate) fn or(text: String, fallback: &str) -> String {
    if text.is_empty() { fallback.into() } else { text }
}
