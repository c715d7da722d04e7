//! The functions of the engine, for the sessions and registries of Ballista.

use ballista_core::registry::BallistaFunctionRegistry;
use ballista_scheduler::SessionBuilder;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;
use tierloom_engine::{Engine, EngineError, EngineOptions};

/// Makes states with the functions of the engine.
///
/// # Errors
/// The engine's, if its threads cannot be started.
pub(crate) fn session_builder() -> Result<SessionBuilder, EngineError> {
    let engine = Engine::new(planning())?;
    let state = engine.context().state();
    Ok(Arc::new(move |config: SessionConfig| {
        let builder = SessionStateBuilder::new_from_existing(state.clone());
        Ok(builder.with_config(config).build())
    }))
}

/// The functions of `engine`, by name.
pub(crate) fn registry_of(engine: &Engine) -> BallistaFunctionRegistry {
    let state = engine.context().state();
    BallistaFunctionRegistry {
        scalar_functions: state.scalar_functions().clone(),
        aggregate_functions: state.aggregate_functions().clone(),
        window_functions: state.window_functions().clone(),
        higher_order_functions: state.higher_order_functions().clone(),
    }
}

/// Options of an engine that plans for other processes: no operator is replaced by one that cannot
/// be sent, and nothing is repartitioned.
pub(crate) fn planning() -> EngineOptions {
    EngineOptions {
        fused: false,
        big_tables: false,
        share_subplans: false,
        routing: None,
        ..EngineOptions::tuned(1)
    }
}
