//! What a validating policy gets wrong about the kinds that it names.

use std::sync::Arc;

use serde_json::{Value, json};
use sternpost_cel::Declaration;
use sternpost_meta::gvk::GroupVersionKind;

use super::{
    compile::{Compiler, Purpose},
    items, text,
};

/// How many kinds of one policy are looked at.
pub const MAX_KINDS: usize = 10;

/// `status.typeChecking`: what is wrong with validations and their messages if objects are of these kinds.
pub fn type_checking(
    policy: &Value,
    kinds: &[(GroupVersionKind, Arc<Declaration>)],
    params: Option<&Arc<Declaration>>,
) -> Value {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let compilers: Vec<(&GroupVersionKind, Compiler)> = kinds
        .iter()
        .take(MAX_KINDS)
        .map(|(kind, declaration)| {
            let mut compiler = Compiler::typed(declaration, params);
            for variable in items(spec, "variables") {
                // Only those that use it are told.
                let _ = compiler.variable(text(variable, "name"), text(variable, "expression"));
            }
            (kind, compiler)
        })
        .collect();
    let mut warnings = Vec::new();
    for (index, validation) in items(spec, "validations").iter().enumerate() {
        for (field, purpose) in [("expression", Purpose::Validation), ("messageExpression", Purpose::Message)]
        {
            let expression = text(validation, field);
            if expression.is_empty() {
                continue;
            }
            let complaints = compilers.iter().filter_map(|(kind, compiler)| {
                let complaint = compiler.complaint(purpose, expression)?;
                let GroupVersionKind { group, version, kind } = kind;
                Some(format!("{group}/{version}, Kind={kind}: {complaint}\n"))
            });
            let complaints: Vec<String> = complaints.collect();
            if !complaints.is_empty() {
                let field = format!("spec.validations[{index}].{field}");
                warnings.push(json!({"fieldRef": field, "warning": complaints.join("\n")}));
            }
        }
    }
    if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) }
}
