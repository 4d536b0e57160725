//! Writing all that is needed into one file, so that the logs before it are not.
//!
//! It is written from memory by a thread of its own, a slice at a time, while the store goes on. What
//! it has of different keys may therefore be as of different revisions; `FORMAT.md` says why that
//! is enough.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use sternpost_store::{Entry, hub::Hub, mvcc::Mvcc, watch::Batch};

use crate::{
    codec::{self, Contents, FileId, FileKind, HEADER, Header, Record, RecordKind, State},
    disk::{Disk, File, WriteError},
    engine::{self, Engine, Place},
    sealing::Cover,
};

/// A snapshot that is being written.
pub const UNFINISHED: &str = "snapshot.new";

/// Keys, or batches, that are looked at while the lock is held.
const SLICE: usize = if cfg!(test) { 3 } else { 1000 };

/// A frame is closed when it has this many bytes of keys and values. Small, because where the
/// beginning of one is damaged all of it is lost.
const FRAME: usize = 4 << 10;

/// What is written at a time.
const WRITE: usize = if cfg!(test) { 1 } else { 256 << 10 };

/// Bytes between syncs, so that those of the log never wait for much.
const SYNC: u64 = 8 << 20;

/// Why a snapshot was not finished.
#[derive(Debug)]
pub enum SnapshotError {
    Write(WriteError),
    /// The store ends.
    Stopped,
}

impl From<WriteError> for SnapshotError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

/// Writes the snapshot that belongs to a place in the log, which the hub has published up to there.
/// Then removes what it replaces. Gives its length.
pub fn write(
    disk: &dyn Disk,
    hub: &Hub,
    place: Place,
    cover: &Cover,
    ended: &AtomicBool,
) -> Result<u64, SnapshotError> {
    let failed = |error: io::Error| SnapshotError::Write(engine::without(disk, UNFINISHED, &error));
    let file = disk.create(UNFINISHED).map_err(failed)?;
    let id = FileId::snapshot(place.number);
    let (offset, buffer) = (HEADER as u64, Vec::new());
    let mut output = Output { disk, file, id, cover, buffer, offset, synced: 0, frames: 0, records: 0 };
    let contents = output.contents(hub, place.state, ended).inspect_err(|error| {
        if let SnapshotError::Stopped | SnapshotError::Write(WriteError::Unsealed { .. }) = error {
            // If it stays it is replaced by the next one.
            let _ = disk.remove(UNFINISHED);
        }
    })?;
    let Output { file, offset: length, .. } = output;
    let header = Header { file: id, sequence: place.sequence, length, contents: Some(contents) };
    file.write(0, &codec::encode_header(&header)).map_err(failed)?;
    // If there was no space after all it is dropped, and nothing rests on it.
    file.sync().map_err(failed)?;
    disk.rename(UNFINISHED, &id.name()).map_err(failed)?;
    disk.sync().map_err(|error| WriteError::of_anything_else(&error))?;
    remove_before(disk, place.number);
    Ok(length)
}

/// Removes the files that a snapshot has replaced: first the older snapshots, so that none is ever
/// there without the logs that it needs.
pub fn remove_before(disk: &dyn Disk, number: u64) {
    let mut old: Vec<FileId> =
        disk.list().unwrap_or_default().iter().filter_map(|name| FileId::parse(name)).collect();
    old.retain(|file| file.number < number);
    old.sort_unstable_by_key(|file| (file.kind == FileKind::Log, file.number));
    for file in old {
        // Those that stay are in nobody's way, and the next snapshot tries again.
        if disk.remove(&file.name()).is_err() {
            return;
        }
    }
}

struct Output<'a> {
    disk: &'a dyn Disk,
    file: Box<dyn File>,
    id: FileId,
    cover: &'a Cover,
    /// Frames that are still to be written.
    buffer: Vec<u8>,
    /// Where they go.
    offset: u64,
    synced: u64,
    frames: u64,
    records: u64,
}

