//! `tierloom top`: what it shows of a server, and what it says of one that is none.

mod common;

use common::tierloom_anywhere;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use tierloom_metrics::{NodeUse, Snapshot, TableUse};

/// A server that gives one answer; returns its URL and what it was asked.
fn answering(status: &'static str, body: String) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0);
            request.extend_from_slice(&buffer[..count]);
        }
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + &body).as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (url, asked)
}

fn state() -> Snapshot {
    Snapshot {
        version: "9.9".into(),
        at_seconds: 1.0,
        uptime_seconds: 90.0,
        nodes: vec![NodeUse {
            node: 3,
            tier: Some("cxl".into()),
            size_bytes: 8 << 30,
            free_bytes: Some(2 << 30),
            columns_bytes: 1 << 30,
        }],
        tables: vec![TableUse {
            table: "orders".into(),
            rows: 1500,
            size_bytes: 1 << 30,
            read_bytes: 0,
            nodes: Vec::new(),
            misplaced: None,
        }],
        ..Snapshot::default()
    }
}

#[test]
fn a_state_is_shown_once_as_text_and_as_json_with_the_token() {
    let body = serde_json::to_string(&state()).unwrap();
    let (url, asked) = answering("200 OK", body.clone());
    let shown = tierloom_anywhere(&["top", &url, "--once"])
        .with_code(0)
        .stdout;
    for part in [
        "tierloom 9.9, up for 1 min 30 s",
        "cxl",
        "8 GiB",
        "orders",
        "1500",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(asked.join().unwrap().starts_with("GET /api/snapshot "));
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "sesame\n").unwrap();
    let (url, asked) = answering("200 OK", body);
    let token = token.to_str().unwrap();
    let ended = tierloom_anywhere(&["top", &url, "--once", "--json", "--token-file", token]);
    let read: Snapshot = serde_json::from_str(&ended.with_code(0).stdout).unwrap();
    assert_eq!(read, state());
    let request = asked.join().unwrap().to_lowercase();
    assert!(
        request.contains("authorization: bearer sesame"),
        "{request}"
    );
}

#[test]
fn what_is_no_server_of_metrics_is_one_clear_error() {
    for (status, body, part) in [
        ("401 Unauthorized", "no", "--token-file"),
        ("200 OK", "<html>", "no state of a tierloom server"),
        ("500 Internal Server Error", "broken", "500"),
    ] {
        let (url, asked) = answering(status, body.into());
        let error = tierloom_anywhere(&["top", &url, "--once"])
            .with_code(1)
            .stderr;
        assert!(
            error.contains(part) && error.lines().count() == 1,
            "{error}"
        );
        asked.join().unwrap();
    }
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{nobody}/");
    let error = tierloom_anywhere(&["top", &url]).with_code(1).stderr;
    assert!(error.contains("refused"), "{error}");
}

#[test]
fn arguments_that_cannot_be_meant_are_bad_input() {
    for (args, part) in [
        (&["top", "db1:9187"][..], "no URL"),
        (&["top", "http://x/", "--interval", "0s"], "--interval"),
        (&["top", "https://x/", "--once"], "--tls-ca"),
        (
            &["top", "https://x/", "--tls-ca", "absent.pem"],
            "absent.pem",
        ),
        (&["top", "http://x/", "--token-file", "absent"], "absent"),
    ] {
        let error = tierloom_anywhere(args).with_code(2).stderr;
        assert!(error.contains(part), "{args:?}: {error}");
    }
}
