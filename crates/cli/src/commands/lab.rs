//! `tierloom lab`: boots Linux guests with several NUMA nodes or a CXL device under QEMU and runs
//! commands in them.
//!
//! For testing behaviour on machines that have no such memory; guests are emulated, so times mean
//! nothing.

use crate::failure::Failure;
use crate::{output, stop};
use clap::Subcommand;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tierloom_lab::{
    CommandOutcome, GuestCommand, GuestFile, GuestKind, GuestOptions, Kit, LabCache, LabError,
    prepare, run_until,
};

/// Run commands on real Linux NUMA and CXL guests under QEMU, to test behaviour but never speed
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: LabCommand,
    /// Keep the downloaded packages in DIR instead of the user's cache folder
    #[arg(long, value_name = "DIR", global = true)]
    cache: Option<PathBuf>,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Download QEMU, a kernel and busybox from Debian into the cache; nothing is installed
    Prepare,
    /// Boot a guest and run commands in it, with this binary available as `tierloom`
    ///
    /// Output is printed to stdout when the guest has ended; its console goes to stderr while it
    /// runs. The exit code is 1 if a command in the guest failed.
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// two-nodes: a second, memory-only node with HMAT numbers; cxl: a CXL type-3 device online as
    /// node 1; cxl-devdax: the device available to programs as /dev/dax0.0; cxl-dcd: a device of
    /// dynamic capacity, with its registers in /dev/mem
    #[arg(long, default_value = "two-nodes", value_name = "GUEST")]
    guest: String,
    /// Shell command to run in the guest; may be given several times; a failing one does not stop
    /// the next
    #[arg(long = "command", short = 'c', value_name = "SHELL", required = true)]
    commands: Vec<String>,
    /// File or folder to copy into the guest, as host-path:guest-path; may be given several times
    #[arg(long, value_name = "HOST:GUEST")]
    file: Vec<String>,
    /// Argument for the guest kernel's command line, such as numa_balancing=disable; may be given
    /// several times
    #[arg(long, value_name = "WORD")]
    kernel_arg: Vec<String>,
    /// Kill the guest if its commands take longer than this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Print only the commands' output, not the guest's console
    #[arg(long)]
    quiet: bool,
}

/// Prepares the packages, or boots a guest and runs the commands.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        LabCommand::Prepare => {
            let cache = cache(args)?;
            let kit = kit(&cache)?;
            output::print(&format!(
                "QEMU {}, Linux {}, in {}\n",
                kit.qemu_version(),
                kit.kernel_release(),
                cache.dir().display()
            ))
        }
        LabCommand::Run(asked) => {
            // The arguments are checked before anything is downloaded.
            let options = options(asked)?;
            run_guest(&kit(&cache(args)?)?, asked, &options)
        }
    }
}

fn cache(args: &Args) -> Result<LabCache, Failure> {
    LabCache::open(args.cache.clone()).map_err(failure)
}

fn kit(cache: &LabCache) -> Result<Kit, Failure> {
    prepare(cache, &mut |line| note!("{line}")).map_err(|error| {
        if stop::requested() {
            return Failure::Interrupted(
                "while preparing the lab; the next time continues with the packages that are there"
                    .into(),
            );
        }
        failure(error)
    })
}

fn options(asked: &RunArgs) -> Result<GuestOptions, Failure> {
    let kind: GuestKind = asked.guest.parse().map_err(Failure::input)?;
    if asked.timeout == 0 {
        return Err(Failure::input("--timeout 0: no command ends in no time"));
    }
    let mut options = GuestOptions::new(kind);
    options.timeout = Duration::from_secs(asked.timeout);
    options.kernel_args.clone_from(&asked.kernel_arg);
    let own = std::env::current_exe()
        .map_err(|e| Failure::runtime(format!("cannot find this program's own file: {e}")))?;
    options.files.push(GuestFile::new(own, "/bin/tierloom"));
    for file in &asked.file {
        // Split at the last colon, because a path on the host may contain one.
        let Some((host, guest)) = file.rsplit_once(':') else {
            return Err(Failure::input(format!(
                "--file {file}: expected host-path:guest-path"
            )));
        };
        if !Path::new(host).exists() {
            return Err(Failure::input(format!(
                "--file {file}: {host} does not exist"
            )));
        }
        options.files.push(GuestFile::new(host, guest));
    }
    options.check().map_err(failure)?;
    Ok(options)
}

fn run_guest(kit: &Kit, asked: &RunArgs, options: &GuestOptions) -> Result<(), Failure> {
    // Not echoed on the guest's console: the output is printed unchanged afterwards.
    let commands: Vec<GuestCommand> = asked
        .commands
        .iter()
        .map(|c| GuestCommand::shell(c.as_str()).quiet())
        .collect();
    let mut on_line = |line: &str| {
        if !asked.quiet {
            note!("{line}");
        }
    };
    let outcome = run_until(kit, options, &commands, &stop::requested, &mut on_line);
    let outcome = outcome.map_err(failure)?;
    for command in &outcome.commands {
        eprint!("{}", command.stderr_text());
        output::print(&command.stdout_text())?;
    }
    let failed: Vec<String> = asked
        .commands
        .iter()
        .zip(&outcome.commands)
        .filter_map(failed)
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::runtime(format!(
        "in the guest, {}",
        failed.join("; ")
    )))
}

fn failed((typed, command): (&String, &CommandOutcome)) -> Option<String> {
    let code = command.exit_code;
    (code != 0).then(|| format!("`{typed}` ended with exit code {code}"))
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::BadGuest { .. } => Failure::input(error),
        LabError::Interrupted { .. } => Failure::Interrupted(error.to_string()),
        other => Failure::runtime(other),
    }
}
