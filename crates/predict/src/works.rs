//! Parses the benchmarks that `--work` names.
//!
//! A benchmark is written `probe`, `probe:table_bytes=16GiB,prefetched=true`, or as the path of a
//! YAML or JSON file with the same content. Names and parameters are checked against the model's
//! own types, so a new parameter there needs no change here.

use crate::PredictError;
use serde_json::{Map, Number, Value, json};
use std::path::Path;
use tierloom_calibrate::{Asked, Known, Library, builtin};
use tierloom_model::reference::work::Work;
use tierloom_text::Bytes;

/// Names of all benchmarks; a test checks them against [`Work`].
pub const NAMES: [&str; 15] = [
    "read",
    "write",
    "nt-write",
    "copy",
    "random",
    "chase",
    "build",
    "probe",
    "filter",
    "partition",
    "scan",
    "aggregate",
    "tree",
    "ssb",
    "tpch",
];

/// Parses a name, a name with parameters (`NAME:KEY=VALUE,KEY=VALUE`; sizes may have a
/// unit), or the path of a YAML or JSON file with one of them.
///
/// # Errors
/// Bad input, with the parameter or file at fault and the nearest accepted name.
pub fn parse(text: &str) -> Result<Work, PredictError> {
    let work = if is_path(text) {
        from_file(text)?
    } else {
        from_words(text).map_err(PredictError::input)?
    };
    // Parameters of the right type may still be out of range; only the model checks that.
    work.phases(1)
        .map_err(|e| PredictError::input(format!("--work {text}: {e}")))?;
    Ok(work)
}

/// What the published figures that are checks show about a kind of work ([`Work::name`]), or about
/// all kinds.
///
/// # Errors
/// A run-time failure if a built-in figure cannot be priced; a test prices them all.
pub fn known(kind: Option<&str>, asked: Asked) -> Result<Known, PredictError> {
    let constants = builtin::constants().map_err(PredictError::failed)?;
    let library = Library::builtin(constants).map_err(PredictError::failed)?;
    let files = builtin::figures().map_err(PredictError::failed)?;
    tierloom_calibrate::known(kind, asked, &files, &library).map_err(PredictError::failed)
}

/// Whether this is a file path rather than the name of a built-in benchmark.
pub fn is_path(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or(text);
    name.contains('/')
        || [".yaml", ".yml", ".json"]
            .iter()
            .any(|end| text.ends_with(end))
}

/// The content of the file at `path`, called `what` in the error message.
///
/// # Errors
/// Bad input: it cannot be read.
pub fn read(path: &str, what: &str) -> Result<String, PredictError> {
    std::fs::read_to_string(Path::new(path))
        .map_err(|e| PredictError::input(format!("cannot read {what} {path}: {e}")))
}

fn from_file(path: &str) -> Result<Work, PredictError> {
    let text = read(path, "work")?;
    serde_saphyr::from_str(&text).map_err(|e| {
        PredictError::input(format!(
            "{path}: not a benchmark: {}; expected one key out of {} with its parameters, such as `probe: {{ table_bytes: 16e9 }}`",
            one_line(&e.to_string()),
            NAMES.join(", ")
        ))
    })
}

/// The first line of a parser's message; later ones quote the file.
pub fn one_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default().trim_end()
}

fn from_words(text: &str) -> Result<Work, String> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    let name = name.trim();
    let with = |parameters: &Map<String, Value>| -> Result<Work, serde_json::Error> {
        serde_json::from_value(json!({ name: parameters }))
    };
    if !NAMES.contains(&name) {
        return Err(format!(
            "unknown benchmark {name:?}: {}known are {}, or the path of a YAML file",
            did_you_mean(name, NAMES),
            NAMES.join(", ")
        ));
    }
    let known = keys(name)?;
    let mut given = Map::new();
    for part in parameters.split(',').filter(|p| !p.trim().is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            return Err(format!(
                "--work {text}: {part:?} is no parameter; expected KEY=VALUE with a key out of {}",
                known.join(", ")
            ));
        };
        let (key, value) = (key.trim(), value.trim());
        if !known.iter().any(|k| k == key) {
            return Err(format!(
                "--work {text}: {name} has no parameter {key:?}: {}it has {}",
                did_you_mean(key, known.iter().map(String::as_str)),
                known.join(", ")
            ));
        }
        let parsed = scalar(key, value).map_err(|e| format!("--work {text}: {key}: {e}"))?;
        if given.insert(key.into(), parsed).is_some() {
            return Err(format!("--work {text}: {key} is given twice"));
        }
        // Deserialized after each parameter, so that the error belongs to this parameter.
        with(&given).map_err(|e| format!("--work {text}: {key} cannot be {value:?}: {e}"))?;
    }
    with(&given).map_err(|e| format!("--work {text}: {e}"))
}

