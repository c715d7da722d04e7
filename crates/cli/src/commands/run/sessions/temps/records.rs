//! The records of scripts: what was measured here, and what the model says of other machines.

use super::super::output;
use super::price::{Priced, Pricer};
use super::{Ran, Runs, Script};
use crate::commands::run::Temps;
use tierloom_record::{HERE, Provenance, SCHEMA, Spread, TempTablesRecord};

impl Temps<'_> {
    /// The record of what was measured at the place with this index.
    pub(super) fn record(&self, script: &Script, place: usize, runs: &Runs) -> TempTablesRecord {
        let spread = |of: &dyn Fn(&Ran) -> f64| {
            let whole = runs.failed.is_none();
            let values = runs.ran.iter().map(of).collect();
            whole.then(|| Spread::of(values)).flatten()
        };
        let record = self.blank(script, place);
        let Some(last) = runs.ran.last() else {
            return TempTablesRecord {
                failed: runs.failed.clone(),
                ..record
            };
        };
        TempTablesRecord {
            tables: last.tables.clone(),
            make_ms: spread(&|r| r.make_ms),
            query_ms: spread(&|r| r.query_ms),
            script_ms: spread(&|r| r.make_ms + r.query_ms + r.drop_ms),
            bytes_by_place: last.by_place.clone(),
            bytes_by_node: last.by_node.clone(),
            failed: runs.failed.clone(),
            ..record
        }
    }

    /// The record of what was captured, modelled at the place with this index: one time for each
    /// captured execution.
    pub(super) fn modelled(
        &self,
        pricer: &Pricer,
        script: &Script,
        place: usize,
        captured: &Runs,
    ) -> TempTablesRecord {
        let record = TempTablesRecord {
            provenance: Provenance::Modelled,
            machine: pricer.name().to_owned(),
            ..self.blank(script, place)
        };
        let ran = match (&captured.failed, captured.ran.last()) {
            (None, Some(ran)) => ran,
            (failed, _) => {
                let why = failed.as_deref().unwrap_or("it never ran");
                return TempTablesRecord {
                    failed: Some(format!("not captured: {why}")),
                    ..record
                };
            }
        };
        let tables = ran.tables.clone();
        let executions = captured.ran.iter();
        let priced = executions.map(|ran| pricer.price(&ran.work, &ran.tables, place));
        let priced: Vec<Priced> = match priced.collect() {
            Ok(priced) => priced,
            Err(why) => {
                return TempTablesRecord {
                    tables,
                    failed: Some(why),
                    ..record
                };
            }
        };
        let spread = |of: &dyn Fn(&Priced) -> f64| Spread::of(priced.iter().map(of).collect());
        TempTablesRecord {
            tables,
            make_ms: spread(&|p| p.make_ms),
            query_ms: spread(&|p| p.query_ms),
            // Dropping tables moves no data.
            script_ms: spread(&|p| p.make_ms + p.query_ms),
            tiers: priced.last().map_or_else(Vec::new, |p| p.tiers.clone()),
            ..record
        }
    }

    /// A record of no results.
    fn blank(&self, script: &Script, place: usize) -> TempTablesRecord {
        TempTablesRecord {
            schema: SCHEMA.to_owned(),
            provenance: Provenance::Measured,
            made_at: output::now(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            build: crate::output::BUILD.to_owned(),
            workload: self.workload.id().to_owned(),
            scale_factor: self.workload.scale_factor(),
            threads: self.options.threads.and_then(|n| u32::try_from(n).ok()),
            machine: HERE.to_owned(),
            query: script.query.id.to_owned(),
            place: self.places[place].clone(),
            tables: Vec::new(),
            make_ms: None,
            query_ms: None,
            script_ms: None,
            bytes_by_place: Vec::new(),
            bytes_by_node: Vec::new(),
            tiers: Vec::new(),
            failed: None,
        }
    }
}
