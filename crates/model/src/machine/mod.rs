//! Machine profiles: the machine parameters of the model, each with its source.
//!
//! A profile is a YAML file. The solver reads the numbers; kinds, sources and intervals serve
//! reports and the analysis of uncertainty.

mod check;
mod measured;
mod path;
mod value;
pub(crate) mod yaml;

pub(crate) use check::nearest_of;
pub use measured::{
    FootprintLatency, LoadedPoint, MeasuredRate, Measurements, PathMeasurement, TouchRate,
};
pub use value::{SourceKind, Value};

use crate::ModelError;
use serde::{Deserialize, Serialize};

/// Only supported version of the profile format.
pub const SCHEMA: &str = "tierloom-machine/1";

/// Valid names of tiers: local DRAM, on-package memory, CXL memory, DRAM of another socket.
pub const TIER_NAMES: [&str; 4] = ["dram", "hbm", "cxl", "remote"];

/// Origin of a profile as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Compiled from publications; needs at least one citation.
    Published,
    /// Measured by Tierloom on the machine itself.
    Measured,
}

/// A machine, or the part of it that the work runs on: cores, caches and memory tiers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Version of the format; must be [`SCHEMA`].
    pub schema: String,
    /// Short name for commands and reports ("epfl25-full-pf-on").
    pub name: String,
    /// Description in one line.
    pub title: String,
    /// The hardware, and how the work of the publication ran on it.
    pub description: String,
    /// Whether the profile as a whole was published or measured.
    pub provenance: Provenance,
    /// Full citations of the keys that sources use; at least one if the profile is published.
    pub citations: Vec<String>,
    /// Cores that run workers.
    pub cores: Value,
    /// Hardware threads per core; 1 if hyper-threading is off.
    pub smt: Value,
    /// Compute throughput of a core with all its hardware threads busy over that with one; 1 or
    /// more.
    pub smt_yield: Value,
    /// Cache sizes, and the latency of the last-level cache.
    pub cache: Cache,
    /// Second-level translation look-aside buffer.
    pub tlb: Tlb,
    /// Lines in flight of one core.
    pub concurrency: Concurrency,
    /// Share of the shorter of compute and (independent) memory time that out-of-order execution
    /// hides behind the longer, 0 to 1; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Value>,
    /// Hardware prefetching; `None` if the prefetchers are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
    /// Memory tiers; the first one (local DRAM) holds everything without a placement.
    pub tiers: Vec<Tier>,
    /// Caveats for readers of the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Everything that was measured, for calibration and for readers; the solver does not use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurements: Option<Measurements>,
}

/// Cache sizes and latency; lines have 64 bytes on all machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Private cache of one core, bytes. The time of hits in it is part of the compute time.
    pub l2_bytes: Value,
    /// Last-level cache that the workers share, bytes.
    pub llc_bytes: Value,
    /// Latency of a hit in the last-level cache, ns.
    pub llc_latency_ns: Value,
}

/// Second-level TLB of a core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Number of entries for pages of `page_bytes`.
    pub entries: Value,
    /// Size of the pages that hold the data, bytes.
    pub page_bytes: Value,
    /// Time of one page walk, ns.
    pub walk_ns: Value,
    /// Page walks that one core runs in parallel at most.
    pub walkers: Value,
}

/// Cache lines that one core keeps in flight, by kind of access.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// Sequential streams of an engine that handles one tuple at a time.
    pub sequential_scalar: Value,
    /// Sequential stream of a loop over one array.
    pub sequential_simd: Value,
    /// Independent random accesses, as many as out-of-order execution overlaps.
    pub random: Value,
    /// Independent random accesses with software prefetching.
    pub random_prefetched: Value,
    /// Accesses that each depend on the result of the previous one.
    pub dependent: Value,
    /// Sequential stream of cached stores; the same as loads if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Value>,
    /// Sequential stream of non-temporal stores; the same as loads if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nt_store: Option<Value>,
    /// Lines in flight of a core with all its hardware threads busy over those with one, at least
    /// 1; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt_gain: Option<Value>,
    /// Bandwidth limit of one core for everything behind its private caches, GB/s, however many
    /// lines are in flight; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_gbps: Option<Value>,
}

/// Effect of hardware prefetchers on strided streams.
///
/// The loaded-latency curves of the tiers include the load they cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// Limit on the lines fetched in vain per line used, in a stream that skips lines.
    pub waste_lines: Value,
    /// Longest stride in lines that the prefetchers follow; beyond it a stream behaves like
    /// independent accesses.
    pub reach_lines: Value,
    /// Lines of a new stream that train the prefetchers before they run ahead of it; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_lines: Option<Value>,
    /// Lines fetched in vain beyond the end of a piece that ends within a page, once the
    /// prefetchers run at full distance (from 16 lines on); 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overshoot_lines: Option<Value>,
}

