//! `tierloom completions` and `tierloom manual`: what shells and `man` know of this program, made
//! from its arguments.

use crate::failure::Failure;
use crate::output;
use clap_complete::Shell;
use std::path::PathBuf;

/// Print the completions of a shell
///
/// For bash: tierloom completions bash > /etc/bash_completion.d/tierloom
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write a manual page for every command
///
/// For all users: tierloom manual -o /usr/local/share/man/man1
#[derive(clap::Args)]
pub struct ManualArgs {
    /// Folder for the pages; made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

/// Prints the completions of `program`.
pub fn completions(args: &CompletionsArgs, mut program: clap::Command) -> Result<(), Failure> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, name, &mut script);
    output::print_bytes(&script)
}

/// Writes the pages of `program`.
pub fn manual(args: &ManualArgs, program: clap::Command) -> Result<(), Failure> {
    let folder = &args.output;
    let failed = |e: std::io::Error| Failure::runtime(format!("{}: {e}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    // What clap adds to every command is no page of its own.
    let program = program.disable_help_subcommand(true);
    clap_mangen::generate_to(program, folder).map_err(failed)
}
