//! The types of expressions, and what is assignable to what.

use std::{fmt, sync::Arc};

use crate::declare::Object;

#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    Optional(Arc<Type>),
    /// Protobuf's boxes of scalars: values are those of the scalar, and null may stand there.
    Wrapper(Arc<Type>),
    /// Protobuf's message of any kind: its values are of that kind.
    Any,
    /// An object of a schema: nominal, equal by name.
    Object(Arc<Object>),
    /// A library's own type, such as `kubernetes.URL`.
    Opaque(&'static str),
    /// Open until the checker finds out.
    Param(usize),
    /// Of an expression that was already refused; fits everywhere.
    Error,
}

pub(crate) const URL: &str = "kubernetes.URL";
pub(crate) const QUANTITY: &str = "kubernetes.Quantity";
pub(crate) const SEMVER: &str = "kubernetes.Semver";
pub(crate) const NAMED_FORMAT: &str = "kubernetes.NamedFormat";
pub(crate) const IP: &str = "net.IP";
pub(crate) const CIDR: &str = "net.CIDR";
pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

impl Type {
    pub fn list(items: Type) -> Self {
        Self::List(Arc::new(items))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    pub(crate) fn wrapper(scalar: Type) -> Self {
        Self::Wrapper(Arc::new(scalar))
    }

    /// The type of what is in protobuf's boxes, which is all there is at run time.
    pub fn unwrapped(&self) -> Self {
        match self {
            Self::Wrapper(inner) => (**inner).clone(),
            Self::Any => Self::Dyn,
            Self::List(inner) => Self::list(inner.unwrapped()),
            Self::Optional(inner) => Self::optional(inner.unwrapped()),
            Self::Type(inner) => Self::of(inner.unwrapped()),
            Self::Map(key, value) => Self::map(key.unwrapped(), value.unwrapped()),
            other => other.clone(),
        }
    }

    pub(crate) fn of(inner: Type) -> Self {
        Self::Type(Arc::new(inner))
    }

    /// The name as `type(x)` and run-time messages have it.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Self::Dyn | Self::Param(_) | Self::Error => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Wrapper(inner) => inner.runtime_name(),
            Self::Any => "google.protobuf.Any",
            Self::Object(object) if object.is_message() => &object.name,
            Self::Map(..) | Self::Object(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(name) => name,
        }
    }

    /// Whether the type has more than `most` parts: those of maps of maps
    /// double with every step of a chain, so they end in `dyn` somewhere.
    pub(crate) fn is_larger_than(&self, most: usize) -> bool {
        fn count(ty: &Type, left: &mut usize) {
            for part in ty.parts() {
                if *left == 0 {
                    return;
                }
                *left -= 1;
                count(part, left);
            }
        }
        let mut left = most;
        count(self, &mut left);
        left == 0
    }

    fn parts(&self) -> Vec<&Type> {
        match self {
            Self::List(inner) | Self::Type(inner) | Self::Optional(inner) => vec![inner],
            Self::Map(key, value) => vec![key, value],
            _ => Vec::new(),
        }
    }
}

/// Names of types that stand for themselves in expressions.
pub(crate) fn named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::of(Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        IP => Type::Opaque(IP),
        CIDR => Type::Opaque(CIDR),
        _ => return None,
    })
}

/// As error messages print types.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(inner) => write!(f, "list({inner})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Wrapper(inner) => write!(f, "wrapper({inner})"),
            Self::Any => f.write_str("any"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Error => f.write_str("!error!"),
            other => f.write_str(other.runtime_name()),
        }
    }
}

/// What the checker has found out about open types.
#[derive(Debug, Default)]
pub(crate) struct Substitution {
    bound: Vec<Option<Type>>,
    /// What was overwritten, newest last, so that an attempt can be undone.
    trail: Vec<(usize, Option<Type>)>,
}

/// A state to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    bound: usize,
    trail: usize,
}

