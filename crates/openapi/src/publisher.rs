//! What is published, kept ready to send.
//!
//! A [`Publisher`] holds one immutable [`Snapshot`] after the other. Publishing
//! or withdrawing a document makes the next snapshot, which shares every other
//! document with the last: its bytes, hashes and compressed forms stay as they
//! are. Everything is made when first asked for, and once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::Write,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use sha2::{Digest, Sha512};
use sternpost_meta::resource::Group;
use sternpost_schema::write;
use sternpost_wire::gnostic;

use crate::{
    document::Document,
    names::Naming,
    served::Subject,
    v2,
    v3::{self, Object},
};

/// Makes a document whenever one of its spellings is first asked for.
pub type Source = Arc<dyn Fn() -> Document + Send + Sync>;

/// Work that is worth counting and timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work<'a> {
    /// A v3 document is built and written.
    V3 { key: &'a str },
    /// The v2 document is built and written.
    V2,
}

/// Sees work happen. Must call `run` exactly once.
pub trait Observer: Send + Sync {
    fn observe(&self, work: Work<'_>, run: &mut dyn FnMut());
}

/// An observer that does not look.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: Work<'_>, run: &mut dyn FnMut()) {
        run();
    }
}

pub struct Publisher {
    current: ArcSwap<Snapshot>,
    context: Arc<Context>,
}

/// What all documents of a publisher have in common.
struct Context {
    observer: Arc<dyn Observer>,
    /// The spelling of URLs that name none.
    naming: Naming,
}

impl Publisher {
    /// Publishes the documents of `groups`, which must be built in. A URL that
    /// does not name a spelling means `naming`.
    pub fn new(groups: &[Group], naming: Naming, observer: Arc<dyn Observer>) -> Self {
        let context = Arc::new(Context { observer, naming });
        let mut documents = BTreeMap::new();
        for subject in Subject::built_in(groups) {
            let key = subject.key();
            let source: Source = Arc::new(move || subject.document());
            documents.insert(key.clone(), Arc::new(Entry::new(key, source, &context)));
        }
        let snapshot = Snapshot::new(documents, &context);
        Self { current: ArcSwap::from_pointee(snapshot), context }
    }

    pub fn default_naming(&self) -> Naming {
        self.context.naming
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Publishes a document under `key`, in place of one that may be there.
    pub fn publish(&self, key: &str, source: &Source) {
        let entry = Arc::new(Entry::new(key.into(), source.clone(), &self.context));
        self.current.rcu(|current| {
            let mut documents = current.documents.clone();
            documents.insert(entry.key.clone(), entry.clone());
            Snapshot::new(documents, &self.context)
        });
    }

    /// Takes the document under `key` away.
    pub fn withdraw(&self, key: &str) {
        self.current.rcu(|current| {
            let mut documents = current.documents.clone();
            documents.remove(key);
            Snapshot::new(documents, &self.context)
        });
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("current", &self.current.load()).finish_non_exhaustive()
    }
}

/// All documents at one moment.
pub struct Snapshot {
    documents: BTreeMap<Arc<str>, Arc<Entry>>,
    /// The union of each group's documents.
    groups: BTreeMap<Arc<str>, Entry>,
    roots: PerNaming<OnceLock<Rendition>>,
    v2: OnceLock<Rendition>,
    context: Arc<Context>,
}

impl Snapshot {
    fn new(documents: BTreeMap<Arc<str>, Arc<Entry>>, context: &Arc<Context>) -> Self {
        let names: BTreeSet<Arc<str>> = documents.keys().filter_map(|key| group_of(key)).collect();
        let union = |group: Arc<str>| {
            let key: Arc<str> = format!("apis/{group}").into();
            let prefix = format!("{key}/");
            let members: Vec<Source> = documents
                .iter()
                .filter(|(found, _)| **found == key || found.starts_with(&prefix))
                .map(|(_, entry)| entry.source.clone())
                .collect();
            let source: Source = Arc::new(move || union(members.iter().map(|source| source())));
            (group, Entry::new(key, source, context))
        };
        let groups = names.into_iter().map(union).collect();
        let (roots, v2) = (PerNaming::default(), OnceLock::new());
        Self { documents, groups, roots, v2, context: context.clone() }
    }

