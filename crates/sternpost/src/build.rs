//! `sternpost build` and `sternpost kustomize build`: the files of this machine
//! in, YAML to stdout, a file or a directory.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::{Args, Parser, Subcommand, ValueEnum};
use sternpost_golang::strconv::{go_quote, parse_bool};
use sternpost_kustomize::files::{Entry, FileSystem};
use sternpost_kustomize::{
    Built, Environment, Failed, Field, HelmOptions, ListOrder, Options, Pattern, PluginOptions, Reorder,
    Restriction, SchemaOptions, Written,
};

use crate::completion::CompletionArgs;
use crate::error::Hinted;
use crate::fetch::Network;
use crate::kustomize::Words;
use crate::programs::{Programs, Temporary};
use crate::terminal;

/// The version of kustomize whose output this is, for the managed-by label.
pub const KUSTOMIZE_VERSION: &str = "v5.8.1";

const ROOT_ONLY: &str = "LoadRestrictionsRootOnly";
const UNRESTRICTED: &str = "LoadRestrictionsNone";

const REORDER_DEPRECATED: &str =
    "Flag --reorder has been deprecated, use the new 'sortOptions' field in kustomization.yaml instead.";
const MANAGED_BY_DEPRECATED: &str = "Flag --enable-managedby-label has been deprecated, The flag `enable-managedby-label` has been deprecated. Use the `managedByLabel` option in the `buildMetadata` field instead.";

pub const EXAMPLES: &str = "\
Examples:
  # Build the kustomization in the current directory
  sternpost build

  # Build an overlay into one file
  sternpost build overlays/production -o production.yaml

  # Which file, line and patch every field comes from, the last writer first
  sternpost build overlays/production --why

  # The same for one object, or one of its fields and all below it
  sternpost build overlays/production --why=Deployment/web
  sternpost build overlays/production --why='Deployment/web:spec.template.spec.containers[name=app].image'
  sternpost build overlays/production --why=':metadata.labels' --why-format json";

#[derive(Debug, Args)]
pub struct KustomizeArgs {
    #[command(subcommand)]
    pub command: KustomizeCommand,
}

#[derive(Debug, Subcommand)]
pub enum KustomizeCommand {
    /// Build a kustomization
    #[command(after_help = EXAMPLES)]
    Build(Box<BuildArgs>),
    /// Read files of resources: cat, count, grep, tree
    Cfg(Words),
    /// Make a kustomization file in the current directory
    #[command(alias = "init")]
    Create(Words),
    /// Change the kustomization file of the current directory: add, set, remove, fix
    Edit(Words),
    /// Print a script that completes command lines in a shell
    Completion(CompletionArgs),
    /// Run functions over files of resources: run
    Fn(Words),
    /// Copy a kustomization with all that it refers to
    Localize(Words),
    /// The OpenAPI data that builds go by: info, fetch
    Openapi(Words),
    /// Print which version of kustomize this is one of
    Version(Words),
}

#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Directory with a kustomization file, or its address in a git repository [default: .]
    #[arg(value_name = "DIR|URL")]
    places: Vec<String>,

    /// Write to this file, or one file an object into this directory
    #[arg(long, short, value_name = "FILE|DIR")]
    output: Option<PathBuf>,

    /// LoadRestrictionsNone lets files be read from outside of the kustomization's directory
    #[arg(long, value_name = "RESTRICTION", default_value = ROOT_ONLY)]
    load_restrictor: String,

    /// Order of the objects, legacy or none (deprecated: set `sortOptions` in the kustomization)
    #[arg(long, value_name = "ORDER")]
    reorder: Option<String>,

    /// Label every object with what built it (deprecated: set `buildMetadata`)
    #[arg(long)]
    enable_managedby_label: bool,

    /// Fail where the target of a patch matches no object, which kustomize passes over
    #[arg(long)]
    strict: bool,

    #[command(flatten, next_help_heading = "Explanation")]
    why: WhyArgs,

    #[command(flatten, next_help_heading = "Schemas")]
    schema: SchemaArgs,

    #[command(flatten, next_help_heading = "Charts")]
    helm: HelmArgs,

    #[command(flatten, next_help_heading = "Functions and plugins")]
    plugins: PluginArgs,

    #[command(flatten, next_help_heading = "Remote bases")]
    remote: RemoteArgs,

    /// Accepted and ignored
    #[arg(long, hide = true)]
    stack_trace: bool,
}

