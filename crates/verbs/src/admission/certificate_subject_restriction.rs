//! CertificateSubjectRestriction: nobody asks for a client certificate of the
//! group that may do everything.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::object::Fields;

use super::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "CertificateSubjectRestriction", validate, ..Plugin::NONE };

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const GROUP: &str = "system:masters";

fn validate(request: &Request<'_>, signing: &Value, _: &mut Vec<String>) -> Result<(), Status> {
    if !request.is(Operation::Create, "certificates.k8s.io", "certificatesigningrequests")
        || signing.field("spec").text("signerName") != SIGNER
    {
        return Ok(());
    }
    let organizations = organizations_of_pem(signing.field("spec").text("request")).unwrap_or_default();
    if organizations.iter().any(|name| name == GROUP.as_bytes()) {
        let why = format!("use of {SIGNER} signer with {GROUP} group is not allowed");
        return Err(request.forbidden(signing, &why));
    }
    Ok(())
}

/// Of a certificate request in PEM in base64, as the object holds it.
fn organizations_of_pem(text: &str) -> Option<Vec<Vec<u8>>> {
    let pem = STANDARD.decode(text).ok()?;
    let pem = String::from_utf8(pem).ok()?;
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE REQUEST-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE REQUEST-----")?;
    let body: String = body.split_ascii_whitespace().collect();
    organizations(&STANDARD.decode(body).ok()?)
}

/// `2.5.4.10`
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// The organizations in the subject of a PKCS #10 request in DER (RFC 2986):
/// `SEQUENCE { SEQUENCE { version, subject, … }, … }`, the subject a sequence of
/// sets of pairs of type and value.
fn organizations(der: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (request, _) = expect(SEQUENCE, der)?;
    let (information, _) = expect(SEQUENCE, request)?;
    let (_version, information) = expect(INTEGER, information)?;
    let (mut names, _) = expect(SEQUENCE, information)?;
    let mut found = Vec::new();
    while !names.is_empty() {
        let (mut set, rest) = expect(SET, names)?;
        names = rest;
        while !set.is_empty() {
            let (pair, rest) = expect(SEQUENCE, set)?;
            set = rest;
            let (kind, value) = expect(OBJECT_IDENTIFIER, pair)?;
            if kind == ORGANIZATION {
                found.push(element(value)?.1.to_vec());
            }
        }
    }
    Some(found)
}

/// The content of an element with this tag, and what follows it.
fn expect(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(der)?;
    (found == tag).then_some((content, rest))
}

/// Tag, content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // Four bytes hold more than any request is long.
        let bytes = usize::from(first & 0x7f);
        let (length, rest) = rest.split_at_checked(bytes).filter(|_| (1..=4).contains(&bytes))?;
        (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let mut bytes = vec![tag];
        match u8::try_from(content.len()) {
            Ok(length) if length < 0x80 => bytes.push(length),
            Ok(length) => bytes.extend([0x81, length]),
            Err(_) => bytes.extend([0x82, (content.len() >> 8) as u8, content.len() as u8]),
        }
        bytes.extend(content);
        bytes
    }

    fn pair(kind: u8, value: &str) -> Vec<u8> {
        der(SEQUENCE, &[&der(OBJECT_IDENTIFIER, &[&[0x55, 0x04, kind]]), &der(0x0c, &[value.as_bytes()])])
    }

    fn request(sets: &[Vec<u8>]) -> Vec<u8> {
        let names: Vec<&[u8]> = sets.iter().map(Vec::as_slice).collect();
        let information =
            der(SEQUENCE, &[&der(INTEGER, &[&[0]]), &der(SEQUENCE, &names), &der(SEQUENCE, &[])]);
        der(SEQUENCE, &[&information])
    }

    #[test]
    fn every_organization_is_found_and_nothing_else() {
        let long = "x".repeat(300);
        let subject = [
            der(SET, &[&pair(0x03, "name")]),
            der(SET, &[&pair(0x0a, "one"), &pair(0x0b, "unit"), &pair(0x0a, "two")]),
            der(SET, &[&pair(0x0a, &long)]),
        ];
        let found = organizations(&request(&subject)).unwrap();
        assert_eq!(found, [b"one".to_vec(), b"two".to_vec(), long.into_bytes()]);
    }

    #[test]
    fn a_request_that_is_cut_is_none() {
        let whole = request(&[der(SET, &[&pair(0x0a, "one")])]);
        for length in 0..whole.len() {
            assert_eq!(organizations(&whole[..length]), None, "{length}");
        }
        assert_eq!(organizations(&[SEQUENCE, 0x85, 0, 0, 0, 0, 1, 0]), None);
    }
}
