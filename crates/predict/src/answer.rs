//! Solves the work for one machine: times, uncertainty, comparison and sensitivity.

use crate::question::RequestedWork;
use crate::{PredictError, Request, placement, works};
use tierloom_calibrate::{Asked, Known};
use tierloom_model::sensitivity::{self, Effect, TermEffect, Uncertainty};
use tierloom_model::{
    Machine, ModelError, Options, Phase, Placement, QuerySolution, Terms, solve_all,
};

/// The results for one machine.
pub struct Prediction {
    /// The machine.
    pub machine: Machine,
    /// Number of workers.
    pub workers: u32,
    /// Terms of the model and load of other programs.
    pub options: Options,
    /// Result under the requested placement.
    pub own: PlacementResult,
    /// Result under the placement of `--versus`.
    pub versus: Option<Versus>,
    /// Effect of every number of the machine on the throughput, or on the gain if there is one;
    /// largest first.
    pub effects: Option<Vec<Effect>>,
    /// Effect of every term of the model on the same.
    pub terms: Option<Vec<TermEffect>>,
    /// What checks show about rates of this kind of work.
    pub known_rate: Known,
    /// What they show about comparisons; `None` without a comparison.
    pub known_gain: Option<Known>,
}

/// The result of the work under one placement.
pub struct PlacementResult {
    /// As given on the command line.
    pub text: String,
    /// What the model gives.
    pub solution: QuerySolution,
    /// Tuples per second, with the range over the profile's uncertainty and the errors of checks.
    pub rate: Uncertainty,
}

/// A comparison of two placements on the same machine.
pub struct Versus {
    /// Result under the other placement.
    pub placed: PlacementResult,
    /// Rate divided by the other's rate, with the range over the profile's uncertainty and the
    /// errors of checks. Both rates are computed with the same varied machine, so uncertainty
    /// common to both cancels out.
    pub gain: Uncertainty,
}

/// Everything that the solver needs except the machine, which sensitivity and uncertainty vary.
struct PricedCase<'a> {
    phases: &'a [Phase],
    placement: Placement,
    workers: u32,
    options: &'a Options,
    tuples: f64,
}

impl PricedCase<'_> {
    fn solution(&self, machine: &Machine, options: &Options) -> Result<QuerySolution, ModelError> {
        solve_all(machine, self.phases, &self.placement, self.workers, options)
    }

    fn rate_with(&self, machine: &Machine, options: &Options) -> Result<f64, ModelError> {
        Ok(self.tuples / self.solution(machine, options)?.time_ns * 1e9)
    }

    fn rate(&self, machine: &Machine) -> Result<f64, ModelError> {
        self.rate_with(machine, self.options)
    }

    fn placed(&self, text: &str, machine: &Machine) -> Result<PlacementResult, ModelError> {
        Ok(PlacementResult {
            text: text.into(),
            solution: self.solution(machine, self.options)?,
            rate: sensitivity::uncertainty(machine, |m| self.rate(m))?,
        })
    }
}

