//! Benchmark tasks on several hosts at once.
