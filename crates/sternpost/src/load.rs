//! `--load`: objects that a server begins with.

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use http::StatusCode;
use serde_json::Value;
use sternpost_clock::machine;
use sternpost_kustomize::legacy_rank;
use sternpost_verbs::{DryRun, Validation};

use crate::{
    error,
    manifests::{Manifest, Manifests},
    suggest::{self, did_you_mean},
    within::{Complaint, Homeless, NOT_AN_OBJECT, Said, Within, Write, segment},
};

/// In whose name fields are owned.
const MANAGER: &str = "sternpost-load";

pub const DEFAULT_NAMESPACE: &str = "default";

/// Where definitions are.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How long others may take to make what objects need: names of definitions accepted, service accounts.
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const PAUSE: Duration = Duration::from_millis(5);

/// Applies everything that the sources name, kinds that others need first. What is wrong is told of all objects,
/// each where it is written.
pub async fn load(within: &Within, sources: &[PathBuf]) -> anyhow::Result<()> {
    if sources.is_empty() {
        return Ok(());
    }
    let sources = sources.to_vec();
    let read = tokio::task::spawn_blocking(move || Manifests::read(&sources));
    let Manifests { mut objects, unreadable, warnings } = read.await.context("the files were not read")?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let mut problems: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
    if problems.is_empty() {
        objects.sort_by_key(|manifest| legacy_rank(manifest.kind()));
        for manifest in &objects {
            if let Err(problem) = apply(within, manifest).await {
                problems.extend(problem);
            }
        }
    }
    error::refuse(&problems)
}

async fn apply(within: &Within, manifest: &Manifest) -> Result<(), Vec<String>> {
    let fail =
        |complaints: Vec<Complaint>| complaints.iter().map(|complaint| told(manifest, complaint)).collect();
    let whole = |message: String| fail(vec![Complaint::whole(message)]);
    let started = machine::now();
    let said = loop {
        let said = apply_once(within, manifest).await.map_err(&whole)?;
        for warning in &said.warnings {
            tracing::warn!("{}: {warning}", manifest.place());
        }
        if said.is_success() || !is_to_come(&said) || machine::elapsed(started) > PATIENCE {
            break said;
        }
        machine::sleep(PAUSE).await;
    };
    if !said.is_success() {
        let mut complaints = said.complaints();
        complaints.iter_mut().for_each(|complaint| suggest::complete(within, manifest, complaint));
        return Err(fail(complaints));
    }
    if manifest.is_definition() {
        established(within, manifest.name()).await.map_err(whole)?;
    }
    Ok(())
}

async fn apply_once(within: &Within, manifest: &Manifest) -> Result<Said, String> {
    let collection = within.collection_of(manifest, DEFAULT_NAMESPACE).map_err(|homeless| match homeless {
        Homeless::NotAnObject => NOT_AN_OBJECT.to_owned(),
        Homeless::NoKind => {
            let (api_version, kind) = (manifest.api_version(), manifest.kind());
            let near = did_you_mean(suggest::kind(within, api_version, kind));
            format!(
                "there is no kind {kind} in {api_version}, and no definition of it among what is loaded{near}"
            )
        }
    })?;
    let write = Write { manager: MANAGER, validation: Validation::Strict, dry_run: DryRun::No };
    within.apply_manifest(&collection, manifest, write).await.map_err(|error| format!("{error:#}"))
}

/// Whether it fails for want of something that the server is about to make.
fn is_to_come(said: &Said) -> bool {
    let message = said.json.get("message").and_then(Value::as_str).unwrap_or_default();
    said.status == StatusCode::FORBIDDEN && message.contains("error looking up service account")
}

/// Waits until a definition is served, or never will be.
pub async fn established(within: &Within, name: &str) -> Result<(), String> {
    let path = format!("{DEFINITIONS}/{}", segment(name));
    let started = machine::now();
    loop {
        let said = within.get(&path).await.map_err(|error| format!("{error:#}"))?;
        let conditions = said.json.pointer("/status/conditions").and_then(Value::as_array);
        let find = |wanted: &str, status: &str| {
            let is = |condition: &&Value, field: &str, text: &str| {
                condition.get(field).is_some_and(|value| value == text)
            };
            conditions?
                .iter()
                .find(|condition| is(condition, "type", wanted) && is(condition, "status", status))
        };
        if find("Established", "True").is_some() && is_discovered(within, &said.json) {
            return Ok(());
        }
        if let Some(refused) = find("NamesAccepted", "False") {
            let why = refused.get("message").and_then(Value::as_str).unwrap_or_default();
            return Err(format!("its names are not accepted: {why}"));
        }
        if machine::elapsed(started) > PATIENCE {
            return Err("it is not established".to_owned());
        }
        machine::sleep(PAUSE).await;
    }
}

/// Whether all that a definition serves is to be found: that is published after it says that it is established.
fn is_discovered(within: &Within, definition: &Value) -> bool {
    let text = |value: &Value, path: &str| {
        value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (group, kind) = (text(definition, "/spec/group"), text(definition, "/spec/names/kind"));
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice);
    versions
        .unwrap_or_default()
        .iter()
        .filter(|version| version.get("served") == Some(&Value::Bool(true)))
        .all(|version| within.resource(&format!("{group}/{}", text(version, "/name")), &kind).is_some())
}

/// `file:line:column: Kind/name: field: what is wrong`.
pub fn told(manifest: &Manifest, complaint: &Complaint) -> String {
    let place =
        if complaint.field.is_empty() { manifest.place() } else { manifest.place_of(&complaint.field) };
    format!("{place}: {}: {}", manifest.shown(), complaint.text())
}
