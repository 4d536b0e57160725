//! Services.

use serde_json::Value;

use super::text::{join, labels, load_balancer, or};
use super::{AGE, Column, NAME, NONE, UNKNOWN, computed, text};
use crate::object::Fields;

pub(super) static SERVICE: &[Column] = &[
    NAME,
    text("Type", "/spec/type", "How the service can be reached."),
    computed("Cluster-IP", cluster_ip, "The first address inside the cluster."),
    computed("External-IP", external_ip, "Addresses from outside the cluster."),
    computed("Port(s)", ports, "Ports, those on nodes, and protocols."),
    AGE,
    computed(
        "Selector",
        |service| labels(service.field("spec").field("selector")),
        "Labels of the pods that serve.",
    )
    .wide(),
];

fn cluster_ip(service: &Value) -> Value {
    service.field("spec").items("clusterIPs").first().and_then(Value::as_str).unwrap_or(NONE).into()
}

fn external_ip(service: &Value) -> Value {
    let spec = service.field("spec");
    let external = join(spec.items("externalIPs"));
    match spec.text("type") {
        "ClusterIP" | "NodePort" => or(external, NONE).into(),
        "LoadBalancer" => {
            let balanced = load_balancer(service);
            let both = [balanced, external].into_iter().filter(|addresses| !addresses.is_empty());
            or(both.collect::<Vec<_>>().join(","), "<pending>").into()
        }
        "ExternalName" => spec.text("externalName").into(),
        _ => UNKNOWN.into(),
    }
}

fn ports(service: &Value) -> Value {
    let ports = service.field("spec").items("ports").iter().map(|port| {
        let (number, protocol) = (port.int("port").unwrap_or(0), port.text("protocol"));
        match port.int("nodePort").filter(|&node_port| node_port > 0) {
            Some(node_port) => format!("{number}:{node_port}/{protocol}"),
            None => format!("{number}/{protocol}"),
        }
    });
    or(ports.collect::<Vec<_>>().join(","), NONE).into()
}
