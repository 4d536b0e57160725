//! What tests of several crates need, and nothing else uses.
//!
//! [`recorded::Suite`] makes every recorded case a test with a name of its own.

pub mod recorded;
