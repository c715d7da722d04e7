//! Sums of quotients as sums of integers.

use crate::groups::{Words, add_wide};
use crate::plan::PlanError;
use tierloom_kernels::{LOW_BITS, quotients};

/// Rows whose quotients are computed together.
const BATCH: usize = 256;

/// Adds the quotients of rows to their groups, and counts them where a group keeps the number of
/// those that count.
///
/// `group` gives the offset of a row's group, and `None` for a row that does not count;
/// `is_one_group` says that it is the same for all.
///
/// # Errors
/// [`PlanError::DividedByZero`].
pub(crate) fn add_quotients(
    words: &mut [i64],
    place: Words,
    shift: u32,
    (dividends, divisors): (&[i64], &[i64]),
    is_one_group: bool,
    group: impl Fn(usize) -> Option<u32>,
) -> Result<(), PlanError> {
    let scale = 2_f64.powi(shift as i32 - LOW_BITS as i32);
    let (mut high, mut low) = ([0; BATCH], [0; BATCH]);
    let batches = dividends.chunks(BATCH).zip(divisors.chunks(BATCH));
    for (at, (dividends, divisors)) in batches.enumerate() {
        let (high, low) = (&mut high[..divisors.len()], &mut low[..divisors.len()]);
        let any_zero = quotients(dividends, divisors, scale, high, low);
        // Through memory each addition would wait for the last one.
        let mut of_batch = (0_i128, 0_i64, None);
        for (row, (high, low)) in high.iter().zip(low).enumerate() {
            let Some(offset) = group(at * BATCH + row) else {
                continue;
            };
            if any_zero && divisors[row] == 0 {
                return Err(PlanError::DividedByZero);
            }
            let value = (i128::from(*high) << LOW_BITS) + i128::from(*low);
            if is_one_group {
                of_batch = (of_batch.0 + value, of_batch.1 + 1, Some(offset));
                continue;
            }
            add(words, place, offset, value, 1);
        }
        if let (sum, rows, Some(offset)) = of_batch {
            add(words, place, offset, sum, rows);
        }
    }
    Ok(())
}

/// Adds the sum of some rows to the group at `offset`.
fn add(words: &mut [i64], place: Words, offset: u32, sum: i128, rows: i64) {
    let offset = offset as usize;
    if let Some(at) = place.valid_at {
        words[offset + at] += rows;
    }
    add_wide(words, offset + place.at, sum);
}
