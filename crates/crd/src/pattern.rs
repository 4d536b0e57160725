//! Go's regular expressions: checked as Go checks them, run by the `regex` crate.
//!
//! [`translate`] reads a pattern by Go's grammar and either gives Go's error text
//! or an equal pattern for the engine here. The grammars differ where it is easy
//! to miss: `\d`, `\w`, `\s` and `\b` are ASCII in Go, `a{,2}` is text.
//! Matching takes time linear in the text.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind},
};

/// A repetition may ask for no more than this, nested ones multiplied.
const MAX_REPEAT: u64 = 1000;

/// How deeply groups may nest, as in Go.
const MAX_NESTING: usize = 1000;

/// Memory that one compiled pattern may take.
pub const MAX_COMPILED: usize = 16 << 20;

/// Up to this weight a pattern certainly fits [`MAX_COMPILED`] and is compiled in no time.
const LIGHT: usize = 20_000;

/// What the patterns of one schema that are not light may weigh together: about a fifth of a second
/// of compiling.
pub const MAX_WEIGHT: usize = 1_000_000;

/// What Go says of a pattern that it does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}: `{what}`")]
pub struct PatternError {
    problem: &'static str,
    what: String,
}

/// A pattern ready to run.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    pub fn compile(pattern: &str) -> Result<Self, PatternError> {
        let translated = translate(pattern)?;
        RegexBuilder::new(&translated)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .nest_limit(u32::try_from(2 * MAX_NESTING).unwrap_or(u32::MAX))
            .build()
            .map(Self)
            .map_err(|_| PatternError { problem: "expression too large", what: pattern.into() })
    }

    /// Checks a pattern as [`Pattern::compile`] does, and compiles only what is large. What it weighs is
    /// taken from `left`; where that is not enough, a pattern is too large as well.
    pub fn check(pattern: &str, left: &mut usize) -> Result<(), PatternError> {
        let too_large = || PatternError { problem: "expression too large", what: pattern.into() };
        let translated = translate(pattern)?;
        let parsed = ParserBuilder::new()
            .utf8(false)
            .nest_limit(u32::try_from(2 * MAX_NESTING).unwrap_or(u32::MAX))
            .build()
            .parse(&translated)
            .map_err(|_| too_large())?;
        let weight = weight(&parsed);
        if weight <= LIGHT {
            return Ok(());
        }
        *left = left.checked_sub(weight).ok_or_else(too_large)?;
        Self::compile(pattern).map(|_| ())
    }

    /// As [`Pattern::compile`], but one for all that have it at the time: a compiled pattern takes
    /// tens of kilobytes, and definitions have many in common.
    pub fn shared(pattern: &str) -> Result<Arc<Self>, PatternError> {
        static KNOWN: Mutex<Option<HashMap<Box<str>, Weak<Pattern>>>> = Mutex::new(None);
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().as_ref().and_then(|all| all.get(pattern)?.upgrade()) {
            return Ok(found);
        }
        // Outside the lock: some take long.
        let compiled = Arc::new(Self::compile(pattern)?);
        let mut known = known();
        let all = known.get_or_insert_default();
        if all.len() == all.capacity() {
            all.retain(|_, pattern| pattern.strong_count() > 0);
        }
        all.insert(pattern.into(), Arc::downgrade(&compiled));
        Ok(compiled)
    }

    /// Whether the pattern is found anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// About how many states a pattern has when it is compiled.
fn weight(pattern: &Hir) -> usize {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(text) => text.0.len(),
        HirKind::Class(class) => match class {
            Class::Unicode(class) => class.ranges().len().max(1),
            Class::Bytes(class) => class.ranges().len().max(1),
        },
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min.saturating_add(1)).max(1);
            weight(&repeated.sub).saturating_mul(usize::try_from(times).unwrap_or(usize::MAX))
        }
        HirKind::Capture(capture) => weight(&capture.sub).saturating_add(1),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(0, |sum: usize, part| sum.saturating_add(weight(part)))
        }
    }
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
    fn equal_patterns_are_compiled_once_for_as_long_as_one_is_in_use() {
        let first = Pattern::shared("^shared-[a-z]+$").unwrap();
        assert!(Arc::ptr_eq(&first, &Pattern::shared("^shared-[a-z]+$").unwrap()));
        assert!(!Arc::ptr_eq(&first, &Pattern::shared("^shared-[a-z]*$").unwrap()));
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        assert!(Pattern::shared("^shared-[a-z]+$").unwrap().is_match("shared-x"));
    }

    #[test]
    fn heavy_patterns_share_what_a_schema_may_weigh() {
        let mut left = MAX_WEIGHT;
        for light in ["^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", r"\pL", "^(a+)+$", &"x".repeat(LIGHT)] {
            assert_eq!(Pattern::check(light, &mut left), Ok(()));
        }
        assert_eq!(left, MAX_WEIGHT);
        let heavy = r"^\pL{100}$";
        let before = left;
        assert_eq!(Pattern::check(heavy, &mut left), Ok(()));
        let weight = before - left;
        assert!(weight > LIGHT, "{weight}");
        let mut left = weight;
        assert_eq!(Pattern::check(heavy, &mut left), Ok(()));
        assert_eq!(left, 0);
        let mut left = weight - 1;
        assert!(Pattern::check(heavy, &mut left).unwrap_err().to_string().contains("expression too large"));
        // Far past it nothing is compiled, and little is done.
        let bomb = r"(\pL{1000}|\pN{1000})".repeat(2_000);
        assert!(Pattern::check(&bomb, &mut MAX_WEIGHT.clone()).is_err());
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
            assert_eq!(Pattern::compile(pattern).unwrap().is_match(text), expected, "{pattern}");
        }
    }

    #[test]
    fn repetitions_are_bounded() {
        assert!(translate("a{1000}").is_ok());
        assert_eq!(translate("a{1001}").unwrap_err().what, "{1001}");
        assert!(translate("(a{100}){10}").is_ok());
        assert_eq!(translate("(a{100}){11}").unwrap_err().what, "{11}");
        let nested = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
        assert!(Pattern::compile(&nested(MAX_NESTING)).is_ok());
        assert_eq!(translate(&nested(MAX_NESTING + 1)).unwrap_err().problem, "expression nests too deeply");
        assert!(Pattern::compile(&r"\pL{1000}".repeat(20)).is_err());
    }
}
