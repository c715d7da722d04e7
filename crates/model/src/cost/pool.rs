//! Price of a pool: hosts with DRAM for their base demand and a shared pool of CXL memory for what
//! they need beyond it at the same time, against hosts that each have memory for their own peak.
//!
//! ```text
//!   price = hosts x (CPUs + DRAM + adapter) + switch + boxes + devices
//! ```
//! DRAM per host is chosen so that the sum is lowest; all hosts of a pool are alike. The pool has
//! what the hosts need beyond their DRAM at the worst moment, in whole devices. One switch connects
//! all: its lanes limit hosts and devices together.

use super::kind::Kind;
use super::offer::Offer;
use super::pool_parts::PoolParts;
use super::prices::Prices;
use serde::Serialize;

/// Demand for memory of several hosts over time.
#[derive(Debug, Clone, PartialEq)]
pub struct JointDemand {
    /// Moments, each with the demand of every host, GiB. All have the same number of hosts.
    moments: Vec<Vec<u64>>,
}

impl JointDemand {
    /// Hosts that need `base_gib` always and `peak_gib` at their own peak, and together never more
    /// than `joint_share` of the sum of their peaks.
    ///
    /// At the worst moment as many hosts as fit are at their peak, one is between, and the others
    /// need their base. Every host is at its peak at some moment.
    ///
    /// `None` without hosts, if the peak is below the base, or if the share is not in 0 to 1.
    pub fn peaks(hosts: u32, base_gib: u64, peak_gib: u64, joint_share: f64) -> Option<Self> {
        if hosts == 0 || peak_gib < base_gib || !(0.0..=1.0).contains(&joint_share) {
            return None;
        }
        let count = hosts as usize;
        let own = |host: usize| {
            let mut moment = vec![base_gib; count];
            moment[host] = peak_gib;
            moment
        };
        let mut left = (joint_share * (u64::from(hosts) * peak_gib) as f64).ceil() as u64;
        // No less than all bases, whatever the share is.
        left = left.saturating_sub(u64::from(hosts) * base_gib);
        let mut worst = vec![base_gib; count];
        for host in &mut worst {
            let more = left.min(peak_gib - base_gib);
            *host += more;
            left -= more;
        }
        let mut moments: Vec<Vec<u64>> = (0..count).map(own).collect();
        moments.push(worst);
        Some(Self { moments })
    }

    /// Demands that were recorded, a list of hosts for each moment; `None` if there are none, or
    /// the moments have different numbers of hosts.
    pub fn recorded(moments: Vec<Vec<u64>>) -> Option<Self> {
        let hosts = moments.first()?.len();
        let alike = moments.iter().all(|moment| moment.len() == hosts);
        (hosts > 0 && alike).then_some(Self { moments })
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.moments.first().map_or(0, Vec::len) as u32
    }

    /// Highest demand of each host, GiB.
    pub fn own_peaks_gib(&self) -> Vec<u64> {
        let peak = |host: usize| self.moments.iter().map(|moment| moment[host]).max();
        let hosts = 0..self.hosts() as usize;
        hosts.map(|host| peak(host).unwrap_or(0)).collect()
    }

    /// Highest sum of all demands at one moment, GiB.
    pub fn joint_peak_gib(&self) -> u64 {
        let sums = self.moments.iter().map(|moment| moment.iter().sum());
        sums.max().unwrap_or(0)
    }

    /// What hosts with so much DRAM each need beyond it at the worst moment, GiB.
    pub fn beyond_gib(&self, dram_gib: u64) -> u64 {
        let beyond = |moment: &Vec<u64>| {
            let of_hosts = moment.iter().map(|need| need.saturating_sub(dram_gib));
            of_hosts.sum()
        };
        self.moments.iter().map(beyond).max().unwrap_or(0)
    }
}

/// What is bought for a demand, and its price.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolOffer {
    /// One host of the pool, or each host of those without one, as text.
    pub hosts: Vec<String>,
    /// Devices in the pool; 0 without one.
    pub devices: u32,
    /// Boxes that hold them.
    pub boxes: u32,
    /// Memory of all hosts, GiB.
    pub dram_gib: u64,
    /// Memory of the pool, or of the hosts' own CXL devices, GiB.
    pub cxl_gib: u64,
    /// Price of everything.
    pub price: f64,
    /// Part of it for switch, adapters, boxes and devices of a pool.
    pub pool_price: f64,
    /// Memory that nobody uses at the moment of the highest joint demand, GiB.
    pub stranded_gib: u64,
}

