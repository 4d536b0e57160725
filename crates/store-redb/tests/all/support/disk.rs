//! A disk in memory that can fail, tear and wait.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard},
};

use sternpost_store::conformance::Rng;
use sternpost_store_redb::StorageBackend;

/// What a disk writes as a whole, even when the power goes.
const SECTOR: usize = 512;

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    /// What survives a power cut for sure.
    durable: Vec<u8>,
    /// What reads see: durable and all later changes.
    cached: Vec<u8>,
    unsynced: Vec<Change>,
    /// Writes, syncs and resizes so far.
    operations: u64,
    fault: Option<(u64, Fault)>,
    /// Operations that came after one had failed.
    after_fault: u64,
    hit: bool,
    /// The operation that was hit was a sync.
    hit_sync: bool,
    full: bool,
    cut: bool,
    held: bool,
    waiting: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Resize(usize),
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
    /// From this operation on everything but a sync fails because the disk is
    /// full, until there is room.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Write,
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
    pub fn with(image: Vec<u8>) -> Self {
        let disk = Self::default();
        let mut state = disk.lock();
        state.durable = image.clone();
        state.cached = image;
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
        let mut image = state.durable.clone();
        apply(&mut image, &state.unsynced, tear, rng);
        Self::with(image)
    }

    /// The disk as a restarted process finds it, the machine having stayed up.
    pub fn after_restart(&self) -> Self {
        let state = self.lock();
        let disk = Self::with(state.durable.clone());
        let mut next = disk.lock();
        next.cached = state.cached.clone();
        next.unsynced = state.unsynced.clone();
        drop(next);
        disk
    }

    pub fn image(&self) -> Vec<u8> {
        self.lock().cached.clone()
    }

    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    pub fn operations_after_fault(&self) -> u64 {
        self.lock().after_fault
    }

    pub fn fault_was_hit(&self) -> bool {
        self.lock().hit
    }

    pub fn fault_was_a_sync(&self) -> bool {
        self.lock().hit_sync
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
        // A sync needs no room.
        if let Some((at, Fault::Full)) = fault
            && operation == Operation::Sync
        {
            state.fault = Some((at + 1, Fault::Full));
            return Ok(());
        }
        if let Some((_, fault)) = fault {
            state.hit = true;
            state.hit_sync = operation == Operation::Sync;
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

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let state = self.lock();
        let end = start.checked_add(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(state.cached.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.lock();
        self.begin(&mut state, Operation::Write)?;
        let change = Change::Resize(usize::try_from(len).map_err(io::Error::other)?);
        change.apply(&mut state.cached);
        state.unsynced.push(change);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.held {
            state.waiting = true;
            self.0.1.notify_all();
            state = self.0.1.wait_while(state, |state| state.held).unwrap();
            state.waiting = false;
        }
        let begun = self.begin(&mut state, Operation::Sync);
        let State { durable, unsynced, cut, .. } = &mut *state;
        if begun.is_err() {
            if !*cut {
                unsynced.clear();
            }
            return begun;
        }
        for change in unsynced.drain(..) {
            change.apply(durable);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let begun = self.begin(&mut state, Operation::Write);
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let change = Change::Write { offset, data: data.to_vec() };
        match begun {
            Ok(()) => {
                change.apply(&mut state.cached);
                state.unsynced.push(change);
            }
            // The write under which the power goes may get through in part.
            Err(_) if state.cut && state.after_fault == 0 => state.unsynced.push(change),
            Err(_) => {}
        }
        begun
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Resize(length) => image.resize(*length, 0),
            Self::Write { offset, data } => {
                let end = offset + data.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(data);
            }
        }
    }
}

fn apply(image: &mut Vec<u8>, changes: &[Change], tear: Tear, rng: &mut Rng) {
    for change in changes {
        match (tear, change) {
            (Tear::Nothing, _) => {}
            (Tear::Everything, change) => change.apply(image),
            (Tear::Some, Change::Resize(_)) if rng.one_in(2) => change.apply(image),
            (Tear::Some, Change::Resize(_)) => {}
            (Tear::Some, Change::Write { offset, data }) => {
                for (index, sector) in data.chunks(SECTOR).enumerate() {
                    if rng.one_in(2) {
                        let offset = offset + index * SECTOR;
                        Change::Write { offset, data: sector.to_vec() }.apply(image);
                    }
                }
            }
        }
    }
}
