//! Called as `kube-apiserver`: its flags, turned into those of `sternpost serve`.
//!
//! A flag that `serve` has too means the same. What is left either asks for
//! what is so anyway ([`IDLE`]), or is answered with a warning and changes
//! nothing; what kube-apiserver does not know is refused, unless `serve` does.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::{CommandFactory, Parser};
use sternpost_auth::certificate::SubjectAltName;
use sternpost_clock::machine;
use sternpost_golang::strconv::go_quote;
use sternpost_golang::strconv::{parse_bool, parse_int};
use sternpost_http::version::KUBERNETES;
use sternpost_verbs::admission::{Chain, SwitchError};

use super::{
    etcd,
    flags::{self, CommandLine, Given, Kind},
};
use crate::{
    cli::{Cli, Command},
    credentials,
    data_dir::write_private,
    error, serve,
};

/// `words` are those after the program's name.
pub fn run(words: &[String], started: machine::Instant) -> ExitCode {
    match read(words) {
        Ok(Invocation::Help) => done(write!(io::stdout(), "{}", help())),
        Ok(Invocation::Version) => done(writeln!(io::stdout(), "Kubernetes v{KUBERNETES}")),
        Ok(Invocation::Serve(line)) => match start(&line, started) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error::report(&error)),
        },
        Err(problem) => fail(&format!("Error: {problem}\n")),
    }
}

