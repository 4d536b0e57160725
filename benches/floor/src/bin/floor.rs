//! A server that does nothing: TLS, HTTP, and answers of the size that sternpost's have, held ready.
//! A write is appended to a log, and answered when it is durable; watchers are told of it then. No
//! server with these libraries can be cheaper, so what sternpost needs is told as a multiple of it.

use std::{
    convert::Infallible,
    fs::{File, OpenOptions},
    future::poll_fn,
    io::{self, Write},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    pin::pin,
    sync::{Arc, mpsc},
    thread,
};

use anyhow::Context;
use bytes::Bytes;
use clap::Parser;
use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sternpost_cork::Corked;
use sternpost_floor::{AnyBody, config_map, name};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{broadcast, oneshot},
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As much as sternpost holds back.
const MAX_HELD_BYTES: usize = 16 * 1024;

/// How far a watcher may fall behind.
const EVENTS: usize = 1 << 14;

/// How many writes may wait for the log.
const WAITING: usize = 1 << 14;

/// Serves answers that are held ready.
#[derive(Parser)]
struct Options {
    /// The file that writes are appended to.
    #[arg(long)]
    log: PathBuf,

    /// How many objects a list has; a `limit` makes it fewer.
    #[arg(long, default_value_t = 5000)]
    objects: usize,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(options))
}

async fn serve(options: Options) -> anyhow::Result<()> {
    let floor = Arc::new(Floor::new(&options)?);
    let tls = TlsAcceptor::from(Arc::new(certificate()?));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(io::stdout(), "ready on {}", listener.local_addr()?)?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let (floor, tls) = (floor.clone(), tls.clone());
        connections.spawn(async move {
            // One that breaks is the client's matter.
            let _ = connection(stream, tls, floor).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

fn certificate() -> anyhow::Result<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, floor: Arc<Floor>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = tls.accept(stream).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let floor = floor.clone();
        async move { Ok::<_, Infallible>(floor.answer(request).await) }
    });
    if is_http2 {
        let stream = Corked::new(stream, MAX_HELD_BYTES);
        let connection = http2::Builder::new(TokioExecutor::new());
        let mut connection = pin!(connection.serve_connection(TokioIo::new(stream.clone()), service));
        poll_fn(|context| {
            let polled = connection.as_mut().poll(context);
            if polled.is_pending() {
                stream.uncork(context);
            }
            polled
        })
        .await?;
    } else {
        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
    }
    Ok(())
}

struct Floor {
    object: Bytes,
    /// One object of a list, which starts and ends with what is between them.
    lists: Vec<Bytes>,
    log: mpsc::SyncSender<(Bytes, oneshot::Sender<()>)>,
    events: broadcast::Sender<Bytes>,
}

impl Floor {
    fn new(options: &Options) -> anyhow::Result<Self> {
        let log = log(&options.log).with_context(|| format!("cannot write {}", options.log.display()))?;
        let (events, _) = broadcast::channel(EVENTS);
        let object = Bytes::from(stored(0));
        // A list by pages of 500, and one of all.
        let lists = [500, options.objects].map(|count| {
            let items: Vec<String> = (0..count).map(stored).collect();
            Bytes::from(format!(r#"{{"kind":"ConfigMapList","items":[{}]}}"#, items.join(",")))
        });
        Ok(Self { object, lists: lists.into(), log, events })
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<AnyBody> {
        let query = request.uri().query().unwrap_or_default();
        if request.method() == Method::GET {
            return if query.contains("watch=1") {
                self.watch()
            } else if request.uri().path().ends_with("configmaps") {
                let list = if query.contains("limit=") { self.lists.first() } else { self.lists.last() };
                whole(StatusCode::OK, list.cloned().unwrap_or_default())
            } else {
                whole(StatusCode::OK, self.object.clone())
            };
        }
        let status = if request.method() == Method::POST { StatusCode::CREATED } else { StatusCode::OK };
        let Ok(body) = request.into_body().collect().await else {
            return whole(StatusCode::BAD_REQUEST, Bytes::new());
        };
        let (durable, done) = oneshot::channel();
        let body = body.to_bytes();
        // Fails only if the log is gone, and then the answer is never heard.
        let _ = self.log.try_send((body, durable));
        if done.await.is_err() {
            return whole(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new());
        }
        let mut event = Vec::with_capacity(self.object.len() + 40);
        event.extend_from_slice(br#"{"type":"ADDED","object":"#);
        event.extend_from_slice(&self.object);
        event.extend_from_slice(b"}\n");
        // Nobody may be watching.
        let _ = self.events.send(event.into());
        whole(status, self.object.clone())
    }

    fn watch(&self) -> Response<AnyBody> {
        let events = stream::unfold(self.events.subscribe(), |mut events| async {
            let event = events.recv().await.ok()?;
            Some((Ok::<_, Infallible>(Frame::data(event)), events))
        });
        Response::new(StreamBody::new(events).boxed_unsync())
    }
}

fn whole(status: StatusCode, body: Bytes) -> Response<AnyBody> {
    let mut response = Response::new(Full::new(body).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// An object as a server keeps it: what the client sent, and what the server adds.
fn stored(number: usize) -> String {
    let added = format!(
        r#""uid":"00000000-0000-0000-0000-000000000000","resourceVersion":"{number}","creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{{"manager":"load","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{".":{{}},"f:value":{{}}}}}}}}],"name":"{}""#,
        name(number)
    );
    config_map(number, 'x').replacen(&format!(r#""name":"{}""#, name(number)), &added, 1)
}

/// Appends what comes, all that waits at once, and tells when it is durable.
fn log(path: &Path) -> io::Result<mpsc::SyncSender<(Bytes, oneshot::Sender<()>)>> {
    let mut file: File = OpenOptions::new().create(true).append(true).open(path)?;
    let (sender, receiver) = mpsc::sync_channel::<(Bytes, oneshot::Sender<()>)>(WAITING);
    thread::spawn(move || {
        let mut batch = Vec::new();
        let mut waiting = Vec::new();
        while let Ok(first) = receiver.recv() {
            for (record, durable) in std::iter::once(first).chain(receiver.try_iter()) {
                let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
                batch.extend_from_slice(&length.to_le_bytes());
                batch.extend_from_slice(&crc32fast::hash(&record).to_le_bytes());
                batch.extend_from_slice(&record);
                waiting.push(durable);
            }
            if file.write_all(&batch).and_then(|()| file.sync_data()).is_err() {
                return;
            }
            batch.clear();
            for durable in waiting.drain(..) {
                // The client may have gone.
                let _ = durable.send(());
            }
        }
    });
    Ok(sender)
}
