//! Clients that vanish, lie or send rubbish.

use super::support::{
    ENDLESS, Server, complaint, eventually, open, printed, resident_mib, secret, session,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Stdio;
use std::time::Duration;
use tierloom_serve::{Certificate, Passwords, ServeError};

/// How many clients of this name run something.
fn active(server: &Server, user: &str) -> Option<String> {
    let mut psql = server.psql("watcher")?;
    let text = format!(
        "SELECT count(*) FROM tierloom_sessions WHERE state = 'active' AND user_name = '{user}'"
    );
    Some(printed(&psql.args(["-c", &text]).output().unwrap()))
}

/// How many clients of this name are connected.
fn connected(server: &Server, user: &str) -> Option<String> {
    let mut psql = server.psql("watcher")?;
    let text = format!("SELECT count(*) FROM tierloom_sessions WHERE user_name = '{user}'");
    Some(printed(&psql.args(["-c", &text]).output().unwrap()))
}

#[test]
fn a_killed_client_leaves_no_statement_behind() {
    let server = Server::start();
    let Some(mut psql) = server.psql("victim") else {
        return;
    };
    let mut child = psql
        .args(["-c", ENDLESS])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually(|| active(&server, "victim").as_deref() == Some("1\n"));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually(|| connected(&server, "victim").as_deref() == Some("0\n"));
    assert_eq!(active(&server, "victim").as_deref(), Some("0\n"));
}

#[test]
fn a_client_that_takes_no_rows_does_not_keep_others_waiting() {
    let server = Server::start();
    if server.psql("x").is_none() {
        return;
    }
    // As many as may run at a time, each with more rows than buffers take.
    let mut idle = Vec::new();
    for _ in 0..6 {
        let mut stream = startup(server.port, "lazy");
        send(&mut stream, "SELECT a.a, b.a FROM n a, n b");
        idle.push(stream);
    }
    eventually(|| active(&server, "lazy").as_deref() == Some("6\n"));
    drop(idle);
    eventually(|| connected(&server, "lazy").as_deref() == Some("0\n"));
}

/// A connection that has said who it is, and read all that was answered.
fn startup(port: u16, user: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let body = format!("user\0{user}\0database\0x\0\0");
    let length = u32::try_from(body.len() + 8).unwrap();
    stream.write_all(&length.to_be_bytes()).unwrap();
    stream.write_all(&196_608_u32.to_be_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    until_ready(&mut stream);
    stream
}

/// What is sent until the server is ready for the next statement.
fn until_ready(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while !read.windows(6).any(|w| w == b"Z\0\0\0\x05I") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..count]);
    }
    read
}

/// Sends a statement, and waits for nothing.
fn send(stream: &mut TcpStream, text: &str) {
    let length = u32::try_from(text.len() + 5).unwrap();
    stream.write_all(b"Q").unwrap();
    stream.write_all(&length.to_be_bytes()).unwrap();
    stream.write_all(format!("{text}\0").as_bytes()).unwrap();
}

#[test]
fn two_hundred_clients_are_answered_and_leave_no_memory_behind() {
    let mut options = open();
    options.connections = 210;
    let server = Server::with(options, session());
    let mut after = Vec::new();
    for round in 0..3 {
        let clients = (0..200).map(|_| startup(server.port, "crowd"));
        let mut clients: Vec<TcpStream> = clients.collect();
        for client in &mut clients {
            send(
                client,
                "SELECT a, sum(a) OVER (ORDER BY a) FROM n WHERE a % 100 = 7",
            );
        }
        // Half of them are gone before they have read anything.
        for client in &mut clients[..100] {
            let answer = until_ready(client);
            let tag = b"SELECT 200\0";
            assert!(answer.windows(tag.len()).any(|w| w == tag), "round {round}");
        }
        drop(clients);
        // Until the server has seen that they are gone: then as many fit again.
        eventually(|| {
            server.psql("watcher").is_none()
                || connected(&server, "crowd").as_deref() == Some("0\n")
        });
        after.push(resident_mib());
    }
    eprintln!("MiB after each round: {after:?}");
    // The first round warms up allocators and plans.
    assert!(after[2] <= after[1] + 64, "MiB after each round: {after:?}");
}

#[test]
fn a_half_open_connection_is_given_up_and_its_statement_stopped() {
    let server = Server::start();
    if server.psql("x").is_none() {
        return;
    }
    let mut stream = startup(server.port, "half");
    send(&mut stream, ENDLESS);
    eventually(|| active(&server, "half").as_deref() == Some("1\n"));
    stream.shutdown(Shutdown::Write).unwrap();
    eventually(|| connected(&server, "half").as_deref() == Some("0\n"));
}

