//! Metrics over HTTP: for Prometheus, for a browser, and for `tierloom top`.
//!
//! ```text
//!  /              the page (needs no token, has no data)
//!  /api/snapshot  the state now, as JSON           /metrics      the same for Prometheus
//!  /grafana.json  a dashboard to import            /alerts.yaml  rules of alerts
//! ```
//! Everything is made when it is asked for, on the threads of sockets and not on those of queries.

use super::clients::Clients;
use super::idle::Incoming;
use super::session::Server;
use super::traffic::Traffic;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tierloom_counters::Counters;
use tierloom_metrics as metrics;
use tierloom_metrics::{SessionUse, Snapshot};

/// Metrics of a server.
#[derive(Clone)]
pub struct MetricsOptions {
    /// Where they are; port 0 for a free one.
    pub address: SocketAddr,
    /// What must be sent to see them, as `Authorization: Bearer TOKEN`; `None` for this machine
    /// alone, and without texts of statements if the server has passwords.
    pub token: Option<String>,
    /// What counts the traffic of memory; `None` if it is not shown.
    pub counters: Option<Arc<Counters>>,
}

struct Endpoint {
    server: Arc<Server>,
    token: Option<String>,
    traffic: Option<Traffic>,
}

/// Answers requests until the task is aborted.
pub(crate) async fn answer(server: Arc<Server>, options: MetricsOptions, incoming: Incoming) {
    let endpoint = Arc::new(Endpoint {
        server,
        token: options.token,
        traffic: options.counters.as_deref().map(Traffic::count),
    });
    let guard = middleware::from_fn_with_state(Arc::clone(&endpoint), guarded);
    let router = Router::new()
        .route("/metrics", get(exposition))
        .route("/api/snapshot", get(snapshot))
        .route_layer(guard)
        .route("/", get(page))
        .route(
            "/grafana.json",
            get(|| async { Json(metrics::dashboard()) }),
        )
        .route("/alerts.yaml", get(alerts))
        .with_state(endpoint);
    // It ends with an error for no connection that there can be.
    let _ = axum::serve(incoming, router).await;
}

/// Who may see what the server does.
async fn guarded(State(endpoint): State<Arc<Endpoint>>, request: Request, next: Next) -> Response {
    match endpoint.refusal(request.headers()) {
        Some((status, why)) => (status, why).into_response(),
        None => next.run(request).await,
    }
}

impl Endpoint {
    fn refusal(&self, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        match &self.token {
            Some(token) => {
                let sent = text(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
                let sent = sent.unwrap_or_default().as_bytes();
                let is_right = bool::from(sent.ct_eq(token.as_bytes()));
                let why = "expected the server's token as Authorization: Bearer TOKEN\n";
                (!is_right).then_some((StatusCode::UNAUTHORIZED, why))
            }
            // A page of another site can reach this machine under a name of its own that leads
            // here, so names other than this machine's are refused.
            None => {
                let why = "expected an address of this machine as the name of the host\n";
                let is_ours = text(HOST).is_some_and(is_address);
                (!is_ours).then_some((StatusCode::FORBIDDEN, why))
            }
        }
    }

    /// The state now. Asks the kernel, so it does not run on a thread that must not wait.
    async fn now(self: Arc<Self>) -> Result<Snapshot, StatusCode> {
        let made = tokio::task::spawn_blocking(move || {
            let server = &self.server;
            let mut snapshot = server.engine.snapshot();
            snapshot.uptime_seconds = server.started.elapsed().as_secs_f64();
            snapshot.statements = server.counted.counts();
            snapshot.traffic = self.traffic.as_ref().map(Traffic::now).unwrap_or_default();
            snapshot.sessions = Some(sessions(&server.clients));
            let shows_texts = self.token.is_some() || server.passwords.is_none();
            match shows_texts {
                true => snapshot,
                false => snapshot.without_texts(),
            }
        });
        made.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Whether a `Host` is an IP address or `localhost`, with or without a port.
fn is_address(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => (name, Some(port)),
        _ => (host, None),
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
    name.eq_ignore_ascii_case("localhost")
        || is_ip(bare.unwrap_or(name))
        || (port.is_some() && is_ip(host))
}

fn sessions(clients: &Clients) -> Vec<SessionUse> {
    let all = clients.all().into_iter();
    let session = all.map(|(client, statement)| SessionUse {
        pid: client.pid,
        user: client.user.clone(),
        application: client.application(),
        address: client.address.clone(),
        running_seconds: statement.as_ref().map(|statement| {
            let elapsed = statement.since.elapsed();
            elapsed.unwrap_or_default().as_secs_f64()
        }),
        statement: statement.map(|statement| statement.text.clone()),
    });
    session.collect()
}

async fn snapshot(State(endpoint): State<Arc<Endpoint>>) -> Result<impl IntoResponse, StatusCode> {
    let snapshot = endpoint.now().await?;
    Ok(([(CACHE_CONTROL, "no-store")], Json(snapshot)))
}

async fn exposition(
    State(endpoint): State<Arc<Endpoint>>,
) -> Result<impl IntoResponse, StatusCode> {
    let snapshot = Arc::clone(&endpoint).now().await?;
    let text = metrics::exposition(&snapshot, &endpoint.server.counted);
    let text = text.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}

async fn page() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            HeaderName::from_static("content-security-policy"),
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'",
        ),
    ];
    (headers, metrics::PAGE)
}

async fn alerts() -> impl IntoResponse {
    let text = format!("{:#}\n", metrics::alerts());
    ([(CONTENT_TYPE, "application/yaml")], text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_of_this_machine_is_known_with_and_without_a_port() {
        for ours in [
            "127.0.0.1:9187",
            "127.0.0.1",
            "localhost:1",
            "[::1]:9187",
            "[::1]",
            "10.0.0.1",
        ] {
            assert!(is_address(ours), "{ours}");
        }
        for foreign in [
            "example.org",
            "example.org:9187",
            "127.0.0.1.example.org:80",
            "",
            ":80",
        ] {
            assert!(!is_address(foreign), "{foreign}");
        }
    }
}
