//! Stored query answers of an independent engine.
//!
//! They exist for three scale factors and one seed; other data cannot be checked this way.

use super::SsbConfig;

/// The answers of one query: its id, and the text for each of [`SCALE_FACTORS`].
type Stored = (&'static str, [&'static str; 3]);

/// Scale factors with stored answers, all for [`SEED`].
const SCALE_FACTORS: [f64; 3] = [0.01, 0.1, 1.0];

/// Seed of the data that the answers are for.
const SEED: u64 = 1;

macro_rules! stored {
    ($($query:literal),*) => {
        [$(($query, [
            include_str!(concat!("../../../../queries/ssb/golden/sf0.01/", $query, ".csv")),
            include_str!(concat!("../../../../queries/ssb/golden/sf0.1/", $query, ".csv")),
            include_str!(concat!("../../../../queries/ssb/golden/sf1/", $query, ".csv")),
        ])),*]
    };
}

static ANSWERS: [Stored; 13] = stored!(
    "q1.1", "q1.2", "q1.3", "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1", "q4.2",
    "q4.3"
);

/// DuckDB's answer to `query` on the data of `config`; `None` if none is stored.
///
/// The text has a header and comma-separated rows.
///
/// `scripts/golden_ssb.py` creates and checks the stored answers.
pub fn golden_answer(config: &SsbConfig, query: &str) -> Option<&'static str> {
    let scale = SCALE_FACTORS
        .iter()
        .position(|sf| *sf == config.scale_factor)?;
    (config.seed == SEED).then_some(())?;
    ANSWERS
        .iter()
        .find(|(name, _)| *name == query)
        .map(|(_, texts)| texts[scale])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssb::queries;

    #[test]
    fn every_query_has_an_answer_for_every_stored_scale_and_none_for_other_data() {
        for query in queries() {
            for scale_factor in SCALE_FACTORS {
                let answer = golden_answer(
                    &SsbConfig {
                        scale_factor,
                        seed: SEED,
                    },
                    query.id,
                )
                .unwrap();
                assert!(
                    answer.ends_with('\n') && !answer.contains('\r'),
                    "{} at {scale_factor}",
                    query.id
                );
            }
            assert_eq!(
                golden_answer(
                    &SsbConfig {
                        scale_factor: 0.02,
                        seed: SEED
                    },
                    query.id
                ),
                None
            );
            assert_eq!(
                golden_answer(
                    &SsbConfig {
                        scale_factor: 1.0,
                        seed: 2
                    },
                    query.id
                ),
                None
            );
        }
    }
}