    /// `/openapi/v3`: where each document is, with its hash.
    pub fn root(&self, naming: Naming) -> &Rendition {
        self.roots.get(naming).get_or_init(|| {
            let mut out = Vec::with_capacity(16 * 1024);
            let mut object = Object::open(&mut out);
            object.field("paths", |out| {
                let documents = self.documents.iter().map(|(key, entry)| (&**key, entry));
                write::object(out, documents, |out, entry| {
                    let url = self.url(&entry.key, naming, entry.rendition(naming));
                    Object::open(out).text("serverRelativeURL", &url);
                });
            });
            drop(object);
            Rendition::new(Version::V3, out)
        })
    }

    /// `/openapi/v3/KEY`
    pub fn document(&self, key: &str, naming: Naming) -> Option<&Rendition> {
        Some(self.documents.get(key)?.rendition(naming))
    }

    /// The URL under which `rendition`, of the document under `key`, never changes.
    pub fn url(&self, key: &str, naming: Naming, rendition: &Rendition) -> String {
        let hash = &rendition.hash;
        if naming == self.context.naming {
            format!("/openapi/v3/{key}?hash={hash}")
        } else {
            format!("/openapi/v3/{key}?names={}&hash={hash}", naming.as_str())
        }
    }

    /// `/apis/GROUP/openapi/v3`: all of the group's documents in one.
    pub fn group(&self, group: &str, naming: Naming) -> Option<&Rendition> {
        Some(self.groups.get(group)?.rendition(naming))
    }

    /// `/openapi/v2`: everything in one.
    pub fn v2(&self) -> &Rendition {
        self.v2.get_or_init(|| {
            let mut bytes = Vec::new();
            self.context.observer.observe(Work::V2, &mut || {
                let documents = self.documents.values().map(|entry| (entry.source)());
                bytes = v2::write(&v2::merge(documents));
            });
            Rendition::new(Version::V2, bytes)
        })
    }

    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.documents.keys()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("documents", &self.documents.keys()).finish_non_exhaustive()
    }
}

/// One document in every spelling.
struct Entry {
    key: Arc<str>,
    source: Source,
    context: Arc<Context>,
    spellings: PerNaming<OnceLock<Rendition>>,
}

impl Entry {
    fn new(key: Arc<str>, source: Source, context: &Arc<Context>) -> Self {
        Self { key, source, context: context.clone(), spellings: PerNaming::default() }
    }

    fn rendition(&self, naming: Naming) -> &Rendition {
        self.spellings.get(naming).get_or_init(|| {
            let mut bytes = Vec::new();
            self.context.observer.observe(Work::V3 { key: &self.key }, &mut || {
                bytes = v3::write(&(self.source)(), naming);
            });
            Rendition::new(Version::V3, bytes)
        })
    }
}

#[derive(Default)]
struct PerNaming<T> {
    short: T,
    upstream: T,
}

impl<T> PerNaming<T> {
    fn get(&self, naming: Naming) -> &T {
        match naming {
            Naming::Short => &self.short,
            Naming::Upstream => &self.upstream,
        }
    }
}

/// A written document, in every form it can be sent in.
pub struct Rendition {
    version: Version,
    /// SHA-512 of the JSON, in upper-case hexadecimal.
    hash: String,
    json: Bytes,
    json_gzip: OnceLock<Bytes>,
    protobuf: OnceLock<Result<Bytes, gnostic::EncodeError>>,
    protobuf_gzip: OnceLock<Bytes>,
}

#[derive(Debug, Clone, Copy)]
enum Version {
    V2,
    V3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Protobuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Identity,
    Gzip,
}

/// Bytes to send, and the validator that tells them from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    pub bytes: Bytes,
    /// Without quotes.
    pub etag: String,
}

impl Rendition {
    fn new(version: Version, json: Vec<u8>) -> Self {
        let hash = Sha512::digest(&json).iter().map(|byte| format!("{byte:02X}")).collect();
        let json = Bytes::from(json.into_boxed_slice());
        let (json_gzip, protobuf, protobuf_gzip) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { version, hash, json, json_gzip, protobuf, protobuf_gzip }
    }