fn done(written: io::Result<()>) -> ExitCode {
    written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn fail(text: &str) -> ExitCode {
    // With stderr gone there is nobody left to tell.
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::FAILURE
}

#[derive(Debug, PartialEq, Eq)]
enum Invocation {
    Help,
    Version,
    Serve(CommandLine),
}

fn read(words: &[String]) -> Result<Invocation, String> {
    let own = serve_flags();
    let line = CommandLine::read(words, |name| own.kind_of_more(name))?;
    let set = |name| line.last(name).is_some_and(|value| value != "0" && parse_bool(value) != Ok(false));
    if set(flags::HELP) {
        return Ok(Invocation::Help);
    }
    if !line.arguments.is_empty() {
        let quoted: Vec<String> = line.arguments.iter().map(|argument| go_quote(argument)).collect();
        return Err(format!("\"kube-apiserver\" does not take any arguments, got [{}]", quoted.join(" ")));
    }
    Ok(if set(flags::VERSION) { Invocation::Version } else { Invocation::Serve(line) })
}

fn start(line: &CommandLine, started: machine::Instant) -> anyhow::Result<()> {
    let own = ServeFlags { objects: Objects::of(line), ..serve_flags() };
    let (words, warnings) = translate(line, &own, controllers().as_deref())?;
    for warning in warnings {
        let _ = writeln!(io::stderr(), "warning: {warning}");
    }
    let words: Vec<String> = ["sternpost".to_owned(), "serve".to_owned()].into_iter().chain(words).collect();
    let mut args = match Cli::try_parse_from(&words) {
        Ok(Cli { command: Command::Serve(args) }) => args.with_flags(words.iter().map(Into::into)),
        Ok(_) => bail!("the flags do not ask for a server"),
        Err(problem) => {
            // The first paragraph says what is wrong; the rest is about `serve`.
            let text = problem.to_string();
            let first = text.split("\n\n").next().unwrap_or_default();
            bail!("{}", first.trim_start_matches("error: "));
        }
    };
    args.stand_in = true;
    serve::run(&args, started)
}

/// What is so anyway: with this value, or with any.
const IDLE: [(&str, Option<&str>); 27] = [
    ("advertise-address", None),
    ("allow-privileged", Some("true")),
    ("delete-collection-workers", None),
    ("enable-garbage-collector", Some("true")),
    ("enable-logs-handler", Some("false")),
    ("endpoint-reconciler-type", Some("none")),
    ("etcd-cafile", None),
    ("etcd-certfile", None),
    ("etcd-compaction-interval", None),
    ("etcd-count-metric-poll-period", None),
    ("etcd-db-metric-poll-interval", None),
    ("etcd-healthcheck-timeout", None),
    ("etcd-keyfile", None),
    ("etcd-prefix", None),
    ("etcd-readycheck-timeout", None),
    ("etcd-servers", None),
    ("etcd-servers-overrides", None),
    ("lease-reuse-duration-seconds", None),
    ("log-flush-frequency", None),
    ("profiling", Some("false")),
    ("service-account-lookup", Some("true")),
    ("storage-backend", Some("etcd3")),
    ("storage-initialization-timeout", None),
    ("storage-media-type", None),
    ("vmodule", None),
    ("watch-cache", None),
    ("watch-cache-sizes", None),
];

/// The switch for tests that cannot pass a flag: `on`, `off`, or a list as
/// `--controllers` has it.
const CONTROLLERS: &str = "STERNPOST_ENVTEST_CONTROLLERS";

/// What is on in a real envtest: there is no controller manager in it, but its
/// API server lets events expire.
const OFF: &str = "-*,event-ttl-controller,apiserver-identity-lease-controller";

/// Without those that put objects into every namespace, which tests then find
/// and do not expect.
const NO_SERVICE_ACCOUNTS: &str = "*,-serviceaccount-controller,-root-ca-certificate-publisher-controller";

#[expect(clippy::disallowed_methods, reason = "envtest hands on the environment, and flags only if told to")]
fn controllers() -> Option<String> {
    std::env::var(CONTROLLERS).ok()
}

/// The words behind `sternpost serve`, and warnings. Makes certificates if
/// there is a place for them and they are not there.
fn translate(
    line: &CommandLine,
    own: &ServeFlags,
    controllers: Option<&str>,
) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let listen = listen(line)?;
    let mut words = vec![format!("--listen={listen}")];
    let mut warnings = vec![];
    if line.last("data-dir").is_none() && own.objects == Objects::Here {
        words.push("--in-memory".into());
    }
    if line.last("tls-cert-file").is_none()
        && let Some(dir) = line.last("cert-dir").filter(|dir| !dir.is_empty())
    {
        let (certificate, key) = certificate_in(Path::new(dir), listen.ip())?;
        words.push(format!("--tls-cert-file={}", certificate.display()));
        words.push(format!("--tls-private-key-file={}", key.display()));
    }
    if line.last("log-level").is_none()
        && let Some(level) = line.last(flags::VERBOSITY).and_then(|value| flags::level(value).ok())
    {
        words.push(format!("--log-level={}", log_level(level)));
    }
    match line.last("logging-format") {
        None | Some("text" | "") => {}
        Some("json") => words.push("--log-format=json".into()),
        Some(other) => bail!("format: Invalid value: {}: Unsupported log format", go_quote(other)),
    }

    if line.last("controllers").is_none() && own.has("controllers") {
        let list = match controllers {
            Some("on") => "*",
            Some("off") => OFF,
            // envtest turns the plugin off: its tests do without service accounts.
            None | Some("") if is_disabled(line, "ServiceAccount") => NO_SERVICE_ACCOUNTS,
            None | Some("") => "*",
            Some(list) => list,
        };
        // On a real etcd whoever else is there has controllers.
        if own.objects == Objects::Here || controllers.is_some_and(|list| !list.is_empty()) {
            words.push(format!("--controllers={list}"));
        }
    }

    let mut seen = BTreeSet::new();
    for Given { name, kind, value } in &line.flags {
        let first = seen.insert(name.as_str());
        let last = line.last(name).unwrap_or(value);
        match name.as_str() {
            "bind-address" | "secure-port" | "cert-dir" | "logging-format" => {}
            flags::VERBOSITY | flags::HELP | flags::VERSION => {}
            "authorization-mode" if first => words.push(authorization_mode(line, &mut warnings)?),
            "authorization-mode" => {}
            "feature-gates" => gates(value, &mut words, &mut warnings)?,
            "enable-admission-plugins" | "disable-admission-plugins" => {
                plugins(name, value, &mut words, &mut warnings)?;
            }
            // A path that is empty is none, and a list that is empty adds nothing.
            _ if own.has(name) && last.is_empty() && *kind == Kind::Text => {}
            _ if own.has(name) && value.is_empty() && *kind == Kind::List => {}
            _ if own.has(name) && *kind == Kind::List => words.push(format!("--{name}={value}")),
            // Of a flag that is no list, the last one counts.
            _ if !first => {}
            _ if own.is_switch(name) => {
                words.extend((parse_bool(last) == Ok(true)).then(|| format!("--{name}")));
            }
            _ if own.has(name) => words.push(format!("--{name}={}", as_serve_has_it(name, *kind, last))),
            _ if is_idle(name, *kind, last) => {}
            _ => warnings.push(format!("--{name} has no effect here")),
        }
    }
    Ok((words, warnings))
}

