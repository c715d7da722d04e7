//! Commits, and finding the newest state again. `docs/pool-format.md` has the protocol and the
//! argument why it holds.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::PoolError;
use crate::format::{CLAIM_MAGIC, Claim, HEADER_MAGIC, Header, checksum, payload_checksum};
use crate::layout::{self, BANKS, PoolLayout, SLOTS};
use crate::line::{self, Found};
use crate::medium::{LINE, Medium, Readable};
use crate::state::PoolState;

/// What identifies a pool's metadata, for reading them and for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'p> {
    pub(crate) pool: Uuid,
    pub(crate) layout: PoolLayout,
    pub(crate) path: &'p Path,
}

/// The state that a reader found, and what else it learnt.
#[derive(Debug, Clone)]
pub(crate) struct Recovered {
    pub(crate) state: PoolState,
    /// Bank and slot of its header.
    pub(crate) at: (u8, u8),
    /// The highest epoch of all claims and headers.
    pub(crate) highest: u64,
    /// Structures that were damaged and left out, with `skip_damaged`.
    pub(crate) damaged: Vec<(&'static str, u64)>,
}

/// Name of a payload in messages.
const STATE: &str = "the state";

/// How often a reader starts again because a manager overwrote the slot that it was reading.
const TRIES: u32 = 64;

impl Place<'_> {
    /// Finds the newest state.
    ///
    /// A header in memory means that its payload is there too. So a newest header without its
    /// payload, and a line with a magic and a wrong checksum, are damage and not unfinished
    /// commits: with `skip_damaged` they are left out, which may be the newest acknowledged state.
    pub(crate) fn recover(
        &self,
        medium: &impl Readable,
        skip_damaged: bool,
    ) -> Result<Recovered, PoolError> {
        let mut tries = 1;
        loop {
            match self.look(medium, skip_damaged) {
                // Lines have been looked at again already.
                Err(PoolError::Damaged { what: STATE, .. } | PoolError::NoState { .. })
                    if tries < TRIES =>
                {
                    tries += 1;
                    std::thread::yield_now();
                }
                done => return done,
            }
        }
    }

    fn look(&self, medium: &impl Readable, skip_damaged: bool) -> Result<Recovered, PoolError> {
        let mut damaged = Vec::new();
        let mut highest = 0;
        let mut headers = Vec::new();
        for bank in 0..BANKS {
            let offset = layout::claim(bank);
            match line::read(medium, self.pool, offset, CLAIM_MAGIC) {
                Found::Whole(line) => highest = highest.max(Claim::of(&line).epoch),
                Found::Empty => {}
                Found::Damaged => damaged.push(("the claim of a bank", offset)),
            }
            for slot in 0..SLOTS {
                let offset = layout::header(bank, slot);
                match line::read(medium, self.pool, offset, HEADER_MAGIC) {
                    Found::Whole(line) => headers.push((Header::of(&line), bank, slot)),
                    Found::Empty => {}
                    Found::Damaged => damaged.push(("the header of a state", offset)),
                }
            }
        }
        self.refuse(&damaged, skip_damaged)?;
        headers.sort_unstable_by_key(|(header, _, _)| (header.epoch, header.generation));
        highest = headers
            .iter()
            .map(|(h, _, _)| h.epoch)
            .fold(highest, u64::max);
        for (header, bank, slot) in headers.into_iter().rev() {
            let Some(payload) = self.payload(medium, &header, bank, slot) else {
                damaged.push((STATE, self.layout.payload(bank, slot)));
                self.refuse(&damaged, skip_damaged)?;
                continue;
            };
            let state = self.decode(&header, &payload)?;
            return Ok(Recovered {
                state,
                at: (bank, slot),
                highest,
                damaged,
            });
        }
        Err(PoolError::NoState {
            path: self.path.to_owned(),
        })
    }

