//! A request for a certificate (PKCS #10).

use super::{
    der::{BIT_STRING, INTEGER, Problem, Reader, SEQUENCE, context, structure, syntax},
    key::{Algorithm, Key},
};

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
