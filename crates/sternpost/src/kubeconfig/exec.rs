//! Exec plugins: programs that a kubeconfig names for credentials.
//!
//! What they are told and what they answer is an `ExecCredential` of
//! `client.authentication.k8s.io`, v1 or v1beta1.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use anyhow::{Context, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use sternpost_clock::machine;
use sternpost_golang::time::Timestamp;
use tokio::{
    io::AsyncReadExt,
    process::{Child, Command},
};

use super::{Access, Certificate, Credentials, string};
use crate::error::Hinted;

const GROUP: &str = "client.authentication.k8s.io";

/// For a program that nobody is asked by.
const TIME: Duration = Duration::from_secs(60);
/// For one that may ask somebody to sign in.
const TIME_TO_SIGN_IN: Duration = Duration::from_secs(300);

/// Tokens and certificates have a few kilobytes.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;

/// The extension of a cluster that is meant for plugins.
const CLUSTER_EXTENSION: &str = "client.authentication.k8s.io/exec";

#[derive(Debug)]
pub struct Plugin {
    api_version: String,
    command: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    hint: Option<String>,
    tells_cluster: bool,
    interaction: Interaction,
}

/// Whether it may talk to the person at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interaction {
    Never,
    IfAvailable,
    Always,
}

impl Plugin {
    /// `directory` is that of the kubeconfig: a command with a slash is relative to it.
    pub fn read(json: &Value, directory: &Path) -> anyhow::Result<Self> {
        let api_version = string(json, "apiVersion").context("exec: `apiVersion` is missing")?;
        let is_v1 = match api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')) {
            Some("v1") => true,
            Some("v1beta1") => false,
            _ => return Err(anyhow!("exec: `{api_version}` is not supported; {GROUP}/v1 and v1beta1 are")),
        };
        let interaction = match string(json, "interactiveMode") {
            Some("Never") => Interaction::Never,
            Some("IfAvailable") => Interaction::IfAvailable,
            Some("Always") => Interaction::Always,
            None if !is_v1 => Interaction::IfAvailable,
            None => return Err(anyhow!("exec: `interactiveMode` is missing")),
            Some(other) => {
                return Err(anyhow!("exec: interactiveMode `{other}` is none of Never, IfAvailable, Always"));
            }
        };
        let command = string(json, "command").context("exec: `command` is missing")?;
        let list = |key| json.get(key).and_then(Value::as_array).into_iter().flatten();
        let variable = |entry: &Value| {
            let value = entry.get("value").and_then(Value::as_str).unwrap_or_default();
            Some((string(entry, "name")?.to_owned(), value.to_owned()))
        };
        Ok(Self {
            api_version: api_version.to_owned(),
            command: if command.contains('/') { directory.join(command) } else { command.into() },
            arguments: list("args").filter_map(Value::as_str).map(Into::into).collect(),
            environment: list("env").filter_map(variable).collect(),
            hint: string(json, "installHint").map(Into::into),
            tells_cluster: json.get("provideClusterInfo").and_then(Value::as_bool).unwrap_or_default(),
            interaction,
        })
    }

    /// Runs it and reads what it answers.
    pub async fn run(&self, access: &Access, cluster: &Value) -> anyhow::Result<Credentials> {
        let name = self.command.display().to_string();
        let failed = || format!("exec plugin `{name}`");
        let is_terminal = io::stdin().is_terminal();
        if self.interaction == Interaction::Always && !is_terminal {
            return Err(anyhow!("it needs a terminal, and standard input is none").context(failed()));
        }
        let interactive = self.interaction != Interaction::Never && is_terminal;
        let told = self.told(interactive, access, cluster);
        let answer = self.ask(&told, interactive, if interactive { TIME_TO_SIGN_IN } else { TIME }).await;
        let answer = answer.with_context(failed)?;
        self.credentials(&answer, machine::wall()).with_context(failed)
    }

    async fn ask(&self, told: &Value, interactive: bool, time: Duration) -> anyhow::Result<Vec<u8>> {
        let child = Command::new(&self.command)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", told.to_string())
            .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn();
        let child = child.map_err(|error| self.not_started(&error))?;
        match machine::timeout(time, answer(child)).await {
            Err(_) => Err(anyhow!("no answer within {time:?}")),
            Ok(answer) => answer,
        }
    }

    /// The kubeconfig may say how to come by a program that is missing.
    fn not_started(&self, error: &io::Error) -> anyhow::Error {
        match &self.hint {
            Some(hint) if error.kind() == io::ErrorKind::NotFound => {
                let message = "there is no such program".to_owned();
                Hinted { message, hint: hint.trim().to_owned() }.into()
            }
            _ if error.kind() == io::ErrorKind::NotFound => anyhow!("there is no such program"),
            _ => anyhow!("cannot be started: {error}"),
        }
    }

    /// The value of `KUBERNETES_EXEC_INFO`.
    fn told(&self, interactive: bool, access: &Access, cluster: &Value) -> Value {
        let mut spec = Map::from_iter([("interactive".to_owned(), interactive.into())]);
        if self.tells_cluster {
            let authority = access.authority.as_ref().map(|authority| STANDARD.encode(authority));
            let extensions = cluster.get("extensions").and_then(Value::as_array).into_iter().flatten();
            let mut own = extensions.filter(|entry| string(entry, "name") == Some(CLUSTER_EXTENSION));
            let known = [
                ("server", Some(access.server.clone().into())),
                ("certificate-authority-data", authority.map(Value::from)),
                ("insecure-skip-tls-verify", access.insecure.then_some(true.into())),
                ("tls-server-name", access.server_name.clone().map(Value::from)),
                ("proxy-url", access.proxy.clone().map(Value::from)),
                ("config", own.next().and_then(|entry| entry.get("extension")).cloned()),
            ];
            let info: Map<String, Value> =
                known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
            spec.insert("cluster".to_owned(), info.into());
        }
        json!({"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec})
    }

    /// What the answer says to sign requests with.
    fn credentials(&self, answer: &[u8], now: SystemTime) -> anyhow::Result<Credentials> {
        let json: Value = serde_json::from_slice(answer).context("the answer is no JSON")?;
        let (kind, api_version) = (string(&json, "kind"), string(&json, "apiVersion"));
        if kind != Some("ExecCredential") || api_version != Some(&self.api_version) {
            let found = format!("{} {}", api_version.unwrap_or("-"), kind.unwrap_or("-"));
            return Err(anyhow!("the answer is a `{found}`, not a `{} ExecCredential`", self.api_version));
        }
        let status = json.get("status").context("the answer has no status")?;
        let pem = |key| string(status, key).map(|text| text.as_bytes().to_vec());
        let certificate = match (pem("clientCertificateData"), pem("clientKeyData")) {
            (Some(chain), Some(key)) => Some(Certificate { chain, key }),
            (None, None) => None,
            _ => return Err(anyhow!("the answer has a certificate without its key, or a key alone")),
        };
        let token = string(status, "token");
        if token.is_none() && certificate.is_none() {
            return Err(anyhow!("the answer has neither a token nor a certificate"));
        }
        if let Some(end) = string(status, "expirationTimestamp") {
            let moment = Timestamp::parse_time(end)
                .map_err(|error| anyhow!("the answer's expirationTimestamp: {error}"))?;
            let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            if moment.seconds() <= i64::try_from(now).unwrap_or(i64::MAX) {
                return Err(anyhow!("the answer is a credential that has expired at {end}"));
            }
        }
        let authorization = token.map(|token| format!("Bearer {token}"));
        Ok(Credentials { authorization, certificate, impersonate: Vec::new() })
    }
}

/// What a program writes, if it ends well.
async fn answer(mut child: Child) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut bytes).await?;
    }
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_ANSWER_BYTES) {
        return Err(anyhow!("the answer has more than {MAX_ANSWER_BYTES} bytes"));
    }
    match child.wait().await? {
        status if status.success() => Ok(bytes),
        status => Err(anyhow!("it failed: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "client.authentication.k8s.io/v1";

    fn plugin(more: &Value) -> anyhow::Result<Plugin> {
        let mut json = json!({"apiVersion": V1, "command": "x", "interactiveMode": "Never"});
        for (key, value) in more.as_object().unwrap() {
            json[key] = value.clone();
        }
        Plugin::read(&json, Path::new("/dir"))
    }

    #[test]
    fn what_a_kubeconfig_may_say_of_a_plugin() {
        for (json, expected) in [
            (
                json!({"apiVersion": "client.authentication.k8s.io/v1alpha1"}),
                "exec: `client.authentication.k8s.io/v1alpha1` is not supported; client.authentication.k8s.io/v1 and v1beta1 are",
            ),
            (json!({"interactiveMode": null}), "exec: `interactiveMode` is missing"),
            (
                json!({"interactiveMode": "Often"}),
                "exec: interactiveMode `Often` is none of Never, IfAvailable, Always",
            ),
            (json!({"command": ""}), "exec: `command` is missing"),
            (json!({"apiVersion": null}), "exec: `apiVersion` is missing"),
        ] {
            assert_eq!(plugin(&json).unwrap_err().to_string(), expected);
        }
        let beta = json!({"apiVersion": "client.authentication.k8s.io/v1beta1", "interactiveMode": null,
                          "command": "bin/x", "args": ["a"], "env": [{"name": "N", "value": "v"}]});
        let beta = plugin(&beta).unwrap();
        assert_eq!(beta.interaction, Interaction::IfAvailable);
        assert_eq!(beta.command, Path::new("/dir/bin/x"));
        assert_eq!(beta.environment, [("N".to_owned(), "v".to_owned())]);
        assert_eq!(plugin(&json!({})).unwrap().command, Path::new("x"));
    }

    #[test]
    fn the_plugin_is_told_of_the_cluster_if_it_wants_to() {
        let access = Access {
            server: "https://s".into(),
            authority: Some(b"CA".to_vec()),
            server_name: Some("n".into()),
            insecure: false,
            proxy: None,
            credentials: Credentials::default(),
            principal: String::new(),
        };
        let cluster = json!({"extensions": [{"name": "other", "extension": 1},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}]});
        let told = plugin(&json!({})).unwrap().told(false, &access, &cluster);
        assert_eq!(told, json!({"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": false}}));
        let told = plugin(&json!({"provideClusterInfo": true})).unwrap().told(true, &access, &cluster);
        let cluster = json!({"server": "https://s", "certificate-authority-data": "Q0E=",
                             "tls-server-name": "n", "config": {"audience": "a"}});
        assert_eq!(told["spec"], json!({"interactive": true, "cluster": cluster}));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_plugin_that_hangs_is_ended() {
        let hangs = plugin(&json!({"command": "sleep", "args": ["600"]})).unwrap();
        let error = hangs.ask(&json!({}), false, Duration::from_millis(100)).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer within 100ms");
    }

    #[test]
    fn answers_of_plugins() {
        let plugin = plugin(&json!({})).unwrap();
        let answer = |status: Value| json!({"kind": "ExecCredential", "apiVersion": V1, "status": status});
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let found = |answer: &Value| {
            plugin.credentials(answer.to_string().as_bytes(), now).map_err(|error| error.to_string())
        };
        assert_eq!(found(&answer(json!({"token": "t"}))), Ok(Credentials::bearer("t")));
        let later = json!({"token": "t", "expirationTimestamp": "2027-01-15T08:00:01Z"});
        assert_eq!(found(&answer(later)), Ok(Credentials::bearer("t")));
        let pair = json!({"clientCertificateData": "C", "clientKeyData": "K"});
        let certificate = found(&answer(pair)).unwrap().certificate.unwrap();
        assert_eq!((certificate.chain, certificate.key), (b"C".to_vec(), b"K".to_vec()));
        for (answer, expected) in [
            (
                answer(json!({"token": "t", "expirationTimestamp": "2027-01-15T08:00:00Z"})),
                "the answer is a credential that has expired at 2027-01-15T08:00:00Z",
            ),
            (answer(json!({})), "the answer has neither a token nor a certificate"),
            (
                answer(json!({"clientKeyData": "K"})),
                "the answer has a certificate without its key, or a key alone",
            ),
            (json!({"kind": "ExecCredential", "apiVersion": V1}), "the answer has no status"),
            (
                json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1"}),
                "the answer is a `client.authentication.k8s.io/v1beta1 ExecCredential`, not a `client.authentication.k8s.io/v1 ExecCredential`",
            ),
        ] {
            assert_eq!(found(&answer), Err(expected.to_owned()));
        }
    }
}
