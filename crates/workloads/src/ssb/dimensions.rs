//! Generates the four dimension tables.

use super::calendar::{DATE_ROWS, Day, days};
use super::columns::{ColumnValues, TextColumn, generate_int32};
use super::config::SsbConfig;
use super::rng::{Hierarchy, RandomSequence};
use super::words::{
    ADDRESS_ALPHABET, COLORS, CONTAINER_KINDS, CONTAINER_SIZES, NATIONS, REGIONS, SEGMENTS,
    TYPE_FINISHES, TYPE_METALS, TYPE_SIZES,
};
use crate::WorkloadError;
use std::io::Write;

/// Numbers of the tables in [`RandomSequence::new`]; lineorder is 0.
const CUSTOMER: u32 = 1;
const SUPPLIER: u32 = 2;
const PART: u32 = 3;

/// Numbers of the streams within a dimension; a hierarchy takes three.
const HIERARCHY: u32 = 0;
const ADDRESS: u32 = 3;
const PHONE: u32 = 4;
const SEGMENT: u32 = 5;
const NAME: u32 = 6;
const COLOR: u32 = 7;
const TYPE: u32 = 8;
const SIZE: u32 = 9;
const CONTAINER: u32 = 10;

/// All columns of a dimension table, in the order of its [`super::TableSpec`].
///
/// Large tables are generated in parallel on the current rayon pool.
///
/// # Errors
/// [`WorkloadError::ScaleFactor`] for a configuration out of range, [`WorkloadError::UnknownTable`]
/// for a table that is not a dimension ([`super::Lineorder`] generates lineorder).
pub fn dimension(config: &SsbConfig, table: &str) -> Result<Vec<ColumnValues>, WorkloadError> {
    config.check()?;
    match table {
        "customer" => Ok(customer(config)),
        "supplier" => Ok(supplier(config)),
        "part" => Ok(part(config)),
        "date" => Ok(date()),
        _ => Err(WorkloadError::UnknownTable {
            kind: "dimension table",
            name: table.to_owned(),
            known: "customer, supplier, part, date".to_owned(),
        }),
    }
}

fn text(rows: u32, write: impl Fn(u64, &mut Vec<u8>) + Sync) -> ColumnValues {
    ColumnValues::Text(TextColumn::generate(rows as usize, write))
}

/// Appends formatted text; writing to a `Vec` cannot fail.
fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn customer(config: &SsbConfig) -> Vec<ColumnValues> {
    let rows = config.customers();
    let segment = RandomSequence::new(config.seed, CUSTOMER, SEGMENT);
    let mut columns = business(config.seed, CUSTOMER, "Customer#", rows);
    columns.push(text(rows, move |row, out| {
        out.extend_from_slice(
            SEGMENTS[segment.below(row, SEGMENTS.len() as u32) as usize].as_bytes(),
        );
    }));
    columns
}

fn supplier(config: &SsbConfig) -> Vec<ColumnValues> {
    business(config.seed, SUPPLIER, "Supplier#", config.suppliers())
}

/// The seven columns that customer and supplier share.
///
/// These are key, name, address, city, nation, region and phone.
fn business(seed: u64, table: u32, prefix: &str, rows: u32) -> Vec<ColumnValues> {
    let place = Hierarchy::places(seed, table, HIERARCHY);
    let address = RandomSequence::new(seed, table, ADDRESS);
    let phone = RandomSequence::new(seed, table, PHONE);
    vec![
        generate_int32(rows as usize, |row| row as i32 + 1),
        text(rows, |row, out| {
            append(out, format_args!("{prefix}{:09}", row + 1))
        }),
        text(rows, |row, out| write_address(address, row, out)),
        text(rows, |row, out| {
            // A city is the first nine characters of the nation, padded, and a digit.
            let (region, nation, digit) = place.at(row);
            append(
                out,
                format_args!("{:9.9}{digit}", nation_name(region, nation)),
            );
        }),
        text(rows, |row, out| {
            let (region, nation, _) = place.at(row);
            out.extend_from_slice(nation_name(region, nation).as_bytes());
        }),
        text(rows, |row, out| {
            out.extend_from_slice(REGIONS[place.at(row).0 as usize].as_bytes())
        }),
        text(rows, |row, out| {
            let (region, nation, _) = place.at(row);
            write_phone(phone, row, 10 + region * 5 + nation, out);
        }),
    ]
}

fn nation_name(region: u32, nation: u32) -> &'static str {
    NATIONS[region as usize][nation as usize]
}

