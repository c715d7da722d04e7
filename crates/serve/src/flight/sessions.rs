//! Sessions by token: a handshake begins one, and it ends when it was not used for a while, when
//! its token is too old, or when its client says so.

use super::super::clients::lock;
use super::super::session::{ClientSession, Server};
use super::status::{internal, status};
use super::store::Store;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use tonic::Status;

/// A session ends when no request has come and no statement has run for this long.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// A token is taken for this long after its handshake.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How often sessions that are to end are looked for.
const LOOK: Duration = Duration::from_secs(10);

/// The number of the first session; connections of PostgreSQL have numbers from 100,000.
const FIRST: i32 = 1 << 30;

/// Who a client is if it does not say, where nobody is asked.
pub(super) const NOBODY: &str = "anonymous";

/// The session of a client.
pub(super) struct FlightSession {
    pub client: ClientSession,
    pub store: Store,
    number: i32,
    key: [u8; 32],
    begun: Instant,
    used: Mutex<Instant>,
}

impl FlightSession {
    /// What its client sends with each request.
    pub fn token(&self) -> String {
        let digits = self.key.iter().map(|byte| format!("{byte:02x}"));
        format!("{}.{}", self.number, digits.collect::<String>())
    }

    /// Whether it is to end.
    fn is_over(&self, now: Instant) -> bool {
        let is_old = now.saturating_duration_since(self.begun) > LIFETIME;
        let is_idle = now.saturating_duration_since(*lock(&self.used)) > IDLE;
        let is_active = self.client.client().is_ok_and(|client| client.is_active());
        !is_active && (is_old || is_idle)
    }
}

/// A connection, as long as there is one.
pub(crate) struct Link {
    address: SocketAddr,
    /// Where no password is needed: the session of requests without a token.
    own: Mutex<Option<Arc<FlightSession>>>,
}

impl Link {
    pub fn new(address: SocketAddr) -> Self {
        Link {
            address,
            own: Mutex::default(),
        }
    }

    /// Ends the session of requests without a token, if it is this one.
    pub(super) fn forget(&self, session: &Arc<FlightSession>) {
        let mut own = lock(&self.own);
        if own.as_ref().is_some_and(|own| Arc::ptr_eq(own, session)) {
            *own = None;
        }
    }
}

/// What tells the time.
type Clock = Box<dyn Fn() -> Instant + Send + Sync>;

/// All sessions with a token.
pub(super) struct Sessions {
    pub server: Arc<Server>,
    clock: Clock,
    by_number: Mutex<BTreeMap<i32, Arc<FlightSession>>>,
    next: AtomicI32,
}

impl Sessions {
    pub fn new(server: Arc<Server>) -> Arc<Self> {
        Sessions::by(server, Box::new(Instant::now))
    }

    /// With another clock than the machine's.
    fn by(server: Arc<Server>, clock: Clock) -> Arc<Self> {
        Arc::new(Sessions {
            server,
            clock,
            by_number: Mutex::default(),
            next: AtomicI32::new(FIRST),
        })
    }

    /// Begins a session of `user` with a token, who has shown who that is.
    ///
    /// # Errors
    /// There are too many clients.
    pub fn begin(&self, user: &str, link: &Link) -> Result<Arc<FlightSession>, Status> {
        let session = self.made(user, link)?;
        let known = Arc::clone(&session);
        lock(&self.by_number).insert(session.number, known);
        Ok(session)
    }

