//! Joins, set operations and plain selections.

use super::{Generator, Scope, Shape, Typed, scope};
use crate::ast::{Body, FromItem, Join, Query, Select};
use crate::data::{Kind, Known};

/// Approximate limit for the rows of a join, so that a case stays fast.
const MOST_ROWS: usize = 40_000;

impl Generator<'_> {
    /// A query of the given shape.
    pub(crate) fn shaped(&mut self, shape: Shape) -> (Query, Vec<Known>) {
        let (query, known) = match shape {
            Shape::Star => self.star(),
            Shape::StarInside => self.star_inside(),
            Shape::Join => self.joined(),
            Shape::Group => self.grouped(),
            Shape::Filter => self.filtered(),
            Shape::Set => self.set_operation(),
            Shape::Window => self.windows(),
            Shape::Subquery => self.with_subquery(),
        };
        if self.rng.chance(6) {
            self.named(query, known)
        } else {
            (query, known)
        }
    }

    fn filtered(&mut self) -> (Query, Vec<Known>) {
        let (source, scope) = self.source();
        let mut select = Select {
            from: vec![source],
            ..Select::default()
        };
        let condition = self.condition(&scope, 1);
        select.filters.push(condition.expr);
        self.filters(&mut select, &scope, 2);
        let (items, known) = self.some_items(&scope, 2);
        select.items = items;
        select.distinct = self.rng.chance(15);
        if select.distinct && known.iter().any(|k| !k.exact) {
            select.distinct = false;
        }
        (Query::of(select), known)
    }

    /// An equality between columns of two scopes, preferably between keys.
    pub(crate) fn equality(&mut self, left: &Scope, right: &Scope) -> Option<Typed> {
        let mut pairs = Vec::new();
        for a in left {
            for b in right {
                let keys = |n: &str| n == "k" || n == "id" || n.ends_with("_k");
                let types = a.known.data_type == b.known.data_type;
                let weight = match (a.known.kind == b.known.kind, types) {
                    _ if matches!(a.known.kind, Kind::Null | Kind::Bytes | Kind::Bool) => continue,
                    (true, true) if keys(&a.known.name) && keys(&b.known.name) => 8.0,
                    (true, true) => 2.0,
                    (true, false) => 1.0,
                    _ => continue,
                };
                if a.known.exact && b.known.exact {
                    pairs.push((a, b, weight));
                }
            }
        }
        if pairs.is_empty() {
            return None;
        }
        let weights: Vec<f64> = pairs.iter().map(|p| p.2).collect();
        let (a, b, _) = pairs[self.rng.weighted(&weights)];
        let sides = vec![
            Typed::column(&a.relation, &a.known),
            Typed::column(&b.relation, &b.known),
        ];
        let made = self.made("{} = {}", sides, Kind::Bool);
        Some(made)
    }

    fn joined(&mut self) -> (Query, Vec<Known>) {
        let first = self.any_table();
        let (relation, columns) = self.relation(first);
        let mut scope_now = scope(&relation.alias, &columns);
        let mut source = FromItem::of(relation);
        let mut rows = first.rows;
        for _ in 0..self.rng.weighted(&[0.0, 0.6, 0.3, 0.1]) {
            let table = self.any_table();
            let kind = self.join_kind();
            let linked = self.world.links.iter().any(|l| {
                let names = [&l.from.0, &l.to.0];
                names.contains(&&first.name) && names.contains(&&table.name)
            });
            // A join by a foreign key has about as many rows as its larger side; others are guessed
            // at an eighth of the product.
            let guess = rows * table.rows
                / if linked {
                    table.rows.min(rows).max(1)
                } else {
                    8
                };
            if guess > MOST_ROWS || rows * table.rows > 100 * MOST_ROWS {
                continue;
            }
            let (relation, columns) = self.relation(table);
            let theirs = scope(&relation.alias, &columns);
            let mut on = Vec::new();
            if kind != "CROSS JOIN" {
                let equal = self.equality(&scope_now, &theirs);
                // With a third table it may follow from the others.
                let percent = if source.joins.is_empty() { 15 } else { 35 };
                let second = match self.rng.chance(percent) {
                    true => self.equality(&scope_now, &theirs),
                    false => None,
                };
                on.extend(equal.into_iter().chain(second).map(|e| e.expr));
                if on.is_empty() {
                    continue;
                }
                if self.rng.chance(20) {
                    let mut both = scope_now.clone();
                    both.extend(theirs.clone());
                    on.push(self.condition(&both, 0).expr);
                }
            } else if rows * table.rows > MOST_ROWS {
                continue;
            }
            rows = guess.max(1);
            let semi = kind.contains("SEMI") || kind.contains("ANTI");
            if kind.starts_with("RIGHT ") && semi {
                scope_now = theirs;
            } else if !semi {
                scope_now.extend(theirs);
            }
            source.joins.push(Join {
                kind: kind.into(),
                relation,
                on,
            });
        }
        let mut select = Select {
            from: vec![source],
            ..Select::default()
        };
        self.filters(&mut select, &scope_now, 1);
        let known = match self.rng.chance(45) {
            true => {
                let groups = (0..self.rng.below(3))
                    .map(|_| self.group(&scope_now))
                    .collect();
                self.aggregated(&mut select, groups, &scope_now)
            }
            false => {
                let (items, known) = self.some_items(&scope_now, 1);
                select.items = items;
                known
            }
        };
        (Query::of(select), known)
    }

    fn join_kind(&mut self) -> &'static str {
        let kinds = [
            ("JOIN", 4.0),
            ("LEFT JOIN", 2.0),
            ("RIGHT JOIN", 1.5),
            ("FULL JOIN", 1.5),
            ("LEFT SEMI JOIN", 1.0),
            ("LEFT ANTI JOIN", 1.0),
            ("RIGHT SEMI JOIN", 0.5),
            ("RIGHT ANTI JOIN", 0.5),
            ("CROSS JOIN", 0.4),
        ];
        let weights = kinds.map(|k| k.1);
        let kind = kinds[self.rng.weighted(&weights)].0;
        self.duck &= !kind.starts_with("RIGHT SEMI") && !kind.starts_with("RIGHT ANTI");
        kind
    }

    fn set_operation(&mut self) -> (Query, Vec<Known>) {
        let (first, scope_a) = self.source();
        let (second, scope_b) = self.source();
        let mut left = Select {
            from: vec![first],
            ..Select::default()
        };
        let mut right = Select {
            from: vec![second],
            ..Select::default()
        };
        let mut known = Vec::new();
        for _ in 0..self.rng.range(1, 3) {
            let one = self.value(&scope_a, 1);
            // Set operations compare rows, so differences in the last digits would change the
            // result.
            if !one.known.exact {
                continue;
            }
            let like = scope_b
                .iter()
                .filter(|c| c.known.data_type == one.known.data_type);
            let like: Scope = like.cloned().collect();
            let other = match like.is_empty() {
                true if matches!(one.kind(), Kind::Bytes | Kind::Null) => continue,
                true => self.constant(&one.known),
                false => self.any_column(&like),
            };
            let name = format!("c{}", known.len());
            let (mut tame, exact) = (one.known.tame && other.known.tame, other.known.exact);
            tame &= exact;
            let (item, column) = self.item(one, name.clone());
            left.items.push(item);
            known.push(Known {
                tame,
                unique: false,
                ..column
            });
            right.items.push(self.item(other, name).0);
        }
        if known.is_empty() {
            return self.filtered();
        }
        self.filters(&mut left, &scope_a, 1);
        self.filters(&mut right, &scope_b, 1);
        let operations = [
            "UNION ALL",
            "UNION",
            "INTERSECT",
            "EXCEPT",
            "INTERSECT ALL",
            "EXCEPT ALL",
        ];
        let weights = [3.0, 3.0, 2.0, 2.0, 0.7, 0.7];
        let operation = operations[self.rng.weighted(&weights)];
        let body = Body::Set {
            operation: operation.into(),
            left: Box::new(Query::of(left)),
            right: Box::new(Query::of(right)),
        };
        (
            Query {
                with: vec![],
                body,
                order: vec![],
                limit: None,
            },
            known,
        )
    }
}
