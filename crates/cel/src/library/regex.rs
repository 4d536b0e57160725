//! Regular expressions: Go's syntax, run by the `regex` crate, whose time is
//! linear in the text as Go's is.

use regex::{Regex, RegexBuilder};

use crate::{
    estimate,
    evaluate::EvalError,
    functions::{Call, Function, function, plain_mismatch},
    library::cost,
    value::Value,
};

/// The most memory a compiled expression may take.
pub const MAX_COMPILED_BYTES: usize = 1 << 20;
/// The largest count in a repetition.
pub const MAX_REPEAT: u32 = 1000;

pub(crate) const FUNCTIONS: &[Function] =
    &[
        function(
            "matches",
            "23 string.(string):bool (string,string):bool",
            |call, _| match call.operands {
                [Value::String(text), Value::String(pattern)] => {
                    let regex = compiled(call, pattern.as_str());
                    Some(regex.map(|regex| Value::Bool(regex.is_match(text.as_str()))))
                }
                _ => None,
            },
            |of| if of.method { estimate::pattern(of) } else { of.price(1) },
            |call, result| if call.method { cost::pattern(call, result) } else { 1 },
        )
        .with_pattern()
        .mismatch(plain_mismatch),
        function(
            "find",
            "23 string.(string):string",
            |call, _| match call.operands {
                [Value::String(text), Value::String(pattern)] => {
                    let regex = compiled(call, pattern.as_str()).map_err(|error| illegal(&error));
                    Some(regex.map(|regex| {
                        Value::text(regex.find(text.as_str()).map_or("", |found| found.as_str()))
                    }))
                }
                _ => None,
            },
            |of| estimate::pattern(of).at_most(of.max(0)),
            cost::pattern,
        )
        .with_pattern()
        .mismatch(plain_mismatch),
        function(
            "findAll",
            "23 string.(string):list(string) string.(string,int):list(string)",
            |call, _| {
                let (text, pattern, most) = match call.operands {
                    [Value::String(text), Value::String(pattern)] => (text, pattern, usize::MAX),
                    [Value::String(text), Value::String(pattern), Value::Int(limit)] => {
                        (text, pattern, usize::try_from(*limit).unwrap_or(usize::MAX))
                    }
                    _ => return None,
                };
                let regex = compiled(call, pattern.as_str()).map_err(|error| illegal(&error));
                Some(regex.map(|regex| {
                    let found = regex.find_iter(text.as_str()).take(most);
                    Value::list(found.map(|found| Value::text(found.as_str())).collect())
                }))
            },
            |of| estimate::pattern(of).at_most(of.max(0)),
            cost::pattern,
        )
        .with_pattern()
        .mismatch(plain_mismatch),
    ];

fn compiled(call: &Call<'_, '_>, pattern: &str) -> Result<Regex, EvalError> {
    match call.pattern {
        Some(compiled) => Ok(compiled.clone()),
        None => compile(pattern),
    }
}

fn illegal(error: &EvalError) -> EvalError {
    EvalError::new(format!("Illegal regex: {}", error.message()))
}

pub(crate) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    let translated =
        translate(pattern).map_err(|why| EvalError::new(format!("error parsing regexp: {why}")))?;
    RegexBuilder::new(&translated)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .nest_limit(250)
        .build()
        .map_err(|error| {
            let why = match error {
                regex::Error::CompiledTooBig(_) => "expression too large".to_owned(),
                other => other
                    .to_string()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned(),
            };
            EvalError::new(format!("error parsing regexp: {why}"))
        })
}

