//! Pages of mapped files that are gone, because a file was made shorter or memory failed: access to
//! one is a SIGBUS.
//!
//! In ranges that are watched such pages are replaced by zeroes, and the range is marked. The
//! access goes on; whoever uses what was read asks afterwards whether anything was lost.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::base_page_bytes;

/// Ranges that can be watched at a time. Further ones are not: access to a lost page ends the
/// program, as it would without this.
const MOST: usize = 8192;
/// Bytes that are replaced at once where the range has as many: a kernel allows some 65,000
/// mappings per process, and neighbouring replacements become one.
const REPLACED_BYTES: usize = 2 << 20;

struct Entry {
    /// First address; 0 for an entry that is free.
    start: AtomicUsize,
    len: AtomicUsize,
    lost: AtomicBool,
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; MOST];

/// Replacements so far, in all ranges.
static LOST: AtomicU64 = AtomicU64::new(0);

/// A range of addresses is watched while this exists.
#[derive(Debug)]
pub(crate) struct Watched(&'static Entry);

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

impl Watched {
    /// Watches a range of whole pages that the caller has mapped, and unmaps only after this value
    /// is dropped. `None` if too many are watched, or the signal cannot be handled.
    pub(crate) fn range(start: usize, len: usize) -> Option<Self> {
        if !handle() || start == 0 {
            return None;
        }
        let taken = |entry: &&Entry| {
            // 1 is no address: the handler passes over the entry until the length is set.
            let free = entry
                .start
                .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
            free.is_ok()
        };
        let entry = ENTRIES.iter().find(taken)?;
        entry.lost.store(false, Ordering::Relaxed);
        entry.len.store(len, Ordering::Relaxed);
        entry.start.store(start, Ordering::Release);
        Some(Self(entry))
    }

    /// Whether any of its pages was lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.0.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.len.store(0, Ordering::Relaxed);
        self.0.start.store(0, Ordering::Release);
    }
}

/// How often lost pages were replaced in this process.
pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Acquire)
}

static mut BEFORE: std::mem::MaybeUninit<libc::sigaction> = std::mem::MaybeUninit::uninit();

/// Handles SIGBUS from now on; `false` if the system refuses.
fn handle() -> bool {
    static ONCE: Once = Once::new();
    static HANDLED: AtomicBool = AtomicBool::new(false);
    ONCE.call_once(|| {
        // The page size is read before a handler needs it.
        base_page_bytes();
        // SAFETY: all zeroes is a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_sigbus as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both are valid for the call; `BEFORE` is written only here, before the handler
        // can run, and the handler does only what a signal handler may.
        let answer =
            unsafe { libc::sigaction(libc::SIGBUS, &raw const action, (&raw mut BEFORE).cast()) };
        HANDLED.store(answer == 0, Ordering::Relaxed);
    });
    HANDLED.load(Ordering::Relaxed)
}

/// Replaces the pages around the address, if they are watched; otherwise does what was to be done
/// before there was this handler. Only atomics and one system call: both are allowed in a handler.
extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid `siginfo_t`, with an address for SIGBUS.
    let address = unsafe { (*info).si_addr() }.addr();
    // SAFETY: the location of the calling thread's errno is always valid.
    let errno = unsafe { *libc::__errno_location() };
    if replace(address) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        return;
    }
    // SAFETY: written before this handler was installed, and never again.
    let before = unsafe { (&raw const BEFORE).cast::<libc::sigaction>().read() };
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access happens again, and then ends the program.
            // SAFETY: puts back what the program had before.
            unsafe { libc::sigaction(libc::SIGBUS, &raw const before, std::ptr::null_mut()) };
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with `SA_SIGINFO` the handler has these three arguments.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without `SA_SIGINFO` the handler has one argument.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Maps zeroes over the pages around `address` if they are watched; `false` if they are not, or the
/// kernel refuses.
fn replace(address: usize) -> bool {
    for entry in &ENTRIES {
        let start = entry.start.load(Ordering::Acquire);
        let len = entry.len.load(Ordering::Relaxed);
        if start <= 1 || address.wrapping_sub(start) >= len {
            continue;
        }
        // Marked first: who sees the zeroes sees the mark.
        entry.lost.store(true, Ordering::Release);
        LOST.fetch_add(1, Ordering::AcqRel);
        for bytes in [REPLACED_BYTES, base_page_bytes()] {
            let first = (address - address % bytes).max(start);
            let end = (address - address % bytes + bytes).min(start + len);
            let at = std::ptr::with_exposed_provenance_mut(first);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags =
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
            // SAFETY: the addresses belong to whoever watches them, who only reads and writes
            // bytes there; the pages that are replaced are gone, or are reported as such.
            let answer = unsafe { libc::mmap(at, end - first, protection, flags, -1, 0) };
            if answer != libc::MAP_FAILED {
                return true;
            }
        }
    }
    false
}
