//! Dynamic capacity of an emulated CXL device, through its mailbox: in a guest, with the host as
//! the fabric manager.
//!
//! Linux has no driver for such devices, so the test has a mailbox of its own: it reads and writes
//! the registers with busybox's `devmem`. The DAX device that a kernel with a driver would make is
//! played by a folder.
//!
//! ```text
//!   guest: DcdSource ── 4800h to 4803h, event log 4 ──► device ◄── QMP: add, release ── host
//!              └────────── "fabric: add ..." on the console ────────────────────────────►
//! ```

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tierloom_lab::{GuestCommand, GuestFile, GuestKind, GuestOptions, Qmp, kit_for_tests, run};
use tierloom_memory::SystemClock;
use tierloom_pool::capacity::CapacitySource;
use tierloom_pool::capacity::dcd::{DcCommand, DcEvent, DcExtent, DcMailbox, DcState, DcdSource};
use tierloom_topology::SysRoot;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
/// Begins the lines on the console that ask the host for something.
const FABRIC: &str = "fabric: ";
/// An allocation that becomes a DAX device, and one that nobody uses.
const USED: (Uuid, u64, u64) = (Uuid::from_u128(0x11), 0, 128 * MIB);
const IDLE: (Uuid, u64, u64) = (Uuid::from_u128(0x22), 192 * MIB, 32 * MIB);
/// The log of records about dynamic capacity.
const LOG: u8 = 4;

