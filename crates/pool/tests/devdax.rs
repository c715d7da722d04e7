//! Pools on a real DAX device, which is resized: in a guest with a CXL device.
//!
//! The tests that need the device are ignored; the one that is not runs them in the guest
//! (`TIERLOOM_LAB=skip` skips it).

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tierloom_lab::{GuestKind, GuestOptions, GuestStep, run_tests_in_guest};
use tierloom_pool::capacity::{CapacitySource, DaxSource};
use tierloom_pool::{CreateOptions, OpenOptions, Pool, PoolError, Spread, TableSpec};
use tierloom_topology::SysRoot;

const DEVICE: &str = "/dev/dax0.0";
const SIZE: &str = "/sys/bus/dax/devices/dax0.0/size";
const MIB: u64 = 1 << 20;
/// Of the device at first.
const DEVICE_BYTES: u64 = 256 * MIB;
/// The pool's own data: lines, and 32 slots of 64 KiB.
const METADATA: u64 = 4 * MIB;

#[test]
fn devices_are_resized_in_a_guest_with_one() {
    let mut options = GuestOptions::new(GuestKind::CxlDevdax);
    options.dram_bytes = 768 * MIB;
    options.slow_bytes = DEVICE_BYTES;
    let steps = [
        GuestStep::Test("a_device_shrinks_after_its_tables_moved_and_grows_with_all_of_them"),
        GuestStep::Test("a_device_that_somebody_uses_keeps_its_size_and_its_user"),
        GuestStep::Test("a_device_that_the_system_made_longer_is_taken"),
        GuestStep::Test("a_device_that_appears_is_found_and_added_once"),
    ];
    run_tests_in_guest(options, &steps);
}

fn options() -> OpenOptions {
    OpenOptions {
        host: Some("a".to_owned()),
        ..OpenOptions::default()
    }
}

fn create() -> Pool {
    let create = CreateOptions {
        overwrite: true,
        ..CreateOptions::default()
    };
    Pool::create(Path::new(DEVICE), &[], &create, &options()).unwrap()
}

fn device_bytes() -> u64 {
    fs::read_to_string(SIZE).unwrap().trim().parse().unwrap()
}

fn load(pool: &Pool, name: &str, mib: u64, value: u8) {
    let spec = TableSpec {
        name: name.to_owned(),
        data_bytes: mib * MIB,
        content_bytes: 100,
        spread: Spread::Pack,
    };
    let mut draft = pool.reserve(&spec).unwrap();
    draft.bytes_mut().fill(value);
    draft.seal(&json!({}), b"").unwrap();
}

fn whole(pool: &Pool, name: &str, value: u8) {
    let table = pool.attach(name).unwrap();
    table.verify_all().unwrap();
    assert!(table.bytes().iter().all(|byte| *byte == value), "{name}");
}

#[test]
#[ignore = "needs a DAX device: runs in a guest"]
fn a_device_shrinks_after_its_tables_moved_and_grows_with_all_of_them() {
    let (path, root) = (Path::new(DEVICE), SysRoot::host());
    let pool = create();
    load(&pool, "a", 8, 7);
    load(&pool, "b", 4, 8);
    pool.drop_table("a").unwrap();
    drop(pool);
    // `b` lies behind what was `a`, 12 MiB are behind the new end.
    let size = METADATA + 9 * MIB;
    let (plan, resize) = options().shrink_device_plan(path, 0, size, &root).unwrap();
    assert_eq!(plan.member_bytes, METADATA + 8 * MIB);
    assert_eq!(plan.moves[0].0, "b");
    assert_eq!(
        (resize.from_bytes, resize.to_bytes),
        (DEVICE_BYTES, METADATA + 8 * MIB)
    );
    assert_eq!(device_bytes(), DEVICE_BYTES, "a plan changes nothing");
    // What has no room is refused before anything changes.
    let error = options()
        .shrink_device(path, 0, METADATA + 2 * MIB, &root)
        .unwrap_err();
    assert!(matches!(error, PoolError::Full { .. }), "{error}");
    assert_eq!(device_bytes(), DEVICE_BYTES);

    let (pool, _) = options().shrink_device(path, 0, size, &root).unwrap();
    assert_eq!(device_bytes(), METADATA + 8 * MIB);
    assert_eq!(pool.space().capacity_bytes, 8 * MIB);
    whole(&pool, "b", 8);
    drop(pool);
    // The same again has nothing to do.
    let (pool, resize) = options().shrink_device(path, 0, size, &root).unwrap();
    assert_eq!(resize.from_bytes, resize.to_bytes);
    drop(pool);

    let error = options()
        .grow_device(path, 0, Some(DEVICE_BYTES + 2 * MIB), &root)
        .unwrap_err();
    assert!(
        matches!(error, PoolError::Resize(_)) && error.is_bad_input(),
        "{error}"
    );
    let (pool, resize) = options()
        .grow_device(path, 0, Some(DEVICE_BYTES), &root)
        .unwrap();
    assert_eq!(
        (resize.from_bytes, resize.to_bytes),
        (METADATA + 8 * MIB, DEVICE_BYTES)
    );
    assert_eq!(device_bytes(), DEVICE_BYTES);
    assert_eq!(pool.space().capacity_bytes, DEVICE_BYTES - METADATA);
    whole(&pool, "b", 8);
    load(&pool, "c", 16, 9);
    drop(pool);
    let pool = options().open(path).unwrap();
    whole(&pool, "b", 8);
    whole(&pool, "c", 9);
}

