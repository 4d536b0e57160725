//! Reads and writes on a store that others write to as well: what the cache shows may be older than what
//! another server has answered.
//!
//! A read that has to be the latest waits first until the cache has caught up ([`Verbs::catching_up`]). A write
//! begins with the object that the cache has, for the store compares its revision anyway; what is answered
//! without that comparison is checked against the store first (`Verbs::attempting`, `Verbs::is_still`). On a
//! store that has no other writers all of this is one branch.

use std::sync::Arc;

use sternpost_cache::{Behind, Line, Object, ResourceId, object_key};
use sternpost_meta::status::Status;
use sternpost_store::{BoxFuture, ReadError, Revision};

use crate::{
    failure::Failure,
    list::FUTURE_VERSION_TIMEOUT,
    unreadable::corrupt,
    update::modified,
    verbs::{CATCH_UP, Target, Verbs},
};

/// How often a write is tried again when another writer was faster.
const ATTEMPTS: usize = 100;

/// What the store has in the place of an object that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Same,
    /// The same, which would be stored otherwise now.
    Stale,
    Other,
}

impl Verbs {
    /// What a read of a resource waits for that must not be older than anything that any server has answered; `None`
    /// where the cache never is.
    pub fn catching_up<'a>(&'a self, id: &'a ResourceId) -> Option<BoxFuture<'a, Result<(), Status>>> {
        self.cache.others_write().then(|| caught_up(self.cache.line(id)))
    }

    /// The same of whoever looks at several resources: of all that there are.
    pub fn catching_up_with_all(&self) -> Option<BoxFuture<'_, Result<(), Status>>> {
        if !self.cache.others_write() {
            return None;
        }
        let lines = self.cache.lines_of(|_| true);
        Some(Box::pin(async move {
            for line in lines {
                caught_up(line).await?;
            }
            Ok(())
        }))
    }

    /// As [`Verbs::get`], of what all servers have answered so far.
    pub async fn get_latest(&self, target: Target<'_>) -> Result<Arc<Object>, Status> {
        if let Some(catching_up) = self.catching_up(&target.served.id) {
            catching_up.await?;
        }
        self.get(target)
    }

    /// Makes a write of the object that is there, which `attempt` is given as the cache has it. It says `None` when
    /// another writer was faster, and is tried again with what that one wrote.
    ///
    /// As upstream: that there is no object, and what an attempt fails with, is answered only if the object is the
    /// one that the store has. What the store itself did not acknowledge is answered as it is: the store may have
    /// another object because of that very write.
    pub(crate) async fn attempting<T, A>(
        &self,
        target: Target<'_>,
        attempt: impl Fn(Option<Arc<Object>>) -> A,
    ) -> Result<T, Failure>
    where
        A: Future<Output = Result<Option<T>, Failure>>,
    {
        let mut is_latest = !self.cache.others_write();
        for _ in 0..ATTEMPTS {
            let old = self.snapshot(target.served).get(target.namespace, target.name).cloned();
            let seen = old.as_ref().map(|old| old.revision);
            if seen.is_none() || self.store.has_unreadable() {
                self.check_readable(target)?;
            }
            if seen.is_none() && !is_latest {
                is_latest = true;
                if !self.is_still(target, None).await? {
                    continue;
                }
            }
            match attempt(old).await {
                Ok(Some(done)) => return Ok(done),
                // The cache has what was faster: whoever says `None` has waited for that.
                Ok(None) => {}
                Err(Failure::Refused(status)) if !is_latest => {
                    if self.is_still(target, seen).await? {
                        return Err(status.into());
                    }
                }
                Err(failure) => return Err(failure),
            }
            is_latest = true;
        }
        Err(modified(target).into())
    }

    /// Whether the store has the object as it was seen; `None` is that there is none. If it has another, the cache
    /// shows it by then.
    pub(crate) async fn is_still(&self, target: Target<'_>, seen: Option<Revision>) -> Result<bool, Status> {
        Ok(self.standing(target, seen).await? != Standing::Other)
    }

    /// As [`Verbs::is_still`], and whether it is worth to be written again as it is.
    pub(crate) async fn standing(
        &self,
        target: Target<'_>,
        seen: Option<Revision>,
    ) -> Result<Standing, Status> {
        if !self.cache.others_write() {
            return Ok(Standing::Same);
        }
        // Apart, so that nobody carries it about where it is not needed.
        Box::pin(self.standing_in_store(target, seen)).await
    }

    async fn standing_in_store(
        &self,
        target: Target<'_>,
        seen: Option<Revision>,
    ) -> Result<Standing, Status> {
        let key = object_key(&target.served.id, target.namespace, target.name);
        let found = self.store.get(key, None).await.map_err(|error| match error {
            ReadError::Unreadable(found) => corrupt(&found),
            error => Status::unexpected(error.to_string()),
        })?;
        if found.entry.map(|entry| entry.modified) == seen {
            return Ok(if found.stale { Standing::Stale } else { Standing::Same });
        }
        let line = self.cache.line(&target.served.id);
        if !line.reaches(found.revision, CATCH_UP).await {
            return Err(not_there_yet(line, found.revision));
        }
        Ok(Standing::Other)
    }
}

fn caught_up(line: &Line) -> BoxFuture<'_, Result<(), Status>> {
    Box::pin(async move {
        line.catches_up(FUTURE_VERSION_TIMEOUT).await.map_err(|behind| match behind {
            Behind::Slow { newest } => not_there_yet(line, newest),
            Behind::Read(error) => Status::unexpected(error.to_string()),
        })
    })
}

/// What a client is told to try again for.
pub(crate) fn not_there_yet(line: &Line, wanted: Revision) -> Status {
    Status::version_too_large(wanted.get(), line.revision().get())
}
