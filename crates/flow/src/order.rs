//! An order that is fair among flows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What something is taken to cost until it is known, in nanoseconds.
const ESTIMATE: u64 = 100_000;

/// Things to do, each of some flow.
///
/// Each flow has used so much. The one that used the least is next; one that had nothing to do
/// starts from where the others are, so that nobody saves up.
#[derive(Debug)]
pub(crate) struct Order<T> {
    flows: BTreeMap<u64, Flow<T>>,
    /// Flows with something that waits, by what they have used.
    waiting: BTreeSet<(u64, u64)>,
    /// Flows with nothing to do that have used more than others, by what they have used.
    ahead: BTreeSet<(u64, u64)>,
    /// What the flow that went last had used when it did.
    now: u64,
}

#[derive(Debug)]
struct Flow<T> {
    used: u64,
    begun: usize,
    waiting: VecDeque<T>,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { flows: BTreeMap::new(), waiting: BTreeSet::new(), ahead: BTreeSet::new(), now: 0 }
    }
}

impl<T> Order<T> {
    /// Puts something behind what its flow waits for already.
    pub fn push(&mut self, number: u64, thing: T) {
        let flow = known(&mut self.flows, &mut self.ahead, self.now, number);
        flow.waiting.push_back(thing);
        if flow.waiting.len() == 1 {
            flow.used = flow.used.max(self.now);
            self.waiting.insert((flow.used, number));
        }
    }

    /// Something of a flow is begun that does not wait.
    pub fn begin(&mut self, number: u64) {
        let flow = known(&mut self.flows, &mut self.ahead, self.now, number);
        let before = flow.used;
        flow.used = before.max(self.now) + ESTIMATE;
        flow.begun += 1;
        // Whoever is alone uses up nobody's time.
        if self.waiting.is_empty() {
            self.now = self.now.max(before);
        }
        if self.waiting.remove(&(before, number)) {
            self.waiting.insert((flow.used, number));
        }
    }

    /// Begins what is next, and says of which flow it is.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let (used, number) = self.waiting.pop_first()?;
        self.now = self.now.max(used);
        while self.ahead.first().is_some_and(|(used, _)| *used <= self.now) {
            let behind = self.ahead.pop_first();
            behind.and_then(|(_, number)| self.flows.remove(&number));
        }
        let flow = self.flows.get_mut(&number)?;
        let next = flow.waiting.pop_front()?;
        flow.used += ESTIMATE;
        flow.begun += 1;
        if !flow.waiting.is_empty() {
            self.waiting.insert((flow.used, number));
        }
        Some((number, next))
    }

    /// What was begun of a flow has ended, after so many nanoseconds.
    pub fn end(&mut self, number: u64, took: u64) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        let before = flow.used;
        flow.used = before.saturating_sub(ESTIMATE).saturating_add(took);
        flow.begun = flow.begun.saturating_sub(1);
        if self.waiting.remove(&(before, number)) {
            self.waiting.insert((flow.used, number));
        } else if flow.begun == 0 {
            if flow.used > self.now {
                self.ahead.insert((flow.used, number));
            } else {
                self.flows.remove(&number);
            }
        }
        // With nobody waiting it does not matter who used how much.
        if self.waiting.is_empty() {
            for (_, number) in std::mem::take(&mut self.ahead) {
                self.flows.remove(&number);
            }
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.flows.values().map(|flow| flow.waiting.len()).sum()
    }
}

