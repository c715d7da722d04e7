//! Tests of the engine that can share a process: one program is linked once, where one for each
//! file took 200 MB of disk and a link each. Those of the adaptive driver and of routing are alone:
//! they time real threads, or replace the allocator.

mod adapt;
mod answers;
mod bigjoin;
mod calendar;

mod capture;
mod code_filters;
#[path = "../common/mod.rs"]
mod common;
mod constant_keys;
mod decimal_floats;
mod distinct_lists;
mod encodings;
mod grouping_sets;
mod join_order;
mod key_types;
mod outer_joins;
mod plans;
mod pooled;
mod quick_rules;
mod running_windows;
mod runtime_filters;
mod semi_joins;
mod several_distinct;
mod shared_subplans;
mod shifted_sums;
mod sorts;
mod star;
mod star_limits;
mod star_values;
mod text_keys;
mod tpc_answers;
mod whole_windows;
mod words;
mod zero_copy;
mod zones;
