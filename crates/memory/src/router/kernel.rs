//! System calls of the router, behind function pointers that tests replace.
//!
//! Nothing here allocates or goes through `std::fs`: it runs inside the global allocator.

use super::read::read_start;
use crate::backend::NodeCapacity;
use crate::sys::policy::{NodeMask, Policy, ThreadPolicy, set_range};
use crate::sys::{base_page_bytes, last_errno};
use tierloom_topology::NodeId;

/// Nodes that the ledger has accounts for.
pub(super) const MAX_NODES: usize = 64;
/// Nodes that a weighted place may have.
pub(super) const MAX_PARTS: usize = 8;

/// Nodes and weights that the pages of a place come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nodes {
    pub(super) parts: [(u8, u32); MAX_PARTS],
    pub(super) count: u8,
}

impl Nodes {
    /// No nodes: the kernel chooses.
    pub(super) const ANY: Nodes = Nodes {
        parts: [(0, 0); MAX_PARTS],
        count: 0,
    };

    /// Nodes and their weights; empty where the kernel chooses.
    pub(super) fn parts(&self) -> &[(u8, u32)] {
        &self.parts[..self.count as usize]
    }

    /// Whether one memory policy on the range places the pages: one node, or several with equal
    /// weights.
    pub(super) fn by_policy(&self) -> bool {
        self.parts().windows(2).all(|pair| pair[0].1 == pair[1].1)
    }

    /// The memory policy of the range; `None` where the kernel chooses or the weights are unequal.
    fn policy(&self) -> Option<Policy> {
        if self.count == 0 || !self.by_policy() {
            return None;
        }
        let mut ids = [NodeId(0); MAX_PARTS];
        for (id, (node, _)) in ids.iter_mut().zip(self.parts()) {
            *id = NodeId(u32::from(*node));
        }
        let mode = if self.count == 1 {
            libc::MPOL_BIND
        } else {
            libc::MPOL_INTERLEAVE
        };
        NodeMask::of(&ids[..self.count as usize]).map(|nodes| Policy { mode, nodes })
    }
}

/// The router's interface to the kernel; results are errno values. Ranges are given as address and
/// length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    /// Sets the memory policy of a range: future pages come from these nodes.
    pub(super) bind: fn(usize, usize, &Nodes) -> Result<(), i32>,
    /// Bytes that a node can still give, less a safety margin.
    pub(super) free_bytes: fn(u8) -> Result<u64, i32>,
    /// Bytes that the process may still take under its control groups; `None` without a limit.
    pub(super) group_free_bytes: fn() -> Option<u64>,
    /// Populates a range from one node, overriding the range's policy.
    pub(super) populate: fn(usize, usize, u8) -> Result<(), i32>,
    /// Populates a range under the range's own policy.
    pub(super) touch: fn(usize, usize) -> Result<(), i32>,
    /// Releases the pages of a range that is not in use: the next touch finds zeroes. On an error
    /// the pages are unchanged.
    pub(super) release: fn(usize, usize) -> Result<(), i32>,
    /// Releases the pages of a range of a mapped file that is not in use, in the file too. On an
    /// error the pages are unchanged.
    pub(super) remove: fn(usize, usize) -> Result<(), i32>,
    /// Makes reserved addresses readable and writable.
    pub(super) open: fn(usize, usize) -> Result<(), i32>,
}

pub(super) const LINUX: Kernel = Kernel {
    bind,
    free_bytes,
    group_free_bytes: super::group::free_bytes,
    populate,
    touch,
    release,
    remove,
    open,
};

fn bind(address: usize, len: usize, nodes: &Nodes) -> Result<(), i32> {
    let policy = nodes.policy().unwrap_or(Policy {
        mode: libc::MPOL_DEFAULT,
        nodes: NodeMask::EMPTY,
    });
    match set_range(address, len, &policy) {
        // A kernel without NUMA has the one node 0, so a bind to it is satisfied anyway.
        Err(libc::ENOSYS) if nodes.parts().iter().all(|(node, _)| *node == 0) => Ok(()),
        other => other,
    }
}

