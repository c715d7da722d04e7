//! Decides by the model whether to migrate a hash table between build and probe.
//!
//! It compares the modelled probe time at both placements with the modelled copy. It only advises:
//! the migration itself is [`super::StructurePlacer::before_probe`]'s.

use tierloom_model::{
    Access, LINE_BYTES, Machine, ModelError, Op, Options, Phase, PhaseKind, Placement, TierShares,
    solve,
};

/// A probe phase that is about to start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeWork {
    /// Bytes of the hash table.
    pub table_bytes: u64,
    /// Estimated number of probe rows.
    pub probe_rows: u64,
    /// Cache lines of the table that a probe row reads.
    pub lines_per_row: f64,
    /// CPU time per probe row without the table accesses, ns.
    pub cpu_ns_per_row: f64,
    /// Number of threads that probe.
    pub workers: u32,
}

/// Modelled cost and gain of migrating the table.
#[derive(Debug, Clone, PartialEq)]
pub struct MigrationAdvice {
    /// Time of the probe with the table where it is, ns.
    pub stay_ns: f64,
    /// Time of the probe with the table migrated, ns.
    pub moved_ns: f64,
    /// Time of the migration, ns.
    pub move_ns: f64,
    /// Whether to migrate: the saving has to exceed the cost by a tenth.
    ///
    /// The tenth is a margin for errors of the estimates.
    pub moves: bool,
    /// The reason in one sentence, with the machine's name.
    pub why: String,
}

/// Factor by which the saving has to exceed the cost.
const MARGIN: f64 = 1.1;

/// Prices the probe with the table at `now` and at `wanted`, and the copy between them.
///
/// Placements are shares of the table's bytes by tier.
///
/// # Errors
/// The model's, for tiers that the machine does not have.
pub fn advise_migration(
    machine: &Machine,
    work: ProbeWork,
    now: &TierShares,
    wanted: &TierShares,
) -> Result<MigrationAdvice, ModelError> {
    let probe = Phase::new("probe", PhaseKind::Probe, work.probe_rows.max(1) as f64)
        .compute_ns(work.cpu_ns_per_row)
        .access(Access::probe("table", work.lines_per_row, work.table_bytes).vectorised());
    let time = |placement: &TierShares| {
        let placement = Placement::new(placement.clone());
        solve(
            machine,
            &probe,
            &placement,
            work.workers,
            &Options::default(),
        )
        .map(|s| s.time_ns)
    };
    let (stay_ns, moved_ns) = (time(now)?, time(wanted)?);
    let move_ns = move_ns(machine, work.table_bytes, now, wanted)?;
    let moves = stay_ns - moved_ns > move_ns * MARGIN;
    let ms = |ns: f64| ns / 1e6;
    let why = format!(
        "modelled on {}: the probe takes {:.1} ms where the table is and {:.1} ms at {wanted}, moving it {:.1} ms: it {}",
        machine.name,
        ms(stay_ns),
        ms(moved_ns),
        ms(move_ns),
        if moves { "moves" } else { "stays" }
    );
    Ok(MigrationAdvice {
        stay_ns,
        moved_ns,
        move_ns,
        moves,
        why,
    })
}

/// Time to copy the pages that change their tier.
///
/// One thread copies, because the kernel migrates pages on the calling thread: it reads from the
/// tiers that lose pages and writes to those that gain them.
fn move_ns(
    machine: &Machine,
    table_bytes: u64,
    now: &TierShares,
    wanted: &TierShares,
) -> Result<f64, ModelError> {
    let surplus = |more: &TierShares, less: &TierShares| -> Vec<(String, f64)> {
        more.iter()
            .map(|s| (s.tier.clone(), s.share - less.share(&s.tier)))
            .filter(|(_, share)| *share > 0.0)
            .collect()
    };
    let (leaving, coming) = (surplus(now, wanted), surplus(wanted, now));
    let moved: f64 = coming.iter().map(|(_, share)| share).sum();
    // Equal placements up to rounding: nothing to copy.
    if moved <= f64::EPSILON || table_bytes == 0 {
        return Ok(0.0);
    }
    let shares = |parts: &[(String, f64)]| {
        let weights: Vec<(&str, f64)> = parts.iter().map(|(t, s)| (t.as_str(), *s)).collect();
        TierShares::from_weights(&weights)
    };
    let moved_bytes = moved * table_bytes as f64;
    let stream =
        |name: &str| Access::sequential_read(name, LINE_BYTES, moved_bytes as u64).vectorised();
    // Priced like any other phase: a sequential read and a sequential write per cache line.
    let copy = Phase::new("move", PhaseKind::Other, moved_bytes / LINE_BYTES)
        .compute_ns(tierloom_model::COPY_NS_PER_LINE)
        .access(stream("from"))
        .access(stream("to").with_op(Op::Write));
    let placement = Placement::new(shares(&leaving)?).with_structure("to", shares(&coming)?);
    Ok(solve(machine, &copy, &placement, 1, &Options::default())?.time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::profiles;

    fn work(probe_rows: u64) -> ProbeWork {
        ProbeWork {
            table_bytes: 4 << 30,
            probe_rows,
            lines_per_row: 1.0,
            cpu_ns_per_row: 2.0,
            workers: 32,
        }
    }

    fn advise(profile: &str, probe_rows: u64) -> MigrationAdvice {
        let machine = profiles::load(profile).unwrap();
        let (cxl, dram) = (TierShares::all("cxl"), TierShares::all("dram"));
        advise_migration(&machine, work(probe_rows), &cxl, &dram).unwrap()
    }

    #[test]
    fn a_long_probe_pays_for_the_move_and_a_short_one_does_not() {
        for profile in ["epfl25-full-pf-on", "nus24"] {
            let (short, long) = (advise(profile, 1_000_000), advise(profile, 20_000_000_000));
            assert!(!short.moves, "{}", short.why);
            assert!(long.moves, "{}", long.why);
            // The migration is the same; only the probe differs.
            assert_eq!(short.move_ns, long.move_ns);
            assert!(long.why.contains("modelled on"), "{}", long.why);
        }
    }

    #[test]
    fn a_table_that_is_where_it_is_wanted_costs_nothing_and_does_not_move() {
        let machine = profiles::load("nus24").unwrap();
        let half = TierShares::from_weights(&[("dram", 1.0), ("cxl", 1.0)]).unwrap();
        let advice = advise_migration(&machine, work(1 << 40), &half, &half).unwrap();
        assert_eq!((advice.move_ns, advice.moves), (0.0, false));
    }

    #[test]
    fn only_the_pages_that_change_their_tier_are_paid_for() {
        let machine = profiles::load("nus24").unwrap();
        let quarter = TierShares::from_weights(&[("dram", 3.0), ("cxl", 1.0)]).unwrap();
        let (cxl, dram) = (TierShares::all("cxl"), TierShares::all("dram"));
        let part = advise_migration(&machine, work(1), &quarter, &dram).unwrap();
        let whole = advise_migration(&machine, work(1), &cxl, &dram).unwrap();
        assert!((whole.move_ns / part.move_ns - 4.0).abs() < 0.01);
    }
}
