//! How a server is reached and by whom, and which of that is refused.

use super::access::Passwords;
use super::http::MetricsOptions;
use super::tls::Certificate;
use super::{PASSWORD_VARIABLE, ServeError};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address with a port; port 0 for a free one.
    Tcp(SocketAddr),
    /// The path of a Unix socket; clients find `FOLDER/.s.PGSQL.5432` by `FOLDER`.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Address::Unix(PathBuf::from(text)));
        }
        text.parse().map(Address::Tcp).map_err(|_| {
            format!("{text:?} is no address; expected IP:PORT as in 127.0.0.1:5432, or the path of a Unix socket")
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Address {
    fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }
}

/// How a server is reached, and by whom.
#[derive(Clone)]
pub struct ServeOptions {
    /// Where clients of PostgreSQL connect.
    pub addresses: Vec<Address>,
    /// Where clients of Flight SQL connect, port 0 for a free one; `None` for a server without.
    pub flight: Option<SocketAddr>,
    /// `None` if no password is needed, which only connections of this machine may have.
    pub passwords: Option<Passwords>,
    /// `None` for connections without TLS.
    pub certificate: Option<Certificate>,
    /// Whether connections from other machines may do without TLS.
    pub allow_plain: bool,
    /// Names that may change settings of the machine and use its files; with no passwords and no
    /// names, everybody may.
    pub operators: Vec<String>,
    /// Clients at the same time.
    pub connections: usize,
    /// `None` for a server without metrics.
    pub metrics: Option<MetricsOptions>,
}

/// Refuses options that would let strangers in.
///
/// # Errors
/// Bad input.
pub(crate) fn check(options: &ServeOptions) -> Result<(), ServeError> {
    if options.addresses.is_empty() && options.flight.is_none() && options.metrics.is_none() {
        return Err(ServeError::input("there is no address to listen on"));
    }
    for address in options.addresses.iter().filter(|a| !a.is_local()) {
        check_guarded(options, address)?;
    }
    if let Some(address) = options.flight.filter(|address| !address.ip().is_loopback()) {
        check_guarded(options, &format_args!("Flight SQL at {address}"))?;
    }
    let metrics = options.metrics.as_ref();
    if let Some(MetricsOptions { address, token, .. }) = metrics
        && !address.ip().is_loopback()
    {
        if token.is_none() {
            return Err(ServeError::input(format!(
                "metrics at {address} can be reached from other machines, and no token is needed; give one with --metrics-token-file"
            )));
        }
        check_encrypted(options, &format_args!("metrics at {address}"))?;
    }
    if let Some(passwords) = &options.passwords
        && let Some(unknown) = options.operators.iter().find(|name| !passwords.knows(name))
    {
        return Err(ServeError::input(format!(
            "--operator {unknown}: there is no password for this name"
        )));
    }
    Ok(())
}

/// Refuses what other machines reach without a password, or without encryption.
fn check_guarded(options: &ServeOptions, what: &dyn fmt::Display) -> Result<(), ServeError> {
    if options.passwords.is_none() {
        return Err(ServeError::input(format!(
            "{what} can be reached from other machines, and no password is needed; give names and passwords with --password-file, or one password in {PASSWORD_VARIABLE}"
        )));
    }
    check_encrypted(options, what)
}

/// Refuses what other machines reach without encryption.
fn check_encrypted(options: &ServeOptions, what: &dyn fmt::Display) -> Result<(), ServeError> {
    if options.certificate.is_some() || options.allow_plain {
        return Ok(());
    }
    Err(ServeError::input(format!(
        "{what} can be reached from other machines, and nothing is encrypted; give a certificate with --tls-cert and --tls-key, or allow it with --allow-plain-clients"
    )))
}
