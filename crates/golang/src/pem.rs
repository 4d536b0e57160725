//! Blocks of PEM text, found as Go's `encoding/pem` finds them.

use std::str::Lines;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// `-----BEGIN KIND-----`, headers, base64, `-----END KIND-----`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub kind: String,
    pub headers: usize,
    /// What the base64 stands for.
    pub contents: Vec<u8>,
}

/// All blocks; text around them and blocks that do not end are passed over.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(kind) =
            line.strip_prefix("-----BEGIN ").and_then(|rest| rest.trim_end().strip_suffix("-----"))
        else {
            continue;
        };
        if let Some((block, rest)) = body(kind, lines.clone()) {
            found.push(block);
            lines = rest;
        }
    }
    found
}

/// The block whose first line is behind us, and what follows it.
fn body<'a>(kind: &str, mut lines: Lines<'a>) -> Option<(Block, Lines<'a>)> {
    let end = format!("-----END {kind}-----");
    let mut headers = 0;
    let mut base64 = String::new();
    loop {
        let line = lines.next()?.trim_end();
        if line == end {
            let contents = STANDARD.decode(base64).ok()?;
            return Some((Block { kind: kind.into(), headers, contents }, lines));
        }
        if base64.is_empty() && line.contains(':') {
            headers += 1;
        } else {
            base64.extend(line.chars().filter(|char| !char.is_ascii_whitespace()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_between_other_text() {
        let text = "junk\n-----BEGIN A B-----\nK: v\n\nAAAA\n-----END A B-----\nmore\n-----BEGIN C-----\n-----END C-----\n-----BEGIN D-----\nAA\n";
        let kinds: Vec<(String, usize)> =
            blocks(text).into_iter().map(|block| (block.kind, block.headers)).collect();
        assert_eq!(kinds, [("A B".to_owned(), 1), ("C".to_owned(), 0)]);
        for bad in ["*", "A", "AAA=A"] {
            assert_eq!(blocks(&format!("-----BEGIN X-----\n{bad}\n-----END X-----")), [], "{bad}");
        }
    }
}
