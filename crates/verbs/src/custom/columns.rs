//! Objects of custom resources as tables.

use serde_json::{Value, json};
use sternpost_crd::table::{cells, headings};
use sternpost_golang::time::Timestamp;
use sternpost_registry::{
    object::{Fields, FieldsMut},
    table::{self, Definitions, IncludeObject, ListMeta},
};

use super::Custom;

impl Custom {
    /// Objects in full as a table, by the columns of their version.
    pub(crate) fn table<'a>(
        &self,
        items: impl Iterator<Item = &'a Value>,
        meta: &ListMeta<'_>,
        include: IncludeObject,
        definitions: Definitions,
        now: Timestamp,
    ) -> Value {
        let row = |item| table::row(self.strategy(), item, cells(&self.version, item, now), include);
        let rows = items.map(row).collect();
        let definitions = match definitions {
            Definitions::Omit => Value::Null,
            Definitions::Send => self.column_definitions(),
        };
        table::assemble(definitions, rows, meta)
    }

    fn column_definitions(&self) -> Value {
        let all = headings(&self.version).into_iter().enumerate().map(|(index, heading)| {
            // The columns that upstream adds itself tell of metadata.
            let own = match (index, self.version.columns.is_empty()) {
                (0, _) => metadata_description("name"),
                (1, true) => metadata_description("creationTimestamp"),
                _ => None,
            };
            json!({
                "name": heading.name,
                "type": heading.kind,
                "format": heading.format,
                "description": own.unwrap_or(&heading.description),
                "priority": heading.priority,
            })
        });
        all.collect()
    }
}

/// What upstream says of a field of every object's metadata.
fn metadata_description(field: &str) -> Option<&'static str> {
    let metadata = sternpost_builtin::definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
    metadata.properties.get(field)?.description.as_deref()
}

/// Upstream describes the columns that all tables have in two ways; of custom resources also where the kind
/// of a subresource is built in.
pub(crate) fn describe_as_custom(table: &mut Value) {
    let columns = table.get_mut("columnDefinitions").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        match column.text("name") {
            "Name" => column.set("format", "name"),
            "Age" => column.set("type", "date"),
            _ => {}
        }
    }
}
