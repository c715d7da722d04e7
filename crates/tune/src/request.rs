//! What is asked of the model: phases, machines and tiers, as texts; and the answers as one
//! document.

use crate::modelled::{Question, Stamp, Tuned, tune};
use serde::Deserialize;
use std::path::Path;
use tierloom_calibrate::{Asked, Known};
use tierloom_model::reference::work::Work;
use tierloom_model::search::Moved;
use tierloom_model::{Machine, StructureClass, profiles};
use tierloom_predict::{PredictError, Texts, machine, works};
use tierloom_record::{RecordSet, TuneRecord};

use crate::work::USUAL;

/// A question about weights, as the options of `tierloom tune` or a JSON object with the same
/// names; lists may be a single text there.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TuneRequest {
    /// Machine profiles: names or paths of YAML files.
    pub machine: Texts,
    /// Phases; see [`works::parse`].
    pub phases: Texts,
    /// Files that describe phases.
    pub work: Texts,
    /// Names of the tiers to spread over; by default all but memory of another socket.
    pub tiers: Texts,
    /// Structures or classes to spread; by default all.
    pub moved: Texts,
    /// Number of workers; by default one per core.
    pub workers: Option<u32>,
}

/// The best weights of every phase on one machine.
#[derive(Debug, Clone)]
pub struct TunedMachine {
    /// The machine.
    pub machine: Machine,
    /// Workers of every phase.
    pub workers: u32,
    /// Tiers that the data is spread over; without interleaving all is on the first.
    pub tiers: Vec<String>,
    /// One answer per phase. Ranges of the records include what checks of the model miss.
    pub phases: Vec<Tuned>,
}

impl TuneRequest {
    /// Reads a JSON object with the names of the fields.
    ///
    /// # Errors
    /// Bad input: no such object, or an unknown name.
    pub fn from_json(text: &str) -> Result<TuneRequest, PredictError> {
        let request: TuneRequest = serde_json::from_str(text)
            .map_err(|e| PredictError::input(format!("the question is not as expected: {e}")))?;
        if request.workers == Some(0) {
            return Err(PredictError::input("workers is 0; expected at least 1"));
        }
        Ok(request)
    }

    /// The best weights of all phases on all machines.
    ///
    /// # Errors
    /// Bad input: phases, tiers or machines that cannot be.
    pub fn answer(&self, stamp: &Stamp) -> Result<Vec<TunedMachine>, PredictError> {
        if self.machine.0.is_empty() {
            return Err(PredictError::input(format!(
                "on which machine? name one with --machine ({}, or the path of a YAML profile), or measure this one with --measure",
                profiles::builtin_names().join(", ")
            )));
        }
        // All profiles are loaded before the first is tuned.
        let machines = self.machine.0.iter().map(|name| machine::load(name));
        let machines = machines.collect::<Result<Vec<_>, _>>()?;
        let one = |machine| self.answer_on(machine, stamp);
        machines.into_iter().map(one).collect()
    }

    /// The best weights of all phases on `machine`, whatever the request names.
    ///
    /// # Errors
    /// Same as [`TuneRequest::answer`].
    pub fn answer_on(&self, machine: Machine, stamp: &Stamp) -> Result<TunedMachine, PredictError> {
        let works = self.works()?;
        let moved = moved(&self.moved.0)?;
        let tiers = self.tiers_of(&machine)?;
        let workers = machine.workers(self.workers).map_err(PredictError::input)?;
        let one = |(name, work): &(String, Work)| {
            let question = Question {
                machine: &machine,
                name,
                work,
                workers,
                tiers: &tiers,
                moved: moved.clone(),
            };
            let mut tuned = tune(&question, stamp)
                .map_err(|error| PredictError::input(format!("phase {name}: {error}")))?;
            let known = works::known(Some(work.name()), Asked::Gain)?;
            widen(&mut tuned.record, tuned.best.share, &known);
            Ok(tuned)
        };
        let phases = works.iter().map(one).collect::<Result<_, PredictError>>()?;
        Ok(TunedMachine {
            machine,
            workers,
            tiers,
            phases,
        })
    }

    /// The requested tiers; by default all of the machine except memory of another socket, which
    /// that socket's own work needs.
    fn tiers_of(&self, machine: &Machine) -> Result<Vec<String>, PredictError> {
        let known = machine.tiers.iter().map(|tier| tier.name.as_str());
        let tiers: Vec<String> = if self.tiers.0.is_empty() {
            let own = known.clone().filter(|tier| *tier != "remote");
            own.map(str::to_owned).collect()
        } else {
            self.tiers.0.clone()
        };
        if tiers.len() < 2 {
            return Err(PredictError::input(format!(
                "machine {} has nothing to spread over: weights need two tiers, it has {}; name two with --tiers, or another machine",
                machine.name,
                known.collect::<Vec<_>>().join(", ")
            )));
        }
        Ok(tiers)
    }

