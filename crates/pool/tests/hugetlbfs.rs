//! Pools on a real hugetlbfs, which is mounted for the test: root's right, and some free memory.
//!
//! The number of the system's huge pages is raised for the test and put back after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tierloom_pool::{CreateOptions, OpenOptions, Pool, PoolError, ScratchSpec, Spread, TableSpec};

const SETTING: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
/// Huge pages that the test has.
const PAGES: u64 = 12;
const PAGE: u64 = 2 << 20;
/// The pool's own data: one page of lines, and 32 slots of 64 KiB.
const METADATA_PAGES: u64 = 2;

fn count(name: &str) -> Option<u64> {
    let text = fs::read_to_string(Path::new(SETTING).join(name)).ok()?;
    text.trim().parse().ok()
}

/// A mounted hugetlbfs with [`PAGES`] free pages; unmounted when it is dropped, with the setting as
/// it was.
struct Huge {
    folder: tempfile::TempDir,
    setting: u64,
}

impl Huge {
    /// `None`, with a note, where this is not possible.
    fn mount(options: &str) -> Option<Self> {
        let nothing = |why: String| {
            tierloom_testing::checked_nothing(why);
            None
        };
        let (Some(setting), Some(free), Some(promised)) = (
            count("nr_hugepages"),
            count("free_hugepages"),
            count("resv_hugepages"),
        ) else {
            return nothing("this system has no huge pages of 2 MiB".to_owned());
        };
        let folder = tempfile::tempdir().expect("a folder");
        let mount = Command::new("mount")
            .args(["-t", "hugetlbfs", "-o", options, "none"])
            .arg(folder.path())
            .output();
        match mount {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                return nothing(format!("a hugetlbfs cannot be mounted: {}", why.trim()));
            }
            Err(error) => return nothing(format!("a hugetlbfs cannot be mounted: {error}")),
        }
        let huge = Self { folder, setting };
        // So many that exactly PAGES can be had, whatever others have.
        let wanted = setting - (free - promised) + PAGES;
        if let Err(error) = fs::write(Path::new(SETTING).join("nr_hugepages"), wanted.to_string()) {
            return nothing(format!(
                "the number of huge pages cannot be changed: {error}"
            ));
        }
        match count("nr_hugepages") {
            Some(now) if now == wanted => Some(huge),
            _ => nothing(format!("the system could not make {PAGES} huge pages")),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Huge {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.folder.path()).status();
        let setting = Path::new(SETTING).join("nr_hugepages");
        let restored = fs::write(setting, self.setting.to_string());
        if !std::thread::panicking() {
            assert!(unmounted.is_ok_and(|status| status.success()));
            restored.expect("the setting is as before");
        }
    }
}

fn available() -> u64 {
    count("free_hugepages").unwrap() - count("resv_hugepages").unwrap()
}

fn table(name: &str, bytes: u64) -> TableSpec {
    TableSpec {
        name: name.to_owned(),
        data_bytes: bytes,
        content_bytes: 100,
        spread: Spread::Pack,
    }
}

fn load(pool: &Pool, name: &str, bytes: u64, value: u8) -> Result<(), PoolError> {
    let mut draft = pool.reserve(&table(name, bytes))?;
    draft.bytes_mut().fill(value);
    draft.seal(&json!({}), b"")
}

/// One test, since all need the one setting.
#[test]
fn pools_on_huge_pages_never_touch_one_that_is_not_there_and_give_back_what_they_free() {
    let Some(huge) = Huge::mount("pagesize=2M") else {
        return;
    };
    lengths_are_whole_pages(&huge);
    tables_last_and_pages_come_back(&huge);
    too_few_pages_are_an_error(&huge);
    a_shorter_file_is_an_error_of_its_reader(&huge);
    drop(huge);
    let Some(huge) = Huge::mount("pagesize=2M,size=8M") else {
        return;
    };
    the_limit_of_the_file_system_is_told_from_missing_pages(&huge);
}

fn create(path: &Path, file_bytes: u64) -> Result<Pool, PoolError> {
    let options = CreateOptions {
        file_bytes,
        ..CreateOptions::default()
    };
    Pool::create(path, &[], &options, &OpenOptions::default())
}

