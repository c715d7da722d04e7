//! The memory regions of a task: size, backend, page size and placement.
//!
//! The keys of CXL-Bench (`numa_memory_nodes`, `device_path`, ...) and the short form `memory:`
//! give the same [`RegionPlan`]. Whether the machine has these nodes and this much memory is
//! checked where the task runs.

use tierloom_memory::{PageSize, PlacementSpec, Target};
use tierloom_operators::Structure;
use tierloom_topology::NodeId;

use crate::plan::{MemoryPlan, RegionPlan};

use super::error::ProblemText;
use super::settings::{Argument, Reader};
use super::source::{FIRST, Keys, SECOND, device_text, memory_text, page_size, page_size_text};
use super::values::{self, MAX_NODE, whole};

/// CXL-Bench's default size of the first region.
const DEFAULT_BYTES: u64 = 10 << 30;
/// Devices are mapped in whole pages of this size.
const DEVICE_PAGE_BYTES: u64 = 2 << 20;
/// Offsets into files and devices are multiples of this.
const BASE_PAGE_BYTES: u64 = 4096;

/// The regions of a task: the first and, if its keys are given, the second.
pub(super) fn regions(reader: &mut Reader<'_, '_, '_>) -> Option<Vec<RegionPlan>> {
    let first = region(reader, &FIRST, DEFAULT_BYTES);
    let wants_second = [SECOND.memory, SECOND.device, SECOND.nodes]
        .into_iter()
        .find_map(|name| reader.settings.get(name));
    let second_bytes = reader.value(SECOND.size, values::size_bytes);
    match (second_bytes, wants_second) {
        (None | Some(0), Some(setting)) if !reader.settings.has(SECOND.size) => {
            reader.problems.push(
                setting.key_place,
                ProblemText::new(format!("`{}` is given without a size", setting.key.name))
                    .help("add secondary_memory_region_size, such as 1G"),
            );
            None
        }
        (None | Some(0), _) => first.map(|first| vec![first]),
        (Some(_), _) => {
            let second = region(reader, &SECOND, 0);
            Some(vec![first?, second?])
        }
    }
}

/// Whether a task has a destination of its own: copies only.
pub(super) fn has_destination(
    reader: &mut Reader<'_, '_, '_>,
    copies: bool,
    alone: bool,
) -> Option<bool> {
    let keys = ["destination_memory", "destination_page_size"];
    let given = keys.into_iter().find_map(|key| reader.settings.get(key));
    match given {
        Some(setting) if alone && !copies => {
            reader.problems.push(
                setting.key_place,
                ProblemText::new(format!(
                    "`{}` has no meaning here: it is for the throughput of copies",
                    setting.key.name
                ))
                .help("leave it out, or add `operation: copy`"),
            );
            None
        }
        given => Some(copies && given.is_some()),
    }
}

/// The regions of a copy with a destination of its own: each has half of the size.
pub(super) fn copy_regions(reader: &mut Reader<'_, '_, '_>) -> Option<Vec<RegionPlan>> {
    let mut source = region(reader, &FIRST, DEFAULT_BYTES)?;
    source.size_bytes = whole_pages(source.size_bytes.div_ceil(2), &source);
    let destination = Structure {
        name: "destination",
        size_bytes: source.size_bytes,
    };
    let common = (
        source.memory.clone(),
        source.placement.clone(),
        source.page_size,
    );
    let others = std::slice::from_ref(&source);
    let destination = of_structure(reader, &destination, &common, others)?;
    Some(vec![source, destination])
}

/// What backs the structures of an operator, unless one has keys of its own.
pub(super) fn of_structures(
    reader: &mut Reader<'_, '_, '_>,
) -> Option<(MemoryPlan, PlacementSpec, PageSize)> {
    let place = memory_and_placement(reader, &FIRST);
    let page_size = page_size(reader, &FIRST)?;
    let (memory, placement) = place?;
    Some((memory, placement, page_size))
}

/// The region of one structure: `common`, changed as `NAME_memory` and `NAME_page_size` say.
///
/// Structures in one file or on one device follow one another: `others` are the regions before.
pub(super) fn of_structure(
    reader: &mut Reader<'_, '_, '_>,
    structure: &Structure,
    common: &(MemoryPlan, PlacementSpec, PageSize),
    others: &[RegionPlan],
) -> Option<RegionPlan> {
    let (memory, placement, page_size) = common.clone();
    let (memory, placement) = reader.or(
        &format!("{}_memory", structure.name),
        (memory, placement),
        memory_text,
    )?;
    let pages = format!("{}_page_size", structure.name);
    let mut region = RegionPlan {
        page_size: reader.or(&pages, page_size, page_size_text)?,
        memory,
        size_bytes: structure.size_bytes,
        placement,
    };
    if let MemoryPlan::Devdax { .. } = region.memory {
        region.page_size = PageSize::Base;
    }
    region.size_bytes = whole_pages(structure.size_bytes, &region);
    let ends = others
        .iter()
        .filter_map(|other| match (&other.memory, &region.memory) {
            (MemoryPlan::Devdax { path, offset_bytes }, MemoryPlan::Devdax { path: own, .. })
            | (MemoryPlan::File { path, offset_bytes }, MemoryPlan::File { path: own, .. })
                if path == own =>
            {
                Some(offset_bytes + other.size_bytes)
            }
            _ => None,
        });
    let end = ends.max();
    if let (
        Some(end),
        MemoryPlan::Devdax { offset_bytes, .. } | MemoryPlan::File { offset_bytes, .. },
    ) = (end, &mut region.memory)
    {
        *offset_bytes = end.next_multiple_of(DEVICE_PAGE_BYTES);
    }
    Some(region)
}

