//! Figures whose modelled value is arithmetic on fitted ones.

use crate::check::{compare, is_miss};
use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Role};
use crate::library::Library;
use crate::price::price_smoothly;
use tierloom_model::{Machine, Options};

/// Libraries that differ from the real one in all numbers.
const DRAWS: u64 = 24;
/// How far each number is moved at most, as a factor.
const FACTOR: f64 = 1.03;
/// A figure follows from others if they leave less than this of its changes (root mean square,
/// parts of 1).
const LEFT: f64 = 0.0015;
/// Largest power of a fitted figure in what follows from it: a product, a ratio, a share, no more.
const POWER: f64 = 1.5;

/// Says which figures follow from fitted ones.
///
/// All numbers of all machines and all constants, fitted or not, are moved at once and
/// independently of one another, each by up to a tenth, in 24 draws that are the same in every run
/// (cores, threads per core, devices and capacities, which are counted, stay). A figure *follows*
/// if its modelled value, on a logarithmic scale, is in all draws the same as one constant, plus a
/// multiple of the values of at most two fitted figures of its machines. Its published value then
/// says nothing that those of the fitted ones do not: it is a point of a plateau whose height was
/// fitted, a ratio of two fitted numbers, or a constant of the model's form. A figure that is
/// missed is none of that: what is published does not follow.
///
/// What a calibration ties together (two devices have twice the bandwidth of one) is not tied here,
/// so such figures remain checks.
pub struct Arithmetic<'a> {
    library: &'a Library,
    draws: Vec<Library>,
    /// Fitted figures with a published value, and how they change over the draws.
    fitted: Vec<(&'a FigurePoint, Vec<f64>)>,
}

impl<'a> Arithmetic<'a> {
    /// Prices the fitted figures of `files` in all draws.
    ///
    /// # Errors
    /// Those of [`crate::price`].
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

    /// Names of the fitted figures that `figure` follows from; an empty list if it is the same
    /// whatever the numbers are; `None` if it does not follow or is missed.
    ///
    /// # Errors
    /// Those of [`crate::price`].
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

    /// The figure's values over the draws, on the scale of differences, less their mean.
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

/// A library with all numbers moved.
fn drawn(library: &Library, draw: u64) -> Library {
    let mut moved = library.clone();
    for (name, machine) in &mut moved.machines {
        let paths: Vec<(String, f64)> = machine
            .figures()
            .into_iter()
            .filter(|f| !is_counted(&f.path))
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

fn is_counted(path: &str) -> bool {
    ["cores", "smt", "devices", "capacity_bytes", "walkers"]
        .iter()
        .any(|counted| path == *counted || path.ends_with(&format!(".{counted}")))
}

/// Moves a number, to the other side if the machine would be impossible so.
fn put_factor(machine: &mut Machine, path: &str, value: f64, factor: f64) {
    machine.put(path, value * factor);
    if machine.check().is_err() {
        machine.put(path, value / factor);
    }
    if machine.check().is_err() {
        machine.put(path, value);
    }
}

/// A factor that belongs to a name and a draw, its logarithm even between those of 1 / FACTOR and
/// FACTOR.
fn factor(name: &str, draw: u64) -> f64 {
    // FNV-1a over the name, then the finisher of SplitMix64.
    let hash = name.bytes().fold(
        0xcbf2_9ce4_8422_2325_u64 ^ draw.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3),
    );
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let even = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
    FACTOR.powf(2.0 * even - 1.0)
}

/// Root mean square.
fn size(values: &[f64]) -> f64 {
    (dot(values, values) / values.len() as f64).sqrt()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// What is left of `changes` after the best multiples of one or two others; infinite if a multiple
/// is beyond [`POWER`].
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
