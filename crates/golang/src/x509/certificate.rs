//! Certificates, as far as it takes to say that they are some.

use super::key::{Algorithm, Key};
use crate::asn1::{
    BIT_STRING, Element, GENERALIZED_TIME, INTEGER, OID, Problem, Reader, SEQUENCE, SET, Tag, UTC_TIME,
    context,
};

/// What is wrong with a series of certificates, or how many they are.
pub fn check_certificates(der: &[u8]) -> Result<usize, Problem> {
    let mut rest = Reader::new(der);
    let mut count = 0;
    while !rest.is_empty() {
        check(take(&mut rest, SEQUENCE, "malformed certificate")?)?;
        count += 1;
    }
    Ok(count)
}

/// What is wrong with one certificate and nothing else.
pub fn check_certificate(der: &[u8]) -> Result<(), Problem> {
    let mut rest = Reader::new(der);
    check(take(&mut rest, SEQUENCE, "malformed certificate")?)?;
    if rest.is_empty() { Ok(()) } else { Err(problem("trailing data")) }
}

fn check(certificate: Element<'_>) -> Result<(), Problem> {
    let mut outer = certificate.inside();
    let mut fields = take(&mut outer, SEQUENCE, "malformed tbs certificate")?.inside();
    let version = check_version(&mut fields)?;
    let serial = take(&mut fields, INTEGER, "malformed serial number")?;
    match serial.integer() {
        Err(_) => return Err(problem("malformed serial number")),
        Ok([first, ..]) if *first >= 0x80 => return Err(problem("negative serial number")),
        Ok(_) => {}
    }
    let inner_algorithm = take(&mut fields, SEQUENCE, "malformed signature algorithm identifier")?;
    let algorithm = take(&mut outer, SEQUENCE, "malformed algorithm identifier")?;
    if algorithm.whole != inner_algorithm.whole {
        return Err(problem("inner and outer signature algorithm identifiers don't match"));
    }
    check_name(take(&mut fields, SEQUENCE, "malformed issuer")?)?;
    let mut validity = take(&mut fields, SEQUENCE, "malformed validity")?.inside();
    check_time(&mut validity)?;
    check_time(&mut validity)?;
    // Go calls this an issuer too.
    check_name(take(&mut fields, SEQUENCE, "malformed issuer")?)?;
    check_key(take(&mut fields, SEQUENCE, "malformed spki")?)?;
    if version > 1 {
        for id in [1, 2] {
            fields.take(Tag { compound: false, ..context(id) });
        }
        if version == 3
            && let Some(extensions) = fields.take(context(3))
        {
            check_extensions(extensions)?;
        }
    }
    let signature = take(&mut outer, BIT_STRING, "malformed signature")?;
    signature.bits().map_err(|_| problem("malformed signature"))?;
    Ok(())
}

/// The version as people count it.
fn check_version(fields: &mut Reader<'_>) -> Result<u8, Problem> {
    let Some(version) = fields.take(context(0)) else { return Ok(1) };
    let number = version.inside().take(INTEGER).ok_or_else(|| problem("malformed version"))?;
    match number.content {
        [number @ 0..=2] => Ok(number + 1),
        [0x80..=0xff, ..] | [] => Err(problem("malformed version")),
        _ => Err(problem("invalid version")),
    }
}

/// A sequence of sets of attributes.
fn check_name(name: Element<'_>) -> Result<(), Problem> {
    let invalid = || problem("invalid RDNSequence");
    let mut sets = name.inside();
    while !sets.is_empty() {
        let mut attributes = sets.take(SET).ok_or_else(invalid)?.inside();
        while !attributes.is_empty() {
            let attribute = attributes.take(SEQUENCE);
            let attribute = attribute.ok_or_else(|| problem("invalid RDNSequence: invalid attribute"))?;
            let kind = attribute.inside().take(OID);
            kind.ok_or_else(|| problem("invalid RDNSequence: invalid attribute type"))?;
        }
    }
    Ok(())
}

/// `YYMMDDhhmmssZ`, with four digits of the year in the longer form.
fn check_time(validity: &mut Reader<'_>) -> Result<(), Problem> {
    let (time, digits, what) = if let Some(time) = validity.take(UTC_TIME) {
        (time, 12, "malformed UTCTime")
    } else if let Some(time) = validity.take(GENERALIZED_TIME) {
        (time, 14, "malformed GeneralizedTime")
    } else {
        return Err(problem("unsupported time format"));
    };
    match time.content.split_last() {
        Some((b'Z', rest)) if rest.len() == digits && rest.iter().all(u8::is_ascii_digit) => Ok(()),
        _ => Err(problem(what)),
    }
}

fn check_key(key: Element<'_>) -> Result<(), Problem> {
    let mut fields = key.inside();
    let what = "malformed public key algorithm identifier";
    let algorithm = take(&mut fields, SEQUENCE, what)?;
    let algorithm = Algorithm::read(algorithm.inside()).map_err(|_| problem(what))?;
    let bits = take(&mut fields, BIT_STRING, "malformed subjectPublicKey")?;
    let bits = bits.bits().map_err(|_| problem("malformed subjectPublicKey"))?;
    Key::read(algorithm, bits).map(|_| ())
}

fn check_extensions(extensions: Element<'_>) -> Result<(), Problem> {
    let mut all = take(&mut extensions.inside(), SEQUENCE, "malformed extensions")?.inside();
    while !all.is_empty() {
        let extension = take(&mut all, SEQUENCE, "malformed extension")?;
        take(&mut extension.inside(), OID, "malformed extension OID field")?;
    }
    Ok(())
}

fn take<'a>(reader: &mut Reader<'a>, tag: Tag, what: &str) -> Result<Element<'a>, Problem> {
    reader.take(tag).ok_or_else(|| problem(what))
}

fn problem(what: &str) -> Problem {
    format!("x509: {what}")
}
