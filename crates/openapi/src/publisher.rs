//! What is published, kept ready to send.
//!
//! A [`Publisher`] holds one immutable [`Snapshot`] after the other. Publishing
//! or withdrawing a document makes the next snapshot, which shares every other
//! document with the last: its bytes, hashes and compressed forms stay as they
//! are. Everything is made when first asked for, and once.
//!
//! Custom resources may be many, so what a change costs does not depend on how
//! many there are: maps are persistent; the hash of a document with custom
//! resources comes from what it is made of, so that the root can name it
//! unmade; its bytes are kept compressed if they are asked for again; and v2 is put together from compressed
//! pieces, one a resource.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{
        Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};
use sternpost_gzip::{self as gzip, Piece, Speed};
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Group, Scope},
};
use sternpost_schema::write;
use sternpost_wire::gnostic;

use crate::{
    custom::{CustomResource, Facts, MergeKeys},
    document::Document,
    names::Naming,
    protobuf_parts,
    read::Version,
    served::{self, Subject},
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

/// How documents are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The spelling of URLs that name none.
    pub naming: Naming,
    pub merge_keys: MergeKeys,
}

/// What all documents of a publisher have in common.
struct Context {
    observer: Arc<dyn Observer>,
    options: Options,
    /// The documents with custom resources that were written last, plain, oldest first.
    fresh: Mutex<VecDeque<Fresh>>,
}

/// How many of those are kept. Packing takes about as long as writing, and most documents are asked for once,
/// when they are new: only one that is asked for again is packed.
const MAX_FRESH: usize = 16;

struct Fresh {
    inputs: Weak<Inputs>,
    naming: Naming,
    json: Bytes,
}

impl Context {
    fn new(observer: Arc<dyn Observer>, options: Options) -> Self {
        Self { observer, options, fresh: Mutex::default() }
    }

    fn keep_fresh(&self, inputs: &Arc<Inputs>, naming: Naming, json: &Bytes) {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if fresh.len() == MAX_FRESH {
            fresh.pop_front();
        }
        fresh.push_back(Fresh { inputs: Arc::downgrade(inputs), naming, json: json.clone() });
    }

    fn take_fresh(&self, inputs: &Arc<Inputs>, naming: Naming) -> Option<Bytes> {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |fresh: &Fresh| {
            fresh.naming == naming && std::ptr::eq(fresh.inputs.as_ptr(), Arc::as_ptr(inputs))
        };
        let place = fresh.iter().position(is_it)?;
        fresh.remove(place).map(|fresh| fresh.json)
    }
}

impl Publisher {
    /// Publishes the documents of `groups`, which must be built in. A URL that
    /// does not name a spelling means `naming`.
    pub fn new(groups: &[Group], naming: Naming, observer: Arc<dyn Observer>) -> Self {
        Self::with_options(groups, Options { naming, merge_keys: MergeKeys::default() }, observer)
    }

    pub fn with_options(groups: &[Group], options: Options, observer: Arc<dyn Observer>) -> Self {
        let context = Arc::new(Context::new(observer, options));
        let mut snapshot = Snapshot::new(&context);
        for subject in Subject::built_in(groups) {
            let key = subject.key();
            let source: Source = Arc::new(move || subject.document());
            snapshot.set_source(&key, Some(source));
        }
        Self { current: ArcSwap::from_pointee(snapshot), context }
    }

