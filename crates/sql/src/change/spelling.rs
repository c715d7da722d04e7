//! Names as they are typed, where DataFusion is told not to fold them.

use super::super::error::SqlError;
use super::super::session::SqlSession;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

impl SqlSession {
    /// The statement with names in double quotes if `enable_ident_normalization` is off; what is
    /// read here of a statement folds the other ones to lower case.
    pub(super) fn spelled(&self, parsed: &Parsed) -> Result<Parsed, SqlError> {
        let engine = self.catalog.engine();
        let state = engine.context().state();
        if state.config_options().sql_parser.enable_ident_normalization {
            return Ok(parsed.clone());
        }
        let text = with_quotes(&parsed.to_string())?;
        engine.parse(&text).map_err(|e| SqlError::planning(&e))
    }
}

fn with_quotes(text: &str) -> Result<String, SqlError> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
    let tokens = tokens.map_err(SqlError::failed)?.into_iter();
    let tokens = tokens.map(|token| match token {
        Token::Word(mut word) if word.keyword == Keyword::NoKeyword => {
            word.quote_style.get_or_insert('"');
            Token::Word(word)
        }
        other => other,
    });
    Ok(tokens.map(|token| token.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_words_of_sql_texts_and_numbers_are_not() {
        let text = "INSERT INTO T (Abc, \"D e\") VALUES ('x y', -1.5e3)";
        let quoted = "INSERT INTO \"T\" (\"Abc\", \"D e\") VALUES ('x y', -1.5e3)";
        assert_eq!(with_quotes(text).unwrap(), quoted);
    }
}
