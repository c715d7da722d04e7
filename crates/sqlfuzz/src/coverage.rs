//! Counts the operators in the plans of random queries, and derives the weights of query shapes
//! from them.
//!
//! Random SQL rarely plans the operators that are most worth testing. Shapes that produce operators
//! below their target are chosen more often.

use crate::engines::PlanOperators;
use crate::generate::Shape;
use std::collections::BTreeMap;

/// The share of plans that each operator should occur in.
const WANTED: [(&str, f64); 7] = [
    ("star join", 0.2),
    ("star join, snowflake", 0.04),
    ("star join, fact filter", 0.06),
    ("star join, groups", 0.15),
    ("big join", 0.2),
    ("big group-by", 0.15),
    ("filter on codes", 0.3),
];

/// The counts of a run.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// Number of plans that were examined.
    pub plans: u64,
    /// Number of plans with each operator.
    pub operators: BTreeMap<&'static str, u64>,
    /// For each shape, its number of plans and how many have each operator.
    shapes: BTreeMap<Shape, (u64, BTreeMap<&'static str, u64>)>,
    /// The reasons for which aggregations were not fused.
    notes: BTreeMap<String, u64>,
    /// Other events, such as statements by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// Number of refusals, by engine and message.
    pub refusals: BTreeMap<String, u64>,
}

impl Coverage {
    /// Counts the operators in the plan of a query of `shape`.
    pub fn plan(&mut self, shape: Shape, seen: PlanOperators) {
        self.plans += 1;
        let of_shape = self.shapes.entry(shape).or_default();
        of_shape.0 += 1;
        for operator in seen.operators {
            *self.operators.entry(operator).or_default() += 1;
            *of_shape.1.entry(operator).or_default() += 1;
        }
        for note in seen
            .notes
            .into_iter()
            .filter(|n| n.starts_with("not fused"))
        {
            *self.notes.entry(without_names(&note)).or_default() += 1;
        }
    }

    /// Counts one event under the name `what`.
    pub fn event(&mut self, what: &'static str) {
        *self.events.entry(what).or_default() += 1;
    }

    /// Counts one refusal by the engine `who`.
    pub fn refusal(&mut self, who: &str, message: &str) {
        let message = without_names(message.lines().next().unwrap_or_default());
        *self
            .refusals
            .entry(format!("{who}: {message}"))
            .or_default() += 1;
    }

    /// The weight of each shape: larger if its plans have operators that are below their target.
    pub fn weights(&self) -> Vec<f64> {
        let lack = |operator: &str, wanted: f64| {
            let found = self.operators.get(operator).copied().unwrap_or(0) as f64;
            (wanted - found / self.plans.max(1) as f64).max(0.0) / wanted
        };
        let weight = |shape: &Shape| {
            let Some((plans, found)) = self.shapes.get(shape) else {
                return 1.0;
            };
            let share = |operator: &str| {
                found.get(operator).copied().unwrap_or(0) as f64 / (*plans).max(1) as f64
            };
            let gain: f64 = WANTED
                .iter()
                .map(|(o, wanted)| lack(o, *wanted) * share(o))
                .sum();
            // The constant keeps every shape in use.
            0.5 + 3.0 * gain
        };
        Shape::ALL.iter().map(weight).collect()
    }

    /// The counts as text for the end of a run.
    pub fn report(&self) -> String {
        let mut lines = vec![format!("plans looked at: {}", self.plans)];
        let percent = |count: u64| 100.0 * count as f64 / self.plans.max(1) as f64;
        for (operator, count) in &self.operators {
            lines.push(format!(
                "  {operator:<28} {count:>8} {:>5.1}%",
                percent(*count)
            ));
        }
        lines.push("statements:".into());
        lines.extend(
            self.events
                .iter()
                .map(|(what, count)| format!("  {what:<28} {count:>8}")),
        );
        lines.push("aggregations that were not fused, most often because:".into());
        lines.extend(most(&self.notes, 12));
        lines.push("refused, most often:".into());
        lines.extend(most(&self.refusals, 14));
        lines.join("\n")
    }
}

fn most(counts: &BTreeMap<String, u64>, how_many: usize) -> Vec<String> {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    counts.truncate(how_many);
    counts
        .into_iter()
        .map(|(text, count)| format!("  {count:>6}  {text}"))
        .collect()
}

/// A message without names and numbers of one statement, so that similar messages are counted
/// together.
fn without_names(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let particular = word.contains(|c: char| c.is_ascii_digit() || "'\"(@[`".contains(c));
        if particular { "…" } else { word }
    });
    let mut words: Vec<&str> = words.collect();
    words.dedup();
    words.join(" ").chars().take(110).collect()
}
