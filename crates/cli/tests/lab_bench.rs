//! Placeholder while the test is being written.
