//! Which objects a patch or a replacement is for.

use regex::Regex;
use sternpost_golang::regexp;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::selector::LabelSelector;

use crate::error::{Error, Result};
use crate::id::ResId;
use crate::kustomization;
use crate::resource::Resource;
use crate::resources::Resources;

/// Memory that one compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 10 << 20;

/// A selector made ready. Parts that are not set match everything.
#[derive(Debug)]
pub(crate) struct Selector {
    group: Option<Regex>,
    version: Option<Regex>,
    kind: Option<Regex>,
    name: Option<Regex>,
    namespace: Option<Regex>,
    labels: Option<LabelSelector>,
    annotations: Option<LabelSelector>,
}

impl Selector {
    pub(crate) fn new(args: &kustomization::Selector) -> Result<Self> {
        Ok(Self {
            group: anchored(&args.group)?,
            version: anchored(&args.version)?,
            kind: anchored(&args.kind)?,
            name: anchored(&args.name)?,
            namespace: anchored(&args.namespace)?,
            labels: label_selector(&args.label_selector)?,
            annotations: label_selector(&args.annotation_selector)?,
        })
    }

    pub(crate) fn selects(&self, resource: &Resource) -> bool {
        let gvk = &resource.id().gvk;
        is_match(self.kind.as_ref(), &gvk.kind)
            && is_match(self.group.as_ref(), &gvk.group)
            && is_match(self.version.as_ref(), &gvk.version)
            && self.selects_name(resource)
            && self.selects_metadata(resource)
    }

    /// By labels and annotations.
    pub(crate) fn selects_metadata(&self, resource: &Resource) -> bool {
        let labels = self.labels.as_ref();
        let annotations = self.annotations.as_ref();
        labels.is_none_or(|labels| labels.matches_with(|key| resource.label(key)))
            && annotations.is_none_or(|wanted| wanted.matches_with(|key| resource.annotation(key)))
    }

    /// By one id and nothing else.
    pub(crate) fn selects_id(&self, id: &ResId) -> bool {
        is_match(self.kind.as_ref(), &id.gvk.kind)
            && is_match(self.group.as_ref(), &id.gvk.group)
            && is_match(self.version.as_ref(), &id.gvk.version)
            && is_match(self.name.as_ref(), &id.name)
            && is_match(self.namespace.as_ref(), &id.namespace)
    }

    /// By what the object is called or was called first.
    fn selects_name(&self, resource: &Resource) -> bool {
        let id = resource.id();
        let either = |pattern: Option<&Regex>, now: &str, first: &str| {
            is_match(pattern, now) || is_match(pattern, first)
        };
        either(self.name.as_ref(), &id.name, resource.original_name())
            && either(self.namespace.as_ref(), id.effective_namespace(), resource.original_namespace())
    }

    /// Positions of what is selected, in order.
    pub(crate) fn select(&self, resources: &Resources) -> Vec<usize> {
        let selected = |(at, resource): (usize, &Resource)| self.selects(resource).then_some(at);
        resources.iter().enumerate().filter_map(selected).collect()
    }
}

fn is_match(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_none_or(|pattern| pattern.is_match(text))
}

fn anchored(pattern: &str) -> Result<Option<Regex>> {
    if pattern.is_empty() {
        return Ok(None);
    }
    regex(&format!("^(?:{pattern})$")).map(Some)
}

/// A pattern of Go's syntax, with Go's words for what is wrong with it.
pub(crate) fn regex(pattern: &str) -> Result<Regex> {
    regexp::compile(pattern, MAX_PATTERN_BYTES).map_err(|error| Error::new(error.to_string()))
}

fn label_selector(text: &str) -> Result<Option<LabelSelector>> {
    if text.is_empty() {
        return Ok(None);
    }
    LabelSelector::parse(text).map(Some).map_err(|error| Error::new(older_words(&error.to_string())))
}

/// kustomize has the texts of an older Kubernetes.
fn older_words(message: &str) -> String {
    let subdomain = message.replace("a lowercase RFC 1123 subdomain", "a DNS-1123 subdomain");
    if let Some((before, key)) = subdomain.split_once("<nil>: Invalid value: ") {
        return format!("{before}invalid label key {key}");
    }
    let Some((before, value)) = subdomain.split_once("values[") else { return subdomain };
    let parts = value
        .split_once("][")
        .and_then(|(_, rest)| rest.split_once("]: Invalid value: "))
        .and_then(|(key, rest)| Some((key, rest.split_once(": ")?)));
    match parts {
        Some((key, (value, reason))) => {
            format!("{before}invalid label value: {value}: at key: {}: {reason}", go_quote(key))
        }
        None => subdomain,
    }
}

impl std::fmt::Display for kustomization::Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gvk = crate::id::GvkPattern {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.kind.clone(),
        };
        let or = |text: &str, absent: &str| if text.is_empty() { absent.to_owned() } else { text.to_owned() };
        let (name, namespace) = (or(&self.name, "[noName]"), or(&self.namespace, "[noNs]"));
        write!(f, "{gvk}/{name}.{namespace}:a={}:l={}", self.annotation_selector, self.label_selector)
    }
}