fn populate(address: usize, len: usize, node: u8) -> Result<(), i32> {
    // The slot's range has no policy here (unequal weights), so the thread's policy
    // decides. It is saved and restored, since the thread belongs to the program.
    let mut policy = ThreadPolicy::save()?;
    policy.bind(NodeId(u32::from(node)))?;
    // SAFETY: the range is open and belongs to a slot; populating changes no contents.
    let outcome = unsafe { advise(address, len, libc::MADV_POPULATE_WRITE) };
    policy.restore()?;
    outcome
}

fn touch(address: usize, len: usize) -> Result<(), i32> {
    // SAFETY: the range is open and belongs to a slot; populating changes no contents.
    match unsafe { advise(address, len, libc::MADV_POPULATE_WRITE) } {
        // Linux before 5.14 does not have `MADV_POPULATE_WRITE`: pages then come at first touch.
        Err(libc::EINVAL) => Ok(()),
        other => other,
    }
}

/// Bytes of a node's meminfo that are read; the lines that are used come among the first.
const MEMINFO_BYTES: usize = 2048;

fn free_bytes(node: u8) -> Result<u64, i32> {
    // The path is built in a fixed array: formatting a string would allocate.
    let mut path = *b"/sys/devices/system/node/node\0\0\0\0/meminfo\0\0\0\0";
    let prefix = b"/sys/devices/system/node/node".len();
    let mut end = prefix;
    for divisor in [100, 10, 1] {
        if node >= divisor || divisor == 1 {
            path[end] = b'0' + node / divisor % 10;
            end += 1;
        }
    }
    let rest = b"/meminfo\0";
    path[end..end + rest.len()].copy_from_slice(rest);
    let mut text = [0; MEMINFO_BYTES];
    let read = match read_start(&path, &mut text) {
        // A kernel without NUMA has no node folders: its one node is the whole machine.
        Err(libc::ENOENT) if node == 0 => read_start(b"/proc/meminfo\0", &mut text)?,
        // The node was taken offline or never existed.
        Err(libc::ENOENT) => return Err(libc::ENODEV),
        other => other?,
    };
    let text = &text[..read];
    let total = field(text, b"MemTotal:").ok_or(libc::EIO)?;
    let free = field(text, b"MemFree:").ok_or(libc::EIO)?;
    // A node with CPUs and no memory reports a total of 0.
    if total == 0 {
        return Err(libc::ENODEV);
    }
    let cache =
        field(text, b"Active(file):").unwrap_or(0) + field(text, b"Inactive(file):").unwrap_or(0);
    Ok(NodeCapacity::from_meminfo(total, free, cache).free_bytes)
}

/// The value of a line of meminfo, converted from KiB to bytes.
fn field(text: &[u8], label: &[u8]) -> Option<u64> {
    let at = text.windows(label.len()).position(|part| part == label)? + label.len();
    let mut kib = None;
    for byte in &text[at..] {
        match byte {
            b'0'..=b'9' => kib = Some(kib.unwrap_or(0_u64) * 10 + u64::from(byte - b'0')),
            b' ' if kib.is_none() => {}
            _ => break,
        }
    }
    kib?.checked_mul(1024)
}

/// Linux 5.18: like `MADV_DONTNEED`, but also for pages locked with `mlock`; the range stays
/// locked.
const MADV_DONTNEED_LOCKED: i32 = 24;

fn release(address: usize, len: usize) -> Result<(), i32> {
    // SAFETY: only slots call this, for extents that are free and off their lists, so nobody holds
    // a pointer into the range whose contents could be lost.
    match unsafe { advise(address, len, libc::MADV_DONTNEED) } {
        // `MADV_DONTNEED` fails with `EINVAL` on locked pages, for instance after `mlockall`.
        // SAFETY: as above.
        Err(libc::EINVAL) => unsafe { advise(address, len, MADV_DONTNEED_LOCKED) },
        other => other,
    }
}

