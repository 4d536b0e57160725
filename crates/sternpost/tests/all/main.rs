//! Tests of the program as a whole. One binary, because linking each is slow; `cargo test --test all serve::` runs
//! a part of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, is told what to run by the environment, and measures in the machine's time"
)]

mod admission;
mod aggregation;
mod audit;
mod authentication;
mod bad_input;
mod budgets;
mod build;
mod check;
mod cli;
mod controllers;
mod conversion;
mod diff;
mod egress;
mod encryption;
mod envtest;
mod etcd;
mod explain;
mod export;
mod extension;
mod fetch;
mod hostile_bodies;
mod hostile_connections;
mod hostile_definitions;
mod kubeconfig;
mod kustomize;
mod kustomize_program;
mod large_objects;
mod listen;
mod load;
mod mixed;
mod openapi;
mod openapi_fetch;
mod overrides;
mod plaintext;
mod quota;
mod ready;
#[allow(dead_code, reason = "the cases are run by tests/kustomize.rs")]
mod recorded;
mod remote_discovery;
mod remote_openapi;
mod replicas;
mod run;
mod serve;
mod settings;
mod storage;
mod storage_divided;
mod tokens;
mod ui;
mod validate;
mod wrong_uses;
