//! Command line arguments for several hosts, and what they mean.

use crate::commands::agents::{AgentAccess, AgentAt, AgentHost};
use crate::failure::Failure;
use std::path::PathBuf;
use tierloom_suite::hosts::HostPlace;

/// Placement of all hosts without `--case` and `--placement`.
const DEFAULT_PLACEMENT: &str = "dram";

/// Options for several hosts
#[derive(clap::Args)]
pub struct HostArgs {
    /// Host whose agent (`tierloom bench --agent`) runs the queries, as in a=db7:7171, or
    /// a=ssh:me@db7 to start the agent by ssh; two or more
    #[arg(
        long = "host",
        value_name = "NAME=ADDRESS",
        requires = "interference",
        help_heading = "Several hosts"
    )]
    pub hosts: Vec<String>,
    /// Time the queries on each host alone and while all hosts run them, and compare
    #[arg(
        long,
        requires = "hosts",
        conflicts_with_all = NOT_WITH_INTERFERENCE,
        help_heading = "Several hosts"
    )]
    pub interference: bool,
    /// A name and where each host's tables are then, as in 'own device: a=2 b=3' or 'pool:
    /// a=pool:/dev/dax0.0 b=pool:/dev/dax1.0'; several are measured in turn. Default: a case per
    /// --placement, alike for all hosts
    #[arg(
        long = "case",
        value_name = "NAME: HOST=PLACE ...",
        requires = "interference",
        conflicts_with = "placement",
        help_heading = "Several hosts"
    )]
    pub cases: Vec<String>,
    /// File with the token shared with the agents; default: $TIERLOOM_TOKEN or
    /// ~/.config/tierloom/token
    #[arg(
        id = "agents_token_file",
        long = "token-file",
        value_name = "FILE",
        requires = "interference",
        help_heading = "Several hosts"
    )]
    pub token_file: Option<PathBuf>,
    /// Certificate that signed the agents' certificates (or is theirs), PEM
    #[arg(
        id = "agents_tls_ca",
        long = "tls-ca",
        value_name = "FILE",
        requires = "interference",
        help_heading = "Several hosts"
    )]
    pub tls_ca: Option<PathBuf>,
    /// Allow unencrypted connections to other machines: anyone who reads the traffic learns the
    /// token
    #[arg(
        id = "agents_allow_plain",
        long = "allow-plain-remote",
        requires = "interference",
        help_heading = "Several hosts"
    )]
    pub allow_plain: bool,
}

/// Options that say nothing about queries on several hosts.
const NOT_WITH_INTERFERENCE: [&str; 16] = [
    "machine",
    "model_workers",
    "model_sf",
    "time_per_tuple",
    "baseline",
    "decisions",
    "dram_limit",
    "prefetch_off",
    "memory_audit",
    "restart",
    "sysroot",
    "tiers",
    "host",
    "token_file",
    "tls_ca",
    "allow_plain",
];

/// Where each host's tables are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCase {
    /// Its name.
    pub name: String,
    /// One place per host, in the order of the hosts.
    pub places: Vec<HostPlace>,
}

