//! One connection to the server, and the two things done with it: a call and a watch.

use std::{sync::Arc, time::Duration};

use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::{
    process::Place,
    tls::{self, HTTP_1},
};

/// No answer may take longer, on however busy a machine.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Opens connections to one server.
#[derive(Clone)]
pub struct Connector {
    address: Arc<str>,
    authorization: Arc<str>,
    tls: TlsConnector,
    late: Late,
}

/// What an answer is that does not come.
#[derive(Clone, Copy)]
enum Late {
    /// The test fails, after [`ANSWER_TIMEOUT`].
    Fails,
    /// It is lost, after as long.
    Lost(Duration),
}

pub struct Client {
    connector: Connector,
    sender: SendRequest<Full<Bytes>>,
}

/// What came of a call.
#[derive(Clone, Debug)]
pub enum Reply {
    Answer(u16, Value),
    /// The connection ended, or whoever asked lost patience, before there was a whole answer. It is of no more use.
    Lost,
}

/// The lines of a running watch.
pub struct Lines {
    body: Incoming,
    rest: Vec<u8>,
    // The connection lives as long as its sender.
    _sender: SendRequest<Full<Bytes>>,
}

/// What came next in a watch.
pub enum Next {
    Line(Value),
    /// Whether the stream ended as a whole one.
    End {
        whole: bool,
    },
    /// Nothing for as long as was asked to wait.
    Silence,
}

impl Connector {
    pub fn new(place: &Place) -> Self {
        Self {
            address: place.address.as_str().into(),
            authorization: format!("Bearer {}", place.token).into(),
            tls: tls::connector(&place.authority_pem(), HTTP_1, None),
            late: Late::Fails,
        }
    }

    /// The same server behind another `HOST:PORT`, through which answers may be lost: those that do not come for
    /// as long as `patience`.
    #[must_use]
    pub fn through(self, address: &str, patience: Duration) -> Self {
        Self { address: address.into(), late: Late::Lost(patience), ..self }
    }

    /// `None` if there is no connection.
    pub async fn connect(&self) -> Option<Client> {
        let sender = self.in_time(self.open(), || "a connection".to_owned()).await?;
        Some(Client { connector: self.clone(), sender })
    }

    /// What comes of some work in time.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Option<T>>,
        what: impl Fn() -> String,
    ) -> Option<T> {
        match self.late {
            Late::Lost(patience) => timeout(patience, work).await.ok().flatten(),
            Late::Fails => match timeout(ANSWER_TIMEOUT, work).await {
                Ok(done) => done,
                Err(_) => panic!("{} took longer than {ANSWER_TIMEOUT:?}", what()),
            },
        }
    }

    async fn open(&self) -> Option<SendRequest<Full<Bytes>>> {
        let stream = tls::connect(&self.address, &self.tls).await.ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        // Ends with the connection.
        tokio::spawn(connection);
        Some(sender)
    }

    fn request(&self, method: &str, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", &*self.address)
            .header("authorization", &*self.authorization)
            .header("content-type", "application/json")
            .body(Full::new(body))
            .unwrap()
    }
}

impl Client {
    pub async fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let body = body.map(|body| body.to_string().into()).unwrap_or_default();
        let request = self.connector.request(method, path, body);
        let connector = self.connector.clone();
        let answered = async {
            self.sender.ready().await.ok()?;
            let response = self.sender.send_request(request).await.ok()?;
            let code = response.status().as_u16();
            let body = response.into_body().collect().await.ok()?.to_bytes();
            Some((code, body))
        };
        match connector.in_time(answered, || format!("{method} {path}")).await {
            Some((code, body)) => {
                let text = || String::from_utf8_lossy(&body).into_owned();
                Reply::Answer(code, serde_json::from_slice(&body).unwrap_or_else(|_| text().into()))
            }
            None => Reply::Lost,
        }
    }

    /// Starts a watch, which takes the connection.
    pub async fn watch(mut self, path: &str) -> Result<Lines, Reply> {
        let request = self.connector.request("GET", path, Bytes::new());
        let connector = self.connector.clone();
        let begun = async { self.sender.send_request(request).await.ok() };
        let response = connector.in_time(begun, || format!("GET {path}")).await.ok_or(Reply::Lost)?;
        let code = response.status().as_u16();
        if code != 200 {
            let refused = async { response.into_body().collect().await.ok() };
            let body = connector.in_time(refused, || format!("GET {path}")).await.ok_or(Reply::Lost)?;
            return Err(Reply::Answer(code, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()));
        }
        Ok(Lines { body: response.into_body(), rest: Vec::new(), _sender: self.sender })
    }
}

impl Lines {
    /// The next whole line. One that was cut off does not count.
    pub async fn next(&mut self, patience: Duration) -> Next {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Next::Line(serde_json::from_slice(&line).unwrap());
            }
            match timeout(patience, self.body.frame()).await {
                Err(_) => return Next::Silence,
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(_))) => return Next::End { whole: false },
                Ok(None) => return Next::End { whole: true },
            }
        }
    }
}
