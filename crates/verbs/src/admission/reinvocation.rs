//! Who is asked twice in one mutating pass.
//!
//! When a webhook or policy has changed the object, the whole chain is gone through once more.
//! In that second round only those are asked again who want it (`reinvocationPolicy: IfNeeded`),
//! who were asked in the first and after whom the object was changed by somebody else.

use std::sync::Arc;

use serde_json::Value;

use super::webhooks::Compiled;

/// What one mutating pass has to remember; one for policies and webhooks together.
#[derive(Debug, Default)]
pub(super) struct Reinvocation {
    pub round: Round,
    /// Whether somebody changed the object, so that there is a second round.
    pub needed: bool,
    pub webhooks: ReinvocationState,
    /// The webhooks there were in the first round.
    pub asked_webhooks: Option<Arc<Compiled>>,
    pub policies: ReinvocationState,
    /// Policies with their bindings and parameters, by the places that [`ReinvocationState`] knows them by.
    known: Vec<String>,
}

impl Reinvocation {
    /// The place of a policy with one binding and parameter.
    pub fn place_of(&mut self, policy: String) -> usize {
        let known = self.known.iter().position(|known| *known == policy);
        known.unwrap_or_else(|| {
            self.known.push(policy);
            self.known.len() - 1
        })
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Round {
    #[default]
    First,
    Second,
}

impl Round {
    /// As audit annotations count.
    pub fn number(self) -> usize {
        match self {
            Self::First => 0,
            Self::Second => 1,
        }
    }
}

/// Whom a plugin has asked. Those asked are known by their place in the plugin's list, which is
/// the same in both rounds.
#[derive(Debug, Default)]
pub(super) struct ReinvocationState {
    /// Who wants to see what others change.
    watching: Vec<usize>,
    /// Who is to be asked again.
    again: Vec<usize>,
    /// What the plugin left behind in the first round.
    left: Option<Value>,
}

impl ReinvocationState {
    /// The plugin begins a round with `object`.
    pub fn begin(&mut self, round: Round, object: &Value) {
        // Others have changed it since.
        if round == Round::Second && self.left.take().is_some_and(|left| left != *object) {
            self.again.append(&mut self.watching);
        }
    }

    pub fn may_ask(&self, round: Round, place: usize) -> bool {
        round == Round::First || self.again.contains(&place)
    }

    /// Somebody has answered, and `wants_changes` is whether they want to see what others do after.
    pub fn answered(&mut self, place: usize, changed: bool, wants_changes: bool) {
        if changed {
            self.again.append(&mut self.watching);
        }
        if wants_changes {
            self.watching.push(place);
        }
    }

    /// The plugin is through, and leaves `object`.
    pub fn end(&mut self, round: Round, object: &Value) {
        // Nobody else needs it.
        if round == Round::First && !(self.watching.is_empty() && self.again.is_empty()) {
            self.left = Some(object.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Who is asked in the second round, of those that are there: each wants to see changes or not,
    /// and changes the object or not.
    fn again(all: &[(bool, bool)], changed_between: bool) -> Vec<usize> {
        let mut asked = ReinvocationState::default();
        let (object, other) = (json!({"a": 1}), json!({"a": 2}));
        asked.begin(Round::First, &object);
        for (place, (wants, changes)) in all.iter().enumerate() {
            assert!(asked.may_ask(Round::First, place));
            asked.answered(place, *changes, *wants);
        }
        asked.end(Round::First, &object);
        asked.begin(Round::Second, if changed_between { &other } else { &object });
        let mut found = Vec::new();
        for (place, (wants, _)) in all.iter().enumerate() {
            if asked.may_ask(Round::Second, place) {
                found.push(place);
                asked.answered(place, false, *wants);
            }
        }
        found
    }

    #[test]
    fn those_are_asked_again_after_whom_something_changed() {
        let (watches, ignores) = (true, false);
        for (all, changed_between, expected) in [
            (vec![(watches, true)], false, vec![]),
            (vec![(watches, false), (ignores, true)], false, vec![0]),
            (vec![(ignores, false), (ignores, true)], false, vec![]),
            (vec![(watches, false), (watches, true), (watches, false)], false, vec![0]),
            (vec![(watches, true), (watches, true), (watches, true)], false, vec![0, 1]),
            (vec![(watches, false), (watches, false)], true, vec![0, 1]),
            (vec![(ignores, false)], true, vec![]),
        ] {
            assert_eq!(again(&all, changed_between), expected, "{all:?} {changed_between}");
        }
    }
}
