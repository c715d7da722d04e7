//! Statements with values in the place of `$1`, `$2` and so on.
//!
//! The values become part of the text, so that each is planned as what it is and the plan has its
//! statistics; errors still get the place in the text that the author wrote.

use super::error::{Position, SqlError};
use super::script::{Piece, split};
use datafusion::sql::sqlparser::tokenizer::Token;

/// A statement whose parameters were replaced by literals.
#[derive(Debug, Clone)]
pub struct WithValues {
    piece: Piece,
    /// For each literal, its end in the new text and the end of its parameter in the old one.
    ends: Vec<(Position, Position)>,
}

impl WithValues {
    /// Replaces every `$n` of `piece` by the n-th of `literals`, SQL expressions such as `'it''s'`.
    ///
    /// # Errors
    /// Bad input: a parameter of another form, without a value, or a value without a parameter.
    pub fn new(piece: &Piece, literals: &[String]) -> Result<WithValues, SqlError> {
        let mut used = vec![false; literals.len()];
        // Padded to its place, so that positions in the new text are positions in the script.
        let mut text = piece.in_place(0, 0);
        let mut copied = 0;
        let mut ends = Vec::new();
        for (index, token) in piece.tokens.iter().enumerate() {
            let Token::Placeholder(name) = &token.token else {
                continue;
            };
            let place = piece.place_of(index);
            let number = number(name, place)?;
            let Some(literal) = literals.get(number - 1) else {
                return Err(SqlError::input_at(
                    place,
                    format!("{name} has no value: {}", given(literals.len())),
                ));
            };
            used[number - 1] = true;
            let bytes = piece.bytes_of(index);
            text.push_str(&piece.text[copied..bytes.start]);
            text.push_str(literal);
            copied = bytes.end;
            let old_end = token.span.end;
            let old_end = Position {
                line: old_end.line,
                column: old_end.column,
            };
            ends.push((end_of(&text), old_end));
        }
        text.push_str(&piece.text[copied..]);
        if let Some(unused) = used.iter().position(|used| !used) {
            return Err(SqlError::input_at(
                piece.place,
                format!(
                    "{}, and the statement has no ${}",
                    given(literals.len()),
                    unused + 1
                ),
            ));
        }
        let mut pieces = split(&text)?;
        match (pieces.pop(), pieces.is_empty()) {
            (Some(piece), true) => Ok(WithValues { piece, ends }),
            _ => Err(SqlError::input_at(
                piece.place,
                "a value has to be one literal",
            )),
        }
    }

    /// The statement to run.
    pub fn piece(&self) -> &Piece {
        &self.piece
    }

    /// `error` with its position in the text before the values were put in.
    pub fn placed(&self, error: SqlError) -> SqlError {
        match error {
            SqlError::Input {
                place: Some(place),
                message,
            } => SqlError::input_at(self.original(place), message),
            other => other,
        }
    }

    fn original(&self, place: Position) -> Position {
        let key = |p: Position| (p.line, p.column);
        let mut before = self.ends.iter().rev();
        let Some((new, old)) = before.find(|(new, _)| key(*new) <= key(place)) else {
            return place;
        };
        if place.line == new.line {
            return Position {
                line: old.line,
                column: place.column - new.column + old.column,
            };
        }
        Position {
            line: place.line - new.line + old.line,
            column: place.column,
        }
    }
}

/// The statement with `$1`, `$2` and so on in the place of parameters that are written `?`.
///
/// # Errors
/// A text that can never be SQL.
pub fn numbered(piece: Piece) -> Result<Piece, SqlError> {
    let is_plain = |token: &Token| match token {
        Token::Question => true,
        Token::Placeholder(name) => name == "?",
        _ => false,
    };
    if !piece.tokens.iter().any(|token| is_plain(&token.token)) {
        return Ok(piece);
    }
    let mut text = piece.in_place(0, 0);
    let (mut copied, mut number) = (0, 0);
    for (index, token) in piece.tokens.iter().enumerate() {
        if is_plain(&token.token) {
            let bytes = piece.bytes_of(index);
            number += 1;
            text.push_str(&piece.text[copied..bytes.start]);
            text.push_str(&format!("${number}"));
            copied = bytes.end;
        }
    }
    text.push_str(&piece.text[copied..]);
    Ok(split(&text)?.pop().unwrap_or(piece))
}

/// The n of `$n`, from 1; `None` for a parameter of another form.
pub(super) fn number_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix('$')?.parse().ok()?;
    (number > 0).then_some(number)
}

fn number(name: &str, place: Position) -> Result<usize, SqlError> {
    number_of(name).ok_or_else(|| {
        SqlError::input_at(
            place,
            format!("{name} is no parameter; they are written $1, $2 and so on"),
        )
    })
}

fn given(values: usize) -> String {
    match values {
        1 => "1 value is given".into(),
        n => format!("{n} values are given"),
    }
}

/// The position behind the last character of `text`.
fn end_of(text: &str) -> Position {
    let (before, line) = text.rsplit_once('\n').unwrap_or(("", text));
    let lines = before.matches('\n').count() + usize::from(text.contains('\n'));
    Position {
        line: lines as u64 + 1,
        column: line.chars().count() as u64 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, literals: &[&str]) -> Result<WithValues, SqlError> {
        let literals: Vec<String> = literals.iter().map(|text| (*text).to_owned()).collect();
        WithValues::new(&split(text).unwrap()[0], &literals)
    }

    #[test]
    fn only_parameters_are_replaced_and_each_may_be_used_again() {
        let with = with("select '$1', $2 /* $3 */ , $1+$2", &["7", "'a;b'"]).unwrap();
        assert_eq!(with.piece().text, "select '$1', 'a;b' /* $3 */ , 7+'a;b'");
    }

    #[test]
    fn errors_behind_values_have_the_place_that_the_author_sees() {
        let with = with("select $1, $2\n, x, $1, y", &["'long\nvalue'", "2"]).unwrap();
        let text = &with.piece().text;
        assert_eq!(text, "select 'long\nvalue', 2\n, x, 'long\nvalue', y");
        let place = |line, column| Position { line, column };
        for (new, old) in [
            (place(1, 3), place(1, 3)),
            (place(2, 9), place(1, 12)),
            (place(3, 3), place(2, 3)),
            (place(4, 9), place(2, 10)),
        ] {
            let found = with.placed(SqlError::input_at(new, "x"));
            assert_eq!(found, SqlError::input_at(old, "x"), "{new}");
        }
    }

    #[test]
    fn parameters_without_numbers_get_them_in_their_order() {
        let given = split("select '?', ? /* ? */, \"?\" from t where a = ?").unwrap();
        let piece = numbered(given.into_iter().next().unwrap()).unwrap();
        assert_eq!(
            piece.text,
            "select '?', $1 /* ? */, \"?\" from t where a = $2"
        );
    }

    #[test]
    fn wrong_numbers_of_values_are_refused_with_the_parameter() {
        for (text, literals, expected) in [
            ("select $2", &["1"][..], "$2 has no value: 1 value is given"),
            (
                "select $1",
                &["1", "2"],
                "2 values are given, and the statement has no $2",
            ),
            ("select $x", &["1"], "$x is no parameter"),
            ("select $0", &["1"], "$0 is no parameter"),
            ("select $1", &["1; drop table t"], "one literal"),
        ] {
            let error = with(text, literals).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
