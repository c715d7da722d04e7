//! Runs of memory benchmarks for the tests and the example: made-up numbers in the form of real
//! ones.

use super::unit;
use tierloom_record::{
    AuditRecord, BenchHost, BenchRecord, Bucket, CacheCard, CounterRecord, HostCard, HostTier,
    LatencyRecord, NodeShare, Percentile, Provenance, RecordSet, RegionRecord, Remark, SCHEMA,
    Setting, Spread, StabilityRecord, TaskRecord,
};

/// Number of repetitions of every made-up figure.
pub const REPEAT: usize = 5;

/// A figure around `center`, within a few per cent.
fn spread(seed: u64, center: f64, noise: f64) -> Spread {
    let place = (center * 1024.0) as usize;
    let values = (0..REPEAT).map(|r| center * (1.0 + noise * (unit(seed, place, r, 1) - 0.5)));
    Spread::of(values.collect()).expect("finite")
}

pub fn host(name: &str) -> BenchHost {
    BenchHost {
        name: name.into(),
        card: HostCard {
            cpu_model: "Sample Processor 9000".into(),
            cpus: 32,
            smt: 2,
            caches: vec![CacheCard {
                level: 3,
                kind: "unified".into(),
                size_bytes: 256 << 20,
                count: 1,
            }],
            kernel: "6.12.0".into(),
            thp: "madvise".into(),
            numa_balancing: Some("0".into()),
            governor: "performance".into(),
            memory_bytes: 512 << 30,
            tiers: vec![
                HostTier {
                    kind: "dram".into(),
                    nodes: vec![0],
                    memory_bytes: 384 << 30,
                    reason: "has CPUs".into(),
                },
                HostTier {
                    kind: "cxl".into(),
                    nodes: vec![1],
                    memory_bytes: 128 << 30,
                    reason: "backed by the CXL region0".into(),
                },
            ],
            probe: None,
            notes: vec!["Uncore frequency: not readable".into()],
        },
        snc: "off".into(),
        prefetchers: "not readable: /dev/cpu/0/msr needs root and the module msr".into(),
        simd: "avx512".into(),
        timer: "tsc at 2.596 GHz, 24.3 ns per reading pair".into(),
        clock_offset_ns: (name != "here").then_some(-1_240.0),
        clock_uncertainty_ns: (name != "here").then_some(310.0),
    }
}

fn audit(cxl: f64, deviation: f64) -> AuditRecord {
    let shares = |cxl: f64| {
        vec![
            NodeShare {
                node: 0,
                share: 1.0 - cxl,
            },
            NodeShare {
                node: 1,
                share: cxl,
            },
        ]
    };
    AuditRecord {
        bytes_checked: 1 << 30,
        pages_checked: 512,
        pages_absent: 0,
        requested: shares(cxl),
        effective: shares(cxl),
        actual: shares(cxl + deviation),
        worst_deviation: deviation,
    }
}

fn region(placement: &str) -> RegionRecord {
    let (resolved, cxl) = match placement {
        "dram" => ("node 0", 0.0),
        "cxl" => ("node 1", 1.0),
        _ => ("0:3,1:2", 0.4),
    };
    RegionRecord {
        name: "m0".into(),
        memory: "anonymous memory".into(),
        size_bytes: 1 << 30,
        page_size: "2m".into(),
        placement: placement.into(),
        resolved: resolved.into(),
        before: Some(audit(cxl, 0.0)),
        after: Some(audit(cxl, 0.0)),
        moved_pages: 0,
        huge_share: None,
        note: None,
    }
}

fn counters(known: bool) -> Vec<CounterRecord> {
    let counter = |name: &str, value: f64, unit: &str| CounterRecord {
        name: name.into(),
        value: known.then_some(value),
        unit: unit.into(),
        note: (!known).then(|| "this virtual machine offers no hardware counters".into()),
    };
    vec![
        counter("instructions", 8.4e9, "1"),
        counter("llc_misses", 1.7e8, "1"),
        counter("cas_count_read", 23.4, "GB/s"),
    ]
}

fn task(name: &str, kind: &str, access: &str, threads: u32, placement: &str) -> TaskRecord {
    TaskRecord {
        name: name.into(),
        role: if name == "load" { "background" } else { "main" }.into(),
        host: "here".into(),
        access: access.into(),
        kind: kind.into(),
        regions: vec![region(placement)],
        threads,
        cpus: (0..threads).map(|cpu| cpu.to_string()).collect(),
        bandwidth_gbps: None,
        operations_per_s: None,
        bytes_per_operation: 64,
        operations: 83_886_080,
        thread_gbps: vec![],
        rate_gbps: None,
        latency: None,
        counters: counters(kind == "throughput"),
        data_check: Some("the checksum of all bytes is as it was filled".into()),
        prepare_s: 0.31,
        overhead_per_batch_ns: (kind == "throughput").then_some(181.0),
        operator: None,
        samples: vec![],
    }
}

