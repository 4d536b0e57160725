//! The internal form of a pod spec, as messages print it.
//!
//! It differs from what users write in more than the names: what a pod shares
//! with its host stands in the security context, and the metadata of templates
//! stands beside their spec. [`rearranged`] moves those.

mod volumes;

use serde_json::{Map, Value};
use sternpost_meta::field::BadValue;

use self::volumes::VOLUME;
use super::{
    resource_claims::POD_RESOURCE_CLAIM,
    security::{SE_LINUX_OPTIONS, SECCOMP_PROFILE, SECURITY_CONTEXT, WINDOWS_OPTIONS},
};
use crate::{
    internal_form::{
        Field, LABEL_SELECTOR, NODE_SELECTOR, Shape, field, indented, internal, optional, same_form,
    },
    object::{Fields, FieldsMut},
};

/// Members of a spec that stand in its security context.
const OF_SECURITY_CONTEXT: &[&str] =
    &["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// A spec on one line.
pub fn internal_spec(spec: &Value) -> BadValue {
    internal(Shape::Struct(POD_SPEC), &rearranged(spec))
}

/// A template on one line: metadata in its own names beside the spec.
pub fn internal_template(template: &Value) -> BadValue {
    let mut flat = with_metadata_inline(template);
    flat.set("spec", rearranged(template.field("spec")));
    internal(Shape::Struct(POD_TEMPLATE_SPEC), &flat)
}

/// A spec over many lines, for differences.
pub fn indented_spec(spec: &Value) -> String {
    indented(Shape::Struct(POD_SPEC), &rearranged(spec))
}

/// Whether two specs are equal, however what is empty is written.
pub fn same_spec(a: &Value, b: &Value) -> bool {
    same_form(Shape::Struct(POD_SPEC), &rearranged(a), &rearranged(b))
}

fn rearranged(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let moved: Vec<(&str, Value)> =
        OF_SECURITY_CONTEXT.iter().filter_map(|name| Some((*name, spec.remove(name)?))).collect();
    if spec.has("securityContext") || !moved.is_empty() {
        let context = spec.object_mut("securityContext");
        for (name, value) in moved {
            context.set(name, value);
        }
    }
    for volume in spec.items_mut("volumes") {
        let template = volume.get_mut("ephemeral").and_then(|source| source.get_mut("volumeClaimTemplate"));
        if let Some(template) = template {
            *template = with_metadata_inline(template);
        }
    }
    spec
}

fn with_metadata_inline(template: &Value) -> Value {
    let mut flat = template.field("metadata").as_object().cloned().unwrap_or_else(Map::new);
    flat.extend(template.get_field("spec").map(|spec| ("spec".to_owned(), spec.clone())));
    Value::Object(flat)
}

/// `metav1.ObjectMeta` as far as templates use it, beside the spec.
const POD_TEMPLATE_SPEC: &[Field] = &[
    optional("name", Shape::Raw),
    optional("generateName", Shape::Raw),
    optional("namespace", Shape::Raw),
    optional("uid", Shape::Raw),
    optional("resourceVersion", Shape::Raw),
    optional("generation", Shape::Raw),
    optional("creationTimestamp", Shape::Raw),
    optional("deletionTimestamp", Shape::Raw),
    optional("deletionGracePeriodSeconds", Shape::Raw),
    optional("labels", Shape::Raw),
    optional("annotations", Shape::Raw),
    optional("ownerReferences", Shape::Raw),
    optional("finalizers", Shape::Raw),
    field("Spec", "spec", Shape::Struct(POD_SPEC)),
];

const POD_SPEC: &[Field] = &[
    field("Volumes", "volumes", Shape::List(VOLUME)),
    field("InitContainers", "initContainers", Shape::List(CONTAINER)),
    field("Containers", "containers", Shape::List(CONTAINER)),
    field("EphemeralContainers", "ephemeralContainers", Shape::List(EPHEMERAL_CONTAINER)),
    field("RestartPolicy", "restartPolicy", Shape::Text),
    field("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Shape::Raw),
    field("ActiveDeadlineSeconds", "activeDeadlineSeconds", Shape::Raw),
    field("DNSPolicy", "dnsPolicy", Shape::Text),
    field("NodeSelector", "nodeSelector", Shape::Raw),
    field("ServiceAccountName", "serviceAccountName", Shape::Text),
    field("AutomountServiceAccountToken", "automountServiceAccountToken", Shape::Raw),
    field("NodeName", "nodeName", Shape::Text),
    field("SecurityContext", "securityContext", Shape::Ptr(POD_SECURITY_CONTEXT)),
    field("ImagePullSecrets", "imagePullSecrets", Shape::List(LOCAL_OBJECT_REFERENCE)),
    field("Hostname", "hostname", Shape::Text),
    field("Subdomain", "subdomain", Shape::Text),
    field("SetHostnameAsFQDN", "setHostnameAsFQDN", Shape::Raw),
    field("Affinity", "affinity", Shape::Ptr(AFFINITY)),
    field("SchedulerName", "schedulerName", Shape::Text),
    field("Tolerations", "tolerations", Shape::List(TOLERATION)),
    field("HostAliases", "hostAliases", Shape::List(HOST_ALIAS)),
    field("PriorityClassName", "priorityClassName", Shape::Text),
    field("Priority", "priority", Shape::Raw),
    field("PreemptionPolicy", "preemptionPolicy", Shape::Raw),
    field("DNSConfig", "dnsConfig", Shape::Ptr(DNS_CONFIG)),
    field("ReadinessGates", "readinessGates", Shape::List(READINESS_GATE)),
    field("RuntimeClassName", "runtimeClassName", Shape::Raw),
    field("Overhead", "overhead", Shape::Raw),
    field("EnableServiceLinks", "enableServiceLinks", Shape::Raw),
    field("TopologySpreadConstraints", "topologySpreadConstraints", Shape::List(TOPOLOGY_SPREAD_CONSTRAINT)),
    field("OS", "os", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
    field("SchedulingGates", "schedulingGates", Shape::List(LOCAL_OBJECT_REFERENCE)),
    field("ResourceClaims", "resourceClaims", Shape::List(POD_RESOURCE_CLAIM)),
    field("Resources", "resources", Shape::Ptr(RESOURCE_REQUIREMENTS)),
    field("HostnameOverride", "hostnameOverride", Shape::Raw),
    field("SchedulingGroup", "schedulingGroup", Shape::Raw),
];

const TOPOLOGY_SPREAD_CONSTRAINT: &[Field] = &[
    field("MaxSkew", "maxSkew", Shape::Int),
    field("TopologyKey", "topologyKey", Shape::Text),
    field("WhenUnsatisfiable", "whenUnsatisfiable", Shape::Text),
    field("LabelSelector", "labelSelector", Shape::Ptr(LABEL_SELECTOR)),
    field("MinDomains", "minDomains", Shape::Raw),
    field("NodeAffinityPolicy", "nodeAffinityPolicy", Shape::Raw),
    field("NodeTaintsPolicy", "nodeTaintsPolicy", Shape::Raw),
    field("MatchLabelKeys", "matchLabelKeys", Shape::Raw),
];

const READINESS_GATE: &[Field] = &[field("ConditionType", "conditionType", Shape::Text)];

const DNS_CONFIG: &[Field] = &[
    field("Nameservers", "nameservers", Shape::Raw),
    field("Searches", "searches", Shape::Raw),
    field("Options", "options", Shape::List(DNS_OPTION)),
];

const DNS_OPTION: &[Field] = &[field("Name", "name", Shape::Text), field("Value", "value", Shape::Raw)];

const HOST_ALIAS: &[Field] = &[field("IP", "ip", Shape::Text), field("Hostnames", "hostnames", Shape::Raw)];

const TOLERATION: &[Field] = &[
    field("Key", "key", Shape::Text),
    field("Operator", "operator", Shape::Text),
    field("Value", "value", Shape::Text),
    field("Effect", "effect", Shape::Text),
    field("TolerationSeconds", "tolerationSeconds", Shape::Raw),
];

const AFFINITY: &[Field] = &[
    field("NodeAffinity", "nodeAffinity", Shape::Ptr(NODE_AFFINITY)),
    field("PodAffinity", "podAffinity", Shape::Ptr(POD_AFFINITY)),
    field("PodAntiAffinity", "podAntiAffinity", Shape::Ptr(POD_AFFINITY)),
];

const POD_AFFINITY: &[Field] = &[
    field(
        "RequiredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingIgnoredDuringExecution",
        Shape::List(POD_AFFINITY_TERM),
    ),
    field(
        "PreferredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
        Shape::List(WEIGHTED_POD_AFFINITY_TERM),
    ),
];

const WEIGHTED_POD_AFFINITY_TERM: &[Field] = &[
    field("Weight", "weight", Shape::Int),
    field("PodAffinityTerm", "podAffinityTerm", Shape::Struct(POD_AFFINITY_TERM)),
];

const POD_AFFINITY_TERM: &[Field] = &[
    field("LabelSelector", "labelSelector", Shape::Ptr(LABEL_SELECTOR)),
    field("Namespaces", "namespaces", Shape::Raw),
    field("TopologyKey", "topologyKey", Shape::Text),
    field("NamespaceSelector", "namespaceSelector", Shape::Ptr(LABEL_SELECTOR)),
    field("MatchLabelKeys", "matchLabelKeys", Shape::Raw),
    field("MismatchLabelKeys", "mismatchLabelKeys", Shape::Raw),
];

const NODE_AFFINITY: &[Field] = &[
    field(
        "RequiredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingIgnoredDuringExecution",
        Shape::Ptr(NODE_SELECTOR),
    ),
    field(
        "PreferredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
        Shape::List(PREFERRED_SCHEDULING_TERM),
    ),
];

const PREFERRED_SCHEDULING_TERM: &[Field] = &[
    field("Weight", "weight", Shape::Int),
    field("Preference", "preference", Shape::Struct(NODE_SELECTOR_TERM)),
];

const NODE_SELECTOR_REQUIREMENT: &[Field] = &[
    field("Key", "key", Shape::Text),
    field("Operator", "operator", Shape::Text),
    field("Values", "values", Shape::Raw),
];

pub const NODE_SELECTOR_TERM: &[Field] = &[
    field("MatchExpressions", "matchExpressions", Shape::List(NODE_SELECTOR_REQUIREMENT)),
    field("MatchFields", "matchFields", Shape::List(NODE_SELECTOR_REQUIREMENT)),
];

const POD_SECURITY_CONTEXT: &[Field] = &[
    field("HostNetwork", "hostNetwork", Shape::Bool),
    field("HostPID", "hostPID", Shape::Bool),
    field("HostIPC", "hostIPC", Shape::Bool),
    field("ShareProcessNamespace", "shareProcessNamespace", Shape::Raw),
    field("HostUsers", "hostUsers", Shape::Raw),
    field("SELinuxOptions", "seLinuxOptions", Shape::Ptr(SE_LINUX_OPTIONS)),
    field("WindowsOptions", "windowsOptions", Shape::Ptr(WINDOWS_OPTIONS)),
    field("RunAsUser", "runAsUser", Shape::Raw),
    field("RunAsGroup", "runAsGroup", Shape::Raw),
    field("RunAsNonRoot", "runAsNonRoot", Shape::Raw),
    field("SupplementalGroups", "supplementalGroups", Shape::Raw),
    field("SupplementalGroupsPolicy", "supplementalGroupsPolicy", Shape::Raw),
    field("FSGroup", "fsGroup", Shape::Raw),
    field("FSGroupChangePolicy", "fsGroupChangePolicy", Shape::Raw),
    field("Sysctls", "sysctls", Shape::List(NAME_AND_VALUE)),
    field("SeccompProfile", "seccompProfile", Shape::Ptr(SECCOMP_PROFILE)),
    field("AppArmorProfile", "appArmorProfile", Shape::Ptr(SECCOMP_PROFILE)),
    field("SELinuxChangePolicy", "seLinuxChangePolicy", Shape::Raw),
];

/// What all containers have, and what only some do.
macro_rules! container {
    ($($own:expr)?) => {
        &[
            field("Name", "name", Shape::Text),
            field("Image", "image", Shape::Text),
            field("Command", "command", Shape::Raw),
            field("Args", "args", Shape::Raw),
            field("WorkingDir", "workingDir", Shape::Text),
            field("Ports", "ports", Shape::List(CONTAINER_PORT)),
            field("EnvFrom", "envFrom", Shape::List(ENV_FROM_SOURCE)),
            field("Env", "env", Shape::List(ENV_VAR)),
            field("Resources", "resources", Shape::Struct(RESOURCE_REQUIREMENTS)),
            field("ResizePolicy", "resizePolicy", Shape::List(RESIZE_POLICY)),
            field("RestartPolicy", "restartPolicy", Shape::Raw),
            field("RestartPolicyRules", "restartPolicyRules", Shape::List(RESTART_POLICY_RULE)),
            field("VolumeMounts", "volumeMounts", Shape::List(VOLUME_MOUNT)),
            field("VolumeDevices", "volumeDevices", Shape::List(VOLUME_DEVICE)),
            field("LivenessProbe", "livenessProbe", Shape::Ptr(PROBE)),
            field("ReadinessProbe", "readinessProbe", Shape::Ptr(PROBE)),
            field("StartupProbe", "startupProbe", Shape::Ptr(PROBE)),
            field("Lifecycle", "lifecycle", Shape::Ptr(LIFECYCLE)),
            field("TerminationMessagePath", "terminationMessagePath", Shape::Text),
            field("TerminationMessagePolicy", "terminationMessagePolicy", Shape::Text),
            field("ImagePullPolicy", "imagePullPolicy", Shape::Text),
            field("SecurityContext", "securityContext", Shape::Ptr(SECURITY_CONTEXT)),
            field("Stdin", "stdin", Shape::Bool),
            field("StdinOnce", "stdinOnce", Shape::Bool),
            field("TTY", "tty", Shape::Bool),
            $($own)?
        ]
    };
}

pub const EPHEMERAL_CONTAINER: &[Field] =
    container!(field("TargetContainerName", "targetContainerName", Shape::Text));

pub const CONTAINER: &[Field] = container!();

const LIFECYCLE: &[Field] = &[
    field("PostStart", "postStart", Shape::Ptr(LIFECYCLE_HANDLER)),
    field("PreStop", "preStop", Shape::Ptr(LIFECYCLE_HANDLER)),
    field("StopSignal", "stopSignal", Shape::Raw),
];

const LIFECYCLE_HANDLER: &[Field] = &[
    field("Exec", "exec", Shape::Ptr(EXEC_ACTION)),
    field("HTTPGet", "httpGet", Shape::Ptr(HTTP_GET_ACTION)),
    field("TCPSocket", "tcpSocket", Shape::Ptr(TCP_SOCKET_ACTION)),
    field("Sleep", "sleep", Shape::Ptr(SLEEP_ACTION)),
];

const SLEEP_ACTION: &[Field] = &[field("Seconds", "seconds", Shape::Int)];

const PROBE: &[Field] = &[
    field("Exec", "exec", Shape::Ptr(EXEC_ACTION)),
    field("HTTPGet", "httpGet", Shape::Ptr(HTTP_GET_ACTION)),
    field("TCPSocket", "tcpSocket", Shape::Ptr(TCP_SOCKET_ACTION)),
    field("GRPC", "grpc", Shape::Ptr(GRPC_ACTION)),
    field("InitialDelaySeconds", "initialDelaySeconds", Shape::Int),
    field("TimeoutSeconds", "timeoutSeconds", Shape::Int),
    field("PeriodSeconds", "periodSeconds", Shape::Int),
    field("SuccessThreshold", "successThreshold", Shape::Int),
    field("FailureThreshold", "failureThreshold", Shape::Int),
    field("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Shape::Raw),
];

const GRPC_ACTION: &[Field] = &[field("Port", "port", Shape::Int), field("Service", "service", Shape::Raw)];

const TCP_SOCKET_ACTION: &[Field] = &[field("Port", "port", Shape::Int), field("Host", "host", Shape::Text)];

const HTTP_GET_ACTION: &[Field] = &[
    field("Path", "path", Shape::Text),
    field("Port", "port", Shape::Int),
    field("Host", "host", Shape::Text),
    field("Scheme", "scheme", Shape::Text),
    field("HTTPHeaders", "httpHeaders", Shape::List(NAME_AND_VALUE)),
];

const NAME_AND_VALUE: &[Field] = &[field("Name", "name", Shape::Text), field("Value", "value", Shape::Text)];

const EXEC_ACTION: &[Field] = &[field("Command", "command", Shape::Raw)];

const VOLUME_DEVICE: &[Field] =
    &[field("Name", "name", Shape::Text), field("DevicePath", "devicePath", Shape::Text)];

const VOLUME_MOUNT: &[Field] = &[
    field("Name", "name", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
    field("RecursiveReadOnly", "recursiveReadOnly", Shape::Raw),
    field("MountPath", "mountPath", Shape::Text),
    field("SubPath", "subPath", Shape::Text),
    field("MountPropagation", "mountPropagation", Shape::Raw),
    field("SubPathExpr", "subPathExpr", Shape::Text),
];

const RESTART_POLICY_RULE: &[Field] =
    &[field("Action", "action", Shape::Text), field("ExitCodes", "exitCodes", Shape::Ptr(EXIT_CODES))];

const EXIT_CODES: &[Field] =
    &[field("Operator", "operator", Shape::Text), field("Values", "values", Shape::Raw)];

const RESIZE_POLICY: &[Field] = &[
    field("ResourceName", "resourceName", Shape::Text),
    field("RestartPolicy", "restartPolicy", Shape::Text),
];

pub const RESOURCE_REQUIREMENTS: &[Field] = &[
    field("Limits", "limits", Shape::Raw),
    field("Requests", "requests", Shape::Raw),
    field("Claims", "claims", Shape::List(CONTAINER_CLAIM)),
];

const CONTAINER_CLAIM: &[Field] =
    &[field("Name", "name", Shape::Text), field("Request", "request", Shape::Text)];

const ENV_VAR: &[Field] = &[
    field("Name", "name", Shape::Text),
    field("Value", "value", Shape::Text),
    field("ValueFrom", "valueFrom", Shape::Ptr(ENV_VAR_SOURCE)),
];

const ENV_VAR_SOURCE: &[Field] = &[
    field("FieldRef", "fieldRef", Shape::Ptr(FIELD_REF)),
    field("ResourceFieldRef", "resourceFieldRef", Shape::Ptr(RESOURCE_FIELD_REF)),
    field("ConfigMapKeyRef", "configMapKeyRef", Shape::Ptr(KEY_SELECTOR)),
    field("SecretKeyRef", "secretKeyRef", Shape::Ptr(KEY_SELECTOR)),
    field("FileKeyRef", "fileKeyRef", Shape::Ptr(FILE_KEY_REF)),
];

const FILE_KEY_REF: &[Field] = &[
    field("VolumeName", "volumeName", Shape::Text),
    field("Path", "path", Shape::Text),
    field("Key", "key", Shape::Text),
    field("Optional", "optional", Shape::Raw),
];

const KEY_SELECTOR: &[Field] = &[
    field("Name", "name", Shape::Text),
    field("Key", "key", Shape::Text),
    field("Optional", "optional", Shape::Raw),
];

const ENV_FROM_SOURCE: &[Field] = &[
    field("Prefix", "prefix", Shape::Text),
    field("ConfigMapRef", "configMapRef", Shape::Ptr(OPTIONAL_REFERENCE)),
    field("SecretRef", "secretRef", Shape::Ptr(OPTIONAL_REFERENCE)),
];

const OPTIONAL_REFERENCE: &[Field] =
    &[field("Name", "name", Shape::Text), field("Optional", "optional", Shape::Raw)];

const CONTAINER_PORT: &[Field] = &[
    field("Name", "name", Shape::Text),
    field("HostPort", "hostPort", Shape::Int),
    field("ContainerPort", "containerPort", Shape::Int),
    field("Protocol", "protocol", Shape::Text),
    field("HostIP", "hostIP", Shape::Text),
];

pub const RESOURCE_FIELD_REF: &[Field] = &[
    field("ContainerName", "containerName", Shape::Text),
    field("Resource", "resource", Shape::Text),
    field("Divisor", "divisor", Shape::Text),
];

pub const FIELD_REF: &[Field] =
    &[field("APIVersion", "apiVersion", Shape::Text), field("FieldPath", "fieldPath", Shape::Text)];

pub const LOCAL_OBJECT_REFERENCE: &[Field] = &[field("Name", "name", Shape::Text)];
