//! What is asked: work, machines, placements and the model's options.

use crate::{ClusterRequest, PredictError, works};
use serde::Deserialize;
use std::path::PathBuf;
use tierloom_model::{Background, Options, Terms};

/// A question about modelled work, as the options of `tierloom predict` or a JSON object with the
/// same names.
///
/// The work is one of `work`, `phases`, and `query` with `from`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Machine profiles: names or paths of YAML files.
    pub machine: Texts,
    /// A benchmark; see [`works::parse`].
    #[serde(default)]
    pub work: Option<String>,
    /// A recorded query.
    #[serde(default)]
    pub query: Option<String>,
    /// Records with that query.
    #[serde(default)]
    pub from: Option<PathBuf>,
    /// A file with a list of the model's phases.
    #[serde(default)]
    pub phases: Option<String>,
    /// Where data is placed; by default all on the first tier.
    #[serde(default)]
    pub placement: Option<String>,
    /// Another placement to compare with.
    #[serde(default)]
    pub versus: Option<String>,
    /// Number of workers; by default one per core.
    #[serde(default)]
    pub workers: Option<u32>,
    /// Load of other programs on tiers, such as `cxl:read=40`.
    #[serde(default)]
    pub background: Texts,
    /// Terms of the model to switch off.
    #[serde(default)]
    pub off: Texts,
    /// Also compute the effect of every number and term.
    #[serde(default)]
    pub sensitivity: bool,
    /// Several machines, each of this kind.
    #[serde(default)]
    pub cluster: Option<ClusterRequest>,
}

