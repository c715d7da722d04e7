//! Queries on several hosts: each host alone, and all of them at once.

use crate::rank::{rank_test, smallest_p};
use crate::{Answer, AuditRecord, HostCard, Provenance, Spread};
use serde::{Deserialize, Serialize};

/// Difference of page shares from which pages count as misplaced or moved, 0 to 1.
const MISPLACED: f64 = 0.01;

/// Probability of a chance result below which repetitions can show a difference at all.
const SIGNIFICANT_BELOW: f64 = 0.05;

/// Queries on several hosts, each host alone and all of them at once, in one or more cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterferenceRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Always measured.
    pub provenance: Provenance,
    /// Identifier of the command.
    pub run_id: String,
    /// Version of Tierloom, the same on all hosts.
    pub tool_version: String,
    /// Git commit of the coordinator's build; `None` if unknown.
    pub commit: Option<String>,
    /// Build profile of the coordinator, "release" or "dev".
    pub build: String,
    /// Start of the command, RFC 3339, UTC.
    pub started_at: String,
    /// The command line, one element per argument.
    pub command: Vec<String>,
    /// Benchmark of the queries ("tpch").
    pub workload: String,
    /// Scale factor of the data, which every host generates for itself.
    pub scale_factor: f64,
    /// Seed of the data generator.
    pub seed: u64,
    /// Version of the generator's data.
    pub generator_version: u32,
    /// Number of timed executions per query, alone and together.
    pub repeat: u32,
    /// Requested page size: "4k", "thp", "2m" or "1g".
    pub page_size: String,
    /// The hosts, in the order they were named.
    pub hosts: Vec<InterferenceHost>,
    /// The cases that were measured as a whole.
    pub cases: Vec<InterferenceCase>,
    /// Why the command ended before all cases were measured; `None` if none is missing.
    pub interrupted: Option<String>,
    /// Whether pages were where they should be and every host had company while it was timed.
    pub valid: bool,
    /// What is wrong with the record, or limits it.
    pub remarks: Vec<String>,
}

/// A host that ran queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterferenceHost {
    /// Name of the host on the command line.
    pub name: String,
    /// Name that its agent gives itself.
    pub agent: String,
    /// Processor, memory, tiers and kernel settings.
    pub card: HostCard,
    /// Number of worker threads.
    pub threads: u32,
    /// Bytes of all columns.
    pub column_bytes: u64,
}

/// Where each host's tables were, and what the hosts did there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterferenceCase {
    /// Name of the case ("own device").
    pub case: String,
    /// One entry per host, in the order of the hosts.
    pub hosts: Vec<HostInCase>,
}

/// One host in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostInCase {
    /// Name of the host.
    pub host: String,
    /// Placement of its tables.
    pub placement: String,
    /// The pool that the tables are in, as a path on that host; `None` without one.
    pub pool: Option<String>,
    /// While no other host worked.
    pub alone: HostRun,
    /// While all other hosts ran the same queries.
    pub together: HostRun,
    /// Times and answers by query.
    pub queries: Vec<QueryOnHost>,
}

/// One host's timed executions, from the agreed start on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRun {
    /// How late the host began after the agreed start, by its own clock, ns.
    pub late_ns: u64,
    /// Offset of its clock from the coordinator's before the start, ns, positive if ahead.
    pub clock_offset_ns: i64,
    /// Bound on the error of the offset, ns.
    pub clock_uncertainty_ns: u64,
    /// From its first query to the end of its last one, s.
    pub elapsed_s: f64,
    /// Page audit before the start; `None` where the kernel does not report pages.
    pub audit_before: Option<AuditRecord>,
    /// Page audit after the last query.
    pub audit_after: Option<AuditRecord>,
    /// The other hosts that worked meanwhile; empty if it was alone.
    pub beside: Vec<HostBeside>,
}

/// A host that worked while another one was timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostBeside {
    /// Name of the host.
    pub host: String,
    /// Queries that it finished meanwhile.
    pub executions: u64,
    /// How late it began after the agreed start, by its own clock, ns.
    pub late_ns: u64,
    /// Bound on the error of its clock's offset, ns.
    pub clock_uncertainty_ns: u64,
}

