//! The JSONPath of printer columns: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Only the first thing found is ever shown. What is missing on the way gives
//! nothing; the number of values on the way is bounded.

use serde_json::Value;

/// Values that a path may lead over; more are not looked at.
pub const MAX_FOUND: usize = 10_000;

/// How many steps a path may have.
pub const MAX_STEPS: usize = 256;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized JSONPath")]
pub struct PathError;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    /// Everything below, itself included.
    Recursive,
    /// `[0]`, `[1:3]`, `[0,2]`
    Slices(Vec<Slice>),
    /// `['a','b']`; what is quoted is read as a path again.
    Union(Vec<JsonPath>),
    /// Read, but leads nowhere ever.
    Nowhere,
    Filter(Box<Filter>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    /// `None` if the slice is open, which a single index is not.
    end: Option<i64>,
    step: Option<i64>,
    single: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    test: Option<(Comparison, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(JsonPath),
    Value(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut parser = Parser { rest: text };
        let steps = parser.steps()?;
        if parser.rest.is_empty() { Ok(Self(steps)) } else { Err(PathError) }
    }

    /// The first value the path leads to.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        // A path of no steps shows nothing.
        if self.0.is_empty() { None } else { self.find(object).first().copied() }
    }

    fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![object];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in found {
                if !apply(step, value, &mut next) {
                    return Vec::new();
                }
                if next.len() >= MAX_FOUND {
                    next.truncate(MAX_FOUND);
                    break;
                }
            }
            found = next;
        }
        found
    }
}

/// False where upstream gives up: an index outside of its list.
fn apply<'a>(step: &Step, value: &'a Value, out: &mut Vec<&'a Value>) -> bool {
    match step {
        Step::Field(name) => out.extend(value.get(name)),
        Step::Union(paths) => out.extend(paths.iter().flat_map(|path| path.find(value))),
        Step::Nowhere => return false,
        Step::Wildcard => match value {
            Value::Array(items) => out.extend(items),
            Value::Object(fields) => out.extend(fields.values()),
            _ => {}
        },
        Step::Recursive => descend(value, out),
        Step::Slices(slices) => {
            let Value::Array(items) = value else { return false };
            return slices.iter().all(|slice| slice.apply(items, out));
        }
        Step::Filter(filter) => {
            let Value::Array(items) = value else { return false };
            out.extend(items.iter().filter(|item| filter.holds(item)));
        }
    }
    true
}

fn descend<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    if out.len() >= MAX_FOUND {
        return;
    }
    out.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, out)),
        Value::Object(fields) => fields.values().for_each(|field| descend(field, out)),
        _ => {}
    }
}

