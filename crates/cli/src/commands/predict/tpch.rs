//! `tierloom predict tpch`: throughput of TPC-H streams when DRAM holds only part of the tables.
//!
//! Compares all columns in DRAM, all on CXL, and the columns read most per byte in DRAM. The phases
//! are hand-written for the 22 queries or captured from a run; nothing is measured.

use super::capped::{columns_of_phases, phases_of_records};
use crate::failure::Failure;
use crate::output;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use std::path::PathBuf;
use tierloom_model::Machine;
use tierloom_placement::mixes::{ColumnSize, Engine, Mix, tpch_columns, tpch_queries};
use tierloom_placement::{Capped, CappedQuery, capped};
use tierloom_suite::machine;
use tierloom_text::Bytes;

/// Name and version of the document's format.
const SCHEMA: &str = "tierloom-capped/1";

/// Model TPC-H with DRAM limited to a share of the tables: the columns read most per byte in DRAM,
/// the rest on CXL
#[derive(clap::Args)]
pub struct Args {
    /// Machine profiles: names (see `tierloom machines`) or paths of YAML files
    #[arg(
        long,
        required = true,
        value_delimiter = ',',
        value_name = "NAME|FILE.yaml"
    )]
    machine: Vec<String>,
    /// Share of all columns that DRAM holds
    #[arg(long, default_value = "25%", value_name = "PERCENT")]
    dram_share: String,
    /// Scale factor of the hand-written phases
    #[arg(long, default_value_t = 100.0, value_name = "N")]
    sf: f64,
    /// Assume an engine N times as fast for the hand-written phases; a faster engine waits more for
    /// memory
    #[arg(
        long,
        default_value_t = 1.0,
        value_name = "N",
        conflicts_with = "phases"
    )]
    faster: f64,
    /// Use phases captured in the records of a run instead of the hand-written ones
    #[arg(long, value_name = "RECORDS.jsonl", conflicts_with = "sf")]
    phases: Option<PathBuf>,
    /// Workers of each query, at most one per hardware thread; default: one per core
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    workers: Option<u32>,
    /// Also print the columns and where they are placed
    #[arg(long)]
    columns: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
}

/// Models the streams on every machine and prints the results.
pub fn run(args: &Args) -> Result<(), Failure> {
    let share = percent(&args.dram_share)?;
    let (mix, columns, source) = args.work()?;
    let mut answers = Vec::new();
    // All machines are solved before anything is printed, so that a mistake in the last one leaves
    // no partial output.
    for name in &args.machine {
        let machine = machine::load(name)?;
        let workers = machine.workers(args.workers).map_err(Failure::input)?;
        let answer = capped(&machine, &mix, &columns, share, workers).map_err(Failure::input)?;
        answers.push((machine, answer));
    }
    if args.json {
        return output::print(&document(&source, share, &answers)?);
    }
    for (index, (machine, answer)) in answers.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        let text = text(&source, machine, answer, args.columns);
        output::print(&format!("{gap}{text}"))?;
    }
    Ok(())
}

impl Args {
    fn work(&self) -> Result<(Mix, Vec<ColumnSize>, String), Failure> {
        if let Some(path) = &self.phases {
            let mix = phases_of_records(path)?;
            let columns = columns_of_phases(&mix);
            let source = format!("{} queries captured in {}", mix.len(), path.display());
            return Ok((mix, columns, source));
        }
        for (option, value) in [("--sf", self.sf), ("--faster", self.faster)] {
            // A million is an exabyte of tables: numbers of bytes stay far below their type.
            if !(value > 0.0 && value <= 1e6) {
                return Err(Failure::input(format!(
                    "{option} {value}: expected a positive number, up to 1e6"
                )));
            }
        }
        let engine = Engine::default().faster(self.faster);
        let source = format!(
            "TPC-H at scale factor {}, written-down phases, {} ns of processor time per value and {} ns per probe (assumed)",
            self.sf, engine.value_ns, engine.probe_ns
        );
        Ok((
            tpch_queries(self.sf, &engine),
            tpch_columns(self.sf),
            source,
        ))
    }
}

fn percent(text: &str) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    let share = number.filter(|p| (0.0..=100.0).contains(p));
    share.map(|p| p / 100.0).ok_or_else(|| {
        Failure::input(format!(
            "--dram-share {text}: expected a percentage from 0% to 100%, such as 25%"
        ))
    })
}

fn document(source: &str, share: f64, answers: &[(Machine, Capped)]) -> Result<String, Failure> {
    let one = |(machine, answer): &(Machine, Capped)| {
        json!({
            "machine": machine.name,
            "kept_by_heat": answer.kept(),
            "kept_on_cxl": answer.kept_on_cxl(),
            "answer": answer,
        })
    };
    let document = json!({
        "schema": SCHEMA,
        "provenance": tierloom_record::Provenance::Modelled,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "work": source,
        "dram_share": share,
        "machines": answers.iter().map(one).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&document).map_err(Failure::runtime)?;
    Ok(format!("{text}\n"))
}

fn text(source: &str, machine: &Machine, answer: &Capped, with_columns: bool) -> String {
    let mut out = format!(
        "Modelled on {} ({}): {source}, {} workers\nTables of {}; DRAM may hold {} of them, operator memory besides\n",
        machine.name,
        machine.title,
        answer.workers,
        Bytes(answer.table_bytes).rounded(),
        Bytes(answer.dram_bytes).rounded()
    );
    out += &format!("{}\n", queries(answer));
    if with_columns {
        out += &format!("{}\n", columns(answer));
    }
    // Streams run all queries equally often, so the time of one round gives the rate.
    let per_hour =
        |of: fn(&CappedQuery) -> f64| 3600e9 * answer.queries.len() as f64 / answer.round_ns(of);
    out += &format!(
        "Throughput of streams (modelled): {:.0} queries per hour with all columns in DRAM, {:.0} with all on CXL ({:.1}%), {:.0} with the hottest in DRAM ({:.1}%)\n",
        per_hour(|q| q.dram_ns),
        per_hour(|q| q.cxl_ns),
        100.0 * answer.kept_on_cxl(),
        per_hour(|q| q.heat_ns),
        100.0 * answer.kept()
    );
    out
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(header);
    for index in 1..N {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn queries(answer: &Capped) -> Table {
    let mut table = table(["query", "DRAM ms", "CXL ms", "by heat ms", "kept"]);
    for q in &answer.queries {
        let ms = |ns: f64| format!("{:.1}", ns / 1e6);
        let kept = format!("{:.0}%", 100.0 * q.dram_ns / q.heat_ns);
        table.add_row([
            q.query.clone(),
            ms(q.dram_ns),
            ms(q.cxl_ns),
            ms(q.heat_ns),
            kept,
        ]);
    }
    table
}

fn columns(answer: &Capped) -> Table {
    let mut table = table(["column", "size", "times read", "in DRAM"]);
    for c in &answer.columns {
        table.add_row([
            c.column.clone(),
            Bytes(c.size_bytes).rounded(),
            format!("{:.2}", c.reads),
            format!("{:.0}%", 100.0 * c.dram_share),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent("25%").unwrap(), 0.25);
        assert_eq!(percent("100").unwrap(), 1.0);
        for bad in ["", "x", "-1%", "101%", "NaN%"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
