//! Scale factor and seed, and what follows from them without generating data.

use super::calendar::DATE_ROWS;
use super::schema::{ColumnType, table};
use crate::WorkloadError;
use serde::{Deserialize, Serialize};

/// The smallest scale factor: 20 suppliers, 300 customers and 2,000 parts.
pub const MIN_SCALE_FACTOR: f64 = 0.01;

/// The largest scale factor: 1,500,000 orders for each unit must have dense 32-bit keys.
pub const MAX_SCALE_FACTOR: f64 = 1431.0;

/// Which data to generate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SsbConfig {
    /// Size of the data: 1 is about 6,000,000 lineorder rows (372 MB as columns).
    pub scale_factor: f64,
    /// Seed of all random values; sizes and distributions do not depend on it.
    pub seed: u64,
}

/// Bounds of a column that are known without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnStatistics {
    /// Number of rows of the table: exact for dimensions, expected (four lines per order) for
    /// lineorder.
    pub rows: u64,
    /// Upper bound of the distinct values; `None` without one, as for names and addresses.
    pub distinct: Option<u64>,
    /// Smallest and largest possible value of an integer column; `None` for text.
    pub range: Option<(i64, i64)>,
}

impl SsbConfig {
    /// A configuration with a checked scale factor.
    ///
    /// # Errors
    /// [`WorkloadError::ScaleFactor`] unless `scale_factor` is a number from [`MIN_SCALE_FACTOR`]
    /// to [`MAX_SCALE_FACTOR`].
    pub fn new(scale_factor: f64, seed: u64) -> Result<Self, WorkloadError> {
        let config = Self { scale_factor, seed };
        config.check()?;
        Ok(config)
    }

    /// Checks the scale factor; the fields are public, so generators check it again.
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        // NaN is in no range and so is rejected too.
        if (MIN_SCALE_FACTOR..=MAX_SCALE_FACTOR).contains(&self.scale_factor) {
            return Ok(());
        }
        Err(WorkloadError::ScaleFactor {
            given: self.scale_factor,
            min: MIN_SCALE_FACTOR,
            max: MAX_SCALE_FACTOR,
        })
    }

    /// Number of orders, each of one to seven lineorder rows.
    pub fn orders(&self) -> u64 {
        self.scaled(1_500_000.0)
    }

    /// Number of rows of a table: exact for dimensions, expected for lineorder.
    ///
    /// [`super::Lineorder::rows`] has the exact number.
    ///
    /// # Errors
    /// [`WorkloadError::UnknownTable`] if there is no such table.
    pub fn rows(&self, table_name: &str) -> Result<u64, WorkloadError> {
        Ok(match table(table_name)?.name {
            "customer" => self.customers().into(),
            "supplier" => self.suppliers().into(),
            "part" => self.parts().into(),
            "date" => DATE_ROWS as u64,
            _ => self.orders() * 4,
        })
    }

    /// Statistics for an optimizer: row count, bound of distinct values, and integer range of a
    /// column.
    ///
    /// # Errors
    /// [`WorkloadError::UnknownTable`] if the table, or the column in it, does not exist.
    pub fn column_statistics(
        &self,
        table_name: &str,
        column: &str,
    ) -> Result<ColumnStatistics, WorkloadError> {
        let spec = table(table_name)?;
        let Some(column) = spec.column(column) else {
            let known: Vec<_> = spec.columns.iter().map(|column| column.name).collect();
            return Err(WorkloadError::UnknownTable {
                kind: "column",
                name: format!("{table_name}.{column}"),
                known: known.join(", "),
            });
        };
        let rows = self.rows(table_name)?;
        // Keys are dense from 1, so the row count of the target table is also its largest key.
        let keys = match (column.foreign_key, column.name) {
            (Some(("date", _)), _) | (None, "d_datekey") => None,
            (Some((target, _)), _) => Some(self.rows(target)?),
            (None, "lo_orderkey") => Some(self.orders()),
            (None, _) if column.primary_key && spec.name != "lineorder" => Some(rows),
            _ => None,
        };
        let range = match (column.ty, keys) {
            (ColumnType::Int32, Some(keys)) => Some((1, keys as i64)),
            _ => column.range,
        };
        Ok(ColumnStatistics {
            rows,
            distinct: keys.or(column.distinct).map(|count| count.min(rows)),
            range,
        })
    }

    pub(crate) fn customers(&self) -> u32 {
        self.scaled(30_000.0) as u32
    }

    pub(crate) fn suppliers(&self) -> u32 {
        self.scaled(2_000.0) as u32
    }

    /// Number of parts: 200,000 x (1 + floor(log2 SF)), and proportional to SF below 1.
    pub(crate) fn parts(&self) -> u32 {
        if self.scale_factor < 1.0 {
            self.scaled(200_000.0) as u32
        } else {
            200_000 * (1 + self.scale_factor.log2().floor() as u32)
        }
    }

    fn scaled(&self, at_one: f64) -> u64 {
        (at_one * self.scale_factor).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_scale_factors_are_refused_with_the_allowed_range() {
        for bad in [0.0, -1.0, 0.009_99, 1431.1, f64::NAN, f64::INFINITY] {
            let message = SsbConfig::new(bad, 1).unwrap_err().to_string();
            assert!(
                message.contains("0.01") && message.contains("1431"),
                "{message}"
            );
        }
        assert!(SsbConfig::new(MIN_SCALE_FACTOR, 1).is_ok());
        let largest = SsbConfig::new(MAX_SCALE_FACTOR, 1).unwrap();
        assert!(largest.orders() <= i32::MAX as u64);
    }

    #[test]
    fn cardinalities_follow_the_paper() {
        let rows = |scale_factor: f64| {
            let config = SsbConfig::new(scale_factor, 1).unwrap();
            ["customer", "supplier", "part", "date"].map(|table| config.rows(table).unwrap())
        };
        assert_eq!(rows(0.01), [300, 20, 2_000, 2_556]);
        assert_eq!(rows(0.1), [3_000, 200, 20_000, 2_556]);
        assert_eq!(rows(1.0), [30_000, 2_000, 200_000, 2_556]);
        assert_eq!(rows(3.9), [117_000, 7_800, 400_000, 2_556]);
        assert_eq!(rows(4.0), [120_000, 8_000, 600_000, 2_556]);
        assert_eq!(rows(100.0), [3_000_000, 200_000, 1_400_000, 2_556]);
    }

    #[test]
    fn statistics_bound_keys_by_the_target_table() {
        let config = SsbConfig::new(0.1, 1).unwrap();
        let of = |table, column| config.column_statistics(table, column).unwrap();
        assert_eq!(of("lineorder", "lo_suppkey").distinct, Some(200));
        assert_eq!(of("lineorder", "lo_suppkey").range, Some((1, 200)));
        assert_eq!(of("lineorder", "lo_orderkey").range, Some((1, 150_000)));
        assert_eq!(
            of("lineorder", "lo_orderdate").range,
            Some((19_920_101, 19_981_230))
        );
        assert_eq!(of("lineorder", "lo_linenumber").distinct, Some(7));
        assert_eq!(of("supplier", "s_city").distinct, Some(200));
        assert_eq!(of("supplier", "s_suppkey").distinct, Some(200));
        assert!(
            config
                .column_statistics("supplier", "p_size")
                .unwrap_err()
                .to_string()
                .contains("s_city")
        );
        assert!(
            config
                .rows("orders")
                .unwrap_err()
                .to_string()
                .contains("lineorder")
        );
    }
}
