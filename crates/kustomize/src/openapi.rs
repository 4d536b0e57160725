//! `openapi info` and `openapi fetch`.

use serde_json::Value;
use sternpost_golang::json::html_escaped;

use crate::command::flags::Words;
use crate::command::{Context, Outcome};
use crate::files::{self, Command};

/// Which OpenAPI document the built-in schema was taken from.
const BUILTIN: &str = "{title:Kubernetes,version:v1.21.2}";

const NO_CLUSTER: &str = "Error fetching schema from cluster.
Please make sure kubectl is installed, its context is set correctly, and your cluster is up.
Installation and setup instructions: https://kubernetes.io/docs/tasks/tools/install-kubectl/";

pub(crate) fn info(context: &mut Context<'_>, _: &Words) -> Outcome {
    context.say(BUILTIN);
    Ok(())
}

/// Asks kubectl, which knows the current cluster and how to get in.
pub(crate) fn fetch(context: &mut Context<'_>, words: &Words) -> Outcome {
    let format = words.given("format").unwrap_or("json");
    if !["json", "yaml"].contains(&format) {
        return Err("format must be either 'json' or 'yaml'".into());
    }
    let arguments = ["get", "--raw", "/openapi/v2"].map(str::to_owned).to_vec();
    let command = Command { program: "kubectl".to_owned(), arguments, ..Command::default() };
    let ran = context.surroundings.runner.run(&command);
    let ran = ran.map_err(|error| format!("{}\n{NO_CLUSTER}", files::reason(&error)))?;
    if ran.status != Some(0) {
        let status = ran.status.map_or("signal".to_owned(), |status| format!("exit status {status}"));
        let said = String::from_utf8_lossy(&ran.errors).into_owned();
        return Err(format!("{status}\n{said}\n{NO_CLUSTER}").into());
    }
    let document: Value = serde_json::from_slice(&ran.output).map_err(|error| error.to_string())?;
    let text = match format {
        "yaml" => sternpost_yaml::write(&document),
        _ => {
            let json = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
            html_escaped(&json).into_owned()
        }
    };
    // As upstream ends both, which leaves an empty line at the end of YAML.
    let text = format!("{text}\n");
    match words.arguments.first() {
        None => context.answer.output.push_str(&text),
        Some(path) => {
            let path = context.at(path);
            let written = context.surroundings.files.write(&path, text.as_bytes());
            written.map_err(|error| format!("open {}: {}", path.display(), files::reason(&error)))?;
        }
    }
    Ok(())
}
