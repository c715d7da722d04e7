//! Runs the built binary and checks what it left behind.
#![allow(dead_code, reason = "each test binary uses a part of this")]

pub mod agents;
pub mod guests;
pub mod runs;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time after which a command counts as hung. No test expects a command to be fast.
const HUNG: Duration = Duration::from_secs(300);

/// The result of a command that ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Panics, showing both streams, unless the exit code is `code`.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Ended {
        assert_eq!(
            self.code,
            Some(code),
            "stderr:\n{}\nstdout begins:\n{}",
            self.stderr,
            self.stdout.chars().take(500).collect::<String>()
        );
        self
    }

    /// The only error line on stderr; panics if there is another number of them.
    #[track_caller]
    pub fn one_error(&self) -> &str {
        let errors: Vec<&str> = self.stderr.lines().filter(|l| is_error(l)).collect();
        assert_eq!(errors.len(), 1, "one error expected:\n{}", self.stderr);
        self.no_panic();
        errors[0]
    }

    /// Panics if the command's output shows a panic of its own.
    #[track_caller]
    pub fn no_panic(&self) {
        for trace in ["panicked", "RUST_BACKTRACE", "unwrap()"] {
            let found = self.stderr.contains(trace) || self.stdout.contains(trace);
            assert!(!found, "{trace} in:\n{}\n{}", self.stdout, self.stderr);
        }
    }
}

fn is_error(line: &str) -> bool {
    line.starts_with("error:")
}

/// The binary with arguments, in `folder`, with its streams piped and without environment variables
/// that change its output.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    command_behind(&[], folder, args)
}

/// The same behind the words of another command, such as `ip netns exec NAME`.
pub fn command_behind(wrapper: &[&str], folder: &Path, args: &[&str]) -> Command {
    let words = [wrapper, &[env!("CARGO_BIN_EXE_tierloom")], args].concat();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .current_dir(folder)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the binary in `folder` and waits for its end.
pub fn tierloom(folder: &Path, args: &[&str]) -> Ended {
    end_of(command(folder, args).spawn().expect("the binary starts"))
}

/// Runs the binary in a temporary folder, which is deleted afterwards.
pub fn tierloom_anywhere(args: &[&str]) -> Ended {
    let folder = tempfile::tempdir().expect("a temporary folder");
    tierloom(folder.path(), args)
}

/// Reads the rest of a child's streams and waits for its end.
pub fn end_of(mut child: Child) -> Ended {
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let status = wait(&mut child, HUNG).expect("the command ends");
    let text = |thread: Option<JoinHandle<String>>| {
        thread.map_or_else(String::new, |t| t.join().expect("the stream is read"))
    };
    Ended {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("the stream is read");
        String::from_utf8(bytes).expect("the output is UTF-8")
    })
}

/// Waits for `child`, at most `limit`: after that it is killed and `None` is returned.
pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            return Some(status);
        }
        if start.elapsed() > limit {
            child.kill().expect("the child can be killed");
            child.wait().expect("the child is gone");
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every file and folder below `folder` with its content, to check that a command changed nothing.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(contents(&path));
            found.insert(path, None);
        } else {
            let bytes = fs::read(&path).expect("the file is readable");
            found.insert(path, Some(bytes));
        }
    }
    found
}

/// Runs `args` in `folder` and checks everything that is promised about bad input: exit code 2,
/// nothing on stdout, one error that contains each of `says` and nothing else on stderr, no file
/// made or changed.
#[track_caller]
pub fn refused(folder: &Path, args: &[&str], says: &[&str]) {
    let before = contents(folder);
    let ended = tierloom(folder, args);
    let command = args.join(" ");
    assert_eq!(ended.code, Some(2), "{command}\n{}", ended.stderr);
    assert_eq!(ended.stdout, "", "{command}: data on stdout");
    let error = ended.one_error();
    for part in says {
        assert!(error.contains(part), "{command}: no {part:?} in\n{error}");
    }
    assert_eq!(
        ended.stderr.trim_end(),
        error,
        "{command}: more than one line"
    );
    assert!(contents(folder) == before, "{command}: files were changed");
}

/// The repository's root.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the workspace root")
        .to_owned()
}

/// The text of a profile in `machines/`.
pub fn profile(name: &str) -> String {
    let path = repository().join("machines").join(format!("{name}.yaml"));
    fs::read_to_string(&path).expect("the profile exists")
}

/// Recorded machines of the topology crate's tests.
pub const RECORDED: [&str; 4] = [
    "vm-1node",
    "server-2s-4cxl",
    "guest-2node-hmat",
    "guest-cxl",
];

/// The path of a recorded machine, as an argument.
pub fn recorded(machine: &str) -> String {
    let fixtures = repository().join("crates/topology/tests/fixtures");
    fixtures.join(machine).display().to_string()
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    uids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}
