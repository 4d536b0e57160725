//! Another API server that speaks HTTP/2, and HTTP/1.1 to those who do not; its connections can be counted
//! and broken.

use std::ops::Deref;

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use sternpost_testkit::http2::{Asked, Call, Http2Server};

use super::{api_service, config, resources};

pub struct Http2Extension {
    server: Http2Server,
    bundle: String,
    group: String,
}

impl Http2Extension {
    /// Serves `GROUP/v1`, so many requests at a time on a connection; `proxies` is the authority of front
    /// proxies, in PEM.
    pub async fn start(group: &str, max_streams: u32, proxies: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["ext.ns.svc".to_owned()]).unwrap().self_signed(&key).unwrap();
        let mut config = config(&certificate, &key, proxies);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let list = resources(group).to_string();
        let server = Http2Server::start(config, max_streams, "{\"type\":\"ADD\"}\n", move |url| {
            let action = url.query().and_then(|query| query.split_once("do=")).map(|(_, action)| action);
            match action {
                Some(action) => Asked::Do(action.split('&').next().unwrap_or_default().to_owned()),
                None if url.path().ends_with("/v1") => Asked::Json(list.clone()),
                None => Asked::Do(String::new()),
            }
        })
        .await;
        Self { server, bundle: STANDARD.encode(certificate.pem()), group: group.into() }
    }

    /// An APIService that leads to it.
    pub fn api_service(&self) -> Value {
        api_service(&self.group, self.port, &self.bundle)
    }

    pub fn path(&self, action: &str) -> String {
        format!("/apis/{}/v1/things?do={action}", self.group)
    }

    /// Of clients' requests.
    pub fn calls(&self) -> Vec<Call> {
        self.server.calls().into_iter().filter(|call| call.headers.contains_key("audit-id")).collect()
    }
}

impl Deref for Http2Extension {
    type Target = Http2Server;

    fn deref(&self) -> &Http2Server {
        &self.server
    }
}
