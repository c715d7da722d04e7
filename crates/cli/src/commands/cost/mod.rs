//! `tierloom cost`: compares the price of servers with and without CXL memory.
//!
//! Per demand and kind of configuration the cheapest one is searched, optionally with its modelled
//! throughput, and put into one record; the text output and the report are made from that record.
//! Prices and the search are in `tierloom_model::cost`.

mod args;
mod pool;
mod render;
mod throughput;

pub use args::Args;

use crate::failure::Failure;
use crate::output;
use std::path::Path;
use std::time::SystemTime;
use throughput::{Best, Throughput};
use tierloom_model::cost::{
    BUILTIN_YAML, Config, DemandRange, Findings, Kind, Offer, Prices, deciders, findings, gib,
    money, sensitivities, sentences,
};
use tierloom_record::{
    CostConfig, CostPoint, CostRecord, CostSensitivity, Provenance, Record, RecordSet, SCHEMA,
};

/// The comparison, with what the text output needs beyond the record.
pub struct Comparison {
    pub record: CostRecord,
    /// Per demand the configuration with the lowest price per throughput; empty without a machine.
    pub best: Vec<Option<Best>>,
    /// Findings that follow from the prices.
    pub found: Findings,
    /// The kinds of configuration, in the order of the record.
    pub kinds: Vec<Kind>,
}

/// Prints the prices, or compares configurations and writes the results.
pub fn run(args: &Args) -> Result<(), Failure> {
    let prices = args.load_prices()?;
    if args.show_prices {
        return show(args, &prices);
    }
    if let Some(hosts) = args.pool {
        return pool::run(args, &prices, hosts);
    }
    // Files are checked before the comparison, which can take long.
    let outputs = [
        ("--records", args.records.as_deref()),
        ("--report", args.report.as_deref()),
    ];
    let inputs: Vec<&Path> = args.prices.as_deref().into_iter().collect();
    output::check_outputs(&outputs, &inputs)?;
    let all = compared(args, &prices)?;
    let record = Record::Cost(Box::new(all.record.clone()));
    write_files(args, &record)?;
    if args.json {
        return output::print(&text_of(&record)?);
    }
    output::print(&render::text(&all))
}

/// The comparison as a JSON document; with `--pool`, that of a pool.
///
/// # Errors
/// Bad input: prices, kinds or demands that cannot be, or arguments that write files.
pub fn document(args: &Args) -> Result<String, Failure> {
    if args.show_prices || args.records.is_some() || args.report.is_some() {
        return Err(Failure::input(
            "a document is a comparison; it neither shows prices nor writes files",
        ));
    }
    let prices = args.load_prices()?;
    text_of(&match args.pool {
        Some(hosts) => pool::recorded(args, &prices, hosts)?,
        None => Record::Cost(Box::new(compared(args, &prices)?.record)),
    })
}

fn text_of(record: &Record) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(record).map_err(Failure::runtime)?;
    Ok(format!("{text}\n"))
}

fn compared(args: &Args, prices: &Prices) -> Result<Comparison, Failure> {
    let kinds = args.load_kinds(prices)?;
    let demands = args.demands()?;
    let throughput = Throughput::of(args, &demands)?;
    compare(prices, &kinds, &demands, throughput.as_ref())
}

/// Prints the built-in file as it is, with its comments, or the prices as changed by a file and
/// `--set`.
fn show(args: &Args, prices: &Prices) -> Result<(), Failure> {
    if args.prices.is_none() && args.set.is_empty() {
        return output::print(BUILTIN_YAML);
    }
    let text = prices.to_yaml().map_err(Failure::runtime)?;
    output::print(&format!("{}\n", text.trim_end()))
}

