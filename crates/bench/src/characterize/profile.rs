//! Builds the machine profile from the measured figures.
//!
//! Rates and latencies are taken over with their intervals. Parameters that cannot be measured
//! directly (loaded-latency curve, lines in flight, page walkers) are fitted, so that the model
//! gives the measured rates. Every number carries its source; what was not measured is marked as
//! assumed.

use tierloom_kernels::access::ChaseLocality;
use tierloom_memory::PageSize;
use tierloom_model::{
    Access, Cache, Concurrency, FootprintLatency, LoadedLatency, LoadedPoint, Machine,
    MeasuredRate, Measurements, Op, PathMeasurement, Phase, PhaseKind, Provenance, SCHEMA,
    SourceKind, TIER_NAMES, Tier, Tlb, TouchRate, Value,
};
use tierloom_record::Spread;
use tierloom_topology::NodeId;

use super::pages::MigrationPath;
use super::probes::llc_bytes;
use super::samples::{Gathered, interval, round, value};
use super::{CharacterizeError, CharacterizeOptions, Depth, PathPlan, Probe, ProbeKind, fit};
use crate::run::Host;

/// Entries of a second-level TLB that are assumed if no footprint showed its reach.
///
/// This is the size in current server cores.
const ASSUMED_TLB_ENTRIES: f64 = 2048.0;
/// Largest difference of random and page-local latency that counts as noise, ns.
const LEAST_WALK_NS: f64 = 4.0;

/// Selects one number of lines in flight in a machine.
type Lines = fn(&mut Machine) -> &mut Value;

/// The inputs of a profile.
struct ProfileInputs<'a> {
    host: &'a Host,
    probes: &'a [Probe],
    gathered: &'a Gathered,
    initiator: u32,
}

/// Builds the profile of the first initiator.
///
/// # Errors
/// [`CharacterizeError::Input`] if nothing was measured, [`CharacterizeError::Model`] if the
/// figures fail the checks of a profile.
pub(super) fn make(
    host: &Host,
    options: &CharacterizeOptions,
    probes: &[Probe],
    gathered: &Gathered,
    migrations: &[(MigrationPath, Option<Spread>)],
) -> Result<Machine, CharacterizeError> {
    let Some(first) = probes.first() else {
        return Err(CharacterizeError::Input("nothing to measure".into()));
    };
    let maker = ProfileInputs {
        host,
        probes,
        gathered,
        initiator: first.path.initiator,
    };
    let tiers = maker.tiers();
    let Some(home) = tiers.first().map(|tier| tier.name.clone()) else {
        return Err(CharacterizeError::Input("no tier was measured".into()));
    };
    let topology = &host.topology;
    let name = options.name.clone().unwrap_or_else(|| {
        topology
            .hostname
            .clone()
            .unwrap_or_else(|| "this-machine".into())
    });
    let mut machine = Machine {
        schema: SCHEMA.into(),
        title: format!("{}, seen from node {}", topology.cpu_model, maker.initiator),
        description: format!(
            "Measured by tierloom characterize ({}) from the cores of node {}; kernel {}.",
            match options.depth {
                Depth::Quick => "quick",
                Depth::Full => "full",
            },
            maker.initiator,
            topology.kernel_release
        ),
        name,
        provenance: Provenance::Measured,
        citations: Vec::new(),
        cores: maker.cores(),
        smt: known(f64::from(topology.cpus.threads_per_core), "hardware threads per core, as the kernel reports"),
        smt_yield: maker.smt_yield(),
        cache: maker.cache(),
        tlb: maker.tlb(),
        concurrency: start_concurrency(),
        overlap: None,
        prefetch: None,
        tiers,
        notes: vec![
            "low and high: smallest and largest of all repetitions, moved out by half their distance, at least by 3%.".into(),
            "Lines in flight are those with which the model gives the measured rate of one thread.".into(),
        ],
        measurements: Some(maker.measurements(migrations)),
    };
    maker.fit_concurrency(&mut machine, &home);
    machine.check()?;
    Ok(machine)
}

fn known(x: f64, source: &str) -> Value {
    Value::new(x, SourceKind::Derived, source)
}

fn assumed(x: f64, source: &str) -> Value {
    Value::new(x, SourceKind::Assumed, source)
}

