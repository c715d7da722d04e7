//! `tierloom serve` as a program: what it refuses before it starts, and how it ends.
#![cfg(feature = "serve")]

mod common;

use common::{command, tierloom};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

#[test]
fn files_and_addresses_that_cannot_be_used_are_one_error_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["open.txt", "no.pem"] {
        std::fs::write(folder.path().join(name), "x:y\n").unwrap();
    }
    let local = "127.0.0.1:0";
    for (args, part) in [
        (&["--pg", "nowhere"][..], "expected IP:PORT"),
        (&["--pg", "0.0.0.0:0"], "no password is needed"),
        (
            &["--flight", "nowhere"],
            "--flight \"nowhere\" is no address",
        ),
        (&["--flight", "0.0.0.0:0"], "no password is needed"),
        (&[], "required arguments"),
        (
            &[
                "--pg",
                local,
                "--tls-cert",
                "absent.pem",
                "--tls-key",
                "no.pem",
            ],
            "absent.pem: cannot read",
        ),
        (
            &["--pg", local, "--tls-cert", "no.pem", "--tls-key", "no.pem"],
            "no.pem: there is no certificate",
        ),
        (&["--pg", local, "--password-file", "open.txt"], "chmod 600"),
        (
            &["--pg", local, "--password-file", "absent.txt"],
            "absent.txt: cannot read",
        ),
        (&["--pg", local, "--running", "0"], "--running 0"),
        (
            &["--pg", local, "--metrics", "here"],
            "--metrics \"here\" is no address",
        ),
        (
            &["--pg", local, "--metrics", "0.0.0.0:0"],
            "--metrics-token-file",
        ),
        (
            &[
                "--pg",
                local,
                "--metrics",
                "0.0.0.0:0",
                "--metrics-token-file",
                "open.txt",
            ],
            "chmod 600",
        ),
        (&["--pg", local, "-t", "x=absent.csv"], "absent.csv"),
    ] {
        let ended = tierloom(folder.path(), &[&["serve"], args].concat()).with_code(2);
        assert!(
            ended.one_error().contains(part),
            "{args:?}: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}

#[test]
fn flight_and_metrics_are_served_without_an_address_of_postgresql() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (
            &["--flight", "127.0.0.1:0"][..],
            &["flight grpc://127.0.0.1:"][..],
        ),
        (
            &["--metrics", "127.0.0.1:0"],
            &["metrics http://127.0.0.1:"],
        ),
        (
            &["--flight", "127.0.0.1:0", "--metrics", "127.0.0.1:0"],
            &["metrics http://127.0.0.1:", "flight grpc://127.0.0.1:"],
        ),
    ] {
        let args = [&["serve"], args].concat();
        let mut server = command(folder.path(), &args).spawn().unwrap();
        let mut out = BufReader::new(server.stdout.take().unwrap());
        for part in expected {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            assert!(line.starts_with(part), "{args:?}: {line}");
        }
        let pid = server.id().to_string();
        let kill = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(kill.unwrap().success());
        assert_eq!(server.wait().unwrap().code(), Some(0), "{args:?}");
    }
}

#[test]
fn an_address_in_use_is_a_failure_and_a_signal_ends_the_server_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join(".s.PGSQL.5432");
    let args = [
        "serve",
        "--pg",
        "127.0.0.1:0",
        "--pg",
        socket.to_str().unwrap(),
    ];
    let mut server = command(folder.path(), &args).spawn().unwrap();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let address = line.strip_prefix("serving ").unwrap().trim().to_owned();
    line.clear();
    out.read_line(&mut line).unwrap();
    assert!(line.contains(".s.PGSQL.5432"), "{line}");
    let second = tierloom(folder.path(), &["serve", "--pg", &address]).with_code(1);
    assert!(
        second.one_error().contains("cannot listen"),
        "{}",
        second.stderr
    );
    let asked = Command::new("psql")
        .args(["-X", "-A", "-t", "-h", folder.path().to_str().unwrap()])
        .args(["-U", "ada", "-d", "x", "-c", "SELECT 6 * 7"])
        .output();
    match asked {
        Ok(asked) => assert_eq!(String::from_utf8_lossy(&asked.stdout), "42\n", "{asked:?}"),
        Err(_) => tierloom_testing::left_out("there is no psql (Debian: postgresql-client)"),
    }
    let pid = server.id().to_string();
    let kill = Command::new("kill")
        .args(["-TERM", &pid])
        .stdout(Stdio::null())
        .status();
    assert!(kill.unwrap().success());
    let mut told = String::new();
    server
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0), "{told}");
    assert!(told.contains("no password is needed"), "{told}");
    assert!(!socket.exists());
}
