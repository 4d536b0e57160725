//! kube-apiserver's flags: what they are called, what their values look like,
//! and how a command line of them is read.
//!
//! Names and refusals are those of kube-apiserver 1.36, so that what works
//! there is read the same here and what fails there fails here.

use std::net::IpAddr;

use sternpost_golang::{
    duration,
    pflag::{self, Flag, Flags, Word},
    strconv::{NumberError, go_quote, parse_bool, parse_int},
};

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` if the flag has no value.
    Bool,
    Int,
    /// The verbosity of logs.
    Level,
    Float,
    Duration,
    Ip,
    Text,
    /// Every time it is given adds to it.
    List,
}

/// A flag that was given, with a value that its kind allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub name: String,
    pub kind: Kind,
    pub value: String,
}

/// The flags of a command line in their order, and what is no flag.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    pub flags: Vec<Given>,
    pub arguments: Vec<String>,
}

pub const HELP: &str = "help";
pub const VERSION: &str = "version";
pub const VERBOSITY: &str = "v";

/// Flags with a letter of their own.
const SHORTHANDS: [(char, &str); 2] = [('h', HELP), ('v', VERBOSITY)];

impl CommandLine {
    /// Reads the words after the program's name. `more` knows flags besides
    /// kube-apiserver's own. The error has kube-apiserver's words.
    pub fn read(words: &[String], more: impl Fn(&str) -> Option<Kind>) -> Result<Self, String> {
        let known = Known { more };
        let mut line = Self::default();
        pflag::read(words, &known, |word| {
            match word {
                Word::Flag(flag, value) => {
                    let kind = known.kind(&flag.name).unwrap_or(Kind::Text);
                    check(&flag.name, kind, &value)
                        .map_err(|problem| flag.invalid_argument(&value, &problem))?;
                    line.flags.push(Given { name: flag.name, kind, value });
                }
                Word::Argument(argument) => line.arguments.push(argument),
                Word::Dashes => {}
            }
            Ok(())
        })?;
        Ok(line)
    }

    /// The value that counts: that of the last time.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.flags.iter().rev().find(|flag| flag.name == name).map(|flag| flag.value.as_str())
    }
}

struct Known<F> {
    more: F,
}

impl<F: Fn(&str) -> Option<Kind>> Known<F> {
    fn kind(&self, name: &str) -> Option<Kind> {
        kind(name).or_else(|| (self.more)(name))
    }
}

impl<F: Fn(&str) -> Option<Kind>> Flags for Known<F> {
    fn long(&self, name: &str) -> Option<Flag> {
        // Both spellings are one flag.
        let name = name.replace('_', "-");
        let kind = self.kind(&name)?;
        let shorthand = SHORTHANDS.into_iter().find(|(_, long)| *long == name).map(|(letter, _)| letter);
        Some(Flag { name, shorthand, default_without_value: (kind == Kind::Bool).then_some("true") })
    }

    fn shorthand(&self, letter: char) -> Option<Flag> {
        let (_, name) = SHORTHANDS.into_iter().find(|(known, _)| *known == letter)?;
        self.long(name)
    }
}

/// Of a flag that kube-apiserver has.
pub fn kind(name: &str) -> Option<Kind> {
    match name {
        HELP | VERSION => Some(Kind::Bool),
        VERBOSITY => Some(Kind::Level),
        _ => FLAGS.into_iter().find(|(_, names)| names.contains(&name)).map(|(kind, _)| kind),
    }
}

/// All flags by name, but for those that end at once.
pub fn names() -> Vec<(&'static str, Kind)> {
    let listed = FLAGS.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (*name, kind)));
    let mut names: Vec<_> = listed.chain([(VERBOSITY, Kind::Level)]).collect();
    names.sort_unstable_by_key(|(name, _)| *name);
    names
}

/// The error is that of Go's standard library.
fn check(name: &str, kind: Kind, value: &str) -> Result<(), String> {
    let number = |function: &str, error: NumberError| error.text(function, value);
    match kind {
        Kind::Bool if name == VERSION && value == "raw" => Ok(()),
        Kind::Bool => parse_bool(value).map(|_| ()).map_err(|error| number("ParseBool", error)),
        Kind::Int => parse_int(value).map(|_| ()).map_err(|error| number("ParseInt", error)),
        Kind::Level => level(value).map(|_| ()).map_err(|error| number("ParseUint", error)),
        Kind::Float => match value.parse::<f64>() {
            Ok(number) if number.is_finite() || !value.contains(|char: char| char.is_ascii_digit()) => Ok(()),
            Ok(_) => Err(number("ParseFloat", NumberError::Range)),
            Err(_) => Err(number("ParseFloat", NumberError::Syntax)),
        },
        Kind::Duration => duration::parse(value).map(|_| ()).map_err(|problem| format!("time: {problem}")),
        Kind::Ip if value.trim().parse::<IpAddr>().is_ok() => Ok(()),
        Kind::Ip => Err(format!("failed to parse IP: {}", go_quote(value))),
        Kind::Text | Kind::List => Ok(()),
    }
}

pub fn level(value: &str) -> Result<i64, NumberError> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(NumberError::Syntax);
    }
    value.parse::<i32>().map(i64::from).map_err(|_| NumberError::Range)
}

/// Of kube-apiserver 1.36.
const FLAGS: [(Kind, &[&str]); 7] = [
    (
        Kind::Bool,
        &[
            "aggregator-reject-forwarding-redirect",
            "allow-privileged",
            "anonymous-auth",
            "audit-log-batch-throttle-enable",
            "audit-log-compress",
            "audit-log-truncate-enabled",
            "audit-webhook-batch-throttle-enable",
            "audit-webhook-truncate-enabled",
            "contention-profiling",
            "disable-http2-serving",
            "emulation-forward-compatible",
            "enable-aggregator-routing",
            "enable-bootstrap-token-auth",
            "enable-garbage-collector",
            "enable-logs-handler",
            "enable-priority-and-fairness",
            "encryption-provider-config-automatic-reload",
            "log-json-split-stream",
            "log-text-split-stream",
            "permit-address-sharing",
            "permit-port-sharing",
            "profiling",
            "runtime-config-emulation-forward-compatible",
            "service-account-extend-token-expiration",
            "service-account-lookup",
            "shutdown-send-retry-after",
            "watch-cache",
        ],
    ),
    (
        Kind::Int,
        &[
            "audit-log-batch-buffer-size",
            "audit-log-batch-max-size",
            "audit-log-batch-throttle-burst",
            "audit-log-maxage",
            "audit-log-maxbackup",
            "audit-log-maxsize",
            "audit-log-truncate-max-batch-size",
            "audit-log-truncate-max-event-size",
            "audit-webhook-batch-buffer-size",
            "audit-webhook-batch-max-size",
            "audit-webhook-batch-throttle-burst",
            "audit-webhook-truncate-max-batch-size",
            "audit-webhook-truncate-max-event-size",
            "default-not-ready-toleration-seconds",
            "default-unreachable-toleration-seconds",
            "delete-collection-workers",
            "http2-max-streams-per-connection",
            "kubernetes-service-node-port",
            "lease-reuse-duration-seconds",
            "max-connection-bytes-per-sec",
            "max-mutating-requests-inflight",
            "max-requests-inflight",
            "min-request-timeout",
            "secure-port",
        ],
    ),
    (Kind::Float, &["audit-log-batch-throttle-qps", "audit-webhook-batch-throttle-qps", "goaway-chance"]),
    (
        Kind::Duration,
        &[
            "audit-log-batch-max-wait",
            "audit-webhook-batch-max-wait",
            "audit-webhook-initial-backoff",
            "authentication-token-webhook-cache-ttl",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
            "coordinated-leadership-lease-duration",
            "coordinated-leadership-renew-deadline",
            "coordinated-leadership-retry-period",
            "etcd-compaction-interval",
            "etcd-count-metric-poll-period",
            "etcd-db-metric-poll-interval",
            "etcd-healthcheck-timeout",
            "etcd-readycheck-timeout",
            "event-ttl",
            "kubelet-timeout",
            "livez-grace-period",
            "log-flush-frequency",
            "request-timeout",
            "service-account-max-token-expiration",
            "shutdown-delay-duration",
            "shutdown-watch-termination-grace-period",
            "storage-initialization-timeout",
        ],
    ),
    (Kind::Ip, &["advertise-address", "bind-address"]),
    (
        Kind::Text,
        &[
            "admission-control-config-file",
            "allow-metric-labels-manifest",
            "audit-log-format",
            "audit-log-mode",
            "audit-log-path",
            "audit-log-version",
            "audit-policy-file",
            "audit-webhook-config-file",
            "audit-webhook-mode",
            "audit-webhook-version",
            "authentication-config",
            "authentication-token-webhook-config-file",
            "authentication-token-webhook-version",
            "authorization-config",
            "authorization-policy-file",
            "authorization-webhook-config-file",
            "authorization-webhook-version",
            "cert-dir",
            "client-ca-file",
            "debug-socket-path",
            "egress-selector-config-file",
            "encryption-provider-config",
            "endpoint-reconciler-type",
            "etcd-cafile",
            "etcd-certfile",
            "etcd-keyfile",
            "etcd-prefix",
            "external-hostname",
            "kubelet-certificate-authority",
            "kubelet-client-certificate",
            "kubelet-client-key",
            "log-json-info-buffer-size",
            "log-text-info-buffer-size",
            "logging-format",
            "oidc-ca-file",
            "oidc-client-id",
            "oidc-groups-claim",
            "oidc-groups-prefix",
            "oidc-issuer-url",
            "oidc-username-claim",
            "oidc-username-prefix",
            "peer-advertise-ip",
            "peer-advertise-port",
            "peer-ca-file",
            "proxy-client-cert-file",
            "proxy-client-key-file",
            "requestheader-client-ca-file",
            "service-account-jwks-uri",
            "service-account-signing-endpoint",
            "service-account-signing-key-file",
            "service-cluster-ip-range",
            "service-node-port-range",
            "show-hidden-metrics-for-version",
            "storage-backend",
            "storage-media-type",
            "tls-cert-file",
            "tls-min-version",
            "tls-private-key-file",
            "token-auth-file",
            "tracing-config-file",
            "vmodule",
        ],
    ),
    (
        Kind::List,
        &[
            "admission-control",
            "allow-metric-labels",
            "api-audiences",
            "authorization-mode",
            "cors-allowed-origins",
            "disable-admission-plugins",
            "disabled-metrics",
            "emulated-version",
            "enable-admission-plugins",
            "etcd-servers",
            "etcd-servers-overrides",
            "feature-gates",
            "kubelet-preferred-address-types",
            "min-compatibility-version",
            "oidc-required-claim",
            "oidc-signing-algs",
            "requestheader-allowed-names",
            "requestheader-extra-headers-prefix",
            "requestheader-group-headers",
            "requestheader-uid-headers",
            "requestheader-username-headers",
            "runtime-config",
            "service-account-issuer",
            "service-account-key-file",
            "strict-transport-security-directives",
            "tls-cipher-suites",
            "tls-curve-preferences",
            "tls-sni-cert-key",
            "watch-cache-sizes",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<CommandLine, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let more = |name: &str| (name == "data-dir").then_some(Kind::Text);
        CommandLine::read(&words, more)
    }

    #[test]
    fn flags_are_read_in_every_form() {
        for (words, expected) in [
            (&["--secure-port=1"][..], &[("secure-port", "1")][..]),
            (&["--secure-port", "1"], &[("secure-port", "1")]),
            (&["--secure_port", "1"], &[("secure-port", "1")]),
            (
                &["--allow-privileged", "--secure-port=1"],
                &[("allow-privileged", "true"), ("secure-port", "1")],
            ),
            (&["--allow-privileged=F"], &[("allow-privileged", "F")]),
            (&["--etcd-servers="], &[("etcd-servers", "")]),
            (&["--etcd-prefix", "--x"], &[("etcd-prefix", "--x")]),
            (&["-v4"], &[("v", "4")]),
            (&["-v=4"], &[("v", "4")]),
            (&["-v", "4"], &[("v", "4")]),
            (&["-hv4"], &[("help", "true"), ("v", "4")]),
            (&["--version=raw"], &[("version", "raw")]),
            (&["--data-dir=/x"], &[("data-dir", "/x")]),
        ] {
            let found = read(words).unwrap();
            let flags: Vec<_> =
                found.flags.iter().map(|flag| (flag.name.as_str(), flag.value.as_str())).collect();
            assert_eq!(flags, expected, "{words:?}");
            assert!(found.arguments.is_empty(), "{words:?}");
        }
        assert_eq!(read(&["-", "x", "--", "--y"]).unwrap().arguments, ["-", "x", "--y"]);
    }

    #[test]
    fn refusals_have_kube_apiservers_words() {
        // As kube-apiserver 1.36.4 answered.
        for (words, expected) in [
            (&["--nonsense=1"][..], "unknown flag: --nonsense"),
            (&["--help", "--nonsense"], "unknown flag: --nonsense"),
            (&["--=x"], "bad flag syntax: --=x"),
            (&["---x"], "bad flag syntax: ---x"),
            (&["-z"], "unknown shorthand flag: 'z' in -z"),
            (&["-secure-port=4"], "unknown shorthand flag: 's' in -secure-port=4"),
            (&["-hx"], "unknown shorthand flag: 'x' in -x"),
            (&["--secure-port"], "flag needs an argument: --secure-port"),
            (&["-v"], "flag needs an argument: 'v' in -v"),
            (
                &["--secure-port=x"],
                "invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
            (
                &["--secure-port=99999999999999999999"],
                "invalid argument \"99999999999999999999\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
            ),
            (
                &["--allow-privileged=yes"],
                "invalid argument \"yes\" for \"--allow-privileged\" flag: strconv.ParseBool: parsing \"yes\": invalid syntax",
            ),
            (
                &["--help=x"],
                "invalid argument \"x\" for \"-h, --help\" flag: strconv.ParseBool: parsing \"x\": invalid syntax",
            ),
            (
                &["--v=-1"],
                "invalid argument \"-1\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax",
            ),
            (
                &["--v=3000000000"],
                "invalid argument \"3000000000\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"3000000000\": value out of range",
            ),
            (
                &["--goaway-chance=1e999"],
                "invalid argument \"1e999\" for \"--goaway-chance\" flag: strconv.ParseFloat: parsing \"1e999\": value out of range",
            ),
            (
                &["--bind-address=01.2.3.4"],
                "invalid argument \"01.2.3.4\" for \"--bind-address\" flag: failed to parse IP: \"01.2.3.4\"",
            ),
            (
                &["--event-ttl=5"],
                "invalid argument \"5\" for \"--event-ttl\" flag: time: missing unit in duration \"5\"",
            ),
            (
                &["--event-ttl=1d"],
                "invalid argument \"1d\" for \"--event-ttl\" flag: time: unknown unit \"d\" in duration \"1d\"",
            ),
            (
                &["--event-ttl=-"],
                "invalid argument \"-\" for \"--event-ttl\" flag: time: invalid duration \"-\"",
            ),
            (
                &["--event-ttl=.h"],
                "invalid argument \".h\" for \"--event-ttl\" flag: time: invalid duration \".h\"",
            ),
            (
                &["--event-ttl=99999999999h"],
                "invalid argument \"99999999999h\" for \"--event-ttl\" flag: time: invalid duration \"99999999999h\"",
            ),
        ] {
            assert_eq!(read(words).unwrap_err(), expected, "{words:?}");
        }
    }

    #[test]
    fn a_name_stands_once_in_the_table() {
        let names = names();
        for pair in names.windows(2) {
            assert_ne!(pair[0].0, pair[1].0);
        }
        assert_eq!(names.len(), 170);
    }
}
