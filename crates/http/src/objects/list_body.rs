//! A list, written piece by piece while it is sent, from objects as they are
//! stored: no list is in memory a second time, whatever its size and form, but
//! for runs of objects that are asked for again and again.

use std::{collections::VecDeque, sync::Arc};

use bytes::{Buf, Bytes};
use http::{HeaderValue, header};
use http_body_util::Full;
use hyper::body::SizeHint;
use serde_json::Value;
use sternpost_cache::{Asked, Coding, Encoded, Form, Object, Run, Section};
use sternpost_gzip::{Member, Piece, Plain};
use sternpost_meta::status::Status;
use sternpost_registry::table::Definitions;
use sternpost_verbs::{Listed, served::Served};
use sternpost_wire::object::ListWriter;

use super::{
    Answer,
    representation::{Listing, Meta, stored_form},
    whole,
};
use crate::{
    body::{Body, Broken},
    limits::{MAX_PLAIN_BYTES, PIECE_BYTES},
    pretty::Indenter,
    response::{self, Format, Spacing},
};

/// What ends a list in JSON.
const TAIL: &[u8] = b"]}\n";

/// What is indented at once: with the deepest indentation it becomes a hundred times as much.
const INDENT_BYTES: usize = 1024;

#[derive(Debug)]
pub struct ListBody {
    format: Format,
    items: Items,
    /// How many were written.
    index: usize,
    form: ItemForm,
    /// By which runs are kept; `None` if they are not.
    run_form: Option<Form>,
    /// What stands before the next item.
    before: Vec<u8>,
    /// What stands between items.
    separator: &'static [u8],
    /// What stands behind the last item; none of it when all is said.
    tail: Vec<u8>,
    is_written: bool,
    /// Bytes that are still to come, if that is known.
    left: Option<usize>,
    indented: Option<Indented>,
    /// Pieces that were made to see whether the list is large.
    ahead: VecDeque<Bytes>,
}

/// The items that are still to be written.
#[derive(Debug)]
pub enum Items {
    Stored(Sections),
    /// As the served version has them, each in JSON: what a webhook has answered.
    Made(std::vec::IntoIter<Bytes>),
}

/// Stored objects, some of them in runs.
#[derive(Debug)]
pub struct Sections {
    sections: std::vec::IntoIter<Section>,
    /// How many of the first one were written.
    written: usize,
    /// Whether the first one is written object by object.
    is_divided: bool,
}

/// A piece of a list that is compressed.
#[derive(Debug)]
pub enum Fragment {
    Plain(Bytes),
    /// Compressed already, and what follows it.
    Compressed(Piece, &'static [u8]),
}

/// How an item becomes bytes.
#[derive(Debug)]
enum ItemForm {
    /// By the bytes that are there, behind what every item begins with: items of custom resources
    /// say what they are.
    Stored(Vec<u8>),
    Json(Listing),
    Yaml(Listing),
    Protobuf(Listing, ListWriter),
}

/// JSON for people, made from pieces of the compact form.
#[derive(Debug, Default)]
struct Indented {
    /// `None` when all is said.
    indenter: Option<Indenter>,
    /// Of the compact form, what is still to be indented.
    rest: Bytes,
}

impl ListBody {
    /// The list in JSON, of objects whose stored bytes are what is shown.
    pub fn of_stored(served: &Served, listed: Listed, spacing: Spacing) -> Self {
        let before = head(served, &listed);
        let begin = served.item_head().into_bytes();
        let items: usize =
            listed.sections.iter().map(size).sum::<usize>() + listed.len() * (b",".len() + begin.len());
        // The first item has no comma.
        let commas = usize::from(!listed.is_empty());
        let left = before.len() + items - commas + TAIL.len();
        let items = Items::stored(listed.sections);
        let list = Self::json(before, ItemForm::Stored(begin), Some(stored_form(served)), items, spacing);
        let left = (spacing == Spacing::Compact).then_some(left);
        Self { left, ..list }
    }

