//! What strategies are told of the server around an object.

use serde_json::Value;
use sternpost_cache::ResourceId;
use sternpost_registry::{
    context::{Cluster, Context},
    kinds::service::allocation::Ranges,
};

use crate::verbs::{DryRun, Target, Verbs, Writer};

impl Verbs {
    pub(crate) fn context<'a>(&'a self, target: Target<'a>, writer: Writer<'a>) -> Context<'a> {
        Context {
            user: writer.user,
            authorizer: &*self.authorizer,
            cluster: self,
            resource: target.resource_name(),
            namespace: target.namespace,
            subresource: writer.subresource,
            is_dry_run: writer.dry_run == DryRun::All,
        }
    }
}

impl Cluster for Verbs {
    fn now(&self) -> String {
        Verbs::now(self)
    }

    fn service_ranges(&self) -> &Ranges {
        &self.service_ranges
    }

    fn choose(&self, candidates: usize) -> usize {
        let mut bytes = [0u8; 8];
        self.clock.random(&mut bytes);
        usize::try_from(u64::from_le_bytes(bytes) >> 1).unwrap_or_default() % candidates.max(1)
    }

    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let snapshot = self.cache.resource(&ResourceId::new(group, plural)).snapshot();
        snapshot.get(namespace, name).map(|object| object.value())
    }

    fn list(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<Value> {
        let snapshot = self.cache.resource(&ResourceId::new(group, plural)).snapshot();
        snapshot.iter(namespace, None).map(|object| object.value()).collect()
    }

    fn each_name(&self, group: &str, plural: &str, see: &mut dyn FnMut(&str)) {
        let snapshot = self.cache.resource(&ResourceId::new(group, plural)).snapshot();
        snapshot.iter(None, None).for_each(|object| see(object.name()));
    }
}
