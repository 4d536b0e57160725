//! Text of others on a terminal: what a server says must not move the cursor, change colours or
//! answer for the user.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on stderr. With stderr gone there is nobody left to tell.
pub fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{}", visible(text));
}

/// A bar for people who watch; a script sees nothing of it.
pub fn progress(quiet: bool, what: &str, length: usize) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(&format!("{{bar:40}} {{pos}}/{{len}} {what}, {{elapsed}}"));
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Whether what is written there may have colours.
#[expect(clippy::disallowed_methods, reason = "NO_COLOR is a convention of the environment")]
pub fn colours_wanted(to: &impl IsTerminal) -> bool {
    to.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The text with every control character but line breaks and tabs written as an escape, as
/// `\u{1b}`; also what changes the direction of text, which hides what stands there.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hidden(char) {
            shown.extend(char.escape_unicode());
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(char: char) -> bool {
    let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (char.is_control() && !matches!(char, '\n' | '\t')) || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_terminal_obeys_is_escaped() {
        for (text, expected) in [
            ("plain, größe, 日本 🚀\n\tnext", "plain, größe, 日本 🚀\n\tnext"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("over\rwritten\u{8}", "over\\u{d}written\\u{8}"),
            ("\u{9b}31m and \u{7f}", "\\u{9b}31m and \\u{7f}"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("nul\0", "nul\\u{0}"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert!(matches!(visible("plain"), Cow::Borrowed(_)));
    }
}
