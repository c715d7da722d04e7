//! Guests with a CXL device in devdax mode: one alone, several in turn on the same bytes, and two
//! at a time with a network between them.
//!
//! busybox's `devmem`, which maps one page of `/dev/mem`, reads and writes the bytes of
//! `/dev/dax0.0`: the guest makes that name a link to the device and gives the device pages of 4
//! KiB instead of 2 MiB. `TIERLOOM_LAB=skip` skips these tests.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use tierloom_lab::{
    GuestCommand, GuestKind, GuestLink, GuestOptions, GuestOutcome, Kit, LabError, kit_for_tests,
    run, run_together,
};

/// For one guest, or one wait in it, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(600);
const DEVICE_BYTES: u64 = 256 << 20;

/// Makes `devmem OFFSET WIDTH [VALUE]` read and write the device.
const MAP_BY_PAGE: &str = "D=/sys/bus/dax; echo dax0.0 >$D/drivers/device_dax/unbind && echo 4096 >$D/devices/dax0.0/align && \
    echo dax0.0 >$D/drivers/device_dax/bind && ln -sf dax0.0 /dev/mem";

/// `None` if guests are disabled.
fn kit() -> Option<Kit> {
    kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"))
}

/// A small devdax guest on the device in `dir`.
fn devdax(dir: &Path) -> GuestOptions {
    let mut options = GuestOptions::new(GuestKind::CxlDevdax);
    options.dram_bytes = 512 << 20;
    options.slow_bytes = DEVICE_BYTES;
    options.timeout = LIMIT;
    options.cxl_backing = Some(dir.join("device"));
    options
}

