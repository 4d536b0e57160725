//! `vars`: values of some objects' fields, put in where `$(NAME)` stands.

use std::collections::{HashMap, HashSet};

use sternpost_meta::gvk::GroupVersion;
use sternpost_yaml::node::{Content, Node, Scalar};

use crate::build::Accumulated;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::field_spec::Create;
use crate::kustomization::{FieldReference, Var};
use crate::resources::Resources;

const DEFAULT_FIELD: &str = "metadata.name";

/// Adds a kustomization's own, which must name exactly one object each.
pub(crate) fn register(vars: &[Var], into: &mut Accumulated) -> Result<()> {
    if vars.is_empty() {
        return Ok(());
    }
    let shown = format!("merging vars {}", go_list(vars));
    let vars: Vec<Var> = vars.iter().cloned().map(defaulted).collect();
    for var in &vars {
        let selected = into.resources.iter().enumerate().filter(|(_, resource)| selects(var, resource));
        let selected: Vec<usize> = selected.map(|(at, _)| at).collect();
        let matches = selected.len();
        if matches > 1 {
            return Err(Error::new(format!(
                "found {matches} resId matches for var {} (unable to disambiguate)",
                go_struct(&Var { fieldref: FieldReference::default(), ..var.clone() })
            ))
            .within(shown));
        }
        for at in selected {
            if let Some(resource) = into.resources.get_mut(at) {
                resource.ref_vars.push(var.name.clone());
            }
        }
    }
    merge(&mut into.vars, vars).map_err(|error| error.within(shown))
}

/// A name is defined once in a whole build, or several times alike.
pub(crate) fn merge(vars: &mut Vec<Var>, others: Vec<Var>) -> Result<()> {
    for var in others {
        if vars.iter().any(|known| known.name == var.name) {
            return Err(Error::new(format!("var '{}' already encountered", var.name)));
        }
        vars.push(var);
    }
    Ok(())
}

fn defaulted(mut var: Var) -> Var {
    if var.fieldref.field_path.is_empty() {
        DEFAULT_FIELD.clone_into(&mut var.fieldref.field_path);
    }
    if !var.objref.api_version.is_empty() {
        let (group, version) = GroupVersion::split(&var.objref.api_version);
        (var.objref.group, var.objref.version) = (group.to_owned(), version.to_owned());
        var.objref.api_version.clear();
    }
    var
}

fn selects(var: &Var, resource: &crate::resource::Resource) -> bool {
    let target = &var.objref;
    let any_or = |pattern: &str, value: &str| pattern.is_empty() || pattern == value;
    let matches = |id: &crate::id::ResId| {
        id.name == target.name
            && any_or(&target.kind, &id.gvk.kind)
            && any_or(&target.group, &id.gvk.group)
            && any_or(&target.version, &id.gvk.version)
            && (target.namespace.is_empty() || target.namespace == id.effective_namespace())
    };
    matches(resource.id()) || resource.previous_ids().any(|id| matches(&id))
}

/// Puts the values in. The warnings say what was never used.
pub(crate) fn resolve(
    resources: &mut Resources,
    config: &Config,
    vars: &[Var],
    warnings: &mut Vec<String>,
) -> Result<()> {
    if vars.is_empty() {
        return Ok(());
    }
    let mut values = HashMap::new();
    for var in vars {
        // Where it was defined, it meant one object; by now others may have had the same name.
        let meant = resources.iter().find(|resource| resource.ref_vars.contains(&var.name));
        let found = meant.or_else(|| resources.iter().find(|resource| selects(var, resource)));
        let Some(found) = found else {
            return Err(Error::new(format!(
                "var '{}' cannot be mapped to a field in the set of known resources",
                go_struct(var)
            )));
        };
        let value = field(&found.node, &var.fieldref.field_path).cloned().ok_or_else(|| {
            Error::new(format!(
                "field specified in var '{}' not found in corresponding resource",
                go_struct(var)
            ))
        })?;
        values.insert(var.name.clone(), value);
    }
    let mut used = HashSet::new();
    let mut expansion = Expansion { values: &values, used: &mut used, warnings };
    let result = resources.all_mut().iter_mut().try_for_each(|resource| {
        config
            .var_reference
            .iter()
            .try_for_each(|spec| spec.apply(resource, Create::Nothing, &mut |node| expansion.field(node)))
    });
    let mut unused: Vec<&str> =
        vars.iter().map(|var| var.name.as_str()).filter(|name| !used.contains(*name)).collect();
    unused.sort_unstable();
    if !unused.is_empty() {
        warnings.push(format!("well-defined vars that were never replaced: {}", unused.join(",")));
    }
    result
}

