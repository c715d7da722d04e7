//! Other programs on the machine, whose load on a tier comes and goes.

use tierloom_model::{Background, Tier};

/// A program that reads from one tier part of the time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tenant {
    /// 0 for the fast tier, 1 for the slow one.
    pub tier: usize,
    /// What it reads, as a share of the tier's peak.
    pub load: f64,
    /// Time that it reads, and time that it does not, ns; both repeat.
    pub on_ns: f64,
    pub off_ns: f64,
}

impl Tenant {
    fn at_ns(&self, now_ns: f64) -> f64 {
        now_ns.rem_euclid(self.on_ns + self.off_ns)
    }

    pub fn is_on(&self, now_ns: f64) -> bool {
        self.at_ns(now_ns) < self.on_ns
    }

    /// Time until it starts or ends, ns.
    pub fn until_change_ns(&self, now_ns: f64) -> f64 {
        let at = self.at_ns(now_ns);
        let end = if at < self.on_ns {
            self.on_ns
        } else {
            self.on_ns + self.off_ns
        };
        // At least a nanosecond: rounding must not stop the clock.
        (end - at).max(1.0)
    }

    /// Share of the time that it reads.
    pub fn duty(&self) -> f64 {
        self.on_ns / (self.on_ns + self.off_ns)
    }

    /// Its load while it reads.
    pub fn load_on(&self, tiers: &[&Tier; 2]) -> Background {
        let tier = tiers[self.tier];
        Background::reads(tier.name.clone(), self.load * tier.read_gbps.value)
    }

    /// Its load at a time; `None` while it does not read.
    pub fn load(&self, tiers: &[&Tier; 2], now_ns: f64) -> Option<Background> {
        self.is_on(now_ns).then(|| self.load_on(tiers))
    }
}
