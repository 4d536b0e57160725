//! The server's verdict without a server.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use sternpost_testkit::{scratch::Scratch, server::Server};

/// Exit code, stdout and stderr.
fn validate(words: &[&str], stdin: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .arg("validate")
        .args(words)
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended without reading all.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// What is said of a text, without the name of the file.
fn said(text: &str, words: &[&str]) -> String {
    let (code, stdout, stderr) = validate(&[&["-", "-q"], words].concat(), text);
    let found: Vec<&str> = stdout.lines().map(|line| line.strip_prefix("<stdin>:").unwrap_or(line)).collect();
    let has_errors = found.iter().any(|line| line.contains(": error: "));
    assert_eq!((code, stderr.as_str()), (i32::from(has_errors), ""), "{stdout}");
    found.join("\n")
}

const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: self.low <= self.high, message: low is above high}
            properties:
              low: {type: integer}
              high: {type: integer, default: 5}
";

fn widget(spec: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: w}}\nspec: {spec}\n")
}

#[test]
fn what_is_right_is_valid() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: elsewhere}\nspec: {containers: [{name: c, image: i}]}\n";
    let (code, stdout, stderr) = validate(&["-"], pod);
    assert_eq!(
        (code, stdout.as_str(), stderr.as_str()),
        (0, "", "1 object: 1 valid, 0 invalid; 0 warnings\n")
    );
}

#[test]
fn fields_are_judged_as_the_server_does() {
    for (text, expected) in [
        // Unknown fields, and what else is wrong beside them.
        (
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  selectr: {}\n  ports:\n  - port: 0\n",
            "6:3: error: Service/s: unknown field \"spec.selectr\"; did you mean `selector`?\n\
             8:5: error: Service/s: spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive\n\
             8:5: error: Service/s: spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: 1}\n",
            "1:1: error: ConfigMap/c: ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Upper\n",
            "4:3: error: ConfigMap/Upper: metadata.name: Invalid value: \"Upper\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\ndata: {a: c}\n",
            "5:1: error: key `data` is already set in this mapping",
        ),
        (
            "apiVersion: apps/v1\nkind: Deploymnet\nmetadata: {name: d}\n",
            "1:1: error: Deploymnet/d: there is no schema for Deploymnet in apps/v1; did you mean Deployment in apps/v1?",
        ),
        (
            "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: d}\n",
            "1:1: error: CronJob/d: there is no schema for CronJob in batch/v1beta1; did you mean CronJob in batch/v1?",
        ),
        (
            "apiVersion: nowhere.example/v1\nkind: Something\nmetadata: {name: d}\n",
            "1:1: error: Something/d: there is no schema for Something in nowhere.example/v1",
        ),
        ("a: b\n", "1:1: error: object: this is no object: it has no `apiVersion` or no `kind`"),
        // What a server has already can be written, too.
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {a: b}}\n", ""),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: c-}\n", ""),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes}\nspec: {clusterIP: 10.0.0.1, ports: [{name: https, port: 443}]}\n",
            "",
        ),
    ] {
        assert_eq!(said(text, &[]), expected, "{text}");
    }
}

#[test]
fn definitions_of_the_set_count_whatever_the_order() {
    for (spec, expected) in [
        ("{low: 1}", ""),
        ("{low: 7}", "4:1: error: Widget/w: spec: Invalid value: low is above high"),
        (
            "{low: x}",
            "4:8: error: Widget/w: Invalid value: \"string\": spec.low in body must be of type integer: \"string\"\n\
             1:1: error: Widget/w: Invalid value: null: some validation rules were not checked because the object was invalid; \
             correct the existing errors to complete validation",
        ),
        ("{lo: 1, low: 1}", "4:8: error: Widget/w: unknown field \"spec.lo\""),
    ] {
        let text = format!("{}---\n{DEFINITION}", widget(spec));
        assert_eq!(said(&text, &[]), expected, "{spec}");
    }
    let wrong = DEFINITION.replace("plural: widgets", "plural: gadgets");
    let told = said(&format!("{}---\n{wrong}", widget("{low: 1}")), &[]);
    let first = "1:1: error: Widget/w: its CustomResourceDefinition is not valid (<stdin>:6:1)\n";
    assert!(told.starts_with(first), "{told}");
    assert!(
        told.contains("error: CustomResourceDefinition/widgets.example.com: metadata.name: Invalid value"),
        "{told}"
    );
}

