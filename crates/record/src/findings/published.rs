//! What follows from runs that repeat published experiments: the measured value of each figure, and
//! whether what was published holds here.

use crate::{BenchRecord, FITS_CACHES, PublicationRecord, PublishedPoint, PublishedSeries, Spread};
use tierloom_text::words::{figures, list, number};

/// A measured value with the range that the repetitions leave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredRange {
    /// From the medians of the repetitions.
    pub value: f64,
    /// Smallest value that the repetitions allow.
    pub low: f64,
    /// Largest value that the repetitions allow.
    pub high: f64,
    /// Number of repetitions, of the run that has the fewest.
    pub repetitions: usize,
}

/// Whether what was published holds here.
#[derive(Debug, Clone, PartialEq)]
pub enum PublishedVerdict {
    /// The whole range of the repetitions satisfies the relation, or has the published sign.
    Holds,
    /// No value in the range of the repetitions does.
    Fails,
    /// Some values in the range of the repetitions do, others do not; or there is one repetition.
    Unclear,
    /// It was not measured, for this reason.
    NotAsked(String),
    /// A value of another machine, such as a bandwidth: there is nothing that could hold.
    Value,
}

/// A published figure with what was measured here.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedAnswer<'a> {
    /// The curve, or the single figure.
    pub series: &'a PublishedSeries,
    /// The point on it.
    pub point: &'a PublishedPoint,
    /// What was measured; `None` if the runs are missing or invalid.
    pub measured: Option<MeasuredRange>,
    /// Whether what was published holds here.
    pub verdict: PublishedVerdict,
    /// Remarks on the runs, such as that their structures fit the caches.
    pub remarks: Vec<&'a str>,
}

impl PublishedAnswer<'_> {
    /// Whether the caches can hold the structures of one of its runs.
    pub fn fits_caches(&self) -> bool {
        self.remarks
            .iter()
            .any(|remark| remark.ends_with(FITS_CACHES))
    }

    /// Whether a relation or a sign was published: whether the verdict is about one.
    pub fn is_judged(&self) -> bool {
        interval(self.point).is_some() || sign(self.series, self.point).is_some()
    }
}

/// The answers to all points of a record, in its order; `benches` has the runs.
pub fn of_publication<'a>(
    record: &'a PublicationRecord,
    benches: &'a [BenchRecord],
) -> Vec<PublishedAnswer<'a>> {
    let points = |series: &'a PublishedSeries| series.points.iter().map(move |p| (series, p));
    let all = record.series.iter().flat_map(points);
    all.map(|(series, point)| answer(series, point, benches))
        .collect()
}

fn answer<'a>(
    series: &'a PublishedSeries,
    point: &'a PublishedPoint,
    benches: &'a [BenchRecord],
) -> PublishedAnswer<'a> {
    let found = match &point.left_out {
        Some(reason) => Err(reason.clone()),
        None => measured(series, point, benches),
    };
    let ids = point
        .runs
        .iter()
        .map(|run| &run.run_id)
        .chain(&point.versus);
    let mut remarks: Vec<&str> = Vec::new();
    let of_runs = ids.filter_map(|id| run_of(benches, id).ok());
    for remark in of_runs.flat_map(|run| &run.remarks) {
        if !remarks.contains(&remark.text.as_str()) {
            remarks.push(&remark.text);
        }
    }
    let (measured, verdict) = match found {
        Ok(range) => (Some(range), judge(series, point, range)),
        Err(reason) => (None, PublishedVerdict::NotAsked(reason)),
    };
    PublishedAnswer {
        series,
        point,
        measured,
        verdict,
        remarks,
    }
}

/// The last valid run of that id, or why there is none.
fn run_of<'a>(benches: &'a [BenchRecord], id: &str) -> Result<&'a BenchRecord, String> {
    let mut runs = benches
        .iter()
        .rev()
        .filter(|bench| bench.run_id == id)
        .peekable();
    if runs.peek().is_none() {
        return Err("its run is not among the records".into());
    }
    let valid = runs.find(|bench| bench.valid);
    valid.ok_or_else(|| "its run is invalid".into())
}

