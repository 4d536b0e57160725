//! From a request to its seat.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use serde_json::Value;
use sternpost_clock::machine;
use sternpost_meta::authorize::Attributes;

use crate::{
    counts::{Counted, Counts, Executing, InQueue, Reason},
    fair::{Asked, FairQueue, Full, Seat, Shape},
    schema::{Level, Schema},
    turns::Turns,
};

/// What there is to give out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests at work at once, over all levels.
    pub requests: usize,
    /// Connections that go on at once: as many as there are threads for them.
    pub turns: usize,
    /// How long a request waits for a seat.
    pub patience: Duration,
}

/// Who gets on when.
#[derive(Debug)]
pub struct Control {
    limits: Limits,
    rules: ArcSwap<Rules>,
    turns: Arc<Turns>,
}

/// What is in effect; swapped as a whole.
#[derive(Debug, Default)]
struct Rules {
    /// By precedence, then name; each with its requests, if its level is there.
    schemas: Vec<(Schema, Option<Arc<Counts>>)>,
    levels: HashMap<String, InUse>,
}

#[derive(Debug, Clone)]
struct InUse {
    level: Level,
    /// `None` if it is exempt.
    seats: Option<Arc<FairQueue>>,
}

/// A request that may be worked on, until this is dropped.
#[derive(Debug)]
pub struct Pass {
    seat: Option<Seat>,
    executing: Option<Executing>,
    pub schema_uid: Arc<str>,
    pub level_uid: Arc<str>,
}

impl Pass {
    /// Somebody else may work instead.
    pub fn give_back_seat(&mut self) {
        self.seat = None;
        self.executing = None;
    }
}

/// What a level has of seats, and one row for each of its schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelReport {
    pub name: String,
    /// Zero if it is exempt, which needs none.
    pub seats: usize,
    pub schemas: Vec<(String, Counted)>,
}

/// Too much to do; the client may try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub schema_uid: Arc<str>,
    pub level_uid: Arc<str>,
}

impl Control {
    pub fn new(limits: Limits) -> Self {
        Self { limits, rules: ArcSwap::default(), turns: Turns::new(limits.turns) }
    }

    /// Puts these schemas and levels into effect. Who has a seat or waits for one of a level
    /// that changes does so where he is.
    pub fn configure(&self, schemas: &[Value], levels: &[Value]) {
        let mut schemas: Vec<Schema> = schemas.iter().map(Schema::read).collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        let levels: Vec<Level> = levels.iter().map(Level::read).collect();
        let all: u64 = levels.iter().filter_map(|level| level.limited).map(|limited| limited.shares).sum();
        let before = self.rules.load();
        let in_use = |level: Level| {
            let seats = level.limited.map(|limited| {
                let share = (self.limits.requests as u64 * limited.shares).div_ceil(all.max(1));
                let (queues, hand_size, length) = limited
                    .queuing
                    .map_or((0, 0, 0), |queuing| (queuing.queues, queuing.hand_size, queuing.queue_length));
                let shape = Shape {
                    seats: usize::try_from(share).unwrap_or(usize::MAX),
                    queues,
                    hand_size,
                    queue_length: usize::try_from(length).unwrap_or(usize::MAX),
                };
                let same = before.levels.get(&level.name).and_then(|found| found.seats.clone());
                same.filter(|seats| seats.shape() == shape).unwrap_or_else(|| FairQueue::new(shape))
            });
            (level.name.clone(), InUse { level, seats })
        };
        let levels: HashMap<String, InUse> = levels.into_iter().map(in_use).collect();
        // There may be as many as somebody likes to make.
        let known = before.schemas.iter().filter_map(|(schema, counts)| {
            Some(((schema.name.as_str(), schema.level.as_str()), counts.as_ref()?))
        });
        let known: HashMap<(&str, &str), &Arc<Counts>> = known.collect();
        let counted = |schema: Schema| {
            let same = known.get(&(schema.name.as_str(), schema.level.as_str()));
            let counts =
                levels.contains_key(&schema.level).then(|| same.copied().cloned().unwrap_or_default());
            (schema, counts)
        };
        let schemas = schemas.into_iter().map(counted).collect();
        self.rules.store(Arc::new(Rules { schemas, levels }));
    }

