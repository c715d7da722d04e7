//! The check of the data after a run: what the accesses must have left in the memory.

use tierloom_kernels::access::{Operation, check_pattern, pattern_word};

use super::task::ReadyTask;

impl ReadyTask<'_> {
    /// Checks that the memory holds what the accesses must have left.
    ///
    /// `operations` is the number of all operations, including warm-up. `Err` says what is wrong;
    /// `None` if the work leaves nothing that could be checked.
    pub(super) fn check_data(&self, operations: u64) -> Option<Result<String, String>> {
        let operation = self.spec.operation()?;
        let part_bytes = self.spec.part_bytes();
        let memory = self.regions.first()?.region.as_slice();
        let counted = || {
            memory.as_chunks::<8>().0.iter().fold(0_u64, |sum, word| {
                sum.wrapping_add(u64::from_le_bytes(*word))
            })
        };
        Some(match operation {
            Operation::FetchAdd => {
                let found = counted();
                if found == operations {
                    Ok(format!("all {operations} additions arrived"))
                } else {
                    Err(format!("{operations} additions were made, {found} arrived"))
                }
            }
            Operation::CompareAndSwap => {
                let found = counted();
                // A swap may fail, so there are only bounds.
                if found <= operations && (found > 0 || operations == 0) {
                    Ok(format!("{found} of {operations} swaps succeeded"))
                } else {
                    Err(format!("{operations} swaps were tried, {found} arrived"))
                }
            }
            Operation::Copy | Operation::StreamCopy if self.spec.copies_across() => self.regions[1]
                .region
                .as_slice()
                .chunks(part_bytes)
                .enumerate()
                .find_map(|(index, part)| Some(index * part_bytes + wrong_word(part, 0, |_| 0)?))
                .map_or_else(
                    || Ok("the destination holds what was copied".into()),
                    |at| Err(format!("wrong bytes in the destination at offset {at}")),
                ),
            Operation::Copy | Operation::StreamCopy => memory
                .chunks(part_bytes)
                .enumerate()
                .find_map(|(index, part)| Some(index * part_bytes + wrong_copy(part)?))
                .map_or_else(
                    || Ok("the copy holds what was copied".into()),
                    |at| Err(format!("wrong bytes in the copy at offset {at}")),
                ),
            // Reads leave the pattern of the fill as it is, and writes store the same pattern.
            _ => memory
                .chunks(part_bytes)
                .enumerate()
                .find_map(|(index, part)| Some(index * part_bytes + check_pattern(part)?))
                .map_or_else(
                    || Ok("every byte is what it has to be".into()),
                    |at| Err(format!("wrong bytes at offset {at}")),
                ),
        })
    }
}

/// Offset of the first wrong word in the target half of a copy.
///
/// A word is right if each half of it is either old or copied: accesses may be four bytes long, and
/// a run may end before the whole target is copied.
fn wrong_copy(part: &[u8]) -> Option<usize> {
    let half = part.len() / 2 / 8 * 8;
    wrong_word(part, half, |offset| pattern_word(half + offset))
}

/// Offset of the first word from `start` on that is neither `old` nor the pattern of the source.
fn wrong_word(part: &[u8], start: usize, old: impl Fn(usize) -> u64) -> Option<usize> {
    part.get(start..)?
        .as_chunks::<8>()
        .0
        .iter()
        .enumerate()
        .map(|(index, word)| (index * 8, u64::from_le_bytes(*word)))
        .find(|(offset, found)| {
            let (old, new) = (old(*offset), pattern_word(*offset));
            [u64::from(u32::MAX), u64::from(u32::MAX) << 32]
                .iter()
                .any(|mask| found & mask != old & mask && found & mask != new & mask)
        })
        .map(|(offset, _)| start + offset)
}
