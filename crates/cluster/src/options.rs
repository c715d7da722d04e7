//! What a client of a cluster may choose.

use crate::access::Access;

/// Most bytes of rows that nodes send to a client for the end of a statement, unless it says
/// otherwise.
pub const DIRECT_BYTES: usize = 64 << 20;

/// What does the end of statements whose nodes give many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// Apache Ballista: rows go through files (the shuffle), and one node does the whole final
    /// plan.
    Ballista,
    /// DataFusion Distributed: nodes pass rows to each other as streams, by the keys of joins,
    /// groups and windows, and all of them do a part of the final plan.
    #[default]
    Distributed,
}

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The client does the end of a statement itself, if the nodes' part of it gives at most so
    /// many bytes of rows; otherwise nodes do it. In a cluster that asks for a token Ballista
    /// cannot, and the client does it.
    pub direct_bytes: usize,
    /// What does it there.
    pub backend: Backend,
    /// What it shows to the scheduler and the executors.
    pub access: Access,
}

impl Default for ClientOptions {
    /// [`DIRECT_BYTES`] and the default backend, and nothing is shown.
    fn default() -> Self {
        ClientOptions {
            direct_bytes: DIRECT_BYTES,
            backend: Backend::default(),
            access: Access::default(),
        }
    }
}
