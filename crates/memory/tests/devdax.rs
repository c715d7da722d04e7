//! DAX devices: the values in sysfs are checked before anything is mapped.
//!
//! Trees are written by the tests; where a device must be mapped, `/dev/zero` takes its place. The
//! ignored tests need a real device and write to it; one test runs them in a guest that has one
//! (`TIERLOOM_LAB=skip` skips it). On a machine with a device in devdax mode: `cargo test -p
//! tierloom-memory --test devdax -- --ignored real_device`.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use tierloom_lab::{GuestKind, GuestOptions, GuestStep, run_tests_in_guest};
use tierloom_memory::mapping::{MapRequest, MapWhat, timed_unmap};
use tierloom_memory::{
    AuditMode, DevdaxBackend, DevdaxError, MIB, MemoryBackend, MemoryError, MigrationOptions,
    PageSize, PageState, Placement, Region, RegionOptions,
};
use tierloom_topology::{NodeId, SysRoot, Topology};

const SIZE: u64 = 512 * MIB as u64;
const ALIGN: u64 = 2 * MIB as u64;

/// A sysfs tree in which the character device `path` is `dax0.0`.
struct Tree {
    directory: TempDir,
    device: PathBuf,
}

impl Tree {
    fn new(path: &str, size: &str, align: Option<&str>, driver: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let device = directory
            .path()
            .join("sys/devices/region0/dax_region0/dax0.0");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("size"), format!("{size}\n")).unwrap();
        std::fs::write(device.join("target_node"), "3\n").unwrap();
        if let Some(align) = align {
            std::fs::write(device.join("align"), format!("{align}\n")).unwrap();
        }
        symlink("../../../../bus/dax", device.join("subsystem")).unwrap();
        if let Some(driver) = driver {
            symlink(
                format!("../../bus/dax/drivers/{driver}"),
                device.join("driver"),
            )
            .unwrap();
        }
        let tree = Self { directory, device };
        let numbers = std::fs::metadata(path).unwrap().rdev();
        let numbers = format!("{}:{}", libc::major(numbers), libc::minor(numbers));
        tree.link(&format!("sys/dev/char/{numbers}"));
        tree.link("sys/bus/dax/devices/dax0.0");
        tree
    }

    fn zero() -> Self {
        let (size, align) = (SIZE.to_string(), ALIGN.to_string());
        Self::new("/dev/zero", &size, Some(&align), Some("device_dax"))
    }

    /// A separate device file for this tree if it may be created, so that other processes' locks on
    /// `/dev/zero` do not matter.
    fn own_zero(&self) -> String {
        let path = self.directory.path().join("zero");
        let made = Command::new("mknod")
            .arg(&path)
            .args(["c", "1", "5"])
            .status();
        let usable = made.is_ok_and(|status| status.success())
            && File::options().read(true).write(true).open(&path).is_ok();
        if usable {
            path.to_str().unwrap().to_owned()
        } else {
            "/dev/zero".to_owned()
        }
    }

    fn link(&self, path: &str) {
        let link = self.directory.path().join(path);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&self.device, link).unwrap();
    }

    fn root(&self) -> SysRoot {
        SysRoot::at(self.directory.path())
    }

    fn open(&self, path: &str, offset_bytes: u64) -> Result<DevdaxBackend, MemoryError> {
        DevdaxBackend::below(&self.root(), path, offset_bytes)
    }
}

