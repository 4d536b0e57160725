//! The server's own API from within its process, for what is loaded into it or only judged by it.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use sternpost_auth::token::Token;
use sternpost_http::{
    Api,
    local::{Answer, Local},
};
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Resource, Scope},
};
use sternpost_verbs::{DryRun, Validation};

use crate::manifests::{Manifest, NAMESPACE};

/// Said of what is neither of a kind nor of a version.
pub const NOT_AN_OBJECT: &str = "this is no object: it has no `apiVersion` or no `kind`";

/// What a segment of a path may be made of as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What stands before a list of such fields.
const STRICT: &str = "strict decoding error: ";

/// Asks in the name of one user. Clones share everything.
#[derive(Debug, Clone)]
pub struct Within(Local);

/// What the server says of one request.
#[derive(Debug, Clone)]
pub struct Said {
    pub status: StatusCode,
    pub warnings: Vec<String>,
    /// The object, or the Status.
    pub json: Value,
}

/// Something that is wrong, and with which field; empty for none in particular.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    pub field: String,
    pub message: String,
}

/// Why an object belongs nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Homeless {
    NotAnObject,
    /// Nothing serves its kind now.
    NoKind,
}

/// How an object is written.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// In whose name fields are owned.
    pub manager: &'a str,
    pub validation: Validation,
    pub dry_run: DryRun,
}

impl Write<'_> {
    pub fn query(self) -> String {
        let validation = match self.validation {
            Validation::Ignore => "Ignore",
            Validation::Warn => "Warn",
            Validation::Strict => "Strict",
        };
        let dry_run = if self.dry_run == DryRun::All { "&dryRun=All" } else { "" };
        format!("fieldManager={}&fieldValidation={validation}{dry_run}", segment(self.manager))
    }
}

impl Complaint {
    /// Of no field in particular.
    pub fn whole(message: impl Into<String>) -> Self {
        Self { field: String::new(), message: message.into() }
    }

    /// What is wrong, with the field unless the message names it.
    pub fn text(&self) -> String {
        let (field, message) = (&self.field, &self.message);
        let is_part = |char: Option<char>| {
            char.is_some_and(|char| char.is_alphanumeric() || char == '_' || char == '.')
        };
        let is_whole = |(at, found): (usize, &str)| {
            let before = message.get(..at).and_then(|text| text.chars().next_back());
            let behind = message.get(at + found.len()..).and_then(|text| text.chars().next());
            !is_part(before) && !is_part(behind)
        };
        if field.is_empty() || message.match_indices(field.as_str()).any(is_whole) {
            message.clone()
        } else {
            format!("{field}: {message}")
        }
    }
}

impl Within {
    pub fn new(api: Arc<Api>, token: &Token) -> anyhow::Result<Self> {
        Ok(Self(Local::new(api, token).context("the token is no text for a header")?))
    }

    pub fn api(&self) -> &Arc<Api> {
        self.0.api()
    }

    /// What serves objects of a kind, if anything does now.
    pub fn resource(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let gv = GroupVersion::read(api_version).ok().flatten()?;
        let discovery = self.api().discovery.load();
        let version =
            discovery.group(&gv.group)?.versions.iter().find(|version| *version.name == *gv.version)?;
        version.resources.iter().find(|resource| *resource.kind == *kind).cloned()
    }

    /// Where an object belongs; `namespace` is for those that name none.
    pub fn collection_of(&self, manifest: &Manifest, namespace: &str) -> Result<String, Homeless> {
        let (api_version, kind) = (manifest.api_version(), manifest.kind());
        if api_version.is_empty() || kind.is_empty() {
            return Err(Homeless::NotAnObject);
        }
        let resource = self.resource(api_version, kind).ok_or(Homeless::NoKind)?;
        Ok(collection(&resource, manifest.namespace_or(namespace)))
    }

    /// Server-side apply; an object whose name is to come is created.
    pub async fn apply_manifest(
        &self,
        collection: &str,
        manifest: &Manifest,
        write: Write<'_>,
    ) -> anyhow::Result<Said> {
        match manifest.name() {
            "" => self.post(&format!("{collection}?{}", write.query()), &manifest.object).await,
            name => self.force(collection, name, &manifest.object, write).await,
        }
    }

    /// Server-side apply, whoever else owns what.
    pub async fn force(
        &self,
        collection: &str,
        name: &str,
        object: &Value,
        write: Write<'_>,
    ) -> anyhow::Result<Said> {
        let path = format!("{collection}/{}?force=true&{}", segment(name), write.query());
        let body = serde_json::to_vec(object)?;
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", body.into()).await
    }

