//! Opening and reading the events of one thread.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use perf_event::events::Software;
use perf_event::{Builder, Counter, ReadFormat};
use tierloom_topology::SysRoot;

use super::{EventGroup, Slice, Snapshot, StallPlan};
use crate::RefusingOpener;
use crate::opener::refusal;
use crate::plan::Scope;

/// Opens groups of events for a thread: [`LinuxMeters`], [`super::FakeMeters`], or none on recorded
/// trees.
pub trait MeterOpener: Send + Sync + Debug {
    /// Opens the groups for the calling thread, counting from now on, in user mode.
    ///
    /// # Errors
    /// The error of the operating system.
    fn open(&self, groups: &[EventGroup]) -> io::Result<Box<dyn GroupReader>>;
}

/// Open groups of one thread; dropping them closes them.
pub trait GroupReader {
    /// Reads all groups.
    ///
    /// # Errors
    /// The error of the operating system.
    fn read(&mut self) -> io::Result<Snapshot>;
}

/// Opens groups with `perf_event_open(2)`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinuxMeters;

impl MeterOpener for LinuxMeters {
    fn open(&self, groups: &[EventGroup]) -> io::Result<Box<dyn GroupReader>> {
        let mut open = OpenGroups(Vec::with_capacity(groups.len()));
        for group in groups {
            let mut counters: Vec<Counter> = Vec::with_capacity(group.events.len());
            for event in &group.events {
                let mut builder = Builder::new(Software::DUMMY);
                let attributes = builder.attrs_mut();
                attributes.type_ = event.pmu_type;
                attributes.config = event.config;
                builder.observe_self().any_cpu();
                builder.read_format(
                    ReadFormat::GROUP
                        | ReadFormat::TOTAL_TIME_ENABLED
                        | ReadFormat::TOTAL_TIME_RUNNING,
                );
                // The first event leads: the others are on the hardware when it is.
                let counter = match counters.first_mut() {
                    None => builder.build()?,
                    Some(leader) => builder.build_with_group(leader)?,
                };
                counters.push(counter);
            }
            open.0.push(counters);
        }
        for leader in open.0.iter_mut().filter_map(|group| group.first_mut()) {
            leader.enable_group()?;
        }
        Ok(Box::new(open))
    }
}

/// The counters of each group, its leader first.
#[derive(Debug)]
struct OpenGroups(Vec<Vec<Counter>>);

impl GroupReader for OpenGroups {
    fn read(&mut self) -> io::Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        let mut events = snapshot.events.iter_mut();
        for (group, times) in self.0.iter_mut().zip(&mut snapshot.times_ns) {
            let Some(leader) = group.first_mut() else {
                continue;
            };
            let data = leader.read_group()?;
            let ns = |time: Option<std::time::Duration>| {
                time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
            };
            *times = (ns(data.time_enabled()), ns(data.time_running()));
            // The kernel returns them in the order in which they were added.
            for (entry, event) in data.iter().zip(events.by_ref().take(group.len())) {
                *event = entry.value();
            }
        }
        Ok(snapshot)
    }
}

/// The events that a machine's processor has for stalls, and the way to open them.
#[derive(Debug, Clone)]
pub struct StallSource {
    root: SysRoot,
    plan: Arc<StallPlan>,
    opener: Arc<dyn MeterOpener>,
}

impl StallSource {
    /// The events of the machine below `root`; nothing is opened yet.
    #[must_use]
    pub fn probe(root: &SysRoot) -> Self {
        // A recorded tree describes another machine.
        match root.is_host() {
            true => Self::with_opener(root, Arc::new(LinuxMeters)),
            false => Self::with_opener(root, Arc::new(RefusingOpener)),
        }
    }

    /// Like [`StallSource::probe`], but with another opener.
    #[must_use]
    pub fn with_opener(root: &SysRoot, opener: Arc<dyn MeterOpener>) -> Self {
        StallSource {
            root: root.clone(),
            plan: Arc::new(StallPlan::of(root)),
            opener,
        }
    }

    /// The events, and what is derived from them.
    #[must_use]
    pub fn plan(&self) -> &Arc<StallPlan> {
        &self.plan
    }