/// One query on one host, alone and together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryOnHost {
    /// Name of the query.
    pub query: String,
    /// Execution time without planning while no other host worked, ms.
    pub alone_ms: Spread,
    /// The same while all hosts worked, ms.
    pub together_ms: Spread,
    /// Time together divided by time alone.
    pub ratio: TimeRatio,
    /// Whether the slowest repetition of one side is faster than the fastest of the other.
    pub exceeds_spread: bool,
    /// Probability of a difference like this by chance: Mann-Whitney rank test, two-sided.
    pub p: f64,
    /// The answer, checked alone and together.
    pub answer: Answer,
}

/// How many times as long something takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeRatio {
    /// Ratio that the repetitions leave possible at least: least over most.
    pub min: f64,
    /// Ratio of the medians.
    pub median: f64,
    /// Ratio that the repetitions leave possible at most: most over least.
    pub max: f64,
}

/// What the repetitions say of a query together against alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interference {
    /// Every repetition together took longer than every one alone.
    Slower,
    /// Every repetition together took less time than every one alone.
    Faster,
    /// The repetitions overlap.
    WithinSpread,
    /// There are too few repetitions for any difference to be more than chance.
    TooFew,
}

impl QueryOnHost {
    /// Compares the times of a query alone and together.
    pub fn new(query: String, alone_ms: Spread, together_ms: Spread, answer: Answer) -> Self {
        let over = |a: f64, b: f64| a / b.max(1e-9);
        QueryOnHost {
            query,
            ratio: TimeRatio {
                min: over(together_ms.min, alone_ms.max),
                median: over(together_ms.median, alone_ms.median),
                max: over(together_ms.max, alone_ms.min),
            },
            exceeds_spread: together_ms.min > alone_ms.max || together_ms.max < alone_ms.min,
            p: rank_test(&alone_ms.values, &together_ms.values),
            alone_ms,
            together_ms,
            answer,
        }
    }

    /// What its repetitions say.
    pub fn interference(&self) -> Interference {
        let (alone, together) = (self.alone_ms.values.len(), self.together_ms.values.len());
        if smallest_p(alone, together) >= SIGNIFICANT_BELOW {
            Interference::TooFew
        } else if !self.exceeds_spread {
            Interference::WithinSpread
        } else if self.ratio.median > 1.0 {
            Interference::Slower
        } else {
            Interference::Faster
        }
    }
}

impl InterferenceRecord {
    /// The record with its remarks and whether it is valid.
    pub fn judged(mut self) -> Self {
        let problems: Vec<String> = self
            .cases
            .iter()
            .flat_map(|case| case.hosts.iter().flat_map(|host| problems(case, host)))
            .collect();
        self.valid = problems.is_empty();
        self.remarks.extend(problems);
        self
    }
}

/// Why the figures of one host in one case are not what they should be.
fn problems(case: &InterferenceCase, host: &HostInCase) -> Vec<String> {
    let mut found = Vec::new();
    for (run, how) in [(&host.alone, "alone"), (&host.together, "with the others")] {
        let place = format!("{}, host {} {how}", case.case, host.host);
        for audit in [&run.audit_before, &run.audit_after].into_iter().flatten() {
            if audit.worst_deviation >= MISPLACED {
                found.push(format!(
                    "{place}: {:.1}% of the pages are on another node than requested",
                    audit.worst_deviation * 100.0
                ));
                break;
            }
        }
        if let (Some(before), Some(after)) = (&run.audit_before, &run.audit_after)
            && moved(before, after) >= MISPLACED
        {
            found.push(format!("{place}: pages moved while queries ran"));
        }
        let idle = run.beside.iter().filter(|other| other.executions == 0);
        found.extend(idle.map(|other| {
            format!(
                "{place}: host {} finished no query meanwhile; take longer or more queries",
                other.host
            )
        }));
    }
    found
}

