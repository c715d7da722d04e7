//! What is asked of a cluster: nodes, network, and what statements cost.

use crate::PredictError;
use serde::Deserialize;
use tierloom_model::cluster::{
    ClusterSetup, ModelledBackend, NetworkLink, ShuffleOn, StatementCosts,
};

/// The part of a question that is about several machines.
///
/// Costs that are not given are those that were measured (docs/cluster-model.md), and ranges take
/// them at half and at twice their value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterRequest {
    /// Numbers of nodes, each of which is a cluster of its own.
    pub nodes: Counts,
    /// Bandwidth of each node's link in each direction, GB/s.
    pub network_gbps: f64,
    /// Time from a request to the first byte of its answer between two nodes, microseconds.
    pub network_us: f64,
    /// Who gives out work and ends statements: `distributed`, the default, or `ballista`.
    #[serde(default)]
    pub backend: Option<String>,
    /// Shards of each fact table; by default the same number on every node, at least 16 in all.
    #[serde(default)]
    pub shards: Option<u32>,
    /// Clients that ask at the same time, each one statement after the other; 16 by default.
    #[serde(default)]
    pub streams: Option<u32>,
    /// Fixed time of a statement, ms.
    #[serde(default)]
    pub statement_ms: Option<f64>,
    /// Time of the scheduler for a task, microseconds.
    #[serde(default)]
    pub task_us: Option<f64>,
    /// Time of the scheduler for a task and each shard of the table, microseconds.
    #[serde(default)]
    pub task_shard_us: Option<f64>,
    /// Time of the scheduler for each shard of a statement, microseconds.
    #[serde(default)]
    pub shard_us: Option<f64>,
    /// Time of the node of the final plan for the result of a shard, microseconds.
    #[serde(default)]
    pub fetch_us: Option<f64>,
    /// The tier in whose memory nodes write the rows that they pass on, with `ballista`.
    #[serde(default)]
    pub shuffle: Option<String>,
    /// Instead of a tier, GB/s with which a node writes these rows and with which they are read.
    #[serde(default)]
    pub shuffle_gbps: Option<[f64; 2]>,
}

