//! What follows from scripts whose temporary tables were at different places.

use crate::{TempTablesRecord, geometric_mean};

/// How the places compare with the first one, as sentences: the answer first.
pub fn of_temp_tables(records: &[TempTablesRecord]) -> Vec<String> {
    let Some(first) = records.first() else {
        return Vec::new();
    };
    let mut places: Vec<&str> = Vec::new();
    for record in records {
        if !places.contains(&record.place.as_str()) {
            places.push(&record.place);
        }
    }
    let mut sentences = Vec::new();
    for place in places.iter().filter(|place| **place != first.place) {
        let ratios: Vec<(f64, &str)> = records
            .iter()
            .filter(|record| record.place == *place)
            .filter_map(|record| Some((ratio(records, record, &first.place)?, &*record.query)))
            .collect();
        let slowest = ratios.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let mean = geometric_mean(ratios.iter().map(|(ratio, _)| *ratio));
        let (Some(slowest), Some(mean)) = (slowest, mean) else {
            continue;
        };
        sentences.push(format!(
            "{} {}: with temporary tables in {place}, scripts take {:.2} times as long as in {} \
             (geometric mean of {}; most in {}: {:.2}).",
            first.workload,
            first.scale_factor,
            mean,
            first.place,
            ratios.len(),
            slowest.1,
            slowest.0,
        ));
    }
    let largest = records.iter().max_by_key(|record| record.size_bytes());
    if let Some(largest) = largest {
        sentences.push(format!(
            "The largest temporary tables are those of {}: {:.1} MiB.",
            largest.query,
            largest.size_bytes() as f64 / f64::from(1 << 20)
        ));
    }
    let failed: Vec<String> = records
        .iter()
        .filter_map(|record| {
            let why = record.failed.as_ref()?;
            Some(format!("{} in {} ({why})", record.query, record.place))
        })
        .collect();
    sentences.push(match failed.is_empty() {
        true => "No script failed, and all answers are equal.".to_owned(),
        false => format!("Failed: {}.", failed.join("; ")),
    });
    sentences
}

/// Time of the script over that of the same script at `place`; `None` if one of them failed.
fn ratio(records: &[TempTablesRecord], record: &TempTablesRecord, place: &str) -> Option<f64> {
    let mut all = records.iter();
    let base = all.find(|r| r.query == record.query && r.place == place)?;
    let (time, base) = (record.script_ms.as_ref()?, base.script_ms.as_ref()?);
    Some(time.median / base.median.max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Provenance, SCHEMA, Spread, TempTable};

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
}
