//! Lists in runs of neighbouring objects, whose encoded bytes all readers share.
//!
//! A run covers a stretch of places and holds exactly the objects that are there. A write takes away
//! the run it falls into, and the next list makes that one anew; all others stay, with their bytes.
//! Where runs begin and end depends on nothing before them, so that an insertion does not move them.
//!
//! Nothing is kept for what is asked for once: a resource has runs from its second list on, and a
//! run has bytes from the second time on that it is asked for in a form.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use sternpost_clock::machine;
use sternpost_gzip::Plain;

use crate::{
    object::Object,
    resource::{Places, Seen, Snapshot},
};

/// Encoded bytes that are kept of all lists together. Beyond it, those go that were not used for longest.
pub const MAX_ENCODED_BYTES: usize = 64 << 20;

/// Stored bytes of a run, unless one object has more. With what encoding adds, it is what a list is
/// sent in; less would compress worse, more would be made anew by every write.
pub const RUN_BYTES: usize = 48 << 10;

/// A run that has become smaller than this joins the next one, if both are no more than one.
const SMALL_RUN_BYTES: usize = RUN_BYTES / 4;

/// Forms of one run that are remembered. The one asked for longest ago makes room for another.
const MAX_FORMS: usize = 8;

/// Minutes after which runs and bytes that nobody asked for are given back, with the next write.
const UNUSED_MINUTES: u64 = 5;

const MINUTE_SECONDS: u64 = 60;

/// Sorts behind every place: places are text.
const BEHIND_ALL: &[u8] = &[0xff];

/// A part of a list, in order.
#[derive(Debug)]
pub enum Section {
    Run(Arc<Run>),
    Objects(Vec<Arc<Object>>),
}

impl Section {
    pub fn objects(&self) -> &[Arc<Object>] {
        match self {
            Section::Run(run) => run.objects(),
            Section::Objects(objects) => objects,
        }
    }
}

/// What the bytes of a run depend on, beside its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// A number of whatever decides how objects are shown.
    pub shown_as: u64,
    pub encoding: &'static str,
    pub coding: Coding,
}

/// What is done to the bytes of an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Identity,
    Gzip,
}

/// The objects of a run in one form.
#[derive(Debug, Clone)]
pub struct Encoded {
    pub bytes: Bytes,
    /// Of what they are decompressed to, if they are compressed.
    pub plain: Plain,
}

/// What is there of a run in one form.
#[derive(Debug)]
pub enum Asked {
    /// Nothing, and it was not asked for lately.
    First,
    /// Nothing, but it was asked for: what is made now is worth keeping.
    Again,
    Kept(Encoded),
}

/// The objects between two places.
#[derive(Debug)]
pub struct Run {
    /// It has everything from here on …
    start: Box<[u8]>,
    /// … that is before this.
    end: Box<[u8]>,
    objects: Box<[Arc<Object>]>,
    /// Sum of [`Object::size`].
    size: usize,
    forms: Mutex<Vec<KnownForm>>,
    encodings: Arc<Encodings>,
}

#[derive(Debug)]
struct KnownForm {
    form: Form,
    /// The minute in which it was last asked for; none if it is only known how large it is.
    asked: Option<u64>,
    /// Bytes in this form, if somebody has found out.
    size: Option<usize>,
    kept: Option<Kept>,
}

impl Run {
    pub fn objects(&self) -> &[Arc<Object>] {
        &self.objects
    }

    /// Sum of [`Object::size`] of its objects.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Asks for its bytes in a form, which is remembered.
    pub fn ask(&self, form: Form) -> Asked {
        let minute = self.encodings.minute();
        self.with(form, |known| {
            let asked = known.asked.replace(minute);
            match &known.kept {
                Some(kept) => Asked::Kept(kept.encoded.clone()),
                None if asked.is_some_and(|asked| asked + UNUSED_MINUTES > minute) => Asked::Again,
                None => Asked::First,
            }
        })
    }

    /// Its bytes in a form if they are there. That is not asking for them.
    pub fn kept(&self, form: Form) -> Option<Encoded> {
        let forms = self.forms();
        let known = forms.iter().find(|known| known.form == form)?;
        known.kept.as_ref().map(|kept| kept.encoded.clone())
    }

