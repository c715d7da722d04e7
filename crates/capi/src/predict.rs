//! Predictions and weights. Everything here is modelled, nothing is measured.

use crate::border::{check, guarded, reference};
use crate::machine::tl_machine;
use crate::sized::{self, Versioned, letters};
use crate::status::{Fault, tl_status};
use crate::string::tl_str;
use crate::text::{text_out, tl_text};
use std::ffi::c_char;
use std::mem::size_of;
use std::time::SystemTime;
use tierloom_model::Options;
use tierloom_predict::{Prediction, Request, RequestedWork, Texts};
use tierloom_tune::modelled::{Stamp, Tuned};
use tierloom_tune::request::{self, TuneRequest};

/// Bytes of the texts in results, the zero byte at the end included.
pub const TL_LETTERS: usize = 64;

/// What the model says about work on a machine; see `tl_predict`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_prediction {
    /// Set to `sizeof(tl_prediction)` before the call.
    pub size: usize,
    /// Throughput of all workers together.
    pub tuples_per_s: f64,
    /// Lower end of its range, over the uncertainty of the profile and the errors of checks.
    pub tuples_per_s_low: f64,
    /// Upper end of that range.
    pub tuples_per_s_high: f64,
    /// Tuples of the whole work.
    pub tuples: f64,
    /// Time for the whole work in nanoseconds.
    pub time_ns: f64,
    /// Bytes per tuple, for a rate in bytes; not a number (`isnan`) where the work has none.
    pub bytes_per_tuple: f64,
    /// Number of workers.
    pub workers: u32,
    /// 0; for later versions.
    pub reserved: u32,
    /// What takes most of the time, such as `bandwidth of dram`, with a zero byte at the end.
    pub bottleneck: [c_char; TL_LETTERS],
}

// SAFETY: the first field is the size, and all fields are plain numbers.
unsafe impl Versioned for tl_prediction {
    const NAME: &'static str = "tl_prediction";
    const FIRST: usize = size_of::<Self>();

    fn base() -> Self {
        tl_prediction {
            size: size_of::<Self>(),
            tuples_per_s: f64::NAN,
            tuples_per_s_low: f64::NAN,
            tuples_per_s_high: f64::NAN,
            tuples: f64::NAN,
            time_ns: f64::NAN,
            bytes_per_tuple: f64::NAN,
            workers: 0,
            reserved: 0,
            bottleneck: [0; TL_LETTERS],
        }
    }
}

/// The best weights of memory tiers for work on a machine; see `tl_tune`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_tuning {
    /// Set to `sizeof(tl_tuning)` before the call.
    pub size: usize,
    /// Modelled rate with the weights, in tuples per second.
    pub tuples_per_s: f64,
    /// That rate over the one with everything on the first tier; 1 means no gain.
    pub gain: f64,
    /// Lower end of the gain's range.
    pub gain_low: f64,
    /// Upper end of the gain's range.
    pub gain_high: f64,
    /// Share of the pages that is not on the first tier, 0 to 1.
    pub share_off_first: f64,
    /// Number of workers.
    pub workers: u32,
    /// 0; for later versions.
    pub reserved: u32,
    /// The weights as a placement, such as `dram:3,cxl:2`, with a zero byte at the end.
    pub weights: [c_char; TL_LETTERS],
    /// What takes most of the time with them.
    pub bottleneck: [c_char; TL_LETTERS],
}

// SAFETY: the first field is the size, and all fields are plain numbers.
unsafe impl Versioned for tl_tuning {
    const NAME: &'static str = "tl_tuning";
    const FIRST: usize = size_of::<Self>();

    fn base() -> Self {
        tl_tuning {
            size: size_of::<Self>(),
            tuples_per_s: f64::NAN,
            gain: f64::NAN,
            gain_low: f64::NAN,
            gain_high: f64::NAN,
            share_off_first: f64::NAN,
            workers: 0,
            reserved: 0,
            weights: [0; TL_LETTERS],
            bottleneck: [0; TL_LETTERS],
        }
    }
}