/// The largest change of any node's share.
fn moved(before: &AuditRecord, after: &AuditRecord) -> f64 {
    let share = |audit: &AuditRecord, node: u32| {
        let found = audit.actual.iter().find(|share| share.node == node);
        found.map_or(0.0, |share| share.share)
    };
    let nodes = before.actual.iter().chain(&after.actual);
    nodes
        .map(|of| (share(before, of.node) - share(after, of.node)).abs())
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeShare;

    fn query(alone: &[f64], together: &[f64]) -> QueryOnHost {
        let spread = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
        let answer = Answer {
            rows: 1,
            digest: "d".into(),
            checked: true,
            check: String::new(),
        };
        QueryOnHost::new("q01".into(), spread(alone), spread(together), answer)
    }

    #[test]
    fn a_difference_counts_only_beyond_all_repetitions_and_with_enough_of_them() {
        let alone = [10.0, 11.0, 12.0, 10.0];
        let slower = query(&alone, &[13.0, 20.0, 22.0, 24.0]);
        assert_eq!(slower.interference(), Interference::Slower);
        assert_eq!(
            (slower.ratio.min, slower.ratio.median, slower.ratio.max),
            (13.0 / 12.0, 2.0, 2.4)
        );
        assert!(slower.exceeds_spread && slower.p < 0.05, "{}", slower.p);
        let overlapping = query(&alone, &[11.5, 20.0, 22.0, 24.0]);
        assert_eq!(overlapping.interference(), Interference::WithinSpread);
        let faster = query(&alone, &[9.0, 8.0, 8.0, 9.0]);
        assert_eq!(faster.interference(), Interference::Faster);
        let few = query(&[10.0, 11.0, 12.0], &[20.0, 21.0, 22.0]);
        assert!(few.exceeds_spread);
        assert_eq!(few.interference(), Interference::TooFew);
    }

    fn audit(on_node_1: f64) -> AuditRecord {
        let shares = |one: f64| {
            [(0, 1.0 - one), (1, one)]
                .map(|(node, share)| NodeShare { node, share })
                .to_vec()
        };
        AuditRecord {
            bytes_checked: 1 << 20,
            pages_checked: 256,
            pages_absent: 0,
            requested: shares(1.0),
            effective: shares(1.0),
            actual: shares(on_node_1),
            worst_deviation: 1.0 - on_node_1,
        }
    }

    fn run(before: f64, after: f64, beside: Option<u64>) -> HostRun {
        HostRun {
            late_ns: 0,
            clock_offset_ns: 0,
            clock_uncertainty_ns: 1,
            elapsed_s: 1.0,
            audit_before: Some(audit(before)),
            audit_after: Some(audit(after)),
            beside: beside
                .map(|executions| HostBeside {
                    host: "b".into(),
                    executions,
                    late_ns: 0,
                    clock_uncertainty_ns: 1,
                })
                .into_iter()
                .collect(),
        }
    }

    fn in_case(alone: HostRun, together: HostRun) -> Vec<String> {
        let host = HostInCase {
            host: "a".into(),
            placement: "[1:1]".into(),
            pool: None,
            alone,
            together,
            queries: Vec::new(),
        };
        let case = InterferenceCase {
            case: "own".into(),
            hosts: Vec::new(),
        };
        problems(&case, &host)
    }

    #[test]
    fn moved_pages_and_idle_company_are_told() {
        let good = || run(1.0, 1.0, None);
        assert_eq!(in_case(good(), run(1.0, 1.0, Some(3))), [""; 0]);
        let moved = in_case(good(), run(1.0, 0.9, Some(3)));
        assert_eq!(
            moved,
            [
                "own, host a with the others: 10.0% of the pages are on another node than requested",
                "own, host a with the others: pages moved while queries ran",
            ]
        );
        let idle = in_case(good(), run(1.0, 1.0, Some(0)));
        assert_eq!(idle.len(), 1);
        assert!(idle[0].contains("host b finished no query"), "{idle:?}");
    }
}
