//! Chooses the Debian suite and mirror for the packages, and writes the private apt configuration.
//!
//! Everything here works on texts; nothing is read from the host or started.

use std::path::Path;

use crate::LabError;

/// The mirror to use if the host's own ones fail or none is configured.
pub(super) const FALLBACK_MIRROR: &str = "http://deb.debian.org/debian";
/// The archive's keys as the package debian-archive-keyring installs them.
pub(super) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Suffix of the suites with newer packages for a release.
const BACKPORTS: &str = "-backports";

/// A Debian release.
///
/// Its suites together must have a QEMU with volatile CXL devices (10) and a kernel with weighted
/// interleave (6.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) codename: String,
}

impl Release {
    /// The suites to read, in ascending order of preference.
    pub(super) fn suites(&self) -> Vec<String> {
        let name = &self.codename;
        match name.as_str() {
            "bookworm" => vec![
                name.clone(),
                format!("{name}-updates"),
                format!("{name}-backports"),
            ],
            _ => match name.strip_suffix(BACKPORTS) {
                Some(base) => vec![base.to_owned(), format!("{base}-updates"), name.clone()],
                None => vec![name.clone()],
            },
        }
    }

    /// The suite that packages are preferred from.
    pub(super) fn target(&self) -> String {
        self.suites().pop().unwrap_or_default()
    }
}

/// The release to use: `wanted` if given, else the host's own if that is Debian 12 or later.
///
/// # Errors
/// [`LabError::UnsupportedHost`] for other systems and older releases.
pub(super) fn choose_release(os_release: &str, wanted: Option<&str>) -> Result<Release, LabError> {
    const FIX: &str = "set TIERLOOM_LAB_SUITE=trixie to take Debian 13's packages (this needs apt-get, dpkg and the package debian-archive-keyring)";
    if let Some(codename) = wanted {
        if !codename.starts_with(|c: char| c.is_ascii_alphanumeric())
            || codename.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        {
            return Err(LabError::UnsupportedHost {
                reason: format!("TIERLOOM_LAB_SUITE is {codename:?}, which is no suite of Debian"),
                fix: FIX.into(),
            });
        }
        // Bookworm's backports are always read (`suites`), so both names mean the same kit.
        let codename = match codename {
            "bookworm-backports" => "bookworm",
            other => other,
        };
        return Ok(Release {
            codename: codename.to_owned(),
        });
    }
    let field = |name: &str| {
        let line = os_release
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches(|c| c == '"' || c == '\'').to_owned())
    };
    let id = field("ID").unwrap_or_default();
    if id != "debian" {
        let name = field("PRETTY_NAME").unwrap_or_else(|| "an unknown system".into());
        return Err(LabError::UnsupportedHost {
            reason: format!("{name} is not Debian"),
            fix: FIX.into(),
        });
    }
    if let Some(old) = field("VERSION_ID")
        .and_then(|v| v.parse::<u32>().ok())
        .filter(|v| *v < 12)
    {
        return Err(LabError::UnsupportedHost {
            reason: format!("Debian {old} has neither QEMU 10 nor kernel 6.12"),
            fix: FIX.into(),
        });
    }
    Ok(Release {
        codename: field("VERSION_CODENAME")
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "sid".into()),
    })
}

/// A mirror of the Debian archive, as the host's apt sources configure it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    pub(super) uri: String,
    /// The keys or key file that sign it (`signed-by`), if the source names them in one word.
    pub(super) signed_by: Option<String>,
    /// Whether the administrator marked it as trusted without signatures.
    pub(super) trusted: bool,
}

impl Mirror {
    /// A mirror whose packages are signed with Debian's keys.
    pub(super) fn plain(uri: &str) -> Mirror {
        Mirror {
            uri: uri.into(),
            signed_by: None,
            trusted: false,
        }
    }
}

/// Finds the mirrors of `codename`'s main component in apt source files, given as `(file name,
/// content)`.
///
/// Mirrors keep the order of the files; repeated ones are dropped.
pub(super) fn find_mirrors(files: &[(String, String)], codename: &str) -> Vec<Mirror> {
    let mut found: Vec<Mirror> = Vec::new();
    for (name, text) in files {
        let mirrors = if name.ends_with(".sources") {
            from_deb822(text, codename)
        } else {
            from_one_line(text, codename)
        };
        for mirror in mirrors {
            if !mirror.uri.starts_with("cdrom:")
                && found.iter().all(|known| known.uri != mirror.uri)
            {
                found.push(mirror);
            }
        }
    }
    found
}