fn measured(
    series: &PublishedSeries,
    point: &PublishedPoint,
    benches: &[BenchRecord],
) -> Result<MeasuredRange, String> {
    let phase = series.phase.as_deref();
    let rate_of = |id: &str| rate(run_of(benches, id)?, phase);
    let first = point.runs.first().ok_or("no run measures it")?;
    let run = run_of(benches, &first.run_id);
    let base = || rate_of(point.versus.as_ref().ok_or("no run to compare with")?);
    match series.quantity.as_str() {
        "gbps" | "mean_gbps" => bandwidth(run?, phase, series.bytes_per_tuple),
        "mops" => Ok(rate(run?, phase)?.times(1e-6)),
        "latency_ns" | "tier_latency_ns" => latency(run?),
        "latency_ratio" => {
            let id = point.versus.as_ref().ok_or("no run to compare with")?;
            Ok(latency(run?)?.over(latency(run_of(benches, id)?)?))
        }
        "ratio" => Ok(rate_of(&first.run_id)?.over(base()?)),
        "gain_percent" => Ok(rate_of(&first.run_id)?.over(base()?).gain()),
        "best_share" | "best_gain_percent" | "best_added_share" => {
            let mut rates = Vec::new();
            for run in &point.runs {
                let share = run.share_percent.ok_or("a run without a share")?;
                rates.push((share, rate_of(&run.run_id)?));
            }
            let versus = point.versus.as_ref().map(|_| base()).transpose()?;
            best(&series.quantity, &rates, versus)
        }
        other => Err(format!("{other} is a quantity of the model only")),
    }
}

/// The quantity of the best of several placements; shares are per cent outside DRAM.
fn best(
    quantity: &str,
    rates: &[(f64, MeasuredRange)],
    versus: Option<MeasuredRange>,
) -> Result<MeasuredRange, String> {
    let at = |share: f64| {
        let found = rates.iter().find(|(known, _)| *known == share);
        found
            .map(|(_, rate)| *rate)
            .ok_or_else(|| format!("no run with {share}% outside DRAM"))
    };
    let most = rates.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let (share, best) = *most.ok_or("no run measures it")?;
    if quantity == "best_share" {
        // Every share that could be the best one, for all that the repetitions say.
        let close = rates.iter().filter(|(_, rate)| rate.high >= best.low);
        let range = close.fold((share, share), |(low, high), (s, _)| {
            (low.min(*s), high.max(*s))
        });
        return Ok(MeasuredRange {
            value: share,
            low: range.0,
            high: range.1,
            ..best
        });
    }
    let first = match versus {
        Some(versus) => versus,
        None => at(0.0)?,
    };
    if quantity == "best_gain_percent" {
        return Ok(best.over(first).gain());
    }
    let second = at(100.0)?;
    let added = |best: f64, first: f64, second: f64| (best - first) / second * 100.0;
    Ok(MeasuredRange {
        value: added(best.value, first.value, second.value),
        low: added(best.low, first.high, second.high).min(added(best.low, first.high, second.low)),
        high: added(best.high, first.low, second.low),
        repetitions: best.over(first).over(second).repetitions,
    })
}

impl MeasuredRange {
    fn of(spread: &Spread) -> Self {
        Self {
            value: spread.median,
            low: spread.min,
            high: spread.max,
            repetitions: spread.values.len(),
        }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }

    /// `amount` per time, of a range of times.
    fn per(self, amount: f64) -> Self {
        Self {
            value: amount / self.value,
            low: amount / self.high,
            high: amount / self.low,
            ..self
        }
    }

    fn over(self, base: Self) -> Self {
        Self {
            value: self.value / base.value,
            low: self.low / base.high,
            high: self.high / base.low,
            repetitions: self.repetitions.min(base.repetitions),
        }
    }

