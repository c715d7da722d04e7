//! Requests to the scheduler's registry: JSON over HTTP, on the port of the scheduler.

use crate::access::Access;
use crate::direct::NodeLinks;
use crate::error::ClusterError;
use crate::map::{ClusterMap, LoadRequest, Report};
use crate::metrics::exposition;
use crate::registry::{Refusal, Registry};
use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tierloom_agent::HostAddress;
use tonic::codegen::Service;
use ureq::{Agent, RequestBuilder};

/// Longest request; a node's report has some hundred bytes for each table.
const LONGEST_BODY: usize = 64 << 20;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest wait for the answer to a report. While a link is cut, a connection waits longer and
/// longer before it tries again; the next report makes a new one.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);

const MAP: &str = "/tierloom/map";
const REPORT: &str = "/tierloom/report";
const TABLES: &str = "/tierloom/tables";
const CANCEL: &str = "/tierloom/cancel";
const METRICS: &str = "/metrics";

type Answer = Result<Json<ClusterMap>, (StatusCode, String)>;

/// The requests that the scheduler answers beside those of Ballista.
pub(crate) fn routes(registry: Arc<Registry>) -> axum::Router {
    axum::Router::new()
        .route(MAP, get(map))
        .route(REPORT, post(report))
        .route(TABLES, post(load))
        .route(METRICS, get(metrics))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(registry)
}

/// Names the job of a statement.
#[derive(Debug, Serialize, Deserialize)]
struct JobName {
    job: String,
}

/// The requests that only a scheduler answers that gives out work; `cancel` begins to end the job
/// of a name.
pub(crate) fn scheduling_routes(
    registry: Arc<Registry>,
    cancel: impl Fn(String) + Clone + Send + Sync + 'static,
) -> axum::Router {
    let cancel = async move |State(registry): State<Arc<Registry>>, Json(name): Json<JobName>| {
        cancel(name.job);
        Json(registry.map())
    };
    axum::Router::new()
        .route(CANCEL, post(cancel))
        .with_state(registry)
}

/// The map, unless it is the one that the client has.
async fn map(State(registry): State<Arc<Registry>>, fields: HeaderMap) -> Response {
    // Taken first: a map that is newer than its tag is only sent again.
    let tag = registry.tag();
    let known = fields.get(IF_NONE_MATCH);
    match known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(ETAG, tag)], Json(registry.map())).into_response(),
    }
}

async fn report(State(registry): State<Arc<Registry>>, Json(report): Json<Report>) -> Answer {
    registry.report(report).map(Json).map_err(refused)
}

async fn load(State(registry): State<Arc<Registry>>, Json(request): Json<LoadRequest>) -> Answer {
    registry.load(request).map(Json).map_err(refused)
}

