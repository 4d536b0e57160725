//! One server at a time runs the controllers: nobody takes the Lease of one that is heard of.

use std::time::Duration;

use super::{Findings, Truth};
use crate::{cluster::LEASE_SECONDS, history::History};

/// Half of what a server has to wait for: the other half is for what the witness hears late.
const EARLY: Duration = Duration::from_secs(LEASE_SECONDS / 2);

pub fn leads(history: &History, _: &Truth<'_>, findings: &mut Findings) {
    for (one, next) in history.leads.iter().zip(history.leads.iter().skip(1)) {
        let is_taken = !one.holder.is_empty() && !next.holder.is_empty() && one.holder != next.holder;
        // What was heard later than what followed it was heard too late to say anything.
        let after = next.at.checked_sub(one.at).map(Duration::from_nanos);
        if let Some(after) = after.filter(|after| is_taken && *after < EARLY) {
            findings.add("leads", format!("{next:?} took what {one:?} had {after:?} before"));
        }
    }
}
