//! What backs a region (`memory:`, device keys) and how large its pages are.

use tierloom_memory::{PageSize, PlacementSpec};

use crate::plan::MemoryPlan;

use super::settings::Reader;
use super::values;

/// Names of the keys of one region: the second region has the same ones with a prefix.
pub(super) struct Keys {
    pub(super) memory: &'static str,
    pub(super) device: &'static str,
    pub(super) offset: &'static str,
    pub(super) nodes: &'static str,
    pub(super) weights: &'static str,
    pub(super) size: &'static str,
    pub(super) page_size: &'static str,
    pub(super) thp: &'static str,
    pub(super) explicit: &'static str,
}

pub(super) const FIRST: Keys = Keys {
    memory: "memory",
    device: "device_path",
    offset: "region_offset",
    nodes: "numa_memory_nodes",
    weights: "numa_memory_node_weights",
    size: "memory_region_size",
    page_size: "page_size",
    thp: "transparent_huge_pages",
    explicit: "explicit_hugepages_size",
};

pub(super) const SECOND: Keys = Keys {
    memory: "secondary_memory",
    device: "secondary_device_path",
    offset: "secondary_region_offset",
    nodes: "secondary_numa_memory_nodes",
    weights: "secondary_numa_memory_node_weights",
    size: "secondary_memory_region_size",
    page_size: "secondary_page_size",
    thp: "secondary_transparent_huge_pages",
    explicit: "secondary_explicit_hugepages_size",
};

/// Parses `memory:`: a placement, a file, a device, or the kernel's own interleaving.
pub(super) fn memory_text(text: &str) -> Result<(MemoryPlan, PlacementSpec), String> {
    let text = text.trim();
    for (prefix, weighted) in [("kernel-weighted:", true), ("kernel-interleave:", false)] {
        if let Some(nodes) = text.strip_prefix(prefix) {
            let weights: Vec<String> = nodes
                .split(',')
                .map(|node| format!("{}:1", node.trim()))
                .collect();
            // A placement of `0:1` alone would be parsed as a ratio of dram and cxl.
            let spec = if weights.len() == 1 {
                nodes.to_owned()
            } else {
                weights.join(",")
            };
            let placement = spec.parse().map_err(|_| {
                format!(
                    "`{}`; expected nodes or tiers after {prefix} as in {prefix}0,1",
                    values::shown(text)
                )
            })?;
            return Ok((MemoryPlan::KernelInterleave { weighted }, placement));
        }
    }
    if let Some(path) = text.strip_prefix("file:") {
        return Ok((file(path)?, PlacementSpec::Default));
    }
    if text.starts_with('/') {
        return Ok((device_text(text)?, PlacementSpec::Default));
    }
    // Errors of the placement parser repeat the text, so they are not used for a long one.
    match text.parse::<PlacementSpec>() {
        Ok(placement) => Ok((MemoryPlan::Anonymous, placement)),
        Err(error) if text.len() <= 200 => Err(format!(
            "{error}; other memory: file:/path, /dev/dax0.0, kernel-weighted:0,1, kernel-interleave:0,1"
        )),
        Err(_) => Err(format!("`{}` is not a placement", values::shown(text))),
    }
}

/// Parses the path of a device; any path outside `/dev/dax*` is a file.
pub(super) fn device_text(text: &str) -> Result<MemoryPlan, String> {
    let path = text.trim();
    if path.starts_with("/dev/dax") {
        return Ok(MemoryPlan::Devdax {
            path: path.to_owned(),
            offset_bytes: 0,
        });
    }
    file(path)
}

fn file(path: &str) -> Result<MemoryPlan, String> {
    let path = path.trim();
    if path.is_empty() || path.contains('\0') {
        return Err(format!(
            "`{}`; expected the path of a file, folder or device",
            values::shown(path)
        ));
    }
    Ok(MemoryPlan::File {
        path: path.to_owned(),
        offset_bytes: 0,
    })
}

/// Parses a page size.
pub(super) fn page_size_text(text: &str) -> Result<PageSize, String> {
    values::one_of(
        &text.to_ascii_lowercase(),
        &[
            ("4k", PageSize::Base),
            ("base", PageSize::Base),
            ("thp", PageSize::Thp),
            ("2m", PageSize::Huge2M),
            ("1g", PageSize::Huge1G),
        ],
    )
}

/// Reads the page size, which can be given as `page_size` or by CXL-Bench's two keys.
pub(super) fn page_size(reader: &mut Reader<'_, '_, '_>, keys: &Keys) -> Option<PageSize> {
    if reader.not_both(keys.page_size, keys.thp, "both say what pages to use")
        || reader.not_both(keys.page_size, keys.explicit, "both say what pages to use")
    {
        return None;
    }
    if reader.settings.has(keys.page_size) {
        return reader.value(keys.page_size, page_size_text);
    }
    let transparent = reader.or(keys.thp, false, values::flag)?;
    let explicit = reader.or(keys.explicit, None, |text| {
        match values::size_bytes(text)? {
            0 => Ok(None),
            bytes if bytes == 2 << 20 => Ok(Some(PageSize::Huge2M)),
            bytes if bytes == 1 << 30 => Ok(Some(PageSize::Huge1G)),
            _ => Err(format!("`{}`; expected 0, 2M or 1G", values::shown(text))),
        }
    })?;
    Some(match (explicit, transparent) {
        (Some(pages), _) => pages,
        (None, true) => PageSize::Thp,
        (None, false) => PageSize::Base,
    })
}
