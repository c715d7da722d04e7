//! The secret token that a coordinator and its agents share.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;

/// Name of the environment variable that may hold a token.
pub const TOKEN_VARIABLE: &str = "TIERLOOM_TOKEN";
/// Length in bytes; the text form has two hexadecimal digits per byte.
const TOKEN_BYTES: usize = 32;

/// 32 random bytes that authenticate a coordinator.
///
/// Whoever has them can run load on the agents that have them too. `Debug` does not show them.
#[derive(Clone)]
pub struct Token([u8; TOKEN_BYTES]);

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(..)")
    }
}

impl Token {
    /// Creates a token from the kernel's random numbers.
    ///
    /// # Errors
    /// [`TokenError::NoRandomness`] if the kernel returns none.
    pub fn generate() -> Result<Self, TokenError> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| TokenError::NoRandomness {
            reason: error.to_string(),
        })?;
        Ok(Self(bytes))
    }

    /// Parses 64 hexadecimal digits; white space around them is ignored.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] for anything else; the error does not show the text.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let malformed = || TokenError::Malformed {
            origin: "the token".to_owned(),
        };
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * TOKEN_BYTES {
            return Err(malformed());
        }
        let mut bytes = [0; TOKEN_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |code: u8| char::from(code).to_digit(16).ok_or_else(malformed);
            *byte =
                u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).map_err(|_| malformed())?;
        }
        Ok(Self(bytes))
    }

    /// The 64 hexadecimal digits. This is the secret itself: do not log it.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether two tokens are equal, in a time that does not depend on where they differ.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Reads a token from a file that only its owner can read.
    ///
    /// # Errors
    /// If the file cannot be read, is readable by others, or holds no token.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        let unreadable = |error: io::Error| TokenError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::TooOpen {
                path: path.to_owned(),
                mode,
            });
        }
        Self::read_line(io::BufReader::new(file), &path.display().to_string())
    }

    /// Writes the token to a new file with permissions for its owner only.
    ///
    /// # Errors
    /// If the file exists or cannot be created.
    pub fn write_new(&self, path: &Path) -> Result<(), TokenError> {
        let failed = |error: io::Error| TokenError::Unwritable {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        writeln!(file, "{}", self.to_hex()).map_err(failed)
    }

    /// Reads a token from [`TOKEN_VARIABLE`]; `None` if it is not set.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if it is set to something else.
    pub fn from_environment() -> Result<Option<Self>, TokenError> {
        let Some(text) = std::env::var_os(TOKEN_VARIABLE) else {
            return Ok(None);
        };
        let origin = || TokenError::Malformed {
            origin: TOKEN_VARIABLE.to_owned(),
        };
        let text = text.into_string().map_err(|_| origin())?;
        Self::parse(&text).map(Some).map_err(|_| origin())
    }

    /// Reads a token from the first line of `input`, for example of standard input
    /// (`--token-stdin`).
    ///
    /// `origin` names the input in errors.
    ///
    /// # Errors
    /// If the line cannot be read or is no token.
    pub fn read_line(input: impl BufRead, origin: &str) -> Result<Self, TokenError> {
        let malformed = |_| TokenError::Malformed {
            origin: origin.to_owned(),
        };
        let mut line = String::new();
        // Limits the memory that an endless line can take.
        io::Read::take(input, 4096)
            .read_line(&mut line)
            .map_err(|error| TokenError::Unreadable {
                path: PathBuf::from(origin),
                reason: error.to_string(),
            })?;
        Self::parse(&line).map_err(malformed)
    }

    /// Finds the token of this host: in `file` if given, else in [`TOKEN_VARIABLE`], else in
    /// [`default_token_file`].
    ///
    /// With `create`, a missing default file is created with a new token.
    ///
    /// # Errors
    /// Same as reading, creating or parsing the respective token; [`TokenError::None`] if there is
    /// no token and `create` is false.
    pub fn find(file: Option<&Path>, create: bool) -> Result<(Self, TokenOrigin), TokenError> {
        if let Some(path) = file {
            return Ok((Self::from_file(path)?, TokenOrigin::File(path.to_owned())));
        }
        if let Some(token) = Self::from_environment()? {
            return Ok((token, TokenOrigin::Environment));
        }
        let path = default_token_file()?;
        if path.exists() {
            return Ok((Self::from_file(&path)?, TokenOrigin::File(path)));
        }
        if !create {
            return Err(TokenError::None { default: path });
        }
        let token = Self::generate()?;
        token.write_new(&path)?;
        Ok((token, TokenOrigin::Created(path)))
    }
}