/// The comparison for one demand.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolComparison {
    /// Each host with CPU memory for its own peak; `None` if one cannot be built.
    pub own: Option<PoolOffer>,
    /// The same with CXL devices of its own where that is cheaper.
    pub own_cxl: Option<PoolOffer>,
    /// Hosts with a pool; `None` if no switch has the lanes.
    pub pool: Option<PoolOffer>,
}

impl PoolComparison {
    /// The cheaper one of those without a pool.
    pub fn without_pool(&self) -> Option<&PoolOffer> {
        let both = [self.own.as_ref(), self.own_cxl.as_ref()];
        let there = both.into_iter().flatten();
        there.min_by(|a, b| a.price.total_cmp(&b.price))
    }

    /// What the pool saves over the cheaper one without it, as a share; negative if it costs more.
    pub fn saving(&self) -> Option<f64> {
        let (pool, other) = (self.pool.as_ref()?, self.without_pool()?);
        Some(1.0 - pool.price / other.price)
    }
}

/// Compares a pool with memory for each host's own peak. `None` if the prices have no pool.
pub fn compare_pool(prices: &Prices, demand: &JointDemand) -> Option<PoolComparison> {
    let parts = prices.pool.as_ref()?;
    let alone = Offer::new(prices, Kind::CPU_MEMORY);
    let kinds = Kind::usual(prices, false);
    let with_devices = kinds.last().filter(|kind| kind.devices > 0);
    Some(PoolComparison {
        own: own(&[&alone], demand),
        own_cxl: with_devices.and_then(|kind| {
            let devices = Offer::new(prices, *kind);
            own(&[&alone, &devices], demand)
        }),
        pool: pooled(&alone, parts, demand),
    })
}

/// Each host the cheapest of the offers for its own peak.
fn own(offers: &[&Offer], demand: &JointDemand) -> Option<PoolOffer> {
    let mut all = PoolOffer {
        hosts: Vec::new(),
        devices: 0,
        boxes: 0,
        dram_gib: 0,
        cxl_gib: 0,
        price: 0.0,
        pool_price: 0.0,
        stranded_gib: 0,
    };
    for peak_gib in demand.own_peaks_gib() {
        let found = offers.iter().filter_map(|offer| offer.cheapest(peak_gib));
        let config = found.min_by(|a, b| a.price.total_cmp(&b.price))?;
        all.hosts.push(config.words());
        all.dram_gib += config.dram_gib;
        all.cxl_gib += config.cxl_gib;
        all.price += config.price;
    }
    all.stranded_gib = stranded(&all, demand);
    Some(all)
}

fn stranded(offer: &PoolOffer, demand: &JointDemand) -> u64 {
    (offer.dram_gib + offer.cxl_gib).saturating_sub(demand.joint_peak_gib())
}

/// The cheapest pool over all sizes of DRAM.
fn pooled(alone: &Offer, parts: &PoolParts, demand: &JointDemand) -> Option<PoolOffer> {
    let hosts = demand.hosts();
    let offers = alone.steps().iter().filter_map(|config| {
        let beyond_gib = demand.beyond_gib(config.dram_gib);
        let device_gib = parts.device_gib.value;
        let devices = (beyond_gib as f64 / device_gib).ceil();
        let lanes = f64::from(hosts) * parts.host_lanes.value + devices * parts.device_lanes.value;
        if lanes > parts.switch_lanes.value {
            return None;
        }
        let boxes = (devices / parts.box_devices.value).ceil();
        let pool_price = f64::from(hosts) * parts.adapter_price.value
            + parts.switch_price.value
            + boxes * parts.box_price.value
            + devices * parts.device_price.value;
        let mut offer = PoolOffer {
            hosts: vec![config.words()],
            devices: devices as u32,
            boxes: boxes as u32,
            dram_gib: u64::from(hosts) * config.dram_gib,
            cxl_gib: (devices * device_gib) as u64,
            price: f64::from(hosts) * config.price + pool_price,
            pool_price,
            stranded_gib: 0,
        };
        offer.stranded_gib = stranded(&offer, demand);
        // Without a device there is no pool.
        (offer.devices > 0).then_some(offer)
    });
    offers.min_by(|a, b| a.price.total_cmp(&b.price))
}

/// One assumed or known price or size, and how far the answer depends on it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSensitivity {
    /// Path of the number in the price file, as `--set` takes it.
    pub path: String,
    /// Its value.
    pub value: f64,
    /// Saving of the pool with half of it, and with twice as much; `None` if that cannot be built.
    pub savings: [Option<f64>; 2],
    /// Value at which the pool costs as much as the hosts without it, everything else unchanged;
    /// `None` if there is none between a hundredth and the hundredfold.
    pub break_even: Option<f64>,
}

