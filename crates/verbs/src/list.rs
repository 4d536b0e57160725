//! GET of a collection: which state, which objects, which page.

use std::{borrow::Cow, cell::OnceCell, sync::Arc, time::Duration};

use base64::{DecodeError, Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sternpost_cache::{Labelled, Object, ResourceCache, ResourceId, Section, Snapshot};
use sternpost_golang::json::syntax as json_syntax;
use sternpost_golang::strconv::{NumberError, go_quote};
use sternpost_meta::{
    selector::{Comparison, FieldSelector, LabelSelector, Term, Test},
    status::Status,
};
use sternpost_store::Revision;

use crate::{
    custom::Custom,
    fresh::not_there_yet,
    served::Served,
    verbs::{Target, Verbs},
};
use sternpost_registry::{
    field_selectors::UnsupportedField,
    object::{Fields, FieldsMut},
};

/// How long a request waits for a revision that is not there yet.
pub const FUTURE_VERSION_TIMEOUT: Duration = Duration::from_secs(3);

/// From this many objects on, a selection by label goes by an index. Fewer are
/// looked at faster than an index is kept.
const INDEXED_FROM: usize = 256;

/// How many objects a webhook converts in one call, or a few more.
pub const MAX_CONVERTED: usize = 500;

/// Which objects of a collection are asked for.
#[derive(Debug, Clone)]
pub struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// One object only.
    pub name: Option<Box<str>>,
    /// What finds the fields that the cache does not know.
    pub custom: Option<Arc<Custom>>,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            labels: LabelSelector::everything(),
            fields: FieldSelector::everything(),
            name: None,
            custom: None,
        }
    }
}

impl Selection {
    /// Of objects of this kind. The error is a field that they cannot be selected by.
    pub fn of(
        served: &Served,
        labels: LabelSelector,
        fields: FieldSelector,
    ) -> Result<Self, UnsupportedField> {
        let fields = served.resolve_fields(fields)?;
        Ok(Self { labels, fields, name: None, custom: served.fields_by_schema() })
    }

    /// Also by name, whatever else is asked for.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    pub fn is_everything(&self) -> bool {
        self.name.is_none() && self.labels.is_everything() && self.fields.is_everything()
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.name.as_deref().is_none_or(|name| name == object.name())
            && self.labels.matches_with(|key| object.label(key))
            && self.fields_match(object)
    }

    /// Whether it may take a webhook to say which objects are selected: one may change all of an object
    /// but where it stands.
    pub(crate) fn asks_webhook(&self) -> bool {
        let beyond_place =
            || !self.labels.is_everything() || self.fields.terms().iter().any(|term| !is_place(&term.field));
        self.custom.as_ref().is_some_and(|custom| custom.calls_webhook()) && beyond_place()
    }

    /// As [`Selection::matches`]; `None` if the object has to be converted by a webhook first.
    pub(crate) fn judge(&self, object: &Object) -> Option<bool> {
        let is_of_version = |custom: &Arc<Custom>| object.stored_version() == Some(&custom.version.name);
        if !self.asks_webhook() || self.custom.as_ref().is_none_or(is_of_version) {
            return Some(self.matches(object));
        }
        let stands = self.name.as_deref().is_none_or(|name| name == object.name());
        let terms = self.fields.terms().iter().filter(|term| is_place(&term.field));
        let fits =
            |term: &Term| (object.field(&term.field) == term.value) == (term.comparison == Comparison::Equal);
        (!stands || !terms.clone().all(fits)).then_some(false)
    }

    /// As [`Selection::matches`], of an object that was converted.
    pub(crate) fn matches_shown(&self, object: &Object, shown: &Value) -> bool {
        let Some(custom) = &self.custom else { return self.matches(object) };
        self.name.as_deref().is_none_or(|name| name == object.name())
            && self.labels.matches(shown.field("metadata").field("labels"))
            && self.fields.matches_with(|name| -> Cow<'_, str> {
                if is_place(name) {
                    return object.field(name).into();
                }
                custom.version.selectable_value(shown, name).unwrap_or_default().into()
            })
    }

    fn fields_match(&self, object: &Object) -> bool {
        let Some(custom) = &self.custom else {
            return self.fields.matches_with(|name| object.field(name));
        };
        let value = OnceCell::new();
        self.fields.matches_with(|name| -> Cow<'_, str> {
            if is_place(name) {
                return object.field(name).into();
            }
            let value = value.get_or_init(|| custom.shown_plainly(object));
            custom.version.selectable_value(value, name).unwrap_or_default().into()
        })
    }

    /// Labels that every object has to have, with the values it may have.
    fn labelled(&self) -> Vec<Labelled<'_>> {
        let requirements = self.labels.requirements().unwrap_or_default().iter();
        let indexed = requirements.filter_map(|requirement| {
            let values = match requirement.test() {
                Test::Equals(value) | Test::DoubleEquals(value) => std::slice::from_ref(value),
                Test::In(values) => values,
                _ => return None,
            };
            Some(Labelled { key: requirement.key(), values })
        });
        indexed.collect()
    }
}