impl Prediction {
    /// Names of the terms that are switched off.
    pub fn terms_off(&self) -> Vec<&'static str> {
        // A switch that changes nothing has been applied already.
        let is_off = |off: fn(&mut Terms)| {
            let mut fewer = self.options.terms;
            off(&mut fewer);
            fewer == self.options.terms
        };
        let switches = Terms::SWITCHES.iter();
        switches
            .filter(|(_, off)| is_off(*off))
            .map(|(name, _)| *name)
            .collect()
    }

    /// Solves the work on `machine`.
    ///
    /// # Errors
    /// Bad input: a placement or load that the machine cannot have, or impossible parameters.
    pub fn make(
        asked: &RequestedWork,
        machine: Machine,
        request: &Request,
        options: &Options,
    ) -> Result<Prediction, PredictError> {
        check_background(options, &machine).map_err(PredictError::input)?;
        let workers = machine
            .workers(request.workers)
            .map_err(PredictError::input)?;
        let phases = asked.phases(workers).map_err(PredictError::input)?;
        let case = |text: &str| -> Result<PricedCase<'_>, PredictError> {
            Ok(PricedCase {
                phases: &phases,
                placement: placement::parse(text, &machine, &phases)
                    .map_err(PredictError::input)?,
                workers,
                options,
                tuples: asked.tuples(),
            })
        };
        let first = machine.tiers.first().map_or("dram", |t| t.name.as_str());
        let text = request.placement.as_deref().unwrap_or(first);
        let own = case(text)?;
        let other = request.versus.as_deref().map(case).transpose()?;
        let pair = PricedPair {
            own: &own,
            other: other.as_ref(),
        };
        let answered = pair
            .answer(&machine, text, request)
            .map_err(PredictError::input)?;
        let (mut placed, mut versus, effects, terms) = answered;
        let known_rate = works::known(asked.kind(), Asked::Rate)?;
        widen(&mut placed.rate, &known_rate);
        let mut known_gain = None;
        if let Some(versus) = &mut versus {
            widen(&mut versus.placed.rate, &known_rate);
            let known = works::known(asked.kind(), Asked::Gain)?;
            widen(&mut versus.gain, &known);
            known_gain = Some(known);
        }
        Ok(Prediction {
            known_rate,
            known_gain,
            own: placed,
            versus,
            effects,
            terms,
            workers,
            options: options.clone(),
            machine,
        })
    }
}

/// The requested placement and the one that it is compared with.
struct PricedPair<'a> {
    own: &'a PricedCase<'a>,
    other: Option<&'a PricedCase<'a>>,
}

type Answered = (
    PlacementResult,
    Option<Versus>,
    Option<Vec<Effect>>,
    Option<Vec<TermEffect>>,
);

impl PricedPair<'_> {
    fn answer(
        &self,
        machine: &Machine,
        text: &str,
        request: &Request,
    ) -> Result<Answered, ModelError> {
        let placed = self.own.placed(text, machine)?;
        let versus = match (self.other, &request.versus) {
            (Some(other), Some(text)) => Some(Versus {
                placed: other.placed(text, machine)?,
                gain: sensitivity::uncertainty(machine, |m| self.asked(m, self.own.options))?,
            }),
            _ => None,
        };
        // Sensitivity solves the work again for every number of the profile, so it is computed only
        // on request.
        if !request.sensitivity {
            return Ok((placed, versus, None, None));
        }
        let effects = sensitivity::effects(machine, |m| self.asked(m, self.own.options))?;
        let terms = sensitivity::terms(self.own.options.terms, |terms: Terms| {
            let options = Options {
                terms,
                ..self.own.options.clone()
            };
            self.asked(machine, &options)
        })?;
        Ok((placed, versus, Some(effects), Some(terms)))
    }

    /// The number whose sensitivity is shown: the gain if there is a comparison, otherwise the
    /// rate.
    fn asked(&self, machine: &Machine, options: &Options) -> Result<f64, ModelError> {
        let own = self.own.rate_with(machine, options)?;
        match self.other {
            Some(other) => Ok(own / other.rate_with(machine, options)?),
            None => Ok(own),
        }
    }
}

/// Widens a range to what the checks of this kind of work miss: errors of the model's form are not
/// in the intervals of a profile's numbers.
fn widen(range: &mut Uncertainty, known: &Known) {
    (range.low, range.high) = known.widen(range.answer, range.low, range.high);
}

/// Refuses a load on a tier that the machine does not have: the solver would ignore it without
/// notice.
pub(crate) fn check_background(options: &Options, machine: &Machine) -> Result<(), String> {
    let known: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
    let missing = options
        .background
        .iter()
        .find(|b| !known.contains(&b.tier.as_str()));
    missing.map_or(Ok(()), |b| {
        Err(format!(
            "--background names tier {:?}, {} has {}",
            b.tier,
            machine.name,
            known.join(", ")
        ))
    })
}
