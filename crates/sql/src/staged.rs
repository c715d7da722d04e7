//! A query as a script: what `WITH` names becomes tables that are made first.

use super::error::SqlError;
use datafusion::sql::sqlparser::ast::{Cte, Query, Statement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// A query of several statements with the answer of the one it was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Names of the tables and the queries of their rows, in the order in which they are made: a
    /// later one may read those before it.
    pub tables: Vec<(String, String)>,
    /// The query that reads them.
    pub query: String,
}

/// `query` with a table for each name of its outermost `WITH`; `None` if it has none or refers to
/// itself (`WITH RECURSIVE`).
///
/// # Errors
/// Bad input: a text that is not one query.
pub fn staged(query: &str) -> Result<Option<Staged>, SqlError> {
    let input = |message: String| SqlError::Input {
        place: None,
        message,
    };
    let mut parsed =
        Parser::parse_sql(&GenericDialect {}, query).map_err(|e| input(e.to_string()))?;
    let (Some(Statement::Query(mut query)), true) = (parsed.pop(), parsed.is_empty()) else {
        return Err(input("expected one query".to_owned()));
    };
    let Some(with) = query.with.take_if(|with| !with.recursive) else {
        return Ok(None);
    };
    Ok(Some(Staged {
        tables: with.cte_tables.iter().map(table).collect(),
        query: query.to_string(),
    }))
}

/// The name and the rows of one table.
fn table(named: &Cte) -> (String, String) {
    let name = named.alias.name.to_string();
    let rows = |query: &Query| match named.alias.columns.is_empty() {
        true => query.to_string(),
        // The names of its columns follow its own: `WITH t (a, b) AS ...`.
        false => format!("SELECT * FROM ({query}) AS {}", named.alias),
    };
    (name, rows(&named.query))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Option<Staged> {
        staged(query).unwrap()
    }

    #[test]
    fn each_name_of_with_is_a_table_that_those_after_it_can_read() {
        let staged = of(
            "with a as (select 1 as x), b (y) as (select x from a) select y from b order by y limit 1;",
        )
        .unwrap();
        let rows: Vec<&str> = staged.tables.iter().map(|(name, _)| &**name).collect();
        assert_eq!(rows, ["a", "b"]);
        assert_eq!(staged.tables[0].1, "SELECT 1 AS x");
        assert!(
            staged.tables[1].1.ends_with("AS b (y)"),
            "{:?}",
            staged.tables[1]
        );
        assert_eq!(staged.query, "SELECT y FROM b ORDER BY y LIMIT 1");
    }

    #[test]
    fn a_with_inside_stays_where_it_is_and_a_recursive_one_is_no_table() {
        assert_eq!(
            of("select * from (with a as (select 1) select * from a) t"),
            None
        );
        let counted = "with recursive n as (select 1 as i union all select i + 1 from n where i < 3) select * from n";
        assert_eq!(of(counted), None);
        assert_eq!(of("select 1"), None);
    }

    #[test]
    fn what_is_not_one_query_is_refused() {
        for text in ["drop table t", "select 1; select 2", "selec 1", ""] {
            assert!(
                matches!(staged(text), Err(SqlError::Input { .. })),
                "{text}"
            );
        }
    }
}
