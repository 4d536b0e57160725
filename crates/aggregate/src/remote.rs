//! The table of remotes: APIService objects, read once, and how each is reached.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use rustls::{client::ResolvesClientCert, pki_types::ServerName};
use serde_json::Value;
use sternpost_clock::machine;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::gvk::{GroupVersion, compare_versions};
use sternpost_outbound::{
    Address, Cause, Client, ClusterDns, Egress, Protocols, Resolve, Settings, SetupError, Trust, Via,
    client_tls, empty,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{discovery, openapi};

/// Where a server is, as `HOST:PORT`, for a control plane without a network of its own: then no
/// Service is looked for. Its certificate is still to name the Service.
pub const ADDRESS: &str = "aggregation.sternpost.dev/address";

/// How long an idle connection is kept. Shorter than servers keep theirs, so that a request seldom
/// meets a connection that is being closed.
pub const IDLE: Duration = Duration::from_secs(60);

/// Requests of clients that one remote works on at a time, watches too. Those who come when there are
/// as many are sent away: a server that does not answer must not fill this one with those who wait.
pub const MAX_IN_FLIGHT: usize = 2048;
/// How many of them may be watches and the like, which do not end: others still get through.
pub const MAX_LONG_RUNNING: usize = MAX_IN_FLIGHT / 4 * 3;

/// Who asks when nobody else does, as upstream has it.
pub const AGGREGATOR: &str = "system:kube-aggregator";
const AGGREGATOR_GROUP: &str = "system:masters";

pub(crate) const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
pub(crate) const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");

const DEFAULT_PORT: u16 = 443;

/// All remotes. Reading takes no lock.
pub struct Remotes {
    resolver: Arc<dyn Resolve>,
    egress: Egress,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    table: ArcSwap<Table>,
    /// Held while the table is replaced, never longer.
    writing: Mutex<()>,
    version: watch::Sender<u64>,
    /// One for whoever converts a document.
    conversion: Semaphore,
}

/// Another server, and the group-version it is registered for.
pub struct Remote {
    /// Of its APIService.
    pub name: Arc<str>,
    pub gv: GroupVersion,
    pub group_priority: i64,
    pub version_priority: i64,
    /// What it serves, as far as that is known.
    pub discovery: ArcSwapOption<discovery::Learned>,
    /// What it documents.
    pub openapi: ArcSwap<openapi::State>,
    spec: Spec,
    /// Why it can never be reached, if so.
    client: Result<Client, SetupError>,
    resolver: Arc<dyn Resolve>,
    available: AtomicBool,
    in_flight: Arc<Semaphore>,
    long_running: Arc<Semaphore>,
    gone: watch::Sender<bool>,
}

/// A place among those who wait for a remote, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _one: OwnedSemaphorePermit,
    _long_running: Option<OwnedSemaphorePermit>,
}

/// The answer to [`Remote::get`].
#[derive(Debug, Clone)]
pub struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is none. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("Get {}: {cause}", go_quote(url))]
    Transport { url: String, cause: Cause },
    /// The answer began and did not end.
    #[error("{0}")]
    Body(Cause),
    #[error("the response is larger than {limit} bytes")]
    TooLarge { limit: usize },
}

/// What an APIService says, as far as it matters for reaching the server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spec {
    gv: GroupVersion,
    group_priority: i64,
    version_priority: i64,
    /// Namespace, name and port.
    service: (String, String, u16),
    /// From the annotation; an address that cannot be read is an error, not an absence.
    address: Option<Result<Address, String>>,
    bundle: String,
    skips_verification: bool,
}

#[derive(Default)]
struct Table {
    by_name: BTreeMap<Arc<str>, Arc<Remote>>,
    by_group: HashMap<Arc<str>, Vec<Arc<Remote>>>,
    /// Best first.
    ordered: Vec<Arc<Remote>>,
}

