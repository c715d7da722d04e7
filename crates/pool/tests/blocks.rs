//! Memory blocks on a recorded sysfs tree with a kernel that refuses what the real one does:
//! nothing but blocks of DAX devices changes, what cannot move is named, and there is a way back.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tierloom_memory::Clock;
use tierloom_pool::blocks::{
    BlockSource, BlockState, BlocksError, MemoryBlock, MemoryBlocks, Pick, RestoredBlocks,
    Timeline, change, choose, restore,
};
use tierloom_topology::SystemFiles;

const NOW: &str = "2026-01-01T00:00:00Z";
const MIB: u64 = 1 << 20;
const EINVAL: i32 = 22;
const EBUSY: i32 = 16;

/// Files in memory, as Linux 6.12 shows them in a guest with a CXL region of 512 MiB that is node
/// 1, and a kernel behind them. Blocks 0 to 3 are memory that the machine was started with.
struct Kernel {
    files: RefCell<BTreeMap<String, String>>,
    /// Blocks with pages that do not move.
    stuck: BTreeSet<u64>,
    writes: RefCell<Vec<String>>,
}

/// The first of the four blocks of the region.
const FIRST: u64 = 0xa2;

impl Kernel {
    fn new() -> Self {
        let mut files = BTreeMap::new();
        let mut set = |path: String, text: &str| {
            files.insert(path, text.to_owned());
        };
        set("proc/sys/kernel/random/boot_id".into(), "boot-1");
        set(
            "sys/devices/system/memory/block_size_bytes".into(),
            "8000000",
        );
        for block in (0..4).chain(FIRST..FIRST + 4) {
            let folder = format!("sys/devices/system/memory/memory{block}");
            set(format!("{folder}/state"), "online");
            let zone = if block < 4 { "Normal" } else { "Movable" };
            set(format!("{folder}/valid_zones"), zone);
        }
        let device = "sys/bus/dax/devices/dax0.0";
        set(format!("{device}/target_node"), "1");
        set(format!("{device}/mapping0/start"), "0x510000000");
        set(format!("{device}/mapping0/end"), "0x52fffffff");
        set("sys/bus/dax/drivers/kmem/dax0.0/size".into(), "536870912");
        for (node, total_kib, free_kib) in [(0, 2_000_000, 1_500_000), (1, 524_288, 400_000)] {
            set(
                format!("sys/devices/system/node/node{node}/meminfo"),
                &format!(
                    "Node {node} MemTotal: {total_kib} kB\nNode {node} MemFree: {free_kib} kB"
                ),
            );
        }
        Self {
            files: RefCell::new(files),
            stuck: BTreeSet::new(),
            writes: RefCell::default(),
        }
    }

    fn set(&self, path: &str, text: &str) {
        self.files.borrow_mut().insert(path.into(), text.into());
    }

    fn remove(&self, prefix: &str) {
        self.files
            .borrow_mut()
            .retain(|path, _| !path.starts_with(prefix));
    }

    fn blocks(&self) -> MemoryBlocks {
        MemoryBlocks::read(self, &BlockSource::Node(1)).unwrap()
    }

    /// States of the region's blocks, from the first one on: `+` is online.
    fn states(&self) -> String {
        let word = |block: &MemoryBlock| match block.state {
            BlockState::Online => '+',
            _ => '-',
        };
        self.blocks().blocks.iter().map(word).collect()
    }
}

impl SystemFiles for Kernel {
    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let files = self.files.borrow();
        let below = files
            .keys()
            .filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
        let names: BTreeSet<&str> = below.filter_map(|path| path.split('/').next()).collect();
        match names.is_empty() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(names.into_iter().map(str::to_owned).collect()),
        }
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let found = self.files.borrow().get(path).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn may_write(&self, path: &str) -> io::Result<()> {
        self.read(path).map(drop)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        let folder = path
            .strip_suffix("/state")
            .expect("only states are written");
        let number = folder.rsplit("memory").next().unwrap().parse().unwrap();
        self.writes.borrow_mut().push(format!("{number} {text}"));
        let online = self.read(path)? == "online";
        let (state, zones) = match text {
            "offline" if !online => return refused(EINVAL),
            "offline" if self.stuck.contains(&number) => return refused(EBUSY),
            "offline" => ("offline", "Normal Movable"),
            "online_movable" if !online => ("online", "Movable"),
            "online_kernel" if !online => ("online", "Normal"),
            _ => return refused(EINVAL),
        };
        self.set(path, state);
        self.set(&format!("{folder}/valid_zones"), zones);
        Ok(())
    }

    fn full(&self, path: &str) -> PathBuf {
        PathBuf::from("/").join(path)
    }
}

