//! Lists that are sent from runs which all readers share are the lists that would be written anew.

use std::io::Read;

use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use sternpost_cache::{MAX_ENCODED_BYTES, Section, Snapshot};
use sternpost_golang::time::Timestamp;
use sternpost_store::Revision;
use sternpost_verbs::{Listed, served::Served};

use super::{
    list_body::{Items, ListBody},
    representation::{Listing, Meta, Shape},
};
use crate::{Api, response::Spacing, testing};

const NAMESPACES: [&str; 3] = ["a", "b", "c"];

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

struct Lists {
    api: Api,
    served: Arc<Served>,
}

impl Lists {
    /// With so many objects in the first namespace, and fewer in the others.
    async fn of(count: usize) -> Self {
        let api = testing::api();
        let served = api.verbs.served.get("", "v1", "configmaps").unwrap();
        let lists = Self { api, served };
        for (number, namespace) in NAMESPACES.iter().enumerate() {
            let object = json!({"metadata": {"name": namespace}});
            lists.send(Method::POST, "/api/v1/namespaces", &object).await;
            for name in 0..count / (number + 1) {
                lists.put(number, name, 900).await;
            }
        }
        lists
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> StatusCode {
        let mut request = testing::request(method, path, &[]);
        request.body = body.to_string().into();
        testing::handle(&self.api, &request).await.status()
    }

    async fn put(&self, namespace: usize, name: usize, filling: usize) {
        let (path, name) = (path(Some(namespace)), format!("n{name:03}"));
        let object = json!({"metadata": {"name": name}, "data": {"filling": "x".repeat(filling)}});
        if self.send(Method::PUT, &format!("{path}/{name}"), &object).await == StatusCode::NOT_FOUND {
            assert_eq!(self.send(Method::POST, &path, &object).await, StatusCode::CREATED);
        }
    }

    async fn delete(&self, namespace: usize, name: usize) {
        let path = format!("{}/n{name:03}", path(Some(namespace)));
        self.send(Method::DELETE, &path, &json!({})).await;
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.api.verbs.cache.resource(&self.served.id).snapshot()
    }

    /// How often a run was encoded to be kept.
    fn made(&self) -> u64 {
        self.api.verbs.cache.encodings().made()
    }

    fn kept_bytes(&self) -> usize {
        self.api.verbs.cache.encodings().bytes()
    }

    /// The answer, decompressed if it was compressed.
    async fn get(&self, target: &str, accept: &str, encoding: &str) -> Vec<u8> {
        let headers = [("accept", accept), ("accept-encoding", encoding)];
        let request = testing::request(Method::GET, target, &headers);
        let answer = testing::handle(&self.api, &request).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let answer = crate::gzip::apply(&request.headers, answer);
        let is_compressed = answer.headers().contains_key("content-encoding");
        let announced = answer.body().size_hint().exact();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        if !is_compressed {
            assert!(announced.is_none_or(|announced| announced == bytes.len() as u64));
            return bytes.to_vec();
        }
        let mut reader = flate2::bufread::GzDecoder::new(&*bytes);
        let mut plain = Vec::new();
        reader.read_to_end(&mut plain).unwrap();
        assert!(reader.into_inner().is_empty(), "one member");
        plain
    }

    /// All of it, without runs.
    async fn anew(&self, namespace: Option<usize>, accept: &str) -> Vec<u8> {
        let revision = self.api.verbs.cache.main_line().revision();
        let namespace = namespace.map(|number| NAMESPACES[number]);
        let objects = self.snapshot().iter(namespace, None).cloned().collect();
        self.written(objects, accept, revision, String::new(), None).await
    }

    async fn written(
        &self,
        objects: Vec<Arc<sternpost_cache::Object>>,
        accept: &str,
        revision: Revision,
        continue_token: String,
        remaining: Option<usize>,
    ) -> Vec<u8> {
        let sections = vec![Section::Objects(objects)];
        let request = testing::request(Method::GET, "/api/v1/configmaps", &[("accept", accept)]);
        let shape = Shape::negotiate_list(&request, &self.served).unwrap();
        let body = if accept == JSON {
            let listed = Listed { sections, revision, continue_token, remaining };
            ListBody::of_stored(&self.served, listed, Spacing::Compact)
        } else {
            let now = Timestamp::from(request.clock.wall());
            let listing = Listing { shape, served: self.served.clone(), now };
            let meta = Meta { revision: Some(revision), continue_token, remaining };
            ListBody::of_values(listing, &meta, Items::stored(sections), Spacing::Compact).await
        };
        body.collect().unwrap().to_vec()
    }

    async fn check(&self, namespace: Option<usize>, accept: &str, encoding: &str) {
        let read = self.get(&path(namespace), accept, encoding).await;
        let expected = self.anew(namespace, accept).await;
        assert!(read == expected, "{namespace:?} {accept} {encoding}: {} {}", read.len(), expected.len());
    }

    /// Goes through the pages of a list, while others write.
    async fn check_pages(&self, namespace: Option<usize>, limit: usize, encoding: &str, writes: &[Write]) {
        let snapshot = self.snapshot();
        let revision = self.api.verbs.cache.main_line().revision();
        let mut writes = writes.iter();
        let (mut token, mut behind) = (String::new(), None::<String>);
        loop {
            let target = format!("{}?limit={limit}&continue={token}", path(namespace));
            let read = self.get(&target, JSON, encoding).await;
            let scope = namespace.map(|number| NAMESPACES[number]);
            let objects: Vec<_> = snapshot.iter(scope, behind.as_deref()).take(limit).cloned().collect();
            behind = objects.last().map(|last| last.place().to_owned());
            let metadata = &serde_json::from_slice::<Value>(&read).unwrap()["metadata"];
            token = metadata["continue"].as_str().unwrap_or_default().to_owned();
            let remaining = snapshot.iter(scope, behind.as_deref()).count();
            let remaining = (remaining > 0).then_some(remaining);
            assert_eq!(remaining.is_none(), token.is_empty());
            let expected = self.written(objects, JSON, revision, token.clone(), remaining).await;
            assert!(read == expected, "{target} {encoding}");
            if token.is_empty() {
                return;
            }
            if let Some(write) = writes.next() {
                self.write(write).await;
            }
        }
    }

    async fn write(&self, write: &Write) {
        match *write {
            Write::Put(namespace, name, filling) => self.put(namespace, name, filling).await,
            Write::Delete(namespace, name) => self.delete(namespace, name).await,
        }
    }
}

fn path(namespace: Option<usize>) -> String {
    match namespace {
        Some(number) => format!("/api/v1/namespaces/{}/configmaps", NAMESPACES[number]),
        None => "/api/v1/configmaps".into(),
    }
}

#[derive(Debug, Clone)]
enum Write {
    Put(usize, usize, usize),
    Delete(usize, usize),
}

#[derive(Debug, Clone)]
enum Step {
    Write(Write),
    List(Option<usize>, &'static str, &'static str),
    Pages(Option<usize>, usize, &'static str, Vec<Write>),
}

fn write() -> impl Strategy<Value = Write> {
    let filling = prop_oneof![8 => 0..3000_usize, 1 => 40_000..150_000_usize];
    prop_oneof![
        2 => (0..3_usize, 0..260_usize, filling).prop_map(|(namespace, name, filling)| Write::Put(namespace, name, filling)),
        1 => (0..3_usize, 0..200_usize).prop_map(|(namespace, name)| Write::Delete(namespace, name)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let namespace = || proptest::option::weighted(0.3, 0..3_usize);
    let encoding = || prop_oneof![Just("gzip"), Just("identity")];
    let accept = prop_oneof![4 => Just(JSON), 2 => Just(PROTOBUF), 1 => Just(METADATA)];
    let pages = (namespace(), 100..180_usize, encoding(), proptest::collection::vec(write(), 0..3));
    prop_oneof![
        3 => write().prop_map(Step::Write),
        3 => (namespace(), accept, encoding())
            .prop_map(|(namespace, accept, encoding)| Step::List(namespace, accept, encoding)),
        1 => pages.prop_map(|(namespace, limit, encoding, writes)| Step::Pages(namespace, limit, encoding, writes)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn lists_from_runs_are_lists_written_anew(steps in proptest::collection::vec(step(), 20..50)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let lists = Lists::of(160).await;
            for step in &steps {
                match step {
                    Step::Write(write) => lists.write(write).await,
                    Step::List(namespace, accept, encoding) => lists.check(*namespace, accept, encoding).await,
                    Step::Pages(namespace, limit, encoding, writes) => {
                        lists.check_pages(*namespace, *limit, encoding, writes).await;
                    }
                }
            }
        });
    }
}

#[tokio::test]
async fn a_list_that_was_sent_twice_is_encoded_no_more() {
    for (accept, encoding) in [
        (JSON, "identity"),
        (JSON, "gzip"),
        (PROTOBUF, "identity"),
        (PROTOBUF, "gzip"),
        (METADATA, "identity"),
    ] {
        let lists = Lists::of(300).await;
        let all = path(None);
        // The first list makes no runs, the second asks for their bytes for the first time.
        lists.get(&all, accept, encoding).await;
        lists.get(&all, accept, encoding).await;
        assert_eq!((lists.made(), lists.kept_bytes()), (0, 0), "{accept} {encoding}");
        lists.get(&all, accept, encoding).await;
        let runs = lists.made();
        assert!(runs > 8, "{accept} {encoding}: {runs}");
        let bytes = lists.kept_bytes();
        assert!(bytes > 0 && bytes < MAX_ENCODED_BYTES);
        for _ in 0..3 {
            lists.check(None, accept, encoding).await;
            lists.check(Some(0), accept, encoding).await;
        }
        // Those at the ends of the namespace are shared with its neighbours, and none of them is new.
        assert_eq!((lists.made(), lists.kept_bytes()), (runs, bytes), "{accept} {encoding}");

        // Only the run that a write falls into is made anew: asked for once more, then kept.
        for (number, write) in
            [Write::Put(0, 100, 910), Write::Put(0, 299, 5), Write::Delete(0, 30)].iter().enumerate()
        {
            lists.write(write).await;
            for _ in 0..4 {
                lists.check(None, accept, encoding).await;
            }
            assert_eq!(lists.made(), runs + number as u64 + 1, "{accept} {encoding} {write:?}");
        }
        // An object that was not there does not move those behind it.
        let object = json!({"metadata": {"name": "n000-new"}});
        assert_eq!(lists.send(Method::POST, &path(Some(0)), &object).await, StatusCode::CREATED);
        for _ in 0..4 {
            lists.check(None, accept, encoding).await;
        }
        assert_eq!(lists.made(), runs + 4, "{accept} {encoding}");
    }
}

#[tokio::test]
async fn pages_share_what_they_have_in_common() {
    let lists = Lists::of(300).await;
    for _ in 0..3 {
        lists.check_pages(None, 110, "identity", &[]).await;
    }
    let made = lists.made();
    assert!(made > 8, "{made}");
    for _ in 0..2 {
        lists.check_pages(None, 110, "identity", &[]).await;
        lists.check(None, JSON, "identity").await;
    }
    assert_eq!(lists.made(), made);
}

#[tokio::test]
async fn few_objects_and_selections_are_not_kept() {
    let lists = Lists::of(99).await;
    for _ in 0..5 {
        lists.check(Some(0), JSON, "identity").await;
        lists.get("/api/v1/configmaps?fieldSelector=metadata.name!%3Dx", JSON, "identity").await;
        lists.get("/api/v1/configmaps?limit=99", JSON, "identity").await;
    }
    assert_eq!((lists.made(), lists.kept_bytes()), (0, 0));
}
