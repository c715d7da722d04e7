//! Checks that figures with the role fitted can have been used by a fit.

use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Role};
use crate::fit::{Calibration, Parameter, Target, residual};
use crate::library::Library;
use crate::price::price_smoothly;
use tierloom_model::Options;

/// Relative perturbation of a parameter, in both directions.
const STEP: f64 = 1e-3;
/// Changes of a residual below this, in standard deviations of the figure, count as none.
const NONE: f64 = 1e-6;

/// Rejects fitted figures of `files` whose residual does not change with any parameter of the
/// calibration, at the numbers of `library`.
///
/// Such a figure cannot have informed a fit. It may depend on a number that is no parameter, or it
/// is a relation that holds with a margin, because of the starting point or of other figures.
///
/// # Errors
/// [`CalibrateError::Role`] names the first such figure; otherwise same as [`crate::price`].
pub fn check_fitted(
    calibration: &Calibration,
    files: &[FigureFile],
    library: &Library,
) -> Result<(), CalibrateError> {
    let all = files.iter().flat_map(|f| &f.figures);
    let fitted: Vec<&FigurePoint> = all.filter(|f| f.role == Role::Fitted).collect();
    let mut still: Vec<(&FigurePoint, f64)> = Vec::new();
    for figure in fitted {
        still.push((figure, left(figure, library)?));
    }
    for parameter in &calibration.parameters {
        for factor in [1.0 - STEP, 1.0 + STEP] {
            let moved = moved(library, parameter, factor);
            let mut unmoved = Vec::new();
            for (figure, before) in still {
                // An error beside the fitted value counts as no dependence on the parameter.
                let follows = depends(figure, parameter)
                    && left(figure, &moved).is_ok_and(|r| (r - before).abs() > NONE);
                if !follows {
                    unmoved.push((figure, before));
                }
            }
            still = unmoved;
        }
    }
    match still.first() {
        None => Ok(()),
        Some((figure, _)) => Err(CalibrateError::Role {
            file: figure.file.clone(),
            line: figure.line,
            id: figure.id.clone(),
            problem: format!(
                "has role fitted, but no parameter of {} changes how well it is met",
                calibration.short_name()
            ),
            hint: "give it the role chosen if a number was set from it, else check".into(),
        }),
    }
}

/// Residual of the figure, in standard deviations.
fn left(figure: &FigurePoint, library: &Library) -> Result<f64, CalibrateError> {
    let modelled = price_smoothly(figure, library, &Options::default())?;
    Ok(residual(figure, modelled))
}

/// Whether the parameter sets a number of the figure's machines or one of its constants.
fn depends(figure: &FigurePoint, parameter: &Parameter) -> bool {
    parameter.sets.iter().any(|set| match &set.target {
        Target::Number { machine, .. } => figure.machines().any(|m| m == machine),
        Target::Constant(name) => figure.constants().any(|c| c == name),
    })
}

fn moved(library: &Library, parameter: &Parameter, factor: f64) -> Library {
    let mut library = library.clone();
    for set in &parameter.sets {
        match &set.target {
            Target::Number { machine, path } => {
                if let Some(machine) = library.machines.get_mut(machine) {
                    let before = machine.number(path).map(|n| n.value);
                    before.map(|x| machine.put(path, x * factor));
                }
            }
            Target::Constant(name) => {
                if let Some(constant) = library.constants.get_mut(name) {
                    constant.value *= factor;
                }
            }
        }
    }
    library
}
