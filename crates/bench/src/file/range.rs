//! Ranges of numbers in a matrix: `{from: 1, to: 40, steps: 10}`.
//!
//! A range is `from`, `to` and exactly one of `step` (added), `factor` (multiplied) and `steps`
//! (the number of values). It is expanded to the list of values that it represents, in the unit of
//! its key, before the matrix is expanded.

use super::error::{ProblemText, Problems, did_you_mean};
use super::keys::Key;
use super::tree::{Node, Value};
use super::values::{self, rounded};

/// Maximum number of values in one range.
const MAX_VALUES: usize = 10_000;

/// The unit in which the numbers of a key are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Seconds,
    Gbps,
    Real,
    Whole,
    /// A number of tuples, also with K, M or G.
    Count,
}

fn unit(key: &Key) -> Unit {
    match key.name {
        "rate" => Unit::Gbps,
        "run_time" | "warmup" => Unit::Seconds,
        "zipf_alpha" | "load_factor" | "miss_share" | "scale" | "selectivity" => Unit::Real,
        "build_tuples" | "probe_tuples" | "tuples" | "table_buckets" | "fanout" | "groups"
        | "rows_per_thread" => Unit::Count,
        "access_size"
        | "stride"
        | "prefetch_distance"
        | "min_io_batch_size"
        | "memory_region_size"
        | "secondary_memory_region_size"
        | "region_offset"
        | "secondary_region_offset"
        | "explicit_hugepages_size"
        | "secondary_explicit_hugepages_size"
        | "chase_size"
        | "bytes" => Unit::Bytes,
        _ => Unit::Whole,
    }
}

impl Unit {
    fn parse(self, text: &str) -> Result<f64, String> {
        match self {
            Self::Bytes => values::size_bytes(text).map(|bytes| bytes as f64),
            Self::Seconds => values::seconds(text),
            Self::Gbps => values::gbps(text),
            Self::Real => values::number(text),
            Self::Whole => values::whole(text, 0..=1 << 50).map(|number| number as f64),
            Self::Count => values::count(text).map(|count| count as f64),
        }
    }

    fn print(self, number: f64) -> String {
        match self {
            Self::Bytes | Self::Whole | Self::Count => format!("{}", number.round() as u64),
            // Six digits are finer than any of these settings can be resolved.
            _ => rounded(number, 6).to_string(),
        }
    }
}

/// Expands the range that `node` holds into single values, each with the position of the range.
///
/// A node that is not a mapping is returned as the only value; `None` after a problem.
pub(super) fn expand(key: &Key, node: &Node, problems: &mut Problems<'_>) -> Option<Vec<Node>> {
    let Value::Map(entries) = &node.value else {
        return Some(vec![node.clone()]);
    };
    if key.shape != super::keys::Shape::Number {
        let help = "ranges are for keys with a single number; list the values instead";
        problems.push(
            node.place,
            ProblemText::new(format!("{}: expected a value, found a mapping", key.name)).help(help),
        );
        return None;
    }
    match Range::read(unit(key), node, entries, problems)?.values() {
        Ok(values) => Some(
            values
                .into_iter()
                .map(|text| Node::text(text, node.place))
                .collect(),
        ),
        Err(message) => {
            problems.push(node.place, format!("{}: {message}", key.name));
            None
        }
    }
}

struct Range {
    unit: Unit,
    from: f64,
    to: f64,
    step: Option<f64>,
    factor: Option<f64>,
    steps: Option<f64>,
}

impl Range {
    fn read(
        unit: Unit,
        node: &Node,
        entries: &[(Node, Node)],
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        const KEYS: [&str; 5] = ["from", "to", "step", "factor", "steps"];
        let mut numbers = [None; 5];
        for (key, value) in entries {
            let name = key.to_string();
            let Some(index) = KEYS.iter().position(|known| *known == name) else {
                let hint = did_you_mean(&name, KEYS);
                problems.push(
                    key.place,
                    format!(
                        "unknown key `{}` in a range{hint}; a range has from, to, and one of step, factor, steps",
                        values::shown(&name)
                    ),
                );
                return None;
            };
            let parsed = value
                .as_text()
                .ok_or_else(|| format!("expected a number, found {}", value.kind()))
                .and_then(|text| match KEYS[index] {
                    "factor" => values::number(text),
                    "steps" => values::whole(text, 1..=MAX_VALUES as u64).map(|n| n as f64),
                    _ => unit.parse(text),
                });
            match parsed {
                Ok(number) if numbers[index].is_none() => numbers[index] = Some(number),
                Ok(_) => {
                    problems.push(key.place, format!("`{name}` is given twice"));
                    return None;
                }
                Err(message) => {
                    problems.push(value.place, format!("{name}: {message}"));
                    return None;
                }
            }
        }
        let [Some(from), Some(to), step, factor, steps] = numbers else {
            problems.push(
                node.place,
                "a range needs from and to, such as {from: 1, to: 16, factor: 2}",
            );
            return None;
        };
        Some(Self {
            unit,
            from,
            to,
            step,
            factor,
            steps,
        })
    }

