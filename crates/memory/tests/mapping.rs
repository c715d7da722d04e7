//! Timed mapping operations on the real kernel.

use std::path::PathBuf;

use tierloom_memory::mapping::{MapRequest, MapWhat, Mapped, ScratchFile, timed_unmap};
use tierloom_memory::{AuditMode, MIB, MemoryError, PageSize, Placement, Share};
use tierloom_topology::{NodeId, SysRoot, Topology};

fn machine() -> Topology {
    Topology::read(&SysRoot::host()).unwrap()
}

fn request(what: MapWhat, populate: bool) -> MapRequest {
    MapRequest {
        what,
        size_bytes: 8 * MIB,
        page_size: PageSize::Base,
        nodes: Placement::kernel_default(),
        populate,
    }
}

/// Starts of mappings, with their kind (`rw-p`, `rw-s`), resident KiB and flags.
fn areas(mapped: &Mapped) -> Vec<(String, u64)> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (start, end) = (mapped.address(), mapped.address() + mapped.size_bytes());
    let mut inside = false;
    let mut found = Vec::new();
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        if let Some((low, high)) = first.split_once('-')
            && let Ok(low) = usize::from_str_radix(low, 16)
            && let Ok(high) = usize::from_str_radix(high, 16)
        {
            inside = low < end && start < high;
            if inside {
                found.push((words.next().unwrap().to_owned(), 0));
            }
        } else if inside && first == "Rss:" {
            found.last_mut().unwrap().1 += words.next().unwrap().parse::<u64>().unwrap();
        }
    }
    found
}

#[test]
fn every_kind_is_mapped_as_asked_for_and_populated_only_then() {
    let directory = tempfile::tempdir().unwrap();
    let file = ScratchFile::in_directory(directory.path(), 8 * MIB).unwrap();
    let of_file = |shared| MapWhat::File {
        path: file.path().to_owned(),
        shared,
    };
    for (what, kind) in [
        (MapWhat::AnonymousPrivate, "rw-p"),
        (MapWhat::AnonymousShared, "rw-s"),
        (of_file(true), "rw-s"),
        (of_file(false), "rw-p"),
    ] {
        // The kernel may take a page away between both, but not each time.
        let mut more_tries = 0..4;
        let mut todo = vec![true, false];
        while let Some(populate) = todo.pop() {
            let request = request(what.clone(), populate);
            request.check(&machine()).unwrap();
            let (mapped, took) = request.timed_map().unwrap();
            assert_eq!(mapped.size_bytes(), 8 * MIB);
            assert!(took.as_nanos() > 0);
            let areas = areas(&mapped);
            assert_eq!(areas[0].0, kind, "{}", request.describe());
            let resident_kib: u64 = areas.iter().map(|area| area.1).sum();
            if populate {
                if resident_kib < 8 * 1024 && more_tries.next().is_some() {
                    todo.push(populate);
                } else {
                    assert!(resident_kib >= 8 * 1024, "{} {areas:?}", request.describe());
                }
            } else if areas.len() == 1 && matches!(what, MapWhat::File { .. }) {
                assert_eq!(resident_kib, 0, "{}", request.describe());
            }
            assert!(timed_unmap(mapped).unwrap().as_nanos() > 0);
        }
    }
}

#[test]
fn unmapped_memory_is_gone() {
    let request = MapRequest {
        size_bytes: 200 * MIB,
        ..request(MapWhat::AnonymousPrivate, false)
    };
    let (mapped, _) = request.timed_map().unwrap();
    let (start, end) = (mapped.address(), mapped.address() + mapped.size_bytes());
    // No other test maps this much at once.
    let covered = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines()
            .filter(|line| line.contains(" rw-p "))
            .any(|line| {
                let range = line
                    .split(' ')
                    .next()
                    .and_then(|range| range.split_once('-'));
                let bounds = range.map(|(low, high)| {
                    (
                        usize::from_str_radix(low, 16),
                        usize::from_str_radix(high, 16),
                    )
                });
                matches!(bounds, Some((Ok(low), Ok(high))) if low <= start && end <= high)
            })
    };
    assert!(covered());
    timed_unmap(mapped).unwrap();
    assert!(!covered());
}

