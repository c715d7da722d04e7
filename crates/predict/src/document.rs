//! Formats predictions as one JSON document.

use crate::PredictError;
use crate::answer::{PlacementResult, Prediction};
use crate::question::RequestedWork;
use serde_json::{Value, json};
use tierloom_calibrate::Known;
use tierloom_model::Figure;
use tierloom_model::sensitivity::{Contribution, Effect, TermEffect, Uncertainty};
use tierloom_record::Provenance;

/// Name and version of the document's format.
const SCHEMA: &str = "tierloom-prediction/1";

/// The predictions as JSON text.
///
/// # Errors
/// A run-time failure if a figure is not finite.
pub fn json(asked: &RequestedWork, predictions: &[Prediction]) -> Result<String, PredictError> {
    let predictions = predictions.iter().map(|p| prediction(asked, p)).collect();
    document(SCHEMA, asked, predictions)
}

/// A document of any format: what its predictions are for, and they themselves.
///
/// # Errors
/// A run-time failure if a figure is not finite.
pub(crate) fn document(
    schema: &str,
    asked: &RequestedWork,
    predictions: Vec<Value>,
) -> Result<String, PredictError> {
    let document = json!({
        "schema": schema,
        "provenance": Provenance::Modelled,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "work": asked.name,
        "notes": asked.notes,
        "predictions": predictions,
    });
    let text = serde_json::to_string_pretty(&document).map_err(PredictError::failed)?;
    Ok(format!("{text}\n"))
}

fn prediction(asked: &RequestedWork, p: &Prediction) -> Value {
    let mut value = json!({
        "machine": p.machine.name,
        "provenance": Provenance::Modelled,
        "workers": p.workers,
        "terms_off": p.terms_off(),
        "background": p.options.background,
        "tuples": asked.tuples(),
        "tuple": asked.tuple(),
        "bytes_per_tuple": asked.bytes_per_tuple(),
        "result": placed(asked, &p.own),
        "checked": known(&p.known_rate),
    });
    if let Some(versus) = &p.versus {
        value["versus"] = placed(asked, &versus.placed);
        value["gain"] = range(&versus.gain);
    }
    if let Some(gain) = &p.known_gain {
        value["gain_checked"] = known(gain);
    }
    if let Some(effects) = &p.effects {
        value["sensitivity"] = effects.iter().map(effect).collect();
    }
    if let Some(terms) = &p.terms {
        value["terms"] = terms.iter().map(term).collect();
    }
    value
}

fn placed(asked: &RequestedWork, placed: &PlacementResult) -> Value {
    let gbps = |rate: f64| asked.bytes_per_tuple().map(|b| rate * b / 1e9);
    json!({
        "placement": placed.text,
        "tuples_per_s": range(&placed.rate),
        "gbps": gbps(placed.rate.answer),
        "gbps_low": gbps(placed.rate.low),
        "gbps_high": gbps(placed.rate.high),
        "solution": placed.solution,
    })
}

/// What checks show about this kind of work.
fn known(k: &Known) -> Value {
    json!({
        "kind": k.kind,
        "figures": k.figures,
        "median": k.median,
        "worst": k.worst,
        "text": k.to_string(),
    })
}

fn range(u: &Uncertainty) -> Value {
    json!({
        "value": u.answer,
        "low": u.low,
        "high": u.high,
        "doubts": u.contributions.iter().map(contribution).collect::<Vec<_>>(),
    })
}

fn contribution(d: &Contribution) -> Value {
    json!({ "figure": figure(&d.figure), "low": d.low, "high": d.high })
}

fn effect(e: &Effect) -> Value {
    json!({
        "figure": figure(&e.figure),
        "smaller": e.smaller,
        "larger": e.larger,
        "with_smaller": e.down,
        "with_larger": e.up,
        "elasticity": e.elasticity(),
    })
}

fn term(t: &TermEffect) -> Value {
    json!({ "term": t.term, "with": t.with, "without": t.without, "change": t.change() })
}

fn figure(f: &Figure) -> Value {
    json!({
        "path": f.path,
        "label": f.label,
        "value": f.value,
        "unit": f.unit,
        "kind": f.kind,
        "source": f.source,
        "low": f.low,
        "high": f.high,
    })
}
