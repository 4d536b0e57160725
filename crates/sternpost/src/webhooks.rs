//! Calling webhooks on behalf of the registry.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value;
use sternpost_outbound::{Egress, Resolve};
use sternpost_verbs::custom::{Called, Callouts};
use sternpost_webhook::{Client, ClientConfig, ConfigError};

/// Configurations whose connections are kept. There are as many as there are webhooks; those that
/// nobody uses any more go when it gets too many.
const MAX_CONFIGS: usize = 256;

/// Calls webhooks.
#[derive(Debug)]
pub struct Webhooks {
    client: Client,
    egress: Egress,
    configs: Mutex<HashMap<String, ClientConfig>>,
}

impl Webhooks {
    pub fn new(services: Arc<dyn Resolve>, egress: Egress) -> Self {
        Self { client: Client::new(services), egress, configs: Mutex::default() }
    }

    fn config(&self, config: &Value) -> Result<ClientConfig, ConfigError> {
        let key = config.to_string();
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = configs.get(&key) {
            return Ok(found.clone());
        }
        let read = ClientConfig::read(config, &self.egress)?;
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
