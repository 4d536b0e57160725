//! Subresources that lead to a node or to what runs on it: `log`, `exec`,
//! `attach`, `portforward` and `proxy`.
//!
//! This server has no network to nodes and pods and never dials an address that
//! an object names. Everything up to the connection is answered as upstream
//! answers it; where upstream would connect, it finds no route.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};
use sternpost_golang::{strconv::go_quote, time::Timestamp};
use sternpost_meta::{
    field::{Errors, Path},
    format::parse_ip,
    gvk::GroupVersionKind,
    status::{ResourceName, Status},
};
use sternpost_registry::{
    node_connection::{self, Address, ProxyId, Refusal},
    object::{Fields, FieldsMut},
    strategy::{Action, Proxy, Stream},
};
use sternpost_verbs::{Failure, Target, Verbs, Writer};

use super::{Answer, options, representation, whole};
use crate::{accept::Accept, request::Request, request_info::ResourcePath, response};

/// Whether such a subresource takes a method.
pub fn allows(action: Action, method: &Method) -> bool {
    let allowed: &[Method] = match action {
        Action::Stream(_) => &[Method::GET, Method::POST],
        Action::Proxy(_) => &[
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ],
        _ => &[Method::GET],
    };
    allowed.contains(method)
}

/// Answers a request on such a subresource. `kind` is that of its options.
pub async fn respond(
    verbs: &Verbs,
    request: &Request,
    target: Target<'_>,
    path: &ResourcePath<'_>,
    action: Action,
    kind: &GroupVersionKind,
) -> Result<Answer, Failure> {
    let mut asked = json!({"kind": &*kind.kind, "apiVersion": kind.group_version().to_string()});
    match action {
        Action::Stream(stream) => stream_options(request, stream, &mut asked),
        Action::Proxy(_) => proxy_options(path, &mut asked),
        _ => return Ok(log(verbs, request, target).await?),
    }
    let writer = Writer { subresource: path.subresource, ..options::deleter(request) };
    verbs.admit_connection(target, kind, &mut asked, writer).await?;
    if let Some(catching_up) = verbs.catching_up_with_all() {
        catching_up.await?;
    }
    match action {
        Action::Proxy(to) => Ok(proxy(verbs, request, target, path, to)?),
        Action::Stream(stream) => {
            verbs.authorize_stream(target, writer)?;
            Ok(open_stream(verbs, request, target, stream, asked.text("container"))?)
        }
        _ => Err(Status::no_such_resource().into()),
    }
}

/// The query as the options that it stands for.
fn proxy_options(path: &ResourcePath<'_>, asked: &mut Value) {
    if !path.behind_proxy.is_empty() {
        asked.set("path", path.behind_proxy);
    }
}

/// As [`proxy_options`], of a stream.
fn stream_options(request: &Request, stream: Stream, asked: &mut Value) {
    if stream == Stream::PortForward {
        let ports = request.query.all("ports").flat_map(|ports| ports.split(','));
        let ports: Vec<Value> = ports.filter_map(|port| port.parse::<i32>().ok()).map(Value::from).collect();
        if !ports.is_empty() {
            asked.set("ports", ports);
        }
        return;
    }
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if options::flag(request, flag) {
            asked.set(flag, true);
        }
    }
    if let Some(container) = request.query.first("container").filter(|name| !name.is_empty()) {
        asked.set("container", container);
    }
    if stream == Stream::Exec {
        let command: Vec<Value> = request.query.all("command").map(Value::from).collect();
        asked.set("command", if command.is_empty() { Value::Null } else { command.into() });
    }
}

/// What was said, as text; all else is an object, and what is not said is all
/// there is here.
async fn log(verbs: &Verbs, request: &Request, pod: Target<'_>) -> Result<Answer, Status> {
    check_accept_log(request)?;
    if Accept::of(&request.headers).choose(&OBJECTS).is_none() {
        return Err(Status::not_acceptable(&OBJECTS));
    }
    if let Some(catching_up) = verbs.catching_up_with_all() {
        catching_up.await?;
    }
    find_log(verbs, request, pod)
}

const OBJECTS: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

fn check_accept_log(request: &Request) -> Result<(), Status> {
    if Accept::of(&request.headers).choose(&["text/plain"]).is_some() {
        return Ok(());
    }
    representation::check_accept(request, false).map_err(|mut status| {
        status.message = status.message.replace("representations: ", "representations: text/plain, ");
        status
    })
}

fn find_log(verbs: &Verbs, request: &Request, target: Target<'_>) -> Result<Answer, Status> {
    let query = log_query(request, target.name)?;
    let pod = verbs.get(target)?.value();
    let asked = request.query.first("container").unwrap_or_default();
    let container = node_connection::container(&pod, asked).map_err(refused)?;
    let node = pod.field("spec").text("nodeName");
    if node.is_empty() {
        // Nothing runs yet, so nothing was said.
        return Ok(whole(response::empty(StatusCode::NO_CONTENT)));
    }
    let kubelet = node_connection::kubelet_of_pod(&pod, verbs).map_err(refused)?;
    let (namespace, name) = (target.namespace, target.name);
    let url = format!("https://{kubelet}/containerLogs/{namespace}/{name}/{container}{query}");
    Err(Status::unexpected(format!("Get {}: {}", go_quote(&url), no_route(&kubelet))))
}

