//! Residuals of a fit and their derivatives, as functions of the parameters.
//!
//! The library is changed in place, and only where a parameter has moved, so an evaluation clones
//! nothing.

use super::parameters::{Parameter, Target};
use crate::error::CalibrateError;
use crate::figures::FigurePoint;
use crate::library::Library;
use crate::price::price_smoothly;
use tierloom_model::{Options, SourceKind, Value};

/// Figures and parameters, with a library that is kept at the current parameters.
///
/// Parameters are logarithms throughout.
pub(super) struct FitProblem<'a> {
    pub figures: Vec<&'a FigurePoint>,
    pub parameters: &'a [Parameter],
    /// For each parameter, the figures (by index) that may depend on it; spares most evaluations.
    touched: Vec<Vec<usize>>,
    library: Library,
    options: Options,
    /// Parameters that the library is set to.
    at: Vec<f64>,
}

impl<'a> FitProblem<'a> {
    /// Checks that all machines, numbers and constants exist; missing constants start at their
    /// parameter's start.
    pub fn new(
        file: &str,
        figures: Vec<&'a FigurePoint>,
        parameters: &'a [Parameter],
        library: &Library,
    ) -> Result<Self, CalibrateError> {
        let mut library = library.clone();
        for parameter in parameters {
            let user = format!("{file}:{}: parameter {:?}", parameter.line, parameter.name);
            for set in &parameter.sets {
                match &set.target {
                    Target::Number { machine, path } => {
                        let found = library.machine(machine, &user)?;
                        if found.number(path).is_none() {
                            return Err(missing(found, file, parameter.line, path));
                        }
                    }
                    Target::Constant(name) => {
                        let value =
                            Value::new(parameter.start, SourceKind::Assumed, parameter.why.clone());
                        library.constants.entry(name.clone()).or_insert(value);
                    }
                }
            }
        }
        library.check(figures.iter().copied())?;
        let touched = parameters.iter().map(|p| touched(p, &figures)).collect();
        let mut problem = FitProblem {
            figures,
            parameters,
            touched,
            library,
            options: Options::default(),
            at: vec![f64::NAN; parameters.len()],
        };
        let start = problem.start();
        problem.go(&start);
        Ok(problem)
    }

    pub fn start(&self) -> Vec<f64> {
        self.parameters.iter().map(|p| p.start.ln()).collect()
    }

    pub fn bounds(&self, parameter: usize) -> (f64, f64) {
        let p = &self.parameters[parameter];
        (p.low.ln(), p.high.ln())
    }

    /// Moves `x` into the bounds.
    pub fn clamp(&self, x: &mut [f64]) {
        for (index, value) in x.iter_mut().enumerate() {
            let (low, high) = self.bounds(index);
            *value = value.clamp(low, high);
        }
    }

    fn go(&mut self, x: &[f64]) {
        for (index, &value) in x.iter().enumerate() {
            if self.at[index] != value {
                self.at[index] = value;
                self.put(index, value.exp());
            }
        }
    }

    fn put(&mut self, index: usize, value: f64) {
        for set in &self.parameters[index].sets {
            let number = set.exact(value);
            match &set.target {
                Target::Constant(name) => {
                    if let Some(constant) = self.library.constants.get_mut(name) {
                        constant.value = number;
                    }
                }
                Target::Number { machine, path } => {
                    if let Some(machine) = self.library.machines.get_mut(machine) {
                        let new = Value::new(number, SourceKind::Fitted, "");
                        // Cannot fail: the path was checked in `new`.
                        let _ = machine.set_number(path, new);
                    }
                }
            }
        }
    }

    fn residual(&self, figure: usize) -> Result<f64, CalibrateError> {
        let figure = self.figures[figure];
        let modelled = price_smoothly(figure, &self.library, &self.options)?;
        Ok(residual(figure, modelled))
    }

    /// Residuals of the figures at `x`, in standard deviations of each figure.
    pub fn residuals(&mut self, x: &[f64]) -> Result<Vec<f64>, CalibrateError> {
        self.go(x);
        (0..self.figures.len()).map(|i| self.residual(i)).collect()
    }

