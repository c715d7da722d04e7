//! Preparation with a scripted host: what happens when something is missing or fails half-way.

use std::cell::Cell;
use std::io;

use super::*;
use crate::host::Invocation;
use crate::host::fake::{FakeHost, failure, success};

const QEMU: &str = "Inst qemu-system-x86 (1:10.0.2 Debian [amd64])\n";
const OTHERS: &str = "'http://m/l.deb' linux-image-6.12.1-cloud-amd64_6.12.1_amd64.deb 1 SHA256:a\n'http://m/b.deb' busybox-static_1.35_amd64.deb 1 SHA256:b\n";

fn cache() -> (tempfile::TempDir, LabCache) {
    let dir = tempfile::tempdir().unwrap();
    let cache = LabCache::open(Some(dir.path().into())).unwrap();
    (dir, cache)
}

fn bookworm() -> Release {
    Release {
        codename: "bookworm".into(),
    }
}

fn touch(path: PathBuf) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "x").unwrap();
}

/// Answers like a working Debian host; `dpkg -x` creates the files of a kit.
fn working(invocation: &Invocation) -> io::Result<crate::host::Finished> {
    let line = invocation.line();
    if line.contains("depends") {
        return success("  Depends: linux-image-6.12.1-cloud-amd64\n");
    }
    if line.contains("--simulate") {
        return success(QEMU);
    }
    if line.contains("--print-uris") {
        return success(OTHERS);
    }
    if invocation.program == "dpkg" {
        let root = PathBuf::from(&invocation.args[2]);
        for file in [
            "usr/bin/qemu-system-x86_64",
            "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
            "boot/vmlinuz-6.12.1-cloud-amd64",
            "lib/modules/6.12.1/x",
            "bin/busybox",
        ] {
            touch(root.join(file));
        }
    }
    success("")
}

#[test]
fn a_second_preparation_calls_no_program() {
    let (_dir, cache) = cache();
    let mut host = FakeHost::new(working);
    let kit = prepare_with(&cache, &mut host, bookworm(), &[], &mut |_| ()).unwrap();
    assert_eq!(
        (kit.kernel_release().as_str(), kit.qemu_version()),
        ("6.12.1-cloud-amd64", "1:10.0.2")
    );
    let mut silent = FakeHost::new(|_| failure("must not be called"));
    let again = prepare_with(&cache, &mut silent, bookworm(), &[], &mut |_| ()).unwrap();
    assert_eq!(again.packages(), kit.packages());
    assert!(silent.lines.is_empty(), "{:?}", silent.lines);
}

/// Debian's packages of Linux 7: an image without files, the kernel, and its modules.
#[test]
fn a_kernel_that_is_split_into_packages_is_found_beside_its_modules() {
    let (_dir, cache) = cache();
    let mut host = FakeHost::new(|invocation: &Invocation| {
        let line = invocation.line();
        if line.contains("depends --important linux-image-7") {
            let parts = ["kmod", "linux-binary-7", "linux-modules-7", "linux-base-7"];
            let named = |part: &str| match part.strip_suffix("-7") {
                Some(name) => format!("  Depends: {name}-7.3.4-cloud-amd64\n"),
                None => format!("  Depends: {part}\n"),
            };
            return success(&parts.map(named).concat());
        }
        if line.contains("depends") {
            return success("  Depends: linux-image-7.3.4-cloud-amd64\n");
        }
        if line.contains("--print-uris") {
            let parts = ["linux-image", "linux-binary", "linux-modules", "linux-base"];
            let parts = parts.map(|part| format!("{part}-7.3.4-cloud-amd64"));
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
            let names = parts.iter().map(String::as_str).chain(["busybox-static"]);
            let listed =
                names.map(|n| format!("'http://m/{n}.deb' {n}_7.3.4-1_amd64.deb 1 SHA256:a\n"));
            return success(&listed.collect::<String>());
        }
        let done = working(invocation);
        if invocation.program == "dpkg" {
            let root = PathBuf::from(&invocation.args[2]);
            fs::remove_dir_all(root.join("boot")).unwrap();
            fs::remove_dir_all(root.join("lib/modules")).unwrap();
            touch(root.join("usr/lib/modules/7.3.4-cloud-amd64/vmlinuz"));
        }
        done
    });
    let kit = prepare_with(&cache, &mut host, bookworm(), &[], &mut |_| ()).unwrap();
    assert_eq!(kit.kernel_release(), "7.3.4-cloud-amd64");
    assert!(kit.kernel.ends_with("7.3.4-cloud-amd64/vmlinuz"));
}

