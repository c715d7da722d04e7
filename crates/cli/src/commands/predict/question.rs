//! What is to be priced: a benchmark, a recorded query, or phases from a file.

use super::args::Args;
use crate::failure::Failure;
use crate::works;
use std::path::Path;
use tierloom_model::reference::work::Work;
use tierloom_model::{ModelError, Phase};
use tierloom_record::RecordSet;

/// The work that was asked for.
pub struct Asked {
    /// For people ("probe", "q1.1 of RECORDS").
    pub name: String,
    /// Where its phases come from.
    source: Source,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

enum Source {
    /// A benchmark, whose phases depend on the number of workers.
    Work(Work),
    /// Phases as they are.
    Phases(Vec<Phase>),
}

impl Asked {
    /// Reads what `args` ask for.
    ///
    /// # Errors
    /// Bad input, with the file, query or parameter at fault.
    pub fn of(args: &Args) -> Result<Asked, Failure> {
        if let Some(text) = &args.work {
            return Ok(Asked {
                name: text.clone(),
                source: Source::Work(works::parse(text)?),
                notes: Vec::new(),
            });
        }
        if let Some(path) = &args.phases {
            return Ok(Asked {
                name: format!("the phases of {path}"),
                source: Source::Phases(phases_of_file(path)?),
                notes: Vec::new(),
            });
        }
        match (&args.query, &args.from) {
            (Some(query), Some(from)) => recorded(query, from),
            _ => Err(Failure::input(
                "nothing to predict; give --work, --query with --from, or --phases",
            )),
        }
    }

    /// The phases as `workers` workers run them.
    ///
    /// # Errors
    /// The model's, for impossible parameters.
    pub fn phases(&self, workers: u32) -> Result<Vec<Phase>, ModelError> {
        match &self.source {
            Source::Work(work) => work.phases(workers),
            Source::Phases(phases) => Ok(phases.clone()),
        }
    }

    /// What a rate counts: the benchmark's tuples, or those of all phases together.
    pub fn tuples(&self) -> f64 {
        match &self.source {
            Source::Work(work) => work.tuples(),
            Source::Phases(phases) => phases.iter().map(|p| p.tuples).sum(),
        }
    }

    /// What a tuple is, in words.
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
                Work::Build(_) | Work::Probe(_) | Work::Aggregate(_) | Work::Partition(_) => {
                    "a row"
                }
            },
        }
    }

    /// Bytes per tuple that the benchmark's GB/s counts, if it counts any.
    pub fn bytes_per_tuple(&self) -> Option<f64> {
        match &self.source {
            Source::Work(work) => work.bytes_per_tuple(),
            Source::Phases(_) => None,
        }
    }
}

/// Checks phases as the model would, but names the file.
fn checked(phases: Vec<Phase>, name: &str) -> Result<Vec<Phase>, Failure> {
    for phase in &phases {
        phase
            .check()
            .map_err(|e| Failure::input(format!("{name}: {e}")))?;
    }
    if phases.iter().all(Phase::is_idle) {
        return Err(Failure::input(format!(
            "{name}: no phase does any work (compute time or lines accessed)"
        )));
    }
    Ok(phases)
}

fn phases_of_file(path: &str) -> Result<Vec<Phase>, Failure> {
    let text = works::read(path, "phases")?;
    // JSON is YAML, but the parser of JSON says more about mistakes in JSON.
    let phases: Result<Vec<Phase>, String> = if path.ends_with(".json") {
        serde_json::from_str(&text).map_err(|e| e.to_string())
    } else {
        serde_saphyr::from_str(&text).map_err(|e| e.to_string())
    };
    let phases = phases.map_err(|e| {
        Failure::input(format!(
            "{path}: not a list of phases: {}; each needs name, kind, tuples, compute_ns_per_tuple and accesses, as in the `phases` of a recorded query",
            works::one_line(&e)
        ))
    })?;
    checked(phases, path)
}

/// The phases that were captured from an execution of `query`.
fn recorded(query: &str, from: &Path) -> Result<Asked, Failure> {
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
        return Err(Failure::input(format!(
            "{file}: no query in it has captured phases; record some with `tierloom run ssb --placements dram --records FILE`"
        )));
    }
    // The last run is the newest.
    let Some(found) = captured().rfind(|q| q.query == query) else {
        return Err(Failure::input(format!(
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
    Ok(Asked {
        source: Source::Phases(checked(found.phases.clone(), &name)?),
        name,
        notes,
    })
}
