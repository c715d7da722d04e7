//! The address of a host's agent, and the connection to it.

use std::net::IpAddr;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::{Interceptor, interceptor::InterceptedService};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::server::SCHEME;
use crate::wire::{MAX_MESSAGE_BYTES, rpc::agent_client::AgentClient};
use crate::{AgentError, Token, causes};

/// A host with an agent. [`HostAddress::new`] fills in defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HostAddress {
    /// Name of the host in workload files, records and errors.
    pub name: String,
    /// `host:port`, as in `db7:7171`, `10.0.0.7:7171` or `[fd00::7]:7171`.
    pub address: String,
    /// The token that the agent was started with; it is sent with every call.
    pub token: Token,
    /// For TLS: the CA certificate (PEM) of the agent's certificate, or that certificate itself if
    /// it is self-signed.
    ///
    /// `None` connects in plain text.
    pub tls_ca: Option<String>,
    /// The name in the agent's certificate, if it is not the host in `address`.
    pub tls_name: Option<String>,
    /// Allows plain text, with a readable token, to addresses other than loopback.
    pub allow_plain_remote: bool,
}

/// A connection that is made when it is first used, and again after it broke. It shows the token,
/// if it has one.
pub type HostLink = InterceptedService<Channel, ShowToken>;

/// When a connection is asked whether it still leads anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// While a call waits for its reply. For connections that are served only then: of others, an
    /// answer to the last question would be found too late.
    InUse,
    /// All the time, so that a call seldom finds one that broke since the last call.
    Always,
}

/// Bytes that a host may send on a link before they are read.
const WINDOW: u32 = 4 << 20;

/// A client that sends its token with each call.
pub(crate) type Client = AgentClient<InterceptedService<Channel, ShowToken>>;

impl HostAddress {
    /// A host without TLS, which therefore must be on loopback.
    pub fn new(name: impl Into<String>, address: impl Into<String>, token: Token) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            token,
            tls_ca: None,
            tls_name: None,
            allow_plain_remote: false,
        }
    }

    /// The host part of the address, without brackets; `None` if the address has no port.
    fn host(&self) -> Option<&str> {
        let (host, port) = self.address.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        (!host.is_empty() && (bare.is_some() || !host.contains(':'))).then_some(host)
    }

    /// Checks everything that needs no network.
    ///
    /// # Errors
    /// An address or certificate that is none; [`AgentError::Plain`] if the token could be read.
    pub fn check(&self) -> Result<(), AgentError> {
        let bad = |reason: String| AgentError::BadHost {
            host: self.name.clone(),
            reason,
        };
        let host = self.host().ok_or_else(|| {
            bad(format!(
                "`{}` is no address; write host:port, as in db7:7171 or [fd00::7]:7171",
                self.address
            ))
        })?;
        let local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if self.tls_ca.is_none() && !local && !self.allow_plain_remote {
            return Err(AgentError::Plain {
                address: self.address.clone(),
                fix: "start the agent with --tls-cert and --tls-key and give its certificate here (tls_ca)",
            });
        }
        if self
            .tls_ca
            .as_ref()
            .is_some_and(|pem| !pem.contains("-----BEGIN CERTIFICATE-----"))
        {
            return Err(AgentError::Tls {
                what: format!("the certificate given for host {}", self.name),
                reason: "it has no `-----BEGIN CERTIFICATE-----`".to_owned(),
            });
        }
        Ok(())
    }

    /// A connection for calls of another program; must be called on the runtime that shall keep it.
    ///
    /// # Errors
    /// An address or certificate that cannot be used.
    pub fn link(&self, timeout: Duration, watched: Watched) -> Result<HostLink, AgentError> {
        self.check()?;
        Ok(link(self.endpoint(timeout)?, watched, Some(&self.token)))
    }

    /// Connects within `timeout`, with TLS if a certificate is set.
    pub(crate) async fn connect(&self, timeout: Duration) -> Result<Client, AgentError> {
        let channel = self.channel(timeout).await?;
        Ok(
            AgentClient::with_interceptor(channel, ShowToken::new(Some(&self.token)))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
    }

    /// The connection alone.
    pub(crate) async fn channel(&self, timeout: Duration) -> Result<Channel, AgentError> {
        self.check()?;
        let unreachable = |reason: String| AgentError::Connect {
            host: self.name.clone(),
            address: self.address.clone(),
            reason,
        };
        let endpoint = self.endpoint(timeout)?;
        tokio::time::timeout(timeout, endpoint.connect())
            .await
            .map_err(|_| {
                unreachable(format!(
                    "no connection after {:.1} s",
                    timeout.as_secs_f64()
                ))
            })?
            .map_err(|error| unreachable(causes(&error)))
    }

    fn endpoint(&self, timeout: Duration) -> Result<Endpoint, AgentError> {
        let scheme = if self.tls_ca.is_some() {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://{}", self.address);
        let endpoint = endpoint(url, timeout).map_err(|error| AgentError::BadHost {
            host: self.name.clone(),
            reason: causes(&error),
        })?;
        let Some(pem) = &self.tls_ca else {
            return Ok(endpoint);
        };
        let name = self.tls_name.as_deref().or(self.host()).unwrap_or_default();
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(pem))
            .domain_name(name);
        endpoint.tls_config(tls).map_err(|error| AgentError::Tls {
            what: format!("the certificate given for host {}", self.name),
            reason: causes(&error),
        })
    }
}

