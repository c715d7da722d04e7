//! Configurations: the servers that can be built, and their prices.
//!
//! All configurations are enumerated, and dominated ones are dropped (Pareto front of capacity and
//! price), so no heuristic can miss the cheapest.

use super::kind::Kind;
use super::prices::{Device, Prices};
use serde::{Deserialize, Serialize};

/// A number of DIMMs of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimmSet {
    /// Number of DIMMs, over all CPUs or all devices.
    pub count: u32,
    /// Generation ("ddr5"), the same for all DIMMs of a CPU or device.
    pub generation: String,
    /// Capacity of one DIMM, GiB.
    pub size_gib: u64,
}

/// CXL devices of a configuration; all are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigDevices {
    /// Product name of the device.
    pub name: String,
    /// Number of devices, at least 1.
    pub count: u32,
    /// DIMMs of all devices together.
    pub dimms: DimmSet,
    /// The DIMMs come from decommissioned servers, at the price of reused ones.
    pub reused: bool,
}

/// A server that can be built. Prices are in the currency of the price file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Number of CPUs, at least 1.
    pub cpus: u32,
    /// DIMMs of all CPUs, one entry per size.
    pub dimms: Vec<DimmSet>,
    /// CXL devices; `None` for CPU memory alone.
    pub devices: Option<ConfigDevices>,
    /// Capacity of the DIMMs of the CPUs, GiB.
    pub dram_gib: u64,
    /// Capacity of the CXL devices, GiB.
    pub cxl_gib: u64,
    /// Price of CPUs, DIMMs and devices; the sum of the three parts below.
    pub price: f64,
    /// Part of the price for the CPUs.
    pub cpu_price: f64,
    /// Part of the price for the DIMMs of the CPUs.
    pub dram_price: f64,
    /// Part of the price for the devices with their DIMMs.
    pub cxl_price: f64,
}

impl Config {
    /// Capacity of DRAM and CXL memory together, GiB.
    pub fn capacity_gib(&self) -> u64 {
        self.dram_gib + self.cxl_gib
    }

    /// Number of CXL devices; 0 for CPU memory alone.
    pub fn device_count(&self) -> u32 {
        self.devices.as_ref().map_or(0, |d| d.count)
    }

    /// As text: "1 CPU, 16 x 64 GiB DDR5, 2 devices with 16 x 128 GiB DDR4".
    pub fn words(&self) -> String {
        let dimms = |set: &DimmSet| {
            let generation = set.generation.to_uppercase();
            format!("{} x {} GiB {generation}", set.count, set.size_gib)
        };
        let cpus = if self.cpus == 1 { "CPU" } else { "CPUs" };
        let own: Vec<String> = self.dimms.iter().map(dimms).collect();
        let mut words = format!("{} {cpus}, {}", self.cpus, own.join(" + "));
        if let Some(devices) = &self.devices {
            let plural = if devices.count == 1 { "" } else { "s" };
            let reused = if devices.reused { "reused " } else { "" };
            words += &format!(
                ", {} device{plural} with {reused}{}",
                devices.count,
                dimms(&devices.dimms)
            );
        }
        words
    }
}

/// CPUs of a server with their DIMMs.
#[derive(Clone)]
struct CpuSide {
    cpus: u32,
    dimms: Vec<DimmSet>,
    size_gib: u64,
    cpu_price: f64,
    dram_price: f64,
}

/// CXL devices of a server with their DIMMs; none for CPU memory alone.
#[derive(Clone)]
struct DeviceSide {
    devices: Option<ConfigDevices>,
    size_gib: u64,
    price: f64,
}

/// Non-dominated configurations of a kind, separately for every number of CPUs and devices.
///
/// No other one with the same numbers has at least the capacity for at most the price. They are in
/// the order of CPUs, then devices, then capacity.
pub(super) fn options(prices: &Prices, kind: Kind) -> Vec<Config> {
    let mut found = Vec::new();
    let devices = device_sides(prices, kind);
    for cpus in &prices.cpu.counts {
        // Dropping dominated halves first keeps the product small and loses nothing, because
        // capacities and prices add.
        let own = cheapest_first(cpu_sides(prices, *cpus), |s| (s.size_gib, s.dram_price));
        for group in &devices {
            let both = own.iter().flat_map(|cpu| {
                let join = move |device: &DeviceSide| join(cpu, device);
                group.iter().map(join)
            });
            found.extend(cheapest_first(both.collect(), |c| {
                (c.capacity_gib(), c.price)
            }));
        }
    }
    found
}

fn join(cpu: &CpuSide, device: &DeviceSide) -> Config {
    Config {
        cpus: cpu.cpus,
        dimms: cpu.dimms.clone(),
        devices: device.devices.clone(),
        dram_gib: cpu.size_gib,
        cxl_gib: device.size_gib,
        price: cpu.cpu_price + cpu.dram_price + device.price,
        cpu_price: cpu.cpu_price,
        dram_price: cpu.dram_price,
        cxl_price: device.price,
    }
}