#[test]
fn rubbish_ends_its_connection_and_nothing_else() {
    let server = Server::start();
    let mut random = fastrand::Rng::with_seed(7);
    let mut sent: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 64],
        vec![0; 64],
        vec![0, 0, 0, 8, 4, 210, 22, 47, 0xff, 0xff, 0xff, 0xff],
        vec![0x16, 3, 1, 2, 0, 1, 0],
    ];
    sent.extend((0..60).map(|_| {
        let length = random.usize(1..200);
        (0..length).map(|_| random.u8(..)).collect()
    }));
    for bytes in &sent {
        for started in [false, true] {
            let mut stream = match started {
                true => startup(server.port, "rubbish"),
                false => TcpStream::connect(("127.0.0.1", server.port)).unwrap(),
            };
            stream
                .set_read_timeout(Some(Duration::from_millis(20)))
                .unwrap();
            // The server may have closed the connection already.
            let _ = stream.write_all(bytes);
            let _ = stream.read(&mut [0; 512]);
        }
    }
    // Messages that are well formed but have impossible numbers.
    let bodies: [(u8, &[u8]); 7] = [
        (b'B', b"\0\0\xff\xff\0\0\0\0"),
        (b'B', b"\0\0\0\x02\0\x01\0\x01\0\0\0\0"),
        (b'E', b"\0\xff\xff\xff\xff"),
        (b'E', b"\0\x7f\xff\xff\xff"),
        (b'D', b"X\0"),
        (b'P', b"\0SELECT $99999999\0\x7f\xff"),
        (b'Q', b"SELECT \xff\xfe\0"),
    ];
    for (kind, body) in bodies {
        let mut stream = startup(server.port, "odd");
        stream
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        for (kind, body) in [
            (b'P', &b"\0SELECT a FROM t\0\0\0"[..]),
            (kind, body),
            (b'S', b""),
        ] {
            let length = u32::try_from(body.len() + 4).unwrap();
            let message = [&[kind][..], &length.to_be_bytes(), body].concat();
            let _ = stream.write_all(&message);
        }
        let _ = stream.read(&mut [0; 4096]);
    }
    let Some(mut psql) = server.psql("tester") else {
        return;
    };
    assert_eq!(
        printed(&psql.args(["-c", "SELECT 1"]).output().unwrap()),
        "1\n"
    );
    assert_eq!(server.end(), Ok(()));
}

#[test]
fn a_wrong_password_and_an_unknown_name_are_refused_alike() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = open();
    options.passwords = Some(Passwords::read(&secret(folder.path(), "p", "ada:right\n")).unwrap());
    let server = Server::with(options, session());
    let told: Vec<Option<String>> = [("ada", "wrong"), ("eve", "right")]
        .iter()
        .map(|(name, password)| {
            let mut psql = server.psql(name)?;
            psql.env("PGPASSWORD", password)
                .args(["-w", "-c", "SELECT 1"]);
            Some(complaint(&psql.output().unwrap()))
        })
        .collect();
    let [Some(wrong), Some(unknown)] = told.as_slice() else {
        return;
    };
    assert!(
        wrong
            .to_lowercase()
            .contains("password authentication failed"),
        "{wrong}"
    );
    assert_eq!(wrong.replace("ada", "eve"), unknown.replace("ada", "eve"));
    let Some(mut psql) = server.psql("ada") else {
        return;
    };
    psql.env("PGPASSWORD", "right")
        .args(["-w", "-c", "SELECT 1"]);
    assert_eq!(printed(&psql.output().unwrap()), "1\n");
}

#[test]
fn tls_is_used_with_the_certificate_and_a_certificate_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = secret(folder.path(), "c.pem", &made.cert.pem());
    let key = secret(folder.path(), "k.pem", &made.signing_key.serialize_pem());
    let absent = folder.path().join("absent.pem");
    for (certificate, key) in [(&absent, &key), (&certificate, &absent), (&key, &key)] {
        let refused = Certificate::read(certificate, key).err();
        assert!(matches!(refused, Some(ServeError::Input(_))), "{refused:?}");
    }
    let mut options = open();
    options.certificate = Some(Certificate::read(&certificate, &key).unwrap());
    options.passwords = Some(Passwords::One("secret".into()));
    let server = Server::with(options, session());
    let Some(mut psql) = server.psql("ada") else {
        return;
    };
    psql.env("PGPASSWORD", "secret").env("PGSSLMODE", "require");
    let shown = printed(
        &psql
            .args(["-c", "\\conninfo", "-c", "SELECT 1"])
            .output()
            .unwrap(),
    );
    assert!(shown.contains("SSL") && shown.ends_with("1\n"), "{shown}");
}

#[test]
fn options_that_would_let_strangers_in_are_refused_before_anything_starts() {
    for (address, passwords, part) in [
        ("0.0.0.0:0", None, "no password is needed"),
        (
            "0.0.0.0:0",
            Some(Passwords::One("x".into())),
            "nothing is encrypted",
        ),
    ] {
        let mut options = open();
        options.addresses = vec![address.parse().unwrap()];
        options.passwords = passwords;
        let ServeError::Input(told) = Server::refused(&options, session()) else {
            panic!("it is the input that is wrong")
        };
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn more_clients_than_allowed_are_turned_away_and_a_place_is_free_again_later() {
    let mut options = open();
    options.connections = 2;
    let server = Server::with(options, session());
    let first = startup(server.port, "one");
    let _second = startup(server.port, "two");
    let Some(mut psql) = server.psql("three") else {
        return;
    };
    psql.args(["-c", "SELECT 1"]);
    let told = complaint(&psql.output().unwrap());
    assert!(told.contains("too many clients"), "{told}");
    drop(first);
    eventually(|| psql.output().unwrap().status.success());
}

#[test]
fn the_server_ends_while_statements_run() {
    let server = Server::start();
    let Some(mut psql) = server.psql("tester") else {
        return;
    };
    let child = psql
        .args(["-c", ENDLESS])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually(|| active(&server, "tester").as_deref() == Some("1\n"));
    assert_eq!(server.end(), Ok(()));
    complaint(&child.wait_with_output().unwrap());
}
