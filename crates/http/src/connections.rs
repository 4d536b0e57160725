//! Who is connected, and who has to go when there are too many.
//!
//! A connection is unknown until an authenticated request has come by it.
//! Unknown ones are bounded for each address and in all, and the oldest that
//! asks for nothing goes when another one comes: so somebody who can
//! authenticate always gets in. [`Connections::sweep`] ends what took too
//! long.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sternpost_auth::{client_certificate::Presented, token::LastToken};
use sternpost_flow::Owner;
use tokio::{sync::watch, task::AbortHandle};

use crate::{
    budgets::{Budget, Budgets, Charge},
    limits::RETIREMENT_GRACE,
};

/// How many of the oldest are looked at for one that asks for nothing.
const CANDIDATES: usize = 64;

#[derive(Debug)]
pub struct Connections {
    budgets: Arc<Budgets>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many there were. Numbers grow: the lowest is the oldest.
    count: u64,
    all: BTreeMap<u64, Arc<Connection>>,
    unknown: BTreeSet<u64>,
    /// The unknown ones of an address that is counted.
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
}

/// How a connection is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Not,
    /// When what it does is done.
    Retire,
    Cut,
}

#[derive(Debug)]
pub struct Connection {
    number: u64,
    address: IpAddr,
    /// What it is counted under, if it is.
    counted: Option<IpAddr>,
    connections: Weak<Connections>,
    budgets: Arc<Budgets>,
    accepted: u64,
    is_known: AtomicBool,
    /// Requests that are not over.
    open: AtomicUsize,
    /// When there was last none, or one came.
    changed: AtomicU64,
    ending: watch::Sender<Ending>,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    count: u64,
    open: HashMap<u64, Weak<Stream>>,
}

/// A connection's place, which it leaves when this is dropped.
#[derive(Debug)]
pub struct Slot(pub Arc<Connection>);

impl Connections {
    pub fn new(budgets: Arc<Budgets>) -> Arc<Self> {
        Arc::new(Self { budgets, state: Mutex::default() })
    }

    /// A place for a new connection, if need be that of an older one. `None` if there is none.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let limits = &self.budgets.limits;
        let address = address.to_canonical();
        let is_counted =
            !address.is_loopback() && !limits.trusted_proxies.iter().any(|net| net.contains(address));
        let counted = is_counted.then(|| network(address));
        let mut exceeded = Vec::new();
        let slot = {
            let mut state = self.lock();
            let of_address = counted.and_then(|address| state.by_address.get(&address));
            if let Some(numbers) =
                of_address.filter(|numbers| numbers.len() >= limits.connections_per_address)
            {
                exceeded.push(Budget::ConnectionsPerAddress);
                let oldest = state.oldest(numbers.iter());
                state.cut(oldest);
            }
            let most_unknown = limits.connections.saturating_sub(limits.reserved_connections).max(1);
            if state.unknown.len() >= most_unknown || state.all.len() >= limits.connections {
                exceeded.push(Budget::Connections);
                let oldest = state.oldest(state.unknown.iter()).or_else(|| state.oldest_idle());
                state.cut(oldest);
            }
            (state.all.len() < limits.connections).then(|| {
                state.count += 1;
                let now = self.budgets.now();
                let connection = Arc::new(Connection {
                    number: state.count,
                    address,
                    counted,
                    connections: Arc::downgrade(self),
                    budgets: self.budgets.clone(),
                    accepted: now,
                    is_known: AtomicBool::new(false),
                    open: AtomicUsize::new(0),
                    changed: AtomicU64::new(now),
                    ending: watch::Sender::new(Ending::Not),
                    streams: Mutex::default(),
                });
                state.insert(connection.clone());
                Slot(connection)
            })
        };
        for budget in exceeded {
            self.budgets.exceeded(budget, &address);
        }
        slot
    }

    /// Ends one that asks for nothing: the system has no room for another.
    pub fn make_room(&self) {
        let mut state = self.lock();
        let oldest = state.oldest(state.unknown.iter()).or_else(|| state.oldest_idle());
        state.cut(oldest);
    }

    /// How many are known, and how many are not.
    pub fn count(&self) -> (usize, usize) {
        let state = self.lock();
        (state.all.len() - state.unknown.len(), state.unknown.len())
    }

    /// How often [`Connections::sweep`] is to be called.
    pub fn sweep_interval(&self) -> Duration {
        let limits = &self.budgets.limits;
        let shortest = limits.idle.min(limits.authentication).min(limits.write);
        (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }

    /// Ends what has taken too long.
    pub fn sweep(&self) {
        let all: Vec<Arc<Connection>> = self.lock().all.values().cloned().collect();
        let now = self.budgets.now();
        for connection in all {
            connection.sweep(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, connection: Arc<Connection>) {
        self.unknown.insert(connection.number);
        if let Some(address) = connection.counted {
            self.by_address.entry(address).or_default().insert(connection.number);
        }
        self.all.insert(connection.number, connection);
    }

    /// The oldest of these that asks for nothing, else the oldest.
    fn oldest<'a>(&self, mut numbers: impl Iterator<Item = &'a u64> + Clone) -> Option<u64> {
        let idle = |number: &&u64| self.all.get(number).is_some_and(|connection| connection.is_idle());
        numbers.clone().take(CANDIDATES).find(idle).or_else(|| numbers.next()).copied()
    }

    fn oldest_idle(&self) -> Option<u64> {
        let idle = self.all.values().take(CANDIDATES).find(|connection| connection.is_idle());
        idle.map(|connection| connection.number)
    }

    fn cut(&mut self, number: Option<u64>) {
        if let Some(connection) = number.and_then(|number| self.all.get(&number)).cloned() {
            connection.end(Ending::Cut);
            self.forget(&connection);
            self.all.remove(&connection.number);
        }
    }

    /// Not unknown any more.
    fn forget(&mut self, connection: &Connection) {
        self.unknown.remove(&connection.number);
        if let Some(address) = connection.counted
            && let Some(numbers) = self.by_address.get_mut(&address)
        {
            numbers.remove(&connection.number);
            if numbers.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }
}

/// What addresses are counted by: whoever has one of IPv6 has as many as end differently.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(connections) = self.0.connections.upgrade() {
            let mut state = connections.lock();
            state.forget(&self.0);
            state.all.remove(&self.0.number);
        }
    }
}

