SELECT c.relname::text, c.relkind::text,
    coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''),
    (SELECT max(u.attnum) FROM pg_catalog.pg_attribute AS u WHERE u.attrelid = c.oid)::text,
    a.attname::text, t.typname::text, t.typcategory::text, t.typtype::text, a.atttypmod::text,
    pg_catalog.format_type(a.atttypid, a.atttypmod), coalesce(pg_catalog.col_description(c.oid, a.attnum), '')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY c.relname, a.attnum