fn field<'n>(node: &'n Node, path: &str) -> Option<&'n Node> {
    let mut node = node;
    for part in path.split('.') {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        if !name.is_empty() {
            node = node.get(name)?;
        }
        for index in indices.split('[').filter(|index| !index.is_empty()) {
            let index: usize = index.strip_suffix(']')?.parse().ok()?;
            node = node.items().get(index)?;
        }
    }
    Some(node)
}

struct Expansion<'v> {
    values: &'v HashMap<String, Node>,
    used: &'v mut HashSet<String>,
    warnings: &'v mut Vec<String>,
}

impl Expansion<'_> {
    /// A text, or a list or mapping of texts.
    fn field(&mut self, node: &mut Node) -> Result<()> {
        if node.is_null() {
            return Ok(());
        }
        match &mut node.content {
            Content::Scalar(_) => {
                self.scalar(node);
                Ok(())
            }
            Content::Sequence(items) => items.iter_mut().try_for_each(|item| {
                if !item.scalar().is_some_and(Scalar::is_string) {
                    return Err(Error::new("invalid value type expect a string"));
                }
                self.scalar(item);
                Ok(())
            }),
            Content::Mapping(pairs) => {
                let text = |value: &Node| value.scalar().is_some_and(Scalar::is_string);
                pairs.iter_mut().filter(|(_, value)| text(value)).for_each(|(_, value)| self.scalar(value));
                Ok(())
            }
        }
    }

    fn scalar(&mut self, node: &mut Node) {
        let Some(scalar) = node.scalar_mut() else { return };
        if !scalar.text.contains('$') {
            return;
        }
        match self.expand(&scalar.text) {
            Expanded::Node(value) => {
                node.content = value.content;
                node.source = value.source;
            }
            Expanded::Text(text) => *scalar = Scalar { style: scalar.style, ..Scalar::string(text) },
        }
    }

    /// `$(NAME)` is replaced if the name is known, `$$` stands for `$`.
    fn expand(&mut self, text: &str) -> Expanded {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
            expanded.push_str(before);
            let after = after.get(1..).unwrap_or_default();
            if let Some(next) = after.strip_prefix('$') {
                expanded.push('$');
                rest = next;
                continue;
            }
            let Some((name, next)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) else {
                expanded.push('$');
                rest = after;
                continue;
            };
            rest = next;
            match self.values.get(name) {
                Some(value) if value.scalar().is_some() => {
                    self.used.insert(name.to_owned());
                    if expanded.is_empty() && next.is_empty() {
                        return Expanded::Node(value.clone());
                    }
                    expanded.push_str(value.as_text().unwrap_or_default());
                }
                Some(value) => {
                    let (kind, shown) = match &value.content {
                        Content::Sequence(_) => ("[]interface {}", String::new()),
                        _ => ("map[string]interface {}", go_map(value)),
                    };
                    self.warnings
                        .push(format!("MakePrimitiveReplacer: bad replacement type={kind} val={shown}"));
                    expanded.push_str(&format!("$({name})"));
                }
                None => expanded.push_str(&format!("$({name})")),
            }
        }
        expanded.push_str(rest);
        Expanded::Text(expanded)
    }
}

enum Expanded {
    /// The text was one reference and nothing else, so the type comes along.
    Node(Node),
    Text(String),
}

fn go_map(node: &Node) -> String {
    let pair = |(key, value): &(Node, Node)| {
        format!("{}:{}", key.as_text().unwrap_or_default(), value.as_text().unwrap_or_default())
    };
    let mut pairs: Vec<String> = node.pairs().iter().map(pair).collect();
    pairs.sort();
    format!("map[{}]", pairs.join(" "))
}

/// As Go prints the struct.
fn go_struct(var: &Var) -> String {
    let objref = &var.objref;
    let gvk = crate::id::GvkPattern {
        group: objref.group.clone(),
        version: objref.version.clone(),
        kind: objref.kind.clone(),
    };
    format!("{{{} {gvk} {{{}}}}}", var.name, var.fieldref.field_path)
}

fn go_list(vars: &[Var]) -> String {
    let vars: Vec<String> = vars.iter().map(go_struct).collect();
    format!("[{}]", vars.join(" "))
}