impl Remotes {
    /// Services are found by `resolver` and dialled as `egress` allows; `identity` is the certificate that
    /// lets remotes believe what this server says about callers.
    pub fn new(
        resolver: Arc<dyn Resolve>,
        egress: Egress,
        identity: Option<Arc<dyn ResolvesClientCert>>,
    ) -> Self {
        Self {
            resolver,
            egress,
            identity,
            table: ArcSwap::default(),
            writing: Mutex::default(),
            version: watch::Sender::new(0),
            conversion: Semaphore::new(1),
        }
    }

    /// Takes an APIService as it is now. One that names no Service is local, and no remote. What is
    /// known of a remote outlives a change of its spec, its connections do not.
    pub fn put(&self, name: &str, object: &Value) {
        let Some(spec) = Spec::read(object) else { return self.remove(name) };
        let available = is_available(object);
        if self.set_available(name, &spec, available) {
            return;
        }
        let client = spec.client(&self.egress, self.identity.clone());
        let remote = Arc::new(Remote::new(name, spec, client, available, self.resolver.clone()));
        self.replace(|remotes| {
            let old = remotes.insert(remote.name.clone(), remote.clone());
            if let Some(old) = old.filter(|old| old.gv == remote.gv) {
                remote.discovery.store(old.discovery.load_full());
                remote.openapi.store(old.openapi.load_full());
            }
        });
    }

    /// Takes from an APIService whether its remote is available, if there is one and it is of this spec.
    pub fn announce(&self, name: &str, object: &Value) {
        if let Some(spec) = Spec::read(object) {
            self.set_available(name, &spec, is_available(object));
        }
    }

    /// Whether there is a remote of this name and spec.
    fn set_available(&self, name: &str, spec: &Spec, available: bool) -> bool {
        let table = self.table.load();
        let Some(known) = table.by_name.get(name).filter(|known| known.spec == *spec) else { return false };
        if known.available.swap(available, Ordering::AcqRel) != available {
            self.touch();
        }
        true
    }

    pub fn remove(&self, name: &str) {
        if self.table.load().by_name.contains_key(name) {
            self.replace(|remotes| {
                remotes.remove(name);
            });
        }
    }

    pub fn get(&self, group: &str, version: &str) -> Option<Arc<Remote>> {
        let table = self.table.load();
        table.by_group.get(group)?.iter().find(|remote| &*remote.gv.version == version).cloned()
    }

    /// Best first: groups by their highest priority, then by name; versions of a group by theirs, then
    /// as Kubernetes orders versions.
    pub fn all(&self) -> Vec<Arc<Remote>> {
        self.table.load().ordered.clone()
    }

    /// Whose turn it is to convert a document, of all that are followed.
    pub(crate) fn conversion(&self) -> &Semaphore {
        &self.conversion
    }

    /// The certificate that is shown has changed: connections that were made with the old one have no
    /// further requests.
    pub fn retire_connections(&self) {
        for remote in self.table.load().by_name.values() {
            if let Ok(client) = &remote.client {
                client.retire();
            }
        }
    }

    /// Counts changes: of the table, of what is available, and what [`Remotes::touch`] is told.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Something about a remote has changed that others may want to look at.
    pub fn touch(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    fn replace(&self, change: impl FnOnce(&mut BTreeMap<Arc<str>, Arc<Remote>>)) {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.table.load_full();
        let mut remotes = old.by_name.clone();
        change(&mut remotes);
        let table = Arc::new(Table::of(remotes));
        self.table.store(table.clone());
        drop(writing);
        for (name, remote) in &old.by_name {
            if !table.by_name.get(name).is_some_and(|now| Arc::ptr_eq(now, remote)) {
                remote.gone.send_replace(true);
            }
        }
        self.touch();
    }
}

impl Default for Remotes {
    /// None, and none that could be reached but by its own address.
    fn default() -> Self {
        Self::new(Arc::new(ClusterDns), Egress::default(), None)
    }
}

impl Remote {
    fn new(
        name: &str,
        spec: Spec,
        client: Result<Client, SetupError>,
        available: bool,
        resolver: Arc<dyn Resolve>,
    ) -> Self {
        Self {
            name: name.into(),
            gv: spec.gv.clone(),
            group_priority: spec.group_priority,
            version_priority: spec.version_priority,
            discovery: ArcSwapOption::empty(),
            openapi: ArcSwap::default(),
            client,
            spec,
            resolver,
            available: AtomicBool::new(available),
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            long_running: Arc::new(Semaphore::new(MAX_LONG_RUNNING)),
            gone: watch::Sender::new(false),
        }
    }