#[derive(Debug, Args)]
struct WhyArgs {
    /// Print which file, line and entry wrote each field, in the place of the objects; PATTERN is
    /// OBJECT, :PATH or OBJECT:PATH, with OBJECT as Kind, Kind/name or Kind/name.namespace and `*` for any text
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    why: Option<String>,

    /// How to print it: a line of text a field, or a JSON object a line
    #[arg(long, value_name = "FORMAT", default_value = "text", requires = "why")]
    why_format: WhyFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WhyFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
struct SchemaArgs {
    /// What is known of types: what kustomize knows, or that and all there is to find out
    #[arg(long, value_name = "SOURCE", default_value = "kustomize")]
    schema: SchemaSource,

    /// Merge an OpenAPI document or CustomResourceDefinitions with the built-in schema; repeatable
    #[arg(long, value_name = "FILE")]
    schema_file: Vec<PathBuf>,

    /// The version of Kubernetes whose types are built in, such as 1.36, in place of kustomize's 1.21
    #[arg(long, value_name = "VERSION")]
    schema_version: Option<String>,

    /// Where a patch leaves the elements of lists: its own first, as kustomize, or where they were
    #[arg(long, value_name = "ORDER")]
    merge_order: Option<MergeOrder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MergeOrder {
    /// Those that the patch names first
    Patch,
    /// Where they were, new ones last
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SchemaSource {
    /// The built-in schema, or what `openapi` in the kustomization puts in its place
    Kustomize,
    /// The built-in schema, what `openapi` adds, CustomResourceDefinitions among the objects,
    /// and pods in other kinds
    Auto,
}

#[derive(Debug, Args)]
struct HelmArgs {
    /// Let `helmCharts` run the helm command
    #[arg(long)]
    enable_helm: bool,

    /// The helm command
    #[arg(long, value_name = "PROGRAM", default_value = "helm")]
    helm_command: String,

    /// API version that charts may count on; repeatable
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    helm_api_versions: Vec<String>,

    /// Version of Kubernetes that charts are made for
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    helm_kube_version: String,

    /// Let helm tell what it does
    #[arg(long)]
    helm_debug: bool,
}

#[derive(Debug, Args)]
struct PluginArgs {
    /// Let generators, transformers and validators be functions and programs
    #[arg(long)]
    enable_alpha_plugins: bool,

    /// Let functions be executables of this machine, too
    #[arg(long)]
    enable_exec: bool,

    /// Let functions in containers have the network they ask for
    #[arg(long)]
    network: bool,

    /// The network of functions in containers
    #[arg(long, value_name = "NAME", default_value = "bridge")]
    network_name: String,

    /// Something for functions in containers to see: type=bind,src=PATH,dst=PATH[,rw=true]
    #[arg(long, value_name = "MOUNT")]
    mount: Vec<String>,

    /// A variable for functions in containers: NAME=VALUE, or NAME for the value it has here
    #[arg(long, short, value_name = "VARIABLE")]
    env: Vec<String>,

    /// Run containers as this user rather than nobody
    #[arg(long)]
    as_current_user: bool,
}

#[derive(Debug, Args)]
struct RemoteArgs {
    /// Keep what is fetched from git repositories in this directory, a commit once
    #[arg(long, value_name = "DIR")]
    git_cache: Option<PathBuf>,

    /// Keep in this file which commits branches and tags stand for, and use those from then on
    #[arg(long, value_name = "FILE")]
    git_lock: Option<PathBuf>,
}

/// Switches, which may be written `--enable-helm=true`.
const SWITCHES: &[&str] = &[
    "--as-current-user",
    "--enable-alpha-plugins",
    "--enable-exec",
    "--enable-helm",
    "--enable-managedby-label",
    "--help",
    "--helm-debug",
    "--network",
    "--stack-trace",
    "--strict",
];

/// The command line with its switches written in one way, or what is wrong
/// with one of them.
pub fn plain_switches(words: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let mut plain = Vec::with_capacity(words.len());
    for word in words {
        let split = word.to_str().and_then(|word| word.split_once('='));
        match split.filter(|(name, _)| SWITCHES.contains(name)) {
            None => plain.push(word),
            Some((name, value)) => match parse_bool(value) {
                Ok(true) => plain.push(name.into()),
                Ok(false) => {}
                Err(error) => {
                    let problem = error.text("ParseBool", value);
                    return Err(format!(
                        "invalid argument {} for \"{name}\" flag: {problem}",
                        go_quote(value)
                    ));
                }
            },
        }
    }
    Ok(plain)
}

/// What is wrong with these words, a command line of kustomize, in its words. `None` leaves
/// the answer, such as help, to clap.
pub fn usage_problem(error: &clap::Error, words: &[OsString]) -> Option<String> {
    use clap::error::{ContextKind, ErrorKind};
    let text = |kind: ContextKind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let argument = text(ContextKind::InvalidArg);
    // Without the placeholder of its value.
    let flag = argument.split([' ', '[', '=']).next().unwrap_or_default();
    let value = text(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::InvalidSubcommand => None,
        ErrorKind::UnknownArgument => {
            let near = error.get(ContextKind::SuggestedArg);
            let hint = near.map(|near| format!("\nhint: did you mean `{near}`?")).unwrap_or_default();
            Some(unknown_flag(flag) + &hint)
        }
        ErrorKind::InvalidValue | ErrorKind::NoEquals if value.is_empty() => {
            let last = words.last().and_then(|word| word.to_str()).unwrap_or_default();
            let mut letters = last.strip_prefix('-').unwrap_or_default().chars();
            Some(match (letters.next(), letters.next()) {
                (Some(letter), None) if letter != '-' => {
                    format!("flag needs an argument: '{letter}' in -{letter}")
                }
                _ => format!("flag needs an argument: {flag}"),
            })
        }
        _ => Some(
            error.to_string().trim_start_matches("error: ").lines().next().unwrap_or_default().to_owned(),
        ),
    }
}

/// In pflag's words.
pub fn unknown_flag(flag: &str) -> String {
    match flag.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
        Some(short) => {
            let first = short.chars().next().unwrap_or_default();
            format!("unknown shorthand flag: '{first}' in -{short}")
        }
        None => format!("unknown flag: {flag}"),
    }
}

/// Says what is wrong with the command line.
pub fn refuse(problem: &str) -> ExitCode {
    warn(&format!("Error: {problem}"));
    ExitCode::FAILURE
}

/// Exit codes as kustomize has them: 0, or 1 for whatever went wrong.
pub fn run(args: &BuildArgs) -> ExitCode {
    match build(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&format!("Error: {error:#}"));
            if let Some(hinted) = error.chain().find_map(|cause| cause.downcast_ref::<Hinted>()) {
                warn(&format!("hint: {}", hinted.hint));
            }
            ExitCode::FAILURE
        }
    }
}

