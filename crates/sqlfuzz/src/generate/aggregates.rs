//! Random aggregates and group keys.

use super::{Generator, Scope, Typed};
use crate::ast::{Expr, Grouping, Item, Query, Select};
use crate::data::{Kind, Known};

const ORDERED: [Kind; 8] = [
    Kind::Int,
    Kind::Float,
    Kind::Decimal,
    Kind::Bool,
    Kind::Text,
    Kind::Date,
    Kind::Stamp,
    Kind::Time,
];

impl Generator<'_> {
    /// An aggregate over columns of `scope`.
    pub(crate) fn aggregate(&mut self, scope: &Scope) -> Typed {
        let mut made = self.plain_aggregate(scope);
        if self.rng.chance(6) {
            let condition = self.condition(scope, 0);
            let known = made.known;
            let form = "{} FILTER (WHERE {})";
            made = Typed {
                expr: Expr::apply(form, vec![made.expr, condition.expr]),
                known,
            };
        }
        made
    }

    fn plain_aggregate(&mut self, scope: &Scope) -> Typed {
        let choice = self.rng.weighted(&[2.0, 1.0, 4.0, 2.0, 2.0, 0.8, 0.3, 0.3]);
        let numbers = [Kind::Int, Kind::Decimal, Kind::Float];
        match choice {
            2 | 4 | 6 if self.column_of(scope, &numbers).is_some() => {
                let argument = self.number(scope, 2);
                let known = &argument.known;
                // Wrapping sums of integers do not depend on the order; other sums are exact only
                // for small values.
                let sums = known.exact && (known.tame || known.kind == Kind::Int);
                match choice {
                    2 if sums => {
                        self.duck &= argument.known.tame;
                        let kind = argument.kind();
                        self.made("sum({})", vec![argument], kind)
                    }
                    4 if sums && argument.known.tame => {
                        let kind = match argument.kind() {
                            Kind::Int => Kind::Float,
                            other => other,
                        };
                        let mut made = self.made("avg({})", vec![argument], kind);
                        made.known.tame = false;
                        made
                    }
                    6 if sums && argument.known.tame && argument.kind() == Kind::Int => {
                        let mut made = self.made("stddev({})", vec![argument], Kind::Float);
                        made.known.tame = false;
                        made.known.exact = false;
                        made
                    }
                    _ => self.made("count({})", vec![argument], Kind::Int),
                }
            }
            1 => {
                let argument = self.value(scope, 1);
                self.made("count({})", vec![argument], Kind::Int).tamed()
            }
            3 | 4 => {
                let Some(column) = self.column_of(scope, &ORDERED) else {
                    return self.made("count(*)", Vec::new(), Kind::Int);
                };
                let argument = match (column.kind(), self.rng.chance(40)) {
                    (Kind::Int | Kind::Decimal | Kind::Float, true) => self.number(scope, 2),
                    _ => column,
                };
                let kind = argument.kind();
                let form = if self.rng.chance(50) {
                    "min({})"
                } else {
                    "max({})"
                };
                self.made(form, vec![argument], kind)
            }
            5 => {
                let argument = self.any_column(scope);
                self.made("count(DISTINCT {})", vec![argument], Kind::Int)
                    .tamed()
            }
            7 if self.column_of(scope, &[Kind::Text]).is_some() => {
                let column = self.column_of(scope, &[Kind::Text]);
                let column = column.unwrap_or_else(|| self.any_column(scope));
                let form = "string_agg(DISTINCT {}, ',' ORDER BY {})";
                self.made(form, vec![column.clone(), column], Kind::Text)
            }
            _ => self.made("count(*)", Vec::new(), Kind::Int),
        }
    }

    /// An expression to group by.
    pub(crate) fn group(&mut self, scope: &Scope) -> Typed {
        let exact: Scope = scope.iter().filter(|c| c.known.exact).cloned().collect();
        if exact.is_empty() {
            return self.any_column(scope);
        }
        match self.rng.weighted(&[0.62, 0.18, 0.13, 0.07]) {
            0 => self.any_column(&exact),
            1 => self.value(&exact, 1),
            2 => self.branch(&exact),
            _ => self.rounded(&exact),
        }
    }

    /// A whole number near a float.
    fn rounded(&mut self, scope: &Scope) -> Typed {
        let Some(column) = self.column_of(scope, &[Kind::Float]) else {
            return self.any_column(scope);
        };
        let form = self.rng.pick::<&str>(&[
            "floor({} / 3)",
            "ceil({})",
            "floor({} / 8) * 8",
            "round({} - 0.5)",
        ]);
        self.made(form, vec![column], Kind::Float)
    }

    /// Which of some conditions holds, as a word.
    fn branch(&mut self, scope: &Scope) -> Typed {
        let conditions = [self.condition(scope, 0), self.condition(scope, 0)];
        let form = self.rng.pick::<&str>(&[
            "CASE WHEN {} THEN 'one' WHEN {} THEN 'two' ELSE 'other' END",
            "CASE WHEN {} THEN 'one' WHEN {} THEN 'two' END",
            "CASE WHEN {} THEN 'same' WHEN {} THEN NULL ELSE 'same' END",
        ]);
        self.made(form, conditions.into(), Kind::Text)
    }

    /// Adds groups and aggregates to `select`; returns the properties of its columns.
    pub(crate) fn aggregated(
        &mut self,
        select: &mut Select,
        groups: Vec<Typed>,
        scope: &Scope,
    ) -> Vec<Known> {
        let mut known = Vec::new();
        select.groups = groups.iter().map(|g| g.expr.clone()).collect();
        select.grouping = self.grouping(&groups);
        let alone = groups.len() == 1 && select.grouping == Grouping::All;
        for group in groups {
            if self.rng.chance(6) {
                continue;
            }
            let name = format!("c{}", known.len());
            let (item, mut column) = self.item(group, name);
            // A single group key is unique in the result, one of several keys is not.
            column.unique = alone;
            select.items.push(item);
            known.push(column);
        }
        let least = i64::from(select.items.is_empty());
        for _ in 0..self.rng.range(least, 3) {
            let aggregate = self.aggregate(scope);
            let name = format!("c{}", known.len());
            let (item, column) = self.item(aggregate, name);
            select.items.push(item);
            known.push(column);
        }
        if self.rng.chance(15) {
            let aggregate = self.aggregate(scope);
            if aggregate.known.exact {
                let test = self.compared(aggregate);
                select.having.push(test.expr);
            }
        }
        known
    }

    /// How to group by `groups`: by all of them, or seldom by several subsets of them.
    fn grouping(&mut self, groups: &[Typed]) -> Grouping {
        // An expression that occurs twice would be in a subset and not be in it.
        let twice =
            (1..groups.len()).any(|at| groups[..at].iter().any(|g| g.expr == groups[at].expr));
        if groups.is_empty() || twice || !self.rng.chance(8) {
            return Grouping::All;
        }
        match self.rng.below(3) {
            0 => Grouping::Rollup,
            1 => Grouping::Cube,
            _ => {
                let subset = |rng: &mut crate::rng::Rng| {
                    (0..groups.len()).filter(|_| rng.chance(50)).collect()
                };
                let mut sets: Vec<Vec<usize>> = (0..self.rng.range(1, 3))
                    .map(|_| subset(self.rng))
                    .collect();
                // Each expression is in a set, or it could not be shown.
                sets.push((0..groups.len()).collect());
                Grouping::Sets(sets)
            }
        }
    }

    /// A comparison of `one` with a constant.
    pub(crate) fn compared(&mut self, one: Typed) -> Typed {
        if matches!(one.kind(), Kind::Null | Kind::Bytes) {
            return self.made("({} IS NOT NULL)", vec![one], Kind::Bool);
        }
        let constant = self.constant(&one.known);
        let form = *self
            .rng
            .pick(&["({} > {})", "({} <= {})", "({} <> {})", "({} = {})"]);
        self.made(form, vec![one, constant], Kind::Bool)
    }

    /// A group-by on one relation.
    pub(crate) fn grouped(&mut self) -> (Query, Vec<Known>) {
        let (source, scope) = self.source();
        let mut select = Select {
            from: vec![source],
            ..Select::default()
        };
        self.filters(&mut select, &scope, 1);
        let count = self.rng.weighted(&[0.1, 0.5, 0.3, 0.1]);
        let mut groups = Vec::new();
        for _ in 0..count {
            // Tierloom's operator for many groups supports integers, dates and timestamps.
            let integers = [Kind::Int, Kind::Date, Kind::Stamp];
            let column = match self.rng.chance(50) {
                true => self.column_of(&scope, &integers),
                false => None,
            };
            groups.push(match column {
                Some(column) if column.known.exact => column,
                _ => self.group(&scope),
            });
        }
        let known = self.aggregated(&mut select, groups, &scope);
        (Query::of(select), known)
    }

    /// Result columns: some columns in scope, or expressions of them.
    pub(crate) fn some_items(&mut self, scope: &Scope, depth: usize) -> (Vec<Item>, Vec<Known>) {
        (0..self.rng.range(1, 4))
            .map(|index| {
                let value = self.value(scope, depth);
                self.item(value, format!("c{index}"))
            })
            .unzip()
    }
}

impl Typed {
    /// The properties of a count: small and exact, whatever is counted.
    fn tamed(mut self) -> Typed {
        self.known.tame = true;
        self.known.exact = true;
        self
    }
}
