//! The end of a session, as the runner of an agent hears of it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use tierloom_agent::{
    AgentOptions, Coordinator, HostAddress, HostRunner, Ready, RunnerError, Stop, Token, serve,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Counts the ends of sessions; its work runs until it is stopped, and a while longer.
#[derive(Default)]
struct Counting {
    ends: AtomicU32,
    working: Arc<AtomicBool>,
    /// An end was heard of while work was running.
    too_early: AtomicBool,
}

impl HostRunner for Counting {
    fn prepare(&self, _: &str, _: &Stop) -> Result<Box<dyn Ready>, RunnerError> {
        self.working.store(true, Ordering::SeqCst);
        Ok(Box::new(Working(Arc::clone(&self.working))))
    }

    fn session_ended(&self) {
        if self.working.load(Ordering::SeqCst) {
            self.too_early.store(true, Ordering::SeqCst);
        }
        self.ends.fetch_add(1, Ordering::SeqCst);
    }
}

struct Working(Arc<AtomicBool>);

impl Ready for Working {
    fn summary(&self) -> String {
        String::new()
    }

    fn run(self: Box<Self>, _: SystemTime, stop: &Stop) -> Result<String, RunnerError> {
        stop.wait_timeout(PATIENCE);
        std::thread::sleep(Duration::from_millis(200));
        self.0.store(false, Ordering::SeqCst);
        Err(RunnerError::Stopped)
    }
}

#[test]
fn a_runner_hears_of_the_end_of_each_session_once_and_after_its_work() {
    let runner = Arc::new(Counting::default());
    let (token, end) = (Token::generate().unwrap(), Stop::new());
    let options = AgentOptions::new("127.0.0.1:0".parse().unwrap(), token.clone());
    let (tell, ready) = mpsc::channel();
    let agent = std::thread::spawn({
        let (runner, end) = (Arc::clone(&runner), end.clone());
        move || serve(options, runner, |address| tell.send(address).unwrap(), end)
    });
    let address = ready.recv_timeout(PATIENCE).expect("the agent listens");
    let connect = || {
        let host = HostAddress::new("a", address.to_string(), token.clone());
        let start = Instant::now();
        loop {
            match Coordinator::connect(std::slice::from_ref(&host), PATIENCE) {
                Ok(coordinator) => return coordinator,
                // The session before has not ended yet.
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let has_ended = |times: u32| {
        let start = Instant::now();
        while runner.ends.load(Ordering::SeqCst) < times {
            assert!(start.elapsed() < PATIENCE, "not told of end {times}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(runner.ends.load(Ordering::SeqCst), times);
    };
    let idle = connect();
    has_ended(0);
    drop(idle);
    has_ended(1);
    let mut busy = connect();
    busy.prepare(vec![("a".to_owned(), String::new())]).unwrap();
    busy.start(Duration::from_millis(300)).unwrap();
    drop(busy);
    has_ended(2);
    assert!(
        !runner.too_early.load(Ordering::SeqCst),
        "its work still ran"
    );
    end.request();
    agent.join().unwrap().unwrap();
    has_ended(2);
}
