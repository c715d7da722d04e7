//! Names of three parts, `tierloom.public.t`, which dbt and other tools write: there is one
//! database, so the first part says nothing.

use super::addresses::with_all_rows;
use super::floats::with_doubles;
use super::tokens::{place, tokens};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::borrow::Cow;
use tierloom_sql::{Piece, SqlError, is_word, split};

/// What `current_database()` answers.
pub(crate) const DATABASE: &str = "tierloom";

/// First words of statements about settings, whose names begin like that of the database.
const OF_SETTINGS: [&str; 3] = ["set", "show", "reset"];

/// The statements of a text as the engine means them: without the database before the schema of a
/// name, and with doubles where PostgreSQL has them.
///
/// # Errors
/// Text that can never be statements.
pub(crate) fn statements(text: &str) -> Result<Vec<Piece>, SqlError> {
    split(&with_all_rows(with_doubles(without_database(text))))
}

/// The text with spaces in the place of the database, so that all else stays where it is.
fn without_database(text: &str) -> Cow<'_, str> {
    // Nearly all texts end here.
    let named = |word: &[u8]| word.eq_ignore_ascii_case(DATABASE.as_bytes());
    if !text.as_bytes().windows(DATABASE.len()).any(named) {
        return Cow::Borrowed(text);
    }
    // The error of what is no SQL is told where the text is split.
    let Some(tokens) = tokens(text) else {
        return Cow::Borrowed(text);
    };
    let statements = tokens.split(|t| t.token == Token::SemiColon);
    let databases = statements
        .filter(|statement| !statement.first().is_some_and(is_of_settings))
        .flat_map(|statement| {
            let places = (0..statement.len()).filter(|at| is_database(statement, *at));
            places.flat_map(|at| &statement[at..at + 2])
        });
    Cow::Owned(blanked(text, databases))
}

fn is_of_settings(token: &TokenWithSpan) -> bool {
    OF_SETTINGS.iter().any(|word| is_word(&token.token, word))
}

/// Whether a name of at least three parts begins here, with the database.
fn is_database(tokens: &[TokenWithSpan], at: usize) -> bool {
    let token = |index: usize| tokens.get(index).map(|t| &t.token);
    let is_point = |index: usize| token(index) == Some(&Token::Period);
    let is_name = |index: usize| matches!(token(index), Some(Token::Word(_)));
    let named = match token(at) {
        Some(Token::Word(word)) if word.quote_style.is_some() => word.value == DATABASE,
        Some(Token::Word(word)) => word.value.eq_ignore_ascii_case(DATABASE),
        _ => false,
    };
    let begins = at == 0 || !is_point(at - 1);
    named && begins && is_point(at + 1) && is_name(at + 2) && is_point(at + 3) && is_name(at + 4)
}

/// The text with spaces in the place of `tokens`, each of which is on one line.
fn blanked<'t>(text: &str, tokens: impl Iterator<Item = &'t TokenWithSpan>) -> String {
    let mut lines: Vec<Vec<char>> = text
        .split('\n')
        .map(|line| line.chars().collect())
        .collect();
    for token in tokens {
        let (start, end) = (place(token.span.start), place(token.span.end));
        if let Some(part) = lines
            .get_mut(start.0)
            .and_then(|l| l.get_mut(start.1..end.1))
        {
            part.fill(' ');
        }
    }
    let lines: Vec<String> = lines.into_iter().map(String::from_iter).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_before_a_schema_is_left_out_and_all_else_stays_in_its_place() {
        for (text, expected) in [
            (
                "SELECT ü, \"tierloom\".\"public\".t.a\nFROM \"tierloom\".\"public\".t",
                "SELECT ü,            \"public\".t.a\nFROM            \"public\".t",
            ),
            (
                "drop table Tierloom.s.t; SELECT 1",
                "drop table          s.t; SELECT 1",
            ),
        ] {
            assert_eq!(without_database(text), expected);
        }
        for same in [
            "SET tierloom.placement.t = 'cxl'",
            "SELECT 1; show tierloom.memory.join",
            "SELECT 'tierloom.public.t', tierloom.t, s.tierloom.t.a FROM tierloom.t",
            "SELECT \"Tierloom\".public.t, 'tierloom",
            "SELECT tierloom_a.public.t FROM tierloom_sessions",
        ] {
            assert_eq!(without_database(same), same);
        }
    }
}
