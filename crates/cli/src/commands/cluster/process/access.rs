//! The token and the certificates of a cluster, from their files.

use crate::commands::agents::read;
use crate::commands::bench::agent::tls;
use crate::commands::cluster::args::{CertificateArgs, TokenArgs};
use crate::failure::Failure;
use std::path::Path;
use tierloom_agent::{Log, TOKEN_VARIABLE, Token, TokenOrigin};
use tierloom_cluster::{Access, Guard};

/// What a process shows to the scheduler at `url` and its executors.
///
/// # Errors
/// Bad input: a file that cannot be read or used; certificates without a token.
pub fn access(url: &str, args: &TokenArgs, tls_ca: Option<&Path>) -> Result<Access, Failure> {
    let https = url.starts_with("https://");
    let token = match is_asked_for(args) || tls_ca.is_some() || https {
        true => Some(find(args, false)?),
        false => None,
    };
    Ok(Access {
        token,
        tls_ca: tls_ca.map(read).transpose()?,
        allow_plain_remote: args.allow_plain,
    })
}

/// What a scheduler or an executor asks of its callers; `None` if nothing was said of that.
///
/// With `create`, a missing token is made.
///
/// # Errors
/// Same as [`access`].
pub fn guard(
    token: &TokenArgs,
    certificate: &CertificateArgs,
    create: bool,
) -> Result<Option<Guard>, Failure> {
    let identity = tls(
        certificate.tls_cert.as_deref(),
        certificate.tls_key.as_deref(),
    )?;
    if identity.is_none() && !is_asked_for(token) {
        return Ok(None);
    }
    Ok(Some(Guard {
        token: find(token, create)?,
        tls: identity,
        allow_plain_remote: token.allow_plain,
        log: Log::new(|line| note!("{line}")),
    }))
}

fn is_asked_for(args: &TokenArgs) -> bool {
    args.token_file.is_some() || std::env::var_os(TOKEN_VARIABLE).is_some()
}

fn find(args: &TokenArgs, create: bool) -> Result<Token, Failure> {
    let (token, origin) =
        Token::find(args.token_file.as_deref(), create).map_err(Failure::input)?;
    if let TokenOrigin::Created(path) = &origin {
        note!(
            "made a new token in {}; executors and users need the same file",
            path.display()
        );
    }
    Ok(token)
}