/// Go's spelling as the crate's. `Err` is Go's message.
fn translate(pattern: &str) -> Result<String, String> {
    let characters: Vec<char> = pattern.chars().collect();
    let text = |from: usize, to: usize| {
        characters.get(from..to.min(characters.len())).unwrap_or_default().iter().collect::<String>()
    };
    let mut out = String::with_capacity(pattern.len());
    let mut at = 0;
    let mut groups = 0_usize;
    // The last repetition operator, to refuse two in a row, and whether there is something to repeat.
    let mut repeated: Option<usize> = None;
    let mut repeatable = false;
    while let Some(c) = characters.get(at).copied() {
        let start = at;
        match c {
            '\\' => {
                at = escape(&characters, at, &mut out, false)?;
                (repeated, repeatable) = (None, true);
            }
            '[' => {
                at = class(&characters, at, &mut out)?;
                (repeated, repeatable) = (None, true);
            }
            '(' => {
                groups += 1;
                if characters.get(at + 1) == Some(&'?') {
                    let rest = text(at + 2, characters.len());
                    let name_start = rest
                        .strip_prefix("P<")
                        .or_else(|| rest.strip_prefix('<'))
                        .filter(|name| !name.starts_with(['=', '!']));
                    if let Some(name) = name_start {
                        let end = name.find('>').ok_or_else(|| {
                            format!("invalid named capture: `{}`", text(start, characters.len()))
                        })?;
                        let name = name.get(..end).unwrap_or_default();
                        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                            return Err(format!("invalid named capture: `(?P<{name}>`"));
                        }
                    } else {
                        let flags =
                            rest.chars().take_while(|c| matches!(c, 'i' | 'm' | 's' | 'U' | '-')).count();
                        if !matches!(rest.chars().nth(flags), Some(':' | ')')) {
                            return Err(format!(
                                "invalid or unsupported Perl syntax: `{}`",
                                text(start, start + 3 + flags)
                            ));
                        }
                        if rest.chars().nth(flags) == Some(')') {
                            groups -= 1;
                            out.push_str(&text(start, start + 3 + flags));
                            at += 3 + flags;
                            (repeated, repeatable) = (None, false);
                            continue;
                        }
                    }
                    out.push_str("(?");
                    at += 2;
                } else {
                    out.push('(');
                    at += 1;
                }
                (repeated, repeatable) = (None, false);
                // The rest of a group's head holds no operators.
                if out.ends_with("(?") {
                    while let Some(c) = characters.get(at).copied() {
                        out.push(c);
                        at += 1;
                        if matches!(c, ':' | '>') {
                            break;
                        }
                    }
                }
            }
            ')' => {
                groups = groups.checked_sub(1).ok_or_else(|| format!("unexpected ): `{pattern}`"))?;
                out.push(')');
                at += 1;
                (repeated, repeatable) = (None, true);
            }
            '*' | '+' | '?' | '{' => {
                let counts = if c == '{' { counts(&characters, at) } else { Some((at + 1, 0, 0)) };
                let Some((mut end, least, most)) = counts else {
                    out.push_str("\\{");
                    at += 1;
                    (repeated, repeatable) = (None, true);
                    continue;
                };
                if !repeatable {
                    return Err(format!("missing argument to repetition operator: `{}`", text(start, end)));
                }
                if least > MAX_REPEAT || most > MAX_REPEAT || (most > 0 && least > most) {
                    return Err(format!("invalid repeat count: `{}`", text(start, end)));
                }
                if characters.get(end) == Some(&'?') {
                    end += 1;
                }
                if let Some(before) = repeated {
                    return Err(format!("invalid nested repetition operator: `{}`", text(before, end)));
                }
                out.push_str(&text(start, end));
                at = end;
                repeated = Some(start);
            }
            '|' => {
                out.push('|');
                at += 1;
                (repeated, repeatable) = (None, false);
            }
            other => {
                out.push(other);
                at += 1;
                (repeated, repeatable) = (None, true);
            }
        }
    }
    if groups > 0 {
        return Err(format!("missing closing ): `{pattern}`"));
    }
    Ok(out)
}

/// `{n}`, `{n,}` or `{n,m}`: its end and its numbers.
fn counts(characters: &[char], at: usize) -> Option<(usize, u32, u32)> {
    let length = characters.get(at..)?.iter().position(|c| *c == '}')?;
    let inner: String = characters.get(at + 1..at + length)?.iter().collect();
    let (least, most) =
        inner.split_once(',').map_or((inner.as_str(), inner.as_str()), |(least, most)| (least, most));
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().unwrap_or(u32::MAX))
    };
    if least.is_empty() {
        return None;
    }
    let most = if most.is_empty() { 0 } else { number(most)? };
    Some((at + length + 1, number(least)?, most))
}

