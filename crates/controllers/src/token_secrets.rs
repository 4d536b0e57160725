//! Secrets of type `kubernetes.io/service-account-token`: filled for the account that they name, and gone
//! with it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_cache::Object;
use sternpost_clock::machine;
use sternpost_meta::selector::FieldSelector;
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{DeleteOptions, Failure, Part, Selection, Target, Verbs, served::Served};

use crate::{
    follow::{Follow, News, ObjectChange},
    identity::{TOKENS, delete, writer},
};

pub const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// What could not be written is tried again after this long.
const AGAIN: Duration = Duration::from_secs(1);

/// A token without end that lives in a secret.
#[derive(Debug, Clone, Copy)]
pub struct SecretToken<'a> {
    pub namespace: &'a str,
    pub account: &'a str,
    pub account_uid: &'a str,
    pub secret: &'a str,
}

/// Makes such tokens; `None` if it cannot.
pub type Sign = dyn Fn(&SecretToken<'_>) -> Option<String> + Send + Sync;

/// Fills secrets until the process ends; `authority` is in PEM.
pub(crate) async fn run(verbs: Arc<Verbs>, authority: String, sign: Arc<Sign>) {
    let Some(secrets) = verbs.served.get("", "v1", "secrets") else { return };
    let Some(accounts) = verbs.served.get("", "v1", "serviceaccounts") else { return };
    let Ok(fields) = FieldSelector::parse(&format!("type={TYPE}")) else { return };
    let selection = Selection { fields, ..Selection::default() };
    let (_, mut followed_accounts) = Follow::start(verbs.clone(), accounts.clone()).await;
    let (all, mut followed) = Follow::start_selected(verbs.clone(), secrets.clone(), selection).await;
    let filler = Filler { verbs, secrets, accounts, authority: STANDARD.encode(authority), sign };
    let mut due: BTreeSet<String> = all.iter().map(|secret| secret.place().to_owned()).collect();
    // What is in use, by the place of the account: few enough to be kept.
    let mut known: BTreeSet<String> = due.clone();
    loop {
        let mut failed = BTreeSet::new();
        for place in std::mem::take(&mut due) {
            let (namespace, name) = place.split_once('/').unwrap_or_default();
            match filler.settle(namespace, name).await {
                Err(status) if !matches!(status.code(), 404) => {
                    if status.code() != 409 {
                        tracing::warn!(namespace, name, %status, "a secret cannot be given its token yet");
                    }
                    failed.insert(place);
                }
                _ => {}
            }
        }
        tokio::select! {
            news = followed.next() => match news {
                News::All(objects) => {
                    known = objects.iter().map(|secret| secret.place().to_owned()).collect();
                    due.clone_from(&known);
                }
                News::Changes(changes) => {
                    for change in changes {
                        match change {
                            ObjectChange::Now(secret) => {
                                known.insert(secret.place().to_owned());
                                due.insert(secret.place().to_owned());
                            }
                            ObjectChange::Gone(secret) => {
                                known.remove(secret.place());
                                filler.forget(&secret).await;
                            }
                        }
                    }
                }
            },
            news = followed_accounts.next() => due.extend(concerned(&news, &known)),
            () = machine::sleep(AGAIN), if !failed.is_empty() => {}
        }
        due.append(&mut failed);
    }
}

/// The secrets in the namespaces of accounts that changed.
fn concerned(news: &News, secrets: &BTreeSet<String>) -> Vec<String> {
    let changes = match news {
        News::All(_) => return secrets.iter().cloned().collect(),
        News::Changes(changes) => changes,
    };
    let namespaces: BTreeSet<&str> = changes
        .iter()
        .map(|seen| match seen {
            ObjectChange::Now(account) | ObjectChange::Gone(account) => account.namespace(),
        })
        .collect();
    let within =
        |place: &&String| place.split_once('/').is_some_and(|(within, _)| namespaces.contains(within));
    secrets.iter().filter(within).cloned().collect()
}

struct Filler {
    verbs: Arc<Verbs>,
    secrets: Arc<Served>,
    accounts: Arc<Served>,
    /// As it stands in a secret.
    authority: String,
    sign: Arc<Sign>,
}

impl Filler {
    async fn settle(&self, namespace: &str, name: &str) -> Result<(), Failure> {
        let target = Target { served: &self.secrets, namespace, name };
        let secret = self.verbs.get(target)?;
        let value = secret.value();
        let metadata = value.field("metadata");
        let annotations = metadata.field("annotations");
        let account = annotations.text(ACCOUNT);
        if value.text("type") != TYPE || account.is_empty() || secret.terminating {
            return Ok(());
        }
        let account_target = Target { served: &self.accounts, namespace, name: account };
        let found = match self.verbs.get(account_target) {
            // Secrets go by this: it may be another server that has made the account.
            Err(status) if status.code == 404 => self.verbs.get_latest(account_target).await,
            found => found,
        };
        if let Err(status) = &found
            && status.code != 404
        {
            return Err(status.clone().into());
        }
        let uid = found.ok().map(|account| account.value().field("metadata").text("uid").to_owned());
        let named = annotations.text(ACCOUNT_UID);
        let Some(uid) = uid.filter(|uid| named.is_empty() || named == uid) else {
            let options =
                DeleteOptions { uid: Some(metadata.text("uid").to_owned()), ..DeleteOptions::default() };
            return delete(&self.verbs, target, &options, &TOKENS).await;
        };
        let mut filled = value.clone();
        filled.object_mut("metadata").object_mut("annotations").set(ACCOUNT_UID, uid.as_str());
        let data = filled.object_mut("data");
        data.set("ca.crt", self.authority.as_str());
        if data.text("namespace").is_empty() {
            data.set("namespace", STANDARD.encode(namespace));
        }
        if data.text("token").is_empty() {
            let wanted = SecretToken { namespace, account, account_uid: &uid, secret: name };
            let Some(token) = (self.sign)(&wanted) else { return Ok(()) };
            data.set("token", STANDARD.encode(token));
        }
        if filled == value {
            return Ok(());
        }
        self.verbs.update(target, filled, Part::Main, writer(&TOKENS)).await.map(|_| ())
    }

    /// An account no longer names a secret that is gone.
    async fn forget(&self, secret: &Object) {
        let value = secret.value();
        let annotations = value.field("metadata").field("annotations");
        let (namespace, account) = (secret.namespace(), annotations.text(ACCOUNT));
        let target = Target { served: &self.accounts, namespace, name: account };
        let Ok(found) = self.verbs.get(target) else { return };
        let mut object = found.value();
        let is_it = |reference: &Value| reference.text("name") == secret.name();
        if object.field("metadata").text("uid") != annotations.text(ACCOUNT_UID)
            || !object.items("secrets").iter().any(is_it)
        {
            return;
        }
        let rest: Vec<Value> =
            object.items("secrets").iter().filter(|reference| !is_it(reference)).cloned().collect();
        object.set("secrets", rest);
        let written = self.verbs.update(target, object, Part::Main, writer(&TOKENS)).await;
        if let Err(status) = written.map(|_| ()) {
            tracing::debug!(%status, "an account still names a secret that is gone");
        }
    }
}
