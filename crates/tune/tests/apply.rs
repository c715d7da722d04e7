//! Setting and restoring the kernel's weights on a simulated kernel: at whatever point something
//! fails, the old state is restored.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use proptest::prelude::*;
use tierloom_topology::SysRoot;
use tierloom_tune::apply::{
    ApplyError, AutoPolicy, FOLDER, InterleaveSettings, RestoredWeights, Saved, StateFile, Switch,
    SystemFiles, apply, plan, restore, usual_state_file,
};

const NOW: &str = "2026-01-01T00:00:00Z";
const BOOT: &str = "proc/sys/kernel/random/boot_id";

/// The simulated kernel's behaviour when `auto` is switched on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Auto {
    /// It has no such switch.
    Missing,
    /// Firmware reported no bandwidths, so it cannot be switched on.
    Cannot,
    /// It sets these weights.
    Sets(u32),
}

/// Files in memory that behave like the kernel's and fail at the n-th write.
struct Kernel {
    files: RefCell<BTreeMap<String, String>>,
    auto: Auto,
    /// Number of writes that still succeed; all if `None`.
    left: Cell<Option<usize>>,
    writes: Cell<usize>,
    deaf: Cell<bool>,
    may_write: bool,
}

impl Kernel {
    fn new(weights: &[(u32, u32)], auto: Auto, on: bool) -> Self {
        let node =
            |(node, weight): &(u32, u32)| (format!("{FOLDER}/node{node}"), weight.to_string());
        let mut files: BTreeMap<String, String> = weights.iter().map(node).collect();
        files.insert(BOOT.into(), "boot-1".into());
        if auto != Auto::Missing {
            files.insert(format!("{FOLDER}/auto"), on.to_string());
        }
        Kernel {
            files: RefCell::new(files),
            auto,
            left: Cell::new(None),
            writes: Cell::new(0),
            deaf: Cell::new(false),
            may_write: true,
        }
    }

    fn settings(&self) -> InterleaveSettings {
        InterleaveSettings::read(self).unwrap()
    }

    fn set(&self, path: &str, text: &str) {
        self.files.borrow_mut().insert(path.into(), text.into());
    }
}

impl SystemFiles for Kernel {
    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let files = self.files.borrow();
        let names = files
            .keys()
            .filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(names)
        }
    }

    fn read(&self, path: &str) -> io::Result<String> {
        self.files
            .borrow()
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn may_write(&self, _path: &str) -> io::Result<()> {
        if self.may_write {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        match self.left.get() {
            Some(0) => return Err(io::Error::other("the machine stopped")),
            Some(left) => self.left.set(Some(left - 1)),
            None => {}
        }
        self.writes.set(self.writes.get() + 1);
        if self.deaf.get() {
            return Ok(());
        }
        let switch = format!("{FOLDER}/auto");
        if path != switch {
            self.set(path, text);
            if self.auto != Auto::Missing {
                self.set(&switch, "false");
            }
            return Ok(());
        }
        match (self.auto, text) {
            (Auto::Cannot, "true") => return Err(io::Error::from_raw_os_error(19)),
            (Auto::Sets(weight), "true") => {
                let nodes = self.names(FOLDER)?;
                for node in nodes.iter().filter(|name| name.starts_with("node")) {
                    self.set(&format!("{FOLDER}/{node}"), &weight.to_string());
                }
            }
            _ => {}
        }
        self.set(path, text);
        Ok(())
    }

    fn full(&self, path: &str) -> PathBuf {
        PathBuf::from("/").join(path)
    }
}

fn wanted(weights: &[(u32, u32)]) -> BTreeMap<u32, u32> {
    weights.iter().copied().collect()
}

const KEEP: AutoPolicy = AutoPolicy {
    may_go_off: false,
    can_come_back: true,
};
const OFF: AutoPolicy = AutoPolicy {
    may_go_off: true,
    can_come_back: true,
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    /// In a folder that does not exist yet.
    fn state(&self) -> StateFile {
        StateFile::at(self.0.path().join("a/b/weights.json"))
    }
}

#[test]
fn the_old_weights_come_back_and_coming_back_twice_changes_nothing() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 1), (1, 7), (2, 9)], Auto::Missing, false),
        Folder::new(),
    );
    let (state, before) = (folder.state(), kernel.settings());
    let done = apply(&kernel, &wanted(&[(0, 3), (1, 2)]), KEEP, &state, NOW).unwrap();
    assert!(done.saved_now);
    assert_eq!(kernel.settings().weights, wanted(&[(0, 3), (1, 2), (2, 9)]));
    assert_eq!(state.read::<Saved>().unwrap().unwrap().settings, before);
    let outcome = restore(&kernel, &state, false).unwrap();
    assert!(
        matches!(outcome, RestoredWeights::Back { .. }),
        "{outcome:?}"
    );
    assert_eq!(kernel.settings().weights[&0], 3, "telling must not write");
    restore(&kernel, &state, true).unwrap();
    assert_eq!(kernel.settings(), before);
    let writes = kernel.writes.get();
    assert_eq!(
        restore(&kernel, &state, true).unwrap(),
        RestoredWeights::Nothing
    );
    assert_eq!(kernel.writes.get(), writes);
}

