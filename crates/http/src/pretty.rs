//! JSON for people: the same document, indented by two spaces.

/// Indents compact JSON without reading it into values, so that the order of
/// keys and the spelling of numbers stay as they are. Empty objects and arrays
/// stay on one line, and there is no newline at the end. Total: on text that is not JSON the output is merely ugly.
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut in_string = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            match byte {
                b'\\' => out.extend(bytes.next()),
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                if let Some(close) = bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend(b": "),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => out.push(byte),
        }
    }
    out
}

/// Beyond this the indentation stops growing, so that hostile nesting cannot
/// make the output quadratic.
const MAX_INDENT_DEPTH: usize = 64;

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    for _ in 0..depth.min(MAX_INDENT_DEPTH) {
        out.extend(b"  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(compact: &str, expected: &str) {
        assert_eq!(String::from_utf8(indent(compact.as_bytes())).unwrap(), expected);
    }

    #[test]
    fn indents_as_go_does() {
        check("{}\n", "{}");
        check("[]", "[]");
        check(r#"{"a":{},"b":[],"c":1.50}"#, "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": 1.50\n}");
        check(r#"[1,[true,null]]"#, "[\n  1,\n  [\n    true,\n    null\n  ]\n]");
    }

    #[test]
    fn strings_are_left_alone() {
        check(r#"{"a":"x{,:]\"}\\"}"#, "{\n  \"a\": \"x{,:]\\\"}\\\\\"\n}");
    }

    #[test]
    fn agrees_with_serde_on_sorted_documents() {
        let value = serde_json::json!({"a": [1, {"b": []}, "é\n"], "c": {"d": {"e": -1.5e300}}});
        check(&value.to_string(), &serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn broken_text_neither_panics_nor_explodes() {
        check("}]", "\n}\n]");
        check("\"\\", "\"\\");
        let deep = "[".repeat(10_000);
        assert!(indent(deep.as_bytes()).len() <= deep.len() * (2 + 2 * MAX_INDENT_DEPTH));
    }
}
