//! Keys, checks and defaults of tables, as clients read them from the catalog.

use super::support::{Server, printed};

/// Tables with everything that a declaration can say.
const DECLARED: &str = "\
CREATE TABLE ordered (
  id INT PRIMARY KEY,
  code VARCHAR(12) NOT NULL UNIQUE,
  price DECIMAL(10, 2) DEFAULT 1.50,
  region TEXT DEFAULT 'north',
  CONSTRAINT dear CHECK (price > 0 AND id > 0)
);
CREATE SCHEMA shop;
CREATE TABLE shop.lines (part INT, ordered INT, n BIGINT, UNIQUE (n, part), PRIMARY KEY (ordered, part));";

/// What psql prints with headings and footers.
fn described(server: &Server, text: &str) -> String {
    let mut psql = server.psql("tester").unwrap();
    psql.args(["-P", "tuples_only=off", "-c", text]);
    printed(&psql.output().unwrap())
}

#[test]
fn psql_describes_keys_checks_and_defaults() {
    let Some(server) = Server::with_tables(DECLARED) else {
        return;
    };
    for (text, parts) in [
        (
            "\\d ordered",
            &[
                "id|integer||not null|\n",
                "code|character varying(12)||not null|\n",
                "price|numeric(10,2)|||1.50\n",
                "region|text|||'north'\n",
                "\"ordered_pkey\" PRIMARY KEY, btree (id)",
                "\"ordered_code_key\" UNIQUE CONSTRAINT, btree (code)",
                "\"dear\" CHECK (price > 0 AND id > 0)",
            ][..],
        ),
        (
            "\\d shop.lines",
            &[
                "\"lines_pkey\" PRIMARY KEY, btree (ordered, part)",
                "\"lines_n_part_key\" UNIQUE CONSTRAINT, btree (n, part)",
            ],
        ),
        ("\\di", &["public|ordered_pkey|index|", "|ordered\n"]),
        ("\\d t", &["a|bigint|||\n", "b|text|||\n"]),
        (
            "ALTER TABLE ordered DROP CONSTRAINT dear; ALTER TABLE ordered ALTER COLUMN region DROP DEFAULT",
            &[],
        ),
        ("\\d ordered", &["region|text|||\n"]),
    ] {
        let shown = described(&server, text);
        for part in parts {
            assert!(shown.contains(part), "{text}: {part} is not in\n{shown}");
        }
    }
    let shown = described(&server, "\\d ordered");
    assert!(!shown.contains("dear"), "{shown}");
}

#[test]
fn queries_of_tools_find_the_keys() {
    let Some(server) = Server::with_tables(DECLARED) else {
        return;
    };
    for (text, expected) in QUERIES {
        let mut psql = server.psql("tester").unwrap();
        let rows = printed(&psql.args(["-c", text]).output().unwrap());
        assert_eq!(rows, expected, "{text}");
    }
}

/// In the forms in which drivers and tools ask.
const QUERIES: [(&str, &str); 12] = [
    // By the positions of the columns of an index.
    (
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_index i \
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) \
         WHERE i.indrelid = 'ordered'::regclass AND i.indisprimary",
        "id|integer\n",
    ),
    (
        "SELECT result.column_name, result.key_seq, result.pk_name FROM \
         (SELECT a.attname AS COLUMN_NAME, (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, \
         ci.relname AS PK_NAME, information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM \
         FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid) \
         JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid) \
         JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid) \
         JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) \
         WHERE true AND n.nspname = 'shop' AND ct.relname = 'lines' AND i.indisprimary) result \
         WHERE result.A_ATTNUM = (result.KEYS).x ORDER BY result.pk_name, result.key_seq",
        "ordered|1|lines_pkey\npart|2|lines_pkey\n",
    ),
    (
        "SELECT a.attname FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid) \
         JOIN (SELECT i.indexrelid, i.indrelid, i.indisprimary, \
         information_schema._pg_expandarray(i.indkey) AS keys FROM pg_catalog.pg_index i) i \
         ON (a.attnum = (i.keys).x AND a.attrelid = i.indrelid) \
         WHERE ct.relname = 'lines' AND i.indisprimary ORDER BY (i.keys).n",
        "ordered\npart\n",
    ),
    // By the positions of the columns of a constraint.
    (
        "SELECT conname, contype, conkey, pg_get_constraintdef(oid) FROM pg_constraint \
         WHERE conrelid = 'shop.lines'::regclass ORDER BY conname",
        "lines_n_part_key|u|{3,1}|UNIQUE (n, part)\nlines_pkey|p|{2,1}|PRIMARY KEY (ordered, part)\n",
    ),
    (
        "SELECT c.conname, c.contype, array_length(c.conkey, 1), c.conkey[1] FROM pg_catalog.pg_constraint c \
         JOIN pg_catalog.pg_class t ON t.oid = c.conrelid WHERE t.relname = 'ordered' ORDER BY 1",
        "dear|c|2|1\nordered_code_key|u|1|2\nordered_pkey|p|1|1\n",
    ),
    // Also by a query without the name of the schema in the words that the rewriter looks for.
    (
        "SELECT k.conname, a.attname FROM (SELECT conname, conrelid, unnest(conkey) AS attnum, \
         generate_subscripts(conkey, 1) AS ord FROM pg_constraint) k \
         JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.attnum \
         WHERE k.conname LIKE 'lines%' ORDER BY k.conname, k.ord",
        "lines_n_part_key|n\nlines_n_part_key|part\nlines_pkey|ordered\nlines_pkey|part\n",
    ),
    (
        "SELECT tc.constraint_type, kcu.column_name, kcu.ordinal_position \
         FROM information_schema.table_constraints tc JOIN information_schema.key_column_usage kcu \
         ON tc.constraint_name = kcu.constraint_name AND tc.table_schema = kcu.table_schema \
         WHERE tc.table_name = 'lines' ORDER BY 1, 3",
        "PRIMARY KEY|ordered|1\nPRIMARY KEY|part|2\nUNIQUE|n|1\nUNIQUE|part|2\n",
    ),
    (
        "SELECT constraint_name, check_clause FROM information_schema.check_constraints",
        "dear|price > 0 AND id > 0\n",
    ),
    (
        "SELECT column_name, ordinal_position, column_default, is_nullable, data_type, \
         character_maximum_length, numeric_precision, numeric_scale, udt_name \
         FROM information_schema.columns WHERE table_name = 'ordered' ORDER BY ordinal_position",
        "id|1||NO|integer||32|0|int4\n\
         code|2||NO|character varying|12|||varchar\n\
         price|3|1.50|YES|numeric||10|2|numeric\n\
         region|4|'north'|YES|text||||text\n",
    ),
    (
        "SELECT count(*) FROM information_schema.referential_constraints",
        "0\n",
    ),
    (
        "SELECT pg_get_indexdef(indexrelid), pg_get_indexdef(indexrelid, 2, false) FROM pg_index \
         WHERE indrelid = 'shop.lines'::regclass AND indisprimary",
        "CREATE UNIQUE INDEX lines_pkey ON shop.lines USING btree (ordered, part)|part\n",
    ),
    (
        "SELECT c.relname, c.relhasindex, c.relchecks FROM pg_class c \
         WHERE c.relname IN ('ordered', 't') ORDER BY 1",
        "ordered|t|1\nt|f|0\n",
    ),
];