fn known<'a, T>(
    flows: &'a mut BTreeMap<u64, Flow<T>>,
    ahead: &mut BTreeSet<(u64, u64)>,
    now: u64,
    number: u64,
) -> &'a mut Flow<T> {
    let flow = flows.entry(number).or_insert_with(|| Flow { used: now, begun: 0, waiting: VecDeque::new() });
    ahead.remove(&(flow.used, number));
    flow
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_flow_with_much_to_do_waits_for_itself() {
        let mut order = Order::default();
        (0..100).for_each(|_| order.push(1, ()));
        let first = order.pop().unwrap();
        order.end(first.0, ESTIMATE);
        order.push(2, ());
        order.push(3, ());
        let mut next: Vec<u64> = (0..2).map(|_| order.pop().unwrap().0).collect();
        next.sort_unstable();
        assert_eq!(next, [2, 3]);
    }

    #[test]
    fn flows_get_the_same_time_not_the_same_number() {
        let mut order = Order::default();
        let mut times = [0u64; 2];
        for flow in 0..2 {
            (0..1000).for_each(|_| order.push(flow, ()));
        }
        for _ in 0..500 {
            let (flow, ()) = order.pop().unwrap();
            let took = if flow == 0 { 10 * ESTIMATE } else { ESTIMATE };
            times[flow as usize] += took;
            order.end(flow, took);
        }
        assert!(times[0].abs_diff(times[1]) <= 10 * ESTIMATE, "{times:?}");
    }

    #[test]
    fn nobody_saves_up() {
        let mut order = Order::default();
        (0..100).for_each(|_| order.push(1, ()));
        for _ in 0..50 {
            let (flow, ()) = order.pop().unwrap();
            order.end(flow, ESTIMATE);
        }
        (0..100).for_each(|_| order.push(2, ()));
        let next: Vec<u64> = (0..10)
            .map(|_| {
                let (flow, ()) = order.pop().unwrap();
                order.end(flow, ESTIMATE);
                flow
            })
            .collect();
        assert_eq!(next.iter().filter(|flow| **flow == 1).count(), 5, "{next:?}");
    }

    #[test]
    fn what_was_used_while_nobody_waited_does_not_count() {
        let mut order = Order::default();
        order.begin(1);
        for _ in 0..1000 {
            order.begin(1);
            order.end(1, 2 * ESTIMATE);
        }
        for _ in 0..10 {
            order.push(1, ());
            order.push(2, ());
        }
        let next: Vec<u64> = (0..10).map(|_| order.pop().unwrap().0).collect();
        assert!(next.contains(&1), "{next:?}");
    }

    #[test]
    fn whoever_comes_back_at_once_has_used_what_he_has_used() {
        let mut order = Order::default();
        order.push(1, ());
        order.push(2, ());
        order.push(2, ());
        assert_eq!(order.pop().unwrap().0, 1);
        order.end(1, 100 * ESTIMATE);
        order.push(1, ());
        assert_eq!([order.pop().unwrap().0, order.pop().unwrap().0, order.pop().unwrap().0], [2, 2, 1]);
    }

    proptest! {
        /// Everything that is put in comes out, once and in the order of its flow, and nothing is
        /// kept of flows with nothing to do.
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((0u64..5, 0u64..4, 0u64..1_000_000), 0..200)) {
            let mut order = Order::default();
            let (mut put, mut got) = (Vec::new(), Vec::new());
            let mut begun = Vec::new();
            for (at, (flow, what, took)) in steps.into_iter().enumerate() {
                match what {
                    0 | 1 => {
                        order.push(flow, at);
                        put.push((flow, at));
                    }
                    2 => if let Some(next) = order.pop() {
                        got.push(next);
                        begun.push(next.0);
                    },
                    _ => if let Some(flow) = begun.pop() {
                        order.end(flow, took);
                    },
                }
                prop_assert_eq!(order.waiting(), put.len() - got.len());
            }
            while let Some(next) = order.pop() {
                got.push(next);
                begun.push(next.0);
            }
            begun.into_iter().for_each(|flow| order.end(flow, 1));
            got.sort_by_key(|(flow, _)| *flow);
            put.sort_by_key(|(flow, _)| *flow);
            prop_assert_eq!(got, put);
            prop_assert!(order.flows.is_empty() && order.ahead.is_empty());
        }
    }
}
