//! Writing an [`Explanation`]: plain text as kubectl's, JSON, Markdown.

use serde_json::{Map, Value, json};
use sternpost_golang::fmt::print_decoded;
use sternpost_meta::gvk::GroupVersionKind;

use super::{Depth, Explanation, Field};

/// Prose is wrapped so that with its indentation it fits this many columns.
const COLUMNS: usize = 80;
const INDENT: &str = "    ";

/// A field's line names this many of its values; the field itself names all.
const VALUES_SHOWN: usize = 4;

/// What stands above every plain text; kubectl prints it before it knows
/// whether the field exists.
pub fn header(gvk: &GroupVersionKind) -> String {
    let group = if gvk.group.is_empty() { String::new() } else { format!("GROUP:      {}\n", gvk.group) };
    format!("{group}KIND:       {}\nVERSION:    {}\n\n", gvk.kind, gvk.version)
}

/// The text of `kubectl explain`.
pub fn plaintext(explanation: &Explanation) -> String {
    let mut out = header(&explanation.gvk);
    if let Some(field) = &explanation.field {
        out += &format!("FIELD: {} <{}>\n", field.name, field.kind);
        if field.enum_values.is_empty() {
            out.push('\n');
        } else {
            out += "ENUM:\n";
            for value in &field.enum_values {
                out += &format!("{INDENT}{}\n", value_text(value));
            }
        }
        out.push('\n');
    }
    out += "DESCRIPTION:\n";
    if explanation.descriptions.is_empty() {
        out += &format!("{INDENT}<empty>\n");
    } else {
        for text in &explanation.descriptions {
            prose(&mut out, text);
        }
        out += &format!("{INDENT}\n");
    }
    if !explanation.fields.is_empty() {
        out += "FIELDS:\n";
        field_list(&mut out, &explanation.fields, explanation.depth, 1);
    }
    out.push('\n');
    out
}

/// One object; what is absent is not said: no `enum`, no `default`, no `fields`.
pub fn json(explanation: &Explanation) -> Value {
    let Explanation { gvk, path, field, descriptions, fields, .. } = explanation;
    let mut object = field.as_ref().map(field_json).unwrap_or_default();
    object.extend([
        ("group".to_owned(), json!(&*gvk.group)),
        ("version".to_owned(), json!(&*gvk.version)),
        ("kind".to_owned(), json!(&*gvk.kind)),
        ("path".to_owned(), json!(path)),
    ]);
    object.remove("description");
    if !descriptions.is_empty() {
        object.insert("description".to_owned(), json!(descriptions.join("\n\n")));
    }
    if !fields.is_empty() {
        object.insert(
            "fields".to_owned(),
            fields.iter().map(|field| Value::Object(field_json(field))).collect(),
        );
    }
    Value::Object(object)
}

/// A page for people: a heading, the description, the fields.
pub fn markdown(explanation: &Explanation) -> String {
    let Explanation { gvk, path, field, descriptions, fields, depth } = explanation;
    let mut out = match field {
        None => format!("# {}\n\n`{}`\n", gvk.kind, gvk.group_version()),
        Some(field) => format!(
            "# {}.{}\n\n`{}`: {}\n",
            gvk.kind,
            markdown_text(&path.join(".")),
            gvk.group_version(),
            markdown_type(field)
        ),
    };
    let values = field.iter().filter_map(markdown_values);
    let texts = descriptions.iter().map(|text| markdown_text(text));
    for paragraph in values.chain(texts) {
        out += &format!("\n{paragraph}\n");
    }
    if !fields.is_empty() {
        out += "\n## Fields\n";
    }
    match depth {
        Depth::Fields => {
            for field in fields {
                out += &format!("\n### {}\n\n{}\n", markdown_text(&field.name), markdown_type(field));
                let text = field.description.as_deref().map(markdown_text);
                for paragraph in markdown_values(field).into_iter().chain(text) {
                    out += &format!("\n{paragraph}\n");
                }
            }
        }
        Depth::Recursive if fields.is_empty() => {}
        Depth::Recursive => {
            out.push('\n');
            markdown_list(&mut out, fields, 0);
        }
    }
    out
}

