//! Lists of placements, which may contain commas themselves.

use crate::placement::{is_digits, name_and_number};

/// Names before a colon that are policies with a number and no tiers with a weight.
const POLICIES: [&str; 2] = ["columns", "adaptive"];

/// Text that is not a list of placements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A bracket is open at the end.
    #[error("the bracket in `{text}` is not closed")]
    Open {
        /// The list as given.
        text: String,
    },
    /// There is nothing between two commas, or nothing at all.
    #[error("an empty placement in `{text}`")]
    Empty {
        /// The list as given.
        text: String,
    },
}

/// Splits at commas outside brackets, and trims the pieces.
///
/// # Errors
/// [`ListError::Open`] if a bracket is not closed.
pub fn pieces(text: &str) -> Result<Vec<&str>, ListError> {
    let mut open = false;
    let comma = |letter: char| {
        open = (open || letter == '[') && letter != ']';
        letter == ',' && !open
    };
    let found: Vec<&str> = text.split(comma).map(str::trim).collect();
    let last = text.rfind(['[', ']']).map(|at| text.as_bytes()[at]);
    if last == Some(b'[') {
        return Err(ListError::Open { text: text.into() });
    }
    Ok(found)
}

/// Splits a list of placements.
///
/// A comma separates placements, except inside brackets (`[0:3,2:2]`) and between weights or shares
/// by name (`dram:3,cxl:2`, `0=70%,2=30%`), which are one placement. Weights of nodes need the
/// brackets, because `0:3,2:2` is a list of two ratios of dram and cxl. Brackets around a whole
/// placement are taken away.
///
/// # Errors
/// [`ListError`] for an open bracket or an empty placement.
pub fn list(text: &str) -> Result<Vec<String>, ListError> {
    let mut found: Vec<String> = Vec::new();
    for piece in pieces(text)? {
        match found.last_mut() {
            Some(last) if continues(last, piece) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => found.push(piece.to_owned()),
        }
    }
    for placement in &mut found {
        let inner = placement
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Some(inner) = inner {
            *placement = inner.trim().to_owned();
        }
    }
    match found.iter().find(|placement| placement.is_empty()) {
        Some(_) => Err(ListError::Empty { text: text.into() }),
        None => Ok(found),
    }
}

/// Whether `piece` belongs to the placement `before` it: both are weights by name, or both are
/// shares.
pub fn continues(before: &str, piece: &str) -> bool {
    let named_weight = |part: &str| {
        name_and_number(part).is_some_and(|(name, number)| {
            is_digits(number)
                && name.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && !POLICIES.contains(&name.to_ascii_lowercase().as_str())
        })
    };
    let share = |part: &str| part.contains('=') && part.trim_end().ends_with('%');
    let last = before.rsplit(',').next().unwrap_or_default();
    !before.starts_with('[')
        && ((named_weight(last) && named_weight(piece)) || (share(last) && share(piece)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_with_commas_stay_in_one_piece() {
        for (text, wanted) in [
            (
                "dram,cxl,3:2,tier,columns:8",
                "dram | cxl | 3:2 | tier | columns:8",
            ),
            ("dram:3,cxl:2", "dram:3,cxl:2"),
            ("dram 3, cxl 2, cxl", "dram 3,cxl 2 | cxl"),
            (
                "dram,dram:3,cxl:2,columns:8",
                "dram | dram:3,cxl:2 | columns:8",
            ),
            ("0=70%,2=30%,tier", "0=70%,2=30% | tier"),
            ("[0:3,2:2],3:2", "0:3,2:2 | 3:2"),
            ("0:3,2:2", "0:3 | 2:2"),
            ("columns:8,columns:23%", "columns:8 | columns:23%"),
            ("dram:3,adaptive:1GiB", "dram:3 | adaptive:1GiB"),
            ("dram:3,adaptive:1000", "dram:3 | adaptive:1000"),
            ("dram:1GiB,cxl:2GiB", "dram:1GiB | cxl:2GiB"),
            ("[0:3,1:1]:4GiB, dram", "[0:3,1:1]:4GiB | dram"),
        ] {
            assert_eq!(list(text).expect(text).join(" | "), wanted);
        }
    }

    #[test]
    fn holes_and_open_brackets_are_refused() {
        for text in ["", "dram,,cxl", "dram,", "[]", "[ ],dram"] {
            assert!(matches!(list(text), Err(ListError::Empty { .. })), "{text}");
        }
        for text in ["[", "[0:3,2:2", "dram,[cxl", "[0:3],[2"] {
            assert!(matches!(list(text), Err(ListError::Open { .. })), "{text}");
        }
    }
}
