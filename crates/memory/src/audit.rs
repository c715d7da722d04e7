//! Page audit: the placement requested, what it comes to in whole pages, and where the pages are.

use serde::Serialize;
use tierloom_topology::NodeId;

use crate::backend::PageState;

/// Which pages an audit queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditMode {
    /// Every page of the region.
    Full,
    /// A sample: one page, chosen by hash, from each of this many equal parts of the region.
    Sampled {
        /// Number of pages in the sample; more than the region has means all.
        pages: u64,
    },
}

/// The share of a region's pages that a node has or should have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// The node that has, or should have, the share.
    pub node: NodeId,
    /// Fraction of the pages, from 0 to 1.
    pub share: f64,
}

/// Result of an audit of one region, or of several merged ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    /// Name of the region; for merged audits the number of regions.
    pub name: String,
    /// The placement requested, as text; `several` when merged from different ones.
    pub placement: String,
    /// The page size requested; `several` when merged from different ones.
    pub page_size: String,
    /// Size of the region, or the sum over the merged regions.
    pub size_bytes: u64,
    /// Size of a page as counted here: the base page for `4k` and `thp`.
    pub page_bytes: u64,
    /// Number of pages of that size.
    pub pages_total: u64,
    /// Pages that the kernel was asked about; 0 for device memory, whose pages are fixed (see
    /// `method`).
    pub pages_checked: u64,
    /// Bytes of the checked pages.
    pub bytes_checked: u64,
    /// Shares that the placement (or the kernel's own interleaving) requests.
    ///
    /// Empty where the kernel chooses the node, and for device memory.
    pub requested: Vec<Share>,
    /// The shares that the placement comes to for this size, in whole pages; empty where the kernel
    /// chooses.
    pub effective: Vec<Share>,
    /// Shares of the checked pages by node, as the kernel reports them.
    ///
    /// They add up to less than 1 if pages are absent.
    pub actual: Vec<Share>,
    /// Checked pages that are not present (never touched or swapped out).
    pub absent_pages: u64,
    /// Checked pages for which the kernel returned an error.
    pub unknown_pages: u64,
    /// Checked pages that are on another node than the placement gives to that very page.
    pub misplaced_pages: u64,
    /// Share of the bytes that are mapped as transparent huge pages.
    ///
    /// `None` unless they were requested, all pages were checked and the kernel reports it.
    pub huge_share: Option<f64>,
    /// How the nodes were found out, as text: a page query, or a deduction and its reason.
    pub method: String,
}

/// The pages to query, in ascending order.
pub(crate) fn chosen_pages(mode: AuditMode, pages_total: u64) -> impl Iterator<Item = u64> {
    let stretches = match mode {
        AuditMode::Sampled { pages } => pages.min(pages_total),
        AuditMode::Full => pages_total,
    };
    (0..stretches).map(move |index| {
        if stretches == pages_total {
            return index;
        }
        let bound = |index: u64| {
            (u128::from(pages_total) * u128::from(index) / u128::from(stretches)) as u64
        };
        let (start, end) = (bound(index), bound(index + 1));
        // A fixed step could be a multiple of the round of weights and then hit one node only.
        start + mix(index) % (end - start)
    })
}

/// Finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014).
fn mix(index: u64) -> u64 {
    let mut value = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) per_node: Vec<(NodeId, u64)>,
    pub(crate) absent: u64,
    pub(crate) unknown: u64,
    pub(crate) misplaced: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, state: PageState, planned: Option<NodeId>) {
        match state {
            PageState::Absent => self.absent += 1,
            PageState::Failed(_) => self.unknown += 1,
            PageState::On(node) => {
                self.misplaced += u64::from(planned.is_some_and(|planned| planned != node));
                match self.per_node.iter_mut().find(|(known, _)| *known == node) {
                    Some((_, count)) => *count += 1,
                    None => self.per_node.push((node, 1)),
                }
            }
        }
    }
}

