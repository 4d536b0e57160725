//! Why a request was not done.

use std::fmt;

use sternpost_meta::status::{Reason, Status};

const SUPERSEDED: &str = "the definition of the resource keeps changing, try again";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    Refused(Status),
    /// The store did not take it, or did not say so: it may have happened, so nobody tries it again.
    NotStored(Box<Status>),
    /// What the request was checked against is no longer what is served: whoever made it looks at that
    /// and begins anew.
    Superseded,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// What a client is told, which of what is superseded hears only if that goes on and on.
impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(status) => status,
            Failure::NotStored(status) => *status,
            Failure::Superseded => Status::service_unavailable(SUPERSEDED),
        }
    }
}

impl Failure {
    /// Whether it is that somebody else was faster to create the object.
    pub(crate) fn is_already_there(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 409 && status.reason == Some(Reason::AlreadyExists))
    }

    /// That of the answer which a client would get.
    pub fn code(&self) -> u16 {
        match self {
            Self::Refused(status) => status.code,
            Self::NotStored(status) => status.code,
            Self::Superseded => 503,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => status.fmt(formatter),
            Self::NotStored(status) => status.fmt(formatter),
            Self::Superseded => formatter.write_str(SUPERSEDED),
        }
    }
}

impl std::error::Error for Failure {}
