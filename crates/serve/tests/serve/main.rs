//! Real clients of PostgreSQL and Flight SQL against a server in this process: what they get, and
//! what the server survives.

mod dbt;
mod faults;
mod flight;
mod flight_calls;
mod jdbc;
mod keys;
mod libraries;
mod metrics;
mod programs;
mod psql;
mod support;
mod tools;

use std::alloc::System;
use tierloom_memory::router::TierAllocator;

/// As in `tierloom` itself: operator memory can be placed.
#[global_allocator]
static ALLOCATOR: TierAllocator<System> = TierAllocator::new(System);
