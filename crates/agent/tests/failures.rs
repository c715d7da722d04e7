//! Hosts that fail, die or hang: the error names the right one, and no other host keeps working.

mod common;

use std::process::Command;

use common::{Marks, Process, ThreadAgent, begin, connect, eventually};
use tierloom_agent::{AgentError, HostAddress, Token};

#[test]
#[ignore = "the agent process of other tests"]
fn agent_process() {
    if common::is_child() {
        common::agent_process(false);
    }
}

#[test]
#[ignore = "the coordinator process of other tests"]
fn coordinator_process() {
    if !common::is_child() {
        return;
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let [address, token, request] = line.trim().splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    let mut coordinator =
        connect(&[HostAddress::new("a", address, Token::parse(token).unwrap())]).unwrap();
    begin(&mut coordinator, &[("a", request)]).unwrap();
    println!("begun");
    if let Err(error) = coordinator.wait("a") {
        println!("{error}");
        std::process::exit(1);
    }
}

fn agent() -> (Process, HostAddress) {
    let token = Token::generate().unwrap();
    let process = Process::start(
        &[],
        "agent_process",
        &format!("127.0.0.1:0 {}", token.to_hex()),
    );
    let address = process.wait_for("listening");
    (process, HostAddress::new("doomed", address, token))
}

#[test]
fn a_killed_agent_is_named_and_the_other_host_stops() {
    let (mut doomed, address) = agent();
    let other = ThreadAgent::start();
    let (marks, other_marks) = (Marks::new(), Marks::new());
    let mut coordinator = connect(&[other.host("other"), address]).unwrap();
    begin(
        &mut coordinator,
        &[("doomed", &marks.load()), ("other", &other_marks.load())],
    )
    .unwrap();
    marks.wait_for("begun");
    other_marks.wait_for("begun");
    doomed.kill();
    // It stops without a `wait`, because this host may be busy with its own work.
    other_marks.wait_for("ended");
    // Waiting for the healthy host reports the dead one.
    let error = coordinator.wait("other").unwrap_err();
    let AgentError::Lost { host, doing, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((host.as_str(), doing.as_str()), ("doomed", "running"));
    assert!(
        coordinator.trouble().requested(),
        "work on this host hears of it too"
    );
    assert_eq!(coordinator.wait("doomed").unwrap_err(), error);

    // The survivor continues; the dead host does not come back by itself.
    assert_eq!(
        coordinator
            .prepare(vec![("doomed".to_owned(), "work".to_owned())])
            .unwrap_err(),
        error
    );
    begin(&mut coordinator, &[("other", "work")]).unwrap();
    coordinator.wait("other").unwrap();
}

#[test]
fn an_agent_that_hangs_is_lost_after_its_lease() {
    let (process, address) = agent();
    let other = ThreadAgent::start();
    let (marks, frozen_marks) = (Marks::new(), Marks::new());
    let mut coordinator = connect(&[other.host("other"), address]).unwrap();
    begin(
        &mut coordinator,
        &[("doomed", &frozen_marks.load()), ("other", &marks.load())],
    )
    .unwrap();
    marks.wait_for("begun");
    signal(&process, "-STOP");
    let error = coordinator.wait("other").unwrap_err();
    signal(&process, "-CONT");
    assert!(
        matches!(&error, AgentError::Lost { host, .. } if host == "doomed"),
        "{error}"
    );
    assert!(marks.mark("ended").exists());
}

#[test]
fn a_killed_coordinator_leaves_no_load_and_a_free_agent() {
    let agent = ThreadAgent::start();
    let marks = Marks::new();
    let input = format!(
        "{} {} {}",
        agent.address,
        agent.token.to_hex(),
        marks.load()
    );
    let mut coordinator = Process::start(&[], "coordinator_process", &input);
    coordinator.wait_for("begun");
    marks.wait_for("begun");
    assert!(matches!(
        connect(&[agent.host("a")]),
        Err(AgentError::Busy { .. })
    ));
    coordinator.kill();
    marks.wait_for("ended");
    eventually("the agent is free", || agent.logged("free again"));
    assert!(
        agent.logged("nothing was heard of its coordinator"),
        "the lease ended it"
    );
    let mut next = connect(&[agent.host("a")]).unwrap();
    begin(&mut next, &[("a", "work")]).unwrap();
    next.wait("a").unwrap();
}

#[test]
fn a_coordinator_that_was_frozen_learns_that_its_session_is_over() {
    let agent = ThreadAgent::start();
    let marks = Marks::new();
    let input = format!(
        "{} {} {}",
        agent.address,
        agent.token.to_hex(),
        marks.load()
    );
    let mut frozen = Process::start(&[], "coordinator_process", &input);
    frozen.wait_for("begun");
    marks.wait_for("begun");
    signal(&frozen, "-STOP");
    marks.wait_for("ended");
    eventually("the agent is free", || agent.logged("free again"));
    let _next = connect(&[agent.host("a")]).unwrap();
    signal(&frozen, "-CONT");
    // Its `wait` fails, and with it the process; the new session is not disturbed.
    assert!(!frozen.child.wait().unwrap().success());
    assert!(matches!(
        connect(&[agent.host("a")]),
        Err(AgentError::Busy { .. })
    ));
}

#[test]
fn a_host_that_cannot_prepare_is_named_and_the_others_give_up() {
    let (bad, slow) = (ThreadAgent::start(), ThreadAgent::start());
    let mut coordinator = connect(&[slow.host("slow"), bad.host("bad")]).unwrap();
    let request = |host: &str, work: &str| (host.to_owned(), work.to_owned());
    // The slow one would take a minute; it is stopped instead.
    let error = coordinator
        .prepare(vec![
            request("slow", "slow-prepare"),
            request("bad", "fail-prepare"),
        ])
        .unwrap_err();
    let expected = AgentError::Failed {
        host: "bad".to_owned(),
        during: "preparing".to_owned(),
        message: "no node 7 here".to_owned(),
    };
    assert_eq!(error, expected);
    begin(&mut coordinator, &[("slow", "work"), ("bad", "work")]).unwrap();
    coordinator.wait("slow").unwrap();
    coordinator.wait("bad").unwrap();
}

#[test]
fn a_run_that_fails_or_panics_ends_the_run_and_not_the_agent() {
    let (bad, other) = (ThreadAgent::start(), ThreadAgent::start());
    let mut coordinator = connect(&[bad.host("bad"), other.host("other")]).unwrap();
    for (work, word) in [
        ("fail-run", "host bad failed while running: pages moved"),
        ("panic-run", "run broke"),
        ("panic-prepare", "prepare broke"),
    ] {
        let marks = Marks::new();
        let begun = begin(&mut coordinator, &[("bad", work), ("other", &marks.load())]);
        let error = begun.and_then(|_| coordinator.wait("other")).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(
            matches!(error, AgentError::Panicked { .. }),
            work.starts_with("panic"),
            "{error}"
        );
        assert_eq!(
            marks.mark("begun").exists(),
            marks.mark("ended").exists(),
            "no load is left"
        );
    }
    begin(&mut coordinator, &[("bad", "work"), ("other", "work")]).unwrap();
    assert!(coordinator.wait("bad").is_ok() && coordinator.wait("other").is_ok());
}

fn signal(process: &Process, name: &str) {
    let status = Command::new("kill")
        .args([name, &process.child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}
