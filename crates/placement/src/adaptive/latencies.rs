//! Small steps towards the placement at which the tiers have equal latencies.
//!
//! Operator memory cannot be tried in part, and trials of columns end after some runs. But counters
//! show during any run how long a read of each tier takes. While a read of the first tier takes
//! longer, accesses that move away from it become faster, whatever the model says. This is the
//! principle of Vuppalapati and Agarwal, "Tiered Memory Management: Access Latency is the Key!"
//! (SOSP 2024). Other than there, no page moves while a query runs, and the next run begins where
//! the last one ended: operator memory is allocated anew in each run.
//!
//! The risk of a step: the other tier may be full without having become slow yet. The first step of
//! operator memory is the largest that loses little on a machine whose other tiers are far worse
//! than the profile says. A further one is so small that the run stays about as fast as on the
//! first tier even if the other tier is full now: its time then grows in proportion to the traffic
//! on that tier, from what it is, and part of the gain so far is left for what that ignores.
//! Operator memory grows by that ratio of its own share at most: a random line may cost as much as
//! many lines of a column. Columns move first, since reads ahead hide more of their latency.

use super::controller::Controller;
use super::evidence::StdDevs;
use super::{Action, Layout, OPERATOR_MEMORY, PhaseDecision};
use crate::AdaptError;
use tierloom_model::search::Weights;
use tierloom_model::{Access, Pattern, Phase, StructureClass};

/// Standard deviations by which latencies must differ for a step.
const DIFFERENT: f64 = 2.0;

/// Loss that a step may risk, as a share of the query's expected time.
const RISKED: f64 = 0.005;

/// Share of the measured gain over the first tier that a step may put at risk.
///
/// The rest is for machines that became faster or slower as a whole since the runs on the first
/// tier, and for tiers whose peak falls when more is asked of them.
const RISKED_GAIN: f64 = 0.7;

/// Largest step, as a share of the phase's traffic.
const LARGEST_STEP: f64 = 0.15;

/// Steps of one phase.
const MOST_STEPS: u32 = 24;

/// Percentages of operator memory off the first tier that a first step considers.
const FIRST_STEPS: [u32; 10] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15];

/// Share of a phase's traffic up to which its columns are not worth a wait for their trials.
const FEW: f64 = 0.25;

/// Share of a phase's traffic up to which its operator memory stays where it is.
const HARDLY_ANY: f64 = 0.03;

/// Traffic of a phase on columns and on operator memory, as shares of their sum, with the parts of
/// both that are off the first tier.
struct OffFirst {
    columns: (f64, f64),
    operators: (f64, f64),
    /// Whether steps may move columns.
    may_move_columns: bool,
    may_move_operators: bool,
}

impl OffFirst {
    fn of(traffic: [f64; 2], layout: &Layout, first: &str, is_shared: bool) -> Self {
        let [columns, operators] = traffic;
        let all = (columns + operators).max(f64::MIN_POSITIVE);
        OffFirst {
            columns: (columns / all, 1.0 - layout.columns.share(first)),
            operators: (operators / all, 1.0 - layout.operators.share(first)),
            may_move_columns: !is_shared && columns / all > FEW,
            may_move_operators: operators / all > HARDLY_ANY,
        }
    }

    /// Share of the traffic off the first tier.
    fn share(&self) -> f64 {
        self.columns.0 * self.columns.1 + self.operators.0 * self.operators.1
    }

    /// Percentages of columns and operator memory with another share of the traffic off the first
    /// tier: columns leave it first and return last.
    fn with(&self, share: f64) -> (u32, u32) {
        let mut left = share - self.share();
        let mut change = |(traffic, off): (f64, f64), is_main: bool| {
            if traffic <= 0.0 || !is_main {
                return off;
            }
            let moved = (left / traffic).clamp(-off, 1.0 - off);
            left -= moved * traffic;
            off + moved
        };
        let has_columns = self.may_move_columns;
        let (columns, operators) = if share > self.share() {
            let columns = change(self.columns, has_columns);
            (columns, change(self.operators, self.may_move_operators))
        } else {
            let operators = change(self.operators, self.may_move_operators);
            (change(self.columns, has_columns), operators)
        };
        // Rounded towards less on the other tiers.
        let percent = |off: f64| (100.0 * off + 1e-6).floor() as u32;
        (percent(columns), percent(operators))
    }
}

