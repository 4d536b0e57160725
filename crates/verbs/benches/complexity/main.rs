//! What is measured by `cargo xtask complexity`: the way of a write for every list
//! and map of every built-in kind, patches, selectors, definitions, CEL functions and
//! expressions, each with n elements, twice and four times as many.
//!
//! `complexity list` prints `NAME<TAB>SIZE` for each case. `complexity run` reads lines of a
//! case's number in that list and a size, `12 400`, and runs each: one call of [`measured_case`]
//! is one measurement. Whoever counts the instructions of that function (callgrind, told to dump
//! before [`end_of_case`]) has the count once the line is answered.

// A tool for developers, which may stop where a server may not.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::expect_used, clippy::indexing_slicing)]

mod kinds;
mod known;
mod language;
mod patches;
mod writes;

use std::{collections::BTreeSet, env, hint::black_box, io};

use writes::Writes;

/// One thing that grows, made anew for each size.
#[allow(missing_debug_implementations)]
pub struct Case {
    pub name: String,
    /// Elements of the smallest measurement.
    pub size: usize,
    pub work: Make,
}

/// Makes what is measured, of a size.
pub type Make = Box<dyn Fn(&Writes, usize) -> Work>;

/// What is measured; what it needs has been made before, and is dropped afterwards.
pub type Work = Box<dyn Fn(&Writes)>;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => all().iter().for_each(|case| println!("{}\t{}", case.name, case.size)),
        ["run"] => run(&all()),
        // What `cargo bench` asks for; it has no time to tell.
        _ => println!("usage: complexity list | run"),
    }
}

fn all() -> Vec<Case> {
    let mut cases = known::cases();
    cases.extend(kinds::cases());
    cases.extend(patches::cases());
    cases.extend(language::cases());
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
    cases
}

fn run(cases: &[Case]) {
    let writes = Writes::new();
    let mut warm = BTreeSet::new();
    for line in io::stdin().lines() {
        let line = line.unwrap();
        let (index, size) = line.split_once(' ').unwrap();
        let (index, size): (usize, usize) = (index.parse().unwrap(), size.parse().unwrap());
        let case = &cases[index];
        if warm.insert(index) {
            // Tables that are made once, on first use, are made now.
            (case.work)(&writes, 2)(&writes);
        }
        let work = (case.work)(&writes, size);
        measured_case(&writes, &work);
        end_of_case(&case.name, size);
    }
}

/// The function whose instructions are counted, by its name.
#[inline(never)]
fn measured_case(writes: &Writes, work: &Work) {
    black_box(work)(black_box(writes));
}

/// Where the count of a case is complete, by its name.
#[inline(never)]
fn end_of_case(name: &str, size: usize) {
    println!("{name}\t{size}");
}
