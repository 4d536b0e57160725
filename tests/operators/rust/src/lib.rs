//! An operator in Rust: the kind [`Lighthouse`](kind::Lighthouse), a reconciler
//! with a finalizer that writes by server-side apply, and a webhook served by
//! hyper and rustls. [`operate`] does it all; `tests/operator.rs` uses it.

pub mod kind;
pub mod reconciler;
pub mod webhook;

use kube::{Client, Config};
use webhook::Endpoint;

pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Whom the operator acts as: its role allows no more than it needs.
pub const USER: &str = "lighthouse-operator";

/// Installs the kind, its webhooks and the role as whoever `config` names, then
/// reconciles as [`USER`] until the future is dropped.
pub async fn operate(config: Config, ready: impl FnOnce()) -> Result<(), Problem> {
    let admin = Client::try_from(config.clone())?;
    let endpoint = Endpoint::bind().await?;
    kind::install(&admin).await?;
    reconciler::install_role(&admin).await?;
    webhook::install(&admin, &endpoint).await?;
    let mut own = config;
    own.headers.push(("impersonate-user".try_into()?, USER.try_into()?));
    let controller = reconciler::run(Client::try_from(own)?);
    ready();
    futures::future::join(endpoint.serve(), controller).await;
    Ok(())
}
