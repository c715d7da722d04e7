//! Boots with a shell script in place of QEMU that aborts, stalls and replies as told: which
//! failures are tried again and which never are.

use std::time::Duration;

use super::*;
use crate::GuestKind;

const SHORT: BootLimits = BootLimits {
    patience: Patience {
        silent: Duration::from_millis(1500),
        reported: Duration::from_millis(300),
        whole: Duration::from_secs(20),
    },
    tries: 3,
};

/// A kit whose QEMU runs `script`.
struct Played {
    dir: tempfile::TempDir,
    kit: Kit,
}

impl Played {
    fn new(script: &str) -> Played {
        let dir = tempfile::tempdir().unwrap();
        let kit = Kit::played(&dir.path().join("kit"), script);
        Played { dir, kit }
    }

    /// Boots one guest with one command; also returns the messages and the number of QEMU starts.
    fn run(&self) -> (Result<GuestOutcome, LabError>, Vec<String>, usize) {
        let mut options = GuestOptions::new(GuestKind::TwoNodes);
        options.timeout = Duration::from_secs(1);
        let commands = [GuestCommand::new(["a"])];
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let end = run_within(&self.kit, &options, &commands, &|| false, &mut say, SHORT);
        (end, said, self.starts())
    }

    fn starts(&self) -> usize {
        let path = self.kit.qemu.with_added_extension("starts");
        fs::read_to_string(path).unwrap().lines().count()
    }
}

/// The error of a guest, after checking that it was booted `starts` times.
fn failure(script: &str, starts: usize) -> LabError {
    let (end, _, started) = Played::new(script).run();
    let error = end.unwrap_err();
    assert_eq!(started, starts, "{error}");
    error
}

#[test]
fn a_qemu_that_aborts_is_started_again_and_the_failures_are_kept() {
    let script =
        "begin; [ $start -ge 3 ] || { echo 'Assertion failed' >&2; kill -ABRT $$; }; finish 7";
    let (end, said, starts) = Played::new(script).run();
    let outcome = end.unwrap();
    assert_eq!((outcome.exit_code, starts), (7, 3));
    assert_eq!(outcome.faults.len(), 2, "{:?}", outcome.faults);
    for fault in &outcome.faults {
        let reason = fault.reason();
        assert!(
            reason.contains("SIGABRT") && reason.contains("Assertion failed"),
            "{reason}"
        );
    }
    let again = said.iter().filter(|line| line.contains("booting again"));
    assert_eq!(again.count(), 2, "{said:?}");
    assert!(said.last().unwrap().contains("try 3 of 3"), "{said:?}");
}

#[test]
fn a_qemu_that_always_aborts_is_not_started_for_ever() {
    let error = failure("kill -SEGV $$", 3);
    let LabError::Emulator { tries: 3, fault } = &error else {
        panic!("{error}")
    };
    assert!(matches!(fault, EmulatorFault::Died { .. }), "{error}");
}

#[test]
fn a_guest_that_stalls_before_its_first_command_is_booted_again() {
    for stall in [
        "exec sleep 100",
        "frame boot 0 0; exec sleep 100",
        "echo 'rcu: INFO: rcu_preempt self-detected stall'; while :; do echo trace; sleep 0.1; done",
        "frame boot 0 0; echo 'Kernel panic - not syncing'; exit 0",
        "exit 0",
        "printf '%s setup 0 2 5\\nstep\\n\\n' $tag >>$results; exit 0",
    ] {
        let script = format!("[ $start -gt 1 ] || {{ {stall}; }}; begin; finish");
        let (end, _, starts) = Played::new(&script).run();
        let outcome = end.unwrap_or_else(|error| panic!("{stall}: {error}"));
        assert_eq!((outcome.faults.len(), starts), (1, 2), "{stall}");
    }
}

#[test]
fn what_commands_do_is_never_tried_again() {
    let error = failure("begin; exec sleep 100", 1);
    assert!(
        matches!(error, LabError::Timeout { finished: 0, .. }),
        "{error}"
    );
    let error = failure(
        "begin; echo 'rcu: INFO: rcu_preempt stall'; exec sleep 100",
        1,
    );
    assert!(matches!(error, LabError::Timeout { .. }), "{error}");
    let error = failure("begin; frame exit 0 0; exit 0", 1);
    assert!(matches!(error, LabError::GuestStopped { .. }), "{error}");
    let error = failure("begin; echo 'Kernel panic - not syncing'; exit 0", 1);
    assert!(matches!(error, LabError::GuestPanic { .. }), "{error}");
    let error = failure("echo 'no such option' >&2; exit 1", 1);
    assert!(matches!(error, LabError::Qemu { .. }), "{error}");
    let (end, _, starts) = Played::new("begin; finish 3").run();
    let outcome = end.unwrap();
    assert_eq!((outcome.exit_code, starts), (3, 1));
    assert!(outcome.faults.is_empty());
}

#[test]
fn a_cut_transcript_is_the_guests_doing_unless_qemu_died() {
    let cut = "begin; printf '%s stdout 0 0 99\\npart' $tag >>$results";
    let error = failure(&format!("{cut}; exit 0"), 1);
    assert!(matches!(error, LabError::GuestStopped { .. }), "{error}");
    let error = failure(&format!("{cut}; kill -ABRT $$"), 3);
    assert!(error.emulator_fault().is_some(), "{error}");
}

#[test]
fn a_qemu_that_does_not_end_after_its_guests_last_word_is_a_success_all_the_same() {
    let script = "begin; frame exit 0 0; frame done 0 0; kill -ABRT $$";
    let (end, _, starts) = Played::new(script).run();
    assert_eq!((end.unwrap().exit_code, starts), (0, 1));
}

/// A group of two guests on one device.
///
/// Each boot must find the device as it was before the first one.
#[test]
fn a_group_is_booted_again_as_a_whole_and_from_the_same_device() {
    let script = "begin; grep -q used \"$device\" && finish 9; \
         [ $start -gt 2 ] || { sleep 0.3; echo used >\"$device\"; kill -ABRT $$; }; finish";
    let played = Played::new(script);
    let device = played.dir.path().join("device");
    let guest = || {
        let mut options = GuestOptions::new(GuestKind::CxlDevdax);
        options.cxl_backing = Some(device.clone());
        (options, vec![GuestCommand::new(["a"])])
    };
    let mut say = |_: usize, _: &str| ();
    let outcomes = together::run_within(&played.kit, &[guest(), guest()], &mut say, SHORT).unwrap();
    for outcome in &outcomes {
        assert_eq!(outcome.exit_code, 0);
        assert_eq!(outcome.faults.len(), 1, "{:?}", outcome.faults);
    }
    assert_eq!(played.starts(), 4);
}

#[test]
fn a_failure_of_the_test_in_a_group_ends_it_at_once() {
    let script = "begin; mkdir \"$qemu.first\" && exit 0; exec sleep 100";
    let played = Played::new(script);
    let guest = || {
        let options = GuestOptions::new(GuestKind::TwoNodes);
        (options, vec![GuestCommand::new(["a"])])
    };
    let mut say = |_: usize, _: &str| ();
    let error =
        together::run_within(&played.kit, &[guest(), guest()], &mut say, SHORT).unwrap_err();
    assert!(error.emulator_fault().is_none(), "{error}");
    assert!(played.starts() <= 2);
}