/// How the saving depends on each number that is a price. Largest effect first.
pub fn pool_sensitivities(prices: &Prices, demand: &JointDemand) -> Vec<PoolSensitivity> {
    let paths = prices.paths();
    let priced = paths.iter().filter(|path| path.ends_with("price"));
    let mut all: Vec<PoolSensitivity> = priced
        .filter_map(|path| {
            let value = prices.number(path)?;
            let saving = |factor: f64| {
                let mut changed = prices.clone();
                changed
                    .set(path, &(value * factor).to_string(), "varied")
                    .ok()?;
                compare_pool(&changed, demand)?.saving()
            };
            Some(PoolSensitivity {
                path: path.clone(),
                value,
                savings: [saving(0.5), saving(2.0)],
                break_even: break_even(&saving).map(|factor| factor * value),
            })
        })
        .filter(|found| found.effect() > 0.0)
        .collect();
    all.sort_by(|a, b| b.effect().total_cmp(&a.effect()));
    all
}

impl PoolSensitivity {
    /// Difference of the two savings.
    pub fn effect(&self) -> f64 {
        match self.savings {
            [Some(half), Some(twice)] => (half - twice).abs(),
            [None, None] => 0.0,
            _ => f64::INFINITY,
        }
    }
}

/// The factor of a price at which the saving changes its sign, the nearest to 1 of a fine grid,
/// then halved. The saving is not monotonic: another configuration can become the cheapest.
fn break_even(saving: &dyn Fn(f64) -> Option<f64>) -> Option<f64> {
    const STEPS: i32 = 20;
    let now = saving(1.0)?;
    let factor = |step: i32| 100_f64.powf(f64::from(step) / f64::from(STEPS));
    let crosses = |factor: f64| saving(factor).is_some_and(|s| (s > 0.0) != (now > 0.0));
    let step = (1..=STEPS)
        .flat_map(|n| [n, -n])
        .find(|n| crosses(factor(*n)))?;
    let (mut far, mut near) = (factor(step), factor(step - step.signum()));
    for _ in 0..40 {
        let middle = f64::midpoint(far, near);
        match crosses(middle) {
            true => far = middle,
            false => near = middle,
        }
    }
    Some(far)
}

