//! Reports: a function without a connection.

use super::error::{self, Error};
use pyo3::prelude::*;
use std::path::PathBuf;
use tierloom_record::RecordSet;
use tierloom_report::{ReportOptions, render};

/// An HTML report of files of records.
#[pyfunction]
#[pyo3(signature = (paths, title=None))]
pub fn report(py: Python<'_>, paths: Vec<PathBuf>, title: Option<String>) -> PyResult<String> {
    let made = py.detach(|| {
        let sets = paths.iter().map(|path| RecordSet::read(path));
        let all = RecordSet::merged(sets.collect::<Result<Vec<_>, _>>()?);
        Ok(render(&all, &ReportOptions { title }))
    });
    let html = made.map_err(|e: tierloom_record::RecordError| error::failure(py, e.into()))?;
    html.map_err(|e| Error::new_err(e.to_string()))
}
