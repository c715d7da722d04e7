//! `tierloom cost --pool`: a pool behind a switch against memory for each host's own peak.

use super::args::{Args, size_gib};
use super::{text_of, write_files};
use crate::failure::Failure;
use crate::output;
use comfy_table::{CellAlignment, Table, presets};
use std::path::Path;
use std::time::SystemTime;
use tierloom_model::cost::{
    JointDemand, PoolComparison, PoolOffer, PoolSensitivity, Prices, break_even_hosts,
    compare_pool, gib, money, pool_sensitivities, share_words,
};
use tierloom_record::{
    PoolCostOffer, PoolCostRecord, PoolCostSensitivity, Provenance, Record, SCHEMA,
};
use tierloom_text::Bytes;

/// Assumptions that are listed; the others matter less.
const LISTED: usize = 8;

/// What is compared, and what came out.
struct Compared<'a> {
    prices: &'a Prices,
    demand: JointDemand,
    /// The demand in a few words.
    words: String,
    found: PoolComparison,
    /// Hosts from which on a pool is cheaper; `None` for a recorded demand.
    hosts: Option<Option<u32>>,
    sensitivities: Vec<PoolSensitivity>,
}

/// Compares and prints.
///
/// # Errors
/// Bad input: no hosts, a demand or trace that cannot be read, prices without a pool.
pub fn run(args: &Args, prices: &Prices, hosts: u32) -> Result<(), Failure> {
    let outputs = [
        ("--records", args.records.as_deref()),
        ("--report", args.report.as_deref()),
    ];
    let inputs = [args.prices.as_deref(), args.trace.as_deref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().collect();
    output::check_outputs(&outputs, &inputs)?;
    let all = compared(args, prices, hosts)?;
    let record = Record::PoolCost(Box::new(record(&all)));
    write_files(args, &record)?;
    if args.json {
        return output::print(&text_of(&record)?);
    }
    output::print(&text(&all))
}

/// The comparison as a record, of which nothing is written.
///
/// # Errors
/// Same as [`run`], without those of files.
pub fn recorded(args: &Args, prices: &Prices, hosts: u32) -> Result<Record, Failure> {
    let all = compared(args, prices, hosts)?;
    Ok(Record::PoolCost(Box::new(record(&all))))
}

fn compared<'a>(args: &Args, prices: &'a Prices, hosts: u32) -> Result<Compared<'a>, Failure> {
    let none = || {
        Failure::input(format!(
            "prices {} have no group `pool`; see `tierloom cost --show-prices`",
            prices.name
        ))
    };
    let (demand, words, found_hosts) = match &args.trace {
        Some(path) => {
            let demand = trace(path)?;
            if demand.hosts() != hosts {
                return Err(Failure::input(format!(
                    "{} has {} hosts and --pool says {hosts}",
                    path.display(),
                    demand.hosts()
                )));
            }
            (demand, format!("recorded in {}", path.display()), None)
        }
        None => {
            let (base, peak) = base_and_peak(args)?;
            let share = share(&args.joint_peak)?;
            let demand_of = |hosts| JointDemand::peaks(hosts, base, peak, share);
            let demand = demand_of(hosts).ok_or_else(|| {
                Failure::input("--pool needs at least one host, and a peak above the base")
            })?;
            let words = format!(
                "each {} always and {} at its own peak, together {} of all peaks at most",
                gib(base),
                gib(peak),
                share_words(share)
            );
            (demand, words, Some(break_even_hosts(prices, &demand_of)))
        }
    };
    Ok(Compared {
        found: compare_pool(prices, &demand).ok_or_else(none)?,
        sensitivities: pool_sensitivities(prices, &demand),
        hosts: found_hosts,
        prices,
        demand,
        words,
    })
}

fn base_and_peak(args: &Args) -> Result<(u64, u64), Failure> {
    let wrong = || {
        Failure::input(
            "--pool: --demand BASE..PEAK says what each host needs always and at its own peak, \
             as in 512GiB..2TiB; or give --trace FILE.csv",
        )
    };
    let text = args.demand.as_deref().ok_or_else(wrong)?;
    let (base, peak) = text.split_once("..").ok_or_else(wrong)?;
    let (base, peak) = (size_gib("--demand", base)?, size_gib("--demand", peak)?);
    match base <= peak {
        true => Ok((base, peak)),
        false => Err(wrong()),
    }
}

