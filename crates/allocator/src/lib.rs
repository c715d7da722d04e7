//! The global allocator of the command line program: mimalloc below the router of operator memory.
//!
//! A program gets it by naming this crate (`use tierloom_allocator as _;`).
//!
//! The allocator is generic, so the crate with the static compiles it. Here it is optimised also
//! where the program is not: in tests, and in `release`, where the program is compiled for size.

use tierloom_memory::router::TierAllocator;

/// Queries allocate and free large short-lived buffers. mimalloc keeps their pages, where glibc
/// would return them to the kernel and fault them in again. The router around it can place each
/// class of operator memory on its own tier; it passes everything through until a session
/// configures it.
#[global_allocator]
static ALLOCATOR: TierAllocator<mimalloc::MiMalloc> = TierAllocator::new(mimalloc::MiMalloc);
