//! Files as bytes, as `FORMAT.md` has them: a header, then frames of records.

use std::iter;

use bytes::Bytes;
use sternpost_store::{Event, Revision, load::Version, watch::Batch};

use crate::sealing::Cover;

pub const FORMAT_VERSION: u32 = 2;
const FORMAT_NAME: &[u8; 15] = b"sternpost-store";

/// Where the first frame of a file is.
pub const HEADER: usize = 128;

/// Frames begin at multiples of this, so that a header is in one sector of the disk.
pub const ALIGN: usize = 32;
pub const FRAME_HEADER: usize = ALIGN;

const STATE: usize = 32;
const ROW: usize = 40;

/// No frame is longer: the largest group of transactions, with room to spare.
pub const MAX_FRAME: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    Log = 1,
    Snapshot = 2,
}

/// Which file it is, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    pub kind: FileKind,
    pub number: u64,
}

/// The numbers that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Of the newest change.
    pub revision: Revision,
    /// The oldest that can be read and watched after.
    pub compacted: Revision,
    /// None above this one was ever given out.
    pub reserved: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub file: FileId,
    /// Of the first frame of the log that has this number.
    pub sequence: u64,
    /// How long the file is; a log may have grown since.
    pub length: u64,
    /// Only a snapshot has it.
    pub contents: Option<Contents>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// As of the beginning of the log that has this number; `compacted` as of the end of the snapshot.
    pub state: State,
    /// See [`Loader::new`](sternpost_store::load::Loader::new).
    pub settled: Revision,
    pub frames: u64,
    pub records: u64,
}

/// Why a header is not understood.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderError {
    Foreign(&'static str),
    UnknownVersion(u32),
    Corrupt(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Put = 1,
    Delete = 2,
    /// What was there when the history begins.
    Base = 3,
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub kind: RecordKind,
    pub revision: Revision,
    pub created: Revision,
    pub time: u64,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// A record that is not what was written.
#[derive(Debug, PartialEq, Eq)]
pub struct Damaged {
    pub kind: RecordKind,
    pub revision: Revision,
    /// If at least that is whole.
    pub key: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// With the header.
    pub length: usize,
    pub records: usize,
    pub sequence: u64,
    table: u32,
    mask: Mask,
}

/// What the bytes of a frame are combined with, so that no client can choose what is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask([u8; 8]);

impl FileId {
    pub fn log(number: u64) -> Self {
        Self { kind: FileKind::Log, number }
    }

    pub fn snapshot(number: u64) -> Self {
        Self { kind: FileKind::Snapshot, number }
    }

    pub fn name(self) -> String {
        match self.kind {
            FileKind::Log => format!("log-{}", self.number),
            FileKind::Snapshot => format!("snapshot-{}", self.number),
        }
    }

    /// `None` if this is the name of something else.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, number) = name.split_once('-')?;
        let kind = match kind {
            "log" => FileKind::Log,
            "snapshot" => FileKind::Snapshot,
            _ => return None,
        };
        let file = Self { kind, number: number.parse().ok()? };
        // One name for each.
        (file.name() == name).then_some(file)
    }
}

impl Mask {
    /// Of random bytes. None of the mask is zero: what was never written is.
    pub fn new(random: [u8; 8]) -> Self {
        Self(random.map(|byte| byte.max(1)))
    }

    fn apply(self, bytes: &mut [u8]) {
        let mask = u64::from_ne_bytes(self.0);
        let (words, rest) = bytes.as_chunks_mut();
        for word in words {
            *word = (u64::from_ne_bytes(*word) ^ mask).to_ne_bytes();
        }
        for (byte, mask) in rest.iter_mut().zip(self.0) {
            *byte ^= mask;
        }
    }
}

impl<'a> Record<'a> {
    pub fn of_batch(batch: &'a Batch) -> impl Iterator<Item = Self> + Clone {
        batch.events.iter().map(|event| {
            let (kind, created, value) = match event {
                Event::Put { entry, .. } => (RecordKind::Put, entry.created, entry.value()),
                Event::Delete { previous } => (RecordKind::Delete, previous.created, &[][..]),
            };
            let (revision, time) = (batch.revision, batch.time);
            Self { kind, revision, created, time, key: event.key(), value }
        })
    }

    fn row(&self) -> Option<[u8; ROW]> {
        let mut row = [0; ROW];
        let mut rest = &mut row[..];
        put(&mut rest, &[self.kind as u8, 0]);
        put(&mut rest, &u16::try_from(self.key.len()).ok()?.to_be_bytes());
        put(&mut rest, &u32::try_from(self.value.len()).ok()?.to_be_bytes());
        for number in [self.created.get(), self.revision.get(), self.time] {
            put(&mut rest, &number.to_be_bytes());
        }
        put(&mut rest, &checksum(&[self.key]).to_be_bytes());
        put(&mut rest, &checksum(&[self.value]).to_be_bytes());
        Some(row)
    }
}

pub fn encode_header(header: &Header) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let mut rest = &mut bytes[..];
    put(&mut rest, FORMAT_NAME);
    put(&mut rest, &[header.file.kind as u8]);
    put(&mut rest, &FORMAT_VERSION.to_be_bytes());
    put(&mut rest, &[0; 4]);
    let numbers = [header.file.number, header.sequence, header.length];
    let contents = header.contents.map(|contents| {
        let Contents { state, settled, frames, records } = contents;
        [state.revision, state.compacted, state.reserved, settled]
            .map(Revision::get)
            .into_iter()
            .chain([frames, records])
    });
    for number in numbers.into_iter().chain(contents.into_iter().flatten()) {
        put(&mut rest, &number.to_be_bytes());
    }
    if let Some((bytes, sum)) = bytes.split_last_chunk_mut() {
        *sum = checksum(&[bytes]).to_be_bytes();
    }
    bytes
}

