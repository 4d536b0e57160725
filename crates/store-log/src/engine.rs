//! The log: one frame for each group of transactions. No threads, no queues.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use sternpost_store::{Revision, watch::Batch};

use crate::{
    codec::{self, FileId, HEADER, Header, Record, State},
    disk::{Disk, File, WriteError},
    frames::{Frames, Next},
    load::{Loaded, LogEnd},
    sealing::Cover,
    store::OpenError,
};

/// How many revisions are reserved ahead, see `FORMAT.md`.
pub const RESERVATION: u64 = 10_000;

/// A log that is being made.
pub const UNFINISHED: &str = "log.new";

/// The most zeroes that are written at a time.
const ZEROES: u64 = 1 << 20;

/// The buffer of frames is kept as long as it is no larger.
const BUFFER: usize = 1 << 20;

#[derive(Debug)]
pub struct Engine {
    disk: Arc<dyn Disk>,
    file: Box<dyn File>,
    end: LogEnd,
    /// As of the last frame.
    state: State,
    /// What was reserved before this process; given back only above it.
    floor: Revision,
    /// Of all logs since the snapshot that the next start will read.
    pub logged: u64,
    cover: Cover,
    /// By how much a log grows.
    allocation: u64,
    buffer: Vec<u8>,
}

/// The place in the log where a snapshot belongs: the beginning of a file.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub number: u64,
    pub sequence: u64,
    pub state: State,
}

