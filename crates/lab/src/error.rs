//! The error types of this crate.

use std::io;
use std::path::PathBuf;

use crate::GuestKind;

/// What can fail between preparing the kit and reading a guest's results.
///
/// Each message says what the user can do next.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No environment variable gives a place for the cache.
    #[error(
        "no cache folder for the lab: neither TIERLOOM_LAB_CACHE, XDG_CACHE_HOME nor HOME is set; set TIERLOOM_LAB_CACHE to a folder with 400 MB free"
    )]
    NoCacheFolder,

    /// The host cannot run the lab.
    #[error("the lab cannot run here: {reason}; {fix}")]
    UnsupportedHost {
        /// What the host is, or what it lacks.
        reason: String,
        /// The next step for the user.
        fix: String,
    },

    /// A host program that the lab calls is not installed.
    #[error("the program `{tool}` is missing: {fix}")]
    MissingTool {
        /// Name of the program as it was looked up in `PATH`.
        tool: String,
        /// The command that installs it.
        fix: String,
    },

    /// Reading or writing a file failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb phrase.
        action: &'static str,
        /// The file or folder that the action was on.
        path: PathBuf,
        /// The error of the operating system, with errno where there is one.
        source: io::Error,
    },

    /// The Debian packages could not be downloaded.
    #[error("cannot {action}, tried {}:\n{detail}\nThe lab needs a Debian mirror the first time: check the network, the proxy (apt's Acquire settings are honoured) and the free space of the cache (400 MB), then run the same command again; it resumes", mirrors.join(" and "))]
    Download {
        /// What was attempted, as a verb phrase.
        action: String,
        /// The mirrors that were tried, in order.
        mirrors: Vec<String>,
        /// The last lines that apt wrote, for all mirrors that were tried.
        detail: String,
    },

    /// A host program that the lab called failed.
    #[error("`{command}` failed ({status}): {detail}; {fix}")]
    Tool {
        /// The command line as it was started.
        command: String,
        /// Its exit status as text.
        status: String,
        /// The last lines of its error stream, or of its output if that is empty.
        detail: String,
        /// The next step for the user.
        fix: String,
    },

    /// The kit in the cache lacks a required file.
    #[error("the lab's kit in {} has no {missing}; remove that folder and prepare the lab again", root.display())]
    IncompleteKit {
        /// Folder of the kit, which the user can remove to have it prepared again.
        root: PathBuf,
        /// The file or kind of file that is missing.
        missing: String,
    },

    /// The options or commands do not describe a guest that can be built.
    #[error("cannot build this guest: {what}")]
    BadGuest {
        /// What is wrong and what is allowed.
        what: String,
    },

    /// A program or file cannot be copied into the guest.
    #[error("cannot take {} into the guest: {reason}", path.display())]
    Program {
        /// The file on the host.
        path: PathBuf,
        /// The cause and the next step.
        reason: String,
    },

    /// QEMU exited with an error of its own (such as a bad option, or too little memory for the
    /// guest).
    #[error("QEMU failed ({status}): {detail}")]
    Qemu {
        /// Its exit status as text.
        status: String,
        /// The last lines of its error stream.
        detail: String,
    },

    /// The guest's kernel panicked while commands ran.
    #[error("the guest's kernel panicked; its last lines:\n{tail}")]
    GuestPanic {
        /// The last lines of the guest's console.
        tail: String,
    },

    /// The emulator failed in every attempt.
    ///
    /// What ran in the guest is not the cause, and may not have run at all.
    #[error(
        "the emulator failed {tries} times, and the guest is not booted again; the last time {fault}"
    )]
    Emulator {
        /// Number of times the guest was booted.
        tries: u32,
        /// How the last attempt failed.
        fault: EmulatorFault,
    },

    /// The commands did not end in time, so the guest was killed.
    #[error(
        "the guest's commands did not end within {timeout_s} s and it was killed ({finished} of {requested} had finished); raise the timeout on a loaded machine. Its last lines:\n{tail}"
    )]
    Timeout {
        /// The limit, in seconds of the guest's own time from the start of the first command.
        timeout_s: u64,
        /// Number of commands that had finished.
        finished: usize,
        /// Number of commands that were requested.
        requested: usize,
        /// The last lines of the guest's console.
        tail: String,
    },

    /// The caller cancelled the run, so the guest was killed.
    #[error("the guest was stopped; {finished} of {requested} commands had finished")]
    Interrupted {
        /// Number of commands that had finished.
        finished: usize,
        /// Number of commands that were requested.
        requested: usize,
    },

    /// The guest booted but its modules, network or memory could not be set up as requested.
    #[error("the guest's set-up failed at: {step}; its last lines:\n{tail}")]
    GuestSetup {
        /// The step that failed, as the init script names it.
        step: String,
        /// The last lines of the guest's console.
        tail: String,
    },

    /// One of several guests that ran together failed; the others were killed.
    #[error("guests[{index}] ({kind}): {source}{others}")]
    Together {
        /// Index of the guest in the list that was passed in.
        index: usize,
        /// Memory layout of that guest.
        kind: GuestKind,
        /// The error of that guest alone.
        source: Box<LabError>,
        /// What the other guests had done by then: one entry per guest, each beginning with a line
        /// break.
        others: String,
    },

    /// The guest stopped after its first command had begun and before the last one had ended.
    ///
    /// There was no kernel panic; something in the guest halted it, or its results are damaged.
    #[error("the guest stopped early: {reason}; its last lines:\n{tail}")]
    GuestStopped {
        /// What is known about how it stopped.
        reason: String,
        /// The last lines of the guest's console.
        tail: String,
    },
}