    /// Keeps its bytes in a form, for whoever asks next.
    pub fn keep(self: &Arc<Self>, form: Form, encoded: Encoded) {
        self.encodings.made.fetch_add(1, Ordering::Relaxed);
        let size = encoded.bytes.len();
        if size > MAX_ENCODED_BYTES {
            return;
        }
        self.encodings.bytes.fetch_add(size, Ordering::Relaxed);
        let kept = Kept { encoded, encodings: self.encodings.clone() };
        let before = self.with(form, |known| known.kept.replace(kept));
        if before.is_none() {
            self.encodings.queue_up(self, form);
        }
    }

    /// How large it is in a form, if that was noted.
    pub fn size_in(&self, form: Form) -> Option<usize> {
        self.forms().iter().find(|known| known.form == form)?.size
    }

    pub fn note_size(&self, form: Form, size: usize) {
        self.with(form, |known| known.size = Some(size));
    }

    /// Does something with what is known of a form, which goes last.
    fn with<T>(&self, form: Form, act: impl FnOnce(&mut KnownForm) -> T) -> T {
        let mut forms = self.forms();
        let mut known = match forms.iter().position(|known| known.form == form) {
            Some(found) => forms.remove(found),
            None => KnownForm { form, asked: None, size: None, kept: None },
        };
        if forms.len() == MAX_FORMS {
            forms.remove(0);
        }
        let done = act(&mut known);
        forms.push(known);
        done
    }

    fn forms(&self) -> MutexGuard<'_, Vec<KnownForm>> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The minute in which bytes that are there were last asked for.
    fn last_asked(&self, form: Form) -> Option<u64> {
        let forms = self.forms();
        let known = forms.iter().find(|known| known.form == form && known.kept.is_some())?;
        Some(known.asked.unwrap_or_default())
    }

    fn give_back(&self, form: Form) {
        let kept = self.forms().iter_mut().find(|known| known.form == form).map(|known| known.kept.take());
        drop(kept);
    }
}

/// Bytes that count towards [`MAX_ENCODED_BYTES`].
#[derive(Debug)]
struct Kept {
    encoded: Encoded,
    encodings: Arc<Encodings>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.encodings.bytes.fetch_sub(self.encoded.bytes.len(), Ordering::Relaxed);
    }
}

/// The encoded bytes of the runs of all resources.
#[derive(Debug)]
pub struct Encodings {
    epoch: machine::Instant,
    /// Since the epoch, when the last sweep was.
    minute: AtomicU64,
    bytes: AtomicUsize,
    made: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// What was kept first is first; what was used since goes last once it is its turn to go.
    entries: VecDeque<Entry>,
    /// As many entries as make it worth while to look for those that are gone.
    prune_at: usize,
}

#[derive(Debug)]
struct Entry {
    run: Weak<Run>,
    form: Form,
    minute: u64,
}

impl Default for Encodings {
    fn default() -> Self {
        Self {
            epoch: machine::now(),
            minute: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            made: AtomicU64::new(0),
            queue: Mutex::default(),
        }
    }
}