fn lengths_are_whole_pages(huge: &Huge) {
    let path = huge.path("odd");
    // 9 pages and a part of one, which hugetlbfs refuses.
    let pool = create(&path, 9 * PAGE + 4097).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 9 * PAGE);
    assert_eq!(pool.space().capacity_bytes, (9 - METADATA_PAGES) * PAGE);
    assert_eq!(available(), PAGES - METADATA_PAGES, "only what is used");
    pool.grow_member(0, 20 * PAGE + 1).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 20 * PAGE);
    assert_eq!(pool.space().capacity_bytes, (20 - METADATA_PAGES) * PAGE);
    let further = CreateOptions {
        file_bytes: 3 * PAGE + 1,
        ..CreateOptions::default()
    };
    pool.add_member(&huge.path("further"), &further).unwrap();
    pool.shrink_member(0, 8 * PAGE + 1).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 8 * PAGE);
    drop(pool);
    fs::remove_file(path).unwrap();
    fs::remove_file(huge.path("further")).unwrap();
    assert_eq!(available(), PAGES);
}

fn tables_last_and_pages_come_back(huge: &Huge) {
    let path = huge.path("pool");
    let pool = create(&path, 64 * PAGE).unwrap();
    load(&pool, "a", 2 * PAGE, 7).unwrap();
    load(&pool, "b", PAGE, 8).unwrap();
    drop(pool);
    let pool = OpenOptions::default().open(&path).unwrap();
    let a = pool.attach("a").unwrap();
    a.verify_all().unwrap();
    assert!(a.bytes().iter().all(|byte| *byte == 7));
    // Pages of the manifest and its checksums come on top of the data.
    let used = PAGES - available();
    assert_eq!(used, METADATA_PAGES + pool.space().used_bytes / PAGE);
    let scratch = pool.scratch(&ScratchSpec {
        name: "sort".to_owned(),
        bytes: 2 * PAGE,
        most_bytes: 8 * PAGE,
        spread: Spread::Pack,
    });
    let mut scratch = scratch.unwrap();
    scratch.grow(PAGE).unwrap();
    scratch.bytes_mut().fill(9);
    assert_eq!(PAGES - available(), used + 3);
    drop(scratch);
    assert_eq!(PAGES - available(), used, "scratch memory came back");
    drop(a);
    pool.drop_table("a").unwrap();
    pool.drop_table("b").unwrap();
    assert_eq!(PAGES - available(), METADATA_PAGES);
    drop(pool);
    fs::remove_file(path).unwrap();
}

fn too_few_pages_are_an_error(huge: &Huge) {
    let path = huge.path("small");
    let pool = create(&path, 64 * PAGE).unwrap();
    load(&pool, "a", PAGE, 7).unwrap();
    let before = available();
    // More than there are; the file has room for them.
    let error = load(&pool, "b", 30 * PAGE, 8).unwrap_err();
    assert!(matches!(error, PoolError::HugePages { .. }), "{error}");
    assert!(!error.is_bad_input(), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("{SETTING}/nr_hugepages")), "{text}");
    assert!(text.contains(&format!("{before} can be had")), "{text}");
    assert_eq!(available(), before, "nothing is kept");
    // The number in the message suffices.
    let command = text.split("echo ").nth(1).unwrap();
    let wanted: u64 = command.split(' ').next().unwrap().parse().unwrap();
    fs::write(Path::new(SETTING).join("nr_hugepages"), wanted.to_string()).unwrap();
    if count("nr_hugepages") == Some(wanted) {
        load(&pool, "b", 30 * PAGE, 8).unwrap();
        pool.drop_table("b").unwrap();
    } else {
        tierloom_testing::left_out("the system could not make more huge pages");
    }
    let setting = count("nr_hugepages").unwrap() - available() + before;
    fs::write(Path::new(SETTING).join("nr_hugepages"), setting.to_string()).unwrap();
    let a = pool.attach("a").unwrap();
    a.verify_all().unwrap();
    drop((a, pool));
    fs::remove_file(path).unwrap();
}

fn a_shorter_file_is_an_error_of_its_reader(huge: &Huge) {
    let path = huge.path("cut");
    let pool = create(&path, 8 * PAGE).unwrap();
    load(&pool, "a", 2 * PAGE, 7).unwrap();
    let a = pool.attach("a").unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(METADATA_PAGES * PAGE).unwrap();
    // A touch behind the end is SIGBUS, and there are free pages that do not help.
    let error = a.verify_all().unwrap_err();
    assert!(matches!(error, PoolError::LostPages { .. }), "{error}");
    drop((a, pool));
    fs::remove_file(path).unwrap();
}

fn the_limit_of_the_file_system_is_told_from_missing_pages(huge: &Huge) {
    let path = huge.path("limited");
    let pool = create(&path, 64 * PAGE).unwrap();
    let error = load(&pool, "a", 3 * PAGE, 7).unwrap_err().to_string();
    assert!(error.contains("size="), "{error}");
    assert_eq!(available(), PAGES - METADATA_PAGES, "nothing is kept");
    drop(pool);
    fs::remove_file(path).unwrap();
}
