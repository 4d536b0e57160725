//! Giving up long computations.
//!
//! What a request makes the server compute ends when nobody waits for it any more. Loops over what
//! a client sent call [`checkpoint`]; whoever runs them does so in [`scope`], with a [`Cancel`] that
//! somebody else sets. Elsewhere a checkpoint does nothing.
//!
//! A computation that is cancelled unwinds to its scope, so it may hold nothing that must not be
//! dropped halfway, and the functions on the way need no errors of their own for it. It is no panic:
//! no hook is called.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Says that a computation is to end. Clones say it of the same one.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a computation that was given up comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

thread_local! {
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
    /// Whether there is a current one: most often there is none, and this is all a checkpoint looks at.
    static IN_SCOPE: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`, unless and until it is cancelled.
pub fn scope<T>(cancel: &Cancel, work: impl FnOnce() -> T) -> Result<T, Cancelled> {
    let before = CURRENT.replace(Some(cancel.clone()));
    let was_in_scope = IN_SCOPE.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IN_SCOPE.set(was_in_scope);
    CURRENT.set(before);
    done.map_err(|payload: Box<dyn Any + Send>| match payload.downcast::<Cancelled>() {
        Ok(cancelled) => *cancelled,
        Err(payload) => resume_unwind(payload),
    })
}

/// Where a computation can end. Cheap enough for every turn of a loop.
#[inline]
pub fn checkpoint() {
    if IN_SCOPE.get() {
        end_if_cancelled();
    }
}

fn end_if_cancelled() {
    let is_cancelled = CURRENT.with_borrow(|current| current.as_ref().is_some_and(Cancel::is_cancelled));
    if is_cancelled {
        resume_unwind(Box::new(Cancelled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_ends_at_its_next_checkpoint_once_it_is_cancelled() {
        let cancel = Cancel::default();
        let mut rounds = 0;
        let outcome = scope(&cancel, || {
            loop {
                checkpoint();
                rounds += 1;
                if rounds == 3 {
                    cancel.cancel();
                }
            }
        });
        assert_eq!((outcome, rounds), (Err::<(), _>(Cancelled), 3));
        // Nothing of it is left on the thread.
        checkpoint();
        assert_eq!(scope(&Cancel::default(), || 7), Ok(7));
    }

    #[test]
    fn an_inner_scope_leaves_the_outer_one_as_it_was() {
        let (outer, inner) = (Cancel::default(), Cancel::default());
        inner.cancel();
        let outcome = scope(&outer, || {
            assert_eq!(scope(&inner, checkpoint), Err(Cancelled));
            checkpoint();
            outer.cancel();
            checkpoint();
        });
        assert_eq!(outcome, Err(Cancelled));
    }
}
