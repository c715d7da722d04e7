//! The command in a build with the server.
//!
//! Everything that can be wrong in the arguments and in the files of passwords and certificates is
//! found before tables are loaded. The server is the part of the crate `tierloom_serve`.

use super::Args;
use crate::commands::{cluster, sql};
use crate::failure::Failure;
use crate::{output, stop};
use std::net::SocketAddr;
use std::sync::Arc;
use tierloom_counters::Counters;
use tierloom_serve::{
    Address, Certificate, MetricsOptions, PASSWORD_VARIABLE, Passwords, Reached, ServeError,
    ServeOptions, read_token, serve,
};
use tierloom_sql::{AdmissionOptions, SharedEngine};
use tierloom_topology::SysRoot;

/// Loads the tables and serves them until the user stops it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let options = options(args)?;
    let plan = sql::plan::SessionPlan::resolve(&args.load, &args.session)?;
    let admission = admission(args, plan.options.engine.threads)?;
    sql::quiet_workers();
    let tables = match &args.cluster.url {
        Some(url) => Some(cluster::tables(url, &args.cluster)?),
        None => None,
    };
    let mut session = sql::open::session(&plan)?;
    if let Some(tables) = tables {
        let with_tables = session.with_elsewhere(tables);
        session = with_tables.map_err(|e| sql::open::failure(e, Some("--cluster")))?;
    }
    if options.passwords.is_none() {
        note!("note: no password is needed to connect from this machine");
    }
    let engine = SharedEngine::new(session, admission);
    let ready = |reached: &Reached| {
        // Before the lines that somebody may wait for; if nobody reads them, that is no harm.
        if let Some(url) = &reached.metrics {
            let _ = output::print(&format!("metrics {url}\n"));
        }
        if let Some(url) = &reached.flight {
            let _ = output::print(&format!("flight {url}\n"));
        }
        for address in &reached.addresses {
            let _ = output::print(&format!("serving {address}\n"));
        }
    };
    Ok(serve(engine, &options, ready, stop::flag())?)
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Input(message) => Failure::input(message),
            ServeError::Failed(message) => Failure::runtime(message),
        }
    }
}

fn options(args: &Args) -> Result<ServeOptions, Failure> {
    let addresses = args.pg.iter().map(|text| {
        let address: Result<Address, String> = text.parse();
        address.map_err(|e| Failure::input(format!("--pg {e}")))
    });
    let passwords = match &args.password_file {
        Some(path) => Some(Passwords::read(path)?),
        None => match std::env::var(PASSWORD_VARIABLE) {
            Ok(password) if password.is_empty() => {
                return Err(Failure::input(format!("{PASSWORD_VARIABLE} is empty")));
            }
            Ok(password) => Some(Passwords::One(password)),
            Err(std::env::VarError::NotPresent) => None,
            Err(error) => return Err(Failure::input(format!("{PASSWORD_VARIABLE}: {error}"))),
        },
    };
    let certificate = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Certificate::read(certificate, key)?),
        _ => None,
    };
    if args.connections == 0 {
        return Err(Failure::input("--connections 0: expected at least 1"));
    }
    Ok(ServeOptions {
        addresses: addresses.collect::<Result<_, _>>()?,
        flight: args.flight.as_deref().map(flight).transpose()?,
        passwords,
        certificate,
        allow_plain: args.allow_plain_clients,
        operators: args.operator.clone(),
        connections: args.connections,
        metrics: metrics(args)?,
    })
}

fn flight(text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        let expected = "expected IP:PORT as in 127.0.0.1:50051";
        Failure::input(format!("--flight {text:?} is no address; {expected}"))
    })
}

fn metrics(args: &Args) -> Result<Option<MetricsOptions>, Failure> {
    let Some(text) = &args.metrics else {
        return Ok(None);
    };
    let address = text.parse().map_err(|_| {
        let expected = "expected IP:PORT as in 127.0.0.1:9187";
        Failure::input(format!("--metrics {text:?} is no address; {expected}"))
    })?;
    let token = args.metrics_token_file.as_deref().map(read_token);
    let token = token.transpose()?;
    let counters = Some(Arc::new(Counters::probe(&SysRoot::host())));
    Ok(Some(MetricsOptions {
        address,
        token,
        counters,
    }))
}

fn admission(args: &Args, threads: usize) -> Result<AdmissionOptions, Failure> {
    if args.running == Some(0) {
        return Err(Failure::input("--running 0: expected at least 1"));
    }
    let patience = args.patience.duration();
    Ok(AdmissionOptions {
        statements: args.running.unwrap_or((threads / 2).max(2)),
        operator_bytes: args.operator_memory.map(|bytes| bytes.0),
        patience: patience.unwrap_or(std::time::Duration::MAX),
    })
}
