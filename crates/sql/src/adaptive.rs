//! `SET tierloom.placement = 'adaptive'`: connects a session to the adaptive driver.
//!
//! The driver exists while the policy is adaptive. A change of machine profile, cap or engine
//! replaces it, and what it has learned is lost.

use super::error::SqlError;
use super::session::SqlSession;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_engine::adapt::{Driver, DriverOptions, decisions_batch, decisions_schema};
use tierloom_engine::star::StarExec;
use tierloom_engine::{PlacedScanExec, SystemRows};
use tierloom_model::profiles;
use tierloom_placement::Policy;
use tierloom_text::Bytes;
use tierloom_topology::TierKind;

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
}

impl SqlSession {
    /// Creates a driver for the session as it is now; `None` if `policy` is not adaptive.
    ///
    /// # Errors
    /// Bad input: no machine profile is set, or its first tier does not exist here.
    pub(super) fn driver_for(&self, policy: &Policy) -> Result<Option<Driver>, SqlError> {
        let Policy::Adaptive(budget) = policy else {
            return Ok(None);
        };
        let Some(name) = &self.settings.machine else {
            return Err(SqlError::input(format!(
                "placement {policy} begins with a profile of this machine, and none is set; SET tierloom.machine = 'NAME' first (`tierloom machines` lists them)"
            )));
        };
        let machine = profiles::load(name).map_err(SqlError::input)?;
        let options = DriverOptions::for_engine(
            machine,
            (*self.topology).clone(),
            &self.settings.engine,
            *budget,
            self.settings.dram_bytes,
        );
        let driver = Driver::new(self.placed_tables(), options);
        driver.map(Some).map_err(SqlError::input)
    }

    /// Replaces the driver after a change of what it was created with. What it has learned is lost.
    pub(super) fn renew_driver(&self) -> Result<(), SqlError> {
        if self.drive.get().is_some() {
            self.drive.set(self.driver_for(&self.settings.placement)?);
        }
        Ok(())
    }

    /// Informs the driver of new or dropped tables.
    pub(super) fn drive_tables(&self) -> Result<(), SqlError> {
        match self.drive.get() {
            // The mover of a capped driver has its own list of tables, which cannot be changed.
            Some(_) if self.settings.dram_bytes.is_some() => self.renew_driver(),
            Some(driver) => {
                driver.set_tables(self.placed_tables());
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn set_dram_bytes(&mut self, value: &str) -> Result<(), SqlError> {
        let bytes = match value {
            "none" => None,
            text => match text.parse() {
                Ok(Bytes(bytes)) if bytes > 0 => Some(bytes),
                _ => {
                    return Err(SqlError::input(format!(
                        "tierloom.dram_bytes cannot be {value:?}; expected none, or a size above 0 as in 512MiB or 1.5GiB"
                    )));
                }
            },
        };
        if bytes.is_some() && self.topology.tier(TierKind::Cxl).is_none() {
            return Err(SqlError::input(
                "tierloom.dram_bytes: this machine has no cxl tier that columns could go to (see `tierloom topology`; --tiers names tiers yourself)",
            ));
        }
        let before = std::mem::replace(&mut self.settings.dram_bytes, bytes);
        self.renew_driver()
            .inspect_err(|_| self.settings.dram_bytes = before)
    }

    /// A remark for the user after `SET tierloom.placement`.
    pub(super) fn remark(&self, name: &[String]) -> Option<String> {
        let driver = self.drive.get().filter(|_| name == ["placement"])?;
        let why = driver.cannot_move()?;
        Some(format!(
            "everything stays in dram and nothing can be moved here, because {why}"
        ))
    }

    /// The driver, if there is one and `plan` reads placed columns.
    pub(super) fn driver_of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Driver>> {
        self.drive.get().filter(|_| reads_columns(plan))
    }
}

fn reads_columns(plan: &Arc<dyn ExecutionPlan>) -> bool {
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
