//! Work on a cluster of machines: what is asked, the answers, and their document.

mod answer;
mod document;
mod queries;
mod request;

pub use answer::{ClusterPrediction, ClusterSize, QueryOnCluster};
pub(crate) use document::json;
pub use request::{ClusterRequest, Counts};
