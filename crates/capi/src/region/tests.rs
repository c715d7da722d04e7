use super::fake::host;
use super::*;
use crate::audit::*;
use crate::border::tl_last_error;
use crate::slice::tl_region_slice;
use crate::text::{tl_text_free, tl_text_get};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use std::sync::Weak;
use tierloom_memory::{Mapping, MemoryBackend, MemoryError, NodeCapacity, PageState, Run};
use tierloom_topology::NodeId;

fn region(host: Host, placement: &str) -> tl_region {
    let placement = host.placement(placement).unwrap();
    tl_region::create(host, RegionOptions::new("column", 100 * 4096, placement)).unwrap()
}

fn last() -> String {
    // SAFETY: the message is valid until the next call of this thread fails.
    unsafe { tl_last_error().read("last") }.unwrap().to_owned()
}

fn shares(region: *const tl_region) -> Vec<(u32, f64, f64)> {
    let mut audit = ptr::null_mut();
    // SAFETY: all pointers are those of live objects.
    unsafe {
        assert_eq!(tl_region_audit(region, &raw mut audit), tl_status::TL_OK);
        let one = |index| {
            let mut share = tl_node_share::base();
            let status = tl_audit_node(audit, index, &raw mut share);
            assert_eq!(status, tl_status::TL_OK);
            (share.node, share.requested, share.actual)
        };
        let shares = (0..tl_audit_nodes(audit)).map(one).collect();
        tl_audit_free(audit);
        shares
    }
}

#[test]
fn pages_go_where_the_weights_say_and_move() {
    let region = region(host(), "0:3,1:2");
    assert_eq!(shares(&raw const region), [(0, 0.6, 0.6), (1, 0.4, 0.4)]);
    let mut moved = tl_migration::base();
    // SAFETY: all pointers are those of live objects.
    let status = unsafe { tl_region_migrate(&raw const region, tl_str::of("1"), &raw mut moved) };
    assert_eq!(status, tl_status::TL_OK);
    assert_eq!((moved.pages, moved.moved, moved.failed), (100, 60, 0));
    assert_eq!(shares(&raw const region), [(1, 1.0, 1.0)]);
    let mut text = ptr::null_mut();
    // SAFETY: as above; the text is freed after its last use.
    unsafe {
        tl_region_placement(&raw const region, &raw mut text);
        assert_eq!(tl_text_get(text).read("text").unwrap(), "1");
        tl_text_free(text);
    }
}

#[test]
fn what_a_machine_lacks_is_a_status_that_says_what_it_has() {
    let region = region(host(), "0");
    for (placement, status, part) in [
        ("7", tl_status::TL_UNAVAILABLE, "has nodes 0-1"),
        ("hbm", tl_status::TL_UNAVAILABLE, "no hbm tier"),
        ("0:x", tl_status::TL_BAD_INPUT, "weight"),
        ("", tl_status::TL_BAD_INPUT, "empty"),
        ("default", tl_status::TL_BAD_INPUT, "no node"),
    ] {
        // SAFETY: the region lives, and null is allowed for the result.
        let ended =
            unsafe { tl_region_migrate(&raw const region, tl_str::of(placement), ptr::null_mut()) };
        assert_eq!(ended, status, "{placement}: {}", last());
        assert!(last().contains(part), "{placement}: {}", last());
    }
}

#[test]
fn a_slice_keeps_the_memory_until_it_is_released() {
    let region = Box::new(region(host(), "0"));
    let watched: Weak<Region> = Arc::downgrade(&region.region);
    let handle = Box::into_raw(region);
    let (mut array, mut schema) = (FFI_ArrowArray::empty(), FFI_ArrowSchema::empty());
    // SAFETY: the handle lives until it is freed, and nothing else writes to its memory.
    unsafe {
        tl_region_data(handle).cast::<i64>().add(3).write(42);
        let format = tl_str::of("l");
        let ended = tl_region_slice(handle, 16, 5, format, &raw mut array, &raw mut schema);
        assert_eq!(ended, tl_status::TL_OK, "{}", last());
        tl_region_free(handle);
    }
    assert_eq!(watched.strong_count(), 1);
    assert_eq!((array.len(), schema.format()), (5, "l"));
    // SAFETY: the array holds the memory.
    assert_eq!(unsafe { array.buffer(1).cast::<i64>().add(1).read() }, 42);
    drop(array);
    assert_eq!(watched.strong_count(), 0);
}

#[test]
fn slices_outside_and_other_types_are_refused() {
    let region = region(host(), "0");
    let (mut array, mut schema) = (FFI_ArrowArray::empty(), FFI_ArrowSchema::empty());
    for (offset, length, format, part) in [
        (0, 51_201, "l", "not inside"),
        (usize::MAX - 7, 2, "l", "too many"),
        (0, usize::MAX, "l", "too many"),
        (4, 1, "l", "not a multiple"),
        (0, 1, "u", "fixed width"),
        (0, 1, "+l", "fixed width"),
        (0, 1, "nonsense", "fixed width"),
        (0, 1, "", "fixed width"),
    ] {
        let format = tl_str::of(format);
        // SAFETY: all pointers are those of live objects.
        let ended = unsafe {
            tl_region_slice(
                &raw const region,
                offset,
                length,
                format,
                &raw mut array,
                &raw mut schema,
            )
        };
        assert!(
            ended != tl_status::TL_OK && last().contains(part),
            "{ended:?}: {}",
            last()
        );
        assert!(array.is_released());
    }
}

/// Panics when it is asked for pages.
#[derive(Debug)]
struct Broken(Arc<dyn MemoryBackend>);

impl MemoryBackend for Broken {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn capacity(&self, node: NodeId, size: PageSize) -> Result<Option<NodeCapacity>, MemoryError> {
        self.0.capacity(node, size)
    }

    fn reserve(&self, name: &str, bytes: usize, size: PageSize) -> Result<Mapping, MemoryError> {
        self.0.reserve(name, bytes, size)
    }

    fn populate(
        &self,
        mapping: &Mapping,
        size: PageSize,
        runs: &mut dyn Iterator<Item = Run>,
    ) -> Result<(), MemoryError> {
        self.0.populate(mapping, size, runs)
    }

    fn locate(&self, _: &Mapping, _: &[usize]) -> Result<Vec<PageState>, MemoryError> {
        panic!("nobody knows where pages are")
    }
}

#[test]
fn a_panic_inside_is_an_error_code() {
    let Host { topology, backend } = host();
    let backend = Arc::new(Broken(backend));
    let region = region(Host { topology, backend }, "0:1,1:1");
    let mut audit = ptr::null_mut();
    // SAFETY: all pointers are those of live objects.
    unsafe {
        let ended = tl_region_audit(&raw const region, &raw mut audit);
        assert_eq!(ended, tl_status::TL_PANIC);
        let said = last();
        assert!(said.contains("nobody knows where pages are"), "{said}");
        // A panic in one call leaves the region usable for others, and other regions too.
        let to = tl_str::of("1");
        let ended = tl_region_migrate(&raw const region, to, ptr::null_mut());
        assert_eq!(ended, tl_status::TL_PANIC);
        let ended = tl_region_migrate(&raw const region, to, ptr::null_mut());
        assert_eq!(
            ended,
            tl_status::TL_PANIC,
            "the lock of migrations is stuck"
        );
    }
    assert!(audit.is_null());
}
