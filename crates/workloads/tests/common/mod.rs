//! Access to generated columns by name, shared by the tests.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::HashMap;
use tierloom_workloads::Silent;
use tierloom_workloads::ssb::{ColumnValues, Lineorder, SsbConfig, TextColumn, dimension, table};

/// The columns of one table.
pub struct Table {
    columns: HashMap<&'static str, ColumnValues>,
}

impl Table {
    pub fn generate(config: &SsbConfig, name: &str) -> Self {
        let values = if name == "lineorder" {
            Lineorder::plan(config)
                .unwrap()
                .to_columns(&Silent)
                .unwrap()
        } else {
            dimension(config, name).unwrap()
        };
        let specs = table(name).unwrap().columns;
        assert_eq!(specs.len(), values.len(), "{name}");
        Self {
            columns: specs.iter().map(|spec| spec.name).zip(values).collect(),
        }
    }

    pub fn values(&self, column: &str) -> &ColumnValues {
        &self.columns[column]
    }

    pub fn ints(&self, column: &str) -> &[i32] {
        self.columns[column].as_int32().unwrap()
    }

    pub fn text(&self, column: &str) -> &TextColumn {
        self.columns[column].as_text().unwrap()
    }

    pub fn rows(&self) -> usize {
        self.columns.values().next().unwrap().len()
    }
}
