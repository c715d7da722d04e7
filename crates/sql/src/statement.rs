//! Recognises Tierloom's own statements by their first words; everything else is DataFusion's.
//!
//! Works on tokens, so keywords are recognised in any case and never inside strings or comments.
//! Positions are kept for error messages.

use super::error::SqlError;
use super::format::Format;
use super::script::Piece;
use datafusion::sql::sqlparser::tokenizer::Token;

/// A statement, as far as its first words classify it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Statement {
    /// `EXPLAIN [ANALYZE] PLACEMENT query`.
    ExplainPlacement {
        /// Whether to run the query and report measured numbers.
        analyze: bool,
        /// The query, padded to its lines and columns in the script.
        query: String,
    },
    /// `SET tierloom.name = value`.
    Set {
        /// The parts of the name after `tierloom.`.
        name: Vec<String>,
        value: String,
    },
    /// `SHOW tierloom.name`, `SHOW tierloom.*`.
    Show {
        /// The name after `tierloom.`; `None` for all settings.
        name: Option<String>,
    },
    /// `ANALYZE table`.
    Analyze {
        table: String,
    },
    /// `VACUUM table`.
    Vacuum {
        table: String,
    },
    /// `COPY (query) TO 'file' (FORMAT format)`.
    Copy(Copy),
    DataFusion,
}

/// A parsed `COPY ... TO`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Copy {
    /// The query whose rows are written, padded to its lines and columns in the script.
    pub query: String,
    /// Position of the table name, if a table was named instead of a query.
    pub table_place: Option<super::Position>,
    pub path: String,
    /// The format, explicit or derived from the file name.
    pub format: Format,
    /// Field separator of CSV.
    pub delimiter: u8,
    /// Whether CSV starts with a line of column names.
    pub header: bool,
}

/// Classifies a statement by its first words.
///
/// # Errors
/// A statement of Tierloom's own that is incomplete or has excess tokens.
pub(crate) fn recognise(piece: &Piece) -> Result<Statement, SqlError> {
    let cursor = &mut TokenCursor { piece, next: 0 };
    if cursor.word("EXPLAIN") {
        // Without PLACEMENT the cursor is discarded, and DataFusion parses from the start.
        let analyze = cursor.word("ANALYZE");
        if !cursor.word("PLACEMENT") {
            return Ok(Statement::DataFusion);
        }
        return explain(cursor, analyze);
    }
    if cursor.word("SET") {
        return set(cursor);
    }
    if cursor.word("SHOW") {
        return show(cursor);
    }
    if cursor.word("ANALYZE") {
        // Optional, as in other dialects.
        cursor.word("TABLE");
        let table = cursor.name("the name of a table")?;
        cursor.end()?;
        return Ok(Statement::Analyze { table });
    }
    if cursor.word("VACUUM") {
        let table = cursor.name("the name of a table")?;
        cursor.end()?;
        return Ok(Statement::Vacuum { table });
    }
    if cursor.word("COPY") {
        return copy(cursor).map(Statement::Copy);
    }
    Ok(Statement::DataFusion)
}

fn explain(cursor: &mut TokenCursor<'_>, analyze: bool) -> Result<Statement, SqlError> {
    let query = cursor.rest();
    if query.is_empty() {
        return Err(cursor.expected("a query after EXPLAIN PLACEMENT"));
    }
    Ok(Statement::ExplainPlacement { analyze, query })
}

fn set(cursor: &mut TokenCursor<'_>) -> Result<Statement, SqlError> {
    if !(cursor.word("TIERLOOM") && cursor.token(&Token::Period)) {
        return Ok(Statement::DataFusion);
    }
    let mut name = vec![cursor.name("the name of a setting")?];
    while cursor.token(&Token::Period) {
        name.push(cursor.name("the rest of the setting's name")?);
    }
    if !cursor.token(&Token::Eq) && !cursor.word("TO") {
        return Err(cursor.expected("= and a value"));
    }
    let value = cursor.value();
    if value.is_empty() {
        return Err(cursor.expected("a value, such as 'dram'"));
    }
    Ok(Statement::Set { name, value })
}

fn show(cursor: &mut TokenCursor<'_>) -> Result<Statement, SqlError> {
    if !cursor.word("TIERLOOM") {
        return Ok(Statement::DataFusion);
    }
    let name = if !cursor.token(&Token::Period) || cursor.token(&Token::Mul) {
        None
    } else {
        let mut name = cursor.name("the name of a setting, or *")?;
        while cursor.token(&Token::Period) {
            name.push('.');
            name.push_str(&cursor.name("the rest of the setting's name")?);
        }
        Some(name)
    };
    cursor.end()?;
    Ok(Statement::Show { name })
}