impl Encodings {
    /// Bytes that are kept now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How often a run was encoded to be kept.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub(crate) fn minute(&self) -> u64 {
        self.minute.load(Ordering::Relaxed)
    }

    /// Once a minute: gives back what was not used for long. True if it was time to.
    pub(crate) fn sweep(&self, now: machine::Instant) -> bool {
        let minute = now.saturating_duration_since(self.epoch).as_secs() / MINUTE_SECONDS;
        if self.minute.fetch_max(minute, Ordering::Relaxed) >= minute {
            return false;
        }
        self.queue().entries.retain(|entry| {
            let Some(run) = entry.run.upgrade() else { return false };
            let is_used = run.last_asked(entry.form).is_some_and(|asked| asked + UNUSED_MINUTES > minute);
            if !is_used {
                run.give_back(entry.form);
            }
            is_used
        });
        true
    }

    fn queue_up(&self, run: &Arc<Run>, form: Form) {
        let minute = self.minute();
        let mut queue = self.queue();
        queue.entries.push_back(Entry { run: Arc::downgrade(run), form, minute });
        if queue.entries.len() >= queue.prune_at {
            queue.entries.retain(|entry| entry.run.strong_count() > 0);
            queue.prune_at = 2 * queue.entries.len() + 1024;
        }
        // Everything has one chance to go last; then it goes, used or not.
        let mut chances = queue.entries.len();
        while self.bytes() > MAX_ENCODED_BYTES
            && let Some(mut entry) = queue.entries.pop_front()
        {
            let Some(run) = entry.run.upgrade() else { continue };
            match run.last_asked(entry.form) {
                Some(asked) if asked > entry.minute && chances > 0 => {
                    chances -= 1;
                    entry.minute = asked;
                    queue.entries.push_back(entry);
                }
                _ => run.give_back(entry.form),
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The runs of one resource.
#[derive(Debug)]
pub(crate) struct Runs {
    by_start: BTreeMap<Box<[u8]>, Arc<Run>>,
    /// The state that they show.
    pub seen: Seen,
    /// The minute of the last list, if there was one lately.
    asked: Option<u64>,
    encodings: Arc<Encodings>,
}

impl Runs {
    pub fn new(seen: Seen, encodings: Arc<Encodings>) -> Self {
        Self { by_start: BTreeMap::new(), seen, asked: None, encodings }
    }

    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    pub fn clear(&mut self) {
        self.by_start.clear();
    }

    /// Notes a list; false if it is the first one lately.
    pub fn ask(&mut self) -> bool {
        let minute = self.encodings.minute();
        self.asked.replace(minute).is_some_and(|asked| asked + UNUSED_MINUTES > minute)
    }

    /// Gives all of them back if there was no list for long.
    pub fn sweep(&mut self) {
        let minute = self.encodings.minute();
        if self.asked.is_some_and(|asked| asked + UNUSED_MINUTES <= minute) {
            self.asked = None;
            self.clear();
        }
    }

    /// Takes away the run that has this place.
    pub fn changed(&mut self, place: &[u8]) {
        let found = self.covering(place).map(|run| run.start.clone());
        if let Some(start) = found {
            self.by_start.remove(&start);
        }
    }

    fn covering(&self, place: &[u8]) -> Option<&Arc<Run>> {
        let before = (Bound::Unbounded, Bound::Included(place));
        let (_, run) = self.by_start.range::<[u8], _>(before).next_back()?;
        (*place < *run.end).then_some(run)
    }

    /// All that have something of `stretch`, in order.
    pub fn within(&self, stretch: &Stretch) -> Vec<Arc<Run>> {
        let first = self.covering(&stretch.start);
        let behind = (Bound::Excluded(&*stretch.start), Bound::Excluded(&*stretch.end));
        let rest = (stretch.start < stretch.end).then(|| self.by_start.range::<[u8], _>(behind));
        first.into_iter().chain(rest.into_iter().flatten().map(|(_, run)| run)).cloned().collect()
    }

    /// Adds runs that show the same state, in place of those that they have the objects of.
    pub fn add(&mut self, new: Vec<Arc<Run>>) {
        for run in new {
            let stretch = Stretch { start: run.start.to_vec(), end: run.end.to_vec() };
            let known = self.within(&stretch);
            // Somebody else has made the same.
            if let [same] = &known[..]
                && (&same.start, &same.end) == (&run.start, &run.end)
            {
                continue;
            }
            for known in known {
                self.by_start.remove(&known.start);
            }
            self.by_start.insert(run.start.clone(), run);
        }
    }
}

/// From one place to before another.
#[derive(Debug)]
pub(crate) struct Stretch {
    start: Vec<u8>,
    end: Vec<u8>,
}

impl Stretch {
    pub fn of(places: &Places) -> Self {
        use std::ops::RangeBounds;
        let start = match places.start_bound() {
            Bound::Included(start) => start.to_vec(),
            // What comes right behind it.
            Bound::Excluded(start) => [start, &[0]].concat(),
            Bound::Unbounded => Vec::new(),
        };
        let end = match places.end_bound() {
            Bound::Included(end) => [end, &[0]].concat(),
            Bound::Excluded(end) => end.to_vec(),
            Bound::Unbounded => BEHIND_ALL.to_vec(),
        };
        Self { start, end }
    }
}

/// Puts a list together from the runs that there are.
#[derive(Debug)]
pub(crate) struct Composer<'a> {
    snapshot: &'a Snapshot,
    /// How many objects are still wanted.
    left: usize,
    sections: Vec<Section>,
    /// Runs that were missing.
    new: Vec<Arc<Run>>,
    /// Makes those; `None` if the runs show another state, and missing ones are none.
    encodings: Option<Arc<Encodings>>,
}

impl<'a> Composer<'a> {
    /// `encodings` is `None` if the runs to compose with are of another state than `snapshot`.
    pub fn new(snapshot: &'a Snapshot, limit: usize, encodings: Option<Arc<Encodings>>) -> Self {
        Self { snapshot, left: limit, sections: Vec::new(), new: Vec::new(), encodings }
    }

    /// The first objects of the stretch, and the runs that were missing.
    pub fn compose(mut self, stretch: &Stretch, runs: &[Arc<Run>]) -> (Vec<Section>, Vec<Arc<Run>>) {
        let mut runs = runs.iter().peekable();
        let mut from = stretch.start.clone();
        while self.left > 0 && from < stretch.end {
            match runs.next_if(|run| *run.start <= *from) {
                Some(run) => {
                    self.take(run, &from, stretch);
                    from = run.end.to_vec();
                }
                None => {
                    let next = runs.peek().filter(|run| *run.start < *stretch.end);
                    let end = next.map_or(&*stretch.end, |run| &*run.start);
                    let joined = self.fill(&from, end, next.copied(), stretch);
                    from = match joined {
                        Some(run) => {
                            runs.next();
                            run.end.to_vec()
                        }
                        None => end.to_vec(),
                    };
                }
            }
        }
        (self.sections, self.new)
    }

    fn take(&mut self, run: &Arc<Run>, from: &[u8], stretch: &Stretch) {
        if self.encodings.is_none() && !self.is_as_in_snapshot(run) {
            let end = if *run.end < *stretch.end { &run.end } else { &*stretch.end };
            return self.push_objects(self.snapshot.between(from, end).take(self.left).cloned().collect());
        }
        let begins = run.objects.first().is_some_and(|first| first.place_bytes() >= from);
        let ends = *run.end <= *stretch.end
            || run.objects.last().is_some_and(|last| *last.place_bytes() < *stretch.end);
        if begins && ends && run.objects.len() <= self.left {
            self.left -= run.objects.len();
            self.sections.push(Section::Run(run.clone()));
            return;
        }
        let wanted = |object: &&Arc<Object>| {
            let place = object.place_bytes();
            place >= from && *place < *stretch.end
        };
        let some = run.objects.iter().filter(wanted).take(self.left).cloned().collect();
        self.push_objects(some);
    }

    fn is_as_in_snapshot(&self, run: &Run) -> bool {
        let mut objects = run.objects.iter();
        let mut now = self.snapshot.between(&run.start, &run.end);
        now.all(|object| objects.next().is_some_and(|known| Arc::ptr_eq(known, object)))
            && objects.next().is_none()
    }

    fn push_objects(&mut self, objects: Vec<Arc<Object>>) {
        self.left = self.left.saturating_sub(objects.len());
        match self.sections.last_mut() {
            _ if objects.is_empty() => {}
            Some(Section::Objects(before)) => before.extend(objects),
            _ => self.sections.push(Section::Objects(objects)),
        }
    }

    /// Makes runs of what is between two places, unless they would be of another state. Returns the next
    /// one if that was joined.
    fn fill<'r>(
        &mut self,
        from: &[u8],
        end: &[u8],
        next: Option<&'r Arc<Run>>,
        stretch: &Stretch,
    ) -> Option<&'r Arc<Run>> {
        let Some(encodings) = self.encodings.clone() else {
            self.push_objects(self.snapshot.between(from, end).take(self.left).cloned().collect());
            return None;
        };
        let snapshot = self.snapshot;
        let mut objects = snapshot.between(from, end);
        let mut run = NewRun { start: from.to_vec(), objects: Vec::new(), size: 0 };
        for object in objects.by_ref().take(self.left) {
            if run.size + object.size() > RUN_BYTES && !run.objects.is_empty() {
                let full = std::mem::replace(&mut run, NewRun::at(object));
                self.push_run(full, object.place_bytes(), &encodings);
            }
            run.push(object);
        }
        if run.objects.is_empty() {
            return None;
        }
        if let Some(behind) = objects.next() {
            // There are more than are wanted.
            self.push_run(run, behind.place_bytes(), &encodings);
            return None;
        }
        let joined = next.filter(|next| {
            let is_wanted = run.objects.len() + next.objects.len() <= self.left && *next.end <= *stretch.end;
            is_wanted && run.size < SMALL_RUN_BYTES && run.size + next.size <= RUN_BYTES
        });
        match joined {
            Some(next) => {
                next.objects.iter().for_each(|object| run.push(object));
                self.push_run(run, &next.end, &encodings);
            }
            None => self.push_run(run, end, &encodings),
        }
        joined
    }

    fn push_run(&mut self, run: NewRun, end: &[u8], encodings: &Arc<Encodings>) {
        let run = Arc::new(Run {
            start: run.start.into(),
            end: end.into(),
            objects: run.objects.into(),
            size: run.size,
            forms: Mutex::default(),
            encodings: encodings.clone(),
        });
        self.left = self.left.saturating_sub(run.objects.len());
        self.new.push(run.clone());
        self.sections.push(Section::Run(run));
    }
}

