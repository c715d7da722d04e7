//! Fitted figures are those that a fit can use.

use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Role};
use crate::fit::{Calibration, Parameter, Target, residual};
use crate::library::Library;
use crate::price::price_smoothly;
use tierloom_model::Options;

/// How far a parameter is moved to see whether a residual follows, to both sides.
const STEP: f64 = 1e-3;
/// A change of a residual below this, in noises, is none.
const NONE: f64 = 1e-6;

/// Refuses fitted figures of `files` whose residual no parameter of the calibration changes where
/// `library` has it: whatever was done with them, it was no fit. That is so for a number that is no
/// parameter, and for a relation that holds with room to spare: it came out because of where the
/// search began, or of other figures.
///
/// # Errors
/// [`CalibrateError::Role`] names the figure; else those of [`crate::price`].
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
                // Where the model cannot answer beside the fitted value it depends on the
                // parameter.
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

/// What a fit would still have to do for the figure, in noises.
fn left(figure: &FigurePoint, library: &Library) -> Result<f64, CalibrateError> {
    let modelled = price_smoothly(figure, library, &Options::default())?;
    Ok(residual(figure, modelled))
}

/// Whether the parameter stands behind a number of the figure's machines or a constant of it.
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