    /// The same for every form of the document.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Fails only for a document that protobuf has no way to say.
    pub fn form(&self, format: Format, coding: Coding) -> Result<Form, &gnostic::EncodeError> {
        let (bytes, suffix) = match (format, coding) {
            (Format::Json, Coding::Identity) => (&self.json, ""),
            (Format::Json, Coding::Gzip) => (self.json_gzip.get_or_init(|| gzip(&self.json)), ".gz"),
            (Format::Protobuf, Coding::Identity) => (self.protobuf()?, ".pb"),
            (Format::Protobuf, Coding::Gzip) => {
                let bytes = self.protobuf()?;
                (self.protobuf_gzip.get_or_init(|| gzip(bytes)), ".pb.gz")
            }
        };
        Ok(Form { bytes: bytes.clone(), etag: format!("{}{suffix}", self.hash) })
    }

    fn protobuf(&self) -> Result<&Bytes, &gnostic::EncodeError> {
        let encoded = self.protobuf.get_or_init(|| {
            // Our own writer's output always reads back.
            let document: Value = serde_json::from_slice(&self.json).unwrap_or_default();
            let encoded = match self.version {
                Version::V2 => gnostic::encode_v2(&document),
                Version::V3 => gnostic::encode_v3(&document),
            };
            encoded.map(|bytes| Bytes::from(bytes.into_boxed_slice()))
        });
        encoded.as_ref()
    }
}

impl fmt::Debug for Rendition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendition").field("hash", &self.hash).finish_non_exhaustive()
    }
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 6), Compression::new(6));
    // Writing to memory has no failing case; an empty body would still be valid HTTP.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    debug_assert!(written.is_ok());
    Bytes::from(written.unwrap_or_default().into_boxed_slice())
}

/// The group of `apis/GROUP` and `apis/GROUP/VERSION`.
fn group_of(key: &str) -> Option<Arc<str>> {
    let mut parts = key.strip_prefix("apis/")?.split('/');
    parts.next().filter(|group| !group.is_empty()).map(Arc::from)
}

