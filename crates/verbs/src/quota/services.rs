//! Services: ports of nodes, and balancers.

use serde_json::Value;
use sternpost_registry::object::Fields;

use super::{Amounts, number, one};

pub(super) fn usage(service: &Value, amounts: &mut Amounts) {
    let spec = service.field("spec");
    let ports = spec.items("ports");
    let kind = spec.text("type");
    let node_ports = match kind {
        "NodePort" => ports.len(),
        // Unless told otherwise every port gets one, whether it is named yet or not.
        "LoadBalancer" if spec.field("allocateLoadBalancerNodePorts") == false => {
            ports.iter().filter(|port| port.int("nodePort").unwrap_or_default() != 0).count()
        }
        "LoadBalancer" => ports.len(),
        _ => 0,
    };
    amounts.insert("services".into(), one());
    amounts.insert("services.nodeports".into(), number(node_ports));
    amounts.insert("services.loadbalancers".into(), number(usize::from(kind == "LoadBalancer")));
}