/// Parses lines of the form `deb [options] uri suite component...`.
fn from_one_line(text: &str, codename: &str) -> Vec<Mirror> {
    let parse = |line: &str| {
        let rest = line
            .split('#')
            .next()?
            .trim()
            .strip_prefix("deb")?
            .strip_prefix([' ', '\t'])?
            .trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        if suite != codename || !words.any(|component| component == "main") {
            return None;
        }
        let option = |key: &str| {
            options
                .split_whitespace()
                .find_map(|word| word.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
        };
        Some(Mirror {
            uri: uri.to_owned(),
            signed_by: option("signed-by"),
            trusted: option("trusted").is_some_and(|v| v == "yes"),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Parses stanzas of `Key: value` lines (deb822); keeps the enabled ones of type `deb`.
fn from_deb822(text: &str, codename: &str) -> Vec<Mirror> {
    let mut mirrors = Vec::new();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let field = |key: &str| {
            stanza.iter().find_map(|line| {
                line.split_once(':')
                    .filter(|(name, _)| name.trim().eq_ignore_ascii_case(key))
                    .map(|(_, value)| value.trim())
            })
        };
        let has = |key: &str, word: &str| {
            field(key).is_some_and(|value| value.split_whitespace().any(|w| w == word))
        };
        if !has("Types", "deb")
            || !has("Suites", codename)
            || !has("Components", "main")
            || has("Enabled", "no")
        {
            continue;
        }
        // A multi-line value holds the key itself and has no file name.
        let signed_by = field("Signed-By")
            .filter(|value| value.starts_with('/'))
            .map(str::to_owned);
        for uri in field("URIs").unwrap_or_default().split_whitespace() {
            mirrors.push(Mirror {
                uri: uri.to_owned(),
                signed_by: signed_by.clone(),
                trusted: has("Trusted", "yes"),
            });
        }
    }
    mirrors
}

/// The `sources.list` that reads `release` from `mirror`.
///
/// `keyring` is Debian's key file if the host has it; a key that the mirror names takes precedence.
pub(super) fn sources_list(release: &Release, mirror: &Mirror, keyring: Option<&str>) -> String {
    let mut options = Vec::new();
    if let Some(keys) = mirror.signed_by.as_deref().or(keyring) {
        options.push(format!("signed-by={keys}"));
    }
    if mirror.trusted {
        options.push("trusted=yes".into());
    }
    let options = if options.is_empty() {
        String::new()
    } else {
        format!("[{}] ", options.join(" "))
    };
    release
        .suites()
        .iter()
        .map(|suite| format!("deb {options}{} {suite} main\n", mirror.uri))
        .collect()
}

/// An apt configuration that keeps all of apt's state under `dir`.
///
/// The package database is empty, so that every library QEMU needs is downloaded, and none of the
/// host's hooks run. `acquire` is the output of `apt-config dump Acquire`; proxies, timeouts and
/// similar settings are taken from it.
pub(super) fn apt_conf(dir: &Path, acquire: &str) -> String {
    let dropped = [
        "Acquire::IndexTargets",
        "Acquire::Changelogs",
        "Acquire::Languages",
        "Acquire::GzipIndexes",
    ];
    let mut conf = String::from("// Written by tierloom's lab; safe to delete.\n");
    for line in acquire.lines().filter(|line| {
        line.starts_with("Acquire::") && !dropped.iter().any(|name| line.starts_with(name))
    }) {
        conf.push_str(line);
        conf.push('\n');
    }
    let dir = dir.display();
    conf.push_str(&format!(
        "Dir::State \"{dir}/state\";\nDir::State::status \"{dir}/status\";\nDir::Cache \"{dir}/cache\";\nDir::Log \"{dir}/log\";\n\
         Dir::Etc::sourcelist \"{dir}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\nDir::Etc::main \"/dev/null\";\n\
         Dir::Etc::parts \"/dev/null\";\nDir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\n\
         APT::Architecture \"amd64\";\nAPT::Architectures {{ \"amd64\"; }};\nAPT::Install-Recommends \"false\";\n\
         APT::Sandbox::User \"root\";\nAPT::Update::Error-Mode \"any\";\nAcquire::Languages \"none\";\n"
    ));
    conf
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn release(codename: &str) -> Release {
        Release {
            codename: codename.into(),
        }
    }

    #[test]
    fn bookworm_needs_backports_and_trixie_does_not() {
        let bookworm = choose_release(
            "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n",
            None,
        )
        .unwrap();
        assert_eq!(
            bookworm.suites(),
            ["bookworm", "bookworm-updates", "bookworm-backports"]
        );
        assert_eq!(bookworm.target(), "bookworm-backports");
        let trixie = choose_release(
            "ID=debian\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\n",
            None,
        )
        .unwrap();
        assert_eq!(
            (trixie.suites(), trixie.target()),
            (vec!["trixie".to_owned()], "trixie".to_owned())
        );
        assert_eq!(choose_release("ID=debian\n", None).unwrap().codename, "sid");
    }

    #[test]
    fn backports_are_read_with_the_release_they_belong_to() {
        let chosen = |name| choose_release("", Some(name)).unwrap();
        let newer = chosen("trixie-backports");
        assert_eq!(
            newer.suites(),
            ["trixie", "trixie-updates", "trixie-backports"]
        );
        assert_eq!(newer.target(), "trixie-backports");
        assert_eq!(chosen("bookworm-backports"), release("bookworm"));
        assert_eq!(release("bookworm").target(), "bookworm-backports");
        assert_eq!(release("trixie").target(), "trixie");
    }

    #[test]
    fn other_systems_are_told_what_to_set() {
        for text in [
            "ID=ubuntu\nPRETTY_NAME=\"Ubuntu 24.04\"\n",
            "ID=debian\nVERSION_ID=\"11\"\nVERSION_CODENAME=bullseye\n",
            "",
        ] {
            let error = choose_release(text, None).unwrap_err().to_string();
            assert!(error.contains("TIERLOOM_LAB_SUITE"), "{error}");
            assert_eq!(
                choose_release(text, Some("trixie")).unwrap(),
                release("trixie")
            );
        }
        for wanted in ["../up", "", "a b", "-x"] {
            assert!(choose_release("", Some(wanted)).is_err(), "{wanted}");
        }
    }

    #[test]
    fn the_machines_own_mirror_is_found_in_both_source_formats() {
        let files = [
            ("sources.list".to_owned(), "# deb http://no bookworm main\ndeb-src http://src bookworm main\ndeb cdrom:[x]/ bookworm main\n deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://one/debian bookworm contrib main # why\ndeb http://sec bookworm-security main\n".to_owned()),
            ("a.sources".to_owned(), "Types: deb deb-src\n# note\nURIs: https://two/debian http://one/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /keys.gpg\n\nTypes: deb\nURIs: http://off\nSuites: bookworm\nComponents: main\nEnabled: no\n".to_owned()),
        ];
        let mirrors = find_mirrors(&files, "bookworm");
        let expected = [
            Mirror {
                uri: "http://one/debian".into(),
                signed_by: Some("/k.gpg".into()),
                trusted: true,
            },
            Mirror {
                uri: "https://two/debian".into(),
                signed_by: Some("/keys.gpg".into()),
                trusted: false,
            },
        ];
        assert_eq!(mirrors, expected);
        assert!(find_mirrors(&files, "trixie").is_empty());
    }

    #[test]
    fn sources_carry_the_key_and_every_suite() {
        let text = sources_list(
            &release("bookworm"),
            &Mirror::plain("http://m/debian"),
            Some("/k.gpg"),
        );
        assert_eq!(
            text,
            "deb [signed-by=/k.gpg] http://m/debian bookworm main\ndeb [signed-by=/k.gpg] http://m/debian bookworm-updates main\n\
             deb [signed-by=/k.gpg] http://m/debian bookworm-backports main\n"
        );
        assert_eq!(
            sources_list(&release("trixie"), &Mirror::plain("http://m"), None),
            "deb http://m trixie main\n"
        );
    }

    #[test]
    fn proxies_are_kept_and_the_hosts_hooks_and_state_are_not() {
        let conf = apt_conf(
            Path::new("/c"),
            "Acquire \"\";\nAcquire::http::Proxy \"http://p:3128\";\nAcquire::IndexTargets::deb \"\";\nAPT::Update::Post-Invoke:: \"x\";\n",
        );
        assert!(
            conf.contains("Acquire::http::Proxy \"http://p:3128\";"),
            "{conf}"
        );
        assert!(
            !conf.contains("IndexTargets") && !conf.contains("Post-Invoke"),
            "{conf}"
        );
        assert!(
            conf.contains("Dir::State::status \"/c/status\";")
                && conf.contains("Dir::Etc::parts \"/dev/null\";"),
            "{conf}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn any_source_text_is_read_without_a_panic(text in "(deb |Types: deb|URIs:|Suites: x|\\[|\\]|#|main|x| |\n|.){0,40}") {
            for name in ["a.list", "b.sources"] {
                for mirror in find_mirrors(&[(name.to_owned(), text.clone())], "x") {
                    prop_assert!(!mirror.uri.is_empty());
                }
            }
        }
    }
}
