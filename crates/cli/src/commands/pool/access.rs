//! How commands open a pool: as its manager, or through the manager that serves it.

use crate::commands::agents::read;
use crate::failure::Failure;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tierloom_agent::{HostAddress, RequestAddress, Requester, Token};
use tierloom_pool::{Connect, ManagerLink, OpenOptions, Pool};

/// For an answer to a request. Making a pool smaller copies tables before it is answered.
const ANSWER: Duration = Duration::from_secs(600);

/// How this process opens pools.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Names, paths and what is skipped.
    pub options: OpenOptions,
    /// How managers are reached that are not on a Unix socket.
    pub reach: Reach,
}

/// How managers at TCP addresses are reached.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// File with the token of the manager.
    pub token_file: Option<PathBuf>,
    /// File with the certificate that signed the manager's, or is it.
    pub tls_ca: Option<PathBuf>,
    /// Whether the token may be sent in plain text to other machines.
    pub allow_plain: bool,
}

impl Access {
    /// Opens the pool whose first member is at `path`.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open_or_join`].
    pub fn open(&self, path: &Path) -> Result<Pool, Failure> {
        let reach = Arc::new(self.reach.clone());
        Ok(self.options.open_or_join(path, reach)?)
    }
}

/// For commands whose main subject is not the pool
#[derive(clap::Args, Clone, Default)]
pub struct AccessArgs {
    /// Name of this host in the pool, for machines without an identity of their own
    #[arg(
        long = "pool-host",
        value_name = "NAME",
        requires = "pool",
        help_heading = "Pool"
    )]
    host: Option<String>,
    /// File with the token of a pool's manager that is reached over TCP; default: $TIERLOOM_TOKEN
    /// or ~/.config/tierloom/token
    #[arg(
        long = "pool-token-file",
        value_name = "FILE",
        requires = "pool",
        help_heading = "Pool"
    )]
    token_file: Option<PathBuf>,
    /// Certificate that signed the manager's certificate (or is it), PEM
    #[arg(
        long = "pool-tls-ca",
        value_name = "FILE",
        requires = "pool",
        help_heading = "Pool"
    )]
    tls_ca: Option<PathBuf>,
    /// Allow an unencrypted connection to a manager on another machine
    #[arg(
        long = "pool-allow-plain-remote",
        requires = "pool",
        help_heading = "Pool"
    )]
    allow_plain: bool,
}

impl AccessArgs {
    /// What they say.
    pub fn access(&self) -> Access {
        Access {
            options: OpenOptions {
                host: self.host.clone(),
                ..OpenOptions::default()
            },
            reach: Reach {
                token_file: self.token_file.clone(),
                tls_ca: self.tls_ca.clone(),
                allow_plain: self.allow_plain,
            },
        }
    }
}

#[derive(Debug)]
struct OpenLink(Requester);

impl ManagerLink for OpenLink {
    fn call(&mut self, request: &str) -> Result<String, String> {
        self.0.call(request).map_err(|error| error.to_string())
    }
}

impl Connect for Reach {
    fn connect(&self, address: &str) -> Result<Box<dyn ManagerLink>, String> {
        let to = match RequestAddress::socket(address) {
            Some(path) => RequestAddress::Unix(path),
            None => {
                let text = |error: Failure| error.to_string();
                let token = Token::find(self.token_file.as_deref(), false);
                let token = token.map_err(|error| error.to_string())?.0;
                let mut host = HostAddress::new("the manager", address, token);
                host.allow_plain_remote = self.allow_plain;
                let ca = self.tls_ca.as_deref().map(read).transpose();
                host.tls_ca = ca.map_err(text)?;
                RequestAddress::Tcp(host)
            }
        };
        let requester = Requester::connect(&to, ANSWER).map_err(|error| error.to_string())?;
        Ok(Box::new(OpenLink(requester)))
    }
}