fn with_bandwidth(mut task: TaskRecord, seed: u64, gbps: f64, bytes: u64) -> TaskRecord {
    let bandwidth = spread(seed, gbps, 0.05);
    let operations = bandwidth.values.iter().map(|v| v * 1e9 / bytes as f64);
    task.operations_per_s = Spread::of(operations.collect());
    task.thread_gbps =
        vec![spread(seed, gbps / f64::from(task.threads), 0.05); task.threads as usize];
    task.bandwidth_gbps = Some(bandwidth);
    task.bytes_per_operation = bytes;
    task
}

/// A distribution with a narrow body and a long tail.
pub fn latency(seed: u64, median_ns: f64) -> LatencyRecord {
    let mut histogram = Vec::new();
    let mut samples = 0;
    for step in 0..160 {
        let x = 0.7 + f64::from(step) * 0.02;
        let body = 200_000.0 * (-((x - 1.0) / 0.06).powi(2)).exp();
        let tail = 900.0 * (-(x - 0.9).abs() / 0.8).exp();
        let count = (body + tail) as u64;
        samples += count;
        histogram.push(Bucket {
            up_to_ns: median_ns * x,
            count,
        });
    }
    let percentiles = [
        (1.0, 0.86),
        (50.0, 1.0),
        (90.0, 1.07),
        (99.0, 1.9),
        (99.9, 3.2),
    ];
    let percentile = |(percent, factor): (f64, f64)| Percentile {
        percent,
        latency_ns: median_ns * factor,
    };
    LatencyRecord {
        what: "one dependent load, mean of 1000".into(),
        samples,
        timer_overhead_ns: 24.3,
        mean_ns: median_ns * 1.02,
        min_ns: median_ns * 0.69,
        max_ns: median_ns * 3.9,
        percentiles: percentiles.map(percentile).to_vec(),
        histogram,
        median_ns: spread(seed, median_ns, 0.02),
    }
}

/// A record with these tasks.
pub fn record(workload: &str, varied: &[(&str, &str)], tasks: Vec<TaskRecord>) -> BenchRecord {
    let name: Vec<String> = varied.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let id = format!("{workload}/{}", name.join("/"));
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    BenchRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Measured,
        run_id: format!("{hash:016x}"),
        session_id: "sample-session".into(),
        workload: workload.into(),
        file: "examples/bench/sample.yaml".into(),
        line: 12,
        varied: varied
            .iter()
            .map(|(key, value)| Setting {
                key: key.to_string(),
                value: value.to_string(),
            })
            .collect(),
        plan: serde_json::json!({ "workload": workload, "repeat": REPEAT, "seed": 1, "warmup_s": 0.1 }),
        started_at: "2026-01-02T03:04:05Z".into(),
        elapsed_s: 3.2,
        tool_version: "0.1.0".into(),
        commit: Some("1234567".into()),
        build: "release".into(),
        command: ["tierloom", "bench", "examples/bench/sample.yaml"]
            .map(String::from)
            .to_vec(),
        hosts: vec![host("here")],
        tasks,
        valid: true,
        remarks: vec![],
        stability: None,
    }
}

/// The parameters of a sample of benchmarks.
#[derive(Debug, Clone, Copy)]
pub struct BenchSample {
    /// Seed of the made-up noise.
    pub seed: u64,
    /// Factor for all bandwidths, and divisor for all latencies.
    pub speed: f64,
}

impl Default for BenchSample {
    fn default() -> Self {
        BenchSample {
            seed: 1,
            speed: 1.0,
        }
    }
}

/// The default sample.
pub fn bench_sample() -> RecordSet {
    BenchSample::default().set()
}

impl BenchSample {
    pub fn set(self) -> RecordSet {
        let mut benches = self.reads();
        benches.extend(self.copies());
        benches.extend(self.sizes());
        benches.extend(self.chases());
        benches.extend(self.loaded());
        benches.push(self.alone());
        RecordSet {
            benches,
            ..RecordSet::default()
        }
    }

    /// Two numeric keys and one of words: curves and heat maps, one pair per placement.
    fn reads(self) -> Vec<BenchRecord> {
        let mut records = Vec::new();
        for placement in ["dram", "cxl", "dram:3,cxl:2"] {
            for threads in ["1", "2", "4", "8", "16", "32"] {
                let n: f64 = threads.parse().expect("a number");
                let (peak, one) = match placement {
                    "dram" => (280.0, 14.0),
                    "cxl" => (46.0, 8.0),
                    _ => (320.0, 11.0),
                };
                let gbps = self.speed / (1.0 / peak + 1.0 / (one * n));
                let task = task(
                    "read",
                    "throughput",
                    "read, ascending, 64 B, avx512",
                    threads.parse().expect("a number"),
                    placement,
                );
                let task = with_bandwidth(task, self.seed, gbps, 64);
                records.push(record(
                    "sequential read",
                    &[("placement", placement), ("number_threads", threads)],
                    vec![task],
                ));
            }
        }
        let last = records.last_mut().expect("made");
        last.valid = false;
        last.remarks = vec![Remark {
            invalidates: true,
            text: "3 of 512 checked pages of m0 moved from node 1 to node 0 during the run: is NUMA balancing on?".into(),
        }];
        let after = last.tasks[0].regions[0].after.as_mut().expect("audited");
        *after = audit(0.394, 0.006);
        last.tasks[0].regions[0].moved_pages = 3;
        records[2].stability = Some(StabilityRecord {
            asked_relative_half_width: 0.02,
            reached_relative_half_width: 0.034,
            stable: false,
            repeats: 30,
        });
        records[2].remarks = vec![Remark {
            invalidates: false,
            text: "Not stable: the confidence interval is 3.4% wide after 30 repetitions, 2% was asked for.".into(),
        }];
        records
    }