#[test]
fn a_second_apply_keeps_the_first_saved_state() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 1), (1, 1)], Auto::Missing, false),
        Folder::new(),
    );
    let (state, before) = (folder.state(), kernel.settings());
    apply(&kernel, &wanted(&[(0, 3), (1, 2)]), KEEP, &state, NOW).unwrap();
    let second = apply(&kernel, &wanted(&[(0, 5), (1, 4)]), KEEP, &state, "later").unwrap();
    assert!(!second.saved_now);
    assert_eq!(state.read::<Saved>().unwrap().unwrap().saved_at, NOW);
    restore(&kernel, &state, true).unwrap();
    assert_eq!(kernel.settings(), before);
}

#[test]
fn weights_that_are_there_already_are_not_written_and_nothing_is_saved() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 3), (1, 2)], Auto::Sets(1), true),
        Folder::new(),
    );
    let done = apply(
        &kernel,
        &wanted(&[(0, 3), (1, 2)]),
        KEEP,
        &folder.state(),
        NOW,
    )
    .unwrap();
    assert!(done.plan.is_done() && !done.saved_now);
    assert_eq!(
        (kernel.writes.get(), folder.state().read::<Saved>().unwrap()),
        (0, None)
    );
    assert!(kernel.settings().switch.unwrap().on, "auto stays on");
}

#[test]
fn auto_is_never_switched_off_unless_it_was_asked_for() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 4), (1, 4)], Auto::Sets(4), true),
        Folder::new(),
    );
    let state = folder.state();
    let error = apply(&kernel, &wanted(&[(0, 3)]), KEEP, &state, NOW).unwrap_err();
    assert!(matches!(error, ApplyError::AutoIsOn { .. }) && error.is_bad_input());
    let text = error.to_string();
    assert!(
        text.contains("--auto-off") && text.contains("firmware"),
        "{text}"
    );
    assert_eq!(
        (kernel.writes.get(), state.read::<Saved>().unwrap()),
        (0, None)
    );

    let before = kernel.settings();
    let done = apply(&kernel, &wanted(&[(0, 3)]), OFF, &state, NOW).unwrap();
    let off = Switch {
        file: "auto".into(),
        on: false,
    };
    assert_eq!(done.plan.switch, Some(off));
    assert!(!kernel.settings().switch.unwrap().on);
    restore(&kernel, &state, true).unwrap();
    assert_eq!(kernel.settings(), before, "auto and weights are back");
}

#[test]
fn other_weights_of_a_kernel_that_weighs_by_itself_again_are_told() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 4), (1, 4)], Auto::Sets(5), true),
        Folder::new(),
    );
    apply(&kernel, &wanted(&[(0, 3)]), OFF, &folder.state(), NOW).unwrap();
    let RestoredWeights::Back { reweighed, .. } = restore(&kernel, &folder.state(), true).unwrap()
    else {
        panic!("nothing was put back")
    };
    let outcome: Vec<_> = reweighed
        .iter()
        .map(|change| (change.node, change.old, change.new))
        .collect();
    assert_eq!(outcome, [(0, 4, 5), (1, 4, 5)]);
    assert_eq!(folder.state().read::<Saved>().unwrap(), None);
}

