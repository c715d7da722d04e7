//! What is built for tests.

/// Arguments of cargo for all crates with one set of features, so that DataFusion is built once.
pub const EVERYTHING: [&str; 3] = ["--workspace", "--features", "tierloom/serve"];
