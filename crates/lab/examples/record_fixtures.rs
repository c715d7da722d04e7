//! Records the files that Linux shows in both guests, as fixtures for the topology crate's tests.
//!
//! ```text
//! cargo run -p tierloom-lab --example record_fixtures [FIXTURES_DIR]
//! ```
//! The two-node guest is recorded with weights 3:2, so that the fixture shows a state other than
//! the default. The paths to record are in the topology crate's `src/record/paths.txt`, one shell
//! pattern per line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tierloom_lab::{
    CollectedFile, CollectedKind, GuestCommand, GuestKind, GuestOptions, Kit, LabCache, prepare,
    run,
};

/// `pick PATTERN` copies files and links below `/record`.
///
/// Contents are read rather than copied by size, since sizes under `/sys` are not lengths;
/// unreadable files are skipped. Files under a link are stored below the link's target, so that the
/// link can stay one; only `/proc/self` is stored under its own name.
const RECORDER: &str = r#"
keep() {
    dir=${1%/*}
    case $1 in
        */uevent|*/power|*/subsystem) return;;
        /sys/*) dir=$(readlink -f "$dir");;
    esac
    mkdir -p "/record$dir"
    if [ -L "$1" ]; then
        [ -L "/record$dir/${1##*/}" ] || cp -a "$1" "/record$dir/"
    elif [ -f "$1" ]; then
        cat "$1" >"/record$dir/${1##*/}" 2>/dev/null || rm -f "/record$dir/${1##*/}"
    fi
}
pick() { for f in $1; do keep "$f"; done; }
"#;

fn main() -> ExitCode {
    let topology = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topology");
    let fixtures = std::env::args_os()
        .nth(1)
        .map_or_else(|| topology.join("tests/fixtures"), PathBuf::from);
    let list = topology.join("src/record/paths.txt");
    match record_all(&fixtures, &list) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("record_fixtures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record_all(fixtures: &Path, list: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let paths = fs::read_to_string(list)
        .map_err(|error| format!("cannot read {}: {error}", list.display()))?;
    let cache = LabCache::open(None)?;
    let kit = prepare(&cache, &mut |line| eprintln!("{line}"))?;
    let weights =
        "cd /sys/kernel/mm/mempolicy/weighted_interleave && echo 3 >node0 && echo 2 >node1";
    for (kind, name, before) in [
        (GuestKind::TwoNodes, "guest-2node-hmat", weights),
        (GuestKind::Cxl, "guest-cxl", "true"),
    ] {
        let count = record(&kit, kind, before, &paths, &fixtures.join(name))?;
        println!("{}: {count} files and links", fixtures.join(name).display());
    }
    Ok(())
}

fn record(
    kit: &Kit,
    kind: GuestKind,
    before: &str,
    paths: &str,
    dir: &Path,
) -> Result<usize, Box<dyn std::error::Error>> {
    let mut options = GuestOptions::new(kind);
    options.collect.push("/record".into());
    let commands = [
        GuestCommand::shell(before),
        GuestCommand::shell(script(paths)?),
    ];
    let outcome = run(kit, &options, &commands, &mut |line| {
        eprintln!("[{kind}] {line}")
    })?;
    if let Some(failed) = outcome
        .commands
        .iter()
        .find(|command| command.exit_code != 0)
    {
        return Err(format!(
            "the recorder failed with {}: {}",
            failed.exit_code,
            failed.stderr_text()
        )
        .into());
    }
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    let mut count = 0;
    for file in &outcome.collected {
        count += usize::from(write(dir, file)?);
    }
    let note = format!(
        "Recorded from a guest of kind {kind} by `cargo run -p tierloom-lab --example record_fixtures`.\nQEMU {} (software emulation), Linux {}.\n\
         Latency and bandwidth figures are settings of the emulated firmware tables, not measurements.\n",
        kit.qemu_version(),
        kit.kernel_release()
    );
    fs::write(dir.join("RECORDED.txt"), note)?;
    Ok(count)
}

/// Writes one collected entry below `dir`; folders are only created for what is in them.
fn write(dir: &Path, file: &CollectedFile) -> std::io::Result<bool> {
    let Some(path) = file
        .guest
        .strip_prefix("/record/")
        .map(|path| dir.join(path))
    else {
        return Ok(false);
    };
    if file.kind == CollectedKind::Dir {
        return Ok(false);
    }
    fs::create_dir_all(path.parent().unwrap_or(dir))?;
    match &file.kind {
        CollectedKind::File(content) => fs::write(path, content)?,
        CollectedKind::Link(target) => symlink(target, path)?,
        CollectedKind::Dir => {}
    }
    Ok(true)
}

/// The recorder with one call for each pattern of `paths`; `#` begins a comment.
fn script(paths: &str) -> Result<String, String> {
    let mut script = RECORDER.to_owned();
    for line in paths.lines() {
        let pattern = line.split('#').next().unwrap_or_default().trim();
        if pattern.contains(|c: char| !(c.is_ascii_alphanumeric() || "/._-+:*?[]".contains(c))) {
            return Err(format!(
                "the path pattern {pattern:?} has characters that no kernel path has"
            ));
        }
        if !pattern.is_empty() {
            script.push_str(&format!("pick '/{pattern}'\n"));
        }
    }
    script.push_str("true\n");
    Ok(script)
}