/// The region of the latency thread of a loaded-latency run.
///
/// It is the load's region, changed as `chase_memory` and `chase_size` say.
pub(super) fn chase_region(
    reader: &mut Reader<'_, '_, '_>,
    load: &RegionPlan,
) -> Option<RegionPlan> {
    let mut region = load.clone();
    if reader.settings.has("chase_memory") {
        (region.memory, region.placement) = reader.value("chase_memory", memory_text)?;
        if matches!(region.memory, MemoryPlan::Devdax { .. }) {
            // As in `region`: the page size of a device is not ours to choose.
            region.page_size = PageSize::Base;
        }
    }
    if reader.settings.has("chase_size") {
        let bytes = reader.scaled_bytes("chase_size", 0)?;
        region.size_bytes = whole_pages(bytes.max(1), &region);
    }
    Some(region)
}

fn region(reader: &mut Reader<'_, '_, '_>, keys: &Keys, default_bytes: u64) -> Option<RegionPlan> {
    let place = memory_and_placement(reader, keys);
    let page_size = page_size(reader, keys);
    let size = reader.settings.get(keys.size);
    let bytes = reader.scaled_bytes(keys.size, default_bytes)?;
    let (memory, placement) = place?;
    let mut region = RegionPlan {
        memory,
        size_bytes: bytes,
        page_size: page_size?,
        placement,
    };
    if bytes == 0 {
        if let Some(size) = size {
            reader.wrong(size, "a region needs at least one byte".into());
        }
        return None;
    }
    if let MemoryPlan::Devdax { .. } = region.memory {
        // The page size of a device is fixed when the device is configured.
        region.page_size = PageSize::Base;
        // What is given has to be whole pages; what the scale makes of it is rounded up.
        if reader.scale()? == 1.0 && !bytes.is_multiple_of(DEVICE_PAGE_BYTES) {
            if let Some(size) = size {
                reader.wrong(size, "a region on a device is a multiple of 2 MiB".into());
            }
            return None;
        }
    }
    region.size_bytes = whole_pages(bytes, &region);
    Some(region)
}

fn whole_pages(bytes: u64, region: &RegionPlan) -> u64 {
    let page_bytes = match region.memory {
        MemoryPlan::Devdax { .. } => DEVICE_PAGE_BYTES,
        _ => region.page_size.bytes() as u64,
    };
    bytes.next_multiple_of(page_bytes)
}

fn memory_and_placement(
    reader: &mut Reader<'_, '_, '_>,
    keys: &Keys,
) -> Option<(MemoryPlan, PlacementSpec)> {
    let ways = [keys.memory, keys.device, keys.nodes];
    for (index, one) in ways.iter().enumerate() {
        for other in &ways[index + 1..] {
            if reader.not_both(one, other, "a region has its pages from one place") {
                return None;
            }
        }
    }
    let mut found = if reader.settings.has(keys.memory) {
        reader.value(keys.memory, memory_text)?
    } else if reader.settings.has(keys.device) {
        (
            reader.value(keys.device, device_text)?,
            PlacementSpec::Default,
        )
    } else if reader.settings.has(keys.nodes) {
        (MemoryPlan::Anonymous, nodes_placement(reader, keys)?)
    } else {
        (MemoryPlan::Anonymous, PlacementSpec::Default)
    };
    let parts = [
        keys.weights,
        "percentage_pages_first_partition",
        "node_count_first_partition",
    ];
    // The two partition keys apply to the first region only, as in CXL-Bench.
    let parts = if keys.memory == "memory" {
        &parts[..]
    } else {
        &parts[..1]
    };
    for part in parts {
        if let Some(setting) = reader.settings.get(part)
            && !reader.settings.has(keys.nodes)
        {
            reader.problems.push(
                setting.key_place,
                ProblemText::new(format!("`{part}` is given without `{}`", keys.nodes))
                    .help("name the nodes, or say all of it in one: `memory: 0:3,2:2` or `memory: 0=70%,2=30%`"),
            );
            return None;
        }
    }
    if let Some(setting) = reader.settings.get(keys.offset) {
        let offset = reader.value(keys.offset, values::size_bytes)?;
        set_offset(reader, setting, offset, keys, &mut found.0)?;
    }
    Some(found)
}

