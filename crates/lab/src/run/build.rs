//! Builds the initramfs of one boot: busybox, scripts, kernel modules, and programs with their
//! libraries.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use crate::archive::Initramfs;
use crate::guest::init::{self, INIT};
use crate::guest::{GuestCommand, GuestOptions};
use crate::host::{Host, SystemHost};
use crate::modules::{self, Module};
use crate::program;
use crate::{Kit, LabError};

/// Writes the initramfs to `path`; stripped copies of programs go to `scratch` for a moment.
pub(super) fn build_initramfs(
    kit: &Kit,
    options: &GuestOptions,
    commands: &[GuestCommand],
    tag: &str,
    path: &Path,
    scratch: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let failed = || LabError::io("write the initramfs", path);
    let mut archive = Initramfs::new(BufWriter::new(File::create(path).map_err(failed())?));
    let modules = modules::resolve(&kit.modules, &init::modules(options))?;
    add_scripts(&mut archive, options, commands, tag, &modules).map_err(failed())?;
    archive.file("/bin/busybox", 0o755, &kit.busybox)?;
    for file in &options.files {
        add_path(
            &mut archive,
            &mut SystemHost,
            &file.host,
            &file.guest,
            scratch,
            tell,
        )?;
    }
    archive.finish().map(|_| ()).map_err(failed())
}

fn add_scripts<W: std::io::Write>(
    archive: &mut Initramfs<W>,
    options: &GuestOptions,
    commands: &[GuestCommand],
    tag: &str,
    modules: &[Module],
) -> std::io::Result<()> {
    for dir in [
        "/bin",
        "/dev",
        "/proc",
        "/sys",
        "/tmp",
        "/run",
        "/root",
        "/etc",
        "/lab/lib",
        "/lab/modules",
        "/lab/commands",
    ] {
        archive.dir(dir)?;
    }
    archive.bytes("/init", 0o755, INIT.as_bytes())?;
    archive.bytes("/etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n")?;
    for module in modules {
        archive.bytes(
            &format!("/lab/modules/{}.ko", module.name),
            0o644,
            &module.image,
        )?;
    }
    let names: Vec<String> = modules.iter().map(|module| module.name.clone()).collect();
    archive.bytes(
        "/lab/config",
        0o644,
        init::config(options, tag, commands.len(), &names).as_bytes(),
    )?;
    archive.bytes("/lab/setup", 0o644, init::setup(options.kind).as_bytes())?;
    archive.bytes(
        "/lab/collect",
        0o644,
        init::collect_script(&options.collect).as_bytes(),
    )?;
    for (index, command) in commands.iter().enumerate() {
        archive.bytes(
            &format!("/lab/commands/{index}"),
            0o644,
            init::command_script(command).as_bytes(),
        )?;
        archive.bytes(
            &format!("/lab/commands/{index}.title"),
            0o644,
            (init::title(command) + "\n").as_bytes(),
        )?;
        if command.echo {
            archive.bytes(&format!("/lab/commands/{index}.echo"), 0o644, b"")?;
        }
    }
    Ok(())
}

/// Adds a file, a program with its libraries, or a whole folder.
fn add_path<W: std::io::Write>(
    archive: &mut Initramfs<W>,
    host: &mut dyn Host,
    from: &Path,
    guest: &str,
    scratch: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    if from.is_dir() {
        archive
            .dir(guest)
            .map_err(LabError::io("write the initramfs for", from))?;
        let entries: Result<Vec<_>, _> = fs::read_dir(from)
            .map_err(LabError::io("list", from))?
            .collect();
        let mut entries = entries.map_err(LabError::io("list", from))?;
        // A fixed order gives the same initramfs for the same folder.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            add_path(
                archive,
                host,
                &entry.path(),
                &format!("{guest}/{}", entry.file_name().to_string_lossy()),
                scratch,
                tell,
            )?;
        }
        return Ok(());
    }
    let mode = program::mode(from)?;
    if !program::is_elf(from)? || mode & 0o111 == 0 {
        return archive.file(guest, mode, from);
    }
    let linkage = program::linkage(host, from)?;
    // Libraries go by soname to the one folder in LD_LIBRARY_PATH, wherever the host keeps them.
    for (name, library) in &linkage.libraries {
        archive.file(&format!("/lab/lib/{name}"), 0o755, library)?;
    }
    if let Some(loader) = &linkage.loader {
        archive.file(&loader.to_string_lossy(), 0o755, loader)?;
    }
    let small = program::stripped(host, from, scratch, tell)?;
    archive.file(guest, mode, &small)?;
    // The copy is in the archive by now, and the next program may have the same name.
    if small != from {
        fs::remove_file(&small).map_err(LabError::io("remove", &small))?;
    }
    Ok(())
}