    /// The list in any form, of items that are made one after the other.
    pub async fn of_values(listing: Listing, meta: &Meta, items: Items, spacing: Spacing) -> Self {
        let list = listing.list(&[], meta, Definitions::Send);
        match listing.shape.format {
            Format::Yaml => return Self::yaml(listing, &list, items),
            Format::Protobuf => {
                if let Ok(writer) = ListWriter::new(&list)
                    && let Some(measured) = Measured::of(&listing, &writer, &items).await
                {
                    return Self::protobuf(listing, writer, items, measured);
                }
                // What protobuf cannot say is said in JSON.
            }
            Format::Json => {}
        }
        let mut before = Vec::from(response::json_line(&list));
        before.truncate(before.len() - TAIL.len());
        let run_form = listing.run_form().filter(|_| listing.shape.format == Format::Json);
        Self::json(before, ItemForm::Json(listing), run_form, items, spacing)
    }

    fn json(before: Vec<u8>, form: ItemForm, run_form: Option<Form>, items: Items, spacing: Spacing) -> Self {
        let indented = Indented { indenter: Some(Indenter::default()), rest: Bytes::new() };
        Self {
            format: Format::Json,
            items,
            index: 0,
            form,
            run_form,
            before,
            separator: b",",
            tail: TAIL.to_vec(),
            is_written: false,
            left: None,
            indented: (spacing == Spacing::Pretty).then_some(indented),
            ahead: VecDeque::new(),
        }
    }

    /// Members of a list in YAML stand at the first column, and so do its items: each is written
    /// the same alone.
    fn yaml(listing: Listing, list: &Value, items: Items) -> Self {
        let member = listing.member();
        let (empty, begun) = (format!("{member}: []\n"), format!("{member}:\n"));
        let text = sternpost_yaml::write(list);
        let place = text.match_indices(&empty).map(|(place, _)| place);
        let mut place = place.filter(|place| *place == 0 || text.as_bytes().get(place - 1) == Some(&b'\n'));
        let place = place.next().unwrap_or_default();
        let (before, rest) = text.split_at_checked(place).unwrap_or_default();
        let behind = rest.strip_prefix(&empty).unwrap_or_default();
        let opening = if items.is_empty() { &empty } else { &begun };
        Self {
            format: Format::Yaml,
            items,
            index: 0,
            form: ItemForm::Yaml(listing),
            run_form: None,
            before: [before, opening].concat().into_bytes(),
            separator: b"",
            tail: behind.to_owned().into_bytes(),
            is_written: false,
            left: None,
            indented: None,
            ahead: VecDeque::new(),
        }
    }

    fn protobuf(listing: Listing, writer: ListWriter, items: Items, measured: Measured) -> Self {
        let mut before = writer.head(measured.size);
        let left = before.len() + measured.size + ListWriter::TAIL.len();
        let items = match measured.written {
            Some(mut written) => {
                before.append(&mut written);
                Items::Made(Vec::new().into_iter())
            }
            None => items,
        };
        Self {
            format: Format::Protobuf,
            items,
            index: 0,
            run_form: listing.run_form(),
            form: ItemForm::Protobuf(listing, writer),
            before,
            separator: b"",
            tail: ListWriter::TAIL.to_vec(),
            is_written: false,
            left: Some(left),
            indented: None,
            ahead: VecDeque::new(),
        }
    }

    /// The answer with this list: in one piece if it turns out to be small, so that its length can
    /// be announced.
    pub async fn answer(mut self) -> Answer {
        let media_type = HeaderValue::from_static(self.format.media_type());
        let mut size = 0;
        while self.left.is_none() && size <= MAX_PLAIN_BYTES {
            match self.make() {
                Some(Ok(piece)) => {
                    size += piece.len() as u64;
                    self.ahead.push_back(piece);
                    // Many small objects take long: others have their turn between pieces.
                    tokio::task::yield_now().await;
                }
                Some(Err(Broken)) => {
                    let status = Status::internal_error("the list could not be written");
                    return whole(response::status(Spacing::Compact, &status));
                }
                None => break,
            }
        }
        let body = match self.left {
            None if self.is_written() => {
                let all: Vec<u8> = self.ahead.iter().flat_map(|piece| piece.iter().copied()).collect();
                Body::Whole(Full::new(all.into()))
            }
            _ => Body::List(Box::new(self)),
        };
        let mut answer = Answer::new(body);
        answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
        answer
    }

    pub fn is_end(&self) -> bool {
        self.is_written() && self.ahead.is_empty()
    }

