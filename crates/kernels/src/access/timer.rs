//! Clock of latency samples: the processor's counter, converted to nanoseconds.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Duration of a calibration.
const CALIBRATION: Duration = Duration::from_millis(20);
/// Pairs of readings at each end of it; the closest pair is used.
const READINGS: usize = 16;
/// Empty samples per measurement of the overhead.
const EMPTY_SAMPLES: usize = 2001;
/// Readings in a tight loop that show the step of the counter.
const GLANCES: usize = 2000;
/// A nominal frequency this close to the measured one is used instead of it: crystals are that
/// accurate, while hypervisors that scale the counter are farther off.
const NOMINAL_WITHIN: f64 = 1e-4;

/// Source of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeSource {
    /// The time stamp counter of x86-64, which runs at a constant rate whatever the core's
    /// frequency.
    #[cfg(target_arch = "x86_64")]
    Tsc,
    /// The virtual counter of aarch64.
    #[cfg(target_arch = "aarch64")]
    VirtualCounter,
    /// The operating system's monotonic clock, in ns, where there is no usable counter.
    System,
}

impl TimeSource {
    /// The best clock of this processor; the same for all timers and samplers of the process.
    pub(super) fn detect() -> Self {
        static CLOCK: OnceLock<TimeSource> = OnceLock::new();
        *CLOCK.get_or_init(Self::look)
    }

    #[cfg(target_arch = "x86_64")]
    fn look() -> Self {
        use std::arch::x86_64::__cpuid;
        let leaves = __cpuid(0x8000_0000).eax;
        let has = |leaf: u32, bit: u32| leaves >= leaf && __cpuid(leaf).edx & 1 << bit != 0;
        // Without the invariant TSC the length of a tick would change; `rdtscp` ends samples
        // without fences.
        if has(0x8000_0007, 8) && has(0x8000_0001, 27) {
            Self::Tsc
        } else {
            Self::System
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn look() -> Self {
        Self::VirtualCounter
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn look() -> Self {
        Self::System
    }

    /// The time in ticks, read after all earlier instructions and before all later ones.
    pub(super) fn now(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Tsc => tsc(),
            #[cfg(target_arch = "aarch64")]
            Self::VirtualCounter => virtual_counter(),
            Self::System => system_ns(),
        }
    }

    /// The approximate time, read as fast as possible, without fences.
    fn glance(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the TSC is readable in user mode, unless the process disabled it for itself.
            Self::Tsc => unsafe { std::arch::x86_64::_rdtsc() },
            _ => self.now(),
        }
    }

    /// Frequency that the processor reports, in ticks per ns.
    fn nominal_ghz(self) -> Option<f64> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Tsc => tsc_nominal_ghz(),
            #[cfg(target_arch = "aarch64")]
            Self::VirtualCounter => virtual_counter_ghz(),
            Self::System => Some(1.0),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn tsc() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the TSC, which is readable in user mode; the fences touch no memory of the
    // program.
    unsafe {
        std::arch::asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// CPUID leaf 0x15 (Intel Software Developer's Manual, volume 3, "Time-Stamp Counter"): crystal Hz
/// * numerator / denominator.
#[cfg(target_arch = "x86_64")]
fn tsc_nominal_ghz() -> Option<f64> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    (leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0)
        .then(|| f64::from(leaf.ecx) * f64::from(leaf.ebx) / f64::from(leaf.eax) / 1e9)
}

#[cfg(target_arch = "aarch64")]
fn virtual_counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux makes this counter readable in user mode.
    unsafe {
        std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

#[cfg(target_arch = "aarch64")]
fn virtual_counter_ghz() -> Option<f64> {
    let hertz: u64;
    // SAFETY: as above; the frequency is readable where the counter is.
    unsafe {
        std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags));
    }
    (hertz > 0).then(|| hertz as f64 / 1e9)
}

/// Nanoseconds since the first call in this process.
pub(super) fn system_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Time of empty samples, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverheadSpread {
    /// The shortest sample, in ns.
    pub min: f64,
    /// The median. Some counters advance in steps of ten nanoseconds ([`Timer::resolution_ns`]),
    /// and so does the median.
    pub median: f64,
    /// Mean without the longest hundredth, which has the interrupts.
    ///
    /// Subtract this one from samples: they start at random moments within a step of the counter,
    /// so means are accurate to less than a step.
    pub mean: f64,
    /// The longest sample, which may contain an interrupt.
    pub max: f64,
    /// Number of samples taken.
    pub samples: usize,
}

impl OverheadSpread {
    fn of(mut samples_ns: Vec<f64>) -> Self {
        samples_ns.sort_by(f64::total_cmp);
        let at = |index: usize| samples_ns.get(index).copied().unwrap_or(0.0);
        let usual = &samples_ns[..samples_ns.len() - samples_ns.len() / 100];
        Self {
            mean: usual.iter().sum::<f64>() / usual.len().max(1) as f64,
            min: at(0),
            median: at(samples_ns.len() / 2),
            max: at(samples_ns.len().saturating_sub(1)),
            samples: samples_ns.len(),
        }
    }
}

/// Converts ticks of [`super::Sampler`]s and of [`Timer::now`] to nanoseconds.
///
/// The counter is the time stamp counter on x86-64 if CPUID reports it as invariant (leaf
/// 0x80000007, EDX bit 8), the virtual counter on aarch64, and the monotonic clock otherwise. Read
/// both ends of an interval on the same processor: the counters of others may differ by some ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timer {
    clock: TimeSource,
    /// Frequency in ticks per ns.
    ghz: f64,
    /// Whether the frequency is the one that the processor reports.
    nominal: bool,
    /// Ticks by which the counter advances at a time.
    step_ticks: u64,
}

