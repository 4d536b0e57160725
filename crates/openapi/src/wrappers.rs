//! Types whose name alone used to tell clients something.
//!
//! Readers of upstream's documents know a few long names by heart: that these
//! values may be null, that a RawExtension is replaced whole. With short names
//! the schema says so itself. Numbers-or-strings are `anyOf`, as both proposals
//! ask.

use std::borrow::Cow;

use sternpost_schema::Schema;

/// The definition as the short spelling publishes it.
pub fn state_facts<'a>(name: &str, schema: &'a Schema) -> Cow<'a, Schema> {
    let change: fn(&mut Schema) = match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => |schema| {
            schema.any_of = std::mem::take(&mut schema.one_of);
            schema.nullable = true;
        },
        // Not nullable: a field of this type that is null is an error upstream too.
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => |schema| {
            schema.any_of = std::mem::take(&mut schema.one_of);
            schema.rest.insert("x-kubernetes-int-or-string".into(), true.into());
        },
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => |schema| {
            schema.nullable = true;
            schema.rest.insert("x-kubernetes-map-type".into(), "atomic".into());
        },
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
        | "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
        | "io.k8s.apimachinery.pkg.apis.meta.v1.Duration"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray" => {
            |schema| schema.nullable = true
        }
        _ => return Cow::Borrowed(schema),
    };
    let mut changed = schema.clone();
    change(&mut changed);
    Cow::Owned(changed)
}
