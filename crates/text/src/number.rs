//! Splits text into a number and its unit.

/// Longest text that an error quotes in full, characters.
const SHOWN: usize = 60;

/// The text as an error shows it: its first 60 characters.
pub fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

/// Splits `text` behind its digits and decimal point; `None` unless there is at least one digit and
/// at most one point.
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    (digits > 0 && number.len() - digits <= 1).then_some((number, unit.trim_start()))
}

/// Bytes per unit of a size; `None` for anything else.
///
/// `Kb`, `Mb`, `Gb` and `Tb` are usual for bits and are no sizes.
pub(crate) fn bytes_per(unit: &str) -> Option<u64> {
    let mut letters = unit.chars();
    let bits = unit.ends_with('b') && letters.next().is_some_and(char::is_uppercase);
    let lower = unit.to_ascii_lowercase();
    let (prefix, base) = match lower.as_bytes() {
        [] | b"b" => return Some(1),
        [prefix] => (*prefix, 1024_u64),
        [prefix, b'i', b'b'] => (*prefix, 1024),
        [prefix, b'b'] if !bits => (*prefix, 1000),
        _ => return None,
    };
    let power = match prefix {
        b'k' => 1,
        b'm' => 2,
        b'g' => 3,
        b't' => 4,
        _ => return None,
    };
    Some(base.pow(power))
}
