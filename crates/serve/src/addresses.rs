//! Addresses of rows, which there are none of.

use super::tokens::{replaced, tokens};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::borrow::Cow;
use tierloom_sql::is_word;

/// The first and the last page that PostgreSQL can have.
const ALL_PAGES: [&str; 2] = ["(0,0)", "(4294967295,0)"];

/// Tokens of `ctid BETWEEN '...'::tid AND '...'::tid`.
const LENGTH: usize = 9;

/// The text with `true` where rows on all pages are asked for.
///
/// DuckDB's extension reads tables in ranges of pages, and one whose pages it does not know in this
/// one. Other ranges stay, and are errors.
pub(crate) fn with_all_rows(text: Cow<'_, str>) -> Cow<'_, str> {
    // Nearly all texts end here.
    if !text.contains("ctid") {
        return text;
    }
    let Some(tokens) = tokens(&text) else {
        return text;
    };
    let all: Vec<&[TokenWithSpan]> = tokens.windows(LENGTH).filter(|t| is_all(t)).collect();
    if all.is_empty() {
        return text;
    }
    Cow::Owned(replaced(&text, &all, "true"))
}

fn is_all(tokens: &[TokenWithSpan]) -> bool {
    let word = |at: usize, word| is_word(&tokens[at].token, word);
    let page = |at: usize, page: &str| {
        let text = matches!(&tokens[at].token, Token::SingleQuotedString(t) if t == page);
        text && tokens[at + 1].token == Token::DoubleColon && word(at + 2, "tid")
    };
    let [first, last] = ALL_PAGES;
    word(0, "ctid") && word(1, "between") && page(2, first) && word(5, "and") && page(6, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pages_are_all_rows_and_other_ranges_and_texts_stay() {
        let read = |text: &str| with_all_rows(Cow::Borrowed(text)).into_owned();
        let all = "ctid BETWEEN '(0,0)'::tid AND '(4294967295,0)'::tid";
        let asked = format!("COPY (SELECT a FROM t WHERE {all} AND a > 1) TO STDOUT");
        let found = read(&asked);
        let words: Vec<&str> = found.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "COPY (SELECT a FROM t WHERE true AND a > 1) TO STDOUT"
        );
        for same in [
            "SELECT a FROM t WHERE ctid BETWEEN '(0,0)'::tid AND '(1000,0)'::tid",
            "SELECT 'ctid BETWEEN ''(0,0)''::tid'",
            "SELECT ctid FROM t",
        ] {
            assert_eq!(read(same), same);
        }
    }
}
