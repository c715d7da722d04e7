//! TPC-H and TPC-DS: data from the generator crates as Arrow, and their queries.
