//! The OpenAPI documents of remotes.
//!
//! Of a remote that has v3, only the root is fetched, which says where its
//! document is and which hash it has; the document itself is for those who want
//! it. Of an older one v2 is fetched, restricted to its group-version and
//! converted. Either way a remote speaks for its own group-version only, and
//! what was last known stays until its APIService is gone.
//!
//! v2 of newer remotes is fetched when somebody asks for the aggregate, and not
//! before.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};
use sternpost_clock::machine;
use sternpost_meta::gvk::GroupVersion;
use sternpost_openapi::{
    convert::{self, ConvertError, MAX_VALUES},
    filter,
    publisher::{Keep, Rendition},
    read::Version,
};
use sternpost_wire::gnostic;
use tokio::sync::{Notify, Semaphore, watch};

use crate::remote::{FetchError, Fetched, REMOTE_USER, Remote, Remotes};

/// Who asks, as upstream has it: somebody in no group.
const USER: &str = "system:aggregator";

/// Between two looks at a root, and the least between two at a v2 document.
pub const POLL: Duration = Duration::from_secs(60);
/// The longest between two looks at a remote that fails.
pub const MAX_BACK_OFF: Duration = Duration::from_secs(3600);
/// How long a root or a document may take.
pub const FETCH_TIME: Duration = Duration::from_secs(30);
/// A root names each document in about 250 bytes.
pub const MAX_ROOT_BYTES: usize = 4 * 1024 * 1024;
/// A v2 document. That of Kubernetes itself has three million bytes.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// How long whoever asks for the v2 aggregate waits for a remote that has never been asked before.
pub const FIRST_WAIT: Duration = Duration::from_secs(3);
/// Of what a remote calls the hash of its document.
pub const MAX_HASH_BYTES: usize = 256;

/// What one remote documents, as last known.
#[derive(Debug, Clone, Default)]
pub struct State {
    documents: Arc<BTreeMap<Arc<str>, Listed>>,
    v2: Option<Arc<V2>>,
    /// Of the root, from a remote that has one.
    root_tag: Option<HeaderValue>,
    asked: Arc<V2Demand>,
}

/// A document under its key, as in `apis/GROUP/VERSION`.
#[derive(Debug, Clone)]
pub enum Listed {
    /// To be had from the remote. The hash is in the remote's words.
    Theirs { hash: Option<Arc<str>> },
    /// Made here of v2.
    Converted(Arc<Rendition>),
}

/// What a remote adds to the v2 aggregate.
pub struct V2 {
    /// The same for the same document.
    pub hash: String,
    /// Compressed: there may be many, and they are looked at when one of them changes.
    packed: Bytes,
    tag: Option<HeaderValue>,
}

/// Who wants v2 of a remote, and whether it was ever tried.
#[derive(Debug)]
struct V2Demand {
    wanted: Notify,
    first: OnceLock<machine::Instant>,
    tried: watch::Sender<bool>,
}

impl State {
    pub fn documents(&self) -> &BTreeMap<Arc<str>, Listed> {
        &self.documents
    }
}

impl Listed {
    pub fn hash(&self) -> Option<&str> {
        match self {
            Self::Theirs { hash } => hash.as_deref(),
            Self::Converted(rendition) => Some(rendition.hash()),
        }
    }

    /// Where the document is, in this server.
    pub fn url(&self, key: &str) -> String {
        match self.hash() {
            Some(hash) => format!("/openapi/v3/{key}?hash={hash}"),
            None => format!("/openapi/v3/{key}"),
        }
    }
}

impl V2 {
    pub fn document(&self) -> Value {
        let mut json = Vec::new();
        // Packed here, from JSON that was written here.
        let read = GzDecoder::new(&self.packed[..]).read_to_end(&mut json);
        debug_assert!(read.is_ok());
        serde_json::from_slice(&json).unwrap_or_default()
    }
}

impl std::fmt::Debug for V2 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("V2").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Default for V2Demand {
    fn default() -> Self {
        Self { wanted: Notify::new(), first: OnceLock::new(), tried: watch::Sender::new(false) }
    }
}

/// The document that `key` names, and whose it is: the best remote that lists it.
pub fn find(remotes: &Remotes, key: &str) -> Option<(Arc<Remote>, Listed)> {
    let rest = key.strip_prefix("apis/")?;
    let listed = |remote: Arc<Remote>| {
        let listed = remote.openapi.load().documents.get(key).cloned()?;
        Some((remote, listed))
    };
    match rest.split_once('/') {
        Some((group, version)) => listed(remotes.get(group, version)?),
        None => remotes.all().into_iter().filter(|remote| *remote.gv.group == *rest).find_map(listed),
    }
}