    /// What the `Available` condition of its APIService says.
    pub fn is_available(&self) -> bool {
        self.available.load(Ordering::Acquire)
    }

    /// Ready when this remote is no longer in the table.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut gone = self.gone.subscribe();
        async move {
            // Fails only when the remote has been dropped, which is the same.
            let _ = gone.wait_for(|gone| *gone).await;
        }
    }

    /// Namespace and name of its Service, and the port.
    pub fn service(&self) -> (&str, &str, u16) {
        let (namespace, name, port) = &self.spec.service;
        (namespace, name, *port)
    }

    /// Whether its place is written in the APIService itself, so that no Service is looked for.
    pub fn has_address(&self) -> bool {
        self.spec.address.is_some()
    }

    /// Where it is now: its own address, or what its Service leads to.
    pub fn address(&self) -> Result<Address, String> {
        let (namespace, name, port) = self.service();
        match &self.spec.address {
            Some(address) => address.clone(),
            None => self.resolver.service(namespace, name, port),
        }
    }

    /// `https://HOST:PORT`, where it is now.
    pub fn location(&self) -> Result<String, String> {
        self.address().map(|address| format!("https://{address}"))
    }

    /// Why it cannot be reached whatever happens: a bundle without certificates, say.
    pub fn misconfigured(&self) -> Option<&SetupError> {
        self.client.as_ref().err()
    }

    /// Asks on the server's own account and reads at most `limit` bytes within `time`, all in all. A
    /// redirect is an answer like any other. Whom it is asked as is the aggregator, unless `headers`
    /// name somebody.
    pub async fn get(
        &self,
        path_and_query: &str,
        headers: HeaderMap,
        limit: usize,
        time: Duration,
    ) -> Result<Fetched, FetchError> {
        let end = machine::now() + time;
        let place = self.location();
        let url = format!("{}{path_and_query}", place.as_deref().unwrap_or("https://"));
        let failed = |cause| FetchError::Transport { url: url.clone(), cause };
        let client = self.client().map_err(failed)?;
        place.map_err(|problem| failed(Cause::Service(problem)))?;
        let uri: Uri = url.parse().map_err(|_| failed(Cause::Other("invalid URL".into())))?;
        let mut request = Request::new(empty());
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        if !headers.contains_key(REMOTE_USER) {
            headers.insert(REMOTE_USER, HeaderValue::from_static(AGGREGATOR));
            headers.insert(REMOTE_GROUP, HeaderValue::from_static(AGGREGATOR_GROUP));
        }
        headers
            .entry(header::USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("sternpost/", env!("CARGO_PKG_VERSION"))));
        let answer = match machine::timeout_at(end, client.request(request)).await {
            Err(_) => return Err(failed(Cause::Deadline)),
            Ok(answer) => answer.map_err(failed)?,
        };
        let (head, body) = answer.into_parts();
        let body = match machine::timeout_at(end, body.read(limit)).await {
            Err(_) => return Err(FetchError::Body(Cause::BodyDeadline)),
            Ok(body) => body.map_err(FetchError::Body)?,
        };
        if !body.is_whole {
            return Err(FetchError::TooLarge { limit });
        }
        Ok(Fetched { status: head.status, headers: head.headers, body: body.bytes })
    }

    /// `None` if as many requests wait for it as may.
    pub(crate) fn enter(&self, is_long_running: bool) -> Option<Permit> {
        let long_running = match is_long_running {
            true => Some(self.long_running.clone().try_acquire_owned().ok()?),
            false => None,
        };
        Some(Permit { _one: self.in_flight.clone().try_acquire_owned().ok()?, _long_running: long_running })
    }

    pub(crate) fn client(&self) -> Result<&Client, Cause> {
        self.client.as_ref().map_err(|problem| Cause::Other(problem.to_string()))
    }
}

