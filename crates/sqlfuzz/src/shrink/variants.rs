//! Smaller variants of a statement, each with one part removed.

use crate::ast::{
    Body, Change, Expr, FromItem, Grouping, Join, NewRows, Query, Relation, RelationKind, Select,
    Statement,
};

/// All statements that are one step smaller.
pub fn of_statement(statement: &Statement) -> Vec<Statement> {
    match statement {
        Statement::Query { query, duck } => of_query(query)
            .into_iter()
            .map(|query| Statement::Query { query, duck: *duck })
            .collect(),
        Statement::CreateTable { name, query } => of_query(query)
            .into_iter()
            .map(|query| Statement::CreateTable {
                name: name.clone(),
                query,
            })
            .collect(),
        Statement::CreateView { name, query } => of_query(query)
            .into_iter()
            .map(|query| Statement::CreateView {
                name: name.clone(),
                query,
            })
            .collect(),
        Statement::Change { name, change, duck } => of_change(change)
            .into_iter()
            .map(|change| Statement::Change {
                name: name.clone(),
                change,
                duck: *duck,
            })
            .collect(),
        Statement::Drop { .. } | Statement::Own(_) => Vec::new(),
    }
}

fn of_change(change: &Change) -> Vec<Change> {
    match change {
        Change::Insert { columns, rows } => {
            let smaller = match rows {
                NewRows::Query(query) => of_query(query).into_iter().map(NewRows::Query).collect(),
                NewRows::Values(rows) if rows.len() > 1 => {
                    without_each(rows).map(NewRows::Values).collect()
                }
                NewRows::Values(_) => Vec::new(),
            };
            let with = |rows| Change::Insert {
                columns: columns.clone(),
                rows,
            };
            smaller.into_iter().map(with).collect()
        }
        Change::Delete { filters } => without_each(filters)
            .map(|filters| Change::Delete { filters })
            .collect(),
        Change::Update { set, filters } => {
            let fewer = without_each(filters).map(|filters| (set.clone(), filters));
            let sets = without_each(set).filter(|set| !set.is_empty());
            let sets = sets.map(|set| (set, filters.clone()));
            let all = fewer.chain(sets);
            all.map(|(set, filters)| Change::Update { set, filters })
                .collect()
        }
    }
}

/// `all` without each of its members in turn.
fn without_each<T: Clone>(all: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..all.len()).map(|at| {
        let mut fewer = all.to_vec();
        fewer.remove(at);
        fewer
    })
}

fn of_query(query: &Query) -> Vec<Query> {
    let mut found = Vec::new();
    if query.limit.is_some() {
        found.push(Query {
            limit: None,
            ..query.clone()
        });
    }
    if !query.order.is_empty() {
        found.push(Query {
            order: vec![],
            limit: None,
            ..query.clone()
        });
        if query.limit.is_none() {
            for at in 0..query.order.len() {
                let mut order = query.order.clone();
                order.remove(at);
                found.push(Query {
                    order,
                    ..query.clone()
                });
            }
        }
    }
    if let [(_, only)] = query.with.as_slice() {
        found.push(only.clone());
    }
    for (at, (name, inner)) in query.with.iter().enumerate() {
        for smaller in of_query(inner) {
            let mut with = query.with.clone();
            with[at] = (name.clone(), smaller);
            found.push(Query {
                with,
                ..query.clone()
            });
        }
    }
    let with_body = |body| Query {
        body,
        ..query.clone()
    };
    match &query.body {
        Body::Set {
            operation,
            left,
            right,
        } => {
            found.extend([(**left).clone(), (**right).clone()]);
            let set = |left: &Query, right: &Query| Body::Set {
                operation: operation.clone(),
                left: Box::new(left.clone()),
                right: Box::new(right.clone()),
            };
            found.extend(of_query(left).iter().map(|l| with_body(set(l, right))));
            found.extend(of_query(right).iter().map(|r| with_body(set(left, r))));
            found.extend(
                without_column(left)
                    .into_iter()
                    .zip(without_column(right))
                    .map(|(l, r)| Query {
                        order: vec![],
                        limit: None,
                        ..with_body(set(&l, &r))
                    }),
            );
        }
        Body::Select(select) => {
            let items = select.items.len();
            for smaller in of_select(select) {
                let fewer = smaller.items.len() < items;
                let mut made = with_body(Body::Select(Box::new(smaller)));
                if fewer && !made.order.is_empty() {
                    // Order keys are column numbers, so they are renumbered.
                    made.order.pop();
                    let places = made.order.iter_mut().enumerate();
                    places.for_each(|(i, o)| o.by = Expr::Text((i + 1).to_string()));
                }
                found.push(made);
            }
        }
    }
    found
}

/// The query without each of its columns in turn.
fn without_column(query: &Query) -> Vec<Query> {
    let Body::Select(select) = &query.body else {
        return Vec::new();
    };
    if select.items.len() < 2 {
        return Vec::new();
    }
    let without = |at| {
        let mut select = select.clone();
        select.items.remove(at);
        Query {
            body: Body::Select(select),
            ..query.clone()
        }
    };
    (0..select.items.len()).map(without).collect()
}

