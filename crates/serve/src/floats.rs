//! `FLOAT`, which is `double precision` in PostgreSQL and `real` in DataFusion.
//!
//! Clients of PostgreSQL write it for their doubles, and would lose digits without an error.

use super::tokens::{replaced, tokens};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::borrow::Cow;
use tierloom_sql::is_word;

/// Bits of the fraction of a `real`: PostgreSQL takes `FLOAT(p)` as `real` up to here, and as
/// `double precision` beyond (its manual, section "Floating-Point Types").
const BITS_OF_REAL: u64 = 24;

/// Words behind which the name of a column cannot end, so that what follows is no type.
const NO_COLUMN: [&str; 12] = [
    "as", "select", "distinct", "by", "where", "and", "or", "not", "on", "default", "key", "table",
];

/// The text with `FLOAT8` where a type is `FLOAT` and has more bits than a `real`.
///
/// A line becomes a character longer for each `FLOAT` without a number of bits.
pub(crate) fn with_doubles(text: Cow<'_, str>) -> Cow<'_, str> {
    // Nearly all texts end here.
    let named = |word: &[u8]| word.eq_ignore_ascii_case(b"float");
    if !text.as_bytes().windows(5).any(named) {
        return text;
    }
    // The error of what is no SQL is told where the text is split.
    let Some(tokens) = tokens(&text) else {
        return text;
    };
    let statements = tokens.split(|t| t.token == Token::SemiColon);
    let doubles: Vec<&[TokenWithSpan]> = statements.flat_map(doubles).collect();
    if doubles.is_empty() {
        return text;
    }
    Cow::Owned(replaced(&text, &doubles, "FLOAT8"))
}

/// The types of a statement that are doubles, each with its number of bits.
fn doubles(statement: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let first = |word| statement.first().is_some_and(|t| is_word(&t.token, word));
    let mut declares = first("create") || first("alter");
    // Of each bracket that is open, whether it is that of a cast.
    let mut casts: Vec<bool> = Vec::new();
    let mut found = Vec::new();
    for (at, token) in statement.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &statement[before].token);
        match &token.token {
            Token::LParen => {
                casts.push(before.is_some_and(|t| is_word(t, "cast") || is_word(t, "try_cast")))
            }
            Token::RParen => drop(casts.pop()),
            // What a table or view is made of declares nothing.
            word if is_word(word, "as") && casts.is_empty() => declares = false,
            word if is_word(word, "float") => {
                let is_type = match before {
                    Some(Token::DoubleColon) => true,
                    Some(Token::Word(name)) if is_word(&statement[at - 1].token, "as") => {
                        name.quote_style.is_none() && casts.last() == Some(&true)
                    }
                    Some(before @ Token::Word(_)) => {
                        declares && !NO_COLUMN.iter().any(|word| is_word(before, word))
                    }
                    _ => false,
                };
                let (bits, length) = bits(&statement[at..]);
                if is_type && bits.is_none_or(|bits| bits > BITS_OF_REAL) {
                    found.push(&statement[at..at + length]);
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
    use super::*;

    fn read(text: &str) -> String {
        with_doubles(Cow::Borrowed(text)).into_owned()
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