impl Table {
    fn of(by_name: BTreeMap<Arc<str>, Arc<Remote>>) -> Self {
        let mut by_group: HashMap<Arc<str>, Vec<Arc<Remote>>> = HashMap::new();
        for remote in by_name.values() {
            by_group.entry(remote.gv.group.clone()).or_default().push(remote.clone());
        }
        let priority: HashMap<&str, i64> = by_group
            .iter()
            .map(|(group, remotes)| {
                let highest = remotes.iter().map(|remote| remote.group_priority).max();
                (&**group, highest.unwrap_or_default())
            })
            .collect();
        let mut ordered: Vec<Arc<Remote>> = by_name.values().cloned().collect();
        let of = |remote: &Remote| priority.get(&*remote.gv.group).copied().unwrap_or_default();
        ordered.sort_by(|a, b| {
            of(b)
                .cmp(&of(a))
                .then_with(|| a.gv.group.cmp(&b.gv.group))
                .then_with(|| b.version_priority.cmp(&a.version_priority))
                .then_with(|| compare_versions(&a.gv.version, &b.gv.version))
        });
        Self { by_name, by_group, ordered }
    }
}

impl Spec {
    /// `None` for what is local.
    fn read(object: &Value) -> Option<Self> {
        let spec = object.get("spec")?;
        let service = spec.get("service").filter(|service| !service.is_null())?;
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let number = |field: &str| spec.get(field).and_then(Value::as_i64).unwrap_or_default();
        let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(ADDRESS));
        Some(Self {
            gv: GroupVersion::new(text(spec, "group"), text(spec, "version")),
            group_priority: number("groupPriorityMinimum"),
            version_priority: number("versionPriority"),
            service: (text(service, "namespace"), text(service, "name"), port.unwrap_or(DEFAULT_PORT)),
            address: annotation.and_then(Value::as_str).map(read_address),
            bundle: text(spec, "caBundle"),
            skips_verification: spec.get("insecureSkipTLSVerify").and_then(Value::as_bool).unwrap_or(false),
        })
    }

    fn client(
        &self,
        egress: &Egress,
        identity: Option<Arc<dyn ResolvesClientCert>>,
    ) -> Result<Client, SetupError> {
        let trust = match (self.skips_verification, self.bundle.as_str()) {
            (true, _) => Trust::Anybody,
            (false, "") => Trust::Machine,
            (false, bundle) => Trust::bundle(bundle)?,
        };
        let (namespace, name, _) = &self.service;
        // An address that the APIService has itself is not the Service's.
        let via = if self.address.is_some() { Via::Other } else { Via::service(namespace, name) };
        let name = ServerName::try_from(format!("{name}.{namespace}.svc"))
            .map_err(|_| SetupError::Name("the service"))?;
        Ok(Client::new(Settings {
            tls: client_tls(trust, identity)?,
            // So that a watch is a stream and not a connection.
            protocols: Protocols::Http2OrHttp1,
            name: Some(name),
            egress: egress.clone(),
            via,
            proxy: None,
            idle: IDLE,
        }))
    }
}

/// `HOST:PORT`, with brackets around an IPv6 address.
fn read_address(text: &str) -> Result<Address, String> {
    let invalid = || format!("annotation {ADDRESS}: {} is not HOST:PORT", go_quote(text));
    let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bare {
        Some(host) => host.parse::<std::net::Ipv6Addr>().ok().map(|_| host),
        None => Some(host).filter(|host| ServerName::try_from(*host).is_ok() && !host.contains(':')),
    };
    let port = port.parse().ok().filter(|port| *port != 0);
    host.zip(port).map(|(host, port)| Address { host: host.to_owned(), port }).ok_or_else(invalid)
}

fn is_available(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let is = |condition: &Value, field: &str, value: &str| condition.get(field).is_some_and(|it| it == value);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| is(condition, "type", "Available") && is(condition, "status", "True"))
}