fn build(args: &BuildArgs) -> anyhow::Result<()> {
    if args.reorder.is_some() {
        warn(REORDER_DEPRECATED);
    }
    if args.enable_managedby_label {
        warn(MANAGED_BY_DEPRECATED);
    }
    let built = match made(args)? {
        Ok(built) => built,
        Err(failed) => {
            failed.warnings.iter().for_each(|warning| warn(warning));
            let message = failed.error.to_string();
            return Err(match failed.error.hint() {
                Some(hint) => Hinted { message, hint: hint.to_owned() }.into(),
                None => anyhow!(message),
            });
        }
    };
    built.warnings.iter().for_each(|warning| warn(warning));
    built.hints.iter().for_each(|hint| warn(&format!("hint: {hint}")));
    if let Some(pattern) = &args.why.why {
        return write_why(args, &built, pattern);
    }
    match &args.output {
        None => io::stdout().write_all(built.yaml().as_bytes()).context("standard output"),
        Some(path) if path.is_dir() => write_files(&built, path),
        Some(path) => write_file(path, &built.yaml()),
    }
}

/// With the files, the network and the programs of this machine.
fn made(args: &BuildArgs) -> anyhow::Result<Result<Built, Failed>> {
    let temporary = Temporary::default();
    let network = Network::new(&temporary, args.remote.git_cache.clone(), args.remote.git_lock.clone())?;
    let programs = Programs { temporary: &temporary };
    let environment = Environment { files: &Disk, fetcher: &network, runner: &programs };
    Ok(sternpost_kustomize::build(environment, &options(args)?))
}

