//! Named formats: `format.dns1123Label().validate(x)`.

use base64::Engine as _;
use sternpost_meta::format;

use crate::{
    estimate::{self, pattern_cost},
    evaluate::EvalError,
    functions::{Call, Function, function},
    library::{cost, strings::of_text, time::Timestamp, url::Url},
    value::Value,
};

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "format.named",
        "31 (string):optional(format)",
        |call, _| of_text(call, |name| Value::optional(NamedFormat::named(name).map(Value::Format))),
        estimate::one,
        cost::one,
    ),
    function(
        "format.dns1123Label",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Dns1123Label),
        estimate::one,
        cost::one,
    ),
    function(
        "format.dns1123Subdomain",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Dns1123Subdomain),
        estimate::one,
        cost::one,
    ),
    function(
        "format.dns1035Label",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Dns1035Label),
        estimate::one,
        cost::one,
    ),
    function(
        "format.qualifiedName",
        "31 ():format",
        |call, _| constant(call, NamedFormat::QualifiedName),
        estimate::one,
        cost::one,
    ),
    function(
        "format.dns1123LabelPrefix",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Dns1123LabelPrefix),
        estimate::one,
        cost::one,
    ),
    function(
        "format.dns1123SubdomainPrefix",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Dns1123SubdomainPrefix),
        estimate::one,
        cost::one,
    ),
    function(
        "format.dns1035LabelPrefix",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Dns1035LabelPrefix),
        estimate::one,
        cost::one,
    ),
    function(
        "format.labelValue",
        "31 ():format",
        |call, _| constant(call, NamedFormat::LabelValue),
        estimate::one,
        cost::one,
    ),
    function(
        "format.uri",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Uri),
        estimate::one,
        cost::one,
    ),
    function(
        "format.uuid",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Uuid),
        estimate::one,
        cost::one,
    ),
    function(
        "format.byte",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Byte),
        estimate::one,
        cost::one,
    ),
    function(
        "format.date",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Date),
        estimate::one,
        cost::one,
    ),
    function(
        "format.datetime",
        "31 ():format",
        |call, _| constant(call, NamedFormat::Datetime),
        estimate::one,
        cost::one,
    ),
    function(
        "validate",
        "31 format.(string):optional(list(string))",
        |call, _| match call.operands {
            [Value::Format(format), Value::String(text)] => Some(Ok(format.validate(text.as_str()))),
            _ => None,
        },
        |of| of.price(of.tenth(1).saturating_mul(32)),
        |call, _| match call.operands {
            [Value::Format(format), Value::String(_)] => pattern_cost(call.size(1), format.pattern_length()),
            _ => 1,
        },
    ),
];

fn constant<'a>(call: &Call<'_, 'a>, format: NamedFormat) -> Option<Result<Value<'a>, EvalError>> {
    call.operands.is_empty().then_some(Ok(Value::Format(format)))
}

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
    fn named(name: &str) -> Option<Self> {
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
    fn pattern_length(self) -> u64 {
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
    fn validate(self, text: &str) -> Value<'static> {
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
