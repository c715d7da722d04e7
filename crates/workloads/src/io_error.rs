//! Errors of files with the attempted action.

use crate::WorkloadError;
use std::io;
use std::path::Path;

/// Wraps an error of the operating system with the attempted action and the path.
pub fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkloadError {
    let path = path.to_owned();
    move |cause| WorkloadError::Io {
        action,
        path,
        cause,
    }
}
