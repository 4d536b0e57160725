//! Many clients, and a server that is killed under them again and again.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::json;
use sternpost_clock::seeded::Rng;
use sternpost_http::limits::SHUTDOWN_GRACE;
use sternpost_testkit::{
    client::{Client, Connector, Reply},
    process::Place,
    scratch::Scratch,
};

use crate::{
    check::{Counts, Ending, Ledger},
    history::{Action, COLOR, Life, NAMESPACE, Resource, TOKEN},
    load::{Known, Query, WRITERS, Watcher, Writer, list, replay, send, write},
    spawn,
};

const ROUNDS: u64 = 8;
const STOPS: u64 = 4;

/// How long the load runs before the end, at most.
const LIFE_MILLIS: u64 = 500;

/// One kill in this many comes while the server starts, within so many milliseconds.
const EARLY_ONE_IN: u64 = 10;
const EARLY_MILLIS: u64 = 80;

/// One end in this many is a stop instead of a kill.
const STOP_ONE_IN: u64 = 10;

/// One round in this many begins with an empty directory.
const FRESH_ONE_IN: u64 = 50;

/// From the start of the process to the ready line; the target is met by far on
/// a quiet machine, and a test must not fail on a busy one.
const READY_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn nothing_acknowledged_is_lost_and_nothing_else_is_made_up() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let rounds = number("STERNPOST_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("STERNPOST_CRASH_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    let root = env::var_os("STERNPOST_CRASH_DIR").map_or_else(env::temp_dir, PathBuf::from);
    let root = root.join(format!("sternpost-crash-{}", std::process::id()));
    println!("crash: {rounds} rounds, seed {seed}, in {}", root.display());

    let runtime = runtime();
    let mut rng = Rng::new(seed);
    let mut total = Total::default();
    let mut history = History::new(root.join("0"));
    for round in 0..rounds {
        let mut result = runtime.block_on(history.round(round, &mut rng, &mut total));
        let last = round + 1 == rounds || rng.one_in(FRESH_ONE_IN);
        if last && result.is_ok() {
            result = runtime.block_on(history.finish(round + 1));
        }
        if let Err(violation) = result {
            fail(&history.dir, &history.log, seed, round, &violation);
        }
        if last {
            total.close(&history);
            history = History::new(root.join((round + 1).to_string()));
        }
        if (round + 1) % 50 == 0 {
            println!("crash: after {} rounds: {total}", round + 1);
        }
    }
    println!("crash: {total}, ok");
    let _ = fs::remove_dir_all(root);
    assert!(total.counts.acknowledged > 0 || rounds == 0);
}

#[test]
fn a_stop_under_load_answers_or_refuses_every_write() {
    let scratch = Scratch::new("crash-stops");
    let mut history = History::new(scratch.0.join("data"));
    let (mut rng, mut total) = (Rng::new(1), Total::default());
    let result = runtime().block_on(async {
        for round in 0..STOPS {
            history.life(round, &mut rng, &mut total, Ending::Stopped).await?;
        }
        history.finish(STOPS).await
    });
    result.unwrap_or_else(|violation| panic!("{violation}\nthe server wrote:\n{}", history.log));
    println!("{:?}", history.ledger.counts);
    assert!(history.ledger.counts.acknowledged > 0);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn fail(dir: &Path, log: &str, seed: u64, round: u64, violation: &str) -> ! {
    panic!(
        "round {round}: {violation}\nthe server wrote:\n{log}\nthe directory is kept: {}\nagain: \
         STERNPOST_CRASH_SEED={seed} STERNPOST_CRASH_ROUNDS={} cargo test -p sternpost --test crash nothing_acknowledged",
        dir.display(),
        round + 1,
    );
}

/// For the report.
#[derive(Debug, Default)]
struct Total {
    kills: u64,
    early: u64,
    /// Kills in a life that had acknowledged writes, with another write under way.
    in_writes: u64,
    stops: u64,
    counts: Counts,
    ready: Vec<Duration>,
    stopping: Duration,
}

impl Total {
    /// Counts a directory and removes it.
    fn close(&mut self, history: &History) {
        let Counts { acknowledged, refused, lost, appeared, reads, watched, resumed } = history.ledger.counts;
        self.counts.acknowledged += acknowledged;
        self.counts.refused += refused;
        self.counts.lost += lost;
        self.counts.appeared += appeared;
        self.counts.reads += reads;
        self.counts.watched += watched;
        self.counts.resumed += resumed;
        let _ = fs::remove_dir_all(&history.dir);
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kills, early, in_writes, stops, counts, ready, stopping } = self;
        let mut sorted = ready.clone();
        sorted.sort_unstable();
        let at = |part: usize| sorted.get((sorted.len() * part / 100).min(sorted.len().saturating_sub(1)));
        write!(
            f,
            "{kills} kills ({early} of them while starting, {in_writes} after acknowledged writes with more under \
             way), {stops} stops (longest {stopping:?}), {counts:?}, \
             ready after {:?} (median), {:?} (99 %), {:?} (longest)",
            at(50).copied().unwrap_or_default(),
            at(99).copied().unwrap_or_default(),
            sorted.last().copied().unwrap_or_default(),
        )
    }
}

