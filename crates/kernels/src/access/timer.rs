//! The clock of latency samples: the processor's own counter, in nanoseconds.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::sampler;
use super::spec::FenceMode;

/// How long a calibration takes.
const CALIBRATION: Duration = Duration::from_millis(20);
/// Readings of both clocks at each end of it, of which the closest pair counts.
const READINGS: usize = 16;
/// Empty samples that tell what a sample costs.
const EMPTY_SAMPLES: usize = 2001;
/// Readings as fast as they go that show in which steps the counter moves.
const GLANCES: usize = 2000;
/// A nominal frequency this close to the measured one is taken instead of it: crystals are that
/// exact, and hypervisors that scale the counter are farther off.
const NOMINAL_WITHIN: f64 = 1e-4;

/// What counts the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// The time stamp counter of x86-64, which counts evenly whatever the core's frequency is.
    #[cfg(target_arch = "x86_64")]
    Tsc,
    /// The virtual counter of aarch64.
    #[cfg(target_arch = "aarch64")]
    VirtualCounter,
    /// The operating system's monotonic clock, in nanoseconds; where there is no counter to trust.
    System,
}

impl Clock {
    /// The best that this processor has; the same for all timers and samplers of the process.
    pub(super) fn detect() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Self::look)
    }

    #[cfg(target_arch = "x86_64")]
    fn look() -> Self {
        use std::arch::x86_64::__cpuid;
        let leaves = __cpuid(0x8000_0000).eax;
        let has = |leaf: u32, bit: u32| leaves >= leaf && __cpuid(leaf).edx & 1 << bit != 0;
        // Without the invariant counter ticks would change their length; `rdtscp` is what samples
        // without fences end with.
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

    /// The time now, ticks: after all instructions before and before all after.
    pub(super) fn now(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Tsc => tsc(),
            #[cfg(target_arch = "aarch64")]
            Self::VirtualCounter => virtual_counter(),
            Self::System => system_ns(),
        }
    }

    /// The time about now, as fast as it can be read.
    fn glance(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: user code may read this counter.
            Self::Tsc => unsafe { std::arch::x86_64::_rdtsc() },
            _ => self.now(),
        }
    }

    /// The frequency that the processor states, ticks per ns.
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
    // SAFETY: reads a counter that user code may read; the fences touch no memory of the program.
    unsafe {
        std::arch::asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Leaf 0x15 (Intel Software Developer's Manual, volume 3, "Time-Stamp Counter"): crystal Hz *
/// numerator / denominator.
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
    // SAFETY: Linux lets user code read this counter.
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

/// What an empty sample costs, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverheadSpread {
    /// Least of all.
    pub min: f64,
    /// Half of them are below. Some counters move in steps of ten nanoseconds
    /// ([`Timer::resolution_ns`]), and so does this.
    pub median: f64,
    /// Mean of all but the longest hundredth, in which interrupts are. This is what to subtract:
    /// samples begin anywhere within a step of the counter, so that means are right between steps
    /// too.
    pub mean: f64,
    /// Most of all; an interrupt may be in it.
    pub max: f64,
    /// How many were taken.
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

/// Turns ticks of [`super::Sampler`]s and of [`Timer::now`] into nanoseconds.
///
/// The counter is the time stamp counter on x86-64 if CPUID says that it is invariant (leaf
/// 0x80000007, EDX bit 8), the virtual counter on aarch64, and else the monotonic clock. Take both
/// ends of a time on the same processor: counters of others may be off by some ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timer {
    clock: Clock,
    /// Ticks per ns.
    ghz: f64,
    /// Whether the frequency is the one the processor states.
    nominal: bool,
    /// Ticks by which the counter moves at a time.
    step_ticks: u64,
}

impl Timer {
    /// Finds the counter and measures its frequency against the monotonic clock for about 20 ms.
    /// The frequency that the processor states (CPUID leaf 0x15, `cntfrq_el0`) is taken if the
    /// measurement confirms it within 0.01%.
    pub fn calibrate() -> Self {
        let clock = Clock::detect();
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

    /// The counter now. All instructions before have completed, none after has begun.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Nanoseconds of so many ticks.
    pub fn ticks_to_ns(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ghz
    }

    /// The step in which the counter moves, ns, as it was seen to move: no single sample is known
    /// better than this, means over many are. Some tenths on most x86-64 processors; 10 on newer
    /// ones of AMD, whose counter is moved on a hundred million times a second by as many ticks as
    /// passed; up to 40 on aarch64 processors whose counter runs at 25 MHz.
    pub fn resolution_ns(&self) -> f64 {
        self.ticks_to_ns(self.step_ticks)
    }

    /// What a sample of nothing costs: the code of a sampler of loads with these fences, without
    /// the load. Subtract the mean from samples. For samplers of other accesses take
    /// [`super::Sampler::overhead_ns`], which knows their fences.
    pub fn overhead_ns(&self, fence: FenceMode) -> OverheadSpread {
        self.overhead_of(|| sampler::empty_load_sample(fence))
    }

    pub(super) fn overhead_of(&self, sample: impl Fn() -> u64) -> OverheadSpread {
        // The first ones also pay for code that is not in the caches yet.
        for _ in 0..EMPTY_SAMPLES / 10 {
            sample();
        }
        let samples = (0..EMPTY_SAMPLES).map(|_| self.ticks_to_ns(sample()));
        OverheadSpread::of(samples.collect())
    }

    /// The counter in words, such as "tsc at 2.596 GHz in steps of 10.0 ns, calibrated over 20 ms".
    pub fn describe(&self) -> String {
        let (name, unit) = match self.clock {
            #[cfg(target_arch = "x86_64")]
            Clock::Tsc => ("tsc", "GHz"),
            #[cfg(target_arch = "aarch64")]
            Clock::VirtualCounter => ("cntvct_el0", "MHz"),
            Clock::System => {
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

/// By how many ticks a counter moves at a time, as readings in a row show: 1 unless nearly all
/// distances between them are multiples of the least one. Steps that a hypervisor scales are not
/// whole ticks, so each may be off by one.
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

/// Both clocks at the same moment, as nearly as can be had: of some readings the one that took the
/// least time.
fn closest_pair(clock: Clock) -> (u64, Instant) {
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
    (best.1 + best.0 / 2, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Both clocks measured the same stretch, however long it was.
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
            // On a counter with wide steps the most samples may see none of them.
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
