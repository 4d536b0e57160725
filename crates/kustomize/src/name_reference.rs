//! Fields that hold the name of another object follow it when it is renamed.
//!
//! Every object is looked at once. What a field's text may mean is found by
//! name in an index of all names that objects have or had.

use std::collections::{HashMap, HashSet};

use sternpost_yaml::node::{Content, Node, Scalar};

use crate::config::{Config, NameReference};
use crate::error::{Error, Result};
use crate::field_spec::{Create, FieldSpec};
use crate::id::{GvkPattern, ResId};
use crate::resource::Resource;
use crate::resources::Resources;

const ROLE_NAME: &str = "roleRef/name";

pub(crate) fn fix(resources: &mut Resources, config: &Config) -> Result<()> {
    let known = Known::of(resources);
    let by_kind = Rules::of(&config.name_reference);
    let mut fixed = Vec::new();
    for (at, resource) in resources.iter().enumerate() {
        let rules = by_kind.rules_for(&resource.id().gvk.kind);
        let mut referrer = None;
        check_subjects(resource)?;
        for (target, spec) in rules {
            if !spec.gvk.selects(&resource.id().gvk) {
                continue;
            }
            let whole = referrer.get_or_insert_with(|| resource.clone());
            let search = Search { known: &known, referrer: resource, target, path: &spec.path };
            spec.apply(whole, Create::Nothing, &mut |node| search.fix(node)).map_err(|error| {
                error.within(format!(
                    "updating name reference in '{}' field of '{}'",
                    spec.path,
                    resource.id()
                ))
            })?;
        }
        if let Some(whole) = referrer {
            fixed.push((at, whole.node));
        }
    }
    for (at, node) in fixed {
        if let Some(resource) = resources.get_mut(at) {
            resource.node = node;
        }
    }
    Ok(())
}

/// A service account that a RoleBinding is for may have no namespace, but not
/// one that is no text.
fn check_subjects(resource: &Resource) -> Result<()> {
    if resource.id().gvk.kind != "RoleBinding" {
        return Ok(());
    }
    let subjects = resource.node.get("subjects").map(Node::items).unwrap_or_default();
    let text = |subject: &Node, field: &str| {
        subject.get(field).map(|node| node.scalar().is_some_and(Scalar::is_string))
    };
    let account = |subject: &&Node| subject.get("kind").and_then(Node::as_text) == Some("ServiceAccount");
    match subjects.iter().filter(account).any(|subject| text(subject, "namespace") == Some(false)) {
        true => {
            let id = resource.id();
            Err(Error::new(format!("Invalid Input: namespace is blank for resource \"{id}\"\n")))
        }
        false => Ok(()),
    }
}

/// The rules by the kind of the referrer, in their order.
struct Rules<'c> {
    by_kind: HashMap<&'c str, Vec<(usize, &'c GvkPattern, &'c FieldSpec)>>,
    /// For any kind.
    any: Vec<(usize, &'c GvkPattern, &'c FieldSpec)>,
}

impl<'c> Rules<'c> {
    fn of(references: &'c [NameReference]) -> Self {
        let mut rules = Self { by_kind: HashMap::new(), any: Vec::new() };
        let all = references
            .iter()
            .flat_map(|reference| reference.referrers.iter().map(move |spec| (&reference.target, spec)));
        for (at, (target, spec)) in all.enumerate() {
            if spec.gvk.kind.is_empty() {
                rules.any.push((at, target, spec));
            } else {
                rules.by_kind.entry(spec.gvk.kind.as_str()).or_default().push((at, target, spec));
            }
        }
        rules
    }

    fn rules_for(&self, kind: &str) -> Vec<(&'c GvkPattern, &'c FieldSpec)> {
        let own = self.by_kind.get(kind).map(Vec::as_slice).unwrap_or_default();
        let mut rules: Vec<_> = own.iter().chain(&self.any).copied().collect();
        if !self.any.is_empty() {
            rules.sort_unstable_by_key(|(at, ..)| *at);
        }
        rules.into_iter().map(|(_, target, spec)| (target, spec)).collect()
    }
}

/// What may be named.
struct Known<'r> {
    resources: &'r Resources,
    /// By every former name; only what was renamed, or may be moved, matters.
    by_name: HashMap<&'r str, Vec<usize>>,
}

impl<'r> Known<'r> {
    fn of(resources: &'r Resources) -> Self {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, resource) in resources.iter().enumerate() {
            for name in resource.previous_names() {
                let held = by_name.entry(name).or_default();
                if held.last() != Some(&at) {
                    held.push(at);
                }
            }
        }
        Self { resources, by_name }
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &'r Resource> {
        let at = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        at.iter().filter_map(|at| self.resources.get(*at))
    }
}

/// One field of one object.
struct Search<'r> {
    known: &'r Known<'r>,
    referrer: &'r Resource,
    target: &'r GvkPattern,
    path: &'r str,
}

/// Where the object has it from.
fn source_of(resource: &Resource, field: &str) -> u32 {
    resource.node.at(&["metadata", field]).map_or(0, |node| node.source)
}

impl<'r> Search<'r> {
    fn fix(&self, node: &mut Node) -> Result<()> {
        if node.is_null() {
            return Ok(());
        }
        match &mut node.content {
            Content::Scalar(scalar) => {
                let found = self.select(&scalar.text, None)?;
                if let Some(found) = found.filter(|found| found.name() != scalar.text) {
                    let style = scalar.style;
                    *scalar = Scalar { style, ..Scalar::string(found.name()) };
                    node.source = source_of(found, "name");
                }
                Ok(())
            }
            Content::Mapping(_) => self.fix_mapping(node),
            Content::Sequence(items) => items.iter_mut().try_for_each(|item| self.fix(item)),
        }
    }