fn copy(cursor: &mut TokenCursor<'_>) -> Result<Copy, SqlError> {
    let (query, table_place) = if cursor.token(&Token::LParen) {
        (cursor.bracketed()?, None)
    } else {
        let (from, place) = (cursor.next, cursor.place());
        cursor.name("a table, or a query in brackets")?;
        while cursor.token(&Token::Period) {
            cursor.name("the rest of the table's name")?;
        }
        // As typed: quotes and case have to survive.
        let name = cursor.piece.source(from, cursor.next);
        (format!("SELECT * FROM {name}"), Some(place))
    };
    if !cursor.word("TO") {
        return Err(cursor.expected("TO and a file name in single quotes"));
    }
    let path = cursor.string("a file name in single quotes")?;
    let mut options = CopyOptions::default();
    if cursor.word("STORED") {
        if !cursor.word("AS") {
            return Err(cursor.expected("AS and a format"));
        }
        options.set(cursor, "format")?;
    }
    // Optional, as in PostgreSQL.
    cursor.word("WITH");
    if cursor.token(&Token::LParen) {
        loop {
            let name = cursor.name("an option: format, delimiter or header")?;
            cursor.token(&Token::Eq);
            options.set(cursor, &name.to_ascii_lowercase())?;
            if !cursor.token(&Token::Comma) {
                break;
            }
        }
        if !cursor.token(&Token::RParen) {
            return Err(cursor.expected("a comma or a closing bracket"));
        }
    }
    cursor.end()?;
    let format = match options.format {
        Some(format) => format,
        None => Format::of_path(&path).map_err(|e| SqlError::input_at(cursor.piece.place, e))?,
    };
    Ok(Copy {
        query,
        table_place,
        path,
        format,
        delimiter: options.delimiter.unwrap_or(b','),
        header: options.header.unwrap_or(true),
    })
}

#[derive(Default)]
struct CopyOptions {
    format: Option<Format>,
    delimiter: Option<u8>,
    header: Option<bool>,
}

impl CopyOptions {
    /// Reads the value of option `name` at the cursor.
    fn set(&mut self, cursor: &mut TokenCursor<'_>, name: &str) -> Result<(), SqlError> {
        let place = cursor.place();
        let value = cursor.one_value("a value")?;
        let wrong = |message: String| Err(SqlError::input_at(place, message));
        match name {
            "format" => match value.parse() {
                Ok(format) => self.format = Some(format),
                Err(message) => return wrong(message),
            },
            "delimiter" => match value.as_bytes() {
                [byte] => self.delimiter = Some(*byte),
                _ => return wrong(format!("delimiter {value:?} is not one ASCII character")),
            },
            "header" => match value.to_ascii_lowercase().as_str() {
                "true" | "on" | "1" => self.header = Some(true),
                "false" | "off" | "0" => self.header = Some(false),
                _ => return wrong(format!("header {value:?} is neither true nor false")),
            },
            _ => {
                return wrong(format!(
                    "COPY has no option {name}; it has format, delimiter and header"
                ));
            }
        }
        Ok(())
    }
}

/// A position in the tokens of a statement.
struct TokenCursor<'a> {
    piece: &'a Piece,
    next: usize,
}

/// Whether a token is the unquoted keyword `word`, in any case.
pub fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w)
        if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