impl HostArgs {
    /// How the agents are reached.
    pub fn access(&self) -> AgentAccess<'_> {
        AgentAccess {
            token_file: self.token_file.as_deref(),
            tls_ca: self.tls_ca.as_deref(),
            allow_plain: self.allow_plain,
        }
    }

    /// The hosts.
    ///
    /// # Errors
    /// Bad input: not a name and an address, a name twice, or fewer than two hosts.
    pub fn hosts(&self) -> Result<Vec<AgentHost>, Failure> {
        let mut hosts: Vec<AgentHost> = Vec::new();
        for text in &self.hosts {
            let host = host(text)?;
            if hosts.iter().any(|known| known.name == host.name) {
                return Err(Failure::input(format!(
                    "--host {text}: two hosts are called {}; give each its own name",
                    host.name
                )));
            }
            hosts.push(host);
        }
        if hosts.len() < 2 {
            return Err(Failure::input(
                "--interference: one host has nobody to interfere with; name two or more with --host",
            ));
        }
        Ok(hosts)
    }

    /// The cases, with a place for each host.
    ///
    /// # Errors
    /// Bad input: a case that is not one place for every host, or a name twice.
    pub fn cases(
        &self,
        hosts: &[AgentHost],
        placement: Option<&str>,
        pool: Option<&PathBuf>,
    ) -> Result<Vec<HostCase>, Failure> {
        let cases: Vec<HostCase> = if self.cases.is_empty() {
            let list = placement.unwrap_or(DEFAULT_PLACEMENT);
            let list = tierloom_text::list(list)
                .map_err(|problem| Failure::input(format!("--placement: {problem}")))?;
            let alike = |placement: &String| {
                let place = HostPlace::parse(&format!("[{placement}]"), pool);
                let place = place.map_err(|e| Failure::input(format!("--placement: {e}")))?;
                Ok(HostCase {
                    name: placement.clone(),
                    places: vec![place; hosts.len()],
                })
            };
            list.iter().map(alike).collect::<Result<_, Failure>>()?
        } else {
            let named = |text: &String| {
                case(text, hosts, pool).map_err(|e| Failure::input(format!("--case {text}: {e}")))
            };
            self.cases.iter().map(named).collect::<Result<_, _>>()?
        };
        for (number, case) in cases.iter().enumerate() {
            if cases[..number].iter().any(|known| known.name == case.name) {
                return Err(Failure::input(format!(
                    "two cases are called {}; give each its own name",
                    case.name
                )));
            }
        }
        let in_pool = |case: &HostCase| case.places.iter().any(|place| place.pool.as_ref() == pool);
        match pool {
            Some(path) if !cases.iter().any(in_pool) => Err(Failure::input(format!(
                "--pool {}: no host's tables are in it; add --placement pool",
                path.display()
            ))),
            _ => Ok(cases),
        }
    }
}

fn host(text: &str) -> Result<AgentHost, Failure> {
    let wrong = || {
        Failure::input(format!(
            "--host {text}: expected NAME=HOST:PORT, as in a=db7:7171, or NAME=ssh:DESTINATION"
        ))
    };
    let (name, at) = text.split_once('=').ok_or_else(wrong)?;
    let fits = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || at.is_empty() || !name.chars().all(fits) {
        return Err(wrong());
    }
    let at = match at.strip_prefix("ssh:") {
        Some("") => return Err(wrong()),
        Some(destination) => AgentAt::Ssh(destination.to_owned()),
        None => AgentAt::Address(at.to_owned()),
    };
    Ok(AgentHost {
        name: name.to_owned(),
        at,
    })
}

