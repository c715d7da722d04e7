//! Boots a guest of each kind for real, with busybox commands and this test's own binary.
//!
//! The first run downloads about 75 MB of Debian packages. `TIERLOOM_LAB=skip` skips these tests;
//! without a mirror they fail and say why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tierloom_lab::{
    CollectedKind, GuestCommand, GuestFile, GuestKind, GuestOptions, GuestOutcome, Kit, LabError,
    kit_for_tests, run, run_until,
};

/// Set in a guest, where this same binary is started as the program under test.
const IN_GUEST: &str = "TIERLOOM_LAB_TEST_IN_GUEST";

/// `None` if guests are disabled.
fn kit() -> Option<Kit> {
    kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"))
}

fn boot(kit: &Kit, options: &GuestOptions, commands: &[GuestCommand]) -> GuestOutcome {
    run(kit, options, commands, &mut |line| {
        eprintln!("[{}] {line}", options.kind)
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

fn collected<'a>(outcome: &'a GuestOutcome, path: &str) -> &'a str {
    let found = outcome
        .collected
        .iter()
        .find(|file| file.guest == path)
        .unwrap_or_else(|| panic!("{path} was not collected"));
    match &found.kind {
        CollectedKind::File(content) => std::str::from_utf8(content).unwrap().trim(),
        other => panic!("{path} is no file: {other:?}"),
    }
}

fn node_1_used_kb(meminfo: &str) -> u64 {
    meminfo
        .lines()
        .find_map(|line| {
            line.strip_prefix("Node 1 MemUsed:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        })
        .unwrap()
}

/// The program under test: writes every byte value 1,000 times to a file and exits with 42.
///
/// On the host it is an ordinary, quick test.
#[test]
fn guest_program() {
    use std::io::Write;
    if std::env::var_os(IN_GUEST).is_some() {
        std::fs::write("/tmp/bytes", all_bytes()).unwrap();
        std::io::stderr().write_all(b"told on stderr\n").unwrap();
        std::process::exit(42);
    }
    assert_eq!(all_bytes().len(), 256_000);
}

fn all_bytes() -> Vec<u8> {
    (0..256_000_u32).map(|i| (i % 256) as u8).collect()
}

#[test]
fn two_node_guest_shows_its_hmat_and_returns_every_byte() {
    let Some(kit) = &kit() else { return };
    let mut options = GuestOptions::new(GuestKind::TwoNodes);
    let own = std::env::current_exe().unwrap();
    options.files.push(GuestFile::new(own, "/bin/program"));
    options.collect = [
        "/sys/devices/system/node/node1/access0/initiators/*_*",
        "/sys/kernel/mm/mempolicy/weighted_interleave",
        "/sys/devices/system/node/node1/cpulist",
    ]
    .map(str::to_owned)
    .into();
    let program = GuestCommand::new([
        "program",
        "--exact",
        "guest_program",
        "--nocapture",
        "--test-threads=1",
    ])
    .env(IN_GUEST, "it's 1")
    .quiet();
    let commands = [
        program,
        GuestCommand::new(["cat", "/tmp/bytes"]).quiet(),
        GuestCommand::shell(
            "echo 3 >/sys/kernel/mm/mempolicy/weighted_interleave/node0; grep MemTotal /sys/devices/system/node/node*/meminfo",
        ),
        GuestCommand::shell(
            "mkdir /mnt && mount -t tmpfs -o mpol=bind:1 tmpfs /mnt && dd if=/dev/zero of=/mnt/f bs=1M count=64 2>/dev/null && cat /sys/devices/system/node/node1/meminfo",
        ),
        GuestCommand::new(["no-such-program"]),
        GuestCommand::shell("kill -9 $$"),
    ];
    let outcome = boot(kit, &options, &commands);

    let codes: Vec<i32> = outcome
        .commands
        .iter()
        .map(|command| command.exit_code)
        .collect();
    assert_eq!(
        (codes, outcome.exit_code),
        (vec![42, 0, 0, 0, 127, 137], 42)
    );
    assert_eq!(outcome.commands[0].stderr_text(), "told on stderr\n");
    assert!(
        outcome.commands[1].stdout == all_bytes(),
        "{} of 256000 bytes came back",
        outcome.commands[1].stdout.len()
    );
    assert!(outcome.commands[1].stderr.is_empty());
    let totals = outcome.commands[2].stdout_text();
    assert!(
        totals.contains("Node 0 MemTotal") && totals.contains("Node 1 MemTotal"),
        "{totals}"
    );
    let used_kb = node_1_used_kb(&outcome.commands[3].stdout_text());
    assert!(
        used_kb >= 64 << 10,
        "64 MiB bound to node 1, {used_kb} kB used there"
    );

    // QEMU was given 250 ns and 30 GiB/s; the kernel shows ns and MiB/s.
    let initiators = "/sys/devices/system/node/node1/access0/initiators";
    for (name, value) in [
        ("read_latency", "250"),
        ("write_latency", "250"),
        ("read_bandwidth", "30720"),
        ("write_bandwidth", "30720"),
    ] {
        assert_eq!(
            collected(&outcome, &format!("{initiators}/{name}")),
            value,
            "{name}"
        );
    }
    assert_eq!(
        collected(&outcome, "/sys/devices/system/node/node1/cpulist"),
        ""
    );
    let weights = "/sys/kernel/mm/mempolicy/weighted_interleave";
    assert_eq!(collected(&outcome, &format!("{weights}/node0")), "3");
    let other = collected(&outcome, &format!("{weights}/node1"));
    // From Linux 6.16 on, weights follow the bandwidths of the HMAT until one is written.
    let has_auto = outcome
        .collected
        .iter()
        .any(|file| file.guest.ends_with("/auto"));
    match has_auto {
        true => {
            assert_eq!(collected(&outcome, &format!("{weights}/auto")), "false");
            assert!(other.parse::<u8>().is_ok_and(|w| w > 0), "{other}");
        }
        false => assert_eq!(other, "1"),
    }
}

#[test]
fn cxl_guest_brings_its_region_online_as_a_cpuless_node() {
    let Some(kit) = &kit() else { return };
    let mut options = GuestOptions::new(GuestKind::Cxl);
    options.kernel_args.push("numa_balancing=disable".into());
    options.collect = [
        "/sys/bus/cxl/devices/region0/*",
        "/sys/bus/dax/devices/dax0.0",
        "/proc/sys/kernel/numa_balancing",
    ]
    .map(str::to_owned)
    .into();
    let commands = [
        GuestCommand::shell(
            "cd /sys/devices/system/node && cat online has_cpu node1/cpulist && sed -n 's/.*MemTotal: *//p' node1/meminfo",
        ),
        GuestCommand::shell("cat /sys/devices/system/node/node1/memory*/state | sort | uniq -c"),
        GuestCommand::new(["cat", "/sys/bus/dax/devices/dax0.0/target_node"]),
        GuestCommand::shell(
            "mkdir /mnt && mount -t tmpfs -o mpol=bind:1 tmpfs /mnt && head -c 4000000 /dev/urandom >/tmp/f && cp /tmp/f /mnt/f && cmp /tmp/f /mnt/f && cat /sys/devices/system/node/node1/meminfo",
        ),
    ];
    let outcome = boot(kit, &options, &commands);
    assert_eq!(
        outcome.exit_code,
        0,
        "{}",
        outcome
            .commands
            .iter()
            .map(|command| command.stderr_text())
            .collect::<String>()
    );
    assert_eq!(outcome.commands[0].stdout_text(), "0-1\n0\n\n524288 kB\n");
    assert_eq!(outcome.commands[1].stdout_text().trim(), "4 online");
    assert_eq!(outcome.commands[2].stdout_text(), "1\n");
    assert!(node_1_used_kb(&outcome.commands[3].stdout_text()) >= 3_900);
    let region = "/sys/bus/cxl/devices/region0";
    assert_eq!(
        (
            collected(&outcome, &format!("{region}/mode")),
            collected(&outcome, &format!("{region}/size"))
        ),
        ("ram", "0x20000000")
    );
    assert_eq!(collected(&outcome, "/proc/sys/kernel/numa_balancing"), "0");
    let dax = outcome
        .collected
        .iter()
        .find(|file| file.guest == "/sys/bus/dax/devices/dax0.0")
        .unwrap();
    assert!(
        matches!(&dax.kind, CollectedKind::Link(target) if target.contains("region0/dax_region0")),
        "{dax:?}"
    );
}

#[test]
fn a_hanging_command_ends_at_the_timeout_with_the_console() {
    let Some(kit) = &kit() else { return };
    let mut options = GuestOptions::new(GuestKind::TwoNodes);
    options.timeout = Duration::from_secs(25);
    let commands = [
        GuestCommand::new(["true"]),
        GuestCommand::shell("echo about to hang; sleep 100000"),
    ];
    let error = run(kit, &options, &commands, &mut |_| ()).unwrap_err();
    assert!(
        matches!(
            error,
            LabError::Timeout {
                timeout_s: 25,
                finished: 0 | 1,
                requested: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_guest_that_is_given_up_ends_soon_and_says_how_far_it_came() {
    let Some(kit) = &kit() else { return };
    let options = GuestOptions::new(GuestKind::TwoNodes);
    let commands = [
        GuestCommand::new(["true"]),
        GuestCommand::shell("echo about to hang; sleep 100000"),
    ];
    let hanging = AtomicBool::new(false);
    let error = run_until(
        kit,
        &options,
        &commands,
        &|| hanging.load(Ordering::Relaxed),
        &mut |line| {
            if line == "about to hang" {
                hanging.store(true, Ordering::Relaxed);
            }
        },
    )
    .unwrap_err();
    assert!(
        matches!(
            error,
            LabError::Interrupted {
                finished: 1,
                requested: 2
            }
        ),
        "{error}"
    );
}

#[test]
fn a_kernel_panic_is_told_from_a_hang() {
    let Some(kit) = &kit() else { return };
    let options = GuestOptions::new(GuestKind::TwoNodes);
    let error = run(
        kit,
        &options,
        &[GuestCommand::shell(
            "echo c >/proc/sysrq-trigger; sleep 1000",
        )],
        &mut |_| (),
    )
    .unwrap_err();
    assert!(
        matches!(&error, LabError::GuestPanic { tail } if tail.contains("sysrq")),
        "{error}"
    );
}

#[test]
fn a_guest_that_powers_itself_off_is_no_success() {
    let Some(kit) = &kit() else { return };
    let options = GuestOptions::new(GuestKind::TwoNodes);
    let error = run(
        kit,
        &options,
        &[GuestCommand::new(["poweroff", "-f"])],
        &mut |_| (),
    )
    .unwrap_err();
    assert!(
        matches!(&error, LabError::GuestStopped { reason, .. } if reason.contains("0 of 1")),
        "{error}"
    );
}

#[test]
fn a_guest_too_large_for_qemu_is_qemus_failure() {
    let Some(kit) = &kit() else { return };
    let mut options = GuestOptions::new(GuestKind::TwoNodes);
    options.dram_bytes = 32 << 40;
    let error = run(kit, &options, &[], &mut |_| ()).unwrap_err();
    assert!(
        matches!(&error, LabError::Qemu { detail, .. } if !detail.is_empty()),
        "{error}"
    );
}
