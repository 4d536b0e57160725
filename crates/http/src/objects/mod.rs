//! Resource paths: from a request to a verb, and from its answer to bytes.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use sternpost_meta::{
    resource::{Subresource, Verb},
    status::{ResourceName, Status},
};
use sternpost_registry::strategy::Action;
use sternpost_verbs::{
    DeleteOptions, Deleted, DryRun, Listed, Part, Registry, Target, Written, parse_exact_version,
    served::Served,
};
use tokio::time::{Instant, timeout_at};

use crate::{
    Api,
    body::Body,
    cpu::INLINE_BYTES,
    limits::{MAX_WARNING_CHARS, MAX_WARNINGS_CHARS},
    request::Request,
    request_info::ResourcePath,
    response,
};

mod body_in;
mod computed;
pub(crate) mod list_body;
mod node_bound;
pub(crate) mod options;
mod patch;
mod representation;
mod reviews;
mod subresource;
mod token_objects;
pub(crate) mod watch;

use representation::{Meta, Shape};

pub use token_objects::TokenObjects;

/// A response that may be a stream.
pub type Answer = http::Response<Body>;

/// Answers a request on a path below a group-version. `None` if the path names
/// no resource that is served.
pub async fn handle(api: &Api, request: &Request) -> Option<Answer> {
    let registry = &api.registry;
    let path = request.info.resource_path()?;
    let mut attempts = 0;
    let end = Instant::now() + request.timeout;
    let (mut warnings, answer) = loop {
        let served = registry.served.get(path.group, path.version, path.resource)?;
        let is_nowhere = match served.custom() {
            Some(_) => is_nowhere(request, &served, &path),
            None => path.is_deeper,
        };
        if is_nowhere {
            return None;
        }
        let mut warnings = Vec::new();
        // What a request waits for is the store, or a webhook. Who gives up does not know whether
        // anything was written.
        let answer = match timeout_at(end, respond(api, request, &served, &path, &mut warnings)).await {
            Ok(answer) => answer,
            Err(_) => Err(out_of_time()),
        };
        attempts += 1;
        match &answer {
            // The definition has changed meanwhile: what is served now has to say.
            Err(status) if status.is_superseded && attempts < ATTEMPTS => {}
            _ => break (warnings, answer),
        }
    };
    let mut answer = answer.unwrap_or_else(|mut status| {
        warnings.append(&mut status.take_warnings());
        representation::error(request, &status)
    });
    let said: Vec<HeaderValue> = answer.headers().get_all(header::WARNING).iter().cloned().collect();
    answer.headers_mut().remove(header::WARNING);
    add_warnings(&mut answer, &warnings);
    for warning in said {
        answer.headers_mut().append(header::WARNING, warning);
    }
    Some(answer)
}

fn out_of_time() -> Status {
    Status::timeout("request did not complete within the allotted timeout")
}

/// The answer to a request whose time is over.
pub fn timed_out(request: &Request) -> Answer {
    representation::error(request, &out_of_time())
}

/// What a request writes to, as far as its path tells.
pub struct WrittenTo {
    pub served: Arc<Served>,
    /// How large the object is where it is stored. Of a collection any could be meant, and it counts as if
    /// they were just not large.
    pub stored_bytes: usize,
}

pub fn written(api: &Api, request: &Request) -> Option<WrittenTo> {
    let path = request.info.resource_path()?;
    let served = api.registry.served.get(path.group, path.version, path.resource)?;
    let target = Target { served: &served, namespace: path.namespace.unwrap_or_default(), name: path.name };
    let stored_bytes = match path.name {
        "" if request.method == Method::DELETE => INLINE_BYTES - 1,
        "" => 0,
        _ => api.registry.get(target).map_or(0, |object| object.stored().len()),
    };
    Some(WrittenTo { served, stored_bytes })
}