impl Timer {
    /// Selects the counter and measures its frequency against the monotonic clock for about 20 ms.
    ///
    /// The frequency that the processor reports (CPUID leaf 0x15, `cntfrq_el0`) is used if the
    /// measurement confirms it within 0.01%.
    pub fn calibrate() -> Self {
        let clock = TimeSource::detect();
        let (ticks_before, time_before) = closest_pair(clock);
        std::thread::sleep(CALIBRATION);
        let (ticks_after, time_after) = closest_pair(clock);
        let elapsed_ns = time_after.duration_since(time_before).as_nanos() as f64;
        let measured_ghz = ticks_after.wrapping_sub(ticks_before) as f64 / elapsed_ns;
        let nominal_ghz = clock
            .nominal_ghz()
            .filter(|nominal| (measured_ghz / nominal - 1.0).abs() < NOMINAL_WITHIN);
        Self {
            clock,
            ghz: nominal_ghz.unwrap_or(measured_ghz),
            nominal: nominal_ghz.is_some(),
            step_ticks: step_ticks(|| clock.glance()),
        }
    }

    /// The counter now: after all earlier instructions are complete, and before any later one
    /// begins.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Converts a number of ticks to nanoseconds.
    pub fn ticks_to_ns(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ghz
    }

    /// Step in which the counter was seen to advance, in ns.
    ///
    /// It limits the accuracy of single samples, but not of means over many. It is some tenths of a
    /// ns on most x86-64 processors; 10 on newer ones of AMD, whose counter is updated a hundred
    /// million times a second; up to 40 on aarch64 processors with a counter of 25 MHz.
    pub fn resolution_ns(&self) -> f64 {
        self.ticks_to_ns(self.step_ticks)
    }

    pub(super) fn overhead_of(&self, sample: impl Fn() -> u64) -> OverheadSpread {
        // Warm-up: the first samples also pay for instruction cache misses.
        for _ in 0..EMPTY_SAMPLES / 10 {
            sample();
        }
        let samples = (0..EMPTY_SAMPLES).map(|_| self.ticks_to_ns(sample()));
        OverheadSpread::of(samples.collect())
    }

    /// The counter as text, such as "tsc at 2.596 GHz in steps of 10.0 ns, calibrated over 20 ms".
    pub fn describe(&self) -> String {
        let (name, unit) = match self.clock {
            #[cfg(target_arch = "x86_64")]
            TimeSource::Tsc => ("tsc", "GHz"),
            #[cfg(target_arch = "aarch64")]
            TimeSource::VirtualCounter => ("cntvct_el0", "MHz"),
            TimeSource::System => {
                return "monotonic clock: the processor has no invariant counter".into();
            }
        };
        let frequency = if unit == "GHz" {
            self.ghz
        } else {
            self.ghz * 1e3
        };
        let source = if self.nominal {
            "as the processor states and 20 ms confirmed"
        } else {
            "calibrated over 20 ms"
        };
        let step_ns = self.resolution_ns();
        format!("{name} at {frequency:.3} {unit} in steps of {step_ns:.1} ns, {source}")
    }
}

