//! The tokens of a text, and texts with others in their places.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// The tokens of a text without white space and comments; `None` for what is no SQL.
pub(crate) fn tokens(text: &str) -> Option<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    let mut tokens = tokens.ok()?;
    tokens.retain(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF));
    Some(tokens)
}

/// The text with `name` in the place of the first token of each part, and nothing in that of the
/// others.
pub(crate) fn replaced(text: &str, parts: &[&[TokenWithSpan]], name: &str) -> String {
    let mut lines: Vec<Vec<char>> = text
        .split('\n')
        .map(|line| line.chars().collect())
        .collect();
    // From the end, so that what is before stays where it is.
    for part in parts.iter().rev() {
        for (at, token) in part.iter().enumerate().rev() {
            let (start, end) = (place(token.span.start), place(token.span.end));
            let name = if at == 0 { name } else { "" };
            if let Some(line) = lines.get_mut(start.0)
                && end.1 <= line.len()
            {
                line.splice(start.1..end.1, name.chars());
            }
        }
    }
    let lines: Vec<String> = lines.into_iter().map(String::from_iter).collect();
    lines.join("\n")
}

/// Line and column, from 0.
pub(crate) fn place(location: Location) -> (usize, usize) {
    let from_0 = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
    (from_0(location.line), from_0(location.column))
}