    fn refuse(&self, damaged: &[(&'static str, u64)], skip: bool) -> Result<(), PoolError> {
        match damaged.last() {
            Some((what, offset)) if !skip => Err(PoolError::Damaged {
                path: self.path.to_owned(),
                what,
                offset: *offset,
            }),
            _ => Ok(()),
        }
    }

    /// The payload of a header, if its checksum holds.
    fn payload(
        &self,
        medium: &impl Readable,
        header: &Header,
        bank: u8,
        slot: u8,
    ) -> Option<Vec<u8>> {
        let bytes = header.payload_bytes;
        if bytes > self.layout.slot_bytes {
            return None;
        }
        let start = self.layout.payload(bank, slot);
        let mut payload = Vec::with_capacity(bytes as usize + 64);
        for line in (start..start + bytes).step_by(LINE as usize) {
            medium.invalidate(line);
            for word in (line..line + LINE).step_by(8) {
                payload.extend_from_slice(&medium.load(word).to_le_bytes());
            }
        }
        payload.truncate(bytes as usize);
        let Header {
            epoch, generation, ..
        } = *header;
        let found = payload_checksum(self.pool, start, epoch, generation, &payload);
        (found == header.payload_checksum).then_some(payload)
    }

    fn decode(&self, header: &Header, payload: &[u8]) -> Result<PoolState, PoolError> {
        let impossible = |what: String| PoolError::Impossible {
            path: self.path.to_owned(),
            generation: header.generation,
            what,
        };
        let state: PoolState =
            serde_json::from_slice(payload).map_err(|error| impossible(error.to_string()))?;
        state.check(self.pool).map_err(impossible)?;
        if (state.epoch, state.generation) != (header.epoch, header.generation) {
            let (epoch, generation) = (state.epoch, state.generation);
            return Err(impossible(format!(
                "it says that it is generation {generation} of epoch {epoch}"
            )));
        }
        Ok(state)
    }

    /// The highest epoch that anybody has claimed.
    fn claimed(&self, medium: &impl Readable) -> Result<u64, PoolError> {
        let mut highest = 0;
        for bank in 0..BANKS {
            let offset = layout::claim(bank);
            match line::read(medium, self.pool, offset, CLAIM_MAGIC) {
                Found::Whole(line) => highest = highest.max(Claim::of(&line).epoch),
                Found::Empty => {}
                // It may be that of a manager that has taken over.
                Found::Damaged => {
                    return Err(PoolError::Damaged {
                        path: self.path.to_owned(),
                        what: "the claim of a bank",
                        offset,
                    });
                }
            }
        }
        Ok(highest)
    }
}

/// The right to commit: of the one process that has claimed a bank and has seen no higher claim.
///
/// It is the only thing that can commit, and there is one way to get it.
#[derive(Debug)]
pub(crate) struct Tenure {
    bank: u8,
    epoch: u64,
    incarnation: u64,
    /// Slot of the next commit.
    slot: u8,
    /// Set when a higher claim was seen; never reset.
    fenced_by: Option<u64>,
}

impl Tenure {
    /// Claims a bank, and returns the state that the tenure starts with.
    ///
    /// The claim is in memory before the state is read. A former manager looks at the claims after
    /// its header is in memory and before it acknowledges anything. So either its commit is in the
    /// state that is read here, or it sees the claim and acknowledges nothing.
    pub(crate) fn claim(
        place: &Place<'_>,
        medium: &impl Medium,
        bank: u8,
        incarnation: u64,
        skip_damaged: bool,
    ) -> Result<(Self, Recovered), PoolError> {
        let before = place.recover(medium, skip_damaged)?;
        // Somebody vouches that no other manager is there, so lines of other banks may be cleared.
        let lines = before.damaged.iter().filter(|(what, _)| *what != STATE);
        lines.for_each(|(_, offset)| line::retire(medium, *offset));
        let epoch = next_epoch(before.highest, bank);
        let claim = Claim {
            epoch,
            incarnation,
            wall_ns: wall_ns(),
        };
        line::write(medium, place.pool, layout::claim(bank), &claim.line());
        let found = place.recover(medium, skip_damaged)?;
        let mut tenure = Self {
            bank,
            epoch,
            incarnation,
            slot: 0,
            fenced_by: None,
        };
        if found.highest > epoch {
            return Err(tenure.fence(found.highest));
        }
        // The state may be in the own bank; its slot is the last one to be overwritten.
        if found.at.0 == bank {
            tenure.slot = (found.at.1 + 1) % SLOTS;
        }
        tenure.confirm(place, medium)?;
        Ok((tenure, found))
    }

    /// The epoch of the tenure.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Makes `next` the state. Its epoch and generation are set here.
    ///
    /// # Errors
    /// [`PoolError::StateTooLarge`] before anything is written; [`PoolError::Fenced`] if another
    /// manager has claimed the pool: `next` is then the state or not, which only that one knows.
    pub(crate) fn commit(
        &mut self,
        place: &Place<'_>,
        medium: &impl Medium,
        current: &PoolState,
        mut next: PoolState,
    ) -> Result<PoolState, PoolError> {
        next.epoch = self.epoch;
        next.generation = current.generation + 1;
        let payload = encode(place, &next)?;
        if let Some(newer) = self.fenced_by {
            return Err(self.fence(newer));
        }
        // Not needed for safety: it spares the work.
        self.confirm(place, medium)?;
        let offset = place.layout.payload(self.bank, self.slot);
        let header = header(place, offset, &next, &payload, self.incarnation);
        put(place, medium, (self.bank, self.slot), &header, &payload);
        // From here on the commit cannot be taken back: the slot is used, acknowledged or not.
        self.slot = (self.slot + 1) % SLOTS;
        if let Err(error) = self.confirm(place, medium) {
            // A second commit of this generation would contradict the first.
            self.fenced_by.get_or_insert(self.epoch);
            return Err(error);
        }
        Ok(next)
    }

    /// The same tenure again, for a test that plays it twice.
    #[cfg(test)]
    pub(crate) fn copy(&self) -> Self {
        Self { ..*self }
    }

    /// Looks for a higher claim.
    fn confirm(&mut self, place: &Place<'_>, medium: &impl Readable) -> Result<(), PoolError> {
        match place.claimed(medium)? {
            newer if newer > self.epoch => Err(self.fence(newer)),
            _ => Ok(()),
        }
    }

    fn fence(&mut self, newer: u64) -> PoolError {
        self.fenced_by = Some(newer);
        PoolError::Fenced {
            epoch: self.epoch,
            newer,
        }
    }
}

/// The lowest epoch of a bank above all others.
fn next_epoch(highest: u64, bank: u8) -> u64 {
    let banks = u64::from(BANKS);
    let round = (highest + 1).saturating_sub(bank.into()).div_ceil(banks);
    round * banks + u64::from(bank)
}

/// A state as the bytes of a payload.
fn encode(place: &Place<'_>, state: &PoolState) -> Result<Vec<u8>, PoolError> {
    let impossible = |what: String| PoolError::Impossible {
        path: place.path.to_owned(),
        generation: state.generation,
        what,
    };
    // What recovery would refuse must not be written.
    state.check(place.pool).map_err(impossible)?;
    let payload = serde_json::to_vec(state).map_err(|error| impossible(error.to_string()))?;
    if payload.len() as u64 > place.layout.slot_bytes {
        return Err(PoolError::StateTooLarge {
            bytes: payload.len(),
            slot_bytes: place.layout.slot_bytes,
        });
    }
    Ok(payload)
}

/// Writes a payload and its header. The order of the steps is the protocol.
fn put(
    place: &Place<'_>,
    medium: &impl Medium,
    (bank, slot): (u8, u8),
    header: &Header,
    payload: &[u8],
) {
    let header_at = layout::header(bank, slot);
    line::retire(medium, header_at);
    let start = place.layout.payload(bank, slot);
    for (at, line) in (start..).step_by(64).zip(payload.chunks(64)) {
        for (word_at, word) in (at..).step_by(8).zip(line.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            medium.store(word_at, u64::from_le_bytes(bytes));
        }
        medium.flush(at);
    }
    line::fill(medium, place.pool, header_at, &header.line());
    medium.fence();
    line::publish(medium, header_at, &header.line());
}

/// The header of `state`, whose payload lies at `offset`.
fn header(
    place: &Place<'_>,
    offset: u64,
    state: &PoolState,
    payload: &[u8],
    incarnation: u64,
) -> Header {
    let (epoch, generation) = (state.epoch, state.generation);
    Header {
        epoch,
        generation,
        payload_bytes: payload.len() as u64,
        payload_checksum: payload_checksum(place.pool, offset, epoch, generation, payload),
        incarnation,
        wall_ns: wall_ns(),
    }
}

/// Writes the first state of a new pool: epoch and generation 1 less than the first tenure's.
pub(crate) fn found(
    place: &Place<'_>,
    medium: &impl Medium,
    state: &PoolState,
) -> Result<(), PoolError> {
    let payload = encode(place, state)?;
    let offset = place.layout.payload(0, 0);
    let header = header(place, offset, state, &payload, 0);
    put(place, medium, (0, 0), &header, &payload);
    Ok(())
}

/// Wall clock, ns since 1970; for people, no decision depends on it.
pub(crate) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// A number that no other process has, never 0.
pub(crate) fn random_number() -> u64 {
    let bytes = random_bytes();
    let number = checksum(&[&bytes]);
    number.max(1)
}

pub(crate) fn random_uuid() -> Uuid {
    uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // No random numbers this early after boot: time and process differ as well.
        bytes[..8].copy_from_slice(&wall_ns().to_le_bytes());
        bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    }
    bytes
}