    fn values(&self) -> Result<Vec<String>, String> {
        let numbers = self.numbers()?;
        let mut texts: Vec<String> = numbers
            .into_iter()
            // Rounding to whole bytes or threads can give the same value twice in a row.
            .map(|number| self.unit.print(number))
            .collect();
        texts.dedup();
        Ok(texts)
    }

    fn numbers(&self) -> Result<Vec<f64>, String> {
        if self.from > self.to {
            return Err(format!(
                "a range goes up, but from is {} and to is {}",
                self.from, self.to
            ));
        }
        // Repeated addition and powers round: without the tolerance `to` itself could be left out.
        let end = self.to * (1.0 + 1e-9);
        match (self.step, self.factor, self.steps) {
            (Some(step), None, None) if step > 0.0 => {
                let count = ((end - self.from) / step).floor() + 1.0;
                limited(count, |index| self.from + step * index)
            }
            (None, Some(factor), None) if factor > 1.0 && self.from > 0.0 => {
                let count = ((end / self.from).ln() / factor.ln() + 1e-9).floor() + 1.0;
                limited(count, |index| self.from * factor.powf(index))
            }
            (None, None, Some(steps)) => {
                let gap = (self.to - self.from) / (steps - 1.0).max(1.0);
                limited(steps, |index| self.from + gap * index)
            }
            (Some(_), None, None) => Err("step has to be above 0".into()),
            (None, Some(_), None) => Err("factor has to be above 1, and from above 0".into()),
            _ => Err("a range has exactly one of step (added), factor (multiplied) and steps (how many values)".into()),
        }
    }
}

fn limited(count: f64, value: impl Fn(f64) -> f64) -> Result<Vec<f64>, String> {
    // A NaN count fails this test too.
    if !(count >= 1.0 && count <= MAX_VALUES as f64) {
        return Err(format!("a range may have {MAX_VALUES} values at most"));
    }
    Ok((0..count as u32)
        .map(|index| value(f64::from(index)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::{keys, tree};
    use super::*;

    fn texts(key: &str, yaml: &str) -> Result<Vec<String>, String> {
        let sources = ["file".to_owned()];
        let mut problems = Problems::new(&sources);
        let node = tree::read(yaml, 0).unwrap();
        let values = expand(keys::find(key).unwrap(), &node, &mut problems);
        values
            .map(|values| values.iter().map(Node::to_string).collect())
            .ok_or_else(|| problems.into_errors().to_string())
    }

    #[test]
    fn a_range_reaches_its_end_and_not_beyond() {
        let ok = |key, yaml, expected: &[&str]| {
            assert_eq!(texts(key, yaml).unwrap(), expected, "{yaml}");
        };
        ok(
            "threads",
            "{from: 1, to: 16, factor: 2}",
            &["1", "2", "4", "8", "16"],
        );
        ok("threads", "{from: 1, to: 10, step: 4}", &["1", "5", "9"]);
        ok("rate", "{from: 1, to: 4, steps: 4}", &["1", "2", "3", "4"]);
        ok(
            "rate",
            "{from: 500 MB/s, to: 2 GB/s, factor: 2}",
            &["0.5", "1", "2"],
        );
        ok(
            "access_size",
            "{from: 64, to: 1K, factor: 4}",
            &["64", "256", "1024"],
        );
        ok(
            "zipf_alpha",
            "{from: 0.1, to: 0.3, step: 0.1}",
            &["0.1", "0.2", "0.3"],
        );
        ok("threads", "{from: 3, to: 3, steps: 1}", &["3"]);
    }

    #[test]
    fn endless_ranges_are_refused() {
        for yaml in [
            "{from: 1, to: 1000000000, step: 1}",
            "{from: 0, to: 8, factor: 2}",
            "{from: 1, to: 8, factor: 1}",
            "{from: 1, to: 8, step: 0}",
            "{from: 8, to: 1, step: 1}",
            "{from: 1, to: 8}",
            "{from: 1, to: 8, step: 1, steps: 2}",
            "{from: 1, step: 1}",
            "{from: 1, to: 8, stpe: 1}",
            "{from: 1, to: 2, factor: 1.0000000001}",
        ] {
            assert!(texts("threads", yaml).is_err(), "{yaml}");
        }
        assert!(texts("exec_mode", "{from: 1, to: 2, step: 1}").is_err());
    }
}