#[test]
fn constraints_come_and_go_with_their_tables() {
    let Some(server) = Server::with_tables(DECLARED) else {
        return;
    };
    let count = || {
        let mut psql = server.psql("tester").unwrap();
        let text = "SELECT (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_index), \
                    (SELECT count(*) FROM pg_attrdef), (SELECT count(*) FROM pg_class WHERE relkind = 'i')";
        printed(&psql.args(["-c", text]).output().unwrap())
    };
    assert_eq!(count(), "5|4|2|4\n");
    for (text, expected) in [
        (
            "ALTER TABLE ordered DROP CONSTRAINT ordered_code_key",
            "4|3|2|3\n",
        ),
        (
            "ALTER TABLE ordered ADD CONSTRAINT one UNIQUE (code)",
            "5|4|2|4\n",
        ),
        ("DROP TABLE shop.lines", "3|2|2|2\n"),
        (
            "CREATE OR REPLACE TABLE ordered (a INT DEFAULT 1)",
            "0|0|1|0\n",
        ),
    ] {
        let mut psql = server.psql("tester").unwrap();
        printed(&psql.args(["-c", text]).output().unwrap());
        assert_eq!(count(), expected, "{text}");
    }
}

#[test]
fn sqlalchemy_reflects_keys_checks_and_defaults() {
    let Some(server) = Server::with_tables(DECLARED) else {
        return;
    };
    let Some(output) = server.python(
        &["sqlalchemy", "psycopg"],
        r#"
import sqlalchemy as sa
from sqlalchemy.ext.automap import automap_base
e = sa.create_engine(f"postgresql+psycopg://ada@127.0.0.1:{PORT}/tierloom")
see = sa.inspect(e)
key = see.get_pk_constraint("ordered")
assert (key["constrained_columns"], key["name"]) == (["id"], "ordered_pkey"), key
key = see.get_pk_constraint("lines", schema="shop")
assert key["constrained_columns"] == ["ordered", "part"], key
assert see.get_pk_constraint("t")["constrained_columns"] == []
unique = see.get_unique_constraints("ordered")
assert [(u["name"], u["column_names"]) for u in unique] == [("ordered_code_key", ["code"])], unique
unique = see.get_unique_constraints("lines", schema="shop")
assert [u["column_names"] for u in unique] == [["n", "part"]], unique
checks = see.get_check_constraints("ordered")
assert [(c["name"], c["sqltext"]) for c in checks] == [("dear", "price > 0 AND id > 0")], checks
assert see.get_foreign_keys("ordered") == []
indexes = see.get_indexes("ordered")
assert [(i["name"], i["column_names"], i["unique"]) for i in indexes] == [
    ("ordered_code_key", ["code"], True)], indexes
columns = {c["name"]: c for c in see.get_columns("ordered")}
assert columns["id"]["nullable"] is False and columns["region"]["nullable"] is True, columns
assert columns["price"]["default"] == "1.50" and columns["region"]["default"] == "'north'", columns
assert columns["code"]["default"] is None and columns["code"]["type"].length == 12, columns
assert (columns["price"]["type"].precision, columns["price"]["type"].scale) == (10, 2), columns
# Classes are made of tables that have a primary key.
base = automap_base()
base.prepare(autoload_with=e)
assert "ordered" in base.classes and "t" not in base.classes, list(base.classes.keys())
with sa.orm.Session(e) as s:
    s.add(base.classes.ordered(id=7, code="x"))
    s.commit()
    row = s.get(base.classes.ordered, 7)
    assert (row.region, str(row.price)) == ("north", "1.50"), row.__dict__
print("done")
"#,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}
