//! Names and identities that nobody else has.

use sternpost_clock::Clock;

/// A random UUID, version 4.
pub fn new_uid(clock: &Clock) -> String {
    let mut bytes = [0u8; 16];
    clock.random(&mut bytes);
    uuid(bytes)
}

/// Random bytes as a UUID of version 4.
pub fn uuid(random: [u8; 16]) -> String {
    let bits = u128::from_be_bytes(random) & !(0xf << 76) & !(0b11 << 62) | (0x4 << 76) | (0b10 << 62);
    let mut text = String::with_capacity(36);
    for (index, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 0xf] {
            text.push(char::from(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit }));
        }
    }
    text
}

/// `base`, cut to 58 bytes, and five random characters.
pub fn generate_name(clock: &Clock, base: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const MAX_BASE: usize = 58;
    let end = (0..=MAX_BASE.min(base.len())).rev().find(|end| base.is_char_boundary(*end)).unwrap_or(0);
    let mut bytes = [0u8; 5];
    clock.random(&mut bytes);
    let letter = |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len()).copied().unwrap_or(b'b');
    let suffix: String = bytes.iter().map(|byte| char::from(letter(byte))).collect();
    format!("{}{suffix}", base.get(..end).unwrap_or_default())
}
