//! Pools of released formats, which every later version must open.
//!
//! An image is a text of the lines of 64 bytes that are not 0: offset and bytes in hexadecimal.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{CreateOptions, OpenOptions, Pool, Spread, TableSpec};

const BYTES: u64 = 12 << 20;

fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden")
}

/// Makes the file of an image.
fn unpack(text: &str, path: &Path) {
    let file = fs::File::create_new(path).unwrap();
    file.set_len(BYTES).unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (offset, bytes) = line.split_once(' ').unwrap();
        let offset = u64::from_str_radix(offset, 16).unwrap();
        let digits = (0..bytes.len()).step_by(2).map(|at| &bytes[at..at + 2]);
        let bytes: Vec<u8> = digits.map(|d| u8::from_str_radix(d, 16).unwrap()).collect();
        file.write_all_at(&bytes, offset).unwrap();
    }
}

fn pack(path: &Path) -> String {
    let mut text =
        "# Lines of 64 bytes of a pool of 12 MiB that are not 0: offset, bytes.\n".to_owned();
    for (number, line) in fs::read(path).unwrap().chunks(64).enumerate() {
        let Some(end) = line.iter().rposition(|byte| *byte != 0) else {
            continue;
        };
        write!(text, "{:x} ", number * 64).unwrap();
        line[..=end]
            .iter()
            .for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

/// The table of an image.
fn data() -> Vec<u8> {
    (0..300).map(|at| at as u8).collect()
}

#[test]
fn pools_of_all_released_formats_are_opened_and_their_tables_are_whole() {
    let mut opened = 0;
    for image in fs::read_dir(images()).unwrap() {
        let image = image.unwrap().path();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("golden.pool");
        unpack(&fs::read_to_string(&image).unwrap(), &path);
        let status = Pool::inspect(&path).unwrap();
        assert_eq!(status.problems, [""; 0], "{}", image.display());
        let pool = OpenOptions::default().open(&path).unwrap();
        assert_eq!(pool.status().uuid, status.uuid);
        let table = pool.attach("orders").unwrap();
        table.verify_all().unwrap();
        assert_eq!(table.bytes(), data());
        assert_eq!((table.version(), table.attachment()), (2, &b"attached"[..]));
        assert_eq!(table.content(), &json!({ "rows": 300, "of": "format 1" }));
        let status = pool.status();
        let regions: Vec<_> = status
            .regions
            .iter()
            .map(|r| (r.name.as_str(), r.readers))
            .collect();
        assert_eq!(regions, [("orders", 1)]);
        drop(table);
        // It can be written as well.
        pool.drop_table("orders").unwrap();
        assert_eq!(pool.space().used_bytes, 0);
        opened += 1;
    }
    assert!(opened > 0);
}

/// Writes the images of the present format, once per format: one that is there stays.
#[test]
#[ignore = "makes files of the repository"]
fn write_the_images_of_this_format() {
    for (name, removes) in [("format-1.txt", false), ("format-1-removed.txt", true)] {
        let target = images().join(name);
        if !target.exists() {
            write_image(&target, removes);
        }
    }
}

/// A pool whose table was replaced once; on a second member that was removed, if it `removes`.
fn write_image(target: &Path, removes: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("golden.pool");
    let options = CreateOptions {
        file_bytes: BYTES,
        ..CreateOptions::default()
    };
    let open = OpenOptions {
        host: Some("golden".to_owned()),
        ..OpenOptions::default()
    };
    let pool = Pool::create(&path, &[], &options, &open).unwrap();
    let mut spread = Spread::Pack;
    if removes {
        let further = folder.path().join("further.pool");
        pool.add_member(&further, &options).unwrap();
        spread = Spread::Member(1);
    }
    let spec = TableSpec {
        name: "orders".to_owned(),
        data_bytes: 300,
        content_bytes: 200,
        spread,
    };
    for _ in 0..2 {
        let mut draft = pool.reserve(&spec).unwrap();
        draft.bytes_mut().copy_from_slice(&data());
        let content = json!({ "rows": 300, "of": "format 1" });
        draft.seal(&content, b"attached").unwrap();
    }
    // A reader and a draft, as a crash leaves them.
    let _kept = (!removes).then(|| {
        let reader = pool.attach("orders").unwrap();
        (reader, pool.reserve(&spec).unwrap())
    });
    if removes {
        pool.remove_member(1).unwrap();
    }
    fs::create_dir_all(images()).unwrap();
    fs::write(target, pack(&path)).unwrap();
}