/// One escape; the place after it.
fn escape(characters: &[char], at: usize, out: &mut String, in_class: bool) -> Result<usize, String> {
    let Some(c) = characters.get(at + 1).copied() else {
        return Err("trailing backslash at end of expression: ``".into());
    };
    let ascii = match c {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\f\\r ",
        'D' => "^0-9",
        'W' => "^0-9A-Za-z_",
        'S' => "^\\t\\n\\f\\r ",
        _ => "",
    };
    if !ascii.is_empty() {
        // Perl classes are ASCII in Go.
        let bare = in_class && !ascii.starts_with('^');
        out.push_str(&if bare { ascii.to_owned() } else { format!("[{ascii}]") });
        return Ok(at + 2);
    }
    match c {
        'Q' if !in_class => {
            let rest: String = characters.get(at + 2..).unwrap_or_default().iter().collect();
            let quoted = rest.split("\\E").next().unwrap_or_default();
            out.push_str(&regex::escape(quoted));
            let length = quoted.chars().count();
            return Ok((at + 2 + length + 2).min(characters.len()));
        }
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'A' | 'z' | 'B' if !in_class => out.extend(['\\', c]),
        'a' | 'f' | 't' | 'n' | 'r' | 'v' => out.extend(['\\', c]),
        'p' | 'P' | 'x' => {
            out.extend(['\\', c]);
            if characters.get(at + 2) == Some(&'{') {
                let rest = characters.get(at + 2..).unwrap_or_default();
                let end = rest.iter().position(|c| *c == '}').map_or(rest.len(), |end| end + 1);
                out.extend(rest.iter().take(end));
                return Ok(at + 2 + end);
            }
        }
        '0' => out.push_str("\\x00"),
        c if c.is_ascii_alphanumeric() => return Err(format!("invalid escape sequence: `\\{c}`")),
        c => out.push_str(&regex::escape(&c.to_string())),
    }
    Ok(at + 2)
}

/// A bracketed class; the place after it. Brackets and set operators inside
/// are plain characters in Go.
fn class(characters: &[char], start: usize, out: &mut String) -> Result<usize, String> {
    let unclosed = || {
        Err(format!(
            "missing closing ]: `{}`",
            characters.get(start..).unwrap_or_default().iter().collect::<String>()
        ))
    };
    let mut at = start + 1;
    out.push('[');
    if characters.get(at) == Some(&'^') {
        out.push('^');
        at += 1;
    }
    let mut first = true;
    loop {
        let Some(c) = characters.get(at).copied() else { return unclosed() };
        match c {
            ']' if !first => {
                out.push(']');
                return Ok(at + 1);
            }
            '[' if characters.get(at + 1) == Some(&':') => {
                let rest = characters.get(at..).unwrap_or_default();
                match rest.windows(2).position(|pair| pair == [':', ']']) {
                    Some(end) => {
                        out.extend(rest.iter().take(end + 2));
                        at += end + 2;
                    }
                    None => {
                        out.push_str("\\[");
                        at += 1;
                    }
                }
            }
            '\\' => at = escape(characters, at, out, true)?,
            '-' => {
                out.push(c);
                at += 1;
                if characters.get(at) == Some(&'-') {
                    out.push('\\');
                }
            }
            ']' | '[' | '&' | '~' => {
                out.extend(['\\', c]);
                at += 1;
            }
            c => {
                if characters.get(at + 1) == Some(&'-')
                    && let Some(end) =
                        characters.get(at + 2).copied().filter(|end| *end != ']' && *end != '\\')
                    && end < c
                {
                    return Err(format!("invalid character class range: `{c}-{end}`"));
                }
                out.push(c);
                at += 1;
            }
        }
        first = false;
    }
}
