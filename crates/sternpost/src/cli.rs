//! The command line.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use clap::{
    ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum, builder::NonEmptyStringValueParser,
};
use http::HeaderValue;
use sternpost_auth::certificate::SubjectAltName;
use sternpost_controllers::switches::{SERVER_LEASE, Switches, UnknownController};
use sternpost_http::cors::{Cors, OriginError};
use sternpost_outbound::Network;
use sternpost_verbs::admission::{Chain, SwitchError};

use crate::{
    aggregation::AggregationArgs,
    audit::AuditArgs,
    authentication::AuthenticationArgs,
    backup::BackupArgs,
    build::{BuildArgs, KustomizeArgs},
    check::CheckArgs,
    completion::CompletionArgs,
    controllers::ControllerArgs,
    diff::DiffArgs,
    envtest::EnvtestArgs,
    etcd::EtcdArgs,
    explain::ExplainArgs,
    export::ExportArgs,
    flow::FlowArgs,
    kubeconfig::DEFAULT_CONTEXT,
    limits::LimitArgs,
    listen::Listen,
    man::ManArgs,
    migrate::MigrateArgs,
    openapi::OpenApiArgs,
    restore::RestoreArgs,
    run::RunArgs,
    service_accounts::ServiceAccountArgs,
    service_ranges::ServiceArgs,
    storage::report::StorageArgs,
    ui::{ServeUiArgs, UiArgs},
    validate::ValidateArgs,
};

/// The Kubernetes API without the cluster
#[derive(Debug, Parser)]
#[command(name = "sternpost", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the Kubernetes API
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Run a command with a throw-away server: KUBECONFIG leads to it
    #[command(after_help = crate::run::EXAMPLES)]
    Run(RunArgs),
    #[command(name = crate::run::GUARD, hide = true)]
    RunGuard,
    /// Say what the server would say of manifests, without a server
    #[command(after_help = crate::validate::EXAMPLES)]
    Validate(Box<ValidateArgs>),
    /// Look over a data directory, and save what is whole of a damaged one
    #[command(after_help = crate::check::EXAMPLES)]
    Check(CheckArgs),
    /// Write all objects of a running server, or of a cluster, into a file
    #[command(after_help = crate::backup::EXAMPLES)]
    Backup(Box<BackupArgs>),
    /// Make a data directory, or fill a cluster's etcd, of what a backup holds
    #[command(after_help = crate::restore::EXAMPLES)]
    Restore(Box<RestoreArgs>),
    /// Move all objects from a data directory to etcd, or from etcd to a data directory
    #[command(after_help = crate::migrate::EXAMPLES)]
    Migrate(Box<MigrateArgs>),
    /// Look into stores
    Storage(Box<StorageArgs>),
    /// Build a kustomization, as `kustomize build` does
    #[command(after_help = crate::build::EXAMPLES)]
    Build(Box<BuildArgs>),
    /// The commands of kustomize
    Kustomize(KustomizeArgs),
    /// Make a folder for KUBEBUILDER_ASSETS, for tests with envtest
    #[command(after_help = crate::envtest::EXAMPLES)]
    Envtest(EnvtestArgs),
    /// Tell what the fields of a resource are and mean
    #[command(after_help = crate::explain::EXAMPLES)]
    Explain(ExplainArgs),
    /// Tell what would change, as the server would see it
    #[command(after_help = crate::diff::EXAMPLES)]
    Diff(DiffArgs),
    /// Write the objects of a server as clean YAML that `--load` takes back
    #[command(after_help = crate::export::EXAMPLES)]
    Export(Box<ExportArgs>),
    /// Open a page to look at a cluster with
    #[command(after_help = crate::ui::EXAMPLES)]
    Ui(Box<UiArgs>),
    /// Documents of schemas
    Openapi(OpenApiArgs),
    /// Print a script that completes command lines in a shell
    Completion(CompletionArgs),
    /// Write the man pages into a directory, for those who make packages
    #[command(hide = true)]
    Man(ManArgs),
    /// Print the version of this program and of the Kubernetes API it serves
    Version,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  # Serve on https://127.0.0.1:6443, keep data in the platform's data directory
  sternpost serve

  # A throw-away server on a free port; the ready line tells the address
  sternpost serve --in-memory --listen 127.0.0.1:0 --kubeconfig ./kubeconfig
  kubectl --kubeconfig ./kubeconfig version

  # Begin with the objects of a directory
  sternpost serve --in-memory --load manifests/

  # With a page to look at; the link is written to stderr
  sternpost serve --in-memory --ui

  # The objects of a cluster, read from its etcd beside its kube-apiserver
  sternpost serve --etcd-servers http://127.0.0.1:2379 --etcd-read-only --kubeconfig ./replica

