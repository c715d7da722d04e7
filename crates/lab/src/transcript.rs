//! The results that a guest sends through the virtio port, as a stream of length-prefixed frames.
//!
//! ```text
//!  <tag> <kind> <index> <value> <length>\n   header, ASCII; tag is random per boot
//!  <length bytes>\n                          body
//! ```
//! Kinds: `boot`, `setup` (value: 0, [`REFUSED`] or [`WAITED`]; body: failed step), `stdout`,
//! `stderr`, `exit` (value: exit code of command `index`), `collect` (body: cpio archive), `done`.
//! Bodies have exact lengths, so outputs may contain anything. If a guest dies, the stream is
//! truncated and all complete frames are kept.

/// Value of a `setup` frame: a step failed at once.
#[cfg(test)]
pub(crate) const REFUSED: i32 = 1;
/// Value of a `setup` frame: a step timed out.
pub(crate) const WAITED: i32 = 2;

/// The frames of one command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// `None` if the command had not ended.
    pub(crate) exit_code: Option<i32>,
}

/// Everything that a guest sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    pub(crate) booted: bool,
    /// Result of the set-up: 0, [`REFUSED`] or [`WAITED`], and the step that failed.
    pub(crate) setup: Option<(i32, String)>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) collected: Option<Vec<u8>>,
    pub(crate) done: bool,
    /// Byte offset at which parsing stopped early, and why.
    pub(crate) damage: Option<String>,
}

impl Transcript {
    /// Whether the set-up succeeded, so that the first command could begin.
    pub(crate) fn begun(&self) -> bool {
        matches!(self.setup, Some((0, _)))
    }

    /// Number of commands that have ended.
    pub(crate) fn finished(&self) -> usize {
        self.outputs
            .iter()
            .filter(|output| output.exit_code.is_some())
            .count()
    }
}

/// Parses frames until the bytes end or are malformed; `commands` is the number of commands
/// requested.
pub(crate) fn parse(bytes: &[u8], tag: &str, commands: usize) -> Transcript {
    let mut transcript = Transcript {
        outputs: vec![Output::default(); commands],
        ..Transcript::default()
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        match frame(rest, tag) {
            Ok((header, body, after)) => {
                if let Err(what) = transcript.take(&header, body) {
                    transcript.damage = Some(format!("byte {}: {what}", bytes.len() - rest.len()));
                    return transcript;
                }
                rest = after;
            }
            Err(what) => {
                transcript.damage = Some(format!("byte {}: {what}", bytes.len() - rest.len()));
                return transcript;
            }
        }
    }
    transcript
}

struct Header<'a> {
    kind: &'a str,
    index: usize,
    value: i32,
}

fn frame<'a>(bytes: &'a [u8], tag: &str) -> Result<(Header<'a>, &'a [u8], &'a [u8]), String> {
    let end = bytes
        .iter()
        .take(200)
        .position(|byte| *byte == b'\n')
        .ok_or("no frame header")?;
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| "a frame header that is not text")?;
    let words: Vec<&str> = line.split(' ').collect();
    let [found, kind, index, value, len] = words[..] else {
        return Err(format!("not a frame header: {line:?}"));
    };
    if found != tag {
        return Err(format!("a frame of another boot: {line:?}"));
    }
    let number = |word: &str| {
        word.parse::<i64>()
            .map_err(|_| format!("a bad number in the frame header {line:?}"))
    };
    let index =
        usize::try_from(number(index)?).map_err(|_| format!("a negative index in {line:?}"))?;
    let value =
        i32::try_from(number(value)?).map_err(|_| format!("a value out of range in {line:?}"))?;
    let len =
        usize::try_from(number(len)?).map_err(|_| format!("a negative length in {line:?}"))?;
    let body = &bytes[end + 1..];
    if body.len() <= len {
        return Err(format!(
            "frame {kind} is cut: {} of {len} bytes",
            body.len()
        ));
    }
    if body[len] != b'\n' {
        return Err(format!("frame {kind} does not end where it should"));
    }
    Ok((
        Header { kind, index, value },
        &body[..len],
        &body[len + 1..],
    ))
}

