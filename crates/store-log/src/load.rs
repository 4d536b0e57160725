//! Reading a whole store. Changes nothing.

use std::{io, path::Path, time::Duration};

use sternpost_clock::machine;
use sternpost_store::{
    load::{Loader, Version},
    mvcc::Mvcc,
};

use crate::{
    codec::{FileId, FileKind, HEADER, Header, HeaderError, RecordKind, State},
    disk::{Disk, File},
    frames::{Frames, Next, Tail},
    sealing::{self, Sealing, Unopened},
    store::OpenError,
};

/// How long what is being written may take to be whole, and how often it is looked at.
const SETTLE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// The files of a store, by number in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Files {
    pub snapshots: Vec<u64>,
    pub logs: Vec<u64>,
}

/// A store that was read.
#[derive(Debug)]
pub struct Loaded {
    pub mvcc: Mvcc,
    pub state: State,
    /// Where the log goes on.
    pub end: LogEnd,
    pub snapshot: u64,
    pub snapshot_bytes: u64,
    /// Of all logs since the snapshot.
    pub log_bytes: u64,
    /// Whether any value would be written otherwise now.
    pub stale: bool,
}

/// The end of the newest log.
#[derive(Clone, Copy, Debug)]
pub struct LogEnd {
    pub number: u64,
    pub offset: u64,
    /// Of the next frame.
    pub sequence: u64,
    /// The length of the file.
    pub length: u64,
    /// Up to here there may be something else than zeroes.
    pub dirty: u64,
}

impl Files {
    pub fn list(disk: &dyn Disk, path: &Path) -> Result<Self, OpenError> {
        let names = disk.list().map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        let mut files = Self::default();
        for file in names.iter().filter_map(|name| FileId::parse(name)) {
            match file.kind {
                FileKind::Log => files.logs.push(file.number),
                FileKind::Snapshot => files.snapshots.push(file.number),
            }
        }
        files.snapshots.sort_unstable();
        files.logs.sort_unstable();
        Ok(files)
    }
}

/// Whether anybody writes while a store is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Nobody,
    Perhaps,
}

/// Reads the newest snapshot and all logs since. Refuses what is not understood.
pub fn load(disk: &dyn Disk, path: &Path, files: &Files, sealing: &dyn Sealing) -> Result<Loaded, OpenError> {
    load_while(Writing::Nobody, disk, path, files, sealing)
}

/// As [`load`], of a store that somebody else may be writing to: up to a frame that was the last one when it was read.
pub fn load_beside(
    disk: &dyn Disk,
    path: &Path,
    files: &Files,
    sealing: &dyn Sealing,
) -> Result<Loaded, OpenError> {
    load_while(Writing::Perhaps, disk, path, files, sealing)
}

