//! Seats that are given out fairly.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sternpost_clock::machine;
use tokio::sync::oneshot;

/// What a request is taken to cost until it is known, in seconds.
const ESTIMATE: f64 = 0.001;

/// So many seats, and queues of those who wait for one.
///
/// Each queue remembers how much it has used. The next free seat goes to the queue that used the
/// least; one that was empty starts from where the others are, so that nobody saves up.
#[derive(Debug)]
pub struct FairQueue {
    shape: Shape,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub seats: usize,
    /// Zero: nobody waits.
    pub queues: u64,
    /// How many queues a flow may choose from.
    pub hand_size: u64,
    /// How many may wait in one queue.
    pub queue_length: usize,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Those with somebody in them, or at work.
    queues: HashMap<u64, Queue>,
    /// What the queue that went last had used when it did.
    now: f64,
    next_id: u64,
}

#[derive(Debug, Default)]
struct Queue {
    used: f64,
    at_work: usize,
    waiting: std::collections::VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    go: oneshot::Sender<Seat>,
}

/// Leave to work. Given back when dropped.
#[derive(Debug)]
pub struct Seat {
    of: Option<Arc<FairQueue>>,
    queue: u64,
    since: machine::Instant,
}

/// What somebody who wants a seat gets.
#[derive(Debug)]
pub enum Asked<'a> {
    Seat(Seat),
    Wait(Waiting<'a>),
}

/// There is no room to wait in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl FairQueue {
    pub fn new(shape: Shape) -> Arc<Self> {
        Arc::new(Self { shape, state: Mutex::default() })
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lock().queues.values().map(|queue| queue.waiting.len()).sum()
    }

    /// How many seats are taken.
    pub fn taken(&self) -> usize {
        self.lock().taken
    }

    /// A seat if there is one, or a place in a queue, as one of `flow`.
    pub fn ask(self: &Arc<Self>, flow: u64) -> Result<Asked<'_>, Full> {
        let mut state = self.lock();
        if state.taken < self.shape.seats {
            let queue = self.shortest(&state, flow);
            return Ok(Asked::Seat(self.seat(&mut state, queue)));
        }
        if self.shape.queues == 0 {
            return Err(Full);
        }
        let number = self.shortest(&state, flow);
        let now = state.now;
        let id = state.next_id;
        state.next_id += 1;
        let queue = state.queues.entry(number).or_insert_with(|| Queue { used: now, ..Queue::default() });
        if queue.waiting.len() >= self.shape.queue_length {
            return Err(Full);
        }
        let (go, gone) = oneshot::channel();
        queue.waiting.push_back(Waiter { id, go });
        Ok(Asked::Wait(Waiting { of: self, queue: number, id, seat: Some(gone) }))
    }

    /// Waits for a seat, as one of `flow`.
    #[cfg(test)]
    async fn take(self: &Arc<Self>, flow: u64) -> Result<Seat, Full> {
        match self.ask(flow)? {
            Asked::Seat(seat) => Ok(seat),
            Asked::Wait(waiting) => waiting.done().await,
        }
    }

    /// Of the queues that a flow may choose from, the one where it gets on first.
    fn shortest(&self, state: &State, flow: u64) -> u64 {
        let length =
            |number: &u64| state.queues.get(number).map_or(0, |queue| queue.waiting.len() + queue.at_work);
        hand(flow, self.shape.queues.max(1), self.shape.hand_size).into_iter().min_by_key(length).unwrap_or(0)
    }

    fn seat(self: &Arc<Self>, state: &mut State, number: u64) -> Seat {
        state.taken += 1;
        let now = state.now;
        let queue = state.queues.entry(number).or_insert_with(|| Queue { used: now, ..Queue::default() });
        queue.used = queue.used.max(now) + ESTIMATE;
        queue.at_work += 1;
        Seat { of: Some(self.clone()), queue: number, since: machine::now() }
    }

    fn give_back(self: &Arc<Self>, number: u64, took: f64) {
        let mut state = self.lock();
        state.taken = state.taken.saturating_sub(1);
        if let Some(queue) = state.queues.get_mut(&number) {
            queue.at_work = queue.at_work.saturating_sub(1);
            queue.used += took - ESTIMATE;
        }
        state.forget(number);
        while state.taken < self.shape.seats {
            let Some(next) = state.next() else { break };
            let Some(waiter) = state.queues.get_mut(&next).and_then(|queue| queue.waiting.pop_front()) else {
                break;
            };
            state.now = state.queues.get(&next).map_or(state.now, |queue| queue.used.max(state.now));
            let seat = self.seat(&mut state, next);
            if let Err(mut refused) = waiter.go.send(seat) {
                // Whoever waited is gone. The lock is held: what is given back is counted here.
                refused.of = None;
                state.taken = state.taken.saturating_sub(1);
                if let Some(queue) = state.queues.get_mut(&next) {
                    queue.at_work = queue.at_work.saturating_sub(1);
                    queue.used -= ESTIMATE;
                }
                state.forget(next);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The queue whose turn it is.
    fn next(&self) -> Option<u64> {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.waiting.is_empty());
        let first = waiting.min_by(|(a, one), (b, other)| one.used.total_cmp(&other.used).then(a.cmp(b)));
        first.map(|(number, _)| *number)
    }

    /// A queue that is empty is like any other that is.
    fn forget(&mut self, number: u64) {
        let now = self.now;
        let is_done = |queue: &Queue| queue.at_work == 0 && queue.waiting.is_empty() && queue.used <= now;
        if self.queues.get(&number).is_some_and(is_done) {
            self.queues.remove(&number);
        }
        // One that used more than its share is remembered as long as others wait.
        if self.queues.values().all(|queue| queue.waiting.is_empty()) {
            self.queues.retain(|_, queue| queue.at_work > 0);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(of) = self.of.take() {
            of.give_back(self.queue, machine::elapsed(self.since).as_secs_f64());
        }
    }
}

/// A place in a queue, given up when dropped.
#[derive(Debug)]
pub struct Waiting<'a> {
    of: &'a Arc<FairQueue>,
    queue: u64,
    id: u64,
    seat: Option<oneshot::Receiver<Seat>>,
}

impl Waiting<'_> {
    /// Waits for the seat.
    pub async fn done(mut self) -> Result<Seat, Full> {
        match &mut self.seat {
            // A queue does not lose whom it has taken.
            Some(seat) => seat.await.map_err(|_| Full),
            None => Err(Full),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.of.lock();
            if let Some(queue) = state.queues.get_mut(&self.queue) {
                queue.waiting.retain(|waiter| waiter.id != self.id);
            }
            state.forget(self.queue);
        }
        // A seat that arrived meanwhile goes back, now that nothing is locked.
        drop(self.seat.take());
    }
}