/// The least number of hosts from which on a pool is cheaper, up to what one switch connects; the
/// demand of each is the same. `None` if it never is.
pub fn break_even_hosts(
    prices: &Prices,
    demand_of: &dyn Fn(u32) -> Option<JointDemand>,
) -> Option<u32> {
    let parts = prices.pool.as_ref()?;
    let most = (parts.switch_lanes.value / parts.host_lanes.value) as u32;
    let cheaper = |hosts: &u32| {
        let compared = demand_of(*hosts).and_then(|demand| compare_pool(prices, &demand));
        compared.and_then(|c| c.saving()).is_some_and(|s| s > 0.0)
    };
    (1..=most).find(cheaper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prices() -> Prices {
        Prices::builtin().unwrap()
    }

    #[test]
    fn joint_peaks_and_what_is_beyond_the_hosts_own_memory_are_counted_by_moment() {
        let demand = JointDemand::peaks(4, 512, 2048, 0.5).unwrap();
        assert_eq!(demand.own_peaks_gib(), [2048; 4]);
        assert_eq!(demand.joint_peak_gib(), 4096);
        // At the worst moment one host is at its peak, one at 1024, two at their base.
        assert_eq!(demand.beyond_gib(512), 1536 + 512);
        assert_eq!(demand.beyond_gib(1024), 1024);
        assert_eq!(demand.beyond_gib(2048), 0);
        let recorded = JointDemand::recorded(vec![vec![10, 300], vec![250, 20]]).unwrap();
        assert_eq!(
            (recorded.joint_peak_gib(), recorded.beyond_gib(100)),
            (310, 200)
        );
        assert_eq!(recorded.own_peaks_gib(), [250, 300]);
        for wrong in [
            JointDemand::peaks(0, 1, 2, 0.5),
            JointDemand::peaks(2, 3, 2, 0.5),
            JointDemand::peaks(2, 1, 2, 1.5),
            JointDemand::recorded(vec![vec![1], vec![1, 2]]),
            JointDemand::recorded(vec![]),
        ] {
            assert_eq!(wrong, None);
        }
    }

    /// By arithmetic on the price file: 8 hosts of 512 GiB (32 x 16 GiB on two CPUs or 16 x 32 GiB
    /// on one: US$ 4000 + 16 x 137 = 6192) and one host's peak of 2048 in the pool, 12 devices.
    #[test]
    fn a_pool_for_peaks_that_never_meet_is_priced_part_by_part() {
        let demand = JointDemand::peaks(8, 512, 2048, 0.0).unwrap();
        let found = compare_pool(&prices(), &demand).unwrap();
        let (own, pool) = (found.own.clone().unwrap(), found.pool.clone().unwrap());
        // 2 TiB on two CPUs: 32 x 64 GiB.
        assert_eq!(own.price, 8.0 * (8000.0 + 32.0 * 346.0));
        assert_eq!(own.stranded_gib, 8 * 2048 - (7 * 512 + 2048));
        assert_eq!((pool.devices, pool.boxes), (12, 2));
        let parts = 8.0 * 500.0 + 10_000.0 + 2.0 * 2000.0 + 12.0 * 1250.0;
        assert_eq!(pool.pool_price, parts);
        assert_eq!(pool.price, 8.0 * (4000.0 + 16.0 * 137.0) + parts);
        assert_eq!(pool.stranded_gib, 8 * 512 + 12 * 128 - (7 * 512 + 2048));
        assert!(found.saving().unwrap() > 0.0);
    }

    #[test]
    fn more_hosts_and_devices_than_lanes_cannot_be_pooled() {
        let demand = JointDemand::peaks(17, 512, 2048, 0.1).unwrap();
        assert_eq!(compare_pool(&prices(), &demand).unwrap().pool, None);
        let mut none = prices();
        none.pool = None;
        assert_eq!(compare_pool(&none, &demand), None);
    }

    #[test]
    fn few_hosts_do_not_pay_for_a_switch_and_the_break_even_is_where_the_sign_changes() {
        let prices = prices();
        let demand_of = |hosts| JointDemand::peaks(hosts, 512, 2048, 0.3);
        let hosts = break_even_hosts(&prices, &demand_of).unwrap();
        let saving = |hosts| {
            let compared = compare_pool(&prices, &demand_of(hosts).unwrap()).unwrap();
            compared.saving().unwrap()
        };
        assert!(saving(hosts) > 0.0 && (1..hosts).all(|n| saving(n) <= 0.0));
        let demand = demand_of(hosts + 2).unwrap();
        let all = pool_sensitivities(&prices, &demand);
        assert!(
            all.windows(2)
                .all(|pair| pair[0].effect() >= pair[1].effect())
        );
        let switch = all.iter().find(|s| s.path == "pool.switch_price").unwrap();
        let at = |price: f64| {
            let mut changed = prices.clone();
            changed
                .set("pool.switch_price", &price.to_string(), "test")
                .unwrap();
            compare_pool(&changed, &demand).unwrap().saving().unwrap()
        };
        let even = switch.break_even.unwrap();
        assert!(at(even * 0.999) * at(even * 1.001) <= 0.0, "{even}");
    }

    proptest! {
        #[test]
        fn a_pool_always_holds_what_is_needed_and_no_other_size_of_dram_is_cheaper(
            moments in proptest::collection::vec(proptest::collection::vec(1_u64..3000, 3), 1..6),
        ) {
            let demand = JointDemand::recorded(moments.clone()).unwrap();
            let prices = prices();
            let found = compare_pool(&prices, &demand).unwrap();
            if let Some(pool) = found.pool {
                let dram = pool.dram_gib / 3;
                for moment in &moments {
                    let beyond: u64 = moment.iter().map(|d| d.saturating_sub(dram)).sum();
                    prop_assert!(beyond <= pool.cxl_gib);
                }
                let parts = prices.pool.as_ref().unwrap();
                for config in Offer::new(&prices, Kind::CPU_MEMORY).steps() {
                    let devices = demand.beyond_gib(config.dram_gib).div_ceil(128);
                    if devices == 0 || 3 * 16 + devices * 8 > 256 {
                        continue;
                    }
                    let price = 3.0 * (config.price + parts.adapter_price.value)
                        + parts.switch_price.value
                        + devices.div_ceil(8) as f64 * parts.box_price.value
                        + devices as f64 * parts.device_price.value;
                    prop_assert!(price >= pool.price - 1e-6);
                }
            }
            if let Some(own) = found.own {
                prop_assert!(own.dram_gib >= demand.own_peaks_gib().iter().sum());
            }
        }
    }
}
