//! Reading the JSON of stored objects: every write reads the object that is there.
//!
//! [`fields`] knows the spelling that [`crate::encoding`] writes, which has no white space and few escapes and
//! fractions. Whatever else it meets it leaves to `serde_json`, which decides what is JSON at all.

use serde_json::{Map, Value};

use crate::encoding::escaped;

/// How deeply objects may nest, as `serde_json` has it.
const MAX_DEPTH: usize = 127;

/// The object that follows an opening brace, with nothing behind it. `None` if it has to be read otherwise.
pub(crate) fn fields(text: &str) -> Option<Value> {
    let mut reader = Reader { text, at: 0 };
    let object = reader.object(MAX_DEPTH - 1)?;
    (reader.at == text.len()).then_some(object)
}

struct Reader<'a> {
    text: &'a str,
    /// How much of it has been read.
    at: usize,
}

impl<'a> Reader<'a> {
    /// What follows an opening brace. `depth` is how many values may still be opened in one another.
    fn object(&mut self, depth: usize) -> Option<Value> {
        let mut fields = Map::new();
        if self.skip(b'}') {
            return Some(Value::Object(fields));
        }
        loop {
            self.expect(b'"')?;
            let name = self.string()?;
            self.expect(b':')?;
            fields.insert(name, self.value(depth)?);
            match self.next()? {
                b',' => {}
                b'}' => return Some(Value::Object(fields)),
                _ => return None,
            }
        }
    }

    /// What follows an opening bracket.
    fn array(&mut self, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        if self.skip(b']') {
            return Some(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            match self.next()? {
                b',' => {}
                b']' => return Some(Value::Array(items)),
                _ => return None,
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        match self.next()? {
            b'"' => self.string().map(Value::String),
            b'{' => self.object(depth.checked_sub(1)?),
            b'[' => self.array(depth.checked_sub(1)?),
            b'n' => self.word("ull", Value::Null),
            b't' => self.word("rue", Value::Bool(true)),
            b'f' => self.word("alse", Value::Bool(false)),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    /// What follows an opening quote.
    fn string(&mut self) -> Option<String> {
        let start = self.at;
        self.skip_plain();
        if self.skip(b'"') {
            return self.text.get(start..self.at - 1).map(str::to_owned);
        }
        // An escape, or no JSON.
        while self.next()? != b'"' {
            if self.text.as_bytes().get(self.at - 1) == Some(&b'\\') {
                self.at += 1;
            }
            self.skip_plain();
        }
        serde_json::from_str(self.text.get(start.checked_sub(1)?..self.at)?).ok()
    }

    /// As far as bytes stand for themselves in a string.
    fn skip_plain(&mut self) {
        let mut rest = self.rest();
        while let Some((word, behind)) = rest.split_first_chunk() {
            let escaped = escaped(word);
            if escaped != 0 {
                self.at += usize::try_from(escaped.trailing_zeros() / u8::BITS).unwrap_or_default();
                return;
            }
            self.at += word.len();
            rest = behind;
        }
        let is_plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..b' ');
        self.at += rest.iter().take_while(is_plain).count();
    }

    /// A number, of which the first byte has been read.
    fn number(&mut self) -> Option<Value> {
        let start = self.at - 1;
        let is_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        self.at += self.rest().iter().take_while(is_number).count();
        let text = self.text.get(start..self.at)?;
        match text.parse::<u64>() {
            Ok(number) if text == "0" || !text.starts_with('0') => Some(number.into()),
            _ => serde_json::from_str(text).ok(),
        }
    }

    /// The rest of a word that stands for a value.
    fn word(&mut self, rest: &str, value: Value) -> Option<Value> {
        let is_here = self.rest().starts_with(rest.as_bytes());
        self.at += rest.len();
        is_here.then_some(value)
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        byte
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Passes over the byte if it is the next one.
    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_read_as_serde_json_reads_them() {
        let nested = |depth: usize| format!("\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        let plain = "x".repeat(40);
        let escapes = (0..=40).flat_map(|at| {
            [
                "\\n",
                "\\\\",
                "\\\"",
                "\\u00e9",
                "\\ud83d\\ude00",
                "\\\\\\\"",
                "é",
                "\u{7f}",
                "\n",
                "\u{1f}",
                "\\x",
                "\"",
            ]
            .map(|char| format!("\"{}{char}\":\"{}{char}y\"}}", &plain[..at], &plain[at..]))
        });
        let values = [
            "",
            "null",
            "true",
            "false",
            "nul",
            "trueish",
            "0",
            "-0",
            "-1",
            "01",
            "1.5",
            "1e3",
            "-1E-3",
            "1.",
            "+1",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "-9223372036854775809",
            "[]",
            "[1,]",
            "[1 ,2]",
            "[1,2]",
            "{}",
            "{\"b\":2,}",
            "{\"b\":2,\"a\":[{}],\"b\":3}",
            "\"",
            "\"a",
            "\"\\",
            "x",
        ];
        let texts = values.into_iter().map(|value| format!("\"a\":{value}}}")).chain(escapes);
        let odd = ["", "}", "} ", "}}", " }", "\"a\"}", "\"a\":1", "\"a\":1,}", "\"a\" :1}", "a:1}"]
            .map(String::from);
        for text in
            texts.chain(odd).chain([nested(100), nested(126), nested(127), nested(128), nested(100_000)])
        {
            let expected: Option<Value> = serde_json::from_str(&format!("{{{text}")).ok();
            let found = fields(&text);
            // What has white space in it is left to others.
            assert!(found == expected || (found.is_none() && text.contains(' ')), "{text}: {found:?}");
        }
    }

    #[test]
    fn the_last_of_two_fields_counts() {
        assert_eq!(fields("\"a\":1,\"a\":2}"), Some(json!({"a": 2})));
    }
}
