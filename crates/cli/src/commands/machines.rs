//! `tierloom machines`: lists the machine profiles, or shows one.

use crate::failure::Failure;
use crate::output;
use comfy_table::{Table, presets};
use tierloom_model::profiles;
use tierloom_suite::machine;

/// List the machine profiles available for modelling, or show one with the source of every number
#[derive(clap::Args)]
pub struct Args {
    /// Profile to show: a name, or the path of a YAML file, which is checked
    name: Option<String>,
}

/// Lists the built-in profiles, or prints one as YAML.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        return list();
    };
    let machine = machine::load(name)?;
    output::print(&format!(
        "{}\n",
        machine.to_yaml().map_err(Failure::runtime)?.trim_end()
    ))
}

fn list() -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "machine",
        "cores",
        "dram GB/s",
        "cxl GB/s",
        "what it is",
    ]);
    for name in profiles::builtin_names() {
        let machine = machine::load(name)?;
        let rate = |tier: &str| {
            machine
                .tier(tier)
                .map_or_else(|| "-".into(), |t| format!("{:.1}", t.read_gbps.value))
        };
        table.add_row([
            name.to_string(),
            format!("{}", machine.cores.value),
            rate("dram"),
            rate("cxl"),
            machine.title.clone(),
        ]);
    }
    output::print(&format!("{table}\n"))
}
