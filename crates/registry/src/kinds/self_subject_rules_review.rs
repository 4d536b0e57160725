//! SelfSubjectRulesReview: asks what one may do in a namespace.

use crate::strategy::Strategy;

pub const STRATEGY: Strategy =
    Strategy { tabular: false, ..Strategy::of("authorization.k8s.io", "SelfSubjectRulesReview") };
