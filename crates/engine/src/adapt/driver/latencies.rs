//! Latencies of the tiers while a query runs, by phase.
//!
//! Counters of latencies are those of the machine: a thread reads them every millisecond, and what
//! was read in between belongs to a phase if all threads that were in an operator at both ends were
//! in operators of that phase. What two phases did at the same time belongs to neither.

use crate::counting::{CountedRun, Counting, OperatorId};
use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tierloom_counters::RefusingOpener;
use tierloom_counters::latencies::{LatencyReader, LatencySource, MemoryReads, Others};
use tierloom_counters::stalls::StallSource;
use tierloom_placement::adaptive::TierLatencies;
use tierloom_topology::Topology;

/// Time between two reads of the counters.
const PERIOD: Duration = Duration::from_millis(1);

/// Times that a read takes, between two reads: reads take at most a two-hundredth of a processor.
const READS_APART: u32 = 200;

/// Reads of memory that a latency has to be the mean of.
const FEWEST_READS: f64 = 1000.0;

/// Combinations of operators that are kept apart; a plan has far fewer that run at a time.
const MOST_COMBINATIONS: usize = 4096;

/// What was read from memory while certain operators ran.
type Sampled = HashMap<Vec<OperatorId>, [MemoryReads; 2]>;

/// The open counters of a machine's latencies.
pub(super) struct LatencyMeter {
    reader: Arc<Mutex<Box<dyn LatencyReader>>>,
    /// Tells which operators run in executions that nobody else counts.
    counting: Arc<Counting>,
}

impl fmt::Debug for LatencyMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("latencies of the tiers")
    }
}

impl LatencyMeter {
    /// Opens the counters for the tiers of `topology`.
    ///
    /// # Errors
    /// Why they are not available, with a remedy.
    pub fn open(topology: &Topology) -> Result<Self, String> {
        let source = LatencySource::probe(&topology.root, Others::of(topology));
        Ok(LatencyMeter::of(source.open()?, topology))
    }

    pub fn of(reader: Box<dyn LatencyReader>, topology: &Topology) -> Self {
        let none = StallSource::with_opener(&topology.root, Arc::new(RefusingOpener));
        let why = "only times are measured, to tell phases apart (SET tierloom.counters = on)";
        LatencyMeter {
            reader: Arc::new(Mutex::new(reader)),
            counting: Counting::of_times(none, why),
        }
    }

    /// Begins to sample an execution that is counted with `counting`, if with anything.
    pub fn watch(&self, counting: Option<&Arc<Counting>>) -> LatencyWatch {
        let counting = Arc::clone(counting.unwrap_or(&self.counting));
        let (reader, seen) = (Arc::clone(&self.reader), Arc::clone(&counting));
        let (stop, stopped) = channel::<()>();
        let name = "tier latencies".to_owned();
        let sample = move || {
            let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            sample(reader.as_mut(), &seen, wait)
        };
        let thread = std::thread::Builder::new().name(name).spawn(sample);
        LatencyWatch {
            counting,
            stop: Some(stop),
            // Without the thread there are no latencies, as on other machines.
            thread: thread.ok(),
        }
    }
}

/// Reads the counters until `wait` returns false.
fn sample(
    reader: &mut dyn LatencyReader,
    counting: &Counting,
    mut wait: impl FnMut(Duration) -> bool,
) -> Sampled {
    let mut sampled = Sampled::new();
    let mut period = PERIOD;
    let (mut before, mut now) = (Vec::new(), Vec::new());
    // What was read before the execution is nobody's.
    let mut last = reader.read().is_ok();
    loop {
        counting.running().now(&mut before);
        let goes_on = wait(period);
        counting.running().now(&mut now);
        let start = Instant::now();
        let read = reader.read();
        period = PERIOD.max(READS_APART * start.elapsed());
        let is_known = !before.is_empty() && !now.is_empty();
        before.append(&mut now);
        before.sort_unstable();
        before.dedup();
        if let (Ok(reads), true, true) = (&read, last, is_known) {
            let is_room = sampled.len() < MOST_COMBINATIONS;
            if is_room || sampled.contains_key(&before) {
                let sums = sampled.entry(before.clone()).or_default();
                sums.iter_mut()
                    .zip(reads)
                    .for_each(|(sum, more)| *sum += *more);
            }
        }
        last = read.is_ok();
        before.clear();
        if !goes_on {
            return sampled;
        }
    }
}

/// An execution that is being sampled; dropping it ends that.
pub(super) struct LatencyWatch {
    counting: Arc<Counting>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Sampled>>,
}

impl LatencyWatch {
    /// What the execution has to be counted with.
    pub fn counting(&self) -> &Arc<Counting> {
        &self.counting
    }

    /// Latencies while each phase of `run` ran alone; `None` if too little was read then.
    pub fn finish(mut self, run: &CountedRun) -> Vec<Option<TierLatencies>> {
        let sampled = self.end().unwrap_or_default();
        by_phase(&sampled, run)
    }

    fn end(&mut self) -> Option<Sampled> {
        // The thread sees at once that the sender is gone.
        self.stop = None;
        self.thread.take()?.join().ok()
    }
}

impl Drop for LatencyWatch {
    fn drop(&mut self) {
        self.end();
    }
}

