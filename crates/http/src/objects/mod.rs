//! Resource paths: from a request to a verb, and from its answer to bytes.

use http::{HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use sternpost_cache::Section;
use sternpost_clock::machine;
use sternpost_meta::{resource::Verb, status::Status};
use sternpost_registry::strategy::Action;
use sternpost_verbs::{
    DeleteOptions, Deleted, DryRun, Failure, Listed, Part, Target, Verbs, Written, parse_exact_version,
    served::Served,
};

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
mod handler;
pub(crate) mod list_body;
#[cfg(test)]
mod list_runs;
mod node_bound;
pub(crate) mod options;
mod patch;
mod representation;
mod reviews;
#[cfg(test)]
mod shared_store;
mod subresource;
mod token_objects;
pub(crate) mod watch;

use representation::{Meta, Shape};

pub use handler::{Handler, Routed, route};
pub use token_objects::TokenObjects;

/// A response that may be a stream.
pub type Answer = http::Response<Body>;

/// Answers a request by the handler that was found for it. `None` if meanwhile there is no such path.
pub async fn handle(api: &Api, request: &Request, mut routed: Routed) -> Option<Answer> {
    let path = request.info.resource_path()?;
    let mut attempts = 0;
    let end = machine::now() + request.timeout;
    let answer = loop {
        // What a request waits for is the store, or a webhook. Who gives up does not know whether
        // anything was written.
        let answer = match machine::timeout_at(end, respond(api, request, &routed, &path)).await {
            Ok(answer) => answer,
            Err(_) => Err(out_of_time().into()),
        };
        attempts += 1;
        match answer {
            // The definition has changed meanwhile: what is served now has to say.
            Err(Failure::Superseded) if attempts < ATTEMPTS => {
                routed = route(&api.verbs, request)?;
            }
            answer => break answer,
        }
    };
    let mut answer = answer.unwrap_or_else(|failure| representation::error(request, &failure.into()));
    add_warnings(&mut answer, &request.warnings.take());
    Some(answer)
}

fn out_of_time() -> Status {
    Status::timeout("request did not complete within the allotted timeout")
}

/// The answer to a request whose time is over.
pub fn timed_out(request: &Request) -> Answer {
    representation::error(request, &out_of_time())
}

/// How large the object is, where it is stored, that a request writes to. Of a collection any could be
/// meant, and it counts as if they were just not large.
pub fn stored_bytes(verbs: &Verbs, request: &Request, served: &Served) -> usize {
    let Some(path) = request.info.resource_path() else { return 0 };
    let target = Target { served, namespace: path.namespace.unwrap_or_default(), name: path.name };
    match path.name {
        "" if request.method == Method::DELETE => INLINE_BYTES - 1,
        "" => 0,
        _ => verbs.get(target).map_or(0, |object| object.stored().len()),
    }
}

/// How often a request is begun anew because the definition of its resource changed.
const ATTEMPTS: usize = 10;

async fn respond(
    api: &Api,
    request: &Request,
    routed: &Routed,
    path: &ResourcePath<'_>,
) -> Result<Answer, Failure> {
    let (verbs, served) = (&api.verbs, &routed.served);
    let target = Target { served, namespace: path.namespace.unwrap_or_default(), name: path.name };
    // A router that finds no handler does not know what is deprecated.
    if routed.handler.is_ok() || !served.is_installed() {
        request.warnings.extend(served.deprecation());
    }
    let handler = routed.handler.as_ref().map_err(|status| Status::clone(status))?;
    let subresource =
        |index: usize| served.resource.subresources.get(index).ok_or_else(Status::no_such_resource);
    let verb = match *handler {
        Handler::Connect { index, action } => {
            let kind = &subresource(index)?.kind;
            return Box::pin(node_bound::respond(verbs, request, target, path, action, kind)).await;
        }
        Handler::Subresource { index, action: Action::Token, verb: Verb::Create } => {
            return Box::pin(reviews::token_request(api, request, target, subresource(index)?)).await;
        }
        Handler::Subresource { index, action, verb } => {
            let subresource = subresource(index)?;
            return Box::pin(subresource::respond(verbs, request, target, subresource, action, verb)).await;
        }
        Handler::Main(verb) => verb,
    };
    if matches!(verb, Verb::Update | Verb::Patch) && path.name.is_empty() {
        return Err(Status::bad_request("name must be provided").into());
    }
    if verb == Verb::Watch && !served.resource.allows(Verb::Watch) {
        return Err(Status::verb_not_supported(target.resource_name(), "watch").into());
    }
    if let Some(kind) = &served.strategy.computed {
        return Ok(computed::respond(request, served, target, kind, verb)?);
    }
    if verb == Verb::Get {
        let shape = Shape::negotiate(request, served)?;
        options::check_export(request)?;
        let version = request.query.first("resourceVersion").unwrap_or_default();
        match version {
            "" => {
                if let Some(catching_up) = verbs.catching_up(&served.id) {
                    catching_up.await?;
                }
            }
            // As the cache has it.
            "0" => {}
            version => verbs.await_revision(&served.id, parse_exact_version(version)?).await?,
        }
        return Ok(shape.stored(verbs, request, served, &verbs.get(target)?).await?);
    }
    // Each by itself: what one remembers while it waits would be carried about by the others, too.
    match verb {
        Verb::List => {
            Box::pin(async {
                let shape = Shape::negotiate_list(request, served)?;
                let selection = options::selection(request, served)?;
                let query = options::list(request)?;
                let listed: Listed = verbs.list(target, &selection, &query).await?;
                Ok(shape.list(verbs, request, served, listed).await?)
            })
            .await
        }
        Verb::Watch => Ok(Box::pin(watch::serve(api, request, target, served)).await?),
        Verb::Create => {
            // Some kinds are answered, not stored.
            if let Some(to) = &served.strategy.posted_to {
                return Box::pin(subresource::post_by_name(verbs, request, target, to)).await;
            }
            if served.resource.storage_version_hash.is_none() {
                return Box::pin(reviews::respond(api, request, target)).await;
            }
            let shape = Shape::negotiate(request, served)?;
            let options = options::write(request, "CreateOptions")?;
            let object = body_in::object(request, served, options.validation)?;
            let written = Box::pin(verbs.create(target, object, options.writer(""))).await?;
            Ok(write_answer(request, served, shape, &written))
        }
        Verb::Update => {
            let shape = Shape::negotiate(request, served)?;
            let options = options::write(request, "UpdateOptions")?;
            let object = body_in::object(request, served, options.validation)?;
            let written = Box::pin(verbs.update(target, object, Part::Main, options.writer(""))).await?;
            Ok(write_answer(request, served, shape, &written))
        }
        Verb::Delete => {
            let shape = Shape::negotiate(request, served)?;
            let mut options = body_in::delete_options(request)?;
            verbs.check_delete_options(&mut options)?;
            request.warnings.extend(orphan_warning(served, &options));
            let writer = options::deleter(request);
            let deleted = Box::pin(verbs.delete(target, &options, writer)).await?;
            Ok(delete_answer(request, served, shape, &options, deleted))
        }
        Verb::DeleteCollection => {
            Box::pin(async {
                let shape = Shape::negotiate_list(request, served)?;
                let selection = options::selection(request, served)?;
                let query = options::list(request)?;
                let mut options = body_in::delete_options(request)?;
                verbs.check_delete_collection_options(&mut options)?;
                request.warnings.extend(orphan_warning(served, &options));
                let writer = options::deleter(request);
                let items =
                    verbs.delete_collection(target, &selection, query.limit, &options, writer).await?;
                let revision = verbs.cache.line(&served.id).revision();
                let meta = Meta { revision: Some(revision), ..Meta::default() };
                let sections = vec![Section::Objects(items)];
                Ok(shape.objects(verbs, request, served, sections, meta).await?)
            })
            .await
        }
        Verb::Patch => Box::pin(patch::respond(verbs, request, target, "", Part::Main)).await,
        // Seen to above.
        Verb::Get => Err(Failure::from(Status::method_not_allowed())),
    }
}

/// What a kind leaves behind unless told otherwise, which surprises people.
fn orphan_warning(served: &Served, options: &DeleteOptions) -> Option<String> {
    served.strategy.orphan_warning.filter(|_| options.propagation.is_none()).map(Into::into)
}

fn write_answer(request: &Request, served: &Served, shape: Shape, written: &Written) -> Answer {
    let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = match &written.stored {
        Some(stored) if shape.sends_stored_bytes(served, stored) => shape.bytes(request, served, stored),
        _ => shape.object(request, served, &written.object, code),
    };
    *answer.status_mut() = code;
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
    // Headers have to fit into what clients read of them: if there is too much to say, all of it is
    // said shorter, and the rest not at all.
    let length = |warning: &String| warning.chars().count();
    let all: usize = warnings.iter().map(length).sum();
    let longest = if all > MAX_WARNINGS_CHARS { MAX_WARNING_CHARS } else { MAX_WARNINGS_CHARS };
    let mut said = 0;
    for warning in warnings {
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
