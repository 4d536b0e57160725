//! `Accept` and `Accept-Encoding`: what the client would like to get.

use std::{
    cmp::Reverse,
    sync::{Arc, LazyLock},
};

use http::{HeaderMap, HeaderName, header};

/// The clauses of an `Accept` header, best first, in upstream's order, which is
/// not quite by `q`: see [`sort`].
///
/// As upstream, `q=0` excludes nothing, and only the first of several headers
/// counts. One that is absent or blank stands for `*/*`; one without any usable
/// clause accepts nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept(Arc<[Clause]>);

/// What nearly all requests send, parsed once.
static COMMON: LazyLock<Vec<(&str, Accept)>> = LazyLock::new(|| {
    let texts = [
        "",
        "*/*",
        "application/json",
        "application/json, */*",
        "application/vnd.kubernetes.protobuf, */*",
        "application/vnd.kubernetes.protobuf,application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    ];
    texts.into_iter().map(|text| (text, Accept::parse(text))).collect()
});

/// One media range. Names are in lower case, parameter values as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    kind: String,
    subtype: String,
    params: Vec<(String, String)>,
    /// In millionths, also beyond what HTTP allows.
    q: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Identity,
    Gzip,
}

impl Accept {
    pub fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(header::ACCEPT).map_or(b"".as_slice(), |value| value.as_bytes());
        let common = COMMON.iter().find(|(text, _)| text.as_bytes() == sent);
        match common {
            Some((_, accept)) => accept.clone(),
            // Present but not text: must not read as absent.
            None => Self::parse(std::str::from_utf8(sent).unwrap_or(",")),
        }
    }

    pub fn parse(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::parse("*/*");
        }
        let mut clauses: Vec<Clause> =
            split_outside_quotes(text, ',').into_iter().filter_map(Clause::parse).collect();
        sort(&mut clauses);
        Self(clauses.into())
    }

    /// Best first.
    pub fn clauses(&self) -> &[Clause] {
        &self.0
    }

    /// The offer that the best clause covers; among several, the first. Offers
    /// are `type/subtype` without parameters, and clauses that ask for a
    /// transformation (`as=`) are passed over.
    pub fn choose<'a>(&self, offers: &[&'a str]) -> Option<&'a str> {
        self.0
            .iter()
            .filter(|clause| clause.param("as").is_none())
            .find_map(|clause| offers.iter().find(|offer| clause.covers(offer)).copied())
    }

    /// Whether upstream's router lets a request through to one of `types`: it
    /// knows whole types and `*/*`, and looks at nothing else.
    pub fn names_one_of(&self, types: &[&str]) -> bool {
        self.0.iter().any(|clause| match clause.wildcards() {
            0 => types.iter().any(|known| clause.covers(known)),
            1 => false,
            _ => true,
        })
    }
}

impl Clause {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = split_outside_quotes(text, ';').into_iter();
        let range = parts.next()?.trim().to_ascii_lowercase();
        let (kind, subtype) = match range.split_once('/') {
            Some((kind, subtype)) => (kind.trim(), subtype.trim()),
            None if range == "*" => ("*", "*"),
            None => return None,
        };
        if kind.is_empty() || subtype.is_empty() || (kind == "*" && subtype != "*") {
            return None;
        }
        let mut clause = Self { kind: kind.into(), subtype: subtype.into(), params: vec![], q: 1_000_000 };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
            if name == "q" {
                // What is no number is none, and beyond what can be told apart all is alike.
                clause.q = (value.parse::<f64>().unwrap_or(0.0) * 1e6) as i64;
            } else if !name.is_empty() {
                clause.params.push((name, value.to_owned()));
            }
        }
        Some(clause)
    }

    /// `media_type` is `type/subtype`.
    pub fn covers(&self, media_type: &str) -> bool {
        let (kind, subtype) = media_type.split_once('/').unwrap_or((media_type, ""));
        (self.kind == "*" || self.kind.eq_ignore_ascii_case(kind))
            && (self.subtype == "*" || self.subtype.eq_ignore_ascii_case(subtype))
    }

    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a kind other than the object's own is asked for. As upstream, a
    /// group or a version without a kind asks for something, too.
    pub fn transforms(&self) -> bool {
        ["as", "g", "v"].into_iter().any(|name| self.param(name).is_some_and(|value| !value.is_empty()))
    }

    /// Whether it asks for a way of streaming that nobody knows.
    pub fn streams_unheard_of(&self) -> bool {
        !matches!(self.param("stream"), None | Some("" | "watch"))
    }

    fn wildcards(&self) -> u8 {
        u8::from(self.kind == "*") + u8::from(self.subtype == "*")
    }
}