    /// Bytes that are still to come, or at least so many.
    pub fn size_hint(&self) -> SizeHint {
        let ahead = self.ahead.iter().map(Bytes::len).sum::<usize>() as u64;
        match self.left {
            Some(left) => SizeHint::with_exact(left as u64),
            None => {
                let mut hint = SizeHint::default();
                hint.set_lower(ahead);
                hint
            }
        }
    }

    /// Bytes that were made and not asked for yet.
    pub fn held(&self) -> usize {
        let ahead: usize = self.ahead.iter().map(Bytes::len).sum();
        let rest = self.indented.as_ref().map_or(0, |indented| indented.rest.len());
        let made = match &self.items {
            Items::Stored(sections) => sections.held(),
            Items::Made(texts) => texts.as_slice().iter().map(Bytes::len).sum(),
        };
        ahead + rest + made + self.before.len() + self.tail.len()
    }

    /// The next piece; `None` behind the last.
    pub fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        match self.ahead.pop_front() {
            Some(piece) => Some(Ok(piece)),
            None => self.make(),
        }
    }

    /// The next piece that was not made yet.
    fn make(&mut self) -> Option<Result<Bytes, Broken>> {
        match self.indented.take() {
            None => self.next_compact(),
            Some(mut indented) => {
                let piece = self.next_indented(&mut indented);
                self.indented = Some(indented);
                piece
            }
        }
    }

    /// All of it at once.
    pub fn collect(mut self) -> Result<Bytes, Broken> {
        let mut all = Vec::with_capacity(self.left.unwrap_or_default());
        while let Some(piece) = self.next() {
            all.extend_from_slice(&piece?);
        }
        Ok(all.into())
    }

    fn is_written(&self) -> bool {
        self.is_written && self.indented.as_ref().is_none_or(|indented| indented.indenter.is_none())
    }

    /// The next piece for a gzip member, in which runs stay compressed.
    pub fn next_for(&mut self, member: &mut Member) -> Option<Result<Fragment, Broken>> {
        let is_compact = self.indented.is_none() && self.ahead.is_empty() && self.before.is_empty();
        match self.next_compressed_run(is_compact, member) {
            Some(run) => Some(run),
            None => self.next().map(|piece| piece.map(Fragment::Plain)),
        }
    }

    fn next_compressed_run(
        &mut self,
        is_compact: bool,
        member: &mut Member,
    ) -> Option<Result<Fragment, Broken>> {
        let form = Form { coding: Coding::Gzip, ..self.run_form.filter(|_| is_compact)? };
        let run = self.items.run()?.clone();
        let piece = match run.ask(form) {
            Asked::First => {
                self.items.divide_run();
                return None;
            }
            Asked::Kept(Encoded { bytes, plain }) => Piece { deflated: bytes, plain },
            Asked::Again => {
                let plain = match self.encode_run(&run) {
                    Ok(plain) => plain,
                    Err(broken) => return Some(Err(self.broken(broken))),
                };
                let plain = plain.strip_suffix(self.separator).unwrap_or(&plain);
                let piece = member.piece(plain);
                run.keep(form, Encoded { bytes: piece.deflated.clone(), plain: piece.plain });
                piece
            }
        };
        self.items.skip_run();
        let separator = if self.items.is_empty() { b"" } else { self.separator };
        let said = self.said(piece.plain.size + separator.len());
        Some(said.map(|()| Fragment::Compressed(piece, separator)).map_err(|broken| self.broken(broken)))
    }

    fn next_compact(&mut self) -> Option<Result<Bytes, Broken>> {
        if self.is_written {
            return None;
        }
        let piece = match self.next_run() {
            Some(piece) => piece,
            None => self.next_objects(),
        };
        let piece = piece.and_then(|piece| {
            self.said(piece.len())?;
            Ok(piece)
        });
        Some(piece.map_err(|broken| self.broken(broken)))
    }

    /// Nothing follows what could not be written.
    fn broken(&mut self, broken: Broken) -> Broken {
        self.is_written = true;
        broken
    }

    /// What was announced is what comes: objects do not change under a list.
    fn said(&mut self, bytes: usize) -> Result<(), Broken> {
        let Some(left) = &mut self.left else { return Ok(()) };
        match left.checked_sub(bytes) {
            Some(rest) if (rest == 0) == self.is_written => {
                *left = rest;
                Ok(())
            }
            _ => Err(Broken),
        }
    }