/// A memory tier: nodes or devices of one kind, taken together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Name, one of [`TIER_NAMES`] and unique in the machine.
    pub name: String,
    /// Number of devices (memory nodes or expanders).
    pub devices: Value,
    /// Capacity of all devices together, bytes.
    pub capacity_bytes: Value,
    /// Peak read bandwidth of all devices together, GB/s.
    pub read_gbps: Value,
    /// Peak write bandwidth of all devices together, GB/s: traffic at the memory, without the read
    /// for ownership.
    pub write_gbps: Value,
    /// Latency of a read while the tier is idle, ns.
    pub idle_latency_ns: Value,
    /// Growth of the latency with utilisation.
    pub loaded: LoadedLatency,
    /// The same for a load of random lines only, which hardware prefetchers do not run ahead of; as
    /// `loaded` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_random: Option<LoadedLatency>,
    /// Peak bandwidth of non-temporal stores, GB/s; as `write_gbps` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nt_write_gbps: Option<Value>,
    /// Share of the peaks that single lines at random addresses reach (row misses in the memory
    /// chips), above 0 and at most 1; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_share: Option<Value>,
    /// Share of the peaks that streams reach while hardware prefetchers run ahead of them, above 0
    /// and at most 1; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetched_share: Option<Value>,
    /// Share of its peaks that the tier loses when the workers ask for far more than it can
    /// deliver, from 0 up to, but not including, 1; 0 if absent.
    ///
    /// Demand of twice the peak costs half of this share: see [`Tier::kept_of_peaks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload_loss: Option<Value>,
    /// Overlap of reads and writes: 0 if they take turns (half duplex, a DRAM bus), 1 if each has
    /// its own direction (full duplex, a link); 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplex: Option<Value>,
    /// Extra time of a cached store over a load, ns, to get the line's ownership from another
    /// socket; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownership_ns: Option<Value>,
    /// Time until the tier accepts a posted write (a non-temporal store, a flushed line), ns.
    ///
    /// The write goes to a queue, so reads do not slow it down. As `idle_latency_ns` under load if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency_ns: Option<Value>,
    /// Cores of the cluster or socket that the tier belongs to, which workers use first; all cores
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_cores: Option<Value>,
    /// Further latency of an access by the other cores, ns; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_ns: Option<Value>,
    /// Latency of switches and retimers on the path, ns for both directions together, not contained
    /// in `idle_latency_ns`; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_ns: Option<Value>,
}

/// Number of an optional value, or `absent` without it.
pub(crate) fn or(value: Option<&Value>, absent: f64) -> f64 {
    value.map_or(absent, |v| v.value)
}

/// Loaded-latency curve over the utilisation u.
///
/// Above the knee the latency is `idle * (1 + (ratio - 1) * ((u - knee) / (1 - knee))^exponent)`,
/// below it `idle`. The form is empirical: it stays finite at full utilisation, where an open queue
/// would not, because a closed network limits the queue by the lines in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedLatency {
    /// Latency at full utilisation over idle latency, at least 1.
    pub ratio_at_peak: Value,
    /// Utilisation above which the latency grows, from 0 up to, but not including, 1.
    pub knee: Value,
    /// Exponent of the curve above the knee, above 0; 1 is linear.
    pub exponent: Value,
}

impl LoadedLatency {
    /// Factor on the idle latency at utilisation `u`, at least 1.
    ///
    /// `u` is limited to 1, so the factor is finite.
    pub fn factor(&self, u: f64) -> f64 {
        let above = (u.min(1.0) - self.knee.value) / (1.0 - self.knee.value);
        if above <= 0.0 {
            1.0
        } else {
            1.0 + (self.ratio_at_peak.value - 1.0) * above.powf(self.exponent.value)
        }
    }
}

impl Tier {
    /// Latency at utilisation `u` without switches, ns, if the load consists of streams.
    pub fn latency_ns(&self, u: f64) -> f64 {
        self.idle_latency_ns.value * self.loaded.factor(u)
    }

    /// The same if a part `streams` of the load (0 to 1) is streams and the rest single lines at
    /// random addresses.
    ///
    /// Single lines that are added lower the part of streams, so that with exponents below 1 the
    /// latency can fall by some percent although `u` grows.
    pub fn mixed_latency_ns(&self, u: f64, streams: f64) -> f64 {
        match &self.loaded_random {
            Some(random) if streams < 1.0 => {
                let factor = streams * self.loaded.factor(u) + (1.0 - streams) * random.factor(u);
                self.idle_latency_ns.value * factor
            }
            _ => self.latency_ns(u),
        }
    }

    /// Share of the peaks that is left when the workers ask for `demand` times what the tier can
    /// deliver, above 0 and at most 1.
    ///
    /// A controller serves requests that continue in an open row of its memory chips first. The
    /// more streams wait at a full tier, the fewer of the requests in its queue continue where the
    /// last ones ended. As the queue is finite, the loss has a limit; the form is the simplest that
    /// has one and begins at the peak.
    pub fn kept_of_peaks(&self, demand: f64) -> f64 {
        let lost = or(self.overload_loss.as_ref(), 0.0);
        1.0 - lost * (1.0 - 1.0 / demand.max(1.0))
    }

