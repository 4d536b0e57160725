//! A disk in memory that can fail, tear and wait.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard},
};

use sternpost_store::conformance::Rng;
use sternpost_store_log::disk;

/// What a disk writes as a whole, even when the power goes.
const SECTOR: usize = 512;

/// The files of a disk by their names.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    /// Every file that ever was; names refer to them.
    files: Vec<Contents>,
    names: Names,
    /// Writes, syncs and changes of names so far.
    operations: u64,
    fault: Option<(u64, Fault)>,
    /// Operations that came after one had failed.
    after_fault: u64,
    hit: bool,
    /// What the operation was that was hit.
    hit_operation: Option<Operation>,
    full: bool,
    cut: bool,
    held: bool,
    waiting: bool,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    /// What survives a power cut for sure.
    durable: Vec<u8>,
    /// What reads see: durable and all later changes.
    cached: Vec<u8>,
    unsynced: Vec<Write>,
}

#[derive(Clone, Debug)]
struct Write {
    offset: usize,
    data: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Names {
    durable: BTreeMap<String, usize>,
    cached: BTreeMap<String, usize>,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Create { name: String, file: usize },
    Rename { from: String, to: String, file: usize },
    Remove { name: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This operation and all later ones fail, and nothing more gets through.
    PowerCut,
    /// One operation fails. If it is a sync, the cache forgets that the pages
    /// were dirty: they never reach the disk, and the next sync succeeds.
    Error,
    /// One operation fails because the disk is full.
    NoSpace,
    /// From this operation on everything but a sync and a removal fails because the disk is
    /// full, until there is room.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Write,
    /// Needs no room.
    Remove,
    Sync,
}

/// Which of the changes that were not synced survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    Nothing,
    Everything,
    /// Any sectors, whatever their order.
    Some,
}

impl Disk {
    pub fn with(image: &Image) -> Self {
        let disk = Self::default();
        let mut state = disk.lock();
        for (name, bytes) in image {
            let file = state.files.len();
            state.files.push(Contents { durable: bytes.clone(), cached: bytes.clone(), unsynced: vec![] });
            state.names.durable.insert(name.clone(), file);
            state.names.cached.insert(name.clone(), file);
        }
        drop(state);
        disk
    }

    /// The fault happens at the `after`-th operation from now, counted from zero.
    pub fn fail(&self, fault: Fault, after: u64) {
        let mut state = self.lock();
        state.fault = Some((state.operations + after, fault));
    }

    /// The disk after the power has gone.
    pub fn after_power_cut(&self, tear: Tear, rng: &mut Rng) -> Self {
        self.lock().cut = true;
        self.copy_after_power_cut(tear, rng)
    }

    /// The disk as it would be if the power went now.
    pub fn copy_after_power_cut(&self, tear: Tear, rng: &mut Rng) -> Self {
        let state = self.lock();
        let mut names = state.names.durable.clone();
        for change in &state.names.unsynced {
            if survives(tear, rng) {
                change.apply(&mut names);
            }
        }
        let mut image = Image::new();
        for (name, file) in names {
            let contents = &state.files[file];
            let mut bytes = contents.durable.clone();
            for write in &contents.unsynced {
                for (index, sector) in sectors(write).enumerate() {
                    let (offset, data) = (sector.0, sector.1);
                    // A file may have grown though what was written did not get there.
                    if survives(tear, rng) {
                        Write { offset, data }.apply(&mut bytes);
                    } else if tear == Tear::Some && index == 0 && rng.one_in(2) {
                        let end = write.offset + write.data.len();
                        bytes.resize(bytes.len().max(end), 0);
                    }
                }
            }
            image.insert(name, bytes);
        }
        drop(state);
        Self::with(&image)
    }

    /// The disk as a restarted process finds it, the machine having stayed up.
    pub fn after_restart(&self) -> Self {
        let state = self.lock();
        let disk = Self::default();
        let mut next = disk.lock();
        next.files = state.files.clone();
        next.names = state.names.clone();
        drop(next);
        disk
    }

    pub fn image(&self) -> Image {
        let state = self.lock();
        state
            .names
            .cached
            .iter()
            .map(|(name, file)| (name.clone(), state.files[*file].cached.clone()))
            .collect()
    }

    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    pub fn operations_after_fault(&self) -> u64 {
        self.lock().after_fault
    }

    /// A fault is still to come, or was hit.
    pub fn may_fail(&self) -> bool {
        let state = self.lock();
        state.hit || state.fault.is_some()
    }

    pub fn fault_was_hit(&self) -> bool {
        self.lock().hit
    }

    pub fn fault_was_a_sync(&self) -> bool {
        self.lock().hit_operation == Some(Operation::Sync)
    }

    pub fn fault_was_a_removal(&self) -> bool {
        self.lock().hit_operation == Some(Operation::Remove)
    }

    pub fn is_full(&self) -> bool {
        self.lock().full
    }

    /// The disk is no longer full, and what failed is forgotten.
    pub fn make_room(&self) {
        let mut state = self.lock();
        (state.full, state.hit, state.after_fault) = (false, false, 0);
    }

    /// From now on syncs wait.
    pub fn hold(&self) {
        self.lock().held = true;
    }

    pub fn release(&self) {
        self.lock().held = false;
        self.0.1.notify_all();
    }

