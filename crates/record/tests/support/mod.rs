//! A benchmark's record for the tests: made-up numbers.

#![allow(dead_code)]

use tierloom_record::{
    AuditRecord, BenchHost, BenchRecord, CounterRecord, HostCard, LatencyRecord, NodeShare,
    Percentile, Provenance, RegionRecord, Remark, SCHEMA, Setting, Spread, TaskRecord,
};

pub fn setting(key: &str, value: &str) -> Setting {
    Setting {
        key: key.into(),
        value: value.into(),
    }
}

fn audit() -> AuditRecord {
    let shares = vec![
        NodeShare {
            node: 0,
            share: 0.6,
        },
        NodeShare {
            node: 1,
            share: 0.4,
        },
    ];
    AuditRecord {
        bytes_checked: 1 << 20,
        pages_checked: 256,
        pages_absent: 0,
        requested: shares.clone(),
        effective: shares.clone(),
        actual: shares,
        worst_deviation: 0.0,
    }
}

pub fn region(name: &str) -> RegionRecord {
    RegionRecord {
        name: name.into(),
        memory: "anonymous memory".into(),
        size_bytes: 1 << 30,
        page_size: "thp".into(),
        placement: "3:2".into(),
        resolved: "0:3,1:2".into(),
        before: Some(audit()),
        after: Some(audit()),
        moved_pages: 0,
        huge_share: Some(1.0),
        note: None,
    }
}

pub fn task(name: &str) -> TaskRecord {
    TaskRecord {
        name: name.into(),
        role: "main".into(),
        host: "here".into(),
        access: "read, ascending, 64 B, avx512".into(),
        kind: "throughput".into(),
        regions: vec![region("m0")],
        threads: 2,
        cpus: vec!["0".into(), "1".into()],
        bandwidth_gbps: Spread::of(vec![20.0, 21.0, 20.5]),
        operations_per_s: Spread::of(vec![3.125e8]),
        bytes_per_operation: 64,
        operations: 50_331_648,
        thread_gbps: vec![],
        rate_gbps: None,
        latency: None,
        counters: vec![
            CounterRecord {
                name: "instructions".into(),
                value: Some(8.5e9),
                unit: "1".into(),
                note: None,
            },
            CounterRecord {
                name: "cas_count_read".into(),
                value: None,
                unit: "GB/s".into(),
                note: Some("no uncore PMU".into()),
            },
        ],
        data_check: Some("as filled".into()),
        prepare_s: 0.25,
        overhead_per_batch_ns: Some(181.0),
        operator: None,
        samples: vec![],
    }
}

pub fn latency() -> LatencyRecord {
    LatencyRecord {
        what: "one dependent load, mean of 1000".into(),
        samples: 1000,
        timer_overhead_ns: 24.5,
        mean_ns: 99.0,
        min_ns: 80.0,
        max_ns: 900.0,
        percentiles: [(50.0, 98.0), (99.9, 400.0)]
            .map(|(percent, latency_ns)| Percentile {
                percent,
                latency_ns,
            })
            .to_vec(),
        histogram: vec![],
        median_ns: Spread::of(vec![98.5]).expect("finite"),
    }
}

pub fn bench(run_id: &str, varied: Vec<Setting>) -> BenchRecord {
    BenchRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Measured,
        run_id: run_id.into(),
        session_id: "s1".into(),
        workload: "sequential read".into(),
        file: "read.yaml".into(),
        line: 3,
        varied,
        plan: serde_json::json!({ "repeat": 3, "seed": 18_446_744_073_709_551_615u64, "warmup_s": 0.1 }),
        started_at: "2026-01-02T03:04:05Z".into(),
        elapsed_s: 1.5,
        tool_version: "0.1.0".into(),
        commit: None,
        build: "dev".into(),
        command: vec!["tierloom".into(), "bench".into()],
        hosts: vec![BenchHost {
            name: "here".into(),
            card: HostCard {
                cpu_model: "Sample Processor, \"9000\"".into(),
                cpus: 2,
                smt: 1,
                caches: vec![],
                kernel: "6.1".into(),
                thp: "madvise".into(),
                numa_balancing: None,
                governor: "unknown: no cpufreq".into(),
                memory_bytes: 1 << 30,
                tiers: vec![],
                probe: None,
                notes: vec![],
            },
            snc: "off".into(),
            prefetchers: "not readable".into(),
            simd: "avx512".into(),
            timer: "tsc at 2.6 GHz".into(),
            clock_offset_ns: None,
            clock_uncertainty_ns: None,
        }],
        tasks: vec![task("main")],
        valid: true,
        remarks: vec![Remark {
            invalidates: false,
            text: "spread of 31%, \"two modes\"\nof speed".into(),
        }],
        stability: None,
    }
}
