-- Functions of PostgreSQL for DuckDB. Tables of the schema `known` are filled by content.py.
-- Their tables have the alias "?", so that no argument can mean a column of theirs.

-- Texts and arrays that grow have a limit in each row: DuckDB computes 2,048 rows at once, and does not count their memory.
-- A lambda takes each argument once.
CREATE MACRO f_characters() AS coalesce(getvariable('characters'), 65536);
CREATE MACRO f_elements() AS coalesce(getvariable('elements'), 2000);
CREATE MACRO f_too_long() AS error(printf('a text of this statement has at most %d characters, and an array at most %d elements; divide the statement', f_characters(), f_elements()));
CREATE MACRO f_joined(parts) AS list_transform([parts], lambda p: CASE WHEN len(list_filter(p, lambda t: t IS NULL)) > 0 THEN NULL WHEN list_sum(list_transform(p, lambda t: length(t))) > f_characters() THEN f_too_long() ELSE array_to_string(p, '') END)[1];
CREATE MACRO f_replace(s, a, b) AS list_transform([[s::VARCHAR, a::VARCHAR, b::VARCHAR]], lambda p: CASE WHEN length(p[1]) * greatest(1, length(p[3])) > f_characters() THEN f_too_long() ELSE replace(p[1], p[2], p[3]) END)[1];
CREATE MACRO f_regexp_replace(s, a, b) AS list_transform([[s::VARCHAR, a::VARCHAR, b::VARCHAR]], lambda p: CASE WHEN (1 + length(p[1])) * greatest(16, length(p[3])) > f_characters() THEN f_too_long() ELSE regexp_replace(p[1], p[2], p[3]) END)[1], (s, a, b, o) AS list_transform([[s::VARCHAR, a::VARCHAR, b::VARCHAR]], lambda p: CASE WHEN (1 + length(p[1])) * greatest(16, length(p[3])) > f_characters() THEN f_too_long() ELSE regexp_replace(p[1], p[2], p[3], o) END)[1];
CREATE MACRO f_array_to_string(a, s) AS list_transform([a], lambda p: CASE WHEN list_sum(list_transform(p, lambda t: length(t::VARCHAR))) + len(p) * length(s) > f_characters() THEN f_too_long() ELSE array_to_string(p, s) END)[1];
CREATE MACRO f_string_to_array(s, d) AS list_transform([{'s': s::VARCHAR, 'd': d::VARCHAR}], lambda p: CASE WHEN length(p.s) > f_elements() THEN f_too_long() ELSE string_split(p.s, p.d) END)[1];
CREATE MACRO f_series(a, b) AS list_transform([{'a': a::BIGINT, 'b': b::BIGINT}], lambda p: CASE WHEN p.b - p.a > f_elements() THEN f_too_long() ELSE generate_series(p.a, p.b) END)[1], (a, b, c) AS list_transform([{'a': a::BIGINT, 'b': b::BIGINT, 'c': c::BIGINT}], lambda p: CASE WHEN abs((p.b - p.a) // p.c) > f_elements() THEN f_too_long() ELSE generate_series(p.a, p.b, p.c) END)[1];
CREATE MACRO f_list_concat(a, b) AS list_transform([{'a': a, 'b': b}], lambda p: CASE WHEN len(p.a) + len(p.b) > f_elements() THEN f_too_long() ELSE list_concat(p.a, p.b) END)[1];
CREATE MACRO f_list_append(a, b) AS list_transform([{'a': a, 'b': b}], lambda p: CASE WHEN len(p.a) > f_elements() THEN f_too_long() ELSE list_append(p.a, p.b) END)[1];
CREATE MACRO f_texts_size(a) AS list_sum(list_transform(a, lambda t: strlen(t)));
CREATE MACRO f_texts_concat(a, b) AS list_transform([{'a': a, 'b': b}], lambda p: CASE WHEN len(p.a) + len(p.b) > f_elements() OR f_texts_size(p.a) + f_texts_size(p.b) > f_characters() THEN f_too_long() ELSE list_concat(p.a, p.b) END)[1];
CREATE MACRO f_texts_append(a, b) AS list_transform([{'a': a, 'b': b}], lambda p: CASE WHEN len(p.a) > f_elements() OR f_texts_size(p.a) > f_characters() THEN f_too_long() ELSE list_append(p.a, p.b) END)[1];
CREATE MACRO f_texts_prepend(a, b) AS list_transform([{'a': a, 'b': b}], lambda p: CASE WHEN len(p.b) > f_elements() OR f_texts_size(p.b) > f_characters() THEN f_too_long() ELSE list_prepend(p.a, p.b) END)[1];
CREATE MACRO f_checked_array(a) AS list_transform([a], lambda p: CASE WHEN len(p) > f_elements() THEN f_too_long() ELSE p END)[1];
CREATE MACRO f_short_text(t) AS list_transform([t::VARCHAR], lambda p: CASE WHEN length(p) * 16 > f_characters() THEN f_too_long() ELSE p END)[1];
CREATE MACRO f_checked_text(t) AS list_transform([t], lambda p: CASE WHEN length(p) > f_characters() THEN f_too_long() ELSE p END)[1];
CREATE MACRO f_list_prepend(a, b) AS list_transform([{'a': a, 'b': b}], lambda p: CASE WHEN len(p.b) > f_elements() THEN f_too_long() ELSE list_prepend(p.a, p.b) END)[1];

CREATE MACRO f_version() AS getvariable('version');
CREATE MACRO f_current_setting(s) AS getvariable('settings')[lower(s::VARCHAR)], (s, missing_ok) AS getvariable('settings')[lower(s::VARCHAR)];

CREATE MACRO f_pg_table_is_visible(o) AS (o::UINTEGER IN (SELECT "?".oid FROM known.visible AS "?"));
CREATE MACRO f_pg_type_is_visible(o) AS true;
CREATE MACRO f_pg_function_is_visible(o) AS true;
CREATE MACRO f_pg_operator_is_visible(o) AS true;
CREATE MACRO f_pg_opclass_is_visible(o) AS true;
CREATE MACRO f_pg_collation_is_visible(o) AS true;
CREATE MACRO f_pg_conversion_is_visible(o) AS true;
CREATE MACRO f_pg_statistics_obj_is_visible(o) AS true;
CREATE MACRO f_pg_ts_config_is_visible(o) AS true;
CREATE MACRO f_pg_ts_dict_is_visible(o) AS true;
CREATE MACRO f_pg_ts_parser_is_visible(o) AS true;
CREATE MACRO f_pg_ts_template_is_visible(o) AS true;

CREATE MACRO f_format_type(o, m) AS (SELECT (CASE WHEN m >= 0 AND "?".oid = 1700 THEN 'numeric(' || ((m - 4) // 65536) || ',' || ((m - 4) % 65536) || ')' WHEN m >= 0 AND "?".oid IN (1042, 1043) THEN "?".shown || '(' || (m - 4) || ')' ELSE "?".shown END) FROM known.types AS "?" WHERE "?".oid = o::UINTEGER);
CREATE MACRO f_quote_ident(s) AS CASE WHEN regexp_full_match(s::VARCHAR, '[a-z_][a-z0-9_$]*') AND s::VARCHAR NOT IN (SELECT "?".word FROM known.reserved AS "?") THEN s::VARCHAR WHEN length(s::VARCHAR) > 10000 THEN f_too_long() ELSE '"' || replace(s::VARCHAR, '"', '""') || '"' END;
CREATE MACRO f_parse_ident(s) AS f_string_to_array(replace(s::VARCHAR, '"', ''), '.');
CREATE MACRO f_quote_literal(s) AS CASE WHEN length(s::VARCHAR) > 10000 THEN f_too_long() ELSE '''' || replace(s::VARCHAR, '''', '''''') || '''' END;

CREATE MACRO f_to_regclass(s) AS CASE WHEN s IS NULL THEN NULL ELSE coalesce(try_cast(s::VARCHAR AS UINTEGER), (SELECT min("?".oid) FROM known.names AS "?" WHERE "?".name = CASE WHEN contains(s::VARCHAR, '"') THEN replace(s::VARCHAR, '" . "', '"."') ELSE lower(s::VARCHAR) END)) END;
CREATE MACRO f_to_regtype(s) AS CASE WHEN s IS NULL THEN NULL ELSE coalesce(try_cast(s::VARCHAR AS UINTEGER), (SELECT min("?".oid) FROM known.types AS "?" WHERE "?".shown = replace(lower(s::VARCHAR), 'pg_catalog.', '') OR "?".name = replace(replace(lower(s::VARCHAR), 'pg_catalog.', ''), '"', ''))) END;
CREATE MACRO f_to_regproc(s) AS CASE WHEN s IS NULL THEN NULL WHEN s::VARCHAR = '-' THEN 0 ELSE coalesce(try_cast(s::VARCHAR AS UINTEGER), (SELECT min("?".oid) FROM cat.pg_proc AS "?" WHERE "?".proname = replace(lower(s::VARCHAR), 'pg_catalog.', ''))) END;
CREATE MACRO f_to_regnamespace(s) AS CASE WHEN s IS NULL THEN NULL ELSE coalesce(try_cast(s::VARCHAR AS UINTEGER), (SELECT min("?".oid) FROM cat.pg_namespace AS "?" WHERE "?".nspname = s::VARCHAR)) END;
CREATE MACRO f_to_regrole(s) AS CASE WHEN s IS NULL THEN NULL ELSE coalesce(try_cast(s::VARCHAR AS UINTEGER), 10) END;
CREATE MACRO f_regclass_text(o) AS CASE WHEN o IS NULL THEN NULL WHEN o = 0 THEN '-' ELSE coalesce((SELECT "?".shown FROM known.shown AS "?" WHERE "?".oid = o), o::VARCHAR) END;
CREATE MACRO f_regtype_text(o) AS CASE WHEN o IS NULL THEN NULL WHEN o = 0 THEN '-' ELSE coalesce((SELECT "?".shown FROM known.types AS "?" WHERE "?".oid = o), o::VARCHAR) END;
CREATE MACRO f_regproc_text(o) AS CASE WHEN o IS NULL THEN NULL WHEN o = 0 THEN '-' ELSE coalesce((SELECT "?".proname FROM cat.pg_proc AS "?" WHERE "?".oid = o), o::VARCHAR) END;
CREATE MACRO f_regnamespace_text(o) AS CASE WHEN o IS NULL THEN NULL WHEN o = 0 THEN '-' ELSE coalesce((SELECT "?".nspname FROM cat.pg_namespace AS "?" WHERE "?".oid = o), o::VARCHAR) END;
CREATE MACRO f_regrole_text(o) AS CASE WHEN o IS NULL THEN NULL WHEN o = 0 THEN '-' WHEN o = 10 THEN getvariable('user')::VARCHAR ELSE o::VARCHAR END;

CREATE MACRO f_pg_get_expr(e, r) AS e::VARCHAR, (e, r, p) AS e::VARCHAR;
CREATE MACRO f_pg_get_viewdef(o) AS (SELECT "?".definition FROM known.definitions AS "?" WHERE "?".oid = f_to_regclass(o)), (o, p) AS (SELECT "?".definition FROM known.definitions AS "?" WHERE "?".oid = f_to_regclass(o));
CREATE MACRO f_pg_get_constraintdef(o) AS (SELECT "?".definition FROM known.constraints AS "?" WHERE "?".oid = o::UINTEGER), (o, p) AS (SELECT "?".definition FROM known.constraints AS "?" WHERE "?".oid = o::UINTEGER);
CREATE MACRO f_pg_get_indexdef(o) AS (SELECT "?".definition FROM known.indexes AS "?" WHERE "?".oid = o::UINTEGER), (o, k, p) AS (SELECT CASE WHEN k = 0 THEN "?".definition ELSE "?".columns[k] END FROM known.indexes AS "?" WHERE "?".oid = o::UINTEGER);
CREATE MACRO f_pg_get_triggerdef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_ruledef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_partkeydef(o) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_partition_constraintdef(o) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_statisticsobjdef_columns(o) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_function_result(o) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_function_arguments(o) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_function_identity_arguments(o) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_functiondef(o) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_function_sqlbody(o) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_serial_sequence(t, c) AS NULL::VARCHAR;
CREATE MACRO f_pg_get_userbyid(o) AS CASE WHEN o = 10 THEN getvariable('user')::VARCHAR ELSE 'unknown (OID=' || o || ')' END;
CREATE MACRO f_obj_description(o) AS (SELECT "?".description FROM cat.pg_description AS "?" WHERE "?".objoid = o::UINTEGER AND "?".objsubid = 0), (o, c) AS (SELECT "?".description FROM cat.pg_description AS "?" WHERE "?".objoid = o::UINTEGER AND "?".objsubid = 0);
CREATE MACRO f_col_description(o, n) AS (SELECT "?".description FROM cat.pg_description AS "?" WHERE "?".objoid = o::UINTEGER AND "?".objsubid = n);
CREATE MACRO f_shobj_description(o, c) AS NULL::VARCHAR;

CREATE MACRO f_pg_encoding_to_char(n) AS CASE n WHEN 6 THEN 'UTF8' WHEN 0 THEN 'SQL_ASCII' ELSE '' END;
CREATE MACRO f_pg_char_to_encoding(s) AS CASE WHEN upper(s::VARCHAR) IN ('UTF8', 'UTF-8', 'UNICODE') THEN 6 ELSE -1 END;
CREATE MACRO f_pg_client_encoding() AS 'UTF8';
CREATE MACRO f_getdatabaseencoding() AS 'UTF8';

CREATE MACRO f_has_table_privilege(t, p) AS upper(p::VARCHAR) LIKE '%SELECT%', (u, t, p) AS upper(p::VARCHAR) LIKE '%SELECT%';
CREATE MACRO f_has_schema_privilege(t, p) AS upper(p::VARCHAR) LIKE '%USAGE%', (u, t, p) AS upper(p::VARCHAR) LIKE '%USAGE%';
CREATE MACRO f_has_database_privilege(t, p) AS upper(p::VARCHAR) LIKE '%CONNECT%', (u, t, p) AS upper(p::VARCHAR) LIKE '%CONNECT%';
CREATE MACRO f_has_column_privilege(t, c, p) AS upper(p::VARCHAR) LIKE '%SELECT%', (u, t, c, p) AS upper(p::VARCHAR) LIKE '%SELECT%';
CREATE MACRO f_has_any_column_privilege(t, p) AS upper(p::VARCHAR) LIKE '%SELECT%', (u, t, p) AS upper(p::VARCHAR) LIKE '%SELECT%';
CREATE MACRO f_has_function_privilege(t, p) AS true, (u, t, p) AS true;
CREATE MACRO f_has_sequence_privilege(t, p) AS false, (u, t, p) AS false;
CREATE MACRO f_has_tablespace_privilege(t, p) AS false, (u, t, p) AS false;
CREATE MACRO f_has_type_privilege(t, p) AS true, (u, t, p) AS true;
CREATE MACRO f_pg_has_role(r, p) AS true, (u, r, p) AS true;
CREATE MACRO f_row_security_active(o) AS false;
CREATE MACRO f_pg_relation_is_publishable(o) AS false;
CREATE MACRO f_pg_relation_is_updatable(o, t) AS 0;
CREATE MACRO f_pg_column_is_updatable(o, n, t) AS false;

CREATE MACRO f_pg_relation_size(o) AS 0::BIGINT, (o, f) AS 0::BIGINT;
CREATE MACRO f_pg_table_size(o) AS 0::BIGINT;
CREATE MACRO f_pg_total_relation_size(o) AS 0::BIGINT;
CREATE MACRO f_pg_indexes_size(o) AS 0::BIGINT;
CREATE MACRO f_pg_database_size(o) AS 0::BIGINT;
CREATE MACRO f_pg_tablespace_size(o) AS 0::BIGINT;
CREATE MACRO f_pg_opfamily_is_visible(o) AS true;
CREATE MACRO f_pg_describe_object(c, o, s) AS NULL::VARCHAR;
CREATE MACRO f_pg_size_pretty(n) AS n || ' bytes';
CREATE MACRO f_pg_tablespace_location(o) AS '';

CREATE MACRO f_pg_is_in_recovery() AS false;
CREATE MACRO f_pg_is_other_temp_schema(o) AS false;
CREATE MACRO f_pg_my_temp_schema() AS 0::UINTEGER;
CREATE MACRO f_pg_backend_pid() AS getvariable('pid')::INTEGER;
CREATE MACRO f_pg_postmaster_start_time() AS getvariable('started')::TIMESTAMPTZ;
CREATE MACRO f_pg_conf_load_time() AS getvariable('started')::TIMESTAMPTZ;
CREATE MACRO f_clock_timestamp() AS now();
CREATE MACRO f_statement_timestamp() AS now();
CREATE MACRO f_transaction_timestamp() AS now();
CREATE MACRO f_txid_current() AS 1::BIGINT;
CREATE MACRO f_txid_current_if_assigned() AS NULL::BIGINT;
CREATE MACRO f_pg_blocking_pids(p) AS []::INTEGER[];
CREATE MACRO f_age(x) AS 0;
CREATE MACRO f_mxid_age(x) AS 0;
CREATE MACRO f_inet_server_addr() AS NULL::VARCHAR;
CREATE MACRO f_inet_server_port() AS NULL::INTEGER;
CREATE MACRO f_inet_client_addr() AS NULL::VARCHAR;
CREATE MACRO f_inet_client_port() AS NULL::INTEGER;
CREATE MACRO f_pg_stat_get_numscans(o) AS 0::BIGINT;
CREATE MACRO f_pg_index_column_has_property(i, c, p) AS p::VARCHAR IN ('asc', 'nulls_last', 'orderable', 'search_array', 'search_nulls', 'returnable');
CREATE MACRO f_pg_index_has_property(i, p) AS p::VARCHAR IN ('clusterable', 'index_scan', 'bitmap_scan', 'backward_scan');
CREATE MACRO f_pg_indexam_has_property(a, p) AS p::VARCHAR IN ('can_order', 'can_unique', 'can_multi_col', 'can_exclude', 'can_include');

CREATE MACRO f_array_upper(a, d) AS CASE WHEN d = 1 THEN nullif(len(a), 0)::INTEGER END;
CREATE MACRO f_array_lower(a, d) AS CASE WHEN d = 1 AND len(a) > 0 THEN 1 END;
CREATE MACRO f_array_length(a, d) AS CASE WHEN d = 1 THEN nullif(len(a), 0)::INTEGER END;
CREATE MACRO f_array_ndims(a) AS CASE WHEN len(a) > 0 THEN 1 END;
CREATE MACRO f_cardinality(a) AS len(a)::INTEGER;
CREATE MACRO f__pg_expandarray(a) AS unnest(list_transform(range(len(a)), lambda i: {'x': a[i + 1], 'n': (i + 1)::INTEGER}));
CREATE MACRO f_json_value(v) AS CASE WHEN v IS NULL THEN 'null' WHEN length(v::VARCHAR) > 10000 THEN f_too_long() WHEN typeof(v) = 'VARCHAR' THEN '"' || replace(replace(v::VARCHAR, '\', '\\'), '"', '\"') || '"' ELSE v::VARCHAR END;
CREATE MACRO f_array_text(a) AS '{' || f_array_to_string(a, ',') || '}';