/// Documents of one group as one. Types that name the group-versions they
/// belong to name them all.
fn union(documents: impl Iterator<Item = Document>) -> Document {
    const GVK: &str = "x-kubernetes-group-version-kind";
    documents
        .reduce(|mut merged, document| {
            merged.paths.extend(document.paths);
            merged.security_schemes.extend(document.security_schemes);
            for (name, schema) in document.schemas {
                let Some(known) = merged.schemas.get_mut(&name) else {
                    merged.schemas.insert(name, schema);
                    continue;
                };
                let more = schema.rest.get(GVK).and_then(Value::as_array).cloned().unwrap_or_default();
                let differs = schema.rest.get(GVK) != known.rest.get(GVK);
                if let Some(gvks) = differs
                    .then(|| Arc::make_mut(known).rest.get_mut(GVK).and_then(Value::as_array_mut))
                    .flatten()
                {
                    for gvk in more {
                        if !gvks.contains(&gvk) {
                            gvks.push(gvk);
                        }
                    }
                }
            }
            merged
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::document::PathItem;

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl Observer for Log {
        fn observe(&self, work: Work<'_>, run: &mut dyn FnMut()) {
            run();
            self.0.lock().unwrap().push(format!("{work:?}"));
        }
    }

    fn source(title: &'static str, built: &Arc<AtomicUsize>) -> Source {
        let built = built.clone();
        Arc::new(move || {
            built.fetch_add(1, Ordering::Relaxed);
            let paths = [(format!("/{title}").into(), PathItem::default())].into();
            Document { title: title.into(), version: "v0".into(), paths, ..Document::default() }
        })
    }

    fn root_keys(snapshot: &Snapshot) -> Vec<String> {
        let root = snapshot.root(Naming::Short).form(Format::Json, Coding::Identity).unwrap();
        let json: Value = serde_json::from_slice(&root.bytes).unwrap();
        json["paths"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn a_change_rebuilds_the_changed_document_only() {
        let log = Arc::new(Log::default());
        let publisher = Publisher::new(&[], Naming::Short, log.clone());
        let (a, b) = (Arc::default(), Arc::default());
        publisher.publish("apis/a.io/v1", &source("a", &a));
        publisher.publish("apis/b.io/v1", &source("b", &b));
        let first = publisher.snapshot();
        first.root(Naming::Short);
        first.root(Naming::Short);
        assert_eq!((a.load(Ordering::Relaxed), b.load(Ordering::Relaxed)), (1, 1));

        publisher.publish("apis/b.io/v1", &source("b2", &b));
        let second = publisher.snapshot();
        assert_ne!(first.root(Naming::Short).hash(), second.root(Naming::Short).hash());
        assert_eq!((a.load(Ordering::Relaxed), b.load(Ordering::Relaxed)), (1, 2));
        let count = |key: &str| log.0.lock().unwrap().iter().filter(|line| line.contains(key)).count();
        assert_eq!((count("apis/a.io/v1"), count("apis/b.io/v1")), (1, 2));

        publisher.withdraw("apis/a.io/v1");
        assert!(!root_keys(&publisher.snapshot()).contains(&"apis/a.io/v1".to_owned()));
        assert!(publisher.snapshot().document("apis/a.io/v1", Naming::Short).is_none());
        assert!(publisher.snapshot().group("a.io", Naming::Short).is_none());
        // Whoever holds the earlier snapshot still sees what was there.
        assert!(first.document("apis/a.io/v1", Naming::Short).is_some());
    }

    #[test]
    fn nothing_is_built_before_it_is_asked_for() {
        let log = Arc::new(Log::default());
        let publisher = Publisher::new(sternpost_builtin::groups(), Naming::Short, log.clone());
        let snapshot = publisher.snapshot();
        assert!(log.0.lock().unwrap().is_empty());
        snapshot.document("apis/apps/v1", Naming::Upstream).unwrap();
        assert_eq!(*log.0.lock().unwrap(), ["V3 { key: \"apis/apps/v1\" }"]);
        snapshot.v2();
        snapshot.v2();
        assert_eq!(*log.0.lock().unwrap(), ["V3 { key: \"apis/apps/v1\" }", "V2"]);
    }

    #[test]
    fn equal_documents_have_equal_hashes_and_each_form_its_own_etag() {
        let build =
            || Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved)).snapshot();
        let (first, second) = (build(), build());
        assert_eq!(first.root(Naming::Short).hash(), second.root(Naming::Short).hash());
        assert_eq!(first.v2().hash(), second.v2().hash());
        let document = first.document("api/v1", Naming::Short).unwrap();
        let forms = [
            (Format::Json, Coding::Identity),
            (Format::Json, Coding::Gzip),
            (Format::Protobuf, Coding::Identity),
            (Format::Protobuf, Coding::Gzip),
        ];
        let etags: BTreeSet<String> =
            forms.iter().map(|(format, coding)| document.form(*format, *coding).unwrap().etag).collect();
        assert_eq!(etags.len(), 4);
        assert_eq!(document.hash().len(), 128);
        assert!(document.hash().bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b)));
        assert_ne!(document.hash(), first.document("api/v1", Naming::Upstream).unwrap().hash());
    }

    #[test]
    fn a_group_document_holds_all_versions_of_the_group() {
        let snapshot =
            Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved)).snapshot();
        let union = snapshot.group("autoscaling", Naming::Short).unwrap();
        let form = union.form(Format::Json, Coding::Identity).unwrap();
        let json: Value = serde_json::from_slice(&form.bytes).unwrap();
        for path in ["/apis/autoscaling/", "/apis/autoscaling/v1/", "/apis/autoscaling/v2/"] {
            assert!(json["paths"][path].is_object(), "{path}");
        }
        let gvks = &json["components"]["schemas"]["meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"];
        let versions: Vec<String> = gvks
            .as_array()
            .unwrap()
            .iter()
            .map(|gvk| format!("{}/{}", gvk["group"].as_str().unwrap(), gvk["version"].as_str().unwrap()))
            .collect();
        assert_eq!(versions, ["/v1", "autoscaling/v1", "autoscaling/v2"]);
        assert!(snapshot.group("nope", Naming::Short).is_none());
    }
}
