//! Sensitivity of the findings: every assumption varied alone.
//!
//! The assumptions that change a finding most are reported with it, so that readers know which
//! prices to check.

use super::changes::{Change, Group, changes};
use super::findings::{Findings, findings};
use super::kind::Kind;
use super::prices::Prices;
use super::words::gib;
use serde::{Deserialize, Serialize};

/// One number of the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metric {
    /// Largest demand up to which CPU memory alone is cheapest, GiB.
    CheapestUpTo,
    /// Saving of a kind over CPU memory alone at one demand, as a share.
    Saving {
        /// Kind that is compared with CPU memory.
        kind: Kind,
        /// Demand at which both are compared, GiB.
        demand_gib: u64,
    },
}

impl Metric {
    /// The numbers that summarise `found`.
    ///
    /// The demand up to which CPU memory is cheapest, and per kind the largest saving; for several
    /// devices also the largest one beyond the demands at which one device saves most.
    pub fn of(found: &Findings) -> Vec<Metric> {
        let mut metrics = vec![Metric::CheapestUpTo];
        for of_kind in &found.kinds {
            let kind = of_kind.kind;
            let mut add = |demand_gib| {
                let metric = Metric::Saving { kind, demand_gib };
                if !metrics.contains(&metric) {
                    metrics.push(metric);
                }
            };
            if let Some(best) = of_kind.largest() {
                add(best.range.to_gib);
            }
            if let Some(later) = found.beyond_one_device(kind) {
                add(later.range.to_gib);
            }
        }
        metrics
    }

    /// Value in `found` with demands rounded up to multiples of `step_gib`; `None` if one side of
    /// the comparison cannot meet the demand.
    fn value(self, found: &Findings, step_gib: u64) -> Option<f64> {
        match self {
            Metric::CheapestUpTo => {
                let up_to = found.cpu_memory_cheapest_up_to_gib;
                Some((up_to / step_gib * step_gib) as f64)
            }
            Metric::Saving { kind, demand_gib } => {
                let demand_gib = demand_gib.div_ceil(step_gib) * step_gib;
                Some(found.of(kind)?.at(demand_gib)?.share)
            }
        }
    }

    /// The value as text.
    fn number(self, value: Option<f64>) -> String {
        match (self, value) {
            (_, None) => "no comparison (one side cannot meet it)".into(),
            (Metric::CheapestUpTo, Some(0.0)) => "no demand".into(),
            (Metric::CheapestUpTo, Some(up_to)) => gib(up_to as u64),
            // One decimal more than elsewhere, so that small changes show.
            (Metric::Saving { .. }, Some(share)) => format!("{:.1}%", share * 100.0),
        }
    }

    /// Name of the number, as text.
    pub fn words(self) -> String {
        match self {
            Metric::CheapestUpTo => "CPU memory alone is cheapest up to".into(),
            Metric::Saving { kind, demand_gib } => {
                format!("saving of {} at {}", kind.device_words(), gib(demand_gib))
            }
        }
    }
}

/// One number of the findings before and after a variation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Movement {
    /// The number of the findings that is compared.
    pub metric: Metric,
    /// Value with the given prices; `None` if CPU memory or the kind cannot meet the demand.
    pub before: Option<f64>,
    /// Value with the variation; `None` likewise.
    pub after: Option<f64>,
}

impl Movement {
    /// Absolute change, in the unit of the number; infinite if it becomes undefined or defined, 0
    /// if it stays the same.
    pub fn size(&self) -> f64 {
        match (self.before, self.after) {
            (Some(before), Some(after)) => (after - before).abs(),
            (None, None) => 0.0,
            _ => f64::INFINITY,
        }
    }

    /// As text: "saving of 1 CXL device at 5 TiB: 60.6% -> 51.6%".
    pub fn words(&self) -> String {
        let (before, after) = (
            self.metric.number(self.before),
            self.metric.number(self.after),
        );
        format!("{}: {before} -> {after}", self.metric.words())
    }
}

/// Effect of one varied assumption on the findings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Varied assumption ("price of DDR5 256 GiB").
    pub assumption: String,
    /// Variation as text ("-20%", "yes -> no").
    pub change: String,
    /// Whether a price or another assumption was varied.
    pub group: Group,
    /// All numbers of the findings, before and after.
    pub movements: Vec<Movement>,
    /// Largest saving of any kind at any demand, with the variation; 0 if nothing can be compared.
    pub largest_saving: f64,
}

impl Sensitivity {
    /// The numbers that change, as text; "nothing moves" if none does.
    pub fn effect(&self) -> String {
        let moved = self.movements.iter().filter(|m| m.size() > 0.0);
        let words: Vec<String> = moved.map(Movement::words).collect();
        if words.is_empty() {
            "nothing moves".into()
        } else {
            words.join("; ")
        }
    }
}