fn by_phase(sampled: &Sampled, run: &CountedRun) -> Vec<Option<TierLatencies>> {
    let mut phases = vec![[MemoryReads::default(); 2]; run.phases.len()];
    for (operators, reads) in sampled {
        let mut of = operators.iter().map(|id| run.phase_of.get(id));
        let first = of.next().flatten();
        let Some(phase) = first.filter(|_| of.all(|other| other == first)) else {
            continue;
        };
        if let Some(sums) = phases.get_mut(*phase) {
            sums.iter_mut()
                .zip(reads)
                .for_each(|(sum, more)| *sum += *more);
        }
    }
    let known = |reads: &MemoryReads| {
        reads
            .latency_ns()
            .filter(|_| reads.requests >= FEWEST_READS)
    };
    let latencies = |[first, others]: [MemoryReads; 2]| {
        Some(TierLatencies {
            first_ns: known(&first)?,
            others_ns: known(&others),
        })
    };
    phases.into_iter().map(latencies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::{CountedStep, Tallies, enter};
    use std::io;
    use std::sync::Barrier;
    use tierloom_counters::stalls::StallPlan;
    use tierloom_memory::{FakeNode, fake_topology};

    /// Reads memory at rates that the test sets.
    #[derive(Debug)]
    struct Rates(Arc<Mutex<[MemoryReads; 2]>>);

    impl LatencyReader for Rates {
        fn read(&mut self) -> io::Result<[MemoryReads; 2]> {
            Ok(*self.0.lock().unwrap())
        }
    }

    fn topology() -> Topology {
        let node = |node, cpus| FakeNode {
            node,
            cpus,
            memory_bytes: 1 << 30,
        };
        fake_topology(&[node(0, 2), node(1, 0)]).unwrap()
    }

    fn reads(requests: f64, latency_ns: f64) -> MemoryReads {
        MemoryReads {
            requests,
            waiting_ns: requests * latency_ns,
        }
    }

    fn run_with(phase_of: Vec<(OperatorId, usize)>) -> CountedRun {
        CountedRun {
            plan: Arc::new(StallPlan::for_family(None)),
            problem: None,
            whole: Default::default(),
            phases: vec![Default::default(); 2],
            operators: Vec::new(),
            phase_of: phase_of.into_iter().collect(),
        }
    }

    #[test]
    fn what_is_read_belongs_to_the_phase_that_runs_alone() {
        let rates = Arc::new(Mutex::new([reads(2000.0, 300.0), reads(0.0, 0.0)]));
        let meter = LatencyMeter::of(Box::new(Rates(Arc::clone(&rates))), &topology());
        let watch = meter.watch(None);
        let counting = Arc::clone(watch.counting());
        let [build, probe] = [Arc::new(Tallies::default()), Arc::new(Tallies::default())];
        let set = |first, others| *rates.lock().unwrap() = [first, others];
        let while_ms = || std::thread::sleep(Duration::from_millis(30));
        let works = |operator: &Arc<Tallies>, work: &dyn Fn()| {
            let _in = enter(&counting, operator);
            work();
        };
        works(&build, &while_ms);
        set(reads(5000.0, 150.0), reads(3000.0, 400.0));
        works(&probe, &while_ms);
        set(reads(0.0, 0.0), reads(0.0, 0.0));
        // Both at a time: neither's.
        let both = Barrier::new(2);
        let together = || {
            both.wait();
            while_ms();
            both.wait();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| works(&build, &together));
            works(&probe, &|| {
                both.wait();
                set(reads(1e9, 9000.0), reads(1e9, 9000.0));
                while_ms();
                set(reads(0.0, 0.0), reads(0.0, 0.0));
                // Until the sampler has seen that.
                while_ms();
                both.wait();
            });
        });
        let id = |operator: &Arc<Tallies>| OperatorId::of(operator, CountedStep::First);
        let run = run_with(vec![(id(&build), 0), (id(&probe), 1)]);
        let found = watch.finish(&run);
        let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.5;
        let [Some(build), Some(probe)] = found[..] else {
            panic!("{found:?}")
        };
        assert!(
            near(build.first_ns, 300.0) && build.others_ns.is_none(),
            "{build:?}"
        );
        assert!(near(probe.first_ns, 150.0), "{probe:?}");
        assert!(near(probe.others_ns.unwrap(), 400.0), "{probe:?}");
    }

    #[test]
    fn too_few_reads_are_no_latency() {
        let operator = Tallies::default();
        let id = OperatorId::of(&operator, CountedStep::Probe);
        let run = run_with(vec![(id, 1)]);
        let of = |requests: f64| {
            let sampled = HashMap::from([(vec![id], [reads(requests, 100.0), reads(2.0, 100.0)])]);
            by_phase(&sampled, &run)
        };
        assert_eq!(of(900.0), [None, None]);
        let known = of(1100.0)[1].unwrap();
        assert!((known.first_ns - 100.0).abs() < 1e-9 && known.others_ns.is_none());
    }

    #[test]
    fn memory_of_another_socket_is_remote_whatever_its_tier_is_called() {
        let node = |node, cpus| FakeNode {
            node,
            cpus,
            memory_bytes: 1 << 30,
        };
        assert_eq!(Others::of(&topology()), Others::Cxl);
        let mut sockets = fake_topology(&[node(0, 2), node(1, 2)]).unwrap();
        sockets.override_tiers("dram=0;cxl=1").unwrap();
        assert_eq!(Others::of(&sockets), Others::RemoteDram);
    }
}
