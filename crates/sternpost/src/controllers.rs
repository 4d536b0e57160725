//! Flags of the controllers, and what they are given.

use std::{sync::Arc, time::Duration};

use clap::Args;
use sternpost_auth::service_account::Reference;
use sternpost_controllers::{
    Options, SecretToken,
    switches::{Switches, UnknownController},
};
use sternpost_http::Api;

use crate::{serve::STACK_BYTES, service_accounts::parse_seconds};

/// `--controllers` is kube-controller-manager's, `--event-ttl` kube-apiserver's.
#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub struct ControllerArgs {
    /// Controllers to run: `*` is all of them, `NAME` one, `-NAME` not this one, `-*` none
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "*",
        allow_hyphen_values = true, value_parser = parse_controller)]
    pub controllers: Vec<String>,

    /// How long events are kept after they were last written
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = parse_lifetime)]
    pub event_ttl: Duration,
}

/// Starts the controllers that are on; `authority` vouches for this server, in PEM.
pub fn start(
    args: &ControllerArgs,
    namespace_delay: Duration,
    api: &Arc<Api>,
    authority: String,
) -> anyhow::Result<()> {
    let accounts = api.clone();
    let sign = move |wanted: &SecretToken<'_>| {
        let account = Reference { name: wanted.account.into(), uid: wanted.account_uid.into() };
        let accounts = accounts.authenticator.service_accounts()?;
        accounts.issue_for_secret(wanted.namespace, &account, wanted.secret).ok()
    };
    let options = Options {
        switches: Switches::new(&args.controllers)?,
        namespace_delay,
        authority,
        event_lifetime: args.event_ttl,
        sign: Arc::new(sign),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let registry = api.registry.clone();
    let work = move || {
        yield_to_requests();
        runtime.block_on(async {
            sternpost_controllers::start(&registry, options);
            std::future::pending::<()>().await;
        });
    };
    // Ends with the process.
    std::thread::Builder::new().name("controllers".into()).stack_size(STACK_BYTES).spawn(work)?;
    Ok(())
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
    fn controllers_and_lifetimes_are_read_as_upstream_spells_them() {
        for (flags, expected) in [
            (&[][..], Some((vec!["*"], 3600))),
            (&["--controllers=*,-garbagecollector"], Some((vec!["*", "-garbagecollector"], 3600))),
            (&["--controllers", "-*"], Some((vec!["-*"], 3600))),
            (&["--controllers=-*", "--event-ttl=90s"], Some((vec!["-*"], 90))),
            (&["--event-ttl", "1h0m1s"], Some((vec!["*"], 3601))),
            (&["--event-ttl=0s"], None),
            (&["--event-ttl=1"], None),
            (&["--controllers=deployment"], None),
        ] {
            let read = Flags::try_parse_from(["sternpost"].iter().chain(flags)).ok();
            let read =
                read.map(|flags| (flags.controllers.controllers, flags.controllers.event_ttl.as_secs()));
            let expected = expected
                .map(|(words, seconds)| (words.into_iter().map(str::to_owned).collect::<Vec<_>>(), seconds));
            assert_eq!(read, expected, "{flags:?}");
        }
    }
}