/// A share as `60%` or `0.6`.
fn share(text: &str) -> Result<f64, Failure> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text.trim(), 1.0),
    };
    let share = number.trim().parse::<f64>().ok().map(|share| share / scale);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| {
            Failure::input(format!(
                "--joint-peak {text}: expected a share of the sum of all peaks, as in 60%"
            ))
        })
}

/// Reads demands: a line per moment, a column per host, sizes in GiB or with a unit. The first line
/// names the hosts; a column `time` is left out.
fn trace(path: &Path) -> Result<JointDemand, Failure> {
    let name = path.display();
    let wrong = |line: u64, problem: String| Failure::input(format!("{name}:{line}: {problem}"));
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_path(path)
        .map_err(|e| Failure::input(format!("cannot read {name}: {e}")))?;
    let header = reader
        .headers()
        .map_err(|e| wrong(1, e.to_string()))?
        .clone();
    let mut moments = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|e| {
            let line = e.position().map_or(0, csv::Position::line);
            wrong(
                line,
                "not a row with a demand for every host".to_owned() + &format!(" ({e})"),
            )
        })?;
        let line = row.position().map_or(0, csv::Position::line);
        let cells = header.iter().zip(&row).filter(|(host, _)| *host != "time");
        let moment = cells.map(|(host, cell)| {
            demand_gib(cell).ok_or_else(|| {
                let expected = "a size in GiB, or with a unit as in 1.5TiB";
                wrong(line, format!("host {host}: {cell:?} is not {expected}"))
            })
        });
        moments.push(moment.collect::<Result<Vec<_>, _>>()?);
    }
    let none = || wrong(1, "it has no hosts or no moments".to_owned());
    JointDemand::recorded(moments).ok_or_else(none)
}

/// Whole GiB, rounded up; at most 1024 TiB.
fn demand_gib(cell: &str) -> Option<u64> {
    let gib = match cell.parse::<f64>() {
        Ok(gib) => gib,
        Err(_) => cell.parse::<Bytes>().ok()?.0 as f64 / (1_u64 << 30) as f64,
    };
    (0.0..=f64::from(1 << 20))
        .contains(&gib)
        .then_some(gib.ceil() as u64)
}

fn record(all: &Compared<'_>) -> PoolCostRecord {
    let sensitive = |found: &PoolSensitivity| PoolCostSensitivity {
        path: found.path.clone(),
        value: found.value,
        saving_at_half: found.savings[0],
        saving_at_twice: found.savings[1],
        break_even: found.break_even,
    };
    PoolCostRecord {
        schema: SCHEMA.to_owned(),
        provenance: Provenance::Modelled,
        made_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        prices: all.prices.name.clone(),
        currency: all.prices.currency.clone(),
        as_of: all.prices.as_of.clone(),
        hosts: all.demand.hosts(),
        demand: all.words.clone(),
        own_peaks_gib: all.demand.own_peaks_gib(),
        joint_peak_gib: all.demand.joint_peak_gib(),
        own: all.found.own.as_ref().map(offer),
        own_cxl: all.found.own_cxl.as_ref().map(offer),
        pool: all.found.pool.as_ref().map(offer),
        saving: all.found.saving(),
        break_even_hosts: all.hosts.flatten(),
        findings: findings(all),
        sensitivities: all.sensitivities.iter().map(sensitive).collect(),
    }
}

fn offer(offer: &PoolOffer) -> PoolCostOffer {
    PoolCostOffer {
        hosts: offer.hosts.clone(),
        devices: offer.devices,
        boxes: offer.boxes,
        dram_gib: offer.dram_gib,
        cxl_gib: offer.cxl_gib,
        price: offer.price,
        pool_price: offer.pool_price,
        stranded_gib: offer.stranded_gib,
    }
}

