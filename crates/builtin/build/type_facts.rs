//! Reading `facts/types`: what OpenAPI says of a type beyond its structure.

use crate::facts::{Attributes, FactError, attributes, error, lines, package};

/// All a `types/` file says.
#[derive(Debug)]
pub struct TypeFile<'a> {
    pub package: &'a str,
    pub types: Vec<TypeFacts<'a>>,
}

#[derive(Debug)]
pub struct TypeFacts<'a> {
    pub line: usize,
    pub name: &'a str,
    pub attributes: Attributes<'a>,
    pub properties: Vec<PropertyFacts<'a>>,
}

#[derive(Debug)]
pub struct PropertyFacts<'a> {
    pub line: usize,
    pub name: &'a str,
    pub attributes: Attributes<'a>,
}

pub fn types(text: &str) -> Result<TypeFile<'_>, FactError> {
    let mut lines = lines(text);
    let package = package(&mut lines)?;
    let mut types: Vec<TypeFacts<'_>> = Vec::new();
    for (line, text) in lines {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let attributes = attributes(line, words)?;
        match (text.starts_with(' '), types.last_mut()) {
            (true, Some(parent)) => parent.properties.push(PropertyFacts { line, name, attributes }),
            (true, None) => return error(line, "a property before any type"),
            (false, _) => types.push(TypeFacts { line, name, attributes, properties: Vec::new() }),
        }
    }
    Ok(TypeFile { package, types })
}
