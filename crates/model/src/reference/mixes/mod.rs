//! Hand-written phases of known workloads, for placement questions before anything was executed.
//!
//! SSB is in [`crate::reference::ssb`]; TPC-H is here. Phases captured from executions
//! describe one engine more exactly, and can replace these wherever a [`Mix`] is accepted.

mod schema;
mod tpch;

use crate::reference::ssb::lines_touched;
use crate::work::{Access, LINE_BYTES, Op, Phase, PhaseKind, StructureClass};
use std::collections::BTreeMap;
use tpch::{Out, Pipeline};

/// Queries by name, each with its phases.
pub type Mix = Vec<(String, Vec<Phase>)>;

/// Slots of a hash table per entry: open addressing at a load factor of 0.5.
const SLOTS_PER_ENTRY: f64 = 2.0;

/// CPU time of an engine per unit of work, ns, without stalls on memory.
///
/// The default is assumed. With it the 22 queries of TPC-H take 2.2 s of CPU time at scale factor
/// 1, about what DataFusion 55 takes on a core of an AMD Zen 5 (two threads, 50 ms per query in the
/// geometric mean). A faster engine is more often limited by memory, so placement matters more to
/// it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Engine {
    /// Per value read, and again for each full 32 bytes of its width.
    pub value_ns: f64,
    /// Per probe of, or insert into, a hash table.
    pub probe_ns: f64,
    /// Per row aggregated into a group.
    pub group_ns: f64,
}

impl Default for Engine {
    fn default() -> Self {
        Engine {
            value_ns: 2.0,
            probe_ns: 20.0,
            group_ns: 20.0,
        }
    }
}

impl Engine {
    /// The same engine with all CPU times divided by `factor`.
    pub fn faster(self, factor: f64) -> Self {
        Engine {
            value_ns: self.value_ns / factor,
            probe_ns: self.probe_ns / factor,
            group_ns: self.group_ns / factor,
        }
    }
}

/// A column of a workload's tables with its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSize {
    /// Table and column, such as "lineitem.l_orderkey".
    pub column: String,
    /// Size of the column in bytes.
    pub size_bytes: u64,
}

/// All columns of TPC-H at a scale factor, including those that no query reads.
pub fn tpch_columns(scale_factor: f64) -> Vec<ColumnSize> {
    let of = |table: &'static schema::TableSchema| {
        table.columns.iter().map(move |c| ColumnSize {
            column: format!("{}.{}", table.name, c.name),
            size_bytes: (table.rows * scale_factor * c.width) as u64,
        })
    };
    schema::TABLES.iter().flat_map(of).collect()
}

/// The 22 queries of TPC-H at a scale factor, in order, named "q1" to "q22".
///
/// Structures are named "lineitem.l_orderkey", "hash(orders)" and "groups".
pub fn tpch_queries(scale_factor: f64, engine: &Engine) -> Mix {
    let phases = |(name, pipelines): &(&str, &[Pipeline])| {
        let mut tables = BTreeMap::new();
        let of = |p: &Pipeline| phase(p, scale_factor, engine, &mut tables);
        ((*name).to_owned(), pipelines.iter().map(of).collect())
    };
    tpch::QUERIES.iter().map(phases).collect()
}

/// A phase under construction, with the share of rows that passed filters and probes so far.
struct Pass<'a> {
    phase: Phase,
    rows: f64,
    kept: f64,
    engine: &'a Engine,
}

impl Pass<'_> {
    fn read(&mut self, column: &str) {
        let Some((table, width)) = schema::column(column) else {
            return;
        };
        // Scans skip lines without qualifying rows, so narrow columns are read almost whole even
        // under selective filters, wide ones are not.
        let touched = lines_touched(self.kept, LINE_BYTES / width);
        let footprint = (self.rows * width) as u64;
        let name = format!("{}.{column}", table.name);
        let access = Access::sequential_read(name, width * touched, footprint).vectorised();
        self.phase.accesses.push(access);
        self.phase.compute_ns_per_tuple +=
            self.kept * self.engine.value_ns * (1.0 + (width / 32.0).floor());
    }

    fn touch(&mut self, structure: String, bytes: f64, op: Op, class: StructureClass, ns: f64) {
        // One line per access, also where an entry is wider than a line; a table has one line at
        // least.
        let access = Access::probe(structure, self.kept, bytes.max(LINE_BYTES) as u64)
            .with_op(op)
            .with_class(class);
        self.phase.accesses.push(access);
        self.phase.compute_ns_per_tuple += self.kept * ns;
    }
}

