//! Match conditions: expressions that all have to hold.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use sternpost_cel::{
    Activation, Authorization, Authorizer, Budget, CostsBySize, Declaration, Environment, ErrorKind, Program,
    Question, Type, Value as CelValue,
};

use crate::request::{Form, Request};

/// What all conditions of one webhook or policy may cost together.
pub const CONDITIONS_BUDGET: u64 = 2_500_000;

/// `matchConditions`, compiled once.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Condition>);

#[derive(Debug)]
struct Condition {
    expression: String,
    /// What is stored was compiled when it was written, so that an error is a rare thing.
    program: Result<Program, String>,
}

/// Whether a request is one of those meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Yes,
    No,
    /// Nothing can be said, for these reasons.
    Failed(Vec<String>),
}

/// What expressions can name.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// In the version that was matched; `None` is null.
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    /// See [`expression_request`].
    pub request: &'a Value,
    /// The object, or null.
    pub namespace: &'a Value,
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// What `authorizer.requestResource` asks about, but for the verb.
    pub request_resource: &'a Question,
}

impl Conditions {
    /// Of the items of `matchConditions`.
    pub fn compile(conditions: &[Value]) -> Self {
        Self::compile_in(&ENVIRONMENT, conditions)
    }

    /// The same with other variables.
    pub fn compile_in(environment: &Environment, conditions: &[Value]) -> Self {
        let compile = |condition: &Value| {
            let expression = condition.get("expression").and_then(Value::as_str).unwrap_or_default();
            let program = compile_condition(environment, expression);
            Condition { expression: expression.to_owned(), program }
        };
        Self(conditions.iter().map(compile).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What all of them may cost together.
    pub fn costs_by_size(&self) -> CostsBySize {
        self.0.iter().flat_map(|condition| &condition.program).map(Program::costs_by_size).sum()
    }

    /// Who says no is believed, also where others cannot say anything.
    pub fn evaluate(&self, variables: Variables<'_>) -> Verdict {
        self.evaluate_in(&variables.bind(Activation::new()))
    }

    /// The same where variables are bound already.
    pub fn evaluate_in(&self, activation: &Activation<'_>) -> Verdict {
        let mut budget = Budget::new(CONDITIONS_BUDGET);
        let mut failed = Vec::new();
        for Condition { expression, program } in &self.0 {
            let program = match program {
                Ok(program) => program,
                Err(problem) => {
                    failed.push(format!("expression '{expression}' resulted in error: {problem}"));
                    continue;
                }
            };
            match program.evaluate(activation, &mut budget) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => return Verdict::No,
                Err(error) if error.kind() == ErrorKind::Budget => {
                    failed.push(OUT_OF_BUDGET.into());
                    break;
                }
                Err(error) => failed.push(format!("expression '{expression}' resulted in error: {error}")),
            }
        }
        if failed.is_empty() { Verdict::Yes } else { Verdict::Failed(failed) }
    }
}

/// What upstream says when nothing may be evaluated any more.
pub const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What is wrong with the text of a condition, if anything, as upstream tells who writes it.
pub fn problem_of(expression: &str) -> Option<String> {
    compile_condition(&ENVIRONMENT, expression).err()
}

fn compile_condition(environment: &Environment, expression: &str) -> Result<Program, String> {
    let program = environment.compile(expression).map_err(|error| format!("compilation failed: {error}"))?;
    match program.result_type().unwrapped() {
        Type::Bool => Ok(program),
        _ => Err(format!("must evaluate to bool but got {}", program.result_type())),
    }
}

impl<'a> Variables<'a> {
    /// Gives expressions of [`environment`] their values.
    pub fn bind(self, activation: Activation<'a>) -> Activation<'a> {
        let json = |value: Option<&'a Value>| value.map_or(CelValue::Null, CelValue::from_json);
        let authorization = Authorization::new(self.authorizer.clone());
        let check = authorization.about(self.request_resource.clone());
        let activation = activation
            .bind("object", json(self.object))
            .bind("oldObject", json(self.old))
            .bind_json("request", self.request, &REQUEST)
            .bind("authorizer", CelValue::Authorizer(Arc::new(authorization)))
            .bind("authorizer.requestResource", CelValue::Check(Arc::new(check)));
        // Its declaration only says which fields there are: times are text, as upstream has it.
        activation.bind("namespaceObject", CelValue::from_json(self.namespace))
    }
}

/// What conditions and policies have in common: `object`, `oldObject`, `request`,
/// `namespaceObject`, `authorizer` and `authorizer.requestResource`.
pub fn environment() -> Environment {
    ENVIRONMENT.clone()
}

/// A request as expressions see it, as of the version that was matched.
pub fn expression_request(request: &Request<'_>, matched: &Form) -> Value {
    Value::Object(request.to_json(matched))
}

/// The same without anybody to ask who may do what.
pub fn environment_without_authorizer() -> Environment {
    PLAIN.clone()
}

static PLAIN: LazyLock<Environment> = LazyLock::new(|| {
    let dynamic = Arc::new(Declaration::dynamic());
    Environment::new()
        .variable("object", dynamic.clone())
        .variable("oldObject", dynamic)
        .variable("request", REQUEST.clone())
        .variable("namespaceObject", NAMESPACE.clone())
});

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    environment_without_authorizer()
        .variable("authorizer", Arc::new(Declaration::authorizer()))
        .variable("authorizer.requestResource", Arc::new(Declaration::resource_check()))
});