fn text(all: &Compared<'_>) -> String {
    let prices = all.prices;
    let found: String = findings(all).iter().map(|f| format!("* {f}\n")).collect();
    format!(
        "{} hosts, {}; {} at once at most.\nPrices {} ({}, {}); those of the pool are assumptions. \
         Modelled; nothing was bought.\n{}\n\n{found}{}",
        all.demand.hosts(),
        all.words,
        gib(all.demand.joint_peak_gib()),
        prices.name,
        prices.currency,
        prices.as_of,
        offers(all),
        sensitivities(all),
    )
}

/// The findings as sentences, the answer first.
fn findings(all: &Compared<'_>) -> Vec<String> {
    let mut found = answer(all);
    match all.hosts {
        Some(Some(hosts)) => found.push(format!("A pool is cheaper from {hosts} such hosts on.")),
        Some(None) => {
            found.push("A pool is not cheaper for any number of hosts on one switch.".to_owned())
        }
        None => {}
    }
    if let Some(first) = all.sensitivities.first() {
        found.push(format!("The answer depends most on `{}`.", first.path));
    }
    found
}

fn answer(all: &Compared<'_>) -> Vec<String> {
    let money = |price| money(&all.prices.currency, price);
    let (Some(pool), Some(other)) = (&all.found.pool, all.found.without_pool()) else {
        let why = match all.found.pool {
            None => {
                "one switch has too few lanes for these hosts and devices, or DRAM for the base is DRAM for the peak"
            }
            Some(_) => "no server has memory for the peak of a host",
        };
        return vec![format!("There is nothing to compare: {why}.")];
    };
    let saving = all.found.saving().unwrap_or(0.0);
    let word = if saving > 0.0 { "saves" } else { "costs" };
    let more = if saving > 0.0 { "" } else { " more" };
    vec![
        format!(
            "The pool {word} {} ({}){more} against memory for each host's own peak.",
            money((other.price - pool.price).abs()),
            share_words(saving.abs()),
        ),
        format!(
            "{} are stranded at the moment of the highest joint demand with the pool, {} without.",
            gib(pool.stranded_gib),
            gib(other.stranded_gib),
        ),
    ]
}

fn offers(all: &Compared<'_>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "memory",
        "each host",
        "CXL memory",
        "all",
        "stranded",
        "price",
    ]);
    for column in 3..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let found = &all.found;
    for (name, offer) in [
        ("own DRAM", &found.own),
        ("own, CXL devices allowed", &found.own_cxl),
        ("pool behind a switch", &found.pool),
    ] {
        let Some(offer) = offer else {
            table.add_row([name, "cannot be built"]);
            continue;
        };
        let mut hosts = offer.hosts.clone();
        hosts.dedup();
        let shared = match offer.devices {
            0 => "-".to_owned(),
            n => format!("{n} devices in {} boxes", offer.boxes),
        };
        table.add_row([
            name.to_owned(),
            hosts.join("\n"),
            shared,
            gib(offer.dram_gib + offer.cxl_gib),
            gib(offer.stranded_gib),
            money(&all.prices.currency, offer.price),
        ]);
    }
    table
}

fn sensitivities(all: &Compared<'_>) -> String {
    if all.sensitivities.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "price",
        "now",
        "saved at half",
        "saved at twice",
        "break-even",
    ]);
    let share = |saving: Option<f64>| saving.map_or_else(|| "-".to_owned(), share_words);
    for found in all.sensitivities.iter().take(LISTED) {
        let even = found.break_even.map(|price| money("", price));
        table.add_row([
            found.path.clone(),
            money("", found.value),
            share(found.savings[0]),
            share(found.savings[1]),
            even.unwrap_or_else(|| "none".to_owned()),
        ]);
    }
    format!("\nEvery price at half and twice its value, alone; change one with --set:\n{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_demands_are_read_with_and_without_units() {
        assert_eq!(
            (share("60%").ok(), share("0.25").ok()),
            (Some(0.6), Some(0.25))
        );
        for wrong in ["", "%", "-1%", "101%", "1.5", "NaN"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        for (cell, gib) in [("12", 12), ("1.2", 2), ("1.5TiB", 1536), ("100MiB", 1)] {
            assert_eq!(demand_gib(cell), Some(gib), "{cell}");
        }
        for wrong in ["", "x", "-1", "1e9", "NaN"] {
            assert_eq!(demand_gib(wrong), None, "{wrong}");
        }
    }
}