/// A failure of the emulator, as opposed to a failure of what ran in the guest.
///
/// Only a guest with such a failure is booted again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmulatorFault {
    /// QEMU was killed by a signal other than a request to end.
    ///
    /// Usually this is SIGABRT after one of QEMU's own assertions failed.
    #[error(
        "QEMU was ended by a signal ({status}; {finished} of {requested} commands had finished): {detail}"
    )]
    Died {
        /// The exit status as text, with the signal's name.
        status: String,
        /// The last lines of QEMU's error stream.
        detail: String,
        /// Number of commands that had finished.
        finished: usize,
        /// Number of commands that were requested.
        requested: usize,
    },

    /// The guest did not reach its first command in time.
    #[error("the guest stalled while booting ({what}); its last lines:\n{tail}")]
    Stalled {
        /// The event that did not happen, and the limit.
        what: String,
        /// The last lines of the guest's console.
        tail: String,
    },

    /// The guest's kernel panicked before the first command.
    #[error("the guest's kernel panicked while booting; its last lines:\n{tail}")]
    Panicked {
        /// The last lines of the guest's console.
        tail: String,
    },

    /// The guest powered off before the first command, without a panic.
    #[error("the guest stopped while booting; its last lines:\n{tail}")]
    Stopped {
        /// The last lines of the guest's console.
        tail: String,
    },
}

impl EmulatorFault {
    /// The fault in one line, without the console's lines.
    pub fn reason(&self) -> String {
        match self {
            EmulatorFault::Died { status, detail, .. } => {
                let said = detail.lines().next_back().unwrap_or("it said nothing");
                format!("QEMU was ended by a signal ({status}): {said}")
            }
            EmulatorFault::Stalled { what, .. } => format!("a guest stalled while booting: {what}"),
            EmulatorFault::Panicked { .. } => "a guest's kernel panicked while booting".into(),
            EmulatorFault::Stopped { .. } => "a guest stopped while booting".into(),
        }
    }
}

impl LabError {
    /// The emulator's failure behind this error, also if it happened in one guest of a group.
    pub fn emulator_fault(&self) -> Option<&EmulatorFault> {
        match self {
            LabError::Emulator { fault, .. } => Some(fault),
            LabError::Together { source, .. } => source.emulator_fault(),
            _ => None,
        }
    }

    /// A closure for `map_err` that makes an [`LabError::Io`] for `action` on `path`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> LabError {
        let path = path.into();
        move |source| LabError::Io {
            action,
            path,
            source,
        }
    }
}
