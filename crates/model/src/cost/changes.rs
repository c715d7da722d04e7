//! The variations of the sensitivity analysis: every price and every rule, one at a time.

use super::kind::Kind;
use super::prices::{Device, Dimm, Prices};
use super::words::{gib, money, share_words};
use serde::{Deserialize, Serialize};

/// Group of assumptions that a variation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// One price, by 20 %.
    Price,
    /// Any other assumption: what is on sale, what is allowed, what is counted.
    Rule,
}

/// One variation of the assumptions.
pub(super) struct Change {
    pub assumption: String,
    pub change: String,
    pub group: Group,
    pub prices: Prices,
    /// Demands are rounded up to multiples of this size, GiB.
    pub step_gib: u64,
}

/// All variations that are possible for these prices.
pub(super) fn changes(prices: &Prices, kinds: &[Kind]) -> Vec<Change> {
    let mut all = Changes {
        base: prices,
        made: Vec::new(),
    };
    all.prices();
    all.devices(kinds);
    all.rules(kinds);
    for step_gib in [256, 1024] {
        all.made.push(Change {
            assumption: "step in which demands are rounded up".into(),
            change: format!("none -> {}", gib(step_gib)),
            group: Group::Rule,
            prices: prices.clone(),
            step_gib,
        });
    }
    all.made
}

struct Changes<'p> {
    base: &'p Prices,
    made: Vec<Change>,
}