    pub fn default_naming(&self) -> Naming {
        self.context.options.naming
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Publishes a document under `key`, in place of one that may be there.
    /// Custom resources of that group-version stay in it.
    pub fn publish(&self, key: &str, source: &Source) {
        self.change(|next| next.set_source(key, Some(source.clone())));
    }

    /// Takes the document that was published under `key` away.
    pub fn withdraw(&self, key: &str) {
        self.change(|next| next.set_source(key, None));
    }

    /// Publishes what the definition called `name` now serves, one resource a
    /// served version, in the documents of their group-versions. What it served
    /// before and does not any more is gone; with no resources, all of it.
    pub fn define(&self, name: &str, resources: Vec<CustomResource>) {
        let resources: Vec<Arc<Published>> = resources.into_iter().map(Published::new).collect();
        self.change(|next| next.define(name, &resources));
    }

    /// One snapshot for another: nobody sees half a change.
    fn change(&self, change: impl Fn(&mut Snapshot)) {
        self.current.rcu(|current| {
            let mut next = current.successor();
            change(&mut next);
            next
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
    documents: RedBlackTreeMapSync<Arc<str>, Arc<Entry>>,
    /// The union of each group's documents.
    groups: RedBlackTreeMapSync<Arc<str>, Arc<Union>>,
    /// Where each definition has its resources: key of the document, and plural.
    definitions: HashTrieMapSync<Arc<str>, Arc<[DocumentKey]>>,
    base: Arc<Base>,
    roots: PerNaming<OnceLock<Rendition>>,
    v2: OnceLock<Rendition>,
    context: Arc<Context>,
}

type DocumentKey = (Arc<str>, Arc<str>);

impl Snapshot {
    fn new(context: &Arc<Context>) -> Self {
        Self {
            documents: RedBlackTreeMapSync::new_sync(),
            groups: RedBlackTreeMapSync::new_sync(),
            definitions: HashTrieMapSync::new_sync(),
            base: Arc::default(),
            roots: PerNaming::default(),
            v2: OnceLock::new(),
            context: context.clone(),
        }
    }

    /// The same documents, with nothing made of all of them yet.
    fn successor(&self) -> Self {
        Self {
            documents: self.documents.clone(),
            groups: self.groups.clone(),
            definitions: self.definitions.clone(),
            base: self.base.clone(),
            ..Self::new(&self.context)
        }
    }

    fn set_source(&mut self, key: &str, source: Option<Source>) {
        let custom = self.documents.get(key).map(|entry| entry.inputs.custom.clone()).unwrap_or_default();
        let mut sources = self.base.sources.clone();
        match &source {
            Some(source) => sources.insert(key.into(), source.clone()),
            None => sources.remove(key),
        };
        self.base = Arc::new(Base { sources, v2: OnceLock::new() });
        self.set(key.into(), source, custom);
    }

    fn define(&mut self, name: &str, resources: &[Arc<Published>]) {
        // Nothing custom takes the place of what is built in.
        let resources = resources.iter().filter(|published| !is_built_in(&published.resource.facts));
        let places: Vec<(DocumentKey, &Arc<Published>)> = resources
            .map(|published| {
                let facts = &published.resource.facts;
                ((facts.gv.path().into(), facts.plural.clone()), published)
            })
            .collect();
        let mut touched: BTreeMap<Arc<str>, CustomResources> = BTreeMap::new();
        let before = self.definitions.get(name).cloned();
        for (key, plural) in before.iter().flat_map(|places| places.iter()) {
            self.custom(&mut touched, key).remove_mut(plural);
        }
        for ((key, plural), published) in &places {
            self.custom(&mut touched, key).insert_mut(plural.clone(), (*published).clone());
        }
        for (key, custom) in touched {
            let source = self.documents.get(&key).and_then(|entry| entry.inputs.source.clone());
            self.set(key, source, custom);
        }
        if places.is_empty() {
            self.definitions.remove_mut(name);
        } else {
            let places = places.into_iter().map(|(place, _)| place).collect();
            self.definitions.insert_mut(name.into(), places);
        }
    }

    fn custom<'a>(
        &self,
        touched: &'a mut BTreeMap<Arc<str>, CustomResources>,
        key: &Arc<str>,
    ) -> &'a mut CustomResources {
        touched.entry(key.clone()).or_insert_with(|| {
            self.documents.get(key).map(|entry| entry.inputs.custom.clone()).unwrap_or_default()
        })
    }

    /// Puts a document in place, or takes it away if there is nothing in it.
    fn set(&mut self, key: Arc<str>, source: Option<Source>, custom: CustomResources) {
        let entry = (source.is_some() || !custom.is_empty())
            .then(|| Arc::new(Entry::new(key.clone(), source, custom, &self.context)));
        if let Some(group) = group_of(&key) {
            let mut members = self.groups.get(&group).map(|union| union.members.clone()).unwrap_or_default();
            match &entry {
                Some(entry) => members.insert(key.clone(), entry.clone()),
                None => members.remove(&key),
            };
            if members.is_empty() {
                self.groups.remove_mut(&group);
            } else {
                self.groups.insert_mut(group, Arc::new(Union { members, spellings: PerNaming::default() }));
            }
        }
        match entry {
            Some(entry) => self.documents.insert_mut(key, entry),
            None => {
                self.documents.remove_mut(&key);
            }
        }
    }

    /// `/openapi/v3`: where each document is, with its hash.
    pub fn root(&self, naming: Naming) -> &Rendition {
        self.roots.get(naming).get_or_init(|| {
            let mut out = Vec::with_capacity(256 * self.documents.size() + 16);
            let mut object = Object::open(&mut out);
            object.field("paths", |out| {
                let documents = self.documents.iter().map(|(key, entry)| (&**key, entry));
                write::object(out, documents, |out, entry| {
                    let url = self.url(&entry.inputs.key, naming, entry.rendition(naming));
                    Object::open(out).text("serverRelativeURL", &url);
                });
            });
            drop(object);
            Rendition::written(Keep::Plain, out)
        })
    }

    /// `/openapi/v3/KEY`
    pub fn document(&self, key: &str, naming: Naming) -> Option<&Rendition> {
        Some(self.documents.get(key)?.rendition(naming))
    }

    /// The URL under which `rendition`, of the document under `key`, never changes.
    pub fn url(&self, key: &str, naming: Naming, rendition: &Rendition) -> String {
        let hash = &rendition.hash;
        if naming == self.context.options.naming {
            format!("/openapi/v3/{key}?hash={hash}")
        } else {
            format!("/openapi/v3/{key}?names={}&hash={hash}", naming.as_str())
        }
    }

    /// `/apis/GROUP/openapi/v3`: all of the group's documents in one.
    pub fn group(&self, group: &str, naming: Naming) -> Option<&Rendition> {
        Some(self.groups.get(group)?.rendition(naming, &self.context))
    }

    /// `/openapi/v2`: everything in one.
    pub fn v2(&self) -> &Rendition {
        self.v2.get_or_init(|| {
            let mut made = None;
            let all = All {
                documents: self.documents.clone(),
                base: self.base.clone(),
                context: self.context.clone(),
            };
            self.context.observer.observe(Work::V2, &mut || made = Some(all.json()));
            let (keep, hash, gzip) = made.unwrap_or_else(|| all.json());
            Rendition::put_together(keep, hash, gzip, all)
        })
    }

    /// Whether there is a document under `key`; makes nothing.
    pub fn contains(&self, key: &str) -> bool {
        self.documents.contains_key(key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.documents.keys()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&Arc<str>> = self.documents.keys().collect();
        f.debug_struct("Snapshot").field("documents", &keys).finish_non_exhaustive()
    }
}

/// What v2 is made of.
struct All {
    documents: RedBlackTreeMapSync<Arc<str>, Arc<Entry>>,
    base: Arc<Base>,
    context: Arc<Context>,
}

impl All {
    fn custom(&self) -> impl Iterator<Item = &Arc<Published>> {
        self.documents.values().flat_map(|entry| entry.inputs.custom.values())
    }

    fn json(&self) -> (Keep, String, Bytes) {
        let base = self.base.v2();
        let merge_keys = self.context.options.merge_keys;
        let custom: Vec<&[Piece; 2]> = self.custom().map(|published| published.v2(merge_keys)).collect();
        let comma = Piece::new(b",", Speed::Fast);
        let fields = |index: usize| {
            custom.iter().filter_map(move |pieces| pieces.get(index)).flat_map(|piece| [&comma, piece])
        };
        let [definitions, paths, end] = &base.pieces;
        let pieces =
            std::iter::once(definitions).chain(fields(0)).chain([paths]).chain(fields(1)).chain([end]);
        let gzip = gzip::file(pieces);
        if custom.is_empty() {
            return (Keep::Plain, base.hash.clone(), gzip);
        }
        let mut hasher = Sha512::new_with_prefix(&base.hash);
        hasher.update(*SALT);
        hasher.update([u8::from(merge_keys == MergeKeys::Derived)]);
        self.custom().for_each(|published| hasher.update(published.resource.digest()));
        (Keep::Packed, hex(hasher), gzip)
    }

    fn protobuf(&self) -> Result<Bytes, gnostic::EncodeError> {
        let base = self.base.v2();
        let [head, paths, definitions, tail] =
            base.protobuf.get_or_init(|| base.encode()).as_ref().map_err(Clone::clone)?;
        let merge_keys = self.context.options.merge_keys;
        let custom: Vec<&[Piece; 2]> =
            self.custom().map(|published| published.v2_protobuf(merge_keys)).collect::<Result<_, _>>()?;
        let of = |index: usize| custom.iter().filter_map(move |pieces| pieces.get(index));
        let size = |piece: &Piece| piece.plain.size as u64;
        let length = |own: &Piece, index| size(own) + of(index).map(size).sum::<u64>();
        let before_paths = Piece::new(&protobuf_parts::before_paths(length(paths, 0)), Speed::Fast);
        let before_definitions =
            Piece::new(&protobuf_parts::before_definitions(length(definitions, 1)), Speed::Fast);
        let pieces = [head, &before_paths, paths]
            .into_iter()
            .chain(of(0))
            .chain([&before_definitions, definitions])
            .chain(of(1))
            .chain([tail]);
        Ok(gzip::file(pieces))
    }
}

/// One document in every spelling.
struct Entry {
    inputs: Arc<Inputs>,
    spellings: PerNaming<OnceLock<Rendition>>,
}

/// What a document is made of: one that is not ours to make, or custom
/// resources by plural, or both.
struct Inputs {
    key: Arc<str>,
    source: Option<Source>,
    custom: CustomResources,
    context: Arc<Context>,
}

type CustomResources = RedBlackTreeMapSync<Arc<str>, Arc<Published>>;

impl Entry {
    fn new(key: Arc<str>, source: Option<Source>, custom: CustomResources, context: &Arc<Context>) -> Self {
        let inputs = Inputs { key, source, custom, context: context.clone() };
        Self { inputs: Arc::new(inputs), spellings: PerNaming::default() }
    }

    fn rendition(&self, naming: Naming) -> &Rendition {
        self.spellings.get(naming).get_or_init(|| {
            let inputs = &self.inputs;
            if inputs.custom.is_empty() {
                return Rendition::written(Keep::Plain, inputs.write(naming));
            }
            Rendition::unwritten(inputs.hash(naming), inputs, naming)
        })
    }
}

impl Inputs {
    fn document(&self) -> Document {
        let custom = self.custom.values().map(|published| &published.resource);
        match &self.source {
            None => served::custom_document(custom),
            Some(source) => {
                let mut document = source();
                served::add_custom(&mut document, custom);
                document
            }
        }
    }

    fn write(&self, naming: Naming) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.context.observer.observe(Work::V3 { key: &self.key }, &mut || {
            bytes = v3::write(&self.document(), naming);
        });
        bytes
    }

    /// Of all that makes the document what it is, without making it.
    fn hash(&self, naming: Naming) -> String {
        let mut hasher = Sha512::new_with_prefix(*SALT);
        hasher.update(naming.as_str());
        if let Some(source) = &self.source {
            hasher.update(Sha512::digest(v3::write(&source(), naming)));
        }
        for published in self.custom.values() {
            hasher.update(published.resource.digest());
        }
        hex(hasher)
    }
}

/// A custom resource, and what it adds to v2.
struct Published {
    resource: CustomResource,
    v2: OnceLock<[Piece; 2]>,
    v2_protobuf: OnceLock<Result<[Piece; 2], gnostic::EncodeError>>,
}

impl Published {
    fn new(resource: CustomResource) -> Arc<Self> {
        Arc::new(Self { resource, v2: OnceLock::new(), v2_protobuf: OnceLock::new() })
    }

    fn v2(&self, merge_keys: MergeKeys) -> &[Piece; 2] {
        self.v2.get_or_init(|| {
            v2::custom_fields(&self.resource, merge_keys).map(|fields| Piece::new(&fields, Speed::Fast))
        })
    }

    /// Paths, then definitions.
    fn v2_protobuf(&self, merge_keys: MergeKeys) -> Result<&[Piece; 2], gnostic::EncodeError> {
        let encoded = self.v2_protobuf.get_or_init(|| {
            let [definitions, paths] = self.v2(merge_keys).each_ref().map(|fields| {
                let text = [&b"{"[..], &fields.unpack(), b"}"].concat();
                // Our own writer's output always reads back.
                serde_json::from_slice::<Value>(&text).unwrap_or_default()
            });
            let info = json!({"title": "", "version": ""});
            let document =
                json!({"swagger": "2.0", "info": info, "definitions": definitions, "paths": paths});
            let parts = protobuf_parts::take_apart(&gnostic::encode_v2(&document)?);
            Ok([parts.paths, parts.definitions].map(|part| Piece::new(&part, Speed::Fast)))
        });
        encoded.as_ref().map_err(Clone::clone)
    }
}

/// What v2 says of everything but custom resources.
#[derive(Default)]
struct Base {
    sources: BTreeMap<Arc<str>, Source>,
    v2: OnceLock<BaseV2>,
}

struct BaseV2 {
    pieces: [Piece; 3],
    /// Of the document without custom resources.
    hash: String,
    /// What comes before paths, paths, definitions, what comes after.
    protobuf: OnceLock<Result<[Piece; 4], gnostic::EncodeError>>,
}

impl BaseV2 {
    fn encode(&self) -> Result<[Piece; 4], gnostic::EncodeError> {
        let json: Vec<u8> = self.pieces.iter().flat_map(Piece::unpack).collect();
        // Our own writer's output always reads back.
        let document: Value = serde_json::from_slice(&json).unwrap_or_default();
        let parts = protobuf_parts::take_apart(&gnostic::encode_v2(&document)?);
        Ok([parts.head, parts.paths, parts.definitions, parts.tail]
            .map(|part| Piece::new(&part, Speed::Small)))
    }
}

impl Base {
    fn v2(&self) -> &BaseV2 {
        self.v2.get_or_init(|| {
            let mut merged = v2::merge(self.sources.values().map(|source| source()));
            // What custom resources refer to stands here, and their shared parameters do.
            let custom = served::custom_document(SAMPLES.iter());
            let names = custom.schemas.keys().filter(|name| sternpost_builtin::definition(name).is_some());
            for name in names {
                let schema = custom.schemas.get(name).cloned().unwrap_or_default();
                merged.schemas.entry(name.clone()).or_insert(schema);
            }
            let parts = v2::write_parts(&merged, Some(&custom));
            let parts = [parts.definitions, parts.paths, parts.end];
            let mut hasher = Sha512::new();
            parts.iter().for_each(|part| hasher.update(part));
            let pieces = parts.map(|part| Piece::new(&part, Speed::Small));
            BaseV2 { pieces, hash: hex(hasher), protobuf: OnceLock::new() }
        })
    }
}

/// Resources that between them use every rule of publishing.
static SAMPLES: LazyLock<[CustomResource; 2]> = LazyLock::new(|| {
    let sample = |kind: &str, scope, flag| {
        let facts = Facts {
            gv: GroupVersion::new("sample.example.org", "v1"),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            plural: kind.to_lowercase().into(),
            scope,
            status: true,
            scale: true,
            selectable_fields: vec!["spec.a".into()],
            deprecated: flag,
        };
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "description": kind, "required": ["a", "b"], "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "a"}}},
            "kind": {"type": "string", "enum": [kind]},
            "a": {"type": "string", "nullable": true, "default": "", "format": "byte"},
            "b": {"x-kubernetes-int-or-string": true, "allOf": [{"not": {"enum": [1]}}]},
            "c": {"x-kubernetes-int-or-string": true, "anyOf": [{"minimum": 1}]},
            "d": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "e": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": text}}},
            "f": {"type": "object", "additionalProperties": {"type": "object", "nullable": true}, "required": ["x"]},
            "g": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"x": text}},
            "h": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": text}},
            "i": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "j": {"type": "array", "nullable": true, "items": text},
        }});
        CustomResource::new(facts, &schema)
    };
    [sample("Apple", Scope::Namespaced, false), sample("Berries", Scope::Cluster, true)]
});