/// Names of a benchmark's parameters, taken from its defaults.
fn keys(name: &str) -> Result<Vec<String>, String> {
    let defaults: Result<Work, _> = serde_json::from_value(json!({ name: {} }));
    let all = defaults.and_then(serde_json::to_value);
    let all = all.map_err(|e| format!("--work {name}: {e}"))?;
    let parameters = all.get(name).and_then(Value::as_object);
    Ok(parameters
        .map(|p| p.keys().cloned().collect())
        .unwrap_or_default())
}

/// A number, a boolean, or otherwise a string; sizes (`key` ends in `_bytes`) may have a unit.
fn scalar(key: &str, text: &str) -> Result<Value, String> {
    match text {
        "true" => return Ok(Value::Bool(true)),
        "false" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let number = match text.parse::<f64>() {
        Ok(number) => Some(number),
        Err(_) if key == "bytes" || key.ends_with("_bytes") => {
            let size: Bytes = text.parse().map_err(|e| format!("{e}"))?;
            Some(size.0 as f64)
        }
        Err(_) => None,
    };
    let number = number.and_then(|x| {
        // Counts are whole numbers, however they are written (1e3).
        let whole = x.fract() == 0.0 && (0.0..9e15).contains(&x);
        if whole {
            Some(Number::from(x as u64))
        } else {
            Number::from_f64(x)
        }
    });
    Ok(number.map_or_else(|| Value::String(text.into()), Value::Number))
}

/// "did you mean X? ", or empty if no known word is similar enough.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    tierloom_text::nearest(word, known)
        .map_or_else(String::new, |near| format!("did you mean {near}? "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        match parse(text) {
            Err(PredictError::BadInput(shown)) => shown,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_benchmark_has_a_name_here_and_no_other_is_known() {
        for name in NAMES {
            assert_eq!(parse(name).unwrap().name(), name);
        }
        let unknown = serde_json::from_value::<Work>(json!({ "x": {} })).unwrap_err();
        let shown = unknown.to_string();
        assert_eq!(shown.matches('`').count(), 2 * (NAMES.len() + 1), "{shown}");
    }

    #[test]
    fn parameters_are_numbers_sizes_words_and_truth_values() {
        let Work::Probe(join) = parse("probe:table_bytes=16GiB,rows=1e6,prefetched=true").unwrap()
        else {
            panic!("no probe");
        };
        assert_eq!((join.table_bytes, join.rows), (16.0 * 2f64.powi(30), 1e6));
        assert!(join.prefetched && join.row_bytes == 8.0);
        let Work::Partition(partition) = parse("partition:fanout=1e3").unwrap() else {
            panic!("no partition");
        };
        assert_eq!(partition.fanout, 1000);
        let Work::Ssb(ssb) = parse("ssb:query=q2.1,scale_factor=0.5").unwrap() else {
            panic!("no ssb");
        };
        assert_eq!((ssb.query.as_str(), ssb.scale_factor), ("q2.1", 0.5));
    }

    #[test]
    fn mistakes_are_named_with_what_was_probably_meant() {
        let shown = refusal("prob");
        assert!(shown.contains("did you mean probe?"), "{shown}");
        let shown = refusal("probe:tabel_bytes=1");
        assert!(
            shown.contains("did you mean table_bytes?") && shown.contains("lines_per_row"),
            "{shown}"
        );
        let shown = refusal("partition:fanout=many");
        assert!(shown.contains("fanout cannot be \"many\""), "{shown}");
        assert!(refusal("probe:table_bytes=4Gb").contains("`4Gb` is not a size"));
        assert!(refusal("filter:skip=1.5").contains("skip cannot be"));
        assert!(refusal("probe:rows").contains("KEY=VALUE"));
        assert!(refusal("probe:rows=1,rows=2").contains("given twice"));
        assert!(refusal("scan:selectivity=2").contains("expected a number from 0 to 1"));
        assert!(refusal("nowhere/work.yaml").contains("cannot read work nowhere/work.yaml"));
    }
}
