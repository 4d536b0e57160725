//! One gzip member, put together from bytes that are compressed now and bytes
//! that were compressed before, alone.

use flate2::{Compress, Compression, FlushCompress, Status};
use sternpost_cache::{Encoded, Plain};

use crate::limits::{GZIP_PIECE_BYTES, PIECE_BYTES};

/// Of a member without name and time, made by the fastest level on an unknown system, as upstream's.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];

/// What stands before bytes that are not compressed; their length is one.
const ONE_STORED_BYTE: [u8; 5] = [0, 1, 0, 0xfe, 0xff];

/// The last block, with nothing in it.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Room for what is compressed, when there is none.
const ROOM_BYTES: usize = 16 * 1024;

pub struct Member {
    /// Made with the first bytes to compress: it is large.
    compress: Option<Compress>,
    /// Whether the next byte is the first of a block that refers to nothing before it.
    is_aligned: bool,
    crc: u32,
    size: usize,
    out: Vec<u8>,
    /// Bytes that were compressed since `out` was last taken.
    worked: usize,
}

impl Default for Member {
    fn default() -> Self {
        Self { compress: None, is_aligned: true, crc: 0, size: 0, out: HEAD.to_vec(), worked: 0 }
    }
}

impl Member {
    /// Compresses bytes, with what came before in view.
    pub fn push(&mut self, plain: &[u8]) {
        self.count(plain);
        if let ([byte], true) = (plain, self.is_aligned) {
            self.out.extend_from_slice(&ONE_STORED_BYTE);
            self.out.push(*byte);
            return;
        }
        self.is_aligned = false;
        self.worked += plain.len();
        let compress = self.compress.get_or_insert_with(fastest);
        deflate(compress, plain, FlushCompress::None, &mut self.out);
    }

    /// Compresses bytes for [`Member::append`] to any member. They are not in this one.
    pub fn standalone(&mut self, plain: &[u8]) -> Encoded {
        self.align();
        self.worked += plain.len();
        let mut bytes = Vec::with_capacity(plain.len() / 4);
        let compress = self.compress.get_or_insert_with(fastest);
        deflate(compress, plain, FlushCompress::Full, &mut bytes);
        // Kept for long: exactly as large as it is.
        let bytes = bytes.into_boxed_slice().into();
        let plain = Plain { size: plain.len(), crc: crc32fast::hash(plain), shift: shift(plain.len()) };
        Encoded { bytes, plain }
    }

    /// Adds bytes that were compressed before.
    pub fn append(&mut self, encoded: &Encoded) {
        self.align();
        self.out.extend_from_slice(&encoded.bytes);
        self.crc = multiply(encoded.plain.shift, self.crc) ^ encoded.plain.crc;
        self.size = self.size.wrapping_add(encoded.plain.size);
    }

    /// Whether it is time to take what there is: because there is much of it, or because it was much work.
    pub fn is_due(&self) -> bool {
        let is_work = self.worked >= GZIP_PIECE_BYTES / 2 && !self.out.is_empty();
        is_work || self.out.len() >= PIECE_BYTES
    }

    /// What was compressed since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        self.worked = 0;
        std::mem::take(&mut self.out)
    }

    /// The rest of the member.
    pub fn finish(mut self) -> Vec<u8> {
        self.align();
        self.out.extend_from_slice(&LAST_BLOCK);
        self.out.extend_from_slice(&self.crc.to_le_bytes());
        // Of larger ones, the last 32 bits are said.
        let size = u32::try_from(self.size & 0xffff_ffff).unwrap_or_default();
        self.out.extend_from_slice(&size.to_le_bytes());
        self.out
    }

    /// Ends what is being compressed so that something else can follow.
    fn align(&mut self) {
        if !self.is_aligned
            && let Some(compress) = &mut self.compress
        {
            deflate(compress, &[], FlushCompress::Full, &mut self.out);
        }
        self.is_aligned = true;
    }

    fn count(&mut self, plain: &[u8]) {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.crc);
        hasher.update(plain);
        self.crc = hasher.finalize();
        self.size = self.size.wrapping_add(plain.len());
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("size", &self.size).finish_non_exhaustive()
    }
}

fn fastest() -> Compress {
    // Upstream's level: answers are made for one reader.
    Compress::new(Compression::fast(), false)
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
            return;
        }
    }
}

/// Of CRC-32, lowest power last.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The polynomials 1 and x⁸.
const ONE: u32 = 1 << 31;
const BYTE: u32 = 1 << 23;

/// The product of two polynomials, modulo that of CRC-32.
fn multiply(left: u32, mut right: u32) -> u32 {
    let mut product = 0;
    for power in (0..32).rev() {
        if left >> power & 1 == 1 {
            product ^= right;
        }
        right = if right & 1 == 1 { right >> 1 ^ POLYNOMIAL } else { right >> 1 };
    }
    product
}

/// What the CRC-32 of something is multiplied by when so many bytes follow it.
fn shift(bytes: usize) -> u32 {
    let (mut product, mut square, mut left) = (ONE, BYTE, bytes);
    while left > 0 {
        if left & 1 == 1 {
            product = multiply(square, product);
        }
        square = multiply(square, square);
        left >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(Vec<u8>),
        Append(Vec<u8>),
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let repeated =
            ("[a-c]{1,40}", 0..3000_usize).prop_map(|(text, times)| text.repeat(times).into_bytes());
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), repeated, Just(b",".to_vec())]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![text().prop_map(Step::Push), text().prop_map(Step::Append)]
    }

    proptest! {
        #[test]
        fn a_member_says_what_was_put_into_it(steps in proptest::collection::vec(step(), 0..12)) {
            let (mut member, mut elsewhere) = (Member::default(), Member::default());
            let (mut compressed, mut expected) = (Vec::new(), Vec::new());
            for step in &steps {
                match step {
                    Step::Push(plain) => {
                        member.push(plain);
                        expected.extend_from_slice(plain);
                    }
                    Step::Append(plain) => {
                        let encoded = elsewhere.standalone(plain);
                        member.append(&encoded);
                        // Here as good as there.
                        let encoded = member.standalone(plain);
                        member.append(&encoded);
                        elsewhere.push(plain);
                        expected.extend([&plain[..], plain].concat());
                    }
                }
                compressed.append(&mut member.take());
            }
            compressed.append(&mut member.finish());
            // One member only, with the right CRC and size: the reader of one checks them.
            let mut reader = flate2::bufread::GzDecoder::new(&compressed[..]);
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            prop_assert!(read == expected);
            prop_assert!(reader.into_inner().is_empty());
        }
    }
}
