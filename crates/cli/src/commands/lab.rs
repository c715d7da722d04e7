//! `tierloom lab`.

use crate::failure::Failure;
use crate::output;
use clap::Subcommand;
use std::path::PathBuf;
use tierloom_lab::{
    GuestCommand, GuestFile, GuestKind, GuestOptions, LabCache, LabError, prepare, run as boot,
};

/// Try things on real Linux NUMA and CXL guests under QEMU: behaviour, never speed
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// Keep the downloaded packages here instead of the user's cache folder
    #[arg(long, value_name = "DIR", global = true)]
    cache: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Download QEMU, a kernel and busybox from Debian into the cache; nothing is installed
    Prepare,
    /// Boot a guest and run commands in it, each with this tierloom at hand as `tierloom`
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// two-nodes: a second, memory-only node with HMAT numbers; cxl: a CXL type-3 device online as node 1
    #[arg(long, default_value = "two-nodes", value_name = "GUEST")]
    guest: String,
    /// Write the commands' outputs without the guest's console in between
    #[arg(long)]
    quiet: bool,
    /// A shell command to run in the guest; may be given several times
    #[arg(long = "command", short = 'c', value_name = "SHELL", required = true)]
    commands: Vec<String>,
    /// A file to take along, as host-path:guest-path
    #[arg(long, value_name = "HOST:GUEST")]
    file: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let cache = LabCache::open(args.cache.clone()).map_err(failure)?;
    let kit = prepare(&cache, &mut |line| eprintln!("{line}")).map_err(failure)?;
    match &args.what {
        What::Prepare => output::print(&format!(
            "QEMU {}, Linux {}, in {}\n",
            kit.qemu_version(),
            kit.kernel_release(),
            cache.dir().display()
        )),
        What::Run(args) => {
            let kind: GuestKind = args.guest.parse().map_err(Failure::input)?;
            let mut options = GuestOptions::new(kind);
            let own = std::env::current_exe().map_err(|e| {
                Failure::runtime(format!("cannot find this program's own file: {e}"))
            })?;
            options.files.push(GuestFile::new(own, "/bin/tierloom"));
            for file in &args.file {
                let Some((host, guest)) = file.rsplit_once(':') else {
                    return Err(Failure::input(format!(
                        "--file {file}: expected host-path:guest-path"
                    )));
                };
                options.files.push(GuestFile::new(host, guest));
            }
            let commands: Vec<GuestCommand> = args
                .commands
                .iter()
                .map(|c| GuestCommand::shell(c.as_str()).quiet())
                .collect();
            let quiet = args.quiet;
            let outcome = boot(&kit, &options, &commands, &mut |line| {
                if !quiet {
                    eprintln!("{line}")
                }
            })
            .map_err(failure)?;
            for command in &outcome.commands {
                eprint!("{}", command.stderr_text());
                output::print(&command.stdout_text())?;
            }
            match outcome.exit_code {
                0 => Ok(()),
                code => Err(Failure::runtime(format!(
                    "a command in the guest ended with exit code {code}"
                ))),
            }
        }
    }
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::BadGuest { .. } => Failure::input(error),
        other => Failure::runtime(other),
    }
}
