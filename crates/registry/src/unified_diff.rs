//! The difference of two texts, as messages about immutable fields show it.
//!
//! Lines of context, the choice of matching blocks and the headers follow
//! Python's `difflib`, whose port upstream uses.

use std::{collections::HashMap, fmt::Write as _, ops::Range};

/// Unchanged lines shown around each change.
const CONTEXT: usize = 3;

/// From this many lines on, frequent lines no longer start a match.
const LONG: usize = 200;

/// From this many lines on one text takes the place of the other: to find what is the same in both
/// takes more than linear time.
pub const MAX_LINES: usize = 10_000;

/// The hunks that lead from `old` to `new`; empty if they are equal.
pub fn unified_diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    for hunk in hunks(&edits(&old, &new)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let old_range = header(&(first.old.start..last.old.end));
        let new_range = header(&(first.new.start..last.new.end));
        let _ = writeln!(out, "@@ -{old_range} +{new_range} @@");
        for edit in &hunk {
            if edit.same {
                print(&mut out, ' ', &old, &edit.old);
            } else {
                print(&mut out, '-', &old, &edit.old);
                print(&mut out, '+', &new, &edit.new);
            }
        }
    }
    out
}

/// A stretch of both texts, equal or replaced.
#[derive(Debug, Clone)]
struct Edit {
    same: bool,
    old: Range<usize>,
    new: Range<usize>,
}

fn edits(old: &[&str], new: &[&str]) -> Vec<Edit> {
    if old.len().max(new.len()) > MAX_LINES && old != new {
        return vec![Edit { same: false, old: 0..old.len(), new: 0..new.len() }];
    }
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    // Lines that are everywhere say little about what belongs together.
    if new.len() >= LONG {
        places.retain(|_, at| at.len() <= new.len() / 100 + 1);
    }
    // Of each line of `old`, where it is in `new`, in order.
    let places: Vec<&[usize]> =
        old.iter().map(|line| places.get(line).map_or(&[][..], Vec::as_slice)).collect();
    let mut blocks = Vec::new();
    let mut pending = vec![(0..old.len(), 0..new.len())];
    while let Some((in_old, in_new)) = pending.pop() {
        let (at_old, at_new, length) = longest_match(old, new, &places, &in_old, &in_new);
        if length > 0 {
            blocks.push((at_old, at_new, length));
            pending.push((in_old.start..at_old, in_new.start..at_new));
            pending.push((at_old + length..in_old.end, at_new + length..in_new.end));
        }
    }
    blocks.sort_unstable();
    blocks.push((old.len(), new.len(), 0));
    let mut edits: Vec<Edit> = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for (at_old, at_new, length) in blocks {
        if at_old > old_at || at_new > new_at {
            edits.push(Edit { same: false, old: old_at..at_old, new: new_at..at_new });
        }
        (old_at, new_at) = (at_old + length, at_new + length);
        match edits.last_mut() {
            Some(last) if last.same && last.old.end == at_old && last.new.end == at_new => {
                last.old.end = old_at;
                last.new.end = new_at;
            }
            _ if length > 0 => {
                edits.push(Edit { same: true, old: at_old..old_at, new: at_new..new_at });
            }
            _ => {}
        }
    }
    edits
}

