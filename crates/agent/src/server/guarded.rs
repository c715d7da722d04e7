//! Services of other programs, reached as an agent is.

use std::net::SocketAddr;

use tonic::service::Routes;
use tonic::transport::Server;
use tower_layer::layer_fn;

use crate::server::doors::Doors;
use crate::server::guard::Guard;
use crate::server::log::Refusals;
use crate::server::{AgentOptions, builder, check_listen, listener};
use crate::{AgentError, Token, causes};

/// A server that listens, for callers with the token alone.
///
/// It answers gRPC, and HTTP 1.1 for what else its routes have. Name and lease of the options have
/// no meaning here.
pub struct GuardedServer {
    server: Server,
    incoming: Doors,
    token: Token,
    refusals: Refusals,
    address: SocketAddr,
}

impl GuardedServer {
    /// Listens.
    ///
    /// # Errors
    /// As [`crate::serve`].
    pub async fn listen(options: AgentOptions) -> Result<Self, AgentError> {
        let tls = options.tls.is_some();
        check_listen(options.listen, tls, options.allow_plain_remote)?;
        let server = builder(&options)?.accept_http1(true);
        let (listener, address) = listener(options.listen).await?;
        let refusals = Refusals::new(options.log);
        let (most, patience) = (options.connections, options.introduction);
        Ok(Self {
            server,
            incoming: Doors::new(listener, most, patience, refusals.clone()),
            token: options.token,
            refusals,
            address,
        })
    }

    /// The address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers callers until it is dropped.
    ///
    /// # Errors
    /// [`AgentError::Serve`].
    pub async fn serve(self, routes: Routes) -> Result<(), AgentError> {
        let Self {
            server,
            incoming,
            token,
            refusals,
            address,
        } = self;
        let guard = layer_fn(move |inner| Guard::new(inner, token.clone(), refusals.clone()));
        let router = server.layer(guard).add_routes(routes);
        let served = router.serve_with_incoming(incoming).await;
        served.map_err(|error| AgentError::Serve {
            address,
            reason: causes(&error),
        })
    }
}
