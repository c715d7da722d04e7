//! How commands reach the agents of other hosts.

use crate::failure::Failure;
use crate::stop;
use std::path::Path;
use std::time::Duration;
use tierloom_agent::{
    AgentError, ClockRecord, Coordinator, CoordinatorOptions, HostAddress, SshAgent, SshLaunch,
    Stop, Token,
};

/// Time from the agreement on the start to the start: more than the slowest message takes.
pub const START_IN: Duration = Duration::from_millis(500);

/// How agents are reached and convinced.
#[derive(Debug, Clone, Copy)]
pub struct AgentAccess<'a> {
    /// File with the token; the default places if `None`.
    pub token_file: Option<&'a Path>,
    /// Certificate that signed the agents' certificates, or is theirs.
    pub tls_ca: Option<&'a Path>,
    /// Whether the token may be sent in plain text to other machines.
    pub allow_plain: bool,
}

/// A host and where its agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentHost {
    /// Name of the host.
    pub name: String,
    /// Where its agent is.
    pub at: AgentAt,
}

/// Where an agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAt {
    /// It listens there.
    Address(String),
    /// It is started by ssh to this destination and ends with the command.
    Ssh(String),
}

/// Sessions with the agents of hosts.
pub struct Agents {
    /// The sessions.
    pub coordinator: Coordinator,
    /// Agents started by ssh; dropping this ends them.
    _launched: Vec<SshAgent>,
}

impl Agents {
    /// Connects to all hosts. Ctrl-C ends every wait for them; preparing work may take as long as
    /// `prepare` if that is given.
    ///
    /// # Errors
    /// A token or certificate that cannot be used, a host that cannot be reached or used.
    pub fn connect(
        access: AgentAccess<'_>,
        hosts: &[AgentHost],
        prepare: Option<Duration>,
    ) -> Result<Self, Failure> {
        let mut launched = Vec::new();
        let mut addresses = Vec::new();
        for host in hosts {
            addresses.push(address(access, host, &mut launched)?);
        }
        let stop = Stop::new();
        let mut options = CoordinatorOptions::default();
        options.stop = stop.clone();
        options.prepare_timeout = prepare.unwrap_or(options.prepare_timeout);
        stop::pass_on(stop);
        Ok(Agents {
            coordinator: Coordinator::connect_with(&addresses, options).map_err(of_agents)?,
            _launched: launched,
        })
    }

    /// The clock of a host as it was last measured.
    pub fn clock(&self, host: &str) -> Option<ClockRecord> {
        let mut clocks = self.coordinator.clocks().into_iter();
        clocks.find(|clock| clock.host == host)
    }
}

fn address(
    access: AgentAccess<'_>,
    host: &AgentHost,
    launched: &mut Vec<SshAgent>,
) -> Result<HostAddress, Failure> {
    let at = match &host.at {
        AgentAt::Address(at) => at,
        AgentAt::Ssh(destination) => {
            let launch = SshLaunch::new(&host.name, destination).launch();
            let agent = launch.map_err(of_agents)?;
            let address = agent.address().clone();
            launched.push(agent);
            return Ok(address);
        }
    };
    let (token, _) = Token::find(access.token_file, false).map_err(Failure::input)?;
    let mut address = HostAddress::new(&host.name, at, token);
    address.allow_plain_remote = access.allow_plain;
    address.tls_ca = access.tls_ca.map(read).transpose()?;
    Ok(address)
}

/// An error of the agents as a failure of the command.
pub fn of_agents(error: AgentError) -> Failure {
    match error {
        AgentError::Interrupted => {
            Failure::Interrupted("while hosts were working; they were stopped".into())
        }
        other => Failure::runtime(other),
    }
}

/// The content of a text file.
///
/// # Errors
/// Bad input naming the file.
pub fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))
}