impl Encoding {
    /// Gzip if the client accepts it and does not prefer the plain form. Here
    /// `q=0` excludes, as HTTP has it.
    pub fn of(headers: &HeaderMap) -> Self {
        let (mut gzip, mut identity, mut any) = (None, None, None);
        for part in joined(headers, &header::ACCEPT_ENCODING).split(',') {
            let mut params = part.split(';');
            let coding = params.next().unwrap_or_default().trim().to_ascii_lowercase();
            let q = params
                .filter_map(|param| param.split_once('='))
                .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
                .map_or(Some(1000), |(_, value)| parse_q(value.trim()))
                .unwrap_or(0);
            match coding.as_str() {
                "gzip" | "x-gzip" => gzip = Some(q),
                "identity" => identity = Some(q),
                "*" => any = Some(q),
                _ => {}
            }
        }
        let gzip = gzip.or(any).unwrap_or(0);
        if gzip > 0 && gzip >= identity.unwrap_or(0) { Self::Gzip } else { Self::Identity }
    }
}

/// As upstream sorts, which asks of two neighbours whether the second belongs before the first: by a
/// higher quality, or else, whatever its quality is, because the first is a wildcard. So a concrete
/// type behind a wildcard goes before it even with `q=0`.
fn sort(clauses: &mut [Clause]) {
    // Go sorts more than that in another way, which depends on what comes where.
    const SORTED_BY_INSERTION: usize = 12;
    if clauses.len() > SORTED_BY_INSERTION {
        clauses.sort_by_key(|clause| (Reverse(clause.q), clause.wildcards()));
        return;
    }
    let goes_before = |this: &Clause, other: &Clause| {
        this.q > other.q
            || (this.kind != "*" && other.kind == "*")
            || (this.subtype != "*" && other.subtype == "*")
    };
    for end in 1..clauses.len() {
        for place in (1..=end).rev() {
            let is_next =
                matches!(clauses.get(place - 1..=place), Some([other, this]) if goes_before(this, other));
            if !is_next {
                break;
            }
            clauses.swap(place - 1, place);
        }
    }
}

/// A quality between 0 and 1, in thousandths.
fn parse_q(text: &str) -> Option<u16> {
    let q: f32 = text.parse().ok()?;
    // In range, so neither sign nor fraction is lost by surprise.
    (0.0..=1.0).contains(&q).then_some((q * 1000.0) as u16)
}

/// Several headers of one name count as one list.
fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    if values.is_empty() && headers.contains_key(name) {
        // Present but not text: must not read as absent.
        return ",".into();
    }
    values.join(",")
}

