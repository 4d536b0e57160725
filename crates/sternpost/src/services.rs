//! Where Services lead, by their objects: without a cluster there is no DNS that knows them, and often
//! no network in which their addresses would mean anything.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::Value;
use sternpost_cache::{Cache, Labelled, ResourceId};
use sternpost_outbound::{Address, Resolve};

/// How a Service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// At its endpoints if there are any that are ready, else at its own address.
    #[default]
    Either,
    /// At its endpoints (`--enable-aggregator-routing`).
    Endpoints,
    /// At its own address, which somebody else leads on (`--enable-aggregator-routing=false`).
    ClusterIp,
}

/// Finds Services.
#[derive(Debug)]
pub struct Services {
    cache: Arc<Cache>,
    routing: Routing,
    /// Endpoints are taken in turn.
    turn: AtomicUsize,
}

const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Services {
    pub fn new(cache: Arc<Cache>, routing: Routing) -> Self {
        Self { cache, routing, turn: AtomicUsize::new(0) }
    }

    /// Places that are ready for the port of that name. EndpointSlices are asked, and Endpoints if
    /// there is no slice: nobody mirrors them here.
    fn endpoints(&self, namespace: &str, name: &str, port: &str) -> Vec<Address> {
        let slices = self.cache.resource(&ResourceId::new("discovery.k8s.io", "endpointslices"));
        let values = [name.to_owned()];
        let mine = [Labelled { key: SERVICE_NAME, values: &values }];
        let (_, slices) = slices.labelled(&mine, Some(namespace), None);
        let slices: Vec<_> =
            slices.into_iter().filter(|slice| slice.label(SERVICE_NAME) == Some(name)).collect();
        if slices.is_empty() {
            let endpoints = self.cache.resource(&ResourceId::new("", "endpoints")).snapshot();
            return endpoints
                .get(namespace, name)
                .map_or_else(Vec::new, |it| of_endpoints(&it.value(), port));
        }
        slices.iter().flat_map(|slice| of_slice(&slice.value(), port)).collect()
    }
}

impl Resolve for Services {
    fn service(&self, namespace: &str, name: &str, port: u16) -> Result<Address, String> {
        let services = self.cache.resource(&ResourceId::new("", "services")).snapshot();
        let service = services.get(namespace, name).ok_or_else(|| format!("service \"{name}\" not found"))?;
        let spec = service.value().get("spec").cloned().unwrap_or_default();
        let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("type") == "ExternalName" {
            return match self.routing {
                Routing::Endpoints => Err("unsupported service type \"ExternalName\"".into()),
                Routing::Either | Routing::ClusterIp => {
                    Ok(Address { host: text("externalName").into(), port })
                }
            };
        }
        let found = items(&spec, "ports").find(|found| found.get("port") == Some(&port.into()));
        if self.routing != Routing::ClusterIp
            && let Some(found) = found
        {
            let port_name = found.get("name").and_then(Value::as_str).unwrap_or_default();
            let places = self.endpoints(namespace, name, port_name);
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            if let Some(place) = turn.checked_rem(places.len()).and_then(|turn| places.get(turn)) {
                return Ok(place.clone());
            }
            if self.routing == Routing::Endpoints {
                return Err(format!("no endpoints available for service \"{name}\""));
            }
        }
        let address = match text("clusterIP") {
            address @ ("" | "None") if self.routing != Routing::Endpoints => {
                return Err(format!("cannot route to service with ClusterIP \"{address}\""));
            }
            address => address,
        };
        match found {
            Some(_) => Ok(Address { host: address.into(), port }),
            None => Err(format!("no service port {port} found for service \"{name}\"")),
        }
    }
}

fn of_slice(slice: &Value, port: &str) -> Vec<Address> {
    let Some(port) = port_named(slice, port) else { return Vec::new() };
    // Nothing said is ready.
    let is_ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    items(slice, "endpoints")
        .filter(is_ready)
        // All addresses of one endpoint are the same; the first is to be used.
        .filter_map(|endpoint| items(endpoint, "addresses").next()?.as_str())
        .map(|address| Address { host: address.into(), port })
        .collect()
}

fn of_endpoints(endpoints: &Value, port: &str) -> Vec<Address> {
    items(endpoints, "subsets")
        .filter_map(|subset| Some((subset, port_named(subset, port)?)))
        .flat_map(|(subset, port)| {
            items(subset, "addresses")
                .filter_map(|address| address.get("ip")?.as_str())
                .map(move |address| Address { host: address.into(), port })
        })
        .collect()
}

fn port_named(parent: &Value, name: &str) -> Option<u16> {
    let is_it = |port: &&Value| port.get("name").and_then(Value::as_str).unwrap_or_default() == name;
    let port = items(parent, "ports").find(is_it)?;
    port.get("port")?.as_u64().and_then(|port| u16::try_from(port).ok())
}

