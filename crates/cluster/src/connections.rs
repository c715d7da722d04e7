//! Connections of an executor to others, kept for the next fetch.
//!
//! Ballista has the same inside, and gives it to no engine for tasks but its own.

use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::error::Result;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection is kept that nobody uses, as in Ballista 55.
const KEPT: Duration = Duration::from_secs(30);

type Address = (String, u16, GrpcClientConfig);

/// Connections that nobody uses now, by where they lead, and since when; the one used last is at
/// the end.
type Idle = HashMap<Address, Vec<(Instant, BallistaClient)>>;

/// The connections of an executor.
#[derive(Default, Clone)]
pub(crate) struct Connections(Arc<Mutex<Idle>>);

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl Connections {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        // Connections come and go as a whole, so a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_old(&self) {
        self.idle().retain(|_, kept| {
            kept.retain(|(since, _)| since.elapsed() < KEPT);
            !kept.is_empty()
        });
    }
}

#[async_trait::async_trait]
impl BallistaClientPool for Connections {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        customize_endpoint: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> Result<PooledClient> {
        self.forget_old();
        let address = (host.to_owned(), port, config.clone());
        let kept = self.idle().get_mut(&address).and_then(Vec::pop);
        let client = match kept {
            Some((_, client)) => client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    customize_endpoint,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let pool = self.clone();
        let give_back = move |client| {
            let mut idle = pool.idle();
            idle.entry(address)
                .or_default()
                .push((Instant::now(), client));
        };
        Ok(PooledClient::new(client, Box::new(give_back)))
    }

    async fn evict_idle(&self) {
        self.forget_old();
    }
}
