//! What nodes can still give, so that a bound range never asks a full node: the kernel answers that
//! with its out-of-memory killer.
//!
//! ```text
//!   kernel's answer ─ bytes on their way ─► left ── draw ──► on their way ── pages come ──► kernel's
//! ```
//! Bytes that were drawn and have no pages yet are still free in the kernel's account. They are
//! taken off every answer, and answer and draw are one step under one lock: two threads never get
//! the same bytes. Pages that go back are not credited; the kernel is asked again.

use super::events::Why;
use super::holds::ensure;
use super::kernel::{Kernel, MAX_NODES};
use super::shares::Shares;
use super::sync::{Mutex, MutexGuard, PoisonError};

/// An answer of the kernel is given out up to so many bytes before it is asked again: others take
/// memory, too.
const TRUSTED_BYTES: u64 = 1 << 30;

/// One node, or the control group.
#[derive(Debug, Clone, Copy)]
struct Account {
    /// What is left of the last answer.
    left: u64,
    /// Drawn, its pages not present yet.
    coming: u64,
}

impl Account {
    const EMPTY: Account = Account { left: 0, coming: 0 };

    /// Takes `bytes` off what is left, or off a new answer; whether that is enough.
    fn draw(&mut self, bytes: u64, ask: impl FnOnce() -> Result<u64, i32>) -> Result<bool, i32> {
        if self.left < bytes {
            let free = ask()?.saturating_sub(self.coming);
            self.left = free.min(TRUSTED_BYTES.max(bytes));
            if free < bytes {
                return Ok(false);
            }
        }
        self.left -= bytes;
        self.coming += bytes;
        Ok(true)
    }

    /// Pages have come, or never will.
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
    /// The same by the limit of the control group.
    group: Account,
}

/// Bytes that may still be taken from each node and by the control group.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: Mutex<Accounts>,
}

/// Bytes that were drawn. It is kept until their pages are present, or given up.
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

    /// Takes bytes off nodes, and off the control group; `None` where the kernel chooses, which is
    /// not accounted.
    ///
    /// # Errors
    /// [`Why::NodeFull`], [`Why::GroupFull`], or [`Why::Refused`] for a node that is gone; nothing
    /// is taken then.
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

    /// The kernel is asked again before the next page is taken. What is on its way stays counted.
    pub(super) fn forget(&self) {
        let mut accounts = self.accounts();
        accounts.group.left = 0;
        accounts.nodes.iter_mut().for_each(|node| node.left = 0);
    }

    /// Bytes on their way from a node.
    #[cfg(test)]
    pub(super) fn coming(&self, node: u8) -> u64 {
        self.accounts().nodes[usize::from(node)].coming
    }
}