    /// Opens the counters of the calling thread.
    ///
    /// # Errors
    /// The reason why there are none, with a remedy.
    pub fn open(&self) -> Result<ThreadMeter, String> {
        let because = |error: io::Error| refusal(&self.root, Scope::Threads, &error);
        let mut reader = self.opener.open(&self.plan.groups).map_err(because)?;
        // What a read takes decides how often the counters may be read. The first one is slower
        // than the others.
        let mut last = reader.read().map_err(because)?;
        let start = Instant::now();
        let mut empty: Option<Slice> = None;
        for _ in 0..READS_TIMED {
            let next = reader.read().map_err(because)?;
            let slice = next.since(&last, &self.plan.groups);
            empty = Some(empty.map_or(slice, |least| least.least(&slice)));
            last = next;
        }
        let read_ns = start.elapsed().as_nanos() as f64 / f64::from(READS_TIMED);
        let stands_still = stands_still(&self.plan, &last);
        match stands_still {
            Some(event) => Err(format!(
                "{event} stood still while the thread ran: this virtual machine emulates counters \
                 without counting"
            )),
            None => Ok(ThreadMeter {
                reader,
                plan: Arc::clone(&self.plan),
                empty: empty.unwrap_or_default(),
                read_ns,
            }),
        }
    }
}

/// The event of a running thread that did not count, if any: some hypervisors accept events and do
/// not count.
fn stands_still(plan: &StallPlan, snapshot: &Snapshot) -> Option<&'static str> {
    ["cycles", "instructions"].into_iter().find(|name| {
        plan.find(name).is_some_and(|(group, event)| {
            snapshot.times_ns[group].1 > 0 && snapshot.events[event] == 0
        })
    })
}

/// Number of reads over which the time of one is taken.
const READS_TIMED: u32 = 8;

/// The open counters of one thread.
pub struct ThreadMeter {
    reader: Box<dyn GroupReader>,
    plan: Arc<StallPlan>,
    /// What is counted between two reads, if nothing else is done.
    empty: Slice,
    read_ns: f64,
}

impl Debug for ThreadMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadMeter")
            .field("read_ns", &self.read_ns)
            .finish_non_exhaustive()
    }
}

impl ThreadMeter {
    /// What the counters show now.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn read(&mut self) -> io::Result<Snapshot> {
        self.reader.read()
    }

    /// What was counted between two reads, without the reads themselves.
    #[must_use]
    pub fn between(&self, earlier: &Snapshot, later: &Snapshot) -> Slice {
        later.since(earlier, &self.plan.groups).without(&self.empty)
    }

    /// Time that a read takes, ns.
    #[must_use]
    pub fn read_ns(&self) -> f64 {
        self.read_ns
    }
}

impl MeterOpener for RefusingOpener {
    fn open(&self, _: &[EventGroup]) -> io::Result<Box<dyn GroupReader>> {
        Err(Self::refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stalls::StallEvent;
    use tierloom_testing::checked_nothing;

    /// The kernel's software events, which exist without hardware counters.
    fn software(name: &'static str, config: u64) -> StallEvent {
        StallEvent {
            name,
            pmu_type: 1,
            config,
        }
    }

    #[test]
    fn the_events_of_several_groups_come_in_the_order_of_the_plan() {
        let groups = [
            EventGroup {
                events: vec![software("task clock", 1), software("page faults", 2)],
            },
            EventGroup {
                events: vec![software("page faults", 2), software("task clock", 1)],
            },
        ];
        let mut reader = match LinuxMeters.open(&groups) {
            Ok(reader) => reader,
            Err(error) => return checked_nothing(error),
        };
        let before = reader.read().unwrap();
        let pages: Vec<u8> = (0..2_000_000_u32).map(|i| i as u8).collect();
        assert!(std::hint::black_box(pages).len() > 1_000_000);
        let slice = reader.read().unwrap().since(&before, &groups);
        assert_eq!(slice.counted, [true, true]);
        let [clock, faults, faults_again, clock_again] = slice.events[..4] else {
            unreachable!()
        };
        // Nanoseconds against some hundreds of pages: an order that is not the plan's shows.
        assert!(clock > 50_000.0 && clock_again > 50_000.0, "{slice:?}");
        assert_eq!(faults, faults_again, "{slice:?}");
        assert!(faults < 10_000.0, "{slice:?}");
    }

    #[test]
    fn another_thread_is_not_counted() {
        let groups = [EventGroup {
            events: vec![software("task clock", 1)],
        }];
        let mut reader = match LinuxMeters.open(&groups) {
            Ok(reader) => reader,
            Err(error) => return checked_nothing(error),
        };
        let before = reader.read().unwrap().events[0];
        let other = std::thread::spawn(|| {
            let start = Instant::now();
            while start.elapsed().as_millis() < 20 {}
        });
        other.join().unwrap();
        let counted = reader.read().unwrap().events[0] - before;
        assert!(
            counted < 10_000_000,
            "{counted} ns of 20 ms in another thread"
        );
    }
}
