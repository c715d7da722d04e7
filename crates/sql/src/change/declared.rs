//! Reads the rules of a table from its declaration.
//!
//! DataFusion's planner loses the names of constraints and refuses CHECK, so they are taken from
//! the syntax tree.

use super::super::error::SqlError;
use super::rules::{Rules, name_of};
use datafusion::sql::sqlparser::ast::{
    CharacterLength, ColumnDef, ColumnOption, ColumnOptionDef, DataType, Expr, Ident, IndexColumn,
    TableConstraint,
};

/// The rules that a declaration gives a table.
pub(super) fn rules_of(
    table: &str,
    columns: &[ColumnDef],
    constraints: &[TableConstraint],
) -> Result<Rules, SqlError> {
    let mut rules = Rules::default();
    for column in columns {
        add_column(&mut rules, table, column)?;
    }
    let names: Vec<String> = columns.iter().map(|column| name_of(&column.name)).collect();
    for constraint in constraints {
        add_constraint(&mut rules, table, constraint)?;
    }
    check_columns(&rules, table, &names)?;
    Ok(rules)
}

/// Refuses keys of columns that the table lacks.
pub(super) fn check_columns(rules: &Rules, table: &str, names: &[String]) -> Result<(), SqlError> {
    for key in &rules.keys {
        let kind = if key.primary {
            "primary key"
        } else {
            "unique constraint"
        };
        if let Some(missing) = key.columns.iter().find(|column| !names.contains(column)) {
            return Err(SqlError::input(format!(
                "Column for {kind} not found in schema: {missing}; table {table} has {}",
                names.join(", ")
            )));
        }
    }
    Ok(())
}

/// Adds what the declaration of a column says beside its type.
pub(super) fn add_column(
    rules: &mut Rules,
    table: &str,
    column: &ColumnDef,
) -> Result<(), SqlError> {
    let name = name_of(&column.name);
    if let Some(most) = most_chars(&column.data_type) {
        rules.most_chars.insert(name.clone(), most);
    }
    for ColumnOptionDef {
        name: given,
        option,
    } in &column.options
    {
        let given = given.as_ref().map(name_of);
        match option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => {
                rules.not_null.insert(name.clone());
            }
            ColumnOption::Default(value) => {
                rules.defaults.insert(name.clone(), value.clone());
            }
            ColumnOption::PrimaryKey(_) => {
                rules.add_key(table, given, vec![name.clone()], true)?;
            }
            ColumnOption::Unique(_) => {
                rules.add_key(table, given, vec![name.clone()], false)?;
            }
            ColumnOption::Check(check) => {
                let given = given.or_else(|| check.name.as_ref().map(name_of));
                let condition = check.expr.as_ref().clone();
                rules.add_check(table, given, Some(&name), condition)?;
            }
            ColumnOption::ForeignKey(_) => return Err(foreign_key(&name)),
            other => {
                return Err(SqlError::input(format!(
                    "column {name}: {other} is not known here; a column has a type, NOT NULL, \
                     DEFAULT, PRIMARY KEY, UNIQUE and CHECK"
                )));
            }
        }
    }
    Ok(())
}

/// Adds a constraint of a table.
pub(super) fn add_constraint(
    rules: &mut Rules,
    table: &str,
    constraint: &TableConstraint,
) -> Result<(), SqlError> {
    let named = |name: &Option<Ident>| name.as_ref().map(name_of);
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            let columns = columns_of(&key.columns)?;
            rules.add_key(table, named(&key.name), columns, true)
        }
        TableConstraint::Unique(key) => {
            let columns = columns_of(&key.columns)?;
            rules.add_key(table, named(&key.name), columns, false)
        }
        TableConstraint::Check(check) => {
            let condition = check.expr.as_ref().clone();
            rules.add_check(table, named(&check.name), None, condition)
        }
        TableConstraint::ForeignKey(_) => Err(foreign_key(table)),
        other => Err(SqlError::input(format!(
            "table {table}: {other} is not known here; a table has PRIMARY KEY, UNIQUE and CHECK"
        ))),
    }
}

fn foreign_key(of: &str) -> SqlError {
    SqlError::input(format!(
        "Foreign key constraints are not currently supported: nothing would check that of {of}; \
         leave out REFERENCES"
    ))
}

fn columns_of(columns: &[IndexColumn]) -> Result<Vec<String>, SqlError> {
    let names = columns.iter().map(|column| match &column.column.expr {
        Expr::Identifier(ident) => Ok(name_of(ident)),
        other => Err(SqlError::input(format!(
            "{other}: a key consists of columns, not of expressions"
        ))),
    });
    names.collect()
}

/// The length of `VARCHAR(n)`, `CHAR(n)` and their other names.
pub(super) fn most_chars(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Varchar(length)
        | DataType::Char(length)
        | DataType::Character(length)
        | DataType::CharVarying(length)
        | DataType::CharacterVarying(length)
        | DataType::Nvarchar(length) => match length {
            Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
            _ => None,
        },
        _ => None,
    }
}
