//! What follows from transactions under several placements.

use crate::{BesideRecord, HERE, Spread, TransactionsRecord};

/// Said wherever figures of TPC-C are shown.
pub const NO_TPC_RESULT: &str = "No figure of tpcc is a TPC result, nor comparable with one: \
    clients are threads without think time, and nothing of the specification's rules for results \
    is kept.";

/// How the placements compare with the first one of each workload and machine, as sentences: what
/// was measured before what was modelled.
pub fn of_transactions(records: &[TransactionsRecord]) -> Vec<String> {
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for record in records {
        let group = (record.machine.as_str(), record.workload.as_str());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.sort_by_key(|(machine, _)| *machine != HERE);
    let mut sentences = Vec::new();
    for (machine, workload) in groups {
        let of =
            |record: &&TransactionsRecord| record.machine == machine && record.workload == workload;
        let all: Vec<&TransactionsRecord> = records.iter().filter(of).collect();
        sentences.extend(comparison(&all, machine, workload));
        sentences.extend(interference(&all, machine, workload));
    }
    let broken = records.iter().filter_map(|record| {
        let why = record.invalid.as_ref()?;
        Some(format!(
            "{} in {} is invalid: {why}",
            record.workload, record.placement
        ))
    });
    sentences.extend(broken);
    let early = records.iter().filter_map(|record| {
        let why = record.ended_early.as_ref()?;
        let (what, place) = (&record.workload, &record.placement);
        Some(format!(
            "{what} in {place} ended after {:.2} s: {why}",
            record.duration_s
        ))
    });
    sentences.extend(early);
    if records.iter().any(|record| record.workload == "tpcc") {
        sentences.push(NO_TPC_RESULT.to_owned());
    }
    sentences
}

fn comparison(all: &[&TransactionsRecord], machine: &str, workload: &str) -> Option<String> {
    let mut valid = all.iter().filter(|record| record.invalid.is_none());
    let first = valid.next()?;
    let how = match machine {
        HERE => "measured here".to_owned(),
        name => format!("modelled for {name}"),
    };
    let rate = first.transactions_per_s;
    let others: Vec<String> = valid
        .map(|record| {
            let ratio = record.transactions_per_s / rate;
            format!("{ratio:.2} of that in {}", record.placement)
        })
        .collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("; {}", others.join(", ")),
    };
    let clients = match first.clients {
        1 => "1 client".to_owned(),
        count => format!("{count} clients"),
    };
    let waits = first.log_wait_ns.map_or_else(String::new, |wait_ns| {
        format!(
            " that wait for the log, each {:.0} µs a transaction",
            wait_ns / 1e3
        )
    });
    let place = &first.placement;
    Some(format!(
        "{workload}, {how}: {rate:.0} transactions/s in {place} with {clients}{waits}{others}."
    ))
}

/// What transactions and streams of queries take from each other, by placement.
fn interference(all: &[&TransactionsRecord], machine: &str, workload: &str) -> Option<String> {
    let valid = all.iter().filter(|record| record.invalid.is_none());
    let both: Vec<(&str, &BesideRecord)> = valid
        .filter_map(|record| Some((record.placement.as_str(), record.beside.as_ref()?)))
        .collect();
    let (_, first) = both.first()?;
    let how = match machine {
        HERE => format!(
            "measured here, {} rounds",
            first.transactions_ratio.values.len()
        ),
        name => format!("modelled for {name}"),
    };
    let each: Vec<String> = both
        .iter()
        .map(|(placement, beside)| {
            format!(
                "{} of the transactions and {} of the queries with {workload} in {placement}",
                ratio_with_range(&beside.transactions_ratio),
                ratio_with_range(&beside.queries_ratio)
            )
        })
        .collect();
    Some(format!(
        "{workload} beside {}, {how}, relative to each alone: {}.",
        streams_of(first),
        each.join("; ")
    ))
}