#[test]
fn definitions_come_from_elsewhere_and_missing_ones_are_errors() {
    let files = Scratch::new("validate-schemas");
    let text = widget("{low: 7}");
    assert_eq!(said(&text, &[]), "1:1: error: Widget/w: there is no schema for Widget in example.com/v1");
    let (code, stdout, stderr) = validate(&["-", "--ignore-missing-schemas"], &text);
    assert_eq!(
        (code, stdout.as_str(), stderr.as_str()),
        (0, "", "1 object: 0 valid, 0 invalid, 1 skipped; 0 warnings\n")
    );
    files.write("crd.yaml", DEFINITION);
    files.write("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: not-of-the-set}\n");
    for place in [files.path("crd.yaml"), files.0.to_str().unwrap().to_owned()] {
        let expected = "4:1: error: Widget/w: spec: Invalid value: low is above high";
        assert_eq!(said(&text, &["--schema-file", &place]), expected);
    }
    let broken = files.write("crd.yaml", &DEFINITION.replace("served: true", "served: yes please"));
    let told = said(&text, &["--schema-file", &broken]);
    assert!(
        told.contains(&format!("{broken}:1:1: error: CustomResourceDefinition/widgets.example.com: ")),
        "{told}"
    );
}

#[tokio::test]
async fn definitions_of_a_server_are_known() {
    let files = Scratch::new("validate-server");
    let definitions = files.write("crd.yaml", DEFINITION);
    let server = Server::start_with("validate-server", &["--load", &definitions]).await;
    let kubeconfig = server.kubeconfig().to_str().unwrap();
    let expected = "4:1: error: Widget/w: spec: Invalid value: low is above high";
    assert_eq!(said(&widget("{low: 7}"), &["--kubeconfig", kubeconfig]), expected);
    assert_eq!(said(&widget("{low: 1}"), &["--kubeconfig", kubeconfig]), "");
    server.stop();
    let (code, stdout, stderr) = validate(&["-", "--kubeconfig", &files.path("absent")], "");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.starts_with("error: "), "{stderr}");
}

