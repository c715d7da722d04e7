//! The text of placements, as a syntax tree.

use std::fmt;
use std::str::FromStr;

/// Largest weight of one part; far above the kernel's own limit of 255.
pub const MAX_WEIGHT: u32 = 10_000;
/// Largest deviation of the sum of shares from 100 %: three thirds are typed as 33.3%.
const SHARE_SUM_TOLERANCE_PERCENT: f64 = 0.2;

/// A node or a tier, as named in a placement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// One NUMA node, by number.
    Node(u32),
    /// A tier, in lower case; whether there is one of that name is for the user of the tree.
    Tier(String),
}

/// A placement as it is written, with one meaning wherever it is written.
///
/// | text | meaning |
/// |---|---|
/// | `default` | no policy: the kernel's choice on first touch |
/// | `0`, `dram`, `cxl` | all pages on that node or tier |
/// | `0:3,2:2`, `dram:3,cxl:2` | interleaved: rounds of 3 pages, then 2 |
/// | `dram 3, cxl 2` | the same, as weights are printed |
/// | `3:2` | `dram:3,cxl:2` (the notation of the literature); so `0:1` alone means all on cxl |
/// | `0=70%,2=30%` | contiguous parts: the first 70% of the object on node 0, the rest on node 2 |
///
/// Brackets may stand around it, as lists need them. More than two numbers without names (`2:1:1`)
/// are refused, because machines with three tiers do not agree on an order of them. Case does not
/// matter. The [`fmt::Display`] form is read back as the same placement, but for weights of a
/// single node, which are printed as the node.
#[derive(Debug, Clone, PartialEq)]
pub enum Placement {
    /// The kernel chooses the node at first touch.
    Default,
    /// All pages in one place.
    All(Place),
    /// Rounds of pages; weights are pages per round, and at least one is above 0.
    Weights(Vec<(Place, u32)>),
    /// Contiguous parts, in per cent of the object's size, with a sum of about 100.
    Parts(Vec<(Place, f64)>),
}

/// Text that is not a placement.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlacementError {
    /// A part of the text cannot be read.
    #[error(
        "cannot read placement `{text}` at `{piece}`: {reason}; \
         write a node or tier (`0`, `dram`), weights (`0:3,2:2`, `dram:3,cxl:2`, `3:2`), \
         contiguous parts (`0=70%,2=30%`) or `default`"
    )]
    Syntax {
        /// The whole placement, as given.
        text: String,
        /// The part of it that cannot be read.
        piece: String,
        /// What is wrong with that part.
        reason: String,
    },
    /// All weights are zero.
    #[error(
        "placement `{text}` puts no page anywhere: no weight is above 0; give at least one tier or \
         node a weight of 1 or more"
    )]
    NothingPlaced {
        /// The placement as given.
        text: String,
    },
    /// The shares do not add up to 100 %.
    #[error("the shares of placement `{text}` add up to {sum_percent}%; they must add up to 100%")]
    ShareSum {
        /// The placement as given.
        text: String,
        /// Sum of the shares.
        sum_percent: f64,
    },
}

impl FromStr for Placement {
    type Err = PlacementError;

    /// Parses a placement; see [`Placement`] for the syntax.
    ///
    /// # Errors
    /// [`PlacementError`]: a part cannot be read, all weights are 0, or shares do not add up to
    /// 100%.
    fn from_str(text: &str) -> Result<Self, PlacementError> {
        let reader = Reader { text };
        let compact = text.trim().to_ascii_lowercase();
        let inner = compact
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let bare = inner.unwrap_or(&compact).trim();
        if bare.contains(['[', ']']) {
            return Err(reader.syntax(bare, "a bracket has no other one"));
        }
        if bare == "default" {
            return Ok(Self::Default);
        }
        let pieces: Vec<&str> = bare.split(',').map(str::trim).collect();
        match pieces.as_slice() {
            [one] if !one.contains([':', '=']) && !one.contains(char::is_whitespace) => {
                Ok(Self::All(reader.place(one, one)?))
            }
            // Before weights: `0:3` alone is a ratio, and not node 0 with a weight.
            [one] if is_ratio(one) => reader.ratio(one),
            _ if pieces.iter().any(|piece| piece.contains('=')) => reader.parts(&pieces),
            _ => reader.weights(&pieces),
        }
    }
}

impl Placement {
    /// The places that hold pages, in the order of the text; those of weight or share 0 do not.
    pub fn used(&self) -> Vec<&Place> {
        match self {
            Self::Default => Vec::new(),
            Self::All(place) => vec![place],
            Self::Weights(weights) => {
                let used = weights.iter().filter(|(_, weight)| *weight > 0);
                used.map(|(place, _)| place).collect()
            }
            Self::Parts(parts) => {
                let used = parts.iter().filter(|(_, share)| *share > 0.0);
                used.map(|(place, _)| place).collect()
            }
        }
    }
}

/// Whether the text is a ratio such as `3:2`: only numbers between the colons.
fn is_ratio(piece: &str) -> bool {
    piece.contains(':') && piece.split(':').all(|part| is_digits(part.trim()))
}

pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits `dram:3` or `dram 3` into the name and the number.
pub(crate) fn name_and_number(piece: &str) -> Option<(&str, &str)> {
    let (name, number) = match piece.split_once(':') {
        Some(parts) => parts,
        None => piece
            .trim()
            .rsplit_once(char::is_whitespace)
            .filter(|(name, _)| name.starts_with(|letter: char| letter.is_ascii_alphabetic()))?,
    };
    Some((name.trim(), number.trim()))
}

/// Parses the parts of one text; errors quote both the whole and the part.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn syntax(&self, piece: &str, reason: impl Into<String>) -> PlacementError {
        PlacementError::Syntax {
            text: self.text.to_owned(),
            piece: piece.to_owned(),
            reason: reason.into(),
        }
    }

    fn place(&self, word: &str, piece: &str) -> Result<Place, PlacementError> {
        if word.is_empty() {
            return Err(self.syntax(piece, "a node or tier is missing"));
        }
        if is_digits(word) {
            return match word.parse() {
                Ok(number) => Ok(Place::Node(number)),
                Err(_) => Err(self.syntax(piece, "the node number is too large")),
            };
        }
        // Any other name is for the user of the tree to know.
        let letters = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
        if word.starts_with(char::is_alphabetic) && word.chars().all(letters) {
            return Ok(Place::Tier(word.to_owned()));
        }
        let reason = format!("`{word}` is neither a node number nor the name of a tier");
        Err(self.syntax(piece, reason))
    }

    fn ratio(&self, piece: &str) -> Result<Placement, PlacementError> {
        let weights = piece
            .split(':')
            .map(|part| self.weight(part.trim(), piece))
            .collect::<Result<Vec<_>, _>>()?;
        let [dram, cxl] = weights.as_slice() else {
            return Err(self.syntax(
                piece,
                "a ratio has two numbers (dram:cxl); for more tiers name them, as in \
                 dram:3,cxl:2,remote:1",
            ));
        };
        self.placed(vec![
            (Place::Tier("dram".into()), *dram),
            (Place::Tier("cxl".into()), *cxl),
        ])
    }

    fn weights(&self, pieces: &[&str]) -> Result<Placement, PlacementError> {
        let mut weights = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if piece.is_empty() {
                return Err(self.syntax(piece, "an empty part: a node or tier is missing"));
            }
            let Some((word, number)) = name_and_number(piece) else {
                return Err(self.syntax(piece, "a weight is missing, as in `0:3`"));
            };
            weights.push((self.place(word, piece)?, self.weight(number, piece)?));
        }
        self.placed(weights)
    }

    fn placed(&self, weights: Vec<(Place, u32)>) -> Result<Placement, PlacementError> {
        if weights.iter().all(|(_, weight)| *weight == 0) {
            return Err(PlacementError::NothingPlaced {
                text: self.text.to_owned(),
            });
        }
        Ok(Placement::Weights(weights))
    }

    fn weight(&self, number: &str, piece: &str) -> Result<u32, PlacementError> {
        match number.parse::<u32>() {
            Ok(weight) if weight <= MAX_WEIGHT && !number.starts_with('+') => Ok(weight),
            _ => Err(self.syntax(
                piece,
                format!("`{number}` is not a weight (a whole number from 0 to {MAX_WEIGHT})"),
            )),
        }
    }

    fn parts(&self, pieces: &[&str]) -> Result<Placement, PlacementError> {
        let mut parts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let Some((word, number)) = piece.split_once('=') else {
                return Err(self.syntax(
                    piece,
                    "a share is missing, as in `0=70%`; weights and shares do not mix",
                ));
            };
            let number = number.trim();
            let Some(digits) = number.strip_suffix('%') else {
                let reason = format!(
                    "`{number}` is not a share, which ends in %; weights have a colon, as in dram:3"
                );
                return Err(self.syntax(piece, reason));
            };
            let digits = digits.trim();
            let share = match digits.parse::<f64>() {
                // `parse` accepts `-0` and a leading `+`; NaN is not in the range.
                Ok(share) if (0.0..=100.0).contains(&share) && !digits.starts_with(['-', '+']) => {
                    share
                }
                _ => {
                    let reason = format!("`{number}` is not a share from 0% to 100%");
                    return Err(self.syntax(piece, reason));
                }
            };
            parts.push((self.place(word.trim(), piece)?, share));
        }
        let sum_percent: f64 = parts.iter().map(|(_, share)| share).sum();
        if (sum_percent - 100.0).abs() > SHARE_SUM_TOLERANCE_PERCENT {
            return Err(PlacementError::ShareSum {
                text: self.text.to_owned(),
                sum_percent,
            });
        }
        Ok(Placement::Parts(parts))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "{node}"),
            Self::Tier(tier) => f.write_str(tier),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |parts: Vec<String>| parts.join(",");
        match self {
            Self::Default => f.write_str("default"),
            Self::All(place) => write!(f, "{place}"),
            // A single `0:3` would be read as a dram:cxl ratio; weights of one node are all on it.
            Self::Weights(weights) if matches!(weights.as_slice(), [(Place::Node(_), _)]) => {
                write!(f, "{}", weights[0].0)
            }
            Self::Weights(weights) => {
                let parts = weights.iter().map(|(place, w)| format!("{place}:{w}"));
                f.write_str(&join(parts.collect()))
            }
            Self::Parts(parts) => {
                let parts = parts
                    .iter()
                    .map(|(place, share)| format!("{place}={share}%"));
                f.write_str(&join(parts.collect()))
            }
        }
    }
}