fn boot(kit: &Kit, options: &GuestOptions, scripts: &[&str]) -> GuestOutcome {
    let commands: Vec<GuestCommand> = scripts.iter().map(|s| GuestCommand::shell(*s)).collect();
    let outcome = run(kit, options, &commands, &mut |line| eprintln!("{line}"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_all_done(&outcome);
    outcome
}

fn assert_all_done(outcome: &GuestOutcome) {
    for command in &outcome.commands {
        assert_eq!(
            command.exit_code,
            0,
            "{:?}: {}",
            command.argv,
            command.stderr_text()
        );
    }
}

#[test]
fn a_devdax_guest_maps_its_device_and_the_next_boot_finds_the_bytes() {
    let Some(kit) = &kit() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = devdax(dir.path());
    let device = dir.path().join("device");

    let first = boot(
        kit,
        &options,
        &[
            "cat /sys/bus/dax/devices/dax0.0/size && [ -c /dev/dax0.0 ] && cat /sys/devices/system/node/online && [ ! -e /sys/module/kmem ]",
            "grep -m 1 ^flags /proc/cpuinfo",
            "ping -c 1 127.0.0.1",
        ],
    );
    assert_eq!(first.commands[0].stdout_text(), "268435456\n0\n");
    let flags = first.commands[1].stdout_text();
    for flag in ["avx2", "clwb", "clflushopt"] {
        assert!(flags.split_whitespace().any(|f| f == flag), "{flag}");
    }
    // No byte was written, so the file is still one hole.
    let untouched = std::fs::metadata(&device).unwrap();
    assert_eq!((untouched.len(), untouched.blocks()), (DEVICE_BYTES, 0));

    boot(
        kit,
        &options,
        &[MAP_BY_PAGE, "devmem 0x7654ff8 64 0x0123456789abcdef"],
    );
    let mut bytes = [0; 8];
    let file = File::open(&device).unwrap();
    file.read_exact_at(&mut bytes, 0x0765_4ff8).unwrap();
    assert_eq!(u64::from_le_bytes(bytes), 0x0123_4567_89ab_cdef);

    let last = boot(
        kit,
        &options,
        &[
            MAP_BY_PAGE,
            "devmem 0x7654ff8 64 && devmem 0x7655000 64",
            // The last word is inside the device, the next one is not.
            "devmem 0xffffff8 64 && ! devmem 0x10000000 64",
        ],
    );
    assert_eq!(
        last.commands[1].stdout_text(),
        "0x0123456789ABCDEF\n0x0000000000000000\n"
    );
    assert_eq!(last.commands[2].stdout_text(), "0x0000000000000000\n");
}

#[test]
fn two_guests_talk_over_their_link_and_see_each_others_stores() {
    let Some(kit) = &kit() else { return };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("link");
    let guest = |link: GuestLink| {
        let mut options = devdax(dir.path());
        options.link = Some(link);
        options
    };
    let port =
        |port| GuestCommand::wait_for_port(format!("10.7.0.1:{port}").parse().unwrap(), LIMIT);
    let shell = |script: &str| GuestCommand::shell(script);
    // Each boots at its own speed and waits for the other where necessary.
    let server = [
        shell("mkdir /www && echo from one >/www/page && httpd -p 10.7.0.1:7000 -h /www"),
        shell("until ping -c 1 -W 1 10.7.0.2; do sleep 0.1; done >/dev/null"),
        shell(MAP_BY_PAGE),
        shell(
            "devmem 0x200000 64 0xa11ce && until [ $(devmem 0x400000 64) = 0x0000000000000B0B ]; do sleep 0.1; done && devmem 0x400008 64",
        ),
        // The first connection ends it: it is the other guest's signal that it is done.
        shell("nc -l -p 7001"),
    ];
    let client = [
        port(7000),
        shell("wget -q -O - http://10.7.0.1:7000/page"),
        shell(MAP_BY_PAGE),
        shell(
            "until [ $(devmem 0x200000 64) = 0x00000000000A11CE ]; do sleep 0.1; done; devmem 0x400008 64 0xd0e && devmem 0x400000 64 0xb0b",
        ),
        port(7001),
    ];
    let guests = [
        (
            guest(GuestLink::listen(&socket, "10.7.0.1/24")),
            server.into(),
        ),
        (
            guest(GuestLink::connect(&socket, "10.7.0.2/24")),
            client.into(),
        ),
    ];
    let mut heard = [0, 0];
    let outcomes = run_together(kit, &guests, &mut |index, line| {
        heard[index] += 1;
        eprintln!("[{index}] {line}");
    })
    .unwrap_or_else(|error| panic!("{error}"));
    outcomes.iter().for_each(assert_all_done);
    assert_eq!(outcomes[1].commands[1].stdout_text(), "from one\n");
    // The store before the flag is visible once the flag is.
    assert_eq!(
        outcomes[0].commands[3].stdout_text(),
        "0x0000000000000D0E\n"
    );
    assert!(heard.iter().all(|lines| *lines > 0), "{heard:?}");
}

#[test]
fn a_guest_whose_peer_never_comes_has_its_address_and_reaches_nobody() {
    let Some(kit) = &kit() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut options = GuestOptions::new(GuestKind::TwoNodes);
    options.link = Some(GuestLink::connect(dir.path().join("link"), "10.7.0.2/24"));
    let outcome = boot(
        kit,
        &options,
        &["ip -4 addr show eth0; ! ping -c 1 -W 1 10.7.0.1"],
    );
    let shown = outcome.commands[0].stdout_text();
    assert!(
        shown.contains("inet 10.7.0.2/24") && shown.contains("100% packet loss"),
        "{shown}"
    );
}

#[test]
fn a_guest_that_cannot_boot_takes_the_waiting_one_with_it() {
    let Some(kit) = &kit() else { return };
    let mut waiting = GuestOptions::new(GuestKind::TwoNodes);
    waiting.timeout = LIMIT;
    let mut broken = GuestOptions::new(GuestKind::TwoNodes);
    broken.dram_bytes = 32 << 40;
    let guests = [
        (waiting, vec![GuestCommand::shell("sleep 100000")]),
        (broken, Vec::new()),
    ];
    let error = run_together(kit, &guests, &mut |_, _| ()).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(&error, LabError::Together { index: 1, source, .. } if matches!(**source, LabError::Qemu { .. })),
        "{text}"
    );
    assert!(text.contains("guests[0] was killed; 0 of 1"), "{text}");
}