/// Whether a field says where an object stands, which is the same in all versions.
fn is_place(field: &str) -> bool {
    field.starts_with("metadata.")
}

/// Which state of the collection, and how much of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// As sent; empty for the latest.
    pub resource_version: String,
    pub version_match: Option<VersionMatch>,
    /// No limit if zero.
    pub limit: usize,
    /// As sent; empty for the first page.
    pub continue_token: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// A page of a list.
#[derive(Debug)]
pub struct Listed {
    pub sections: Vec<Section>,
    pub revision: Revision,
    /// For the next page; empty on the last.
    pub continue_token: String,
    /// How many more there are, if that is known.
    pub remaining: Option<usize>,
}

impl Listed {
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.sections.iter().flat_map(Section::objects)
    }

    pub fn len(&self) -> usize {
        self.sections.iter().map(|section| section.objects().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Verbs {
    pub async fn list(
        &self,
        target: Target<'_>,
        selection: &Selection,
        query: &ListQuery,
    ) -> Result<Listed, Status> {
        let token = Token::parse(&query.continue_token)?;
        let period = self.clock.unix_seconds().div_euclid(COMPACTION_SECONDS);
        if let Some(token) = token.as_ref().filter(|token| token.is_compacted(period)) {
            return Err(expired_token(token));
        }
        let cache = self.cache.resource(&target.served.id);
        let behind = token.as_ref().map(|token| token.behind.as_str());

        let wanted = self.wanted_revision(target, query, token.as_ref()).await?;
        // What cannot be read is known before it is taken out: so it is asked for behind the state.
        let check = || self.check_listed(target, selection);

        // An older state is looked through.
        if let Some(revision) = wanted {
            let snapshot = cache.snapshot_at(revision).map_err(|_| match &token {
                Some(token) => expired_token(token),
                None => Status::expired("The resourceVersion for the provided list is too old."),
            })?;
            check()?;
            // A list that goes on ends with the period that it began in.
            let period = token.as_ref().map_or(Some(period), |token| token.period);
            let left = match &token {
                Some(token) => token.left,
                None => Some(snapshot.count(target.scope())),
            };
            let state = State { revision, period, left };
            let listed =
                self.page(target, (&cache, &snapshot), behind, selection, query.limit, state).await?;
            return Ok(going_on(listed, &cache, &snapshot));
        }

        // The latest too, unless labels leave less of it. The revision to call it
        // by is looked up first: the state is not older.
        let seen = self.cache.line(&target.served.id).revision();
        let labels = selection.labelled();
        // What the index knows are the labels that are stored.
        if !labels.is_empty() && !selection.asks_webhook() && is_large(&cache) {
            let (snapshot, found) = cache.labelled(&labels, target.scope(), behind);
            check()?;
            let state = State { revision: seen.max(snapshot.revision), period: Some(period), left: None };
            return Ok(going_on(page(found.iter(), selection, query.limit, state), &cache, &snapshot));
        }
        let snapshot = cache.snapshot();
        check()?;
        let left = behind.is_none().then(|| snapshot.count(target.scope()));
        let state = State { revision: seen.max(snapshot.revision), period: Some(period), left };
        let listed = self.page(target, (&cache, &snapshot), behind, selection, query.limit, state).await?;
        Ok(going_on(listed, &cache, &snapshot))
    }

    /// What is selected of the objects of a state, up to the limit.
    async fn page(
        &self,
        target: Target<'_>,
        (cache, snapshot): (&ResourceCache, &Snapshot),
        behind: Option<&str>,
        selection: &Selection,
        limit: usize,
        state: State,
    ) -> Result<Listed, Status> {
        let scope = target.scope();
        if selection.is_everything() {
            let wanted = wanted(limit);
            let sections = cache.sections(snapshot, scope, behind, wanted);
            let listed = Listed::of(sections, state.revision);
            let rest = listed.last().filter(|_| listed.len() == wanted);
            let rest = rest.map(|last| snapshot.iter(scope, Some(last.place())));
            let next = next_page(&listed, rest.into_iter().flatten(), selection, state);
            return Ok(listed.with(next));
        }
        let objects = snapshot.iter(scope, behind);
        if !selection.asks_webhook() {
            return Ok(page(objects, selection, limit, state));
        }
        let candidates = objects.filter(|object| selection.judge(object) != Some(false)).cloned();
        self.converted_page(target.served, candidates.collect(), selection, limit, state).await
    }

    /// As [`page`], of objects that a webhook converts before it is known which are selected. They are
    /// converted once more when they are shown, which a webhook answers alike.
    async fn converted_page(
        &self,
        served: &Served,
        candidates: Vec<Arc<Object>>,
        selection: &Selection,
        limit: usize,
        state: State,
    ) -> Result<Listed, Status> {
        let enough = if limit == 0 { usize::MAX } else { limit.saturating_add(1) };
        let mut selected: Vec<Arc<Object>> = Vec::new();
        for some in candidates.chunks(MAX_CONVERTED) {
            let asked = |object: &&Arc<Object>| selection.judge(object).is_none();
            let converted: Vec<Arc<Object>> = some.iter().filter(asked).cloned().collect();
            let shown = self.shown(served, &converted).await?;
            let mut shown = shown.iter();
            selected.extend(
                some.iter()
                    .filter(|object| match selection.judge(object) {
                        Some(matches) => matches,
                        None => shown.next().is_some_and(|shown| selection.matches_shown(object, shown)),
                    })
                    .cloned(),
            );
            if selected.len() >= enough {
                break;
            }
        }
        let everything = Selection::default();
        let mut listed = page(selected.iter(), &everything, limit, State { left: None, ..state });
        listed.remaining = None;
        Ok(listed)
    }

    /// The revision of which exactly the query wants the state; `None` for the latest.
    async fn wanted_revision(
        &self,
        target: Target<'_>,
        query: &ListQuery,
        token: Option<&Token>,
    ) -> Result<Option<Revision>, Status> {
        if let Some(Token { revision: Some(revision), .. }) = token {
            // It may be from another server, which is ahead.
            self.await_revision(&target.served.id, *revision).await?;
            return Ok(Some(*revision));
        }
        // What is left of a list that has expired is of the latest state.
        if token.is_some() || query.resource_version.is_empty() {
            if let Some(catching_up) = self.catching_up(&target.served.id) {
                catching_up.await?;
            }
            return Ok(None);
        }
        if query.resource_version == "0" {
            return Ok(None);
        }
        let exact = query.version_match == Some(VersionMatch::Exact)
            || (query.version_match.is_none() && query.limit > 0);
        let revision = parse_version(&query.resource_version)?;
        self.await_revision(&target.served.id, revision).await?;
        Ok(exact.then_some(revision))
    }

    /// Waits a little for a revision of a resource that another replica may have seen.
    pub async fn await_revision(&self, id: &ResourceId, revision: Revision) -> Result<(), Status> {
        let line = self.cache.line(id);
        if line.reaches(revision, FUTURE_VERSION_TIMEOUT).await {
            return Ok(());
        }
        Err(not_there_yet(line, revision))
    }
}

/// What is listed: all as it was at a revision, and when that was first listed.
#[derive(Debug, Clone, Copy)]
struct State {
    revision: Revision,
    period: Option<i64>,
    /// How many objects there are from here on, if that is known.
    left: Option<usize>,
}

/// A page whose successor finds the same state.
fn going_on(listed: Listed, cache: &ResourceCache, snapshot: &Arc<Snapshot>) -> Listed {
    if !listed.continue_token.is_empty() {
        cache.keep(listed.revision, snapshot);
    }
    listed
}

/// What is selected of the objects, up to the limit.
fn page<'a>(
    objects: impl Iterator<Item = &'a Arc<Object>>,
    selection: &Selection,
    limit: usize,
    state: State,
) -> Listed {
    let mut matching = objects.filter(|object| selection.matches(object));
    let objects: Vec<Arc<Object>> = matching.by_ref().take(wanted(limit)).cloned().collect();
    let listed = Listed::of(vec![Section::Objects(objects)], state.revision);
    let next = next_page(&listed, matching, selection, state);
    listed.with(next)
}

fn wanted(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

impl Listed {
    /// What has no other page, as far as is known.
    fn of(sections: Vec<Section>, revision: Revision) -> Self {
        Self { sections, revision, continue_token: String::new(), remaining: None }
    }

    fn last(&self) -> Option<&Arc<Object>> {
        self.sections.last()?.objects().last()
    }

    fn with(mut self, next: Option<Token>) -> Self {
        if let Some(token) = next {
            self.remaining = token.left;
            self.continue_token = token.to_string();
        }
        self
    }
}

/// Where a list goes on, if anything matches behind it.
fn next_page<'a>(
    listed: &Listed,
    mut matching: impl Iterator<Item = &'a Arc<Object>>,
    selection: &Selection,
    state: State,
) -> Option<Token> {
    let State { revision, period, left } = state;
    // One more than asked for tells whether there is another page.
    let (Some(_), Some(last)) = (matching.next(), listed.last()) else { return None };
    let behind = last.place().to_owned();
    // As upstream: counting what a selector leaves is too dear. What is known without it is not counted:
    // every page would go through all that follow.
    let left = selection.is_everything().then(|| match left {
        Some(left) => left.saturating_sub(listed.len()),
        None => 1 + matching.count(),
    });
    Some(Token { revision: Some(revision), behind, period, left })
}

fn is_large(cache: &ResourceCache) -> bool {
    cache.snapshot().len() >= INDEXED_FROM
}

/// Zero is not a version here: callers treat it before. The error is what a
/// list says; other verbs have it without its first words, as an internal error.
pub fn parse_version(text: &str) -> Result<Revision, Status> {
    version_number(text).map_err(|error| {
        Status::bad_request(format!("invalid resource version: {}", version_text(text, &error)))
    })
}

/// As [`parse_version`], for reading or watching.
pub fn parse_exact_version(text: &str) -> Result<Revision, Status> {
    version_number(text).map_err(|error| Status::unexpected(version_text(text, &error)))
}

fn version_text(text: &str, error: &str) -> String {
    format!("resourceVersion: Invalid value: {}: {error}", go_quote(text))
}

/// The error is that of Go's `strconv.ParseUint`.
pub(crate) fn version_number(text: &str) -> Result<Revision, String> {
    let problem = |error: NumberError| error.text("ParseUint", text);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(problem(NumberError::Syntax));
    }
    text.parse().ok().and_then(Revision::new).ok_or_else(|| problem(NumberError::Range))
}

