//! A run for the tests and the example: made-up numbers in the form of real ones.

#![allow(dead_code)]

pub mod benches;
pub mod decisions;

use tierloom_record::{
    Answer, AuditRecord, CacheCard, ColumnCard, CountedRecord, DataCard, EngineKind, Figure, HERE,
    HostCard, HostTier, IntensityRow, MachineCard, MeanRecord, MemoryUse, NodeShare,
    OperatorRecord, PlacementCard, ProbeCard, Provenance, QueryRecord, RecordSet, RunRecord,
    RunSet, SCHEMA, Settings, Spread, SummaryRecord, TableCard, TierUse, TimeBreakdown, TimeShares,
    geometric_mean,
};

pub const QUERIES: [&str; 13] = [
    "q1.1", "q1.2", "q1.3", "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1", "q4.2",
    "q4.3",
];
pub const PLACEMENTS: [&str; 5] = ["dram", "cxl", "3:2", "tier", "columns:8"];
pub const MACHINES: [&str; 2] = ["epfl25-full-pf-on", "nus24"];

/// The parameters of a sample.
#[derive(Clone, Copy)]
pub struct Sample {
    /// The placements measured on this machine.
    pub here: &'static [&'static str],
    /// The machines that are modelled.
    pub machines: &'static [&'static str],
    /// Whether plain DataFusion is included.
    pub yardstick: bool,
    /// Seed of the made-up noise.
    pub seed: u64,
    /// Factor for all measured times.
    pub factor: f64,
    /// Number of timed repetitions.
    pub repeat: u32,
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            here: &["dram", "3:2", "columns:8"],
            machines: &MACHINES,
            yardstick: true,
            seed: 1,
            factor: 1.0,
            repeat: 5,
        }
    }
}

/// The default sample.
pub fn sample() -> RecordSet {
    Sample::default().set()
}

