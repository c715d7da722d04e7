//! `pg_roles` and `pg_user`: who may connect, and who is connected.

use super::rows::{Columns, filled, flags, numbers, text};
use crate::clients::Clients;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use std::collections::BTreeSet;
use std::sync::Arc;
use tierloom_engine::{SystemRows, SystemTable};

/// The number of the first role: those below are PostgreSQL's own.
const FIRST: i32 = 16_384;

/// Who uses the server.
#[derive(Clone)]
pub(crate) struct Users {
    /// Names with passwords.
    pub named: BTreeSet<String>,
    /// Who may change the machine; `None` if everybody may.
    pub operators: Option<BTreeSet<String>>,
    pub clients: Clients,
}

impl Users {
    /// Each name, and whether it is an operator's.
    fn all(&self) -> Vec<(String, bool)> {
        let connected = self.clients.all().into_iter();
        let connected = connected.map(|(client, _)| client.user.clone());
        let operators = self.operators.iter().flatten().cloned();
        let all = self.named.iter().cloned().chain(operators).chain(connected);
        let all: BTreeSet<String> = all.collect();
        let is_operator = |name: &String| {
            let some = self.operators.as_ref();
            some.is_none_or(|operators| operators.contains(name))
        };
        all.into_iter()
            .map(|name| {
                let operator = is_operator(&name);
                (name, operator)
            })
            .collect()
    }
}

/// One of the two tables.
struct Roles {
    schema: SchemaRef,
    users: Users,
    /// The columns of names, numbers, and what operators may.
    columns: [&'static str; 3],
    /// A column that is true of all.
    always: Option<&'static str>,
}

/// Both tables with their names; `roles` are the columns of the first.
pub(super) fn tables(
    roles: SchemaRef,
    users: Users,
) -> [(&'static str, Arc<dyn TableProvider>); 2] {
    let table = |schema, columns, always| -> Arc<dyn TableProvider> {
        Arc::new(SystemTable(Roles {
            schema,
            users: users.clone(),
            columns,
            always,
        }))
    };
    [
        (
            "pg_roles",
            table(roles, ["rolname", "oid", "rolsuper"], Some("rolcanlogin")),
        ),
        (
            "pg_user",
            table(of_users(), ["usename", "usesysid", "usesuper"], None),
        ),
    ]
}

fn of_users() -> SchemaRef {
    let flag = |name: &str| Field::new(name, DataType::Boolean, false);
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    Arc::new(Schema::new(vec![
        Field::new("usename", DataType::Utf8, false),
        Field::new("usesysid", DataType::Int32, false),
        flag("usecreatedb"),
        flag("usesuper"),
        flag("userepl"),
        flag("usebypassrls"),
        Field::new("passwd", DataType::Utf8, true),
        Field::new("valuntil", time, true),
        Field::new_list(
            "useconfig",
            Field::new_list_field(DataType::Utf8, true),
            true,
        ),
    ]))
}

impl SystemRows for Roles {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self) -> Result<RecordBatch> {
        let (names, operators): (Vec<String>, Vec<bool>) = self.users.all().into_iter().unzip();
        let count = names.len();
        let [name, number, operator] = self.columns;
        // What is false of all, such as the right to make databases, rather than unknown.
        let booleans = self.schema.fields().iter().filter_map(|field| {
            let known = NAMES_OF_FLAGS.iter().find(|known| *known == field.name())?;
            Some((*known, flags(vec![false; count])))
        });
        let mut given: Columns = booleans.collect();
        given.extend(self.always.map(|name| (name, flags(vec![true; count]))));
        given.insert(name, text(names));
        given.insert(number, numbers((FIRST..).take(count).collect()));
        given.insert(operator, flags(operators));
        filled(&self.schema, count, &given)
    }
}

/// Columns of `pg_roles` that are false of all.
const NAMES_OF_FLAGS: [&str; 5] = [
    "rolinherit",
    "rolcreaterole",
    "rolcreatedb",
    "rolreplication",
    "rolbypassrls",
];
