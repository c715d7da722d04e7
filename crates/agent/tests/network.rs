//! A lost network link: the agent runs in a separate network namespace. This needs the privilege to
//! create one; without it the test says so and checks nothing.

mod common;

use common::{Marks, Process, begin, connect};
use tierloom_agent::{AgentError, HostAddress, Token};
use tierloom_testing::{Network, NetworkHost};

#[test]
#[ignore = "the agent process of other tests"]
fn agent_process() {
    if common::is_child() {
        common::agent_process(true);
    }
}

#[test]
fn a_lost_link_is_noticed_on_both_ends_and_the_agent_is_free_afterwards() {
    let made = Network::make().and_then(|network| Ok((network.host()?, network)));
    let (far, _network): (NetworkHost, Network) = match made {
        Ok(made) => made,
        Err(missing) => return tierloom_testing::checked_nothing(missing),
    };
    let token = Token::generate().unwrap();
    let input = format!("{}:0 {}", far.address(), token.to_hex());
    let agent = Process::start(&far.wrapper(), "agent_process", &input);
    let mut host = HostAddress::new("far", agent.wait_for("listening"), token);
    host.allow_plain_remote = true;
    let marks = Marks::new();
    let mut coordinator = connect(&[host.clone()]).unwrap();
    begin(&mut coordinator, &[("far", &marks.load())]).unwrap();
    marks.wait_for("begun");

    far.set_link(false).unwrap();
    let error = coordinator.wait("far").unwrap_err();
    assert!(
        matches!(&error, AgentError::Lost { host, doing, .. } if host == "far" && doing == "running"),
        "{error}"
    );
    marks.wait_for("ended");
    drop(coordinator);

    far.set_link(true).unwrap();
    let mut next = connect(&[host]).unwrap();
    begin(&mut next, &[("far", "work")]).unwrap();
    next.wait("far").unwrap();
}