/// The place that [`Token::find`] took a token from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenOrigin {
    /// An existing file, at this path.
    File(PathBuf),
    /// The environment variable [`TOKEN_VARIABLE`].
    Environment,
    /// This file, which was just created with a new token.
    Created(PathBuf),
}

impl fmt::Display for TokenOrigin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(out, "{}", path.display()),
            Self::Environment => out.write_str(TOKEN_VARIABLE),
            Self::Created(path) => write!(out, "{} (new)", path.display()),
        }
    }
}

/// Path of the default token file: `$XDG_CONFIG_HOME/tierloom/token`, else
/// `~/.config/tierloom/token`.
///
/// # Errors
/// [`TokenError::NoHome`] if neither variable is set.
pub fn default_token_file() -> Result<PathBuf, TokenError> {
    let folder = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    folder("XDG_CONFIG_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".config")))
        .map(|config| config.join("tierloom").join("token"))
        .ok_or(TokenError::NoHome)
}

/// Why a token could not be read or created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is not 64 hexadecimal digits.
    #[error(
        "{origin} is not 64 hexadecimal digits; make a token with `openssl rand -hex 32`, the same one for agent and coordinator"
    )]
    Malformed {
        /// Where the text came from.
        origin: String,
    },
    /// The token file cannot be read.
    #[error("cannot read a token from {}: {reason}", path.display())]
    Unreadable {
        /// Path of the token file.
        path: PathBuf,
        /// The message of the operating system.
        reason: String,
    },
    /// Other users can read or change the token file.
    #[error("others may read or change the token in {} (mode {mode:o}); `chmod 600` it, and make a new token if it was seen", path.display())]
    TooOpen {
        /// Path of the token file.
        path: PathBuf,
        /// Permission bits of the file, of which only the owner's may be set.
        mode: u32,
    },
    /// The token file cannot be written.
    #[error("cannot write a token to {}: {reason}", path.display())]
    Unwritable {
        /// Path of the token file.
        path: PathBuf,
        /// The message of the operating system.
        reason: String,
    },
    /// No token was given, and there is none in the default places.
    #[error("no token: give --token-file, set {TOKEN_VARIABLE}, or copy the agent's token to {} (mode 600)", default.display())]
    None {
        /// The place that was searched last.
        default: PathBuf,
    },
    /// The path of the default token file is unknown.
    #[error(
        "no place for a token: neither XDG_CONFIG_HOME nor HOME is set; give --token-file or set {TOKEN_VARIABLE}"
    )]
    NoHome,
    /// The kernel returned no random bytes.
    #[error("cannot make a token: {reason}; make one elsewhere and give --token-file")]
    NoRandomness {
        /// The message of the operating system.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("token");
        let token = Token::generate().unwrap();
        token.write_new(&path).unwrap();
        assert!(Token::from_file(&path).unwrap().matches(&token));
        assert!(!Token::generate().unwrap().matches(&token));
        let again = token.write_new(&path).unwrap_err();
        assert!(
            matches!(again, TokenError::Unwritable { .. }),
            "a token in use is not overwritten"
        );
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        Token::generate().unwrap().write_new(&path).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                Token::from_file(&path).unwrap_err(),
                TokenError::TooOpen {
                    path: path.clone(),
                    mode
                }
            );
        }
    }

    #[test]
    fn other_texts_are_no_tokens_and_are_not_shown() {
        let digits = "0123456789abcdef".repeat(4);
        assert!(Token::parse(&format!(" {digits}\n")).is_ok());
        assert!(Token::parse(&digits.to_uppercase()).is_ok());
        for text in [
            "",
            "secret",
            &digits[1..],
            &digits.replace('f', "g"),
            &digits.replace('f', "é"),
        ] {
            let error = Token::parse(text).unwrap_err().to_string();
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        let token = Token::generate().unwrap();
        assert!(!format!("{token:?}").contains(&token.to_hex()[..8]));
    }

    #[test]
    fn an_endless_line_is_not_read_to_its_end() {
        let endless = io::BufReader::new(io::repeat(b'a'));
        assert!(matches!(
            Token::read_line(endless, "stdin"),
            Err(TokenError::Malformed { .. })
        ));
    }
}