/// A made-up number in 0..1 that depends on its inputs only (SplitMix64's finisher).
pub fn unit(seed: u64, a: usize, b: usize, c: usize) -> f64 {
    let mut x =
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (a as u64) << 40 ^ (b as u64) << 20 ^ c as u64;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

fn base_ms(query: usize) -> f64 {
    [
        4.2, 3.4, 3.1, 38.4, 33.0, 29.5, 61.2, 34.8, 24.6, 9.7, 88.3, 47.6, 21.9,
    ][query]
}

/// Made-up speed-ups: "cxl" is slow, "3:2" helps a machine with little DRAM bandwidth.
fn made_up_speedup(machine: &str, placement: usize, query: usize) -> f64 {
    let center = match (machine, placement) {
        (_, 0) => return 1.0,
        ("nus24", 1) => 0.72,
        ("nus24", 2) => 1.55 - query as f64 * 0.03,
        ("nus24", 3) => 0.74,
        (_, 1) => 0.31,
        (_, 2) => 0.78 + query as f64 * 0.01,
        (_, 3) => 0.33,
        _ => 0.985,
    };
    center * (0.97 + 0.06 * unit(7, placement, query, machine.len()))
}

impl Sample {
    pub fn set(self) -> RecordSet {
        let mut queries = Vec::new();
        for (index, query) in QUERIES.iter().enumerate() {
            for placement in self.here {
                queries.push(self.measured(index, query, placement, EngineKind::Tierloom));
            }
            if self.yardstick {
                queries.push(self.measured(index, query, "dram", EngineKind::Datafusion));
            }
            for machine in self.machines {
                queries.extend(
                    PLACEMENTS
                        .iter()
                        .enumerate()
                        .map(|(p, placement)| modelled(index, query, machine, p, placement)),
                );
            }
        }
        let run = self.run();
        let summary = self.summary(&run, &queries);
        RecordSet {
            runs: vec![RunSet {
                run,
                queries,
                throughputs: Vec::new(),
                summary: Some(summary),
            }],
            ..RecordSet::default()
        }
    }

    fn measured(
        &self,
        index: usize,
        query: &str,
        placement: &str,
        engine: EngineKind,
    ) -> QueryRecord {
        let place = PLACEMENTS.iter().position(|p| *p == placement).unwrap_or(9);
        let (slower, salt) = if engine == EngineKind::Datafusion {
            (1.08 + 0.5 * unit(3, index, 0, 0), 50)
        } else {
            (1.0, 0)
        };
        // q3.4 is the noisy one.
        let noise = if *query == *"q3.4" { 0.30 } else { 0.04 };
        let center = base_ms(index) * slower * self.factor / made_up_speedup(HERE, place, index);
        let values = (0..self.repeat)
            .map(|r| {
                center * (1.0 + noise * (unit(self.seed, index, place + salt, r as usize) - 0.5))
            })
            .collect();
        QueryRecord {
            run_id: "sample".into(),
            query: query.into(),
            placement: placement.into(),
            machine: HERE.into(),
            provenance: Provenance::Measured,
            engine,
            time_ms: Spread::of(values).expect("finite"),
            // Empty, because the report computes it from the medians.
            speedup_over_dram: None,
            plan_ms: Some(1.9),
            text_ms: None,
            answer: Some(Answer {
                rows: 7,
                digest: format!("{index:08x}"),
                checked: true,
                check: "equal to the answer of DuckDB 1.4".into(),
            }),
            shares: None,
            bottleneck: None,
            tiers: vec![],
            phases: vec![],
            operators: if placement == "dram" {
                operators()
            } else {
                vec![]
            },
            counters: if placement == "dram" {
                counters()
            } else {
                vec![]
            },
        }
    }

    fn run(&self) -> RunRecord {
        RunRecord {
            schema: SCHEMA.into(),
            run_id: "sample".into(),
            tool_version: "0.1.0".into(),
            commit: Some("0123abc".into()),
            build: "release".into(),
            started_at: "2025-06-01T12:00:00Z".into(),
            command: [
                "tierloom",
                "run",
                "ssb",
                "--sf",
                "1",
                "--placement",
                "dram,cxl,3:2,tier,columns:8",
            ]
            .map(String::from)
            .into(),
            workload: "ssb".into(),
            settings: Settings {
                scale_factor: 1.0,
                seed: 42,
                generator_version: 1,
                threads: 8,
                modelled_workers: "all cores".into(),
                repeat: self.repeat,
                warmup: 1,
                page_size: "thp".into(),
                batch_rows: 8192,
                queries: QUERIES.map(String::from).into(),
                placements: PLACEMENTS.map(String::from).into(),
                machines: self.machines.iter().map(|m| m.to_string()).collect(),
                time_per_tuple_ns: None,
            },
            host: host(),
            machines: self.machines.iter().map(|name| machine(name)).collect(),
            data: data(),
        }
    }

    fn summary(&self, run: &RunRecord, queries: &[QueryRecord]) -> SummaryRecord {
        let count = queries.len() as u32;
        SummaryRecord {
            run_id: run.run_id.clone(),
            interrupted: false,
            finished: count,
            planned: count,
            means: means(queries, self.machines),
            placements: PLACEMENTS
                .iter()
                .map(|p| placement_card(p, self.here.contains(p)))
                .collect(),
            intensity: self.machines.iter().flat_map(|m| intensity(m)).collect(),
            notes: vec!["Sample: every number in this report is made up.".into()],
            findings: vec![],
            times: TimeBreakdown {
                generate_s: 6.2,
                place_s: 1.1,
                plan_s: 0.12,
                execute_s: 21.4,
                audit_s: 0.3,
                probe_s: 0.4,
                model_s: 0.05,
                record_s: 0.08,
                total_s: 29.8,
            },
            memory: MemoryUse {
                loaded_bytes: Some(640_000_000),
                loading_peak_bytes: Some(700_000_000),
                peak_resident_bytes: Some(1_210_000_000),
            },
        }
    }
}

fn modelled(
    index: usize,
    query: &str,
    machine: &str,
    place: usize,
    placement: &str,
) -> QueryRecord {
    let speedup = made_up_speedup(machine, place, index);
    let bandwidth = (0.75 - index as f64 * 0.05).max(0.02);
    let compute = 0.12 + index as f64 * 0.02;
    let rest = 1.0 - bandwidth - compute;
    QueryRecord {
        run_id: "sample".into(),
        query: query.into(),
        placement: placement.into(),
        machine: machine.into(),
        provenance: Provenance::Modelled,
        engine: EngineKind::Tierloom,
        time_ms: Spread::of(vec![base_ms(index) * 0.4 / speedup]).expect("finite"),
        speedup_over_dram: Some(speedup),
        plan_ms: None,
        text_ms: None,
        answer: None,
        shares: Some(TimeShares {
            compute,
            cache: rest * 0.4,
            latency: rest * 0.6,
            bandwidth,
        }),
        bottleneck: Some(
            if index < 5 {
                "bandwidth of dram"
            } else {
                "latency"
            }
            .into(),
        ),
        tiers: vec![
            TierUse {
                tier: "dram".into(),
                bandwidth_gbps: 26.0 * bandwidth,
                utilisation: (0.98 - index as f64 * 0.06).max(0.05),
                bytes: 9e8,
            },
            TierUse {
                tier: "cxl".into(),
                bandwidth_gbps: 12.0 * bandwidth,
                utilisation: 0.5 * bandwidth,
                bytes: 4e8,
            },
        ],
        phases: vec![],
        operators: vec![],
        counters: vec![],
    }
}

/// What a machine that counts cycles and a part of the top-down metrics shows.
fn counters() -> Vec<CountedRecord> {
    let counter = |level: &str, operator: Option<&str>, quantity: &str, value: Option<f64>| {
        let (unit, source) = match quantity {
            "busy_ns" => ("ns", "timed"),
            "memory_bound" => ("% of slots", "counted"),
            _ => ("1", "counted"),
        };
        CountedRecord {
            level: level.into(),
            phase: operator.map(|_| "lineorder".into()),
            operator: operator.map(Into::into),
            quantity: quantity.into(),
            value,
            unit: unit.into(),
            source: source.into(),
            note: value.is_none().then(|| "not available: <no event>".into()),
        }
    };
    vec![
        counter("query", None, "busy_ns", Some(5_250_000.0)),
        counter("query", None, "cycles", Some(15_000_000.0)),
        counter("query", None, "instructions", Some(30_000_000.0)),
        counter("query", None, "memory_bound", Some(41.7)),
        counter("query", None, "store_bound", None),
        counter("operator", Some("star"), "busy_ns", Some(5_000_000.0)),
    ]
}

fn operators() -> Vec<OperatorRecord> {
    let one = |operator: &str, input_rows: u64, output_rows: u64, cpu_ms: f64| OperatorRecord {
        operator: operator.into(),
        phase: "probe pipeline".into(),
        input_rows,
        output_rows,
        selectivity: Some(output_rows as f64 / input_rows as f64),
        cpu_ms,
    };
    vec![
        one("filter lineorder", 6_001_215, 1_146_001, 9.1),
        one("probe date", 1_146_001, 164_210, 12.4),
        one("aggregate", 164_210, 1, 0.7),
    ]
}

fn host() -> HostCard {
    let gib = 1u64 << 30;
    HostCard {
        cpu_model: "Sample Processor 9000".into(),
        cpus: 8,
        smt: 2,
        caches: vec![
            CacheCard {
                level: 1,
                kind: "data".into(),
                size_bytes: 48 << 10,
                count: 4,
            },
            CacheCard {
                level: 2,
                kind: "unified".into(),
                size_bytes: 2 << 20,
                count: 4,
            },
            CacheCard {
                level: 3,
                kind: "unified".into(),
                size_bytes: 36 << 20,
                count: 1,
            },
        ],
        kernel: "6.12.0-sample".into(),
        thp: "madvise".into(),
        numa_balancing: Some("off".into()),
        governor: "performance".into(),
        memory_bytes: 64 * gib,
        tiers: vec![
            HostTier {
                kind: "dram".into(),
                nodes: vec![0],
                memory_bytes: 48 * gib,
                reason: "has CPUs".into(),
            },
            HostTier {
                kind: "cxl".into(),
                nodes: vec![1],
                memory_bytes: 16 * gib,
                reason: "no CPUs, backed by a CXL region".into(),
            },
        ],
        probe: Some(ProbeCard {
            read_gbps_one_thread: Spread::of(vec![11.8, 12.0, 12.1]).expect("finite"),
            read_gbps_all_threads: Spread::of(vec![41.0, 42.5, 42.9]).expect("finite"),
            footprint_bytes: 256 << 20,
        }),
        notes: vec!["Uncore frequency is not readable without root.".into()],
    }
}

fn machine(name: &str) -> MachineCard {
    let figure = |label: &str, value: f64, unit: &str, kind: &str| Figure {
        label: label.into(),
        value,
        unit: unit.into(),
        kind: kind.into(),
        source: "sample, no real source".into(),
    };
    MachineCard {
        name: name.into(),
        title: format!("sample profile shaped like {name}"),
        citations: vec![
            "A. Author and B. Author, \"A Sample Paper\", Proceedings of Samples, 2025.".into(),
        ],
        figures: vec![
            figure("dram read", 28.5, "GB/s", "published"),
            figure("dram idle latency", 111.0, "ns", "published"),
            figure("cxl read", 20.1, "GB/s", "published"),
            figure("lines in flight per core", 24.0, "lines", "assumed"),
        ],
        scale_factor: (name == "nus24").then_some(30.0),
        table_bytes: (name == "nus24").then_some(12_000_000_000),
    }
}

fn data() -> DataCard {
    let table = |name: &str, rows: u64, bytes: u64| TableCard {
        name: name.into(),
        rows,
        bytes,
    };
    let tables = vec![
        table("lineorder", 6_001_215, 420_000_000),
        table("customer", 30_000, 4_100_000),
        table("supplier", 2_000, 270_000),
        table("part", 200_000, 21_000_000),
        table("date", 2_556, 310_000),
    ];
    DataCard {
        column_bytes: tables.iter().map(|t| t.bytes).sum(),
        region_bytes: 448 << 20,
        tables,
    }
}

const COLUMNS: [&str; 12] = [
    "lineorder.lo_orderdate",
    "lineorder.lo_custkey",
    "lineorder.lo_suppkey",
    "lineorder.lo_partkey",
    "lineorder.lo_revenue",
    "lineorder.lo_discount",
    "lineorder.lo_quantity",
    "lineorder.lo_extendedprice",
    "lineorder.lo_supplycost",
    "lineorder.lo_tax",
    "customer.c_city",
    "part.p_brand1",
];

fn placement_card(placement: &str, here: bool) -> PlacementCard {
    let place = |index: usize| match placement {
        "dram" => "dram",
        "3:2" => "dram:3,cxl:2",
        "columns:8" if index < 8 => "dram",
        _ => "cxl",
    };
    let column = |(index, name): (usize, &&str)| ColumnCard {
        column: name.to_string(),
        bytes: if name.starts_with("lineorder") {
            24_004_860
        } else {
            1_600_000
        },
        placement: place(index).into(),
        read_bytes: if name.ends_with("lo_tax") {
            0
        } else {
            24_004_860 * (13 - index as u64)
        },
    };
    let audit = |deviation: f64| AuditRecord {
        bytes_checked: 448 << 20,
        pages_checked: 224,
        pages_absent: 0,
        requested: vec![
            NodeShare {
                node: 0,
                share: 0.6,
            },
            NodeShare {
                node: 1,
                share: 0.4,
            },
        ],
        effective: vec![
            NodeShare {
                node: 0,
                share: 0.6027,
            },
            NodeShare {
                node: 1,
                share: 0.3973,
            },
        ],
        actual: vec![
            NodeShare {
                node: 0,
                share: 0.6 + deviation,
            },
            NodeShare {
                node: 1,
                share: 0.4 - deviation,
            },
        ],
        worst_deviation: deviation,
    };
    PlacementCard {
        placement: placement.into(),
        meaning: format!("what {placement} means, in words"),
        placed_here: here,
        why_not: (!here).then(|| "this machine has no CXL memory".into()),
        columns: COLUMNS.iter().enumerate().map(column).collect(),
        audit_before: here.then(|| audit(0.0027)),
        audit_after: here.then(|| audit(0.0031)),
    }
}

fn intensity(machine: &str) -> Vec<IntensityRow> {
    let best = if machine == "nus24" { 1.6 } else { 1.12 };
    let mut rows = Vec::new();
    for (place, placement) in ["cxl", "3:2", "columns:8"].iter().enumerate() {
        for ns in [
            Some(0.25),
            Some(0.5),
            Some(1.0),
            Some(2.0),
            Some(4.0),
            Some(8.0),
            Some(16.0),
            None,
        ] {
            let x = ns.unwrap_or(1.4);
            let gain = if place == 1 {
                best / (1.0 + x / 6.0) + 0.93 * (1.0 - 1.0 / (1.0 + x / 6.0))
            } else {
                [0.6, 0.0, 0.96][place] + 0.01 * x
            };
            rows.push(IntensityRow {
                machine: machine.into(),
                placement: placement.to_string(),
                time_per_tuple_ns: ns,
                own_time_per_tuple_ns: (ns.is_none() && machine == "nus24").then_some(x),
                speedup_over_dram: gain,
                first_group_speedup: Some(gain * 1.05),
                slower: if gain < 1.0 { 11 } else { 1 },
                faster: if gain < 1.0 { 1 } else { 12 },
                dram_utilisation: 1.0 / (1.0 + x / 4.0),
                saturated: u32::from(x < 1.0) * 13,
            });
        }
    }
    rows
}

fn means(queries: &[QueryRecord], machines: &[&str]) -> Vec<MeanRecord> {
    let mut means = Vec::new();
    for machine in [HERE].iter().chain(machines) {
        for placement in PLACEMENTS {
            let found: Vec<&QueryRecord> = queries
                .iter()
                .filter(|q| {
                    q.machine == *machine
                        && q.placement == placement
                        && q.engine == EngineKind::Tierloom
                })
                .collect();
            let Some(geomean_ms) = geometric_mean(found.iter().map(|q| q.time_ms.median)) else {
                continue;
            };
            let count = |test: fn(f64) -> bool| {
                found
                    .iter()
                    .filter(|q| q.speedup_over_dram.is_some_and(test))
                    .count() as u32
            };
            means.push(MeanRecord {
                placement: placement.into(),
                machine: machine.to_string(),
                provenance: found[0].provenance,
                engine: EngineKind::Tierloom,
                queries: found.len() as u32,
                geomean_ms,
                speedup_over_dram: geometric_mean(found.iter().filter_map(|q| q.speedup_over_dram)),
                slower: count(|s| s <= 0.99),
                faster: count(|s| s >= 1.01),
            });
        }
    }
    means
}