impl TokenCursor<'_> {
    fn peek(&self) -> Option<&Token> {
        self.piece.tokens.get(self.next).map(|t| &t.token)
    }

    fn place(&self) -> super::Position {
        self.piece.place_of(self.next)
    }

    /// Consumes the unquoted keyword `word`, in any case, if it comes next.
    fn word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|token| is_word(token, word));
        self.next += usize::from(found);
        found
    }

    fn token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.next += usize::from(found);
        found
    }

    /// Consumes a name; unquoted names are folded to lower case, as SQL requires.
    fn name(&mut self, what: &str) -> Result<String, SqlError> {
        let name = match self.peek() {
            Some(Token::Word(w)) if w.quote_style.is_none() => w.value.to_lowercase(),
            Some(Token::Word(w)) => w.value.clone(),
            _ => return Err(self.expected(what)),
        };
        self.next += 1;
        Ok(name)
    }

    fn string(&mut self, what: &str) -> Result<String, SqlError> {
        let Some(Token::SingleQuotedString(text)) = self.peek() else {
            return Err(self.expected(what));
        };
        let text = text.clone();
        self.next += 1;
        Ok(text)
    }

    /// Consumes one token as a value.
    fn one_value(&mut self, what: &str) -> Result<String, SqlError> {
        let value = match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => text.clone(),
            Some(Token::Word(word)) => word.value.clone(),
            Some(Token::Number(digits, _)) => digits.clone(),
            _ => return Err(self.expected(what)),
        };
        self.next += 1;
        Ok(value)
    }

    /// Consumes the rest as a value: a string without its quotes, or the source text.
    fn value(&mut self) -> String {
        let from = self.next;
        self.next = self.piece.tokens.len();
        // A single token may be quoted; several, as in 3:2, are taken as typed.
        match &self.piece.tokens[from.min(self.next)..] {
            [one] => match &one.token {
                Token::SingleQuotedString(text) => text.clone(),
                Token::Word(word) => word.value.clone(),
                _ => self.piece.source(from, self.next).to_owned(),
            },
            _ => self.piece.source(from, self.next).to_owned(),
        }
    }

    /// Consumes up to the bracket that closes the one just opened; returns the text between them.
    fn bracketed(&mut self) -> Result<String, SqlError> {
        let from = self.next;
        let mut depth = 1;
        while let Some(token) = self.peek() {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            self.next += 1;
            if depth == 0 {
                let text = self.piece.in_place(from, self.next - 1);
                return if text.trim().is_empty() {
                    Err(SqlError::input_at(
                        self.piece.place_of(from),
                        "the brackets are empty; expected a query",
                    ))
                } else {
                    Ok(text)
                };
            }
        }
        Err(self.expected("a closing bracket"))
    }

    fn rest(&mut self) -> String {
        let from = self.next;
        self.next = self.piece.tokens.len();
        self.piece.in_place(from, self.next)
    }

    fn end(&self) -> Result<(), SqlError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the statement")),
        }
    }

    fn expected(&self, what: &str) -> SqlError {
        let found = self
            .peek()
            .map_or("the end of the statement".to_owned(), ToString::to_string);
        SqlError::input_at(self.place(), format!("expected {what}, found {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::split;
    use super::*;

    fn read(text: &str) -> Result<Statement, SqlError> {
        recognise(&split(text).unwrap()[0])
    }

    fn error(text: &str) -> String {
        let SqlError::Input {
            place: Some(place),
            message,
        } = read(text).unwrap_err()
        else {
            panic!("{text}: no place")
        };
        format!("{place} {message}")
    }

    #[test]
    fn words_of_our_own_are_recognised_and_the_rest_is_left_alone() {
        let explain = |analyze, query: &str| Statement::ExplainPlacement {
            analyze,
            query: query.into(),
        };
        assert_eq!(
            read("explain placement select 1").unwrap(),
            explain(false, &format!("{}select 1", " ".repeat(18)))
        );
        assert!(matches!(
            read("EXPLAIN ANALYZE PLACEMENT SELECT 1").unwrap(),
            Statement::ExplainPlacement { analyze: true, .. }
        ));
        for other in [
            "explain select 1",
            "explain analyze select placement from t",
            "set datafusion.execution.batch_size = 1",
            "show tables",
            "select 1",
            "create table t as select 1",
        ] {
            assert_eq!(read(other).unwrap(), Statement::DataFusion, "{other}");
        }
    }

    #[test]
    fn settings_keep_quoted_names_and_take_values_with_and_without_quotes() {
        let set = |name: &[&str], value: &str| Statement::Set {
            name: name.iter().map(|n| (*n).to_owned()).collect(),
            value: value.into(),
        };
        assert_eq!(
            read("SET tierloom.placement = '3:2'").unwrap(),
            set(&["placement"], "3:2")
        );
        assert_eq!(
            read("set Tierloom.Placement.\"My T\".col to 3:2").unwrap(),
            set(&["placement", "My T", "col"], "3:2")
        );
        assert_eq!(
            read("set tierloom.threads = 4").unwrap(),
            set(&["threads"], "4")
        );
        assert_eq!(
            read("show tierloom.*").unwrap(),
            Statement::Show { name: None }
        );
    }

    #[test]
    fn copies_take_queries_tables_formats_and_options() {
        let Statement::Copy(copy) =
            read("COPY (select ')' , (1)) TO 'a b.txt' (FORMAT csv, DELIMITER ';', HEADER false)")
                .unwrap()
        else {
            panic!("no copy")
        };
        assert_eq!(copy.query.trim(), "select ')' , (1)");
        assert_eq!(
            (copy.path.as_str(), copy.format, copy.delimiter, copy.header),
            ("a b.txt", Format::Csv, b';', false)
        );
        let Statement::Copy(copy) = read("copy t to 'x.parquet'").unwrap() else {
            panic!("no copy")
        };
        assert_eq!(
            (copy.query.as_str(), copy.format),
            ("SELECT * FROM t", Format::Parquet)
        );
    }

    #[test]
    fn what_is_missing_is_told_where_it_is_missing() {
        for (text, expected) in [
            ("copy t", "1:7 expected TO"),
            ("copy (select 1 to 'x'", "1:22 expected a closing bracket"),
            ("copy t to x", "1:11 expected a file name"),
            ("copy t to 'x.csv' (format xml)", "1:27 no format"),
            ("copy t to 'x.csv' (rows 3)", "COPY has no option rows"),
            ("copy t to 'x'", "format"),
            ("set tierloom.placement", "1:23 expected ="),
            ("analyze", "1:8 expected the name of a table"),
            ("analyze t u", "1:11 expected the end"),
            ("vacuum", "1:7 expected the name of a table"),
            ("explain placement", "expected a query"),
            ("show tierloom.", "expected the name of a setting"),
        ] {
            let error = error(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
