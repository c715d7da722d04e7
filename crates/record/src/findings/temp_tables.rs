//! What follows from scripts whose temporary tables were at different places.

use crate::{HERE, TempTablesRecord, geometric_mean};

/// How the places compare with the first one, as sentences: the answer first. Measured scripts come
/// before those of modelled machines.
pub fn of_temp_tables(records: &[TempTablesRecord]) -> Vec<String> {
    let mut machines: Vec<&str> = Vec::new();
    for record in records {
        if !machines.contains(&record.machine.as_str()) {
            machines.push(&record.machine);
        }
    }
    machines.sort_by_key(|machine| *machine != HERE);
    let mut sentences = Vec::new();
    for machine in machines {
        let all = records.iter();
        let of: Vec<&TempTablesRecord> = all.filter(|r| r.machine == machine).collect();
        sentences.extend(comparisons(&of, machine));
    }
    let largest = records.iter().max_by_key(|record| record.size_bytes());
    if let Some(largest) = largest {
        sentences.push(format!(
            "The largest temporary tables are those of {}: {:.1} MiB.",
            largest.query,
            largest.size_bytes() as f64 / f64::from(1 << 20)
        ));
        sentences.push(failures(records));
    }
    sentences
}

/// The places of one machine against its first one.
fn comparisons(records: &[&TempTablesRecord], machine: &str) -> Vec<String> {
    let Some(first) = records.first() else {
        return Vec::new();
    };
    let mut places: Vec<&str> = Vec::new();
    for record in records {
        if !places.contains(&record.place.as_str()) {
            places.push(&record.place);
        }
    }
    let modelled = match machine {
        HERE => String::new(),
        name => format!(" modelled for {name}"),
    };
    let mut sentences = Vec::new();
    for place in places.iter().filter(|place| **place != first.place) {
        let here = || records.iter().filter(|record| record.place == *place);
        let ratios: Vec<(f64, &str)> = here()
            .filter_map(|record| Some((ratio(records, record, &first.place)?, &*record.query)))
            .collect();
        let slowest = ratios.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let mean = geometric_mean(ratios.iter().map(|(ratio, _)| *ratio));
        let (Some(slowest), Some(mean)) = (slowest, mean) else {
            continue;
        };
        sentences.push(format!(
            "{} {}{modelled}: with temporary tables in {place}, scripts take {:.2} times as long \
             as in {} (geometric mean of {}; most in {}: {:.2}).",
            first.workload,
            first.scale_factor,
            mean,
            first.place,
            ratios.len(),
            slowest.1,
            slowest.0,
        ));
        sentences.extend(busiest(here().copied(), machine, place));
    }
    sentences
}

/// The most that a script asks of a tier other than DRAM.
fn busiest<'a>(
    records: impl Iterator<Item = &'a TempTablesRecord>,
    machine: &str,
    place: &str,
) -> Option<String> {
    let tiers = records.flat_map(|record| record.tiers.iter().map(|tier| (tier, &*record.query)));
    let other = tiers.filter(|(tier, _)| tier.tier != "dram" && tier.bytes > 0.0);
    let (tier, query) = other.max_by(|a, b| a.0.bandwidth_gbps.total_cmp(&b.0.bandwidth_gbps))?;
    Some(format!(
        "{machine}: with temporary tables in {place}, {} carries at most {:.1} GB/s ({:.0}% of its \
         bandwidth, in {query}).",
        tier.tier,
        tier.bandwidth_gbps,
        100.0 * tier.utilisation
    ))
}

/// Which scripts failed.
fn failures(records: &[TempTablesRecord]) -> String {
    let failed: Vec<String> = records
        .iter()
        .filter_map(|record| {
            let why = record.failed.as_ref()?;
            Some(format!("{} in {} ({why})", record.query, record.place))
        })
        .collect();
    match failed.is_empty() {
        true => "No script failed, and all answers are equal.".to_owned(),
        false => format!("Failed: {}.", failed.join("; ")),
    }
}

