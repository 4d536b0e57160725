//! NamespaceLifecycle: nothing is created where there is no namespace, or where
//! one is on its way out; three namespaces stay.

use serde_json::Value;
use sternpost_cache::ResourceId;
use sternpost_meta::status::{ResourceName, Status};

use crate::{
    admission::{Attributes, Operation, Plugin, Request, name_of},
    verbs::Verbs,
};

pub(super) const PLUGIN: Plugin = Plugin { name: "NamespaceLifecycle", mutate, ..Plugin::NONE };

/// Clusters do not work without them.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Comes before the chain, which does not wait: a namespace that is not there may have been made by another server
/// a moment ago. As upstream, which asks the store for one that its informer does not know. Whether one is
/// on its way out is taken from what is known.
pub(in crate::admission) async fn look_for_namespace(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
) -> Result<(), Status> {
    let target = attributes.target;
    let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
    if !writes || !target.served.is_namespaced() || verbs.namespaces().get("", target.namespace).is_some() {
        return Ok(());
    }
    match verbs.catching_up(&ResourceId::new("", "namespaces")) {
        Some(catching_up) => catching_up.await,
        None => Ok(()),
    }
}

fn mutate(request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
    let target = request.attributes.target;
    if request.is(Operation::Delete, "", "namespaces") && IMMORTAL.contains(&target.name) {
        return Err(request.forbidden(object, "this namespace may not be deleted"));
    }
    let writes = matches!(request.attributes.operation, Operation::Create | Operation::Update);
    if !target.served.is_namespaced() || !writes {
        return Ok(());
    }
    // To ask what somebody may do in a namespace, it need not be there.
    if (target.served.group(), target.served.kind()) == ("authorization.k8s.io", "LocalSubjectAccessReview") {
        return Ok(());
    }
    let namespaces = request.objects("", "namespaces");
    let Some(namespace) = namespaces.get("", target.namespace) else {
        let resource = ResourceName { group: "", resource: "namespaces" };
        return Err(Status::not_found(resource, target.namespace));
    };
    let creates = request.attributes.operation == Operation::Create;
    if creates && namespace.terminating {
        let name = name_of(target.name, object);
        return Err(Status::namespace_terminating(target.resource_name(), name, target.namespace));
    }
    Ok(())
}