    /// Tier of one device with equal read and write peaks and a constant latency, for tests and
    /// examples.
    ///
    /// All numbers have the kind `assumed`.
    pub fn plain(
        name: impl Into<String>,
        read_gbps: f64,
        idle_latency_ns: f64,
        source: &str,
    ) -> Self {
        let value = |x| Value::new(x, SourceKind::Assumed, source);
        Tier {
            name: name.into(),
            devices: value(1.0),
            capacity_bytes: value(1e12),
            read_gbps: value(read_gbps),
            write_gbps: value(read_gbps),
            idle_latency_ns: value(idle_latency_ns),
            loaded: LoadedLatency {
                ratio_at_peak: value(1.0),
                knee: value(0.5),
                exponent: value(2.0),
            },
            loaded_random: None,
            nt_write_gbps: None,
            random_share: None,
            prefetched_share: None,
            overload_loss: None,
            duplex: None,
            ownership_ns: None,
            write_latency_ns: None,
            near_cores: None,
            far_ns: None,
            switch_ns: None,
        }
    }
}

/// One number of a machine with its origin, ready for listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Label for people ("cxl read bandwidth").
    pub label: String,
    /// Path in the profile (`tiers[1].read_gbps`).
    pub path: String,
    /// Value of the number, in `unit`.
    pub value: f64,
    /// Unit ("GB/s", "ns", "bytes", "lines").
    pub unit: &'static str,
    /// Kind of the source.
    pub kind: SourceKind,
    /// Publication and place, arithmetic, or reason.
    pub source: String,
    /// Lower end of its interval; `None` if the profile gives none.
    pub low: Option<f64>,
    /// Upper end of its interval; `None` if the profile gives none.
    pub high: Option<f64>,
}

impl Figure {
    /// Last part of the path ("read_gbps").
    pub fn key(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    /// Whether the number is counted and not measured, or affects no time: it is never uncertain.
    pub fn is_counted(&self) -> bool {
        matches!(
            self.key(),
            "cores" | "near_cores" | "smt" | "devices" | "capacity_bytes" | "page_bytes"
        )
    }
}

impl Machine {
    /// The tier called `name`; `None` if the machine has no such tier.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|t| t.name == name)
    }

    /// Hardware threads: as many workers as can run at the same time.
    pub fn hardware_threads(&self) -> u32 {
        // As a check of the profile makes sure, the product fits.
        (self.cores.value * self.smt.value) as u32
    }

    /// The number of workers for work on this machine: `asked`, or one per core.
    ///
    /// # Errors
    /// [`ModelError::TooManyWorkers`]: more than the machine can run at the same time. The solver
    /// would take them for threads that wait for a CPU, which is not what such a number means.
    pub fn workers(&self, asked: Option<u32>) -> Result<u32, ModelError> {
        let most = self.hardware_threads();
        match asked {
            Some(workers) if workers > most => Err(ModelError::TooManyWorkers {
                machine: self.name.clone(),
                workers,
                most,
                cores: self.cores.value,
                smt: self.smt.value,
            }),
            Some(workers) => Ok(workers),
            None => Ok((self.cores.value as u32).max(1)),
        }
    }

    /// All numbers in the order of the profile, each with its origin.
    pub fn figures(&self) -> Vec<Figure> {
        let figure = |f: check::Field<'_>| Figure {
            label: f.label(),
            path: f.path(),
            value: f.value.value,
            unit: f.unit,
            kind: f.value.kind,
            source: f.value.source.clone(),
            low: f.value.low,
            high: f.value.high,
        };
        self.fields().into_iter().map(figure).collect()
    }

    /// Number at `path` (`tiers[1].read_gbps`, as in [`Machine::figures`]); tiers also by name
    /// (`tiers[cxl].read_gbps`).
    ///
    /// `None` if there is no such number, or an optional one is absent.
    pub fn number(&self, path: &str) -> Option<&Value> {
        path::find(self, path)
    }

    /// Changes the number at `path` as [`Value::with`] does: it keeps its source and loses its
    /// interval.
    ///
    /// Returns whether the number exists. The new value is not checked.
    pub fn put(&mut self, path: &str, x: f64) -> bool {
        let place = path::find_mut(self, path);
        place
            .map(|number| (number.value, number.low, number.high) = (x, None, None))
            .is_some()
    }

    /// Replaces the number at `path`. The new value is not checked: see [`Machine::check`].
    ///
    /// # Errors
    /// [`ModelError::UnknownNumber`](ModelError::UnknownNumber) if this machine has no
    /// number at `path`.
    pub fn set_number(&mut self, path: &str, value: Value) -> Result<(), ModelError> {
        if let Some(place) = path::find_mut(self, path) {
            *place = value;
            return Ok(());
        }
        Err(path::unknown(self, path))
    }
}
