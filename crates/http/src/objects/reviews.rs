//! Requests that are answered and not stored: who a token belongs to
//! (TokenReview), who is asking (SelfSubjectReview), what somebody may do
//! (SubjectAccessReview and its kin), and a new token for a service account
//! (TokenRequest).
//!
//! Nothing here is logged or kept: bodies and answers carry secrets.

use http::StatusCode;
use serde_json::{Map, Value, json};
use sternpost_auth::service_account::{Bound, Reference, ServiceAccounts, Wanted};
use sternpost_cache::{Object, ResourceId};
use sternpost_clock::Clock;
use sternpost_golang::strconv::go_quote;
use sternpost_golang::time::Timestamp;
use sternpost_meta::{
    authorize::{Attributes, ResourceAttributes, What, joined},
    field::Errors,
    format,
    resource::Subresource,
    status::{ResourceName, Status},
    user::User,
};
use sternpost_registry::{
    kinds::{token_request, token_review},
    object::{Fields, FieldsMut},
};
use sternpost_verbs::{
    Failure, Target, Verbs,
    names::new_uid,
    served::{Served, ServedResources},
};

use super::{Answer, body_in, options, representation::Shape};
use crate::{Api, identity, request::Request};

/// Answers a review.
pub async fn respond(api: &Api, request: &Request, target: Target<'_>) -> Result<Answer, Failure> {
    let served = target.served;
    let answer = match (served.group(), served.kind()) {
        ("authentication.k8s.io", "TokenReview") => token_review,
        ("authentication.k8s.io", "SelfSubjectReview") => self_subject_review,
        ("authorization.k8s.io", "SubjectAccessReview" | "LocalSubjectAccessReview") => access_review,
        ("authorization.k8s.io", "SelfSubjectAccessReview") => access_review,
        ("authorization.k8s.io", "SelfSubjectRulesReview") => rules_review,
        _ => return Err(Status::no_such_resource().into()),
    };
    let shape = Shape::negotiate(request, served)?;
    // With dryRun the answer is the same: nothing is stored either way.
    let options = options::write(request, "CreateOptions")?;
    let mut review = body_in::object(request, served, options.validation)?;
    api.verbs.admit_new(target, served, &mut review, options.writer("")).await?;
    if served.kind() == "TokenReview" {
        identity::prepare_review(api, review.field("spec").text("token")).await;
    }
    let mut review = answer(api, request, target, review)?;
    finish(&mut review, served);
    Ok(shape.object(request, served, &review, StatusCode::CREATED))
}

fn token_review(api: &Api, _: &Request, _: Target<'_>, mut review: Value) -> Result<Value, Status> {
    token_review::check_token(&review)?;
    let spec = review.field("spec");
    let audiences = strings(spec.get_field("audiences"));
    let verdict = api.authenticator.review(spec.text("token"), &audiences, api.verbs.clock.wall());
    for field in ["namespace", "managedFields"] {
        review.object_mut("metadata").remove(field);
    }
    let status = review.object_mut("status");
    status.remove("authenticated");
    match verdict {
        Ok(accepted) => {
            status.set("authenticated", true);
            status.set("user", accepted.user.to_json());
            if !accepted.audiences.is_empty() {
                status.set("audiences", accepted.audiences);
            }
        }
        Err(why) => {
            if !status.has("user") {
                status.set("user", Value::Object(Map::new()));
            }
            status.set("error", why);
        }
    }
    Ok(review)
}

fn self_subject_review(api: &Api, request: &Request, _: Target<'_>, _: Value) -> Result<Value, Status> {
    let user = request.user();
    Ok(json!({
        "metadata": {"creationTimestamp": api.verbs.now()},
        "status": {"userInfo": user.to_json()},
    }))
}