    /// A ratio as a gain in per cent.
    fn gain(self) -> Self {
        let gain = |ratio: f64| (ratio - 1.0) * 100.0;
        Self {
            value: gain(self.value),
            low: gain(self.low),
            high: gain(self.high),
            ..self
        }
    }
}

/// Tuples or operations per second of the main task.
fn rate(record: &BenchRecord, phase: Option<&str>) -> Result<MeasuredRange, String> {
    let task = record.tasks.first().ok_or("its run has no task")?;
    if let Some(name) = phase {
        let operator = task
            .operator
            .as_ref()
            .ok_or("its run is not of an operator")?;
        let phase = operator.phases.iter().find(|phase| phase.name == name);
        let phase = phase.ok_or_else(|| format!("the operator has no phase {name}"))?;
        let seconds = phase.seconds.as_ref().ok_or("the phase has no time")?;
        let tuples = (phase.tuples * operator.passes) as f64;
        return Ok(MeasuredRange::of(seconds).per(tuples));
    }
    if let Some(operations) = &task.operations_per_s {
        return Ok(MeasuredRange::of(operations));
    }
    Ok(latency(record)?.per(1e9))
}

fn bandwidth(
    record: &BenchRecord,
    phase: Option<&str>,
    bytes_per_tuple: Option<f64>,
) -> Result<MeasuredRange, String> {
    let task = record.tasks.first().ok_or("its run has no task")?;
    if task.operator.is_none() {
        let spread = task.bandwidth_gbps.as_ref();
        return spread
            .map(MeasuredRange::of)
            .ok_or_else(|| "its run has no bandwidth".into());
    }
    let bytes = bytes_per_tuple.ok_or("the work counts no bytes")?;
    Ok(rate(record, phase)?.times(bytes / 1e9))
}

fn latency(record: &BenchRecord) -> Result<MeasuredRange, String> {
    let task = record.tasks.first().ok_or("its run has no task")?;
    let latency = task.latency.as_ref().ok_or("its run has no latency")?;
    Ok(MeasuredRange::of(&latency.median_ns))
}

/// The published relation as an interval.
fn interval(point: &PublishedPoint) -> Option<(f64, f64)> {
    if point.relation_low.is_none() && point.relation_high.is_none() {
        return None;
    }
    let low = point.relation_low.unwrap_or(f64::NEG_INFINITY);
    Some((low, point.relation_high.unwrap_or(f64::INFINITY)))
}

/// The value at which a comparison neither wins nor loses, and whether it was published to win.
///
/// `None` if the quantity is no comparison, or what was published is within its own precision.
fn sign(series: &PublishedSeries, point: &PublishedPoint) -> Option<(f64, bool)> {
    let published = point.figure.as_ref()?.published?;
    let (even, ratio) = match series.quantity.as_str() {
        "gain_percent" | "best_gain_percent" => (0.0, 1.0 + published / 100.0),
        "ratio" => (1.0, published),
        _ => return None,
    };
    let beyond = ratio.ln().abs() > (1.0 + point.noise_percent / 100.0).ln();
    beyond.then_some((even, ratio > 1.0))
}

fn judge(
    series: &PublishedSeries,
    point: &PublishedPoint,
    measured: MeasuredRange,
) -> PublishedVerdict {
    let within = |(low, high): (f64, f64)| {
        // One repetition has no range, so nothing is known of its spread.
        if measured.repetitions < 2 {
            PublishedVerdict::Unclear
        } else if measured.low >= low && measured.high <= high {
            PublishedVerdict::Holds
        } else if measured.high < low || measured.low > high {
            PublishedVerdict::Fails
        } else {
            PublishedVerdict::Unclear
        }
    };
    let of_sign = |(even, wins): (f64, bool)| match wins {
        true => within((even, f64::INFINITY)),
        false => within((f64::NEG_INFINITY, even)),
    };
    match (
        interval(point).map(within),
        sign(series, point).map(of_sign),
    ) {
        (None, None) => PublishedVerdict::Value,
        (Some(one), None) | (None, Some(one)) => one,
        // Both have to hold.
        (Some(one), Some(other)) => {
            let both = [one, other];
            let worst = [PublishedVerdict::Fails, PublishedVerdict::Unclear];
            let found = worst.into_iter().find(|verdict| both.contains(verdict));
            found.unwrap_or(PublishedVerdict::Holds)
        }
    }
}

