//! Boots guests: builds the initramfs, starts QEMU, watches it and reads the results.
//!
//! ```text
//!  Slots (cores) ──> Tries ──> Attempt: Backing, initramfs, Qemu + Watch ──> transcript ──> judge
//!                     ^                                                                      │
//!                     └──────────── emulator fault: restore the device, boot again ──────────┘
//! ```

mod backing;
mod boot;
mod build;
mod judge;
mod kept;
mod qemu;
mod slots;
#[cfg(test)]
mod tests;
mod together;
mod tries;
mod watch;

use std::fs;
use std::time::Instant;

use crate::archive::{self, Entry};
use crate::guest::machine::{Images, qemu_args};
use crate::guest::{GuestCommand, GuestOptions};
use crate::transcript::{self, Transcript};
use crate::{EmulatorFault, Kit, LabError};
use backing::Backing;
use boot::Patience;
use build::build_initramfs;
use judge::{End, Ended, judge, tail};
use qemu::Qemu;
use slots::Slots;
pub use together::run_together;
use tries::{TRIES, Tries};
use watch::{Begun, Results, Watch};

/// The result of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    /// The program and its arguments, as requested.
    pub argv: Vec<String>,
    /// The exit code; 127 if the guest has no such program, 128 + n if signal n ended the command.
    pub exit_code: i32,
    /// Standard output, byte for byte.
    pub stdout: Vec<u8>,
    /// Standard error, byte for byte.
    pub stderr: Vec<u8>,
}

impl CommandOutcome {
    /// Standard output as text; bytes that are not UTF-8 become replacement characters.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; bytes that are not UTF-8 become replacement characters.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// One path that was copied back from the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedFile {
    /// Absolute path in the guest.
    pub guest: String,
    /// The type of the file, with its content.
    pub kind: CollectedKind,
}

/// What a collected path is in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectedKind {
    /// A folder; its entries are separate [`CollectedFile`]s.
    Dir,
    /// A regular file with its content.
    File(Vec<u8>),
    /// A symbolic link with its target as stored, which may be relative.
    Link(String),
}

/// The results of a guest that ran all its commands.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestOutcome {
    /// 0 if every command returned 0, else the exit code of the first one that did not.
    pub exit_code: i32,
    /// The serial console: kernel messages and echoed output, without control characters.
    pub console: String,
    /// Wall time on the host from QEMU's start to its end, in seconds.
    pub seconds: f64,
    /// One entry per command, in order.
    pub commands: Vec<CommandOutcome>,
    /// The paths of [`GuestOptions::collect`] that exist in the guest, parents before children.
    pub collected: Vec<CollectedFile>,
    /// The emulator's failures in earlier attempts, whose results are discarded. Usually empty.
    pub faults: Vec<EmulatorFault>,
}

/// Boots a guest from `kit`, runs `commands` in it one after another as root, and returns their
/// results.
///
/// A command that fails does not stop the next ones. `on_line` is called for each console line.
///
/// If the emulator fails (QEMU is killed by a signal, or the guest does not reach its first
/// command), the guest is booted again, at most three times, from the same state: the file of a CXL
/// device is restored first. What commands do never causes another boot. If the guests of all
/// processes that share the kit's cache already use as many threads as there are cores, this waits
/// until one of them ends.
///
/// # Errors
/// [`LabError::BadGuest`] and [`LabError::Program`] before the boot; [`LabError::Qemu`],
/// [`LabError::Emulator`], [`LabError::GuestPanic`], [`LabError::GuestSetup`],
/// [`LabError::Timeout`] and [`LabError::GuestStopped`] after it; [`LabError::Io`] at any time.
/// Commands that fail are not an error here.
pub fn run(
    kit: &Kit,
    options: &GuestOptions,
    commands: &[GuestCommand],
    on_line: &mut dyn FnMut(&str),
) -> Result<GuestOutcome, LabError> {
    run_until(kit, options, commands, &|| false, on_line)
}

/// Same as [`run`], but can be cancelled: `stop` is polled several times a second, and the guest is
/// killed once it returns true.
///
/// # Errors
/// Same as [`run`], and [`LabError::Interrupted`] if the guest was cancelled.
pub fn run_until(
    kit: &Kit,
    options: &GuestOptions,
    commands: &[GuestCommand],
    stop: &dyn Fn() -> bool,
    on_line: &mut dyn FnMut(&str),
) -> Result<GuestOutcome, LabError> {
    run_within(kit, options, commands, stop, on_line, BootLimits::default())
}

/// Limits of a boot other than the time limit of its commands.
#[derive(Debug, Clone, Copy)]
struct BootLimits {
    patience: Patience,
    tries: u32,
}

impl Default for BootLimits {
    fn default() -> BootLimits {
        BootLimits {
            patience: Patience::default(),
            tries: TRIES,
        }
    }
}

fn run_within(
    kit: &Kit,
    options: &GuestOptions,
    commands: &[GuestCommand],
    stop: &dyn Fn() -> bool,
    on_line: &mut dyn FnMut(&str),
    limits: BootLimits,
) -> Result<GuestOutcome, LabError> {
    check(options, commands)?;
    let Some(_slots) = Slots::take(kit, options.threads(), stop, on_line)? else {
        return Err(LabError::Interrupted {
            finished: 0,
            requested: commands.len(),
        });
    };
    let mut tries = Tries::new(kit, [options], limits.tries)?;
    loop {
        let begun = Begun::of(1);
        let boot = Attempt {
            kit,
            options,
            commands,
            patience: limits.patience,
            begun: &begun,
        };
        match boot.make(stop, on_line) {
            Ok(mut outcome) => {
                outcome.faults = tries.faults();
                return Ok(outcome);
            }
            Err(error) => on_line(&tries.again(error)?),
        }
    }
}

