//! Growth of captured work to the scale factor that figures are modelled for.
//!
//! A server with hundreds of GiB answers a query at scale factor 1 out of its caches, which says
//! nothing about its memory. Work is therefore captured here at a small scale factor and grown
//! before it is priced:
//!
//! ```text
//! tuples of a pass over a table       with the rows of that table
//! CPU time and accesses per tuple     stay: selectivities do not depend on the scale factor
//! bytes of a column                   with its rows and the width of its codes
//! hash table of a join                with the rows that its build side reads
//! look-up table by key                with the rows of the table that the key refers to
//! group table, pass over groups       stay up to a number of groups, beyond it with the data
//! ```

use std::collections::BTreeMap;
use tierloom_model::{Access, Phase, StructureClass};
use tierloom_placement::ColumnUse;
use tierloom_text::Bytes;

/// Estimated bytes of a group with its keys, aggregates and share of the hash table.
const GROUP_BYTES: f64 = 128.0;

/// How the work of a workload grows to another scale factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The scale factor that work grows to.
    pub scale_factor: f64,
    /// Estimated bytes of the tables there.
    pub table_bytes: u64,
    /// Scale factor there over that of the captured data.
    pub factor: f64,
    /// Rows there over rows here, by table.
    pub tables: BTreeMap<String, f64>,
    /// Bytes of a value there over those here, by "table.column"; columns without one stay.
    pub widths: BTreeMap<String, f64>,
    /// Rows there over rows here of the table that a key refers to, by name of the key's column.
    pub keys: BTreeMap<String, f64>,
    /// Aggregations with at most this many groups have as many there.
    pub constant_groups: f64,
}

impl Growth {
    /// The scale factor and the size of the tables: "scale factor 30, tables of about 11.2 GiB".
    pub(crate) fn describe(&self) -> String {
        format!(
            "scale factor {}, tables of about {}",
            self.scale_factor,
            Bytes(self.table_bytes).rounded()
        )
    }

    /// Columns with the sizes and reads that they have there.
    pub fn columns(&self, columns: &[ColumnUse]) -> Vec<ColumnUse> {
        let grown = |column: &ColumnUse| {
            let factor = self.of_column(&column.column);
            ColumnUse {
                column: column.column.clone(),
                size_bytes: (column.size_bytes as f64 * factor) as u64,
                read_bytes: (column.read_bytes as f64 * factor) as u64,
            }
        };
        columns.iter().map(grown).collect()
    }

    /// The phases of a query as they are there.
    ///
    /// `columns` are those of the captured data; `threads` is the number of workers that the phases
    /// were captured with, each of which has a group table.
    pub fn phases(&self, phases: &[Phase], columns: &[ColumnUse], threads: usize) -> Vec<Phase> {
        let constant_bytes = self.constant_groups * GROUP_BYTES * threads as f64;
        let grown = Grown {
            growth: self,
            columns,
            working_set_bytes: self.working_set_bytes(columns),
            constant_bytes,
            passes: phases
                .iter()
                .map(|p| (p.name.as_str(), self.of_pass(p, constant_bytes)))
                .collect(),
        };
        phases.iter().map(|phase| grown.phase(phase)).collect()
    }

    /// Growth of a column's bytes.
    fn of_column(&self, name: &str) -> f64 {
        let table = name.split_once('.').map_or(name, |(table, _)| table);
        let rows = self.tables.get(table).copied().unwrap_or(1.0);
        rows * self.width(name)
    }

    fn width(&self, column: &str) -> f64 {
        self.widths.get(column).copied().unwrap_or(1.0)
    }

    /// Bytes there of all columns that the workload reads.
    fn working_set_bytes(&self, columns: &[ColumnUse]) -> f64 {
        let read = columns.iter().filter(|c| c.read_bytes > 0);
        read.map(|c| c.size_bytes as f64 * self.of_column(&c.column))
            .sum()
    }

    /// Growth of the tuples of a phase.
    fn of_pass(&self, phase: &Phase, constant_bytes: f64) -> f64 {
        let mut accesses = phase.accesses.iter();
        let column = accesses.find(|a| a.class == StructureClass::Column);
        let scanned = column.and_then(|a| a.structure.split_once('.'));
        let name = scanned.map_or(phase.name.as_str(), |(table, _)| table);
        let name = name.strip_prefix("build ").unwrap_or(name);
        if let Some(rows) = self.tables.get(name) {
            return *rows;
        }
        // A pass over intermediate rows: groups, or the rows of a sort.
        let groups = phase.accesses.iter();
        let groups = groups.filter(|a| a.class == StructureClass::GroupTable);
        let grows = match groups.map(|a| a.footprint_bytes).max() {
            Some(bytes) => bytes as f64 > constant_bytes,
            None => phase.tuples > self.constant_groups,
        };
        if grows { self.factor } else { 1.0 }
    }
}

/// The phases of one query while they grow.
struct Grown<'a> {
    growth: &'a Growth,
    columns: &'a [ColumnUse],
    working_set_bytes: f64,
    /// Largest group table whose groups stay.
    constant_bytes: f64,
    /// Growth of the tuples of each phase, by its name: hash tables are named after the phase that
    /// builds them.
    passes: BTreeMap<&'a str, f64>,
}

