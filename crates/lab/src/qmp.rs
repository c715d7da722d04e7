//! Commands to a running QEMU: the QEMU Machine Protocol, one JSON object a line.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long QEMU may take to make its socket, and to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to the socket of [`crate::GuestOptions::qmp`].
#[derive(Debug)]
pub struct Qmp {
    answers: BufReader<UnixStream>,
}

impl Qmp {
    /// Connects as soon as QEMU listens.
    ///
    /// # Errors
    /// It does not within a minute, or does not greet as QEMU does.
    pub fn connect(socket: &Path) -> io::Result<Qmp> {
        let started = Instant::now();
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) if started.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut qmp = Qmp {
            answers: BufReader::new(stream),
        };
        let greeting = qmp.line()?;
        if greeting.get("QMP").is_none() {
            return Err(io::Error::other(format!("no greeting of QEMU: {greeting}")));
        }
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Has QEMU carry out a command, and returns what came of it.
    ///
    /// # Errors
    /// QEMU refuses it, with its own words, or is gone.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> io::Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.answers.get_mut(), "{request}")?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                let said = error["desc"].as_str().unwrap_or("no reason");
                return Err(io::Error::other(format!("{command}: {said}")));
            }
            // Everything else is an event.
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn answers_are_told_from_events_and_refusals_have_the_words_of_qemu() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("qmp");
        let listener = UnixListener::bind(&socket).unwrap();
        let qemu = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut requests = BufReader::new(stream.try_clone().unwrap());
            let answers = [
                r#"{"return": {}}"#,
                "{\"event\": \"RESET\"}\n{\"return\": 7}",
                r#"{"error": {"class": "GenericError", "desc": "no such device"}}"#,
            ];
            writeln!(stream, r#"{{"QMP": {{}}}}"#).unwrap();
            for answer in answers {
                let mut line = String::new();
                requests.read_line(&mut line).unwrap();
                asked.push(serde_json::from_str::<Value>(&line).unwrap()["execute"].clone());
                writeln!(stream, "{answer}").unwrap();
            }
            asked
        });
        let mut qmp = Qmp::connect(&socket).unwrap();
        assert_eq!(qmp.execute("seven", &json!({})).unwrap(), 7);
        let refused = qmp.execute("other", &json!({ "a": 1 })).unwrap_err();
        assert_eq!(refused.to_string(), "other: no such device");
        assert_eq!(qemu.join().unwrap(), ["qmp_capabilities", "seven", "other"]);
        assert!(qmp.execute("late", &json!({})).is_err());
    }
}