#[test]
fn a_failed_unpack_leaves_no_kit_and_the_next_try_succeeds() {
    let (_dir, cache) = cache();
    let unpacked = Cell::new(0);
    let mut host = FakeHost::new(|invocation: &Invocation| {
        if invocation.program == "dpkg" {
            unpacked.set(unpacked.get() + 1);
            if unpacked.get() == 3 {
                return failure("dpkg-deb: error: No space left on device");
            }
        }
        working(invocation)
    });
    let error = prepare_with(&cache, &mut host, bookworm(), &[], &mut |_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("No space left") && error.contains("free space"),
        "{error}"
    );
    assert!(!cache.dir().join("debian-bookworm-amd64-v1").exists());
    prepare_with(&cache, &mut host, bookworm(), &[], &mut |_| ()).unwrap();
}

#[test]
fn without_a_network_both_mirrors_are_named() {
    let (_dir, cache) = cache();
    let mut host = FakeHost::new(|invocation: &Invocation| {
        if invocation.line().contains("update") {
            failure("E: Could not resolve 'm'")
        } else {
            working(invocation)
        }
    });
    let error = prepare_with(
        &cache,
        &mut host,
        bookworm(),
        &[Mirror::plain("http://m/debian")],
        &mut |_| (),
    )
    .unwrap_err()
    .to_string();
    for part in [
        "http://m/debian",
        sources::FALLBACK_MIRROR,
        "Could not resolve",
        "network",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn the_fallback_mirror_is_used_when_the_machines_own_fails() {
    let (_dir, cache) = cache();
    let tries = Cell::new(0);
    let mut host = FakeHost::new(|invocation: &Invocation| {
        if invocation.line().contains("update") {
            tries.set(tries.get() + 1);
            if tries.get() == 1 {
                return failure("E: 404");
            }
        }
        working(invocation)
    });
    let mut lines = Vec::new();
    prepare_with(
        &cache,
        &mut host,
        bookworm(),
        &[Mirror::plain("http://m/debian")],
        &mut |line| lines.push(line.to_owned()),
    )
    .unwrap();
    assert!(
        lines[0].contains("http://m/debian") && lines[1].contains(sources::FALLBACK_MIRROR),
        "{lines:?}"
    );
}

#[test]
fn a_missing_tool_is_named_with_its_fix() {
    for tool in ["apt-config", "apt-get", "dpkg"] {
        let (_dir, cache) = cache();
        let mut host = FakeHost::new(|invocation: &Invocation| {
            if invocation.program == tool {
                Err(io::ErrorKind::NotFound.into())
            } else {
                working(invocation)
            }
        });
        let error = prepare_with(&cache, &mut host, bookworm(), &[], &mut |_| ()).unwrap_err();
        assert!(
            matches!(&error, LabError::MissingTool { tool: named, .. } if named == tool),
            "{error}"
        );
    }
}

#[test]
fn a_suite_without_the_package_is_not_taken_for_an_empty_plan() {
    let (_dir, cache) = cache();
    let mut host = FakeHost::new(|invocation: &Invocation| {
        if invocation.line().contains("--simulate") {
            failure("E: Unable to locate package qemu-system-x86")
        } else {
            working(invocation)
        }
    });
    let error = prepare_with(&cache, &mut host, bookworm(), &[], &mut |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("Unable to locate"), "{error}");
}

#[test]
fn a_kit_with_a_hole_is_refused_with_its_folder() {
    let (_dir, cache) = cache();
    let kit = prepare_with(
        &cache,
        &mut FakeHost::new(working),
        bookworm(),
        &[],
        &mut |_| (),
    )
    .unwrap();
    fs::remove_file(&kit.busybox).unwrap();
    let error = prepare_with(
        &cache,
        &mut FakeHost::new(working),
        bookworm(),
        &[],
        &mut |_| (),
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("busybox") && error.contains("remove that folder"),
        "{error}"
    );
}