fn load_while(
    writing: Writing,
    disk: &dyn Disk,
    path: &Path,
    files: &Files,
    sealing: &dyn Sealing,
) -> Result<Loaded, OpenError> {
    let Some(&snapshot) = files.snapshots.last() else {
        let reason = "there are logs, but no snapshot".into();
        return Err(OpenError::Corrupt { path: path.to_owned(), reason });
    };
    let Snapshot { mut loader, mut state, mut sequence, length: snapshot_bytes, mut stale } =
        read_snapshot(disk, path, snapshot, sealing)?;
    let logs: Vec<u64> = files.logs.iter().copied().filter(|log| *log >= snapshot).collect();
    let mut log_bytes = 0;
    let mut end = None;
    for (index, number) in logs.iter().enumerate() {
        let log = FileId::log(*number);
        let corrupt = |reason: &'static str| corrupt(path, log, reason);
        if Some(*number) != snapshot.checked_add(index as u64) {
            return Err(corrupt("the log before it is missing"));
        }
        let reached = read_log(
            disk,
            path,
            (log, sequence),
            (logs.get(index + 1).is_none(), writing),
            sealing,
            |newer, records, old| {
                stale |= old;
                for (kind, version) in records.drain(..) {
                    if kind == RecordKind::Base || version.revision > newer.revision {
                        return Err("a record is of another frame");
                    }
                    loader.change(version)?;
                }
                if newer.compacted > newer.revision || newer.revision > newer.reserved {
                    return Err("the numbers of a frame are not in order");
                }
                // The snapshot was still being written: its base is newer.
                if newer.compacted > state.compacted {
                    state.compacted = newer.compacted;
                    loader.compact(newer.compacted)?;
                }
                state = State { compacted: state.compacted, ..newer };
                Ok(())
            },
        )?;
        sequence = reached.sequence;
        log_bytes += reached.offset - HEADER as u64;
        end = Some(reached);
    }
    let newest = logs.last().copied().map_or(FileId::snapshot(snapshot), FileId::log);
    let corrupt = |reason: &'static str| corrupt(path, newest, reason);
    let Some(end) = end else { return Err(corrupt("the log that belongs to it is missing")) };
    if loader.newest() != state.revision || state.compacted > state.revision {
        return Err(corrupt("the newest change is missing"));
    }
    let mvcc = loader.finish(state.reserved);
    Ok(Loaded { mvcc, state, end, snapshot, snapshot_bytes, log_bytes, stale })
}

/// A snapshot that was read.
pub struct Snapshot {
    loader: Loader,
    state: State,
    /// Of the first frame of its log.
    sequence: u64,
    length: u64,
    stale: bool,
}

pub fn read_snapshot(
    disk: &dyn Disk,
    path: &Path,
    number: u64,
    sealing: &dyn Sealing,
) -> Result<Snapshot, OpenError> {
    let id = FileId::snapshot(number);
    let corrupt = |reason: &'static str| corrupt(path, id, reason);
    let failed = |source| OpenError::Io { path: path.join(id.name()), source };
    let file = disk.open(&id.name()).map_err(failed)?;
    let mut frames = Frames::new(&*file, id).map_err(failed)?;
    let header = header(&mut frames, path, id)?;
    let Some(contents) = header.contents else { return Err(corrupt("its header is damaged")) };
    if frames.length() != header.length {
        return Err(corrupt("it does not have the length that it should"));
    }
    let mut loader = Loader::new(contents.settled, contents.state.compacted);
    // History comes first in the file, and is loaded last.
    let mut history: Vec<Version> = vec![];
    let (mut offset, mut found, mut records, mut stale) = (HEADER as u64, 0, vec![], false);
    for sequence in 0..contents.frames {
        offset = match frames.next(offset, sequence, &mut records).map_err(failed)? {
            Next::Frame { end, .. } => end,
            Next::End => return Err(corrupt("records are missing")),
            Next::Damaged(reason) => return Err(corrupt(reason)),
        };
        stale |= sealing::open(sealing, &mut records).map_err(|unopened| sealed(path, id, unopened))?;
        for (kind, version) in records.drain(..) {
            found += 1;
            match kind {
                RecordKind::Base => loader.base(version).map_err(corrupt)?,
                RecordKind::Put | RecordKind::Delete => history.push(version),
            }
        }
    }
    if offset != header.length || found != contents.records {
        return Err(corrupt("records are missing"));
    }
    for version in history {
        if version.revision > contents.state.revision {
            return Err(corrupt("a change belongs to the log"));
        }
        loader.change(version).map_err(corrupt)?;
    }
    let Header { sequence, length, .. } = header;
    Ok(Snapshot { loader, state: contents.state, sequence, length, stale })
}

