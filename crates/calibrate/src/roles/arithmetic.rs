//! Detects figures whose modelled value is arithmetic on fitted ones.

use crate::check::{compare, is_miss};
use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Role};
use crate::library::Library;
use crate::price::price_smoothly;
use tierloom_model::{Figure, Machine, Options};

/// Random perturbations of the library.
const DRAWS: u64 = 24;
/// Largest factor by which each number is perturbed.
const FACTOR: f64 = 1.03;
/// A figure follows from others if regression on them leaves a residual below this (root mean
/// square, relative).
const LEFT: f64 = 0.0015;
/// Limit on the exponent of a fitted figure: a product, a ratio or a share, and nothing steeper.
const POWER: f64 = 1.5;

/// Finds figures that follow from fitted ones.
///
/// All numbers of all machines and all constants, fitted or not, are perturbed at the same time and
/// independently, each by up to 3 %, in 24 draws that are the same in every run. Counted numbers
/// (cores, threads per core, devices, capacities, page walkers) stay. A figure *follows* if its
/// modelled value, on a logarithmic scale, is over all draws a constant plus multiples of the
/// values of at most two fitted figures on its machines. Its published value then adds nothing to
/// those of the fitted figures: it is a point of a plateau whose height was fitted, a ratio of two
/// fitted numbers, or a constant of the model's form. A figure that the model misses does not
/// follow, because then the published value is not what the arithmetic gives.
///
/// Constraints between numbers in a calibration (two devices have twice the bandwidth of one) are
/// not applied to the draws, so figures that follow only by such a constraint remain checks.
pub struct Arithmetic<'a> {
    library: &'a Library,
    draws: Vec<Library>,
    /// Fitted figures with a published value, and their changes over the draws.
    fitted: Vec<(&'a FigurePoint, Vec<f64>)>,
}

impl<'a> Arithmetic<'a> {
    /// Computes the fitted figures of `files` in all draws.
    ///
    /// # Errors
    /// Same as [`crate::price`].
    pub fn new(files: &'a [FigureFile], library: &'a Library) -> Result<Self, CalibrateError> {
        let mut known = Arithmetic {
            library,
            draws: (0..DRAWS).map(|draw| drawn(library, draw)).collect(),
            fitted: Vec::new(),
        };
        for figure in files.iter().flat_map(|f| &f.figures) {
            if figure.role == Role::Fitted && figure.published.is_some() {
                let changes = known.changes(figure)?;
                known.fitted.push((figure, changes));
            }
        }
        Ok(known)
    }

    /// Names of the fitted figures that `figure` follows from.
    ///
    /// The list is empty if the value does not depend on any number; `None` if the figure does not
    /// follow or is missed.
    ///
    /// # Errors
    /// Same as [`crate::price`].
    pub fn follows_from(
        &self,
        figure: &FigurePoint,
    ) -> Result<Option<Vec<&'a str>>, CalibrateError> {
        if is_miss(&compare(figure, self.library, &Options::default())?) {
            return Ok(None);
        }
        let changes = self.changes(figure)?;
        if size(&changes) < LEFT {
            return Ok(Some(Vec::new()));
        }
        let near: Vec<&(&FigurePoint, Vec<f64>)> = self
            .fitted
            .iter()
            .filter(|(f, _)| {
                f.id != figure.id && f.machines().any(|m| figure.machines().any(|o| o == m))
            })
            .collect();
        // One predictor is preferred to two: the shorter explanation.
        let one = near.iter().find(|(_, a)| left(&changes, &[a]) < LEFT);
        if let Some((first, _)) = one {
            return Ok(Some(vec![first.id.as_str()]));
        }
        let pairs = near
            .iter()
            .enumerate()
            .flat_map(|(i, a)| near[i + 1..].iter().map(move |b| (a, b)));
        let mut two = pairs.filter(|((_, a), (_, b))| left(&changes, &[a, b]) < LEFT);
        Ok(two
            .next()
            .map(|((a, _), (b, _))| vec![a.id.as_str(), b.id.as_str()]))
    }

    /// Values of the figure over the draws, on the scale of residuals, minus their mean.
    fn changes(&self, figure: &FigurePoint) -> Result<Vec<f64>, CalibrateError> {
        let mut values = Vec::with_capacity(self.draws.len());
        for library in &self.draws {
            let modelled = price_smoothly(figure, library, &Options::default())?;
            values.push(figure.quantity.scaled(modelled).unwrap_or(modelled));
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter_mut().for_each(|v| *v -= mean);
        Ok(values)
    }
}

/// The library with all numbers perturbed.
fn drawn(library: &Library, draw: u64) -> Library {
    let mut moved = library.clone();
    for (name, machine) in &mut moved.machines {
        let paths: Vec<(String, f64)> = machine
            .figures()
            .into_iter()
            .filter(|f| !is_fixed(f))
            .map(|f| (f.path, f.value))
            .collect();
        for (path, value) in paths {
            put_factor(
                machine,
                &path,
                value,
                factor(&format!("{name} {path}"), draw),
            );
        }
    }
    for (name, constant) in &mut moved.constants {
        constant.value *= factor(name, draw);
    }
    moved
}

/// Whether a number is not perturbed. The page size is: translation depends on it.
fn is_fixed(figure: &Figure) -> bool {
    match figure.key() {
        "page_bytes" => false,
        key => key == "walkers" || figure.is_counted(),
    }
}

/// Perturbs a number; in the other direction, or not at all, if the machine would be invalid.
fn put_factor(machine: &mut Machine, path: &str, value: f64, factor: f64) {
    machine.put(path, value * factor);
    if machine.check().is_err() {
        machine.put(path, value / factor);
    }
    if machine.check().is_err() {
        machine.put(path, value);
    }
}

/// Factor for a name and a draw; its logarithm is uniform between those of 1 / FACTOR and FACTOR.
///
/// It is a hash and not a generator, so that adding a number to a profile does not change the
/// factors of the others.
fn factor(name: &str, draw: u64) -> f64 {
    // FNV-1a over the name, then the finaliser of SplitMix64.
    let hash = name.bytes().fold(
        0xcbf2_9ce4_8422_2325_u64 ^ draw.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3),
    );
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let even = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
    FACTOR.powf(2.0 * even - 1.0)
}

fn size(values: &[f64]) -> f64 {
    (dot(values, values) / values.len() as f64).sqrt()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Residual (root mean square) of the least-squares regression of `changes` on one or two others.
///
/// Infinite if a coefficient exceeds [`POWER`] or the regression is singular.
fn left(changes: &[f64], others: &[&Vec<f64>]) -> f64 {
    let multiples = match others {
        [a] => vec![dot(changes, a) / dot(a, a)],
        [a, b] => {
            let (aa, ab, bb) = (dot(a, a), dot(a, b), dot(b, b));
            let (ya, yb) = (dot(changes, a), dot(changes, b));
            let determinant = aa * bb - ab * ab;
            vec![
                (ya * bb - yb * ab) / determinant,
                (yb * aa - ya * ab) / determinant,
            ]
        }
        _ => return f64::INFINITY,
    };
    if multiples.iter().any(|m| m.is_nan() || m.abs() > POWER) {
        return f64::INFINITY;
    }
    let rest: Vec<f64> = (0..changes.len())
        .map(|i| {
            changes[i]
                - others
                    .iter()
                    .zip(&multiples)
                    .map(|(o, m)| o[i] * m)
                    .sum::<f64>()
        })
        .collect();
    size(&rest)
}
