//! Weights for memory tiers: computed by the model or measured, and set in the kernel reversibly.
//!
//! ```text
//!   profile + work ── modelled::tune ──┐
//!                                      ├──> TuneRecord ──> report
//!   tiers of this machine ── measure ──┘        │
//!                                               ├── apply: node weights ──> kernel
//!                                               │   (old state saved first, restore: back)
//!                                               └── engine: weights file for an engine
//! ```
//!
//! The search algorithm itself is pure and belongs to [`tierloom_model::search`]; this crate
//! supplies measurements of real tiers and applies the result. Only [`apply::apply`],
//! [`apply::restore`] and [`prefetch`] change the machine.
//!
//! ```
//! use tierloom_tune::{modelled, work};
//! use tierloom_model::{profiles, search::Moved};
//!
//! let (machine, tiers) = (profiles::load("nus24")?, ["dram".to_owned(), "cxl".to_owned()]);
//! let probe = work::named("probe").expect("a phase of the list");
//! let question = modelled::Question {
//!     machine: &machine,
//!     name: "probe",
//!     work: &probe,
//!     workers: 32,
//!     tiers: &tiers,
//!     moved: Moved::All,
//! };
//! let stamp = modelled::Stamp {
//!     made_at: "2026-01-01T00:00:00Z".into(),
//!     tool_version: "0".into(),
//! };
//! let tuned = modelled::tune(&question, &stamp)?;
//! let (weights, gain) = (&tuned.best.weights, tuned.best.gain_over_dram());
//! println!("modelled: {weights} gives {gain:.2} of the rate on dram only");
//! assert!(tuned.record.best_rate >= tuned.record.kernel_rate);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod apply;
pub mod engine;
pub mod measure;
pub mod modelled;
pub mod prefetch;
pub mod request;
pub mod work;