/// Whether a custom resource has nothing at a place: then there is no such path.
fn is_nowhere(request: &Request, served: &Served, path: &ResourcePath<'_>) -> bool {
    let looks = matches!(request.method, Method::GET | Method::HEAD);
    match (served.is_namespaced(), path.namespace) {
        (true, None) => !path.name.is_empty() || !looks,
        (false, Some(_)) => true,
        _ => false,
    }
}

/// How often a request is begun anew because the definition of its resource changed.
const ATTEMPTS: usize = 10;

/// What every answer about a deprecated kind says.
fn deprecation(served: &Served) -> Option<String> {
    if let Some(custom) = served.custom() {
        return custom.definition.deprecation_warning(&custom.version);
    }
    served.strategy.deprecation.map(Into::into)
}

/// `warnings` go with the answer, also when it is an error.
async fn respond(
    api: &Api,
    request: &Request,
    served: &Arc<Served>,
    path: &ResourcePath<'_>,
    warnings: &mut Vec<String>,
) -> Result<Answer, Status> {
    let registry = &api.registry;
    if path.namespace.is_some() != served.is_namespaced()
        && (path.namespace.is_some() || !path.name.is_empty())
    {
        return Err(Status::no_such_resource());
    }
    let target = Target { served, namespace: path.namespace.unwrap_or_default(), name: path.name };
    if served.custom().is_some() {
        // Whatever else there is to say.
        warnings.extend(deprecation(served));
    }
    if !path.subresource.is_empty() {
        let mut subresources = served.resource.subresources.iter().filter(|_| !path.is_deeper);
        let found = subresources.find(|found| &*found.name == path.subresource);
        let subresource = found.ok_or_else(|| match served.custom() {
            Some(_) => Status::not_found(target.resource_name(), path.name),
            None => Status::no_such_resource(),
        })?;
        let strategy = served.strategy.subresource(path.subresource).ok_or_else(Status::no_such_resource)?;
        return match strategy.action {
            Action::Log | Action::Stream(_) | Action::Proxy(_) => {
                let to = strategy.action;
                node_bound::respond(registry, request, target, path, to, &subresource.kind, warnings).await
            }
            Action::Token if request.method == Method::POST => {
                reviews::token_request(api, request, target, subresource, warnings).await
            }
            action => subresource_verb(registry, request, target, subresource, action).await,
        };
    }
    let verb = match served.custom() {
        Some(_) => custom_verb(request, target, path)?,
        None => allowed_verb(request, served, path)?,
    };
    if served.custom().is_none() {
        warnings.extend(deprecation(served));
    }
    if verb == Verb::Watch && !served.resource.allows(Verb::Watch) {
        let resource = ResourceName { group: served.group(), resource: &served.resource.plural };
        return Err(Status::verb_not_supported(resource, "watch"));
    }
    if verb == Verb::Patch {
        patch::media_type(request, served)?;
    }
    if served.custom().is_none() {
        representation::check_accept(request, path.name.is_empty() && request.method == Method::GET)?;
    }
    if let Some(kind) = &served.strategy.computed {
        return computed::respond(request, served, target, kind, verb);
    }
    match verb {
        Verb::Get => {
            let shape = Shape::negotiate(request, served)?;
            options::check_export(request)?;
            let version = request.query.first("resourceVersion").unwrap_or_default();
            if !matches!(version, "" | "0") {
                registry.await_revision(parse_exact_version(version)?).await?;
            }
            shape.stored(registry, request, served, &registry.get(target)?).await
        }
        Verb::List => {
            let shape = Shape::negotiate_list(request, served)?;
            let selection = options::selection(request, served)?;
            let query = options::list(request)?;
            let listed: Listed = registry.list(target, &selection, &query).await?;
            shape.list(registry, request, served, listed).await
        }
        Verb::Watch => watch::serve(api, request, target, served).await,
        Verb::Create => {
            // Some kinds are answered, not stored.
            if let Some(to) = &served.strategy.posted_to {
                return subresource::post_by_name(registry, request, target, to).await;
            }
            if served.resource.storage_version_hash.is_none() {
                return reviews::respond(api, request, target, warnings).await;
            }
            let shape = Shape::negotiate(request, served)?;
            let options = options::write(request, "CreateOptions")?;
            let (object, complaints) = body_in::object(request, served, options.validation)?;
            warnings.extend(complaints);
            let written = registry.create(target, object, options.writer("")).await?;
            Ok(write_answer(request, served, shape, written, std::mem::take(warnings)))
        }
        Verb::Update => {
            let shape = Shape::negotiate(request, served)?;
            let options = options::write(request, "UpdateOptions")?;
            let (object, complaints) = body_in::object(request, served, options.validation)?;
            warnings.extend(complaints);
            let written = registry.update(target, object, Part::Main, options.writer("")).await?;
            Ok(write_answer(request, served, shape, written, std::mem::take(warnings)))
        }
        Verb::Delete => {
            let shape = Shape::negotiate(request, served)?;
            let options = body_in::delete_options(request)?;
            warnings.extend(orphan_warning(served, &options));
            let writer = options::deleter(request);
            let (deleted, said) = registry.delete(target, &options, writer).await?;
            warnings.extend(said);
            Ok(delete_answer(request, served, shape, &options, deleted))
        }
        Verb::DeleteCollection => {
            let shape = Shape::negotiate_list(request, served)?;
            let selection = options::selection(request, served)?;
            let query = options::list(request)?;
            let options = body_in::delete_options(request)?;
            warnings.extend(orphan_warning(served, &options));
            let writer = options::deleter(request);
            let (items, said) =
                registry.delete_collection(target, &selection, query.limit, &options, writer).await?;
            warnings.extend(said);
            let meta = Meta { revision: Some(registry.cache.revision()), ..Meta::default() };
            shape.objects(registry, request, served, items, meta).await
        }
        Verb::Patch => patch::respond(registry, request, target, "", Part::Main, warnings).await,
    }
}

