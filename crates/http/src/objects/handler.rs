//! Which handler of which resource answers a request, as upstream's router decides it: before
//! anything is read of the body, and before a handler has a say.

use std::sync::Arc;

use http::Method;
use sternpost_meta::{resource::Verb, status::Status};
use sternpost_registry::strategy::Action;
use sternpost_verbs::{Verbs, served::Served};

use super::{node_bound, patch, representation};
use crate::{request::Request, request_info::ResourcePath};

/// A resource, and what of it a request is for.
#[derive(Debug, Clone)]
pub struct Routed {
    pub served: Arc<Served>,
    /// The error is the answer: there is no such handler.
    pub handler: Result<Handler, Box<Status>>,
}

#[derive(Debug, Clone, Copy)]
pub enum Handler {
    Main(Verb),
    /// `index` is among the subresources of the resource.
    Subresource {
        index: usize,
        action: Action,
        verb: Verb,
    },
    /// A subresource that leads elsewhere, whatever the method: `exec`, `log`, `proxy`.
    Connect {
        index: usize,
        action: Action,
    },
}

/// `None` if the path names no resource that is served.
pub fn route(verbs: &Verbs, request: &Request) -> Option<Routed> {
    let path = request.info.resource_path()?;
    let served = verbs.served.get(path.group, path.version, path.resource)?;
    let handler = if served.is_installed() {
        (!path.is_deeper).then(|| handler(request, &served, &path))
    } else {
        (!is_nowhere(request, &served, &path)).then(|| unrouted_handler(request, &served, &path))
    }?;
    Some(Routed { served, handler: handler.map_err(Box::new) })
}

/// The handler that upstream's router finds.
fn handler(request: &Request, served: &Served, path: &ResourcePath<'_>) -> Result<Handler, Status> {
    if path.namespace.is_some() != served.is_namespaced()
        && (path.namespace.is_some() || !path.name.is_empty())
    {
        return Err(Status::no_such_resource());
    }
    if !path.subresource.is_empty() {
        return subresource_handler(request, served, path).map_err(|missing| match missing {
            Missing::Subresource => Status::no_such_resource(),
            Missing::Method | Missing::Verb(_) => Status::method_not_allowed(),
        });
    }
    let verb = allowed_verb(request, served, path)?;
    if verb == Verb::Patch {
        patch::media_type(request, served)?;
    }
    representation::check_accept(request, path.name.is_empty() && request.method == Method::GET)?;
    Ok(Handler::Main(verb))
}

/// Whether a resource without a router has nothing where a path leads: then there is no such path.
fn is_nowhere(request: &Request, served: &Served, path: &ResourcePath<'_>) -> bool {
    let looks = matches!(request.method, Method::GET | Method::HEAD);
    match (served.is_namespaced(), path.namespace) {
        (true, None) => !path.name.is_empty() || !looks,
        (false, Some(_)) => true,
        _ => false,
    }
}

/// The handler where there is no router: that of all custom resources decides for itself.
fn unrouted_handler(request: &Request, served: &Served, path: &ResourcePath<'_>) -> Result<Handler, Status> {
    if path.subresource.is_empty() {
        return unrouted_verb(request, served, path).map(Handler::Main);
    }
    let resource = served.resource_name();
    subresource_handler(request, served, path).map_err(|missing| match missing {
        Missing::Subresource => Status::not_found(resource, path.name),
        Missing::Method => Status::method_not_allowed(),
        Missing::Verb(verb) => Status::verb_not_supported(resource, verb.as_str()),
    })
}

/// What there is not where a path leads to a subresource.
enum Missing {
    Subresource,
    /// A verb for the method.
    Method,
    Verb(Verb),
}

fn subresource_handler(
    request: &Request,
    served: &Served,
    path: &ResourcePath<'_>,
) -> Result<Handler, Missing> {
    let mut subresources = served.resource.subresources.iter().enumerate().filter(|_| !path.is_deeper);
    let found = subresources.find(|(_, found)| &*found.name == path.subresource);
    let (index, subresource) = found.ok_or(Missing::Subresource)?;
    let strategy = served.strategy.subresource(path.subresource).ok_or(Missing::Subresource)?;
    if matches!(strategy.action, Action::Log | Action::Stream(_) | Action::Proxy(_)) {
        if !node_bound::allows(strategy.action, &request.method) {
            return Err(Missing::Method);
        }
        return Ok(Handler::Connect { index, action: strategy.action });
    }
    let verb = match request.method {
        Method::GET => Verb::Get,
        Method::PUT => Verb::Update,
        Method::POST => Verb::Create,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return Err(Missing::Method),
    };
    if !subresource.verbs.contains(&verb) {
        return Err(Missing::Verb(verb));
    }
    Ok(Handler::Subresource { index, action: strategy.action, verb })
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

/// Whether there is a name is for the handler to see.
fn unrouted_verb(request: &Request, served: &Served, path: &ResourcePath<'_>) -> Result<Verb, Status> {
    match (&request.method, path.name.is_empty()) {
        (&Method::HEAD, true) => Ok(Verb::List),
        (&Method::HEAD, false) => Ok(Verb::Get),
        (&Method::POST, _) => Ok(Verb::Create),
        (&Method::PUT, _) => Ok(Verb::Update),
        (&Method::PATCH, _) => Ok(Verb::Patch),
        _ => verb_of(request, path).ok_or_else(|| Status::verb_not_supported(served.resource_name(), "")),
    }
}

fn verb_of(request: &Request, path: &ResourcePath<'_>) -> Option<Verb> {
    let named = !path.name.is_empty();
    if path.is_watch && request.method != Method::GET {
        return None;
    }
    Some(match (&request.method, named) {
        (&Method::GET, _) if request.info.verb() == "watch" => Verb::Watch,
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
