//! Data and engines for the integration tests.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod both;

use std::sync::Arc;
use tierloom_engine::load::{ColumnPlacer, Encoding, load_ssb};
use tierloom_engine::{Engine, EngineOptions, PlacedTable};
use tierloom_memory::{FakeBackend, FakeNode, MemoryBackend, PageSize, Placement, fake_topology};
use tierloom_topology::{NodeId, Topology};
use tierloom_workloads::Silent;
use tierloom_workloads::ssb::SsbConfig;

/// A machine with a DRAM node 0 and a CXL node 1 of 4 GiB each: real bytes, simulated nodes.
pub fn two_nodes() -> (Arc<dyn MemoryBackend>, Topology) {
    let topology = fake_topology(&[
        FakeNode {
            node: 0,
            cpus: 2,
            memory_bytes: 4 << 30,
        },
        FakeNode {
            node: 1,
            cpus: 0,
            memory_bytes: 4 << 30,
        },
    ])
    .unwrap();
    (
        Arc::new(FakeBackend::with_nodes(&[(0, 4 << 30), (1, 4 << 30)])),
        topology,
    )
}

/// The SSB tables at `scale_factor`, seed 1, all on node 0 of `topology`.
pub fn ssb(
    backend: Arc<dyn MemoryBackend>,
    topology: &Topology,
    scale_factor: f64,
) -> Vec<Arc<PlacedTable>> {
    ssb_as(backend, topology, scale_factor, Encoding::Auto)
}

/// [`ssb`] with columns encoded as `encoding` says.
pub fn ssb_as(
    backend: Arc<dyn MemoryBackend>,
    topology: &Topology,
    scale_factor: f64,
    encoding: Encoding,
) -> Vec<Arc<PlacedTable>> {
    let config = SsbConfig::new(scale_factor, 1).unwrap();
    let mut placer =
        ColumnPlacer::new(backend, topology, PageSize::Base, 2).with_encoding(encoding);
    load_ssb(
        &config,
        &mut placer,
        &|_| Placement::bind(NodeId(0)),
        &Silent,
    )
    .unwrap()
    .tables
}

/// An engine with `options` for `tables`.
pub fn engine_of(options: EngineOptions, tables: &[Arc<PlacedTable>]) -> Engine {
    let engine = Engine::new(options).unwrap();
    tables.iter().for_each(|t| engine.register(t).unwrap());
    engine
}

/// An engine for `tables`.
pub fn engine(tables: &[Arc<PlacedTable>]) -> Engine {
    engine_of(EngineOptions::tuned(2), tables)
}

/// [`engine`], with star joins run by DataFusion's own operators.
pub fn unfused(tables: &[Arc<PlacedTable>]) -> Engine {
    let options = EngineOptions {
        fused: false,
        ..EngineOptions::tuned(2)
    };
    engine_of(options, tables)
}

/// [`unfused`], with scans that know nothing of the joins above them.
pub fn unfiltered(tables: &[Arc<PlacedTable>]) -> Engine {
    let options = EngineOptions {
        fused: false,
        runtime_filters: false,
        ..EngineOptions::tuned(2)
    };
    engine_of(options, tables)
}

/// Pseudorandom numbers from a seed.
pub struct Numbers(pub u64);

impl Numbers {
    /// From a seed that differs in every run and is printed.
    pub fn of_this_run() -> Self {
        let seed = std::time::SystemTime::now();
        let seed = seed.duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = seed.as_nanos() as u64;
        println!("seed {seed}");
        Numbers(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }
}