impl fmt::Debug for Remotes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.all()).finish()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Remote")
            .field("name", &self.name)
            .field("available", &self.is_available())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use serde_json::json;

    fn remotes() -> Remotes {
        Remotes::new(Arc::new(ClusterDns), Egress::default(), None)
    }

    fn service(group: &str, version: &str, priorities: (i64, i64), available: &str) -> Value {
        json!({
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": priorities.0, "versionPriority": priorities.1,
                "service": {"namespace": "ns", "name": "svc"},
                "insecureSkipTLSVerify": true,
            },
            "status": {"conditions": [{"type": "Available", "status": available}]},
        })
    }

    #[test]
    fn the_best_come_first() {
        let remotes = remotes();
        for (group, version, priorities) in [
            ("b.example", "v1", (100, 10)),
            ("a.example", "v1", (100, 10)),
            ("c.example", "v1", (50, 10)),
            ("c.example", "v1beta1", (2000, 10)),
            ("c.example", "v2", (50, 5)),
            ("c.example", "v3", (50, 10)),
        ] {
            remotes.put(&format!("{version}.{group}"), &service(group, version, priorities, "True"));
        }
        let names: Vec<String> = remotes.all().iter().map(|remote| remote.name.to_string()).collect();
        assert_eq!(
            names,
            [
                "v3.c.example",
                "v1.c.example",
                "v1beta1.c.example",
                "v2.c.example",
                "v1.a.example",
                "v1.b.example"
            ]
        );
    }

    #[test]
    fn what_goes_on_leaves_room_for_what_does_not() {
        let remotes = remotes();
        remotes.put("v1.a.example", &service("a.example", "v1", (1, 1), "True"));
        let remote = remotes.get("a.example", "v1").unwrap();
        let mut watches: Vec<Permit> = (0..MAX_LONG_RUNNING).map(|_| remote.enter(true).unwrap()).collect();
        assert!(remote.enter(true).is_none());
        let others: Vec<Permit> =
            (MAX_LONG_RUNNING..MAX_IN_FLIGHT).map(|_| remote.enter(false).unwrap()).collect();
        assert!(remote.enter(false).is_none());
        watches.pop();
        assert!(remote.enter(true).is_some());
        drop(others);
        assert!(remote.enter(false).is_some());
    }

    #[test]
    fn a_remote_is_found_by_its_group_version_alone() {
        let remotes = remotes();
        remotes.put("v1.a.example", &service("a.example", "v1", (1, 1), "True"));
        for (group, version, found) in
            [("a.example", "v1", true), ("a.example", "v2", false), ("a", "v1", false), ("", "v1", false)]
        {
            assert_eq!(remotes.get(group, version).is_some(), found, "{group}/{version}");
        }
        remotes.remove("v1.a.example");
        assert!(remotes.get("a.example", "v1").is_none());
    }

    #[test]
    fn availability_is_announced_of_what_is_there_alone() {
        let remotes = remotes();
        let object = |priority, available| service("a.example", "v1", (priority, 1), available);
        remotes.announce("v1.a.example", &object(1, "True"));
        assert!(remotes.get("a.example", "v1").is_none());
        remotes.put("v1.a.example", &object(1, "False"));
        let remote = remotes.get("a.example", "v1").unwrap();
        // Of another spec, which is not this server's.
        remotes.announce("v1.a.example", &object(2, "True"));
        assert!(!remote.is_available());
        remotes.announce("v1.a.example", &object(1, "True"));
        assert!(remote.is_available());
        remotes.announce("v1.a.example", &object(1, "False"));
        assert!(!remote.is_available());
        assert!(Arc::ptr_eq(&remotes.get("a.example", "v1").unwrap(), &remote));
    }

    #[test]
    fn a_status_changes_a_remote_and_a_spec_makes_another() {
        let remotes = remotes();
        let mut seen = remotes.changed();
        let mut changes = || {
            let changed = seen.has_changed().unwrap();
            seen.mark_unchanged();
            changed
        };
        let mut object = service("a.example", "v1", (1, 1), "True");
        remotes.put("v1.a.example", &object);
        let first = remotes.get("a.example", "v1").unwrap();
        let learned = Arc::new(discovery::Learned::default());
        first.discovery.store(Some(learned.clone()));
        assert!(changes() && first.is_available());

        remotes.put("v1.a.example", &object);
        assert!(!changes());

        object["status"] = json!({"conditions": [{"type": "Available", "status": "False"}]});
        remotes.put("v1.a.example", &object);
        assert!(changes() && !first.is_available());
        assert!(first.gone().now_or_never().is_none());

        object["spec"]["versionPriority"] = json!(7);
        remotes.put("v1.a.example", &object);
        let second = remotes.get("a.example", "v1").unwrap();
        assert!(changes() && !Arc::ptr_eq(&first, &second));
        assert!(first.gone().now_or_never().is_some());
        assert!(second.gone().now_or_never().is_none());
        let kept = second.discovery.load_full().unwrap();
        assert!(Arc::ptr_eq(&kept, &learned));

        object["spec"]["service"] = Value::Null;
        remotes.put("v1.a.example", &object);
        assert!(changes() && remotes.all().is_empty());
        assert!(second.gone().now_or_never().is_some());
    }

    #[test]
    fn available_is_what_the_condition_says() {
        for (conditions, expected) in [
            (json!([{"type": "Available", "status": "True"}]), true),
            (json!([{"type": "Available", "status": "False"}]), false),
            (json!([{"type": "Available", "status": "Unknown"}]), false),
            (json!([{"type": "Other", "status": "True"}]), false),
            (json!([]), false),
            (Value::Null, false),
        ] {
            assert_eq!(
                is_available(&json!({"status": {"conditions": conditions}})),
                expected,
                "{conditions}"
            );
        }
    }

    #[test]
    fn an_address_of_its_own_takes_the_place_of_a_service() {
        for (text, expected) in [
            (None, Ok("svc.ns.svc:443")),
            (Some("127.0.0.1:8443"), Ok("127.0.0.1:8443")),
            (Some("[::1]:8443"), Ok("[::1]:8443")),
            (Some("localhost:1"), Ok("localhost:1")),
            (Some("127.0.0.1"), Err("\"127.0.0.1\"")),
            (Some("127.0.0.1:0"), Err("\"127.0.0.1:0\"")),
            (Some("127.0.0.1:65536"), Err("\"127.0.0.1:65536\"")),
            (Some("::1:5"), Err("\"::1:5\"")),
            (Some("[a]:5"), Err("\"[a]:5\"")),
            (Some("https://a:5"), Err("\"https://a:5\"")),
            (Some(":5"), Err("\":5\"")),
            (Some(""), Err("\"\"")),
        ] {
            let mut object = service("a.example", "v1", (1, 1), "True");
            if let Some(text) = text {
                object["metadata"]["annotations"] = json!({ADDRESS: text});
            }
            let remotes = remotes();
            remotes.put("v1.a.example", &object);
            let remote = remotes.get("a.example", "v1").unwrap();
            let expected = expected
                .map(str::to_owned)
                .map_err(|quoted| format!("annotation {ADDRESS}: {quoted} is not HOST:PORT"));
            assert_eq!(remote.address().map(|address| address.to_string()), expected);
            assert_eq!(remote.has_address(), text.is_some());
        }
    }

    #[tokio::test]
    async fn what_cannot_be_reached_says_why() {
        let remotes = remotes();
        let mut object = service("a.example", "v1", (1, 1), "True");
        object["metadata"]["annotations"] = json!({ADDRESS: "nonsense"});
        remotes.put("v1.a.example", &object);
        let remote = remotes.get("a.example", "v1").unwrap();
        let asked = |remote: Arc<Remote>| async move {
            let time = Duration::from_secs(1);
            remote.get("/apis/a.example/v1", HeaderMap::new(), 10, time).await.unwrap_err().to_string()
        };
        assert!(asked(remote).await.ends_with("\"nonsense\" is not HOST:PORT"));

        object["spec"]["insecureSkipTLSVerify"] = json!(false);
        object["spec"]["caBundle"] = json!("Z2FyYmFnZQ==");
        remotes.put("v1.a.example", &object);
        let remote = remotes.get("a.example", "v1").unwrap();
        assert!(remote.misconfigured().is_some());
        assert!(asked(remote).await.ends_with("unable to parse bytes as PEM block"));
    }
}