    /// The next objects, if they are a run that is kept, or is from now on.
    fn next_run(&mut self) -> Option<Result<Bytes, Broken>> {
        let form = self.run_form.filter(|_| self.before.is_empty())?;
        let run = self.items.run()?.clone();
        let bytes = match run.ask(form) {
            Asked::First => {
                self.items.divide_run();
                return None;
            }
            Asked::Kept(encoded) => encoded.bytes,
            Asked::Again => match self.encode_run(&run) {
                Ok(bytes) => {
                    run.keep(form, Encoded { bytes: bytes.clone(), plain: Plain::default() });
                    bytes
                }
                Err(broken) => return Some(Err(broken)),
            },
        };
        self.items.skip_run();
        // Nothing stands between the last item and the tail.
        let extra = if self.items.is_empty() { self.separator.len() } else { 0 };
        Some(Ok(bytes.slice(..bytes.len().saturating_sub(extra))))
    }

    /// Its items, each with what stands behind it.
    fn encode_run(&self, run: &Run) -> Result<Bytes, Broken> {
        if let Some(kept) = self.run_form.and_then(|form| run.kept(form)) {
            return Ok(kept.bytes);
        }
        let begin = self.form.begin().len() + self.separator.len();
        let mut bytes = Vec::with_capacity(run.size() + run.objects().len() * begin);
        for object in run.objects() {
            self.form.write(self.index, Item::Stored(object), &mut bytes)?;
            bytes.extend_from_slice(self.separator);
        }
        // Kept for long: exactly as large as it is.
        Ok(bytes.into_boxed_slice().into())
    }

    fn next_objects(&mut self) -> Result<Bytes, Broken> {
        let mut piece = Vec::with_capacity(self.left.unwrap_or(PIECE_BYTES).min(PIECE_BYTES));
        piece.append(&mut self.before);
        while !self.items.is_empty() {
            let is_full = piece.len() + self.next_size() + self.tail.len() > PIECE_BYTES;
            let is_run = self.run_form.is_some() && self.items.run().is_some();
            if !piece.is_empty() && (is_full || is_run) {
                break;
            }
            let (form, index) = (&self.form, self.index);
            self.index += 1;
            self.items.take(|item| form.write(index, item, &mut piece))?;
            if !self.items.is_empty() {
                piece.extend_from_slice(self.separator);
            }
        }
        if self.items.is_empty() {
            piece.append(&mut self.tail);
            self.is_written = true;
        }
        Ok(piece.into())
    }

    fn next_indented(&mut self, indented: &mut Indented) -> Option<Result<Bytes, Broken>> {
        let mut indenter = indented.indenter.take()?;
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        while piece.len() < PIECE_BYTES {
            if indented.rest.is_empty() {
                match self.next_compact() {
                    Some(Ok(compact)) => indented.rest = compact,
                    Some(Err(broken)) => return Some(Err(broken)),
                    None => {
                        indenter.finish(&mut piece);
                        return (!piece.is_empty()).then(|| Ok(piece.into()));
                    }
                }
            }
            let size = indented.rest.len().min(INDENT_BYTES);
            indenter.push(indented.rest.get(..size).unwrap_or_default(), &mut piece);
            indented.rest.advance(size);
        }
        indented.indenter = Some(indenter);
        Some(Ok(piece.into()))
    }

    /// Bytes of the next item, where they are known before it is written; else what is stored, which
    /// is near enough to fill pieces by.
    fn next_size(&self) -> usize {
        let begin = self.form.begin().len();
        let item = match &self.items {
            Items::Stored(sections) => sections.first().map_or(0, |object| object.size()),
            Items::Made(texts) => texts.as_slice().first().map_or(0, Bytes::len),
        };
        begin + item
    }
}

/// An item that is not written yet.
enum Item<'a> {
    Stored(&'a Object),
    Made(&'a [u8]),
}

impl Item<'_> {
    fn shown(&self, listing: &Listing) -> Value {
        let item = match self {
            Item::Stored(object) => Some(listing.stored(object)),
            Item::Made(text) => serde_json::from_slice(text).ok(),
        };
        listing.shown(item.unwrap_or_default())
    }
}