/// Same as [`HostAddress::link`] to a program that asks for no token and has no TLS.
///
/// # Errors
/// The text of an address that is none.
pub fn open_link(address: &str, timeout: Duration, watched: Watched) -> Result<HostLink, String> {
    let endpoint = endpoint(format!("http://{address}"), timeout);
    let endpoint = endpoint.map_err(|error| causes(&error))?;
    Ok(link(endpoint, watched, None))
}

fn link(endpoint: Endpoint, watched: Watched, token: Option<&Token>) -> HostLink {
    let endpoint = endpoint
        .keep_alive_while_idle(watched == Watched::Always)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    InterceptedService::new(endpoint.connect_lazy(), ShowToken::new(token))
}

fn endpoint(url: String, timeout: Duration) -> Result<Endpoint, tonic::transport::Error> {
    Ok(Endpoint::from_shared(url)?
        .connect_timeout(timeout)
        .tcp_nodelay(true)
        // A broken connection is noticed even while a long poll waits for its reply.
        .http2_keep_alive_interval(Duration::from_secs(2))
        .keep_alive_timeout(Duration::from_secs(2)))
}

/// Adds the token to every call.
#[derive(Debug, Clone)]
pub struct ShowToken(Option<MetadataValue<Ascii>>);

impl ShowToken {
    /// Adds that token; nothing for `None`.
    pub(crate) fn new(token: Option<&Token>) -> Self {
        let value = token.map(|token| format!("{SCHEME}{}", token.to_hex()));
        let value = value.and_then(|text| MetadataValue::try_from(text).ok());
        Self(value.map(|mut value| {
            // Keeps the token out of header compression tables and debug output.
            value.set_sensitive(true);
            value
        }))
    }
}

impl Interceptor for ShowToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str) -> Result<(), AgentError> {
        HostAddress::new("a", address, Token::generate().unwrap()).check()
    }

    #[test]
    fn the_token_is_not_sent_in_the_open() {
        for local in ["127.0.0.1:1", "[::1]:7171", "localhost:7171", "127.8.8.8:1"] {
            assert_eq!(check(local), Ok(()), "{local}");
        }
        for remote in [
            "10.0.0.7:7171",
            "db7:7171",
            "[fd00::7]:7171",
            "localhost.example:7171",
        ] {
            let error = check(remote).unwrap_err();
            assert!(
                matches!(&error, AgentError::Plain { address, .. } if address == remote),
                "{error}"
            );
        }
        let mut allowed = HostAddress::new("a", "10.0.0.7:7171", Token::generate().unwrap());
        allowed.allow_plain_remote = true;
        assert_eq!(allowed.check(), Ok(()));
    }

    #[test]
    fn an_address_without_host_or_port_is_named() {
        for address in [
            "db7",
            "db7:",
            ":7171",
            "db7:port",
            "fd00::7",
            "fd00::7:7171",
            "db7:70000",
            "",
        ] {
            let error = check(address).unwrap_err();
            assert!(
                matches!(error, AgentError::BadHost { .. }),
                "{address}: {error}"
            );
        }
    }
}
