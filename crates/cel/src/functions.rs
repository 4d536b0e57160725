//! The functions of the language and of Kubernetes' libraries, as a table of
//! signatures: what the checker resolves calls against.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use crate::types::{self, Type};

/// One signature. Capital letters are open types.
#[derive(Debug, Clone)]
pub(crate) struct Overload {
    /// The Kubernetes minor version, 1.x, that introduced it.
    pub since: u32,
    pub receiver: bool,
    /// The receiver first.
    pub parameters: Vec<Type>,
    pub result: Type,
    /// How many open types the signature has.
    pub open: usize,
}

pub(crate) static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in TABLE.lines() {
        let mut words = line.split_whitespace();
        let (Some(since), Some(name)) = (words.next().and_then(|since| since.parse().ok()), words.next())
        else {
            continue;
        };
        for signature in words {
            functions.entry(name).or_default().extend(overload(since, signature));
        }
    }
    // The ordered kinds of lists have one signature a kind.
    for (since, name, kinds, result) in OF_ORDERED {
        for kind in kinds.split(' ') {
            functions.entry(name).or_default().extend(overload(since, &ordered(kind, result)));
        }
    }
    functions
});

/// Version, name, kinds of elements, and what comes of them if it is not one of them.
const OF_ORDERED: [(u32, &str, &str, Option<&str>); 6] = [
    (23, "sum", "int uint double duration", None),
    (23, "min", ORDERED, None),
    (23, "max", ORDERED, None),
    (23, "isSorted", ORDERED, Some("bool")),
    (34, "sort", ORDERED, Some("list")),
    (34, "@sortByAssociatedKeys", ORDERED, Some("keys")),
];

fn ordered(kind: &str, result: Option<&str>) -> String {
    match result {
        None => format!("list({kind}).():{kind}"),
        Some("list") => format!("list({kind}).():list({kind})"),
        Some("keys") => format!("list(T).(list({kind})):list(T)"),
        Some(result) => format!("list({kind}).():{result}"),
    }
}

/// Every function with every signature it has: `("contains", "string.(string):bool")`.
pub fn signatures() -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for line in TABLE.lines() {
        let mut words = line.split_whitespace().skip(1);
        let Some(name) = words.next() else { continue };
        all.extend(words.map(|signature| (name, signature.to_owned())));
    }
    for (_, name, kinds, result) in OF_ORDERED {
        all.extend(kinds.split(' ').map(|kind| (name, ordered(kind, result))));
    }
    all
}

const ORDERED: &str = "int uint double bool duration timestamp string bytes";

/// `receiver.(arguments):result`, or without a receiver.
fn overload(since: u32, signature: &str) -> Option<Overload> {
    let (call, result) = signature.rsplit_once("):")?;
    let (receiver, arguments) = match call.split_once(".(") {
        Some((receiver, arguments)) => (Some(receiver), arguments),
        None => (None, call.strip_prefix('(')?),
    };
    let mut names = Vec::new();
    let mut parameters = Vec::new();
    if let Some(receiver) = receiver {
        parameters.push(parse(receiver, &mut names)?);
    }
    for argument in split(arguments) {
        parameters.push(parse(argument, &mut names)?);
    }
    let result = parse(result, &mut names)?;
    Some(Overload { since, receiver: receiver.is_some(), parameters, result, open: names.len() })
}

/// Arguments at the commas outside parentheses.
fn split(arguments: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in arguments.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(arguments.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.extend(arguments.get(start..).filter(|last| !last.is_empty()));
    found
}

fn parse(text: &str, names: &mut Vec<String>) -> Option<Type> {
    if let Some((outer, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut parts = split(inner).into_iter();
        let first = Arc::new(parse(parts.next()?, names)?);
        return Some(match outer {
            "list" => Type::List(first),
            "optional" => Type::Optional(first),
            "type" => Type::Type(first),
            "map" => Type::Map(first, Arc::new(parse(parts.next()?, names)?)),
            _ => return None,
        });
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "url" => Type::Opaque(types::URL),
        "quantity" => Type::Opaque(types::QUANTITY),
        "semver" => Type::Opaque(types::SEMVER),
        "format" => Type::Opaque(types::NAMED_FORMAT),
        "ip" => Type::Opaque(types::IP),
        "cidr" => Type::Opaque(types::CIDR),
        "authorizer" => Type::Opaque(types::AUTHORIZER),
        "path" => Type::Opaque(types::PATH_CHECK),
        "group" => Type::Opaque(types::GROUP_CHECK),
        "resource" => Type::Opaque(types::RESOURCE_CHECK),
        "decision" => Type::Opaque(types::DECISION),
        name if name.starts_with(char::is_uppercase) => {
            let known = names.iter().position(|known| known == name);
            Type::Param(known.unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            }))
        }
        _ => return None,
    })
}

