//! Which fields no writer owns, because what is sent for them is not taken.

/// The subresources through which one can write to an object of its kind.
pub const PLACES: [&str; 6] = ["", "status", "finalize", "approval", "ephemeralcontainers", "resize"];

/// By group, kind and subresource. `has_status`: whether the kind has a status subresource.
pub fn reset(group: &str, kind: &str, has_status: bool, subresource: &str) -> &'static [&'static str] {
    match (group, kind, subresource) {
        ("certificates.k8s.io", "CertificateSigningRequest", "") => &[".spec", ".status"],
        ("certificates.k8s.io", "CertificateSigningRequest", "status") => &[".spec", ".status.conditions"],
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => &[".spec", ".status.certificate"],
        ("apps", "Deployment", "status") => &[".spec", ".metadata.labels"],
        ("", "Pod", "status") => &[".spec", ".metadata.deletionTimestamp", ".metadata.ownerReferences"],
        // Upstream names what these may own, and then does not look at it.
        ("", "Pod", "ephemeralcontainers" | "resize") => &[],
        (
            "admissionregistration.k8s.io"
            | "apiregistration.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "resource.k8s.io"
            | "storage.k8s.io",
            _,
            "status",
        )
        | ("networking.k8s.io", "ServiceCIDR", "status") => &[".metadata", ".spec"],
        (_, _, "status") => &[".spec"],
        _ if has_status => &[".status"],
        _ => &[],
    }
}
