//! The JDBC driver of PostgreSQL: what DBeaver, Metabase and other programs of Java are built on.

use super::support::{Server, printed};
use std::path::Path;
use std::process::Command;

/// Where Debian's package has the driver.
const DRIVER: &str = "/usr/share/java/postgresql.jar";

/// What a program of Java printed that has a connection `c`, its metadata `m`, and `show(rows,
/// columns)`; `None` if there is no Java or no driver.
fn java(server: &Server, statements: &str) -> Option<String> {
    let missing = match Command::new("java").arg("-version").output() {
        Ok(output) if output.status.success() => {
            let is_there = Path::new(DRIVER).exists();
            (!is_there).then_some("no JDBC driver (Debian: libpostgresql-jdbc-java)")
        }
        _ => Some("no Java (Debian: default-jdk-headless)"),
    };
    if let Some(missing) = missing {
        tierloom_testing::checked_nothing(format!("there is {missing}"));
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Program.java");
    let program = format!(
        r#"
import java.math.BigDecimal;
import java.sql.*;
import java.time.LocalDate;
public class Program {{
    static void show(ResultSet rows, String... columns) throws SQLException {{
        while (rows.next()) {{
            StringBuilder line = new StringBuilder();
            for (String column : columns) {{
                line.append(line.length() > 0 ? "|" : "").append(rows.getString(column));
            }}
            System.out.println(line);
        }}
    }}
    public static void main(String[] arguments) throws Exception {{
        String url = "jdbc:postgresql://127.0.0.1:{port}/tierloom?user=tester";
        try (Connection c = DriverManager.getConnection(url)) {{
            DatabaseMetaData m = c.getMetaData();
            {statements}
        }}
    }}
}}
"#,
        port = server.port
    );
    std::fs::write(&file, program).unwrap();
    let output = Command::new("java")
        .args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", DRIVER])
        .arg(&file)
        .output();
    Some(printed(&output.unwrap()))
}

#[test]
fn metadata_shows_tables_columns_keys_and_indexes() {
    let server = Server::start();
    let shown = java(
        &server,
        r#"
try (Statement s = c.createStatement()) {
    s.execute("CREATE TABLE ordered (id INT PRIMARY KEY, code VARCHAR(12) NOT NULL,"
        + " price DECIMAL(10, 2) DEFAULT 1.50, UNIQUE (code, price))");
    s.execute("CREATE TABLE double_key (a INT, b INT, PRIMARY KEY (b, a))");
    s.execute("CREATE VIEW seen AS SELECT id FROM ordered");
}
System.out.println("tables");
show(m.getTables(null, "public", "%e%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE");
System.out.println("columns");
show(m.getColumns(null, "public", "ordered", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE",
    "DECIMAL_DIGITS", "IS_NULLABLE", "COLUMN_DEF", "ORDINAL_POSITION");
System.out.println("keys");
show(m.getPrimaryKeys(null, "public", "ordered"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
show(m.getPrimaryKeys(null, null, "double_key"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
show(m.getPrimaryKeys(null, null, "t"), "COLUMN_NAME");
show(m.getImportedKeys(null, null, "ordered"), "FK_NAME");
show(m.getExportedKeys(null, null, "ordered"), "FK_NAME");
show(m.getBestRowIdentifier(null, null, "ordered", DatabaseMetaData.bestRowSession, false),
    "COLUMN_NAME");
System.out.println("indexes");
show(m.getIndexInfo(null, "public", "ordered", false, false), "INDEX_NAME", "NON_UNIQUE",
    "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC");
System.out.println("others");
show(m.getSchemas(), "TABLE_SCHEM");
show(m.getCatalogs(), "TABLE_CAT");
show(m.getFunctions(null, "public", "%"), "FUNCTION_NAME");
show(m.getProcedures(null, "public", "%"), "PROCEDURE_NAME");
System.out.println(m.getTableTypes().next());
"#,
    );
    let Some(shown) = shown else {
        return;
    };
    assert_eq!(
        shown,
        "tables\n\
         double_key|TABLE\n\
         ordered|TABLE\n\
         seen|VIEW\n\
         tier_columns|VIEW\n\
         tier_memory|VIEW\n\
         tier_pool|VIEW\n\
         tierloom_counters|VIEW\n\
         tierloom_decisions|VIEW\n\
         tierloom_sessions|VIEW\n\
         columns\n\
         id|int4|10|0|NO|null|1\n\
         code|varchar|12|0|NO|null|2\n\
         price|numeric|10|2|YES|1.50|3\n\
         keys\n\
         id|1|ordered_pkey\n\
         b|1|double_key_pkey\n\
         a|2|double_key_pkey\n\
         id\n\
         indexes\n\
         ordered_code_price_key|f|1|code|A\n\
         ordered_code_price_key|f|2|price|A\n\
         ordered_pkey|f|1|id|A\n\
         others\n\
         pg_catalog\n\
         public\n\
         tierloom\n\
         true\n"
    );
}

#[test]
fn statements_bind_values_fetch_parts_and_see_codes() {
    let server = Server::start();
    let shown = java(
        &server,
        r#"
try (Statement s = c.createStatement()) {
    s.execute("CREATE TABLE made (a BIGINT PRIMARY KEY, b TEXT, d DATE, p DECIMAL(10, 2), f BOOLEAN)");
}
try (PreparedStatement p = c.prepareStatement("INSERT INTO made VALUES (?, ?, ?, ?, ?)")) {
    for (int i = 0; i < 20; i++) {
        p.setLong(1, i);
        p.setString(2, i % 2 == 0 ? "it's " + i : null);
        p.setObject(3, LocalDate.of(2024, 2, 29));
        p.setBigDecimal(4, new BigDecimal("12.34"));
        p.setBoolean(5, i > 3);
        p.addBatch();
    }
    System.out.println(p.executeBatch().length);
}
c.setAutoCommit(false);
for (int round = 0; round < 7; round++) {  // Prepared by the server from the fifth time on.
    try (PreparedStatement p = c.prepareStatement(
            "SELECT a, b, d, p, f FROM made WHERE a >= ? ORDER BY a")) {
        p.setFetchSize(3);
        p.setLong(1, 10);
        int seen = 0;
        try (ResultSet rows = p.executeQuery()) {
            while (rows.next()) {
                if (seen == 0 && round == 6) {
                    System.out.println(rows.getLong(1) + "|" + rows.getString(2) + "|"
                        + rows.getObject(3, LocalDate.class) + "|" + rows.getBigDecimal(4) + "|"
                        + rows.getBoolean(5));
                }
                seen++;
            }
        }
        if (seen != 10) throw new AssertionError(seen);
    }
}
c.commit();
c.setAutoCommit(true);
try (Statement s = c.createStatement()) {
    s.execute("INSERT INTO made (a) VALUES (1)");
} catch (SQLException refused) {
    System.out.println(refused.getSQLState());
}
ResultSetMetaData of = c.prepareStatement("SELECT a, p FROM made").getMetaData();
System.out.println(of.getColumnName(1) + " " + of.getColumnTypeName(1) + " " + of.getColumnTypeName(2));
System.out.println(c.isValid(5));
"#,
    );
    let Some(shown) = shown else {
        return;
    };
    assert_eq!(
        shown,
        "20\n10|it's 10|2024-02-29|12.34|true\n23505\na int8 numeric\ntrue\n"
    );
}