/// Converts counts to shares of a whole, nodes ascending.
pub(crate) fn shares_of(counts: &[(NodeId, u64)], whole: u64) -> Vec<Share> {
    let parts = counts
        .iter()
        .map(|(node, count)| (*node, *count as f64 / whole as f64));
    let mut shares = shares(parts);
    shares.sort_by_key(|share| share.node);
    shares
}

pub(crate) fn shares(parts: impl Iterator<Item = (NodeId, f64)>) -> Vec<Share> {
    parts.map(|(node, share)| Share { node, share }).collect()
}

impl Audit {
    /// Largest difference, over the nodes, between requested and actual share.
    ///
    /// A fraction of 1; 0 where nothing was requested.
    pub fn worst_deviation(&self) -> f64 {
        worst(&self.requested, &self.actual)
    }

    /// Largest difference, over the nodes, between the share in whole pages and the actual share.
    ///
    /// 0 unless pages are absent or misplaced, or the audit was sampled.
    pub fn worst_deviation_from_plan(&self) -> f64 {
        worst(&self.effective, &self.actual)
    }

    /// Merges the audits of several regions, weighted by their bytes; `None` for no audit.
    pub fn merge<'a>(audits: impl IntoIterator<Item = &'a Audit>) -> Option<Audit> {
        let mut audits = audits.into_iter();
        let mut sum = audits.next()?.clone();
        let mut regions = 1_u64;
        for audit in audits {
            sum.absorb(audit);
            regions += 1;
        }
        if regions > 1 {
            sum.name = format!("{regions} regions");
        }
        Some(sum)
    }

    fn absorb(&mut self, other: &Audit) {
        let (own, others) = (self.size_bytes as f64, other.size_bytes as f64);
        let blend = |left: &[Share], right: &[Share]| blend(left, own, right, others);
        self.requested = blend(&self.requested, &other.requested);
        self.effective = blend(&self.effective, &other.effective);
        self.actual = blend(&self.actual, &other.actual);
        self.huge_share = match (self.huge_share, other.huge_share) {
            (Some(left), Some(right)) => Some((left * own + right * others) / (own + others)),
            _ => None,
        };
        // Page counts are converted to the smaller of the two page sizes, which divides the larger
        // one.
        let page_bytes = self.page_bytes.min(other.page_bytes);
        let (left, right) = (self.page_bytes / page_bytes, other.page_bytes / page_bytes);
        let pages = |own: u64, others: u64| own * left + others * right;
        self.pages_total = pages(self.pages_total, other.pages_total);
        self.pages_checked = pages(self.pages_checked, other.pages_checked);
        self.absent_pages = pages(self.absent_pages, other.absent_pages);
        self.unknown_pages = pages(self.unknown_pages, other.unknown_pages);
        self.misplaced_pages = pages(self.misplaced_pages, other.misplaced_pages);
        self.page_bytes = page_bytes;
        self.size_bytes += other.size_bytes;
        self.bytes_checked += other.bytes_checked;
        if self.placement != other.placement {
            self.placement = "several".to_owned();
        }
        if self.page_size != other.page_size {
            self.page_size = "several".to_owned();
        }
        if !self
            .method
            .split(" | ")
            .any(|method| method == other.method)
        {
            self.method = format!("{} | {}", self.method, other.method);
        }
    }
}

fn share_on(shares: &[Share], node: NodeId) -> f64 {
    shares
        .iter()
        .find(|share| share.node == node)
        .map_or(0.0, |share| share.share)
}

fn worst(wanted: &[Share], found: &[Share]) -> f64 {
    if wanted.is_empty() {
        return 0.0;
    }
    let nodes = wanted.iter().chain(found).map(|share| share.node);
    nodes
        .map(|node| (share_on(wanted, node) - share_on(found, node)).abs())
        .fold(0.0, f64::max)
}

fn blend(left: &[Share], left_bytes: f64, right: &[Share], right_bytes: f64) -> Vec<Share> {
    let mut nodes: Vec<NodeId> = left.iter().chain(right).map(|share| share.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let whole = left_bytes + right_bytes;
    let one = |node| Share {
        node,
        share: (share_on(left, node) * left_bytes + share_on(right, node) * right_bytes) / whole,
    };
    nodes.into_iter().map(one).collect()
}