/// The verb, if the resource has it at this path.
fn allowed_verb(request: &Request, served: &Served, path: &ResourcePath<'_>) -> Result<Verb, Status> {
    let one = [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete];
    if !path.name.is_empty() && !one.iter().any(|verb| served.resource.allows(*verb)) {
        return Err(Status::no_such_resource());
    }
    // What can only be created has no place outside of namespaces.
    if served.is_namespaced() && path.namespace.is_none() && !served.resource.allows(Verb::List) {
        return Err(Status::no_such_resource());
    }
    let verb = verb_of(request, path).ok_or_else(Status::method_not_allowed)?;
    // Through all namespaces one can only look.
    let looks = matches!(verb, Verb::Get | Verb::List | Verb::Watch);
    if served.is_namespaced() && path.namespace.is_none() && !looks {
        return Err(Status::method_not_allowed());
    }
    // To upstream's router a watch is a list with a parameter.
    let routed = if verb == Verb::Watch { Verb::List } else { verb };
    if served.resource.allows(routed) { Ok(verb) } else { Err(Status::method_not_allowed()) }
}

/// As upstream, which has no router in front of custom resources.
fn custom_verb(request: &Request, target: Target<'_>, path: &ResourcePath<'_>) -> Result<Verb, Status> {
    match (&request.method, path.name.is_empty()) {
        (&Method::HEAD, true) => Ok(Verb::List),
        (&Method::HEAD, false) => Ok(Verb::Get),
        (&Method::POST, _) => Ok(Verb::Create),
        (&Method::PUT | &Method::PATCH, true) => Err(Status::bad_request("name must be provided")),
        _ => verb_of(request, path).ok_or_else(|| Status::verb_not_supported(target.resource_name(), "")),
    }
}

/// What a kind leaves behind unless told otherwise, which surprises people.
fn orphan_warning(served: &Served, options: &DeleteOptions) -> Option<String> {
    served.strategy.orphan_warning.filter(|_| options.propagation.is_none()).map(Into::into)
}

