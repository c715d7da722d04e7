//! Answers questions about modelled work, for the command line and for other languages.
//!
//! A [`Request`] names work, machines and placements in text. The work is read ([`question`]),
//! solved per machine ([`answer`]) and given back as one JSON document ([`document()`]). Nothing is
//! measured.
//!
//! ```
//! use tierloom_predict::{Request, document};
//! let question = r#"{"machine": "nus24", "work": "probe", "placement": "3:2"}"#;
//! let request = Request::from_json(question)?;
//! assert!(document(&request)?.contains("tuples_per_s"));
//! # Ok::<(), tierloom_predict::PredictError>(())
//! ```

pub mod answer;
mod cluster;
mod document;
mod error;
pub mod machine;
mod placement;
pub mod question;
mod request;
pub mod works;

pub use answer::{PlacementResult, Prediction, Versus};
pub use cluster::{ClusterPrediction, ClusterRequest, ClusterSize, Counts, QueryOnCluster};
pub use error::PredictError;
pub use question::RequestedWork;
pub use request::{Request, Texts};

/// The work and its predictions on every machine.
///
/// # Errors
/// Bad input: work, placement or machine that cannot be.
pub fn predict(request: &Request) -> Result<(RequestedWork, Vec<Prediction>), PredictError> {
    let asked = RequestedWork::of(request)?;
    let options = request.options()?;
    let mut predictions = Vec::new();
    for name in &request.machine.0 {
        let machine = machine::load(name)?;
        predictions.push(Prediction::make(&asked, machine, request, &options)?);
    }
    Ok((asked, predictions))
}

/// The work and its predictions on clusters of every machine.
///
/// # Errors
/// Bad input: work, placement, machine or cluster that cannot be, and work of which it is not known
/// what one machine sends to another.
pub fn predict_cluster(
    request: &Request,
    cluster: &ClusterRequest,
) -> Result<(RequestedWork, Vec<ClusterPrediction>), PredictError> {
    let asked = RequestedWork::of(request)?;
    let mut predictions = Vec::new();
    for name in &request.machine.0 {
        let machine = machine::load(name)?;
        predictions.push(ClusterPrediction::make(&asked, machine, request, cluster)?);
    }
    Ok((asked, predictions))
}

/// The predictions as one JSON document, as `tierloom predict --json` prints it.
///
/// # Errors
/// Same as [`predict`] and [`predict_cluster`].
pub fn document(request: &Request) -> Result<String, PredictError> {
    if let Some(cluster) = &request.cluster {
        let (asked, predictions) = predict_cluster(request, cluster)?;
        return cluster::json(&asked, &predictions);
    }
    let (asked, predictions) = predict(request)?;
    document::json(&asked, &predictions)
}