/// Different queues for a flow, dealt by its hash as upstream deals them.
fn hand(mut flow: u64, queues: u64, size: u64) -> Vec<u64> {
    let size = size.clamp(1, queues);
    let mut dealt: Vec<u64> = Vec::new();
    for round in 0..size {
        let left = queues - round;
        let mut card = flow % left;
        flow /= left;
        // The card counts those that are left in the deck.
        let mut before = dealt.clone();
        before.sort_unstable();
        for taken in before {
            if taken <= card {
                card += 1;
            }
        }
        dealt.push(card);
    }
    dealt
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use proptest::prelude::*;

    use super::*;

    fn shape(seats: usize, queues: u64, queue_length: usize) -> Shape {
        Shape { seats, queues, hand_size: 1, queue_length }
    }

    #[tokio::test]
    async fn without_queues_nobody_waits() {
        let level = FairQueue::new(shape(2, 0, 0));
        let (one, _two) = (level.take(1).await.unwrap(), level.take(2).await.unwrap());
        assert_eq!(level.take(3).await.unwrap_err(), Full);
        drop(one);
        assert!(level.take(3).await.is_ok());
    }

    #[tokio::test]
    async fn a_queue_has_an_end() {
        let level = FairQueue::new(shape(1, 2, 3));
        let _seat = level.take(0).await.unwrap();
        let wait = || {
            let level = level.clone();
            tokio::spawn(async move { level.take(0).await.map(|_| ()) })
        };
        let waiting: Vec<_> = (0..3).map(|_| wait()).collect();
        tokio::task::yield_now().await;
        assert_eq!(level.waiting(), 3);
        assert_eq!(level.take(0).await.unwrap_err(), Full, "one past the end");
        // Who gives up leaves room.
        waiting[1].abort();
        while level.waiting() > 2 {
            tokio::task::yield_now().await;
        }
        let last = wait();
        tokio::task::yield_now().await;
        assert_eq!(level.waiting(), 3);
        drop(_seat);
        last.await.unwrap().unwrap();
        assert_eq!((level.taken(), level.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn whoever_comes_after_a_flood_goes_before_it() {
        let level = FairQueue::new(shape(1, 16, 1000));
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = level.take(1).await.unwrap();
        let wait = |flow: u64| {
            let (level, order) = (level.clone(), order.clone());
            tokio::spawn(async move {
                let _seat = level.take(flow).await.unwrap();
                order.lock().unwrap().push(flow);
            })
        };
        let mut tasks: Vec<_> = (0..100).map(|_| wait(1)).collect();
        tokio::task::yield_now().await;
        tasks.extend([wait(2), wait(3), wait(2)]);
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        let places =
            |flow| order.iter().enumerate().filter(move |(_, found)| **found == flow).map(|(at, _)| at);
        assert!(places(2).chain(places(3)).all(|place| place < 8), "{:?}", &order[..12]);
        assert_eq!(order.len(), 103);
    }

    #[tokio::test]
    async fn seats_of_those_who_go_away_are_not_lost() {
        let level = FairQueue::new(shape(2, 8, 100));
        for round in 0..200 {
            let tasks: Vec<_> = (0..20)
                .map(|flow| {
                    let level = level.clone();
                    tokio::spawn(async move {
                        let _seat = level.take(flow).await;
                        tokio::task::yield_now().await;
                    })
                })
                .collect();
            for (index, task) in tasks.iter().enumerate() {
                if (index + round) % 3 == 0 {
                    task.abort();
                }
                tokio::task::yield_now().await;
            }
            for task in tasks {
                let _ = task.await;
            }
        }
        assert_eq!((level.taken(), level.waiting()), (0, 0));
        assert!(level.lock().queues.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn never_more_at_once_than_there_are_seats() {
        let level = FairQueue::new(shape(3, 8, 10_000));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..2000u64)
            .map(|flow| {
                let (level, now, most) = (level.clone(), now.clone(), most.clone());
                tokio::spawn(async move {
                    let _seat = level.take(flow % 7).await.unwrap();
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    now.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(30), task).await.unwrap().unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert_eq!((level.taken(), level.waiting()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_hand_has_different_queues(flow: u64, queues in 1u64..1000, size in 1u64..20) {
            let hand = hand(flow, queues, size);
            let different: BTreeMap<u64, ()> = hand.iter().map(|queue| (*queue, ())).collect();
            prop_assert_eq!(different.len() as u64, size.min(queues));
            prop_assert!(hand.iter().all(|queue| *queue < queues));
        }
    }
}
