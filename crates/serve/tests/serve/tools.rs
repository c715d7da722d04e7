//! Questions that tools are known to ask of the catalog: psql's own commands, Grafana, Metabase,
//! DBeaver, DataGrip, pgcli, Rails, Django and DuckDB.

use super::support::{Server, printed};

const DECLARED: &str = "\
CREATE TABLE ordered (
  id INT PRIMARY KEY,
  code VARCHAR(12) NOT NULL UNIQUE,
  price DECIMAL(10, 2) DEFAULT 1.50,
  region TEXT DEFAULT 'north',
  CONSTRAINT dear CHECK (price > 0 AND id > 0)
);
CREATE VIEW seen AS SELECT id FROM ordered;";

/// Who asks, what, and parts of the answer.
const QUESTIONS: [(&str, &str, &[&str]); 35] = [
    (
        "grafana version",
        r#"SELECT current_setting('server_version_num')::int/100 as version"#,
        &["1600\n"],
    ),
    (
        "grafana timescale",
        r#"SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'"#,
        &[],
    ),
    (
        "grafana tables",
        r#"SELECT CASE WHEN quote_ident(table_schema) IN ( SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series( array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1) ) as i, string_to_array(current_setting('search_path'),',') s ) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache') ORDER BY CASE WHEN quote_ident(table_schema) IN ( SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series( array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1) ) as i, string_to_array(current_setting('search_path'),',') s ) THEN 0 ELSE 1 END, 1"#,
        &["\nordered\n", "t\n"],
    ),
    (
        "grafana columns",
        r#"SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE CASE WHEN array_length(parse_ident('ordered'),1) = 2 THEN quote_ident(table_schema) = (parse_ident('ordered'))[1] AND quote_ident(table_name) = (parse_ident('ordered'))[2] ELSE quote_ident(table_name) = 'ordered' AND quote_ident(table_schema) IN ( SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series( array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1) ) as i, string_to_array(current_setting('search_path'),',') s ) END"#,
        &["id|integer\ncode|character varying\nprice|numeric\nregion|text\n"],
    ),
    (
        "metabase fields",
        r#"SELECT "c"."column_name" AS "name", CASE WHEN "c"."udt_schema" IN ('public', 'pg_catalog') THEN FORMAT('%s', "c"."udt_name") ELSE FORMAT('"%s"."%s"', "c"."udt_schema", "c"."udt_name") END AS "database-type", "c"."ordinal_position" - 1 AS "database-position", "c"."table_schema" AS "table-schema", "c"."table_name" AS "table-name", "pk"."column_name" IS NOT NULL AS "pk?", COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST("c"."table_schema" AS TEXT), CAST("c"."table_name" AS TEXT)) AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment", (("column_default" IS NULL) OR (LOWER("column_default") = 'null')) AND ("is_nullable" = 'NO') AND NOT ((("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%')) OR ("is_identity" <> 'NO')) AS "database-required", (("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%')) OR ("is_identity" <> 'NO') AS "database-is-auto-increment" FROM "information_schema"."columns" AS "c" LEFT JOIN (SELECT "tc"."table_schema", "tc"."table_name", "kc"."column_name" FROM "information_schema"."table_constraints" AS "tc" INNER JOIN "information_schema"."key_column_usage" AS "kc" ON ("tc"."constraint_name" = "kc"."constraint_name") AND ("tc"."table_schema" = "kc"."table_schema") AND ("tc"."table_name" = "kc"."table_name") WHERE "tc"."constraint_type" = 'PRIMARY KEY') AS "pk" ON ("c"."table_schema" = "pk"."table_schema") AND ("c"."table_name" = "pk"."table_name") AND ("c"."column_name" = "pk"."column_name") WHERE "c"."table_schema" !~ '^information_schema|catalog_history|pg_' AND ("c"."table_schema" IN ('public')) AND "c"."table_name" IN ('ordered') UNION ALL SELECT "pa"."attname" AS "name", CASE WHEN "ptn"."nspname" IN ('public', 'pg_catalog') THEN FORMAT('%s', "pt"."typname") ELSE FORMAT('"%s"."%s"', "ptn"."nspname", "pt"."typname") END AS "database-type", "pa"."attnum" - 1 AS "database-position", "pn"."nspname" AS "table-schema", "pc"."relname" AS "table-name", FALSE AS "pk?", NULL AS "field-comment", FALSE AS "database-required", FALSE AS "database-is-auto-increment" FROM "pg_catalog"."pg_class" AS "pc" INNER JOIN "pg_catalog"."pg_namespace" AS "pn" ON "pn"."oid" = "pc"."relnamespace" INNER JOIN "pg_catalog"."pg_attribute" AS "pa" ON "pa"."attrelid" = "pc"."oid" INNER JOIN "pg_catalog"."pg_type" AS "pt" ON "pt"."oid" = "pa"."atttypid" INNER JOIN "pg_catalog"."pg_namespace" AS "ptn" ON "ptn"."oid" = "pt"."typnamespace" WHERE ("pc"."relkind" = 'm') AND ("pa"."attnum" >= 1) AND ("pn"."nspname" IN ('public')) ORDER BY "table-schema" ASC, "table-name" ASC, "database-position" ASC"#,
        &[
            "id|int4|0|public|ordered|t||t|f\ncode|varchar|1|public|ordered|f||t|f\nprice|numeric|2|public|ordered|f||f|f\n",
        ],
    ),
    (
        "metabase tables",
        r#"SELECT "n"."nspname" AS "schema", "c"."relname" AS "name", CASE "c"."relkind" WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS "type", "d"."description" AS "description", NULLIF("stat"."n_live_tup", 0) AS "estimated_row_count" FROM "pg_catalog"."pg_class" AS "c" INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "c"."relnamespace" = "n"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "d" ON ("c"."oid" = "d"."objoid") AND ("d"."objsubid" = 0) AND ("d"."classoid" = CAST('pg_class' AS REGCLASS)) LEFT JOIN "pg_stat_user_tables" AS "stat" ON ("n"."nspname" = "stat"."schemaname") AND ("c"."relname" = "stat"."relname") WHERE ("c"."relnamespace" = "n"."oid") AND ("n"."nspname" !~ '^pg_') AND ("n"."nspname" <> 'information_schema') AND c.relkind in ('r', 'p', 'v', 'f', 'm') AND ("n"."nspname" IN ('public')) ORDER BY "type" ASC, "schema" ASC, "name" ASC"#,
        &["public|t|TABLE||3\n", "public|seen|VIEW||\n"],
    ),
    (
        "metabase privileges",
        r#"with table_privileges as ( select NULL as role, t.schemaname as schema, t.objectname as table, pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'update') as update, pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'select') as select, pg_catalog.has_table_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'delete') as delete from ( select schemaname, tablename as objectname from pg_catalog.pg_tables union select schemaname, viewname as objectname from pg_catalog.pg_views union select schemaname, matviewname as objectname from pg_catalog.pg_matviews ) t where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema' and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage') ) select t.* from table_privileges t"#,
        &["|public|ordered|t|t|t\n"],
    ),
    (
        "dbeaver databases",
        r#"SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate OR db.datname ='tierloom' ORDER BY db.datname"#,
        &["|tierloom|"],
    ),
    (
        "dbeaver keywords",
        r#"select string_agg(word, ',' ) from pg_catalog.pg_get_keywords() where word <> ALL ( '{a,abs,absolute,action,ada}'::text[] )"#,
        &["abort,"],
    ),
    (
        "dbeaver namespaces",
        r#"SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass ORDER BY nspname"#,
        &["|public|"],
    ),
    (
        "dbeaver types",
        r#"SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C') LIMIT 3"#,
        &["|name|"],
    ),
    (
        "dbeaver classes",
        r#"SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass WHERE c.relnamespace='public'::regnamespace AND c.relkind not in ('i','I','c')"#,
        &["|n|"],
    ),
    (
        "dbeaver attributes",
        r#"SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.oid='ordered'::regclass ORDER BY a.attnum"#,
        &["|price|1700|", "|1.50||"],
    ),
    (
        "dbeaver constraints",
        r#"SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, case when c.contype='c' then "substring"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass WHERE c.conrelid='ordered'::regclass ORDER BY c.oid"#,
        &["|ordered_pkey|", "|{1}|"],
    ),
    (
        "dbeaver indexes",
        r#"SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as tabrelname,dsc.description,pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr,pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size,pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid WHERE i.indrelid='ordered'::regclass ORDER BY tabrelname, c.relname"#,
        &["|ordered_code_key|", "|2|"],
    ),
    (
        "dbeaver tablespaces",
        r#"SELECT t.oid,t.*,pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid"#,
        &["pg_default"],
    ),
    (
        "datagrip databases",
        r#"select N.oid::bigint as id, datname as name, D.description, datistemplate as is_template, datallowconn as allow_connections, pg_catalog.pg_get_userbyid(N.datdba) as "owner" from pg_catalog.pg_database N left join pg_catalog.pg_shdescription D on N.oid = D.objoid order by case when datname = pg_catalog.current_database() then -1::bigint else N.oid::bigint end"#,
        &["|tierloom|"],
    ),
    (
        "datagrip schemas",
        r#"select N.oid::bigint as id, N.xmin as state_number, nspname as name, D.description, pg_catalog.pg_get_userbyid(N.nspowner) as "owner" from pg_catalog.pg_namespace N left join pg_catalog.pg_description D on N.oid = D.objoid order by case when nspname = pg_catalog.current_schema() then -1::bigint else N.oid::bigint end"#,
        &["|1|public|"],
    ),
    (
        "datagrip tables",
        r#"select T.relkind as table_kind, T.relname as table_name, T.oid as table_id, T.xmin as table_state_number, false as table_with_oids, T.reltablespace as tablespace_id, T.reloptions as options, T.relpersistence as persistence, (select pg_catalog.array_agg(inhparent::bigint order by inhseqno)::varchar from pg_catalog.pg_inherits where T.oid = inhrelid) as ancestors, (select pg_catalog.array_agg(inhrelid::bigint order by inhrelid)::varchar from pg_catalog.pg_inherits where T.oid = inhparent) as successors, T.relispartition as is_partition, pg_catalog.pg_get_partkeydef(T.oid) as partition_key, pg_catalog.pg_get_expr(T.relpartbound, T.oid) as partition_expression, T.relam am_id, pg_catalog.pg_get_userbyid(T.relowner) as "owner" from pg_catalog.pg_class T where relnamespace = 'public'::regnamespace and T.relkind in ('r', 'm', 'v', 'f', 'p') order by table_kind, table_id"#,
        &["r|ordered|"],
    ),
    (
        "datagrip constraints",
        r#"select T.oid table_id, relkind table_kind, C.oid::bigint con_id, C.xmin as con_state_id, conname con_name, contype con_kind, conkey con_columns, conindid index_id, confrelid ref_table_id, condeferrable is_deferrable, condeferred is_init_deferred, confupdtype on_update, confdeltype on_delete, connoinherit no_inherit, pg_catalog.pg_get_expr(conbin, T.oid) con_expression, confkey ref_columns, conexclop::int[] excl_operators, array(select unnest::regoper::varchar from unnest(conexclop)) excl_operators_str from pg_catalog.pg_constraint C join pg_catalog.pg_class T on C.conrelid = T.oid where relkind in ('r','v','f','p') and contype in ('p','u','f','c','x') and T.relname = 'ordered' order by strpos('pufcx', contype)"#,
        &["|ordered_pkey|p|{1}|", "|dear|c|{1,3}|"],
    ),
    (
        "rails pk",
        r#"SELECT a.attname FROM ( SELECT indrelid, indkey, generate_subscripts(indkey, 1) idx FROM pg_index WHERE indrelid = '"ordered"'::regclass AND indisprimary ) i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[i.idx] ORDER BY i.idx"#,
        &["id\n"],
    ),
    (
        "rails columns",
        r#"SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull, a.atttypid, a.atttypmod, c.collname, col_description(a.attrelid, a.attnum) AS comment, attidentity AS identity, attgenerated as attgenerated FROM pg_attribute a LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum LEFT JOIN pg_type t ON a.atttypid = t.oid LEFT JOIN pg_collation c ON a.attcollation = c.oid AND a.attcollation <> t.typcollation WHERE a.attrelid = '"ordered"'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"#,
        &[
            "code|character varying(12)||t|1043|16|",
            "price|numeric(10,2)|1.50|f|",
        ],
    ),
    (
        "rails indexes",
        r#"SELECT DISTINCT i.relname, d.indisunique, d.indkey, pg_get_indexdef(d.indexrelid), pg_catalog.obj_description(i.oid, 'pg_class') AS comment, d.indisvalid FROM pg_class t INNER JOIN pg_index d ON t.oid = d.indrelid INNER JOIN pg_class i ON d.indexrelid = i.oid LEFT JOIN pg_namespace n ON n.oid = t.relnamespace WHERE i.relkind IN ('i', 'I') AND d.indisprimary = 'f' AND t.relname = 'ordered' AND n.nspname = ANY (current_schemas(false)) ORDER BY i.relname"#,
        &[
            "ordered_code_key|t|2|CREATE UNIQUE INDEX ordered_code_key ON public.ordered USING btree (code)||t\n",
        ],
    ),
    (
        "django tables",
        r#"SELECT c.relname, CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END, obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast') AND pg_catalog.pg_table_is_visible(c.oid)"#,
        &["ordered|t|\n", "seen|v|\n"],
    ),
    (
        "django constraints",
        r#"SELECT c.conname, array( SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx) JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx ), c.contype, (SELECT fkc.relname || '.' || fka.attname FROM pg_attribute AS fka JOIN pg_class AS fkc ON fka.attrelid = fkc.oid WHERE fka.attrelid = c.confrelid AND fka.attnum = c.confkey[1]), cl.reloptions FROM pg_constraint AS c JOIN pg_class AS cl ON c.conrelid = cl.oid WHERE cl.relname = 'ordered' AND pg_catalog.pg_table_is_visible(cl.oid)"#,
        &["ordered_pkey|{id}|p|", "dear|{id,price}|c|"],
    ),
    (
        "migrations",
        r#"SELECT c.conname, a.attname, k.ord FROM pg_constraint c CROSS JOIN LATERAL unnest(c.conkey) WITH ORDINALITY AS k(attnum, ord) JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum ORDER BY 1, 3"#,
        &["dear|id|1\ndear|price|2\nordered_code_key|code|1\nordered_pkey|id|1\n"],
    ),
    (
        "pgcli views",
        r#"SELECT n.nspname schema_name, c.relname table_name FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = ANY('{v,m}') ORDER BY 1,2"#,
        &["public|seen\n"],
    ),
    (
        "duckdb union",
        r#"SELECT pg_namespace.oid AS namespace_id, relname, NULL relpages, NULL attname, attnum, pg_attribute.attnotnull AS notnull, NULL constraint_id, NULL constraint_type, NULL constraint_key FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid JOIN pg_attribute ON pg_class.oid=pg_attribute.attrelid WHERE attnum > 0 AND relkind IN ('r', 'v', 'm', 'f', 'p') AND relname = 'ordered' UNION ALL SELECT pg_namespace.oid AS namespace_id, relname, NULL relpages, NULL attname, NULL attnum, NULL AS notnull, pg_constraint.oid AS constraint_id, contype AS constraint_type, conkey AS constraint_key FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid JOIN pg_constraint ON (pg_class.oid=pg_constraint.conrelid) WHERE relkind IN ('r', 'v', 'm', 'f', 'p') AND contype IN ('p', 'u') ORDER BY namespace_id, relname, attnum, constraint_id"#,
        &["|p|{1}\n", "|u|{2}\n"],
    ),
    (
        "monitors",
        r#"SELECT pid, usename, state, query FROM pg_stat_activity WHERE state = 'active'"#,
        &["|tester|active|"],
    ),
    ("balancers", r#"SELECT pg_is_in_recovery()"#, &["f\n"]),
    (
        "indexes",
        r#"SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'ordered'"#,
        &["ordered_pkey|CREATE UNIQUE INDEX ordered_pkey ON public.ordered USING btree (id)\n"],
    ),
    (
        "sequences",
        r#"SELECT sequence_schema, sequence_name FROM information_schema.sequences"#,
        &[],
    ),
    (
        "views",
        r#"SELECT table_name, view_definition FROM information_schema.views WHERE table_schema = 'public'"#,
        &["seen|SELECT id FROM ordered"],
    ),
    (
        "schemata",
        r#"SELECT schema_name FROM information_schema.schemata ORDER BY 1"#,
        &["public\n"],
    ),
    (
        "psql 17",
        r#"SELECT c.relchecks, c.relkind, c.relhasindex, c.relhasrules, c.relhastriggers, c.relrowsecurity, c.relforcerowsecurity, false AS relhasoids, c.relispartition, pg_catalog.array_to_string(c.reloptions || array(select 'toast.' || x from pg_catalog.unnest(tc.reloptions) x), ', '), c.reltablespace, CASE WHEN c.reloftype = 0 THEN '' ELSE c.reloftype::pg_catalog.regtype::pg_catalog.text END, c.relpersistence, c.relreplident, am.amname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_class tc ON (c.reltoastrelid = tc.oid) LEFT JOIN pg_catalog.pg_am am ON (c.relam = am.oid) WHERE c.relname = 'ordered'"#,
        &["1|r|t|"],
    ),
];

#[test]
fn tools_find_what_they_ask_for() {
    let Some(server) = Server::with_tables(DECLARED) else {
        return;
    };
    for (who, text, parts) in QUESTIONS {
        let mut psql = server.psql("tester").unwrap();
        let rows = printed(&psql.args(["-c", text]).output().unwrap());
        for part in parts {
            assert!(rows.contains(part), "{who}: {part:?} is not in\n{rows}");
        }
    }
}

/// Commands of psql, and parts of what they show.
const COMMANDS: [(&str, &[&str]); 28] = [
    (
        "\\d+ ordered",
        &[
            "id|integer||not null|",
            "\"ordered_pkey\" PRIMARY KEY, btree (id)",
        ],
    ),
    ("\\d+ seen", &["id|integer|", "SELECT id FROM ordered"]),
    ("\\d ordered_pkey", &["id|integer|", "primary key, btree"]),
    ("\\dn+", &["public|"]),
    ("\\df", &[]),
    ("\\di+", &["public|ordered_pkey|index|", "|btree|"]),
    ("\\l+", &["tierloom|"]),
    ("\\dT", &[]),
    ("\\du", &[]),
    ("\\ds", &[]),
    ("\\dv+", &["public|seen|view|"]),
    ("\\dt+", &["public|n|table|", "|heap|"]),
    ("\\dm", &[]),
    ("\\dp", &["public|ordered|table|"]),
    ("\\db+", &["pg_default"]),
    ("\\dx", &[]),
    ("\\da", &[]),
    ("\\do", &[]),
    ("\\dD", &[]),
    ("\\dC", &[]),
    ("\\dF", &[]),
    ("\\dE", &[]),
    ("\\dy", &[]),
    ("\\des", &[]),
    ("\\dRp", &[]),
    ("\\dA", &["btree|Index"]),
    ("\\sv seen", &["SELECT id FROM ordered"]),
    ("\\z ordered", &["public|ordered|table|"]),
];

#[test]
fn commands_of_psql_show_what_there_is() {
    let Some(server) = Server::with_tables(DECLARED) else {
        return;
    };
    for (command, parts) in COMMANDS {
        let mut psql = server.psql("tester").unwrap();
        psql.args(["-P", "tuples_only=off", "-c", command]);
        let output = psql.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("ERROR"), "{command}: {said}");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        for part in parts {
            assert!(
                shown.contains(part),
                "{command}: {part:?} is not in\n{shown}"
            );
        }
    }
}
