//! A scripted host for tests: a closure answers each invocation.

use std::io;

use super::{Finished, Host, Invocation};

type Answer<'a> = dyn FnMut(&Invocation) -> io::Result<Finished> + 'a;

/// Answers from a closure and remembers every command line.
pub(crate) struct FakeHost<'a> {
    answer: Box<Answer<'a>>,
    pub(crate) lines: Vec<String>,
}

impl<'a> FakeHost<'a> {
    pub(crate) fn new(
        answer: impl FnMut(&Invocation) -> io::Result<Finished> + 'a,
    ) -> FakeHost<'a> {
        FakeHost {
            answer: Box::new(answer),
            lines: Vec::new(),
        }
    }
}

impl Host for FakeHost<'_> {
    fn run(&mut self, invocation: &Invocation) -> io::Result<Finished> {
        self.lines.push(invocation.line());
        (self.answer)(invocation)
    }
}

/// A successful exit with this output.
pub(crate) fn success(stdout: &str) -> io::Result<Finished> {
    Ok(Finished {
        success: true,
        status: "exit status: 0".into(),
        stdout: stdout.into(),
        stderr: String::new(),
    })
}

/// A failed exit with this error text.
pub(crate) fn failure(stderr: &str) -> io::Result<Finished> {
    Ok(Finished {
        success: false,
        status: "exit status: 100".into(),
        stdout: String::new(),
        stderr: stderr.into(),
    })
}
