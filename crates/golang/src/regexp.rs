//! Patterns as `regexp` reads them, run by the `regex` crate.
//!
//! [`translate`] reads a pattern by Go's grammar and either gives Go's error text
//! or an equal pattern for the engine here. The grammars differ where it is easy
//! to miss: `\d`, `\w`, `\s` and `\b` are ASCII in Go, `a{,2}` is text.
//! Matching takes time linear in the text.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// A repetition may ask for no more than this, nested ones multiplied.
pub const MAX_REPEAT: u64 = 1000;

/// How deeply groups may nest, as in Go.
pub const MAX_NESTING: usize = 1000;

/// How deeply the engine may nest for what Go takes.
pub const NEST_LIMIT: u32 = 2 * MAX_NESTING as u32;

/// What Go says of a pattern that it does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    problem: &'static str,
    what: String,
}

impl PatternError {
    /// The answer to a pattern that takes more memory than it may.
    pub fn too_large(pattern: &str) -> Self {
        Self { problem: "expression too large", what: pattern.into() }
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "error parsing regexp: {}: `{}`", self.problem, self.what)
    }
}

impl std::error::Error for PatternError {}

/// A pattern ready to run, which takes no more than so many bytes.
pub fn compile(pattern: &str, most_bytes: usize) -> Result<Regex, PatternError> {
    RegexBuilder::new(&translate(pattern)?)
        .size_limit(most_bytes)
        .dfa_size_limit(most_bytes)
        .nest_limit(NEST_LIMIT)
        .build()
        .map_err(|_| PatternError::too_large(pattern))
}

/// The pattern as the `regex` crate writes it.
pub fn translate(pattern: &str) -> Result<String, PatternError> {
    let mut parser =
        Parser { whole: pattern, rest: pattern, out: String::new(), groups: vec![Group::default()] };
    parser.run()?;
    Ok(parser.out)
}

/// An open group: whether something to repeat came last, and how much repeats inside.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    has_item: bool,
    /// The repetitions within the last item and within the group so far.
    item_repeats: u64,
    repeats: u64,
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    groups: Vec<Group>,
}