fn check(options: &GuestOptions, commands: &[GuestCommand]) -> Result<(), LabError> {
    options.check()?;
    commands.iter().try_for_each(GuestCommand::check)
}

/// One boot of a guest.
struct Attempt<'a> {
    kit: &'a Kit,
    options: &'a GuestOptions,
    commands: &'a [GuestCommand],
    patience: Patience,
    begun: &'a Begun,
}

impl Attempt<'_> {
    fn make(
        &self,
        stop: &dyn Fn() -> bool,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<GuestOutcome, LabError> {
        let (options, commands) = (self.options, self.commands);
        // The file's lock is held until the guest has ended.
        let _backing = Backing::provide(options)?;
        let scratch = tempfile::Builder::new()
            .prefix("tierloom-lab-")
            .tempdir()
            .map_err(LabError::io("create a folder in", std::env::temp_dir()))?;
        // The random part of the folder's name tags this boot's frames, so that those of another
        // boot are recognised.
        let tag = scratch
            .path()
            .file_name()
            .map(|name| name.to_string_lossy().replace("tierloom-lab-", "lab"))
            .unwrap_or_default();
        let initramfs = scratch.path().join("initramfs.cpio");
        let results = scratch.path().join("results");
        build_initramfs(
            self.kit,
            options,
            commands,
            &tag,
            &initramfs,
            scratch.path(),
            on_line,
        )?;
        // The watcher may read the file before QEMU has opened it.
        fs::write(&results, []).map_err(LabError::io("create", &results))?;

        let images = Images {
            kernel: &self.kit.kernel,
            initramfs: &initramfs,
            results: &results,
        };
        let watch = Watch {
            stop,
            timeout: options.timeout,
            patience: self.patience,
            results: Results::new(&results, &tag),
            begun: self.begun,
        };
        let start = Instant::now();
        let mut qemu = Qemu::start(self.kit, &qemu_args(options, images))?;
        let ended = qemu.watch(&watch, on_line)?;
        // Ctrl-C in a terminal reaches QEMU too, which may have ended before `stop` was polled.
        let ended = if stop() { Ended::GivenUp } else { ended };
        let bytes = fs::read(&results).map_err(LabError::io("read", &results))?;
        let transcript = transcript::parse(&bytes, &tag, commands.len());
        let end = End {
            ended,
            console: &qemu.console,
            stderr: &qemu.stderr,
        };
        judge(&end, &transcript, options, commands.len())?;
        outcome(
            transcript,
            commands,
            std::mem::take(&mut qemu.console),
            start.elapsed().as_secs_f64(),
        )
    }
}

fn outcome(
    transcript: Transcript,
    commands: &[GuestCommand],
    console: String,
    seconds: f64,
) -> Result<GuestOutcome, LabError> {
    let stopped = |reason: String, console: &str| LabError::GuestStopped {
        reason,
        tail: tail(console),
    };
    let mut outcomes = Vec::with_capacity(commands.len());
    for (command, output) in commands.iter().zip(transcript.outputs) {
        let exit_code = output.exit_code.ok_or_else(|| {
            stopped(
                format!("no exit code came back for {:?}", command.argv),
                &console,
            )
        })?;
        outcomes.push(CommandOutcome {
            argv: command.argv.clone(),
            exit_code,
            stdout: output.stdout,
            stderr: output.stderr,
        });
    }
    let entries = match transcript.collected {
        Some(bytes) => archive::read(&bytes).map_err(|error| {
            stopped(
                format!("the collected files cannot be read: {error}"),
                &console,
            )
        })?,
        None => Vec::new(),
    };
    let collected = entries
        .into_iter()
        .filter(|(name, _)| name != ".")
        .map(|(name, entry)| CollectedFile {
            guest: format!("/{}", name.trim_start_matches("./")),
            kind: match entry {
                Entry::Dir => CollectedKind::Dir,
                Entry::File(content) => CollectedKind::File(content),
                Entry::Link(target) => CollectedKind::Link(target),
            },
        });
    let collected = collected.collect();
    let exit_code = outcomes
        .iter()
        .map(|outcome| outcome.exit_code)
        .find(|code| *code != 0)
        .unwrap_or(0);
    Ok(GuestOutcome {
        exit_code,
        console,
        seconds,
        commands: outcomes,
        collected,
        faults: Vec::new(),
    })
}

#[cfg(test)]
mod outcome_tests {
    use super::*;

    #[test]
    fn the_first_failing_command_gives_the_exit_code() {
        let commands = [
            GuestCommand::new(["a"]),
            GuestCommand::new(["b"]),
            GuestCommand::new(["c"]),
        ];
        let stream = b"T exit 0 0 0\n\nT exit 1 7 0\n\nT exit 2 9 0\n\nT done 0 0 0\n\n";
        let good = outcome(
            transcript::parse(stream, "T", 3),
            &commands,
            String::new(),
            1.0,
        )
        .unwrap();
        assert_eq!(good.exit_code, 7);
        let missing = outcome(
            transcript::parse(b"T done 0 0 0\n\n", "T", 3),
            &commands,
            String::new(),
            1.0,
        )
        .unwrap_err();
        assert!(missing.to_string().contains("no exit code"), "{missing}");
    }
}