    fn made(&self, user: &str, link: &Link) -> Result<Arc<FlightSession>, Status> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(internal)?;
        let client = ClientSession::new(Arc::clone(&self.server), link.address.to_string());
        client.admit(number, &key, user).map_err(status)?;
        Ok(Arc::new(FlightSession {
            client,
            store: Store::default(),
            number,
            key,
            begun: (self.clock)(),
            used: Mutex::new((self.clock)()),
        }))
    }

    /// The session of a request.
    ///
    /// # Errors
    /// No token where one is needed, or one that is not known.
    pub fn of(&self, headers: &HeaderMap, link: &Link) -> Result<Arc<FlightSession>, Status> {
        let sent = headers.get(AUTHORIZATION);
        let sent = sent.map(|value| value.to_str().unwrap_or_default());
        let session = match sent {
            Some(sent) => self.of_token(sent.strip_prefix("Bearer ").unwrap_or_default()),
            None if self.server.passwords.is_none() => self.of_link(link),
            None => Err(Status::unauthenticated(
                "expected a token; give name and password, which the handshake takes",
            )),
        }?;
        *lock(&session.used) = (self.clock)();
        Ok(session)
    }

    fn of_token(&self, token: &str) -> Result<Arc<FlightSession>, Status> {
        let unknown =
            || Status::unauthenticated("the token is not known or has expired; connect again");
        let (number, _) = token.split_once('.').ok_or_else(unknown)?;
        let number: i32 = number.parse().map_err(|_| unknown())?;
        let session = lock(&self.by_number).get(&number).cloned();
        let session = session.ok_or_else(unknown)?;
        let is_right = bool::from(session.token().as_bytes().ct_eq(token.as_bytes()));
        let age = (self.clock)().saturating_duration_since(session.begun);
        if !is_right || age > LIFETIME {
            return Err(unknown());
        }
        Ok(session)
    }

    fn of_link(&self, link: &Link) -> Result<Arc<FlightSession>, Status> {
        let mut own = lock(&link.own);
        if let Some(session) = &*own {
            return Ok(Arc::clone(session));
        }
        let session = self.made(NOBODY, link)?;
        *own = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Ends a session: its token is not taken any more.
    pub fn end(&self, session: &FlightSession) {
        lock(&self.by_number).remove(&session.number);
    }

    /// Ends sessions that are over, until the task is aborted.
    pub async fn end_idle(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.end_those_over();
        }
    }

    fn end_those_over(&self) {
        let now = (self.clock)();
        let over: Vec<Arc<FlightSession>> = {
            let all = lock(&self.by_number);
            all.values().filter(|s| s.is_over(now)).cloned().collect()
        };
        for session in over {
            self.end(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::access::Passwords;
    use super::super::super::catalog::Rewriter;
    use super::super::super::clients::{Clients, Statement};
    use super::*;
    use tierloom_engine::EngineOptions;
    use tierloom_memory::{FakeBackend, FakeNode, PageSize, fake_topology};
    use tierloom_sql::{AdmissionOptions, SharedEngine, SqlOptions, SqlSession};
    use tonic::Code;

    /// A clock that stands still until it is told how late it is.
    #[derive(Clone)]
    struct Time(Arc<Mutex<Instant>>);

    impl Time {
        fn pass(&self, time: Duration) {
            *lock(&self.0) += time;
        }
    }

    fn sessions() -> (Arc<Sessions>, Time) {
        let node = FakeNode {
            node: 0,
            cpus: 1,
            memory_bytes: 1 << 30,
        };
        let options = SqlOptions {
            engine: EngineOptions::tuned(1),
            topology: fake_topology(&[node]).unwrap(),
            page_size: PageSize::Base,
            placement: "dram".parse().unwrap(),
            backend: Arc::new(FakeBackend::with_nodes(&[(0, 1 << 30)])),
        };
        let session = SqlSession::new(options).unwrap();
        let server = Server {
            engine: SharedEngine::new(session, AdmissionOptions::default()),
            started: Instant::now(),
            counted: Arc::default(),
            clients: Clients::default(),
            passwords: Some(Passwords::One("right".into())),
            certificate: None,
            must_encrypt: false,
            operators: None,
            connections: 10,
            rewriter: Arc::new(Rewriter::new()),
            keys: Arc::default(),
        };
        let time = Time(Arc::new(Mutex::new(Instant::now())));
        let clock = time.clone();
        let sessions = Sessions::by(Arc::new(server), Box::new(move || *lock(&clock.0)));
        (sessions, time)
    }

    fn link() -> Link {
        Link::new("127.0.0.1:1".parse().unwrap())
    }

    /// A request with a token.
    fn asks(sessions: &Sessions, token: &str) -> Result<(), Code> {
        let mut headers = HeaderMap::new();
        let value = format!("Bearer {token}").parse().unwrap();
        headers.insert(AUTHORIZATION, value);
        let session = sessions.of(&headers, &link());
        session.map(drop).map_err(|refused| refused.code())
    }

    #[test]
    fn a_token_ends_a_day_after_its_handshake_however_much_it_is_used() {
        let (sessions, time) = sessions();
        let token = sessions.begin("ada", &link()).unwrap().token();
        let step = Duration::from_secs(20 * 60);
        for _ in 0..72 {
            time.pass(step);
            sessions.end_those_over();
            assert_eq!(asks(&sessions, &token), Ok(()));
        }
        time.pass(Duration::from_secs(1));
        // Also before anybody has looked for sessions that are over.
        assert_eq!(asks(&sessions, &token), Err(Code::Unauthenticated));
        assert_eq!(sessions.server.clients.count(), 1);
        sessions.end_those_over();
        assert_eq!(sessions.server.clients.count(), 0);
        assert_eq!(asks(&sessions, &token), Err(Code::Unauthenticated));
    }

    #[test]
    fn a_session_without_requests_ends_unless_its_statement_runs() {
        let (sessions, time) = sessions();
        let begin = |name: &str| sessions.begin(name, &link()).unwrap();
        let (idle, busy) = (begin("ada").token(), begin("bob"));
        let statement = Statement::new("SELECT 1", None);
        busy.client.client().unwrap().runs(&statement);
        let session = busy;
        let busy = session.token();
        drop(session);
        time.pass(IDLE);
        sessions.end_those_over();
        assert_eq!(sessions.server.clients.count(), 2);
        time.pass(Duration::from_secs(1));
        sessions.end_those_over();
        assert_eq!(asks(&sessions, &idle), Err(Code::Unauthenticated));
        assert_eq!(asks(&sessions, &busy), Ok(()));
        drop(statement);
        time.pass(IDLE + Duration::from_secs(1));
        sessions.end_those_over();
        assert_eq!(asks(&sessions, &busy), Err(Code::Unauthenticated));
        assert_eq!(sessions.server.clients.count(), 0);
    }
}
