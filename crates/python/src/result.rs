//! Results as Python has them: rows that are still to come, a table of collected rows, a batch.

use super::adapt;
use super::error::{self, Error};
use super::shared::Shared;
use super::stream::{Batches, Exported, Request};
use super::turn;
use super::wait::locked;
use arrow::array::Array;
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_pyarrow::FromPyArrow;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Arc, Mutex};

/// The rows of one statement, which can be read once, as they come.
#[pyclass(frozen, module = "tierloom._native")]
pub struct Rows {
    shared: Arc<Shared>,
    schema: SchemaRef,
    /// What a statement without rows said.
    #[pyo3(get)]
    message: Option<String>,
    state: Mutex<State>,
}

enum State {
    /// Starts with the first read.
    Planned(Request),
    Running(Batches),
    /// Few rows, which were there at once: of EXPLAIN, SHOW and the like.
    Kept(Vec<RecordBatch>),
    /// Read to the end, given to a consumer, or closed.
    Gone,
}

impl Rows {
    pub(super) fn planned(shared: Arc<Shared>, request: Request) -> Rows {
        Rows {
            shared,
            schema: Arc::clone(&request.schema),
            message: None,
            state: Mutex::new(State::Planned(request)),
        }
    }

    pub(super) fn kept(
        shared: Arc<Shared>,
        schema: SchemaRef,
        rows: &[RecordBatch],
        message: Option<String>,
    ) -> PyResult<Rows> {
        let rows = rows.iter().map(|batch| adapt::batch(batch, &schema));
        let rows: Result<Vec<_>, _> = rows.collect();
        Ok(Rows {
            shared,
            state: Mutex::new(State::Kept(rows.map_err(|e| arrow_error(&e))?)),
            schema,
            message,
        })
    }

    /// Takes the state, so that no lock is held while the engine is waited for.
    fn take(&self) -> PyResult<State> {
        match std::mem::replace(&mut *locked(&self.state), State::Gone) {
            State::Gone => Err(Error::new_err(
                "the rows of this result were read, or are being read, or it was closed; run \
                 sql() again",
            )),
            state => Ok(state),
        }
    }

    /// The running statement; `kept` rows are returned instead.
    fn started(&self, py: Python<'_>) -> PyResult<Result<Batches, Vec<RecordBatch>>> {
        match self.take()? {
            State::Planned(request) => {
                let turn = turn::take(py, &self.shared.turns)?;
                Ok(Ok(Batches::start(&self.shared, turn, request)?))
            }
            State::Running(batches) => Ok(Ok(batches)),
            State::Kept(rows) => Ok(Err(rows)),
            State::Gone => Ok(Err(Vec::new())),
        }
    }

    fn put_back(&self, state: State) {
        *locked(&self.state) = state;
    }
}

#[pymethods]
impl Rows {
    /// The next batch; None after the last one.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        match self.started(py)? {
            Ok(mut batches) => {
                let next = batches.next(py)?;
                self.put_back(match next {
                    Some(_) => State::Running(batches),
                    None => State::Kept(Vec::new()),
                });
                Ok(next.map(Batch))
            }
            Err(mut rows) => {
                let next = (!rows.is_empty()).then(|| Batch(rows.remove(0)));
                self.put_back(State::Kept(rows));
                Ok(next)
            }
        }
    }

    /// All rows that were not read yet.
    fn collect(&self, py: Python<'_>) -> PyResult<Table> {
        let mut rows = Vec::new();
        match self.started(py)? {
            Ok(mut batches) => {
                while let Some(batch) = batches.next(py)? {
                    rows.push(batch);
                }
            }
            Err(kept) => {
                self.put_back(State::Kept(kept.clone()));
                rows = kept;
            }
        }
        Ok(Table {
            schema: Arc::clone(&self.schema),
            rows,
        })
    }

    /// Stops the statement if it runs; the rows that were read stay valid.
    fn close(&self, py: Python<'_>) {
        let state = std::mem::replace(&mut *locked(&self.state), State::Gone);
        py.detach(|| drop(state));
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = agreed(&self.schema, requested_schema.as_ref())?;
        match self.started(py)? {
            Ok(batches) => {
                let exported = Exported::new(py, batches.with_schema(schema))?;
                capsule(py, Box::new(exported))
            }
            Err(rows) => {
                let stream = stream(py, schema, &rows);
                self.put_back(State::Kept(rows));
                stream
            }
        }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Names and types of the columns.
    fn columns(&self) -> Vec<(String, String)> {
        let fields = self.schema.fields().iter();
        fields
            .map(|f| (f.name().clone(), f.data_type().to_string()))
            .collect()
    }
}

