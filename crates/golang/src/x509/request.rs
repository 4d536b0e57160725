//! A request for a certificate (PKCS #10).

use super::key::{Algorithm, Key};
use crate::asn1::{BIT_STRING, INTEGER, OID, Problem, Reader, SEQUENCE, SET, context, structure, syntax};

/// What is wrong with a request, if anything.
pub fn check_request(der: &[u8]) -> Result<(), Problem> {
    let mut outer = Reader::new(der);
    let mut request = outer.expect(SEQUENCE, "certificateRequest")?.inside();

    let signed = request.expect(SEQUENCE, "tbsCertificateRequest")?;
    let mut fields = signed.inside();
    if fields.expect(INTEGER, "int")?.integer()?.len() > 8 {
        return Err(structure("integer too large"));
    }
    let subject = fields.any()?;
    let mut key = fields.expect(SEQUENCE, "publicKeyInfo")?.inside();
    let key_algorithm = Algorithm::read(key.expect(SEQUENCE, "AlgorithmIdentifier")?.inside())?;
    let key_bits = key.expect(BIT_STRING, "BitString")?.bits()?;
    let mut attributes = fields.expect(context(0), "")?.inside();
    while !attributes.is_empty() {
        attributes.any()?;
    }

    let algorithm = Algorithm::read(request.expect(SEQUENCE, "AlgorithmIdentifier")?.inside())?;
    let signature = request.expect(BIT_STRING, "BitString")?.bits()?;
    if !outer.is_empty() {
        return Err(syntax("trailing data"));
    }

    let key = Key::read(key_algorithm, key_bits)?;
    Reader::new(subject.whole).expect(SEQUENCE, "RDNSequence")?;
    key.verify(algorithm.oid, signed.whole, signature)
}

/// `2.5.4.10`
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// The organizations in the subject of a request: who is to be in which groups.
pub fn organizations(der: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    let mut request = Reader::new(der).expect(SEQUENCE, "certificateRequest")?.inside();
    let mut fields = request.expect(SEQUENCE, "tbsCertificateRequest")?.inside();
    fields.expect(INTEGER, "int")?;
    let mut names = fields.expect(SEQUENCE, "RDNSequence")?.inside();
    let mut found = Vec::new();
    while !names.is_empty() {
        let mut set = names.expect(SET, "RelativeDistinguishedNameSET")?.inside();
        while !set.is_empty() {
            let mut pair = set.expect(SEQUENCE, "AttributeTypeAndValue")?.inside();
            let kind = pair.expect(OID, "ObjectIdentifier")?.oid()?;
            let value = pair.any()?;
            if kind == ORGANIZATION {
                found.push(value.content);
            }
        }
    }
    Ok(found)
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
        der(0x30, &[&der(0x06, &[&[0x55, 0x04, kind]]), &der(0x0c, &[value.as_bytes()])])
    }

    fn request(sets: &[Vec<u8>]) -> Vec<u8> {
        let names: Vec<&[u8]> = sets.iter().map(Vec::as_slice).collect();
        let information = der(0x30, &[&der(0x02, &[&[0]]), &der(0x30, &names), &der(0x30, &[])]);
        der(0x30, &[&information])
    }

    #[test]
    fn every_organization_is_found_and_nothing_else() {
        let long = "x".repeat(300);
        let subject = [
            der(0x31, &[&pair(0x03, "name")]),
            der(0x31, &[&pair(0x0a, "one"), &pair(0x0b, "unit"), &pair(0x0a, "two")]),
            der(0x31, &[&pair(0x0a, &long)]),
        ];
        let request = request(&subject);
        assert_eq!(organizations(&request).unwrap(), [b"one".as_slice(), b"two", long.as_bytes()]);
    }

    #[test]
    fn a_request_that_is_cut_is_refused() {
        let whole = request(&[der(0x31, &[&pair(0x0a, "one")])]);
        for length in 0..whole.len() {
            assert!(organizations(&whole[..length]).is_err(), "{length}");
        }
    }
}
