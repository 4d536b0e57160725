//! `cfg`: reads files of resources and shows them.

use crate::command::flags::Words;
use crate::command::{Context, Outcome};

pub(crate) fn cat(_: &mut Context<'_>, _: &Words) -> Outcome {
    Err("not yet".into())
}
pub(crate) fn count(_: &mut Context<'_>, _: &Words) -> Outcome {
    Err("not yet".into())
}
pub(crate) fn grep(_: &mut Context<'_>, _: &Words) -> Outcome {
    Err("not yet".into())
}
pub(crate) fn tree(_: &mut Context<'_>, _: &Words) -> Outcome {
    Err("not yet".into())
}
