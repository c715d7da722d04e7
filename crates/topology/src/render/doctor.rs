//! The table of `doctor`.

use crate::doctor::{Ability, State};

/// One line an ability, with the cause and the fix below those that are missing or limited. Ends with a line feed.
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
    let count = |state: State| {
        abilities
            .iter()
            .filter(|ability| ability.state == state)
            .count()
    };
    out.push_str(&format!(
        "\n{} yes, {} limited, {} no\n",
        count(State::Yes),
        count(State::Limited),
        count(State::No)
    ));
    out
}
