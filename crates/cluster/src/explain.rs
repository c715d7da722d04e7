//! What a plan would have nodes do, and where the tables lie that they read.

use crate::map::{ClusterMap, HeldTable};
use crate::spread::{Distributed, NodePlan, text_of};
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::error::ArrowError;
use std::fmt::Write;
use std::sync::Arc;
use tierloom_text::Bytes;

/// What a node has of a table that a node plan reads.
struct TablePart<'a> {
    table: &'a str,
    node: &'a str,
    /// The numbers of its shards; `None` if it has the whole table.
    shards: Option<String>,
    held: &'a HeldTable,
}

fn parts<'a>(plan: &'a NodePlan, map: &'a ClusterMap) -> impl Iterator<Item = TablePart<'a>> {
    plan.header.tables.iter().flat_map(move |table| {
        map.nodes.iter().filter_map(move |(node, state)| {
            let held = state.tables.get(&table.name)?;
            let numbers = || held.rows.keys().map(u32::to_string).collect::<Vec<_>>();
            Some(TablePart {
                table: &table.name,
                node,
                shards: table.sharded.then(|| numbers().join(",")),
                held,
            })
        })
    })
}

/// Who does a final plan.
pub(crate) enum LastOn {
    /// The process that asks the nodes, if they give at most so many bytes of rows.
    Asker(usize),
    OneNode,
    /// In these stages.
    AllNodes(String),
}

/// A plan as text; `on` does its final plan.
pub(crate) fn described(plan: &Distributed, map: &ClusterMap, on: &LastOn) -> String {
    let mut text = String::new();
    // Writing to a text does not fail.
    for (index, node) in plan.nodes.iter().enumerate() {
        let header = &node.header;
        let _ = match header.holders.is_empty() {
            true => writeln!(text, "node plan {}, on one node:", index + 1),
            false => writeln!(
                text,
                "node plan {}, on {} shards where they lie:",
                index + 1,
                header.shards.len()
            ),
        };
        indented(&mut text, &text_of(&node.plan));
        for part in parts(node, map) {
            let TablePart { table, node, .. } = part;
            let shards = part.shards.map(|shards| format!("shards {shards}"));
            let shards = shards.unwrap_or_else(|| "all rows".into());
            let pages = &part.held.pages;
            let _ = writeln!(text, "  {table} on {node}: {shards}; pages: {pages}");
        }
    }
    let Some(last) = &plan.last else {
        text.push_str("no final plan: the rows of the nodes are the answer\n");
        return text;
    };
    let (place, operators) = match on {
        LastOn::Asker(usize::MAX) => ("in this process".into(), text_of(last)),
        LastOn::Asker(most) => {
            let most = Bytes(*most as u64);
            let place = format!("in this process unless its input is more than {most}");
            (place, text_of(last))
        }
        LastOn::OneNode => ("on one node".into(), text_of(last)),
        LastOn::AllNodes(stages) => ("on all nodes".to_owned(), stages.clone()),
    };
    let _ = writeln!(text, "final plan, {place}:");
    indented(&mut text, &operators);
    text
}

fn indented(text: &mut String, lines: &str) {
    for line in lines.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

/// A row for each table of each node plan on each node.
///
/// # Errors
/// Arrow's.
pub(crate) fn placement_of(
    plan: &Distributed,
    map: &ClusterMap,
) -> Result<RecordBatch, ArrowError> {
    let plans = plan.nodes.iter().zip(1_u64..);
    let parts = plans.flat_map(|(plan, number)| parts(plan, map).map(move |part| (number, part)));
    let parts: Vec<(u64, TablePart<'_>)> = parts.collect();
    let texts = |of: &dyn for<'p> Fn(&'p TablePart<'_>) -> &'p str| {
        let texts = parts.iter().map(|(_, part)| Some(of(part)));
        Arc::new(texts.collect::<StringArray>()) as ArrayRef
    };
    let numbers = |of: &dyn Fn(&(u64, TablePart<'_>)) -> u64| {
        Arc::new(parts.iter().map(of).collect::<UInt64Array>()) as ArrayRef
    };
    RecordBatch::try_from_iter([
        ("node_plan", numbers(&|(number, _)| *number)),
        ("table", texts(&|part| part.table)),
        ("node", texts(&|part| part.node)),
        (
            "shards",
            texts(&|part| part.shards.as_deref().unwrap_or("all rows")),
        ),
        ("rows", numbers(&|(_, part)| part.held.rows.values().sum())),
        ("bytes", numbers(&|(_, part)| part.held.size_bytes)),
        ("pages", texts(&|part| &part.held.pages)),
    ])
}