fn read_log(
    disk: &dyn Disk,
    path: &Path,
    (id, first): (FileId, u64),
    (is_last, writing): (bool, Writing),
    sealing: &dyn Sealing,
    mut each: impl FnMut(State, &mut Vec<(RecordKind, Version)>, bool) -> Result<(), &'static str>,
) -> Result<LogEnd, OpenError> {
    let corrupt = |reason: &'static str| corrupt(path, id, reason);
    let failed = |source| OpenError::Io { path: path.join(id.name()), source };
    let file = disk.open(&id.name()).map_err(failed)?;
    let mut frames = Frames::new(&*file, id).map_err(failed)?;
    let header = header(&mut frames, path, id)?;
    if header.sequence != first {
        return Err(corrupt("changes before it are missing"));
    }
    let (mut offset, mut sequence, mut least) = (HEADER as u64, first, header.length);
    let mut records = vec![];
    let is_live = is_last && writing == Writing::Perhaps;
    loop {
        match frames.next(offset, sequence, &mut records).map_err(failed)? {
            Next::Frame { state, length, end } => {
                let stale =
                    sealing::open(sealing, &mut records).map_err(|unopened| sealed(path, id, unopened))?;
                each(state, &mut records, stale).map_err(corrupt)?;
                (offset, least) = (end, least.max(length));
                sequence += 1;
            }
            Next::End => break,
            // It may have been looked at while it was written.
            Next::Damaged(_) if is_live && settles(&*file, id, (offset, sequence)).map_err(failed)? => break,
            Next::Damaged(reason) => return Err(corrupt(reason)),
        }
    }
    // It may have grown since.
    let length = file.length().map_err(failed)?;
    if length < least {
        return Err(corrupt("it is cut short"));
    }
    let dirty = match frames.tail(offset, sequence).map_err(failed)? {
        Tail::Torn { end } => end,
        Tail::Later if is_live && settles(&*file, id, (offset, sequence)).map_err(failed)? => offset,
        Tail::Later => return Err(corrupt("a frame is missing")),
    };
    // Only the last one can have been written to when something crashed.
    if !is_last && dirty != offset {
        return Err(corrupt("its end is damaged"));
    }
    Ok(LogEnd { number: id.number, offset, sequence, length, dirty })
}

/// Whether there is a whole frame at a place at last, or nothing: then it was only being written. Damage stays.
fn settles(file: &dyn File, id: FileId, (offset, sequence): (u64, u64)) -> io::Result<bool> {
    let due = machine::within(SETTLE);
    loop {
        let mut frames = Frames::new(file, id)?;
        match frames.next(offset, sequence, &mut vec![])? {
            Next::Frame { .. } => return Ok(true),
            Next::End if matches!(frames.tail(offset, sequence)?, Tail::Torn { .. }) => return Ok(true),
            Next::End | Next::Damaged(_) if machine::left(due).is_zero() => return Ok(false),
            Next::End | Next::Damaged(_) => machine::block(LOOK),
        }
    }
}

fn header(frames: &mut Frames<'_>, path: &Path, id: FileId) -> Result<Header, OpenError> {
    let path = path.join(id.name());
    match frames.header() {
        Err(source) => Err(OpenError::Io { path, source }),
        Ok(Some(Ok(header))) => Ok(header),
        Ok(Some(Err(HeaderError::Foreign(reason)))) => Err(OpenError::Foreign { path, reason }),
        Ok(Some(Err(HeaderError::UnknownVersion(found)))) => Err(OpenError::UnknownVersion { path, found }),
        Ok(Some(Err(HeaderError::Corrupt(reason)))) => {
            Err(OpenError::Corrupt { path, reason: reason.into() })
        }
        Ok(None) if frames.length() == 0 => Err(OpenError::Foreign { path, reason: "it is empty" }),
        Ok(None) => Err(OpenError::Foreign { path, reason: "it does not begin as one" }),
    }
}

fn sealed(path: &Path, file: FileId, unopened: Unopened) -> OpenError {
    let Unopened { key, reason } = unopened;
    OpenError::Sealed { path: path.join(file.name()), key, reason }
}

fn corrupt(path: &Path, file: FileId, reason: &'static str) -> OpenError {
    OpenError::Corrupt { path: path.join(file.name()), reason: reason.into() }
}
