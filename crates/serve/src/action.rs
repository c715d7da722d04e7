//! What a statement is: one of the protocol's session, or one of the engine.

use super::copy::{self, Copy, CopyIn, CopyOut};
use super::errors::error;
use pgwire::error::PgWireResult;
use tierloom_sql::Piece;

/// What to do with a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Run by the engine.
    Run,
    CopyOut(CopyOut),
    CopyIn(CopyIn),
    Begin,
    Commit,
    Rollback,
    /// Nothing to do; the tag to answer.
    Accept(&'static str),
    /// A variable, and its value if it is not the default.
    Set(String, Option<String>),
    ResetAll,
    Show(String),
    /// Forget everything that the session has set and prepared; the tag to answer.
    Discard(&'static str),
}

/// The tag of a statement that makes an index: there are none, and queries need none.
pub(crate) const NO_INDEX: &str = "CREATE INDEX";

/// Names before the first dot that belong to the engine.
const OF_ENGINE: [&str; 2] = ["tierloom.", "datafusion."];

/// Says what to do with a statement.
///
/// # Errors
/// A statement of PostgreSQL that has no counterpart here.
pub(crate) fn of(piece: &Piece) -> PgWireResult<Action> {
    let words = words(&piece.text);
    let upper: Vec<String> = words.iter().take(4).map(|w| w.to_uppercase()).collect();
    let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
    Ok(match upper.as_slice() {
        ["BEGIN", ..] | ["START", "TRANSACTION", ..] => Action::Begin,
        ["COMMIT" | "END", ..] => Action::Commit,
        ["ROLLBACK", "TO", ..] => Action::Accept("ROLLBACK"),
        ["ROLLBACK" | "ABORT", ..] => Action::Rollback,
        ["SAVEPOINT", ..] => Action::Accept("SAVEPOINT"),
        ["RELEASE", ..] => Action::Accept("RELEASE"),
        ["CREATE", "INDEX", ..] => Action::Accept(NO_INDEX),
        ["UNLISTEN", ..] => Action::Accept("UNLISTEN"),
        ["CLOSE", ..] => Action::Accept("CLOSE CURSOR"),
        ["SET", rest @ ..] => set(&words[1..], rest),
        ["RESET", "ALL"] => Action::ResetAll,
        ["RESET", name] if !is_of_engine(name) => Action::Set(words[1].clone(), None),
        ["SHOW", "TRANSACTION", ..] => Action::Show("transaction_isolation".into()),
        ["SHOW", "TIME", "ZONE"] => Action::Show("timezone".into()),
        ["SHOW", name] if !is_of_engine(name) => Action::Show(words[1].clone()),
        ["DISCARD", "ALL"] => Action::Discard("DISCARD ALL"),
        ["DEALLOCATE", "ALL"] | ["DEALLOCATE", "PREPARE", "ALL"] => {
            Action::Discard("DEALLOCATE ALL")
        }
        ["COPY", ..] => match copy::read(&piece.text)? {
            Some(Copy::Out(copy)) => Action::CopyOut(copy),
            Some(Copy::In(copy)) => Action::CopyIn(copy),
            None => Action::Run,
        },
        [
            word @ ("LISTEN" | "NOTIFY" | "DECLARE" | "FETCH" | "MOVE" | "LOCK"),
            ..,
        ] => {
            return Err(error("0A000", format!("{word} is not supported")));
        }
        _ => Action::Run,
    })
}

fn is_of_engine(name: &str) -> bool {
    let name = name.to_lowercase();
    OF_ENGINE.iter().any(|engine| name.starts_with(engine))
}

/// `SET`, without the first word.
fn set(words: &[String], upper: &[&str]) -> Action {
    match upper {
        ["SESSION" | "LOCAL", "CHARACTERISTICS" | "TRANSACTION", ..] | ["TRANSACTION", ..] => {
            Action::Accept("SET")
        }
        ["SESSION" | "LOCAL", rest @ ..] if !rest.is_empty() && rest[0] != "=" => {
            set(&words[1..], rest)
        }
        ["NAMES", ..] => Action::Set("client_encoding".into(), value(&words[1..])),
        ["TIME", "ZONE", ..] => Action::Set("timezone".into(), value(&words[2..])),
        [name, "=" | "TO", ..] if !is_of_engine(name) => {
            Action::Set(words[0].clone(), value(&words[2..]))
        }
        _ => Action::Run,
    }
}

/// The value after `=`, without quotes; `None` for DEFAULT.
fn value(words: &[String]) -> Option<String> {
    if words.len() == 1 && words[0].eq_ignore_ascii_case("default") {
        return None;
    }
    let plain = words.iter().map(|word| {
        let inner = word.strip_prefix('\'').and_then(|w| w.strip_suffix('\''));
        inner.map_or_else(|| word.clone(), |inner| inner.replace("''", "'"))
    });
    let text = plain.collect::<Vec<_>>().join(" ");
    Some(text.replace(" ,", ","))
}

/// The first words of a statement, with `=` and `,` as words of their own.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted: Option<char> = None;
    for c in text.chars() {
        let open = quoted.is_some();
        match c {
            _ if quoted == Some(c) => quoted = None,
            '\'' | '"' if !open => quoted = Some(c),
            _ => {}
        }
        let last = words.len() - 1;
        if open || quoted.is_some() || !(c.is_whitespace() || c == '=' || c == ',') {
            words[last].push(c);
            continue;
        }
        if c == '=' || c == ',' {
            words.push(c.to_string());
        }
        words.push(String::new());
        // No statement that is looked at here is longer.
        if words.len() > 64 {
            break;
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The statement of a text for the extended protocol; `None` if there is none.
///
/// # Errors
/// Several statements, or text that can never be one.
pub(crate) fn only_one(text: &str) -> PgWireResult<Option<Piece>> {
    let pieces = super::database::statements(text);
    let pieces =
        pieces.map_err(|e| super::errors::of_statement(e, text, super::clients::Why::Asked))?;
    if pieces.len() > 1 {
        return Err(super::running::too_many());
    }
    Ok(pieces.into_iter().next())
}

/// The tag of a statement that the engine has run: its first words.
pub(crate) fn tag(text: &str) -> String {
    let words = words(text);
    let upper: Vec<String> = words.iter().take(4).map(|w| w.to_uppercase()).collect();
    let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
    match upper.as_slice() {
        ["CREATE", "TEMP" | "TEMPORARY", what, ..] => format!("CREATE {what}"),
        ["CREATE", "OR", "REPLACE", what, ..] => format!("CREATE {what}"),
        ["CREATE", "EXTERNAL", ..] => "CREATE TABLE".to_owned(),
        [verb @ ("CREATE" | "DROP" | "ALTER"), what, ..] => format!("{verb} {what}"),
        ["TRUNCATE", ..] => "TRUNCATE TABLE".to_owned(),
        [verb, ..] => (*verb).to_owned(),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_sql::split;

    fn read(text: &str) -> Action {
        of(&split(text).unwrap()[0]).unwrap()
    }

    #[test]
    fn variables_of_clients_are_told_from_settings_of_the_engine() {
        let set = |name: &str, value: Option<&str>| Action::Set(name.into(), value.map(Into::into));
        for (text, action) in [
            (
                "SET statement_timeout = 500",
                set("statement_timeout", Some("500")),
            ),
            (
                "set statement_timeout='5s'",
                set("statement_timeout", Some("5s")),
            ),
            (
                "SET SESSION TimeZone TO 'UTC'",
                set("TimeZone", Some("UTC")),
            ),
            (
                "SET DateStyle = ISO, MDY",
                set("DateStyle", Some("ISO, MDY")),
            ),
            (
                "SET TIME ZONE 'Europe/Berlin'",
                set("timezone", Some("Europe/Berlin")),
            ),
            ("SET NAMES 'utf8'", set("client_encoding", Some("utf8"))),
            ("SET search_path TO DEFAULT", set("search_path", None)),
            ("RESET statement_timeout", set("statement_timeout", None)),
            ("SET tierloom.placement = '3:2'", Action::Run),
            ("SET datafusion.execution.batch_size = 1", Action::Run),
            ("SHOW tierloom.placement", Action::Run),
            ("show server_version", Action::Show("server_version".into())),
            (
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
                Action::Accept("SET"),
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                Action::Accept("SET"),
            ),
        ] {
            assert_eq!(read(text), action, "{text}");
        }
    }

    #[test]
    fn transactions_and_copies_are_recognised_and_queries_left_alone() {
        for (text, action) in [
            ("begin", Action::Begin),
            ("START TRANSACTION READ ONLY", Action::Begin),
            ("ROLLBACK TO SAVEPOINT a", Action::Accept("ROLLBACK")),
            ("abort", Action::Rollback),
            ("select 'begin'", Action::Run),
            ("COPY (select 1) TO 'file.csv'", Action::Run),
        ] {
            assert_eq!(read(text), action, "{text}");
        }
        assert!(matches!(read("copy t to stdout"), Action::CopyOut(_)));
        assert!(of(&split("LISTEN x").unwrap()[0]).is_err());
    }

    #[test]
    fn several_statements_are_no_prepared_statement() {
        assert!(only_one("select 1; select 2").is_err());
        assert_eq!(only_one("select 1;").unwrap().unwrap().text, "select 1");
        assert!(only_one("-- nothing").unwrap().is_none());
    }
}