#[test]
fn a_switch_that_cannot_come_back_is_told_before_and_after() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 1), (1, 1)], Auto::Cannot, true),
        Folder::new(),
    );
    let never = AutoPolicy {
        may_go_off: false,
        can_come_back: false,
    };
    let text = plan(&kernel, &wanted(&[(0, 3)]), never)
        .unwrap_err()
        .to_string();
    assert!(text.contains("until the next boot"), "{text}");
    apply(&kernel, &wanted(&[(0, 3)]), OFF, &folder.state(), NOW).unwrap();
    let error = restore(&kernel, &folder.state(), true).unwrap_err();
    assert!(matches!(error, ApplyError::AutoStaysOff { .. }), "{error}");
    assert_eq!(
        kernel.settings().weights,
        wanted(&[(0, 1), (1, 1)]),
        "the weights are back"
    );
    assert!(
        folder.state().read::<Saved>().unwrap().is_some(),
        "what is not done is not forgotten"
    );
}

/// The simulated kernel fails at every write of an apply, and again at every write of the restore
/// after it.
#[test]
fn after_a_crash_at_any_write_the_old_state_can_be_restored() {
    for auto in [Auto::Missing, Auto::Sets(4)] {
        for crash in 0..5 {
            for second in 0..5 {
                let kernel = Kernel::new(&[(0, 4), (1, 4), (2, 4)], auto, auto != Auto::Missing);
                let (folder, before) = (Folder::new(), kernel.settings());
                let state = folder.state();
                kernel.left.set(Some(crash));
                let done = apply(
                    &kernel,
                    &wanted(&[(0, 9), (1, 5), (2, 2)]),
                    OFF,
                    &state,
                    NOW,
                );
                let saved = state.read::<Saved>().unwrap();
                assert_eq!(
                    saved.is_some(),
                    kernel.settings() != before,
                    "{auto:?}: saved if and only if something was written, crash {crash}: {done:?}"
                );
                kernel.left.set(Some(second));
                let _ = restore(&kernel, &state, true);
                kernel.left.set(None);
                restore(&kernel, &state, true).unwrap();
                assert_eq!(
                    kernel.settings(),
                    before,
                    "{auto:?}, crashes {crash} and {second}"
                );
                assert_eq!(state.read::<Saved>().unwrap(), None);
            }
        }
    }
}

/// The state after a process was killed: the old weights are saved and any number of writes were
/// made, but nothing was cleaned up.
#[test]
fn a_process_killed_between_saving_and_writing_leaves_a_state_that_restores() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 1), (1, 1)], Auto::Missing, false),
        Folder::new(),
    );
    let (state, before) = (folder.state(), kernel.settings());
    apply(&kernel, &wanted(&[(0, 3), (1, 2)]), KEEP, &state, NOW).unwrap();
    // As if no write had been made, then as if the first one had.
    for first in [1, 3] {
        let saved = std::fs::read(state.path()).unwrap();
        kernel.set(&format!("{FOLDER}/node0"), &first.to_string());
        kernel.set(&format!("{FOLDER}/node1"), "1");
        restore(&kernel, &state, true).unwrap();
        assert_eq!(kernel.settings(), before);
        std::fs::write(state.path(), saved).unwrap();
    }
}

