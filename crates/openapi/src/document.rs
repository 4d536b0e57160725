//! An OpenAPI document as sternpost thinks of it, whichever version it is
//! written in.
//!
//! Parameters always stand where they are used: sharing them is a matter of
//! writing. So are names: definitions are called what upstream calls them.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use sternpost_schema::Schema;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    pub title: Arc<str>,
    pub version: Arc<str>,
    pub paths: BTreeMap<Arc<str>, PathItem>,
    pub schemas: BTreeMap<Arc<str>, Arc<Schema>>,
    /// `securitySchemes` in v3, `securityDefinitions` in v2.
    pub security_schemes: BTreeMap<Arc<str>, Value>,
    /// Sections of `components` other than schemas, parameters, bodies,
    /// responses and security schemes.
    pub components_rest: BTreeMap<Arc<str>, Value>,
    /// Every other key of `info`.
    pub info_rest: BTreeMap<Arc<str>, Value>,
    /// Every other key of the document.
    pub rest: BTreeMap<Arc<str>, Value>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathItem {
    pub operations: BTreeMap<Method, Operation>,
    /// Parameters of every operation below.
    pub parameters: Vec<Parameter>,
    pub rest: BTreeMap<Arc<str>, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Delete,
    Get,
    Head,
    Options,
    Patch,
    Post,
    Put,
}

impl Method {
    pub const ALL: [Method; 7] = [
        Method::Delete,
        Method::Get,
        Method::Head,
        Method::Options,
        Method::Patch,
        Method::Post,
        Method::Put,
    ];

    /// The key of a path item; sorts as the enum does.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Delete => "delete",
            Method::Get => "get",
            Method::Head => "head",
            Method::Options => "options",
            Method::Patch => "patch",
            Method::Post => "post",
            Method::Put => "put",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operation {
    pub tags: Vec<Arc<str>>,
    pub description: Option<Arc<str>>,
    pub operation_id: Option<Arc<str>>,
    pub parameters: Vec<Parameter>,
    pub body: Option<Body>,
    /// By status code.
    pub responses: BTreeMap<Arc<str>, Response>,
    /// What only v2 says, where it is not what [`crate::v2`] would say by rule.
    pub v2: V2Media,
    /// `deprecated`, `summary`, vendor extensions and the like.
    pub rest: BTreeMap<Arc<str>, Value>,
}

/// Media types of an operation as v2 lists them; `None` follows from the
/// bodies, an empty list means the key is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct V2Media {
    pub consumes: Option<Vec<Arc<str>>>,
    pub produces: Option<Vec<Arc<str>>>,
    pub schemes: Option<Vec<Arc<str>>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub name: Arc<str>,
    pub location: Location,
    pub description: Option<Arc<str>>,
    pub required: bool,
    pub schema: Schema,
    pub rest: BTreeMap<Arc<str>, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    Cookie,
    Header,
    Path,
    Query,
}

impl Location {
    pub const ALL: [Location; 4] = [Location::Cookie, Location::Header, Location::Path, Location::Query];

    pub fn as_str(self) -> &'static str {
        match self {
            Location::Cookie => "cookie",
            Location::Header => "header",
            Location::Path => "path",
            Location::Query => "query",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|location| location.as_str() == text)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Body {
    pub description: Option<Arc<str>>,
    pub required: bool,
    pub content: Content,
    pub rest: BTreeMap<Arc<str>, Value>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Response {
    pub description: Arc<str>,
    pub content: Content,
    pub rest: BTreeMap<Arc<str>, Value>,
}

/// By media type.
pub type Content = BTreeMap<Arc<str>, Media>;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Media {
    pub schema: Option<Schema>,
    pub rest: BTreeMap<Arc<str>, Value>,
}

/// The same schema for each of the types.
pub fn content<'a>(types: impl IntoIterator<Item = &'a str>, schema: &Schema) -> Content {
    let media = |_| Media { schema: Some(schema.clone()), rest: BTreeMap::new() };
    types.into_iter().map(|name| (name.into(), media(name))).collect()
}

/// The schema of the first type that has one.
pub fn any_schema(content: &Content) -> Option<&Schema> {
    content.values().find_map(|media| media.schema.as_ref())
}

impl Document {
    /// Every schema the paths use themselves, outside the definitions.
    pub fn path_schemas(&self) -> impl Iterator<Item = &Schema> {
        self.paths.values().flat_map(|item| {
            let own = item.parameters.iter().map(|parameter| &parameter.schema);
            own.chain(item.operations.values().flat_map(Operation::schemas))
        })
    }

    /// The names of the definitions the paths refer to directly.
    pub fn roots(&self) -> impl Iterator<Item = Arc<str>> {
        let mut names = Vec::new();
        for schema in self.path_schemas() {
            schema.walk(&mut |node| names.extend(node.reference.clone()));
        }
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }
}

impl Operation {
    fn schemas(&self) -> impl Iterator<Item = &Schema> {
        let parameters = self.parameters.iter().map(|parameter| &parameter.schema);
        let bodies = self.body.iter().map(|body| &body.content);
        let contents = bodies.chain(self.responses.values().map(|response| &response.content));
        parameters.chain(contents.flat_map(BTreeMap::values).filter_map(|media| media.schema.as_ref()))
    }
}
