//! A clock that is moved by hand, for tests.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{Clock, Instant, machine};

/// Stands still until it is moved, and then wakes those who have slept for long enough. In the place of
/// randomness it counts. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock {
    state: Arc<Mutex<State>>,
    /// Since when the machine counts its time, if it does.
    pub(crate) passing: Option<machine::Instant>,
}

#[derive(Debug)]
struct State {
    /// Since 1970.
    wall: Duration,
    now: Instant,
    /// By which every look at the wall clock moves that.
    step: Duration,
    counted: u64,
    /// Who sleeps until when. The numbers tell apart those who sleep equally long.
    sleepers: BTreeMap<(Instant, u64), Waker>,
    next_sleeper: u64,
}

impl ManualClock {
    /// Shows so many seconds since 1970.
    pub fn at(seconds: u64) -> Self {
        let state = State {
            wall: Duration::from_secs(seconds),
            now: Instant(Duration::ZERO),
            step: Duration::ZERO,
            counted: 0,
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), passing: None }
    }

    /// One whose wall shows a later time whenever it is looked at.
    pub fn stepping(self, step: Duration) -> Self {
        self.lock().step = step;
        self
    }

    /// One of which only the wall is moved by hand. Time passes as it does for the machine.
    pub fn passing(mut self) -> Self {
        self.passing = Some(machine::now());
        self
    }

    /// One that counts from here in the place of randomness.
    pub fn counting_from(self, count: u64) -> Self {
        self.lock().counted = count;
        self
    }

    /// The clock that is handed to others.
    pub fn clock(&self) -> Clock {
        self.clone().into()
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut state = self.lock();
            state.wall = state.wall.saturating_add(by);
            state.now = state.now + by;
            // Those who sleep for longer stay.
            let now = state.now;
            let later = state.sleepers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut state.sleepers, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Sets the wall alone, to so many seconds since 1970: no time passes.
    pub fn set_wall(&self, seconds: u64) {
        self.lock().wall = Duration::from_secs(seconds);
    }

    /// How many hold this clock or a clone of it. A server that has ended is none of them.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.state)
    }

    /// When the first of those who sleep is to be woken.
    pub fn next_due(&self) -> Option<Instant> {
        self.lock().sleepers.first_key_value().map(|((due, _), _)| *due)
    }

    pub(crate) fn wall(&self) -> SystemTime {
        let mut state = self.lock();
        let wall = state.wall;
        state.wall = wall.saturating_add(state.step);
        UNIX_EPOCH.checked_add(wall).unwrap_or(UNIX_EPOCH)
    }

    pub(crate) fn now(&self) -> Instant {
        self.lock().now
    }

    pub(crate) fn random(&self, bytes: &mut [u8]) {
        let mut state = self.lock();
        let count = state.counted.to_be_bytes();
        state.counted = state.counted.wrapping_add(1);
        bytes.iter_mut().zip(count.iter().cycle()).for_each(|(byte, value)| *byte = *value);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who sleeps.
#[derive(Debug)]
pub struct Waiting {
    clock: ManualClock,
    due: Instant,
    /// Its number among the sleepers, if it is one.
    number: Option<u64>,
}

impl Waiting {
    pub(crate) fn new(clock: ManualClock, due: Instant) -> Self {
        Self { clock, due, number: None }
    }

    pub(crate) fn reset(&mut self, due: Instant) {
        self.leave();
        self.due = due;
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.lock();
        if state.now >= self.due {
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            state.next_sleeper += 1;
            state.next_sleeper
        });
        state.sleepers.insert((self.due, number), context.waker().clone());
        Poll::Pending
    }

    fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            self.clock.lock().sleepers.remove(&(self.due, number));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::Elapsed;

    const SECOND: Duration = Duration::from_secs(1);

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn time_passes_when_it_is_told_to() {
        let manual = ManualClock::at(100);
        let clock = manual.clock();
        let begun = clock.now();
        assert_eq!((clock.unix_seconds(), clock.elapsed(begun)), (100, Duration::ZERO));
        manual.advance(SECOND);
        assert_eq!((clock.unix_seconds(), clock.elapsed(begun)), (101, SECOND));
        manual.set_wall(7);
        assert_eq!((clock.unix_millis(), clock.elapsed(begun)), (7000, SECOND));
        let stepping = manual.stepping(SECOND).clock();
        assert_eq!([stepping.unix_seconds(), stepping.unix_seconds()], [7, 8]);
    }

    #[test]
    fn those_who_slept_for_long_enough_are_woken_and_others_are_not() {
        let manual = ManualClock::at(0);
        let clock = manual.clock();
        assert_eq!(manual.next_due(), None);
        let (mut one, mut two) = (Box::pin(clock.sleep(SECOND)), Box::pin(clock.sleep(2 * SECOND)));
        let mut never = Box::pin(clock.until(None));
        assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending() && poll(&mut never).is_pending());
        assert_eq!(manual.next_due(), Some(clock.now() + SECOND));
        manual.advance(SECOND);
        assert!(poll(&mut one).is_ready() && poll(&mut two).is_pending());
        two.as_mut().reset(clock.now() + 5 * SECOND);
        assert_eq!(manual.next_due(), None, "it is nobody's who was not asked since");
        assert!(poll(&mut two).is_pending());
        assert_eq!(manual.next_due(), Some(clock.now() + 5 * SECOND));
        drop(two);
        assert_eq!(manual.next_due(), None, "who is gone does not sleep");
        manual.advance(Duration::MAX);
        assert!(poll(&mut never).is_pending());
    }

    #[tokio::test]
    async fn a_sleeping_task_is_woken() {
        let manual = ManualClock::at(0);
        let clock = manual.clock();
        let task = tokio::spawn(async move { clock.sleep(3 * SECOND).await });
        while manual.next_due().is_none() {
            tokio::task::yield_now().await;
        }
        manual.advance(3 * SECOND);
        task.await.unwrap();
    }

    #[test]
    fn work_that_takes_too_long_is_given_up() {
        let manual = ManualClock::at(0);
        let clock = manual.clock();
        let mut work = pin!(clock.timeout_at(clock.now() + SECOND, std::future::pending::<()>()));
        assert!(poll(&mut work).is_pending());
        manual.advance(SECOND);
        assert_eq!(poll(&mut work), Poll::Ready(Err(Elapsed)));
    }

    #[tokio::test(start_paused = true)]
    async fn time_may_pass_by_itself_before_a_wall_that_is_moved_by_hand() {
        let manual = ManualClock::at(100).passing();
        let clock = manual.clock();
        let begun = clock.now();
        clock.sleep(SECOND).await;
        assert_eq!((clock.elapsed(begun), clock.unix_seconds()), (SECOND, 100));
        manual.advance(SECOND);
        assert_eq!((clock.elapsed(begun), clock.unix_seconds()), (SECOND, 101));
    }

    #[test]
    fn chance_is_counted() {
        let clock = ManualClock::at(0).counting_from(255).clock();
        let mut bytes = [0; 10];
        clock.random(&mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 255, 0, 0]);
        clock.random(&mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    }
}
