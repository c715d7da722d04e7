//! A simulated machine with two nodes, for tests.

use crate::host::Host;
use std::sync::Arc;
use tierloom_memory::{FakeBackend, FakeNode, fake_topology};

pub(crate) fn host() -> Host {
    let node = |node, cpus| FakeNode {
        node,
        cpus,
        memory_bytes: 1 << 30,
    };
    Host {
        topology: fake_topology(&[node(0, 4), node(1, 0)]).unwrap(),
        backend: Arc::new(FakeBackend::with_nodes(&[(0, 1 << 30), (1, 1 << 30)])),
    }
}