/// How many streams a connection has where kube-apiserver is told none, or fewer.
const STREAMS_FOR_NONE: i64 = 100;

/// Numbers in digits, whatever base they are written in.
fn as_serve_has_it(name: &str, kind: Kind, value: &str) -> String {
    match parse_int(value) {
        Ok(..=0) if name == "http2-max-streams-per-connection" => STREAMS_FOR_NONE.to_string(),
        Ok(number) if kind == Kind::Int => number.to_string(),
        _ => value.to_owned(),
    }
}

/// As upstream, but for the default address: nothing listens beyond loopback
/// unless that is asked for.
fn listen(line: &CommandLine) -> anyhow::Result<SocketAddr> {
    let port = line.last("secure-port").map_or(Ok(6443), parse_int).unwrap_or_default();
    let address = line.last("bind-address").and_then(|text| text.trim().parse().ok());
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    match u16::try_from(port) {
        Ok(port @ 1..) => Ok(SocketAddr::new(address, port)),
        _ => bail!(
            "--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
        ),
    }
}

/// The certificate and key in `dir` by the names that kube-apiserver gives
/// them; made if there is neither. One without the other is somebody's, and stays.
fn certificate_in(dir: &Path, address: IpAddr) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (certificate, key) = (dir.join("apiserver.crt"), dir.join("apiserver.key"));
    if certificate.exists() != key.exists() {
        let missing = if certificate.exists() { &key } else { &certificate };
        bail!("error reading {}, certificate and key must be supplied as a pair", missing.display());
    }
    if !certificate.exists() {
        fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
        let made = credentials::in_memory(&[SubjectAltName::Ip(address)], machine::wall())?;
        write_private(&key, &made.serving.key)?;
        // With its authority, for those who take this file for what to trust.
        let chain = made.serving.chain + &made.trusted;
        fs::write(&certificate, chain)
            .with_context(|| format!("cannot write `{}`", certificate.display()))?;
    }
    Ok((certificate, key))
}

/// kube-apiserver logs requests from 3 on and bodies from 8.
fn log_level(verbosity: i64) -> &'static str {
    match verbosity {
        ..=2 => "info",
        3..=5 => "debug",
        _ => "trace",
    }
}

/// What kube-apiserver knows.
const AUTHORIZATION_MODES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];

/// Of several modes, one that allows is enough. What is not here allows nothing.
fn authorization_mode(line: &CommandLine, warnings: &mut Vec<String>) -> anyhow::Result<String> {
    let given = line.flags.iter().filter(|flag| flag.name == "authorization-mode");
    let modes: Vec<&str> = given.flat_map(|flag| flag.value.split(',')).collect();
    for mode in &modes {
        if !AUTHORIZATION_MODES.contains(mode) {
            bail!("authorization-mode {} is not a valid mode", go_quote(mode));
        }
        if !matches!(*mode, "AlwaysAllow" | "RBAC") {
            warnings.push(format!("--authorization-mode={mode} has no effect here"));
        }
    }
    let mode = if modes.contains(&"AlwaysAllow") { "AlwaysAllow" } else { "RBAC" };
    Ok(format!("--authorization-mode={mode}"))
}

/// Gates of this server are switched; for others there is nothing to switch.
fn gates(list: &str, words: &mut Vec<String>, warnings: &mut Vec<String>) -> anyhow::Result<()> {
    for gate in list.split(',').map(str::trim).filter(|gate| !gate.is_empty()) {
        // A component may stand before it, as `kube:`.
        let gate = gate.rsplit(':').next().unwrap_or(gate);
        let Some((name, value)) = gate.split_once('=') else { bail!("missing bool value for {gate}") };
        let (name, value) = (name.trim(), value.trim());
        if let Err(error) = parse_bool(value) {
            bail!("invalid value of {gate}, err: {}", error.text("ParseBool", value));
        }
        if ["OpenAPIV3", "AllowUnsafeMalformedObjectDeletion"].contains(&name) {
            words.push(format!("--feature-gates={name}={value}"));
        } else {
            warnings.push(format!("--feature-gates={gate} has no effect here"));
        }
    }
    Ok(())
}