/// What the available remotes say in v2, best first, as last known. Each is asked
/// again if that was a while ago, which this does not wait for; for one that was
/// never asked it does, but not for long, and once.
pub async fn gather_v2(remotes: &Remotes) -> Vec<Arc<V2>> {
    let available: Vec<Arc<Remote>> =
        remotes.all().into_iter().filter(|remote| remote.is_available()).collect();
    let mut waited_for = Vec::new();
    for remote in &available {
        let asked = remote.openapi.load().asked.clone();
        asked.wanted.notify_one();
        let end = *asked.first.get_or_init(machine::now) + FIRST_WAIT;
        if !*asked.tried.borrow() {
            waited_for.push((asked.tried.subscribe(), end));
        }
    }
    for (mut tried, end) in waited_for {
        let _ = machine::timeout_at(end, tried.wait_for(|tried| *tried)).await;
    }
    available.iter().filter_map(|remote| remote.openapi.load().v2.clone()).collect()
}

/// Keeps `remote.openapi` what the remote says, until the remote is gone. Asks
/// when the remote is or becomes available, and then every [`POLL`].
pub async fn follow(remote: Arc<Remote>, remotes: Arc<Remotes>) {
    let gone = remote.gone();
    let mut follower = Follower { remote, remotes, v2_tried: None };
    tokio::select! {
        () = gone => {}
        () = follower.run() => {}
    }
}

struct Follower {
    remote: Arc<Remote>,
    remotes: Arc<Remotes>,
    /// When v2 was last asked for.
    v2_tried: Option<machine::Instant>,
}

