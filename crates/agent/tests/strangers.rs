//! Access control: tokens, TLS, and what a client without the token can do.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{PATIENCE, Script, ThreadAgent, begin, connect};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tierloom_agent::{
    AgentError, AgentOptions, HostAddress, Stop, SystemClock, TlsIdentity, Token, serve,
};

#[test]
fn a_wrong_token_starts_nothing_and_is_logged_with_its_address() {
    let agent = ThreadAgent::start();
    let mut host = agent.host("a");
    host.token = Token::generate().unwrap();
    let error = connect(&[host]).err().unwrap();
    assert!(
        matches!(&error, AgentError::Unauthenticated { host, .. } if host == "a"),
        "{error}"
    );
    assert!(
        agent.logged("refused 127.0.0.1:") && agent.logged("wrong token"),
        "{:?}",
        agent.log
    );
    let token = agent.token.to_hex();
    assert!(
        !error.to_string().contains(&token) && !agent.logged(&token),
        "a token is shown"
    );
    assert!(!agent.logged("session of"), "no session was opened");
    connect(&[agent.host("a")]).unwrap();
}

#[test]
fn garbage_and_silence_do_not_disturb_a_session() {
    let agent = ThreadAgent::start();
    let mut coordinator = connect(&[agent.host("a")]).unwrap();
    let speech: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &[0; 4096],
        // The HTTP/2 preface, then a settings frame that claims to be 16 MiB long.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x04\x00\x00\x00\x00\x00aaaaaaaaaaaaaaaa",
    ];
    for words in speech {
        let mut stranger = TcpStream::connect(agent.address).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        stranger.write_all(words).unwrap();
        let mut answer = Vec::new();
        // The agent closes the connection by itself; a reset is as good.
        let _ = stranger.read_to_end(&mut answer);
        assert!(
            answer.len() < 1024,
            "a stranger learns {} bytes",
            answer.len()
        );
    }
    let _silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(agent.address).unwrap())
        .collect();
    begin(&mut coordinator, &[("a", "work")]).unwrap();
    coordinator.wait("a").unwrap();
}

#[test]
fn nothing_but_an_agent_at_the_address_is_said_so() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let token = Token::generate().unwrap();
    let begun = Instant::now();
    for address in [
        silent.local_addr().unwrap().to_string(),
        "127.0.0.1:1".to_owned(),
    ] {
        let host = HostAddress::new("a", address.clone(), token.clone());
        let error = tierloom_agent::Coordinator::connect(&[host], Duration::from_secs(1))
            .err()
            .unwrap();
        assert!(
            matches!(&error, AgentError::Connect { host, address: tried, .. } if host == "a" && *tried == address),
            "{error}"
        );
    }
    assert!(
        begun.elapsed() < PATIENCE,
        "a silent port does not hold us up"
    );
}

#[test]
fn plain_text_on_a_network_needs_permission() {
    let refused = |listen: &str| {
        let options = AgentOptions::new(listen.parse().unwrap(), Token::generate().unwrap());
        serve(
            options,
            Script::new(Arc::new(SystemClock)),
            |_| panic!("listens"),
            Stop::new(),
        )
        .unwrap_err()
    };
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let error = refused(listen);
        assert!(matches!(error, AgentError::Plain { .. }));
        assert!(
            error.to_string().contains("--tls-cert") && error.to_string().contains("ssh"),
            "{error}"
        );
    }
    let agent = ThreadAgent::with(|options| {
        options.listen = "0.0.0.0:0".parse().unwrap();
        options.allow_plain_remote = true;
    });
    let host = HostAddress::new(
        "a",
        format!("127.0.0.1:{}", agent.address.port()),
        agent.token.clone(),
    );
    connect(&[host]).unwrap();
}

#[test]
fn a_port_in_use_is_named() {
    let agent = ThreadAgent::start();
    let options = AgentOptions::new(agent.address, Token::generate().unwrap());
    let error = serve(
        options,
        Script::new(Arc::new(SystemClock)),
        |_| panic!("listens"),
        Stop::new(),
    )
    .unwrap_err();
    assert!(
        matches!(&error, AgentError::Listen { address, .. } if *address == agent.address),
        "{error}"
    );
}

/// A CA and a certificate for 127.0.0.1 and "db7" that it signed.
fn authority() -> (String, TlsIdentity) {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "db7".to_owned()];
    let cert = CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &ca)
        .unwrap();
    let identity = TlsIdentity {
        cert_pem: cert.pem(),
        key_pem: key.serialize_pem(),
    };
    (ca.pem(), identity)
}