Every flag can be set by a variable, too, such as --data-dir by STERNPOST_DATA_DIR, and in the file of --config. The \
command line wins over variables, and these over the file.";

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address or host name, and port, to listen on; :PORT is loopback, port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443")]
    pub listen: Listen,

    /// A file of settings (YAML): names of flags and their values, such as `in-memory: true`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Apply objects before serving: files, directories, kustomizations, or - for standard input; repeatable
    #[arg(long, value_name = "PATH", conflicts_with = "etcd_servers")]
    pub load: Vec<PathBuf>,

    /// End when the process that started this one does
    #[arg(long)]
    pub exit_with_parent: bool,

    /// Directory for data, certificates and the admin token [default: the platform's data directory]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Keep nothing: new certificates and token on every start
    #[arg(long, conflicts_with_all = ["data_dir", "etcd_servers"])]
    pub in_memory: bool,

    /// Take the data directory and the admin token as they are: no matter who else may read or change
    /// them, and how short the token is
    #[arg(long)]
    pub insecure_file_modes: bool,

    /// The kubeconfig to add the admin's context to; a throw-away server takes it out again
    /// [default: admin.kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The name of the context in the kubeconfig, and of its cluster and user
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CONTEXT, value_parser = NonEmptyStringValueParser::new())]
    pub context_name: String,

    /// A file to be there while the server is ready: JSON with url, kubeconfig and pid
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,

    /// Serving certificate chain (PEM) to use instead of a self-made one
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key (PEM) of --tls-cert-file
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Further names in the self-made serving certificate: host names, *.example.com, IP addresses; repeatable
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "tls_cert_file")]
    pub tls_san: Vec<SubjectAltName>,

    /// Further users: a CSV file with lines of token,user,uid[,"group1,group2"]
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Certificates (PEM) of the authorities whose client certificates name users
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Who may do what: by roles and bindings, or everybody everything
    #[arg(long, value_enum, default_value_t = AuthorizationMode::Rbac)]
    pub authorization_mode: AuthorizationMode,

    /// How large an object may be: as large as etcd would let it be (about 1.5 MiB), or as a request
    #[arg(long, value_enum, default_value_t = ObjectSizeLimit::Etcd)]
    pub object_size_limit: ObjectSizeLimit,

    /// Admission plugins to have on besides those that are on by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_enabled_plugin)]
    pub enable_admission_plugins: Vec<String>,

    /// Admission plugins to have off, such as PodSecurity
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_disabled_plugin)]
    pub disable_admission_plugins: Vec<String>,

    /// What admission plugins are told: an AdmissionConfiguration (YAML) of apiserver.config.k8s.io/v1
    #[arg(long, value_name = "FILE")]
    pub admission_control_config_file: Option<PathBuf>,

    /// Which objects are encrypted in the data directory, and with what: an EncryptionConfiguration (YAML) of
    /// apiserver.config.k8s.io/v1
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,

    /// Whether --encryption-provider-config is read again when it changes
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub encryption_provider_config_automatic_reload: bool,

    /// Web pages that may use the API: comma-separated regular expressions of their origins, such as
    /// '^https://example\.com$'; each must pin both ends of the host
    #[arg(long, value_name = "REGEX,...", value_parser = parse_origins)]
    pub cors_allowed_origins: Vec<Origins>,

    /// Networks in which webhooks, other API servers and token issuers are dialled though they are
    /// link-local, metadata, loopback or this server's own addresses
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub egress_allow: Vec<Network>,

    /// What browsers are told by Strict-Transport-Security, such as max-age=31536000,includeSubDomains
    #[arg(long, value_name = "DIRECTIVE,...", value_delimiter = ',', value_parser = parse_directive)]
    pub strict_transport_security_directives: Vec<String>,

    /// Feature gates to switch: AllowUnsafeMalformedObjectDeletion and OpenAPIV3, each =true|false
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',', value_parser = parse_gate)]
    pub feature_gates: Vec<Gate>,

    /// Definition names in OpenAPI v3 documents
    #[arg(long, value_enum, default_value_t = OpenApiNames::Short)]
    pub openapi_names: OpenApiNames,

    /// How OpenAPI v2 says that lists of custom resources merge
    #[arg(long, value_enum, default_value_t = OpenApiMergeKeys::Derived)]
    pub openapi_merge_keys: OpenApiMergeKeys,

    /// Form of log lines on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// The least important log lines to write; requests are logged at debug
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,

    #[command(flatten)]
    pub etcd: EtcdArgs,

    #[command(flatten)]
    pub services: ServiceArgs,

    #[command(flatten)]
    pub service_accounts: ServiceAccountArgs,

    #[command(flatten)]
    pub authentication: AuthenticationArgs,

    #[command(flatten)]
    pub aggregation: AggregationArgs,

    #[command(flatten)]
    pub controllers: ControllerArgs,

    #[command(flatten)]
    pub flow: FlowArgs,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub audit: AuditArgs,

    #[command(flatten)]
    pub ui: ServeUiArgs,

    /// Started in the place of kube-apiserver: an admin kubeconfig is made only
    /// if it has a place.
    #[arg(skip)]
    pub stand_in: bool,

    /// Every flag and its value, for `/flagz`.
    #[arg(skip)]
    pub flags: BTreeMap<String, String>,
}

