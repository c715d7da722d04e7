//! `FLOAT`, which is `double precision` in PostgreSQL and `real` in DataFusion.
//!
//! Clients of PostgreSQL write it for their doubles, and would lose digits without an error.

use super::tokens::Edit;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use tierloom_sql::is_word;

/// The name of the type.
pub(crate) const FLOAT: &str = "float";

/// Bits of the fraction of a `real`: PostgreSQL takes `FLOAT(p)` as `real` up to here, and as
/// `double precision` beyond (its manual, section "Floating-Point Types").
const BITS_OF_REAL: u64 = 24;

/// Words behind which the name of a column cannot end, so that what follows is no type.
const NO_COLUMN: [&str; 11] = [
    "select", "distinct", "by", "where", "and", "or", "not", "on", "default", "key", "table",
];

/// The types of a statement that are doubles, each with its number of bits; `FLOAT8` replaces them.
///
/// A line becomes a character longer for each `FLOAT` without a number of bits.
pub(crate) fn doubles(statement: &[TokenWithSpan]) -> Vec<Edit<'_>> {
    let first = |word| statement.first().is_some_and(|t| is_word(&t.token, word));
    let mut declares = first("create") || first("alter");
    // Of each bracket that is open, whether it is that of a cast.
    let mut casts: Vec<bool> = Vec::new();
    let mut found = Vec::new();
    for (at, token) in statement.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &statement[before].token);
        let is_before = |word| before.is_some_and(|token| is_word(token, word));
        match &token.token {
            Token::LParen => casts.push(is_before("cast") || is_before("try_cast")),
            Token::RParen => drop(casts.pop()),
            // What a table or view is made of declares nothing.
            word if is_word(word, "as") && casts.is_empty() => declares = false,
            word if is_word(word, FLOAT) => {
                let is_type = match before {
                    Some(Token::DoubleColon) => true,
                    Some(Token::Word(_)) if is_before("as") => casts.last() == Some(&true),
                    Some(Token::Word(_)) => declares && !NO_COLUMN.into_iter().any(is_before),
                    _ => false,
                };
                let (bits, length) = bits(&statement[at..]);
                if is_type && bits.is_none_or(|bits| bits > BITS_OF_REAL) {
                    let tokens = &statement[at..at + length];
                    let name = Some("FLOAT8");
                    found.push(Edit { tokens, name });
                }
            }
            _ => {}
        }
    }
    found
}

/// The number of bits of a type that begins here, if it has one, and how many tokens it is.
fn bits(tokens: &[TokenWithSpan]) -> (Option<u64>, usize) {
    let token = |at: usize| tokens.get(at).map(|t| &t.token);
    match (token(1), token(2), token(3)) {
        (Some(Token::LParen), Some(Token::Number(bits, _)), Some(Token::RParen)) => {
            (bits.parse().ok(), 4)
        }
        _ => (None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::edited;
    use super::*;

    fn read(text: &str) -> String {
        edited(text, &[FLOAT], doubles).into_owned()
    }

    #[test]
    fn float_is_a_double_wherever_it_is_a_type() {
        for (text, expected) in [
            (
                "SELECT 1::float, 2::FLOAT[]",
                "SELECT 1::FLOAT8, 2::FLOAT8[]",
            ),
            (
                "SELECT CAST(a AS FLOAT(53)), try_cast(f(b) AS float)\nFROM t",
                "SELECT CAST(a AS FLOAT8), try_cast(f(b) AS FLOAT8)\nFROM t",
            ),
            (
                "CREATE TABLE t (a FLOAT, \"b c\" float NOT NULL,\n c FLOAT(24), d FLOAT ( 25 ))",
                "CREATE TABLE t (a FLOAT8, \"b c\" FLOAT8 NOT NULL,\n c FLOAT(24), d FLOAT8   )",
            ),
            (
                "ALTER TABLE t ADD COLUMN ü FLOAT; SELECT 1",
                "ALTER TABLE t ADD COLUMN ü FLOAT8; SELECT 1",
            ),
        ] {
            assert_eq!(read(text), expected);
        }
    }

    #[test]
    fn columns_and_texts_that_are_called_float_and_narrower_types_stay() {
        for same in [
            "SELECT float, t.float, a AS float FROM t WHERE float > 1 ORDER BY float",
            "SELECT (SELECT a AS float FROM t)",
            "CREATE TABLE t (float INT, a REAL, b FLOAT4, c FLOAT(1))",
            "CREATE TABLE t AS SELECT a float FROM u",
            "SELECT 'x::float', \"float\" FROM t",
            "SELECT 1::real, 2::float(24)",
            "SELECT 'float",
        ] {
            assert_eq!(read(same), same);
        }
    }
}
