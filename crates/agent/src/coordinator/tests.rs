//! A coordinator with an agent of another version.

use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::*;
use crate::Token;
use crate::wire::rpc::agent_server;
use crate::wire::{
    Bye, ClockQuery, ClockReply, Fetch, FetchReply, Hello, HelloReply, Poll, PollReply, Prepare,
    Reply, Start, StopWork,
};

struct Newer;

type Answer<T> = Result<Response<T>, Status>;

fn none<T>() -> Answer<T> {
    Err(Status::unimplemented("another version"))
}

#[tonic::async_trait]
impl agent_server::Agent for Newer {
    async fn hello(&self, _: Request<Hello>) -> Answer<HelloReply> {
        Ok(Response::new(HelloReply::OtherVersion {
            protocol: 99,
            version: "99.1.0".to_owned(),
        }))
    }
    async fn clock(&self, _: Request<ClockQuery>) -> Answer<ClockReply> {
        none()
    }
    async fn prepare(&self, _: Request<Prepare>) -> Answer<Reply> {
        none()
    }
    async fn start(&self, _: Request<Start>) -> Answer<Reply> {
        none()
    }
    async fn poll(&self, _: Request<Poll>) -> Answer<PollReply> {
        none()
    }
    async fn fetch(&self, _: Request<Fetch>) -> Answer<FetchReply> {
        none()
    }
    async fn stop(&self, _: Request<StopWork>) -> Answer<Reply> {
        none()
    }
    async fn bye(&self, _: Request<Bye>) -> Answer<Reply> {
        none()
    }
}

#[test]
fn another_version_is_named_with_both_versions() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    runtime.spawn(
        Server::builder()
            .add_service(agent_server::AgentServer::new(Newer))
            .serve_with_incoming(incoming),
    );
    let host = HostAddress::new("db7", address.to_string(), Token::generate().unwrap());
    let error = Coordinator::connect(&[host], Duration::from_secs(60))
        .err()
        .unwrap();
    assert!(matches!(error, AgentError::Version { .. }));
    let words = error.to_string();
    for part in [
        "db7",
        "99.1.0",
        "protocol 99",
        env!("CARGO_PKG_VERSION"),
        "protocol 1",
    ] {
        assert!(words.contains(part), "{words} lacks {part}");
    }
}

#[test]
fn two_hosts_of_one_name_are_refused() {
    let host = |address: &str| HostAddress::new("db7", address, Token::generate().unwrap());
    let error = Coordinator::connect(
        &[host("127.0.0.1:1"), host("127.0.0.1:2")],
        Duration::from_secs(1),
    )
    .err()
    .unwrap();
    assert!(
        matches!(&error, AgentError::BadHost { host, .. } if host == "db7"),
        "{error}"
    );
}