/// What `sternpost build PLACE --why` makes, with no other option.
pub fn explained(place: &str) -> anyhow::Result<Result<Built, Failed>> {
    made(&Alone::try_parse_from(["build", "--why", "--", place])?.args)
}

#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    args: BuildArgs,
}

fn options(args: &BuildArgs) -> anyhow::Result<Options> {
    let shown = match args.places.as_slice() {
        [] => ".".to_owned(),
        [place] => place.clone(),
        _ => return Err(anyhow!("specify one path to kustomization.yaml")),
    };
    let restriction = match args.load_restrictor.as_str() {
        ROOT_ONLY => Restriction::RootOnly,
        UNRESTRICTED => Restriction::None,
        other => {
            return Err(anyhow!(
                "illegal flag value --load-restrictor {other}; legal values: [{ROOT_ONLY} {UNRESTRICTED}]"
            ));
        }
    };
    let reorder = match args.reorder.as_deref() {
        None => None,
        Some("legacy") => Some(Reorder::Legacy),
        Some("none") => Some(Reorder::None),
        Some(other) => {
            return Err(anyhow!("illegal flag value --reorder {other}; legal values: [legacy none]"));
        }
    };
    let directory = std::env::current_dir().context("current directory")?.join(&shown);
    let variable = |wanted: &str| {
        let found = std::env::vars_os().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value).filter(|value| !value.is_empty())
    };
    let file = |path: &PathBuf| crate::openapi::read(path).context("--schema-file");
    let schema = SchemaOptions {
        auto: args.schema.schema == SchemaSource::Auto,
        files: args.schema.schema_file.iter().map(file).collect::<anyhow::Result<_>>()?,
        version: args.schema.schema_version.clone(),
        order: args.schema.merge_order.map(|order| match order {
            MergeOrder::Patch => ListOrder::Patch,
            MergeOrder::Keep => ListOrder::Keep,
        }),
    };
    let managed_by = variable("KUSTOMIZE_ENABLE_MANAGEDBY_LABEL").is_some_and(|value| value == "on");
    Ok(Options {
        shown,
        directory,
        restriction,
        reorder,
        managed_by: args.enable_managedby_label || managed_by,
        version: KUSTOMIZE_VERSION.to_owned(),
        helm: HelmOptions {
            enabled: args.helm.enable_helm,
            command: args.helm.helm_command.clone(),
            api_versions: args.helm.helm_api_versions.clone(),
            kube_version: args.helm.helm_kube_version.clone(),
            debug: args.helm.helm_debug,
        },
        plugins: PluginOptions {
            enabled: args.plugins.enable_alpha_plugins,
            exec: args.plugins.enable_exec,
            network: args.plugins.network,
            network_name: args.plugins.network_name.clone(),
            mounts: args.plugins.mount.clone(),
            environment: args.plugins.env.clone(),
            user: args.plugins.as_current_user.then(current_user).flatten(),
            home: variable("KUSTOMIZE_PLUGIN_HOME").map(PathBuf::from),
            config_home: variable("XDG_CONFIG_HOME").map(PathBuf::from),
            user_home: variable("HOME").map(PathBuf::from),
        },
        schema,
        strict: args.strict,
        why: args.why.why.is_some(),
    })
}