/// The longest run both have; of equally long ones the first in `old`, then in `new`.
fn longest_match(
    old: &[&str],
    new: &[&str],
    places: &[&[usize]],
    in_old: &Range<usize>,
    in_new: &Range<usize>,
) -> (usize, usize, usize) {
    let mut best = (in_old.start, in_new.start, 0);
    // Lines of `new` at which a run ends, in order, and its length; for the line of `old` before and for this one.
    let mut before: Vec<(usize, usize)> = Vec::new();
    let mut runs = Vec::new();
    for (index, at) in places.iter().enumerate().take(in_old.end).skip(in_old.start) {
        std::mem::swap(&mut before, &mut runs);
        runs.clear();
        let mut ended = before.iter().peekable();
        let first = at.partition_point(|place| *place < in_new.start);
        for &place in at.iter().skip(first).take_while(|place| **place < in_new.end) {
            while ended.next_if(|(end, _)| end + 1 < place).is_some() {}
            let length = 1 + ended.next_if(|(end, _)| end + 1 == place).map_or(0, |(_, length)| *length);
            runs.push((place, length));
            if length > best.2 {
                best = (index + 1 - length, place + 1 - length, length);
            }
        }
    }
    // Lines that do not start a match may still continue one.
    let (mut at_old, mut at_new, mut length) = best;
    let equal = |at_old: usize, at_new: usize| {
        in_old.contains(&at_old) && in_new.contains(&at_new) && old.get(at_old) == new.get(at_new)
    };
    while at_old > 0 && at_new > 0 && equal(at_old - 1, at_new - 1) {
        (at_old, at_new, length) = (at_old - 1, at_new - 1, length + 1);
    }
    while equal(at_old + length, at_new + length) {
        length += 1;
    }
    (at_old, at_new, length)
}

/// Groups changes whose context touches, and cuts long equal stretches.
fn hunks(edits: &[Edit]) -> Vec<Vec<Edit>> {
    let mut hunks = Vec::new();
    let mut hunk: Vec<Edit> = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        if !edit.same {
            hunk.push(edit.clone());
            continue;
        }
        let (first, last) = (index == 0, index + 1 == edits.len());
        let head = Edit {
            same: true,
            old: edit.old.start..edit.old.end.min(edit.old.start + CONTEXT),
            new: edit.new.start..edit.new.end.min(edit.new.start + CONTEXT),
        };
        let tail = Edit {
            same: true,
            old: edit.old.start.max(edit.old.end.saturating_sub(CONTEXT))..edit.old.end,
            new: edit.new.start.max(edit.new.end.saturating_sub(CONTEXT))..edit.new.end,
        };
        if first {
            hunk.push(tail);
        } else if last {
            hunk.push(head);
        } else if edit.old.len() > 2 * CONTEXT {
            hunk.push(head);
            hunks.push(std::mem::take(&mut hunk));
            hunk.push(tail);
        } else {
            hunk.push(edit.clone());
        }
    }
    if hunk.iter().any(|edit| !edit.same) {
        hunks.push(hunk);
    }
    hunks
}

/// Where a hunk stands: the first line, counted from one, and how many.
fn header(range: &Range<usize>) -> String {
    match range.len() {
        1 => format!("{}", range.start + 1),
        0 => format!("{},0", range.start),
        length => format!("{},{length}", range.start + 1),
    }
}

fn print(out: &mut String, sign: char, lines: &[&str], range: &Range<usize>) {
    for line in lines.get(range.clone()).unwrap_or_default() {
        let _ = writeln!(out, "{sign}{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_carry_three_lines_of_context() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16";
        let near = old.replace("\n5\n", "\nfive\n").replace("\n11\n", "\neleven\nmore\n");
        assert_eq!(
            unified_diff(old, &near),
            "@@ -2,13 +2,14 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n 10\n-11\n+eleven\n+more\n 12\n 13\n 14\n"
        );
        let far = old.replace("1\n2\n", "2\n").replace("\n15\n", "\n");
        assert_eq!(
            unified_diff(old, &far),
            "@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n@@ -12,5 +11,4 @@\n 12\n 13\n 14\n-15\n 16\n"
        );
        assert_eq!(unified_diff(old, old), "");
        assert_eq!(unified_diff("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
    }

    #[test]
    fn long_texts_are_replaced_as_a_whole() {
        let text = |lines: usize, last: &str| "x\n".repeat(lines - 1) + last;
        let hunks = |lines| unified_diff(&text(lines, "a"), &text(lines, "b")).lines().count();
        assert_eq!(hunks(MAX_LINES), 1 + CONTEXT + 2);
        assert_eq!(hunks(MAX_LINES + 1), 1 + 2 * (MAX_LINES + 1));
        assert_eq!(unified_diff(&text(MAX_LINES + 1, "a"), &text(MAX_LINES + 1, "a")), "");
    }
}
