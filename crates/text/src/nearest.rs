//! The known word that a mistyped one was meant to be.

/// Least similarity, from 0 to 1: below it, unrelated words would be suggested.
const THRESHOLD: f64 = 0.75;
/// Similarity of words that are one letter apart.
const ONE_LETTER: f64 = 0.9;
/// Longest word that is compared, bytes: the time is quadratic, and no name is that long.
const MAX_BYTES: usize = 256;

/// The word of `known` that is most similar to `word`; `None` if none is similar enough.
///
/// Case does not matter. Of equally similar words the first is returned.
///
/// ```
/// assert_eq!(tierloom_text::nearest("skan", ["read", "scan"]), Some("scan"));
/// assert_eq!(tierloom_text::nearest("sort", ["read", "chase"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_BYTES {
        return None;
    }
    let word = word.trim().to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for name in known {
        let score = similarity(&word, &name.to_lowercase());
        if score > best.map_or(THRESHOLD, |(most, _)| most) {
            best = Some((score, name));
        }
    }
    best.map(|(_, name)| name)
}

fn similarity(word: &str, name: &str) -> f64 {
    let likeness = strsim::jaro_winkler(word, name);
    // One letter that is wrong, missing or in the wrong place lowers the similarity of short words
    // too far.
    let one_letter = name.len() > 1 && word.len() > 1 && strsim::osa_distance(word, name) == 1;
    if one_letter {
        likeness.max(ONE_LETTER)
    } else {
        likeness
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        for (word, known, wanted) in [
            ("tbl", &["llc", "tlb"][..], Some("tlb")),
            ("prob", &["read", "probe"], Some("probe")),
            ("raed", &["read", "write"], Some("read")),
            ("opration", &["operation", "rate"], Some("operation")),
            ("lft", &["left", "right"], Some("left")),
            ("CXLL", &["dram", "cxl"], Some("cxl")),
            ("nus42", &["epfl25", "nus24"], Some("nus24")),
            ("q1.4", &["q1.1", "q1.2"], Some("q1.1")),
            ("zzz", &["dram", "cxl"], None),
            ("", &["dram", "cxl"], None),
            ("dram", &[], None),
        ] {
            assert_eq!(nearest(word, known.iter().copied()), wanted, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), ["x"]), None);
    }
}
