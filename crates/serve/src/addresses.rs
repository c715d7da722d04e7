//! Addresses of rows, which there are none of.

use super::tokens::Edit;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use tierloom_sql::is_word;

/// The column of addresses.
pub(crate) const ADDRESS: &str = "ctid";

/// The first and the last page that PostgreSQL can have.
const ALL_PAGES: [&str; 2] = ["(0,0)", "(4294967295,0)"];

/// Tokens of `ctid BETWEEN '...'::tid AND '...'::tid`.
const LENGTH: usize = 9;

/// The conditions of a statement that ask for rows on all pages, which `true` replaces.
///
/// DuckDB's extension reads tables in ranges of pages, and one whose pages it does not know in this
/// one. Other ranges stay, and are errors.
pub(crate) fn all_rows(statement: &[TokenWithSpan]) -> Vec<Edit<'_>> {
    let all = statement.windows(LENGTH).filter(|tokens| is_all(tokens));
    let name = Some("true");
    all.map(|tokens| Edit { tokens, name }).collect()
}

fn is_all(tokens: &[TokenWithSpan]) -> bool {
    let word = |at: usize, word| is_word(&tokens[at].token, word);
    let page = |at: usize, page: &str| {
        let text = matches!(&tokens[at].token, Token::SingleQuotedString(t) if t == page);
        text && tokens[at + 1].token == Token::DoubleColon && word(at + 2, "tid")
    };
    let [first, last] = ALL_PAGES;
    word(0, ADDRESS) && word(1, "between") && page(2, first) && word(5, "and") && page(6, last)
}

#[cfg(test)]
mod tests {
    use super::super::tokens::edited;
    use super::*;

    #[test]
    fn all_pages_are_all_rows_and_other_ranges_and_texts_stay() {
        let read = |text: &str| edited(text, &[ADDRESS], all_rows).into_owned();
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
