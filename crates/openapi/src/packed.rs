//! Bytes kept compressed, in pieces that can be put together without being
//! unpacked.
//!
//! A piece is a run of deflate blocks that ends on a byte and refers to nothing
//! before it, so pieces one after the other are again a deflate stream. With
//! the checksums combined, that is a gzip file.

use std::io::Read;

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress, read::DeflateDecoder};

/// The empty last block that every stream ends with.
const END: [u8; 2] = [3, 0];
/// No name, no time, any system: equal bytes give equal files.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

#[derive(Clone)]
pub struct Piece {
    deflated: Box<[u8]>,
    checksum: u32,
    length: u64,
}

/// How much time packing may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    Fast,
    Small,
}

impl Piece {
    pub fn new(bytes: &[u8], speed: Speed) -> Self {
        let level = match speed {
            Speed::Fast => 1,
            Speed::Small => 6,
        };
        let mut compress = Compress::new(Compression::new(level), false);
        let mut out = Vec::with_capacity(bytes.len() / 4 + 64);
        loop {
            let rest = usize::try_from(compress.total_in()).ok().and_then(|read| bytes.get(read..));
            // Deflating memory has no failing case.
            let done = compress.compress_vec(rest.unwrap_or_default(), &mut out, FlushCompress::Full);
            debug_assert!(done.is_ok());
            // Room left over means that nothing is held back.
            if done.is_err() || (out.len() < out.capacity() && compress.total_in() >= bytes.len() as u64) {
                break;
            }
            out.reserve(out.capacity());
        }
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        Self { deflated: out.into(), checksum: hasher.finalize(), length: bytes.len() as u64 }
    }

    pub fn unpack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(usize::try_from(self.length).unwrap_or_default());
        let read = DeflateDecoder::new((&*self.deflated).chain(&END[..])).read_to_end(&mut out);
        debug_assert!(read.is_ok());
        out
    }

    /// Of what it holds, unpacked.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        self.deflated.len()
    }
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece")
            .field("length", &self.length)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

/// All of the pieces as one gzip file.
pub fn gzip<'a>(pieces: impl Iterator<Item = &'a Piece> + Clone) -> Bytes {
    let size: usize = pieces.clone().map(Piece::size).sum();
    let mut out = Vec::with_capacity(GZIP_HEADER.len() + size + END.len() + 8);
    out.extend_from_slice(&GZIP_HEADER);
    let mut checksum = Hasher::new();
    let mut length = 0_u64;
    for piece in pieces {
        out.extend_from_slice(&piece.deflated);
        checksum.combine(&Hasher::new_with_initial_len(piece.checksum, piece.length));
        length += piece.length;
    }
    out.extend_from_slice(&END);
    out.extend_from_slice(&checksum.finalize().to_le_bytes());
    // Modulo 2^32, as the format has it.
    let [a, b, c, d, ..] = length.to_le_bytes();
    out.extend_from_slice(&[a, b, c, d]);
    out.into()
}

/// What a gzip file of ours holds.
pub fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 6);
    let read = flate2::read::GzDecoder::new(bytes).read_to_end(&mut out);
    debug_assert!(read.is_ok());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_together_are_one_gzip_file(
            parts in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..5000), 1..40_usize, any::<bool>()), 0..6),
        ) {
            let parts: Vec<(Vec<u8>, Speed)> = parts
                .into_iter()
                .map(|(bytes, times, fast)| (bytes.repeat(times), if fast { Speed::Fast } else { Speed::Small }))
                .collect();
            let pieces: Vec<Piece> = parts.iter().map(|(bytes, speed)| Piece::new(bytes, *speed)).collect();
            for (piece, (bytes, _)) in pieces.iter().zip(&parts) {
                prop_assert_eq!(&piece.unpack(), bytes);
            }
            let file = gzip(pieces.iter());
            prop_assert_eq!(gunzip(&file), parts.iter().map(|(bytes, _)| bytes.as_slice()).collect::<Vec<_>>().concat());
        }
    }
}