/// One data directory through all its lives.
struct History {
    dir: PathBuf,
    ledger: Ledger,
    known: Known,
    watchers: Vec<Watcher>,
    /// What the server of this round has written.
    log: String,
}

impl History {
    fn new(dir: PathBuf) -> Self {
        let (ledger, known) = (Ledger::default(), Known::default());
        Self { dir, ledger, known, watchers: Watcher::all(), log: String::new() }
    }

    /// One life of the server, however long.
    async fn round(&mut self, round: u64, rng: &mut Rng, total: &mut Total) -> Result<(), String> {
        if rng.one_in(EARLY_ONE_IN) {
            let mut server = spawn(&self.dir);
            tokio::time::sleep(Duration::from_millis(rng.below(EARLY_MILLIS))).await;
            let status = server.kill();
            self.log = server.log().text();
            total.kills += 1;
            total.early += 1;
            return self.killed(status);
        }
        let ending = if rng.one_in(STOP_ONE_IN) { Ending::Stopped } else { Ending::Killed };
        self.life(round, rng, total, ending).await
    }

    /// Starts the server, compares, works, and ends it.
    async fn life(
        &mut self,
        round: u64,
        rng: &mut Rng,
        total: &mut Total,
        ending: Ending,
    ) -> Result<(), String> {
        let mut server = spawn(&self.dir);
        let place = server.ready().inspect_err(|_| self.log = server.log().text())?;
        total.ready.push(place.took);
        let life = Arc::new(Life::starting_at(self.ledger.told));
        let result = self.inspect(&place, &life, round).await;
        self.log = server.log().text();
        result?;
        if place.took > READY_LIMIT {
            return Err(format!("ready only after {:?}", place.took));
        }

        let before = life.writes.lock().unwrap().len();
        let connector = Connector::new(&place);
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| Writer {
                life: life.clone(),
                connector: connector.clone(),
                known: self.known.clone(),
                rng: rng.fork(),
                id: format!("{round}-{number}"),
                number,
            })
            .map(|writer| tokio::spawn(writer.run()))
            .collect();
        let watchers = std::mem::take(&mut self.watchers).into_iter();
        let watchers: Vec<_> =
            watchers.map(|watcher| tokio::spawn(watcher.run(life.clone(), connector.clone()))).collect();

