//! gzip, put together from pieces that were compressed before, each alone.
//!
//! A piece is a run of deflate blocks that ends on a byte and refers to nothing before it, so pieces one
//! after the other are again a deflate stream. With the checksums combined, that is a gzip file.

mod member;

pub use member::Member;

use std::io::Read;

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status, read::DeflateDecoder, read::GzDecoder};

/// Of a file without name and time, made by the fastest level on an unknown system, as upstream's are.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];

/// The last block, with nothing in it.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Room for what is compressed, when there is none.
const ROOM_BYTES: usize = 16 * 1024;

/// How much time packing may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    Fast,
    Small,
}

/// Bytes that were compressed alone.
#[derive(Debug, Clone)]
pub struct Piece {
    pub deflated: Bytes,
    pub plain: Plain,
}

/// What has to be known of bytes that are compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Plain {
    pub size: usize,
    /// CRC-32.
    pub checksum: u32,
}

impl Piece {
    pub fn new(plain: &[u8], speed: Speed) -> Self {
        Self::made_by(&mut compressor(speed), plain)
    }

    /// By one that holds nothing back.
    fn made_by(compress: &mut Compress, plain: &[u8]) -> Self {
        let mut deflated = Vec::with_capacity(plain.len() / 4 + 64);
        deflate(compress, plain, FlushCompress::Full, &mut deflated);
        // Kept for long: exactly as large as it is.
        let deflated = deflated.into_boxed_slice().into();
        Self { deflated, plain: Plain { size: plain.len(), checksum: crc32fast::hash(plain) } }
    }

    pub fn unpack(&self) -> Vec<u8> {
        let mut plain = Vec::with_capacity(self.plain.size);
        let read = DeflateDecoder::new((&*self.deflated).chain(&LAST_BLOCK[..])).read_to_end(&mut plain);
        debug_assert!(read.is_ok());
        plain
    }
}

/// All of the pieces as one file.
pub fn file<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Bytes {
    let mut member = Member::default();
    for piece in pieces {
        member.append(piece);
    }
    // Kept for long, as above.
    member.finish().into_boxed_slice().into()
}

/// What a file of ours holds.
pub fn unpack_file(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len() * 6);
    let read = GzDecoder::new(bytes).read_to_end(&mut plain);
    debug_assert!(read.is_ok());
    plain
}

fn compressor(speed: Speed) -> Compress {
    let level = match speed {
        Speed::Fast => Compression::fast(),
        Speed::Small => Compression::default(),
    };
    Compress::new(level, false)
}

/// Into memory, this cannot fail.
fn deflate(compress: &mut Compress, mut plain: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
    loop {
        if out.capacity() - out.len() < ROOM_BYTES / 2 {
            out.reserve(ROOM_BYTES);
        }
        let before = compress.total_in();
        let status = compress.compress_vec(plain, out, flush);
        let read = usize::try_from(compress.total_in() - before).unwrap_or_default();
        plain = plain.get(read..).unwrap_or_default();
        // With room left, everything that was to be written is.
        let is_done = plain.is_empty() && out.len() < out.capacity();
        if is_done || !matches!(status, Ok(Status::Ok | Status::BufError)) {
            debug_assert!(is_done);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_together_are_one_file(
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
            let file = file(&pieces);
            prop_assert_eq!(unpack_file(&file), parts.iter().map(|(bytes, _)| bytes.as_slice()).collect::<Vec<_>>().concat());
        }
    }
}