fn compare(
    prices: &Prices,
    kinds: &[Kind],
    demands: &[u64],
    throughput: Option<&Throughput>,
) -> Result<Comparison, Failure> {
    let offers: Vec<Offer> = kinds.iter().map(|k| Offer::new(prices, *k)).collect();
    let mut points = Vec::new();
    let mut best = Vec::new();
    for demand_gib in demands.iter().copied() {
        let mut cheapest = Vec::new();
        for offer in &offers {
            let config = offer.cheapest(demand_gib);
            cheapest.push(
                config
                    .map(|c| described(c, demand_gib, throughput))
                    .transpose()?,
            );
        }
        points.push(CostPoint {
            demand_gib,
            cheapest,
        });
        if let Some(throughput) = throughput {
            best.push(throughput.best(&offers, demand_gib)?);
        }
    }
    let tried = sensitivities(prices, kinds);
    let found = findings(prices, kinds);
    let mut words = sentences(prices, &found, &deciders(&tried));
    if throughput.is_some() {
        words.extend(by_kind(kinds, &points));
        words.extend(per_throughput(prices, demands, &best));
    }
    let sensitivities = tried.iter().map(|s| CostSensitivity {
        assumption: s.assumption.clone(),
        change: s.change.clone(),
        effect: s.effect(),
        largest_saving: s.largest_saving,
    });
    let record = CostRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        prices: prices.name.clone(),
        currency: prices.currency.clone(),
        as_of: prices.as_of.clone(),
        kinds: kinds.iter().map(|k| k.words()).collect(),
        points,
        findings: words,
        sensitivities: sensitivities.collect(),
        throughput_of: throughput.map(Throughput::words),
    };
    Ok(Comparison {
        record,
        best,
        found,
        kinds: kinds.to_vec(),
    })
}

fn described(
    config: &Config,
    demand_gib: u64,
    throughput: Option<&Throughput>,
) -> Result<CostConfig, Failure> {
    let queries = throughput.map(|t| t.queries_per_hour(config, demand_gib));
    Ok(CostConfig {
        words: config.words(),
        price: config.price,
        dram_gib: config.dram_gib,
        cxl_gib: config.cxl_gib,
        queries_per_hour: queries.transpose()?,
    })
}

/// One sentence per kind: the demands at which its cheapest configuration also costs less per
/// throughput than that of CPU memory.
fn by_kind(kinds: &[Kind], points: &[CostPoint]) -> Vec<String> {
    let per_query = |point: &CostPoint, index: usize| {
        let config = point.cheapest.get(index)?.as_ref()?;
        Some(config.price / config.queries_per_hour?)
    };
    let mut words = Vec::new();
    // The first kind is CPU memory alone, with which the others are compared.
    for (index, kind) in kinds.iter().enumerate().skip(1) {
        let both: Vec<(u64, bool)> = points
            .iter()
            .filter_map(|p| Some((p.demand_gib, per_query(p, index)? < per_query(p, 0)?)))
            .collect();
        let list = |wanted: bool| {
            let at = both.iter().filter(|(_, less)| *less == wanted);
            let at: Vec<String> = at.map(|(demand, _)| gib(*demand)).collect();
            if at.is_empty() {
                "no demand".into()
            } else {
                at.join(", ")
            }
        };
        if !both.is_empty() {
            words.push(format!(
                "Per modelled query throughput the cheapest configuration of {} costs less than that of CPU memory alone at {}; it costs as much or more at {}.",
                kind.words(),
                list(true),
                list(false)
            ));
        }
    }
    words
}

/// One sentence per range of demands for which the same configuration is the cheapest per
/// throughput.
fn per_throughput(prices: &Prices, demands: &[u64], best: &[Option<Best>]) -> Vec<String> {
    let mut stretches: Vec<(DemandRange, &Best, f64)> = Vec::new();
    let found = demands
        .iter()
        .zip(best)
        .filter_map(|(d, b)| Some((*d, b.as_ref()?)));
    for (demand, best) in found {
        match stretches.last_mut() {
            Some((range, last, at_end)) if last.config == best.config => {
                range.to_gib = demand;
                *at_end = best.per_query();
            }
            _ => {
                let range = DemandRange {
                    above_gib: demand,
                    to_gib: demand,
                };
                stretches.push((range, best, best.per_query()));
            }
        }
    }
    let sentence = |(range, best, at_end): (DemandRange, &Best, f64)| {
        let at = if range.above_gib == range.to_gib {
            format!("At a demand of {}", gib(range.to_gib))
        } else {
            format!(
                "At demands of {} to {}",
                gib(range.above_gib),
                gib(range.to_gib)
            )
        };
        let (price, per_query) = (
            money(&prices.currency, best.config.price),
            format!("{} {at_end:.3}", prices.currency),
        );
        format!(
            "{at} the configuration that costs least per modelled query throughput is {} ({price}; {per_query} per query in an hour at {}).",
            best.config.words(),
            gib(range.to_gib)
        )
    };
    stretches.into_iter().map(sentence).collect()
}

/// Writes the record to the files that the options name.
fn write_files(args: &Args, record: &Record) -> Result<(), Failure> {
    let set = RecordSet::from_records(vec![record.clone()])?;
    if let Some(path) = &args.records {
        output::write_records(path, &set)?;
    }
    if let Some(path) = &args.report {
        output::write_report(path, &set)?;
    }
    Ok(())
}
