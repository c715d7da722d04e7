//! Requests over sockets of both kinds.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::*;
use crate::server::AgentOptions;
use crate::{AgentError, HostAddress, Stop, Token};

const TIME: Duration = Duration::from_secs(60);

struct Reverse;

impl Responder for Reverse {
    fn respond(&self, request: &str) -> String {
        request.chars().rev().collect()
    }
}

/// Serves while `act` runs with the address.
fn serving(listen: Listen, act: impl FnOnce(&str)) {
    let (sender, ready) = mpsc::channel();
    let stop = Stop::new();
    let end = stop.clone();
    let server = std::thread::spawn(move || {
        let on_ready = |address: &str| sender.send(address.to_owned()).unwrap();
        serve_requests(listen, Arc::new(Reverse), on_ready, end)
    });
    act(&ready.recv_timeout(TIME).unwrap());
    stop.request();
    server.join().unwrap().unwrap();
}

fn socket(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("demo.sock")
}

#[test]
fn requests_over_a_unix_socket_are_answered_from_any_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(&folder);
    serving(Listen::Unix(path.clone()), |address| {
        let to = RequestAddress::Unix(RequestAddress::socket(address).unwrap());
        let requester = Requester::connect(&to, TIME).unwrap();
        assert_eq!(requester.call("abc").unwrap(), "cba");
        let long = "x".repeat(3 << 20);
        assert_eq!(requester.call(&long).unwrap(), long);
        // As an operator of a query engine would.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let answer = runtime.block_on(async { requester.call("def") });
        assert_eq!(answer.unwrap(), "fed");
        let second = serve_requests(
            Listen::Unix(path.clone()),
            Arc::new(Reverse),
            |_| unreachable!(),
            Stop::new(),
        );
        let second = second.unwrap_err();
        assert!(matches!(second, AgentError::Socket { .. }), "{second}");
    });
    assert!(!path.exists());
    let gone = Requester::connect(&RequestAddress::Unix(path), TIME).unwrap_err();
    assert!(matches!(gone, AgentError::NoAnswer { .. }), "{gone}");
}

#[test]
fn a_socket_that_a_dead_program_left_is_replaced_and_other_files_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(&folder);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    serving(Listen::Unix(path.clone()), |_| {});
    std::fs::write(&path, "precious").unwrap();
    assert!(check_socket(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn requests_over_tcp_need_the_token() {
    let (token, other) = (Token::generate().unwrap(), Token::generate().unwrap());
    let options = AgentOptions::new("127.0.0.1:0".parse().unwrap(), token.clone());
    serving(Listen::Tcp(options), |address| {
        let call = |token: Token| {
            let host = HostAddress::new("a", address, token);
            Requester::connect(&RequestAddress::Tcp(host), TIME).and_then(|r| r.call("abc"))
        };
        assert_eq!(call(token).unwrap(), "cba");
        let refused = call(other).unwrap_err().to_string();
        assert!(refused.contains("token"), "{refused}");
    });
}