impl Substitution {
    pub fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Param(self.bound.len() - 1)
    }

    pub fn mark(&self) -> Mark {
        Mark { bound: self.bound.len(), trail: self.trail.len() }
    }

    pub fn undo(&mut self, to: Mark) {
        while self.trail.len() > to.trail {
            let Some((param, before)) = self.trail.pop() else { break };
            if let Some(slot) = self.bound.get_mut(param) {
                *slot = before;
            }
        }
        self.bound.truncate(to.bound);
    }

    fn get(&self, param: usize) -> Option<&Type> {
        self.bound.get(param).and_then(Option::as_ref)
    }

    /// The type with all that is known put in.
    pub fn apply(&self, of: &Type) -> Type {
        self.replace(of, false)
    }

    /// As [`Self::apply`], and what is still open becomes `dyn`.
    pub fn close(&self, of: &Type) -> Type {
        self.replace(of, true)
    }

    fn replace(&self, of: &Type, close: bool) -> Type {
        match of {
            Type::Param(param) => match self.get(*param) {
                Some(bound) => self.replace(bound, close),
                None if close => Type::Dyn,
                None => of.clone(),
            },
            Type::List(inner) => Type::list(self.replace(inner, close)),
            Type::Optional(inner) => Type::optional(self.replace(inner, close)),
            Type::Type(inner) => Type::of(self.replace(inner, close)),
            Type::Map(key, value) => Type::map(self.replace(key, close), self.replace(value, close)),
            other => other.clone(),
        }
    }

    /// Whether a value of type `from` may stand where `to` is asked for.
    /// Open types on either side become known by it.
    pub fn assign(&mut self, from: &Type, to: &Type) -> bool {
        match (from, to) {
            (Type::Param(one), Type::Param(other)) if one == other => true,
            (_, Type::Param(param)) => self.bind(*param, from),
            (Type::Param(param), _) => self.bind(*param, to),
            (Type::Dyn | Type::Any | Type::Error, _) | (_, Type::Dyn | Type::Any | Type::Error) => true,
            (Type::Null, Type::Wrapper(_)) | (Type::Wrapper(_), Type::Null) => true,
            (Type::Wrapper(one), other) | (other, Type::Wrapper(one)) => self.assign(one, other),
            (
                Type::Null,
                Type::Null
                | Type::Object(_)
                | Type::Opaque(_)
                | Type::Optional(_)
                | Type::Timestamp
                | Type::Duration,
            ) => true,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.assign(one, other)
            }
            // Types of any kind may be compared.
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.assign(key, other_key) && self.assign(value, other_value)
            }
            (Type::Object(one), Type::Object(other)) => one.name == other.name,
            (one, other) => one == other,
        }
    }

    fn bind(&mut self, param: usize, to: &Type) -> bool {
        let to = self.apply(to);
        if to == Type::Param(param) {
            return true;
        }
        if let Some(bound) = self.get(param).cloned() {
            if !self.assign(&to, &bound) {
                // What came first may fit what comes now, as null does.
                let fits = self.assign(&bound, &to);
                if fits {
                    self.set(param, to);
                }
                return fits;
            }
            // The more general of the two stays; of those that are as general, the first.
            let (to, bound) = (self.apply(&to), self.apply(&bound));
            if is_wrapper_of(&to, &bound) {
                return true;
            }
            if less_specific(&to, &bound) && !occurs(param, &to) {
                self.set(param, to);
            }
            return true;
        }
        if occurs(param, &to) {
            return false;
        }
        self.set(param, to);
        true
    }

    fn set(&mut self, param: usize, to: Type) {
        if let Some(slot) = self.bound.get_mut(param) {
            let before = slot.replace(to);
            self.trail.push((param, before));
        }
    }

    /// The type of something that is one or the other.
    pub fn join(&mut self, one: &Type, other: &Type) -> Type {
        let before = self.mark();
        if self.assign(other, one) {
            let (one, other) = (self.apply(one), self.apply(other));
            return if less_specific(&one, &other) { one } else { other };
        }
        self.undo(before);
        Type::Dyn
    }
}

/// Whether one of two types that fit is the box of what the other, a scalar or null, is.
fn is_wrapper_of(one: &Type, other: &Type) -> bool {
    matches!(one, Type::Wrapper(_)) != matches!(other, Type::Wrapper(_))
        && !matches!(
            (one, other),
            (Type::Dyn | Type::Any | Type::Param(_), _) | (_, Type::Dyn | Type::Any | Type::Param(_))
        )
}

fn occurs(param: usize, within: &Type) -> bool {
    match within {
        Type::Param(other) => *other == param,
        other => other.parts().into_iter().any(|part| occurs(param, part)),
    }
}

fn less_specific(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Any | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Any | Type::Param(_)) => false,
        (Type::Null, _) => false,
        (_, Type::Null) => true,
        (one, other) => {
            let (one, other) = (one.parts(), other.parts());
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| less_specific(one, other))
        }
    }
}