impl Changes<'_> {
    /// Adds a variation, unless it leaves the prices as they are or makes them invalid.
    fn add(
        &mut self,
        assumption: String,
        change: String,
        group: Group,
        apply: impl FnOnce(&mut Prices),
    ) {
        let mut prices = self.base.clone();
        apply(&mut prices);
        if prices != *self.base && prices.check().is_ok() {
            self.made.push(Change {
                assumption,
                change,
                group,
                prices,
                step_gib: 1,
            });
        }
    }

    /// Every price by 20 % both ways, and the premium of large DIMMs removed.
    fn prices(&mut self) {
        let base = self.base;
        for (factor, words) in [(0.8, "-20%"), (1.2, "+20%")] {
            let price = &base.cpu.price;
            self.add("price of a CPU".into(), words.into(), Group::Price, |p| {
                p.cpu.price = price.with(price.value * factor)
            });
        }
        for index in 0..base.dimms.len() {
            let dimm = &base.dimms[index];
            let in_devices = base.devices.iter().any(|device| {
                device.dimms == dimm.generation && device.sizes_gib.contains(&dimm.size_gib)
            });
            // Prices of DIMMs that no configuration can contain have no effect.
            if dimm.generation != base.cpu.dimms && !in_devices {
                continue;
            }
            for (factor, words) in [(0.8, "-20%"), (1.2, "+20%")] {
                let name = format!("price of {}", dimm.words());
                self.add(name, words.into(), Group::Price, |p| {
                    p.dimms[index].price = dimm.price.with(dimm.price.value * factor)
                });
            }
        }
        self.premium();
    }

    /// Removes the premium: large DIMMs cost more per GiB than small ones, which favours devices at
    /// large demands.
    fn premium(&mut self) {
        let base = self.base;
        let per_gib = |d: &Dimm| d.price.value / d.size_gib as f64;
        let own = base.dimms_of(&base.cpu.dimms);
        let (Some(largest), Some(cheapest)) = (
            own.last(),
            own.iter().min_by(|a, b| per_gib(a).total_cmp(&per_gib(b))),
        ) else {
            return;
        };
        let rate = per_gib(cheapest);
        let name = || format!("premium per GiB of {}", base.cpu.dimms.to_uppercase());
        let change = format!(
            "{} GiB: {:.1} -> {rate:.1} {}/GiB",
            largest.size_gib,
            per_gib(largest),
            base.currency
        );
        self.add(name(), change, Group::Rule, |p| {
            for d in p.dimms.iter_mut().filter(|d| *d == *largest) {
                d.price = d.price.with(rate * d.size_gib as f64);
            }
        });
        let (name, change) = (
            name(),
            format!("every size at {rate:.1} {}/GiB", base.currency),
        );
        self.add(name, change, Group::Rule, |p| {
            let all = p.dimms.iter_mut();
            for d in all.filter(|d| d.generation == base.cpu.dimms) {
                d.price = d.price.with(rate * d.size_gib as f64);
            }
        });
    }

    fn devices(&mut self, kinds: &[Kind]) {
        let base = self.base;
        for (index, device) in base.devices.iter().enumerate() {
            for more in [500.0, 1000.0, 2000.0] {
                let now = device.board_price.value;
                let change = format!(
                    "{} -> {}",
                    money(&base.currency, now),
                    money(&base.currency, now + more)
                );
                let name = format!("price of the board of one {}", device.name);
                self.add(name, change, Group::Rule, |p| {
                    let board = &mut p.devices[index].board_price;
                    *board = board.with(now + more);
                });
            }
            self.sizes(index, device);
            let most = device.max.value;
            for other in [(most / 2.0).floor().max(1.0), most * 2.0] {
                if kinds.iter().any(|k| k.devices > 1) {
                    let name = format!("most devices of {}", device.name);
                    let change = format!("{most} -> {other}");
                    self.add(name, change, Group::Rule, |p| {
                        let max = &mut p.devices[index].max;
                        *max = max.with(other);
                    });
                }
            }
        }
    }

    /// The next smaller and larger sizes than those allowed, and all sizes together.
    fn sizes(&mut self, index: usize, device: &Device) {
        let sold = self.base.dimms_of(&device.dimms);
        let sold: Vec<u64> = sold.iter().map(|d| d.size_gib).collect();
        let (least, most) = (device.sizes_gib.iter().min(), device.sizes_gib.iter().max());
        let smaller = sold.iter().rfind(|size| Some(*size) < least);
        let larger = sold.iter().find(|size| Some(*size) > most);
        let single = smaller.into_iter().chain(larger).map(|size| vec![*size]);
        for sizes in single.chain([sold.clone()]) {
            let name = format!("DIMM sizes in {}", device.name);
            let change = format!("{:?} -> {sizes:?} GiB", device.sizes_gib);
            self.add(name, change, Group::Rule, |p| {
                p.devices[index].sizes_gib = sizes;
            });
        }
    }

    fn rules(&mut self, kinds: &[Kind]) {
        let base = self.base;
        let counts = &base.cpu.counts;
        let (first, last) = (counts[..1].to_vec(), counts.last().copied().unwrap_or(1));
        let doubled = [counts.as_slice(), &[last * 2]].concat();
        for other in [first, doubled] {
            let change = format!("{counts:?} -> {other:?}");
            self.add("numbers of CPUs".into(), change, Group::Rule, |p| {
                p.cpu.counts = other
            });
        }
        let words = |now: bool| if now { "yes -> no" } else { "no -> yes" }.to_owned();
        let filled = base.rules.all_slots_filled;
        self.add("all slots filled".into(), words(filled), Group::Rule, |p| {
            p.rules.all_slots_filled = !filled
        });
        let mixed = base.rules.mixed_sizes;
        self.add(
            "sizes mixed in a channel".into(),
            words(mixed),
            Group::Rule,
            |p| p.rules.mixed_sizes = !mixed,
        );
        if kinds.iter().any(|k| k.reused) {
            for share in [0.25, 0.5] {
                let now = &base.rules.reused_price_share;
                let name = "price of reused DIMMs over new ones".into();
                let change = format!("{} -> {}", share_words(now.value), share_words(share));
                self.add(name, change, Group::Rule, |p| {
                    p.rules.reused_price_share = now.with(share)
                });
            }
        }
    }
}