const SHAPES: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shapes.example.com}
spec:
  group: example.com
  names: {kind: Shape, plural: shapes}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          status: {type: object, properties: {area: {type: integer}}}
          spec:
            type: object
            required: [name]
            x-kubernetes-validations:
            - {rule: '!has(self.low) || self.low <= self.high', message: low is above high}
            properties:
              name: {type: string, pattern: '^[a-z]+$', maxLength: 5}
              colour: {type: string, enum: [red, green]}
              when: {type: string, format: date-time}
              low: {type: integer, minimum: 1}
              high: {type: integer, default: 5}
              size: {x-kubernetes-int-or-string: true}
              sides: {type: array, maxItems: 2, x-kubernetes-list-type: set, items: {type: string}}
              labels: {type: object, additionalProperties: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              nothing: {type: object}
              one: {type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}
";

const SPECS: &[&str] = &[
    "{name: a, colour: red, when: '2026-01-02T03:04:05Z', low: 1, size: 50%, sides: [a, b], labels: {a: b}, free: {x: [1]}}",
    "{name: a, size: 3, pod: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {x: 1}}, one: {b: x}}",
    "{}",
    "{name: A}",
    "{name: abcdef}",
    "{name: 1}",
    "{name: a, nmae: b}",
    "{name: a, colour: blue}",
    "{name: a, when: yesterday}",
    "{name: a, low: 0}",
    "{name: a, low: 7}",
    "{name: a, low: 7, high: 8}",
    "{name: a, size: true}",
    "{name: a, sides: [a, a]}",
    "{name: a, sides: [a, b, c]}",
    "{name: a, labels: {a: 1}}",
    "{name: a, free: {x: {y: [z]}}}",
    "{name: a, pod: {kind: Pod}}",
    "{name: a, nothing: {x: 1}}",
    "{name: a, one: {a: x, b: z}}",
];

/// All of them, a document each, and two that are wrong outside of their spec.
fn shapes() -> String {
    let shape = |rest: String| {
        format!("---\napiVersion: example.com/v1\nkind: Shape\nmetadata: {{name: s}}\n{rest}\n")
    };
    let specs = SPECS.iter().map(|spec| shape(format!("spec: {spec}")));
    let outside = ["status: {area: much}\nspec: {name: a}", "stauts: {}\nspec: {name: a}"];
    let named = specs.chain(outside.map(|rest| shape(rest.to_owned())));
    named.enumerate().map(|(at, text)| text.replace("name: s}", &format!("name: s{at}}}"))).collect()
}

/// What a server publishes of these definitions.
async fn published(label: &str, definitions: &str, words: &[&str]) -> String {
    let files = Scratch::new(label);
    let definitions = files.write("crds.yaml", definitions);
    let server = Server::start_with(label, &["--load", &definitions]).await;
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .args([
            "openapi",
            "fetch",
            "--no-cache",
            "--quiet",
            "--kubeconfig",
            server.kubeconfig().to_str().unwrap(),
        ])
        .args(words)
        .output()
        .unwrap();
    server.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn kinds_of_openapi_documents_are_judged_as_by_their_definitions() {
    let files = Scratch::new("validate-openapi");
    let definition = files.write("crd.yaml", SHAPES);
    let expected = said(&shapes(), &["--schema-file", &definition]);
    assert!(expected.lines().count() > SPECS.len(), "{expected}");
    for (name, words) in [
        ("v3.json", &["example.com/v1"][..]),
        ("all.yaml", &["--all", "-o", "yaml"]),
        ("short.json", &["--group", "example.com", "--names", "short"]),
    ] {
        let document = files.write(name, &published(name, SHAPES, words).await);
        assert_eq!(said(&shapes(), &["--schema-file", &document]), expected, "{name}");
    }
    // Without paths nobody knows that objects of the kind are in no namespace, which makes no difference to these.
    let words = ["--group", "example.com", "--schemas-only"];
    let document = files.write("schemas.json", &published("schemas", SHAPES, &words).await);
    assert_eq!(said(&shapes(), &["--schema-file", &document]), expected);
}

/// v2 has no words for alternatives and defaults, and rules are not asked where defaults may be missing.
#[tokio::test]
async fn kinds_of_older_documents_are_judged_by_what_these_say() {
    let files = Scratch::new("validate-openapi-v2");
    let definition = files.write("crd.yaml", SHAPES);
    let document = files.write("v2.json", &published("v2", SHAPES, &["--v2"]).await);
    let by_definition = said(&shapes(), &["--schema-file", &definition]);
    let by_document = said(&shapes(), &["--schema-file", &document]);
    let (found, expected): (Vec<&str>, Vec<&str>) =
        (by_document.lines().collect(), by_definition.lines().collect());
    assert!(found.iter().all(|line| expected.contains(line)), "{by_document}");
    for words in [
        "name: Required",
        "must be of type string",
        "unknown field",
        "Unsupported value",
        "should match",
        "date-time",
    ] {
        assert!(found.iter().any(|line| line.contains(words)), "{words}: {by_document}");
    }
}

#[tokio::test]
async fn openapi_documents_stand_behind_definitions_and_name_what_is_meant() {
    let files = Scratch::new("validate-openapi-order");
    let both = format!("{SHAPES}---\n{DEFINITION}");
    let document = files.write("all.json", &published("order", &both, &["--all"]).await);
    // The set's own definition counts.
    let own = DEFINITION
        .replace("low: {type: integer}", "low: {type: string}")
        .replace("self.low <= self.high", "1 == 1");
    let text = format!("{own}---\n{}", widget("{low: 7}"));
    assert!(said(&text, &["--schema-file", &document]).contains("must be of type string"));
    // What the server has by itself, the document does not define.
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {}\n";
    assert_eq!(said(pod, &["--schema-file", &document]), said(pod, &[]));
    let mistaken = widget("{}").replace("kind: Widget", "kind: Wigdet");
    assert_eq!(
        said(&mistaken, &["--schema-file", &document]),
        "1:1: error: Wigdet/w: there is no schema for Wigdet in example.com/v1; did you mean Widget in example.com/v1?"
    );
    let other = files.write("other.json", r#"{"openapi": "3.1.0", "components": {}}"#);
    assert_eq!(
        said(&widget("{}"), &["--schema-file", &other]).lines().next().unwrap(),
        format!("{other}: error: the document does not say `openapi: 3.0.x`")
    );
}

#[test]
fn conversion_webhooks_are_named_as_not_asked() {
    let conversion = "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://127.0.0.1:1/x'}}}\n  versions:\n  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}\n";
    let definition = DEFINITION.replace("  versions:\n", conversion);
    let text = format!("{definition}---\napiVersion: example.com/v2\nkind: Widget\nmetadata: {{name: w}}\n");
    assert_eq!(
        said(&text, &[]),
        "1:1: note: CustomResourceDefinition/widgets.example.com: its conversion webhook is not asked"
    );
    let webhooks = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: v}\nwebhooks: []\n";
    // Not even where objects are kept while others are judged.
    let asking = webhooks.replace("webhooks: []", "webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'https://127.0.0.1:1/x'}, rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}]");
    let text = format!("{asking}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\n");
    assert!(!said(&text, &["--quota"]).contains("error"));
    assert_eq!(
        said(webhooks, &[]),
        "1:1: note: ValidatingWebhookConfiguration/v: webhooks are not asked: what they would change or refuse is not known"
    );
}

#[test]
fn policies_of_the_set_and_their_parameters_count() {
    let policy = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  validations: [{expression: 'object.spec.replicas <= int(params.data.most)', messageExpression: \"'at most ' + params.data.most\"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few}
spec: {policyName: few, validationActions: [Deny], paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits}
data: {most: '3'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
";
    let told = said(policy, &[]);
    assert_eq!(
        told,
        "19:1: error: Deployment/web: ValidatingAdmissionPolicy 'few' with binding 'few' denied request: at most 3"
    );
}

#[test]
fn namespaces_say_what_pods_may_be_and_quotas_count_if_asked() {
    let pod = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: team}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let strict = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {pod-security.kubernetes.io/enforce: restricted}}\n";
    let told = said(&format!("{}{strict}", pod("p").replace("---\n", "") + "---\n"), &[]);
    assert!(
        told.starts_with(
            "1:1: error: Pod/p: pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\""
        ),
        "{told}"
    );
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\nspec: {hard: {pods: '1'}}\n";
    let text = format!("{quota}{}{}", pod("a"), pod("b"));
    assert_eq!(said(&text, &[]), "");
    let told = said(&text, &["--quota"]);
    assert_eq!(
        told,
        "11:1: error: Pod/b: pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
}

#[test]
fn names_that_nobody_has_are_warned_of() {
    let text = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      serviceAccountName: default
      containers:
      - name: c
        image: i
        envFrom:
        - configMapRef: {name: here}
        - configMapRef: {name: elsewhere}
        - configMapRef: {name: perhaps, optional: true}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: here, namespace: team}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: elsewhere, namespace: other}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: known}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: unknown}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: view}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: team}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
