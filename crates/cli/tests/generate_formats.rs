//! `tierloom generate --format`: which files appear, and what is refused.

mod common;

use common::refused;
#[cfg(feature = "sql")]
use common::tierloom;

#[test]
#[cfg(feature = "sql")]
fn every_table_is_a_whole_file_of_the_kind_asked_for() {
    let kinds: [(&str, &[u8]); 2] = [("arrow", b"ARROW1"), ("parquet", b"PAR1")];
    for (format, magic) in kinds {
        let folder = tempfile::tempdir().unwrap();
        let args = ["generate", "ssb", "--sf", "0.01", "-o", "data", "--format"];
        let ended = tierloom(folder.path(), &[&args[..], &[format]].concat()).with_code(0);
        assert_eq!(ended.stdout, "");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder.path().join("data")).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            // Both formats begin and end with their magic bytes.
            assert!(
                bytes.starts_with(magic) && bytes.ends_with(magic),
                "{path:?}"
            );
            names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
        names.sort();
        let tables = ["customer", "date", "lineorder", "part", "supplier"];
        assert_eq!(names, tables.map(|table| format!("{table}.{format}")));
    }
}

#[test]
#[cfg(not(feature = "sql"))]
fn a_build_without_the_engine_says_how_to_get_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["generate", "ssb", "--sf", "0.01", "-o", "data"];
    let args = [&args[..], &["--format", "parquet"]].concat();
    refused(folder.path(), &args, &["CSV only", "cargo build --release"]);
}

#[test]
#[cfg(feature = "sql")]
fn a_scale_factor_out_of_range_is_refused_for_every_format() {
    for format in ["csv", "arrow", "parquet"] {
        let folder = tempfile::tempdir().unwrap();
        let args = ["generate", "ssb", "--sf", "0", "-o", "data", "--format"];
        let args = [&args[..], &[format]].concat();
        refused(folder.path(), &args, &["scale factor 0 is out of range"]);
    }
}
