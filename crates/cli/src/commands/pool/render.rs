//! Pools as text.

use comfy_table::{Table, presets};
use std::fmt::Write;
use tierloom_pool::{
    Coherence, CreatePlan, DaxResize, HostState, PoolStatus, RegionKind, RegionState, RegionStatus,
    Removal, ShrinkPlan,
};
use tierloom_text::Bytes;

/// What making a member smaller would do.
pub fn shrink(index: u32, plan: &ShrinkPlan) -> String {
    let mut text = format!(
        "would make member {index} {} bytes long\n",
        plan.member_bytes
    );
    for (table, bytes) in &plan.moves {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "would move {} of `{table}`", Bytes(*bytes).rounded());
    }
    text
}

/// What removing a member would do.
pub fn removal_plan(index: u32, plan: &ShrinkPlan) -> String {
    let mut text = format!("would remove member {index}\n");
    for (table, bytes) in &plan.moves {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "would move {} of `{table}`", Bytes(*bytes).rounded());
    }
    text
}

/// What removing a member did, and when.
pub fn removal(removal: &Removal) -> String {
    let mut text = format!(
        "removed member {} with {}: {}\n",
        removal.index,
        Bytes(removal.bytes).rounded(),
        removal.path.display()
    );
    for step in &removal.steps {
        let of = step.table.as_ref().map_or(String::new(), |table| {
            format!(" {} of `{table}`", Bytes(step.bytes).rounded())
        });
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "at {:.1} ms: {}{of} ({:.1} ms)",
            step.at_ms, step.what, step.took_ms
        );
    }
    if let Some(why) = &removal.not_cleared {
        let _ = writeln!(
            text,
            "it still looks like a member, because it could not be cleared: {why}"
        );
    }
    text
}

/// What the device of a member would become.
pub fn resize(resize: &DaxResize) -> String {
    let (device, to) = (&resize.device, resize.to_bytes);
    match resize.from_bytes == to {
        true => format!("would leave {device} as long as it is\n"),
        false => format!(
            "would take {device} from its driver, write {to} to /sys/bus/dax/devices/{device}/size \
             (now {}), and give it back\n",
            resize.from_bytes
        ),
    }
}

/// What a pool is and has.
pub fn status(status: &PoolStatus) -> String {
    let space = status.space;
    let size = |bytes| Bytes(bytes).rounded();
    let mut text = format!(
        "pool {}: {} free of {}, {} used, {} in quarantine\n",
        status.uuid,
        size(space.free_bytes),
        size(space.capacity_bytes),
        size(space.used_bytes),
        size(space.quarantined_bytes),
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "extents of {}, {}, generation {} of epoch {}",
        size(status.extent_bytes),
        coherence(status.coherence),
        status.generation,
        status.epoch,
    );
    let mut members = table(["member", "for regions", "path"]);
    for member in &status.members {
        members.add_row([
            member.index.to_string(),
            size(member.bytes),
            member.path.display().to_string(),
        ]);
    }
    let _ = writeln!(text, "{members}");
    if let Some(address) = &status.served_at {
        let _ = writeln!(text, "served at {address}");
    }
    let mut hosts = table(["host", "state", "manages"]);
    for host in &status.hosts {
        let state = match host.state {
            HostState::Up => "up",
            HostState::Left => "left",
            HostState::Fenced => "fenced",
        };
        let manages = match (host.home, host.client) {
            (true, _) => "yes",
            (false, true) => "asks the manager",
            (false, false) => "no",
        };
        hosts.add_row([&host.name, state, manages]);
    }
    if !status.hosts.is_empty() {
        let _ = writeln!(text, "{hosts}");
    }
    let mut regions = table(["region", "name", "kind", "version", "size", "readers"]);
    for region in &status.regions {
        regions.add_row([
            region.id.to_string(),
            region.name.clone(),
            kind(region),
            region.version.to_string(),
            size(region.bytes),
            region.readers.to_string(),
        ]);
    }
    if !status.regions.is_empty() {
        let _ = writeln!(text, "{regions}");
    }
    for problem in &status.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    text
}

/// What `create` would make.
pub fn plan(plan: &CreatePlan) -> String {
    format!(
        "would make a pool with {} for regions in extents of {}, {} for itself, {}\n",
        Bytes(plan.capacity_bytes).rounded(),
        Bytes(plan.extent_bytes).rounded(),
        Bytes(plan.metadata_bytes).rounded(),
        coherence(plan.coherence),
    )
}

fn coherence(coherence: Coherence) -> &'static str {
    match coherence {
        Coherence::Host => "one host",
        Coherence::None => "several hosts without coherent caches",
        Coherence::Hardware => "several hosts with coherent caches",
    }
}

fn kind(region: &RegionStatus) -> String {
    let kind = match (region.kind, region.state) {
        (RegionKind::Scratch, _) => "scratch",
        (RegionKind::Table, RegionState::Building) => "table, building",
        (RegionKind::Table, RegionState::Retired) => "table, retired",
        (RegionKind::Table, _) => "table",
    };
    match region.damaged {
        true => format!("{kind}, damaged"),
        false => kind.to_owned(),
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(header);
    table
}
