//! What a session does: work on several hosts at an agreed time, one run after another, one
//! coordinator at a time.

mod common;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use common::{Marks, PATIENCE, ThreadAgent, begin, connect, eventually};
use tierloom_agent::{AgentError, Coordinator, CoordinatorOptions, SkewedClock, Stop};

#[test]
fn two_hosts_work_at_the_same_time_run_after_run() {
    let (one, two) = (ThreadAgent::start(), ThreadAgent::start());
    let mut coordinator = connect(&[one.host("a"), two.host("b")]).unwrap();
    assert_eq!(coordinator.hosts(), [("a", "agent"), ("b", "agent")]);
    for round in 0..3 {
        let requests = vec![
            ("b".to_owned(), format!("one{round}")),
            ("a".to_owned(), "two".to_owned()),
        ];
        let summaries = coordinator.prepare(requests).unwrap();
        let expected = [
            ("b".to_owned(), format!("ready for one{round}")),
            ("a".to_owned(), "ready for two".to_owned()),
        ];
        assert_eq!(summaries, expected);
        coordinator.start(Duration::from_millis(300)).unwrap();
        assert!(coordinator.wait("a").unwrap().starts_with("two "));
        assert!(
            coordinator
                .wait("b")
                .unwrap()
                .starts_with(&format!("one{round} "))
        );
    }
}

#[test]
fn background_load_runs_until_it_is_told_to_stop() {
    let (one, two) = (ThreadAgent::start(), ThreadAgent::start());
    let marks = Marks::new();
    let mut coordinator = connect(&[one.host("main"), two.host("load")]).unwrap();
    begin(
        &mut coordinator,
        &[("main", "work"), ("load", &marks.load())],
    )
    .unwrap();
    coordinator.wait("main").unwrap();
    marks.wait_for("begun");
    assert!(!marks.mark("ended").exists(), "load outlives the main task");
    coordinator.stop("load").unwrap();
    assert_eq!(coordinator.wait("load").unwrap(), "load until stopped");
    assert!(
        !coordinator.trouble().requested(),
        "a stop that was asked for is no trouble"
    );
}

#[test]
fn a_skewed_clock_is_measured_within_its_uncertainty_and_starts_line_up() {
    let ahead = Duration::from_secs(2);
    let straight = ThreadAgent::start();
    let skewed = ThreadAgent::with(|options| options.clock = Arc::new(SkewedClock { ahead }));
    let mut coordinator = connect(&[straight.host("straight"), skewed.host("skewed")]).unwrap();
    let start = begin(
        &mut coordinator,
        &[("straight", "work"), ("skewed", "work")],
    )
    .unwrap();
    let start_ns = start.duration_since(UNIX_EPOCH).unwrap().as_nanos();
    for (clock, true_offset_ns) in coordinator.clocks().into_iter().zip([0, 2_000_000_000_i64]) {
        assert!(clock.uncertainty_ns < 1_000_000_000, "{clock:?}");
        assert!(
            clock.offset_ns.abs_diff(true_offset_ns) <= clock.uncertainty_ns,
            "{clock:?}"
        );
        let result = coordinator.wait(&clock.host).unwrap();
        let reported: u128 = result.split(' ').nth(1).unwrap().parse().unwrap();
        // The start time that the host was given, on its clock, is the agreed time on ours.
        let on_ours = reported
            .checked_add_signed(-i128::from(true_offset_ns))
            .unwrap();
        assert!(
            on_ours.abs_diff(start_ns) <= u128::from(clock.uncertainty_ns),
            "{clock:?}: {on_ours} and {start_ns}"
        );
    }
}

