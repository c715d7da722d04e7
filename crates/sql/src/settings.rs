//! The settings `tierloom.*`: their values, and how those are read and shown.

use super::error::SqlError;
use super::memory;
use arrow::array::{RecordBatch, StringArray};
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_engine::EngineOptions;
use tierloom_engine::routing::RoutingOptions;
use tierloom_memory::router::Class;
use tierloom_memory::{Placement, PlacementSpec};
use tierloom_model::profiles;
use tierloom_placement::{DramLimitError, Policy, dram_limit};
use tierloom_topology::{TierKind, Topology};

/// Largest batch size: batches are meant to stay in the caches, and larger ones would not.
const MAX_BATCH_ROWS: usize = 1 << 20;

/// The values of `tierloom.*`.
#[derive(Debug, Clone)]
pub(super) struct SessionSettings {
    pub engine: EngineOptions,
    /// Placement of all columns without their own.
    pub placement: Policy,
    /// Placements of tables ("t") and columns ("t.c").
    pub placements: BTreeMap<String, PlacementSpec>,
    /// Machine profile of `EXPLAIN PLACEMENT` and adaptive placement.
    pub machine: Option<String>,
    /// Bytes of columns that DRAM may hold under adaptive placement; `None` for no limit.
    pub dram_bytes: Option<u64>,
    /// What is counted of the statements of this session.
    pub counters: CountersMode,
}

impl SessionSettings {
    pub fn new(engine: EngineOptions, placement: Policy) -> Self {
        SessionSettings {
            engine,
            placement,
            placements: BTreeMap::new(),
            machine: None,
            dram_bytes: None,
            counters: CountersMode::Off,
        }
    }

    /// Takes over the settings of the machine from another session; those of a session stay.
    pub fn follow(&mut self, common: &SessionSettings) {
        let own = (self.engine.threads, self.engine.batch_rows, self.counters);
        *self = common.clone();
        (self.engine.threads, self.engine.batch_rows, self.counters) = own;
    }

    /// Forgets the placements of a table and its columns.
    pub fn forget_placements(&mut self, table: &str) {
        let inside = format!("{table}.");
        self.placements
            .retain(|name, _| name != table && !name.starts_with(&inside));
    }

    /// Name, value and description of every setting.
    fn rows(&self) -> Vec<(String, String, &'static str)> {
        let mut rows = vec![
            (
                "machine".to_owned(),
                self.machine.clone().unwrap_or_else(|| "none".into()),
                "machine profile on which EXPLAIN PLACEMENT and adaptive placement model what is wanted",
            ),
            (
                "dram_bytes".to_owned(),
                self.dram_bytes
                    .map_or_else(|| "none".into(), |b| b.to_string()),
                "bytes of columns that dram may hold when placement adapts: columns then go by heat",
            ),
            (
                "batch_rows".to_owned(),
                self.engine.batch_rows.to_string(),
                "rows of a batch, and of a morsel of a scan",
            ),
            (
                "counters".to_owned(),
                self.counters.name().to_owned(),
                "what is counted of statements, for tierloom_counters: on, machine (its devices too) or off",
            ),
            (
                "placement".to_owned(),
                self.placement.to_string(),
                "where columns are placed: a node or tier, weights, tier, columns:N, adaptive",
            ),
        ];
        for (name, spec) in &self.placements {
            rows.push((
                format!("placement.{name}"),
                spec.to_string(),
                "where this table or column is placed",
            ));
        }
        for class in Class::ALL {
            rows.push((
                format!("memory.{class}"),
                memory::shown(self.engine.routing.as_ref(), class),
                "where this class of operator memory goes: places in order, each with a limit if there is one",
            ));
        }
        let routed = self.engine.routing.is_some();
        rows.push((
            "routing".to_owned(),
            if routed { "on" } else { "off" }.to_owned(),
            "whether operator memory is routed and counted",
        ));
        rows.push((
            "threads".to_owned(),
            self.engine.threads.to_string(),
            "worker threads",
        ));
        rows
    }