impl<'a> Parser<'a> {
    fn run(&mut self) -> Result<(), PatternError> {
        // Where the repetition before this place began, if one just ended.
        let mut last_repeat: Option<&'a str> = None;
        while let Some(first) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeated = None;
            match first {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.skip(1);
                    self.out.push('|');
                    self.group().has_item = false;
                }
                '^' | '$' | '.' => {
                    self.skip(1);
                    self.out.push(first);
                    self.item(1);
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.skip(1);
                    self.repeat(before, last_repeat, None)?;
                    repeated = Some(before);
                }
                '{' => match bounds(self.rest) {
                    None => self.literal(first),
                    Some((least, most, after)) => {
                        self.rest = after;
                        let too_many =
                            least > MAX_REPEAT || most.is_some_and(|most| most > MAX_REPEAT || most < least);
                        if too_many {
                            return Err(self.error("invalid repeat count", taken(before, after)));
                        }
                        self.repeat(before, last_repeat, Some(most.unwrap_or(least).max(least)))?;
                        repeated = Some(before);
                    }
                },
                '\\' => self.backslash()?,
                literal => self.literal(literal),
            }
            last_repeat = repeated;
        }
        if self.groups.len() > 1 {
            return Err(self.error("missing closing )", self.whole));
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), PatternError> {
        if self.groups.len() > MAX_NESTING {
            return Err(self.error("expression nests too deeply", self.whole));
        }
        let before = self.rest;
        let Some(after) = before.strip_prefix("(?") else {
            self.skip(1);
            self.out.push_str("(?:");
            self.groups.push(Group::default());
            return Ok(());
        };
        let named = after.strip_prefix("P<").or_else(|| after.strip_prefix('<'));
        if let Some(named) = named {
            let Some((name, rest)) = named.split_once('>') else {
                return Err(self.error("invalid named capture", before));
            };
            let word = |char: char| char == '_' || char.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(word) {
                return Err(self.error("invalid named capture", taken(before, rest)));
            }
            self.rest = rest;
            self.out.push_str("(?:");
            self.groups.push(Group::default());
            return Ok(());
        }
        self.flags(before, after)
    }

    /// `(?i)`, `(?i-s:`
    fn flags(&mut self, before: &'a str, after: &'a str) -> Result<(), PatternError> {
        let mut rest = after;
        let (mut negated, mut seen) = (false, false);
        while let Some(char) = rest.chars().next() {
            rest = rest.get(char.len_utf8()..).unwrap_or_default();
            match char {
                'i' | 'm' | 's' | 'U' => seen = true,
                '-' if !negated => {
                    negated = true;
                    seen = false;
                }
                ':' | ')' if !negated || seen => {
                    let text = taken(before, rest);
                    // `(?)` sets nothing and is refused by the engine here.
                    self.out.push_str(if text == "(?)" { "(?:)" } else { text });
                    self.rest = rest;
                    if char == ':' {
                        self.groups.push(Group::default());
                    }
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(self.error("invalid or unsupported Perl syntax", taken(before, rest)))
    }

    fn close(&mut self) -> Result<(), PatternError> {
        let (true, Some(group)) = (self.groups.len() > 1, self.groups.pop()) else {
            return Err(self.error("unexpected )", self.whole));
        };
        self.skip(1);
        self.out.push(')');
        self.item(group.repeats.max(1));
        Ok(())
    }

    /// After the operator was taken: `most` is its bound, or none for `*`, `+` and `?`.
    fn repeat(
        &mut self,
        before: &'a str,
        last_repeat: Option<&'a str>,
        most: Option<u64>,
    ) -> Result<(), PatternError> {
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
        }
        if let Some(last) = last_repeat {
            return Err(self.error("invalid nested repetition operator", taken(last, self.rest)));
        }
        let text = taken(before, self.rest);
        let repeats = self.group().item_repeats.saturating_mul(most.unwrap_or(1).max(1));
        if !self.group().has_item {
            return Err(self.error("missing argument to repetition operator", text));
        }
        if most.is_some_and(|most| most >= 2) && repeats > MAX_REPEAT {
            return Err(self.error("invalid repeat count", text));
        }
        self.out.push_str(text);
        let group = self.group();
        group.item_repeats = repeats;
        group.repeats = group.repeats.max(repeats);
        Ok(())
    }

    fn backslash(&mut self) -> Result<(), PatternError> {
        let before = self.rest;
        let second = before.chars().nth(1);
        if let Some(char @ ('A' | 'b' | 'B' | 'z')) = second {
            self.skip(2);
            self.out.push_str(match char {
                'A' => "\\A",
                'b' => "(?-u:\\b)",
                'B' => "(?-u:\\B)",
                _ => "\\z",
            });
            self.item(1);
            return Ok(());
        }
        if second == Some('Q') {
            self.skip(2);
            let (text, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
            self.rest = rest;
            for char in text.chars() {
                self.emit(char);
                self.item(1);
            }
            return Ok(());
        }
        if let Some(class) = self.short_class()? {
            self.out.push_str(&class);
        } else {
            let char = self.escape()?;
            self.emit(char);
        }
        self.item(1);
        Ok(())
    }

    /// `\d`, `\pL`: a class, in brackets of its own. Takes nothing if there is none.
    fn short_class(&mut self) -> Result<Option<String>, PatternError> {
        let before = self.rest;
        let class = match before.chars().nth(1) {
            Some('d') => "[0-9]",
            Some('D') => "[^0-9]",
            Some('w') => "[0-9A-Za-z_]",
            Some('W') => "[^0-9A-Za-z_]",
            Some('s') => "[\\t\\n\\x0C\\r ]",
            Some('S') => "[^\\t\\n\\x0C\\r ]",
            Some('p' | 'P') => return self.unicode_class().map(Some),
            _ => return Ok(None),
        };
        self.skip(2);
        Ok(Some(class.into()))
    }

    fn unicode_class(&mut self) -> Result<String, PatternError> {
        let before = self.rest;
        let mut negated = before.starts_with("\\P");
        self.skip(2);
        let name = match self.rest.strip_prefix('{') {
            Some(rest) => match rest.split_once('}') {
                Some((name, rest)) => {
                    self.rest = rest;
                    name
                }
                None => return Err(self.error("invalid character class range", before)),
            },
            None => match self.rest.chars().next() {
                Some(char) => {
                    let (name, rest) = self.rest.split_at_checked(char.len_utf8()).unwrap_or((self.rest, ""));
                    self.rest = rest;
                    name
                }
                None => return Err(self.error("invalid character class range", before)),
            },
        };
        let text = taken(before, self.rest);
        let name = match name.strip_prefix('^') {
            Some(name) => {
                negated = !negated;
                name
            }
            None => name,
        };
        let class = match name {
            "Any" => "[\\x{0}-\\x{10FFFF}]".to_owned(),
            name if is_category(name) => format!("\\p{{gc={name}}}"),
            name if name.len() > 2 && name.chars().all(|char| char.is_ascii_alphabetic() || char == '_') => {
                format!("\\p{{sc={name}}}")
            }
            _ => return Err(self.error("invalid character class range", text)),
        };
        if Regex::new(&class).is_err() {
            return Err(self.error("invalid character class range", text));
        }
        Ok(if negated { format!("[^{class}]") } else { format!("[{class}]") })
    }

    /// One escaped character, the backslash included.
    fn escape(&mut self) -> Result<char, PatternError> {
        let before = self.rest;
        self.skip(1);
        let Some(char) = self.rest.chars().next() else {
            return Err(self.error("trailing backslash at end of expression", ""));
        };
        self.skip(char.len_utf8());
        let found = match char {
            '1'..='7' if !self.rest.starts_with(|next: char| next.is_digit(8)) => None,
            '0'..='7' => {
                let mut code = char.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    match self.rest.chars().next().and_then(|next| next.to_digit(8)) {
                        Some(digit) => {
                            code = code * 8 + digit;
                            self.skip(1);
                        }
                        None => break,
                    }
                }
                char::from_u32(code)
            }
            'x' => self.hexadecimal(),
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            char if char.is_ascii() && !char.is_ascii_alphanumeric() => Some(char),
            _ => None,
        };
        found.ok_or_else(|| self.error("invalid escape sequence", taken(before, self.rest)))
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let mut code = 0;
        if let Some(rest) = self.rest.strip_prefix('{') {
            self.rest = rest;
            let mut digits = 0;
            loop {
                let next = self.rest.chars().next()?;
                self.skip(next.len_utf8());
                match next.to_digit(16) {
                    Some(digit) => {
                        code = code * 16 + digit;
                        digits += 1;
                        if code > 0x0010_FFFF {
                            return None;
                        }
                    }
                    None if next == '}' && digits > 0 => return char::from_u32(code),
                    None => return None,
                }
            }
        }
        for _ in 0..2 {
            let next = self.rest.chars().next()?;
            self.skip(next.len_utf8());
            code = code * 16 + next.to_digit(16)?;
        }
        char::from_u32(code)
    }

    fn class(&mut self) -> Result<(), PatternError> {
        let whole = self.rest;
        self.skip(1);
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            self.out.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if let Some(name) = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
                let before = self.rest;
                self.rest = name.1;
                let text = taken(before, self.rest);
                if !POSIX.contains(&name.0.trim_start_matches('^')) {
                    return Err(self.error("invalid character class range", text));
                }
                self.out.push_str(text);
                continue;
            }
            if self.rest.starts_with('\\')
                && let Some(class) = self.short_class()?
            {
                self.out.push_str(&class);
                continue;
            }
            let range = self.rest;
            let low = self.class_char(whole)?;
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() >= 2 {
                self.skip(1);
                high = self.class_char(whole)?;
                if high < low {
                    return Err(self.error("invalid character class range", taken(range, self.rest)));
                }
            }
            self.out.push_str(&format!("\\x{{{:X}}}-\\x{{{:X}}}", u32::from(low), u32::from(high)));
        }
        self.skip(1);
        self.out.push(']');
        self.item(1);
        Ok(())
    }

    fn class_char(&mut self, whole: &'a str) -> Result<char, PatternError> {
        match self.rest.chars().next() {
            None => Err(self.error("missing closing ]", whole)),
            Some('\\') => self.escape(),
            Some(char) => {
                self.skip(char.len_utf8());
                Ok(char)
            }
        }
    }

    fn literal(&mut self, char: char) {
        self.skip(char.len_utf8());
        self.emit(char);
        self.item(1);
    }

    fn emit(&mut self, char: char) {
        self.out.push_str(&regex::escape(char.encode_utf8(&mut [0; 4])));
    }

    fn item(&mut self, repeats: u64) {
        let group = self.group();
        group.has_item = true;
        group.item_repeats = repeats;
        group.repeats = group.repeats.max(repeats);
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let last = self.groups.len() - 1;
        #[expect(clippy::indexing_slicing, reason = "there is always one group")]
        &mut self.groups[last]
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn error(&self, problem: &'static str, what: &str) -> PatternError {
        PatternError { problem, what: what.into() }
    }
}

