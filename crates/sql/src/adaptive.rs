//! `SET tierloom.placement = 'adaptive'`: connects a session to the adaptive driver.
//!
//! The driver exists while the policy is adaptive. A change of machine profile, cap or engine
//! replaces it, and what it has learned is lost.

use super::error::SqlError;
use super::settings::SessionSettings;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_engine::adapt::{Driver, DriverOptions, decisions_batch, decisions_schema};
use tierloom_engine::star::StarExec;
use tierloom_engine::{PlacedScanExec, PlacedTable, SystemRows};
use tierloom_model::profiles;
use tierloom_placement::Policy;
use tierloom_topology::Topology;

/// The slot of the session's driver, shared with the system table of its decisions.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedDriver(Arc<Mutex<Option<Arc<Driver>>>>);

impl SharedDriver {
    pub fn get(&self) -> Option<Arc<Driver>> {
        // The value is only replaced as a whole, so a panic elsewhere leaves it consistent.
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.clone()
    }

    pub fn set(&self, driver: Option<Driver>) {
        self.put_back(driver.map(Arc::new));
    }

    pub fn take(&self) -> Option<Arc<Driver>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take()
    }

    pub fn put_back(&self, driver: Option<Arc<Driver>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = driver;
    }

    /// A remark for the user after `SET tierloom.placement`.
    pub fn remark(&self, name: &[String]) -> Option<String> {
        let driver = self.get().filter(|_| name == ["placement"])?;
        if let Some(why) = driver.cannot_move() {
            return Some(format!(
                "everything stays in dram and nothing can be moved here, because {why}"
            ));
        }
        let why = driver.no_latencies()?;
        Some(format!(
            "latencies of the tiers are not measured, so phases move by their times alone: {why}"
        ))
    }

    /// The driver, if there is one and `plan` reads placed columns.
    pub fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Driver>> {
        self.get().filter(|_| reads_columns(plan))
    }
}

/// Creates a driver; `None` if `policy` is not adaptive.
///
/// # Errors
/// Bad input: no machine profile is set, or its first tier does not exist here.
pub(super) fn driver_for(
    policy: &Policy,
    settings: &SessionSettings,
    topology: &Topology,
    tables: Vec<Arc<PlacedTable>>,
) -> Result<Option<Driver>, SqlError> {
    let Policy::Adaptive(budget) = policy else {
        return Ok(None);
    };
    let Some(name) = &settings.machine else {
        return Err(SqlError::input(format!(
            "placement {policy} begins with a profile of this machine, and none is set; SET tierloom.machine = 'NAME' first (`tierloom machines` lists them)"
        )));
    };
    let machine = profiles::load(name).map_err(SqlError::input)?;
    let options = DriverOptions::for_engine(
        machine,
        topology.clone(),
        &settings.engine,
        *budget,
        settings.dram_bytes,
    );
    let driver = Driver::new(tables, options);
    driver.map(Some).map_err(SqlError::input)
}

/// Whether `plan` reads columns of placed tables.
pub(super) fn reads_columns(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<PlacedScanExec>().is_some()
        || plan.downcast_ref::<StarExec>().is_some()
        || plan.children().into_iter().any(reads_columns)
}

/// System table `tierloom_decisions`: a row per phase and run, latest last.
impl SystemRows for SharedDriver {
    fn schema(&self) -> SchemaRef {
        decisions_schema()
    }

    fn rows(&self) -> Result<RecordBatch> {
        let decided = self.get().map(|driver| driver.decisions());
        decisions_batch(&decided.unwrap_or_default())
            .map_err(|e| DataFusionError::External(Box::new(e)))
    }
}