impl Output<'_> {
    fn contents(&mut self, hub: &Hub, state: State, ended: &AtomicBool) -> Result<Contents, SnapshotError> {
        let mut frame = Vec::new();
        // History first: what of it is forgotten meanwhile is in the base.
        let mut after = read(hub, ended, Mvcc::compacted)?;
        loop {
            let compacted = read(hub, ended, Mvcc::compacted)?;
            let batches: Vec<Arc<Batch>> = read(hub, ended, |mvcc| {
                let slice = mvcc.after(after).take_while(|batch| batch.revision <= state.revision);
                slice.take(SLICE).cloned().collect()
            })?;
            let Some(last) = batches.last() else { break };
            after = last.revision;
            let size = |batch: &Arc<Batch>| Record::of_batch(batch).map(|record| record_size(&record)).sum();
            for group in groups(&batches, size) {
                let records = group.iter().flat_map(|batch| Record::of_batch(batch));
                self.frame(&mut frame, &State { compacted, ..state }, records)?;
            }
        }
        // What is behind the state is the log's, also where the base would have it.
        let settled = read(hub, ended, Mvcc::compacted)?.min(state.revision);
        let mut last = None;
        loop {
            let (mut entries, next) = read(hub, ended, |mvcc| mvcc.base(last.as_ref(), SLICE))?;
            // The log has them.
            entries.retain(|entry| entry.modified <= state.revision);
            for group in groups(&entries, |entry| record_size(&base(entry))) {
                self.frame(&mut frame, &State { compacted: settled, ..state }, group.iter().map(base))?;
            }
            match next {
                Some(next) => last = Some(next),
                None => break,
            }
        }
        self.flush()?;
        let compacted = read(hub, ended, Mvcc::compacted)?;
        let (frames, records) = (self.frames, self.records);
        Ok(Contents { state: State { compacted, ..state }, settled, frames, records })
    }

    fn frame<'b>(
        &mut self,
        frame: &mut Vec<u8>,
        state: &State,
        records: impl Iterator<Item = Record<'b>> + Clone,
    ) -> Result<(), SnapshotError> {
        let count = records.clone().count() as u64;
        codec::encode_frame(frame, (self.id, self.frames), self.cover, (state, 0), records)
            .map_err(|reason| WriteError::Unsealed { reason })?;
        self.buffer.extend_from_slice(frame);
        self.frames += 1;
        self.records += count;
        if self.buffer.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SnapshotError> {
        let failed = |error: io::Error| SnapshotError::Write(engine::without(self.disk, UNFINISHED, &error));
        self.file.write(self.offset, &self.buffer).map_err(failed)?;
        self.offset = self.offset.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        if self.offset - self.synced >= SYNC {
            self.file.sync().map_err(failed)?;
            self.synced = self.offset;
        }
        Ok(())
    }
}

fn read<T>(hub: &Hub, ended: &AtomicBool, read: impl FnOnce(&Mvcc) -> T) -> Result<T, SnapshotError> {
    if ended.load(Ordering::Relaxed) {
        return Err(SnapshotError::Stopped);
    }
    hub.read(|mvcc| Ok(read(mvcc))).map_err(|_| SnapshotError::Stopped)
}

fn base(entry: &Entry) -> Record<'_> {
    let (revision, created) = (entry.modified, entry.created);
    Record { kind: RecordKind::Base, revision, created, time: 0, key: entry.key(), value: entry.value() }
}

fn record_size(record: &Record<'_>) -> usize {
    record.key.len() + record.value.len()
}

/// Parts of a slice for one frame each.
fn groups<T>(items: &[T], size: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = items;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let end = rest.iter().position(|item| {
            bytes += size(item);
            bytes >= FRAME
        });
        let (group, after) = rest.split_at_checked(end.map_or(rest.len(), |last| last + 1))?;
        rest = after;
        (!group.is_empty()).then_some(group)
    })
}

/// When snapshots are written, and the thread that writes one.
#[derive(Debug)]
pub struct Snapshots {
    /// Bytes of log that are always waited for.
    least: u64,
    /// The next one begins when the log since the last has this many bytes.
    due: u64,
    /// Whether the next one is due whatever the log has. One that is being written does not count: it may have begun
    /// before there was a reason.
    asked: Arc<AtomicBool>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// What was logged before it began.
    logged: u64,
    ended: Arc<AtomicBool>,
    outcome: mpsc::Receiver<Result<u64, SnapshotError>>,
    thread: Option<JoinHandle<()>>,
}

