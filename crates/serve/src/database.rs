//! Names of three parts, `tierloom.public.t`, which dbt and other tools write: there is one
//! database, so the first part says nothing.

use super::addresses::{ADDRESS, all_rows};
use super::floats::{FLOAT, doubles};
use super::tokens::{Edit, edited};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use tierloom_sql::{Piece, SqlError, is_word, split};

/// What `current_database()` answers.
pub(crate) const DATABASE: &str = "tierloom";

/// First words of statements about settings, whose names begin like that of the database.
const OF_SETTINGS: [&str; 3] = ["set", "show", "reset"];

/// The statements of a text as the engine means them: without the database before the schema of a
/// name, with doubles where PostgreSQL has them, and without addresses of rows.
///
/// # Errors
/// Text that can never be statements.
pub(crate) fn statements(text: &str) -> Result<Vec<Piece>, SqlError> {
    let meant = edited(text, &[DATABASE, FLOAT, ADDRESS], |statement| {
        let edits = [databases, doubles, all_rows].map(|edits| edits(statement));
        edits.into_iter().flatten().collect()
    });
    split(&meant)
}

/// The names of the database in a statement, which spaces replace.
fn databases(statement: &[TokenWithSpan]) -> Vec<Edit<'_>> {
    if statement.first().is_some_and(is_of_settings) {
        return Vec::new();
    }
    let places = (0..statement.len()).filter(|at| is_database(statement, *at));
    let edits = places.map(|at| Edit {
        tokens: &statement[at..at + 2],
        name: None,
    });
    edits.collect()
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
            assert_eq!(edited(text, &[DATABASE], databases), expected);
        }
        for same in [
            "SET tierloom.placement.t = 'cxl'",
            "SELECT 1; show tierloom.memory.join",
            "SELECT 'tierloom.public.t', tierloom.t, s.tierloom.t.a FROM tierloom.t",
            "SELECT \"Tierloom\".public.t, 'tierloom",
            "SELECT tierloom_a.public.t FROM tierloom_sessions",
        ] {
            assert_eq!(edited(same, &[DATABASE], databases), same);
        }
    }
}