impl Engine {
    /// Goes on with what was read, and reserves revisions for this process.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        loaded: &Loaded,
        cover: Cover,
        allocation: u64,
    ) -> Result<Self, OpenError> {
        let name = FileId::log(loaded.end.number).name();
        let path: PathBuf = path.join(&name);
        let file = disk.open(&name).map_err(|source| OpenError::Io { path: path.clone(), source })?;
        let Loaded { state, end, log_bytes: logged, .. } = *loaded;
        let floor = state.reserved;
        let buffer = Vec::new();
        let mut engine = Self { disk, file, end, state, floor, logged, cover, allocation, buffer };
        let reserved = state.reserved.plus(RESERVATION).unwrap_or(Revision::LAST);
        engine.append(State { reserved, ..state }, &[]).map_err(|error| OpenError::write(&path, error))?;
        Ok(engine)
    }

    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub fn cover(&self) -> &Cover {
        &self.cover
    }

    /// Adds batches and, if `compacted` is given, shortens the history up to there. Durable when it
    /// returns.
    pub fn write(&mut self, batches: &[Arc<Batch>], compacted: Option<Revision>) -> Result<(), WriteError> {
        let mut state = self.state;
        state.revision = batches.last().map_or(state.revision, |batch| batch.revision);
        state.compacted = compacted.map_or(state.compacted, |to| to.max(state.compacted));
        // The revisions of these batches were reserved by an earlier frame.
        if state.revision.plus(RESERVATION / 2).is_none_or(|soon| soon > state.reserved) {
            state.reserved = state.revision.plus(RESERVATION).unwrap_or(Revision::LAST).max(state.reserved);
        }
        self.append(state, batches)
    }

    /// Whether there is space again.
    pub fn retry(&mut self) -> Result<(), WriteError> {
        self.append(self.state, &[])
    }

    /// Gives back the unused part of the reservation.
    pub fn close(&mut self) -> Result<(), WriteError> {
        let reserved = self.state.revision.max(self.floor);
        self.append(State { reserved, ..self.state }, &[])
    }

    /// Goes on in a new file. All that was written before is the snapshot's.
    pub fn rotate(&mut self) -> Result<Place, WriteError> {
        self.clean()?;
        let (number, sequence) = (self.end.number.saturating_add(1), self.end.sequence);
        (self.file, self.end) = create(&*self.disk, number, sequence, self.allocation)?;
        Ok(Place { number, sequence, state: self.state })
    }

    fn append(&mut self, state: State, batches: &[Arc<Batch>]) -> Result<(), WriteError> {
        self.clean()?;
        let LogEnd { number, offset, sequence, length, .. } = self.end;
        let place = (FileId::log(number), sequence);
        let records = batches.iter().flat_map(|batch| Record::of_batch(batch));
        codec::encode_frame(&mut self.buffer, place, &self.cover, (&state, length), records)
            .map_err(|reason| WriteError::Unsealed { reason })?;
        let size = self.buffer.len() as u64;
        self.allocate(offset.saturating_add(size))?;
        if let Err(error) = self.file.write(offset, &self.buffer) {
            self.end.dirty = offset.saturating_add(size);
            return Err(self.refused(WriteError::of_writing(&error)));
        }
        self.file.sync().map_err(|error| WriteError::of_anything_else(&error))?;
        let offset = offset.saturating_add(size);
        self.end = LogEnd { offset, sequence: sequence.saturating_add(1), dirty: offset, ..self.end };
        self.state = state;
        self.logged = self.logged.saturating_add(size);
        if self.buffer.capacity() > BUFFER {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Sees to it that the file has room, filled with zeroes. They are written, so that there is no
    /// want of space later, and that a sync has data to write and nothing else.
    fn allocate(&mut self, needed: u64) -> Result<(), WriteError> {
        if needed <= self.end.length {
            return Ok(());
        }
        let length = needed.next_multiple_of(self.allocation.max(1));
        self.zero(self.end.length, length)?;
        self.end.length = length;
        Ok(())
    }

    /// Takes away what a refused frame, or one that a crash has torn, may have left: what is behind
    /// the end has to be zero.
    fn clean(&mut self) -> Result<(), WriteError> {
        if self.end.dirty > self.end.offset {
            self.zero(self.end.offset, self.end.dirty)?;
            self.end.dirty = self.end.offset;
        }
        Ok(())
    }

    fn zero(&self, start: u64, end: u64) -> Result<(), WriteError> {
        zero(&*self.file, start, end).map_err(|error| WriteError::of_writing(&error))?;
        self.file.sync().map_err(|error| WriteError::of_anything_else(&error))
    }

    /// What a write means that failed for want of space: some of the frame is there, as after a kill
    /// at that moment, and not all of it, which is looked at.
    fn refused(&self, error: WriteError) -> WriteError {
        if !matches!(error, WriteError::NoSpace { .. }) {
            return error;
        }
        let found = Frames::new(&*self.file, FileId::log(self.end.number))
            .and_then(|mut frames| frames.next(self.end.offset, self.end.sequence, &mut Vec::new()));
        match found {
            Ok(Next::End) => error,
            _ => WriteError::Final { reason: "a write failed and left something behind".to_owned() },
        }
    }
}

/// Makes an empty log, under another name first, so that a crash leaves no half-made one.
pub fn create(
    disk: &dyn Disk,
    number: u64,
    sequence: u64,
    allocation: u64,
) -> Result<(Box<dyn File>, LogEnd), WriteError> {
    let id = FileId::log(number);
    let offset = HEADER as u64;
    let length = offset.next_multiple_of(allocation.max(1));
    let made = || {
        let file = disk.create(UNFINISHED)?;
        file.write(0, &codec::encode_header(&Header { file: id, sequence, length, contents: None }))?;
        zero(&*file, offset, length)?;
        Ok(file)
    };
    let file = made().map_err(|error| without(disk, UNFINISHED, &error))?;
    file.sync().map_err(|error| WriteError::of_anything_else(&error))?;
    disk.rename(UNFINISHED, &id.name()).map_err(|error| without(disk, UNFINISHED, &error))?;
    disk.sync().map_err(|error| WriteError::of_anything_else(&error))?;
    Ok((file, LogEnd { number, offset, sequence, length, dirty: offset }))
}

/// Takes away a file for which there was no space.
pub fn without(disk: &dyn Disk, name: &str, error: &std::io::Error) -> WriteError {
    let error = WriteError::of_writing(error);
    if let WriteError::NoSpace { .. } = error {
        // If it stays it is replaced by the next one.
        let _ = disk.remove(name);
    }
    error
}

fn zero(file: &dyn File, mut start: u64, end: u64) -> std::io::Result<()> {
    while start < end {
        let count = (end - start).min(ZEROES);
        file.write(start, &vec![0; usize::try_from(count).map_err(std::io::Error::other)?])?;
        start += count;
    }
    Ok(())
}