/// All rows of a result.
#[pyclass(frozen, module = "tierloom._native")]
pub struct Table {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
}

#[pymethods]
impl Table {
    #[getter]
    fn num_rows(&self) -> usize {
        self.rows.iter().map(RecordBatch::num_rows).sum()
    }

    /// The rows as texts, to be shown without a library that reads them; "" for NULL.
    fn texts(&self) -> PyResult<Vec<Vec<String>>> {
        let options = FormatOptions::default().with_null("");
        let mut texts = Vec::new();
        for batch in &self.rows {
            let columns = batch.columns().iter();
            let columns = columns.map(|column| ArrayFormatter::try_new(column, &options));
            let columns = columns.collect::<Result<Vec<_>, _>>();
            let columns = columns.map_err(|e| arrow_error(&e))?;
            let row = |at| {
                columns
                    .iter()
                    .map(move |column| column.value(at).to_string())
            };
            texts.extend((0..batch.num_rows()).map(|at| row(at).collect()));
        }
        Ok(texts)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = agreed(&self.schema, requested_schema.as_ref())?;
        stream(py, schema, &self.rows)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}

/// Some rows of a result.
#[pyclass(frozen, module = "tierloom._native")]
pub struct Batch(RecordBatch);

#[pymethods]
impl Batch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let schema = agreed(&self.0.schema(), requested_schema.as_ref())?;
        let batch = adapt::batch(&self.0, &schema).map_err(|e| arrow_error(&e))?;
        let schema = schema_capsule(py, &batch.schema())?;
        let data = StructArray::from(batch).to_data();
        let array = PyCapsule::new_with_value(py, FFI_ArrowArray::new(&data), c"arrow_array")?;
        Ok((schema, array))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0.schema())
    }
}

/// A schema that a consumer requests, in the form that the import takes.
#[pyclass(frozen)]
struct Requested(Py<PyAny>);

#[pymethods]
impl Requested {
    fn __arrow_c_schema__(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py)
    }
}

/// The columns for a consumer that may request others.
fn agreed(schema: &SchemaRef, requested: Option<&Bound<'_, PyAny>>) -> PyResult<SchemaRef> {
    Ok(match requested {
        Some(requested) => adapt::requested(schema, &wanted(requested)?),
        None => Arc::clone(schema),
    })
}

fn wanted(requested: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let py = requested.py();
    let holder = Bound::new(py, Requested(requested.clone().unbind()))?;
    Schema::from_pyarrow_bound(holder.as_any())
        .map_err(|e| error::input(py, None, format!("requested_schema: {e}")))
}

fn stream<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    rows: &[RecordBatch],
) -> PyResult<Bound<'py, PyCapsule>> {
    let rows: Result<Vec<_>, _> = rows.iter().map(|b| adapt::batch(b, &schema)).collect();
    let rows = rows.map_err(|e| arrow_error(&e))?;
    let rows = rows.into_iter().map(Ok::<_, ArrowError>);
    capsule(py, Box::new(RecordBatchIterator::new(rows, schema)))
}

fn capsule<'py>(
    py: Python<'py>,
    rows: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(rows), c"arrow_array_stream")
}

fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|e| arrow_error(&e))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn arrow_error(error: &ArrowError) -> PyErr {
    Error::new_err(error.to_string())
}
