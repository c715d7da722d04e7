//! Agents started over ssh, with a script in place of ssh that checks its arguments and stays on
//! this machine.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use common::{Marks, PATIENCE, Process, Script, begin, connect, eventually};
use tierloom_agent::{
    AgentError, AgentOptions, LISTENING, Log, SshLaunch, Stop, Token, serve, stop_at_end_of,
};

/// Accepts the arguments that real ssh would be given, and no others.
///
/// It runs the agent's command in a shell, as sshd does.
const FAKE_SSH: &str = r#"#!/bin/bash
forward=
while [ $# -gt 0 ]; do
    case "$1" in
        -T) shift ;;
        -o) shift 2 ;;
        -W) forward=$2; shift 2 ;;
        --) shift; break ;;
        *) echo "unknown option $1" >&2; exit 64 ;;
    esac
done
destination=$1; shift
if [ "$destination" != me@db7 ]; then
    echo "ssh: Could not resolve hostname $destination: Name or service not known" >&2
    exit 255
fi
if [ -n "$forward" ]; then
    exec 3<>"/dev/tcp/${forward%:*}/${forward##*:}" || exit 1
    cat <&3 &
    cat >&3
    kill $!
    exit 0
fi
echo "the banner of a login shell"
echo "a warning of the host" >&2
export TIERLOOM_AGENT_TEST_CHILD=1
sh -c "$*"
"#;

#[test]
#[ignore = "the agent process of other tests"]
fn agent_over_ssh() {
    if !common::is_child() {
        return;
    }
    let token = Token::read_line(std::io::stdin().lock(), "standard input").unwrap();
    let mut options = AgentOptions::new("127.0.0.1:0".parse().unwrap(), token);
    // So long that only the end of the input ends it within a test.
    options.lease = PATIENCE * 10;
    let stop = Stop::new();
    stop_at_end_of(std::io::stdin(), stop.clone()).unwrap();
    let runner = Script::new(Arc::clone(&options.clock));
    serve(
        options,
        runner,
        |address| println!("\n{LISTENING}{address}"),
        stop,
    )
    .unwrap();
    // The last output, by which a test sees that the agent ended in order.
    eprintln!("agent ended");
}

#[test]
#[ignore = "the coordinator process of other tests"]
fn coordinator_over_ssh() {
    if !common::is_child() {
        return;
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let fake = Fake::new();
    let agent = fake.launch("me@db7").launch().unwrap();
    let mut coordinator = connect(&[agent.address().clone()]).unwrap();
    begin(&mut coordinator, &[("far", line.trim())]).unwrap();
    println!("begun");
    coordinator.wait("far").unwrap();
}

struct Fake {
    folder: tempfile::TempDir,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ssh"), FAKE_SSH).unwrap();
        std::fs::set_permissions(
            folder.path().join("ssh"),
            std::fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        Self {
            folder,
            lines: Arc::default(),
        }
    }

    fn launch(&self, destination: &str) -> SshLaunch {
        let mut launch = SshLaunch::new("far", destination);
        launch.ssh = self.ssh();
        launch.program = std::env::current_exe()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        launch.arguments = ["--exact", "agent_over_ssh", "--ignored", "--nocapture"]
            .map(str::to_owned)
            .to_vec();
        let lines = Arc::clone(&self.lines);
        launch.log = Log::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        launch
    }

    fn ssh(&self) -> PathBuf {
        self.folder.path().join("ssh")
    }

    fn logged(&self, word: &str) -> bool {
        self.lines
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains(word))
    }
}

#[test]
fn an_agent_over_ssh_works_and_ends_with_its_coordinator() {
    let fake = Fake::new();
    let agent = fake.launch("me@db7").launch().unwrap();
    let marks = Marks::new();
    let mut coordinator = connect(&[agent.address().clone()]).unwrap();
    begin(&mut coordinator, &[("far", "work")]).unwrap();
    assert!(coordinator.wait("far").unwrap().starts_with("work "));
    begin(&mut coordinator, &[("far", &marks.load())]).unwrap();
    marks.wait_for("begun");
    // As when the program ends in the middle: no `bye` is sent.
    drop(agent);
    marks.wait_for("ended");
    eventually("the agent ends well", || fake.logged("agent ended"));
    assert!(fake.logged("far: a warning of the host"));
    assert!(matches!(
        coordinator.wait("far"),
        Err(AgentError::Lost { .. })
    ));
}

#[test]
fn a_killed_coordinator_takes_its_agent_with_it() {
    let marks = Marks::new();
    let mut coordinator = Process::start(&[], "coordinator_over_ssh", &marks.load());
    coordinator.wait_for("begun");
    marks.wait_for("begun");
    coordinator.kill();
    marks.wait_for("ended");
}

#[test]
fn what_ssh_says_is_in_the_error() {
    let fake = Fake::new();
    let error = fake
        .launch("nobody@nowhere")
        .launch()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("nobody@nowhere") && error.contains("Could not resolve hostname"),
        "{error}"
    );
    let mut missing = fake.launch("me@db7");
    missing.program = "/no/such/tierloom".to_owned();
    let error = missing.launch().unwrap_err().to_string();
    assert!(
        error.contains("/no/such/tierloom") && error.contains("ended with exit status: 127"),
        "{error}"
    );
    let mut without = fake.launch("me@db7");
    without.ssh = fake.folder.path().join("no-ssh-here");
    assert!(matches!(without.launch(), Err(AgentError::Ssh { .. })));
}

/// `TIERLOOM_TEST_SSH` names a destination that reaches this machine without a password, for
/// example `localhost`; `TIERLOOM_TEST_SSH_PROGRAM` names an ssh other than the one in `PATH`.
#[test]
fn a_real_server_forwards_and_ends_the_agent() {
    let Some(destination) = std::env::var("TIERLOOM_TEST_SSH").ok() else {
        return tierloom_testing::checked_nothing(
            "TIERLOOM_TEST_SSH names no destination that reaches this machine without a password",
        );
    };
    let fake = Fake::new();
    let mut launch = fake.launch(&destination);
    launch.ssh = std::env::var_os("TIERLOOM_TEST_SSH_PROGRAM")
        .map_or_else(|| PathBuf::from("ssh"), PathBuf::from);
    let program = std::mem::replace(&mut launch.program, "env".to_owned());
    launch
        .arguments
        .splice(0..0, [format!("{}=1", common::CHILD), program]);
    let agent = launch.launch().unwrap();
    let marks = Marks::new();
    let mut coordinator = connect(&[agent.address().clone()]).unwrap();
    begin(&mut coordinator, &[("far", "work")]).unwrap();
    coordinator.wait("far").unwrap();
    eprintln!("{:?}", coordinator.clocks());
    begin(&mut coordinator, &[("far", &marks.load())]).unwrap();
    marks.wait_for("begun");
    drop(agent);
    marks.wait_for("ended");
}
