//! Counters of the running kernel.

use std::io;

use perf_event::events::Software;
use perf_event::{Builder, Counter};

use super::{Count, OpenCounter, PerfOpener};
use crate::plan::{PlannedEvent, Scope};

/// Opens counters with `perf_event_open(2)`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinuxOpener;

impl PerfOpener for LinuxOpener {
    fn open(&self, event: &PlannedEvent) -> io::Result<Box<dyn OpenCounter>> {
        // The builder only takes its own event types, so the attributes of a placeholder are
        // replaced.
        let mut builder = Builder::new(Software::DUMMY);
        let attributes = builder.attrs_mut();
        attributes.type_ = event.pmu_type;
        [attributes.config, attributes.config1, attributes.config2] = event.config;
        match event.scope {
            Scope::Threads => builder.observe_self().any_cpu().inherit(true),
            // Device counters cannot distinguish user from kernel mode; their drivers reject
            // exclusions.
            Scope::Cpu(cpu) => builder
                .any_pid()
                .one_cpu(cpu as usize)
                .include_kernel()
                .include_hv(),
        };
        Ok(Box::new(LinuxCounter(builder.build()?)))
    }
}

#[derive(Debug)]
struct LinuxCounter(Counter);

impl OpenCounter for LinuxCounter {
    fn resume(&mut self) -> io::Result<()> {
        self.0.enable()
    }

    fn pause(&mut self) -> io::Result<()> {
        self.0.disable()
    }

    fn read(&mut self) -> io::Result<Count> {
        let data = self.0.read_full()?;
        let nanoseconds = |time: Option<std::time::Duration>| {
            time.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX))
        };
        Ok(Count {
            count: data.count(),
            enabled_ns: nanoseconds(data.time_enabled()),
            running_ns: nanoseconds(data.time_running()),
        })
    }
}

/// Opener for recorded trees, whose counters belong to another machine: every call fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct RefusingOpener;

impl RefusingOpener {
    /// The error of every call.
    pub(crate) fn refused() -> io::Error {
        io::Error::other("this is a recorded tree; counters can be read on the machine itself only")
    }
}

impl PerfOpener for RefusingOpener {
    fn open(&self, _event: &PlannedEvent) -> io::Result<Box<dyn OpenCounter>> {
        Err(Self::refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_testing::checked_nothing;

    /// The kernel's software clock of threads, which exists without hardware counters.
    fn task_clock() -> PlannedEvent {
        PlannedEvent {
            label: "task clock".to_owned(),
            pmu_type: 1,
            config: [1, 0, 0],
            scope: Scope::Threads,
        }
    }

    fn work() -> u64 {
        (0..20_000_000_u64).fold(1, |x, i| std::hint::black_box(x ^ i))
    }

    #[test]
    fn threads_created_after_opening_are_counted_while_it_is_on_and_only_then() {
        let mut counter = match LinuxOpener.open(&task_clock()) {
            Ok(counter) => counter,
            Err(error) => return checked_nothing(error),
        };
        let in_thread = || std::thread::spawn(work).join().unwrap();
        in_thread();
        assert_eq!(counter.read().unwrap().count, 0, "it opens switched off");
        counter.resume().unwrap();
        in_thread();
        counter.pause().unwrap();
        let counted = counter.read().unwrap();
        // This thread only waited; all of the time is the other thread's.
        assert!(counted.count > 1_000_000, "{counted:?}");
        in_thread();
        assert_eq!(counter.read().unwrap(), counted, "it is switched off");
    }

    #[test]
    fn threads_that_wait_while_it_is_off_are_counted_once_it_is_on() {
        let mut counter = match LinuxOpener.open(&task_clock()) {
            Ok(counter) => counter,
            Err(error) => return checked_nothing(error),
        };
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || gate.recv().map(|()| work()));
        counter.resume().unwrap();
        go.send(()).unwrap();
        worker.join().unwrap().unwrap();
        counter.pause().unwrap();
        let counted = counter.read().unwrap();
        assert!(counted.count > 1_000_000, "{counted:?}");
    }
}
