//! What follows from starts of processes.

use crate::RestartRecord;

/// What attaching tables is worth, as sentences: the answer first.
///
/// Empty where there are no starts that load their tables beside others that attach them.
pub fn of_restarts(records: &[RestartRecord]) -> Vec<String> {
    let find = |way: &str, after: &str| {
        let mut all = records.iter();
        all.find(|r| r.way == way && r.after == after)
    };
    let (Some(loaded), Some(attached)) = (find("loaded", "exit"), find("attached", "exit")) else {
        return Vec::new();
    };
    let times = |slow: f64, fast: f64| format!("{:.1} times", slow / fast.max(1e-9));
    let first = |record: &RestartRecord| record.first_answer_ms.median;
    let mut sentences = vec![format!(
        "{} {}: a process that attaches its tables gives the first answer {:.0} ms after its \
         start, {} sooner than one that loads them ({:.0} ms).",
        attached.workload,
        attached.scale_factor,
        first(attached),
        times(first(loaded), first(attached)),
        first(loaded),
    )];
    if let (Some(load), Some(attach)) = (&loaded.load_ms, &attached.attach_ms) {
        sentences.push(format!(
            "Attaching all tables takes {:.1} ms, loading them {:.0} ms: {}.",
            attach.median,
            load.median,
            times(load.median, attach.median)
        ));
    }
    let verified = find("verified", "exit").and_then(|r| Some((r, r.verify_ms.as_ref()?)));
    if let Some((record, verify)) = verified {
        let bytes_s = record.pool_bytes as f64 / verify.median.max(1e-9) * 1e3;
        sentences.push(format!(
            "Checking every byte first takes {:.0} ms more ({:.1} GB/s).",
            verify.median,
            bytes_s / 1e9
        ));
    }
    if let Some(kill) = find("attached", "kill") {
        sentences.push(format!(
            "After a process that was killed, the first answer takes {:.0} ms.",
            first(kill)
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Provenance, SCHEMA, Spread};

    fn record(way: &str, after: &str, first_ms: f64) -> RestartRecord {
        let spread = |ms| Spread::of(vec![ms]).unwrap();
        RestartRecord {
            schema: SCHEMA.into(),
            provenance: Provenance::Measured,
            made_at: String::new(),
            tool_version: String::new(),
            build: "dev".into(),
            workload: "tpch".into(),
            scale_factor: 1.0,
            threads: None,
            queries: vec!["q01".into()],
            file_bytes: 1 << 20,
            pool_bytes: 1_000_000_000,
            way: way.into(),
            after: after.into(),
            ready_ms: spread(1.0),
            complete_ms: None,
            first_answer_ms: spread(first_ms),
            last_answer_ms: spread(first_ms),
            load_ms: (way == "loaded").then(|| spread(3000.0)),
            attach_ms: (way == "attached").then(|| spread(6.0)),
            verify_ms: (way == "verified").then(|| spread(100.0)),
        }
    }

    #[test]
    fn the_first_sentence_has_the_answer_and_steps_are_told_apart() {
        let mut records = vec![record("loaded", "exit", 4000.0)];
        assert!(of_restarts(&records).is_empty(), "nothing to compare with");
        records.push(record("attached", "exit", 100.0));
        records.push(record("attached", "kill", 110.0));
        records.push(record("verified", "exit", 200.0));
        let said = of_restarts(&records);
        for (sentence, part) in said.iter().zip([
            "100 ms after its start, 40.0 times sooner",
            "6.0 ms, loading them 3000 ms: 500.0 times",
            "100 ms more (10.0 GB/s)",
            "takes 110 ms",
        ]) {
            assert!(sentence.contains(part), "{part} in {sentence}");
        }
        assert_eq!(said.len(), 4);
    }
}