const POSIX: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

fn is_category(name: &str) -> bool {
    let mut chars = name.chars();
    matches!(
        (chars.next(), chars.next(), chars.next()),
        (Some('C' | 'L' | 'M' | 'N' | 'P' | 'S' | 'Z'), None | Some('a'..='z'), None)
    )
}

/// The part of `before` that is no more in `after`, its tail.
fn taken<'a>(before: &'a str, after: &str) -> &'a str {
    before.get(..before.len() - after.len()).unwrap_or(before)
}

/// `{2}`, `{2,}`, `{2,3}` and what follows; anything else in braces is text.
fn bounds(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let (inner, after) = text.strip_prefix('{')?.split_once('}')?;
    let number = |text: &str| {
        let plain = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text.len() == 1 || !text.starts_with('0'));
        // Anything too long to read is too much.
        plain.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    match inner.split_once(',') {
        None => number(inner).map(|least| (least, Some(least), after)),
        Some((least, "")) => number(least).map(|least| (least, None, after)),
        Some((least, most)) => Some((number(least)?, Some(number(most)?), after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_bounded() {
        assert!(translate("a{1000}").is_ok());
        assert_eq!(translate("a{1001}").unwrap_err().what, "{1001}");
        assert!(translate("(a{100}){10}").is_ok());
        assert_eq!(translate("(a{100}){11}").unwrap_err().what, "{11}");
        let nested = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
        assert!(compile(&nested(MAX_NESTING), 1 << 24).is_ok());
        assert_eq!(translate(&nested(MAX_NESTING + 1)).unwrap_err().problem, "expression nests too deeply");
        assert!(compile(&r"\pL{1000}".repeat(20), 1 << 24).is_err());
    }

    #[test]
    fn classes_are_those_of_go() {
        for (pattern, text, expected) in [
            (r"^\d$", "٣", false),
            (r"^\w+$", "é", false),
            (r"^\W$", "é", true),
            (r"^[^\d]$", "٣", true),
            (r"a\b", "aé", true),
            (r"^\p{Greek}+$", "αβ", true),
            (r"^\PL$", "a", false),
            (r"(?i)^straße$", "STRAßE", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^[]a]+$", "]a", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\x41\x{42}\103$", "ABC", true),
            (r"a$", "a\n", false),
            (r"^.$", "\n", false),
            (r"^[a&&b]$", "&", true),
            (r"^[[a]$", "[", true),
            (r"^[a-]$", "-", true),
            (r"^a~b#c d$", "a~b#c d", true),
        ] {
            assert_eq!(compile(pattern, 1 << 24).unwrap().is_match(text), expected, "{pattern}");
        }
    }
}
