//! Audits: where pages are, as the kernel says.

use crate::border::{free, guarded, guarded_or, reference};
use crate::sized::{self, Versioned};
use crate::status::{Fault, tl_status};
use crate::string::tl_str;
use crate::text::{text_out, tl_text};
use std::mem::size_of;
use tierloom_memory::{Audit, Share};
use tierloom_topology::NodeId;

/// Where pages were when it was made; freed with `tl_audit_free`.
///
/// It never changes, so several threads may use one at once.
pub struct tl_audit {
    audit: Audit,
    /// All nodes that have or should have pages, ascending.
    nodes: Vec<NodeId>,
}

/// The pages of an audit in numbers; see `tl_audit_pages`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_pages {
    /// Set to `sizeof(tl_pages)` before the call.
    pub size: usize,
    /// Bytes of one page as counted here.
    pub page_bytes: u64,
    /// Pages of the memory.
    pub total: u64,
    /// Pages that the kernel was asked about.
    pub checked: u64,
    /// Of these, pages on another node than the placement gives to that very page.
    pub misplaced: u64,
    /// Of these, pages that are not present.
    pub absent: u64,
    /// Of these, pages for which the kernel returned an error.
    pub unknown: u64,
}

// SAFETY: the first field is the size, and all fields are plain numbers.
unsafe impl Versioned for tl_pages {
    const NAME: &'static str = "tl_pages";
    const FIRST: usize = size_of::<Self>();

    fn base() -> Self {
        tl_pages {
            size: size_of::<Self>(),
            page_bytes: 0,
            total: 0,
            checked: 0,
            misplaced: 0,
            absent: 0,
            unknown: 0,
        }
    }
}

/// The share of one node; see `tl_audit_node`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_node_share {
    /// Set to `sizeof(tl_node_share)` before the call.
    pub size: usize,
    /// Number of the node.
    pub node: u32,
    /// 0; for later versions.
    pub reserved: u32,
    /// Share of the pages that the placement asks for, 0 to 1; not a number (`isnan`) where the
    /// kernel chooses.
    pub requested: f64,
    /// Share of the checked pages that are there, 0 to 1.
    pub actual: f64,
}

// SAFETY: the first field is the size, and all fields are plain numbers.
unsafe impl Versioned for tl_node_share {
    const NAME: &'static str = "tl_node_share";
    const FIRST: usize = size_of::<Self>();

    fn base() -> Self {
        tl_node_share {
            size: size_of::<Self>(),
            node: 0,
            reserved: 0,
            requested: f64::NAN,
            actual: f64::NAN,
        }
    }
}

impl tl_audit {
    pub(crate) fn of(audit: Audit) -> tl_audit {
        let shares = audit.requested.iter().chain(&audit.actual);
        let mut nodes: Vec<NodeId> = shares.map(|share| share.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        tl_audit { audit, nodes }
    }

    fn share(&self, index: usize) -> Option<tl_node_share> {
        let node = *self.nodes.get(index)?;
        let on = |shares: &[Share]| {
            let found = shares.iter().find(|share| share.node == node);
            found.map_or(0.0, |share| share.share)
        };
        let requested = if self.audit.requested.is_empty() {
            f64::NAN
        } else {
            on(&self.audit.requested)
        };
        Some(tl_node_share {
            node: node.0,
            requested,
            actual: on(&self.audit.actual),
            ..tl_node_share::base()
        })
    }
}

/// Number of nodes that have pages of the memory, or should have some; 0 for no audit.
///
/// # Safety
/// `audit` is null or an audit that is not freed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit_nodes(audit: *const tl_audit) -> usize {
    guarded_or(0, || {
        // SAFETY: as for this function.
        Ok(unsafe { reference(audit, "audit") }?.nodes.len())
    })
}

/// The share of a node, for numbers below `tl_audit_nodes`; nodes ascend.
///
/// # Safety
/// `audit` is an audit, and `share` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit_node(
    audit: *const tl_audit,
    index: usize,
    share: *mut tl_node_share,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let audit = unsafe { reference(audit, "audit") }?;
        let found = audit.share(index).ok_or_else(|| {
            let known = audit.nodes.len();
            Fault::argument(format!("index {index} is none of the {known} nodes"))
        })?;
        // SAFETY: as for this function.
        unsafe { sized::write(share, &found) }
    })
}

/// The pages of an audit in numbers.
///
/// # Safety
/// `audit` is an audit, and `pages` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit_pages(audit: *const tl_audit, pages: *mut tl_pages) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let audit = &unsafe { reference(audit, "audit") }?.audit;
        let counted = tl_pages {
            size: size_of::<tl_pages>(),
            page_bytes: audit.page_bytes,
            total: audit.pages_total,
            checked: audit.pages_checked,
            misplaced: audit.misplaced_pages,
            absent: audit.absent_pages,
            unknown: audit.unknown_pages,
        };
        // SAFETY: as for this function.
        unsafe { sized::write(pages, &counted) }
    })
}

/// How the nodes were found out: a query of the kernel, or a deduction with its reason.
///
/// The text is valid until the audit is freed. It has no zero byte at its end.
///
/// # Safety
/// `audit` is null or an audit that is not freed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit_method(audit: *const tl_audit) -> tl_str {
    guarded_or(tl_str::EMPTY, || {
        // SAFETY: as for this function.
        let audit = unsafe { reference(audit, "audit") }?;
        Ok(tl_str::of(&audit.audit.method))
    })
}

/// The audit as JSON, as records of `tierloom` have it.
///
/// # Safety
/// `audit` is an audit, and a pointer can be written to `json`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit_json(
    audit: *const tl_audit,
    json: *mut *mut tl_text,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let audit = unsafe { reference(audit, "audit") }?;
        let text = serde_json::to_string(&audit.audit).map_err(Fault::failed)?;
        // SAFETY: as for this function.
        unsafe { text_out(json, text) }
    })
}

/// Frees an audit; null is fine.
///
/// # Safety
/// `audit` is null or an audit that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit_free(audit: *mut tl_audit) {
    // SAFETY: as for this function.
    unsafe { free(audit) }
}
