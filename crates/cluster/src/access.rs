//! What protects the connections of a cluster: a token that callers must show, and TLS.

use crate::error::ClusterError;
use std::net::SocketAddr;
use std::sync::Arc;
use tierloom_agent::{AgentOptions, GuardedServer, Log, TlsIdentity, Token, check_listen};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Most connections to a scheduler or executor at a time.
const CONNECTIONS: usize = 4096;

/// What this process shows to others, and whom it trusts.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The token of the cluster; `None` for one that asks nobody.
    pub token: Option<Token>,
    /// For TLS: the certificate that signed those of the scheduler and the executors, or is theirs,
    /// as PEM.
    pub tls_ca: Option<String>,
    /// Allows a readable token on connections to other machines.
    pub allow_plain_remote: bool,
}

/// What a scheduler or an executor asks of its callers.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The token that callers must show.
    pub token: Token,
    /// Certificate and key for TLS.
    pub tls: Option<TlsIdentity>,
    /// Allows a readable token on addresses other than loopback.
    pub allow_plain_remote: bool,
    /// Gets a line for callers that are refused.
    pub log: Log,
}

impl Access {
    /// Checks that it fits the URL of a scheduler: TLS for `https://` alone, and then with a token.
    ///
    /// # Errors
    /// [`ClusterError::Input`] that says what is missing or too much.
    pub(crate) fn check(&self, url: &str) -> Result<(), ClusterError> {
        let https = url.starts_with("https://");
        let wrong = |text: &str| Err(ClusterError::input(format!("{url}: {text}")));
        match (https, &self.tls_ca, &self.token) {
            (true, None, _) => {
                wrong("for a scheduler with https, give the certificate to trust with --tls-ca")
            }
            (true, Some(_), None) => wrong("for a scheduler with https, give --token-file"),
            (false, Some(_), _) => wrong("with --tls-ca, expected a URL as https://HOST:PORT"),
            _ => Ok(()),
        }
    }

    /// Settings of HTTP that trust its certificates alone; `None` without TLS.
    ///
    /// # Errors
    /// [`ClusterError::Input`] for a text without certificates.
    pub(crate) fn http_tls(&self) -> Result<Option<TlsConfig>, ClusterError> {
        let Some(text) = &self.tls_ca else {
            return Ok(None);
        };
        let wrong = || ClusterError::input("--tls-ca: expected certificates as PEM");
        let mut trusted: Vec<Certificate<'static>> = Vec::new();
        for item in parse_pem(text.as_bytes()) {
            if let PemItem::Certificate(certificate) = item.map_err(|_| wrong())? {
                trusted.push(certificate);
            }
        }
        if trusted.is_empty() {
            return Err(wrong());
        }
        // Several parts of the program may have done so; all mean the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let roots = RootCerts::Specific(Arc::new(trusted));
        Ok(Some(TlsConfig::builder().root_certs(roots).build()))
    }
}

impl Guard {
    /// A server at `listen`.
    ///
    /// # Errors
    /// [`ClusterError::Input`] if others could read the token, [`ClusterError::Failed`] for an
    /// address or certificate that cannot be used.
    pub(crate) async fn listen(&self, listen: SocketAddr) -> Result<GuardedServer, ClusterError> {
        check_listen(listen, self.tls.is_some(), self.allow_plain_remote)
            .map_err(ClusterError::input)?;
        let mut options = AgentOptions::new(listen, self.token.clone());
        options.tls = self.tls.clone();
        options.allow_plain_remote = self.allow_plain_remote;
        options.connections = CONNECTIONS;
        options.log = self.log.clone();
        let server = GuardedServer::listen(options).await;
        server.map_err(|e| ClusterError::Failed(e.to_string()))
    }

    /// How the URL of a server with it begins.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_goes_with_https_and_with_a_token() {
        let token = Some(Token::generate().unwrap());
        let some = Some("PEM".to_owned());
        for (token, tls_ca, url, said) in [
            (&None, &None, "https://a:1", "give the certificate"),
            (&token, &None, "https://a:1", "give the certificate"),
            (&None, &some, "https://a:1", "give --token-file"),
            (&token, &some, "http://a:1", "expected a URL as https"),
        ] {
            let access = Access {
                token: token.clone(),
                tls_ca: tls_ca.clone(),
                allow_plain_remote: false,
            };
            let error = access.check(url).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let both = Access {
            token,
            tls_ca: some,
            allow_plain_remote: false,
        };
        both.check("https://a:1").unwrap();
        let error = both.http_tls().unwrap_err().to_string();
        assert!(error.contains("expected certificates as PEM"), "{error}");
        Access::default().check("http://a:1").unwrap();
    }
}
