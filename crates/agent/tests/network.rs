//! A lost network link: the agent runs in a separate network namespace behind a pair of virtual
//! devices. This needs the privilege to create those; without it the test says so and checks
//! nothing.

mod common;

use std::process::{Command, Output};

use common::{Marks, Process, begin, connect};
use tierloom_agent::{AgentError, HostAddress, Token};

#[test]
#[ignore = "the agent process of other tests"]
fn agent_process() {
    if common::is_child() {
        common::agent_process(true);
    }
}

/// A namespace with a link to ours; both are removed on drop.
struct Link {
    name: String,
    here: String,
    there: String,
    address: String,
}

impl Link {
    /// `Err` says what is missing on this host.
    fn make() -> Result<Self, String> {
        let id = std::process::id();
        // Addresses from the range for benchmarks of network devices (RFC 2544), varied by process
        // id.
        let net = format!("198.18.{}.", id % 250);
        let link = Self {
            name: format!("tierloom{id}"),
            here: format!("tlh{id}"),
            there: format!("tlt{id}"),
            address: format!("{net}2"),
        };
        ip(&["netns", "add", &link.name])?;
        ip(&[
            "link",
            "add",
            &link.here,
            "type",
            "veth",
            "peer",
            "name",
            &link.there,
            "netns",
            &link.name,
        ])?;
        ip(&["addr", "add", &format!("{net}1/30"), "dev", &link.here])?;
        ip(&[
            "-n",
            &link.name,
            "addr",
            "add",
            &format!("{net}2/30"),
            "dev",
            &link.there,
        ])?;
        ip(&["-n", &link.name, "link", "set", &link.there, "up"])?;
        link.set("up")?;
        Ok(link)
    }

    fn set(&self, state: &str) -> Result<(), String> {
        ip(&["link", "set", &self.here, state])
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = ip(&["link", "del", &self.here]);
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let Output { status, stderr, .. } = Command::new("ip")
        .args(words)
        .output()
        .map_err(|error| format!("no `ip` (iproute2): {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "`ip {}`: {}",
        words.join(" "),
        String::from_utf8_lossy(&stderr).trim()
    ))
}

#[test]
fn a_lost_link_is_noticed_on_both_ends_and_the_agent_is_free_afterwards() {
    let link = match Link::make() {
        Ok(link) => link,
        Err(missing) => {
            return tierloom_testing::checked_nothing(format!(
                "network namespaces need root (CAP_NET_ADMIN and CAP_SYS_ADMIN): {missing}"
            ));
        }
    };
    let token = Token::generate().unwrap();
    let wrapper = ["ip", "netns", "exec", &link.name];
    let input = format!("{}:0 {}", link.address, token.to_hex());
    let agent = Process::start(&wrapper, "agent_process", &input);
    let mut host = HostAddress::new("far", agent.wait_for("listening"), token);
    host.allow_plain_remote = true;
    let marks = Marks::new();
    let mut coordinator = connect(&[host.clone()]).unwrap();
    begin(&mut coordinator, &[("far", &marks.load())]).unwrap();
    marks.wait_for("begun");

    link.set("down").unwrap();
    let error = coordinator.wait("far").unwrap_err();
    assert!(
        matches!(&error, AgentError::Lost { host, doing, .. } if host == "far" && doing == "running"),
        "{error}"
    );
    marks.wait_for("ended");
    drop(coordinator);

    link.set("up").unwrap();
    let mut next = connect(&[host]).unwrap();
    begin(&mut next, &[("far", "work")]).unwrap();
    next.wait("far").unwrap();
}
