//! Characterising this machine: with the resulting profile, the model reproduces the measured
//! rates, and a second characterisation agrees.
//!
//! Regions are small, so the results are as much those of caches as of memory; what is tested holds
//! for either.

use std::sync::OnceLock;

use tierloom_bench::characterize::{
    CharacterizeError, CharacterizeOptions, Characterized, Depth, Progress, characterize, plan,
};
use tierloom_bench::run::{Control, Host, Session};
use tierloom_memory::PageSize;
use tierloom_model::{
    Access, Machine, Options, PathMeasurement, Phase, PhaseKind, Placement, TierShares, Value,
    solve,
};

const MIB: u64 = 1 << 20;

fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| Host::look().unwrap())
}

fn options() -> CharacterizeOptions {
    CharacterizeOptions {
        depth: Depth::Quick,
        name: Some("here".into()),
        initiators: Vec::new(),
        targets: Vec::new(),
        page_size: Some(PageSize::Base),
        region_bytes: Some(8 * MIB),
    }
}

fn session() -> Session {
    Session {
        id: "s".into(),
        tool_version: "0".into(),
        commit: None,
        build: "dev".into(),
        command: Vec::new(),
        samples: false,
    }
}

/// Never stops.
struct ToTheEnd;

impl Control for ToTheEnd {
    fn stopped(&self) -> bool {
        false
    }
}

/// Two characterisations one after another, made once for all tests.
fn both() -> &'static [Characterized; 2] {
    static BOTH: OnceLock<[Characterized; 2]> = OnceLock::new();
    BOTH.get_or_init(|| {
        [(); 2].map(|()| {
            characterize(host(), &options(), &session(), &ToTheEnd, &mut |_| {})
                .unwrap_or_else(|error| panic!("{error}"))
        })
    })
}

/// The path of a profile from its initiator to DRAM.
fn home(machine: &Machine) -> &PathMeasurement {
    let measured = machine.measurements.as_ref().expect("measurements");
    measured
        .paths
        .iter()
        .find(|path| path.tier == "dram" && path.initiator_node == measured.initiator_node)
        .expect("a path to DRAM")
}

/// The model's GB/s for sequential vector reads of data far larger than caches.
fn modelled_read_gbps(machine: &Machine, workers: u32) -> f64 {
    let scan = Access::sequential_read("a", 64.0, 64_000_000_000).vectorised();
    let phase = Phase::new("read", PhaseKind::Scan, 1e9).access(scan);
    let placement = Placement::new(TierShares::from_weights(&[("dram", 1.0)]).unwrap());
    let solution = solve(machine, &phase, &placement, workers, &Options::default()).unwrap();
    64.0 * phase.tuples / solution.time_ns
}

#[test]
fn the_model_gives_the_measured_rates_back_and_never_more_than_the_peak() {
    for made in both() {
        let machine = &made.machine;
        let dram = machine.tiers.iter().find(|t| t.name == "dram").unwrap();
        let reads = home(machine).rates.iter().filter(|r| r.operation == "read");
        let mut counts = 0;
        for rate in reads {
            let modelled = modelled_read_gbps(machine, rate.threads);
            let measured = rate.gbps.value;
            println!(
                "{} threads: measured {measured:.1} GB/s, modelled {modelled:.1} GB/s",
                rate.threads
            );
            assert!(
                modelled <= dram.read_gbps.value * 1.001,
                "{} threads: modelled {modelled} GB/s, above the peak of {}",
                rate.threads,
                dram.read_gbps.value
            );
            if rate.threads == 1 {
                assert!(
                    (modelled / measured - 1.0).abs() < 0.1,
                    "modelled {modelled} GB/s, measured {measured} GB/s"
                );
            }
            counts += 1;
        }
        assert!(counts > 0, "no reads were measured");
    }
}

/// All measured numbers with names, in the same order for every profile of this machine.
fn measured(machine: &Machine) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for path in &machine.measurements.as_ref().unwrap().paths {
        found.push(("idle latency".to_owned(), &path.idle_latency_ns));
        found.push((
            "idle latency in pages".into(),
            &path.idle_latency_in_pages_ns,
        ));
        for rate in &path.rates {
            found.push((
                format!("{}, {} threads", rate.operation, rate.threads),
                &rate.gbps,
            ));
        }
        for rate in &path.pages {
            found.push((format!("{} {}", rate.what, rate.page_size), &rate.gbps));
        }
    }
    for f in &machine.measurements.as_ref().unwrap().footprints {
        found.push((
            format!("within {} KiB", f.footprint_bytes >> 10),
            &f.random_ns,
        ));
        found.push((
            format!("in pages within {} KiB", f.footprint_bytes >> 10),
            &f.in_pages_ns,
        ));
    }
    found
}

/// The intervals predict what another characterisation would give. Single values miss them if
/// others use the machine, so only most of them must keep them; those that do not are printed.
#[test]
fn most_intervals_of_two_characterisations_overlap() {
    let [a, b] = both();
    let (a, b) = (measured(&a.machine), measured(&b.machine));
    let names =
        |values: &[(String, &Value)]| values.iter().map(|v| v.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b), "both measure the same");
    let ends = |value: &Value| (value.low.expect("low"), value.high.expect("high"));
    let mut apart = 0;
    for ((name, first), (_, second)) in a.iter().zip(&b) {
        let ((low_a, high_a), (low_b, high_b)) = (ends(first), ends(second));
        if low_a > high_b || low_b > high_a {
            apart += 1;
            println!("apart: {name}: {low_a} to {high_a}, then {low_b} to {high_b}");
        }
    }
    println!("{apart} of {} intervals do not overlap", a.len());
    assert!(apart * 2 < a.len(), "{apart} of {} lie apart", a.len());
}

#[test]
fn progress_rises_to_the_total_and_records_cover_every_step() {
    let probes = plan(host(), &options()).unwrap();
    let records = &both()[0].records;
    assert_eq!(records.len() % probes.len(), 0, "whole rounds only");
    for probe in &probes {
        let runs: Vec<_> = records
            .iter()
            .filter(|r| r.run_id == probe.plan.id)
            .collect();
        assert_eq!(
            runs.len(),
            records.len() / probes.len(),
            "{}",
            probe.words()
        );
        assert!(runs.iter().all(|run| run.valid), "{}", probe.words());
    }
}

/// Stops at a given step.
struct StopAt(std::sync::atomic::AtomicBool);

impl Control for StopAt {
    fn stopped(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn stopping_gives_no_profile_of_half_the_figures() {
    let stop = StopAt(false.into());
    let mut seen: Vec<(usize, usize)> = Vec::new();
    let mut progress = |at: &Progress| {
        seen.push((at.done, at.total));
        if at.done == 3 {
            stop.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let made = characterize(host(), &options(), &session(), &stop, &mut progress);
    assert!(matches!(made, Err(CharacterizeError::Stopped)), "{made:?}");
    assert!(
        seen.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "{seen:?}"
    );
    assert!(seen.iter().all(|(done, total)| done < total));
    assert_eq!(seen.last().map(|last| last.0), Some(3));
}

#[test]
fn nodes_that_are_not_there_and_regions_that_cannot_be_are_bad_input() {
    for wrong in [
        CharacterizeOptions {
            initiators: vec![900],
            ..options()
        },
        CharacterizeOptions {
            targets: vec![0, 900],
            ..options()
        },
        CharacterizeOptions {
            region_bytes: Some(MIB),
            ..options()
        },
    ] {
        let error = plan(host(), &wrong).expect_err("refused");
        assert!(error.is_bad_input(), "{error}");
    }
}
