-- The tables and views of the schema $1, each with its name and a document. The comment on what is left behind begins with $2; if a person
-- named it, it is theirs.
SELECT c.relname::text, pg_catalog.json_build_object(
    'is_plain', c.relkind = 'r',
    'is_left_behind', coalesce(pg_catalog."left"(pg_catalog.obj_description(c.oid, 'pg_class'), pg_catalog.length($2::text)) = $2, false)
        AND c.relname ~ '__left_behind_[0-9]+$',
    'has_row_security', c.relrowsecurity,
    'used', (SELECT coalesce(max(a.attnum), 0) FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid),
    'columns', (
        SELECT coalesce(json_agg(json_build_object(
            'name', a.attname,
            'data_type', pg_catalog.format_type(a.atttypid, a.atttypmod) || coalesce((
                SELECT format(' COLLATE %I.%I', ln.nspname, l.collname)
                FROM pg_catalog.pg_collation AS l JOIN pg_catalog.pg_namespace AS ln ON ln.oid = l.collnamespace
                WHERE l.oid = a.attcollation AND l.oid <> t.typcollation), ''),
            'is_computed', a.attgenerated <> '' OR a.attidentity <> '',
            -- A type that rounds or cuts values, or changes what it stores, is another type. Texts of an extension are texts.
            'pg_type', CASE
                WHEN t.typtype <> 'b' THEN NULL
                WHEN t.typcategory = 'S' AND t.typname NOT IN ('bpchar', 'name', 'char') THEN 'text'
                WHEN t.typname = 'int8' THEN 'bigint'
                WHEN t.typname = 'bool' THEN 'boolean'
                WHEN t.typname = 'numeric' AND a.atttypmod = -1 THEN 'numeric'
                WHEN t.typname = 'float8' THEN 'double precision'
                WHEN t.typname = 'timestamptz' AND a.atttypmod IN (-1, 6) THEN 'timestamptz'
                WHEN t.typname IN ('date', 'jsonb') THEN t.typname::text
            END
        ) ORDER BY a.attnum), '[]')
        FROM pg_catalog.pg_attribute AS a
        JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ),
    -- A key that is checked late cannot be used to write rows.
    'key', (
        SELECT coalesce(json_agg(a.attname ORDER BY u.place), '[]')
        FROM pg_catalog.pg_constraint AS k
        CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS u(number, place)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = u.number
        WHERE k.conrelid = c.oid AND k.contype = 'p' AND NOT k.condeferrable
    ),
    'indexes', (
        SELECT coalesce(json_agg(replace(substring(pg_catalog.pg_get_indexdef(x.indexrelid) FROM ' USING (.*)$'), '"', '')), '[]')
        FROM pg_catalog.pg_index AS x WHERE x.indrelid = c.oid AND x.indisvalid AND NOT x.indisunique
    ),
    'users', (
        SELECT coalesce(json_agg(DISTINCT format('%I.%I', vn.nspname, v.relname)), '[]')
        FROM (
            SELECT r.ev_class FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
            WHERE d.refobjid = c.oid AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
                AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
            UNION SELECT h.inhparent FROM pg_catalog.pg_inherits AS h WHERE h.inhrelid = c.oid
        ) AS u(oid)
        JOIN pg_catalog.pg_class AS v ON v.oid = u.oid AND v.oid <> c.oid
        JOIN pg_catalog.pg_namespace AS vn ON vn.oid = v.relnamespace
    )
)::text
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY 1