fn is_disabled(line: &CommandLine, plugin: &str) -> bool {
    let mut lists = line.flags.iter().filter(|flag| flag.name == "disable-admission-plugins");
    lists.any(|list| list.value.split(',').any(|name| name == plugin))
}

fn plugins(
    flag: &str,
    list: &str,
    words: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    for name in list.split(',').filter(|name| !name.is_empty()) {
        match Chain::new(&[name.to_owned()], &[]) {
            Err(SwitchError::Unknown { .. }) => bail!("{flag} plugin {} is unknown", go_quote(name)),
            Err(_) if flag.starts_with("enable") => {
                warnings.push(format!("--{flag}={name} has no effect here"));
            }
            _ => words.push(format!("--{flag}={name}")),
        }
    }
    Ok(())
}

fn is_idle(name: &str, kind: Kind, value: &str) -> bool {
    IDLE.into_iter().any(|(idle, only)| {
        idle == name
            && only.is_none_or(|only| match kind {
                Kind::Bool => parse_bool(value) == parse_bool(only),
                _ => value == only,
            })
    })
}

/// Where objects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Objects {
    /// The etcd that is named is a stand-in, too, which keeps nothing.
    Here,
    InEtcd,
}

impl Objects {
    /// A stand-in says so. One that does not answer is waited for as a real one is.
    fn of(line: &CommandLine) -> Self {
        let servers = line.flags.iter().filter(|flag| flag.name == "etcd-servers");
        let mut servers = servers.flat_map(|flag| flag.value.split(',')).filter(|url| !url.is_empty());
        match servers.next() {
            Some(first) if !etcd::stands_in(first) => Self::InEtcd,
            _ => Self::Here,
        }
    }
}

/// What `sternpost serve` can be asked for.
struct ServeFlags {
    command: clap::Command,
    objects: Objects,
}

fn serve_flags() -> ServeFlags {
    let cli = Cli::command();
    let command = cli.find_subcommand("serve").cloned().unwrap_or_default();
    ServeFlags { command, objects: Objects::Here }
}

impl ServeFlags {
    /// Not meant to be asked for by these names: the first is made of two
    /// flags, the second is so unless there is a data directory, and the third
    /// would be for flags of other names.
    const OTHERWISE: [&str; 3] = ["listen", "in-memory", "config"];

    fn find(&self, name: &str) -> Option<&clap::Arg> {
        let is_of_etcd =
            || name.starts_with("etcd-") || ["advertise-address", "endpoint-reconciler-type"].contains(&name);
        if Self::OTHERWISE.contains(&name) || (self.objects == Objects::Here && is_of_etcd()) {
            return None;
        }
        self.command.get_arguments().find(|argument| argument.get_long() == Some(name))
    }

    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Whether it takes no value.
    fn is_switch(&self, name: &str) -> bool {
        self.find(name).is_some_and(|argument| !argument.get_action().takes_values())
    }

    /// Of a flag that kube-apiserver does not have.
    fn kind_of_more(&self, name: &str) -> Option<Kind> {
        let argument = self.find(name)?;
        Some(match argument.get_action() {
            clap::ArgAction::Append => Kind::List,
            action if action.takes_values() => Kind::Text,
            _ => Kind::Bool,
        })
    }
}

