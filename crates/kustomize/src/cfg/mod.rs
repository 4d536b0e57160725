//! `cfg`: reads files of resources and shows them again, whole, counted, found
//! by a query, or as a tree.

mod format;
mod ignore;
pub(crate) mod package;
mod query;
mod tree;

use std::collections::BTreeMap;

use sternpost_yaml::commented::{self, Document, Entry, Node};
use sternpost_yaml::node::Style;

use crate::command::flags::Words;
use crate::command::{Context, Fault, Outcome};
use crate::files;

use package::{Extensions, Resource};
use query::Query;
use tree::{Field, Shown};

const FLOW_STYLE: &str = "FlowStyle";
const TAGGED_STYLE: &str = "TaggedStyle";

pub(crate) fn cat(context: &mut Context<'_>, words: &Words) -> Outcome {
    let mut resources = Vec::new();
    match at_most(words, 1)? {
        [shown] => {
            for package in
                package::read(context, shown, words.still_on("recurse-subpackages"), Extensions::Yaml)?
            {
                match package.resources {
                    Ok(mut found) => {
                        found.iter_mut().for_each(Resource::drop_empty_annotations);
                        resources.extend(found);
                    }
                    Err(message) => {
                        let shown = cleaned(shown);
                        let name = shown.rsplit('/').next().unwrap_or_default();
                        context.say(&format!("{message} in package \"{name}\""));
                    }
                }
            }
        }
        _ => {
            let text = context.input()?;
            resources = package::read_text(&text).map_err(Fault::plain)?.resources;
        }
    }
    retain_local(&mut resources, words);
    for resource in &mut resources {
        if words.on("annotate") {
            resource.annotate(true);
        }
        if words.still_on("format") {
            format::format(&mut resource.document.root);
        }
        style(&mut resource.document, words);
    }
    let wraps = !words.text("wrap-kind").is_empty() || !words.text("wrap-version").is_empty();
    let text =
        if wraps { commented::write(&wrapped(context, words, resources)?) } else { stream(&resources) };
    match words.text("dest") {
        "" => context.answer.output.push_str(&text),
        path => {
            let path = context.at(path);
            let written = context.surroundings.files.write(&path, text.as_bytes());
            written.map_err(|error| format!("open {}: {}", path.display(), files::reason(&error)))?;
        }
    }
    Ok(())
}

fn at_most(words: &Words, count: usize) -> Result<&[String], Fault> {
    let arguments = words.arguments.as_slice();
    if arguments.len() > count {
        return Err(format!("accepts at most {count} arg(s), received {}", arguments.len()).into());
    }
    Ok(arguments)
}

fn retain_local(resources: &mut Vec<Resource>, words: &Words) {
    let (local, others) = (words.on("include-local"), !words.on("exclude-non-local"));
    resources.retain(|resource| if resource.is_local() { local } else { others });
}

/// Styles are for the outermost mapping alone, where most mean nothing.
fn style(document: &mut Document, words: &Words) {
    if words.on("strip-comments") {
        document.head.clear();
        document.foot.clear();
        document.root.strip_comments();
    }
    for style in words.all("style") {
        match style.as_str() {
            FLOW_STYLE => document.root.flow = true,
            TAGGED_STYLE => document.root.tag = Some("!!map".to_owned()),
            _ => {}
        }
    }
}

fn stream(resources: &[Resource]) -> String {
    let texts: Vec<String> = resources.iter().map(|resource| commented::write(&resource.document)).collect();
    texts.join("---\n")
}

fn wrapped(context: &Context<'_>, words: &Words, resources: Vec<Resource>) -> Result<Document, Fault> {
    let text = |flag: &str| Node::scalar(words.text(flag), Style::Plain);
    let items = resources.into_iter().map(|resource| {
        let Document { mut root, mut head, .. } = resource.document;
        if let Some(first) =
            root.entries_mut().and_then(|entries| entries.first_mut()).filter(|_| !head.is_empty())
        {
            head.push(String::new());
            head.append(&mut first.comments.head);
            first.comments.head = head;
        }
        Entry::item(root)
    });
    let mut entries = vec![
        Entry::pair("apiVersion", text("wrap-version")),
        Entry::pair("kind", text("wrap-kind")),
        Entry::pair("items", Node::sequence(items.collect())),
    ];
    let config = words.text("function-config");
    if !config.is_empty() {
        if let Err(error) = files::resolve(context.files(), &context.at(config)) {
            return Err(format!("evalsymlink failure on '{config}' : {error}").into());
        }
        for package in package::read(context, config, true, Extensions::Yaml)? {
            for resource in package.resources?.into_iter().take(1) {
                entries.push(Entry::pair("functionConfig", resource.document.root));
            }
        }
    }
    Ok(Document { root: Node::mapping(entries), head: Vec::new(), foot: Vec::new() })
}

