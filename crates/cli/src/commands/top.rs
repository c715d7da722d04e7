//! `tierloom top`: the state of a running server in the terminal, again and again.

use crate::commands::agents::read;
use crate::failure::Failure;
use crate::{output, stop};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_metrics::{Snapshot, screen};
use tierloom_text::Seconds;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, http::StatusCode};

/// Show what a server does: memory by node, table and operator, clients and running statements
///
/// Shows the state of a `tierloom serve --metrics ADDRESS` until Ctrl-C.
#[derive(clap::Args)]
pub struct Args {
    /// URL that the server printed, such as http://127.0.0.1:9187/
    #[arg(value_name = "URL")]
    url: String,
    /// Time between two states
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Seconds,
    /// Show one state and end
    #[arg(long)]
    once: bool,
    /// Print states as JSON, a line each
    #[arg(long)]
    json: bool,
    /// A file with the token of the server
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file with the certificate that the server's must be signed by, or be, as PEM
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most bytes of an answer: some thousands of tables.
const MOST_BYTES: u64 = 16 << 20;

/// Moves to the first line and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows states until the user stops it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let server = Server::of(args)?;
    let interval = args.interval.duration().unwrap_or(Duration::from_secs(1));
    let clears = !args.json && !args.once && std::io::stdout().is_terminal();
    let mut before: Option<Snapshot> = None;
    loop {
        let next = Instant::now() + interval;
        let now = server.snapshot()?;
        let text = match args.json {
            true => format!(
                "{}\n",
                serde_json::to_string(&now).map_err(Failure::runtime)?
            ),
            false => screen(&now, before.as_ref()),
        };
        let start = if clears { CLEAR } else { "" };
        output::print(&format!("{start}{text}"))?;
        if args.once {
            return Ok(());
        }
        before = Some(now);
        while Instant::now() < next {
            if stop::requested() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20).min(interval));
        }
    }
}

struct Server {
    agent: Agent,
    url: String,
    token: Option<String>,
}

impl Server {
    fn of(args: &Args) -> Result<Self, Failure> {
        let url = args.url.trim_end_matches('/');
        let is_url = url.starts_with("http://") || url.starts_with("https://");
        if !is_url || args.interval.duration().is_none_or(|time| time.is_zero()) {
            let wrong = match is_url {
                true => "--interval: expected a time above 0".to_owned(),
                false => format!(
                    "{:?} is no URL; expected one as http://127.0.0.1:9187/",
                    args.url
                ),
            };
            return Err(Failure::input(wrong));
        }
        let token = args.token_file.as_deref().map(read).transpose()?;
        let mut config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            // The token is for this server alone.
            .max_redirects(0)
            .proxy(None);
        if url.starts_with("https:") {
            // Several parts of the program may have done so; all mean the same provider.
            let _ = rustls::crypto::ring::default_provider().install_default();
            config = config.tls_config(tls(args.tls_ca.as_deref())?);
        }
        Ok(Server {
            agent: config.build().into(),
            url: format!("{url}/api/snapshot"),
            token: token.map(|text| text.trim().to_owned()),
        })
    }

    fn snapshot(&self) -> Result<Snapshot, Failure> {
        let failed = |problem: String| Failure::runtime(format!("{}: {problem}", self.url));
        let mut request = self.agent.get(&self.url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call().map_err(|e| failed(e.to_string()))?;
        let body = answer
            .body_mut()
            .with_config()
            .limit(MOST_BYTES)
            .read_to_string();
        let text = body.map_err(|e| failed(e.to_string()))?;
        match answer.status() {
            StatusCode::OK => serde_json::from_str(&text)
                .map_err(|e| failed(format!("no state of a tierloom server: {e}"))),
            StatusCode::UNAUTHORIZED => Err(failed(
                "the server asks for a token; give it with --token-file".to_owned(),
            )),
            status => Err(failed(format!("answered {status}: {}", text.trim()))),
        }
    }
}

/// Trusts the certificates of a file alone.
fn tls(path: Option<&Path>) -> Result<TlsConfig, Failure> {
    let Some(path) = path else {
        let needed = "give the certificate to trust with --tls-ca";
        return Err(Failure::input(format!("for a server with https, {needed}")));
    };
    let text = read(path)?;
    let wrong = || Failure::input(format!("{}: expected certificates as PEM", path.display()));
    let mut trusted: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(text.as_bytes()) {
        if let PemItem::Certificate(certificate) = item.map_err(|_| wrong())? {
            trusted.push(certificate);
        }
    }
    if trusted.is_empty() {
        return Err(wrong());
    }
    let roots = RootCerts::Specific(Arc::new(trusted));
    Ok(TlsConfig::builder().root_certs(roots).build())
}