impl Controller {
    /// A step that measured latencies ask for; `None` if there is none to make.
    ///
    /// `query_ns` is the expected time of the query.
    pub(super) fn latency_step(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        query_ns: f64,
    ) -> Result<Option<PhaseDecision>, AdaptError> {
        let Some(idle_ns) = self.idle_of_others() else {
            return Ok(None);
        };
        let std_devs = self.std_devs();
        let is_shared = self.shares_columns(phase);
        let traffic = self.missed_lines(phase);
        let first = self.belief.reference_tier().to_owned();
        let off = OffFirst::of(traffic, &kept.layout, &first, is_shared);
        let share = off.share();
        let state = self.state(&kept.key);
        let Some((excess, std_dev)) = state.latency.excess(&kept.layout, idle_ns) else {
            return Ok(None);
        };
        if state.latency.steps >= MOST_STEPS || excess.abs() <= DIFFERENT * std_dev {
            return Ok(None);
        }
        if excess < 0.0 {
            state.latency.high = state.latency.high.min(share);
            // Trials are the better evidence: what they have moved stays.
            let tried = 1.0 - state.tried_columns.share(&first);
            let least = match is_shared {
                true => 0.0,
                false => (off.columns.0 * tried).min(share),
            };
            let back = 0.5 * (state.latency.low.min(share).max(least) + share);
            return self.take_step(kept, phase, off.with(back));
        }
        state.latency.low = state.latency.low.max(share);
        let high = state.latency.high.max(share);
        let gain = state.evidence_of_gain(&kept.layout, std_devs);
        // With the tier full at the present share, the time would grow by the ratio of shares. Of
        // operator memory by that of its own, since a random line may cost many of a column.
        let risked = RISKED * query_ns / kept.expected_ns.max(1.0);
        let growth = (1.0 + risked) / (1.0 - RISKED_GAIN * gain).max(0.1);
        let most = (share + LARGEST_STEP).min(0.5 * (share + high));
        let (columns, operators) = off.with((share * growth).min(most));
        let operators = operators.min((100.0 * off.operators.1 * growth) as u32);
        let safe = match off.may_move_operators {
            true => self.first_step(kept, phase, risked)?,
            false => 0,
        };
        let most = ((most - off.columns.0 * off.columns.1) / off.operators.0.max(1e-9)).min(1.0);
        let safe = safe.min((100.0 * most).max(0.0) as u32);
        self.take_step(kept, phase, (columns, operators.max(safe)))
    }

    /// Moves columns and operator memory to these percentages off the first tier.
    fn take_step(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        (columns, operators): (u32, u32),
    ) -> Result<Option<PhaseDecision>, AdaptError> {
        let first = self.belief.reference_tier();
        let percent = |weights: &Weights| (100.0 * (1.0 - weights.share(first))).round() as u32;
        let mut layout = kept.layout.clone();
        if columns != percent(&layout.columns) {
            layout.columns = self.off_first(columns)?;
        }
        if operators != percent(&layout.operators) {
            layout.operators = self.off_first(operators)?;
        }
        if layout == kept.layout {
            return Ok(None);
        }
        let expected_ns = self.belief.time_ns(phase, &layout, self.settings.workers)?;
        let state = self.state(&kept.key);
        state.latency.steps += 1;
        state.current = layout.clone();
        Ok(Some(PhaseDecision {
            action: Action::Move,
            proposed: layout.clone(),
            reason: format!("{layout}, since reads of the tiers differ in latency"),
            moved_bytes: kept.layout.moved_bytes(&layout, phase),
            layout,
            expected_ns,
            ..kept.clone()
        }))
    }

