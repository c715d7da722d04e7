//! Heat of columns, and what moves because of it.
//!
//! ```text
//!   reads of columns ── Heat::read ──> bytes per second per GiB, decaying ── plan_moves ──> moves: column, from, to, pages
//! ```

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a GiB.
const GIB: f64 = (1u64 << 30) as f64;

/// How often columns are read: bytes per second, of which every half-life counts half.
///
/// The time is the caller's, in seconds from any start, so that tests and replays need no clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    half_life_s: f64,
    columns: BTreeMap<String, Decaying>,
}

/// A sum that decays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Decaying {
    bytes: f64,
    at_s: f64,
}

impl Heat {
    /// No column was read. A half-life that is not above 0 is taken as one second.
    pub fn new(half_life_s: f64) -> Self {
        let half_life_s = if half_life_s > 0.0 { half_life_s } else { 1.0 };
        Heat {
            half_life_s,
            columns: BTreeMap::new(),
        }
    }

    /// So many bytes of a column were read until `now_s`. Reads that come late count as of the last time known.
    pub fn read(&mut self, column: &str, bytes: f64, now_s: f64) {
        let half_life_s = self.half_life_s;
        let entry = self.columns.entry(column.to_owned()).or_insert(Decaying {
            bytes: 0.0,
            at_s: now_s,
        });
        entry.bytes = entry.bytes_at(now_s, half_life_s) + bytes.max(0.0);
        entry.at_s = entry.at_s.max(now_s);
    }

    /// Bytes per second that are read of a column: what a steady rate would have left behind by now.
    pub fn bytes_per_s(&self, column: &str, now_s: f64) -> f64 {
        let decayed = self.columns.get(column);
        let bytes = decayed.map_or(0.0, |d| d.bytes_at(now_s, self.half_life_s));
        bytes * std::f64::consts::LN_2 / self.half_life_s
    }

    /// The same per GiB of the column: how much a GiB of a fast tier is worth to it. 0 for a column of no size.
    pub fn of(&self, column: &str, size_bytes: u64, now_s: f64) -> f64 {
        match size_bytes {
            0 => 0.0,
            size => self.bytes_per_s(column, now_s) / (size as f64 / GIB),
        }
    }
}

impl Decaying {
    fn bytes_at(&self, now_s: f64, half_life_s: f64) -> f64 {
        let age_s = (now_s - self.at_s).max(0.0);
        self.bytes * (-age_s / half_life_s).exp2()
    }
}

/// A column as the planner of moves sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedColumn {
    /// "lineitem.l_shipdate".
    pub column: String,
    /// All its pages.
    pub pages: u64,
    /// Those on the fast tier.
    pub fast_pages: u64,
    /// Bytes per second per GiB: see [`Heat::of`].
    pub heat: f64,
}

/// What the planner of moves keeps to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveLimits {
    /// The fast and the slow tier.
    pub tiers: (String, String),
    /// Pages of columns that the fast tier may hold.
    pub fast_pages: u64,
    /// Pages that may be moved in one round, up and down together.
    pub pages_per_round: u64,
    /// A column takes the place of another only if it is so many times as hot; at least 1.
    pub hotter: f64,
}

/// Pages of a column that go from one tier to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The column.
    pub column: String,
    /// The tier that they leave.
    pub from: String,
    /// The tier that they go to.
    pub to: String,
    /// How many.
    pub pages: u64,
}

/// What moves in this round: hot columns up, cold ones down to make room.
///
/// After every prefix of the list the fast tier holds at most `limits.fast_pages` (or, where it holds more already, no more than before): what
/// sinks comes before what rises in its place. A column that is not hot at all never rises, and none sinks without need. With heat that stays as it is
/// the rounds come to an end: each swap puts a hotter column in the place of a colder one, by a factor, so that two of much the same heat do not
/// take turns.
pub fn plan_moves(columns: &[PlacedColumn], limits: &MoveLimits) -> Vec<Move> {
    let mut planner = Planner {
        fast: columns.iter().map(|c| c.fast_pages.min(c.pages)).collect(),
        columns,
        limits,
        left: limits.pages_per_round,
        moves: Vec::new(),
    };
    planner.shrink();
    let mut rising: Vec<usize> = (0..columns.len())
        .filter(|&i| columns[i].heat > 0.0)
        .collect();
    rising.sort_by(|&a, &b| by_heat(columns, b, a));
    for up in rising {
        planner.rise(up);
    }
    planner.moves
}