impl Slice {
    fn apply<'a>(&self, items: &'a [Value], out: &mut Vec<&'a Value>) -> bool {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let resolve = |index: i64| if index < 0 { index + length } else { index };
        let start = resolve(self.start.unwrap_or(0));
        let end = if self.single { start + 1 } else { self.end.map_or(length, resolve) };
        if length == 0 && !self.single {
            return true;
        }
        if start < 0 || start >= length.max(1) || end > length || end < 0 {
            return false;
        }
        let step = usize::try_from(self.step.unwrap_or(1)).unwrap_or(0);
        if step == 0 {
            return false;
        }
        let (start, end) = (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(0));
        out.extend(items.get(start..end.max(start)).unwrap_or_default().iter().step_by(step));
        true
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let Some((comparison, right)) = &self.test else {
            return self.left.value(item).is_some();
        };
        let (Some(left), Some(right)) = (self.left.value(item), right.value(item)) else { return false };
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right))
            }
            _ => None,
        };
        let Some(order) = order else { return false };
        match comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, item: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Path(path) => path.first(item),
            Self::Value(value) => Some(value),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn steps(&mut self) -> Result<Vec<Step>, PathError> {
        let mut steps = Vec::new();
        loop {
            if steps.len() > MAX_STEPS {
                return Err(PathError);
            }
            if self.take("..") {
                steps.push(Step::Recursive);
                if !self.rest.starts_with('[') {
                    steps.extend(self.field());
                }
            } else if self.take(".") {
                steps.extend(self.field());
            } else if self.take("[") {
                steps.push(self.brackets()?);
            } else {
                return Ok(steps);
            }
        }
    }

    /// A name up to the next step; a backslash keeps what follows in it. None if it is empty.
    fn field(&mut self) -> Option<Step> {
        let mut name = String::new();
        let mut length = 0;
        let mut chars = self.rest.chars();
        while let Some(char) = chars.next() {
            match char {
                '.' | '[' | ']' | ' ' | '}' | ')' | '(' | '@' | ',' | '|' | '=' | '!' | '<' | '>' | '\''
                | '"' => break,
                '\\' => {
                    let escaped = chars.next()?;
                    name.push(escaped);
                    length += 1 + escaped.len_utf8();
                }
                other => {
                    name.push(other);
                    length += other.len_utf8();
                }
            }
        }
        self.rest = self.rest.get(length..).unwrap_or_default();
        match name.as_str() {
            "" => None,
            "*" => Some(Step::Wildcard),
            _ => Some(Step::Field(name)),
        }
    }

    fn brackets(&mut self) -> Result<Step, PathError> {
        if self.take("?(") {
            let filter = self.filter()?;
            return if self.take(")]") { Ok(Step::Filter(Box::new(filter))) } else { Err(PathError) };
        }
        if self.take("*]") {
            return Ok(Step::Wildcard);
        }
        if self.rest.starts_with(['\'', '"']) {
            let mut paths = vec![self.quoted_path()?];
            while self.take(",") {
                self.rest = self.rest.trim_start();
                paths.push(self.quoted_path()?);
            }
            return if self.take("]") { Ok(Step::Union(paths)) } else { Err(PathError) };
        }
        let (inner, rest) = self.rest.split_once(']').ok_or(PathError)?;
        self.rest = rest;
        inner.split(',').map(slice).collect::<Result<Vec<_>, _>>().map(Step::Slices)
    }

    fn quoted_path(&mut self) -> Result<JsonPath, PathError> {
        let name = self.quoted()?;
        // No quotes within: a path that is quoted cannot quote again.
        let path = if name.contains(['[', '\'', '"']) {
            Err(PathError)
        } else {
            JsonPath::parse(&format!(".{name}"))
        };
        Ok(path.unwrap_or(JsonPath(vec![Step::Nowhere])))
    }

    fn quoted(&mut self) -> Result<String, PathError> {
        let quote = self.rest.chars().next().filter(|char| matches!(char, '\'' | '"')).ok_or(PathError)?;
        let body = self.rest.get(1..).unwrap_or_default();
        let (text, rest) = body.split_once(quote).ok_or(PathError)?;
        self.rest = rest;
        Ok(text.to_owned())
    }

    fn filter(&mut self) -> Result<Filter, PathError> {
        let left = self.operand()?;
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = comparisons.into_iter().find(|(text, _)| self.take(text));
        let test = match found {
            Some((_, comparison)) => Some((comparison, self.operand()?)),
            None => None,
        };
        Ok(Filter { left, test })
    }

    fn operand(&mut self) -> Result<Operand, PathError> {
        self.rest = self.rest.trim_start();
        let operand = if self.take("@") {
            Operand::Path(JsonPath(self.steps()?))
        } else if self.rest.starts_with(['\'', '"']) {
            Operand::Value(self.quoted()?.into())
        } else {
            let end = self.rest.find([' ', ')', '=', '!', '<', '>']).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at_checked(end).ok_or(PathError)?;
            self.rest = rest;
            Operand::Value(serde_json::from_str(word).map_err(|_| PathError)?)
        };
        self.rest = self.rest.trim_start();
        Ok(operand)
    }

    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

fn slice(text: &str) -> Result<Slice, PathError> {
    let parts: Vec<&str> = text.trim().split(':').collect();
    let number = |part: Option<&&str>| match part {
        None | Some(&"") => Ok(None),
        Some(part) => part.parse::<i64>().map(Some).map_err(|_| PathError),
    };
    if parts.len() > 3 || text.trim().is_empty() {
        return Err(PathError);
    }
    Ok(Slice {
        start: number(parts.first())?,
        end: number(parts.get(1))?,
        step: number(parts.get(2))?,
        single: parts.len() == 1,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_their_first_value() {
        let object = json!({"a": {"b.c": 1, "l": [{"t": "x", "n": 1}, {"t": "y", "n": 2}], "e": []}});
        for (path, expected) in [
            (".a.b\\.c", Some(json!(1))),
            (".a['b.c']", None),
            (".a['b\\.c']", Some(json!(1))),
            (".a['l'][0]['n','t']", Some(json!(1))),
            (".a['b c']", None),
            (".", None),
            (".a.l[-1].t", Some(json!("y"))),
            (".a.l[5].t", None),
            (".a.l[?(@.t==\"y\")].n", Some(json!(2))),
            (".a.l[?(@.n>=2)].t", Some(json!("y"))),
            (".a.l[?(@.zz)].t", None),
            ("..n", Some(json!(1))),
            (".a.l[*].n", Some(json!(1))),
            (".a.e[0]", None),
            (".a.e[*]", None),
            (".zz.y", None),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().first(&object).cloned(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [".a[", ".a[x]", ".a['b", ".a[?(@.b==]", ".a}", ".a b", "a"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
        assert!(JsonPath::parse(&".a".repeat(MAX_STEPS)).is_ok());
        assert!(JsonPath::parse(&".a".repeat(MAX_STEPS + 1)).is_err());
    }
}
