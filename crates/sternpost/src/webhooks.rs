//! Calling webhooks on behalf of the registry.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value;
use sternpost_cache::{Cache, ResourceId};
use sternpost_verbs::custom::{Called, Callouts};
use sternpost_webhook::{Address, Client, ClientConfig, ConfigError, Resolve};

/// Configurations whose connections are kept. There are as many as there are webhooks; those that
/// nobody uses any more go when it gets too many.
const MAX_CONFIGS: usize = 256;

/// Calls webhooks, and finds the services they name among the objects.
#[derive(Debug)]
pub struct Webhooks {
    client: Client,
    configs: Mutex<HashMap<String, ClientConfig>>,
}

impl Webhooks {
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { client: Client::new(Arc::new(Services(cache))), configs: Mutex::default() }
    }

    fn config(&self, config: &Value) -> Result<ClientConfig, ConfigError> {
        let key = config.to_string();
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = configs.get(&key) {
            return Ok(found.clone());
        }
        let read = ClientConfig::read(config)?;
        if configs.len() >= MAX_CONFIGS {
            configs.clear();
        }
        configs.insert(key, read.clone());
        Ok(read)
    }
}

impl Callouts for Webhooks {
    fn post(&self, config: &Value, body: Bytes, timeout: Duration) -> Called {
        let (client, config) = (self.client.clone(), self.config(config));
        Box::pin(async move {
            let config = config.map_err(|error| error.to_string())?;
            client.post(&config, body, timeout).await.map_err(|error| error.to_string())
        })
    }
}

/// Services by their objects: without a cluster there is no DNS that knows them.
#[derive(Debug)]
struct Services(Arc<Cache>);

impl Resolve for Services {
    fn service(&self, namespace: &str, name: &str, port: u16) -> Result<Address, String> {
        let services = self.0.resource(&ResourceId::new("", "services")).snapshot();
        let service = services.get(namespace, name).ok_or_else(|| format!("service \"{name}\" not found"))?;
        let spec = service.value().get("spec").cloned().unwrap_or_default();
        let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("type") == "ExternalName" {
            return Ok(Address { host: text("externalName").into(), port });
        }
        let address = match text("clusterIP") {
            address @ ("" | "None") => {
                return Err(format!("cannot route to service with ClusterIP \"{address}\""));
            }
            address => address,
        };
        let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
        if !ports.into_iter().any(|found| found.get("port") == Some(&port.into())) {
            return Err(format!("no service port {port} found for service \"{name}\""));
        }
        Ok(Address { host: address.into(), port })
    }
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

    #[tokio::test]
    async fn services_are_found_by_their_objects() {
        let store = Arc::new(MemoryStore::default());
        for (name, spec) in [
            ("plain", json!({"clusterIP": "10.0.0.7", "ports": [{"port": 443}]})),
            ("headless", json!({"clusterIP": "None", "ports": [{"port": 443}]})),
            ("outside", json!({"type": "ExternalName", "externalName": "example.org"})),
        ] {
            let key = object_key(&ResourceId::new("", "services"), "ns", name);
            let object = json!({"metadata": {"name": name, "uid": "u"}, "spec": spec});
            store.commit(Transaction::create(key, encode(&object))).await.unwrap();
        }
        let (cache, _feeder) = Cache::start(store, Box::new(Nothing)).await.unwrap();
        let services = Services(cache);
        for (name, port, expected) in [
            ("plain", 443, Ok("10.0.0.7")),
            ("plain", 80, Err("no service port 80 found for service \"plain\"")),
            ("headless", 443, Err("cannot route to service with ClusterIP \"None\"")),
            ("outside", 443, Ok("example.org")),
            ("missing", 443, Err("service \"missing\" not found")),
        ] {
            let found = services.service("ns", name, port);
            let expected = expected.map(|host| Address { host: host.into(), port }).map_err(String::from);
            assert_eq!(found, expected, "{name}:{port}");
        }
    }
}
