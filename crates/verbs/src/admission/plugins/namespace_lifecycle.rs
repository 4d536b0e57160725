//! NamespaceLifecycle: nothing is created where there is no namespace, or where
//! one is on its way out; three namespaces stay.

use serde_json::Value;
use sternpost_meta::status::{ResourceName, Status};

use crate::admission::{Operation, Plugin, Request, name_of};

pub(super) const PLUGIN: Plugin = Plugin { name: "NamespaceLifecycle", mutate, ..Plugin::NONE };

/// Clusters do not work without them.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

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
