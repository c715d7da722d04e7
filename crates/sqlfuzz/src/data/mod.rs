//! Random schemas and data: stars, snowflakes and unrelated tables.

mod columns;
pub mod files;

use crate::rng::Rng;
use crate::table::{FileKind, Table};
use crate::value::Value;
use arrow::datatypes::DataType;
pub use columns::Known;
use columns::{Pool, column, data_type, key_type, keys, references};

/// The class of a type, which decides the expressions that it can be used in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Integers of any width.
    Int,
    /// Floating-point numbers of any width.
    Float,
    /// Decimals of any width.
    Decimal,
    /// Booleans.
    Bool,
    /// Strings of any type.
    Text,
    /// Binary values of any type.
    Bytes,
    /// Dates without a time of day.
    Date,
    /// Timestamps, with or without a time zone.
    Stamp,
    /// Times of day, without a date.
    Time,
    /// The Arrow type Null.
    Null,
}

impl Kind {
    /// The class of a type; of a dictionary, that of its values.
    pub fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Boolean => Kind::Bool,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Kind::Float,
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Kind::Decimal,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Kind::Bytes,
            DataType::Date32 | DataType::Date64 => Kind::Date,
            DataType::Timestamp(..) => Kind::Stamp,
            DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
            DataType::Null => Kind::Null,
            DataType::Dictionary(_, words) => Kind::of(words),
            _ => Kind::Int,
        }
    }
}

/// A table with the properties that the generator relies on.
#[derive(Debug, Clone)]
pub struct KnownTable {
    /// Name of the table or view.
    pub name: String,
    /// Approximate number of rows, to estimate the size of joins.
    pub rows: usize,
    /// Its columns, in order.
    pub columns: Vec<Known>,
}

/// A foreign key: two columns that are meant to be joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Table and column of the foreign key.
    pub from: (String, String),
    /// Table and column of the key.
    pub to: (String, String),
}

/// All tables and foreign keys of a case.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The tables and views that exist.
    pub tables: Vec<KnownTable>,
    /// The foreign keys between them.
    pub links: Vec<Link>,
}

impl World {
    /// The table or view called `name`.
    pub fn table(&self, name: &str) -> Option<&KnownTable> {
        self.tables.iter().find(|t| t.name == name)
    }
}

/// A random schema and its tables with data.
pub fn world(rng: &mut Rng) -> (World, Vec<Table>) {
    let mut made = Made {
        // Half of the schemas have the keys that the fused star join supports.
        plain_keys: rng.chance(50),
        ..Made::default()
    };
    let dimensions = 1 + rng.weighted(&[3.0, 4.0, 3.0, 1.0]);
    let mut links = Vec::new();
    for index in 1..=dimensions {
        let name = format!("d{index}");
        let sub = rng.chance(35).then(|| {
            let sub = format!("s{index}");
            let beyond = rng.chance(25).then(|| {
                let name = format!("u{index}");
                (made.dimension(rng, &name, None), name)
            });
            (made.dimension(rng, &sub, beyond), sub)
        });
        let pool = made.dimension(rng, &name, sub);
        links.push((pool, name));
    }
    made.fact(rng, "f", &links);
    if rng.chance(30) {
        made.fact(rng, "g", &links[..1]);
    }
    if rng.chance(40) {
        made.loose(rng, "r");
    }
    (made.world, made.tables)
}

#[derive(Default)]
struct Made {
    world: World,
    tables: Vec<Table>,
    /// Whether keys are unique integers.
    plain_keys: bool,
}

impl Made {
    /// Adds a dimension that may refer to another one, and returns its keys.
    fn dimension(&mut self, rng: &mut Rng, name: &str, of: Option<(Pool, String)>) -> Pool {
        let rows = match rng.weighted(&[0.05, 0.05, 0.5, 0.35, 0.05]) {
            0 => 0,
            1 => 1,
            2 => rng.range(2, 12) as usize,
            3 => rng.range(12, 80) as usize,
            _ => rng.range(80, 400) as usize,
        };
        let kind = file_kind(rng);
        let key = key_type(rng, kind, self.plain_keys);
        let pool = keys(rng, key, rows, self.plain_keys);
        let mut columns = vec![pool.column(rng, "k")];
        if let Some((target, table)) = of {
            let refers = format!("{table}_k");
            columns.push(references(rng, &refers, kind, &target, rows));
            self.link(name, &refers, &table);
        }
        for index in 0..rng.range(1, 4) {
            let data_type = data_type(rng, kind);
            columns.push(column(rng, &format!("a{index}"), data_type, kind, rows));
        }
        self.add(rng, name, kind, rows, columns);
        pool
    }

