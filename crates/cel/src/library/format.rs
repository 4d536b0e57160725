//! Named formats: `format.dns1123Label().validate(x)`.

use base64::Engine as _;
use sternpost_meta::format;

use crate::{
    library::{time::Timestamp, url::Url},
    value::Value,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedFormat {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    Dns1123LabelPrefix,
    Dns1123SubdomainPrefix,
    Dns1035LabelPrefix,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    Datetime,
}

impl NamedFormat {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "dns1123Label" => Self::Dns1123Label,
            "dns1123Subdomain" => Self::Dns1123Subdomain,
            "dns1035Label" => Self::Dns1035Label,
            "qualifiedName" => Self::QualifiedName,
            "dns1123LabelPrefix" => Self::Dns1123LabelPrefix,
            "dns1123SubdomainPrefix" => Self::Dns1123SubdomainPrefix,
            "dns1035LabelPrefix" => Self::Dns1035LabelPrefix,
            "labelValue" => Self::LabelValue,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "byte" => Self::Byte,
            "date" => Self::Date,
            "datetime" => Self::Datetime,
            _ => return None,
        })
    }

    /// The length of the expression that upstream checks with: what a
    /// validation is charged by.
    pub(crate) fn pattern_length(self) -> u64 {
        match self {
            Self::Dns1123Label | Self::Dns1035Label | Self::Dns1123LabelPrefix | Self::Dns1035LabelPrefix => {
                30
            }
            Self::Dns1123Subdomain | Self::QualifiedName | Self::Dns1123SubdomainPrefix => 60,
            Self::LabelValue => 40,
            Self::Uri => 1103,
            Self::Uuid => 70,
            Self::Byte => 84,
            Self::Date | Self::Datetime => 71,
        }
    }

    /// The problems, or none.
    pub(crate) fn validate(self, text: &str) -> Value<'static> {
        // A prefix may end in a dash that a generated suffix will follow.
        let prefix = || match text.strip_suffix('-') {
            Some(before) if !before.is_empty() => format!("{before}a"),
            _ => text.to_owned(),
        };
        let one = |fine: bool, problem: &str| if fine { Vec::new() } else { vec![problem.to_owned()] };
        let problems = match self {
            Self::Dns1123Label => format::dns_label(text),
            Self::Dns1123Subdomain => format::dns_subdomain(text),
            Self::Dns1035Label => format::dns1035_label(text),
            Self::QualifiedName => format::qualified_name(text),
            Self::Dns1123LabelPrefix => format::dns_label(&prefix()),
            Self::Dns1123SubdomainPrefix => format::dns_subdomain(&prefix()),
            Self::Dns1035LabelPrefix => format::dns1035_label(&prefix()),
            Self::LabelValue => format::label_value(text),
            Self::Uri => Url::parse(text).err().into_iter().collect(),
            Self::Uuid => one(is_uuid(text), "does not match the UUID format"),
            Self::Byte => {
                one(base64::engine::general_purpose::STANDARD.decode(text).is_ok(), "invalid base64")
            }
            Self::Date => one(Timestamp::parse(&format!("{text}T00:00:00Z")).is_some(), "invalid date"),
            Self::Datetime => one(Timestamp::parse(text).is_some(), "invalid datetime"),
        };
        if problems.is_empty() {
            return Value::optional(None);
        }
        Value::optional(Some(Value::list(problems.into_iter().map(Value::text).collect())))
    }
}

fn is_uuid(text: &str) -> bool {
    let hex = text.replace('-', "");
    let dashes = text.match_indices('-').all(|(at, _)| matches!(at, 8 | 13 | 18 | 23));
    hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) && dashes
}