fn start_concurrency() -> Concurrency {
    let lines = |x| assumed(x, "start of the fit; the rate was not measured");
    Concurrency {
        sequential_scalar: lines(16.0),
        sequential_simd: lines(48.0),
        random: lines(10.0),
        random_prefetched: lines(16.0),
        dependent: Value::new(
            1.0,
            SourceKind::Derived,
            "each address needs the line before",
        ),
        store: None,
        nt_store: None,
        smt_gain: None,
        core_gbps: None,
    }
}

impl ProfileInputs<'_> {
    /// The probes of a path with their indices.
    fn on(&self, path: &PathPlan) -> impl Iterator<Item = (usize, &Probe)> {
        let probes = self.probes.iter().enumerate();
        probes.filter(move |(_, probe)| probe.path == *path)
    }

    fn find(&self, path: &PathPlan, wanted: impl Fn(&ProbeKind) -> bool) -> Option<Spread> {
        let index = self
            .probes
            .iter()
            .position(|probe| probe.path == *path && wanted(&probe.kind))?;
        self.gathered.figure(index)
    }

    fn rate(&self, path: &PathPlan, name: &str, threads: u32) -> Option<Spread> {
        self.find(path, |kind| {
            matches!(kind, ProbeKind::Rate { operation, threads: n } if operation == name && *n == threads)
        })
    }

    /// The highest rate of an operation over all thread counts, and the thread count that reached
    /// it.
    fn peak(&self, path: &PathPlan, name: &str) -> Option<(Spread, u32)> {
        self.on(path)
            .filter_map(|(index, probe)| match &probe.kind {
                ProbeKind::Rate { operation, threads } if operation == name => {
                    Some((self.gathered.figure(index)?, *threads))
                }
                _ => None,
            })
            .max_by(|a, b| a.0.median.total_cmp(&b.0.median))
    }

    fn idle(&self, path: &PathPlan, locality: ChaseLocality) -> Option<Spread> {
        self.find(path, |kind| *kind == ProbeKind::Idle(locality))
    }

    fn cores(&self) -> Value {
        let topology = &self.host.topology;
        let cpus = topology.node(NodeId(self.initiator)).map_or(0, |node| {
            node.cpus.intersection(&topology.limits.cpus_allowed).len()
        });
        let smt = topology.cpus.threads_per_core.max(1);
        known(
            f64::from((cpus as u32 / smt).max(1)),
            "cores of the initiator node that this process may use",
        )
    }

    fn smt_yield(&self) -> Value {
        if self.host.topology.cpus.threads_per_core > 1 {
            assumed(
                1.25,
                "compute gain of the second hardware thread; not measured",
            )
        } else {
            known(1.0, "one hardware thread per core")
        }
    }

    fn cache(&self) -> Cache {
        let topology = &self.host.topology;
        let size = |level: u32| {
            topology
                .cpus
                .caches
                .iter()
                .filter(|cache| cache.level == level)
                .map(|cache| cache.size_bytes)
                .max()
        };
        let sockets = u64::from(topology.cpus.sockets.max(1));
        let l2 = size(2).unwrap_or(0) as f64;
        let llc = (llc_bytes(topology) / sockets) as f64;
        // A footprint between the sizes of the private and the last-level cache, at their geometric
        // mean, misses the former and hits the latter.
        let middle = (l2.max(1.0) * llc.max(1.0)).sqrt();
        let latency = self
            .footprints()
            .into_iter()
            .min_by(|a, b| {
                let distance = |bytes: u64| (bytes as f64 / middle).ln().abs();
                distance(a.footprint_bytes).total_cmp(&distance(b.footprint_bytes))
            })
            .map(|found| {
                let source = format!(
                    "{} (dependent loads within {} KiB)",
                    found.in_pages_ns.source,
                    found.footprint_bytes >> 10
                );
                let mut latency = found.in_pages_ns;
                latency.source = source;
                latency
            });
        Cache {
            l2_bytes: known(l2, "private cache of a core, as the kernel reports"),
            llc_bytes: known(
                llc,
                "last-level caches of a socket, as the kernel reports; virtual machines may report the whole host's",
            ),
            llc_latency_ns: latency
                .unwrap_or_else(|| assumed(30.0, "not measured: no DRAM on the initiator node")),
        }
    }

    fn tlb(&self) -> Tlb {
        let page_size = self
            .probes
            .first()
            .and_then(|probe| probe.plan.tasks.first())
            .and_then(|task| task.regions.first())
            .map_or(PageSize::Base, |region| region.page_size);
        let page_bytes = page_size.bytes() as f64;
        let gaps: Vec<(u64, f64)> = self
            .footprints()
            .iter()
            .map(|f| (f.footprint_bytes, f.random_ns.value - f.in_pages_ns.value))
            .collect();
        let largest = gaps.last().copied().unwrap_or((0, 0.0));
        let (entries, walk_ns) = if largest.1 < LEAST_WALK_NS {
            let source = format!(
                "up to {} MiB random loads cost no more than page-local ones: misses did not show; the usual size in server cores",
                largest.0 >> 20
            );
            let walk = "random less page-local latency in the largest footprint, which is within the noise";
            (
                assumed(ASSUMED_TLB_ENTRIES, &source),
                Value::new(round(largest.1.max(0.0)), SourceKind::Measured, walk),
            )
        } else {
            // The reach of the TLB is the footprint where half of the final extra latency is
            // visible.
            let half = gaps
                .iter()
                .find(|(_, gap)| *gap > largest.1 / 2.0)
                .map_or(largest.0, |(bytes, _)| *bytes);
            let entries = (half as f64 / page_bytes).round().max(1.0);
            let source = format!(
                "half of the cost of misses shows from {} MiB on",
                half >> 20
            );
            // Nothing misses below the reach; in the largest footprint, this share misses.
            let missing = 1.0 - (entries * page_bytes / largest.0 as f64).min(0.99);
            let walk = format!(
                "random less page-local latency within {} MiB, over the share that misses",
                largest.0 >> 20
            );
            (
                Value::new(entries, SourceKind::Measured, source),
                Value::new(round(largest.1 / missing), SourceKind::Measured, walk),
            )
        };
        Tlb {
            entries,
            page_bytes: known(page_bytes, "page size of the measured regions"),
            walk_ns,
            walkers: assumed(2.0, "page walks at once; not measured"),
        }
    }

    /// One tier for each kind of memory that the first initiator reaches, nearest first.
    fn tiers(&self) -> Vec<Tier> {
        TIER_NAMES
            .iter()
            .filter_map(|name| self.tier(name))
            .collect()
    }

    fn tier(&self, name: &str) -> Option<Tier> {
        // A tier with several nodes was also measured as a whole; that path has the most targets.
        let path = &self
            .probes
            .iter()
            .filter(|probe| probe.path.initiator == self.initiator && probe.path.tier == name)
            .max_by_key(|probe| probe.path.targets.len())?
            .path;
        let (read, read_threads) = self.peak(path, "read")?;
        let (write, write_threads) = self.peak(path, "stream-write")?;
        let idle = self.idle(path, ChaseLocality::Pages)?;
        let topology = &self.host.topology;
        let capacity: u64 = path
            .targets
            .iter()
            .filter_map(|node| topology.node(NodeId(*node)))
            .map(|node| node.mem_total_bytes)
            .sum();
        // Utilisation is relative to the read peak, which mixed load does not share.
        let points: Vec<(f64, f64)> = self
            .loaded(path)
            .iter()
            .filter(|(_, _, mixed)| !mixed)
            .map(|(load, latency, _)| (load.median / read.median, latency.median / idle.median))
            .collect();
        Some(Tier {
            name: name.to_owned(),
            devices: known(path.targets.len() as f64, "memory nodes"),
            capacity_bytes: known(
                capacity as f64,
                "memory of the nodes, as the kernel reports",
            ),
            read_gbps: value(
                &read,
                &format!("sequential read, {read_threads} threads, GB/s"),
            ),
            write_gbps: value(
                &write,
                &format!("non-temporal stores, {write_threads} threads, GB/s"),
            ),
            idle_latency_ns: value(
                &idle,
                "dependent loads that stay in 256 KiB for a while, ns",
            ),
            loaded: curve(&points),
            loaded_random: None,
            nt_write_gbps: None,
            random_share: None,
            prefetched_share: None,
            overload_loss: None,
            duplex: None,
            ownership_ns: None,
            write_latency_ns: None,
            near_cores: None,
            far_ns: None,
            switch_ns: None,
        })
    }

    /// All loaded probes of a path, by increasing load.
    ///
    /// Each is the load in GB/s, the latency in ns, and whether the load was mixed.
    fn loaded(&self, path: &PathPlan) -> Vec<(Spread, Spread, bool)> {
        let mut points: Vec<(Spread, Spread, bool)> = self
            .probes
            .iter()
            .enumerate()
            .filter(|(_, probe)| probe.path == *path)
            .filter_map(|(index, probe)| match probe.kind {
                ProbeKind::Loaded { mixed, .. } => Some((
                    self.gathered.load_gbps(index)?,
                    self.gathered.figure(index)?,
                    mixed,
                )),
                _ => None,
            })
            .collect();
        points.sort_by(|a, b| a.0.median.total_cmp(&b.0.median));
        points
    }

    fn footprints(&self) -> Vec<FootprintLatency> {
        let at = |bytes: u64, locality: ChaseLocality| {
            self.probes.iter().enumerate().find_map(|(index, probe)| {
                let wanted = ProbeKind::Footprint { bytes, locality };
                (probe.kind == wanted).then(|| self.gathered.figure(index))?
            })
        };
        let mut sizes: Vec<u64> = self
            .probes
            .iter()
            .filter_map(|probe| match probe.kind {
                ProbeKind::Footprint { bytes, .. } => Some(bytes),
                _ => None,
            })
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
            .into_iter()
            .filter_map(|footprint_bytes| {
                Some(FootprintLatency {
                    footprint_bytes,
                    random_ns: value(
                        &at(footprint_bytes, ChaseLocality::Random)?,
                        "random order, ns",
                    ),
                    in_pages_ns: value(
                        &at(footprint_bytes, ChaseLocality::Pages)?,
                        "page by page, ns",
                    ),
                })
            })
            .collect()
    }

    fn measurements(&self, migrations: &[(MigrationPath, Option<Spread>)]) -> Measurements {
        // Joint paths have several targets and so no single cell in the matrix of node to node.
        let mut paths: Vec<&PathPlan> = Vec::new();
        for probe in self.probes.iter().filter(|p| p.path.targets.len() == 1) {
            if !paths.contains(&&probe.path) {
                paths.push(&probe.path);
            }
        }
        Measurements {
            initiator_node: self.initiator,
            paths: paths
                .into_iter()
                .filter_map(|path| self.path_measurement(path, migrations))
                .collect(),
            footprints: self.footprints(),
        }
    }

    fn path_measurement(
        &self,
        path: &PathPlan,
        migrations: &[(MigrationPath, Option<Spread>)],
    ) -> Option<PathMeasurement> {
        let target = *path.targets.first()?;
        let rates = self.rates(path);
        let loaded = self
            .loaded(path)
            .iter()
            .map(|(load, latency, mixed)| LoadedPoint {
                gbps: value(
                    load,
                    if *mixed {
                        "mix 67:33 beside"
                    } else {
                        "reads beside"
                    },
                ),
                latency_ns: value(latency, "dependent loads, ns"),
            })
            .collect();
        let mut pages = self.touches(path);
        for (step, rate) in migrations {
            if let (true, Some(rate)) = (step.to == target, rate) {
                pages.push(TouchRate {
                    what: format!("migrate from node {}", step.from),
                    page_size: step.page_size.to_string(),
                    gbps: value(rate, "move_pages by one thread, GB/s"),
                });
            }
        }
        Some(PathMeasurement {
            initiator_node: path.initiator,
            target_node: target,
            tier: path.tier.clone(),
            idle_latency_ns: value(&self.idle(path, ChaseLocality::Random)?, "random order, ns"),
            idle_latency_in_pages_ns: value(
                &self.idle(path, ChaseLocality::Pages)?,
                "page by page, ns",
            ),
            rates,
            loaded,
            pages,
        })
    }

    fn rates(&self, path: &PathPlan) -> Vec<MeasuredRate> {
        self.on(path)
            .filter_map(|(index, probe)| match &probe.kind {
                ProbeKind::Rate { operation, threads } => Some(MeasuredRate {
                    operation: operation.clone(),
                    threads: *threads,
                    gbps: value(&self.gathered.figure(index)?, "GB/s"),
                }),
                _ => None,
            })
            .collect()
    }

    fn touches(&self, path: &PathPlan) -> Vec<TouchRate> {
        self.on(path)
            .filter_map(|(index, probe)| {
                let ProbeKind::Touch(page_size) = probe.kind else {
                    return None;
                };
                let bytes = probe.plan.tasks.first()?.regions.first()?.size_bytes as f64;
                // Times become rates: bytes per ns are GB/s.
                let rates = self.gathered.figure(index)?.values;
                let rates = Spread::of(rates.iter().map(|ns| bytes / ns).collect())?;
                Some(TouchRate {
                    what: "touch".into(),
                    page_size: page_size.to_string(),
                    gbps: value(&rates, "populating fresh memory by one thread, GB/s"),
                })
            })
            .collect()
    }

    /// Fits the lines in flight to the rates of one thread on the home tier.
    fn fit_concurrency(&self, machine: &mut Machine, home: &str) {
        let Some(path) = self
            .probes
            .iter()
            .map(|probe| &probe.path)
            .find(|path| path.initiator == self.initiator && path.tier == home)
            .cloned()
        else {
            return;
        };
        let region_bytes = self
            .probes
            .first()
            .and_then(|probe| probe.plan.tasks.first()?.regions.first())
            .map_or(0, |region| region.size_bytes);
        // Larger than any cache, like the measured region.
        let footprint = region_bytes.max(machine.cache.llc_bytes.value as u64 * 4);
        let scan = Access::sequential_read("region", 64.0, footprint);
        let probe = Access::probe("region", 1.0, region_bytes);
        let fits: [(&str, Access, Lines); 4] = [
            ("read", scan.clone().vectorised(), |m| {
                &mut m.concurrency.sequential_simd
            }),
            ("scalar read", scan, |m| {
                &mut m.concurrency.sequential_scalar
            }),
            ("random read", probe.clone(), |m| &mut m.concurrency.random),
            ("prefetched random read", probe.vectorised(), |m| {
                &mut m.concurrency.random_prefetched
            }),
        ];
        // Page walks limit random accesses too, so they are fitted before the lines in flight.
        if let Some(rate) = self.rate(&path, "random read", 1) {
            fit_walkers(machine, home, &fits[2].1, rate.median);
        }
        for (name, access, field) in fits {
            let Some(rate) = self.rate(&path, name, 1) else {
                continue;
            };
            let phase = Phase::new(name, PhaseKind::Scan, 1e9).access(access.with_op(Op::Read));
            let lines = |gbps: f64| {
                let set = |m: &mut Machine, lines: f64| {
                    let new = field(m).with(lines);
                    *field(m) = new;
                };
                fit::lines_in_flight(machine, set, &phase, home, gbps / 64.0)
            };
            let (low, high) = interval(&rate);
            let Some((middle, low, high)) =
                lines(rate.median).and_then(|middle| Some((middle, lines(low)?, lines(high)?)))
            else {
                continue;
            };
            let source = format!(
                "gives the measured {} GB/s of {name} by one thread",
                round(rate.median)
            );
            *field(machine) = Value::new(round(middle), SourceKind::Measured, source)
                .within(round(low), round(high));
        }
    }
}

