//! Flags of the controllers, and what they are given.

use std::{convert::Infallible, sync::Arc, thread::JoinHandle, time::Duration};

use anyhow::Context;
use clap::Args;
use sha2::{Digest, Sha256};
use sternpost_auth::service_account::Reference;
use sternpost_clock::machine;
use sternpost_controllers::{
    Options, SecretToken, Unserved,
    leader_election::{self, Timing, TimingError},
    server_lease::{self, ServerIdentity},
    switches::{SERVER_LEASE, Switches, UnknownController},
};
use sternpost_http::Api;
use sternpost_tasks::Tasks;
use sternpost_verbs::names;
use tokio::sync::oneshot;

use crate::{cli::ServeArgs, serve::STACK_BYTES, service_accounts::parse_seconds};

/// `--controllers` is kube-controller-manager's, `--event-ttl` kube-apiserver's.
#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub struct ControllerArgs {
    /// Controllers to run: `*` is all of them, `NAME` one, `-NAME` not this one, `-*` none [default: `*`; on etcd
    /// the lease of this server alone]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_controller)]
    pub controllers: Option<Vec<String>>,

    /// How long events are kept after they were last written
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = parse_lifetime)]
    pub event_ttl: Duration,

    /// On etcd: how long after it was last heard of another server takes over the controllers
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_lifetime)]
    pub leader_elect_lease_duration: Duration,

    /// On etcd: how long a server that cannot renew its lead goes on with it
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_lifetime)]
    pub leader_elect_renew_deadline: Duration,

    /// On etcd: how often the server that runs the controllers says so
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_lifetime)]
    pub leader_elect_retry_period: Duration,
}

impl ControllerArgs {
    /// When another server takes over.
    pub fn timing(&self) -> Result<Timing, TimingError> {
        let timing = Timing {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        timing.check()
    }
}

/// What is to be ended with the server.
#[derive(Debug)]
pub struct Running {
    /// Who holds the Lease by which others know this server, if it has one.
    pub holder: Option<String>,
    /// What gives back a Lease, and says when it has.
    leases: Vec<oneshot::Sender<oneshot::Sender<()>>>,
    /// Ends the thread when it is dropped.
    stop: oneshot::Sender<Infallible>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Takes back the Leases of this server, and ends the controllers.
    pub async fn end(self) {
        for lease in self.leases {
            let (answer, ended) = oneshot::channel();
            if lease.send(answer).is_ok() {
                // Left behind it expires.
                let _ = machine::timeout(LEASE_END, ended).await;
            }
        }
        drop(self.stop);
        // One that computes for longer does not hold up the end.
        let joined =
            machine::timeout(THREAD_END, tokio::task::spawn_blocking(move || self.thread.join())).await;
        if let Ok(Ok(Err(_))) = joined {
            tracing::error!("the thread of the controllers has panicked");
        }
    }
}

/// How long the end of the server waits for that of a Lease.
const LEASE_END: Duration = Duration::from_secs(5);

/// How long it waits for that of the controllers.
const THREAD_END: Duration = Duration::from_secs(5);

/// Starts the controllers that are on; `authority` vouches for this server, in PEM. Where other servers write to the
/// same store, this one runs them when it leads.
pub fn start(
    args: &ServeArgs,
    namespace_delay: Duration,
    api: &Arc<Api>,
    authority: String,
    unserved: Option<Arc<dyn Unserved>>,
    tasks: &Tasks,
) -> anyhow::Result<Running> {
    let accounts = api.clone();
    let sign = move |wanted: &SecretToken<'_>| {
        let account = Reference { name: wanted.account.into(), uid: wanted.account_uid.into() };
        let accounts = accounts.authenticator.service_accounts()?;
        accounts.issue_for_secret(wanted.namespace, &account, wanted.secret).ok()
    };
    let options = Options {
        switches: args.switches()?,
        namespace_delay,
        unserved,
        authority,
        event_lifetime: args.controllers.event_ttl,
        sign: Arc::new(sign),
    };
    let timing = args.controllers.timing().context("the times of --leader-elect-... do not fit")?;
    let (stop, ended) = oneshot::channel::<Infallible>();
    let mut leases = Vec::new();
    let mut lease = || {
        let (end, ended) = oneshot::channel();
        leases.push(end);
        ended
    };
    let has_election = api.verbs.cache.others_write() && options.switches.has_shared();
    let election = has_election.then(|| (holder(api, &hostname()), lease()));
    let own_lease = options.switches.is_on(SERVER_LEASE).then(|| (identity(api), lease()));
    let holder = own_lease.as_ref().map(|(identity, _)| identity.holder.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (verbs, tasks) = (api.verbs.clone(), tasks.clone());
    let work = move || {
        yield_to_requests();
        runtime.block_on(async {
            if let Some((identity, stopped)) = own_lease {
                tasks.once(SERVER_LEASE.name, server_lease::run(verbs.clone(), identity, stopped));
            }
            match election {
                Some((identity, stopped)) => {
                    let led = verbs.clone();
                    let lead =
                        move |tasks: &Tasks| sternpost_controllers::start(&led, tasks, options.clone());
                    tasks.essential("leader-election", async move {
                        leader_election::run(verbs, identity, timing, lead, stopped).await;
                        // It ends when it is told to, and then with the runtime.
                        std::future::pending::<()>().await;
                    });
                }
                None => sternpost_controllers::start(&verbs, &tasks, options),
            }
            // Nothing is ever sent. With the runtime end all that run in it.
            let _ = ended.await;
        });
    };
    let thread =
        std::thread::Builder::new().name("controllers".into()).stack_size(STACK_BYTES).spawn(work)?;
    Ok(Running { holder, leases, stop, thread })
}

/// The Lease of a server that listens there, on a machine that may have others.
pub fn lease_of_port(port: u16) -> String {
    lease_name(&hostname(), Some(&port.to_string()))
}

/// Who this server is, by the name of its machine. Where there may be others on it, its port tells them apart.
fn identity(api: &Api) -> ServerIdentity {
    let (hostname, address) = (hostname(), &api.server_address);
    let port = address.rsplit(':').next().filter(|_| api.verbs.cache.others_write());
    let name = lease_name(&hostname, port);
    let holder = holder(api, &name);
    let trust = port.and_then(|_| api.authenticator.service_accounts());
    let trust = trust.and_then(|accounts| serde_json::to_string(&accounts.trust()).ok());
    ServerIdentity { name, holder, hostname, address: address.clone(), trust }
}

/// A name for this process alone.
fn holder(api: &Api, name: &str) -> String {
    let mut random = [0; 16];
    api.verbs.clock.random(&mut random);
    format!("{name}_{}", names::uuid(random))
}

fn hostname() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = "localhost".to_owned();
    name
}