/// Reads `NAME: HOST=PLACE HOST=PLACE`.
fn case(text: &str, hosts: &[AgentHost], pool: Option<&PathBuf>) -> Result<HostCase, String> {
    let (name, rest) = text
        .split_once(':')
        .filter(|(name, _)| !name.trim().is_empty() && !name.contains('='))
        .ok_or("expected a name and places, as in 'own device: a=2 b=3'")?;
    let mut places: Vec<Option<HostPlace>> = vec![None; hosts.len()];
    for part in rest.split_whitespace() {
        let (host, place) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?}: expected HOST=PLACE"))?;
        let index = hosts.iter().position(|known| known.name == host);
        let index = index.ok_or_else(|| format!("no --host is called {host:?}"))?;
        let place = HostPlace::parse(place, pool).map_err(|e| e.to_string())?;
        if places[index].replace(place).is_some() {
            return Err(format!("host {host} has two places; give it one"));
        }
    }
    let missing = |(host, _): (&AgentHost, _)| format!("host {} has no place", host.name);
    let mut unset = hosts
        .iter()
        .zip(&places)
        .filter(|(_, place)| place.is_none());
    match unset.next() {
        Some(host) => Err(missing(host)),
        None => Ok(HostCase {
            name: name.trim().to_owned(),
            places: places.into_iter().flatten().collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(hosts: &[&str], cases: &[&str]) -> HostArgs {
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        HostArgs {
            hosts: all(hosts),
            interference: true,
            cases: all(cases),
            token_file: None,
            tls_ca: None,
            allow_plain: false,
        }
    }

    const HOSTS: [&str; 2] = ["a=127.0.0.1:7171", "b=ssh:me@db8"];

    #[test]
    fn hosts_have_names_of_their_own_and_an_address_or_ssh() {
        let hosts = args(&HOSTS, &[]).hosts().unwrap();
        assert_eq!(hosts[0].at, AgentAt::Address("127.0.0.1:7171".into()));
        assert_eq!(hosts[1].at, AgentAt::Ssh("me@db8".into()));
        for (hosts, part) in [
            (&["a=db7:1"][..], "two or more"),
            (&["a=db7:1", "a=db8:1"], "two hosts are called a"),
            (&["a=db7:1", "db8:1"], "--host db8:1: expected NAME="),
            (&["a=db7:1", "b="], "--host b=: expected"),
            (&["a=db7:1", "b=ssh:"], "NAME=ssh:DESTINATION"),
            (&["a=db7:1", "b c=db8:1"], "expected NAME="),
        ] {
            let error = args(hosts, &[]).hosts().unwrap_err().to_string();
            assert!(error.contains(part), "{hosts:?}: {error}");
        }
    }

    #[test]
    fn a_case_has_one_place_for_every_host() {
        let with = args(&HOSTS, &["own: a=2 b=pool:/dev/dax1.0", "one:a=cxl b=cxl"]);
        let hosts = with.hosts().unwrap();
        let cases = with.cases(&hosts, None, None).unwrap();
        assert_eq!(cases[0].name, "own");
        assert_eq!(cases[0].places[0].placement, "2");
        assert_eq!(cases[0].places[1].to_string(), "pool /dev/dax1.0");
        assert_eq!(cases[1].places[0], cases[1].places[1]);
        for (text, part) in [
            ("own", "expected a name and places"),
            (": a=dram b=dram", "expected a name and places"),
            ("a=dram b=dram", "expected a name and places"),
            ("own: a=dram", "host b has no place"),
            ("own: a=dram b=dram c=dram", "no --host is called \"c\""),
            ("own: a=dram b=dram a=cxl", "host a has two places"),
            ("own: a=dram b", "expected HOST=PLACE"),
            ("own: a=dram b=nowhere", "nowhere"),
        ] {
            let error = args(&HOSTS, &[text]).cases(&hosts, None, None).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let twice = args(&HOSTS, &["x: a=dram b=dram", "x: a=cxl b=cxl"]);
        let error = twice.cases(&hosts, None, None).unwrap_err().to_string();
        assert!(error.contains("two cases are called x"), "{error}");
    }

    #[test]
    fn placements_are_cases_for_all_hosts_alike_and_a_pool_must_be_used() {
        let with = args(&HOSTS, &[]);
        let hosts = with.hosts().unwrap();
        let cases = with.cases(&hosts, Some("dram,[0:3,1:2]"), None).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["dram", "0:3,1:2"]);
        assert_eq!(with.cases(&hosts, None, None).unwrap()[0].name, "dram");
        let pool = PathBuf::from("/dev/shm/a.pool");
        let in_pool = with.cases(&hosts, Some("pool"), Some(&pool)).unwrap();
        assert_eq!(in_pool[0].places[1].pool, Some(pool.clone()));
        let unused = with.cases(&hosts, Some("dram"), Some(&pool)).unwrap_err();
        assert!(unused.to_string().contains("--placement pool"), "{unused}");
    }
}