impl Grown<'_> {
    fn phase(&self, phase: &Phase) -> Phase {
        let pass = self.growth.of_pass(phase, self.constant_bytes);
        let own: f64 = phase
            .accesses
            .iter()
            .filter_map(|a| self.column_bytes(a))
            .sum();
        // As at the capture: between two executions of a query the others read their columns, so a
        // cache keeps a column only if it holds them all.
        let stretch = (self.working_set_bytes / own.max(1.0)).max(1.0);
        let access = |access: &Access| match self.column_bytes(access) {
            Some(bytes) => Access {
                lines_per_tuple: access.lines_per_tuple * self.growth.width(&access.structure),
                footprint_bytes: (bytes * stretch) as u64,
                ..access.clone()
            },
            None => Access {
                footprint_bytes: (access.footprint_bytes as f64 * self.structure(access, pass))
                    as u64,
                ..access.clone()
            },
        };
        Phase {
            tuples: phase.tuples * pass,
            accesses: phase.accesses.iter().map(access).collect(),
            ..phase.clone()
        }
    }

    /// Bytes there of the column that is accessed; `None` for other structures.
    fn column_bytes(&self, access: &Access) -> Option<f64> {
        if access.class != StructureClass::Column {
            return None;
        }
        let mut columns = self.columns.iter();
        let column = columns.find(|c| c.column == access.structure)?;
        Some(column.size_bytes as f64 * self.growth.of_column(&column.column))
    }

    /// Growth of a structure that is no column, accessed in a pass that grows by `pass`.
    fn structure(&self, access: &Access, pass: f64) -> f64 {
        if access.class == StructureClass::GroupTable {
            let grows = access.footprint_bytes as f64 > self.constant_bytes;
            return if grows { self.growth.factor } else { 1.0 };
        }
        let named = |opening: &str| {
            let rest = access.structure.strip_prefix(opening)?;
            rest.strip_suffix(')')
        };
        if let Some(build) = named("hash(") {
            let built = self.passes.get(format!("build {build}").as_str());
            return built.copied().unwrap_or(1.0);
        }
        if let Some(column) = named("lookup(") {
            return self.growth.keys.get(column).copied().unwrap_or(1.0);
        }
        pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ssb;
    use tierloom_model::{Op, Pattern, PhaseKind};

    fn access(structure: &str, class: StructureClass, footprint_bytes: u64) -> Access {
        Access {
            structure: structure.into(),
            class,
            pattern: Pattern::Random,
            op: Op::Read,
            lines_per_tuple: 0.5,
            footprint_bytes,
            simd: false,
        }
    }

    fn phase(name: &str, tuples: f64, accesses: Vec<Access>) -> Phase {
        Phase {
            name: name.into(),
            kind: PhaseKind::Probe,
            tuples,
            compute_ns_per_tuple: 3.0,
            accesses,
        }
    }

    fn columns() -> Vec<ColumnUse> {
        let column = |column: &str, size_bytes| ColumnUse {
            column: column.into(),
            size_bytes,
            read_bytes: size_bytes,
        };
        vec![
            column("lineorder.lo_custkey", 12_000_000),
            column("customer.c_nation", 30_000),
        ]
    }

    /// Passes over a dimension and the fact table, few groups, and a sort of them.
    fn captured() -> Vec<Phase> {
        use StructureClass::{Column, GroupTable, HashTable};
        vec![
            phase(
                "build customer",
                30_000.0,
                vec![
                    access("customer.c_nation", Column, 12_030_000),
                    access("hash(customer)", HashTable, 500_000),
                ],
            ),
            phase(
                "lineorder",
                6_000_000.0,
                vec![
                    access("lineorder.lo_custkey", Column, 12_030_000),
                    access("lookup(lo_custkey)", HashTable, 30_000),
                    access("hash(customer)", HashTable, 500_000),
                    access("groups", GroupTable, 10_000),
                ],
            ),
            phase("sort", 150.0, vec![]),
        ]
    }

    fn grown(scale_factor: f64) -> Vec<Phase> {
        let growth = ssb(1.0, 1).unwrap().growth(scale_factor).unwrap().unwrap();
        growth.phases(&captured(), &columns(), 2)
    }

    #[test]
    fn growing_to_the_same_scale_factor_changes_nothing() {
        assert_eq!(grown(1.0), captured());
    }

    #[test]
    fn passes_and_tables_grow_with_their_rows_and_groups_stay() {
        let [build, probe, sort] = &grown(30.0)[..] else {
            panic!("phases were lost")
        };
        assert_eq!((build.tuples, probe.tuples), (900_000.0, 180_000_000.0));
        assert_eq!(sort.tuples, 150.0);
        let bytes = |phase: &Phase, index: usize| phase.accesses[index].footprint_bytes;
        assert_eq!(bytes(build, 1), 15_000_000);
        assert_eq!((bytes(probe, 1), bytes(probe, 2)), (900_000, 15_000_000));
        assert_eq!(bytes(probe, 3), 10_000, "the nations do not grow");
        // 900,000 customers need three bytes where 30,000 need two.
        assert_eq!(probe.accesses[0].lines_per_tuple, 0.75);
        // All columns that the workload reads compete for the caches.
        assert_eq!(bytes(probe, 0), 540_000_000 + 900_000);
        assert_eq!(bytes(build, 0), 540_000_000 + 900_000);
        assert_eq!(probe.compute_ns_per_tuple, 3.0);
    }
}
