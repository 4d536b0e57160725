//! What came of a campaign, in Markdown.

use std::fmt::Write;

use crate::campaign::{Plan, Result};

/// More of the same helps nobody.
const SHOWN: usize = 20;

pub fn markdown(plan: &Plan, result: &Result) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, plan, result);
    text
}

fn write(text: &mut String, plan: &Plan, result: &Result) -> std::fmt::Result {
    let on = match &plan.etcd {
        Some(_) => "three servers on an etcd of three members",
        None => "one server on its own store",
    };
    writeln!(text, "# Fault campaign: {on}\n")?;
    let (strikes, seconds) =
        (result.faults.values().map(|strikes| strikes.times).sum::<u64>(), result.took.as_secs());
    let (seed, paired, found) = (plan.seed, result.paired, result.violations.len());
    writeln!(text, "Seed {seed}, {seconds} s, {strikes} faults, {found} violations.")?;
    if paired > 0 {
        writeln!(text, "{paired} faults came while something else was wrong already.")?;
    }
    writeln!(text)?;
    let pulled = match plan.namespaces {
        true => ", as is made by pulling the cable of a process's network namespace",
        false => "",
    };
    writeln!(
        text,
        "Everything runs on this machine. Connections go through proxies in user space, which hold, delay, throttle or \
         cut them, each way on its own; they still accept connections while they hold, unlike a real black hole{pulled}. \
         Wall clocks jump of servers, not of members.\n"
    )?;
    writeln!(text, "| fault | times | slowest return, s |\n|---|---:|---:|")?;
    for (fault, strikes) in &result.faults {
        writeln!(text, "| {fault:?} | {} | {:.1} |", strikes.times, strikes.slowest_recovery.as_secs_f64())?;
    }
    for fault in &result.left_out {
        writeln!(text, "| {fault:?} | cannot be had here | |")?;
    }
    let counts = &result.counts;
    writeln!(text, "\n| checked | |\n|---|---:|")?;
    let rows: [(&str, u64); 12] = [
        ("writes acknowledged", counts.acknowledged as u64),
        ("writes refused", counts.refused as u64),
        ("writes of unknown outcome", counts.uncertain as u64),
        ("of these, creates and updates that happened", counts.appeared as u64),
        ("changes in the store", counts.changes as u64),
        ("gets", counts.gets as u64),
        ("lists", counts.lists as u64),
        ("watches", counts.watches as u64),
        ("events of watches", counts.events as u64),
        ("watches taken up where they were", counts.resumed),
        ("watches begun with a list", counts.relisted),
        ("servers that ran the controllers, one after the other", counts.leads as u64),
    ];
    for (what, count) in rows {
        writeln!(text, "| {what} | {count} |")?;
    }
    if !result.ended.is_empty() {
        writeln!(text, "\n| ended by itself, and started again | times |\n|---|---:|")?;
        for (what, times) in &result.ended {
            writeln!(text, "| {} | {times} |", what.replace('|', "\\|"))?;
        }
    }
    writeln!(text, "\n| errors that clients were answered | times |\n|---|---:|")?;
    for (what, times) in &result.failures {
        writeln!(text, "| {} | {times} |", what.replace('|', "\\|"))?;
    }
    writeln!(text, "\n## Violations\n")?;
    if result.violations.is_empty() {
        writeln!(text, "None.")?;
    }
    for violation in result.violations.iter().take(SHOWN) {
        writeln!(text, "- **{}**: {}", violation.rule, violation.text)?;
    }
    if result.violations.len() > SHOWN {
        writeln!(text, "- and {} more", result.violations.len() - SHOWN)?;
    }
    Ok(())
}
