//! Fits machine profiles to published and measured figures, and checks the model against publications.
//!
//! The crate is pure: texts go in, numbers and texts come out; the command line reads and writes the files.
//!
//! ```text
//!   figures/*.yaml ── FigureFile ──┐
//!   machines/*.yaml, constants ── Library ──┼── price ── modelled value ── validate ── published, modelled, error
//!   calibration/*.yaml ── Calibration ──────┴── fit ──── parameters with intervals ── profiles and constants as new texts
//! ```
//!
//! A figure is either a *calibration* figure, which a fit may see, or a *check* figure, which none may. The formats are described in
//! `docs/figures.md`.

pub mod builtin;
mod check;
mod error;
mod figures;
mod fit;
mod library;
mod price;
mod rewrite;
mod yaml;

pub use check::{
    Cells, Explanation, MISS, Summary, TermEffect, cells, compare, explain, is_miss, markdown,
    nearest_id, number, summaries, validate,
};
pub use error::CalibrateError;
pub use figures::{
    FIGURES_SCHEMA, FigureFile, FigurePoint, Group, NOISE_PERCENT, Quantity, Relation, Role,
    Setting, check_unique,
};
pub use fit::{
    CALIBRATION_SCHEMA, Calibration, Fit, FittedParameter, Knowledge, Parameter, Set, Target, fit,
};
pub use library::{CONSTANTS_SCHEMA, Constants, Library, constants_from_yaml};
pub use price::{price, rate_at_share, solution};
pub use rewrite::{rewrite_constants, rewrite_profile};