static REQUEST: LazyLock<Arc<Declaration>> = LazyLock::new(|| {
    let text = Declaration::string;
    let kind = || {
        let fields = [("group", text()), ("version", text()), ("kind", text())];
        Declaration::object("kubernetes.GroupVersionKind", fields)
    };
    let resource = || {
        let fields = [("group", text()), ("version", text()), ("resource", text())];
        Declaration::object("kubernetes.GroupVersionResource", fields)
    };
    let user = [
        ("username", text()),
        ("uid", text()),
        ("groups", Declaration::list(text())),
        ("extra", Declaration::map(Declaration::list(text()))),
    ];
    let fields = [
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", text()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", Declaration::object("kubernetes.UserInfo", user)),
        ("dryRun", Declaration::boolean()),
        ("options", Declaration::dynamic()),
    ];
    Arc::new(Declaration::object("kubernetes.AdmissionRequest", fields))
});

/// Without owner references and managed fields.
static NAMESPACE: LazyLock<Arc<Declaration>> = LazyLock::new(|| {
    let text = Declaration::string;
    let texts = || Declaration::map(Declaration::string());
    let metadata = [
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", texts()),
        ("annotations", texts()),
        ("UID", text()),
        ("creationTimestamp", Declaration::of_type(Type::Timestamp)),
        ("deletionGracePeriodSeconds", Declaration::int()),
        ("deletionTimestamp", Declaration::of_type(Type::Timestamp)),
        ("generation", Declaration::int()),
        ("resourceVersion", text()),
        ("finalizers", Declaration::list(text())),
    ];
    let condition = [
        ("status", text()),
        ("type", text()),
        ("lastTransitionTime", Declaration::of_type(Type::Timestamp)),
        ("message", text()),
        ("reason", text()),
    ];
    let condition = Declaration::object("kubernetes.NamespaceCondition", condition);
    let spec = [("finalizers", Declaration::list(text()))];
    let status = [("conditions", Declaration::list(condition)), ("phase", text())];
    let fields = [
        ("metadata", Declaration::object("kubernetes.NamespaceMetadata", metadata)),
        ("spec", Declaration::object("kubernetes.NamespaceSpec", spec)),
        ("status", Declaration::object("kubernetes.NamespaceStatus", status)),
    ];
    Arc::new(Declaration::object("kubernetes.Namespace", fields))
});

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sternpost_cel::Decision;

    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl Authorizer for Nobody {
        fn decide(&self, question: &Question) -> Decision {
            Decision { allowed: question.verb == "get", ..Decision::default() }
        }
    }

    fn verdict(expressions: &[&str]) -> Verdict {
        let list: Vec<Value> = expressions.iter().map(|text| json!({"expression": text})).collect();
        let authorizer: Arc<dyn Authorizer> = Arc::new(Nobody);
        let object = json!({"data": {"k": "v"}});
        let request = json!({"operation": "CREATE", "name": "a", "dryRun": false, "options": {"kind": "CreateOptions"},
            "userInfo": {"username": "ana", "groups": ["devs"]}, "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}});
        Conditions::compile(&list).evaluate(Variables {
            object: Some(&object),
            old: None,
            request: &request,
            namespace: &Value::Null,
            authorizer: &authorizer,
            request_resource: &Question::default(),
        })
    }

    #[test]
    fn one_no_is_enough_and_failures_count_only_without() {
        let failed = |texts: &[&str]| Verdict::Failed(texts.iter().map(|text| (*text).to_owned()).collect());
        let missing = "object.data.no == ''";
        let why = "expression 'object.data.no == ''' resulted in error: no such key: no";
        for (expressions, expected) in [
            (vec![], Verdict::Yes),
            (vec!["true", "object.data.k == 'v'"], Verdict::Yes),
            (vec!["true", "false"], Verdict::No),
            (vec![missing, "false"], Verdict::No),
            (vec![missing, "true"], failed(&[why])),
            (vec![missing, missing], failed(&[why, why])),
            (vec!["oldObject == null && namespaceObject == null"], Verdict::Yes),
            (
                vec!["namespaceObject.metadata.name == 'x'"],
                failed(&[
                    "expression 'namespaceObject.metadata.name == 'x'' resulted in error: no such key: metadata",
                ]),
            ),
            (vec!["request.kind.kind == 'ConfigMap' && 'devs' in request.userInfo.groups"], Verdict::Yes),
            (vec!["!has(request.subResource) && request.options.kind == 'CreateOptions'"], Verdict::Yes),
            (vec!["authorizer.requestResource.check('get').allowed()"], Verdict::Yes),
            (vec!["authorizer.group('').resource('pods').check('list').allowed()"], Verdict::No),
        ] {
            assert_eq!(verdict(&expressions), expected, "{expressions:?}");
        }
    }

    #[test]
    fn conditions_share_a_budget() {
        // About 790 000 each: three fit, the fourth does not.
        let ten = "[0,1,2,3,4,5,6,7,8,9]";
        let all = |within: &str, name: char| format!("{ten}.all({name}, {within})");
        let costly =
            ['e', 'd', 'c', 'b', 'a'].into_iter().fold("true".to_owned(), |within, name| all(&within, name));
        let one: [&str; 1] = [&costly];
        assert_eq!(verdict(&one), Verdict::Yes);
        let many = vec![costly.as_str(); 8];
        assert_eq!(verdict(&many), Verdict::Failed(vec![OUT_OF_BUDGET.into()]));
    }

    #[test]
    fn conditions_must_be_about_something_known_and_true_or_false() {
        for (expression, expected) in [
            ("true", None),
            ("1", Some("must evaluate to bool but got int")),
            ("object.x", Some("must evaluate to bool but got dyn")),
            (
                "request.uid == ''",
                Some(
                    "compilation failed: ERROR: <input>:1:8: undefined field 'uid'\n | request.uid == ''\n | .......^",
                ),
            ),
            (
                "params == null",
                Some(
                    "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params == null\n | ^",
                ),
            ),
        ] {
            assert_eq!(problem_of(expression).as_deref(), expected, "{expression}");
        }
    }
}
