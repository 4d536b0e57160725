//! SelfSubjectReview: asks who one is.

use crate::strategy::Strategy;

pub const STRATEGY: Strategy =
    Strategy { tabular: false, ..Strategy::of("authentication.k8s.io", "SelfSubjectReview") };