#[test]
fn private_file_pages_are_copies_and_the_file_keeps_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    std::fs::write(&path, vec![7_u8; 8 * MIB]).unwrap();
    for shared in [false, true] {
        let what = MapWhat::File {
            path: path.clone(),
            shared,
        };
        let (mapped, _) = request(what, true).timed_map().unwrap();
        timed_unmap(mapped).unwrap();
    }
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn huge_pages_start_at_huge_page_boundaries() {
    for what in [MapWhat::AnonymousPrivate, MapWhat::AnonymousShared] {
        let request = MapRequest {
            page_size: PageSize::Thp,
            ..request(what, true)
        };
        request.check(&machine()).unwrap();
        let (mapped, _) = request.timed_map().unwrap();
        assert_eq!(mapped.address() % PageSize::Thp.bytes(), 0);
    }
}

#[test]
fn populating_under_a_placement_restores_the_thread() {
    let node = machine().memory_nodes()[0];
    let request = MapRequest {
        nodes: Placement::bind(node),
        ..request(MapWhat::AnonymousPrivate, true)
    };
    request.check(&machine()).unwrap();
    let bound = || {
        let areas = std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap_or_default();
        areas.matches(" bind").count()
    };
    let before = bound();
    match request.timed_map() {
        Ok((mapped, _)) => {
            assert_eq!(bound(), before, "areas without a policy show the thread's");
            if let Ok(shares) = mapped.shares(AuditMode::Sampled { pages: 64 }) {
                assert_eq!(shares, [Share { node, share: 1.0 }]);
            }
        }
        // A container may forbid memory policies.
        Err(MemoryError::Syscall {
            errno: libc::EPERM, ..
        }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn requests_that_make_no_sense_say_what_would() {
    let topology = machine();
    let refused = |request: MapRequest| request.check(&topology).unwrap_err();
    let anonymous = || request(MapWhat::AnonymousPrivate, true);
    let error = refused(MapRequest {
        size_bytes: 0,
        ..anonymous()
    });
    assert!(matches!(error, MemoryError::SizeZero { .. }), "{error}");
    let error = refused(MapRequest {
        size_bytes: 5000,
        ..anonymous()
    });
    assert!(
        matches!(
            error,
            MemoryError::SizeNotPages {
                rounded_bytes: 8192,
                ..
            }
        ),
        "{error}"
    );
    let error = refused(MapRequest {
        nodes: Placement::bind(NodeId(999)),
        ..anonymous()
    });
    assert!(matches!(error, MemoryError::Placement(_)), "{error}");
    let error = refused(MapRequest {
        size_bytes: 1 << 45,
        ..anonymous()
    });
    assert!(
        matches!(error, MemoryError::NotEnoughMemory { .. }),
        "{error}"
    );
    let error = refused(MapRequest {
        size_bytes: 1 << 40,
        page_size: PageSize::Huge1G,
        ..request(MapWhat::AnonymousPrivate, false)
    });
    assert!(
        matches!(error, MemoryError::NotEnoughHugePages { .. }),
        "{error}"
    );
}

#[test]
fn files_that_cannot_be_mapped_are_named() {
    let topology = machine();
    let directory = tempfile::tempdir().unwrap();
    let short = directory.path().join("short");
    std::fs::write(&short, "short").unwrap();
    let file = |path: PathBuf| request(MapWhat::File { path, shared: true }, true);
    let missing = directory.path().join("missing");
    for (path, said) in [
        (short.clone(), "has 5 bytes"),
        (missing, "cannot"),
        (directory.path().to_owned(), "cannot"),
        (PathBuf::from("/dev/zero"), "devdax"),
    ] {
        for error in [
            file(path.clone()).check(&topology).unwrap_err(),
            file(path.clone()).timed_map().map(drop).unwrap_err(),
        ] {
            assert!(error.to_string().contains(said), "{error}");
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
        }
    }
    let placed = MapRequest {
        nodes: Placement::bind(topology.memory_nodes()[0]),
        size_bytes: 4096,
        ..file(short)
    };
    for error in [
        placed.check(&topology).unwrap_err(),
        placed.timed_map().map(drop).unwrap_err(),
    ] {
        assert!(error.to_string().contains("`default`"), "{error}");
    }
}

#[test]
fn scratch_files_have_their_blocks_and_vanish() {
    let directory = tempfile::tempdir().unwrap();
    let file = ScratchFile::in_directory(directory.path(), 8 * MIB).unwrap();
    assert_eq!(
        std::fs::metadata(file.path()).unwrap().len(),
        8 * MIB as u64
    );
    drop(file);
    let error = ScratchFile::in_directory(directory.path(), 1 << 50).unwrap_err();
    assert!(matches!(error, MemoryError::File { .. }), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