    fn fact(&mut self, rng: &mut Rng, name: &str, dimensions: &[(Pool, String)]) {
        let rows = rows(rng);
        let kind = file_kind(rng);
        let mut columns = vec![columns::numbered(rng, "id", kind, rows)];
        for (pool, table) in dimensions {
            let refers = format!("{table}_k");
            columns.push(references(rng, &refers, kind, pool, rows));
            self.link(name, &refers, table);
        }
        for index in 0..rng.range(1, 5) {
            columns.push(columns::measure(rng, &format!("m{index}"), kind, rows));
        }
        for index in 0..rng.range(0, 3) {
            let data_type = data_type(rng, kind);
            columns.push(column(rng, &format!("a{index}"), data_type, kind, rows));
        }
        self.add(rng, name, kind, rows, columns);
    }

    fn loose(&mut self, rng: &mut Rng, name: &str) {
        let rows = rows(rng).min(300);
        let kind = file_kind(rng);
        let columns = (0..rng.range(1, 8))
            .map(|index| {
                let data_type = data_type(rng, kind);
                column(rng, &format!("c{index}"), data_type, kind, rows)
            })
            .collect();
        self.add(rng, name, kind, rows, columns);
    }

    fn link(&mut self, from: &str, column: &str, to: &str) {
        self.world.links.push(Link {
            from: (from.into(), column.into()),
            to: (to.into(), "k".into()),
        });
    }

    fn add(
        &mut self,
        rng: &mut Rng,
        name: &str,
        kind: FileKind,
        rows: usize,
        columns: Vec<(crate::table::Column, Known)>,
    ) {
        let (columns, known) = columns.into_iter().unzip();
        let files = cut(rng, rows);
        let name = name.to_owned();
        self.world.tables.push(KnownTable {
            name: name.clone(),
            rows,
            columns: known,
        });
        self.tables.push(Table {
            name,
            kind,
            columns,
            files,
        });
    }
}

fn rows(rng: &mut Rng) -> usize {
    match rng.weighted(&[0.05, 0.04, 0.2, 0.4, 0.3, 0.01]) {
        0 => 0,
        1 => 1,
        2 => rng.range(2, 30) as usize,
        3 => rng.range(30, 400) as usize,
        4 => rng.range(400, 2_000) as usize,
        _ => rng.range(2_000, 40_000) as usize,
    }
}

fn file_kind(rng: &mut Rng) -> FileKind {
    FileKind::ALL[rng.weighted(&[0.5, 0.15, 0.2, 0.15])]
}

/// Splits `rows` into files and batches, some of which may be empty.
fn cut(rng: &mut Rng, rows: usize) -> Vec<Vec<usize>> {
    let files = 1 + rng.weighted(&[0.7, 0.2, 0.1]);
    let mut left = rows;
    let mut all = Vec::new();
    for file in 0..files {
        let last_file = file + 1 == files;
        let batches = 1 + rng.weighted(&[0.5, 0.25, 0.15, 0.1]);
        let mut sizes = Vec::new();
        for batch in 0..batches {
            let last = last_file && batch + 1 == batches;
            let size = if last { left } else { rng.below(left + 1) };
            left -= size;
            sizes.push(size);
        }
        all.push(sizes);
    }
    all
}

/// A few values of a column, for constants.
pub(crate) fn sample(rng: &mut Rng, values: &[Value]) -> Vec<Value> {
    let some = values.iter().filter(|v| **v != Value::Null);
    let some: Vec<&Value> = some.take(200).collect();
    if some.is_empty() {
        return Vec::new();
    }
    (0..5).map(|_| (*rng.pick(&some)).clone()).collect()
}