    /// Waits until the request may be worked on. Where no schema or level is about it, it may.
    pub async fn enter(&self, attributes: &Attributes<'_>) -> Result<Pass, Refused> {
        let (seats, flow, mut pass, counts) = {
            let rules = self.rules.load();
            let found = rules.schemas.iter().find(|(schema, _)| schema.matches(attributes));
            let schema = found.map(|(schema, _)| schema);
            let level = schema.and_then(|schema| rules.levels.get(&schema.level));
            let uid = |uid: Option<&Arc<str>>| uid.cloned().unwrap_or_default();
            let mut hasher = DefaultHasher::new();
            schema.map(|schema| (&schema.name, schema.flow(attributes))).hash(&mut hasher);
            let pass = Pass {
                seat: None,
                executing: None,
                schema_uid: uid(schema.map(|schema| &schema.uid)),
                level_uid: uid(level.map(|level| &level.level.uid)),
            };
            let counts = found.and_then(|(_, counts)| counts.clone());
            (level.and_then(|level| level.seats.clone()), hasher.finish(), pass, counts)
        };
        let Some(counts) = counts else { return Ok(pass) };
        let Some(seats) = seats else {
            pass.executing = Some(Executing::begin(counts, Duration::ZERO));
            return Ok(pass);
        };
        let (seat, waited) = match seats.ask(flow) {
            Ok(Asked::Seat(seat)) => (Ok(seat), Duration::ZERO),
            Ok(Asked::Wait(waiting)) => {
                let _in_queue = InQueue::begin(&counts);
                let begun = machine::now();
                let seat = match machine::timeout(self.limits.patience, waiting.done()).await {
                    Ok(Ok(seat)) => Ok(seat),
                    _ => Err(Reason::TimeOut),
                };
                (seat, machine::elapsed(begun))
            }
            Err(Full) if seats.shape().queues == 0 => (Err(Reason::ConcurrencyLimit), Duration::ZERO),
            Err(Full) => (Err(Reason::QueueFull), Duration::ZERO),
        };
        match seat {
            Ok(seat) => {
                pass.seat = Some(seat);
                pass.executing = Some(Executing::begin(counts, waited));
                Ok(pass)
            }
            Err(reason) => {
                counts.refuse(reason, waited);
                Err(Refused { schema_uid: pass.schema_uid, level_uid: pass.level_uid })
            }
        }
    }

    /// What there is to tell, by the name of the level.
    pub fn report(&self) -> Vec<LevelReport> {
        let rules = self.rules.load();
        let mut by_level: HashMap<&str, Vec<(String, Counted)>> = HashMap::new();
        for (schema, counts) in &rules.schemas {
            if let Some(counts) = counts {
                let own = by_level.entry(schema.level.as_str()).or_default();
                own.push((schema.name.clone(), counts.read()));
            }
        }
        let level = |(name, level): (&String, &InUse)| LevelReport {
            name: name.clone(),
            seats: level.seats.as_ref().map_or(0, |seats| seats.shape().seats),
            schemas: by_level.remove(name.as_str()).unwrap_or_default(),
        };
        let mut report: Vec<LevelReport> = rules.levels.iter().map(level).collect();
        report.sort_by(|a, b| a.name.cmp(&b.name));
        report
    }