    /// The placement that columns of a new table are loaded with.
    pub fn first_placement(&self, topology: &Topology) -> Result<Placement, SqlError> {
        match &self.placement {
            Policy::Uniform(spec) => spec.resolve(topology).map_err(SqlError::input),
            // Policies based on heat decide once there are reads; until then the kernel places the
            // pages.
            _ => Ok(Placement::kernel_default()),
        }
    }

    /// Whether tables of queries have places of their own.
    pub fn temp_has_places(&self) -> bool {
        let routing = self.engine.routing.iter();
        let mut places = routing.flat_map(|options| &options.places);
        places.any(|(class, places)| *class == Class::TempTable && !places.is_empty())
    }

    /// Reads the value of `SET tierloom.name = value`; nothing changes yet.
    pub fn read(
        &self,
        name: &[String],
        value: &str,
        topology: &Topology,
    ) -> Result<NewValue, SqlError> {
        let names: Vec<&str> = name.iter().map(String::as_str).collect();
        let mut engine = self.engine.clone();
        match names.as_slice() {
            ["threads"] => {
                let allowed = topology.limits.cpus_allowed.len().max(1);
                engine.threads = count("threads", value, 4 * allowed)?;
                Ok(NewValue::Engine(Box::new(engine)))
            }
            ["batch_rows"] => {
                engine.batch_rows = count("batch_rows", value, MAX_BATCH_ROWS)?;
                Ok(NewValue::Engine(Box::new(engine)))
            }
            ["counters"] => match CountersMode::of(value) {
                Some(CountersMode::Off) => Ok(NewValue::Counters(CountersMode::Off)),
                Some(_) if engine.routing.is_none() => Err(SqlError::input(
                    "operators cannot be told apart; SET tierloom.routing = on first",
                )),
                Some(mode) => Ok(NewValue::Counters(mode)),
                None => Err(SqlError::input(format!(
                    "tierloom.counters cannot be {value:?}; expected {}",
                    CountersMode::NAMES
                ))),
            },
            ["machine"] => machine(value).map(NewValue::Machine),
            ["dram_bytes"] => dram_bytes(value, topology).map(NewValue::DramBytes),
            ["memory", class] => {
                let options = engine.routing.ok_or_else(|| {
                    SqlError::input(
                        "operator memory is not routed; SET tierloom.routing = on first",
                    )
                })?;
                engine.routing = Some(memory::with_class(options, class, value, topology)?);
                Ok(NewValue::Engine(Box::new(engine)))
            }
            ["routing"] => {
                engine.routing = match value.to_ascii_lowercase().as_str() {
                    "on" | "true" => engine.routing.or_else(|| Some(RoutingOptions::default())),
                    "off" | "false" => None,
                    _ => {
                        return Err(SqlError::input(format!(
                            "tierloom.routing cannot be {value:?}; expected on or off"
                        )));
                    }
                };
                Ok(NewValue::Engine(Box::new(engine)))
            }
            ["placement"] => policy(value, topology).map(NewValue::Placement),
            ["placement", table] => Ok(NewValue::PlacementOf((*table).to_owned(), None)),
            ["placement", table, column] => {
                let column = Some((*column).to_owned());
                Ok(NewValue::PlacementOf((*table).to_owned(), column))
            }
            _ => Err(SqlError::input(format!(
                "there is no setting tierloom.{}; there are {KNOWN}",
                names.join(".")
            ))),
        }
    }

    /// The settings of that name (all if `None`) as rows.
    pub fn show(&self, name: Option<&str>) -> Result<RecordBatch, SqlError> {
        let mut rows = self.rows();
        if let Some(name) = name {
            rows.retain(|(known, _, _)| known == name);
            if rows.is_empty() {
                return Err(SqlError::input(format!(
                    "there is no setting tierloom.{name}; there are {KNOWN}"
                )));
            }
        }
        let names = rows.iter().map(|(name, _, _)| format!("tierloom.{name}"));
        let names: StringArray = names.map(Some).collect();
        let values: StringArray = rows.iter().map(|(_, value, _)| Some(value)).collect();
        let meanings: StringArray = rows.iter().map(|(_, _, meaning)| Some(*meaning)).collect();
        RecordBatch::try_from_iter([
            ("name", Arc::new(names) as _),
            ("value", Arc::new(values) as _),
            ("meaning", Arc::new(meanings) as _),
        ])
        .map_err(SqlError::failed)
    }
}