impl Snapshots {
    /// The next one is due when the log has as many bytes as the last snapshot, but not before `least`.
    pub fn new(least: u64, last: u64) -> Self {
        Self { least, due: last.max(least), asked: Arc::default(), running: None }
    }

    /// The next one is due now.
    pub fn at_once(least: u64) -> Self {
        Self { least, due: 0, asked: Arc::default(), running: None }
    }

    /// Whoever sets it asks for one.
    pub fn asked(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Begins one if it is due, and notes what came of the one before. `wake` is called when one has
    /// ended, so that this is soon called again. Fails if the store cannot go on.
    pub fn maintain(
        &mut self,
        engine: &mut Engine,
        hub: &Arc<Hub>,
        wake: impl FnOnce() + Send + 'static,
    ) -> Result<(), String> {
        if let Some(running) = &self.running {
            let outcome = match running.outcome.try_recv() {
                Ok(outcome) => outcome,
                Err(mpsc::TryRecvError::Empty) => return Ok(()),
                Err(mpsc::TryRecvError::Disconnected) => {
                    return Err("the writer of snapshots panicked".to_owned());
                }
            };
            let logged = running.logged;
            self.end();
            match outcome {
                Ok(length) => {
                    engine.logged = engine.logged.saturating_sub(logged);
                    self.due = length.max(self.least);
                }
                // The log has everything. There will be another try when it has grown.
                Err(
                    SnapshotError::Write(WriteError::NoSpace { .. } | WriteError::Unsealed { .. })
                    | SnapshotError::Stopped,
                ) => {
                    self.due = engine.logged.saturating_add(self.least);
                }
                Err(SnapshotError::Write(WriteError::Final { reason })) => return Err(reason),
            }
        }
        if self.asked.swap(false, Ordering::AcqRel) {
            self.due = 0;
        }
        if engine.logged < self.due {
            return Ok(());
        }
        self.due = engine.logged.saturating_add(self.least);
        let place = match engine.rotate() {
            Ok(place) => place,
            Err(WriteError::NoSpace { .. } | WriteError::Unsealed { .. }) => return Ok(()),
            Err(WriteError::Final { reason }) => return Err(reason),
        };
        let ended = Arc::new(AtomicBool::new(false));
        let (sender, outcome) = mpsc::sync_channel(1);
        let (disk, hub, cover) = (Arc::clone(engine.disk()), Arc::clone(hub), engine.cover().clone());
        let flag = Arc::clone(&ended);
        let thread = std::thread::Builder::new().name("store-snapshot".to_owned()).spawn(move || {
            let outcome = write(&*disk, &hub, place, &cover, &flag);
            drop((disk, hub));
            // Nobody waits for it if the store has ended.
            let _ = sender.send(outcome);
            wake();
        });
        // If there is no thread to be had, there will be another try when the log has grown.
        if let Ok(thread) = thread {
            self.running = Some(Running { logged: engine.logged, ended, outcome, thread: Some(thread) });
        }
        Ok(())
    }

    /// Waits until nothing is written any more. One that is under way is given up.
    pub fn end(&mut self) {
        self.running = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked that was said where it did.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Mutex};

    use sternpost_store::{
        KeyRange, Revision, Transaction,
        conformance::{
            Rng,
            model::{Expected, Model},
            random,
        },
        mvcc::Pending,
    };

    use super::*;
    use crate::{
        codec::Mask,
        directory::Directory,
        load::{self, Files},
        open,
        sealing::Plain,
    };

    fn cover() -> Cover {
        Cover::plain(Mask::new([1, 2, 3, 4, 5, 6, 7, 8]))
    }

    /// Does what the writer does, without a thread.
    #[derive(Debug)]
    struct Writer {
        engine: Engine,
        hub: Arc<Hub>,
        model: Model,
        rng: Rng,
    }

    impl Writer {
        fn commit(&mut self) {
            let unique = self.rng.draw();
            let transaction: Transaction = random::transaction(&mut self.rng, &self.model, unique);
            let mut pending = Pending::default();
            let _ = self.hub.read(|mvcc| Ok(mvcc.plan(&mut pending, transaction.clone(), unique % 1000)));
            let batches = pending.into_batches();
            if let Some(batch) = batches.last() {
                assert!(matches!(self.model.expect(&transaction), Expected::Changed));
                self.model.apply(&transaction, batch.revision);
            }
            let compacted = self.rng.one_in(4).then(|| {
                let retained: Vec<Revision> =
                    self.model.revisions().filter(|revision| *revision >= self.model.compacted).collect();
                retained[self.rng.below(retained.len() as u64) as usize]
            });
            self.engine.write(&batches, compacted).unwrap();
            self.hub.publish(batches);
            if let Some(to) = compacted {
                self.hub.compact(to).unwrap();
                self.model.compacted = to;
            }
        }
    }

    /// A directory in which the store goes on whenever something is written to a snapshot.
    #[derive(Debug)]
    struct Busy {
        directory: Directory,
        writer: Arc<Mutex<Option<Writer>>>,
    }

    #[derive(Debug)]
    struct BusyFile(Box<dyn File>, Option<Arc<Mutex<Option<Writer>>>>);

    impl Disk for Busy {
        fn list(&self) -> io::Result<Vec<String>> {
            self.directory.list()
        }
        fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
            Ok(Box::new(BusyFile(self.directory.open(name)?, None)))
        }
        fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
            let writer = (name == UNFINISHED).then(|| Arc::clone(&self.writer));
            Ok(Box::new(BusyFile(self.directory.create(name)?, writer)))
        }
        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.directory.rename(from, to)
        }
        fn remove(&self, name: &str) -> io::Result<()> {
            self.directory.remove(name)
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    impl File for BusyFile {
        fn length(&self) -> io::Result<u64> {
            self.0.length()
        }
        fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, into)
        }
        fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            if let Some(writer) = &self.1
                && let Some(writer) = writer.lock().unwrap().as_mut()
            {
                for _ in 0..writer.rng.below(3) {
                    writer.commit();
                }
            }
            self.0.write(offset, bytes)
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Slices have three keys here, and every frame is written by itself.
    #[test]
    fn what_is_read_back_is_the_store_though_it_went_on_between_any_two_slices() {
        for seed in 0..150 {
            println!("seed {seed}");
            let root = tempfile::tempdir().unwrap();
            let path = Path::new("here");
            let directory = Directory::lock(root.path()).unwrap();
            let writer = Arc::new(Mutex::new(None));
            let disk: Arc<dyn Disk> = Arc::new(Busy { directory, writer: Arc::clone(&writer) });
            let loaded = open::open(&*disk, path, &cover(), 4096).unwrap();
            let engine = Engine::open(Arc::clone(&disk), path, &loaded, cover(), 4096).unwrap();
            let hub = Hub::new(loaded.mvcc, sternpost_store::hub::DEFAULT_WATCH_QUEUE);
            let (model, rng) = (Model::default(), Rng::new(seed));
            let mut it = Writer { engine, hub: Arc::clone(&hub), model, rng };
            for _ in 0..30 {
                it.commit();
            }
            let place = it.engine.rotate().unwrap();
            *writer.lock().unwrap() = Some(it);
            write(&*disk, &hub, place, &cover(), &AtomicBool::new(false)).unwrap();
            let mut it = writer.lock().unwrap().take().unwrap();
            for _ in 0..it.rng.below(4) {
                it.commit();
            }

            let files = Files::list(&*disk, path).unwrap();
            assert_eq!((files.snapshots.as_slice(), files.logs.as_slice()), (&[2][..], &[2][..]));
            let loaded = load::load(&*disk, path, &files, &Plain).unwrap();
            assert_eq!(loaded.mvcc.compacted(), it.model.compacted);
            assert_eq!(loaded.mvcc.current(), it.model.current());
            let all = KeyRange::all();
            for revision in it.model.revisions().filter(|revision| *revision >= it.model.compacted) {
                let page = loaded.mvcc.range(&all, Some(revision), 1000).unwrap();
                assert_eq!(page.entries, it.model.entries_at(&all, revision), "read at {revision}");
            }
            let events =
                |mvcc: &Mvcc| -> Vec<Arc<Batch>> { mvcc.after(it.model.compacted).cloned().collect() };
            assert_eq!(events(&loaded.mvcc), hub.read(|mvcc| Ok(events(mvcc))).unwrap());
        }
    }
}