/// May somebody do something? Who asks about others is another question, and has
/// been answered by now.
fn access_review(
    api: &Api,
    request: &Request,
    target: Target<'_>,
    mut review: Value,
) -> Result<Value, Status> {
    if target.served.is_namespaced() {
        check_namespace_named(target, &review)?;
        review.object_mut("metadata").set("namespace", target.namespace);
    }
    let mut errors = Errors::default();
    (target.served.strategy.validate)(&review, &mut errors);
    if !errors.is_empty() {
        // Upstream does not say of what kind.
        return Err(Status::invalid(target.served.group(), "", "", errors.into_causes()));
    }
    let spec = review.field("spec");
    let named;
    let user = if target.served.kind() == "SelfSubjectAccessReview" {
        request.user()
    } else {
        named = User {
            name: spec.text("user").into(),
            uid: spec.text("uid").into(),
            groups: strings(spec.get_field("groups")),
            extra: spec.entries("extra").map(|(key, list)| (key.into(), strings(Some(list)))).collect(),
        };
        &named
    };
    let (resource, path) = (spec.get_field("resourceAttributes"), spec.field("nonResourceAttributes"));
    let (verb, what) = match resource {
        Some(resource) => {
            let what = ResourceAttributes {
                group: resource.text("group"),
                version: resource.text("version"),
                resource: resource.text("resource"),
                subresource: resource.text("subresource"),
                namespace: resource.text("namespace"),
                name: resource.text("name"),
            };
            (resource.text("verb"), What::Resource(what))
        }
        None => (path.text("verb"), What::Path(path.text("path"))),
    };
    let decision = api.verbs.authorizer.authorize(&Attributes { user, verb, what });
    let mut status = json!({"allowed": decision.is_allowed()});
    if !decision.reason().is_empty() {
        status.set("reason", decision.reason());
    }
    review.set("status", status);
    review.object_mut("metadata").remove("managedFields");
    Ok(review)
}

/// What may whoever asks do in a namespace?
fn rules_review(api: &Api, request: &Request, _: Target<'_>, mut review: Value) -> Result<Value, Status> {
    let namespace = review.field("spec").text("namespace");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let held = api.verbs.authorizer.rules(request.user(), namespace);
    let (paths, resources): (Vec<_>, Vec<_>) =
        held.rules.iter().partition(|rule| !rule.non_resource_urls.is_empty());
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !held.unresolved.is_empty() {
        status.set("evaluationError", joined(&held.unresolved));
    }
    for field in ["metadata", "spec"] {
        review.set(field, json!({}));
    }
    review.set("status", status);
    Ok(review)
}

/// `POST …/serviceaccounts/NAME/token`: `target` is the account.
pub async fn token_request(
    api: &Api,
    request: &Request,
    target: Target<'_>,
    subresource: &Subresource,
) -> Result<Answer, Failure> {
    let served = ServedResources::of_subresource(target.served, &subresource.kind)
        .ok_or_else(Status::no_such_resource)?;
    let accounts = api.authenticator.service_accounts().ok_or_else(Status::no_such_resource)?;
    let shape = Shape::negotiate(request, &served)?;
    // With dryRun the answer is the same, as upstream: a token is made, not stored.
    let options = options::write(request, "CreateOptions")?;
    let mut wanted = body_in::object(request, &served, options.validation)?;

    // What the body names must be what the URL names, and be there.
    check_namespace(&api.verbs, target, &wanted)?;
    let account = api.verbs.get_latest(target).await?.value();
    let uid = account.field("metadata").text("uid").to_owned();
    (served.strategy.default)(&mut wanted);
    let writer = options.writer("token");
    api.verbs.mutate_new(target, &served, &mut wanted, writer).await?;
    check_account(&served, target, &wanted, &uid)?;

    // The kind's own rules; upstream has not named the request yet.
    let mut errors = Errors::default();
    (served.strategy.validate)(&wanted, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(&served, "", errors).into());
    }
    let bound = bound_object(&api.verbs, target, &wanted)?;

    let metadata = wanted.object_mut("metadata");
    metadata.set("name", target.name);
    metadata.set("namespace", target.namespace);
    metadata.set("uid", uid.clone());
    metadata.set("creationTimestamp", api.verbs.now());
    api.verbs.validate_new(target, &served, &wanted, writer).await?;

    let issued = issue(&api.verbs.clock, accounts, request, target, &mut wanted, uid, bound)?;
    wanted.object_mut("metadata").remove("managedFields");
    wanted.set("status", issued);
    finish(&mut wanted, &served);
    Ok(shape.object(request, &served, &wanted, StatusCode::CREATED))
}

/// As Go would write it: without what is empty, and with kind and apiVersion.
fn finish(answer: &mut Value, served: &Served) {
    served.settle(answer);
    served.set_type(answer);
}

