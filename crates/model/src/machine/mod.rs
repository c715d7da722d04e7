//! Machine profiles: what the model knows about a machine, each number with its source.

mod check;
mod measured;
mod path;
mod value;
pub(crate) mod yaml;

pub(crate) use check::nearest;
pub use measured::{
    FootprintLatency, LoadedPoint, MeasuredRate, Measurements, PathMeasurement, TouchRate,
};
pub use value::{SourceKind, Value};

use serde::{Deserialize, Serialize};

/// The only version of the profile format.
pub const SCHEMA: &str = "tierloom-machine/1";

/// Names that tiers may have: local DRAM, on-package memory, CXL memory, DRAM of another socket.
pub const TIER_NAMES: [&str; 4] = ["dram", "hbm", "cxl", "remote"];

/// Where a profile as a whole is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Put together from publications.
    Published,
    /// Measured by Tierloom.
    Measured,
}

/// A machine (or the part of one that the work runs on): cores, caches and memory tiers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// [`SCHEMA`].
    pub schema: String,
    /// Short name ("epfl25-full-pf-on").
    pub name: String,
    /// One line.
    pub title: String,
    /// What it is and how the work of the publication ran on it.
    pub description: String,
    /// Published or measured.
    pub provenance: Provenance,
    /// Full citations of what the sources refer to by key.
    pub citations: Vec<String>,
    /// Cores that run workers.
    pub cores: Value,
    /// Hardware threads per core; 1 if hyper-threading is off.
    pub smt: Value,
    /// Compute throughput of a core with all its hardware threads busy over that of one thread, at least 1.
    pub smt_yield: Value,
    /// Caches.
    pub cache: Cache,
    /// Translation look-aside buffer.
    pub tlb: Tlb,
    /// Lines in flight.
    pub concurrency: Concurrency,
    /// Share of the shorter of compute and (independent) memory time that out-of-order execution hides behind the longer, 0 to 1; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Value>,
    /// Hardware prefetching; off if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
    /// Memory tiers; the first is where memory without a placement lies.
    pub tiers: Vec<Tier>,
    /// What a reader has to know before trusting figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Everything that was measured, for calibration and for readers; the solver uses the numbers above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurements: Option<Measurements>,
}

/// Caches, in 64-byte lines throughout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Private cache of one core, bytes. Hits in it are part of the compute time.
    pub l2_bytes: Value,
    /// Last-level cache that the workers share, bytes.
    pub llc_bytes: Value,
    /// Latency of a hit in it, ns.
    pub llc_latency_ns: Value,
}

/// Second-level TLB of a core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Entries for pages of `page_bytes`.
    pub entries: Value,
    /// Size of the pages that the data lies in, bytes.
    pub page_bytes: Value,
    /// Time of one page walk, ns.
    pub walk_ns: Value,
    /// Page walks that one core has under way at most.
    pub walkers: Value,
}

/// Cache lines that one core keeps in flight, by kind of access.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// A sequential stream read or written one value at a time.
    pub sequential_scalar: Value,
    /// A sequential stream with vector instructions.
    pub sequential_simd: Value,
    /// Independent random accesses, as many as out-of-order execution overlaps by itself.
    pub random: Value,
    /// Independent random accesses with software prefetching.
    pub random_prefetched: Value,
    /// Accesses of which each needs the result of the one before.
    pub dependent: Value,
    /// A sequential stream of cached stores; as loads if absent. Stores at random places have as much less than loads there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Value>,
    /// A sequential stream of non-temporal stores; as loads if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nt_store: Option<Value>,
    /// Lines in flight of a core with all its hardware threads busy over those with one, at least 1; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt_gain: Option<Value>,
    /// Most that one core moves to and from what lies behind its private cache, GB/s, however many lines it has in flight; without a limit if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_gbps: Option<Value>,
}

/// What hardware prefetchers do to strided streams. Where they are on, the tiers' loaded-latency curves hold their load too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// Lines fetched in vain per line used, at most, in a stream that skips lines.
    pub waste_lines: Value,
    /// Longest stride in lines that the prefetchers follow; beyond it a stream runs like independent accesses.
    pub reach_lines: Value,
    /// Lines of a new stream that the prefetchers watch before they run ahead of it; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_lines: Option<Value>,
    /// Lines fetched in vain beyond the end of a piece that ends within a page, once the prefetchers run far ahead (16 lines and more);
    /// 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overshoot_lines: Option<Value>,
}