    /// What shares out the processor.
    pub fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// Seats taken and requests waiting, by the name of the level.
    pub fn usage(&self) -> Vec<(String, usize, usize)> {
        let rules = self.rules.load();
        let mut usage: Vec<(String, usize, usize)> = rules
            .levels
            .iter()
            .filter_map(|(name, level)| {
                let seats = level.seats.as_ref()?;
                Some((name.clone(), seats.taken(), seats.waiting()))
            })
            .collect();
        usage.sort();
        usage
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sternpost_meta::{authorize::What, user::User};

    use super::*;

    const LIMITS: Limits = Limits { requests: 10, turns: 1, patience: Duration::from_secs(15) };

    fn schema(name: &str, precedence: i64, user: &str, level: &str) -> Value {
        json!({"metadata": {"name": name, "uid": format!("schema-{name}")}, "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": user}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        }})
    }

    fn level(name: &str, shares: u64, response: &Value) -> Value {
        json!({"metadata": {"name": name, "uid": format!("level-{name}")}, "spec": {
            "type": "Limited",
            "limited": {"nominalConcurrencyShares": shares, "limitResponse": response},
        }})
    }

    fn control() -> Control {
        let control = Control::new(LIMITS);
        let queuing =
            json!({"type": "Queue", "queuing": {"queues": 4, "handSize": 1, "queueLengthLimit": 2}});
        control.configure(
            &[
                schema("all", 100, "*", "low"),
                schema("root", 1, "root", "exempt"),
                schema("b", 50, "bob", "none"),
            ],
            &[
                level("low", 20, &queuing),
                level("none", 30, &json!({"type": "Reject"})),
                json!({"metadata": {"name": "exempt", "uid": "level-exempt"}, "spec": {"type": "Exempt"}}),
            ],
        );
        control
    }

    async fn enter(control: &Control, name: &str) -> Result<Pass, Refused> {
        let user = User { name: name.into(), ..User::default() };
        control.enter(&Attributes { user: &user, verb: "get", what: What::Path("/") }).await
    }

    #[tokio::test]
    async fn the_schema_with_the_least_precedence_decides() {
        let control = control();
        for (user, schema, level) in [("ana", "all", "low"), ("root", "root", "exempt"), ("bob", "b", "none")]
        {
            let pass = enter(&control, user).await.unwrap();
            assert_eq!(*pass.schema_uid, format!("schema-{schema}"));
            assert_eq!(*pass.level_uid, format!("level-{level}"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn seats_are_shared_out_and_those_who_wait_too_long_are_refused() {
        let control = control();
        // 10 requests, 20 of 50 shares.
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(enter(&control, "ana").await.unwrap());
        }
        assert_eq!(control.usage(), [("low".to_owned(), 4, 0), ("none".to_owned(), 0, 0)]);
        let begun = tokio::time::Instant::now();
        let refused = enter(&control, "ana").await.unwrap_err();
        assert_eq!(refused, Refused { schema_uid: "schema-all".into(), level_uid: "level-low".into() });
        assert_eq!(begun.elapsed(), LIMITS.patience);
        // Told of the schema, at its level.
        let report = control.report();
        let names: Vec<_> = report.iter().map(|level| (level.name.as_str(), level.seats)).collect();
        assert_eq!(names, [("exempt", 0), ("low", 4), ("none", 6)]);
        let (schema, counted) = &report[1].schemas[0];
        assert_eq!((schema.as_str(), counted.executing, counted.waiting), ("all", 4, 0));
        assert_eq!((counted.waited.count(), counted.waited_in_vain.count()), (4, 1));
        assert!(counted.refused.contains(&(Reason::TimeOut, 1)), "{counted:?}");
        assert_eq!(control.usage()[0], ("low".to_owned(), 4, 0));
        // What is exempt has no limit, and other levels have their own.
        for _ in 0..100 {
            held.push(enter(&control, "root").await.unwrap());
        }
        assert!(enter(&control, "bob").await.is_ok());
        held.truncate(3);
        assert!(enter(&control, "ana").await.is_ok());
        let executing = |level: usize| control.report()[level].schemas[0].1.executing;
        assert_eq!([executing(0), executing(1), executing(2)], [0, 3, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_and_those_for_whom_there_is_no_room_are_told_of() {
        let control = Arc::new(control());
        let mut held = Vec::new();
        for _ in 0..6 {
            held.push(enter(&control, "bob").await.unwrap());
        }
        enter(&control, "bob").await.unwrap_err();
        let counted = |level: usize| control.report()[level].schemas[0].1.clone();
        assert!(counted(2).refused.contains(&(Reason::ConcurrencyLimit, 1)));
        for _ in 0..4 {
            held.push(enter(&control, "ana").await.unwrap());
        }
        let entering = |_| {
            let control = control.clone();
            tokio::spawn(async move { enter(&control, "ana").await.is_ok() })
        };
        let waiting: Vec<_> = (0..2).map(entering).collect();
        while counted(1).waiting < 2 {
            tokio::task::yield_now().await;
        }
        // The one queue that it may choose is full.
        enter(&control, "ana").await.unwrap_err();
        assert!(counted(1).refused.contains(&(Reason::QueueFull, 1)));
        held.clear();
        for waiting in waiting {
            assert!(waiting.await.unwrap());
        }
        assert_eq!((counted(1).executing, counted(1).waiting, counted(1).waited.count()), (0, 0, 6));
    }

    #[tokio::test]
    async fn a_level_that_did_not_change_keeps_its_seats() {
        let control = control();
        let _held = enter(&control, "bob").await.unwrap();
        let queuing =
            json!({"type": "Queue", "queuing": {"queues": 4, "handSize": 1, "queueLengthLimit": 9}});
        let levels = [level("low", 20, &queuing), level("none", 30, &json!({"type": "Reject"}))];
        control.configure(&[schema("b", 50, "bob", "none")], &levels);
        assert_eq!(control.usage(), [("low".to_owned(), 0, 0), ("none".to_owned(), 1, 0)]);
        let (schema, counted) = &control.report()[1].schemas[0];
        assert_eq!((schema.as_str(), counted.executing, counted.waited.count()), ("b", 1, 1));
        // Nothing is about others now.
        assert_eq!(&*enter(&control, "ana").await.unwrap().schema_uid, "");
    }
}
