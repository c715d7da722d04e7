//! Star joins and snowflakes.

use super::{Generator, Scope, Typed, scope};
use crate::ast::{Expr, FromItem, Join, Query, Relation, Select};
use crate::data::{Kind, Known, KnownTable, Link};

/// A relation of a star with its join condition.
struct Tied {
    relation: Relation,
    condition: Option<Expr>,
}

impl<'a> Generator<'a> {
    /// An aggregation over a fact table and its dimensions.
    pub(crate) fn star(&mut self) -> (Query, Vec<Known>) {
        let Some(fact) = self.fact() else {
            return self.grouped();
        };
        let (relation, columns) = match self.rng.chance(90) {
            true => (
                Relation::table(&fact.name, &self.alias()),
                fact.columns.clone(),
            ),
            false => self.relation(fact),
        };
        let fact_scope = scope(&relation.alias, &columns);
        let mut all = fact_scope.clone();
        let mut tied = vec![Tied {
            relation,
            condition: None,
        }];
        let mut near = Vec::new();
        self.tie(&fact.name, &fact_scope, 0, &mut tied, &mut all, &mut near);
        let mut select = Select::default();
        self.from(&mut select, tied);
        let dimensions: Scope = all[fact_scope.len()..].to_vec();
        self.star_filters(&mut select, &fact_scope, &dimensions, &all);
        let mut groups = Vec::new();
        for _ in 0..self.rng.weighted(&[0.12, 0.43, 0.35, 0.1]) {
            let from = match dimensions.is_empty() || self.rng.chance(25) {
                true => &fact_scope,
                false => &dimensions,
            };
            groups.push(self.group(from));
        }
        let measured = self.measured(&fact_scope, &all);
        let known = self.aggregated(&mut select, groups, &measured);
        (Query::of(select), known)
    }

