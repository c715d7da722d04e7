//! `CREATE SCHEMA` and `DROP SCHEMA`.

use super::super::catalog::OWN_SCHEMAS;
use super::super::error::SqlError;
use super::super::session::SqlSession;
use super::rules::name_of;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, SchemaName};

impl SqlSession {
    pub(super) fn create_schema(
        &mut self,
        name: &SchemaName,
        if_not_exists: bool,
    ) -> Result<String, SqlError> {
        let SchemaName::Simple(name) = name else {
            return Err(SqlError::input(
                "CREATE SCHEMA with AUTHORIZATION is not known here",
            ));
        };
        let name = schema_name(name)?;
        let is_there =
            OWN_SCHEMAS.contains(&name.as_str()) || self.catalog.schemas().contains(&name);
        if is_there && if_not_exists {
            return Ok(format!("schema {name} exists already"));
        }
        if is_there {
            return Err(SqlError::input(format!(
                "there is a schema {name} already; choose another name"
            )));
        }
        let inside = format!("{name}.");
        if let Some(odd) = self
            .catalog
            .list()
            .into_iter()
            .find(|t| t.name.starts_with(&inside))
        {
            return Err(SqlError::input(format!(
                "a table of the schema could not be told from table \"{}\"; choose another name",
                odd.name
            )));
        }
        self.catalog.make_schema(&name)?;
        Ok(format!("schema {name}"))
    }

    /// Drops schemas; with `cascade` also what is in them.
    pub(super) fn drop_schemas(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, SqlError> {
        let mut there = Vec::new();
        for name in names {
            let name = schema_name(name)?;
            if OWN_SCHEMAS.contains(&name.as_str()) {
                return Err(SqlError::input(format!("schema {name} cannot be dropped")));
            }
            let mut tables = self.catalog.tables_of(&name);
            tables.sort();
            match self.catalog.schemas().contains(&name) {
                true if !cascade && !tables.is_empty() => {
                    return Err(SqlError::input(format!(
                        "Cannot drop schema {name} because other tables depend on it: {}; drop them, or \
                         use CASCADE",
                        tables.join(", ")
                    )));
                }
                true => there.push((name, tables)),
                false if if_exists => {}
                false => return Err(SqlError::input(format!("there is no schema {name}"))),
            }
        }
        for (schema, tables) in &there {
            for table in tables {
                self.drop_from_schema(&format!("{schema}.{table}"))?;
            }
            self.catalog.drop_schema(schema)?;
        }
        let names: Vec<&str> = there.iter().map(|(name, _)| name.as_str()).collect();
        Ok(match names.as_slice() {
            [] => "there is no such schema".to_owned(),
            names => format!("dropped schema {}", names.join(", ")),
        })
    }

    /// Drops a table or view.
    fn drop_from_schema(&mut self, key: &str) -> Result<(), SqlError> {
        if self.views.contains(key) {
            self.catalog.remove(key)?;
            self.views.remove(key);
        } else {
            self.forget(key)?;
        }
        self.bind(key);
        Ok(())
    }
}

/// The name of a schema, in the only catalog.
fn schema_name(name: &ObjectName) -> Result<String, SqlError> {
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| match part {
            ObjectNamePart::Identifier(ident) => Some(name_of(ident)),
            ObjectNamePart::Function(_) => None,
        })
        .collect();
    let name = match parts.as_slice() {
        [name] => name,
        [catalog, name] if catalog == "datafusion" => name,
        _ => {
            return Err(SqlError::input(format!(
                "{name} is not the name of a schema: there is one catalog"
            )));
        }
    };
    match name.is_empty() || name.contains(['.', ' ']) {
        true => Err(SqlError::input(format!(
            "{name:?} cannot be the name of a schema: it has a point or a space, or is empty"
        ))),
        false => Ok(name.clone()),
    }
}
