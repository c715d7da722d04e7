//! Figures, constants and calibrations that are built in, compiled into the program as text.

use crate::error::CalibrateError;
use crate::figures::{FigureFile, check_unique};
use crate::fit::Calibration;
use crate::library::{Constants, constants_from_yaml};

macro_rules! figures {
    ($($name:literal),+ $(,)?) => {
        const FILES: &[(&str, &str)] = &[$((
            concat!("figures/", $name, ".yaml"),
            include_str!(concat!("../../../figures/", $name, ".yaml")),
        )),+];
    };
}

figures!("epfl25", "nus24", "hpi25", "bench25", "sap26");

macro_rules! calibrations {
    ($($name:literal),+ $(,)?) => {
        const CALIBRATIONS: &[(&str, &str)] = &[$((
            concat!("calibration/", $name, ".yaml"),
            include_str!(concat!("../../../calibration/", $name, ".yaml")),
        )),+];
    };
}

calibrations!("epfl25", "nus24", "hpi25", "bench25", "sap26");

/// Name of the built-in constants, which is their path in the repository.
pub const CONSTANTS_FILE: &str = "figures/constants.yaml";

/// Names (paths in the repository) and texts of the built-in figures files.
pub fn figure_texts() -> &'static [(&'static str, &'static str)] {
    FILES
}

/// YAML text of the built-in constants, with its comments.
pub fn constants_text() -> &'static str {
    include_str!("../../../figures/constants.yaml")
}

/// Parses all built-in figures.
///
/// # Errors
/// [`CalibrateError`] if a file is invalid; a test checks that none is.
pub fn figures() -> Result<Vec<FigureFile>, CalibrateError> {
    let files = FILES
        .iter()
        .map(|(name, text)| FigureFile::from_yaml(text, name));
    let files: Vec<FigureFile> = files.collect::<Result<_, _>>()?;
    check_unique(&files)?;
    Ok(files)
}

/// Parses the calibrations that the built-in profiles come from.
///
/// # Errors
/// [`CalibrateError`] if a file is invalid; a test checks that none is.
pub fn calibrations() -> Result<Vec<Calibration>, CalibrateError> {
    let read = CALIBRATIONS
        .iter()
        .map(|(name, text)| Calibration::from_yaml(text, name));
    read.collect()
}

/// Parses all built-in constants.
///
/// # Errors
/// [`CalibrateError`] if the file is invalid; a test checks that it is not.
pub fn constants() -> Result<Constants, CalibrateError> {
    constants_from_yaml(constants_text(), CONSTANTS_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, price};
    use tierloom_model::Options;

    #[test]
    fn every_built_in_figure_is_read_and_priced() {
        let library = Library::builtin(constants().unwrap()).unwrap();
        let files = figures().unwrap();
        assert_eq!(files.len(), FILES.len());
        for figure in files.iter().flat_map(|f| &f.figures) {
            let modelled = price(figure, &library, &Options::default());
            assert!(
                modelled.as_ref().is_ok_and(|m| m.is_finite()),
                "{figure}: {modelled:?}"
            );
        }
    }
}
