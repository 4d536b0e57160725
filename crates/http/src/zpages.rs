//! `/statusz` and `/flagz`: what this server is and how it was started, for people who look for
//! a fault.
//!
//! As text, or as an object for whoever asks for one by group, version and kind
//! (`application/json;g=config.k8s.io;v=v1beta1;as=Statusz`). Any method will do, as upstream.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use sternpost_clock::Clock;
use sternpost_golang::time::Timestamp;
use sternpost_meta::status::Status;

use crate::{
    accept::{Accept, Clause},
    request::Request,
    response::{self, Format, Response, Spacing},
    version,
};

/// What the pages tell.
#[derive(Debug, Clone)]
pub struct Zpages {
    pub started: SystemTime,
    /// By their names, without dashes.
    pub flags: BTreeMap<String, String>,
}

impl Zpages {
    /// Of a server that starts now, without flags.
    pub fn new(clock: &Clock) -> Self {
        Self { started: clock.wall(), flags: BTreeMap::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Statusz,
    Flagz,
}

/// The name of the component, whoever serves it.
const COMPONENT: &str = "apiserver";
const GROUP: &str = "config.k8s.io";
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];
const DEPRECATED: &str = "v1alpha1";
const TYPES: [&str; 3] = ["application/json", "application/yaml", "text/plain"];

const NOTICE: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                      guarantees and is for debugging purposes only.";

/// What of the paths of this server `/statusz` names.
const PATHS: [&str; 7] = ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];

impl Page {
    pub const ALL: [Self; 2] = [Self::Statusz, Self::Flagz];

    pub fn name(self) -> &'static str {
        match self {
            Self::Statusz => "statusz",
            Self::Flagz => "flagz",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Statusz => "Statusz",
            Self::Flagz => "Flagz",
        }
    }

    /// The form that a clause asks for.
    fn form(self, clause: &Clause) -> Option<Form> {
        if !clause.transforms() {
            return clause.covers("text/plain").then_some(Form::Text);
        }
        let version = VERSIONS.into_iter().find(|version| clause.param("v") == Some(version))?;
        let named = clause.param("g") == Some(GROUP) && clause.param("as") == Some(self.kind());
        let format =
            [Format::Json, Format::Yaml].into_iter().find(|format| clause.covers(format.media_type()))?;
        named.then_some(Form::Object(format, version))
    }
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Object(Format, &'static str),
}

pub fn serve(pages: &Zpages, page: Page, request: &Request) -> Response {
    let up = request.clock.wall().duration_since(pages.started).unwrap_or_default();
    let accept = Accept::of(&request.headers);
    match accept.clauses().iter().find_map(|clause| page.form(clause)) {
        Some(Form::Text) => {
            let text = match page {
                Page::Statusz => status_text(pages.started, up),
                Page::Flagz => flag_text(&pages.flags),
            };
            let utf8 = HeaderValue::from_static("text/plain; charset=utf-8");
            response::with_type(StatusCode::OK, utf8, text.into())
        }
        Some(Form::Object(format, version)) => {
            let object = object(pages, page, version, up);
            let (format, body) = format.encode(Spacing::wanted_by(request), &object);
            let media = format!("{};g={GROUP};v={version};as={}", format.media_type(), page.kind());
            let media = HeaderValue::try_from(media).unwrap_or(HeaderValue::from_static("application/json"));
            let mut response = response::with_type(StatusCode::OK, media, body);
            if version == DEPRECATED {
                let name = page.name();
                let warning = format!(
                    "299 - \"This version of the {name} endpoint is deprecated. Please use a newer version.\""
                );
                response
                    .headers_mut()
                    .extend(HeaderValue::try_from(warning).ok().map(|text| (header::WARNING, text)));
            }
            response
        }
        None => {
            let status = Status::not_acceptable(&TYPES);
            response::error(&request.headers, Spacing::wanted_by(request), &status)
        }
    }
}

fn object(pages: &Zpages, page: Page, version: &str, up: Duration) -> Value {
    let mut object = json!({
        "kind": page.kind(),
        "apiVersion": format!("{GROUP}/{version}"),
        "metadata": {"name": COMPONENT},
    });
    let fields = match page {
        Page::Flagz => json!({"flags": pages.flags}),
        Page::Statusz => json!({
            "startTime": started(pages.started),
            "uptimeSeconds": up.as_secs(),
            "goVersion": "",
            "binaryVersion": version::KUBERNETES,
            "emulationVersion": emulation(),
            "paths": PATHS,
        }),
    };
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
        object.extend(fields);
    }
    object
}

fn status_text(start: SystemTime, up: Duration) -> String {
    let seconds = up.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!(
        "\n{COMPONENT} statusz\n{NOTICE}\n\nStarted: {}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
         Go version: \nBinary version: {}\nEmulation version: {}\nPaths: {}\n",
        unix_date(start),
        version::KUBERNETES,
        emulation(),
        PATHS.join(" "),
    )
}

fn flag_text(flags: &BTreeMap<String, String>) -> String {
    let mut text = format!("\n{COMPONENT} flagz\n{NOTICE}\n");
    for (name, value) in flags {
        text += &format!("{name}: {value}\n");
    }
    text
}

