//! The main loop: one case after another, each with new tables and some dozens of statements.

use crate::FuzzError;
use crate::ast::Dialect;
use crate::case::Case;
use crate::coverage::Coverage;
use crate::data::{self, Kind, World};
use crate::engines::{Duck, Host, Options, Spoil};
use crate::judge::{Arena, Fault};
use crate::memory;
use crate::rng::Rng;
use crate::shrink::{Draft, Shrinker};
use crate::step::Step;
use crate::story::Story;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of statements per case.
const STATEMENTS: usize = 40;

/// Time limit for shrinking a failing case.
const SHRINKING: Duration = Duration::from_secs(90);

/// Time limit for shrinking the first case in which only DuckDB differs; it is divided by their
/// number for later ones.
const SHRINKING_FOR_DUCK: Duration = Duration::from_secs(20);

/// Generates and runs cases, and writes down those that fail.
pub struct Fuzzer {
    seed: u64,
    host: Host,
    duck: Option<Duck>,
    folder: PathBuf,
    /// Number of cases so far in which only DuckDB differed.
    by_duck: usize,
    /// The counts of this run.
    pub coverage: Coverage,
    /// The statement of this run that took most memory.
    pub largest: Option<Largest>,
}

/// A statement, with the resident memory of the process while it ran in all engines.
#[derive(Debug, Clone)]
pub struct Largest {
    /// The most resident memory.
    pub peak_mib: u64,
    /// Resident memory when it had ended.
    pub after_mib: u64,
    /// Number of its case.
    pub case: u64,
    /// The settings of its case.
    pub options: Options,
    /// The statement.
    pub sql: String,
}

/// A failure after shrinking, with its case file.
#[derive(Debug, Clone)]
pub struct Found {
    /// Path of the case file.
    pub path: PathBuf,
    /// The failure and the statement.
    pub message: String,
    /// Whether Tierloom and plain DataFusion agree, and only DuckDB differs.
    pub by_duck: bool,
}

impl Fuzzer {
    /// A fuzzer that writes failing cases to `folder`.
    ///
    /// # Errors
    /// If threads cannot be started or the folder cannot be created.
    pub fn new(seed: u64, duck: Option<Duck>, folder: &Path) -> Result<Self, FuzzError> {
        std::fs::create_dir_all(folder).map_err(FuzzError::io(folder.display().to_string()))?;
        Ok(Fuzzer {
            seed,
            host: Host::new()?,
            duck,
            folder: folder.to_owned(),
            by_duck: 0,
            coverage: Coverage::default(),
            largest: None,
        })
    }

    /// Makes Tierloom return wrong results on purpose, which must be found.
    #[must_use]
    pub fn spoiled(mut self, spoil: Spoil) -> Self {
        self.host.spoil = Some(spoil);
        self
    }

