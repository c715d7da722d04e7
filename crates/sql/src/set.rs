//! `SET tierloom.*`: applies a new value to the session.
//!
//! Settings of the engine cannot change while it exists; a new engine replaces it and takes over
//! tables, views and DataFusion's settings.

use super::error::SqlError;
use super::run::Watch;
use super::session::SqlSession;
use super::settings::NewValue;
use std::sync::Arc;
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
        let new = self.settings.read(name, value, &self.storage.topology)?;
        let new = match new {
            NewValue::Engine(options) if self.served => {
                return self.adjust_engine(*options, watch);
            }
            // It is this session's own, so nobody has to wait for it.
            new @ NewValue::Counters(_) => return self.set_value(new, value, watch),
            new => new,
        };
        let shared = Arc::clone(&self.shared);
        // The memory of the machine changes while no statement runs.
        let _alone = shared.admission.enter(self.served, watch)?;
        self.set_value(new, value, watch)?;
        self.shared.publish(&self.settings);
        Ok(())
    }

    fn set_value(&mut self, new: NewValue, value: &str, watch: &dyn Watch) -> Result<(), SqlError> {
        let before = self.settings.clone();
        match new {
            NewValue::Engine(options) => {
                if options.routing.is_none() {
                    self.catalog.check_no_temp_tables("tierloom.routing")?;
                }
                self.renew_engine(*options)
            }
            NewValue::Counters(mode) => {
                self.settings.counters = mode;
                self.counts.set(mode, &self.storage.topology);
                Ok(())
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

    /// Changes the engine of one of several sessions: threads and batch size are its own, places of
    /// operator memory are those of all.
    fn adjust_engine(
        &mut self,
        mut options: EngineOptions,
        watch: &dyn Watch,
    ) -> Result<(), SqlError> {
        let now = &self.settings.engine;
        if options.routing.is_some() != now.routing.is_some() {
            return Err(SqlError::input(
                "tierloom.routing cannot change while sessions share the engine",
            ));
        }
        if options.routing != now.routing {
            let shared = Arc::clone(&self.shared);
            let _alone = shared.admission.enter(true, watch)?;
            if let Some(driver) = self.drive.get() {
                driver.restore_operators();
            }
            if let Some(routing) = &options.routing {
                tierloom_engine::routing::start(routing)?;
            }
            self.settings.engine.routing = options.routing;
            self.shared.publish(&self.settings);
            return self.renew_driver();
        }
        let engine = self
            .catalog
            .engine()
            .beside(options.threads, options.batch_rows);
        options.threads = engine.options().threads;
        self.replay.run(&engine)?;
        self.catalog.use_engine(engine);
        self.settings.engine = options;
        Ok(())
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