    /// Largest percentage of operator memory that loses at most `risked` on a bad machine.
    fn first_step(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        risked: f64,
    ) -> Result<u32, AdaptError> {
        let worst = self.worst_for_operators(kept, phase)?;
        let mut safe = 0;
        let home = Layout {
            operators: self.home.operators.clone(),
            ..kept.layout.clone()
        };
        for percent in FIRST_STEPS {
            let there = Layout {
                operators: self.off_first(percent)?,
                ..kept.layout.clone()
            };
            if self.loss_on(&worst, phase, &home, &there)? <= risked {
                safe = percent;
            }
        }
        Ok(safe)
    }

    /// Lines per tuple that miss the caches: of columns, and of operator memory.
    ///
    /// Random accesses share the last-level cache in proportion to their footprints.
    fn missed_lines(&self, phase: &Phase) -> [f64; 2] {
        let is_random = |a: &&Access| a.pattern != Pattern::Sequential;
        let random = phase.accesses.iter().filter(is_random);
        let random_bytes: f64 = random.map(|a| a.footprint_bytes as f64).sum();
        let cache_bytes = self.belief.machine().cache.llc_bytes.value;
        let hit = (cache_bytes / random_bytes.max(1.0)).min(1.0);
        let lines = |is: &dyn Fn(StructureClass) -> bool| -> f64 {
            let accesses = phase.accesses.iter().filter(|a| is(a.class));
            let missed = |a: &Access| match is_random(&a) {
                true => a.lines_per_tuple * (1.0 - hit),
                false => a.lines_per_tuple,
            };
            accesses.map(missed).sum()
        };
        [
            lines(&|class| class == StructureClass::Column),
            lines(&|class| OPERATOR_MEMORY.contains(&class)),
        ]
    }

    /// Whether hardly any line that a phase reads or writes is one of a column.
    pub(super) fn has_few_columns(&self, phase: &Phase) -> bool {
        let [columns, operators] = self.missed_lines(phase);
        columns <= FEW * (columns + operators)
    }

    /// Weights with this percentage off the first tier, on the others in proportion to their peaks.
    fn off_first(&self, percent: u32) -> Result<Weights, AdaptError> {
        let first = self.belief.reference_tier();
        let others: Vec<(&str, f64)> = self
            .tiers()
            .into_iter()
            .filter(|name| *name != first)
            .filter_map(|name| Some((name, self.belief.machine().tier(name)?.read_gbps.value)))
            .collect();
        let sum: f64 = others.iter().map(|(_, gbps)| gbps).sum();
        let part = |gbps: f64| (f64::from(percent) * gbps / sum).round() as u32;
        let mut weights = vec![(first, 100 - percent.min(100))];
        weights.extend(others.iter().map(|(name, gbps)| (*name, part(*gbps))));
        Ok(Weights::new(weights)?)
    }

    /// Idle latency of the fastest other tier, ns; `None` if there is no other.
    fn idle_of_others(&self) -> Option<f64> {
        let first = self.belief.reference_tier();
        let others = self.tiers().into_iter().filter(|name| *name != first);
        let idle = others.filter_map(|name| self.belief.machine().tier(name));
        let idle_ns =
            idle.map(|t| t.idle_latency_ns.value + t.switch_ns.as_ref().map_or(0.0, |v| v.value));
        idle_ns.min_by(f64::total_cmp)
    }
}

impl super::state::State {
    /// Gain of whole runs under this layout over those on the first tier, less one standard
    /// deviation; at least 0.
    fn evidence_of_gain(&self, layout: &Layout, std_devs: StdDevs) -> f64 {
        let (present, home) = (self.evidence.whole(layout), self.evidence.whole(&self.home));
        let (Some((present, runs)), Some((home, before))) = (present, home) else {
            return 0.0;
        };
        let std_dev = std_devs.whole * (1.0 / runs as f64 + 1.0 / before as f64).sqrt();
        (1.0 - (present - home + std_dev).exp()).max(0.0)
    }
}
