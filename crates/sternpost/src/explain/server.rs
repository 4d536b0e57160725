//! Schemas of a running server: its discovery, then one OpenAPI document.

use std::path::Path;

use anyhow::Context;
use sternpost_openapi::{
    explain::{
        Subject,
        names::{self, FindError, Names, ResolvedName},
        sources,
    },
    read,
};

use crate::{
    client::{Client, JSON, TIMEOUT},
    discover::discover,
    kubeconfig::{self, AccessArgs},
};

/// The resource that is asked for, as the server of the kubeconfig publishes it.
pub fn subject(
    kubeconfig: &Path,
    context: Option<&str>,
    resource: &str,
    api_version: Option<&str>,
) -> anyhow::Result<(Subject, ResolvedName)> {
    let args = AccessArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: context.map(Into::into),
        ..AccessArgs::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let access = kubeconfig::load(&args).await?;
        let client = Client::new(&access, TIMEOUT)?;
        let resources = discover(&client).await?.resources;
        let known: Vec<Names> = resources.into_iter().map(|resource| resource.names).collect();
        let found = names::find(&known, resource, api_version)?;
        let chosen = known.get(found.index).context("discovery has changed")?;
        let absent = || FindError::NotInVersion(chosen.gv.clone(), chosen.plural.clone());
        let path = format!("/openapi/v3/{}", chosen.gv.path());
        let json = client.get_ok(&path, JSON).await?;
        let (_, document) = read::document(&json).with_context(|| format!("the answer to {path}"))?;
        let subject = sources::in_document(document, chosen).ok_or_else(absent)?;
        Ok((subject, found))
    })
}
