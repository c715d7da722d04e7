//! `custom_operations`: access chains such as `m0_r_64,m0_w_64_write-back_-64`.
//!
//! A chain is a list of accesses that run one after another. Each read chooses the address of what
//! follows, so the steps of a chain cannot overlap.

use tierloom_kernels::access::{CacheOp, ChainStep};

use super::error::did_you_mean;
use super::values::shown;

/// Maximum number of steps in one chain.
const MAX_STEPS: usize = 256;
/// Largest access of one step, bytes; the limit of `access_size` too.
const MAX_STEP_BYTES: usize = 64 << 10;
/// Largest distance of a write from the address of the step before it, bytes.
const MAX_OFFSET_BYTES: u64 = 1 << 30;

/// Parses the steps of a chain.
///
/// Each is `[mN_]r_<size>`, `[mN_]w_<size>_<cache instruction>[_<offset>]`, or the same with `sw`
/// in place of `w` for a streaming write.
pub(super) fn parse(text: &str) -> Result<Vec<ChainStep>, String> {
    let pieces: Vec<&str> = text.split(',').map(str::trim).collect();
    if pieces.len() > MAX_STEPS {
        return Err(format!(
            "{} steps; a chain has at most {MAX_STEPS}",
            pieces.len()
        ));
    }
    let mut steps: Vec<ChainStep> = Vec::with_capacity(pieces.len());
    for (index, piece) in pieces.iter().enumerate() {
        let step = step(piece)
            .map_err(|problem| format!("step {} (`{}`): {problem}", index + 1, shown(piece)))?;
        match steps.last() {
            None if step.write => {
                return Err(
                    "a chain begins with a read: its value chooses the places that follow".into(),
                );
            }
            Some(before) if step.write && before.region != step.region => {
                return Err(format!(
                    "step {} (`{}`) writes to region m{}, but the step before works on m{}; write where the step before was",
                    index + 1,
                    shown(piece),
                    step.region,
                    before.region
                ));
            }
            _ => steps.push(step),
        }
    }
    Ok(steps)
}

fn step(text: &str) -> Result<ChainStep, String> {
    let mut parts: Vec<&str> = text.split('_').collect();
    let region = match parts.first() {
        Some(first) if first.starts_with('m') => {
            let region = match *first {
                "m0" => 0,
                "m1" => 1,
                other => return Err(format!("region `{}`; expected m0 or m1", shown(other))),
            };
            parts.remove(0);
            region
        }
        _ => 0,
    };
    let (word, rest) = parts
        .split_first()
        .ok_or("expected r_<size> or w_<size>_<cache instruction>")?;
    let (write, stream) = match *word {
        "r" | "read" => (false, false),
        "w" | "write" => (true, false),
        "sw" | "stream-write" => (true, true),
        other => {
            return Err(format!(
                "operation `{}`; expected r, w or sw (streaming) as in r_64 or w_64_none",
                shown(other)
            ));
        }
    };
    let (size, rest) = rest
        .split_first()
        .ok_or_else(|| format!("the size is missing, as in {word}_64"))?;
    let size_bytes = step_size(size)?;
    if !write {
        if !rest.is_empty() {
            return Err("a read has nothing after its size".into());
        }
        return Ok(ChainStep {
            region,
            write,
            size_bytes,
            cache_op: CacheOp::None,
            stream,
            offset_bytes: None,
        });
    }
    let (instruction, rest) = rest.split_first().ok_or(
        "a write needs a cache instruction after its size (none, write-back, flush, flush-opt)",
    )?;
    let (cache_op, no_cache) = cache_instruction(instruction)?;
    let offset = match rest {
        [] => 0,
        [offset] => offset_bytes(offset)?,
        _ => return Err("there is too much after the offset".into()),
    };
    Ok(ChainStep {
        region,
        write,
        size_bytes,
        cache_op,
        stream: stream || no_cache,
        offset_bytes: Some(offset),
    })
}

fn step_size(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(bytes) if bytes.is_power_of_two() && (8..=MAX_STEP_BYTES).contains(&bytes) => Ok(bytes),
        // CXL-Bench allows 4 bytes; here a step loads the 8 bytes that choose the next address.
        Ok(4) => Ok(8),
        _ => Err(format!(
            "size `{}`; expected a power of two from 4 to {MAX_STEP_BYTES}",
            shown(text)
        )),
    }
}

fn offset_bytes(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(offset) if offset % 64 == 0 && offset.unsigned_abs() <= MAX_OFFSET_BYTES => Ok(offset),
        _ => Err(format!(
            "offset `{}`; expected a multiple of 64, at most 1 GiB either way",
            shown(text)
        )),
    }
}

/// Parses a cache instruction: what follows a write, and whether the store bypasses the caches.
///
/// The second value is true for `nocache` and `stream`, which older versions of CXL-Bench list
/// here.
pub(super) fn cache_instruction(text: &str) -> Result<(CacheOp, bool), String> {
    const WORDS: [(&str, CacheOp, bool); 7] = [
        ("none", CacheOp::None, false),
        ("write-back", CacheOp::WriteBack, false),
        ("flush", CacheOp::Flush, false),
        ("flush-opt", CacheOp::FlushOpt, false),
        // Words of older versions of CXL-Bench.
        ("cache", CacheOp::WriteBack, false),
        ("nocache", CacheOp::None, true),
        ("stream", CacheOp::None, true),
    ];
    let text = text.trim();
    WORDS
        .iter()
        .find(|(word, ..)| *word == text)
        .map(|(_, cache_op, no_cache)| (*cache_op, *no_cache))
        .ok_or_else(|| {
            let words = WORDS.iter().map(|(word, ..)| *word);
            format!(
                "cache instruction `{}`; expected one of: none, write-back, flush, flush-opt{}",
                shown(text),
                did_you_mean(text, words)
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_both_regions_with_an_offset_is_read() {
        let steps = parse("r_256, m1_r_64,m1_w_64_write-back_-64,m1_sw_128_none").unwrap();
        assert_eq!(steps.len(), 4);
        assert_eq!(
            (steps[0].region, steps[0].size_bytes, steps[0].offset_bytes),
            (0, 256, None)
        );
        assert_eq!(
            (steps[2].region, steps[2].cache_op),
            (1, CacheOp::WriteBack)
        );
        assert_eq!(steps[2].offset_bytes, Some(-64));
        assert!(steps[3].stream && steps[3].offset_bytes == Some(0));
        assert!(parse("r_64,w_64_nocache").unwrap()[1].stream);
    }

    #[test]
    fn chains_that_cannot_run_are_refused_with_the_step() {
        for text in [
            "",
            "r",
            "r_63",
            "r_64_none",
            "w_64_none",
            "r_64,w_64",
            "r_64,w_64_nona",
            "m2_r_64",
            "r_64,m1_w_64_none",
            "r_64,w_64_none_32",
            "r_64,w_64_none_64_1",
            "x_64",
            "sr_64",
            "r_131072",
            "r_64,,r_64",
            "r_64,w_64_none_9223372036854775807",
            "r_64,w_64_none_-9223372036854775808",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let error = parse("r_64,w_64_flush-op").unwrap_err();
        assert!(
            error.contains("step 2") && error.contains("did you mean `flush-opt`"),
            "{error}"
        );
    }
}
