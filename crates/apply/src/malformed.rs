//! Why managedFields cannot be read, in the words that clients are warned with: those of upstream's
//! readers.

use serde_json::{Map, Value};
use sternpost_golang::strconv::NumberError;

use crate::path::Element;

/// How much is shown around a mistake, and in its wider context, to each side.
const PEEK: usize = 10;
const CONTEXT: usize = 50;

/// An entry of managedFields as Go prints it.
pub(crate) fn entry_text(entry: &Map<String, Value>) -> String {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let time = match text("time") {
        "" => "<nil>".to_owned(),
        time => time.replacen('T', " ", 1).replace('Z', " +0000 UTC"),
    };
    let fields = entry.get("fieldsV1").map_or_else(|| "<nil>".to_owned(), Value::to_string);
    format!(
        "{{{} {} {} {time} {} {fields} {}}}",
        text("manager"),
        text("operation"),
        text("apiVersion"),
        text("fieldsType"),
        text("subresource"),
    )
}

/// What is wrong with `FieldsV1` that is known to be malformed, and where.
pub(crate) fn fields_text(fields: &Value) -> String {
    let mut reading = Reading::default();
    reading.object(fields);
    let (what, at) = reading.mistake.unwrap_or_default();
    found(&what, &reading.text, at)
}

/// A mistake before `at`.
fn found(what: &str, text: &str, at: usize) -> String {
    let around = |bytes: usize| {
        let start = floor(text, at.saturating_sub(bytes));
        let end = floor(text, at.saturating_add(bytes).min(text.len()));
        text.get(start..end).unwrap_or_default()
    };
    let place = at.min(PEEK);
    format!(
        "{what}, error found in #{place} byte of ...|{}|..., bigger context ...|{}|...",
        around(PEEK),
        around(CONTEXT)
    )
}

/// The last boundary of a character up to `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// Fields that are written out as far as they were read; the first mistake counts.
#[derive(Default)]
struct Reading {
    text: String,
    mistake: Option<(String, usize)>,
}

impl Reading {
    fn object(&mut self, fields: &Value) {
        let fields = match fields {
            Value::Object(fields) => fields,
            other => {
                let before = self.text.len() + 1;
                self.text += &other.to_string();
                if let (false, Some(first)) = (other.is_null(), self.text.get(before - 1..before)) {
                    let what = format!("ReadMapCB: expect {{ or n, but found {first}");
                    self.mistake.get_or_insert((what, before));
                }
                return;
            }
        };
        for (index, (key, below)) in fields.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text += &Value::from(key.as_str()).to_string();
            self.text.push(':');
            match Element::parse(key) {
                Ok(Some(_)) if key != "." => {
                    self.object(below);
                    continue;
                }
                Err(malformed) if key != "." => {
                    let what = format!("parsing key as path element: {malformed}");
                    self.mistake.get_or_insert((what, self.text.len()));
                }
                // Not looked into.
                _ => {}
            }
            self.text += &below.to_string();
        }
        self.text += if fields.is_empty() { "{}" } else { "}" };
    }
}

/// Why a path element cannot be read, in Go's words.
pub(crate) fn element_text(text: &str) -> Option<String> {
    let rest = text.get(2..)?;
    match text.as_bytes() {
        [b'i', b':', ..] => {
            let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let error = if is_number { NumberError::Range } else { NumberError::Syntax };
            Some(error.text("Atoi", rest))
        }
        [b'k', b':', first, ..] if !matches!(first, b'{' | b'n') => {
            let what = format!("ReadObjectCB: expect {{ or n, but found {}", char::from(*first));
            Some(found(&what, rest, 1))
        }
        _ => None,
    }
}
