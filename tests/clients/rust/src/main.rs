//! Suite kube-rs: reads an API server with kube's discovery and raw requests.
//! Suite kube-rs-objects: writes, reads and watches objects.
//! Suite kube-rs-custom: does so with custom resources that it defines.
//!
//!     kube-rs-client KUBECONFIG RECORDED
//!     kube-rs-client KUBECONFIG --objects
//!     kube-rs-client KUBECONFIG --custom
//!
//! RECORDED is the folder with a real server's answers. Prints a FAIL line per
//! deviation and `checks N failed M` at the end.

mod checks;
mod custom;
mod custom_kinds;
mod discovery;
mod documents;
mod objects;
mod recorded;

use std::{path::Path, process::ExitCode};

use checks::Checks;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource, APIResourceList};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use recorded::Row;

type Problem = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, folder] = arguments.as_slice() else {
        eprintln!("usage: kube-rs-client KUBECONFIG RECORDED|--objects|--custom");
        return ExitCode::from(2);
    };
    let run = || -> Result<bool, Problem> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(suite(Path::new(kubeconfig), Path::new(folder)))
    };
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            println!("FAIL {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn suite(kubeconfig: &Path, folder: &Path) -> Result<bool, Problem> {
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default())
            .await?;
    let client = Client::try_from(config.clone())?;
    let mut checks = Checks::default();
    if folder == Path::new("--objects") {
        objects::check(&mut checks, &client).await?;
        return Ok(checks.finish());
    }
    if folder == Path::new("--custom") {
        custom::check(&mut checks, &client).await?;
        return Ok(checks.finish());
    }
    let rows = recorded::rows(folder)?;
    config.disable_compression = true;
    let plain = Client::try_from(config)?;

    versions_and_groups(&mut checks, &client, &recorded::lines(folder, "groups.txt")?).await;
    resources(&mut checks, &client, &rows).await;
    discovery::check(&mut checks, &client, &rows).await;
    documents::check(&mut checks, &client, &plain, &rows, &recorded::lines(folder, "openapi-v3-keys.txt")?)
        .await;
    Ok(checks.finish())
}

/// `/version`, `/api` and `/apis`, the last with its order.
async fn versions_and_groups(checks: &mut Checks, client: &Client, recorded: &[String]) {
    if let Some(info) = checks.ok("apiserver_version", client.apiserver_version().await) {
        checks.equal("apiserver_version", (info.major.as_str(), info.minor.as_str()), ("1", "36"));
    }
    let mut lines = Vec::new();
    if let Some(core) = checks.ok("list_core_api_versions", client.list_core_api_versions().await) {
        let versions = core.versions.join(",");
        lines.push(format!("00 \"\" preferred {versions} of {versions}"));
    }
    if let Some(list) = checks.ok("list_api_groups", client.list_api_groups().await) {
        lines.extend(list.groups.iter().zip(1..).map(|(group, place)| group_line(group, place)));
    }
    checks.same_lines("groups.txt", &lines, recorded);
}

fn group_line(group: &APIGroup, place: usize) -> String {
    let versions: Vec<_> = group.versions.iter().map(|version| version.version.as_str()).collect();
    let preferred = group.preferred_version.as_ref().map_or("none", |preferred| &preferred.version);
    format!("{place:02} {:?} preferred {preferred} of {}", group.name, versions.join(","))
}

/// The resource list of every group version, field by field.
async fn resources(checks: &mut Checks, client: &Client, rows: &[Row]) {
    for group in rows.chunk_by(|a, b| a.group_version == b.group_version) {
        let Some(Row { group_version, group: name, version, .. }) = group.first() else { continue };
        let (what, answer) = if name.is_empty() {
            ("list_core_api_resources", client.list_core_api_resources(version).await)
        } else {
            ("list_api_group_resources", client.list_api_group_resources(group_version).await)
        };
        let what = format!("{what} {group_version}");
        if let Some(list) = checks.ok(&what, answer) {
            checks.equal(&what, list.group_version.as_str(), group_version.as_str());
            let got: Vec<_> = list.resources.iter().map(|resource| resource_line(&list, resource)).collect();
            let expected: Vec<_> = group.iter().map(|row| row.line.clone()).collect();
            checks.same_lines(&what, &got, &expected);
        }
    }
}

/// A resource as a line of `resources.tsv`.
fn resource_line(list: &APIResourceList, resource: &APIResource) -> String {
    let response = match (resource.group.as_deref().unwrap_or_default(), resource.version.as_deref()) {
        (_, None) => String::new(),
        ("", Some(version)) => version.to_owned(),
        (group, Some(version)) => format!("{group}/{version}"),
    };
    let join = |list: &Option<Vec<String>>| list.as_deref().unwrap_or_default().join(",");
    let fields: [&str; 10] = [
        &list.group_version,
        &resource.name,
        &resource.singular_name,
        if resource.namespaced { "Namespaced" } else { "Cluster" },
        &response,
        &resource.kind,
        &resource.verbs.join(","),
        &join(&resource.short_names),
        &join(&resource.categories),
        resource.storage_version_hash.as_deref().unwrap_or_default(),
    ];
    fields.join("\t")
}