/// The header of a file with this name.
pub fn decode_header(bytes: &[u8; HEADER], file: FileId) -> Result<Header, HeaderError> {
    let damaged = HeaderError::Corrupt("its header is damaged");
    let rest = bytes.strip_prefix(FORMAT_NAME).ok_or(HeaderError::Foreign("it does not begin as one"))?;
    let (&[kind], mut rest) = rest.split_first_chunk().ok_or(HeaderError::Foreign("it is empty"))?;
    let numbers = take_u64(&mut rest).map(|word| (word >> 32, word as u32));
    match numbers.and_then(|(version, zero)| Some((u32::try_from(version).ok()?, zero))) {
        Some((FORMAT_VERSION, 0)) => {}
        Some((version, 0)) => return Err(HeaderError::UnknownVersion(version)),
        _ => return Err(damaged),
    }
    let (sealed, sum) = bytes.split_last_chunk().ok_or(HeaderError::Foreign("it is empty"))?;
    if checksum(&[sealed]) != u32::from_be_bytes(*sum) {
        return Err(damaged);
    }
    let read = |rest: &mut &[u8]| {
        let (number, sequence, length) = (take_u64(rest)?, take_u64(rest)?, take_u64(rest)?);
        let contents = match file.kind {
            FileKind::Log => None,
            FileKind::Snapshot => Some(Contents {
                state: State {
                    revision: take_revision(rest)?,
                    compacted: take_revision(rest)?,
                    reserved: take_revision(rest)?,
                },
                settled: take_revision(rest)?,
                frames: take_u64(rest)?,
                records: take_u64(rest)?,
            }),
        };
        Some((number, Header { file, sequence, length, contents }))
    };
    match read(&mut rest) {
        Some((number, header)) if (kind, number) == (file.kind as u8, file.number) => Ok(header),
        Some(_) => Err(HeaderError::Corrupt("it has the name of another file")),
        None => Err(damaged),
    }
}

