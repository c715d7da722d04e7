//! The report in a real browser: no error, no request, no overlapping labels, and charts that show
//! the records' numbers.
//!
//! Needs Chromium (`apt-get install chromium`); `TIERLOOM_BROWSER=skip` skips these tests.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::benches::{BenchSample, bench_sample};
use support::decisions::decisions_sample;
use support::{QUERIES, Sample, sample};
use tierloom_report::{ReportOptions, compare, render, render_comparison};

/// A page that hangs must not hang the tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs inside the page and writes its findings as JSON into the document.
const PROBE: &str = r##"<script>
(function () {
  var seen = { requests: performance.getEntriesByType("resource").length, overlaps: [], outside: [], charts: {}, background: getComputedStyle(document.body).backgroundColor };
  seen.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  document.querySelectorAll("svg.chart").forEach(function (svg) {
    var frame = svg.getBoundingClientRect();
    var texts = Array.from(svg.querySelectorAll("text")).map(function (t) { return { text: t.textContent.trim(), box: t.getBoundingClientRect() }; });
    texts.forEach(function (a, i) {
      if (a.box.left < frame.left - 1 || a.box.right > frame.right + 1 || a.box.top < frame.top - 1 || a.box.bottom > frame.bottom + 1) seen.outside.push(svg.id + ": " + a.text);
      texts.slice(i + 1).forEach(function (b) {
        var x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        var y = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
        if (x > 1 && y > 4) seen.overlaps.push(svg.id + ": " + a.text + " / " + b.text);
      });
    });
    var bars = Array.from(svg.querySelectorAll(":scope > rect")).map(function (bar) {
      var row = Number(bar.getAttribute("y")) + Number(bar.getAttribute("height")) / 2;
      var label = Array.from(svg.querySelectorAll("text")).find(function (t) { return /^[0-9.]+\u00d7$/.test(t.textContent.trim()) && Math.abs(Number(t.getAttribute("y")) - row) < 4; });
      return { width: Number(bar.getAttribute("width")), label: label ? label.textContent.trim() : "", fill: getComputedStyle(bar).fill };
    });
    seen.charts[svg.id] = bars;
  });
  var out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(seen);
  document.body.appendChild(out);
})();
</script>"##;

/// Whether tests in a browser are disabled.
fn skipped() -> bool {
    let skip = std::env::var("TIERLOOM_BROWSER").is_ok_and(|value| value == "skip");
    if skip {
        tierloom_testing::checked_nothing("no browser was started: TIERLOOM_BROWSER=skip");
    }
    skip
}

fn chromium() -> PathBuf {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("no Chromium found: run `apt-get install chromium`, name one with CHROMIUM=/path, or leave these tests out with TIERLOOM_BROWSER=skip"))
}

/// The browser's findings about a page.
struct Visit {
    dom: String,
    /// Console messages of the page: errors, warnings, violations of the content policy.
    console: Vec<String>,
}

impl Visit {
    fn probe(&self) -> Value {
        let opening = "<pre id=\"probe\">";
        let start = self.dom.find(opening).expect("the probe ran") + opening.len();
        let length = self.dom[start..].find("</pre>").expect("closed");
        let text = self.dom[start..start + length]
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        serde_json::from_str(&text).expect("the probe writes JSON")
    }

    /// The labels of a chart, in order.
    fn labels(&self, chart: &str) -> Vec<String> {
        let start = self
            .dom
            .find(&format!("<svg id=\"{chart}\""))
            .unwrap_or_else(|| panic!("no chart {chart}"));
        let svg = self.dom[start..].split("</svg>").next().expect("closed");
        svg.split("<text ")
            .skip(1)
            .filter_map(|t| t.split_once('>'))
            .filter_map(|(_, t)| t.split("</text>").next())
            .map(|t| t.trim().to_string())
            .collect()
    }
}