/// Varies every assumption, one at a time, and recomputes the findings.
///
/// Varied are each price that matters (20 % both ways), the price of the device's board, the sizes
/// of DIMMs in devices, the numbers of CPUs and devices, the rules, the premium of large DIMMs, and
/// the step of demands. Interactions between assumptions are not examined.
pub fn sensitivities(prices: &Prices, kinds: &[Kind]) -> Vec<Sensitivity> {
    let base = findings(prices, kinds);
    let metrics = Metric::of(&base);
    let most = prices.most_devices();
    let try_out = |change: Change| {
        // "Up to the largest number of devices" follows the varied rules.
        let new_most = change.prices.most_devices();
        let moved = |kind: Kind| match kind.devices {
            n if n > 1 && n == most => Kind {
                devices: new_most,
                ..kind
            },
            _ => kind,
        };
        let found = findings(
            &change.prices,
            &kinds.iter().map(|k| moved(*k)).collect::<Vec<_>>(),
        );
        let movement = |metric: &Metric| {
            let same = match *metric {
                Metric::Saving { kind, demand_gib } => Metric::Saving {
                    kind: moved(kind),
                    demand_gib,
                },
                other => other,
            };
            Movement {
                metric: *metric,
                before: metric.value(&base, 1),
                after: same.value(&found, change.step_gib),
            }
        };
        Sensitivity {
            movements: metrics.iter().map(movement).collect(),
            largest_saving: found.largest_saving().map_or(0.0, |s| s.share),
            assumption: change.assumption,
            change: change.change,
            group: change.group,
        }
    };
    changes(prices, kinds).into_iter().map(try_out).collect()
}

/// The variations that change one number of the findings most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decider {
    /// Number of the findings.
    pub metric: Metric,
    /// Prices whose 20 % change it most, at most two, the largest change first.
    pub prices: Vec<Sensitivity>,
    /// Other assumptions that change it most, at most three, the largest change first.
    pub rules: Vec<Sensitivity>,
}

impl Decider {
    /// Limits on the number of assumptions that are named: rules, prices.
    const NAMED: (usize, usize) = (3, 2);

    /// As text: "decided most by sizes mixed in a channel (no -> yes: 33.1%), then ...; among
    /// prices by price of DDR5 256 GiB (-20%: 51.6%)".
    pub fn words(&self) -> String {
        let list = |all: &[Sensitivity]| {
            let words = all.iter().map(|s| self.one(s));
            words.collect::<Vec<_>>().join(", then ")
        };
        match (self.rules.as_slice(), self.prices.as_slice()) {
            ([], []) => "moved by none of the changed assumptions".into(),
            (rules, []) => format!("decided most by {}; by no price", list(rules)),
            ([], prices) => format!("decided most by {}", list(prices)),
            (rules, prices) => {
                format!(
                    "decided most by {}; among prices by {}",
                    list(rules),
                    list(prices)
                )
            }
        }
    }

    fn one(&self, s: &Sensitivity) -> String {
        let moved = s.movements.iter().find(|m| m.metric == self.metric);
        let to = moved.map_or_else(String::new, |m| self.metric.number(m.after));
        format!("{} ({}: {to})", s.assumption, s.change)
    }
}

/// For each number of the findings, the assumptions that change it most.
///
/// Variations after which nothing can be compared any more are left out, because they change the
/// question and not the result.
pub fn deciders(sensitivities: &[Sensitivity]) -> Vec<Decider> {
    let Some(first) = sensitivities.first() else {
        return Vec::new();
    };
    let of = |(at, movement): (usize, &Movement)| {
        let size = |s: &Sensitivity| s.movements[at].size();
        let most = |group: Group, named: usize| {
            let own = sensitivities.iter().filter(|s| s.group == group);
            let mut moving: Vec<&Sensitivity> = own
                .filter(|s| size(s) > 0.0 && size(s).is_finite())
                .collect();
            moving.sort_by(|a, b| size(b).total_cmp(&size(a)));
            let mut chosen: Vec<Sensitivity> = Vec::new();
            // One entry per assumption, with its largest change.
            for s in moving {
                let known = chosen.iter().any(|c| c.assumption == s.assumption);
                if !known && chosen.len() < named {
                    chosen.push(s.clone());
                }
            }
            chosen
        };
        Decider {
            metric: movement.metric,
            prices: most(Group::Price, Decider::NAMED.1),
            rules: most(Group::Rule, Decider::NAMED.0),
        }
    };
    first.movements.iter().enumerate().map(of).collect()
}
