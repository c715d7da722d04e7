//! Random scalar expressions without subqueries.

use super::literal::{literal, quoted};
use super::{Generator, Scope, Typed};
use crate::ast::Expr;
use crate::data::{Kind, Known};
use crate::value::Value;
use arrow::datatypes::DataType;

/// A type for expressions of a kind that have no column's type.
fn type_of(kind: Kind) -> DataType {
    match kind {
        Kind::Float => DataType::Float64,
        Kind::Decimal => DataType::Decimal128(38, 10),
        Kind::Bool => DataType::Boolean,
        Kind::Text => DataType::Utf8,
        Kind::Date => DataType::Date32,
        Kind::Bytes => DataType::Binary,
        Kind::Null => DataType::Null,
        _ => DataType::Int64,
    }
}

impl Generator<'_> {
    /// Any column in scope.
    pub(crate) fn any_column(&mut self, scope: &Scope) -> Typed {
        let found = self.rng.pick(scope);
        Typed::column(&found.relation, &found.known)
    }

    /// A column of one of `kinds`, if there is one.
    pub(crate) fn column_of(&mut self, scope: &Scope, kinds: &[Kind]) -> Option<Typed> {
        let fitting: Vec<_> = scope
            .iter()
            .filter(|c| kinds.contains(&c.known.kind))
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let found = *self.rng.pick(&fitting);
        Some(Typed::column(&found.relation, &found.known))
    }

    /// An expression of `parts`: it is tame and exact if all of them are.
    pub(crate) fn made(&mut self, form: &str, parts: Vec<Typed>, kind: Kind) -> Typed {
        let all = |f: fn(&Known) -> bool| parts.iter().all(|p| f(&p.known));
        let known = Known {
            name: String::new(),
            data_type: type_of(kind),
            kind,
            tame: all(|k| k.tame),
            exact: all(|k| k.exact),
            unique: false,
            sample: Vec::new(),
        };
        let sample = match parts.first() {
            Some(first) if first.kind() == kind => {
                (first.known.data_type.clone(), first.known.sample.clone())
            }
            _ => (type_of(kind), Vec::new()),
        };
        let known = Known {
            data_type: sample.0,
            sample: sample.1,
            ..known
        };
        let args = parts.into_iter().map(|p| p.expr).collect();
        Typed {
            expr: Expr::apply(form, args),
            known,
        }
    }

    fn written(&mut self, text: String, kind: Kind) -> Typed {
        let mut made = self.made("", Vec::new(), kind);
        made.expr = Expr::Text(text);
        made
    }

    /// A constant of the type of `like`, often one of its values.
    pub(crate) fn constant(&mut self, like: &Known) -> Typed {
        let data_type = like.data_type.clone();
        let written = match like.sample.is_empty() {
            true => None,
            false => literal(self.rng.pick(&like.sample), &data_type),
        };
        let number = self.rng.range(-2, 12);
        let text = written.unwrap_or_else(|| match like.kind {
            Kind::Int => literal(&Value::Int(number.into()), &DataType::Int64).unwrap_or_default(),
            Kind::Float => format!("CAST({number}.25 AS DOUBLE)"),
            Kind::Decimal => format!("CAST('{number}.5' AS DECIMAL(12, 1))"),
            Kind::Bool => "true".into(),
            Kind::Text => quoted("b"),
            Kind::Date => "DATE '1992-01-03'".into(),
            Kind::Stamp => "TIMESTAMP '1970-01-05 00:00:01'".into(),
            Kind::Time => "TIME '02:00:00'".into(),
            Kind::Bytes | Kind::Null => "NULL".into(),
        });
        let mut made = self.written(text, like.kind);
        made.known.tame = like.tame;
        made
    }

    /// An expression of columns in scope, nested at most `depth` deep.
    pub(crate) fn value(&mut self, scope: &Scope, depth: usize) -> Typed {
        let column = self.any_column(scope);
        if depth == 0 || self.rng.chance(55) {
            return column;
        }
        match column.kind() {
            Kind::Int | Kind::Float | Kind::Decimal => self.number(scope, depth),
            Kind::Text => self.text(column, scope),
            Kind::Date | Kind::Stamp => self.moment(column),
            Kind::Bool if self.rng.chance(50) => self.condition(scope, depth - 1),
            _ => self.choice(column, scope, depth),
        }
    }

    /// A numeric expression of columns in scope, or a constant if there are no numeric columns.
    pub(crate) fn number(&mut self, scope: &Scope, depth: usize) -> Typed {
        let kinds = [Kind::Int, Kind::Decimal, Kind::Float];
        let Some(one) = self.column_of(scope, &kinds) else {
            return self.written("3".into(), Kind::Int);
        };
        if depth == 0 || self.rng.chance(30) {
            return one;
        }
        let kind = one.kind();
        match self.rng.below(10) {
            0..=4 => {
                let other = match self.rng.chance(45) {
                    true => self.constant(&one.known),
                    false => {
                        let other = self.column_of(scope, &[kind]);
                        other.unwrap_or_else(|| one.clone())
                    }
                };
                let form = *self.rng.pick(&["({} + {})", "({} - {})", "({} * {})"]);
                let made = self.made(form, vec![one, other], kind);
                self.note_arithmetic(&made);
                made
            }
            5 if kind == Kind::Float => {
                let other = self
                    .column_of(scope, &[kind])
                    .unwrap_or_else(|| one.clone());
                let form = "({} / nullif(CAST({} AS DOUBLE), CAST(0 AS DOUBLE)))";
                let mut made = self.made(form, vec![one, other], kind);
                made.known.tame = false;
                made
            }
            5 if kind == Kind::Int => {
                let form = *self
                    .rng
                    .pick(&["({} % 7)", "({} % (-3))", "abs({})", "(- {})"]);
                let made = self.made(form, vec![one], kind);
                self.note_arithmetic(&made);
                made
            }
            6 => {
                let to = if self.rng.chance(50) {
                    ("BIGINT", Kind::Int)
                } else {
                    ("DOUBLE", Kind::Float)
                };
                if kind != Kind::Int || !one.known.tame {
                    return one;
                }
                self.made(&format!("CAST({{}} AS {})", to.0), vec![one], to.1)
            }
            7 => {
                let Some(day) = self.column_of(scope, &[Kind::Date]) else {
                    return one;
                };
                let form = *self
                    .rng
                    .pick(&["EXTRACT(YEAR FROM {})", "EXTRACT(MONTH FROM {})"]);
                self.made(form, vec![day], Kind::Int)
            }
            8 => {
                let Some(text) = self.column_of(scope, &[Kind::Text]) else {
                    return one;
                };
                self.made("character_length({})", vec![text], Kind::Int)
            }
            _ => self.choice(one, scope, depth),
        }
    }

    /// Overflow is an error in DuckDB but not in DataFusion, so DuckDB is only asked if there can
    /// be none.
    fn note_arithmetic(&mut self, made: &Typed) {
        self.duck &= made.known.tame;
    }

    fn text(&mut self, one: Typed, scope: &Scope) -> Typed {
        match self.rng.below(6) {
            0 => self.made("upper({})", vec![one], Kind::Text),
            1 => self.made("substr({}, 1, 2)", vec![one], Kind::Text),
            2 => {
                let other = self
                    .column_of(scope, &[Kind::Text])
                    .unwrap_or_else(|| one.clone());
                self.made("({} || {})", vec![one, other], Kind::Text)
            }
            3 => self.made("lower({})", vec![one], Kind::Text),
            _ => self.choice(one, scope, 1),
        }
    }

    fn moment(&mut self, one: Typed) -> Typed {
        match (one.kind(), self.rng.below(3)) {
            (Kind::Stamp, 0) => {
                let form = *self.rng.pick(&[
                    "date_trunc('month', {})",
                    "date_trunc('week', {})",
                    "date_trunc('hour', {})",
                ]);
                let mut made = self.made(form, vec![one], Kind::Stamp);
                made.known.sample.clear();
                made
            }
            (Kind::Stamp, 1) => {
                let form = *self.rng.pick(&[
                    "CAST(EXTRACT(YEAR FROM {}) AS BIGINT)",
                    "CAST(EXTRACT(DOW FROM {}) AS BIGINT)",
                    "CAST(EXTRACT(HOUR FROM {}) AS BIGINT)",
                    "CAST(EXTRACT(MINUTE FROM {}) AS BIGINT)",
                ]);
                self.made(form, vec![one], Kind::Int)
            }
            (Kind::Date, 0) => self.made("EXTRACT(YEAR FROM {})", vec![one], Kind::Int),
            _ => one,
        }
    }

    /// An expression that selects one of two values.
    fn choice(&mut self, one: Typed, scope: &Scope, depth: usize) -> Typed {
        let kind = one.kind();
        if matches!(kind, Kind::Null | Kind::Bytes) {
            return one;
        }
        let other = self.constant(&one.known);
        match self.rng.below(3) {
            0 => self.made("coalesce({}, {})", vec![one, other], kind),
            1 => self.made("nullif({}, {})", vec![one, other], kind),
            _ => {
                let condition = self.condition(scope, depth.saturating_sub(1));
                let form = match self.rng.chance(70) {
                    true => "CASE WHEN {} THEN {} ELSE {} END",
                    false => "CASE WHEN {} THEN {} WHEN {} IS NULL THEN NULL END",
                };
                let mut made = self.made(form, vec![condition, one.clone(), other], kind);
                made.known.data_type = one.known.data_type;
                made.known.sample = one.known.sample;
                made
            }
        }
    }

    /// A condition on columns in scope.
    pub(crate) fn condition(&mut self, scope: &Scope, depth: usize) -> Typed {
        if depth > 0 && self.rng.chance(30) {
            let left = self.condition(scope, depth - 1);
            return match self.rng.below(3) {
                0 => self.made("(NOT {})", vec![left], Kind::Bool),
                1 => {
                    let right = self.condition(scope, depth - 1);
                    self.made("({} OR {})", vec![left, right], Kind::Bool)
                }
                _ => {
                    let right = self.condition(scope, depth - 1);
                    self.made("({} AND {})", vec![left, right], Kind::Bool)
                }
            };
        }
        let one = match self.rng.chance(25) {
            true => self.value(scope, depth.min(1)),
            false => self.any_column(scope),
        };
        self.test(one, scope)
    }

    /// A predicate on one value.
    fn test(&mut self, one: Typed, scope: &Scope) -> Typed {
        let kind = one.kind();
        if matches!(kind, Kind::Null | Kind::Bytes) || self.rng.chance(8) {
            let form = *self.rng.pick(&["({} IS NULL)", "({} IS NOT NULL)"]);
            return self.made(form, vec![one], Kind::Bool);
        }
        if kind == Kind::Bool && self.rng.chance(60) {
            return one;
        }
        match self.rng.below(10) {
            0 | 1 => {
                let (low, high) = (self.constant(&one.known), self.constant(&one.known));
                let form = *self
                    .rng
                    .pick(&["({} BETWEEN {} AND {})", "({} NOT BETWEEN {} AND {})"]);
                self.made(form, vec![one, low, high], Kind::Bool)
            }
            2 => {
                let mut parts = vec![one.clone()];
                parts.extend((0..3).map(|_| self.constant(&one.known)));
                let form = *self.rng.pick(&[
                    "({} IN ({}, {}, {}))",
                    "({} NOT IN ({}, {}, {}))",
                    "({} IN ({}, NULL, {}, {}))",
                ]);
                self.made(form, parts, Kind::Bool)
            }
            3 if kind == Kind::Text => {
                let form = *self.rng.pick(&[
                    "({} LIKE 'a%')",
                    "({} NOT LIKE '%i_')",
                    "({} LIKE '%')",
                    "({} LIKE 'long%vie_')",
                    "({} LIKE '%i%')",
                    "({} NOT LIKE '%o%e%')",
                    "({} LIKE 'l%n%')",
                ]);
                self.made(form, vec![one], Kind::Bool)
            }
            4 => {
                let other = self
                    .column_of(scope, &[kind])
                    .unwrap_or_else(|| one.clone());
                let form = *self.rng.pick(&[
                    "({} <> {})",
                    "({} <= {})",
                    "({} IS DISTINCT FROM {})",
                    "({} IS NOT DISTINCT FROM {})",
                ]);
                self.made(form, vec![one, other], Kind::Bool)
            }
            _ => {
                let other = self.constant(&one.known);
                let form = *self.rng.pick(&[
                    "({} = {})",
                    "({} <> {})",
                    "({} < {})",
                    "({} <= {})",
                    "({} > {})",
                    "({} >= {})",
                ]);
                self.made(form, vec![one, other], Kind::Bool)
            }
        }
    }
}