/// The streams of a record: "2 streams of ssb (SF 1, 4 threads) in dram".
pub fn streams_of(beside: &BesideRecord) -> String {
    let streams = match beside.streams {
        1 => "1 stream".to_owned(),
        count => format!("{count} streams"),
    };
    let threads = match beside.threads {
        1 => "1 thread".to_owned(),
        count => format!("{count} threads"),
    };
    let (workload, sf, place) = (&beside.workload, beside.scale_factor, &beside.placement);
    format!("{streams} of {workload} (SF {sf}, {threads}) in {place}")
}

/// A ratio, with its range if it was measured several times: "0.93 (0.90 to 0.95)".
pub fn ratio_with_range(ratio: &Spread) -> String {
    match ratio.values.len() {
        1 => format!("{:.2}", ratio.median),
        _ => format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.min, ratio.max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Provenance, SCHEMA};

    fn record(machine: &str, placement: &str, rate: f64) -> TransactionsRecord {
        TransactionsRecord {
            schema: SCHEMA.to_owned(),
            provenance: Provenance::Modelled,
            made_at: String::new(),
            tool_version: String::new(),
            build: String::new(),
            workload: "tpcc".to_owned(),
            scale: 1,
            seed: 1,
            page_size: "4k".to_owned(),
            clients: 2,
            machine: machine.to_owned(),
            placement: placement.to_owned(),
            duration_s: 1.0,
            transactions_per_s: rate,
            kinds: Vec::new(),
            parts: Vec::new(),
            tiers: Vec::new(),
            log: None,
            checkpoints: None,
            merging: None,
            beside: None,
            compute_ns: None,
            log_wait_ns: None,
            ended_early: None,
            invalid: None,
        }
    }

    #[test]
    fn placements_are_compared_on_one_machine_and_invalid_ones_are_not() {
        let mut broken = record(HERE, "heap=cxl", 1.0);
        broken.invalid = Some("pages moved".to_owned());
        let all = [
            record("sap26-pool", "dram", 100.0),
            record(HERE, "dram", 50.0),
            record("sap26-pool", "main=cxl", 90.0),
            broken,
        ];
        let found = of_transactions(&all);
        assert_eq!(
            found[0],
            "tpcc, measured here: 50 transactions/s in dram with 2 clients."
        );
        assert!(
            found[1].ends_with("with 2 clients; 0.90 of that in main=cxl."),
            "{found:?}"
        );
        assert!(
            found[2].contains("heap=cxl is invalid: pages moved"),
            "{found:?}"
        );
        assert_eq!(found.last().unwrap(), NO_TPC_RESULT);
    }

    #[test]
    fn streams_beside_are_one_sentence_with_the_range_of_their_rounds() {
        let spread = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
        let beside = |ratio: &[f64]| BesideRecord {
            workload: "ssb".to_owned(),
            scale_factor: 0.5,
            placement: "cxl".to_owned(),
            streams: 2,
            threads: 1,
            transactions_alone_per_s: spread(&[1.0]),
            transactions_beside_per_s: spread(&[1.0]),
            transactions_ratio: spread(ratio),
            queries_alone_per_hour: spread(&[1.0]),
            queries_beside_per_hour: spread(&[1.0]),
            queries_ratio: spread(&[1.0]),
            kinds: Vec::new(),
            merging: None,
            tiers: Vec::new(),
            audit_before: None,
            audit_after: None,
        };
        let mut here = record(HERE, "dram", 50.0);
        here.beside = Some(beside(&[0.9, 0.8, 1.0]));
        let mut there = record("sap26-pool", "main=cxl", 100.0);
        there.beside = Some(beside(&[0.75]));
        let found = of_transactions(&[here, there]);
        assert_eq!(
            found[1],
            "tpcc beside 2 streams of ssb (SF 0.5, 1 thread) in cxl, measured here, 3 rounds, \
             relative to each alone: 0.90 (0.80 to 1.00) of the transactions and 1.00 of the \
             queries with tpcc in dram."
        );
        assert!(
            found[3].contains("modelled for sap26-pool") && found[3].contains("0.75 of the tr"),
            "{found:?}"
        );
    }
}