/// Makes a frame in the buffer. `length` is that of the file, at least. Fails if it would be longer
/// than a frame can be, or a value cannot be sealed; what was sealed otherwise a moment ago may do.
pub fn encode_frame<'a>(
    buffer: &mut Vec<u8>,
    place: (FileId, u64),
    cover: &Cover,
    state: (&State, u64),
    records: impl Iterator<Item = Record<'a>> + Clone,
) -> Result<(), String> {
    let too_long = || "a frame would be too long".to_owned();
    if cover.sealing.overhead() == 0 {
        return encode_records(buffer, place, cover.mask, state, records).ok_or_else(too_long);
    }
    let seal = |record: Record<'_>| match record.kind {
        RecordKind::Delete => Ok(None),
        RecordKind::Put | RecordKind::Base => cover.sealing.seal(record.key, record.value),
    };
    let sealed = records.clone().map(seal).collect::<Result<Vec<_>, _>>()?;
    let records = iter::zip(records, &sealed).map(|(record, sealed)| match sealed {
        Some(value) => Record { value, ..record },
        None => record,
    });
    encode_records(buffer, place, cover.mask, state, records).ok_or_else(too_long)
}

/// `None` if it would be longer than a frame can be.
fn encode_records<'a>(
    buffer: &mut Vec<u8>,
    (file, sequence): (FileId, u64),
    mask: Mask,
    (state, length): (&State, u64),
    records: impl Iterator<Item = Record<'a>> + Clone,
) -> Option<()> {
    buffer.clear();
    buffer.resize(FRAME_HEADER, 0);
    for number in [state.revision.get(), state.compacted.get(), state.reserved.get(), length] {
        buffer.extend_from_slice(&number.to_be_bytes());
    }
    let mut count: u32 = 0;
    for record in records.clone() {
        buffer.extend_from_slice(&record.row()?);
        count = count.checked_add(1)?;
    }
    let table = checksum(&[buffer.get(FRAME_HEADER..)?]);
    for record in records {
        buffer.extend_from_slice(record.key);
        buffer.extend_from_slice(record.value);
    }
    // At least one byte: the last one is then that of the mask, and never zero.
    buffer.resize((buffer.len() + 1).next_multiple_of(ALIGN), 0);
    if buffer.len() > MAX_FRAME {
        return None;
    }
    let length = u32::try_from(buffer.len()).ok()?;
    let (header, body) = buffer.split_first_chunk_mut::<FRAME_HEADER>()?;
    mask.apply(body);
    let mut rest = &mut header[..];
    put(&mut rest, &length.to_be_bytes());
    put(&mut rest, &count.to_be_bytes());
    put(&mut rest, &sequence.to_be_bytes());
    put(&mut rest, &table.to_be_bytes());
    put(&mut rest, &[0; 4]);
    put(&mut rest, &mask.0);
    let sum = frame_checksum(file, header).to_be_bytes();
    header.get_mut(20..24)?.copy_from_slice(&sum);
    Some(())
}

/// `None` if this is no header of a frame of this file.
pub fn decode_frame_header(bytes: &[u8; FRAME_HEADER], file: FileId) -> Option<FrameHeader> {
    // Most of what is looked at was never written.
    if bytes == &[0; FRAME_HEADER] {
        return None;
    }
    let mut rest = &bytes[..];
    let lengths = take_u64(&mut rest)?;
    let length = usize::try_from(lengths >> 32).ok()?;
    let records = usize::try_from(lengths & u64::from(u32::MAX)).ok()?;
    let sequence = take_u64(&mut rest)?;
    let sums = take_u64(&mut rest)?;
    let (table, sum) = ((sums >> 32) as u32, sums as u32);
    let mask = Mask(rest.try_into().ok()?);
    let least = records.checked_mul(ROW)?.checked_add(FRAME_HEADER + STATE)?;
    let possible = length.is_multiple_of(ALIGN) && length > least && length <= MAX_FRAME;
    (possible && !mask.0.contains(&0) && frame_checksum(file, bytes) == sum).then_some(FrameHeader {
        length,
        records,
        sequence,
        table,
        mask,
    })
}

/// The state and the length of the file in a frame, after its records were handed over, as far as
/// they can be told apart. `None` if anything but a record is not what was written. `body` is of no
/// use afterwards.
pub fn decode_body(
    header: &FrameHeader,
    body: &mut [u8],
    mut found: impl FnMut(Result<(RecordKind, Version), Damaged>),
) -> Option<(State, u64)> {
    header.mask.apply(body);
    let (table, mut data) = body.split_at_checked(STATE + header.records * ROW)?;
    if checksum(&[table]) != header.table {
        return None;
    }
    let (mut state, rows) = table.split_at_checked(STATE)?;
    let numbers = State {
        revision: take_revision(&mut state)?,
        compacted: take_revision(&mut state)?,
        reserved: take_revision(&mut state)?,
    };
    let length = take_u64(&mut state)?;
    let (rows, _) = rows.as_chunks();
    for row in rows {
        found(decode_record(row, &mut data)?);
    }
    let padding = (1..=ALIGN).contains(&data.len()) && data.iter().all(|byte| *byte == 0);
    padding.then_some((numbers, length))
}

