//! Transactions and streams measured by turns, alone and together.

use crate::commands::run::transactions::plan::StorePlan;
use crate::failure::Failure;
use crate::stop;
use tierloom_oltp::{DriveOptions, DriveResult, Transactions, drive};
use tierloom_record::AuditRecord;
use tierloom_suite::{RunError, Streams, StreamsRan};

/// What was measured in all rounds.
pub struct BesideRun {
    /// Transactions beside the streams.
    pub result: DriveResult,
    /// By round: transactions per second alone and beside, queries per hour alone and beside.
    pub rounds: Vec<[f64; 4]>,
    pub audit_before: Option<AuditRecord>,
    pub audit_after: Option<AuditRecord>,
}

/// One round: what the transactions did alone and beside the streams, and the streams likewise.
struct Round {
    transactions: [DriveResult; 2],
    streams: [StreamsRan; 2],
}

/// Measures transactions and streams by turns, alone and together. Returns what the transactions
/// did alone, and the rest. A round cut short, for want of room or by an interruption, does
/// not count.
///
/// # Errors
/// The first failure, or no whole round.
pub fn by_turns<W: Transactions>(
    workload: &W,
    plan: &StorePlan,
    rounds: u32,
    streams: &Streams<'_>,
) -> Result<(DriveResult, BesideRun), Failure> {
    let audit_before = streams.audit()?;
    let mut run: Option<(DriveResult, DriveResult)> = None;
    let (mut all, mut full) = (Vec::new(), None);
    for number in 0..rounds {
        let round = match one_round(workload, plan, number, streams) {
            Err(Failure::Interrupted(_)) => break,
            other => other?,
        };
        let Round {
            transactions: [alone, beside],
            streams: [queries_alone, queries_beside],
        } = round;
        full = alone.full.or(beside.full);
        if stop::requested() || full.is_some() {
            break;
        }
        let rate = |result: &DriveResult| result.commits() as f64 / result.elapsed.as_secs_f64();
        all.push([
            rate(&alone),
            rate(&beside),
            queries_alone.queries_per_hour,
            queries_beside.queries_per_hour,
        ]);
        match &mut run {
            Some((sum, other)) => {
                sum.add(&alone);
                other.add(&beside);
            }
            None => run = Some((alone, beside)),
        }
    }
    let (mut alone, result) = run.ok_or_else(|| match full {
        Some(table) => Failure::runtime(format!(
            "the room of table {table} was used up in the first round; --room gives more"
        )),
        None => Failure::Interrupted("before the first round was over".to_owned()),
    })?;
    alone.full = full;
    let beside = BesideRun {
        result,
        rounds: all,
        audit_before,
        audit_after: streams.audit()?,
    };
    Ok((alone, beside))
}

fn one_round<W: Transactions>(
    workload: &W,
    plan: &StorePlan,
    number: u32,
    streams: &Streams<'_>,
) -> Result<Round, Failure> {
    let transactions = |run: u32| {
        let options = DriveOptions {
            clients: plan.clients,
            duration: plan.duration,
            // Other transactions in every run.
            seed: plan
                .seed
                .wrapping_add(u64::from(2 * number + run) * u64::from(plan.clients)),
            stop: stop::flag(),
        };
        drive(workload, &options).map_err(Failure::runtime)
    };
    let alone = transactions(0)?;
    let queries_alone = streams.run(plan.duration)?;
    let (beside, queries_beside) = std::thread::scope(|scope| {
        let queries = scope.spawn(|| streams.run(plan.duration));
        let beside = transactions(1);
        let panicked = |_| Err(RunError::failed("the thread of the streams panicked"));
        (beside, queries.join().unwrap_or_else(panicked))
    });
    Ok(Round {
        transactions: [alone, beside?],
        streams: [queries_alone, queries_beside?],
    })
}
