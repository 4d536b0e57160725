//! How failures are told: what went wrong, and what to do about it.

use std::{
    fmt,
    io::{self, Write},
    path::Path,
};

use anyhow::anyhow;

use crate::terminal;

/// A failure whose remedy is known.
#[derive(Debug)]
pub struct Hinted {
    pub message: String,
    pub hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}

/// All that is wrong at once, a line each.
pub fn refuse(problems: &[String]) -> anyhow::Result<()> {
    if problems.is_empty() { Ok(()) } else { Err(anyhow!("{}", problems.join("\nerror: "))) }
}

/// Refuses a file in the place of a directory.
pub fn want_directory(path: &Path, hint: &str) -> anyhow::Result<()> {
    if !path.is_file() {
        return Ok(());
    }
    Err(Hinted { message: format!("`{}` is a file", path.display()), hint: hint.to_owned() }.into())
}

/// Says on stderr what went wrong. With that gone there is nobody left to tell.
pub fn tell(error: &anyhow::Error) {
    let _ = write!(io::stderr(), "{}", report(error));
}

/// `error: what: why`, and a `hint:` line when there is one.
pub fn report(error: &anyhow::Error) -> String {
    let mut report = format!("error: {error:#}\n");
    if let Some(hinted) = error.chain().find_map(|cause| cause.downcast_ref::<Hinted>()) {
        report += &format!("hint: {}\n", hinted.hint);
    }
    // What went wrong is often told in the words of a server.
    terminal::visible(&report).into_owned()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_hint_stands_below_the_chain_of_causes() {
        let plain = Err::<(), _>(anyhow!("why")).context("what").unwrap_err();
        assert_eq!(report(&plain), "error: what: why\n");
        let hinted = Hinted { message: "why".into(), hint: "do this".into() };
        let hinted = Err::<(), _>(hinted).context("what").unwrap_err();
        assert_eq!(report(&hinted), "error: what: why\nhint: do this\n");
    }
}
