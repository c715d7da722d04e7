//! Random numbers and texts of the specification.

use fastrand::Rng;

use super::schema::NAMES;

/// A generator for one part of the work: other parts of the same seed draw other numbers.
pub(crate) fn rng(seed: u64, part: &[u64]) -> Rng {
    let mix = |state: u64, word: &u64| {
        // The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
        let mut value = state
            .wrapping_add(*word)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    Rng::with_seed(part.iter().fold(mix(seed, &0), mix))
}

/// The constants C of the non-uniform numbers (clause 2.1.6).
#[derive(Debug, Clone, Copy)]
pub(crate) struct RandomConstants {
    /// Last names, while loading.
    pub(crate) name_load: u32,
    /// Last names, while running.
    pub(crate) name_run: u32,
    pub(crate) customer: u32,
    pub(crate) item: u32,
}

impl RandomConstants {
    /// RandomConstants of a seed. Those of the last name differ as clause 2.1.6.1 asks.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = rng(seed, &[0xc0]);
        let name_load = rng.u32(0..=255);
        let name_run = loop {
            let run = rng.u32(0..=255);
            let delta = run.abs_diff(name_load);
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                break run;
            }
        };
        Self {
            name_load,
            name_run,
            customer: rng.u32(0..=1023),
            item: rng.u32(0..=8191),
        }
    }
}

/// NURand(a, x, y) with the constant `c` (clause 2.1.6).
pub(crate) fn non_uniform(rng: &mut Rng, a: u32, c: u32, (x, y): (u32, u32)) -> u32 {
    ((rng.u32(0..=a) | rng.u32(x..=y)) + c) % (y - x + 1) + x
}

/// Number of a last name, of `names` that there are.
pub(crate) fn name_number(rng: &mut Rng, c: u32, names: u32) -> u32 {
    non_uniform(rng, 255, c, (0, names.min(NAMES) - 1))
}

/// The last name of a number (clause 4.3.2.3).
pub(crate) fn last_name(number: u32) -> String {
    const PARTS: [&str; 10] = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    let digits = [number / 100 % 10, number / 10 % 10, number % 10];
    digits.iter().map(|digit| PARTS[*digit as usize]).collect()
}

/// Fills words with a random text of `least` to as many bytes as they hold; the rest is 0.
pub(crate) fn random_text(rng: &mut Rng, least_bytes: usize, most_bytes: usize, words: &mut [u64]) {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -";
    let bytes = rng.usize(least_bytes..=most_bytes);
    for (at, word) in words.iter_mut().enumerate() {
        let random = rng.u64(..);
        let left = bytes.saturating_sub(at * 8).min(8);
        let letters = (0..left).map(|byte| {
            let letter = LETTERS[(random >> (byte * 8)) as usize & 63];
            u64::from(letter) << (byte * 8)
        });
        *word = letters.sum();
    }
}

/// Puts a text into words, 8 bytes each, cut off at their end.
pub(crate) fn put_text(text: &str, words: &mut [u64]) {
    let mut bytes = text.bytes();
    for word in words {
        let mut eight = [0; 8];
        eight
            .iter_mut()
            .zip(&mut bytes)
            .for_each(|(to, byte)| *to = byte);
        *word = u64::from_le_bytes(eight);
    }
}

/// Data of an item or a stock: a text with "ORIGINAL" in every tenth (clause 4.3.3.1).
pub(crate) fn original_text(rng: &mut Rng, words: &mut [u64]) {
    random_text(rng, 26, 50, words);
    if rng.u32(0..10) == 0 {
        let at = rng.usize(0..3);
        words[at] = u64::from_le_bytes(*b"ORIGINAL");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn non_uniform_numbers_stay_in_range_reach_most_of_it_and_prefer_some() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let constants = RandomConstants::new(seed);
        let mut random = rng(seed, &[1]);
        let mut drawn = vec![0_u32; 3000];
        for _ in 0..300_000 {
            let customer = non_uniform(&mut random, 1023, constants.customer, (1, 3000));
            drawn[customer as usize - 1] += 1;
        }
        // Those whose number has few bits set are rare.
        let reached = drawn.iter().filter(|count| **count > 0).count();
        assert!(reached > 2700, "{reached}");
        drawn.sort_unstable();
        let top: u32 = drawn[2700..].iter().sum();
        assert!(
            top > 75_000,
            "uniform would give the top tenth 30,000 or so: {top}"
        );
        let delta = constants.name_load.abs_diff(constants.name_run);
        assert!((65..=119).contains(&delta) && delta != 96 && delta != 112);
    }

    #[test]
    fn texts_have_their_length_and_are_cut_off() {
        let mut random = rng(1, &[2]);
        let mut words = [u64::MAX; 3];
        random_text(&mut random, 9, 9, &mut words);
        assert!(words[0] != 0 && words[1] != 0 && words[1] < 256 && words[2] == 0);
        put_text("abcdefghi", &mut words[..1]);
        assert_eq!(words[0].to_le_bytes(), *b"abcdefgh");
    }
}