impl ServeArgs {
    /// Of a server that keeps nothing, by default.
    pub fn in_memory() -> anyhow::Result<Box<Self>> {
        match Cli::try_parse_from(["sternpost", "serve", "--in-memory"])?.command {
            Command::Serve(args) => Ok(args),
            _ => Err(anyhow::anyhow!("the flags of `serve` are others than they were")),
        }
    }

    /// The controllers that are on. One that only reads has none; in a cluster kube-controller-manager has its own,
    /// unless they are asked for here.
    pub fn switches(&self) -> Result<Switches, UnknownController> {
        match &self.controllers.controllers {
            _ if self.etcd.etcd_read_only => Switches::new(&["-*"]),
            Some(names) => Switches::new(names),
            None if self.etcd.is_used() => Switches::new(&[SERVER_LEASE.name]),
            None => Ok(Switches::default()),
        }
    }

    /// With the values of all flags as these words give them, or as they are by default.
    pub fn with_flags(mut self: Box<Self>, words: impl IntoIterator<Item = OsString>) -> Box<Self> {
        let command = Cli::command();
        let matches = command.clone().try_get_matches_from(words);
        let matches = matches.ok().and_then(|mut matches| matches.remove_subcommand());
        let (Some(serve), Some((_, matches))) = (command.find_subcommand("serve"), matches) else {
            return self;
        };
        for argument in serve.get_arguments() {
            let Some(name) = argument.get_long() else { continue };
            let values = matches.get_raw(argument.get_id().as_str());
            let values: Vec<_> = values.into_iter().flatten().map(|value| value.to_string_lossy()).collect();
            let value = match argument.get_action() {
                // In brackets, as upstream shows lists.
                ArgAction::Append => format!("[{}]", values.join(",")),
                ArgAction::SetTrue => matches.get_flag(argument.get_id().as_str()).to_string(),
                _ => values.last().map(ToString::to_string).unwrap_or_default(),
            };
            self.flags.insert(name.to_owned(), value);
        }
        self
    }
}

/// The regular expressions of one `--cors-allowed-origins`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins(pub Vec<String>);