impl ItemForm {
    /// What every item begins with, before what is stored.
    fn begin(&self) -> &[u8] {
        match self {
            ItemForm::Stored(begin) => begin,
            ItemForm::Json(_) | ItemForm::Yaml(_) | ItemForm::Protobuf(..) => &[],
        }
    }

    fn write(&self, index: usize, item: Item<'_>, out: &mut Vec<u8>) -> Result<(), Broken> {
        match (self, item) {
            (ItemForm::Stored(begin), Item::Stored(object)) => {
                out.extend_from_slice(begin);
                object.write_fields(out);
            }
            (ItemForm::Stored(_), Item::Made(text)) => out.extend_from_slice(text),
            (ItemForm::Json(listing), item) => {
                // Into memory, writing a value cannot fail.
                let _ = serde_json::to_writer(out, &item.shown(listing));
            }
            (ItemForm::Yaml(listing), item) => {
                let alone = Value::Array(vec![item.shown(listing)]);
                out.extend_from_slice(sternpost_yaml::write(&alone).as_bytes());
            }
            (ItemForm::Protobuf(listing, writer), item) => {
                writer.item(index, &item.shown(listing), out).map_err(|_| Broken)?;
            }
        }
        Ok(())
    }
}

impl Sections {
    fn first(&self) -> Option<&Arc<Object>> {
        self.sections.as_slice().first()?.objects().get(self.written)
    }

    /// The first one, if it is a run of which nothing is written.
    fn run(&self) -> Option<&Arc<Run>> {
        match self.sections.as_slice().first()? {
            Section::Run(run) if !self.is_divided => Some(run),
            Section::Run(_) | Section::Objects(_) => None,
        }
    }

    fn take_first(&mut self) {
        self.written += 1;
        if self.first().is_none() {
            self.take_section();
        }
    }

    /// No section is empty.
    fn take_section(&mut self) {
        (self.written, self.is_divided) = (0, false);
        self.sections.next();
    }

    fn held(&self) -> usize {
        let objects = self.sections.as_slice().iter().map(|section| match section {
            // All lists share them.
            Section::Run(_) => 0,
            Section::Objects(objects) => size_of_val(&objects[..]),
        });
        objects.sum::<usize>() + size_of_val(self.sections.as_slice())
    }
}

impl Items {
    pub fn stored(mut sections: Vec<Section>) -> Self {
        sections.retain(|section| !section.objects().is_empty());
        Items::Stored(Sections { sections: sections.into_iter(), written: 0, is_divided: false })
    }

    fn is_empty(&self) -> bool {
        match self {
            Items::Stored(sections) => sections.first().is_none(),
            Items::Made(texts) => texts.as_slice().is_empty(),
        }
    }

    fn run(&self) -> Option<&Arc<Run>> {
        match self {
            Items::Stored(sections) => sections.run(),
            Items::Made(_) => None,
        }
    }

    /// The first run is written object by object.
    fn divide_run(&mut self) {
        if let Items::Stored(sections) = self {
            sections.is_divided = true;
        }
    }

    fn skip_run(&mut self) {
        if let Items::Stored(sections) = self {
            sections.take_section();
        }
    }

    fn take<T>(&mut self, mut act: impl FnMut(Item<'_>) -> Result<T, Broken>) -> Result<Option<T>, Broken> {
        match self {
            Items::Stored(sections) => {
                let done = sections.first().map(|object| act(Item::Stored(object))).transpose();
                sections.take_first();
                done
            }
            Items::Made(texts) => texts.next().map(|text| act(Item::Made(&text))).transpose(),
        }
    }
}

/// Bytes of stored objects.
fn size(section: &Section) -> usize {
    match section {
        Section::Run(run) => run.size(),
        Section::Objects(objects) => objects.iter().map(|object| object.size()).sum(),
    }
}

/// How long the items of a list are in protobuf, which stands before them.
struct Measured {
    size: usize,
    /// The items themselves, if they are few.
    written: Option<Vec<u8>>,
}

impl Measured {
    /// `None` if one of them has no form in protobuf.
    async fn of(listing: &Listing, writer: &ListWriter, items: &Items) -> Option<Self> {
        let mut measuring =
            Measuring { listing, writer, index: 0, size: 0, written: Some(Vec::new()), since: 0 };
        match items {
            Items::Stored(sections) => {
                let form = listing.run_form();
                for section in sections.sections.as_slice() {
                    let run = match section {
                        Section::Run(run) => form.map(|form| (run, form)),
                        Section::Objects(_) => None,
                    };
                    if let Some(known) = run.and_then(|(run, form)| run.size_in(form)) {
                        measuring.size += known;
                        measuring.written = None;
                        continue;
                    }
                    let before = measuring.size;
                    for object in section.objects() {
                        measuring.add(Item::Stored(object)).await?;
                    }
                    if let Some((run, form)) = run {
                        run.note_size(form, measuring.size - before);
                    }
                }
            }
            Items::Made(texts) => {
                for text in texts.as_slice() {
                    measuring.add(Item::Made(text)).await?;
                }
            }
        }
        Some(Self { size: measuring.size, written: measuring.written })
    }
}

struct Measuring<'a> {
    listing: &'a Listing,
    writer: &'a ListWriter,
    index: usize,
    size: usize,
    /// What was measured, as long as it is little.
    written: Option<Vec<u8>>,
    /// Bytes since others had their turn.
    since: usize,
}

