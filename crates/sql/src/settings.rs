//! `SET tierloom.*` and `SHOW tierloom.*`.
//!
//! Settings of the engine cannot change while it exists; a new engine replaces it and takes over
//! tables, views and DataFusion's settings.

use super::error::SqlError;
use super::memory;
use super::run::Watch;
use super::session::SqlSession;
use arrow::array::{RecordBatch, StringArray};
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_engine::routing::RoutingOptions;
use tierloom_engine::{Engine, EngineOptions};
use tierloom_memory::PlacementSpec;
use tierloom_memory::router::Class;
use tierloom_model::profiles;
use tierloom_placement::Policy;

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
}

impl SessionSettings {
    pub fn new(engine: EngineOptions, placement: Policy) -> Self {
        SessionSettings {
            engine,
            placement,
            placements: BTreeMap::new(),
            machine: None,
            dram_bytes: None,
        }
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
}

/// Names of all settings, for error messages.
const KNOWN: &str = "tierloom.batch_rows, tierloom.dram_bytes, tierloom.machine, tierloom.memory.CLASS, tierloom.placement, tierloom.placement.TABLE, \
                     tierloom.placement.TABLE.COLUMN, tierloom.routing, tierloom.threads";

impl SqlSession {
    /// Executes `SET tierloom.name = value`.
    pub(super) fn set(
        &mut self,
        name: &[String],
        value: &str,
        watch: &dyn Watch,
    ) -> Result<(), SqlError> {
        let names: Vec<&str> = name.iter().map(String::as_str).collect();
        match names.as_slice() {
            ["threads"] => {
                let allowed = self.topology.limits.cpus_allowed.len().max(1);
                let threads = count("threads", value, 4 * allowed)?;
                self.renew_engine(EngineOptions {
                    threads,
                    ..self.settings.engine.clone()
                })
            }
            ["batch_rows"] => {
                let batch_rows = count("batch_rows", value, MAX_BATCH_ROWS)?;
                self.renew_engine(EngineOptions {
                    batch_rows,
                    ..self.settings.engine.clone()
                })
            }
            ["machine"] => {
                let machine = match value {
                    "none" if self.drive.get().is_some() => {
                        return Err(SqlError::input(
                            "adaptive placement needs a machine profile; SET tierloom.placement to another first",
                        ));
                    }
                    "none" => None,
                    name => {
                        profiles::load(name).map_err(SqlError::input)?;
                        Some(name.to_owned())
                    }
                };
                let before = std::mem::replace(&mut self.settings.machine, machine);
                self.renew_driver()
                    .inspect_err(|_| self.settings.machine = before)
            }
            ["dram_bytes"] => self.set_dram_bytes(value),
            ["memory", class] => {
                if class.eq_ignore_ascii_case(Class::TempTable.name()) {
                    self.check_no_temp_tables("tierloom.memory.temp")?;
                }
                let options = self.settings.engine.routing.clone();
                let options = options.ok_or_else(|| {
                    SqlError::input(
                        "operator memory is not routed; SET tierloom.routing = on first",
                    )
                })?;
                let routing = memory::with_class(options, class, value, &self.topology)?;
                self.renew_engine(EngineOptions {
                    routing: Some(routing),
                    ..self.settings.engine.clone()
                })
            }
            ["routing"] => {
                let routing = match value.to_ascii_lowercase().as_str() {
                    "on" | "true" => self
                        .settings
                        .engine
                        .routing
                        .clone()
                        .or_else(|| Some(RoutingOptions::default())),
                    "off" | "false" => {
                        self.check_no_temp_tables("tierloom.routing")?;
                        None
                    }
                    _ => {
                        return Err(SqlError::input(format!(
                            "tierloom.routing cannot be {value:?}; expected on or off"
                        )));
                    }
                };
                self.renew_engine(EngineOptions {
                    routing,
                    ..self.settings.engine.clone()
                })
            }
            ["placement"] => self.set_placement(value, watch),
            ["placement", table] => self.set_placement_of(table, None, value, watch),
            ["placement", table, column] => {
                self.set_placement_of(table, Some(column), value, watch)
            }
            _ => Err(SqlError::input(format!(
                "there is no setting tierloom.{}; there are {KNOWN}",
                names.join(".")
            ))),
        }
    }

    /// The settings of that name (all if `None`) as rows.
    pub(super) fn show(&self, name: Option<&str>) -> Result<RecordBatch, SqlError> {
        let mut rows = self.settings.rows();
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

    /// Replaces the engine; tables, views and DataFusion's settings are taken over.
    fn renew_engine(&mut self, options: EngineOptions) -> Result<(), SqlError> {
        if let Some(driver) = self.drive.get() {
            // The router is process-wide, so what the driver placed must be undone before it is
            // configured anew.
            driver.restore_operators();
        }
        let engine = Engine::new(options.clone())?;
        let old = std::mem::replace(&mut self.engine, engine);
        let moved = self.take_over(&old);
        match moved {
            Ok(()) => {
                self.settings.engine = options;
                self.renew_driver()
            }
            Err(error) => {
                // The old engine keeps its tables and settings; the process-wide routing was
                // configured anew and is set back.
                self.engine = old;
                if let Some(routing) = &self.engine.options().routing {
                    let _ = tierloom_engine::routing::start(routing);
                }
                Err(error)
            }
        }
    }

    fn take_over(&self, old: &Engine) -> Result<(), SqlError> {
        self.prepare_engine()?;
        let running = |e| SqlError::running(&e);
        let context = self.engine.context().clone();
        let schema = old.context().catalog("datafusion");
        let Some(schema) = schema.and_then(|c| c.schema("public")) else {
            return Ok(());
        };
        self.engine.handle().block_on(async {
            for name in schema.table_names() {
                // System tables belong to the new engine and must not be replaced by the old one's.
                let known = context.table_exist(name.as_str()).map_err(running)?;
                if let (false, Some(table)) = (known, schema.table(&name).await.map_err(running)?) {
                    context
                        .register_table(datafusion::common::TableReference::bare(name), table)
                        .map_err(running)?;
                }
            }
            // In order: a later SET may override an earlier one.
            for statement in &self.set_statements {
                context.sql(statement).await.map_err(running)?;
            }
            for statement in self.prepared.values() {
                // The tables that it names may be gone. Then it stays unknown, as it was on the old
                // engine.
                let _ = context.sql(statement).await;
            }
            Ok(())
        })
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
