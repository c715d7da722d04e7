//! Upper bound of the nesting depth of a statement, computed from its tokens before parsing.
//!
//! The parser and the planner recurse over the syntax tree. The bound decides how large a stack
//! they get, so it may be too high but never too low.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The deepest nesting of the syntax tree that `tokens` can have.
///
/// Operators of one expression can form a chain, elements of a list cannot. Joins and set
/// operations of one query form a chain across its lists.
pub(super) fn levels(tokens: &[TokenWithSpan]) -> usize {
    let mut open = vec![Bracket::default()];
    let mut before = None;
    for token in tokens.iter().map(|t| &t.token) {
        let top = open.len() - 1;
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => open.push(Bracket::default()),
            Token::RParen | Token::RBracket | Token::RBrace if top > 0 => {
                let inner = open.pop().map_or(0, |b| b.levels());
                let outer = &mut open[top - 1];
                outer.inner = outer.inner.max(inner + 1);
            }
            Token::Comma => open[top].next_element(),
            Token::Word(word) if word.quote_style.is_none() => open[top].word(word.keyword),
            Token::Minus | Token::Plus if begins_value(before) => {}
            Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::Period => {}
            // Any other token counts as an operator: an upper bound is enough.
            _ => open[top].operators += 1,
        }
        before = Some(token);
    }
    // Unbalanced brackets are reported by the parser.
    open.iter().map(Bracket::levels).sum()
}

/// Whether a value follows `before`, so that a sign belongs to the value.
fn begins_value(before: Option<&Token>) -> bool {
    matches!(before, Some(Token::LParen | Token::Comma))
}

/// Counts within one pair of brackets.
#[derive(Default)]
struct Bracket {
    /// Operators of the current list element.
    operators: usize,
    /// Depth of the deepest bracket in the current element.
    inner: usize,
    /// Depth of the deepest earlier element.
    deepest: usize,
    /// Joins and set operations.
    queries: usize,
    /// Whether commas separate joined tables (FROM) instead of list elements.
    from: bool,
}

impl Bracket {
    fn next_element(&mut self) {
        if self.from {
            self.queries += 1;
        }
        self.deepest = self.deepest.max(self.operators + self.inner);
        self.operators = 0;
        self.inner = 0;
    }

    fn word(&mut self, keyword: Keyword) {
        use Keyword::{
            AND, BETWEEN, CASE, COLLATE, ELSE, EXCEPT, EXPLAIN, FROM, GROUP, HAVING, ILIKE, IN,
            INTERSECT, INTERVAL, IS, JOIN, LIKE, LIMIT, NOT, OR, ORDER, SELECT, UNION, VALUES,
            WHERE, WITH,
        };
        match keyword {
            JOIN | UNION | EXCEPT | INTERSECT | EXPLAIN | WITH => {
                self.queries += 1;
                self.from &= keyword == JOIN;
            }
            FROM => self.from = true,
            SELECT | VALUES | WHERE | GROUP | HAVING | ORDER | LIMIT => self.from = false,
            AND | OR | NOT | IS | IN | LIKE | ILIKE | BETWEEN | CASE | ELSE | COLLATE
            | INTERVAL => self.operators += 1,
            _ => {}
        }
    }

    fn levels(&self) -> usize {
        self.queries + self.deepest.max(self.operators + self.inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split;

    fn of(text: &str) -> usize {
        levels(&split(text).unwrap()[0].tokens)
    }

    #[test]
    fn chains_brackets_and_queries_nest_and_lists_do_not() {
        assert!(of(&format!("select 1 where 1=1{}", " and 1=1".repeat(10_000))) >= 10_000);
        assert!(
            of(&format!(
                "select 1{}",
                " union all select 1, 2".repeat(3_000)
            )) >= 3_000
        );
        assert!(of(&format!("select {}1{}", "(".repeat(500), ")".repeat(500))) >= 500);
        assert!(of(&format!("select 1 from a{}", ", a".repeat(800))) >= 800);
        assert!(of(&format!("select {}1", "- ".repeat(900))) >= 900);
        let cases = "case when a then 1 else ".repeat(700);
        assert!(of(&format!("select {cases} 2 {}", "end ".repeat(700))) >= 700);
        let list = ", -7".repeat(100_000);
        assert!(of(&format!("select a in (1{list}) from t")) < 20);
        let rows = ", (-1, 'x')".repeat(10_000);
        assert!(of(&format!("select * from (values (1, 'y'){rows}) as t")) < 20);
    }
}
