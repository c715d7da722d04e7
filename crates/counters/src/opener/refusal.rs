//! Reasons and remedies for counters that could not be opened.

use std::io;

use tierloom_topology::SysRoot;

use crate::files;
use crate::plan::Scope;

// Errnos of Linux on the supported architectures; defined here to avoid a dependency.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";

/// Cause and remedy for a counter that could not be opened.
pub(crate) fn refusal(root: &SysRoot, scope: Scope, error: &io::Error) -> String {
    match (error.raw_os_error(), scope) {
        (Some(EPERM | EACCES), _) => permission(root, scope),
        (Some(ENOENT | ENODEV | EOPNOTSUPP), Scope::Threads) if files::is_guest(root) => {
            "this virtual machine offers no such hardware counter (QEMU/KVM: -cpu host,pmu=on, or measure on bare metal)".to_owned()
        }
        (Some(ENOENT | ENODEV | EOPNOTSUPP | EINVAL), Scope::Threads) => {
            "this processor does not offer this event to the kernel".to_owned()
        }
        (Some(ENODEV | EINVAL | ENOENT | EOPNOTSUPP), Scope::Cpu(cpu)) => format!(
            "the device's driver refused the event on CPU {cpu}: {error} (is the CPU online?)"
        ),
        (Some(EBUSY), _) => {
            "another program holds the counters exclusively (stop it; the NMI watchdog holds one: sudo sysctl kernel.nmi_watchdog=0)".to_owned()
        }
        (Some(EMFILE), _) => "too many open files (raise the limit: ulimit -n 4096)".to_owned(),
        (Some(ENOSYS), _) => {
            "the kernel has no perf_event_open (boot one built with CONFIG_PERF_EVENTS=y)".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Why permission is missing: the kernel's setting, or a filter that applies regardless of it.
fn permission(root: &SysRoot, scope: Scope) -> String {
    // Without privileges, a process may count its own threads in user mode up to level 2, and
    // devices only at level 0 or below.
    let (allowed, fix) = match scope {
        Scope::Threads => (2, 1),
        Scope::Cpu(_) => (0, 0),
    };
    let level = files::read(root, PARANOID)
        .ok()
        .and_then(|text| text.parse::<i32>().ok());
    match level {
        Some(level) if level > allowed => format!(
            "not permitted (kernel.perf_event_paranoid is {level}; sudo sysctl kernel.perf_event_paranoid={fix}, or run with sudo)"
        ),
        Some(level) => format!(
            "not permitted although kernel.perf_event_paranoid is {level}: a container's filter (start it with --cap-add PERFMON)"
        ),
        None => {
            "not permitted (run with sudo, or in a container with --cap-add PERFMON)".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn root_with(paranoid: &str, cpuinfo: &str) -> (tempfile::TempDir, SysRoot) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        fs::write(dir.path().join(PARANOID), paranoid).unwrap();
        fs::write(dir.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        let root = SysRoot::at(dir.path());
        (dir, root)
    }

    fn why(root: &SysRoot, scope: Scope, errno: i32) -> String {
        refusal(root, scope, &io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn a_missing_permission_names_the_setting_and_the_level_that_suffices() {
        let (_dir, root) = root_with("3", "");
        assert!(
            why(&root, Scope::Threads, EACCES)
                .contains("is 3; sudo sysctl kernel.perf_event_paranoid=1")
        );
        let (_dir, root) = root_with("2", "");
        assert!(
            why(&root, Scope::Cpu(0), EACCES).contains("sudo sysctl kernel.perf_event_paranoid=0")
        );
        assert!(
            why(&root, Scope::Threads, EPERM).contains("PERFMON"),
            "level 2 suffices, so it is a filter"
        );
    }

    #[test]
    fn a_missing_counter_is_blamed_on_the_virtual_machine_only_if_it_is_one() {
        let (_dir, guest) = root_with("1", "flags\t\t: fpu hypervisor sse2\n");
        assert!(why(&guest, Scope::Threads, ENOENT).contains("virtual machine"));
        let (_dir, metal) = root_with("1", "flags\t\t: fpu sse2\n");
        assert!(why(&metal, Scope::Threads, EOPNOTSUPP).contains("this processor"));
    }

    #[test]
    fn every_refusal_has_a_text() {
        let (_dir, root) = root_with("x", "");
        for errno in 1..134 {
            for scope in [Scope::Threads, Scope::Cpu(3)] {
                assert!(!why(&root, scope, errno).is_empty());
            }
        }
    }
}