#[test]
fn a_write_that_the_kernel_ignores_is_noticed() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 1), (1, 1)], Auto::Missing, false),
        Folder::new(),
    );
    kernel.deaf.set(true);
    let error = apply(&kernel, &wanted(&[(0, 3)]), KEEP, &folder.state(), NOW).unwrap_err();
    assert!(matches!(error, ApplyError::NotTaken { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("node0 holds 1 after 3 was written"),
        "{error}"
    );
}

#[test]
fn a_saved_state_of_another_boot_is_not_written_and_is_replaced() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 1), (1, 1)], Auto::Missing, false),
        Folder::new(),
    );
    let state = folder.state();
    apply(&kernel, &wanted(&[(0, 3)]), KEEP, &state, NOW).unwrap();
    kernel.set(BOOT, "boot-2");
    kernel.set(&format!("{FOLDER}/node0"), "6");
    let writes = kernel.writes.get();
    let outcome = restore(&kernel, &state, false).unwrap();
    assert!(
        matches!(outcome, RestoredWeights::Rebooted(_)),
        "{outcome:?}"
    );
    let again = apply(&kernel, &wanted(&[(0, 2)]), KEEP, &state, "later").unwrap();
    assert!(
        again.saved_now,
        "the new boot's weights are the old ones now"
    );
    restore(&kernel, &state, true).unwrap();
    assert_eq!(kernel.settings().weights[&0], 6);
    assert!(kernel.writes.get() > writes);
}

#[test]
fn what_is_missing_is_named_and_nothing_is_left_behind() {
    let folder = Folder::new();
    let state = folder.state();
    let none = Kernel::new(&[], Auto::Missing, false);
    let text = apply(&none, &wanted(&[(0, 3)]), KEEP, &state, NOW)
        .unwrap_err()
        .to_string();
    assert!(text.contains("6.9") && text.contains("--config"), "{text}");
    let kernel = Kernel::new(&[(0, 1)], Auto::Missing, false);
    let text = apply(&kernel, &wanted(&[(5, 3)]), KEEP, &state, NOW)
        .unwrap_err()
        .to_string();
    assert!(text.contains("node5 is not there"), "{text}");
    let mut locked = Kernel::new(&[(0, 1)], Auto::Missing, false);
    locked.may_write = false;
    let error = apply(&locked, &wanted(&[(0, 3)]), KEEP, &state, NOW).unwrap_err();
    assert!(
        error.to_string().contains("sudo") && !error.is_bad_input(),
        "{error}"
    );
    kernel.set(&format!("{FOLDER}/node0"), "many");
    let text = apply(&kernel, &wanted(&[(0, 3)]), KEEP, &state, NOW)
        .unwrap_err()
        .to_string();
    assert!(text.contains("many") && text.contains("1 to 255"), "{text}");
    assert!(
        !state.path().parent().unwrap().exists(),
        "no state folder for nothing"
    );
}

#[test]
fn a_damaged_saved_state_stops_everything_before_anything_is_written() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 1), (1, 1)], Auto::Missing, false),
        Folder::new(),
    );
    let state = folder.state();
    std::fs::create_dir_all(state.path().parent().unwrap()).unwrap();
    for text in [
        "",
        "{}",
        r#"{"schema":"tierloom-saved-weights/9","saved_at":"","boot_id":null,"settings":{"weights":{},"switch":null}}"#,
    ] {
        std::fs::write(state.path(), text).unwrap();
        for error in [
            restore(&kernel, &state, true).unwrap_err(),
            apply(&kernel, &wanted(&[(0, 3)]), KEEP, &state, NOW).unwrap_err(),
        ] {
            assert!(
                matches!(error, ApplyError::BadState { .. }) && error.is_bad_input(),
                "{error}"
            );
        }
        assert_eq!(
            std::fs::read_to_string(state.path()).unwrap(),
            text,
            "kept for the user to look at"
        );
    }
    assert_eq!(kernel.writes.get(), 0);
}

#[test]
fn another_process_at_work_is_waited_for_by_the_user() {
    let (kernel, folder) = (Kernel::new(&[(0, 1)], Auto::Missing, false), Folder::new());
    let state = folder.state();
    let lock = state.path().with_extension("lock");
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let held = std::fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let error = apply(&kernel, &wanted(&[(0, 3)]), KEEP, &state, NOW).unwrap_err();
    assert!(matches!(error, ApplyError::Busy { .. }), "{error}");
    assert_eq!(kernel.writes.get(), 0);
    drop(held);
    apply(&kernel, &wanted(&[(0, 3)]), KEEP, &state, NOW).unwrap();
}