#[test]
fn a_second_coordinator_is_told_who_has_the_host_and_gets_it_afterwards() {
    let agent = ThreadAgent::start();
    let first = connect(&[agent.host("a")]).unwrap();
    let error = connect(&[agent.host("a")]).err().unwrap();
    let AgentError::Busy { host, by, over, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((host.as_str(), over), ("a", &None));
    assert!(by.starts_with("127.0.0.1:"), "{by}");
    assert!(
        error.to_string().contains("in use by 127.0.0.1:"),
        "{error}"
    );
    drop(first);
    connect(&[agent.host("a")]).unwrap();
}

#[test]
fn a_host_that_is_busy_leaves_no_session_on_the_others() {
    let (busy, free) = (ThreadAgent::start(), ThreadAgent::start());
    let _first = connect(&[busy.host("busy")]).unwrap();
    assert!(matches!(
        connect(&[free.host("free"), busy.host("busy")]),
        Err(AgentError::Busy { .. })
    ));
    connect(&[free.host("free")]).unwrap();
}

#[test]
fn start_times_that_cannot_be_kept_are_refused() {
    let agent = ThreadAgent::start();
    let mut coordinator = connect(&[agent.host("a")]).unwrap();
    for (in_, word) in [
        (Duration::ZERO, "ago"),
        (Duration::from_secs(90), "60 s ahead"),
    ] {
        coordinator
            .prepare(vec![("a".to_owned(), "work".to_owned())])
            .unwrap();
        let error = coordinator.start(in_).unwrap_err();
        assert!(
            matches!(&error, AgentError::Refused { host, what: "start", why } if host == "a" && why.contains(word)),
            "{error}"
        );
    }
    begin(&mut coordinator, &[("a", "work")]).unwrap();
    coordinator.wait("a").unwrap();
}

#[test]
fn calls_out_of_order_are_errors_not_waits() {
    let agent = ThreadAgent::start();
    let mut coordinator = connect(&[agent.host("a")]).unwrap();
    assert!(matches!(
        coordinator.wait("a"),
        Err(AgentError::Order { .. })
    ));
    assert!(matches!(
        coordinator.start(Duration::from_secs(1)),
        Err(AgentError::Order { .. })
    ));
    let error = coordinator.wait("z").unwrap_err();
    assert_eq!(
        error,
        AgentError::UnknownHost {
            host: "z".to_owned(),
            known: "a".to_owned()
        }
    );
    let twice = vec![
        ("a".to_owned(), "x".to_owned()),
        ("a".to_owned(), "y".to_owned()),
    ];
    assert!(matches!(
        coordinator.prepare(twice),
        Err(AgentError::BadHost { .. })
    ));
}

#[test]
fn results_up_to_the_limit_arrive_and_larger_ones_are_named() {
    let agent = ThreadAgent::start();
    let mut coordinator = connect(&[agent.host("a")]).unwrap();
    let limit = 16 << 20;
    begin(&mut coordinator, &[("a", &format!("large {limit}"))]).unwrap();
    assert_eq!(coordinator.wait("a").unwrap().len(), limit);
    begin(&mut coordinator, &[("a", &format!("large {}", limit + 1))]).unwrap();
    let error = coordinator.wait("a").unwrap_err();
    assert!(
        error.to_string().contains("larger than the 16 MiB"),
        "{error}"
    );
    let request = "x".repeat(limit + 1);
    assert!(matches!(
        coordinator.prepare(vec![("a".to_owned(), request)]),
        Err(AgentError::BadHost { .. })
    ));
}

#[test]
fn a_request_to_stop_ends_waiting_and_work() {
    let agent = ThreadAgent::start();
    let marks = Marks::new();
    let stop = Stop::new();
    let mut options = CoordinatorOptions::default();
    options.stop = stop.clone();
    let mut coordinator = Coordinator::connect_with(&[agent.host("a")], options).unwrap();
    begin(&mut coordinator, &[("a", &marks.load())]).unwrap();
    marks.wait_for("begun");
    let asker = std::thread::spawn(move || stop.request());
    assert_eq!(coordinator.wait("a"), Err(AgentError::Interrupted));
    assert!(
        marks.mark("ended").exists(),
        "the work had ended when the wait did"
    );
    asker.join().unwrap();
}

#[test]
fn an_agent_that_ends_stops_its_work_and_the_coordinator_hears_of_it() {
    let marks = Marks::new();
    let agent = ThreadAgent::start();
    let mut coordinator = connect(&[agent.host("a")]).unwrap();
    begin(&mut coordinator, &[("a", &marks.load())]).unwrap();
    marks.wait_for("begun");
    drop(agent);
    assert!(marks.mark("ended").exists(), "the agent waits for its work");
    let error = coordinator.wait("a").unwrap_err();
    assert!(
        matches!(&error, AgentError::Lost { host, .. } if host == "a"),
        "{error}"
    );
}

#[test]
fn dropping_the_coordinator_stops_the_work_at_once() {
    // The lease does not end within the test, so it is the `bye` call that ends the session.
    let agent = ThreadAgent::with(|options| options.lease = PATIENCE * 10);
    let marks = Marks::new();
    let mut coordinator = connect(&[agent.host("a")]).unwrap();
    begin(&mut coordinator, &[("a", &marks.load())]).unwrap();
    marks.wait_for("begun");
    drop(coordinator);
    marks.wait_for("ended");
    eventually("the agent is free", || agent.logged("free again"));
}