/// `None` if the row is not of a record, which no damage makes it.
fn decode_record(row: &[u8; ROW], data: &mut &[u8]) -> Option<Result<(RecordKind, Version), Damaged>> {
    let mut rest = &row[..];
    let lengths = take_u64(&mut rest)?.to_be_bytes();
    let [kind, _, key_high, key_low, value @ ..] = lengths;
    let key_length = usize::from(u16::from_be_bytes([key_high, key_low]));
    let value_length = usize::try_from(u32::from_be_bytes(value)).ok()?;
    let kind = match kind {
        1 => RecordKind::Put,
        2 => RecordKind::Delete,
        3 => RecordKind::Base,
        _ => return None,
    };
    let created = take_revision(&mut rest)?;
    let revision = take_revision(&mut rest)?;
    let time = take_u64(&mut rest)?;
    let sums = take_u64(&mut rest)?;
    let (key, after) = data.split_at_checked(key_length)?;
    let (value, after) = after.split_at_checked(value_length)?;
    *data = after;
    let key_is_whole = checksum(&[key]) == (sums >> 32) as u32;
    let value_is_whole = checksum(&[value]) == sums as u32;
    if !key_is_whole || !value_is_whole {
        let key = key_is_whole.then(|| Bytes::copy_from_slice(key));
        return Some(Err(Damaged { kind, revision, key }));
    }
    let value = match kind {
        RecordKind::Put | RecordKind::Base => Some(Bytes::copy_from_slice(value)),
        RecordKind::Delete => None,
    };
    Some(Ok((kind, Version { revision, key: Bytes::copy_from_slice(key), created, time, value })))
}

/// Of the header without the sum itself, for the file it is in.
fn frame_checksum(file: FileId, header: &[u8; FRAME_HEADER]) -> u32 {
    let (before, after) = (header.get(..20).unwrap_or_default(), header.get(24..).unwrap_or_default());
    checksum(&[&[file.kind as u8], &file.number.to_be_bytes(), before, after])
}

fn checksum(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// Fills the beginning, and goes on behind it.
fn put(rest: &mut &mut [u8], bytes: &[u8]) {
    if let Some((place, after)) = std::mem::take(rest).split_at_mut_checked(bytes.len()) {
        place.copy_from_slice(bytes);
        *rest = after;
    }
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*number))
}