fn set_offset(
    reader: &mut Reader<'_, '_, '_>,
    setting: Argument<'_>,
    offset: u64,
    keys: &Keys,
    memory: &mut MemoryPlan,
) -> Option<()> {
    match memory {
        MemoryPlan::Devdax { offset_bytes, .. } | MemoryPlan::File { offset_bytes, .. } => {
            if !offset.is_multiple_of(BASE_PAGE_BYTES) {
                reader.wrong(
                    setting,
                    "expected a multiple of 4 KiB (devices: of their alignment)".into(),
                );
                return None;
            }
            *offset_bytes = offset;
            Some(())
        }
        // CXL-Bench's default is 0, which it ignores for anonymous memory.
        _ if offset == 0 => Some(()),
        _ => {
            reader.problems.push(
                setting.key_place,
                ProblemText::new(format!(
                    "`{}` is given without a device or file",
                    keys.offset
                ))
                .help(format!(
                    "add `{}: /dev/dax0.0`, or leave it out",
                    keys.device
                )),
            );
            None
        }
    }
}

fn nodes_placement(reader: &mut Reader<'_, '_, '_>, keys: &Keys) -> Option<PlacementSpec> {
    let setting = reader.settings.get(keys.nodes)?;
    let nodes: Vec<u32> = reader.list(keys.nodes, node_number)?;
    if let Some(&twice) = nodes
        .iter()
        .enumerate()
        .find_map(|(index, node)| nodes[..index].contains(node).then_some(node))
    {
        reader.wrong(setting, format!("node {twice} is given twice"));
        return None;
    }
    if keys.memory == FIRST.memory && reader.settings.has("percentage_pages_first_partition") {
        return partitions(reader, setting, &nodes);
    }
    let weights = match reader.settings.get(keys.weights) {
        Some(given) => {
            let weights = reader.list(keys.weights, |text| {
                whole(text, 0..=10_000).map(|weight| weight as u32)
            })?;
            if weights.len() != nodes.len() {
                let message = format!(
                    "{} weights for {} nodes; give one for each",
                    weights.len(),
                    nodes.len()
                );
                reader.wrong(given, message);
                return None;
            }
            if weights.iter().all(|weight| *weight == 0) {
                reader.wrong(
                    given,
                    "all weights are 0; at least one has to be above".into(),
                );
                return None;
            }
            weights
        }
        None => vec![1; nodes.len()],
    };
    let mut weighted: Vec<(Target, u32)> = nodes
        .iter()
        .map(|node| Target::Node(NodeId(*node)))
        .zip(weights)
        .filter(|(_, weight)| *weight > 0)
        .collect();
    // A node with weight 0 may leave a single node, and weights over one node mean the same as a
    // bind.
    Some(match weighted.as_mut_slice() {
        [(target, _)] => PlacementSpec::Bind(*target),
        _ => PlacementSpec::Weighted(weighted),
    })
}

/// Reads a partitioned placement.
///
/// The given percentage of the pages goes to the first nodes and the rest to the others, in equal
/// parts within each group.
fn partitions(
    reader: &mut Reader<'_, '_, '_>,
    nodes_setting: Argument<'_>,
    nodes: &[u32],
) -> Option<PlacementSpec> {
    let percent = reader.value("percentage_pages_first_partition", |text| {
        whole(text, 0..=100)
    })? as f64;
    let most = nodes.len() as u64;
    let count_setting = reader.settings.get("node_count_first_partition");
    let count = match (count_setting, nodes.len()) {
        (Some(_), _) => {
            reader.value("node_count_first_partition", |text| whole(text, 1..=most))? as usize
        }
        // Older versions of CXL-Bench supported two nodes only, and so had no count.
        (None, 2) => 1,
        (None, _) => {
            reader.problems.push(
                nodes_setting.key_place,
                ProblemText::new(
                    "`percentage_pages_first_partition` is given without \
                     `node_count_first_partition`",
                )
                .help("say how many of the nodes, from the first one on, share those pages"),
            );
            return None;
        }
    };
    let (first, second) = nodes.split_at(count);
    if nodes.len() < 2 || (second.is_empty() && percent < 100.0) {
        let message = format!(
            "the first partition takes all {} nodes, so nothing is left for {}% of the pages",
            nodes.len(),
            100.0 - percent
        );
        reader.wrong(count_setting.unwrap_or(nodes_setting), message);
        return None;
    }
    let share = |nodes: &[u32], percent: f64| -> Vec<(Target, f64)> {
        let each = values::rounded(percent / nodes.len().max(1) as f64, 12);
        nodes
            .iter()
            .filter(|_| each > 0.0)
            .map(|node| (Target::Node(NodeId(*node)), each))
            .collect()
    };
    let mut shares = share(first, percent);
    shares.extend(share(second, 100.0 - percent));
    Some(match shares.as_slice() {
        [(target, _)] => PlacementSpec::Bind(*target),
        _ => PlacementSpec::Partitioned(shares),
    })
}

pub(super) fn node_number(text: &str) -> Result<u32, String> {
    whole(text, 0..=u64::from(MAX_NODE))
        .map(|node| node as u32)
        .map_err(|problem| format!("node {problem}"))
}