fn items<'a>(parent: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    parent.get(field).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sternpost_cache::{Indexer, Pairs, encode, object_key};
    use sternpost_store::{Store, Transaction, memory::MemoryStore};

    use super::*;

    struct Nothing;

    impl Indexer for Nothing {
        fn fields(&self, _: &ResourceId, _: &[u8]) -> Pairs {
            Pairs::default()
        }
    }

    async fn cache() -> Arc<Cache> {
        let store = Arc::new(MemoryStore::default());
        let slice = |service: &str, ready: Value, port: u16| {
            json!({
                "metadata": {"labels": {SERVICE_NAME: service}},
                "ports": [{"name": "other", "port": 1}, {"name": "https", "port": port}],
                "endpoints": [
                    {"addresses": ["192.0.2.1"], "conditions": {"ready": false}},
                    {"addresses": ["192.0.2.2", "192.0.2.3"], "conditions": {"ready": ready}},
                ],
            })
        };
        let ports = json!([{"name": "https", "port": 443, "targetPort": 8443}]);
        let headless = json!({"clusterIP": "None", "ports": ports});
        let plain = json!({"clusterIP": "10.0.0.7", "ports": ports});
        for (plural, name, object) in [
            ("services", "plain", json!({"spec": plain})),
            ("services", "headless", json!({"spec": headless})),
            ("services", "outside", json!({"spec": {"type": "ExternalName", "externalName": "example.org"}})),
            ("services", "sliced", json!({"spec": plain})),
            ("services", "unready", json!({"spec": plain})),
            ("services", "old", json!({"spec": headless})),
            ("endpointslices", "sliced-1", slice("sliced", Value::Null, 8443)),
            ("endpointslices", "unready-1", slice("unready", false.into(), 8443)),
            ("endpointslices", "unready-2", slice("another", true.into(), 8443)),
            (
                "endpoints",
                "old",
                json!({"subsets": [
                    {"addresses": [{"ip": "192.0.2.8"}], "ports": [{"name": "other", "port": 9}]},
                    {"addresses": [{"ip": "192.0.2.9"}], "notReadyAddresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "https", "port": 9}]},
                ]}),
            ),
            (
                "endpoints",
                "sliced",
                json!({"subsets": [{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"name": "https", "port": 9}]}]}),
            ),
        ] {
            let group = if plural == "endpointslices" { "discovery.k8s.io" } else { "" };
            let key = object_key(&ResourceId::new(group, plural), "ns", name);
            let mut object = object;
            object["metadata"]["name"] = name.into();
            object["metadata"]["uid"] = "u".into();
            store.commit(Transaction::create(key, encode(&object))).await.unwrap();
        }
        let (cache, _feeder) = Cache::start(store, Box::new(Nothing)).await.unwrap();
        cache
    }

    #[tokio::test]
    async fn services_are_found_by_their_objects() {
        let cache = cache().await;
        let [either, endpoints, cluster_ip] = [Routing::Either, Routing::Endpoints, Routing::ClusterIp]
            .map(|routing| Services::new(cache.clone(), routing));
        let no_port = "no service port 80 found for service \"plain\"";
        let no_route = "cannot route to service with ClusterIP \"None\"";
        for (name, port, anyhow, by_endpoints, by_address) in [
            (
                "plain",
                443,
                Ok("10.0.0.7:443"),
                Err("no endpoints available for service \"plain\""),
                Ok("10.0.0.7:443"),
            ),
            ("plain", 80, Err(no_port), Err(no_port), Err(no_port)),
            (
                "headless",
                443,
                Err(no_route),
                Err("no endpoints available for service \"headless\""),
                Err(no_route),
            ),
            (
                "outside",
                443,
                Ok("example.org:443"),
                Err("unsupported service type \"ExternalName\""),
                Ok("example.org:443"),
            ),
            ("sliced", 443, Ok("192.0.2.2:8443"), Ok("192.0.2.2:8443"), Ok("10.0.0.7:443")),
            (
                "unready",
                443,
                Ok("10.0.0.7:443"),
                Err("no endpoints available for service \"unready\""),
                Ok("10.0.0.7:443"),
            ),
            ("old", 443, Ok("192.0.2.9:9"), Ok("192.0.2.9:9"), Err(no_route)),
            (
                "missing",
                443,
                Err("service \"missing\" not found"),
                Err("service \"missing\" not found"),
                Err("service \"missing\" not found"),
            ),
        ] {
            for (services, expected) in
                [(&either, anyhow), (&endpoints, by_endpoints), (&cluster_ip, by_address)]
            {
                let found = services.service("ns", name, port).map(|address| address.to_string());
                let expected = expected.map(String::from).map_err(String::from);
                assert_eq!(found, expected, "{name}:{port} {:?}", services.routing);
            }
        }
        assert!(either.service("elsewhere", "sliced", 443).is_err());
    }

    #[tokio::test]
    async fn endpoints_take_turns() {
        let slice = json!({
            "ports": [{"port": 1}],
            "endpoints": [{"addresses": ["192.0.2.1"]}, {"addresses": ["192.0.2.2"]}],
        });
        let found: Vec<String> = of_slice(&slice, "").iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:1", "192.0.2.2:1"]);
        assert!(of_slice(&slice, "https").is_empty());
    }
}