/// Names of all settings, for error messages.
const KNOWN: &str = "tierloom.batch_rows, tierloom.counters, tierloom.dram_bytes, tierloom.machine, tierloom.memory.CLASS, tierloom.placement, tierloom.placement.TABLE, \
                     tierloom.placement.TABLE.COLUMN, tierloom.routing, tierloom.threads";

/// What is counted of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CountersMode {
    #[default]
    Off,
    /// Times and events of the threads that run a statement.
    On,
    /// Those, and the traffic of the machine's memory controllers and CXL devices meanwhile.
    Machine,
}

impl CountersMode {
    /// For messages.
    const NAMES: &'static str = "on, machine or off";

    fn of(value: &str) -> Option<Self> {
        match value.to_ascii_lowercase().as_str() {
            "off" | "false" => Some(CountersMode::Off),
            "on" | "true" => Some(CountersMode::On),
            "machine" => Some(CountersMode::Machine),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            CountersMode::Off => "off",
            CountersMode::On => "on",
            CountersMode::Machine => "machine",
        }
    }
}

/// A value that is to be set.
pub(super) enum NewValue {
    /// One of the engine's; the others are as before.
    Engine(Box<EngineOptions>),
    Machine(Option<String>),
    Counters(CountersMode),
    DramBytes(Option<u64>),
    Placement(Policy),
    /// Of a table, or of one of its columns.
    PlacementOf(String, Option<String>),
}

fn machine(value: &str) -> Result<Option<String>, SqlError> {
    if value == "none" {
        return Ok(None);
    }
    profiles::load(value).map_err(SqlError::input)?;
    Ok(Some(value.to_owned()))
}

fn dram_bytes(value: &str, topology: &Topology) -> Result<Option<u64>, SqlError> {
    if value == "none" {
        return Ok(None);
    }
    dram_limit(value, topology).map(Some).map_err(|error| match error {
        DramLimitError::NoCxl => SqlError::input(format!("tierloom.dram_bytes: {error}")),
        _ => SqlError::input(format!(
            "tierloom.dram_bytes cannot be {value:?}; expected none, or a size above 0 as in 512MiB or 1.5GiB"
        )),
    })
}

fn policy(value: &str, topology: &Topology) -> Result<Policy, SqlError> {
    let policy: Policy = value
        .parse()
        .map_err(|e| SqlError::input(format!("tierloom.placement: {e}")))?;
    check_policy(&policy, topology)?;
    Ok(policy)
}

/// Refuses a policy that this machine cannot follow.
pub(super) fn check_policy(policy: &Policy, topology: &Topology) -> Result<(), SqlError> {
    match policy {
        Policy::Uniform(spec) => spec.resolve(topology).map(drop).map_err(SqlError::input),
        Policy::Pool => Err(SqlError::input(
            "columns of tables that are in memory cannot move to a pool; tierloom sql --pool P -t NAME=PATH loads tables into one",
        )),
        Policy::Adaptive(_) if topology.tier(TierKind::Dram).is_some() => Ok(()),
        _ => {
            let missing = [TierKind::Dram, TierKind::Cxl]
                .into_iter()
                .find(|kind| topology.tier(*kind).is_none());
            missing.map_or(Ok(()), |kind| {
                Err(SqlError::input(format!(
                    "placement {policy} needs a dram and a cxl tier, and this machine has no {kind} tier (see `tierloom topology`; --tiers names tiers yourself)"
                )))
            })
        }
    }
}

fn count(name: &str, value: &str, most: usize) -> Result<usize, SqlError> {
    value
        .parse()
        .ok()
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| {
            SqlError::input(format!(
                "tierloom.{name} cannot be {value:?}; expected a whole number from 1 to {most}"
            ))
        })
}
