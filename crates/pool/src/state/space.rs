//! Free extents and how regions are spread over them.

use super::{Extents, PoolState};

/// Extents of a pool by use. The first is always the sum of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Space {
    /// Bytes of all extents.
    pub capacity_bytes: u64,
    /// Those that a region can get.
    pub free_bytes: u64,
    /// Those that regions have.
    pub used_bytes: u64,
    /// Those that a host which was fenced may still write to.
    pub quarantined_bytes: u64,
}

/// How a region is spread over the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Stripes of so many bytes, from one member after the other.
    Stripe(u64),
    /// As few members and pieces as possible.
    Pack,
    /// This member alone.
    Member(u32),
}

impl PoolState {
    /// Bytes by use, for extents of this size.
    pub(crate) fn space(&self, extent_bytes: u64) -> Space {
        let bytes = |extents: u64| extents * extent_bytes;
        let used = self.regions.iter().map(|r| r.extents()).sum();
        let quarantined = self.quarantine.iter().flat_map(|entry| &entry.runs);
        let quarantined = quarantined.map(|run| run.2).sum();
        let free = self.free().iter().map(|run| run.2).sum();
        Space {
            capacity_bytes: bytes(self.member_extents()),
            free_bytes: bytes(free),
            used_bytes: bytes(used),
            quarantined_bytes: bytes(quarantined),
        }
    }

    /// What no run covers, in order.
    pub(crate) fn free(&self) -> Vec<Extents> {
        let mut taken: Vec<Extents> = self.runs().collect();
        taken.sort_unstable();
        let mut free = Vec::new();
        for (index, member) in (0_u32..).zip(&self.members) {
            let mut next = 0;
            for run in taken.iter().filter(|run| run.0 == index) {
                if run.1 > next {
                    free.push(Extents(index, next, run.1 - next));
                }
                next = next.max(run.end());
            }
            if member.extents > next {
                free.push(Extents(index, next, member.extents - next));
            }
        }
        free
    }

    /// The parts of `of` that no run covers.
    pub(crate) fn free_of(&self, of: Extents) -> Vec<Extents> {
        let mut parts = vec![of];
        for run in self.runs().filter(|run| run.0 == of.0) {
            parts = parts
                .iter()
                .flat_map(|part| {
                    let before =
                        Extents(part.0, part.1, run.1.min(part.end()).saturating_sub(part.1));
                    let start = run.end().max(part.1);
                    let behind = Extents(part.0, start, part.end().saturating_sub(start));
                    [before, behind]
                })
                .filter(|part| part.2 > 0)
                .collect();
        }
        parts
    }

    /// Extents for a region; `None` if there are too few.
    pub(crate) fn choose(
        &self,
        extents: u64,
        spread: Spread,
        extent_bytes: u64,
    ) -> Option<Vec<Extents>> {
        let mut free = self.free();
        if let Spread::Member(only) = spread {
            free.retain(|run| run.0 == only);
        }
        if free.iter().map(|run| run.2).sum::<u64>() < extents {
            return None;
        }
        let mut chosen = match spread {
            Spread::Pack | Spread::Member(_) => pack(&mut free, extents),
            Spread::Stripe(bytes) => {
                let stripe = (bytes / extent_bytes).max(1);
                let members = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
                in_stripes(&mut free, extents, stripe, members)
            }
        };
        merge(&mut chosen);
        Some(chosen)
    }
}

/// The smallest run that has all; if none has, the largest ones.
pub(super) fn pack(free: &mut [Extents], extents: u64) -> Vec<Extents> {
    free.sort_unstable_by_key(|run| run.2);
    let mut chosen = Vec::new();
    let mut left = extents;
    while left > 0 {
        let whole = free.iter().position(|run| run.2 >= left);
        let Some(at) = whole.or_else(|| free.iter().rposition(|run| run.2 > 0)) else {
            break;
        };
        let part = take(&mut free[at], left);
        left -= part.2;
        // What is taken in part is taken whole but for the last, so the order stays.
        chosen.push(part);
    }
    chosen
}

fn in_stripes(free: &mut [Extents], extents: u64, stripe: u64, members: u32) -> Vec<Extents> {
    let mut chosen = Vec::new();
    let mut left = extents;
    let mut member = 0;
    while left > 0 {
        let mut of_stripe = stripe.min(left);
        for run in free.iter_mut().filter(|run| run.0 == member && run.2 > 0) {
            let part = take(run, of_stripe);
            of_stripe -= part.2;
            left -= part.2;
            chosen.push(part);
            if of_stripe == 0 {
                break;
            }
        }
        member = (member + 1) % members.max(1);
    }
    chosen
}

/// Takes so many extents, or all, from the start of a run.
fn take(run: &mut Extents, most: u64) -> Extents {
    let count = run.2.min(most);
    let taken = Extents(run.0, run.1, count);
    run.1 += count;
    run.2 -= count;
    taken
}

/// Joins runs that follow each other.
pub(super) fn merge(runs: &mut Vec<Extents>) {
    runs.dedup_by(|next, run| {
        let follows = run.0 == next.0 && run.end() == next.1;
        if follows {
            run.2 += next.2;
        }
        follows
    });
}
