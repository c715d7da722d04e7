//! How a connection begins: TLS, names and passwords, and the variables that clients send along.

use super::clients::lock;
use super::connection::Connection;
use super::errors::fatal;
use super::session::Server;
use super::variables::Variables;
use async_trait::async_trait;
use futures::Sink;
use pgwire::api::auth::sasl::SASLAuthStartupHandler;
use pgwire::api::auth::sasl::scram::ScramAuth;
use pgwire::api::auth::{
    ServerParameterProvider, StartupHandler, finish_authentication, protocol_negotiation,
    save_startup_parameters_to_metadata,
};
use pgwire::api::{ClientInfo, PgWireConnectionState, PidSecretKeyGenerator};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::startup::Startup;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

/// Lets a client in.
pub(crate) struct Entrance {
    connection: Arc<Connection>,
    parameters: Arc<Parameters>,
    /// The exchange about the password, if one is needed.
    scram: Option<SASLAuthStartupHandler<Parameters>>,
}

impl Entrance {
    pub fn new(connection: &Arc<Connection>) -> PgWireResult<Self> {
        let parameters = Arc::new(Parameters(Arc::clone(connection)));
        let scram = scram(&connection.session.server, &parameters)?;
        Ok(Entrance {
            connection: Arc::clone(connection),
            parameters,
            scram,
        })
    }

    /// What can be told before the client has shown who it is.
    fn check(&self, client: &impl ClientInfo, startup: &Startup) -> PgWireResult<()> {
        let server = &self.connection.session.server;
        if server.must_encrypt && !self.connection.is_local && !client.is_secure() {
            return Err(fatal(
                "28000",
                "the server takes connections with TLS only (sslmode=require)",
            ));
        }
        if self.connection.session.is_full() {
            return Err(fatal("53300", "sorry, too many clients already"));
        }
        let user = startup.parameters.get("user");
        if user.is_none_or(String::is_empty) {
            return Err(fatal(
                "28000",
                "no PostgreSQL user name specified in startup packet",
            ));
        }
        let mut variables = lock(&self.connection.session.variables);
        take(&mut variables, startup).map_err(|refused| {
            let refused = ErrorInfo::from(refused);
            fatal(&refused.code, refused.message)
        })
    }
}

fn scram(
    server: &Server,
    parameters: &Arc<Parameters>,
) -> PgWireResult<Option<SASLAuthStartupHandler<Parameters>>> {
    let Some(passwords) = &server.passwords else {
        return Ok(None);
    };
    let mut scram = ScramAuth::new(Arc::new(passwords.clone()));
    if let Some(certificate) = &server.certificate {
        scram.configure_certificate(certificate)?;
    }
    let keys = Arc::clone(&server.keys);
    let handler = SASLAuthStartupHandler::new(Arc::clone(parameters)).with_scram(scram);
    Ok(Some(handler.with_pid_secret_key_generator(keys)))
}

/// Takes over the variables that a client sends with its name.
fn take(variables: &mut Variables, startup: &Startup) -> PgWireResult<()> {
    for (name, value) in &startup.parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => {
                for (name, value) in options(value) {
                    variables.set(&name, Some(&value))?;
                }
            }
            // Extensions of the protocol, which a server need not know.
            name if name.starts_with("_pq_.") => {}
            name => variables.set(name, Some(value))?,
        }
    }
    Ok(())
}

/// The settings of `-c name=value -c name=value`.
fn options(text: &str) -> Vec<(String, String)> {
    let words = text.split_whitespace().filter(|word| *word != "-c");
    let settings = words.filter_map(|word| {
        let word = word.trim_start_matches("-c").trim_start_matches("--");
        word.split_once('=')
    });
    settings
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[async_trait]
impl StartupHandler for Entrance {
    async fn on_startup<C>(
        &self,
        client: &mut C,
        message: PgWireFrontendMessage,
    ) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        if let PgWireFrontendMessage::Startup(startup) = &message {
            self.check(client, startup)?;
        }
        match (&self.scram, &message) {
            (Some(scram), _) => {
                let done = scram.on_startup(client, message).await;
                // Whatever is wrong with the exchange, it is over.
                done.map_err(|refused| {
                    let refused = ErrorInfo::from(refused);
                    fatal(&refused.code, refused.message)
                })?;
            }
            (None, PgWireFrontendMessage::Startup(startup)) => {
                protocol_negotiation(client, startup).await?;
                save_startup_parameters_to_metadata(client, startup);
                let (pid, key) = self.connection.session.server.keys.generate(client);
                client.set_pid_and_secret_key(pid, key);
                finish_authentication(client, self.parameters.as_ref()).await?;
            }
            (None, _) => {}
        }
        match client.state() {
            PgWireConnectionState::ReadyForQuery => self.connection.admit(client),
            _ => Ok(()),
        }
    }
}

/// What clients are told about the server when they are in.
pub(crate) struct Parameters(Arc<Connection>);

/// Variables by the names that clients know them by.
const TOLD: [(&str, &str); 11] = [
    ("server_version", "server_version"),
    ("server_encoding", "server_encoding"),
    ("client_encoding", "client_encoding"),
    ("application_name", "application_name"),
    ("integer_datetimes", "integer_datetimes"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("DateStyle", "datestyle"),
    ("IntervalStyle", "intervalstyle"),
    ("TimeZone", "timezone"),
    ("search_path", "search_path"),
    (
        "default_transaction_read_only",
        "default_transaction_read_only",
    ),
];

impl ServerParameterProvider for Parameters {
    fn server_parameters<C>(&self, client: &C) -> Option<HashMap<String, String>>
    where
        C: ClientInfo,
    {
        let variables = lock(&self.0.session.variables);
        let value = |name: &str| variables.get(name).unwrap_or_default().to_owned();
        let told = TOLD
            .iter()
            .map(|(shown, name)| ((*shown).to_owned(), value(name)));
        let mut told: HashMap<String, String> = told.collect();
        let user = client.metadata().get("user").cloned().unwrap_or_default();
        let operator = if self.0.session.server.is_operator(&user) {
            "on"
        } else {
            "off"
        };
        told.insert("is_superuser".into(), operator.into());
        told.insert("session_authorization".into(), user);
        told.insert("in_hot_standby".into(), "off".into());
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_in_options_are_found_in_all_spellings() {
        let found = options("-c statement_timeout=5s -cjit=off --search_path=public");
        let expected = [
            ("statement_timeout", "5s"),
            ("jit", "off"),
            ("search_path", "public"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, expected);
    }
}