fn take_revision(bytes: &mut &[u8]) -> Option<Revision> {
    take_u64(bytes).and_then(Revision::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: u64) -> Revision {
        Revision::new(number).unwrap()
    }

    fn state() -> State {
        State { revision: revision(7), compacted: revision(2), reserved: revision(99) }
    }

    type Decoded = (State, u64, Vec<Result<(RecordKind, Version), Damaged>>);

    fn decode(bytes: &[u8], file: FileId) -> Option<Decoded> {
        let header = decode_frame_header(bytes.first_chunk()?, file)?;
        let mut body = bytes.get(FRAME_HEADER..header.length)?.to_vec();
        let mut records = vec![];
        let (state, length) = decode_body(&header, &mut body, |record| records.push(record))?;
        Some((state, length, records))
    }

    fn sample() -> (Vec<u8>, Vec<Version>) {
        let version = |number, key: &'static str, value: Option<&'static str>| Version {
            revision: revision(number),
            key: key.into(),
            created: revision(3),
            time: 1234,
            value: value.map(Bytes::from),
        };
        let versions = vec![
            version(3, "base", Some("zero\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")),
            version(7, "a/b", Some("value")),
            version(7, "empty", Some("")),
            version(7, "gone", None),
        ];
        let kinds = [RecordKind::Base, RecordKind::Put, RecordKind::Put, RecordKind::Delete];
        let records = versions.iter().zip(kinds).map(|(version, kind)| Record {
            kind,
            revision: version.revision,
            created: version.created,
            time: version.time,
            key: &version.key,
            value: version.value.as_deref().unwrap_or_default(),
        });
        let mut buffer = vec![1, 2, 3];
        let mask = Mask::new([0, 17, 255, 3, 0, 5, 6, 7]);
        encode_frame(&mut buffer, (FileId::log(4), 11), &Cover::plain(mask), (&state(), 4096), records)
            .unwrap();
        (buffer, versions)
    }

    #[test]
    fn frames_read_back_as_written_and_no_changed_bit_goes_unnoticed() {
        let (bytes, versions) = sample();
        assert!(bytes.len().is_multiple_of(ALIGN));
        assert!(!bytes.ends_with(&[0]) && !bytes[..FRAME_HEADER].ends_with(&[0]));
        let (found, length, records) = decode(&bytes, FileId::log(4)).unwrap();
        assert_eq!((found, length), (state(), 4096));
        let records: Vec<Version> = records.into_iter().map(|record| record.unwrap().1).collect();
        assert_eq!(records, versions);
        let whole = |bytes: &[u8]| {
            decode(bytes, FileId::log(4)).is_some_and(|(.., records)| records.iter().all(Result::is_ok))
        };
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[index] ^= 1 << bit;
                assert!(!whole(&damaged), "byte {index} bit {bit}");
            }
            assert!(!whole(&bytes[..index]), "cut at {index}");
        }
        // Nor is it a frame of another file.
        assert_eq!(decode(&bytes, FileId::log(5)), None);
        assert_eq!(decode(&bytes, FileId::snapshot(4)), None);
    }

    #[test]
    fn of_damage_to_one_record_the_others_are_whole() {
        let (mut bytes, versions) = sample();
        let data = FRAME_HEADER + STATE + versions.len() * ROW;
        // In the key of the first, and the value of the second.
        bytes[data] ^= 1;
        bytes[data + "base".len() + "zero".len() + 16 + "a/b".len()] ^= 1;
        let (.., records) = decode(&bytes, FileId::log(4)).unwrap();
        let damaged = |kind, number, key: Option<&'static str>| {
            Err(Damaged { kind, revision: revision(number), key: key.map(Bytes::from) })
        };
        assert_eq!(records[0], damaged(RecordKind::Base, 3, None));
        assert_eq!(records[1], damaged(RecordKind::Put, 7, Some("a/b")));
        assert_eq!(records[2], Ok((RecordKind::Put, versions[2].clone())));
        assert_eq!(records[3], Ok((RecordKind::Delete, versions[3].clone())));
    }

    #[test]
    fn headers_read_back_as_written_and_no_changed_bit_goes_unnoticed() {
        let contents = Contents { state: state(), settled: revision(1), frames: 5, records: 6 };
        let log = Header { file: FileId::log(9), sequence: 3, length: 4096, contents: None };
        let snapshot = Header { file: FileId::snapshot(9), contents: Some(contents), ..log };
        for header in [log, snapshot] {
            let bytes = encode_header(&header);
            assert_eq!(decode_header(&bytes, header.file), Ok(header));
            for index in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes;
                    damaged[index] ^= 1 << bit;
                    assert!(decode_header(&damaged, header.file).is_err(), "byte {index} bit {bit}");
                }
            }
            let other = FileId { number: 8, ..header.file };
            let expected = Err(HeaderError::Corrupt("it has the name of another file"));
            assert_eq!(decode_header(&bytes, other), expected);
        }
        let mut newer = encode_header(&log);
        newer[19] = 3;
        assert_eq!(decode_header(&newer, log.file), Err(HeaderError::UnknownVersion(3)));
    }

    #[test]
    fn every_file_has_one_name() {
        for file in [FileId::log(1), FileId::snapshot(u64::MAX)] {
            assert_eq!(FileId::parse(&file.name()), Some(file));
        }
        for other in
            ["lock", "log-", "log-01", "log-+1", "log-1.new", "log.new", "snapshot-18446744073709551616"]
        {
            assert_eq!(FileId::parse(other), None, "{other}");
        }
    }
}
