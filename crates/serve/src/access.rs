//! Who may connect: names and passwords, checked by SCRAM-SHA-256.

use super::ServeError;
use async_trait::async_trait;
use pgwire::api::auth::sasl::scram::{SCRAM_ITERATIONS, gen_salted_password};
use pgwire::api::auth::{AuthSource, LoginInfo, Password};
use pgwire::error::{PgWireError, PgWireResult};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Environment variable with one password for all names.
pub const PASSWORD_VARIABLE: &str = "TIERLOOM_PASSWORD";

/// Passwords of those who may connect.
#[derive(Clone)]
pub enum Passwords {
    /// By name.
    ByName(BTreeMap<String, String>),
    /// One for every name.
    One(String),
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Passwords must not get into messages.
        f.write_str("Passwords")
    }
}

impl Passwords {
    /// Reads a file with a line `name:password` per name; empty lines and lines that begin with `#`
    /// do not count.
    ///
    /// # Errors
    /// Bad input: a file that cannot be read, that others can read, or a line of another form.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let wrong = |problem| wrong(path, problem);
        let text = secret_text(path)?;
        let mut names = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, password) = line
                .split_once(':')
                .filter(|(name, password)| !name.is_empty() && !password.is_empty())
                .ok_or_else(|| wrong(format!("line {number}: expected name:password")))?;
            if names.insert(name.to_owned(), password.to_owned()).is_some() {
                return Err(wrong(format!(
                    "line {number}: {name} has a password already"
                )));
            }
        }
        if names.is_empty() {
            return Err(wrong("there is no line name:password".to_owned()));
        }
        Ok(Passwords::ByName(names))
    }

    /// The names that are known before somebody connects.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        match self {
            Passwords::ByName(names) => names.keys().cloned().collect(),
            Passwords::One(_) => BTreeSet::new(),
        }
    }

    /// Whether somebody can connect under this name.
    pub fn knows(&self, name: &str) -> bool {
        match self {
            Passwords::ByName(names) => names.contains_key(name),
            Passwords::One(_) => true,
        }
    }

    /// Whether this is the password of that name. Takes as long for names that are not known.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn admit(&self, name: &str, password: &str) -> PgWireResult<bool> {
        let known = self.salted(Some(name))?;
        let salt = known.salt().unwrap_or_default();
        let given = gen_salted_password(password, salt, SCRAM_ITERATIONS);
        Ok(bool::from(given.as_slice().ct_eq(known.password())))
    }

    /// The password of a name, salted.
    fn salted(&self, name: Option<&str>) -> PgWireResult<Password> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|e| PgWireError::ApiError(e.to_string().into()))?;
        let mut nobody = [0; 16];
        getrandom::fill(&mut nobody).map_err(|e| PgWireError::ApiError(e.to_string().into()))?;
        // A name that is not known gets a password that nobody has: the exchange is the same, so
        // that it does not tell which names there are.
        let known = name.and_then(|name| self.of(name));
        let unknown: String = nobody.iter().map(|byte| format!("{byte:02x}")).collect();
        let password = known.unwrap_or(&unknown);
        let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        Ok(Password::new(Some(salt.to_vec()), salted))
    }

    fn of(&self, name: &str) -> Option<&str> {
        match self {
            Passwords::ByName(names) => names.get(name).map(String::as_str),
            Passwords::One(password) => Some(password),
        }
    }
}

/// Reads the token of metrics: the only line of a file that nobody else can read.
///
/// # Errors
/// Bad input: a file that cannot be read, that others can read, or that has no token.
pub fn read_token(path: &Path) -> Result<String, ServeError> {
    let text = secret_text(path)?;
    let token = text.trim();
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.is_empty() || !is_visible {
        let expected = "expected one line with a token of letters, digits and signs";
        return Err(wrong(path, expected.to_owned()));
    }
    Ok(token.to_owned())
}

/// The text of a file that nobody else can read.
fn secret_text(path: &Path) -> Result<String, ServeError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|e| wrong(path, format!("cannot read: {e}")))?;
    only_ours(path).map_err(|problem| wrong(path, problem))?;
    Ok(text)
}

fn wrong(path: &Path, problem: String) -> ServeError {
    ServeError::input(format!("{}: {problem}", path.display()))
}

#[cfg(unix)]
fn only_ours(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let mode = std::fs::metadata(path).map_err(|e| e.to_string())?.mode();
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err("other users can read it; chmod 600 it first".to_owned()),
    }
}

#[cfg(not(unix))]
fn only_ours(_: &Path) -> Result<(), String> {
    Ok(())
}

#[async_trait]
impl AuthSource for Passwords {
    async fn get_password(&self, login: &LoginInfo) -> PgWireResult<Password> {
        self.salted(login.user())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn read(text: &str, mode: u32) -> Result<Passwords, ServeError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(file.path(), mode).unwrap();
        Passwords::read(file.path())
    }

    #[test]
    fn names_and_passwords_with_colons_are_read() {
        let passwords = read("# ours\n\nada:se:cret\nbob:x\n", 0o600).unwrap();
        assert_eq!(passwords.of("ada"), Some("se:cret"));
        assert_eq!(passwords.of("eve"), None);
        assert!(!format!("{passwords:?}").contains("cret"));
    }

    #[test]
    fn only_the_password_of_a_name_lets_it_in() {
        let passwords = read("ada:right\nbob:other\n", 0o600).unwrap();
        for (name, password, expected) in [
            ("ada", "right", true),
            ("ada", "other", false),
            ("ada", "", false),
            ("eve", "right", false),
            ("", "", false),
        ] {
            let admitted = passwords.admit(name, password).unwrap();
            assert_eq!(admitted, expected, "{name}:{password}");
        }
    }

    #[test]
    fn a_file_that_gives_no_protection_is_refused_with_its_line() {
        for (text, mode, part) in [
            ("ada:x\n", 0o644, "chmod 600"),
            ("ada:x\nbob\n", 0o600, "line 2: expected name:password"),
            (":x\n", 0o600, "line 1"),
            ("ada:\n", 0o600, "line 1"),
            ("ada:x\nada:y\n", 0o600, "has a password already"),
            ("\n", 0o600, "no line"),
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
