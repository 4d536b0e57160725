//! The processor, shared out among flows.

use std::{
    future::poll_fn,
    hash::{DefaultHasher, Hash, Hasher},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use sternpost_clock::machine;

use crate::order::Order;

/// After how many tasks a thread of the runtime should look at its connections again, for turns to be
/// fair to whoever sends something while others have much to do.
pub const EVENT_INTERVAL: u32 = 8;

/// Futures that go on in an order that is fair among the flows they belong to.
///
/// Whatever wakes one of them only puts it in line. It is polled when it is its flow's turn, so
/// that a flow with much to do costs others next to nothing before that: not even what it sent is
/// read. A turn is one poll; who waits for something else has none.
#[derive(Debug)]
pub struct Turns {
    at_once: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    order: Order<Arc<QueuePosition>>,
}

/// Whose turn it takes for a future to go on.
#[derive(Debug)]
pub struct Owner(AtomicU64);

impl Owner {
    pub fn new(owner: &impl Hash) -> Self {
        Self(AtomicU64::new(number(owner)))
    }

    /// From its next turn on.
    pub fn set(&self, owner: &impl Hash) {
        self.0.store(number(owner), Ordering::Relaxed);
    }

    pub fn is(&self, owner: &impl Hash) -> bool {
        self.0.load(Ordering::Relaxed) == number(owner)
    }
}

fn number(owner: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    owner.hash(&mut hasher);
    hasher.finish()
}

impl Turns {
    /// So many go on at once; one more than there are threads to poll them would have no effect.
    pub fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self { at_once: at_once.max(1), state: Mutex::default() })
    }

    /// Runs `future` to its end, in turns of `owner`.
    pub async fn run<F: Future>(self: &Arc<Self>, owner: Arc<Owner>, future: F) -> F::Output {
        let standing = Mutex::new(Standing { stage: Stage::Awake, task: None });
        let place = Leaving(Arc::new(QueuePosition { turns: self.clone(), owner, standing }));
        let waker = Waker::from(place.0.clone());
        let mut future = pin!(future);
        poll_fn(move |context| {
            let Some(flow) = place.0.begin(context.waker()) else { return Poll::Pending };
            let begun = machine::now();
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            place.0.end(flow, machine::elapsed(begun), polled.is_ready());
            polled
        })
        .await
    }

    /// How many go on now.
    pub fn taken(&self) -> usize {
        self.lock().taken
    }

    /// How many are in line.
    pub fn waiting(&self) -> usize {
        self.lock().order.waiting()
    }

    /// A turn for a place, at once; or the place is put in line, and told when it is its turn.
    fn ask(&self, place: &Arc<QueuePosition>) -> Option<u64> {
        let flow = place.owner.0.load(Ordering::Relaxed);
        let mut state = self.lock();
        if state.taken >= self.at_once {
            state.order.push(flow, place.clone());
            return None;
        }
        state.taken += 1;
        state.order.begin(flow);
        Some(flow)
    }

    /// A turn has ended, and the next in line has it. Who sends something meanwhile is in line as soon
    /// as the runtime looks at its connections: see [`EVENT_INTERVAL`].
    fn end(&self, flow: u64, took: Duration) {
        let mut ended = (flow, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let next = {
                let mut state = self.lock();
                state.order.end(ended.0, ended.1);
                let next = state.order.pop();
                if next.is_none() {
                    state.taken = state.taken.saturating_sub(1);
                }
                next
            };
            let Some((flow, place)) = next else { return };
            if place.go(flow) {
                return;
            }
            // Gone meanwhile: the turn is the next one's.
            ended = (flow, 0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a future stands.
#[derive(Debug)]
struct QueuePosition {
    turns: Arc<Turns>,
    owner: Arc<Owner>,
    standing: Mutex<Standing>,
}

#[derive(Debug)]
struct Standing {
    stage: Stage,
    /// Polls the future.
    task: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has something to do, and did not ask yet.
    Awake,
    /// It waits for something that will wake it.
    Asleep,
    InLine,
    /// It is its turn, as one of this flow; whoever polls it does not know yet.
    MayGo(u64),
    Going(u64),
    /// Woken while it is polled.
    GoingOn(u64),
    Gone,
}

impl QueuePosition {
    /// Begins its turn, if it is.
    fn begin(self: &Arc<Self>, task: &Waker) -> Option<u64> {
        let is_new = {
            let mut standing = self.lock();
            match &mut standing.task {
                Some(known) => known.clone_from(task),
                none => *none = Some(task.clone()),
            }
            if let Stage::MayGo(flow) = standing.stage {
                standing.stage = Stage::Going(flow);
                return Some(flow);
            }
            let is_new = standing.stage == Stage::Awake;
            if is_new {
                standing.stage = Stage::InLine;
            }
            is_new
        };
        if !is_new {
            return None;
        }
        // Nobody else moves it while it has not been put in line.
        let flow = self.turns.ask(self)?;
        self.lock().stage = Stage::Going(flow);
        Some(flow)
    }

    /// Ends its turn. Who was woken meanwhile is in line again.
    fn end(self: &Arc<Self>, flow: u64, took: Duration, is_done: bool) {
        self.turns.end(flow, took);
        let is_awake = {
            let mut standing = self.lock();
            let is_awake = !is_done && matches!(standing.stage, Stage::GoingOn(_));
            standing.stage = match is_done {
                true => Stage::Gone,
                false if is_awake => Stage::InLine,
                false => Stage::Asleep,
            };
            is_awake
        };
        if is_awake {
            self.get_in_line();
        }
    }

    /// Goes on at once, or when it is its turn.
    fn get_in_line(self: &Arc<Self>) {
        if let Some(flow) = self.turns.ask(self)
            && !self.go(flow)
        {
            self.turns.end(flow, Duration::ZERO);
        }
    }

    /// Says that it is its turn; false if nobody is there any more.
    fn go(&self, flow: u64) -> bool {
        let mut standing = self.lock();
        if standing.stage != Stage::InLine {
            return false;
        }
        standing.stage = Stage::MayGo(flow);
        let task = standing.task.clone();
        drop(standing);
        if let Some(task) = task {
            task.wake();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for QueuePosition {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let must_ask = {
            let mut standing = self.lock();
            match standing.stage {
                Stage::Asleep => {
                    standing.stage = Stage::InLine;
                    true
                }
                Stage::Going(flow) => {
                    standing.stage = Stage::GoingOn(flow);
                    false
                }
                _ => false,
            }
        };
        if must_ask {
            self.get_in_line();
        }
    }
}

/// Gives back the turn of a future that is dropped before its end.
struct Leaving(Arc<QueuePosition>);

impl Drop for Leaving {
    fn drop(&mut self) {
        let stage = {
            let mut standing = self.0.lock();
            standing.task = None;
            std::mem::replace(&mut standing.stage, Stage::Gone)
        };
        if let Stage::MayGo(flow) | Stage::Going(flow) | Stage::GoingOn(flow) = stage {
            self.0.turns.end(flow, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::atomic::{AtomicBool, AtomicUsize},
    };

    use tokio::{sync::mpsc, task::yield_now};

    use super::*;

    fn owner(name: &str) -> Arc<Owner> {
        Arc::new(Owner::new(&name))
    }

    /// The last turn is given back a moment after whoever had it has ended.
    async fn becomes_idle(turns: &Turns) {
        let is_idle = || {
            let state = turns.lock();
            state.taken == 0 && state.order.waiting() == 0
        };
        let idle = async {
            while !is_idle() {
                yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), idle).await.unwrap();
    }

    /// Holds the only turn until the returned flag is set. The thread that polls it is busy.
    fn busy(turns: &Arc<Turns>) -> Arc<AtomicBool> {
        let (turns, free) = (turns.clone(), Arc::new(AtomicBool::new(false)));
        let (until, begun) = (free.clone(), Arc::new(AtomicBool::new(false)));
        let seen = begun.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(turns.run(owner("busy"), async {
                begun.store(true, Ordering::SeqCst);
                while !until.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }));
        });
        while !seen.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        free
    }

    #[tokio::test]
    async fn whoever_comes_after_a_flood_goes_before_it() {
        let turns = Turns::new(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        let free = busy(&turns);
        let come = |name: &'static str| {
            let (turns, order) = (turns.clone(), order.clone());
            tokio::spawn(
                async move { turns.run(owner(name), async { order.lock().unwrap().push(name) }).await },
            )
        };
        let mut tasks: Vec<_> = (0..100).map(|_| come("flood")).collect();
        while turns.waiting() < 100 {
            yield_now().await;
        }
        tasks.push(come("ana"));
        tasks.push(come("bob"));
        while turns.waiting() < 102 {
            yield_now().await;
        }
        assert_eq!(order.lock().unwrap().len(), 0, "it is nobody's turn");
        free.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        let place = |name| order.iter().position(|found| *found == name).unwrap();
        assert!(place("ana") < 5 && place("bob") < 5, "{:?}", &order[..10]);
        assert_eq!(order.len(), 102, "the flood has its turn as well");
    }

    #[tokio::test]
    async fn a_new_owner_waits_in_a_line_of_his_own() {
        let turns = Turns::new(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        let (first, second) = (mpsc::channel::<()>(1), mpsc::channel::<()>(1));
        let run = |name: &'static str, owned: Arc<Owner>, mut go: mpsc::Receiver<()>| {
            let (turns, order) = (turns.clone(), order.clone());
            tokio::spawn(async move {
                let work = async {
                    go.recv().await;
                    order.lock().unwrap().push(name);
                };
                turns.run(owned, work).await;
            })
        };
        let known = owner("flood");
        let tasks = [run("flood", owner("flood"), first.1), run("ana", known.clone(), second.1)];
        yield_now().await;
        known.set(&"ana");
        assert!(known.is(&"ana") && !known.is(&"flood"));
        let free = busy(&turns);
        first.0.send(()).await.unwrap();
        while turns.waiting() < 1 {
            yield_now().await;
        }
        // The flood has used much.
        turns.lock().order.begin(number(&"flood"));
        turns.lock().order.end(number(&"flood"), u64::from(u32::MAX));
        second.0.send(()).await.unwrap();
        while turns.waiting() < 2 {
            yield_now().await;
        }
        free.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["ana", "flood"]);
    }

    #[tokio::test]
    async fn whoever_waits_for_something_else_has_no_turn() {
        let turns = Turns::new(1);
        let waits = tokio::spawn({
            let turns = turns.clone();
            async move { turns.run(owner("ana"), pending::<()>()).await }
        });
        yield_now().await;
        turns.run(owner("ana"), yield_now()).await;
        turns.run(owner("bob"), yield_now()).await;
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        becomes_idle(&turns).await;
    }

    #[tokio::test]
    async fn a_panic_ends_a_turn() {
        let turns = Turns::new(1);
        let broken = tokio::spawn({
            let turns = turns.clone();
            async move { turns.run(owner("ana"), async { panic!("a bug") }).await }
        });
        assert!(broken.await.unwrap_err().is_panic());
        assert_eq!(turns.run(owner("bob"), async { 1 }).await, 1);
        becomes_idle(&turns).await;
    }

    #[tokio::test]
    async fn turns_of_those_who_go_away_are_not_lost() {
        let turns = Turns::new(2);
        for round in 0..200 {
            let tasks: Vec<_> = (0..20)
                .map(|number| {
                    let turns = turns.clone();
                    tokio::spawn(async move {
                        turns
                            .run(Arc::new(Owner::new(&(number % 3))), async {
                                yield_now().await;
                                yield_now().await;
                            })
                            .await;
                    })
                })
                .collect();
            for (index, task) in tasks.iter().enumerate() {
                if (index + round) % 3 == 0 {
                    task.abort();
                }
                yield_now().await;
            }
            for task in tasks {
                let _ = task.await;
            }
        }
        becomes_idle(&turns).await;
    }

    /// Wakes from other threads, while polled and while not, and never more at once than may be.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn everybody_gets_on() {
        let turns = Turns::new(2);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..100)
            .map(|number| {
                let (turns, now, most) = (turns.clone(), now.clone(), most.clone());
                let (there, mut back) = mpsc::channel(1);
                tokio::spawn(async move {
                    for step in 0..100 {
                        there.send(step).await.unwrap();
                    }
                });
                tokio::spawn(async move {
                    let work = async {
                        let mut seen = 0;
                        while back.recv().await.is_some() {
                            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            seen += 1;
                            now.fetch_sub(1, Ordering::SeqCst);
                            yield_now().await;
                        }
                        seen
                    };
                    turns.run(Arc::new(Owner::new(&(number % 7))), work).await
                })
            })
            .collect();
        for task in tasks {
            let seen = tokio::time::timeout(Duration::from_secs(60), task).await;
            assert_eq!(seen.unwrap().unwrap(), 100);
        }
        assert!(most.load(Ordering::SeqCst) <= 2);
        becomes_idle(&turns).await;
    }
}
