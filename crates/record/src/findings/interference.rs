//! What follows from queries on several hosts, alone and at once.

use crate::{
    HostInCase, Interference, InterferenceCase, InterferenceRecord, QueryOnHost, geometric_mean,
};
use tierloom_text::words;

/// Names of queries in one sentence; more are counted.
const NAMED: usize = 5;

/// What the hosts lost by working at once, as sentences: one per case and host, then the answers,
/// then what is wrong.
pub fn of_interference(records: &[InterferenceRecord]) -> Vec<String> {
    records.iter().flat_map(of_record).collect()
}

fn of_record(record: &InterferenceRecord) -> Vec<String> {
    let mut sentences = Vec::new();
    for case in &record.cases {
        let of = |host: &HostInCase| of_host(record, case, host);
        sentences.extend(case.hosts.iter().filter_map(of));
    }
    sentences.extend(answers(record));
    if let Some(why) = &record.interrupted {
        sentences.push(format!("Not all cases were measured: {why}."));
    }
    sentences.extend(record.remarks.iter().map(|remark| format!("{remark}.")));
    sentences
}

fn of_host(
    record: &InterferenceRecord,
    case: &InterferenceCase,
    host: &HostInCase,
) -> Option<String> {
    let ratio = |query: &&QueryOnHost| query.ratio.median;
    let by_ratio = |a: &&QueryOnHost, b: &&QueryOnHost| ratio(a).total_cmp(&ratio(b));
    let least = host.queries.iter().min_by(by_ratio)?;
    let most = host.queries.iter().max_by(by_ratio)?;
    let mean = geometric_mean(host.queries.iter().map(|query| query.ratio.median))?;
    let range = match host.queries.len() {
        1 => format!("median of {}", least.query),
        n => format!(
            "geometric mean of {n} queries; {:.2} in {} to {:.2} in {}",
            least.ratio.median, least.query, most.ratio.median, most.query
        ),
    };
    Some(format!(
        "{} {}, {}: with the others, queries of host {} take {mean:.2} times as long as alone \
         ({range}); {}.",
        record.workload,
        record.scale_factor,
        case.case,
        host.host,
        beyond(&host.queries, record.repeat),
    ))
}

/// Which queries differ by more than their repetitions do.
fn beyond(queries: &[QueryOnHost], repeat: u32) -> String {
    let of = |wanted: Interference| -> Vec<&str> {
        let found = queries.iter().filter(|q| q.interference() == wanted);
        found.map(|query| query.query.as_str()).collect()
    };
    if !of(Interference::TooFew).is_empty() {
        return format!("{repeat} repetitions are too few to tell a difference from chance");
    }
    let (slower, faster) = (of(Interference::Slower), of(Interference::Faster));
    match (slower.is_empty(), faster.is_empty()) {
        (true, true) => "no difference exceeds the spread of the repetitions".to_owned(),
        (false, true) => format!("slower beyond the spread: {}", named(&slower)),
        (true, false) => format!("faster beyond the spread: {}", named(&faster)),
        (false, false) => format!(
            "slower beyond the spread: {}; faster: {}",
            named(&slower),
            named(&faster)
        ),
    }
}

fn named(queries: &[&str]) -> String {
    match queries.len() {
        n if n > NAMED => format!("{n} queries ({}, ...)", queries[..NAMED].join(", ")),
        _ => words::list(queries),
    }
}

/// What is known about the answers.
fn answers(record: &InterferenceRecord) -> Option<String> {
    let hosts = record.cases.iter().flat_map(|case| &case.hosts);
    let all: Vec<&QueryOnHost> = hosts.flat_map(|host| &host.queries).collect();
    all.first()?;
    let unchecked: Vec<&&QueryOnHost> = all.iter().filter(|q| !q.answer.checked).collect();
    if let Some(first) = unchecked.first() {
        return Some(format!(
            "{} of {} answers were only compared among hosts and repetitions ({}: {}).",
            unchecked.len(),
            all.len(),
            first.query,
            first.answer.check
        ));
    }
    Some("All answers are right, alone and together.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, HostRun, Provenance, SCHEMA, Spread};

    fn query(name: &str, together: [f64; 4], checked: bool) -> QueryOnHost {
        let spread = |values: [f64; 4]| Spread::of(values.to_vec()).unwrap();
        let answer = Answer {
            rows: 1,
            digest: "d".into(),
            checked,
            check: "no stored answer".into(),
        };
        let alone = spread([10.0, 10.5, 9.5, 10.0]);
        QueryOnHost::new(name.into(), alone, spread(together), answer)
    }

    fn record(queries: Vec<QueryOnHost>) -> InterferenceRecord {
        let run = || HostRun {
            late_ns: 0,
            clock_offset_ns: 0,
            clock_uncertainty_ns: 0,
            elapsed_s: 1.0,
            audit_before: None,
            audit_after: None,
            beside: Vec::new(),
        };
        let host = HostInCase {
            host: "a".into(),
            placement: "cxl".into(),
            pool: None,
            alone: run(),
            together: run(),
            queries,
        };
        InterferenceRecord {
            schema: SCHEMA.into(),
            provenance: Provenance::Measured,
            run_id: "r".into(),
            tool_version: "0.1.0".into(),
            commit: None,
            build: "dev".into(),
            started_at: "2026-11-25T00:00:00Z".into(),
            command: Vec::new(),
            workload: "tpch".into(),
            scale_factor: 1.0,
            seed: 0,
            generator_version: 1,
            repeat: 4,
            page_size: "thp".into(),
            hosts: Vec::new(),
            cases: vec![InterferenceCase {
                case: "own device".into(),
                hosts: vec![host],
            }],
            interrupted: None,
            valid: true,
            remarks: Vec::new(),
        }
    }

    const SAME: [f64; 4] = [10.0, 10.4, 9.6, 10.0];

    #[test]
    fn a_slower_query_is_named_and_noise_is_not() {
        let slow = query("q09", [20.0, 21.0, 19.0, 20.0], true);
        let found = of_interference(&[record(vec![query("q01", SAME, true), slow])]);
        assert_eq!(
            found,
            [
                "tpch 1, own device: with the others, queries of host a take 1.41 times as long \
                 as alone (geometric mean of 2 queries; 1.00 in q01 to 2.00 in q09); slower beyond \
                 the spread: q09.",
                "All answers are right, alone and together.",
            ]
        );
        let same = of_interference(&[record(vec![query("q01", SAME, true)])]);
        let none = "no difference exceeds the spread of the repetitions";
        assert!(same[0].contains(none), "{same:?}");
    }

    #[test]
    fn what_limits_the_record_is_said_too() {
        let mut limited = record(vec![query("q01", SAME, false)]);
        limited.interrupted = Some("1 of 2 cases was done".into());
        limited.remarks = vec!["pages moved".into()];
        let found = of_interference(&[limited]);
        assert_eq!(
            found[1..],
            [
                "1 of 1 answers were only compared among hosts and repetitions (q01: no stored \
                 answer).",
                "Not all cases were measured: 1 of 2 cases was done.",
                "pages moved.",
            ]
        );
    }
}
