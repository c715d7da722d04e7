//! `SET tierloom.*`: applies a new value to the session.
//!
//! Settings of the engine cannot change while it exists; a new engine replaces it and takes over
//! tables, views and DataFusion's settings.

use super::error::SqlError;
use super::run::Watch;
use super::session::SqlSession;
use super::settings::NewValue;
use tierloom_engine::{Engine, EngineOptions};
use tierloom_memory::router::Class;

impl SqlSession {
    /// Executes `SET tierloom.name = value`.
    pub(super) fn set(
        &mut self,
        name: &[String],
        value: &str,
        watch: &dyn Watch,
    ) -> Result<(), SqlError> {
        if let [first, class] = name
            && first == "memory"
            && class.eq_ignore_ascii_case(Class::TempTable.name())
        {
            self.catalog.check_no_temp_tables("tierloom.memory.temp")?;
        }
        let before = self.settings.clone();
        match self.settings.read(name, value, &self.storage.topology)? {
            NewValue::Engine(options) => {
                if options.routing.is_none() {
                    self.catalog.check_no_temp_tables("tierloom.routing")?;
                }
                self.renew_engine(*options)
            }
            NewValue::Machine(None) if self.drive.get().is_some() => Err(SqlError::input(
                "adaptive placement needs a machine profile; SET tierloom.placement to another first",
            )),
            NewValue::Machine(machine) => {
                self.settings.machine = machine;
                self.renew_driver().inspect_err(|_| self.settings = before)
            }
            NewValue::DramBytes(bytes) => {
                self.settings.dram_bytes = bytes;
                self.renew_driver().inspect_err(|_| self.settings = before)
            }
            NewValue::Placement(policy) => self.set_placement(policy, watch),
            NewValue::PlacementOf(table, column) => {
                self.set_placement_of(&table, column.as_deref(), value, watch)
            }
        }
    }

    /// Replaces the engine; tables, views and DataFusion's settings are taken over.
    fn renew_engine(&mut self, options: EngineOptions) -> Result<(), SqlError> {
        if let Some(driver) = self.drive.get() {
            // The router is process-wide, so what the driver placed must be undone before it is
            // configured anew.
            driver.restore_operators();
        }
        let engine = Engine::new(options.clone())?;
        self.catalog.replace_engine(engine, &self.replay)?;
        self.settings.engine = options;
        self.renew_driver()
    }
}