/// As upstream derives it: a hash of the machine's name and the program's.
fn lease_name(hostname: &str, port: Option<&str>) -> String {
    let mut hash = Sha256::new();
    for part in [hostname, "kube-apiserver"].into_iter().chain(port) {
        hash.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        hash.update(part);
    }
    let hash = hash.finalize();
    format!("apiserver-{}", base32(hash.get(..16).unwrap_or_default()))
}

/// RFC 4648 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let digit = |index: usize| (0..5).fold(0, |digit, at| digit * 2 + usize::from(bit(index * 5 + at)));
    let digits = (bytes.len() * 8).div_ceil(5);
    (0..digits).filter_map(|index| ALPHABET.get(digit(index)).copied().map(char::from)).collect()
}

/// How much later than others the thread of the controllers gets a processor, as `nice` counts.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

/// Somebody waits for the answer to a request; nobody for a controller.
fn yield_to_requests() {
    // Where it cannot be had, controllers are like everybody else.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

fn parse_controller(word: &str) -> Result<String, UnknownController> {
    Switches::new(&[word]).map(|_| word.to_owned())
}

fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let seconds = parse_seconds(text).and_then(|seconds| u64::try_from(seconds).ok());
    let seconds = seconds.ok_or("want a duration such as 1h or 1h30m")?;
    if seconds == 0 { Err("want a second at least".into()) } else { Ok(Duration::from_secs(seconds)) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        controllers: ControllerArgs,
    }

    #[test]
    fn the_lease_is_named_as_kube_apiserver_names_it() {
        // As kube-apiserver 1.36.4 did on a machine of that name.
        assert_eq!(lease_name("vm", None), "apiserver-wlv32tlttr4jl3gtroqexyxapa");
    }

    #[test]
    fn controllers_and_lifetimes_are_read_as_upstream_spells_them() {
        for (flags, expected) in [
            (&[][..], Some((None, 3600))),
            (&["--controllers=*,-garbagecollector"], Some((Some(vec!["*", "-garbagecollector"]), 3600))),
            (&["--controllers", "-*"], Some((Some(vec!["-*"]), 3600))),
            (&["--controllers=-*", "--event-ttl=90s"], Some((Some(vec!["-*"]), 90))),
            (&["--event-ttl", "1h0m1s"], Some((None, 3601))),
            (&["--event-ttl=0s"], None),
            (&["--event-ttl=1"], None),
            (&["--controllers=deployment"], None),
        ] {
            let read = Flags::try_parse_from(["sternpost"].iter().chain(flags)).ok();
            let read =
                read.map(|flags| (flags.controllers.controllers, flags.controllers.event_ttl.as_secs()));
            let expected = expected.map(|(words, seconds)| {
                (words.map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>()), seconds)
            });
            assert_eq!(read, expected, "{flags:?}");
        }
    }
}
