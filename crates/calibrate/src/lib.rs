//! Fits machine profiles to published and measured figures, and checks the model against
//! publications.
//!
//! The crate is pure: texts go in, numbers and texts come out; the command line reads and writes
//! the files.
//!
//! ```text
//!   figures/*.yaml ── FigureFile ───────────┐
//!   machines/*.yaml, constants ── Library ──┼── price ── validate: published, modelled, error
//!   calibration/*.yaml ── Calibration ──────┴── fit ──── parameters with intervals ── new texts
//! ```
//!
//! A figure has a [`Role`]. Only a *check* tests the model; the other figures were fitted, had
//! something chosen by hand with them in view, or follow from fitted ones. Roles are verified by
//! [`check_fitted`] and [`Arithmetic`]. The formats are described in `docs/figures.md`.

pub mod builtin;
mod check;
mod error;
mod figures;
mod fit;
mod known;
mod library;
mod price;
mod rewrite;
mod roles;
mod yaml;

pub use check::{
    Cells, EASY_CHECK, Explanation, FEW_CHECKS, HARD, HARD_CHECK, MISS, TermEffect, cells, compare,
    distance, explain, few_checks, heading, headline, is_hard, is_miss, markdown, nearest_id,
    number, percent, summaries, validate, wrong_signs,
};
pub use error::CalibrateError;
pub use figures::{
    Experiment, FIGURES_SCHEMA, FigureFile, FigurePoint, Group, NOISE_PERCENT, Quantity, Relation,
    Role, check_unique,
};
pub use fit::{
    CALIBRATION_SCHEMA, Calibration, Fit, FittedParameter, Knowledge, Parameter, Set, Target, fit,
};
pub use known::{Asked, Known, known};
pub use library::{CONSTANTS_SCHEMA, Constants, Library, constants_from_yaml};
pub use price::{price, rate_at_share, solution};
pub use rewrite::{rewrite_constants, rewrite_profile};
pub use roles::{Arithmetic, check_fitted};