/// The conclusions on one publication as sentences, the answer first.
pub fn published_sentences(
    record: &PublicationRecord,
    answers: &[PublishedAnswer<'_>],
) -> Vec<String> {
    let asked: Vec<_> = answers
        .iter()
        .filter(|a| a.point.figure.is_some())
        .collect();
    let judged: Vec<_> = asked.iter().filter(|a| a.is_judged()).collect();
    let count =
        |verdict: &PublishedVerdict| judged.iter().filter(|a| a.verdict == *verdict).count();
    let not_asked = |a: &&&PublishedAnswer<'_>| matches!(a.verdict, PublishedVerdict::NotAsked(_));
    let file = record.file.rsplit('/').next().unwrap_or_default();
    let mut said = vec![match judged.len() {
        0 => format!(
            "{}, {file}: values without a published relation or sign.",
            record.paper
        ),
        all => format!(
            "{}, {file}: {all} published relations and signs; hold here: {}, do not: {}, unclear \
             within the spread of the repetitions: {}, cannot be asked here: {}.",
            record.paper,
            count(&PublishedVerdict::Holds),
            count(&PublishedVerdict::Fails),
            count(&PublishedVerdict::Unclear),
            judged.iter().filter(|a| not_asked(a)).count(),
        ),
    }];
    let failed: Vec<String> = judged
        .iter()
        .filter(|a| a.verdict == PublishedVerdict::Fails)
        .map(|a| match a.fits_caches() {
            true => format!("{} (in the caches)", name(a)),
            false => name(a),
        })
        .collect();
    if !failed.is_empty() {
        said.push(format!("Do not hold here: {}.", list(&failed)));
    }
    let valued = || asked.iter().filter(|a| !a.is_judged());
    let with = valued().filter(|a| a.measured.is_some()).count();
    if valued().count() > 0 {
        said.push(format!(
            "Values of the publication's machine: {}, {with} with a measurement beside them.",
            figures(valued().count()),
        ));
    }
    said.extend(reasons(&asked));
    let is_cached = |a: &&&PublishedAnswer<'_>| a.fits_caches() && a.measured.is_some();
    let cached = asked.iter().filter(is_cached).count();
    if cached > 0 {
        said.push(format!(
            "Measured on structures that the caches here can hold, which says nothing about \
             memory: {}.",
            figures(cached)
        ));
    }
    if record.scale != 1.0 {
        said.push(format!(
            "Structures have {} of the published sizes.",
            fraction(record.scale)
        ));
    }
    said
}

/// The name of a figure: that of its record, or curve and position.
fn name(answer: &PublishedAnswer<'_>) -> String {
    let figure = answer.point.figure.as_ref();
    figure.map_or_else(|| answer.series.name.clone(), |figure| figure.id.clone())
}

/// Why figures cannot be asked, the most frequent reason first.
fn reasons(asked: &[&PublishedAnswer<'_>]) -> Vec<String> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    for answer in asked {
        let PublishedVerdict::NotAsked(reason) = &answer.verdict else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| known == reason) {
            Some((_, count)) => *count += 1,
            None => found.push((reason, 1)),
        }
    }
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let sentence = |(reason, count): (&str, usize)| {
        format!("{} cannot be asked here: {reason}.", figures(count))
    };
    found.into_iter().map(sentence).collect()
}

/// "1/64" for factors that are one part of a whole number, else the number.
pub fn fraction(scale: f64) -> String {
    let parts = 1.0 / scale;
    match (parts - parts.round()).abs() < 1e-6 * parts {
        true if parts > 1.5 => format!("1/{}", parts.round()),
        _ => number(scale),
    }
}
