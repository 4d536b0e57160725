//! CustomResourceDefinitions of a server.

use std::{path::Path, sync::Arc};

use indicatif::ProgressBar;

use crate::{
    client::{Client, TIMEOUT},
    export::{self, Include},
    kubeconfig::{self, AccessArgs},
    manifests::Manifest,
};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// All that the server has now, without what it says of them.
pub async fn of_server(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<Vec<Manifest>> {
    let args = AccessArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: context.map(Into::into),
        ..AccessArgs::default()
    };
    let access = kubeconfig::load(&args).await?;
    let client = Client::new(&access, TIMEOUT)?;
    let shown: Arc<str> = client.base().into();
    let options = export::Options {
        selection: vec![DEFINITIONS.to_owned()],
        // Whoever has made them.
        include: vec![Include::Owned, Include::ServerMade],
        ..export::Options::default()
    };
    let exported = export::export(&client, &options, |_| ProgressBar::hidden()).await?;
    Ok(exported.objects.into_iter().map(|object| Manifest::elsewhere(object, &shown)).collect())
}
