//! Switching prefetchers on a simulated machine: at whatever point something fails, the registers
//! are restored.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tierloom_topology::SysRoot;
use tierloom_tune::apply::{StateFile, SystemFiles, usual_state_file};
use tierloom_tune::prefetch::{
    PrefetchError, PrefetchGuard, Prefetchers, Registers, RestoredRegisters, control, restore,
    saved, show, state_file, switch,
};

const NOW: &str = "2026-01-01T00:00:00Z";
const INTEL: &str =
    "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon";
const ZEN5: &str = "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: EPYC";
/// A bit that belongs to no prefetcher, and one prefetcher that firmware has switched off on some
/// CPU.
const OTHER: u64 = 1 << 40;

/// Registers in memory that fail at the n-th write.
struct Cpus {
    cpuinfo: String,
    files: Mutex<BTreeMap<String, String>>,
    values: Mutex<BTreeMap<u32, u64>>,
    /// Number of writes that still succeed.
    left: AtomicUsize,
    /// Whether all later writes fail, or only one.
    stays_broken: bool,
    errno: i32,
    reads_fail: Option<i32>,
    deaf: Option<u32>,
}

impl Cpus {
    fn new(cpuinfo: &str) -> Self {
        let values = [(0, OTHER), (1, OTHER), (2, OTHER | 1), (3, OTHER)];
        let files = [("proc/sys/kernel/random/boot_id".into(), "boot-1".into())];
        Cpus {
            cpuinfo: cpuinfo.into(),
            files: Mutex::new(files.into()),
            values: Mutex::new(values.into()),
            left: AtomicUsize::new(usize::MAX),
            stays_broken: false,
            errno: 5,
            reads_fail: None,
            deaf: None,
        }
    }

    fn values(&self) -> BTreeMap<u32, u64> {
        self.values.lock().unwrap().clone()
    }

    fn set_file(&self, path: &str, text: &str) {
        self.files.lock().unwrap().insert(path.into(), text.into());
    }
}

impl SystemFiles for Cpus {
    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        assert_eq!(folder, "dev/cpu");
        // The folder contains more than CPUs.
        let cpus = self.values().into_keys().map(|cpu| cpu.to_string());
        Ok(cpus.chain(["microcode".to_owned()]).collect())
    }

    fn read(&self, path: &str) -> io::Result<String> {
        if path == "proc/cpuinfo" {
            return Ok(self.cpuinfo.clone());
        }
        let files = self.files.lock().unwrap();
        files
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn may_write(&self, _path: &str) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, path: &str, _text: &str) -> io::Result<()> {
        panic!("{path} is no register")
    }

    fn full(&self, path: &str) -> PathBuf {
        PathBuf::from("/").join(path)
    }
}