    /// A mapping with a name and perhaps a namespace.
    fn fix_mapping(&self, node: &mut Node) -> Result<()> {
        let Some(name) = node.get("name").and_then(Node::as_text).map(str::to_owned) else {
            return Err(Error::new("path config error; no 'name' field in node"));
        };
        let namespace = node.get("namespace").and_then(Node::as_text).map(str::to_owned);
        let Some(found) = self.select(&name, namespace.as_deref())? else { return Ok(()) };
        let new_namespace = &found.id().namespace;
        if found.name() == name && new_namespace.is_empty() {
            return Ok(());
        }
        let copied = |text: &str, field| Node { source: source_of(found, field), ..Node::string(text) };
        node.set("name", copied(found.name(), "name"));
        if !new_namespace.is_empty() {
            node.set("namespace", copied(new_namespace, "namespace"));
        }
        Ok(())
    }

    /// The one object that the text means, if any.
    fn select(&self, name: &str, namespace: Option<&str>) -> Result<Option<&'r Resource>> {
        let mut candidates: Vec<&Resource> = self
            .known
            .named(name)
            .filter(|candidate| self.was_of_target_kind(candidate, name))
            .filter(|candidate| self.may_be_referred_to(candidate))
            .filter(|candidate| self.fits_role_ref(candidate))
            .collect();
        if let Some(namespace) = namespace {
            let original = |candidate: &&&Resource| candidate.original_namespace() == namespace;
            if candidates.iter().any(|candidate| original(&candidate)) {
                candidates.retain(|candidate| original(&candidate));
            } else {
                candidates.retain(|candidate| candidate.id().effective_namespace() == namespace);
            }
        }
        if candidates.len() > 1 {
            candidates.retain(|candidate| self.same_affixes(candidate, Empty::Allowed));
        }
        if candidates.len() > 1 {
            candidates.retain(|candidate| self.same_affixes(candidate, Empty::Refused));
        }
        let Some(first) = candidates.first().copied() else { return Ok(None) };
        let names: HashSet<(&str, &str)> = candidates
            .iter()
            .map(|candidate| (candidate.name(), candidate.id().namespace.as_str()))
            .collect();
        if names.len() == 1 {
            return Ok(Some(first));
        }
        let ids: Vec<String> = candidates.iter().map(|candidate| candidate.id().to_string()).collect();
        Err(Error::new(format!(
            "found multiple possible referrals: {}\n{}",
            ids.join(", "),
            self.details(&candidates)
        )))
    }

    fn was_of_target_kind(&self, candidate: &Resource, _name: &str) -> bool {
        candidate.previous_ids().any(|id| self.target.selects(&id.gvk))
    }

    fn may_be_referred_to(&self, candidate: &Resource) -> bool {
        let (referrer, candidate) = (self.referrer.id(), candidate.id());
        referrer.gvk.cluster_scoped
            || candidate.gvk.cluster_scoped
            || same_namespace(referrer, candidate)
            || self.subject_namespaces().contains(candidate.effective_namespace())
    }

    /// Namespaces of the service accounts that a RoleBinding is for.
    fn subject_namespaces(&self) -> HashSet<&str> {
        if self.referrer.id().gvk.kind != "RoleBinding" || self.path == ROLE_NAME {
            return HashSet::new();
        }
        let subjects = self.referrer.node.get("subjects").map(Node::items).unwrap_or_default();
        subjects
            .iter()
            .filter(|subject| subject.get("kind").and_then(Node::as_text) == Some("ServiceAccount"))
            .filter_map(|subject| subject.get("namespace").and_then(Node::as_text))
            .collect()
    }

    /// A `roleRef` names the kind as well.
    fn fits_role_ref(&self, candidate: &Resource) -> bool {
        if self.path != ROLE_NAME {
            return true;
        }
        let Some(role_ref) = self.referrer.node.get("roleRef") else { return true };
        let field = |name: &str| role_ref.get(name).and_then(Node::as_text).unwrap_or_default();
        let gvk = &candidate.id().gvk;
        let any_or = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        any_or(field("apiGroup"), &gvk.group) && any_or(field("kind"), &gvk.kind)
    }

    fn same_affixes(&self, candidate: &Resource, empty: Empty) -> bool {
        let same = |ours: &[String], theirs: &[String]| {
            let either_empty = ours.is_empty() || theirs.is_empty();
            if either_empty {
                return empty == Empty::Allowed || ours.len() == theirs.len();
            }
            ours.iter().rev().zip(theirs.iter().rev()).all(|(ours, theirs)| ours == theirs)
        };
        same(&self.referrer.prefixes, &candidate.prefixes)
            && same(&self.referrer.suffixes, &candidate.suffixes)
    }

    fn details(&self, candidates: &[&Resource]) -> String {
        let shown =
            |resource: &Resource| sternpost_yaml::write(&resource.shown().to_json().unwrap_or_default());
        let mut text =
            format!("\n**** Too many possible referral targets to referrer:\n{}\n", shown(self.referrer));
        for (at, candidate) in candidates.iter().enumerate() {
            text.push_str(&format!("--- possible referral {at}:\n{}\n", shown(candidate)));
        }
        text
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    Allowed,
    Refused,
}

fn same_namespace(a: &ResId, b: &ResId) -> bool {
    a.effective_namespace() == b.effective_namespace()
}
