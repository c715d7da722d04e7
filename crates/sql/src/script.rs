//! Splits scripts into statements with positions, and tells whether input is complete.
//!
//! Splitting works on tokens, so semicolons inside strings, quoted names and comments do not count.
//! No statement is parsed here.

use super::error::{Position, SqlError};
use super::nesting::levels;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::ops::Range;

/// One statement of a script.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Source text, without the semicolon.
    pub text: String,
    /// Position of its first token.
    pub place: Position,
    /// Tokens with their positions in the script, without white space and comments.
    pub(crate) tokens: Vec<TokenWithSpan>,
    /// Upper bound of its nesting depth.
    pub(crate) levels: usize,
    // Byte offsets in `text` of each token's start and end, alternating.
    offsets: Vec<usize>,
}

impl Piece {
    /// The text of tokens `from..to`, padded to its line and column in the script.
    ///
    /// A parser then reports positions in the script.
    pub(crate) fn in_place(&self, from: usize, to: usize) -> String {
        let Some(first) = self.tokens.get(from) else {
            return String::new();
        };
        let start = first.span.start;
        let mut text = "\n".repeat(start.line.saturating_sub(1) as usize);
        text.push_str(&" ".repeat(start.column.saturating_sub(1) as usize));
        text.push_str(self.source(from, to));
        text
    }

    /// The bytes of `text` that token `index` takes.
    pub(crate) fn bytes_of(&self, index: usize) -> Range<usize> {
        self.offsets[2 * index]..self.offsets[2 * index + 1]
    }

    /// The source text of tokens `from..to`.
    pub(crate) fn source(&self, from: usize, to: usize) -> &str {
        let start = self.offsets.get(2 * from).copied();
        let end = to
            .checked_sub(1)
            .and_then(|last| self.offsets.get(2 * last + 1));
        start
            .zip(end.copied())
            .and_then(|(start, end)| self.text.get(start..end))
            .unwrap_or_default()
    }

    /// The position of token `index`, or of the end of the statement.
    pub(crate) fn place_of(&self, index: usize) -> Position {
        let location = self
            .tokens
            .get(index)
            .map(|t| t.span.start)
            .or_else(|| self.tokens.last().map(|t| t.span.end));
        location.map_or(self.place, place)
    }
}

fn place(location: Location) -> Position {
    Position {
        line: location.line,
        column: location.column,
    }
}

/// Splits `text` at semicolons outside of strings, quoted names and comments.
///
/// # Errors
/// Text that no continuation can make SQL: an unterminated string or comment, or an invalid
/// character.
pub fn split(text: &str) -> Result<Vec<Piece>, SqlError> {
    let tokens = tokens(text)?;
    let mut bytes = ByteOffsets::of(text);
    let mut pieces = Vec::new();
    for part in tokens.split(|t| t.token == Token::SemiColon) {
        // An empty statement, as after the last semicolon.
        let Some(first) = part.first() else {
            continue;
        };
        let start = bytes.at(first.span.start);
        let mut offsets = Vec::with_capacity(2 * part.len());
        for token in part {
            offsets.push(bytes.at(token.span.start) - start);
            offsets.push(bytes.at(token.span.end) - start);
        }
        let len = offsets.last().copied().unwrap_or(0);
        pieces.push(Piece {
            text: text[start..start + len].to_owned(),
            place: place(first.span.start),
            offsets,
            levels: levels(part),
            tokens: part.to_vec(),
        });
    }
    Ok(pieces)
}

/// Whether `text` is complete: it ends with a semicolon, or has no tokens.
///
/// Text that can never become SQL counts as complete, so that its error is reported instead of
/// asking for more input.
pub fn is_whole(text: &str) -> bool {
    match tokens(text) {
        Ok(tokens) => tokens.last().is_none_or(|t| t.token == Token::SemiColon),
        // The tokenizer has no error kind for "unterminated", only these messages.
        Err(SqlError::Input { message, .. }) => {
            !message.to_ascii_lowercase().contains("unterminated")
                && !message.contains("Unexpected EOF")
                && !message.contains("before EOF")
        }
        Err(_) => true,
    }
}

fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    let mut tokens = Tokenizer::new(&GenericDialect {}, text)
        .tokenize_with_location()
        .map_err(|e| SqlError::input_at(place(e.location), e.message))?;
    tokens.retain(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF));
    Ok(tokens)
}

/// Converts line and column (in characters) to byte offsets; positions must be ascending.
struct ByteOffsets<'a> {
    rest: std::str::Chars<'a>,
    line: u64,
    column: u64,
    offset: usize,
}

impl<'a> ByteOffsets<'a> {
    fn of(text: &'a str) -> Self {
        ByteOffsets {
            rest: text.chars(),
            line: 1,
            column: 1,
            offset: 0,
        }
    }

    fn at(&mut self, location: Location) -> usize {
        while (self.line, self.column) < (location.line, location.column) {
            let Some(next) = self.rest.next() else { break };
            self.offset += next.len_utf8();
            self.column += 1;
            if next == '\n' {
                self.line += 1;
                self.column = 1;
            }
        }
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        split(script).unwrap().into_iter().map(|p| p.text).collect()
    }

    #[test]
    fn semicolons_in_strings_names_and_comments_part_nothing() {
        let script = "select ';' as \"a;b\" -- c; d\n, 2 /* ; */ ;; select 3";
        assert_eq!(
            texts(script),
            ["select ';' as \"a;b\" -- c; d\n, 2", "select 3"]
        );
        assert!(texts(" ; -- nothing\n").is_empty());
    }

    #[test]
    fn places_count_characters_not_bytes_and_survive_lines() {
        let pieces = split("select 'äöü'; select\n  'é', x").unwrap();
        assert_eq!(pieces[1].text, "select\n  'é', x");
        assert_eq!(
            pieces[1].place,
            Position {
                line: 1,
                column: 15
            }
        );
        assert_eq!(pieces[1].place_of(3), Position { line: 2, column: 8 });
        assert_eq!(pieces[1].source(1, 4), "'é', x");
        assert_eq!(pieces[1].in_place(3, 4), "\n       x");
    }

    #[test]
    fn a_statement_goes_on_until_its_semicolon_and_open_strings_too() {
        for open in [
            "select 1",
            "select ';",
            "select \"a;",
            "select 1 /* ;",
            "select 1; -- x\nselect",
        ] {
            assert!(!is_whole(open), "{open}");
        }
        for whole in [
            "",
            "  \n",
            "select 1;",
            "select 1; -- done",
            "-- only a comment",
        ] {
            assert!(is_whole(whole), "{whole}");
        }
    }

    #[test]
    fn an_open_string_in_a_script_is_told_with_its_place() {
        let error = split("select 1;\nselect 'abc").unwrap_err();
        let SqlError::Input { place, message } = error else {
            panic!("not bad input")
        };
        assert_eq!(place.unwrap().line, 2, "{message}");
        assert!(message.contains("nterminated"), "{message}");
    }
}