";
    assert_eq!(
        said(text, &[]),
        "15:26: warning: Deployment/web: spec.template.spec.containers[0].envFrom[1].configMapRef.name: there is no ConfigMap `elsewhere` among the objects\n\
         34:60: warning: RoleBinding/unknown: roleRef.name: there is no Role `view` among the objects"
    );
    let (code, ..) = validate(&["-", "-q", "--fail-on-warnings"], text);
    assert_eq!(code, 1);
}

#[test]
fn an_object_that_is_written_twice_is_warned_of() {
    let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    let text = format!("{one}---\n{one}---\n{}", one.replace("name: c", "name: c, namespace: other"));
    assert_eq!(
        said(&text, &[]),
        "7:12: warning: ConfigMap/c: metadata.name: it is written twice: also at <stdin>:1:1"
    );
}

#[test]
fn kustomizations_are_built_and_blamed_where_the_field_is_written() {
    let files = Scratch::new("validate-kustomization");
    files.write("kustomization.yaml", "resources: [service.yaml]\npatches:\n- path: patch.yaml\n");
    files.write(
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n",
    );
    files
        .write("patch.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  type: Nonsense\n");
    let (code, stdout, _) = validate(&[files.0.to_str().unwrap()], "");
    let expected = format!(
        "{}:5:9: error: Service/s: spec.type: Unsupported value: \"Nonsense\"",
        files.path("patch.yaml")
    );
    assert_eq!(code, 1);
    assert!(stdout.starts_with(&expected), "{stdout}");
}