/// Opens `html` from a file without network access, lets its scripts run, and reads the document
/// back.
fn visit(html: &str, flags: &[&str]) -> Visit {
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("report.html");
    std::fs::write(
        &file,
        html.replacen("</body>", &format!("{PROBE}</body>"), 1),
    )
    .expect("written");
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let create = |path: &Path| std::fs::File::create(path).expect("created");
    let mut browser = Command::new(chromium())
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            "--log-level=0",
        ])
        .args([
            "--window-size=1400,2000",
            "--virtual-time-budget=3000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .args(flags)
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(create(&out))
        .stderr(create(&err))
        .spawn()
        .unwrap_or_else(|error| {
            panic!("cannot start Chromium: {error}; run `apt-get install chromium`")
        });
    let started = Instant::now();
    while browser.try_wait().expect("waiting").is_none() {
        if started.elapsed() > PATIENCE {
            let _ = browser.kill();
            panic!(
                "Chromium did not finish: {}",
                std::fs::read_to_string(&err).unwrap_or_default()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let read =
        |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("read")).into_owned();
    let console = read(&err)
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(String::from)
        .collect();
    let dom = read(&out);
    assert!(
        dom.contains("</html>"),
        "Chromium gave no document: {}",
        read(&err)
    );
    Visit { dom, console }
}

fn strings(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

fn assert_clean(visit: &Visit) {
    assert!(visit.console.is_empty(), "console: {:#?}", visit.console);
    let probe = visit.probe();
    assert_eq!(
        probe["requests"], 0,
        "the page asked for something outside itself"
    );
    assert!(
        strings(&probe["overlaps"]).is_empty(),
        "labels overlap: {:#?}",
        probe["overlaps"]
    );
    assert!(
        strings(&probe["outside"]).is_empty(),
        "labels are cut: {:#?}",
        probe["outside"]
    );
    assert_eq!(probe["wide"], false, "the page is wider than its window");
}

#[test]
fn the_report_opens_without_errors_and_its_charts_show_the_records() {
    if skipped() {
        return;
    }
    let set = sample();
    let visit = visit(
        &render(&set, &ReportOptions::default()).expect("rendered"),
        &[],
    );
    assert_clean(&visit);
    let record = set.runs[0]
        .queries
        .iter()
        .find(|q| q.query == "q1.1" && q.machine == "nus24" && q.placement == "3:2")
        .expect("modelled");
    let label = format!("{:.2}×", record.speedup_over_dram.expect("modelled"));
    // The third label of the group: query, then name and value of each bar.
    let labels = visit.labels("r0-speedup-nus24-q1");
    let place = labels
        .iter()
        .position(|l| l == "3:2")
        .expect("the bar is named");
    assert_eq!(labels[place + 1], label);
}

#[test]
fn bars_are_as_long_as_their_numbers_say() {
    if skipped() {
        return;
    }
    let visit = visit(
        &render(&sample(), &ReportOptions::default()).expect("rendered"),
        &[],
    );
    let probe = visit.probe();
    let mut pixels_per_doubling = Vec::new();
    for group in ["q1", "q2", "q3", "q4"] {
        let bars = probe["charts"][format!("r0-speedup-epfl25-full-pf-on-{group}")]
            .as_array()
            .expect("bars")
            .clone();
        let queries = QUERIES.iter().filter(|q| q.starts_with(group)).count();
        assert_eq!(bars.len(), queries * 4);
        for bar in bars {
            let value: f64 = bar["label"]
                .as_str()
                .expect("label")
                .trim_end_matches('×')
                .parse()
                .expect("a number");
            // Labels have two digits, so only long bars are exact enough to check the scale.
            if value < 0.5 {
                pixels_per_doubling
                    .push(bar["width"].as_f64().expect("width") / value.log2().abs());
            }
        }
    }
    let (low, high) = pixels_per_doubling
        .iter()
        .fold((f64::INFINITY, 0.0f64), |(low, high), p| {
            (low.min(*p), high.max(*p))
        });
    assert!(
        pixels_per_doubling.len() == 26 && high / low < 1.05,
        "{low}..{high} over {}",
        pixels_per_doubling.len()
    );
}

#[test]
fn dark_and_light_differ_and_series_have_colors_in_both() {
    if skipped() {
        return;
    }
    let page = render(&sample(), &ReportOptions::default()).expect("rendered");
    let look = |flags: &[&str]| {
        let visit = visit(&page, flags);
        assert_clean(&visit);
        let probe = visit.probe();
        let fill = |place: usize| {
            probe["charts"]["r0-speedup-here-q1"][place]["fill"]
                .as_str()
                .expect("fill")
                .to_string()
        };
        (
            probe["background"].as_str().expect("color").to_string(),
            fill(0),
            fill(1),
        )
    };
    let (light, dark) = (
        look(&["--blink-settings=preferredColorScheme=1"]),
        look(&["--blink-settings=preferredColorScheme=0"]),
    );
    assert_eq!(
        (light.0.as_str(), dark.0.as_str()),
        ("rgb(255, 255, 255)", "rgb(20, 23, 27)")
    );
    assert!(
        light.1 != dark.1 && light.1 != light.2 && light.1.starts_with("rgb("),
        "{light:?} {dark:?}"
    );
}

#[test]
fn killed_runs_narrow_windows_and_comparisons_open_without_errors() {
    if skipped() {
        return;
    }
    let mut killed = Sample {
        here: &["dram"],
        ..Sample::default()
    }
    .set();
    killed.runs[0].summary = None;
    assert_clean(&visit(
        &render(&killed, &ReportOptions::default()).expect("rendered"),
        &[],
    ));
    assert_clean(&visit(
        &render(&killed, &ReportOptions::default()).expect("rendered"),
        &["--window-size=500,2000"],
    ));
    let after = Sample {
        seed: 2,
        factor: 0.9,
        ..Sample::default()
    }
    .set();
    let comparison = compare(&sample(), &after);
    assert_clean(&visit(
        &render_comparison(&comparison, &sample(), &after, &ReportOptions::default())
            .expect("rendered"),
        &[],
    ));
}

#[test]
fn memory_benchmarks_open_without_errors_wide_narrow_and_compared() {
    if skipped() {
        return;
    }
    let mut set = bench_sample();
    // Long names must be shortened and must not overlap.
    for bench in &mut set.benches {
        for setting in &mut bench.varied {
            if setting.value == "cxl" {
                setting.value = "cxl of the other socket behind two switches".into();
            }
        }
    }
    let page = render(&set, &ReportOptions::default()).expect("rendered");
    assert_clean(&visit(&page, &[]));
    assert_clean(&visit(&page, &["--window-size=500,2000"]));
    let after = BenchSample {
        seed: 2,
        speed: 0.9,
    }
    .set();
    let comparison = compare(&set, &after);
    assert_clean(&visit(
        &render_comparison(&comparison, &set, &after, &ReportOptions::default()).expect("rendered"),
        &[],
    ));
}

#[test]
fn validations_and_weights_open_without_errors_wide_and_narrow() {
    if skipped() {
        return;
    }
    let page = render(&decisions_sample(), &ReportOptions::default()).expect("rendered");
    assert_clean(&visit(&page, &[]));
    assert_clean(&visit(&page, &["--window-size=500,2000"]));
}

#[test]
fn names_that_are_markup_stay_text_and_charts_stay_legible() {
    if skipped() {
        return;
    }
    let mut set = sample();
    for record in &mut set.runs[0].queries {
        if record.placement == "tier" {
            record.placement = "</script><script>console.error('ran')</script>".into();
        }
    }
    assert_clean(&visit(
        &render(&set, &ReportOptions::default()).expect("rendered"),
        &[],
    ));
}

#[test]
fn an_error_or_a_request_would_be_noticed() {
    if skipped() {
        return;
    }
    let page = render(&sample(), &ReportOptions::default()).expect("rendered");
    let broken = page.replacen("</main>", "<script>undefined.x</script></main>", 1);
    assert!(
        !visit(&broken, &[]).console.is_empty(),
        "a script error went unseen"
    );
    let asking = page.replacen(
        "</main>",
        "<img src=\"http://127.0.0.1:9/x.png\"></main>",
        1,
    );
    assert!(
        !visit(&asking, &[]).console.is_empty(),
        "a request went unseen"
    );
}
