SELECT DISTINCT coalesce(a.attname::text, ''), format('%I.%I', vn.nspname, v.relname)
FROM pg_catalog.pg_depend AS d
JOIN pg_catalog.pg_class AS c ON c.oid = d.refobjid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
JOIN pg_catalog.pg_class AS v ON v.oid = r.ev_class AND v.oid <> c.oid
JOIN pg_catalog.pg_namespace AS vn ON vn.oid = v.relnamespace
LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND d.refobjsubid > 0
WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
  AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
  AND n.nspname = $1 AND c.relname = $2 ORDER BY 1, 2
