//! What users and connections may take of the server at once: memory, bodies,
//! and whether they were told of it when there is no more to take.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use sternpost_clock::machine;
use sternpost_meta::status::Status;

use crate::{
    limits::{BUDGET_LOG_INTERVAL, Limits, PIECE_BYTES},
    metrics::{BudgetLabels, Metrics},
};

/// How long whoever is over a budget is told to wait, in seconds.
const RETRY_AFTER: u16 = 1;

/// What has a bound of its own. The flags that set them are in `docs/limits.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    Connections,
    ConnectionsPerAddress,
    AuthenticationTimeout,
    IdleTimeout,
    WriteTimeout,
    MemoryPerUser,
    RequestBodies,
}

impl Budget {
    const ALL: [Self; 7] = [
        Self::Connections,
        Self::ConnectionsPerAddress,
        Self::AuthenticationTimeout,
        Self::IdleTimeout,
        Self::WriteTimeout,
        Self::MemoryPerUser,
        Self::RequestBodies,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::ConnectionsPerAddress => "connections_per_address",
            Self::AuthenticationTimeout => "authentication_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::WriteTimeout => "write_timeout",
            Self::MemoryPerUser => "memory_per_user",
            Self::RequestBodies => "request_bodies",
        }
    }

    fn flag(self) -> &'static str {
        match self {
            Self::Connections => "--max-connections",
            Self::ConnectionsPerAddress => "--max-connections-per-address",
            Self::AuthenticationTimeout => "--authentication-timeout",
            Self::IdleTimeout => "--idle-timeout",
            Self::WriteTimeout => "--write-timeout",
            Self::MemoryPerUser => "--max-memory-per-user",
            Self::RequestBodies => "--max-request-body-bytes",
        }
    }

    /// What somebody is told who is over it.
    pub fn status(self) -> Status {
        let what = match self {
            Self::RequestBodies => "too many request bodies are in flight",
            _ => "your requests in flight take all the memory that a user may have",
        };
        Status::too_many_requests(format!("{what}, please try again later ({})", self.flag()), RETRY_AFTER)
    }
}

#[derive(Debug)]
pub struct Budgets {
    pub limits: Limits,
    /// What times are measured from.
    epoch: machine::Instant,
    accounts: Mutex<Accounts>,
    /// Bytes of request bodies that were read and are still needed.
    bodies: AtomicUsize,
    exceeded: prometheus_client::metrics::family::Family<
        BudgetLabels,
        prometheus_client::metrics::counter::Counter,
    >,
    told: [LastLogged; Budget::ALL.len()],
}

#[derive(Debug, Default)]
struct Accounts {
    by_user: HashMap<String, Weak<Account>>,
    /// With so many, those that nobody uses are removed.
    prune_at: usize,
}

/// When a budget was last told of in the log, in milliseconds since the epoch plus one, and how
/// often it was exceeded since.
#[derive(Debug, Default)]
struct LastLogged {
    at: AtomicU64,
    since: AtomicU64,
}

impl Budgets {
    pub fn new(limits: Limits, metrics: &Metrics) -> Self {
        Self {
            limits,
            epoch: machine::now(),
            accounts: Mutex::default(),
            bodies: AtomicUsize::new(0),
            exceeded: metrics.budgets_exceeded(),
            told: Default::default(),
        }
    }

    /// Milliseconds since these budgets were made.
    pub fn now(&self) -> u64 {
        u64::try_from(machine::elapsed(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that a budget was exceeded: in the metrics each time, in the log once in a while.
    pub fn exceeded(&self, budget: Budget, whom: &dyn fmt::Display) {
        self.exceeded.get_or_create(&BudgetLabels { budget: budget.name() }).inc();
        let Some(told) = self.told.get(budget as usize) else { return };
        let (now, interval) = (self.now() + 1, BUDGET_LOG_INTERVAL.as_millis());
        let times = told.since.fetch_add(1, Ordering::Relaxed) + 1;
        let last = told.at.load(Ordering::Relaxed);
        let is_due = last == 0 || u128::from(now.saturating_sub(last)) >= interval;
        if is_due && told.at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            told.since.store(0, Ordering::Relaxed);
            tracing::warn!(budget = budget.name(), flag = budget.flag(), times, last = %whom, "a budget is exceeded");
        }
    }

    /// Begins a request of a user, unless there is no memory for it.
    pub fn begin(&self, user: &str) -> Result<Charge, Budget> {
        let mut charge = Charge { account: self.account(user), bytes: 0 };
        match charge.grow(PIECE_BYTES) {
            true => Ok(charge),
            false => {
                self.exceeded(Budget::MemoryPerUser, &user);
                Err(Budget::MemoryPerUser)
            }
        }
    }

    fn account(&self, user: &str) -> Arc<Account> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.by_user.get(user).and_then(Weak::upgrade) {
            return account;
        }
        if accounts.by_user.len() >= accounts.prune_at {
            accounts.by_user.retain(|_, account| account.strong_count() > 0);
            accounts.prune_at = 2 * accounts.by_user.len() + 1024;
        }
        let account = Arc::new(Account {
            limit: self.limits.memory_per_user,
            used: AtomicUsize::new(0),
            bodies: AtomicUsize::new(0),
        });
        accounts.by_user.insert(user.to_owned(), Arc::downgrade(&account));
        account
    }
}

/// Memory of one user.
#[derive(Debug)]
struct Account {
    limit: usize,
    used: AtomicUsize,
    /// Of that, bodies of requests.
    bodies: AtomicUsize,
}

/// Memory that is accounted to a user until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Charge {
    /// More for the same; false if there is no more.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let is_taken = take(&self.account.used, bytes, self.account.limit);
        if is_taken {
            self.bytes += bytes;
        }
        is_taken
    }

    /// More for the same, for what is there already and has to go out.
    pub fn overdraw(&mut self, bytes: usize) {
        self.account.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// So much of the same user's, if there is so much.
    pub fn beside(&self, bytes: usize) -> Option<Self> {
        let mut charge = Self { account: self.account.clone(), bytes: 0 };
        charge.grow(bytes).then_some(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Takes `bytes` if the sum stays within `limit`.
fn take(used: &AtomicUsize, bytes: usize, limit: usize) -> bool {
    let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
}

/// A request body, while it is read and needed.
#[derive(Debug)]
pub struct BodyInFlight<'a> {
    budgets: &'a Budgets,
    account: Arc<Account>,
    bytes: usize,
}

impl<'a> BodyInFlight<'a> {
    pub fn new(budgets: &'a Budgets, charge: &Charge) -> Self {
        Self { budgets, account: charge.account.clone(), bytes: 0 }
    }

    /// So much more of it was read.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Budget> {
        let (all, of_user) = (&self.budgets.bodies, &self.account.bodies);
        let limit = self.budgets.limits.request_bodies;
        // One user leaves room for others.
        if !take(of_user, bytes, limit / BODIES_SHARE) {
            return Err(Budget::RequestBodies);
        }
        if !take(all, bytes, limit) {
            of_user.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Budget::RequestBodies);
        }
        if !take(&self.account.used, bytes, self.account.limit) {
            of_user.fetch_sub(bytes, Ordering::Relaxed);
            all.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Budget::MemoryPerUser);
        }
        self.bytes += bytes;
        Ok(())
    }
}