/// Why nothing was learned.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the server answered {0}")]
    Status(StatusCode),
    #[error("the answer is not what was asked for: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the answer is compressed, which was not asked for")]
    Compressed,
    #[error(transparent)]
    Convert(#[from] ConvertError),
    #[error("the document cannot be said in protobuf: {0}")]
    Protobuf(#[from] gnostic::EncodeError),
    #[error("the work was broken off")]
    BrokenOff,
}

impl Follower {
    async fn run(&mut self) {
        let mut changed = self.remotes.changed();
        let asked = self.remote.openapi.load().asked.clone();
        let mut failures = 0_u32;
        let mut next = machine::now();
        loop {
            if !self.remote.is_available() {
                // At once when it is.
                failures = 0;
                next = machine::now();
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            }
            tokio::select! {
                () = machine::sleep_until(next) => {
                    match self.poll().await {
                        Ok(()) => failures = 0,
                        Err(problem) => {
                            failures = failures.saturating_add(1);
                            let name = &*self.remote.name;
                            tracing::debug!(name, %problem, failures, "no OpenAPI v3 of a server");
                        }
                    }
                    next = machine::now() + pause(failures, random());
                }
                () = asked.wanted.notified() => {
                    if let Err(problem) = self.refresh_v2().await {
                        tracing::debug!(name = &*self.remote.name, %problem, "no OpenAPI v2 of a server");
                    }
                    asked.tried.send_replace(true);
                }
                changed = changed.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Looks at the root. A remote without one is asked again each time: it may be a newer one by then.
    async fn poll(&mut self) -> Result<(), Problem> {
        let tag = self.remote.openapi.load().root_tag.clone();
        let fetched = self.get("/openapi/v3", tag.as_ref(), MAX_ROOT_BYTES).await?;
        match fetched.status {
            StatusCode::NOT_MODIFIED if tag.is_some() => Ok(()),
            StatusCode::OK => self.take_root(&fetched),
            StatusCode::NOT_FOUND => {
                let taken = self.take_old().await;
                // Whoever waits for v2 finds what was taken.
                self.remote.openapi.load().asked.tried.send_replace(true);
                taken
            }
            status => Err(Problem::Status(status)),
        }
    }

    fn take_root(&mut self, fetched: &Fetched) -> Result<(), Problem> {
        let root: Value = serde_json::from_slice(plain(fetched)?)?;
        let documents = listed(&root, &self.remote.gv);
        let is_new = !is_same(&self.remote.openapi.load().documents, &documents);
        if is_new {
            // v2 is another one as well.
            self.v2_tried = None;
        }
        let documents = Arc::new(documents);
        let root_tag = fetched.headers.get(header::ETAG).cloned();
        self.change(is_new, |state| State {
            documents: if is_new { documents.clone() } else { state.documents.clone() },
            root_tag: root_tag.clone(),
            ..state.clone()
        });
        Ok(())
    }

    /// From a server that has no v3.
    async fn take_old(&mut self) -> Result<(), Problem> {
        let state = self.remote.openapi.load_full();
        let key: Arc<str> = self.remote.gv.path().into();
        let is_converted = matches!(state.documents.get(&key), Some(Listed::Converted(_)));
        let tag = state.v2.as_ref().filter(|_| is_converted).and_then(|v2| v2.tag.clone());
        self.v2_tried = Some(machine::now());
        let fetched = self.get("/openapi/v2", tag.as_ref(), MAX_DOCUMENT_BYTES).await?;
        match fetched.status {
            StatusCode::NOT_MODIFIED if tag.is_some() => return Ok(()),
            StatusCode::OK => {}
            status => return Err(Problem::Status(status)),
        }
        let gv = self.remote.gv.clone();
        let (v2, converted) = work(self.remotes.conversion(), move || {
            let document = restricted(plain(&fetched)?, &gv)?;
            let converted = convert::to_v3(&document)?;
            if !converted.lost.is_empty() {
                let lost = converted.lost.len() + converted.unlisted;
                tracing::debug!(group_version = %gv, lost, "OpenAPI v2 was converted with losses");
            }
            let json = serde_json::to_vec(&converted.document)?;
            let rendition = Rendition::of_json(Version::V3, Keep::Packed, json);
            Ok((V2::of(&document, fetched.headers.get(header::ETAG))?, rendition))
        })
        .await?;
        let documents = BTreeMap::from([(key, Listed::Converted(Arc::new(converted)))]);
        let is_new = !is_same(&state.documents, &documents);
        let (documents, v2) = (Arc::new(documents), Arc::new(v2));
        self.change(is_new, |state| State {
            documents: documents.clone(),
            v2: Some(v2.clone()),
            root_tag: None,
            ..state.clone()
        });
        Ok(())
    }

    /// For the aggregate, if it was not asked for just now.
    async fn refresh_v2(&mut self) -> Result<(), Problem> {
        if self.v2_tried.is_some_and(|tried| machine::elapsed(tried) < POLL) {
            return Ok(());
        }
        let key = self.remote.gv.path();
        if let Some(Listed::Converted(_)) = self.remote.openapi.load().documents.get(&*key) {
            // What was made of it is made anew with it.
            return self.take_old().await;
        }
        self.v2_tried = Some(machine::now());
        let tag = self.remote.openapi.load().v2.as_ref().and_then(|v2| v2.tag.clone());
        let fetched = self.get("/openapi/v2", tag.as_ref(), MAX_DOCUMENT_BYTES).await?;
        match fetched.status {
            StatusCode::NOT_MODIFIED if tag.is_some() => return Ok(()),
            StatusCode::OK => {}
            status => return Err(Problem::Status(status)),
        }
        let gv = self.remote.gv.clone();
        let v2 = work(self.remotes.conversion(), move || {
            let document = restricted(plain(&fetched)?, &gv)?;
            V2::of(&document, fetched.headers.get(header::ETAG))
        })
        .await?;
        let v2 = Arc::new(v2);
        let is_new = self.remote.openapi.load().v2.as_ref().is_none_or(|known| known.hash != v2.hash);
        self.change(is_new, |state| State { v2: Some(v2.clone()), ..state.clone() });
        Ok(())
    }

    async fn get(&self, path: &str, tag: Option<&HeaderValue>, limit: usize) -> Result<Fetched, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(REMOTE_USER, HeaderValue::from_static(USER));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(tag) = tag {
            headers.insert(header::IF_NONE_MATCH, tag.clone());
        }
        self.remote.get(path, headers, limit, FETCH_TIME).await
    }

    fn change(&self, is_news: bool, change: impl Fn(&State) -> State) {
        self.remote.openapi.rcu(|state| change(state));
        if is_news {
            self.remotes.touch();
        }
    }
}

impl V2 {
    /// Only what the protobuf form of the aggregate can say as well: one document must not spoil it
    /// for all.
    fn of(document: &Value, tag: Option<&HeaderValue>) -> Result<Self, Problem> {
        let plain;
        let mut document = document;
        if gnostic::encode_v2(document).is_err() {
            plain = convert::to_v2(&convert::to_v3(document)?.document)?.document;
            gnostic::encode_v2(&plain)?;
            document = &plain;
        }
        let json = serde_json::to_vec(document)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Memory has no failing case.
        let written = encoder.write_all(&json).and_then(|()| encoder.finish());
        let packed = written.map_err(|_| Problem::BrokenOff)?.into();
        Ok(Self { hash: sternpost_openapi::publisher::hash(&json), packed, tag: tag.cloned() })
    }
}

/// What is heavy is done one at a time, off the threads that serve requests.
async fn work<T: Send + 'static>(
    turn: &Semaphore,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let _turn = turn.acquire().await.map_err(|_| Problem::BrokenOff)?;
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::BrokenOff)?
}

fn plain(fetched: &Fetched) -> Result<&[u8], Problem> {
    let coding = fetched.headers.get(header::CONTENT_ENCODING);
    if coding.is_some_and(|coding| coding != "identity") {
        Err(Problem::Compressed)
    } else {
        Ok(&fetched.body)
    }
}

/// The document of one group-version out of a v2 document.
fn restricted(json: &[u8], gv: &GroupVersion) -> Result<Value, Problem> {
    // Every value has a comma, a colon or a bracket; a tree is many times larger than its text.
    let values = json.iter().filter(|byte| b",:[{".contains(byte)).count();
    if values > MAX_VALUES {
        return Err(ConvertError::TooLarge.into());
    }
    let mut document: Value = serde_json::from_slice(json)?;
    convert::check_limits(&document)?;
    complete(document.as_object_mut().ok_or(ConvertError::NotAnObject)?);
    Ok(filter::v2(document, &format!("/{}/", gv.path())))
}

/// What is asked for as v2 is taken as v2, as upstream takes it, even if it does not say so or lacks
/// what every document has.
fn complete(document: &mut Map<String, Value>) {
    document.insert("swagger".to_owned(), "2.0".into());
    for field in ["info", "paths"] {
        let value = document.entry(field).or_insert(Value::Null);
        if value.is_null() {
            *value = Map::new().into();
        }
    }
    if let Some(info) = document.get_mut("info").and_then(Value::as_object_mut) {
        for field in ["title", "version"] {
            info.entry(field).or_insert_with(|| "".into());
        }
    }
}

/// Of all that a root lists, what the remote is registered for.
fn listed(root: &Value, gv: &GroupVersion) -> BTreeMap<Arc<str>, Listed> {
    let keys = [gv.path(), format!("apis/{}", gv.group)];
    let entry = |key: String| {
        let url = root.get("paths")?.get(&key)?.get("serverRelativeURL")?.as_str()?;
        Some((key.into(), Listed::Theirs { hash: hash_of(url).map(Arc::from) }))
    };
    keys.into_iter().filter_map(entry).collect()
}

/// The hash in a URL, if it can stand in another one as it is.
fn hash_of(url: &str) -> Option<&str> {
    let (_, query) = url.split_once('?')?;
    let is_usable = |hash: &&str| {
        let mut bytes = hash.bytes();
        !hash.is_empty()
            && hash.len() <= MAX_HASH_BYTES
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let of = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    of("hash").or_else(|| of("etag")).filter(is_usable)
}

fn is_same(known: &BTreeMap<Arc<str>, Listed>, new: &BTreeMap<Arc<str>, Listed>) -> bool {
    let is_theirs = |listed: &Listed| matches!(listed, Listed::Theirs { .. });
    known.len() == new.len()
        && known.iter().zip(new).all(|((known_key, known), (key, new))| {
            known_key == key && is_theirs(known) == is_theirs(new) && known.hash() == new.hash()
        })
}

/// Until the next look: doubling with each failure, and a tenth more or less, so
/// that remotes that came together do not stay together.
fn pause(failures: u32, random: u64) -> Duration {
    let doubled = POLL.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(MAX_BACK_OFF);
    let permille = 900 + u32::try_from(random % 201).unwrap_or_default();
    (doubled * permille / 1000).min(MAX_BACK_OFF)
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    machine::random(&mut bytes);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_a_remote_is_registered_for_is_taken_from_its_root() {
        let entry = |url: &str| json!({"serverRelativeURL": url});
        let gv = GroupVersion::new("a.example", "v1");
        let root = json!({"paths": {
            "apis/a.example/v1": entry("/openapi/v3/apis/a.example/v1?hash=ABC"),
            "apis/a.example": entry("/elsewhere?x=1&etag=DEF"),
            "apis/a.example/v2": entry("/openapi/v3/apis/a.example/v2?hash=ABC"),
            "apis/apps/v1": entry("/openapi/v3/apis/apps/v1?hash=ABC"),
            "api/v1": entry("/openapi/v3/api/v1?hash=ABC"),
            "version": entry("/openapi/v3/version?hash=ABC"),
        }});
        let found: Vec<String> = listed(&root, &gv).iter().map(|(key, listed)| listed.url(key)).collect();
        assert_eq!(found, ["/openapi/v3/apis/a.example?hash=DEF", "/openapi/v3/apis/a.example/v1?hash=ABC"]);
        for root in
            [json!(null), json!({"paths": []}), json!({"paths": {"apis/a.example/v1": "x"}}), json!([])]
        {
            assert!(listed(&root, &gv).is_empty(), "{root}");
        }
    }

    #[test]
    fn a_hash_is_taken_only_if_it_can_stand_in_a_url() {
        let long = "A".repeat(MAX_HASH_BYTES);
        for (url, expected) in [
            ("/a?hash=AB12", Some("AB12")),
            ("/a?etag=AB12", Some("AB12")),
            ("/a?names=x&hash=AB12&y=z", Some("AB12")),
            ("/a?xhash=AB12", None),
            ("/a", None),
            ("/a?hash=", None),
            ("/a?hash=A\r\nB", None),
            ("/a?hash=A%20", None),
            (&format!("/a?hash={long}"), Some(&*long)),
            (&format!("/a?hash={long}A"), None),
        ] {
            assert_eq!(hash_of(url), expected, "{url}");
        }
    }

    #[test]
    fn failures_double_the_pause_up_to_an_hour() {
        for (failures, seconds) in
            [(0, 60), (1, 60), (2, 120), (3, 240), (6, 1920), (7, 3600), (99, 3600), (u32::MAX, 3600)]
        {
            assert_eq!(pause(failures, 100).as_secs(), seconds, "{failures}");
        }
        assert_eq!(pause(0, 0).as_secs(), 54);
        assert_eq!(pause(0, 200).as_secs(), 66);
        assert_eq!(pause(7, 200), MAX_BACK_OFF);
    }

    #[test]
    fn a_document_is_restricted_and_bounded() {
        let gv = GroupVersion::new("a.example", "v1");
        let document = json!({"swagger": "2.0", "info": {}, "definitions": {"A": {}, "B": {}}, "paths": {
            "/apis/a.example/v1/as": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/A"}}}}},
            "/apis/apps/v1/bs": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/B"}}}}},
        }});
        let found = restricted(document.to_string().as_bytes(), &gv).unwrap();
        assert_eq!(found["definitions"], json!({"A": {}}));
        assert_eq!(found["paths"].as_object().unwrap().len(), 1);
        for (text, expected) in [
            (&b"[]"[..], "not a JSON object"),
            (b"null", "not a JSON object"),
            (b"nonsense", "not what was asked for"),
            (&b"[".repeat(1000), "not what was asked for"),
            (&[b"[", &b"0,".repeat(MAX_VALUES)[..], b"0]"].concat(), "more than"),
        ] {
            let problem = restricted(text, &gv).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn what_every_document_has_is_added_to_one_that_lacks_it() {
        let gv = GroupVersion::new("a.example", "v1");
        let nothing = json!({"title": "", "version": ""});
        for (document, info) in [
            (json!({}), nothing.clone()),
            (json!({"swagger": "3.0", "info": null, "paths": null}), nothing.clone()),
            (json!({"swagger": "2.0", "info": {}, "paths": {}}), nothing),
            (json!({"info": {"title": "t"}}), json!({"title": "t", "version": ""})),
        ] {
            let found = restricted(document.to_string().as_bytes(), &gv).unwrap();
            assert_eq!(found, json!({"swagger": "2.0", "info": info, "paths": {}}), "{document}");
            assert!(convert::to_v3(&found).is_ok() && V2::of(&found, None).is_ok(), "{document}");
        }
    }

    #[test]
    fn v2_is_kept_in_a_form_that_protobuf_can_say() {
        let odd = json!({"swagger": "2.0", "info": {"title": "t", "version": "1"}, "paths": {},
            "definitions": {"A": {"type": "string", "nullable": true, "oneOf": [{}]}}});
        assert!(gnostic::encode_v2(&odd).is_err());
        let kept = V2::of(&odd, None).unwrap().document();
        assert!(gnostic::encode_v2(&kept).is_ok());
        assert_eq!(kept["definitions"]["A"], json!({"type": "string", "x-nullable": true}));
        let plain = json!({"swagger": "2.0", "info": {"title": "t", "version": "1"}, "paths": {}, "definitions": {"A": {"x-y": 1}}});
        let (one, other) = (V2::of(&plain, None).unwrap(), V2::of(&plain, None).unwrap());
        assert_eq!(one.document(), plain);
        assert_eq!(one.hash, other.hash);
    }
}
