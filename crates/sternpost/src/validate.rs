//! `sternpost validate`: the server's verdict on manifests, without a server.
//!
//! The objects are put to a server that lives in this process: kinds that others need are created in it, the rest is
//! created as for a dry run, so that what is said is what the server would say.

mod definitions;
mod output;
mod references;
mod verdict;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use sternpost_verbs::admission::Chain;

use crate::{
    admission,
    cli::{parse_disabled_plugin, parse_enabled_plugin},
    error,
    judge::{Judge, Settings},
    load::DEFAULT_NAMESPACE,
    manifests::{Manifest, Manifests, Place},
    serve, terminal,
};
use output::Format;
pub use verdict::LOOKED_AT;

pub const EXAMPLES: &str = "\
Examples:
  # All files of a directory, or what a kustomization makes
  sternpost validate manifests/
  sternpost validate overlays/production

  # What a chart makes, with the definitions of another directory
  helm template web ./chart | sternpost validate - --schema-file crds/

  # For a code review on GitHub, or a report of tests
  sternpost validate -o github manifests/
  sternpost validate -o junit manifests/ > report.xml";

/// Looks for defaults that are not there: without a cluster nobody makes service accounts.
const NOT_ASKED_PLUGIN: &str = "ServiceAccount";

#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Files, directories, kustomizations, or - for standard input
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// How to tell what was found
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub output: Format,

    /// Kinds to know beside those that the objects define: files or directories of CustomResourceDefinitions or OpenAPI
    /// documents; repeatable
    #[arg(long, value_name = "PATH")]
    pub schema_file: Vec<PathBuf>,

    /// Know the CustomResourceDefinitions of the server of this kubeconfig, too
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of --kubeconfig to use [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,

    /// Pass over objects of kinds that nobody defines, in place of an error
    #[arg(long)]
    pub ignore_missing_schemas: bool,

    /// The namespace of objects that name none
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    pub namespace: String,

    /// Charge the objects to the ResourceQuotas among them
    #[arg(long)]
    pub quota: bool,

    /// Let warnings count as errors
    #[arg(long)]
    pub fail_on_warnings: bool,

    /// Admission plugins to have on besides those that are on by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_enabled_plugin)]
    pub enable_admission_plugins: Vec<String>,

    /// Admission plugins to have off, such as PodSecurity
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_disabled_plugin)]
    pub disable_admission_plugins: Vec<String>,

    /// What admission plugins are told: an AdmissionConfiguration (YAML) of apiserver.config.k8s.io/v1
    #[arg(long, value_name = "FILE")]
    pub admission_control_config_file: Option<PathBuf>,

    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
    /// What was not looked at.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub place: Place,
    /// Such as `Deployment/web`; empty for a file that cannot be read.
    pub object: String,
    pub field: String,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Valid,
    Invalid,
    Skipped,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Skipped => "skipped",
        }
    }
}

/// What became of all.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order in which they were read.
    pub objects: Arc<[Manifest]>,
    /// What each of them is.
    pub states: Vec<State>,
    pub findings: Vec<Finding>,
}

impl Report {
    fn count(&self, state: State) -> usize {
        self.states.iter().filter(|found| **found == state).count()
    }

    fn has(&self, severity: Severity) -> bool {
        self.findings.iter().any(|finding| finding.severity == severity)
    }
}

/// Exit codes: 0 all is valid, 1 something is not.
pub fn run(args: &ValidateArgs) -> ExitCode {
    match judged(args).and_then(|report| tell(args, &report)) {
        Ok(code) => code,
        Err(error) => {
            error::tell(&error);
            ExitCode::FAILURE
        }
    }
}

fn judged(args: &ValidateArgs) -> anyhow::Result<Report> {
    let mut off = args.disable_admission_plugins.clone();
    if !args.enable_admission_plugins.iter().any(|name| name == NOT_ASKED_PLUGIN) {
        off.push(NOT_ASKED_PLUGIN.to_owned());
    }
    let mut admission = Chain::new(&args.enable_admission_plugins, &off)?;
    if let Some(path) = &args.admission_control_config_file {
        admission = admission::configure(admission, path)?;
    }
    let controllers = ["-*"].into_iter().chain(args.quota.then_some("resourcequota"));
    let settings = Settings { admission, controllers: controllers.map(str::to_owned).collect() };

    let mut schemas = Manifests::read(&args.schema_file);
    let manifests = Manifests::read(&args.paths);
    let runtime = serve::runtime()?;
    let report = runtime.block_on(async {
        if let Some(kubeconfig) = &args.kubeconfig {
            schemas.objects.extend(definitions::of_server(kubeconfig, args.context.as_deref()).await?);
        }
        let judge = Judge::start(settings).await?;
        let report = verdict::judge(&judge, schemas, manifests, args).await;
        judge.end().await;
        report
    });
    runtime.shutdown_timeout(serve::END_GRACE);
    report
}

fn tell(args: &ValidateArgs, report: &Report) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    let written = args.output.write(report, &mut stdout).and_then(|()| stdout.flush());
    match written {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.context("standard output")?,
    }
    if args.output == Format::Text && !args.quiet {
        terminal::tell(&output::summary(report));
    }
    let failed = report.has(Severity::Error) || (args.fail_on_warnings && report.has(Severity::Warning));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