    /// Returns when a sync waits, or never will because a fault came first.
    pub fn wait_until_held(&self) {
        let state = self.lock();
        let _state = self.0.1.wait_while(state, |state| !state.waiting && !state.hit).unwrap();
    }

    fn wait_while_held(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.held {
            state.waiting = true;
            self.0.1.notify_all();
            state = self.0.1.wait_while(state, |state| state.held).unwrap();
            state.waiting = false;
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    /// Counts an operation and says whether it may happen.
    fn begin(&self, state: &mut State, operation: Operation) -> io::Result<()> {
        let number = state.operations;
        state.operations += 1;
        if state.hit {
            state.after_fault += 1;
        }
        let fault = state.fault.take_if(|(at, _)| *at == number);
        if let Some((at, Fault::Full)) = fault
            && operation != Operation::Write
        {
            state.fault = Some((at + 1, Fault::Full));
            return Ok(());
        }
        if let Some((_, fault)) = fault {
            state.hit = true;
            state.hit_operation = Some(operation);
            state.full |= fault == Fault::Full;
            state.cut |= fault == Fault::PowerCut;
            self.0.1.notify_all();
            return Err(match fault {
                Fault::NoSpace | Fault::Full => io::Error::from(io::ErrorKind::StorageFull),
                Fault::PowerCut | Fault::Error => io::Error::other("injected fault"),
            });
        }
        match (state.cut, state.full && operation == Operation::Write) {
            (true, _) => Err(io::Error::other("no power")),
            (_, true) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            _ => Ok(()),
        }
    }
}

fn survives(tear: Tear, rng: &mut Rng) -> bool {
    match tear {
        Tear::Nothing => false,
        Tear::Everything => true,
        Tear::Some => rng.one_in(2),
    }
}

/// Pieces of a write, cut where the sectors of the file are.
fn sectors(write: &Write) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let first = (SECTOR - write.offset % SECTOR).min(write.data.len());
    let (head, rest) = write.data.split_at(first);
    let pieces = std::iter::once(head).chain(rest.chunks(SECTOR));
    let mut offset = write.offset;
    pieces.map(move |piece| {
        let at = offset;
        offset += piece.len();
        (at, piece.to_vec())
    })
}

impl disk::Disk for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.cached.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn disk::File>> {
        let file = *self.lock().names.cached.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(File { disk: self.clone(), file }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn disk::File>> {
        let mut state = self.lock();
        self.begin(&mut state, Operation::Write)?;
        let file = state.files.len();
        state.files.push(Contents::default());
        state.names.change(Change::Create { name: name.to_owned(), file });
        drop(state);
        Ok(Box::new(File { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        self.begin(&mut state, Operation::Write)?;
        let file = *state.names.cached.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        if !state.names.cached.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.begin(&mut state, Operation::Remove)?;
        state.names.change(Change::Remove { name: name.to_owned() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.wait_while_held();
        let begun = self.begin(&mut state, Operation::Sync);
        let State { names, cut, .. } = &mut *state;
        match &begun {
            Ok(()) => {
                names.durable = names.cached.clone();
                names.unsynced.clear();
            }
            Err(_) if !*cut => names.unsynced.clear(),
            Err(_) => {}
        }
        begun
    }
}

#[derive(Debug)]
struct File {
    disk: Disk,
    file: usize,
}

impl disk::File for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.file].cached.len() as u64)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let state = self.disk.lock();
        let end = start.checked_add(into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = state.files[self.file].cached.get(start..end);
        into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        let begun = self.disk.begin(&mut state, Operation::Write);
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let write = Write { offset, data: bytes.to_vec() };
        let State { files, cut, after_fault, .. } = &mut *state;
        let contents = &mut files[self.file];
        match &begun {
            Ok(()) => contents.write(write),
            // The write under which the power goes may get through in part.
            Err(_) if *cut && *after_fault == 0 => contents.unsynced.push(write),
            // As may one for which there is no space: some of it is there.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let part = write.data.len() / 2;
                contents.write(Write { offset, data: write.data[..part].to_vec() });
            }
            Err(_) => {}
        }
        begun
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.wait_while_held();
        let begun = self.disk.begin(&mut state, Operation::Sync);
        let State { files, cut, .. } = &mut *state;
        let Contents { durable, cached: _, unsynced } = &mut files[self.file];
        match &begun {
            Ok(()) => unsynced.drain(..).for_each(|write| write.apply(durable)),
            Err(_) if !*cut => unsynced.clear(),
            Err(_) => {}
        }
        begun
    }
}

impl Contents {
    fn write(&mut self, write: Write) {
        write.apply(&mut self.cached);
        self.unsynced.push(write);
    }
}

impl Write {
    fn apply(&self, image: &mut Vec<u8>) {
        let end = self.offset + self.data.len();
        if image.len() < end {
            image.resize(end, 0);
        }
        image[self.offset..end].copy_from_slice(&self.data);
    }
}

impl Names {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.cached);
        self.unsynced.push(change);
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create { name, file } => drop(names.insert(name.clone(), *file)),
            Self::Rename { from, to, file } => {
                // Another one may have the name by now, if not all before this survived.
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            Self::Remove { name } => drop(names.remove(name)),
        }
    }
}