fn field_list(out: &mut String, fields: &[Field], depth: Depth, level: usize) {
    let indent = "  ".repeat(level);
    for field in fields {
        let required = if field.required { " -required-" } else { "" };
        *out += &format!("{indent}{}\t<{}>{required}\n", field.name, field.kind);
        if !field.enum_values.is_empty() {
            let mut values: Vec<String> =
                field.enum_values.iter().take(VALUES_SHOWN).map(value_text).collect();
            if field.enum_values.len() > VALUES_SHOWN {
                values.push("....".to_owned());
            }
            *out += &format!("{indent}enum: {}\n", values.join(", "));
        }
        match depth {
            Depth::Fields => {
                prose(out, field.description.as_deref().unwrap_or("<no description>"));
                out.push('\n');
            }
            Depth::Recursive => field_list(out, &field.fields, depth, level + 1),
        }
    }
}

/// Indented, wrapped, line breaks kept. Empty lines are indented too.
fn prose(out: &mut String, text: &str) {
    for line in text.split('\n').flat_map(wrap) {
        *out += &format!("{INDENT}{line}\n");
    }
}

/// The lines of one line. Blanks within a line stay as they are, those at a
/// break go; a word that is too long stands alone.
fn wrap(line: &str) -> Vec<String> {
    const WIDTH: usize = COLUMNS - INDENT.len();
    let mut lines = vec![];
    let (mut current, mut width) = (String::new(), 0);
    let mut rest = line;
    while !rest.is_empty() {
        let word_at = rest.find(|char| !is_blank(char)).unwrap_or(rest.len());
        let (blanks, after) = rest.split_at(word_at);
        let (word, after) = after.split_at(after.find(is_blank).unwrap_or(after.len()));
        rest = after;
        let (blank_width, word_width) = (blanks.chars().count(), word.chars().count());
        if word.is_empty() {
            // Blanks at the end stay only if they fit.
            if width + blank_width <= WIDTH {
                current += blanks;
            }
        } else if width + blank_width + word_width.min(WIDTH - 1) > WIDTH {
            lines.push(std::mem::replace(&mut current, word.to_owned()));
            width = word_width;
        } else {
            current += blanks;
            current += word;
            width += blank_width + word_width;
        }
    }
    lines.push(current);
    lines
}

/// A no-break space does what its name says.
fn is_blank(char: char) -> bool {
    char.is_whitespace() && char != '\u{a0}'
}

/// A value as Go's templates print it.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        _ => print_decoded(value),
    }
}

fn field_json(field: &Field) -> Map<String, Value> {
    let mut object = Map::new();
    let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
    set("name", json!(&*field.name));
    set("type", json!(field.kind));
    set("required", json!(field.required));
    if !field.enum_values.is_empty() {
        set("enum", json!(field.enum_values));
    }
    if let Some(default) = &field.default {
        set("default", default.clone());
    }
    if let Some(description) = &field.description {
        set("description", json!(&**description));
    }
    if !field.fields.is_empty() {
        set("fields", field.fields.iter().map(|field| Value::Object(field_json(field))).collect());
    }
    object
}

fn markdown_type(field: &Field) -> String {
    let required = if field.required { ", required" } else { "" };
    format!("`{}`{required}", field.kind)
}

fn markdown_values(field: &Field) -> Option<String> {
    let values: Vec<String> = field.enum_values.iter().map(|value| format!("`{value}`")).collect();
    (!values.is_empty()).then(|| format!("One of {}.", values.join(", ")))
}

fn markdown_list(out: &mut String, fields: &[Field], level: usize) {
    for field in fields {
        let values = markdown_values(field).map(|values| format!(". {values}")).unwrap_or_default();
        let (name, kind) = (markdown_text(&field.name), markdown_type(field));
        *out += &format!("{}- **{name}** {kind}{values}\n", "  ".repeat(level));
        markdown_list(out, &field.fields, level + 1);
    }
}

/// Prose with what Markdown would take for markup written out. Code between
/// backquotes stays code.
fn markdown_text(text: &str) -> String {
    // An odd backquote would turn the rest of the page into code.
    let quotes = text.matches('`').count().is_multiple_of(2);
    let mut out = String::with_capacity(text.len());
    let mut code = false;
    for char in text.chars() {
        match char {
            '`' if quotes => {
                code = !code;
                out.push(char);
            }
            '<' if !code => out += "&lt;",
            '\\' | '*' | '_' | '[' | ']' | '`' if !code => {
                out.push('\\');
                out.push(char);
            }
            _ => out.push(char),
        }
    }
    out
}
