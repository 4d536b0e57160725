//! Just enough DER to find a name or a key in a certificate, and to write a key. Whatever it does
//! not know is `None`; signatures are checked elsewhere.

/// Reads one value after the other.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const NULL: u8 = 0x05;
pub const OID: u8 = 0x06;
pub const UTF8_STRING: u8 = 0x0c;
pub const NUMERIC_STRING: u8 = 0x12;
pub const PRINTABLE_STRING: u8 = 0x13;
pub const T61_STRING: u8 = 0x14;
pub const IA5_STRING: u8 = 0x16;
pub const BMP_STRING: u8 = 0x1e;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
/// `[0]`, explicit: the version of a certificate.
const CONTEXT_0: u8 = 0xa0;

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next value, with its tag.
    pub fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        // Tags of more than one byte have no place in what we read.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // More than three bytes of length is more than any certificate has.
            0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
                (length, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }

    /// The next value, which must have this tag.
    pub fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, value)| value)
    }

    pub fn sequence(&mut self) -> Option<Reader<'a>> {
        self.expect(SEQUENCE).map(Reader)
    }

    /// A positive number, big-endian, without leading zeros.
    pub fn unsigned(&mut self) -> Option<&'a [u8]> {
        let number = self.expect(INTEGER)?;
        let negative = number.first().is_none_or(|first| first & 0x80 != 0);
        let start = number.iter().position(|byte| *byte != 0)?;
        if negative { None } else { number.get(start..) }
    }

    /// A string of whole bytes.
    pub fn bits(&mut self) -> Option<&'a [u8]> {
        let (unused, bytes) = self.expect(BIT_STRING)?.split_first()?;
        (*unused == 0).then_some(bytes)
    }
}

/// One value.
pub fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let digits = length.to_be_bytes();
    let start = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
    let digits = digits.get(start..).unwrap_or_default();
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(short @ ..=0x7f) => bytes.push(short),
        _ => {
            // At most eight digits.
            bytes.push(0x80 | u8::try_from(digits.len()).unwrap_or_default());
            bytes.extend(digits);
        }
    }
    bytes.extend(content);
    bytes
}

/// A positive number, big-endian.
pub fn unsigned(number: &[u8]) -> Vec<u8> {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    let number = number.get(start..).unwrap_or_default();
    let padded = number.first().is_none_or(|first| first & 0x80 != 0);
    let sign: &[u8] = if padded { &[0] } else { &[] };
    value(INTEGER, &[sign, number].concat())
}

/// A `SubjectPublicKeyInfo`.
pub fn key_info(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let parts = [value(SEQUENCE, algorithm), value(BIT_STRING, &[&[0], key].concat())];
    value(SEQUENCE, &parts.concat())
}

/// The parts of a certificate that we read.
#[derive(Debug)]
pub struct Certificate<'a> {
    /// The content of the `Name`.
    pub subject: Reader<'a>,
    /// The whole `SubjectPublicKeyInfo`.
    pub key: &'a [u8],
    /// The end of the `Validity`, with the tag that says how it is written.
    pub not_after: (u8, &'a [u8]),
}

impl<'a> Certificate<'a> {
    pub fn read(der: &'a [u8]) -> Option<Self> {
        let mut body = Reader::new(der).sequence()?.sequence()?;
        if body.0.first() == Some(&CONTEXT_0) {
            body.next()?;
        }
        body.expect(INTEGER)?;
        // Signature algorithm and issuer.
        for _ in 0..2 {
            body.sequence()?;
        }
        let mut validity = body.sequence()?;
        validity.next()?;
        let not_after = validity.next()?;
        let subject = body.sequence()?;
        let from_key = body.0;
        body.sequence()?;
        let key = from_key.get(..from_key.len().checked_sub(body.0.len())?)?;
        Some(Self { subject, key, not_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_order_and_bad_ones_refused() {
        for (bytes, expected) in [
            (&[][..], None),
            (&[0x02], None),
            (&[0x02, 0x01], None),
            (&[0x02, 0x01, 0x05], Some((0x02, &[5][..]))),
            (&[0x02, 0x00], Some((0x02, &[][..]))),
            (&[0x04, 0x81, 0x01, 0x07], Some((0x04, &[7][..]))),
            (&[0x04, 0x82, 0x00, 0x01, 0x07], Some((0x04, &[7][..]))),
            (&[0x04, 0x80, 0x07], None),
            (&[0x04, 0x84, 0, 0, 0, 1, 7], None),
            (&[0x04, 0x83, 0xff, 0xff, 0xff, 7], None),
            (&[0x1f, 0x01, 0x00], None),
        ] {
            assert_eq!(Reader::new(bytes).next(), expected, "{bytes:x?}");
        }
        for (bytes, expected) in [
            (&[0x02, 0x01, 0x05][..], Some(&[5][..])),
            (&[0x02, 0x02, 0x00, 0x85], Some(&[0x85][..])),
            (&[0x02, 0x01, 0x85], None),
            (&[0x02, 0x01, 0x00], None),
            (&[0x02, 0x00], None),
            (&[0x03, 0x01, 0x05], None),
        ] {
            assert_eq!(Reader::new(bytes).unsigned(), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn no_certificate_cut_short_or_altered_makes_the_reader_panic() {
        let authority = crate::certificate::Authority::make(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let whole = rustls::pki_types::pem::PemObject::from_pem_slice(authority.certificate().as_bytes());
        let whole: rustls::pki_types::CertificateDer<'_> = whole.unwrap();
        let key = Certificate::read(&whole).unwrap().key.to_vec();
        assert!(crate::key::VerifyingKey::from_der(&key).is_ok());
        for end in 0..whole.len() {
            assert!(Certificate::read(&whole[..end]).is_none(), "{end}");
            for flip in [0x01, 0x80, 0xff] {
                let mut altered = whole.to_vec();
                altered[end] ^= flip;
                let _ = Certificate::read(&altered).map(|read| crate::key::VerifyingKey::from_der(read.key));
            }
        }
    }
}