/// Writes 10 to 25 characters of the address alphabet.
fn write_address(stream: RandomSequence, row: u64, out: &mut Vec<u8>) {
    // Index row * 4 gives the length; the next three words give ten characters of six bits each.
    let length = 10 + stream.below(row * 4, 16);
    for position in 0..length {
        let word = stream.bits(row * 4 + 1 + u64::from(position / 10));
        out.push(ADDRESS_ALPHABET[((word >> (6 * (position % 10))) & 63) as usize]);
    }
}

/// Writes "CC-AAA-EEE-NNNN"; the country code depends on the nation.
fn write_phone(stream: RandomSequence, row: u64, country: u32, out: &mut Vec<u8>) {
    let area = 100 + stream.below(row * 3, 900);
    let exchange = 100 + stream.below(row * 3 + 1, 900);
    let number = 1000 + stream.below(row * 3 + 2, 9000);
    append(out, format_args!("{country}-{area}-{exchange}-{number}"));
}

fn part(config: &SsbConfig) -> Vec<ColumnValues> {
    let rows = config.parts();
    let stream = |column| RandomSequence::new(config.seed, PART, column);
    let brand = Hierarchy::brands(config.seed, PART, HIERARCHY);
    let (name, color, kind, size, container) = (
        stream(NAME),
        stream(COLOR),
        stream(TYPE),
        stream(SIZE),
        stream(CONTAINER),
    );
    let word =
        |stream: RandomSequence, index| COLORS[stream.below(index, COLORS.len() as u32) as usize];
    vec![
        generate_int32(rows as usize, |row| row as i32 + 1),
        text(rows, |row, out| {
            append(
                out,
                format_args!("{} {}", word(name, row * 2), word(name, row * 2 + 1)),
            )
        }),
        text(rows, |row, out| {
            append(out, format_args!("MFGR#{}", brand.at(row).0 + 1))
        }),
        text(rows, |row, out| {
            let (maker, category, _) = brand.at(row);
            append(out, format_args!("MFGR#{}{}", maker + 1, category + 1));
        }),
        text(rows, |row, out| {
            let (maker, category, leaf) = brand.at(row);
            append(
                out,
                format_args!("MFGR#{}{}{}", maker + 1, category + 1, leaf + 1),
            );
        }),
        text(rows, |row, out| {
            out.extend_from_slice(word(color, row).as_bytes())
        }),
        text(rows, |row, out| {
            let pick = kind.below(row, 150) as usize;
            append(
                out,
                format_args!(
                    "{} {} {}",
                    TYPE_SIZES[pick / 25],
                    TYPE_FINISHES[pick / 5 % 5],
                    TYPE_METALS[pick % 5]
                ),
            );
        }),
        generate_int32(rows as usize, |row| 1 + size.below(row, 50) as i32),
        text(rows, |row, out| {
            let pick = container.below(row, 40) as usize;
            append(
                out,
                format_args!(
                    "{} {}",
                    CONTAINER_SIZES[pick / 8],
                    CONTAINER_KINDS[pick % 8]
                ),
            );
        }),
    ]
}

fn date() -> Vec<ColumnValues> {
    let number = |value: fn(&Day) -> i32| ColumnValues::Int32(days().iter().map(value).collect());
    let words = |write: fn(&Day, &mut Vec<u8>)| {
        text(DATE_ROWS as u32, |row, out| {
            write(&days()[row as usize], out)
        })
    };
    vec![
        number(Day::key),
        words(|day, out| {
            append(
                out,
                format_args!("{} {}, {}", day.month_name(), day.day, day.year),
            )
        }),
        words(|day, out| out.extend_from_slice(day.weekday_name().as_bytes())),
        words(|day, out| out.extend_from_slice(day.month_name().as_bytes())),
        number(|day| day.year),
        number(|day| day.year * 100 + day.month),
        words(|day, out| append(out, format_args!("{:.3}{}", day.month_name(), day.year))),
        number(|day| day.day_of_week),
        number(|day| day.day),
        number(|day| day.day_of_year),
        number(|day| day.month),
        number(Day::week),
        words(|day, out| out.extend_from_slice(day.season().as_bytes())),
        number(|day| i32::from(day.day_of_week == 7)),
        number(|day| i32::from(day.last_in_month)),
        number(|day| i32::from(day.is_holiday())),
        number(|day| i32::from(day.is_weekday())),
    ]
}
