//! Calls by a client that does not keep to the protocol.

use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};

use tonic::transport::Endpoint;
use tonic::{Code, Request};

use super::*;
use crate::wire::rpc::agent_client::AgentClient;
use crate::wire::{
    Bye, ClockQuery, Hello, HelloReply, PROTOCOL, Phase, Poll, PollReply, Prepare, Reply, Start,
    VERSION,
};
use crate::{Ready, RunnerError};

struct Nothing;

impl HostRunner for Nothing {
    fn prepare(&self, _: &str, _: &Stop) -> Result<Box<dyn Ready>, RunnerError> {
        Ok(Box::new(Self))
    }
}

impl Ready for Nothing {
    fn summary(&self) -> String {
        String::new()
    }

    fn run(self: Box<Self>, _: SystemTime, stop: &Stop) -> Result<String, RunnerError> {
        stop.wait_timeout(Duration::from_secs(60));
        Ok("done".to_owned())
    }
}

/// Runs `act` with a client of an agent. The client sends `shown`, if anything, as its token.
fn with_agent<F: Future<Output = ()>>(
    act: impl FnOnce(AgentClient<tonic::transport::Channel>, String) -> F,
) {
    let token = Token::generate().unwrap();
    let header = format!("{SCHEME}{}", token.to_hex());
    let (tell, ready) = mpsc::channel();
    let stop = Stop::new();
    let end = stop.clone();
    let options = AgentOptions::new("127.0.0.1:0".parse().unwrap(), token);
    let agent = std::thread::spawn(move || {
        serve(
            options,
            Arc::new(Nothing),
            |address| tell.send(address).unwrap(),
            end,
        )
    });
    let address = ready.recv_timeout(Duration::from_secs(60)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        act(AgentClient::new(endpoint.connect().await.unwrap()), header).await;
    });
    stop.request();
    agent.join().unwrap().unwrap();
}

fn showing<T>(message: T, header: &str) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert("authorization", header.parse().unwrap());
    request
}

fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL,
        version: VERSION.to_owned(),
    }
}

#[test]
fn without_the_exact_token_no_call_is_answered_and_all_refusals_are_alike() {
    with_agent(|mut client, header| async move {
        let digits = header.strip_prefix(SCHEME).unwrap();
        let last = if header.ends_with('0') { "1" } else { "0" };
        let near = format!("{}{last}", &header[..header.len() - 1]);
        let mut answers = vec![client.hello(hello()).await.unwrap_err()];
        for shown in [
            &near,
            digits,
            SCHEME,
            &format!("Basic {digits}"),
            &header[..header.len() - 2],
            &format!("{header}00"),
        ] {
            answers.push(client.hello(showing(hello(), shown)).await.unwrap_err());
        }
        let session = String::new();
        answers.push(
            client
                .clock(ClockQuery {
                    session: session.clone(),
                })
                .await
                .unwrap_err(),
        );
        answers.push(client.bye(Bye { session }).await.unwrap_err());
        for answer in answers {
            assert_eq!(
                (answer.code(), answer.message()),
                (Code::Unauthenticated, "not authenticated")
            );
        }
        assert!(client.hello(showing(hello(), &header)).await.is_ok());
    });
}

#[test]
fn another_version_is_told_ours_and_gets_no_session() {
    with_agent(|mut client, header| async move {
        for other in [
            Hello {
                protocol: 99,
                ..hello()
            },
            Hello {
                version: "99.0.0".to_owned(),
                ..hello()
            },
        ] {
            let reply = client
                .hello(showing(other, &header))
                .await
                .unwrap()
                .into_inner();
            let HelloReply::OtherVersion { protocol, version } = reply else {
                panic!("{reply:?}")
            };
            assert_eq!((protocol, version.as_str()), (PROTOCOL, VERSION));
        }
        let reply = client
            .hello(showing(hello(), &header))
            .await
            .unwrap()
            .into_inner();
        assert!(matches!(reply, HelloReply::Accepted { .. }));
    });
}

#[test]
fn a_session_obeys_only_its_own_name_and_order() {
    with_agent(|mut client, header| async move {
        let reply = client
            .hello(showing(hello(), &header))
            .await
            .unwrap()
            .into_inner();
        let HelloReply::Accepted { session, .. } = reply else {
            panic!("{reply:?}")
        };
        let foreign = Prepare {
            session: "0".repeat(32),
            request: String::new(),
        };
        let reply = client
            .prepare(showing(foreign, &header))
            .await
            .unwrap()
            .into_inner();
        assert!(matches!(reply, Reply::NoSession { .. }), "{reply:?}");

        let start = Start {
            session: session.clone(),
            at_ns: i64::MAX,
        };
        let reply = client
            .start(showing(start.clone(), &header))
            .await
            .unwrap()
            .into_inner();
        assert!(
            matches!(&reply, Reply::Refused { why } if why.contains("prepare first")),
            "{reply:?}"
        );

        let prepare = Prepare {
            session: session.clone(),
            request: String::new(),
        };
        let reply = client
            .prepare(showing(prepare.clone(), &header))
            .await
            .unwrap()
            .into_inner();
        let Reply::Done { sequence } = reply else {
            panic!("{reply:?}")
        };
        let reply = client
            .prepare(showing(prepare, &header))
            .await
            .unwrap()
            .into_inner();
        assert!(
            matches!(&reply, Reply::Refused { why } if why.contains("not ended")),
            "{reply:?}"
        );
        let poll = Poll {
            session: session.clone(),
            seen: sequence,
            wait_ms: 60_000,
        };
        let reply = client
            .poll(showing(poll, &header))
            .await
            .unwrap()
            .into_inner();
        assert!(
            matches!(
                reply,
                PollReply::Changed {
                    phase: Phase::Ready { .. },
                    ..
                }
            ),
            "{reply:?}"
        );
        for at_ns in [i64::MAX, 0, i64::MIN] {
            let start = Start {
                at_ns,
                ..start.clone()
            };
            let reply = client
                .start(showing(start, &header))
                .await
                .unwrap()
                .into_inner();
            assert!(
                matches!(&reply, Reply::Refused { why } if why.contains("clock")),
                "{reply:?}"
            );
        }
        // Ending the session also ends a waiting poll.
        let poll = Poll {
            session: session.clone(),
            seen: sequence + 1,
            wait_ms: 60_000,
        };
        let mut other = client.clone();
        let (polled, ended) = tokio::join!(
            other.poll(showing(poll, &header)),
            client.bye(showing(Bye { session }, &header))
        );
        assert!(matches!(ended.unwrap().into_inner(), Reply::Done { .. }));
        assert!(matches!(
            polled.unwrap().into_inner(),
            PollReply::NoSession { .. }
        ));
    });
}

#[test]
fn a_message_that_is_too_large_is_refused() {
    with_agent(|mut client, header| async move {
        let request = "x".repeat(MAX_MESSAGE_BYTES + 1);
        let prepare = Prepare {
            session: String::new(),
            request,
        };
        let refused = client.prepare(showing(prepare, &header)).await.unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
        assert!(
            client.hello(showing(hello(), &header)).await.is_ok(),
            "the connection lives on"
        );
    });
}
