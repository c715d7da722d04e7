//! The data for the suite's TPC-H files, which the suite itself does not contain.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

/// The scale factor of the expected answers.
const SCALE: f64 = 0.1;

/// Writes the eight tables as text files, with a vertical bar after every value.
pub(crate) fn write_tables(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let write = Writer(folder);
    write.rows("region", RegionGenerator::new(SCALE, 1, 1).iter())?;
    write.rows("nation", NationGenerator::new(SCALE, 1, 1).iter())?;
    write.rows("part", PartGenerator::new(SCALE, 1, 1).iter())?;
    write.rows("supplier", SupplierGenerator::new(SCALE, 1, 1).iter())?;
    write.rows("partsupp", PartSuppGenerator::new(SCALE, 1, 1).iter())?;
    write.rows("customer", CustomerGenerator::new(SCALE, 1, 1).iter())?;
    write.rows("orders", OrderGenerator::new(SCALE, 1, 1).iter())?;
    write.rows("lineitem", LineItemGenerator::new(SCALE, 1, 1).iter())
}

struct Writer<'a>(&'a Path);

impl Writer<'_> {
    fn rows(&self, table: &str, rows: impl Iterator<Item = impl Display>) -> Result<()> {
        let mut file = BufWriter::new(File::create(self.0.join(format!("{table}.tbl")))?);
        for row in rows {
            writeln!(file, "{row}")?;
        }
        file.flush()
    }
}
