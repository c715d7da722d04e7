//! Heat of columns, and the migrations that it justifies.
//!
//! Heat decays exponentially, so that columns which a workload no longer reads lose their place in
//! fast memory. Only columns are tracked, not single pages.
//!
//! ```text
//!   Heat::read ──> bytes per second per GiB, decaying ──> plan_moves ──> column, from, to, pages
//! ```

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const GIB: f64 = (1u64 << 30) as f64;

/// Read rate of each column as an exponentially decaying average.
///
/// The caller passes the time, in seconds from any origin, so that tests and replays need no clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    half_life_s: f64,
    columns: BTreeMap<String, Decaying>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Decaying {
    bytes: f64,
    at_s: f64,
}

impl Heat {
    /// Starts with no reads recorded; a half-life of 0 or less is replaced by one second.
    pub fn new(half_life_s: f64) -> Self {
        let half_life_s = if half_life_s > 0.0 { half_life_s } else { 1.0 };
        Heat {
            half_life_s,
            columns: BTreeMap::new(),
        }
    }

    /// Records that `bytes` bytes of a column were read by time `now_s`.
    ///
    /// A time before the last one recorded counts as the last one recorded.
    pub fn read(&mut self, column: &str, bytes: f64, now_s: f64) {
        let half_life_s = self.half_life_s;
        let entry = self.columns.entry(column.to_owned()).or_insert(Decaying {
            bytes: 0.0,
            at_s: now_s,
        });
        entry.bytes = entry.bytes_at(now_s, half_life_s) + bytes.max(0.0);
        entry.at_s = entry.at_s.max(now_s);
    }

    /// Estimated read rate of a column, in bytes per second.
    ///
    /// The decayed sum that a constant rate r leaves is r * half-life / ln 2; this inverts that.
    pub fn bytes_per_s(&self, column: &str, now_s: f64) -> f64 {
        let decayed = self.columns.get(column);
        let bytes = decayed.map_or(0.0, |d| d.bytes_at(now_s, self.half_life_s));
        bytes * std::f64::consts::LN_2 / self.half_life_s
    }

    /// Read rate per GiB of the column: the benefit of holding one GiB of it in fast memory.
    ///
    /// 0 for a column without bytes.
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

/// A column with its current placement, as input of [`plan_moves`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedColumn {
    /// Table and column, such as "lineitem.l_shipdate".
    pub column: String,
    /// Total number of pages.
    pub pages: u64,
    /// Number of pages on the fast tier.
    pub fast_pages: u64,
    /// Bytes per second per GiB; see [`Heat::of`].
    pub heat: f64,
}

/// Limits that [`plan_moves`] has to respect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveLimits {
    /// Names of the fast and the slow tier.
    pub tiers: (String, String),
    /// Capacity of the fast tier for columns, in pages.
    pub fast_pages: u64,
    /// Pages that may be moved in one round, promotions and demotions together.
    pub pages_per_round: u64,
    /// Factor by which a column must be hotter than the one that it displaces; at least 1.
    pub hotter: f64,
}

/// Pages of one column that migrate from one tier to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Table and column, as in [`PlacedColumn::column`].
    pub column: String,
    /// Tier that the pages leave.
    pub from: String,
    /// Tier that the pages go to.
    pub to: String,
    /// Number of pages that move; above 0.
    pub pages: u64,
}

/// Plans one round of migrations: hot columns up, cold ones down to make room.
///
/// Demotions precede the promotions that need their room, so after every prefix of the list the
/// fast tier holds at most `limits.fast_pages`, or no more than before where it already held more.
/// A column with heat 0 is never promoted, and none is demoted without need. While heat stays
/// constant the rounds terminate: each swap replaces a column by one that is hotter by the factor
/// `limits.hotter`, so that two columns of similar heat do not alternate.
pub fn plan_moves(columns: &[PlacedColumn], limits: &MoveLimits) -> Vec<Move> {
    let mut planner = Planner {
        fast: columns.iter().map(|c| c.fast_pages.min(c.pages)).collect(),
        columns,
        limits,
        left: limits.pages_per_round,
        moves: Vec::new(),
    };
    planner.shrink();
    // Hottest first, so that a limited round moves the pages with the highest benefit.
    let mut rising: Vec<usize> = (0..columns.len())
        .filter(|&i| columns[i].heat > 0.0)
        .collect();
    rising.sort_by(|&a, &b| by_heat(columns, b, a));
    for up in rising {
        planner.rise(up);
    }
    planner.moves
}

/// Orders by heat, coldest first; ties by name, last name first, so that plans are deterministic.
fn by_heat(columns: &[PlacedColumn], a: usize, b: usize) -> std::cmp::Ordering {
    let (one, other) = (&columns[a], &columns[b]);
    one.heat
        .total_cmp(&other.heat)
        .then_with(|| other.column.cmp(&one.column))
}

struct Planner<'a> {
    columns: &'a [PlacedColumn],
    limits: &'a MoveLimits,
    /// Pages of each column on the fast tier, moves planned so far included.
    fast: Vec<u64>,
    /// Pages that this round may still move.
    left: u64,
    moves: Vec<Move>,
}

impl Planner<'_> {
    fn room(&self) -> u64 {
        let held: u64 = self.fast.iter().sum();
        self.limits.fast_pages.saturating_sub(held)
    }

    fn coldest(&self) -> Option<usize> {
        let on_fast = (0..self.columns.len()).filter(|&i| self.fast[i] > 0);
        on_fast.min_by(|&a, &b| by_heat(self.columns, a, b))
    }

    /// Demotes the coldest columns while the fast tier is over capacity (it may have been lowered).
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
            // Free room first: displacing another column moves two pages for each one gained.
            if room > 0 {
                let pages = missing.min(room).min(self.left);
                self.fast[up] += pages;
                self.note(up, false, pages);
                continue;
            }
            let hotter = self.limits.hotter.max(1.0);
            match self.coldest() {
                // Displacing takes two page moves per page promoted, so it needs two of what is
                // left.
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

    fn listed(moves: &[Move]) -> Vec<String> {
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
        assert_eq!(listed(&moves), ["cold dram>cxl 6", "hot cxl>dram 6"]);
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
            listed(&plan_moves(&columns, &limits(8, 100))),
            ["b dram>cxl 10", "a dram>cxl 2"]
        );
        assert_eq!(
            listed(&plan_moves(&columns, &limits(8, 4))),
            ["b dram>cxl 4"]
        );
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
