//! JSON for people: the same document, indented by two spaces.

/// Indents compact JSON without reading it into values, so that the order of
/// keys and the spelling of numbers stay as they are. Empty objects and arrays
/// stay on one line, and there is no newline at the end. Total: on text that is not JSON the output is merely ugly.
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut indenter = Indenter::default();
    indenter.push(json, &mut out);
    indenter.finish(&mut out);
    out
}

/// [`indent`] for text that comes in pieces, cut anywhere.
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    in_string: bool,
    /// Behind a backslash.
    is_escaped: bool,
    /// Behind an opening bracket, whose other one may come next.
    has_opened: bool,
}

impl Indenter {
    /// Appends what can be said of the next piece.
    pub fn push(&mut self, json: &[u8], out: &mut Vec<u8>) {
        for byte in json {
            self.byte(*byte, out);
        }
    }

    /// Appends what was left to be said.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.begin_members(out);
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.in_string {
            out.push(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        if self.has_opened && matches!(byte, b'}' | b']') {
            self.has_opened = false;
            out.push(byte);
            return;
        }
        self.begin_members(out);
        match byte {
            b'"' => {
                self.in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                self.has_opened = true;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                new_line(out, self.depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(out, self.depth);
            }
            b':' => out.extend(b": "),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => out.push(byte),
        }
    }

    fn begin_members(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.has_opened) {
            self.depth += 1;
            new_line(out, self.depth);
        }
    }
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
        for size in [1, 2, 3, 7] {
            let (mut out, mut indenter) = (Vec::new(), Indenter::default());
            compact.as_bytes().chunks(size).for_each(|piece| indenter.push(piece, &mut out));
            indenter.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "in pieces of {size}");
        }
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
