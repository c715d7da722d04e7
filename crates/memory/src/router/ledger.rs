//! Accounts of the free memory of each node and of the control group.
//!
//! Drawing from them before pages are populated keeps a bound range from asking a full node: the
//! kernel answers that with its out-of-memory killer, not with an error.
//!
//! ```text
//!   free by the kernel ─ minus pending ─► left ── draw ──► pending ── populated ──► used
//! ```
//! Drawn bytes whose pages are not populated yet are *pending*: the kernel still reports them as
//! free, so they are subtracted from each new figure. Query and draw happen under one lock, so two
//! threads never draw the same bytes. Pages that are freed are not credited; the kernel is asked
//! again once the account runs out.

use super::events::Why;
use super::holds::ensure;
use super::kernel::{Kernel, MAX_NODES};
use super::shares::Shares;
use super::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes that are drawn against one figure of the kernel before it is asked again: other
/// processes take memory, too.
const TRUSTED_BYTES: u64 = 1 << 30;

/// Account of one node, or of the control group.
#[derive(Debug, Clone, Copy)]
struct Account {
    /// Bytes of the kernel's last figure that are not drawn yet.
    left: u64,
    /// Bytes drawn whose pages are pending: not populated yet.
    coming: u64,
}

impl Account {
    const EMPTY: Account = Account { left: 0, coming: 0 };

    /// Draws `bytes`, asking the kernel again if the last figure does not cover them; whether it
    /// could.
    fn draw(&mut self, bytes: u64, ask: impl FnOnce() -> Result<u64, i32>) -> Result<bool, i32> {
        if self.left < bytes {
            // The kernel still counts pending bytes as free.
            let free = ask()?.saturating_sub(self.coming);
            // A request larger than the bound must still be possible.
            self.left = free.min(TRUSTED_BYTES.max(bytes));
            if free < bytes {
                return Ok(false);
            }
        }
        self.left -= bytes;
        self.coming += bytes;
        Ok(true)
    }

    /// Ends pending bytes: their pages are present, or were given up.
    fn settle(&mut self, bytes: u64) {
        ensure(
            self.coming >= bytes,
            "more pages came than were drawn from a node",
        );
        self.coming -= bytes;
    }
}

#[derive(Debug)]
struct Accounts {
    nodes: [Account; MAX_NODES],
    /// The same for the limit of the control group.
    group: Account,
}

/// Free bytes of each node and of the control group. The slot's lock is taken before this one.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: Mutex<Accounts>,
}

/// Drawn bytes, pending until this is dropped: once their pages are present or given up.
#[derive(Debug)]
#[must_use = "bytes are on their way until this is dropped"]
pub(super) struct Draw<'a> {
    ledger: &'a Ledger,
    shares: Shares,
}

impl Drop for Draw<'_> {
    fn drop(&mut self) {
        let mut accounts = self.ledger.accounts();
        for (node, bytes) in self.shares.parts() {
            accounts.nodes[usize::from(*node)].settle(*bytes);
        }
        accounts.group.settle(self.shares.total());
    }
}

impl Ledger {
    pub(super) const fn new() -> Self {
        Self {
            accounts: Mutex::new(Accounts {
                nodes: [Account::EMPTY; MAX_NODES],
                group: Account::EMPTY,
            }),
        }
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the shares of a block from its nodes and from the control group.
    ///
    /// `None` where the kernel chooses the node: such blocks are not accounted.
    ///
    /// # Errors
    /// [`Why::NodeFull`], [`Why::GroupFull`], or [`Why::Refused`] for a node that is offline.
    /// Nothing is pending then.
    pub(super) fn draw(&self, kernel: &Kernel, shares: Shares) -> Result<Option<Draw<'_>>, Why> {
        if shares.parts().is_empty() {
            return Ok(None);
        }
        let mut accounts = self.accounts();
        let total = shares.total();
        let group = || Ok((kernel.group_free_bytes)().unwrap_or(u64::MAX));
        if !accounts.group.draw(total, group).map_err(Why::Refused)? {
            return Err(Why::GroupFull);
        }
        for (index, (node, bytes)) in shares.parts().iter().enumerate() {
            let drawn =
                accounts.nodes[usize::from(*node)].draw(*bytes, || (kernel.free_bytes)(*node));
            let why = match drawn {
                Ok(true) => continue,
                Ok(false) => Why::NodeFull,
                Err(errno) => Why::Refused(errno),
            };
            // `left` is not restored: the only cost is that the kernel is asked again sooner.
            for (node, bytes) in &shares.parts()[..index] {
                accounts.nodes[usize::from(*node)].settle(*bytes);
            }
            accounts.group.settle(total);
            return Err(why);
        }
        Ok(Some(Draw {
            ledger: self,
            shares,
        }))
    }

    /// Discards the kernel's figures, so that the next draw asks again. Pending bytes stay pending.
    pub(super) fn forget(&self) {
        let mut accounts = self.accounts();
        accounts.group.left = 0;
        accounts.nodes.iter_mut().for_each(|node| node.left = 0);
    }

    /// Pending bytes of a node.
    #[cfg(test)]
    pub(super) fn coming(&self, node: u8) -> u64 {
        self.accounts().nodes[usize::from(node)].coming
    }
}