/// Time of the script over that of the same script at `place`; `None` if one of them failed.
fn ratio(records: &[&TempTablesRecord], record: &TempTablesRecord, place: &str) -> Option<f64> {
    let mut all = records.iter();
    let base = all.find(|r| r.query == record.query && r.place == place)?;
    let (time, base) = (record.script_ms.as_ref()?, base.script_ms.as_ref()?);
    Some(time.median / base.median.max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Provenance, SCHEMA, Spread, TempTable, TierUse};

    fn record(query: &str, place: &str, script_ms: Option<f64>) -> TempTablesRecord {
        let spread = || Spread::of(vec![script_ms?]);
        TempTablesRecord {
            schema: SCHEMA.to_owned(),
            provenance: Provenance::Measured,
            made_at: "2026-11-23T00:00:00Z".to_owned(),
            tool_version: "0.1.0".to_owned(),
            build: "dev".to_owned(),
            workload: "tpcds".to_owned(),
            scale_factor: 1.0,
            threads: None,
            machine: HERE.to_owned(),
            query: query.to_owned(),
            place: place.to_owned(),
            tables: vec![TempTable {
                name: "t".to_owned(),
                rows: 1,
                size_bytes: if query == "q04" { 3 << 20 } else { 1 << 20 },
            }],
            make_ms: spread(),
            query_ms: spread(),
            script_ms: spread(),
            bytes_by_place: Vec::new(),
            bytes_by_node: Vec::new(),
            tiers: Vec::new(),
            failed: script_ms.is_none().then(|| "the pool is full".to_owned()),
        }
    }

    #[test]
    fn places_are_compared_with_the_first_and_failures_are_named() {
        let mut records = vec![
            record("q04", "dram", Some(10.0)),
            record("q04", "pool", Some(40.0)),
            record("q11", "dram", Some(20.0)),
            record("q11", "pool", Some(20.0)),
        ];
        let found = of_temp_tables(&records);
        assert_eq!(
            found,
            [
                "tpcds 1: with temporary tables in pool, scripts take 2.00 times as long as in \
                 dram (geometric mean of 2; most in q04: 4.00).",
                "The largest temporary tables are those of q04: 3.0 MiB.",
                "No script failed, and all answers are equal.",
            ]
        );
        records.push(record("q23", "dram", Some(5.0)));
        records.push(record("q23", "pool", None));
        let found = of_temp_tables(&records);
        assert!(found[0].contains("mean of 2"), "{found:?}");
        assert_eq!(found[2], "Failed: q23 in pool (the pool is full).");
        assert!(of_temp_tables(&[]).is_empty());
    }

    #[test]
    fn modelled_scripts_are_compared_with_each_other_and_name_the_load_of_the_pool() {
        let modelled = |query, place, script_ms, gbps: f64| TempTablesRecord {
            provenance: Provenance::Modelled,
            machine: "m".to_owned(),
            tiers: vec![
                TierUse {
                    tier: "dram".to_owned(),
                    bandwidth_gbps: 90.0,
                    utilisation: 0.4,
                    bytes: 9e9,
                },
                TierUse {
                    tier: "cxl".to_owned(),
                    bandwidth_gbps: gbps,
                    utilisation: gbps / 40.0,
                    bytes: gbps * 1e6,
                },
            ],
            ..record(query, place, Some(script_ms))
        };
        let records = [
            modelled("q04", "dram", 5.0, 0.0),
            record("q04", "dram", Some(10.0)),
            modelled("q04", "pool", 6.0, 3.0),
            record("q04", "pool", Some(10.0)),
            modelled("q11", "dram", 5.0, 0.0),
            modelled("q11", "pool", 5.0, 10.0),
        ];
        let found = of_temp_tables(&records);
        assert!(found[0].starts_with("tpcds 1: with temporary tables in pool, scripts take 1.00"));
        assert!(
            found[1].starts_with("tpcds 1 modelled for m: with temporary tables in pool, ")
                && found[1].contains("geometric mean of 2; most in q04: 1.20"),
            "{found:?}"
        );
        assert_eq!(
            found[2],
            "m: with temporary tables in pool, cxl carries at most 10.0 GB/s (25% of its \
             bandwidth, in q11)."
        );
        assert_eq!(found.len(), 5, "{found:?}");
    }
}