fn split_outside_quotes(text: &str, separator: char) -> Vec<&str> {
    let mut quoted = false;
    text.split(|char| {
        quoted ^= char == '"';
        char == separator && !quoted
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "application/json";
    const OLD: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

    #[test]
    fn the_best_clause_chooses_the_offer() {
        for (accept, expected) in [
            ("", Some(JSON)),
            ("  ", Some(JSON)),
            ("*/*", Some(JSON)),
            ("*", Some(JSON)),
            ("application/*", Some(JSON)),
            ("APPLICATION/JSON", Some(JSON)),
            ("application/json;charset=utf-8", Some(JSON)),
            ("application/com.github.proto-openapi.spec.v3@v1.0+protobuf", Some(OLD)),
            (
                "application/json;q=0.4, application/com.github.proto-openapi.spec.v3@v1.0+protobuf;q=0.5",
                Some(OLD),
            ),
            // Equal q: the concrete one before the wildcard, else as written.
            ("*/*, application/com.github.proto-openapi.spec.v3@v1.0+protobuf", Some(OLD)),
            ("application/json, application/com.github.proto-openapi.spec.v3@v1.0+protobuf", Some(JSON)),
            ("text/html, application/json;q=0.1", Some(JSON)),
            // As upstream, not an exclusion.
            ("application/json;q=0", Some(JSON)),
            ("application/json;q=nonsense", Some(JSON)),
            ("application/json;q=7", Some(JSON)),
            ("text/html", None),
            ("application/json;as=Table;g=meta.k8s.io;v=v1", None),
            ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", Some(JSON)),
            ("garbage", None),
            ("garbage;;;==", None),
            (",,,", None),
            ("/json", None),
            ("application/", None),
            ("*/json", None),
            ("text/html;x=\"a,application/json\"", None),
            ("\"", None),
        ] {
            assert_eq!(Accept::parse(accept).choose(&[JSON, OLD]), expected, "{accept:?}");
        }
    }

    #[test]
    fn the_router_knows_whole_types_and_everything() {
        for (accept, expected) in [
            ("", true),
            ("*/*", true),
            ("*/*;q=0", true),
            (JSON, true),
            ("application/json;as=Table", true),
            ("application/*", false),
            ("application/*, application/json", true),
            ("text/html", false),
            (OLD, false),
            (",", false),
        ] {
            assert_eq!(Accept::parse(accept).names_one_of(&[JSON]), expected, "{accept:?}");
        }
    }

    #[test]
    fn what_is_common_is_read_like_everything_else() {
        for (text, _) in COMMON.iter() {
            let mut headers = HeaderMap::new();
            headers.append(header::ACCEPT, text.parse().unwrap());
            assert_eq!(Accept::of(&headers), Accept::parse(text));
        }
        assert_eq!(Accept::of(&HeaderMap::new()), Accept::parse(""));
    }

    #[test]
    fn only_the_first_accept_header_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(Accept::of(&headers).choose(&[JSON]), Some(JSON));
        headers.append(header::ACCEPT, "text/html".parse().unwrap());
        assert_eq!(Accept::of(&headers).choose(&[JSON]), None);
        headers.append(header::ACCEPT, JSON.parse().unwrap());
        assert_eq!(Accept::of(&headers).choose(&[JSON]), None);
    }

    /// As kube-apiserver 1.36.4 answered with JSON or YAML.
    #[test]
    fn a_quality_counts_less_than_being_concrete() {
        const YAML: &str = "application/yaml";
        for (accept, expected) in [
            ("application/json;q=0", JSON),
            ("*/*;q=0", JSON),
            ("application/yaml;q=0,application/json;q=0", YAML),
            ("application/json;q=0, application/yaml", YAML),
            ("application/json;q=0.5, application/yaml;q=0.6", YAML),
            ("*/*, application/yaml;q=0", YAML),
            ("application/yaml;q=0, */*", JSON),
            ("application/*, application/yaml;q=0.1", YAML),
            ("application/json;q=abc, application/yaml;q=0.001", YAML),
            ("application/json;q=1, application/yaml;q=2", YAML),
            ("application/yaml;q=-1, application/json;q=0", JSON),
        ] {
            assert_eq!(Accept::parse(accept).choose(&[JSON, YAML]), Some(expected), "{accept}");
        }
    }

    #[test]
    fn an_accept_header_that_is_not_text_accepts_nothing() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, http::HeaderValue::from_bytes(b"\xff\xfe").unwrap());
        assert_eq!(Accept::of(&headers).choose(&[JSON]), None);
    }

    #[test]
    fn parameters_are_found_by_lower_case_name() {
        let accept = Accept::parse("application/json;G=\"meta.k8s.io\"; v = v1;as=Table");
        let clause = &accept.clauses()[0];
        assert_eq!(clause.param("g"), Some("meta.k8s.io"));
        assert_eq!(clause.param("v"), Some("v1"));
        assert_eq!(clause.param("as"), Some("Table"));
        assert_eq!(clause.param("q"), None);
    }

    #[test]
    fn gzip_only_where_accepted_and_not_less_liked() {
        use Encoding::{Gzip, Identity};
        for (value, expected) in [
            (None, Identity),
            (Some(""), Identity),
            (Some("gzip"), Gzip),
            (Some("GZIP"), Gzip),
            (Some("x-gzip"), Gzip),
            (Some("deflate, gzip;q=1.0, *;q=0.5"), Gzip),
            (Some("gzip;q=0"), Identity),
            (Some("gzip;q=0.0, *"), Identity),
            (Some("*"), Gzip),
            (Some("*;q=0"), Identity),
            (Some("identity"), Identity),
            (Some("identity, gzip;q=0.5"), Identity),
            (Some("identity;q=0.5, gzip"), Gzip),
            (Some("identity;q=0, *"), Gzip),
            (Some("br, zstd"), Identity),
            (Some("gzip;q=nonsense"), Identity),
            (Some(";;,=,q"), Identity),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            }
            assert_eq!(Encoding::of(&headers), expected, "{value:?}");
        }
    }
}