impl Measuring<'_> {
    async fn add(&mut self, item: Item<'_>) -> Option<()> {
        let mut one = Vec::new();
        self.writer.item(self.index, &item.shown(self.listing), &mut one).ok()?;
        self.index += 1;
        self.size += one.len();
        self.since += one.len();
        match &mut self.written {
            Some(written) if self.size as u64 <= MAX_PLAIN_BYTES => written.append(&mut one),
            written => *written = None,
        }
        if self.since >= PIECE_BYTES {
            self.since = 0;
            tokio::task::yield_now().await;
        }
        Some(())
    }
}

fn head(served: &Served, listed: &Listed) -> Vec<u8> {
    let mut head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{{\"resourceVersion\":\"{}\"",
        served.list_kind(),
        served.resource.gv,
        listed.revision
    );
    if served.lists_continue(&listed.continue_token) {
        head += &format!(",\"continue\":\"{}\"", listed.continue_token);
    }
    if let Some(remaining) = listed.remaining {
        head += &format!(",\"remainingItemCount\":{remaining}");
    }
    head += "},\"items\":[";
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};
    use http_body_util::BodyExt;
    use hyper::body::Body as _;
    use serde_json::{Value, json};

    use sternpost_golang::time::Timestamp;
    use sternpost_verbs::Target;

    use super::*;
    use crate::{Api, body::Body, objects, objects::representation::Shape, testing};

    async fn create(api: &Api, name: &str, filling: usize) {
        let mut request = testing::request(Method::POST, "/api/v1/namespaces", &[]);
        let annotations = json!({"filling": "x".repeat(filling)});
        let object = json!({"metadata": {"name": name, "annotations": annotations}});
        request.body = object.to_string().into();
        let answer = testing::handle(api, &request).await;
        assert_eq!(answer.status(), StatusCode::CREATED);
    }

    async fn get(api: &Api, target: &str) -> Answer {
        let request = testing::request(Method::GET, target, &[("accept", "application/json")]);
        let answer = testing::handle(api, &request).await;
        assert_eq!(answer.status(), StatusCode::OK);
        answer
    }

    /// All bytes of an answer, and the most that its body held while they were read.
    async fn read(answer: Answer) -> (Vec<u8>, usize) {
        let (mut all, mut most) = (Vec::new(), 0);
        let mut body = answer.into_body();
        loop {
            let held = match &body {
                Body::List(list) => list.held(),
                Body::Whole(whole) => usize::try_from(whole.size_hint().lower()).unwrap(),
                other => panic!("{other:?}"),
            };
            most = most.max(held);
            let Some(frame) = body.frame().await else { return (all, most) };
            let data = frame.unwrap().into_data().unwrap();
            most = most.max(held + data.len());
            all.extend_from_slice(&data);
        }
    }

    /// Lists objects with that much filling, and returns the sizes of the pieces.
    async fn check(filling: &[usize]) -> Vec<usize> {
        let api = testing::api();
        for (number, filling) in filling.iter().enumerate() {
            create(&api, &format!("n{number:04}"), *filling).await;
        }
        let mut list = get(&api, "/api/v1/namespaces").await.into_body();
        assert!(matches!(list, Body::List(_)));
        let announced = list.size_hint().exact().unwrap();
        let mut pieces = Vec::new();
        while let Some(frame) = list.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap());
        }
        assert!(list.is_end_stream());
        let all = pieces.concat();
        assert_eq!(all.len() as u64, announced);

        let (pretty, _) = read(get(&api, "/api/v1/namespaces?pretty=true").await).await;
        assert_eq!(crate::pretty::indent(&all), pretty);
        let mut listed: Value = serde_json::from_slice(&all).unwrap();
        let items = listed["items"].as_array_mut().unwrap();
        assert_eq!(items.len(), filling.len());
        for (number, item) in items.iter_mut().enumerate() {
            item["kind"] = "Namespace".into();
            item["apiVersion"] = "v1".into();
            let one = get(&api, &format!("/api/v1/namespaces/n{number:04}")).await;
            assert_eq!(*item, serde_json::from_slice::<Value>(&testing::body_bytes(&one)).unwrap());
        }
        pieces.iter().map(Bytes::len).collect()
    }

    #[tokio::test]
    async fn pieces_make_up_the_list_and_hold_whole_objects() {
        assert_eq!(check(&[]).await.len(), 1);
        assert_eq!(check(&[0]).await.len(), 1);
        assert_eq!(check(&[10; 100]).await.len(), 1);
        let many = check(&[5000; 60]).await;
        assert!(many.len() > 4 && many.iter().all(|size| *size <= PIECE_BYTES), "{many:?}");
        // An object that is larger than a piece goes alone.
        let mixed = check(&[10, PIECE_BYTES, 10, 2 * PIECE_BYTES, 3 * PIECE_BYTES, 10]).await;
        assert!(mixed.len() > 4, "{mixed:?}");
    }

    #[tokio::test]
    async fn pieces_are_full_to_the_limit_and_not_past_it() {
        // The size of a list with one object without filling is what all share.
        let [shared] = check(&[0]).await[..] else { panic!("one piece") };
        assert_eq!(check(&[PIECE_BYTES - shared]).await, [PIECE_BYTES]);
        let past = check(&[PIECE_BYTES - shared + 1]).await;
        assert_eq!(past.iter().sum::<usize>(), PIECE_BYTES + 1);
        assert_eq!(past.len(), 2);
    }

    /// Everything that a list can be asked for as, but JSON as it is stored.
    const FORMS: [(&str, &str); 10] = [
        ("application/yaml", ""),
        ("application/vnd.kubernetes.protobuf", ""),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", ""),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", "?includeObject=Object&pretty=true"),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", "?includeObject=None"),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ""),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "?pretty=true"),
        ("application/yaml;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io", ""),
        ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ""),
        ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io", ""),
    ];

    /// Texts that are hard to write.
    const HARD: [&str; 6] =
        ["", "a\nb\n\n", " |- x: [] {}\n", "é\u{2028}\"\\\u{1}", "items: []\n", "rows: []\n- a"];

    fn asked(accept: &str, query: &str, path: &str) -> crate::request::Request {
        testing::request(Method::GET, &format!("{path}{query}"), &[("accept", accept)])
    }

    /// Lists in every form, and compares with the list written at once. Returns the sizes, and the
    /// most that was held of each.
    async fn compare(api: &Api, group: &str, plural: &str) -> Vec<(usize, usize)> {
        let served = api.verbs.served.get(group, "v1", plural).unwrap();
        let path = if group.is_empty() { "/api/v1".into() } else { format!("/apis/{group}/v1") };
        let path = format!("{path}/{plural}");
        let mut sizes = Vec::new();
        for (accept, query) in FORMS {
            let request = asked(accept, query, &path);
            let shape = Shape::negotiate_list(&request, &served).unwrap();
            let target = Target { served: &served, namespace: "", name: "" };
            let selection = objects::options::selection(&request, &served).unwrap();
            let options = objects::options::list(&request).unwrap();
            let listed = api.verbs.list(target, &selection, &options).await.unwrap();
            let now = Timestamp::from(request.clock.wall());
            let listing = Listing { shape, served: served.clone(), now };
            let items: Vec<Value> = listed.objects().map(|object| listing.stored(object)).collect();
            let meta = Meta { revision: Some(listed.revision), ..Meta::default() };
            let list = listing.list(&items, &meta, Definitions::Send);
            let (format, expected) = shape.format.encode(Spacing::wanted_by(&request), &list);

            let answer = testing::handle(api, &request).await;
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(answer.headers()["content-type"], format.media_type());
            let (all, most) = read(answer).await;
            assert_eq!(all.len(), expected.len(), "{accept}{query}");
            assert!(all == expected, "{accept}{query}");
            sizes.push((all.len(), most));
        }
        sizes
    }

    #[tokio::test]
    async fn every_form_is_the_same_written_in_pieces() {
        let api = testing::api();
        compare(&api, "", "namespaces").await;
        for (number, text) in HARD.iter().enumerate() {
            let mut request = testing::request(Method::POST, "/api/v1/namespaces", &[]);
            let annotations = json!({"hard": text, "long": format!("{text} ").repeat(30)});
            let object = json!({"metadata": {"name": format!("hard-{number}"), "annotations": annotations}});
            request.body = object.to_string().into();
            let answer = testing::handle(&api, &request).await;
            assert_eq!(answer.status(), StatusCode::CREATED);
            // With one, with two, and with more of them.
            compare(&api, "", "namespaces").await;
        }
        // Around the size from which on nothing is made twice, and well beyond it.
        for (number, filling) in [60_000, 60_000, 5_000, 5_000, 200_000, 10].into_iter().enumerate() {
            create(&api, &format!("large-{number}"), filling).await;
            compare(&api, "", "namespaces").await;
        }
        for number in 0..500 {
            create(&api, &format!("many-{number:04}"), 100).await;
        }
        compare(&api, "", "namespaces").await;
    }

    #[tokio::test]
    async fn sorted_rows_are_sorted_in_pieces_too() {
        let api = testing::api();
        for (name, precedence) in [("a", 9000), ("b", 10), ("c", 500), ("d", 10)] {
            let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
            let mut request = testing::request(Method::POST, path, &[]);
            let level = json!({"name": "level"});
            let spec = json!({"matchingPrecedence": precedence, "priorityLevelConfiguration": level});
            request.body = json!({"metadata": {"name": name}, "spec": spec}).to_string().into();
            let answer = testing::handle(&api, &request).await;
            assert_eq!(answer.status(), StatusCode::CREATED);
        }
        compare(&api, "flowcontrol.apiserver.k8s.io", "flowschemas").await;
    }

    /// Whatever its form, a list takes the memory of a few pieces, before it is read and while it is.
    #[tokio::test]
    async fn no_form_of_a_large_list_is_held_whole() {
        let api = testing::api();
        let (count, filling) = (1000, 4096);
        for number in 0..count {
            create(&api, &format!("n{number:04}"), filling).await;
        }
        // What is made to see whether it is large, a piece on its way, one in the making.
        let bound =
            usize::try_from(MAX_PLAIN_BYTES).unwrap() + 3 * PIECE_BYTES + count * size_of::<Arc<Object>>();
        for (size, most) in compare(&api, "", "namespaces").await {
            assert!(most <= bound.min(size + bound / 2), "{most} of {size}");
        }
        for target in ["/api/v1/namespaces", "/api/v1/namespaces?pretty=true"] {
            let (all, most) = read(get(&api, target).await).await;
            assert!(all.len() > count * filling && most <= bound, "{most} of {}", all.len());
        }
    }

    #[tokio::test]
    async fn large_lists_of_every_form_are_compressed() {
        let api = testing::api();
        for number in 0..60 {
            create(&api, &format!("n{number:04}"), 4096).await;
        }
        for (accept, query) in FORMS.into_iter().filter(|(_, query)| !query.contains("None")) {
            let request = asked(accept, query, "/api/v1/namespaces");
            let (plain, _) = read(testing::handle(&api, &request).await).await;
            let answer = testing::handle(&api, &request).await;
            let headers = testing::headers(&[("accept-encoding", "gzip")]);
            let answer = crate::gzip::apply(&headers, answer);
            assert_eq!(answer.headers()["content-encoding"], "gzip", "{accept}");
            let compressed = answer.into_body().collect().await.unwrap().to_bytes();
            let mut read = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*compressed), &mut read).unwrap();
            assert!(read == plain, "{accept}");
        }
    }
}
