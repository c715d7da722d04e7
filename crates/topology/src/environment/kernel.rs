//! Kernel settings: swap, clock source, parameters of the command line.

use super::Fact;
use crate::root::Reader;

/// Parameters of the kernel command line that affect CPU isolation, frequency and memory placement.
const TELLING_KEYS: [&str; 24] = [
    "isolcpus",
    "nohz_full",
    "nohz",
    "rcu_nocbs",
    "irqaffinity",
    "numa",
    "numa_balancing",
    "transparent_hugepage",
    "default_hugepagesz",
    "hugepagesz",
    "hugepages",
    "hugetlb_cma",
    "efi",
    "efi_fake_mem",
    "memmap",
    "mem",
    "maxcpus",
    "mitigations",
    "idle",
    "processor.max_cstate",
    "intel_idle.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "tsc",
];

/// Swap areas of `/proc/swaps`, which has sizes in KiB.
pub(super) fn swap(reader: &Reader<'_>) -> Fact {
    let Some(text) = reader.text("proc/swaps") else {
        return Fact::unknown("/proc/swaps cannot be read");
    };
    let areas: Vec<String> = text.lines().skip(1).filter_map(area).collect();
    if areas.is_empty() {
        return Fact::of("none");
    }
    Fact::of(areas.join(", "))
}

fn area(line: &str) -> Option<String> {
    let mut fields = line.split_whitespace();
    let (name, _kind) = (fields.next()?, fields.next()?);
    let size_kib: u64 = fields.next()?.parse().ok()?;
    let used_kib: u64 = fields.next()?.parse().ok()?;
    Some(format!(
        "{} MiB on {name} ({} MiB used)",
        size_kib >> 10,
        used_kib >> 10
    ))
}

pub(super) fn clocksource(reader: &Reader<'_>) -> Fact {
    const PATH: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    match reader.text(PATH) {
        Some(name) if !name.is_empty() => Fact::of(name),
        _ => Fact::unknown(format!("there is no /{PATH}")),
    }
}

pub(super) fn words(reader: &Reader<'_>) -> Fact {
    let Some(text) = reader.text("proc/cmdline") else {
        return Fact::unknown("/proc/cmdline cannot be read");
    };
    let telling = |word: &&str| TELLING_KEYS.contains(&word.split('=').next().unwrap_or(word));
    let found: Vec<&str> = text.split_whitespace().filter(telling).collect();
    match found.is_empty() {
        true => Fact::of("none"),
        false => Fact::of(found.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_areas_are_told_in_mib_and_garbled_lines_are_left_out() {
        let line = "/dev/dm-1 partition 8388604 20480 -2";
        assert_eq!(
            area(line).as_deref(),
            Some("8191 MiB on /dev/dm-1 (20 MiB used)")
        );
        assert_eq!(area("/dev/dm-1 partition many 0 -2"), None);
        assert_eq!(area(""), None);
    }
}