fn verb_of(request: &Request, path: &ResourcePath<'_>) -> Option<Verb> {
    let named = !path.name.is_empty();
    let watches = request.info.verb() == "watch";
    if path.is_watch && request.method != Method::GET {
        return None;
    }
    Some(match (&request.method, named) {
        (&Method::GET, _) if watches => Verb::Watch,
        (&Method::GET, true) => Verb::Get,
        (&Method::GET, false) => Verb::List,
        (&Method::POST, false) => Verb::Create,
        (&Method::PUT, true) => Verb::Update,
        (&Method::PATCH, true) => Verb::Patch,
        (&Method::DELETE, true) => Verb::Delete,
        (&Method::DELETE, false) => Verb::DeleteCollection,
        _ => return None,
    })
}

async fn subresource_verb(
    registry: &Registry,
    request: &Request,
    target: Target<'_>,
    subresource: &Subresource,
    action: Action,
) -> Result<Answer, Status> {
    let verb = match request.method {
        Method::GET => Verb::Get,
        Method::PUT => Verb::Update,
        Method::POST => Verb::Create,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return Err(Status::method_not_allowed()),
    };
    let served = target.served;
    if !subresource.verbs.contains(&verb) {
        return Err(match served.custom() {
            Some(_) => Status::verb_not_supported(target.resource_name(), verb.as_str()),
            None => Status::method_not_allowed(),
        });
    }
    subresource::respond(registry, request, target, subresource, action, verb).await
}

fn write_answer(
    request: &Request,
    served: &Served,
    shape: Shape,
    written: Written,
    mut warnings: Vec<String>,
) -> Answer {
    let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = match &written.stored {
        Some(stored) if shape.sends_stored_bytes(served, stored) => shape.bytes(request, served, stored),
        _ => shape.object(request, served, &written.object, code),
    };
    *answer.status_mut() = code;
    warnings.extend(written.warnings);
    add_warnings(&mut answer, &warnings);
    answer
}

fn delete_answer(
    request: &Request,
    served: &Served,
    shape: Shape,
    options: &DeleteOptions,
    deleted: Deleted,
) -> Answer {
    let pending = match options.orphan_dependents {
        Some(false) => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    match deleted {
        Deleted::Gone(value) if value.get("kind").and_then(Value::as_str) == Some("Status") => {
            representation::status(request, &value)
        }
        Deleted::Gone(value) => shape.object(request, served, &value, StatusCode::OK),
        Deleted::Pending(value) => shape.object(request, served, &value, pending),
    }
}

/// `Warning: 299 - "text"`, one for each.
fn add_warnings(answer: &mut Answer, warnings: &[String]) {
    let mut distinct: Vec<&String> = Vec::new();
    for warning in warnings {
        if !distinct.contains(&warning) {
            distinct.push(warning);
        }
    }
    // Headers have to fit into what clients read of them: if there is too much to say, all of it is
    // said shorter, and the rest not at all.
    let length = |warning: &String| warning.chars().count();
    let all: usize = distinct.iter().map(|warning| length(warning)).sum();
    let longest = if all > MAX_WARNINGS_CHARS { MAX_WARNING_CHARS } else { MAX_WARNINGS_CHARS };
    let mut said = 0;
    for warning in distinct {
        let length = length(warning).min(longest);
        if said + length > MAX_WARNINGS_CHARS {
            continue;
        }
        said += length;
        let text: String = warning.chars().take(longest).filter(|char| !char.is_control()).collect();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            answer.headers_mut().append(header::WARNING, value);
        }
    }
}

pub(crate) fn whole(response: response::Response) -> Answer {
    response.map(Body::Whole)
}

pub(crate) fn dry_run(on: bool) -> DryRun {
    if on { DryRun::All } else { DryRun::No }
}
