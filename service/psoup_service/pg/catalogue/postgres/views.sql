-- Relations that follow from others. The first line of each names the columns that its SELECT gives, in order.

VIEW pg_catalog.pg_settings: name, setting, category, short_desc, context, vartype, source, boot_val, reset_val
SELECT entry.key, entry.value, 'Service', '', 'user', CASE WHEN entry.value IN ('on', 'off') THEN 'bool' ELSE 'string' END, 'default', entry.value, entry.value FROM (SELECT unnest(map_entries(getvariable('settings'))) AS entry);

VIEW pg_catalog.pg_cursors: name, statement, is_holdable, is_scrollable, creation_time
SELECT entry.key, regexp_replace(entry.value, '^\S+ \S+ ', ''), entry.value[1] = 't', entry.value[2] = 't', split_part(entry.value, ' ', 2)::TIMESTAMPTZ FROM (SELECT unnest(map_entries(getvariable('cursors'))) AS entry);

VIEW pg_catalog.pg_database: oid, datname, datdba, encoding, datlocprovider, datallowconn, datconnlimit, dattablespace, datcollate, datctype
SELECT 5, getvariable('database'), 10, 6, 'c', true, -1, 1663, 'C', 'C';

VIEW pg_catalog.pg_authid: oid, rolname, rolinherit, rolcanlogin, rolconnlimit
SELECT 10, getvariable('user'), true, true, -1;

VIEW pg_catalog.pg_roles: oid, rolname, rolinherit, rolcanlogin, rolconnlimit, rolpassword
SELECT 10, getvariable('user'), true, true, -1, '********';

VIEW pg_catalog.pg_user: usename, usesysid, passwd
SELECT getvariable('user'), 10, '********';

VIEW pg_catalog.pg_tables: schemaname, tablename, tableowner, hasindexes
SELECT n.nspname, c.relname, f_pg_get_userbyid(c.relowner), c.relhasindex FROM cat.pg_class c JOIN cat.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r';

VIEW pg_catalog.pg_views: schemaname, viewname, viewowner, definition
SELECT n.nspname, c.relname, f_pg_get_userbyid(c.relowner), d.definition FROM cat.pg_class c JOIN cat.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN known.definitions d ON d.oid = c.oid WHERE c.relkind = 'v';

VIEW pg_catalog.pg_indexes: schemaname, tablename, indexname, indexdef
SELECT n.nspname, t.relname, c.relname, d.definition FROM cat.pg_index i JOIN cat.pg_class c ON c.oid = i.indexrelid JOIN cat.pg_class t ON t.oid = i.indrelid JOIN cat.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN known.indexes d ON d.oid = c.oid;

VIEW information_schema.information_schema_catalog_name: catalog_name
SELECT getvariable('database');

VIEW information_schema.enabled_roles: role_name
SELECT getvariable('user');

VIEW information_schema.character_sets: character_set_name, character_repertoire, form_of_use, default_collate_catalog, default_collate_schema, default_collate_name
SELECT 'UTF8', 'UCS', 'UTF8', getvariable('database'), 'pg_catalog', 'C';

VIEW information_schema.schemata: catalog_name, schema_name, schema_owner
SELECT getvariable('database'), nspname, getvariable('user') FROM cat.pg_namespace;

VIEW information_schema.tables: table_catalog, table_schema, table_name, table_type, is_insertable_into, is_typed
SELECT getvariable('database'), n.nspname, c.relname, CASE c.relkind WHEN 'r' THEN 'BASE TABLE' ELSE 'VIEW' END, CASE WHEN n.nspname = 'streams' THEN 'YES' ELSE 'NO' END, 'NO' FROM cat.pg_class c JOIN cat.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v');

VIEW information_schema.views: table_catalog, table_schema, table_name, view_definition, check_option, is_updatable, is_insertable_into, is_trigger_updatable, is_trigger_deletable, is_trigger_insertable_into
SELECT getvariable('database'), n.nspname, c.relname, d.definition, 'NONE', 'NO', 'NO', 'NO', 'NO', 'NO' FROM cat.pg_class c JOIN cat.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN known.definitions d ON d.oid = c.oid WHERE c.relkind = 'v';

VIEW information_schema.columns: table_catalog, table_schema, table_name, column_name, ordinal_position, is_nullable, data_type, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, udt_catalog, udt_schema, udt_name, dtd_identifier, is_self_referencing, is_identity, identity_cycle, is_generated, is_updatable
SELECT getvariable('database'), n.nspname, c.relname, a.attname, a.attnum, CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END, CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY' ELSE s.shown END, CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24 WHEN 'float8' THEN 53 WHEN 'numeric' THEN CASE WHEN a.atttypmod >= 4 THEN (a.atttypmod - 4) // 65536 END END, CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN CASE WHEN t.typname LIKE 'float%' THEN 2 ELSE 2 END WHEN t.typname = 'numeric' THEN 10 END, CASE WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0 WHEN t.typname = 'numeric' AND a.atttypmod >= 4 THEN (a.atttypmod - 4) % 65536 END, CASE t.typname WHEN 'timestamptz' THEN 6 WHEN 'timestamp' THEN 6 WHEN 'date' THEN 0 END, getvariable('database'), 'pg_catalog', t.typname, a.attnum::VARCHAR, 'NO', 'NO', 'NO', 'NEVER', CASE WHEN n.nspname = 'streams' THEN 'YES' ELSE 'NO' END FROM cat.pg_attribute a JOIN cat.pg_class c ON c.oid = a.attrelid JOIN cat.pg_namespace n ON n.oid = c.relnamespace JOIN cat.pg_type t ON t.oid = a.atttypid JOIN known.types s ON s.oid = a.atttypid WHERE c.relkind IN ('r', 'v') AND a.attnum > 0;

VIEW information_schema.table_constraints: constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema, table_name, constraint_type, is_deferrable, initially_deferred, enforced
SELECT getvariable('database'), 'streams', k.conname, getvariable('database'), 'streams', c.relname, 'PRIMARY KEY', 'NO', 'NO', 'YES' FROM cat.pg_constraint k JOIN cat.pg_class c ON c.oid = k.conrelid;

VIEW information_schema.key_column_usage: constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema, table_name, column_name, ordinal_position
SELECT getvariable('database'), 'streams', k.conname, getvariable('database'), 'streams', c.relname, a.attname, list_position(k.conkey, a.attnum) FROM cat.pg_constraint k JOIN cat.pg_class c ON c.oid = k.conrelid JOIN cat.pg_attribute a ON a.attrelid = c.oid AND list_contains(k.conkey, a.attnum);

VIEW information_schema.constraint_column_usage: table_catalog, table_schema, table_name, column_name, constraint_catalog, constraint_schema, constraint_name
SELECT getvariable('database'), 'streams', c.relname, a.attname, getvariable('database'), 'streams', k.conname FROM cat.pg_constraint k JOIN cat.pg_class c ON c.oid = k.conrelid JOIN cat.pg_attribute a ON a.attrelid = c.oid AND list_contains(k.conkey, a.attnum);

VIEW information_schema.table_privileges: grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable, with_hierarchy
SELECT getvariable('user'), getvariable('user'), getvariable('database'), n.nspname, c.relname, 'SELECT', 'NO', 'YES' FROM cat.pg_class c JOIN cat.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v');