/// The rules of publishing, so that a hash of what goes in changes with them.
static SALT: LazyLock<[u8; 64]> = LazyLock::new(|| {
    let mut hasher = Sha512::new_with_prefix(env!("CARGO_PKG_VERSION"));
    let document = served::custom_document(SAMPLES.iter());
    for naming in Naming::ALL {
        hasher.update(v3::write(&document, naming));
    }
    for (sample, merge_keys) in SAMPLES.iter().zip([MergeKeys::Derived, MergeKeys::Absent]) {
        v2::custom_fields(sample, merge_keys).iter().for_each(|fields| hasher.update(fields));
    }
    hasher.finalize().into()
});

/// The documents of a group.
struct Union {
    members: BTreeMap<Arc<str>, Arc<Entry>>,
    spellings: PerNaming<OnceLock<Rendition>>,
}

impl Union {
    fn rendition(&self, naming: Naming, context: &Context) -> &Rendition {
        self.spellings.get(naming).get_or_init(|| {
            let inputs = || self.members.values().map(|entry| &entry.inputs);
            let keep = match inputs().all(|inputs| inputs.custom.is_empty()) {
                true => Keep::Plain,
                false => Keep::Packed,
            };
            let key = self.members.keys().next().map(|key| &**key).unwrap_or_default();
            let mut bytes = Vec::new();
            context.observer.observe(Work::V3 { key }, &mut || {
                bytes = v3::write(&union(inputs().map(|inputs| inputs.document())), naming);
            });
            Rendition::written(keep, bytes)
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
    keep: Keep,
    /// In upper-case hexadecimal.
    hash: String,
    origin: Origin,
    json: Encodings,
    protobuf: OnceLock<Result<Encodings, gnostic::EncodeError>>,
}

/// Where the forms that are not made yet come from.
enum Origin {
    /// JSON that is there, of that version.
    Json(Version),
    /// A document that is not written yet, and whether anybody has asked for it.
    Unwritten(Arc<Inputs>, Naming, AtomicBool),
    /// v2, whose JSON is there.
    Parts(All),
}

/// The same bytes, plain and compressed.
#[derive(Default)]
struct Encodings {
    plain: OnceLock<Bytes>,
    gzip: OnceLock<Bytes>,
}

/// In which form bytes stay in memory once they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Plain, and compressed as well if asked for: for what is few and asked for often.
    Plain,
    /// Compressed only: for what may be many.
    Packed,
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
    /// A document that was made elsewhere.
    pub fn of_json(version: Version, keep: Keep, json: Vec<u8>) -> Self {
        let (hash, origin) = (hash(&json), Origin::Json(version));
        let json = match keep {
            Keep::Plain => Encodings::of(keep, json),
            Keep::Packed => Encodings::of_gzip(pack_at(Speed::Fast, &json)),
        };
        Self { keep, hash, origin, json, protobuf: OnceLock::new() }
    }

    fn written(keep: Keep, json: Vec<u8>) -> Self {
        let (hash, origin) = (hash(&json), Origin::Json(Version::V3));
        Self { keep, hash, origin, json: Encodings::of(keep, json), protobuf: OnceLock::new() }
    }

    fn unwritten(hash: String, inputs: &Arc<Inputs>, naming: Naming) -> Self {
        let origin = Origin::Unwritten(inputs.clone(), naming, AtomicBool::new(false));
        Self { keep: Keep::Packed, hash, origin, json: Encodings::default(), protobuf: OnceLock::new() }
    }

    fn put_together(keep: Keep, hash: String, gzip: Bytes, all: All) -> Self {
        let json = Encodings::of_gzip(gzip);
        Self { keep, hash, origin: Origin::Parts(all), json, protobuf: OnceLock::new() }
    }

    /// The same for every form of the document, and different whenever it is.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Fails only for a document that protobuf has no way to say.
    pub fn form(&self, format: Format, coding: Coding) -> Result<Form, &gnostic::EncodeError> {
        let bytes = match format {
            Format::Json if coding == Coding::Identity => self.plain_json(),
            Format::Json => self.json().get(coding, self.keep),
            Format::Protobuf => self.protobuf()?.get(coding, self.keep),
        };
        let suffix = match (format, coding) {
            (Format::Json, Coding::Identity) => "",
            (Format::Json, Coding::Gzip) => ".gz",
            (Format::Protobuf, Coding::Identity) => ".pb",
            (Format::Protobuf, Coding::Gzip) => ".pb.gz",
        };
        Ok(Form { bytes, etag: format!("{}{suffix}", self.hash) })
    }

    /// What is asked for the first time is not packed for that.
    fn plain_json(&self) -> Bytes {
        if let Origin::Unwritten(inputs, naming, is_known) = &self.origin
            && self.json.gzip.get().is_none()
            && !is_known.swap(true, Ordering::Relaxed)
        {
            let json = inputs.write(*naming).into();
            inputs.context.keep_fresh(inputs, *naming, &json);
            return json;
        }
        self.json().get(Coding::Identity, self.keep)
    }

    fn json(&self) -> &Encodings {
        if let Origin::Unwritten(inputs, naming, _) = &self.origin {
            // There may be many of these, and each is asked for a few times.
            self.json.gzip.get_or_init(|| match inputs.context.take_fresh(inputs, *naming) {
                Some(json) => pack_at(Speed::Fast, &json),
                None => pack_at(Speed::Fast, &inputs.write(*naming)),
            });
        }
        &self.json
    }

    fn protobuf(&self) -> Result<&Encodings, &gnostic::EncodeError> {
        let encoded = self.protobuf.get_or_init(|| {
            if let Origin::Parts(all) = &self.origin {
                return all.protobuf().map(Encodings::of_gzip);
            }
            let json = self.plain_json();
            // Our own writer's output always reads back.
            let document: Value = serde_json::from_slice(&json).unwrap_or_default();
            let encoded = match self.origin {
                Origin::Json(Version::V2) => gnostic::encode_v2(&document),
                _ => gnostic::encode_v3(&document),
            };
            encoded.map(|bytes| Encodings::of(self.keep, bytes))
        });
        encoded.as_ref()
    }
}

impl Encodings {
    fn of(keep: Keep, bytes: Vec<u8>) -> Self {
        match keep {
            Keep::Plain => {
                Self { plain: OnceLock::from(Bytes::from(bytes.into_boxed_slice())), ..Self::default() }
            }
            Keep::Packed => Self { gzip: OnceLock::from(pack(&bytes)), ..Self::default() },
        }
    }

    fn of_gzip(bytes: Bytes) -> Self {
        Self { gzip: OnceLock::from(bytes), ..Self::default() }
    }

    /// One of the two is always there.
    fn get(&self, coding: Coding, keep: Keep) -> Bytes {
        let unpack = || self.gzip.get().map(|bytes| gzip::unpack_file(bytes)).unwrap_or_default().into();
        match (coding, keep) {
            (Coding::Gzip, _) => {
                let plain = || self.plain.get().map(|bytes| pack(bytes)).unwrap_or_default();
                self.gzip.get_or_init(plain).clone()
            }
            (Coding::Identity, Keep::Plain) => self.plain.get_or_init(unpack).clone(),
            (Coding::Identity, Keep::Packed) => unpack(),
        }
    }
}

impl fmt::Debug for Rendition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendition").field("hash", &self.hash).finish_non_exhaustive()
    }
}

fn pack(bytes: &[u8]) -> Bytes {
    pack_at(Speed::Small, bytes)
}

fn pack_at(speed: Speed, bytes: &[u8]) -> Bytes {
    gzip::file([&Piece::new(bytes, speed)])
}

/// What tells a document from all others: its SHA-512, in upper-case hexadecimal.
pub fn hash(json: &[u8]) -> String {
    hex(Sha512::new_with_prefix(json))
}

fn hex(hasher: Sha512) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0').to_ascii_uppercase();
    hasher.finalize().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn is_built_in(facts: &Facts) -> bool {
    let mut groups = sternpost_builtin::groups().iter().filter(|group| group.name == facts.gv.group);
    groups.any(|group| {
        let mut versions = group.versions.iter().filter(|version| version.name == facts.gv.version);
        versions.any(|version| version.resources.iter().any(|resource| resource.plural == facts.plural))
    })
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
    use std::{collections::BTreeSet, sync::atomic::AtomicUsize};

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
