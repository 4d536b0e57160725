//! `backup`, `restore`, `migrate` and `storage report` of a cluster that is in two etcds. `STERNPOST_ETCD` is the path of an
//! etcd.

#![cfg(unix)]

use std::collections::BTreeMap;

use serde_json::json;
use sternpost_store::{Entry, KeyRange, Store, Transaction, Write};
use sternpost_store_log::Image;
use sternpost_testkit::{
    etcd::{self, Etcd},
    server::Server,
};

use crate::overrides::Etcds;
use crate::storage::{
    EVENTS, FILLED, FLAGS, MAPS, bump, done, fill, listed, number, refused, store, text, version,
    without_versions,
};

const MOVED: [&str; 2] = ["/events", "/secrets"];

impl Etcds {
    fn flags(&self) -> [String; 2] {
        let overrides = MOVED.map(|resource| format!("{resource}#{}", self.other.url()));
        [
            format!("--etcd-servers={}", self.main.url()),
            format!("--etcd-servers-overrides={}", overrides.join(",")),
        ]
    }

    /// All keys and values of each, but for those of servers that run.
    async fn stored(&self) -> [BTreeMap<Vec<u8>, Vec<u8>>; 2] {
        let mut found = Vec::new();
        for etcd in [&self.main, &self.other] {
            let all = store(etcd, "/registry/").range(KeyRange::all(), None, usize::MAX).await.unwrap();
            let pair = |entry: &Entry| (entry.key().to_vec(), entry.value().to_vec());
            let is_of_servers = |entry: &&Entry| entry.key().starts_with(b"masterleases/");
            found.push(all.entries.iter().filter(|entry| !is_of_servers(entry)).map(pair).collect());
        }
        found.try_into().unwrap()
    }

    async fn revisions(&self) -> [u64; 2] {
        let [main, other] = [&self.main, &self.other].map(|etcd| store(etcd, "/registry/"));
        [main.current_revision().await.unwrap().get(), other.current_revision().await.unwrap().get()]
    }
}

fn all<'a>(command: &[&'a str], flags: &'a [String]) -> Vec<&'a str> {
    command.iter().copied().chain(flags.iter().map(String::as_str)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_two_etcds_is_kept_and_put_back() {
    let Some(program) = etcd::program() else { return };
    let etcds = Etcds::start(&program);
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    // Their revisions have nothing to do with each other.
    bump(&etcds.other, 2_000).await;
    let flags = etcds.flags();
    let identity = path("identity");
    let server = Server::start_on("divided", text(&identity), &all(&FLAGS, &flags)).await;
    fill(&server).await;
    let before = listed(&server, &FILLED).await;
    // The one by which a server says that it lives changes meanwhile.
    server.terminate().await;
    // What is left of resources that are elsewhere now is not among it.
    let left = store(&etcds.other, "/registry/");
    let [main, other] = etcds.stored().await;
    assert!(other.keys().all(|key| key.starts_with(b"events/") || key.starts_with(b"secrets/")), "{other:?}");
    assert!(other.len() > 1 && main.contains_key(&b"configmaps/default/a"[..]));

    let file = path("file");
    let kept = done(&all(&["backup", "--output-file", text(&file)], &flags));
    let revisions = etcds.revisions().await;
    assert!(revisions[1] > revisions[0]);
    assert_eq!(kept["keys"], main.len() + other.len());
    assert_eq!(kept["revision"], revisions[0].to_string());
    assert_eq!(kept["others"], json!([{"resources": MOVED, "revision": revisions[1].to_string()}]));
    let report = done(&all(&["storage", "report"], &flags));
    assert_eq!((&report["revision"], &report["others"]), (&kept["revision"], &kept["others"]));
    let rows = report["resources"].as_array().unwrap();
    for resource in ["events", "secrets", "configmaps"] {
        assert!(rows.iter().any(|row| row["resource"] == resource), "{resource}: {report}");
    }

    // Each has to be above what it gave out itself, and nothing else.
    let again = Etcds::start(&program);
    let to = again.flags();
    let restore = all(&["restore", text(&file), "--bump-revision=0"], &to);
    bump(&again.main, revisions[0]).await;
    let said = refused(&restore);
    assert!(
        said.starts_with(&format!("error: the etcd {}", again.other.url().trim_end_matches('/'))),
        "{said}"
    );
    assert!(
        said.contains(&format!("resource versions up to {} may have been given out", revisions[1])),
        "{said}"
    );
    bump(&again.other, revisions[1]).await;
    let restored = done(&restore);
    assert_eq!((&restored["keys"], &restored["sha256"]), (&kept["keys"], &kept["sha256"]));
    assert!(number(&restored["above"]) < revisions[1]);
    assert!(number(&restored["othersAbove"][0]) > revisions[1]);
    assert_eq!(again.stored().await, [main.clone(), other.clone()]);
    assert!(refused(&restore).contains("is not empty"));
    let server = Server::start_on("divided-again", text(&path("again")), &all(&FLAGS, &to)).await;
    assert_eq!(without_versions(&listed(&server, &FILLED).await), without_versions(&before));
    server.terminate().await;

    // All in one: above all of them.
    let one = Etcd::start(&program, &[]);
    bump(&one, revisions[0]).await;
    let servers = format!("--etcd-servers={}", one.url());
    let restore = ["restore", text(&file), "--bump-revision=0", &servers];
    assert!(refused(&restore).contains(&format!("up to {} may have been given out", revisions[1])));
    bump(&one, revisions[1]).await;
    assert_eq!(done(&restore)["sha256"], kept["sha256"]);

    // What was left behind is left out.
    left.commit(Transaction::write([Write::put("configmaps/default/left", "x")])).await.unwrap();
    let data = path("data");
    let (code, stdout, stderr) = crate::storage::sternpost(&all(
        &["migrate", "--to", "data-dir", "--data-dir", text(&data), "-o", "json"],
        &flags,
    ));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("note: 1 keys are left out"), "{stderr}");
    let moved: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(number(&moved["above"]) > revisions[1]);
    let server = Server::start_on("divided-home", text(&data), &FLAGS).await;
    // With the versions that they had.
    assert_eq!(listed(&server, &FILLED).await, before);
    let next = server.post(MAPS, &json!({"metadata": {"name": "next"}})).await.expect(201);
    assert!(version(&next) > number(&moved["above"]));
    server.delete(&format!("{MAPS}/next")).await.expect(200);
    server.terminate().await;

    // And to two etcds again.
    let last = Image::read(&data.join("objects")).unwrap().reserved.get();
    let third = Etcds::start(&program);
    let to = third.flags();
    bump(&third.main, last).await;
    bump(&third.other, last).await;
    done(&all(&["migrate", "--to", "etcd", "--data-dir", text(&data)], &to));
    let [there_main, there_other] = third.stored().await;
    assert_eq!(there_other, other);
    assert!(main.keys().filter(|key| !key.starts_with(b"leases/")).all(|key| there_main.contains_key(key)));
    let server = Server::start_on("divided-third", text(&path("third")), &all(&FLAGS, &to)).await;
    assert_eq!(without_versions(&listed(&server, &FILLED).await), without_versions(&before));
    assert!(listed(&server, &[EVENTS]).await.len() == 1);
    server.terminate().await;
}