#[test]
#[ignore = "needs a DAX device: runs in a guest"]
fn a_device_that_somebody_uses_keeps_its_size_and_its_user() {
    let (path, root) = (Path::new(DEVICE), SysRoot::host());
    let pool = create();
    load(&pool, "a", 4, 7);
    let (small, large) = (METADATA + 8 * MIB, DEVICE_BYTES);
    for error in [
        options().shrink_device(path, 0, small, &root).unwrap_err(),
        options()
            .grow_device(path, 0, Some(large), &root)
            .unwrap_err(),
    ] {
        assert!(matches!(error, PoolError::DeviceInUse { .. }), "{error}");
    }
    assert_eq!(device_bytes(), DEVICE_BYTES);
    whole(&pool, "a", 7);
    drop(pool);
    // A program that knows nothing of pools: the kernel would leave it a device that nobody can
    // open any more.
    let open = || fs::File::open(path).unwrap();
    let mut child = Command::new("sleep")
        .arg("1000")
        .stdin(open())
        .spawn()
        .unwrap();
    let error = options().shrink_device(path, 0, small, &root).unwrap_err();
    let named = format!("process {} (sleep)", child.id());
    assert!(error.to_string().contains(&named), "{error}");
    let capacity = || Pool::inspect(path).unwrap().space.capacity_bytes;
    assert_eq!(capacity(), DEVICE_BYTES - METADATA, "found before all else");
    child.kill().unwrap();
    child.wait().unwrap();
    // Nor is it resized when it is this process itself.
    let own = open();
    let error = options().shrink_device(path, 0, small, &root).unwrap_err();
    let named = format!("process {} (", std::process::id());
    assert!(error.to_string().contains(&named), "{error}");
    assert_eq!(device_bytes(), DEVICE_BYTES);
    drop(own);
    let pool = options().open(path).unwrap();
    whole(&pool, "a", 7);
}

#[test]
#[ignore = "needs a DAX device: runs in a guest"]
fn a_device_that_the_system_made_longer_is_taken() {
    let path = Path::new(DEVICE);
    let driver =
        |file: &str| fs::write(format!("/sys/bus/dax/drivers/device_dax/{file}"), "dax0.0");
    let resize = |bytes: u64| {
        driver("unbind").unwrap();
        fs::write(SIZE, bytes.to_string()).unwrap();
        driver("bind").unwrap();
    };
    resize(64 * MIB);
    let pool = create();
    load(&pool, "a", 4, 7);
    assert_eq!(pool.space().capacity_bytes, 64 * MIB - METADATA);
    drop(pool);
    resize(128 * MIB);
    let (pool, taken) = options()
        .grow_device(path, 0, None, &SysRoot::host())
        .unwrap();
    assert_eq!((taken.from_bytes, taken.to_bytes), (128 * MIB, 128 * MIB));
    assert_eq!(pool.space().capacity_bytes, 128 * MIB - METADATA);
    whole(&pool, "a", 7);
    drop(pool);
    // One that became shorter by other hands is no pool any more, and says so.
    resize(32 * MIB);
    let error = options().open(path).unwrap_err();
    assert!(matches!(error, PoolError::Truncated { .. }), "{error}");
}

/// Divides the region into two devices: what the first one lost is the second one.
#[test]
#[ignore = "needs a DAX device: runs in a guest"]
fn a_device_that_appears_is_found_and_added_once() {
    let (path, root) = (Path::new(DEVICE), SysRoot::host());
    let write = |file: &str, text: &str| fs::write(format!("/sys/bus/dax/{file}"), text).unwrap();
    write("drivers/device_dax/unbind", "dax0.0");
    write("devices/dax0.0/size", &(64 * MIB).to_string());
    write("drivers/device_dax/bind", "dax0.0");
    let pool = create();
    let mut source = DaxSource::new(&root, &[path.to_owned()], None);
    assert_eq!(source.offers().unwrap(), []);
    write("devices/dax0.0/../dax_region/create", "1");
    write("devices/dax0.1/size", &(32 * MIB).to_string());
    write("drivers/device_dax/new_id", "dax0.1");
    let second = Path::new("/dev/dax0.1");
    let added = pool.grow_from(&mut source, true).unwrap();
    assert_eq!(added, [second]);
    assert_eq!(pool.grow_from(&mut source, true).unwrap().len(), 0);
    // The second one has superblocks, in an extent of their own.
    let capacity = 64 * MIB - METADATA + 32 * MIB - 2 * MIB;
    assert_eq!(pool.space().capacity_bytes, capacity);
    let spec = TableSpec {
        name: "both".to_owned(),
        data_bytes: 16 * MIB,
        content_bytes: 100,
        spread: Spread::Stripe(4 * MIB),
    };
    let mut draft = pool.reserve(&spec).unwrap();
    draft.bytes_mut().fill(5);
    draft.seal(&json!({}), b"").unwrap();
    drop(pool);
    let pool = options().open(path).unwrap();
    whole(&pool, "both", 5);
    // It has tables now, and is a member of another pool for whoever looks.
    let had = [path.to_owned(), second.to_owned()];
    assert_eq!(DaxSource::new(&root, &had, None).offers().unwrap(), []);
}
