SELECT c.relname::text, a.attname::text
FROM pg_catalog.pg_constraint AS k
JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS u(number, place)
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = u.number
WHERE n.nspname = $1 AND k.contype = 'p' AND NOT k.condeferrable ORDER BY c.relname, u.place