/// `1.36` of `1.36.4`.
fn emulation() -> &'static str {
    version::KUBERNETES.rsplit_once('.').map_or(version::KUBERNETES, |(minor, _)| minor)
}

fn started(time: SystemTime) -> String {
    Timestamp::from(time).to_time()
}

/// As `date` writes it: `Sun Nov  1 23:21:10 UTC 2026`.
fn unix_date(time: SystemTime) -> String {
    // `Sun, 01 Nov 2026 23:21:10 GMT`
    let text = httpdate::fmt_http_date(time);
    let mut words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let mut next = || words.next().unwrap_or_default();
    let (weekday, day, month, year, clock) = (next(), next(), next(), next(), next());
    let day = day.trim_start_matches('0');
    format!("{weekday} {month} {day:>2} {clock} UTC {year}")
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::testing;

    fn pages() -> Zpages {
        let flags = [("listen", "127.0.0.1:6443"), ("kubeconfig", "")];
        Zpages {
            started: SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_784_870),
            flags: flags.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

    fn ask(page: Page, accept: &str) -> Response {
        let target = format!("/{}", page.name());
        serve(&pages(), page, &testing::request(Method::GET, &target, &[("accept", accept)]))
    }

    /// As kube-apiserver 1.36.4 answered, but for the version of Go.
    #[test]
    fn texts_equal_those_of_kube_apiserver() {
        let expected = "\napiserver statusz\n\
            Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n\
            \nStarted: Sun Nov 15 23:21:10 UTC 2026\nUp: 1 hr 02 min 03 sec\nGo version: \nBinary version: 1.36.4\n\
            Emulation version: 1.36\nPaths: /flagz /healthz /livez /metrics /readyz /statusz /version\n";
        assert_eq!(status_text(pages().started, Duration::from_secs(3723)), expected);
        let first = SystemTime::UNIX_EPOCH;
        assert_eq!(unix_date(first), "Thu Jan  1 00:00:00 UTC 1970");
        let flags = "\napiserver flagz\n\
            Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n\
            kubeconfig: \nlisten: 127.0.0.1:6443\n";
        assert_eq!(flag_text(&pages().flags), flags);
    }

    /// The code and content type that kube-apiserver 1.36.4 answered.
    #[test]
    fn forms_are_chosen_as_by_kube_apiserver() {
        let text = "text/plain; charset=utf-8";
        for (accept, code, media) in [
            ("", 200, text),
            ("*/*", 200, text),
            ("text/*", 200, text),
            ("text/plain", 200, text),
            ("application/json, text/plain", 200, text),
            ("application/json", 406, "application/json"),
            ("application/yaml", 406, "application/yaml"),
            ("text/html", 406, "application/json"),
            (
                "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
                200,
                "application/json;g=config.k8s.io;v=v1beta1;as=Statusz",
            ),
            (
                "application/json;v=v1beta1;g=config.k8s.io;as=Statusz, text/plain",
                200,
                "application/json;g=config.k8s.io;v=v1beta1;as=Statusz",
            ),
            (
                "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz",
                200,
                "application/yaml;g=config.k8s.io;v=v1alpha1;as=Statusz",
            ),
            ("application/json;v=v2;g=config.k8s.io;as=Statusz", 406, "application/json"),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", 406, "application/json"),
            (
                "application/vnd.kubernetes.protobuf;v=v1beta1;g=config.k8s.io;as=Statusz",
                406,
                "application/json",
            ),
        ] {
            let response = ask(Page::Statusz, accept);
            let found = testing::header(&response, "content-type");
            assert_eq!((response.status().as_u16(), found), (code, Some(media)), "{accept}");
            let warned = testing::header(&response, "warning");
            let expected = (media.contains("v1alpha1")).then_some(
                "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\"",
            );
            assert_eq!(warned, expected, "{accept}");
            if code == 406 && media == "application/json" {
                let message = "only the following media types are accepted: application/json, application/yaml, text/plain";
                assert!(testing::body(&response).contains(message), "{accept}");
            }
        }
    }

    #[test]
    fn objects_have_the_fields_of_kube_apiservers() {
        let up = Duration::from_secs(19);
        let expected = json!({
            "kind": "Statusz",
            "apiVersion": "config.k8s.io/v1beta1",
            "metadata": {"name": "apiserver"},
            "startTime": "2026-11-15T23:21:10Z",
            "uptimeSeconds": 19,
            "goVersion": "",
            "binaryVersion": "1.36.4",
            "emulationVersion": "1.36",
            "paths": ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"],
        });
        assert_eq!(object(&pages(), Page::Statusz, "v1beta1", up), expected);
        let expected = json!({
            "kind": "Flagz",
            "apiVersion": "config.k8s.io/v1alpha1",
            "metadata": {"name": "apiserver"},
            "flags": {"kubeconfig": "", "listen": "127.0.0.1:6443"},
        });
        assert_eq!(object(&pages(), Page::Flagz, "v1alpha1", up), expected);
    }
}