const WRONG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndat: {a: \"<&>\"}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\n---\n[\n";

#[test]
fn findings_are_told_to_programs() {
    let of = |format: &str| {
        let (code, stdout, stderr) = validate(&["-", "-o", format], WRONG);
        assert_eq!((code, stderr.as_str()), (1, ""), "{format}");
        stdout
    };
    let found: Value = serde_json::from_str(&of("json")).unwrap();
    assert_eq!(
        (&found["objects"], &found["valid"], &found["invalid"], &found["skipped"]),
        (&json!(2), &json!(1), &json!(1), &json!(0))
    );
    assert_eq!(
        found["findings"][1],
        json!({"severity": "error", "file": "<stdin>", "line": 4, "column": 1, "object": "ConfigMap/c", "field": "dat",
            "message": "unknown field \"dat\"; did you mean `data`?"})
    );
    let states: Vec<&str> =
        found["results"].as_array().unwrap().iter().map(|result| result["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["invalid", "valid"]);
    let found: Value = serde_json::from_str(&of("sarif")).unwrap();
    assert_eq!(found["version"], "2.1.0");
    let result = &found["runs"][0]["results"][1];
    assert_eq!((&result["level"], &result["ruleId"]), (&json!("error"), &json!("invalid")));
    assert_eq!(result["message"]["text"], "ConfigMap/c: unknown field \"dat\"; did you mean `data`?");
    let region = &result["locations"][0]["physicalLocation"]["region"];
    assert_eq!(region, &json!({"startLine": 4, "startColumn": 1}));

    let github = of("github");
    let lines: Vec<&str> = github.lines().collect();
    assert!(lines[0].starts_with("::error file=<stdin>,line=11,col=1::"), "{github}");
    assert_eq!(
        lines[1],
        "::error file=<stdin>,line=4,col=1::ConfigMap/c: unknown field \"dat\"; did you mean `data`?"
    );

    let junit = of("junit");
    for part in [
        "tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\"",
        "<testcase classname=\"&lt;stdin&gt;\" name=\"ConfigMap/d\"/>",
        "<failure message=\"unknown field &quot;dat&quot;; did you mean `data`?\">",
        "<error message=\"&lt;stdin&gt;:11:1: error: ",
    ] {
        assert!(junit.contains(part), "{part}\nis not in\n{junit}");
    }
}

#[test]
fn text_of_others_does_not_reach_the_terminal_or_the_workflow_raw() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"a\\e[2Jb\\n::error::x\"}\n";
    let (_, stdout, _) = validate(&["-"], text);
    assert!(!stdout.contains('\u{1b}'), "{stdout}");
    let (_, stdout, _) = validate(&["-", "-o", "github"], text);
    assert!(stdout.lines().all(|line| line.starts_with("::error file=")), "{stdout}");
}

#[test]
fn paths_that_are_not_there_and_wrong_usage() {
    let (code, stdout, _) = validate(&["/nowhere/at/all"], "");
    assert_eq!(code, 1);
    assert!(stdout.starts_with("/nowhere/at/all: error: cannot be read: "), "{stdout}");
    for words in [&[][..], &["-", "-o", "xml"], &["-", "--disable-admission-plugins", "Nonsense"]] {
        let (code, stdout, stderr) = validate(words, "");
        assert_eq!((code, stdout.as_str()), (2, ""), "{words:?}: {stderr}");
    }
    let empty = Scratch::new("validate-empty");
    fs::create_dir(empty.path("inner")).unwrap();
    let (code, stdout, stderr) = validate(&[empty.0.to_str().unwrap()], "");
    // Nothing is not valid: a pipe is empty if what should fill it has failed.
    let said = format!("{}: error: there are no objects in it\n", empty.0.display());
    assert_eq!((code, stdout, stderr.as_str()), (1, said, "0 objects: 0 valid, 0 invalid; 0 warnings\n"));
}