/// Who wrote what, in the place of the objects.
fn write_why(args: &BuildArgs, built: &Built, pattern: &str) -> anyhow::Result<()> {
    let fields = Pattern::new(pattern).select(&built.objects).map_err(|error| Hinted {
        message: format!("--why={pattern}: {error}"),
        hint: "`--why` without a pattern lists all objects and fields".to_owned(),
    })?;
    let line = |(object, field): (&Written, &Field)| match args.why.why_format {
        WhyFormat::Text => object.why_text(field) + "\n",
        WhyFormat::Json => object.why_json(field).to_string() + "\n",
    };
    let text: String = fields.into_iter().map(line).collect();
    match &args.output {
        None => io::stdout().write_all(text.as_bytes()).context("standard output"),
        Some(path) if path.is_dir() => {
            Err(anyhow!("--why is one text, and {} is a directory", path.display()))
        }
        Some(path) => write_file(path, &text),
    }
}

/// `uid:gid` of this process.
#[cfg(unix)]
pub fn current_user() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self").ok()?;
    Some(format!("{}:{}", own.uid(), own.gid()))
}

#[cfg(not(unix))]
pub fn current_user() -> Option<String> {
    None
}

fn warn(text: &str) {
    terminal::tell(text);
}

/// One file an object; its namespace is in the name if there are several.
fn write_files(built: &Built, directory: &Path) -> anyhow::Result<()> {
    let namespace = |id: &sternpost_kustomize::ResId| {
        match id.namespace.as_str() {
            _ if id.gvk.cluster_scoped => "",
            "" => "default",
            namespace => namespace,
        }
        .to_owned()
    };
    let namespaces: BTreeSet<String> = built
        .objects
        .iter()
        .map(|object| namespace(&object.id))
        .filter(|namespace| !namespace.is_empty())
        .collect();
    for object in &built.objects {
        let id = &object.id;
        let namespace = if namespaces.len() > 1 { namespace(id) } else { String::new() };
        let parts = [&namespace, &id.gvk.group, &id.gvk.version, &id.gvk.kind, &id.name];
        let parts: Vec<String> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| part.to_lowercase()).collect();
        write_file(&directory.join(format!("{}.yaml", parts.join("_"))), &object.yaml)?;
    }
    Ok(())
}

/// As a whole or not at all: what was there stays until the new file is
/// complete. What is no plain file, such as a pipe, is written to.
fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let is_plain = std::fs::symlink_metadata(path).map_or(true, |metadata| metadata.is_file());
    let written = if is_plain { replace_file(path, text) } else { std::fs::write(path, text) };
    written.map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        anyhow!("open {}: {reason}", path.display())
    })
}

fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let outcome = std::fs::write(&partial, text).and_then(|()| {
        if let Ok(metadata) = std::fs::metadata(path) {
            std::fs::set_permissions(&partial, metadata.permissions())?;
        }
        std::fs::rename(&partial, path)
    });
    if outcome.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    outcome
}

/// The files of this machine.
pub struct Disk;

impl FileSystem for Disk {
    fn entry(&self, path: &Path) -> io::Result<Entry> {
        let metadata = std::fs::symlink_metadata(path)?;
        if metadata.is_symlink() {
            return std::fs::read_link(path).map(Entry::Link);
        }
        Ok(if metadata.is_dir() { Entry::Directory } else { Entry::File })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }
}
