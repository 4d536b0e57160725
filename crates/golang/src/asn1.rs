//! Reading DER as Go's `encoding/asn1` reads it, errors included.

/// The longest content there is.
const MAX_LENGTH: usize = 1 << 23;

pub const INTEGER: Tag = Tag { class: 0, number: 2, compound: false };
pub const BIT_STRING: Tag = Tag { class: 0, number: 3, compound: false };
pub const OID: Tag = Tag { class: 0, number: 6, compound: false };
pub const UTC_TIME: Tag = Tag { class: 0, number: 23, compound: false };
pub const GENERALIZED_TIME: Tag = Tag { class: 0, number: 24, compound: false };
pub const SEQUENCE: Tag = Tag { class: 0, number: 16, compound: true };
pub const SET: Tag = Tag { class: 0, number: 17, compound: true };

/// `[number]`, with something in it.
pub const fn context(number: u64) -> Tag {
    Tag { class: 2, number, compound: true }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    pub class: u8,
    pub number: u64,
    pub compound: bool,
}

/// A tag, a length and what is between.
#[derive(Debug, Clone, Copy)]
pub struct Element<'a> {
    pub tag: Tag,
    /// With tag and length.
    pub whole: &'a [u8],
    pub content: &'a [u8],
}

/// What is left of a sequence of elements.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What Go says.
pub type Problem = String;

pub fn syntax(what: &str) -> Problem {
    format!("asn1: syntax error: {what}")
}

pub fn structure(what: &str) -> Problem {
    format!("asn1: structure error: {what}")
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next element, which is of this tag; `kind` is the name of Go's type.
    pub fn expect(&mut self, tag: Tag, kind: &str) -> Result<Element<'a>, Problem> {
        self.next_if(Some((tag, kind)))
    }

    /// The next element, whatever it is.
    pub fn any(&mut self) -> Result<Element<'a>, Problem> {
        self.next_if(None)
    }

    /// The next element if it is of this tag and whole.
    pub fn take(&mut self, tag: Tag) -> Option<Element<'a>> {
        let mut ahead = *self;
        let element = ahead.any().ok().filter(|element| element.tag == tag)?;
        *self = ahead;
        Some(element)
    }

    fn next_if(&mut self, expected: Option<(Tag, &str)>) -> Result<Element<'a>, Problem> {
        if self.is_empty() {
            return Err(syntax("sequence truncated"));
        }
        let begin = self.at;
        let (tag, length, at) = header(self.bytes, begin)?;
        if let Some((wanted, kind)) = expected.filter(|(wanted, _)| *wanted != tag) {
            let found = format!(
                "{{class:{} tag:{} length:{length} isCompound:{}}}",
                tag.class, tag.number, tag.compound
            );
            let parameters = "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}";
            return Err(structure(&format!(
                "tags don't match ({} vs {found}) {parameters} {kind} @{at}",
                wanted.number
            )));
        }
        let end = at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| syntax("data truncated"))?;
        self.at = end;
        let slice = |from: usize| self.bytes.get(from..end).unwrap_or_default();
        Ok(Element { tag, whole: slice(begin), content: slice(at) })
    }
}

impl<'a> Element<'a> {
    pub fn inside(&self) -> Reader<'a> {
        Reader::new(self.content)
    }

    /// The bits of a BIT STRING, as whole bytes.
    pub fn bits(&self) -> Result<&'a [u8], Problem> {
        let Some((padding, bits)) = self.content.split_first() else {
            return Err(syntax("zero length BIT STRING"));
        };
        let unused = bits.last().is_none_or(|last| u32::from(*last).trailing_zeros() < u32::from(*padding));
        if *padding > 7 || (*padding > 0 && unused) {
            return Err(syntax("invalid padding bits in BIT STRING"));
        }
        Ok(bits)
    }

    pub fn oid(&self) -> Result<&'a [u8], Problem> {
        if self.content.is_empty() { Err(syntax("zero length OBJECT IDENTIFIER")) } else { Ok(self.content) }
    }

    /// An integer in its one form.
    pub fn integer(&self) -> Result<&'a [u8], Problem> {
        match *self.content {
            [] => Err(structure("empty integer")),
            [0, next, ..] if next < 0x80 => Err(structure("integer not minimally-encoded")),
            [0xff, next, ..] if next >= 0x80 => Err(structure("integer not minimally-encoded")),
            _ => Ok(self.content),
        }
    }
}

/// The tag at a place, the length of its content, and where that begins.
fn header(bytes: &[u8], mut at: usize) -> Result<(Tag, usize, usize), Problem> {
    let truncated = || syntax("truncated tag or length");
    let mut byte = |why: &dyn Fn() -> Problem| {
        let byte = bytes.get(at).copied().ok_or_else(why);
        at += 1;
        byte
    };
    let first = byte(&truncated)?;
    let mut number = u64::from(first & 0x1f);
    if number == 0x1f {
        number = 0;
        let mut digits = 0;
        loop {
            let digit = byte(&|| syntax("truncated base 128 integer"))?;
            if digits == 0 && digit == 0x80 {
                return Err(syntax("integer is not minimally encoded"));
            }
            number = number << 7 | u64::from(digit & 0x7f);
            digits += 1;
            if digit & 0x80 == 0 {
                break;
            }
            // Go reads 31 bits.
            if digits > 4 {
                return Err(structure("base 128 integer too large"));
            }
        }
        if number < 0x1f {
            return Err(syntax("non-minimal tag"));
        }
    }
    let tag = Tag { class: first >> 6, number, compound: first & 0x20 != 0 };
    let short = byte(&truncated)?;
    if short & 0x80 == 0 {
        return Ok((tag, usize::from(short), at));
    }
    let count = short & 0x7f;
    if count == 0 {
        return Err(syntax("indefinite length found (not DER)"));
    }
    let mut length = 0usize;
    for _ in 0..count {
        let digit = byte(&truncated)?;
        if length >= MAX_LENGTH {
            return Err(structure("length too large"));
        }
        length = length << 8 | usize::from(digit);
        if length == 0 {
            return Err(structure("superfluous leading zeros in length"));
        }
    }
    if length < 0x80 {
        return Err(structure("non-minimal length"));
    }
    Ok((tag, length, at))
}