    /// Has namespaces be there.
    pub async fn assume_namespaces<'a>(
        &self,
        namespaces: impl IntoIterator<Item = &'a str>,
    ) -> anyhow::Result<()> {
        let namespaces = namespaces.into_iter().filter(|namespace| !namespace.is_empty());
        for namespace in namespaces.collect::<BTreeSet<&str>>() {
            let object = json!({"apiVersion": "v1", "kind": NAMESPACE, "metadata": {"name": namespace}});
            // One that is there, or that cannot be: what is in it is told so.
            self.post("/api/v1/namespaces", &object).await?;
        }
        Ok(())
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Said> {
        self.send(Method::GET, path, "application/json", Bytes::new()).await
    }

    pub async fn post(&self, path: &str, object: &Value) -> anyhow::Result<Said> {
        let body = serde_json::to_vec(object)?;
        self.send(Method::POST, path, "application/json", body.into()).await
    }

    pub async fn put(&self, path: &str, object: &Value) -> anyhow::Result<Said> {
        let body = serde_json::to_vec(object)?;
        self.send(Method::PUT, path, "application/json", body.into()).await
    }

    /// As [`Within::post`], for those who want to know what is wrong: of a success the object is not read.
    pub async fn post_for_verdict(&self, path: &str, object: &Value) -> anyhow::Result<Said> {
        let body = serde_json::to_vec(object)?;
        let answer = self.ask(Method::POST, path, "application/json", body.into()).await?;
        if answer.status.is_success() {
            return Ok(Said { status: answer.status, warnings: warnings(&answer), json: Value::Null });
        }
        read(path, &answer)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<Said> {
        read(path, &self.ask(method, path, content_type, body).await?)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let asked = self.0.ask(method, path, content_type, body).await;
        asked.with_context(|| format!("cannot ask for {path}"))
    }
}

fn read(path: &str, answer: &Answer) -> anyhow::Result<Said> {
    let json =
        serde_json::from_slice(&answer.body).with_context(|| format!("cannot read the answer for {path}"))?;
    Ok(Said { status: answer.status, warnings: warnings(answer), json })
}

fn warnings(answer: &Answer) -> Vec<String> {
    let headers = answer.headers.get_all(header::WARNING).iter();
    headers.filter_map(|value| warning_text(&String::from_utf8_lossy(value.as_bytes()))).collect()
}

/// Where objects of a resource are; those of the cluster are in no namespace.
pub fn collection(resource: &Resource, namespace: &str) -> String {
    let mut path = format!("/{}", resource.gv.path());
    if resource.scope == Scope::Namespaced && !namespace.is_empty() {
        path += &format!("/namespaces/{}", segment(namespace));
    }
    path + "/" + &resource.plural
}

/// A name as part of a path.
pub fn segment(name: &str) -> String {
    // These would be gone when the path is cleaned.
    match name {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        name => utf8_percent_encode(name, SEGMENT).to_string(),
    }
}

/// The text of `299 - "text"`.
fn warning_text(header: &str) -> Option<String> {
    let quoted = header.split_once('"')?.1.strip_suffix('"')?;
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(char) = chars.next() {
        text.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    Some(text)
}

impl Said {
    pub fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// Whether it is fields that there are not, or that are there twice, that are complained of.
    pub fn is_strict(&self) -> bool {
        self.message().contains(STRICT)
    }

    fn message(&self) -> &str {
        self.json.get("message").and_then(Value::as_str).unwrap_or_default()
    }

    /// What an answer that is no success complains of: each cause with its field, or all of it.
    pub fn complaints(&self) -> Vec<Complaint> {
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let message = self.message().to_owned();
        let causes = self.json.pointer("/details/causes").and_then(Value::as_array).map(Vec::as_slice);
        let causes: Vec<Complaint> = causes
            .unwrap_or_default()
            .iter()
            .map(|cause| Complaint { field: text(cause, "field"), message: text(cause, "message") })
            // What is about no field in particular has this one's.
            .map(
                |cause| {
                    if cause.field == "<nil>" { Complaint { field: String::new(), ..cause } } else { cause }
                },
            )
            .collect();
        if self.status == StatusCode::UNPROCESSABLE_ENTITY && !causes.is_empty() {
            return causes;
        }
        let complaints = strict_complaints(&message).or_else(|| typed_complaints(&message));
        complaints.unwrap_or_else(|| vec![Complaint::whole(message)])
    }
}

/// Of `… strict decoding error: unknown field "spec.foo", duplicate field "spec.bar"` each.
fn strict_complaints(message: &str) -> Option<Vec<Complaint>> {
    let (_, list) = message.split_once(STRICT)?;
    let mut complaints = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let (kind, behind) = ["unknown field ", "duplicate field "]
            .iter()
            .find_map(|kind| Some((*kind, rest.strip_prefix(kind)?)))?;
        let (field, behind) = behind.strip_prefix('"')?.split_once('"')?;
        complaints.push(Complaint { field: field.to_owned(), message: format!("{kind}\"{field}\"") });
        rest = behind.strip_prefix(", ").unwrap_or(behind);
    }
    Some(complaints)
}

/// Of `failed to create typed patch object (ns/name; v1, Kind=Pod): .spec.x: field not declared in schema`, or of
/// `errors:` and a line each.
fn typed_complaints(message: &str) -> Option<Vec<Complaint>> {
    let (_, list) = message.strip_prefix("failed to create typed patch object (")?.split_once("): ")?;
    let lines = list.strip_prefix("errors:\n").unwrap_or(list).lines().map(str::trim);
    let complaint = |line: &str| {
        let (field, message) = line.strip_prefix('.')?.split_once(": ")?;
        Some(Complaint { field: field.to_owned(), message: message.to_owned() })
    };
    lines.map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn complaints_are_told_with_their_fields() {
        let said = |status: u16, json: Value| Said {
            status: StatusCode::from_u16(status).unwrap(),
            warnings: vec![],
            json,
        };
        let complaint =
            |field: &str, message: &str| Complaint { field: field.into(), message: message.into() };
        for (status, json, expected) in [
            (
                422,
                json!({"message": "all", "details": {"causes": [
                    {"field": "spec.a", "message": "Required value"}, {"field": "spec.b[0]", "message": "Invalid value: 1"},
                ]}}),
                vec![complaint("spec.a", "Required value"), complaint("spec.b[0]", "Invalid value: 1")],
            ),
            (
                400,
                json!({"message": "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.x\", duplicate field \"spec.y[a.b/c]\""}),
                vec![
                    complaint("spec.x", "unknown field \"spec.x\""),
                    complaint("spec.y[a.b/c]", "duplicate field \"spec.y[a.b/c]\""),
                ],
            ),
            (
                400,
                json!({"message": "a strict decoding error: of another form"}),
                vec![complaint("", "a strict decoding error: of another form")],
            ),
            (
                403,
                json!({"message": "no", "details": {"causes": [{"message": "because"}]}}),
                vec![complaint("", "no")],
            ),
            (
                500,
                json!({"message": "failed to create typed patch object (n/p; /v1, Kind=Pod): errors:\n  .spec.x: field not declared in schema\n  .spec.y[name=\"z\"].w: expected string, got 1"}),
                vec![
                    complaint("spec.x", "field not declared in schema"),
                    complaint("spec.y[name=\"z\"].w", "expected string, got 1"),
                ],
            ),
            (500, json!(null), vec![complaint("", "")]),
        ] {
            assert_eq!(said(status, json).complaints(), expected);
        }
    }

    #[test]
    fn a_field_is_named_once() {
        for (field, message, expected) in [
            ("", "wrong", "wrong"),
            ("spec.a", "Required value", "spec.a: Required value"),
            ("spec.a", "unknown field \"spec.a\"", "unknown field \"spec.a\""),
            ("spec.a", "spec.a in body must be of type string", "spec.a in body must be of type string"),
            ("dat", "no such field; did you mean `data`?", "dat: no such field; did you mean `data`?"),
            ("spec.a", "spec.a.b is wrong", "spec.a: spec.a.b is wrong"),
        ] {
            assert_eq!(Complaint { field: field.into(), message: message.into() }.text(), expected);
        }
    }

    #[test]
    fn warnings_are_read_as_they_were_meant() {
        assert_eq!(warning_text(r#"299 - "say \"x\" \\ y""#).as_deref(), Some(r#"say "x" \ y"#));
        assert_eq!(warning_text("299 - x"), None);
    }

    #[test]
    fn names_are_one_segment_of_a_path() {
        for (name, expected) in
            [("web-1.x", "web-1.x"), ("a/b", "a%2Fb"), ("..", "%2E%2E"), ("system:node", "system%3Anode")]
        {
            assert_eq!(segment(name), expected);
        }
    }
}
