//! Names: how a pod resolves them, and its own.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_subdomain, dns_subdomain_with_underscore, ip_legacy},
};

use crate::object::Fields;

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
/// All search paths together, with one blank between two.
const MAX_SEARCH_BYTES: usize = 2048;
const MAX_HOSTNAME_OVERRIDE: usize = 64;

pub fn validate_dns_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let known = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    match spec.text("dnsPolicy") {
        "" => errors.required(path.child("dnsPolicy"), ""),
        policy if known.contains(&policy) => {}
        policy => errors.not_supported(path.child("dnsPolicy"), BadValue::Json(policy.into()), known),
    }
}

pub fn validate_dns_config(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("dnsConfig");
    let config = spec.field("dnsConfig");
    let nameservers = config.items("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if nameservers.is_empty() {
            let problem = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(path.child("nameservers"), problem);
        }
    }
    if nameservers.len() > MAX_NAMESERVERS {
        let problem = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(path.child("nameservers"), config.field("nameservers"), &problem);
    }
    let known = old.map_or(&[][..], |old| old.field("dnsConfig").items("nameservers"));
    let known: HashSet<&Value> = known.iter().collect();
    for (index, server) in nameservers.iter().enumerate().filter(|(_, server)| !known.contains(server)) {
        let server = server.as_str().unwrap_or_default();
        for problem in ip_legacy(server) {
            errors.invalid(path.child("nameservers").index(index), server, &problem);
        }
    }
    validate_searches(config, &path.child("searches"), errors);
    for (index, option) in config.items("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.required(path.child("options").index(index), "must not be empty");
        }
    }
}

fn validate_searches(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    let searches: Vec<&str> =
        config.items("searches").iter().map(|search| search.as_str().unwrap_or_default()).collect();
    if searches.len() > MAX_SEARCHES {
        let problem = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.invalid(path, config.field("searches"), &problem);
    }
    if searches.join(" ").len() > MAX_SEARCH_BYTES {
        let problem = format!(
            "must not have more than {MAX_SEARCH_BYTES} characters (including spaces) in the search list"
        );
        errors.invalid(path, config.field("searches"), &problem);
    }
    for (index, search) in searches.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        for problem in dns_subdomain_with_underscore(search) {
            errors.invalid(path.index(index), search, &problem);
        }
    }
}

pub fn validate_hostname_override(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(name) = spec.field("hostnameOverride").as_str() else { return };
    let path = path.child("hostnameOverride");
    if spec.flag("setHostnameAsFQDN") {
        errors.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.flag("hostNetwork") {
        errors.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > MAX_HOSTNAME_OVERRIDE {
        errors.too_long(path, MAX_HOSTNAME_OVERRIDE);
    }
    for problem in dns_subdomain(name) {
        errors.invalid(path, name, &problem);
    }
}

pub fn validate_host_aliases(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("hostAliases");
    let known = old.map_or(&[][..], |old| old.items("hostAliases"));
    let known: HashSet<&str> = known.iter().map(|known| known.text("ip")).collect();
    for (index, alias) in spec.items("hostAliases").iter().enumerate() {
        let path = list.index(index);
        let ip = alias.text("ip");
        if !known.contains(ip) {
            for problem in ip_legacy(ip) {
                errors.invalid(path.child("ip"), ip, &problem);
            }
        }
        for (index, name) in alias.items("hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            for problem in dns_subdomain(name) {
                errors.invalid(path.child("hostnames").index(index), name, &problem);
            }
        }
    }
}