struct NewRun {
    start: Vec<u8>,
    objects: Vec<Arc<Object>>,
    size: usize,
}

impl NewRun {
    fn at(object: &Object) -> Self {
        Self { start: object.place_bytes().to_vec(), objects: Vec::new(), size: 0 }
    }

    fn push(&mut self, object: &Arc<Object>) {
        self.size += object.size();
        self.objects.push(object.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FORM: Form = Form { shown_as: 1, encoding: "json", coding: Coding::Identity };

    fn run(encodings: &Arc<Encodings>) -> Arc<Run> {
        Arc::new(Run {
            start: Box::default(),
            end: BEHIND_ALL.into(),
            objects: Box::default(),
            size: 0,
            forms: Mutex::default(),
            encodings: encodings.clone(),
        })
    }

    fn keep(run: &Arc<Run>, bytes: usize) {
        run.keep(FORM, Encoded { bytes: vec![0; bytes].into(), plain: Plain::default() });
    }

    fn after_minutes(encodings: &Encodings, minutes: u64) -> machine::Instant {
        machine::after(encodings.epoch, Duration::from_secs(minutes * MINUTE_SECONDS))
    }

    #[test]
    fn bytes_beyond_the_limit_take_the_place_of_those_kept_first() {
        let encodings = Arc::new(Encodings::default());
        let runs: Vec<Arc<Run>> = (0..5).map(|_| run(&encodings)).collect();
        for run in &runs[..4] {
            keep(run, MAX_ENCODED_BYTES / 4);
        }
        assert_eq!(encodings.bytes(), MAX_ENCODED_BYTES, "exactly as much as may be");
        // Used since, so that it is the second which goes.
        encodings.sweep(after_minutes(&encodings, 1));
        assert!(matches!(runs[0].ask(FORM), Asked::Kept(_)));
        keep(&runs[4], 1);
        let kept: Vec<bool> = runs.iter().map(|run| run.kept(FORM).is_some()).collect();
        assert_eq!(kept, [true, false, true, true, true]);
        assert_eq!(encodings.bytes(), MAX_ENCODED_BYTES / 4 * 3 + 1);
        drop(runs);
        assert_eq!(encodings.bytes(), 0);
        keep(&run(&encodings), MAX_ENCODED_BYTES + 1);
        assert_eq!(encodings.bytes(), 0);
    }

    #[test]
    fn what_is_not_asked_for_is_given_back() {
        let encodings = Arc::new(Encodings::default());
        let (used, unused) = (run(&encodings), run(&encodings));
        for run in [&used, &unused] {
            assert!(matches!(run.ask(FORM), Asked::First));
            assert!(matches!(run.ask(FORM), Asked::Again));
            keep(run, 10);
        }
        assert!(encodings.sweep(after_minutes(&encodings, 4)));
        assert!(!encodings.sweep(after_minutes(&encodings, 4)), "once a minute");
        assert_eq!(encodings.bytes(), 20);
        assert!(matches!(used.ask(FORM), Asked::Kept(_)));
        encodings.sweep(after_minutes(&encodings, 5));
        assert_eq!(encodings.bytes(), 10);
        assert!(matches!(used.ask(FORM), Asked::Kept(_)));
        assert!(matches!(unused.ask(FORM), Asked::First), "that was long ago");
        assert!(matches!(unused.ask(FORM), Asked::Again));
    }

    #[test]
    fn runs_know_a_few_forms() {
        let encodings = Arc::new(Encodings::default());
        let run = run(&encodings);
        keep(&run, 10);
        for shown_as in 2..=MAX_FORMS as u64 {
            run.ask(Form { shown_as, ..FORM });
        }
        assert!(run.kept(FORM).is_some());
        run.ask(Form { shown_as: 100, ..FORM });
        assert!(run.kept(FORM).is_none());
        assert_eq!(encodings.bytes(), 0);
    }
}
