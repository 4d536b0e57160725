//! Who is told how webhooks do: they delay and refuse what they are asked about.

use std::{fmt::Debug, time::Duration};

use sternpost_admission::{request::Operation, webhook::Pass};

/// Is told of every webhook that was asked.
pub trait CallObserver: Debug + Send + Sync {
    fn called(&self, call: &WebhookCall<'_>);
}

/// A webhook that was asked, and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct WebhookCall<'a> {
    pub name: &'a str,
    pub pass: Pass,
    pub operation: Operation,
    pub took: Duration,
    pub outcome: CallOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    Allowed,
    /// With the status that the client is answered with.
    Denied {
        code: u16,
    },
    /// There was no answer that could be used, and its policy is to fail.
    FailedClosed,
    /// The same, and its policy is to go on.
    FailedOpen,
    /// It cannot be asked this: a dry run has side effects there.
    NotAsked,
}

/// Nobody wants to know.
#[derive(Debug)]
pub(crate) struct NoObserver;

impl CallObserver for NoObserver {
    fn called(&self, _: &WebhookCall<'_>) {}
}
