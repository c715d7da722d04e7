//! Output of the model for the tests and the example: made-up numbers in the form of real ones.

use super::unit;
use tierloom_record::{
    CostConfig, CostPoint, CostRecord, CostSensitivity, FigureRecord, Provenance, RecordSet,
    SCHEMA, TierWeight, TunePoint, TuneRecord, ValidationRecord,
};

const MADE_AT: &str = "2025-11-21T10:00:00Z";

pub fn figure(id: &str, paper: &str, role: &str, published: f64, error: f64) -> FigureRecord {
    FigureRecord {
        id: id.into(),
        paper: paper.into(),
        what: format!("sequential read, {id}"),
        series: String::new(),
        x: None,
        x_name: String::new(),
        role: role.into(),
        because: None,
        machine: "sample".into(),
        unit: "GB/s".into(),
        published: Some(published),
        relation: None,
        modelled: published * (1.0 + error),
        error: Some(error),
        agrees: None,
        remark: None,
        nearest: None,
    }
}

/// Two papers: a curve of six points (two of them fitted), gains in per cent, and a relation that
/// does not hold.
pub fn validation() -> ValidationRecord {
    let threads = [1.0f64, 2.0, 4.0, 8.0, 16.0, 48.0];
    let mut figures: Vec<FigureRecord> = threads
        .iter()
        .enumerate()
        .map(|(i, n)| {
            let role = if i % 4 == 1 { "fitted" } else { "check" };
            let error = 0.16 * (unit(7, i, 0, 0) - 0.5);
            FigureRecord {
                series: "p25-reads".into(),
                x: Some(*n),
                x_name: "threads".into(),
                ..figure(
                    &format!("p25-reads-{n}"),
                    "P25",
                    role,
                    12.0 * n.powf(0.8),
                    error,
                )
            }
        })
        .collect();
    figures.push(FigureRecord {
        unit: "%".into(),
        modelled: -1.5,
        error: Some(0.985 / 1.04 - 1.0),
        agrees: Some(false),
        remark: Some("prefetchers lose their head start at page ends".into()),
        ..figure("q24-gain", "Q24", "check", 4.0, 0.0)
    });
    figures.push(FigureRecord {
        unit: "%".into(),
        modelled: 70.0,
        error: Some(1.70 / 1.72 - 1.0),
        agrees: Some(true),
        ..figure("q24-other", "Q24", "fitted", 72.0, 0.0)
    });
    figures.push(FigureRecord {
        unit: "ns".into(),
        published: None,
        relation: Some("between 350 and 480".into()),
        modelled: 401.0,
        error: None,
        agrees: Some(true),
        ..figure("q24-latency", "Q24", "check", 1.0, 0.0)
    });
    figures.sort_by_key(|f| f.role.clone());
    ValidationRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: MADE_AT.into(),
        tool_version: "0.1.0".into(),
        terms_off: vec![],
        figures,
        summaries: Vec::new(),
    }
}

/// A curve with its maximum at `best` (dram, cxl).
pub fn tune(phase: &str, provenance: Provenance, best: (u32, u32)) -> TuneRecord {
    let weights = |dram: u32, cxl: u32| {
        let all = [("dram", dram), ("cxl", cxl)].into_iter();
        all.map(|(tier, weight)| TierWeight {
            tier: tier.into(),
            weight,
        })
        .collect()
    };
    let at = f64::from(best.1) / f64::from(best.0 + best.1);
    let rate = |share: f64| 60.0 * (1.0 - (share - at).abs() * 0.8);
    let modelled = provenance == Provenance::Modelled;
    TuneRecord {
        schema: SCHEMA.into(),
        provenance,
        made_at: MADE_AT.into(),
        tool_version: "0.1.0".into(),
        machine: if modelled { "sample" } else { "here" }.into(),
        phase: phase.into(),
        what: "reads in order".into(),
        workers: 32,
        unit: "GB/s".into(),
        points: (0..=10)
            .map(|i| f64::from(i) / 10.0)
            .map(|share| TunePoint {
                share,
                rate: rate(share),
                low: Some(rate(share) * 0.93),
                high: Some(rate(share) * 1.06),
                provenance,
            })
            .collect(),
        best: weights(best.0, best.1),
        best_rate: rate(at),
        dram_rate: rate(0.0),
        kernel: weights(1, 1),
        kernel_rate: rate(0.5),
        best_share_range: modelled.then_some((at * 0.8, at * 1.1)),
        gain_range: modelled.then_some((1.2, 1.7)),
        warnings: vec![],
    }
}

/// Two demands and two kinds of memory, the second too small for the larger one.
pub fn cost() -> CostRecord {
    let config = |price: f64, cxl_gib: u64| CostConfig {
        words: format!("1 CPU, 1024 GiB DRAM, {cxl_gib} GiB CXL"),
        price,
        dram_gib: 1024,
        cxl_gib,
        queries_per_hour: None,
    };
    CostRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: MADE_AT.into(),
        tool_version: "0.1.0".into(),
        prices: "sample".into(),
        currency: "US$".into(),
        as_of: "2025-03".into(),
        kinds: vec!["CPU memory".into(), "CPU memory + 1 CXL device".into()],
        points: vec![
            CostPoint {
                demand_gib: 1024,
                cheapest: vec![Some(config(9_500.0, 0)), Some(config(10_500.0, 512))],
            },
            CostPoint {
                demand_gib: 4096,
                cheapest: vec![Some(config(60_000.0, 0)), None],
            },
        ],
        findings: vec!["CPU memory alone is cheapest up to 1 TiB.".into()],
        sensitivities: vec![CostSensitivity {
            assumption: "price of DDR5 256 GiB".into(),
            change: "-20%".into(),
            effect: "smaller savings".into(),
            largest_saving: 0.5,
        }],
        throughput_of: None,
    }
}

/// One comparison with publications, weights of three phases, and one comparison of prices.
pub fn decisions_sample() -> RecordSet {
    let mut loses = tune("aggregate", Provenance::Modelled, (1, 0));
    loses.warnings = vec!["interleaving loses: dram is busy only 31% of the time".into()];
    RecordSet {
        validations: vec![validation()],
        tunes: vec![
            tune("scan", Provenance::Modelled, (3, 2)),
            loses,
            tune("probe", Provenance::Measured, (4, 1)),
        ],
        costs: vec![cost()],
        ..RecordSet::default()
    }
}