fn of_select(select: &Select) -> Vec<Select> {
    let mut found = Vec::new();
    let with = |change: &dyn Fn(&mut Select)| {
        let mut made = select.clone();
        change(&mut made);
        made
    };
    if select.from.len() > 1 {
        found.extend((0..select.from.len()).map(|i| with(&|s| drop(s.from.remove(i)))));
    }
    for (at, source) in select.from.iter().enumerate() {
        found.extend(
            of_source(source)
                .into_iter()
                .map(|smaller| with(&|s| s.from[at] = smaller.clone())),
        );
    }
    found.extend((0..select.filters.len()).map(|i| with(&|s| drop(s.filters.remove(i)))));
    found.extend((0..select.having.len()).map(|i| with(&|s| drop(s.having.remove(i)))));
    if select.distinct {
        found.push(with(&|s| s.distinct = false));
    }
    if select.grouping != Grouping::All {
        found.push(with(&|s| s.grouping = Grouping::All));
    }
    if let Grouping::Sets(sets) = &select.grouping
        && sets.len() > 1
    {
        found.extend((0..sets.len()).map(|i| {
            let mut fewer = sets.clone();
            fewer.remove(i);
            with(&|s| s.grouping = Grouping::Sets(fewer.clone()))
        }));
    }
    for at in 0..select.groups.len() {
        // Columns that show the group are removed with it.
        let group = &select.groups[at];
        let rest: Vec<_> = select
            .items
            .iter()
            .filter(|i| i.expr != *group)
            .cloned()
            .collect();
        if !rest.is_empty() {
            found.push(with(&|s| {
                s.groups.remove(at);
                s.items = rest.clone();
                if let Grouping::Sets(sets) = &mut s.grouping {
                    sets.iter_mut().for_each(|set| without_place(set, at));
                }
            }));
        }
        for smaller in of_expr(group) {
            found.push(with(&|s| {
                let items = s.items.iter_mut().filter(|i| i.expr == *group);
                items.for_each(|i| i.expr = smaller.clone());
                s.groups[at] = smaller.clone();
            }));
        }
    }
    if select.items.len() > 1 {
        found.extend((0..select.items.len()).map(|i| with(&|s| drop(s.items.remove(i)))));
    }
    for at in 0..select.items.len() {
        let smaller = of_expr(&select.items[at].expr);
        found.extend(
            smaller
                .iter()
                .map(|e| with(&|s| s.items[at].expr = e.clone())),
        );
    }
    for at in 0..select.filters.len() {
        let smaller = of_expr(&select.filters[at]);
        found.extend(smaller.iter().map(|e| with(&|s| s.filters[at] = e.clone())));
    }
    for at in 0..select.having.len() {
        let smaller = of_expr(&select.having[at]);
        found.extend(smaller.iter().map(|e| with(&|s| s.having[at] = e.clone())));
    }
    found
}

/// Removes the place `at` from a grouping set, and moves the places behind it.
fn without_place(set: &mut Vec<usize>, at: usize) {
    set.retain(|place| *place != at);
    set.iter_mut()
        .filter(|p| **p > at)
        .for_each(|place| *place -= 1);
}

fn of_source(source: &FromItem) -> Vec<FromItem> {
    let mut found = Vec::new();
    for at in 0..source.joins.len() {
        let mut joins = source.joins.clone();
        joins.remove(at);
        found.push(FromItem {
            joins,
            ..source.clone()
        });
    }
    if let Some((first, rest)) = source.joins.split_first() {
        found.push(FromItem {
            relation: first.relation.clone(),
            joins: rest.to_vec(),
        });
    }
    let relations = of_relation(&source.relation);
    found.extend(relations.into_iter().map(|relation| FromItem {
        relation,
        ..source.clone()
    }));
    for (at, join) in source.joins.iter().enumerate() {
        let mut put = |smaller: Join| {
            let mut joins = source.joins.clone();
            joins[at] = smaller;
            found.push(FromItem {
                joins,
                ..source.clone()
            });
        };
        for relation in of_relation(&join.relation) {
            put(Join {
                relation,
                ..join.clone()
            });
        }
        if join.kind != "JOIN" && join.kind != "CROSS JOIN" {
            put(Join {
                kind: "JOIN".into(),
                ..join.clone()
            });
        }
        for place in 0..join.on.len() {
            let mut on = join.on.clone();
            on.remove(place);
            put(Join { on, ..join.clone() });
            for smaller in of_expr(&join.on[place]) {
                let mut on = join.on.clone();
                on[place] = smaller;
                put(Join { on, ..join.clone() });
            }
        }
    }
    found
}

fn of_relation(relation: &Relation) -> Vec<Relation> {
    let RelationKind::Query(query) = &relation.what else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if let Body::Select(select) = &query.body {
        // The underlying table, whose columns have the same names if the subquery kept them.
        for source in &select.from {
            if let RelationKind::Table(name) = &source.relation.what {
                found.push(Relation::table(name, &relation.alias));
            }
        }
    }
    let queries = of_query(query).into_iter();
    found.extend(queries.map(|query| Relation::query(query, &relation.alias)));
    found
}

fn of_expr(expr: &Expr) -> Vec<Expr> {
    let mut found = Vec::new();
    match expr {
        Expr::Column { .. } | Expr::Text(_) => {}
        Expr::Apply { form, duck, args } => {
            found.extend(args.iter().cloned());
            for (at, arg) in args.iter().enumerate() {
                for smaller in of_expr(arg) {
                    let mut args = args.clone();
                    args[at] = smaller;
                    found.push(Expr::Apply {
                        form: form.clone(),
                        duck: duck.clone(),
                        args,
                    });
                }
            }
        }
        Expr::Sub { form, args, query } => {
            for smaller in of_query(query) {
                let query = Box::new(smaller);
                found.push(Expr::Sub {
                    form: form.clone(),
                    args: args.clone(),
                    query,
                });
            }
            for (at, arg) in args.iter().enumerate() {
                for smaller in of_expr(arg) {
                    let mut args = args.clone();
                    args[at] = smaller;
                    let query = query.clone();
                    found.push(Expr::Sub {
                        form: form.clone(),
                        args,
                        query,
                    });
                }
            }
        }
    }
    found
}