fn remove(address: usize, len: usize) -> Result<(), i32> {
    // SAFETY: only slots call this, for extents of memory that a pool lent to this process alone
    // and that are free and off their lists: nobody needs their contents.
    unsafe { advise(address, len, libc::MADV_REMOVE) }
}

fn open(address: usize, len: usize) -> Result<(), i32> {
    let start = std::ptr::with_exposed_provenance_mut(address);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: only slots call this, for part of the reservation that was never handed out; access
    // is added, none is taken away.
    match unsafe { libc::mprotect(start, len, protection) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Reserves addresses without pages, until the process ends.
///
/// They are `PROT_NONE` and `MAP_NORESERVE`, so they do not count as committed memory;
/// [`Kernel::open`] must come before any access.
///
/// # Errors
/// The errno of `mmap`.
pub(super) fn reserve(len: usize) -> Result<usize, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without `MAP_FIXED` the kernel picks unused addresses, so no existing mapping
    // changes.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(last_errno());
    }
    // Under `mlockall(MCL_FUTURE)` the mapping is locked: each page would become resident as soon
    // as it is made accessible. An error is ignored: without locked memory there is nothing to
    // undo.
    // SAFETY: the range was mapped just now; unlocking changes no contents.
    unsafe { libc::munlock(start, len) };
    Ok(start.expose_provenance())
}

/// Bytes that the process may still reserve under its address-space limit (`ulimit -v`); `None`
/// without one.
pub(super) fn addresses_left() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a local that is valid for writes.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if answer != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let (whole, _) = process_pages().ok()?;
    Some(
        limit
            .rlim_cur
            .saturating_sub(whole * base_page_bytes() as u64),
    )
}

/// Turns transparent huge pages on or off for a range of the router. A kernel without them returns
/// an error, which is ignored: pages are base pages then.
pub(super) fn advise_huge(address: usize, len: usize, huge: bool) {
    let advice = if huge {
        libc::MADV_HUGEPAGE
    } else {
        libc::MADV_NOHUGEPAGE
    };
    // SAFETY: the range is part of the reservation; the advice changes no contents.
    let _ = unsafe { advise(address, len, advice) };
}

/// `madvise` on a range of the router's reservation.
///
/// # Safety
/// The advice changes no contents, or nobody uses the range.
unsafe fn advise(address: usize, len: usize, advice: i32) -> Result<(), i32> {
    if !address.is_multiple_of(base_page_bytes()) {
        return Err(libc::EINVAL);
    }
    loop {
        // SAFETY: the caller guarantees it; the range is part of the reservation, which is never
        // unmapped.
        let answer =
            unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(address), len, advice) };
        if answer == 0 {
            return Ok(());
        }
        match last_errno() {
            libc::EINTR | libc::EAGAIN => {}
            errno => return Err(errno),
        }
    }
}

