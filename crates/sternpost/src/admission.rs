//! `--admission-control-config-file`: what admission plugins are told, in kube-apiserver's form.

use std::{collections::HashSet, path::Path};

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path as Field},
    shape::{Shape, check_kind},
};
use sternpost_verbs::admission::{Chain, LimitedResources, PodSecurityConfiguration, check_available};

use crate::config_file::{Source, parse, read};

const KIND: &str = "AdmissionConfiguration";
const API_VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1", "apiserver.k8s.io/v1alpha1"];
const FILE: Shape = Shape::Object(&[
    ("apiVersion", &Shape::Text),
    ("kind", &Shape::Text),
    (
        "plugins",
        &Shape::List(&Shape::Object(&[
            ("name", &Shape::Text),
            ("path", &Shape::Text),
            ("configuration", &Shape::Any),
        ])),
    ),
]);

const POD_SECURITY_VERSIONS: [&str; 3] = [
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];
const POD_SECURITY: Shape = Shape::Object(&[
    ("apiVersion", &Shape::Text),
    ("kind", &Shape::Text),
    (
        "defaults",
        &Shape::Object(&[
            ("enforce", &Shape::Text),
            ("enforce-version", &Shape::Text),
            ("audit", &Shape::Text),
            ("audit-version", &Shape::Text),
            ("warn", &Shape::Text),
            ("warn-version", &Shape::Text),
        ]),
    ),
    (
        "exemptions",
        &Shape::Object(&[
            ("usernames", &Shape::List(&Shape::Text)),
            ("namespaces", &Shape::List(&Shape::Text)),
            ("runtimeClasses", &Shape::List(&Shape::Text)),
        ]),
    ),
]);

/// Before v1 it had a group of its own.
const OLDER_QUOTA_VERSIONS: [&str; 2] =
    ["resourcequota.admission.k8s.io/v1beta1", "resourcequota.admission.k8s.io/v1alpha1"];
const QUOTA: Shape = Shape::Object(&[
    ("apiVersion", &Shape::Text),
    ("kind", &Shape::Text),
    (
        "limitedResources",
        &Shape::List(&Shape::Object(&[
            ("apiGroup", &Shape::Text),
            ("resource", &Shape::Text),
            ("matchContains", &Shape::List(&Shape::Text)),
            (
                "matchScopes",
                &Shape::List(&Shape::Object(&[
                    ("scopeName", &Shape::Text),
                    ("operator", &Shape::Text),
                    ("values", &Shape::List(&Shape::Text)),
                ])),
            ),
        ])),
    ),
]);

/// Plugins that upstream configures and that take no configuration here.
const NOT_CONFIGURABLE: [&str; 4] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// The chain with what the file says. What it says of plugins that are off is not looked at, and of
/// several entries of one name the first counts, as upstream.
pub fn configure(mut chain: Chain, path: &Path) -> anyhow::Result<Chain> {
    let text = read(path)?;
    let main = Source { path: path.to_owned(), text: &text, within: String::new() };
    let file = parse(path, &text)?;
    check(&file, &API_VERSIONS, KIND, &FILE).map_err(|errors| main.refuse(errors.into_causes()))?;
    let mut seen = HashSet::new();
    let plugins = file.get("plugins").and_then(Value::as_array);
    for (at, plugin) in plugins.into_iter().flatten().enumerate() {
        let text_of = |name: &str| plugin.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = text_of("name");
        let entry = Source { within: format!("plugins[{at}]"), path: path.to_owned(), text: &text };
        if let Err(problem) = check_available(name) {
            let mut errors = Errors::default();
            errors.invalid(Field::new("name"), name, &problem.to_string());
            return Err(entry.refuse(errors.into_causes()));
        }
        if !seen.insert(name) || !chain.is_on(name) {
            continue;
        }
        let inline = plugin.get("configuration").filter(|configuration| !configuration.is_null());
        let own_text;
        let (source, configuration) = match (inline, text_of("path")) {
            (Some(configuration), _) => {
                (Source { within: format!("plugins[{at}].configuration"), ..entry }, configuration.clone())
            }
            (None, "") => continue,
            (None, relative) => {
                // Beside the main file, unless it is absolute.
                let path = path.parent().unwrap_or(Path::new("")).join(relative);
                own_text = read(&path)?;
                let configuration = parse(&path, &own_text)?;
                (Source { path, text: &own_text, within: String::new() }, configuration)
            }
        };
        chain = tell(chain, name, &configuration).map_err(|errors| source.refuse(errors.into_causes()))?;
    }
    Ok(chain)
}

/// Plugins that need no telling are told nothing, whatever it is.
fn tell(chain: Chain, name: &str, configuration: &Value) -> Result<Chain, Errors> {
    match name {
        "PodSecurity" => {
            check(configuration, &POD_SECURITY_VERSIONS, "PodSecurityConfiguration", &POD_SECURITY)?;
            Ok(chain.with_pod_security(PodSecurityConfiguration::read(configuration)?))
        }
        "ResourceQuota" => {
            let version = configuration.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            if OLDER_QUOTA_VERSIONS.contains(&version) {
                check(configuration, &OLDER_QUOTA_VERSIONS, "Configuration", &QUOTA)?;
            } else {
                check(configuration, &["apiserver.config.k8s.io/v1"], "ResourceQuotaConfiguration", &QUOTA)?;
            }
            Ok(chain.with_limited_resources(LimitedResources::read(configuration)?))
        }
        _ if NOT_CONFIGURABLE.contains(&name) => {
            let mut errors = Errors::default();
            errors.forbidden("", &format!("admission plugin `{name}` takes no configuration here"));
            Err(errors)
        }
        _ => Ok(chain),
    }
}

fn check(file: &Value, api_versions: &[&str], kind: &str, shape: &Shape) -> Result<(), Errors> {
    let mut errors = Errors::default();
    check_kind(file, api_versions, kind, &mut errors);
    shape.check(file, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