impl Registers for Cpus {
    fn read_register(&self, cpu: u32, register: u32) -> io::Result<u64> {
        assert_eq!(register, control(self).unwrap().register);
        if let Some(errno) = self.reads_fail {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let value = self.values().get(&cpu).copied();
        value.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write_register(&self, cpu: u32, _register: u32, value: u64) -> io::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            let next = if self.stays_broken { 0 } else { usize::MAX };
            self.left.store(next, Ordering::Relaxed);
            return Err(io::Error::from_raw_os_error(self.errno));
        }
        self.left.store(left - 1, Ordering::Relaxed);
        if self.deaf != Some(cpu) {
            self.values.lock().unwrap().insert(cpu, value);
        }
        Ok(())
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    /// In a folder that does not exist yet.
    fn state(&self) -> StateFile {
        state_file(&StateFile::at(self.0.path().join("a/weights.json")))
    }
}

#[test]
fn only_the_bits_of_prefetchers_change_and_all_values_come_back() {
    for (cpuinfo, mask) in [(INTEL, 0b1111), (ZEN5, 0b10_1111)] {
        let (cpus, folder) = (Cpus::new(cpuinfo), Folder::new());
        let (state, before) = (folder.state(), cpus.values());
        let done = switch(&cpus, &state, false, NOW).unwrap();
        assert_eq!((done.written, done.kept_since), (4, None));
        assert!(cpus.values().values().all(|v| *v == OTHER | mask));
        let outcome = restore(&cpus, &state, false).unwrap();
        let RestoredRegisters::Back { differed, .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(differed, [0, 1, 2, 3]);
        assert_ne!(cpus.values(), before, "telling must not write");
        // Another program changes another bit meanwhile: that change must remain.
        cpus.values
            .lock()
            .unwrap()
            .insert(1, OTHER | mask | (1 << 50));
        restore(&cpus, &state, true).unwrap();
        let mut expected = before.clone();
        expected.insert(1, OTHER | (1 << 50));
        assert_eq!(cpus.values(), expected);
        assert_eq!(
            restore(&cpus, &state, true).unwrap(),
            RestoredRegisters::Nothing
        );
    }
}

#[test]
fn all_on_switches_on_what_firmware_switched_off_and_can_be_undone() {
    let (cpus, folder) = (Cpus::new(INTEL), Folder::new());
    let before = cpus.values();
    let done = switch(&cpus, &folder.state(), true, NOW).unwrap();
    assert_eq!(done.written, 1, "CPU 2 alone had one off");
    assert!(cpus.values().values().all(|v| *v == OTHER));
    switch(&cpus, &folder.state(), false, "later").unwrap();
    restore(&cpus, &folder.state(), true).unwrap();
    assert_eq!(
        cpus.values(),
        before,
        "the first state is the one that comes back"
    );
}

#[test]
fn a_crash_at_every_write_can_be_restored() {
    for crash in 0..4 {
        let mut cpus = Cpus::new(INTEL);
        cpus.stays_broken = true;
        let (folder, before) = (Folder::new(), cpus.values());
        cpus.left = AtomicUsize::new(crash);
        let error = switch(&cpus, &folder.state(), false, NOW).unwrap_err();
        cpus.left = AtomicUsize::new(usize::MAX);
        if crash > 0 {
            let text = error.to_string();
            assert!(
                matches!(error, PrefetchError::Halfway { .. }) && text.contains("--restore"),
                "{text}"
            );
            let left = saved(&cpus, &folder.state()).unwrap();
            assert_eq!(left.unwrap().values, before, "crash at write {crash}");
        }
        restore(&cpus, &folder.state(), true).unwrap();
        assert_eq!(cpus.values(), before, "crash at write {crash}");
    }
}

#[test]
fn a_cpu_that_fails_takes_back_those_before_it_and_leaves_no_state() {
    for fails in 0..4 {
        let mut cpus = Cpus::new(ZEN5);
        cpus.left = AtomicUsize::new(fails);
        let (folder, before) = (Folder::new(), cpus.values());
        let error = switch(&cpus, &folder.state(), false, NOW).unwrap_err();
        assert!(matches!(error, PrefetchError::Faults { cpu, .. } if cpu == fails as u32));
        assert_eq!(cpus.values(), before);
        assert_eq!(saved(&cpus, &folder.state()).unwrap(), None);
    }
}

#[test]
fn a_register_that_ignores_writes_is_found_out_and_nothing_stays_switched() {
    let mut cpus = Cpus::new(ZEN5);
    cpus.deaf = Some(3);
    let (folder, before) = (Folder::new(), cpus.values());
    let error = switch(&cpus, &folder.state(), false, NOW).unwrap_err();
    assert!(
        matches!(error, PrefetchError::NotTaken { cpu: 3, .. }),
        "{error}"
    );
    assert_eq!(cpus.values(), before);
}

#[test]
fn a_guard_switches_per_phase_and_everything_is_back_when_it_goes() {
    let (cpus, folder) = (Arc::new(Cpus::new(INTEL)), Folder::new());
    let before = cpus.values();
    let registers: Arc<dyn Registers + Send + Sync> = cpus.clone();
    let mut guard = PrefetchGuard::switch_off(registers.clone(), folder.state(), NOW).unwrap();
    assert_eq!(guard.found(), None);
    assert_ne!(cpus.values(), before);
    let switches: &mut dyn Prefetchers = &mut guard;
    switches.set(true).unwrap();
    assert_eq!(cpus.values(), before);
    switches.set(false).unwrap();
    assert_ne!(cpus.values(), before);
    let other = PrefetchGuard::ready(registers.clone(), folder.state(), NOW);
    assert!(
        other
            .err()
            .expect("one at a time")
            .to_string()
            .contains("another tierloom"),
    );
    drop(guard);
    assert_eq!(cpus.values(), before);
    assert_eq!(saved(&*cpus, &folder.state()).unwrap(), None);
    PrefetchGuard::switch_off(registers, folder.state(), NOW)
        .unwrap()
        .restore()
        .unwrap();
    assert_eq!(cpus.values(), before);
}

#[test]
fn the_next_start_tells_of_a_program_that_died_and_brings_its_first_state_back() {
    let (cpus, folder) = (Arc::new(Cpus::new(INTEL)), Folder::new());
    let before = cpus.values();
    // Nothing that the program does after this counts, as if it had been killed.
    switch(&*cpus, &folder.state(), false, NOW).unwrap();
    let registers: Arc<dyn Registers + Send + Sync> = cpus.clone();
    let guard = PrefetchGuard::switch_off(registers, folder.state(), "later").unwrap();
    assert_eq!(guard.found(), Some(NOW));
    drop(guard);
    assert_eq!(cpus.values(), before);
}

#[test]
fn a_state_of_another_boot_is_forgotten_and_never_written() {
    let (cpus, folder) = (Cpus::new(INTEL), Folder::new());
    switch(&cpus, &folder.state(), false, NOW).unwrap();
    cpus.set_file("proc/sys/kernel/random/boot_id", "boot-2");
    let off = cpus.values();
    assert_eq!(saved(&cpus, &folder.state()).unwrap(), None);
    let restored = restore(&cpus, &folder.state(), true).unwrap();
    assert!(matches!(restored, RestoredRegisters::Rebooted(_)));
    assert_eq!(cpus.values(), off);
    assert_eq!(
        restore(&cpus, &folder.state(), true).unwrap(),
        RestoredRegisters::Nothing
    );
}

#[test]
fn a_cpu_that_went_offline_does_not_keep_the_others_from_coming_back() {
    let (cpus, folder) = (Cpus::new(INTEL), Folder::new());
    switch(&cpus, &folder.state(), false, NOW).unwrap();
    cpus.values.lock().unwrap().remove(&1);
    let RestoredRegisters::Back { gone, .. } = restore(&cpus, &folder.state(), true).unwrap()
    else {
        panic!("nothing was put back")
    };
    assert_eq!(gone, [1]);
    assert_eq!(
        cpus.values(),
        [(0, OTHER), (2, OTHER | 1), (3, OTHER)].into()
    );
}

#[test]
fn each_reason_is_told_with_what_helps() {
    let failing = |errno: i32, files: &[(&str, &str)]| {
        let mut cpus = Cpus::new(ZEN5);
        cpus.reads_fail = Some(errno);
        for (path, text) in files {
            cpus.set_file(path, text);
        }
        show(&cpus, &control(&cpus).unwrap()).unwrap_err()
    };
    let lockdown = [(
        "sys/kernel/security/lockdown",
        "none [integrity] confidentiality",
    )];
    for (error, said) in [
        (failing(2, &[]), "modprobe msr"),
        (failing(5, &[]), "run it on the host"),
        (failing(13, &[]), "CAP_SYS_RAWIO"),
        (failing(1, &lockdown), "Secure Boot"),
        (failing(6, &[]), "cannot read /dev/cpu/0/msr"),
    ] {
        let text = error.to_string();
        assert!(text.contains(said), "{text}");
    }
    let mut cpus = Cpus::new(ZEN5);
    cpus.set_file("sys/module/msr/parameters/allow_writes", "off");
    (cpus.left, cpus.errno) = (AtomicUsize::new(0), 1);
    let error = switch(&cpus, &Folder::new().state(), false, NOW).unwrap_err();
    assert!(error.to_string().contains("msr.allow_writes=on"), "{error}");
}

#[test]
fn an_unknown_processor_is_never_written_and_told_with_what_it_is() {
    for cpuinfo in [
        // An Atom core, an AMD processor older than Zen 3, and one without such fields.
        "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 92\n",
        "vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 49\n",
        "CPU implementer : 0x41\n",
    ] {
        let (cpus, folder) = (Cpus::new(cpuinfo), Folder::new());
        let error = switch(&cpus, &folder.state(), false, NOW).unwrap_err();
        assert!(error.is_bad_input());
        let text = error.to_string();
        assert!(
            text.contains("family") && text.contains("known are"),
            "{text}"
        );
        assert_eq!(saved(&cpus, &folder.state()).unwrap(), None);
    }
}

#[test]
fn registers_of_a_recorded_tree_lie_at_their_offset_and_are_never_made() {
    let dir = tempfile::tempdir().unwrap();
    let root = SysRoot::at(dir.path());
    for (path, bytes) in [("proc/cpuinfo", INTEL.as_bytes()), ("dev/cpu/0/msr", b"")] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let file = dir.path().join("dev/cpu/0/msr");
    let mut bytes = vec![0; 0x1a4];
    bytes.extend([0x02, 0xff, 0, 0, 0, 0, 0, 0x80]);
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(root.read_register(0, 0x1a4).unwrap(), 0x8000_0000_0000_ff02);
    let state = state_file(&usual_state_file(&root, false, |_| None));
    switch(&root, &state, false, NOW).unwrap();
    assert_eq!(std::fs::read(&file).unwrap()[0x1a4..0x1a6], [0x0f, 0xff]);
    restore(&root, &state, true).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert!(root.write_register(1, 0x1a4, 0).is_err());
    assert!(!dir.path().join("dev/cpu/1").exists());
}
