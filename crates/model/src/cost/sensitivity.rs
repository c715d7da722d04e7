//! Every assumption moved, and what that does to the findings.

use super::changes::{Change, changes};
use super::findings::{Findings, findings};
use super::kind::Kind;
use super::prices::Prices;
use super::words::gib;
use serde::{Deserialize, Serialize};

/// One number of the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metric {
    /// The largest demand up to which CPU memory alone is the cheapest, GiB.
    CheapestUpTo,
    /// What a kind saves over CPU memory alone at a demand, as a share.
    Saving {
        /// The kind.
        kind: Kind,
        /// The demand, GiB.
        demand_gib: u64,
    },
}

impl Metric {
    /// The numbers that stand for the findings of `found`: the demand up to which CPU memory is the cheapest, and per kind the largest
    /// saving; for several devices also the largest one beyond the demands at which one device saves most.
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

    /// What it is in `found`, with demands rounded up to whole `step_gib`; `None` if one of the compared kinds cannot meet the demand.
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

    /// The number in words.
    fn number(self, value: Option<f64>) -> String {
        match (self, value) {
            (_, None) => "no comparison (one side cannot meet it)".into(),
            (Metric::CheapestUpTo, Some(0.0)) => "no demand".into(),
            (Metric::CheapestUpTo, Some(up_to)) => gib(up_to as u64),
            // A digit more than elsewhere: small moves are moves too.
            (Metric::Saving { .. }, Some(share)) => format!("{:.1}%", share * 100.0),
        }
    }

    /// What it is, in words.
    pub fn words(self) -> String {
        match self {
            Metric::CheapestUpTo => "CPU memory alone is cheapest up to".into(),
            Metric::Saving { kind, demand_gib } => {
                format!("saving of {} at {}", kind.device_words(), gib(demand_gib))
            }
        }
    }
}

/// One number of the findings before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Movement {
    /// The number.
    pub metric: Metric,
    /// With the prices as given; `None` if CPU memory or the kind cannot meet the demand.
    pub before: Option<f64>,
    /// With the change.
    pub after: Option<f64>,
}

impl Movement {
    /// How far the number moves, in its own unit; infinite if it is no longer defined, 0 if it is the same.
    pub fn size(&self) -> f64 {
        match (self.before, self.after) {
            (Some(before), Some(after)) => (after - before).abs(),
            (None, None) => 0.0,
            _ => f64::INFINITY,
        }
    }

    /// "saving of 1 CXL device at 5 TiB: 60.6% -> 51.6%".
    pub fn words(&self) -> String {
        let (before, after) = (
            self.metric.number(self.before),
            self.metric.number(self.after),
        );
        format!("{}: {before} -> {after}", self.metric.words())
    }
}

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// One price by 20%.
    Price,
    /// Another assumption: what is sold, what is allowed, what is counted.
    Rule,
}

/// What one changed assumption does to the findings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// The assumption ("price of DDR5 256 GiB").
    pub assumption: String,
    /// How it was changed ("-20%").
    pub change: String,
    /// A price, or another assumption.
    pub group: Group,
    /// All numbers of the findings.
    pub movements: Vec<Movement>,
    /// Largest saving of any kind at any demand, with the change; 0 if nothing can be compared.
    pub largest_saving: f64,
}

impl Sensitivity {
    /// The numbers that move, in words; "nothing moves" if none does.
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

/// Moves every assumption, one at a time: each price that matters by 20% both ways, the price of the device's board, the sizes of DIMMs in
/// devices, numbers of CPUs and devices, the rules, the premium of large DIMMs, the step of demands.
pub fn sensitivities(prices: &Prices, kinds: &[Kind]) -> Vec<Sensitivity> {
    let base = findings(prices, kinds);
    let metrics = Metric::of(&base);
    let most = prices.most_devices();
    let try_out = |change: Change| {
        // "As many devices as there may be" means those of the changed rules.
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

/// What decides one number of the findings: the changes that move it most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decider {
    /// The number.
    pub metric: Metric,
    /// The prices whose 20% move it most, at most two; the first decides.
    pub prices: Vec<Sensitivity>,
    /// The other assumptions that move it most, at most three; the first decides.
    pub rules: Vec<Sensitivity>,
}

impl Decider {
    /// Assumptions that are named, of rules and of prices.
    const NAMED: (usize, usize) = (3, 2);

    /// "decided most by sizes mixed in a channel (no -> yes: 33.1%), then ...; among prices by price of DDR5 256 GiB (-20%: 51.6%)".
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

/// For each number of the findings, the assumptions that move it most. A change after which nothing can be compared any more decides
/// nothing: it asks another question.
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
