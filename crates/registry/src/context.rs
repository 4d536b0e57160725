//! What a strategy is told because it is not in the object: who writes, when, and what else there is.

use serde_json::Value;
use sternpost_meta::{authorize::Authorizer, status::ResourceName, user::User};

use crate::kinds::service::allocation::Ranges;

/// The surroundings of one write.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Who writes.
    pub user: &'a User,
    pub authorizer: &'a dyn Authorizer,
    pub cluster: &'a dyn Cluster,
    /// What is written, and in which namespace; that is empty at the cluster scope.
    pub resource: ResourceName<'a>,
    pub namespace: &'a str,
    /// Through which subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Nothing of it is kept.
    pub is_dry_run: bool,
}

/// The time, chance, and the objects there are.
pub trait Cluster: std::fmt::Debug + Sync {
    /// The time as objects show it.
    fn now(&self) -> String;

    /// What services get their addresses and ports from.
    fn service_ranges(&self) -> &Ranges;

    /// One of so many, by chance.
    fn choose(&self, candidates: usize) -> usize;

    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;

    /// The objects of a resource, of all namespaces if none is named.
    fn list(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<Value>;

    /// Shows the names of all objects of a resource, which need not be one that is served.
    fn each_name(&self, group: &str, plural: &str, see: &mut dyn FnMut(&str));
}