/// A list of texts, which JSON may have as one text, too.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "OneOrMore")]
pub struct Texts(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl From<OneOrMore> for Texts {
    fn from(texts: OneOrMore) -> Self {
        Texts(match texts {
            OneOrMore::One(text) => vec![text],
            OneOrMore::More(texts) => texts,
        })
    }
}

impl Request {
    /// Reads a JSON object with the names of the fields.
    ///
    /// # Errors
    /// Bad input: no such object, an unknown name, or a combination that is no question.
    pub fn from_json(text: &str) -> Result<Request, PredictError> {
        let request: Request = serde_json::from_str(text)
            .map_err(|e| PredictError::input(format!("the question is not as expected: {e}")))?;
        request.check()?;
        Ok(request)
    }

    /// What the command line checks on its own.
    fn check(&self) -> Result<(), PredictError> {
        let works = [&self.work, &self.query, &self.phases];
        if works.into_iter().flatten().count() != 1 {
            return Err(PredictError::input(
                "which work? give one of work, phases, and query with from",
            ));
        }
        if self.query.is_some() != self.from.is_some() {
            return Err(PredictError::input(
                "query and from go together: a recorded query and the file of its records",
            ));
        }
        if self.machine.0.is_empty() {
            return Err(PredictError::input("on which machine? machine names none"));
        }
        if self.cluster.is_some() && (self.versus.is_some() || self.sensitivity) {
            return Err(PredictError::input(
                "versus and sensitivity are for one machine, not for a cluster",
            ));
        }
        if self.workers == Some(0) {
            return Err(PredictError::input("workers is 0; expected at least 1"));
        }
        Ok(())
    }

    /// The model's options: terms that are on, and background load.
    ///
    /// # Errors
    /// Bad input: an unknown term, or an incomplete background load.
    pub fn options(&self) -> Result<Options, PredictError> {
        let mut terms = Terms::default();
        let names = || Terms::SWITCHES.iter().map(|(name, _)| *name);
        for name in &self.off.0 {
            match Terms::SWITCHES.iter().find(|(known, _)| known == name) {
                Some((_, off)) => off(&mut terms),
                None => {
                    return Err(PredictError::input(format!(
                        "the model has no term {name:?}: {}it has {}",
                        works::did_you_mean(name, names()),
                        names().collect::<Vec<_>>().join(", ")
                    )));
                }
            }
        }
        let background = self.background.0.iter().map(|text| background(text));
        Ok(Options {
            terms,
            background: background
                .collect::<Result<_, _>>()
                .map_err(PredictError::input)?,
            ..Options::default()
        })
    }
}

/// Parses `cxl:read=40,write=5,own=0.5`.
fn background(text: &str) -> Result<Background, String> {
    let wrong = |problem: String| {
        format!(
            "--background {text}: {problem}; expected TIER:read=GB/s, with write=GB/s and own=SHARE if need be, such as cxl:read=40"
        )
    };
    let (tier, loads) = text
        .split_once(':')
        .ok_or_else(|| wrong("no load is given".into()))?;
    let mut found = Background::reads(tier.trim(), 0.0);
    for load in loads.split(',') {
        let (key, value) = load
            .split_once('=')
            .ok_or_else(|| wrong(format!("{load:?} is no KEY=VALUE")))?;
        let number = value.trim().parse::<f64>().ok().filter(|x| x.is_finite());
        let number = number.ok_or_else(|| wrong(format!("{value:?} is no number")))?;
        let (place, possible) = match key.trim() {
            "read" => (&mut found.read_gbps, number >= 0.0),
            "write" => (&mut found.write_gbps, number >= 0.0),
            "own" => (&mut found.own_share, number > 0.0 && number < 1.0),
            other => return Err(wrong(format!("{other:?} is not known"))),
        };
        if !possible {
            return Err(wrong(format!("{key} cannot be {value}")));
        }
        *place = number;
    }
    // A load of 0 is more likely a forgotten rate than a wish for none.
    if found.read_gbps + found.write_gbps == 0.0 {
        return Err(wrong("the load is 0".into()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Request, background};

    #[test]
    fn json_has_the_names_of_the_options_and_no_others() {
        let text = r#"{"machine": ["nus24", "sap26"], "work": "probe", "off": "loaded_latency"}"#;
        let request = Request::from_json(text).unwrap();
        assert_eq!(request.machine.0, ["nus24", "sap26"]);
        assert_eq!(request.off.0, ["loaded_latency"]);
        assert!(request.options().is_ok());
        for (text, part) in [
            (r#"{"machine": "nus24"}"#, "which work?"),
            (
                r#"{"machine": "nus24", "work": "a", "phases": "b"}"#,
                "which work?",
            ),
            (r#"{"machine": "nus24", "query": "q1.1"}"#, "go together"),
            (r#"{"machine": [], "work": "probe"}"#, "on which machine?"),
            (r#"{"work": "probe"}"#, "missing field `machine`"),
            (
                r#"{"machine": 1, "work": "probe"}"#,
                "a text or a list of texts",
            ),
            (
                r#"{"machine": "nus24", "wrok": "probe"}"#,
                "unknown field `wrok`",
            ),
            (
                r#"{"machine": "nus24", "work": "probe", "workers": 0}"#,
                "at least 1",
            ),
            (
                r#"{"machine": "nus24", "work": "ssb", "versus": "cxl",
                    "cluster": {"nodes": 2, "network_gbps": 1, "network_us": 1}}"#,
                "for one machine",
            ),
        ] {
            let told = Request::from_json(text).unwrap_err().to_string();
            assert!(told.contains(part), "{text}: {told}");
        }
    }

    #[test]
    fn a_load_says_tier_and_rates_and_nothing_else() {
        let load = background("cxl:read=40,write=5,own=0.25").unwrap();
        assert_eq!((load.tier.as_str(), load.read_gbps), ("cxl", 40.0));
        assert_eq!((load.write_gbps, load.own_share), (5.0, 0.25));
        for bad in [
            "cxl",
            "cxl:40",
            "cxl:reed=4",
            "cxl:read=-1",
            "cxl:read=x",
            "cxl:read=1,own=1",
            "cxl:read=0",
            "cxl:read=inf",
        ] {
            let message = background(bad).unwrap_err();
            assert!(
                message.contains(bad) && message.contains("such as cxl:read=40"),
                "{message}"
            );
        }
    }
}