/// Whole numbers, which JSON may have as one number, too.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "OneOrMoreCounts")]
pub struct Counts(pub Vec<u32>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number or a list of them")]
enum OneOrMoreCounts {
    One(u32),
    More(Vec<u32>),
}

impl From<OneOrMoreCounts> for Counts {
    fn from(counts: OneOrMoreCounts) -> Self {
        Counts(match counts {
            OneOrMoreCounts::One(count) => vec![count],
            OneOrMoreCounts::More(counts) => counts,
        })
    }
}

/// Most nodes, shards and streams; a simulation of more takes long and says no more.
const MOST: u32 = 10_000;

/// Clients, if none are given.
const STREAMS: u32 = 16;

impl ClusterRequest {
    /// The number of clients.
    pub fn streams(&self) -> u32 {
        self.streams.unwrap_or(STREAMS)
    }

    /// The clusters that are asked for, one for each number of nodes.
    ///
    /// # Errors
    /// Bad input: a number that cannot be, with its name.
    pub fn setups(&self) -> Result<Vec<ClusterSetup>, PredictError> {
        if self.nodes.0.is_empty() {
            return Err(PredictError::input(
                "on how many machines? nodes names none",
            ));
        }
        let shards = self.shards.iter().map(|n| ("shards", *n));
        let nodes = self.nodes.0.iter().map(|n| ("nodes", *n));
        let mut counts = nodes.chain(shards).chain([("streams", self.streams())]);
        if let Some((name, count)) = counts.find(|(_, n)| !(1..=MOST).contains(n)) {
            return Err(PredictError::input(format!(
                "{name} is {count}; expected 1 to {MOST}"
            )));
        }
        if !self.network_gbps.is_finite() {
            return Err(PredictError::input(format!(
                "network bandwidth is {}; expected a number of GB/s above 0",
                self.network_gbps
            )));
        }
        let network = NetworkLink {
            gbps: self.network_gbps,
            round_trip_us: self.network_us,
        };
        let backend = self.backend()?;
        let setups = self.nodes.0.iter().map(|nodes| {
            let mut setup = ClusterSetup::new(*nodes, network, backend);
            setup.shards = self.shards.unwrap_or(setup.shards);
            setup.costs = self.costs(backend, 1.0);
            setup.shuffle = self.shuffle()?;
            setup.check().map_err(PredictError::input)?;
            Ok(setup)
        });
        setups.collect()
    }

    fn backend(&self) -> Result<ModelledBackend, PredictError> {
        let Some(name) = &self.backend else {
            return Ok(ModelledBackend::default());
        };
        name.parse().map_err(|e: String| PredictError::input(e))
    }

    /// Where nodes write what they pass on.
    fn shuffle(&self) -> Result<ShuffleOn, PredictError> {
        let is_given = self.shuffle.is_some() || self.shuffle_gbps.is_some();
        if is_given && self.backend()? == ModelledBackend::Distributed {
            return Err(PredictError::input(
                "with the backend distributed nodes write no rows to files; the shuffle is priced with the backend ballista",
            ));
        }
        Ok(match (&self.shuffle, self.shuffle_gbps) {
            (None, None) => ShuffleOn::Free,
            (Some(tier), None) => ShuffleOn::Tier(tier.clone()),
            (None, Some([write_gbps, read_gbps])) => ShuffleOn::Given {
                write_gbps,
                read_gbps,
            },
            (Some(_), Some(_)) => {
                return Err(PredictError::input(
                    "the shuffle is in a tier (shuffle), or has bandwidths (shuffle_gbps), not both",
                ));
            }
        })
    }

    /// What statements cost with `backend`, with measured numbers times `factor`.
    pub(super) fn costs(&self, backend: ModelledBackend, factor: f64) -> StatementCosts {
        let measured = backend.costs();
        let or = |given: Option<f64>, known: f64| given.unwrap_or(known * factor);
        StatementCosts {
            statement_ms: or(self.statement_ms, measured.statement_ms),
            task_us: or(self.task_us, measured.task_us),
            task_shard_us: or(self.task_shard_us, measured.task_shard_us),
            shard_us: or(self.shard_us, measured.shard_us),
            fetch_us: or(self.fetch_us, measured.fetch_us),
            stage_task_us: measured.stage_task_us * factor,
            stage_node_ms: measured.stage_node_ms * factor,
            ..measured
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(more: &str) -> Result<Vec<ClusterSetup>, String> {
        let text = format!("{{\"network_gbps\": 12.5, \"network_us\": 50{more}}}");
        let request: ClusterRequest = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        request.setups().map_err(|e| e.to_string())
    }

    #[test]
    fn one_number_of_nodes_or_several_and_shards_for_all() {
        let one = asked(", \"nodes\": 3").unwrap();
        assert_eq!((one.len(), one[0].nodes, one[0].shards), (1, 3, 18));
        let more = asked(", \"nodes\": [1, 40], \"shards\": 64, \"task_us\": 5").unwrap();
        assert_eq!(more.iter().map(|s| s.shards).collect::<Vec<_>>(), [64, 64]);
        assert_eq!(more[1].costs.task_us, 5.0);
        assert_eq!(
            more[1].costs.fetch_us,
            ModelledBackend::Distributed.costs().fetch_us,
            "what is not given is measured"
        );
    }

    #[test]
    fn numbers_that_cannot_be_are_named() {
        for (more, part) in [
            (", \"nodes\": []", "names none"),
            (", \"nodes\": 0", "nodes is 0; expected 1 to"),
            (", \"nodes\": 20000", "nodes is 20000"),
            (", \"nodes\": 2, \"shards\": 0", "shards is 0"),
            (", \"nodes\": 2, \"streams\": 0", "streams is 0"),
            (", \"nodes\": 2, \"task_us\": -1", "time of a task in us -1"),
            (
                ", \"nodes\": 2, \"backend\": \"spark\"",
                "\"spark\" is no backend",
            ),
            (
                ", \"nodes\": 2, \"shuffle\": \"cxl\"",
                "write no rows to files",
            ),
            (
                ", \"nodes\": 2, \"backend\": \"ballista\", \"shuffle_gbps\": [1, 0]",
                "shuffle in GB/s 0",
            ),
            (
                ", \"nodes\": 2, \"backend\": \"ballista\", \"shuffle_gbps\": [1, 1], \"shuffle\": \"cxl\"",
                "not both",
            ),
            (", \"nodes\": \"two\"", "a whole number or a list"),
            ("", "missing field `nodes`"),
        ] {
            let told = asked(more).unwrap_err();
            assert!(told.contains(part), "{more}: {told}");
        }
    }
}