/// Ticks by which a counter advances at a time, from consecutive readings: the smallest distance if
/// nearly all distances are multiples of it, otherwise 1.
///
/// Steps that a hypervisor scales are not whole ticks, so each may be off by one.
fn step_ticks(glance: impl Fn() -> u64) -> u64 {
    let mut last = glance();
    let mut distances = [0; GLANCES];
    for distance in &mut distances {
        let now = glance();
        *distance = now.saturating_sub(last);
        last = now;
    }
    let Some(least) = distances
        .iter()
        .copied()
        .filter(|distance| *distance > 2)
        .min()
    else {
        return 1;
    };
    let is_multiple = |distance: u64| {
        let times = (distance + least / 2) / least;
        distance.abs_diff(times * least) <= times
    };
    let multiples = distances
        .iter()
        .filter(|distance| is_multiple(**distance))
        .count();
    if multiples * 20 >= GLANCES * 19 {
        least
    } else {
        1
    }
}

/// Both clocks at (almost) the same moment: of several readings, the one that took the least time.
fn closest_pair(clock: TimeSource) -> (u64, Instant) {
    let reading = || {
        let before = clock.now();
        let time = Instant::now();
        let after = clock.now();
        (after.wrapping_sub(before), before, time)
    };
    let mut best = reading();
    for _ in 1..READINGS {
        let next = reading();
        if next.0 < best.0 {
            best = next;
        }
    }
    // The other clock was read about midway between the two readings of the counter.
    (best.1 + best.0 / 2, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::FenceMode;

    #[test]
    fn ticks_never_go_back() {
        let timer = Timer::calibrate();
        let mut last = timer.now();
        let first = last;
        for _ in 0..10_000 {
            let now = timer.now();
            assert!(now >= last);
            last = now;
        }
        assert!(last > first);
    }

    #[test]
    fn nanoseconds_agree_with_the_system_clock() {
        let timer = Timer::calibrate();
        let (ticks, time) = closest_pair(timer.clock);
        std::thread::sleep(Duration::from_millis(30));
        let (ticks_after, time_after) = closest_pair(timer.clock);
        let by_timer = timer.ticks_to_ns(ticks_after - ticks);
        let by_system = time_after.duration_since(time).as_nanos() as f64;
        // Both clocks measured the same interval, however long it was.
        assert!(
            (by_timer / by_system - 1.0).abs() < 0.01,
            "{by_timer} {by_system}"
        );
    }

    #[test]
    fn an_empty_sample_costs_something() {
        let timer = Timer::calibrate();
        for fence in [FenceMode::Full, FenceMode::None] {
            let overhead = timer.overhead_ns(fence);
            assert_eq!(overhead.samples, EMPTY_SAMPLES);
            assert!(overhead.min <= overhead.median && overhead.median <= overhead.max);
            // On a counter with wide steps most samples may see no step.
            assert!(
                overhead.mean > 0.0 && overhead.mean <= overhead.max,
                "{overhead:?}"
            );
        }
    }

    #[test]
    fn counters_that_move_in_steps_are_told_from_fine_ones() {
        use std::cell::Cell;
        let steps_of = |advance: &dyn Fn(u64) -> u64| {
            let calls = Cell::new(0);
            step_ticks(|| {
                calls.set(calls.get() + 1);
                advance(calls.get())
            })
        };
        // 2596 ticks in 100 steps, read every 8 ns and every 13 ns.
        assert!((25..=26).contains(&steps_of(&|call| call * 8 / 10 * 2596 / 100)));
        assert!((25..=26).contains(&steps_of(&|call| call * 13 / 10 * 2596 / 100)));
        // Readings of 18 to 26 ticks each.
        assert_eq!(
            steps_of(&|call| call * 22 + crate::rng::mix(call) % 5 * 2),
            1
        );
        assert_eq!(steps_of(&|call| call), 1);
        assert_eq!(steps_of(&|_| 7), 1);
    }

    #[test]
    fn a_description_names_the_counter_and_its_frequency() {
        let words = Timer::calibrate().describe();
        assert!(
            ["tsc at ", "cntvct_el0 at ", "monotonic clock"]
                .iter()
                .any(|name| words.starts_with(name)),
            "{words}"
        );
    }
}
