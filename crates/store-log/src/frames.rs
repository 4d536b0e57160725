//! Reading the frames of a file, and telling what was torn from what is damaged.
//!
//! A frame is written to a place where the file is all zeroes, and the next one only after it was
//! synced. So a crash can leave one frame torn, the last one: sectors of it are still zero, which no
//! sector of a frame is. Anything else that is not whole is damage.

use std::io;

use sternpost_store::load::Version;

use crate::{
    codec::{self, ALIGN, Damaged, FRAME_HEADER, FileId, FrameHeader, HEADER, Header, RecordKind, State},
    disk::File,
};

/// What a disk writes as a whole, even when the power goes.
const SECTOR: u64 = 512;

/// What is read at a time.
const WINDOW: u64 = 1 << 20;

pub struct Frames<'a> {
    file: &'a dyn File,
    id: FileId,
    length: u64,
    /// A part of the file, and where it begins.
    window: Vec<u8>,
    start: u64,
}

pub enum Next {
    Frame {
        state: State,
        /// That the file must have.
        length: u64,
        end: u64,
    },
    /// There is no whole frame, but what may be the beginning of one that was torn.
    End,
    Damaged(&'static str),
}

/// What is behind the last whole frame of a log.
pub enum Tail {
    /// Nothing of any use; up to here it may have been written to.
    Torn { end: u64 },
    /// A later frame, so the one that is not whole had been synced.
    Later,
}

impl<'a> Frames<'a> {
    pub fn new(file: &'a dyn File, id: FileId) -> io::Result<Self> {
        Ok(Self { file, id, length: file.length()?, window: Vec::new(), start: 0 })
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// The header of the file; `None` if it is too short for one.
    pub fn header(&mut self) -> io::Result<Option<Result<Header, codec::HeaderError>>> {
        let id = self.id;
        let bytes = self.bytes(0, HEADER)?.and_then(|bytes| bytes.first_chunk());
        Ok(bytes.map(|bytes| codec::decode_header(bytes, id)))
    }

    /// The frame at a place, with its records. They are handed over only if all of it is whole.
    pub fn next(
        &mut self,
        offset: u64,
        sequence: u64,
        records: &mut Vec<(RecordKind, Version)>,
    ) -> io::Result<Next> {
        records.clear();
        let id = self.id;
        let header = match self.bytes(offset, FRAME_HEADER)?.and_then(|bytes| bytes.first_chunk()) {
            None => return Ok(Next::End),
            // Its last byte is not zero if it was written.
            Some(bytes) => match (codec::decode_frame_header(bytes, id), bytes.last()) {
                (Some(header), _) => header,
                (None, Some(0)) => return Ok(Next::End),
                (None, _) => return Ok(Next::Damaged("the beginning of a frame is damaged")),
            },
        };
        if header.sequence != sequence {
            return Ok(Next::Damaged("a frame is not the one that follows"));
        }
        let Some(frame) = self.bytes(offset, header.length)? else {
            return Ok(Next::Damaged("it is cut short"));
        };
        let body = frame.get_mut(FRAME_HEADER..).unwrap_or_default();
        let mut whole = true;
        let read = codec::decode_body(&header, body, |record| match record {
            Ok(record) => records.push(record),
            Err(_) => whole = false,
        });
        if let (Some((state, length)), true) = (read, whole) {
            return Ok(Next::Frame { state, length, end: offset + header.length as u64 });
        }
        records.clear();
        self.forget();
        let written = self.bytes(offset, header.length)?.unwrap_or_default();
        Ok(match is_torn(written, offset) {
            true => Next::End,
            false => Next::Damaged("a record is damaged"),
        })
    }

    /// Looks at everything behind the last whole frame.
    pub fn tail(&mut self, offset: u64, sequence: u64) -> io::Result<Tail> {
        self.forget();
        let (id, length) = (self.id, self.length);
        let mut end = offset;
        let mut at = offset;
        while at < length {
            let count = usize::try_from((length - at).min(WINDOW)).map_err(io::Error::other)?;
            let Some(bytes) = self.bytes(at, count)? else { break };
            for piece in bytes.chunks(ALIGN) {
                at += piece.len() as u64;
                if piece.iter().all(|byte| *byte == 0) {
                    continue;
                }
                end = at;
                let header = piece.first_chunk().and_then(|piece| codec::decode_frame_header(piece, id));
                if header.is_some_and(|header| header.sequence > sequence) {
                    return Ok(Tail::Later);
                }
            }
        }
        Ok(Tail::Torn { end })
    }

    /// Every frame that has a whole beginning, wherever it is, in order. Gives how many bytes behind
    /// the last one may have held more.
    pub fn salvage(&mut self, mut found: impl FnMut(Salvaged)) -> io::Result<u64> {
        self.forget();
        let id = self.id;
        let (mut offset, mut end, mut least) = (HEADER as u64, HEADER as u64, 0);
        // Whether what is behind the last frame is as a crash can leave it.
        let mut torn = None;
        while let Some(bytes) = self.bytes(offset, FRAME_HEADER)? {
            let Some(header) = bytes.first_chunk().and_then(|bytes| codec::decode_frame_header(bytes, id))
            else {
                torn.get_or_insert(bytes.last() == Some(&0));
                offset += ALIGN as u64;
                continue;
            };
            let there = usize::try_from(self.length - offset).map_err(io::Error::other)?.min(header.length);
            let mut frame = self.bytes(offset, there)?.unwrap_or_default().to_vec();
            // If the file is cut short, some records may be whole.
            frame.resize(header.length, 0);
            let torn_itself = is_torn(&frame, offset) && there == header.length;
            let body = frame.get_mut(FRAME_HEADER..).unwrap_or_default();
            let mut records = vec![];
            let read = codec::decode_body(&header, body, |record| records.push(record));
            let FrameHeader { sequence, records: count, .. } = header;
            let state = read.map(|(state, length)| {
                least = least.max(length);
                state
            });
            found(Salvaged { sequence, count, state, records, torn: torn_itself });
            offset += header.length as u64;
            (end, torn) = (offset, None);
        }
        // Zeroes behind the last frame are its end, even if some of them are cut off.
        Ok(match torn {
            Some(true) => 0,
            None if self.length >= least.max(end) => 0,
            _ => self.length.max(least).saturating_sub(end).max(1),
        })
    }

    fn forget(&mut self) {
        self.window.clear();
    }

    /// `None` if the file does not have them.
    fn bytes(&mut self, offset: u64, count: usize) -> io::Result<Option<&mut [u8]>> {
        let end = offset.saturating_add(count as u64);
        if end > self.length {
            return Ok(None);
        }
        if offset < self.start || end > self.start + self.window.len() as u64 {
            let size = (self.length - offset).min(WINDOW.max(count as u64));
            self.window.resize(usize::try_from(size).map_err(io::Error::other)?, 0);
            self.start = offset;
            if let Err(error) = self.file.read(offset, &mut self.window) {
                self.window.clear();
                return Err(error);
            }
        }
        let within = usize::try_from(offset - self.start).map_err(io::Error::other)?;
        Ok(self.window.get_mut(within..).and_then(|window| window.get_mut(..count)))
    }
}

/// A frame of a damaged file.
pub struct Salvaged {
    pub sequence: u64,
    /// How many records it has.
    pub count: usize,
    /// If all but the records is whole.
    pub state: Option<State>,
    /// As far as they can be told apart.
    pub records: Vec<Result<(RecordKind, Version), Damaged>>,
    /// If it is not whole: it is as a crash can leave it.
    pub torn: bool,
}

/// Whether a frame that is not whole is so because a crash kept some of it from being written.
fn is_torn(frame: &[u8], offset: u64) -> bool {
    let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let first = frame.len().min((SECTOR - offset % SECTOR) as usize);
    let (head, rest) = frame.split_at_checked(first).unwrap_or_default();
    frame.last() == Some(&0) || zero(head) || rest.chunks(SECTOR as usize).any(zero)
}
