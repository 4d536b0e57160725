//! Looking into a file without changing it.
//!
//! redb writes when it opens a file: it repairs, and marks the file as in use.
//! A [`Probe`] lets it, and keeps what it writes in memory.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redb::StorageBackend;

/// The unit in which changes are kept.
const PAGE: u64 = 4096;

#[derive(Debug)]
pub struct Probe<B> {
    backend: B,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// Bytes of the backend behind this are gone: the file was shortened once.
    valid: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl<B: StorageBackend> Probe<B> {
    pub fn new(backend: B) -> io::Result<Self> {
        let length = backend.len()?;
        Ok(Self { backend, changes: Mutex::new(Changes { length, valid: length, pages: BTreeMap::new() }) })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as it is now.
    fn page(&self, changes: &Changes, number: u64) -> io::Result<Vec<u8>> {
        if let Some(page) = changes.pages.get(&number) {
            return Ok(page.clone());
        }
        let mut page = vec![0; PAGE as usize];
        let start = number.saturating_mul(PAGE);
        let there = changes.valid.saturating_sub(start).min(PAGE);
        if let Some(part) = page.get_mut(..there as usize)
            && !part.is_empty()
        {
            self.backend.read(start, part)?;
        }
        Ok(page)
    }
}

impl<B: StorageBackend> StorageBackend for Probe<B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        if end > changes.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let changed = changes.pages.range(offset / PAGE..=end / PAGE).next().is_some();
        if !changed && end <= changes.valid {
            return self.backend.read(offset, out);
        }
        for (number, within, part) in pieces(offset, out) {
            let page = self.page(&changes, number)?;
            let from = page.get(within..within + part.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            part.copy_from_slice(from);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes();
        if len < changes.length {
            changes.valid = changes.valid.min(len);
            changes.pages.split_off(&len.div_ceil(PAGE));
            // What is cut off within a page reads as zero if the file grows again.
            if let Some(page) = changes.pages.get_mut(&(len / PAGE))
                && let Some(tail) = page.get_mut((len % PAGE) as usize..)
            {
                tail.fill(0);
            }
        }
        changes.length = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        let mut data = data.to_vec();
        let end = offset.saturating_add(data.len() as u64);
        for (number, within, part) in pieces(offset, &mut data) {
            let mut page = self.page(&changes, number)?;
            let to = page.get_mut(within..within + part.len()).ok_or(io::ErrorKind::InvalidInput)?;
            to.copy_from_slice(part);
            changes.pages.insert(number, page);
        }
        changes.length = changes.length.max(end);
        Ok(())
    }
}

/// A stretch of bytes cut at the borders of pages: page, place in it, bytes.
fn pieces(offset: u64, bytes: &mut [u8]) -> impl Iterator<Item = (u64, usize, &mut [u8])> {
    let within = (offset % PAGE) as usize;
    let first = bytes.len().min(PAGE as usize - within);
    let (head, tail) = bytes.split_at_mut_checked(first).unwrap_or_default();
    let start = (!head.is_empty()).then_some((offset / PAGE, within, head));
    let rest =
        tail.chunks_mut(PAGE as usize).zip(offset / PAGE + 1..).map(|(part, number)| (number, 0, part));
    start.into_iter().chain(rest)
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    /// Random operations on a probe and on a plain copy give the same.
    #[test]
    fn a_probe_behaves_like_the_backend_and_leaves_it_alone() {
        for seed in 0..50 {
            println!("seed {seed}");
            let mut rng = sternpost_store::conformance::Rng::new(seed);
            let start: Vec<u8> = (0..rng.below(20_000)).map(|_| rng.draw() as u8).collect();
            let backend = InMemoryBackend::new();
            backend.set_len(start.len() as u64).unwrap();
            backend.write(0, &start).unwrap();
            let probe = Probe::new(backend).unwrap();
            let mut plain = start.clone();
            for _ in 0..60 {
                let length = rng.below(9_000) as usize;
                match rng.below(3) {
                    0 => {
                        plain.resize(rng.below(30_000) as usize, 0);
                        probe.set_len(plain.len() as u64).unwrap();
                    }
                    1 if plain.len() > length => {
                        let offset = rng.below((plain.len() - length) as u64) as usize;
                        let data: Vec<u8> = (0..length).map(|_| rng.draw() as u8).collect();
                        plain[offset..offset + length].copy_from_slice(&data);
                        probe.write(offset as u64, &data).unwrap();
                    }
                    _ => {
                        let offset = rng.below(30_000) as usize;
                        let mut out = vec![0; length];
                        let read = probe.read(offset as u64, &mut out);
                        match plain.get(offset..offset + length) {
                            Some(expected) => assert!(read.is_ok() && out == expected),
                            None => assert!(read.is_err()),
                        }
                    }
                }
            }
            let mut all = vec![0; plain.len()];
            probe.read(0, &mut all).unwrap();
            assert!(all == plain);
            let mut untouched = vec![0; start.len()];
            probe.backend.read(0, &mut untouched).unwrap();
            assert!(untouched == start);
        }
    }
}
