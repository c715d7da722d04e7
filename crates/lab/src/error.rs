//! The one error type of this crate.

use std::io;
use std::path::PathBuf;

use crate::GuestKind;

/// What can go wrong between an empty cache and a guest's answers. Each message names the next step.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No place for the cache could be derived.
    #[error(
        "no cache folder for the lab: neither TIERLOOM_LAB_CACHE, XDG_CACHE_HOME nor HOME is set; set TIERLOOM_LAB_CACHE to a folder with 400 MB free"
    )]
    NoCacheFolder,

    /// The machine cannot run the lab.
    #[error("the lab cannot run here: {reason}; {fix}")]
    UnsupportedHost {
        /// What the machine is, or lacks.
        reason: String,
        /// What to do about it.
        fix: String,
    },

    /// A program of the host that the lab calls is not installed.
    #[error("the program `{tool}` is missing: {fix}")]
    MissingTool {
        /// The program's name.
        tool: String,
        /// The command that installs it.
        fix: String,
    },

    /// Reading or writing a file failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb phrase.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause, with errno where there was one.
        source: io::Error,
    },

    /// The Debian packages could not be downloaded.
    #[error("cannot {action}, tried {}:\n{detail}\nThe lab needs a Debian mirror the first time: check the network, the proxy (apt's Acquire settings are honoured) and the free space of the cache (400 MB), then run the same command again; it resumes", mirrors.join(" and "))]
    Download {
        /// What was attempted.
        action: String,
        /// The mirrors that were tried, in order.
        mirrors: Vec<String>,
        /// apt's own last lines.
        detail: String,
    },

    /// A called program failed.
    #[error("`{command}` failed ({status}): {detail}; {fix}")]
    Tool {
        /// The command line.
        command: String,
        /// Its exit status, in words.
        status: String,
        /// The end of its output.
        detail: String,
        /// What to do about it.
        fix: String,
    },

    /// The kit in the cache lacks something it must have.
    #[error("the lab's kit in {} has no {missing}; remove that folder and prepare the lab again", root.display())]
    IncompleteKit {
        /// The kit's folder.
        root: PathBuf,
        /// What is missing.
        missing: String,
    },

    /// The options or commands make no guest.
    #[error("cannot build this guest: {what}")]
    BadGuest {
        /// What is wrong and what would be right.
        what: String,
    },

    /// A program or file for the guest cannot be taken along.
    #[error("cannot take {} into the guest: {reason}", path.display())]
    Program {
        /// The file on the host.
        path: PathBuf,
        /// Why not, and the next step.
        reason: String,
    },

    /// QEMU ended with an error of its own (a bad option, no memory for the guest).
    #[error("QEMU failed ({status}): {detail}")]
    Qemu {
        /// Its exit status, in words.
        status: String,
        /// What it wrote to its error stream.
        detail: String,
    },

    /// The guest's kernel panicked while commands ran.
    #[error("the guest's kernel panicked; its last lines:\n{tail}")]
    GuestPanic {
        /// The end of the guest's console.
        tail: String,
    },

    /// The emulator failed in every try. What ran in the guest is not the cause, and may not have
    /// run at all.
    #[error(
        "the emulator failed {tries} times, and the guest is not booted again; the last time {fault}"
    )]
    Emulator {
        /// How often the guest was booted.
        tries: u32,
        /// How the last try ended.
        fault: EmulatorFault,
    },

    /// The commands did not end in time, and the guest was killed.
    #[error(
        "the guest's commands did not end within {timeout_s} s and it was killed ({finished} of {requested} had finished); raise the timeout on a loaded machine. Its last lines:\n{tail}"
    )]
    Timeout {
        /// The limit, in seconds from the beginning of the first command.
        timeout_s: u64,
        /// Commands that had finished.
        finished: usize,
        /// Commands that were asked for.
        requested: usize,
        /// The end of the guest's console.
        tail: String,
    },

    /// The caller gave the guest up, and it was killed.
    #[error("the guest was stopped; {finished} of {requested} commands had finished")]
    Interrupted {
        /// Commands that had finished.
        finished: usize,
        /// Commands that were asked for.
        requested: usize,
    },

    /// The guest came up but its memory could not be set up as asked.
    #[error("the guest's set-up failed at: {step}; its last lines:\n{tail}")]
    GuestSetup {
        /// The step that failed, as the init script names it.
        step: String,
        /// The end of the guest's console.
        tail: String,
    },

    /// One of several guests that ran together failed; the others were killed.
    #[error("guests[{index}] ({kind}): {source}{others}")]
    Together {
        /// The guest's index in what was asked for.
        index: usize,
        /// Its kind.
        kind: GuestKind,
        /// Its own error.
        source: Box<LabError>,
        /// What the other guests had done by then, one line or more each, every one after a line end.
        others: String,
    },

    /// The guest stopped after its first command had begun and before its commands were done,
    /// without a panic.
    #[error("the guest stopped early: {reason}; its last lines:\n{tail}")]
    GuestStopped {
        /// What is known about the end.
        reason: String,
        /// The end of the guest's console.
        tail: String,
    },
}

/// A failure of the emulator, as opposed to one of what ran in the guest: such a guest is booted
/// again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmulatorFault {
    /// QEMU was ended by a signal, mostly its own: it aborts where one of its assertions does not
    /// hold.
    #[error(
        "QEMU was ended by a signal ({status}; {finished} of {requested} commands had finished): {detail}"
    )]
    Died {
        /// The signal, in words.
        status: String,
        /// What QEMU wrote to its error stream.
        detail: String,
        /// Commands that had finished.
        finished: usize,
        /// Commands that were asked for.
        requested: usize,
    },

    /// The guest did not get as far as its first command.
    #[error("the guest stalled while booting ({what}); its last lines:\n{tail}")]
    Stalled {
        /// What did not come, and for how long.
        what: String,
        /// The end of the guest's console.
        tail: String,
    },

    /// The guest's kernel panicked before the first command.
    #[error("the guest's kernel panicked while booting; its last lines:\n{tail}")]
    Panicked {
        /// The end of the guest's console.
        tail: String,
    },

    /// The guest ended before the first command, without a panic.
    #[error("the guest stopped while booting; its last lines:\n{tail}")]
    Stopped {
        /// The end of the guest's console.
        tail: String,
    },
}

impl EmulatorFault {
    /// The fault in one line, without the console.
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
    /// The failure of the emulator that this is, or that one of several guests met.
    pub fn emulator_fault(&self) -> Option<&EmulatorFault> {
        match self {
            LabError::Emulator { fault, .. } => Some(fault),
            LabError::Together { source, .. } => source.emulator_fault(),
            _ => None,
        }
    }

    /// An [`LabError::Io`] for `action` on `path`.
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
