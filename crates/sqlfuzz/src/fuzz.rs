//! The main loop: one case after another, each with new tables and some dozens of statements.

use crate::FuzzError;
use crate::ast::{Change, Dialect, Expr, FromItem, Item, Query, Relation, Select, Statement};
use crate::case::Case;
use crate::coverage::Coverage;
use crate::data::{self, Kind, Known, KnownTable, World};
use crate::engines::{Duck, Host, Options, Spoil};
use crate::generate::{Changed, Generator, Shape};
use crate::judge::{Arena, Fault, Verdict};
use crate::memory;
use crate::rng::Rng;
use crate::shrink::{Draft, Shrinker};
use crate::step::Step;
use std::collections::BTreeSet;
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
            let mut story = Story {
                rng,
                world,
                arena,
                coverage: &mut self.coverage,
                asked: Vec::new(),
                views: 0,
                stale: false,
                unlike: BTreeSet::new(),
                next: None,
            };
            let mut failure = None;
            while draft.statements.len() < STATEMENTS && failure.is_none() && !stop() {
                let (statement, outcome) = story.next();
                let peak_mib = memory::peak_mib().unwrap_or(0);
                if self.largest.as_ref().is_none_or(|l| l.peak_mib < peak_mib) {
                    self.largest = Some(Largest {
                        peak_mib,
                        after_mib: memory::resident_mib(),
                        case: number,
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

/// The state of a case while its statements are generated and run.
struct Story<'a, 'b> {
    rng: Rng,
    world: World,
    arena: Arena<'a>,
    coverage: &'b mut Coverage,
    /// Queries to repeat later.
    asked: Vec<Statement>,
    views: usize,
    /// Whether a table was replaced or dropped that a view may read.
    stale: bool,
    /// Tables and views that may have other rows in DuckDB.
    unlike: BTreeSet<String>,
    /// The statement that must come next.
    next: Option<Statement>,
}

impl Story<'_, '_> {
    fn next(&mut self) -> (Statement, Verdict) {
        if let Some(statement) = self.next.take() {
            let outcome = self.run(&statement);
            return (statement, outcome);
        }
        match self
            .rng
            .weighted(&[0.78, 0.05, 0.025, 0.015, 0.03, 0.05, 0.05])
        {
            1 => self.create_table(),
            2 => self.create_view(),
            3 => self.drop_one(),
            4 => self.set(),
            5 if !self.asked.is_empty() => {
                let again = self.rng.pick(&self.asked).clone();
                self.coverage.event("queries asked again");
                let again = self.without_duck_over_views(again);
                let outcome = self.run(&again);
                (again, outcome)
            }
            6 => self.change(),
            _ => self.query(),
        }
    }

    fn query(&mut self) -> (Statement, Verdict) {
        let shape = Shape::ALL[self.rng.weighted(&self.coverage.weights())];
        let (statement, _) = Generator::new(&mut self.rng, &self.world).query(shape);
        let statement = self.without_duck_over_views(statement);
        // Half of the queries are planned before they run, so that the run finds the plan in the
        // cache.
        if self.rng.chance(50) {
            let seen = self.arena.seen(&Step::of(&statement).sql);
            self.coverage.plan(shape, seen);
        }
        let outcome = self.run(&statement);
        if self.asked.len() < 12 {
            self.asked.push(statement.clone());
        }
        (statement, outcome)
    }

    /// Excludes DuckDB from queries that it may answer differently: it refuses views whose column
    /// types changed.
    fn without_duck_over_views(&self, statement: Statement) -> Statement {
        match statement {
            Statement::Query { query, duck } => {
                let duck = duck && self.same_in_duck(&query);
                Statement::Query { query, duck }
            }
            other => other,
        }
    }

    /// Whether all that `query` reads has the same rows in DuckDB.
    fn same_in_duck(&self, query: &Query) -> bool {
        let read = format!("{query:?}");
        let over_view = self.stale && read.contains("\"v");
        let unlike = |name: &String| read.contains(&format!("Table({name:?})"));
        !over_view && !self.unlike.iter().any(unlike)
    }

    /// Records whether the table or view `name` now has the same rows in DuckDB.
    fn note_unlike(&mut self, name: &str, same: bool) {
        if same {
            self.unlike.remove(name);
        } else {
            self.unlike.insert(name.to_owned());
        }
    }

    fn run(&mut self, statement: &Statement) -> Verdict {
        let outcome = self.arena.step(&Step::of(statement));
        let what = match statement {
            Statement::Query { .. } => "queries",
            Statement::CreateTable { .. } => "tables made of queries",
            Statement::CreateView { .. } => "views",
            Statement::Drop { .. } => "tables and views dropped",
            Statement::Change { change, .. } => match change {
                Change::Insert { .. } => "rows inserted",
                Change::Delete { .. } => "rows deleted",
                Change::Update { .. } => "rows updated",
            },
            Statement::Own(_) => "settings",
        };
        self.forget_lost_views();
        self.coverage.event(what);
        if let Some(message) = &outcome.refused {
            self.coverage.event("refused by both");
            self.coverage.refusal("both", message);
        }
        if let Some(message) = &outcome.duck_refused {
            self.coverage.event("refused by DuckDB alone");
            self.coverage.refusal("DuckDB", message);
        }
        if outcome.duck_agreed {
            self.coverage.event("DuckDB agrees");
        }
        if let Some(message) = &outcome.plain_alone {
            self.coverage.event("plain DataFusion alone is wrong");
            self.coverage.refusal("plain DataFusion alone", message);
        }
        outcome
    }

    /// Removes views that cannot be read any more, and the queries that read them.
    fn forget_lost_views(&mut self) {
        for name in self.arena.lost_views() {
            self.world.tables.retain(|t| t.name != name);
            let named = format!("{name:?}");
            self.asked
                .retain(|asked| !format!("{asked:?}").contains(&named));
        }
    }

    fn create_table(&mut self) -> (Statement, Verdict) {
        let replaced = self.rng.chance(50);
        let tables: Vec<KnownTable> = self
            .world
            .tables
            .iter()
            .filter(|t| !t.name.starts_with('v'))
            .cloned()
            .collect();
        let (name, query, known, rows, duck) = if replaced && !tables.is_empty() {
            let table = self.rng.pick(&tables).clone();
            let mut generator = Generator::new(&mut self.rng, &self.world);
            let (query, known) = generator.replacement(&table);
            let duck = generator.duck;
            (table.name.clone(), query, known, table.rows, duck)
        } else {
            let shape = *self.rng.pick(&Shape::ALL);
            let (made, known) = Generator::new(&mut self.rng, &self.world).query(shape);
            let Statement::Query { query, duck } = made else {
                return self.query();
            };
            let name = format!("made{}", self.rng.below(3));
            (name, query, known, 200, duck)
        };
        let same = duck && self.same_in_duck(&query);
        let statement = Statement::CreateTable {
            name: name.clone(),
            query,
        };
        let outcome = self.run(&statement);
        if outcome.failure.is_none() && outcome.refused.is_none() {
            self.stale |= self.views > 0;
            self.note_unlike(&name, same);
            self.know(name, known, rows);
        }
        (statement, outcome)
    }

    fn create_view(&mut self) -> (Statement, Verdict) {
        let shape = *self.rng.pick(&Shape::ALL);
        let (made, known) = Generator::new(&mut self.rng, &self.world).query(shape);
        let Statement::Query { query, duck } = made else {
            return self.query();
        };
        let same = duck && self.same_in_duck(&query);
        let name = format!("v{}", self.rng.below(2));
        // A view reads only views with smaller names, so that none reads itself.
        let read = format!("{query:?}");
        if read.contains("\"v1\"") || (name == "v0" && read.contains("\"v0\"")) {
            return self.query();
        }
        let statement = Statement::CreateView {
            name: name.clone(),
            query,
        };
        let outcome = self.run(&statement);
        if outcome.failure.is_none() && outcome.refused.is_none() {
            self.views += 1;
            self.stale |= self.views > 1;
            self.note_unlike(&name, same);
            self.know(name, known, 200);
            self.forget_lost_views();
        }
        (statement, outcome)
    }

    /// Changes the rows of a table; the next statement reads all of them.
    fn change(&mut self) -> (Statement, Verdict) {
        let is_table = |t: &&KnownTable| !t.name.starts_with('v');
        let tables: Vec<&KnownTable> = self.world.tables.iter().filter(is_table).collect();
        if tables.is_empty() {
            return self.query();
        }
        let table = (*self.rng.pick(&tables)).clone();
        let mut generator = Generator::new(&mut self.rng, &self.world);
        let changed = generator.change(&table);
        let duck = generator.duck;
        let Changed {
            change,
            rows,
            columns,
        } = changed;
        let same = duck && self.same_after(&table.name, &change);
        let name = table.name.clone();
        let statement = Statement::Change {
            name: name.clone(),
            change,
            duck: same,
        };
        let outcome = self.run(&statement);
        if outcome.failure.is_none() {
            if outcome.refused.is_none() {
                if !same {
                    self.note_unlike(&name, false);
                    self.stale |= self.views > 0;
                }
                let less = |(old, new): (&Known, &Known)| {
                    (old.tame && !new.tame) || (old.exact && !new.exact)
                };
                if table.columns.iter().zip(&columns).any(less) {
                    self.forget_exactness(&name);
                }
                self.know(name.clone(), columns, rows);
            }
            let all = self.world.table(&name).map(all_rows);
            self.next = all.map(|all| self.without_duck_over_views(all));
        }
        (statement, outcome)
    }

    /// Whether a table has the same rows in DuckDB after a change if it had them before.
    fn same_after(&self, name: &str, change: &Change) -> bool {
        let read = format!("{change:?}");
        let over_view = self.stale && read.contains("\"v");
        let unlike = |other: &String| other == name || read.contains(&format!("Table({other:?})"));
        !over_view && !self.unlike.iter().any(unlike)
    }

    /// Takes back what relied on sums of a column of `name` being exact.
    fn forget_exactness(&mut self, name: &str) {
        let named = format!("Table({name:?})");
        self.asked.retain(|asked| {
            let read = format!("{asked:?}");
            !read.contains(&named) && !read.contains("Table(\"v")
        });
        let views = self.world.tables.iter_mut();
        for view in views.filter(|t| t.name.starts_with('v')) {
            for column in &mut view.columns {
                (column.tame, column.exact) = (false, false);
            }
        }
    }

    fn drop_one(&mut self) -> (Statement, Verdict) {
        let own = |t: &&KnownTable| t.name.starts_with("made") || t.name.starts_with('v');
        let names: Vec<String> = self
            .world
            .tables
            .iter()
            .filter(own)
            .map(|t| t.name.clone())
            .collect();
        if names.is_empty() {
            return self.query();
        }
        let name = self.rng.pick(&names).clone();
        let view = name.starts_with('v');
        let statement = Statement::Drop {
            name: name.clone(),
            view,
        };
        let outcome = self.run(&statement);
        self.stale = true;
        self.world.tables.retain(|t| t.name != name);
        (statement, outcome)
    }

    fn set(&mut self) -> (Statement, Verdict) {
        let column = self.world.tables.iter().find(|t| t.name == "f");
        let column = column.map_or("id".into(), |t| self.rng.pick(&t.columns).name.clone());
        let settings = [
            "placement = 'cxl'".to_owned(),
            "placement = 'dram:1,cxl:2'".into(),
            "placement = 'tier'".into(),
            "placement = 'columns:1'".into(),
            "placement.f = '0'".into(),
            format!("placement.f.{column} = 'cxl'"),
            "threads = 1".into(),
            "threads = 3".into(),
            "batch_rows = 100".into(),
            "batch_rows = 16384".into(),
            "routing = on".into(),
            "memory.join = 'cxl'".into(),
            "memory.aggregation = 'cxl:1MiB,dram'".into(),
            "memory.sort = 'dram'".into(),
            "memory.temp = 'cxl'".into(),
            "memory.temp = 'dram'".into(),
        ];
        let setting = self.rng.pick(&settings).clone();
        let statement = Statement::Own(format!("SET tierloom.{setting}"));
        let mut outcome = self.run(&statement);
        // Some settings are refused in some states, for example if routing is off.
        if let Some(failure) = outcome
            .failure
            .take_if(|f| f.message.starts_with("Tierloom: "))
        {
            self.coverage.event("settings refused");
            self.coverage.refusal("Tierloom", &failure.message);
        }
        (statement, outcome)
    }

    /// Adds a table or view with its actual types to the schema.
    fn know(&mut self, name: String, mut known: Vec<Known>, rows: usize) {
        let Some(schema) = self.arena.schema_of(&name) else {
            return;
        };
        for (column, field) in known.iter_mut().zip(schema.fields()) {
            column.data_type = field.data_type().clone();
            column.kind = Kind::of(field.data_type());
            column.name.clone_from(field.name());
        }
        self.forget_keys(&name, &known);
        self.world.tables.retain(|t| t.name != name);
        self.world.tables.push(KnownTable {
            name,
            rows,
            columns: known,
        });
    }

    /// Takes back what relied on keys that `name` no longer has with its new columns: orders of
    /// windows by such a key are not total any more.
    fn forget_keys(&mut self, name: &str, columns: &[Known]) {
        let Some(old) = self.world.table(name) else {
            return;
        };
        let still = |key: &Known| columns.iter().any(|c| c.name == key.name && c.unique);
        if old.columns.iter().filter(|c| c.unique).all(still) {
            return;
        }
        let views = self.world.tables.iter_mut();
        for view in views.filter(|t| t.name.starts_with('v')) {
            view.columns.iter_mut().for_each(|c| c.unique = false);
        }
        self.asked
            .retain(|asked| !format!("{asked:?}").contains(" OVER ("));
    }
}

/// A query for all rows of `table`.
fn all_rows(table: &KnownTable) -> Statement {
    let item = |(number, column): (usize, &Known)| Item {
        expr: Expr::column(&table.name, &column.name),
        name: format!("c{number}"),
        inexact: !column.exact,
    };
    let from = FromItem {
        relation: Relation::table(&table.name, &table.name),
        joins: Vec::new(),
    };
    let select = Select {
        items: table.columns.iter().enumerate().map(item).collect(),
        from: vec![from],
        ..Select::default()
    };
    Statement::Query {
        query: Query::of(select),
        duck: true,
    }
}
