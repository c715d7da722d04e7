//! Table of a diagnosis.

use crate::doctor::{Ability, Availability};

/// One line per ability, followed by cause and fix where it is missing or limited.
///
/// The text ends with a line feed.
pub fn doctor_table(abilities: &[Ability]) -> String {
    let width = abilities
        .iter()
        .map(|ability| ability.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for ability in abilities {
        out.push_str(&format!(
            "{:<7}  {:<width$}  {}\n",
            ability.state.to_string(),
            ability.name,
            ability.finding
        ));
        let indent = " ".repeat(9 + width + 2);
        for (label, text) in [("cause", &ability.cause), ("fix", &ability.fix)] {
            if let Some(text) = text {
                out.push_str(&format!("{indent}{label}: {text}\n"));
            }
        }
    }
    let count = |state: Availability| {
        abilities
            .iter()
            .filter(|ability| ability.state == state)
            .count()
    };
    out.push_str(&format!(
        "\n{} yes, {} limited, {} no\n",
        count(Availability::Yes),
        count(Availability::Limited),
        count(Availability::No)
    ));
    out
}