/// Predicts work on a machine.
///
/// `work` is a benchmark as `tierloom predict --work` takes it (`probe`,
/// `probe:table_bytes=16GiB`, or the path of a YAML file) and `placement` where its data is (`3:2`,
/// `cxl`, `table=cxl,default=dram`); an empty placement is all on the first tier. 0 workers are one
/// per core.
///
/// # Safety
/// `machine` is a machine, the texts can be read, and `prediction` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_predict(
    machine: *const tl_machine,
    work: tl_str,
    placement: tl_str,
    workers: u32,
    prediction: *mut tl_prediction,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let (machine, work, placement) = unsafe {
            sized::expect(prediction)?;
            let machine = reference(machine, "machine")?;
            (machine, work.read("work")?, placement.read("placement")?)
        };
        let request = Request {
            work: Some(work.to_owned()),
            placement: (!placement.is_empty()).then(|| placement.to_owned()),
            workers: (workers > 0).then_some(workers),
            ..Request::default()
        };
        let asked = RequestedWork::of(&request)?;
        let options = Options::default();
        let made = Prediction::make(&asked, machine.machine.clone(), &request, &options)?;
        // SAFETY: as for this function.
        unsafe { sized::write(prediction, &numbers(&asked, &made)) }
    })
}

fn numbers(asked: &RequestedWork, made: &Prediction) -> tl_prediction {
    let rate = &made.own.rate;
    tl_prediction {
        tuples_per_s: rate.answer,
        tuples_per_s_low: rate.low,
        tuples_per_s_high: rate.high,
        tuples: asked.tuples(),
        time_ns: made.own.solution.time_ns,
        bytes_per_tuple: asked.bytes_per_tuple().unwrap_or(f64::NAN),
        workers: made.workers,
        bottleneck: letters(&made.own.solution.bottleneck.to_string()),
        ..tl_prediction::base()
    }
}

/// Finds the best weights for one phase of work on a machine.
///
/// `phase` is written as `work` of `tl_predict`. Everything is spread over all tiers of the machine
/// but memory of another socket; `tl_tune_json` has more choices.
///
/// # Safety
/// `machine` is a machine, the text can be read, and `tuning` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_tune(
    machine: *const tl_machine,
    phase: tl_str,
    workers: u32,
    tuning: *mut tl_tuning,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let (machine, phase) = unsafe {
            sized::expect(tuning)?;
            (reference(machine, "machine")?, phase.read("phase")?)
        };
        let request = TuneRequest {
            phases: Texts(vec![phase.to_owned()]),
            workers: (workers > 0).then_some(workers),
            ..TuneRequest::default()
        };
        let answer = request.answer_on(machine.machine.clone(), &stamp())?;
        let tuned = answer.phases.first();
        let tuned = tuned.ok_or_else(|| Fault::failed("the phase has no answer"))?;
        // SAFETY: as for this function.
        unsafe { sized::write(tuning, &weights(tuned, answer.workers)) }
    })
}

fn weights(tuned: &Tuned, workers: u32) -> tl_tuning {
    let (best, record) = (&tuned.best, &tuned.record);
    let (low, high) = record.gain_range.unwrap_or((f64::NAN, f64::NAN));
    let parts = record.best.iter();
    let parts: Vec<String> = parts
        .map(|part| format!("{}:{}", part.tier, part.weight))
        .collect();
    tl_tuning {
        tuples_per_s: best.rate,
        gain: best.gain_over_dram(),
        gain_low: low,
        gain_high: high,
        share_off_first: best.share,
        workers,
        weights: letters(&parts.join(",")),
        bottleneck: letters(&best.bottleneck.to_string()),
        ..tl_tuning::base()
    }
}

/// Predicts what a JSON object asks, and answers with the document that `tierloom predict --json`
/// prints.
///
/// The object has the options of that command as fields:
/// `{"machine": "nus24", "work": "probe", "placement": "3:2", "versus": "dram", "workers": 16}`.
///
/// # Safety
/// The text can be read, and a pointer can be written to `answer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_predict_json(question: tl_str, answer: *mut *mut tl_text) -> tl_status {
    guarded(|| {
        check(answer, "the place for the answer")?;
        // SAFETY: as for this function.
        let question = unsafe { question.read("question") }?;
        let document = tierloom_predict::document(&Request::from_json(question)?)?;
        // SAFETY: as for this function.
        unsafe { text_out(answer, document) }
    })
}

/// Finds weights for what a JSON object asks, and answers with the document that `tierloom tune
/// --json` prints.
///
/// The object has options of that command as fields: `{"machine": "nus24", "phases": ["probe"]}`,
/// with `tiers`, `moved`, `work` and `workers` if need be.
///
/// # Safety
/// The text can be read, and a pointer can be written to `answer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_tune_json(question: tl_str, answer: *mut *mut tl_text) -> tl_status {
    guarded(|| {
        check(answer, "the place for the answer")?;
        // SAFETY: as for this function.
        let question = unsafe { question.read("question") }?;
        let answers = TuneRequest::from_json(question)?.answer(&stamp())?;
        // SAFETY: as for this function.
        unsafe { text_out(answer, request::document(&answers)?) }
    })
}

fn stamp() -> Stamp {
    Stamp {
        made_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
    }
}
