//! The scripts that run inside a guest, filled in for one boot. They are only built here, not run.

use super::machine::{CXL_SERIAL, PORT_NAME};
use super::{GuestCommand, GuestKind, GuestOptions};

/// `/init`, the same for every guest.
pub(crate) const INIT: &str = include_str!("init.sh");

/// The modules that a guest loads, in order; dependencies are added before each by
/// [`crate::modules`].
pub(crate) fn modules(options: &GuestOptions) -> Vec<&'static str> {
    let mut modules: Vec<&str> = match options.kind {
        GuestKind::TwoNodes | GuestKind::CxlDcd => vec![],
        // Without `kmem` the kernel cannot turn the device's memory into a NUMA node.
        GuestKind::CxlDevdax => vec!["cxl_acpi", "cxl_pci", "cxl_mem", "device_dax", "dax_cxl"],
        GuestKind::Cxl => vec![
            "cxl_acpi",
            "cxl_pci",
            "cxl_mem",
            "device_dax",
            "kmem",
            "dax_cxl",
        ],
    };
    if options.link.is_some() {
        modules.push("virtio_net");
    }
    modules
}

/// `/lab/setup`: brings up the second memory after the boot.
pub(crate) fn setup(kind: GuestKind) -> &'static str {
    match kind {
        GuestKind::TwoNodes => {
            "# Both nodes are there from the start.\n[ -d /sys/devices/system/node/node1 ] || fail \"finding node 1\"\n"
        }
        GuestKind::Cxl => concat!(
            include_str!("setup_cxl.sh"),
            include_str!("setup_system_ram.sh")
        ),
        GuestKind::CxlDevdax => concat!(
            include_str!("setup_cxl.sh"),
            include_str!("setup_devdax.sh")
        ),
        GuestKind::CxlDcd => include_str!("setup_dcd.sh"),
    }
}

/// `/lab/config`: the variables that `/init` reads. `modules` are in load order.
pub(crate) fn config(
    options: &GuestOptions,
    tag: &str,
    commands: usize,
    modules: &[String],
) -> String {
    let modules = quote(&modules.join(" "));
    let slow_kb = options.slow_bytes >> 10;
    let address = quote(options.link.as_ref().map_or("", |link| &link.address));
    format!(
        "TAG={tag}\nPORT_NAME={PORT_NAME}\nCOMMANDS={commands}\nMODULES={modules}\nCXL_SERIAL={CXL_SERIAL:#x}\nSLOW_KB={slow_kb}\nADDRESS={address}\n"
    )
}

/// The script that runs `command`.
pub(crate) fn command_script(command: &GuestCommand) -> String {
    let mut script = String::from("cd /root\n");
    for (name, value) in &command.env {
        script.push_str(&format!("export {name}={}\n", quote(value)));
    }
    let words: Vec<String> = command.argv.iter().map(|word| quote(word)).collect();
    script.push_str(&format!("exec {}\n", words.join(" ")));
    script
}

/// The line that the console shows before `command` runs.
pub(crate) fn title(command: &GuestCommand) -> String {
    command
        .argv
        .join(" ")
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(160)
        .collect()
}

/// `/lab/collect`: copies each path below `/run/lab/collect`.
///
/// Shell patterns in paths stay unquoted so that the guest's shell expands them.
pub(crate) fn collect_script(paths: &[String]) -> String {
    let mut script = String::new();
    for path in paths {
        let pattern: String = path
            .chars()
            .map(|c| {
                if "*?[]".contains(c) {
                    c.to_string()
                } else {
                    quote_char(c)
                }
            })
            .collect();
        script.push_str(&format!("for f in {pattern}; do [ -e \"$f\" ] || continue; mkdir -p \"/run/lab/collect/${{f%/*}}\"; cp -a \"$f\" \"/run/lab/collect/${{f%/*}}/\" 2>/dev/null; done\n"));
    }
    script
}

/// Quotes `word` for the shell.
pub(crate) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn quote_char(c: char) -> String {
    if c.is_ascii_alphanumeric() || "/._-+:@%=,".contains(c) {
        c.to_string()
    } else {
        quote(&c.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GuestLink;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn the_configuration_is_what_init_reads() {
        let mut options = GuestOptions::new(GuestKind::Cxl);
        options.link = Some(GuestLink::listen("/s", "10.7.0.1/24"));
        let text = config(&options, "abc", 2, &["cxl_acpi".into(), "kmem".into()]);
        for name in [
            "TAG=abc",
            "COMMANDS=2",
            "MODULES='cxl_acpi kmem'",
            "CXL_SERIAL=0x7163",
            "SLOW_KB=524288",
            "PORT_NAME=tierloom.results",
            "ADDRESS='10.7.0.1/24'",
        ] {
            assert!(text.lines().any(|line| line == name), "{name}: {text}");
            let variable = name.split('=').next().unwrap();
            assert!(
                INIT.contains(variable) || setup(GuestKind::Cxl).contains(variable),
                "{variable} is read nowhere"
            );
        }
    }

    #[test]
    fn scripts_have_no_syntax_errors() {
        let collect = collect_script(&["/sys/a*/b c".into(), "/proc/x'y".into()]);
        let command = command_script(&GuestCommand::shell("echo 'a'").env("X", "it's"));
        let port = GuestCommand::wait_for_port(
            "10.7.0.1:7000".parse().unwrap(),
            std::time::Duration::from_secs(9),
        );
        for script in [
            port.argv[2].as_str(),
            INIT,
            setup(GuestKind::TwoNodes),
            setup(GuestKind::Cxl),
            setup(GuestKind::CxlDevdax),
            setup(GuestKind::CxlDcd),
            collect.as_str(),
            command.as_str(),
        ] {
            let checked = Command::new("sh")
                .args(["-n", "-c", script])
                .output()
                .unwrap();
            assert!(
                checked.status.success(),
                "{}\n{script}",
                String::from_utf8_lossy(&checked.stderr)
            );
        }
    }

    #[test]
    fn only_the_guest_with_the_node_can_take_the_device_for_its_own_memory() {
        let loads = |kind| modules(&GuestOptions::new(kind)).contains(&"kmem");
        assert!(loads(GuestKind::Cxl));
        assert!(!loads(GuestKind::CxlDevdax));
    }

    #[test]
    fn titles_are_one_line_without_control_characters() {
        assert_eq!(
            title(&GuestCommand::shell("a\u{1b}[31m\nb")),
            "/bin/sh -c a[31m"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_word_reaches_the_program_unchanged(word in "[^\0]{0,24}") {
            let output = Command::new("sh").args(["-c", &format!("printf %s {}", quote(&word))]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
