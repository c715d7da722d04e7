//! The statements of the benchmarks, and the order of a throughput stream.

use crate::{Benchmark, TpcError};
use std::borrow::Cow;

/// One statement of a benchmark.
#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    /// The benchmark that it belongs to.
    pub benchmark: Benchmark,
    /// "q01" to "q22" or "q99"; four queries of TPC-DS have two statements, such as "q14a" and
    /// "q14b".
    pub id: &'static str,
    /// The statement with the specification's validation parameters for scale factor 1.
    text: &'static str,
}

impl Query {
    /// The statement for data of `scale_factor`.
    ///
    /// Only q11 of TPC-H depends on it: its fraction is 0.0001 divided by the scale factor.
    pub fn sql(&self, scale_factor: f64) -> Cow<'static, str> {
        if self.benchmark == Benchmark::TpcH && self.id == "q11" {
            let fraction = format!("{:.10}", 0.0001 / scale_factor);
            return Cow::Owned(self.text.replace(Q11_FRACTION, &fraction));
        }
        Cow::Borrowed(self.text)
    }
}

/// The fraction of q11 as it is written in the statement's text.
const Q11_FRACTION: &str = "0.0001000000";

macro_rules! stored {
    ($benchmark:ident, $folder:literal: $($id:literal)+) => {
        [$(Query {
            benchmark: Benchmark::$benchmark,
            id: $id,
            text: include_str!(concat!("../../../queries/", $folder, "/", $id, ".sql")),
        }),+]
    };
}

static TPC_H: [Query; 22] = stored!(TpcH, "tpch":
    "q01" "q02" "q03" "q04" "q05" "q06" "q07" "q08" "q09" "q10" "q11" "q12" "q13" "q14" "q15" "q16" "q17" "q18" "q19" "q20"
    "q21" "q22");

static TPC_DS: [Query; 103] = stored!(TpcDs, "tpcds":
    "q01" "q02" "q03" "q04" "q05" "q06" "q07" "q08" "q09" "q10" "q11" "q12" "q13" "q14a" "q14b" "q15" "q16" "q17" "q18" "q19"
    "q20" "q21" "q22" "q23a" "q23b" "q24a" "q24b" "q25" "q26" "q27" "q28" "q29" "q30" "q31" "q32" "q33" "q34" "q35" "q36" "q37"
    "q38" "q39a" "q39b" "q40" "q41" "q42" "q43" "q44" "q45" "q46" "q47" "q48" "q49" "q50" "q51" "q52" "q53" "q54" "q55" "q56"
    "q57" "q58" "q59" "q60" "q61" "q62" "q63" "q64" "q65" "q66" "q67" "q68" "q69" "q70" "q71" "q72" "q73" "q74" "q75" "q76"
    "q77" "q78" "q79" "q80" "q81" "q82" "q83" "q84" "q85" "q86" "q87" "q88" "q89" "q90" "q91" "q92" "q93" "q94" "q95" "q96"
    "q97" "q98" "q99");

/// All statements of `benchmark`, in ascending order.
pub fn queries(benchmark: Benchmark) -> &'static [Query] {
    match benchmark {
        Benchmark::TpcH => &TPC_H,
        Benchmark::TpcDs => &TPC_DS,
    }
}

/// The statements that `name` selects: "q6", "q06" and "6" are the same; "q14" selects both of its
/// statements.
///
/// # Errors
/// [`TpcError::NoQuery`] if there is none.
pub fn query(benchmark: Benchmark, name: &str) -> Result<Vec<&'static Query>, TpcError> {
    let unknown = || TpcError::NoQuery {
        benchmark,
        query: name.into(),
        known: match benchmark {
            Benchmark::TpcH => "q1 to q22".into(),
            Benchmark::TpcDs => "q1 to q99, of which 14, 23, 24 and 39 have parts a and b".into(),
        },
    };
    let lower = name.trim().to_ascii_lowercase();
    let rest = lower.strip_prefix('q').unwrap_or(&lower);
    let digits = rest.trim_end_matches(['a', 'b']);
    let number: u32 = digits.parse().map_err(|_| unknown())?;
    let id = format!("q{number:02}{}", &rest[digits.len()..]);
    // "q14" alone selects both of its parts.
    let found: Vec<&Query> = queries(benchmark)
        .iter()
        .filter(|q| q.id == id || (q.id.len() == 4 && id.len() == 3 && q.id.starts_with(&id)))
        .collect();
    if found.is_empty() {
        return Err(unknown());
    }
    Ok(found)
}

/// The order in which stream `stream` of a throughput run executes `count` queries: a permutation
/// of 0 to `count` - 1.
///
/// Stream 0 uses the given order. The others use a random one that depends only on the stream's
/// number (Fisher-Yates shuffle on SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom
/// Number Generators", 2014), so it is the same in every run.
pub fn stream_order(stream: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if stream == 0 {
        return order;
    }
    let mut state = stream as u64;
    let mut draw = |below: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    };
    for last in (1..count).rev() {
        order.swap(last, draw(last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_as_people_type_them() {
        for name in ["q6", "q06", "6", " Q06 "] {
            assert_eq!(query(Benchmark::TpcH, name).unwrap()[0].id, "q06");
        }
        let ids = |name| -> Vec<_> {
            let found = query(Benchmark::TpcDs, name).unwrap();
            found.iter().map(|q| q.id).collect()
        };
        assert_eq!(ids("q14"), ["q14a", "q14b"]);
        assert_eq!(ids("14b"), ["q14b"]);
        assert_eq!(ids("99"), ["q99"]);
        for name in ["q0", "q23", "x", "", "q6a", "q06aa"] {
            assert!(query(Benchmark::TpcH, name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn every_number_of_a_benchmark_has_a_statement() {
        for (benchmark, last) in [(Benchmark::TpcH, 22), (Benchmark::TpcDs, 99)] {
            for number in 1..=last {
                let found = query(benchmark, &number.to_string()).unwrap();
                assert!(found.iter().all(|q| q.sql(1.0).contains("select")));
            }
        }
    }

    #[test]
    fn the_fraction_of_q11_follows_the_scale_factor() {
        let q11 = query(Benchmark::TpcH, "q11").unwrap()[0];
        assert!(q11.sql(1.0).contains("* 0.0001000000"));
        assert!(q11.sql(0.01).contains("* 0.0100000000"));
        assert!(q11.sql(100.0).contains("* 0.0000010000"));
    }

    #[test]
    fn streams_take_every_query_once_in_orders_of_their_own() {
        let orders: Vec<Vec<usize>> = (0..20).map(|s| stream_order(s, 22)).collect();
        for (stream, order) in orders.iter().enumerate() {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..22).collect::<Vec<_>>());
            assert!(orders[..stream].iter().all(|other| other != order));
        }
        assert!(stream_order(3, 0).is_empty() && stream_order(3, 1) == [0]);
    }
}
