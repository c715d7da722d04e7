//! The variables of a connection that PostgreSQL's clients set and read.
//!
//! Few of them change anything here; the others are kept so that what a client has set is what it
//! reads.

use super::errors::error;
use pgwire::error::PgWireResult;
use std::collections::BTreeMap;
use std::time::Duration;

/// The version of PostgreSQL that clients take the server for.
pub(crate) const SERVER_VERSION: &str = "16.6";

/// Values by name.
#[derive(Debug, Clone)]
pub(crate) struct Variables {
    values: BTreeMap<&'static str, String>,
    /// How long a statement may take.
    limit: Option<Duration>,
}

/// Names in lower case, their first values, and whether they can be set.
const VARIABLES: [(&str, &str, bool); 31] = [
    ("application_name", "", true),
    ("bytea_output", "hex", true),
    ("client_encoding", "UTF8", true),
    ("client_min_messages", "notice", true),
    ("datestyle", "ISO, MDY", true),
    ("default_table_access_method", "heap", true),
    ("default_transaction_isolation", "read committed", true),
    ("default_transaction_read_only", "off", true),
    ("extra_float_digits", "1", true),
    ("idle_in_transaction_session_timeout", "0", true),
    ("integer_datetimes", "on", false),
    ("intervalstyle", "postgres", true),
    ("is_superuser", "off", false),
    ("jit", "off", true),
    ("lc_collate", "C", false),
    ("lc_ctype", "C", false),
    ("lc_messages", "C", true),
    ("lock_timeout", "0", true),
    ("max_identifier_length", "63", false),
    ("row_security", "on", true),
    ("search_path", "public", true),
    ("server_encoding", "UTF8", false),
    ("server_version", SERVER_VERSION, false),
    ("server_version_num", "160006", false),
    ("session_authorization", "", false),
    ("standard_conforming_strings", "on", true),
    ("statement_timeout", "0", true),
    ("synchronize_seqscans", "on", true),
    ("timezone", "UTC", true),
    ("transaction_isolation", "read committed", true),
    ("transaction_read_only", "off", true),
];

impl Default for Variables {
    fn default() -> Self {
        let values = VARIABLES
            .iter()
            .map(|(name, value, _)| (*name, (*value).to_owned()));
        Variables {
            values: values.collect(),
            limit: None,
        }
    }
}

impl Variables {
    /// The value of a variable, if there is one of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        self.values.get(name.as_str()).map(String::as_str)
    }

    /// All variables with their values, by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.values.iter();
        all.map(|(name, value)| (*name, value.as_str()))
    }

    /// How long a statement may take.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Sets what only the server knows.
    pub fn put(&mut self, name: &str, value: &str) {
        if let Some(slot) = self.values.get_mut(name) {
            value.clone_into(slot);
        }
    }

    /// `SET name = value`, with the value without quotes; `None` for `DEFAULT`.
    ///
    /// # Errors
    /// A name that is not known, or a value that it cannot have.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> PgWireResult<()> {
        let name = name.to_lowercase();
        let known = VARIABLES.iter().find(|(known, ..)| *known == name);
        let Some((known, first, can_be_set)) = known else {
            return Err(error(
                "42704",
                format!("unrecognized configuration parameter {name:?}"),
            ));
        };
        if !can_be_set {
            return Err(error(
                "55P02",
                format!("parameter {name:?} cannot be changed"),
            ));
        }
        let value = value.unwrap_or(first);
        match *known {
            "client_encoding" if !is_utf8(value) => return Err(only(known, value, "UTF8")),
            "standard_conforming_strings" if !is_on(value) => return Err(only(known, value, "on")),
            "bytea_output" if value != "hex" => return Err(only(known, value, "hex")),
            "datestyle" if !value.to_lowercase().starts_with("iso") => {
                return Err(only(known, value, "ISO"));
            }
            "intervalstyle" if value != "postgres" => return Err(only(known, value, "postgres")),
            "statement_timeout" => self.limit = duration(value)?,
            _ => {}
        }
        self.put(known, value);
        Ok(())
    }

    /// `RESET ALL`.
    pub fn reset(&mut self) {
        for (name, first, can_be_set) in VARIABLES {
            if can_be_set {
                self.put(name, first);
            }
        }
        self.limit = None;
    }
}

fn only(name: &str, value: &str, possible: &str) -> pgwire::error::PgWireError {
    error(
        "22023",
        format!("{name} cannot be {value:?} here; it is always {possible}"),
    )
}

fn is_utf8(value: &str) -> bool {
    // Some drivers send the quotes along.
    let value = value.trim_matches('\'').to_lowercase();
    ["utf8", "utf-8", "unicode"].contains(&value.as_str())
}

fn is_on(value: &str) -> bool {
    ["on", "true", "yes", "1"].contains(&value.to_lowercase().as_str())
}

/// A time as PostgreSQL writes it: a number of milliseconds, or with a unit; 0 for no limit.
fn duration(value: &str) -> PgWireResult<Option<Duration>> {
    let value = value.trim();
    let digits = value.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let millis = match unit.trim() {
        "" | "ms" => Some(1),
        "s" => Some(1000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let total = number.zip(millis).and_then(|(n, unit)| n.checked_mul(unit));
    match total {
        Some(0) => Ok(None),
        Some(millis) => Ok(Some(Duration::from_millis(millis))),
        None => Err(error(
            "22023",
            format!("invalid value for parameter \"statement_timeout\": {value:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_zero_is_no_limit() {
        for (text, millis) in [("250", 250), ("2s", 2000), ("1min", 60_000), ("3 ms", 3)] {
            let limit = duration(text).unwrap();
            assert_eq!(limit, Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("0").unwrap(), None);
        for wrong in [
            "",
            "-1",
            "5 days",
            "99999999999999999999",
            "18446744073709551615h",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused_and_the_rest_is_read_back() {
        let mut variables = Variables::default();
        for (name, value) in [
            ("client_encoding", "LATIN1"),
            ("bytea_output", "escape"),
            ("server_version", "9"),
            ("no_such_thing", "1"),
        ] {
            assert!(variables.set(name, Some(value)).is_err(), "{name}");
        }
        variables.set("TimeZone", Some("Europe/Berlin")).unwrap();
        assert_eq!(variables.get("TIMEZONE"), Some("Europe/Berlin"));
        variables.set("statement_timeout", Some("5s")).unwrap();
        variables.reset();
        assert_eq!(variables.limit(), None);
        assert_eq!(variables.get("timezone"), Some("UTC"));
    }
}
