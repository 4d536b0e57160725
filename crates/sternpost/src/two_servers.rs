//! Two servers in one process have nothing in common, and one that ends leaves nothing behind.

use std::{fs, path::Path, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use clap::Parser;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sternpost_clock::manual::ManualClock;
use tokio::{net::TcpStream, sync::oneshot, task::JoinHandle};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::{
    cli::{Cli, Command},
    serve::{STACK_BYTES, serve},
};

/// Long after everything that a loaded machine still does.
const AT_LAST: Duration = Duration::from_secs(120);

const HOUR: Duration = Duration::from_secs(3600);

/// 2027-01-15 and 2033-05-18, each at the full second.
const ONE_BEGINS: u64 = 1_800_000_000;
const OTHER_BEGINS: u64 = 2_000_000_000;

struct Server {
    address: String,
    token: String,
    authority: Vec<u8>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<anyhow::Result<()>>,
}

impl Server {
    /// Returns when it is ready.
    async fn start(data: &Path, clock: &ManualClock) -> Self {
        let words = ["sternpost", "serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
        let Command::Serve(args) = Cli::try_parse_from(words).unwrap().command else { panic!("{words:?}") };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let clock = clock.clock();
        let serving = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let ready = |ready: &crate::ready::Ready<'_>| {
                let _ = tell.send((ready.url.to_owned(), ready.kubeconfig.unwrap().to_owned()));
            };
            serve(&args, clock, stopped, ready).await
        });
        let (url, kubeconfig) = told.await.unwrap();
        let config = fs::read_to_string(kubeconfig).unwrap();
        let field = |name: &str| {
            let line = config.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
            line.trim().trim_matches('"').to_owned()
        };
        Self {
            address: url.strip_prefix("https://").unwrap().to_owned(),
            token: field("token:"),
            authority: STANDARD.decode(field("certificate-authority-data:")).unwrap(),
            stop,
            serving,
        }
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.authority).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Bytes) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(Full::new(body.to_string().into()))
            .unwrap();
        let asked = async {
            let answer = self.connect().await.send_request(request).await.unwrap();
            (answer.status().as_u16(), answer.into_body().collect().await.unwrap().to_bytes())
        };
        tokio::time::timeout(AT_LAST, asked).await.unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let (code, body) = self.send("GET", path, &Value::Null).await;
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn create(&self, path: &str, object: &Value) -> (u16, Value) {
        let (code, body) = self.send("POST", path, object).await;
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn until(&self, path: &str, is_so: impl Fn(u16, &Value) -> bool) {
        let waiting = async {
            loop {
                let (code, body) = self.get(path).await;
                if is_so(code, &body) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(AT_LAST, waiting).await.is_ok(), "{path} at {}", self.address);
    }

    /// Defines a resource whose objects have a `size` of this type.
    async fn define(&self, kind: &str) {
        let schema = json!({"type": "object", "properties": {"size": {"type": kind}}});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        let (code, made) = self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
        assert_eq!(code, 201, "{made}");
        self.until("/apis/example.com/v1", |code, _| code == 200).await;
    }

    /// Ends it, and waits until it has.
    async fn stop(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(AT_LAST, self.serving).await.unwrap().unwrap().unwrap();
    }
}

fn widget(name: &str, size: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "size": size})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/api/v1/namespaces/default/events";

#[test]
fn two_servers_in_one_process_have_nothing_in_common() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::spawn(run()).await.unwrap() });
}

async fn run() {
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [data, others_data] = [&data[0], &data[1]].map(|data| data.path().join("data"));
    let (clock, others_clock) = (ManualClock::at(ONE_BEGINS), ManualClock::at(OTHER_BEGINS));
    let one = Server::start(&data, &clock).await;
    let other = Server::start(&others_data, &others_clock).await;

    // The same definition with another schema.
    one.define("integer").await;
    other.define("string").await;
    for (server, fits, does_not) in [(&one, json!(1), json!("1")), (&other, json!("1"), json!(1))] {
        assert_eq!(server.create(WIDGETS, &widget("a", &fits)).await.0, 201);
        let (code, refused) = server.create(WIDGETS, &widget("b", &does_not)).await;
        assert_eq!(code, 422, "{refused}");
    }

    // Versions of their own: what one writes is no news to the other, whose controllers may write a little.
    const MANY: u64 = 60;
    let version = async |server: &Server| -> u64 {
        let (_, list) = server.get(CONFIG_MAPS).await;
        list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    let (before, others_before) = (version(&one).await, version(&other).await);
    for number in 0..MANY {
        assert_eq!(one.create(CONFIG_MAPS, &config_map(&format!("m{number:02}"))).await.0, 201);
    }
    assert!(version(&one).await >= before + MANY);
    assert!(version(&other).await < others_before + MANY);
    assert_eq!(other.get(&format!("{CONFIG_MAPS}/m00")).await.0, 404);

    // Counters of their own: of a definition, a widget and what came since.
    let created = async |server: &Server| -> u64 {
        let (_, text) = server.send("GET", "/metrics", &Value::Null).await;
        let text = String::from_utf8_lossy(&text).into_owned();
        let counts = text
            .lines()
            .filter(|line| line.starts_with("apiserver_request_total{") && line.contains("code=\"201\""));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!((created(&one).await, created(&other).await), (2 + MANY, 2));

    // Time of their own.
    let created = |object: &Value| object["metadata"]["creationTimestamp"].clone();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"namespace": "default"},
    });
    for (server, expected) in [(&one, "2027-01-15T08:00:00Z"), (&other, "2033-05-18T03:33:20Z")] {
        let (code, made) = server.create(EVENTS, &event).await;
        assert_eq!((code, created(&made)), (201, expected.into()));
    }
    let gone = format!("{EVENTS}/e");
    clock.advance(2 * HOUR);
    one.until(&gone, |code, _| code == 404).await;
    assert_eq!(other.get(&gone).await.0, 200, "for the other no time has passed");
    assert_eq!(created(&one.create(CONFIG_MAPS, &config_map("d")).await.1), "2027-01-15T10:00:00Z");
    assert_eq!(created(&other.create(CONFIG_MAPS, &config_map("d")).await.1), "2033-05-18T03:33:20Z");

    // One ends, and nothing is left of it. The other goes on.
    let address = one.address.clone();
    one.stop().await;
    assert!(TcpStream::connect(&address).await.is_err());
    let released = async {
        while clock.holders() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(AT_LAST, released).await.is_ok(), "{} hold its clock", clock.holders());
    assert_eq!(other.create(CONFIG_MAPS, &config_map("e")).await.0, 201);
    assert_eq!(other.create(WIDGETS, &widget("c", &json!("2"))).await.0, 201);

    // What it kept is there for the next, and nothing that the other has.
    let again = Server::start(&data, &clock).await;
    let names = |list: &Value| -> Vec<Value> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].clone()).filter(|name| name != "kube-root-ca.crt").collect()
    };
    let kept = names(&again.get(CONFIG_MAPS).await.1);
    assert_eq!((kept.len() as u64, kept[0].as_str()), (MANY + 1, Some("d")));
    again.until("/apis/example.com/v1", |code, _| code == 200).await;
    assert_eq!(again.get(WIDGETS).await.1["items"][0]["size"], 1);
    assert_eq!(names(&other.get(CONFIG_MAPS).await.1), ["d", "e"]);
    again.stop().await;
    other.stop().await;
}
