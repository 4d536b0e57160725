//! Fault campaigns: several servers on an etcd of three members, or one server on its own store, whose processes and
//! connections fail while clients write, read and watch; and the rules that what the clients saw is checked by.
//!
//! - [`campaign::run`] is one campaign, from starting everything to the report.
//! - [`history`] is what clients did and saw, with the times of one clock, and what the store says that happened.
//! - [`check`] has the rules: pure functions from a history to what is wrong with it.
//! - [`load`] are the clients. They talk to an [`api::Api`], which is a server, or in tests a small one with a bug.
//! - [`link`] are the connections that can be held, slowed and cut; [`etcd`], [`server`] and [`cluster`] the processes.
//! - [`namespaces`] are where processes run.
//! - [`nemesis`] chooses the faults and sees to it that the cluster comes back after each.
//!
//! It knows servers by their HTTP API only and etcd by its JSON gateway: nothing of what is tested is used to test it.

#![allow(
    missing_debug_implementations,
    clippy::indexing_slicing,
    reason = "a tool for developers, of which only histories are printed; what it indexes is JSON, which has null for \
              what is missing"
)]

pub mod api;
pub mod campaign;
pub mod check;
pub mod cluster;
pub mod etcd;
pub mod history;
pub mod link;
pub mod load;
pub mod namespaces;
pub mod nemesis;
pub mod report;
pub mod server;
