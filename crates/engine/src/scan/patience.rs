//! Which morsels are worth looking at before they are read.

/// Consecutive morsels returned whole after which few morsels are looked at.
const MOST_IN_VAIN: u32 = 8;

/// One in so many morsels, which is looked at nevertheless: rows that pass may lie together.
const SAMPLED: u32 = 8;

/// How often looking at the rows of a morsel was of no use.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Consecutive morsels that were returned whole because too many rows passed.
    in_vain: u32,
}

impl Patience {
    /// Whether to look at the next morsel.
    pub fn looks(&mut self) -> bool {
        let looks = self.in_vain < MOST_IN_VAIN || self.in_vain.is_multiple_of(SAMPLED);
        if !looks {
            self.in_vain = self.in_vain.saturating_add(1);
        }
        looks
    }

    /// Takes into account what a look was good for.
    pub fn saw(&mut self, of_use: bool) {
        self.in_vain = match of_use {
            true => 0,
            false => self.in_vain.saturating_add(1),
        };
    }
}