fn devdax_error(result: Result<DevdaxBackend, MemoryError>) -> DevdaxError {
    match result {
        Err(MemoryError::Devdax(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn options(size_bytes: usize, placement: Placement) -> RegionOptions {
    RegionOptions::new("m0", size_bytes, placement)
}

fn machine() -> Topology {
    Topology::read(&SysRoot::host()).unwrap()
}

#[test]
fn a_device_is_what_sysfs_says() {
    let backend = Tree::zero().open("/dev/zero", 4 * ALIGN).unwrap();
    assert_eq!(backend.device_size_bytes(), SIZE);
    assert_eq!(backend.align_bytes(), ALIGN);
    assert_eq!(backend.target_node(), Some(NodeId(3)));
    assert_eq!(backend.device_name(), "dax0.0");
    assert_eq!(backend.describe(), "/dev/zero from 8 MiB");
    assert_eq!(
        backend.capacity(NodeId(0), PageSize::Base).unwrap(),
        None,
        "device memory is not a node's free memory"
    );
}

#[test]
fn kernels_that_keep_the_alignment_with_the_region_are_understood() {
    let tree = Tree::new("/dev/zero", "0x20000000", None, Some("device_dax"));
    let error = devdax_error(tree.open("/dev/zero", 0));
    assert!(
        matches!(
            &error,
            DevdaxError::Attribute {
                what: "alignment",
                ..
            }
        ),
        "{error}"
    );
    let region = tree.device.join("../dax_region");
    std::fs::create_dir(&region).unwrap();
    std::fs::write(region.join("align"), "4096\n").unwrap();
    std::fs::write(tree.device.join("target_node"), "-1\n").unwrap();
    let backend = tree.open("/dev/zero", 4096).unwrap();
    assert_eq!(backend.device_size_bytes(), SIZE);
    assert_eq!((backend.align_bytes(), backend.target_node()), (4096, None));
}

#[test]
fn a_path_that_is_no_dax_device_is_named_with_what_it_is() {
    let tree = Tree::zero();
    let file = tree.directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for (path, said) in [
        (file.to_str().unwrap(), "a file"),
        (tree.directory.path().to_str().unwrap(), "a directory"),
        ("/dev/null", "character device 1:3"),
    ] {
        let error = devdax_error(tree.open(path, 0));
        assert!(matches!(&error, DevdaxError::NotADevice { .. }), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    let other = Tree::zero();
    std::fs::remove_file(other.device.join("subsystem")).unwrap();
    symlink("../../../class/mem", other.device.join("subsystem")).unwrap();
    let error = devdax_error(other.open("/dev/zero", 0)).to_string();
    assert!(
        error.contains("(mem)") && error.contains("file region"),
        "{error}"
    );
}

#[test]
fn memory_lent_to_a_node_comes_with_the_way_back() {
    let tree = Tree::new("/dev/zero", "4096", Some("4096"), Some("kmem"));
    // With the kmem driver there is no device file; a stale one must not be mapped either.
    let missing = tree.directory.path().join("dev/dax0.0");
    for path in ["/dev/zero", missing.to_str().unwrap()] {
        let error = devdax_error(tree.open(path, 0));
        assert!(
            matches!(&error, DevdaxError::SystemRam { node, .. } if node == "3"),
            "{error}"
        );
        let text = error.to_string();
        for part in [
            "daxctl reconfigure-device --mode=devdax",
            "kmem/unbind",
            "node 3",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
    let unbound = Tree::new("/dev/zero", "4096", Some("4096"), None);
    let error = devdax_error(unbound.open("/dev/zero", 0));
    assert!(matches!(&error, DevdaxError::Unbound { .. }), "{error}");
    assert!(error.to_string().contains("device_dax/new_id"), "{error}");
}

#[test]
fn a_missing_device_lists_those_there_are() {
    let error = devdax_error(Tree::zero().open("/nowhere/dax7.0", 0)).to_string();
    assert!(
        error.contains("/nowhere/dax7.0") && error.contains("dax0.0"),
        "{error}"
    );
    let empty = tempfile::tempdir().unwrap();
    let root = SysRoot::at(empty.path());
    let error = devdax_error(DevdaxBackend::below(&root, "/nowhere/dax7.0", 0)).to_string();
    assert!(error.contains("no DAX devices"), "{error}");
}

#[test]
fn garbled_facts_are_errors_that_name_their_file() {
    for garbage in ["", "0", "many", "-4096", "99999999999999999999999"] {
        let tree = Tree::new("/dev/zero", garbage, Some("4096"), Some("device_dax"));
        let error = devdax_error(tree.open("/dev/zero", 0));
        assert!(
            matches!(&error, DevdaxError::Attribute { what: "size", .. }),
            "{error}"
        );
        assert!(error.to_string().contains("dax0.0/size"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_offset_and_size_only_whole_pages_inside_the_device_pass(
        offset in 0_u64..2 * SIZE, size in 1_u64..2 * SIZE, whole_offset: bool, whole_size: bool,
    ) {
        let tree = Tree::zero();
        let whole = |bytes: u64, whole: bool| if whole { bytes - bytes % ALIGN } else { bytes };
        let (offset, size) = (whole(offset, whole_offset), whole(size, whole_size).max(4096));
        let size = usize::try_from(size).unwrap();
        let checked = tree.open("/dev/zero", offset).and_then(|backend| backend.check("m0", size, PageSize::Base));
        let size_bytes = size as u64;
        let right = offset.is_multiple_of(ALIGN) && size_bytes.is_multiple_of(ALIGN) && offset + size_bytes <= SIZE;
        match checked {
            Ok(()) => prop_assert!(right, "{size} bytes from {offset}"),
            Err(MemoryError::Offset { below_bytes, above_bytes, .. }) => {
                prop_assert!(!offset.is_multiple_of(ALIGN));
                prop_assert!(below_bytes < offset && offset < above_bytes);
                prop_assert_eq!((below_bytes % ALIGN, above_bytes - below_bytes), (0, ALIGN));
            }
            Err(MemoryError::Devdax(DevdaxError::SizeNotPages { rounded_bytes, .. })) => {
                prop_assert!(!size_bytes.is_multiple_of(ALIGN) && rounded_bytes.is_multiple_of(ALIGN) && rounded_bytes >= size_bytes);
            }
            Err(MemoryError::Devdax(DevdaxError::PastTheEnd { .. })) => prop_assert!(offset + size_bytes > SIZE || offset >= SIZE),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn regions_on_a_device_are_audited_by_where_it_is_and_stay_there() {
    let topology = machine();
    let tree = Tree::zero();
    let device = tree.own_zero();
    let backend = Arc::new(tree.open(&device, 0).unwrap());
    let place = format!("{device} (target node 3)");
    for page_size in [PageSize::Base, PageSize::Thp] {
        let options = RegionOptions {
            page_size,
            ..options(2 * ALIGN as usize, Placement::kernel_default())
        };
        let mut region = Region::create(backend.clone(), &topology, options).unwrap();
        region.as_mut_slice()[ALIGN as usize] = 9;
        assert_eq!(region.as_slice()[ALIGN as usize], 9);
        let audit = region.audit(AuditMode::Full).unwrap();
        assert_eq!(
            (
                audit.pages_checked,
                audit.absent_pages,
                audit.worst_deviation()
            ),
            (0, 0, 0.0)
        );
        assert!(
            audit.actual.is_empty() && audit.huge_share.is_none(),
            "{audit:?}"
        );
        assert!(
            audit
                .method
                .contains(&format!("pages are fixed on {place}")),
            "{}",
            audit.method
        );
        let to = Placement::bind(topology.memory_nodes()[0]);
        let error = region
            .migrate(&to, &topology, MigrationOptions::default())
            .unwrap_err();
        assert!(
            error.to_string().contains(&format!("fixed on {place}")),
            "{error}"
        );
    }
}

#[test]
fn placements_and_pool_pages_are_refused_on_a_device() {
    let topology = machine();
    let create = |options| {
        let backend = Arc::new(Tree::zero().open("/dev/zero", 0).unwrap());
        Region::create(backend, &topology, options).unwrap_err()
    };
    let bound = Placement::bind(topology.memory_nodes()[0]);
    let error = create(options(ALIGN as usize, bound));
    assert!(
        matches!(error, MemoryError::PlacementNotOurs { .. }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("ask for the placement `default`"),
        "{error}"
    );
    let error = create(RegionOptions {
        page_size: PageSize::Huge2M,
        ..options(ALIGN as usize, Placement::kernel_default())
    });
    assert!(
        matches!(error, MemoryError::Devdax(DevdaxError::HugetlbPages { .. })),
        "{error}"
    );
}

#[test]
fn two_regions_never_own_the_same_bytes_of_a_device() {
    let tree = Tree::zero();
    let device = tree.own_zero();
    let reserve = |offset_bytes| {
        let backend = tree.open(&device, offset_bytes).unwrap();
        backend.reserve("m0", 2 * ALIGN as usize, PageSize::Base)
    };
    // On a separate device, in case other tests share /dev/zero.
    let start = 8 * ALIGN;
    let first = reserve(start).unwrap();
    let error = reserve(start + ALIGN).unwrap_err();
    assert!(
        matches!(error, MemoryError::Devdax(DevdaxError::InUse { .. })),
        "{error}"
    );
    reserve(start + 2 * ALIGN).unwrap();
    drop(first);
    reserve(start + ALIGN).unwrap();
}

#[test]
fn a_device_that_cannot_be_mapped_says_which_call_failed() {
    let (size, align) = (SIZE.to_string(), ALIGN.to_string());
    let tree = Tree::new("/dev/null", &size, Some(&align), Some("device_dax"));
    let backend = Arc::new(tree.open("/dev/null", 0).unwrap());
    let options = options(ALIGN as usize, Placement::kernel_default());
    let error = Region::create(backend, &machine(), options).unwrap_err();
    assert!(
        matches!(error, MemoryError::Devdax(DevdaxError::Map { .. })),
        "{error}"
    );
}

/// Boots a guest whose CXL memory is first a node's memory, follows the error's instructions for
/// changing that, and runs the ignored tests of this same binary on the device.
#[test]
fn a_real_device_is_taken_back_and_mapped_in_a_guest() {
    let way_back = "set -e; for state in /sys/devices/system/node/node1/memory*/state; do echo offline >$state; done; \
        echo dax0.0 >/sys/bus/dax/drivers/kmem/unbind; echo dax0.0 >/sys/bus/dax/drivers/device_dax/new_id; ls -l /dev/dax0.0";
    let steps = [
        GuestStep::Test("a_lent_device_is_refused_with_its_node"),
        GuestStep::shell(way_back),
        GuestStep::Test("a_real_device_keeps_its_bytes_from_region_to_region"),
        GuestStep::Test("a_real_device_is_mapped_and_unmapped_with_the_clock_on"),
        GuestStep::Test("a_real_device_has_no_pages_that_the_kernel_would_tell_about"),
    ];
    run_tests_in_guest(GuestOptions::new(GuestKind::Cxl), &steps);
}

#[test]
#[ignore = "needs a DAX device /dev/dax0.0 in system-ram mode"]
fn a_lent_device_is_refused_with_its_node() {
    let error = devdax_error(DevdaxBackend::new("/dev/dax0.0", 0));
    assert!(
        matches!(&error, DevdaxError::SystemRam { node, .. } if node == "1"),
        "{error}"
    );
}

/// The first DAX device in devdax mode.
fn real_device() -> (PathBuf, DevdaxBackend) {
    let devices = std::fs::read_dir("/sys/bus/dax/devices").unwrap().flatten();
    let mut paths = devices.map(|entry| Path::new("/dev").join(entry.file_name()));
    let path = paths
        .find(|path| path.exists())
        .expect("this test needs a DAX device in devdax mode");
    let backend = DevdaxBackend::new(&path, 0).unwrap();
    (path, backend)
}

#[test]
#[ignore = "needs a DAX device in devdax mode, and writes to it"]
fn a_real_device_keeps_its_bytes_from_region_to_region() {
    let topology = machine();
    let (path, backend) = real_device();
    let align = backend.align_bytes();
    assert!(backend.device_size_bytes() >= 2 * align);
    let create = |offset_bytes| {
        let backend = Arc::new(DevdaxBackend::new(&path, offset_bytes).unwrap());
        let options = options(usize::try_from(align).unwrap(), Placement::kernel_default());
        Region::create_timed(backend, &topology, options).unwrap()
    };
    let (mut region, times) = create(align);
    eprintln!("{} {times:?}", backend.describe());
    for (index, byte) in region.as_mut_slice().iter_mut().step_by(64).enumerate() {
        *byte = (index % 253) as u8;
    }
    let audit = region.audit(AuditMode::Full).unwrap();
    assert_eq!(
        (audit.pages_checked, audit.absent_pages),
        (0, 0),
        "{audit:?}"
    );
    drop(region);
    let (again, _) = create(align);
    let mut kept = again.as_slice().iter().step_by(64).enumerate();
    assert!(kept.all(|(index, byte)| *byte == (index % 253) as u8));
    let (other, _) = create(0);
    assert_eq!(other.size_bytes() as u64, align);
}

#[test]
#[ignore = "needs a DAX device in devdax mode"]
fn a_real_device_is_mapped_and_unmapped_with_the_clock_on() {
    let (path, backend) = real_device();
    let request = MapRequest {
        what: MapWhat::Devdax {
            path,
            offset_bytes: backend.align_bytes(),
        },
        size_bytes: usize::try_from(backend.align_bytes()).unwrap(),
        page_size: PageSize::Base,
        nodes: Placement::kernel_default(),
        populate: true,
    };
    request.check(&machine()).unwrap();
    let (mapped, took) = request.timed_map().unwrap();
    eprintln!(
        "mapped and populated in {took:?}, unmapped in {:?}",
        timed_unmap(mapped).unwrap()
    );
}

#[test]
#[ignore = "needs a DAX device in devdax mode"]
fn a_real_device_has_no_pages_that_the_kernel_would_tell_about() {
    let (_, backend) = real_device();
    let size_bytes = usize::try_from(backend.align_bytes()).unwrap();
    let mapping = backend.reserve("m0", size_bytes, PageSize::Base).unwrap();
    let pages = (size_bytes / PageSize::Base.bytes()) as u64;
    let mut all = Placement::kernel_default().runs(pages, 0);
    backend
        .populate(&mapping, PageSize::Base, &mut all)
        .unwrap();
    let states = backend.locate(&mapping, &[0, size_bytes / 2]).unwrap();
    eprintln!("the kernel says {states:?}");
    // If this changed, audits could count the pages of devices.
    assert!(
        states
            .iter()
            .all(|state| !matches!(state, PageState::On(_))),
        "{states:?}"
    );
}
