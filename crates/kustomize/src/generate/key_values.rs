//! Where a generator's keys and values come from.

use crate::error::{Error, Result};
use crate::kustomization::GeneratorArgs;
use crate::loader::Loader;
use crate::why::ValueOf;
use sternpost_golang::strconv::go_quote;

type Pair = (String, Vec<u8>);
/// With where the value is written.
type Placed = (String, Vec<u8>, ValueOf);

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// In the order in which repeated keys are noticed: env files, literals, files.
pub(crate) fn load(loader: &Loader<'_>, args: &GeneratorArgs) -> Result<Vec<Placed>> {
    let shown = |sources: &[String]| format!("[{}]", sources.join(" "));
    let mut pairs = Vec::new();
    for path in &args.envs {
        let within = |error: Error| error.within(format!("env source files: {}", shown(&args.envs)));
        let content = loader.load(path).map_err(within)?;
        env_file(path, &content, &mut pairs).map_err(within)?;
    }
    for (at, source) in args.literals.iter().enumerate() {
        let within = |error: Error| error.within(format!("literal sources {}", shown(&args.literals)));
        let (key, value) = literal(source).map_err(within)?;
        pairs.push((key, value, ValueOf::Literal(at)));
    }
    for source in &args.files {
        let within = |error: Error| error.within(format!("file sources: {}", shown(&args.files)));
        let (key, path) = file_source(source).map_err(within)?;
        pairs.push((key, loader.load(path).map_err(within)?, ValueOf::File(path.to_owned())));
    }
    Ok(pairs)
}

fn literal(source: &str) -> Result<Pair> {
    let invalid = || Error::new(format!("invalid literal source {source}, expected key=value"));
    let (key, value) = source.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(invalid)?;
    Ok((key.to_owned(), without_quotes(value).as_bytes().to_vec()))
}

/// One pair of equal quotes around the whole is taken off.
fn without_quotes(value: &str) -> &str {
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}

fn file_source(source: &str) -> Result<(String, &str)> {
    let shown = go_quote(source);
    match source.split('=').collect::<Vec<_>>().as_slice() {
        [path] => Ok((path.rsplit('/').next().unwrap_or(path).to_owned(), source)),
        ["", path] => {
            Err(Error::new(format!("missing key name for file path {} in source {shown}", go_quote(path))))
        }
        [key, ""] => {
            Err(Error::new(format!("missing file path for key name {} in source {shown}", go_quote(key))))
        }
        [key, path] => Ok(((*key).to_owned(), path)),
        _ => Err(Error::new(format!("source {shown} key name or file path contains '='"))),
    }
}

fn env_file(path: &str, content: &[u8], pairs: &mut Vec<Placed>) -> Result<()> {
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    for (number, line) in (1..).zip(content.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else {
            let bytes: Vec<String> = line.iter().map(u8::to_string).collect();
            let text = String::from_utf8_lossy(line);
            return Err(Error::new(format!("line [{}] has invalid utf8 bytes : {text}", bytes.join(" "))));
        };
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if key.is_empty() {
            continue;
        }
        let place = ValueOf::Line(path.to_owned(), number);
        pairs.push((key.to_owned(), value.as_bytes().to_vec(), place));
    }
    Ok(())
}