pub(crate) fn count(context: &mut Context<'_>, words: &Words) -> Outcome {
    let by_kind = words.still_on("kind");
    let [shown] = at_most(words, 1)? else {
        let text = context.input()?;
        let resources = package::read_text(&text).map_err(Fault::plain)?.resources;
        say_counts(context, &resources, by_kind);
        return Ok(());
    };
    let packages = package::read(context, shown, words.still_on("recurse-subpackages"), Extensions::Yaml)?;
    for (index, package) in packages.into_iter().enumerate() {
        if index > 0 {
            context.say("");
        }
        let below = package.below.to_string_lossy();
        let slash = if below.is_empty() { "" } else { "/" };
        context.say(&format!("{shown}/{below}{slash}"));
        match package.resources {
            Ok(resources) => say_counts(context, &resources, by_kind),
            Err(message) => context.say(&message),
        }
    }
    Ok(())
}

fn say_counts(context: &mut Context<'_>, resources: &[Resource], by_kind: bool) {
    if !by_kind {
        context.say(&resources.len().to_string());
        return;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for resource in resources {
        *counts.entry(resource.text(&["kind"])).or_default() += 1;
    }
    for (kind, count) in counts {
        context.say(&format!("{kind}: {count}"));
    }
}

pub(crate) fn grep(context: &mut Context<'_>, words: &Words) -> Outcome {
    let [query, from @ ..] = at_most(words, 2)? else {
        return Err("missing required argument: QUERY".into());
    };
    let query = Query::read(query)?;
    let mut found = Vec::new();
    let mut search = |resources: Vec<Resource>| {
        for resource in resources {
            if query.finds(&resource.document)? != words.on("invert-match") {
                found.push(resource);
            }
        }
        Ok(())
    };
    match from {
        [] => {
            let text = context.input()?;
            let resources = package::read_text(&text).map_err(Fault::plain)?.resources;
            search(resources).map_err(|message: String| Fault::plain(message))?;
        }
        [shown, ..] => {
            for package in
                package::read(context, shown, words.still_on("recurse-subpackages"), Extensions::Yaml)?
            {
                let searched = package.resources.and_then(&mut search);
                if let Err(message) = searched {
                    context.say(&message);
                }
            }
            found.iter_mut().for_each(|resource| resource.annotate(words.still_on("annotate")));
        }
    }
    let text = stream(&found);
    context.answer.output.push_str(&text);
    Ok(())
}

pub(crate) fn tree(context: &mut Context<'_>, words: &Words) -> Outcome {
    let shown = at_most(words, 1)?.first().map_or(".", String::as_str);
    if let Err(error) = files::resolve(context.files(), &context.at(shown)) {
        return Err(Fault::plain(format!("evalsymlink failure on '{shown}' : {error}")));
    }
    let mut resources = Vec::new();
    for package in package::read(context, shown, true, Extensions::Yaml)? {
        for mut resource in package.resources.map_err(Fault::plain)? {
            resource.path = package.below.join(&resource.path);
            resources.push(resource);
        }
    }
    retain_local(&mut resources, words);
    tree::sort(&mut resources);
    let branch = match words.text("graph-structure") {
        "owners" => tree::by_owner(&resources, &shown_fields(words)),
        "directory" => tree::by_directory(&cleaned(shown), &resources, &shown_fields(words)),
        _ if tree::has_owners(&resources) => tree::by_owner(&resources, &shown_fields(words)),
        _ => tree::by_directory(&cleaned(shown), &resources, &shown_fields(words)),
    };
    if let Some(branch) = branch.map_err(Fault::plain)? {
        context.answer.output.push_str(&branch.text());
    }
    Ok(())
}

fn cleaned(path: &str) -> String {
    files::clean(std::path::Path::new(path)).to_string_lossy().into_owned()
}

fn shown_fields(words: &Words) -> Shown {
    const OF_CONTAINERS: [&str; 7] = ["name", "image", "command", "args", "ports", "env", "resources"];
    let wanted = |flag: &str| words.on(flag) || words.on("all");
    let mut fields: Vec<Field> = words.all("field").iter().map(|path| Field::new(path)).collect();
    fields.extend(wanted("replicas").then(|| Field::new("spec.replicas")));
    fields.extend(wanted("ports").then(|| Field::new("spec.ports")));
    let container_fields = OF_CONTAINERS.into_iter().filter(|field| wanted(field)).collect();
    Shown { fields, container_fields }
}