/// Makes the token, writes into the request what it was made with, and returns
/// the status.
fn issue(
    clock: &Clock,
    accounts: &ServiceAccounts,
    request: &Request,
    target: Target<'_>,
    wanted: &mut Value,
    uid: String,
    bound: Bound,
) -> Result<Value, Status> {
    let spec = wanted.object_mut("spec");
    let mut audiences = strings(spec.get_field("audiences"));
    if audiences.is_empty() {
        audiences = accounts.audiences().to_vec();
        spec.set("audiences", audiences.clone());
    }
    let asked = spec.int("expirationSeconds").unwrap_or_default();
    let seconds = accounts.allowed_seconds(asked);
    if seconds != asked {
        let text = format!("requested expiration of {asked} seconds shortened to {seconds} seconds");
        request.warnings.add(text);
        spec.set("expirationSeconds", seconds);
    }
    if !spec.has("boundObjectRef") {
        spec.set("boundObjectRef", Value::Null);
    }
    let wanted = Wanted {
        namespace: target.namespace,
        account: Reference { name: target.name.into(), uid },
        audiences: &audiences,
        seconds,
        bound,
        id: &new_uid(clock),
    };
    let issued = accounts
        .issue(&wanted, clock.unix_seconds())
        .map_err(|error| Status::internal_error(&error.to_string()))?;
    let expires = Timestamp::from_unix(issued.expires_at, 0).to_time();
    Ok(json!({"token": issued.token, "expirationTimestamp": expires}))
}

fn check_namespace_named(target: Target<'_>, object: &Value) -> Result<(), Status> {
    let named = object.field("metadata").text("namespace");
    if !named.is_empty() && named != target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

fn check_namespace(verbs: &Verbs, target: Target<'_>, wanted: &Value) -> Result<(), Status> {
    check_namespace_named(target, wanted)?;
    let namespaces = verbs.cache.resource(&ResourceId::new("", "namespaces")).snapshot();
    let Some(namespace) = namespaces.get("", target.namespace) else {
        return Err(Status::not_found(ResourceName { group: "", resource: "namespaces" }, target.namespace));
    };
    if namespace.terminating {
        return Err(Status::namespace_terminating(target.resource_name(), target.name, target.namespace));
    }
    Ok(())
}

fn check_account(served: &Served, target: Target<'_>, wanted: &Value, uid: &str) -> Result<(), Status> {
    let mut errors = Errors::default();
    token_request::validate_account(wanted, target.namespace, target.name, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(served, target.name, errors));
    }
    let given = wanted.field("metadata").text("uid");
    if !given.is_empty() && given != uid {
        let resource = ResourceName { group: served.group(), resource: served.kind() };
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(resource, target.name, &why));
    }
    Ok(())
}

/// The object that the token is to live with, if it is there.
fn bound_object(verbs: &Verbs, target: Target<'_>, wanted: &Value) -> Result<Bound, Status> {
    token_request::check_bound_object(wanted)?;
    let Some(named) = wanted.field("spec").get_field("boundObjectRef").filter(|named| !named.is_null())
    else {
        return Ok(Bound::Account);
    };
    let (kind, name) = (named.text("kind"), named.text("name"));
    let (resource, namespace) = match kind {
        "Pod" => ("pods", target.namespace),
        "Secret" => ("secrets", target.namespace),
        _ => ("nodes", ""),
    };
    let object = find(verbs, resource, namespace, name)?.value();
    let found = reference(&object);
    if kind == "Pod" && object.field("spec").text("serviceAccountName") != target.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            go_quote(target.name)
        )));
    }
    let given = named.text("uid");
    if !given.is_empty() && given != found.uid {
        let why = format!(
            "the UID in the bound object reference ({given}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(ResourceName { group: "", resource: kind }, name, &why));
    }
    Ok(match kind {
        "Pod" => Bound::Pod { node: node_of(verbs, &object), pod: found },
        "Secret" => Bound::Secret(found),
        _ => Bound::Node(found),
    })
}

/// The node that a pod was given, also if there is no such node.
fn node_of(verbs: &Verbs, pod: &Value) -> Option<Reference> {
    let name = Some(pod.field("spec").text("nodeName")).filter(|name| !name.is_empty())?;
    let node = find(verbs, "nodes", "", name).ok().map(|node| reference(&node.value()));
    node.or_else(|| Some(Reference { name: name.into(), uid: String::new() }))
}

fn find(
    verbs: &Verbs,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<std::sync::Arc<Object>, Status> {
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let problems = format::path_segment(name);
    if !problems.is_empty() {
        return Err(Status::invalid_name_parameter(name, &problems));
    }
    let snapshot = verbs.cache.resource(&ResourceId::new("", resource)).snapshot();
    snapshot
        .get(namespace, name)
        .cloned()
        .ok_or_else(|| Status::not_found(ResourceName { group: "", resource }, name))
}

fn reference(object: &Value) -> Reference {
    let metadata = object.field("metadata");
    Reference { name: metadata.text("name").into(), uid: metadata.text("uid").into() }
}

fn invalid(served: &Served, name: &str, errors: Errors) -> Status {
    Status::invalid(served.group(), served.kind(), name, errors.into_causes())
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}