async fn metrics(State(registry): State<Arc<Registry>>) -> impl IntoResponse {
    match exposition(&registry.map()) {
        Ok(text) => Ok(([(CONTENT_TYPE, tierloom_metrics::CONTENT_TYPE)], text)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

fn refused(why: Refusal) -> (StatusCode, String) {
    match why {
        Refusal::Conflict(text) => (StatusCode::CONFLICT, text),
        Refusal::Bad(text) => (StatusCode::BAD_REQUEST, text),
        Refusal::Failed(text) => (StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

/// The last map, with its tag.
type TaggedMap = (String, Arc<ClusterMap>);

/// The registry of a scheduler, from another process.
#[derive(Debug, Clone)]
pub(crate) struct RegistryClient {
    agent: Agent,
    url: String,
    /// The field that shows the token.
    shown: Option<String>,
    last: Arc<Mutex<Option<TaggedMap>>>,
}

impl RegistryClient {
    /// For a scheduler at `http://HOST:PORT`, or `https://HOST:PORT`.
    ///
    /// # Errors
    /// [`ClusterError::Input`] for a text that is no such URL, or that does not fit `access`.
    pub fn new(url: &str, access: &Access) -> Result<Self, ClusterError> {
        let url = url.trim_end_matches('/');
        let bad = || {
            ClusterError::input(format!(
                "{url:?} is no URL of a scheduler; expected one as http://127.0.0.1:50050"
            ))
        };
        let rest = url.strip_prefix("http://");
        let rest = rest
            .or_else(|| url.strip_prefix("https://"))
            .ok_or_else(bad)?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(bad)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(bad());
        }
        access.check(url)?;
        if let Some(token) = &access.token {
            let mut to = HostAddress::new("the scheduler", rest, token.clone());
            to.tls_ca.clone_from(&access.tls_ca);
            to.allow_plain_remote = access.allow_plain_remote;
            to.check().map_err(ClusterError::input)?;
        }
        let mut config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None);
        if let Some(tls) = access.http_tls()? {
            config = config.tls_config(tls);
        }
        let token = access.token.as_ref();
        Ok(RegistryClient {
            agent: config.build().into(),
            url: url.into(),
            shown: token.map(|token| format!("Bearer {}", token.to_hex())),
            last: Arc::default(),
        })
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port of the scheduler.
    pub fn host_and_port(&self) -> (String, u16) {
        let rest = self.address();
        let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
        (host.into(), port.parse().unwrap_or_default())
    }

    /// The same as one text.
    fn address(&self) -> &str {
        let rest = self.url.split_once("://").map(|(_, rest)| rest);
        rest.unwrap_or(&self.url)
    }

    /// Whether `map` is still what [`RegistryClient::map`] would give. It is asked through `links`,
    /// without a thread of its own; `false` if that fails.
    pub async fn is_still(&self, map: &Arc<ClusterMap>, links: &NodeLinks) -> bool {
        let last = self.last().clone();
        let Some((tag, _)) = last.filter(|(_, last)| Arc::ptr_eq(last, map)) else {
            return false;
        };
        let request = Request::get(MAP).header(IF_NONE_MATCH, tag);
        let (Ok(request), Ok(mut link)) = (
            request.body(tonic::body::Body::empty()),
            links.to("the scheduler", self.address()),
        ) else {
            return false;
        };
        let ready = poll_fn(|context| link.poll_ready(context)).await;
        ready.is_ok()
            && (link.call(request).await)
                .is_ok_and(|answer| answer.status() == StatusCode::NOT_MODIFIED)
    }

    /// All tables and nodes. How long nodes have been silent is from when something else was new.
    ///
    /// # Errors
    /// [`ClusterError::Failed`] if it does not answer.
    pub fn map(&self) -> Result<Arc<ClusterMap>, ClusterError> {
        let last = self.last().clone();
        let mut request = self.agent.get(format!("{}{MAP}", self.url));
        if let Some((tag, _)) = &last {
            request = request.header("If-None-Match", tag);
        }
        let answer = self.with_token(request).call();
        if let (Ok(answer), Some((_, map))) = (&answer, last)
            && answer.status().as_u16() == 304
        {
            return Ok(map);
        }
        let field = answer.as_ref().ok().and_then(|a| a.headers().get("ETag"));
        let tag = field.and_then(|tag| Some(tag.to_str().ok()?.to_owned()));
        let map = Arc::new(self.answer(answer)?);
        *self.last() = tag.map(|tag| (tag, Arc::clone(&map)));
        Ok(map)
    }

    fn last(&self) -> MutexGuard<'_, Option<(String, Arc<ClusterMap>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what a node holds.
    ///
    /// # Errors
    /// [`ClusterError::Input`] if the node may not take part, else as [`RegistryClient::map`].
    pub fn report(&self, report: &Report) -> Result<ClusterMap, ClusterError> {
        self.post(REPORT, report, REPORT_PATIENCE)
    }

    /// Adds tables.
    ///
    /// # Errors
    /// [`ClusterError::Input`] if that is not possible, else as [`RegistryClient::map`].
    pub fn load(&self, request: &LoadRequest) -> Result<ClusterMap, ClusterError> {
        self.post(TABLES, request, PATIENCE)
    }

    /// Ends the tasks of a job.
    ///
    /// # Errors
    /// As [`RegistryClient::map`].
    pub fn cancel(&self, job: &str) -> Result<ClusterMap, ClusterError> {
        let name = JobName { job: job.into() };
        self.post(CANCEL, &name, REPORT_PATIENCE)
    }

    fn post(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Duration,
    ) -> Result<ClusterMap, ClusterError> {
        let body = serde_json::to_vec(body).map_err(|e| ClusterError::Failed(e.to_string()))?;
        let request = self.agent.post(format!("{}{path}", self.url));
        let request = request.header("Content-Type", "application/json");
        let request = request.config().timeout_global(Some(patience)).build();
        self.answer(self.with_token(request).send(&body[..]))
    }

    fn with_token<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.shown {
            Some(shown) => request.header("Authorization", shown),
            None => request,
        }
    }

    fn answer(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<ClusterMap, ClusterError> {
        let failed = |e: &dyn std::fmt::Display| {
            ClusterError::Failed(format!(
                "the scheduler at {} does not answer: {e}",
                self.url
            ))
        };
        let mut answer = answer.map_err(|e| match e.to_string().contains("certificate") {
            // The next try would not be different.
            true => ClusterError::input(format!("the scheduler at {}: {e}", self.url)),
            false => failed(&e),
        })?;
        let body = answer.body_mut().with_config().limit(LONGEST_BODY as u64);
        let text = body.read_to_vec().map_err(|e| failed(&e))?;
        let said = || String::from_utf8_lossy(&text).into_owned();
        match answer.status().as_u16() {
            200 => serde_json::from_slice(&text).map_err(|e| {
                ClusterError::Failed(format!("{} is no scheduler of tierloom: {e}", self.url))
            }),
            400 | 409 => Err(ClusterError::Input(said())),
            401 => Err(ClusterError::input(match &self.shown {
                Some(_) => format!(
                    "the scheduler at {} does not accept this token; give the one that it was \
                     started with",
                    self.url
                ),
                None => format!(
                    "the scheduler at {} asks for a token; give it with --token-file",
                    self.url
                ),
            })),
            404 => Err(ClusterError::Failed(format!(
                "{} is no scheduler of tierloom",
                self.url
            ))),
            other => Err(failed(&format!("{other} {}", said()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_url_is_refused_before_anything_is_sent() {
        for bad in [
            "",
            "127.0.0.1:50050",
            "https://a:1",
            "ftp://a:1",
            "http://a",
            "http://:1",
        ] {
            assert!(
                RegistryClient::new(bad, &Access::default()).is_err(),
                "{bad}"
            );
        }
        let client = RegistryClient::new("http://host:50050/", &Access::default()).unwrap();
        assert_eq!(client.host_and_port(), ("host".into(), 50050));
    }

    #[test]
    fn a_scheduler_that_is_not_there_is_one_error() {
        let client = RegistryClient::new("http://127.0.0.1:1", &Access::default()).unwrap();
        let error = client.map().unwrap_err().to_string();
        assert!(error.contains("the scheduler at http://127.0.0.1:1 does not answer"));
    }
}