/// A memory tier: nodes or devices of one kind, taken together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// One of [`TIER_NAMES`].
    pub name: String,
    /// Devices (memory nodes or expanders) in it.
    pub devices: Value,
    /// Capacity, bytes.
    pub capacity_bytes: Value,
    /// Peak read bandwidth of all devices together, GB/s.
    pub read_gbps: Value,
    /// Peak write bandwidth of all devices together (traffic at the memory, without the read-for-ownership), GB/s.
    pub write_gbps: Value,
    /// Latency of a read while the tier is idle, ns.
    pub idle_latency_ns: Value,
    /// How the latency grows with load.
    pub loaded: LoadedLatency,
    /// The same while nothing but lines at random places loads the tier, which hardware prefetchers do not run ahead of; as `loaded` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_random: Option<LoadedLatency>,
    /// Peak bandwidth of non-temporal stores, GB/s; as `write_gbps` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nt_write_gbps: Option<Value>,
    /// Share of the peaks that single lines at random places reach (closed rows of the memory chips), above 0 and at most 1; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_share: Option<Value>,
    /// How much reads and writes go on at the same time: 0 they take turns (a DRAM bus), 1 each has its own way (a link); 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplex: Option<Value>,
    /// What a cached store waits longer than a load, ns: the owner of the line on another socket is asked; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownership_ns: Option<Value>,
    /// Time until a written line (a non-temporal store, a line that is flushed) is taken over by the tier, ns; it goes to a queue, so reads do
    /// not slow it down. As `idle_latency_ns` under load if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency_ns: Option<Value>,
    /// Switches and retimers on the way, ns for both directions together, not contained in `idle_latency_ns`; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_ns: Option<Value>,
}

/// The number of an optional value, or what holds without it.
pub(crate) fn or(value: Option<&Value>, absent: f64) -> f64 {
    value.map_or(absent, |v| v.value)
}

/// Loaded-latency curve: `idle * (1 + (ratio - 1) * ((u - knee) / (1 - knee))^exponent)` above the knee, `idle` below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedLatency {
    /// Latency at full utilisation over idle latency, at least 1.
    pub ratio_at_peak: Value,
    /// Utilisation from which the latency grows, 0 up to (not including) 1.
    pub knee: Value,
    /// Steepness above the knee, above 0.
    pub exponent: Value,
}

impl LoadedLatency {
    /// Factor on the idle latency at utilisation `u`; `u` is taken between 0 and 1, so the factor is finite and never below 1.
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
    /// Latency at utilisation `u` without switches, ns, where streams load the tier.
    pub fn latency_ns(&self, u: f64) -> f64 {
        self.idle_latency_ns.value * self.loaded.factor(u)
    }

    /// The same where `streams` of the load (0 to 1) are streams and the rest single lines at random places.
    pub fn mixed_latency_ns(&self, u: f64, streams: f64) -> f64 {
        match &self.loaded_random {
            Some(random) if streams < 1.0 => {
                let factor = streams * self.loaded.factor(u) + (1.0 - streams) * random.factor(u);
                self.idle_latency_ns.value * factor
            }
            _ => self.latency_ns(u),
        }
    }

    /// A tier of one device whose writes are as fast as its reads and whose latency stays idle; everything `assumed` for `source`.
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
            duplex: None,
            ownership_ns: None,
            write_latency_ns: None,
            switch_ns: None,
        }
    }
}

/// One number of a machine, ready to be listed with its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is ("cxl read bandwidth").
    pub label: String,
    /// Its path in the profile (`tiers[1].read_gbps`).
    pub path: String,
    /// Its value in `unit`.
    pub value: f64,
    /// Unit ("GB/s", "ns", "bytes", "lines").
    pub unit: &'static str,
    /// How it came to be.
    pub kind: SourceKind,
    /// Where it is from.
    pub source: String,
    /// Lower end of the interval in which it lies, if known.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Machine {
    /// The tier called `name`.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|t| t.name == name)
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

    /// The number at `path` (`tiers[1].read_gbps`, as in [`Machine::figures`]; tiers also by name: `tiers[cxl].read_gbps`).
    pub fn number(&self, path: &str) -> Option<&Value> {
        path::find(self, path)
    }

    /// Changes the number at `path` as [`Value::with`] does: it keeps its source and loses its interval. Says whether there is one. Nothing is
    /// checked.
    pub fn put(&mut self, path: &str, x: f64) -> bool {
        let place = path::find_mut(self, path);
        place
            .map(|number| (number.value, number.low, number.high) = (x, None, None))
            .is_some()
    }

    /// Puts another number at `path`. Nothing is checked but the path: see [`Machine::check`].
    ///
    /// # Errors
    /// [`ModelError::UnknownNumber`](crate::ModelError::UnknownNumber) if no number of this machine has that path.
    pub fn set_number(&mut self, path: &str, value: Value) -> Result<(), crate::ModelError> {
        if let Some(place) = path::find_mut(self, path) {
            *place = value;
            return Ok(());
        }
        Err(path::unknown(self, path))
    }
}
