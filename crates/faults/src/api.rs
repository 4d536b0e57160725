//! What clients talk to: a server behind its link, or in tests a small one with a bug.

use std::{pin::Pin, time::Duration};

use serde_json::Value;
use sternpost_testkit::client::{Client, Connector, Lines, Next, Reply};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens connections.
pub trait Api: Send + Sync {
    /// `None` if there is none to be had.
    fn connect(&self) -> BoxFuture<'_, Option<Box<dyn Session>>>;
}

/// A connection; of no more use when an answer was lost.
pub trait Session: Send {
    fn call<'a>(
        &'a mut self,
        method: &'a str,
        path: &'a str,
        body: Option<&'a Value>,
    ) -> BoxFuture<'a, Reply>;

    /// Takes the connection.
    fn watch<'a>(self: Box<Self>, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Events>, Reply>>;
}

pub trait Events: Send {
    /// The next event; `None` when the watch has ended, however it did.
    fn next(&mut self) -> BoxFuture<'_, Option<Value>>;
}

/// Watches of servers are silent for long: they end when their connection does.
const SILENCE: Duration = Duration::from_secs(24 * 3600);

impl Api for Connector {
    fn connect(&self) -> BoxFuture<'_, Option<Box<dyn Session>>> {
        Box::pin(async {
            let client = Self::connect(self).await?;
            Some(Box::new(client) as Box<dyn Session>)
        })
    }
}

impl Session for Client {
    fn call<'a>(
        &'a mut self,
        method: &'a str,
        path: &'a str,
        body: Option<&'a Value>,
    ) -> BoxFuture<'a, Reply> {
        Box::pin(Self::call(self, method, path, body))
    }

    fn watch<'a>(self: Box<Self>, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Events>, Reply>> {
        Box::pin(async move { Ok(Box::new(Self::watch(*self, path).await?) as Box<dyn Events>) })
    }
}

impl Events for Lines {
    fn next(&mut self) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async {
            match Self::next(self, SILENCE).await {
                Next::Line(line) => Some(line),
                Next::End { .. } | Next::Silence => None,
            }
        })
    }
}