impl Connection {
    /// Ready when it is to end, in that way or a worse one.
    pub async fn ends(&self, ending: Ending) {
        // Fails only when the connection is gone, which is an end as well.
        let _ = self.ending.subscribe().wait_for(|now| *now >= ending).await;
    }

    /// Somebody who is known has asked by it.
    fn is_known(&self) {
        if !self.is_known.swap(true, Ordering::Relaxed)
            && let Some(connections) = self.connections.upgrade()
        {
            connections.lock().forget(self);
        }
    }

    fn is_idle(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    fn end(&self, ending: Ending) {
        self.ending.send_if_modified(|now| {
            let is_worse = ending > *now;
            if is_worse {
                *now = ending;
            }
            is_worse
        });
    }

    fn sweep(&self, now: u64) {
        let limits = &self.budgets.limits;
        let past = |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) > limit.as_millis();
        let changed = self.changed.load(Ordering::Relaxed);
        if self.is_idle() {
            let is_late =
                !self.is_known.load(Ordering::Relaxed) && past(self.accepted, limits.authentication);
            let budget = match is_late {
                true => Some(Budget::AuthenticationTimeout),
                false => past(changed, limits.idle).then_some(Budget::IdleTimeout),
            };
            let ending = *self.ending.borrow();
            match (ending, budget) {
                (Ending::Not, Some(budget)) => {
                    self.budgets.exceeded(budget, &self.address);
                    self.changed.store(now, Ordering::Relaxed);
                    self.end(Ending::Retire);
                }
                (Ending::Retire, _) if past(changed, RETIREMENT_GRACE) => self.end(Ending::Cut),
                _ => {}
            }
            return;
        }
        let streams: Vec<Arc<Stream>> = {
            let streams = self.streams();
            streams.open.values().filter_map(Weak::upgrade).collect()
        };
        for stream in
            streams.iter().filter(|stream| stream.is_waited_for() && past(stream.progress(), limits.write))
        {
            // A stream of HTTP/2 can end alone, unless all of it is in the connection's hands.
            let task = stream.task.as_ref().and_then(|task| task.get()).filter(|task| !task.is_finished());
            if !stream.is_cut.swap(true, Ordering::Relaxed) {
                self.budgets.exceeded(Budget::WriteTimeout, &self.address);
            }
            match task {
                Some(task) => task.abort(),
                None => self.end(Ending::Cut),
            }
        }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that a request of HTTP/2 runs in, known once it is spawned.
pub type Task = Arc<OnceLock<AbortHandle>>;

/// Where the requests of a connection come from.
#[derive(Debug, Default)]
pub struct Origin {
    pub peer: Option<IpAddr>,
    /// Whose turns the connection has.
    pub owner: Option<Arc<Owner>>,
    /// What the client showed when it connected.
    pub presented: Option<Presented>,
    pub last_token: LastToken,
}

/// One request and its answer, until the last byte is sent.
#[derive(Debug)]
pub struct Stream {
    connection: Option<(Arc<Connection>, u64)>,
    /// What ends it without its connection.
    task: Option<Task>,
    charge: OnceLock<Charge>,
    /// Bytes of the answer that were handed over and are not sent.
    unsent: AtomicUsize,
    /// Whether there is something of the answer that nobody has asked for.
    has_more: AtomicBool,
    /// When the client last took something.
    progress: AtomicU64,
    is_cut: AtomicBool,
}

impl Stream {
    pub fn open(connection: &Arc<Connection>, task: Option<Task>) -> Arc<Self> {
        connection.open.fetch_add(1, Ordering::Relaxed);
        let mut streams = connection.streams();
        streams.count += 1;
        let number = streams.count;
        let stream = Arc::new(Self::new(Some((connection.clone(), number)), task));
        streams.open.insert(number, Arc::downgrade(&stream));
        drop(streams);
        stream
    }

    /// Of no connection.
    pub fn apart() -> Self {
        Self::new(None, None)
    }

    fn new(connection: Option<(Arc<Connection>, u64)>, task: Option<Task>) -> Self {
        Self {
            connection,
            task,
            charge: OnceLock::new(),
            unsent: AtomicUsize::new(0),
            has_more: AtomicBool::new(false),
            progress: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
        }
    }

    /// Somebody who is known asks.
    pub fn is_known(&self) {
        if let Some((connection, _)) = &self.connection {
            connection.is_known();
        }
    }

    /// Whom it is accounted to.
    pub fn charge_to(&self, charge: Charge) {
        // It is the first: there is one request in a stream.
        let _ = self.charge.set(charge);
    }

    /// There is something to send.
    pub fn offers(&self) {
        self.moves();
        self.has_more.store(true, Ordering::Relaxed);
    }

    /// There is nothing to send now, or no more.
    pub fn offers_nothing(&self) {
        self.has_more.store(false, Ordering::Relaxed);
    }

    /// So many bytes were handed over. The memory of the user's that they take beyond what every
    /// request has; an error if there is none.
    pub fn hands_over(&self, bytes: usize, allotted: usize) -> Result<Option<Charge>, Budget> {
        let before = self.unsent.fetch_add(bytes, Ordering::Relaxed);
        self.moves();
        let beyond = (before + bytes).saturating_sub(before.max(allotted));
        let Some(charge) = self.charge.get().filter(|_| beyond > 0) else { return Ok(None) };
        let beside = charge.beside(beyond);
        if beside.is_none() {
            self.unsent.fetch_sub(bytes, Ordering::Relaxed);
            if let Some((connection, _)) = &self.connection {
                connection.budgets.exceeded(Budget::MemoryPerUser, &connection.address);
            }
            return Err(Budget::MemoryPerUser);
        }
        Ok(beside)
    }

    /// So many bytes are sent, or thrown away.
    pub fn sent(&self, bytes: usize) {
        self.unsent.fetch_sub(bytes, Ordering::Relaxed);
        self.moves();
    }

    fn moves(&self) {
        if let Some((connection, _)) = &self.connection {
            self.progress.store(connection.budgets.now(), Ordering::Relaxed);
        }
    }

    fn is_waited_for(&self) -> bool {
        self.has_more.load(Ordering::Relaxed) || self.unsent.load(Ordering::Relaxed) > 0
    }

    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some((connection, number)) = &self.connection {
            connection.streams().open.remove(number);
            connection.changed.store(connection.budgets.now(), Ordering::Relaxed);
            connection.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::{
        limits::Limits,
        metrics::{BudgetLabels, Metrics},
    };

    struct Table {
        connections: Arc<Connections>,
        metrics: Metrics,
    }

    fn table(limits: Limits) -> Table {
        let metrics = Metrics::new(prometheus_client::registry::Registry::default(), UNIX_EPOCH);
        let budgets = Arc::new(Budgets::new(limits, &metrics));
        Table { connections: Connections::new(budgets), metrics }
    }

    impl Table {
        fn admit(&self, address: &str) -> Slot {
            self.connections.admit(address.parse().unwrap()).unwrap()
        }

        fn exceeded(&self, budget: Budget) -> u64 {
            self.metrics.budgets_exceeded().get_or_create(&BudgetLabels { budget: budget.name() }).get()
        }
    }

    fn is_cut(slot: &Slot) -> bool {
        *slot.0.ending.borrow() == Ending::Cut
    }

    #[tokio::test]
    async fn the_oldest_that_asks_for_nothing_makes_room() {
        let limits = Limits { connections: 6, reserved_connections: 2, ..Limits::default() };
        let table = table(limits);
        let first: Vec<Slot> = (0..4).map(|_| table.admit("127.0.0.1")).collect();
        assert_eq!(table.exceeded(Budget::Connections), 0, "exactly as many as may be");
        // The oldest is busy, the next is known by now.
        let busy = Stream::open(&first[0].0, None);
        Stream::open(&first[1].0, None).is_known();
        let fifth = table.admit("127.0.0.1");
        assert_eq!(table.exceeded(Budget::Connections), 0, "a known one is none of the unknown");
        let sixth = table.admit("127.0.0.1");
        assert_eq!(table.exceeded(Budget::Connections), 1);
        assert_eq!(first.iter().map(is_cut).collect::<Vec<_>>(), [false, false, true, false]);
        assert!(!is_cut(&fifth) && !is_cut(&sixth));
        assert_eq!(table.connections.count(), (1, 4));
        drop((first, fifth, sixth, busy));
        assert_eq!(table.connections.count(), (0, 0));
    }

    #[tokio::test]
    async fn those_who_are_known_are_not_sent_away_for_those_who_are_not() {
        let table = table(Limits { connections: 4, reserved_connections: 2, ..Limits::default() });
        let known: Vec<Slot> = (0..4)
            .map(|_| {
                let slot = table.admit("127.0.0.1");
                Stream::open(&slot.0, None).is_known();
                slot
            })
            .collect();
        let busy: Vec<Arc<Stream>> = known.iter().map(|slot| Stream::open(&slot.0, None)).collect();
        assert!(table.connections.admit("127.0.0.1".parse().unwrap()).is_none());
        assert!(!known.iter().any(is_cut));
        // One that asks for nothing has to go: its client can come again.
        drop(busy.into_iter().nth(2));
        let _newcomer = table.admit("127.0.0.1");
        assert_eq!(known.iter().filter(|slot| is_cut(slot)).count(), 1);
    }

    #[tokio::test]
    async fn an_address_has_so_many_unless_it_is_exempt() {
        let limits = Limits {
            connections_per_address: 2,
            trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
            ..Limits::default()
        };
        let table = table(limits);
        for (address, other, is_limited) in [
            ("198.51.100.7", "198.51.100.7", true),
            ("198.51.100.8", "::ffff:198.51.100.8", true),
            ("2001:db8::1", "2001:db8::ffff", true),
            ("2001:db8:1::1", "2001:db8:1:1::1", false),
            ("198.51.100.9", "198.51.100.10", false),
            ("192.0.2.1", "192.0.2.1", false),
            ("127.0.0.1", "127.0.0.1", false),
            ("::1", "::1", false),
        ] {
            let before = table.exceeded(Budget::ConnectionsPerAddress);
            let two = [table.admit(address), table.admit(address)];
            assert_eq!(table.exceeded(Budget::ConnectionsPerAddress), before, "{address}");
            let _third = table.admit(other);
            assert_eq!(is_cut(&two[0]), is_limited, "{address}");
            assert!(!is_cut(&two[1]), "{address}");
            assert_eq!(
                table.exceeded(Budget::ConnectionsPerAddress) - before,
                u64::from(is_limited),
                "{address}"
            );
        }
        // Whoever is known is not counted.
        let known: Vec<Slot> =
            (0..20).map(|_| table.admit("198.51.100.7")).inspect(|slot| slot.0.is_known()).collect();
        assert!(!known.iter().any(is_cut));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_ends() {
        let limits = Limits {
            idle: Duration::from_secs(90),
            authentication: Duration::from_secs(30),
            ..Limits::default()
        };
        let table = table(limits);
        let [unknown, known, busy] = [(); 3].map(|()| table.admit("127.0.0.1"));
        known.0.is_known();
        let stream = Stream::open(&busy.0, None);
        let ending = |slot: &Slot| *slot.0.ending.borrow();
        let endings = || [ending(&unknown), ending(&known), ending(&busy)];
        for (seconds, expected) in [
            (30, [Ending::Not, Ending::Not, Ending::Not]),
            (31, [Ending::Retire, Ending::Not, Ending::Not]),
            (60, [Ending::Cut, Ending::Not, Ending::Not]),
            (90, [Ending::Cut, Ending::Not, Ending::Not]),
            (91, [Ending::Cut, Ending::Retire, Ending::Not]),
            (900, [Ending::Cut, Ending::Cut, Ending::Not]),
        ] {
            let now = table.connections.budgets.now();
            tokio::time::advance(Duration::from_secs(seconds) - Duration::from_millis(now)).await;
            table.connections.sweep();
            assert_eq!(endings(), expected, "after {seconds} s");
        }
        assert_eq!(table.exceeded(Budget::AuthenticationTimeout), 1);
        assert_eq!(table.exceeded(Budget::IdleTimeout), 1);
        drop(stream);
        table.connections.sweep();
        assert_eq!(ending(&busy), Ending::Retire, "it was never known");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_off() {
        let table = table(Limits { write: Duration::from_secs(60), ..Limits::default() });
        let slot = table.admit("127.0.0.1");
        slot.0.is_known();
        let wait = |seconds| async move { tokio::time::advance(Duration::from_secs(seconds)).await };
        let stream = Stream::open(&slot.0, None);
        // Nothing to send: it may wait for as long as it likes.
        wait(1000).await;
        table.connections.sweep();
        stream.offers();
        wait(60).await;
        table.connections.sweep();
        assert!(!is_cut(&slot), "exactly as long as it may take");
        // A byte every now and then is enough.
        assert!(stream.hands_over(100, 1000).unwrap().is_none());
        wait(60).await;
        stream.sent(50);
        wait(60).await;
        table.connections.sweep();
        assert!(!is_cut(&slot));
        stream.offers_nothing();
        wait(1).await;
        table.connections.sweep();
        assert!(is_cut(&slot), "the rest was handed over and not taken");
        assert_eq!(table.exceeded(Budget::WriteTimeout), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_with_a_task_ends_without_its_connection() {
        let table = table(Limits { write: Duration::from_secs(60), ..Limits::default() });
        let slot = table.admit("127.0.0.1");
        let task: Task = Arc::default();
        let running = tokio::spawn(std::future::pending::<()>());
        task.set(running.abort_handle()).unwrap();
        let stream = Stream::open(&slot.0, Some(task));
        stream.offers();
        tokio::time::advance(Duration::from_secs(61)).await;
        table.connections.sweep();
        assert!(running.await.unwrap_err().is_cancelled());
        assert!(!is_cut(&slot));
    }

    #[tokio::test]
    async fn what_is_on_its_way_is_accounted_for_to_the_byte() {
        const ALLOTTED: usize = crate::limits::PIECE_BYTES;
        let table = table(Limits { memory_per_user: ALLOTTED + 10, ..Limits::default() });
        let slot = table.admit("127.0.0.1");
        let stream = Stream::open(&slot.0, None);
        stream.charge_to(table.connections.budgets.begin("ana").unwrap());
        assert!(stream.hands_over(ALLOTTED, ALLOTTED).unwrap().is_none(), "what every request has");
        let beyond = stream.hands_over(10, ALLOTTED).unwrap();
        assert!(beyond.is_some(), "exactly what is left");
        assert!(stream.hands_over(1, ALLOTTED).is_err(), "one more");
        assert_eq!(table.exceeded(Budget::MemoryPerUser), 1);
        stream.sent(10);
        drop(beyond);
        assert!(stream.hands_over(10, ALLOTTED).is_ok());
    }
}