/// The bodies of one user may take this part of what all may take.
const BODIES_SHARE: usize = 4;

impl Drop for BodyInFlight<'_> {
    fn drop(&mut self) {
        for used in [&self.budgets.bodies, &self.account.bodies, &self.account.used] {
            used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(limits: Limits) -> Budgets {
        let metrics = Metrics::new(prometheus_client::registry::Registry::default(), std::time::UNIX_EPOCH);
        Budgets::new(limits, &metrics)
    }

    #[tokio::test]
    async fn a_user_has_as_much_memory_as_the_limit_says() {
        let limits = Limits { memory_per_user: 3 * PIECE_BYTES + 10, ..Limits::default() };
        let budgets = budgets(limits);
        let mut held: Vec<Charge> = (0..3).map(|_| budgets.begin("ana").unwrap()).collect();
        assert!(held[0].grow(10), "exactly what is left");
        assert!(!held[0].grow(1), "one more");
        assert_eq!(budgets.begin("ana").unwrap_err(), Budget::MemoryPerUser);
        assert!(budgets.begin("bob").is_ok(), "another user");
        assert!(held[0].beside(1).is_none());
        held.pop();
        assert!(budgets.begin("ana").is_ok());
        held[0].overdraw(10 * PIECE_BYTES);
        assert!(budgets.begin("ana").is_err());
        drop(held);
        assert!(budgets.begin("ana").is_ok());
        let count = |name| budgets.exceeded.get_or_create(&BudgetLabels { budget: name }).get();
        assert_eq!((count("memory_per_user"), count("connections")), (2, 0));
    }

    #[tokio::test]
    async fn bodies_are_bounded_for_one_user_and_for_all() {
        let budgets = budgets(Limits { request_bodies: 400, ..Limits::default() });
        let users: Vec<Charge> =
            ["a", "b", "c", "d", "e"].iter().map(|user| budgets.begin(user).unwrap()).collect();
        let mut bodies: Vec<BodyInFlight<'_>> =
            users.iter().map(|charge| BodyInFlight::new(&budgets, charge)).collect();
        for body in &mut bodies[..4] {
            assert_eq!(body.grow(60), Ok(()));
            assert_eq!(body.grow(40), Ok(()), "exactly a quarter");
            assert_eq!(body.grow(1), Err(Budget::RequestBodies), "one more");
        }
        assert_eq!(bodies[4].grow(1), Err(Budget::RequestBodies), "all of them is exactly what all may take");
        bodies.remove(0);
        assert_eq!(bodies[3].grow(100), Ok(()));
        drop(bodies);
        assert_eq!(budgets.bodies.load(Ordering::Relaxed), 0);
        let left: usize = users.iter().map(|charge| charge.account.used.load(Ordering::Relaxed)).sum();
        assert_eq!(left, 5 * PIECE_BYTES);
    }

    #[tokio::test]
    async fn accounts_that_nobody_uses_are_not_kept() {
        let budgets = budgets(Limits::default());
        for number in 0..10_000 {
            budgets.begin(&number.to_string()).unwrap();
        }
        assert!(budgets.accounts.lock().unwrap().by_user.len() <= 1025);
    }

    #[tokio::test]
    async fn by_default_a_user_can_have_ten_thousand_watches() {
        let budgets = budgets(Limits::default());
        let watches: Vec<Charge> = (0..16_384).map(|_| budgets.begin("ana").unwrap()).collect();
        assert!(watches.len() > 10_000 && budgets.begin("ana").is_err());
    }
}