/// What upstream's tokens call their form.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// Upstream forgets every five minutes what was five minutes ago, so that a list can be continued for five
/// to ten minutes, also of what never changes. Clients count on being told.
pub const COMPACTION_SECONDS: i64 = 5 * 60;

/// Where a list goes on: at which revision, behind which object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    /// `None` goes on with the latest state, whatever was listed before.
    revision: Option<Revision>,
    behind: String,
    /// When the list began, in periods of [`COMPACTION_SECONDS`]; tokens of other servers do not say.
    period: Option<i64>,
    /// How many objects follow, if that was told.
    left: Option<usize>,
}

impl Token {
    /// Whether the state that was listed is one that upstream would have forgotten by now.
    fn is_compacted(&self, now: i64) -> bool {
        self.revision.is_some() && self.period.is_some_and(|period| now.saturating_sub(period) > 1)
    }

    fn parse(text: &str) -> Result<Option<Self>, Status> {
        if text.is_empty() {
            return Ok(None);
        }
        let bad = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) => at,
                _ => text.len() / 4 * 4,
            };
            bad(&format!("illegal base64 data at input byte {at}"))
        })?;
        let found = json_syntax::check(&bytes).map_err(|error| bad(&error))?.top;
        if !matches!(found, json_syntax::Top::Object | json_syntax::Top::Null) {
            let found = found.name();
            return Err(bad(&format!(
                "json: cannot unmarshal {found} into Go value of type storage.continueToken"
            )));
        }
        let json: Value = serde_json::from_slice(&bytes).map_err(|error| bad(&error.to_string()))?;
        if json.text("v") != TOKEN_VERSION {
            let version = json.text("v");
            return Err(bad(&format!("server does not recognize this encoded version {version}")));
        }
        let revision = match json.int("rv").unwrap_or_default() {
            -1 => None,
            number => Some(u64::try_from(number).ok().and_then(Revision::new).ok_or_else(|| {
                bad(&format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})"))
            })?),
        };
        let Some(behind) = json.text("start").strip_suffix('\0').filter(|place| place.contains('/')) else {
            return Err(bad(&format!("encoded start key empty (version {TOKEN_VERSION})")));
        };
        let left = json.int("left").and_then(|left| usize::try_from(left).ok());
        Ok(Some(Self { revision, behind: behind.into(), period: json.int("period"), left }))
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let revision = self.revision.map_or(-1, |revision| i64::try_from(revision.get()).unwrap_or(-1));
        let mut json = json!({"v": TOKEN_VERSION, "rv": revision, "start": format!("{}\0", self.behind)});
        if let Some(period) = self.period {
            json.set("period", period);
        }
        if let Some(left) = self.left {
            json.set("left", left);
        }
        f.write_str(&URL_SAFE_NO_PAD.encode(json.to_string()))
    }
}

/// The pages listed so far can not be continued, but the list can, at the latest state.
fn expired_token(token: &Token) -> Status {
    let inconsistent = Token { revision: None, behind: token.behind.clone(), period: None, left: None };
    Status::expired_continue(&inconsistent.to_string())
}