fn phase(
    pipeline: &Pipeline,
    scale_factor: f64,
    engine: &Engine,
    tables: &mut BTreeMap<&'static str, f64>,
) -> Phase {
    let table = schema::TABLES.iter().find(|t| t.name == pipeline.table);
    let rows = table.map_or(0.0, |t| t.rows) * scale_factor;
    let kind = match (&pipeline.out, pipeline.probes.is_empty()) {
        (Out::Build(..), _) => PhaseKind::Build,
        (_, false) => PhaseKind::Probe,
        (Out::ManyGroups(_), true) => PhaseKind::Aggregate,
        (_, true) => PhaseKind::Filter,
    };
    let mut pass = Pass {
        phase: Phase::new(pipeline.table, kind, rows),
        rows,
        kept: 1.0,
        engine,
    };
    for (column, share) in pipeline.filters {
        pass.read(column);
        pass.kept *= share;
    }
    for (key, name, share) in pipeline.probes {
        pass.read(key);
        let bytes = tables.get(name).copied().unwrap_or(LINE_BYTES);
        let structure = format!("hash({name})");
        pass.touch(
            structure,
            bytes,
            Op::Read,
            StructureClass::HashTable,
            engine.probe_ns,
        );
        pass.kept *= share;
    }
    for column in pipeline.reads {
        pass.read(column);
    }
    let (groups, update) = (StructureClass::GroupTable, Op::Update);
    match pipeline.out {
        Out::Build(name, entry_bytes) => {
            let bytes = rows * pass.kept * SLOTS_PER_ENTRY * entry_bytes;
            tables.insert(name, bytes);
            let structure = format!("hash({name})");
            pass.touch(
                structure,
                bytes,
                update,
                StructureClass::HashTable,
                engine.probe_ns,
            );
        }
        Out::Groups(count) => {
            pass.touch(
                "groups".into(),
                count * LINE_BYTES,
                update,
                groups,
                engine.group_ns,
            );
        }
        Out::ManyGroups(count) => {
            let bytes = count * scale_factor * SLOTS_PER_ENTRY * 32.0;
            pass.touch("groups".into(), bytes, update, groups, engine.group_ns);
        }
    }
    pass.phase
}

/// Bytes that one round of a mix reads from each column, with the column's size.
///
/// Columns that no query reads are absent.
pub fn column_reads(mix: &Mix) -> BTreeMap<String, (u64, f64)> {
    let mut reads = BTreeMap::new();
    for phase in mix.iter().flat_map(|(_, phases)| phases) {
        let columns = phase.accesses.iter();
        for access in columns.filter(|a| a.class == StructureClass::Column) {
            let entry = reads.entry(access.structure.clone()).or_insert((0, 0.0));
            entry.0 = access.footprint_bytes.max(entry.0);
            entry.1 += phase.tuples * access.lines_per_tuple * LINE_BYTES;
        }
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_column_or_table_does_not_vanish() {
        for (query, pipelines) in &tpch::QUERIES {
            let mut built: Vec<&str> = Vec::new();
            for p in *pipelines {
                let table = schema::TABLES
                    .iter()
                    .find(|t| t.name == p.table)
                    .expect(p.table);
                let filters = p.filters.iter().map(|(c, _)| *c);
                let keys = p.probes.iter().map(|(c, _, _)| *c);
                for column in filters.chain(keys).chain(p.reads.iter().copied()) {
                    let found = schema::column(column);
                    let own = found.is_some_and(|(t, _)| t.name == table.name);
                    assert!(own, "{query}: {column} is no column of {}", p.table);
                }
                for (_, hash, share) in p.probes {
                    assert!(
                        built.contains(hash),
                        "{query}: {hash} is probed before it is built"
                    );
                    assert!((0.0..=1.0).contains(share), "{query}");
                }
                if let Out::Build(name, _) = p.out {
                    built.push(name);
                }
            }
        }
    }

    #[test]
    fn sizes_are_near_those_of_the_generated_data() {
        // The specification's database of scale factor 1 is "approximately 1 GB" of text; plain
        // columns are about as large.
        let bytes: u64 = tpch_columns(1.0).iter().map(|c| c.size_bytes).sum();
        assert!((0.9e9..1.3e9).contains(&(bytes as f64)), "{bytes}");
        let lineitem: u64 = tpch_columns(1.0)
            .iter()
            .filter(|c| c.column.starts_with("lineitem."))
            .map(|c| c.size_bytes)
            .sum();
        assert!(
            lineitem as f64 / bytes as f64 > 0.6,
            "lineitem is most of it"
        );
    }

    #[test]
    fn all_queries_can_be_priced_and_read_less_than_there_is() {
        let mix = tpch_queries(10.0, &Engine::default());
        assert_eq!(mix.len(), 22);
        for (query, phases) in &mix {
            for phase in phases {
                phase.check().unwrap();
                assert!(!phase.is_idle(), "{query}");
                for a in phase
                    .accesses
                    .iter()
                    .filter(|a| a.class == StructureClass::Column)
                {
                    let read = phase.tuples * a.lines_per_tuple * LINE_BYTES;
                    assert!(
                        read <= a.footprint_bytes as f64 * 1.001 + 64.0,
                        "{query}: {a:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_engine_takes_the_processor_time_that_its_documentation_says() {
        let mix = tpch_queries(1.0, &Engine::default());
        let phases = mix.iter().flat_map(|(_, phases)| phases);
        let seconds: f64 = phases
            .map(|p| p.tuples * p.compute_ns_per_tuple / 1e9)
            .sum();
        assert!((2.1..2.3).contains(&seconds), "{seconds}");
    }

    #[test]
    fn the_comment_of_line_items_is_never_read_and_their_ship_date_often() {
        let reads = column_reads(&tpch_queries(1.0, &Engine::default()));
        assert!(!reads.contains_key("lineitem.l_comment"));
        let (size, read) = reads["lineitem.l_shipdate"];
        assert!(read > 6.0 * size as f64, "{read} of {size}");
    }
}