#[test]
fn tls_carries_a_run_and_keeps_out_who_trusts_another() {
    let (ca, identity) = authority();
    let agent = ThreadAgent::with(|options| options.tls = Some(identity));
    let mut host = agent.host("a");
    host.tls_ca = Some(ca);
    {
        let mut coordinator = connect(&[host.clone()]).unwrap();
        begin(&mut coordinator, &[("a", "work")]).unwrap();
        coordinator.wait("a").unwrap();
    }
    host.tls_name = Some("db7".to_owned());
    connect(&[host.clone()]).unwrap();

    let refused = |host: HostAddress| match connect(&[host]).err().unwrap() {
        AgentError::Connect { reason, .. } => reason,
        other => panic!("{other}"),
    };
    let mut elsewhere = host.clone();
    elsewhere.tls_name = Some("db8".to_owned());
    let reason = refused(elsewhere);
    assert!(
        reason.contains("certificate"),
        "a certificate of another name: {reason}"
    );
    let mut wrong = host.clone();
    wrong.tls_ca = Some(authority().0);
    let reason = refused(wrong);
    assert!(
        reason.contains("certificate"),
        "another authority: {reason}"
    );
    let mut plain = host;
    plain.tls_ca = None;
    let plain = connect(&[plain]).err().unwrap();
    assert!(
        matches!(plain, AgentError::Connect { .. }),
        "plain text to a TLS agent: {plain}"
    );
    assert!(
        agent
            .log
            .lock()
            .unwrap()
            .iter()
            .filter(|line| line.contains("opened"))
            .count()
            == 2
    );
}

#[test]
fn a_self_signed_certificate_is_its_own_authority() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let identity = TlsIdentity {
        cert_pem: cert.pem(),
        key_pem: signing_key.serialize_pem(),
    };
    let agent = ThreadAgent::with(|options| options.tls = Some(identity));
    let mut host = agent.host("a");
    host.tls_ca = Some(cert.pem());
    connect(&[host]).unwrap();
}

#[test]
fn a_key_that_is_none_is_said_so() {
    let mut options = AgentOptions::new("127.0.0.1:0".parse().unwrap(), Token::generate().unwrap());
    options.tls = Some(TlsIdentity {
        cert_pem: "certificate".to_owned(),
        key_pem: "key".to_owned(),
    });
    let error = serve(
        options,
        Script::new(Arc::new(SystemClock)),
        |_| panic!("listens"),
        Stop::new(),
    )
    .unwrap_err();
    assert!(
        matches!(&error, AgentError::Tls { .. }) && error.to_string().contains("--tls-cert"),
        "{error}"
    );

    let mut host = HostAddress::new("a", "db7:7171", Token::generate().unwrap());
    host.tls_ca = Some("certificate".to_owned());
    let error = connect(&[host]).err().unwrap();
    assert!(
        matches!(&error, AgentError::Tls { .. }) && error.to_string().contains("host a"),
        "{error}"
    );
}

#[test]
fn a_connection_without_a_token_is_closed_and_there_are_not_many() {
    let agent = ThreadAgent::with(|options| options.introduction = Duration::from_millis(500));
    let mut coordinator = connect(&[agent.host("a")]).unwrap();
    let strangers: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(agent.address).unwrap())
        .collect();
    begin(&mut coordinator, &[("a", "work")]).unwrap();
    coordinator.wait("a").unwrap();
    for mut stranger in strangers {
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        // Closed or reset; a client that is still connected would run into the time limit.
        let ended = stranger.read_to_end(&mut answer);
        let waiting = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!waiting, "a silent stranger is still connected");
    }
    assert!(agent.logged("64 connections are open"));
    // The session, by now older than the limit, continues.
    begin(&mut coordinator, &[("a", "work")]).unwrap();
    coordinator.wait("a").unwrap();
}

/// The command from `docs/hosts.md`; `authority` is the value for its basic constraints.
fn openssl(authority: &str) -> Option<TlsIdentity> {
    let folder = tempfile::tempdir().unwrap();
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=db7 \
                 -addext subjectAltName=DNS:db7,IP:127.0.0.1 -keyout key.pem -out cert.pem";
    let made = std::process::Command::new("openssl")
        .args(words.split_whitespace())
        .args([
            "-addext",
            &format!("basicConstraints=critical,CA:{authority}"),
        ])
        .current_dir(folder.path())
        .output();
    match made {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => {
            tierloom_testing::checked_nothing(format!(
                "the command `openssl` is needed to try the documented call: {error}"
            ));
            return None;
        }
    }
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    Some(TlsIdentity {
        cert_pem: read("cert.pem"),
        key_pem: read("key.pem"),
    })
}

#[test]
fn a_certificate_made_as_documented_works_and_one_of_an_authority_is_refused() {
    for (authority, accepted) in [("FALSE", true), ("TRUE", false)] {
        let Some(identity) = openssl(authority) else {
            return;
        };
        let ca = identity.cert_pem.clone();
        let agent = ThreadAgent::with(|options| options.tls = Some(identity));
        let mut host = agent.host("a");
        host.tls_ca = Some(ca);
        let connected = connect(&[host]).map(drop);
        assert_eq!(connected.is_ok(), accepted, "CA:{authority}: {connected:?}");
        let words = connected
            .err()
            .map_or_else(String::new, |error| error.to_string());
        assert!(accepted || words.contains("CaUsedAsEndEntity"), "{words}");
    }
}
