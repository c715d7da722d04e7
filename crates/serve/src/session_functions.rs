//! Functions that read and change the session of one client.

use super::clients::{Client, lock};
use super::function;
use super::variables::Variables;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_float64_array, as_string_array};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};
use pgwire::error::{ErrorInfo, PgWireResult};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tierloom_sql::Watch;

/// How often a statement that sleeps looks whether to stop.
const LOOK: Duration = Duration::from_millis(5);

/// What a client has set, for its statements and for what the protocol asks for.
#[derive(Clone)]
pub(crate) struct Settings {
    pub variables: Arc<Mutex<Variables>>,
    pub client: Arc<Client>,
}

impl Settings {
    /// Sets a variable; the value that it has then.
    ///
    /// # Errors
    /// A name that is not known, or a value that it cannot have.
    pub fn set(&self, name: &str, value: Option<&str>) -> PgWireResult<String> {
        let now = {
            let mut variables = lock(&self.variables);
            variables.set(name, value)?;
            variables.get(name).unwrap_or_default().to_owned()
        };
        if name.eq_ignore_ascii_case("application_name") {
            *lock(&self.client.application) = now.clone();
        }
        Ok(now)
    }

    /// The functions of its session.
    pub fn functions(&self) -> [ScalarUDF; 5] {
        let (reading, setting) = (self.clone(), self.clone());
        let sleeping = Arc::clone(&self.client);
        let number = |name| function(name, DataType::Int64, next_numbers);
        [
            function("current_setting", DataType::Utf8, move |given, _| {
                reading.current(given)
            }),
            function("set_config", DataType::Utf8, move |given, _| {
                setting.change(given)
            }),
            function("pg_sleep", DataType::Utf8, move |given, _| {
                sleep(&sleeping, given)
            }),
            number("txid_current"),
            number("pg_current_xact_id"),
        ]
    }

    /// `current_setting(name [, missing_ok])`.
    fn current(&self, given: &[ArrayRef]) -> Result<ArrayRef> {
        takes("current_setting", 1..=2, given)?;
        let names = texts(given, 0)?;
        let missing_ok = match given.get(1) {
            Some(flags) => cast(flags, &DataType::Boolean)?.as_boolean().clone(),
            None => BooleanArray::from(vec![false; names.len()]),
        };
        let variables = lock(&self.variables);
        let values = names.iter().zip(&missing_ok).map(|(name, missing_ok)| {
            let Some(name) = name else { return Ok(None) };
            match variables.get(name) {
                None if missing_ok != Some(true) => {
                    exec_err!("unrecognized configuration parameter {name:?}")
                }
                value => Ok(value.map(str::to_owned)),
            }
        });
        Ok(Arc::new(values.collect::<Result<StringArray>>()?))
    }

    /// `set_config(name, value, is_local)`: like SET; SET LOCAL is the same here.
    fn change(&self, given: &[ArrayRef]) -> Result<ArrayRef> {
        takes("set_config", 3..=3, given)?;
        let (names, values) = (texts(given, 0)?, texts(given, 1)?);
        let set = names.iter().zip(&values).map(|(name, value)| {
            let Some(name) = name else {
                return exec_err!("set_config needs the name of a variable");
            };
            match self.set(name, value) {
                Ok(now) => Ok(Some(now)),
                Err(refused) => exec_err!("{}", ErrorInfo::from(refused).message),
            }
        });
        Ok(Arc::new(set.collect::<Result<StringArray>>()?))
    }
}

/// `pg_sleep(seconds)`, until the statement is stopped.
fn sleep(client: &Client, given: &[ArrayRef]) -> Result<ArrayRef> {
    takes("pg_sleep", 1..=1, given)?;
    let seconds = cast(&given[0], &DataType::Float64)?;
    let total: f64 = as_float64_array(&seconds)?.iter().flatten().sum();
    let long = Duration::try_from_secs_f64(total.max(0.0)).unwrap_or(Duration::MAX);
    let (begun, statement) = (Instant::now(), client.statement());
    while let Some(left) = long.checked_sub(begun.elapsed()).filter(|l| !l.is_zero()) {
        if statement.as_ref().is_some_and(|running| running.stopped()) {
            return exec_err!("the statement was stopped");
        }
        std::thread::sleep(left.min(LOOK));
    }
    let values = seconds.nulls().cloned();
    let empty = StringArray::from(vec![""; seconds.len()]);
    let (offsets, bytes, _) = empty.into_parts();
    Ok(Arc::new(StringArray::new(offsets, bytes, values)))
}

/// `txid_current()`: a number that grows. A statement is a transaction, and rows do not have the
/// numbers of those that wrote them.
fn next_numbers(given: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    static LAST: AtomicI64 = AtomicI64::new(0);
    takes("txid_current", 0..=0, given)?;
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    Ok(Arc::new(Int64Array::from(vec![number; rows])))
}

fn function(
    name: &'static str,
    gives: DataType,
    give: impl Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync + 'static,
) -> ScalarUDF {
    let counts = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
    // Neither computed when a statement is planned, nor kept with its plan.
    let signature = Signature::one_of(counts, Volatility::Volatile);
    function::of_rows(name, signature, gives, give)
}

fn texts(given: &[ArrayRef], at: usize) -> Result<StringArray> {
    Ok(as_string_array(&cast(&given[at], &DataType::Utf8)?)?.clone())
}

/// An error unless a function has got as many arguments as it takes.
fn takes(name: &str, counts: RangeInclusive<usize>, given: &[ArrayRef]) -> Result<()> {
    if counts.contains(&given.len()) {
        return Ok(());
    }
    let (least, most) = (counts.start(), counts.end());
    let counts = match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    };
    plan_err!("{name} takes {counts} arguments and got {}", given.len())
}
