//! The JSON documents of the commands that model, as `--json` prints them, for callers that are not
//! a terminal.

use crate::commands::{cost, predict, tune};
use crate::failure::Failure;
use clap::Args;

/// The document of `command` (`predict`, `tune` or `cost`) with `args`, arguments of its command
/// line without the name. Nothing is measured or written.
///
/// # Errors
/// Bad input: another command, arguments that the command does not take, or what it refuses itself.
pub fn document(command: &str, args: &[String]) -> Result<String, Failure> {
    match command {
        "predict" => predict::document(&parsed(args)?),
        "tune" => tune::document(&parsed(args)?),
        "cost" => cost::document(&parsed(args)?),
        _ => Err(Failure::input(format!(
            "{command:?} has no document; expected predict, tune or cost"
        ))),
    }
}

fn parsed<A: Args>(args: &[String]) -> Result<A, Failure> {
    let command = A::augment_args(clap::Command::new("arguments").no_binary_name(true));
    command
        .try_get_matches_from(args)
        .and_then(|found| A::from_arg_matches(&found))
        .map_err(|error| Failure::input(sentence(&error)))
}

/// What clap says, without its heading and the usage of a command line.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = text.find("\n\n").unwrap_or(text.len());
    let words: Vec<&str> = text[..end].split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::document;
    use crate::failure::Failure;

    fn of(command: &str, args: &[&str]) -> Result<String, Failure> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        document(command, &args)
    }

    #[test]
    fn documents_are_json_with_what_was_asked() {
        let text = of("predict", &["--machine", "nus24", "--work", "probe"]).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["work"], "probe");
        let text = of("tune", &["probe", "--machine", "nus24"]).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["records"].as_array().unwrap().len(), 1);
        let text = of("cost", &["--demand", "3TiB"]).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["points"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn mistakes_are_one_line_without_a_usage() {
        for (command, args, part) in [
            ("predict", &["--work", "probe"][..], "--machine"),
            (
                "predict",
                &["tpch", "--machine", "nus24"],
                "whole workloads",
            ),
            ("tune", &["probe", "--apply", "-m", "nus24"], "only models"),
            ("cost", &["--demand", "much"], "much"),
            ("run", &[], "expected predict, tune or cost"),
        ] {
            let Err(Failure::BadInput(text)) = of(command, args) else {
                panic!("{command} {args:?} is not refused as bad input")
            };
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
    }
}