fn help() -> String {
    let own = ServeFlags { objects: Objects::InEtcd, ..serve_flags() };
    let mut text = format!(
        "sternpost in the place of kube-apiserver, for envtest: the Kubernetes API v{KUBERNETES} without the cluster\n\n\
         Usage:\n  kube-apiserver [flags]\n"
    );
    let with_effect = |name: &str| {
        own.has(name)
            || ["bind-address", "cert-dir", "logging-format", "secure-port", flags::VERBOSITY].contains(&name)
    };
    let line = |name: &str, kind: Kind| {
        let value = match kind {
            Kind::Bool => "",
            Kind::Int | Kind::Level => " int",
            Kind::Float => " float",
            Kind::Duration => " duration",
            Kind::Ip => " ip",
            Kind::Text => " string",
            Kind::List => " strings",
        };
        let letter = if name == flags::VERBOSITY { "  -v, " } else { "      " };
        format!("{letter}--{name}{value}\n")
    };
    let (effective, idle): (Vec<_>, Vec<_>) =
        flags::names().into_iter().partition(|(name, _)| with_effect(name));
    let mut more: Vec<_> = own
        .command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .filter(|name| flags::kind(name).is_none())
        .filter_map(|name| Some((name, own.kind_of_more(name)?)))
        .collect();
    more.sort_unstable_by_key(|(name, _)| *name);
    for (title, list) in [
        ("Flags as kube-apiserver's", effective),
        ("Flags of sternpost serve, which explains them in its --help", more),
        ("Flags that are accepted and change nothing", idle),
    ] {
        text += &format!("\n{title}:\n\n");
        for (name, kind) in list {
            text += &line(name, kind);
        }
    }
    text + "\n  -h, --help\n      --version\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn translated(flags: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
        match read(&words(flags))? {
            Invocation::Serve(line) => {
                translate(&line, &serve_flags(), None).map_err(|error| error.to_string())
            }
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn flags_of_envtest_become_those_of_serve_without_a_warning() {
        let flags = [
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            "--client-ca-file=/d/client-cert-auth-ca.crt",
            "--disable-admission-plugins=ServiceAccount",
            "--etcd-servers=http://127.0.0.1:36133",
            "--secure-port=41241",
            "--service-account-issuer=https://127.0.0.1:41241/",
            "--service-account-key-file=/d/sa-signer.crt",
            "--service-account-signing-key-file=/d/sa-signer.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--tls-cert-file=/d/apiserver.crt",
            "--tls-private-key-file=/d/apiserver.key",
            "--cert-dir=/d",
        ];
        let (words, warnings) = translated(&flags).unwrap();
        assert_eq!(warnings, [""; 0]);
        for word in [
            "--listen=127.0.0.1:41241",
            "--in-memory",
            "--client-ca-file=/d/client-cert-auth-ca.crt",
            "--service-account-issuer=https://127.0.0.1:41241/",
            "--tls-cert-file=/d/apiserver.crt",
        ] {
            assert!(words.contains(&word.to_owned()), "{word} in {words:?}");
        }
    }

    #[test]
    fn a_real_etcd_is_used() {
        let flags = [
            "--etcd-servers=http://127.0.0.1:2379",
            "--etcd-prefix=/x",
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=lease",
            "--etcd-readycheck-timeout=2s",
        ];
        let Ok(Invocation::Serve(line)) = read(&words(&flags)) else { panic!() };
        let own = ServeFlags { objects: Objects::InEtcd, ..serve_flags() };
        let (words, _) = translate(&line, &own, None).unwrap();
        assert!(words.contains(&"--etcd-servers=http://127.0.0.1:2379".to_owned()), "{words:?}");
        assert!(words.contains(&"--advertise-address=192.0.2.1".to_owned()), "{words:?}");
        assert!(
            !words.iter().any(|word| word == "--in-memory" || word.starts_with("--controllers")),
            "{words:?}"
        );
        let words = ["sternpost", "serve"].into_iter().chain(words.iter().map(String::as_str));
        Cli::try_parse_from(words).unwrap_or_else(|problem| panic!("{problem}"));
    }

    #[test]
    fn what_has_no_effect_is_told_once() {
        for (flags, expected) in [
            (
                &["--goaway-chance=0.001", "--goaway-chance=0.002"][..],
                &["--goaway-chance has no effect here"][..],
            ),
            (&["--allow-privileged=false"], &["--allow-privileged has no effect here"]),
            (&["--allow-privileged"], &[]),
            (&["--authorization-mode=Node,RBAC"], &["--authorization-mode=Node has no effect here"]),
            (&["--etcd-servers=http://127.0.0.1:2379", "--etcd-prefix=/x"], &[]),
            (&["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"], &[]),
            (
                &["--enable-admission-plugins=NodeRestriction,LimitRanger"],
                &["--enable-admission-plugins=NodeRestriction has no effect here"],
            ),
            (&["--feature-gates=kube:A=true,OpenAPIV3=true"], &["--feature-gates=A=true has no effect here"]),
        ] {
            assert_eq!(translated(flags).unwrap().1, expected, "{flags:?}");
        }
    }

    #[test]
    fn values_are_handed_on_as_they_count() {
        for (flags, expected) in [
            (
                &["--tls-cert-file=a", "--tls-cert-file=b", "--tls-private-key-file=c"][..],
                &["--tls-cert-file=b", "--tls-private-key-file=c"][..],
            ),
            (&["--client-ca-file="], &[]),
            (
                &["--service-account-key-file=a", "--service-account-key-file=b"],
                &["--service-account-key-file=a", "--service-account-key-file=b"],
            ),
            (
                &["--service-account-extend-token-expiration"],
                &["--service-account-extend-token-expiration=true"],
            ),
            (&["--bind-address=::1", "--secure-port=0x1BB"], &[]),
            (&["--authorization-mode=Node", "--authorization-mode=RBAC"], &["--authorization-mode=RBAC"]),
            (&["--authorization-mode=RBAC,AlwaysAllow"], &["--authorization-mode=AlwaysAllow"]),
            (&["-v2"], &["--log-level=info"]),
            (&["-v=5"], &["--log-level=debug"]),
            (&["--v", "9", "--log-level=error"], &["--log-level=error"]),
            (&["--logging-format=json"], &["--log-format=json"]),
            (
                &["--disable-admission-plugins=Priority,ServiceAccount"],
                &["--disable-admission-plugins=Priority", "--disable-admission-plugins=ServiceAccount"],
            ),
            (
                &["--admission-control-config-file", "a.yaml", "--admission-control-config-file=b.yaml"],
                &["--admission-control-config-file=b.yaml"],
            ),
            (&["--admission-control-config-file="], &[]),
            (&["--http2-max-streams-per-connection=3"], &["--http2-max-streams-per-connection=3"]),
            (&["--http2-max-streams-per-connection=0x10"], &["--http2-max-streams-per-connection=16"]),
            (&["--http2-max-streams-per-connection=0"], &["--http2-max-streams-per-connection=100"]),
            (&["--http2-max-streams-per-connection", "-1"], &["--http2-max-streams-per-connection=100"]),
            (&["--max-requests-inflight=1_000"], &["--max-requests-inflight=1000"]),
        ] {
            let (found, _) = translated(flags).unwrap();
            let rest: Vec<_> = found
                .iter()
                .filter(|word| {
                    !["--listen", "--in-memory", "--controllers"].iter().any(|own| word.starts_with(own))
                })
                .collect();
            assert_eq!(rest, expected, "{flags:?}");
        }
        assert_eq!(
            translated(&["--bind-address=::1", "--secure-port=0x1BB"]).unwrap().0[0],
            "--listen=[::1]:443"
        );
        let kept = translated(&["--data-dir=/x"]).unwrap().0;
        assert!(kept.contains(&"--data-dir=/x".into()) && !kept.contains(&"--in-memory".into()), "{kept:?}");
    }

    /// The table of `docs/limits.md`.
    #[test]
    fn every_budget_can_be_chosen() {
        let table = include_str!("../../../../docs/limits.md");
        let rows = table.lines().filter_map(|line| line.split('|').nth(2)?.trim().strip_prefix("`--"));
        let mut count = 0;
        for flag in rows.map(|rest| rest.trim_end_matches('`')) {
            let value = match flag {
                "trusted-proxies" => "10.0.0.0/8",
                _ if flag.ends_with("timeout") => "7s",
                _ => "7",
            };
            let word = format!("--{flag}={value}");
            let (words, warnings) = translated(&[&word]).unwrap();
            assert!(words.contains(&word) && warnings.is_empty(), "{words:?} {warnings:?}");
            let words = ["sternpost", "serve"].into_iter().chain(words.iter().map(String::as_str));
            Cli::try_parse_from(words).unwrap_or_else(|problem| panic!("{problem}"));
            count += 1;
        }
        assert!(count >= 10, "{count}");
    }

    #[test]
    fn refusals_have_kube_apiservers_words() {
        // As kube-apiserver 1.36.4 answered.
        for (flags, expected) in [
            (&["--nonsense"][..], "unknown flag: --nonsense"),
            (&["--listen=x"], "unknown flag: --listen"),
            (&["--config=x"], "unknown flag: --config"),
            (&["foo", "bar"], "\"kube-apiserver\" does not take any arguments, got [\"foo\" \"bar\"]"),
            (&["--version", "foo"], "\"kube-apiserver\" does not take any arguments, got [\"foo\"]"),
            (
                &["--secure-port=0"],
                "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
            ),
            (
                &["--secure-port=-1"],
                "--secure-port -1 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
            ),
            (
                &["--secure-port=65536"],
                "--secure-port 65536 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
            ),
            (&["--feature-gates=x"], "missing bool value for x"),
            (
                &["--feature-gates=WatchList=x"],
                "invalid value of WatchList=x, err: strconv.ParseBool: parsing \"x\": invalid syntax",
            ),
            (&["--enable-admission-plugins=Foo"], "enable-admission-plugins plugin \"Foo\" is unknown"),
            (&["--disable-admission-plugins=Foo"], "disable-admission-plugins plugin \"Foo\" is unknown"),
            (&["--authorization-mode=RBAC,Foo"], "authorization-mode \"Foo\" is not a valid mode"),
            (&["--logging-format=foo"], "format: Invalid value: \"foo\": Unsupported log format"),
        ] {
            assert_eq!(translated(flags).unwrap_err(), expected, "{flags:?}");
        }
        assert!(translated(&["--secure-port=65535"]).is_ok());
    }

    #[test]
    fn controllers_are_switched_by_flag_or_environment() {
        for (flags, environment, expected) in [
            (&[][..], None, "*"),
            (&["--disable-admission-plugins=Priority"], Some(""), "*"),
            (&["--disable-admission-plugins=Priority,ServiceAccount"], None, NO_SERVICE_ACCOUNTS),
            (&["--disable-admission-plugins=ServiceAccount"], Some("on"), "*"),
            (&["--disable-admission-plugins=ServiceAccount"], Some("off"), OFF),
            (&[], Some("*,-namespace"), "*,-namespace"),
            (&["--controllers=namespace"], Some("off"), "namespace"),
        ] {
            let Ok(Invocation::Serve(line)) = read(&words(flags)) else { panic!("{flags:?}") };
            let (found, _) = translate(&line, &serve_flags(), environment).unwrap();
            let found = found.iter().find_map(|word| word.strip_prefix("--controllers="));
            assert_eq!(found, Some(expected), "{flags:?} {environment:?}");
        }
    }

    #[test]
    fn help_goes_before_arguments_and_version() {
        for (flags, expected) in [
            (&["--help", "foo"][..], Invocation::Help),
            (&["--version", "-h"], Invocation::Help),
            (&["--help=false", "--version"], Invocation::Version),
            (&["--version=raw"], Invocation::Version),
        ] {
            assert_eq!(read(&words(flags)).unwrap(), expected, "{flags:?}");
        }
    }

    #[test]
    fn help_names_every_flag_once() {
        let help = help();
        for (name, _) in flags::names() {
            let lines = help
                .lines()
                .filter(|line| line.split_whitespace().any(|word| word.strip_prefix("--") == Some(name)));
            assert_eq!(lines.count(), 1, "{name}");
        }
    }

    #[test]
    fn what_is_idle_is_a_flag_of_kube_apiserver_and_none_of_serve() {
        let own = serve_flags();
        for (name, _) in IDLE {
            assert!(flags::kind(name).is_some(), "{name}");
            assert!(!own.has(name), "{name}");
        }
    }

    #[test]
    fn a_certificate_is_made_once_in_its_folder() {
        let dir = std::env::temp_dir().join(format!("sternpost-cert-dir-{}", std::process::id()));
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (certificate, key) = certificate_in(&dir.join("new"), address).unwrap();
        let made = fs::read(&certificate).unwrap();
        assert!(credentials::serving_from_files(&certificate, &key).is_ok());
        certificate_in(&dir.join("new"), address).unwrap();
        assert_eq!(fs::read(&certificate).unwrap(), made);
        // Half a pair is somebody's.
        fs::remove_file(&certificate).unwrap();
        let error = certificate_in(&dir.join("new"), address).unwrap_err().to_string();
        let missing = certificate.display();
        assert_eq!(error, format!("error reading {missing}, certificate and key must be supplied as a pair"));
        fs::remove_dir_all(dir).unwrap();
    }
}
