//! The `hosts:` section of a workload file: where the agents of tasks on other machines are.

use super::error::{ProblemText, Problems, did_you_mean};
use super::tree::{Node, Value};
use super::values::shown;
use super::workload::entries;

/// Maximum number of hosts in one file.
const MAX_HOSTS: usize = 256;

/// A machine that runs tasks through an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// Name of the host in the file; tasks refer to it with `host:`.
    pub name: String,
    /// Address the agent listens on, `host:port`; `None` if ssh starts the agent, which reports its
    /// address itself.
    pub address: Option<String>,
    /// Destination for ssh to start an agent there (`user@host`); `None` if the agent already runs.
    pub ssh: Option<String>,
    /// Line of the definition in the file, from 1.
    pub line: u64,
}

pub(super) fn read(node: &Node, problems: &mut Problems<'_>) -> Vec<HostSpec> {
    const KEYS: [&str; 2] = ["address", "ssh"];
    let mut hosts = Vec::new();
    for (name, key, body) in entries(node, "hosts", problems) {
        if hosts.len() >= MAX_HOSTS {
            problems.push(key.place, format!("more than {MAX_HOSTS} hosts"));
            break;
        }
        let mut host = HostSpec {
            name,
            address: None,
            ssh: None,
            line: key.place.line,
        };
        // `name: host:port` is short for a host with that address.
        if let Value::Text(address) = &body.value {
            host.address = Some(address.trim().to_owned());
            hosts.push(host);
            continue;
        }
        for (word, word_node, value) in entries(body, "host", problems) {
            let Some(text) = value
                .as_text()
                .map(str::trim)
                .filter(|text| !text.is_empty())
            else {
                problems.push(
                    value.place,
                    format!("{}: expected a text, found {}", shown(&word), value.kind()),
                );
                continue;
            };
            match word.as_str() {
                "address" => host.address = Some(text.to_owned()),
                // The text becomes an argument of ssh, which would parse it as an option.
                "ssh" if text.starts_with('-') => problems.push(
                    value.place,
                    "ssh: expected a destination such as user@host, not an option",
                ),
                "ssh" => host.ssh = Some(text.to_owned()),
                _ => problems.push(
                    word_node.place,
                    format!(
                        "unknown key `{}`{}; a host has address and ssh",
                        shown(&word),
                        did_you_mean(&word, KEYS)
                    ),
                ),
            }
        }
        if host.address.is_none() && host.ssh.is_none() && problems.is_empty() {
            problems.push(
                key.place,
                ProblemText::new(format!(
                    "host `{}` has neither address nor ssh",
                    shown(&host.name)
                ))
                .help("add `address: HOST:PORT` of its agent, or `ssh: user@host` to start one"),
            );
        }
        if host.address.is_some() && host.ssh.is_some() {
            problems.push(
                key.place,
                ProblemText::new(format!(
                    "host `{}` has both address and ssh",
                    shown(&host.name)
                ))
                .help("an agent that is started by ssh says itself where it listens: leave the address out"),
            );
        }
        hosts.push(host);
    }
    hosts
}