impl Transcript {
    fn take(&mut self, header: &Header<'_>, body: &[u8]) -> Result<(), String> {
        match header.kind {
            "boot" => self.booted = true,
            "setup" => {
                self.setup = Some((
                    header.value,
                    String::from_utf8_lossy(body).trim().to_owned(),
                ))
            }
            "collect" => self.collected = Some(body.to_vec()),
            "done" => self.done = true,
            kind @ ("stdout" | "stderr" | "exit") => {
                let output = self.outputs.get_mut(header.index).ok_or_else(|| {
                    format!(
                        "output of a command {} that was not asked for",
                        header.index
                    )
                })?;
                match kind {
                    "stdout" => output.stdout = body.to_vec(),
                    "stderr" => output.stderr = body.to_vec(),
                    _ => output.exit_code = Some(header.value),
                }
            }
            other => return Err(format!("an unknown frame kind {other:?}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(kind: &str, index: usize, value: i32, body: &[u8]) -> Vec<u8> {
        let mut bytes = format!("T {kind} {index} {value} {}\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        bytes.push(b'\n');
        bytes
    }

    fn whole() -> Vec<u8> {
        let tricky = b"T done 0 0 0\n\nT stdout 0 0 99\n";
        [
            write("boot", 0, 0, b""),
            write("setup", 0, 0, b""),
            write("stdout", 0, 0, tricky),
            write("stderr", 0, 0, b"\0\xff"),
            write("exit", 0, 3, b""),
            write("collect", 0, 0, b"cpio"),
            write("done", 0, 0, b""),
        ]
        .concat()
    }

    #[test]
    fn output_that_looks_like_frames_stays_output() {
        let transcript = parse(&whole(), "T", 1);
        assert_eq!(
            transcript.outputs[0].stdout,
            b"T done 0 0 0\n\nT stdout 0 0 99\n"
        );
        assert_eq!(transcript.outputs[0].stderr, b"\0\xff");
        assert_eq!(
            (
                transcript.outputs[0].exit_code,
                transcript.done,
                transcript.damage
            ),
            (Some(3), true, None)
        );
    }

    #[test]
    fn a_cut_transcript_is_never_done_and_keeps_what_was_whole() {
        let bytes = whole();
        for len in 0..bytes.len() {
            assert!(!parse(&bytes[..len], "T", 1).done, "{len}");
        }
        let cut = parse(&bytes[..bytes.len() - 5], "T", 1);
        assert_eq!(
            (
                cut.finished(),
                cut.collected.as_deref(),
                cut.damage.is_some()
            ),
            (1, Some(b"cpio".as_slice()), true)
        );
    }

    #[test]
    fn frames_of_another_boot_or_command_are_refused() {
        assert!(
            parse(&whole(), "U", 1)
                .damage
                .unwrap()
                .contains("another boot")
        );
        assert!(
            parse(&whole(), "T", 0)
                .damage
                .unwrap()
                .contains("not asked for")
        );
        for bad in [
            "T done 0 0\n\n",
            "T done -1 0 0\n\n",
            "T done 0 0 -1\n\n",
            "T done 0 99999999999 0\n\n",
            "T what 0 0 0\n\n",
            "T done 0 0 0\nx",
        ] {
            let transcript = parse(bad.as_bytes(), "T", 1);
            assert!(transcript.damage.is_some() && !transcript.done, "{bad:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn garbage_is_never_a_finished_guest(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0_usize..80) {
            prop_assert!(!parse(&bytes, "T", 2).done);
            let mut mixed = whole();
            let at = at.min(mixed.len() - 1);
            mixed[at] ^= 0x5a;
            // Changing a byte may change an output, but never invents a second command or panics.
            prop_assert_eq!(parse(&mixed, "T", 1).outputs.len(), 1);
        }
    }
}
