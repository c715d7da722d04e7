//! Sizes in bytes.

use crate::number;
use std::fmt;
use std::str::FromStr;

/// Units of output, largest first.
const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
/// Most decimals of a size that are read: no size has more, since 2^-40 TiB is one byte.
const MAX_DECIMALS: usize = 15;

/// A size in bytes.
///
/// | text | bytes |
/// |---|---|
/// | `4096`, `4096B` | as written |
/// | `64K`, `64KiB`; also M, G, T | times a power of 1024 |
/// | `64kB`; also MB, GB, TB | times a power of 1000 |
///
/// Decimals are allowed where the result is a whole number of bytes (`1.5GiB`), a blank may stand
/// before the unit, and case does not matter, except that `Kb`, `Mb`, `Gb` and `Tb` are refused
/// because they usually are bits.
///
/// `{}` prints the size exactly, in the largest unit of 1024 that divides it: `1536 MiB`, `100 B`.
/// `{:#}` prints it without a blank, as options are typed: `1536MiB`. Both are read back as the
/// same size. [`Bytes::rounded`] is for people.
///
/// ```
/// use tierloom_text::Bytes;
/// let size: Bytes = "1.5 GiB".parse()?;
/// assert_eq!(size, Bytes(3 << 29));
/// assert_eq!((size.to_string(), size.rounded()), ("1536 MiB".into(), "1.5 GiB".into()));
/// # Ok::<(), tierloom_text::BytesError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// Text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a size: {reason}; expected bytes with or without a unit, as in 512MiB, \
     1.5GiB, 64K, 4096 (K and KiB to T and TiB are powers of 1024) or 2GB (kB to TB are powers of \
     1000)"
)]
pub struct BytesError {
    /// The text as given, shortened.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Bytes {
    /// The size for people, in the largest unit in which it is at least 1, with one decimal unless
    /// it is whole: `1 GiB`, `1.5 GiB`, `100 B`.
    pub fn rounded(self) -> String {
        let in_unit = |shift: u32| self.0 as f64 / (1_u64 << shift) as f64;
        // Compared after rounding to one decimal, so that 1023.96 KiB is printed as 1.0 MiB.
        let smaller = [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30)];
        let fitting = smaller
            .into_iter()
            .find(|(_, shift)| in_unit(*shift) < 1023.95);
        let (unit, shift) = fitting.unwrap_or(("TiB", 40));
        if self.0.is_multiple_of(1 << shift) {
            format!("{} {unit}", self.0 >> shift)
        } else {
            format!("{:.1} {unit}", in_unit(shift))
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blank = if f.alternate() { "" } else { " " };
        let fitting = UNITS
            .iter()
            .find(|(_, shift)| self.0 > 0 && self.0.is_multiple_of(1 << shift));
        let (unit, shift) = fitting.unwrap_or(&("B", 0));
        f.pad(&format!("{}{blank}{unit}", self.0 >> shift))
    }
}

impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Self, BytesError> {
        let wrong = |reason| BytesError {
            text: number::shown(text.trim()),
            reason,
        };
        let (digits, unit) = number::split(text).ok_or_else(|| wrong("no number"))?;
        let per = number::bytes_per(unit).ok_or_else(|| wrong("no unit of sizes"))?;
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
        let decimals = decimals.trim_end_matches('0');
        if decimals.len() > MAX_DECIMALS {
            return Err(wrong("not a whole number of bytes"));
        }
        // Up to 20 digits and 15 decimals, times 2^40, fit in 128 bits.
        let too_large = || wrong("2^64 bytes or more");
        let whole = whole.trim_start_matches('0');
        if whole.len() > 20 {
            return Err(too_large());
        }
        let scaled: u128 = match format!("0{whole}{decimals}").parse() {
            Ok(scaled) => scaled,
            Err(_) => return Err(too_large()),
        };
        let scale = 10_u128.pow(decimals.len() as u32);
        let bytes = scaled.checked_mul(per.into()).ok_or_else(too_large)?;
        if !bytes.is_multiple_of(scale) {
            return Err(wrong("not a whole number of bytes"));
        }
        let bytes = u64::try_from(bytes / scale).map_err(|_| too_large())?;
        Ok(Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_has_one_size() {
        for (text, bytes) in [
            ("0", 0),
            ("256", 256),
            ("256B", 256),
            ("64b", 64),
            ("4k", 4 << 10),
            ("64M", 64 << 20),
            (" 64 MiB ", 64 << 20),
            ("512kib", 512 << 10),
            ("512KIB", 512 << 10),
            ("2g", 2 << 30),
            ("2G", 2 << 30),
            ("1.5GiB", 3 << 29),
            ("1.50 gib", 3 << 29),
            (".5K", 512),
            ("1.K", 1024),
            ("1T", 1 << 40),
            ("64kB", 64_000),
            ("64KB", 64_000),
            ("64kb", 64_000),
            ("2GB", 2_000_000_000),
            ("1.5 tb", 1_500_000_000_000),
            ("00001", 1),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_a_size_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "no number"),
            ("M", "no number"),
            ("-1", "no number"),
            ("+1", "no number"),
            ("NaN", "no number"),
            ("NaNGiB", "no number"),
            ("inf", "no number"),
            ("..5G", "no number"),
            ("1.2.3", "no number"),
            ("64X", "no unit"),
            ("1e3", "no unit"),
            ("1,5G", "no unit"),
            ("4Gb", "no unit"),
            ("4 G B", "no unit"),
            ("4GiBs", "no unit"),
            ("4 µB", "no unit"),
            ("0.3", "whole number"),
            ("0.0000000000000000001TiB", "whole number"),
            ("18446744073709551616", "2^64"),
            ("18446744073709551615G", "2^64"),
            ("99999999999999999999999999999999999999999999", "2^64"),
        ] {
            let error = text.parse::<Bytes>().expect_err(text);
            assert!(error.reason.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_printed_exactly_and_for_people() {
        for (bytes, exact, typed, rounded) in [
            (0, "0 B", "0B", "0 B"),
            (100, "100 B", "100B", "100 B"),
            (1 << 10, "1 KiB", "1KiB", "1 KiB"),
            (3 << 29, "1536 MiB", "1536MiB", "1.5 GiB"),
            (2 << 40, "2 TiB", "2TiB", "2 TiB"),
            (49_152, "48 KiB", "48KiB", "48 KiB"),
            ((1 << 20) - 40, "1048536 B", "1048536B", "1.0 MiB"),
            (
                (1 << 40) - 4096,
                "1073741820 KiB",
                "1073741820KiB",
                "1.0 TiB",
            ),
        ] {
            let size = Bytes(bytes);
            assert_eq!(size.to_string(), exact);
            assert_eq!(format!("{size:#}"), typed);
            assert_eq!(size.rounded(), rounded);
        }
    }
}