/// Sets the number of concurrent page walks.
///
/// It stays at the assumed 2 unless the model then cannot reach the measured random rate.
fn fit_walkers(machine: &mut Machine, home: &str, access: &Access, gbps: f64) {
    const TRIED: [f64; 6] = [2.0, 3.0, 4.0, 6.0, 8.0, 16.0];
    // Margin above the measured rate, which leaves room for the latency of the memory itself.
    const ROOM: f64 = 1.25;
    let phase = Phase::new("random read", PhaseKind::Probe, 1e9).access(access.clone());
    for walkers in TRIED {
        let source = if walkers > TRIED[0] {
            "fewest with which the model reaches the measured random reads"
        } else {
            "page walks at once; enough for the measured random reads"
        };
        machine.tlb.walkers = assumed(walkers, source);
        // With unlimited lines in flight, only walkers and the memory itself limit the rate.
        let endless =
            |m: &mut Machine, lines: f64| m.concurrency.random = m.concurrency.random.with(lines);
        if fit::most(machine, endless, &phase, home).is_some_and(|most| most >= ROOM * gbps / 64.0)
        {
            return;
        }
    }
}

fn curve(points: &[(f64, f64)]) -> LoadedLatency {
    match fit::curve(points) {
        Some(fitted) => {
            let source = format!(
                "fitted to {} loads of up to {:.0}% of the read peak",
                points.len(),
                fitted.seen_up_to * 100.0
            );
            let fitted_value = |x: f64| Value::new(round(x), SourceKind::Measured, source.clone());
            LoadedLatency {
                ratio_at_peak: fitted_value(fitted.ratio_at_peak.max(1.0)),
                knee: fitted_value(fitted.knee),
                exponent: assumed(
                    fit::EXPONENT,
                    "form of the curve; knee and height are fitted",
                ),
            }
        }
        None => LoadedLatency {
            ratio_at_peak: assumed(2.0, "not measured: one core cannot load and chase at once"),
            knee: assumed(0.5, "not measured: one core cannot load and chase at once"),
            exponent: assumed(fit::EXPONENT, "form of the curve"),
        },
    }
}
