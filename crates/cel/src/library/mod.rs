//! The libraries, one file each. A file lists its functions, each with all there is to know about it, and
//! holds what they need.

pub(crate) mod conversions;
pub(crate) mod cost;
pub(crate) mod format;
pub(crate) mod lists;
pub(crate) mod net;
pub(crate) mod operators;
pub(crate) mod optionals;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
pub(crate) mod string_format;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod url;

use crate::{authorizer, functions::Function};

pub(crate) const LIBRARIES: [&[Function]; 13] = [
    operators::FUNCTIONS,
    conversions::FUNCTIONS,
    time::FUNCTIONS,
    strings::FUNCTIONS,
    regex::FUNCTIONS,
    lists::FUNCTIONS,
    optionals::FUNCTIONS,
    quantity::FUNCTIONS,
    semver::FUNCTIONS,
    url::FUNCTIONS,
    net::FUNCTIONS,
    format::FUNCTIONS,
    authorizer::FUNCTIONS,
];