/// A feature gate that can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    OpenApiV3(bool),
    AllowUnsafeMalformedObjectDeletion(bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthorizationMode {
    /// By the roles that are bound to users and groups
    #[value(name = "RBAC")]
    Rbac,
    /// Whoever has a credential may do everything
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectSizeLimit {
    /// What etcd would refuse is refused, in the same words
    Etcd,
    /// No limit but that of a request
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OpenApiNames {
    /// core.v1.ConfigMap, with shared parameters
    Short,
    /// io.k8s.api.core.v1.ConfigMap, with inline parameters
    Upstream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OpenApiMergeKeys {
    /// Merge keys and strategies from the list types of their schemas
    Derived,
    /// Not at all, as kube-apiserver
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

pub fn parse_enabled_plugin(name: &str) -> Result<String, SwitchError> {
    Chain::new(&[name.to_owned()], &[]).map(|_| name.to_owned())
}

pub fn parse_disabled_plugin(name: &str) -> Result<String, SwitchError> {
    Chain::new(&[], &[name.to_owned()]).map(|_| name.to_owned())
}

/// As kube-apiserver reads lists: an expression with a comma in it stands in
/// double quotes, and an empty list is none.
fn parse_origins(text: &str) -> Result<Origins, OriginError> {
    let mut quoted = false;
    let parts = text.split(|char| {
        quoted ^= char == '"';
        char == ',' && !quoted
    });
    let unquoted = |part: &str| {
        let inner = part.strip_prefix('"').and_then(|part| part.strip_suffix('"'));
        inner.map_or_else(|| part.to_owned(), |inner| inner.replace("\"\"", "\""))
    };
    let patterns: Vec<String> = if text.is_empty() { vec![] } else { parts.map(unquoted).collect() };
    Cors::new(patterns.iter().map(String::as_str))?;
    Ok(Origins(patterns))
}

/// In kube-apiserver's words.
fn parse_directive(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("empty value in strict-transport-security-directives".into());
    }
    let max_age = text.strip_prefix("max-age=").is_some_and(|age| !age.contains('='));
    if (max_age || ["includeSubDomains", "preload"].contains(&text)) && HeaderValue::from_str(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err("--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, \
         preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
        .into())
}

fn parse_gate(text: &str) -> Result<Gate, String> {
    let (name, value) = text.split_once('=').ok_or("want GATE=true or GATE=false")?;
    let value = match value.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => true,
        "false" | "f" | "0" => false,
        _ => return Err(format!("`{value}` is neither true nor false")),
    };
    match name.trim() {
        "OpenAPIV3" => Ok(Gate::OpenApiV3(value)),
        "AllowUnsafeMalformedObjectDeletion" => Ok(Gate::AllowUnsafeMalformedObjectDeletion(value)),
        _ => Err("unknown feature gate; known: AllowUnsafeMalformedObjectDeletion, OpenAPIV3".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_with_their_values() {
        let words = ["sternpost", "serve", "--in-memory", "--controllers=-*,event-ttl", "--kubeconfig", "x"];
        let Command::Serve(args) = Cli::try_parse_from(words).unwrap().command else { panic!("no server") };
        let args = args.with_flags(words.map(OsString::from));
        for (name, expected) in [
            ("in-memory", "true"),
            ("insecure-file-modes", "false"),
            ("controllers", "[-*,event-ttl]"),
            ("kubeconfig", "x"),
            ("listen", "127.0.0.1:6443"),
            ("data-dir", ""),
            ("authorization-mode", "RBAC"),
            ("enable-admission-plugins", "[]"),
        ] {
            assert_eq!(args.flags.get(name).map(String::as_str), Some(expected), "{name}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn origins_are_lists_as_kube_apiserver_has_them() {
        for (text, expected) in [
            ("", Some(vec![])),
            ("^a$", Some(vec!["^a$"])),
            ("^a$,//b:", Some(vec!["^a$", "//b:"])),
            ("\"^a{1,2}$\",//b:", Some(vec!["^a{1,2}$", "//b:"])),
            (",", None),
            ("^a$,", None),
            ("a,,b", None),
            ("(", None),
            ("foo", None),
        ] {
            let found = parse_origins(text).ok();
            assert_eq!(
                found,
                expected.map(|list| Origins(list.into_iter().map(Into::into).collect())),
                "{text}"
            );
        }
    }

    #[test]
    fn admission_plugins_are_switched_as_for_kube_apiserver() {
        let read = |flags: &[&str]| {
            let cli = Cli::try_parse_from(["sternpost", "serve"].iter().chain(flags)).ok()?;
            let Command::Serve(args) = cli.command else { return None };
            Some((args.enable_admission_plugins, args.disable_admission_plugins))
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (flags, expected) in [
            (vec!["--disable-admission-plugins=ServiceAccount"], Some((vec![], vec!["ServiceAccount"]))),
            (
                vec![
                    "--disable-admission-plugins",
                    "PodSecurity,Priority",
                    "--enable-admission-plugins",
                    "LimitRanger",
                ],
                Some((vec!["LimitRanger"], vec!["PodSecurity", "Priority"])),
            ),
            (vec!["--disable-admission-plugins", "podsecurity"], None),
            (vec!["--enable-admission-plugins", "AlwaysDeny"], None),
        ] {
            let expected = expected.map(|(on, off)| (names(&on), names(&off)));
            assert_eq!(read(&flags), expected, "{flags:?}");
        }
    }

    #[test]
    fn directives_are_read_as_kube_apiserver_reads_them() {
        for (text, expected) in [
            ("max-age=31536000", true),
            ("max-age=", true),
            ("max-age=x", true),
            ("includeSubDomains", true),
            ("preload", true),
            ("", false),
            (" ", false),
            ("max-age", false),
            ("max-age=1=2", false),
            ("Max-Age=1", false),
            ("includesubdomains", false),
            (" preload", false),
            ("max-age=\n", false),
        ] {
            assert_eq!(parse_directive(text).is_ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn gates_are_read_as_kube_apiserver_reads_them() {
        for (text, expected) in [
            ("OpenAPIV3=false", Some(Gate::OpenApiV3(false))),
            ("OpenAPIV3=TRUE", Some(Gate::OpenApiV3(true))),
            (" OpenAPIV3 = 1", Some(Gate::OpenApiV3(true))),
            ("OpenAPIV3", None),
            ("OpenAPIV3=", None),
            ("OpenAPIV3=maybe", None),
            ("openapiv3=true", None),
            ("Other=true", None),
        ] {
            assert_eq!(parse_gate(text).ok(), expected, "{text}");
        }
    }
}
