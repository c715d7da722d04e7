//! The statements of one case, each made with what is known after those before it.

use crate::ast::{Change, Expr, FromItem, Item, Query, Relation, Select, Statement};
use crate::coverage::Coverage;
use crate::data::{Kind, Known, KnownTable, World};
use crate::generate::{Changed, Generator, Shape};
use crate::judge::{Arena, Verdict};
use crate::rng::Rng;
use crate::step::Step;
use std::collections::BTreeSet;

/// The state of a case while its statements are generated and run.
pub(crate) struct Story<'a, 'b> {
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

impl<'a, 'b> Story<'a, 'b> {
    /// A case whose tables are loaded into `arena`.
    pub fn new(rng: Rng, world: World, arena: Arena<'a>, coverage: &'b mut Coverage) -> Self {
        Story {
            rng,
            world,
            arena,
            coverage,
            asked: Vec::new(),
            views: 0,
            stale: false,
            unlike: BTreeSet::new(),
            next: None,
        }
    }

    /// Makes and runs the next statement.
    pub fn next(&mut self) -> (Statement, Verdict) {
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

    /// Whether all that a query or a change reads has the same rows in DuckDB.
    fn same_in_duck(&self, reads: &impl std::fmt::Debug) -> bool {
        let read = format!("{reads:?}");
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
        let had_same = !self.unlike.contains(&table.name);
        let same = duck && had_same && self.same_in_duck(&change);
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
    let from = FromItem::of(Relation::table(&table.name, &table.name));
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
