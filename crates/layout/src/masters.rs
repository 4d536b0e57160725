//! By which the servers of a cluster know each other: each keeps a key that ends with its address.

use std::net::IpAddr;

use bytes::Bytes;
use serde_json::json;
use sternpost_meta::gvk::GroupVersionKind;
use sternpost_wire::object as wire;

use crate::WriteError;

/// Where the keys are, below the prefix.
pub const MASTERS: &str = "masterleases/";

/// The key of a server, and what is there.
pub fn master(address: IpAddr) -> Result<(String, Bytes), WriteError> {
    // An object that nobody is served.
    let endpoints = json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"generation": 1},
        "subsets": [{"addresses": [{"ip": address.to_string()}]}],
    });
    let value = wire::encode_stored(&endpoints, &GroupVersionKind::new("", "v1", "Endpoints"))?;
    Ok((format!("{MASTERS}{address}"), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_as_kube_apiserver_is() {
        // As kube-apiserver 1.36.4 had it, when it had renewed it once.
        let recorded = b"k8s\0\n\x0f\n\x02v1\x12\tEndpoints\x12#\n\x10\n\0\x12\0\x1a\0\"\0*\x002\x008\x01B\0\x12\x0f\n\r\n\t192.0.2.2\x1a\0\x1a\0\"\0";
        let (key, value) = master("192.0.2.2".parse().unwrap()).unwrap();
        assert_eq!(
            (key.as_str(), value.escape_ascii().to_string()),
            ("masterleases/192.0.2.2", recorded.escape_ascii().to_string())
        );
    }
}
