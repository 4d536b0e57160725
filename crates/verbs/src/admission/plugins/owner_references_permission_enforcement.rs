//! OwnerReferencesPermissionEnforcement: who gives an object an owner could have deleted it, and who
//! lets it hold up the owner's end could have done so with a finalizer.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    authorize::{Attributes, Decision, ResourceAttributes, What},
    status::Status,
};
use sternpost_registry::object::Fields;

use crate::admission::{Operation, Plugin, Request};
use crate::served::Served;

pub(super) const PLUGIN: Plugin =
    Plugin { name: "OwnerReferencesPermissionEnforcement", validate, ..Plugin::NONE };

fn validate(request: &Request<'_>, object: &Value) -> Result<(), Status> {
    if !matches!(request.attributes.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    let owners = owners_of(object);
    let before = request.old.map(owners_of).unwrap_or_default();
    if owners == before {
        return Ok(());
    }
    let target = request.attributes.target;
    if request.old.is_some() {
        let what = ResourceAttributes {
            group: target.served.group(),
            version: &target.served.resource.gv.version,
            resource: &target.served.resource.plural,
            namespace: target.namespace,
            name: target.name,
            subresource: "",
        };
        if let Some(reason) = refusal(request, "delete", what) {
            let why = format!("cannot set an ownerRef on a resource you can't delete: {reason}, <nil>");
            return Err(request.forbidden(object, &why));
        }
    }
    let blocks = |owner: &&Value| owner.flag("blockOwnerDeletion");
    let did_block: HashSet<&str> = before.iter().filter(blocks).map(|old| old.text("uid")).collect();
    for owner in owners.iter().filter(blocks).filter(|owner| !did_block.contains(owner.text("uid"))) {
        check_owner(request, object, owner)?;
    }
    Ok(())
}

fn owners_of(object: &Value) -> &[Value] {
    object.field("metadata").items("ownerReferences")
}

fn check_owner(request: &Request<'_>, object: &Value, owner: &Value) -> Result<(), Status> {
    let (api_version, kind) = (owner.text("apiVersion"), owner.text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(served) = find_kind(request, group, version, kind) else {
        let why = format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}: no matches for kind {} in version {}",
            go_quote(kind),
            go_quote(api_version)
        );
        return Err(request.forbidden(object, &why));
    };
    let what = ResourceAttributes {
        group,
        version,
        resource: &served.resource.plural,
        subresource: "finalizers",
        namespace: if served.is_namespaced() { request.attributes.target.namespace } else { "" },
        name: owner.text("name"),
    };
    match refusal(request, "update", what) {
        None => Ok(()),
        Some(reason) => {
            let why = format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {reason}, <nil>"
            );
            Err(request.forbidden(object, &why))
        }
    }
}

fn find_kind(request: &Request<'_>, group: &str, version: &str, kind: &str) -> Option<Arc<Served>> {
    let all = &request.verbs.served;
    let is_it = |served: &Arc<Served>| {
        let gv = &served.resource.gv;
        (&*gv.group, &*gv.version, served.kind()) == (group, version, kind)
    };
    all.all_built_in()
        .find(|served| is_it(served))
        .cloned()
        .or_else(|| all.customs.in_group(group).into_iter().find(is_it))
}

/// Why the user may not, if so.
fn refusal(request: &Request<'_>, verb: &str, what: ResourceAttributes<'_>) -> Option<String> {
    let asked = Attributes { user: request.attributes.user, verb, what: What::Resource(what) };
    match request.verbs.authorizer.authorize(&asked) {
        Decision::Allow { .. } => None,
        Decision::NoOpinion { reason } => Some(reason),
    }
}