    /// Derivatives of the residuals by one parameter: central differences, one-sided at a bound.
    pub fn derivative(&mut self, x: &[f64], parameter: usize) -> Result<Vec<f64>, CalibrateError> {
        const STEP: f64 = 1e-4;
        let (low, high) = self.bounds(parameter);
        let (mut a, mut b) = (x.to_vec(), x.to_vec());
        a[parameter] = (x[parameter] - STEP).max(low);
        b[parameter] = (x[parameter] + STEP).min(high);
        let width = b[parameter] - a[parameter];
        let touched = self.touched[parameter].clone();
        let mut slope = vec![0.0; self.figures.len()];
        self.go(&a);
        for &figure in &touched {
            slope[figure] -= self.residual(figure)?;
        }
        self.go(&b);
        for &figure in &touched {
            slope[figure] += self.residual(figure)?;
        }
        slope.iter_mut().for_each(|s| *s /= width);
        self.go(x);
        Ok(slope)
    }

    /// Residual of the log-normal prior and its derivative; `None` if the prior is uniform.
    pub fn prior(&self, parameter: usize, x: f64) -> Option<(f64, f64)> {
        let p = &self.parameters[parameter];
        let sd = (1.0 + p.prior_percent? / 100.0).ln();
        Some(((x - p.start.ln()) / sd, 1.0 / sd))
    }
}

fn missing(machine: &tierloom_model::Machine, file: &str, line: u64, path: &str) -> CalibrateError {
    // Tiers by name, as in calibration files.
    let by_name = |path: String| {
        let tiers = machine.tiers.iter().enumerate();
        tiers.fold(path, |path, (index, tier)| {
            path.replace(&format!("tiers[{index}]"), &format!("tiers[{}]", tier.name))
        })
    };
    let known: Vec<String> = machine
        .figures()
        .into_iter()
        .map(|f| by_name(f.path))
        .collect();
    let near = tierloom_text::nearest(path, known.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!(" (or is `{near}` meant?)"));
    CalibrateError::Rewrite {
        file: file.into(),
        line,
        path: path.into(),
        problem: format!("the profile of {} has no such number", machine.name),
        hint: format!("add it there as {{ value: .., kind: assumed, source: \"..\" }}{near}"),
    }
}

fn touched(parameter: &Parameter, figures: &[&FigurePoint]) -> Vec<usize> {
    let moves = |figure: &FigurePoint| {
        parameter.sets.iter().any(|set| match &set.target {
            Target::Number { machine, .. } => figure.machines().any(|m| m == machine),
            Target::Constant(name) => figure.constants().any(|c| c == name),
        })
    };
    (0..figures.len()).filter(|&i| moves(figures[i])).collect()
}

/// Difference of the modelled from the published value, on the scale of residuals, in standard
/// deviations of the figure.
///
/// For relations it is the distance to the interval, with a margin of half a standard deviation, so
/// that a fit does not end on its edge.
pub(crate) fn residual(figure: &FigurePoint, modelled: f64) -> f64 {
    let quantity = figure.quantity;
    let noise = (1.0 + figure.noise_percent / 100.0).ln();
    let Some(m) = quantity.scaled(modelled) else {
        // A value without a logarithm (0 or less) is as bad as any; a large finite residual keeps
        // the search going.
        return 1e3;
    };
    if let Some(p) = figure.published.and_then(|p| quantity.scaled(p)) {
        return (m - p) / noise;
    }
    let Some((low, high)) = figure.relation.map(|r| r.interval()) else {
        return 0.0;
    };
    let (low, high) = (
        quantity.scaled(low).unwrap_or(f64::NEG_INFINITY),
        quantity.scaled(high).unwrap_or(f64::INFINITY),
    );
    // Narrow intervals keep at least half of their width without cost.
    let spare = (noise / 2.0).min((high - low) / 4.0);
    if m < low + spare {
        (m - low - spare) / noise
    } else if m > high - spare {
        (m - high + spare) / noise
    } else {
        0.0
    }
}