    /// Runs case `number` until something fails or `stop` returns true.
    ///
    /// # Errors
    /// If the engines cannot be set up.
    pub fn case(
        &mut self,
        number: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Found>, FuzzError> {
        crate::panics::CASE.store(number, std::sync::atomic::Ordering::Relaxed);
        // Each case has its own seed, so that it can be repeated without the cases before it.
        let mut rng = Rng::new(mixed(self.seed, number));
        let (mut world, tables) = data::world(&mut rng);
        let options = options(&mut rng);
        let mut draft = Draft {
            options,
            tables,
            statements: Vec::new(),
        };
        let failure = {
            let duck = self.duck.as_mut();
            let arena = match Arena::open(&draft.options, &draft.tables, &self.host, duck) {
                Ok(arena) => arena,
                Err(error) if matches!(error, FuzzError::Case(_)) => {
                    self.coverage.event("cases that cannot be loaded");
                    self.coverage.refusal("tables", &error.to_string());
                    return Ok(None);
                }
                Err(error) => {
                    let failure = Fault::of_load(error)?;
                    return self.written(number, draft, failure).map(Some);
                }
            };
            retype(&mut world, &arena);
            let mut story = Story::new(rng, world, arena, &mut self.coverage);
            let mut failure = None;
            while draft.statements.len() < STATEMENTS && failure.is_none() && !stop() {
                let (statement, outcome) = story.next();
                let peak_mib = memory::peak_mib().unwrap_or(0);
                if self.largest.as_ref().is_none_or(|l| l.peak_mib < peak_mib) {
                    self.largest = Some(Largest {
                        peak_mib,
                        after_mib: memory::resident_mib(),
                        case: number,
                        options: draft.options.clone(),
                        sql: statement.sql(Dialect::DataFusion),
                    });
                }
                draft.statements.push(statement);
                failure = outcome.failure;
            }
            failure
        };
        match failure {
            Some(failure) => self.written(number, draft, failure).map(Some),
            None => Ok(None),
        }
    }

    fn written(&mut self, number: u64, draft: Draft, failure: Fault) -> Result<Found, FuzzError> {
        eprintln!(
            "case {number} of seed {}: {}; making it smaller",
            self.seed, failure.message
        );
        let time = match failure.kind {
            crate::judge::FaultKind::Duck => {
                self.by_duck += 1;
                SHRINKING_FOR_DUCK / self.by_duck as u32
            }
            _ => SHRINKING,
        };
        let path = self
            .folder
            .join(format!("seed{}-case{number}.json", self.seed));
        // The unshrunk case is written first, in case shrinking is interrupted.
        case_of(draft.clone(), &failure)?.write(&path)?;
        let duck = self.duck.as_mut();
        let mut shrinker = Shrinker::new(draft, failure, &self.host, duck, time);
        let (draft, failure) = shrinker.run();
        let tried = shrinker.tried;
        let case = case_of(draft, &failure)?;
        case.write(&path)?;
        eprintln!("tried {tried} smaller cases");
        let statement = case.steps.last().map(|s| s.sql.clone()).unwrap_or_default();
        Ok(Found {
            path,
            by_duck: failure.kind == crate::judge::FaultKind::Duck,
            message: format!("{}\n    {statement}", case.about),
        })
    }
}

/// The case file's content for a failing draft.
fn case_of(draft: Draft, failure: &Fault) -> Result<Case, FuzzError> {
    let steps: Vec<Step> = draft.statements.iter().map(Step::of).collect();
    let expected = match (&failure.right, steps.last()) {
        (Some(rows), Some(step)) => Some(Case::rows(rows, step)?),
        _ => None,
    };
    Ok(Case {
        about: format!("{:?}: {}", failure.kind, failure.message),
        plain_wrong: failure.kind == crate::judge::FaultKind::Duck,
        options: draft.options,
        tables: draft.tables,
        steps,
        expected,
    })
}

/// Sets the types that columns have after loading; those from CSV files are inferred.
fn retype(world: &mut World, arena: &Arena<'_>) {
    for table in &mut world.tables {
        let Some(schema) = arena.schema_of(&table.name) else {
            continue;
        };
        for (column, field) in table.columns.iter_mut().zip(schema.fields()) {
            if column.data_type != *field.data_type() {
                column.data_type = field.data_type().clone();
                column.kind = Kind::of(field.data_type());
                column.sample.clear();
            }
        }
    }
}

/// The seed of case `number`.
fn mixed(seed: u64, number: u64) -> u64 {
    let mut x = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

fn options(rng: &mut Rng) -> Options {
    // Random tables are small: with the default limits they would rarely use the operators for
    // large joins and many groups.
    let lowered = rng.chance(65);
    let placements = [
        "dram",
        "cxl",
        "dram:3,cxl:2",
        "dram:1,cxl:1",
        "tier",
        "columns:2",
        "0",
    ];
    Options {
        threads: rng.range(1, 4) as usize,
        batch_rows: *rng.pick(&[1, 7, 64, 512, 2_048, 16_384, 16_384, 16_384]),
        big_join_rows: lowered.then(|| rng.below(4)),
        dense_keys: rng.chance(85),
        big_groups: (lowered || rng.chance(30)).then(|| rng.below(3)),
        join_order_rows: rng.chance(60).then(|| rng.below(100)),
        fused: rng.chance(80),
        routed: rng.chance(60),
        placement: (*rng.pick(&placements)).into(),
        plain_partitions: rng.range(1, 3) as usize,
    }
}
