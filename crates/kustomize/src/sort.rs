//! The order in which objects are written.

use std::cmp::Ordering;

use crate::build::Reorder;
use crate::error::{Error, Result};
use crate::id::ResId;
use crate::kustomization::Kustomization;
use crate::resources::Resources;

/// Kinds that others need come first.
const FIRST: &[&str] = &[
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

/// What could keep others out comes last.
const LAST: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

#[derive(Debug)]
pub(crate) enum Order {
    /// As loaded.
    Fifo,
    Legacy {
        first: Vec<String>,
        last: Vec<String>,
    },
}

impl Order {
    pub(crate) fn of(
        root: &Kustomization,
        reorder: Option<Reorder>,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let legacy = || Self::Legacy { first: owned(FIRST), last: owned(LAST) };
        let Some(options) = &root.sort_options else {
            return Ok(if reorder == Some(Reorder::None) { Self::Fifo } else { legacy() });
        };
        if reorder.is_some() {
            warnings.push(
                "Warning: Sorting order is set both in 'kustomization.yaml' ('sortOptions') and in a CLI flag ('--reorder'). Using the kustomization file over the CLI flag."
                    .to_owned(),
            );
        }
        match (options.order.as_str(), &options.legacy_sort_options) {
            ("fifo", None) => Ok(Self::Fifo),
            ("fifo", Some(_)) => Err(Error::new(
                "the field 'sortOptions.legacySortOptions' is set but the selected sort order is 'fifo', not 'legacy'",
            )),
            ("legacy", None) => Ok(legacy()),
            ("legacy", Some(options)) => {
                Ok(Self::Legacy { first: options.order_first.clone(), last: options.order_last.clone() })
            }
            _ => Err(Error::new("the field 'sortOptions.order' must be one of [fifo, legacy]")),
        }
    }

    pub(crate) fn apply(&self, resources: &mut Resources) {
        let Self::Legacy { first, last } = self else { return };
        let rank = |kind: &str| rank(kind, first, last);
        let list = resources.all_mut();
        let keyed = std::mem::take(list)
            .into_iter()
            .map(|resource| (Key::of(resource.id(), rank(&resource.id().gvk.kind)), resource))
            .collect();
        list.extend(merge_sorted(keyed).into_iter().map(|(_, resource)| resource));
    }
}

/// Where a kind stands among all if nobody says otherwise: before 0 if others need it, behind if it could keep
/// others out.
pub fn legacy_rank(kind: &str) -> i64 {
    rank(kind, FIRST, LAST)
}

fn rank<K: AsRef<str>>(kind: &str, first: &[K], last: &[K]) -> i64 {
    let at = |kinds: &[K]| kinds.iter().rposition(|known| known.as_ref() == kind);
    match (at(last), at(first)) {
        (Some(at), _) => i64::try_from(at).unwrap_or(i64::MAX) + 1,
        (None, Some(at)) => i64::try_from(at).unwrap_or(0) - i64::try_from(first.len()).unwrap_or(0),
        (None, None) => 0,
    }
}

/// A stable sort of its own, because the library's may panic: the order puts
/// the core Namespace before others against the rule, which is not transitive
/// once further kinds are of the same rank.
fn merge_sorted<T>(mut items: Vec<(Key, T)>) -> Vec<(Key, T)> {
    if items.len() < 2 {
        return items;
    }
    let right = items.split_off(items.len() / 2);
    let (left, right) = (merge_sorted(items), merge_sorted(right));
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some((a, _)), Some((b, _))) if b.compare(a) == Ordering::Less => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        };
        match next {
            Some(item) => merged.push(item),
            None => return merged,
        }
    }
}

fn owned(kinds: &[&str]) -> Vec<String> {
    kinds.iter().map(|kind| (*kind).to_owned()).collect()
}

#[derive(Debug)]
struct Key {
    rank: i64,
    gvk: String,
    core_namespace: Option<bool>,
    id: String,
}

impl Key {
    fn of(id: &ResId, rank: i64) -> Self {
        let or = |text: &str, absent: &str| if text.is_empty() { absent.to_owned() } else { text.to_owned() };
        let gvk = &id.gvk;
        let gvk_text = [or(&gvk.group, "~G"), or(&gvk.version, "~V"), or(&gvk.kind, "~K")].join("_");
        // Only of two Namespaces is the core one preferred.
        let core_namespace = (gvk.kind == "Namespace").then_some(gvk.group.is_empty());
        let id = [gvk_text.clone(), or(&id.namespace, "~X"), or(&id.name, "~N")].join("|");
        Self { rank, gvk: gvk_text, core_namespace, id }
    }
}

impl Key {
    fn compare(&self, other: &Self) -> Ordering {
        let by_gvk = || {
            let order = self.gvk.cmp(&other.gvk);
            match (self.core_namespace, other.core_namespace) {
                (Some(a), Some(b)) if a != b => order.reverse(),
                _ => order,
            }
        };
        self.rank.cmp(&other.rank).then_with(by_gvk).then_with(|| self.id.cmp(&other.id))
    }
}