/// The options of a log as its kubelet would get them.
fn log_query(request: &Request, name: &str) -> Result<String, Status> {
    let number = |name| options::integer(request, name);
    let (lines, since, bytes) = (number("tailLines")?, number("sinceSeconds")?, number("limitBytes")?);
    let time = request.query.first("sinceTime").filter(|text| !text.is_empty());
    let time = time.map(Timestamp::parse_time).transpose();
    let time = time.map_err(|error| Status::bad_request(error.to_string()))?;
    let mut errors = Errors::default();
    if let Some(lines) = lines.filter(|lines| *lines < 0) {
        errors.invalid(Path::new("tailLines"), lines, "must be greater than or equal to 0");
    }
    if let Some(bytes) = bytes.filter(|bytes| *bytes < 1) {
        errors.invalid(Path::new("limitBytes"), bytes, "must be greater than 0");
    }
    match since {
        Some(_) if time.is_some() => {
            errors.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified");
        }
        Some(since) if since < 1 => {
            errors.invalid(Path::new("sinceSeconds"), since, "must be greater than 0");
        }
        _ => {}
    }
    if request.query.has("stream") {
        errors.forbidden(Path::new("stream"), "may not be specified");
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", name, errors.into_causes()));
    }
    let flag = |name| options::flag(request, name).then(|| "true".to_owned());
    // In the order of their names, as Go writes a query.
    let pairs = [
        ("follow", flag("follow")),
        ("limitBytes", bytes.map(|bytes| bytes.to_string())),
        ("previous", flag("previous")),
        ("sinceSeconds", since.map(|since| since.to_string())),
        ("sinceTime", time.map(|time| time.to_time().replace(':', "%3A"))),
        ("tailLines", lines.map(|lines| lines.to_string())),
        ("timestamps", flag("timestamps")),
    ];
    let pairs: Vec<String> =
        pairs.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect();
    Ok(if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) })
}

/// `exec`, `attach` and `portforward`: nothing but a connection that is taken over.
fn open_stream(
    verbs: &Verbs,
    request: &Request,
    target: Target<'_>,
    stream: Stream,
    container: &str,
) -> Result<Answer, Status> {
    if stream == Stream::PortForward {
        node_connection::forwarded_ports(request.query.all("ports")).map_err(refused)?;
    }
    let pod = verbs.get(target)?.value();
    if stream != Stream::PortForward {
        node_connection::container(&pod, container).map_err(refused)?;
    }
    let node = pod.field("spec").text("nodeName");
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {} does not have a host assigned", target.name)));
    }
    let kubelet = node_connection::kubelet_of_pod(&pod, verbs).map_err(refused)?;
    if !is_upgrade(&request.headers) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    Err(Status::unexpected(format!("error dialing backend: {}", no_route(&kubelet))))
}

fn proxy(
    verbs: &Verbs,
    request: &Request,
    target: Target<'_>,
    path: &ResourcePath<'_>,
    to: Proxy,
) -> Result<Answer, Status> {
    let to = match to {
        Proxy::Object { called, address } => {
            let id = ProxyId::parse(target.name, called).map_err(refused)?;
            address(id, &verbs.get(Target { name: id.name, ..target })?.value())
        }
        Proxy::Other(address) => address(target.namespace, target.name, verbs),
    };
    let to = to.map_err(refused)?;
    if is_upgrade(&request.headers) {
        return Err(Status::unexpected(format!("error dialing backend: {}", no_route(&to))));
    }
    // Relative links on the page behind it need the slash.
    if path.behind_proxy.is_empty() && matches!(request.method, Method::GET | Method::HEAD) {
        return Ok(redirect_to_slash(request));
    }
    Err(Status::service_unavailable(format!("error trying to reach service: {}", no_route(&to))))
}

/// What Go says when there is no way to an address.
fn no_route(to: &Address) -> String {
    if parse_ip(&to.host).is_none() {
        return format!("dial tcp: lookup {}: no such host", to.host);
    }
    if to.port.parse::<u16>().is_err() {
        return format!("dial tcp: lookup tcp/{}: unknown port", to.port);
    }
    format!("dial tcp {to}: connect: no route to host")
}

/// Whatever it is to be upgraded to.
fn is_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.into_iter().any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// What a header line cannot carry.
const UNPRINTABLE: &AsciiSet = &CONTROLS.add(b' ');

fn redirect_to_slash(request: &Request) -> Answer {
    let path = utf8_percent_encode(request.info.path(), UNPRINTABLE);
    let query = request.query.raw();
    let mark = if query.is_empty() { "" } else { "?" };
    let mut answer = response::empty(StatusCode::MOVED_PERMANENTLY);
    // Escaped as it is, this is always a header's value.
    if let Ok(location) = HeaderValue::from_str(&format!("{path}/{mark}{query}")) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    whole(answer)
}

fn refused(refusal: Refusal) -> Status {
    match refusal {
        Refusal::BadRequest(text) => Status::bad_request(text),
        Refusal::Unavailable(text) => Status::service_unavailable(text),
        Refusal::Unexpected(text) => Status::unexpected(text),
        Refusal::NotFound { resource, name } => {
            Status::not_found(ResourceName { group: "", resource }, &name)
        }
    }
}