#[test]
fn dynamic_capacity_is_taken_and_given_back_through_the_mailbox_of_a_device() {
    let kit = kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"));
    let Some(kit) = kit else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("qmp");
    let mut options = GuestOptions::new(GuestKind::CxlDcd);
    options.dram_bytes = 768 * MIB;
    options.qmp = Some(socket.clone());
    let program = "/bin/test-program";
    let own = std::env::current_exe().unwrap();
    options.files.push(GuestFile::new(own, program));
    let name = "the_device_is_driven";
    let command = GuestCommand::new([program, "--ignored", "--exact", "--nocapture", name])
        .env(tierloom_testing::MUST_CHECK, "1");
    let mut asked = Vec::new();
    let outcome = run(&kit, &options, &[command], &mut |line| {
        eprintln!("[dcd] {line}");
        if let Some(request) = line.strip_prefix(FABRIC) {
            carry_out(&socket, request);
            asked.push(request.to_owned());
        }
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let command = &outcome.commands[0];
    let out = command.stdout_text();
    let good = command.exit_code == 0 && out.contains("test result: ok. 1 passed; 0 failed");
    assert!(good, "{out}\n{}", command.stderr_text());
    assert!(asked.len() >= 4, "{asked:?}");
}

/// What a fabric manager does: "add OFFSET BYTES" or "release OFFSET BYTES".
fn carry_out(socket: &Path, request: &str) {
    let words: Vec<&str> = request.split_whitespace().collect();
    let [what, offset, bytes] = words[..] else {
        panic!("{request}");
    };
    let number = |word: &str| word.parse::<u64>().unwrap();
    let policy = match what {
        "add" => "selection-policy",
        "release" => "removal-policy",
        _ => panic!("{request}"),
    };
    let arguments = json!({
        "path": "/machine/peripheral/type3",
        "host-id": 0,
        policy: "prescriptive",
        "region": 0,
        "tag": Uuid::nil().to_string(),
        "extents": [{ "offset": number(offset), "len": number(bytes) }],
    });
    let command = format!("cxl-{what}-dynamic-capacity");
    let mut qmp = Qmp::connect(socket).unwrap();
    qmp.execute(&command, &arguments).unwrap();
}

/// In the guest: asks the host.
fn ask(what: &str, (_, offset, bytes): (Uuid, u64, u64)) {
    let mut console = fs::OpenOptions::new()
        .write(true)
        .open("/dev/console")
        .unwrap();
    writeln!(console, "\n{FABRIC}{what} {offset} {bytes}").unwrap();
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What the device says that the host has.
fn had(source: &mut DcdSource<'_, Registers>) -> Vec<(u64, u64)> {
    let extents = source.mailbox().extents().unwrap().into_iter();
    extents.map(|extent| (extent.start, extent.bytes)).collect()
}

#[test]
#[ignore = "needs a device of dynamic capacity: runs in a guest"]
fn the_device_is_driven() {
    let tree = tempfile::tempdir().unwrap();
    let sys = tree.path().join("sys/bus/dax");
    fs::create_dir_all(sys.join("drivers/device_dax/dax7.0")).unwrap();
    fs::create_dir_all(sys.join("devices/dax7.0")).unwrap();
    fs::write(sys.join("devices/dax7.0/size"), format!("{}\n", USED.2)).unwrap();
    fs::write(sys.join("devices/dax7.0/uuid"), format!("{}\n", USED.0)).unwrap();
    let files = SysRoot::at(tree.path());
    let clock = Arc::new(SystemClock::new());
    let mailbox = Registers::of(Path::new("/run/cxl-device")).unwrap();
    assert_eq!(mailbox.block_bytes(), 2 * MIB);
    let mut source = DcdSource::new(mailbox, &files, clock.clone()).unwrap();
    assert_eq!(source.offers().unwrap(), []);
    assert_eq!(had(&mut source), []);

    ask("add", USED);
    let offer = wait_for("no offer", || source.offers().unwrap().pop());
    assert_eq!(offer.path, Path::new("/dev/dax7.0"));
    assert_eq!(offer.tag, Some(USED.0));
    assert_eq!(had(&mut source), [(USED.1, USED.2)]);
    assert_eq!(source.asked_back().unwrap().len(), 0);

    ask("add", IDLE);
    wait_for("no second allocation", || {
        assert_eq!(source.offers().unwrap(), [], "it has no device");
        let all = source.machine().allocations();
        all.iter().any(|a| a.state == DcState::Ready).then_some(())
    });
    assert_eq!(had(&mut source).len(), 2);

    // In use: it stays until whoever has it lets it go.
    ask("release", USED);
    let asked = wait_for("not asked back", || source.asked_back().unwrap().pop());
    assert_eq!(asked, offer.path);
    assert_eq!(had(&mut source).len(), 2);
    source.take_back(&asked).unwrap();
    assert_eq!(had(&mut source), [(IDLE.1, IDLE.2)]);
    assert_eq!(source.asked_back().unwrap().len(), 0);

    // A process that starts anew finds what was accepted; nobody uses it, so it goes at once.
    drop(source);
    let mailbox = Registers::of(Path::new("/run/cxl-device")).unwrap();
    let mut source = DcdSource::new(mailbox, &files, clock).unwrap();
    let all = source.machine().allocations();
    assert_eq!(all.len(), 1);
    assert_eq!(
        (all[0].extents[0].start, all[0].state),
        (IDLE.1, DcState::Ready)
    );
    ask("release", IDLE);
    wait_for("not given back", || {
        assert_eq!(source.offers().unwrap(), []);
        had(&mut source).is_empty().then_some(())
    });
    assert_eq!(source.machine().allocations(), []);
    // What was given back is not the host's to give.
    let again = DcCommand::GiveBack(vec![extent(USED.1, USED.2, Uuid::nil(), 0)]);
    assert!(!source.mailbox().send(&again).unwrap());
}

/// The mailbox of a CXL device in the registers behind its BAR 2.
struct Registers {
    /// Where the mailbox is in memory.
    start: u64,
    block_bytes: u64,
    records: VecDeque<DcEvent>,
}

impl Registers {
    /// The device with this folder in sysfs.
    fn of(device: &Path) -> io::Result<Self> {
        let resources = fs::read_to_string(device.join("resource"))?;
        let bar = resources
            .lines()
            .nth(2)
            .and_then(|line| line.split(' ').next());
        let bar =
            bar.and_then(|start| u64::from_str_radix(start.trim_start_matches("0x"), 16).ok());
        let bar = bar.ok_or_else(|| io::Error::other("no BAR 2"))?;
        let count = read(bar + 4, 32)? & 0xffff;
        let headers = (1..=count).map(|number| bar + 16 * number);
        for header in headers {
            // 2 is the primary mailbox.
            if read(header, 32)? & 0xffff == 2 {
                let mut found = Self {
                    start: bar + read(header + 4, 32)?,
                    block_bytes: 0,
                    records: VecDeque::new(),
                };
                // The configuration of one region, from region 0 on.
                let configuration = found.must(0x4800, &[1, 0])?;
                found.block_bytes = u64_at(&configuration, 8 + 24);
                return Ok(found);
            }
        }
        Err(io::Error::other("no mailbox"))
    }

    /// Carries a command out; its return code and output.
    fn command(&mut self, opcode: u64, input: &[u8]) -> io::Result<(u64, Vec<u8>)> {
        for (at, word) in (self.start + 0x20..).step_by(8).zip(input.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            write(at, 64, u64::from_le_bytes(bytes))?;
        }
        write(self.start + 8, 64, opcode | (input.len() as u64) << 16)?;
        write(self.start + 4, 32, 1)?;
        let started = Instant::now();
        while read(self.start + 4, 32)? & 1 == 1 {
            if started.elapsed() > Duration::from_secs(60) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let code = read(self.start + 0x10, 64)? >> 32 & 0xffff;
        let bytes = read(self.start + 8, 64)? >> 16 & 0x1f_ffff;
        let mut output = Vec::new();
        for at in (0..bytes).step_by(8) {
            output.extend(read(self.start + 0x20 + at, 64)?.to_le_bytes());
        }
        output.truncate(bytes as usize);
        Ok((code, output))
    }

    fn must(&mut self, opcode: u64, input: &[u8]) -> io::Result<Vec<u8>> {
        match self.command(opcode, input)? {
            (0, output) => Ok(output),
            (code, _) => Err(io::Error::other(format!("{opcode:#x} gave {code}"))),
        }
    }

    /// Takes the records that the device has, and clears them there.
    fn take_records(&mut self) -> io::Result<()> {
        let output = self.must(0x0100, &[LOG])?;
        let count = usize::from(u16_at(&output, 20));
        let mut clear = vec![LOG, 0, count as u8, 0, 0, 0];
        for record in output[32..].chunks(128).take(count) {
            clear.extend(&record[20..22]);
            let (start, bytes) = (u64_at(record, 56), u64_at(record, 64));
            let tag = Uuid::from_slice(&record[72..88]).map_err(io::Error::other)?;
            let event = match record[48] {
                0 => DcEvent::Add {
                    extent: extent(start, bytes, tag, u16_at(record, 88)),
                    more: record[53] & 1 == 1,
                },
                1 => DcEvent::Release { start, bytes },
                2 => DcEvent::ForcedRelease { start, bytes },
                _ => continue,
            };
            self.records.push_back(event);
        }
        match count {
            0 => Ok(()),
            _ => self.must(0x0101, &clear).map(drop),
        }
    }
}

impl DcMailbox for Registers {
    fn next_event(&mut self) -> io::Result<Option<DcEvent>> {
        if self.records.is_empty() {
            self.take_records()?;
        }
        Ok(self.records.pop_front())
    }

    fn send(&mut self, command: &DcCommand) -> io::Result<bool> {
        let (opcode, extents) = match command {
            DcCommand::Accept(extents) => (0x4802, extents),
            DcCommand::GiveBack(extents) => (0x4803, extents),
        };
        let mut input = (extents.len() as u64).to_le_bytes().to_vec();
        for extent in extents {
            for word in [extent.start, extent.bytes, 0] {
                input.extend(word.to_le_bytes());
            }
        }
        Ok(self.command(opcode, &input)?.0 == 0)
    }

    fn extents(&mut self) -> io::Result<Vec<DcExtent>> {
        // At most 16 of them, from the first one on.
        let output = self.must(0x4801, &[16, 0, 0, 0, 0, 0, 0, 0])?;
        let count = u16_at(&output, 0);
        let records = output[16..].chunks(40).take(usize::from(count));
        let of = |record: &[u8]| {
            let tag = Uuid::from_slice(&record[16..32]).unwrap_or_default();
            extent(
                u64_at(record, 0),
                u64_at(record, 8),
                tag,
                u16_at(record, 32),
            )
        };
        Ok(records.map(of).collect())
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }
}

/// QEMU 10.0 leaves out the tags that it is given, so they are told by the address.
fn extent(start: u64, bytes: u64, tag: Uuid, sequence: u16) -> DcExtent {
    let known = [USED, IDLE].into_iter().find(|known| known.1 == start);
    let tag = match known {
        Some((known, ..)) if tag.is_nil() => known,
        _ => tag,
    };
    DcExtent {
        start,
        bytes,
        tag,
        sequence,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn read(address: u64, bits: u32) -> io::Result<u64> {
    let text = devmem(&[format!("{address:#x}"), bits.to_string()])?;
    let digits = text.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16).map_err(io::Error::other)
}

fn write(address: u64, bits: u32, value: u64) -> io::Result<()> {
    let words = [
        format!("{address:#x}"),
        bits.to_string(),
        format!("{value:#x}"),
    ];
    devmem(&words).map(drop)
}

fn devmem(words: &[String]) -> io::Result<String> {
    let ended = Command::new("/bin/busybox")
        .arg("devmem")
        .args(words)
        .output()?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(io::Error::other(format!(
            "devmem {words:?}: {}",
            String::from_utf8_lossy(&ended.stderr)
        ))),
    }
}