    /// The requested phases. Each name may occur once, because records are told apart by it.
    ///
    /// # Errors
    /// Bad input: a phase that is none, or named twice.
    pub fn works(&self) -> Result<Vec<(String, Work)>, PredictError> {
        let usual = || USUAL.iter().map(|name| (*name).to_owned()).collect();
        let texts: Vec<String> = if self.phases.0.is_empty() && self.work.0.is_empty() {
            usual()
        } else {
            self.phases.0.iter().chain(&self.work.0).cloned().collect()
        };
        let mut works: Vec<(String, Work)> = Vec::new();
        for text in texts {
            let name = name_of(&text);
            if works.iter().any(|(other, _)| *other == name) {
                return Err(PredictError::input(format!("phase {name} is named twice")));
            }
            works.push((name, works::parse(&text)?));
        }
        Ok(works)
    }
}

/// The argument itself, or for a file its name without folder and extension.
fn name_of(text: &str) -> String {
    let stem = Path::new(text).file_stem();
    match stem.filter(|_| works::is_path(text)) {
        Some(stem) => stem.to_string_lossy().into_owned(),
        None => text.to_owned(),
    }
}

/// What `moved` names: classes if all names are classes, otherwise structures.
fn moved(names: &[String]) -> Result<Moved, PredictError> {
    if names.is_empty() {
        return Ok(Moved::All);
    }
    let class = |name: &String| {
        serde_json::from_value::<StructureClass>(serde_json::Value::String(name.clone())).ok()
    };
    let classes: Vec<StructureClass> = names.iter().filter_map(class).collect();
    match classes.len() {
        0 => Ok(Moved::Structures(names.to_vec())),
        all if all == names.len() => Ok(Moved::Classes(classes)),
        _ => Err(PredictError::input(format!(
            "--moved {}: name structures or classes, not both",
            names.join(",")
        ))),
    }
}

/// Widens the ranges of the gain and of the best share to what the checks of this kind of work
/// miss, and says how well it is known.
fn widen(record: &mut TuneRecord, share: f64, known: &Known) {
    let gain = record.best_rate / record.dram_rate;
    if let Some((low, high)) = &mut record.gain_range {
        (*low, *high) = known.widen(gain, *low, *high);
    }
    if let Some((low, high)) = &mut record.best_share_range {
        (*low, *high) = known.widen_share(share, *low, *high);
    }
    record
        .warnings
        .push(format!("how well gains are known: {known}"));
}

/// The records of the answers as one JSON document, as `tierloom tune --json` prints it.
///
/// # Errors
/// A failure if a figure is not finite.
pub fn document(answers: &[TunedMachine]) -> Result<String, PredictError> {
    let phases = answers.iter().flat_map(|answer| &answer.phases);
    let mut set = RecordSet::default();
    set.tunes.extend(phases.map(|tuned| tuned.record.clone()));
    let value = serde_json::json!({ "records": set.to_records() });
    let text = serde_json::to_string_pretty(&value).map_err(PredictError::failed)?;
    Ok(format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Result<Vec<TunedMachine>, PredictError> {
        let stamp = Stamp {
            made_at: "2026-01-01T00:00:00Z".into(),
            tool_version: "0".into(),
        };
        TuneRequest::from_json(text)?.answer(&stamp)
    }

    #[test]
    fn answers_name_machine_tiers_and_phases() {
        let text = r#"{"machine": "nus24", "phases": ["read", "probe"], "workers": 8}"#;
        let answers = answer(text).unwrap();
        let [nus24] = answers.as_slice() else {
            panic!("not one machine")
        };
        assert_eq!((nus24.workers, nus24.phases.len()), (8, 2));
        assert_eq!(nus24.tiers, ["dram", "cxl"]);
        let told = document(&answers).unwrap();
        assert_eq!(told.matches("\"best_rate\"").count(), 2, "{told}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            (r#"{"phases": "probe"}"#, "on which machine?"),
            (
                r#"{"machine": "nus24", "phases": ["read", "read"]}"#,
                "named twice",
            ),
            (r#"{"machine": "nus24", "tiers": "dram"}"#, "need two tiers"),
            (
                r#"{"machine": "nus24", "moved": ["column", "table"]}"#,
                "not both",
            ),
            (
                r#"{"machine": "nus24", "measure": true}"#,
                "unknown field `measure`",
            ),
            (r#"{"machine": "nus24", "workers": 0}"#, "at least 1"),
        ] {
            let told = answer(text).unwrap_err().to_string();
            assert!(told.contains(part), "{text}: {told}");
        }
    }
}
