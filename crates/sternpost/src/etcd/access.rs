//! Which etcd, and how it is reached.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use clap::{Args, builder::NonEmptyStringValueParser};
use sternpost_outbound::{Trust, client_certificate, client_tls};
use sternpost_store_etcd::{Access, DEFAULT_PATIENCE, Endpoint, EtcdStore, Observe, Options};
use tokio::runtime::Handle;

use super::overrides::{Division, Override};
use crate::config_file::read;

/// The flags, which are kube-apiserver's.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "etcd")]
pub struct AccessArgs {
    /// The etcd that the kube-apiserver of a cluster keeps its objects in: the URLs of its members
    #[arg(long, value_name = "URL,...", value_delimiter = ',', value_parser = Endpoint::parse)]
    pub etcd_servers: Vec<Endpoint>,

    /// What kube-apiserver's keys begin with
    #[arg(long, value_name = "PATH", default_value = "/registry", value_parser = NonEmptyStringValueParser::new())]
    pub etcd_prefix: String,

    /// Certificates (PEM) of the authorities that vouch for etcd [default: those that the machine knows]
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    pub etcd_cafile: Option<PathBuf>,

    /// Certificate (PEM) by which etcd knows this program
    #[arg(long, value_name = "FILE", requires = "etcd_servers", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,

    /// Private key (PEM) of --etcd-certfile
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,

    /// Built-in resources that are in another etcd than --etcd-servers, each with the URLs of its members:
    /// `/events#https://a:2379;https://b:2379`
    #[arg(
        long,
        value_name = "GROUP/RESOURCE#URL;URL,...",
        value_delimiter = ',',
        requires = "etcd_servers",
        value_parser = Override::parse
    )]
    pub etcd_servers_overrides: Vec<Override>,
}

impl AccessArgs {
    /// Whether objects are in etcd.
    pub fn is_used(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// Which etcd has what.
    pub fn division(&self) -> anyhow::Result<Division> {
        Division::of(&self.etcd_servers, &self.etcd_servers_overrides)
    }

    /// What stands before all keys. Ends in a slash.
    pub fn prefix(&self) -> String {
        match self.etcd_prefix.trim_matches('/') {
            "" => "/".to_owned(),
            path => format!("/{path}/"),
        }
    }

    /// What is below the prefix, with whoever is told how long etcd takes. Begins to connect, on the runtime that this is
    /// called on.
    pub fn connect(&self, observer: Option<Arc<dyn Observe>>) -> anyhow::Result<EtcdStore> {
        self.connect_to(&self.etcd_servers, observer)
    }

    /// As [`connect`](Self::connect), of another etcd that is reached in the same way.
    pub fn connect_to(
        &self,
        servers: &[Endpoint],
        observer: Option<Arc<dyn Observe>>,
    ) -> anyhow::Result<EtcdStore> {
        let trust = match &self.etcd_cafile {
            Some(path) => {
                let context = || format!("cannot use `{}`", path.display());
                Trust::pem(read(path)?.as_bytes()).with_context(context)?
            }
            None => Trust::Machine,
        };
        let identity = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(certificate), Some(key)) => {
                let context = || format!("cannot use `{}` and `{}`", certificate.display(), key.display());
                Some(
                    client_certificate(read(certificate)?.as_bytes(), read(key)?.as_bytes())
                        .with_context(context)?,
                )
            }
            _ => None,
        };
        let access =
            Access { endpoints: servers.to_vec(), tls: Some(client_tls(trust, identity)?), user: None };
        let options = Options { access, prefix: self.prefix().into(), patience: DEFAULT_PATIENCE };
        Ok(match observer {
            Some(observer) => EtcdStore::observed(options, observer, Handle::current()),
            None => EtcdStore::new(options, Handle::current()),
        })
    }
}