/// Resident bytes of a range of whole mappings, from `/proc/self/numa_maps`.
///
/// # Errors
/// The errno: `ENOENT` for a kernel without NUMA.
pub(super) fn resident_bytes(base: usize, len: usize) -> Result<u64, i32> {
    // SAFETY: a C string literal ends with a zero byte.
    let file = unsafe {
        libc::open(
            c"/proc/self/numa_maps".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if file < 0 {
        return Err(last_errno());
    }
    let mut reader = NumaMaps {
        range: (base, base + len),
        inside: false,
        word: [0; 32],
        word_len: 0,
        first: true,
        pages: 0,
    };
    let mut buffer = [0_u8; 4096];
    let outcome = loop {
        // SAFETY: the buffer is a local, writable for its length.
        let read = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(read) {
            Ok(0) => break Ok(()),
            Ok(read) => buffer[..read].iter().for_each(|byte| reader.byte(*byte)),
            Err(_) if last_errno() == libc::EINTR => {}
            Err(_) => break Err(last_errno()),
        }
    };
    // SAFETY: the descriptor was opened above, and nothing uses it after this.
    unsafe { libc::close(file) };
    outcome.map(|()| reader.pages * base_page_bytes() as u64)
}

/// Resident bytes of this process, tables and small allocations included.
///
/// # Errors
/// The errno of reading `/proc/self/statm`.
pub(super) fn process_bytes() -> Result<u64, i32> {
    process_pages().map(|(_, resident)| resident * base_page_bytes() as u64)
}

/// Virtual and resident size of this process, in base pages.
fn process_pages() -> Result<(u64, u64), i32> {
    let mut text = [0; 256];
    let read = read_start(b"/proc/self/statm\0", &mut text)?;
    let text = std::str::from_utf8(&text[..read]).map_err(|_| libc::EIO)?;
    let mut words = text.split(' ').map(|word| word.parse().ok());
    match (words.next().flatten(), words.next().flatten()) {
        (Some(whole), Some(resident)) => Ok((whole, resident)),
        _ => Err(libc::EIO),
    }
}

/// Streaming parser of `numa_maps`, one byte at a time, so that the file (which can be megabytes)
/// needs no buffer.
///
/// Lines look like `7f0000000000 bind:1 anon=3 dirty=3 N1=3 kernelpagesize_kB=4`.
struct NumaMaps {
    range: (usize, usize),
    inside: bool,
    word: [u8; 32],
    word_len: usize,
    /// The next word is the first of its line: an address.
    first: bool,
    pages: u64,
}

impl NumaMaps {
    fn byte(&mut self, byte: u8) {
        if byte != b' ' && byte != b'\n' {
            if let Some(place) = self.word.get_mut(self.word_len) {
                *place = byte;
                self.word_len += 1;
            }
            return;
        }
        let word = std::str::from_utf8(&self.word[..self.word_len]).unwrap_or("");
        if self.first {
            let address = usize::from_str_radix(word, 16).unwrap_or(0);
            self.inside = (self.range.0..self.range.1).contains(&address);
        } else if let Some((node, pages)) = word.strip_prefix('N').and_then(|w| w.split_once('='))
            && self.inside
            && node.bytes().all(|digit| digit.is_ascii_digit())
        {
            self.pages += pages.parse::<u64>().unwrap_or(0);
        }
        self.word_len = 0;
        self.first = byte == b'\n';
    }
}

/// Wall-clock time in nanoseconds since 1970.
pub(super) fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a local that is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_meminfo_are_found_with_and_without_a_node_before_them() {
        let text = b"Node 1 MemTotal:       524288 kB\nNode 1 MemFree:   1000 kB\nMemFree: 7";
        assert_eq!(field(text, b"MemTotal:"), Some(524_288 * 1024));
        assert_eq!(field(text, b"MemFree:"), Some(1000 * 1024));
        assert_eq!(field(text, b"SwapFree:"), None);
    }

    #[test]
    fn pages_that_are_touched_are_resident_and_others_are_not() {
        const BYTES: usize = 256 << 20;
        let before = process_bytes().unwrap();
        let mut block: Vec<u8> = Vec::with_capacity(BYTES);
        assert!(process_bytes().unwrap() < before + (BYTES / 2) as u64);
        block.resize(BYTES, 1);
        assert!(process_bytes().unwrap() > before + (BYTES / 2) as u64);
        assert_eq!(std::hint::black_box(block).len(), BYTES);
    }

    #[test]
    fn a_node_that_is_not_there_is_told_from_one_that_is() {
        assert!(free_bytes(0).unwrap() > 0);
        assert_eq!(free_bytes(63), Err(libc::ENODEV));
    }
}