/// Version, name, signatures.
const TABLE: &str = "
23 _==_ (A,A):bool
23 _!=_ (A,A):bool
23 _<_ (bool,bool):bool (int,int):bool (uint,uint):bool (double,double):bool (string,string):bool (bytes,bytes):bool (timestamp,timestamp):bool (duration,duration):bool
23 _<=_ (bool,bool):bool (int,int):bool (uint,uint):bool (double,double):bool (string,string):bool (bytes,bytes):bool (timestamp,timestamp):bool (duration,duration):bool
23 _>_ (bool,bool):bool (int,int):bool (uint,uint):bool (double,double):bool (string,string):bool (bytes,bytes):bool (timestamp,timestamp):bool (duration,duration):bool
23 _>=_ (bool,bool):bool (int,int):bool (uint,uint):bool (double,double):bool (string,string):bool (bytes,bytes):bool (timestamp,timestamp):bool (duration,duration):bool
28 _<_ (int,uint):bool (int,double):bool (uint,int):bool (uint,double):bool (double,int):bool (double,uint):bool
28 _<=_ (int,uint):bool (int,double):bool (uint,int):bool (uint,double):bool (double,int):bool (double,uint):bool
28 _>_ (int,uint):bool (int,double):bool (uint,int):bool (uint,double):bool (double,int):bool (double,uint):bool
28 _>=_ (int,uint):bool (int,double):bool (uint,int):bool (uint,double):bool (double,int):bool (double,uint):bool
23 _+_ (int,int):int (uint,uint):uint (double,double):double (string,string):string (bytes,bytes):bytes (list(A),list(A)):list(A) (duration,duration):duration (timestamp,duration):timestamp (duration,timestamp):timestamp
23 _-_ (int,int):int (uint,uint):uint (double,double):double (duration,duration):duration (timestamp,duration):timestamp (timestamp,timestamp):duration
23 _*_ (int,int):int (uint,uint):uint (double,double):double
23 _/_ (int,int):int (uint,uint):uint (double,double):double
23 _%_ (int,int):int (uint,uint):uint
23 -_ (int):int (double):double
23 !_ (bool):bool
23 @not_strictly_false (bool):bool
23 _?_:_ (bool,A,A):A
23 _[_] (list(A),int):A (map(K,V),K):V
28 _[_] (optional(list(A)),int):optional(A) (optional(map(K,V)),K):optional(V)
28 _[?_] (list(A),int):optional(A) (optional(list(A)),int):optional(A) (map(K,V),K):optional(V) (optional(map(K,V)),K):optional(V)
23 @in (A,list(A)):bool (A,map(A,B)):bool
23 size (string):int (bytes):int (list(A)):int (map(K,V)):int string.():int bytes.():int list(A).():int map(K,V).():int
23 contains string.(string):bool
23 startsWith string.(string):bool
23 endsWith string.(string):bool
23 matches string.(string):bool (string,string):bool
23 string (string):string (bool):string (int):string (uint):string (double):string (bytes):string (timestamp):string (duration):string
30 string (ip):string (cidr):string
23 bytes (string):bytes (bytes):bytes
23 int (int):int (uint):int (double):int (string):int (timestamp):int (duration):int
23 uint (uint):uint (int):uint (double):uint (string):uint
23 double (double):double (int):double (uint):double (string):double
23 bool (bool):bool (string):bool
23 duration (duration):duration (string):duration (int):duration
23 timestamp (timestamp):timestamp (string):timestamp (int):timestamp
23 type (A):type(A)
23 dyn (A):dyn
23 getFullYear timestamp.():int timestamp.(string):int
23 getMonth timestamp.():int timestamp.(string):int
23 getDate timestamp.():int timestamp.(string):int
23 getDayOfMonth timestamp.():int timestamp.(string):int
23 getDayOfWeek timestamp.():int timestamp.(string):int
23 getDayOfYear timestamp.():int timestamp.(string):int
23 getHours timestamp.():int timestamp.(string):int duration.():int
23 getMinutes timestamp.():int timestamp.(string):int duration.():int
23 getSeconds timestamp.():int timestamp.(string):int duration.():int
23 getMilliseconds timestamp.():int timestamp.(string):int duration.():int
32 cel.@mapInsert (map(K,V),K,V):map(K,V) (map(K,V),map(K,V)):map(K,V)
28 optional.of (A):optional(A)
28 optional.ofNonZeroValue (A):optional(A)
28 optional.none ():optional(A)
28 value optional(A).():A
28 hasValue optional(A).():bool
28 or optional(A).(optional(A)):optional(A)
28 orValue optional(A).(A):A
28 first list(A).():optional(A)
28 last list(A).():optional(A)
28 optional.unwrap (list(optional(A))):list(A)
28 unwrapOpt list(optional(A)).():list(A)
23 charAt string.(int):string
23 indexOf string.(string):int string.(string,int):int list(A).(A):int
23 lastIndexOf string.(string):int string.(string,int):int list(A).(A):int
23 lowerAscii string.():string
23 upperAscii string.():string
23 trim string.():string
23 substring string.(int):string string.(int,int):string
23 replace string.(string,string):string string.(string,string,int):string
23 split string.(string):list(string) string.(string,int):list(string)
23 join list(string).():string list(string).(string):string
29 format string.(list(dyn)):string
29 strings.quote (string):string
32 jsonpatch.escapeKey (string):string
23 find string.(string):string
23 findAll string.(string):list(string) string.(string,int):list(string)
23 url (string):url
23 isURL (string):bool
23 getScheme url.():string
23 getHost url.():string
23 getHostname url.():string
23 getPort url.():string
23 getEscapedPath url.():string
23 getQuery url.():map(string,list(string))
34 slice list(T).(int,int):list(T)
34 flatten list(list(T)).():list(T) list(dyn).(int):list(dyn)
34 distinct list(T).():list(T)
34 reverse list(T).():list(T)
34 lists.range (int):list(int)
29 sets.contains (list(T),list(T)):bool
29 sets.intersects (list(T),list(T)):bool
29 sets.equivalent (list(T),list(T)):bool
28 quantity (string):quantity
28 isQuantity (string):bool
28 sign (quantity):int
28 isGreaterThan quantity.(quantity):bool
28 isLessThan quantity.(quantity):bool
28 compareTo quantity.(quantity):int
33 isGreaterThan semver.(semver):bool
33 isLessThan semver.(semver):bool
33 compareTo semver.(semver):int
28 asApproximateFloat quantity.():double
28 asInteger quantity.():int
28 isInteger quantity.():bool
28 add quantity.(quantity):quantity quantity.(int):quantity
28 sub quantity.(quantity):quantity quantity.(int):quantity
33 semver (string):semver (string,bool):semver
33 isSemver (string):bool (string,bool):bool
33 major semver.():int
33 minor semver.():int
33 patch semver.():int
30 ip (string):ip cidr.():ip
30 isIP (string):bool
30 ip.isCanonical (string):bool
30 family ip.():int
30 isUnspecified ip.():bool
30 isLoopback ip.():bool
30 isLinkLocalMulticast ip.():bool
30 isLinkLocalUnicast ip.():bool
30 isGlobalUnicast ip.():bool
30 cidr (string):cidr
30 isCIDR (string):bool
30 containsIP cidr.(string):bool cidr.(ip):bool
30 containsCIDR cidr.(string):bool cidr.(cidr):bool
30 prefixLength cidr.():int
30 masked cidr.():cidr
31 format.named (string):optional(format)
31 format.dns1123Label ():format
31 format.dns1123Subdomain ():format
31 format.dns1035Label ():format
31 format.qualifiedName ():format
31 format.dns1123LabelPrefix ():format
31 format.dns1123SubdomainPrefix ():format
31 format.dns1035LabelPrefix ():format
31 format.labelValue ():format
31 format.uri ():format
31 format.uuid ():format
31 format.byte ():format
31 format.date ():format
31 format.datetime ():format
31 validate format.(string):optional(list(string))
27 path authorizer.(string):path
27 group authorizer.(string):group
27 serviceAccount authorizer.(string,string):authorizer
27 resource group.(string):resource
27 subresource resource.(string):resource
27 namespace resource.(string):resource
27 name resource.(string):resource
31 fieldSelector resource.(string):resource
31 labelSelector resource.(string):resource
27 check path.(string):decision resource.(string):decision
27 allowed decision.():bool
27 errored decision.():bool
27 reason decision.():string
27 error decision.():string
";

/// Names of types that stand for themselves in expressions.
pub(crate) fn type_named(name: &str) -> Option<Type> {
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
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        types::IP => Type::Opaque(types::IP),
        types::CIDR => Type::Opaque(types::CIDR),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_signature() {
        for line in TABLE.lines().filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            assert!(words.next().unwrap().parse::<u32>().is_ok(), "{line}");
            words.next().unwrap();
            for signature in words {
                assert!(overload(23, signature).is_some(), "{signature}");
            }
        }
    }
}
