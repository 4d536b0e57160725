//! One gzip member, put together from bytes that are compressed now and pieces.

use crc32fast::Hasher;
use flate2::{Compress, FlushCompress};

use crate::{HEAD, LAST_BLOCK, Piece, Plain, Speed, compressor, deflate};

/// What stands before bytes that are not compressed; their length is one.
const ONE_STORED_BYTE: [u8; 5] = [0, 1, 0, 0xfe, 0xff];

pub struct Member {
    /// Made with the first bytes to compress: it is large.
    compress: Option<Compress>,
    /// Whether the next byte is the first of a block that refers to nothing before it.
    is_aligned: bool,
    checksum: Hasher,
    size: usize,
    out: Vec<u8>,
    /// Bytes that were compressed since `out` was last taken.
    worked: usize,
}

impl Default for Member {
    fn default() -> Self {
        Self {
            compress: None,
            is_aligned: true,
            checksum: Hasher::new(),
            size: 0,
            out: HEAD.to_vec(),
            worked: 0,
        }
    }
}

impl Member {
    /// Compresses bytes, with what came before in view.
    pub fn push(&mut self, plain: &[u8]) {
        self.checksum.update(plain);
        self.size = self.size.wrapping_add(plain.len());
        if let ([byte], true) = (plain, self.is_aligned) {
            self.out.extend_from_slice(&ONE_STORED_BYTE);
            self.out.push(*byte);
            return;
        }
        self.is_aligned = false;
        self.worked += plain.len();
        let compress = self.compress.get_or_insert_with(|| compressor(Speed::Fast));
        deflate(compress, plain, FlushCompress::None, &mut self.out);
    }

    /// Compresses bytes for [`Member::append`] to any member. They are not in this one.
    pub fn piece(&mut self, plain: &[u8]) -> Piece {
        self.align();
        self.worked += plain.len();
        Piece::made_by(self.compress.get_or_insert_with(|| compressor(Speed::Fast)), plain)
    }

    /// Adds bytes that were compressed before.
    pub fn append(&mut self, piece: &Piece) {
        self.align();
        self.out.extend_from_slice(&piece.deflated);
        let Plain { size, checksum } = piece.plain;
        self.checksum.combine(&Hasher::new_with_initial_len(checksum, size as u64));
        self.size = self.size.wrapping_add(size);
    }

    /// How many bytes there are to take.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// How many bytes were compressed since some were taken.
    pub fn worked(&self) -> usize {
        self.worked
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
        self.out.extend_from_slice(&self.checksum.finalize().to_le_bytes());
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
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("size", &self.size).finish_non_exhaustive()
    }
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
                        let piece = elsewhere.piece(plain);
                        member.append(&piece);
                        // Here as good as there.
                        let piece = member.piece(plain);
                        member.append(&piece);
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
