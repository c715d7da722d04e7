//! Splits comma-separated lists of placements, which may contain commas themselves.

/// Splits a list of placements.
///
/// A comma separates placements, except inside brackets (`[0:3,2:2]`) and between parts that name
/// their tier or share (`dram:3,cxl:2`, `0=70%,2=30%`), which belong to one placement.
pub fn placements(text: &str) -> Result<Vec<String>, String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for piece in text.split(',') {
        let joins = open || found.last().is_some_and(|last| continues(last, piece));
        match found.last_mut() {
            Some(last) if joins => {
                last.push(',');
                last.push_str(piece.trim());
            }
            _ => found.push(piece.trim().to_owned()),
        }
        open = (open || piece.contains('[')) && !piece.contains(']');
    }
    if open {
        return Err(format!("the bracket in {text:?} is not closed"));
    }
    let bare: Vec<String> = found
        .into_iter()
        .map(|p| p.trim_matches(['[', ']']).to_owned())
        .collect();
    match bare.iter().find(|p| p.is_empty()) {
        Some(_) => Err(format!("an empty placement in {text:?}")),
        None => Ok(bare),
    }
}

/// Whether `piece` continues the placement `before`: both are of the form `name:weight`, or of the
/// form `target=share`.
fn continues(before: &str, piece: &str) -> bool {
    // `columns:8` has the form of a named weight but is a placement; `3:2` begins with a digit and
    // is one too.
    let named_weight = |part: &str| {
        let name = part.split(':').next().unwrap_or_default().trim();
        part.contains(':')
            && name != "columns"
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let share = |part: &str| part.contains('=');
    let last = before.rsplit(',').next().unwrap_or_default();
    !before.starts_with('[')
        && ((named_weight(last) && named_weight(piece)) || (share(last) && share(piece)))
}

#[cfg(test)]
mod tests {
    use super::placements;

    #[test]
    fn weights_with_commas_stay_in_one_piece() {
        let split = |text: &str| placements(text).unwrap().join(" | ");
        assert_eq!(
            split("dram,cxl,3:2,tier,columns:8"),
            "dram | cxl | 3:2 | tier | columns:8"
        );
        assert_eq!(split("dram:3,cxl:2"), "dram:3,cxl:2");
        assert_eq!(
            split("dram,dram:3,cxl:2,columns:8"),
            "dram | dram:3,cxl:2 | columns:8"
        );
        assert_eq!(split("0=70%,2=30%,tier"), "0=70%,2=30% | tier");
        assert_eq!(split("[0:3,2:2],3:2"), "0:3,2:2 | 3:2");
        assert_eq!(split("columns:8,columns:23%"), "columns:8 | columns:23%");
    }

    #[test]
    fn holes_and_open_brackets_are_refused() {
        assert!(placements("dram,,cxl").is_err());
        assert!(placements("[0:3,2:2").is_err());
        assert!(placements("").is_err());
    }
}
