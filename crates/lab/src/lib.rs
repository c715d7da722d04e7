//! Real Linux guests with several memory nodes, on a machine that has one.
//!
//! The lab boots a Debian kernel under QEMU's software emulation (TCG) in a guest whose memory
//! layout the caller chooses: a second, memory-only NUMA node with HMAT values
//! ([`GuestKind::TwoNodes`]), or a CXL type-3 device that is either brought online as node 1
//! ([`GuestKind::Cxl`]) or left to programs as `/dev/dax0.0` ([`GuestKind::CxlDevdax`]). Guests can
//! run together ([`run_together`]), with a network link between two of them ([`GuestLink`]) and one
//! CXL device shared by all ([`GuestOptions::cxl_backing`]). Kernel, QEMU and busybox come from the
//! Debian archive into a private cache; nothing is installed on the host and no privilege is
//! needed.
//!
//! ```text
//!  LabCache ──prepare──> Kit (QEMU, kernel, busybox)
//!                         │
//!  GuestOptions ──────────┤ run: initramfs = busybox, modules, programs, libraries, init script
//!  [GuestCommand] ────────┘       │
//!                             QEMU process ── serial console ──> on_line (for people to watch)
//!                                 └────────── virtio port ─────> GuestOutcome (byte-exact outputs,
//!                                                                exit codes, collected files)
//! ```
//!
//! A guest can prove functional behaviour: which files the kernel shows, where pages are placed,
//! whether a device comes online. It says **nothing about speed**: every instruction is emulated,
//! and no latency or bandwidth is.
//!
//! ```no_run
//! use tierloom_lab::{GuestCommand, GuestKind, GuestOptions, LabCache, prepare, run};
//!
//! let cache = LabCache::open(None)?;
//! let kit = prepare(&cache, &mut |line| eprintln!("{line}"))?;
//! let options = GuestOptions::new(GuestKind::Cxl);
//! let command = GuestCommand::new(["cat", "/sys/devices/system/node/online"]);
//! let outcome = run(&kit, &options, &[command], &mut |line| eprintln!("{line}"))?;
//! assert_eq!(outcome.commands[0].stdout_text(), "0-1\n");
//! # Ok::<(), tierloom_lab::LabError>(())
//! ```

mod archive;
mod cache;
mod error;
mod guest;
mod host;
mod kit;
mod modules;
mod program;
mod qmp;
mod run;
mod testing;
mod transcript;

pub use cache::LabCache;
pub use error::{EmulatorFault, LabError};
pub use guest::{GuestCommand, GuestFile, GuestKind, GuestLink, GuestOptions, ParseGuestKindError};
pub use kit::{Kit, prepare};
pub use qmp::Qmp;
pub use run::{
    CollectedFile, CollectedKind, CommandOutcome, GuestOutcome, run, run_together, run_until,
};
pub use testing::{GuestStep, kit_for_tests, run_tests_in_guest};