/// Colder first; of columns of one heat, the later name first, so that the order is always the same.
fn by_heat(columns: &[PlacedColumn], a: usize, b: usize) -> std::cmp::Ordering {
    let (one, other) = (&columns[a], &columns[b]);
    one.heat
        .total_cmp(&other.heat)
        .then_with(|| other.column.cmp(&one.column))
}

struct Planner<'a> {
    columns: &'a [PlacedColumn],
    limits: &'a MoveLimits,
    /// Pages of each column on the fast tier.
    fast: Vec<u64>,
    /// Pages that may still be moved.
    left: u64,
    moves: Vec<Move>,
}

impl Planner<'_> {
    fn room(&self) -> u64 {
        let held: u64 = self.fast.iter().sum();
        self.limits.fast_pages.saturating_sub(held)
    }

    /// The coldest column with pages on the fast tier.
    fn coldest(&self) -> Option<usize> {
        let on_fast = (0..self.columns.len()).filter(|&i| self.fast[i] > 0);
        on_fast.min_by(|&a, &b| by_heat(self.columns, a, b))
    }

    /// Sinks the coldest while the fast tier holds more than it may.
    fn shrink(&mut self) {
        while self.left > 0 {
            let held: u64 = self.fast.iter().sum();
            let over = held.saturating_sub(self.limits.fast_pages);
            match self.coldest() {
                Some(cold) if over > 0 => self.sink(cold, over),
                _ => return,
            }
        }
    }

    fn rise(&mut self, up: usize) {
        while self.left > 0 && self.fast[up] < self.columns[up].pages {
            let missing = self.columns[up].pages - self.fast[up];
            let room = self.room();
            if room > 0 {
                let pages = missing.min(room).min(self.left);
                self.fast[up] += pages;
                self.note(up, false, pages);
                continue;
            }
            let hotter = self.limits.hotter.max(1.0);
            match self.coldest() {
                // A swap moves two pages for one that rises.
                Some(cold)
                    if cold != up
                        && self.columns[up].heat > hotter * self.columns[cold].heat
                        && self.left >= 2 =>
                {
                    self.sink(cold, missing.min(self.left / 2));
                }
                _ => return,
            }
        }
    }

    fn sink(&mut self, cold: usize, pages: u64) {
        let pages = pages.min(self.fast[cold]).min(self.left);
        self.fast[cold] -= pages;
        self.note(cold, true, pages);
    }

    fn note(&mut self, column: usize, down: bool, pages: u64) {
        self.left -= pages;
        let (fast, slow) = (&self.limits.tiers.0, &self.limits.tiers.1);
        let (from, to) = if down { (fast, slow) } else { (slow, fast) };
        self.moves.push(Move {
            column: self.columns[column].column.clone(),
            from: from.clone(),
            to: to.clone(),
            pages,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(fast_pages: u64, pages_per_round: u64) -> MoveLimits {
        MoveLimits {
            tiers: ("dram".into(), "cxl".into()),
            fast_pages,
            pages_per_round,
            hotter: 1.25,
        }
    }

    fn column(name: &str, pages: u64, fast_pages: u64, heat: f64) -> PlacedColumn {
        PlacedColumn {
            column: name.into(),
            pages,
            fast_pages,
            heat,
        }
    }

    fn told(moves: &[Move]) -> Vec<String> {
        let words = moves
            .iter()
            .map(|m| format!("{} {}>{} {}", m.column, m.from, m.to, m.pages));
        words.collect()
    }

    #[test]
    fn a_steady_rate_is_found_again_and_half_is_forgotten_in_a_half_life() {
        let mut heat = Heat::new(10.0);
        for step in 0..2000 {
            heat.read("c", 1e6, f64::from(step) * 0.1);
        }
        let rate = heat.bytes_per_s("c", 199.9);
        assert!((rate / 1e7 - 1.0).abs() < 0.02, "{rate}");
        let later = heat.bytes_per_s("c", 209.9);
        assert!((later / rate - 0.5).abs() < 1e-9);
        assert_eq!(heat.of("c", 0, 200.0), 0.0);
        assert_eq!(heat.of("other", 100, 200.0), 0.0);
        let per_gib = heat.of("c", 1 << 29, 199.9);
        assert!((per_gib / rate - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_goes_back_does_not_heat_anything() {
        let mut heat = Heat::new(10.0);
        heat.read("c", 100.0, 50.0);
        heat.read("c", 0.0, 0.0);
        assert!(heat.bytes_per_s("c", 0.0) <= heat.bytes_per_s("c", 50.0));
    }

    #[test]
    fn cold_columns_make_room_before_hot_ones_rise() {
        let columns = [column("cold", 10, 10, 1.0), column("hot", 6, 0, 50.0)];
        let moves = plan_moves(&columns, &limits(10, 100));
        assert_eq!(told(&moves), ["cold dram>cxl 6", "hot cxl>dram 6"]);
    }

    #[test]
    fn much_the_same_heat_and_no_heat_move_nothing() {
        let even = [column("a", 10, 10, 1.0), column("b", 10, 0, 1.2)];
        assert!(plan_moves(&even, &limits(10, 100)).is_empty());
        let unread = [column("a", 10, 0, 0.0)];
        assert!(plan_moves(&unread, &limits(10, 100)).is_empty());
    }

    #[test]
    fn a_smaller_limit_sinks_the_coldest_first_within_the_round() {
        let columns = [column("a", 10, 10, 5.0), column("b", 10, 10, 1.0)];
        assert_eq!(
            told(&plan_moves(&columns, &limits(8, 100))),
            ["b dram>cxl 10", "a dram>cxl 2"]
        );
        assert_eq!(told(&plan_moves(&columns, &limits(8, 4))), ["b dram>cxl 4"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn rounds_end_keep_the_limits_and_leave_the_hottest_up(
            given in prop::collection::vec((1u64..40, 0u64..40, 0u32..8), 1..12),
            fast in 0u64..120,
            per_round in 2u64..50,
        ) {
            let mut columns: Vec<PlacedColumn> = given.iter().enumerate()
                .map(|(i, (pages, up, heat))| column(&format!("c{i}"), *pages, (*up).min(*pages), f64::from(*heat)))
                .collect();
            let limits = limits(fast, per_round);
            let mut rounds = 0;
            loop {
                let moves = plan_moves(&columns, &limits);
                prop_assert!(moves.iter().map(|m| m.pages).sum::<u64>() <= per_round);
                if moves.is_empty() { break; }
                rounds += 1;
                prop_assert!(rounds < 1000, "never ends");
                let before: u64 = columns.iter().map(|c| c.fast_pages).sum();
                for m in &moves {
                    let c = columns.iter_mut().find(|c| c.column == m.column).unwrap();
                    if m.to == "dram" { c.fast_pages += m.pages } else { c.fast_pages -= m.pages }
                    prop_assert!(c.fast_pages <= c.pages);
                    let held: u64 = columns.iter().map(|c| c.fast_pages).sum();
                    prop_assert!(held <= fast.max(before));
                }
            }
            for below in columns.iter().filter(|c| c.fast_pages < c.pages) {
                for above in columns.iter().filter(|c| c.fast_pages > 0) {
                    prop_assert!(below.heat <= 1.25 * above.heat, "{below:?} is hotter than {above:?}");
                }
            }
        }
    }
}