#[test]
fn a_node_that_is_gone_does_not_keep_the_others_from_coming_back() {
    let (kernel, folder) = (
        Kernel::new(&[(0, 1), (1, 1)], Auto::Missing, false),
        Folder::new(),
    );
    apply(
        &kernel,
        &wanted(&[(0, 3), (1, 2)]),
        KEEP,
        &folder.state(),
        NOW,
    )
    .unwrap();
    kernel.files.borrow_mut().remove(&format!("{FOLDER}/node1"));
    let RestoredWeights::Back { gone, .. } = restore(&kernel, &folder.state(), true).unwrap()
    else {
        panic!("nothing was put back")
    };
    assert_eq!(
        (gone, kernel.settings().weights),
        (vec![1], wanted(&[(0, 1)]))
    );
}

#[test]
fn files_of_a_recorded_machine_are_written_whole_and_never_made() {
    let dir = tempfile::tempdir().unwrap();
    let root = SysRoot::at(dir.path());
    let weights = dir.path().join(FOLDER);
    std::fs::create_dir_all(&weights).unwrap();
    std::fs::write(weights.join("node0"), "100\n").unwrap();
    std::fs::write(weights.join("__auto_type"), "false\n").unwrap();
    let state = usual_state_file(&root, false, |_| None);
    assert!(state.path().starts_with(dir.path()), "{state:?}");
    apply(&root, &wanted(&[(0, 3)]), KEEP, &state, NOW).unwrap();
    assert_eq!(
        std::fs::read_to_string(weights.join("node0")).unwrap(),
        "3\n"
    );
    assert!(root.write(&format!("{FOLDER}/node9"), "1").is_err());
    assert!(!weights.join("node9").exists());
}

#[test]
fn the_state_of_users_and_root_lies_where_it_belongs() {
    let variables = |name: &str| match name {
        "XDG_STATE_HOME" => Some("/xdg".into()),
        "HOME" => Some("/home/u".into()),
        _ => None,
    };
    let user = Kernel::new(&[], Auto::Missing, false);
    user.set("proc/self/status", "Name:\tx\nUid:\t7\t7\t7\t7");
    let path = |kernel: &Kernel, variables: &dyn Fn(&str) -> Option<String>| {
        usual_state_file(kernel, true, variables)
            .path()
            .display()
            .to_string()
    };
    assert_eq!(path(&user, &variables), "/xdg/tierloom/kernel-weights.json");
    let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
    assert_eq!(
        path(&user, &home),
        "/home/u/.local/state/tierloom/kernel-weights.json"
    );
    user.set("proc/self/status", "Uid:\t0\t0\t0\t0");
    assert_eq!(
        path(&user, &variables),
        "/var/lib/tierloom/kernel-weights.json"
    );
}

proptest! {
    #[test]
    fn any_weights_are_set_and_restored(
        old in proptest::collection::btree_map(0_u32..6, 1_u32..=255, 1..6),
        new in proptest::collection::vec(1_u32..=255, 6),
        crash in proptest::option::of(0_usize..6),
        is_on in any::<bool>(),
    ) {
        let weights: Vec<(u32, u32)> = old.iter().map(|(node, weight)| (*node, *weight)).collect();
        // A kernel that chooses weights by itself has set those that it would set.
        let auto = if is_on { Auto::Sets(weights[0].1) } else { Auto::Missing };
        let weights: Vec<_> = weights.iter().map(|(node, weight)| (*node, if is_on { weights[0].1 } else { *weight })).collect();
        let kernel = Kernel::new(&weights, auto, is_on);
        let (folder, before) = (Folder::new(), kernel.settings());
        let wanted: BTreeMap<u32, u32> = before.weights.keys().map(|node| (*node, new[*node as usize])).collect();
        kernel.left.set(crash);
        if apply(&kernel, &wanted, OFF, &folder.state(), NOW).is_ok() {
            prop_assert_eq!(&kernel.settings().weights, &wanted);
        }
        kernel.left.set(None);
        restore(&kernel, &folder.state(), true).unwrap();
        prop_assert_eq!(kernel.settings(), before);
    }
}
