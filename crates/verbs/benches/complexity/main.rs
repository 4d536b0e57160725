//! What is measured by `cargo xtask complexity`: the way of a write for every list
//! and map of every built-in kind, patches, selectors, definitions and CEL functions,
//! each with n elements and with twice as many.
//!
//! `complexity list` names the cases. `complexity run PART PARTS` runs every
//! PARTS-th of them, each call of [`measured_case`] being one measurement, and prints
//! `NAME<TAB>SIZE` for each. Whoever counts the instructions of that function (callgrind,
//! told to dump before [`end_of_case`]) has the counts in the same order.

// A tool for developers, which may stop where a server may not.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::expect_used, clippy::indexing_slicing)]

mod kinds;
mod language;
mod patches;
mod writes;

use std::{collections::BTreeSet, env, hint::black_box};

use writes::Writes;

/// One thing that grows, made anew for each size.
#[allow(missing_debug_implementations)]
pub struct Case {
    pub name: String,
    /// Elements of the smaller measurement: enough that they outweigh what every request costs.
    pub size: usize,
    pub work: Make,
}

/// Makes what is measured, of a size.
pub type Make = Box<dyn Fn(&Writes, usize) -> Work>;

/// What is measured; what it needs has been made before.
pub type Work = Box<dyn FnOnce(&Writes)>;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => all().iter().for_each(|case| println!("{}", case.name)),
        ["run", part, parts, ref wanted @ ..] => {
            let (part, parts): (usize, usize) = (part.parse().unwrap(), parts.parse().unwrap());
            let cases = all();
            let chosen = cases.iter().enumerate().filter(|(index, _)| index % parts == part);
            let chosen = chosen.map(|(_, case)| case);
            run(chosen.filter(|case| wanted.is_empty() || wanted.iter().any(|word| case.name.contains(word))));
        }
        // What `cargo bench` asks for; it has no time to tell.
        _ => println!("usage: complexity list | run PART PARTS [WORD...]"),
    }
}

fn all() -> Vec<Case> {
    let mut cases = kinds::cases();
    cases.extend(patches::cases());
    cases.extend(language::cases());
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
    cases
}

fn run<'a>(cases: impl Iterator<Item = &'a Case>) {
    let writes = Writes::new();
    for case in cases {
        // Tables that are made once, on first use, are made now.
        (case.work)(&writes, 2)(&writes);
        for size in [case.size, 2 * case.size] {
            let work = (case.work)(&writes, size);
            measured_case(&writes, work);
            end_of_case(&case.name, size);
        }
    }
}

/// The function whose instructions are counted, by its name.
#[inline(never)]
fn measured_case(writes: &Writes, work: Work) {
    black_box(work)(black_box(writes));
}

/// Where the count of a case is complete, by its name.
#[inline(never)]
fn end_of_case(name: &str, size: usize) {
    println!("{name}\t{size}");
}
