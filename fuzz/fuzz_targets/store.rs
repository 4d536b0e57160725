//! A store that is damaged in any way is opened or refused, and looked over, without a panic; what is
//! saved of it was written once.

#![no_main]

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use libfuzzer_sys::fuzz_target;
use sternpost_store::{Store, Transaction, Write};
use sternpost_store_log::{
    LogStore, Options,
    check::check_on,
    disk::{Disk, File},
};

type Image = BTreeMap<String, Vec<u8>>;
type Bytes = Arc<Mutex<Vec<u8>>>;

/// Clones are the same memory.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<BTreeMap<String, Bytes>>>);

#[derive(Debug)]
struct MemoryFile(Bytes);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    fn of(image: Image) -> Self {
        let files = image.into_iter().map(|(name, bytes)| (name, Arc::new(Mutex::new(bytes))));
        Self(Arc::new(Mutex::new(files.collect())))
    }

    fn image(&self) -> Image {
        lock(&self.0).iter().map(|(name, bytes)| (name.clone(), lock(bytes).clone())).collect()
    }
}

impl Disk for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.0).keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let bytes = lock(&self.0).get(name).cloned();
        Ok(Box::new(MemoryFile(bytes.ok_or(io::ErrorKind::NotFound)?)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        lock(&self.0).insert(name.to_owned(), Bytes::default());
        self.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = lock(&self.0);
        let bytes = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        lock(&self.0).remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl File for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = lock(&self.0);
        let bytes = bytes.get(start..).and_then(|bytes| bytes.get(..into.len()));
        into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let mut file = lock(&self.0);
        let length = file.len().max(start + bytes.len());
        file.resize(length, 0);
        file[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn options() -> Options {
    Options { allocation: 512, ..Options::default() }
}

/// A store with some history.
static WHOLE: LazyLock<Image> = LazyLock::new(|| {
    let disk = Memory::default();
    let store = LogStore::open_on(Arc::new(disk.clone()), options()).unwrap();
    for number in 0..12 {
        let put = Write::put(format!("key-{}", number % 5), format!("value-{number}").repeat(20));
        let delete = Write::delete(format!("key-{}", (number + 2) % 5));
        block_on(store.commit(Transaction::write([put, delete]))).unwrap();
    }
    block_on(store.close());
    disk.image()
});

// Every five bytes change two, or cut a file: which one, where, and to what.
fuzz_target!(|changes: &[u8]| {
    let mut image = WHOLE.clone();
    for change in changes.chunks_exact(5) {
        let name = ["log-1", "snapshot-1", "store.redb"][usize::from(change[0] % 3)];
        let Some(bytes) = image.get_mut(name) else { continue };
        let at = usize::from(u16::from_be_bytes([change[1], change[2]]));
        match change[0] / 3 % 3 {
            0 => bytes.truncate(at),
            _ => bytes.iter_mut().skip(at).zip(&change[3..]).for_each(|(byte, to)| *byte = *to),
        }
    }
    let disk = Memory::of(image);
    if let Ok(findings) = check_on(&disk, Path::new("store")) {
        for salvaged in findings.entries.values() {
            assert!(salvaged.entry.value().starts_with(b"value-"));
        }
        findings.salvage_on(&Memory::default(), Path::new("salvaged")).unwrap();
    }
    if let Ok(store) = LogStore::open_on(Arc::new(disk), options()) {
        block_on(store.close());
    }
});
