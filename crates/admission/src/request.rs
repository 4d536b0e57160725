//! What is asked for.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    user::User,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A version in which a resource is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    pub gv: GroupVersion,
    pub resource: Arc<str>,
    /// Of the object: through a subresource it is of a group of its own.
    pub kind: GroupVersionKind,
}

/// A request as it is shown to who is asked about it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub operation: Operation,
    /// As the request has it.
    pub asked: &'a Form,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty where there is none yet, and of a member of a collection that is deleted.
    pub name: &'a str,
    /// Empty at the cluster scope; of a namespace it is the namespace.
    pub namespace: &'a str,
    pub user: &'a User,
    pub dry_run: bool,
    /// `CreateOptions` and the like; `null` of a connection.
    pub options: &'a Value,
}

impl Request<'_> {
    /// Whether it is about a namespace, or a subresource of one.
    pub fn is_about_namespace(&self) -> bool {
        self.asked.gv.group.is_empty() && &*self.asked.resource == "namespaces"
    }

    /// The fields of an `AdmissionRequest` but for its uid and objects, as of the version that was
    /// matched. What is empty is left out.
    pub fn to_json(&self, matched: &Form) -> Map<String, Value> {
        let kind = |form: &Form| {
            let kind = &form.kind;
            json!({"group": &*kind.group, "version": &*kind.version, "kind": &*kind.kind})
        };
        let resource = |form: &Form| {
            let gv = &form.gv;
            json!({"group": &*gv.group, "version": &*gv.version, "resource": &*form.resource})
        };
        let mut fields = Map::new();
        fields.insert("kind".into(), kind(matched));
        fields.insert("resource".into(), resource(matched));
        fields.insert("requestKind".into(), kind(self.asked));
        fields.insert("requestResource".into(), resource(self.asked));
        for (field, value) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !value.is_empty() {
                fields.insert(field.into(), value.into());
            }
        }
        fields.insert("operation".into(), self.operation.as_str().into());
        fields.insert("userInfo".into(), self.user.to_json());
        fields.insert("dryRun".into(), self.dry_run.into());
        fields.insert("options".into(), self.options.clone());
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_left_out() {
        let form = |version: &str| Form {
            gv: GroupVersion::new("autoscaling", version),
            resource: "horizontalpodautoscalers".into(),
            kind: GroupVersionKind::new("autoscaling", version, "HorizontalPodAutoscaler"),
        };
        let user = User { name: "ana".into(), groups: vec!["devs".into()], ..User::default() };
        let (asked, options) = (form("v2"), json!({"kind": "CreateOptions"}));
        let request = Request {
            operation: Operation::Create,
            asked: &asked,
            subresource: "",
            name: "",
            namespace: "shop",
            user: &user,
            dry_run: false,
            options: &options,
        };
        let gvk = |version: &str| json!({"group": "autoscaling", "version": version, "kind": "HorizontalPodAutoscaler"});
        let gvr = |version: &str| json!({"group": "autoscaling", "version": version, "resource": "horizontalpodautoscalers"});
        let expected = json!({
            "kind": gvk("v1"), "resource": gvr("v1"), "requestKind": gvk("v2"), "requestResource": gvr("v2"),
            "namespace": "shop", "operation": "CREATE", "dryRun": false, "options": {"kind": "CreateOptions"},
            "userInfo": {"username": "ana", "groups": ["devs"]},
        });
        assert_eq!(Value::Object(request.to_json(&form("v1"))), expected);
    }
}
