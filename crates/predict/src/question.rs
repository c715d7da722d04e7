//! Reads the work to be predicted: a benchmark, a recorded query, or phases from a file.

use crate::{PredictError, Request, works};
use std::path::Path;
use tierloom_model::reference::work::Work;
use tierloom_model::{ModelError, Phase};
use tierloom_record::RecordSet;

/// The requested work.
pub struct RequestedWork {
    /// Name for the output ("probe", "q1.1 of RECORDS").
    pub name: String,
    /// Source of its phases.
    source: Source,
    /// Remarks that a reader needs to interpret the result.
    pub notes: Vec<String>,
}

enum Source {
    /// A benchmark, whose phases depend on the number of workers.
    Work(Work),
    /// Phases that were captured or written by hand, whatever the number of workers.
    Phases(Vec<Phase>),
}

impl RequestedWork {
    /// Reads the work that `request` names.
    ///
    /// # Errors
    /// Bad input, with the file, query or parameter at fault.
    pub fn of(request: &Request) -> Result<RequestedWork, PredictError> {
        if let Some(text) = &request.work {
            return Ok(RequestedWork {
                name: text.clone(),
                source: Source::Work(works::parse(text)?),
                notes: Vec::new(),
            });
        }
        if let Some(path) = &request.phases {
            return Ok(RequestedWork {
                name: format!("the phases of {path}"),
                source: Source::Phases(phases_of_file(path)?),
                notes: Vec::new(),
            });
        }
        match (&request.query, &request.from) {
            (Some(query), Some(from)) => recorded(query, from),
            _ => Err(PredictError::input(
                "nothing to predict; give --work, --query with --from, or --phases",
            )),
        }
    }

    /// The phases for `workers` workers.
    ///
    /// # Errors
    /// Errors of the model, for impossible parameters.
    pub fn phases(&self, workers: u32) -> Result<Vec<Phase>, ModelError> {
        match &self.source {
            Source::Work(work) => work.phases(workers),
            Source::Phases(phases) => Ok(phases.clone()),
        }
    }

    /// The benchmark, if it is one.
    pub(crate) fn work(&self) -> Option<&Work> {
        match &self.source {
            Source::Work(work) => Some(work),
            Source::Phases(_) => None,
        }
    }

    /// The kind of work, by which published figures are found; `None` for phases.
    pub fn kind(&self) -> Option<&'static str> {
        match &self.source {
            Source::Work(work) => Some(work.name()),
            Source::Phases(_) => None,
        }
    }

    /// The number of tuples that a rate counts: the benchmark's, or those of all phases together.
    pub fn tuples(&self) -> f64 {
        match &self.source {
            Source::Work(work) => work.tuples(),
            Source::Phases(phases) => phases.iter().map(|p| p.tuples).sum(),
        }
    }

    /// What one tuple is, as text.
    pub fn tuple(&self) -> &'static str {
        match &self.source {
            Source::Phases(_) => "one of any phase",
            Source::Work(work) => match work {
                Work::Read(_) | Work::Write(_) | Work::NtWrite(_) | Work::Copy(_) => "a line",
                Work::Random(_) => "an access",
                Work::Chase(_) => "a load",
                Work::Filter(_) | Work::Scan(_) => "a value",
                Work::Tree(_) => "an operation",
                Work::Ssb(_) => "a row of the fact table",
                Work::Tpch(_) => "a row of a pass over a table",
                Work::Build(_) | Work::Probe(_) | Work::Aggregate(_) | Work::Partition(_) => {
                    "a row"
                }
            },
        }
    }

    /// Bytes per tuple for a rate in GB/s, if the benchmark has one.
    pub fn bytes_per_tuple(&self) -> Option<f64> {
        match &self.source {
            Source::Work(work) => work.bytes_per_tuple(),
            Source::Phases(_) => None,
        }
    }
}

/// Checks phases as the model would, but with the file's name in the error.
fn checked(phases: Vec<Phase>, name: &str) -> Result<Vec<Phase>, PredictError> {
    for phase in &phases {
        phase
            .check()
            .map_err(|e| PredictError::input(format!("{name}: {e}")))?;
    }
    if phases.iter().all(Phase::is_idle) {
        return Err(PredictError::input(format!(
            "{name}: no phase does any work (compute time or lines accessed)"
        )));
    }
    Ok(phases)
}

fn phases_of_file(path: &str) -> Result<Vec<Phase>, PredictError> {
    let text = works::read(path, "phases")?;
    // JSON is also YAML, but the JSON parser gives better messages about mistakes in JSON.
    let phases: Result<Vec<Phase>, String> = if path.ends_with(".json") {
        serde_json::from_str(&text).map_err(|e| e.to_string())
    } else {
        serde_saphyr::from_str(&text).map_err(|e| e.to_string())
    };
    let phases = phases.map_err(|e| {
        PredictError::input(format!(
            "{path}: not a list of phases: {}; each needs name, kind, tuples, compute_ns_per_tuple and accesses, as in the `phases` of a recorded query",
            works::one_line(&e)
        ))
    })?;
    checked(phases, path)
}

/// The phases captured from a recorded execution of `query`.
fn recorded(query: &str, from: &Path) -> Result<RequestedWork, PredictError> {
    let set = RecordSet::read(from)?;
    let file = from.display();
    let captured = || {
        let all = set.runs.iter().flat_map(|run| &run.queries);
        all.filter(|q| !q.phases.is_empty())
    };
    let mut known: Vec<&str> = captured().map(|q| q.query.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        return Err(PredictError::input(format!(
            "{file}: no query in it has captured phases; record some with `tierloom run ssb --placement dram --records FILE`"
        )));
    }
    // Records are appended, so the last one is the newest.
    let Some(found) = captured().rfind(|q| q.query == query) else {
        return Err(PredictError::input(format!(
            "{file}: no phases of query {query:?}: {}there are {}",
            works::did_you_mean(query, known.iter().copied()),
            known.join(", ")
        )));
    };
    let name = format!("{query} of run {}", found.run_id);
    let mut notes = vec![format!(
        "the work of {query} was captured from its execution under placement {} on {}; processor time per tuple is that of the machine which ran it",
        found.placement, found.machine
    )];
    if captured().filter(|q| q.query == query).count() > 1 {
        notes.push(format!(
            "{file} holds {query} more than once; the last one is used"
        ));
    }
    Ok(RequestedWork {
        source: Source::Phases(checked(found.phases.clone(), &name)?),
        name,
        notes,
    })
}