        tokio::time::sleep(Duration::from_micros(rng.below(LIFE_MILLIS * 1000))).await;
        life.end();
        let ended = server.has_ended();
        let asked = Instant::now();
        let status = match ending {
            Ending::Killed => Some(server.kill()),
            Ending::Stopped => {
                server.terminate();
                // Off this thread, on which the clients read their last answers.
                let wait = move || server.wait(SHUTDOWN_GRACE + Duration::from_secs(5));
                tokio::task::spawn_blocking(wait).await.unwrap()
            }
        };
        for writer in writers {
            writer.await.map_err(|error| error.to_string())?;
        }
        for watcher in watchers {
            self.watchers.push(watcher.await.map_err(|error| error.to_string())?);
        }
        let life = Arc::into_inner(life).unwrap();
        let in_writes = life.ended_in_writes(before);
        self.ledger.ended(life, ending)?;
        if let Some(ended) = ended {
            return Err(format!("the server had ended by itself: {ended}"));
        }
        match ending {
            Ending::Killed => {
                total.kills += 1;
                total.in_writes += u64::from(in_writes);
                self.killed(status.unwrap())
            }
            Ending::Stopped => {
                total.stops += 1;
                total.stopping = total.stopping.max(asked.elapsed());
                match status.and_then(|status| status.code()) {
                    Some(0) if asked.elapsed() <= SHUTDOWN_GRACE => Ok(()),
                    code => Err(format!("stopped after {:?} with exit code {code:?}", asked.elapsed())),
                }
            }
        }
    }

    /// Starts the server a last time and compares.
    async fn finish(&mut self, round: u64) -> Result<(), String> {
        let server = spawn(&self.dir);
        let place = server.ready().inspect_err(|_| self.log = server.log().text())?;
        let life = Arc::new(Life::starting_at(self.ledger.told));
        let result = self.inspect(&place, &life, round).await;
        self.log = server.log().text();
        result
    }

    fn killed(&self, status: ExitStatus) -> Result<(), String> {
        match (status.code(), self.log.contains("panicked")) {
            (None, false) => Ok(()),
            (code, _) => Err(format!("the server ended by itself (exit code {code:?}) or panicked")),
        }
    }

    /// Before anybody else comes: what does the restarted server say happened?
    async fn inspect(&mut self, place: &Place, life: &Arc<Life>, round: u64) -> Result<(), String> {
        let connector = Connector::new(place);
        let mut client = connector.connect().await.ok_or("the server does not accept connections")?;
        self.ensure_namespace(&mut client).await?;
        for resource in Resource::ALL {
            let marker = self.mark(&mut client, life, resource, round).await?;
            let after = match self.ledger.place(resource) {
                Some(place) => place,
                // Nothing is known yet: the marker is the first.
                None => marker - 1,
            };
            if marker <= self.ledger.told {
                return Err(format!("revision {marker} was given out before {}", self.ledger.told));
            }
            let told = replay(&connector, resource, after, marker).await?;
            self.ledger.extend(resource, told)?;
            for query in [Query::Latest, Query::Pages, Query::Exact(marker)] {
                let (revision, items) = list(&mut client, resource, query)
                    .await
                    .map_err(|reply| format!("{query:?}: {reply:?}"))?;
                if revision < marker {
                    return Err(format!("{query:?} is at {revision}, before {marker}"));
                }
                self.ledger.compare(resource, revision, None, &items)?;
            }
        }
        self.ledger.settle()?;
        self.reclaim(&mut client, life, round).await
    }

    async fn ensure_namespace(&self, client: &mut Client) -> Result<(), String> {
        let body = json!({"metadata": {"name": NAMESPACE}});
        match client.call("POST", "/api/v1/namespaces", Some(&body)).await {
            Reply::Answer(201 | 409, _) => Ok(()),
            other => Err(format!("no namespace: {other:?}")),
        }
    }

    /// One more write, so that there is an end to wait for.
    async fn mark(
        &self,
        client: &mut Client,
        life: &Arc<Life>,
        resource: Resource,
        round: u64,
    ) -> Result<u64, String> {
        const NAME: &str = "marker";
        let token = format!("{round}-{NAME}-{resource:?}");
        let there = self.ledger.now(resource).iter().any(|version| version.name == NAME);
        let mut body = json!({
            "metadata": {"name": NAME, "annotations": {TOKEN: token}, "labels": {COLOR: "none"}},
        });
        if resource == Resource::Services {
            body["spec"] = json!({"type": "ExternalName", "externalName": "marker.example"});
        }
        let (method, path, action) = match there {
            true => ("PUT", format!("{}/{NAME}", resource.path()), Action::Update { of: None }),
            false => ("POST", resource.path(), Action::Create),
        };
        let write = write(life, resource, token, NAME.to_owned(), action);
        send(life, &self.known, client, write, method, &path, &body).await;
        let writes = life.writes.lock().unwrap();
        match &writes.last().unwrap().outcome {
            crate::history::Outcome::Written(version) => Ok(version.revision),
            other => Err(format!("the marker was not written: {other:?}")),
        }
    }

    /// A port that its service has given back can be had again.
    async fn reclaim(&self, client: &mut Client, life: &Arc<Life>, round: u64) -> Result<(), String> {
        const NAME: &str = "reclaim";
        let Some(port) = self.ledger.free_port() else { return Ok(()) };
        let resource = Resource::Services;
        let there = self.ledger.now(resource).iter().any(|version| version.name == NAME);
        if !there {
            let token = format!("{round}-{NAME}");
            let body = json!({
                "metadata": {"name": NAME, "annotations": {TOKEN: token}, "labels": {COLOR: "none"}},
                "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
            });
            let create = write(life, resource, token, NAME.to_owned(), Action::Create);
            send(life, &self.known, client, create, "POST", &resource.path(), &body).await;
        }
        let token = format!("{round}-{NAME}-delete");
        let delete = write(life, resource, token, NAME.to_owned(), Action::Delete { of: None });
        let path = format!("{}/{NAME}", resource.path());
        send(life, &self.known, client, delete, "DELETE", &path, &json!({})).await;
        let violations = life.violations.lock().unwrap();
        if violations.is_empty() { Ok(()) } else { Err(violations.join("\n")) }
    }
}
