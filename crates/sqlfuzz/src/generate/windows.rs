//! Window functions.

use super::{Generator, Scope, Typed};
use crate::ast::{Query, Select};
use crate::data::{Kind, Known};

/// Frames of rows. Their result is determined by a total order only.
const ROWS: [&str; 6] = [
    " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 5 PRECEDING AND 3 PRECEDING",
];

/// Frames of equal rows, which any order determines.
const PEERS: [&str; 7] = [
    " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    " GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
];

/// Frames of values, for an order by small integers.
const VALUES: [&str; 4] = [
    " RANGE BETWEEN 2 PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN 1 PRECEDING AND 3 FOLLOWING",
    " RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND 4 PRECEDING",
];

/// Frames of values, for an order by dates.
const DAYS: [&str; 2] = [
    " RANGE BETWEEN INTERVAL '3 days' PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN INTERVAL '1 day' PRECEDING AND INTERVAL '40 days' FOLLOWING",
];

/// A window function before its `OVER`.
struct Function {
    form: String,
    kind: Kind,
    args: Vec<Typed>,
    /// Whether its result is determined by a total order only.
    needs_total: bool,
    /// Whether its result depends on a frame.
    framed: bool,
}

impl Function {
    /// One without arguments and frame, which gives a number.
    fn plain(form: &str, needs_total: bool) -> Self {
        Function {
            form: form.into(),
            kind: Kind::Int,
            args: vec![],
            needs_total,
            framed: false,
        }
    }
}

impl Generator<'_> {
    pub(crate) fn windows(&mut self) -> (Query, Vec<Known>) {
        let (source, scope) = self.source();
        let mut select = Select {
            from: vec![source],
            ..Select::default()
        };
        self.filters(&mut select, &scope, 1);
        let (mut items, mut known) = self.some_items(&scope, 0);
        for _ in 0..self.rng.range(1, 2) {
            let value = self.window(&scope);
            let (item, column) = self.item(value, format!("c{}", known.len()));
            items.push(item);
            known.push(column);
        }
        select.items = items;
        (Query::of(select), known)
    }

    /// A function with its `OVER`.
    fn window(&mut self, scope: &Scope) -> Typed {
        let unique: Scope = scope.iter().filter(|c| c.known.unique).cloned().collect();
        let by = self.group(scope);
        let part = self.group(scope);
        let unordered = matches!(by.kind(), Kind::Null | Kind::Bytes);
        let sorted = if unordered { part.clone() } else { by };
        let down = if self.rng.chance(40) {
            "DESC NULLS LAST"
        } else {
            "ASC NULLS FIRST"
        };
        let function = self.window_function(scope, !unique.is_empty());
        let mut form = format!("{} OVER (", function.form);
        let mut args = function.args;
        if function.framed && !function.needs_total && self.rng.chance(25) {
            // Of whole partitions, without an order.
            if self.rng.chance(80) {
                form.push_str("PARTITION BY {}");
                args.push(part);
            }
            form.push(')');
            return self.made(&form, args, function.kind);
        }
        if self.rng.chance(65) {
            form.push_str("PARTITION BY {} ");
            args.push(part);
        }
        form.push_str(&format!("ORDER BY {{}} {down}"));
        let frame = match function.framed && self.rng.chance(60) {
            true if function.needs_total => Some(*self.rng.pick::<&str>(&ROWS)),
            true => Some(self.frame(&sorted.known, !unique.is_empty())),
            false => None,
        };
        args.push(sorted);
        if function.needs_total || frame.is_some_and(|f| f.contains(" ROWS ")) {
            form.push_str(", {}");
            args.push(self.any_column(&unique));
        }
        form.push_str(frame.unwrap_or_default());
        form.push(')');
        self.made(&form, args, function.kind)
    }

    /// A frame for an order by a column like `sorted`, which is made total if `total` and needed.
    fn frame(&mut self, sorted: &Known, total: bool) -> &'static str {
        let values: &[&str] = match sorted.kind {
            Kind::Int if sorted.tame => &VALUES,
            Kind::Date => &DAYS,
            _ => &PEERS,
        };
        match self.rng.below(4) {
            0 | 1 if total => self.rng.pick::<&str>(&ROWS),
            2 => self.rng.pick::<&str>(values),
            _ => self.rng.pick::<&str>(&PEERS),
        }
    }

    fn window_function(&mut self, scope: &Scope, total: bool) -> Function {
        if total && self.rng.chance(40) {
            return match self.rng.below(4) {
                0 => Function::plain("row_number()", true),
                1 => Function::plain(&format!("ntile({})", self.rng.range(1, 5)), true),
                _ => self.neighbour(scope),
            };
        }
        let numbers: Scope = scope
            .iter()
            .filter(|c| c.known.kind == Kind::Int && c.known.tame)
            .cloned()
            .collect();
        if numbers.is_empty() || self.rng.chance(35) {
            return Function::plain(self.rng.pick::<&str>(&["rank()", "dense_rank()"]), false);
        }
        let column = self.any_column(&numbers);
        let form = self
            .rng
            .pick::<&str>(&["sum({})", "count({})", "min({})", "max({})"]);
        Function {
            form: form.to_string(),
            kind: Kind::Int,
            args: vec![column],
            needs_total: false,
            framed: true,
        }
    }

    /// A value of another row of the partition.
    fn neighbour(&mut self, scope: &Scope) -> Function {
        let column = self.any_column(scope);
        if matches!(column.kind(), Kind::Null) {
            return Function::plain("row_number()", true);
        }
        let kind = column.kind();
        let forms = [
            ("lag({})", false),
            ("lead({})", false),
            ("lag({}, 3)", false),
            ("lead({}, 2, {})", false),
            ("first_value({})", true),
            ("last_value({})", true),
            ("nth_value({}, 2)", true),
        ];
        let (form, framed) = *self.rng.pick(&forms);
        let mut args = vec![column];
        if form.matches("{}").count() > 1 {
            let constant = self.constant(&args[0].known);
            args.push(constant);
        }
        Function {
            form: form.into(),
            kind,
            args,
            needs_total: true,
            framed,
        }
    }
}
