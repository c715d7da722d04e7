//! Curves: one figure per point, made by inserting the point's value into the figure's mapping.

use crate::yaml::{Mistake, Node, Value};

const AXES: &str =
    "threads, share, background.read_gbps, background.write_gbps or work.PARAMETER (work.skip)";

/// The mapping of a figure with the value `x` on the axis `over`.
///
/// Shares (per cent on the second tier) are not a value of the mapping: the caller applies them.
pub(super) fn at(figure: &Node, over: &Node, x: &Node) -> Result<Node, Mistake> {
    let axis = over.as_text().unwrap_or_default();
    let wrong = |problem: &str| Mistake::new(over.line, problem, AXES).under("over");
    match axis.split_once('.') {
        None if axis == "threads" => Ok(figure.with("threads", x.clone())),
        None if axis == "share" => Ok(figure.clone()),
        Some(("work", parameter)) => {
            let work = figure
                .get("work")
                .ok_or_else(|| wrong("needs a `work` in the figure"))?;
            let (kind, content) = match &work.value {
                Value::Text(kind) => (kind.clone(), Node::map(work.line, Vec::new())),
                Value::Map(entries) if entries.len() == 1 => {
                    let kind = entries[0].0.as_text().unwrap_or_default();
                    (kind.to_owned(), entries[0].1.clone())
                }
                _ => return Err(wrong("needs a `work` of one kind in the figure")),
            };
            let content = content.with(parameter, x.clone());
            Ok(figure.with("work", Node::map(work.line, vec![(&kind, content)])))
        }
        Some(("background", key @ ("read_gbps" | "write_gbps"))) => {
            let Some(Value::List(loads)) = figure.get("background").map(|n| &n.value) else {
                return Err(wrong("needs a `background` in the figure"));
            };
            let loads = loads.iter().map(|load| load.with(key, x.clone()));
            let list = Node {
                line: over.line,
                value: Value::List(loads.collect()),
            };
            Ok(figure.with("background", list))
        }
        _ => Err(wrong(&format!("is {axis:?}"))),
    }
}
