//! What only pods on Windows have.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::dns_subdomain,
};

use super::{Context, Privileged, each_container};
use crate::{object::Fields, validation::form::named};

const MAX_CREDENTIAL_SPEC: usize = 64 * 1024;
const MAX_DOMAIN: usize = 255;
const MAX_USER: usize = 104;
const MAX_NETBIOS: usize = 15;

pub fn validate_windows_options(context: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(options) = context.get_field("windowsOptions") else { return };
    let path = path.child("windowsOptions");
    if let Some(name) = options.field("gmsaCredentialSpecName").as_str() {
        for problem in dns_subdomain(name) {
            errors.invalid(path.child("gmsaCredentialSpecName"), named(name), &problem);
        }
    }
    if let Some(spec) = options.field("gmsaCredentialSpec").as_str() {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(path, named(spec), "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > MAX_CREDENTIAL_SPEC {
            errors.invalid(path, named(spec), "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = options.field("runAsUserName").as_str() {
        validate_user_name(name, &path.child("runAsUserName"), errors);
    }
}

/// `USER` or `DOMAIN\USER`; only the first kind of problem counts for the whole,
/// then domain and user are looked at on their own.
fn validate_user_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.invalid(path, named(name), "runAsUserName cannot be an empty string");
    }
    if name.chars().any(char::is_control) {
        return errors.invalid(path, named(name), "runAsUserName cannot contain control characters");
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, rest)) if rest.contains('\\') => {
            return errors.invalid(path, named(name), "runAsUserName cannot contain more than one backslash");
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if let Some(domain) = domain {
        if domain.len() > MAX_DOMAIN {
            errors.invalid(path, named(name), "runAsUserName's Domain length must be under 256 characters");
        }
        if !is_netbios(domain) && !is_dns_domain(domain) {
            let problem = "runAsUserName's Domain doesn't match the NetBios nor the DNS format";
            errors.invalid(path, named(name), problem);
        }
    }
    if user.is_empty() {
        errors.invalid(path, named(name), "runAsUserName's User cannot be empty");
    } else if user.len() > MAX_USER {
        let problem = format!("runAsUserName's User length must not be longer than {MAX_USER} characters");
        errors.invalid(path, named(name), &problem);
    }
    if !user.is_empty() && user.chars().all(|char| matches!(char, '.' | ' ')) {
        errors.invalid(path, named(name), "runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let problem = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        errors.invalid(path, named(name), problem);
    }
}

fn is_netbios(domain: &str) -> bool {
    let length = domain.chars().count();
    (1..=MAX_NETBIOS).contains(&length)
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns_domain(domain: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    domain.split('.').all(label)
}

/// Either all containers are processes of the host, or none.
pub fn validate_host_process(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let host_process = |holder: &Value| {
        holder.field("securityContext").field("windowsOptions").field("hostProcess").as_bool()
    };
    let pod = host_process(context.spec);
    let (mut all, mut on_host) = (0, 0);
    each_container(context.spec, path, |container, path| {
        let own = host_process(container);
        all += 1;
        if own.or(pod) == Some(true) {
            on_host += 1;
        }
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let problem = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let context = path.child("securityContext");
            errors.invalid(context.child("windowsOptions").child("hostProcess"), own, &problem);
        }
    });
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let problem =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", problem);
    }
    if !context.spec.flag("hostNetwork") {
        let problem = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(path.child("hostNetwork"), false, problem);
    }
    if context.privileged == Privileged::Disallowed {
        errors.forbidden(path, "hostProcess containers are disallowed by cluster policy");
    }
}