/// Pareto front: items without an equally large or larger one for at most the price, by rising
/// capacity (and price).
///
/// Of equals the first stays.
pub(super) fn cheapest_first<T>(mut all: Vec<T>, of: impl Fn(&T) -> (u64, f64)) -> Vec<T> {
    // The sort is stable: largest first, then cheapest.
    all.sort_by(|a, b| {
        let ((size_a, price_a), (size_b, price_b)) = (of(a), of(b));
        size_b.cmp(&size_a).then(price_a.total_cmp(&price_b))
    });
    let mut lowest = f64::INFINITY;
    all.retain(|item| {
        let (_, price) = of(item);
        let better = price < lowest;
        lowest = lowest.min(price);
        better
    });
    all.reverse();
    all
}

/// Ways to fill the channels of `cpus` CPUs; all channels are alike.
fn cpu_sides(prices: &Prices, cpus: u32) -> Vec<CpuSide> {
    let cpu = &prices.cpu;
    let channels = cpus * cpu.channels.value as u32;
    let slots = cpu.dimms_per_channel.value as usize;
    let sold = prices.dimms_of(&cpu.dimms);
    let fewest = if prices.rules.all_slots_filled {
        slots
    } else {
        1
    };
    let fills = (fewest..=slots).flat_map(|n| fills(sold.len(), n, prices.rules.mixed_sizes));
    let side = |fill: Vec<usize>| {
        let mut sets: Vec<DimmSet> = Vec::new();
        for index in &fill {
            let dimm = sold[*index];
            match sets.last_mut().filter(|s| s.size_gib == dimm.size_gib) {
                Some(set) => set.count += channels,
                None => sets.push(DimmSet {
                    count: channels,
                    generation: dimm.generation.clone(),
                    size_gib: dimm.size_gib,
                }),
            }
        }
        let in_channel: u64 = fill.iter().map(|index| sold[*index].size_gib).sum();
        let price: f64 = fill.iter().map(|index| sold[*index].price.value).sum();
        CpuSide {
            cpus,
            dimms: sets,
            size_gib: u64::from(channels) * in_channel,
            cpu_price: f64::from(cpus) * cpu.price.value,
            dram_price: f64::from(channels) * price,
        }
    };
    fills.map(side).collect()
}

/// Multisets of `n` DIMMs for one channel, as non-decreasing indexes of sizes; all of one size
/// unless `mixed`.
fn fills(sizes: usize, n: usize, mixed: bool) -> Vec<Vec<usize>> {
    if !mixed {
        return (0..sizes).map(|size| vec![size; n]).collect();
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..n {
        let longer = all.into_iter().flat_map(|fill| {
            let from = fill.last().copied().unwrap_or(0);
            (from..sizes).map(move |size| [fill.as_slice(), &[size]].concat())
        });
        all = longer.collect();
    }
    all
}

/// The CXL sides of a kind, one group per number of devices, each reduced by [`cheapest_first`].
fn device_sides(prices: &Prices, kind: Kind) -> Vec<Vec<DeviceSide>> {
    if kind.devices == 0 {
        let none = DeviceSide {
            devices: None,
            size_gib: 0,
            price: 0.0,
        };
        return vec![vec![none]];
    }
    let group = |count: u32| {
        let fitting = prices
            .devices
            .iter()
            .filter(|d| f64::from(count) <= d.max.value);
        let sides = fitting.flat_map(|device| filled_devices(prices, device, count, kind.reused));
        cheapest_first(sides.collect(), |s| (s.size_gib, s.price))
    };
    (1..=kind.devices.min(prices.most_devices()))
        .map(group)
        .collect()
}

/// Ways to fill `count` devices; all have the same number of DIMMs of one size.
fn filled_devices(prices: &Prices, device: &Device, count: u32, reused: bool) -> Vec<DeviceSide> {
    let slots = device.slots.value as u32;
    let fewest = if prices.rules.all_slots_filled {
        slots
    } else {
        1
    };
    let share = if reused {
        prices.rules.reused_price_share.value
    } else {
        1.0
    };
    let sold = device
        .sizes_gib
        .iter()
        .filter_map(|size| prices.dimm(&device.dimms, *size));
    sold.flat_map(|dimm| {
        (fewest..=slots).map(move |in_one| {
            let dimms = count * in_one;
            let boards = f64::from(count) * device.board_price.value;
            DeviceSide {
                devices: Some(ConfigDevices {
                    name: device.name.clone(),
                    count,
                    dimms: DimmSet {
                        count: dimms,
                        generation: dimm.generation.clone(),
                        size_gib: dimm.size_gib,
                    },
                    reused,
                }),
                size_gib: u64::from(dimms) * dimm.size_gib,
                price: boards + f64::from(dimms) * dimm.price.value * share,
            }
        })
    })
    .collect()
}