    /// One key of words: bars.
    fn copies(self) -> Vec<BenchRecord> {
        let operations = [
            "read",
            "write",
            "stream-write",
            "copy",
            "stream-copy",
            "mix 70:30",
        ];
        let speeds = [21.3, 11.9, 19.4, 15.8, 20.1, 14.2];
        let run = |(operation, gbps): (&str, f64)| {
            let access = format!("{operation}, ascending, 64 B, avx512");
            let task = task("main", "throughput", &access, 2, "dram");
            let task = with_bandwidth(task, self.seed, gbps * self.speed, 64);
            record("operations", &[("operation", operation)], vec![task])
        };
        operations.into_iter().zip(speeds).map(run).collect()
    }

    /// Sizes on the x axis, operations as lines.
    fn sizes(self) -> Vec<BenchRecord> {
        let mut records = Vec::new();
        for (operation, peak) in [("read", 11.0), ("write", 6.0), ("stream-write", 9.0)] {
            for size in ["64", "256", "1K", "4K", "16K", "64K"] {
                let bytes = match size.strip_suffix('K') {
                    Some(kib) => kib.parse::<u64>().expect("a number") * 1024,
                    None => size.parse().expect("a number"),
                };
                let gbps = self.speed * peak / (1.0 + 400.0 / bytes as f64);
                let access = format!("{operation}, random uniform, {size} B, avx512");
                let task = task("main", "throughput", &access, 2, "dram");
                let task = with_bandwidth(task, self.seed, gbps, bytes);
                records.push(record(
                    "random access",
                    &[("operation", operation), ("access_size", size)],
                    vec![task],
                ));
            }
        }
        records
    }

    fn chases(self) -> Vec<BenchRecord> {
        let run = |(placement, ns): (&str, f64)| {
            let mut task = task(
                "chase",
                "chase",
                "dependent loads, random lines",
                1,
                placement,
            );
            task.latency = Some(latency(self.seed, ns / self.speed));
            record("idle latency", &[("placement", placement)], vec![task])
        };
        [("dram", 98.0), ("cxl", 261.0), ("dram:3,cxl:2", 163.0)]
            .into_iter()
            .map(run)
            .collect()
    }

    fn loaded(self) -> Vec<BenchRecord> {
        let mut records = Vec::new();
        for (placement, idle, peak) in [("dram", 98.0, 250.0), ("cxl", 261.0, 46.0)] {
            for rate in ["4", "8", "16", "24", "32", "40", "48", "96", "160", "240"] {
                let asked: f64 = rate.parse().expect("a number");
                let reached = asked.min(peak * 0.97) * self.speed;
                let u: f64 = reached / peak / self.speed;
                let mut chase = task(
                    "chase",
                    "chase",
                    "dependent loads, random lines",
                    1,
                    placement,
                );
                chase.latency = Some(latency(
                    self.seed,
                    idle * (1.0 + 0.25 * u.powi(3) / (1.04 - u)) / self.speed,
                ));
                let mut load = with_bandwidth(
                    task(
                        "load",
                        "throughput",
                        "read, ascending, 64 B, avx512",
                        31,
                        placement,
                    ),
                    self.seed,
                    reached,
                    64,
                );
                load.rate_gbps = Some(asked);
                records.push(record(
                    "loaded latency",
                    &[("placement", placement), ("rate", rate)],
                    vec![chase, load],
                ));
            }
        }
        records
    }

    fn alone(self) -> BenchRecord {
        let mut far = task(
            "main",
            "throughput",
            "stream-write, ascending, 64 B, avx512",
            8,
            "cxl",
        );
        far.regions[0] = RegionRecord {
            memory: "/dev/dax0.0 from 256 MiB".into(),
            placement: "default".into(),
            resolved: String::new(),
            before: None,
            after: None,
            note: Some("the kernel does not tell where pages of device memory are".into()),
            ..region("cxl")
        };
        far.data_check = None;
        let mut other = with_bandwidth(
            task(
                "load",
                "throughput",
                "read, ascending, 64 B, avx512",
                4,
                "cxl",
            ),
            self.seed,
            17.0 * self.speed,
            64,
        );
        other.host = "other".into();
        let mut made = record(
            "two hosts",
            &[],
            vec![with_bandwidth(far, self.seed, 21.0 * self.speed, 64), other],
        );
        made.hosts.push(host("other"));
        made
    }
}