    /// A table with foreign keys, usually one of the largest.
    fn fact(&mut self) -> Option<&'a KnownTable> {
        let world = self.world;
        let linked = |name: &str| world.links.iter().any(|l| l.from.0 == name);
        let facts: Vec<_> = world.tables.iter().filter(|t| linked(&t.name)).collect();
        let large: Vec<_> = facts
            .iter()
            .filter(|t| t.name.len() == 1)
            .copied()
            .collect();
        let facts = if large.is_empty() || self.rng.chance(10) {
            facts
        } else {
            large
        };
        (!facts.is_empty()).then(|| *self.rng.pick(&facts))
    }

    /// Adds the tables that `from` refers to, recursively, and their join conditions.
    fn tie(
        &mut self,
        from: &str,
        of: &Scope,
        depth: usize,
        tied: &mut Vec<Tied>,
        all: &mut Scope,
        seen: &mut Vec<Link>,
    ) {
        let world = self.world;
        for link in world.links.iter().filter(|l| l.from.0 == from) {
            let own = of.iter().find(|c| c.known.name == link.from.1);
            let table = world.table(&link.to.0);
            let (Some(own), Some(table)) = (own.cloned(), table) else {
                continue;
            };
            if !self.rng.chance(if depth == 0 { 75 } else { 60 }) || seen.len() > 5 {
                continue;
            }
            seen.push(link.clone());
            let (relation, columns) = self.relation(table);
            let theirs = scope(&relation.alias, &columns);
            let Some(key) = theirs.iter().find(|c| c.known.name == link.to.1) else {
                continue;
            };
            let (a, b) = (
                Expr::column(&own.relation, &own.known.name),
                Expr::column(&key.relation, &key.known.name),
            );
            let sides = if self.rng.chance(50) {
                vec![a, b]
            } else {
                vec![b, a]
            };
            let condition = Some(Expr::apply("{} = {}", sides));
            tied.push(Tied {
                relation,
                condition,
            });
            all.extend(theirs.clone());
            self.tie(&link.to.0, &theirs, depth + 1, tied, all, seen);
        }
    }

    /// Adds the relations to `select`, separated by commas or as joins.
    fn from(&mut self, select: &mut Select, tied: Vec<Tied>) {
        let commas = self.rng.chance(40);
        if commas {
            for tied in tied {
                select.from.push(FromItem::of(tied.relation));
                select.filters.extend(tied.condition);
            }
            for at in (1..select.from.len()).rev() {
                select.from.swap(at, self.rng.below(at + 1));
            }
            return;
        }
        let mut tied = tied.into_iter();
        let Some(first) = tied.next() else { return };
        let mut source = FromItem::of(first.relation);
        for next in tied {
            let kind = match self.rng.weighted(&[0.88, 0.06, 0.03, 0.03]) {
                0 => "JOIN",
                1 => "LEFT JOIN",
                2 => "RIGHT JOIN",
                _ => "FULL JOIN",
            };
            let on = next.condition.into_iter().collect();
            let first = source.joins.is_empty();
            if first && kind == "JOIN" && self.rng.chance(40) {
                // The dimension can also come first.
                let fact = std::mem::replace(&mut source.relation, next.relation);
                source.joins.push(Join {
                    kind: kind.into(),
                    relation: fact,
                    on,
                });
            } else {
                source.joins.push(Join {
                    kind: kind.into(),
                    relation: next.relation,
                    on,
                });
            }
        }
        select.from.push(source);
    }

    fn star_filters(&mut self, select: &mut Select, fact: &Scope, dimensions: &Scope, all: &Scope) {
        for _ in 0..self.rng.weighted(&[0.3, 0.35, 0.25, 0.1]) {
            let on = match self.rng.weighted(&[0.5, 0.42, 0.08]) {
                1 if !dimensions.is_empty() => dimensions,
                2 => all,
                _ => fact,
            };
            let condition = self.condition(on, 1);
            select.filters.push(condition.expr);
        }
    }

    /// The columns to aggregate, usually numbers of the fact table.
    fn measured(&mut self, fact: &Scope, all: &Scope) -> Scope {
        if self.rng.chance(20) {
            return all.clone();
        }
        let numbers = [Kind::Int, Kind::Decimal];
        let whole: Scope = fact
            .iter()
            .filter(|c| numbers.contains(&c.known.kind))
            .cloned()
            .collect();
        if whole.is_empty() || self.rng.chance(25) {
            fact.clone()
        } else {
            whole
        }
    }

    /// A star join inside another query.
    pub(crate) fn star_inside(&mut self) -> (Query, Vec<Known>) {
        let (inner, columns) = self.star();
        let alias = self.alias();
        let mut inside = scope(&alias, &columns);
        let mut source = FromItem::of(Relation::query(inner, &alias));
        let mut select = Select::default();
        match self.rng.below(3) {
            0 => {
                let table = self.any_table();
                let (relation, columns) = self.relation(table);
                let other = scope(&relation.alias, &columns);
                if let Some(on) = self.equality(&inside, &other) {
                    let kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];
                    let kind = (*self.rng.pick(&kinds)).into();
                    source.joins.push(Join {
                        kind,
                        relation,
                        on: vec![on.expr],
                    });
                    inside.extend(other);
                }
            }
            1 => {
                let (second, columns) = self.star();
                let other = self.alias();
                let theirs = scope(&other, &columns);
                if let Some(on) = self.equality(&inside, &theirs) {
                    let relation = Relation::query(second, &other);
                    source.joins.push(Join {
                        kind: "JOIN".into(),
                        relation,
                        on: vec![on.expr],
                    });
                    inside.extend(theirs);
                }
            }
            _ => self.filters(&mut select, &inside, 1),
        }
        select.from.push(source);
        let exact: Scope = inside.iter().filter(|c| c.known.exact).cloned().collect();
        if exact.is_empty() {
            let columns: Vec<Typed> = inside
                .iter()
                .map(|c| Typed::column(&c.relation, &c.known))
                .collect();
            let named = columns.into_iter().enumerate();
            let items = named.map(|(i, c)| self.item(c, format!("c{i}")));
            let (items, known): (Vec<_>, Vec<_>) = items.unzip();
            select.items = items;
            return (Query::of(select), known);
        }
        let known = match self.rng.chance(50) {
            true => {
                let groups = vec![self.group(&exact)];
                self.aggregated(&mut select, groups, &exact)
            }
            false => {
                let (items, known) = self.some_items(&exact, 1);
                select.items = items;
                known
            }
        };
        (Query::of(select), known)
    }
}