/// Every look at it takes 10 ms.
#[derive(Debug, Default)]
struct Ticks(std::sync::atomic::AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Duration {
        let before = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Duration::from_millis(10 * before)
    }

    fn sleep(&self, _how_long: Duration) {}
}

struct Saved {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

fn saved() -> Saved {
    let folder = tempfile::tempdir().unwrap();
    Saved {
        file: folder.path().join("blocks.json"),
        _folder: folder,
    }
}

fn make(kernel: &Kernel, saved: &Saved, pick: &Pick, wanted: BlockState) -> Timeline {
    let all = kernel.blocks();
    let chosen = choose(kernel, &all, pick, wanted).unwrap();
    let clock = (&Ticks::default() as &dyn Clock, NOW);
    change(kernel, &saved.file, clock, &all, &chosen, wanted).unwrap()
}

fn back(kernel: &Kernel, saved: &Saved, do_it: bool) -> RestoredBlocks {
    restore(kernel, &saved.file, (&Ticks::default(), NOW), do_it).unwrap()
}

#[test]
fn only_blocks_of_dax_devices_are_found_whatever_the_node_has_besides() {
    let kernel = Kernel::new();
    let all = kernel.blocks();
    assert_eq!(all.block_bytes, 128 * MIB);
    assert_eq!(all.online_bytes(), 512 * MIB);
    let numbers: Vec<u64> = all.blocks.iter().map(|block| block.block).collect();
    assert_eq!(numbers, [FIRST, FIRST + 1, FIRST + 2, FIRST + 3]);
    assert!(
        all.blocks
            .iter()
            .all(|b| b.zone == "Movable" && b.device == "dax0.0")
    );
    assert_eq!(
        MemoryBlocks::read(&kernel, &"/dev/dax0.0".parse().unwrap()).unwrap(),
        all
    );
    // Node 0 has blocks too, and no device.
    for (source, says) in [("0", "node 0"), ("dax1.0", "dax1.0"), ("node7", "node 7")] {
        let error = MemoryBlocks::read(&kernel, &source.parse().unwrap()).unwrap_err();
        assert!(
            error.is_bad_input() && error.to_string().contains(says),
            "{error}"
        );
    }
    assert!("memory".parse::<BlockSource>().is_err());
    kernel.remove("sys/bus/dax/drivers/kmem/dax0.0");
    let error = MemoryBlocks::read(&kernel, &"dax0.0".parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("devdax mode"), "{error}");
    // A range that does not begin at a block: the kernel uses the whole ones.
    let kernel = Kernel::new();
    kernel.set("sys/bus/dax/devices/dax0.0/mapping0/start", "0x511000000");
    assert_eq!(kernel.blocks().blocks.len(), 3);
    kernel.set("sys/devices/system/memory/memory164/state", "asleep");
    let error = MemoryBlocks::read(&kernel, &BlockSource::Node(1)).unwrap_err();
    assert!(error.to_string().contains("asleep"), "{error}");
}

#[test]
fn capacity_goes_from_the_end_and_comes_back_from_the_start() {
    let (kernel, saved) = (Kernel::new(), saved());
    let timeline = make(
        &kernel,
        &saved,
        &Pick::Bytes(200 * MIB),
        BlockState::Offline,
    );
    assert_eq!(kernel.states(), "++--");
    assert_eq!(timeline.failures(), None);
    let bytes = (timeline.online_bytes_before, timeline.online_bytes_after);
    assert_eq!(bytes, (512 * MIB, 256 * MIB));
    let times: Vec<(u64, f64, f64)> = timeline
        .changes
        .iter()
        .map(|change| (change.block, change.start_s, change.seconds))
        .collect();
    assert_eq!(times, [(FIRST + 3, 0.01, 0.01), (FIRST + 2, 0.03, 0.01)]);
    make(&kernel, &saved, &Pick::All, BlockState::Offline);
    assert_eq!(kernel.states(), "----");
    make(&kernel, &saved, &Pick::Bytes(1), BlockState::Online);
    assert_eq!(kernel.states(), "+---");
    let numbers = format!("{}", FIRST + 2).parse().unwrap();
    let timeline = make(&kernel, &saved, &Pick::Numbers(numbers), BlockState::Online);
    assert_eq!(kernel.states(), "+-+-");
    assert_eq!(timeline.changes[0].zone, "Movable");
    assert!(
        kernel
            .writes
            .borrow()
            .iter()
            .all(|write| !write.contains("kernel"))
    );
    // What is as it should be is left alone.
    let timeline = make(
        &kernel,
        &saved,
        &Pick::Numbers("164".parse().unwrap()),
        BlockState::Online,
    );
    assert_eq!(timeline.changes, []);
    assert_eq!(timeline.online_bytes_before, timeline.online_bytes_after);
}

#[test]
fn what_cannot_be_asked_for_changes_nothing() {
    let kernel = Kernel::new();
    let all = kernel.blocks();
    let refused = |pick: Pick, wanted| choose(&kernel, &all, &pick, wanted).unwrap_err();
    let unknown = refused(Pick::Numbers("0,162".parse().unwrap()), BlockState::Offline);
    assert!(
        unknown.to_string().contains("they are 162-165"),
        "{unknown}"
    );
    let more = refused(Pick::Bytes(513 * MIB), BlockState::Offline);
    assert!(more.to_string().contains("blocks of 512 MiB can"), "{more}");
    let none = refused(Pick::Bytes(1), BlockState::Online);
    assert!(matches!(none, BlocksError::TooFew { .. }) && none.is_bad_input());
    // 124,288 KiB of node 1 are in use; node 0 could take them, and then cannot.
    let three = Pick::Bytes(384 * MIB);
    assert_eq!(
        choose(&kernel, &all, &Pick::All, BlockState::Offline)
            .unwrap()
            .len(),
        4
    );
    kernel.set(
        "sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal: 2000000 kB\nNode 0 MemFree: 100000 kB",
    );
    let full = refused(Pick::All, BlockState::Offline);
    assert!(
        matches!(full, BlocksError::NoRoom { node: 1, .. }),
        "{full}"
    );
    assert!(!full.is_bad_input());
    assert_eq!(
        choose(&kernel, &all, &three, BlockState::Offline)
            .unwrap()
            .len(),
        3
    );
    assert!(kernel.writes.borrow().is_empty());
}

#[test]
fn a_block_that_does_not_move_is_named_with_zone_and_reason_and_the_others_go() {
    let (mut kernel, saved) = (Kernel::new(), saved());
    kernel.stuck = [FIRST + 1, FIRST + 2].into();
    kernel.set("sys/devices/system/memory/memory164/valid_zones", "Normal");
    let timeline = make(&kernel, &saved, &Pick::All, BlockState::Offline);
    assert_eq!(kernel.states(), "-++-");
    assert_eq!(timeline.online_bytes_after, 256 * MIB);
    let text = timeline.failures().unwrap();
    for part in [
        "2 of 4 blocks",
        "block 164 of node 1 stays online: EBUSY, zone Normal",
        "block 163 of node 1 stays online: EBUSY, zone Movable",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = serde_json::to_value(&timeline).unwrap();
    assert_eq!(json["schema"], "tierloom-blocks/1");
    assert_eq!(json["changes"][1]["block"], 164);
    assert_eq!(json["changes"][1]["to"], "online");
    assert_eq!(json["changes"][0]["error"], serde_json::Value::Null);
}

#[test]
fn the_first_states_come_back_after_any_changes_in_their_zones() {
    let (kernel, saved) = (Kernel::new(), saved());
    kernel.set("sys/devices/system/memory/memory162/valid_zones", "Normal");
    kernel.set("sys/devices/system/memory/memory165/state", "offline");
    kernel.set(
        "sys/devices/system/memory/memory165/valid_zones",
        "Normal Movable",
    );
    let before = kernel.files.borrow().clone();
    assert_eq!(back(&kernel, &saved, true), RestoredBlocks::Nothing);
    make(&kernel, &saved, &Pick::All, BlockState::Offline);
    make(&kernel, &saved, &Pick::Bytes(512 * MIB), BlockState::Online);
    make(
        &kernel,
        &saved,
        &Pick::Numbers("162".parse().unwrap()),
        BlockState::Offline,
    );
    assert_eq!(kernel.states(), "-+++");
    let now = kernel.files.borrow().clone();
    let RestoredBlocks::Back {
        steps, timeline, ..
    } = back(&kernel, &saved, false)
    else {
        panic!("states are saved");
    };
    let words: Vec<(u64, &str)> = steps.iter().map(|(b, word)| (b.block, *word)).collect();
    assert_eq!(words, [(FIRST, "online_kernel"), (FIRST + 3, "offline")]);
    assert_eq!(
        (timeline, &*kernel.files.borrow()),
        (None, &now),
        "only said"
    );
    back(&kernel, &saved, true);
    assert_eq!(*kernel.files.borrow(), before);
    assert_eq!(back(&kernel, &saved, true), RestoredBlocks::Nothing);
}

#[test]
fn what_cannot_be_restored_yet_is_kept_and_states_of_another_boot_are_not_used() {
    let (mut kernel, saved) = (Kernel::new(), saved());
    kernel.set("sys/devices/system/memory/memory165/state", "offline");
    make(&kernel, &saved, &Pick::All, BlockState::Online);
    kernel.stuck = [FIRST + 3].into();
    let RestoredBlocks::Back { timeline, .. } = back(&kernel, &saved, true) else {
        panic!("states are saved");
    };
    assert!(timeline.unwrap().failures().unwrap().contains("165"));
    kernel.stuck.clear();
    kernel.remove("sys/devices/system/memory/memory162/");
    let RestoredBlocks::Back { gone, timeline, .. } = back(&kernel, &saved, true) else {
        panic!("states are still saved");
    };
    assert_eq!((gone, timeline.unwrap().failures()), (vec![FIRST], None));
    // Saved once more, then the machine starts anew.
    make(
        &kernel,
        &saved,
        &Pick::Numbers("163".parse().unwrap()),
        BlockState::Offline,
    );
    kernel.set("proc/sys/kernel/random/boot_id", "boot-2");
    let writes = kernel.writes.borrow().len();
    assert_eq!(back(&kernel, &saved, true), RestoredBlocks::Rebooted);
    assert_eq!(kernel.writes.borrow().len(), writes);
    assert_eq!(back(&kernel, &saved, true), RestoredBlocks::Nothing);
}

#[test]
fn states_are_on_disk_before_the_first_block_changes() {
    struct Watched<'k> {
        kernel: &'k Kernel,
        path: PathBuf,
        seen: Cell<bool>,
    }
    impl SystemFiles for Watched<'_> {
        fn names(&self, folder: &str) -> io::Result<Vec<String>> {
            self.kernel.names(folder)
        }
        fn read(&self, path: &str) -> io::Result<String> {
            self.kernel.read(path)
        }
        fn may_write(&self, path: &str) -> io::Result<()> {
            self.kernel.may_write(path)
        }
        fn write(&self, path: &str, text: &str) -> io::Result<()> {
            let saved = std::fs::read_to_string(&self.path).unwrap_or_default();
            self.seen.set(saved.matches("\"online\"").count() == 4);
            self.kernel.write(path, text)
        }
        fn full(&self, path: &str) -> PathBuf {
            self.kernel.full(path)
        }
    }
    let (kernel, saved) = (Kernel::new(), saved());
    let watched = Watched {
        kernel: &kernel,
        path: saved.file.clone(),
        seen: Cell::new(false),
    };
    let all = kernel.blocks();
    let chosen = &all.blocks[..1];
    let clock = (&Ticks::default() as &dyn Clock, NOW);
    change(
        &watched,
        &saved.file,
        clock,
        &all,
        chosen,
        BlockState::Offline,
    )
    .unwrap();
    assert!(watched.seen.get());
    // Where they cannot be saved, nothing changes.
    let nowhere = Path::new("/proc/tierloom/blocks.json");
    let clock = (&Ticks::default() as &dyn Clock, NOW);
    let writes = kernel.writes.borrow().len();
    change(&kernel, nowhere, clock, &all, chosen, BlockState::Online).unwrap_err();
    assert_eq!(kernel.writes.borrow().len(), writes);
}
