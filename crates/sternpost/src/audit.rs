//! The audit log, from its flags.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use sternpost_audit::{Audit, Log, LogOptions, Policy};
use sternpost_clock::Clock;

use crate::config_file;

/// What is told of requests, in the spelling of kube-apiserver.
#[derive(Debug, Args)]
#[command(next_help_heading = "Audit")]
pub struct AuditArgs {
    /// What the audit log tells of which request: a Policy of audit.k8s.io/v1
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    pub audit_policy_file: Option<PathBuf>,

    /// Where the audit log is written, a JSON line an event; - is standard output
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    pub audit_log_path: Option<PathBuf>,

    /// Days for which older audit log files are kept; 0 for ever
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    pub audit_log_maxage: u64,

    /// How many older audit log files are kept; 0 for all
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub audit_log_maxbackup: usize,

    /// Megabytes after which a new audit log file is begun; 0 for never
    #[arg(long, value_name = "MEGABYTES", default_value_t = 0)]
    pub audit_log_maxsize: u64,
}

/// `None` without a policy.
pub fn open(args: &AuditArgs, clock: &Clock) -> anyhow::Result<Option<(Log, Audit)>> {
    let (Some(policy), Some(log)) = (&args.audit_policy_file, &args.audit_log_path) else { return Ok(None) };
    let value = config_file::parse(policy, &config_file::read(policy)?)?;
    let policy = Policy::read(value).with_context(|| format!("cannot use `{}`", policy.display()))?;
    let options = LogOptions {
        path: log.clone(),
        max_size: args.audit_log_maxsize,
        max_backups: args.audit_log_maxbackup,
        max_age: args.audit_log_maxage,
    };
    let (log, sink) =
        Log::open(options, clock.clone()).with_context(|| format!("cannot write `{}`", log.display()))?;
    Ok(Some((log, Audit::new(policy, sink))))
}
