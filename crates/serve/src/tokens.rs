//! Texts with changes at some of their tokens.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::borrow::Cow;

/// A change of a text. Each token is on one line.
pub(crate) struct Edit<'t> {
    pub tokens: &'t [TokenWithSpan],
    /// What stands in their place; `None` for spaces, with which all else stays where it is.
    pub name: Option<&'static str>,
}

/// The text with the changes that `edits` finds in its statements, which have no white space and no
/// comments; changes do not overlap. Only texts that contain one of `words`, in any case, have any.
pub(crate) fn edited<'t>(
    text: &'t str,
    words: &[&str],
    edits: impl for<'s> Fn(&'s [TokenWithSpan]) -> Vec<Edit<'s>>,
) -> Cow<'t, str> {
    // Nearly all texts end here.
    let is_in_text = |word: &&str| {
        let mut parts = text.as_bytes().windows(word.len());
        parts.any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    if !words.iter().any(is_in_text) {
        return Cow::Borrowed(text);
    }
    // The error of what is no SQL is told where the text is split.
    let Ok(mut tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location() else {
        return Cow::Borrowed(text);
    };
    tokens.retain(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF));
    let statements = tokens.split(|t| t.token == Token::SemiColon);
    let mut found: Vec<Edit<'_>> = statements.flat_map(edits).collect();
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|edit| edit.tokens.first().map(|token| place(token.span.start)));
    Cow::Owned(applied(text, &found))
}

fn applied(text: &str, edits: &[Edit<'_>]) -> String {
    let mut lines: Vec<Vec<char>> = text
        .split('\n')
        .map(|line| line.chars().collect())
        .collect();
    // From the end, so that what is before stays where it is.
    for edit in edits.iter().rev() {
        for (at, token) in edit.tokens.iter().enumerate().rev() {
            let (start, end) = (place(token.span.start), place(token.span.end));
            let Some(line) = lines.get_mut(start.0) else {
                continue;
            };
            if start.0 != end.0 || end.1 > line.len() {
                continue;
            }
            let columns = start.1..end.1;
            match edit.name {
                None => line[columns].fill(' '),
                Some(name) => {
                    let name = if at == 0 { name } else { "" };
                    line.splice(columns, name.chars());
                }
            }
        }
    }
    let lines: Vec<String> = lines.into_iter().map(String::from_iter).collect();
    lines.join("\n")
}

/// Line and column, from 0.
fn place(location: Location) -> (usize, usize) {
    let from_0 = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
    (from_0(location.line), from_0(location.column))
}
